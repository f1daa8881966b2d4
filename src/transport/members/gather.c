/* Members find each other and agree: the agreement's I/O.
 *
 *     guests   connections to this member's listener: calls and probes of other members
 *     dials    connections to others: this member's call, and its probes
 *
 *      a member                                      the coordinator
 *         │ ── CALL ─────────────────────────────────────▶ │
 *         │ ◀─────────────────────────────── ANSWER, beats │ ── PROBE ──▶ a member on its way
 *         │ ◀──────────────────────────────────────── VIEW │ ◀─ ANSWER ──
 *         ╰── the same connection serves the join of the next epoch ──╯
 *
 * Newcomers that wait at the coordinator (waiting_room.c) are told the view as well, and who the
 * members are; and the members who the newcomers are (SEATS), before the VIEW.
 *
 * A member that takes part in no agreement answers through its watch (watch/visitors.c), and hangs
 * up. So a call to it is made again, a little later.
 *
 * Tested by tests/program/failures/shrink.c. */
#include "transport/members/gather.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "transport/members/record.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE = 16, TICK_MS = 20 };

#define FIRST_PAUSE GYRE_MS
#define MOST_PAUSE  (20 * GYRE_MS)
#define ATTEMPT     (2 * GYRE_SECOND)  /* after which a dial that brought nothing is made anew */
#define STRANGER    (5 * GYRE_SECOND)  /* that a guest may take to prove the key */
#define SUSPECT     (250 * GYRE_MS)    /* that a suspected member has to answer */
#define FIRST_LINE  (10 * GYRE_SECOND) /* before those are named that have not called */
#define LAST_WORDS  (100 * GYRE_MS)    /* for members that leave, to be told */
#define NOBODY      UINT32_MAX

struct member_guest {
    struct gyre_talk talk; /* fd -1: the place is free */
    uint64_t since;
    uint32_t seat; /* NOBODY until it has proven the key */
    bool calls;
};

struct member_dial {
    struct gyre_talk talk;
    bool connecting, calls;
    uint64_t next_at, pause; /* the next attempt, or the end of this one */
};

struct member_gathering {
    const struct gyre_gather_options *is;
    struct gyre_members *members;
    struct gyre_membership *agreement;
    struct gyre_trouble *trouble;
    uint64_t now, beat_at, line_at;
    uint32_t n, seats, guests; /* seats: those that somebody has or had */
    struct member_guest *guest;
    struct member_dial *dial; /* seats */
    struct pollfd *wait;      /* listener, guests, dials */
};

static int start_proof(const struct member_gathering *gather, struct gyre_handshake *shake,
                       enum gyre_handshake_side side)
{
    const struct gyre_members *members = gather->members;
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = members->epoch,
                               .rank = members->seat,
                               .world = members->n,
                               .purpose = GYRE_PURPOSE_MEMBERS};
    uint8_t nonce[GYRE_NONCE_BYTES];
    memcpy(claim.job, members->id, sizeof claim.job);
    memcpy(claim.key_id, members->key_id, sizeof claim.key_id);
    int status = gyre_random_bytes(nonce, sizeof nonce);
    return status ? status : gyre_handshake_start(shake, side, &claim, members->key, nonce);
}

static void say(const struct member_gathering *gather, struct gyre_talk *talk,
                enum gyre_member_record kind)
{
    struct gyre_statement statement = gyre_membership_statement(gather->agreement);
    /* A broken connection is seen when it is read. */
    (void)gyre_statement_say(talk, kind, &statement, gather->n);
}

/* -- guests ------------------------------------------------------------------------------------ */

static void see_guest_off(struct member_gathering *gather, struct member_guest *guest)
{
    if (guest->calls)
        gyre_membership_hung_up(gather->agreement, gather->now, guest->seat);
    gyre_talk_close(&guest->talk);
    *guest = (struct member_guest){.seat = NOBODY};
    gyre_talk_open(&guest->talk, -1);
}

/* Finds a place; where all are taken, that of the stranger who has waited longest. NULL: all are
 * members'. */
static struct member_guest *find_guest_place(struct member_gathering *gather)
{
    struct member_guest *oldest = NULL;
    for (uint32_t i = 0; i < gather->guests; i++) {
        struct member_guest *guest = &gather->guest[i];
        if (guest->talk.fd < 0)
            return guest;
        if (guest->seat == NOBODY && (!oldest || guest->since < oldest->since))
            oldest = guest;
    }
    if (oldest)
        see_guest_off(gather, oldest);
    return oldest;
}

