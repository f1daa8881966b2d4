/* The watch's mind.
 *
 * Beats climb a tree; everything else takes every channel there is.
 *
 *                    rank 0                  ═══ control (TCP), one to every rank of another node
 *                   ╱  ║  ╲                  ─── Unix socket, between every two ranks of a node
 *            rank 1 ───╫── rank 2
 *                      ║
 *                   rank 3 ─── rank 4        beats: 4 → 3 → 0, 1 → 0, 2 → 0, and back down
 *
 * Invariants
 *   - One failure. `record` is the only one a vigil holds; its stage only rises, CALM ▸ HELD ▸
 * PROPOSED ▸ DECIDED, and a decided record never changes. All ranks must tell the same story, so
 * rank 0 decides: what others find they propose, and they wait up to GRACE for its verdict. Silence
 * from rank 0 lets the proposal stand.
 *   - No echo. A lost connection is HELD for GRACE before it counts: if its cause arrives
 * meanwhile, the cause wins.
 *   - Own lateness is nobody's fault. The vigil's clock leaves out the time in which it did not run
 * (suspended, stopped, debugged, starved), so after a sleep of an hour everybody still has the
 * whole dead time.
 *   - Owed, not queued. Per channel a set of bits says what must still be sent; contents are read
 * when the channel has room, so a slow channel gets the newest state and needs no memory. */
#include "transport/vigil.h"

#include "base/clock.h"
#include "transport/vigil_roll.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE (200 * GYRE_MS) /* for the cause of an echo, and for rank 0's verdict */
#define FIRST_CONTACT                                                                              \
    (5 * GYRE_SECOND) /* more than the dead time, until a peer's first beat: it may still be       \
                         starting */

enum owed { OWED_FAILURE = 1, OWED_BYE = 2, OWED_ALL_BYE = 4, OWED_WARNING = 8, OWED_BEAT = 16 };
enum stage { CALM, HELD, PROPOSED, DECIDED };

struct channel {
    uint32_t peer;
    uint8_t owed;
    bool kin; /* an edge of the tree: beats in both directions, silence counts */
    bool heard, left, gone;
    uint64_t heard_at;
};

struct post { /* what a rank said that rank 0 has not been told yet */
    struct gyre_watch_state state;
    bool fresh;
};

struct gyre_vigil {
    struct gyre_vigil_options is;
    uint64_t now, granted, clock; /* clock = now − granted */
    uint64_t interval, lateness_max, next_beat, deadline;
    enum stage stage;
    bool verdict; /* the record is decided for the whole job, or stands in for that */
    bool leaving, all_left, warned;
    struct gyre_vigil_record record;
    char warning[GYRE_WATCH_TEXT_MAX];
    uint32_t leader; /* lowest rank of this node */
    uint32_t channels, left;
    struct channel *channel; /* by peer, ascending */
    struct post *post;       /* [0] this rank, [1 + i] the peer of channel i; unused on rank 0 */
    struct gyre_roll *roll;  /* rank 0 only */
};

/* -- the tree
 * -----------------------------------------------------------------------------------------------------
 */

static bool same_node(const struct gyre_vigil *vigil, uint32_t peer)
{
    return vigil->is.member[peer].node == vigil->is.member[vigil->is.rank].node;
}

static uint32_t leader_of(const struct gyre_vigil *vigil, uint32_t rank)
{
    uint32_t first = 0;

    while (vigil->is.member[first].node != vigil->is.member[rank].node)
        first++;
    return first;
}

static uint32_t parent_of(const struct gyre_vigil *vigil)
{
    return vigil->leader == vigil->is.rank ? 0 : vigil->leader;
}

static bool reaches(const struct gyre_vigil *vigil, uint32_t peer)
{
    uint32_t rank = vigil->is.rank;
    return peer != rank && (rank == 0 || peer == 0 || same_node(vigil, peer));
}

static bool below(const struct gyre_vigil *vigil, uint32_t peer)
{
    bool leads = vigil->leader == vigil->is.rank;

    if (same_node(vigil, peer))
        return leads;
    return vigil->is.rank == 0 && leader_of(vigil, peer) == peer;
}

static void draw_channels(struct gyre_vigil *vigil)
{
    for (uint32_t peer = 0; peer < vigil->is.n; peer++) {
        if (!reaches(vigil, peer))
            continue;
        vigil->channel[vigil->channels++] = (struct channel){
            .peer = peer,
            .kin = below(vigil, peer) || (vigil->is.rank != 0 && peer == parent_of(vigil)),
            .heard_at = vigil->clock,
        };
    }
}

