/* What needs a whole communicator, over the simulator at 2 to 64 ranks: barrier, blocks of unequal
 * length, messages, groups, reductions of the caller's; on nodes of one and of several ranks.
 *
 * Every rank knows what every other sends, so each checks all that it receives. In haste
 * fewer numbers of ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/comm_sim.h"
#include "rig/test.h"

/* -- barrier ----------------------------------------------------------------------------------- */

static void barriers(struct gyre_comm *comm, struct comm_sim *sim)
{
    for (uint32_t round = 1; round <= 4; round++) {
        struct gyre_work *work;
        sim->entered++;
        if (round % 2)
            must(gyre_barrier(comm), comm, "barrier");
        else {
            must(gyre_barrier_start(comm, &work), comm, "barrier, started");
            must(gyre_work_wait(work, -1), comm, "barrier, waited for");
        }
        comm_sim_check(sim->entered >= round * sim->n, comm, "a barrier let a rank by too early");
    }
}

/* -- all_to_all_v ------------------------------------------------------------------------------ */

struct exchange {
    uint64_t out[COMM_SIM_RANKS], in[COMM_SIM_RANKS], out_at[COMM_SIM_RANKS], in_at[COMM_SIM_RANKS];
    int32_t *input, *output;
};

/* Elements from one rank to another: often none, sometimes more than a link keeps unasked. */
static uint64_t sent(const struct comm_sim *sim, uint32_t from, uint32_t to, uint32_t round)
{
    uint64_t mixed = (from * 31 + to * 17 + round * 7 + sim->seed) % 23;
    return mixed < 8 ? 0 : mixed == 22 && sim->n <= 16 ? 30011 : mixed * mixed;
}

/* Blocks with holes between them in odd rounds, without in even ones. */
static void lay_out(const struct comm_sim *sim, struct exchange *x, uint32_t rank, uint32_t round)
{
    uint64_t out = 0, in = 0;
    for (uint32_t p = 0; p < sim->n; p++) {
        x->out[p] = sent(sim, rank, p, round);
        x->in[p] = sent(sim, p, rank, round);
        x->out_at[p] = out;
        x->in_at[p] = in;
        out += x->out[p] + round % 2;
        in += x->in[p] + round % 2;
    }
    x->input = malloc((out + 1) * sizeof(int32_t));
    x->output = malloc((in + 1) * sizeof(int32_t));
    memset(x->output, 0xee, (in + 1) * sizeof(int32_t));
    for (uint32_t p = 0; p < sim->n; p++)
        for (uint64_t i = 0; i < x->out[p]; i++)
            x->input[x->out_at[p] + i] = value(rank, p, i);
}

static void check_exchange(const struct comm_sim *sim, const struct exchange *x,
                           struct gyre_comm *comm, uint32_t round)
{
    uint32_t rank = (uint32_t)gyre_rank(comm);
    for (uint32_t p = 0; p < sim->n; p++) {
        const int32_t *block = x->output + x->in_at[p];
        comm_sim_check(is_filled(block, p, rank, x->in[p]), comm, "all_to_all_v: a wrong block");
        comm_sim_check(round % 2 == 0 || block[x->in[p]] == (int32_t)0xeeeeeeee, comm,
                       "all_to_all_v: written between the blocks");
    }
}

static void exchanges(struct gyre_comm *comm, struct comm_sim *sim)
{
    enum { ROUNDS = 4 };
    struct exchange x[ROUNDS];
    struct gyre_work *work[ROUNDS] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct exchange *e = &x[round];
        lay_out(sim, e, (uint32_t)gyre_rank(comm), round);
        const uint64_t *out_at = round % 2 ? e->out_at : NULL, *in_at = round % 2 ? e->in_at : NULL;
        if (round < 2)
            must(gyre_all_to_all_v_start(comm, e->input, e->out, out_at, e->output, e->in, in_at,
                                         GYRE_I32, &work[round]),
                 comm, "all_to_all_v, started");
        else
            must(gyre_all_to_all_v(comm, e->input, e->out, out_at, e->output, e->in, in_at,
                                   GYRE_I32),
                 comm, "all_to_all_v");
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (work[round])
            must(gyre_work_wait(work[round], -1), comm, "all_to_all_v, waited for");
        check_exchange(sim, &x[round], comm, round);
        free(x[round].input);
        free(x[round].output);
    }
}

/* -- all_gather_v ------------------------------------------------------------------------------ */

