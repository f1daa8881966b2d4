/* Passes over elements and rows on a CUDA device: formulas of model/kernels/formulas.h, so that the
 * bits are those of the CPU (ops_loops.inc).
 *
 * A row of logits belongs to 16 threads, which are the 16 partial sums of the CPU's loops, and 16
 * rows to a block:
 *
 *     thread x    0   1 … 15        element x, x + 16, x + 32 … of the row
 *     thread y    row y, of the block's sixteen
 *
 * What a loss adds up is left as a term for each row. One block sums the terms, in one order.
 * Tested by tests/kernel/processor.c. */
#include "model/processor/cuda_launch.inc"

/* -- elements ---------------------------------------------------------------------------------- */

struct bias_added {
    float *y;
    const float *bias;
    uint64_t columns;
    bool relu;
    __device__ void element(uint64_t i) const
    {
        float sum = y[i] + bias[i % columns];
        y[i] = relu && sum < 0 ? 0 : sum;
    }
};

static void add_bias(struct gyre_processor *on, float *y, const float *bias, size_t rows,
                     size_t columns, bool relu)
{
    for_each(on, bias_added{y, bias, columns, relu}, rows * columns);
}

struct rectified {
    float *y;
    const float *x;
    __device__ void element(uint64_t i) const
    {
        y[i] = x[i] < 0 ? 0 : x[i];
    }
};

static void relu(struct gyre_processor *on, float *y, const float *x, size_t count)
{
    for_each(on, rectified{y, x}, count);
}

struct rectified_back {
    float *dx;
    const float *dy, *y;
    __device__ void element(uint64_t i) const
    {
        dx[i] = y[i] <= 0 ? 0 : dy[i];
    }
};

static void relu_back(struct gyre_processor *on, float *dx, const float *dy, const float *y,
                      size_t count)
{
    for_each(on, rectified_back{dx, dy, y}, count);
}

/* A column is a thread's, which goes down the rows. */
struct column_summed {
    float *sums;
    const float *x;
    uint64_t rows, columns;
    bool accumulate;
    __device__ void element(uint64_t c) const
    {
        float sum = accumulate ? sums[c] : 0;
        for (uint64_t r = 0; r < rows; r++)
            sum += x[r * columns + c];
        sums[c] = sum;
    }
};

static void column_sums(struct gyre_processor *on, float *sums, const float *x, size_t rows,
                        size_t columns, bool accumulate)
{
    for_each(on, column_summed{sums, x, rows, columns, accumulate}, columns);
}

struct rounded_bf16 {
    float *y;
    const float *x;
    __device__ void element(uint64_t i) const
    {
        y[i] = gyre_as_bf16(x[i]);
    }
};

struct rounded_f16 {
    float *y;
    const float *x;
    __device__ void element(uint64_t i) const
    {
        y[i] = gyre_f32_of_f16(gyre_f16_of_f32(x[i]));
    }
};

static void round_half(struct gyre_processor *on, enum gyre_precision precision, float *y,
                       const float *x, size_t count)
{
    if (precision == GYRE_PRECISION_BF16)
        for_each(on, rounded_bf16{y, x}, count);
    else
        for_each(on, rounded_f16{y, x}, count);
}

/* Words of memory; NULL: zeros. */
struct copied {
    uint32_t *to;
    const uint32_t *from;
    __device__ void element(uint64_t i) const
    {
        to[i] = from ? from[i] : 0;
    }
};

static void copy(struct gyre_processor *on, void *to, const void *from, size_t bytes)
{
    for_each(on, copied{(uint32_t *)to, (const uint32_t *)from}, bytes / sizeof(uint32_t));
}

struct row_taken {
    float *to;
    const float *from;
    const uint64_t *index;
    uint64_t width;
    __device__ void element(uint64_t i) const
    {
        to[i] = from[index[i / width] * width + i % width];
    }
};

static void take_rows(struct gyre_processor *on, float *to, const float *from,
                      const uint64_t *index, size_t rows, size_t width)
{
    for_each(on, row_taken{to, from, index, width}, rows * width);
}

static void zero(struct gyre_processor *on, void *to, size_t bytes)
{
    for_each(on, copied{(uint32_t *)to, NULL}, bytes / sizeof(uint32_t));
}

/* -- losses ------------------------------------------------------------------------------------ */

#define LANES GYRE_OPS_LANES
#define ROWS  16 /* of a block */

struct crossed {
    struct gyre_rows rows;
    const int64_t *labels;
};

/* Whether every output before the label is less, and none behind is more; of a lane's elements. */
static __device__ __forceinline__ bool lane_is_below(const float *row, uint64_t label,
                                                     uint64_t width, uint32_t lane)
{
    bool below = true;
    for (uint64_t i = lane; i < width; i += LANES)
        below = below && (i < label ? row[i] < row[label] : row[i] <= row[label]);
    return below;
}

