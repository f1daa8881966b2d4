/* The CUDA device over the stand-in: the contract, and what only CUDA can do wrong. Peers are new
 * processes of this program (CUDA does not survive a fork), which are given a descriptor. */
#include "device_suite.h"
#include "fakecuda/fakecuda.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { LENGTH = 3 << 20, PEER_MEMORY = 10, PEER_IN = 11, PEER_OUT = 12 };

static const struct gyre_device *cuda;

/* -- helpers ----------------------------------------------------------------------------------- */

static struct gyre_region new_region(int device)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (cuda->alloc(device, LENGTH, GYRE_SHARE_OPEN, &region, &trouble))
        fail_msg("%s", trouble.text);
    return region;
}

static struct gyre_device_queue *new_queue(int device)
{
    struct gyre_device_queue *queue;
    struct gyre_trouble trouble = {0};
    if (cuda->queue_create(device, &queue, &trouble))
        fail_msg("%s", trouble.text);
    return queue;
}

static void copy(int device, void *to, const void *from, uint64_t length)
{
    struct gyre_device_queue *queue = new_queue(device);
    device_suite_finish(cuda, queue, cuda->copy(queue, to, from, length, 9), 9);
    cuda->queue_destroy(queue);
}

static void expect_text(const struct gyre_region *region, const char *text)
{
    char seen[32] = "";
    copy(region->device, seen, region->base, strlen(text));
    assert_string_equal(seen, text);
}

static void expect_words(const struct gyre_trouble *trouble, const char *words)
{
    if (!strstr(trouble->text, words))
        fail_msg("\"%s\" (expected \"%s\")", trouble->text, words);
}

static bool same_alive(const struct fakecuda_alive *a)
{
    struct fakecuda_alive b = fakecuda_alive();
    return a->handles == b.handles && a->ranges == b.ranges && a->streams == b.streams &&
           a->events == b.events && a->bytes == b.bytes;
}

/* -- a fold ------------------------------------------------------------------------------------ */

static void double_all(void **arguments)
{
    unsigned *to = *(unsigned **)arguments[0];
    const unsigned *from = *(const unsigned **)arguments[1];
    for (uint64_t i = 0; i < *(uint64_t *)arguments[2]; i++)
        to[i] = 2 * from[i];
}

static void doubling(const struct gyre_fold_task *task, void *native_queue)
{
    void *to = task->destination[0];
    const void *from = task->source[0];
    uint64_t count = task->count;
    void *arguments[] = {&to, &from, &count};
    dim3 one = {1, 1, 1};
    cudaLaunchKernel((const void *)double_all, one, one, arguments, 0, native_queue);
}

static int reduce(struct gyre_device_queue *queue, struct gyre_region *region, uint64_t token)
{
    void *destination = region->base;
    const void *source = region->base;
    struct gyre_fold_task task = {&destination, &source, 1, 1, 1, 0, false};
    return cuda->reduce(queue, doubling, &task, token);
}

/* -- the caller's streams ---------------------------------------------------------------------- */

