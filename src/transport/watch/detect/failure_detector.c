/* The failure detector: the meaning of each event, and its consequences.
 *
 * Beats go along a tree. All other messages take every channel.
 *
 *              rank 0               ═══ control (TCP): rank 0 to every rank of another node
 *             ╱  ║  ╲               ─── Unix socket: every two ranks of a node
 *      rank 1 ───╫─── rank 2
 *                ║
 *             rank 3 ─── rank 4     beats: 4 to 3, 3 to 0, 1 to 0, 2 to 0, and back down
 *
 * In a job of many nodes there are no other channels between nodes than edges of the tree, which
 * is deep (tree.c), and none within a large node. There ranks pass messages on, to rank 0 and from
 * it.
 *
 * Invariants
 *   - One failure. `record` holds it, and never changes once it is decided. All ranks must tell the
 *     same failure, so rank 0 decides: see failure.c.
 *   - Own lateness is no peer's fault. The detector's clock leaves out the time in which it did not
 *     run (suspended, stopped, debugged, starved): after an hour's sleep every peer still has the
 *     whole dead time.
 *   - Silence counts along the tree only. The pidfd shows that a rank of the same node has died. A
 *     stopped rank is noticed by its parent or its children, which tell all others.
 *   - A goodbye goes to all ranks that could see its sender end, and to rank 0. Rank 0 counts
 *     goodbyes and says when it has all; only then does a rank stop listening. A goodbye carries
 *     how far its sender got: see early_leave.c.
 *   - Owed, not queued. For each channel a set of bits says what must still be sent. Contents are
 *     read when the channel has room, so a slow channel gets the newest state and needs no memory.
 *
 * The parts below: failure.c decides, inquiry.c and early_leave.c find, resume.c keeps channels
 * that broke, orphan.c goes round ranks that are lost, outbox.c composes messages, tree.c knows the
 * channels, audit.c judges calls. */
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

int gyre_detector_create(const struct gyre_detector_options *options, uint64_t now,
                         struct gyre_failure_detector **detector)
{
    struct gyre_failure_detector *fresh = calloc(1, sizeof *fresh);

    if (fresh == NULL)
        return -ENOMEM;
    fresh->is = *options;
    fresh->now = fresh->clock = fresh->next_beat = now;
    fresh->interval = beat_interval(options->dead_ns);
    fresh->lateness_max = tolerated_lateness(options->dead_ns, fresh->interval);
    int status = gyre_detector_make_channels(fresh);
    if (status != 0) {
        gyre_detector_destroy(fresh);
        return status;
    }
    *detector = fresh;
    return 0;
}

void gyre_detector_destroy(struct gyre_failure_detector *detector)
{
    if (detector == NULL)
        return;
    gyre_audit_destroy(detector->audit);
    free(detector->post);
    free(detector->channel);
    free(detector->order);
    free(detector);
}

/* -- what happens ------------------------------------------------------------------------------ */

/* Whether the channel's peer has been silent for longer than it may. */
static bool silent(const struct gyre_failure_detector *detector,
                   const struct gyre_detector_channel *channel)
{
    uint64_t limit = detector->is.dead_ns + (channel->heard ? 0 : FIRST_CONTACT);

    if (!channel->tree_edge || channel->left || channel->gone || channel->broken)
        return false;
    return detector->clock - channel->heard_at > limit;
}

static void check_silence(struct gyre_failure_detector *detector)
{
    struct gyre_detector_record record;

    if (detector->all_left)
        return;
    if (gyre_detector_find_unresumed(detector, &record)) {
        gyre_detector_found(detector, &record);
        return;
    }
    for (uint32_t i = 0; detector->is.dead_ns > 0 && i < detector->channels; i++) {
        const struct gyre_detector_channel *channel = &detector->channel[i];
        if (!silent(detector, channel))
            continue;
        gyre_detector_compose(
            detector, &record, GYRE_PEER_LOST, channel->peer,
            "has been silent for the dead time (%" PRIu64
            " ms, see GYRE_DEAD_TIME): it is stopped or swapping, or its host or the "
            "network to it is down",
            detector->is.dead_ns / GYRE_MS);
        gyre_detector_call_orphans(detector, channel->peer);
        gyre_detector_found(detector, &record);
        return;
    }
}

