/* all_to_all_v: to every rank a block of its own length, as one operation in the order of the
 * communicator.
 *
 *   rank 0  ── 3 ──▶ rank 1      both know the 3, and say so: the block's name carries type and
 *           ◀─ 0 ──              count, and an empty block is sent too
 *
 * No rank knows what others send to each other, so none can make a plan of it, and there is nothing
 * to select: it is one message in each direction for every pair. An empty one costs a header of 32
 * bytes, and without it a rank that expects something from one that sends nothing would wait for
 * ever, told by nobody. In step d a rank sends to rank + d and receives from rank - d; all steps are
 * posted at once. What ranks do not know the checker does: tests/unit/collectives/prove/check_messages_test.c proves that
 * nobody waits for ever, not even if each step began when the one before has ended. */
#include "collectives/calls/call.h"
#include "collectives/comm/comm.h"

#include "base/rng.h"
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- checks ------------------------------------------------------------------------------------ */

static uint64_t place(const struct gyre_vector_side *side, uint32_t rank)
{
    uint64_t at = 0;
    if (side->at)
        return side->at[rank];
    for (uint32_t r = 0; r < rank; r++)
        at += side->count[r];
    return at;
}

/* Elements up to the end of its last block; UINT64_MAX: more than memory can hold, as of that rank. */
static uint64_t reach(const struct gyre_vector_side *side, uint32_t n, uint64_t element,
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

static int check_side(const struct gyre_comm *comm, const struct gyre_vector *vector,
                      const struct gyre_vector_side *side, uint64_t *bytes)
{
    uint64_t element = gyre_type_size(vector->type);
    if (!side->count)
        return gyre_refuse("%s: the table of %s counts is NULL", vector->call, side->name);
    uint32_t beyond;
    uint64_t elements = reach(side, comm->n, element, &beyond);
    if (elements == UINT64_MAX)
        return gyre_refuse("%s: rank %u's %s block of %llu elements ends beyond what memory can "
                           "hold",
                           vector->call, beyond, side->name,
                           (unsigned long long)side->count[beyond]);
    if (elements && !side->data)
        return gyre_refuse("%s: the %s buffer is NULL, with %llu elements", vector->call,
                           side->name, (unsigned long long)elements);
    *bytes = elements * element;
    return elements ? gyre_call_admit(comm, vector->call, side->data) : 0;
}

static int check_blocks(const struct gyre_comm *comm, const struct gyre_vector *vector)
{
    uint64_t out, in;
    int status;
    if (!gyre_type_size(vector->type))
        return gyre_refuse("%s: type %d is unknown", vector->call, (int)vector->type);
    if ((status = check_side(comm, vector, &vector->out, &out)) ||
        (status = check_side(comm, vector, &vector->in, &in)))
        return status;
    if (gyre_blocks_overlap(&(struct gyre_blocks){vector->in.at, vector->in.count}, comm->n))
        return gyre_refuse("%s: two ranks' blocks overlap in the output", vector->call);
    if (vector->out.data < vector->in.data + in && vector->in.data < vector->out.data + out &&
        vector->out.data != vector->in.data)
        return gyre_refuse("%s: input and output overlap, and are not the same", vector->call);
    if (vector->out.count[comm->rank] != vector->in.count[comm->rank])
        return gyre_refuse("%s: rank %u sends %llu elements to itself and expects %llu",
                           vector->call, comm->rank,
                           (unsigned long long)vector->out.count[comm->rank],
                           (unsigned long long)vector->in.count[comm->rank]);
    return 0;
}

static int check(struct gyre_comm *comm, const struct gyre_vector *vector)
{
    int status = gyre_comm_check(comm, vector->call);
    return status ? status : gyre_comm_refused(comm, check_blocks(comm, vector));
}

/* -- running ----------------------------------------------------------------------------------- */

/* Only what the engine and the books ask of a plan; lives with the communicator. */
static struct gyre_plan *plan_of(struct gyre_comm *comm, enum gyre_type type)
{
    if (!comm->vector_plan)
        comm->vector_plan = calloc(GYRE_TYPE_COUNT, sizeof(*comm->vector_plan));
    if (!comm->vector_plan)
        return NULL;
    struct gyre_plan *plan = &comm->vector_plan[type];
    plan->shape = (struct gyre_shape){.verb = GYRE_VERB_ALL_TO_ALL, .type = type};
    plan->form = GYRE_FORM_BLOCKS;
    plan->signature = gyre_signature_pack(GYRE_SIGNATURE_ALL_TO_ALL_V, type, GYRE_SUM, 0);
    plan->fingerprint = gyre_mix64(plan->signature);
    return plan;
}

static struct gyre_message_terms block(const struct gyre_vector *vector,
                                       const struct gyre_vector_side *side, uint32_t peer)
{
    uint8_t *data = side->data;
    if (side->count[peer])
        data += place(side, peer) * gyre_type_size(vector->type);
    return (struct gyre_message_terms){peer, side == &vector->out, data, side->count[peer],
                                       vector->type};
}

/* Owner. */
static void copy_own(struct gyre_comm *comm, const struct gyre_vector *vector)
{
    struct gyre_message_terms from = block(vector, &vector->out, comm->rank);
    struct gyre_message_terms to = block(vector, &vector->in, comm->rank);
    if (from.count)
        gyre_carrier_copy_now(&comm->hub->carrier, to.data, from.data,
                              from.count * gyre_type_size(vector->type));
}

int gyre_vector_run_alone(struct gyre_comm *comm, const struct gyre_vector *vector)
{
    gyre_domain_enter(comm->domain);
    copy_own(comm, vector);
    gyre_domain_leave(comm->domain);
    return comm->hub->carrier.status;
}

static int add_blocks(struct gyre_comm *comm, struct gyre_operation *op,
                      const struct gyre_vector *vector)
{
    int status = 0;
    for (uint32_t d = 1; !status && d < comm->n; d++) {
        struct gyre_message_terms in =
            block(vector, &vector->in, gyre_pairs_from(comm->rank, comm->n, d));
        struct gyre_message_terms out =
            block(vector, &vector->out, gyre_pairs_to(comm->rank, comm->n, d));
        status = gyre_pairs_add_block(comm, op, &in);
        if (!status)
            status = gyre_pairs_add_block(comm, op, &out);
    }
    return status;
}

/* Peers count on this rank's blocks: without messages for them the job cannot go on. */
static void give_up(struct gyre_comm *comm, int status)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    gyre_trouble_wrap(trouble, "gyre_all_to_all_v: the messages of an operation");
    gyre_watch_report(gyre_domain_watch(comm->domain), status,
                      gyre_domain_joined(comm->domain)->rank, false, trouble->text);
}

