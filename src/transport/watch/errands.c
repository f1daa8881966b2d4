/* What a driver may delay: CUDA memory that peers share and take back.
 *
 *     SHARE, UNSHARE ─▶ an errand ─▶ the thread: import, trial, unimport ─▶ the watch's turn: REPLY
 *
 * A driver may do these only once a device has done all that was queued, which may wait for peers,
 * and for what this watch tells of them. So a thread of the watch's own does them, in order, and
 * the watch answers the peer when one is done. Host memory needs no driver, and is mapped and
 * unmapped at once; but where a copy queue may be reading it, it is taken back by an errand too. A
 * trial is an errand that is done before all that have not begun.
 *
 * What a device has queued may wait for the very peer that waits here, as an operation of a stream
 * does that the peer has not called yet. So an offer that is not taken within the dead time is
 * refused with GYRE_TIMED_OUT, and the errand goes on. What comes of it is dropped by the peer's
 * UNSHARE, which stands behind it. Only time counts in which the watch ran.
 *
 * The thread starts with the first errand and ends when none is left. Where it cannot be started
 * the watch does the errand by itself.
 *
 * Tested by tests/program/cuda/streams.c and tests/program/watch/share.c. */
#include "transport/watch/inside.h"

#include "base/machine/thread.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_TO_TAKE (10 * GYRE_SECOND) /* a peer's offer, where there is no dead time */
#define TURN         (500 * GYRE_MS)    /* between two turns of a watch that runs, at most */

struct gyre_watch_errand {
    struct gyre_watch_message message;
    uint8_t payload[GYRE_WATCH_ADDRESS_BYTES]; /* the message's */
    uint32_t link, peer;
    int passed;                /* the message's descriptor, this errand's own; -1: none */
    uint64_t looked_at, taken; /* the watch's last look; time taken until then */
    bool refused;              /* the peer was told that it takes too long */
    struct gyre_watch_answer answer;
    struct gyre_watch_errand *next;
};

/* -- one --------------------------------------------------------------------------------------- */

static void do_errand(struct gyre_watch *watch, struct gyre_watch_errand *errand)
{
    if (errand->message.kind == GYRE_WATCH_SHARE)
        gyre_watch_take_offer(watch, errand->peer, &errand->message, errand->passed,
                              &errand->answer);
    else
        gyre_watch_drop_offer(watch, errand->peer, errand->message.id);
    if (errand->passed >= 0)
        close(errand->passed);
    errand->passed = -1;
}

static void answer_peer(struct gyre_watch *watch, const struct gyre_watch_errand *errand)
{
    const struct gyre_watch_answer *is = &errand->answer;
    struct gyre_watch_message reply = {.kind = GYRE_WATCH_REPLY,
                                       .id = errand->message.id,
                                       .status = is->trouble.status,
                                       .flags = is->copied ? GYRE_WATCH_COPIED : 0};

    if (is->trouble.status != 0) {
        reply.payload = (const uint8_t *)is->trouble.text;
        reply.payload_bytes = (uint32_t)strlen(is->trouble.text);
    }
    if (errand->message.kind == GYRE_WATCH_SHARE || errand->message.flags & GYRE_WATCH_CUDA)
        gyre_watch_post(watch, errand->link, &reply, -1);
}

/* -- the thread -------------------------------------------------------------------------------- */

static void add_errand(struct gyre_watch_errand **list, struct gyre_watch_errand *errand)
{
    errand->next = NULL;
    while (*list != NULL)
        list = &(*list)->next;
    *list = errand;
}

static struct gyre_watch_errand *take_first(struct gyre_watch_errand **list)
{
    struct gyre_watch_errand *errand = *list;

    if (errand != NULL)
        *list = errand->next;
    return errand;
}

/* Does the first errand, which stays in the list until it is done. */
static void do_first(struct gyre_watch *watch)
{
    struct gyre_watch_errand *errand = watch->errands;

    pthread_mutex_unlock(&watch->lock);
    do_errand(watch, errand);
    pthread_mutex_lock(&watch->lock);
    watch->errands = errand->next;
    add_errand(&watch->done, errand);
    pthread_cond_broadcast(&watch->changed);
    gyre_watch_nudge(watch);
}

