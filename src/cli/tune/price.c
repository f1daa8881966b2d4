/* gyre tune: what was timed, told as trials of the model, and the prices that explain them. Tested
 * by tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

#include "collectives/algorithms/table.h"
#include "collectives/choose/choose.h"
#include "collectives/choose/fit.h"

#include <string.h>

/* The operation as the communicator ran it; false where the trial says nothing. */
static bool describe_trial(const struct gyre_tune_scene *scene, int t, struct gyre_trial *trial)
{
    const struct gyre_tune_trial *timed = scene->trial[t];
    bool direct = !strcmp(timed->algorithm, "direct"), fused = scene->mapped && direct;
    struct gyre_question question = {
        .whole = {.n = scene->n, .element = 4, .count = timed->bytes / 4, .layout = scene->layout},
        .link_kinds = {GYRE_LINK_SHM, scene->far, &gyre_tuning_built_in},
        .mapped = scene->mapped,
        .algorithm = gyre_algorithm_find(timed->algorithm),
        .slice_bytes = UINT64_C(64) << 20,
        .lanes = 1};
    struct gyre_choice choice;
    question.whole.stride = question.whole.count;
    if ((scene->mapped && !direct && scene->n == 2) || gyre_choose(&question, &choice, NULL, NULL))
        return false;
    *trial = (struct gyre_trial){.algorithm = question.algorithm,
                                 .slice = question.whole,
                                 .near = fused ? GYRE_LINK_MAPPED : GYRE_LINK_SHM,
                                 .far = fused           ? GYRE_LINK_MAPPED
                                        : scene->layout ? scene->far
                                                        : GYRE_LINK_SHM,
                                 .took_ns = scene->took_ns[t]};
    if (scene->layout && scene->layout->nodes == scene->n)
        trial->near = trial->far; /* nobody is near */
    trial->slice.small = choice.small;
    return true;
}

int gyre_tune_price(const struct gyre_tune_scene *scene, struct gyre_measured *measured)
{
    struct gyre_trial trial[GYRE_TUNE_TRIALS_MAX];
    uint32_t trials = 0;
    for (int t = 0; t < scene->trials; t++)
        trials += describe_trial(scene, t, &trial[trials]);
    measured->tuning = gyre_tuning_built_in;
    measured->error_percent = gyre_fit(trial, trials, &measured->tuning, &measured->kinds);
    return measured->error_percent < 0 ? measured->error_percent : 0;
}
