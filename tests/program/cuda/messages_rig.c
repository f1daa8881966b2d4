/* A rank that fails says so on standard error; cmocka sees the job. */
#include "program/cuda/messages_rig.h"
#include "rig/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t messages_room = LENGTH;

static const struct gyre_device *cuda;

static int carry(const struct bench *bench, void *to, const void *from, uint64_t bytes)
{
    static uint64_t last;
    uint64_t done = 0, token = ++last;
    int status = cuda->copy(bench->queue, to, from, bytes, token);
    while (status == 0 && done != token) {
        if (cuda->query(bench->queue, &done, 1) < 0)
            return 1;
        sched_yield();
    }
    return status < 0;
}

int messages_set_up(struct gyre_comm *comm, struct bench *bench)
{
    void *mapped, *shared;
    *bench = (struct bench){.host = malloc(messages_room + SKEW)};
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    int bad = cuda->queue_create(gyre_device(comm), &bench->queue, NULL) ||
              cuda->alloc(gyre_device(comm), messages_room + SKEW, GYRE_SHARE_OPEN, &bench->alone,
                          NULL) ||
              gyre_alloc_device(comm, messages_room + SKEW, &mapped) ||
              gyre_alloc(comm, messages_room + SKEW, &shared);
    if (rig_check(!bad, comm, "memory"))
        return 1;
    bench->memory[MAPPED] = mapped;
    bench->memory[ALONE] = bench->alone.base;
    bench->memory[SHARED] = shared;
    bench->memory[OWN] = malloc(messages_room + SKEW);
    return 0;
}

int messages_tear_down(struct gyre_comm *comm, struct bench *bench, int expected, int bad)
{
    free(bench->host);
    free(bench->memory[OWN]);
    bad += rig_check(gyre_finalize(comm) == expected, NULL, "gyre_finalize");
    cuda->queue_destroy(bench->queue);
    cuda->free(&bench->alone);
    struct fakecuda_alive left = fakecuda_alive();
    if (left.ranges || left.handles || (left.streams - left.contexts) || left.events)
        fprintf(stderr, "left: %d ranges, %d handles, %d streams, %d events\n", left.ranges,
                left.handles, (left.streams - left.contexts), left.events);
    return bad + left.ranges + left.handles + (left.streams - left.contexts) + left.events;
}

/* No piece is like another. */
static uint8_t byte_of(uint64_t i, unsigned seed)
{
    return (uint8_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 56 ^ seed * 29);
}

int messages_put(const struct bench *bench, uint8_t *to, uint64_t bytes, unsigned seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        bench->host[i] = byte_of(i, seed);
    return carry(bench, to, bench->host, bytes);
}

int messages_check(struct gyre_comm *comm, const struct bench *bench, const uint8_t *from,
                   uint64_t bytes, unsigned seed)
{
    uint64_t i = 0;
    if (carry(bench, bench->host, from, bytes))
        return rig_check(false, comm, "the device is alive");
    while (i < bytes && bench->host[i] == byte_of(i, seed))
        i++;
    return rig_check(i == bytes, comm, "the bytes");
}

/* -- ranks ------------------------------------------------------------------------------------- */

void messages_two_devices(const struct rig *rig, int rank)
{
    (void)rig;
    (void)rank;
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("FAKECUDA_DELAY", "100", 1);
    if (fakecuda_stands_in())
        setenv("GYRE_DEVICES", "0,1,1", 1);
}

void messages_classic(const struct rig *rig, int rank)
{
    messages_two_devices(rig, rank);
    setenv("FAKECUDA_EXPORT", "0", 1);
}

/* Each plays a node: what one device allocates no other maps. */
void messages_nodes(const struct rig *rig, int rank)
{
    messages_two_devices(rig, rank);
    if (fakecuda_stands_in())
        setenv("GYRE_DEVICES", "0,1,0", 1);
}

void messages_run_near(int n, messages_readying before,
                       int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = "shm", .before = before, .body = body};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

void messages_run_both(int n, int (*body)(struct gyre_comm *, struct rig *))
{
    messages_run_near(n, messages_two_devices, body);
    if (fakecuda_stands_in())
        messages_run_near(n, messages_classic, body);
}

void messages_run_by_wire(int n, messages_readying before,
                          int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = "tcp", .before = before, .body = body};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}
