/* Tensors of a checkpoint by what is expected of them. What differs is told with both sides, as
 * "F32 [64,13]", so the text alone says which layer of which model was changed. Tested by
 * tests/unit/checkpoint/checkpoint_test.c. */
#include "checkpoint/inside.h"

#include "base/printable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORM_MAX 128

static const uint64_t no_shape[1];

/* "F32 [64,13]", cut where it is longer. */
static const char *form(const struct gyre_stored_tensor *tensor, char text[FORM_MAX])
{
    size_t used = (size_t)snprintf(text, FORM_MAX, "%s [", gyre_stored_type_name(tensor->type));
    for (uint32_t i = 0; i < tensor->dims && used < FORM_MAX - 32; i++)
        used += (size_t)snprintf(text + used, FORM_MAX - used, "%s%" PRIu64, i ? "," : "",
                                 tensor->shape[i]);
    snprintf(text + used, FORM_MAX - used, used < FORM_MAX - 32 ? "]" : ",...]");
    return text;
}

static bool same_form(const struct gyre_stored_tensor *a, const struct gyre_stored_tensor *b)
{
    return a->type == b->type && a->dims == b->dims &&
           (!a->dims || !memcmp(a->shape, b->shape, a->dims * sizeof *a->shape));
}

static int find_stored(const struct gyre_generation *checkpoint, enum gyre_generation_part part,
                       const struct gyre_stored_tensor *want,
                       const struct gyre_stored_tensor **found, struct gyre_trouble *trouble)
{
    char has[FORM_MAX], wants[FORM_MAX];
    *found = gyre_safetensors_find(gyre_generation_file(checkpoint, part), want->name);
    if (!*found)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the checkpoint of step %" PRIu64
                                " has no tensor \"%.200s\" in %s; expected is %s",
                                gyre_generation_step(checkpoint), want->name,
                                gyre_generation_file_name[part], form(want, wants));
    if (!same_form(*found, want))
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "tensor \"%.200s\" of %s: the checkpoint of step %" PRIu64 " has %s, expected is %s",
            want->name, gyre_generation_file_name[part], gyre_generation_step(checkpoint),
            form(*found, has), form(want, wants));
    return 0;
}

int gyre_generation_find(const struct gyre_generation *checkpoint, enum gyre_generation_part part,
                         const struct gyre_stored_tensor *want, const void **data,
                         struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *found;
    int status = find_stored(checkpoint, part, want, &found, trouble);
    if (!status)
        *data = found->data;
    return status;
}

/* -- the model --------------------------------------------------------------------------------- */

static bool in_list(const struct gyre_stored_list *list, const char *name)
{
    uint64_t i = 0;
    while (i < list->count && strcmp(list->tensor[i].name, name) != 0)
        i++;
    return i < list->count;
}

int gyre_generation_expect_model(const struct gyre_generation *checkpoint,
                                 const struct gyre_stored_list *model, struct gyre_trouble *trouble)
{
    const struct gyre_safetensors *file = gyre_generation_file(checkpoint, GYRE_GENERATION_MODEL);
    const struct gyre_stored_tensor *found;
    uint64_t count = gyre_safetensors_count(file);
    char text[FORM_MAX], shown[GYRE_STORED_SHOWN];
    for (uint64_t i = 0; i < model->count; i++) {
        int status =
            find_stored(checkpoint, GYRE_GENERATION_MODEL, &model->tensor[i], &found, trouble);
        if (status) {
            gyre_trouble_wrap(trouble, "another model");
            return status;
        }
    }
    for (uint64_t i = 0; i < count && count > model->count; i++) {
        found = gyre_safetensors_at(file, i);
        if (!in_list(model, found->name))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "another model: the checkpoint of step %" PRIu64
                                    " has tensor \"%s\", %s, which this model has not",
                                    gyre_generation_step(checkpoint),
                                    gyre_printable(shown, sizeof shown, found->name),
                                    form(found, text));
    }
    return 0;
}

/* -- single numbers ---------------------------------------------------------------------------- */

struct gyre_stored_tensor gyre_generation_whole(const char *name, const int64_t *value)
{
    return (struct gyre_stored_tensor){
        .name = name, .type = GYRE_STORED_I64, .shape = no_shape, .data = value, .bytes = 8};
}

struct gyre_stored_tensor gyre_generation_real(const char *name, const double *value)
{
    return (struct gyre_stored_tensor){
        .name = name, .type = GYRE_STORED_F64, .shape = no_shape, .data = value, .bytes = 8};
}

static int get(const struct gyre_generation *checkpoint, const struct gyre_stored_tensor *want,
               void *value, struct gyre_trouble *trouble)
{
    const void *data;
    int status = gyre_generation_find(checkpoint, GYRE_GENERATION_TRAINING, want, &data, trouble);
    if (!status)
        memcpy(value, data, 8);
    return status;
}

int gyre_generation_get_whole(const struct gyre_generation *checkpoint, const char *name,
                              int64_t *value, struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor want = gyre_generation_whole(name, NULL);
    return get(checkpoint, &want, value, trouble);
}

int gyre_generation_get_real(const struct gyre_generation *checkpoint, const char *name,
                             double *value, struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor want = gyre_generation_real(name, NULL);
    return get(checkpoint, &want, value, trouble);
}
