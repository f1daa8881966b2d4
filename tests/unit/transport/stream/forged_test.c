/* Somebody on the path, in memory: both ends of a stream send each other messages of every length,
 * and one frame of either direction is damaged or forged on its way. The reader of that frame fails
 * with GYRE_CORRUPT, every post of it ends, and no message arrives with other bytes.
 *
 *     without keys    one bit flipped, 10,000 times
 *     with keys       one bit flipped, 10,000 times; 10,000 forgeries by somebody who can compute
 *                     sums, but has no key */
#include "rig/stream_pair.h"
#include "rig/test.h"

#include "base/bytes.h"
#include "transport/stream/frame.h"

#include <stdio.h>
#include <stdlib.h>

#define TIMES    10000
#define EAGER    1024u
#define MESSAGES 8
#define LONGEST  5000
#define FRAMES   64      /* of an exchange, at most */
#define WIRE     0x10000 /* bytes of an exchange, at most */
#define PENDING  1

static const uint32_t lengths[MESSAGES] = {0, 8, 40, 300, EAGER, EAGER + 1, LONGEST, 200};

/* The frames of an exchange, in the order in which they were carried. */
struct tape {
    struct {
        const uint8_t *bytes;
        size_t length;
        int from;
        bool followed; /* by another that was written with it */
    } frame[FRAMES];
    int frames;
    size_t used;
    uint8_t bytes[WIRE];
};

/* The frames that one end has written at once, of which the one at `at` is forged. */
struct batch {
    uint8_t bytes[2 * WIRE];
    size_t length, at, frame, next; /* bytes of the forged one and of its follower, or 0 */
    const struct tape *so_far;      /* ends with the forged one */
};

struct forger {
    const char *name;
    void (*forge)(struct batch *batch, struct gyre_rng *rng);
    bool needs_follower;
    bool padded; /* may only be seen with the bytes that follow */
};

struct exchange {
    struct stream_pair pair;
    struct tape tape;
    const struct forger *forger; /* NULL: an honest exchange */
    struct gyre_rng *rng;
    int chosen, victim; /* the frame to forge; the end that got it, -1: none yet */
    uint8_t out[2][MESSAGES][LONGEST];
    int got[2][MESSAGES], sent[2][MESSAGES];
};

static enum gyre_seal_mode security;

/* With the keys and the epoch of the exchange that is attacked, other keys, and another epoch. */
static struct tape honest, of_other_keys, of_other_epoch;

/* -- the exchange ------------------------------------------------------------------------------ */

static const uint8_t *message(int end, int i)
{
    static uint8_t data[LONGEST + 2 * MESSAGES];
    for (size_t at = 0; data[1] == 0 && at < sizeof data; at++)
        data[at] = (uint8_t)gyre_mix64(at);
    return data + end * MESSAGES + i;
}

static void post_all(struct exchange *exchange)
{
    for (int i = 0; i < 2 * MESSAGES; i++) {
        int end = i % 2, j = i / 2;
        struct gyre_match match = {.comm = 1, .sequence = 1, .order = (uint16_t)i};
        struct gyre_stream *from = exchange->pair.end[end], *to = exchange->pair.end[!end];
        exchange->sent[end][j] = exchange->got[!end][j] = PENDING;
        assert_false(gyre_stream_recv(to, &match, exchange->out[!end][j], lengths[j],
                                      (uint64_t)(MESSAGES + j)));
        assert_false(gyre_stream_send(from, &match, message(end, j), lengths[j], (uint64_t)j));
    }
}

static void fetch(struct exchange *exchange)
{
    struct gyre_completion done[2 * MESSAGES];
    for (int end = 0; end < 2; end++) {
        int count = gyre_stream_complete(exchange->pair.end[end], done, 2 * MESSAGES);
        for (int i = 0; i < count; i++) {
            uint64_t token = done[i].token;
            int *status = token < MESSAGES ? &exchange->sent[end][token]
                                           : &exchange->got[end][token - MESSAGES];
            assert_int_equal(*status, PENDING);
            *status = done[i].status;
        }
    }
}

static int deliver(struct gyre_stream *to, const uint8_t *bytes, size_t length)
{
    int status = 0;
    while (length > 0 && !status) {
        struct iovec in[2], from = {(void *)(uintptr_t)bytes, length};
        size_t moved = stream_copy(&from, 1, in, gyre_stream_target(to, in), SIZE_MAX);
        status = gyre_stream_read(to, moved);
        bytes += moved;
        length -= moved;
    }
    return status;
}

