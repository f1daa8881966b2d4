/* What computes: its memory, its products of matrices, and its passes over whole tensors. The CPU
 * is one filling of the table (host.c); a device with a queue of its own is another.
 *
 *     layers, losses, optimisers ──▶ struct gyre_processor ─┬▶ host.c    ops.h, dense.h
 *                                                           └▶ a device  kernels on its queue
 *
 * All memory that an entry is given is the processor's, from alloc(), unless a comment says host.
 * An entry that returns nothing may return before its work has ended: work ends in the order of
 * the calls, and get() and wait() stay until all of it has. So a step has no wait inside: what the
 * host needs of it (the loss, for one) is written to the processor's memory and read once, at the
 * end, or sent and received a step later. Work that fails is told by the next get(), receive() or
 * wait().
 *
 * Formulas are those of ops.h, and passes over elements give the same bits on every processor. Sums
 * go a fixed way on each. No entry allocates but alloc(). One thread at a time for each processor.
 *
 * A tensor is samples x channels x height x width, row-major, as in layers. */
#ifndef GYRE_MODEL_PROCESSOR_PROCESSOR_H
#define GYRE_MODEL_PROCESSOR_PROCESSOR_H

#include "device/device.h"
#include "model/kernels/dense.h"
#include "model/kernels/ops.h"

/* Products of matrices take their two operands as if stored so and sum in f32; all else, and the
 * parameters themselves, stay f32. */
enum gyre_precision { GYRE_PRECISION_F32, GYRE_PRECISION_BF16, GYRE_PRECISION_F16 };

/* A batch of images for passes that go channel by channel; `places` is height x width. */
struct gyre_planes {
    size_t samples, channels, places;
};

/* A square kernel that goes over images: a convolution's (stride 1) or a pooling's (no padding). */
struct gyre_window {
    size_t channels, height, width; /* of an image */
    size_t kernel, stride, padding;
    size_t out_height, out_width;
};

/* A product for each of `count` samples: the operands of sample s begin s steps behind the first.
 * With a c_step of 0 C gets the sum of them: then beta is 0 or 1, and no space is between C's
 * rows. */
struct gyre_products {
    struct gyre_product first;
    size_t count, a_step, b_step, c_step;
    float *partials;               /* gyre_partials() floats of workspace, with a c_step of 0 */
    enum gyre_precision precision; /* to which A and B have been rounded */
};

/* The workspace of a sum of `count` products: none for a single one, nor on the CPU. */
static inline size_t gyre_partials(size_t count, size_t m, size_t n, size_t k)
{
    return count > 1 ? count * ((k + GYRE_DENSE_BLOCK - 1) / GYRE_DENSE_BLOCK) * m * n : 0;
}

/* What follows a product in the same pass. `mask` has a bit for each element of C, of each row in
 * gyre_mask_bits() bits. */
struct gyre_epilogue {
    enum gyre_epilogue_kind {
        GYRE_THEN_BIAS,      /* C + bias */
        GYRE_THEN_BIAS_RELU, /* negative ones are 0, the mask has what is above 0 */
        GYRE_THEN_RELU_BACK  /* C where the mask has a bit, else 0; and the sums of its columns */
    } kind;
    const float *bias;
    float *bias_gradient;
    uint32_t *mask;
};

static inline size_t gyre_mask_bits(size_t columns)
{
    return (columns + 127) / 128 * 128;
}

/* Batch norm over a batch. Arrays have a number for each channel. */
struct gyre_norm {
    struct gyre_planes planes;
    double values;         /* in each channel, of all ranks; known from mean() on */
    float *mean, *inverse; /* of this batch; 1 / deviation */
    const float *weight, *bias;
    float *running_mean, *running_variance;
    int64_t *batches; /* one number */
    double *sums;     /* 2 x channels + 1 */
};

/* How an optimiser steps. */
enum gyre_step_rule { GYRE_RULE_SGD, GYRE_RULE_ADAM, GYRE_RULE_ADAMW };

