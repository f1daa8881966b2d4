/* Where cuBLAS is. A file of its own: tests link their own in front of it. Tested by
 * tests/kernel/processor.c. */
#include "model/processor/inside.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static void *library;

/* It stays, as the driver does. */
static void load_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    for (int i = 0; i < 3 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
}

void *gyre_cuda_blas_symbol(const char *name)
{
    pthread_once(&looked, load_cublas);
    return library ? dlsym(library, name) : NULL;
}
