/* See resident.h. Tested by tests/program/cuda/train.sh and tests/kernel/processor.c. */
#include "model/network/resident.h"

#include "base/env.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define AT_ONCE 1024 /* samples that are gathered on the host at a time */
#define SHARE   8    /* of the device's memory: the set may have one part in so many */

#define TEXT_OF(number) WORD_OF(number)
#define WORD_OF(word)   #word

/* Whether so many bytes may be there, as GYRE_RESIDENT or the device's memory says. */
static int fits_device(const struct gyre_resident *r, uint64_t samples, bool *room,
                       struct gyre_trouble *trouble)
{
    const uint64_t bytes = samples * r->features * sizeof(float);
    uint64_t asked = 0;
    int status = gyre_env_size("GYRE_RESIDENT", &asked, trouble);
    *room = bytes <= (asked ? asked : r->on->table->memory_bytes(r->on) / SHARE);
    if (!status && !*room)
        gyre_log(GYRE_LOG_INFO,
                 "batches come from the host: %" PRIu64 " samples are %" PRIu64
                 " MiB, more than %s of the device's memory",
                 samples, bytes >> 20, asked ? "GYRE_RESIDENT" : "one part in " TEXT_OF(SHARE));
    return status;
}

/* The device's memory for all of it, or none of it. */
static bool allocate_resident(struct gyre_resident *r, uint64_t samples)
{
    const uint64_t bytes = samples * r->features * sizeof(float);
    struct gyre_trouble unused = {0};
    r->all = gyre_processor_alloc(r->on, bytes, &unused, "all samples");
    r->rows = gyre_processor_alloc(r->on, r->batch * r->features * sizeof(float), &unused,
                                   "rows of a batch");
    r->index = gyre_processor_told(r->on, r->batch * sizeof *r->index);
    if (!r->index)
        r->index = gyre_processor_alloc(r->on, r->batch * sizeof *r->index, &unused,
                                        "the numbers of a batch");
    if (r->all && r->rows && r->index)
        return true;
    gyre_log(GYRE_LOG_INFO, "batches come from the host: %s", unused.text);
    gyre_resident_deinit(r);
    return false;
}

static int bring_all(const struct gyre_resident *r, const struct gyre_dataset *set,
                     struct gyre_trouble *trouble)
{
    const uint64_t row = r->features;
    float *x = calloc(AT_ONCE, row * sizeof *x);
    uint64_t index[AT_ONCE];
    int status = x ? 0 : gyre_trouble_set(trouble, -ENOMEM, "no memory to gather samples");
    for (uint64_t at = 0; !status && at < set->samples; at += AT_ONCE) {
        const uint64_t left = set->samples - at, count = left < AT_ONCE ? left : AT_ONCE;
        for (uint64_t i = 0; i < count; i++)
            index[i] = at + i;
        gyre_dataset_gather(set, index, count, x, NULL);
        status = r->on->table->put(r->on, r->all + at * row, x, count * row * sizeof *x, trouble);
    }
    free(x);
    return status;
}

int gyre_resident_init(struct gyre_resident *r, struct gyre_processor *on,
                       const struct gyre_dataset *set, uint64_t batch, struct gyre_trouble *trouble)
{
    *r = (struct gyre_resident){.on = on, .features = set->features, .batch = batch};
    bool room = false;
    int status =
        on->table->memory == GYRE_MEMORY_HOST ? 0 : fits_device(r, set->samples, &room, trouble);
    if (status || !room || !allocate_resident(r, set->samples))
        return status;
    status = bring_all(r, set, trouble);
    if (status)
        gyre_resident_deinit(r);
    else
        gyre_log(GYRE_LOG_INFO, "all %" PRIu64 " samples of %" PRIu64 " numbers are on the device",
                 set->samples, set->features);
    return status;
}

void gyre_resident_deinit(struct gyre_resident *r)
{
    if (r->on) {
        r->on->table->free(r->on, r->all);
        r->on->table->free(r->on, r->rows);
        r->on->table->free(r->on, r->index);
    }
    *r = (struct gyre_resident){0};
}

int gyre_resident_rows(struct gyre_resident *r, const uint64_t *index, uint64_t count,
                       const float **rows, struct gyre_trouble *trouble)
{
    int status = r->on->table->put(r->on, r->index, index, count * sizeof *index, trouble);
    if (!status)
        r->on->table->take_rows(r->on, r->rows, r->all, r->index, count, r->features);
    *rows = r->rows;
    return status;
}