static void *runner_main(void *argument)
{
    struct gyre_watch *watch = argument;

    pthread_setname_np(pthread_self(), "gyre-errands");
    pthread_mutex_lock(&watch->lock);
    while (watch->errands != NULL)
        do_first(watch);
    watch->runner_ended = true;
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* Waits for the end of a thread that has nothing more to do. */
static void join_runner(struct gyre_watch *watch)
{
    if (watch->runs)
        pthread_join(watch->runner, NULL);
    watch->runs = false;
}

static int start_runner(struct gyre_watch *watch)
{
    if (watch->runs && !watch->runner_ended)
        return 0;
    join_runner(watch);
    watch->runner_ended = false;
    int status = gyre_thread_start(&watch->runner, runner_main, watch);
    watch->runs = status == 0;
    return status;
}

/* -- the watch's ------------------------------------------------------------------------------- */

static bool may_take_long(const struct gyre_watch *watch, const struct gyre_watch_message *message)
{
    if (message->kind == GYRE_WATCH_UNSHARE)
        return watch->is.copy_queue != NULL;
    return message->flags & GYRE_WATCH_CUDA;
}

static void do_at_once(struct gyre_watch *watch, struct gyre_watch_errand *errand)
{
    do_errand(watch, errand);
    answer_peer(watch, errand);
}

/* A trial comes behind the errand that is under way: the sooner it is answered, the less work the
 * program can have queued before it. */
static void enlist_errand(struct gyre_watch *watch, struct gyre_watch_errand *errand)
{
    struct gyre_watch_errand *first = watch->errands;

    if (first == NULL || !(errand->message.flags & GYRE_WATCH_TRIAL)) {
        add_errand(&watch->errands, errand);
        return;
    }
    errand->next = first->next;
    first->next = errand;
}

/* Has the thread do it. False: it cannot, or this rank leaves. */
static bool send_runner(struct gyre_watch *watch, const struct gyre_watch_errand *errand)
{
    struct gyre_watch_errand *one = malloc(sizeof *one);

    if (one == NULL || watch->runner_leaves || start_runner(watch) != 0) {
        free(one);
        return false;
    }
    *one = *errand;
    one->message.payload = one->payload;
    enlist_errand(watch, one);
    return true;
}

void gyre_watch_hear_region(struct gyre_watch *watch, uint32_t link,
                            const struct gyre_watch_message *message, int passed)
{
    struct gyre_watch_errand errand = {.message = *message,
                                       .link = link,
                                       .looked_at = gyre_now_ns(),
                                       .peer = gyre_detector_peer(watch->detector, link),
                                       .passed =
                                           passed < 0 ? -1 : fcntl(passed, F_DUPFD_CLOEXEC, 0)};

    if (message->payload_bytes == sizeof errand.payload)
        memcpy(errand.payload, message->payload, sizeof errand.payload);
    if (!may_take_long(watch, message) || !send_runner(watch, &errand))
        do_at_once(watch, &errand);
}

static uint64_t time_to_take(const struct gyre_watch *watch)
{
    return watch->is.dead_time_ms > 0 ? (uint64_t)watch->is.dead_time_ms * GYRE_MS : TIME_TO_TAKE;
}

/* Whether an offer has not been taken in time. */
static bool is_late(const struct gyre_watch *watch, struct gyre_watch_errand *errand, uint64_t now)
{
    const uint64_t since = now - errand->looked_at;

    errand->taken += since < TURN ? since : TURN;
    errand->looked_at = now;
    return errand->message.kind == GYRE_WATCH_SHARE && errand->taken > time_to_take(watch);
}

/* Answers for an errand that goes on. */
static void refuse_late(struct gyre_watch *watch, const struct gyre_watch_errand *errand)
{
    struct gyre_watch_errand refusal = {.message = errand->message, .link = errand->link};

    gyre_trouble_set(&refusal.answer.trouble, GYRE_TIMED_OUT,
                     "rank %u cannot map memory of rank %u: its device has work queued that does "
                     "not end, perhaps an operation that waits for rank %u; let all ranks allocate "
                     "before any queues such work, with a barrier between",
                     watch->is.joined->rank, errand->peer, errand->peer);
    answer_peer(watch, &refusal);
}

void gyre_watch_answer_errands(struct gyre_watch *watch)
{
    const uint64_t now = gyre_now_ns();
    struct gyre_watch_errand *errand;

    while ((errand = take_first(&watch->done)) != NULL) {
        if (!errand->refused)
            answer_peer(watch, errand);
        free(errand);
    }
    for (errand = watch->errands; errand != NULL; errand = errand->next) {
        if (errand->refused || !is_late(watch, errand, now))
            continue;
        errand->refused = true;
        refuse_late(watch, errand);
    }
}

void gyre_watch_let_go(struct gyre_watch *watch)
{
    if (watch->pid != getpid())
        return;
    atomic_store(&watch->takes_no_cuda, true);
    pthread_mutex_lock(&watch->lock);
    while (watch->errands != NULL || watch->trial.under_way)
        pthread_cond_wait(&watch->changed, &watch->lock);
    pthread_mutex_unlock(&watch->lock);
    gyre_watch_drop_all_cuda(watch);
}

void gyre_watch_dismiss_runner(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->runner_leaves = true;
    const bool runs = watch->runs;
    const pthread_t runner = watch->runner;
    watch->runs = false;
    pthread_mutex_unlock(&watch->lock);
    if (runs)
        pthread_join(runner, NULL);
}

void gyre_watch_drop_errands(struct gyre_watch *watch)
{
    struct gyre_watch_errand *errand;

    while ((errand = take_first(&watch->errands)) != NULL ||
           (errand = take_first(&watch->done)) != NULL)
        free(errand);
}
