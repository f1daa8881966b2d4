/* The trials of gyre tune: each of three algorithms at some sizes. The largest of these is timed
 * over sockets only: between machines queues and bursts hide a wire's speed from shorter ones.
 * Sizes of one algorithm stand together, because the rules of GYRE_ALGO hold 255 bytes.
 *
 * Inside a machine direct has sizes that caches hold and sizes that outgrow them; on mapped memory
 * also some that travel in entry lines. Tested by tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

#include "base/machine/cpu.h"

#define CACHES_MOST 8 /* the buffers of all ranks together, in caches */

const struct gyre_tune_trial gyre_tune_trial[] = {
    {"direct", 8, GYRE_TUNE_MAPPED},
    {"doubling", 24, GYRE_TUNE_EVERYWHERE},
    {"ring", 72, GYRE_TUNE_EVERYWHERE},
    {"direct", 136, GYRE_TUNE_EVERYWHERE},
    {"direct", 1536, GYRE_TUNE_MAPPED},
    {"direct", 3072, GYRE_TUNE_MAPPED},
    {"doubling", 4096, GYRE_TUNE_EVERYWHERE},
    {"ring", 4160, GYRE_TUNE_EVERYWHERE},
    {"direct", 4224, GYRE_TUNE_EVERYWHERE},
    {"direct", 12 << 10, GYRE_TUNE_MAPPED},
    {"doubling", 32 << 10, GYRE_TUNE_EVERYWHERE},
    {"ring", (32 << 10) + 64, GYRE_TUNE_EVERYWHERE},
    {"direct", (32 << 10) + 128, GYRE_TUNE_EVERYWHERE},
    {"direct", 96 << 10, GYRE_TUNE_MAPPED},
    {"doubling", 256 << 10, GYRE_TUNE_EVERYWHERE},
    {"ring", (256 << 10) + 64, GYRE_TUNE_EVERYWHERE},
    {"direct", (256 << 10) + 128, GYRE_TUNE_EVERYWHERE},
    {"direct", 448 << 10, GYRE_TUNE_MAPPED},
    {"direct", 768 << 10, GYRE_TUNE_MAPPED},
    {"direct", 1536 << 10, GYRE_TUNE_MAPPED},
    {"doubling", 2 << 20, GYRE_TUNE_SOCKETS},
    {"ring", (2 << 20) + 64, GYRE_TUNE_SOCKETS},
    {"direct", (2 << 20) + 128, GYRE_TUNE_SOCKETS},
    {"direct", 3 << 20, GYRE_TUNE_MAPPED},
    {"direct", 6 << 20, GYRE_TUNE_MAPPED},
    {"direct", 10 << 20, GYRE_TUNE_LONG},
    {"direct", 32 << 20, GYRE_TUNE_LONG},
    {"direct", 96 << 20, GYRE_TUNE_MAPPED},
    {NULL, 0, GYRE_TUNE_EVERYWHERE},
};

_Static_assert(sizeof gyre_tune_trial / sizeof *gyre_tune_trial <= GYRE_TUNE_TRIALS_MAX + 1,
               "a scene holds every trial");

static unsigned scene_place(const struct gyre_tune_scene *scene)
{
    if (scene->mapped)
        return GYRE_TUNE_MAPPED;
    if (!scene->layout)
        return GYRE_TUNE_RINGS;
    return scene->far == GYRE_LINK_NETWORK ? GYRE_TUNE_FAR : GYRE_TUNE_LOOPBACK;
}

/* Says whether the scene times the trial. Trials of every scene need little memory. */
static bool is_timed(const struct gyre_tune_scene *scene, const struct gyre_tune_trial *trial)
{
    bool fits = 2 * scene->n * trial->bytes <= CACHES_MOST * gyre_cpu_cache_bytes();
    return trial->places & scene_place(scene) &&
           (trial->places == GYRE_TUNE_EVERYWHERE || fits || scene->far == GYRE_LINK_NETWORK);
}

void gyre_tune_list(struct gyre_tune_scene *scene)
{
    scene->trials = 0;
    for (const struct gyre_tune_trial *trial = gyre_tune_trial; trial->algorithm; trial++)
        if (is_timed(scene, trial))
            scene->trial[scene->trials++] = trial;
}
