/* The collective calls of gyre/gyre.h: every one is its arguments in a struct, one check for all,
 * and then either run to the end (operations.c) or started.
 *
 *     gyre_broadcast(…)         ─┐                         ┌─ gyre_comm_run()
 *     gyre_broadcast_start(…)   ─┴─▶ struct call ─▶ check ─┤
 *                                                          └─ gyre_comm_begin() ─▶ *work
 *
 * Nothing is started and the communicator is unharmed when a check fails. */
#include "collectives/comm.h"

#include "base/size.h"

#include <stdlib.h>

struct call {
    const char *name;
    struct gyre_shape shape;
    int root; /* as given */
    const void *input;
    void *output;
    bool unequal; /* blocks are in shape.blocks; check() finds the largest */
};

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
    return atomic_load_explicit(&comm->hub->failed, memory_order_relaxed);
}

static int check_words(struct gyre_comm *comm, struct call *call)
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

static int check_size(const struct gyre_comm *comm, const struct call *call)
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

/* Do two blocks overlap? Mostly they stand in order, and that is seen at a glance. */
static bool blocks_overlap(const struct gyre_blocks *blocks, uint32_t n)
{
    const uint64_t *at = blocks->at, *count = blocks->count;
    uint32_t ordered = 1;
    while (ordered < n && at[ordered - 1] + count[ordered - 1] <= at[ordered])
        ordered++;
    for (uint32_t b = ordered; b < n; b++)
        for (uint32_t a = 0; a < b; a++)
            if (count[a] && count[b] && at[a] < at[b] + count[b] && at[b] < at[a] + count[a])
                return true;
    return false;
}

/* Finds the largest block, the count by which the operation is cut and named. */
static int check_blocks(const struct gyre_comm *comm, struct call *call)
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
    if (shape->blocks.at && blocks_overlap(&shape->blocks, comm->n))
        return gyre_refuse("%s: two ranks' blocks overlap in the output", call->name);
    return 0;
}

static int check_buffers(const struct gyre_comm *comm, const struct call *call)
{
    const struct gyre_shape *shape = &call->shape;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, comm->n, comm->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, comm->n, comm->rank);
    if ((in_bytes && !call->input) || (out_bytes && !call->output))
        return gyre_refuse("%s: the %s buffer is NULL, with %llu elements", call->name,
                           in_bytes && !call->input ? "input" : "output",
                           (unsigned long long)shape->count);
    uintptr_t in = (uintptr_t)call->input, out = (uintptr_t)call->output;
    if (in_bytes && out_bytes && in < out + out_bytes && out < in + in_bytes &&
        !gyre_shape_in_place(shape, comm->rank, call->input, call->output))
        return gyre_refuse(
            "%s: input and output overlap; they must be apart, or in place as the call "
            "describes it",
            call->name);
    return 0;
}

static int check(struct gyre_comm *comm, struct call *call)
{
    int status = gyre_comm_check(comm, call->name);
    if (!status)
        status = check_words(comm, call);
    if (!status)
        status = call->unequal ? check_blocks(comm, call) : check_size(comm, call);
    return status ? status : check_buffers(comm, call);
}

/* -- both ways --------------------------------------------------------------------------------- */

/* A reduction that multiplies does so now; the input is free then, but for the copy in `buffer`. */
static int prepare(struct gyre_comm *comm, struct call *call, void **buffer)
{
    *buffer = NULL;
    int status = check(comm, call);
    if (status || !call->shape.fold)
        return status;
    return gyre_reduction_scale(comm, &call->shape, &call->input, call->output, buffer);
}

static int run(struct gyre_comm *comm, struct call *call)
{
    void *buffer;
    int status = prepare(comm, call, &buffer);
    if (!status && comm->group.depth)
        return gyre_group_add(comm, &call->shape, call->input, call->output, buffer, NULL);
    if (!status)
        status = gyre_comm_run(comm, &call->shape, call->input, call->output);
    free(buffer);
    return status;
}

