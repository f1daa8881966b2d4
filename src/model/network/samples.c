/* The data sets of gyre/model.h: data/dataset.h, classes only, with every index looked at. Tested
 * by tests/unit/model/network/network_test.c. */
#include "data/dataset.h"

#include <errno.h>
#include <gyre/model.h>
#include <stdlib.h>

struct gyre_samples {
    struct gyre_dataset set;
};

int gyre_samples_open(struct gyre_samples **samples, const char *source)
{
    const struct gyre_dataset_options options = {.source = source};
    struct gyre_trouble *trouble = gyre_thread_trouble();
    if (!samples || !source)
        return gyre_refuse("gyre_samples_open: %s (NULL)",
                           samples ? "no source" : "nowhere to put the data set");
    trouble->status = 0;
    *samples = NULL;
    struct gyre_samples *s = calloc(1, sizeof *s);
    if (!s)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory for a data set", source);
    int status = gyre_dataset_open(&s->set, &options, trouble);
    if (status)
        free(s);
    else
        *samples = s;
    return status;
}

void gyre_samples_close(struct gyre_samples *samples)
{
    if (samples)
        gyre_dataset_close(&samples->set);
    free(samples);
}

uint64_t gyre_samples_count(const struct gyre_samples *samples)
{
    return samples ? samples->set.samples : 0;
}

uint64_t gyre_samples_features(const struct gyre_samples *samples)
{
    return samples ? samples->set.features : 0;
}

uint64_t gyre_samples_classes(const struct gyre_samples *samples)
{
    return samples ? samples->set.classes : 0;
}

/* Images of one channel have no dimension for it. */
void gyre_samples_image(const struct gyre_samples *samples, uint64_t *channels, uint64_t *height,
                        uint64_t *width)
{
    *channels = *height = *width = 0;
    if (!samples || samples->set.dims < 2 || samples->set.dims > 3)
        return;
    const uint64_t *last = samples->set.shape + samples->set.dims - 1;
    *width = last[0];
    *height = last[-1];
    *channels = samples->set.dims == 3 ? last[-2] : 1;
}

int gyre_samples_take(const struct gyre_samples *samples, const uint64_t *index, uint64_t count,
                      float *x, int64_t *labels)
{
    const uint64_t rows = gyre_samples_count(samples);
    if (count && (!index || !x || !labels))
        return gyre_refuse("gyre_samples_take: %llu rows, but an array is NULL",
                           (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (index[i] >= rows)
            return gyre_refuse("gyre_samples_take: row %llu of %llu", (unsigned long long)index[i],
                               (unsigned long long)rows);
    if (count)
        gyre_dataset_gather(&samples->set, index, count, x, labels);
    return 0;
}
