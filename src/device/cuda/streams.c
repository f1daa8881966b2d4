/* A CUDA queue and the caller's own streams, of the same device.
 *
 * after() makes the queue wait for the work on the caller's stream; NULL is no work, and the
 * default stream is CU_STREAM_LEGACY here. hold() is the way back: the caller's stream waits for a
 * word of host memory, so the host, not a kernel, decides when the stream goes on.
 *
 *     the caller's stream   work ─▶ gate ···▶ held until *word ≥ value ─▶ work
 *     the queue's stream             └─▶ copy ─▶ fold ─▶ … (query) ─┘ a store of the host's
 *
 * fold_on() puts a kernel on the caller's stream itself. Nothing waits there, so the kernel may be
 * part of a graph, too. */
#include "device/cuda/queue.h"

#include <cuda_runtime_api.h>

#define WORDS_AT_ONCE 130 /* the driver takes 256 */

/* Refuses a stream that is being captured. It would draw the queue's stream into its graph, and
 * every launch of the graph would repeat the wait. */
static int check_capture(const struct gyre_device_queue *queue, CUstream foreign,
                         struct gyre_trouble *trouble)
{
    CUstreamCaptureStatus capture;
    CUresult error = gyre_cuda->cuStreamIsCapturing(foreign, &capture);
    if (error)
        return gyre_cuda_failed(error, queue->device, trouble,
                                "cuStreamIsCapturing of the caller's stream");
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "the caller's stream is being captured into a CUDA graph: an "
                                "operation is no part of one, start it outside the capture");
    return 0;
}

static int check_owner(const struct gyre_device_queue *queue, CUstream foreign,
                       struct gyre_trouble *trouble)
{
    CUcontext own, its;
    CUresult error = gyre_cuda->cuStreamGetCtx(foreign, &its);
    if (!error)
        error = gyre_cuda->cuStreamGetCtx(queue->stream, &own);
    if (error)
        return gyre_cuda_failed(error, queue->device, trouble,
                                "cuStreamGetCtx of the caller's stream");
    if (its != own)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the caller's stream is not of CUDA device %d, whose memory is "
                                "used: give a stream of its primary context",
                                queue->device);
    return 0;
}

/* Checks that streams can wait for words of memory, before anything starts that relies on
 * hold(). */
static int check_stream_words(const struct gyre_device_queue *queue, struct gyre_trouble *trouble)
{
    int supported = 0;
    CUdevice handle;
    if (gyre_cuda->cuDeviceGet(&handle, queue->device) ||
        gyre_cuda->cuDeviceGetAttribute(
            &supported, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, handle) ||
        supported)
        return 0;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "streams of CUDA device %d cannot wait for a word of the host's "
                            "(CAN_USE_64_BIT_STREAM_MEM_OPS is 0): synchronise the stream and "
                            "make the call that blocks",
                            queue->device);
}

/* Begins a call for a caller's stream. 0 in the device's context, if the queue is alive and the
 * stream is of its device. */
static int begin_foreign(struct gyre_device_queue *queue, CUstream foreign, bool captured,
                         struct gyre_trouble *trouble)
{
    if (queue->status)
        return gyre_trouble_set(trouble, queue->status,
                                "CUDA device %d has failed before: the log says how",
                                queue->device);
    int status = gyre_cuda_enter(queue->device, trouble);
    if (status)
        return status;
    if (!captured)
        status = check_capture(queue, foreign, trouble);
    if (!status)
        status = check_owner(queue, foreign, trouble);
    if (status)
        gyre_cuda_leave();
    return status;
}

