/* The collective calls of gyre/gyre.h: every one is its arguments in a struct.
 *
 *     gyre_broadcast(…)         ─┐                              ┌─ gyre_comm_run()
 *     gyre_broadcast_start(…)    ├─▶ struct gyre_call ─▶ check ─┼─ gyre_comm_begin() ─▶ *work
 *     gyre_broadcast_on(…)      ─┘                              └─ gyre_comm_begin_on(), by a stream
 */
#include "collectives/calls/call.h"

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_call reducing(const char *name, enum gyre_verb verb, const void *input,
                                 void *output, uint64_t count, enum gyre_type type, enum gyre_op op)
{
    return (struct gyre_call){.name = name,
                              .shape = {.verb = verb, .type = type, .op = op, .count = count},
                              .input = input,
                              .output = output};
}

static struct gyre_call moving(const char *name, enum gyre_verb verb, const void *input,
                               void *output, uint64_t count, enum gyre_type type)
{
    return reducing(name, verb, input, output, count, type, GYRE_SUM);
}

static struct gyre_call rooted(struct gyre_call call, int root)
{
    call.root = root;
    call.shape.root = (uint32_t)root;
    return call;
}

int gyre_all_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type, enum gyre_op op)
{
    struct gyre_call call =
        reducing("gyre_all_reduce", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return gyre_call_run(comm, &call);
}

int gyre_all_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, enum gyre_op op, struct gyre_work **work)
{
    struct gyre_call call =
        reducing("gyre_all_reduce_start", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return gyre_call_begin(comm, &call, work);
}

int gyre_all_reduce_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, enum gyre_op op, void *stream)
{
    struct gyre_call call =
        reducing("gyre_all_reduce_on", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_broadcast(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_broadcast", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return gyre_call_run(comm, &call);
}

int gyre_broadcast_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                         enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call = rooted(
        moving("gyre_broadcast_start", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return gyre_call_begin(comm, &call, work);
}

int gyre_broadcast_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_broadcast_on", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, enum gyre_op op, int root)
{
    struct gyre_call call =
        rooted(reducing("gyre_reduce", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return gyre_call_run(comm, &call);
}

int gyre_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, enum gyre_op op, int root, struct gyre_work **work)
{
    struct gyre_call call = rooted(
        reducing("gyre_reduce_start", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return gyre_call_begin(comm, &call, work);
}

int gyre_reduce_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, enum gyre_op op, int root, void *stream)
{
    struct gyre_call call =
        rooted(reducing("gyre_reduce_on", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_all_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct gyre_call call =
        moving("gyre_all_gather", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return gyre_call_run(comm, &call);
}

int gyre_all_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct gyre_call call =
        moving("gyre_all_gather_start", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return gyre_call_begin(comm, &call, work);
}

int gyre_all_gather_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, void *stream)
{
    struct gyre_call call =
        moving("gyre_all_gather_on", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return gyre_call_run_on(comm, &call, stream);
}

static struct gyre_call unequal(struct gyre_call call, const uint64_t *counts, const uint64_t *at)
{
    call.unequal = true;
    call.shape.blocks = (struct gyre_blocks){at, counts};
    return call;
}

int gyre_all_gather_v(struct gyre_comm *comm, const void *input, void *output,
                      const uint64_t *counts, const uint64_t *at, enum gyre_type type)
{
    struct gyre_call call = unequal(
        moving("gyre_all_gather_v", GYRE_VERB_ALL_GATHER, input, output, 0, type), counts, at);
    return gyre_call_run(comm, &call);
}

int gyre_all_gather_v_start(struct gyre_comm *comm, const void *input, void *output,
                            const uint64_t *counts, const uint64_t *at, enum gyre_type type,
                            struct gyre_work **work)
{
    struct gyre_call call =
        unequal(moving("gyre_all_gather_v_start", GYRE_VERB_ALL_GATHER, input, output, 0, type),
                counts, at);
    return gyre_call_begin(comm, &call, work);
}

int gyre_reduce_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                        enum gyre_type type, enum gyre_op op)
{
    struct gyre_call call =
        reducing("gyre_reduce_scatter", GYRE_VERB_REDUCE_SCATTER, input, output, count, type, op);
    return gyre_call_run(comm, &call);
}

int gyre_reduce_scatter_start(struct gyre_comm *comm, const void *input, void *output,
                              uint64_t count, enum gyre_type type, enum gyre_op op,
                              struct gyre_work **work)
{
    struct gyre_call call = reducing("gyre_reduce_scatter_start", GYRE_VERB_REDUCE_SCATTER, input,
                                     output, count, type, op);
    return gyre_call_begin(comm, &call, work);
}

int gyre_reduce_scatter_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                           enum gyre_type type, enum gyre_op op, void *stream)
{
    struct gyre_call call = reducing("gyre_reduce_scatter_on", GYRE_VERB_REDUCE_SCATTER, input,
                                     output, count, type, op);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_all_to_all(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct gyre_call call =
        moving("gyre_all_to_all", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return gyre_call_run(comm, &call);
}

int gyre_all_to_all_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct gyre_call call =
        moving("gyre_all_to_all_start", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return gyre_call_begin(comm, &call, work);
}

int gyre_all_to_all_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, void *stream)
{
    struct gyre_call call =
        moving("gyre_all_to_all_on", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_gather", GYRE_VERB_GATHER, input, output, count, type), root);
    return gyre_call_run(comm, &call);
}

int gyre_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call =
        rooted(moving("gyre_gather_start", GYRE_VERB_GATHER, input, output, count, type), root);
    return gyre_call_begin(comm, &call, work);
}

int gyre_gather_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_gather_on", GYRE_VERB_GATHER, input, output, count, type), root);
    return gyre_call_run_on(comm, &call, stream);
}

int gyre_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                 enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter", GYRE_VERB_SCATTER, input, output, count, type), root);
    return gyre_call_run(comm, &call);
}

int gyre_scatter_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter_start", GYRE_VERB_SCATTER, input, output, count, type), root);
    return gyre_call_begin(comm, &call, work);
}

int gyre_scatter_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter_on", GYRE_VERB_SCATTER, input, output, count, type), root);
    return gyre_call_run_on(comm, &call, stream);
}

static struct gyre_call barrier(struct gyre_comm *comm, const char *name)
{
    struct gyre_call call = reducing(name, GYRE_VERB_ALL_REDUCE, NULL, NULL, 1, GYRE_U8, GYRE_MAX);
    call.shape.barrier = true;
    if (comm) {
        call.input = &comm->barrier_in;
        call.output = &comm->barrier_out;
    }
    return call;
}

int gyre_barrier(struct gyre_comm *comm)
{
    struct gyre_call call = barrier(comm, "gyre_barrier");
    return gyre_call_run(comm, &call);
}

int gyre_barrier_start(struct gyre_comm *comm, struct gyre_work **work)
{
    struct gyre_call call = barrier(comm, "gyre_barrier_start");
    return gyre_call_begin(comm, &call, work);
}
