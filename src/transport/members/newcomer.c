/* A process asks a job that runs to take it in.
 *
 *     look for the room ─▶ PLACE ─▶ listen, ASK ─▶ WAIT … ─▶ TAKEN, SEATS, VIEW ─▶ the epoch's join
 *          ▲                                        │  └ REFUSED, OVER: it fails
 *          └──── the connection ends, or is silent ─┘
 *
 * The connection ends without a word where the room moves, because rank 0 has left the job or was
 * lost, where members were lost while they took newcomers in, and where rank 0 lacks memory for one
 * more. A process asks anew until its time is over.
 *
 * Tested by tests/unit/transport/members/newcomer_test.c, and between processes by
 * tests/program/failures/grow.c. */
#include "transport/members/newcomer.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/join/join.h"
#include "transport/members/record.h"
#include "transport/members/waiting_room.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 4096, TICK_MS = 100 };

#define SILENCE       (5 * GYRE_SECOND) /* of the room, which speaks each second */
#define PAUSE         (20 * GYRE_MS)    /* between attempts */
#define RECORD_MOST   (8u << 20)
#define FOUNDERS_MOST (1u << 20)

struct ask {
    struct gyre_job *job;
    const struct gyre_join_options *options;
    struct gyre_trouble *trouble;
    uint64_t deadline, heard_at;
    bool taken;
    struct gyre_talk talk;
    struct sockaddr_storage address; /* of the listener, once there is one */
    int listener;
    uint32_t ranks, waiting; /* as the room says */
    uint32_t hung_up;        /* attempts that ended without a word */
    struct gyre_members *members;
};

/* -- what the room says ------------------------------------------------------------------------ */

/* Whether the other end of a conversation is on this machine. */
static bool is_on_this_machine(const struct gyre_talk *talk, const struct sockaddr_storage *own)
{
    struct sockaddr_storage there;
    socklen_t length = sizeof there;
    if (getpeername(talk->fd, (struct sockaddr *)&there, &length))
        return false;
    gyre_address_normalise(&there);
    return gyre_address_same_host(&there, own);
}

/* A newcomer on rank 0's machine listens where rank 0 does. It may have come by loopback, where
 * ranks of other machines cannot find it, or by another address to ranks that have loopback only.
 */
static int open_ask_listener(struct ask *ask, const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    struct sockaddr_storage root;
    gyre_address_get(&in, &root);
    if (in.bad || in.at != in.end || ask->listener >= 0)
        return GYRE_CORRUPT;
    if (root.ss_family &&
        (gyre_address_is_loopback(&ask->address) ||
         (gyre_address_is_loopback(&root) && is_on_this_machine(&ask->talk, &ask->address))))
        ask->address = root;
    gyre_address_set_port(&ask->address, 0);
    ask->listener =
        gyre_socket_listen(&ask->address, ask->options->port_low, ask->options->port_high, BACKLOG);
    return ask->listener >= 0
               ? 0
               : gyre_trouble_set(ask->trouble, ask->listener,
                                  "a newcomer on %s cannot listen at a port of %u-%u "
                                  "(GYRE_PORT_RANGE): %s",
                                  gyre_host_name(), ask->options->port_low, ask->options->port_high,
                                  strerror(-ask->listener));
}

static int say_ask(struct ask *ask)
{
    uint8_t payload[GYRE_SEAT_BYTES + 2 + GYRE_NEWCOMER_TEXT];
    const char *text = ask->options->configuration_text;
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    struct gyre_seat seat = {.pid = getpid(), .address = ask->address};
    snprintf(seat.host, sizeof seat.host, "%s", gyre_host_name());
    gyre_seat_put(&out, &seat);
    gyre_put_text(&out, text ? text : "", GYRE_NEWCOMER_TEXT);
    return gyre_talk_say(&ask->talk, GYRE_NEWCOMER_ASK, payload, (size_t)(out.at - payload));
}

static int hear_wait(struct ask *ask, const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    ask->ranks = (uint32_t)gyre_get_u64(&in, 4);
    ask->waiting = (uint32_t)gyre_get_u64(&in, 4);
    return in.bad ? GYRE_CORRUPT : 0;
}