/* Values and gradients that lie behind each other, and where the moments of the first are. */
struct gyre_step_span {
    float *value;
    const float *gradient;
    uint64_t at;
};

/* All of a step: stretches by rising `at`, without gaps, none of them empty. */
struct gyre_step_spans {
    const struct gyre_step_span *stretch; /* the processor's memory */
    uint64_t count, numbers;
};

/* What a loss adds up. */
struct gyre_tally {
    double sum;
    uint64_t right; /* samples whose greatest output, the first of equals, is the label */
};

/* By what a step is judged. Pointers are the processor's, and may be NULL: nothing to look at. */
struct gyre_evidence {
    const double *squares; /* of the sum of gradients, which carry the loss scale */
    const double *loss;
    const int32_t *bad;     /* the parameter that a look found; below 0: none */
    double factor;          /* 1 / samples */
    double most;            /* to clip the mean's norm to, without the loss scale; 0: not clipped */
    bool refused, skips;    /* not finite, as ranks have told; a rank asked to leave it out */
    double growth, backoff; /* of the loss scale, as model/learning/scaler.h has them */
    int32_t growth_interval; /* 0: there is no loss scale */
};

/* What a step came to, and what the next one begins with. */
struct gyre_verdict {
    double norm;          /* of the mean gradient, with the loss scale that it had */
    uint64_t applied;     /* updates that were made */
    float factor;         /* of gradients in the update */
    float scale;          /* of the next loss; 1 where there is none */
    int32_t good;         /* the scaler's growth tracker */
    int32_t bad;          /* the parameter that a look found; below 0: none */
    int32_t finite, goes; /* the step; whether it is made */
    int32_t stuck;        /* without a loss scale a step was not finite: no more are made */
};

/* The constants of a step. Where a verdict says what is done, update[i] is for the case that
 * known + i updates were made before, and its factor is the verdict's. */
struct gyre_step_constants {
    struct gyre_update update[2];
    const struct gyre_verdict *verdict; /* the processor's; NULL: update[0] as it is */
    uint64_t known;
};

/* What changes from step to step, in the processor's memory: launches of a step that is judged
 * there are the same each time. */
struct gyre_step_terms {
    struct gyre_evidence evidence;
    struct gyre_step_constants constants;
    double squares; /* for the evidence to point to, where only the host knows them */
};

/* Outputs of a batch and the gradient that a loss gives them. */
struct gyre_rows {
    const float *outputs;
    float *gradient;
    size_t samples, width;
    float factor;       /* of the gradient: the loss scale, 1 without one */
    const float *scale; /* the processor's: in place of the factor; NULL: the factor */
    double *terms;      /* 2 x samples of workspace; NULL on the CPU */
};

/* How add_squares() sums: 8 partial sums in each chunk, chunk after chunk in a group, group after
 * group. Whoever sums the same on the host has the same bits. */
#define GYRE_SQUARES_LANES 8
#define GYRE_SQUARES_CHUNK 4096 /* elements */
#define GYRE_SQUARES_GROUP 256  /* chunks */

/* Doubles of workspace for so many elements. */
static inline size_t gyre_squares_partials(size_t count)
{
    const size_t chunks = (count + GYRE_SQUARES_CHUNK - 1) / GYRE_SQUARES_CHUNK;
    return chunks * GYRE_SQUARES_LANES + (chunks + GYRE_SQUARES_GROUP - 1) / GYRE_SQUARES_GROUP;
}

#define GYRE_SENT_SLOTS 2
#define GYRE_SENT_BYTES 256

struct gyre_processor;
struct gyre_processor_graph; /* launches that are repeated together; opaque */

struct gyre_processor_table {
    enum gyre_memory_kind memory;

    /* A convolution lays out as many samples at once as fit into so many bytes, and at least
     * one. */
    size_t spread_bytes;

    void (*close)(struct gyre_processor *on);

    /* "own avx2", or whoever multiplies. Lives as long as the processor. */
    const char *(*products)(const struct gyre_processor *on);

