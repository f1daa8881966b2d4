/* Products of matrices on a CUDA device, Gyre's own, where cuBLAS is not: a block has 64 x 64 of C,
 * a thread 4 x 4 of them, and 16 terms of the sums at a time lie in shared memory:
 *
 *             k ──▶ 16                   n ──▶ 64
 *          ┌────────┐ ┌──┐           ┌────┬────┬─ ─
 *     m    │  A     │ │  │ 64     B  │ 16 terms    │        threads 16 x 16, each 4 rows and
 *          │        │ │  │           └────┴────┴─ ─         4 columns, 16 apart
 *          └────────┘ └──┘
 *
 * Each element of C is summed over k in order, by fused multiply-adds, cut in blocks of 256: the
 * bits are those of the CPU's own product where that has fused multiply-adds (dense_inside.h). A
 * sum of products adds up the blocks of all of them, in order, as the CPU does: each block is then
 * a product of its own.
 * Tested by tests/kernel/processor.c. */
#include "model/processor/cuda_launch.inc"

#include <errno.h>

#define TILE    64
#define DEPTH   16 /* of a slice */
#define BLOCK_K GYRE_DENSE_BLOCK
#define EACH    4 /* rows and columns of a thread */
#define SIDE    (TILE / EACH)

/* Strides of an operand: from element to element along C, and along k. */
struct operand {
    const float *at;
    uint64_t along_c, along_k, sample;
};

struct multiplied {
    struct operand a, b;
    float *c;
    uint64_t m, n, k, ldc, c_step, count;
    uint64_t cuts, each_k; /* of k: so many products of so many terms, the last of the rest */
    float alpha, beta;
};

/* A slice of an operand: [term][place], zeros outside. Threads that follow each other read what
 * follows each other in memory. */
template <bool ALONG_K>
static __device__ __forceinline__ void load_slice(float (*to)[TILE], const struct operand &from,
                                                  const float *at, uint64_t first, uint64_t end,
                                                  uint64_t term, uint64_t terms)
{
    const uint32_t t = threadIdx.y * SIDE + threadIdx.x;
    UNROLLED
    for (uint32_t i = 0; i < TILE * DEPTH / THREADS; i++) {
        const uint32_t one = t + i * THREADS;
        const uint32_t p = ALONG_K ? one % DEPTH : one / TILE,
                       place = ALONG_K ? one / DEPTH : one % TILE;
        const bool inside = first + place < end && term + p < terms;
        to[p][place] = inside ? at[(first + place) * from.along_c + (term + p) * from.along_k] : 0;
    }
}

/* One slice more of the sums; its terms alone, since adding a zero may change a sign. */
static __device__ __forceinline__ void add_slice(float (*sum)[EACH], const float (*a)[TILE],
                                                 const float (*b)[TILE], uint32_t depth)
{
    for (uint32_t p = 0; p < depth; p++) {
        float row[EACH], column[EACH];
        UNROLLED
        for (int i = 0; i < EACH; i++) {
            row[i] = a[p][threadIdx.y + i * SIDE];
            column[i] = b[p][threadIdx.x + i * SIDE];
        }
        UNROLLED
        for (int i = 0; i < EACH; i++) {
            UNROLLED
            for (int j = 0; j < EACH; j++)
                sum[i][j] = fmaf(row[i], column[j], sum[i][j]);
        }
    }
}

/* C gets what it keeps of itself, and the sums of a block of k. */
static __device__ __forceinline__ void put_sums(const struct multiplied &given, float *c,
                                                float (*sum)[EACH], uint64_t row, uint64_t column,
                                                float beta)
{
    UNROLLED
    for (int i = 0; i < EACH; i++) {
        UNROLLED
        for (int j = 0; j < EACH; j++) {
            const uint64_t r = row + threadIdx.y + i * SIDE, l = column + threadIdx.x + j * SIDE;
            if (r < given.m && l < given.n) {
                float *at = c + r * given.ldc + l;
                float result = sum[i][j] * given.alpha;
                *at = beta != 0 ? result + *at * beta : result;
            }
            sum[i][j] = 0;
        }
    }
}