static uint32_t count_channels(const struct gyre_vigil *vigil)
{
    uint32_t count = 0;

    for (uint32_t peer = 0; peer < vigil->is.n; peer++)
        count += reaches(vigil, peer);
    return count;
}

static uint64_t beat_interval(uint64_t dead_ns)
{
    uint64_t interval = dead_ns / 40;

    if (dead_ns == 0 || interval > 250 * GYRE_MS)
        return 250 * GYRE_MS;
    return interval < 10 * GYRE_MS ? 10 * GYRE_MS : interval;
}

static uint64_t tolerated_lateness(uint64_t dead_ns, uint64_t interval)
{
    uint64_t share = dead_ns / 8;

    if (dead_ns == 0)
        return 8 * interval;
    return share > 2 * interval ? share : 2 * interval;
}

static int furnish(struct gyre_vigil *vigil)
{
    uint32_t count = count_channels(vigil);

    vigil->channel = calloc(count + 1, sizeof *vigil->channel);
    vigil->post = calloc(vigil->is.rank == 0 ? 1 : count + 1, sizeof *vigil->post);
    if (vigil->channel == NULL || vigil->post == NULL)
        return -ENOMEM;
    draw_channels(vigil);
    if (vigil->is.rank != 0)
        return 0;
    return gyre_roll_create(vigil->is.n, vigil->is.patience_ns, vigil->is.timeout_ns, &vigil->roll);
}

int gyre_vigil_create(const struct gyre_vigil_options *options, uint64_t now,
                      struct gyre_vigil **vigil)
{
    struct gyre_vigil *fresh = calloc(1, sizeof *fresh);

    if (fresh == NULL)
        return -ENOMEM;
    fresh->is = *options;
    fresh->now = fresh->clock = fresh->next_beat = now;
    fresh->interval = beat_interval(options->dead_ns);
    fresh->lateness_max = tolerated_lateness(options->dead_ns, fresh->interval);
    fresh->leader = leader_of(fresh, options->rank);
    int status = furnish(fresh);
    if (status != 0) {
        gyre_vigil_destroy(fresh);
        return status;
    }
    *vigil = fresh;
    return 0;
}

void gyre_vigil_destroy(struct gyre_vigil *vigil)
{
    if (vigil == NULL)
        return;
    gyre_roll_destroy(vigil->roll);
    free(vigil->post);
    free(vigil->channel);
    free(vigil);
}

uint32_t gyre_vigil_channels(const struct gyre_vigil *vigil)
{
    return vigil->channels;
}

uint32_t gyre_vigil_peer(const struct gyre_vigil *vigil, uint32_t channel)
{
    return vigil->channel[channel].peer;
}

bool gyre_vigil_has_left(const struct gyre_vigil *vigil, uint32_t channel)
{
    return vigil->channel[channel].left || vigil->all_left;
}

