/* Regions of CUDA memory over the stand-in: what they are made of, what is refused, and peers, new
 * processes of this program that are given a descriptor. */
#include "cuda_rig.h"
#include "device_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

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
    assert_int_equal(alive.ranges + alive.handles + alive.streams + alive.events, 0);
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
        cmocka_unit_test(test_forged_tickets_are_refused),
        cmocka_unit_test(test_peers_share_memory_until_it_is_detached),
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
