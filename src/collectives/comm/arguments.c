/* Checks the arguments of a call; one set of checks for all calls. A refused call has started
 * nothing, and the communicator is unharmed. But peers may wait in their call, so the refusal
 * stands in the books until a call follows.
 *
 * Tested by tests/program/collectives/refused.c. */
#include "collectives/comm/arguments.h"

#include "base/size.h"
#include "base/types.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/reductions.h"
#include "collectives/messages/point_to_point.h"

/* -- checks ------------------------------------------------------------------------------------ */

/* A failure that the watch knows of, and that no call has come upon yet. In shared memory a call
 * that finds all that it needs could go on past it. */
static int meet_failure(struct gyre_comm *comm)
{
    const int status = gyre_progress_failure(comm->progress);
    if (status) {
        gyre_domain_enter(comm->domain);
        gyre_progress_fail(comm->progress, status);
        gyre_domain_leave(comm->domain);
    }
    return status;
}

int gyre_comm_check(struct gyre_comm *comm, const char *call)
{
    if (!comm)
        return gyre_refuse("%s: the communicator is NULL", call);
    if (gyre_domain_forked(comm->domain)) {
        gyre_refuse("%s: this process was made by fork(); only its parent holds the communicator",
                    call);
        return GYRE_FORKED;
    }
    const int failed = atomic_load_explicit(&comm->progress->failed, memory_order_relaxed);
    return failed ? failed : meet_failure(comm);
}

static int check_call_words(struct gyre_comm *comm, struct gyre_call *call)
{
    struct gyre_shape *shape = &call->request.shape;
    if (gyre_verb_has_root(shape->verb) && (call->root < 0 || call->root >= (int)comm->n))
        return gyre_refuse("%s: root %d is not a rank of 0 … %u", call->name, call->root,
                           comm->n - 1);
    if (!gyre_type_size(shape->type))
        return gyre_refuse("%s: type %d is unknown", call->name, (int)shape->type);
    if (gyre_verb_reduces(shape->verb) && (unsigned)shape->op >= GYRE_OP_COUNT)
        return gyre_reduction_resolve(comm, call->name, shape);
    if (gyre_verb_reduces(shape->verb) && !gyre_op_suits(shape->type, shape->op))
        return gyre_refuse("%s: reduction %s combines bits: it is for integers, the type is %s",
                           call->name, gyre_op_name(shape->op), gyre_type_name(shape->type));
    return 0;
}

static int check_call_size(const struct gyre_comm *comm, const struct gyre_call *call)
{
    const struct gyre_shape *shape = &call->request.shape;
    bool blocks = gyre_verb_has_blocks(shape->verb);
    uint64_t element = gyre_type_size(shape->type), times = blocks ? comm->n : 1, bytes;
    if (gyre_mul_u64(shape->count, element * times, &bytes) && bytes <= INT64_MAX)
        return 0;
    return gyre_refuse("%s: %llu × %llu elements of %llu bytes are more than memory can hold",
                       call->name, (unsigned long long)times, (unsigned long long)shape->count,
                       (unsigned long long)element);
}

/* Finds the largest block: the count by which the operation is cut and named. */
static int check_blocks(const struct gyre_comm *comm, struct gyre_call *call)
{
    struct gyre_shape *shape = &call->request.shape;
    uint64_t element = gyre_type_size(shape->type), end = 0, bytes;
    if (!shape->blocks.count)
        return gyre_refuse("%s: the array of counts is NULL", call->name);
    shape->count = 0;
    for (uint32_t b = 0; b < comm->n; b++) {
        uint64_t count = shape->blocks.count[b];
        end = shape->blocks.at ? shape->blocks.at[b] : end;
        if (!gyre_add_u64(end, count, &end) || !gyre_mul_u64(end, element, &bytes) ||
            bytes > INT64_MAX)
            return gyre_refuse("%s: rank %u's block of %llu elements ends beyond what memory can "
                               "hold",
                               call->name, b, (unsigned long long)count);
        shape->count = count > shape->count ? count : shape->count;
    }
    if (gyre_blocks_overlap(&shape->blocks, comm->n))
        return gyre_refuse("%s: two ranks' blocks overlap in the output", call->name);
    return 0;
}

/* Not inlined, because clearing room for the story costs more than the check. */
__attribute__((noinline)) int gyre_comm_admit(const struct gyre_comm *comm, const char *name,
                                              const void *memory, enum gyre_memory_kind *kind)
{
    struct gyre_trouble why = {0};
    return gyre_fold_queue_recognise(&comm->progress->fold_queue, memory, kind, &why)
               ? gyre_refuse("%s: %s", name, why.text)
               : 0;
}

static int admit_buffer(const struct gyre_comm *comm, const char *name,
                        struct gyre_request_buffer *buffer)
{
    if (!buffer->bytes)
        buffer->kind = GYRE_MEMORY_HOST;
    if (!buffer->bytes || buffer->known)
        return 0;
    buffer->known = true;
    return gyre_comm_admit(comm, name, buffer->address, &buffer->kind);
}

