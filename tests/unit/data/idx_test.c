/* IDX files, plain and compressed: what is right is read, and every byte too few or too many, every
 * unknown type and every size that cannot be is refused by name. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig/file_room.h"

#include "base/bytes.h"
#include "data/idx.h"
#include "data/idx_gzip.h"
#include "rig/test.h"

static struct gyre_trouble trouble;

/* Exactly as long: a sanitizer sees one byte beyond. */
static int over(const uint8_t *bytes, size_t length)
{
    struct gyre_idx idx;
    uint8_t *copy = malloc(length ? length : 1);
    memcpy(copy, bytes, length);
    trouble = (struct gyre_trouble){0};
    int status = gyre_idx_over(&idx, "span", copy, length, &trouble);
    gyre_idx_close(&idx);
    free(copy);
    assert_int_equal(status, trouble.status);
    return status;
}

static void refuse(const uint8_t *bytes, size_t length, const char *words)
{
    assert_int_equal(over(bytes, length), GYRE_INVALID);
    if (!strstr(trouble.text, words) || strncmp(trouble.text, "span: ", 6) != 0)
        fail_msg("\"%s\" is not in: %s", words, trouble.text);
}

/* 2 pictures of 2 x 3 pixels */
static const uint8_t pictures[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0,  0,  2,   0,  0,
                                   0, 3, 0, 1, 2, 3, 4, 5, 6, 51, 85, 255, 10, 11};

/* -- plain ------------------------------------------------------------------------------------- */

static void expect_pictures(const struct gyre_idx *idx)
{
    int64_t wholes[12];
    assert_int_equal(idx->type, GYRE_IDX_U8);
    assert_int_equal(idx->dims, 3);
    assert_int_equal(idx->shape[0], 2);
    assert_int_equal(idx->shape[1], 2);
    assert_int_equal(idx->shape[2], 3);
    assert_int_equal(idx->count, 12);
    assert_memory_equal(idx->data, pictures + 16, 12);
    assert_int_equal(gyre_idx_wholes(idx, 0, 12, wholes), 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(wholes[i], pictures[16 + i]);
}

static void a_plain_file_is_read(void **state)
{
    struct gyre_idx idx;
    const char *path = file_room_make("pictures", pictures, sizeof pictures);
    assert_int_equal(gyre_idx_open(&idx, path, NULL), 0);
    assert_null(idx.unpacked);
    expect_pictures(&idx);
    gyre_idx_close(&idx);
    gyre_idx_close(&idx);
    assert_int_equal(gyre_idx_open(&idx, file_room_name("absent"), NULL), -ENOENT);
    gyre_idx_close(&idx);
}

struct typed {
    uint8_t type, width;
    double value;
    uint8_t bytes[8];
};

static const struct typed typed[] = {
    {0x08, 1, 200, {200}},
    {0x09, 1, -56, {200}},
    {0x0b, 2, -2, {0xff, 0xfe}},
    {0x0b, 2, 258, {1, 2}},
    {0x0c, 4, -3, {0xff, 0xff, 0xff, 0xfd}},
    {0x0c, 4, 0x01020304, {1, 2, 3, 4}},
    {0x0d, 4, -1.5, {0xbf, 0xc0, 0, 0}},
    {0x0e, 8, 0.1, {0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a}},
};

static void every_type_is_read(void **state)
{
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        uint8_t bytes[8 + 8] = {0, 0, typed[i].type, 1, 0, 0, 0, 1};
        struct gyre_idx idx;
        int64_t whole = 99;
        memcpy(bytes + 8, typed[i].bytes, typed[i].width);
        assert_int_equal(gyre_idx_over(&idx, "span", bytes, 8u + typed[i].width, NULL), 0);
        int status = gyre_idx_wholes(&idx, 0, 1, &whole);
        assert_int_equal(status, typed[i].type >= 0x0d ? GYRE_INVALID : 0);
        assert_true(status || (double)whole == typed[i].value);
        gyre_idx_close(&idx);
    }
}

static void nothing_is_a_set_too(void **state)
{
    static const uint8_t empty[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 5};
    assert_int_equal(over(empty, sizeof empty), 0);
}

static void every_cut_is_refused(void **state)
{
    uint8_t longer[sizeof pictures + 1] = {0};
    memcpy(longer, pictures, sizeof pictures);
    for (size_t length = 0; length < sizeof pictures; length++)
        refuse(pictures, length, length < 16 ? "bytes are too short for the header" : "cut short");
    refuse(longer, sizeof longer,
           "13 bytes behind the header, where its sizes make 12: the file "
           "is too long");
}

static void a_wrong_header_is_refused(void **state)
{
    static const uint8_t types[] = {0, 7, 0x0a, 0x0f, 0xff};
    uint8_t bytes[sizeof pictures];
    for (size_t i = 0; i < sizeof types; i++) {
        memcpy(bytes, pictures, sizeof bytes);
        bytes[2] = types[i];
        refuse(bytes, sizeof bytes, "is unknown");
    }
    for (int i = 0; i < 2; i++) {
        memcpy(bytes, pictures, sizeof bytes);
        bytes[i] = 0x89;
        refuse(bytes, sizeof bytes, "not with 00 00");
    }
    memcpy(bytes, pictures, sizeof bytes);
    bytes[3] = 0;
    refuse(bytes, sizeof bytes, "0 dimensions");
    bytes[3] = 9;
    refuse(bytes, sizeof bytes, "9 dimensions, expected 1 to 8");
}

