/* The benches as a stranger runs them: real ranks, real library, and faults that must show. In
 * haste one fault is planted into each bench, the two faults by turns. */
#include "rig/clean_room.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdbool.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[1 << 20];
static char folder[] = "/tmp/gyre-test-bench-XXXXXX";

/* -- helpers ----------------------------------------------------------------------------------- */

/* This program is <build>/tests/proc_bench; the benches are <build>/bench/<name>. */
static const char *build_folder(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) {
            *slash = '\0';
        }
    }
    return path;
}

/* Runs `line` with the benches' folder for B/; both outputs go to `output`. The exit code. */
static int run(const char *before, const char *line)
{
    char command[8192];
    snprintf(command, sizeof command, "cd %s && %s %s/bench/%s 2>&1", folder, before,
             build_folder(), line);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_code(int code, int expected)
{
    if (code != expected) {
        fail_msg("exit code %d, expected %d:\n%s", code, expected, output);
    }
}

static void expect_text(const char *text)
{
    if (!strstr(output, text)) {
        fail_msg("\"%s\" is not in:\n%s", text, output);
    }
}

/* Of a bench that measures its ceiling, too: a busy machine may have held up the ceiling alone, and
 * the bench then says that no machine is as fast as its rows. */
static void expect_measured(int code)
{
    expect_code(code, strstr(output, "FAILED: no machine") ? 1 : 0);
}

struct tally {
    int rows;
    int words_wrong; /* rows that have not 13 words */
    double wrong;    /* elements, both directions */
};

static void count_row(char *line, struct tally *tally)
{
    char *words[32] = {NULL};
    int count = 0;
    for (char *rest, *word = strtok_r(line, " ", &rest); word && count < 32;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    tally->rows++;
    tally->words_wrong += count != 13;
    if (count == 13) {
        tally->wrong += atof(words[8]) + atof(words[12]);
    }
}

static struct tally tally_rows(void)
{
    struct tally tally = {0, 0, 0};
    for (char *rest, *line = strtok_r(output, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == ' ') {
            count_row(line, &tally);
        }
    }
    assert_int_equal(tally.words_wrong, 0);
    return tally;
}

/* -- tests ------------------------------------------------------------------------------------- */

static void test_all_reduce(void **state)
{
    expect_code(run("", "all_reduce --ranks 2 -b 8 -e 64K -f 8 -n 20"), 0);
    assert_ptr_equal(strstr(output, "# Gyre version "), output);
    expect_text(" in the format of nccl-tests 2.19.6\n# Collective test starting: all_reduce\n");
    expect_text("# Share in-place       : ");
    char cores[32];
    snprintf(cores, sizeof cores, " on %ld cores", sysconf(_SC_NPROCESSORS_ONLN));
    expect_text(cores); /* the machine's: each rank is bound to one */
    expect_text("# Out of bounds values : 0 OK\n");
    expect_text("# Avg bus bandwidth    : ");
    expect_text("# Collective test concluded: all_reduce\n#\n\n");
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 5);
    assert_true(tally.wrong == 0);
}

static void test_all_types_and_operations(void **state)
{
    expect_code(
        run("", "all_reduce --ranks 3 -b 1000 -e 1000 -n 3 -w 0 -d all -o all --no-ceiling"), 0);
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 6 * 6 + 8 * 9); /* floats, integers */
    assert_true(tally.wrong == 0);
}

static void test_broadcast_from_each_root(void **state)
{
    expect_code(
        run("", "broadcast --ranks 3 -b 4 -e 256K -f 256 -n 5 -r -1 --memory malloc --no-ceiling"),
        0);
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 3 * 3);
    assert_true(tally.wrong == 0);
}

/* The ceiling takes seconds: test_sockets_of_small_rows and test_ceilings have it. */
static void test_over_sockets(void **state)
{
    const char *line = "all_reduce --ranks 2 -b 4 -e 256K -f 256 -n 5 --transport tcp --fresh "
                       "--no-ceiling";
    expect_code(run("", line), 0);
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 3);
    assert_true(tally.wrong == 0);
}

static void test_header_names_the_poller(void **state)
{
    const char *line = "all_reduce --ranks 2 -b 8 -e 8 -n 2 --no-ceiling --transport tcp";
    expect_code(run("GYRE_TCP_POLLER=epoll", line), 0);
    expect_text("\n# poller epoll, memory gyre");
    expect_code(run("", line), 0);
    expect_text(" poller ");
    if (strstr(output, " poller auto")) {
        fail_msg("a wish is told:\n%s", output);
    }
    expect_code(run("GYRE_TCP_POLLER=epoll", "all_reduce --ranks 2 -b 8 -e 8 -n 2 --no-ceiling"),
                0);
    expect_text("\n# poller none, memory gyre");
}

