/* Data sets from every kind of source, and what is refused with the sample and the value named. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig/file_room.h"

#include "data/dataset.h"
#include "data/safetensors/safetensors.h"
#include "data/wine.h"
#include "rig/test.h"

static struct gyre_trouble trouble;

static int open_set(struct gyre_dataset *set, const char *source, bool targets)
{
    struct gyre_dataset_options options = {.source = source, .targets = targets};
    trouble = (struct gyre_trouble){0};
    int status = gyre_dataset_open(set, &options, &trouble);
    assert_int_equal(status, trouble.status);
    return status;
}

static void refuse(const char *source, bool targets, const char *words)
{
    struct gyre_dataset set;
    assert_int_not_equal(open_set(&set, source, targets), 0);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" is not in: %s", words, trouble.text);
    gyre_dataset_close(&set); /* was zeroed */
}

/* -- wine -------------------------------------------------------------------------------------- */

static void wine_is_built_in(void **state)
{
    struct gyre_dataset train, test;
    uint64_t index[2] = {141, 0};
    float x[2 * GYRE_WINE_FEATURES];
    int64_t y[2];
    (void)state;
    assert_int_equal(open_set(&train, "wine", false), 0);
    assert_int_equal(open_set(&test, "wine:test", false), 0);
    assert_int_equal(train.samples, 142);
    assert_int_equal(test.samples, 36);
    assert_int_equal(train.features, 13);
    assert_int_equal(train.classes, 3);
    gyre_dataset_gather(&train, index, 2, x, y);
    assert_memory_equal(x, train.x + 141 * 13, 13 * sizeof(float));
    assert_memory_equal(x + 13, train.x, 13 * sizeof(float));
    assert_int_equal(y[0], train.label[141]);
    assert_int_not_equal(gyre_dataset_hash(&train), gyre_dataset_hash(&test));
    gyre_dataset_close(&train);
    gyre_dataset_close(&test);
    refuse("wine", true, "has classes");
}

/* -- random ------------------------------------------------------------------------------------ */

static void random_is_the_same_everywhere(void **state)
{
    struct gyre_dataset set;
    (void)state;
    assert_int_equal(open_set(&set, "random:100,7,3", false), 0);
    assert_true(set.samples == 100 && set.features == 7 && set.classes == 3);
    for (int i = 0; i < 700; i++)
        assert_true(set.x[i] >= 0 && set.x[i] < 1);
    gyre_dataset_close(&set);
    refuse("random:100,7", false, "random:SAMPLES,NUMBERS,CLASSES");
    refuse("random:100,7,0", false, "SAMPLES");
    refuse("random:100,7,3x", false, "SAMPLES");
    refuse("random:4611686018427387905,16,3", false, "SAMPLES");
}

/* -- safetensors ------------------------------------------------------------------------------- */

#define SAMPLES 3

static float features[SAMPLES][2] = {{1, 2}, {3, 4}, {5, 6}};
static int64_t labels[SAMPLES] = {2, 0, 1};
static float targets[SAMPLES][2] = {{0.5f, 1}, {1.5f, 2}, {2.5f, 3}};
static uint8_t pixels[SAMPLES][2] = {{0, 255}, {51, 102}, {153, 204}};
static uint64_t square[2] = {SAMPLES, 2}, row[1] = {SAMPLES};

static const char *tensors(struct gyre_stored_tensor x, struct gyre_stored_tensor y)
{
    struct gyre_stored_tensor both[] = {x, y};
    const char *path = file_room_name("set.safetensors");
    assert_int_equal(gyre_safetensors_write(path, both, 2, NULL, 0, &trouble), 0);
    return path;
}

static struct gyre_stored_tensor tensor(const char *name, enum gyre_stored_type type, uint32_t dims,
                                        const uint64_t *shape, const void *data)
{
    return (struct gyre_stored_tensor){
        .name = name, .type = type, .dims = dims, .shape = shape, .data = data};
}

static struct gyre_stored_tensor good_x(void)
{
    return tensor("x", GYRE_STORED_F32, 2, square, features);
}

static struct gyre_stored_tensor good_y(void)
{
    return tensor("y", GYRE_STORED_I64, 1, row, labels);
}

static void tensors_are_read_where_they_lie(void **state)
{
    struct gyre_dataset set;
    uint64_t index[] = {2, 0};
    float x[4], y[4];
    int64_t classes[2];
    (void)state;
    assert_int_equal(open_set(&set, tensors(good_x(), good_y()), false), 0);
    gyre_dataset_gather(&set, index, 2, x, classes);
    assert_true(x[0] == 5 && x[1] == 6 && x[2] == 1 && x[3] == 2);
    assert_true(classes[0] == 1 && classes[1] == 2 && set.classes == 3);
    gyre_dataset_close(&set);

    const char *path = tensors(good_x(), tensor("y", GYRE_STORED_F32, 2, square, targets));
    assert_int_equal(open_set(&set, path, true), 0);
    assert_true(set.width == 2 && set.classes == 0);
    gyre_dataset_gather(&set, index, 2, x, y);
    assert_true(y[0] == 2.5f && y[1] == 3 && y[2] == 0.5f);
    gyre_dataset_close(&set);

    path = tensors(tensor("x", GYRE_STORED_U8, 2, square, pixels), good_y());
    assert_int_equal(open_set(&set, path, false), 0);
    gyre_dataset_gather(&set, index, 2, x, classes);
    assert_true(x[0] == 153 / 255.0f && x[3] == 1);
    gyre_dataset_close(&set);
}

