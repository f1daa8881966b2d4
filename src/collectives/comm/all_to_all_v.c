/* all_to_all_v: a block of its own length from every rank to every rank, as one operation in the
 * order of the communicator.
 *
 *   rank 0  ── 3 ──▶ rank 1      both know the 3, and say so: the block's name carries type and
 *           ◀─ 0 ──              count, and an empty block is sent too
 *
 * No rank knows what others send to each other, so no rank can make a schedule, and there is
 * nothing to choose: every pair exchanges one message in each direction. An empty message costs a
 * header of 32 bytes. Without it a rank that expects a block from a rank that sends none would wait
 * for ever, untold. In step d a rank sends to rank + d and receives from rank - d; all steps are
 * posted at once. The checker has the knowledge that ranks lack:
 * tests/unit/collectives/prove/check_messages_test.c proves that no rank waits for ever, not even
 * if each step began when the one before had ended.
 *
 * Tested by tests/unit/collectives/prove/check_messages_test.c and
 * tests/program/collectives/counts.c. */
#include "collectives/comm/all_to_all_v.h"

#include "base/rng.h"
#include "base/size.h"
#include "collectives/comm/arguments.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/messages/point_to_point.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <stdlib.h>

/* -- checks ------------------------------------------------------------------------------------ */

static uint64_t block_offset(const struct gyre_all_to_all_v_side *side, uint32_t rank)
{
    uint64_t at = 0;
    if (side->at)
        return side->at[rank];
    for (uint32_t r = 0; r < rank; r++)
        at += side->count[r];
    return at;
}

/* The end of the last block, in elements. UINT64_MAX: more than memory can hold, because of rank
 * *beyond. */
static uint64_t side_end(const struct gyre_all_to_all_v_side *side, uint32_t n, uint64_t element,
                         uint32_t *beyond)
{
    uint64_t most = 0, packed = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint64_t at = side->at ? side->at[r] : packed, end;
        if (!gyre_add_u64(at, side->count[r], &end) || end > INT64_MAX / element) {
            *beyond = r;
            return UINT64_MAX;
        }
        packed = end;
        most = end > most && side->count[r] ? end : most;
    }
    return most;
}

static int check_side(const struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                      struct gyre_all_to_all_v_side *side, uint64_t *bytes)
{
    uint64_t element = gyre_type_size(v_call->type);
    if (!side->count)
        return gyre_refuse("%s: the table of %s counts is NULL", v_call->call, side->name);
    uint32_t beyond;
    uint64_t elements = side_end(side, comm->n, element, &beyond);
    if (elements == UINT64_MAX)
        return gyre_refuse("%s: rank %u's %s block of %llu elements ends beyond what memory can "
                           "hold",
                           v_call->call, beyond, side->name,
                           (unsigned long long)side->count[beyond]);
    if (elements && !side->data)
        return gyre_refuse("%s: the %s buffer is NULL, with %llu elements", v_call->call,
                           side->name, (unsigned long long)elements);
    *bytes = elements * element;
    return elements ? gyre_comm_admit(comm, v_call->call, side->data, &side->kind) : 0;
}

static int check_v_tables(const struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call)
{
    uint64_t out, in;
    int status;
    if (!gyre_type_size(v_call->type))
        return gyre_refuse("%s: type %d is unknown", v_call->call, (int)v_call->type);
    if ((status = check_side(comm, v_call, &v_call->out, &out)) ||
        (status = check_side(comm, v_call, &v_call->in, &in)))
        return status;
    if (gyre_blocks_overlap(&(struct gyre_blocks){v_call->in.at, v_call->in.count}, comm->n))
        return gyre_refuse("%s: two ranks' blocks overlap in the output", v_call->call);
    if (v_call->out.data < v_call->in.data + in && v_call->in.data < v_call->out.data + out &&
        v_call->out.data != v_call->in.data)
        return gyre_refuse("%s: input and output overlap, and are not the same", v_call->call);
    if (v_call->out.count[comm->rank] != v_call->in.count[comm->rank])
        return gyre_refuse("%s: rank %u sends %llu elements to itself and expects %llu",
                           v_call->call, comm->rank,
                           (unsigned long long)v_call->out.count[comm->rank],
                           (unsigned long long)v_call->in.count[comm->rank]);
    return 0;
}

int gyre_all_to_all_v_check(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call)
{
    return gyre_comm_refused(comm, check_v_tables(comm, v_call));
}

/* -- running ----------------------------------------------------------------------------------- */

/* Makes the plan of all_to_all_v: only what the engine and the books ask of a plan. It lives with
 * the communicator. */
