/* Messages of CUDA memory whose other end goes: a sender that is killed, and one that frees its
 * memory, while the receiver's device copies from it, or before; a device that is lost meanwhile.
 * tests/gpu/run has the first group run on real devices. */
#include "program/cuda/messages_rig.h"

#include "collectives/comm/communicator.h"
#include "rig/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* So nothing has been copied between devices when the first message is. */
static void one_device(const struct rig *rig, int rank)
{
    messages_two_devices(rig, rank);
    setenv("GYRE_DEVICES", "0,0", 1);
}

/* -- while a copy is under way ----------------------------------------------------------------- */

/* Rank 0 receives from rank 1, and its device has begun to copy and gets no further. */
static int begin(struct gyre_comm *comm, struct rig *rig, struct bench *bench,
                 struct gyre_work **work)
{
    int rank = gyre_rank(comm), bad = messages_set_up(comm, bench);
    uint8_t *memory = bench->memory[MAPPED];
    bad += messages_put(bench, memory, LENGTH, 7);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (bad)
        return bad;
    if (rank == 1)
        return rig_check(gyre_send_start(comm, memory, LENGTH, GYRE_U8, 0, work) == 0, comm,
                         "gyre_send_start");
    if (rank != 0)
        return 0;
    int before = fakecuda_calls("cuMemcpyAsync");
    bad += messages_put(bench, memory, LENGTH, 8);
    fakecuda_hold(true);
    bad += rig_check(gyre_recv_start(comm, memory, LENGTH, GYRE_U8, 1, work) == 0, comm,
                     "gyre_recv_start");
    while (!bad && fakecuda_calls("cuMemcpyAsync") == before + 1)
        bad = rig_check(gyre_work_test(*work) == GYRE_AGAIN, comm, "it cannot have arrived");
    rig->shared->ready++;
    return bad;
}

/* Lets the device go on when the watch knows of the failure. */
static _Atomic int let_go;

static void *release(void *argument)
{
    struct gyre_comm *comm = argument;
    while (!atomic_load(&gyre_domain_health(comm->domain)->status))
        sched_yield();
    uint64_t limit = rig_now() + 20000000; /* a call that waits for nothing would return */
    while (rig_now() < limit)
        sched_yield();
    let_go = 1;
    fakecuda_hold(false);
    return NULL;
}

static int outlive(struct gyre_comm *comm, struct rig *rig)
{
    pthread_t thread;
    struct bench bench;
    struct gyre_work *work = NULL;
    int status, bad = begin(comm, rig, &bench, &work);
    if (gyre_rank(comm) == 1) {
        rig->shared->ready++;
        for (;;)
            sched_yield();
    }
    if (gyre_rank(comm) == 0) {
        pthread_create(&thread, NULL, release, comm);
        status = gyre_work_wait(work, -1);
        bad += rig_check(let_go == 1, comm, "the call ends when the copy is over");
        pthread_join(thread, NULL);
    } else {
        rig->shared->ready++;
        while (!(status = gyre_barrier(comm)))
            ;
    }
    rig_note(rig, comm, status, rig_now());
    bad += rig_check(gyre_free(comm, bench.memory[MAPPED]) == 0, comm, "gyre_free");
    uint8_t *alone = bench.memory[ALONE];
    bad += messages_put(&bench, alone, LENGTH, 3) || messages_check(comm, &bench, alone, LENGTH, 3);
    return messages_tear_down(comm, &bench, GYRE_PEER_LOST, bad);
}

static void a_killed_sender(void **state)
{
    static const struct {
        const char *transport;
        messages_readying before;
    } ways[] = {{"shm", messages_two_devices}, {"shm", messages_classic}, {"tcp", messages_nodes}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = {
            .n = 3, .transport = ways[i].transport, .before = ways[i].before, .body = outlive};
        rig_lose_rank_1(&rig, SIGKILL);
    }
}