static void admit_guest(struct member_gathering *gather)
{
    struct sockaddr_storage from;
    int fd = gyre_socket_accept(gather->is->listener, &from);
    struct member_guest *guest = fd >= 0 ? find_guest_place(gather) : NULL;
    if (!guest) {
        gyre_socket_drop(fd);
        return;
    }
    gyre_talk_open(&guest->talk, fd);
    guest->since = gather->now;
    if (start_proof(gather, &guest->talk.shake, GYRE_HANDSHAKE_SERVER))
        see_guest_off(gather, guest);
}

/* Takes a guest that has proven the key. A member that comes again has lost its first connection.
 */
static void know_guest(struct member_gathering *gather, struct member_guest *guest)
{
    const struct gyre_claim *claim = &guest->talk.shake.theirs;
    if (claim->purpose != GYRE_PURPOSE_MEMBERS || claim->rank >= gather->seats ||
        claim->rank == gather->members->seat) {
        see_guest_off(gather, guest);
        return;
    }
    guest->seat = claim->rank;
    guest->talk.limit = GYRE_RECORD_SMALL + gather->n;
    gyre_socket_tune(guest->talk.fd, gather->is->dead_time_ms);
    gyre_membership_hears(gather->agreement, gather->now, guest->seat);
}

static void drop_earlier_calls(struct member_gathering *gather, const struct member_guest *newest)
{
    for (uint32_t i = 0; i < gather->guests; i++)
        if (&gather->guest[i] != newest && gather->guest[i].seat == newest->seat)
            see_guest_off(gather, &gather->guest[i]);
}

static void hear_guest(struct member_gathering *gather, struct member_guest *guest,
                       const struct gyre_record *record)
{
    struct gyre_statement call;
    if (guest->seat == NOBODY) {
        know_guest(gather, guest);
        return;
    }
    if (gyre_statement_decode(record, gather->n, &call) ||
        (record->kind != GYRE_MEMBER_CALL && record->kind != GYRE_MEMBER_PROBE)) {
        see_guest_off(gather, guest);
        return;
    }
    if (record->kind == GYRE_MEMBER_CALL) {
        drop_earlier_calls(gather, guest);
        gyre_membership_called(gather->agreement, gather->now, guest->seat, &call);
        guest->calls = true;
    }
    say(gather, &guest->talk, GYRE_MEMBER_ANSWER);
}

static void serve_guest(struct member_gathering *gather, struct member_guest *guest)
{
    struct gyre_record record;
    int status = 0;
    while (guest->talk.fd >= 0 && (status = gyre_talk_step(&guest->talk, &record)) == 0)
        hear_guest(gather, guest, &record);
    if (guest->talk.fd >= 0 && status != GYRE_AGAIN)
        see_guest_off(gather, guest);
}

/* -- dials ------------------------------------------------------------------------------------- */

/* Ends an attempt, and tries again after a pause, which grows. */
static void dial_later(struct member_gathering *gather, struct member_dial *dial)
{
    gyre_talk_close(&dial->talk);
    dial->calls = false;
    dial->next_at = gather->now + dial->pause;
    dial->pause = 2 * dial->pause < MOST_PAUSE ? 2 * dial->pause : MOST_PAUSE;
}

static void seat_dial_failed(struct member_gathering *gather, uint32_t seat, int error)
{
    if (error == ECONNREFUSED)
        gyre_membership_refused(gather->agreement, gather->now, seat);
    dial_later(gather, &gather->dial[seat]);
}

static int connect_to_seat(const struct member_gathering *gather, uint32_t seat)
{
    const struct gyre_seat *at = gather->members->at;
    return gyre_socket_connect_peer(&at[seat].address, &at[gather->members->seat].address);
}

static void dial_member(struct member_gathering *gather, uint32_t seat)
{
    struct member_dial *dial = &gather->dial[seat];
    int fd = connect_to_seat(gather, seat);
    gyre_membership_looks(gather->agreement, gather->now, seat);
    if (fd < 0) {
        seat_dial_failed(gather, seat, -fd);
        return;
    }
    gyre_talk_open(&dial->talk, fd);
    dial->connecting = true;
    dial->next_at = gather->now + ATTEMPT;
    if (start_proof(gather, &dial->talk.shake, GYRE_HANDSHAKE_CLIENT))
        seat_dial_failed(gather, seat, EIO);
}