static struct gyre_plan *plan_of(struct gyre_comm *comm, enum gyre_type type)
{
    if (!comm->v_plan)
        comm->v_plan = calloc(GYRE_TYPE_COUNT, sizeof(*comm->v_plan));
    if (!comm->v_plan)
        return NULL;
    struct gyre_plan *plan = &comm->v_plan[type];
    plan->shape = (struct gyre_shape){.verb = GYRE_VERB_ALL_TO_ALL, .type = type};
    plan->form = GYRE_FORM_BLOCKS;
    plan->signature = gyre_signature_pack(GYRE_SIGNATURE_ALL_TO_ALL_V, type, GYRE_SUM, 0);
    plan->fingerprint = gyre_mix64(plan->signature);
    return plan;
}

static struct gyre_message_terms block_terms(const struct gyre_all_to_all_v_call *v_call,
                                             const struct gyre_all_to_all_v_side *side,
                                             uint32_t peer)
{
    uint8_t *data = side->data;
    if (side->count[peer])
        data += block_offset(side, peer) * gyre_type_size(v_call->type);
    return (struct gyre_message_terms){.peer = peer,
                                       .send = side == &v_call->out,
                                       .data = data,
                                       .kind = side->kind,
                                       .count = side->count[peer],
                                       .type = v_call->type};
}

/* Copies the own block. Owner. */
static void copy_own_block(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call)
{
    struct gyre_message_terms from = block_terms(v_call, &v_call->out, comm->rank);
    struct gyre_message_terms to = block_terms(v_call, &v_call->in, comm->rank);
    if (from.count)
        gyre_fold_queue_copy_now(&comm->progress->fold_queue, to.data, from.data,
                                 from.count * gyre_type_size(v_call->type),
                                 from.kind != GYRE_MEMORY_HOST || to.kind != GYRE_MEMORY_HOST);
}

int gyre_all_to_all_v_run_alone(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call)
{
    copy_own_block(comm, v_call);
    return comm->progress->fold_queue.status;
}

static int add_blocks(struct gyre_comm *comm, struct gyre_operation *op,
                      const struct gyre_all_to_all_v_call *v_call)
{
    gyre_thread_trouble()->status = 0; /* of an earlier call */
    int status = gyre_progress_add_messages(comm, gyre_thread_trouble());
    for (uint32_t d = 1; !status && d < comm->n; d++) {
        struct gyre_message_terms in =
            block_terms(v_call, &v_call->in, gyre_p2p_from(comm->rank, comm->n, d));
        struct gyre_message_terms out =
            block_terms(v_call, &v_call->out, gyre_p2p_to(comm->rank, comm->n, d));
        status = gyre_p2p_add_block(comm->p2p, op, &in);
        if (!status)
            status = gyre_p2p_add_block(comm->p2p, op, &out);
    }
    return status;
}

/* Fails the job: peers count on this rank's blocks, and no messages for them can be made. */
static void give_up_blocks(struct gyre_comm *comm, int status)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    gyre_trouble_wrap(trouble, "gyre_all_to_all_v: the messages of an operation");
    gyre_watch_report(gyre_domain_watch(comm->domain), status,
                      gyre_domain_joined(comm->domain)->rank, false, trouble->text);
}

int gyre_all_to_all_v_begin(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                            struct gyre_operation **op)
{
    struct gyre_plan *plan = plan_of(comm, v_call->type);
    if (!plan) {
        gyre_thread_trouble()->status = 0;
        return gyre_comm_refused(
            comm, gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "%s: no memory", v_call->call));
    }
    const struct gyre_request request = {.input.address = v_call->out.data,
                                         .output.address = v_call->in.data};
    int status = gyre_comm_await_room(comm);
    if (!status)
        status = gyre_comm_start_plan(comm, plan, &request, op);
    if (status)
        return status;
    status = add_blocks(comm, *op, v_call);
    if (status)
        give_up_blocks(comm, status);
    /* Blocks that can go are on their way while the own block is copied. */
    if (gyre_p2p_look(comm->p2p, 1) == -ENOENT)
        gyre_progress_poll(comm->progress);
    gyre_domain_ring(comm->domain);
    copy_own_block(comm, v_call);
    return 0;
}

uint64_t gyre_all_to_all_v_aside_bytes(const struct gyre_comm *comm,
                                       const struct gyre_all_to_all_v_call *v_call)
{
    uint64_t element = gyre_type_size(v_call->type);
    uint32_t beyond; /* no block is: the call has been checked */
    return v_call->out.data == v_call->in.data
               ? side_end(&v_call->out, comm->n, element, &beyond) * element
               : 0;
}

int gyre_all_to_all_v_step_aside(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call,
                                 void *room)
{
    uint64_t bytes = gyre_all_to_all_v_aside_bytes(comm, v_call);
    bool on_device = v_call->out.kind != GYRE_MEMORY_HOST;
    v_call->out.data = room;
    v_call->out.kind = GYRE_MEMORY_HOST;
    return gyre_comm_copy(comm, room, v_call->in.data, bytes, on_device);
}
