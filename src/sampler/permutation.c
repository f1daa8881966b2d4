/* Three shuffles. All draw from one MT19937. They differ in the end at which they begin and in the
 * way a draw becomes a number below a bound, so each gives another order for the same seed.
 *
 *     forward      i = 0 … n-2     swap i with i + u32 mod (n - i)
 *     inside out   i = 0 … n-1     entry i takes what stands at z = u64 mod (i + 1), and z takes i
 *     numpy        i = n-1 … 1     swap i with the first of (u & mask) that is at most i,
 *                                  where mask is i with all bits below its highest one set
 *
 * torch uses the first for every n up to version 2.5, and for n < 214,748,364 (2^32 / 20) since
 * then: beyond that bound the remainder of a 32-bit draw is visibly uneven. */
#include "sampler/permutation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

int gyre_permutation_init(struct gyre_permutation *order, uint64_t n, struct gyre_trouble *trouble)
{
    *order = (struct gyre_permutation){.n = n};
    if (n > UINT32_MAX)
        order->wide = calloc(n, sizeof *order->wide);
    else
        order->narrow = calloc(n ? n : 1, sizeof *order->narrow);
    if (!order->wide && !order->narrow)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for an order of %" PRIu64 " samples",
                                n);
    return 0;
}

void gyre_permutation_deinit(struct gyre_permutation *order)
{
    free(order->narrow);
    free(order->wide);
    *order = (struct gyre_permutation){0};
}

static void put_index(struct gyre_permutation *order, uint64_t i, uint64_t value)
{
    if (order->wide)
        order->wide[i] = value;
    else
        order->narrow[i] = (uint32_t)value;
}

static void swap_positions(struct gyre_permutation *order, uint64_t i, uint64_t j)
{
    uint64_t kept = gyre_permutation_at(order, i);
    put_index(order, i, gyre_permutation_at(order, j));
    put_index(order, j, kept);
}

static void put_in_order(struct gyre_permutation *order)
{
    for (uint64_t i = 0; i < order->n; i++)
        put_index(order, i, i);
}

void gyre_permutation_forward(struct gyre_permutation *order, struct gyre_mt19937 *mt)
{
    put_in_order(order);
    for (uint64_t i = 0; i + 1 < order->n; i++)
        swap_positions(order, i, i + gyre_mt19937_next32(mt) % (order->n - i));
}

void gyre_permutation_inside_out(struct gyre_permutation *order, struct gyre_mt19937 *mt)
{
    for (uint64_t i = 0; i < order->n; i++) {
        uint64_t z = gyre_mt19937_next64(mt) % (i + 1);
        put_index(order, i, z < i ? gyre_permutation_at(order, z) : i);
        put_index(order, z, i);
    }
}

bool gyre_permutation_is_inside_out(uint64_t n)
{
    return n >= UINT32_MAX / 20;
}

void gyre_permutation_randperm(struct gyre_permutation *order, struct gyre_mt19937 *mt)
{
    if (gyre_permutation_is_inside_out(order->n))
        gyre_permutation_inside_out(order, mt);
    else
        gyre_permutation_forward(order, mt);
}

static uint64_t draw_masked(struct gyre_mt19937 *mt, uint64_t most)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll(most), drawn;
    do
        drawn = (most > UINT32_MAX ? gyre_mt19937_next64(mt) : gyre_mt19937_next32(mt)) & mask;
    while (drawn > most);
    return drawn;
}

void gyre_permutation_numpy(struct gyre_permutation *order, struct gyre_mt19937 *mt)
{
    put_in_order(order);
    for (uint64_t i = order->n; i-- > 1;)
        swap_positions(order, i, draw_masked(mt, i));
}
