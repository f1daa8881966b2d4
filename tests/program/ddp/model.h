/* The model of the DDP engine's tests: parameters of odd sizes and both types, with values that are
 * exact. */
#ifndef GYRE_TESTS_PROGRAM_DDP_MODEL_H
#define GYRE_TESTS_PROGRAM_DDP_MODEL_H

#include <gyre/ddp.h>

#include <stdlib.h>

#define PARAMETERS 7
#define MOST       20000

static const uint64_t shapes[PARAMETERS][2] = {{100, 50}, {1, 50}, {3, 7},   {20000, 1},
                                               {1, 1},    {64, 3}, {1000, 2}};
static const char *const names[PARAMETERS] = {"0.weight", "0.bias", "odd",        "large",
                                              "single",   "double", "last.weight"};

struct model {
    struct gyre_ddp_parameter parameter[PARAMETERS];
    double value[PARAMETERS][MOST]; /* of either type */
};

static inline uint64_t elements(int p)
{
    return shapes[p][0] * shapes[p][1];
}

static inline void set(void *at, enum gyre_type type, uint64_t i, double v)
{
    if (type == GYRE_F64)
        ((double *)at)[i] = v;
    else
        ((float *)at)[i] = (float)v;
}

static inline double get(const void *at, enum gyre_type type, uint64_t i)
{
    return type == GYRE_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* Every rank starts from values of its own: rank 0's must win. */
static inline struct model *model_new(int rank)
{
    struct model *m = calloc(1, sizeof *m);
    for (int p = 0; p < PARAMETERS; p++) {
        enum gyre_type type = p == 5 ? GYRE_F64 : GYRE_F32;
        m->parameter[p] = (struct gyre_ddp_parameter){.name = names[p],
                                                      .type = type,
                                                      .dimensions = 2,
                                                      .shape = {shapes[p][0], shapes[p][1]},
                                                      .value = m->value[p]};
        for (uint64_t i = 0; i < elements(p); i++)
            set(m->value[p], type, i, (double)(i % 100) + 1000 * rank);
    }
    return m;
}

#define OPTIONS(...)                                                                               \
    {                                                                                              \
        .size = sizeof(struct gyre_ddp_options), __VA_ARGS__                                       \
    }

#endif