/* The other side has proven the key. The member to call is called, others are probed. */
static void greet_member(struct member_gathering *gather, uint32_t seat)
{
    struct member_dial *dial = &gather->dial[seat];
    dial->talk.limit = GYRE_RECORD_SMALL + gather->n;
    dial->calls = gyre_membership_target(gather->agreement) == seat;
    gyre_socket_tune(dial->talk.fd, gather->is->dead_time_ms);
    say(gather, &dial->talk, dial->calls ? GYRE_MEMBER_CALL : GYRE_MEMBER_PROBE);
}

static void hear_member(struct member_gathering *gather, uint32_t seat,
                        const struct gyre_record *record)
{
    struct member_dial *dial = &gather->dial[seat];
    struct gyre_statement heard;
    if (!record->kind) {
        greet_member(gather, seat);
        return;
    }
    if (record->kind == GYRE_MEMBER_CUT_OFF) {
        gyre_membership_cut_off(gather->agreement, seat);
    } else if (record->kind == GYRE_MEMBER_SEATS && dial->calls) {
        if (gyre_seats_read(record, gather->seats, gather->n, gather->members->at))
            dial_later(gather, dial);
    } else if (gyre_statement_decode(record, gather->n, &heard)) {
        dial_later(gather, dial);
    } else if (record->kind == GYRE_MEMBER_VIEW && dial->calls) {
        gyre_membership_view_came(gather->agreement, gather->now, seat, &heard);
    } else {
        gyre_membership_answered(gather->agreement, gather->now, seat, &heard);
        dial->next_at = gather->now + ATTEMPT;
        if (!dial->calls || heard.coordinator == NOBODY)
            dial_later(gather, dial);
    }
}

static bool still_open(const struct member_gathering *gather)
{
    return gyre_membership_outcome(gather->agreement) == GYRE_MEMBERSHIP_OPEN;
}

static void serve_dial(struct member_gathering *gather, uint32_t seat)
{
    struct member_dial *dial = &gather->dial[seat];
    struct gyre_record record;
    int status = dial->connecting ? gyre_socket_connected(dial->talk.fd) : 0;
    if (status) {
        seat_dial_failed(gather, seat, -status);
        return;
    }
    dial->connecting = false;
    while (still_open(gather) && dial->talk.fd >= 0 &&
           (status = gyre_talk_step(&dial->talk, &record)) == 0)
        hear_member(gather, seat, &record);
    if (dial->talk.fd < 0 || status == GYRE_AGAIN || !still_open(gather))
        return;
    gyre_membership_hears(gather->agreement, gather->now, seat); /* it lives, or was just ending */
    dial_later(gather, dial);
}

/* Starts dials that are needed, and ends others. */
static void turn_dials(struct member_gathering *gather)
{
    for (uint32_t seat = 0; seat < gather->seats; seat++) {
        struct member_dial *dial = &gather->dial[seat];
        bool wanted = gyre_membership_looks_for(gather->agreement, seat), open = dial->talk.fd >= 0;
        if (open && (!wanted || gather->now >= dial->next_at))
            dial_later(gather, dial);
        else if (!open && wanted && gather->now >= dial->next_at)
            dial_member(gather, seat);
    }
}

/* -- the loop ---------------------------------------------------------------------------------- */

static short talk_events(const struct gyre_talk *talk, bool connecting)
{
    return connecting || gyre_talk_pending(talk) ? POLLIN | POLLOUT : POLLIN;
}

/* How long nothing has to be done: until the next dial, at most 20 ms. */
static int wait_ms(const struct member_gathering *gather)
{
    uint64_t until = gather->now + TICK_MS * GYRE_MS;
    for (uint32_t seat = 0; seat < gather->seats; seat++)
        if (gather->dial[seat].talk.fd < 0 && gather->dial[seat].next_at < until &&
            gyre_membership_looks_for(gather->agreement, seat))
            until = gather->dial[seat].next_at;
    return until <= gather->now ? 0 : (int)((until - gather->now + GYRE_MS - 1) / GYRE_MS);
}

