/* The watch's mind.
 *
 * Beats climb a tree; everything else takes every channel there is.
 *
 *              rank 0               ═══ control (TCP): rank 0 to every rank of another node
 *             ╱  ║  ╲               ─── Unix socket: every two ranks of a node
 *      rank 1 ───╫─── rank 2
 *                ║
 *             rank 3 ─── rank 4     beats: 4 to 3, 3 to 0, 1 to 0, 2 to 0, and back down
 *
 * Invariants
 *   - One failure. `record` is the only one a vigil holds, and once decided it never changes. All
 *     ranks must tell the same story, so rank 0 decides: see failure.c.
 *   - Own lateness is nobody's fault. The vigil's clock leaves out the time in which it did not run
 *     (suspended, stopped, debugged, starved): after an hour's sleep everybody still has the whole
 *     dead time.
 *   - Silence counts along the tree only. A rank of the same node that dies is seen by its pidfd;
 *     one that is stopped is seen by its parent or its children, who tell everybody.
 *   - A goodbye goes to everybody who could see its sender end. Rank 0 counts them; when it has all
 *     it says so, and only then does anybody stop listening. It carries how far the sender got:
 *     see early_leave.c.
 *   - Owed, not queued. Per channel a set of bits says what must still be sent; contents are read
 *     when the channel has room, so a slow channel gets the newest state and needs no memory. */
#include "transport/watch/detect/inside.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Beyond the dead time, until a peer's first beat: it may still be starting. */
#define FIRST_CONTACT (5 * GYRE_SECOND)

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
    int status = gyre_vigil_furnish(fresh);
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

/* -- what happens ------------------------------------------------------------------------------ */

static void advance(struct gyre_vigil *vigil, uint64_t now)
{
    uint64_t gap = now - vigil->now;

    if (gap > vigil->lateness_max)
        vigil->granted += gap - vigil->interval;
    vigil->now = now;
    vigil->clock = now - vigil->granted;
}

/* The channel's peer has said nothing for longer than it may. */
static bool silent(const struct gyre_vigil *vigil, const struct gyre_vigil_channel *channel)
{
    uint64_t limit = vigil->is.dead_ns + (channel->heard ? 0 : FIRST_CONTACT);

    if (!channel->kin || channel->left || channel->gone)
        return false;
    return vigil->clock - channel->heard_at > limit;
}

static void check_silence(struct gyre_vigil *vigil)
{
    struct gyre_vigil_record record;

    if (vigil->is.dead_ns == 0 || vigil->all_left)
        return;
    for (uint32_t i = 0; i < vigil->channels; i++) {
        const struct gyre_vigil_channel *channel = &vigil->channel[i];
        if (!silent(vigil, channel))
            continue;
        gyre_vigil_compose(vigil, &record, GYRE_PEER_LOST, channel->peer,
                           "has been silent for %" PRIu64 " ms (dead time %" PRIu64
                           " ms, see GYRE_DEAD_TIME): it is stopped, swapping, or its host is gone",
                           (vigil->clock - channel->heard_at) / GYRE_MS,
                           vigil->is.dead_ns / GYRE_MS);
        gyre_vigil_found(vigil, &record);
        return;
    }
}

static void warn(struct gyre_vigil *vigil, const struct gyre_roll_finding *finding)
{
    memcpy(vigil->warning, finding->text, sizeof vigil->warning);
    vigil->warned = true;
    for (uint32_t i = 0; i < vigil->channels; i++) {
        struct gyre_vigil_channel *channel = &vigil->channel[i];
        if (!channel->gone &&
            gyre_roll_waits(vigil->roll, channel->peer, finding->comm, finding->sequence))
            channel->owed |= GYRE_OWED_WARNING;
    }
}

static void call_roll(struct gyre_vigil *vigil)
{
    struct gyre_roll_finding finding;
    struct gyre_vigil_record record;

    if (vigil->stage >= GYRE_VIGIL_PROPOSED || vigil->all_left)
        return;
    gyre_roll_call(vigil->roll, vigil->clock, &finding);
    if (finding.verdict == GYRE_ROLL_FINE)
        return;
    if (finding.verdict == GYRE_ROLL_SLOW) {
        warn(vigil, &finding);
        return;
    }
    record.status = finding.verdict == GYRE_ROLL_TIMED_OUT ? GYRE_TIMED_OUT : GYRE_MISMATCH;
    record.rank = finding.rank;
    if (finding.verdict == GYRE_ROLL_LEFT)
        gyre_vigil_compose(vigil, &record, GYRE_MISMATCH, finding.rank, "%s", finding.text);
    else
        memcpy(record.text, finding.text, sizeof record.text);
    gyre_vigil_found(vigil, &record);
}

/* Keeps a state for the next beat upwards; rank 0 enters it into the roll. */
static void note(struct gyre_vigil *vigil, struct gyre_vigil_post *post,
                 const struct gyre_watch_state *state)
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
    gyre_vigil_stop_waiting(vigil);
    if (vigil->clock < vigil->next_beat)
        return;
    vigil->next_beat = vigil->clock + vigil->interval;
    vigil->mine = *mine;
    note(vigil, vigil->post, mine);
    if (vigil->asked)
        vigil->channel[0].owed |= GYRE_OWED_TELL;
    vigil->asked = false;
    for (uint32_t i = 0; i < vigil->channels; i++)
        if (vigil->channel[i].kin && !vigil->channel[i].gone)
            vigil->channel[i].owed |= GYRE_OWED_BEAT;
    check_silence(vigil);
    for (uint32_t i = 0; i < vigil->channels; i++)
        gyre_vigil_compare(vigil, &vigil->channel[i]);
    gyre_vigil_settle_doubt(vigil);
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
    gyre_vigil_owe(vigil, GYRE_OWED_ALL_BYE, NULL);
}