int gyre_vector_start(struct gyre_comm *comm, const struct gyre_vector *vector,
                      struct gyre_operation **op)
{
    struct gyre_plan *plan = plan_of(comm, vector->type);
    if (!plan)
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "%s: no memory", vector->call);
    int status = gyre_comm_start_plan(comm, plan, vector->out.data, vector->in.data, op);
    if (status)
        return status;
    status = add_blocks(comm, *op, vector);
    if (status)
        give_up(comm, status);
    if (gyre_pairs_look(comm, 1) == -ENOENT) /* what can go is on its way … */
        gyre_hub_poll(comm->hub);
    gyre_domain_ring(comm->domain);
    copy_own(comm, vector); /* … while the own block is copied */
    return 0;
}

uint64_t gyre_vector_aside_bytes(const struct gyre_comm *comm, const struct gyre_vector *vector)
{
    uint64_t element = gyre_type_size(vector->type);
    uint32_t beyond; /* nothing is: it has been checked */
    return vector->out.data == vector->in.data
               ? reach(&vector->out, comm->n, element, &beyond) * element
               : 0;
}

int gyre_vector_step_aside(struct gyre_comm *comm, struct gyre_vector *vector, void *room)
{
    uint64_t bytes = gyre_vector_aside_bytes(comm, vector);
    vector->out.data = room;
    return gyre_comm_copy(comm, room, vector->in.data, bytes);
}