template <bool A_ALONG_K, bool B_ALONG_K>
static __global__ void __launch_bounds__(THREADS)
    multiply_kernel(const __grid_constant__ struct multiplied given)
{
    __shared__ float a[DEPTH][TILE], b[DEPTH][TILE];
    const uint64_t across = (given.n + TILE - 1) / TILE, down = (given.m + TILE - 1) / TILE;
    for (uint64_t tile = blockIdx.x; tile < across * down * given.count; tile += gridDim.x) {
        const uint64_t product = tile / (across * down), row = tile / across % down * TILE,
                       column = tile % across * TILE, s = product / given.cuts,
                       first = product % given.cuts * given.each_k,
                       k = given.k - first < given.each_k ? given.k - first : given.each_k;
        const float *from_a = given.a.at + s * given.a.sample + first * given.a.along_k,
                    *from_b = given.b.at + s * given.b.sample + first * given.b.along_k;
        float *c = given.c + product * given.c_step;
        float sum[EACH][EACH] = {};
        for (uint64_t term = 0; term < k; term += DEPTH) {
            const uint64_t left = k - term;
            load_slice<A_ALONG_K>(a, given.a, from_a, row, given.m, term, k);
            load_slice<B_ALONG_K>(b, given.b, from_b, column, given.n, term, k);
            __syncthreads();
            add_slice(sum, a, b, left < DEPTH ? (uint32_t)left : DEPTH);
            __syncthreads();
            if (left <= DEPTH || (term + DEPTH) % BLOCK_K == 0)
                put_sums(given, c, sum, row, column, term < BLOCK_K ? given.beta : 1);
        }
    }
}

/* Nothing is multiplied. */
struct scaled {
    float *c;
    uint64_t n, ldc;
    float beta;
    __device__ void element(uint64_t i) const
    {
        float *at = c + i / n * ldc + i % n;
        *at = beta == 0 ? 0 : beta * *at;
    }
};

static void post_product(struct gyre_processor *on, const struct gyre_product *p,
                         const struct multiplied &given)
{
    const uint64_t tiles =
        (given.m + TILE - 1) / TILE * ((given.n + TILE - 1) / TILE) * given.count;
    const dim3 grid = grid_of(on, tiles), block = dim3(SIDE, SIDE);
    if (p->form == GYRE_DENSE_NN)
        launch<struct multiplied>(on, (void (*)(struct multiplied))multiply_kernel<true, false>,
                                  grid, block, given);
    else if (p->form == GYRE_DENSE_NT)
        launch<struct multiplied>(on, (void (*)(struct multiplied))multiply_kernel<true, true>,
                                  grid, block, given);
    else
        launch<struct multiplied>(on, (void (*)(struct multiplied))multiply_kernel<false, false>,
                                  grid, block, given);
}

/* What a call on the queue came to, and the same call on the stream that records, if one does. */
struct outcome {
    int calls, status, recorded;

    void note(int found)
    {
        (calls++ ? recorded : status) = found;
    }

    void tell(struct gyre_cuda_processor *cuda) const
    {
        cuda->status = cuda->status ? cuda->status : status;
        cuda->unrecorded = cuda->unrecorded || recorded;
    }
};

/* A call of cuBLAS on the queue. */
struct blas_call {
    struct gyre_cuda_processor *cuda;
    const struct gyre_products *products;
    struct outcome outcome;

    static void begin(void *stream, const void *context)
    {
        struct blas_call *given = (struct blas_call *)context;
        given->outcome.note(gyre_cuda_blas_begin(&given->cuda->blas, stream));
    }

    static void multiply(void *stream, const void *context)
    {
        struct blas_call *given = (struct blas_call *)context;
        int status = gyre_cuda_blas_use(given->cuda, stream);
        given->outcome.note(status ? -EIO
                                   : gyre_cuda_blas_multiply(given->cuda->blas, given->products));
    }

    static void end(void *, const void *context)
    {
        gyre_cuda_blas_end(((const struct blas_call *)context)->cuda->blas);
    }
};

static bool multiply_by_blas(struct gyre_processor *on, const struct gyre_products *products)
{
    struct gyre_cuda_processor *cuda = (struct gyre_cuda_processor *)on;
    struct blas_call given = {cuda, products, {0, 0, 0}};
    if (!cuda->blas || !gyre_cuda_blas_takes(products))
        return false;
    gyre_cuda_post(on, blas_call::multiply, &given);
    given.outcome.tell(cuda);
    return true;
}

/* A product with k cut in `cuts` is as many products, whose Cs lie behind each other. */
static void multiply_by_tiles(struct gyre_processor *on, const struct gyre_products *products,
                              uint64_t cuts)
{
    const struct gyre_product *p = &products->first;
    struct multiplied given = {};
    given.a = operand{p->a, p->lda, 1, products->a_step};
    if (p->form == GYRE_DENSE_TN)
        given.a = operand{p->a, 1, p->lda, products->a_step};
    given.b = operand{p->b, 1, p->ldb, products->b_step};
    if (p->form == GYRE_DENSE_NT)
        given.b = operand{p->b, p->ldb, 1, products->b_step};
    given.c = p->c;
    given.m = p->m;
    given.n = p->n;
    given.k = p->k;
    given.ldc = p->ldc;
    given.c_step = products->c_step;
    given.count = products->count * cuts;
    given.cuts = cuts;
    given.each_k = cuts > 1 ? BLOCK_K : p->k;
    given.alpha = p->alpha;
    given.beta = p->beta;
    post_product(on, p, given);
}

static void multiply_each(struct gyre_processor *on, const struct gyre_products *products)
{
    if (!on || !multiply_by_blas(on, products))
        multiply_by_tiles(on, products, 1);
}