static int check_buffers(const struct gyre_comm *comm, struct gyre_call *call)
{
    const struct gyre_shape *shape = &call->request.shape;
    struct gyre_request_buffer *input = &call->request.input, *output = &call->request.output;
    input->bytes = gyre_shape_input_bytes(shape, comm->n, comm->rank);
    output->bytes = gyre_shape_output_bytes(shape, comm->n, comm->rank);
    bool no_input = input->bytes && !input->address;
    if (no_input || (output->bytes && !output->address))
        return gyre_refuse("%s: the %s buffer is NULL, with %llu elements", call->name,
                           no_input ? "input" : "output", (unsigned long long)shape->count);
    if (gyre_buffers_overlap((uintptr_t)input->address, input->bytes, (uintptr_t)output->address,
                             output->bytes) &&
        !gyre_shape_in_place(shape, comm->rank, input->address, output->address))
        return gyre_refuse(
            "%s: input and output overlap; they must be apart, or in place as the call "
            "describes it",
            call->name);
    int status = admit_buffer(comm, call->name, input);
    return status ? status : admit_buffer(comm, call->name, output);
}

int gyre_call_check(struct gyre_comm *comm, struct gyre_call *call)
{
    int status = check_call_words(comm, call);
    if (!status)
        status = call->unequal ? check_blocks(comm, call) : check_call_size(comm, call);
    return status ? status : check_buffers(comm, call);
}

int gyre_comm_check_stream(const char *name, const void *stream)
{
    return stream ? 0
                  : gyre_refuse("%s: the stream is NULL; give one of your own, or "
                                "cudaStreamLegacy, or cudaStreamPerThread",
                                name);
}

/* Refuses what runs at the call itself and not in its turn: in a stream's order that would be too
 * early. */
int gyre_call_check_stream(const struct gyre_comm *comm, const struct gyre_call *call,
                           const void *stream)
{
    if (gyre_comm_in_group(comm))
        return gyre_refuse("%s: a group is open; calls of a group are in no stream's order",
                           call->name);
    if (gyre_comm_check_stream(call->name, stream))
        return GYRE_INVALID;
    if (!comm->progress->fold_queue.device)
        return gyre_refuse("%s: this process has no CUDA device, and so no streams; see "
                           "gyre_alloc_device()",
                           call->name);
    if (call->request.shape.fold && !call->request.shape.in_order)
        return gyre_refuse("%s: a reduction by gyre_op_scaled() multiplies at the call; it is not "
                           "offered in a stream's order",
                           call->name);
    return 0;
}

int gyre_message_check(const struct gyre_comm *comm, const char *call,
                       struct gyre_message_terms *terms, int peer)
{
    uint64_t element = gyre_type_size(terms->type), bytes;
    bool anyone = peer == GYRE_ANY_SOURCE && terms->any;
    if (!anyone && (peer < 0 || peer >= (int)comm->n))
        return gyre_refuse(
            "%s: peer %d is not a rank of 0 … %u%s", call, peer, comm->n - 1,
            peer == GYRE_ANY_SOURCE && !terms->send ? "; gyre_recv_any() receives from any" : "");
    if (terms->tag > INT32_MAX)
        return gyre_refuse("%s: tag %d is not one of 0 … %d", call, (int)terms->tag, INT32_MAX);
    if (!element)
        return gyre_refuse("%s: type %d is unknown", call, (int)terms->type);
    if (!gyre_mul_u64(terms->count, element, &bytes) || bytes > INT64_MAX)
        return gyre_refuse("%s: %llu elements of %llu bytes are more than memory can hold", call,
                           (unsigned long long)terms->count, (unsigned long long)element);
    if (bytes && !terms->data)
        return gyre_refuse("%s: the buffer is NULL, with %llu elements", call,
                           (unsigned long long)terms->count);
    return bytes ? gyre_comm_admit(comm, call, terms->data, &terms->kind) : 0;
}

/* -- refusals ---------------------------------------------------------------------------------- */

/* Whether there is a communicator, and it is this process's. */
static bool is_held(const struct gyre_comm *comm)
{
    return comm && !gyre_domain_forked(comm->domain);
}

int gyre_comm_refused(struct gyre_comm *comm, int status)
{
    if (!status || !is_held(comm))
        return status;
    const int failure = gyre_progress_failure(comm->progress);
    if (failure || comm->n == 1)
        return failure ? failure : status;
    gyre_watch_refuse(gyre_domain_watch(comm->domain), comm->activity, comm->engine->sequence + 1,
                      gyre_thread_trouble()->text);
    if (gyre_comm_in_group(comm))
        comm->group.refused = true;
    return status;
}

void gyre_comm_refused_in_group(struct gyre_comm *comm)
{
    if (comm->group.refused)
        gyre_watch_refuse(gyre_domain_watch(comm->domain), comm->activity,
                          comm->engine->sequence + 1, NULL);
    comm->group.refused = false;
}

int gyre_message_refused(struct gyre_comm *comm, int status)
{
    if (!status || !is_held(comm))
        return status;
    const int failure = gyre_progress_failure(comm->progress);
    if (failure || comm->n == 1)
        return failure ? failure : status;
    if (gyre_progress_add_messages(comm, NULL) == 0)
        gyre_p2p_refuse(comm->p2p, gyre_thread_trouble()->text);
    return status;
}
