/* Finds rank 0: tries every place where rank 0 may be until one proves the key.
 *
 *     idle ─▶ connecting ─▶ M1 sent ─▶ M2 proven: this is rank 0, all others are dropped
 *      ▲          │            │
 *      └─ 1, 2, 4 … ms ────────┘ refused, closed, not Gyre, or nothing said for two seconds
 *
 * Ranks start in any order, so a refused connection is normal for a while. Pauses grow to 20 ms,
 * and with the time already spent to half a second, so a thousand ranks that wait for minutes do
 * not connect a thousand times a second. The last behaviour of each place is kept for the message
 * at the end.
 *
 * Waiting helps where rank 0 is absent, not where the key is wrong: a rank on which every place
 * hangs up gives up after ten seconds, not at the end of the join timeout. A look-up of a name
 * blocks as long as the machine's resolver does, also beyond the join timeout.
 *
 * A newcomer finds the waiting room of a job that runs in the same way, at the same place.
 *
 * Tested by tests/program/job/join_refused.c and tests/program/failures/grow.c. */
#include "transport/join/inside.h"
#include "transport/join/place.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 80 };

#define SILENCE (2 * GYRE_SECOND) /* of a listener, behind this rank's hello */
/* Closed without a word for so long: the key is wrong for good. */
#define PERSIST  (10 * GYRE_SECOND)
#define NAMELESS (30 * GYRE_SECOND) /* a name that does not exist may exist soon */
/* A telling failure is not replaced by a plain one for so long. */
#define MEMORY     (5 * GYRE_SECOND)
#define FIRST_LINE (2 * GYRE_SECOND)
#define NEXT_LINE  (10 * GYRE_SECOND)

/* How a place behaved. A later value tells more. */
enum manner { UNTRIED, UNREACHED, SILENT, FOREIGN, CLOSED };

struct place {
    struct sockaddr_storage address;
    struct gyre_talk talk;
    bool connecting;
    uint64_t since, retry_at, pause, noted;
    enum manner manner;
    int error;
};

struct seek {
    struct gyre_joining *join;
    enum gyre_purpose purpose;
    struct gyre_claim claim;
    uint64_t now, find_at, find_pause, closed_since, line_at;
    struct gyre_trouble finding; /* why there is no place to try */
    int places;
    struct place place[PLACES];
    struct pollfd wait[PLACES];
};

/* The pause after the next failure: doubling to 20 ms, later a fiftieth of the time spent. */
static uint64_t next_pause(const struct seek *seek, uint64_t pause)
{
    uint64_t most = (seek->now - seek->join->started) / 50;
    most = most < 20 * GYRE_MS ? 20 * GYRE_MS : most > 500 * GYRE_MS ? 500 * GYRE_MS : most;
    return 2 * pause < most ? 2 * pause : most;
}

static void attempt_failed(struct seek *seek, struct place *place, enum manner manner, int error)
{
    gyre_socket_drop(gyre_talk_take(&place->talk));
    if (manner >= place->manner || seek->now > place->noted + MEMORY) {
        place->manner = manner;
        place->error = error;
        place->noted = seek->now;
    }
    place->retry_at = seek->now + place->pause;
    place->pause = next_pause(seek, place->pause);
    if (manner != CLOSED)
        seek->closed_since = 0;
    else if (!seek->closed_since)
        seek->closed_since = seek->now;
}

/* Notes an attempt without a socket. Without a descriptor it is the last: unless another attempt
 * is under way, whose descriptor will serve, waiting is of no use. */
static int no_socket(struct seek *seek, struct place *place, int error)
{
    attempt_failed(seek, place, UNREACHED, -error);
    if (error != -EMFILE && error != -ENFILE)
        return 0;
    for (int i = 0; i < seek->places; i++)
        if (seek->place[i].talk.fd >= 0)
            return 0;
    return gyre_join_no_descriptor(seek->join, error);
}

static int attempt(struct seek *seek, struct place *place)
{
    uint8_t nonce[GYRE_NONCE_BYTES];
    struct sockaddr_storage source = {0};
    const struct sockaddr_storage *own = &seek->join->identity[seek->join->joined->rank].outward;
    if (own->ss_family && !gyre_address_is_loopback(&place->address))
        source = *own;
    int fd = gyre_socket_connect(&place->address, &source);
    if (fd < 0)
        return no_socket(seek, place, fd);
    gyre_talk_open(&place->talk, fd);
    place->connecting = true;
    place->since = seek->now;
    if (gyre_random_bytes(nonce, sizeof nonce) ||
        gyre_handshake_start(&place->talk.shake, GYRE_HANDSHAKE_CLIENT, &seek->claim,
                             seek->join->job->key, nonce))
        attempt_failed(seek, place, UNREACHED, EIO);
    return 0;
}

