/* Which CUDA device a rank takes, over the stand-in: by a list, by what the program has made
 * current, by local rank; each list that cannot be used; and ranks that share a device.
 * tests/gpu/run has the first group run on real devices. */
#include "rig/comm_rig.h"
#include "stand_in/fakecuda/fakecuda.h"

#include "collectives/comm/communicator.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig/told_lines.h"
#include "rig/test.h"

enum { RANKS = 3, SECONDS = 30, OUTPUT = 1 << 16 };

/* What a rank finds, told to the test. */
struct stage {
    _Atomic int device[RANKS], contexts[RANKS], calls[RANKS];
    char refusal[RANKS][1024];
};

static struct stage *stage;

/* Where the test says so, nobody has loaded CUDA. */
bool __real_gyre_device_cuda_present(void);
bool __wrap_gyre_device_cuda_present(void);

bool __wrap_gyre_device_cuda_present(void)
{
    return !getenv("TEST_CUDA_ABSENT") && __real_gyre_device_cuda_present();
}

/* -- a job ------------------------------------------------------------------------------------- */

struct setup {
    const char *devices, *list,
        *variable;             /* FAKECUDA_DEVICES, GYRE_DEVICES; NAME=VALUE of one more */
    void (*prepare)(int rank); /* what the program does first; NULL */
};

static void set_environment(const struct rig *rig, int rank)
{
    const struct setup *setup = rig->argument;
    char name[64];
    setenv("FAKECUDA_DEVICES", setup->devices, 1);
    if (setup->list)
        setenv("GYRE_DEVICES", setup->list, 1);
    if (setup->variable) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(setup->variable, "="), setup->variable);
        setenv(name, strchr(setup->variable, '=') + 1, 1);
    }
    if (setup->prepare)
        setup->prepare(rank);
}

static int tell(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), sum = 1;
    (void)rig;
    stage->device[rank] = gyre_domain_cuda(comm->domain);
    stage->contexts[rank] = fakecuda_alive().contexts;
    stage->calls[rank] = fakecuda_calls("cuInit");
    int bad =
        rig_check(gyre_all_reduce(comm, &sum, &sum, 1, GYRE_I32, GYRE_SUM) == 0 && sum == RANKS,
                  comm, "host memory is served");
    return bad + (gyre_finalize(comm) != 0);
}

/* What the ranks wrote to standard error while the job ran. */
static const char *run(const struct setup *setup)
{
    static char output[OUTPUT];
    struct rig rig = {.n = RANKS,
                      .transport = "shm",
                      .before = set_environment,
                      .body = tell,
                      .argument = (void *)(uintptr_t)setup};
    int kept = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC);
    memset(stage, 0xff, sizeof(*stage));
    dup2(file, STDERR_FILENO);
    int bad = rig_run(&rig, SECONDS);
    dup2(kept, STDERR_FILENO);
    ssize_t length = pread(file, output, OUTPUT - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    close(file);
    close(kept);
    if (bad)
        fail_msg("%s", output);
    return output;
}

static void expect_devices(int first, int second, int third)
{
    assert_int_equal(stage->device[0], first);
    assert_int_equal(stage->device[1], second);
    assert_int_equal(stage->device[2], third);
}

/* -- which device ------------------------------------------------------------------------------ */

static void a_list_is_obeyed(void **state)
{
    (void)state;
    const char *output = run(&(struct setup){.devices = "8", .list = "2,4,7"});
    expect_devices(2, 4, 7);
    assert_int_equal(lines_with(output, "share GPU"), 0);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(stage->contexts[rank], 0); /* of init's making */
    run(&(struct setup){.devices = "8", .list = "7,0,1,5"});
    expect_devices(7, 0, 1);
}

/* Rank 1's program has made device 3's context current, as PyTorch would. */
static void use_device_3(int rank)
{
    CUdevice device;
    CUcontext context;
    if (rank == 1 && (cuInit(0) || cuDeviceGet(&device, 3) ||
                      cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent(context)))
        abort();
}

