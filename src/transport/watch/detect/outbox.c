/* What is said: messages are composed when a channel has room, from what is owed to it then. */
#include "transport/watch/detect/inside.h"

#include <string.h>

void gyre_vigil_owe(struct gyre_vigil *vigil, enum gyre_vigil_owed what,
                    const struct gyre_vigil_channel *except)
{
    for (uint32_t i = 0; i < vigil->channels; i++)
        if (&vigil->channel[i] != except && !vigil->channel[i].gone)
            vigil->channel[i].owed |= (uint8_t)what;
}

/* Fills the payload with states that the way up has not been told. False if some did not fit. */
static bool gather_states(struct gyre_vigil *vigil, struct gyre_watch_message *message,
                          uint8_t *payload)
{
    message->payload = payload;
    for (uint32_t i = 0; i <= vigil->channels; i++) {
        struct gyre_vigil_post *post = &vigil->post[i];
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

static void attach_failure(const struct gyre_vigil *vigil, struct gyre_watch_message *message)
{
    bool verdict = vigil->stage == GYRE_VIGIL_DECIDED && vigil->verdict;
    bool held = vigil->stage == GYRE_VIGIL_HELD;

    message->kind = GYRE_WATCH_FAILURE;
    message->flags = verdict ? GYRE_WATCH_VERDICT : held ? GYRE_WATCH_HELD : 0;
    message->status = vigil->record.status;
    message->rank = vigil->record.rank;
    attach_text(message, vigil->record.text);
}

static enum gyre_vigil_owed most_urgent(uint8_t owed)
{
    return (enum gyre_vigil_owed)(owed & -owed);
}

static void attach_state(const struct gyre_vigil *vigil, struct gyre_watch_message *message,
                         uint8_t *payload)
{
    message->payload = payload;
    message->payload_bytes = GYRE_WATCH_STATE_BYTES;
    gyre_watch_state_encode(&vigil->mine, payload);
}

/* Only the way up is told states, in as many beats as they need: those of a large node's last
 * ranks must not wait until the first ones have nothing new. */
static void attach_beat(struct gyre_vigil *vigil, struct gyre_vigil_channel *channel,
                        struct gyre_watch_message *message, uint8_t *payload)
{
    message->kind = GYRE_WATCH_BEAT;
    if (vigil->is.rank != 0 && channel->peer == gyre_vigil_parent(vigil) &&
        !gather_states(vigil, message, payload))
        channel->owed |= GYRE_OWED_BEAT;
}

size_t gyre_vigil_next_message(struct gyre_vigil *vigil, uint32_t index, uint8_t *out)
{
    struct gyre_vigil_channel *channel = &vigil->channel[index];
    struct gyre_watch_message message = {.epoch = vigil->is.epoch, .rank = vigil->is.rank};
    uint8_t states[GYRE_WATCH_PAYLOAD_MAX];
    enum gyre_vigil_owed what = most_urgent(channel->owed);

    if (channel->owed == 0)
        return 0;
    channel->owed &= (uint8_t)~what;
    if (what == GYRE_OWED_FAILURE) {
        attach_failure(vigil, &message);
    } else if (what == GYRE_OWED_ASK) {
        message.kind = GYRE_WATCH_ASK;
    } else if (what == GYRE_OWED_TELL) {
        message.kind = GYRE_WATCH_TELL;
        attach_state(vigil, &message, states);
    } else if (what == GYRE_OWED_WARNING) {
        message.kind = GYRE_WATCH_WARNING;
        attach_text(&message, vigil->warning);
    } else if (what == GYRE_OWED_BEAT) {
        attach_beat(vigil, channel, &message, states);
    } else if (what == GYRE_OWED_BYE) {
        message.kind = GYRE_WATCH_BYE;
        attach_state(vigil, &message, states);
    } else {
        message.kind = GYRE_WATCH_ALL_BYE;
    }
    return gyre_watch_encode(&message, out);
}
