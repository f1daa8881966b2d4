/* Which hand a product goes to. Tested by tests/kernel/dense.c. */
#include "base/env.h"
#include "model/kernels/dense_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct gyre_dense {
    const struct gyre_tile *tile, *narrow;
    float *workspace;
    bool blas;
    char name[96];
};

enum { BLAS_AUTO, BLAS_OWN, BLAS_OPENBLAS };

static int choose_hand(struct gyre_dense *dense, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"auto", "own", "openblas"};
    int word = BLAS_AUTO;
    int status = gyre_env_word("GYRE_BLAS", words, 3, &word, trouble);
    if (status)
        return status;
    dense->blas = word != BLAS_OWN && gyre_dense_blas_found();
    if (word == BLAS_OPENBLAS && !dense->blas)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_BLAS is \"openblas\", but libopenblas.so.0 cannot be loaded: "
                                "install it (Debian: libopenblas0-pthread) or unset GYRE_BLAS");
    return 0;
}

int gyre_dense_create(struct gyre_dense **out, struct gyre_trouble *trouble)
{
    int status = -ENOMEM;
    struct gyre_dense *dense = calloc(1, sizeof *dense);
    if (!dense)
        goto fail;
    dense->tile = gyre_tile_best();
    dense->narrow = gyre_tile_narrow();
    dense->workspace = aligned_alloc(64, gyre_dense_own_floats() * sizeof(float));
    if (!dense->workspace)
        goto fail;
    status = choose_hand(dense, trouble);
    if (status)
        goto fail;
    if (dense->blas)
        snprintf(dense->name, sizeof dense->name, "OpenBLAS %s, own %s if %s",
                 gyre_dense_blas_core(), dense->tile->name,
                 gyre_dense_blas_takes_small() ? "tiny" : "small");
    else
        snprintf(dense->name, sizeof dense->name, "own %s", dense->tile->name);
    *out = dense;
    return 0;
fail:
    gyre_dense_destroy(dense);
    return gyre_trouble_set(trouble, status, "no memory for products of matrices");
}

void gyre_dense_destroy(struct gyre_dense *dense)
{
    if (!dense)
        return;
    free(dense->workspace);
    free(dense);
}

void gyre_dense_multiply(struct gyre_dense *dense, const struct gyre_product *product)
{
    const struct gyre_tile *tile =
        product->n <= dense->narrow->columns ? dense->narrow : dense->tile;
    if (dense->blas && gyre_dense_blas_pays(product))
        gyre_dense_blas(product);
    else
        gyre_dense_own(tile, dense->workspace, product);
}

const char *gyre_dense_name(const struct gyre_dense *dense)
{
    return dense->name;
}
