/* Numbers of a tensor, read at any alignment: the smallest, the largest and the mean of those that
 * are finite, and how many are not. Tested by tests/program/cli/inspect.c. */
#include "cli/inspect/inside.h"

#include "base/bytes.h"
#include "base/small_floats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double f64_at(const uint8_t *data, uint64_t i)
{
    double value;
    memcpy(&value, data + 8 * i, sizeof value);
    return value;
}

static double f32_at(const uint8_t *data, uint64_t i)
{
    return gyre_f32_of_bits(gyre_get32(data + 4 * i));
}

static double f16_at(const uint8_t *data, uint64_t i)
{
    return gyre_f32_of_f16(gyre_get16(data + 2 * i));
}

static double bf16_at(const uint8_t *data, uint64_t i)
{
    return gyre_f32_of_bf16(gyre_get16(data + 2 * i));
}

static const struct {
    double (*at)(const uint8_t *data, uint64_t i);
    int digits; /* that tell every number of the type from the next */
} floats[GYRE_STORED_TYPES] = {
    [GYRE_STORED_F64] = {f64_at, 17},
    [GYRE_STORED_F32] = {f32_at, 9},
    [GYRE_STORED_F16] = {f16_at, 5},
    [GYRE_STORED_BF16] = {bf16_at, 4},
};

static void single_whole(const struct gyre_stored_tensor *tensor, char *text)
{
    const uint8_t *data = tensor->data;
    if (tensor->type == GYRE_STORED_I64)
        snprintf(text, GYRE_INSPECT_NUMBER, "%" PRId64, (int64_t)gyre_get64(data));
    else if (tensor->type == GYRE_STORED_U64)
        snprintf(text, GYRE_INSPECT_NUMBER, "%" PRIu64, gyre_get64(data));
    else if (tensor->type == GYRE_STORED_I32)
        snprintf(text, GYRE_INSPECT_NUMBER, "%" PRId32, (int32_t)gyre_get32(data));
    else if (tensor->type == GYRE_STORED_U32)
        snprintf(text, GYRE_INSPECT_NUMBER, "%" PRIu32, gyre_get32(data));
    else if (tensor->type == GYRE_STORED_U8 || tensor->type == GYRE_STORED_BOOL)
        snprintf(text, GYRE_INSPECT_NUMBER, "%u", (unsigned)*data);
}

static void print_values(struct gyre_inspect_values *values, double min, double max, double mean,
                         int digits)
{
    snprintf(values->min, sizeof values->min, "%.*g", digits, min);
    snprintf(values->max, sizeof values->max, "%.*g", digits, max);
    snprintf(values->mean, sizeof values->mean, "%.*g", digits == 6 ? 6 : 17, mean);
}

void gyre_inspect_values_of(const struct gyre_stored_tensor *tensor, bool exact,
                            struct gyre_inspect_values *values)
{
    double min = INFINITY, max = -INFINITY, sum = 0;
    uint64_t elements, bytes, finite = 0;
    *values = (struct gyre_inspect_values){.floats = floats[tensor->type].at != NULL};
    if (gyre_stored_size(tensor->type, tensor->shape, tensor->dims, &elements, &bytes))
        return;
    if (!values->floats && elements == 1) {
        single_whole(tensor, values->min);
        memcpy(values->max, values->min, sizeof values->max);
    }
    for (uint64_t i = 0; i < elements && values->floats; i++) {
        double value = floats[tensor->type].at(tensor->data, i);
        values->nan += isnan(value) != 0;
        values->inf += isinf(value) != 0;
        if (!isfinite(value))
            continue;
        min = value < min ? value : min;
        max = value > max ? value : max;
        sum += value;
        finite++;
    }
    if (finite)
        print_values(values, min, max, sum / (double)finite,
                     exact ? floats[tensor->type].digits : 6);
}
