/* Selection: what the communicator is and what the user wants, put as a question to choose.c. */
#include "collectives/select.h"

static struct gyre_slice whole_of(const struct gyre_shape *shape,
                                  const struct gyre_plan_options *options)
{
    return (struct gyre_slice){.verb = shape->verb,
                               .n = options->n,
                               .root = shape->root,
                               .element = (uint32_t)gyre_type_size(shape->type),
                               .count = shape->count,
                               .layout = options->layout,
                               .narrow = gyre_shape_narrow(shape),
                               .stride = shape->count,
                               .out = shape->blocks};
}

int gyre_select(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                struct gyre_choice *choice, struct gyre_trouble *trouble)
{
    const struct gyre_preference *wish = options->preference;
    bool blocks = gyre_verb_gathers(shape->verb) || gyre_verb_scatters(shape->verb);
    /* The stage holds a slice of every block, and the last slice may be twice as long. */
    uint64_t mapped_max = GYRE_STAGE_BYTES / 2 / (blocks ? options->n : 1);
    struct gyre_question question = {
        .whole = whole_of(shape, options),
        .roads = {options->near, options->far, wish ? &wish->tuning : &gyre_tuning_built_in},
        .mapped = options->mapped,
        .in_order = shape->in_order || (wish && wish->reproducible),
        .slice_max = options->mapped ? mapped_max : 0,
        .algorithm = options->algorithm,
        .slice_bytes = options->slice_bytes,
        .lanes = options->lanes};
    if (wish && !question.algorithm)
        question.algorithm = gyre_rules_find(&wish->rules, shape->verb,
                                             question.whole.count * question.whole.element);
    return gyre_choose(&question, choice, NULL, trouble);
}
