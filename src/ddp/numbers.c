/* The engine's own passes over gradients. Each result is the same on every machine: sums run over
 * eight partial sums in a fixed order, and a power of two is exact. */
#include "base/half.h"
#include "ddp/parts.h"

#include <math.h>

/* A NaN or an infinity times zero is NaN, and a NaN stays. As many partial sums as keep additions from
 * waiting for each other. */
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

bool gyre_ddp_finite(const void *data, uint64_t elements, enum gyre_type type)
{
    return type == GYRE_F64 ? finite_f64(data, elements) : finite_f32(data, elements);
}

void gyre_ddp_scale(void *data, uint64_t elements, enum gyre_type type, double factor)
{
    float narrow = (float)factor, *f32 = data;
    double *f64 = data;
    for (uint64_t i = 0; type != GYRE_F64 && i < elements; i++)
        f32[i] *= narrow;
    for (uint64_t i = 0; type == GYRE_F64 && i < elements; i++)
        f64[i] *= factor;
}

#define SQUARES(name, type)                                                                        \
    static double name(const type *data, uint64_t elements)                                        \
    {                                                                                              \
        double part[8] = {0};                                                                      \
        uint64_t i = 0;                                                                            \
        for (; i + 8 <= elements; i += 8)                                                          \
            for (int k = 0; k < 8; k++)                                                            \
                part[k] += (double)data[i + (uint64_t)k] * (double)data[i + (uint64_t)k];          \
        for (; i < elements; i++)                                                                  \
            part[0] += (double)data[i] * (double)data[i];                                          \
        for (int k = 1; k < 8; k++)                                                                \
            part[0] += part[k];                                                                    \
        return part[0];                                                                            \
    }

SQUARES(squares_f32, float)
SQUARES(squares_f64, double)

double gyre_ddp_squares(const void *data, uint64_t elements, enum gyre_type type)
{
    return type == GYRE_F64 ? squares_f64(data, elements) : squares_f32(data, elements);
}

/* -- halves ------------------------------------------------------------------------------------ */

static inline uint16_t narrow(float value, enum gyre_ddp_wire wire)
{
    return wire == GYRE_DDP_WIRE_BF16 ? gyre_bf16_of_f32(value) : gyre_f16_of_f32(value);
}

static inline float widen(uint16_t half, enum gyre_ddp_wire wire)
{
    return wire == GYRE_DDP_WIRE_BF16 ? gyre_f32_of_bf16(half) : gyre_f32_of_f16(half);
}

void gyre_ddp_encode(const float *data, float *feedback, uint16_t *half, uint64_t elements,
                     enum gyre_ddp_wire wire, float scale)
{
    for (uint64_t i = 0; i < elements; i++) {
        float value = feedback ? data[i] + feedback[i] : data[i];
        half[i] = narrow(value * scale, wire);
        if (feedback) {
            float lost = value - widen(half[i], wire) / scale;
            feedback[i] = isfinite(lost) ? lost : 0;
        }
    }
}

void gyre_ddp_decode(const uint16_t *half, float *data, uint64_t elements, enum gyre_ddp_wire wire,
                     float scale)
{
    for (uint64_t i = 0; i < elements; i++)
        data[i] = widen(half[i], wire) / scale;
}
