/* Frames: every field survives, every limit is kept, every flipped bit is seen, and those of a
 * header before its payload. */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/status.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

#include <stdio.h>
#include <string.h>

#define HEAD (GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES)

static const struct gyre_frame example = {.kind = GYRE_FRAME_DATA,
                                          .length = 5,
                                          .summed = true,
                                          .epoch = 0x1234,
                                          .match = {.comm = 0xa1a2,
                                                    .lane = 0xb1b2,
                                                    .order = 0xc1c2,
                                                    .sequence = 0x1122334455667788,
                                                    .fingerprint = 0x99aabbccddeeff00}};

static void every_field_survives(void **state)
{
    uint8_t wire[GYRE_FRAME_BYTES];
    struct gyre_frame back;
    gyre_frame_encode(&example, wire);
    assert_int_equal(gyre_frame_decode(wire, &back), 0);
    assert_int_equal(back.kind, example.kind);
    assert_int_equal(back.length, 5);
    assert_true(back.summed);
    assert_int_equal(back.epoch, example.epoch);
    assert_true(gyre_match_same(&back.match, &example.match));
    assert_true(back.match.fingerprint == example.match.fingerprint);
    assert_int_equal(back.sum, gyre_crc32c(0, wire, 28));
}

static void offsets_are_those_of_the_picture(void **state)
{
    static const uint8_t expected[28] = {0x05, 0x00, 0x00, 0x11, 0x34, 0x12, 0xa2, 0xa1, 0x88, 0x77,
                                         0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xb2, 0xb1, 0xc2, 0xc1,
                                         0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99};
    uint8_t wire[HEAD];
    gyre_frame_encode(&example, wire);
    gyre_frame_sum_payload(wire, "hello", 5);
    assert_memory_equal(wire, expected, sizeof expected);
    assert_true(gyre_get32(wire + 28) == gyre_crc32c(0, expected, sizeof expected));
    assert_true(gyre_get32(wire + 32) == gyre_crc32c(gyre_get32(wire + 28), "hello", 5));
}

static void flip(uint8_t *wire, size_t bit)
{
    wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* All headers in which one bit or two are wrong. */
static void a_header_proves_itself(void **state)
{
    uint8_t wire[GYRE_FRAME_BYTES];
    struct gyre_frame frame;
    gyre_frame_encode(&example, wire);
    for (size_t one = 0; one < 8 * sizeof wire; one++) {
        flip(wire, one);
        assert_int_equal(gyre_frame_decode(wire, &frame), GYRE_CORRUPT);
        for (size_t two = one + 1; two < 8 * sizeof wire; two++) {
            flip(wire, two);
            assert_int_equal(gyre_frame_decode(wire, &frame), GYRE_CORRUPT);
            flip(wire, two);
        }
        flip(wire, one);
    }
    assert_int_equal(gyre_frame_decode(wire, &frame), 0);
}

static bool payload_fits(const uint8_t *wire)
{
    struct gyre_frame frame;
    return !gyre_frame_decode(wire, &frame) &&
           gyre_frame_payload_sum(wire) == gyre_crc32c(frame.sum, wire + HEAD, frame.length);
}

static void every_flipped_bit_is_seen(void **state)
{
    uint8_t wire[HEAD + 5];
    memcpy(wire + HEAD, "hello", 5);
    gyre_frame_encode(&example, wire);
    gyre_frame_sum_payload(wire, "hello", 5);
    assert_true(payload_fits(wire));
    for (size_t bit = 0; bit < 8 * sizeof wire; bit++) {
        flip(wire, bit);
        assert_false(payload_fits(wire));
        flip(wire, bit);
    }
}

static void no_payload_has_its_headers_sum(void **state)
{
    uint8_t wire[HEAD];
    gyre_frame_encode(&example, wire);
    gyre_frame_sum_payload(wire, NULL, 0);
    assert_true(gyre_frame_payload_sum(wire) == gyre_frame_sum(wire));
}

static int decode_of(uint32_t kind, uint32_t length)
{
    uint8_t wire[GYRE_FRAME_BYTES];
    struct gyre_frame out, frame = {.kind = (enum gyre_frame_kind)kind, .length = length};
    gyre_frame_encode(&frame, wire);
    return gyre_frame_decode(wire, &out);
}

static void each_kind_has_its_lengths(void **state)
{
    static const struct {
        enum gyre_frame_kind kind;
        uint32_t good, bad;
    } cases[] = {{GYRE_FRAME_DATA, GYRE_EAGER_MOST, GYRE_EAGER_MOST + 1},
                 {GYRE_FRAME_PIECE, GYRE_FRAME_PAYLOAD_MAX, GYRE_FRAME_PAYLOAD_MAX + 1},
                 {GYRE_FRAME_GRANT, 8, 7},
                 {GYRE_FRAME_ASK, 8, 0},
                 {GYRE_FRAME_CREDIT, 0, 1},
                 {GYRE_FRAME_BYE, 0, 1},
                 {GYRE_FRAME_VOID, 0, 8},
                 {GYRE_FRAME_POINT, 16, 8},
                 {GYRE_FRAME_TAKEN, 0, 8},
                 {GYRE_FRAME_PLACE, 36, 8},
                 {GYRE_FRAME_RECALL, 0, 8},
                 {GYRE_FRAME_SPARED, 0, 8},
                 {GYRE_FRAME_BLANK, 0, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(decode_of(cases[i].kind, cases[i].good), 0);
        assert_int_equal(decode_of(cases[i].kind, cases[i].bad), GYRE_CORRUPT);
    }
    assert_int_equal(decode_of(0, 0), GYRE_CORRUPT);
    for (uint32_t kind = 14; kind < 16; kind++) {
        assert_int_equal(decode_of(kind, 0), GYRE_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives),
        cmocka_unit_test(offsets_are_those_of_the_picture),
        cmocka_unit_test(a_header_proves_itself),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(no_payload_has_its_headers_sum),
        cmocka_unit_test(each_kind_has_its_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
