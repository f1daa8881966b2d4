/* The two fillings of the table in processor.h. A file calls only files listed below it.
 *
 *   table.c            processors by their kind
 *   host.c             the CPU's table
 *   host_images.c, host_norm.c, host_loss.c     passes that ops.h does not have
 *   cuda.c             a CUDA device's table: its memory, its queue, what travels to and fro
 *   cuda_graph.c       launches that are repeated together, and what the host tells beside them
 *   cuda_elements.cu, cuda_images.cu, cuda_dense.cu     its kernels
 *   cuda_gradients.cu, cuda_steps.cu
 *   cuda_fused.c       products with what follows them, by cuBLASLt
 *   cuda_blas.c        products by cuBLAS, where it is
 *   cuda_blas_library.c     where cuBLAS is
 *   cuda_queue.c       launches on its queue
 *   cuda_absent.c      in place of the kernels, in builds without CUDA */
#ifndef GYRE_MODEL_PROCESSOR_INSIDE_H
#define GYRE_MODEL_PROCESSOR_INSIDE_H

#include "model/processor/processor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- the CPU ----------------------------------------------------------------------------------- */

struct gyre_host_processor {
    struct gyre_processor base;
    const struct gyre_ops *ops;
    struct gyre_dense *dense;
};

static inline const struct gyre_ops *gyre_host_ops(const struct gyre_processor *on)
{
    return ((const struct gyre_host_processor *)on)->ops;
}

/* y = x in half precision. */
static inline void gyre_host_round(const struct gyre_ops *ops, enum gyre_precision precision,
                                   float *y, const float *x, size_t count)
{
    if (precision == GYRE_PRECISION_BF16)
        ops->round_bf16(y, x, count);
    else
        ops->round_f16(y, x, count);
}

/* host_images.c */
void gyre_host_spread(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                      enum gyre_precision precision, float *to, const float *x, float *padded);
void gyre_host_gather(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                      float *x, const float *from, float *padded);
void gyre_host_pool(struct gyre_processor *on, const struct gyre_window *window, size_t samples,
                    float *y, uint32_t *where, const float *x);
void gyre_host_pool_back(struct gyre_processor *on, const struct gyre_window *window,
                         size_t samples, float *dx, const float *dy, const uint32_t *where);

/* host_norm.c */
void gyre_host_fill_channels(struct gyre_processor *on, float *y, const float *bias,
                             struct gyre_planes planes);
void gyre_host_channel_sums(struct gyre_processor *on, float *sums, const float *x,
                            struct gyre_planes planes, bool accumulate);
void gyre_host_norm_sums(struct gyre_processor *on, const struct gyre_norm *norm, const float *x);
void gyre_host_norm_mean(struct gyre_processor *on, const struct gyre_norm *norm);
void gyre_host_norm_squares(struct gyre_processor *on, const struct gyre_norm *norm,
                            const float *x);
void gyre_host_norm_variance(struct gyre_processor *on, const struct gyre_norm *norm);
void gyre_host_norm_apply(struct gyre_processor *on, const struct gyre_norm *norm, bool train,
                          float *y, const float *x);
void gyre_host_norm_back_sums(struct gyre_processor *on, const struct gyre_norm *norm,
                              const float *x, const float *dy, float *weight_gradient,
                              float *bias_gradient, bool accumulate);
void gyre_host_norm_back(struct gyre_processor *on, const struct gyre_norm *norm, float *dx,
                         const float *x, const float *dy);

/* host_loss.c */
void gyre_host_cross_entropy(struct gyre_processor *on, const struct gyre_rows *rows,
                             const int64_t *labels, struct gyre_tally *tally);
void gyre_host_squared_error(struct gyre_processor *on, const struct gyre_rows *rows,
                             const float *targets, struct gyre_tally *tally);

int gyre_host_open(struct gyre_processor **processor, struct gyre_trouble *trouble);

/* -- a CUDA device ----------------------------------------------------------------------------- */

/* What the host tells in each step: the same bytes on both sides. Those from `low` to `high` wait
 * for the graph. */
struct gyre_cuda_told {
    uint8_t *there, *here; /* NULL: none was asked for */
    uint64_t used, low, high;
};

struct gyre_cuda_processor {
    struct gyre_processor base;
    struct gyre_processor_table table;
    const struct gyre_device *device;
    struct gyre_device_queue *queue;
    int index, multiprocessors;
    uint64_t memory_bytes;
    int status;                    /* of the first launch that failed */
    void *blas;                    /* a handle of cuBLAS; NULL: products are Gyre's own */
    struct gyre_cuda_fused *fused; /* cuBLASLt; NULL: it is not there */
    bool keeps_nan;                /* its ReLU: otherwise only biases are fused */
    void *workspace;               /* of both; NULL: cuBLAS has its own */
    uint64_t workspace_bytes;
    void *blas_stream; /* where cuBLAS works; NULL: it is to be told */
    struct gyre_cuda_told told;
    const struct gyre_processor_graph *replaced; /* its launches are left out */
    uint64_t launches;                           /* since record() or replace() */
    bool recording, unrecorded;                  /* `unrecorded`: a product is missing */
};

struct gyre_cuda_wishes {
    int index;            /* of the device */
    bool hires;           /* products by cuBLAS, where it is */
    uint64_t piece_bytes; /* two pieces of locked memory so large; 0: a few small ones */
};

int gyre_cuda_open(struct gyre_processor **processor, const struct gyre_cuda_wishes *wishes,
                   struct gyre_trouble *trouble);

