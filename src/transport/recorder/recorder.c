/* Makes a rank's records, and keeps their head. Tested by
 * tests/unit/transport/recorder/recorder_test.c. */
#include "transport/recorder/recorder.h"

#include "base/log.h"
#include "transport/recorder/dump.h"
#include "transport/recorder/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEAT_EVERY (100 * GYRE_MS)
#define RECENT     (10 * GYRE_SECOND)

static _Atomic uint32_t living; /* recorders of this process */

static struct gyre_record_clocks read_clocks(void)
{
    struct gyre_record_clocks clocks = {.wall = gyre_wall_clock_ns()};
    clocks.monotonic = gyre_now_ns();
    clocks.ticks = gyre_ticks();
    return clocks;
}

/* Reads a small file without memory of its own; the text ends with a NUL. False: there is none. */
static bool read_small(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, room - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* When the process started, in the kernel's clock ticks since boot: field 22, and the name before
 * may hold anything. */
static uint64_t process_started(void)
{
    char text[1024];
    unsigned long long started = 0;
    const char *name_end =
        read_small("/proc/self/stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    if (name_end)
        sscanf(name_end + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &started);
    return started;
}

static void tell_program(char *program, size_t room)
{
    if (!read_small("/proc/self/comm", program, room))
        snprintf(program, room, "?");
    program[strcspn(program, "\n")] = '\0';
}

static void read_thread(struct gyre_record_head *head)
{
    char path[64], text[128];
    unsigned long long ran = 0, delayed = 0;
    snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", head->thread);
    if (read_small(path, text, sizeof text) && sscanf(text, "%llu %llu", &ran, &delayed) == 2)
        head->thread_now = (struct gyre_record_thread){head->now.monotonic, ran, delayed};
}

static void fill_head(struct gyre_record_head *head, const struct gyre_recorder_identity *is,
                      uint32_t records)
{
    const char *name = getenv("GYRE_JOB");
    head->version = GYRE_RECORD_VERSION;
    head->head_bytes = GYRE_RECORD_HEAD_BYTES;
    head->record_bytes = sizeof(struct gyre_call_record);
    head->records = records;
    head->rank = is->rank;
    head->n = is->n;
    head->node = is->node;
    head->nodes = is->nodes;
    head->epoch = is->epoch;
    head->pid = (uint32_t)getpid();
    head->thread = (uint32_t)gettid();
    head->started = process_started();
    head->counted = gyre_ticks_are_counted;
    memcpy(head->job, is->job, sizeof head->job);
    snprintf(head->host, sizeof head->host, "%s", is->host);
    snprintf(head->name, sizeof head->name, "%s", name ? name : "");
    tell_program(head->program, sizeof head->program);
    head->opened = head->now = read_clocks();
    read_thread(head);
    head->thread_before = head->thread_between = head->thread_now;
    head->failed_rank = GYRE_RECORD_NOBODY;
    memcpy(head->magic, GYRE_RECORD_MAGIC, sizeof head->magic);
}

struct gyre_recorder *gyre_recorder_create(const struct gyre_recorder_identity *identity)
{
    static const char *const first[GYRE_BY_FIRST_NAMED] = {"rounds", "exchange", "push", "blocks",
                                                           "message"};
    struct gyre_trouble trouble = {0};
    struct gyre_recorder *recorder = calloc(1, sizeof *recorder);
    const uint32_t usual = atomic_load(&living) ? GYRE_RECORDS_FEW : GYRE_RECORDS;
    const uint32_t records = identity->records ? identity->records : usual;
    int status = recorder ? gyre_record_place_take(records, &recorder->region, &trouble) : -1;
    if (status) {
        gyre_log(GYRE_LOG_INFO, "this rank keeps no records: %s", trouble.text);
        free(recorder);
        return NULL;
    }
    gyre_ticks_choose();
    recorder->head = recorder->region.base;
    recorder->ring =
        (struct gyre_call_record *)((uint8_t *)recorder->region.base + GYRE_RECORD_HEAD_BYTES);
    recorder->last = records - 1;
    memset(recorder->ring, 0, records * sizeof *recorder->ring); /* maps every page now */
    for (uint32_t i = 0; i < GYRE_BY_FIRST_NAMED; i++)
        gyre_recorder_add_way(recorder, first[i]);
    fill_head(recorder->head, identity, records);
    atomic_fetch_add(&living, 1);
    recorder->trace = gyre_trace_create(recorder->head, identity->trace_bytes);
    return recorder;
}

void gyre_recorder_destroy(struct gyre_recorder *recorder)
{
    if (!recorder)
        return;
    gyre_recorder_end(recorder, 0, GYRE_RECORD_NOBODY, NULL);
    gyre_recorder_ignore_signal(recorder);
    gyre_trace_destroy(recorder->trace);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&recorder->region);
    free(recorder);
    atomic_fetch_sub(&living, 1);
}

/* -- beats ------------------------------------------------------------------------------------- */

static void write_clocks(struct gyre_recorder *recorder)
{
    struct gyre_record_head *head = recorder->head;
    head->now = read_clocks();
    read_thread(head);
    if (head->thread_now.at - head->thread_between.at < RECENT)
        return;
    head->thread_before = head->thread_between;
    head->thread_between = head->thread_now;
}

void gyre_recorder_beat(struct gyre_recorder *recorder, uint64_t now)
{
    if (!recorder || now - recorder->beat_at < BEAT_EVERY)
        return;
    recorder->beat_at = now;
    atomic_fetch_add_explicit(&recorder->head->beat, 1, memory_order_acq_rel);
    write_clocks(recorder);
    atomic_fetch_add_explicit(&recorder->head->beat, 1, memory_order_release);
    gyre_trace_copy_beat(recorder->trace, recorder->head);
}

void gyre_recorder_end(struct gyre_recorder *recorder, int status, uint32_t rank, const char *story)
{
    if (!recorder || recorder->head->state != GYRE_RECORD_RUNS)
        return;
    struct gyre_record_head *head = recorder->head;
    atomic_fetch_add_explicit(&head->beat, 1, memory_order_acq_rel);
    write_clocks(recorder);
    head->state = status ? GYRE_RECORD_FAILED : GYRE_RECORD_LEFT;
    head->status = status;
    head->failed_rank = rank;
    snprintf(head->story, sizeof head->story, "%s", story ? story : "");
    atomic_fetch_add_explicit(&head->beat, 1, memory_order_release);
    gyre_trace_copy_beat(recorder->trace, head);
}