static int begin(struct gyre_comm *comm, struct call *call, struct gyre_work **work)
{
    void *buffer;
    if (!work)
        return gyre_refuse("%s: the place for the handle is NULL", call->name);
    *work = NULL;
    int status = prepare(comm, call, &buffer);
    if (!status && comm->group.depth)
        return gyre_group_add(comm, &call->shape, call->input, call->output, buffer, work);
    if (!status)
        status = gyre_comm_begin(comm, &call->shape, call->input, call->output, work);
    if (status)
        free(buffer);
    else
        (*work)->buffer = buffer;
    return status;
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct call reducing(const char *name, enum gyre_verb verb, const void *input, void *output,
                            uint64_t count, enum gyre_type type, enum gyre_op op)
{
    return (struct call){.name = name,
                         .shape = {.verb = verb, .type = type, .op = op, .count = count},
                         .input = input,
                         .output = output};
}

static struct call moving(const char *name, enum gyre_verb verb, const void *input, void *output,
                          uint64_t count, enum gyre_type type)
{
    return reducing(name, verb, input, output, count, type, GYRE_SUM);
}

static struct call rooted(struct call call, int root)
{
    call.root = root;
    call.shape.root = (uint32_t)root;
    return call;
}

int gyre_all_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type, enum gyre_op op)
{
    struct call call =
        reducing("gyre_all_reduce", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return run(comm, &call);
}

int gyre_all_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, enum gyre_op op, struct gyre_work **work)
{
    struct call call =
        reducing("gyre_all_reduce_start", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return begin(comm, &call, work);
}

int gyre_broadcast(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, int root)
{
    struct call call =
        rooted(moving("gyre_broadcast", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return run(comm, &call);
}

int gyre_broadcast_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                         enum gyre_type type, int root, struct gyre_work **work)
{
    struct call call = rooted(
        moving("gyre_broadcast_start", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return begin(comm, &call, work);
}

int gyre_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, enum gyre_op op, int root)
{
    struct call call =
        rooted(reducing("gyre_reduce", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return run(comm, &call);
}

int gyre_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, enum gyre_op op, int root, struct gyre_work **work)
{
    struct call call = rooted(
        reducing("gyre_reduce_start", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return begin(comm, &call, work);
}

int gyre_all_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct call call = moving("gyre_all_gather", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return run(comm, &call);
}

int gyre_all_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct call call =
        moving("gyre_all_gather_start", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return begin(comm, &call, work);
}

static struct call unequal(struct call call, const uint64_t *counts, const uint64_t *at)
{
    call.unequal = true;
    call.shape.blocks = (struct gyre_blocks){at, counts};
    return call;
}

int gyre_all_gather_v(struct gyre_comm *comm, const void *input, void *output,
                      const uint64_t *counts, const uint64_t *at, enum gyre_type type)
{
    struct call call = unequal(
        moving("gyre_all_gather_v", GYRE_VERB_ALL_GATHER, input, output, 0, type), counts, at);
    return run(comm, &call);
}

int gyre_all_gather_v_start(struct gyre_comm *comm, const void *input, void *output,
                            const uint64_t *counts, const uint64_t *at, enum gyre_type type,
                            struct gyre_work **work)
{
    struct call call =
        unequal(moving("gyre_all_gather_v_start", GYRE_VERB_ALL_GATHER, input, output, 0, type),
                counts, at);
    return begin(comm, &call, work);
}

int gyre_reduce_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                        enum gyre_type type, enum gyre_op op)
{
    struct call call =
        reducing("gyre_reduce_scatter", GYRE_VERB_REDUCE_SCATTER, input, output, count, type, op);
    return run(comm, &call);
}

int gyre_reduce_scatter_start(struct gyre_comm *comm, const void *input, void *output,
                              uint64_t count, enum gyre_type type, enum gyre_op op,
                              struct gyre_work **work)
{
    struct call call = reducing("gyre_reduce_scatter_start", GYRE_VERB_REDUCE_SCATTER, input,
                                output, count, type, op);
    return begin(comm, &call, work);
}

int gyre_all_to_all(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct call call = moving("gyre_all_to_all", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return run(comm, &call);
}

int gyre_all_to_all_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct call call =
        moving("gyre_all_to_all_start", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return begin(comm, &call, work);
}

int gyre_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, int root)
{
    struct call call =
        rooted(moving("gyre_gather", GYRE_VERB_GATHER, input, output, count, type), root);
    return run(comm, &call);
}

int gyre_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, int root, struct gyre_work **work)
{
    struct call call =
        rooted(moving("gyre_gather_start", GYRE_VERB_GATHER, input, output, count, type), root);
    return begin(comm, &call, work);
}

int gyre_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                 enum gyre_type type, int root)
{
    struct call call =
        rooted(moving("gyre_scatter", GYRE_VERB_SCATTER, input, output, count, type), root);
    return run(comm, &call);
}

int gyre_scatter_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, int root, struct gyre_work **work)
{
    struct call call =
        rooted(moving("gyre_scatter_start", GYRE_VERB_SCATTER, input, output, count, type), root);
    return begin(comm, &call, work);
}

static struct call barrier(struct gyre_comm *comm, const char *name)
{
    struct call call = reducing(name, GYRE_VERB_ALL_REDUCE, NULL, NULL, 1, GYRE_U8, GYRE_MAX);
    call.shape.barrier = true;
    if (comm) {
        call.input = &comm->barrier_in;
        call.output = &comm->barrier_out;
    }
    return call;
}

int gyre_barrier(struct gyre_comm *comm)
{
    struct call call = barrier(comm, "gyre_barrier");
    return run(comm, &call);
}

int gyre_barrier_start(struct gyre_comm *comm, struct gyre_work **work)
{
    struct call call = barrier(comm, "gyre_barrier_start");
    return begin(comm, &call, work);
}
