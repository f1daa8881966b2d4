/* Selection.
 *
 * On mapped memory the direct schedule always wins: the binder turns it into one pass. Over
 * messages direct has the fewest rounds and is taken while each rank can keep a flow to every
 * other; where ranks are more than a few, small data goes by recursive doubling, which sends fewer
 * messages, and where they are many, large data goes round the ring. Large operations are cut into
 * slices so that one lane reduces while another transfers. The sizes come from bench/README.md. */
#include "collectives/select.h"

#define DIRECT_RANKS_MAX    16u
#define DOUBLING_RANKS_MIN  4u
#define DOUBLING_BYTES_MAX  (64u * 1024)
#define ONE_SHOT_BYTES      (64u * 1024) /* that a rank sends in all, over messages */
#define TREE_BYTES_MAX      (32u * 1024)
#define MESSAGE_SLICE_BYTES (1024u * 1024)
#define MESSAGE_LANES       2u

static const char *name_for(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                            uint64_t bytes)
{
    if (options->mapped)
        return "direct";
    if (shape->verb == GYRE_VERB_ALL_REDUCE && options->n >= DOUBLING_RANKS_MIN &&
        bytes <= DOUBLING_BYTES_MAX)
        return "doubling";
    if (options->n <= DIRECT_RANKS_MAX)
        return "direct";
    return bytes <= TREE_BYTES_MAX ? "tree" : "ring";
}

struct gyre_choice gyre_select(const struct gyre_shape *shape,
                               const struct gyre_plan_options *options)
{
    uint64_t bytes = shape->count * gyre_type_size(shape->type);
    struct gyre_choice choice = {.algorithm = options->algorithm,
                                 .slice_bytes = options->slice_bytes,
                                 .lanes = options->lanes};
    if (!choice.algorithm)
        choice.algorithm = gyre_algorithm_find(name_for(shape, options, bytes));
    if (!choice.slice_bytes)
        choice.slice_bytes = MESSAGE_SLICE_BYTES;
    if (!choice.lanes)
        choice.lanes = MESSAGE_LANES;
    choice.small = options->mapped ? GYRE_EXCHANGE_MAX : ONE_SHOT_BYTES / (options->n - 1);
    if (options->mapped && choice.slice_bytes > GYRE_STAGE_BYTES / 2)
        choice.slice_bytes = GYRE_STAGE_BYTES / 2; /* the last slice may be twice as long */
    return choice;
}
