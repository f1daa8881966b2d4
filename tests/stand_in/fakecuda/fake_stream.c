/* The calls that make streams and events and put work on them; fake_work.c does it. */
#include "fake_work.h"

#include <stdlib.h>
#include <string.h>

enum { GREATEST = -5, FUNCTIONS = 1024 };

struct function {
    const void *function;
    unsigned loaded; /* a bit per device */
    int arguments;
    size_t bytes[ARGUMENTS];
};

static struct function functions[FUNCTIONS];
static _Thread_local CUstreamCaptureMode capture_mode;

/* -- streams ----------------------------------------------------------------------------------- */

static CUstream add(int priority)
{
    struct CUctx_st *device = fake_current();
    struct CUstream_st *fresh = calloc(1, sizeof *fresh);
    fresh->device = device->device;
    fresh->priority = priority;
    fresh->last = &fresh->first;
    fresh->next = device->streams;
    device->streams = fresh;
    return fresh;
}

static CUresult create(CUstream *stream, unsigned int flags, int priority)
{
    if (!(flags & CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE; /* it would wait for the default stream */
    fake_linger();
    *stream = add(priority);
    fake_counts.streams++;
    return CUDA_SUCCESS;
}

/* Each device has one, and one for each thread; no stream blocks, so the first is like the
 * others. */
CUstream fake_named(CUstream stream)
{
    static CUstream legacy[FAKE_DEVICES];
    static _Thread_local CUstream own[FAKE_DEVICES];
    CUstream *named = stream == CU_STREAM_LEGACY ? legacy : own;
    if ((stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) || !fake_current())
        return stream;
    int device = fake_current()->device;
    if (!named[device])
        named[device] = add(0);
    return named[device];
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    return fake_end(status ? status : create(stream, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (priority > 0 || priority < GREATEST))
        status = CUDA_ERROR_INVALID_VALUE; /* a driver takes the nearest */
    return fake_end(status ? status : create(stream, flags, priority));
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    *least = 0;
    *greatest = GREATEST;
    return fake_end(status);
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !fake_alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status) {
        stream->destroyed = true;
        fake_counts.streams--;
        fake_remove_ended(&fake_device[stream->device]);
    }
    return fake_end(status);
}

CUresult cuStreamQuery(CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    stream = fake_named(stream);
    if (!status && !fake_alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        status = fake_device[stream->device].lost;
    if (!status && (stream->first || stream->busy))
        status = CUDA_ERROR_NOT_READY;
    return fake_end(status);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    if (!status && !fake_alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status) {
        struct CUctx_st *device = &fake_device[stream->device];
        while ((stream->first || stream->busy) && !device->lost &&
               !fake_skips("cuStreamSynchronize"))
            pthread_cond_wait(&fake_done, &fake_lock);
        status = device->lost;
    }
    return fake_end(status);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, cuuint64_t value,
                             unsigned int flags)
{
    struct job job = {.kind = VALUE, .to = word, .number = value};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    if (!status && (flags != CU_STREAM_WAIT_VALUE_GEQ || word % sizeof value ||
                    !fake_locked(word, sizeof value)))
        status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status || fake_skips("cuStreamWaitValue64") ? status : fake_post(stream, &job));
}

static CUresult post_word(CUstream stream, enum job_kind kind, CUdeviceptr word, cuuint64_t value)
{
    struct job job = {.kind = kind, .to = word, .number = value};
    if (word % sizeof value || !fake_locked(word, sizeof value))
        return CUDA_ERROR_INVALID_VALUE;
    return fake_post(stream, &job);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr word, cuuint64_t value,
                              unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    if (!status && flags != CU_STREAM_WRITE_VALUE_DEFAULT)
        status = CUDA_ERROR_INVALID_VALUE; /* what was written before need not be seen before */
    return fake_end(status || fake_skips("cuStreamWriteValue64")
                        ? status
                        : post_word(stream, WRITE, word, value));
}

/* All of them in their order. */
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams *operations, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    if (!status && (flags || !count || count > 256))
        status = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !status; i++)
        if (operations[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 &&
            operations[i].waitValue.flags == CU_STREAM_WAIT_VALUE_GEQ)
            status = post_word(stream, VALUE, operations[i].waitValue.address,
                               operations[i].waitValue.value64);
        else if (operations[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 &&
                 operations[i].writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT)
            status = post_word(stream, WRITE, operations[i].writeValue.address,
                               operations[i].writeValue.value64);
        else
            status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status);
}

static bool captures(int device)
{
    for (CUstream s = fake_device[device].streams; s; s = s->next)
        if (s->captured)
            return true;
    return false;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *capture)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    bool legacy = stream == CU_STREAM_LEGACY;
    stream = fake_named(stream);
    if (!status && !fake_alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status && legacy && captures(stream->device))
        status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!status)
        *capture =
            stream->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return fake_end(status);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    stream = fake_named(stream);
    if (!status && !fake_alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        *context = &fake_device[stream->device];
    return fake_end(status);
}

void fakecuda_capture(CUstream stream, bool capture)
{
    pthread_mutex_lock(&fake_lock);
    stream->captured = capture;
    stream->mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (capture)
        stream->spoiled = false;
    pthread_mutex_unlock(&fake_lock);
}

