/* A stand-in for cuBLAS, as far as Gyre asks it: products of f32, column-major, each element summed
 * in order of k. It is there with FAKECUDA_CUBLAS=1 only. A product is a kernel on the handle's
 * stream. */
#include "fake_parts.h"

#include "model/processor/inside.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALISED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };

struct handle {
    cudaStream_t stream;
    void *workspace; /* NULL: the library's own, which no graph should have */
};

struct product {
    int transpose_a, transpose_b, m, n, k, count;
    float alpha, beta;
    const float *a, *b;
    float *c;
    long long lda, ldb, ldc, step_a, step_b, step_c;
};

static void multiply_one(const struct product *p, const float *a, const float *b, float *c)
{
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < p->m; i++) {
            float sum = 0, *at = &c[j * p->ldc + i];
            for (int l = 0; l < p->k; l++)
                sum += (p->transpose_a ? a[i * p->lda + l] : a[l * p->lda + i]) *
                       (p->transpose_b ? b[l * p->ldb + j] : b[j * p->ldb + l]);
            *at = p->alpha * sum + (p->beta != 0 ? p->beta * *at : 0);
        }
}

static void multiply_all(void **arguments)
{
    const struct product *p = arguments[0];
    for (int s = 0; s < p->count; s++)
        multiply_one(p, p->a + s * p->step_a, p->b + s * p->step_b, p->c + s * p->step_c);
}

static int create(void **into)
{
    struct handle *handle = calloc(1, sizeof *handle);
    size_t bytes = sizeof(struct product);
    CUresult status = fake_begin("cublasCreate_v2", FAKE_CONTEXT);
    fake_end(status);
    fake_kernel_register((const void *)multiply_all, &bytes, 1);
    if (status || !handle) {
        free(handle);
        return NOT_INITIALISED;
    }
    *into = handle;
    return 0;
}

static int destroy(void *handle)
{
    fake_end(fake_begin("cublasDestroy_v2", FAKE_CONTEXT));
    free(handle);
    return 0;
}

static int set_stream(void *handle, void *stream)
{
    *(struct handle *)handle = (struct handle){.stream = stream};
    return 0;
}

static int set_workspace(void *handle, void *workspace, size_t bytes)
{
    if ((uintptr_t)workspace % 256 || bytes < 1 << 20)
        return INVALID_VALUE;
    ((struct handle *)handle)->workspace = workspace;
    return 0;
}

static bool lacks_workspace(const struct handle *handle)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    return !handle->workspace && (cuStreamIsCapturing(handle->stream, &capture) || capture);
}

/* As the library checks them: a leading dimension is at least the rows that are stored. */
static bool is_valid(const struct product *p)
{
    return p->m >= 0 && p->n >= 0 && p->k >= 0 && p->count >= 0 && p->ldc >= p->m &&
           p->lda >= (p->transpose_a ? p->k : p->m) && p->ldb >= (p->transpose_b ? p->n : p->k);
}

static int multiply(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                    const void *alpha, const void *a, int type_a, int lda, long long step_a,
                    const void *b, int type_b, int ldb, long long step_b, const void *beta, void *c,
                    int type_c, int ldc, long long step_c, int count, int compute, int algorithm)
{
    struct product p = {transpose_a,
                        transpose_b,
                        m,
                        n,
                        k,
                        count,
                        *(const float *)alpha,
                        *(const float *)beta,
                        a,
                        b,
                        c,
                        lda,
                        ldb,
                        ldc,
                        step_a,
                        step_b,
                        step_c};
    void *arguments[] = {&p};
    CUresult status = fake_begin("cublasGemmStridedBatchedEx", FAKE_CONTEXT);
    fake_end(status);
    if (!is_valid(&p) || type_a || type_b || type_c || (compute != 68 && compute < 74) ||
        compute > 75 || algorithm != -1)
        return INVALID_VALUE;
    if (status || lacks_workspace(handle) ||
        cudaLaunchKernel((const void *)multiply_all, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
                         ((struct handle *)handle)->stream))
        return EXECUTION_FAILED;
    return 0;
}

void *gyre_cuda_blas_symbol(const char *name)
{
    static const struct {
        const char *name;
        void *call;
    } calls[] = {{"cublasCreate_v2", (void *)create},
                 {"cublasDestroy_v2", (void *)destroy},
                 {"cublasSetStream_v2", (void *)set_stream},
                 {"cublasSetWorkspace_v2", (void *)set_workspace},
                 {"cublasGemmStridedBatchedEx", (void *)multiply}};
    const char *there = getenv("FAKECUDA_CUBLAS");
    for (int i = 0; there && *there == '1' && i < 5; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call;
    return there && *there == '1' ? fake_cublaslt_symbol(name) : NULL;
}
