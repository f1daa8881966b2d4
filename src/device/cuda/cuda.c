/* CUDA memory as a device: its table of functions, and queues.
 *
 * A queue is a stream, and a ring of as many events as posts may be pending. Each post is followed
 * by its event. query() looks at the oldest events, so tokens are reported in the order of posts:
 *
 *     post       stream: copy ▶ record 5 ▶ fold ▶ record 6        ring:  5 6
 *     query      event 5 reached, event 6 not ready yet                  └─ token of 5
 *
 * The stream does not synchronise with the default one; streams.c has its relations to the
 * caller's.
 *
 * Streams of one priority may share a queue of the hardware. A stream that is held there delays the
 * streams filled after it: even the queue's own work, for which the host waits before it releases
 * the held stream. So a queue has the highest priority, which a caller's stream rarely has, and a
 * queue that waits for streams has the next.
 *
 * A fold gets the stream and launches its kernels there, in the device's context.
 *
 * An error that work meets while it runs takes the device from this process. A queue that has seen
 * one is dead: query() and every post return its status, and the log has the sentence. */
#include "device/cuda/queue.h"

#include "base/log.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>

/* -- queues ------------------------------------------------------------------------------------ */

/* Fills a queue, in the device's context; leaves a half-made one to destroy. */
static int fill_queue(struct gyre_device_queue *queue, bool waits, struct gyre_trouble *trouble)
{
    int least = 0, priority = 0;
    CUresult error = gyre_cuda->cuCtxGetStreamPriorityRange(&least, &priority);
    if (waits && priority < least)
        priority++;
    if (!error)
        error =
            gyre_cuda->cuStreamCreateWithPriority(&queue->stream, CU_STREAM_NON_BLOCKING, priority);
    if (error)
        return gyre_cuda_failed(error, queue->device, trouble, "cuStreamCreateWithPriority");
    error = gyre_cuda->cuEventCreate(&queue->gate, CU_EVENT_DISABLE_TIMING);
    for (uint32_t i = 0; i < GYRE_DEVICE_POSTS && !error; i++)
        error = gyre_cuda->cuEventCreate(&queue->ring[i].event, CU_EVENT_DISABLE_TIMING);
    return gyre_cuda_failed(error, queue->device, trouble, "cuEventCreate");
}

static void cuda_queue_destroy(struct gyre_device_queue *queue)
{
    if (queue && gyre_cuda_enter(queue->device, NULL) == 0) {
        if (queue->stream) /* posted work may still write buffers */
            gyre_cuda->cuStreamSynchronize(queue->stream);
        (void)gyre_cuda_keep(queue, NULL, NULL);
        if (queue->recorder)
            gyre_cuda->cuStreamDestroy(queue->recorder);
        gyre_cuda_detours_free(queue->detours);
        for (uint32_t i = 0; i < GYRE_DEVICE_POSTS && queue->ring[i].event; i++)
            gyre_cuda->cuEventDestroy(queue->ring[i].event);
        if (queue->gate)
            gyre_cuda->cuEventDestroy(queue->gate);
        if (queue->stream)
            gyre_cuda->cuStreamDestroy(queue->stream);
        gyre_cuda_leave();
    }
    free(queue);
}

static int create_queue(int device, bool waits, struct gyre_device_queue **queue,
                        struct gyre_trouble *trouble)
{
    *queue = NULL;
    int status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    struct gyre_device_queue *fresh = calloc(1, sizeof *fresh);
    if (fresh) {
        fresh->device = device;
        status = fill_queue(fresh, waits, trouble);
    } else {
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for a queue of %u posts",
                                  GYRE_DEVICE_POSTS);
    }
    gyre_cuda_leave();
    if (status)
        cuda_queue_destroy(fresh);
    else
        *queue = fresh;
    return status;
}

static int cuda_queue_create(int device, struct gyre_device_queue **queue,
                             struct gyre_trouble *trouble)
{
    return create_queue(device, false, queue, trouble);
}

static void *cuda_native(struct gyre_device_queue *queue)
{
    return queue->stream;
}

static int cuda_waiter_create(int device, struct gyre_device_queue **queue,
                              struct gyre_trouble *trouble)
{
    return create_queue(device, true, queue, trouble);
}

/* -- posting ----------------------------------------------------------------------------------- */

/* Tells the log about an error; `deadly` where the queue cannot go on. */
static int note_error(struct gyre_device_queue *queue, CUresult error, const char *call,
                      bool deadly)
{
    struct gyre_trouble trouble = {0};
    int status = gyre_cuda_failed(error, queue->device, &trouble, "%s", call);
    if (status)
        gyre_log(GYRE_LOG_ERROR, "%s", trouble.text);
    if (deadly)
        queue->status = status;
    return status;
}

/* Begins a post. 0 in the device's context, if the queue takes one more. */
static int begin_post(struct gyre_device_queue *queue)
{
    if (queue->status)
        return queue->status;
    if (queue->posted - queue->reported == GYRE_DEVICE_POSTS)
        return -EAGAIN;
    return gyre_cuda_enter(queue->device, NULL);
}

static int end_post(struct gyre_device_queue *queue, uint64_t token)
{
    struct gyre_cuda_pending *slot = &queue->ring[queue->posted % GYRE_DEVICE_POSTS];
    int status = note_error(queue, gyre_cuda->cuEventRecord(slot->event, queue->stream),
                            "cuEventRecord", true);
    slot->token = token;
    if (!status)
        queue->posted++;
    return status;
}

/* Copies between two devices. A driver that refuses the copy, which is tried before it is relied
 * on, leaves the queue alive. */