/* Elements of a rank's block: often none, sometimes of several slices. */
static uint64_t given(const struct comm_sim *sim, uint32_t rank, uint32_t round)
{
    uint64_t mixed = (rank * 13 + round * 5 + sim->seed) % 11;
    return mixed < 4 ? 0 : mixed == 10 && sim->n <= 16 ? 40009 : mixed * mixed * mixed;
}

/* Blocks backwards with holes between them in odd rounds, behind each other in even ones. Where
 * they begin; the table holds one more. */
static void place_blocks(const struct comm_sim *sim, uint64_t *count, uint64_t *at, uint32_t round)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < sim->n; i++) {
        uint32_t rank = round % 2 ? sim->n - 1 - i : i;
        count[rank] = given(sim, rank, round);
        at[rank] = end;
        end += count[rank] + round % 2;
    }
    at[sim->n] = end;
}

static void gather_unequal(struct gyre_comm *comm, const struct comm_sim *sim, uint32_t round)
{
    uint64_t count[COMM_SIM_RANKS], at[COMM_SIM_RANKS + 1];
    uint32_t me = (uint32_t)gyre_rank(comm);
    struct gyre_work *work;
    place_blocks(sim, count, at, round);
    int32_t *all = malloc((at[sim->n] + 1) * sizeof(*all)), *own = filled(me, 0, count[me]);
    const uint64_t *places = round % 2 ? at : NULL;
    memset(all, 0xee, (at[sim->n] + 1) * sizeof(*all));
    if (round == 2) { /* in place */
        memcpy(all + at[me], own, count[me] * sizeof(*all));
        must(gyre_all_gather_v(comm, all + at[me], all, count, places, GYRE_I32), comm, "in place");
    } else if (round == 3) {
        must(gyre_all_gather_v_start(comm, own, all, count, places, GYRE_I32, &work), comm,
             "all_gather_v, started");
        must(gyre_work_wait(work, -1), comm, "all_gather_v, waited for");
    } else {
        must(gyre_all_gather_v(comm, own, all, count, places, GYRE_I32), comm, "all_gather_v");
    }
    for (uint32_t rank = 0; rank < sim->n; rank++) {
        comm_sim_check(is_filled(all + at[rank], rank, 0, count[rank]), comm,
                       "all_gather_v: a wrong block");
        comm_sim_check(round % 2 == 0 || all[at[rank] + count[rank]] == (int32_t)0xeeeeeeee, comm,
                       "all_gather_v: written between the blocks");
    }
    free(all);
    free(own);
}

static void gathers(struct gyre_comm *comm, struct comm_sim *sim)
{
    for (uint32_t round = 0; round < 4; round++)
        gather_unequal(comm, sim, round);
}

/* Rank 1 means blocks at other places, of which no message tells: every rank is told. */
static void other_blocks(struct gyre_comm *comm, struct comm_sim *sim)
{
    uint64_t count[COMM_SIM_RANKS], at[COMM_SIM_RANKS];
    int32_t *own = calloc(4, 4), *all = calloc(sim->n, 16);
    for (uint32_t p = 0; p < sim->n; p++) {
        count[p] = 4;
        at[p] = 4 * (gyre_rank(comm) == 1 ? sim->n - 1 - p : p);
    }
    int status = gyre_all_gather_v(comm, own, all, count, at, GYRE_I32);
    if (status == 0)
        status = gyre_barrier(comm);
    comm_sim_check(status == GYRE_MISMATCH, comm, "other blocks went unnoticed");
    free(own);
    free(all);
}

/* Two ranks that mean different lengths: every rank is told, and none waits for ever. */
static void disagree(struct gyre_comm *comm, struct comm_sim *sim)
{
    uint64_t out[COMM_SIM_RANKS], in[COMM_SIM_RANKS];
    int32_t *input = calloc(sim->n, 16), *output = calloc(sim->n, 16);
    for (uint32_t p = 0; p < sim->n; p++)
        out[p] = in[p] = 2;
    if (gyre_rank(comm) == 1)
        in[0] = 3;
    int status = gyre_all_to_all_v(comm, input, out, NULL, output, in, NULL, GYRE_I32);
    if (status == 0) /* it had all of its own already */
        status = gyre_barrier(comm);
    comm_sim_check(status == GYRE_MISMATCH, comm, "different lengths went unnoticed");
    free(input);
    free(output);
}