static CUstream foreign_stream(int device)
{
    CUcontext context;
    CUstream stream;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static void end_stream(CUstream stream)
{
    CUcontext context;
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

/* -- finding devices --------------------------------------------------------------------------- */

/* Starts this program anew as `role`; `fds` become its PEER_ descriptors. */
static pid_t start(const char *role, const int *fds, int count)
{
    pid_t child;
    char *arguments[] = {"test_device_cuda", (char *)role, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < count; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], PEER_MEMORY + i);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static int end_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In a process of its own: no device, the words of $EXPECT, and host memory is classified. */
static int role_absent(void)
{
    struct gyre_region region;
    struct gyre_device_queue *queue;
    struct gyre_device_identity identity;
    struct gyre_trouble trouble = {0}, again = {0};
    int found = cuda->probe(&trouble);
    printf("%d devices: %s\n", found, trouble.text);
    if (found || !strstr(trouble.text, getenv("EXPECT")))
        return 1;
    if (cuda->current() != -1 || cuda->reaches(0, 0) || cuda->identify(0, &identity, NULL) >= 0)
        return 5;
    if (cuda->classify(&region) != GYRE_MEMORY_HOST || fakecuda_alive().contexts)
        return 2;
    if (cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &region, &again) >= 0 || region.base ||
        strcmp(trouble.text, again.text))
        return 3;
    return cuda->queue_create(0, &queue, NULL) < 0 && !queue ? 0 : 4;
}

static void expect_absent(const char *variable, const char *value, const char *words)
{
    const char *old = getenv(variable);
    char *kept = old ? strdup(old) : NULL;
    setenv(variable, value, 1);
    setenv("EXPECT", words, 1);
    assert_int_equal(end_of(start("absent", NULL, 0)), 0);
    kept ? setenv(variable, kept, 1) : unsetenv(variable);
    free(kept);
}

static void test_machines_without_cuda_are_told_apart(void **state)
{
    expect_absent("FAKECUDA_DEVICES", "none", "this machine has no CUDA driver");
    expect_absent("FAKECUDA_DEVICES", "0", "sees no device; see nvidia-smi");
    expect_absent("FAKECUDA_FAIL", "cudaGetDriverEntryPointByVersion:3:CUDA_ERROR_NOT_FOUND",
                  "the CUDA driver's cuDeviceGetCount was not found (error 500)");
    expect_absent("FAKECUDA_FAIL", "cuInit:1:CUDA_ERROR_UNKNOWN",
                  "starting the CUDA driver: CUDA_ERROR_UNKNOWN (999)");
    expect_absent("FAKECUDA_FAIL", "cuDeviceGetCount:1:CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN");
}

/* First of all: later tests make contexts. */
static void test_no_stray_contexts(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_device_identity identity;
    CUcontext current;
    assert_int_equal(cuda->probe(&trouble), 2);
    assert_int_equal(trouble.status, 0);
    assert_int_equal(cuda->classify(&trouble), GYRE_MEMORY_HOST);
    assert_int_equal(cuda->identify(1, &identity, NULL), 0);
    assert_true(cuda->reaches(0, 1));
    assert_int_equal(cuda->current(), -1);
    assert_int_equal(fakecuda_alive().contexts, 0);
    struct gyre_region region = new_region(1);
    cuda->queue_destroy(new_queue(1));
    assert_int_equal(fakecuda_alive().contexts, 1);
    assert_int_equal(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    assert_null(current);
    cuda->free(&region);
}

static void test_the_current_device_is_the_thread_s_own(void **state)
{
    assert_true(gyre_device_cuda_present());
    assert_int_equal(cuda->current(), -1);
    CUstream zero = foreign_stream(0), one = foreign_stream(1);
    assert_int_equal(cuda->current(), 1);
    end_stream(one);
    assert_int_equal(cuda->current(), 0);
    end_stream(zero);
    assert_int_equal(cuda->current(), -1);
}

static void test_devices_that_do_not_exist(void **state)
{
    struct gyre_region region;
    struct gyre_device_queue *queue;
    struct gyre_trouble trouble = {0}, other = {0};
    assert_int_equal(cuda->alloc(2, 4096, GYRE_SHARE_OPEN, &region, &trouble), GYRE_INVALID);
    expect_words(&trouble, "CUDA device 2 does not exist: 2 are visible (CUDA_VISIBLE_DEVICES is");
    assert_int_equal(cuda->queue_create(-1, &queue, &other), GYRE_INVALID);
    expect_words(&other, "CUDA device -1 does not exist");
    assert_null(queue);
}

static void test_devices_are_told_apart(void **state)
{
    struct gyre_device_identity one, two;
    struct gyre_trouble trouble = {0}, failed = {0};
    assert_int_equal(cuda->identify(0, &one, NULL), 0);
    assert_int_equal(cuda->identify(1, &two, NULL), 0);
    assert_memory_not_equal(one.uuid, two.uuid, sizeof one.uuid);
    assert_string_equal(one.name, "CUDA stand-in");
    assert_int_equal(two.memory_bytes, 1 << 30);
    assert_int_equal(cuda->identify(2, &one, &trouble), GYRE_INVALID);
    expect_words(&trouble, "CUDA device 2 does not exist");
    fakecuda_fail("cuDeviceGetUuid", 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuda->identify(1, &one, &failed), -EIO);
    expect_words(&failed, "asking for UUID, name and memory on CUDA device 1: CUDA_ERROR_UNKNOWN");
    assert_int_equal(one.memory_bytes, 0);
}

static void test_devices_reach_each_other_or_not(void **state)
{
    assert_true(cuda->reaches(0, 1) && cuda->reaches(1, 1));
    assert_false(cuda->reaches(0, 2) || cuda->reaches(-1, 0) || cuda->reaches(2, 2));
    fakecuda_peers(false);
    assert_false(cuda->reaches(1, 0));
    assert_true(cuda->reaches(0, 0));
    fakecuda_peers(true);
    fakecuda_fail("cuDeviceCanAccessPeer", 1, CUDA_ERROR_UNKNOWN);
    assert_false(cuda->reaches(0, 1));
}

static void test_a_forked_child_is_refused(void **state)
{
    cuda->queue_destroy(new_queue(0));
    pid_t child = fork();
    if (child == 0) {
        struct gyre_region region;
        struct gyre_trouble trouble = {0};
        int status = cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &region, &trouble);
        _exit(status < 0 && strstr(trouble.text, "after fork()") ? 0 : 1);
    }
    assert_int_equal(end_of(child), 0);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void test_host_touch_is_fatal(void **state)
{
    struct gyre_region region = new_region(0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)region.base = 1;
        _exit(0);
    }
    assert_int_not_equal(end_of(child), 0);
    cuda->free(&region);
}

static void test_sealed_memory_is_refused(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(cuda->alloc(0, 4096, GYRE_SHARE_SEALED, &region, &trouble), GYRE_UNSUPPORTED);
    expect_words(&trouble, "CUDA memory cannot be sealed");
    assert_int_equal(cuda->import(0, 0, 4096, GYRE_SHARE_SEALED, &region, NULL), GYRE_UNSUPPORTED);
}

static void test_a_full_device_is_named(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(cuda->alloc(1, UINT64_C(2) << 30, GYRE_SHARE_OPEN, &region, &trouble),
                     -ENOMEM);
    expect_words(&trouble, "cuMemCreate of 2147483648 bytes (1024 of 1024 MiB are free) on CUDA "
                           "device 1: CUDA_ERROR_OUT_OF_MEMORY (2); use less");
}

static void test_classic_memory(void **state)
{
    struct gyre_region region, view;
    struct gyre_trouble trouble = {0}, same = {0};
    fakecuda_export(false);
    region = new_region(0);
    assert_true(region.fd >= 0);
    copy(0, region.base, "classic", 7);
    expect_text(&region, "classic");
    assert_int_equal(cuda->detach(&region, &trouble), GYRE_UNSUPPORTED);
    expect_words(&trouble, "a lost peer may still write: what peers opened");
    assert_true(cuda->import(0, region.fd, LENGTH, GYRE_SHARE_OPEN, &view, &same) < 0);
    expect_words(&same, "cuIpcOpenMemHandle on CUDA device 0: CUDA_ERROR_INVALID_CONTEXT");
    assert_int_equal(cuda->import(0, region.fd, 8 << 20, GYRE_SHARE_OPEN, &view, NULL),
                     GYRE_INVALID);
    cuda->free(&region);
    fakecuda_fail("cuIpcGetMemHandle", 1, CUDA_ERROR_NOT_SUPPORTED);
    region = new_region(0);
    assert_int_equal(region.fd, -1);
    cuda->free(&region);
    fakecuda_export(true);
    fakecuda_fail("cuMemExportToShareableHandle", 1, CUDA_ERROR_NOT_PERMITTED);
    region = new_region(0);
    assert_int_equal(cuda->detach(&region, NULL), GYRE_UNSUPPORTED);
    cuda->free(&region);
}

/* A file of a ticket's length that nobody sealed, or that has other content. */
static void test_forged_tickets_are_refused(void **state)
{
    struct gyre_region view;
    struct gyre_trouble trouble = {0};
    char zeros[80] = "";
    for (int sealed = 0; sealed < 2; sealed++) {
        int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(fd, zeros, sizeof zeros), sizeof zeros);
        if (sealed)
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        assert_int_equal(cuda->import(0, fd, LENGTH, GYRE_SHARE_OPEN, &view, &trouble),
                         GYRE_INVALID);
        expect_words(&trouble, "no handle of CUDA memory");
        close(fd);
    }
}

