/* The cost model's time for an operation that is not started: a plan's question, asked for its
 * price. Tested by tests/program/collectives/comm.c. */
#include "collectives/comm/communicator.h"
#include "collectives/plan/question.h"

#include "base/size.h"

#define PS_PER_NS 1000u

int gyre_all_reduce_cost(const struct gyre_comm *comm, uint64_t count, enum gyre_type type,
                         uint64_t *nanoseconds)
{
    struct gyre_choice choice;
    uint64_t bytes;
    struct gyre_shape shape = {
        .verb = GYRE_VERB_ALL_REDUCE, .type = type, .op = GYRE_SUM, .count = count};
    if (!comm || !nanoseconds)
        return gyre_refuse("gyre_all_reduce_cost: %s is NULL",
                           comm ? "the place for the time" : "the communicator");
    if (!gyre_type_size(type))
        return gyre_refuse("gyre_all_reduce_cost: type %d is unknown", (int)type);
    if (!gyre_mul_u64(count, gyre_type_size(type), &bytes) || bytes > INT64_MAX)
        return gyre_refuse("gyre_all_reduce_cost: %llu elements of %zu bytes are more than memory "
                           "can hold",
                           (unsigned long long)count, gyre_type_size(type));
    *nanoseconds = 0;
    if (!comm->engine || !count)
        return 0;
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    int status = gyre_select_priced(&shape, &comm->engine->planning, &choice, trouble);
    if (!status)
        *nanoseconds = choice.cost_ps / PS_PER_NS;
    return status;
}
