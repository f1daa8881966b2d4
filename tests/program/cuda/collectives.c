/* Collectives on CUDA memory, with real processes over the stand-in for CUDA: every verb, over
 * every transport, with memory that devices of the node map, memory that only this process has,
 * host memory, and all of them mixed between ranks; blocking and started; also messages and groups.
 *
 *      memory 0, 1   gyre_alloc_device(): peers' devices map it
 *      memory 2      the device's, of this process alone
 *      memory 3      the host's
 *
 * In haste half of the counts, by turns. tests/gpu/run has it run on real devices. */
#include "rig/collectives_rig.h"
#include "device/device.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_HERE 70001u
#define MOST_LONG 400009u /* several parcels of a host mirror */
#define MOST      (MOST_LONG * 8 * 3 + 65536)

/* -- memory ------------------------------------------------------------------------------------ */

static const struct gyre_device *cuda;
static struct gyre_device_queue *queue;
static uint64_t token;

static int carry(void *to, const void *from, uint64_t bytes)
{
    uint64_t done = 0;
    int status = cuda->copy(queue, to, from, bytes, ++token);
    while (status == 0 && done != token) {
        if (cuda->query(queue, &done, 1) < 0)
            return 1;
        sched_yield(); /* to who makes the copy: a device may be a thread here */
    }
    return status < 0;
}

static int open_device(struct gyre_comm *comm)
{
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    return rig_check(cuda->queue_create(gyre_device(comm), &queue, NULL) == 0, comm, "a queue");
}

static int make_memory(struct gyre_comm *comm, struct stage *stage)
{
    static struct gyre_region alone;
    stage->carry = carry;
    for (int i = 0; i < 4; i++)
        stage->memory[i] = malloc(MOST);
    if (open_device(comm) || cuda->alloc(gyre_device(comm), MOST, GYRE_SHARE_OPEN, &alone, NULL))
        return 1;
    stage->away[2] = alone.base;
    return rig_check(gyre_alloc_device(comm, MOST, (void **)&stage->away[0]) == 0 &&
                         gyre_alloc_device(comm, MOST, (void **)&stage->away[1]) == 0,
                     comm, "memory");
}

static void drop_memory(const struct stage *stage)
{
    for (int i = 0; i < 4; i++)
        free(stage->memory[i]);
    cuda->queue_destroy(queue);
}

/* -- every verb -------------------------------------------------------------------------------- */

/* All ranks alike on the device, in mapped memory and in their own; then each as it likes. */
static int every_way(struct gyre_comm *comm, const struct stage *stage, enum verb verb,
                     uint64_t count)
{
    static const int memory[][2] = {{0, 1}, {2, 2}, {0, 3}, {3, 1}, {1, 2}};
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    for (int way = 0; way < 9 && !bad; way++) {
        const int *kind = memory[way < 6 ? way / 3 : (way + rank) % 5];
        bool in_place = way < 6 ? way % 3 == 2 : (rank + way) % 2;
        struct question ask = {.verb = verb,
                               .type = type_of(verb, way + (int)(count % 7)),
                               .op = op_of(verb, way),
                               .root = (way + (int)count) % n,
                               .count = count,
                               .in_place = in_place,
                               .started = way % 3 == 1,
                               .input = kind[0],
                               .output = kind[0] == kind[1] && !in_place ? 0 : kind[1],
                               .skew = (unsigned)way % 3};
        bad = ask_and_check(comm, stage, &ask);
    }
    return bad;
}

/* In haste each verb takes each second count, and an odd number of ranks takes the other ones. */
static bool is_asked(size_t place, int verb, int n)
{
    return !in_haste() || (place + (size_t)verb + (size_t)n) % 2 == 0;
}

static int everything(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t counts[] = {0, 1, 7, 128, 1025, 5000, MOST_HERE};
    struct stage stage = {.carry = carry};
    int bad = make_memory(comm, &stage);
    uint64_t most = rig->argument ? *(const uint64_t *)rig->argument
                    : in_haste()  ? 5000
                                  : MOST_HERE;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && counts[c] <= most; c++)
        for (int verb = 0; verb < VERBS && !bad; verb++)
            bad = is_asked(c, verb, gyre_size(comm)) &&
                  every_way(comm, &stage, (enum verb)verb, counts[c]);
    bad = bad || gyre_barrier(comm);
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

/* What the CPU cannot touch is copied to it and back in parcels, while others are folded. In haste
 * even numbers of ranks ask one half of this, and odd ones the other. */
