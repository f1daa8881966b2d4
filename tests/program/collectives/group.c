/* Groups of calls with real processes: all send first, small sums go together, handles, nesting,
 * blocks of unequal length; and what is told of groups that differ, or that nobody ends. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* -- messages ---------------------------------------------------------------------------------- */

#define MOST 300000

static int all_send_first(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t *out = malloc(MOST * 4), *in = malloc((size_t)n * MOST * 4);
    (void)rig;
    for (uint64_t count = 0; count <= MOST && !bad; count = count * 13 + 1) {
        for (uint64_t i = 0; i < count; i++)
            out[i] = rank * 7 + (int32_t)i;
        bad |= rig_check(!gyre_group_start(comm), comm, "start");
        for (int peer = 0; peer < n; peer++)
            bad |= rig_check(!gyre_send(comm, out, count, GYRE_I32, peer), comm, "send");
        for (int peer = 0; peer < n; peer++)
            bad |= rig_check(!gyre_recv(comm, in + (size_t)peer * MOST, count, GYRE_I32, peer),
                             comm, "recv");
        bad |= rig_check(!gyre_group_end(comm), comm, "end");
        for (int peer = 0; peer < n; peer++)
            for (uint64_t i = 0; i < count && !bad; i++)
                bad |=
                    rig_check(in[(size_t)peer * MOST + i] == peer * 7 + (int32_t)i, comm, "came");
    }
    free(out);
    free(in);
    return gyre_finalize(comm) || bad;
}

static void all_ranks_send_first(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, all_send_first), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = all_send_first}, 20), 0);
}

/* -- operations -------------------------------------------------------------------------------- */

#define CALLS 230

struct answers {
    int32_t whole[CALLS];
    float broken[CALLS * 3];
    int32_t large[40000];
    int32_t from_root[50];
};

/* Small ones of two types, a large one, a broadcast and a barrier between, nested and not. */
static int collect(struct gyre_comm *comm, struct answers *answers, int round)
{
    int rank = gyre_rank(comm), bad = 0;
    for (int i = 0; i < 40000; i++)
        answers->large[i] = rank + i;
    for (int i = 0; i < 50; i++)
        answers->from_root[i] = rank;
    bad |= gyre_group_start(comm);
    for (int i = 0; i < CALLS; i++) {
        answers->whole[i] = rank + i;
        for (int k = 0; k < 3; k++)
            answers->broken[3 * i + k] = (float)(rank * i + k);
        if (i == 40)
            bad |= gyre_group_start(comm);
        if (i == 50)
            bad |= gyre_all_reduce(comm, answers->large, answers->large, 40000, GYRE_I32, GYRE_SUM);
        if (i == 60)
            bad |= gyre_broadcast(comm, answers->from_root, answers->from_root, 50, GYRE_I32, 1);
        if (i == 70)
            bad |= gyre_barrier(comm);
        if (i == 80)
            bad |= gyre_group_end(comm);
        bad |= gyre_all_reduce(comm, &answers->whole[i], &answers->whole[i], 1, GYRE_I32,
                               i % 2 ? GYRE_SUM : GYRE_MAX);
        bad |= gyre_all_reduce(comm, &answers->broken[3 * i], &answers->broken[3 * i],
                               (uint64_t)((i + round) % 4 == 3 ? 3 : (i + round) % 4), GYRE_F32,
                               GYRE_SUM);
    }
    bad |= gyre_group_end(comm);
    return rig_check(!bad, comm, "group");
}

static int verify(struct gyre_comm *comm, const struct answers *answers, int round)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), ranks = n * (n - 1) / 2, bad = 0;
    for (int i = 0; i < CALLS; i++) {
        bad |= answers->whole[i] != (i % 2 ? ranks + n * i : n - 1 + i);
        for (int k = 0; k < 3; k++) {
            bool reduced = k < (i + round) % 4;
            bad |=
                answers->broken[3 * i + k] != (float)(reduced ? ranks * i + n * k : rank * i + k);
        }
    }
    for (int i = 0; i < 40000; i++)
        bad |= answers->large[i] != ranks + n * i;
    for (int i = 0; i < 50; i++)
        bad |= answers->from_root[i] != 1;
    return rig_check(!bad, comm, "what came of it");
}