static size_t take_all(struct gyre_stream *from, uint8_t *bytes)
{
    struct iovec iov[8], to = {bytes, WIRE};
    int count;
    while ((count = gyre_stream_gather(from, iov, 8)) > 0) {
        size_t moved = stream_copy(iov, count, &to, 1, SIZE_MAX);
        assert_true(moved > 0);
        gyre_stream_wrote(from, moved);
        to.iov_base = (uint8_t *)to.iov_base + moved;
        to.iov_len -= moved;
    }
    return WIRE - to.iov_len;
}

static size_t frame_bytes(const uint8_t *frame)
{
    size_t proof = security ? GYRE_SEAL_TAG_BYTES : GYRE_FRAME_SUM_BYTES;
    return GYRE_FRAME_BYTES + proof + (gyre_get32(frame) & 0xffffff);
}

static void record(struct tape *tape, int from, const struct batch *batch)
{
    assert_true(tape->frames < FRAMES && tape->used + batch->frame <= WIRE);
    uint8_t *copy = memcpy(tape->bytes + tape->used, batch->bytes + batch->at, batch->frame);
    tape->frame[tape->frames].bytes = copy;
    tape->frame[tape->frames].length = batch->frame;
    tape->frame[tape->frames].from = from;
    tape->frame[tape->frames++].followed = batch->next > 0;
    tape->used += batch->frame;
}

/* What comes behind a forgery is zeros: the end of a frame that has become longer. */
static void deliver_forged(struct exchange *exchange, int victim, struct batch *batch)
{
    static const uint8_t zeros[GYRE_FRAME_PAYLOAD_MAX];
    struct gyre_stream *to = exchange->pair.end[victim];
    batch->so_far = &exchange->tape;
    exchange->forger->forge(batch, exchange->rng);
    int status = deliver(to, batch->bytes, batch->length);
    if (!status && exchange->forger->padded)
        status = deliver(to, zeros, sizeof zeros);
    exchange->pair.status[victim] = status;
    exchange->victim = victim;
}

/* Brings all that end `from` has to write; returns its bytes. */
static size_t carry(struct exchange *exchange, int from)
{
    static struct batch batch;
    batch.length = take_all(exchange->pair.end[from], batch.bytes);
    for (batch.at = 0; batch.at < batch.length; batch.at += batch.frame) {
        batch.frame = frame_bytes(batch.bytes + batch.at);
        size_t behind = batch.at + batch.frame;
        batch.next = behind < batch.length ? frame_bytes(batch.bytes + behind) : 0;
        record(&exchange->tape, from, &batch);
        if (exchange->forger && exchange->tape.frames - 1 == exchange->chosen) {
            deliver_forged(exchange, !from, &batch);
            return 0;
        }
    }
    assert_int_equal(deliver(exchange->pair.end[!from], batch.bytes, batch.length), 0);
    return batch.length;
}

/* Carries until the forgery, or until both ends are silent. */
static void run_exchange(struct exchange *exchange)
{
    size_t moved;
    exchange->tape.frames = 0;
    exchange->tape.used = 0;
    exchange->victim = -1;
    memset(exchange->out, 0, sizeof exchange->out);
    post_all(exchange);
    do {
        moved = carry(exchange, 0);
        moved += exchange->victim < 0 ? carry(exchange, 1) : 0;
    } while (moved > 0 && exchange->victim < 0);
    fetch(exchange);
}

static void open_pair(struct exchange *exchange, uint16_t epoch, bool other_keys)
{
    static const struct gyre_traffic_keys keys[2] = {{.out = {3}, .in = {4}},
                                                     {.out = {4}, .in = {3}}};
    struct gyre_stream_options options = {.epoch = epoch,
                                          .posts = 2 * MESSAGES,
                                          .checksum = true,
                                          .eager = EAGER,
                                          .security = security};
    exchange->pair = (struct stream_pair){0};
    if (!other_keys) {
        assert_int_equal(stream_pair_open(&exchange->pair, options, security), 0);
        return;
    }
    for (int end = 0; end < 2; end++) {
        options.keys = &keys[end];
        assert_int_equal(gyre_stream_create(&options, &exchange->pair.end[end]), 0);
    }
}

static void close_pair(struct exchange *exchange)
{
    gyre_stream_destroy(exchange->pair.end[0]);
    gyre_stream_destroy(exchange->pair.end[1]);
}

/* -- forgeries --------------------------------------------------------------------------------- */

