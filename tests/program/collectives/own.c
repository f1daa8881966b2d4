/* all_to_all_v and the caller's own reductions with real processes. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* -- all_to_all_v ------------------------------------------------------------------------------ */

#define BLOCK 30000

static uint64_t length(int from, int to, int round)
{
    static const uint64_t some[] = {0, 1, 7, 300, 5000, 30000, 0, 12};
    return some[(from * 3 + to * 5 + round) % 8];
}

/* With tables of places, backwards and with gaps, and without; in place or not. */
static int unequal(struct gyre_comm *comm, struct rig *rig)
{
    enum { MOST = 8 };
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t *out = calloc((size_t)n * BLOCK, 4), *in = calloc((size_t)n * BLOCK, 4);
    uint64_t sends[MOST], from[MOST], receives[MOST], to[MOST], packed_out, packed_in;
    struct gyre_work *work;
    (void)rig;
    for (int round = 0; round < 16 && !bad; round++) {
        bool places = round % 2;
        int32_t *given = round % 8 < 4 ? out : in; /* in place */
        packed_out = packed_in = 0;
        for (int p = 0; p < n; p++) {
            sends[p] = length(rank, p, round);
            receives[p] = length(p, rank, round);
            from[p] = places ? (uint64_t)(n - 1 - p) * BLOCK : packed_out;
            to[p] = places ? (uint64_t)p * BLOCK : packed_in;
            packed_out += sends[p];
            packed_in += receives[p];
            for (uint64_t i = 0; i < sends[p]; i++)
                given[from[p] + i] = rank * 1000 + p * 100 + round + (int32_t)i;
        }
        if (round % 4 < 2) {
            bad |= rig_check(!gyre_all_to_all_v(comm, given, sends, places ? from : NULL, in,
                                                receives, places ? to : NULL, GYRE_I32),
                             comm, "all_to_all_v");
        } else {
            bad |=
                rig_check(!gyre_all_to_all_v_start(comm, given, sends, places ? from : NULL, in,
                                                   receives, places ? to : NULL, GYRE_I32, &work),
                          comm, "all_to_all_v_start");
            bad |= rig_check(!gyre_barrier(comm), comm, "barrier beside it");
            bad |= rig_check(!bad && !gyre_work_wait(work, -1), comm, "wait");
        }
        for (int p = 0; p < n; p++)
            for (uint64_t i = 0; i < receives[p] && !bad; i++)
                bad |= rig_check(in[to[p] + i] == p * 1000 + rank * 100 + round + (int32_t)i, comm,
                                 "what came");
    }
    bad |= rig_check(gyre_all_to_all_v(comm, out, sends, NULL, out + 1, receives, NULL, GYRE_I32) ==
                         GYRE_INVALID,
                     comm, "another overlap");
    bad |= rig_check(gyre_all_to_all_v(comm, out, NULL, NULL, in, receives, NULL, GYRE_I32) ==
                         GYRE_INVALID,
                     comm, "no counts");
    for (int p = 0; p < n; p++)
        sends[p] = receives[p] = 2, to[p] = (uint64_t)p;
    bad |= rig_check(gyre_all_to_all_v(comm, out, sends, NULL, in, receives, to, GYRE_I32) ==
                         (n > 1 ? GYRE_INVALID : GYRE_OK),
                     comm, "blocks that overlap");
    sends[0] = UINT64_MAX;
    bad |= rig_check(gyre_all_to_all_v(comm, out, sends, NULL, in, receives, NULL, GYRE_I32) ==
                             GYRE_INVALID &&
                         strstr(gyre_error(comm), "rank 0's send block of 18446744073709551615 "),
                     comm, "too many");
    free(out);
    free(in);
    return gyre_finalize(comm) || bad;
}

static void blocks_of_unequal_length(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, unequal), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = unequal}, 20), 0);
}

