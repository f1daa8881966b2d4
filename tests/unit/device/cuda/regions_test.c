/* Regions of CUDA memory over the stand-in: what they are made of, what is refused, and peers, new
 * processes of this program that are given a descriptor. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PEER_IN = CUDA_RIG_FD + 1, PEER_OUT };

static const struct gyre_device *cuda;

/* -- memory ------------------------------------------------------------------------------------ */

static void test_host_touch_is_fatal(void **state)
{
    struct gyre_region region = cuda_rig_region(0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)region.base = 1;
        _exit(0);
    }
    assert_int_not_equal(cuda_rig_end_of(child), 0);
    cuda->free(&region);
}

static void test_sealed_memory_is_refused(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(cuda->alloc(0, 4096, GYRE_SHARE_SEALED, &region, &trouble), GYRE_UNSUPPORTED);
    cuda_rig_expect_words(&trouble, "CUDA memory cannot be sealed");
    assert_int_equal(cuda->import(0, 0, 4096, GYRE_SHARE_SEALED, &region, NULL), GYRE_UNSUPPORTED);
}

static void test_a_full_device_is_named(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(cuda->alloc(1, UINT64_C(2) << 30, GYRE_SHARE_OPEN, &region, &trouble),
                     -ENOMEM);
    cuda_rig_expect_words(&trouble,
                          "cuMemCreate of 2147483648 bytes (1024 of 1024 MiB are free) on CUDA "
                          "device 1: CUDA_ERROR_OUT_OF_MEMORY (2); use less");
}

static void test_classic_memory(void **state)
{
    struct gyre_region region, view;
    struct gyre_trouble trouble = {0}, same = {0};
    fakecuda_export(false);
    region = cuda_rig_region(0);
    assert_true(region.fd >= 0);
    cuda_rig_copy(0, region.base, "classic", 7);
    cuda_rig_expect_text(&region, "classic");
    assert_int_equal(cuda->detach(&region, &trouble), GYRE_UNSUPPORTED);
    cuda_rig_expect_words(&trouble, "a lost peer may still write: what peers opened");
    assert_true(cuda->import(0, region.fd, CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &view, &same) < 0);
    cuda_rig_expect_words(&same, "cuIpcOpenMemHandle on CUDA device 0: CUDA_ERROR_INVALID_CONTEXT");
    assert_int_equal(cuda->import(0, region.fd, 8 << 20, GYRE_SHARE_OPEN, &view, NULL),
                     GYRE_INVALID);
    cuda->free(&region);
    fakecuda_fail("cuIpcGetMemHandle", 1, CUDA_ERROR_NOT_SUPPORTED);
    region = cuda_rig_region(0);
    assert_int_equal(region.fd, -1);
    cuda->free(&region);
    fakecuda_export(true);
}

/* What is refused in whatever words goes the classic way; what is used up does not. */
static void test_refused_exports(void **state)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemExportToShareableHandle"};
    static const CUresult errors[] = {CUDA_ERROR_NOT_PERMITTED,    CUDA_ERROR_NOT_SUPPORTED,
                                      CUDA_ERROR_INVALID_VALUE,    CUDA_ERROR_INVALID_HANDLE,
                                      CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_UNKNOWN};
    struct gyre_region region;
    for (int i = 0; i < 12; i++) {
        fakecuda_fail(calls[i % 2], 1, errors[i / 2]);
        region = cuda_rig_region(0);
        assert_true(region.fd >= 0);
        assert_int_equal(cuda->detach(&region, NULL), GYRE_UNSUPPORTED);
        cuda->free(&region);
    }
    fakecuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &region, NULL), -ENOMEM);
}

/* Of another device: told from one that is mapped for this one, too. */
static void test_what_a_device_cannot_access(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_region region = cuda_rig_region(1), view;
    assert_int_equal(cuda->admit(1, region.base, NULL), 0);
    assert_int_equal(cuda->admit(0, region.base, &trouble), GYRE_INVALID);
    cuda_rig_expect_words(&trouble, "is memory of CUDA device 1, which device 0, this rank's, ");
    assert_int_equal(cuda->adopt(0, region.base, CUDA_RIG_LENGTH, &view, NULL), 0);
    assert_int_equal(cuda->admit(0, view.base, NULL), 0);
    cuda->unimport(&view);
    cuda->free(&region);
}

/* -- devices that do not reach each other ------------------------------------------------------ */

/* Of two devices: memory of each, a view of the second's for the first, and a queue of the
 * first. */
