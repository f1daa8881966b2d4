/* A call's way: one check for all, and then it is run to the end (collectives/comm/operations.c), or started, or put
 * in the order of a stream. Nothing is started and the communicator is unharmed when a check fails;
 * but peers may wait in theirs, so that it failed stands in the books until a call follows. */
#include "collectives/calls/call.h"

#include "base/size.h"
#include "base/types.h"

#include <stdlib.h>

/* -- checks ------------------------------------------------------------------------------------ */

int gyre_comm_check(struct gyre_comm *comm, const char *call)
{
    if (!comm)
        return gyre_refuse("%s: the communicator is NULL", call);
    if (gyre_domain_forked(comm->domain)) {
        gyre_refuse("%s: this process was made by fork(); only its parent holds the communicator",
                    call);
        return GYRE_FORKED;
    }
    return atomic_load_explicit(&comm->progress->failed, memory_order_relaxed);
}

static int check_call_words(struct gyre_comm *comm, struct gyre_call *call)
{
    struct gyre_shape *shape = &call->shape;
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
    const struct gyre_shape *shape = &call->shape;
    bool blocks = gyre_verb_gathers(shape->verb) || gyre_verb_scatters(shape->verb);
    uint64_t element = gyre_type_size(shape->type), times = blocks ? comm->n : 1, bytes;
    if (gyre_mul_u64(shape->count, element * times, &bytes) && bytes <= INT64_MAX)
        return 0;
    return gyre_refuse("%s: %llu × %llu elements of %llu bytes are more than memory can hold",
                       call->name, (unsigned long long)times, (unsigned long long)shape->count,
                       (unsigned long long)element);
}

/* Finds the largest block, the count by which the operation is cut and named. */
static int check_blocks(const struct gyre_comm *comm, struct gyre_call *call)
{
    struct gyre_shape *shape = &call->shape;
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

/* Apart, for the story's room costs more to clear than the question. */
__attribute__((noinline)) static int admit_on_device(const struct gyre_fold_queue *fold_queue,
                                                     const char *name, const void *memory)
{
    struct gyre_trouble why = {0};
    return gyre_fold_queue_admit(fold_queue, memory, &why) ? gyre_refuse("%s: %s", name, why.text)
                                                           : 0;
}

int gyre_call_admit(const struct gyre_comm *comm, const char *name, const void *memory)
{
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    if (gyre_fold_queue_is_foreign(fold_queue, memory))
        return gyre_refuse(
            "%s: %p is CUDA memory, and this rank has no CUDA device: name one by gyre "
            "run --devices, GYRE_DEVICES or options.devices, or use CUDA before the "
            "rank joins",
            name, memory);
    return gyre_fold_queue_owns(fold_queue, memory) ? admit_on_device(fold_queue, name, memory) : 0;
}

static int check_buffers(const struct gyre_comm *comm, const struct gyre_call *call)
{
    const struct gyre_shape *shape = &call->shape;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, comm->n, comm->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, comm->n, comm->rank);
    if ((in_bytes && !call->input) || (out_bytes && !call->output))
        return gyre_refuse("%s: the %s buffer is NULL, with %llu elements", call->name,
                           in_bytes && !call->input ? "input" : "output",
                           (unsigned long long)shape->count);
    uintptr_t in = (uintptr_t)call->input, out = (uintptr_t)call->output;
    if (gyre_buffers_overlap(in, in_bytes, out, out_bytes) &&
        !gyre_shape_in_place(shape, comm->rank, call->input, call->output))
        return gyre_refuse(
            "%s: input and output overlap; they must be apart, or in place as the call "
            "describes it",
            call->name);
    int status = in_bytes ? gyre_call_admit(comm, call->name, call->input) : 0;
    return status || !out_bytes ? status : gyre_call_admit(comm, call->name, call->output);
}

/* On a communicator that gyre_comm_check() lets pass. */
static int admit_call(struct gyre_comm *comm, struct gyre_call *call)
{
    int status = check_call_words(comm, call);
    if (!status)
        status = call->unequal ? check_blocks(comm, call) : check_call_size(comm, call);
    return status ? status : check_buffers(comm, call);
}

/* -- all ways ---------------------------------------------------------------------------------- */

/* A reduction that multiplies does so now; the input is free then, but for the copy in `buffer`. */
static int prepare_call(struct gyre_comm *comm, struct gyre_call *call, void **buffer)
{
    *buffer = NULL;
    int status = admit_call(comm, call);
    if (!status && call->shape.fold)
        status = gyre_reduction_scale(comm, &call->shape, &call->input, call->output, buffer);
    return gyre_comm_refused(comm, status);
}

int gyre_call_run(struct gyre_comm *comm, struct gyre_call *call)
{
    void *buffer;
    int status = gyre_comm_check(comm, call->name);
    if (status || (!comm->group.depth &&
                   gyre_comm_run_again(comm, &call->shape, call->input, call->output, &status)))
        return status;
    status = prepare_call(comm, call, &buffer);
    if (!status && comm->group.depth)
        return gyre_comm_refused(
            comm, gyre_group_add(comm, &call->shape, call->input, call->output, buffer, NULL));
    if (!status)
        status = gyre_comm_run(comm, &call->shape, call->input, call->output);
    free(buffer);
    return status;
}

int gyre_call_begin(struct gyre_comm *comm, struct gyre_call *call, struct gyre_work **work)
{
    void *buffer = NULL;
    if (!work)
        return gyre_comm_refused(comm,
                                 gyre_refuse("%s: the place for the handle is NULL", call->name));
    *work = NULL;
    int status = gyre_comm_check(comm, call->name);
    if (!status)
        status = prepare_call(comm, call, &buffer);
    if (!status && comm->group.depth)
        return gyre_comm_refused(
            comm, gyre_group_add(comm, &call->shape, call->input, call->output, buffer, work));
    if (!status)
        status = gyre_comm_begin(comm, &call->shape, call->input, call->output, buffer, work);
    if (status)
        free(buffer);
    return status;
}

int gyre_call_check_stream(const char *name, const void *stream)
{
    return stream ? 0
                  : gyre_refuse("%s: the stream is NULL; give one of your own, or "
                                "cudaStreamLegacy, or cudaStreamPerThread",
                                name);
}

/* What happens at the call, and not when its turn comes, would be too early. */
static int check_on(const struct gyre_comm *comm, const struct gyre_call *call, const void *stream)
{
    if (comm->group.depth)
        return gyre_refuse("%s: a group is open; calls of a group are in no stream's order",
                           call->name);
    if (gyre_call_check_stream(call->name, stream))
        return GYRE_INVALID;
    if (!comm->progress->fold_queue.device)
        return gyre_refuse("%s: this process has no CUDA device, and so no streams; see "
                           "gyre_alloc_device()",
                           call->name);
    if (call->shape.fold && !call->shape.in_order)
        return gyre_refuse("%s: a reduction by gyre_op_scaled() multiplies at the call; it is not "
                           "offered in a stream's order",
                           call->name);
    return 0;
}

int gyre_call_run_on(struct gyre_comm *comm, struct gyre_call *call, void *stream)
{
    int status = gyre_comm_check(comm, call->name);
    if (status)
        return status;
    status = admit_call(comm, call);
    if (!status)
        status = check_on(comm, call, stream);
    return status ? gyre_comm_refused(comm, status)
                  : gyre_comm_begin_on(comm, &call->shape, call->input, call->output, stream);
}
