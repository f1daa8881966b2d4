/* What the two ends of a verbs link tell each other, word by word, on a stand-in for the library:
 * slots that are not what is due, and offers that differ. */
#include "unit/transport/link/verbs/verbs_half.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "rig/test.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- slots ------------------------------------------------------------------------------------- */

enum { SLOT = GYRE_VERBS_SLOT, TRAILER = 16, FRAMED = 32 + 8 };

struct slot { /* written by hand; the sum, unless spoiled, is right */
    const char *what;
    uint32_t number; /* record */
    uint16_t length, epoch;
    uint32_t arrived, sequence;
    bool torn;
    bool taken;
};

/* Record 69 is due, one long message has come, and the epoch is 3. */
static const struct slot slots[] = {
    {"the record that is due", 69, FRAMED, 3, 1, 70, false, true},
    {"torn", 69, FRAMED, 3, 1, 70, true, false},
    {"of another epoch", 69, FRAMED, 2, 1, 70, false, false},
    {"of a window ago", 69, FRAMED, 3, 1, 70 - 64, false, false},
    {"of a window later", 69, FRAMED, 3, 1, 70 + 64, false, false},
    {"the next record only", 70, FRAMED, 3, 1, 71, false, false},
    {"before its long message", 69, FRAMED, 3, 2, 70, false, false},
    {"longer than the slot", 69, SLOT - TRAILER + 1, 3, 1, 70, false, false},
    {"of 64 KiB", 69, UINT16_MAX, 3, 1, 70, false, false},
    {"of nothing", 69, 0, 3, 1, 70, false, false},
};

/* A frame of 8 bytes, as another end would send it. */
static void write_frame(uint8_t frame[FRAMED])
{
    const struct gyre_stream_options options = {.posts = 4};
    const struct gyre_match match = {.comm = 1, .sequence = 5};
    struct gyre_stream *stream;
    assert_int_equal(gyre_stream_create(&options, &stream), 0);
    assert_int_equal(gyre_stream_send_now(stream, &match, "eight by", 8, 1, frame), FRAMED);
    gyre_stream_destroy(stream);
}

static void write_slot(struct gyre_verbs_pipe *pipe, const struct slot *it)
{
    uint8_t frame[SLOT] = {0}, *trailer = frame + it->length;
    uint8_t *end = pipe->slots + (it->number % GYRE_VERBS_WINDOW + 1) * SLOT;
    bool fits = it->length <= SLOT - TRAILER;
    write_frame(frame);
    trailer = fits ? trailer : frame + SLOT - TRAILER;
    gyre_put16(trailer, it->length);
    gyre_put16(trailer + 2, it->epoch);
    gyre_put32(trailer + 4, it->arrived);
    gyre_put32(trailer + 12, it->sequence);
    uint32_t sum = gyre_crc32c(0, frame, (size_t)(trailer - frame) + 8);
    gyre_put32(trailer + 8, gyre_crc32c(sum, trailer + 12, 4));
    frame[0] ^= it->torn;
    size_t bytes = (size_t)(trailer - frame) + TRAILER;
    memcpy(end - bytes, frame, bytes);
}

static struct gyre_verbs_pipe *add_slots(struct gyre_verbs_wire *wire, uint8_t got[8])
{
    const struct gyre_match match = {.comm = 1, .sequence = 5};
    struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
    gyre_verbs_device_place(pipe);
    wire->epoch = 3;
    pipe->queue->mine.window = GYRE_VERBS_WINDOW;
    pipe->taken = 69;
    pipe->arrived = 1;
    assert_int_equal(gyre_stream_recv(pipe->end.stream[0], &match, got, 8, 77), 0);
    return pipe;
}

