/* The own product: panels of A and B are copied into the order in which a tile reads them, and a
 * tile of C stays in registers while k goes by.
 *
 *            n ──▶                          for 1024 columns of n    (B's block: 1 MiB)
 *          ┌────┬────┬────┐                   for 256 of k             copy B's block
 *     k    │ B panels     │                     for 96 rows of m         copy A's block (96 KiB)
 *          └────┴────┴────┘                       for each panel of B
 *     A ┌──┐┌────┬────┬────┐                        for each panel of A
 *       ├──┤│tile│    │    │                          tile
 *     m ├──┤├────┼────┼────┤
 *       └──┘└────┴────┴────┘
 *
 * Short panels at the edges are filled up with zeros, and their tile goes through a small square
 * beside C. The order of sums is the same everywhere: over k from 0 up. Tested by
 * tests/kernel/dense.c. */
#include "base/size.h"
#include "model/kernels/dense_inside.h"
#include "model/kernels/ops_sets.h"

#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define BLOCK_M 96 /* a multiple of every tile's rows */
#define BLOCK_K GYRE_DENSE_BLOCK
#define BLOCK_N 1024 /* a multiple of every tile's columns */

size_t gyre_dense_own_floats(void)
{
    return (size_t)BLOCK_M * BLOCK_K + (size_t)BLOCK_N * BLOCK_K;
}

const struct gyre_tile *gyre_tile_number(int i)
{
    if (i == 0)
        return &gyre_tile_scalar;
#if defined(__x86_64__)
    if (i == 1 && gyre_has_avx2())
        return &gyre_tile_avx2;
    if (i == 2 && gyre_has_avx512())
        return &gyre_tile_avx512;
#endif
    return NULL;
}

const struct gyre_tile *gyre_tile_best(void)
{
    const struct gyre_tile *best = gyre_tile_number(0);
    for (int i = 1; i <= gyre_kernels_allowed() && gyre_tile_number(i); i++)
        best = gyre_tile_number(i);
    return best;
}

/* Half of a wide tile would be zeros there: with AVX-512 15 to 30 % of the time (64 x 16 x 64: 3.2
 * µs, 2.5 with the other tile; 100 x 10 x 500: 36 and 30). */
const struct gyre_tile *gyre_tile_narrow(void)
{
    bool wide = gyre_kernels_allowed() > 1 && gyre_tile_number(2);
    return wide ? gyre_tile_number(1) : gyre_tile_best();
}

/* -- panels ------------------------------------------------------------------------------------ */

static size_t least_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Panels are 4 to 32 floats wide: a call of memcpy() for each line would take longer than its work.
 * The last four may overlap those before. */
static inline void copy_run(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i + 4 <= count; i += 4)
        memcpy(to + i, from + i, 4 * sizeof *to);
    memcpy(to + count - 4, from + count - 4, 4 * sizeof *to);
}

/* `width` neighbours of `depth` lines: line p of the panel is line p of `from`. */
static void panel_along(float *to, const float *from, size_t ld, size_t depth, size_t width,
                        size_t full)
{
    if (width < full)
        memset(to, 0, depth * full * sizeof *to);
    for (size_t p = 0; p < depth; p++, to += full, from += ld) {
        if (width >= 4)
            copy_run(to, from, width);
        else
            for (size_t w = 0; w < width; w++)
                to[w] = from[w];
    }
}

/* Four lines of four, turned: to[p][w] = from[w][p]. */
static inline void transpose(float *to, size_t full, const float *from, size_t ld)
{
#if defined(__SSE__)
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + ld);
    __m128 c = _mm_loadu_ps(from + 2 * ld), d = _mm_loadu_ps(from + 3 * ld);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + full, b);
    _mm_storeu_ps(to + 2 * full, c);
    _mm_storeu_ps(to + 3 * full, d);
#else
    for (size_t p = 0; p < 4; p++)
        for (size_t w = 0; w < 4; w++)
            to[p * full + w] = from[w * ld + p];
#endif
}

/* The same where the panel's lines are the columns of `from`. */
static void panel_across(float *to, const float *from, size_t ld, size_t depth, size_t width,
                         size_t full)
{
    size_t w = 0, deep = depth - depth % 4;
    if (width < full)
        memset(to, 0, depth * full * sizeof *to);
    for (; w + 4 <= width; w += 4) {
        for (size_t p = 0; p < deep; p += 4)
            transpose(to + p * full + w, full, from + w * ld + p, ld);
        for (size_t p = deep; p < depth; p++)
            for (size_t i = 0; i < 4; i++)
                to[p * full + w + i] = from[(w + i) * ld + p];
    }
    for (; w < width; w++)
        for (size_t p = 0; p < depth; p++)
            to[p * full + w] = from[w * ld + p];
}

