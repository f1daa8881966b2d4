/* The multilayer perceptron of PyTorch's nn.Sequential. A ReLU is part of the linear layer before
 * it, but keeps its place among the names: layers are 0, 2, 4 …. Tested by
 * tests/unit/model/nets/model_test.c. */
#include "base/env.h"
#include "model/nets/inside.h"

#include <stdio.h>
#include <string.h>

int gyre_mlp_create(struct gyre_model **out, const size_t *widths, int count,
                    const struct gyre_model_settings *settings, struct gyre_trouble *trouble)
{
    struct gyre_model *model;
    if (count < 2)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a model of %d widths: expected at least inputs and outputs",
                                count);
    int status = gyre_model_begin(&model, (struct gyre_volume){widths[0], 1, 1}, settings, trouble);
    if (status)
        return status;
    for (int i = 1; i < count && !status; i++) {
        struct gyre_layer layer = {.kind = &gyre_layer_linear, .outputs = widths[i]};
        layer.relu = i + 1 < count;
        snprintf(layer.name, sizeof layer.name, "%d", 2 * (i - 1));
        status = gyre_model_add(model, &layer, trouble);
    }
    return gyre_model_finish(model, status, out, trouble);
}

int gyre_mlp_parse(const char *name, const char *text, size_t *widths, int most, int *count,
                   struct gyre_trouble *trouble)
{
    int found = 0;
    for (const char *at = text; at; found++) {
        char part[32];
        int64_t width;
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (found == most)
            return gyre_trouble_set(trouble, GYRE_INVALID, "%s is \"%s\": at most %d widths", name,
                                    text, most);
        snprintf(part, sizeof part, "%.*s", length < 31 ? (int)length : 31, at);
        int status = gyre_parse_int(name, part, 1, (int64_t)GYRE_SIZE_MOST, &width, trouble);
        if (status)
            return status;
        widths[found] = (size_t)width;
        at = comma ? comma + 1 : NULL;
    }
    if (found < 2)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is \"%s\": expected inputs, hidden widths and outputs, such as "
                                "13,64,3",
                                name, text);
    *count = found;
    return 0;
}
