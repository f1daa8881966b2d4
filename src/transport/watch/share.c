/* Shares regions of this process inside its node. import.c has the peers' side.
 *
 *     share(id) ── SHARE id, length, fd ──▶ each peer's watch imports the region, keeps it under
 *        ⋮                                  (peer, id) in its views, and answers
 *     returns ◀─── REPLY id, status ─────── when all have answered; one refusal withdraws the
 *                                           region everywhere
 *
 * The peers' threads answer at once whatever their ranks compute, so share() takes a fraction of a
 * millisecond and no other rank has to call anything. A peer that is gone or has said goodbye
 * counts as having answered, because it will not read the region. If its end is a failure, health
 * says so.
 *
 * A region of CUDA memory is mapped on the peer's own device. A peer in this process gets the
 * address and needs no descriptor, which the driver might refuse to open in the process that made
 * it. The UNSHARE of CUDA memory is answered too, and unshare() waits for the answer: freeing
 * memory that others have open is an error to the driver. A reply also says that the device of a
 * peer in this process cannot map the region but copies it.
 *
 * Tested by tests/program/watch/share.c. */
#include "transport/watch/inside.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTS_MAX  4096
#define ANSWER_EXTRA (5 * GYRE_SECOND) /* beyond the dead time: a peer may still be starting */
#define MOMENT       (250 * GYRE_MS)

struct gyre_watch_export {
    struct gyre_watch_export *next;
    uint32_t id, waiting;
    enum gyre_memory_kind kind;
    bool copied; /* a peer that cannot map the region copies it */
    struct gyre_trouble refusal;
    bool *owes;   /* per link: an answer is due */
    bool *agreed; /* per link: the peer has mapped the region */
};