int gyre_cuda_after(struct gyre_device_queue *queue, void *foreign, struct gyre_trouble *trouble)
{
    if (!foreign)
        return queue->status;
    int status = check_stream_words(queue, trouble);
    if (!status)
        status = begin_foreign(queue, foreign, false, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuEventRecord(queue->gate, foreign);
    status =
        gyre_cuda_failed(error, queue->device, trouble, "cuEventRecord on the caller's stream");
    if (!status) {
        error = gyre_cuda->cuStreamWaitEvent(queue->stream, queue->gate, CU_EVENT_WAIT_DEFAULT);
        status = gyre_cuda_failed(error, queue->device, trouble, "cuStreamWaitEvent");
    }
    gyre_cuda_leave();
    return status;
}

int gyre_cuda_hold(struct gyre_device_queue *queue, void *foreign, const gyre_device_word *word,
                   uint64_t value, struct gyre_trouble *trouble)
{
    CUdeviceptr at;
    if (!foreign)
        return queue->status;
    int status = begin_foreign(queue, foreign, false, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemHostGetDevicePointer(&at, (void *)(uintptr_t)word, 0);
    status = gyre_cuda_failed(error, queue->device, trouble,
                              "cuMemHostGetDevicePointer of the word that releases a stream");
    if (!status) {
        error = gyre_cuda->cuStreamWaitValue64(foreign, at, value, CU_STREAM_WAIT_VALUE_GEQ);
        status = gyre_cuda_failed(error, queue->device, trouble,
                                  "cuStreamWaitValue64 on the caller's stream");
    }
    gyre_cuda_leave();
    return status;
}

/* -- work on the caller's stream itself -------------------------------------------------------- */

int gyre_cuda_check_stream(struct gyre_device_queue *queue, void *foreign, bool *captured,
                           struct gyre_trouble *trouble)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    int status = check_stream_words(queue, trouble);
    if (!status)
        status = begin_foreign(queue, foreign, true, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuStreamIsCapturing(foreign, &capture);
    gyre_cuda_leave();
    *captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return gyre_cuda_failed(error, queue->device, trouble,
                            "cuStreamIsCapturing of the caller's stream");
}

int gyre_cuda_copy_on(struct gyre_device_queue *queue, void *foreign, void *to, const void *from,
                      uint64_t length, struct gyre_trouble *trouble)
{
    int status = gyre_cuda_enter(queue->device, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
                                              (CUdeviceptr)(uintptr_t)from, length, foreign);
    gyre_cuda_leave();
    return gyre_cuda_failed(error, queue->device, trouble, "cuMemcpyAsync on the caller's stream");
}

static void describe_word(const struct gyre_stream_word *word, CUstreamBatchMemOpParams *operation)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word->word;
    *operation = (CUstreamBatchMemOpParams){0};
    if (word->writes) {
        operation->operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        operation->writeValue.address = at;
        operation->writeValue.value64 = word->value;
        operation->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    } else {
        operation->operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        operation->waitValue.address = at;
        operation->waitValue.value64 = word->value;
        operation->waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    }
}

/* Pinned memory has the host's address on the device: gyre_cuda_pin() looks. */
int gyre_cuda_words_on(struct gyre_device_queue *queue, void *foreign,
                       const struct gyre_stream_word *word, uint32_t words,
                       struct gyre_trouble *trouble)
{
    CUstreamBatchMemOpParams operation[WORDS_AT_ONCE];
    CUresult error = CUDA_SUCCESS;
    int status = gyre_cuda_enter(queue->device, trouble);
    if (status)
        return status;
    while (words && !error) {
        uint32_t count = words < WORDS_AT_ONCE ? words : WORDS_AT_ONCE;
        for (uint32_t i = 0; i < count; i++)
            describe_word(&word[i], &operation[i]);
        error = gyre_cuda->cuStreamBatchMemOp(foreign, count, operation, 0);
        word += count;
        words -= count;
    }
    gyre_cuda_leave();
    return gyre_cuda_failed(error, queue->device, trouble,
                            "cuStreamBatchMemOp on the caller's stream");
}

/* Runs a fold on the caller's stream. An error from before must not be mistaken for the
 * launch's. */
int gyre_cuda_fold_on(struct gyre_device_queue *queue, void *foreign, gyre_fold fold,
                      const struct gyre_fold_task *task, struct gyre_trouble *trouble)
{
    int status = begin_foreign(queue, foreign, true, trouble);
    if (status)
        return status;
    cudaGetLastError();
    fold(task, foreign);
    status = gyre_cuda_failed((CUresult)cudaGetLastError(), queue->device, trouble,
                              "launching a kernel on the caller's stream");
    gyre_cuda_leave();
    return status;
}
