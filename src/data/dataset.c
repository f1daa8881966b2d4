/* Opening a data set: which kind of source it is, then one function per kind, then what holds for
 * all. */
#include "data/dataset.h"

#include "base/crc.h"
#include "base/rng.h"
#include "base/size.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/safetensors/safetensors.h"
#include "data/wine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXEL_MOST  255.0f
#define READ_WHOLE  (UINT64_C(256) << 20) /* bytes: what is read through when it is opened */
#define HASH_SPREAD 4096u                 /* samples */

static int no_memory_for_dataset(const char *source, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory for the data set", source);
}

/* -- wine -------------------------------------------------------------------------------------- */

static int open_wine(struct gyre_dataset *set, bool test, struct gyre_trouble *trouble)
{
    uint64_t rows = test ? GYRE_WINE_TEST : GYRE_WINE_TRAIN;
    struct gyre_wine *wine = malloc(sizeof *wine);
    int64_t *label = malloc(rows * sizeof *label);
    set->owned[0] = wine;
    set->owned[1] = label;
    if (!wine || !label)
        return no_memory_for_dataset("wine", trouble);
    gyre_wine_split(42, wine);
    for (uint64_t i = 0; i < rows; i++)
        label[i] = test ? wine->test_class[i] : wine->train_class[i];
    set->samples = rows;
    set->dims = 1;
    set->shape[0] = GYRE_WINE_FEATURES;
    set->x = test ? wine->test[0] : wine->train[0];
    set->label = label;
    return 0;
}

/* -- random ------------------------------------------------------------------------------------ */

/* "random:1000,784,10": samples, numbers of each, classes. The same on every machine. */
static int open_random(struct gyre_dataset *set, const char *source, bool targets,
                       struct gyre_trouble *trouble)
{
    unsigned long long samples, features, classes, cells;
    struct gyre_rng rng;
    char rest;
    if (sscanf(source, "random:%llu,%llu,%llu%c", &samples, &features, &classes, &rest) != 3 ||
        !samples || !features || !classes || classes > INT32_MAX ||
        __builtin_mul_overflow(samples, features, &cells) || cells > SIZE_MAX / 8 || targets)
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "%s: expected random:SAMPLES,NUMBERS,CLASSES, for a loss of classes", source);
    float *x = malloc(cells * sizeof *x);
    int64_t *label = malloc(samples * sizeof *label);
    set->owned[0] = x;
    set->owned[1] = label;
    if (!x || !label)
        return no_memory_for_dataset(source, trouble);
    gyre_rng_seed(&rng, 1);
    for (uint64_t i = 0; i < cells; i++)
        x[i] = (float)(gyre_rng_next(&rng) >> 40) * 0x1p-24f;
    for (uint64_t i = 0; i < samples; i++)
        label[i] = (int64_t)gyre_rng_below(&rng, classes);
    set->samples = samples;
    set->dims = 1;
    set->shape[0] = features;
    set->x = x;
    set->label = label;
    return 0;
}

/* -- safetensors ------------------------------------------------------------------------------- */

static int find_tensor(const struct gyre_dataset *set, const char *source, const char *name,
                       const struct gyre_stored_tensor **tensor, struct gyre_trouble *trouble)
{
    *tensor = gyre_safetensors_find(set->file, name);
    if (!*tensor)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: there is no tensor '%s'; a data set has 'x' and 'y'", source,
                                name);
    if (!(*tensor)->dims)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: '%s' is a single number", source, name);
    return 0;
}

/* A copy where the file's bytes lie at odd places. */
static int aligned(struct gyre_dataset *set, const char *source,
                   const struct gyre_stored_tensor *tensor, size_t size, int slot,
                   const void **data, struct gyre_trouble *trouble)
{
    *data = tensor->data;
    if ((uintptr_t)tensor->data % size == 0)
        return 0;
    set->owned[slot] = malloc(tensor->bytes ? tensor->bytes : 1);
    if (!set->owned[slot])
        return no_memory_for_dataset(source, trouble);
    memcpy(set->owned[slot], tensor->data, tensor->bytes);
    *data = set->owned[slot];
    return 0;
}