/* The rates are measured over the bytes that the largest row has, again and again: of 64 MiB in
 * sends of 64 bytes nobody would see the end. */
static void test_sockets_of_small_rows(void **state)
{
    expect_measured(
        run("timeout 100", "all_reduce --ranks 2 -b 8 -e 64 -f 8 -n 20 --transport tcp"));
    expect_text("bare sockets");
    assert_int_equal(tally_rows().rows, 2);
}

static void test_one_rank(void **state)
{
    expect_code(run("", "allreduce -b 64 -e 64 -n 5"), 0); /* its name in version 0.1 */
    expect_text("none for 1 rank");
    assert_int_equal(tally_rows().rows, 1);
}

static void test_barrier(void **state)
{
    expect_code(run("", "barrier --ranks 3 -b 8 -e 64K -f 8 -n 20 -c 3"), 0);
    assert_int_equal(tally_rows().rows, 1);
    static const char *const plants[] = {"GYRE_BENCH_PLANT=element", "GYRE_BENCH_PLANT=stale"};
    for (int i = 0; i < 2; i++) {
        expect_code(run(plants[i], "barrier --ranks 3 -n 2"), 1);
        expect_text("# Out of bounds values : 1 FAILED\n");
    }
}

static void test_link(void **state)
{
    int rows = 0;
    expect_code(run("", "link --ranks 2 -b 8 -e 64K -f 64"), 0);
    for (const char *at = output; *at; at++) {
        rows += at[0] == '\n' && at[1] == ' ';
    }
    assert_int_equal(rows, 3);
    expect_code(run("", "link --ranks 3 -b 8 -e 8"), 2);
    expect_text("use --ranks 2");
    expect_code(run("", "link --help"), 0);
    assert_null(strstr(output, "--csv"));
    assert_null(strstr(output, "-J"));
    expect_code(run("", "all_reduce --help"), 0);
    expect_text("\n  -J, ");
    expect_text("\n      --csv ");
    expect_text("\n      --no-ceiling ");
}

static void test_late(void **state)
{
    expect_code(run("", "late --ranks 3 -n 30"), 0);
    expect_text(" 4096 B, 30 calls, in each one rank 1000 us late\n");
    expect_text("\n     2 ");
    expect_text("# Most of a core that a waiting rank uses : ");
    expect_code(run("", "late -n 3"), 2);
}

/* With 3 ranks and 3 rows: how many checks must find a fault that is planted. */
static const struct {
    const char *program;
    int element; /* one rank's result has one wrong element */
    int stale;   /* one rank gives what it gave before */
} operations[] = {
    {"all_gather", 6, 18}, {"all_gather_v", 6, 18},   {"all_reduce", 6, 18},
    {"all_to_all", 6, 18}, {"broadcast", 6, 18},      {"gather", 6, 6},
    {"reduce", 6, 6},      {"reduce_scatter", 6, 18}, {"scatter", 6, 18},
    {"sendrecv", 3, 3},    {"all_to_all_v", 6, 18},
};

static void expect_rows(const char *program, const char *plant, int found)
{
    char line[256], footer[64];
    snprintf(line, sizeof line, "%s --ranks 3 -b 64 -e 64K -f 32 -n 2 -r 1 --no-ceiling", program);
    snprintf(footer, sizeof footer, "# Out of bounds values : %d %s\n", found,
             found ? "FAILED" : "OK");
    expect_code(run(plant, line), found > 0);
    expect_text(footer);
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 3);
    assert_true(found ? tally.wrong >= found : tally.wrong == 0);
}

static const char *find_text(const char *text)
{
    expect_text(text);
    return strstr(output, text);
}

/* The times from which it is worked out are printed with four digits and more. */
static void expect_share(const char *text, double expected)
{
    double told = atof(find_text(text) + strlen(text)), rounding = 0.1 + fabs(expected) / 1000;
    if (!(told > expected - rounding && told < expected + rounding))
        fail_msg("%s%g, expected %g:\n%s", text, told, expected, output);
}

/* One round, so that the medians are that round's and what follows from them can be worked out. */
static void expect_step_figures(double n)
{
    double alone, on, off, bare;
    const char *header = "round,alone_us,on_us,off_us,bare_us,skew_us\n";
    assert_int_equal(
        sscanf(find_text(header) + strlen(header), "1,%lf,%lf,%lf,%lf", &alone, &on, &off, &bare),
        4);
    assert_true(alone > 0 && on > 0 && off > 0 && bare > 0);
    expect_share("# scaling ", n * alone / on);
    expect_share("bound ", n * alone / (off + bare));
    expect_share("share of the bound ", 100 * (off + bare) / on);
    expect_share("hidden ", 100 * (1 - (on - off) / bare));
}