static struct gyre_watch_export **find_export(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_export **at = &watch->exports;

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void free_export(struct gyre_watch_export *export)
{
    free(export->owes);
    free(export);
}

static struct gyre_watch_export *add_export(struct gyre_watch *watch, uint32_t id,
                                            enum gyre_memory_kind kind)
{
    struct gyre_watch_export *export = calloc(1, sizeof *export);

    if (export == NULL || (export->owes = calloc(watch->links, 2 * sizeof *export->owes)) == NULL) {
        free(export);
        return NULL;
    }
    export->agreed = export->owes + watch->links;
    export->id = id;
    export->kind = kind;
    export->next = watch->exports;
    watch->exports = export;
    watch->export_count++;
    return export;
}

static void remove_export(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_export **at = find_export(watch, id), *export = *at;

    if (export == NULL)
        return;
    *at = export->next;
    watch->export_count--;
    free_export(export);
}

void gyre_watch_drop_exports(struct gyre_watch *watch)
{
    while (watch->exports != NULL)
        remove_export(watch, watch->exports->id);
}

/* -- offering ---------------------------------------------------------------------------------- */

/* Whether the peer is a rank of this process. */
static bool peer_is_here(const struct gyre_watch *watch, uint32_t link)
{
    return gyre_job_here(watch->is.job, gyre_detector_peer(watch->detector, link));
}

/* Asks a peer, which then owes an answer. */
static void ask_peer(struct gyre_watch *watch, struct gyre_watch_export *export, uint32_t link,
                     const struct gyre_watch_message *message, int pass)
{
    if (!gyre_watch_link_answers(watch, link))
        return;
    export->waiting += !export->owes[link];
    export->owes[link] = true;
    gyre_watch_post(watch, link, message, pass);
}

static void offer_export(struct gyre_watch *watch, struct gyre_watch_export *export,
                         const struct gyre_region *region, uint8_t flags)
{
    struct gyre_watch_message message = {
        .kind = GYRE_WATCH_SHARE,
        .flags = (uint8_t)(flags | (region->kind == GYRE_MEMORY_CUDA ? GYRE_WATCH_CUDA : 0)),
        .id = export->id,
        .region_length = region->length,
    };
    struct gyre_watch_message inside = message;
    uint8_t address[GYRE_WATCH_ADDRESS_BYTES];

    gyre_put64(address, (uint64_t)(uintptr_t)region->base);
    inside.payload = address;
    inside.payload_bytes = sizeof address;
    for (uint32_t i = 0; i < watch->links; i++)
        if (region->kind == GYRE_MEMORY_CUDA && peer_is_here(watch, i))
            ask_peer(watch, export, i, &inside, -1);
        else
            ask_peer(watch, export, i, &message, region->fd);
}

static void withdraw(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_message message = {.kind = GYRE_WATCH_UNSHARE, .id = id};

    remove_export(watch, id);
    for (uint32_t i = 0; i < watch->links; i++)
        if (watch->link[i].node && !watch->link[i].broken)
            gyre_watch_post(watch, i, &message, -1);
}

static int check_health(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    int status = atomic_load_explicit(&watch->is.health->status, memory_order_acquire);

    if (status != 0)
        gyre_trouble_set(trouble, status, "%s", watch->is.health->failure.text);
    return status;
}

/* How long answers may take: before that a peer that cannot answer is found dead. */
static uint64_t answer_time(const struct gyre_watch *watch)
{
    uint64_t wait_ms =
        (uint64_t)(watch->is.dead_time_ms > 0 ? watch->is.dead_time_ms : watch->is.timeout_ms);
    return wait_ms * GYRE_MS + ANSWER_EXTRA;
}

/* Sleeps for at most a moment. Returns the time, but no more than that moment: if it was longer,
 * the whole job may have been stopped (Ctrl-Z, a suspended machine), and then no peer is late. */
static uint64_t doze(struct gyre_watch *watch, uint64_t most)
{
    uint64_t began = gyre_now_ns(), slept;

    gyre_watch_sleep(watch, began + (most < MOMENT ? most : MOMENT));
    slept = gyre_now_ns() - began;
    return slept < MOMENT ? slept : MOMENT;
}

static void settle_answer(struct gyre_watch_export *export, uint32_t link)
{
    export->waiting -= export->owes[link];
    export->owes[link] = false;
}

/* Whether all have answered. A peer that has gone or said goodbye owes no answer. */
static bool all_answered(const struct gyre_watch *watch, struct gyre_watch_export *export)
{
    for (uint32_t i = 0; i<watch->links &&export->waiting> 0; i++)
        if (!gyre_watch_link_answers(watch, i))
            settle_answer(export, i);
    return export->waiting == 0;
}

bool gyre_watch_await(struct gyre_watch *watch, const bool *busy)
{
    uint64_t left = answer_time(watch);

    while (*busy && atomic_load(&watch->is.health->status) == 0 && left > 0) {
        uint64_t slept = doze(watch, left);
        left -= slept < left ? slept : left;
    }
    return !*busy || left > 0;
}

/* Sleeps until all have answered, the job has failed, or the time is over. */
static int await_answers(struct gyre_watch *watch, struct gyre_watch_export *export,
                         struct gyre_trouble *trouble)
{
    uint64_t left = answer_time(watch);

    while (!all_answered(watch, export) && atomic_load(&watch->is.health->status) == 0 &&
           left > 0) {
        uint64_t slept = doze(watch, left);
        left -= slept < left ? slept : left;
    }
    if (check_health(watch, trouble) != 0)
        return atomic_load(&watch->is.health->status);
    if (export->waiting > 0)
        return gyre_trouble_set(trouble, GYRE_TIMED_OUT,
                                "sharing memory: %u ranks of this node did not answer",
                                export->waiting);
    if (export->refusal.status == GYRE_TIMED_OUT)
        return gyre_trouble_set(trouble, GYRE_TIMED_OUT, "%s", export->refusal.text);
    if (export->refusal.status != 0)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s", export->refusal.text);
    return 0;
}

/* Whether a peer needs a descriptor of the region. */
static bool needs_descriptor(const struct gyre_watch *watch, const struct gyre_region *region)
{
    bool needed = region->kind == GYRE_MEMORY_HOST;
    for (uint32_t i = 0; i < watch->links; i++)
        needed |= watch->link[i].node && !peer_is_here(watch, i);
    return needed;
}

static int check_shareable(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                           struct gyre_trouble *trouble)
{
    if (check_health(watch, trouble) != 0)
        return atomic_load(&watch->is.health->status);
    if (region->fd < 0 && needs_descriptor(watch, region))
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "sharing memory: region %u has no descriptor to pass", id);
    if (watch->export_count == EXPORTS_MAX)
        return gyre_trouble_set(
            trouble, GYRE_UNSUPPORTED,
            "sharing memory: this process shares %d regions already, the most it can", EXPORTS_MAX);
    if (*find_export(watch, id) != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID, "sharing memory: region id %u is in use",
                                id);
    return 0;
}

/* Shares a region. *export stays in the list also after a failure; NULL: there is none. */
static int share_locked(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                        uint8_t flags, struct gyre_watch_export **export,
                        struct gyre_trouble *trouble)
{
    int status = check_shareable(watch, id, region, trouble);

    *export = status == 0 ? add_export(watch, id, region->kind) : NULL;
    if (status != 0)
        return status;
    if (*export == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "sharing memory: out of memory");
    offer_export(watch, *export, region, flags);
    return await_answers(watch, *export, trouble);
}

static int check_process(const struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    return watch->pid == getpid()
               ? 0
               : gyre_trouble_set(trouble, GYRE_FORKED,
                                  "sharing memory: the watch belongs to the parent process");
}

/* Peers unmap a region that they cannot all map. But a peer that has mapped queues or a doorbell
 * may have joined, and reads them; so may any peer where the job has failed. Such host memory stays
 * mapped until the peers stop. */