/* -- peers ------------------------------------------------------------------------------------- */

static void give_turn(int fd)
{
    assert_int_equal(write(fd, "!", 1), 1);
}

static bool await_turn(int fd)
{
    char word;
    return read(fd, &word, 1) == 1;
}

/* Reads what the owner wrote, answers, and writes once more when it is told to. */
static int role_peer(void)
{
    char seen[6] = "";
    struct gyre_region view;
    struct gyre_trouble trouble = {0};
    if (cuda->import(0, PEER_MEMORY, LENGTH, GYRE_SHARE_OPEN, &view, &trouble)) {
        printf("%s\n", trouble.text);
        return 1;
    }
    copy(0, seen, view.base, 5);
    if (strcmp(seen, "owner"))
        return 2;
    copy(0, view.base, "peer!", 5);
    give_turn(PEER_OUT);
    if (!await_turn(PEER_IN))
        return 3;
    copy(0, view.base, "late!", 5);
    expect_text(&view, "late!");
    give_turn(PEER_OUT);
    await_turn(PEER_IN);
    cuda->unimport(&view);
    return fakecuda_alive().ranges ? 4 : 0;
}

struct peer {
    pid_t process;
    int to, from; /* turns */
};

static struct peer start_peer(const struct gyre_region *region)
{
    int to[2], from[2];
    assert_int_equal(pipe(to) | pipe(from), 0);
    fcntl(to[1], F_SETFD, FD_CLOEXEC);
    fcntl(from[0], F_SETFD, FD_CLOEXEC);
    struct peer peer = {start("peer", (int[]){region->fd, to[0], from[1]}, 3), to[1], from[0]};
    close(to[0]);
    close(from[1]);
    return peer;
}