    /* -- memory -------------------------------------------------------------------------------- */

    /* Zeroed and aligned to a line of the cache; NULL: no memory. free() takes NULL and ends after
     * all work. */
    void *(*alloc)(struct gyre_processor *on, size_t bytes);
    void (*free)(struct gyre_processor *on, void *memory);

    /* From and to host memory. After put() the source may change at once; get() stays until all
     * work has ended. Failures name the device. */
    int (*put)(struct gyre_processor *on, void *to, const void *host, size_t bytes,
               struct gyre_trouble *trouble);
    int (*get)(struct gyre_processor *on, void *host, const void *from, size_t bytes,
               struct gyre_trouble *trouble);
    int (*wait)(struct gyre_processor *on, struct gyre_trouble *trouble);

    /* A few bytes on their way to the host, while more work is posted: send() posts their copy, and
     * receive() stays until the last one sent to that slot has come. NULL for the CPU. */
    int (*send)(struct gyre_processor *on, int slot, const void *from, size_t bytes,
                struct gyre_trouble *trouble);
    int (*receive)(struct gyre_processor *on, int slot, void *host, size_t bytes,
                   struct gyre_trouble *trouble);

    /* Of the device, all of it. NULL for the CPU. */
    uint64_t (*memory_bytes)(const struct gyre_processor *on);

    /* The stream of all work, for work of others behind it; and: work from now on begins when what
     * is on the caller's own stream now has ended. NULL for the CPU. */
    void *(*stream)(struct gyre_processor *on);
    int (*after)(struct gyre_processor *on, void *stream, struct gyre_trouble *trouble);

    void (*copy)(struct gyre_processor *on, void *to, const void *from, size_t bytes);
    void (*zero)(struct gyre_processor *on, void *to, size_t bytes);

    /* Rows index[0], index[1] … of `from`, each of `width` floats, to rows 0, 1 … NULL for the
     * CPU, which gathers them from where they are read. */
    void (*take_rows)(struct gyre_processor *on, float *to, const float *from,
                      const uint64_t *index, size_t rows, size_t width);

    /* -- steps that repeat: NULL for the CPU --------------------------------------------------- */

    /* Memory of what the host tells in each step. NULL: none is left, and any other serves. */
    void *(*alloc_told)(struct gyre_processor *on, size_t bytes);

    /* From record() to keep() launches also go into a graph. What fails on the way fails keep()
     * alone. graph_launches() is their number, and prepare_graph() comes once before the first
     * replace(). From replace() to repeat() launches are left out, since the graph has them; bytes
     * put to other memory than alloc_told()'s travel as ever, ahead of all launches, and those to
     * it together. repeat() posts the graph. Launches between are those that were recorded, with
     * the same arguments; the wrong number of them is -EIO. A graph may be freed at any time, NULL
     * too; then nothing is recorded or left out any more. prepare_graph(), graph_free() and the
     * first record() may wait for all work of the device, also for streams that are held. */
    int (*record)(struct gyre_processor *on, struct gyre_trouble *trouble);
    int (*keep)(struct gyre_processor *on, struct gyre_processor_graph **graph,
                struct gyre_trouble *trouble);
    uint64_t (*graph_launches)(const struct gyre_processor_graph *graph);
    int (*prepare_graph)(struct gyre_processor *on, struct gyre_processor_graph *graph,
                         struct gyre_trouble *trouble);
    void (*replace)(struct gyre_processor *on, const struct gyre_processor_graph *graph);
    int (*repeat)(struct gyre_processor *on, struct gyre_trouble *trouble);
    void (*graph_free)(struct gyre_processor *on, struct gyre_processor_graph *graph);

    /* -- products ------------------------------------------------------------------------------ */

    void (*multiply)(struct gyre_processor *on, const struct gyre_products *products);

