/* Gyre's engine for data-parallel training: every rank computes gradients of its own samples, and
 * all ranks get the gradient of all samples, reduced while the backward pass still runs.
 *
 *     struct gyre_ddp *ddp;
 *     gyre_ddp_create(&ddp, comm, parameter, parameters, NULL);
 *     for (;;) {
 *         gyre_ddp_begin(ddp, samples);               samples of this rank in this step, 0 too
 *         ... forward; backward writes gyre_ddp_gradient(ddp, i), then gyre_ddp_ready(ddp, i) ...
 *         gyre_ddp_wait(ddp);
 *         if (gyre_ddp_result(ddp)->done) break;        no rank has data any more
 *         ... value -= rate × gradient, for every parameter ...
 *     }
 *     gyre_ddp_destroy(ddp);
 *
 * The contract. A rank writes the gradient of the SUM of its samples' losses. After the wait the
 * gradient is the MEAN over all samples of all ranks, whatever each rank's share: a rank with fewer
 * samples, or none, needs no special mode, and nothing is to be undone by hand. (A rank that has a
 * gradient of a mean multiplies it, or its loss, by its number of samples first.)
 *
 * Gradients live in the engine's memory from the start, in buckets: parameters whose gradients are
 * ready one after the other lie side by side and travel together. Buckets are launched strictly in
 * their order on every rank. After the first step in which rank 0 has samples they are cut once
 * more, in the order in which its gradients became ready; so addresses from gyre_ddp_gradient()
 * (and, of a sharded engine, gyre_ddp_value()) may change in that gyre_ddp_wait(), and never again.
 *
 * On a device. Values may be the memory of the communicator's CUDA device, all of them and of
 * GYRE_F32. Then gradients, values and feedback are its memory, which the host may not touch, and
 * are reduced there. gyre_ddp_options.stream says on which stream gradients are written: a gradient
 * is ready when what is on the stream at gyre_ddp_ready() has ended, and buckets are reduced beside
 * the stream while the host and the stream go on. gyre_ddp_wait() waits for both, so that whatever
 * comes later finds gradients as they shall be; its `waited_ns` begins when the stream has come so
 * far. gyre_ddp_clip(), gyre_ddp_gather() and gyre_ddp_compare() also wait for the stream first.
 * Without a stream nothing may be under way on these memories when the engine is called. Not yet on
 * a device: hooks. Tried on a stand-in for CUDA only.
 *
 * Calls return GYRE_OK or a negative status; gyre_error() of the communicator tells the story, and
 * gyre_error(NULL) that of a device that fails. A failure of one rank is a failure of all: none is
 * left waiting. Every rank makes every call, but for those marked "not collective". All are for one
 * thread.
 */
#ifndef GYRE_DDP_H
#define GYRE_DDP_H

#include <gyre/gyre.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- making an engine -------------------------------------------------------------------------- */

struct gyre_ddp; /* opaque */

#define GYRE_DDP_DIMENSIONS 8

/* What is trained. Names and shapes must be equal on all ranks. */
struct gyre_ddp_parameter {
    const char *name;    /* copied; unique */
    enum gyre_type type; /* GYRE_F32 or GYRE_F64 */
    int dimensions;      /* 0: a single number */
    uint64_t shape[GYRE_DDP_DIMENSIONS];
    void *value; /* the caller's, of host or device; rank 0's reach all ranks; gyre_ddp_value() */
};

/* What belongs to the model, is not trained and shall be equal at the start: running means and the
 * like. Given as parameters are, of any type. */
struct gyre_ddp_buffers {
    const struct gyre_ddp_parameter *buffer;
    int count;
};

enum gyre_ddp_mean {
    GYRE_DDP_MEAN_OF_SAMPLES = 0, /* the mean over all samples of the global batch */
    GYRE_DDP_MEAN_OF_RANKS = 1    /* the mean of the means of the ranks that had samples */
};

enum gyre_ddp_wire { /* in what gradients of GYRE_F32 travel */
                     GYRE_DDP_WIRE_AS_IS = 0,
                     GYRE_DDP_WIRE_BF16 = 1,
                     GYRE_DDP_WIRE_F16 = 2
};

/* Gradients of GYRE_F32 of one bucket, or a part of them. */
struct gyre_ddp_parcel {
    uint64_t step; /* from 1, as gyre_ddp_result() counts */
    int bucket;
    uint64_t first, count; /* gradients first … first + count - 1 of the bucket */
    double scale;          /* a power of two near 1 / samples of all ranks, in the step before */
};