static void give_up(struct gyre_watch *watch, struct gyre_watch_export *export, int status)
{
    bool ends_job =
        export->id < GYRE_REGION_FIRST || status == atomic_load(&watch->is.health->status);

    if (export->kind == GYRE_MEMORY_HOST && ends_job)
        remove_export(watch, export->id);
    else
        withdraw(watch, export->id);
}

int gyre_watch_share(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                     enum gyre_share share, struct gyre_trouble *trouble)
{
    struct gyre_watch_export *export;
    uint8_t flags = share == GYRE_SHARE_SEALED ? GYRE_WATCH_SEALED : 0;
    int status = check_process(watch, trouble);

    if (status != 0)
        return status;
    pthread_mutex_lock(&watch->lock);
    status = share_locked(watch, id, region, flags, &export, trouble);
    if (status != 0 && export != NULL)
        give_up(watch, export, status);
    pthread_mutex_unlock(&watch->lock);
    return status;
}

bool gyre_watch_copied(struct gyre_watch *watch, uint32_t id)
{
    pthread_mutex_lock(&watch->lock);
    const struct gyre_watch_export *export = *find_export(watch, id);
    bool copied = export != NULL && export->copied;
    pthread_mutex_unlock(&watch->lock);
    return copied;
}

/* Reads the answers: which ranks agreed, and whether a rank that did not saw wrong bytes. */
static int read_answers(struct gyre_watch *watch, const struct gyre_watch_export *export,
                        int status, bool *agreed)
{
    for (uint32_t i = 0; i < watch->links; i++)
        agreed[gyre_detector_peer(watch->detector, i)] = export->agreed[i];
    return status == GYRE_UNSUPPORTED && export->refusal.status == GYRE_CORRUPT ? GYRE_CORRUPT
                                                                                : status;
}

int gyre_watch_offer_trial(struct gyre_watch *watch, const struct gyre_region *region, bool *agreed,
                           struct gyre_trouble *trouble)
{
    struct gyre_watch_export *export;

    pthread_mutex_lock(&watch->lock);
    int status = share_locked(watch, GYRE_REGION_TRIAL, region, GYRE_WATCH_TRIAL, &export, trouble);
    if (export != NULL) {
        status = read_answers(watch, export, status, agreed);
        remove_export(watch, GYRE_REGION_TRIAL);
    }
    pthread_mutex_unlock(&watch->lock);
    return status;
}

void gyre_watch_ask_to_try(struct gyre_watch *watch)
{
    const struct gyre_watch_message message = {.kind = GYRE_WATCH_TRY, .id = GYRE_REGION_TRIALS};
    struct gyre_trouble ignored = {0};
    const bool asks = *find_export(watch, GYRE_REGION_TRIALS) != NULL;
    struct gyre_watch_export *export =
        asks ? NULL : add_export(watch, GYRE_REGION_TRIALS, GYRE_MEMORY_CUDA);

    if (export == NULL)
        return;
    for (uint32_t i = 0; i < watch->links; i++)
        ask_peer(watch, export, i, &message, -1);
    await_answers(watch, export, &ignored);
    remove_export(watch, GYRE_REGION_TRIALS);
}

/* Withdraws a region and waits until the peers have unmapped it; not where the job has failed. */
static void take_back(struct gyre_watch *watch, struct gyre_watch_export *export)
{
    struct gyre_watch_message message = {
        .kind = GYRE_WATCH_UNSHARE, .flags = GYRE_WATCH_CUDA, .id = export->id};

    for (uint32_t i = 0; i < watch->links; i++)
        ask_peer(watch, export, i, &message, -1);
    await_answers(watch, export, NULL);
    remove_export(watch, export->id);
}

void gyre_watch_unshare(struct gyre_watch *watch, uint32_t id)
{
    if (watch->pid != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    struct gyre_watch_export *export = *find_export(watch, id);
    if (export != NULL && export->kind != GYRE_MEMORY_HOST)
        take_back(watch, export);
    else if (export != NULL)
        withdraw(watch, id);
    pthread_mutex_unlock(&watch->lock);
}

/* -- answers ----------------------------------------------------------------------------------- */

void gyre_watch_hear_reply(struct gyre_watch *watch, uint32_t link,
                           const struct gyre_watch_message *message)
{
    struct gyre_watch_export *export = *find_export(watch, message->id);
    char text[GYRE_WATCH_TEXT_MAX];

    if (export == NULL || !export->owes[link])
        return;
    if (message->status != 0) {
        gyre_watch_text(message, text, sizeof text);
        gyre_trouble_set(&export->refusal, message->status, "%s", text);
    } else {
        export->agreed[link] = true;
        export->copied |= (message->flags & GYRE_WATCH_COPIED) != 0;
    }
    settle_answer(export, link);
    if (export->waiting == 0)
        pthread_cond_broadcast(&watch->changed);
}
