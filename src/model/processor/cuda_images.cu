/* Images and channels on a CUDA device: convolution's spreading, pooling, batch norm. The formulas
 * and their order are the CPU's (host_images.c, host_norm.c).
 *
 * A channel belongs to a block, which goes through the samples sixteen at a time. The sixteen
 * threads of a sample are the partial sums of the CPU's loops; one thread adds the samples up, in
 * their order:
 *
 *     thread x    0   1 … 15        place x, x + 16, x + 32 … of the sample's channel
 *     thread y    sample y, of sixteen
 *
 * Tested by tests/kernel/processor.c. */
#include "model/processor/cuda_launch.inc"

/* -- spreading --------------------------------------------------------------------------------- */

struct spread_out {
    struct gyre_window w;
    enum gyre_precision precision;
    float *to;
    const float *x;

    /* Element i of the samples' [terms][places]. */
    __device__ void element(uint64_t i) const
    {
        const uint64_t k = w.kernel, places = w.out_height * w.out_width,
                       terms = w.channels * k * k;
        const uint64_t place = i % places, term = i / places % terms, s = i / places / terms;
        const uint64_t row = place / w.out_width + term / k % k,
                       column = place % w.out_width + term % k;
        float value = 0;
        if (row >= w.padding && row < w.padding + w.height && column >= w.padding &&
            column < w.padding + w.width)
            value = x[((s * w.channels + term / (k * k)) * w.height + row - w.padding) * w.width +
                      column - w.padding];
        if (precision == GYRE_PRECISION_BF16)
            value = gyre_as_bf16(value);
        else if (precision == GYRE_PRECISION_F16)
            value = gyre_f32_of_f16(gyre_f16_of_f32(value));
        to[i] = value;
    }
};

static void spread(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                   enum gyre_precision precision, float *to, const float *x, float *)
{
    const uint64_t each = w->channels * w->kernel * w->kernel * w->out_height * w->out_width;
    for_each(on, spread_out{*w, precision, to, x}, samples * each);
}

struct gathered {
    struct gyre_window w;
    float *x;
    const float *from;

    /* Element i of the images: what each element of the kernel took from it. */
    __device__ void element(uint64_t i) const
    {
        const uint64_t k = w.kernel, places = w.out_height * w.out_width;
        const uint64_t column = i % w.width + w.padding, row = i / w.width % w.height + w.padding,
                       plane = i / w.width / w.height;
        const float *rows = from + plane * k * k * places;
        float sum = 0;
        for (uint64_t dy = 0; dy < k; dy++) {
            for (uint64_t dx = 0; dx < k; dx++, rows += places) {
                if (row >= dy && row - dy < w.out_height && column >= dx &&
                    column - dx < w.out_width)
                    sum += rows[(row - dy) * w.out_width + column - dx];
            }
        }
        x[i] = sum;
    }
};

static void gather(struct gyre_processor *on, const struct gyre_window *w, size_t samples, float *x,
                   const float *from, float *)
{
    for_each(on, gathered{*w, x, from}, samples * w->channels * w->height * w->width);
}