static void sizes_beyond_64_bits_are_refused(void **state)
{
    uint8_t three[16], two[12] = {0, 0, 0x0e, 2};
    memset(three, 0xff, sizeof three);
    memcpy(three, (const uint8_t[]){0, 0, 8, 3}, 4);
    refuse(three, sizeof three, "size 4294967295 of dimension 2");
    memset(two + 4, 0xff, 8);
    refuse(two, sizeof two, "more bytes than 64 bits");
}

/* -- compressed -------------------------------------------------------------------------------- */

static uint32_t sum_of(const uint8_t *bytes, size_t length)
{
    uint32_t sum = ~0u;
    for (size_t i = 0; i < length; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

/* A gzip file whose only block is stored as it is. */
static size_t pack(uint8_t *to, const uint8_t *bytes, size_t length)
{
    static const uint8_t front[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1};
    memcpy(to, front, sizeof front);
    gyre_put16(to + 11, (uint16_t)length);
    gyre_put16(to + 13, (uint16_t)~length);
    memcpy(to + 15, bytes, length);
    gyre_put32(to + 15 + length, sum_of(bytes, length));
    gyre_put32(to + 19 + length, (uint32_t)length);
    return 23 + length;
}

/* The same pictures by `gzip -n9`. */
static const uint8_t packed[] = {0x1f, 0x8b, 8,    0,    0,    0,    0,    0,    2,    3,    0x63,
                                 0x60, 0xe0, 0x60, 0x66, 0x60, 0x60, 0x60, 0x82, 0x62, 0x66, 6,
                                 0x46, 0x26, 0x66, 0x16, 0x56, 0x36, 0xe3, 0xd0, 0xff, 0x5c, 0xdc,
                                 0,    0x23, 0xd8, 0xac, 0x58, 0x1c, 0,    0,    0};

static bool has_zlib(void)
{
    struct gyre_gzip *gzip;
    int status = gyre_gzip_create(&gzip, "", packed, sizeof packed, NULL);
    gyre_gzip_destroy(gzip);
    return status == 0;
}

static void need_zlib(void)
{
    if (has_zlib())
        return;
    print_message("built without zlib\n");
    skip();
}

static void without_zlib_it_is_said(void **state)
{
    assert_int_equal(over(packed, sizeof packed), GYRE_UNSUPPORTED);
    assert_non_null(strstr(trouble.text, "span: is compressed, and Gyre was built without zlib"));
}

static void a_compressed_file_is_read(void **state)
{
    struct gyre_idx idx;
    need_zlib();
    const char *path = file_room_make("pictures.gz", packed, sizeof packed);
    assert_int_equal(gyre_idx_open(&idx, path, NULL), 0);
    assert_int_equal(idx.mapped.length, 0);
    expect_pictures(&idx);
    gyre_idx_close(&idx);
}

static void every_cut_of_it_is_refused(void **state)
{
    uint8_t stored[64], longer[sizeof packed + 1] = {0};
    need_zlib();
    size_t length = pack(stored, pictures, sizeof pictures);
    assert_int_equal(over(stored, length), 0);
    for (size_t cut = 2; cut < sizeof packed; cut++)
        refuse(packed, cut, "ends too early");
    for (size_t cut = 2; cut < length; cut++)
        refuse(stored, cut, "ends too early");
    memcpy(longer, packed, sizeof packed);
    refuse(longer, sizeof longer, "something follows the end");
}

static void what_it_holds_must_fit(void **state)
{
    uint8_t bytes[sizeof pictures + 1] = {0}, stored[64];
    need_zlib();
    memcpy(bytes, pictures, sizeof pictures);
    refuse(stored, pack(stored, bytes, sizeof bytes), "longer than its sizes say");
    refuse(stored, pack(stored, bytes, sizeof pictures - 5), "5 bytes too short");
    refuse(stored, pack(stored, bytes, 15), "1 bytes too short");
    refuse(stored, pack(stored, bytes, 3), "1 bytes too short");
    refuse(stored, pack(stored, bytes, 0), "4 bytes too short");
    bytes[2] = 7;
    refuse(stored, pack(stored, bytes, sizeof pictures), "0x07 is unknown");
}

static void damage_is_found(void **state)
{
    uint8_t stored[64];
    need_zlib();
    size_t length = pack(stored, pictures, sizeof pictures);
    for (size_t i = 15 + 16; i < length; i++) { /* the elements, the sum and the length */
        stored[i] ^= 4;
        refuse(stored, length, "gzip: ");
        stored[i] ^= 4;
    }
}

/* 4 GiB of F64 in a file of 40 bytes are refused before they are allocated. */
static void a_claim_is_not_allocated(void **state)
{
    uint8_t stored[64], claim[17] = {0, 0, 0x0e, 2, 0, 1, 0, 0, 0, 1, 0, 0};
    need_zlib();
    refuse(stored, pack(stored, claim, sizeof claim),
           "34359738368 bytes by its sizes, more than "
           "40 compressed bytes can hold");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_file_is_read),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(nothing_is_a_set_too),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(a_wrong_header_is_refused),
        cmocka_unit_test(sizes_beyond_64_bits_are_refused),
        cmocka_unit_test(a_compressed_file_is_read),
        cmocka_unit_test(every_cut_of_it_is_refused),
        cmocka_unit_test(what_it_holds_must_fit),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_claim_is_not_allocated),
    };
    const struct CMUnitTest absent[] = {cmocka_unit_test(without_zlib_it_is_said)};
    int failed = cmocka_run_group_tests(tests, file_room_open, file_room_close);
    return has_zlib() ? failed : failed + cmocka_run_group_tests(absent, NULL, NULL);
}