static int take_x(struct gyre_dataset *set, const char *source, const struct gyre_stored_tensor *x,
                  struct gyre_trouble *trouble)
{
    const void *data = x->data;
    if (x->dims > GYRE_DATASET_DIMS)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: 'x' has %u dimensions, at most %d",
                                source, x->dims, GYRE_DATASET_DIMS);
    if (x->type != GYRE_STORED_F32 && x->type != GYRE_STORED_U8)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: 'x' is %s; F32 and U8 can be read",
                                source, gyre_stored_type_name(x->type));
    int status =
        x->type == GYRE_STORED_F32 ? aligned(set, source, x, sizeof(float), 0, &data, trouble) : 0;
    set->samples = x->shape[0];
    set->dims = x->dims > 1 ? x->dims - 1 : 1;
    set->shape[0] = 1;
    for (uint32_t d = 1; d < x->dims; d++)
        set->shape[d - 1] = x->shape[d];
    set->x = x->type == GYRE_STORED_F32 ? data : NULL;
    set->pixels = x->type == GYRE_STORED_U8 ? data : NULL;
    return status;
}

static int take_y(struct gyre_dataset *set, const char *source, const struct gyre_stored_tensor *y,
                  bool targets, struct gyre_trouble *trouble)
{
    const void *data;
    bool right = targets ? y->type == GYRE_STORED_F32 && y->dims <= 2
                         : y->type == GYRE_STORED_I64 && y->dims == 1;
    if (!right)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: 'y' is %s of %u dimensions; %s", source,
                                gyre_stored_type_name(y->type), y->dims,
                                targets ? "targets are F32, of one or two"
                                        : "classes are I64, of one (targets: --loss mse)");
    if (y->shape[0] != set->samples)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: 'x' has %llu samples, 'y' %llu", source,
                                (unsigned long long)set->samples, (unsigned long long)y->shape[0]);
    int status =
        aligned(set, source, y, targets ? sizeof(float) : sizeof(int64_t), 1, &data, trouble);
    if (targets) {
        set->target = data;
        set->width = y->dims > 1 ? y->shape[1] : 1;
    } else {
        set->label = data;
    }
    return status;
}

static int open_safetensors(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                            struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *x, *y;
    int status = gyre_safetensors_open(&set->file, options->source, trouble);
    if (!status)
        status = find_tensor(set, options->source, "x", &x, trouble);
    if (!status)
        status = find_tensor(set, options->source, "y", &y, trouble);
    if (!status)
        status = take_x(set, options->source, x, trouble);
    return status ? status : take_y(set, options->source, y, options->targets, trouble);
}

/* -- IDX --------------------------------------------------------------------------------------- */

/* "train-images-idx3-ubyte.gz" has its labels in "train-labels-idx1-ubyte.gz". */
static char *labels_beside(const char *images)
{
    static const char *const from[] = {"images", "idx3"}, *const to[] = {"labels", "idx1"};
    char *path = strdup(images);
    for (int i = 0; path && i < 2; i++) {
        char *at = NULL;
        for (char *next = path; (next = strstr(next, from[i])); next++)
            at = next;
        if (at)
            memcpy(at, to[i], strlen(to[i]));
    }
    return path;
}

static int take_images(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    const struct gyre_idx *images = set->images;
    if (images->type != GYRE_IDX_U8 || images->dims < 2 || images->dims > GYRE_DATASET_DIMS)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: images are bytes of 2 to %d dimensions; this has type 0x%02x "
                                "and %u",
                                source, GYRE_DATASET_DIMS, (unsigned)images->type, images->dims);
    set->samples = images->shape[0];
    set->dims = images->dims == 3 ? 3 : images->dims - 1;
    set->shape[0] = 1; /* a channel */
    for (uint32_t d = 1; d < images->dims; d++)
        set->shape[images->dims == 3 ? d : d - 1] = images->shape[d];
    set->pixels = images->data;
    return 0;
}

static int take_labels(struct gyre_dataset *set, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_idx labels = {0};
    int status = gyre_idx_open(&labels, path, trouble);
    if (!status && (labels.dims != 1 || labels.shape[0] != set->samples))
        status = gyre_trouble_set(
            trouble, GYRE_INVALID, "%s: holds %u labels (of %u dimensions) for %llu images", path,
            labels.dims ? labels.shape[0] : 0, labels.dims, (unsigned long long)set->samples);
    int64_t *label = status ? NULL : malloc((set->samples ? set->samples : 1) * sizeof *label);
    if (!status && !label)
        status = no_memory_for_dataset(path, trouble);
    set->owned[1] = label;
    set->label = label;
    if (!status)
        status = gyre_idx_wholes(&labels, 0, set->samples, label);
    if (status)
        gyre_trouble_set(trouble, status, "%s: labels are not whole numbers", path);
    gyre_idx_close(&labels);
    return status;
}

