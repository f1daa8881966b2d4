/* Safetensors: everything that is right is read, everything else is refused with a text that names
 * file, tensor and value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig/file_room.h"

#include "base/bytes.h"
#include "data/safetensors/safetensors.h"
#include "rig/test.h"

#define MAKE_MAX 8192

static struct gyre_trouble trouble;

/* A file of this header and `data` bytes 0, 1, 2 …; `claimed` is what it says the header's length
 * is. */
static size_t make(uint8_t *bytes, const char *header, uint64_t claimed, size_t data)
{
    size_t length = strlen(header);
    assert_true(8 + length + data <= MAKE_MAX);
    gyre_put64(bytes, claimed);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (uint8_t)i;
    return 8 + length + data;
}

static struct gyre_safetensors *open_file(const char *header, size_t data)
{
    static uint8_t bytes[MAKE_MAX];
    struct gyre_safetensors *file = NULL;
    size_t length = make(bytes, header, strlen(header), data);
    trouble = (struct gyre_trouble){0};
    int status =
        gyre_safetensors_open(&file, file_room_make("m.safetensors", bytes, length), &trouble);
    assert_int_equal(status, trouble.status);
    assert_int_equal(!file, status != 0);
    return file;
}

static struct gyre_safetensors *accepted(const char *header, size_t data)
{
    struct gyre_safetensors *file = open_file(header, data);
    if (!file)
        fail_msg("%s: %s", header, trouble.text);
    return file;
}

static void accept(const char *header, size_t data)
{
    gyre_safetensors_close(accepted(header, data));
}

/* Refused, with all these words in the text. */
static void refuse(const char *header, size_t data, const char *words, const char *more)
{
    assert_null(open_file(header, data));
    assert_int_equal(trouble.status, GYRE_INVALID);
    if (!strstr(trouble.text, words) || !strstr(trouble.text, more) ||
        !strstr(trouble.text, "m.safetensors: "))
        fail_msg("%s\n    \"%s\", \"%s\" are not in: %s", header, words, more, trouble.text);
}

#define ONE(fields) "{\"w\":{" fields "}}"
#define F32_2x3     "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}"

/* -- reading ----------------------------------------------------------------------------------- */

static void a_file_is_read(void **state)
{
    struct gyre_safetensors *file =
        accepted("{\"__metadata__\":{\"z\":\"last\",\"epoch\":\"3\"},"
                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                 "\"a\":{\"data_offsets\":[0,8],\"shape\":[],\"dtype\":\"I64\"}}",
                 32);
    assert_int_equal(gyre_safetensors_count(file), 2);
    const struct gyre_stored_tensor *a = gyre_safetensors_at(file, 0);
    assert_string_equal(a->name, "a");
    assert_int_equal(a->type, GYRE_STORED_I64);
    assert_int_equal(a->dims, 0);
    assert_int_equal(a->bytes, 8);
    assert_int_equal(gyre_get64(a->data), 0x0706050403020100);
    const struct gyre_stored_tensor *b = gyre_safetensors_find(file, "b");
    assert_ptr_equal(b, gyre_safetensors_at(file, 1));
    assert_int_equal(b->dims, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->bytes, 24);
    assert_int_equal(((const uint8_t *)b->data)[23], 31);
    assert_null(gyre_safetensors_find(file, "c"));
    assert_int_equal(gyre_safetensors_texts(file), 2);
    assert_string_equal(gyre_safetensors_text_at(file, 0)->key, "epoch");
    assert_string_equal(gyre_safetensors_text(file, "epoch"), "3");
    assert_string_equal(gyre_safetensors_text(file, "z"), "last");
    assert_null(gyre_safetensors_text(file, "y"));
    gyre_safetensors_close(file);
    gyre_safetensors_close(NULL);
}

