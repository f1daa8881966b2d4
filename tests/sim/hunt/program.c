/* The program of every rank: the calls of the scenario, some blocking, some started and waited for
 * late, some in groups. The first call that fails is the last: then it waits for what is under way,
 * and ends. A call without memory ends the process. */
#include "sim/hunt/buffers.h"

#include "transport/stream/frame.h"

#include <errno.h>
#include <string.h>

/* -- calls ------------------------------------------------------------------------------------- */

/* Messages around, under one of three tags. Every other short one is received from any rank.
 * Long ones ask for their grant before a sleep, which is not played. */
static int call_messages(const struct hunt_place *p, struct hunt_result *r, struct gyre_comm *comm)
{
    uint64_t count = p->op->count, bytes = count * gyre_type_size(p->op->type);
    int next = (int)((p->me + 1) % p->n), before = (int)((p->me + p->n - 1) % p->n);
    int tag = (int)(count % 3) * 1000;
    int status = gyre_send_tag_start(comm, r->input, count, p->op->type, next, tag, &r->work[0]);
    if (status)
        return status;
    if (bytes <= GYRE_EAGER_MAX && count % 2)
        return gyre_recv_any_start(comm, r->output, count, p->op->type, GYRE_ANY_SOURCE, tag, NULL,
                                   &r->work[1]);
    return gyre_recv_tag_start(comm, r->output, count, p->op->type, before, tag, &r->work[1]);
}

static void send_counts(const struct hunt_place *p, uint64_t counts[HUNT_RANKS])
{
    for (uint32_t m = 0; m < p->n; m++)
        counts[m] = hunt_sent(p, p->me, m);
}

static int call_started(const struct hunt_place *p, struct hunt_result *r, struct gyre_comm *comm)
{
    uint64_t sent[HUNT_RANKS], c = p->op->count;
    const void *in = r->input;
    void *out = r->output;
    enum gyre_type type = p->op->type;
    enum gyre_op op = p->op->op;
    int root = (int)p->root;
    struct gyre_work **work = &r->work[0];
    switch (p->op->call) {
    case HUNT_ALL_REDUCE:
        return gyre_all_reduce_start(comm, in, out, c, type, op, work);
    case HUNT_BROADCAST:
        return gyre_broadcast_start(comm, in, out, c, type, root, work);
    case HUNT_REDUCE:
        return gyre_reduce_start(comm, in, out, c, type, op, root, work);
    case HUNT_ALL_GATHER:
        return gyre_all_gather_start(comm, in, out, c, type, work);
    case HUNT_REDUCE_SCATTER:
        return gyre_reduce_scatter_start(comm, in, out, c, type, op, work);
    case HUNT_ALL_TO_ALL:
        return gyre_all_to_all_start(comm, in, out, c, type, work);
    case HUNT_GATHER:
        return gyre_gather_start(comm, in, out, c, type, root, work);
    case HUNT_SCATTER:
        return gyre_scatter_start(comm, in, out, c, type, root, work);
    case HUNT_ALL_GATHER_V:
        return gyre_all_gather_v_start(comm, in, out, r->counts, r->at, type, work);
    case HUNT_ALL_TO_ALL_V:
        send_counts(p, sent);
        return gyre_all_to_all_v_start(comm, in, sent, NULL, out, r->counts, NULL, type, work);
    case HUNT_RING:
        return call_messages(p, r, comm);
    default:
        return gyre_barrier_start(comm, work);
    }
}

static int call_blocking(const struct hunt_place *p, struct hunt_result *r, struct gyre_comm *comm)
{
    uint64_t sent[HUNT_RANKS], c = p->op->count;
    const void *in = r->input;
    void *out = r->output;
    enum gyre_type type = p->op->type;
    enum gyre_op op = p->op->op;
    int root = (int)p->root;
    switch (p->op->call) {
    case HUNT_ALL_REDUCE:
        return gyre_all_reduce(comm, in, out, c, type, op);
    case HUNT_BROADCAST:
        return gyre_broadcast(comm, in, out, c, type, root);
    case HUNT_REDUCE:
        return gyre_reduce(comm, in, out, c, type, op, root);
    case HUNT_ALL_GATHER:
        return gyre_all_gather(comm, in, out, c, type);
    case HUNT_REDUCE_SCATTER:
        return gyre_reduce_scatter(comm, in, out, c, type, op);
    case HUNT_ALL_TO_ALL:
        return gyre_all_to_all(comm, in, out, c, type);
    case HUNT_GATHER:
        return gyre_gather(comm, in, out, c, type, root);
    case HUNT_SCATTER:
        return gyre_scatter(comm, in, out, c, type, root);
    case HUNT_ALL_GATHER_V:
        return gyre_all_gather_v(comm, in, out, r->counts, r->at, type);
    case HUNT_ALL_TO_ALL_V:
        send_counts(p, sent);
        return gyre_all_to_all_v(comm, in, sent, NULL, out, r->counts, NULL, type);
    default:
        return gyre_barrier(comm);
    }
}

