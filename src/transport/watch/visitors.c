/* Visitors at this rank's listener: ranks whose connection to this one broke, or is yet to be made.
 *
 *      listener ─▶ visitor ─▶ handshake ─▶ WELCOME ─▶ of a higher rank: the link goes on over it
 *                     │           │                └▶ of a lower rank: this rank dials (redial.c)
 *                     │           └ purpose RENEW ─▶ a data connection (renew.c)
 *                     └ whoever cannot prove the members' key, or is not in time, is hung up on
 *
 * The key is that of the job's members, so of this run of the job; the epoch stands in the claim.
 * Both ends add a nonce of their own, so nothing that was heard earlier proves anything, and each
 * connection has keys of its own. A member that agrees with others on who goes on
 * (transport/members) is told how this one stands.
 *
 * A stranger costs one place of a table and is not answered. When the table is full, or no
 * descriptor is left, the visitor that came first makes room: a rank needs a millisecond, and tries
 * again. Where no descriptor is left and nobody is here, the listener rests for a tick.
 *
 * Tested by tests/program/watch/reset.c. */
#include "transport/watch/inside.h"

#include "transport/members/record.h"
#include "transport/net/socket.h"
#include "transport/net/talk.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define PATIENCE (5 * GYRE_SECOND) /* with a visitor, when another one comes */
#define REST     (50 * GYRE_MS)    /* of a listener to which no descriptor can be given */

struct gyre_watch_visitor {
    struct gyre_talk talk;
    uint64_t since; /* 0: the place is free */
};

/* A rank of a job whose links are made at their first use may be visited by all others at once. A
 * place costs memory once it was taken. */
static uint32_t visitor_places(const struct gyre_watch *watch)
{
    return GYRE_WATCH_VISITORS + (watch->is.joined->on_demand ? watch->is.joined->n : 0);
}

static void see_off(struct gyre_watch *watch, struct gyre_watch_visitor *visitor)
{
    if (visitor->since == 0)
        return;
    if (visitor->talk.fd >= 0)
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, visitor->talk.fd, NULL);
    gyre_talk_close(&visitor->talk);
    visitor->since = 0;
}

static void see_off_the_slow(struct gyre_watch *watch, uint64_t now)
{
    for (uint32_t i = 0; i < visitor_places(watch); i++)
        if (watch->visitor[i].since != 0 && now - watch->visitor[i].since > PATIENCE)
            see_off(watch, &watch->visitor[i]);
}

/* Sees off the visitor that came first, and returns the place; NULL: nobody is here. */
static struct gyre_watch_visitor *evict_first_visitor(struct gyre_watch *watch)
{
    struct gyre_watch_visitor *first = NULL;

    for (uint32_t i = 0; i < visitor_places(watch); i++) {
        struct gyre_watch_visitor *visitor = &watch->visitor[i];
        if (visitor->since != 0 && (first == NULL || visitor->since < first->since))
            first = visitor;
    }
    if (first != NULL)
        see_off(watch, first);
    return first;
}

static struct gyre_watch_visitor *find_visitor_place(struct gyre_watch *watch)
{
    for (uint32_t i = 0; i < visitor_places(watch); i++)
        if (watch->visitor[i].since == 0)
            return &watch->visitor[i];
    return evict_first_visitor(watch);
}

/* Accepts whoever is at the listener. Where no descriptor is left, a visitor's is used, or the
 * listener rests. */
static int accept_visitor(struct gyre_watch *watch, uint64_t now)
{
    struct sockaddr_storage from;
    const int listener = watch->is.joined->listener;
    int fd;

    do
        fd = gyre_socket_accept(listener, &from);
    while ((fd == -EMFILE || fd == -ENFILE) && evict_first_visitor(watch) != NULL);
    if (fd == -EMFILE || fd == -ENFILE) {
        gyre_watch_rearm(watch, listener, 0, GYRE_WATCH_FROM_LISTENER, 0);
        watch->rests_until = now + REST;
    }
    return fd;
}

void gyre_watch_admit_visitor(struct gyre_watch *watch)
{
    uint64_t now = gyre_now_ns();

    if (watch->visitor == NULL) /* the listener was given away since the event */
        return;
    see_off_the_slow(watch, now);
    int fd = accept_visitor(watch, now);
    if (fd < 0)
        return;
    struct gyre_watch_visitor *visitor = find_visitor_place(watch);
    gyre_talk_open(&visitor->talk, fd);
    visitor->since = now;
    if (gyre_watch_start_proof(watch, &visitor->talk.shake, GYRE_HANDSHAKE_SERVER,
                               GYRE_PURPOSE_WATCH, 0) != 0 ||
        gyre_watch_listen(watch, fd, EPOLLIN, GYRE_WATCH_FROM_VISITOR,
                          (uint32_t)(visitor - watch->visitor)) != 0)
        see_off(watch, visitor);
}

uint64_t gyre_watch_visitors_wake(const struct gyre_watch *watch)
{
    return watch->rests_until != 0 ? watch->rests_until : UINT64_MAX;
}