bool fakecuda_spoiled(CUstream stream)
{
    pthread_mutex_lock(&fake_lock);
    bool spoiled = stream->spoiled;
    pthread_mutex_unlock(&fake_lock);
    return spoiled;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    CUstreamCaptureMode before = capture_mode;
    if (!status && !fake_skips("cuThreadExchangeStreamCaptureMode")) {
        capture_mode = *mode;
        *mode = before;
    }
    return fake_end(status);
}

bool fake_spoils(void)
{
    bool spoils = false;
    for (int i = 0; i < FAKE_DEVICES && capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL; i++)
        for (CUstream s = fake_device[i].streams; s; s = s->next)
            if (s->captured && s->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
                spoils = s->spoiled = true;
    return spoils;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream)
{
    struct job job = {.kind = COPY, .to = to, .from = from, .length = length};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    return fake_end(status ? status : fake_post(stream, &job));
}

/* Of device memory only, whether or not the devices reach each other. */
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext into, CUdeviceptr from, CUcontext out_of,
                           size_t length, CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (!into || !out_of || !into->retained || !out_of->retained))
        status = CUDA_ERROR_INVALID_CONTEXT;
    if (status)
        return fake_end(status);
    struct job job = {.kind = COPY,
                      .to = to,
                      .from = from,
                      .length = length,
                      .between = true,
                      .into = into->device,
                      .out_of = out_of->device};
    stream = fake_named(stream);
    return fake_end(fake_post(stream, &job));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t length, CUstream stream)
{
    struct job job = {.kind = SET, .to = to, .length = length, .value = value};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    return fake_end(status ? status : fake_post(stream, &job));
}

/* -- fake_events
 * ------------------------------------------------------------------------------------ */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status) {
        *event = calloc(1, sizeof **event);
        (*event)->device = fake_current()->device;
        (*event)->references = 1;
        (*event)->next = fake_events;
        fake_events = *event;
        fake_counts.events++;
    }
    return fake_end(status);
}

CUresult cuEventDestroy(CUevent event)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status) {
        fake_drop_event(event);
        fake_counts.events--;
    }
    return fake_end(status);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    if (!status && (!fake_alive(stream) || stream->device != event->device))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status && !fake_skips("cuEventRecord")) {
        struct job job = {.kind = RECORD, .event = event, .number = ++event->asked};
        status = fake_post(stream, &job);
    }
    return fake_end(status);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    struct job job = {.kind = WAIT, .event = event, .number = event->asked};
    return fake_end(status || fake_skips("cuStreamWaitEvent") ? status : fake_post(stream, &job));
}

CUresult cuEventQuery(CUevent event)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        status = fake_device[event->device].lost;
    if (!status && !fake_event_reached(event, event->asked) && !fake_skips("cuEventQuery"))
        status = CUDA_ERROR_NOT_READY;
    return fake_end(status);
}

/* -- kernels ----------------------------------------------------------------------------------- */

void fake_kernel_register(const void *function, const size_t *argument_bytes, int arguments)
{
    pthread_mutex_lock(&fake_lock);
    int at = 0;
    while (at < FUNCTIONS && functions[at].function && functions[at].function != function)
        at++;
    if (at == FUNCTIONS || arguments > ARGUMENTS)
        abort();
    functions[at].function = function;
    functions[at].arguments = arguments;
    memcpy(functions[at].bytes, argument_bytes, (size_t)arguments * sizeof *argument_bytes);
    pthread_mutex_unlock(&fake_lock);
}

static struct function *registered(const void *function)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (functions[i].function && functions[i].function == function)
            return &functions[i];
    return NULL;
}

/* Modules are loaded lazily: what has not been asked for on this device is loaded by its first
 * launch, which may wait for all that the device has to do. */
static void load(struct function *known, const char *name)
{
    unsigned bit = 1U << fake_current()->device;
    if (!(known->loaded & bit))
        fake_synchronise(name);
    known->loaded |= bit;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    struct function *known = registered(function);
    memset(attributes, 0, sizeof *attributes);
    if (!status && !known)
        status = (CUresult)cudaErrorInvalidDeviceFunction;
    if (!status)
        load(known, __func__);
    fake_end(status);
    fake_error((cudaError_t)status);
    return (cudaError_t)status;
}

/* The arguments are copied now: their owner may change them as soon as this returns. */
CUresult fake_launch(CUstream stream, const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes)
{
    struct job job = {.kind = KERNEL,
                      .function = function,
                      .grid = grid,
                      .block = block,
                      .shared_bytes = shared_bytes};
    struct function *known = registered(function);
    stream = fake_named(stream);
    if (!known)
        return CUDA_ERROR_NOT_FOUND;
    if (!fake_alive(stream) || stream->device != fake_current()->device)
        return CUDA_ERROR_INVALID_HANDLE;
    load(known, "the first launch of a kernel");
    size_t used = 0;
    for (int i = 0; i < known->arguments; i++) {
        if (used + known->bytes[i] > ARGUMENT_BYTES)
            return CUDA_ERROR_INVALID_VALUE;
        job.argument[i] = memcpy(job.bytes + used, arguments[i], known->bytes[i]);
        used += (known->bytes[i] + 15) / 16 * 16;
    }
    return fake_post(stream, &job);
}

__attribute__((weak)) void fake_kernel_run(const void *function, dim3 grid, dim3 block,
                                           void **arguments, size_t shared_bytes)
{
    void (*call)(void **);
    memcpy(&call, &function, sizeof call);
    call(arguments);
}