/* Owes the warning to a rank that waits in its operation, on its way. */
static void warn(struct gyre_failure_detector *detector, const struct gyre_audit_finding *finding)
{
    memcpy(detector->warning, finding->text, sizeof detector->warning);
    detector->warning_comm = finding->comm;
    detector->warning_sequence = finding->sequence;
    detector->warned = true;
    for (uint32_t rank = 1; rank < detector->is.n; rank++) {
        struct gyre_detector_channel *way = gyre_detector_way(detector, rank);
        if (way != NULL &&
            gyre_audit_waits(detector->audit, rank, finding->comm, finding->sequence))
            way->owed |= GYRE_OWED_WARNING;
    }
}

/* Hears rank 0's warning, which is for this rank if it waits there, and for the ranks below that
 * do. */
static void hear_warning(struct gyre_failure_detector *detector,
                         const struct gyre_watch_message *message)
{
    const uint32_t comm = message->id;
    const uint64_t sequence = message->region_length;

    gyre_watch_text(message, detector->warning, sizeof detector->warning);
    detector->warning_comm = comm;
    detector->warning_sequence = sequence;
    detector->warned =
        detector->depth == 0 || gyre_audit_state_waits(&detector->mine, comm, sequence);
    for (uint32_t i = 0; detector->depth > 0 && i < detector->channels; i++) {
        struct gyre_detector_channel *way = gyre_detector_way(detector, detector->channel[i].peer);
        if (detector->channel[i].kin == GYRE_KIN_BELOW && way != NULL &&
            gyre_audit_state_waits(&detector->post[1 + i].state, comm, sequence))
            way->owed |= GYRE_OWED_WARNING;
    }
}

static void run_audit(struct gyre_failure_detector *detector)
{
    struct gyre_audit_finding finding;
    struct gyre_detector_record record;

    if (detector->stage >= GYRE_DETECTOR_PROPOSED || detector->all_left)
        return;
    gyre_audit_judge(detector->audit, detector->clock, &finding);
    gyre_detector_ask_doubted(detector);
    if (finding.outcome == GYRE_AUDIT_FINE)
        return;
    if (finding.outcome == GYRE_AUDIT_SLOW) {
        warn(detector, &finding);
        return;
    }
    record.status = finding.outcome == GYRE_AUDIT_TIMED_OUT ? GYRE_TIMED_OUT : GYRE_MISMATCH;
    record.rank = finding.rank;
    if (finding.outcome == GYRE_AUDIT_LEFT)
        gyre_detector_compose(detector, &record, GYRE_MISMATCH, finding.rank, "%s", finding.text);
    else
        memcpy(record.text, finding.text, sizeof record.text);
    gyre_detector_found(detector, &record);
}

/* Keeps a state for the next beat upwards; rank 0 enters it into the audit. */
static void note_state(struct gyre_failure_detector *detector, struct gyre_detector_post *post,
                       const struct gyre_watch_state *state)
{
    if (detector->audit != NULL) {
        gyre_audit_answer(detector->audit, detector->clock, state);
    } else if (memcmp(&post->state, state, sizeof *state) != 0) {
        post->state = *state;
        post->fresh = post->known = true;
    }
}

static bool has_broken_channel(const struct gyre_failure_detector *detector)
{
    for (uint32_t i = 0; i < detector->channels; i++)
        if (detector->channel[i].broken)
            return true;
    return false;
}

/* Rank 0 does not leave while a channel is broken: its peer waits for this word. */
static void check_all_left(struct gyre_failure_detector *detector)
{
    if (detector->is.rank != 0 || !detector->leaving || detector->left < detector->channels ||
        detector->all_left || has_broken_channel(detector))
        return;
    detector->all_left = true;
    gyre_detector_owe(detector, GYRE_OWED_ALL_BYE, NULL);
}

/* Owes this rank's present state to rank 0, which has asked for it. */
static void answer(struct gyre_failure_detector *detector)
{
    struct gyre_detector_channel *root = gyre_detector_root_channel(detector);

    if (detector->asked && root != NULL) {
        detector->post[0].tell = true;
        root->owed |= GYRE_OWED_TELL;
    }
    detector->asked = false;
}

/* Turns to the next rank above, where the one above is lost and its channel has not ended. */
static void leave_lost_parent(struct gyre_failure_detector *detector)
{
    const struct gyre_detector_channel *up =
        detector->up >= 0 ? &detector->channel[detector->up] : NULL;

    if (up != NULL &&
        (gyre_detector_overdue(detector, up) ||
         (detector->is.dead_ns > 0 && silent(detector, up))) &&
        !gyre_detector_climb(detector, up))
        gyre_detector_root_gone(detector);
}

