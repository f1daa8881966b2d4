/* Failures in the verbs with roots and blocks, with real processes: a rank that dies or stops in
 * the middle is named in every other rank's error, nobody writes into a survivor's memory
 * afterwards, and ranks that ask for different things are told, all of them. In haste one writer is
 * stopped in the middle, not two. */
#include "rig/beside.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEAD_MS  1500 /* where a rank is stopped; more than a busy machine keeps from the watches */
#define ALIVE_MS 40000 /* where none is: only what the test is about ends a call */
#define WAIT_S   60

enum verb { ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, GATHER, SCATTER, REDUCE, ALL_GATHER_V };

struct call {
    enum verb verb;
    uint64_t count; /* all_gather_v: of rank 2's block; the others have 10 */
    enum gyre_type type;
    enum gyre_op op;
    int root;
};

/* `data` holds n blocks; in place wherever that is possible. */
static int call_it(struct gyre_comm *comm, const struct call *c, char *data)
{
    uint64_t own = (uint64_t)gyre_rank(comm) * c->count * gyre_type_size(c->type);
    uint64_t counts[3] = {10, 10, c->count};
    void *out = gyre_rank(comm) == c->root ? data : NULL;
    switch (c->verb) {
    case ALL_GATHER:
        return gyre_all_gather(comm, data + own, data, c->count, c->type);
    case ALL_TO_ALL:
        return gyre_all_to_all(comm, data, data, c->count, c->type);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter(comm, data, data + own, c->count, c->type, c->op);
    case GATHER:
        return gyre_gather(comm, data + own, out, c->count, c->type, c->root);
    case SCATTER:
        return gyre_scatter(comm, out, data + own, c->count, c->type, c->root);
    case REDUCE:
        return gyre_reduce(comm, data, out, c->count, c->type, c->op, c->root);
    case ALL_GATHER_V:
        own = (uint64_t)gyre_rank(comm) * 10 * gyre_type_size(c->type);
        return gyre_all_gather_v(comm, data + own, data, counts, NULL, c->type);
    }
    return 1;
}

/* -- a rank disappears ------------------------------------------------------------------------- */

/* For ever, with a barrier now and then so that no root runs away; notes how it ended. */
static int call_for_ever(struct gyre_comm *comm, struct rig *rig)
{
    const struct call *call = rig->argument;
    char *data;
    int status = gyre_alloc(comm, 3 * call->count * gyre_type_size(call->type), (void **)&data);
    for (int i = 0; !status; i++) {
        uint64_t since = rig_now();
        if (i == 8)
            rig->shared->ready++;
        status = i % 4 ? call_it(comm, call, data) : gyre_barrier(comm);
        if (status)
            rig_note(rig, comm, status, since);
    }
    return gyre_finalize(comm) == status ? 0 : 1;
}

static void lose(const char *transport, int per_node, struct call call, int signal_number)
{
    struct rig rig = {.n = 3,
                      .transport = transport,
                      .per_node = per_node,
                      .dead_ms = DEAD_MS,
                      .body = call_for_ever,
                      .argument = &call};
    rig_lose_rank_1(&rig, signal_number);
}

static void lost_rank_is_named(void **state)
{
    (void)state;
    for (enum verb verb = ALL_GATHER; verb <= REDUCE; verb++) {
        struct call call = {.verb = verb, .count = 700000, .type = GYRE_F32, .root = 2};
        lose("shm", 0, call, SIGKILL);
        lose("tcp", 0, call, SIGKILL);
    }
}

static void stopped_rank_is_named(void **state)
{
    (void)state;
    struct call call = {.verb = ALL_GATHER, .count = 700000, .type = GYRE_F32};
    lose("shm", 0, call, SIGSTOP);
    lose("auto", 2, call, SIGSTOP);
    call.verb = ALL_TO_ALL;
    lose("shm", 0, call, SIGSTOP);
    call.verb = GATHER;
    lose("shm", 0, call, SIGSTOP);
}

/* -- late writers ------------------------------------------------------------------------------ */

#define GATHERED (8u << 20) /* elements of a block */

/* Rank 1 is stopped while it writes its block into the root's output. The root refills it after the
 * error, rank 1 goes on, and the root's memory keeps what the root wrote. */
static int refill_after_failure(struct gyre_comm *comm, struct rig *rig)
{
    struct call call = {.verb = GATHER, .count = GATHERED, .type = GYRE_I32};
    uint32_t *data;
    int status = gyre_alloc(comm, 3 * GATHERED * 4, (void **)&data), bad = 0;
    for (size_t i = 0; !status && i < 3 * GATHERED; i++)
        data[i] = (uint32_t)gyre_rank(comm);
    rig->shared->place[gyre_rank(comm)] = (uintptr_t)data;
    rig->shared->ready++;
    rig_until(&rig->shared->ready, 3);
    if (!status)
        status = call_it(comm, &call, (char *)data);
    if (!status && !(status = gyre_barrier(comm)))
        return gyre_finalize(comm); /* it was stopped too late */
    if (gyre_rank(comm) == 1)
        return 0;
    rig_note(rig, comm, status, rig_now());
    for (uint32_t i = 0; i < 3 * GATHERED; i++)
        data[i] = 0xabcd0000u + i;
    rig->shared->ready++;
    rig_until(&rig->shared->flag, 1); /* the stopped rank was continued and has ended */
    for (uint32_t i = 0; i < 3 * GATHERED; i++)
        bad += data[i] != 0xabcd0000u + i;
    gyre_finalize(comm);
    return bad != 0;
}