static void the_program_is_followed(void **state)
{
    (void)state;
    run(&(struct setup){.devices = "4", .prepare = use_device_3});
    expect_devices(0, 3, 2);
    assert_int_equal(stage->contexts[0], 0);
    assert_int_equal(stage->contexts[1], 1); /* the program's */
    assert_int_equal(stage->contexts[2], 0);
    run(&(struct setup){.devices = "4", .list = "1,2,3", .prepare = use_device_3});
    expect_devices(1, 2, 3);
}

static void local_ranks_wrap_around(void **state)
{
    (void)state;
    run(&(struct setup){.devices = "2"});
    expect_devices(0, 1, 0);
}

static void cuda_is_not_loaded_unasked(void **state)
{
    (void)state;
    run(&(struct setup){.devices = "2", .variable = "TEST_CUDA_ABSENT=1"});
    expect_devices(-1, -1, -1);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(stage->calls[rank], 0);
    run(&(struct setup){.devices = "3", .list = "2,1,0", .variable = "TEST_CUDA_ABSENT=1"});
    expect_devices(2, 1, 0);
}

/* The program joins, uses CUDA only then, and gives such memory to a rank without a device. */
static int give_stray(struct gyre_comm *comm, struct rig *rig)
{
    enum { LARGE = 1 << 20 };
    CUdeviceptr at;
    CUcontext context;
    struct gyre_work *work;
    int sum = 1, bad = 0, device = gyre_domain_cuda(comm->domain);
    unsetenv("TEST_CUDA_ABSENT");
    (void)rig;
    if (device >= 0 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxPushCurrent(context) || cuMemAlloc(&at, LARGE))
        return 1;
    void *away = (void *)(uintptr_t)at;
    for (int i = 0; i < 3; i++) { /* the last one would be run again without a look */
        bad |= gyre_all_reduce(comm, away, away, 1, GYRE_I32, GYRE_SUM) != GYRE_INVALID;
        bad |= !strstr(gyre_error(comm), "is CUDA memory, and this rank has no CUDA device");
        bad |= gyre_all_reduce(comm, away, away, LARGE, GYRE_U8, GYRE_MAX) != GYRE_INVALID;
        bad |=
            gyre_all_reduce_start(comm, &sum, away, 1, GYRE_I32, GYRE_SUM, &work) != GYRE_INVALID;
        bad |= gyre_send(comm, away, 4, GYRE_U8, 0) != GYRE_INVALID;
        sum = 1;
        bad |= gyre_all_reduce(comm, &sum, &sum, 1, GYRE_I32, GYRE_SUM) || sum != RANKS;
    }
    bad = rig_check(!bad, comm, "memory of a device, where there is none");
    return bad + (cuMemFree(at) != CUDA_SUCCESS) + (gyre_finalize(comm) != 0);
}

