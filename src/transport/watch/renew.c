/* Data connections that are made anew: what renew.h says.
 *
 *      renew() ─▶ wish ─▶ dial ─▶ proof ─▶ RENEW ─▶ RENEWED ─▶ news MADE ─▶ take()
 *                   ▲                         └───── WELCOME (the higher rank knows now)
 *                   └── pause ── any failure, 1 … 100 ms
 *      visitors.c ─▶ RENEW of a peer ─▶ news ASKED, TOLD ─▶ take()
 *
 * A refused attempt is no death here: the watch's own connections tell of deaths. Where rank 0 has
 * left they tell of none on other nodes, and a rank that refuses its first connection has ended.
 * The wish ends with the pipe. A first connection is given up after twice the dead time. A peer
 * that is silent for so long has been told of before: what is left is a way that something closes.
 * Only time in which this thread ran counts.
 *
 * Tested by tests/program/failures/reset_data.c, tests/program/failures/first_use.c and
 * tests/fuzz/handshake.c. */
#include "transport/watch/inside.h"

#include "transport/net/cursor.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define TOLD_PAUSE   GYRE_SECOND /* for the higher rank, which knows now, to dial */
#define NEWS_MOST    1024        /* untaken */
#define VAIN_MOST_MS 100
#define COUNTED      (250 * GYRE_MS) /* of the time between two turns, at most */

struct gyre_watch_wish {
    struct gyre_watch_wish *next;
    struct gyre_renewal_wish is;
    uint32_t id; /* in events of the poller */
    uint32_t attempts;
    uint64_t waited, looked_at; /* of a first connection: for how long, as of which turn */
    int error;                  /* of the last attempt */
    struct gyre_dial dial;
};

struct gyre_watch_news {
    struct gyre_watch_news *next;
    struct gyre_renewal is;
};

/* -- records ----------------------------------------------------------------------------------- */

enum { RENEW_BYTES = 12, RENEWED_BYTES = 8 };

bool gyre_renewal_read(const struct gyre_record *record, uint32_t *number, uint64_t *received)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    const bool asks = record->kind == GYRE_WATCH_RENEW;

    if (!asks && record->kind != GYRE_WATCH_RENEWED)
        return false;
    if (asks)
        *number = (uint32_t)gyre_get_u64(&in, 4);
    *received = gyre_get_u64(&in, 8);
    return !in.bad && in.at == in.end;
}

static int say_renew(struct gyre_talk *talk, uint32_t number, uint64_t received)
{
    uint8_t bytes[RENEW_BYTES];
    struct gyre_cursor out = gyre_cursor_over(bytes, sizeof bytes);

    gyre_put_u64(&out, number, 4);
    gyre_put_u64(&out, received, 8);
    return gyre_talk_say(talk, GYRE_WATCH_RENEW, bytes, sizeof bytes);
}

int gyre_renewal_grant(struct gyre_renewal *news, uint64_t received)
{
    uint8_t bytes[RENEWED_BYTES];
    struct gyre_cursor out = gyre_cursor_over(bytes, sizeof bytes);

    gyre_put_u64(&out, received, 8);
    int status = gyre_talk_say(&news->talk, GYRE_WATCH_RENEWED, bytes, sizeof bytes);
    if (status == 0 && !gyre_talk_pending(&news->talk))
        return gyre_talk_take(&news->talk);
    gyre_talk_close(&news->talk);
    return status != 0 ? status : -ECONNRESET;
}

/* -- news -------------------------------------------------------------------------------------- */

/* Keeps news, whose talk it takes. */
static void tell_news(struct gyre_watch *watch, const struct gyre_renewal *is)
{
    const bool room = watch->news_count < NEWS_MOST || is->kind == GYRE_RENEWAL_MADE;
    struct gyre_watch_news *news = room ? malloc(sizeof *news) : NULL;
    struct gyre_talk talk = is->talk;

    if (news == NULL) {
        gyre_talk_close(&talk); /* who asked tries again */
        return;
    }
    *news = (struct gyre_watch_news){.is = *is};
    struct gyre_watch_news **last = &watch->news;
    while (*last != NULL)
        last = &(*last)->next;
    *last = news;
    watch->news_count++;
    gyre_watch_ring(&watch->is.mender);
}

static struct gyre_renewal news_of(const struct gyre_watch_wish *wish, enum gyre_renewal_kind kind)
{
    struct gyre_renewal news = {.kind = kind, .rank = wish->is.rank, .index = wish->is.index};

    gyre_talk_open(&news.talk, -1);
    return news;
}

bool gyre_watch_take_renewal(struct gyre_watch *watch, struct gyre_renewal *out)
{
    pthread_mutex_lock(&watch->lock);
    struct gyre_watch_news *first = watch->news;
    if (first != NULL) {
        *out = first->is;
        watch->news = first->next;
        watch->news_count--;
    }
    pthread_mutex_unlock(&watch->lock);
    free(first);
    return first != NULL;
}

