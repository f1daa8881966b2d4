/* Data sets from every kind of source, and what is refused with the sample and the value named. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig/file_room.h"

#include "data/cifar.h"
#include "data/dataset.h"
#include "data/safetensors/safetensors.h"
#include "data/builtin/digits.h"
#include "data/builtin/wine.h"
#include "rig/sanitized.h"
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

/* -- built in ---------------------------------------------------------------------------------- */

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

static void digits_are_built_in(void **state)
{
    struct gyre_dataset train, test;
    float pixel[GYRE_DIGITS_PIXELS];
    (void)state;
    assert_int_equal(open_set(&train, "digits", false), 0);
    assert_int_equal(open_set(&test, "digits:test", false), 0);
    assert_int_equal(train.samples, 1437);
    assert_int_equal(test.samples, 360);
    assert_true(train.dims == 3 && train.shape[0] == 1 && train.shape[1] == 8);
    assert_true(train.features == 64 && train.classes == 10);
    assert_int_equal(train.label[0], gyre_digits_take(1734, pixel)); /* the split's first rows */
    assert_memory_equal(train.x, pixel, sizeof pixel);
    assert_int_equal(test.label[0], gyre_digits_take(1245, pixel));
    assert_memory_equal(test.x, pixel, sizeof pixel);
    gyre_dataset_close(&train);
    gyre_dataset_close(&test);
    refuse("digit", false, "digit: no such file; did you mean \"digits\"?");
}

/* -- a part ------------------------------------------------------------------------------------ */

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

/* scikit-learn's rows, which wine.h has too; what is left is every other row, once. */
static void a_part_is_cut_as_scikit_learn_does(void **state)
{
    static struct gyre_wine wine;
    struct gyre_dataset set, part, whole;
    bool seen[GYRE_WINE_ROWS] = {false};
    (void)state;
    gyre_wine_split(42, &wine);
    qsort(wine.test_row, GYRE_WINE_TEST, sizeof wine.test_row[0], compare_numbers);
    assert_int_equal(open_set(&whole, "random:178,3,4", false), 0);
    assert_int_equal(open_set(&set, "random:178,3,4", false), 0);
    uint64_t hash = gyre_dataset_hash(&set);
    assert_int_equal(gyre_dataset_split(&set, &part, 0.2, 42, &trouble), 0);
    assert_true(set.samples == GYRE_WINE_TRAIN && part.samples == GYRE_WINE_TEST);
    for (uint64_t i = 0; i < part.samples; i++) {
        assert_int_equal(gyre_dataset_row(&part, i), wine.test_row[i]);
        seen[gyre_dataset_row(&part, i)] = true;
    }
    for (uint64_t i = 0; i < set.samples; i++) {
        uint64_t row = gyre_dataset_row(&set, i);
        float x[3], same[3];
        int64_t y, label;
        assert_false(seen[row]);
        seen[row] = true;
        gyre_dataset_gather(&set, &i, 1, x, &y);
        gyre_dataset_gather(&whole, &row, 1, same, &label);
        assert_memory_equal(x, same, sizeof x);
        assert_int_equal(y, label);
    }
    assert_true(gyre_dataset_hash(&set) != hash && gyre_dataset_hash(&part) != hash);
    gyre_dataset_close(&part);
    gyre_dataset_close(&set);
    gyre_dataset_close(&whole);
}

/* 2⁵⁰ rows of 8 bytes are more than an address space has. */
static void memory_for_a_part_is_told_missing(void **state)
{
    struct gyre_dataset set = {.source = "random:3,3,4", .samples = 1ull << 50}, part;
    (void)state;
#ifdef SANITIZED
    print_message("skipped: a sanitizer ends a program that asks for so much\n");
    skip();
#endif
    assert_int_equal(gyre_dataset_split(&set, &part, 0.5, 0, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "random:3,3,4: "));
    assert_true(set.samples == 1ull << 50 && part.samples == 0);
    gyre_dataset_close(&set);
}

