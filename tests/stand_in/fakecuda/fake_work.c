/* The thread of each device that does what is ready.
 *
 *     stream a   copy ─▶ record e ─▶ kernel        ready: the first of each stream, unless it waits
 *     stream b   wait e ─▶ set                     for an event; dice choose among the streams
 *
 * A stream may wait for a word of the host's, too. Work is done one piece at a time, without the
 * lock. A piece that fails loses the device: what is queued on it never happens, and every call
 * returns that error. */
#include "fake_work.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 30000, LOOK_MOST_NS = 500000, PATIENCE_S = 8, STAGED_BYTES = 64 << 10 };

CUevent fake_events;

static uint64_t turns;
static int blocked; /* threads that the driver keeps */
static uint64_t host_bytes;

/* -- posting ----------------------------------------------------------------------------------- */

bool fake_alive(CUstream stream)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        for (CUstream s = fake_device[i].streams; s; s = s->next)
            if (s == stream && !s->destroyed)
                return true;
    return false;
}

static struct job *copy_of(const struct job *job)
{
    struct job *copy = malloc(sizeof *copy);
    *copy = *job;
    for (int i = 0; i < ARGUMENTS; i++) /* they point into it */
        if (job->argument[i])
            copy->argument[i] = copy->bytes + ((char *)job->argument[i] - job->bytes);
    copy->next = NULL;
    return copy;
}

static enum engine engine_of(const struct job *job)
{
    bool into = fake_is_device_memory(job->to), out_of = fake_is_device_memory(job->from);
    if (job->kind != COPY || !fake_settings.engines)
        return NO_ENGINE;
    if (into != out_of)
        return into ? TO_DEVICE : FROM_DEVICE;
    return job->between && job->into != job->out_of ? BETWEEN_DEVICES : NO_ENGINE;
}

/* Waits until something has ended, in a call that a driver may delay as long. */
static void stay(void)
{
    blocked++;
    pthread_cond_wait(&fake_done, &fake_lock);
    blocked--;
}

int fakecuda_blocked(void)
{
    pthread_mutex_lock(&fake_lock);
    int count = blocked;
    pthread_mutex_unlock(&fake_lock);
    return count;
}

uint64_t fakecuda_host_bytes(void)
{
    pthread_mutex_lock(&fake_lock);
    uint64_t bytes = host_bytes;
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}

/* Waits for room on the stream. The driver holds what every other post to the device needs. */
static void await_room(CUstream stream)
{
    struct CUctx_st *device = &fake_device[stream->device];
    unsigned depth = fake_settings.depth;
    while (device->full && !device->lost)
        stay();
    while (depth && stream->queued >= depth && !device->lost) {
        device->full = stream;
        stay();
    }
    if (device->full) {
        device->full = NULL;
        pthread_cond_broadcast(&fake_done);
    }
}

/* A driver waits for the end of a copy to host memory that is not locked, and of one from there
 * that is more than it stages. */
static bool blocks(const struct job *job)
{
    bool back = fake_is_device_memory(job->from);
    uint64_t host = back ? job->to : job->from;
    if (job->kind != COPY || !fake_settings.waits || fake_is_device_memory(host) ||
        fake_locked(host, job->length))
        return false;
    return back || job->length > STAGED_BYTES;
}

static void await_job(CUstream stream, uint64_t turn)
{
    const struct CUctx_st *device = &fake_device[stream->device];
    while (
        fake_alive(stream) && !fake_held && !device->lost &&
        ((stream->first && stream->first->turn <= turn) || (stream->busy && stream->turn <= turn)))
        stay();
}

/* -- graphs ------------------------------------------------------------------------------------ */

/* Of one stream alone: events would join others. */
CUresult fake_record(CUgraph graph, const struct job *job)
{
    if (job->kind == RECORD || job->kind == WAIT)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct job *kept = copy_of(job);
    *graph->last = kept;
    graph->last = &kept->next;
    return CUDA_SUCCESS;
}

