/* The tool's words: help, versions, and one sentence for each wrong one. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <gyre/gyre.h>

#include <stdio.h>
#include <string.h>

static struct rig rig;

struct wrong {
    const char *words[8];
    const char *says; /* part of the one line */
};

/* Each names the value, and what was expected or the nearest right word. */
static const struct wrong wrongs[] = {
    {{"rnu"}, "unknown command 'rnu'; did you mean 'gyre run'?"},
    {{"xyzzy"}, "unknown command 'xyzzy'; `gyre help` lists the commands"},
    {{"help", "runn"}, "unknown command 'runn'; did you mean 'gyre run'?"},
    {{"show", "all_reduce", "--algo", "rnig"}, "did you mean \"ring\"?"},
    {{"run"}, "no program given"},
    {{"run", "-n", "2"}, "no program given"},
    {{"run", "-n"}, "--nproc-per-node needs a value"},
    {{"run", "-n", "two", "true"}, "two"},
    {{"run", "-n", "0", "true"}, "from 1 to 4096"},
    {{"run", "-n", "2,x", "true"}, "is \"2,x\": expected a whole number from 1 to 4096, not \"x\""},
    {{"run", "--nnode", "2", "true"}, "unknown flag '--nnode'; did you mean '--nnodes'?"},
    {{"run", "--nproc", "2", "true"}, "did you mean '--nproc-per-node'?"},
    {{"run", "--master_prot=1", "true"},
     "unknown flag '--master_prot=1'; did you mean '--master-port'?"},
    {{"run", "-x", "true"}, "unknown flag '-x'; --help lists the flags"},
    {{"run", "--bind=yes", "true"}, "--bind takes no value, but got 'yes'"},
    {{"run", "--master-port", "65536", "true"}, "65535"},
    {{"run", "--simulate-nodes", "4", "true"}, "expected NODESxRANKS such as 2x2"},
    {{"run", "--simulate-nodes", "2x", "true"},
     "--simulate-nodes is \"2x\": expected a whole number"},
    {{"run", "--simulate-nodes", "y+2", "true"}, "--simulate-nodes is \"y+2\": expected"},
    {{"run", "--simulate-nodes", "2+0", "true"}, "from 1"},
    {{"run", "-n", "5", "--simulate-nodes", "2x2", "true"}, "the nodes have 4 ranks"},
    {{"run", "--hosts", "a:4,,b", "true"}, "host name ''"},
    {{"run", "--hosts", "-oProxyCommand=x:1", "true"}, "host name '-oProxyCommand=x'"},
    {{"run", "--hosts", "a:x", "true"}, "--hosts is \"a:x\": expected"},
    {{"run", "--hosts", "b:1,a:0", "true"}, "--hosts is \"b:1,a:0\": expected"},
    {{"run", "--hosts", "a:2", "-n", "2", "true"}, "'2' and --hosts 'a:2' exclude each other"},
    {{"run", "--hosts", "a,b", "-n", "2,1", "true"}, "'2,1' and --hosts 'a,b' exclude"},
    {{"run", "--hosts", "a", "--simulate-nodes", "2x2", "true"}, "exclude each other"},
    {{"run", "--nnodes", "2", "--simulate-nodes", "2x2", "true"}, "exclude each other"},
    {{"run", "--hosts-file", "/dev/null", "true"}, "/dev/null"},
    {{"run", "--rdzv-backend", "etcd", "true"}, "--rdzv-backend is \"etcd\": expected"},
    {{"run", "--hosts-file", "x", "--hostfile", "y", "true"}, "exclude each other"},
    {{"run", "--hosts-file", "x", "--nnodes", "2", "true"}, "exclude each other"},
    {{"run", "--node-rank", "2", "--nnodes", "2", "true"}, "expected 0 to 1 with --nnodes 2"},
    {{"run", "-n", "1,2,3", "--nnodes", "2", "true"}, "names 3 nodes, but --nnodes says 2"},
    {{"run", "--hosts", "localhost:1,b:1", "true"}, "give this machine's name"},
    {{"run", "--log-dir", "/proc/x", "true"}, "--log-dir: cannot make folder '/proc/x': "},
    {{"run", "--backend", "gloo", "true"}, "--backend is \"gloo\": expected "},
    {{"run", "--backend", "tpc", "true"}, "did you mean \"tcp\"?"},
    {{"train", "--backend", "nccl", "--preset", "wine"}, "--backend is \"nccl\": expected "},
    {{"doctor", "now"}, "unexpected word 'now'"},
    {{"train", "--devices", "0;1", "--preset", "wine"},
     "is \"0;1\": expected numbers with commas between"},
};

