/* Streams, events, and the thread of each device that does what is ready.
 *
 *     stream a   copy ─▶ record e ─▶ kernel        ready: the first of each stream, unless it waits
 *     stream b   wait e ─▶ set                     for an event; dice choose among the streams
 *
 * A stream may wait for a word of the host's, too. Work is done one piece at a time, without the lock. A piece that fails loses the device: what is
 * queued on it never happens, and every call returns that error. */
#include "fake_parts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 30000, FUNCTIONS = 1024, ARGUMENTS = 8, ARGUMENT_BYTES = 4096 };

enum job_kind { COPY, SET, KERNEL, RECORD, WAIT, VALUE };

struct job {
    enum job_kind kind;
    struct job *next;
    uint64_t to, from, length, number;
    unsigned char value;
    CUevent event;
    const void *function;
    dim3 grid, block;
    size_t shared_bytes;
    void *argument[ARGUMENTS];
    char bytes[ARGUMENT_BYTES]; /* what the arguments point to; 16-byte places */
};

struct CUstream_st {
    int device;
    bool busy, destroyed, captured;
    struct job *first, **last;
    struct CUstream_st *next;
};

struct CUevent_st {
    int device;
    int references; /* jobs, and the application until it destroys the event */
    uint64_t asked, reached;
    CUevent next;
};

struct function {
    const void *function;
    int arguments;
    size_t bytes[ARGUMENTS];
};

static struct function functions[FUNCTIONS];
static CUevent events; /* so that one which nobody destroys is no leak of the stand-in */

/* -- doing work -------------------------------------------------------------------------------- */

static void drop_event(CUevent event)
{
    if (!event || --event->references)
        return;
    CUevent *link = &events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    free(event);
}

/* A copy, or a set where there is no source. */
static CUresult move(const struct job *job, const char *name)
{
    struct fake_place to, from = {NULL, NULL};
    pthread_mutex_lock(&fake_lock);
    CUresult status = fake_planned(name);
    CUresult wrong = fake_visit(job->to, job->length, &to);
    if (!wrong && job->from && (wrong = fake_visit(job->from, job->length, &from)))
        fake_leave(&to);
    pthread_mutex_unlock(&fake_lock);
    if (wrong)
        return wrong;
    if (from.at)
        memmove(to.at, from.at, job->length);
    else
        memset(to.at, job->value, job->length);
    pthread_mutex_lock(&fake_lock);
    CUresult freed = fake_leave(&to);
    if (fake_leave(&from))
        freed = CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&fake_lock);
    return status ? status : freed;
}