static int disagree(struct gyre_comm *comm, struct rig *rig, uint64_t sent, uint64_t expected)
{
    static int32_t out[64], in[64];
    uint64_t sends[3] = {1, 1, 1}, receives[3] = {1, 1, 1};
    int status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (gyre_rank(comm) == 0)
        sends[2] = sent;
    if (gyre_rank(comm) == 2)
        receives[0] = expected;
    if (!status)
        status = gyre_all_to_all_v(comm, out, sends, NULL, in, receives, NULL, GYRE_I32);
    if (!status)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static int more_than_expected(struct gyre_comm *comm, struct rig *rig)
{
    return disagree(comm, rig, 7, 5);
}

static int nothing_where_something_was_expected(struct gyre_comm *comm, struct rig *rig)
{
    return disagree(comm, rig, 0, 5);
}

static void counts_that_disagree_are_named(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_expect_story(3, transport[i], more_than_expected, GYRE_MISMATCH,
                         "rank 0 sends 7 elements of i32");
        rig_expect_story(3, transport[i], more_than_expected, GYRE_MISMATCH,
                         "rank 2 expects 5 elements of i32");
        rig_expect_story(3, transport[i], nothing_where_something_was_expected, GYRE_MISMATCH,
                         "rank 0 sends 0 elements of i32");
    }
}

/* -- scaled sums ------------------------------------------------------------------------------- */

static int scaled(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    float *in = malloc((size_t)n * BLOCK * 4), *out = malloc((size_t)n * BLOCK * 4);
    float scalar = (float)(rank + 1), sum = (float)(n * (n + 1) / 2);
    struct gyre_work *work;
    enum gyre_op op;
    (void)rig;
    bad |= rig_check(!gyre_op_scaled(comm, &scalar, GYRE_F32, &op), comm, "make");
    bad |= rig_check(op >= GYRE_OP_FIRST_HANDLE && op <= GYRE_OP_LAST_HANDLE, comm, "range");
    scalar = 99;
    for (uint64_t count = 1; count <= BLOCK && !bad; count *= 30) {
        for (uint64_t i = 0; i < (uint64_t)n * count; i++)
            in[i] = (float)(i % 100);
        bad |= rig_check(!gyre_all_reduce(comm, in, out, count, GYRE_F32, op), comm, "all_reduce");
        for (uint64_t i = 0; i < count; i++)
            bad |= out[i] != sum * (float)(i % 100) || in[i] != (float)(i % 100);
        bad |= rig_check(!gyre_reduce(comm, in, rank == 1 ? out : NULL, count, GYRE_F32, op, 1),
                         comm, "reduce");
        for (uint64_t i = 0; i < count && rank == 1; i++)
            bad |= out[i] != sum * (float)(i % 100);
        bad |= rig_check(!gyre_reduce_scatter_start(comm, in, out, count, GYRE_F32, op, &work),
                         comm, "reduce_scatter");
        bad |= rig_check(!bad && !gyre_work_wait(work, -1), comm, "wait");
        for (uint64_t i = 0; i < count; i++)
            bad |= out[i] != sum * (float)(((uint64_t)rank * count + i) % 100);
        bad |= rig_check(!gyre_all_reduce(comm, in, in, count, GYRE_F32, op), comm, "in place");
        for (uint64_t i = 0; i < count; i++)
            bad |= in[i] != sum * (float)(i % 100);
        rig_check(!bad, comm, "scaled sums");
    }
    bad |= rig_check(gyre_all_reduce(comm, in, out, 1, GYRE_F64, op) == GYRE_INVALID, comm, "type");
    bad |=
        rig_check(!gyre_op_free(comm, op) && gyre_op_free(comm, op) == GYRE_INVALID, comm, "free");
    bad |=
        rig_check(gyre_all_reduce(comm, in, out, 1, GYRE_F32, op) == GYRE_INVALID, comm, "freed");
    free(in);
    free(out);
    return gyre_finalize(comm) || bad;
}

static void inputs_times_scalars(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, scaled), 0);
}

/* -- functions --------------------------------------------------------------------------------- */

