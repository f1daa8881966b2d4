/* Passes over gradients that a CUDA device holds, for the engine that reduces them: looks for NaN
 * and infinity, sums of squares, scaling, and halves as which they travel. Formulas, and the order
 * of sums, are those of ddp/numbers.c and ddp/wire.c, so that the bits are the CPU's.
 *
 *     elements   ├─ chunk of 4096 ─┼─ chunk ─┼─ … ─┤    8 partial sums each, a thread for each
 *     chunks     ├──── group of 256 ────┼─ … ─┤         a thread for each
 *     groups     ├──────── all ────────┤                one thread
 *
 * Tested by tests/kernel/processor.c. */
#include "model/processor/cuda_launch.inc"

/* -- elements ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ bool finite_float(float x)
{
    return (gyre_bits_of_f32(x) & 0x7f800000) != 0x7f800000;
}

struct rescaled {
    float *x;
    float factor;
    __device__ void element(uint64_t i) const
    {
        x[i] *= factor;
    }
};

static void scale(struct gyre_processor *on, float *x, size_t count, float factor)
{
    for_each(on, rescaled{x, factor}, count);
}

/* Whoever finds something writes the same. */
struct looked {
    const float *x;
    int32_t which;
    int32_t *bad;
    __device__ void element(uint64_t i) const
    {
        if (!finite_float(x[i]) && *bad < 0)
            *bad = which;
    }
};

static void look_for_bad(struct gyre_processor *on, const float *x, size_t count, int32_t which,
                         int32_t *bad)
{
    for_each(on, looked{x, which, bad}, count);
}

/* -- sums of squares --------------------------------------------------------------------------- */

#define LANES GYRE_SQUARES_LANES
#define CHUNK GYRE_SQUARES_CHUNK
#define GROUP GYRE_SQUARES_GROUP

/* Sum k of a chunk: elements k, k + 8 …; the first also has what is left at the end. */
struct lane_squared {
    const float *x;
    uint64_t count;
    double *lanes;
    __device__ void element(uint64_t i) const
    {
        const uint64_t first = i / LANES * CHUNK, left = count - first,
                       all = left < CHUNK ? left : CHUNK, whole = all - all % LANES;
        double sum = 0;
        for (uint64_t at = i % LANES; at < whole; at += LANES)
            sum += (double)x[first + at] * (double)x[first + at];
        for (uint64_t at = whole; i % LANES == 0 && at < all; at++)
            sum += (double)x[first + at] * (double)x[first + at];
        lanes[i] = sum;
    }
};

struct group_squared {
    const double *lanes;
    uint64_t chunks;
    double *groups;
    __device__ void element(uint64_t i) const
    {
        const uint64_t end = chunks - i * GROUP < GROUP ? chunks : (i + 1) * GROUP;
        double sum = 0;
        for (uint64_t c = i * GROUP; c < end; c++) {
            double chunk = lanes[c * LANES];
            for (int k = 1; k < LANES; k++)
                chunk += lanes[c * LANES + k];
            sum += chunk;
        }
        groups[i] = sum;
    }
};

struct all_squared {
    const double *groups;
    uint64_t count;
    double *sum;
    __device__ void element(uint64_t) const
    {
        double all = 0;
        for (uint64_t i = 0; i < count; i++)
            all += groups[i];
        *sum += all;
    }
};

static void add_squares(struct gyre_processor *on, const float *x, size_t count, double *partials,
                        double *sum)
{
    const uint64_t chunks = (count + CHUNK - 1) / CHUNK, groups = (chunks + GROUP - 1) / GROUP;
    double *of_groups = on ? partials + chunks * LANES : NULL;
    for_each(on, lane_squared{x, count, partials}, chunks * LANES);
    for_each(on, group_squared{partials, chunks, of_groups}, groups);
    for_each(on, all_squared{of_groups, groups, sum}, 1);
}

/* -- halves ------------------------------------------------------------------------------------ */

struct as_bf16 {
    static __device__ __forceinline__ uint16_t of_f32(float x)
    {
        return gyre_bf16_of_f32(x);
    }
    static __device__ __forceinline__ float to_f32(uint16_t x)
    {
        return gyre_f32_of_bf16(x);
    }
};

struct as_f16 {
    static __device__ __forceinline__ uint16_t of_f32(float x)
    {
        return gyre_f16_of_f32(x);
    }
    static __device__ __forceinline__ float to_f32(uint16_t x)
    {
        return gyre_f32_of_f16(x);
    }
};

/* What a half does not bring back is added to the next gradient. */
template <class Half> struct encoded {
    uint16_t *half;
    const float *gradient;
    float *feedback;
    float scale;
    __device__ void element(uint64_t i) const
    {
        if (!feedback) {
            half[i] = Half::of_f32(gradient[i] * scale);
            return;
        }
        const float sum = feedback[i] + gradient[i];
        half[i] = Half::of_f32(sum * scale);
        const float lost = sum - Half::to_f32(half[i]) / scale;
        feedback[i] = finite_float(lost) ? lost : 0;
    }
};

static void encode(struct gyre_processor *on, enum gyre_precision precision, uint16_t *half,
                   const float *gradient, float *feedback, size_t count, float scale)
{
    if (precision == GYRE_PRECISION_BF16)
        for_each(on, encoded<as_bf16>{half, gradient, feedback, scale}, count);
    else
        for_each(on, encoded<as_f16>{half, gradient, feedback, scale}, count);
}

template <class Half> struct decoded {
    float *gradient;
    const uint16_t *half;
    float scale;
    __device__ void element(uint64_t i) const
    {
        gradient[i] = Half::to_f32(half[i]) / scale;
    }
};

static void decode(struct gyre_processor *on, enum gyre_precision precision, float *gradient,
                   const uint16_t *half, size_t count, float scale)
{
    if (precision == GYRE_PRECISION_BF16)
        for_each(on, decoded<as_bf16>{gradient, half, scale}, count);
    else
        for_each(on, decoded<as_f16>{gradient, half, scale}, count);
}

/* -- the table --------------------------------------------------------------------------------- */

extern "C" bool gyre_cuda_fill_gradients(struct gyre_processor_table *table)
{
    table->scale = scale;
    table->look = look_for_bad;
    table->add_squares = add_squares;
    table->encode = encode;
    table->decode = decode;
    return true;
}

extern "C" void gyre_cuda_load_gradients(void)
{
    scale(NULL, NULL, 1, 1);
    look_for_bad(NULL, NULL, 1, 0, NULL);
    add_squares(NULL, NULL, 1, NULL, NULL);
    for (int precision = GYRE_PRECISION_BF16; precision <= GYRE_PRECISION_F16; precision++) {
        encode(NULL, (enum gyre_precision)precision, NULL, NULL, NULL, 1, 1);
        decode(NULL, (enum gyre_precision)precision, NULL, NULL, 1, 1);
    }
}