static void test_step(void **state)
{
    const char *line = "step --layers 30,200,5 --batch 64 --ranks 2 --rounds 1 --steps 20 --bucket "
                       "1K --csv step.csv && cat step.csv";
    expect_code(run("", line), 0);
    expect_step_figures(2);
    expect_text("1 rounds of 20 steps");
    expect_code(run("", "step --layers 4,2 --batch 1 --ranks 3 --rounds 2 --transport tcp "
                        "--optimizer adam --steps 2"),
                0);
    expect_text("3 ranks on ");
    expect_code(run("GYRE_BENCH_PLANT=nan", "step --layers 4,2 --ranks 2 --rounds 1 --steps 2"), 1);
    expect_text("a loss or a gradient is not finite");
    expect_code(run("", "step --layers 4"), 2);
    expect_text("--layers");
    expect_code(run("", "step --batch 0"), 2);
    expect_code(run("GYRE_BENCH_PLANT=element", "step --ranks 2"), 2);
}

static void test_every_operation(void **state)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        expect_rows(operations[i].program, "", 0);
    }
}

static void test_planted_faults_show(void **state)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (!in_haste() || i % 2)
            expect_rows(operations[i].program, "GYRE_BENCH_PLANT=element", operations[i].element);
        if (!in_haste() || i % 2 == 0)
            expect_rows(operations[i].program, "GYRE_BENCH_PLANT=stale", operations[i].stale);
    }
}

/* Passes that read more than they write, or the other way round; and a pair of sockets. */
static void test_ceilings(void **state)
{
    static const char *const lines[] = {"reduce --ranks 3 -b 64K -e 64K -n 5",
                                        "all_gather --ranks 3 -b 64K -e 64K -n 5",
                                        "gather --ranks 3 -b 64K -e 64K -n 5 --transport tcp"};
    static const char *const texts[] = {" read by sum of ", " written by ", "bare sockets"};
    for (int i = 0; i < 3; i++) {
        expect_measured(run("", lines[i]));
        expect_text(texts[i]);
        expect_text("# Share in-place       : ");
    }
}

/* What the bench asks of the library for itself is not its business. */
static void test_an_algorithm_is_for_what_is_timed(void **state)
{
    expect_code(run("", "all_gather --ranks 3 -b 3K -e 3K -n 2 --algo bruck --no-ceiling"), 0);
    expect_text("algorithm all_gather:bruck");
    expect_code(run("", "all_gather_v --ranks 3 -b 3K -e 3K -n 2 --algo bruck --no-ceiling"), 0);
    expect_code(run("", "scatter --ranks 3 -b 3K -e 3K -n 2 --algo tree --no-ceiling"), 0);
    const char *const sums[] = {"ring",    "direct",    "tree",  "doubling",   "halving_doubling",
                                "knomial", "two_level", "chain", "double_tree"};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "all_reduce --ranks 3 -b 3K -e 3K -n 2 --no-ceiling --algo %s",
                 sums[i]);
        expect_code(run("", line), 0);
    }
    expect_code(run("", "all_gather --ranks 2 -b 8 -e 8 -n 2 --algo doubling"), 2);
    expect_text("algorithm \"doubling\" has no all_gather");
}

static void test_json_is_never_overwritten(void **state)
{
    char path[128], text[64] = "";
    expect_code(run("", "all_reduce --ranks 2 -b 8 -e 8 -n 2 -I1 -J r.json --no-ceiling"), 0);
    expect_code(run("", "all_reduce --ranks 2 -b 8 -e 8 -n 2 -J r.json --csv r.csv --no-ceiling"),
                0);
    expect_text("# Writing JSON output to r.json.0\n");
    static const char *const names[] = {"r.json", "r.json.0", "r.csv"};
    static const char *const starts[] = {"{\"version\":3,", "{\"version\":3,", "size,count,type,"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof text, file));
        assert_memory_equal(text, starts[i], strlen(starts[i]));
        fclose(file);
    }
}

/* The only line. */
static void expect_line(const char *before, const char *line, const char *text)
{
    expect_code(run(before, line), 2);
    expect_text(text);
    const char *end = strchr(output, '\n');
    if (!end || end[1]) {
        fail_msg("more than one line, or none:\n%s", output);
    }
}

static void make_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