static int open_idx(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                    struct gyre_trouble *trouble)
{
    char *labels = options->labels ? strdup(options->labels) : labels_beside(options->source);
    set->images = calloc(1, sizeof *set->images);
    int status = labels && set->images ? 0 : no_memory_for_dataset(options->source, trouble);
    if (!status)
        status = gyre_idx_open(set->images, options->source, trouble);
    if (!status)
        status = take_images(set, options->source, trouble);
    if (!status && strcmp(labels, options->source) == 0)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "%s: which file has the labels? Name it with --labels",
                                  options->source);
    if (!status)
        status = take_labels(set, labels, trouble);
    free(labels);
    return status;
}

/* -- CSV --------------------------------------------------------------------------------------- */

/* Is there one? Its first field does not begin as a number does. */
static bool has_header(const char *path)
{
    struct gyre_file file;
    uint64_t i = 0;
    if (gyre_file_map(path, &file, NULL))
        return false;
    while (i < file.length && (file.data[i] == ' ' || file.data[i] >= 0x80)) /* a byte order mark */
        i++;
    bool number = i == file.length || strchr("0123456789+-.\r\n", file.data[i]) != NULL;
    gyre_file_unmap(&file);
    return !number;
}

static int take_table(struct gyre_dataset *set, const struct gyre_csv *csv, const char *source,
                      bool targets, struct gyre_trouble *trouble)
{
    uint64_t rows = csv->rows, cells;
    if (!gyre_mul_u64(rows, csv->columns, &cells) || cells > SIZE_MAX / sizeof(float))
        return no_memory_for_dataset(source, trouble);
    float *x = malloc((cells + 1) * sizeof *x);
    void *y = malloc((rows + 1) * sizeof(int64_t));
    set->owned[0] = x;
    set->owned[1] = y;
    if (!x || !y)
        return no_memory_for_dataset(source, trouble);
    for (uint64_t i = 0; i < cells; i++)
        x[i] = (float)csv->values[i];
    for (uint64_t i = 0; i < rows && targets; i++)
        ((float *)y)[i] = (float)csv->labels[i];
    for (uint64_t i = 0; i < rows && !targets; i++)
        ((int64_t *)y)[i] = (int64_t)csv->labels[i];
    set->samples = rows;
    set->dims = 1;
    set->shape[0] = csv->columns;
    set->x = x;
    set->width = targets;
    set->target = targets ? y : NULL;
    set->label = targets ? NULL : y;
    return 0;
}

static int open_csv(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                    struct gyre_trouble *trouble)
{
    struct gyre_csv csv;
    struct gyre_csv_options how = {
        .header = has_header(options->source), .label = "last", .classes = !options->targets};
    int status = gyre_csv_open(&csv, options->source, &how, trouble);
    if (status)
        return status;
    status = take_table(set, &csv, options->source, options->targets, trouble);
    gyre_csv_close(&csv);
    return status;
}

/* -- all of them ------------------------------------------------------------------------------- */

static uint64_t dataset_bytes(const struct gyre_dataset *set)
{
    return set->samples * set->features * (set->x ? sizeof(float) : 1);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static int open_kind(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                     struct gyre_trouble *trouble)
{
    const char *source = options->source;
    if (strcmp(source, "wine") == 0 || strcmp(source, "wine:test") == 0)
        return options->targets
                   ? gyre_trouble_set(trouble, GYRE_INVALID, "%s: has classes, not targets", source)
                   : open_wine(set, source[4] == ':', trouble);
    if (strncmp(source, "random:", 7) == 0)
        return open_random(set, source, options->targets, trouble);
    if (ends_with(source, ".safetensors"))
        return open_safetensors(set, options, trouble);
    if (ends_with(source, ".csv"))
        return open_csv(set, options, trouble);
    if (options->targets)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: targets come from .safetensors or .csv files", source);
    return open_idx(set, options, trouble);
}

static int count_classes(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    for (uint64_t i = 0; set->label && i < set->samples; i++) {
        int64_t label = set->label[i];
        if (label < 0 || label > INT32_MAX)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: sample %llu has label %lld; classes are numbered from 0",
                                    source, (unsigned long long)i, (long long)label);
        if ((uint64_t)label >= set->classes)
            set->classes = (uint64_t)label + 1;
    }
    return 0;
}

