/* Small calls of a group that go as one, with real processes: every operation, in place and apart,
 * with handles and without, of all kinds mixed; that they are one operation, and so share its
 * rounds; what goes alone; own reductions; reproducible sums; and what is told of groups that
 * differ.
 *
 * Every byte is looked at by tests/rig/collectives_rig.c. The engine's own count says how many
 * operations a group was. */
#include "rig/collectives_rig.h"
#include "collectives/comm/communicator.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASKS 72
#define ROOM (96u * 1024) /* of a question in each memory */

/* -- every kind -------------------------------------------------------------------------------- */

/* Places of four kinds: two that peers map, two that they cannot. */
static int make_memory(struct gyre_comm *comm, struct stage *stage)
{
    stage->memory[2] = malloc((size_t)ASKS * ROOM);
    stage->memory[3] = malloc((size_t)ASKS * ROOM);
    return gyre_alloc(comm, (size_t)ASKS * ROOM, (void **)&stage->memory[0]) ||
           gyre_alloc(comm, (size_t)ASKS * ROOM, (void **)&stage->memory[1]);
}

static void drop_memory(const struct stage *stage)
{
    free(stage->memory[2]);
    free(stage->memory[3]);
}

/* What is equal on all ranks by `i` alone, the rest by the rank too. */
static struct question question_of(int i, int round, int n, int rank)
{
    static const uint64_t counts[] = {1, 3, 0, 40, 300, 7, 1100, 128, 5};
    int turn = i / VERBS, kind = (i + rank + round) % 4;
    enum verb verb = (enum verb)((i + round) % VERBS);
    return (struct question){.verb = verb,
                             .type = type_of(verb, round + turn % 2),
                             .op = op_of(verb, round),
                             .root = (round + turn % 2) % n,
                             .count = counts[(i * 5 + turn + round) % 9],
                             .in_place = (i + rank + turn) % 2,
                             .started = (i + rank) % 3 == 0,
                             .input = kind & 2,
                             .output = (kind & 2) + 1,
                             .skew = (unsigned)i % 3};
}

static int every_kind(struct gyre_comm *comm, struct rig *rig)
{
    struct question ask[ASKS];
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage);
    (void)rig;
    for (int round = 0; round < 6 && !bad; round++) {
        for (int i = 0; i < ASKS; i++)
            ask[i] = question_of(i, round, gyre_size(comm), gyre_rank(comm));
        bad = ask_in_group(comm, &stage, ask, ASKS, ROOM);
    }
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

static void every_kind_is_right(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, every_kind), 0);
    assert_int_equal(rig_run_everywhere(2, every_kind), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 7, .transport = "shm", .body = every_kind}, 60), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = every_kind}, 20), 0);
}

/* -- how many operations a group is ------------------------------------------------------------ */

static int is_as_many(struct gyre_comm *comm, const struct stage *stage, const struct question *ask,
                      int asks, uint64_t operations)
{
    uint64_t before = comm->engine->sequence;
    int bad = ask_in_group(comm, stage, ask, asks, ROOM);
    uint64_t made = comm->engine->sequence - before;
    if (made != operations)
        fprintf(stderr, "rank %d: %d calls of verb %d are %llu operations, %llu were expected\n",
                gyre_rank(comm), asks, (int)ask->verb, (unsigned long long)made,
                (unsigned long long)operations);
    return bad || made != operations;
}

static struct question plain(enum verb verb, enum gyre_type type, uint64_t count, int root)
{
    return (struct question){.verb = verb, .type = type, .count = count, .root = root, .output = 1};
}

/* What moves goes with other types, what is reduced does not. */
static int one_kind(struct gyre_comm *comm, const struct stage *stage, enum verb verb)
{
    struct question ask[ASKS];
    bool moves = verb != REDUCE && verb != REDUCE_SCATTER && verb != ALL_REDUCE;
    for (int i = 0; i < ASKS; i++)
        ask[i] = plain(verb, i % 3 ? GYRE_I32 : GYRE_F64, (uint64_t)i % 5, 1);
    return is_as_many(comm, stage, ask, ASKS, moves ? 1 : 2);
}

/* Other roots, other reductions, and blocks that no other fits to. */
static int several_kinds(struct gyre_comm *comm, const struct stage *stage)
{
    struct question ask[12];
    for (int i = 0; i < 12; i++)
        ask[i] = plain(i % 2 ? BROADCAST : REDUCE, GYRE_I32, 3, i / 2 % 2);
    ask[4].op = GYRE_MAX; /* alone: the other two reductions to rank 0 sum */
    int bad = is_as_many(comm, stage, ask, 12, 5);
    for (int i = 0; i < 6; i++)
        ask[i] = plain(i % 2 ? ALL_GATHER_V : BROADCAST, GYRE_I32, i < 2 ? 3 : 6000, 0);
    return bad || is_as_many(comm, stage, ask, 6, 6);
}