/* -- messages ---------------------------------------------------------------------------------- */

#define EACH 3 /* messages from every rank to every other */

static uint64_t length_of(uint32_t from, uint32_t to, uint32_t k)
{
    return k == 2 ? (from + to) % 5 * 4001 : (from * 3 + to * 5 + k) % 40;
}

/* All at once: receives in the order of ranks, sends in the opposite one. */
static void messages(struct gyre_comm *comm, struct comm_sim *sim)
{
    struct gyre_work *work[2][COMM_SIM_RANKS][EACH];
    int32_t *data[2][COMM_SIM_RANKS][EACH];
    uint32_t me = (uint32_t)gyre_rank(comm);
    for (uint32_t i = 0; i < sim->n * EACH; i++) {
        uint32_t from = i / EACH, to = sim->n - 1 - from, k = i % EACH;
        uint64_t in = length_of(from, me, k), out = length_of(me, to, k);
        data[0][from][k] = malloc((in + 1) * sizeof(int32_t));
        data[1][to][k] = filled(me, to + k, out);
        must(gyre_recv_start(comm, data[0][from][k], in, GYRE_I32, (int)from, &work[0][from][k]),
             comm, "recv_start");
        must(gyre_send_start(comm, data[1][to][k], out, GYRE_I32, (int)to, &work[1][to][k]), comm,
             "send_start");
    }
    for (uint32_t i = 0; i < sim->n * EACH; i++) {
        uint32_t p = i / EACH, k = i % EACH;
        must(gyre_work_wait(work[0][p][k], -1), comm, "a receive");
        must(gyre_work_wait(work[1][p][k], -1), comm, "a send");
        comm_sim_check(is_filled(data[0][p][k], p, me + k, length_of(p, me, k)), comm,
                       "a message is not what was sent");
        free(data[0][p][k]);
        free(data[1][p][k]);
    }
}

/* Blocking, round the ring: the first rank sends first, the others pass on what has come. */
static void pass_on(struct gyre_comm *comm, struct comm_sim *sim)
{
    uint32_t me = (uint32_t)gyre_rank(comm);
    int next = (int)((me + 1) % sim->n), before = (int)((me + sim->n - 1) % sim->n);
    int32_t *data = filled(0, 0, 20011);
    if (me == 0)
        must(gyre_send(comm, data, 20011, GYRE_I32, next), comm, "send");
    memset(data, 0, 20011 * sizeof(*data));
    must(gyre_recv(comm, data, 20011, GYRE_I32, before), comm, "recv");
    comm_sim_check(is_filled(data, 0, 0, 20011), comm, "what went round the ring has changed");
    if (me != 0)
        must(gyre_send(comm, data, 20011, GYRE_I32, next), comm, "send");
    free(data);
}

/* -- groups ------------------------------------------------------------------------------------ */

static int32_t sum_of(const struct comm_sim *sim, uint32_t to, uint64_t i)
{
    uint32_t sum = 0;
    for (uint32_t r = 0; r < sim->n; r++)
        sum += (uint32_t)value(r, to, i);
    return (int32_t)sum;
}

#define SUMS 5

static void check_sums(const struct comm_sim *sim, int32_t *const *sum, struct gyre_comm *comm)
{
    for (uint32_t k = 0; k < SUMS; k++)
        for (uint64_t i = 0; i < 40 + 900 * k; i++)
            comm_sim_check(sum[k][i] == sum_of(sim, k, i), comm, "a sum in a group is wrong");
}

/* Broadcasts and gathers of a few elements, which go as one of each, beside barriers. */
static void small_ones(struct gyre_comm *comm, struct comm_sim *sim)
{
    enum { CALLS = 4 };
    uint32_t me = (uint32_t)gyre_rank(comm), root = sim->n / 3;
    int32_t *told[CALLS], *own[CALLS], *all[CALLS];
    must(gyre_group_start(comm), comm, "group_start");
    for (uint32_t k = 0; k < CALLS; k++) {
        told[k] = filled(me, k, 10 + k);
        own[k] = filled(me, 50 + k, 2 * k);
        all[k] = calloc(sim->n * 2 * k + 1, sizeof(*all[k]));
        must(gyre_broadcast(comm, told[k], told[k], 10 + k, GYRE_I32, (int)root), comm,
             "a small broadcast");
        must(gyre_all_gather(comm, own[k], all[k], 2 * k, GYRE_I32), comm, "a small all_gather");
        must(gyre_barrier(comm), comm, "a barrier in a group");
    }
    must(gyre_group_end(comm), comm, "group_end");
    for (uint32_t k = 0; k < CALLS; k++) {
        comm_sim_check(is_filled(told[k], root, k, 10 + k), comm, "a small broadcast is wrong");
        for (uint32_t r = 0; r < sim->n; r++)
            comm_sim_check(is_filled(all[k] + r * 2 * k, r, 50 + k, 2 * k), comm,
                           "a small all_gather is wrong");
        free(told[k]);
        free(own[k]);
        free(all[k]);
    }
}