/* Whoever waits for that rank shall not wait for the next beat too. */
static void hear_bye(struct gyre_vigil *vigil, struct gyre_vigil_channel *channel,
                     const struct gyre_watch_message *message)
{
    vigil->left += !channel->left;
    channel->left = true;
    gyre_watch_state_decode(message->payload, &channel->last);
    channel->last.rank = channel->peer; /* whatever it says */
    if (vigil->roll != NULL)
        gyre_roll_hear(vigil->roll, vigil->clock, &channel->last);
    gyre_vigil_compare(vigil, channel);
    vigil->next_beat = vigil->clock;
    check_all_left(vigil);
}

/* Nothing is waited for any more; what this rank has found, and rank 0 has not answered, stands. */
static void end_all(struct gyre_vigil *vigil)
{
    if (vigil->stage == GYRE_VIGIL_PROPOSED)
        gyre_vigil_adopt(vigil, &vigil->record);
    vigil->all_left = true;
}

void gyre_vigil_receive(struct gyre_vigil *vigil, uint64_t now, uint32_t index,
                        const struct gyre_watch_message *message)
{
    struct gyre_vigil_channel *channel = &vigil->channel[index];

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
        gyre_vigil_hear_failure(vigil, channel, message);
        break;
    case GYRE_WATCH_ASK: /* the next tick knows what this rank does by now */
        vigil->asked = channel->peer == 0;
        vigil->next_beat = vigil->clock;
        break;
    case GYRE_WATCH_TELL:
        gyre_vigil_hear_tell(vigil, channel, message);
        break;
    case GYRE_WATCH_WARNING:
        gyre_watch_text(message, vigil->warning, sizeof vigil->warning);
        vigil->warned = true;
        break;
    case GYRE_WATCH_BYE:
        hear_bye(vigil, channel, message);
        break;
    case GYRE_WATCH_ALL_BYE:
        if (channel->peer == 0)
            end_all(vigil);
        break;
    default:
        break;
    }
}

/* True if the end of this channel, or of the process behind it, is news. */
static bool parts(struct gyre_vigil *vigil, struct gyre_vigil_channel *channel)
{
    channel->gone = true;
    channel->owed = 0;
    if (channel->peer == 0 && channel->left && vigil->leaving)
        end_all(vigil); /* rank 0 counts no longer */
    return !channel->left && !vigil->all_left;
}

void gyre_vigil_eof(struct gyre_vigil *vigil, uint64_t now, uint32_t index, const char *why)
{
    struct gyre_vigil_channel *channel = &vigil->channel[index];
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (channel->gone || !parts(vigil, channel))
        return;
    gyre_vigil_compose(vigil, &record, GYRE_PEER_LOST, channel->peer,
                       "closed its control channel without a goodbye (%s): it ended, or the way to "
                       "its host is cut",
                       why != NULL ? why : "end of stream");
    if (channel->peer == 0)
        gyre_vigil_all_told(vigil); /* who would have asked is gone */
    gyre_vigil_hold(vigil, vigil->is.rank, &record);
}

void gyre_vigil_ended(struct gyre_vigil *vigil, uint64_t now, uint32_t index)
{
    struct gyre_vigil_channel *channel = &vigil->channel[index];
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (!parts(vigil, channel))
        return;
    gyre_vigil_compose(
        vigil, &record, GYRE_PEER_LOST, channel->peer,
        "ended without a goodbye: it exited, crashed or was killed; its own last output and its "
        "launcher tell why");
    gyre_vigil_found(vigil, &record);
}

void gyre_vigil_launcher_gone(struct gyre_vigil *vigil, uint64_t now)
{
    struct gyre_vigil_record record;

    advance(vigil, now);
    if (vigil->all_left)
        return;
    gyre_vigil_compose(
        vigil, &record, GYRE_LAUNCHER_GONE, vigil->is.rank,
        "lost its launcher: the launcher was killed or its terminal or connection closed");
    record.rank = GYRE_NOBODY;
    gyre_vigil_found(vigil, &record);
}

void gyre_vigil_report(struct gyre_vigil *vigil, uint64_t now,
                       const struct gyre_vigil_record *record, bool echo)
{
    advance(vigil, now);
    if (echo)
        gyre_vigil_hold(vigil, vigil->is.rank, record);
    else
        gyre_vigil_adopt(vigil, record);
}

void gyre_vigil_leave(struct gyre_vigil *vigil, uint64_t now, const struct gyre_watch_state *mine)
{
    advance(vigil, now);
    vigil->leaving = true;
    vigil->mine = *mine;
    gyre_vigil_owe(vigil, GYRE_OWED_BYE, NULL);
    for (uint32_t i = 0; i < vigil->channels; i++)
        gyre_vigil_compare(vigil, &vigil->channel[i]);
    check_all_left(vigil);
}

/* -- what follows ------------------------------------------------------------------------------ */

bool gyre_vigil_has_left(const struct gyre_vigil *vigil, uint32_t channel)
{
    return vigil->channel[channel].left || vigil->all_left;
}

const struct gyre_vigil_record *gyre_vigil_failure(const struct gyre_vigil *vigil)
{
    return vigil->stage == GYRE_VIGIL_DECIDED ? &vigil->record : NULL;
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
    bool waits = vigil->stage == GYRE_VIGIL_HELD || vigil->stage == GYRE_VIGIL_PROPOSED;
    uint64_t at = vigil->next_beat;

    if (waits && vigil->deadline < at)
        at = vigil->deadline;
    return at + vigil->granted;
}