static int hear_refused(struct ask *ask, const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    char why[GYRE_TROUBLE_MAX];
    gyre_get_text(&in, why, sizeof why);
    return gyre_trouble_set(ask->trouble, GYRE_REFUSED, "the job refuses this process: %s", why);
}

/* Makes the members, of whom SEATS and VIEW tell next, with their key, which the key of the place
 * has hidden. */
static int hear_taken(struct ask *ask, const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    struct gyre_members told = {0}, *members;
    uint8_t nonce[GYRE_NONCE_BYTES];
    gyre_get_bytes(&in, nonce, sizeof nonce);
    gyre_get_bytes(&in, told.key, sizeof told.key);
    gyre_get_bytes(&in, told.id, sizeof told.id);
    gyre_get_bytes(&in, told.key_id, sizeof told.key_id);
    const uint32_t founders = (uint32_t)gyre_get_u64(&in, 4), seat = (uint32_t)gyre_get_u64(&in, 4);
    if (in.bad || in.at != in.end || ask->members || !founders || founders > FOUNDERS_MOST ||
        seat < founders || seat - founders >= GYRE_NEWCOMERS_OF_A_JOB)
        return GYRE_CORRUPT;
    members = ask->members = gyre_members_make_seats(founders);
    if (!members)
        return gyre_trouble_set(ask->trouble, -ENOMEM, "no memory for %u ranks", founders);
    members->seat = seat;
    members->met = *ask->job;
    memcpy(members->key, told.key, sizeof members->key);
    memcpy(members->id, told.id, sizeof members->id);
    memcpy(members->key_id, told.key_id, sizeof members->key_id);
    return gyre_key_hide(ask->job->key, nonce, members->key);
}

/* Takes the view in which this process stands. What follows is the epoch's join. */
static int hear_view(struct ask *ask, const struct gyre_record *record)
{
    struct gyre_members *members = ask->members;
    struct gyre_statement view;
    if (!members || gyre_statement_decode(record, members->n, &view) ||
        view.standing[members->seat] != GYRE_STANDS)
        return GYRE_CORRUPT;
    gyre_members_expect(members, view.standing, view.epoch);
    ask->taken = true;
    return 0;
}

static int hear_room(struct ask *ask, const struct gyre_record *record)
{
    int status;
    switch (record->kind) {
    case GYRE_NEWCOMER_PLACE:
        status = open_ask_listener(ask, record);
        return status ? status : say_ask(ask);
    case GYRE_NEWCOMER_WAIT:
        return hear_wait(ask, record);
    case GYRE_NEWCOMER_REFUSED:
        return hear_refused(ask, record);
    case GYRE_NEWCOMER_OVER:
        return gyre_trouble_set(ask->trouble, GYRE_PEER_LOST,
                                "the job has ended while this process waited to be taken in");
    case GYRE_NEWCOMER_TAKEN:
        return hear_taken(ask, record);
    case GYRE_MEMBER_SEATS:
        return ask->members ? gyre_seats_read(record, 0, ask->members->n, ask->members->at)
                            : GYRE_CORRUPT;
    case GYRE_MEMBER_VIEW:
        return hear_view(ask, record);
    default:
        return GYRE_CORRUPT;
    }
}

/* -- the wait ---------------------------------------------------------------------------------- */

/* Forgets an attempt, so that the next one begins like the first. */
static void drop_ask(struct ask *ask)
{
    gyre_talk_close(&ask->talk);
    if (ask->listener >= 0)
        close(ask->listener);
    ask->listener = -1;
    gyre_members_release(ask->members);
    ask->members = NULL;
}

static void pause_between_asks(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE};
    nanosleep(&pause, NULL);
}

static int not_taken_in(struct ask *ask)
{
    return gyre_trouble_set(ask->trouble, GYRE_TIMED_OUT,
                            "the job of %u ranks has not taken this process in within %.1f s; %u "
                            "process%s at rank 0: do its ranks call gyre_grow()?",
                            ask->ranks, ask->options->join_timeout_ms / 1000.0, ask->waiting,
                            ask->waiting == 1 ? " waits" : "es wait");
}