/* -- pooling ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ bool is_nan(float x)
{
    return (gyre_bits_of_f32(x) & 0x7fffffff) > 0x7f800000;
}

struct pooled {
    struct gyre_window w;
    float *y;
    uint32_t *where;
    const float *x;
    __device__ void element(uint64_t i) const
    {
        const uint64_t places = w.out_height * w.out_width, place = i % places;
        const float *plane = x + i / places * w.height * w.width;
        const uint64_t row = place / w.out_width * w.stride,
                       column = place % w.out_width * w.stride;
        uint64_t best = row * w.width + column;
        for (uint64_t dy = 0; dy < w.kernel; dy++) {
            for (uint64_t dx = 0; dx < w.kernel; dx++) {
                uint64_t at = (row + dy) * w.width + column + dx;
                if (plane[at] > plane[best] || (is_nan(plane[at]) && !is_nan(plane[best])))
                    best = at;
            }
        }
        where[i] = (uint32_t)best;
        y[i] = plane[best];
    }
};

static void pool(struct gyre_processor *on, const struct gyre_window *w, size_t samples, float *y,
                 uint32_t *where, const float *x)
{
    for_each(on, pooled{*w, y, where, x}, samples * w->channels * w->out_height * w->out_width);
}

struct pooled_back {
    struct gyre_window w;
    float *dx;
    const float *dy;
    const uint32_t *where;

    static __device__ __forceinline__ uint32_t first(uint32_t at, uint32_t kernel, uint32_t stride)
    {
        return at < kernel ? 0 : (at - kernel) / stride + 1;
    }

    /* Element i of the images gets the gradient of each square that it is the greatest of. A plane
     * has at most 2^32 - 1 places. */
    __device__ void element(uint64_t i) const
    {
        const uint32_t width = (uint32_t)w.width, size = width * (uint32_t)w.height,
                       kernel = (uint32_t)w.kernel, stride = (uint32_t)w.stride;
        const uint64_t plane = i / size, base = plane * w.out_height * w.out_width;
        const uint32_t at = (uint32_t)(i - plane * size), row = at / width, column = at % width;
        float sum = 0;
        for (uint32_t y = first(row, kernel, stride); y < w.out_height && y <= row / stride; y++) {
            for (uint32_t x = first(column, kernel, stride);
                 x < w.out_width && x <= column / stride; x++) {
                const uint64_t square = base + y * w.out_width + x;
                if (where[square] == at)
                    sum += dy[square];
            }
        }
        dx[i] = sum;
    }
};

static void pool_back(struct gyre_processor *on, const struct gyre_window *w, size_t samples,
                      float *dx, const float *dy, const uint32_t *where)
{
    for_each(on, pooled_back{*w, dx, dy, where}, samples * w->channels * w->height * w->width);
}

/* -- each channel ------------------------------------------------------------------------------ */

#define LANES   GYRE_OPS_LANES
#define SAMPLES 16 /* of a block at once */

/* An operation has `sums` sums: begin() gives what a channel's start with, add() adds an element to
 * a lane's, finish() gets a channel's. */
template <class Operation>
static __global__ void __launch_bounds__(LANES *SAMPLES)
    each_channel(const __grid_constant__ Operation operation)
{
    constexpr int sums = Operation::sums;
    __shared__ double lane[sums][SAMPLES][LANES];
    const struct gyre_planes planes = operation.planes;
    const uint32_t x = threadIdx.x, y = threadIdx.y;
    for (uint64_t c = blockIdx.x; c < planes.channels; c += gridDim.x) {
        double total[sums];
        UNROLLED
        for (int k = 0; k < sums; k++)
            total[k] = operation.begin(c);
        for (uint64_t first = 0; first < planes.samples; first += SAMPLES) {
            const uint64_t s = first + y, places = s < planes.samples ? planes.places : 0;
            double mine[sums] = {};
            for (uint64_t p = x; p < places; p += LANES)
                operation.add(mine, c, (s * planes.channels + c) * planes.places + p);
            UNROLLED
            for (int k = 0; k < sums; k++)
                lane[k][y][x] = mine[k];
            for (uint32_t half = LANES / 2; half > 0; half /= 2) {
                __syncthreads();
                UNROLLED
                for (int k = 0; k < sums; k++)
                    if (x < half)
                        lane[k][y][x] += lane[k][y][x + half];
            }
            __syncthreads();
            UNROLLED
            for (int k = 0; k < sums; k++)
                for (uint32_t i = 0; i < SAMPLES && first + i < planes.samples; i++)
                    total[k] += lane[k][i][0];
            __syncthreads();
        }
        if (x == 0 && y == 0)
            operation.finish(c, total);
    }
}

template <class Operation>
static void for_each_channel(struct gyre_processor *on, const Operation &operation)
{
    if (operation.planes.channels)
        launch<Operation>(on, (void (*)(Operation))each_channel<Operation>,
                          grid_of(on, operation.planes.channels), dim3(LANES, SAMPLES), operation);
}

/* -- a convolution's bias ---------------------------------------------------------------------- */

