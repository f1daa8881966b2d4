/* Messages of the watch against its decoder and against the failure detector of one rank of a job
 * of two nodes, of five in a tree, or with a large one. The input is a script of one-byte orders
 * with arguments: time passes, peers send messages of any kind and content, or raw bytes, channels
 * end, break and come back, processes end, this rank leaves.
 *
 * What is checked beside memory safety: what the detector writes can be decoded, a failure is told
 * with a status and a text and never changes again, and texts end. */
#include "fuzz/fuzz.h"

#include "base/bytes.h"
#include "transport/watch/detect/failure_detector.h"
#include "transport/watch/detect/message.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 5, SECOND = 1000000000 };

struct play {
    const uint8_t *at, *end;
    struct gyre_member member[RANKS];
    struct gyre_failure_detector *detector;
    uint64_t now;
    struct gyre_watch_state mine;
    const struct gyre_detector_record *failure;
    struct gyre_detector_record first; /* *failure as it was told first */
};

static uint8_t next(struct play *play)
{
    return play->at < play->end ? *play->at++ : 0;
}

static uint64_t some_number(struct play *play)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 255, UINT32_MAX, UINT64_MAX, 1u << 12};
    uint8_t pick = next(play);
    return pick < 248 ? pick % 8 : numbers[pick % 8];
}

/* -- messages ---------------------------------------------------------------------------------- */

static void fill_state(struct play *play, struct gyre_watch_state *state, uint32_t rank)
{
    memset(state, 0, sizeof *state);
    state->rank = next(play) % 16 ? rank : (uint32_t)some_number(play);
    state->comm = next(play) % 4 ? 0 : (uint32_t)some_number(play);
    state->sequence = some_number(play);
    state->finished = some_number(play);
    state->fingerprint = some_number(play);
    state->signature = some_number(play);
    state->count = some_number(play);
    state->motion = some_number(play);
    state->calls = some_number(play);
    state->elsewhere_count = some_number(play);
    for (int i = 0; i < GYRE_WATCH_CALLS; i++)
        state->call[i] = (struct gyre_watch_call){some_number(play), some_number(play)};
    for (int i = 0; i < GYRE_WATCH_ELSEWHERE; i++)
        state->elsewhere[i] = (struct gyre_watch_elsewhere){some_number(play), 1, 1};
    state->parting = next(play) % 8 == 0;
    state->refused.stands = next(play) % 8 == 0;
    state->refused.sequence = some_number(play);
    memset(state->refused.why, next(play), sizeof state->refused.why);
}

static void decode(struct play *play, const uint8_t *bytes, size_t length, uint32_t channel)
{
    struct gyre_watch_message message;
    char text[64];
    uint8_t *exact = malloc(length ? length : 1); /* a sanitizer sees one byte beyond */
    if (!exact)
        return;
    if (length)
        memcpy(exact, bytes, length);
    if (length >= 4)
        (void)gyre_watch_length(exact);
    if (!gyre_watch_decode(exact, length, &message)) {
        gyre_watch_text(&message, text, sizeof text);
        REQUIRE(memchr(text, '\0', sizeof text));
        gyre_detector_receive(play->detector, play->now, channel, &message);
    }
    free(exact);
}