static CUresult record_captured(CUstream stream, const struct job *job)
{
    if (stream->graph)
        return fake_record(stream->graph, job);
    return job->kind == KERNEL ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult fake_post(CUstream stream, const struct job *job)
{
    if (!fake_alive(stream))
        return CUDA_ERROR_INVALID_HANDLE; /* the default stream too */
    if (stream->captured)
        return record_captured(stream, job);
    await_room(stream);
    if (fake_device[stream->device].lost)
        return fake_device[stream->device].lost;
    struct job *queued = copy_of(job);
    uint64_t turn = queued->turn = ++turns;
    queued->engine = engine_of(job);
    if (queued->event)
        queued->event->references++;
    *stream->last = queued;
    stream->last = &queued->next;
    stream->queued++;
    pthread_cond_signal(&fake_device[stream->device].work);
    if (blocks(job))
        await_job(stream, turn);
    return CUDA_SUCCESS;
}

/* -- doing work -------------------------------------------------------------------------------- */

void fake_drop_event(CUevent event)
{
    if (!event || --event->references)
        return;
    CUevent *link = &fake_events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    free(event);
}

/* A host where devices copy wrongly from each other's memory, or to it. */
static bool spoils(int device, const struct fake_place *to, const struct fake_place *from)
{
    return (fake_settings.wrong & 1 && fake_is_foreign(from, device)) ||
           (fake_settings.wrong & 2 && fake_is_foreign(to, device));
}

/* A copy, or a set where there is no source. */
static CUresult move(int device, const struct job *job, const char *name)
{
    struct fake_place to, from = {NULL, NULL};
    pthread_mutex_lock(&fake_lock);
    CUresult status = fake_planned(name);
    int into = job->between ? job->into : device, out_of = job->between ? job->out_of : device;
    CUresult wrong = fake_visit(into, job->to, job->length, &to);
    if (!wrong && job->from && (wrong = fake_visit(out_of, job->from, job->length, &from)))
        fake_leave(&to);
    if (!wrong && job->between && (!to.memory || !from.memory)) {
        wrong = CUDA_ERROR_ILLEGAL_ADDRESS; /* the host's has no part in that */
        fake_leave(&to);
        fake_leave(&from);
    }
    bool spoilt = !wrong && spoils(device, &to, &from);
    host_bytes += !wrong && from.at && !to.memory != !from.memory ? job->length : 0;
    pthread_mutex_unlock(&fake_lock);
    if (wrong)
        return wrong;
    if (from.at)
        memmove(to.at, from.at, job->length);
    else if (job->value == 0)
        fake_clear(&to, job->length);
    else
        memset(to.at, job->value, job->length);
    if (spoilt)
        ((char *)to.at)[job->length / 2] ^= 16;
    pthread_mutex_lock(&fake_lock);
    CUresult freed = fake_leave(&to);
    if (fake_leave(&from))
        freed = CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&fake_lock);
    return status ? status : freed;
}

static CUresult kernel(int device, struct job *job)
{
    pthread_mutex_lock(&fake_lock);
    CUresult status = fake_planned("kernel");
    if (!status)
        fake_open_memory(&fake_device[device]);
    pthread_mutex_unlock(&fake_lock);
    if (status)
        return status;
    fake_kernel_run(job->function, job->grid, job->block, job->argument, job->shared_bytes);
    return CUDA_SUCCESS;
}

static CUresult write_word(const struct job *job)
{
    pthread_mutex_lock(&fake_lock);
    bool there = fake_locked(job->to, sizeof(uint64_t));
    if (there)
        atomic_store((_Atomic uint64_t *)(uintptr_t)job->to, job->number);
    pthread_mutex_unlock(&fake_lock);
    return there ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run(int device, struct job *job, unsigned delay_us)
{
    if (delay_us)
        usleep(delay_us);
    switch (job->kind) {
    case COPY:
        return move(device, job, "copy");
    case SET:
        return move(device, job, "set");
    case KERNEL:
        return kernel(device, job);
    case VALUE:
        return job->to ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    case WRITE:
        return write_word(job);
    default:
        return CUDA_SUCCESS;
    }
}

/* -- choosing ---------------------------------------------------------------------------------- */

/* Whether a word of the host's is large enough; one that was unlocked meanwhile is found at once,
 * and forgotten. */
static bool released(struct job *job)
{
    if (!fake_locked(job->to, sizeof(uint64_t)))
        job->to = 0;
    return !job->to ||
           (int64_t)(atomic_load((_Atomic uint64_t *)(uintptr_t)job->to) - job->number) >= 0;
}

void fake_event_reach(struct CUevent_st *event, uint64_t number)
{
    const uint64_t ahead = number - event->reached - 1;
    if (number <= event->reached) /* by a graph, once more */
        return;
    if (ahead >= 64)
        abort(); /* a test with so many records of one event under way wants a larger window */
    event->beyond |= UINT64_C(1) << ahead;
    while (event->beyond & 1) {
        event->reached++;
        event->beyond >>= 1;
    }
}

static bool stands(struct job *job)
{
    return job->kind == VALUE  ? !released(job)
           : job->kind == WAIT ? !fake_event_reached(job->event, job->number)
                               : false;
}

/* Behind a stream that waits, in the same queue of the hardware. */
static bool kept_up(const struct CUstream_st *stream)
{
    if (!fake_settings.one_channel)
        return false;
    for (CUstream s = fake_device[stream->device].streams; s; s = s->next)
        if (s != stream && s->priority == stream->priority && s->first &&
            s->first->turn < stream->first->turn && stands(s->first))
            return true;
    return false;
}

/* Behind a copy of the same engine that was posted before, on whatever stream. */
static bool awaits_engine(const struct CUstream_st *stream)
{
    const struct job *first = stream->first;
    for (CUstream s = fake_device[stream->device].streams; s && first->engine; s = s->next)
        for (const struct job *job = s->first; job && job->turn < first->turn; job = job->next)
            if (job->engine == first->engine)
                return true;
    return false;
}

static bool ready(const struct CUstream_st *stream)
{
    return stream->first && !kept_up(stream) && !stands(stream->first) && !awaits_engine(stream);
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
    stream->queued--;
    if (!stream->first)
        stream->last = &stream->first;
    return job;
}

void fake_remove_ended(struct CUctx_st *device)
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
            fake_drop_event(job->event);
            free(job);
        }
}