static CUresult kernel(struct job *job)
{
    pthread_mutex_lock(&fake_lock);
    CUresult status = fake_planned("kernel");
    if (!status)
        fake_open_memory();
    pthread_mutex_unlock(&fake_lock);
    if (status)
        return status;
    fake_kernel_run(job->function, job->grid, job->block, job->argument, job->shared_bytes);
    pthread_mutex_lock(&fake_lock);
    fake_close_memory();
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

static CUresult run(struct job *job, unsigned delay_us)
{
    if (delay_us)
        usleep(delay_us);
    switch (job->kind) {
    case COPY:
        return move(job, "copy");
    case SET:
        return move(job, "set");
    case KERNEL:
        return kernel(job);
    case VALUE:
        return job->to ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* Whether a word of the host's is large enough; one that was unlocked meanwhile is found at once,
 * and forgotten. */
static bool released(struct job *job)
{
    if (!fake_locked(job->to, sizeof(uint64_t)))
        job->to = 0;
    return !job->to ||
           (int64_t)(atomic_load((_Atomic uint64_t *)(uintptr_t)job->to) - job->number) >= 0;
}

static bool ready(const struct CUstream_st *stream)
{
    struct job *job = stream->first;
    if (!job)
        return false;
    return job->kind == WAIT    ? job->event->reached >= job->number
           : job->kind == VALUE ? released(job)
                                : true;
}

static struct CUstream_st *choose(struct CUctx_st *device)
{
    uint64_t count = 0;
    for (CUstream s = device->streams; s; s = s->next)
        count += ready(s);
    if (!count || fake_held)
        return NULL;
    uint64_t chosen = fake_roll(device, count);
    for (CUstream s = device->streams; s; s = s->next)
        if (ready(s) && chosen-- == 0)
            return s;
    return NULL;
}

static struct job *take_first(struct CUstream_st *stream)
{
    struct job *job = stream->first;
    stream->first = job->next;
    if (!stream->first)
        stream->last = &stream->first;
    return job;
}

static void remove_ended(struct CUctx_st *device)
{
    for (CUstream *s = &device->streams; *s;) {
        CUstream stream = *s;
        if (stream->destroyed && !stream->first && !stream->busy) {
            *s = stream->next;
            free(stream);
        } else {
            s = &stream->next;
        }
    }
}

static void lose(struct CUctx_st *device, CUresult error)
{
    device->lost = error;
    for (CUstream s = device->streams; s; s = s->next)
        while (s->first) {
            struct job *job = take_first(s);
            drop_event(job->event);
            free(job);
        }
}

/* An event may be waited for on other devices. */
static void wake_all(void)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        if (fake_device[i].retained)
            pthread_cond_signal(&fake_device[i].work);
    pthread_cond_broadcast(&fake_done);
}

static void serve(struct CUctx_st *device, struct CUstream_st *stream)
{
    struct job *job = take_first(stream);
    unsigned most = fake_settings.delay_us;
    unsigned delay_us = most ? (unsigned)fake_roll(device, most + 1) : 0;
    stream->busy = true;
    pthread_mutex_unlock(&fake_lock);
    CUresult status = run(job, delay_us);
    pthread_mutex_lock(&fake_lock);
    stream->busy = false;
    if (job->kind == RECORD && job->event->reached < job->number)
        job->event->reached = job->number;
    drop_event(job->event);
    free(job);
    if (status)
        lose(device, status);
    remove_ended(device);
    wake_all();
}

/* Nobody tells when the host writes a word, so whoever waits for one looks every so often. */
static void sleep_for_work(struct CUctx_st *device)
{
    struct timespec until;
    bool watching = false;
    for (CUstream s = device->streams; s && !fake_held; s = s->next)
        watching |= s->first && s->first->kind == VALUE;
    if (!watching) {
        pthread_cond_wait(&device->work, &fake_lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&device->work, &fake_lock, &until);
}

static void *device_main(void *argument)
{
    struct CUctx_st *device = argument;
    prctl(PR_SET_TIMERSLACK, 1UL);
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        struct CUstream_st *stream = choose(device);
        if (stream)
            serve(device, stream);
        else
            sleep_for_work(device);
    }
    return NULL;
}

void fake_start_device(struct CUctx_st *device)
{
    pthread_t thread;
    pthread_cond_init(&device->work, NULL);
    if (pthread_create(&thread, NULL, device_main, device) != 0)
        abort();
    pthread_detach(thread);
}

bool fake_idle(const struct CUctx_st *device)
{
    for (CUstream s = device->streams; s; s = s->next)
        if (s->first || s->busy)
            return false;
    return true;
}

/* -- streams ----------------------------------------------------------------------------------- */

static bool alive(CUstream stream)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        for (CUstream s = fake_device[i].streams; s; s = s->next)
            if (s == stream && !s->destroyed)
                return true;
    return false;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && !(flags & CU_STREAM_NON_BLOCKING))
        status = CUDA_ERROR_INVALID_VALUE; /* it would wait for the default stream */
    if (!status) {
        struct CUctx_st *device = fake_current();
        struct CUstream_st *fresh = calloc(1, sizeof *fresh);
        fresh->device = device->device;
        fresh->last = &fresh->first;
        fresh->next = device->streams;
        device->streams = fresh;
        fake_counts.streams++;
        *stream = fresh;
    }
    return fake_end(status);
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status) {
        stream->destroyed = true;
        fake_counts.streams--;
        remove_ended(&fake_device[stream->device]);
    }
    return fake_end(status);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && !alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status) {
        struct CUctx_st *device = &fake_device[stream->device];
        while ((stream->first || stream->busy) && !device->lost)
            pthread_cond_wait(&fake_done, &fake_lock);
        status = device->lost;
    }
    return fake_end(status);
}