static int many_calls(struct gyre_comm *comm, struct rig *rig)
{
    struct answers *answers = calloc(1, sizeof *answers);
    int bad = 0;
    (void)rig;
    for (int round = 0; round < 6 && !bad; round++)
        bad |= collect(comm, answers, round) || verify(comm, answers, round);
    free(answers);
    return gyre_finalize(comm) || bad;
}

static void hundreds_of_calls(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, many_calls), 0);
}

/* -- handles, and calls that are wrong --------------------------------------------------------- */

static int handles(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work[20], *message;
    struct gyre_comm *part;
    int32_t data[20], one = 5, got = 0;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    (void)rig;
    bad |= rig_check(gyre_group_end(comm) == GYRE_INVALID, comm, "no group is open");
    bad |= rig_check(!gyre_group_start(comm), comm, "start");
    bad |= rig_check(gyre_split(comm, 0, 0, &part) == GYRE_INVALID, comm, "split in a group");
    for (int i = 0; i < 20; i++) {
        data[i] = rank;
        bad |= rig_check(
            !gyre_all_reduce_start(comm, &data[i], &data[i], 1, GYRE_I32, GYRE_SUM, &work[i]), comm,
            "start in a group");
    }
    bad |= rig_check(gyre_work_test(work[3]) == GYRE_INVALID, comm, "test before the end");
    bad |= rig_check(gyre_all_reduce(comm, NULL, &one, 1, GYRE_I32, GYRE_SUM) == GYRE_INVALID, comm,
                     "a wrong call is not collected");
    bad |= rig_check(!gyre_send_start(comm, &one, 1, GYRE_I32, (rank + 1) % n, &message), comm,
                     "send");
    bad |= rig_check(!gyre_recv(comm, &got, 1, GYRE_I32, (rank + n - 1) % n), comm, "recv");
    bad |= rig_check(!gyre_group_end(comm) && got == 5, comm, "end");
    bad |= rig_check(!gyre_work_wait(message, -1), comm, "sent");
    for (int i = 19; i >= 0; i--) {
        bad |= rig_check(!gyre_work_wait(work[i], -1), comm, "wait after the end");
        bad |= rig_check(data[i] == n * (n - 1) / 2, comm, "sum");
        bad |= rig_check(gyre_work_wait(work[i], -1) == GYRE_INVALID, comm, "waited twice");
    }
    return gyre_finalize(comm) || bad;
}

static void handles_wait_for_the_end(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, handles), 0);
}

/* -- handles in packs -------------------------------------------------------------------------- */

#define HANDLES 24

struct sums {
    struct gyre_work *work[HANDLES]; /* NULL: it was a blocking call */
    int32_t in[HANDLES][500], out[HANDLES][500];
};

static uint64_t length(int call)
{
    return (uint64_t)(call * 37 % 500);
}

static int is_summed(struct gyre_comm *comm, const struct sums *sums, int call, int round)
{
    int n = gyre_size(comm), bad = 0;
    for (uint64_t k = 0; k < length(call); k++)
        bad |= sums->out[call][k] != n * (n - 1) / 2 + n * (100 * round + call + (int32_t)k);
    return rig_check(!bad, comm, "sum");
}

/* Which calls have handles differs from rank to rank, what is packed must not. */
static int add_sums(struct gyre_comm *comm, struct sums *sums, int round)
{
    int rank = gyre_rank(comm), bad = gyre_group_start(comm);
    memset(sums, 0, sizeof *sums);
    for (int i = 0; i < HANDLES; i++) {
        for (uint64_t k = 0; k < length(i); k++)
            sums->in[i][k] = rank + 100 * round + i + (int32_t)k;
        if ((i + rank) % 3 == 0)
            bad |= gyre_all_reduce(comm, sums->in[i], sums->out[i], length(i), GYRE_I32, GYRE_SUM);
        else
            bad |= gyre_all_reduce_start(comm, sums->in[i], sums->out[i], length(i), GYRE_I32,
                                         GYRE_SUM, &sums->work[i]);
    }
    bad |= rig_check(!bad && !gyre_group_end(comm), comm, "group");
    for (int i = 0; i < HANDLES; i++)
        bad |= !sums->work[i] && is_summed(comm, sums, i, round);
    return bad;
}