static void a_wrong_word_gets_one_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        rig_run(&rig, NULL, wrongs[i].words);
        rig_expect(&rig, 2, wrongs[i].says);
        assert_string_equal(rig.out_text, "");
        assert_ptr_equal(strchr(rig.err_text, '\n'), rig.err_text + rig.err_length - 1);
        rig_end(&rig);
    }
}

static void help_names_every_command(void **state)
{
    (void)state;
    rig_run(&rig, NULL, (const char *const[]){"help", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "\n  run "));
    assert_true(rig_has(rig.out_text, "\n  show "));
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"help", "run", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "usage: gyre run"));
    assert_true(rig_has(rig.out_text, "-n, --nproc-per-node COUNT"));
    assert_false(rig_has(rig.out_text, "--node "));
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){NULL});
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.out_text, "usage: gyre COMMAND"));
    rig_end(&rig);
}

static void the_version_is_the_librarys(void **state)
{
    char expected[32];
    (void)state;
    snprintf(expected, sizeof expected, "gyre %d.%d.%d\n", GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR,
             GYRE_VERSION_PATCH);
    rig_run(&rig, NULL, (const char *const[]){"--version", NULL});
    assert_int_equal(rig.code, 0);
    assert_string_equal(rig.out_text, expected);
    rig_end(&rig);
}

static void flags_read_alike_in_every_spelling(void **state)
{
    static const char *const spellings[][4] = {{"-n", "2"},
                                               {"-n2"},
                                               {"--nproc-per-node", "2"},
                                               {"--nproc_per_node=2"},
                                               {"--nproc-per_node", "2"},
                                               {"-n", "2", "--"}};
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const char *words[10] = {"run"};
        int count = 1;
        for (int k = 0; k < 4 && spellings[i][k]; k++)
            words[count++] = spellings[i][k];
        words[count++] = "echo";
        words[count] = "-n"; /* behind the program, words are the program's */
        rig_run(&rig, NULL, words);
        assert_int_equal(rig.code, 0);
        rig_end(&rig);
    }
}

static void devices_reach_the_ranks(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            (const char *const[]){"run", "-n", "2", "--devices", "4,2", "sh", "-c",
                                  "echo here: $GYRE_DEVICES", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "[0] here: 4,2\n"));
    assert_true(rig_has(rig.out_text, "[1] here: 4,2\n"));
    rig_end(&rig);
    rig_run(
        &rig, NULL,
        (const char *const[]){"train", "--ranks", "2", "--devices", "1", "--preset", "wine", NULL});
    assert_true(rig.code != 0);
    assert_true(rig_has(rig.err_text, "(local rank 1): the list of CUDA devices"));
    rig_end(&rig);
}

static void the_backend_reaches_the_ranks(void **state)
{
    static const char *const trains[] = {"train",    "--ranks", "2",        "--backend", "tcp",
                                         "--preset", "wine",    "--epochs", "1",         NULL};
    (void)state;
    rig_run(&rig, NULL,
            (const char *const[]){"run", "-n", "2", "--backend=tcp", "sh", "-c",
                                  "echo here: $GYRE_TRANSPORT", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "[0] here: tcp\n"));
    assert_true(rig_has(rig.out_text, "[1] here: tcp\n"));
    rig_end(&rig);
    rig_run(&rig, NULL, trains);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "2 ranks on 2 nodes")); /* each is one of its own over TCP */
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_reach_the_ranks),
        cmocka_unit_test(the_backend_reaches_the_ranks),
        cmocka_unit_test(a_wrong_word_gets_one_sentence),
        cmocka_unit_test(help_names_every_command),
        cmocka_unit_test(the_version_is_the_librarys),
        cmocka_unit_test(flags_read_alike_in_every_spelling),
    };
    return cmocka_run_group_tests_name("gyre", tests, NULL, NULL);
}