static void late_writes_are_not_seen(void **state)
{
    struct rig rig = {.n = 3, .dead_ms = DEAD_MS, .body = refill_after_failure};
    const int wanted = in_haste() ? 1 : 2;
    int inside = 0;
    (void)state;
    for (int tries = 0; tries < 40 && inside < wanted; tries++)
        inside += rig_outlive_a_writer(&rig, GATHERED + GATHERED / 2, 2 * GATHERED - 64, 0);
    assert_int_equal(inside, wanted);
}

/* -- ranks that disagree ----------------------------------------------------------------------- */

static int disagree(struct gyre_comm *comm, struct rig *rig)
{
    const struct call *calls = rig->argument;
    static double data[300000];
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n); /* whoever still joins would be told there */
    uint64_t since = rig_now();
    int status = call_it(comm, &calls[gyre_rank(comm) == 1], (char *)data);
    for (int i = 0; !status && i < 3; i++) /* whoever got away with it is told by the next */
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status == 0;
}

static void disagree_once(const char *transport, struct call one, struct call other)
{
    struct call calls[2] = {one, other};
    struct rig rig = {
        .n = 3, .transport = transport, .dead_ms = ALIVE_MS, .body = disagree, .argument = calls};
    rig_start(&rig);
    int bad = rig_wait(&rig, WAIT_S, 0);
    for (int rank = 0; rank < 3; rank++)
        if (rig.shared->status[rank] != GYRE_MISMATCH || bad ||
            !strstr(rig.shared->error[rank], "rank 1"))
            fail_msg("%s, verbs %d and %d: rank %d ended with %s: %s", transport, (int)one.verb,
                     (int)other.verb, rank, gyre_status_name(rig.shared->status[rank]),
                     rig.shared->error[rank]);
    munmap(rig.shared, sizeof(*rig.shared));
}

static void disagreeing_ranks_are_told(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        const char *transport = tcp ? "tcp" : "shm";
        struct call one = {.verb = ALL_GATHER, .count = 1000, .type = GYRE_F32}, other = one;
        other.count = 1001;
        disagree_once(transport, one, other);
        other = one, other.verb = ALL_TO_ALL;
        disagree_once(transport, one, other);
        one.verb = GATHER, other = one, other.root = 2;
        disagree_once(transport, one, other);
        one.verb = REDUCE, one.count = 50000, other = one, other.op = GYRE_MAX;
        disagree_once(transport, one, other);
        one = (struct call){.verb = SCATTER, .count = 5, .type = GYRE_F64}, other = one;
        other.type = GYRE_I64;
        disagree_once(transport, one, other);
        one = (struct call){.verb = ALL_GATHER_V, .count = 3}, other = one, other.count = 4;
        disagree_once(transport, one, other);
        one.count = 9000, other.count = 9001;
        disagree_once(transport, one, other);
    }
}

/* The longest block has as many elements for all. */
static int other_blocks(struct gyre_comm *comm, struct rig *rig)
{
    static float data[11];
    static const uint64_t counts[2][3] = {{3, 4, 4}, {4, 3, 4}};
    int status = gyre_barrier(comm);
    uint64_t since = rig_now();
    const uint64_t *mine = counts[gyre_rank(comm) == 1];
    if (!status)
        status = gyre_all_gather_v(comm, (float[4]){0}, data, mine, NULL, GYRE_F32);
    if (!status)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void blocks_that_differ_are_told(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_expect_mismatch(3, transport[i], other_blocks,
                            "rank 1 called all_gather_v f32, at most 4 elements");
        rig_expect_mismatch(3, transport[i], other_blocks,
                            "they differ in the lengths or places of the blocks");
    }
}

/* Rank 0 calls first, and leaves in shared memory all that rank 1 waits for. */
static int call_after_an_abort(struct gyre_comm *comm, struct rig *rig)
{
    const int rank = gyre_rank(comm);
    int status = gyre_barrier(comm);
    if (rank == 0)
        rig->shared->ready = 1;
    rig_until(&rig->shared->ready, 1);
    if (rank == 1)
        gyre_abort(comm, "for the test");
    while (!status && !gyre_failure(comm, NULL, 0, NULL))
        usleep(100);
    if (rank == 1)
        rig_until(&rig->shared->flag, 1);
    const int after = gyre_barrier(comm);
    if (rank == 0)
        rig->shared->flag = 1;
    return (gyre_finalize(comm) != GYRE_ABORTED) + (status || after != GYRE_ABORTED);
}

static void no_call_goes_past_a_failure(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, call_after_an_abort), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_rank_is_named),
        cmocka_unit_test(stopped_rank_is_named),
        cmocka_unit_test(late_writes_are_not_seen),
        cmocka_unit_test(disagreeing_ranks_are_told),
        cmocka_unit_test(blocks_that_differ_are_told),
        cmocka_unit_test(no_call_goes_past_a_failure),
    };
    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
