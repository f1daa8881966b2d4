/* Which model it is. Tested by tests/program/train/evaluate.c. */
#include "trained/trained.h"

#include <stdio.h>
#include <string.h>

#define LAYERS_MOST 256
#define HIDDEN      64 /* where nothing is asked for */

/* -- told -------------------------------------------------------------------------------------- */

static void add_width(struct gyre_architecture *a, uint64_t width)
{
    size_t length = strlen(a->layers);
    snprintf(a->layers + length, sizeof a->layers - length, "%s%llu", length ? "," : "",
             (unsigned long long)width);
}

/* The widths of 0.weight, 2.weight, …, as far as there are any. */
static void read_widths(struct gyre_architecture *a, const struct gyre_trained *trained)
{
    for (int i = 0; i < LAYERS_MOST; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.weight", 2 * i);
        const struct gyre_stored_tensor *found = gyre_safetensors_find(trained->model, name);
        if (!found || found->dims != 2)
            return;
        if (!i)
            add_width(a, found->shape[1]);
        add_width(a, found->shape[0]);
    }
}

int gyre_architecture_of(struct gyre_architecture *a, const struct gyre_trained *trained,
                         struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *last = gyre_safetensors_find(trained->model, "fc.weight");
    *a = (struct gyre_architecture){.kind = GYRE_MLP, .path = trained->path};
    if (gyre_safetensors_find(trained->model, "layer1.0.weight") && last && last->dims == 2) {
        a->kind = GYRE_CONVNET;
        a->outputs = last->shape[0];
        return 0;
    }
    read_widths(a, trained);
    if (*a->layers)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s: neither an mlp, whose first tensor is 0.weight, nor a convnet, "
                            "whose first is layer1.0.weight",
                            trained->path);
}

void gyre_architecture_default(struct gyre_architecture *a, const struct gyre_dataset *set)
{
    *a = (struct gyre_architecture){.kind = GYRE_MLP};
    add_width(a, set->features);
    add_width(a, HIDDEN);
    add_width(a, set->label ? set->classes : set->width);
}

const char *gyre_architecture_name(const struct gyre_architecture *a, char *text, size_t room)
{
    snprintf(text, room, "%s%s%s", gyre_model_names[a->kind], *a->layers ? " " : "", a->layers);
    return text;
}

/* -- made -------------------------------------------------------------------------------------- */

/* A layer of outputs that the labels or targets do not fit. Labels of a table that counts from 1
 * are the likeliest reason. */
static int refuse_outputs(const char *told, const char *layers, size_t outputs,
                          const struct gyre_dataset *set, struct gyre_trouble *trouble)
{
    unsigned long long wanted = set->label ? set->classes : set->width;
    int64_t least = set->label ? set->label[0] : 0, most = least;
    for (uint64_t i = 0; set->label && i < set->samples; i++) {
        least = set->label[i] < least ? set->label[i] : least;
        most = set->label[i] > most ? set->label[i] : most;
    }
    if (least > 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s%s ends in %zu; classes count from 0, but the labels of %s are "
                                "%lld to %lld: count them from 0, or end in %llu",
                                told, layers, outputs, set->source, (long long)least,
                                (long long)most, wanted);
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s%s ends in %zu; %s has %llu %s", told, layers,
                            outputs, set->source, wanted,
                            set->label ? "classes" : "targets for a sample");
}

static int make_mlp(const struct gyre_architecture *a, const struct gyre_dataset *set,
                    const struct gyre_model_settings *settings, struct gyre_model **model,
                    struct gyre_trouble *trouble)
{
    char told[160] = "--layers ";
    size_t widths[LAYERS_MOST];
    int count;
    uint64_t wanted = set->classes + set->width; /* one of them is 0 */
    int status = gyre_mlp_parse("--layers", a->layers, widths, LAYERS_MOST, &count, trouble);
    if (status)
        return status;
    if (a->path)
        snprintf(told, sizeof told, "%.140s: mlp ", a->path);
    if (widths[0] != set->features)
        return gyre_trouble_set(
            trouble, GYRE_INVALID, "%s%s begins with %zu; samples of %s have %llu numbers", told,
            a->layers, widths[0], set->source, (unsigned long long)set->features);
    if (set->target ? widths[count - 1] != wanted : widths[count - 1] < wanted)
        return refuse_outputs(told, a->layers, widths[count - 1], set, trouble);
    return gyre_mlp_create(model, widths, count, settings, trouble);
}

static int make_convnet(const struct gyre_architecture *a, const struct gyre_dataset *set,
                        const struct gyre_model_settings *settings, struct gyre_model **model,
                        struct gyre_trouble *trouble)
{
    if (set->dims < 2 || set->dims > 3)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--model convnet needs images; samples of %s have %u dimensions",
                                set->source, set->dims);
    struct gyre_volume image = {.channels = set->dims == 3 ? set->shape[0] : 1,
                                .height = set->shape[set->dims - 2],
                                .width = set->shape[set->dims - 1]};
    if (a->outputs && set->classes > a->outputs)
        return gyre_trouble_set(
            trouble, GYRE_INVALID, "%s: convnet with %llu outputs; %s has %llu classes", a->path,
            (unsigned long long)a->outputs, set->source, (unsigned long long)set->classes);
    return gyre_convnet_create(model, image, a->outputs ? a->outputs : set->classes, settings,
                               trouble);
}

int gyre_architecture_make(const struct gyre_architecture *a, const struct gyre_dataset *set,
                           const struct gyre_model_settings *settings, struct gyre_model **model,
                           struct gyre_trouble *trouble)
{
    return a->kind == GYRE_CONVNET ? make_convnet(a, set, settings, model, trouble)
                                   : make_mlp(a, set, settings, model, trouble);
}