static int barriers(struct gyre_comm *comm)
{
    uint64_t before = comm->engine->sequence;
    struct gyre_work *work = NULL;
    int bad = gyre_group_start(comm);
    for (int i = 0; i < 5; i++)
        bad |= i == 2 ? gyre_barrier_start(comm, &work) : gyre_barrier(comm);
    bad |= gyre_group_end(comm) || gyre_work_wait(work, -1);
    return rig_check(!bad && comm->engine->sequence == before + 1, comm, "barriers as one");
}

static int operations(struct gyre_comm *comm, struct rig *rig)
{
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage);
    (void)rig;
    for (enum verb verb = 0; verb < VERBS && !bad; verb++)
        bad = verb != ALL_GATHER_V && one_kind(comm, &stage, verb);
    bad = bad || several_kinds(comm, &stage) || barriers(comm);
    drop_memory(&stage);
    return gyre_finalize(comm) || bad;
}

static void calls_of_a_kind_are_one_operation(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, operations), 0);
}

/* A barrier among others lets nobody out before all are in. */
static int late(struct gyre_comm *comm, struct rig *rig)
{
    int bad = 0;
    for (int round = 1; round <= 20 && !bad; round++) {
        bad |= gyre_group_start(comm) || gyre_barrier(comm) || gyre_barrier(comm);
        rig->shared->ready++;
        bad |= gyre_group_end(comm) || rig->shared->ready < round * rig->n;
    }
    return gyre_finalize(comm) || rig_check(!bad, comm, "a barrier let a rank by too early");
}

static void barriers_hold(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, late), 0);
}

/* -- reductions of the program's own ----------------------------------------------------------- */

/* x to a·x + b, one after the other: no other order of ranks gives the same. */
static void compose(void *into, const void *from, uint64_t count, enum gyre_type type,
                    void *context)
{
    int32_t *first = into;
    const int32_t *second = from;
    (void)type, (void)context;
    for (uint64_t i = 0; i < count; i++)
        first[i] = 3 * first[i] + second[i];
}

static int32_t composed(int n, int base)
{
    int32_t sum = base;
    for (int r = 1; r < n; r++)
        sum = 3 * sum + base + r;
    return sum;
}

static int own_reductions(struct gyre_comm *comm, struct rig *rig)
{
    enum { CALLS = 12 };
    int32_t in[CALLS][4], out[CALLS][4], n = gyre_size(comm), rank = gyre_rank(comm);
    int32_t scalar = rank + 1, weights = n * (n + 1) / 2, bad = 0;
    enum gyre_op scaled, own;
    (void)rig;
    bad |= gyre_op_scaled(comm, &scalar, GYRE_I32, &scaled) || gyre_op_user(comm, compose, 0, &own);
    uint64_t before = comm->engine->sequence;
    bad |= gyre_group_start(comm);
    for (int i = 0; i < CALLS; i++) {
        for (int k = 0; k < 4; k++)
            in[i][k] = i % 2 ? i + k : i + k + rank;
        bad |= i < 8 ? gyre_all_reduce(comm, in[i], out[i], 4, GYRE_I32, i % 2 ? scaled : own)
                     : gyre_reduce(comm, in[i], out[i], 4, GYRE_I32, i % 2 ? scaled : own, 1);
    }
    bad |= gyre_group_end(comm);
    bad |= rig_check(comm->engine->sequence == before + 4, comm, "four kinds");
    for (int i = 0; i < (rank == 1 ? CALLS : 8); i++)
        for (int k = 0; k < 4; k++)
            bad |= out[i][k] != (i % 2 ? weights * (i + k) : composed(n, i + k));
    return gyre_finalize(comm) || rig_check(!bad, comm, "own reductions in packs");
}

static void own_reductions_are_packed(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, own_reductions), 0);
}

/* -- the same bits ----------------------------------------------------------------------------- */

static void reproducibly(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
}

/* A sum is the same in company and alone, wherever it stands in the pack. */
static int same_bits(struct gyre_comm *comm, struct rig *rig)
{
    enum { CALLS = 9, LONG = 300 };
    static float in[CALLS][LONG], packed[CALLS][LONG], alone[CALLS][LONG];
    int rank = gyre_rank(comm), bad = 0;
    (void)rig;
    for (int i = 0; i < CALLS; i++)
        for (int k = 0; k < LONG; k++)
            in[i][k] = (float)((rank * 7919 + i * 104729 + k * 1299709) % 1000003) /
                       (float)(1 << (rank * 5 + k) % 20);
    bad |= gyre_group_start(comm);
    for (int i = 0; i < CALLS; i++)
        bad |= gyre_all_reduce(comm, in[i], packed[i], (uint64_t)(i * 31 + 1), GYRE_F32, GYRE_SUM);
    bad |= gyre_group_end(comm);
    for (int i = 0; i < CALLS; i++)
        bad |= gyre_all_reduce(comm, in[i], alone[i], (uint64_t)(i * 31 + 1), GYRE_F32, GYRE_SUM);
    return gyre_finalize(comm) ||
           rig_check(!bad && !memcmp(packed, alone, sizeof packed), comm, "the same bits");
}