static int take_sums(struct gyre_comm *comm, struct sums *sums, int round)
{
    int bad = 0;
    for (int k = 0; k < HANDLES; k++) {
        int i = (gyre_rank(comm) + round) % 2 ? HANDLES - 1 - k : k, status = GYRE_AGAIN;
        while (sums->work[i] && status == GYRE_AGAIN)
            status = k % 2 ? gyre_work_test(sums->work[i]) : gyre_work_wait(sums->work[i], 1);
        bad |= sums->work[i] && (status || is_summed(comm, sums, i, round));
    }
    return rig_check(!bad, comm, "handles of a pack");
}

/* The last rank joins when rank 0 has seen that nobody's handle is over. */
static int wait_in_vain(struct gyre_comm *comm)
{
    int32_t data[3] = {1, 1, 1}, go = 0;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    struct gyre_work *work[3];
    if (rank == n - 1)
        bad |= gyre_recv(comm, &go, 1, GYRE_I32, 0);
    bad |= gyre_group_start(comm);
    for (int i = 0; i < 3; i++)
        bad |= gyre_all_reduce_start(comm, &data[i], &data[i], 1, GYRE_I32, GYRE_SUM, &work[i]);
    bad |= gyre_group_end(comm);
    if (rank == 0) {
        bad |= gyre_work_wait(work[1], 1) != GYRE_AGAIN || gyre_work_test(work[2]) != GYRE_AGAIN;
        bad |= gyre_send(comm, &go, 1, GYRE_I32, n - 1);
    }
    for (int i = 2; i >= 0; i--)
        bad |= gyre_work_wait(work[i], -1) || data[i] != n;
    return rig_check(!bad, comm, "a wait with a limit");
}

static int packed_handles(struct gyre_comm *comm, struct rig *rig)
{
    struct sums *sums = calloc(2, sizeof *sums);
    int bad = 0;
    (void)rig;
    for (int round = 0; round < 4 && !bad; round++) {
        bad |= add_sums(comm, &sums[0], round) || add_sums(comm, &sums[1], round + 1);
        bad |= take_sums(comm, &sums[1], round + 1) || take_sums(comm, &sums[0], round);
        bad |= gyre_size(comm) > 1 && wait_in_vain(comm);
    }
    free(sums);
    return gyre_finalize(comm) || bad;
}

static void handles_share_a_pack(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, packed_handles), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = packed_handles}, 20), 0);
}

/* More packs than may be in flight: the first one, which has calls from the whole group, is used
 * again before the last of its calls is passed. */
static int many_packs(struct gyre_comm *comm, struct rig *rig)
{
    enum { PACKS = 50, WHOLE = 1024, COUNT = PACKS * 64 };
    int32_t *data = malloc(sizeof *data * WHOLE * COUNT);
    int n = gyre_size(comm), bad = gyre_group_start(comm);
    (void)rig;
    for (int i = 0; i < COUNT * WHOLE; i++)
        data[i] = gyre_rank(comm) + i;
    for (int i = 0; i < COUNT; i++)
        bad |= gyre_all_reduce(comm, data + i * WHOLE, data + i * WHOLE, WHOLE,
                               i % 51 ? GYRE_I32 : GYRE_U32, GYRE_SUM);
    bad |= gyre_group_end(comm);
    for (int i = 0; i < COUNT * WHOLE; i++)
        bad |= data[i] != n * (n - 1) / 2 + n * i;
    free(data);
    return gyre_finalize(comm) || rig_check(!bad, comm, "many packs");
}

static void packs_are_used_again(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, many_packs), 0);
}

/* -- blocks of unequal length ------------------------------------------------------------------ */

#define BLOCK 3000

static uint64_t block(int from, int to, int round)
{
    static const uint64_t some[] = {0, 1, 7, 300, BLOCK};
    return some[(from * 3 + to * 5 + round) % 5];
}