/* Neither commutes nor associates: the digits are the ranks, in order. */
static void append_digit(void *into, const void *from, uint64_t count, enum gyre_type type,
                         void *context)
{
    int64_t *to = into;
    const int64_t *digit = from;
    *(int *)context += type == GYRE_I64;
    for (uint64_t i = 0; i < count; i++)
        to[i] = to[i] * 10 + digit[i];
}

static int in_rank_order(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0, calls = 0;
    int64_t *data = malloc(BLOCK * 8), expected = 0;
    enum gyre_op first, op;
    (void)rig;
    for (int r = 1; r <= n; r++)
        expected = expected * 10 + r;
    first = op = GYRE_PROD;
    bad |= rig_check(gyre_op_user(comm, NULL, NULL, &op) == GYRE_INVALID, comm, "no function");
    bad |=
        rig_check(gyre_op_scaled(comm, NULL, GYRE_F32, &first) == GYRE_INVALID, comm, "no scalar");
    bad |= rig_check(op == GYRE_PROD && first == GYRE_PROD, comm, "refused, and nothing written");
    bad |= rig_check(!gyre_op_user(comm, append_digit, &calls, &first), comm, "make");
    bad |=
        rig_check(!gyre_op_user(comm, append_digit, &calls, &op) && op != first, comm, "another");
    for (uint64_t count = 1; count <= BLOCK && !bad; count *= 30)
        for (int way = 0; way < 2; way++) {
            for (uint64_t i = 0; i < count; i++)
                data[i] = rank + 1;
            if (way)
                bad |= rig_check(!gyre_reduce(comm, data, data, count, GYRE_I64, op, 0), comm,
                                 "reduce");
            else
                bad |=
                    rig_check(!gyre_all_reduce(comm, data, data, count, GYRE_I64, op), comm, "all");
            for (uint64_t i = 0; i < count && (!way || rank == 0); i++)
                bad |= rig_check(data[i] == expected, comm, "digits");
        }
    free(data);
    return gyre_finalize(comm) || bad;
}

static void function_is_called_rank_by_rank(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, in_rank_order), 0);
}

/* The second handle of one rank is the first of another. */
static int made_in_another_order(struct gyre_comm *comm, struct rig *rig)
{
    int calls = 0, status = gyre_barrier(comm);
    int64_t one = 1;
    enum gyre_op op[2];
    uint64_t since = rig_now();
    for (int i = 0; i < 2; i++)
        status |= gyre_op_user(comm, append_digit, &calls, &op[i]);
    if (!status)
        status = gyre_all_reduce(comm, &one, &one, 1, GYRE_I64, op[gyre_rank(comm) == 1]);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

/* The first handle of either, but not of one kind. */
static int made_of_another_kind(struct gyre_comm *comm, struct rig *rig)
{
    int calls = 0, status = gyre_barrier(comm);
    int64_t one = 1;
    enum gyre_op op;
    uint64_t since = rig_now();
    if (!status && gyre_rank(comm) == 0)
        status = gyre_op_scaled(comm, &one, GYRE_I64, &op);
    else if (!status)
        status = gyre_op_user(comm, append_digit, &calls, &op);
    if (!status)
        status = gyre_all_reduce(comm, &one, &one, 1, GYRE_I64, op);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void handles_that_differ_are_told(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_expect_mismatch(3, transport[i], made_of_another_kind,
                            "all_reduce i64 own scaled sum 0, 1 elements");
        rig_expect_mismatch(3, transport[i], made_of_another_kind,
                            "all_reduce i64 own function 0, 1 elements");
        rig_expect_mismatch(3, transport[i], made_in_another_order, "own function 1");
    }
    rig_expect_story(3, "shm", made_in_another_order, GYRE_MISMATCH, "rank 1");
    rig_expect_story(3, "tcp", made_in_another_order, GYRE_MISMATCH, "rank 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_unequal_length),
        cmocka_unit_test(counts_that_disagree_are_named),
        cmocka_unit_test(inputs_times_scalars),
        cmocka_unit_test(function_is_called_rank_by_rank),
        cmocka_unit_test(handles_that_differ_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
