/* Handles of started work.
 *
 *   handle    [ generation 28 | place 20 | communicator 16 ]     a number in a pointer's clothes
 *                                │              │
 *   tables    1: ─  2: ─  3: ────┼──────────────┘
 *                                ▼
 *   table 3   [ started | started | started | … ]    grows by chunks that never move
 *
 * A handle is looked up, never followed. So a spent handle, or one of a communicator that has
 * ended, is recognised, whatever has been started since. Places are given out in turn, the one that
 * has been free for longest first. Each time a place is given, its next handle gets another
 * generation. So a number returns only after a place, one of at least 64, was used 2^28 times.
 *
 * An operation that has ended holds one of the engine's GYRE_OPS_MAX places until its handle is
 * waited for. When the engine has none left, results.c takes the places back: the handles keep the
 * status.
 *
 * Tested by tests/program/collectives/handles.c. */
#include "collectives/comm/handles.h"

#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define NUMBER_BITS     16
#define PLACE_BITS      20
#define GENERATION_BITS 28
#define CHUNK           64u
#define PLACES_MAX      (1u << PLACE_BITS)
#define TABLES          (1u << NUMBER_BITS)

_Static_assert(NUMBER_BITS + PLACE_BITS + GENERATION_BITS == 8 * sizeof(uintptr_t),
               "a handle is a number in a pointer of 64 bits");

/* -- communicators by number ------------------------------------------------------------------- */

/* By number; entry 0 stays empty, so no handle is NULL. */
static _Atomic(struct gyre_work_table *) table[TABLES];
static pthread_mutex_t numbering = PTHREAD_MUTEX_INITIALIZER;
/* The number given last; the next one has been free for longest. */
static uint32_t numbered;
static _Atomic uint64_t chunks_made; /* generations begin differently in each */

static int take_number(struct gyre_work_table *work)
{
    pthread_mutex_lock(&numbering);
    for (uint32_t i = 0; i < TABLES && !work->number; i++) {
        numbered = (numbered + 1) % TABLES;
        if (numbered && !atomic_load(&table[numbered]))
            work->number = numbered;
    }
    if (work->number)
        atomic_store(&table[work->number], work);
    pthread_mutex_unlock(&numbering);
    return work->number ? 0 : -ENOMEM;
}

/* -- a table ----------------------------------------------------------------------------------- */

struct gyre_started *gyre_work_at(const struct gyre_work_table *work, uint32_t place)
{
    return &work->chunk[place / CHUNK][place % CHUNK];
}

/* Puts a place at the end of the free list. */
static void put_started(struct gyre_work_table *work, struct gyre_started *started)
{
    started->next = NULL;
    if (work->first)
        work->last->next = started;
    else
        work->first = started;
    work->last = started;
}

static int grow_table(struct gyre_work_table *work)
{
    uint32_t chunks = work->places / CHUNK;
    uint32_t first = (uint32_t)gyre_mix64(atomic_fetch_add(&chunks_made, 1));
    void *more = realloc(work->chunk, (chunks + 1) * sizeof(*work->chunk));
    if (!more)
        return -ENOMEM;
    work->chunk = more;
    work->chunk[chunks] = calloc(CHUNK, sizeof(**work->chunk));
    if (!work->chunk[chunks])
        return -ENOMEM;
    for (uint32_t i = 0; i < CHUNK; i++) {
        struct gyre_started *started = &work->chunk[chunks][i];
        started->place = work->places++;
        started->generation = first;
        put_started(work, started);
    }
    return 0;
}

int gyre_work_init(struct gyre_work_table *work, struct gyre_comm *comm,
                   struct gyre_trouble *trouble)
{
    work->comm = comm;
    int status = take_number(work);
    if (!status)
        status = grow_table(work);
    return status ? gyre_trouble_set(trouble, status, "no memory for the handles of a communicator")
                  : 0;
}

void gyre_work_deinit(struct gyre_work_table *work)
{
    for (uint32_t place = 0; place < work->places; place++) {
        free(gyre_work_at(work, place)->buffer);
        free(gyre_work_at(work, place)->story);
    }
    for (uint32_t chunk = 0; chunk < work->places / CHUNK; chunk++)
        free(work->chunk[chunk]);
    free(work->chunk);
    if (work->number)
        atomic_store(&table[work->number], NULL);
    *work = (struct gyre_work_table){0};
}

static struct gyre_work *name(const struct gyre_work_table *work,
                              const struct gyre_started *started)
{
    uint64_t number = (uint64_t)started->generation << (PLACE_BITS + NUMBER_BITS) |
                      (uint64_t)started->place << NUMBER_BITS | work->number;
    return (struct gyre_work *)(uintptr_t)number;
}

static int refuse_more(const struct gyre_work_table *work, int status)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    return gyre_trouble_set(trouble, status,
                            "no room for another handle; %u are started and not waited for: "
                            "gyre_work_wait() for some first",
                            work->places);
}

int gyre_work_new(struct gyre_work_table *work, struct gyre_started **out)
{
    if (!work->first && work->places == PLACES_MAX)
        return refuse_more(work, GYRE_INVALID);
    if (!work->first && grow_table(work))
        return refuse_more(work, -ENOMEM);
    struct gyre_started *started = work->first;
    work->first = started->next;
    *started = (struct gyre_started){
        .comm = work->comm, .place = started->place, .generation = started->generation + 1};
    started->handle = name(work, started);
    *out = started;
    return 0;
}

void gyre_work_free(struct gyre_work_table *work, struct gyre_started *started)
{
    free(started->story);
    started->story = NULL;
    started->buffer = NULL;
    started->handle = NULL;
    put_started(work, started);
}

struct gyre_comm *gyre_work_comm(const struct gyre_work *handle)
{
    const struct gyre_work_table *work = atomic_load(&table[(uintptr_t)handle % TABLES]);
    return work ? work->comm : NULL;
}

struct gyre_started *gyre_work_find(const struct gyre_work_table *work,
                                    const struct gyre_work *handle)
{
    uint32_t place = (uint32_t)((uintptr_t)handle >> NUMBER_BITS) % PLACES_MAX;
    if (place >= work->places)
        return NULL;
    struct gyre_started *started = gyre_work_at(work, place);
    return started->handle == handle ? started : NULL;
}