struct exchange {
    uint64_t sends[4], from[4], receives[4], to[4];
    int32_t out[4 * BLOCK], in[4 * BLOCK];
    bool in_place; /* all of it in `in` */
};

static void prepare(struct gyre_comm *comm, struct exchange *x, int round)
{
    int rank = gyre_rank(comm);
    x->in_place = round % 2 == 1;
    memset(x->in, 0, sizeof x->in);
    for (int p = 0; p < gyre_size(comm); p++) {
        x->sends[p] = round < 0 ? 0 : block(rank, p, round);
        x->receives[p] = round < 0 ? 0 : block(p, rank, round);
        x->from[p] = (uint64_t)(3 - p) * BLOCK;
        x->to[p] = (uint64_t)p * BLOCK;
        for (uint64_t i = 0; i < x->sends[p]; i++)
            (x->in_place ? x->in : x->out)[x->from[p] + i] =
                rank * 1000 + p * 100 + round + (int32_t)i;
    }
}

/* Adds the exchange, and spoils the tables: they are copied. */
static int add_exchange(struct gyre_comm *comm, struct exchange *x, struct gyre_work **work)
{
    const int32_t *out = x->in_place ? x->in : x->out;
    int status =
        work ? gyre_all_to_all_v_start(comm, out, x->sends, x->from, x->in, x->receives, x->to,
                                       GYRE_I32, work)
             : gyre_all_to_all_v(comm, out, x->sends, x->from, x->in, x->receives, x->to, GYRE_I32);
    memset(x->sends, 0xff, sizeof x->sends);
    memset(x->from, 0xff, sizeof x->from);
    memset(x->receives, 0xff, sizeof x->receives);
    memset(x->to, 0xff, sizeof x->to);
    return rig_check(!status, comm, "all_to_all_v in a group");
}

static int came(struct gyre_comm *comm, const struct exchange *x, int round)
{
    int rank = gyre_rank(comm), bad = 0;
    for (int p = 0; p < gyre_size(comm); p++)
        for (uint64_t i = 0; i < BLOCK; i++) {
            bool sent = round >= 0 && i < block(p, rank, round);
            int32_t value = sent ? p * 1000 + rank * 100 + round + (int32_t)i : 0;
            if (sent || !x->in_place)
                bad |= x->in[(uint64_t)p * BLOCK + i] != value;
        }
    return rig_check(!bad, comm, "what came");
}

static int add_others(struct gyre_comm *comm, int32_t *sum, int32_t *got)
{
    static const int32_t eleven = 11;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    *sum = rank;
    bad |= gyre_all_reduce(comm, sum, sum, 1, GYRE_I32, GYRE_SUM);
    bad |= gyre_send(comm, &eleven, 1, GYRE_I32, (rank + 1) % n);
    bad |= gyre_recv(comm, got, 1, GYRE_I32, (rank + n - 1) % n);
    return rig_check(!bad, comm, "calls beside it");
}

/* A blocking one, one with a handle and an empty one, beside a sum and messages. */
static int exchanges(struct gyre_comm *comm, struct rig *rig)
{
    struct exchange *x = calloc(3, sizeof *x);
    int n = gyre_size(comm), bad = 0;
    (void)rig;
    for (int round = 0; round < 5 && !bad; round++) {
        struct gyre_work *work = NULL;
        int32_t sum = 0, got = 0;
        prepare(comm, &x[0], round);
        prepare(comm, &x[1], -1);
        prepare(comm, &x[2], round + 1);
        bad |= rig_check(!gyre_group_start(comm), comm, "start");
        bad |= add_exchange(comm, &x[0], NULL) || add_others(comm, &sum, &got);
        bad |= add_exchange(comm, &x[1], NULL) || add_exchange(comm, &x[2], &work);
        bad |= rig_check(gyre_work_test(work) == GYRE_INVALID, comm, "test before the end");
        bad |= rig_check(!gyre_group_end(comm), comm, "end");
        bad |= rig_check(sum == n * (n - 1) / 2 && got == 11, comm, "sum and message");
        bad |= came(comm, &x[0], round) || came(comm, &x[1], -1);
        bad |= rig_check(!gyre_work_wait(work, -1), comm, "wait") || came(comm, &x[2], round + 1);
    }
    free(x);
    return gyre_finalize(comm) || bad;
}

