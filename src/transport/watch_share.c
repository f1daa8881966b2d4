/* Regions inside a node.
 *
 *     share(id) ── SHARE id, length, fd ──▶ each peer's watch imports the region, keeps it under
 *        ⋮                                  (peer, id) in its views, and answers
 *     returns ◀─── REPLY id, status ─────── when all have answered; one refusal withdraws the
 *                                           region everywhere
 *
 * The peers' threads do their part at once whatever their ranks compute, so share() takes a
 * fraction of a millisecond and nobody else has to call anything. A peer that is gone or has said
 * goodbye counts as having answered: it will not read the region, and if its end is a failure then
 * health says so.
 *
 * A region of CUDA memory is mapped on the peer's own device. A peer in this very process is told its
 * address and needs no descriptor, which the driver might not open where it comes from. Its UNSHARE is answered too, and
 * unshare() waits for that: the driver does not forgive memory that is freed while others have it
 * open. Where the device of a peer in this process cannot map it, but copies it, the answer says so.
 *
 * What is shared on trial is mapped, tried (proof.h) and let go of before the answer. */
#include "transport/watch_inside.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/ferry.h"
#include "transport/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTS_MAX  4096
#define ANSWER_EXTRA (5 * GYRE_SECOND) /* beyond the dead time: a peer may still be starting */
#define MOMENT       (250 * GYRE_MS)

enum { ADDRESS_BYTES = 8 }; /* of a region, as told inside a process */

struct gyre_watch_export {
    struct gyre_watch_export *next;
    uint32_t id, waiting;
    enum gyre_memory_kind kind;
    bool copied; /* by a peer that cannot map it */
    struct gyre_trouble refusal;
    bool *owes;   /* per link: its answer is due */
    bool *agreed; /* per link: it has answered, and maps it */
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
static bool is_here(const struct gyre_watch *watch, uint32_t link)
{
    return gyre_job_here(watch->is.job, gyre_vigil_peer(watch->vigil, link));
}

/* A peer that is there owes an answer from now on. */
static void ask(struct gyre_watch *watch, struct gyre_watch_export *export, uint32_t link,
                const struct gyre_watch_message *message, int pass)
{
    if (!watch->link[link].node || watch->link[link].broken ||
        gyre_vigil_has_left(watch->vigil, link))
        return;
    export->waiting += !export->owes[link];
    export->owes[link] = true;
    gyre_watch_post(watch, link, message, pass);
}

static void offer(struct gyre_watch *watch, struct gyre_watch_export *export,
                  const struct gyre_region *region, uint8_t flags)
{
    struct gyre_watch_message message = {
        .kind = GYRE_WATCH_SHARE,
        .flags = (uint8_t)(flags | (region->kind == GYRE_MEMORY_CUDA ? GYRE_WATCH_CUDA : 0)),
        .id = export->id,
        .region_length = region->length,
    };
    struct gyre_watch_message inside = message;
    uint8_t address[ADDRESS_BYTES];

    gyre_put64(address, (uint64_t)(uintptr_t)region->base);
    inside.payload = address;
    inside.payload_bytes = sizeof address;
    for (uint32_t i = 0; i < watch->links; i++)
        if (region->kind == GYRE_MEMORY_CUDA && is_here(watch, i))
            ask(watch, export, i, &inside, -1);
        else
            ask(watch, export, i, &message, region->fd);
}

static void withdraw(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_message message = {.kind = GYRE_WATCH_UNSHARE, .id = id};

    remove_export(watch, id);
    for (uint32_t i = 0; i < watch->links; i++)
        if (watch->link[i].node && !watch->link[i].broken)
            gyre_watch_post(watch, i, &message, -1);
}

static int failed(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    int status = atomic_load_explicit(&watch->is.health->status, memory_order_acquire);

    if (status != 0)
        gyre_trouble_set(trouble, status, "%s", watch->is.health->failure.text);
    return status;
}

/* How long answers may take: a peer that cannot answer is found dead before. */
static uint64_t patience(const struct gyre_watch *watch)
{
    uint64_t wait_ms =
        (uint64_t)(watch->is.dead_time_ms > 0 ? watch->is.dead_time_ms : watch->is.timeout_ms);
    return wait_ms * GYRE_MS + ANSWER_EXTRA;
}

/* Sleeps for at most a moment. Returns how long it was, but no more than that moment: what is longer,
 * the whole job may have been stopped (Ctrl-Z, a suspended machine), and then nobody is late. */
static uint64_t doze(struct gyre_watch *watch, uint64_t most)
{
    uint64_t began = gyre_now_ns(), slept;
    struct timespec limit;

    gyre_watch_deadline(began + (most < MOMENT ? most : MOMENT), &limit);
    pthread_cond_timedwait(&watch->changed, &watch->lock, &limit);
    slept = gyre_now_ns() - began;
    return slept < MOMENT ? slept : MOMENT;
}

/* Sleeps until all have answered, the job has failed, or the time is over. */
static int await_answers(struct gyre_watch *watch, struct gyre_watch_export *export,
                         struct gyre_trouble *trouble)
{
    uint64_t left = patience(watch);

