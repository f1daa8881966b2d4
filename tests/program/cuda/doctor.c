/* What `gyre doctor` says of CUDA devices, over the stand-in: which there are, how memory goes
 * between ranks on any two of them, what two processes found when they tried, and why there are
 * none. tests/gpu/run has the first test run on real devices. */
#include "stand_in/fakecuda/fakecuda.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig/told_lines.h"
#include "rig/test.h"

enum { OUTPUT = 1 << 16 };

int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble)
{
    printf("%s: %s\n", command, trouble->text);
    return status == GYRE_INVALID ? 2 : 1;
}

/* Its standard output, in a process of its own; *code is how it ended. */
static const char *doctor(char **argv, const char *devices, const char *peers, int *code)
{
    static char output[OUTPUT];
    int file = memfd_create("stdout", MFD_CLOEXEC);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(file, STDOUT_FILENO);
        setenv("FAKECUDA_DEVICES", devices, 1);
        setenv("FAKECUDA_PEERS", peers, 1);
        int ended = gyre_cli_doctor(argv);
        fflush(stdout);
        _exit(fakecuda_alive().contexts ? 99 : ended);
    }
    waitpid(child, code, 0);
    ssize_t length = pread(file, output, OUTPUT - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    close(file);
    *code = WEXITSTATUS(*code);
    return output;
}

static void doctor_tells_devices(void **state)
{
    char *none[] = {NULL};
    int code;
    (void)state;
    const char *output = doctor(none, "3", "1", &code);
    expect_line(output, "CUDA devices: 3 (CUDA_VISIBLE_DEVICES is not set)\n");
    expect_line(output, "\n  0  CUDA stand-in  GPU-");
    expect_line(output, "1024 MiB  reaches 0, 2\n");
    assert_int_equal(code, 0);
    output = doctor(none, "2", "0", &code);
    assert_int_equal(lines_with(output, "  reaches no other\n"), 2);
    output = doctor(none, "1", "1", &code);
    expect_line(output, "1024 MiB\n");
}

static void doctor_tells_how_memory_goes(void **state)
{
    char *none[] = {NULL};
    int code;
    (void)state;
    const char *output = doctor(none, "2", "1", &code);
    expect_line(output, "  0, 0  direct: ");
    expect_line(output, "  0, 1  direct: ");
    assert_int_equal(lines_with(output, "passed as exported memory\n"), 3);
    output = doctor(none, "2", "0", &code);
    assert_int_equal(lines_with(output, "  direct: "), 2);
    expect_line(output, "  0, 1  staged through host memory: the devices have no peer access\n");
    expect_line(output, "in one process staged by the driver: messages are copied from device to");
    expect_line(output, "GYRE_LOG=info tells why.\n");
    setenv("FAKECUDA_EXPORT", "0", 1);
    expect_line(doctor(none, "1", "1", &code), "passed as classic IPC handles\n");
    assert_int_equal(lines_with(doctor(none, "2", "0", &code), "in one process"), 0);
    unsetenv("FAKECUDA_EXPORT");
    assert_int_equal(code, 0);
}

/* Two processes share memory of each pair, by either way; refusals are told with their reasons. */
static void doctor_tries(void **state)
{
    char *try[] = {(char[]){"--try"}, NULL};
    int code;
    (void)state;
    const char *output = doctor(try, "2", "1", &code);
    assert_int_equal(lines_with(output, "direct: 2 MiB were mapped and copied, and were right\n"),
                     4);
    expect_line(output, "CUDA devices: 2");
    assert_int_equal(code, 0);
    output = doctor(try, "2", "0", &code);
    assert_int_equal(lines_with(output, "  direct: 2 MiB"), 2);
    expect_line(output, "  0, 1  staged: cuMemSetAccess");
    setenv("FAKECUDA_WRONG", "1", 1);
    output = doctor(try, "2", "1", &code);
    assert_int_equal(lines_with(output, "  direct: 2 MiB"), 2);
    expect_line(output, "  0, 1  staged: what was copied differs from what was written");
    expect_line(output, "  1, 0  staged: what was copied differs from what was written");
    unsetenv("FAKECUDA_WRONG");
    setenv("FAKECUDA_EXPORT", "0", 1);
    output = doctor(try, "2", "0", &code);
    assert_int_equal(lines_with(output, "  direct: 2 MiB"), 2);
    expect_line(output, "  1, 0  staged: cuIpcOpenMemHandle");
    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle:1:CUDA_ERROR_NOT_SUPPORTED", 1);
    expect_line(doctor(try, "1", "1", &code), "  0, 0  staged: the system gives no handle");
    setenv("FAKECUDA_FAIL", "copy:1:CUDA_ERROR_ILLEGAL_ADDRESS", 1);
    expect_line(doctor(try, "1", "1", &code), "  0, 0  staged: copying on device 0");
    setenv("FAKECUDA_FAIL", "cuMemAlloc:1:CUDA_ERROR_OUT_OF_MEMORY", 1);
    expect_line(doctor(try, "1", "1", &code), "  0, 0  staged: cuMemAlloc");
    unsetenv("FAKECUDA_FAIL");
    unsetenv("FAKECUDA_EXPORT");
    assert_int_equal(lines_with(doctor(try, "none", "1", &code), "Tried"), 0);
    assert_int_equal(code, 0);
}

static void doctor_tells_why_there_is_none(void **state)
{
    char *none[] = {NULL}, *wrong[] = {(char[]){"now"}, NULL}, *help[] = {(char[]){"--help"}, NULL};
    int code;
    (void)state;
    const char *output = doctor(none, "none", "1", &code);
    expect_line(output, "CUDA devices: none: this machine has no CUDA");
    expect_line(output, "Links inside a node: cuda_ipc is absent, shm serves host memory\n");
    assert_int_equal(code, 0);
    expect_line(doctor(none, "0", "1", &code),
                "CUDA devices: none: the CUDA driver sees no device");
    assert_int_equal(code, 0);
    expect_line(doctor(wrong, "1", "1", &code), "unexpected word 'now'");
    assert_int_equal(code, 2);
    expect_line(doctor(help, "1", "1", &code), "usage: gyre doctor");
    assert_int_equal(code, 0);
}

/* What a machine with a GPU says of it, and that its first device shares memory with itself. */
static void doctor_tries_what_is_here(void **state)
{
    char *try[] = {(char[]){"--try"}, NULL};
    int code;
    (void)state;
    const char *output = doctor(try, "1", "1", &code);
    expect_line(output, "\n  0, 0  direct: 2 MiB were mapped and copied, and were right\n");
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doctor_tries_what_is_here),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(doctor_tells_devices),
        cmocka_unit_test(doctor_tells_how_memory_goes),
        cmocka_unit_test(doctor_tries),
        cmocka_unit_test(doctor_tells_why_there_is_none),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
