/* More ranks than anybody has cores for: 16, 33 and 64 real processes, over shared memory and over
 * TCP; in haste 33 over shared memory and 17 over TCP. Every operation once or twice, on few
 * elements; groups of them, blocks of unequal length, messages, parts of the world.
 *
 * program/collectives/collectives takes every way to ask on few ranks, the simulator every number
 * of ranks; what only this shows is real links, boards and joining at such numbers. */
#include "rig/collectives_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdlib.h>

#define ROOM (512u * 1024) /* of all memories each */

static int make_memory(struct gyre_comm *comm, struct stage *stage)
{
    stage->memory[2] = malloc(ROOM);
    stage->memory[3] = malloc(ROOM);
    return gyre_alloc(comm, ROOM, (void **)&stage->memory[0]) ||
           gyre_alloc(comm, ROOM, (void **)&stage->memory[1]);
}

/* Ranks choose memory and in place each for itself. Unequal blocks grow with the rank. */
static struct question question_of(enum verb verb, int turn, uint64_t count, int n, int rank)
{
    int kind = (turn + rank) % 2 * 2;
    return (struct question){.verb = verb,
                             .type = type_of(verb, turn),
                             .op = op_of(verb, turn),
                             .root = (turn * 7 + 1) % n,
                             .count = verb == ALL_GATHER_V ? count % 50 : count,
                             .in_place = (rank + turn) % 3 == 0,
                             .started = turn % 2,
                             .input = kind,
                             .output = kind + 1};
}

static int every_verb(struct gyre_comm *comm, const struct stage *stage)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    for (int turn = 0; turn < 2 * VERBS && !bad; turn++) {
        struct question ask =
            question_of((enum verb)(turn % VERBS), turn, turn < VERBS ? 3 : 257, n, rank);
        bad = ask_and_check(comm, stage, &ask);
    }
    return bad;
}

static int in_a_group(struct gyre_comm *comm, const struct stage *stage)
{
    enum { ASKS = 3 * VERBS };
    struct question ask[ASKS];
    for (int i = 0; i < ASKS; i++)
        ask[i] = question_of((enum verb)(i % VERBS), i / VERBS, (uint64_t)(i % 4), gyre_size(comm),
                             gyre_rank(comm));
    return ask_in_group(comm, stage, ask, ASKS, ROOM / ASKS);
}

/* -- what the rig of verbs does not know ------------------------------------------------------- */

static uint64_t given(int from, int to)
{
    return (uint64_t)(from * 3 + to * 5) % 4;
}

static int unequal_blocks(struct gyre_comm *comm)
{
    static int32_t out[RIG_RANKS_MAX * 4], in[RIG_RANKS_MAX * 4];
    uint64_t sends[RIG_RANKS_MAX], receives[RIG_RANKS_MAX], at = 0;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    for (int p = 0; p < n; p++) {
        sends[p] = given(rank, p);
        receives[p] = given(p, rank);
        for (uint64_t i = 0; i < sends[p]; i++)
            out[at++] = rank * 1000 + p;
    }
    bad = gyre_all_to_all_v(comm, out, sends, NULL, in, receives, NULL, GYRE_I32);
    at = 0;
    for (int p = 0; p < n; p++)
        for (uint64_t i = 0; i < receives[p]; i++)
            bad |= in[at++] != p * 1000 + rank;
    return rig_check(!bad, comm, "all_to_all_v");
}

/* To everyone, and from everyone; all send first. */
static int messages(struct gyre_comm *comm)
{
    int32_t got[RIG_RANKS_MAX], own[RIG_RANKS_MAX];
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = gyre_group_start(comm);
    for (int p = 0; p < n; p++) {
        own[p] = rank * 100 + p;
        bad |= gyre_send(comm, &own[p], 1, GYRE_I32, p);
    }
    for (int p = 0; p < n; p++)
        bad |= gyre_recv(comm, &got[p], 1, GYRE_I32, p);
    bad |= gyre_group_end(comm);
    for (int p = 0; p < n; p++)
        bad |= got[p] != p * 100 + rank;
    return rig_check(!bad, comm, "messages");
}

/* Three parts, their ranks in the opposite order. */
static int parts(struct gyre_comm *comm)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad;
    int32_t sum = rank, expected = 0;
    struct gyre_comm *part;
    for (int r = rank % 3; r < n; r += 3)
        expected += r;
    bad = gyre_split(comm, rank % 3, -rank, &part) ||
          gyre_all_reduce(part, &sum, &sum, 1, GYRE_I32, GYRE_SUM) || sum != expected ||
          gyre_size(part) - 1 - gyre_rank(part) != rank / 3 || gyre_finalize(part);
    return rig_check(!bad, comm, "parts of the world");
}

/* -- runs -------------------------------------------------------------------------------------- */

static int everything(struct gyre_comm *comm, struct rig *rig)
{
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage) || every_verb(comm, &stage) || in_a_group(comm, &stage) ||
              unequal_blocks(comm) || messages(comm) || parts(comm) || gyre_barrier(comm);
    (void)rig;
    free(stage.memory[2]);
    free(stage.memory[3]);
    return gyre_finalize(comm) || bad;
}

static void run(const char *transport, int ranks)
{
    struct rig rig = {.n = ranks, .transport = transport, .body = everything};
    assert_int_equal(rig_run(&rig, 180), 0);
}

/* In haste with so many ranks alone. */
static void run_many(const char *transport, int hasty)
{
    static const int ranks[] = {16, 33, 64};
    if (in_haste())
        run(transport, hasty);
    for (int i = 0; i < 3 && !in_haste(); i++)
        run(transport, ranks[i]);
}

static void shm_is_right(void **state)
{
    (void)state;
    run_many("shm", 33);
}

static void tcp_is_right(void **state)
{
    (void)state;
    run_many("tcp", 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shm_is_right),
        cmocka_unit_test(tcp_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