static void blocks_of_unequal_length(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, exchanges), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = exchanges}, 20), 0);
}

static int disagree(struct gyre_comm *comm, struct rig *rig)
{
    static int32_t out[64], in[64], one = 1;
    uint64_t sends[3] = {1, 1, 1}, receives[3] = {1, 1, 1};
    int status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (gyre_rank(comm) == 0)
        sends[2] = 7;
    if (gyre_rank(comm) == 2)
        receives[0] = 5;
    status |= gyre_group_start(comm);
    status |= gyre_all_to_all_v(comm, out, sends, NULL, in, receives, NULL, GYRE_I32);
    status |= gyre_all_reduce(comm, &one, &one, 1, GYRE_I32, GYRE_SUM);
    if (!status)
        status = gyre_group_end(comm);
    if (!status)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void counts_that_disagree_are_named(void **state)
{
    static const char *const transport[] = {"shm", "tcp"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_expect_story(3, transport[i], disagree, GYRE_MISMATCH,
                         "rank 0 sends 7 elements of i32");
        rig_expect_story(3, transport[i], disagree, GYRE_MISMATCH,
                         "rank 2 expects 5 elements of i32");
    }
}

/* The tables are gone when the group ends, and so is the scaled copy of an input. */
static int gather_and_scale(struct gyre_comm *comm, struct rig *rig)
{
    enum { LARGE = 200000 };
    uint64_t counts[4], at[4];
    int32_t own[4], all[16] = {0}, scalar = 2, *in, *out;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    struct gyre_work *work;
    enum gyre_op doubled;
    (void)rig;
    in = calloc((size_t)n * LARGE, sizeof *in);
    out = calloc(LARGE, sizeof *out);
    for (int i = 0; i < n * LARGE; i++)
        in[i] = rank + i;
    for (int p = 0; p < n; p++) {
        own[p] = 10 * rank + p;
        counts[p] = (uint64_t)p;
        at[p] = 4 * (uint64_t)(n - 1 - p);
    }
    bad |= rig_check(!gyre_op_scaled(comm, &scalar, GYRE_I32, &doubled), comm, "op_scaled");
    bad |= rig_check(!gyre_group_start(comm), comm, "start");
    bad |= rig_check(!gyre_all_gather_v(comm, own, all, counts, at, GYRE_I32), comm, "gather");
    bad |= rig_check(!gyre_reduce_scatter_start(comm, in, out, LARGE, GYRE_I32, doubled, &work),
                     comm, "scaled");
    memset(counts, 0xff, sizeof counts);
    memset(at, 0xff, sizeof at);
    bad |= rig_check(!gyre_group_end(comm) && !gyre_work_wait(work, -1), comm, "end");
    for (int p = 0; p < n; p++)
        for (int i = 0; i < p; i++)
            bad |= all[4 * (n - 1 - p) + i] != 10 * p + i;
    for (int i = 0; i < LARGE; i++)
        bad |= out[i] != 2 * (n * (n - 1) / 2 + n * (rank * LARGE + i));
    free(in);
    free(out);
    return gyre_finalize(comm) || rig_check(!bad, comm, "what came of it");
}

static void what_a_call_was_given_is_kept(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, gather_and_scale), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = gather_and_scale}, 20), 0);
}

/* -- groups that go wrong ---------------------------------------------------------------------- */