/* Acts on all that the room has said. 0: on all of it; negative: this attempt is over. */
static int hear_room_out(struct ask *ask)
{
    struct gyre_record record;
    int status = 0;
    while (!status && !ask->taken && !(status = gyre_talk_step(&ask->talk, &record))) {
        ask->heard_at = gyre_now_ns();
        if (record.kind)
            status = hear_room(ask, &record);
    }
    return status == GYRE_AGAIN ? 0 : status;
}

/* Listens to the room until this process is taken in: 0. GYRE_AGAIN: the room has moved. */
static int wait_in_room(struct ask *ask)
{
    ask->talk.limit = RECORD_MOST;
    ask->heard_at = gyre_now_ns();
    while (!ask->taken) {
        struct pollfd wait = {.fd = ask->talk.fd,
                              .events = gyre_talk_pending(&ask->talk) ? POLLIN | POLLOUT : POLLIN};
        poll(&wait, 1, TICK_MS);
        if (hear_room_out(ask))
            return ask->trouble->status ? ask->trouble->status : GYRE_AGAIN;
        const uint64_t now = gyre_now_ns();
        if (!ask->taken && now > ask->deadline)
            return not_taken_in(ask);
        if (!ask->taken && now > ask->heard_at + SILENCE)
            return GYRE_AGAIN;
    }
    return 0;
}

static int ask_time_left_ms(const struct ask *ask)
{
    uint64_t now = gyre_now_ns();
    return now >= ask->deadline ? 1 : (int)((ask->deadline - now) / GYRE_MS) + 1;
}

/* One attempt: finds the room and waits in it. GYRE_AGAIN: the next may go better. */
static int attempt_to_ask(struct ask *ask)
{
    struct gyre_join_options options = *ask->options;
    options.join_timeout_ms = ask_time_left_ms(ask);
    int status = gyre_join_find_room(ask->job, &options, &ask->talk, &ask->address, ask->trouble);
    if (!status)
        status = wait_in_room(ask);
    return status;
}

/* Tells of the attempts before the last one, which had little time or none. */
static int tell_hang_ups(struct ask *ask)
{
    const double seconds = ask->options->join_timeout_ms / 1000.0;
    gyre_trouble_set(ask->trouble, GYRE_TIMED_OUT, "not taken in within %.1f s", seconds);
    if (ask->hung_up)
        gyre_trouble_wrap(ask->trouble,
                          "the job has hung up on this process %u time%s, as where rank 0 is short "
                          "of memory or descriptors",
                          ask->hung_up, ask->hung_up == 1 ? "" : "s");
    return GYRE_TIMED_OUT;
}

/* Asks until the answer is another than GYRE_AGAIN, or the time is over. */
static int ask_in_time(struct ask *ask)
{
    int status;
    while ((status = attempt_to_ask(ask)) == GYRE_AGAIN) {
        drop_ask(ask);
        ask->hung_up++;
        if (gyre_now_ns() > ask->deadline)
            return tell_hang_ups(ask);
        pause_between_asks();
    }
    return status == GYRE_TIMED_OUT ? tell_hang_ups(ask) : status;
}

static void leave_with_company(struct ask *ask, struct gyre_members **members,
                               struct gyre_company *company)
{
    const struct gyre_members *made = *members = ask->members;
    company->rank = gyre_members_rank(made->next, made->n, made->seat);
    company->n = gyre_members_count(made->next, made->n);
    company->listener = ask->listener;
    company->address = ask->address;
    *company->talk = ask->talk;
}

int gyre_newcomer_ask(struct gyre_job *job, const struct gyre_join_options *options,
                      struct gyre_members **members, struct gyre_company *company,
                      struct gyre_trouble *trouble)
{
    struct ask ask = {.job = job, .options = options, .trouble = trouble, .listener = -1};
    int status;
    ask.deadline = gyre_now_ns() + (uint64_t)options->join_timeout_ms * GYRE_MS;
    *company = (struct gyre_company){.listener = -1, .rank = 1};
    company->talk = calloc(1, sizeof *company->talk);
    if (!company->talk)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to ask the job");
    gyre_talk_open(company->talk, -1);
    gyre_talk_open(&ask.talk, -1);
    status = ask_in_time(&ask);
    if (!status) {
        leave_with_company(&ask, members, company);
        return 0;
    }
    drop_ask(&ask);
    gyre_company_close(company);
    return status;
}