void gyre_detector_tick(struct gyre_failure_detector *detector, uint64_t now,
                        const struct gyre_watch_state *mine)
{
    gyre_detector_advance(detector, now);
    gyre_detector_stop_waiting(detector);
    if (detector->clock < detector->next_beat)
        return;
    detector->next_beat = detector->clock + detector->interval;
    detector->mine = *mine;
    note_state(detector, detector->post, mine);
    answer(detector);
    for (uint32_t i = 0; i < detector->channels; i++)
        if (detector->channel[i].tree_edge && !detector->channel[i].gone)
            detector->channel[i].owed |= GYRE_OWED_BEAT;
    check_all_left(detector);
    check_silence(detector);
    leave_lost_parent(detector);
    for (uint32_t i = 0; i < detector->channels; i++)
        gyre_detector_compare(detector, &detector->channel[i]);
    gyre_detector_settle_inquiry(detector);
    if (detector->audit != NULL)
        run_audit(detector);
}

static void hear_beat(struct gyre_failure_detector *detector, uint32_t index,
                      const struct gyre_watch_message *message)
{
    struct gyre_watch_state state;
    const struct gyre_detector_channel *source = &detector->channel[index];

    if (gyre_detector_is_above(detector, source) && message->flags & GYRE_WATCH_ROOTLESS)
        detector->told_rootless = true;
    for (uint32_t at = 0; at < message->payload_bytes; at += GYRE_WATCH_STATE_BYTES) {
        memset(&state, 0, sizeof state);
        gyre_watch_state_decode(message->payload + at, &state);
        if (detector->audit != NULL)
            gyre_audit_hear(detector->audit, detector->clock, &state);
        else if (state.rank == source->peer || gyre_detector_way(detector, state.rank) == source)
            note_state(detector, &detector->post[1 + gyre_detector_channel(detector, state.rank)],
                       &state);
    }
}

/* Passes the goodbye of a rank below on, upwards. */
static void pass_goodbye(struct gyre_failure_detector *detector,
                         const struct gyre_detector_channel *channel,
                         struct gyre_detector_post *post)
{
    struct gyre_detector_channel *root = gyre_detector_root_channel(detector);

    post->bye = channel->kin == GYRE_KIN_BELOW;
    if (post->bye && root != NULL)
        root->owed |= GYRE_OWED_RELAY;
}

/* Hears a goodbye, and compares at once: ranks that wait for the sender shall not wait for the next
 * beat too. */
static void hear_bye(struct gyre_failure_detector *detector,
                     const struct gyre_detector_channel *source,
                     const struct gyre_watch_message *message)
{
    struct gyre_watch_state last;

    memset(&last, 0, sizeof last);
    gyre_watch_state_decode(message->payload, &last);
    last.rank = gyre_detector_sender(detector, source, last.rank);
    const int from = gyre_detector_channel(detector, last.rank);
    struct gyre_detector_channel *channel = &detector->channel[from];
    detector->left += !channel->left;
    channel->left = true;
    channel->last = last;
    if (detector->audit != NULL)
        gyre_audit_hear(detector->audit, detector->clock, &channel->last);
    else
        pass_goodbye(detector, channel, &detector->post[1 + from]);
    gyre_detector_compare(detector, channel);
    detector->next_beat = detector->clock;
    check_all_left(detector);
}

/* Ends every wait for others. A failure that this rank has found, and that rank 0 has not answered,
 * stands. */
static void end_waiting(struct gyre_failure_detector *detector)
{
    if (detector->stage == GYRE_DETECTOR_PROPOSED)
        gyre_detector_adopt(detector, &detector->record);
    detector->all_left = true;
}

/* Hears rank 0's word that all have left, and passes it on. */
static void hear_all_left(struct gyre_failure_detector *detector)
{
    end_waiting(detector);
    for (uint32_t i = 0; i < detector->channels; i++)
        if (detector->channel[i].kin == GYRE_KIN_BELOW && !detector->channel[i].gone)
            detector->channel[i].owed |= GYRE_OWED_ALL_BYE;
}

/* Hears rank 0's question, for this rank or one below. The next tick knows this rank's present
 * state. */