/* -- what becomes of them ---------------------------------------------------------------------- */

/* The call has ended, and its buffers are the caller's again. */
static void settle(struct gyre_domain *rank, uint32_t number, int status)
{
    struct hunt_result *result = &rank->result[number];
    struct hunt_place place;
    hunt_note("call ends", rank->rank, number, (uint64_t)(int64_t)status);
    if (result->ended && !status)
        return;
    result->ended = true;
    result->failed |= status != 0;
    if (status && !rank->status)
        rank->status = status;
    result->hash = hunt_hash_buffers(result);
    hunt_place(&place, number, rank->rank);
    hunt_check_right(&place, result, rank->rank);
}

static bool has_handle(const struct hunt_op *op)
{
    return op->late || op->call == HUNT_RING;
}

/* A failure that the whole job knows has one status and one story. One that it does not know is
 * the lack of memory, with which the program ends. */
static void judge_status(struct gyre_domain *rank, struct gyre_comm *comm, int status)
{
    int health = atomic_load(&rank->health.status);
    if (!status)
        return;
    if (!health && hunt_memory_failed(rank->rank))
        hunt_rank_exit(rank);
    if (status == -ENOMEM && hunt_memory_failed(rank->rank))
        return;
    if (status != health)
        hunt_wrong("rank %u: a call returns %d (%s), but the job's status is %d", rank->rank,
                   status, gyre_error(comm), health);
    else if (strcmp(gyre_error(comm), rank->health.failure.text) != 0)
        hunt_wrong("rank %u: a call tells \"%s\", the job \"%s\"", rank->rank, gyre_error(comm),
                   rank->health.failure.text);
}

static struct gyre_comm *comm_of(const struct gyre_domain *rank, const struct hunt_op *op)
{
    return op->part ? rank->part : rank->comm;
}

/* What is under way when the job fails is over at the next look. */
static int wait_for_one(struct gyre_domain *rank, struct gyre_work *work, int timeout_ms)
{
    int status = GYRE_AGAIN;
    while (status == GYRE_AGAIN) {
        int before = atomic_load(&rank->health.status);
        status = gyre_work_wait(work, timeout_ms);
        if (before && status == GYRE_AGAIN) {
            hunt_wrong("rank %u: an operation goes on though its job has failed", rank->rank);
            hunt_rank_exit(rank);
        }
    }
    return status;
}

static void wait_for(struct gyre_domain *rank, uint32_t number)
{
    const struct hunt_op *op = &hunt.is->op[number];
    struct hunt_result *result = &rank->result[number];
    int first = 0;
    for (int i = 0; i < 2; i++) {
        if (!result->work[i])
            continue;
        int status = wait_for_one(rank, result->work[i], number % 2 ? 1 : -1);
        result->work[i] = NULL;
        judge_status(rank, comm_of(rank, op), status);
        first = first ? first : status;
    }
    if (result->called && !(result->ended && result->failed))
        settle(rank, number, first);
}

/* Makes the call, alone or in a group that is open. */
static int make_call(struct gyre_domain *rank, uint32_t number)
{
    const struct hunt_op *op = &hunt.is->op[number];
    struct hunt_result *result = &rank->result[number];
    struct gyre_comm *comm = comm_of(rank, op);
    struct hunt_place place;
    hunt_place(&place, number, rank->rank);
    struct gyre_domain *here = hunt.here;
    hunt.here = NULL;
    hunt_make_buffers(&place, result);
    hunt.here = here;
    result->called = true;
    hunt_note("calls", rank->rank, number, op->call);
    int status =
        has_handle(op) ? call_started(&place, result, comm) : call_blocking(&place, result, comm);
    judge_status(rank, comm, status);
    return status;
}