/* Into *room, which the caller frees; NULL: it is not in place. */
static int step_aside(struct gyre_comm *comm, struct gyre_vector *vector, void **room)
{
    uint64_t bytes = gyre_vector_aside_bytes(comm, vector);
    *room = bytes ? malloc(bytes) : NULL;
    if (!bytes)
        return 0;
    if (*room)
        return gyre_vector_step_aside(comm, vector, *room);
    gyre_thread_trouble()->status = 0;
    return gyre_comm_refused(comm, gyre_trouble_set(gyre_thread_trouble(), -ENOMEM,
                                                    "%s: no memory for a copy of %llu bytes",
                                                    vector->call, (unsigned long long)bytes));
}

static int run_to_end(struct gyre_comm *comm, const struct gyre_vector *vector)
{
    struct gyre_operation *op;
    if (comm->n == 1)
        return gyre_vector_run_alone(comm, vector);
    gyre_domain_enter(comm->domain);
    int status = gyre_vector_start(comm, vector, &op);
    if (!status) {
        gyre_pairs_look(comm, gyre_comm_looks(comm));
        status = gyre_comm_drive(comm, op);
        gyre_engine_release(comm->engine, op);
    }
    gyre_domain_leave(comm->domain);
    return status;
}

static int run(struct gyre_comm *comm, struct gyre_vector *vector)
{
    void *room;
    int status = check(comm, vector);
    if (status)
        return status;
    if (comm->group.depth)
        return gyre_comm_refused(comm, gyre_group_add_vector(comm, vector, NULL));
    status = step_aside(comm, vector, &room);
    if (!status)
        status = run_to_end(comm, vector);
    free(room);
    return status;
}

static int start(struct gyre_comm *comm, const struct gyre_vector *vector,
                 struct gyre_started *started)
{
    if (comm->n == 1)
        return gyre_vector_run_alone(comm, vector);
    gyre_domain_enter(comm->domain);
    int status = gyre_vector_start(comm, vector, &started->op);
    gyre_domain_leave(comm->domain);
    if (!status && started->op->status == GYRE_AGAIN)
        gyre_helper_poke(comm->hub);
    return status;
}

static int begin(struct gyre_comm *comm, struct gyre_vector *vector, struct gyre_work **out)
{
    struct gyre_started *started;
    if (!out)
        return gyre_comm_refused(comm,
                                 gyre_refuse("%s: the place for the handle is NULL", vector->call));
    *out = NULL;
    int status = check(comm, vector);
    if (!status && comm->group.depth)
        return gyre_comm_refused(comm, gyre_group_add_vector(comm, vector, out));
    if (!status)
        status = gyre_comm_refused(comm, gyre_work_new(comm, &started));
    if (status)
        return status;
    status = step_aside(comm, vector, &started->buffer);
    if (!status)
        status = start(comm, vector, started);
    if (!status) {
        *out = started->handle;
        return 0;
    }
    free(started->buffer);
    gyre_work_free(started);
    return status;
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_vector vector_of(const char *call, const void *input,
                                    const uint64_t *send_counts, const uint64_t *send_at,
                                    void *output, const uint64_t *recv_counts,
                                    const uint64_t *recv_at, enum gyre_type type)
{
    return (struct gyre_vector){
        .call = call,
        .out = {"send", (uint8_t *)(uintptr_t)input, send_counts, send_at},
        .in = {"receive", output, recv_counts, recv_at},
        .type = type,
    };
}

int gyre_all_to_all_v(struct gyre_comm *comm, const void *input, const uint64_t *send_counts,
                      const uint64_t *send_at, void *output, const uint64_t *recv_counts,
                      const uint64_t *recv_at, enum gyre_type type)
{
    struct gyre_vector vector = vector_of("gyre_all_to_all_v", input, send_counts, send_at, output,
                                          recv_counts, recv_at, type);
    return run(comm, &vector);
}

int gyre_all_to_all_v_start(struct gyre_comm *comm, const void *input, const uint64_t *send_counts,
                            const uint64_t *send_at, void *output, const uint64_t *recv_counts,
                            const uint64_t *recv_at, enum gyre_type type, struct gyre_work **work)
{
    struct gyre_vector vector = vector_of("gyre_all_to_all_v_start", input, send_counts, send_at,
                                          output, recv_counts, recv_at, type);
    return begin(comm, &vector, work);
}