static void what_is_right_is_accepted(void **state)
{
    accept("{}", 0);
    accept(F32_2x3, 24);
    accept("{}   ", 0);
    accept(" \t\r\n{ \"w\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 , 2 ] , "
           "\"data_offsets\" : [ 0 , 2 ] } } \n",
           2);
    accept(ONE("\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]"), 0);
    accept(ONE("\"dtype\":\"F32\",\"shape\":[5,0,2],\"data_offsets\":[0,0]"), 0);
    accept(ONE("\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]"), 8);
    accept(ONE("\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]"), 3);
    accept(ONE("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]"), 3);
    accept("{\"__metadata__\":{}}", 0);
    /* empty tensors lie between others, and two may lie at one place */
    accept("{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
           "\"d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
           3);
    /* what the format's own library does not know either is passed over */
    accept(ONE("\"note\":[{\"x\":-1.5e+3,\"y\":[true,false,null,\"\\u00e9\\n\"]},[],{}],"
               "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"),
           1);
}

static void names_are_decoded(void **state)
{
    struct gyre_safetensors *file =
        accepted("{\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\xc3\xa9\":"
                 "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 1);
    assert_string_equal(gyre_safetensors_at(file, 0)->name,
                        "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9");
    gyre_safetensors_close(file);
}

static void every_type_has_its_width(void **state)
{
    static const uint64_t bytes_of_8[GYRE_STORED_TYPES] = {
        8, 4, 6, 6, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 64, 64, 64, 64};
    for (int type = 0; type < GYRE_STORED_TYPES; type++) {
        char header[160];
        const char *name = gyre_stored_type_name((enum gyre_stored_type)type);
        snprintf(header, sizeof header,
                 ONE("\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%d]"), name,
                 (int)bytes_of_8[type]);
        struct gyre_safetensors *file = accepted(header, bytes_of_8[type]);
        assert_int_equal(gyre_safetensors_at(file, 0)->type, type);
        gyre_safetensors_close(file);
    }
    uint64_t bytes;
    assert_int_equal(gyre_stored_size(GYRE_STORED_TYPES, NULL, 0, NULL, &bytes), GYRE_INVALID);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void wrong_places_are_refused(void **state)
{
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]"), 3, "\"w\"", "hole");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,1]"), 3, "\"w\"", "end at 1");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
           5, "\"b\"", "leaves a hole: expected 2");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "\"b\"", "overlaps: expected 2");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
           2, "tensor", "overlaps");
}

static void wrong_sizes_are_refused(void **state)
{
    refuse(ONE("\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,23]"), 23, "\"w\"",
           "23 bytes where its shape and F32 make 24");
    refuse(ONE("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2, "\"w\"", "of F4");
    refuse(ONE("\"dtype\":\"F6_E3M2\",\"shape\":[3],\"data_offsets\":[0,3]"), 3, "\"w\"", "F6");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
           "\"w\"", "64 bits");
    refuse(ONE("\"dtype\":\"U64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), 0,
           "\"w\"", "64 bits");
    refuse(F32_2x3, 23, "23 bytes", "cut short");
    refuse(F32_2x3, 25, "25 bytes", "too long");
    refuse("{}", 1, "1 bytes", "too long");
}

static void wrong_types_are_refused(void **state)
{
    refuse(ONE("\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "\"w\"",
           "\"F33\" is unknown");
    refuse(ONE("\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "\"w\"", "\"f32\"");
    refuse(ONE("\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "\"w\"", "\"\"");
    refuse(ONE("\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]"), 4, "\"w\"",
           "'3' where a string");
}

static void wrong_numbers_are_refused(void **state)
{
    static const char *const bad[] = {"-1",    "1.0",  "1e3", "01",  "18446744073709551616",
                                      "\"1\"", "null", "",    "[1]", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char header[160];
        snprintf(header, sizeof header,
                 ONE("\"dtype\":\"U8\",\"shape\":[1,%s],\"data_offsets\":[0,1]"), bad[i]);
        refuse(header, 1, "\"w\"", "of its JSON: ");
        snprintf(header, sizeof header,
                 ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,%s]"), bad[i]);
        refuse(header, 1, "\"w\"", "of its JSON: ");
    }
}

static void wrong_fields_are_refused(void **state)
{
    refuse(ONE("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "\"w\"", "\"dtype\" is missing");
    refuse(ONE("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "\"w\"", "\"shape\" is missing");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[1]"), 1, "\"w\"", "\"data_offsets\" is missing");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]"), 1, "\"w\"",
           "\"shape\" stands there twice");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1, "\"w\"", "are 1");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[]"), 1, "\"w\"", "are 0");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]"), 1, "\"w\"", "more than");
    refuse(ONE("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), 1, "\"w\"", "an array");
    refuse("{\"w\":[]}", 0, "\"w\"", "an object");
    refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
           "\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
           0, "\"w\"", "twice");
}