static int in_parcels(struct gyre_comm *comm, struct rig *rig)
{
    static const int memory[][2] = {{2, 2}, {2, 1}, {1, 2}, {2, 3}, {3, 2}};
    struct stage stage = {.carry = carry};
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = make_memory(comm, &stage);
    (void)rig;
    for (int i = 0; i < 3 * VERBS && !bad; i++) {
        if (in_haste() && (i + n) % 2)
            continue;
        enum verb verb = (enum verb)(i / 3);
        const int *kind =
            memory[i % 3 < 2 ? i % 3 : ((int)verb + rank) % 5]; /* alike, or as each likes */
        struct question ask = {.verb = verb,
                               .type = type_of(verb, i),
                               .op = op_of(verb, i),
                               .root = i % n,
                               .count = MOST_LONG - (uint64_t)(i % 3) * 70001,
                               .in_place = kind[0] == kind[1],
                               .started = i % 2,
                               .input = kind[0],
                               .output = kind[1]};
        bad = ask_and_check(comm, &stage, &ask);
    }
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

/* Calls of a group that go as one, some of a device's memory, some of the host's. */
static int in_groups(struct gyre_comm *comm, struct rig *rig)
{
    enum { ASKS = 3 * VERBS, ROOM = 32768 };
    static const int memory[][2] = {{0, 1}, {2, 2}, {0, 3}, {3, 1}, {1, 2}};
    struct question ask[ASKS];
    struct stage stage = {.carry = carry};
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = make_memory(comm, &stage);
    (void)rig;
    for (int round = 0; round < 3 && !bad; round++) {
        for (int i = 0; i < ASKS; i++) {
            const int *kind = memory[(i + rank * round) % 5];
            ask[i] = (struct question){.verb = (enum verb)(i % VERBS),
                                       .type = type_of((enum verb)(i % VERBS), round),
                                       .op = op_of((enum verb)(i % VERBS), round),
                                       .root = round % n,
                                       .count = (uint64_t)(i * 7 % 100),
                                       .in_place = kind[0] == kind[1] || (i + rank) % 4 == 0,
                                       .started = i % 3 == 1,
                                       .input = kind[0],
                                       .output = kind[1]};
        }
        bad = ask_in_group(comm, &stage, ask, ASKS, ROOM);
    }
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

/* -- a slow device ----------------------------------------------------------------------------- */

/* Pieces of work wait, so slices of the device's memory are ready one after the other, and late. */
static void slow_down(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("FAKECUDA_DELAY", "300", 1);
    setenv("GYRE_LANES", "8", 1);
    setenv("GYRE_SLICE", "64K", 1);
}

/* Two sums that each want every lane. Rank 0 has the first on its device, where it is not ready at
 * once: if the second were given the lanes meanwhile, each rank would hold them for an operation
 * that waits for the other. */
static int in_order(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *first, *second;
    struct stage stage = {.carry = carry};
    int bad = make_memory(comm, &stage);
    float *a = (float *)stage.memory[0], *b = (float *)stage.memory[1];
    void *there = gyre_rank(comm) ? (void *)a : (void *)stage.away[2];
    (void)rig;
    for (uint64_t i = 0; i < MOST_LONG; i++)
        a[i] = b[i] = (float)(i % 1000 + (uint64_t)gyre_rank(comm));
    bad = bad || (!gyre_rank(comm) && carry(there, a, MOST_LONG * sizeof *a)) ||
          gyre_all_reduce_start(comm, there, there, MOST_LONG, GYRE_F32, GYRE_SUM, &first) ||
          gyre_all_reduce_start(comm, b, b, MOST_LONG, GYRE_F32, GYRE_SUM, &second) ||
          gyre_work_wait(first, -1) || gyre_work_wait(second, -1) ||
          (!gyre_rank(comm) && carry(a, there, MOST_LONG * sizeof *a));
    for (uint64_t i = 0; i < MOST_LONG && !bad; i++)
        bad = rig_check(a[i] == (float)(2 * (i % 1000) + 1) && b[i] == a[i], comm, "the sums");
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

static void run(struct rig rig)
{
    if (!rig.body)
        rig.body = everything;
    assert_int_equal(rig_run(&rig, 100), 0);
}

static void shm_is_right(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        run((struct rig){.n = n, .transport = "auto"});
    if (rig_places() >= 8) /* as tests/gpu/run has them */
        run((struct rig){.n = 8, .transport = "auto"});
}

static void parcels_are_right(void **state)
{
    (void)state;
    run((struct rig){.n = 2, .transport = "auto", .body = in_parcels});
    run((struct rig){.n = 3, .transport = "auto", .body = in_parcels});
}

static void a_slow_device_is_waited_for(void **state)
{
    (void)state;
    run((struct rig){.n = 2, .transport = "tcp", .before = slow_down, .body = in_parcels});
}

static void lanes_go_in_the_order_of_calls(void **state)
{
    (void)state;
    run((struct rig){.n = 2, .transport = "tcp", .before = slow_down, .body = in_order});
}

static void tcp_is_right(void **state)
{
    static uint64_t most = 5000;
    (void)state;
    run((struct rig){.n = 2, .transport = "tcp", .poller = "epoll"});
    run((struct rig){.n = 3, .transport = "tcp", .poller = "io_uring", .argument = &most});
}

static void nodes_are_right(void **state)
{
    static uint64_t most = 5000;
    (void)state;
    run((struct rig){.n = 4, .transport = "auto", .per_node = 2, .argument = &most});
}

static void groups_are_right(void **state)
{
    (void)state;
    run((struct rig){.n = 3, .transport = "auto", .body = in_groups});
    run((struct rig){.n = 2, .transport = "tcp", .body = in_groups});
    run((struct rig){.n = 4, .transport = "auto", .per_node = 2, .body = in_groups});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shm_is_right),
        cmocka_unit_test(parcels_are_right),
        cmocka_unit_test(tcp_is_right),
        cmocka_unit_test(nodes_are_right),
        cmocka_unit_test(groups_are_right),
        cmocka_unit_test(a_slow_device_is_waited_for),
        cmocka_unit_test(lanes_go_in_the_order_of_calls),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
