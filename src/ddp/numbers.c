/* The engine's own passes over gradients. Each result is the same on every machine: sums run over
 * eight partial sums in a fixed order, and a power of two is exact. Tested by
 * tests/program/ddp/notes.c. */
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