    /* One, with an alpha of 1 and a beta of 0, and what follows. False: nothing was done, the
     * caller makes a pass for each. NULL for the CPU. */
    bool (*multiply_then)(struct gyre_processor *on, const struct gyre_product *product,
                          enum gyre_precision precision, const struct gyre_epilogue *then);

    /* -- elements: as ops.h says --------------------------------------------------------------- */

    void (*add_bias)(struct gyre_processor *on, float *y, const float *bias, size_t rows,
                     size_t columns, bool relu);
    void (*relu)(struct gyre_processor *on, float *y, const float *x, size_t count);
    void (*relu_back)(struct gyre_processor *on, float *dx, const float *dy, const float *y,
                      size_t count);
    void (*column_sums)(struct gyre_processor *on, float *sums, const float *x, size_t rows,
                        size_t columns, bool accumulate);

    /* To half precision and back; not for f32. y may be x. */
    void (*round)(struct gyre_processor *on, enum gyre_precision precision, float *y,
                  const float *x, size_t count);

    /* Sum of x^2, for the host: NULL where the host would have to wait for it. */
    double (*squares)(struct gyre_processor *on, const float *x, size_t count);

    /* sgd, adam, adamw. */
    void (*sgd)(struct gyre_processor *on, float *value, const float *gradient, float *m, float *v,
                size_t count, const struct gyre_update *update);
    void (*adam)(struct gyre_processor *on, float *value, const float *gradient, float *m, float *v,
                 size_t count, const struct gyre_update *update);
    void (*adamw)(struct gyre_processor *on, float *value, const float *gradient, float *m,
                  float *v, size_t count, const struct gyre_update *update);

    /* All of them in one launch, by constants that are the host's, or, with `judged`, the
     * processor's. NULL for the CPU, for which it would save nothing. */
    void (*step_all)(struct gyre_processor *on, enum gyre_step_rule rule,
                     const struct gyre_step_spans *stretches, float *m, float *v,
                     const struct gyre_step_constants *constants, bool judged);

    /* Judges a step by evidence in the processor's memory: *verdict is that of the step before, and
     * becomes this one's. NULL for the CPU, whose owner does it (model/network/update.c). */
    void (*judge)(struct gyre_processor *on, const struct gyre_evidence *evidence,
                  struct gyre_verdict *verdict);

    /* -- convolution and pooling --------------------------------------------------------------- */

    /* y[s][c][p] = bias[c]. */
    void (*fill_channels)(struct gyre_processor *on, float *y, const float *bias,
                          struct gyre_planes planes);
    /* sums[c] = or += all of channel c, added up in double and rounded once. */
    void (*channel_sums)(struct gyre_processor *on, float *sums, const float *x,
                         struct gyre_planes planes, bool accumulate);

    /* to[s][channel, dy, dx][place]: the value that each element of the kernel meets at each
     * place, 0 outside; in `precision`. gather() adds up in x what spread() would copy from x.
     * `padded` is workspace: one image with its padding. */
    void (*spread)(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                   enum gyre_precision precision, float *to, const float *x, float *padded);
    void (*gather)(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                   float *x, const float *from, float *padded);

    /* The greatest in each square, the first of equals, NaN above all; where[] is its place in the
     * plane. pool_back() sets all of dx. */
    void (*pool)(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                 float *y, uint32_t *where, const float *x);
    void (*pool_back)(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                      float *dx, const float *dy, const uint32_t *where);

    /* -- batch norm, in the order of a step ---------------------------------------------------- */

    /* sums[c] of x, and the number of samples behind them. */
    void (*norm_sums)(struct gyre_processor *on, const struct gyre_norm *norm, const float *x);
    void (*norm_mean)(struct gyre_processor *on, const struct gyre_norm *norm); /* of the sums */
    /* sums[c] of (x - mean)^2. */
    void (*norm_squares)(struct gyre_processor *on, const struct gyre_norm *norm, const float *x);
    /* The inverse, of the sums; running figures follow, and the batch is counted. */
    void (*norm_variance)(struct gyre_processor *on, const struct gyre_norm *norm);
    /* By this batch, or by the running figures. */
    void (*norm_apply)(struct gyre_processor *on, const struct gyre_norm *norm, bool train,
                       float *y, const float *x);
    /* sums[c] of dy, then of dy (x - mean); and the two parameters' gradients. */
    void (*norm_back_sums)(struct gyre_processor *on, const struct gyre_norm *norm, const float *x,
                           const float *dy, float *weight_gradient, float *bias_gradient,
                           bool accumulate);
    void (*norm_back)(struct gyre_processor *on, const struct gyre_norm *norm, float *dx,
                      const float *x, const float *dy);