struct filled {
    float *y;
    const float *bias;
    struct gyre_planes planes;
    __device__ void element(uint64_t i) const
    {
        y[i] = bias[i / planes.places % planes.channels];
    }
};

static void fill_channels(struct gyre_processor *on, float *y, const float *bias,
                          struct gyre_planes planes)
{
    for_each(on, filled{y, bias, planes}, planes.samples * planes.channels * planes.places);
}

struct channel_summed {
    static constexpr int sums = 1;
    struct gyre_planes planes;
    float *to;
    const float *x;
    bool accumulate;
    __device__ double begin(uint64_t c) const
    {
        return accumulate ? (double)to[c] : 0;
    }
    __device__ void add(double *mine, uint64_t, uint64_t at) const
    {
        mine[0] += (double)x[at];
    }
    __device__ void finish(uint64_t c, const double *total) const
    {
        to[c] = (float)total[0];
    }
};

static void channel_sums(struct gyre_processor *on, float *sums, const float *x,
                         struct gyre_planes planes, bool accumulate)
{
    for_each_channel(on, channel_summed{planes, sums, x, accumulate});
}

/* -- batch norm -------------------------------------------------------------------------------- */

struct norm_sum {
    static constexpr int sums = 1;
    struct gyre_planes planes;
    double *to;
    const float *x;
    __device__ double begin(uint64_t) const
    {
        return 0;
    }
    __device__ void add(double *mine, uint64_t, uint64_t at) const
    {
        mine[0] += (double)x[at];
    }
    __device__ void finish(uint64_t c, const double *total) const
    {
        to[c] = total[0];
        if (c == 0)
            to[planes.channels] = (double)planes.samples;
    }
};

static void norm_sums(struct gyre_processor *on, const struct gyre_norm *norm, const float *x)
{
    for_each_channel(on, norm_sum{norm->planes, norm->sums, x});
}

struct norm_averaged {
    struct gyre_norm n;
    __device__ void element(uint64_t c) const
    {
        n.mean[c] = (float)(n.sums[c] / n.values);
    }
};

static void norm_mean(struct gyre_processor *on, const struct gyre_norm *norm)
{
    for_each(on, norm_averaged{*norm}, norm->planes.channels);
}

struct norm_squared {
    static constexpr int sums = 1;
    struct gyre_planes planes;
    double *to;
    const float *x, *mean;
    __device__ double begin(uint64_t) const
    {
        return 0;
    }
    __device__ void add(double *mine, uint64_t c, uint64_t at) const
    {
        const double d = (double)x[at] - (double)mean[c];
        mine[0] += d * d;
    }
    __device__ void finish(uint64_t c, const double *total) const
    {
        to[c] = total[0];
    }
};

static void norm_squares(struct gyre_processor *on, const struct gyre_norm *norm, const float *x)
{
    for_each_channel(on, norm_squared{norm->planes, norm->sums, x, norm->mean});
}

struct norm_varied {
    struct gyre_norm n;
    __device__ void element(uint64_t c) const
    {
        gyre_norm_variance_of(n.sums[c], n.values, n.mean[c], &n.inverse[c], &n.running_mean[c],
                              &n.running_variance[c]);
        if (c == 0)
            ++*n.batches;
    }
};

static void norm_variance(struct gyre_processor *on, const struct gyre_norm *norm)
{
    for_each(on, norm_varied{*norm}, norm->planes.channels);
}

struct norm_applied {
    struct gyre_norm n;
    bool train;
    float *y;
    const float *x;
    __device__ void element(uint64_t i) const
    {
        const uint64_t c = i / n.planes.places % n.planes.channels;
        const float about = train ? n.mean[c] : n.running_mean[c];
        const float inverse = train ? n.inverse[c] : gyre_norm_inverse(n.running_variance[c]);
        const float factor = inverse * n.weight[c], offset = n.bias[c] - about * factor;
        y[i] = (float)((double)x[i] * (double)factor + (double)offset);
    }
};

static uint64_t all_elements_of(const struct gyre_planes planes)
{
    return planes.samples * planes.channels * planes.places;
}