static void wrong_tensors_are_refused(void **state)
{
    static const int64_t negative[SAMPLES] = {0, -1, 2};
    static const uint64_t fewer[] = {SAMPLES - 1}, none[] = {0, 2}, empty[] = {SAMPLES, 0};
    static float broken[SAMPLES][2] = {{1, 2}, {3, NAN}, {5, 6}};
    (void)state;
    struct gyre_stored_tensor x = good_x(), y = good_y();
    refuse(tensors(tensor("X", GYRE_STORED_F32, 2, square, features), y), false, "no tensor 'x'");
    refuse(tensors(x, tensor("z", GYRE_STORED_I64, 1, row, labels)), false, "no tensor 'y'");
    refuse(tensors(tensor("x", GYRE_STORED_I64, 1, row, labels), y), false, "'x' is I64");
    refuse(tensors(x, tensor("y", GYRE_STORED_F32, 2, square, targets)), false, "--loss mse");
    refuse(tensors(x, y), true, "targets are F32");
    refuse(tensors(x, tensor("y", GYRE_STORED_I64, 1, fewer, labels)), false,
           "'x' has 3 samples, 'y' 2");
    refuse(tensors(x, tensor("y", GYRE_STORED_I64, 1, row, negative)), false,
           "sample 1 has label -1");
    refuse(tensors(tensor("x", GYRE_STORED_F32, 2, square, broken), y), false,
           "sample 1 has a NaN");
    refuse(tensors(tensor("x", GYRE_STORED_F32, 2, none, features),
                   tensor("y", GYRE_STORED_I64, 1, none, labels)),
           false, "no samples");
    refuse(tensors(tensor("x", GYRE_STORED_F32, 2, empty, features), y), false, "are empty");
    refuse(file_room_name("absent.safetensors"), false, "absent.safetensors");
}

/* -- IDX --------------------------------------------------------------------------------------- */

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0,  0,  2,   0,  0,
                                 0, 3, 0, 1, 2, 3, 4, 5, 6, 51, 85, 255, 10, 11};
static const uint8_t numbers[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 3};

static void images_find_their_labels(void **state)
{
    struct gyre_dataset set;
    uint64_t index = 1;
    float x[6];
    int64_t y;
    (void)state;
    assert_non_null(file_room_make("t-labels-idx1-ubyte", numbers, sizeof numbers));
    assert_int_equal(
        open_set(&set, file_room_make("t-images-idx3-ubyte", images, sizeof images), false), 0);
    assert_true(set.dims == 3 && set.shape[0] == 1 && set.shape[1] == 2 && set.shape[2] == 3);
    gyre_dataset_gather(&set, &index, 1, x, &y);
    assert_true(y == 3 && x[3] == 1 && x[1] == 51 / 255.0f && set.classes == 8);
    gyre_dataset_close(&set);
    refuse(file_room_make("u-images-idx3-ubyte", images, sizeof images), false,
           "u-labels-idx1-ubyte");
    refuse(file_room_make("other", images, sizeof images), false, "--labels");
    assert_non_null(file_room_make("v-labels-idx1-ubyte", numbers, sizeof numbers - 1));
    refuse(file_room_make("v-images-idx3-ubyte", images, sizeof images), false, "v-labels");
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 3, 1};
    assert_non_null(file_room_make("w-labels-idx1-ubyte", three, sizeof three));
    refuse(file_room_make("w-images-idx3-ubyte", images, sizeof images), false,
           "3 labels (of 1 dimensions) for 2 images");
}

/* -- CSV --------------------------------------------------------------------------------------- */

static const char *text(const char *lines)
{
    return file_room_make("set.csv", lines, strlen(lines));
}

static void the_last_column_is_what_is_wanted(void **state)
{
    struct gyre_dataset set;
    (void)state;
    assert_int_equal(open_set(&set, text("a,b,class\n1,2,0\n3,4.5,1\n"), false), 0);
    assert_true(set.samples == 2 && set.features == 2 && set.classes == 2 && set.x[3] == 4.5f);
    gyre_dataset_close(&set);
    assert_int_equal(open_set(&set, text("1,2,0.5\n3,4.5,-1\n"), true), 0);
    assert_true(set.samples == 2 && set.width == 1 && set.target[1] == -1);
    gyre_dataset_close(&set);
    refuse(text("1,2,0.5\n"), false, "line 1");
    refuse(text("1,2,3\n1,2\n"), false, "line 2");
    refuse(text("1,nan,0\n"), false, "set.csv");
}

/* -- hashes ------------------------------------------------------------------------------------ */

static void every_byte_counts(void **state)
{
    struct gyre_dataset set;
    uint64_t hash[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        features[1][1] = i == 1 ? 4.0000005f : 4;
        labels[1] = i == 2 ? 1 : 0;
        assert_int_equal(open_set(&set, tensors(good_x(), good_y()), false), 0);
        hash[i] = gyre_dataset_hash(&set);
        gyre_dataset_close(&set);
    }
    labels[1] = 0;
    assert_true(hash[0] != hash[1] && hash[0] != hash[2] && hash[1] != hash[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wine_is_built_in),
        cmocka_unit_test(random_is_the_same_everywhere),
        cmocka_unit_test(tensors_are_read_where_they_lie),
        cmocka_unit_test(wrong_tensors_are_refused),
        cmocka_unit_test(images_find_their_labels),
        cmocka_unit_test(the_last_column_is_what_is_wanted),
        cmocka_unit_test(every_byte_counts),
    };
    return cmocka_run_group_tests_name("data sets", tests, file_room_open, file_room_close);
}