bool gyre_watch_has_renewal(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool any = watch->news != NULL;
    pthread_mutex_unlock(&watch->lock);
    return any;
}

void gyre_watch_end_renewals(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->links_ended = true;
    pthread_mutex_unlock(&watch->lock);
}

/* -- wishes ------------------------------------------------------------------------------------ */

static void end_wish(struct gyre_watch *watch, struct gyre_watch_wish **at)
{
    struct gyre_watch_wish *wish = *at;

    *at = wish->next;
    gyre_dial_drop(watch, &wish->dial);
    free(wish);
}

static struct gyre_watch_wish **find_wish(struct gyre_watch *watch, uint32_t rank, uint32_t index)
{
    struct gyre_watch_wish **at = &watch->wish;

    while (*at != NULL && ((*at)->is.rank != rank || (*at)->is.index != index))
        at = &(*at)->next;
    return at;
}

int gyre_watch_renew(struct gyre_watch *watch, const struct gyre_renewal_wish *is)
{
    const uint64_t vain = is->fruitless < VAIN_MOST_MS ? is->fruitless : VAIN_MOST_MS;

    if (watch->pid != getpid())
        return 0;
    struct gyre_watch_wish *wish = calloc(1, sizeof *wish);
    if (wish == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&watch->lock);
    struct gyre_watch_wish **before = find_wish(watch, is->rank, is->index);
    if (*before != NULL)
        end_wish(watch, before);
    wish->is = *is;
    wish->id = ++watch->wishes;
    wish->attempts = is->number;
    gyre_dial_init(&wish->dial);
    wish->looked_at = gyre_now_ns();
    wish->dial.next_at = wish->looked_at + vain * GYRE_MS;
    wish->next = watch->wish;
    watch->wish = wish;
    pthread_mutex_unlock(&watch->lock);
    gyre_watch_nudge(watch);
    return 0;
}

void gyre_watch_renew_drop(struct gyre_watch *watch, uint32_t rank, uint32_t index)
{
    pthread_mutex_lock(&watch->lock);
    struct gyre_watch_wish **at = find_wish(watch, rank, index);
    if (*at != NULL)
        end_wish(watch, at);
    pthread_mutex_unlock(&watch->lock);
}

/* -- dials ------------------------------------------------------------------------------------- */

static bool is_higher(const struct gyre_watch *watch, const struct gyre_watch_wish *wish)
{
    return watch->is.joined->rank > wish->is.rank;
}

static struct gyre_dial_goal renewal_goal(const struct gyre_watch_wish *wish)
{
    return (struct gyre_dial_goal){.rank = wish->is.rank,
                                   .purpose = GYRE_PURPOSE_RENEW,
                                   .stripe = (uint16_t)wish->is.index,
                                   .source = GYRE_WATCH_FROM_RENEWAL,
                                   .index = wish->id};
}

static void tell_gone(struct gyre_watch *watch, const struct gyre_watch_wish *wish, bool told)
{
    struct gyre_renewal news = news_of(wish, GYRE_RENEWAL_GONE);

    news.told = told;
    tell_news(watch, &news);
}

static void renewal_failed(struct gyre_watch *watch, struct gyre_watch_wish *wish, int status)
{
    wish->error = -status;
    if (status == -ECONNREFUSED && (!wish->is.first || gyre_detector_rootless(watch->detector)))
        tell_gone(watch, wish, false);
    gyre_dial_pause(watch, &wish->dial);
}

static void dial_for(struct gyre_watch *watch, struct gyre_watch_wish *wish)
{
    const struct gyre_dial_goal goal = renewal_goal(wish);

    wish->attempts += is_higher(watch, wish);
    int status = gyre_dial_begin(watch, &wish->dial, &goal);
    if (status != 0)
        renewal_failed(watch, wish, status);
}

/* The peer goes on over this connection. */
static void take_connection(struct gyre_watch *watch, struct gyre_watch_wish **at,
                            uint64_t received)
{
    struct gyre_renewal news = news_of(*at, GYRE_RENEWAL_MADE);

    news.number = (*at)->attempts;
    news.received = received;
    gyre_talk_open(&news.talk, gyre_dial_take(watch, &(*at)->dial));
    end_wish(watch, at);
    tell_news(watch, &news);
}

static void hear_answer(struct gyre_watch *watch, struct gyre_watch_wish **at,
                        const struct gyre_record *record)
{
    struct gyre_watch_wish *wish = *at;
    uint64_t received;
    uint32_t number;

    if (record->kind == GYRE_WATCH_RENEWED && is_higher(watch, wish) &&
        gyre_renewal_read(record, &number, &received)) {
        take_connection(watch, at, received);
        return;
    }
    if (record->kind == GYRE_WATCH_GONE)
        tell_gone(watch, wish, true);
    gyre_dial_pause(watch, &wish->dial);
    if (record->kind == GYRE_WATCH_WELCOME)
        wish->dial.next_at = gyre_now_ns() + TOLD_PAUSE;
}

