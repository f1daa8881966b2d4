/* An open-addressing table whose writers take turns, and whose readers take no lock.
 *
 *     slot        0      1      2      3      4      5
 *             │ free │ A    │ (B)  │ C    │ free │ …       A, B and C hash to 1; B was dropped
 *
 * A name is searched from its hash onwards up to the first free slot, so an entry stays where it
 * was put for as long as it lives. A dropped entry leaves its slot *used* but empty, because later
 * entries of its chain are found across it; the next put() of that chain takes it, and when the
 * slot behind it is free it becomes free itself.
 *
 * Each slot is a sequence lock: `version` is odd while a writer changes it. Fields are stored
 * with release and read with acquire, so whoever sees a new field sees the odd version too. A
 * reader that saw a change in between reads again; a writer never waits for readers. The table is
 * twice as large as the number of entries it accepts, which keeps chains short. */
#include "transport/memory/views.h"

#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SLOTS (2 * GYRE_VIEWS_MAX)
#define MASK  (SLOTS - 1)

_Static_assert((SLOTS & MASK) == 0, "the number of slots is a power of two");

struct slot {
    _Atomic uint32_t version;
    _Atomic bool used;
    _Atomic uint64_t name;
    _Atomic(void *) base; /* NULL: dropped */
    _Atomic uint64_t length;
    _Atomic uint32_t kind;
};

struct gyre_views {
    pthread_mutex_t lock; /* of writers */
    uint32_t count;
    struct slot slot[SLOTS];
    struct gyre_region region[SLOTS]; /* of writers, under the lock */
};

int gyre_views_create(struct gyre_views **views)
{
    *views = calloc(1, sizeof **views);
    if (*views == NULL)
        return -ENOMEM;
    pthread_mutex_init(&(*views)->lock, NULL);
    return 0;
}

static void unimport(struct gyre_region *region)
{
    const struct gyre_device *device = gyre_device_of(region->kind);
    device->unimport(region);
}

void gyre_views_destroy(struct gyre_views *views)
{
    if (views == NULL)
        return;
    for (uint32_t at = 0; at < SLOTS; at++)
        if (atomic_load(&views->slot[at].base) != NULL)
            unimport(&views->region[at]);
    free(views);
}

static uint64_t view_key(uint32_t peer, uint32_t id)
{
    return (uint64_t)peer << 32 | id;
}

static uint32_t hash_slot(uint64_t name)
{
    return (uint32_t)gyre_mix64(name) & MASK;
}

/* Nothing is there where `region` is NULL. */
static void write_slot(struct slot *slot, bool used, uint64_t name,
                       const struct gyre_region *region)
{
    uint32_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);

    atomic_store_explicit(&slot->version, version + 1, memory_order_relaxed);
    atomic_store_explicit(&slot->used, used, memory_order_release);
    atomic_store_explicit(&slot->name, name, memory_order_release);
    atomic_store_explicit(&slot->base, region ? region->base : NULL, memory_order_release);
    atomic_store_explicit(&slot->length, region ? region->length : 0, memory_order_release);
    atomic_store_explicit(&slot->kind, region ? region->kind : 0, memory_order_release);
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

struct glimpse {
    bool used;
    uint64_t name;
    void *base;
    uint64_t length;
    uint32_t kind;
};

/* What the slot held at one moment. */
static struct glimpse read_slot(const struct slot *slot)
{
    struct glimpse seen;
    uint32_t before, after;

    do {
        before = atomic_load_explicit(&slot->version, memory_order_acquire);
        seen.used = atomic_load_explicit(&slot->used, memory_order_acquire);
        seen.name = atomic_load_explicit(&slot->name, memory_order_acquire);
        seen.base = atomic_load_explicit(&slot->base, memory_order_acquire);
        seen.length = atomic_load_explicit(&slot->length, memory_order_acquire);
        seen.kind = atomic_load_explicit(&slot->kind, memory_order_acquire);
        after = atomic_load_explicit(&slot->version, memory_order_relaxed);
    } while (before != after || (before & 1) != 0);
    return seen;
}