static void end_peer(struct peer *peer)
{
    close(peer->to);
    assert_int_equal(end_of(peer->process), 0);
    close(peer->from);
}

static void test_peers_share_memory_until_it_is_detached(void **state)
{
    struct gyre_region region = new_region(0);
    copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    expect_text(&region, "peer!");
    assert_int_equal(cuda->detach(&region, NULL), 0);
    give_turn(peer.to);
    assert_true(await_turn(peer.from));
    expect_text(&region, "peer!");
    cuda->free(&region); /* before the peer lets go */
    end_peer(&peer);
}

static void test_peers_share_classic_memory(void **state)
{
    fakecuda_export(false);
    setenv("FAKECUDA_EXPORT", "0", 1);
    struct gyre_region region = new_region(0);
    copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    expect_text(&region, "peer!");
    give_turn(peer.to);
    assert_true(await_turn(peer.from));
    expect_text(&region, "late!");
    end_peer(&peer);
    cuda->free(&region);
    fakecuda_export(true);
    unsetenv("FAKECUDA_EXPORT");
}

static void test_a_peer_may_die(void **state)
{
    struct gyre_region region = new_region(0);
    copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    kill(peer.process, SIGKILL);
    assert_int_equal(end_of(peer.process), 128 + SIGKILL);
    expect_text(&region, "peer!");
    cuda->free(&region);
    close(peer.to);
    close(peer.from);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void test_a_full_queue_says_so(void **state)
{
    uint64_t token, posts = 0;
    struct gyre_region region = new_region(0);
    struct gyre_device_queue *queue = new_queue(0);
    fakecuda_hold(true);
    while (cuda->copy(queue, region.base, "x", 1, posts) == 0)
        posts++;
    assert_int_equal(posts, GYRE_DEVICE_POSTS);
    assert_int_equal(cuda->copy(queue, region.base, "x", 1, posts), -EAGAIN);
    assert_int_equal(reduce(queue, &region, posts), -EAGAIN);
    assert_int_equal(cuda->query(queue, &token, 1), 0);
    fakecuda_hold(false);
    for (uint64_t i = 0; i < posts; i++)
        device_suite_finish(cuda, queue, 0, i);
    cuda->queue_destroy(queue);
    cuda->free(&region);
}

static void test_a_launch_that_fails_posts_nothing(void **state)
{
    uint64_t token;
    int one = 1, two = 0;
    struct gyre_region region = new_region(0);
    struct gyre_device_queue *queue = new_queue(0);
    copy(0, region.base, &one, sizeof one);
    fakecuda_fail("cudaLaunchKernel", 1, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(reduce(queue, &region, 1), GYRE_INVALID);
    assert_int_equal(cuda->query(queue, &token, 1), 0);
    device_suite_finish(cuda, queue, reduce(queue, &region, 2), 2);
    copy(0, &two, region.base, sizeof two);
    assert_int_equal(two, 2);
    cuda->queue_destroy(queue);
    cuda->free(&region);
}

static void test_a_lost_device_is_told_to_all(void **state)
{
    uint64_t token;
    struct gyre_region region = new_region(0), none;
    struct gyre_device_queue *queue = new_queue(0);
    struct gyre_trouble trouble = {0};
    int status;
    fakecuda_fail("kernel", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(reduce(queue, &region, 1), 0);
    while ((status = cuda->query(queue, &token, 1)) == 0)
        sched_yield();
    assert_int_equal(status, -EIO);
    assert_int_equal(cuda->query(queue, &token, 1), -EIO);
    assert_int_equal(cuda->copy(queue, region.base, "x", 1, 2), -EIO);
    assert_int_equal(reduce(queue, &region, 2), -EIO);
    assert_int_equal(cuda->after(queue, NULL, NULL), -EIO);
    assert_int_equal(cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &none, &trouble), -EIO);
    expect_words(&trouble, "on CUDA device 0: CUDA_ERROR_ILLEGAL_ADDRESS (700); the device may be "
                           "lost to this process: end the job");
    cuda->queue_destroy(queue);
    cuda->free(&region);
    fakecuda_heal();
}

/* All of the device's calls once, behind the caller's stream; the first status that is not what it
 * should be. */
static int use_everything(CUstream stream, struct gyre_trouble *trouble)
{
    static const char bytes[8] = "bytes";
    uint64_t token;
    struct gyre_region region, view = {.fd = -1};
    struct gyre_device_queue *queue = NULL;
    int status = cuda->alloc(0, LENGTH, GYRE_SHARE_OPEN, &region, trouble);
    if (!status)
        status = cuda->import(0, region.fd, LENGTH, GYRE_SHARE_OPEN, &view, trouble);
    if (!status)
        status = cuda->detach(&region, trouble);
    if (!status)
        status = cuda->queue_create(0, &queue, trouble);
    if (!status)
        status = cuda->after(queue, stream, NULL);
    if (!status)
        status = cuda->copy(queue, region.base, bytes, 8, 1);
    if (!status)
        status = reduce(queue, &region, 2);
    for (int got = 0; !status && got < 2;) {
        int count = cuda->query(queue, &token, 1);
        status = count < 0 ? count : 0;
        got += count;
    }
    cuda->queue_destroy(queue);
    cuda->unimport(&view);
    cuda->free(&region);
    fakecuda_wait();
    fakecuda_heal(); /* memory may have been freed that a failed wait left in use */
    return status;
}

/* Fails one call of everything, at every place in turn; how many of them were told. */
static int fail_at_each_place(const char *call, bool tidy, const char *words)
{
    int told = 0;
    CUstream stream = foreign_stream(0);
    for (int nth = 1; nth <= 20; nth++) {
        struct gyre_trouble trouble = {0};
        struct fakecuda_alive before = fakecuda_alive();
        fakecuda_fail(call, nth, CUDA_ERROR_ECC_UNCORRECTABLE);
        int status = use_everything(stream, &trouble);
        fakecuda_fail(NULL, 0, CUDA_SUCCESS);
        assert_true(status <= 0);
        assert_true(status < 0 || !trouble.text[0]);
        if (trouble.text[0])
            expect_words(&trouble, words);
        if (tidy && !same_alive(&before))
            fail_msg("%s, call %d: something was left behind", call, nth);
        told += status < 0;
    }
    end_stream(stream);
    return told;
}

static void test_every_call_may_fail(void **state)
{
    static const struct {
        const char *name;
        bool tidy; /* nothing is left; false: what fails is letting go */
    } calls[] = {
        {"cuMemCreate", true},
        {"cuMemExportToShareableHandle", true},
        {"cuMemImportFromShareableHandle", true},
        {"cuMemAddressReserve", true},
        {"cuMemMap", true},
        {"cuMemSetAccess", true},
        {"cuStreamCreate", true},
        {"cuStreamSynchronize", true},
        {"cuMemsetD8Async", true},
        {"cuMemcpyAsync", true},
        {"cuCtxSynchronize", true},
        {"cuEventCreate", true},
        {"cuEventRecord", true},
        {"cuEventQuery", true},
        {"cuStreamWaitEvent", true},
        {"cudaLaunchKernel", true},
        {"cudaGetLastError", true},
        {"cuMemUnmap", false},
        {"cuCtxPushCurrent", false},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!fail_at_each_place(calls[i].name, calls[i].tidy, "CUDA_ERROR_ECC_UNCORRECTABLE (214)"))
            fail_msg("%s: no failure was told", calls[i].name);
}

/* Where the answer is no, or none, the classic way is taken, which does not work inside one
 * process. */
static void test_what_cannot_be_asked_is_not_there(void **state)
{
    static const char *const calls[] = {"cuDeviceGet", "cuDeviceGetAttribute"};
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(fail_at_each_place(calls[i], true, "cuIpcOpenMemHandle"), 0);
    assert_int_not_equal(fail_at_each_place("cuMemRetainAllocationHandle", false, "IPC handle"), 0);
}

/* What a device is asked when it is used for the first time. */
static int role_fresh(void)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (cuda->alloc(0, LENGTH, GYRE_SHARE_OPEN, &region, &trouble) >= 0)
        return 1;
    printf("%s\n", trouble.text);
    return strstr(trouble.text, getenv("EXPECT")) ? 0 : 2;
}

static void test_a_first_use_may_fail(void **state)
{
    static const char *const calls[] = {"cuDeviceGet", "cuMemGetAllocationGranularity",
                                        "cuDevicePrimaryCtxRetain"};
    for (int i = 0; i < 3; i++) {
        char plan[96];
        snprintf(plan, sizeof plan, "%s:1:CUDA_ERROR_NOT_PERMITTED", calls[i]);
        setenv("FAKECUDA_FAIL", plan, 1);
        setenv("EXPECT", calls[i], 1);
        assert_int_equal(end_of(start("fresh", NULL, 0)), 0);
    }
    unsetenv("FAKECUDA_FAIL");
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.contexts, 2);
    assert_int_equal(alive.ranges + alive.handles + alive.streams + alive.events, 0);
    assert_int_equal(alive.bytes, 0);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stray_contexts),
        cmocka_unit_test(test_machines_without_cuda_are_told_apart),
        cmocka_unit_test(test_devices_that_do_not_exist),
        cmocka_unit_test(test_devices_are_told_apart),
        cmocka_unit_test(test_devices_reach_each_other_or_not),
        cmocka_unit_test(test_the_current_device_is_the_thread_s_own),
        cmocka_unit_test(test_a_forked_child_is_refused),
        cmocka_unit_test(test_host_touch_is_fatal),
        cmocka_unit_test(test_sealed_memory_is_refused),
        cmocka_unit_test(test_a_full_device_is_named),
        cmocka_unit_test(test_classic_memory),
        cmocka_unit_test(test_forged_tickets_are_refused),
        cmocka_unit_test(test_peers_share_memory_until_it_is_detached),
        cmocka_unit_test(test_peers_share_classic_memory),
        cmocka_unit_test(test_a_peer_may_die),
        cmocka_unit_test(test_a_full_queue_says_so),
        cmocka_unit_test(test_a_launch_that_fails_posts_nothing),
        cmocka_unit_test(test_a_lost_device_is_told_to_all),
        cmocka_unit_test(test_nothing_was_left),
        cmocka_unit_test(test_every_call_may_fail),
        cmocka_unit_test(test_what_cannot_be_asked_is_not_there),
        cmocka_unit_test(test_a_first_use_may_fail),
    };
    static const size_t bytes[] = {sizeof(int *), sizeof(int *), sizeof(uint64_t)};
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (count > 1)
        return !strcmp(words[1], "peer")     ? role_peer()
               : !strcmp(words[1], "absent") ? role_absent()
                                             : role_fresh();
    setenv("FAKECUDA_DEVICES", "2", 1);
    fake_kernel_register((const void *)double_all, bytes, 3);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + device_suite_run("the contract, by CUDA", cuda, doubling);
}
