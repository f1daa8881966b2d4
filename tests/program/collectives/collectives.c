/* The verbs with roots and blocks, with real processes: every verb over every transport, with
 * counts of 0, 1, a few and many (in haste not the most, and of the others each second), out of
 * place, in place and mixed, on memory that peers can map, on memory that they cannot, and mixed;
 * blocking and started.
 *
 * Every byte of the output is looked at, and the bytes before and after it, and those that a verb
 * must not touch: between unequal blocks, and the input where it is apart.
 *
 *      memory   [ guard │ input or blocks … │ guard ]   [ guard │ output or blocks … │ guard ] */
#include "rig/collectives_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST (400003u * 8 * 4 + 65536)

/* Places of four kinds: two that peers map, two that they cannot. */
static int make_memory(struct gyre_comm *comm, struct stage *stage)
{
    stage->memory[2] = malloc(MOST);
    stage->memory[3] = malloc(MOST);
    return gyre_alloc(comm, MOST, (void **)&stage->memory[0]) ||
           gyre_alloc(comm, MOST, (void **)&stage->memory[1]);
}

/* One verb in all ways at one count. Ranks choose memory and in place each for itself in every
 * third way. */
static int every_way(struct gyre_comm *comm, struct stage *stage, enum verb verb, uint64_t count)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), ways = count > 5000 ? 4 : 9;
    for (int way = 0; way < ways; way++) {
        int kind = way % 3 == 2 ? (way + rank) % 4 : way % 3 * 3;
        struct question ask = {.verb = verb,
                               .type = type_of(verb, way + (int)(count % 7)),
                               .op = op_of(verb, way),
                               .root = (way + (int)count) % n,
                               .count = count,
                               .in_place = way % 3 == 2 ? (rank + way / 3) % 2 : way / 3 % 2,
                               .started = way % 4 == 1,
                               .input = kind & 2,
                               .output = (kind & 2) + 1,
                               .skew = (unsigned)way % 3};
        if (way % 3 == 2)
            ask.output = (kind & 1) ? 1 : 3;
        if (ask_and_check(comm, stage, &ask))
            return 1;
    }
    return 0;
}

/* In haste an odd number of ranks takes other counts than an even one. */
static bool is_asked(size_t place, int n)
{
    return !in_haste() || (place + (size_t)n) % 2 == 0;
}

static int everything(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 127, 128, 1000, 1025, 5000, 70001, 400003};
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage);
    uint64_t most = rig->argument ? *(const uint64_t *)rig->argument : in_haste() ? 70001 : 400003;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && counts[c] <= most; c++)
        for (int verb = 0; verb < ALL_REDUCE && !bad; verb++)
            bad = counts[c] * 8 * (uint64_t)gyre_size(comm) + 65536 <= MOST &&
                  is_asked(c, gyre_size(comm)) &&
                  every_way(comm, &stage, (enum verb)verb, counts[c]);
    bad = bad || gyre_barrier(comm);
    free(stage.memory[2]);
    free(stage.memory[3]);
    return gyre_finalize(comm) || bad;
}

static void run(struct rig rig)
{
    rig.body = everything;
    assert_int_equal(rig_run(&rig, 100), 0);
}

static void shm_is_right(void **state)
{
    static uint64_t most = 5000;
    (void)state;
    for (int n = 1; n <= 4; n++)
        run((struct rig){.n = n, .transport = "auto"});
    run((struct rig){.n = 7, .transport = "shm", .argument = &most});
}

static void tcp_is_right(void **state)
{
    static uint64_t most = 70001;
    (void)state;
    run((struct rig){.n = 2, .transport = "tcp", .poller = "epoll"});
    run((struct rig){.n = 3, .transport = "tcp", .poller = "io_uring", .argument = &most});
    run((struct rig){.n = 5, .transport = "tcp", .poller = "epoll", .argument = &most});
}

static void mixed_nodes_are_right(void **state)
{
    static uint64_t most = 70001;
    (void)state;
    run((struct rig){.n = 4, .transport = "auto", .per_node = 2, .argument = &most});
    run((struct rig){.n = 5, .transport = "auto", .per_node = 3, .argument = &most});
}

