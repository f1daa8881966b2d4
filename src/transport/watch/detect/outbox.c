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

static void ask_rank(struct gyre_failure_detector *detector, struct gyre_detector_side *side,
                     uint32_t rank)
{
    int channel = rank < detector->is.n ? gyre_detector_channel(detector, rank) : -1;

    *side = (struct gyre_detector_side){.rank = rank, .told = rank >= detector->is.n};
    if (channel >= 0 && !detector->channel[channel].gone)
        detector->channel[channel].owed |= GYRE_OWED_ASK;
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

    message->kind = GYRE_WATCH_FAILURE;
    message->flags = is_final ? GYRE_WATCH_DECIDED : held ? GYRE_WATCH_HELD : 0;
    message->status = detector->record.status;
    message->rank = detector->record.rank;
    attach_text(message, detector->record.text);
}

static enum gyre_detector_owed most_urgent(uint8_t owed)
{
    return (enum gyre_detector_owed)(owed & -owed);
}

static void attach_state(const struct gyre_failure_detector *detector,
                         struct gyre_watch_message *message, uint8_t *payload)
{
    message->payload = payload;
    message->payload_bytes = GYRE_WATCH_STATE_BYTES;
    gyre_watch_state_encode(&detector->mine, payload);
}

/* Attaches states to a beat. Only the parent is told states, in as many beats as they need: those
 * of a large node's last ranks must not wait until the first ranks have nothing new. */
static void attach_beat(struct gyre_failure_detector *detector,
                        struct gyre_detector_channel *channel, struct gyre_watch_message *message,
                        uint8_t *payload)
{
    message->kind = GYRE_WATCH_BEAT;
    if (detector->is.rank != 0 && channel->peer == gyre_detector_parent(detector) &&
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
        message.kind = GYRE_WATCH_ASK;
    } else if (what == GYRE_OWED_TELL) {
        message.kind = GYRE_WATCH_TELL;
        attach_state(detector, &message, states);
    } else if (what == GYRE_OWED_WARNING) {
        message.kind = GYRE_WATCH_WARNING;
        attach_text(&message, detector->warning);
    } else if (what == GYRE_OWED_BEAT) {
        attach_beat(detector, channel, &message, states);
    } else if (what == GYRE_OWED_BYE) {
        message.kind = GYRE_WATCH_BYE;
        attach_state(detector, &message, states);
    } else {
        message.kind = GYRE_WATCH_ALL_BYE;
    }
    return gyre_watch_encode(&message, out);
}