/* The slot that holds the name; -1 if none. *room is the first slot of its chain that a put() may
 * take. */
static int seek(const struct gyre_views *views, uint64_t name, int *room)
{
    *room = -1;
    for (uint32_t step = 0, at = hash_slot(name); step < SLOTS; step++, at = (at + 1) & MASK) {
        const struct slot *slot = &views->slot[at];
        bool live = atomic_load_explicit(&slot->base, memory_order_relaxed) != NULL;

        if (live && atomic_load_explicit(&slot->name, memory_order_relaxed) == name)
            return (int)at;
        if (!live && *room < 0)
            *room = (int)at;
        if (!atomic_load_explicit(&slot->used, memory_order_relaxed))
            break;
    }
    return -1;
}

static int put_region(struct gyre_views *views, uint32_t peer, uint32_t id,
                      const struct gyre_region *region)
{
    uint64_t name = view_key(peer, id);
    int room;

    if (seek(views, name, &room) >= 0)
        return GYRE_INVALID;
    if (views->count == GYRE_VIEWS_MAX || room < 0)
        return GYRE_UNSUPPORTED;
    views->region[room] = *region;
    views->count++;
    write_slot(&views->slot[room], true, name, region);
    return 0;
}

int gyre_views_put(struct gyre_views *views, uint32_t peer, uint32_t id,
                   const struct gyre_region *region)
{
    pthread_mutex_lock(&views->lock);
    int status = put_region(views, peer, id, region);
    pthread_mutex_unlock(&views->lock);
    return status;
}

static bool is_used(const struct gyre_views *views, uint32_t at)
{
    return atomic_load_explicit(&views->slot[at & MASK].used, memory_order_relaxed);
}

static bool is_live(const struct gyre_views *views, uint32_t at)
{
    return atomic_load_explicit(&views->slot[at & MASK].base, memory_order_relaxed) != NULL;
}

/* No chain crosses a dropped slot whose successor is free; so it, and dropped ones before it,
 * become free. */
static void tidy(struct gyre_views *views, uint32_t at)
{
    while (is_used(views, at) && !is_live(views, at) && !is_used(views, at + 1)) {
        write_slot(&views->slot[at & MASK], false, 0, NULL);
        at--;
    }
}

static void take_at(struct gyre_views *views, uint32_t at, struct gyre_region *region)
{
    *region = views->region[at];
    write_slot(&views->slot[at], true,
               atomic_load_explicit(&views->slot[at].name, memory_order_relaxed), NULL);
    views->count--;
    tidy(views, at);
}

bool gyre_views_take(struct gyre_views *views, uint32_t peer, uint32_t id,
                     struct gyre_region *region)
{
    int room;

    pthread_mutex_lock(&views->lock);
    int at = seek(views, view_key(peer, id), &room);
    if (at >= 0)
        take_at(views, (uint32_t)at, region);
    pthread_mutex_unlock(&views->lock);
    return at >= 0;
}

bool gyre_views_take_any(struct gyre_views *views, enum gyre_memory_kind kind,
                         struct gyre_region *region)
{
    bool there = false;

    pthread_mutex_lock(&views->lock);
    for (uint32_t at = 0; !there && at < SLOTS; at++) {
        there = is_live(views, at) && views->region[at].kind == kind;
        if (there)
            take_at(views, at, region);
    }
    pthread_mutex_unlock(&views->lock);
    return there;
}

void *gyre_views_find(const struct gyre_views *views, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length)
{
    uint64_t name = view_key(peer, id);

    for (uint32_t step = 0, at = hash_slot(name); step < SLOTS; step++, at = (at + 1) & MASK) {
        struct glimpse seen = read_slot(&views->slot[at]);

        if (!seen.used)
            return NULL;
        if (seen.base != NULL && seen.name == name)
            return seen.kind == kind && seen.length >= length ? seen.base : NULL;
    }
    return NULL;
}