static void await_descriptors(struct member_gathering *gather)
{
    struct pollfd *guests = gather->wait + 1, *dials = guests + gather->guests;
    gather->wait[0] = (struct pollfd){.fd = gather->is->listener, .events = POLLIN};
    for (uint32_t i = 0; i < gather->guests; i++)
        guests[i] = (struct pollfd){.fd = gather->guest[i].talk.fd,
                                    .events = talk_events(&gather->guest[i].talk, false)};
    for (uint32_t seat = 0; seat < gather->seats; seat++)
        dials[seat] = (struct pollfd){
            .fd = gather->dial[seat].talk.fd,
            .events = talk_events(&gather->dial[seat].talk, gather->dial[seat].connecting)};
    poll(gather->wait, 1 + gather->guests + gather->seats, wait_ms(gather));
    gather->now = gyre_now_ns();
}

/* Serves what is ready. A talk that was closed meanwhile has another descriptor, or none. */
static void serve_members(struct member_gathering *gather)
{
    const struct pollfd *guests = gather->wait + 1, *dials = guests + gather->guests;
    for (uint32_t i = 0; i < gather->guests; i++)
        if (guests[i].revents && gather->guest[i].talk.fd == guests[i].fd)
            serve_guest(gather, &gather->guest[i]);
    for (uint32_t seat = 0; seat < gather->seats; seat++)
        if (dials[seat].revents && gather->dial[seat].talk.fd == dials[seat].fd)
            serve_dial(gather, seat);
    if (gather->wait[0].revents)
        admit_guest(gather);
}

/* Answers all callers from time to time, so that they know that this member lives; hangs up on
 * strangers that say nothing. */
static void turn_guests(struct member_gathering *gather)
{
    uint64_t dead = (uint64_t)gather->is->dead_time_ms * GYRE_MS;
    bool beat = gather->now >= gather->beat_at;
    if (beat)
        gather->beat_at = gather->now + (dead && dead < 8 * GYRE_SECOND ? dead / 8 : GYRE_SECOND);
    for (uint32_t i = 0; i < gather->guests; i++) {
        struct member_guest *guest = &gather->guest[i];
        if (guest->seat == NOBODY && guest->talk.fd >= 0 && gather->now > guest->since + STRANGER)
            see_guest_off(gather, guest);
        else if (guest->calls && beat)
            say(gather, &guest->talk, GYRE_MEMBER_ANSWER);
    }
}

/* Lists the members that live and have not called: "rank 3 on host (pid 7), rank 5 on …". */
static void list_awaited(const struct member_gathering *gather, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t seat = 0; seat < gather->seats && used + GYRE_MEMBER_WHO_MAX < size; seat++) {
        char who[GYRE_MEMBER_WHO_MAX];
        if (gyre_membership_awaits(gather->agreement, seat))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     gyre_members_who(gather->members, seat, who));
    }
}

static void name_awaited(struct member_gathering *gather)
{
    char missing[400];
    if (gather->now < gather->line_at ||
        gyre_membership_target(gather->agreement) != gather->members->seat)
        return;
    gather->line_at = gather->now + FIRST_LINE;
    list_awaited(gather, missing, sizeof missing);
    gyre_log(GYRE_LOG_WARN, "%s waits for %s", gather->is->made_by, missing);
}

static void gather_all(struct member_gathering *gather)
{
    gather->now = gyre_now_ns();
    gather->line_at = gather->now + FIRST_LINE;
    while (still_open(gather)) {
        turn_dials(gather);
        turn_guests(gather);
        name_awaited(gather);
        await_descriptors(gather);
        serve_members(gather);
        gyre_membership_tick(gather->agreement, gather->now);
    }
}

/* -- outcome ----------------------------------------------------------------------------------- */

static int set_fenced(const struct member_gathering *gather)
{
    char who[GYRE_MEMBER_WHO_MAX];
    return gyre_trouble_set(gather->trouble, GYRE_PEER_LOST,
                            "the other ranks have gone on without %s, which they took for lost: "
                            "it was silent for the dead time, or cut off",
                            gyre_members_who(gather->members, gather->members->seat, who));
}