/* The sender lets go of what it still sends; what was begun is read to its end. */
static int free_under_a_copy(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work = NULL;
    struct gyre_domain *domain = comm->domain;
    int bad = begin(comm, rig, &bench, &work);
    if (gyre_rank(comm) == 1) {
        uint64_t offset;
        rig->shared->status[1] = (int)gyre_domain_locate(domain, GYRE_MEMORY_CUDA,
                                                         bench.memory[MAPPED], LENGTH, &offset);
        rig_until(&rig->shared->ready, 1);
        rig->shared->flag = 1;
        bad += rig_check(gyre_free(comm, bench.memory[MAPPED]) == 0, comm, "gyre_free");
    } else {
        rig_until(&rig->shared->flag, 1);
        uint64_t limit = rig_now() + 100000000; /* for what must not happen */
        while (rig_now() < limit)
            sched_yield();
        fakecuda_hold(false);
    }
    bad += rig_check(gyre_work_wait(work, -1) == 0, comm, "the message arrives");
    if (gyre_rank(comm) == 0)
        bad += messages_check(comm, &bench, bench.memory[MAPPED], LENGTH, 7);
    return messages_tear_down(comm, &bench, 0,
                              bad + rig_check(gyre_barrier(comm) == 0, comm, "a barrier"));
}

static void memory_freed_under_a_copy(void **state)
{
    (void)state;
    messages_run_both(2, free_under_a_copy);
}

/* -- what fails -------------------------------------------------------------------------------- */

/* Freed before the receiver has asked for it. */
static int free_too_soon(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work;
    int status = 0, bad = messages_set_up(comm, &bench);
    uint8_t *memory = bench.memory[MAPPED];
    if (gyre_rank(comm) == 1) {
        bad += rig_check(gyre_send_start(comm, memory, LENGTH, GYRE_U8, 0, &work) == 0, comm,
                         "gyre_send_start");
        bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
        rig->shared->ready++;
        status = gyre_work_wait(work, -1);
    } else {
        rig_until(&rig->shared->ready, 1);
        status = gyre_recv(comm, memory, LENGTH, GYRE_U8, 1);
    }
    rig_note(rig, comm, status, rig_now());
    bad += rig_check(status < 0 && strstr(gyre_error(comm), "freed") != NULL, comm, "the story");
    return messages_tear_down(comm, &bench, status, bad);
}

static void memory_freed_too_soon(void **state)
{
    (void)state;
    messages_run_both(2, free_too_soon);
}

/* Rank 0's device is lost when it is asked to copy, or while it does. What goes in pieces has more
 * of them than are under way at a time, so its sender is told as well. */
static int lose_device(struct gyre_comm *comm, const struct rig *rig, const char *name)
{
    const enum kind *kind = rig->argument;
    struct bench bench;
    messages_room = strcmp(rig->transport, "tcp") && *kind == MAPPED ? LENGTH : LONGEST;
    int bad = messages_set_up(comm, &bench);
    uint8_t *memory = bench.memory[*kind];
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (gyre_rank(comm) == 0)
        fakecuda_fail(name, 1, CUDA_ERROR_LAUNCH_FAILED);
    int status = gyre_rank(comm) == 0 ? gyre_recv(comm, memory, messages_room, GYRE_U8, 1)
                                      : gyre_send(comm, memory, messages_room, GYRE_U8, 0);
    bad += rig_check(status < 0 && strcasestr(gyre_error(comm), "cuda device 0") != NULL, comm,
                     "the story of a lost device");
    gyre_finalize(comm);
    return bad;
}

static int lose_when_asked(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "cuMemcpyAsync");
}

static int lose_at_work(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "copy");
}

static int lose_queue(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "cuStreamCreateWithPriority");
}

static void lost_devices(void **state)
{
    static const struct {
        const char *transport;
        messages_readying before;
        int (*body)(struct gyre_comm *, struct rig *);
    } ways[] = {
        {"shm", messages_two_devices, lose_when_asked},
        {"shm", messages_two_devices, lose_at_work},
        {"shm", messages_classic, lose_when_asked},
        {"shm", messages_classic, lose_at_work},
        {"tcp", messages_nodes, lose_when_asked},
        {"tcp", messages_nodes, lose_at_work},
        {"shm", one_device, lose_queue},
    };
    static const enum kind kinds[] = {MAPPED, ALONE}; /* whole, and in pieces */
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(*ways); i++) {
        struct rig rig = {.n = 2,
                          .transport = ways[i / 2].transport,
                          .before = ways[i / 2].before,
                          .body = ways[i / 2].body,
                          .argument = (void *)(uintptr_t)&kinds[i % 2]};
        assert_int_equal(rig_run(&rig, SECONDS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_freed_too_soon),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(a_killed_sender),
        cmocka_unit_test(memory_freed_under_a_copy),
        cmocka_unit_test(lost_devices),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