static struct gyre_watch_wish **wish_by_id(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_wish **at = &watch->wish;

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

/* Asks the peer, which has proven itself. */
static int ask_to_renew(const struct gyre_watch *watch, struct gyre_watch_wish *wish)
{
    if (wish->is.first && is_higher(watch, wish))
        wish->dial.next_at = UINT64_MAX; /* no hanging up: the peer may have granted */
    return say_renew(&wish->dial.talk, wish->attempts, wish->is.received);
}

void gyre_watch_renewal_ready(struct gyre_watch *watch, uint32_t id)
{
    struct gyre_watch_wish **at = wish_by_id(watch, id), *wish = *at;
    struct gyre_record record = {0};
    int status;

    if (wish == NULL || wish->dial.talk.fd < 0)
        return;
    const struct gyre_dial_goal goal = renewal_goal(wish);
    while ((status = gyre_dial_proceed(watch, &wish->dial, &goal, &record)) == 0 &&
           record.kind == 0)
        if (ask_to_renew(watch, wish) != 0)
            break;
    if (status == 0 && record.kind != 0)
        hear_answer(watch, at, &record);
    else if (status != GYRE_AGAIN)
        renewal_failed(watch, wish, status);
}

/* Whether a first connection has been waited for long enough. */
static bool is_hopeless(const struct gyre_watch *watch, struct gyre_watch_wish *wish, uint64_t now)
{
    const uint64_t passed = now > wish->looked_at ? now - wish->looked_at : 0;
    const uint64_t limit = 2 * (uint64_t)watch->is.dead_time_ms * GYRE_MS;

    wish->waited += passed < COUNTED ? passed : COUNTED;
    wish->looked_at = now;
    return wish->is.first && watch->is.dead_time_ms > 0 && wish->waited > limit;
}

static void give_up_first(struct gyre_watch *watch, struct gyre_watch_wish *wish)
{
    struct gyre_renewal news = news_of(wish, GYRE_RENEWAL_FAILED);

    news.error = wish->error;
    tell_news(watch, &news);
    wish->waited = 0;
}

void gyre_watch_renewals_turn(struct gyre_watch *watch, uint64_t now)
{
    for (struct gyre_watch_wish *wish = watch->wish; wish != NULL; wish = wish->next)
        if (is_hopeless(watch, wish, now))
            give_up_first(watch, wish);
        else if (now >= wish->dial.next_at && wish->dial.talk.fd >= 0)
            renewal_failed(watch, wish, -ETIMEDOUT);
        else if (now >= wish->dial.next_at)
            dial_for(watch, wish);
}

uint64_t gyre_watch_renewals_wake(const struct gyre_watch *watch)
{
    uint64_t wake = UINT64_MAX;

    for (const struct gyre_watch_wish *wish = watch->wish; wish != NULL; wish = wish->next)
        if (wish->dial.next_at < wake)
            wake = wish->dial.next_at;
    return wake;
}

void gyre_watch_drop_renewals(struct gyre_watch *watch)
{
    while (watch->wish != NULL)
        end_wish(watch, &watch->wish);
    while (watch->news != NULL) {
        struct gyre_watch_news *news = watch->news;
        watch->news = news->next;
        gyre_talk_close(&news->is.talk);
        free(news);
    }
}

/* -- visitors ---------------------------------------------------------------------------------- */

static bool has_connection(const struct gyre_watch *watch, uint32_t rank, uint32_t index)
{
    return index < (uint32_t)watch->is.joined->peer[rank].tcps;
}

int gyre_watch_hear_renew(struct gyre_watch *watch, struct gyre_talk *talk,
                          const struct gyre_record *record)
{
    struct gyre_renewal news = {.rank = talk->shake.theirs.rank,
                                .index = talk->shake.theirs.stripe,
                                .kind = GYRE_RENEWAL_TOLD};

    if (record->kind != GYRE_WATCH_RENEW || !has_connection(watch, news.rank, news.index) ||
        !gyre_renewal_read(record, &news.number, &news.received))
        return GYRE_CORRUPT;
    if (watch->links_ended)
        return gyre_talk_say(talk, GYRE_WATCH_GONE, NULL, 0);
    gyre_talk_open(&news.talk, -1);
    if (news.rank < watch->is.joined->rank) {
        tell_news(watch, &news);
        return gyre_talk_say(talk, GYRE_WATCH_WELCOME, NULL, 0);
    }
    news.kind = GYRE_RENEWAL_ASKED;
    news.talk = *talk;
    talk->fd = -1; /* the socket and the buffers are the news' */
    talk->in = talk->out = NULL;
    tell_news(watch, &news);
    return 0;
}