void gyre_watch_visitors_turn(struct gyre_watch *watch, uint64_t now)
{
    if (watch->rests_until == 0 || now < watch->rests_until)
        return;
    watch->rests_until = 0;
    if (watch->visitor != NULL)
        gyre_watch_rearm(watch, watch->is.joined->listener, EPOLLIN, GYRE_WATCH_FROM_LISTENER, 0);
}

/* Tells a member that agrees with others how this one stands: it takes no part, or not yet. */
static void answer_member(struct gyre_watch *watch, struct gyre_watch_visitor *visitor)
{
    const struct gyre_members *members = watch->is.members;
    if (members) {
        struct gyre_statement statement = gyre_members_statement(members);
        (void)gyre_statement_say(&visitor->talk, GYRE_MEMBER_ANSWER, &statement, members->n);
    }
    see_off(watch, visitor);
}

/* Whether a rank that has proven the key may come: the watch's connections and those of data. */
static bool may_come(struct gyre_talk *talk)
{
    if (talk->shake.theirs.purpose == GYRE_PURPOSE_RENEW)
        talk->shake.mine.purpose = GYRE_PURPOSE_RENEW;
    return gyre_handshake_judge(&talk->shake) == GYRE_REFUSAL_NONE;
}

/* Takes a rank whose watch's connection to this rank broke. */
static void welcome(struct gyre_watch *watch, struct gyre_watch_visitor *visitor)
{
    struct gyre_talk *talk = &visitor->talk;
    const uint32_t rank = talk->shake.theirs.rank;
    const uint16_t wire = talk->shake.theirs.stripe;
    int index = gyre_detector_channel(watch->detector, rank);
    struct gyre_traffic_keys keys;

    if (index < 0 || watch->link[index].node || gyre_talk_keys(talk, "gyre watch", &keys) != 0 ||
        gyre_talk_say(talk, GYRE_WATCH_WELCOME, NULL, 0) != 0 || gyre_talk_pending(talk)) {
        see_off(watch, visitor);
    } else if (rank > watch->is.joined->rank) {
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, talk->fd, NULL);
        gyre_watch_reopen_link(watch, (uint32_t)index, gyre_talk_take(talk), wire, &keys);
        visitor->since = 0;
    } else {
        see_off(watch, visitor);
        if (gyre_detector_closed(watch->detector, (uint32_t)index))
            gyre_detector_called(watch->detector, gyre_now_ns(), (uint32_t)index);
        else if (wire == watch->link[index].wire)
            gyre_watch_break(watch, (uint32_t)index, -ECONNRESET);
    }
    gyre_wipe(&keys, sizeof keys);
}

/* Acts on the record of a rank whose data connection to this rank broke, or is yet to be made. */
static void admit_renewal(struct gyre_watch *watch, struct gyre_watch_visitor *visitor,
                          const struct gyre_record *record)
{
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, visitor->talk.fd, NULL);
    (void)gyre_watch_hear_renew(watch, &visitor->talk, record);
    gyre_talk_close(&visitor->talk); /* of one that was answered, or made no sense */
    visitor->since = 0;
}

/* Acts on a visitor's proof of the key. False: that was all; true: a record of it follows. */
static bool take_proof(struct gyre_watch *watch, struct gyre_watch_visitor *visitor)
{
    const uint16_t purpose = visitor->talk.shake.theirs.purpose;

    if (purpose == GYRE_PURPOSE_MEMBERS)
        answer_member(watch, visitor);
    else if (!may_come(&visitor->talk))
        see_off(watch, visitor);
    else if (purpose == GYRE_PURPOSE_RENEW)
        return true;
    else
        welcome(watch, visitor);
    return false;
}

void gyre_watch_hear_visitor(struct gyre_watch *watch, uint32_t place)
{
    struct gyre_watch_visitor *visitor = &watch->visitor[place];
    struct gyre_record record;
    int status;

    if (watch->visitor == NULL || visitor->since == 0)
        return;
    while ((status = gyre_talk_step(&visitor->talk, &record)) == 0 && record.kind == 0)
        if (!take_proof(watch, visitor))
            return;
    if (status == 0)
        admit_renewal(watch, visitor, &record);
    else if (status != GYRE_AGAIN || gyre_talk_pending(&visitor->talk))
        see_off(watch, visitor);
}

int gyre_watch_open_visitors(struct gyre_watch *watch)
{
    if (watch->is.joined->listener < 0)
        return 0;
    watch->visitor = calloc(visitor_places(watch), sizeof *watch->visitor);
    if (watch->visitor == NULL)
        return -ENOMEM;
    return gyre_watch_listen(watch, watch->is.joined->listener, EPOLLIN, GYRE_WATCH_FROM_LISTENER,
                             0);
}

void gyre_watch_drop_visitors(struct gyre_watch *watch)
{
    for (uint32_t i = 0; watch->visitor != NULL && i < visitor_places(watch); i++)
        if (watch->visitor[i].since != 0)
            gyre_talk_close(&watch->visitor[i].talk);
    free(watch->visitor);
    watch->visitor = NULL;
}