/* The number of its device. */
static inline int gyre_cuda_index(const struct gyre_processor *on)
{
    return ((const struct gyre_cuda_processor *)on)->index;
}

/* Posts kernels behind all work of the queue: post() gets the stream, in the device's context
 * (cuda_queue.c). A failure is told by the next get() or wait(). */
void gyre_cuda_post(struct gyre_processor *on, void (*post)(void *stream, const void *context),
                    const void *context);
int gyre_cuda_multiprocessors(const struct gyre_processor *on);

/* The entries of the table for steps that repeat (cuda_graph.c), and of repeat() its parts: the end
 * of launches that are left out, then the graph. */
int gyre_cuda_record_step(struct gyre_processor *on, struct gyre_trouble *trouble);
int gyre_cuda_keep_step(struct gyre_processor *on, struct gyre_processor_graph **graph,
                        struct gyre_trouble *trouble);
uint64_t gyre_cuda_graph_launches(const struct gyre_processor_graph *graph);
int gyre_cuda_prepare_step(struct gyre_processor *on, struct gyre_processor_graph *graph,
                           struct gyre_trouble *trouble);
void gyre_cuda_replace_step(struct gyre_processor *on, const struct gyre_processor_graph *graph);
int gyre_cuda_end_replaced(struct gyre_cuda_processor *cuda,
                           const struct gyre_processor_graph **replaced,
                           struct gyre_trouble *trouble);
int gyre_cuda_post_step(struct gyre_cuda_processor *cuda, const struct gyre_processor_graph *graph,
                        struct gyre_trouble *trouble);
void gyre_cuda_free_step(struct gyre_processor *on, struct gyre_processor_graph *graph);

/* What the host tells, in GYRE_CUDA_TOLD_BYTES of the device's; false: no memory. Pieces are cut
 * from it; NULL: none is left. Tell is what put() does first; true: the bytes wait for the
 * graph. */
#define GYRE_CUDA_TOLD_BYTES (UINT64_C(128) << 10)
bool gyre_cuda_begin_told(struct gyre_cuda_processor *cuda, void *there);
void *gyre_cuda_cut_told(struct gyre_cuda_processor *cuda, size_t bytes);
bool gyre_cuda_tell(struct gyre_processor *on, const void *to, const void *host, size_t bytes);
void gyre_cuda_end_told(struct gyre_cuda_processor *cuda);

/* A function of cuBLAS; NULL: it has not this one, or is not there. */
void *gyre_cuda_blas_symbol(const char *name);

/* cuBLAS, in the device's context. Begin makes a handle for a stream, or none where cuBLAS is not
 * there; its status is cuBLAS's. Multiply takes products of which none is empty, each with a C of
 * its own, whose sizes it takes: -EIO, told in the log. */
int gyre_cuda_blas_wanted(bool *wanted, struct gyre_trouble *trouble);
int gyre_cuda_blas_begin(void **handle, void *stream);
int gyre_cuda_blas_check(int device, int begun, struct gyre_trouble *trouble); /* begin's status */
void gyre_cuda_blas_end(void *handle);
int gyre_cuda_blas_use(struct gyre_cuda_processor *cuda, void *stream); /* its work goes there */
int gyre_cuda_blas_compute(enum gyre_precision precision);              /* cublasComputeType_t */
bool gyre_cuda_blas_takes(const struct gyre_products *products);
int gyre_cuda_blas_multiply(void *handle, const struct gyre_products *products);

/* Begins with cuBLAS where it is, unless GYRE_BLAS=own (cuda_dense.cu). Comes once the queue is
 * made, and close before the queue's end. GYRE_UNSUPPORTED: cuBLAS is there and fails. */
int gyre_cuda_open_products(struct gyre_cuda_processor *cuda, struct gyre_trouble *trouble);
void gyre_cuda_close_products(struct gyre_cuda_processor *cuda);

/* cuBLASLt beside it, with workspace of the device. NULL: it is not there, or there is no memory.
 * Multiply comes in the device's context; false: nothing was done, and *status stays. */
bool gyre_cuda_fused_takes(struct gyre_cuda_fused *fused, const struct gyre_product *product,
                           enum gyre_precision precision, const struct gyre_epilogue *then);
struct gyre_cuda_fused *gyre_cuda_fused_open(void *blas, void *workspace, size_t bytes);
void gyre_cuda_fused_close(struct gyre_cuda_fused *fused); /* takes NULL */
bool gyre_cuda_fused_multiply(struct gyre_cuda_fused *fused, const struct gyre_product *product,
                              enum gyre_precision precision, const struct gyre_epilogue *then,
                              void *stream, int *status);

/* The kernels' entries, put into the table; false where CUDA is not built in. */
bool gyre_cuda_fill_elements(struct gyre_processor_table *table);
bool gyre_cuda_fill_images(struct gyre_processor_table *table);
bool gyre_cuda_fill_dense(struct gyre_processor_table *table);
bool gyre_cuda_fill_gradients(struct gyre_processor_table *table);
bool gyre_cuda_fill_steps(struct gyre_processor_table *table);

/* Load the kernels on the calling thread's current device, as gyre_reduce_cuda_load() does. */
void gyre_cuda_load_elements(void);
void gyre_cuda_load_images(void);
void gyre_cuda_load_dense(void);
void gyre_cuda_load_gradients(void);
void gyre_cuda_load_steps(void);

#ifdef __cplusplus
}
#endif

#endif