static int set_cut_off(const struct member_gathering *gather)
{
    return gyre_trouble_set(
        gather->trouble, GYRE_PEER_LOST,
        "half of the ranks or more are silent but not known to have ended, and may have gone on "
        "by themselves: their hosts are down, or the network between them and this rank is cut. "
        "Start the job again from its newest checkpoint");
}

static int set_late(const struct member_gathering *gather)
{
    char missing[600];
    list_awaited(gather, missing, sizeof missing);
    return gyre_trouble_set(gather->trouble, GYRE_TIMED_OUT,
                            "not all ranks have called %s within %.1f s; missing: %s",
                            gather->is->made_by, gather->is->limit_ms / 1000.0,
                            missing[0] ? missing : "those that another rank waits for");
}

/* Says how it ended to all callers, and gives the sockets a moment to take it. */
static void tell_callers(struct member_gathering *gather, enum gyre_member_record kind)
{
    uint64_t until = gyre_now_ns() + LAST_WORDS;
    for (uint32_t i = 0; i < gather->guests; i++)
        if (gather->guest[i].calls)
            say(gather, &gather->guest[i].talk, kind);
    for (uint32_t i = 0; i < gather->guests; i++)
        if (gather->guest[i].calls)
            gyre_talk_drain(&gather->guest[i].talk, until);
}

/* Tells the callers who comes, and the newcomers who is there. What follows is the view. */
static void introduce_newcomers(struct member_gathering *gather, uint32_t first, uint32_t count)
{
    struct gyre_members *members = gather->members;
    uint64_t until = gyre_now_ns() + LAST_WORDS;
    for (uint32_t i = 0; i < count; i++)
        members->at[first + i] = gather->is->newcomer[i].seat;
    for (uint32_t i = 0; i < gather->guests; i++)
        if (gather->guest[i].calls)
            (void)gyre_seats_say(&gather->guest[i].talk, members->at, first, count);
    for (uint32_t i = 0; i < count; i++) {
        struct gyre_talk *talk = &gather->is->newcomer[i].talk;
        (void)gyre_newcomer_say_taken(talk, members, first + i);
        (void)gyre_seats_say(talk, members->at, 0, first + count);
        say(gather, talk, GYRE_MEMBER_VIEW);
        gyre_talk_drain(talk, until);
    }
}

/* Takes the conversation of a caller for the next epoch. */
static void keep_talk(struct gyre_company *company, uint32_t rank, struct gyre_talk *talk)
{
    company->talk[rank] = *talk;
    gyre_talk_open(talk, -1);
}

static void keep_callers(struct member_gathering *gather, struct gyre_company *company)
{
    const uint8_t *next = gather->members->next;
    for (uint32_t i = 0; i < gather->guests; i++) {
        struct member_guest *guest = &gather->guest[i];
        uint32_t rank = guest->calls ? gyre_members_rank(next, gather->n, guest->seat) : UINT32_MAX;
        if (rank < company->n)
            keep_talk(company, rank, &guest->talk);
    }
}

static void keep_newcomers(struct member_gathering *gather, struct gyre_company *company,
                           uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        keep_talk(company, gyre_members_rank(gather->members->next, gather->n, first + i),
                  &gather->is->newcomer[i].talk);
}

static int make_company(const struct member_gathering *gather, struct gyre_company *company)
{
    const struct gyre_members *members = gather->members;
    company->rank = gyre_members_rank(members->next, gather->n, members->seat);
    company->n = gyre_members_count(members->next, gather->n);
    company->listener = gather->is->listener;
    company->address = members->at[members->seat].address;
    const uint32_t talks = company->rank == 0 ? company->n : 1;
    company->talk = calloc(talks, sizeof *company->talk);
    if (!company->talk)
        return gyre_trouble_set(gather->trouble, -ENOMEM, "no memory for %u ranks", company->n);
    for (uint32_t i = 0; i < talks; i++)
        gyre_talk_open(&company->talk[i], -1);
    return 0;
}