static int copy_apart(struct gyre_device_queue *queue, CUdeviceptr to, CUdeviceptr from,
                      uint64_t length)
{
    CUresult error =
        gyre_cuda_apart_copy(&queue->detours, queue->device, queue->stream, to, from, length);
    int status =
        note_error(queue, error, "copying between devices that do not reach each other", false);
    return status && status != -EIO ? GYRE_UNSUPPORTED : status;
}

static int post_copy(struct gyre_device_queue *queue, CUdeviceptr to, CUdeviceptr from,
                     uint64_t length)
{
    if (gyre_cuda_apart(queue->device, to, from))
        return copy_apart(queue, to, from, length);
    return note_error(queue, gyre_cuda->cuMemcpyAsync(to, from, length, queue->stream),
                      "cuMemcpyAsync", false);
}

static int cuda_copy(struct gyre_device_queue *queue, void *to, const void *from, uint64_t length,
                     uint64_t token)
{
    int status = length ? begin_post(queue) : 1;
    if (status)
        return status;
    status = post_copy(queue, (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, length);
    if (!status)
        status = end_post(queue, token);
    gyre_cuda_leave();
    return status;
}

/* Runs a fold. A fold returns nothing: the runtime keeps the error of a launch. An error from
 * before must not be mistaken for the launch's. */
static int cuda_reduce(struct gyre_device_queue *queue, gyre_fold fold,
                       const struct gyre_fold_task *task, uint64_t token)
{
    int status = begin_post(queue);
    if (status)
        return status;
    cudaGetLastError();
    fold(task, queue->stream);
    status = note_error(queue, (CUresult)cudaGetLastError(), "launching a fold", false);
    if (!status)
        status = end_post(queue, token);
    gyre_cuda_leave();
    return status;
}

static int cuda_launch(struct gyre_device_queue *queue,
                       void (*post)(void *native_queue, const void *context), const void *context)
{
    int status = queue->status ? queue->status : gyre_cuda_enter(queue->device, NULL);
    if (status)
        return status;
    CUresult error = gyre_cuda_post_launch(queue, post, context);
    status = note_error(queue, error, "launching a kernel", false);
    gyre_cuda_leave();
    return status;
}

static int cuda_mark(struct gyre_device_queue *queue, uint64_t token)
{
    int status = begin_post(queue);
    if (status)
        return status;
    status = end_post(queue, token);
    gyre_cuda_leave();
    return status;
}

/* -- completions ------------------------------------------------------------------------------- */

static int look_at_queue(struct gyre_device_queue *queue, uint64_t *token, int max)
{
    int count = 0;
    while (count < max && queue->reported != queue->posted) {
        const struct gyre_cuda_pending *oldest = &queue->ring[queue->reported % GYRE_DEVICE_POSTS];
        CUresult error = gyre_cuda->cuEventQuery(oldest->event);
        if (error == CUDA_ERROR_NOT_READY)
            break;
        if (error)
            return count ? count : note_error(queue, error, "work on a queue", true);
        token[count++] = oldest->token;
        queue->reported++;
    }
    return count;
}

static int cuda_query(struct gyre_device_queue *queue, uint64_t *token, int max)
{
    if (queue->status)
        return queue->status;
    gyre_cuda_relax();
    int count = look_at_queue(queue, token, max);
    gyre_cuda_unrelax();
    return count;
}

static int cuda_serves(struct gyre_device_queue *queue)
{
    if (queue->status)
        return queue->status;
    gyre_cuda_relax();
    CUresult error = gyre_cuda->cuStreamQuery(queue->stream);
    gyre_cuda_unrelax();
    return error == CUDA_ERROR_NOT_READY ? 0 : note_error(queue, error, "work on a stream", true);
}

static const struct gyre_device device = {
    .name = "cuda",
    .kind = GYRE_MEMORY_CUDA,
    .probe = gyre_cuda_load,
    .identify = gyre_cuda_identify,
    .able = gyre_cuda_able,
    .reaches = gyre_cuda_reaches,
    .exports = gyre_cuda_exports,
    .current = gyre_cuda_current,
    .alloc = gyre_cuda_alloc,
    .free = gyre_cuda_free,
    .import = gyre_cuda_import,
    .unimport = gyre_cuda_unimport,
    .adopt = gyre_cuda_adopt,
    .detach = gyre_cuda_detach,
    .pin = gyre_cuda_pin,
    .unpin = gyre_cuda_unpin,
    .dma_buf = gyre_cuda_dma_buf,
    .flush = gyre_cuda_flush,
    .classify = gyre_cuda_classify,
    .admit = gyre_cuda_admit,
    .recognise = gyre_cuda_recognise,
    .prepare = gyre_cuda_prepare,
    .queue_create = cuda_queue_create,
    .waiter_create = cuda_waiter_create,
    .queue_destroy = cuda_queue_destroy,
    .native = cuda_native,
    .copy = cuda_copy,
    .reduce = cuda_reduce,
    .launch = cuda_launch,
    .record = gyre_cuda_record,
    .keep = gyre_cuda_keep,
    .repeat = gyre_cuda_repeat,
    .prepare_graph = gyre_cuda_prepare_graph,
    .graph_free = gyre_cuda_graph_free,
    .mark = cuda_mark,
    .after = gyre_cuda_after,
    .hold = gyre_cuda_hold,
    .check_stream = gyre_cuda_check_stream,
    .copy_on = gyre_cuda_copy_on,
    .words_on = gyre_cuda_words_on,
    .fold_on = gyre_cuda_fold_on,
    .serves = cuda_serves,
    .query = cuda_query,
};

extern const struct gyre_device *const gyre_device_cuda;

const struct gyre_device *const gyre_device_cuda = &device;