/* Another way to travel, of the caller's: gradients are encoded as elements of `type`, which are
 * reduced over ranks, and what comes of that is decoded into the sum of all ranks' gradients.
 *
 * A gradient comes as its rank wrote it, a sum over samples: times the scale it has about the size
 * of a mean, and may overflow less. With feedback (unless `no_feedback`) a rank also decodes its
 * own elements, and adds what they do not bring back to its gradients of the next step. As with
 * `wire` nothing is encoded before the end of the first step with samples, nor by one rank alone.
 *
 * Both functions are called on the thread that is in gyre_ddp_ready() or gyre_ddp_wait(), bucket by
 * bucket, in the same order on every rank; both pointers are at the parcel's first gradient and its
 * element. They cannot fail, and must not call Gyre. Without `length` a parcel may be any part of a
 * bucket; with it, it is the whole. */
struct gyre_ddp_hook {
    const char *name; /* copied, and compared over ranks */
    enum gyre_type type;
    enum gyre_op
        op; /* GYRE_SUM, or another that suits the type and what the functions make of it */
    void (*encode)(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                   void *context);
    void (*decode)(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                   void *context);
    uint64_t (*length)(uint64_t gradients, void *context); /* how many elements they become, no
                                                              more than they are; NULL: as many,
                                                              which a sharded engine wants */
    void *context;
};

/* Where gradients are looked at for NaN and infinity before they travel. To look at all is 1 to
 * 2.5 % of a step that only computes (784-500-10 by 100, 8 layers of 1024 by 64). */
enum gyre_ddp_look {
    GYRE_DDP_LOOK_SMALL = 0, /* in parameters of up to 16,384 elements, biases among them */
    GYRE_DDP_LOOK_ALL = 1,
    GYRE_DDP_LOOK_NONE = 2
};

/* Zero the struct (or use GYRE_DDP_OPTIONS_INIT), set `size`, and only what you need. Must be equal
 * on all ranks. */
struct gyre_ddp_options {
    size_t size;             /* sizeof(struct gyre_ddp_options) */
    uint64_t first_bucket;   /* bytes that close the first bucket; 0: from the cost model */
    uint64_t bucket_cap;     /* bytes that close every other; 0: from the cost model */
    enum gyre_ddp_mean mean; /* what the gradient is after the wait */
    enum gyre_ddp_wire wire; /* a shorter type on the way; summed in f32 all the same */
    int no_feedback;         /* 1: forget what the shorter type cannot hold, instead of adding it
                                to the next step's gradient */
    int strict;              /* 1: a parameter without a gradient is a failure of all ranks */
    int sharded;             /* 1: a rank holds and updates only its part (ZeRO, stage 1) */
    int norm;                /* 1: gyre_ddp_result()->norm is computed, as gyre_ddp_clip() needs */
    int unscaled;            /* 1: gradients stay sums; multiply by gyre_ddp_result()->factor */
    enum gyre_ddp_look look; /* for NaN and infinity */
    int compare_every; /* steps between two comparisons of all parameters; 0: 100, -1: never */
    struct gyre_ddp_buffers buffers;
    const struct gyre_ddp_hook
        *hook; /* instead of `wire`; copied, but for its context. NULL: none */

    /* Where values are a CUDA device's: the cudaStream_t that gradients are written on, of that
     * device. NULL: they are written already when gyre_ddp_ready() is called. */
    void *stream;
};

#define GYRE_DDP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct gyre_ddp_options), 0, 0, GYRE_DDP_MEAN_OF_SAMPLES, GYRE_DDP_WIRE_AS_IS, 0,   \
            0, 0, 0, 0, GYRE_DDP_LOOK_SMALL, 0, {NULL, 0}, NULL, NULL                              \
    }

/* Makes the engine: compares names, shapes, types and options of all ranks, then gives every rank
 * the values of rank 0. List parameters in the order of the forward pass. `options` may be NULL.
 *   Blocks:    until every rank has called it.
 *   Ownership: the caller destroys *ddp before the communicator ends; values stay the caller's and
 *              must live as long, but those of a sharded engine only until this returns: it has its
 *              own then (gyre_ddp_value()). Arrays and names are copied. On failure *ddp is NULL.
 *   Errors:    GYRE_INVALID (on all ranks, if any rank's arguments are: values here and there, on
 *              another device than the communicator's, or on a device and GYRE_F64),
 *              GYRE_MISMATCH with the first difference and who has it (ranks with values on the
 *              host and on a device, too), -ENOMEM, as gyre_all_reduce(). */
GYRE_API int gyre_ddp_create(struct gyre_ddp **ddp, struct gyre_comm *comm,
                             const struct gyre_ddp_parameter *parameter, int parameters,
                             const struct gyre_ddp_options *options);