static void hear_question(struct gyre_failure_detector *detector,
                          const struct gyre_watch_message *message)
{
    if (message->id == 0 || message->id - 1 == detector->is.rank) {
        detector->asked = true;
        detector->next_beat = detector->clock;
    } else if (detector->depth > 0) {
        gyre_detector_ask(detector, message->id - 1);
    }
}

void gyre_detector_receive(struct gyre_failure_detector *detector, uint64_t now, uint32_t index,
                           const struct gyre_watch_message *message)
{
    struct gyre_detector_channel *channel = &detector->channel[index];

    gyre_detector_advance(detector, now);
    if (message->epoch != detector->is.epoch)
        return;
    channel->heard = true;
    channel->heard_at = detector->clock;
    switch (message->kind) {
    case GYRE_WATCH_BEAT:
        hear_beat(detector, index, message);
        break;
    case GYRE_WATCH_FAILURE:
        gyre_detector_hear_failure(detector, channel, message);
        break;
    case GYRE_WATCH_ASK:
        if (gyre_detector_is_above(detector, channel))
            hear_question(detector, message);
        break;
    case GYRE_WATCH_TELL:
        gyre_detector_hear_tell(detector, channel, message);
        break;
    case GYRE_WATCH_WARNING:
        if (gyre_detector_is_above(detector, channel))
            hear_warning(detector, message);
        break;
    case GYRE_WATCH_BYE:
        hear_bye(detector, channel, message);
        break;
    case GYRE_WATCH_ALL_BYE:
        if (gyre_detector_is_above(detector, channel))
            hear_all_left(detector);
        break;
    default:
        break;
    }
}

/* Marks the channel as gone. True: its end, or the end of the process behind it, is news. */
static bool parts(struct gyre_failure_detector *detector, struct gyre_detector_channel *channel)
{
    const bool is_root_channel = channel == gyre_detector_root_channel(detector);

    channel->gone = true;
    channel->broken = false;
    channel->owed = 0;
    if (is_root_channel && channel->left && detector->leaving)
        end_waiting(detector); /* rank 0 counts goodbyes no longer */
    const bool news = !channel->left && !detector->all_left && !channel->closed;
    if (!gyre_detector_climb(detector, channel))
        gyre_detector_root_gone(detector);
    if (news || channel->closed)
        gyre_detector_call_orphans(detector, channel->peer);
    return news;
}

/* Says that the rank ended. How this rank has learned it stands in no word of the story, because
 * where rank 0 has ended nobody is left to choose one of several. */
static void compose_end(const struct gyre_failure_detector *detector,
                        struct gyre_detector_record *record, uint32_t rank)
{
    gyre_detector_compose(
        detector, record, GYRE_PEER_LOST, rank,
        "ended without a goodbye: it exited, crashed or was killed; its own last output and its "
        "launcher tell why");
}

/* The kernel of another machine closes a socket when its process ends, and refuses connections to
 * it. A rank that fails says why before. So the end of such a channel is a cause. Inside a node the
 * pidfd is asked instead: a child may keep the socket, and the rank's last words may be unread. */
void gyre_detector_eof(struct gyre_failure_detector *detector, uint64_t now, uint32_t index,
                       const char *why)
{
    struct gyre_detector_channel *channel = &detector->channel[index];
    struct gyre_detector_record record;

    /* A rank that has learned of a mismatch may end before others have. */
    bool differs =
        detector->stage == GYRE_DETECTOR_HELD && detector->record.status == GYRE_MISMATCH;

    gyre_detector_advance(detector, now);
    if (channel->gone || !parts(detector, channel))
        return;
    if (why == NULL)
        compose_end(detector, &record, channel->peer);
    else
        gyre_detector_compose(detector, &record, GYRE_PEER_LOST, channel->peer,
                              "cannot be reached over its control channel (%s): its host ended, or "
                              "the way to it is cut",
                              why);
    if (detector->depth == 0 && channel->peer == 0)
        gyre_detector_root_gone(detector);
    if (why == NULL && !channel->near && !differs)
        gyre_detector_found(detector, &record);
    else
        gyre_detector_hold(detector, detector->is.rank, &record);
}