static __global__ void __launch_bounds__(LANES *ROWS)
    cross_entropy_kernel(const __grid_constant__ struct crossed given)
{
    __shared__ float most[ROWS][LANES];
    __shared__ double sums[ROWS][LANES];
    __shared__ bool below[ROWS][LANES];
    const struct gyre_rows rows = given.rows;
    const uint32_t x = threadIdx.x, y = threadIdx.y;
    for (uint64_t first = (uint64_t)blockIdx.x * ROWS; first < rows.samples;
         first += (uint64_t)gridDim.x * ROWS) {
        const uint64_t s = first + y;
        const bool has = s < rows.samples;
        const float *row = rows.outputs + (has ? s : 0) * rows.width;
        float *gradient = rows.gradient + (has ? s : 0) * rows.width;
        const uint64_t label = has ? (uint64_t)given.labels[s] : 0, width = has ? rows.width : 0;
        float greatest = row[0];
        for (uint64_t i = x; i < width; i += LANES)
            greatest = greatest < row[i] ? row[i] : greatest;
        most[y][x] = greatest;
        below[y][x] = lane_is_below(row, label, width, x);
        __syncthreads();
        greatest = most[y][0];
        bool right = below[y][0];
        for (int l = 1; l < LANES; l++) {
            greatest = greatest < most[y][l] ? most[y][l] : greatest;
            right = right && below[y][l];
        }
        double sum = 0;
        for (uint64_t i = x; i < width; i += LANES) {
            gradient[i] = gyre_exponential(row[i] - greatest);
            sum += (double)gradient[i];
        }
        sums[y][x] = sum;
        for (uint32_t half = LANES / 2; half > 0; half /= 2) {
            __syncthreads();
            if (x < half)
                sums[y][x] += sums[y][x + half];
        }
        __syncthreads();
        const float all = rows.scale ? *rows.scale : rows.factor, total = (float)sums[y][0],
                    factor = all / total;
        for (uint64_t i = x; i < width; i += LANES)
            gradient[i] = gradient[i] * factor - (i == label ? all : 0);
        if (has && x == 0) {
            rows.terms[s] = log((double)total) - ((double)row[label] - (double)greatest);
            rows.terms[rows.samples + s] = right;
        }
        __syncthreads();
    }
}

struct distant {
    struct gyre_rows rows;
    const float *targets;
    __device__ void element(uint64_t s) const
    {
        const float all = rows.scale ? *rows.scale : rows.factor,
                    twice = (float)(2 * (double)all / (double)rows.width);
        double sum = 0;
        for (uint64_t i = s * rows.width; i < (s + 1) * rows.width; i++) {
            float distance = rows.outputs[i] - targets[i];
            sum += (double)distance * (double)distance;
            rows.gradient[i] = twice * distance;
        }
        rows.terms[s] = sum / (double)rows.width;
        rows.terms[rows.samples + s] = 0;
    }
};

struct tallied {
    const double *terms;
    uint64_t samples;
    struct gyre_tally *tally;
};

/* One block: thread t adds up terms t, t + 256 …, then halves are folded. */
static __global__ void __launch_bounds__(THREADS)
    tally_kernel(const __grid_constant__ struct tallied given)
{
    __shared__ double sums[THREADS], rights[THREADS];
    const uint32_t t = threadIdx.x;
    double sum = 0, right = 0;
    for (uint64_t s = t; s < given.samples; s += THREADS) {
        sum += given.terms[s];
        right += given.terms[given.samples + s];
    }
    sums[t] = sum;
    rights[t] = right;
    for (uint32_t half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
            rights[t] += rights[t + half];
        }
    }
    if (t == 0) {
        given.tally->sum += sums[0];
        given.tally->right += (uint64_t)rights[0];
    }
}

static void add_tally(struct gyre_processor *on, const struct gyre_rows *rows,
                      struct gyre_tally *tally)
{
    launch<struct tallied>(on, (void (*)(struct tallied))tally_kernel, dim3(1), dim3(THREADS),
                           tallied{rows->terms, rows->samples, tally});
}

static void cross_entropy(struct gyre_processor *on, const struct gyre_rows *rows,
                          const int64_t *labels, struct gyre_tally *tally)
{
    if (!rows->samples)
        return;
    launch<struct crossed>(on, (void (*)(struct crossed))cross_entropy_kernel,
                           grid_of(on, (rows->samples + ROWS - 1) / ROWS), dim3(LANES, ROWS),
                           crossed{*rows, labels});
    add_tally(on, rows, tally);
}

static void squared_error(struct gyre_processor *on, const struct gyre_rows *rows,
                          const float *targets, struct gyre_tally *tally)
{
    if (!rows->samples)
        return;
    for_each(on, distant{*rows, targets}, rows->samples);
    add_tally(on, rows, tally);
}

/* -- the table --------------------------------------------------------------------------------- */

extern "C" bool gyre_cuda_fill_elements(struct gyre_processor_table *table)
{
    table->add_bias = add_bias;
    table->relu = relu;
    table->relu_back = relu_back;
    table->column_sums = column_sums;
    table->round = round_half;
    table->copy = copy;
    table->zero = zero;
    table->take_rows = take_rows;
    table->cross_entropy = cross_entropy;
    table->squared_error = squared_error;
    return true;
}

extern "C" void gyre_cuda_load_elements(void)
{
    const struct gyre_rows rows = {NULL, NULL, 1, 1, 1, NULL, NULL};
    add_bias(NULL, NULL, NULL, 1, 1, false);
    relu(NULL, NULL, NULL, 1);
    relu_back(NULL, NULL, NULL, NULL, 1);
    column_sums(NULL, NULL, NULL, 1, 1, false);
    round_half(NULL, GYRE_PRECISION_BF16, NULL, NULL, 1);
    round_half(NULL, GYRE_PRECISION_F16, NULL, NULL, 1);
    zero(NULL, NULL, sizeof(uint32_t));
    take_rows(NULL, NULL, NULL, NULL, 1, 1);
    cross_entropy(NULL, &rows, NULL, NULL);
    squared_error(NULL, &rows, NULL, NULL);
}
