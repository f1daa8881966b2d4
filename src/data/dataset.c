/* Opens a data set: finds the kind of its source, calls the function of that kind, and checks the
 * result as every kind needs. */
#include "data/dataset.h"

#include "base/crc.h"
#include "base/rng.h"
#include "data/idx.h"
#include "data/safetensors/safetensors.h"
#include "data/sources/sources.h"
#include "sampler/permutation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIXEL_MOST 255.0f
/* Bytes; up to here a set is read through when it is opened. */
#define READ_WHOLE  (UINT64_C(256) << 20)
#define HASH_SPREAD 4096u /* samples */

/* -- opening ----------------------------------------------------------------------------------- */

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
    if (gyre_source_is_named(source))
        return gyre_source_named(set, options, trouble);
    if (strncmp(source, "random:", 7) == 0)
        return gyre_source_random(set, source, options->targets, trouble);
    if (ends_with(source, ".safetensors"))
        return gyre_source_tensors(set, options, trouble);
    if (ends_with(source, ".csv"))
        return gyre_source_table(set, options, trouble);
    if (options->targets)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: targets come from .safetensors or .csv files", source);
    if (gyre_source_is_cifar(source))
        return gyre_source_cifar(set, source, trouble);
    if (access(source, F_OK) && gyre_source_near_name(source))
        return gyre_trouble_set(trouble, -ENOENT, "%s: no such file; did you mean \"%s\"?", source,
                                gyre_source_near_name(source));
    return gyre_source_images(set, options, trouble);
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
    if (set->names.count)
        set->classes = set->names.count;
    return 0;
}

static int check_shape(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble)
{
    if (!set->samples)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: has no samples", source);
    set->features = 1;
    for (uint32_t d = 0; d < set->dims; d++)
        /* Cannot overflow: the reader has multiplied the same sizes. */
        set->features *= set->shape[d];
    set->rows = set->samples;
    if (!set->features)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: its samples are empty", source);
    return 0;
}

int gyre_dataset_open(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble)
{
    *set = (struct gyre_dataset){.source = options->source};
    int status = open_kind(set, options, trouble);
    if (!status)
        status = check_shape(set, options->source, trouble);
    if (!status)
        status = count_classes(set, options->source, trouble);
    /* NaNs of larger sets show in the loss */
    bool small = !status && dataset_bytes(set) <= READ_WHOLE;
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
    gyre_classes_deinit(&set->names);
    free(set->owned[0]);
    free(set->owned[1]);
    free(set->owned[2]);
    free(set->wide);
    *set = (struct gyre_dataset){0};
}

/* -- a part ------------------------------------------------------------------------------------ */

static int compare_rows(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

/* All rows in numpy's order; then the first `count` of them, and the others, each in the file's. */
static int cut_rows(uint64_t *row, uint64_t rows, uint64_t count, uint32_t seed,
                    struct gyre_trouble *trouble)
{
    struct gyre_permutation order = {0};
    struct gyre_mt19937 twister;
    int status = gyre_permutation_init(&order, rows, trouble);
    if (status)
        return status;
    gyre_mt19937_seed(&twister, seed);
    gyre_permutation_numpy(&order, &twister);
    for (uint64_t i = 0; i < rows; i++)
        row[i] = gyre_permutation_at(&order, i);
    gyre_permutation_deinit(&order);
    qsort(row, count, sizeof *row, compare_rows);
    qsort(row + count, rows - count, sizeof *row, compare_rows);
    return 0;
}

/* The same samples without the memory behind them. */
static struct gyre_dataset view_of(const struct gyre_dataset *set)
{
    struct gyre_dataset view = *set;
    view.names = (struct gyre_classes){0};
    view.file = NULL;
    view.images = NULL;
    view.wide = NULL;
    memset(view.owned, 0, sizeof view.owned);
    return view;
}

int gyre_dataset_split(struct gyre_dataset *set, struct gyre_dataset *part, double share,
                       uint32_t seed, struct gyre_trouble *trouble)
{
    uint64_t rows = set->samples, count = (uint64_t)ceil((double)rows * share);
    *part = (struct gyre_dataset){0};
    if (!count || count >= rows)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %g of %llu samples leaves none for the other part",
                                set->source, share, (unsigned long long)rows);
    uint64_t *row = malloc(rows * sizeof *row);
    int status = row ? cut_rows(row, rows, count, seed, trouble)
                     : gyre_source_no_memory(set->source, trouble);
    set->owned[2] = row;
    if (status)
        return status;
    *part = view_of(set);
    part->row = row;
    part->samples = count;
    set->row = row + count;
    set->samples = rows - count;
    return 0;
}

/* -- standardised ------------------------------------------------------------------------------ */

static int refuse_scaling(const struct gyre_dataset *set, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s: only a table, a .csv file, is standardised; wine is already, and "
                            "images or tensors are taken as they are",
                            set->source);
}

int gyre_dataset_fit(const struct gyre_dataset *set, struct gyre_scale *scale,
                     struct gyre_trouble *trouble)
{
    size_t bytes = set->features * sizeof(double);
    *scale = (struct gyre_scale){0};
    if (!set->wide)
        return refuse_scaling(set, trouble);
    double *own = malloc(set->samples * bytes);
    int status = own ? gyre_scale_init(scale, set->features, trouble)
                     : gyre_source_no_memory(set->source, trouble);
    for (uint64_t i = 0; !status && i < set->samples; i++)
        memcpy(own + i * set->features, set->wide + gyre_dataset_row(set, i) * set->features,
               bytes);
    if (!status)
        gyre_scale_fit(own, set->samples, set->features, scale->mean, scale->deviation);
    free(own);
    return status;
}

int gyre_dataset_scale(struct gyre_dataset *set, const struct gyre_scale *scale,
                       struct gyre_trouble *trouble)
{
    if (scale->columns && !set->wide)
        return refuse_scaling(set, trouble);
    if (scale->columns && scale->columns != set->features)
        return gyre_trouble_set(
            trouble, GYRE_INVALID, "%s: its samples have %llu numbers, and %llu are standardised",
            set->source, (unsigned long long)set->features, (unsigned long long)scale->columns);
    if (scale->columns) /* x of a table is the set's own */
        gyre_scale_apply(set->wide, set->rows, set->features, scale->mean, scale->deviation,
                         set->owned[0]);
    free(set->wide);
    set->wide = NULL;
    return 0;
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
        uint64_t row = gyre_dataset_row(set, index[i]);
        if (x)
            gather_x(set, row, x + i * set->features);
        if (y && set->label)
            ((int64_t *)y)[i] = set->label[row];
        else if (y && set->target)
            memcpy((float *)y + i * set->width, set->target + row * set->width,
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
    uint64_t row = gyre_dataset_row(set, index);
    const void *x = set->x ? (const void *)(set->x + row * set->features)
                           : (const void *)(set->pixels + row * set->features);
    const void *y = set->label    ? (const void *)(set->label + row)
                    : set->target ? (const void *)(set->target + row * set->width)
                                  : "";
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
    for (uint64_t i = 0; i < set->names.count; i++)
        hash = gyre_mix64(hash ^ gyre_crc32c(0, set->names.name[i], strlen(set->names.name[i])));
    for (uint64_t i = 0; i < set->samples; i += step)
        hash += gyre_dataset_sample_hash(set, i);
    return hash;
}
