/* Gyre's sampler: which sample, in which order, for which rank.
 *
 * An epoch has an order: samples 0 … n-1 as they are, or shuffled as seed and epoch alone decide.
 * All ranks walk through it together. The cursor counts how many samples they have taken of it, all
 * ranks together. A step takes the next `span` samples; every rank gets its part of them:
 *
 *     struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
 *     options.samples = n, options.rank = rank, options.world = world;
 *     if (gyre_sampler_create(&sampler, &options)) { fputs(gyre_error(NULL), stderr); return 1; }
 *     for (uint64_t epoch = 0; epoch < epochs; epoch++) {
 *         gyre_sampler_begin(sampler, epoch, 0);
 *         while (gyre_sampler_left(sampler) > 0) {
 *             gyre_sampler_next(sampler, 32 * world, indices, 32, &count);
 *             train(indices, count);
 *         }
 *     }
 *     gyre_sampler_destroy(sampler);
 *
 * The defaults give the lists of torch's DistributedSampler, number by number: rank r gets entries
 * r, r + world, r + 2 world, … of the order, and a span of world · B is a batch of B on every rank.
 *
 * Going on. Epoch and cursor are the whole position. A sampler of as many samples and the same seed
 * that begins there, with any number of ranks, takes what was left, each sample once but for the
 * tail (below). Ranks agree without a word, for all call gyre_sampler_next() with the same spans.
 *
 * The comments of calls are as in gyre.h. No call blocks.
 */
#ifndef GYRE_SAMPLER_H
#define GYRE_SAMPLER_H

#include <gyre/gyre.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gyre_sampler; /* one rank's way through the epochs; opaque */

/* What becomes of the last samples where they do not divide by the number of ranks. */
enum gyre_tail {
    GYRE_TAIL_REPEAT = 0, /* all ranks get as many: the first of the order are given out again */
    GYRE_TAIL_DROP = 1,   /* all ranks get as many: the last of the order are left out */
    GYRE_TAIL_ONCE = 2    /* each sample is given out once: ranks differ by one at most */
};

/* Begin with GYRE_SAMPLER_OPTIONS_INIT (rank 0 of 1, shuffled by seed 0, GYRE_TAIL_REPEAT), set
 * `samples`, `rank` and `world`, and what else you need. */
struct gyre_sampler_options {
    size_t size;      /* sizeof(struct gyre_sampler_options): lets it grow without breaking you */
    uint64_t samples; /* n, 1 … 2^53 */
    uint64_t seed;    /* of the shuffle: the low 32 bits of seed + epoch count, as in torch */
    int rank;         /* 0 … world-1 */
    int world;        /* number of ranks, 1 … 2^20 */
    int shuffle;      /* 0: the order is 0 … n-1 */
    enum gyre_tail tail; /* what becomes of the last samples */

    /* With GYRE_TAIL_ONCE: a weight for each rank, which gets samples in proportion. The same on
     * all ranks. NULL: all are alike. */
    const double *shares;
    uint64_t step; /* the span within which shares hold: a rank then gets as many in each; 0: n */
};

#define GYRE_SAMPLER_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct gyre_sampler_options), 0, 0, 0, 1, 1, GYRE_TAIL_REPEAT, NULL, 0              \
    }

/* Makes a sampler that stands at the beginning of epoch 0. If it shuffles, it holds the order: 4
 * bytes per sample, 8 from 2^32 samples on. With shares, what does not divide goes to the ranks
 * with the largest remainders, of equal ones to the lower rank, and at every moment of an epoch
 * each rank has had about its share of what was given out.
 *   Ownership: the caller ends *sampler by gyre_sampler_destroy(); `shares` is copied. On failure
 *              *sampler is NULL.
 *   Errors:    GYRE_INVALID, -ENOMEM; gyre_error(NULL) names the value.
 *   Threads:   any thread. */
GYRE_API int gyre_sampler_create(struct gyre_sampler **sampler,
                                 const struct gyre_sampler_options *options);

/* Frees it; NULL is allowed.
 *   Threads:   one thread. */
GYRE_API void gyre_sampler_destroy(struct gyre_sampler *sampler);

/* Goes to a position: `cursor` samples of the epoch have been taken, all ranks together; 0 is the
 * beginning, n the end. With GYRE_TAIL_REPEAT and GYRE_TAIL_DROP it is the rest, from the cursor
 * on, that all ranks get as many of.
 *   Errors:    GYRE_INVALID (the cursor is beyond n): the position is as before.
 *   Threads:   one thread. */
GYRE_API int gyre_sampler_begin(struct gyre_sampler *sampler, uint64_t epoch, uint64_t cursor);

/* Takes the next `span` samples of the epoch, or all that are left, and writes this rank's part of
 * them to `indices`: *count samples, which may be 0. The first call of an epoch shuffles.
 *   Ownership: the caller owns `indices`, which has room for `room` of them.
 *   Errors:    GYRE_INVALID (a span of 0; too little room: then *count tells what is needed).
 *              Nothing is taken.
 *   Threads:   one thread. */
GYRE_API int gyre_sampler_next(struct gyre_sampler *sampler, uint64_t span, uint64_t *indices,
                               uint64_t room, uint64_t *count);

/* How many samples are left of this epoch, repeated ones included: for all ranks together, and for
 * this one.
 *   Returns:   0 at the end, and for NULL.
 *   Threads:   one thread. */
GYRE_API uint64_t gyre_sampler_left(const struct gyre_sampler *sampler);
GYRE_API uint64_t gyre_sampler_left_here(const struct gyre_sampler *sampler);

/* The position, as gyre_sampler_begin() takes it: equal on all ranks; repeated samples do not
 * count. Either pointer may be NULL.
 *   Threads:   one thread. */
GYRE_API void gyre_sampler_position(const struct gyre_sampler *sampler, uint64_t *epoch,
                                    uint64_t *cursor);

#ifdef __cplusplus
}
#endif

#endif