static void flip_a_bit(struct batch *batch, struct gyre_rng *rng)
{
    uint64_t bit = gyre_rng_below(rng, 8 * batch->frame);
    batch->bytes[batch->at + bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* Sums are of headers alone, so they stay right. */
static void change_a_payload(struct batch *batch, struct gyre_rng *rng)
{
    uint8_t *frame = batch->bytes + batch->at;
    size_t body = batch->frame - GYRE_FRAME_HEAD_MOST;
    size_t at = body ? GYRE_FRAME_HEAD_MOST + gyre_rng_below(rng, body)
                     : GYRE_FRAME_BYTES + gyre_rng_below(rng, GYRE_SEAL_TAG_BYTES);
    frame[at] ^= (uint8_t)(1 + gyre_rng_below(rng, 255));
}

/* Any field but the sum, and the sum of the changed header. */
static void change_a_header(struct batch *batch, struct gyre_rng *rng)
{
    uint8_t *head = batch->bytes + batch->at;
    head[gyre_rng_below(rng, 28)] ^= (uint8_t)(1 + gyre_rng_below(rng, 255));
    gyre_put32(head + 28, gyre_frame_sum(head));
}

/* Puts `length` bytes in the place of `gone` bytes at `at`. */
static void replace(struct batch *batch, size_t at, size_t gone, const uint8_t *by, size_t length)
{
    assert_true(batch->length - gone + length <= sizeof batch->bytes);
    memmove(batch->bytes + at + length, batch->bytes + at + gone, batch->length - at - gone);
    if (length > 0)
        memcpy(batch->bytes + at, by, length);
    batch->length += length - gone;
}

/* The end of the payload, or of the tag, is left out; what follows moves up. */
static void cut_a_frame(struct batch *batch, struct gyre_rng *rng)
{
    size_t gone = 1 + gyre_rng_below(rng, batch->frame - GYRE_FRAME_BYTES);
    replace(batch, batch->at + batch->frame - gone, gone, NULL, 0);
}

/* The same, and the header says so. */
static void shorten_a_frame(struct batch *batch, struct gyre_rng *rng)
{
    uint8_t *head = batch->bytes + batch->at;
    size_t body = batch->frame - GYRE_FRAME_HEAD_MOST;
    if (body == 0) {
        cut_a_frame(batch, rng);
        return;
    }
    size_t gone = 1 + gyre_rng_below(rng, body);
    gyre_put32(head, gyre_get32(head) - (uint32_t)gone);
    gyre_put32(head + 28, gyre_frame_sum(head));
    replace(batch, batch->at + batch->frame - gone, gone, NULL, 0);
}

static void drop_a_frame(struct batch *batch, struct gyre_rng *rng)
{
    (void)rng;
    replace(batch, batch->at, batch->frame, NULL, 0);
}

static void swap_two_frames(struct batch *batch, struct gyre_rng *rng)
{
    static uint8_t copy[WIRE];
    (void)rng;
    memcpy(copy, batch->bytes + batch->at, batch->frame);
    replace(batch, batch->at, batch->frame, NULL, 0);
    replace(batch, batch->at + batch->next, 0, copy, batch->frame);
}

/* One that came before on this way, or the forged one itself, once more. */
static void repeat_a_frame(struct batch *batch, struct gyre_rng *rng)
{
    const struct tape *tape = batch->so_far;
    int last = tape->frames - 1, i;
    do
        i = (int)gyre_rng_below(rng, (uint64_t)tape->frames);
    while (tape->frame[i].from != tape->frame[last].from);
    replace(batch, batch->at + batch->frame, 0, tape->frame[i].bytes, tape->frame[i].length);
}

/* The frame of this number, or any that the reader has written itself, of another exchange. */
static void take_from(struct batch *batch, const struct tape *tape, int i)
{
    replace(batch, batch->at, batch->frame, tape->frame[i].bytes, tape->frame[i].length);
}

static void take_from_another_connection(struct batch *batch, struct gyre_rng *rng)
{
    (void)rng;
    take_from(batch, &of_other_keys, batch->so_far->frames - 1);
}

static void take_from_another_epoch(struct batch *batch, struct gyre_rng *rng)
{
    (void)rng;
    take_from(batch, &of_other_epoch, batch->so_far->frames - 1);
}

static void disguise_one_of_another_epoch(struct batch *batch, struct gyre_rng *rng)
{
    uint8_t *head = batch->bytes + batch->at;
    uint16_t epoch = gyre_get16(head + 4);
    take_from_another_epoch(batch, rng);
    gyre_put16(head + 4, epoch);
    gyre_put32(head + 28, gyre_frame_sum(head));
}

static void reflect_a_frame(struct batch *batch, struct gyre_rng *rng)
{
    int i, from = batch->so_far->frame[batch->so_far->frames - 1].from;
    do
        i = (int)gyre_rng_below(rng, (uint64_t)honest.frames);
    while (honest.frame[i].from == from);
    take_from(batch, &honest, i);
}

static const struct forger flipper = {"one bit flipped", flip_a_bit, .padded = false};

static const struct forger forgers[] = {
    {"payload changed", change_a_payload, false, false},
    {"header changed, its sum right", change_a_header, false, true},
    {"frame cut", cut_a_frame, false, true},
    {"frame cut, its header right", shorten_a_frame, false, false},
    {"frame dropped", drop_a_frame, true, false},
    {"two frames swapped", swap_two_frames, true, false},
    {"frame repeated", repeat_a_frame, false, false},
    {"frame of another connection", take_from_another_connection, false, false},
    {"frame of another epoch", take_from_another_epoch, false, false},
    {"frame of another epoch, disguised", disguise_one_of_another_epoch, false, false},
    {"frame sent back", reflect_a_frame, false, false}};

#define FORGERS ((int)(sizeof forgers / sizeof *forgers))

/* -- what becomes of them ---------------------------------------------------------------------- */

/* Whether every receive of that end has the right bytes, or a status that says not. */
static bool is_honest(const struct exchange *exchange, int end, int otherwise)
{
    for (int i = 0; i < MESSAGES; i++) {
        int got = exchange->got[end][i], sent = exchange->sent[end][i];
        if (got == 0 && memcmp(exchange->out[end][i], message(!end, i), lengths[i]) != 0)
            return false;
        if ((got != 0 && got != otherwise) || (sent != 0 && sent != otherwise))
            return false;
    }
    return true;
}

/* Whether a forgery of the chosen frame is told, and nothing wrong is received. */
static bool is_found(struct exchange *exchange)
{
    open_pair(exchange, 7, false);
    run_exchange(exchange);
    int victim = exchange->victim;
    bool found = victim >= 0 && exchange->pair.status[victim] == GYRE_CORRUPT &&
                 is_honest(exchange, victim, GYRE_CORRUPT) && is_honest(exchange, !victim, PENDING);
    if (!found)
        print_error("%s, frame %d: told %d by end %d\n", exchange->forger->name, exchange->chosen,
                    victim < 0 ? 0 : exchange->pair.status[victim], victim);
    close_pair(exchange);
    return found;
}

static int choose(const struct exchange *exchange)
{
    for (;;) {
        int i = (int)gyre_rng_below(exchange->rng, (uint64_t)honest.frames);
        if (!exchange->forger->needs_follower || honest.frame[i].followed)
            return i;
    }
}

static int count_found(const struct forger *table, int forgers_in_table)
{
    static struct exchange exchange;
    struct gyre_rng rng;
    int found = 0;
    gyre_rng_seed(&rng, 5);
    exchange.rng = &rng;
    for (int i = 0; i < TIMES; i++) {
        exchange.forger = &table[i % forgers_in_table];
        exchange.chosen = choose(&exchange);
        found += is_found(&exchange);
    }
    print_message("%s: %d of %d %s\n", gyre_seal_word(security), found, TIMES,
                  forgers_in_table == 1 ? "flipped bits found" : "forged frames refused");
    return found;
}

static void record_honest(struct tape *tape, uint16_t epoch, bool other_keys)
{
    static struct exchange exchange;
    open_pair(&exchange, epoch, other_keys);
    run_exchange(&exchange);
    assert_true(is_honest(&exchange, 0, 0) && is_honest(&exchange, 1, 0));
    close_pair(&exchange);
    *tape = exchange.tape;
    for (int i = 0; i < tape->frames; i++)
        tape->frame[i].bytes = tape->bytes + (exchange.tape.frame[i].bytes - exchange.tape.bytes);
}

static int record_all(void **state)
{
    (void)state;
    record_honest(&honest, 7, false);
    record_honest(&of_other_keys, 7, true);
    record_honest(&of_other_epoch, 8, false);
    return 0;
}

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    assert_int_equal(count_found(&flipper, 1), TIMES);
}

static void every_forged_frame_is_refused(void **state)
{
    (void)state;
    if (security == GYRE_SEAL_NONE)
        return; /* who can compute a sum can change all */
    assert_int_equal(count_found(forgers, FORGERS), TIMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_flipped_bit_is_found),
                                       cmocka_unit_test(every_forged_frame_is_refused)};
    int bad = 0;
    for (security = GYRE_SEAL_NONE; security <= GYRE_SEAL_ENCRYPT; security++)
        bad |= cmocka_run_group_tests_name(gyre_seal_word(security), tests, record_all, NULL);
    return bad;
}
