/* The engine's own passes over gradients, on the host or, for f32, by the device that holds them.
 * Each result is the same on every machine and device: sums run over eight partial sums in a fixed
 * order (model/processor/processor.h), and a power of two is exact. Tested by
 * tests/program/ddp/notes.c and tests/kernel/processor.c. */
#include "ddp/inside.h"

/* Whether all elements are finite. A NaN or an infinity times zero is NaN, and a sum with a NaN is
 * NaN. There are enough partial sums that no addition waits for another. */
#define FINITE(name, type, LANES)                                                                  \
    static bool name(const type *data, uint64_t elements)                                          \
    {                                                                                              \
        type part[LANES] = {0};                                                                    \
        uint64_t i = 0;                                                                            \
        for (; i + LANES <= elements; i += LANES)                                                  \
            for (int k = 0; k < LANES; k++)                                                        \
                part[k] += data[i + (uint64_t)k] * 0;                                              \
        for (; i < elements; i++)                                                                  \
            part[0] += data[i] * 0;                                                                \
        for (int k = 1; k < LANES; k++)                                                            \
            part[0] += part[k];                                                                    \
        return part[0] == 0;                                                                       \
    }

FINITE(finite_f32, float, 32)
FINITE(finite_f64, double, 16)

void gyre_ddp_look(struct gyre_ddp *ddp, const void *data, uint64_t elements, enum gyre_type type,
                   int32_t which, int32_t *bad)
{
    struct gyre_processor *on = ddp->place.on;
    ddp->place.passing = ddp->place.looked = true;
    if (on)
        on->table->look(on, data, elements, which, &ddp->place.block->bad);
    else if (*bad == GYRE_BAD_NONE &&
             !(type == GYRE_F64 ? finite_f64(data, elements) : finite_f32(data, elements)))
        *bad = which;
}

void gyre_ddp_scale(struct gyre_ddp *ddp, void *data, uint64_t elements, enum gyre_type type,
                    double factor)
{
    struct gyre_processor *on = ddp->place.on;
    float narrow = (float)factor, *f32 = data;
    double *f64 = data;
    ddp->place.passing = true;
    if (on) {
        on->table->scale(on, data, elements, narrow);
        return;
    }
    for (uint64_t i = 0; type != GYRE_F64 && i < elements; i++)
        f32[i] *= narrow;
    for (uint64_t i = 0; type == GYRE_F64 && i < elements; i++)
        f64[i] *= factor;
}

/* -- sums of squares --------------------------------------------------------------------------- */

#define LANES GYRE_SQUARES_LANES

/* Of a chunk. */
#define SQUARES(name, type)                                                                        \
    static double name(const type *data, uint64_t elements)                                        \
    {                                                                                              \
        double part[LANES] = {0};                                                                  \
        uint64_t i = 0;                                                                            \
        for (; i + LANES <= elements; i += LANES)                                                  \
            for (int k = 0; k < LANES; k++)                                                        \
                part[k] += (double)data[i + (uint64_t)k] * (double)data[i + (uint64_t)k];          \
        for (; i < elements; i++)                                                                  \
            part[0] += (double)data[i] * (double)data[i];                                          \
        for (int k = 1; k < LANES; k++)                                                            \
            part[0] += part[k];                                                                    \
        return part[0];                                                                            \
    }

SQUARES(squares_f32, float)
SQUARES(squares_f64, double)

static double squares_of_group(const uint8_t *data, uint64_t elements, enum gyre_type type)
{
    double sum = 0;
    for (uint64_t at = 0; at < elements; at += GYRE_SQUARES_CHUNK) {
        uint64_t left = elements - at,
                 count = left < GYRE_SQUARES_CHUNK ? left : GYRE_SQUARES_CHUNK;
        sum += type == GYRE_F64 ? squares_f64((const double *)(const void *)data + at, count)
                                : squares_f32((const float *)(const void *)data + at, count);
    }
    return sum;
}

void gyre_ddp_add_squares(struct gyre_ddp *ddp, const void *data, uint64_t elements,
                          enum gyre_type type, double *sum)
{
    const uint64_t most = (uint64_t)GYRE_SQUARES_CHUNK * GYRE_SQUARES_GROUP;
    struct gyre_processor *on = ddp->place.on;
    double all = 0;
    ddp->place.passing = true;
    if (on) {
        on->table->add_squares(on, data, elements, ddp->place.partials, &ddp->place.block->squares);
        return;
    }
    for (uint64_t at = 0; at < elements; at += most)
        all += squares_of_group((const uint8_t *)data + at * gyre_type_size(type),
                                elements - at < most ? elements - at : most, type);
    *sum += all;
}

void gyre_ddp_add_own_squares(struct gyre_ddp *ddp, double *sum)
{
    for (uint32_t b = 0; b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        gyre_ddp_add_squares(ddp, gyre_ddp_own_gradient(ddp, bucket),
                             gyre_ddp_own_count(ddp, bucket), bucket->type, sum);
    }
}
