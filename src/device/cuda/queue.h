/* The queue of a CUDA device, for cuda.c, which fills it, streams.c, which makes it wait for the
 * caller's streams and the caller's streams for the host, and graphs.c, which records it. */
#ifndef GYRE_DEVICE_CUDA_QUEUE_H
#define GYRE_DEVICE_CUDA_QUEUE_H

#include "device/cuda/inside.h"

struct gyre_cuda_pending {
    CUevent event;
    uint64_t token;
};

struct gyre_device_queue {
    int device;
    int status; /* negative: dead */
    CUstream stream;
    CUevent gate;        /* recorded on the caller's streams */
    CUstream recorder;   /* captures what is launched; NULL: nothing was ever recorded */
    bool recording;      /* it does so now */
    CUresult unrecorded; /* the first launch that the recorder has not taken */
    struct gyre_cuda_detour *detours;
    uint32_t posted, reported;
    struct gyre_cuda_pending ring[GYRE_DEVICE_POSTS];
};

/* The entries of struct gyre_device for the caller's streams. */
int gyre_cuda_after(struct gyre_device_queue *queue, void *foreign, struct gyre_trouble *trouble);
int gyre_cuda_hold(struct gyre_device_queue *queue, void *foreign, const gyre_device_word *word,
                   uint64_t value, struct gyre_trouble *trouble);
int gyre_cuda_check_stream(struct gyre_device_queue *queue, void *foreign, bool *captured,
                           struct gyre_trouble *trouble);
int gyre_cuda_copy_on(struct gyre_device_queue *queue, void *foreign, void *to, const void *from,
                      uint64_t length, struct gyre_trouble *trouble);
int gyre_cuda_words_on(struct gyre_device_queue *queue, void *foreign,
                       const struct gyre_stream_word *word, uint32_t words,
                       struct gyre_trouble *trouble);
int gyre_cuda_fold_on(struct gyre_device_queue *queue, void *foreign, gyre_fold fold,
                      const struct gyre_fold_task *task, struct gyre_trouble *trouble);

/* The entries of struct gyre_device for graphs (graphs.c). The launch itself is made there, too:
 * its error. */
CUresult gyre_cuda_post_launch(struct gyre_device_queue *queue,
                               void (*post)(void *native_queue, const void *context),
                               const void *context);
int gyre_cuda_record(struct gyre_device_queue *queue, struct gyre_trouble *trouble);
int gyre_cuda_keep(struct gyre_device_queue *queue, struct gyre_device_graph **graph,
                   struct gyre_trouble *trouble);
int gyre_cuda_prepare_graph(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                            struct gyre_trouble *trouble);
int gyre_cuda_repeat(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                     struct gyre_trouble *trouble);
void gyre_cuda_graph_free(struct gyre_device_graph *graph);

#endif
