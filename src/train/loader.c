/* The loader: a ring of slots, filled by whoever asks for a batch, or by a thread ahead of that.
 *
 * The thread owns sampler and free slots; the caller owns the slot it was given last. One lock, one
 * condition for both sides. A new position stops the thread between two batches, empties the ring
 * and lets it go on. */
#include "train/loader.h"

#include "base/machine/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct loader_slot {
    struct gyre_batch batch;
    uint64_t *index;
    float *x;
    void *y;
    int status; /* GYRE_AGAIN: the end of the epoch; a failure */
};

struct gyre_loader {
    const struct gyre_dataset *set;
    struct gyre_sampler *sampler;
    uint64_t span, room;
    int slots;
    bool bare; /* batches have no x */
    struct loader_slot *slot;
    struct gyre_trouble trouble; /* of the sampler, by whoever fills */

    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t filled, taken; /* batches of this epoch; under lock */
    bool holding, paused, idle, stop;
};

/* -- filling ----------------------------------------------------------------------------------- */

static void fill_slot(struct gyre_loader *loader, struct loader_slot *slot)
{
    struct gyre_batch *batch = &slot->batch;
    float *x = loader->bare ? NULL : slot->x;
    *batch = (struct gyre_batch){.index = slot->index, .x = x, .y = slot->y};
    slot->status = gyre_sampler_left(loader->sampler) ? 0 : GYRE_AGAIN;
    if (slot->status)
        return;
    slot->status = gyre_sampler_next(loader->sampler, loader->span, slot->index, loader->room,
                                     &batch->samples);
    gyre_sampler_position(loader->sampler, &batch->epoch, &batch->cursor);
    batch->last = !gyre_sampler_left(loader->sampler);
    if (slot->status)
        gyre_trouble_set(&loader->trouble, slot->status, "%s", gyre_error(NULL));
    else
        gyre_dataset_gather(loader->set, slot->index, batch->samples, x, slot->y);
}

/* Is there a slot that nobody needs, and something to put into it? Locked. */
static bool may_fill(const struct gyre_loader *loader)
{
    uint64_t used = loader->filled - loader->taken + loader->holding;
    const struct loader_slot *last = &loader->slot[(loader->filled - 1) % (uint64_t)loader->slots];
    bool ended = loader->filled && last->status;
    return !loader->paused && !ended && used < (uint64_t)loader->slots;
}

static void *run_loader(void *argument)
{
    struct gyre_loader *loader = argument;
    pthread_setname_np(pthread_self(), "gyre-loader");
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (!may_fill(loader)) {
            loader->idle = true;
            pthread_cond_broadcast(&loader->moved);
            pthread_cond_wait(&loader->moved, &loader->lock);
            continue;
        }
        loader->idle = false;
        struct loader_slot *slot = &loader->slot[loader->filled % (uint64_t)loader->slots];
        pthread_mutex_unlock(&loader->lock);
        fill_slot(loader, slot);
        pthread_mutex_lock(&loader->lock);
        loader->filled++;
        pthread_cond_broadcast(&loader->moved);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* -- made and ended ---------------------------------------------------------------------------- */

static int allocate_loader(struct gyre_loader *loader)
{
    const struct gyre_dataset *set = loader->set;
    size_t wanted = set->label ? sizeof(int64_t) : set->width * sizeof(float);
    loader->slot = calloc((size_t)loader->slots, sizeof *loader->slot);
    for (int i = 0; loader->slot && i < loader->slots; i++) {
        struct loader_slot *slot = &loader->slot[i];
        slot->index = calloc(loader->room, sizeof *slot->index);
        slot->x = calloc(loader->room, set->features * sizeof *slot->x);
        slot->y = calloc(loader->room, wanted);
        if (!slot->index || !slot->x || !slot->y)
            return -ENOMEM;
    }
    return loader->slot ? 0 : -ENOMEM;
}

static int start_loader(struct gyre_loader *loader)
{
    int status = gyre_thread_start(&loader->thread, run_loader, loader);
    loader->threaded = !status;
    return status;
}

int gyre_loader_create(struct gyre_loader **into, const struct gyre_dataset *set,
                       struct gyre_sampler *sampler, uint64_t span, uint64_t room, int ahead,
                       struct gyre_trouble *trouble)
{
    struct gyre_loader *loader = calloc(1, sizeof *loader);
    *into = NULL;
    if (!loader)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for batches");
    loader->set = set;
    loader->sampler = sampler;
    loader->span = span;
    loader->room = room;
    loader->slots = 1 + ahead;
    loader->paused = true;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->moved, NULL);
    int status = allocate_loader(loader);
    if (!status && ahead)
        status = start_loader(loader);
    if (status) {
        gyre_loader_destroy(loader);
        return gyre_trouble_set(trouble, status,
                                "batches of %llu samples: no memory, or no thread, for %d of them",
                                (unsigned long long)room, 1 + ahead);
    }
    *into = loader;
    return 0;
}