    while (export->waiting > 0 && atomic_load(&watch->is.health->status) == 0 && left > 0) {
        uint64_t slept = doze(watch, left);
        left -= slept < left ? slept : left;
    }
    if (failed(watch, trouble) != 0)
        return atomic_load(&watch->is.health->status);
    if (export->waiting > 0)
        return gyre_trouble_set(trouble, GYRE_TIMED_OUT,
                                "sharing memory: %u ranks of this node did not answer",
                                export->waiting);
    if (export->refusal.status != 0)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s", export->refusal.text);
    return 0;
}

/* Does a peer need a descriptor of it? */
static bool needs_descriptor(const struct gyre_watch *watch, const struct gyre_region *region)
{
    bool needed = region->kind == GYRE_MEMORY_HOST;
    for (uint32_t i = 0; i < watch->links; i++)
        needed |= watch->link[i].node && !is_here(watch, i);
    return needed;
}

static int check_shareable(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                           struct gyre_trouble *trouble)
{
    if (failed(watch, trouble) != 0)
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

/* *export stays in the list, also where this fails; NULL: there is none. */
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
    offer(watch, *export, region, flags);
    return await_answers(watch, *export, trouble);
}

static int check_process(const struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    return watch->pid == getpid()
               ? 0
               : gyre_trouble_set(trouble, GYRE_FORKED,
                                  "sharing memory: the watch belongs to the parent process");
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
        withdraw(watch, id);
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

/* Who agreed, by rank; whether bytes were wrong for one who did not. */
static int read_answers(struct gyre_watch *watch, const struct gyre_watch_export *export,
                        int status, bool *agreed)
{
    for (uint32_t i = 0; i < watch->links; i++)
        agreed[gyre_vigil_peer(watch->vigil, i)] = export->agreed[i];
    return status == GYRE_UNSUPPORTED && export->refusal.status == GYRE_CORRUPT ? GYRE_CORRUPT
                                                                                : status;
}

int gyre_watch_try(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                   bool *agreed, struct gyre_trouble *trouble)
{
    struct gyre_watch_export *export;
    int status = check_process(watch, trouble);

    if (status != 0)
        return status;
    pthread_mutex_lock(&watch->lock);
    status = share_locked(watch, id, region, GYRE_WATCH_TRIAL, &export, trouble);
    if (export != NULL) {
        status = read_answers(watch, export, status, agreed);
        remove_export(watch, id);
    }
    pthread_mutex_unlock(&watch->lock);
    return status;
}

/* Waits until the peers have closed it; a failed job waits for nobody. */
static void take_back(struct gyre_watch *watch, struct gyre_watch_export *export)
{
    struct gyre_watch_message message = {
        .kind = GYRE_WATCH_UNSHARE, .flags = GYRE_WATCH_CUDA, .id = export->id};

    for (uint32_t i = 0; i < watch->links; i++)
        ask(watch, export, i, &message, -1);
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

void gyre_watch_let_go(struct gyre_watch *watch)
{
    if (watch->pid != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is.cuda_device = -1;
    gyre_ferry_halt(watch->is.ferry);
    gyre_views_drop_kind(watch->views, GYRE_MEMORY_CUDA);
    gyre_ferry_resume(watch->is.ferry);
    pthread_mutex_unlock(&watch->lock);
}

void *gyre_watch_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length)
{
    return gyre_views_find(watch->views, peer, id, kind, length);
}

/* -- answering --------------------------------------------------------------------------------- */

/* A region of no bytes is a doorbell: an eventfd that the peer sleeps on. The first one counts. */
static int keep_bell(struct gyre_watch *watch, uint32_t peer, int passed)
{
    struct gyre_watch_link *link = &watch->link[gyre_vigil_channel(watch->vigil, peer)];
    int kept = fcntl(passed, F_DUPFD_CLOEXEC, 0), none = 0;

    if (kept < 0)
        return -errno;
    if (!atomic_compare_exchange_strong(&link->bell, &none, kept + 1))
        close(kept);
    return 0;
}

int gyre_watch_peer_bell(struct gyre_watch *watch, uint32_t peer)
{
    int index = gyre_vigil_channel(watch->vigil, peer);
    return index < 0 ? -1
                     : atomic_load_explicit(&watch->link[index].bell, memory_order_acquire) - 1;
}

/* An address is believed of a rank of this process only. */
static bool tells_address(const struct gyre_watch *watch, uint32_t peer,
                          const struct gyre_watch_message *message)
{
    return message->flags & GYRE_WATCH_CUDA && message->payload_bytes == ADDRESS_BYTES &&
           gyre_job_here(watch->is.job, peer);
}

/* Maps it by the device of its kind, on this process's own. */
static int map(const struct gyre_watch *watch, uint32_t peer,
               const struct gyre_watch_message *message, int passed, struct gyre_region *region,
               struct gyre_trouble *trouble)
{
    bool cuda = message->flags & GYRE_WATCH_CUDA;
    enum gyre_share share =
        message->flags & GYRE_WATCH_SEALED ? GYRE_SHARE_SEALED : GYRE_SHARE_OPEN;

    if (cuda && watch->is.cuda_device < 0)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "it is CUDA memory, and this process has no CUDA device");
    if (tells_address(watch, peer, message))
        return gyre_device_of(GYRE_MEMORY_CUDA)
            ->adopt(watch->is.cuda_device, (void *)(uintptr_t)gyre_get64(message->payload),
                    message->region_length, region, trouble);
    return gyre_device_of(cuda ? GYRE_MEMORY_CUDA : GYRE_MEMORY_HOST)
        ->import(cuda ? watch->is.cuda_device : 0, passed, message->region_length, share, region,
                 trouble);
}

/* The peer's region is on trial: it is let go of at once. */
static int answer_trial(const struct gyre_watch *watch, struct gyre_region *region,
                        struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = watch->is.joined;
    uint32_t place = (uint32_t)joined->member[joined->rank].local_rank;
    int status = region->kind == GYRE_MEMORY_CUDA && watch->is.ferry != NULL
                     ? gyre_proof_answer(watch->is.ferry, region, place, trouble)
                     : gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "nothing copies it here");

    gyre_device_of(region->kind)->unimport(region);
    return status;
}

static int import(struct gyre_watch *watch, uint32_t peer, const struct gyre_watch_message *message,
                  int passed, bool *copied, struct gyre_trouble *trouble)
{
    struct gyre_region region;

    if (passed < 0 && !tells_address(watch, peer, message))
        return gyre_trouble_set(trouble, -EBADF,
                                "no descriptor came along: this process has too many open files");
    if (message->region_length == 0)
        return keep_bell(watch, peer, passed);
    int status = map(watch, peer, message, passed, &region, trouble);
    if (status != 0)
        return status;
    if (message->flags & GYRE_WATCH_TRIAL)
        return answer_trial(watch, &region, trouble);
    *copied = region.copied;
    status = gyre_views_put(watch->views, peer, message->id, &region);
    if (status == 0)
        return 0;
    gyre_device_of(region.kind)->unimport(&region);
    return gyre_trouble_set(trouble, status, "no room for another region (the most is %d)",
                            GYRE_VIEWS_MAX);
}

static void hear_offer(struct gyre_watch *watch, uint32_t link,
                       const struct gyre_watch_message *message, int passed)
{
    struct gyre_trouble trouble = {0}, told = {0};
    struct gyre_watch_message reply = {.kind = GYRE_WATCH_REPLY, .id = message->id};
    bool copied = false;

    reply.status =
        import(watch, gyre_vigil_peer(watch->vigil, link), message, passed, &copied, &trouble);
    reply.flags = copied ? GYRE_WATCH_COPIED : 0;
    if (reply.status != 0) {
        gyre_trouble_set(&told, reply.status,
                         "rank %u cannot map region %u of %" PRIu64 " bytes: %.700s",
                         watch->is.joined->rank, message->id, message->region_length, trouble.text);
        reply.payload = (const uint8_t *)told.text;
        reply.payload_bytes = (uint32_t)strlen(told.text);
    }
    gyre_watch_post(watch, link, &reply, -1);
}

static void settle_answer(struct gyre_watch *watch, struct gyre_watch_export *export, uint32_t link)
{
    export->waiting -= export->owes[link];
    export->owes[link] = false;
    if (export->waiting == 0)
        pthread_cond_broadcast(&watch->changed);
}

static void hear_reply(struct gyre_watch *watch, uint32_t link,
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
    settle_answer(watch, export, link);
}

void gyre_watch_forget_peer(struct gyre_watch *watch, uint32_t link)
{
    for (struct gyre_watch_export *export = watch->exports; export != NULL; export = export->next)
        settle_answer(watch, export, link);
}

static void hear_end(struct gyre_watch *watch, uint32_t link,
                     const struct gyre_watch_message *message)
{
    struct gyre_watch_message reply = {.kind = GYRE_WATCH_REPLY, .id = message->id};

    gyre_ferry_halt(watch->is.ferry);
    gyre_views_drop(watch->views, gyre_vigil_peer(watch->vigil, link), message->id);
    gyre_ferry_resume(watch->is.ferry);
    if (message->flags & GYRE_WATCH_CUDA)
        gyre_watch_post(watch, link, &reply, -1);
}

void gyre_watch_hear_share(struct gyre_watch *watch, uint32_t link,
                           const struct gyre_watch_message *message, int passed)
{
    if (!watch->link[link].node)
        return;
    if (message->kind == GYRE_WATCH_SHARE)
        hear_offer(watch, link, message, passed);
    else if (message->kind == GYRE_WATCH_REPLY)
        hear_reply(watch, link, message);
    else if (message->kind == GYRE_WATCH_UNSHARE)
        hear_end(watch, link, message);
}
