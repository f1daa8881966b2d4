/* CIFAR-10's records: pixels and labels come apart as they lie, and every length and label that
 * cannot be is refused with its place. */
#include <stdlib.h>
#include <string.h>

#include "data/cifar.h"
#include "rig/test.h"

enum { RECORDS = 3 };

static struct gyre_trouble trouble;
static uint8_t file[RECORDS * GYRE_CIFAR_RECORD];

/* Record i has label 3 * i, and pixel k is (7 * i + k) % 251. */
static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < RECORDS; i++) {
        file[i * GYRE_CIFAR_RECORD] = (uint8_t)(3 * i);
        for (int k = 0; k < GYRE_CIFAR_PIXELS; k++)
            file[i * GYRE_CIFAR_RECORD + 1 + k] = (uint8_t)((7 * i + k) % 251);
    }
    trouble = (struct gyre_trouble){0};
    return 0;
}

static void expect_refused(int status, const char *words)
{
    assert_int_equal(status, GYRE_INVALID);
    assert_int_equal(trouble.status, GYRE_INVALID);
    if (!strstr(trouble.text, words) || strncmp(trouble.text, "span: ", 6) != 0)
        fail_msg("\"%s\" is not in: %s", words, trouble.text);
    trouble = (struct gyre_trouble){0};
}

static int count(uint64_t length, uint64_t *records)
{
    return gyre_cifar_count("span", length, records, &trouble);
}

/* Exactly as long as needed: a sanitizer sees one byte beyond. */
static int take(int64_t label[RECORDS], uint8_t **pixels)
{
    uint8_t *copy = malloc(sizeof file);
    *pixels = malloc(RECORDS * GYRE_CIFAR_PIXELS);
    memcpy(copy, file, sizeof file);
    int status = gyre_cifar_take("span", copy, RECORDS, *pixels, label, &trouble);
    free(copy);
    return status;
}

static void pixels_and_labels_come_apart(void **state)
{
    int64_t label[RECORDS];
    uint8_t *pixels;
    (void)state;
    assert_int_equal(take(label, &pixels), 0);
    for (int i = 0; i < RECORDS; i++) {
        assert_int_equal(label[i], 3 * i);
        for (int k = 0; k < GYRE_CIFAR_PIXELS; k++)
            assert_int_equal(pixels[i * GYRE_CIFAR_PIXELS + k], (7 * i + k) % 251);
    }
    free(pixels);
}

static void a_length_is_whole_records(void **state)
{
    uint64_t records;
    (void)state;
    assert_int_equal(count(sizeof file, &records), 0);
    assert_int_equal(records, RECORDS);
    expect_refused(count(0, &records), "is empty");
    expect_refused(count(1, &records), "record 0, at byte 0, has 1 bytes");
    expect_refused(count(sizeof file - 1, &records), "record 2, at byte 6146, has 3072 bytes");
    expect_refused(count(sizeof file + 1, &records), "record 3, at byte 9219, has 1 bytes");
}

static void a_label_is_a_class(void **state)
{
    int64_t label[RECORDS];
    uint8_t *pixels;
    (void)state;
    file[2 * GYRE_CIFAR_RECORD] = 9;
    assert_int_equal(take(label, &pixels), 0);
    free(pixels);
    file[2 * GYRE_CIFAR_RECORD] = 10;
    expect_refused(take(label, &pixels), "record 2, at byte 6146, has label 10; CIFAR-10");
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pixels_and_labels_come_apart, fill),
        cmocka_unit_test_setup(a_length_is_whole_records, fill),
        cmocka_unit_test_setup(a_label_is_a_class, fill),
    };
    return cmocka_run_group_tests_name("CIFAR-10", tests, NULL, NULL);
}