void gyre_loader_destroy(struct gyre_loader *loader)
{
    if (!loader)
        return;
    if (loader->threaded) {
        pthread_mutex_lock(&loader->lock);
        loader->stop = true;
        pthread_cond_broadcast(&loader->moved);
        pthread_mutex_unlock(&loader->lock);
        pthread_join(loader->thread, NULL);
    }
    for (int i = 0; loader->slot && i < loader->slots; i++) {
        free(loader->slot[i].index);
        free(loader->slot[i].x);
        free(loader->slot[i].y);
    }
    free(loader->slot);
    pthread_cond_destroy(&loader->moved);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

void gyre_loader_leave_rows(struct gyre_loader *loader)
{
    loader->bare = true;
}

/* -- use --------------------------------------------------------------------------------------- */

int gyre_loader_begin(struct gyre_loader *loader, uint64_t epoch, uint64_t cursor,
                      struct gyre_trouble *trouble)
{
    pthread_mutex_lock(&loader->lock);
    loader->paused = true;
    while (loader->threaded && !loader->idle)
        pthread_cond_wait(&loader->moved, &loader->lock);
    loader->filled = loader->taken = 0;
    loader->holding = false;
    loader->trouble = (struct gyre_trouble){0};
    int status = gyre_sampler_begin(loader->sampler, epoch, cursor);
    loader->paused = status != 0;
    loader->idle = false;
    pthread_cond_broadcast(&loader->moved);
    pthread_mutex_unlock(&loader->lock);
    return status ? gyre_trouble_set(trouble, status, "%s", gyre_error(NULL)) : 0;
}

int gyre_loader_look_ahead(struct gyre_loader *loader, struct gyre_batch *batch)
{
    if (!loader->threaded)
        return GYRE_AGAIN;
    pthread_mutex_lock(&loader->lock);
    while (loader->filled == loader->taken && !loader->paused)
        pthread_cond_wait(&loader->moved, &loader->lock);
    const struct loader_slot *slot = &loader->slot[loader->taken % (uint64_t)loader->slots];
    int status = loader->paused || slot->status ? GYRE_AGAIN : 0;
    *batch = slot->batch;
    pthread_mutex_unlock(&loader->lock);
    return status;
}

int gyre_loader_next(struct gyre_loader *loader, struct gyre_batch *batch,
                     struct gyre_trouble *trouble)
{
    pthread_mutex_lock(&loader->lock);
    loader->holding = false;
    if (!loader->threaded) {
        fill_slot(loader, &loader->slot[0]);
        loader->taken = loader->filled++;
    }
    pthread_cond_broadcast(&loader->moved);
    while (loader->filled == loader->taken)
        pthread_cond_wait(&loader->moved, &loader->lock);
    struct loader_slot *slot = &loader->slot[loader->taken % (uint64_t)loader->slots];
    *batch = slot->batch;
    int status = slot->status;
    if (!status) {
        loader->taken++;
        loader->holding = true;
    }
    pthread_mutex_unlock(&loader->lock);
    return status < 0 ? gyre_trouble_set(trouble, status, "%s", loader->trouble.text) : status;
}
