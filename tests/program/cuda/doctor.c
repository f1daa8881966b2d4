/* What `gyre doctor` says of CUDA devices, over the stand-in: which there are, how memory goes
 * between ranks on any two of them, what two processes found when they tried, and why there are
 * none. tests/gpu/run has the first test run on real devices. */
#include "stand_in/fakecuda/fakecuda.h"

#include "cli/doctor/checks/checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig/told_lines.h"
#include "rig/test.h"

enum { OUTPUT = 1 << 16 };

/* What the check found, in a process of its own: a line for the state and what was found, and one
 * for each detail. */
static const char *doctor(bool tries, const char *devices, const char *peers)
{
    static char output[OUTPUT];
    int ended, file = memfd_create("stdout", MFD_CLOEXEC);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct gyre_doctor_report report = {0};
        setenv("FAKECUDA_DEVICES", devices, 1);
        setenv("FAKECUDA_PEERS", peers, 1);
        gyre_check_cuda(tries, &report);
        const struct gyre_doctor_finding *cuda = report.finding;
        dprintf(file, "%s: %s\n", gyre_doctor_state_word(cuda->state), cuda->found);
        for (int i = 0; i < cuda->details; i++)
            dprintf(file, "%s\n", cuda->detail[i]);
        _exit(report.findings != 1 || fakecuda_alive().contexts ? 99 : 0);
    }
    waitpid(child, &ended, 0);
    ssize_t length = pread(file, output, OUTPUT - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    close(file);
    assert_int_equal(WEXITSTATUS(ended), 0);
    return output;
}

static void doctor_tells_devices(void **state)
{
    (void)state;
    const char *output = doctor(false, "3", "1");
    expect_line(output, "ok: 3 devices (CUDA_VISIBLE_DEVICES is not set)\n");
    expect_line(output, "\n0  CUDA stand-in, GPU-");
    expect_line(output, "1024 MiB, reaches 0, 2\n");
    assert_int_equal(lines_with(doctor(false, "2", "0"), ", reaches no other\n"), 2);
    expect_line(doctor(false, "1", "1"), "1024 MiB\n");
}

static void doctor_tells_how_memory_goes(void **state)
{
    (void)state;
    expect_line(
        doctor(false, "2", "1"),
        "\nbetween ranks on any of them: direct: kernels and copies on memory that both map, "
        "passed as exported memory\n");
    const char *output = doctor(false, "2", "0");
    expect_line(output, "\nbetween ranks on 0 and 0, 1 and 1: direct: ");
    expect_line(output, "\nbetween ranks on 0 and 1: staged through host memory, for the devices "
                        "have no peer access; in one process copied from device to device by the "
                        "driver\n");
    setenv("FAKECUDA_EXPORT", "0", 1);
    expect_line(doctor(false, "1", "1"), "passed as classic IPC handles\n");
    output = doctor(false, "2", "0");
    assert_int_equal(lines_with(output, "in one process"), 0);
    expect_line(output, "\nbetween ranks on 0 and 1: staged through host memory");
    unsetenv("FAKECUDA_EXPORT");
}