/* Moves an attempt on. True: this place is rank 0. */
static bool advance_attempt(struct seek *seek, struct place *place)
{
    struct gyre_record record;
    if (place->connecting) {
        int error = gyre_socket_connected(place->talk.fd);
        if (error) {
            attempt_failed(seek, place, UNREACHED, -error);
            return false;
        }
        gyre_socket_tune(place->talk.fd, seek->join->options->dead_time_ms);
        place->connecting = false;
    }
    int status = gyre_talk_step(&place->talk, &record);
    if (!status && !gyre_handshake_reached(&place->talk.shake, 0))
        status = GYRE_CORRUPT; /* another program of the key's owner */
    if (status < 0)
        attempt_failed(seek, place, status == GYRE_CORRUPT ? FOREIGN : CLOSED, 0);
    return !status;
}

/* -- what to say ------------------------------------------------------------------------------- */

static const struct place *most_telling(const struct seek *seek)
{
    const struct place *best = seek->place;
    for (int i = 1; i < seek->places; i++)
        if (seek->place[i].manner > best->manner)
            best = &seek->place[i];
    return best;
}

static void describe_search(const struct seek *seek, char *text, size_t size)
{
    const struct place *place = most_telling(seek);
    const uint8_t *id = seek->join->job->key_id;
    char address[GYRE_ADDRESS_TEXT], mine[17];
    gyre_hex_write(id, 8, mine);
    if (!seek->places) {
        snprintf(text, size, "%s",
                 seek->finding.text[0] ? seek->finding.text : "there was no time to look");
        return;
    }
    gyre_address_format(&place->address, address);
    int used =
        snprintf(text, size, "%s%s ", address, seek->places > 1 ? " (and other places)" : "");
    if (used < 0 || (size_t)used >= size)
        return;
    text += used;
    size -= (size_t)used;
    if (place->manner == CLOSED)
        snprintf(text, size,
                 "closed without a word: another key (mine %s), another job, or not Gyre", mine);
    else if (place->manner == FOREIGN)
        snprintf(text, size, "is held by a program that is not Gyre");
    else if (place->manner == SILENT)
        snprintf(text, size, "says nothing: it is not Gyre, or rank 0 is stopped");
    else if (seek->purpose == GYRE_PURPOSE_NEWCOMER)
        snprintf(text, size, "does not answer: %s; does the job run, and call gyre_grow()?",
                 place->error ? strerror(place->error) : "no connection yet");
    else
        snprintf(
            text, size, "does not answer: %s; is rank 0 running there?%s",
            place->error ? strerror(place->error) : "no connection yet",
            place->error == ECONNREFUSED
                ? " If it is, its job has all its ranks and has begun: is this a rank too many?"
                : "");
}

static int give_up_search(struct seek *seek)
{
    char why[512];
    bool closed = seek->places && most_telling(seek)->manner == CLOSED;
    char who[32] = "this newcomer";
    describe_search(seek, why, sizeof why);
    if (seek->purpose == GYRE_PURPOSE_JOIN)
        snprintf(who, sizeof who, "rank %u", seek->join->joined->rank);
    return gyre_trouble_set(
        seek->join->trouble, closed ? GYRE_REFUSED : GYRE_TIMED_OUT,
        "%s on %s did not find rank 0 within %.1f s: %s%s", who, gyre_host_name(),
        (double)(seek->now - seek->join->started) / (double)GYRE_SECOND, why,
        seek->now < seek->join->deadline ? "; it did so each time for 10 s, so waiting longer is "
                                           "of no use"
                                         : "");
}

