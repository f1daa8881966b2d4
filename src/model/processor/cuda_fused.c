/* Products with what follows them in one pass, by cuBLASLt, which comes with cuBLAS: a bias, a ReLU
 * that keeps a bit for each result, and the way back through such a ReLU with the sums of its
 * columns, which are the gradient of the bias before it.
 *
 *     forward     Y = relu(X Wᵀ + b)             bits of Y > 0 ──▶ mask
 *     backward    dX = (dY W) where mask has bits, else 0        columns of dX ──▶ gradient of b
 *
 * Everything is column-major, as in cuda_blas.c. A product's description, and the algorithm that
 * cuBLASLt proposes for it, are made at the first product of their shape. Where it proposes none,
 * or has no memory, products go the way without it.
 *
 * Tested by tests/kernel/processor.c. */
#include "model/processor/inside.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_MOST   1024
#define ALIGNED_MOST 256u

/* cublasLt.h, library_types.h */
enum { R_32F = 0, DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS = 8 };
enum { DESC_AUX = 11, DESC_AUX_LD = 12, PREFERENCE_WORKSPACE = 1 };
enum { PREFERENCE_ALIGNED = 5 }; /* of A; then B, C, D */
enum {
    EPILOGUE_BIAS = 4,
    EPILOGUE_RELU_AUX_BIAS = 2 | 4 | 128,
    EPILOGUE_DRELU_BGRAD = 8 | 16 | 128
};