/* Takes the next view, and the connections to its members. */
static int take_view(struct member_gathering *gather, struct gyre_company *company)
{
    struct gyre_statement view = gyre_membership_statement(gather->agreement);
    struct gyre_members *members = gather->members;
    uint32_t root = 0, first = gyre_members_next_seat(members->standing, members->n);
    gyre_members_expect(members, view.standing, view.epoch);
    const uint32_t coming = gyre_members_next_seat(members->standing, members->n) - first;
    if (gather->is->leaving)
        return 0;
    int status = make_company(gather, company);
    if (!status && company->rank == 0) {
        introduce_newcomers(gather, first, coming);
        tell_callers(gather, GYRE_MEMBER_VIEW);
        keep_callers(gather, company);
        keep_newcomers(gather, company, first, coming);
    } else if (!status) {
        while (members->next[root] != GYRE_STANDS)
            root++;
        keep_talk(company, 0, &gather->dial[root].talk);
    }
    return status;
}

static int conclude(struct member_gathering *gather, struct gyre_company *company)
{
    switch (gyre_membership_outcome(gather->agreement)) {
    case GYRE_MEMBERSHIP_DECIDED:
    case GYRE_MEMBERSHIP_TOLD:
        return take_view(gather, company);
    case GYRE_MEMBERSHIP_FENCED:
        return set_fenced(gather);
    case GYRE_MEMBERSHIP_CUT_OFF:
        tell_callers(gather, GYRE_MEMBER_CUT_OFF);
        return set_cut_off(gather);
    case GYRE_MEMBERSHIP_DESERTED:
        return 0;
    default:
        return set_late(gather);
    }
}

/* -- beginning and end ------------------------------------------------------------------------- */

/* Marks all places as free, as many as there is memory for: a talk of zeros has descriptor 0. */
static void empty_places(struct member_gathering *gather)
{
    for (uint32_t i = 0; gather->guest && i < gather->guests; i++) {
        gather->guest[i].seat = NOBODY;
        gyre_talk_open(&gather->guest[i].talk, -1);
    }
    for (uint32_t seat = 0; gather->dial && seat < gather->seats; seat++) {
        gather->dial[seat].pause = FIRST_PAUSE;
        gyre_talk_open(&gather->dial[seat].talk, -1);
    }
}

static int open_gathering(struct member_gathering *gather)
{
    const struct gyre_gather_options *is = gather->is;
    struct gyre_members *members = gather->members;
    const uint64_t dead = (uint64_t)is->dead_time_ms * GYRE_MS;
    const struct gyre_membership_options options = {.n = members->n,
                                                    .seat = members->seat,
                                                    .epoch = members->epoch,
                                                    .seen = members->seen,
                                                    .standing = members->standing,
                                                    .suspected = is->suspected,
                                                    .leaving = is->leaving,
                                                    .newcomers = is->newcomers,
                                                    .dead_ns = dead,
                                                    .suspect_ns = dead < SUSPECT ? dead : SUSPECT,
                                                    .limit_ns = (uint64_t)is->limit_ms * GYRE_MS};
    gather->n = members->n;
    gather->seats = gyre_members_next_seat(members->standing, members->n);
    gather->guests = gather->seats + SPARE;
    gather->guest = calloc(gather->guests, sizeof *gather->guest);
    gather->dial = calloc(gather->seats, sizeof *gather->dial);
    gather->wait = calloc(1 + gather->guests + gather->seats, sizeof *gather->wait);
    empty_places(gather);
    if (!gather->guest || !gather->dial || !gather->wait ||
        gyre_membership_create(&options, gyre_now_ns(), &gather->agreement))
        return gyre_trouble_set(gather->trouble, -ENOMEM, "no memory to gather %u ranks",
                                members->n);
    return 0;
}

static void close_gathering(struct member_gathering *gather)
{
    for (uint32_t i = 0; gather->guest && i < gather->guests; i++)
        gyre_talk_close(&gather->guest[i].talk);
    for (uint32_t seat = 0; gather->dial && seat < gather->seats; seat++)
        gyre_talk_close(&gather->dial[seat].talk);
    gyre_membership_destroy(gather->agreement);
    free(gather->guest);
    free(gather->dial);
    free(gather->wait);
}

int gyre_members_gather(const struct gyre_gather_options *options, struct gyre_company *company,
                        struct gyre_trouble *trouble)
{
    struct member_gathering gather = {
        .is = options, .members = options->members, .trouble = trouble};
    *company = (struct gyre_company){.listener = -1};
    int status = open_gathering(&gather);
    if (!status) {
        gather_all(&gather);
        status = conclude(&gather, company);
    }
    close_gathering(&gather);
    return status;
}