static void wrong_texts_are_refused(void **state)
{
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "\"__metadata__\"", "'1' where a string");
    refuse("{\"__metadata__\":{\"a\":{}}}", 0, "\"__metadata__\"", "a string");
    refuse("{\"__metadata__\":[]}", 0, "\"__metadata__\"", "an object");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\"", "twice");
    refuse("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, "\"a\"", "twice");
}

static void wrong_json_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "[]",
        "{",
        "}",
        "{}x",
        "{}{}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" {}}",
        "null",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]}}",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[,1],\"data_offsets\":[0,1]}}",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1 1],\"data_offsets\":[0,1]}}",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],}}",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}",
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}",
        "{'w':{}}",
        "{\"w",
        "{\"w\\",
        "{\"w\\x\":{}}",
        "{\"w\\u12\":{}}",
        "{\"w\\u12g4\":{}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(bad[i], 1, "byte", "of its JSON");
    static const char *const skipped[] = {
        "tru",        "-",   "1.",      "1e",    "01",       "nul",      "+1",
        ".5",         "[1",  "{",       "{1:2}", "\"",       "\"\\q\"",  "[1,]",
        "{\"a\":1,}", "NaN", "{\"a\"}", "]",     "\"\x01\"", "\"\xff\"", "{\"a\":1]"};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++) {
        char header[160];
        snprintf(header, sizeof header,
                 ONE("\"x\":%s,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), skipped[i]);
        refuse(header, 1, "\"w\"", "of its JSON: ");
    }
}

/* Not UTF-8: a lone continuation, a cut character, more bytes than needed, a surrogate, beyond
 * U+10FFFF; and escapes of halves of characters, and of NUL. */
static void wrong_strings_are_refused(void **state)
{
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xc0\x80",
                                      "\xe0\x80\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\x1f",
                                      "\\ud800",
                                      "\\ud800\\u0041",
                                      "\\udc00",
                                      "\\ud800x",
                                      "\\u0000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char header[160];
        snprintf(header, sizeof header,
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", bad[i]);
        refuse(header, 1, "byte", "of its JSON");
    }
}

static void deep_brackets_are_refused(void **state)
{
    for (int depth = 64; depth <= 65; depth++) {
        char header[512] = "{\"w\":{\"x\":";
        for (int i = 0; i < depth; i++)
            strcat(header, "[");
        for (int i = 0; i < depth; i++)
            strcat(header, "]");
        strcat(header, ",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
        if (depth == 64)
            accept(header, 1);
        else
            refuse(header, 1, "\"w\"", "deeper than 64");
    }
}

static int over(const uint8_t *bytes, size_t length)
{
    struct gyre_safetensors *file;
    trouble = (struct gyre_trouble){0};
    int status = gyre_safetensors_over(&file, "span", bytes, length, &trouble);
    gyre_safetensors_close(file);
    return status;
}

static void wrong_lengths_are_refused(void **state)
{
    uint8_t bytes[MAKE_MAX];
    size_t length = make(bytes, F32_2x3, strlen(F32_2x3), 24);
    assert_int_equal(over(bytes, length), 0);
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *shorter = malloc(cut + 1); /* exactly: a sanitizer sees one byte beyond */
        memcpy(shorter, bytes, cut);
        shorter = realloc(shorter, cut ? cut : 1);
        assert_int_equal(over(shorter, cut), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "short"));
        free(shorter);
    }
    assert_int_equal(over(bytes, make(bytes, "{}", 100000001, 0)), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "header of 100000001 bytes, at most 100000000"));
    assert_int_equal(over(bytes, make(bytes, "{}", UINT64_MAX, 0)), GYRE_INVALID);
    assert_int_equal(over(bytes, make(bytes, "{}", 100000000, 0)), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "cut short"));
}