int gyre_vigil_channel(const struct gyre_vigil *vigil, uint32_t peer)
{
    uint32_t low = 0, high = vigil->channels;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (vigil->channel[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < vigil->channels && vigil->channel[low].peer == peer ? (int)low : -1;
}

/* -- one failure
 * --------------------------------------------------------------------------------------------------
 */

static void owe(struct gyre_vigil *vigil, enum owed what, const struct channel *except)
{
    for (uint32_t i = 0; i < vigil->channels; i++)
        if (&vigil->channel[i] != except && !vigil->channel[i].gone)
            vigil->channel[i].owed |= (uint8_t)what;
}

static void decide(struct gyre_vigil *vigil, bool verdict, const struct channel *source)
{
    vigil->stage = DECIDED;
    vigil->verdict = verdict;
    owe(vigil, OWED_FAILURE, source);
}

static void set_deadline(struct gyre_vigil *vigil)
{
    if (vigil->stage == CALM)
        vigil->deadline = vigil->clock + GRACE;
}

/* The verdict is this rank's to give: it is rank 0, or rank 0 is what failed. */
static bool judges(const struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    return vigil->is.rank == 0 || record->rank == 0;
}

/* A failure whose cause is known. */
static void found(struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    if (vigil->stage >= PROPOSED)
        return;
    vigil->record = *record;
    if (judges(vigil, record)) {
        decide(vigil, true, NULL);
        return;
    }
    set_deadline(vigil);
    vigil->stage = PROPOSED;
    owe(vigil, OWED_FAILURE, NULL);
}

/* A failure that may be the echo of another. */
static void hold(struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    if (vigil->stage != CALM)
        return;
    set_deadline(vigil);
    vigil->record = *record;
    vigil->stage = HELD;
}

/* Waited long enough: an echo without a cause is told as it is; a proposal that rank 0 does not
 * answer stands. */
static void stop_waiting(struct gyre_vigil *vigil)
{
    bool waits = vigil->stage == HELD || vigil->stage == PROPOSED;

    if (waits && vigil->clock >= vigil->deadline)
        decide(vigil, vigil->stage == PROPOSED || judges(vigil, &vigil->record), NULL);
}

static void hear_failure(struct gyre_vigil *vigil, const struct channel *source,
                         const struct gyre_watch_message *message)
{
    bool verdict = message->flags & GYRE_WATCH_VERDICT;

    if (vigil->stage == DECIDED || (!verdict && vigil->stage == PROPOSED))
        return;
    vigil->record.status = message->status;
    vigil->record.rank = message->rank < vigil->is.n ? message->rank : GYRE_NOBODY;
    gyre_watch_text(message, vigil->record.text, sizeof vigil->record.text);
    if (verdict || judges(vigil, &vigil->record)) {
        decide(vigil, true, source);
        return;
    }
    set_deadline(vigil);
    vigil->stage = PROPOSED;
}

static void compose(const struct gyre_vigil *vigil, struct gyre_vigil_record *record, int status,
                    uint32_t rank, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Writes "rank 3 (host, pid 123) " and the rest as the format says. */
static void compose(const struct gyre_vigil *vigil, struct gyre_vigil_record *record, int status,
                    uint32_t rank, const char *format, ...)
{
    const struct gyre_member *member = &vigil->is.member[rank];
    size_t size = sizeof record->text;
    va_list arguments;

    record->status = status;
    record->rank = rank;
    int used =
        snprintf(record->text, size, "rank %u (%.63s, pid %d) ", rank, member->host, member->pid);
    va_start(arguments, format);
    vsnprintf(record->text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
}

/* -- what happens
 * -------------------------------------------------------------------------------------------------
 */

static void advance(struct gyre_vigil *vigil, uint64_t now)
{
    uint64_t gap = now - vigil->now;

    if (gap > vigil->lateness_max)
        vigil->granted += gap - vigil->interval;
    vigil->now = now;
    vigil->clock = now - vigil->granted;
}

static void check_silence(struct gyre_vigil *vigil)
{
    struct gyre_vigil_record record;

    if (vigil->is.dead_ns == 0 || vigil->all_left)
        return;
    for (uint32_t i = 0; i < vigil->channels && vigil->stage < PROPOSED; i++) {
        const struct channel *channel = &vigil->channel[i];
        uint64_t limit = vigil->is.dead_ns + (channel->heard ? 0 : FIRST_CONTACT);
        uint64_t silence = vigil->clock - channel->heard_at;

        if (!channel->kin || channel->left || channel->gone || silence <= limit)
            continue;
        compose(vigil, &record, GYRE_PEER_LOST, channel->peer,
                "has been silent for %" PRIu64 " ms (dead time %" PRIu64
                " ms, GYRE_DEAD_TIME): it is "
                "stopped, swapping, or its host is gone",
                silence / GYRE_MS, vigil->is.dead_ns / GYRE_MS);
        found(vigil, &record);
    }
}

static void warn(struct gyre_vigil *vigil, const struct gyre_roll_finding *finding)
{
    memcpy(vigil->warning, finding->text, sizeof vigil->warning);
    vigil->warned = true;
    for (uint32_t i = 0; i < vigil->channels; i++) {
        struct channel *channel = &vigil->channel[i];
        if (!channel->gone &&
            gyre_roll_waits(vigil->roll, channel->peer, finding->comm, finding->sequence))
            channel->owed |= OWED_WARNING;
    }
}

static void call_roll(struct gyre_vigil *vigil)
{
    struct gyre_roll_finding finding;
    struct gyre_vigil_record record;

    if (vigil->stage >= PROPOSED || vigil->all_left)
        return;
    gyre_roll_call(vigil->roll, vigil->clock, &finding);
    if (finding.verdict == GYRE_ROLL_FINE)
        return;
    if (finding.verdict == GYRE_ROLL_SLOW) {
        warn(vigil, &finding);
        return;
    }
    record.status = finding.verdict == GYRE_ROLL_MISMATCH ? GYRE_MISMATCH : GYRE_TIMED_OUT;
    record.rank = finding.rank;
    memcpy(record.text, finding.text, sizeof record.text);
    found(vigil, &record);
}

/* Keeps a state for the next beat upwards; rank 0 enters it into the roll. */
static void note(struct gyre_vigil *vigil, struct post *post, const struct gyre_watch_state *state)
{
    if (vigil->roll != NULL) {
        gyre_roll_hear(vigil->roll, vigil->clock, state);
    } else if (memcmp(&post->state, state, sizeof *state) != 0) {
        post->state = *state;
        post->fresh = true;
    }
}

void gyre_vigil_tick(struct gyre_vigil *vigil, uint64_t now, const struct gyre_watch_state *mine)
{
    advance(vigil, now);
    stop_waiting(vigil);
    if (vigil->clock < vigil->next_beat)
        return;
    vigil->next_beat = vigil->clock + vigil->interval;
    note(vigil, vigil->post, mine);
    for (uint32_t i = 0; i < vigil->channels; i++)
        if (vigil->channel[i].kin && !vigil->channel[i].gone)
            vigil->channel[i].owed |= OWED_BEAT;
    check_silence(vigil);
    if (vigil->roll != NULL)
        call_roll(vigil);
}

static void hear_beat(struct gyre_vigil *vigil, uint32_t index,
                      const struct gyre_watch_message *message)
{
    struct gyre_watch_state state;
    uint32_t peer = vigil->channel[index].peer;

    for (uint32_t at = 0; at < message->payload_bytes; at += GYRE_WATCH_STATE_BYTES) {
        memset(&state, 0, sizeof state);
        gyre_watch_state_decode(message->payload + at, &state);
        if (vigil->roll != NULL)
            gyre_roll_hear(vigil->roll, vigil->clock, &state);
        else if (state.rank == peer)
            note(vigil, &vigil->post[1 + index], &state);
    }
}

static void check_all_left(struct gyre_vigil *vigil)
{
    if (vigil->is.rank != 0 || !vigil->leaving || vigil->left < vigil->channels || vigil->all_left)
        return;
    vigil->all_left = true;
    owe(vigil, OWED_ALL_BYE, NULL);
}

static void hear_bye(struct gyre_vigil *vigil, struct channel *channel)
{
    vigil->left += !channel->left;
    channel->left = true;
    check_all_left(vigil);
}

void gyre_vigil_receive(struct gyre_vigil *vigil, uint64_t now, uint32_t index,
                        const struct gyre_watch_message *message)
{
    struct channel *channel = &vigil->channel[index];

    advance(vigil, now);
    if (message->epoch != vigil->is.epoch)
        return;
    channel->heard = true;
    channel->heard_at = vigil->clock;
    switch (message->kind) {
    case GYRE_WATCH_BEAT:
        hear_beat(vigil, index, message);
        break;
    case GYRE_WATCH_FAILURE:
        hear_failure(vigil, channel, message);
        break;
    case GYRE_WATCH_WARNING:
        gyre_watch_text(message, vigil->warning, sizeof vigil->warning);
        vigil->warned = true;
        break;
    case GYRE_WATCH_BYE:
        hear_bye(vigil, channel);
        break;
    case GYRE_WATCH_ALL_BYE:
        vigil->all_left |= channel->peer == 0;
        break;
    default:
        break;
    }
}

/* True if the end of this channel, or of the process behind it, is news. */
static bool parts(struct gyre_vigil *vigil, struct channel *channel)
{
    channel->gone = true;
    channel->owed = 0;
    if (channel->peer == 0 && channel->left && vigil->leaving)
        vigil->all_left =
            true; /* rank 0 goes last, or when its patience ends; nobody is left to wait for */
    return !channel->left && !vigil->all_left;
}

void gyre_vigil_eof(struct gyre_vigil *vigil, uint64_t now, uint32_t index, const char *why)
{
    struct channel *channel = &vigil->channel[index];
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (channel->gone || !parts(vigil, channel))
        return;
    compose(vigil, &record, GYRE_PEER_LOST, channel->peer,
            "closed its control channel without a goodbye (%s): it ended, or the way to its host "
            "is cut",
            why != NULL ? why : "end of stream");
    hold(vigil, &record);
}

void gyre_vigil_ended(struct gyre_vigil *vigil, uint64_t now, uint32_t index)
{
    struct channel *channel = &vigil->channel[index];
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (!parts(vigil, channel))
        return;
    compose(
        vigil, &record, GYRE_PEER_LOST, channel->peer,
        "ended without a goodbye: it exited, crashed or was killed; its own last output and its "
        "launcher tell why");
    found(vigil, &record);
}

void gyre_vigil_launcher_gone(struct gyre_vigil *vigil, uint64_t now)
{
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (vigil->all_left)
        return;
    compose(vigil, &record, GYRE_LAUNCHER_GONE, vigil->is.rank,
            "lost its launcher: the launcher was killed or its terminal or connection closed");
    record.rank = GYRE_NOBODY;
    found(vigil, &record);
}

void gyre_vigil_report(struct gyre_vigil *vigil, uint64_t now,
                       const struct gyre_vigil_record *record, bool echo)
{
    advance(vigil, now);
    if (vigil->stage == DECIDED)
        return;
    if (echo) {
        hold(vigil, record);
        return;
    }
    if (vigil->stage < PROPOSED)
        vigil->record = *record;
    decide(vigil, judges(vigil, &vigil->record), NULL);
}

void gyre_vigil_leave(struct gyre_vigil *vigil, uint64_t now)
{
    advance(vigil, now);
    vigil->leaving = true;
    owe(vigil, OWED_BYE, NULL);
    check_all_left(vigil);
}

/* -- what follows
 * -------------------------------------------------------------------------------------------------
 */

/* Fills the payload with the states that the way up has not been told; true if some did not fit. */
static bool gather_states(struct gyre_vigil *vigil, struct gyre_watch_message *message,
                          uint8_t *payload)
{
    message->payload = payload;
    for (uint32_t i = 0; i <= vigil->channels; i++) {
        struct post *post = &vigil->post[i];
        if (!post->fresh)
            continue;
        if (message->payload_bytes + GYRE_WATCH_STATE_BYTES > GYRE_WATCH_PAYLOAD_MAX)
            return true;
        gyre_watch_state_encode(&post->state, payload + message->payload_bytes);
        message->payload_bytes += GYRE_WATCH_STATE_BYTES;
        post->fresh = false;
    }
    return false;
}

static void attach_text(struct gyre_watch_message *message, const char *text)
{
    message->payload = (const uint8_t *)text;
    message->payload_bytes = (uint32_t)strlen(text);
}

static void attach_failure(const struct gyre_vigil *vigil, struct gyre_watch_message *message)
{
    bool verdict = vigil->stage == DECIDED && vigil->verdict;

    message->kind = GYRE_WATCH_FAILURE;
    message->flags = verdict ? GYRE_WATCH_VERDICT : 0;
    message->status = vigil->record.status;
    message->rank = vigil->record.rank;
    attach_text(message, vigil->record.text);
}

static enum owed most_urgent(uint8_t owed)
{
    return (enum owed)(owed & -owed);
}

size_t gyre_vigil_next_message(struct gyre_vigil *vigil, uint32_t index, uint8_t *out)
{
    struct channel *channel = &vigil->channel[index];
    struct gyre_watch_message message = {.epoch = vigil->is.epoch, .rank = vigil->is.rank};
    uint8_t states[GYRE_WATCH_PAYLOAD_MAX];
    enum owed what = most_urgent(channel->owed);
    bool more = false;

    if (channel->owed == 0)
        return 0;
    if (what == OWED_FAILURE) {
        attach_failure(vigil, &message);
    } else if (what == OWED_BYE) {
        message.kind = GYRE_WATCH_BYE;
    } else if (what == OWED_ALL_BYE) {
        message.kind = GYRE_WATCH_ALL_BYE;
    } else if (what == OWED_WARNING) {
        message.kind = GYRE_WATCH_WARNING;
        attach_text(&message, vigil->warning);
    } else {
        message.kind = GYRE_WATCH_BEAT;
        if (vigil->is.rank != 0 && channel->peer == parent_of(vigil))
            more = gather_states(vigil, &message, states);
    }
    if (!more)
        channel->owed &= (uint8_t)~what;
    return gyre_watch_encode(&message, out);
}

const struct gyre_vigil_record *gyre_vigil_failure(const struct gyre_vigil *vigil)
{
    return vigil->stage == DECIDED ? &vigil->record : NULL;
}

const char *gyre_vigil_take_warning(struct gyre_vigil *vigil)
{
    bool warned = vigil->warned;

    vigil->warned = false;
    return warned ? vigil->warning : NULL;
}

bool gyre_vigil_all_left(const struct gyre_vigil *vigil)
{
    return vigil->all_left;
}

uint64_t gyre_vigil_wake(const struct gyre_vigil *vigil)
{
    bool waits = vigil->stage == HELD || vigil->stage == PROPOSED;
    uint64_t at = vigil->next_beat;

    if (waits && vigil->deadline < at)
        at = vigil->deadline;
    return at + vigil->granted;
}
