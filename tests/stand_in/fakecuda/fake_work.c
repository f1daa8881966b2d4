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

enum { LOOK_NS = 30000, PATIENCE_S = 8 };

CUevent fake_events;

static uint64_t turns;

/* -- posting ----------------------------------------------------------------------------------- */

bool fake_alive(CUstream stream)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        for (CUstream s = fake_device[i].streams; s; s = s->next)
            if (s == stream && !s->destroyed)
                return true;
    return false;
}

/* Puts a copy of *job behind what is on the stream. */
CUresult fake_post(CUstream stream, const struct job *job)
{
    if (!fake_alive(stream))
        return CUDA_ERROR_INVALID_HANDLE; /* the default stream too */
    if (stream->captured) /* there are no graphs: what would go into one is done with */
        return job->kind == KERNEL ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct job *queued = malloc(sizeof *queued);
    *queued = *job;
    queued->turn = ++turns;
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
    pthread_mutex_unlock(&fake_lock);
    if (wrong)
        return wrong;
    if (from.at)
        memmove(to.at, from.at, job->length);
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
        return kernel(job);
    case VALUE:
        return job->to ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
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

static bool stands(struct job *job)
{
    return job->kind == VALUE  ? !released(job)
           : job->kind == WAIT ? job->event->reached < job->number
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

static bool ready(const struct CUstream_st *stream)
{
    return stream->first && !kept_up(stream) && !stands(stream->first);
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
    stream->turn = job->turn;
    pthread_mutex_unlock(&fake_lock);
    CUresult status = run(device->device, job, delay_us);
    pthread_mutex_lock(&fake_lock);
    stream->busy = false;
    if (job->kind == RECORD && job->event->reached < job->number)
        job->event->reached = job->number;
    fake_drop_event(job->event);
    free(job);
    if (status)
        lose(device, status);
    fake_remove_ended(device);
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
