/* Safetensors with x and y. Tested by tests/unit/data/dataset_test.c. */
#include "data/safetensors/safetensors.h"
#include "data/sources/sources.h"

#include <stdlib.h>
#include <string.h>

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

/* Points *data to a tensor's bytes, or to a copy where they are not aligned in the file. */
static int aligned(struct gyre_dataset *set, const char *source,
                   const struct gyre_stored_tensor *tensor, size_t size, int slot,
                   const void **data, struct gyre_trouble *trouble)
{
    *data = tensor->data;
    if ((uintptr_t)tensor->data % size == 0)
        return 0;
    set->owned[slot] = malloc(tensor->bytes ? tensor->bytes : 1);
    if (!set->owned[slot])
        return gyre_source_no_memory(source, trouble);
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

int gyre_source_tensors(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                        struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *x, *y;
    int status = gyre_safetensors_open(&set->file, options->source, trouble);
    if (!status)
        status = find_tensor(set, options->source, "x", &x, trouble);
    if (!status)
        status = take_x(set, options->source, x, trouble);
    if (!status && options->may_lack_y && !gyre_safetensors_find(set->file, "y"))
        return 0;
    if (!status)
        status = find_tensor(set, options->source, "y", &y, trouble);
    return status ? status : take_y(set, options->source, y, options->targets, trouble);
}
