/* Several ranks in one process, for tests: how many ranks each process has, on which devices, and
 * the memory that each rank works with.
 *
 *      plan       "3 1"    ranks of process 0, of process 1 …
 *      memory     0, 1: what peers map      2: the rank's own      (host or device, all alike) */
#ifndef GYRE_TESTS_RIG_LOCAL_RIG_H
#define GYRE_TESTS_RIG_LOCAL_RIG_H

#include "rig/collectives_rig.h"
#include "collectives/comm/communicator.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST      (20001u * 8 * 9 + 4096)
#define MOST_HERE 20001u
#define RANKS     16

struct plan {
    int ranks[4];       /* of each process */
    bool cuda, apart;   /* on devices; whose memory is not mapped everywhere */
    int devices[RANKS]; /* of the ranks of each process */
};

/* What a rank works with. */
struct seat {
    struct gyre_comm *comm;
    struct stage stage;
    struct gyre_device_queue *queue;
    uint64_t most;
    int bad;
};

struct table {
    int count;
    struct gyre_comm *comm[RANKS];
    struct seat seat[RANKS];
};

/* -- memory ------------------------------------------------------------------------------------ */

static _Thread_local struct gyre_device_queue *queue_here;

static inline int carry(void *to, const void *from, uint64_t bytes)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    uint64_t done = 0;
    int status = cuda->copy(queue_here, to, from, bytes, 1);
    while (status == 0 && done != 1) {
        if (cuda->query(queue_here, &done, 1) < 0)
            return 1;
        sched_yield(); /* to who makes the copy: the stand-in's devices are threads */
    }
    return status < 0;
}

/* Have all peers of the node mapped it? Those of a large node map nothing. */
static inline bool is_mapped(struct gyre_comm *comm, const void *memory)
{
    uint64_t offset;
    return gyre_size(comm) == 1 ||
           gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, memory, MOST, &offset) != 0;
}

static inline int furnish(struct seat *seat, struct gyre_comm *comm, const struct plan *plan)
{
    static struct gyre_region alone[RANKS];
    struct stage *stage = &seat->stage;
    seat->comm = comm;
    seat->most = plan->cuda ? in_haste() ? 128 : 5000 : in_haste() ? 5000 : MOST_HERE;
    for (int i = 0; i < 3; i++)
        stage->memory[i] = malloc(MOST);
    if (!plan->cuda)
        return rig_check(!gyre_alloc(comm, MOST, (void **)&stage->memory[0]) &&
                             !gyre_alloc(comm, MOST, (void **)&stage->memory[1]),
                         comm, "memory");
    struct gyre_region *own = &alone[gyre_rank(comm)];
    const struct gyre_device *device = gyre_device_of(GYRE_MEMORY_CUDA);
    stage->carry = carry;
    int bad = device->queue_create(gyre_device(comm), &seat->queue, NULL) ||
              device->alloc(gyre_device(comm), MOST, GYRE_SHARE_OPEN, own, NULL);
    stage->away[2] = own->base;
    return rig_check(
        !bad && !gyre_alloc_device(comm, MOST, (void **)&stage->away[0]) &&
            !gyre_alloc_device(comm, MOST, (void **)&stage->away[1]) &&
            (is_mapped(comm, stage->away[0]) == !plan->apart || !gyre_domain_shares(comm->domain)),
        comm, "memory");
}

/* The stand-in's devices are the plan's; of others, those of the list. */
static inline void list_devices(const struct plan *plan, int devices[RANKS])
{
    const char *list = getenv("GYRE_DEVICES");
    for (int i = 0; i < RANKS; i++) {
        devices[i] = !plan->cuda ? -1 : fakecuda_stands_in() ? plan->devices[i] : 0;
        if (plan->cuda && !fakecuda_stands_in() && list && *list) {
            char *end;
            devices[i] = (int)strtol(list, &end, 10);
            list = *end == ',' ? end + 1 : end;
        }
    }
}

/* Joins, with the memory of all ranks here. */
static inline int sit_down(struct table *table, const struct plan *plan, int process)
{
    int devices[RANKS];
    list_devices(plan, devices);
    *table = (struct table){.count = plan->ranks[process]};
    if (gyre_init_in_process(table->comm, table->count, devices, NULL)) {
        fprintf(stderr, "process %d: %s\n", process, gyre_error(NULL));
        return 1;
    }
    for (int i = 0; i < table->count; i++)
        if (furnish(&table->seat[i], table->comm[i], plan))
            return 1;
    return 0;
}

static inline int stand_up(struct table *table)
{
    int bad = 0;
    for (int i = 0; i < table->count; i++)
        bad |= rig_check(!gyre_finalize(table->comm[i]), NULL, "gyre_finalize");
    return bad;
}

/* Runs the processes of the plan, on nodes of one process each where `nodes`. */
static inline void run(const struct plan *plan, const char *transport, bool nodes,
                       int (*process)(struct rig *, int))
{
    struct rig rig = {.transport = transport,
                      .per_node = nodes,
                      .process = process,
                      .argument = (void *)(uintptr_t)plan};
    while (rig.n < 4 && plan->ranks[rig.n])
        rig.n++;
    assert_int_equal(rig_run(&rig, 100), 0);
}

#endif
