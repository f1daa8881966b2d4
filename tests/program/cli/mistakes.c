/* What people get wrong, and what they are told: a row is a command, its exit code, and what the
 * message must contain: the value, the place, what to do. A message is said once, and is whole.
 * Rows run one after the other in one folder. */
#include "rig/clean_room.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAYS_MOST 4

struct mistake {
    const char *command; /* of a shell, in a folder of its own */
    int code;
    const char *says[SAYS_MOST]; /* the first of them once */
};

#define WINE "gyre train --preset wine --epochs 1 --quiet "

static const struct mistake mistakes[] = {
    /* commands and their words */
    {"gyre rnu", 2, {"gyre: unknown command 'rnu'; did you mean 'gyre run'?"}},
    {"gyre xyzzy", 2, {"unknown command 'xyzzy'; `gyre help` lists the commands"}},
    {"gyre run", 2, {"gyre run: no program given; usage: gyre run [FLAGS] PROGRAM"}},
    {"gyre run -n two true", 2, {"is \"two\": expected a whole number from 1 to 4096"}},
    {"gyre run --nproc 2 true", 2, {"'--nproc'; did you mean '--nproc-per-node'?"}},
    {"gyre run -n 2 --backend tpc true", 2, {"--backend is \"tpc\": expected auto", "\"tcp\"?"}},
    {"gyre run -n 5 --simulate-nodes 2x2 true", 2, {"differ: the nodes have 4 ranks"}},
    {"gyre run --nnodes 2 --node-rank 2 true", 2, {"--node-rank is 2; expected 0 to 1"}},
    {"gyre run -n 2 --log-dir /proc/x true", 2, {"--log-dir: cannot make folder '/proc/x': "}},
    {"gyre run -n 2 --devices x true",
     2,
     {"gyre run: --devices is \"x\": expected numbers with commas between", "such as 2,4,7"}},
    {WINE "--devices '0;1' --ranks 2", 2, {"gyre train: --devices is \"0;1\": expected numbers"}},
    {"gyre show al_reduce", 2, {"operation is \"al_reduce\": expected ", "\"all_reduce\"?"}},
    {"gyre show all_reduce --algo rnig", 2, {"--algo is \"rnig\": expected ring", "\"ring\"?"}},
    {"gyre show choices --op foo", 2, {"--op is \"foo\": expected all_reduce, "}},
    {"gyre show choices --nodes 4x",
     2,
     {"--nodes 4x: it should be the ranks of each node, as 4+2"}},
    {"gyre show sampler --samples 0", 2, {"--samples is \"0\": expected a whole number from 1"}},
    {"gyre tune --ranks 0", 2, {"gyre tune: --ranks is \"0\": expected a whole number from 2"}},
    {"gyre tune", 2, {"gyre tune: one rank alone has no links: start more with -n"}},
    {"gyre inspect", 2, {"gyre inspect: which file? Give a safetensors file or a folder"}},
    {"gyre inspect /nowhere/x", 1, {"gyre inspect: /nowhere/x: cannot open it: No such file"}},
    {"mkdir empty; gyre inspect empty", 1, {"gyre inspect: empty: no checkpoint is there: "}},
    {"gyre doctor --tri", 2, {"gyre doctor: unknown flag '--tri'; did you mean '--try'?"}},

    /* options of a training, on one rank and on several */
    {"gyre train", 2, {"gyre train: nothing to train on: --data FILE, or --preset wine"}},
    {WINE "--epochs 0",
     0,
     {"nothing to do: --epochs is 0; --evaluate says what weights make of the data"}},
    {WINE "--save run && " WINE "--save run --resume",
     0,
     {"nothing to do: run has epoch 1 of 1 already", "--resume --epochs 2"}},
    {"gyre train --preset vine",
     2,
     {"--preset is \"vine\": expected wine, digits or mnist", "\"wine\"?"}},
    {"gyre train --data wien", 1, {"gyre train: wien: no such file; did you mean \"wine\"?"}},
    {WINE "--bacth 3", 2, {"unknown flag '--bacth'; did you mean '--batch'?"}},
    {WINE "--epochs", 2, {"--epochs needs a value: --epochs COUNT"}},
    {WINE "--lr fast", 2, {"--lr fast: a number from 0 to 1e+06 is expected"}},
    {WINE "--optimizer adma", 2, {"\"adma\": expected sgd, adam or adamw", "\"adam\"?"}},
    {WINE "--layers 13,x,3", 2, {"--layers is \"x\": expected a whole number"}},
    {WINE "--layers 12,3", 2, {"--layers 12,3 begins with 12; samples of wine have 13 numbers"}},
    {WINE "--nesterov", 2, {"--nesterov needs --optimizer sgd and a --momentum above 0"}},
    {WINE "--resume", 2, {"--resume, --save-every and --keep best need --save DIR"}},
    {WINE "--ranks 2 --batch 1000", 2, {"--batch 1000 is larger than wine, which has 142 samples"}},
    {WINE "--ranks 2 --global-batch 33", 2, {"33 does not divide by 2 ranks; with --tail once it"}},
    {WINE "--ranks 2 --tail once --shares 1,2,3", 2, {"--shares 1,2,3: 2 numbers are expected"}},
    {WINE "--ranks 2 --init /nowhere/x", 1, {"/nowhere/x: cannot open it: No such file"}},
    {WINE "--ranks 3 --metrics /nowhere/m", 1, {"opening /nowhere/m to write: No such file"}},
    {WINE "--ranks 2 --save /proc/x", 1, {"gyre train: --save: /proc/x: cannot make it: "}},
    {"gyre run -n 3 gyre train --config nofile", 1, {"gyre train: --config nofile: No such file"}},
    {"gyre train --preset mnist --ranks 2",
     1,
     {"gyre train: mnist: train-images-idx3-ubyte.gz is not in this folder; \"MNIST and CIFAR-10\" "
      "in docs/training.md has the commands that fetch it"}},
    {"gyre train --preset digits --test cifar10:test",
     1,
     {"cifar10:test: cifar-10-batches-bin/test_batch.bin is not in this folder; \"MNIST and"}},

    /* ranks that were told different things */
    {"gyre run -n 3 sh -c '" WINE "--seed $RANK'",
     2,
     {"gyre train: --seed is 0 on rank 0 (host ", ") and 1 on rank 1 (host ",
      "; give all ranks the same\n"}},
    {"gyre run -n 2 sh -c 'GYRE_LANES=$((RANK + 1)) " WINE "'",
     2,
     {"gyre train: GYRE_LANES is 1 on rank 0 (host ", ") and 2 on rank 1 (host ",
      "; give all ranks the same\n"}},

    /* jobs inside jobs */
    {"gyre run -n 2 " WINE "--ranks 2",
     2,
     {"gyre train: --ranks 2: this is a rank of a job of 2 already (by gyre run)",
      "leave --ranks out to train over the 2"}},
    {"RANK=1 WORLD_SIZE=3 " WINE "--ranks 4",
     2,
     {"--ranks 4: this is a rank of a job of 3 already (by environment)"}},
    {"gyre run -n 2 gyre run -n 3 true",
     2,
     {"gyre run: this is a rank of another `gyre run` already, of 2 ranks", "--nested"}},
    {"gyre run -n 1 gyre run -n 3 true", 2, {"of another `gyre run` already, of 1 rank,"}},

    /* too many ranks: refused before any is started */
    {WINE "--ranks 200",
     2,
     {"gyre train: 200 ranks are more than the 142 samples of wine: each rank needs one"}},
    {"printf '1,0\n2,1\n' >two.csv; gyre train --data two.csv --layers 1,2 --ranks 3",
     2,
     {"gyre train: 3 ranks are more than the 2 samples of two.csv"}},
    {"gyre run -n 3 gyre train --data two.csv --layers 1,2",
     2,
     {"gyre train: 3 ranks are more than the 2 samples of two.csv"}},
    {"taskset -c 0 gyre train --data random:5000,3,3 --layers 3,3 --ranks 100",
     2,
     {"--ranks 100: this machine has 1 core for them, and at most 64 ranks train on a core"}},
    {WINE "--ranks 9999", 2, {"--ranks is \"9999\": expected a whole number from 1 to 4096"}},

    /* data */
    {"printf '\\0\\0\\10\\3\\0\\0\\0\\3\\0\\0\\0\\1\\0\\0\\0\\2abcdef' >v-images-idx3-ubyte; "
     "printf '\\0\\0\\10\\1\\0\\0\\0\\3\\1\\2\\3' >v-labels-idx1-ubyte; "
     "gyre train --data v-images-idx3-ubyte --layers 2,3",
     2,
     {"--layers 2,3 ends in 3; classes count from 0, but the labels of v-images-idx3-ubyte are 1 "
      "to 3",
      "or end in 4"}},
    {"printf '1,2,0\n3,x,1\n' >a.csv; gyre train --data a.csv --layers 2,2 --ranks 2",
     2,
     {"gyre train: a.csv, line 2, column 2: \"x\" is not a number"}},
    {"printf '1,2,0\n3,1\n' >a.csv; gyre train --data a.csv --layers 2,2",
     2,
     {"a.csv, line 2: 2 fields, where the first line has 3"}},
    {"printf '1,2,0\n3,4,0.5\n' >a.csv; gyre train --data a.csv --layers 2,2",
     2,
     {"a.csv: the label \"0.5\" is no class; numbers to approximate are for --loss mse"}},
    {"printf 'a,1,2\nb,3,4\n' >a.csv; gyre train --data a.csv",
     2,
     {"a.csv, line 1, column 1: \"a\" is not a number; if that column is the label, "
      "--label-column names it"}},
    {"echo hello >a.safetensors; gyre train --data a.safetensors --layers 2,2",
     2,
     {"a.safetensors: 6 bytes are too short for a safetensors file"}},
    {"gyre train --data random:10 --layers 1,1", 2, {"expected random:SAMPLES,NUMBERS,CLASSES"}},

    /* programs that cannot be started */
    {"echo 'print(1)' >train.py; gyre run -n 2 train.py",
     127,
     {"gyre run: cannot start 'train.py' on ",
      ": No such file or directory in PATH; did you mean './train.py'?"}},
    {"gyre run -n 2 ./train.py",
     126,
     {"cannot start './train.py' on ", ": Permission denied; make it executable (chmod +x), or "
                                       "name what runs it: python3 ./train.py"}},
    {"gyre run -n 2 /tmp",
     126,
     {"cannot start '/tmp' on ", ": Permission denied; it is a folder\n"}},
    {"gyre run -n 4 no-such-program", 127, {"cannot start 'no-such-program' on ", " in PATH\n"}},

    /* files of options */
    {"echo 'learning_rate = 3' >job.conf; gyre train --config job.conf --ranks 2",
     2,
     {"job.conf, line 1: unknown option '--learning-rate'; did you mean '--lr'?"}},
    {"printf 'preset = wine\nweight_decay = x\n' >job.conf; gyre train --config job.conf",
     2,
     {"job.conf, line 2: --weight-decay x: a number from 0 to 1e+06 is expected"}},
    {"echo 'ranks = 2' >job.conf; gyre train --config job.conf",
     2,
     {"job.conf, line 1: ranks is no option of the training but a flag: gyre train --ranks"}},
    {"echo 'lr 0.1' >job.conf; gyre train --config job.conf",
     2,
     {"job.conf, line 1: 'lr 0.1': a line is `name = value`"}},

    /* values of variables */
    {"GYRE_LANES=9 " WINE "--ranks 3", 2, {"GYRE_LANES is \"9\": expected a whole number from 1"}},
    {"GYRE_LOG=loud gyre run -n 2 " WINE, 2, {"GYRE_LOG is \"loud\": expected error, warn, info"}},
    {"GYRE_TIMEOUT='5 sec' gyre run -n 2 " WINE, 2, {"\"5 sec\": expected a time such as 250ms"}},
    {"GYRE_SLICE=0 gyre run -n 2 " WINE, 2, {"GYRE_SLICE is \"0\": expected more than 0"}},
    {"GYRE_TUNE_FILE=/nowhere gyre run -n 2 " WINE,
     1,
     {"tuning file /nowhere: cannot open it: No such file"}},
    {"GYRE_BLAS=mkl gyre run -n 2 " WINE, 2, {"\"mkl\": expected auto, own or openblas"}},
    {"GYRE_DEVICES=a gyre run -n 2 " WINE,
     2,
     {"the list of CUDA devices (--devices, GYRE_DEVICES)"}},
    {"GYRE_REPRODUCIBLE=1 GYRE_ALGO=ring gyre run -n 2 " WINE,
     2,
     {"GYRE_ALGO names \"ring\", which does not sum in the order of ranks", "(direct)"}},
    {"GYRE_TRANSPORT=shm gyre run --simulate-nodes 1+1 " WINE,
     1,
     {"transport \"shm\" needs all ranks to share memory", "; use \"auto\""}},
    {"GYRE_LANES=9 gyre show env", 2, {"gyre show env: GYRE_LANES is \"9\": expected a whole"}},
    {"RANK=0 " WINE, 2, {"RANK is \"0\" but WORLD_SIZE is not set: set both or neither"}},
    {"RANK=2 WORLD_SIZE=2 " WINE, 2, {"RANK is \"2\": expected a whole number from 0 to 1"}},

    /* variables that nothing reads: once per job */
    {"GYRE_TRANSPRT=tcp gyre run -n 3 " WINE,
     0,
     {"gyre run: nothing reads GYRE_TRANSPRT (did you mean \"GYRE_TRANSPORT\"?)"}},
    {"GYRE_AGLO=ring " WINE, 0, {"nothing reads GYRE_AGLO (did you mean \"GYRE_ALGO\"?)"}},
    {"GYRE_AGLO=ring " WINE "--ranks 3", 0, {"nothing reads GYRE_AGLO"}},
    {"GYRE_AGLO=ring gyre run --simulate-nodes 2x2 " WINE, 0, {"nothing reads GYRE_AGLO"}},
    {"printf '#!/bin/sh\nshift; exec env -u GYRE_LAUNCHER_FD sh -c \"$1\"\n' >ssh; chmod +x ssh;"
     "GYRE_SSH=./ssh GYRE_AGLO=ring gyre run --hosts 127.0.0.1:2 " WINE,
     0,
     {"nothing reads GYRE_AGLO"}},
    {"export GYRE_KYE=secret GYRE_JOB=mine WORLD_SIZE=3;"
     "for r in 0 1 2; do RANK=$r " WINE "& done; wait",
     0,
     {"nothing reads GYRE_KYE (did you mean \"GYRE_KEY\"?)", "[rank 0 @ "}},
    {"GYRE_LANSE=2 gyre show choices -n 2 --to 8", 0, {"nothing reads GYRE_LANSE"}},
    {"GYRE_BLASS=own gyre predict --init run --data wine:test --out guessed",
     0,
     {"gyre predict: nothing reads GYRE_BLASS (did you mean \"GYRE_BLAS\"?)"}},
    {"GYRE_BLASS=own gyre doctor >told; grep GYRE_BLASS told",
     0,
     {"nothing reads GYRE_BLASS (did you mean \"GYRE_BLAS\"?)"}},
    {"GYRE_LANSE=2 gyre show env", 0, {"gyre show: nothing reads GYRE_LANSE"}},
    {"GYRE_WHATEVER=1 gyre run true", 0, {"GYRE_WHATEVER; `gyre show env` lists what is read"}},

    /* benches */
    {"gyre run -n 3 $BENCH/all_reduce --opp sum",
     2,
     {"gyre bench: --opp: no such flag", "-h lists"}},
    {"gyre run -n 2 $BENCH/all_reduce -o foo", 2, {"gyre bench: -o foo: expected sum, prod, min"}},
    {"$BENCH/all_reduce -b 1M -e 1K",
     2,
     {"gyre bench: -e 1024: expected at least the -b size, which is 1048576"}},
    {"GYRE_ALGO=rign gyre run -n 3 $BENCH/all_reduce -b 8 -e 8",
     2,
     {"gyre_init: GYRE_ALGO is \"rign\": expected ring", "(did you mean \"ring\"?)"}},
};