static void no_part_is_empty(void **state)
{
    struct gyre_dataset set, part;
    (void)state;
    assert_int_equal(open_set(&set, "random:3,3,4", false), 0);
    assert_int_equal(gyre_dataset_split(&set, &part, 0.7, 0, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "random:3,3,4: 0.7 of 3 samples leaves none"));
    assert_int_equal(gyre_dataset_split(&set, &part, 0.1, 0, &trouble), 0);
    assert_true(part.samples == 1 && set.samples == 2);
    gyre_dataset_close(&part);
    gyre_dataset_close(&set);
}

/* -- standardised ------------------------------------------------------------------------------ */

static const char far_apart[] = "1000000.25,7,0\n1000000.75,7,1\n1000001.5,7,0\n999999.125,8,1\n"
                                "1000002.0625,7,1\n1000000.5,7,0\n";

/* Of these only what is not moved away counts; numbers of a float's last bits are told apart. */
static void a_table_is_standardised_by_what_is_left(void **state)
{
    const char *path = file_room_make("far.csv", far_apart, strlen(far_apart));
    struct gyre_dataset_options options = {.source = path, .wide = true};
    struct gyre_dataset set, part;
    struct gyre_scale scale;
    double value[6], sum = 0, squares = 0;
    (void)state;
    assert_int_equal(gyre_dataset_open(&set, &options, &trouble), 0);
    assert_int_equal(gyre_dataset_split(&set, &part, 0.3, 3, &trouble), 0);
    assert_int_equal(gyre_dataset_fit(&set, &scale, &trouble), 0);
    for (int i = 0; i < 6; i++)
        value[i] = set.wide[2 * i];
    for (uint64_t i = 0; i < set.samples; i++)
        sum += value[gyre_dataset_row(&set, i)];
    for (uint64_t i = 0; i < set.samples; i++)
        squares += pow(value[gyre_dataset_row(&set, i)] - sum / (double)set.samples, 2);
    assert_true(scale.columns == 2 && scale.mean[0] == sum / (double)set.samples);
    assert_true(fabs(scale.deviation[0] - sqrt(squares / (double)set.samples)) < 1e-12);
    assert_true(gyre_dataset_row(&part, 0) == 3 || gyre_dataset_row(&part, 1) == 3);
    assert_true(scale.mean[1] == 7 && scale.deviation[1] == 1);
    assert_int_equal(gyre_dataset_scale(&set, &scale, &trouble), 0);
    assert_null(set.wide);
    for (int i = 0; i < 6; i++)
        assert_true(set.x[2 * i] == (float)((value[i] - scale.mean[0]) / scale.deviation[0]));
    assert_true(part.x[7] == 1 && part.x[5] == 0);
    gyre_scale_deinit(&scale);
    gyre_dataset_close(&part);
    gyre_dataset_close(&set);
}

static void only_tables_are_standardised(void **state)
{
    double number[] = {0, 0, 1, 1};
    const struct gyre_scale two = {2, number, number + 2}, none = {0};
    struct gyre_dataset_options options = {.source = "wine", .wide = true};
    struct gyre_dataset set;
    struct gyre_scale scale;
    (void)state;
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_dataset_open(&set, &options, &trouble), 0);
    assert_int_equal(gyre_dataset_fit(&set, &scale, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "wine: only a table, a .csv file, is standardised"));
    assert_int_equal(gyre_dataset_scale(&set, &two, NULL), GYRE_INVALID);
    assert_int_equal(gyre_dataset_scale(&set, &none, NULL), 0);
    gyre_dataset_close(&set);
    options.source = file_room_make("three.csv", "1,2,3,0\n", 8);
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_dataset_open(&set, &options, &trouble), 0);
    assert_int_equal(gyre_dataset_scale(&set, &two, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "have 3 numbers, and 2 are standardised"));
    gyre_dataset_close(&set);
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

/* -- CIFAR-10 ---------------------------------------------------------------------------------- */

static uint8_t record[GYRE_CIFAR_RECORD];

/* A file of one record: its label, and its last pixel. */
static const char *make_batch(const char *name, uint8_t label, uint8_t pixel)
{
    record[0] = label;
    record[GYRE_CIFAR_PIXELS] = pixel;
    return file_room_make(name, record, sizeof record);
}

