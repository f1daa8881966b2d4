/* Composes messages to peers: when a channel has room, from what it is owed then.
 *
 * Tested by tests/unit/transport/watch/detect/failure_detector_test.c. */
#include "transport/watch/detect/inside.h"

#include <string.h>

void gyre_detector_owe(struct gyre_failure_detector *detector, enum gyre_detector_owed what,
                       const struct gyre_detector_channel *except)
{
    for (uint32_t i = 0; i < detector->channels; i++)
        if (&detector->channel[i] != except && !detector->channel[i].gone)
            detector->channel[i].owed |= (uint8_t)what;
}

void gyre_detector_ask(struct gyre_failure_detector *detector, uint32_t rank)
{
    struct gyre_detector_channel *way = gyre_detector_way(detector, rank);

    if (way == NULL)
        return;
    detector->channel[gyre_detector_channel(detector, rank)].ask = GYRE_ASK_DUE;
    way->owed |= GYRE_OWED_ASK;
}

void gyre_detector_ask_doubted(struct gyre_failure_detector *detector)
{
    for (uint32_t rank = 1; rank < detector->is.n; rank++) {
        const int channel = gyre_detector_channel(detector, rank);
        if (gyre_audit_doubts(detector->audit, rank) && channel >= 0 &&
            detector->channel[channel].ask == GYRE_ASK_NONE)
            gyre_detector_ask(detector, rank);
    }
}

static void ask_rank(struct gyre_failure_detector *detector, struct gyre_detector_side *side,
                     uint32_t rank)
{
    *side = (struct gyre_detector_side){.rank = rank, .told = rank >= detector->is.n};
    gyre_detector_ask(detector, rank);
}

void gyre_detector_inquire(struct gyre_failure_detector *detector, uint32_t holder, uint32_t other)
{
    ask_rank(detector, &detector->side[0], holder);
    ask_rank(detector, &detector->side[1], other);
    detector->next_beat = detector->clock; /* rank 0's own state, too, shall be a present one */
}

/* Fills the payload with states that the parent has not been told. False: some did not fit. */
static bool gather_states(struct gyre_failure_detector *detector,
                          struct gyre_watch_message *message, uint8_t *payload)
{
    message->payload = payload;
    for (uint32_t i = 0; i <= detector->channels; i++) {
        struct gyre_detector_post *post = &detector->post[i];
        if (!post->fresh)
            continue;
        if (message->payload_bytes + GYRE_WATCH_STATE_BYTES > GYRE_WATCH_PAYLOAD_MAX)
            return false;
        gyre_watch_state_encode(&post->state, payload + message->payload_bytes);
        message->payload_bytes += GYRE_WATCH_STATE_BYTES;
        post->fresh = false;
    }
    return true;
}

static void attach_text(struct gyre_watch_message *message, const char *text)
{
    message->payload = (const uint8_t *)text;
    message->payload_bytes = (uint32_t)strlen(text);
}

static void attach_failure(const struct gyre_failure_detector *detector,
                           struct gyre_watch_message *message)
{
    bool is_final = detector->stage == GYRE_DETECTOR_DECIDED && detector->is_final;
    bool held = detector->stage == GYRE_DETECTOR_HELD;
    bool of_other = held && detector->holder != detector->is.rank;

    message->kind = GYRE_WATCH_FAILURE;
    message->flags = is_final ? GYRE_WATCH_DECIDED : held ? GYRE_WATCH_HELD : 0;
    message->status = detector->record.status;
    message->rank = detector->record.rank;
    message->id = of_other ? detector->holder + 1 : 0;
    attach_text(message, detector->record.text);
}

static void attach_warning(const struct gyre_failure_detector *detector,
                           struct gyre_watch_message *message)
{
    message->kind = GYRE_WATCH_WARNING;
    message->id = detector->warning_comm;
    message->region_length = detector->warning_sequence;
    attach_text(message, detector->warning);
}

static enum gyre_detector_owed most_urgent(uint8_t owed)
{
    return (enum gyre_detector_owed)(owed & -owed);
}

static void attach_state(const struct gyre_watch_state *state, struct gyre_watch_message *message,
                         uint8_t *payload)
{
    message->payload = payload;
    message->payload_bytes = GYRE_WATCH_STATE_BYTES;
    gyre_watch_state_encode(state, payload);
}

