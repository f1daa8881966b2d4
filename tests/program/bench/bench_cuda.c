/* The benches on CUDA memory, over the stand-in for CUDA, by real ranks: nothing may be wrong, and
 * what is planted must show. */
#include "rig/clean_room.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[1 << 16];

/* Runs a bench that lies beside this program. The exit code. */
static int run_bench(const char *before, const char *name, const char *flags)
{
    char folder[4096], command[8192];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    *strrchr(folder, '/') = '\0';
    snprintf(command, sizeof command, "%s %s/%s_fake %s 2>&1", before, folder, name, flags);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run(const char *before, const char *flags)
{
    return run_bench(before, "all_reduce", flags);
}

static void expect(int code, int expected, const char *text)
{
    if (code != expected || !strstr(output, text)) {
        fail_msg("exit code %d, expected %d and \"%s\":\n%s", code, expected, text, output);
    }
}

static void test_nothing_is_wrong(void **state)
{
    static const char *const flags[] = {
        "--device cuda --ranks 2 -b 8 -e 1M -f 32 -n 3 --no-ceiling",
        "--device cuda --ranks 3 -b 1000 -e 1000 -n 2 -d all -o all --memory malloc --no-ceiling",
        "--device cuda --ranks 2 -b 4K -e 64K -f 16 -n 2 --transport tcp --no-ceiling",
        "--device cuda -g 4 -b 8 -e 256K -f 32 -n 2",
        "--device cuda --ranks 2 -g 2 -b 64K -e 64K -n 2 --no-ceiling",
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        expect(run("", flags[i]), 0, "# Out of bounds values : 0 OK\n");
        expect(0, 0, "CUDA stand-in\n");
    }
}

static void test_every_operation(void **state)
{
    static const char *const names[] = {
        "all_gather", "all_gather_v", "all_to_all",     "all_to_all_v", "broadcast",
        "gather",     "reduce",       "reduce_scatter", "scatter",      "sendrecv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        expect(run_bench("", names[i],
                         "--device cuda --ranks 3 -b 64 -e 64K -f 1024 -n 2 -r 1 "
                         "--no-ceiling"),
               0, "# Out of bounds values : 0 OK\n");
        expect(run_bench("GYRE_BENCH_PLANT=stale", names[i],
                         "--device cuda --ranks 3 -b 4K -e 4K -n 1 -r 1 --no-ceiling"),
               1, " FAILED\n");
    }
}

/* Those that have no table of sizes: what one operation takes, or waiting, or meeting. */
static void test_the_others(void **state)
{
    expect(run_bench("", "barrier", "--device cuda --ranks 2 -n 2 --no-ceiling"), 0,
           "CUDA stand-in\n");
    expect(run_bench("", "late", "--device cuda --ranks 2 -b 4K -n 2"), 0, "");
    expect(run_bench("", "link", "--device cuda --ranks 2 -b 8 -e 8K -f 32 -n 2"), 0, "bare kern");
}

static void test_planted_faults_show(void **state)
{
    const char *flags = "--device cuda --ranks 2 -b 64K -e 64K -n 2 --no-ceiling";
    expect(run("GYRE_BENCH_PLANT=element", flags), 1, "# Out of bounds values : 2 FAILED\n");
    expect(run("GYRE_BENCH_PLANT=stale", flags), 1, "# Out of bounds values : 4 FAILED\n");
    flags = "--device cuda -g 2 -b 64K -e 64K -n 2 --no-ceiling";
    expect(run("GYRE_BENCH_PLANT=element", flags), 1, "# Out of bounds values : 2 FAILED\n");
}

static void test_devices_are_named(void **state)
{
    run("FAKECUDA_DEVICES=2", "--device cuda --ranks 2 -b 64K -e 64K -n 2");
    expect(0, 0, "device  1 [0000:00:00] CUDA stand-in\n");
    expect(0, 0, " read and written by device copy of ");
    expect(0, 0, "# Peer copy            : ");
    expect(0, 0, " GB/s from device 0 to 1 by ");
    run("FAKECUDA_DEVICES=2 FAKECUDA_PEERS=0", "--device cuda --ranks 2 -b 64K -e 64K -n 2");
    expect(0, 0, "device 0 does not reach device 1\n");
}

static void test_what_cannot_be_is_said(void **state)
{
    expect(run("FAKECUDA_DEVICES=none", "--device cuda"), 5,
           "--device cuda: this machine has no CUDA driver\n");
    expect(run("", "--device cuda --fresh"), 2, "--device cuda: expected no --fresh with it");
    expect(run("", "--device cud"), 2, "did you mean \"cuda\"?");
    expect(run("", "-g 65"), 2, "-g 65: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong),  cmocka_unit_test(test_every_operation),
        cmocka_unit_test(test_the_others),        cmocka_unit_test(test_planted_faults_show),
        cmocka_unit_test(test_devices_are_named), cmocka_unit_test(test_what_cannot_be_is_said),
    };
    clean_room_only_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
