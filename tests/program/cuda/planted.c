/* Waits that are missing. Each file that waits for a device does so by asking for the event behind
 * a post; here the stand-in says of every event that it has been reached. What the operations then
 * give must be seen to be wrong, else the tests that call it right prove nothing:
 *
 *     staging/host_mirror.c         buffers that no peer maps, on shared memory and over links
 *     mapped/device/push.c          buffers that all map
 *     stream/device.c, copy queue   long messages, from and into device memory
 *     messages/staged_message.c     short ones, and those to other nodes
 *
 * Work is late by up to 1 ms, so that what is not waited for is not there.
 * collectives/staging/fold_queue.c has its own in unit/collectives/staging/fold_queue_test,
 * device/cuda/memory.c in unit/device/cuda/regions_test. */
#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT  70001u
#define SHORT  1000u
#define ROUNDS 8
#define OTHERS 6

struct bench {
    const struct gyre_device *cuda;
    struct gyre_device_queue *queue, *other[OTHERS];
    struct gyre_region alone[2];
    int32_t *memory[2]; /* 0: INPUT, 1: OUTPUT */
    int32_t *host, beside;
};

struct plan {
    const char *transport;
    bool shared;   /* the buffers are mapped by all */
    bool messages; /* instead of an all-reduce */
    uint64_t count;
    bool planted;
};

static int set_up(struct gyre_comm *comm, const struct plan *plan, struct bench *bench)
{
    int bad = 0;
    bench->cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    bench->host = malloc(COUNT * 4);
    bad |= bench->cuda->queue_create(gyre_device(comm), &bench->queue, NULL);
    for (int i = 0; i < OTHERS; i++)
        bad |= bench->cuda->queue_create(gyre_device(comm), &bench->other[i], NULL);
    for (int i = 0; i < 2 && !bad; i++)
        if (plan->shared) {
            bad |= gyre_alloc_device(comm, COUNT * 4, (void **)&bench->memory[i]);
        } else {
            bad |= bench->cuda->alloc(gyre_device(comm), COUNT * 4, GYRE_SHARE_OPEN,
                                      &bench->alone[i], NULL);
            bench->memory[i] = bench->alone[i].base;
        }
    return rig_check(!bad, comm, "memory");
}

static void carry(struct bench *bench, void *to, const void *from)
{
    uint64_t token;
    int done = bench->cuda->copy(bench->queue, to, from, COUNT * 4, 1);
    while (!done) {
        sched_yield();
        done = bench->cuda->query(bench->queue, &token, 1);
    }
}

static void fill(struct bench *bench, int32_t *memory, int32_t value)
{
    for (uint32_t i = 0; i < COUNT; i++)
        bench->host[i] = value;
    carry(bench, memory, bench->host);
}

/* Something to do beside, so that what is posted first need not be done first. */
static void keep_busy(struct bench *bench)
{
    uint64_t token[4];
    for (int i = 0; i < 4 * OTHERS; i++) {
        struct gyre_device_queue *other = bench->other[i % OTHERS];
        bench->cuda->query(other, token, 4);
        bench->cuda->copy(other, &bench->beside, bench->memory[0], 4, 1);
    }
}

static int operate(struct gyre_comm *comm, const struct plan *plan, struct bench *bench)
{
    struct gyre_work *work;
    int peer = !gyre_rank(comm);
    if (!plan->messages)
        return gyre_all_reduce(comm, bench->memory[0], bench->memory[1], plan->count, GYRE_I32,
                               GYRE_SUM);
    return gyre_recv_start(comm, bench->memory[1], plan->count, GYRE_I32, peer, &work) ||
           gyre_send(comm, bench->memory[0], plan->count, GYRE_I32, peer) ||
           gyre_work_wait(work, -1);
}

/* Elements that are not what the round should give. INPUT is written anew as soon as the call says
 * that it is free, and OUTPUT is read at once. */
static uint32_t wrong_ones(struct gyre_comm *comm, const struct plan *plan, struct bench *bench,
                           int round)
{
    uint32_t wrong = 0;
    int32_t wanted = plan->messages ? 10 * round + !gyre_rank(comm) : 20 * round + 1;
    fill(bench, bench->memory[0], 10 * round + gyre_rank(comm));
    fill(bench, bench->memory[1], -1);
    if (gyre_barrier(comm))
        return 1;
    keep_busy(bench);
    fakecuda_skip("cuEventQuery", plan->planted);
    int status = operate(comm, plan, bench);
    fakecuda_skip("cuEventQuery", false);
    carry(bench, bench->host, bench->memory[1]);
    for (uint64_t i = 0; i < plan->count; i++)
        wrong += status || bench->host[i] != wanted;
    fakecuda_wait();
    return wrong;
}

static int rounds(struct gyre_comm *comm, struct rig *rig)
{
    const struct plan *plan = rig->argument;
    struct bench bench = {0};
    uint32_t wrong = 0;
    if (set_up(comm, plan, &bench))
        return 1;
    for (int round = 1; round <= ROUNDS && !wrong; round++)
        wrong = wrong_ones(comm, plan, &bench, round);
    if (wrong) /* the other rank's may be right: it is told by this one's end */
        _exit(1);
    bench.cuda->queue_destroy(bench.queue);
    for (int i = 0; i < OTHERS; i++)
        bench.cuda->queue_destroy(bench.other[i]);
    for (int i = 0; i < 2; i++)
        bench.cuda->free(&bench.alone[i]);
    free(bench.host);
    return gyre_finalize(comm);
}

/* As it is, all is right; with the fault some rank is wrong, or worse. */
static void see(struct plan plan)
{
    struct rig rig = {.n = 2, .transport = plan.transport, .body = rounds, .argument = &plan};
    assert_int_equal(rig_run(&rig, 60), 0);
    plan.planted = true;
    assert_int_not_equal(rig_run(&rig, 20), 0);
}

static void shadows_wait(void **state)
{
    (void)state;
    see((struct plan){"shm", false, false, COUNT, false});
    see((struct plan){"shm", false, false, SHORT, false});
    see((struct plan){"tcp", false, false, COUNT, false});
}

static void kernels_are_waited_for(void **state)
{
    (void)state;
    see((struct plan){"shm", true, false, COUNT, false});
}

static void long_messages_wait(void **state)
{
    (void)state;
    see((struct plan){"shm", true, true, COUNT, false});
    see((struct plan){"shm", false, true, COUNT, false});
}

static void hauls_wait(void **state)
{
    (void)state;
    see((struct plan){"shm", true, true, SHORT, false});
    see((struct plan){"tcp", true, true, COUNT, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shadows_wait),
        cmocka_unit_test(kernels_are_waited_for),
        cmocka_unit_test(long_messages_wait),
        cmocka_unit_test(hauls_wait),
    };
    setenv("GYRE_DEVICES", "0,0", 1);
    setenv("FAKECUDA_DELAY", "1000", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