/* Sums of which some travel together, a broadcast, and a ring of messages, as one. */
static void groups(struct gyre_comm *comm, struct comm_sim *sim)
{
    uint32_t me = (uint32_t)gyre_rank(comm), next = (me + 1) % sim->n;
    uint32_t before = (me + sim->n - 1) % sim->n, root = sim->n / 2;
    int32_t *sum[SUMS], *out = filled(me, next, 9001), *in = calloc(9001, sizeof(*in));
    int32_t *told = filled(me, 77, 301);
    struct gyre_work *work;
    must(gyre_group_start(comm), comm, "group_start");
    for (uint32_t k = 0; k < SUMS; k++) {
        sum[k] = filled(me, k, 40 + 900 * k);
        if (k == 1)
            must(gyre_all_reduce_start(comm, sum[k], sum[k], 940, GYRE_I32, GYRE_SUM, &work), comm,
                 "all_reduce_start in a group");
        else
            must(gyre_all_reduce(comm, sum[k], sum[k], 40 + 900 * k, GYRE_I32, GYRE_SUM), comm,
                 "all_reduce in a group");
    }
    must(gyre_send(comm, out, 9001, GYRE_I32, (int)next), comm, "send in a group");
    must(gyre_recv(comm, in, 9001, GYRE_I32, (int)before), comm, "recv in a group");
    must(gyre_broadcast(comm, told, told, 301, GYRE_I32, (int)root), comm, "broadcast in a group");
    must(gyre_group_end(comm), comm, "group_end");
    must(gyre_work_wait(work, -1), comm, "a handle of a group");
    comm_sim_check(is_filled(in, before, me, 9001), comm, "a message in a group is wrong");
    comm_sim_check(is_filled(told, root, 77, 301), comm, "a broadcast in a group is wrong");
    check_sums(sim, sum, comm);
    for (uint32_t k = 0; k < SUMS; k++)
        free(sum[k]);
    free(out);
    free(in);
    free(told);
}

/* -- reductions of the caller's ---------------------------------------------------------------- */

/* Rank r multiplies by r + 1. */
static uint32_t scaled_sum(const struct comm_sim *sim, uint64_t i)
{
    uint32_t sum = 0;
    for (uint32_t r = 0; r < sim->n; r++)
        sum += (r + 1) * (uint32_t)value(r, 0, i);
    return sum;
}

static void check_scaled(const struct comm_sim *sim, const int32_t *got, uint64_t first,
                         uint64_t count, struct gyre_comm *comm)
{
    for (uint64_t i = 0; i < count; i++)
        comm_sim_check((uint32_t)got[i] == scaled_sum(sim, first + i), comm,
                       "a scaled sum is wrong");
}

static void scaled(struct gyre_comm *comm, struct comm_sim *sim)
{
    enum { COUNT = 701 };
    uint32_t me = (uint32_t)gyre_rank(comm), root = sim->n - 1;
    int32_t scalar = (int32_t)me + 1;
    int32_t *input = filled(me, 0, (uint64_t)COUNT * sim->n), *output = calloc(COUNT, 4);
    enum gyre_op op;
    must(gyre_op_scaled(comm, &scalar, GYRE_I32, &op), comm, "op_scaled");
    must(gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, op), comm, "scaled all_reduce");
    check_scaled(sim, output, 0, COUNT, comm);
    must(gyre_reduce(comm, input, me == root ? output : NULL, COUNT, GYRE_I32, op, (int)root), comm,
         "scaled reduce");
    check_scaled(sim, output, 0, me == root ? COUNT : 0, comm);
    must(gyre_reduce_scatter(comm, input, output, COUNT, GYRE_I32, op), comm,
         "scaled reduce_scatter");
    check_scaled(sim, output, (uint64_t)me * COUNT, COUNT, comm);
    must(gyre_all_reduce(comm, input, input, COUNT, GYRE_I32, op), comm, "scaled, in place");
    check_scaled(sim, input, 0, COUNT, comm);
    must(gyre_op_free(comm, op), comm, "op_free");
    free(input);
    free(output);
}