/* One line each: versions, streams, RDMA, products; what is missing says what to do. */
static void doctor_tells_what_is_used_for_what(void **state)
{
    (void)state;
    const char *output = doctor(false, "2", "1");
    expect_line(output, "\ndriver for CUDA ");
    expect_line(output, "; this build is of CUDA ");
    expect_line(output, "\nstreams: operations run in their order");
    expect_line(output, "\nRDMA: cards read and write device memory");
    expect_line(output, "\ntraining: all by Gyre's kernels for 9.0; large products are faster with "
                        "cuBLAS: put libcublas.so");
    setenv("FAKECUDA_CUBLAS", "1", 1);
    expect_line(doctor(false, "2", "1"),
                "\ntraining: products by cuBLAS, all else by Gyre's kernels for 9.0\n");
    setenv("GYRE_BLAS", "own", 1);
    expect_line(doctor(false, "2", "1"), "\ntraining: all by Gyre's kernels for 9.0");
    unsetenv("GYRE_BLAS");
    unsetenv("FAKECUDA_CUBLAS");
    setenv("FAKECUDA_WORDS", "0", 1);
    output = doctor(false, "2", "1");
    expect_line(output, "note: 2 devices");
    expect_line(output,
                "\nstreams of 0, 1 cannot wait for words of the host's: calls in their order "
                "and `gyre train --device cuda` are refused there; take another driver");
    unsetenv("FAKECUDA_WORDS");
    setenv("FAKECUDA_RDMA", "0", 1);
    expect_line(doctor(false, "1", "1"), "\nRDMA: cards do not reach memory of 0, which goes ");
    unsetenv("FAKECUDA_RDMA");
    setenv("FAKECUDA_DRIVER", "11080", 1);
    output = doctor(false, "1", "1");
    expect_line(output, "problem: 1 device");
    expect_line(output, "\ndriver for CUDA 11.8; this build is of CUDA ");
    expect_line(output, ": install a driver of at least that version, or its kernels cannot be");
    unsetenv("FAKECUDA_DRIVER");
}

/* Two processes share memory of each pair, by either way; refusals are told with their reasons. */
static void doctor_tries(void **state)
{
    (void)state;
    const char *output = doctor(true, "2", "1");
    assert_int_equal(lines_with(output, ": direct: 2 MiB were mapped and copied, and were right\n"),
                     4);
    expect_line(output, "ok: 2 devices");
    output = doctor(true, "2", "0");
    assert_int_equal(lines_with(output, ": direct: 2 MiB"), 2);
    expect_line(output, "tried from 0 to 1: staged: cuMemSetAccess");
    expect_line(output, "note: 2 devices");
    setenv("FAKECUDA_WRONG", "1", 1);
    output = doctor(true, "2", "1");
    assert_int_equal(lines_with(output, ": direct: 2 MiB"), 2);
    expect_line(output, "from 0 to 1: staged: what was copied differs from what was written");
    expect_line(output, "from 1 to 0: staged: what was copied differs from what was written");
    unsetenv("FAKECUDA_WRONG");
    setenv("FAKECUDA_EXPORT", "0", 1);
    output = doctor(true, "2", "0");
    assert_int_equal(lines_with(output, ": direct: 2 MiB"), 2);
    expect_line(output, "from 1 to 0: staged: cuIpcOpenMemHandle");
    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle:1:CUDA_ERROR_NOT_SUPPORTED", 1);
    expect_line(doctor(true, "1", "1"), "from 0 to 0: staged: the system gives no handle");
    setenv("FAKECUDA_FAIL", "copy:1:CUDA_ERROR_ILLEGAL_ADDRESS", 1);
    expect_line(doctor(true, "1", "1"), "from 0 to 0: staged: copying on device 0");
    setenv("FAKECUDA_FAIL", "cuMemAlloc:1:CUDA_ERROR_OUT_OF_MEMORY", 1);
    expect_line(doctor(true, "1", "1"), "from 0 to 0: staged: cuMemAlloc");
    unsetenv("FAKECUDA_FAIL");
    unsetenv("FAKECUDA_EXPORT");
    assert_int_equal(lines_with(doctor(true, "none", "1"), "tried"), 0);
}

static void doctor_tells_why_there_is_none(void **state)
{
    (void)state;
    expect_line(doctor(false, "none", "1"), "absent: this machine has no CUDA");
    expect_line(doctor(false, "0", "1"), "absent: the CUDA driver sees no device");
}

/* What a machine with a GPU says of it, and that its first device shares memory with itself. */
static void doctor_tries_what_is_here(void **state)
{
    (void)state;
    expect_line(doctor(true, "1", "1"),
                "\ntried from 0 to 0: direct: 2 MiB were mapped and copied, and were right\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doctor_tries_what_is_here),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(doctor_tells_devices),
        cmocka_unit_test(doctor_tells_how_memory_goes),
        cmocka_unit_test(doctor_tells_what_is_used_for_what),
        cmocka_unit_test(doctor_tries),
        cmocka_unit_test(doctor_tells_why_there_is_none),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