/* Goes on with the ranks of another communicator, such as gyre_shrink() has made after a loss. The
 * step that did not end is forgotten on all ranks. Of the ranks' values and buffers those of the
 * rank that has completed most steps are given to all: ranks that were told of a loss differ by one
 * step at most, and a step that any of them has completed has all ranks' samples. *from (may be
 * NULL) is that rank. Whoever had completed fewer steps, or is new, brings the rest of its state
 * from there (optimiser, position in the data); gyre_ddp_result()->number is the number of steps
 * that are completed now.
 *
 * A rank calls this after the update of the last step that gyre_ddp_wait() has ended. Ranks that
 * come new call gyre_ddp_create() meanwhile. As after create, addresses of gradients change now,
 * and may once more in the wait of the first step; what a shorter type on the way has lost so far
 * is forgotten. Buffers are those of create, which must still be there.
 *   Blocks:    until every rank of `comm` has called it.
 *   Ownership: call it before the former communicator ends.
 *   Errors:    GYRE_INVALID (a sharded engine: values of the lost rank are lost), as
 *              gyre_ddp_create(). */
GYRE_API int gyre_ddp_regroup(struct gyre_ddp *ddp, struct gyre_comm *comm, int *from);

/* Frees the engine; started reductions are waited for. NULL is allowed. Not collective. */
GYRE_API void gyre_ddp_destroy(struct gyre_ddp *ddp);

/* -- a step ------------------------------------------------------------------------------------ */

/* Begins a step in which this rank has `samples` samples. Every rank begins every step; one that is
 * out of data gives 0, writes no gradient, and goes on until gyre_ddp_result()->done: then no rank
 * had samples, gradients are zeros, and the loop ends on all ranks at once.
 *   Errors:    GYRE_INVALID (the step before was not waited for), GYRE_CORRUPT (ranks hold other
 *              values of a parameter, which is named with the rank). */
GYRE_API int gyre_ddp_begin(struct gyre_ddp *ddp, uint64_t samples);

/* Where the gradient of a parameter is written in the step, row-major; and where its value is: the
 * caller's memory, or the engine's if it is sharded. NULL for an unknown index. Not collective. */
GYRE_API void *gyre_ddp_gradient(struct gyre_ddp *ddp, int parameter);
GYRE_API void *gyre_ddp_value(struct gyre_ddp *ddp, int parameter);

/* Must this backward pass add to the gradients, because a part of the same step before it has
 * written them (gyre_ddp_no_sync)? Not collective. */
GYRE_API int gyre_ddp_adds(const struct gyre_ddp *ddp);

/* The gradient of this parameter is written. Starts every bucket that is complete and whose turn it
 * is; a parameter never said to be ready is taken as zeros and named once in a warning.
 *   Blocks:    no.
 *   Errors:    GYRE_INVALID (said twice, outside of a step, unknown index). */
GYRE_API int gyre_ddp_ready(struct gyre_ddp *ddp, int parameter);

/* Looks at this gradient for NaN and infinity, whatever `look` says. For who knows of most
 * gradients that they hold none, and asks for the others, before gyre_ddp_ready(). Not collective;
 * within a step.
 *   Errors:    GYRE_INVALID. */
GYRE_API int gyre_ddp_look_at(struct gyre_ddp *ddp, int parameter);

/* Between on = 1 and on = 0, steps are parts of one: what is begun and waited for adds up its
 * samples and gradients on this rank, and nothing travels until a step is waited for with on = 0.
 * Between begin and wait it cannot be changed. Not collective, but equal on
 * all ranks.
 *   Errors:    GYRE_INVALID. */
GYRE_API int gyre_ddp_no_sync(struct gyre_ddp *ddp, int on);

/* Ends the step: waits until all gradients are reduced.
 *   Blocks:    until every rank has come here.
 *   Errors:    GYRE_INVALID (strict, on all ranks: who left which parameter without a gradient), as
 *              gyre_all_reduce(). */
GYRE_API int gyre_ddp_wait(struct gyre_ddp *ddp);

/* -- sums and votes of a step, and its result -------------------------------------------------- */

/* Samples, sums, votes and who has a NaN travel behind the gradients of the last bucket, in its own
 * reduction: they cost no message, and arrive as they were given, whatever gradients travel in.
 * Each rank adds them up in the order of ranks, so all decide alike, on the same bits.
 *
 * A sharded engine's ranks get a part of each sum, so there they are gathered by an operation of
 * their own: in a group with the last bucket's, or, where `norm` is asked for, behind it, as the
 * one that makes the norm. So they are beside a hook that does not sum, or sums i8 or an 8-bit
 * float, which hold no byte. */

#define GYRE_DDP_SUMS 8

/* Adds to a number that is summed over all ranks with this step's gradients: loss, right answers,
 * whatever. `which` is 0 … GYRE_DDP_SUMS - 1. Not collective; within a step. */
GYRE_API int gyre_ddp_add(struct gyre_ddp *ddp, int which, double value);

/* Asks all ranks to end training after this step, or not to update in it. Not collective; within a
 * step. */
GYRE_API int gyre_ddp_ask_stop(struct gyre_ddp *ddp);
GYRE_API int gyre_ddp_ask_skip(struct gyre_ddp *ddp);

