/* Products of matrices on a CUDA device by cuBLAS, which is loaded while the program runs: nothing
 * has to be there when Gyre is built. cuBLAS is column-major, so it is asked for the transposed C:
 *
 *     row-major     C[m][n] = A[m][k] B[k][n]         the same bytes, read by columns:
 *     column-major  Cᵀ[n][m] = Bᵀ[n][k] Aᵀ[k][m]      n x m of n x k and k x m
 *
 * Operands in half precision lie in memory as f32 that a half holds exactly. cuBLAS may then make
 * halves of them on the way, which loses nothing, and sums in f32. Tested by
 * tests/kernel/processor.c. */
#include "model/processor/inside.h"

#include "base/env.h"
#include "base/log.h"

#include <errno.h>

/* cublas_api.h, library_types.h */
enum { AS_IS = 0, TRANSPOSED = 1, R_32F = 0, DEFAULT_ALGORITHM = -1 };
enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_16F = 74, COMPUTE_32F_FAST_16BF = 75 };

typedef int create_call(void **handle);
typedef int destroy_call(void *handle);
typedef int stream_call(void *handle, void *stream);
typedef int workspace_call(void *handle, void *workspace, size_t bytes);
typedef int multiply_call(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                          const void *alpha, const void *a, int type_a, int lda, long long step_a,
                          const void *b, int type_b, int ldb, long long step_b, const void *beta,
                          void *c, int type_c, int ldc, long long step_c, int count, int compute,
                          int algorithm);

/* -- opening ----------------------------------------------------------------------------------- */

int gyre_cuda_blas_wanted(bool *wanted, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"auto", "own", "openblas"};
    int word = 0, status = gyre_env_word("GYRE_BLAS", words, 3, &word, trouble);
    *wanted = word != 1;
    return status;
}

int gyre_cuda_blas_begin(void **handle, void *stream)
{
    create_call *call = (create_call *)gyre_cuda_blas_symbol("cublasCreate_v2");
    stream_call *use = (stream_call *)gyre_cuda_blas_symbol("cublasSetStream_v2");
    if (!call || !use || !gyre_cuda_blas_symbol("cublasGemmStridedBatchedEx"))
        return 0;
    int status = call(handle);
    return status ? status : use(*handle, stream);
}

int gyre_cuda_blas_check(int device, int begun, struct gyre_trouble *trouble)
{
    if (!begun)
        return 0;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "cuBLAS is there and does not begin on CUDA device %d: its status is "
                            "%d; with GYRE_BLAS=own it is not asked",
                            device, begun);
}

/* A stream that cuBLAS is told takes its workspace away. One that is captured should not have
 * memory of the library's own. */
int gyre_cuda_blas_use(struct gyre_cuda_processor *cuda, void *stream)
{
    stream_call *use = (stream_call *)gyre_cuda_blas_symbol("cublasSetStream_v2");
    workspace_call *set = (workspace_call *)gyre_cuda_blas_symbol("cublasSetWorkspace_v2");
    if (stream == cuda->blas_stream)
        return 0;
    int status = use(cuda->blas, stream);
    if (!status && set && cuda->workspace)
        status = set(cuda->blas, cuda->workspace, cuda->workspace_bytes);
    cuda->blas_stream = status ? NULL : stream;
    return status;
}

void gyre_cuda_blas_end(void *handle)
{
    destroy_call *call = (destroy_call *)gyre_cuda_blas_symbol("cublasDestroy_v2");
    if (call)
        call(handle);
}

/* -- products ---------------------------------------------------------------------------------- */

int gyre_cuda_blas_compute(enum gyre_precision precision)
{
    static const int compute[] = {[GYRE_PRECISION_F32] = COMPUTE_32F,
                                  [GYRE_PRECISION_BF16] = COMPUTE_32F_FAST_16BF,
                                  [GYRE_PRECISION_F16] = COMPUTE_32F_FAST_16F};
    return compute[precision];
}

bool gyre_cuda_blas_takes(const struct gyre_products *all)
{
    const struct gyre_product *p = &all->first;
    const size_t most = INT32_MAX;
    return p->m <= most && p->n <= most && p->k <= most && p->lda <= most && p->ldb <= most &&
           p->ldc <= most && all->count <= most;
}

int gyre_cuda_blas_multiply(void *handle, const struct gyre_products *all)
{
    const struct gyre_product *p = &all->first;
    multiply_call *call = (multiply_call *)gyre_cuda_blas_symbol("cublasGemmStridedBatchedEx");
    int status =
        call(handle, p->form == GYRE_DENSE_NT ? TRANSPOSED : AS_IS,
             p->form == GYRE_DENSE_TN ? TRANSPOSED : AS_IS, (int)p->n, (int)p->m, (int)p->k,
             &p->alpha, p->b, R_32F, (int)p->ldb, (long long)all->b_step, p->a, R_32F, (int)p->lda,
             (long long)all->a_step, &p->beta, p->c, R_32F, (int)p->ldc, (long long)all->c_step,
             (int)all->count, gyre_cuda_blas_compute(all->precision), DEFAULT_ALGORITHM);
    if (!status)
        return 0;
    gyre_log(GYRE_LOG_ERROR, "a product of %zu x %zu x %zu on a CUDA device: cuBLAS says %d", p->m,
             p->n, p->k, status);
    return -EIO;
}
