/* Selection: asks collectives/choose/choose.c, with the communicator's properties and the user's
 * preferences.
 *
 * Tested by tests/unit/collectives/plan/plan_test.c. */
#include "collectives/plan/question.h"

static struct gyre_slice whole_of(const struct gyre_shape *shape,
                                  const struct gyre_plan_options *options)
{
    return (struct gyre_slice){.verb = shape->verb,
                               .n = options->n,
                               .root = shape->root,
                               .element = (uint32_t)gyre_type_size(shape->type),
                               .count = shape->count,
                               .layout = options->layout,
                               .rounds_partials = gyre_shape_rounds_partials(shape),
                               .stride = shape->count,
                               .out = shape->blocks};
}

static struct gyre_question question_of(const struct gyre_shape *shape,
                                        const struct gyre_plan_options *options)
{
    const struct gyre_preference *wish = options->preference;
    struct gyre_question question = {
        .whole = whole_of(shape, options),
        .link_kinds = {options->near, options->far, wish ? &wish->tuning : &gyre_tuning_built_in},
        .mapped = options->mapped,
        .in_order = shape->in_order || (wish && wish->reproducible),
        .algorithm = options->algorithm,
        .slice_bytes = options->slice_bytes,
        .lanes = options->lanes,
        .work_most = GYRE_CHOOSE_WORK};
    if (wish && !question.algorithm)
        question.algorithm = gyre_rules_find(&wish->rules, &question.whole, question.in_order);
    return question;
}

int gyre_select(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                struct gyre_choice *choice, struct gyre_trouble *trouble)
{
    struct gyre_question question = question_of(shape, options);
    return gyre_choose(&question, choice, NULL, trouble);
}

int gyre_select_priced(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                       struct gyre_choice *choice, struct gyre_trouble *trouble)
{
    struct gyre_question question = question_of(shape, options);
    struct gyre_choice second; /* asked for, so that the chooser computes prices */
    return gyre_choose(&question, choice, &second, trouble);
}
