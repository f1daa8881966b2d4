/* Converts from one type to another, beside the operations: data with an f32 master travel in half
 * the bytes.
 *
 *     the stream   backward ─▶ convert ─▶ all_reduce_on, in bf16 ─▶ convert ─▶ update
 *                     f32 ────▶ bf16          sums in f32       bf16 ─▶ f32
 *
 * No other rank takes part, so the books do not know the call, and a refused call keeps no rank
 * waiting. In a stream's order the conversion is a kernel on that stream.
 *
 * Tested by tests/program/cuda/convert.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/progress.h"
#include "collectives/kernels/reduce_cuda.h"

struct conversion {
    const char *call;
    const void *from;
    void *to;
    enum gyre_type from_type, to_type;
    uint64_t count;
};

/* -- checks ------------------------------------------------------------------------------------ */

static int check_conversion_words(const struct conversion *convert)
{
    uint64_t longest = gyre_type_size(GYRE_F32);
    if (!gyre_cast(convert->from_type, convert->to_type))
        return gyre_refuse(
            "%s: there is no way from type %d to type %d: f32 becomes bf16 or f16, and "
            "these f32",
            convert->call, (int)convert->from_type, (int)convert->to_type);
    if (convert->count > UINTPTR_MAX / longest)
        return gyre_refuse("%s: %llu elements are more than memory can hold", convert->call,
                           (unsigned long long)convert->count);
    if (convert->count && (!convert->from || !convert->to))
        return gyre_refuse("%s: a buffer is NULL, with %llu elements", convert->call,
                           (unsigned long long)convert->count);
    if (gyre_buffers_overlap(
            (uintptr_t)convert->from, convert->count * gyre_type_size(convert->from_type),
            (uintptr_t)convert->to, convert->count * gyre_type_size(convert->to_type)))
        return gyre_refuse("%s: the buffers overlap; they must be apart", convert->call);
    return 0;
}

static int check_conversion(struct gyre_comm *comm, const struct conversion *convert,
                            enum gyre_memory_kind *kind)
{
    enum gyre_memory_kind to_kind;
    int status = gyre_comm_check(comm, convert->call);
    if (!status)
        status = check_conversion_words(convert);
    if (status || !convert->count)
        return status;
    status = gyre_comm_admit(comm, convert->call, convert->from, kind);
    if (!status)
        status = gyre_comm_admit(comm, convert->call, convert->to, &to_kind);
    if (!status && *kind != to_kind)
        return gyre_refuse(
            "%s: %s is the host's memory and the other buffer a device's; both must be "
            "of one kind",
            convert->call, *kind == GYRE_MEMORY_HOST ? "the source" : "the result");
    return status;
}

static int check_stream(const struct conversion *convert, enum gyre_memory_kind kind,
                        const void *stream)
{
    if (gyre_comm_check_stream(convert->call, stream))
        return GYRE_INVALID;
    if (convert->count && kind == GYRE_MEMORY_HOST)
        return gyre_refuse("%s: the buffers are the host's memory, which no stream reaches in its "
                           "order; give a device's",
                           convert->call);
    return 0;
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_fold_task task_of(const struct conversion *convert)
{
    return (struct gyre_fold_task){.destination = &convert->to,
                                   .source = &convert->from,
                                   .destinations = 1,
                                   .sources = 1,
                                   .count = convert->count};
}

static int run_away(struct gyre_comm *comm, const struct conversion *convert)
{
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    const struct gyre_fold_task task = task_of(convert);
    gyre_fold cast = gyre_cast_cuda(convert->from_type, convert->to_type);
    gyre_domain_enter(comm->domain);
    int status = gyre_fold_queue_open(fold_queue, gyre_thread_trouble());
    if (!status)
        status = gyre_fold_queue_await(fold_queue, gyre_fold_queue_fold(fold_queue, cast, &task));
    if (status)
        gyre_trouble_set(gyre_thread_trouble(), status, "%s", fold_queue->trouble.text);
    gyre_domain_leave(comm->domain);
    return status;
}

int gyre_convert(struct gyre_comm *comm, const void *from, enum gyre_type from_type, void *to,
                 enum gyre_type to_type, uint64_t count)
{
    const struct conversion convert = {"gyre_convert", from, to, from_type, to_type, count};
    enum gyre_memory_kind kind;
    gyre_thread_trouble()->status = 0; /* of an earlier call */
    int status = check_conversion(comm, &convert, &kind);
    if (status || !count)
        return status;
    if (kind != GYRE_MEMORY_HOST)
        return run_away(comm, &convert);
    const struct gyre_fold_task task = task_of(&convert);
    gyre_cast(from_type, to_type)(&task, NULL);
    return 0;
}

int gyre_convert_on(struct gyre_comm *comm, const void *from, enum gyre_type from_type, void *to,
                    enum gyre_type to_type, uint64_t count, void *stream)
{
    const struct conversion convert = {"gyre_convert_on", from, to, from_type, to_type, count};
    enum gyre_memory_kind kind = GYRE_MEMORY_HOST;
    gyre_thread_trouble()->status = 0;
    int status = check_conversion(comm, &convert, &kind);
    if (!status)
        status = check_stream(&convert, kind, stream);
    if (status || !count)
        return status;
    const struct gyre_fold_task task = task_of(&convert);
    gyre_domain_enter(comm->domain);
    status =
        gyre_fold_queue_fold_on(&comm->progress->fold_queue, stream,
                                gyre_cast_cuda(from_type, to_type), &task, gyre_thread_trouble());
    gyre_domain_leave(comm->domain);
    return status;
}