static void call_alone(struct gyre_domain *rank, uint32_t number)
{
    const struct hunt_op *op = &hunt.is->op[number];
    int status = make_call(rank, number);
    if (status || !has_handle(op))
        settle(rank, number, status);
    else if (!op->late)
        wait_for(rank, number);
}

static bool joins(const struct hunt_op *op, const struct hunt_op *first)
{
    return op->grouped && op->part == first->part && op->call != HUNT_COMPUTE;
}

/* Collects this call and its neighbours. Returns the number of the last. */
static uint32_t call_group(struct gyre_domain *rank, uint32_t first)
{
    const struct hunt_op *op = hunt.is->op;
    struct gyre_comm *comm = comm_of(rank, &op[first]);
    uint32_t last = first, made = first;
    while (last + 1 < hunt.is->ops && joins(&op[last + 1], &op[first]))
        last++;
    int status = gyre_group_start(comm);
    judge_status(rank, comm, status);
    for (; made <= last && !status; made++)
        status = make_call(rank, made);
    int end = gyre_group_end(comm);
    judge_status(rank, comm, end);
    status = status ? status : end;
    for (uint32_t i = first; i < made; i++)
        if (!rank->result[i].work[0] && !rank->result[i].work[1])
            settle(rank, i, status);
    if (status && !rank->status)
        rank->status = status;
    return last;
}

static bool splits(void)
{
    for (uint32_t i = 0; i < hunt.is->ops; i++)
        if (hunt.is->op[i].part)
            return true;
    return false;
}

/* False: the job has failed, or nobody has got a part. */
static bool make_part(struct gyre_domain *rank)
{
    int status = gyre_split(rank->comm, (int)(rank->rank % 2), 0, &rank->part);
    if (status == -ENOMEM && !atomic_load(&rank->health.status))
        return false;
    judge_status(rank, rank->comm, status);
    return status == 0;
}

static bool is_under_way(const struct gyre_domain *rank)
{
    for (uint32_t i = 0; i < hunt.is->ops; i++)
        if (rank->result[i].work[0] || rank->result[i].work[1])
            return true;
    return false;
}

/* Whether nobody leaves before all have come from this computation. */
static bool all_meet_after(uint32_t number)
{
    for (uint32_t i = number + 1; i < hunt.is->ops; i++)
        if (hunt.is->op[i].call == HUNT_BARRIER && !hunt.is->op[i].part)
            return true;
    return false;
}

/* Some computations take one rank longer than the dead time, for which the others wait in their
 * next call. It is no failure. No helper drives what is under way here, so nothing may be. */
static uint64_t compute_ns(const struct gyre_domain *rank, uint32_t number)
{
    const struct hunt_op *op = &hunt.is->op[number];
    bool longest = op->root % hunt.is->n == rank->rank && all_meet_after(number);
    return longest && !is_under_way(rank) ? 2 * HUNT_DEAD : op->count % 2000 * 1000;
}

void hunt_program(struct gyre_domain *rank)
{
    if (splits() && !make_part(rank))
        return;
    for (uint32_t i = 0; i < hunt.is->ops && !rank->status && !hunt.outcome->wrong; i++) {
        const struct hunt_op *op = &hunt.is->op[i];
        if (op->call == HUNT_COMPUTE)
            hunt_rank_sleep(rank, compute_ns(rank, i));
        else if (op->grouped)
            i = call_group(rank, i);
        else
            call_alone(rank, i);
    }
    for (uint32_t i = 0; i < hunt.is->ops; i++)
        if (rank->result[i].work[0] || rank->result[i].work[1])
            wait_for(rank, i);
}

void hunt_program_check(struct gyre_domain *rank)
{
    for (uint32_t i = 0; i < hunt.is->ops && !hunt.outcome->wrong; i++) {
        const struct hunt_result *result = &rank->result[i];
        if (result->ended && rank->life != HUNT_DEAD_NOW &&
            result->hash != hunt_hash_buffers(result))
            hunt_wrong("rank %u, call %u: a buffer was written after the call had %s", rank->rank,
                       i, result->failed ? "failed" : "ended");
    }
}
