/* The watch's wire format.
 *
 * The checksum finds damage, not an enemy: between machines the channel has a keyed code.
 * Every field is checked against its bound before use, because a message may come from a process
 * whose memory is damaged. */
#include "transport/watch/detect/message.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/printable.h"

#include <gyre/gyre.h>
#include <stdbool.h>
#include <string.h>

enum { AT_LENGTH = 0, AT_KIND = 4, AT_FLAGS = 5, AT_EPOCH = 6, AT_RANK = 8, AT_STATUS = 12 };
enum { /* of a state */
       AT_ELSEWHERE_COUNT = 64 + 16 * GYRE_WATCH_CALLS,
       AT_REFUSED = AT_ELSEWHERE_COUNT + 4 + 20 * GYRE_WATCH_ELSEWHERE
};
enum { PARTING = 1, STANDS = 2 };
enum { AT_ID = 16, AT_CRC = 20, AT_REGION = 24 };

/* Sums a whole message, reading its crc field as 0. */
static uint32_t message_sum(const uint8_t *message, size_t length)
{
    static const uint8_t zero[4];
    uint32_t crc = gyre_crc32c(0, message, AT_CRC);

    crc = gyre_crc32c(crc, zero, sizeof zero);
    return gyre_crc32c(crc, message + AT_REGION, length - AT_REGION);
}

size_t gyre_watch_encode(const struct gyre_watch_message *message, uint8_t *out)
{
    size_t length = GYRE_WATCH_HEADER_BYTES + message->payload_bytes;

    gyre_put32(out + AT_LENGTH, (uint32_t)length);
    out[AT_KIND] = (uint8_t)message->kind;
    out[AT_FLAGS] = message->flags;
    gyre_put16(out + AT_EPOCH, message->epoch);
    gyre_put32(out + AT_RANK, message->rank);
    gyre_put32(out + AT_STATUS, (uint32_t)message->status);
    gyre_put32(out + AT_ID, message->id);
    gyre_put64(out + AT_REGION, message->region_length);
    if (message->payload_bytes > 0)
        memcpy(out + GYRE_WATCH_HEADER_BYTES, message->payload, message->payload_bytes);
    gyre_put32(out + AT_CRC, message_sum(out, length));
    return length;
}

size_t gyre_watch_length(const uint8_t in[4])
{
    uint32_t length = gyre_get32(in);
    bool fits = length >= GYRE_WATCH_HEADER_BYTES && length <= GYRE_WATCH_MESSAGE_MAX;

    return fits ? length : 0;
}

static bool sensible(const struct gyre_watch_message *message)
{
    if (message->kind < GYRE_WATCH_BEAT || message->kind >= GYRE_WATCH_KINDS)
        return false;
    if (message->kind == GYRE_WATCH_BEAT)
        return message->payload_bytes % GYRE_WATCH_STATE_BYTES == 0;
    if (message->kind == GYRE_WATCH_BYE || message->kind == GYRE_WATCH_TELL)
        return message->payload_bytes == GYRE_WATCH_STATE_BYTES;
    return message->kind != GYRE_WATCH_FAILURE || message->status < 0;
}

int gyre_watch_decode(const uint8_t *in, size_t length, struct gyre_watch_message *message)
{
    if (length < GYRE_WATCH_HEADER_BYTES || gyre_watch_length(in) != length)
        return GYRE_CORRUPT;
    if (gyre_get32(in + AT_CRC) != message_sum(in, length))
        return GYRE_CORRUPT;
    *message = (struct gyre_watch_message){
        .kind = in[AT_KIND],
        .flags = in[AT_FLAGS],
        .epoch = gyre_get16(in + AT_EPOCH),
        .rank = gyre_get32(in + AT_RANK),
        .status = (int32_t)gyre_get32(in + AT_STATUS),
        .id = gyre_get32(in + AT_ID),
        .region_length = gyre_get64(in + AT_REGION),
        .payload = in + GYRE_WATCH_HEADER_BYTES,
        .payload_bytes = (uint32_t)(length - GYRE_WATCH_HEADER_BYTES),
    };
    return sensible(message) ? 0 : GYRE_CORRUPT;
}