/* Puts a copy of *job behind what is on the stream. */
static CUresult post(CUstream stream, const struct job *job)
{
    if (!alive(stream))
        return CUDA_ERROR_INVALID_HANDLE; /* the default stream too */
    if (stream->captured)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct job *queued = malloc(sizeof *queued);
    *queued = *job;
    for (int i = 0; i < ARGUMENTS; i++) /* they point into it */
        if (job->argument[i])
            queued->argument[i] = queued->bytes + ((char *)job->argument[i] - job->bytes);
    queued->next = NULL;
    if (queued->event)
        queued->event->references++;
    *stream->last = queued;
    stream->last = &queued->next;
    pthread_cond_signal(&fake_device[stream->device].work);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, cuuint64_t value,
                             unsigned int flags)
{
    struct job job = {.kind = VALUE, .to = word, .number = value};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (flags != CU_STREAM_WAIT_VALUE_GEQ || word % sizeof value ||
                    !fake_locked(word, sizeof value)))
        status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status || fake_skips("cuStreamWaitValue64") ? status : post(stream, &job));
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *capture)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        *capture =
            stream->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return fake_end(status);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !alive(stream))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        *context = &fake_device[stream->device];
    return fake_end(status);
}

void fakecuda_capture(CUstream stream, bool capture)
{
    pthread_mutex_lock(&fake_lock);
    stream->captured = capture;
    pthread_mutex_unlock(&fake_lock);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream)
{
    struct job job = {.kind = COPY, .to = to, .from = from, .length = length};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    return fake_end(status ? status : post(stream, &job));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t length, CUstream stream)
{
    struct job job = {.kind = SET, .to = to, .length = length, .value = value};
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    return fake_end(status ? status : post(stream, &job));
}

/* -- events ------------------------------------------------------------------------------------ */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status) {
        *event = calloc(1, sizeof **event);
        (*event)->device = fake_current()->device;
        (*event)->references = 1;
        (*event)->next = events;
        events = *event;
        fake_counts.events++;
    }
    return fake_end(status);
}

CUresult cuEventDestroy(CUevent event)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status) {
        drop_event(event);
        fake_counts.events--;
    }
    return fake_end(status);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (!alive(stream) || stream->device != event->device))
        status = CUDA_ERROR_INVALID_HANDLE;
    if (!status && !fake_skips("cuEventRecord")) {
        struct job job = {.kind = RECORD, .event = event, .number = ++event->asked};
        status = post(stream, &job);
    }
    return fake_end(status);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    struct job job = {.kind = WAIT, .event = event, .number = event->asked};
    return fake_end(status || fake_skips("cuStreamWaitEvent") ? status : post(stream, &job));
}

CUresult cuEventQuery(CUevent event)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        status = fake_device[event->device].lost;
    if (!status && event->reached < event->asked)
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

static const struct function *registered(const void *function)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (functions[i].function && functions[i].function == function)
            return &functions[i];
    return NULL;
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
    const struct function *known = registered(function);
    if (!known)
        return CUDA_ERROR_NOT_FOUND;
    if (!alive(stream) || stream->device != fake_current()->device)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t used = 0;
    for (int i = 0; i < known->arguments; i++) {
        if (used + known->bytes[i] > ARGUMENT_BYTES)
            return CUDA_ERROR_INVALID_VALUE;
        job.argument[i] = memcpy(job.bytes + used, arguments[i], known->bytes[i]);
        used += (known->bytes[i] + 15) / 16 * 16;
    }
    return post(stream, &job);
}

__attribute__((weak)) void fake_kernel_run(const void *function, dim3 grid, dim3 block,
                                           void **arguments, size_t shared_bytes)
{
    void (*call)(void **);
    memcpy(&call, &function, sizeof call);
    call(arguments);
}