/* The first that builds the operation: what selection would not take on so few ranks. */
static void other_algorithms_are_right(void **state)
{
    static uint64_t most = 5000;
    (void)state;
    run((struct rig){.n = 3,
                     .transport = "tcp",
                     .poller = "epoll",
                     .algorithm = "ring;tree;bruck",
                     .argument = &most});
    run((struct rig){
        .n = 4, .transport = "shm", .algorithm = "tree;bruck;ring;direct", .argument = &most});
    run((struct rig){.n = 5,
                     .transport = "auto",
                     .per_node = 3,
                     .algorithm = "bruck;ring;tree",
                     .argument = &most});
}

/* Twice as many ranks as elsewhere, mostly more than cores: few calls. */
static int sixteen(struct gyre_comm *comm, struct rig *rig)
{
    static const enum verb verbs[] = {ALL_REDUCE, ALL_TO_ALL};
    static const uint64_t counts[] = {3, 1025, 20011};
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage);
    (void)rig;
    for (int i = 0; i < 6 && !bad; i++) {
        struct question ask = {.verb = verbs[i % 2], .count = counts[i / 2], .output = 1};
        ask.type = type_of(ask.verb, i / 2);
        ask.in_place = i % 4 == 1;
        bad = ask_and_check(comm, &stage, &ask);
    }
    free(stage.memory[2]);
    free(stage.memory[3]);
    return gyre_finalize(comm) || bad;
}

static void sixteen_ranks_are_right(void **state)
{
    struct rig shm = {.n = 16, .transport = "shm", .body = sixteen};
    struct rig tcp = {.n = 16, .transport = "tcp", .body = sixteen};
    (void)state;
    assert_int_equal(rig_run(&shm, 60), 0);
    assert_int_equal(rig_run(&tcp, 60), 0);
}

/* -- what is refused --------------------------------------------------------------------------- */