static void stray_memory_is_refused(void **state)
{
    static const struct setup setup = {.devices = "1", .variable = "TEST_CUDA_ABSENT=1"};
    struct rig rig = {.n = RANKS,
                      .transport = "shm",
                      .before = set_environment,
                      .body = give_stray,
                      .argument = (void *)(uintptr_t)&setup};
    (void)state;
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

/* -- ranks that share one ---------------------------------------------------------------------- */

static void sharing_is_said_aloud(void **state)
{
    (void)state;
    expect_line(run(&(struct setup){.devices = "2", .list = "1,0,1"}), "ranks 0 and 2 share GPU 1");
    expect_line(run(&(struct setup){.devices = "2", .list = "0,1,1"}), "ranks 1 and 2 share GPU 1");
    const char *output = run(&(struct setup){.devices = "1"});
    expect_line(output, "ranks 0, 1 and 2 share GPU 0");
    expect_line(output, "(CUDA stand-in, GPU-");
}

/* Each rank numbers devices in its own way: what it calls 0 is another device. */
static void salt_by_rank(int rank)
{
    char salt[2] = {(char)('1' + rank), '\0'};
    setenv("FAKECUDA_UUID_SALT", salt, 1);
}

static void uuids_are_compared_not_numbers(void **state)
{
    (void)state;
    const char *output =
        run(&(struct setup){.devices = "1", .list = "0,0,0", .prepare = salt_by_rank});
    assert_int_equal(lines_with(output, "share GPU"), 0);
}

/* -- lists that cannot be used ----------------------------------------------------------------- */

static void refuse(const struct setup *setup, int rank, const char *const *words)
{
    char rank_text[8];
    struct gyre_comm *comm;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct rig rig = {.argument = (void *)(uintptr_t)setup};
    pid_t child = fork();
    if (child == 0) {
        snprintf(rank_text, sizeof(rank_text), "%d", rank);
        set_environment(&rig, rank);
        setenv("RANK", rank_text, 1);
        setenv("LOCAL_RANK", rank_text, 0);
        setenv("WORLD_SIZE", "3", 1);
        setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", "1", 1); /* nobody is met there */
        setenv("GYRE_JOIN_TIMEOUT", "20s", 1);
        int status = gyre_init(&comm, &options);
        snprintf(stage->refusal[0], sizeof(stage->refusal[0]), "%s", gyre_error(NULL));
        _exit(status != GYRE_INVALID || fakecuda_alive().contexts);
    }
    int ended;
    waitpid(child, &ended, 0);
    for (; *words; words++)
        if (!strstr(stage->refusal[0], *words))
            fail_msg("\"%s\" lacks \"%s\"", stage->refusal[0], *words);
    assert_int_equal(ended, 0);
}

#define refused(setup, rank, ...) refuse(&(setup), rank, (const char *const[]){__VA_ARGS__, NULL})

static void rubbish(void **state)
{
    static const char *const lists[] = {"x",
                                        "1,",
                                        ",1",
                                        "1,,2",
                                        "1 2",
                                        "1,2,",
                                        "-1",
                                        "+1",
                                        "0x1,2",
                                        "1.5",
                                        "1;2",
                                        "1,2,GPU-3",
                                        " 1",
                                        "1 ",
                                        "all",
                                        "99999",
                                        "18446744073709551616",
                                        "1-3",
                                        "1,\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        struct setup setup = {.devices = "8", .list = lists[i]};
        refused(setup, 0, "rank 0 on", "(local rank 0)", lists[i], "such as 2,4,7");
    }
}

static void too_few_entries(void **state)
{
    char host[64] = "";
    struct setup one = {.devices = "8", .list = "3"}, two = {.devices = "8", .list = "3,4"};
    gethostname(host, sizeof(host) - 1);
    (void)state;
    refused(one, 1, "rank 1 on", host, "(local rank 1)", "\"3\" and has 1 entry");
    refused(two, 2, "rank 2 on", "\"3,4\" and has 2 entries", "start fewer ranks");
}

/* Machines differ in their devices, or lists are of another length: the rank that has none is
 * refused before the others are met, and they are told who is missing. */
static int join_in_vain(struct rig *rig, int rank)
{
    char limit[32];
    struct gyre_comm *comm;
    const char *refusal = ": 1 is visible here";
    (void)rig;
    setenv("FAKECUDA_DEVICES", rank == 2 ? "1" : "2", 1);
    setenv("GYRE_DEVICES", "0,1,1", 1);
    snprintf(limit, sizeof(limit), "%ds", 2 * rig_slow());
    setenv("GYRE_JOIN_TIMEOUT", limit, 1);
    int status = gyre_init(&comm, NULL);
    bool told = strstr(gyre_error(NULL), rank == 2 ? refusal : "rank 2 missing");
    return rig_check(status == (rank == 2 ? GYRE_INVALID : GYRE_TIMED_OUT) && told, NULL,
                     gyre_error(NULL));
}

static void unlike_machines_end_all(void **state)
{
    struct rig rig = {.n = RANKS, .process = join_in_vain};
    (void)state;
    assert_int_equal(rig_run(&rig, 20), 0);
}

static void missing_device(void **state)
{
    struct setup two = {.devices = "2", .list = "0,2", .variable = "CUDA_VISIBLE_DEVICES=5,6"};
    struct setup one = {.devices = "1", .list = "1"}, none = {.devices = "0", .list = "0"};
    (void)state;
    refused(two, 1, "gives it device 2: 2 are visible here", "0 CUDA stand-in, 1 CUDA stand-in",
            "(CUDA_VISIBLE_DEVICES is 5,6)", "counted from 0");
    refused(one, 0, "gives it device 1: 1 is visible here: 0 CUDA stand-in",
            "(CUDA_VISIBLE_DEVICES is not set)");
    refused(none, 0, "gives it device 0: 0 are visible here", "sees no device");
}

static void unknown_place(void **state)
{
    struct setup setup = {.devices = "2", .list = "0,1", .variable = "LOCAL_RANK="};
    (void)state;
    refused(setup, 1, "(local rank -1)", "set LOCAL_RANK or options.local_rank");
}

/* A device that cannot be asked who it is has no use. */
static void lost_device(void **state)
{
    struct setup setup = {.devices = "2",
                          .list = "0,1",
                          .variable = "FAKECUDA_FAIL=cuDeviceGetUuid:1:CUDA_ERROR_INVALID_VALUE"};
    (void)state;
    refused(setup, 0, "asking for UUID");
    struct setup unlisted = {.devices = "2", .variable = setup.variable};
    run(&unlisted);
    expect_devices(-1, -1, -1);
}

static void machine_without_a_driver(void **state)
{
    (void)state;
    const char *output = run(&(struct setup){.devices = "none", .list = "0,1,2"});
    expect_devices(-1, -1, -1);
    expect_line(output, "CUDA devices \"0,1,2\" are not used: this machine has no CUDA driver");
    output = run(&(struct setup){.devices = "none"});
    expect_devices(-1, -1, -1);
    assert_int_equal(lines_with(output, "CUDA"), 0);
}

/* -- options ----------------------------------------------------------------------------------- */

/* In a process of its own, which the call makes a world of 1. */
static int device_of_options(struct gyre_options *options)
{
    struct gyre_comm *comm;
    pid_t child = fork();
    if (child == 0) {
        setenv("FAKECUDA_DEVICES", "4", 1);
        if (gyre_init(&comm, options))
            _exit(100);
        int device = gyre_domain_cuda(comm->domain);
        gyre_finalize(comm);
        _exit(device);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void options_come_first(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    (void)state;
    assert_int_equal(device_of_options(NULL), 0);
    assert_int_equal(device_of_options(&options), 0);
    options.devices = "3";
    assert_int_equal(device_of_options(&options), 3);
    setenv("GYRE_DEVICES", "1", 1);
    assert_int_equal(device_of_options(&options), 3);
    assert_int_equal(device_of_options(NULL), 1);
    unsetenv("GYRE_DEVICES");
}

/* A program that was compiled before there were devices. */
static void options_of_an_older_program(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    (void)state;
    options.devices = "3"; /* behind its end */
    options.size = offsetof(struct gyre_options, devices);
    assert_int_equal(device_of_options(&options), 0);
    options.size -= 8;
    assert_int_equal(device_of_options(&options), 100);
    options.size = sizeof(options) + 8;
    assert_int_equal(device_of_options(&options), 100);
}

/* All ranks on the first, as tests/gpu/run lists them for one device. */
static void all_share_the_first(void **state)
{
    (void)state;
    const char *output = run(&(struct setup){.devices = "1", .list = "0,0,0"});
    expect_devices(0, 0, 0);
    expect_line(output, "ranks 0, 1 and 2 share GPU 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_share_the_first),
        cmocka_unit_test(rubbish),
        cmocka_unit_test(too_few_entries),
        cmocka_unit_test(unknown_place),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(a_list_is_obeyed),
        cmocka_unit_test(the_program_is_followed),
        cmocka_unit_test(local_ranks_wrap_around),
        cmocka_unit_test(cuda_is_not_loaded_unasked),
        cmocka_unit_test(sharing_is_said_aloud),
        cmocka_unit_test(stray_memory_is_refused),
        cmocka_unit_test(uuids_are_compared_not_numbers),
        cmocka_unit_test(missing_device),
        cmocka_unit_test(unlike_machines_end_all),
        cmocka_unit_test(lost_device),
        cmocka_unit_test(machine_without_a_driver),
        cmocka_unit_test(options_come_first),
        cmocka_unit_test(options_of_an_older_program),
    };
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