    /* -- losses: formulas in model/learning/loss.h; each adds to *tally ------------------------ */

    /* Labels are less than `width`. */
    void (*cross_entropy)(struct gyre_processor *on, const struct gyre_rows *rows,
                          const int64_t *labels, struct gyre_tally *tally);
    void (*squared_error)(struct gyre_processor *on, const struct gyre_rows *rows,
                          const float *targets, struct gyre_tally *tally);

    /* -- gradients on their way over ranks: the CPU has none, the engine has its own (ddp/) ---- */

    void (*scale)(struct gyre_processor *on, float *x, size_t count, float factor);
    /* *bad = which, unless it is one already, where an element is not finite. */
    void (*look)(struct gyre_processor *on, const float *x, size_t count, int32_t which,
                 int32_t *bad);
    /* *sum += all x^2; `partials` is workspace of gyre_squares_partials(). */
    void (*add_squares)(struct gyre_processor *on, const float *x, size_t count, double *partials,
                        double *sum);
    /* half = (gradient + feedback) * scale; feedback = what half does not bring back, 0 where that
     * is not finite. `feedback` may be NULL. And gradient = half / scale. */
    void (*encode)(struct gyre_processor *on, enum gyre_precision precision, uint16_t *half,
                   const float *gradient, float *feedback, size_t count, float scale);
    void (*decode)(struct gyre_processor *on, enum gyre_precision precision, float *gradient,
                   const uint16_t *half, size_t count, float scale);
};

/* One of them; what it needs besides follows in its own struct. */
struct gyre_processor {
    const struct gyre_processor_table *table;
    struct gyre_trouble refused; /* why alloc() failed last; empty: there is no more to tell */
};

/* Opens the CPU, or a device of that kind. What gyre_dense_create() says holds for the CPU.
 * GYRE_UNSUPPORTED: nothing computes there in this build. */
int gyre_processor_open(struct gyre_processor **processor, enum gyre_memory_kind kind, int device,
                        struct gyre_trouble *trouble);
void gyre_processor_close(struct gyre_processor *processor); /* takes NULL */

/* A device's, for passes beside another one's work: it multiplies by Gyre's own kernels. */
int gyre_processor_open_beside(struct gyre_processor **processor, enum gyre_memory_kind kind,
                               int device, struct gyre_trouble *trouble);

/* A device's, that brings up to `bytes` at once to memory of its own, for passes of another one:
 * its put() waits for the last but one. */
int gyre_processor_open_carrier(struct gyre_processor **processor, const struct gyre_processor *to,
                                uint64_t bytes, struct gyre_trouble *trouble);

/* Whether somebody else's products of matrices would be found for a CUDA device, as far as that can
 * be said without using one: "cuBLAS", or NULL. */
const char *gyre_processor_hires(void);

/* Whether the memory is a device's, as the processor's is: the CPU owns none. */
bool gyre_processor_owns(const struct gyre_processor *processor, const void *memory);

/* Memory from alloc_told(); NULL: the processor has none left, or never. */
void *gyre_processor_told(struct gyre_processor *on, size_t bytes);

/* Memory from alloc(); NULL, and what it was for, how much, and why: as printf. */
__attribute__((format(printf, 4, 5))) void *gyre_processor_alloc(struct gyre_processor *processor,
                                                                 size_t bytes,
                                                                 struct gyre_trouble *trouble,
                                                                 const char *format, ...);

#endif