/* x ↦ high · x + low, one after the other: no other order of ranks gives the same. */
static uint64_t after(uint64_t first, uint64_t second)
{
    uint32_t a = (uint32_t)(first >> 32), b = (uint32_t)first;
    uint32_t c = (uint32_t)(second >> 32), d = (uint32_t)second;
    return (uint64_t)(c * a) << 32 | (uint32_t)(c * b + d);
}

static void compose(void *into, const void *from, uint64_t count, enum gyre_type type,
                    void *context)
{
    uint64_t *to = into;
    const uint64_t *second = from;
    (void)type;
    *(uint64_t *)context += count;
    for (uint64_t i = 0; i < count; i++)
        to[i] = after(to[i], second[i]);
}

static uint64_t function_of(uint32_t rank, uint64_t i)
{
    return (uint64_t)(2 * rank + 3 + i % 5) << 32 | (rank * 7 + i);
}

static void check_composed(const struct comm_sim *sim, const uint64_t *got, uint64_t count,
                           struct gyre_comm *comm)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t right = function_of(0, i);
        for (uint32_t r = 1; r < sim->n; r++)
            right = after(right, function_of(r, i));
        comm_sim_check(got[i] == right, comm, "a fold by the user's function is wrong");
    }
}

static void composed(struct gyre_comm *comm, struct comm_sim *sim)
{
    static const uint64_t counts[] = {1, 600, 5003};
    uint64_t calls = 0, *data = malloc(5003 * sizeof(*data));
    uint32_t me = (uint32_t)gyre_rank(comm), root = sim->n / 3;
    enum gyre_op op;
    must(gyre_op_user(comm, compose, &calls, &op), comm, "op_user");
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t rooted = 0; rooted < 2; rooted++) {
            for (uint64_t i = 0; i < counts[c]; i++)
                data[i] = function_of(me, i);
            must(rooted ? gyre_reduce(comm, data, me == root ? data : NULL, counts[c], GYRE_U64, op,
                                      (int)root)
                        : gyre_all_reduce(comm, data, data, counts[c], GYRE_U64, op),
                 comm, "a reduction by the user's function");
            check_composed(sim, data, rooted && me != root ? 0 : counts[c], comm);
        }
    must(gyre_op_free(comm, op), comm, "op_free");
    free(data);
}

/* -- worlds ------------------------------------------------------------------------------------ */

static void everything(struct gyre_comm *comm, struct comm_sim *sim)
{
    barriers(comm, sim);
    exchanges(comm, sim);
    gathers(comm, sim);
    messages(comm, sim);
    pass_on(comm, sim);
    groups(comm, sim);
    small_ones(comm, sim);
    scaled(comm, sim);
    composed(comm, sim);
}

static void run_at(uint32_t n, uint32_t per_node,
                   void (*body)(struct gyre_comm *comm, struct comm_sim *sim))
{
    struct comm_sim sim = {.n = n,
                           .per_node = per_node,
                           .seed = 10 * n + per_node,
                           .piece_bytes = n % 4 * 997,
                           .body = body};
    comm_sim_run(&sim);
}

static void everything_is_right_up_to_16_ranks(void **state)
{
    const uint32_t step = in_haste() ? 5 : 1;
    (void)state;
    for (uint32_t n = 2; n <= 16; n += step) {
        run_at(n, 1, everything);
        if (n > 2)
            run_at(n, n <= 5 ? 2 : 2 + n % 4, everything);
    }
}

static void everything_is_right_up_to_64_ranks(void **state)
{
    (void)state;
    run_at(23, 4, everything);
    if (!in_haste())
        run_at(31, 1, everything);
    run_at(64, 8, everything);
}

static void different_lengths_are_noticed(void **state)
{
    static const uint32_t ns[] = {2, 3, 5, 8, 16, 33};
    (void)state;
    for (uint32_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
        run_at(ns[i], 1, disagree);
    for (uint32_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
        run_at(ns[i], 1, other_blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_right_up_to_16_ranks),
        cmocka_unit_test(everything_is_right_up_to_64_ranks),
        cmocka_unit_test(different_lengths_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
