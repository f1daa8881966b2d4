/* A stand-in for cuBLASLt, as far as Gyre asks it: one product of f32, column-major, and its
 * epilogue, computed on the host. It is there with FAKECUDA_CUBLASLT only. It is stricter than the
 * library: an algorithm serves memory only that is aligned as it was when it was proposed. */
#include "fake_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALISED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS = 8, AUX = 11, AUX_LD = 12 };
enum { WITH_BIAS = 4, WITH_RELU = 2 | 4 | 128, WITH_RELU_BACK = 8 | 16 | 128 };

struct desc {
    int compute;
    int32_t transa, transb;
    uint32_t epilogue;
    float *bias;
    uint32_t *mask;
    int64_t bits;
};

struct layout {
    uint64_t rows, columns;
    int64_t leading;
};

struct preference {
    uint64_t workspace;
    uint32_t aligned[4];
};

struct proposal {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

struct product {
    struct desc desc;
    uint64_t m, n, k;
    const float *a, *b;
    float *c;
    uint64_t lda, ldb, ldc;
    bool drops_nan;
};

static bool fails(const char *name)
{
    CUresult status = fake_begin(name, FAKE_CONTEXT);
    fake_end(status);
    return status != CUDA_SUCCESS;
}

/* What FAKECUDA_CUBLASLT says. */
static char kind(void)
{
    const char *there = getenv("FAKECUDA_CUBLASLT");
    return there ? *there : '0';
}

/* -- descriptions ------------------------------------------------------------------------------ */

static int create(const char *name, void **into, size_t bytes)
{
    *into = fails(name) ? NULL : calloc(1, bytes);
    return *into ? 0 : NOT_INITIALISED;
}

static int desc_create(void **into, int compute, int scale)
{
    int status = create("cublasLtMatmulDescCreate", into, sizeof(struct desc));
    if (!status)
        *(struct desc *)*into = (struct desc){.compute = compute, .epilogue = 1};
    return status ? status : scale ? INVALID_VALUE : 0;
}

static int desc_set(void *object, int attribute, const void *value, size_t bytes)
{
    struct desc *d = object;
    const struct {
        int attribute;
        void *at;
        size_t bytes;
    } known[] = {{TRANSA, &d->transa, 4}, {TRANSB, &d->transb, 4}, {EPILOGUE, &d->epilogue, 4},
                 {BIAS, &d->bias, 8},     {AUX, &d->mask, 8},      {AUX_LD, &d->bits, 8}};
    if (fails("cublasLtMatmulDescSetAttribute"))
        return NOT_INITIALISED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute && known[i].bytes == bytes) {
            memcpy(known[i].at, value, bytes);
            return 0;
        }
    return INVALID_VALUE;
}

static int layout_create(void **into, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    int status = create("cublasLtMatrixLayoutCreate", into, sizeof(struct layout));
    if (!status)
        *(struct layout *)*into = (struct layout){rows, columns, leading};
    return status ? status : type || leading < (int64_t)rows ? INVALID_VALUE : 0;
}

static int preference_create(void **into)
{
    return create("cublasLtMatmulPreferenceCreate", into, sizeof(struct preference));
}

static int preference_set(void *object, int attribute, const void *value, size_t bytes)
{
    struct preference *p = object;
    if (fails("cublasLtMatmulPreferenceSetAttribute"))
        return NOT_INITIALISED;
    if (attribute == 1 && bytes == 8)
        memcpy(&p->workspace, value, bytes);
    else if (attribute >= 5 && attribute <= 8 && bytes == 4)
        memcpy(&p->aligned[attribute - 5], value, bytes);
    else
        return INVALID_VALUE;
    return 0;
}

static int destroy(void *object)
{
    free(object);
    return 0;
}

/* -- products ---------------------------------------------------------------------------------- */

static uint64_t aligned_to(const void *memory)
{
    const uintptr_t at = (uintptr_t)memory | 256;
    return at & -at;
}

static bool is_valid(const struct desc *d, const struct layout *a, const struct layout *b,
                     const struct layout *c)
{
    const uint64_t k = d->transa ? a->rows : a->columns;
    const bool masked = d->epilogue == WITH_RELU || d->epilogue == WITH_RELU_BACK;
    return (d->transa ? a->columns : a->rows) == c->rows &&
           (d->transb ? b->rows : b->columns) == c->columns &&
           (d->transb ? b->columns : b->rows) == k && d->bias &&
           (masked || d->epilogue == WITH_BIAS) &&
           (!masked || (d->mask && aligned_to(d->mask) >= 16 && d->bits % 128 == 0 &&
                        d->bits >= (int64_t)c->rows));
}