static void take_line(char *out, const uint8_t *in, size_t length)
{
    memcpy(out, in, length);
    out[length] = '\0';
    gyre_printable_line(out);
}

void gyre_watch_text(const struct gyre_watch_message *message, char *out, size_t size)
{
    take_line(out, message->payload,
              message->payload_bytes < size - 1 ? message->payload_bytes : size - 1);
}

static void encode_refused(const struct gyre_watch_state *state, uint8_t *out)
{
    gyre_put32(out, (state->parting ? PARTING : 0) | (state->refused.stands ? STANDS : 0));
    gyre_put32(out + 4, (uint32_t)state->refused.comm);
    gyre_put64(out + 8, state->refused.sequence);
    memcpy(out + 16, state->refused.why, GYRE_WATCH_WHY_MAX);
}

static void decode_refused(const uint8_t *in, struct gyre_watch_state *state)
{
    uint32_t flags = gyre_get32(in);

    state->parting = (flags & PARTING) != 0;
    state->refused.stands = (flags & STANDS) != 0;
    state->refused.comm = gyre_get32(in + 4);
    state->refused.sequence = gyre_get64(in + 8);
    take_line(state->refused.why, in + 16, strnlen((const char *)in + 16, GYRE_WATCH_WHY_MAX - 1));
}

void gyre_watch_state_encode(const struct gyre_watch_state *state,
                             uint8_t out[GYRE_WATCH_STATE_BYTES])
{
    gyre_put32(out, state->rank);
    gyre_put32(out + 4, state->comm);
    gyre_put64(out + 8, state->sequence);
    gyre_put64(out + 16, state->finished);
    gyre_put64(out + 24, state->fingerprint);
    gyre_put64(out + 32, state->signature);
    gyre_put64(out + 40, state->count);
    gyre_put64(out + 48, state->motion);
    gyre_put64(out + 56, state->calls);
    for (int i = 0; i < GYRE_WATCH_CALLS; i++) {
        gyre_put64(out + 64 + 16 * i, state->call[i].signature);
        gyre_put64(out + 72 + 16 * i, state->call[i].count);
    }
    gyre_put32(out + AT_ELSEWHERE_COUNT, (uint32_t)state->elsewhere_count);
    for (int i = 0; i < GYRE_WATCH_ELSEWHERE; i++) {
        uint8_t *at = out + AT_ELSEWHERE_COUNT + 4 + 20 * i;
        gyre_put32(at, (uint32_t)state->elsewhere[i].comm);
        gyre_put64(at + 4, state->elsewhere[i].sequence);
        gyre_put64(at + 12, state->elsewhere[i].finished);
    }
    encode_refused(state, out + AT_REFUSED);
}

void gyre_watch_state_decode(const uint8_t in[GYRE_WATCH_STATE_BYTES],
                             struct gyre_watch_state *state)
{
    *state = (struct gyre_watch_state){
        .rank = gyre_get32(in),
        .comm = gyre_get32(in + 4),
        .sequence = gyre_get64(in + 8),
        .finished = gyre_get64(in + 16),
        .fingerprint = gyre_get64(in + 24),
        .signature = gyre_get64(in + 32),
        .count = gyre_get64(in + 40),
        .motion = gyre_get64(in + 48),
        .calls = gyre_get64(in + 56),
    };
    for (int i = 0; i < GYRE_WATCH_CALLS; i++) {
        state->call[i].signature = gyre_get64(in + 64 + 16 * i);
        state->call[i].count = gyre_get64(in + 72 + 16 * i);
    }
    state->elsewhere_count = gyre_get32(in + AT_ELSEWHERE_COUNT);
    for (int i = 0; i < GYRE_WATCH_ELSEWHERE; i++) {
        const uint8_t *at = in + AT_ELSEWHERE_COUNT + 4 + 20 * i;
        state->elsewhere[i].comm = gyre_get32(at);
        state->elsewhere[i].sequence = gyre_get64(at + 4);
        state->elsewhere[i].finished = gyre_get64(at + 12);
    }
    decode_refused(in + AT_REFUSED, state);
    if (state->calls > GYRE_WATCH_CALLS)
        state->calls = 0;
    if (state->elsewhere_count > GYRE_WATCH_ELSEWHERE)
        state->elsewhere_count = 0;
}
