/* Trials of copies between the devices of a node: all ranks try together, whatever their programs
 * compute.
 *
 *     try() ─▶ this rank's thread: its region ── SHARE, trial ──▶ each peer copies, and answers
 *        ⋮                         marks?       ◀── REPLY ──────
 *        ╰── TRY ──▶ each peer's thread does the same, of its own region
 *     returns ◀── REPLY ── when the peer has tried
 *
 * A region belongs to one rank, and its trial says whether peers copy from and to the memory of
 * that rank. When try() returns on a rank every rank of the node has had its trial, so none is due
 * once a program has queued work that waits for peers.
 *
 * The thread is one of the watch's own, beside the one that does errands, which answers the peers'
 * trials meanwhile. A driver may delay a trial until a device has done what was queued, so nobody
 * waits for the thread longer than for a peer's answer. A trial that went right, or that saw wrong
 * bytes, is the last one; any other is made again when somebody asks.
 *
 * Tested by tests/program/cuda/unshared.c and windows.c. */
#include "transport/watch/inside.h"

#include "base/log.h"
#include "base/machine/thread.h"
#include "transport/memory/proof.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* -- one trial: the thread, without the lock --------------------------------------------------- */

/* Reads the marks that the answering peers have left. */
static int read_marks(const struct gyre_watch *watch, const struct gyre_region *region,
                      const bool *agreed, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = watch->is.joined;
    int status = 0;

    for (uint32_t peer = 0; status == 0 && peer < joined->n; peer++) {
        if (!agreed[peer])
            continue;
        status = gyre_proof_end(watch->is.copy_queue, region,
                                (uint32_t)joined->member[peer].local_rank, trouble);
        if (status != 0)
            gyre_trouble_wrap(trouble, "rank %u cannot write region %u", peer, GYRE_REGION_TRIAL);
    }
    return status;
}

static int try_with(struct gyre_watch *watch, const struct gyre_region *region,
                    struct gyre_trouble *trouble)
{
    bool *agreed = calloc(watch->is.joined->n, sizeof *agreed);

    if (agreed == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to try copies between devices");
    int status = gyre_proof_begin(watch->is.copy_queue, region, trouble);
    if (status == 0)
        status = gyre_watch_offer_trial(watch, region, agreed, trouble);
    if (status == 0)
        status = read_marks(watch, region, agreed, trouble);
    free(agreed);
    return status;
}

static int try_copies(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    struct gyre_region region;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    int status =
        cuda->alloc(watch->is.cuda_device, gyre_proof_bytes((uint32_t)watch->is.joined->local_size),
                    GYRE_SHARE_OPEN, &region, trouble);

    if (status != 0)
        return status;
    status = try_with(watch, &region, trouble);
    cuda->free(&region);
    return status;
}

static void tell_wrong(const struct gyre_watch *watch, const struct gyre_trouble *found)
{
    if (found->status == GYRE_CORRUPT)
        gyre_log(
            GYRE_LOG_WARN,
            "copies between GPU %d of %s and another are wrong, so CUDA memory of rank %u goes "
            "by way of the host: %s",
            watch->is.cuda_device, gyre_host_name(), watch->is.joined->rank, found->text);
}

static void *trial_main(void *argument)
{
    struct gyre_watch *watch = argument;
    struct gyre_trouble found = {0};

    pthread_setname_np(pthread_self(), "gyre-trial");
    int status = found.status = try_copies(watch, &found);
    tell_wrong(watch, &found);
    pthread_mutex_lock(&watch->lock);
    watch->trial.found = found;
    watch->trial.settled = status == 0 || status == GYRE_CORRUPT;
    watch->trial.under_way = false;
    pthread_cond_broadcast(&watch->changed);
    gyre_watch_nudge(watch);
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* -- under the lock ---------------------------------------------------------------------------- */

/* Starts the thread, where a trial is due and none is under way. */
static int begin_trial(struct gyre_watch *watch)
{
    struct gyre_watch_trial *trial = &watch->trial;

    if (trial->under_way || trial->settled)
        return 0;
    if (watch->is.cuda_device < 0 || watch->is.copy_queue == NULL || watch->runner_leaves ||
        atomic_load(&watch->takes_no_cuda))
        return GYRE_UNSUPPORTED;
    if (trial->runs)
        pthread_join(trial->thread, NULL); /* it has nothing more to do */
    int status = gyre_thread_start(&trial->thread, trial_main, watch);
    trial->runs = trial->under_way = status == 0;
    return status;
}

void gyre_watch_hear_try(struct gyre_watch *watch, uint32_t link)
{
    watch->link[link].awaits_trial = true;
    begin_trial(watch); /* where it cannot be, the peer is answered all the same */
}

void gyre_watch_answer_tries(struct gyre_watch *watch)
{
    const struct gyre_watch_message reply = {.kind = GYRE_WATCH_REPLY, .id = GYRE_REGION_TRIALS};

    for (uint32_t i = 0; i < watch->links && !watch->trial.under_way; i++) {
        if (!watch->link[i].awaits_trial)
            continue;
        watch->link[i].awaits_trial = false;
        gyre_watch_post(watch, i, &reply, -1);
    }
}

static int await_own_trial(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    const int status = begin_trial(watch);

    if (status != 0)
        return gyre_trouble_set(trouble, status, "copies between devices cannot be tried: %s",
                                gyre_status_name(status));
    if (!gyre_watch_await(watch, &watch->trial.under_way))
        return gyre_trouble_set(trouble, GYRE_TIMED_OUT,
                                "rank %u could not try copies between devices: its device has work "
                                "queued that does not end",
                                watch->is.joined->rank);
    return watch->trial.found.status == 0 ? 0
                                          : gyre_trouble_set(trouble, watch->trial.found.status,
                                                             "%s", watch->trial.found.text);
}

/* -- any thread -------------------------------------------------------------------------------- */

int gyre_watch_try(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    if (watch->pid != getpid())
        return gyre_trouble_set(trouble, GYRE_FORKED,
                                "trying copies: the watch belongs to the parent process");
    pthread_mutex_lock(&watch->lock);
    int status = await_own_trial(watch, trouble);
    if (atomic_load(&watch->is.health->status) == 0)
        gyre_watch_ask_to_try(watch);
    const int failed = atomic_load(&watch->is.health->status);
    if (failed != 0) {
        *trouble = (struct gyre_trouble){0};
        status = gyre_trouble_set(trouble, failed, "%s", watch->is.health->failure.text);
    }
    pthread_mutex_unlock(&watch->lock);
    return status;
}

void gyre_watch_end_trial(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    const bool runs = watch->trial.runs;
    const pthread_t thread = watch->trial.thread;
    watch->trial.runs = false;
    pthread_mutex_unlock(&watch->lock);
    if (runs)
        pthread_join(thread, NULL);
}