static int propose(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                   int most, struct proposal *proposal, int *found)
{
    const struct preference *p = preference;
    *found = 0;
    if (fails("cublasLtMatmulAlgoGetHeuristic") || kind() == '3')
        return NOT_SUPPORTED;
    if (!handle || c != d || most != 1 || !is_valid(desc, a, b, c))
        return INVALID_VALUE;
    *proposal =
        (struct proposal){.algorithm = {p->aligned[0], p->aligned[1], p->aligned[2], p->aligned[3],
                                        aligned_to(((struct desc *)desc)->bias)}};
    *found = 1;
    return 0;
}

/* Element i of column j of the result. */
static float finish(const struct product *p, uint64_t i, uint64_t j, float sum)
{
    const struct desc *d = &p->desc;
    const uint64_t bit = j * (uint64_t)d->bits + i;
    uint32_t *mask = d->mask + bit / 32, one = 1u << bit % 32;
    if (d->epilogue == WITH_RELU_BACK) {
        sum = *mask & one ? sum : 0;
        d->bias[i] = (j ? d->bias[i] : 0) + sum;
        return sum;
    }
    sum += d->bias[i];
    if (d->epilogue == WITH_BIAS)
        return sum;
    *mask = sum > 0 ? *mask | one : *mask & ~one;
    return sum < 0 || (p->drops_nan && isnan(sum)) ? 0 : sum;
}

static void multiply_all(void **arguments)
{
    const struct product *p = arguments[0];
    const bool ta = p->desc.transa, tb = p->desc.transb;
    for (uint64_t j = 0; j < p->n; j++)
        for (uint64_t i = 0; i < p->m; i++) {
            float sum = 0;
            for (uint64_t l = 0; l < p->k; l++)
                sum += (ta ? p->a[i * p->lda + l] : p->a[l * p->lda + i]) *
                       (tb ? p->b[l * p->ldb + j] : p->b[j * p->ldb + l]);
            p->c[j * p->ldc + i] = finish(p, i, j, sum);
        }
}

static int multiply(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                    const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                    void *d, void *d_layout, const uint64_t *algorithm, void *workspace,
                    size_t bytes, void *stream)
{
    const struct desc *described = desc;
    const struct layout *la = a_layout, *lb = b_layout, *lc = c_layout;
    struct product p = {.desc = *described,
                        .m = lc->rows,
                        .n = lc->columns,
                        .k = described->transa ? la->rows : la->columns,
                        .a = a,
                        .b = b,
                        .c = d,
                        .lda = (uint64_t)la->leading,
                        .ldb = (uint64_t)lb->leading,
                        .ldc = (uint64_t)lc->leading,
                        .drops_nan = kind() == '2'};
    void *arguments[] = {&p};
    const size_t size = sizeof p;
    if (fails("cublasLtMatmul"))
        return EXECUTION_FAILED;
    if (!handle || *(const float *)alpha != 1 || *(const float *)beta != 0 || c != d ||
        c_layout != d_layout || !is_valid(desc, la, lb, lc) || (bytes && !workspace) ||
        aligned_to(a) < algorithm[0] || aligned_to(b) < algorithm[1] ||
        aligned_to(d) < algorithm[2] || aligned_to(described->bias) < algorithm[4])
        return INVALID_VALUE;
    fake_kernel_register((const void *)multiply_all, &size, 1);
    return cudaLaunchKernel((const void *)multiply_all, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments,
                            0, stream)
               ? EXECUTION_FAILED
               : 0;
}

void *fake_cublaslt_symbol(const char *name)
{
    static const struct {
        const char *name;
        void *call;
    } calls[] = {{"cublasLtMatmulDescCreate", (void *)desc_create},
                 {"cublasLtMatmulDescSetAttribute", (void *)desc_set},
                 {"cublasLtMatmulDescDestroy", (void *)destroy},
                 {"cublasLtMatrixLayoutCreate", (void *)layout_create},
                 {"cublasLtMatrixLayoutDestroy", (void *)destroy},
                 {"cublasLtMatmulPreferenceCreate", (void *)preference_create},
                 {"cublasLtMatmulPreferenceDestroy", (void *)destroy},
                 {"cublasLtMatmulPreferenceSetAttribute", (void *)preference_set},
                 {"cublasLtMatmulAlgoGetHeuristic", (void *)propose},
                 {"cublasLtMatmul", (void *)multiply}};
    for (size_t i = 0; kind() != '0' && i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call;
    return NULL;
}
