/* Selection.
 *
 * On mapped memory the direct schedule always wins: the binder turns it into one pass. Over
 * messages the direct schedule has the fewest rounds and is taken while each rank can keep a flow
 * to every other; beyond that a ring for bandwidth and a tree for latency. Large operations are cut
 * into slices so that one lane reduces while another transfers; the sizes come from
 * bench/README.md. */
#include "collectives/select.h"

#define DIRECT_RANKS_MAX    16u
#define TREE_BYTES_MAX      (32u * 1024)
#define MESSAGE_SLICE_BYTES (2048u * 1024)
#define MESSAGE_LANES       4u

static const struct gyre_algorithm *algorithm_for(const struct gyre_shape *shape, uint32_t n,
                                                  uint64_t bytes)
{
    if (n <= DIRECT_RANKS_MAX)
        return gyre_algorithm_find("direct");
    return gyre_algorithm_find(bytes <= TREE_BYTES_MAX ? "tree" : "ring");
}

struct gyre_choice gyre_select(const struct gyre_shape *shape,
                               const struct gyre_plan_options *options)
{
    uint64_t bytes = shape->count * gyre_type_size(shape->type);
    struct gyre_choice choice = {options->algorithm ? options->algorithm
                                                    : algorithm_for(shape, options->n, bytes),
                                 options->slice_bytes, options->lanes};
    if (!choice.slice_bytes)
        choice.slice_bytes = MESSAGE_SLICE_BYTES;
    if (options->mapped &&
        choice.slice_bytes > GYRE_STAGE_BYTES / 2) /* the last slice may be twice as long */
        choice.slice_bytes = GYRE_STAGE_BYTES / 2;
    if (!choice.lanes)
        choice.lanes = MESSAGE_LANES;
    return choice;
}