/* -- running ----------------------------------------------------------------------------------- */

static char output[1 << 16];

static int run_command(const char *command)
{
    char line[4096];
    snprintf(line, sizeof line, "cd %s && { %s\n} </dev/null 2>&1", rig_folder(), command);
    FILE *out = popen(line, "re");
    assert_non_null(out);
    output[fread(output, 1, sizeof output - 1, out)] = 0;
    int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count_parts(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* A message that was cut is long and ends in "...". */
static bool is_cut(void)
{
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        if (length > 500 && memcmp(line + length - 3, "...", 3) == 0)
            return true;
    }
    return false;
}

static bool is_told(const struct mistake *mistake)
{
    for (int i = 0; i < SAYS_MOST && mistake->says[i]; i++)
        if (!strstr(output, mistake->says[i]))
            return false;
    return count_parts(output, mistake->says[0]) == 1 && !is_cut();
}

static void every_mistake_is_told_once(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (strstr(mistakes[i].command, "$BENCH") && !getenv("BENCH"))
            continue;
        int code = run_command(mistakes[i].command);
        if (code == mistakes[i].code && is_told(&mistakes[i]))
            continue;
        print_error("%s\nexit code %d, expected %d with, once: %s\n%s\n", mistakes[i].command, code,
                    mistakes[i].code, mistakes[i].says[0], output);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* What looks like one of them and is none. */
static void what_is_meant_is_done(void **state)
{
    static const struct {
        const char *command, *output;
    } fine[] = {
        {"gyre run -n 2 gyre run --nested -n 1 echo $WORLD_SIZE here", "[0] [0] here\n"},
        {"RANK=0 WORLD_SIZE=1 " WINE "--ranks 2", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (run_command(fine[i].command) || !strstr(output, fine[i].output))
            fail_msg("%s:\n%s", fine[i].command, output);
}

/* The tool is found as `gyre`, and nothing that this shell has set counts. */
static void find_tool(void)
{
    char path[8192], self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    for (int i = 0; i < 2; i++)
        *strrchr(self, '/') = 0;
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", self);
    clean_room_only_path();
    setenv("PATH", path, 1);
    setenv("HOME", rig_folder(), 1);
    strcat(self, "/bench");
    if (access(self, F_OK) == 0)
        setenv("BENCH", self, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_told_once),
        cmocka_unit_test(what_is_meant_is_done),
    };
    find_tool();
    return cmocka_run_group_tests_name("mistakes", tests, NULL, NULL);
}