static int check_shape(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    if (!set->samples)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: has no samples", source);
    set->features = 1;
    for (uint32_t d = 0; d < set->dims; d++)
        set->features *= set->shape[d]; /* fits: the reader has multiplied it before */
    if (!set->features)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: its samples are empty", source);
    return 0;
}

int gyre_dataset_open(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble)
{
    *set = (struct gyre_dataset){0};
    int status = open_kind(set, options, trouble);
    if (!status)
        status = check_shape(set, options->source, trouble);
    if (!status)
        status = count_classes(set, options->source, trouble);
    bool small = !status && dataset_bytes(set) <= READ_WHOLE; /* larger ones show it in the loss */
    uint64_t bad = small ? gyre_dataset_find_nonfinite(set) : set->samples;
    if (!status && bad < set->samples)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "%s: sample %llu has a NaN or an infinity",
                                  options->source, (unsigned long long)bad);
    if (status)
        gyre_dataset_close(set);
    return status;
}

void gyre_dataset_close(struct gyre_dataset *set)
{
    gyre_safetensors_close(set->file);
    if (set->images)
        gyre_idx_close(set->images);
    free(set->images);
    free(set->owned[0]);
    free(set->owned[1]);
    *set = (struct gyre_dataset){0};
}

/* -- samples ----------------------------------------------------------------------------------- */

static void gather_x(const struct gyre_dataset *set, uint64_t index, float *to)
{
    if (set->x) {
        memcpy(to, set->x + index * set->features, set->features * sizeof *to);
        return;
    }
    const uint8_t *from = set->pixels + index * set->features;
    for (uint64_t k = 0; k < set->features; k++)
        to[k] = (float)from[k] / PIXEL_MOST;
}

void gyre_dataset_gather(const struct gyre_dataset *set, const uint64_t *index, uint64_t count,
                         float *x, void *y)
{
    for (uint64_t i = 0; i < count; i++) {
        gather_x(set, index[i], x + i * set->features);
        if (set->label)
            ((int64_t *)y)[i] = set->label[index[i]];
        else
            memcpy((float *)y + i * set->width, set->target + index[i] * set->width,
                   set->width * sizeof(float));
    }
}

static bool finite_row(const float *data, uint64_t count)
{
    float sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += data[i] * 0;
    return sum == 0;
}

uint64_t gyre_dataset_find_nonfinite(const struct gyre_dataset *set)
{
    for (uint64_t i = 0; i < set->samples; i++) {
        if (set->x && !finite_row(set->x + i * set->features, set->features))
            return i;
        if (set->target && !finite_row(set->target + i * set->width, set->width))
            return i;
    }
    return set->samples;
}

uint64_t gyre_dataset_sample_hash(const struct gyre_dataset *set, uint64_t index)
{
    const void *x = set->x ? (const void *)(set->x + index * set->features)
                           : (const void *)(set->pixels + index * set->features);
    const void *y = set->label ? (const void *)(set->label + index)
                               : (const void *)(set->target + index * set->width);
    uint32_t of_x = gyre_crc32c(0, x, set->features * (set->x ? sizeof(float) : 1));
    uint32_t of_y = gyre_crc32c(0, y, set->label ? sizeof(int64_t) : set->width * sizeof(float));
    return gyre_mix64(gyre_mix64(index) ^ ((uint64_t)of_x << 32 | of_y));
}

uint64_t gyre_dataset_hash(const struct gyre_dataset *set)
{
    uint64_t step = dataset_bytes(set) > READ_WHOLE && set->samples > HASH_SPREAD
                        ? set->samples / HASH_SPREAD
                        : 1;
    uint64_t hash = gyre_mix64(set->samples);
    for (uint32_t d = 0; d < set->dims; d++)
        hash = gyre_mix64(hash ^ set->shape[d]);
    hash = gyre_mix64(hash ^ set->classes ^ set->width << 32);
    for (uint64_t i = 0; i < set->samples; i += step)
        hash += gyre_dataset_sample_hash(set, i);
    return hash;
}