void gyre_detector_corrupt(struct gyre_failure_detector *detector, uint64_t now, uint32_t index)
{
    const struct gyre_detector_channel *channel = &detector->channel[index];
    struct gyre_detector_record record;

    gyre_detector_advance(detector, now);
    if (channel->gone || channel->left || detector->all_left)
        return;
    gyre_detector_compose(
        detector, &record, GYRE_CORRUPT, channel->peer,
        "has a control channel that brought bytes to rank %u that are not what it sent: somebody "
        "on the path altered, repeated or dropped some, or a network card or memory did",
        detector->is.rank);
    gyre_detector_found(detector, &record);
}

void gyre_detector_ended(struct gyre_failure_detector *detector, uint64_t now, uint32_t index)
{
    struct gyre_detector_channel *channel = &detector->channel[index];
    struct gyre_detector_record record;

    gyre_detector_advance(detector, now);
    if (!parts(detector, channel))
        return;
    if (detector->depth == 0 && channel->peer == 0)
        gyre_detector_root_gone(detector);
    compose_end(detector, &record, channel->peer);
    gyre_detector_found(detector, &record);
}

void gyre_detector_launcher_gone(struct gyre_failure_detector *detector, uint64_t now)
{
    struct gyre_detector_record record;

    gyre_detector_advance(detector, now);
    if (detector->all_left)
        return;
    gyre_detector_compose(
        detector, &record, GYRE_LAUNCHER_GONE, detector->is.rank,
        "lost its launcher: the launcher was killed or its terminal or connection closed");
    gyre_detector_found(detector, &record);
}

void gyre_detector_report(struct gyre_failure_detector *detector, uint64_t now,
                          const struct gyre_detector_record *record, bool echo)
{
    gyre_detector_advance(detector, now);
    if (echo)
        gyre_detector_hold(detector, detector->is.rank, record);
    else
        gyre_detector_adopt(detector, record);
}

void gyre_detector_leave(struct gyre_failure_detector *detector, uint64_t now,
                         const struct gyre_watch_state *mine)
{
    gyre_detector_advance(detector, now);
    detector->leaving = true;
    detector->mine = *mine;
    gyre_detector_owe(detector, GYRE_OWED_BYE, NULL);
    for (uint32_t i = 0; i < detector->channels; i++)
        gyre_detector_compare(detector, &detector->channel[i]);
    check_all_left(detector);
}

/* -- what follows ------------------------------------------------------------------------------ */

bool gyre_detector_has_left(const struct gyre_failure_detector *detector, uint32_t channel)
{
    return detector->channel[channel].left || detector->all_left;
}

const struct gyre_detector_record *gyre_detector_failure(
    const struct gyre_failure_detector *detector)
{
    return detector->stage == GYRE_DETECTOR_DECIDED ? &detector->record : NULL;
}

const char *gyre_detector_take_warning(struct gyre_failure_detector *detector)
{
    bool warned = detector->warned;

    detector->warned = false;
    return warned ? detector->warning : NULL;
}

bool gyre_detector_may_end(const struct gyre_failure_detector *detector)
{
    for (uint32_t i = 0; i < detector->channels; i++) {
        const struct gyre_detector_channel *channel = &detector->channel[i];
        const bool told = detector->is.rank == 0 || channel->kin == GYRE_KIN_BELOW;
        if (told && !channel->near && !channel->closed && !channel->gone)
            return false;
    }
    return detector->all_left;
}

bool gyre_detector_near(const struct gyre_failure_detector *detector, uint32_t channel)
{
    return detector->channel[channel].near;
}

bool gyre_detector_closed(const struct gyre_failure_detector *detector, uint32_t channel)
{
    return detector->channel[channel].closed;
}

bool gyre_detector_all_left(const struct gyre_failure_detector *detector)
{
    return detector->all_left;
}

uint64_t gyre_detector_wake(const struct gyre_failure_detector *detector)
{
    uint64_t at = detector->next_beat;

    if (gyre_detector_waits(detector) && detector->deadline < at)
        at = detector->deadline;
    if (gyre_detector_waits(detector) && detector->depth > 0 && detector->climb_at < at)
        at = detector->climb_at;
    return at + detector->granted;
}

uint64_t gyre_detector_in(const struct gyre_failure_detector *detector, uint64_t ns)
{
    return detector->clock + ns;
}

uint64_t gyre_detector_left(const struct gyre_failure_detector *detector, uint64_t time)
{
    return time > detector->clock ? time - detector->clock : 0;
}