struct proposal {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

typedef int desc_create_call(void **desc, int compute, int scale);
typedef int set_call(void *object, int attribute, const void *value, size_t bytes);
typedef int layout_create_call(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading);
typedef int create_call(void **object);
typedef int destroy_call(void *object);
typedef int propose_call(void *handle, void *desc, void *a, void *b, void *c, void *d,
                         void *preference, int most, struct proposal *proposal, int *found);
typedef int multiply_call(void *handle, void *desc, const void *alpha, const void *a,
                          void *a_layout, const void *b, void *b_layout, const void *beta,
                          const void *c, void *c_layout, void *d, void *d_layout,
                          const uint64_t *algorithm, void *workspace, size_t bytes, void *stream);

static const char *const names[] = {
    "cublasLtMatmulDescCreate",        "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulDescDestroy",       "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",     "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy", "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",  "cublasLtMatmul"};
enum { DESC_CREATE, DESC_SET, DESC_DESTROY, LAYOUT_CREATE, LAYOUT_DESTROY, PREFERENCE_CREATE };
enum { PREFERENCE_DESTROY = PREFERENCE_CREATE + 1, PREFERENCE_SET, PROPOSE, MULTIPLY, CALLS };

/* What a plan depends on, byte by byte: an algorithm may count on how memory is aligned. */
struct fused_shape {
    uint64_t form, precision, then, m, n, k, lda, ldb, ldc;
    uint32_t aligned_a, aligned_b, aligned_c, aligned_bias;
};

struct fused_plan {
    struct fused_shape shape;
    void *desc, *a, *b, *c;
    struct proposal proposal;
    bool works;
    struct fused_plan *next;
};

struct gyre_cuda_fused {
    void *handle; /* of cuBLAS, which cuBLASLt takes for its own */
    void *call[CALLS];
    void *workspace;
    size_t bytes;
    struct fused_plan *plans;
    int count;
};

/* -- plans ------------------------------------------------------------------------------------- */

static void free_plan(const struct gyre_cuda_fused *f, struct fused_plan *plan)
{
    destroy_call *desc = (destroy_call *)f->call[DESC_DESTROY],
                 *layout = (destroy_call *)f->call[LAYOUT_DESTROY];
    void *const layouts[] = {plan->a, plan->b, plan->c};
    if (plan->desc)
        desc(plan->desc);
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            layout(layouts[i]);
    free(plan);
}

static int set_attribute(const struct gyre_cuda_fused *f, const struct fused_plan *plan,
                         int attribute, const void *value, size_t bytes)
{
    return ((set_call *)f->call[DESC_SET])(plan->desc, attribute, value, bytes);
}

/* Where an epilogue finds what it reads and writes. */
static int point_at(const struct gyre_cuda_fused *f, const struct fused_plan *plan,
                    const struct gyre_epilogue *then)
{
    const void *bias = then->kind == GYRE_THEN_RELU_BACK ? then->bias_gradient : then->bias;
    int status = set_attribute(f, plan, DESC_BIAS, &bias, sizeof bias);
    if (!status && then->kind != GYRE_THEN_BIAS)
        status = set_attribute(f, plan, DESC_AUX, &then->mask, sizeof then->mask);
    return status;
}

static int describe_fused(const struct gyre_cuda_fused *f, struct fused_plan *plan,
                          const struct gyre_epilogue *then)
{
    static const uint32_t epilogue[] = {[GYRE_THEN_BIAS] = EPILOGUE_BIAS,
                                        [GYRE_THEN_BIAS_RELU] = EPILOGUE_RELU_AUX_BIAS,
                                        [GYRE_THEN_RELU_BACK] = EPILOGUE_DRELU_BGRAD};
    const struct fused_shape *s = &plan->shape;
    const int32_t transa = s->form == GYRE_DENSE_NT, transb = s->form == GYRE_DENSE_TN;
    const int64_t bits = (int64_t)gyre_mask_bits(s->n);
    int status = ((desc_create_call *)f->call[DESC_CREATE])(
        &plan->desc, gyre_cuda_blas_compute((enum gyre_precision)s->precision), R_32F);
    if (!status)
        status = set_attribute(f, plan, DESC_TRANSA, &transa, sizeof transa);
    if (!status)
        status = set_attribute(f, plan, DESC_TRANSB, &transb, sizeof transb);
    if (!status)
        status = set_attribute(f, plan, DESC_EPILOGUE, &epilogue[then->kind], sizeof *epilogue);
    if (!status && then->kind != GYRE_THEN_BIAS)
        status = set_attribute(f, plan, DESC_AUX_LD, &bits, sizeof bits);
    return status ? status : point_at(f, plan, then);
}

/* As they lie: columns of cuBLASLt are rows here, and its A is B. */
static int lay_out_fused(const struct gyre_cuda_fused *f, struct fused_plan *plan)
{
    layout_create_call *create = (layout_create_call *)f->call[LAYOUT_CREATE];
    const struct fused_shape *s = &plan->shape;
    const bool ta = s->form == GYRE_DENSE_NT, tb = s->form == GYRE_DENSE_TN;
    int status = create(&plan->a, R_32F, ta ? s->k : s->n, ta ? s->n : s->k, (int64_t)s->ldb);
    if (!status)
        status = create(&plan->b, R_32F, tb ? s->m : s->k, tb ? s->k : s->m, (int64_t)s->lda);
    return status ? status : create(&plan->c, R_32F, s->n, s->m, (int64_t)s->ldc);
}

/* Their A is B here. */
static int prefer(const struct gyre_cuda_fused *f, void *preference, const struct fused_shape *s)
{
    set_call *set = (set_call *)f->call[PREFERENCE_SET];
    const uint32_t aligned[] = {s->aligned_b, s->aligned_a, s->aligned_c, s->aligned_c};
    const uint64_t most = f->bytes;
    int status = set(preference, PREFERENCE_WORKSPACE, &most, sizeof most);
    for (int i = 0; !status && i < 4; i++)
        status = set(preference, PREFERENCE_ALIGNED + i, &aligned[i], sizeof *aligned);
    return status;
}

static int propose(const struct gyre_cuda_fused *f, struct fused_plan *plan)
{
    void *preference = NULL;
    int found = 0;
    int status = ((create_call *)f->call[PREFERENCE_CREATE])(&preference);
    if (status)
        return status;
    status = prefer(f, preference, &plan->shape);
    if (!status)
        status =
            ((propose_call *)f->call[PROPOSE])(f->handle, plan->desc, plan->a, plan->b, plan->c,
                                               plan->c, preference, 1, &plan->proposal, &found);
    ((destroy_call *)f->call[PREFERENCE_DESTROY])(preference);
    plan->works = !status && found > 0 && !plan->proposal.state;
    return status;
}

/* NULL: no memory, or there are too many. */
static struct fused_plan *fused_plan_of(struct gyre_cuda_fused *f, const struct fused_shape *shape,
                                        const struct gyre_epilogue *then)
{
    struct fused_plan *plan = f->plans;
    while (plan && memcmp(&plan->shape, shape, sizeof *shape) != 0)
        plan = plan->next;
    if (plan || f->count == PLANS_MOST || !(plan = calloc(1, sizeof *plan)))
        return plan;
    plan->shape = *shape;
    if (!describe_fused(f, plan, then) && !lay_out_fused(f, plan))
        (void)propose(f, plan);
    plan->next = f->plans;
    f->plans = plan;
    f->count++;
    return plan;
}

/* -- products ---------------------------------------------------------------------------------- */

/* In bytes, as far as anybody asks. */
static uint32_t aligned_to(const void *memory)
{
    const uintptr_t at = (uintptr_t)memory | ALIGNED_MOST;
    return (uint32_t)(at & -at);
}

static struct fused_shape fused_shape_of(const struct gyre_product *p,
                                         enum gyre_precision precision,
                                         const struct gyre_epilogue *then)
{
    const void *bias = then->kind == GYRE_THEN_RELU_BACK ? then->bias_gradient : then->bias;
    return (struct fused_shape){.form = p->form,
                                .precision = precision,
                                .then = then->kind,
                                .m = p->m,
                                .n = p->n,
                                .k = p->k,
                                .lda = p->lda,
                                .ldb = p->ldb,
                                .ldc = p->ldc,
                                .aligned_a = aligned_to(p->a),
                                .aligned_b = aligned_to(p->b),
                                .aligned_c = aligned_to(p->c),
                                .aligned_bias = aligned_to(bias)};
}

bool gyre_cuda_fused_takes(struct gyre_cuda_fused *f, const struct gyre_product *p,
                           enum gyre_precision precision, const struct gyre_epilogue *then)
{
    const struct fused_shape shape = fused_shape_of(p, precision, then);
    const struct fused_plan *plan = fused_plan_of(f, &shape, then);
    return plan && plan->works;
}

bool gyre_cuda_fused_multiply(struct gyre_cuda_fused *f, const struct gyre_product *p,
                              enum gyre_precision precision, const struct gyre_epilogue *then,
                              void *stream, int *status)
{
    const struct fused_shape shape = fused_shape_of(p, precision, then);
    const struct fused_plan *plan = fused_plan_of(f, &shape, then);
    if (!plan || !plan->works || point_at(f, plan, then))
        return false;
    int made = ((multiply_call *)f->call[MULTIPLY])(
        f->handle, plan->desc, &p->alpha, p->b, plan->a, p->a, plan->b, &p->beta, p->c, plan->c,
        p->c, plan->c, plan->proposal.algorithm, f->workspace, f->bytes, stream);
    if (made)
        gyre_log(GYRE_LOG_ERROR, "a product of %zu x %zu x %zu on a CUDA device: cuBLASLt says %d",
                 p->m, p->n, p->k, made);
    *status = made ? -EIO : 0;
    return true;
}

/* -- opened and closed ------------------------------------------------------------------------- */

struct gyre_cuda_fused *gyre_cuda_fused_open(void *blas, void *workspace, size_t bytes)
{
    struct gyre_cuda_fused *f = calloc(1, sizeof *f);
    bool all = f != NULL;
    for (int i = 0; f && i < CALLS; i++)
        all = (f->call[i] = gyre_cuda_blas_symbol(names[i])) && all;
    if (!all) {
        free(f);
        return NULL;
    }
    f->handle = blas;
    f->workspace = workspace;
    f->bytes = bytes;
    return f;
}

void gyre_cuda_fused_close(struct gyre_cuda_fused *f)
{
    for (struct fused_plan *next; f && f->plans; f->plans = next) {
        next = f->plans->next;
        free_plan(f, f->plans);
    }
    free(f);
}