static void a_file_of_cifar_is_a_set(void **state)
{
    struct gyre_dataset set;
    static float x[GYRE_CIFAR_PIXELS];
    uint64_t index = 0;
    int64_t y;
    (void)state;
    assert_int_equal(open_set(&set, make_batch("one.bin", 4, 51), false), 0);
    assert_true(set.dims == 3 && set.shape[0] == 3 && set.shape[1] == 32 && set.shape[2] == 32);
    assert_true(set.samples == 1 && set.classes == 10 && !set.names.count);
    gyre_dataset_gather(&set, &index, 1, x, &y);
    assert_true(y == 4 && x[GYRE_CIFAR_PIXELS - 1] == 51 / 255.0f);
    gyre_dataset_close(&set);
    refuse(make_batch("two.bin", 10, 0), false, "two.bin: record 0, at byte 0, has label 10");
    refuse(file_room_make("short.bin", record, 100), false, "record 0, at byte 0, has 100 bytes");
    refuse(make_batch("one.bin", 4, 51), true, "targets come from");
}

static void a_folder_of_cifar_is_its_training_set(void **state)
{
    static const char *const names[] = {"c/data_batch_1.bin", "c/data_batch_2.bin",
                                        "c/data_batch_3.bin", "c/data_batch_4.bin",
                                        "c/data_batch_5.bin"};
    struct gyre_dataset set;
    (void)state;
    assert_int_equal(mkdir(file_room_name("c"), 0700), 0);
    for (int i = 0; i < 5; i++) {
        refuse(file_room_name("c"), false, names[i]);
        assert_non_null(strstr(trouble.text, "/c: a folder of data is CIFAR-10's"));
        assert_non_null(make_batch(names[i], (uint8_t)(9 - i), (uint8_t)i));
    }
    assert_int_equal(open_set(&set, file_room_name("c"), false), 0);
    assert_int_equal(set.samples, 5);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(set.label[i], 9 - i);
        assert_int_equal(set.pixels[(i + 1) * GYRE_CIFAR_PIXELS - 1], i);
    }
    gyre_dataset_close(&set);
}

static const char *name_classes(const char *lines)
{
    assert_non_null(file_room_make("d/batches.meta.txt", lines, strlen(lines)));
    return file_room_name("d/some.bin");
}

static void classes_of_cifar_have_their_names(void **state)
{
    struct gyre_dataset set;
    (void)state;
    assert_int_equal(mkdir(file_room_name("d"), 0700), 0);
    assert_non_null(make_batch("d/some.bin", 1, 0));
    assert_int_equal(open_set(&set, name_classes("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n"), false), 0);
    assert_true(set.names.count == 10 && set.classes == 10);
    assert_string_equal(set.names.name[9], "j");
    gyre_dataset_close(&set);
    refuse(name_classes("a\nb\n"), false, "batches.meta.txt: has 2 names; CIFAR-10 has 10");
    refuse(name_classes("a\nb\nd\nc\ne\nf\ng\nh\ni\nj"), false,
           "batches.meta.txt, line 4: \"c\" comes behind \"d\"");
}

/* -- files by the name of their set ------------------------------------------------------------ */

static void open_here(const char *source, int64_t label)
{
    struct gyre_dataset set;
    assert_int_equal(open_set(&set, source, false), 0);
    assert_string_equal(set.source, source);
    assert_int_equal(set.label[0], label);
    gyre_dataset_close(&set);
}

static void fetched_files_have_a_name(void **state)
{
    char batch[] = "cifar-10-batches-bin/data_batch_1.bin";
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)state;
    assert_int_equal(chdir(file_room), 0);
    refuse("mnist", false, "mnist: train-images-idx3-ubyte.gz is not in this folder");
    refuse("mnist:test", false, "mnist:test: t10k-images-idx3-ubyte.gz is not in this folder");
    refuse("cifar10", false, "cifar10: cifar-10-batches-bin is not in this folder");
    assert_non_null(file_room_make("train-images-idx3-ubyte", images, sizeof images));
    refuse("mnist", false, "train-labels-idx1-ubyte: cannot open it");
    assert_non_null(file_room_make("train-labels-idx1-ubyte", numbers, sizeof numbers));
    open_here("mnist", 7);
    assert_int_equal(mkdir("cifar-10-batches-bin", 0700), 0);
    refuse("cifar10:test", false, "cifar-10-batches-bin/test_batch.bin is not in this folder");
    for (char *digit = strrchr(batch, '_') + 1; *digit <= '5'; ++*digit)
        assert_non_null(make_batch(batch, (uint8_t)(*digit - '0'), 0));
    assert_non_null(make_batch("cifar-10-batches-bin/test_batch.bin", 6, 0));
    open_here("cifar10", 1);
    open_here("cifar10:test", 6);
    assert_int_equal(fchdir(before), 0);
    close(before);
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
    refuse(text("1,2,0.5\n"), false, "the label \"0.5\" is no class; numbers to approximate");
    refuse(text("1,2,3\n1,2\n"), false, "line 2");
    refuse(text("1,nan,0\n"), false, "set.csv");
}

