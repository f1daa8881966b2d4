/* Regions that peers of this node share with this process: the other end of share.c.
 *
 *     SHARE ─▶ import by the device of its kind ─▶ a view under (peer, id) ─▶ an answer
 *     UNSHARE ─▶ the view is dropped
 *
 * The watch's thread does this, or one beside it (errands.c), whatever the program computes. A
 * region on trial is mapped, tried (transport/memory/proof.h) and unmapped before the answer. A
 * region without bytes is a doorbell. Views are looked up without a lock
 * (transport/memory/views.h). The copy queue, which copies from CUDA memory, is halted while a
 * region is taken out of the views.
 *
 * Tested by tests/program/watch/share.c. */
#include "transport/watch/inside.h"

#include "base/bytes.h"
#include "transport/memory/copy_queue.h"
#include "transport/memory/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Keeps a doorbell: a region without bytes whose descriptor is the eventfd on which the peer
 * sleeps. The first one counts. */
static int keep_bell(struct gyre_watch *watch, uint32_t peer, int passed)
{
    struct gyre_watch_link *link = &watch->link[gyre_detector_channel(watch->detector, peer)];
    int kept = fcntl(passed, F_DUPFD_CLOEXEC, 0), none = 0;

    if (kept < 0)
        return -errno;
    if (!atomic_compare_exchange_strong(&link->bell, &none, kept + 1))
        close(kept);
    return 0;
}

int gyre_watch_peer_bell(struct gyre_watch *watch, uint32_t peer)
{
    int index = gyre_detector_channel(watch->detector, peer);
    return index < 0 ? -1
                     : atomic_load_explicit(&watch->link[index].bell, memory_order_acquire) - 1;
}

/* Whether the message tells an address. Only a rank of this process may. */
static bool tells_address(const struct gyre_watch *watch, uint32_t peer,
                          const struct gyre_watch_message *message)
{
    return message->flags & GYRE_WATCH_CUDA && message->payload_bytes == GYRE_WATCH_ADDRESS_BYTES &&
           gyre_job_here(watch->is.job, peer);
}

/* Maps a region by this process's device of that kind. */
static int map_offer(const struct gyre_watch *watch, uint32_t peer,
                     const struct gyre_watch_message *message, int passed,
                     struct gyre_region *region, struct gyre_trouble *trouble)
{
    bool cuda = message->flags & GYRE_WATCH_CUDA;
    enum gyre_share share =
        message->flags & GYRE_WATCH_SEALED ? GYRE_SHARE_SEALED : GYRE_SHARE_OPEN;

    if (cuda && (watch->is.cuda_device < 0 || atomic_load(&watch->takes_no_cuda)))
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

/* Answers a trial: tries the peer's region and unmaps it at once. */
static int answer_trial(const struct gyre_watch *watch, struct gyre_region *region,
                        struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = watch->is.joined;
    uint32_t place = (uint32_t)joined->member[joined->rank].local_rank;
    int status = region->kind == GYRE_MEMORY_CUDA && watch->is.copy_queue != NULL
                     ? gyre_proof_answer(watch->is.copy_queue, region, place, trouble)
                     : gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "nothing copies it here");

    gyre_device_of(region->kind)->unimport(region);
    return status;
}

static int import(struct gyre_watch *watch, uint32_t peer, const struct gyre_watch_message *message,
                  int passed, bool *copied, struct gyre_trouble *trouble)
{
    struct gyre_region region;

    if (passed < 0 && !tells_address(watch, peer, message))
        return gyre_trouble_set(trouble, -EMFILE,
                                "no descriptor came along: this process has too many open files");
    if (message->region_length == 0)
        return keep_bell(watch, peer, passed);
    int status = map_offer(watch, peer, message, passed, &region, trouble);
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

void gyre_watch_take_offer(struct gyre_watch *watch, uint32_t peer,
                           const struct gyre_watch_message *message, int passed,
                           struct gyre_watch_answer *answer)
{
    struct gyre_trouble trouble = {0};
    int status = import(watch, peer, message, passed, &answer->copied, &trouble);

    if (status != 0)
        gyre_trouble_set(&answer->trouble, status,
                         "rank %u cannot map region %u of %" PRIu64 " bytes: %.700s",
                         watch->is.joined->rank, message->id, message->region_length, trouble.text);
}

/* Whoever is told that a region is gone may free it, so it is unmapped before anybody else looks
 * for it. */
static void unmap_view(struct gyre_region *region, bool there)
{
    if (there)
        gyre_device_of(region->kind)->unimport(region);
}

void gyre_watch_drop_offer(struct gyre_watch *watch, uint32_t peer, uint32_t id)
{
    struct gyre_region region;

    pthread_mutex_lock(&watch->unmapping);
    gyre_copy_queue_halt(watch->is.copy_queue);
    bool there = gyre_views_take(watch->views, peer, id, &region);
    gyre_copy_queue_resume(watch->is.copy_queue);
    unmap_view(&region, there);
    pthread_mutex_unlock(&watch->unmapping);
}

void gyre_watch_drop_all_cuda(struct gyre_watch *watch)
{
    struct gyre_region region;
    bool there = true;

    pthread_mutex_lock(&watch->unmapping);
    while (there) {
        gyre_copy_queue_halt(watch->is.copy_queue);
        there = gyre_views_take_any(watch->views, GYRE_MEMORY_CUDA, &region);
        gyre_copy_queue_resume(watch->is.copy_queue);
        unmap_view(&region, there);
    }
    pthread_mutex_unlock(&watch->unmapping);
}

void *gyre_watch_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length)
{
    return gyre_views_find(watch->views, peer, id, kind, length);
}

bool gyre_watch_take_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                          struct gyre_region *region)
{
    return gyre_views_take(watch->views, peer, id, region);
}

const struct gyre_views *gyre_watch_views(const struct gyre_watch *watch)
{
    return watch->views;
}