/* A header that ends within a character, and nothing behind it. */
static void a_cut_character_is_not_read_beyond(void **state)
{
    static const char header[] = "{\"\xf0\x9f\x98";
    size_t length = 8 + strlen(header);
    uint8_t *bytes = malloc(length);
    gyre_put64(bytes, strlen(header));
    memcpy(bytes + 8, header, strlen(header));
    assert_int_equal(over(bytes, length), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "byte 2 of its JSON: a string is not UTF-8"));
    free(bytes);
}

static void files_that_are_none_are_refused(void **state)
{
    struct gyre_safetensors *file;
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_open(&file, file_room_name("absent"), &trouble), -ENOENT);
    assert_non_null(strstr(trouble.text, "absent: cannot open it: No such file"));
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_open(&file, file_room, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "not a regular file"));
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_safetensors_open(&file, file_room_make("empty", "", 0), &trouble),
                     GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "0 bytes are too short"));
}

/* Four pages: the tensors' JSON is in the second. The third cannot be read at first; its first
 * reader finds another header in the second when it goes on. Then a reader that goes through the
 * header once has seen the first tensor only, and one that goes twice sees both. */
static uint8_t *flipping;
static size_t page;
static volatile sig_atomic_t flips;

static void place(size_t at, const char *text)
{
    memset(flipping + at, ' ', page - at % page);
    memcpy(flipping + at, text, strlen(text));
}

static void flip(int signal)
{
    static const char both[] = "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    mprotect(flipping + 2 * page, page, PROT_READ | PROT_WRITE);
    place(page, both);
    flips++;
}

static void a_header_that_changes_is_read_once(void **state)
{
    struct gyre_safetensors *file;
    struct sigaction on = {.sa_handler = flip}, before;
    page = (size_t)sysconf(_SC_PAGESIZE);
    flipping = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(flipping, MAP_FAILED);
    gyre_put64(flipping, 4 * page - 8);
    place(8, "{");
    place(page, "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    place(2 * page, "");
    place(3 * page, "}");
    trouble = (struct gyre_trouble){0};
    sigaction(SIGSEGV, &on, &before);
    mprotect(flipping + 2 * page, page, PROT_NONE);
    int status = gyre_safetensors_over(&file, "live", flipping, 4 * page, &trouble);
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(flips, 1);
    assert_string_equal(trouble.text, "");
    assert_int_equal(status, 0);
    assert_int_equal(gyre_safetensors_count(file), 1);
    gyre_safetensors_close(file);
    munmap(flipping, 4 * page);
}

/* A name from a file does not reach a terminal as it is. */
static void names_in_texts_are_harmless(void **state)
{
    char header[400], name[200];
    memset(name, 'n', sizeof name);
    name[199] = 0;
    snprintf(header, sizeof header, "{\"\\u001b\\n%s\":{}}", name);
    refuse(header, 0, "\"??nnn", "nnn...\"");
    assert_true(strlen(trouble.text) < 250);
    for (const char *at = trouble.text; *at; at++)
        assert_true((unsigned char)*at >= ' ');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(what_is_right_is_accepted),
        cmocka_unit_test(names_are_decoded),
        cmocka_unit_test(every_type_has_its_width),
        cmocka_unit_test(wrong_places_are_refused),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(wrong_numbers_are_refused),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(wrong_json_is_refused),
        cmocka_unit_test(wrong_strings_are_refused),
        cmocka_unit_test(deep_brackets_are_refused),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(a_cut_character_is_not_read_beyond),
        cmocka_unit_test(files_that_are_none_are_refused),
        cmocka_unit_test(a_header_that_changes_is_read_once),
        cmocka_unit_test(names_in_texts_are_harmless),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
