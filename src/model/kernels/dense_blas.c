/* OpenBLAS, loaded while the program runs: nothing has to be there when Gyre is built, and what it
 * reads from the environment while it is loaded can be set before. That is the only moment: version
 * 0.3.21 (Debian 12) takes CPUs that are younger than itself for a Haswell and leaves AVX-512
 * alone, and it starts a thread for every core. So OPENBLAS_CORETYPE and OPENBLAS_NUM_THREADS are
 * set where they are unset, and taken back afterwards: programs that this one starts see nothing.
 * With GYRE_REPRODUCIBLE it is one thread whatever is set: each cut of a product among threads
 * rounds in its own way, and `gyre run` gives a rank the more threads the fewer ranks there are.
 *
 * From 0.3.21 on it has kernels for small products, for AVX-512 only: of 800 shapes below 2^20
 * multiplications they take 1 / 2.5 of the time of Gyre's own in the geometric mean, 1 / 37 at
 * best, where most of a tile would be empty (Zen 5, one thread). With AVX2 the two are alike (1.1),
 * and small ones stay Gyre's, whose every element is summed in the same order whatever the number
 * of rows. With GYRE_REPRODUCIBLE, where any number of ranks is to be as one, they do so
 * everywhere. Large products are alike (1.01, 1.02). Tested by tests/kernel/dense.c. */
#include "base/env.h"
#include "model/kernels/dense_inside.h"
#include "model/kernels/ops_sets.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 }; /* cblas.h */

typedef void sgemm_call(int order, int transpose_a, int transpose_b, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                        float *c, int ldc);

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static sgemm_call *sgemm;
static const char *core = "";
static bool takes_small;

/* -- finding it -------------------------------------------------------------------------------- */

/* True if the variable has to be unset again. */
static bool lend(const char *name, const char *value, bool wanted)
{
    return wanted && !getenv(name) && setenv(name, value, 0) == 0;
}

static bool is_reproducible(void)
{
    int64_t reproducible = 0;
    return !gyre_env_int("GYRE_REPRODUCIBLE", 0, 1, &reproducible, NULL) && reproducible;
}

static void settle_threads(void *library)
{
    void (*set)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set && is_reproducible())
        set(1);
}

/* "OpenBLAS 0.3.21 …" */
static bool is_recent(void *library)
{
    char *(*config)(void) = (char *(*)(void))dlsym(library, "openblas_get_config");
    int major, minor, patch;
    if (!config || sscanf(config(), "OpenBLAS %d.%d.%d", &major, &minor, &patch) != 3)
        return false;
    return major > 0 || minor > 3 || (minor == 3 && patch >= 21);
}

static bool is_quick_at_small(void *library)
{
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    for (int i = 0; i < 3; i++)
        if (strcmp(core, wide[i]) == 0)
            return is_recent(library);
    return false;
}

static void look_for_blas(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    bool type = lend("OPENBLAS_CORETYPE", "SkylakeX", gyre_has_avx512());
    bool threads = lend("OPENBLAS_NUM_THREADS", "1", true);
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (type)
        unsetenv("OPENBLAS_CORETYPE");
    if (threads)
        unsetenv("OPENBLAS_NUM_THREADS");
    if (!library)
        return;
    sgemm = (sgemm_call *)dlsym(library, "cblas_sgemm");
    char *(*name)(void) = (char *(*)(void))dlsym(library, "openblas_get_corename");
    core = name ? name() : "of unknown kind";
    settle_threads(library);
    takes_small = is_quick_at_small(library) && !is_reproducible();
}

bool gyre_dense_blas_found(void)
{
    pthread_once(&looked, look_for_blas);
    return sgemm != NULL;
}

const char *gyre_dense_blas_core(void)
{
    return core;
}

/* -- using it ---------------------------------------------------------------------------------- */

bool gyre_dense_blas_takes_small(void)
{
    return takes_small;
}

bool gyre_dense_is_for_blas(const struct gyre_product *p, bool small)
{
    const size_t most = INT32_MAX;
    if (p->m > most || p->n > most || p->k > most || p->lda > most || p->ldb > most ||
        p->ldc > most)
        return false;
    const size_t volume = p->m * p->n * p->k;
    return small ? volume >= 512 : p->m * p->n >= 256 && volume >= (size_t)1 << 20;
}

bool gyre_dense_blas_pays(const struct gyre_product *product)
{
    return gyre_dense_is_for_blas(product, takes_small);
}

void gyre_dense_blas(const struct gyre_product *p)
{
    sgemm(ROW_MAJOR, p->form == GYRE_DENSE_TN ? TRANSPOSED : AS_IS,
          p->form == GYRE_DENSE_NT ? TRANSPOSED : AS_IS, (int)p->m, (int)p->n, (int)p->k, p->alpha,
          p->a, (int)p->lda, p->b, (int)p->ldb, p->beta, p->c, (int)p->ldc);
}