/* What the last step came to; equal on all ranks but for the times. */
struct gyre_ddp_result {
    uint64_t number;  /* of the step, from 1 */
    uint64_t samples; /* of all ranks */
    int done;         /* 1: these are 0, all ranks are out of data; the same on each */
    double sum[GYRE_DDP_SUMS];
    double factor; /* multiply gradients by it; 1 unless `unscaled` */
    double norm;   /* of the mean gradient over all parameters, if asked for; before clipping */
    int stop;      /* ranks that asked to stop */
    int skip;      /* ranks that asked to skip the update */
    int nonfinite; /* ranks that had a NaN or an infinity in a gradient or a sum; do not update */
    int culprit;   /* the lowest of them; -1: none */
    const char *culprit_name; /* the parameter, or "sum 0"; NULL: none */
    uint64_t waited_ns;       /* this rank's time in gyre_ddp_wait(), and then in
                                 gyre_ddp_gather(): communication not hidden */
    uint64_t reduced_bytes;   /* of gradients, as they travelled */
    int buckets;
};

/* The result of the last step. Not collective.
 *   Ownership: the engine's, until the next gyre_ddp_wait(). */
GYRE_API const struct gyre_ddp_result *gyre_ddp_result(const struct gyre_ddp *ddp);

/* After the wait, before the update: multiplies all gradients by min(1, most / (norm + 1e-6)), as
 * torch.nn.utils.clip_grad_norm_() does, where norm is the step's; of an `unscaled` engine the
 * step's factor instead. A norm that is not finite changes nothing: then `nonfinite` says not to
 * update. With losses multiplied by a scale give `most` multiplied by it. Not collective, but the
 * same on all ranks.
 *   Errors:    GYRE_INVALID (`norm` was not asked for, no step has ended since the last clip or at
 *              all, `most` is not above 0). */
GYRE_API int gyre_ddp_clip(struct gyre_ddp *ddp, double most);

/* -- pieces that this rank updates ------------------------------------------------------------- */

/* A part of a parameter that this rank updates; addresses of its first element. */
struct gyre_ddp_piece {
    int parameter;
    uint64_t first, count; /* elements */
    void *value, *gradient;
};

/* The pieces of this rank, in the order of memory; of an engine that is not sharded, every whole
 * parameter. They are final after the first step in which rank 0 has samples: make the optimiser's
 * state then. Returns -ENOENT past the last. Not collective. */
GYRE_API int gyre_ddp_piece(struct gyre_ddp *ddp, int index, struct gyre_ddp_piece *piece);

/* After the update of its pieces: gives every rank all values. Nothing to do unless sharded. */
GYRE_API int gyre_ddp_gather(struct gyre_ddp *ddp);

/* -- are the ranks still equal? ---------------------------------------------------------------- */

/* Compares all values now, as every `compare_every` steps: by a sum of four bytes from each rank.
 * Between steps; of a sharded engine after gyre_ddp_gather().
 *   Blocks:    until every rank has called it.
 *   Errors:    GYRE_CORRUPT (the first parameter that differs, and the ranks in the minority, are
 *              named), GYRE_INVALID, as gyre_all_gather(). */
GYRE_API int gyre_ddp_compare(struct gyre_ddp *ddp);

/* -- state to keep between runs ---------------------------------------------------------------- */

/* With another type on the way, by `wire` or a hook, an engine has a state of its own: what was
 * lost of this rank's gradients so far, which is added to the next, and the power of two that all
 * are multiplied by. To go on with a run bit for bit, keep both after a step, and put them into a
 * new engine of as many ranks before its first. */

/* What was lost so far of the gradients of a parameter: f32, as many as it has elements; NULL where
 * nothing is kept (one rank, GYRE_F64, no other type, `no_feedback`), and for an unknown index.
 * Moves with gyre_ddp_gradient(). Not collective. */
GYRE_API float *gyre_ddp_feedback(struct gyre_ddp *ddp, int parameter);

/* The power of two that gradients are multiplied by on their way. 0 before the end of the first
 * step, in which gradients travel as they are. Not collective, but set equally on all ranks.
 *   Errors:    GYRE_INVALID (no power of two, within a step, gradients travel as they are). */
GYRE_API double gyre_ddp_wire_scale(const struct gyre_ddp *ddp);
GYRE_API int gyre_ddp_set_wire_scale(struct gyre_ddp *ddp, double scale);

/* -- buckets ----------------------------------------------------------------------------------- */

/* Bytes of gradients in a bucket, and how many parameters; -ENOENT past the last. Not
 * collective. */
GYRE_API int gyre_ddp_bucket(const struct gyre_ddp *ddp, int index, uint64_t *bytes,
                             int *parameters);

#ifdef __cplusplus
}
#endif

#endif