/* size and iterations of the rows of a file in the folder */
static void read_csv(const char *name, long sizes[4], long iterations[4])
{
    char path[128], line[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    for (int row = 0; row < 4 && fgets(line, sizeof line, file); row++) {
        assert_int_equal(
            sscanf(line, "%ld,%*[^,],%*[^,],%*[^,],%*[^,],%ld", &sizes[row], &iterations[row]), 2);
    }
    fclose(file);
}

static void test_listed_sizes(void **state)
{
    long sizes[4] = {0}, calls[4] = {0};
    (void)state;
    expect_code(
        run("", "all_reduce --ranks 2 --sizes 8,1000,64K:3 -n 7 --csv sizes.csv --no-ceiling"), 0);
    struct tally tally = tally_rows();
    assert_int_equal(tally.rows, 3);
    assert_true(tally.wrong == 0);
    read_csv("sizes.csv", sizes, calls);
    assert_true(sizes[0] == 8 && sizes[1] == 1000 && sizes[2] == 65536 && sizes[3] == 0);
    assert_true(calls[0] == 7 && calls[1] == 7 && calls[2] == 3);
    expect_code(run("", "all_reduce --ranks 2 --sizes 8,64K -b 16 -e 32 -n 2 --no-ceiling"), 0);
    tally = tally_rows();
    assert_int_equal(tally.rows, 2);
    assert_true(tally.wrong == 0);
    expect_code(run("", "link --ranks 2 --sizes 8,1000"), 0);
    expect_text("\n        1000 ");
    expect_line("", "all_reduce --ranks 2 --sizes 8,8", "each size above the one before");
    expect_line("", "all_reduce --ranks 2 --sizes 8,,64", "a size such as");
    expect_line("", "all_reduce --ranks 2 --sizes 8,64:0", "a whole number from 1");
}

static void test_bad_input_ends_every_rank(void **state)
{
    expect_line("", "all_reduce --fersh", "--fresh");
    expect_line("", "broadcast --ranks 2 -b 8 -e 8 -r 2", "-r 2: expected a rank from 0 to 1");
    expect_line("RANK=0 WORLD_SIZE=1", "broadcast -b 8 -e 8 -r 1", "-r 1: expected a rank from 0");
    expect_line("", "all_reduce --ranks 2 -b 8 -e 8 --algo rign", "\"ring\"?");
    expect_line("", "all_reduce --ranks 2 -b 8 -e 8 -J /none/x", "-J /none/x: cannot write");
    expect_line("GYRE_TIMEOUT=ages", "all_reduce --ranks 2", "GYRE_TIMEOUT is \"ages\"");
    make_file("open.key", "", 0644);
    expect_line(
        "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 GYRE_KEY_FILE=open.key",
        "all_reduce", "has mode 0644");
    expect_line("", "link --ranks 2 -b 8 -e 8 --csv x", "--csv x: expected no file");
    expect_line("", "late --ranks 2 -J x", "-J x: expected no file");
    expect_code(run("GYRE_BENCH_PLANT=stael", "all_reduce --ranks 2 -b 8 -e 8"), 2);
    expect_text("stale");
    expect_code(run("RANK=0 WORLD_SIZE=2", "all_reduce --ranks 2"), 2);
}

static void test_the_first_failure_is_the_exit_code(void **state)
{
    expect_code(
        run("NCCL_TESTS_MIN_BW=1000000", "all_reduce --ranks 2 -b 8 -e 8 -n 2 --no-ceiling"), 1);
    expect_text("FAILED");
}

static int make_folder(void **state)
{
    return clean_room_make(folder);
}

static int remove_folder(void **state)
{
    return clean_room_remove(folder);
}

int main(void)
{
    char bench[4200];
    clean_room_only_path();
    snprintf(bench, sizeof bench, "%s/bench/all_reduce", build_folder());
    if (access(bench, X_OK) != 0) {
        printf("skipped: %s is not built\n", bench);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_listed_sizes),
        cmocka_unit_test(test_all_types_and_operations),
        cmocka_unit_test(test_broadcast_from_each_root),
        cmocka_unit_test(test_over_sockets),
        cmocka_unit_test(test_header_names_the_poller),
        cmocka_unit_test(test_sockets_of_small_rows),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_every_operation),
        cmocka_unit_test(test_planted_faults_show),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_an_algorithm_is_for_what_is_timed),
        cmocka_unit_test(test_json_is_never_overwritten),
        cmocka_unit_test(test_bad_input_ends_every_rank),
        cmocka_unit_test(test_the_first_failure_is_the_exit_code),
    };
    return cmocka_run_group_tests_name("program/bench/bench", tests, make_folder, remove_folder);
}