/* Panels of `full` lines each, one behind the other. `from` is the block's first element. */
static void pack_panel(float *to, const float *from, size_t ld, bool along, size_t depth,
                       size_t lines, size_t full)
{
    for (size_t at = 0; at < lines; at += full, to += depth * full) {
        size_t width = least_size(full, lines - at);
        if (along)
            panel_along(to, from + at, ld, depth, width, full);
        else
            panel_across(to, from + at * ld, ld, depth, width, full);
    }
}

/* -- tiles ------------------------------------------------------------------------------------- */

/* A tile that sticks out of C. */
static void multiply_edge(const struct gyre_tile *tile, size_t k, const float *a, const float *b,
                          float alpha, float beta, float *c, size_t ldc, size_t rows,
                          size_t columns)
{
    float square[GYRE_TILE_ROWS_MOST * GYRE_TILE_COLUMNS_MOST] __attribute__((aligned(64)));
    for (size_t r = 0; beta != 0 && r < tile->rows; r++)
        for (size_t j = 0; j < tile->columns; j++)
            square[r * tile->columns + j] = r < rows && j < columns ? c[r * ldc + j] : 0;
    tile->multiply(k, a, b, alpha, beta, square, tile->columns);
    for (size_t r = 0; r < rows; r++)
        memcpy(c + r * ldc, square + r * tile->columns, columns * sizeof *c);
}

static void multiply_block(const struct gyre_tile *tile, size_t m, size_t n, size_t k,
                           const float *a, const float *b, float alpha, float beta, float *c,
                           size_t ldc)
{
    for (size_t j = 0; j < n; j += tile->columns) {
        for (size_t i = 0; i < m; i += tile->rows) {
            size_t rows = least_size(tile->rows, m - i), columns = least_size(tile->columns, n - j);
            const float *panel_a = a + i * k, *panel_b = b + j * k;
            float *at = c + i * ldc + j;
            if (rows == tile->rows && columns == tile->columns)
                tile->multiply(k, panel_a, panel_b, alpha, beta, at, ldc);
            else
                multiply_edge(tile, k, panel_a, panel_b, alpha, beta, at, ldc, rows, columns);
        }
    }
}

/* -- all --------------------------------------------------------------------------------------- */

static void scale_only(const struct gyre_product *p)
{
    for (size_t r = 0; r < p->m; r++)
        for (size_t j = 0; j < p->n; j++)
            p->c[r * p->ldc + j] = p->beta == 0 ? 0 : p->beta * p->c[r * p->ldc + j];
}

/* Columns j to j + n and terms t to t + k of the sums, for all rows. */
static void multiply_slab(const struct gyre_tile *tile, float *workspace,
                          const struct gyre_product *p, size_t j, size_t n, size_t t, size_t k)
{
    float *block_a = workspace, *block_b = workspace + (size_t)BLOCK_M * BLOCK_K;
    const bool a_along = p->form == GYRE_DENSE_TN, b_along = p->form != GYRE_DENSE_NT;
    pack_panel(block_b, p->b + (b_along ? t * p->ldb + j : j * p->ldb + t), p->ldb, b_along, k, n,
               tile->columns);
    for (size_t i = 0; i < p->m; i += BLOCK_M) {
        size_t m = least_size(BLOCK_M, p->m - i);
        pack_panel(block_a, p->a + (a_along ? t * p->lda + i : i * p->lda + t), p->lda, a_along, k,
                   m, tile->rows);
        multiply_block(tile, m, n, k, block_a, block_b, p->alpha, t == 0 ? p->beta : 1,
                       p->c + i * p->ldc + j, p->ldc);
    }
}

void gyre_dense_own(const struct gyre_tile *tile, float *workspace, const struct gyre_product *p)
{
    if (p->k == 0 || p->alpha == 0)
        scale_only(p);
    else
        for (size_t j = 0; j < p->n; j += BLOCK_N)
            for (size_t t = 0; t < p->k; t += BLOCK_K)
                multiply_slab(tile, workspace, p, j, least_size(BLOCK_N, p->n - j), t,
                              least_size(BLOCK_K, p->k - t));
}