static void report_search(struct seek *seek)
{
    char why[512];
    if (seek->now < seek->line_at)
        return;
    seek->line_at = seek->now + NEXT_LINE;
    describe_search(seek, why, sizeof why);
    gyre_log(GYRE_LOG_WARN, "still looking for rank 0: %s", why);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static void set_seek_places(struct seek *seek, const struct sockaddr_storage *found, int count)
{
    for (int i = 0; i < seek->places; i++)
        gyre_talk_close(&seek->place[i].talk);
    for (int i = 0; i < count; i++) {
        seek->place[i] = (struct place){.address = found[i], .pause = GYRE_MS};
        gyre_talk_open(&seek->place[i].talk, -1);
    }
    seek->places = count;
}

/* Whether what leads to rank 0 may be a former job's, and is read again and again. */
static bool may_be_old(const struct seek *seek)
{
    const enum gyre_root_kind kind = seek->join->job->root_kind;
    return kind == GYRE_ROOT_FILE || kind == GYRE_ROOT_STORE;
}

/* Finds the places. A name is looked up until it is known. */
static int find_places(struct seek *seek)
{
    struct sockaddr_storage found[PLACES];
    uint8_t key_id[sizeof seek->claim.key_id];
    if ((seek->places && !may_be_old(seek)) || seek->now < seek->find_at)
        return 0;
    memcpy(key_id, seek->join->job->key_id, sizeof key_id);
    seek->finding.status = 0;
    int count = gyre_rendezvous_find(seek->join->job, found, PLACES, &seek->finding);
    seek->now = gyre_now_ns(); /* a store may have waited */
    seek->find_at = seek->now + seek->find_pause;
    seek->find_pause = next_pause(seek, seek->find_pause);
    bool later =
        count == -EAGAIN || (count == GYRE_INVALID && seek->now < seek->join->started + NAMELESS);
    if (count < 0)
        return later ? 0 : gyre_trouble_set(seek->join->trouble, count, "%s", seek->finding.text);
    bool same = count == seek->places &&
                !memcmp(&found[0], &seek->place[0].address, sizeof found[0]) &&
                !memcmp(key_id, seek->join->job->key_id, sizeof key_id);
    seek->claim = gyre_join_claim(seek->join, seek->purpose, 0);
    if (!same)
        set_seek_places(seek, found, count);
    return 0;
}

/* Starts what is due. *until: when the next is. */
static int start_attempts(struct seek *seek, uint64_t *until)
{
    uint64_t next = seek->now + 100 * GYRE_MS;
    int status = 0;
    if ((!seek->places || may_be_old(seek)) && seek->find_at < next)
        next = seek->find_at;
    for (int i = 0; i < seek->places && !status; i++) {
        struct place *place = &seek->place[i];
        if (place->talk.fd >= 0 && seek->now > place->since + SILENCE)
            attempt_failed(seek, place, place->connecting ? UNREACHED : SILENT, ETIMEDOUT);
        if (place->talk.fd < 0 && place->retry_at <= seek->now)
            status = attempt(seek, place);
        if (place->talk.fd < 0 && place->retry_at < next)
            next = place->retry_at;
    }
    *until = next < seek->join->deadline ? next : seek->join->deadline;
    return status;
}

static void wait_places(struct seek *seek, uint64_t until)
{
    for (int i = 0; i < seek->places; i++) {
        const struct place *place = &seek->place[i];
        bool writing = place->connecting || gyre_talk_pending(&place->talk);
        seek->wait[i] = (struct pollfd){.fd = place->talk.fd, .events = writing ? POLLOUT : POLLIN};
    }
    uint64_t ns = until > seek->now ? until - seek->now : 0;
    struct timespec time = {.tv_sec = (time_t)(ns / GYRE_SECOND),
                            .tv_nsec = (long)(ns % GYRE_SECOND)};
    if (ppoll(seek->wait, (nfds_t)seek->places, &time, NULL) < 0)
        for (int i = 0; i < seek->places; i++)
            seek->wait[i].revents = 0;
}

static int look_for_root(struct seek *seek, struct gyre_talk *talk)
{
    for (;;) {
        seek->now = gyre_now_ns();
        bool hopeless = seek->closed_since && seek->now > seek->closed_since + PERSIST;
        if (seek->now >= seek->join->deadline || hopeless)
            return give_up_search(seek);
        uint64_t until;
        int status = find_places(seek);
        if (!status)
            status = start_attempts(seek, &until);
        if (status)
            return status;
        report_search(seek);
        wait_places(seek, until);
        seek->now = gyre_now_ns();
        for (int i = 0; i < seek->places; i++)
            if (seek->wait[i].fd >= 0 && seek->wait[i].revents &&
                advance_attempt(seek, &seek->place[i])) {
                *talk = seek->place[i].talk;
                gyre_talk_open(&seek->place[i].talk, -1);
                return 0;
            }
    }
}

int gyre_join_seek(struct gyre_joining *join, enum gyre_purpose purpose, struct gyre_talk *talk)
{
    struct seek *seek = calloc(1, sizeof *seek);
    if (!seek)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory to look for rank 0");
    seek->join = join;
    seek->purpose = purpose;
    seek->find_pause = GYRE_MS;
    seek->line_at = join->started + FIRST_LINE;
    int status = look_for_root(seek, talk);
    set_seek_places(seek, NULL, 0);
    free(seek);
    return status;
}