static void norm_apply(struct gyre_processor *on, const struct gyre_norm *norm, bool train,
                       float *y, const float *x)
{
    for_each(on, norm_applied{*norm, train, y, x}, all_elements_of(norm->planes));
}

struct norm_summed_back {
    static constexpr int sums = 2;
    struct gyre_planes planes;
    struct gyre_norm n;
    const float *x, *dy;
    float *weight, *bias;
    bool accumulate;
    __device__ double begin(uint64_t) const
    {
        return 0;
    }
    __device__ void add(double *mine, uint64_t c, uint64_t at) const
    {
        mine[0] += (double)dy[at];
        mine[1] += (double)dy[at] * ((double)x[at] - (double)n.mean[c]);
    }
    __device__ void finish(uint64_t c, const double *total) const
    {
        const double scaled = planes.samples ? total[1] * (double)n.inverse[c] : 0;
        n.sums[c] = total[0];
        n.sums[planes.channels + c] = total[1];
        weight[c] = (float)((accumulate ? (double)weight[c] : 0) + scaled);
        bias[c] = (float)((accumulate ? (double)bias[c] : 0) + total[0]);
    }
};

static void norm_back_sums(struct gyre_processor *on, const struct gyre_norm *norm, const float *x,
                           const float *dy, float *weight_gradient, float *bias_gradient,
                           bool accumulate)
{
    for_each_channel(on, norm_summed_back{norm->planes, *norm, x, dy, weight_gradient,
                                          bias_gradient, accumulate});
}

struct norm_applied_back {
    struct gyre_norm n;
    float *dx;
    const float *x, *dy;
    __device__ void element(uint64_t i) const
    {
        const uint64_t c = i / n.planes.places % n.planes.channels;
        const struct gyre_norm_line line = gyre_norm_line_of(
            n.inverse[c], n.weight[c], n.sums[c], n.sums[n.planes.channels + c], n.values);
        dx[i] = line.a * dy[i] + line.b * (x[i] - n.mean[c]) + line.c;
    }
};

static void norm_back(struct gyre_processor *on, const struct gyre_norm *norm, float *dx,
                      const float *x, const float *dy)
{
    for_each(on, norm_applied_back{*norm, dx, x, dy}, all_elements_of(norm->planes));
}

/* -- the table --------------------------------------------------------------------------------- */

extern "C" bool gyre_cuda_fill_images(struct gyre_processor_table *table)
{
    table->fill_channels = fill_channels;
    table->channel_sums = channel_sums;
    table->spread = spread;
    table->gather = gather;
    table->pool = pool;
    table->pool_back = pool_back;
    table->norm_sums = norm_sums;
    table->norm_mean = norm_mean;
    table->norm_squares = norm_squares;
    table->norm_variance = norm_variance;
    table->norm_apply = norm_apply;
    table->norm_back_sums = norm_back_sums;
    table->norm_back = norm_back;
    return true;
}

extern "C" void gyre_cuda_load_images(void)
{
    const struct gyre_planes one = {1, 1, 1};
    const struct gyre_window window = {1, 1, 1, 1, 1, 0, 1, 1};
    struct gyre_norm norm = {};
    norm.planes = one;
    fill_channels(NULL, NULL, NULL, one);
    channel_sums(NULL, NULL, NULL, one, false);
    spread(NULL, &window, 1, GYRE_PRECISION_F32, NULL, NULL, NULL);
    gather(NULL, &window, 1, NULL, NULL, NULL);
    pool(NULL, &window, 1, NULL, NULL, NULL);
    pool_back(NULL, &window, 1, NULL, NULL, NULL);
    norm_sums(NULL, &norm, NULL);
    norm_mean(NULL, &norm);
    norm_squares(NULL, &norm, NULL);
    norm_variance(NULL, &norm);
    norm_apply(NULL, &norm, false, NULL, NULL);
    norm_back_sums(NULL, &norm, NULL, NULL, NULL, NULL, false);
    norm_back(NULL, &norm, NULL, NULL, NULL);
}