static void scale_each(struct gyre_processor *on, const struct gyre_products *products)
{
    const struct gyre_product *p = &products->first;
    const size_t count = products->c_step ? products->count : 1;
    for (size_t s = 0; s < count; s++)
        for_each(on, scaled{p->c + s * products->c_step, p->n, p->ldc, p->beta}, p->m * p->n);
}

/* The sum of products: each for itself, then down the columns of all of them. */
static void multiply_and_add(struct gyre_processor *on, const struct gyre_products *products)
{
    const struct gyre_product *p = &products->first;
    struct gyre_products apart = *products;
    uint64_t cuts = 1;
    apart.first.c = products->partials;
    apart.first.ldc = p->n;
    apart.first.beta = 0;
    apart.c_step = p->m * p->n;
    if (!multiply_by_blas(on, &apart)) {
        cuts = (p->k + BLOCK_K - 1) / BLOCK_K;
        multiply_by_tiles(on, &apart, cuts);
    }
    on->table->column_sums(on, p->c, products->partials, products->count * cuts, p->m * p->n,
                           p->beta != 0);
}

static void multiply_all(struct gyre_processor *on, const struct gyre_products *products)
{
    const struct gyre_product *p = &products->first;
    if (!products->count || !p->m || !p->n)
        return;
    if (!p->k || p->alpha == 0)
        scale_each(on, products);
    else if (products->count > 1 && !products->c_step)
        multiply_and_add(on, products);
    else
        multiply_each(on, products);
}

/* -- fused products ---------------------------------------------------------------------------- */

struct fused_call {
    struct gyre_cuda_processor *cuda;
    const struct gyre_product *product;
    enum gyre_precision precision;
    const struct gyre_epilogue *then;
    bool made;
    struct outcome outcome;

    static void multiply(void *stream, const void *context)
    {
        struct fused_call *given = (struct fused_call *)context;
        int status = 0;
        bool made = gyre_cuda_fused_multiply(given->cuda->fused, given->product, given->precision,
                                             given->then, stream, &status);
        if (!given->outcome.calls)
            given->made = made;
        given->outcome.note(status ? status : given->made != made);
    }
};

static bool post_fused(struct gyre_processor *on, const struct gyre_product *product,
                       enum gyre_precision precision, const struct gyre_epilogue *then)
{
    struct gyre_cuda_processor *cuda = (struct gyre_cuda_processor *)on;
    struct fused_call given = {cuda, product, precision, then, false, {0, 0, 0}};
    if (cuda->replaced) /* as it was when the step was recorded */
        given.made = gyre_cuda_fused_takes(cuda->fused, product, precision, then);
    gyre_cuda_post(on, fused_call::multiply, &given);
    given.outcome.tell(cuda);
    return given.made;
}

static bool multiply_then(struct gyre_processor *on, const struct gyre_product *p,
                          enum gyre_precision precision, const struct gyre_epilogue *then)
{
    const struct gyre_cuda_processor *cuda = (const struct gyre_cuda_processor *)on;
    return cuda->fused && p->m && p->n && p->k &&
           (then->kind == gyre_epilogue::GYRE_THEN_BIAS || cuda->keeps_nan) &&
           post_fused(on, p, precision, then);
}

extern "C" int gyre_cuda_open_products(struct gyre_cuda_processor *cuda,
                                       struct gyre_trouble *trouble)
{
    struct blas_call given = {cuda, NULL, {0, 0, 0}};
    bool wanted;
    int status = gyre_cuda_blas_wanted(&wanted, trouble);
    if (status || !wanted)
        return status;
    gyre_cuda_post(&cuda->base, blas_call::begin, &given);
    return gyre_cuda_blas_check(cuda->index, given.outcome.status, trouble);
}

/* Also behind a product that failed. */
extern "C" void gyre_cuda_close_products(struct gyre_cuda_processor *cuda)
{
    const struct blas_call given = {cuda, NULL, {0, 0, 0}};
    gyre_cuda_fused_close(cuda->fused);
    cuda->fused = NULL;
    if (cuda->blas)
        cuda->device->launch(cuda->queue, blas_call::end, &given);
    cuda->blas = NULL;
}

extern "C" bool gyre_cuda_fill_dense(struct gyre_processor_table *table)
{
    table->multiply = multiply_all;
    table->multiply_then = multiply_then;
    return true;
}

extern "C" void gyre_cuda_load_dense(void)
{
    struct gyre_products products = {};
    products.count = products.first.m = products.first.n = products.first.k = 1;
    products.first.alpha = 1;
    products.first.form = GYRE_DENSE_NN;
    multiply_all(NULL, &products);
    products.first.form = GYRE_DENSE_NT;
    multiply_all(NULL, &products);
    products.first.form = GYRE_DENSE_TN;
    multiply_all(NULL, &products);
    products.first.k = 0;
    multiply_all(NULL, &products);
}