static void only_the_record_that_is_due_is_seen(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(slots); i++) {
        struct gyre_verbs_wire *wire;
        struct gyre_completion done;
        uint8_t got[8] = {0};
        fake_verbs_reset();
        assert_int_equal(half_open(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_slots(wire, got);
        write_slot(pipe, &slots[i]);
        if (gyre_verbs_pipe_look(pipe) != slots[i].taken || wire->seen != slots[i].taken)
            fail_msg("%s", slots[i].what);
        assert_int_equal(pipe->end.status, 0);
        assert_int_equal(gyre_stream_complete(pipe->end.stream[0], &done, 1), slots[i].taken);
        assert_int_equal(memcmp(got, "eight by", 8) == 0, slots[i].taken);
        half_close(wire);
    }
}

/* By its completion too, which then only counts; and a completion for what is not there. */
static void a_slot_is_taken_once(void **state)
{
    enum { TOLD = FRAMED | GYRE_VERBS_IN_SLOT };
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        struct gyre_verbs_wire *wire;
        struct gyre_completion done;
        uint8_t got[8] = {0};
        fake_verbs_reset();
        assert_int_equal(half_open(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_slots(wire, got);
        write_slot(pipe, &slots[0]);
        assert_int_equal(seen && gyre_verbs_pipe_look(pipe), seen);
        assert_int_equal(pipe->ahead, seen);
        gyre_verbs_pipe_came(pipe->queue, TOLD);
        assert_int_equal(pipe->end.status, 0);
        assert_int_equal(pipe->ahead, 0);
        assert_int_equal(pipe->taken, 70);
        assert_int_equal(pipe->read, FRAMED);
        assert_int_equal(gyre_stream_complete(pipe->end.stream[0], &done, 1), 1);
        assert_false(gyre_verbs_pipe_look(pipe));
        gyre_verbs_pipe_came(pipe->queue, TOLD);
        assert_int_equal(pipe->end.status, GYRE_CORRUPT);
        half_says(pipe->end.trouble.text, "tells of a slot that it has not written");
        half_close(wire);
    }
}

/* What a broken queue pair brought is decided by its completions. */
static void a_broken_pipe_does_not_look(void **state)
{
    struct gyre_verbs_wire *wire;
    uint8_t got[8] = {0};
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = add_slots(wire, got);
    write_slot(pipe, &slots[0]);
    pipe->broken = true;
    assert_false(gyre_verbs_pipe_look(pipe));
    pipe->broken = false;
    gyre_verbs_pipe_came(pipe->queue, FRAMED); /* a record of the inbox, which is zeros */
    assert_int_equal(pipe->end.status, GYRE_CORRUPT);
    half_close(wire);
}

/* -- records ----------------------------------------------------------------------------------- */

enum { ONE_ON = 1 << GYRE_VERBS_ADVANCE_SHIFT };

static const struct {
    const char *what;
    uint32_t word;
} records[] = {
    {"of nothing", 0},
    {"longer than a record may be", GYRE_VERBS_RECORD + 1},
    {"a frame without room for a header", GYRE_VERBS_WHOLE | 31},
    {"a header that is known, and no frame", ONE_ON | FRAMED},
    {"a header that is known, and none has come", GYRE_VERBS_WHOLE | ONE_ON | FRAMED},
    {"a slot's with a header that is known", GYRE_VERBS_IN_SLOT | ONE_ON | FRAMED},
};

static void records_that_cannot_be_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(records); i++) {
        struct gyre_verbs_wire *wire;
        uint8_t got[8] = {0};
        fake_verbs_reset();
        assert_int_equal(half_open(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_slots(wire, got);
        write_slot(pipe, &slots[0]);
        gyre_verbs_pipe_came(pipe->queue, records[i].word);
        if (pipe->end.status != GYRE_CORRUPT)
            fail_msg("%s: %d", records[i].what, pipe->end.status);
        assert_int_equal(pipe->read, 0);
        half_close(wire);
    }
}

/* -- offers ------------------------------------------------------------------------------------ */

enum {
    RECORD = 128,
    WILLING = 4,
    MTU = 5,
    RING = 44,
    WINDOW = 48,
    NETWORK = 52,
    VERSION = 53,
    QUEUES = 55
};

/* What one end hears of an offer like its own but for one field. Returns meet()'s status; its own
 * offer to `said`. */
static int meet(const uint8_t *offer, uint8_t said[RECORD])
{
    uint8_t step[RECORD] = {1};
    struct gyre_verbs_wire *wire;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(half_open(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, fd[0]);
    pipe->queue->proven = false;
    pipe->ways = 0;
    if (offer) {
        assert_int_equal(write(fd[1], offer, RECORD), RECORD);
        assert_int_equal(write(fd[1], step, RECORD), RECORD);
    } else {
        shutdown(fd[1], SHUT_WR);
    }
    int status = gyre_verbs_meet(pipe, &half_trouble);
    assert_int_equal(read(fd[1], said, RECORD), RECORD);
    close(fd[1]);
    half_close(wire);
    return status;
}

static const struct {
    const char *what;
    int at;         /* byte that differs; -1: none */
    uint32_t value; /* instead */
    int status;
    const char *words;
} offers[] = {
    {"the same", -1, 0, GYRE_UNSUPPORTED, "no connection from GID 10.0.0.1 to 10.0.0.1"},
    {"of another program", 0, 1, GYRE_CORRUPT, "made no sense"},
    {"of another version", VERSION, 77, GYRE_UNSUPPORTED, "speaks version 77 of the verbs link"},
    {"RoCE v1", NETWORK, IBV_GID_TYPE_ROCE_V1, GYRE_UNSUPPORTED,
     "is of RoCE v1 and rank 3's GID 10.0.0.1 of RoCE v2: choose one kind for both"},
    {"InfiniBand", NETWORK, IBV_GID_TYPE_IB, GYRE_UNSUPPORTED, "is of InfiniBand"},
    {"unwilling", WILLING, 0, GYRE_UNSUPPORTED, "it says: "},
    {"an MTU that is none", MTU, 9, GYRE_CORRUPT, "made no sense"},
    {"no window", WINDOW, 0, GYRE_CORRUPT, "made no sense"},
    {"too large a window", WINDOW, 65, GYRE_CORRUPT, "made no sense"},
    {"a ring of 64 MiB", RING + 3, 4, GYRE_CORRUPT, "made no sense"},
    {"no queue pair", QUEUES, 0, GYRE_CORRUPT, "made no sense"},
    {"too many queue pairs", QUEUES, 5, GYRE_CORRUPT, "made no sense"},
};

static void offers_that_differ_are_named(void **state)
{
    uint8_t mine[RECORD], theirs[RECORD], said[RECORD];
    (void)state;
    fake_verbs_reset();
    fake_verbs.modify_status = ENETUNREACH;
    assert_int_equal(meet(NULL, mine), GYRE_PEER_LOST);
    half_says(half_trouble.text, "rank 7 hung up while the verbs link to it was made");
    for (uint32_t i = 0; i < COUNT(offers); i++) {
        memcpy(theirs, mine, RECORD);
        if (offers[i].at >= 0)
            theirs[offers[i].at] = (uint8_t)offers[i].value;
        int status = meet(theirs, said);
        if (status != offers[i].status)
            fail_msg("%s: %d (%s)", offers[i].what, status, half_trouble.text);
        half_says(half_trouble.text, offers[i].words);
    }
    fake_verbs.no_queues = true;
    assert_int_equal(meet(mine, said), GYRE_UNSUPPORTED);
    assert_int_equal(said[WILLING], 0);
    half_says((const char *)said + 64, "fake0:1 gives no queue pair: Cannot allocate memory");
}

/* The last rank meets rank 0 when that has met all others. */
static void who_meets_others_first_is_waited_for(void **state)
{
    enum { PAIR_MS = 500 }; /* of two ranks, at most */
    (void)state;
    for (uint32_t peers = 1; peers <= 32768; peers *= 2)
        assert_true(gyre_verbs_meet_ms(peers) > peers * PAIR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_record_that_is_due_is_seen),
        cmocka_unit_test(a_slot_is_taken_once),
        cmocka_unit_test(a_broken_pipe_does_not_look),
        cmocka_unit_test(records_that_cannot_be_are_refused),
        cmocka_unit_test(offers_that_differ_are_named),
        cmocka_unit_test(who_meets_others_first_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