#define REFUSED(call) (gyre_##call == GYRE_INVALID || !fprintf(stderr, "accepted: %s\n", #call))
#define TOLD(text, call)                                                                           \
    (REFUSED(call) &&                                                                              \
     (strstr(gyre_error(comm), text) || !fprintf(stderr, "%s: %s\n", #call, gyre_error(comm))))
#define OVERLAPS(call) TOLD("input and output overlap", call)
#define TOO_MANY(call) TOLD("more than memory can hold", call)

/* One buffer begins within the other, and not where in place means; each rank is the root. */
static int overlaps(struct gyre_comm *comm)
{
    float a[8] = {0};
    const uint64_t two[2] = {2, 2}, apart[2] = {3, 0};
    int root = gyre_rank(comm);
    int good = OVERLAPS(broadcast(comm, a, a + 1, 4, GYRE_F32, root)) &&
               OVERLAPS(broadcast(comm, a + 3, a, 4, GYRE_F32, root)) &&
               OVERLAPS(reduce(comm, a, a + 3, 4, GYRE_F32, GYRE_SUM, root)) &&
               OVERLAPS(reduce(comm, a + 1, a, 4, GYRE_F32, GYRE_SUM, root)) &&
               OVERLAPS(gather(comm, a + 2 - 2 * root, a, 2, GYRE_F32, root)) &&
               OVERLAPS(gather(comm, a, a + 1, 2, GYRE_F32, root)) &&
               OVERLAPS(scatter(comm, a, a + 2 - 2 * root, 2, GYRE_F32, root)) &&
               OVERLAPS(scatter(comm, a + 1, a, 2, GYRE_F32, root)) &&
               OVERLAPS(all_gather_v(comm, a + 2 - 2 * root, a, two, NULL, GYRE_F32)) &&
               OVERLAPS(all_gather_v(comm, a + 2, a, two, apart, GYRE_F32));
    return !good;
}

/* Elements whose bytes, cut to 64 bits, would be few; and the first that no memory holds. */
static int overflows(struct gyre_comm *comm, uint64_t one, uint64_t block)
{
    float a[8] = {0}, b[8];
    int root = gyre_rank(comm);
    int good = TOO_MANY(all_reduce(comm, a, b, one, GYRE_F32, GYRE_SUM)) &&
               TOO_MANY(broadcast(comm, a, b, one, GYRE_F32, root)) &&
               TOO_MANY(reduce(comm, a, b, one, GYRE_F32, GYRE_SUM, root)) &&
               TOO_MANY(all_gather(comm, a, b, block, GYRE_F32)) &&
               TOO_MANY(reduce_scatter(comm, a, b, block, GYRE_F32, GYRE_SUM)) &&
               TOO_MANY(all_to_all(comm, a, b, block, GYRE_F32)) &&
               TOO_MANY(gather(comm, a, b, block, GYRE_F32, root)) &&
               TOO_MANY(scatter(comm, a, b, block, GYRE_F32, root));
    return !good;
}

static int bad_arguments(struct gyre_comm *comm)
{
    float a[8] = {0}, b[8];
    uint64_t two[2] = {2, 2}, apart[2] = {0, 4}, crossed[2] = {0, 1}, huge[2] = {UINT64_MAX / 2, 1};
    struct gyre_work *work = (void *)1;
    int rank = gyre_rank(comm);
    const void *null = rank == 0 ? NULL : (const void *)a;
    int good = REFUSED(reduce(comm, a, b, 4, GYRE_F32, GYRE_SUM, 2)) &&
               (rank != 0 || REFUSED(reduce(comm, a, NULL, 4, GYRE_F32, GYRE_SUM, 0))) &&
               REFUSED(reduce(comm, a, b, 4, GYRE_F32, GYRE_AND, 0)) &&
               REFUSED(all_gather(comm, NULL, b, 4, GYRE_F32)) &&
               REFUSED(all_gather(comm, a, NULL, 4, GYRE_F32)) &&
               REFUSED(all_gather(comm, a, b, UINT64_MAX / 8, GYRE_F32)) &&
               REFUSED(all_gather(comm, a + (rank ? 0 : 4), a, 4, GYRE_F32)) &&
               REFUSED(reduce_scatter(comm, a, a + (rank ? 0 : 4), 4, GYRE_F32, GYRE_SUM)) &&
               REFUSED(reduce_scatter(comm, a, b, 4, GYRE_F32, (enum gyre_op)77)) &&
               REFUSED(all_to_all(comm, a, a + 1, 2, GYRE_F32)) &&
               REFUSED(all_to_all(comm, a, b, 2, (enum gyre_type)77)) &&
               REFUSED(gather(comm, a, b, 2, GYRE_F32, -1)) &&
               REFUSED(scatter(comm, a, NULL, 2, GYRE_F32, 0)) &&
               REFUSED(all_gather_v(comm, a, b, NULL, NULL, GYRE_F32)) &&
               REFUSED(all_gather_v(comm, a, b, two, crossed, GYRE_F32)) &&
               REFUSED(all_gather_v(comm, a, b, huge, NULL, GYRE_F32)) &&
               REFUSED(all_gather_v(comm, null, b, rank ? huge : two, apart, GYRE_F32)) &&
               REFUSED(all_gather_start(comm, a, b, 4, GYRE_F32, NULL)) &&
               REFUSED(all_gather_start(comm, a, NULL, 4, GYRE_F32, &work)) && work == NULL;
    return !good;
}

static int bad_arguments_do_no_harm(struct gyre_comm *comm, struct rig *rig)
{
    int32_t one = 1 + gyre_rank(comm), both[2];
    (void)rig;
    if (bad_arguments(comm) || overlaps(comm) ||
        overflows(comm, UINT64_MAX / 4 + 2, UINT64_MAX / 8 + 2) ||
        overflows(comm, INT64_MAX / 4 + 1, INT64_MAX / 8 + 1))
        return 4;
    if (gyre_all_gather(comm, &one, both, 1, GYRE_I32) || both[0] != 1 || both[1] != 2)
        return 5;
    return gyre_finalize(comm);
}

static void bad_arguments_are_refused(void **state)
{
    struct rig rig = {.n = 2, .transport = "shm", .body = bad_arguments_do_no_harm};
    (void)state;
    assert_int_equal(rig_run(&rig, 30), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shm_is_right),
        cmocka_unit_test(tcp_is_right),
        cmocka_unit_test(mixed_nodes_are_right),
        cmocka_unit_test(other_algorithms_are_right),
        cmocka_unit_test(sixteen_ranks_are_right),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
