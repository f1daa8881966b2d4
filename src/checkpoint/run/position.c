/* A sampler's position, with the order that it is a position of:
 *
 *     "sampler.epoch", "sampler.cursor"    where it stands
 *     "sampler.samples", "sampler.seed"    of which samples, in which order; compared
 *
 * Ranks have samplers of their own, which all stand at the same place. Tested by
 * tests/program/ddp/checkpoint.c. */
#include "checkpoint/run/inside.h"
#include "sampler/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCH, CURSOR, SAMPLES, SEED, PLACES };

static const char *const place_names[PLACES] = {"epoch", "cursor", "samples", "seed"};

struct bound_position {
    struct gyre_bound bound;
    char *name;
    struct gyre_sampler *sampler;
    uint64_t place[PLACES];
};

static int list_position(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_position *b = (struct bound_position *)bound;
    const struct gyre_run_form whole = {GYRE_GENERATION_TRAINING, GYRE_STORED_I64, 0, NULL};
    gyre_sampler_position(b->sampler, &b->place[EPOCH], &b->place[CURSOR]);
    gyre_sampler_order(b->sampler, &b->place[SAMPLES], &b->place[SEED]);
    for (int i = 0; i < PLACES; i++)
        gyre_run_items_add(&pass->items, whole, &b->place[i], "%s.%s", b->name, place_names[i]);
    return 0;
}

static int examine_position(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_position *b = (struct bound_position *)bound;
    const struct gyre_run_item *item = &pass->items.item[bound->first];
    uint64_t saved[PLACES];
    if (!pass->loading)
        return 0;
    for (int i = 0; i < PLACES; i++)
        memcpy(&saved[i], item[i].found, sizeof saved[i]);
    for (int i = SAMPLES; i < PLACES; i++)
        if (saved[i] != b->place[i])
            return gyre_trouble_set(
                &pass->trouble, GYRE_INVALID,
                "sampler \"%.80s\": %s is %" PRIu64 " in the checkpoint, %" PRIu64
                " here: its position would mean other samples",
                b->name, i == SEED ? "the seed" : "the number of samples", saved[i], b->place[i]);
    if (saved[CURSOR] > saved[SAMPLES])
        return gyre_trouble_set(&pass->trouble, GYRE_INVALID,
                                "sampler \"%.80s\": the checkpoint's stands at sample %" PRIu64
                                " of %" PRIu64,
                                b->name, saved[CURSOR], saved[SAMPLES]);
    return 0;
}

static int give_position(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_position *b = (struct bound_position *)bound;
    int status = gyre_broadcast(bound->comm, b->place, b->place, PLACES, GYRE_U64, 0);
    return status ? status : gyre_sampler_begin(b->sampler, b->place[EPOCH], b->place[CURSOR]);
}

static void destroy_position(struct gyre_bound *bound)
{
    free(((struct bound_position *)bound)->name);
}

int gyre_checkpoint_add_sampler(struct gyre_checkpoint *c, const char *name,
                                struct gyre_sampler *sampler)
{
    static const struct gyre_bound_kind kind = {.list = list_position,
                                                .examine = examine_position,
                                                .give = give_position,
                                                .destroy = destroy_position};
    if (!c || !name || !sampler)
        return gyre_refuse("gyre_checkpoint_add_sampler: the %s is NULL", !c      ? "checkpoint"
                                                                          : !name ? "name"
                                                                                  : "sampler");
    char *copy = strdup(name);
    struct bound_position *b = copy ? gyre_run_bind(c, &kind, sizeof *b) : NULL;
    if (!b) {
        free(copy);
        return gyre_run_no_memory("gyre_checkpoint_add_sampler");
    }
    b->name = copy;
    b->sampler = sampler;
    return 0;
}