static int open_labels(struct gyre_dataset *set, const char *lines, const char *column,
                       const struct gyre_classes *classes)
{
    struct gyre_dataset_options options = {
        .source = text(lines), .label_column = column, .classes = classes};
    trouble = (struct gyre_trouble){0};
    return gyre_dataset_open(set, &options, &trouble);
}

/* Numbers in the order of the names, the same in another file with the names of the first. */
static void classes_may_have_names(void **state)
{
    struct gyre_dataset set, other;
    (void)state;
    assert_int_equal(open_labels(&set, "kind,a\nred,1\nblue,2\nred,3\n", "kind", NULL), 0);
    assert_true(set.classes == 2 && set.features == 1);
    assert_true(set.label[0] == 1 && set.label[1] == 0 && set.label[2] == 1);
    assert_string_equal(set.names.name[0], "blue");
    assert_int_equal(open_labels(&other, "a,kind\n1,red\n", "kind", &set.names), 0);
    assert_true(other.label[0] == 1 && other.classes == 2);
    gyre_dataset_close(&other);
    assert_int_equal(open_labels(&other, "1,red\n2,bleu\n", NULL, &set.names), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "line 2: \"bleu\" is none of the 2 classes, blue to red; "
                                         "did you mean \"blue\"?"));
    gyre_dataset_close(&set);
}

/* Whole numbers from 0 on are their own names, and others are not. */
static void numbers_may_be_names(void **state)
{
    static const struct gyre_classes none;
    struct gyre_dataset set;
    (void)state;
    assert_int_equal(open_labels(&set, "1,2\n1,0\n1,4\n", NULL, NULL), 0);
    assert_true(set.classes == 5 && !set.names.count && set.label[0] == 2);
    gyre_dataset_close(&set);
    assert_int_equal(open_labels(&set, "1,10\n1,9.0\n1,-1\n", NULL, NULL), 0);
    assert_true(set.classes == 3 && set.label[0] == 2 && set.label[1] == 1 && set.label[2] == 0);
    assert_string_equal(set.names.name[1], "9");
    gyre_dataset_close(&set);
    assert_int_equal(open_labels(&set, "1,0\n1,red\n", NULL, &none), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "line 2: \"red\" is no class: the model's count from 0"));
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
        cmocka_unit_test(digits_are_built_in),
        cmocka_unit_test(a_part_is_cut_as_scikit_learn_does),
        cmocka_unit_test(no_part_is_empty),
        cmocka_unit_test(memory_for_a_part_is_told_missing),
        cmocka_unit_test(a_table_is_standardised_by_what_is_left),
        cmocka_unit_test(only_tables_are_standardised),
        cmocka_unit_test(random_is_the_same_everywhere),
        cmocka_unit_test(tensors_are_read_where_they_lie),
        cmocka_unit_test(wrong_tensors_are_refused),
        cmocka_unit_test(images_find_their_labels),
        cmocka_unit_test(a_file_of_cifar_is_a_set),
        cmocka_unit_test(a_folder_of_cifar_is_its_training_set),
        cmocka_unit_test(classes_of_cifar_have_their_names),
        cmocka_unit_test(fetched_files_have_a_name),
        cmocka_unit_test(classes_may_have_names),
        cmocka_unit_test(numbers_may_be_names),
        cmocka_unit_test(the_last_column_is_what_is_wanted),
        cmocka_unit_test(every_byte_counts),
    };
    return cmocka_run_group_tests_name("data sets", tests, file_room_open, file_room_close);
}