/* Attaches one question; others for ranks on the same way are owed. */
static void attach_ask(struct gyre_failure_detector *detector,
                       struct gyre_detector_channel *channel, struct gyre_watch_message *message)
{
    bool attached = false;

    message->kind = GYRE_WATCH_ASK;
    for (uint32_t i = 0; i < detector->channels; i++) {
        struct gyre_detector_channel *asked = &detector->channel[i];
        if (asked->ask != GYRE_ASK_DUE || gyre_detector_way(detector, asked->peer) != channel)
            continue;
        if (attached) {
            channel->owed |= GYRE_OWED_ASK;
            return;
        }
        attached = true;
        asked->ask = GYRE_ASK_SENT;
        message->id = asked == channel ? 0 : asked->peer + 1;
    }
}

/* Attaches one answer, this rank's or of one below; others are owed. */
static void attach_tell(struct gyre_failure_detector *detector,
                        struct gyre_detector_channel *channel, struct gyre_watch_message *message,
                        uint8_t *payload)
{
    const struct gyre_watch_state *state = NULL;

    message->kind = GYRE_WATCH_TELL;
    for (uint32_t i = 0; i <= detector->channels; i++) {
        struct gyre_detector_post *post = &detector->post[i];
        if (!post->tell)
            continue;
        if (state != NULL) {
            channel->owed |= GYRE_OWED_TELL;
            break;
        }
        post->tell = false;
        post->told = true;
        state = &post->state;
    }
    attach_state(state != NULL ? state : &detector->mine, message, payload);
}

/* Attaches one goodbye of a rank below; others are owed. False: there is none. */
static bool attach_relay(struct gyre_failure_detector *detector,
                         struct gyre_detector_channel *channel, struct gyre_watch_message *message,
                         uint8_t *payload)
{
    bool attached = false;

    message->kind = GYRE_WATCH_BYE;
    for (uint32_t i = 0; i < detector->channels; i++) {
        if (!detector->post[1 + i].bye)
            continue;
        if (attached) {
            channel->owed |= GYRE_OWED_RELAY;
            break;
        }
        attached = true;
        detector->post[1 + i].bye = false;
        attach_state(&detector->channel[i].last, message, payload);
    }
    return attached;
}

/* Attaches states to a beat. Only the parent is told states, in as many beats as they need: those
 * of a large node's last ranks must not wait until the first ranks have nothing new. */
static void attach_beat(struct gyre_failure_detector *detector,
                        struct gyre_detector_channel *channel, struct gyre_watch_message *message,
                        uint8_t *payload)
{
    message->kind = GYRE_WATCH_BEAT;
    if (channel->kin == GYRE_KIN_BELOW && gyre_detector_rootless(detector))
        message->flags = GYRE_WATCH_ROOTLESS;
    if (detector->up >= 0 && channel == &detector->channel[detector->up] &&
        !gather_states(detector, message, payload))
        channel->owed |= GYRE_OWED_BEAT;
}

size_t gyre_detector_next_message(struct gyre_failure_detector *detector, uint32_t index,
                                  uint8_t *out)
{
    struct gyre_detector_channel *channel = &detector->channel[index];
    struct gyre_watch_message message = {.epoch = detector->is.epoch, .rank = detector->is.rank};
    uint8_t states[GYRE_WATCH_PAYLOAD_MAX];
    enum gyre_detector_owed what = most_urgent(channel->owed);

    if (channel->owed == 0)
        return 0;
    channel->owed &= (uint8_t)~what;
    if (what == GYRE_OWED_FAILURE) {
        attach_failure(detector, &message);
    } else if (what == GYRE_OWED_ASK) {
        attach_ask(detector, channel, &message);
    } else if (what == GYRE_OWED_TELL) {
        attach_tell(detector, channel, &message, states);
    } else if (what == GYRE_OWED_WARNING) {
        attach_warning(detector, &message);
    } else if (what == GYRE_OWED_BEAT) {
        attach_beat(detector, channel, &message, states);
    } else if (what == GYRE_OWED_BYE) {
        message.kind = GYRE_WATCH_BYE;
        attach_state(&detector->mine, &message, states);
    } else if (what == GYRE_OWED_RELAY) {
        if (!attach_relay(detector, channel, &message, states))
            return 0;
    } else {
        message.kind = GYRE_WATCH_ALL_BYE;
    }
    return gyre_watch_encode(&message, out);
}