struct apart {
    struct gyre_region own, second, other, view;
    struct gyre_device_queue *queue;
};

static void open_apart(struct apart *apart)
{
    struct gyre_trouble trouble = {0};
    fakecuda_peers(false);
    apart->own = cuda_rig_region(0);
    apart->second = cuda_rig_region(0);
    apart->other = cuda_rig_region(1);
    apart->queue = cuda_rig_queue(0);
    if (cuda->adopt(0, apart->other.base, CUDA_RIG_LENGTH, &apart->view, &trouble))
        fail_msg("%s", trouble.text);
    assert_true(apart->view.copied);
    assert_ptr_equal(apart->view.base, apart->other.base);
}

static void close_apart(struct apart *apart)
{
    cuda->queue_destroy(apart->queue);
    cuda->unimport(&apart->view);
    assert_null(apart->view.base);
    cuda->free(&apart->other);
    cuda->free(&apart->own);
    cuda->free(&apart->second);
    fakecuda_peers(true);
}

static void move(struct apart *apart, void *to, const void *from)
{
    device_suite_finish(cuda, apart->queue, cuda->copy(apart->queue, to, from, CUDA_RIG_LENGTH, 5),
                        5);
}

static void test_devices_apart_are_copied(void **state)
{
    static char bytes[CUDA_RIG_LENGTH], seen[CUDA_RIG_LENGTH];
    struct apart apart;
    open_apart(&apart);
    int before = fakecuda_calls("cuMemcpyPeerAsync");
    for (int i = 0; i < CUDA_RIG_LENGTH; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    move(&apart, apart.view.base, bytes); /* from the host, by a stream of the other device */
    move(&apart, apart.own.base, apart.view.base);
    assert_int_equal(fakecuda_calls("cuMemcpyPeerAsync"), before + 1);
    move(&apart, seen, apart.own.base);
    assert_memory_equal(seen, bytes, CUDA_RIG_LENGTH);
    bytes[100] ^= 1;
    move(&apart, apart.own.base, bytes);
    move(&apart, apart.view.base, apart.own.base);
    assert_int_equal(fakecuda_calls("cuMemcpyPeerAsync"), before + 2);
    move(&apart, seen, apart.view.base);
    assert_memory_equal(seen, bytes, CUDA_RIG_LENGTH);
    close_apart(&apart);
}

/* Fills its own memory, some times over, then the other's from there, then the host's from that,
 * then the other's with zeros: the host has what was filled last. Without the waits nothing of that
 * has to be in order. */
static bool order_is_kept(struct apart *apart)
{
    static char bytes[9][CUDA_RIG_LENGTH], seen[CUDA_RIG_LENGTH];
    uint64_t token = 0;
    memset(seen, 0, sizeof(seen));
    fakecuda_hold(true);
    for (int i = 0; i < 9; i++) {
        memset(bytes[i], 'a' + i, CUDA_RIG_LENGTH);
        assert_int_equal(cuda->copy(apart->queue, apart->own.base, bytes[i], CUDA_RIG_LENGTH, 1),
                         0);
    }
    assert_int_equal(
        cuda->copy(apart->queue, apart->view.base, apart->own.base, CUDA_RIG_LENGTH, 2), 0);
    assert_int_equal(cuda->copy(apart->queue, seen, apart->view.base, CUDA_RIG_LENGTH, 3), 0);
    assert_int_equal(
        cuda->copy(apart->queue, apart->view.base, apart->second.base, CUDA_RIG_LENGTH, 4), 0);
    fakecuda_hold(false);
    while (token != 4) {
        assert_true(cuda->query(apart->queue, &token, 1) >= 0);
        sched_yield();
    }
    bool right = true;
    for (int i = 0; i < CUDA_RIG_LENGTH; i++)
        right &= seen[i] == 'i';
    fakecuda_wait();
    return right;
}

/* The devices are threads: without a wait the order may come out right all the same, but not so
 * often. */
static void test_copies_apart_are_in_order(void **state)
{
    enum { OFTEN = 20 };
    int right = 0;
    struct apart apart;
    open_apart(&apart);
    for (int i = 0; i < OFTEN / 4; i++)
        assert_true(order_is_kept(&apart));
    fakecuda_skip("cuStreamWaitEvent", true); /* planted: no stream waits for the other */
    for (int i = 0; i < OFTEN && right == i; i++)
        right += order_is_kept(&apart);
    fakecuda_skip("cuStreamWaitEvent", false);
    assert_true(right < OFTEN);
    close_apart(&apart);
}

/* A driver may refuse; whatever fails leaves nothing, and a call that is refused keeps the
 * queue. */
static void test_copies_apart_may_fail(void **state)
{
    static const char *const calls[] = {
        "cuStreamCreateWithPriority", "cuEventCreate", "cuEventRecord",
        "cuStreamWaitEvent",          "cuMemcpyAsync", "cuCtxPushCurrent"};
    static char bytes[CUDA_RIG_LENGTH];
    struct apart apart;
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        for (int nth = 1; nth <= 2; nth++) {
            struct fakecuda_alive before = fakecuda_alive();
            open_apart(&apart);
            fakecuda_fail(calls[i], nth, CUDA_ERROR_ECC_UNCORRECTABLE);
            int status = cuda->copy(apart.queue, bytes, apart.view.base, CUDA_RIG_LENGTH, 1);
            fakecuda_fail(NULL, 0, CUDA_SUCCESS);
            assert_true(status <= 0 && (status < 0 || nth > 1));
            fakecuda_wait();
            close_apart(&apart);
            if (!cuda_rig_same_alive(&before))
                fail_msg("%s, call %d: something was left behind", calls[i], nth);
        }
    open_apart(&apart);
    fakecuda_fail("cuMemcpyPeerAsync", 1, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    assert_int_equal(cuda->copy(apart.queue, apart.own.base, apart.view.base, 8, 1),
                     GYRE_UNSUPPORTED);
    move(&apart, apart.own.base, apart.view.base);
    close_apart(&apart);
}

/* Memory that is not exportable stays with its device. */
static void test_classic_memory_is_not_copied(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_region view;
    fakecuda_export(false);
    struct gyre_region region = cuda_rig_region(1);
    assert_int_equal(cuda->adopt(0, region.base, CUDA_RIG_LENGTH, &view, &trouble),
                     GYRE_UNSUPPORTED);
    cuda_rig_expect_words(&trouble, "memory of CUDA device 1 that is not exportable");
    assert_null(view.base);
    cuda->free(&region);
    fakecuda_export(true);
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
        assert_int_equal(cuda->import(0, fd, CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &view, &trouble),
                         GYRE_INVALID);
        cuda_rig_expect_words(&trouble, "no handle of CUDA memory");
        close(fd);
    }
}

/* The right content in a file that cannot be sealed: its F_GET_SEALS fails. */
static void test_a_ticket_in_a_plain_file_is_refused(void **state)
{
    struct gyre_region view;
    struct gyre_trouble trouble = {0};
    char content[256];
    fakecuda_export(false);
    struct gyre_region region = cuda_rig_region(0);
    ssize_t length = pread(region.fd, content, sizeof content, 0);
    assert_in_range(length, 1, sizeof content);
    FILE *plain = tmpfile();
    assert_int_equal(pwrite(fileno(plain), content, (size_t)length, 0), length);
    assert_int_equal(
        cuda->import(0, fileno(plain), CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &view, &trouble),
        GYRE_INVALID);
    cuda_rig_expect_words(&trouble, "no handle of CUDA memory");
    fclose(plain);
    cuda->free(&region);
    fakecuda_export(true);
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
    if (cuda->import(0, CUDA_RIG_FD, CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &view, &trouble)) {
        printf("%s\n", trouble.text);
        return 1;
    }
    cuda_rig_copy(0, seen, view.base, 5);
    if (strcmp(seen, "owner"))
        return 2;
    cuda_rig_copy(0, view.base, "peer!", 5);
    give_turn(PEER_OUT);
    if (!await_turn(PEER_IN))
        return 3;
    cuda_rig_copy(0, view.base, "late!", 5);
    cuda_rig_expect_text(&view, "late!");
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
    struct peer peer = {cuda_rig_start("peer", (int[]){region->fd, to[0], from[1]}, 3), to[1],
                        from[0]};
    close(to[0]);
    close(from[1]);
    return peer;
}

static void end_peer(struct peer *peer)
{
    close(peer->to);
    assert_int_equal(cuda_rig_end_of(peer->process), 0);
    close(peer->from);
}

static void test_peers_share_memory_until_it_is_detached(void **state)
{
    struct gyre_region region = cuda_rig_region(0);
    cuda_rig_copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    cuda_rig_expect_text(&region, "peer!");
    assert_int_equal(cuda->detach(&region, NULL), 0);
    give_turn(peer.to);
    assert_true(await_turn(peer.from));
    cuda_rig_expect_text(&region, "peer!");
    cuda->free(&region); /* before the peer lets go */
    end_peer(&peer);
}

static void test_peers_share_classic_memory(void **state)
{
    fakecuda_export(false);
    setenv("FAKECUDA_EXPORT", "0", 1);
    struct gyre_region region = cuda_rig_region(0);
    cuda_rig_copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    cuda_rig_expect_text(&region, "peer!");
    give_turn(peer.to);
    assert_true(await_turn(peer.from));
    cuda_rig_expect_text(&region, "late!");
    end_peer(&peer);
    cuda->free(&region);
    fakecuda_export(true);
    unsetenv("FAKECUDA_EXPORT");
}

static void test_a_peer_may_die(void **state)
{
    struct gyre_region region = cuda_rig_region(0);
    cuda_rig_copy(0, region.base, "owner", 5);
    struct peer peer = start_peer(&region);
    assert_true(await_turn(peer.from));
    kill(peer.process, SIGKILL);
    assert_int_equal(cuda_rig_end_of(peer.process), 128 + SIGKILL);
    cuda_rig_expect_text(&region, "peer!");
    cuda->free(&region);
    close(peer.to);
    close(peer.from);
}

/* The first byte of fresh memory, read by a queue of the caller's as soon as it is there. */
static unsigned char first_of_fresh(uint64_t seed, bool held)
{
    unsigned char seen = 1;
    fakecuda_seed(seed);
    fakecuda_hold(held);
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    assert_int_equal(cuda->copy(queue, &seen, region.base, 1, 1), 0);
    fakecuda_hold(false);
    fakecuda_wait();
    cuda->queue_destroy(queue);
    cuda->free(&region);
    return seen;
}

/* It is zeroed: without the wait it may be seen as nobody wrote it. */
static void test_memory_is_filled_before_it_is_given(void **state)
{
    int early = 0;
    for (uint64_t seed = 1; seed <= 16; seed++)
        assert_int_equal(first_of_fresh(seed, false), 0);
    fakecuda_skip("cuStreamSynchronize", true);
    for (uint64_t seed = 1; seed <= 16; seed++)
        early += first_of_fresh(seed, true) == 0xd7;
    fakecuda_skip("cuStreamSynchronize", false);
    assert_in_range(early, 1, 16);
}

/* What a stream waits for may be whoever detaches: it is given up, and the region is as it was. */
static void test_a_busy_device_is_not_waited_for(void **state)
{
    static _Alignas(4096) gyre_device_word word[512];
    struct gyre_trouble trouble = {0};
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    cuda_rig_copy(0, region.base, "owner", 5);
    assert_int_equal(cuda->pin(0, word, sizeof word, NULL), 0);
    assert_int_equal(cuda->hold(queue, stream, word, 1, NULL), 0);
    assert_int_equal(cuda->detach(&region, &trouble), GYRE_TIMED_OUT);
    cuda_rig_expect_words(&trouble, "work that did not end");
    atomic_store(word, 1);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    cuda_rig_expect_text(&region, "owner");
    assert_int_equal(cuda->detach(&region, NULL), 0);
    cuda_rig_expect_text(&region, "owner");
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    cuda->unpin(0, word);
    cuda->free(&region);
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.contexts, 2);
    assert_int_equal(alive.ranges + alive.handles + alive.streams - alive.contexts + alive.events,
                     0);
    assert_int_equal(alive.bytes, 0);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_touch_is_fatal),
        cmocka_unit_test(test_sealed_memory_is_refused),
        cmocka_unit_test(test_a_full_device_is_named),
        cmocka_unit_test(test_classic_memory),
        cmocka_unit_test(test_refused_exports),
        cmocka_unit_test(test_what_a_device_cannot_access),
        cmocka_unit_test(test_devices_apart_are_copied),
        cmocka_unit_test(test_copies_apart_are_in_order),
        cmocka_unit_test(test_copies_apart_may_fail),
        cmocka_unit_test(test_classic_memory_is_not_copied),
        cmocka_unit_test(test_forged_tickets_are_refused),
        cmocka_unit_test(test_peers_share_memory_until_it_is_detached),
        cmocka_unit_test(test_a_ticket_in_a_plain_file_is_refused),
        cmocka_unit_test(test_peers_share_classic_memory),
        cmocka_unit_test(test_a_peer_may_die),
        cmocka_unit_test(test_memory_is_filled_before_it_is_given),
        cmocka_unit_test(test_a_busy_device_is_not_waited_for),
        cmocka_unit_test(test_nothing_was_left),
    };
    cuda = cuda_rig_begin();
    if (count > 1)
        return role_peer();
    setenv("FAKECUDA_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
