/* IDX images, and their labels in a file beside them. Tested by tests/unit/data/dataset_test.c. */
#include "data/idx.h"
#include "data/sources/sources.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name of the labels file: "train-images-idx3-ubyte.gz" has its labels in
 * "train-labels-idx1-ubyte.gz". */
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
    set->shape[0] = 1; /* one channel */
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
        status = gyre_source_no_memory(path, trouble);
    set->owned[1] = label;
    set->label = label;
    if (!status)
        status = gyre_idx_wholes(&labels, 0, set->samples, label);
    if (status)
        gyre_trouble_set(trouble, status, "%s: labels are not whole numbers", path);
    gyre_idx_close(&labels);
    return status;
}

int gyre_source_images(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                       struct gyre_trouble *trouble)
{
    char *labels = options->labels ? strdup(options->labels) : labels_beside(options->source);
    set->images = calloc(1, sizeof *set->images);
    int status = labels && set->images ? 0 : gyre_source_no_memory(options->source, trouble);
    if (!status)
        status = gyre_idx_open(set->images, options->source, trouble);
    if (!status)
        status = take_images(set, options->source, trouble);
    bool named = options->labels || (labels && strcmp(labels, options->source) != 0);
    bool lacks = options->may_lack_y && !options->labels && (!named || access(labels, F_OK));
    if (!status && !lacks && !named)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "%s: which file has the labels? Name it with --labels",
                                  options->source);
    if (!status && !lacks)
        status = take_labels(set, labels, trouble);
    free(labels);
    return status;
}