static void reproducible_sums_are_the_same(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = {
            .n = 5, .transport = transport[i], .before = reproducibly, .body = same_bits};
        assert_int_equal(rig_run(&rig, 60), 0);
    }
}

/* -- groups that differ ------------------------------------------------------------------------ */

/* What rank 1 calls, and what the others do. */
struct pair {
    uint64_t count[2][3];
    enum gyre_type type[2][3];
};

static int call_pair(struct gyre_comm *comm, struct rig *rig, const struct pair *pair, bool gathers)
{
    static uint8_t from[64], to[3][512];
    int other = gyre_rank(comm) == 1, status = gyre_barrier(comm);
    uint64_t since = rig_now();
    status |= gyre_group_start(comm);
    for (int i = 0; i < 3 && pair->count[other][i]; i++)
        status |= gathers ? gyre_all_gather(comm, from, to[i], pair->count[other][i],
                                            pair->type[other][i])
                          : gyre_broadcast(comm, gyre_rank(comm) == 0 ? from : NULL, to[i],
                                           pair->count[other][i], pair->type[other][i], 0);
    if (!status)
        status = gyre_group_end(comm);
    if (!status) /* a root that waited for nobody is told by the next */
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

#define F GYRE_F32
#define I GYRE_I32

static int another_length(struct gyre_comm *comm, struct rig *rig)
{
    return call_pair(comm, rig, &(struct pair){{{8, 4, 2}, {8, 5, 2}}, {{F, F, F}, {F, F, F}}}, 0);
}

static int another_order(struct gyre_comm *comm, struct rig *rig)
{
    return call_pair(comm, rig, &(struct pair){{{8, 4, 2}, {4, 8, 2}}, {{F, F, F}, {F, F, F}}}, 1);
}

static int another_type(struct gyre_comm *comm, struct rig *rig)
{
    return call_pair(comm, rig, &(struct pair){{{8, 4, 2}, {8, 4, 2}}, {{F, F, F}, {F, I, F}}}, 1);
}

static int another_number(struct gyre_comm *comm, struct rig *rig)
{
    return call_pair(comm, rig, &(struct pair){{{8, 4, 2}, {8, 6, 0}}, {{F, F, F}, {F, F, F}}}, 1);
}

static int more_barriers(struct gyre_comm *comm, struct rig *rig)
{
    int status = gyre_barrier(comm);
    uint64_t since = rig_now();
    status |= gyre_group_start(comm);
    for (int i = 0; i < (gyre_rank(comm) == 1 ? 3 : 2); i++)
        status |= gyre_barrier(comm);
    if (!status)
        status = gyre_group_end(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void groups_that_differ_are_told(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *over = transport[i];
        rig_expect_mismatch(3, over, another_length,
                            "rank 1 called group of 3 broadcast from rank 0, 60 bytes");
        rig_expect_mismatch(3, over, another_order, "they differ in the calls of the group");
        rig_expect_mismatch(3, over, another_type, "they differ in the calls of the group");
        rig_expect_mismatch(3, over, another_number,
                            "rank 1 called group of 2 all_gather, 56 bytes");
        rig_expect_mismatch(3, over, more_barriers, "rank 1 called group of 3 barrier");
    }
}

/* -- the line that lists the calls ------------------------------------------------------------- */

static int told_to; /* a file that all ranks' standard error goes to */

static void tell_file(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    dup2(told_to, 2);
}

static void each_rank_lists_its_calls(void **state)
{
    struct rig rig = {.n = 3, .transport = "shm", .before = tell_file, .body = another_order};
    static char text[8192];
    FILE *file = tmpfile();
    (void)state;
    assert_non_null(file);
    told_to = fileno(file);
    assert_int_equal(rig_run(&rig, 20), 0);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    if (!strstr(text, "group of all_gather; elements of its calls: 8 f32, 4 f32, 2 f32") ||
        !strstr(text, "group of all_gather; elements of its calls: 4 f32, 8 f32, 2 f32"))
        fail_msg("the calls are not listed: %s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_right),
        cmocka_unit_test(calls_of_a_kind_are_one_operation),
        cmocka_unit_test(barriers_hold),
        cmocka_unit_test(own_reductions_are_packed),
        cmocka_unit_test(reproducible_sums_are_the_same),
        cmocka_unit_test(groups_that_differ_are_told),
        cmocka_unit_test(each_rank_lists_its_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