static void send_message(struct play *play, uint32_t channel)
{
    static uint8_t payload[GYRE_WATCH_PAYLOAD_MAX], wire[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_state state;
    struct gyre_watch_message message = {
        .kind = (enum gyre_watch_kind)(next(play) % (GYRE_WATCH_KINDS + 1)),
        .flags = next(play) % 4 ? 0 : next(play),
        .epoch = next(play) % 32 == 1,
        .rank = gyre_detector_peer(play->detector, channel),
        .status = -(int32_t)next(play),
        .id = next(play),
        .payload = payload};
    if (next(play) % 8 == 0)
        message.rank = (uint32_t)some_number(play);
    uint32_t states = next(play) % (GYRE_WATCH_STATES_MAX + 1);
    bool text = message.kind == GYRE_WATCH_FAILURE || message.kind == GYRE_WATCH_WARNING;
    for (uint32_t i = 0; i < states && !text; i++) {
        fill_state(play, &state, (message.rank % RANKS + i) % RANKS);
        gyre_watch_state_encode(&state, payload + (size_t)i * GYRE_WATCH_STATE_BYTES);
    }
    message.payload_bytes = states * GYRE_WATCH_STATE_BYTES;
    if (text) {
        message.payload_bytes = next(play);
        memset(payload, next(play), message.payload_bytes);
    }
    size_t length = gyre_watch_encode(&message, wire);
    if (next(play) % 16 == 1)
        wire[next(play) % length] ^= 1;
    decode(play, wire, length, channel);
}

static void send_raw(struct play *play, uint32_t channel)
{
    uint8_t bytes[96];
    size_t length = next(play) % sizeof bytes;
    for (size_t i = 0; i < length; i++)
        bytes[i] = next(play);
    decode(play, bytes, length, channel);
}

/* -- what the detector says -------------------------------------------------------------------- */

static void check_failure(struct play *play)
{
    const struct gyre_detector_record *failure = gyre_detector_failure(play->detector);
    if (!failure) {
        REQUIRE(!play->failure);
        return;
    }
    REQUIRE(failure->status < 0 && memchr(failure->text, '\0', sizeof failure->text));
    if (play->failure)
        REQUIRE(failure->status == play->first.status && failure->rank == play->first.rank &&
                !strcmp(failure->text, play->first.text));
    else
        play->first = *failure;
    play->failure = failure;
}

static void take_messages(struct play *play)
{
    uint8_t wire[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message message;
    for (uint32_t c = 0; c < gyre_detector_channels(play->detector); c++)
        for (int i = 0; i < 4; i++) {
            size_t length = gyre_detector_next_message(play->detector, c, wire);
            if (!length)
                break;
            REQUIRE(length <= sizeof wire && gyre_watch_length(wire) == length);
            REQUIRE(!gyre_watch_decode(wire, length, &message));
        }
    (void)gyre_detector_take_warning(play->detector);
    (void)gyre_detector_all_left(play->detector);
}

static void move_connection(struct play *play, uint8_t order, uint32_t channel)
{
    if (order == 29)
        (void)gyre_detector_broken(play->detector, play->now, channel, -1);
    else if (order == 37)
        gyre_detector_called(play->detector, play->now, channel);
    else if (order == 45)
        gyre_detector_resumed(play->detector, play->now, channel);
}

static void obey(struct play *play)
{
    uint8_t order = next(play);
    uint32_t channels = gyre_detector_channels(play->detector);
    uint32_t channel = next(play) % channels;
    switch (order % 8) {
    case 0:
    case 1:
    case 2:
        send_message(play, channel);
        break;
    case 3:
        send_raw(play, channel);
        break;
    case 4:
        play->now += (uint64_t)next(play) * SECOND / 50;
        play->mine.sequence += order >> 3 & 1;
        play->mine.motion++;
        gyre_detector_tick(play->detector, play->now, &play->mine);
        break;
    case 5:
        if (order == 5)
            gyre_detector_eof(play->detector, play->now, channel, "it broke");
        else if (order == 13)
            gyre_detector_ended(play->detector, play->now, channel);
        else if (order == 21)
            gyre_detector_launcher_gone(play->detector, play->now);
        else
            move_connection(play, order, channel);
        break;
    case 6:
        take_messages(play);
        break;
    case 7:
        if (order == 7)
            gyre_detector_leave(play->detector, play->now, &play->mine);
        break;
    }
    check_failure(play);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    if (size < 1)
        return 0;
    uint32_t rank = data[0] % RANKS;
    bool deep = data[0] & 128, large = deep && data[0] & 32;
    play = (struct play){.at = data + 1, .end = data + size, .now = SECOND};
    for (uint32_t r = 0; r < RANKS; r++) {
        struct gyre_member *member = &play.member[r];
        uint32_t per_node = large ? 4 : deep ? 1 : 3;
        member->node = r / per_node;
        member->local_rank = (int)(r % per_node);
        member->large = large;
        member->pid = (int32_t)(1000 + r);
        snprintf(member->host, sizeof member->host, "host%u", member->node);
    }
    play.mine.rank = rank;
    struct gyre_detector_options options = {.rank = rank,
                                            .n = RANKS,
                                            .member = play.member,
                                            .fan_out = deep ? 2 : 0,
                                            .dead_ns = 10ull * SECOND,
                                            .timeout_ns = data[0] & 64 ? 30ull * SECOND : 0,
                                            .patience_ns = 5ull * SECOND};
    REQUIRE(!gyre_detector_create(&options, play.now, &play.detector));
    while (play.at < play.end)
        obey(&play);
    take_messages(&play);
    gyre_detector_destroy(play.detector);
    return 0;
}

#ifndef GYRE_LIBFUZZER

static size_t make_case(uint64_t seed, uint8_t *data)
{
    return fuzz_random_bytes(seed, 1, 2001, data);
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 5000, make_case);
}

#endif