/* An event may be waited for on other devices. */
static void wake_devices(void)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        if (fake_device[i].retained)
            pthread_cond_signal(&fake_device[i].work);
}

static void serve(struct CUctx_st *device, struct CUstream_st *stream)
{
    struct job *job = take_first(stream);
    unsigned most = fake_settings.delay_us;
    unsigned delay_us = most ? (unsigned)fake_roll(device, most + 1) : 0;
    device->vain_ns = 0;
    stream->busy = true;
    stream->turn = job->turn;
    pthread_mutex_unlock(&fake_lock);
    CUresult status = run(device->device, job, delay_us);
    pthread_mutex_lock(&fake_lock);
    stream->busy = false;
    if (job->kind == RECORD)
        fake_event_reach(job->event, job->number);
    if (job->kind == RECORD || job->kind == WRITE || status)
        wake_devices();
    fake_drop_event(job->event);
    free(job);
    if (status)
        lose(device, status);
    fake_remove_ended(device);
    pthread_cond_broadcast(&fake_done);
}

/* Until the next look at words of the host: an eighth of the time since the first one in vain. */
static long until_next_look(struct CUctx_st *device)
{
    const long ns = device->vain_ns / 8;
    const long chosen = ns < LOOK_NS ? LOOK_NS : ns > LOOK_MOST_NS ? LOOK_MOST_NS : ns;
    device->vain_ns += chosen;
    return chosen;
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
    until.tv_nsec += until_next_look(device);
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
        if (stream) {
            serve(device, stream);
        } else {
            fake_close_memory(device);
            sleep_for_work(device);
        }
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

static bool idle_since(const struct CUctx_st *device, uint64_t turn)
{
    for (CUstream s = device->streams; s; s = s->next)
        if ((s->first && s->first->turn <= turn) || (s->busy && s->turn <= turn))
            return false;
    return true;
}

void fake_synchronise(const char *name)
{
    const char *slow = getenv("GYRE_TEST_SLOW");
    struct CUctx_st *device = fake_current();
    uint64_t turn = turns;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S * (slow ? atoi(slow) : 1);
    while (!idle_since(device, turn) && !device->lost && !fake_held)
        if (pthread_cond_timedwait(&fake_done, &fake_lock, &until) == ETIMEDOUT) {
            fprintf(stderr,
                    "fakecuda: %s waits for work that does not end: a stream is held by "
                    "whoever called it\n",
                    name);
            abort();
        }
}

void fake_linger(void)
{
    struct CUctx_st *device = fake_current();
    uint64_t turn = turns;
    while (device && fake_settings.waits && !idle_since(device, turn) && !device->lost &&
           !fake_held)
        stay();
}

bool fake_awaited(const void *memory, uint64_t length)
{
    uint64_t from = (uint64_t)(uintptr_t)memory;
    for (int i = 0; i < FAKE_DEVICES; i++)
        for (CUstream s = fake_device[i].streams; s; s = s->next)
            for (const struct job *job = s->first; job; job = job->next)
                if (job->kind == VALUE && job->to - from < length)
                    return true;
    return false;
}