/* The lengths together are equal, their order is not. */
static int other_order(struct gyre_comm *comm, struct rig *rig)
{
    float data[24] = {0};
    int swapped = gyre_rank(comm) == 1, status = gyre_barrier(comm);
    uint64_t since = rig_now();
    status |= gyre_group_start(comm);
    status |= gyre_all_reduce(comm, data, data, swapped ? 16 : 8, GYRE_F32, GYRE_SUM);
    status |= gyre_all_reduce(comm, data, data, swapped ? 8 : 16, GYRE_F32, GYRE_SUM);
    if (!status)
        status = gyre_group_end(comm);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void groups_that_differ_are_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *transport = i ? "tcp" : "shm";
        rig_expect_mismatch(3, transport, other_order,
                            "rank 1 called group of 2 all_reduce f32 sum, 24 elements");
        rig_expect_mismatch(3, transport, other_order, "they differ in the calls of the group");
    }
}

static int left_open(struct gyre_comm *comm, struct rig *rig)
{
    float data[2] = {0};
    int status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (gyre_rank(comm) == 1) {
        status |= gyre_group_start(comm);
        status |= gyre_all_reduce(comm, data, data, 2, GYRE_F32, GYRE_SUM);
        int end = gyre_finalize(comm);
        snprintf(rig->shared->error[1], sizeof rig->shared->error[1], "%s", gyre_error(NULL));
        rig->shared->status[1] = end;
        return status;
    }
    status = gyre_all_reduce(comm, data, data, 2, GYRE_F32, GYRE_SUM);
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status;
}

static void group_left_open_is_told(void **state)
{
    const char *story = "rank 1 ends a communicator with a group open";
    (void)state;
    rig_expect_story(3, "shm", left_open, GYRE_INVALID, story);
    rig_expect_story(3, "tcp", left_open, GYRE_INVALID, story);
}

static int after_abort(struct gyre_comm *comm, struct rig *rig)
{
    int32_t one = 1;
    int bad = 0, status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (gyre_rank(comm) == 0)
        gyre_abort(comm, "enough");
    while (!status) /* the next one may still end well */
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    bad |= rig_check(gyre_group_start(comm) == status, comm, "group after an abort");
    bad |= rig_check(gyre_send(comm, &one, 1, GYRE_I32, 0) == status, comm, "send after an abort");
    bad |= rig_check(gyre_split(comm, 0, 0, &(struct gyre_comm *){NULL}) == status, comm, "split");
    return gyre_finalize(comm) != status || bad;
}

static void calls_after_an_abort(void **state)
{
    (void)state;
    rig_expect_story(3, "shm", after_abort, GYRE_ABORTED, "enough");
}

/* Rank 0 fails with a group open: its handle tells the failure, not that the group is open. */
static int abort_in_group(struct gyre_comm *comm, struct rig *rig)
{
    int32_t one = 1, sum = 0;
    struct gyre_work *work;
    int bad = 0, status = gyre_barrier(comm);
    uint64_t since = rig_now();
    while (gyre_rank(comm) && !status)
        status = gyre_barrier(comm);
    if (gyre_rank(comm) == 0) {
        bad |= rig_check(!gyre_group_start(comm), comm, "group");
        bad |= rig_check(!gyre_all_reduce_start(comm, &one, &sum, 1, GYRE_I32, GYRE_SUM, &work),
                         comm, "start");
        gyre_abort(comm, "enough");
        status = gyre_group_end(comm);
        bad |= rig_check(gyre_work_wait(work, -1) == status, comm, "handle");
    }
    rig_note(rig, comm, status, since);
    return gyre_finalize(comm) != status || bad;
}

static void groups_after_an_abort(void **state)
{
    (void)state;
    rig_expect_story(3, "shm", abort_in_group, GYRE_ABORTED, "enough");
    rig_expect_story(3, "tcp", abort_in_group, GYRE_ABORTED, "enough");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_send_first),
        cmocka_unit_test(hundreds_of_calls),
        cmocka_unit_test(handles_wait_for_the_end),
        cmocka_unit_test(groups_that_differ_are_told),
        cmocka_unit_test(blocks_of_unequal_length),
        cmocka_unit_test(counts_that_disagree_are_named),
        cmocka_unit_test(what_a_call_was_given_is_kept),
        cmocka_unit_test(handles_share_a_pack),
        cmocka_unit_test(packs_are_used_again),
        cmocka_unit_test(group_left_open_is_told),
        cmocka_unit_test(calls_after_an_abort),
        cmocka_unit_test(groups_after_an_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
