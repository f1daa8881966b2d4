/* Reads traces. A file is believed only as far as it is whole: an event whose number is not one of
 * its place was being written, and one that says what cannot be is left out. A file that ends early
 * is read as far as it goes.
 *
 * Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/reading/read.h"

#include "cli/record_files.h"
#include "transport/recorder/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- one file ---------------------------------------------------------------------------------- */

static const char *trace_head_fault(const struct gyre_record_head *head)
{
    if (memcmp(head->magic, GYRE_TRACE_MAGIC, sizeof head->magic))
        return "is no trace of Gyre's";
    if (head->version != GYRE_TRACE_VERSION)
        return "is of another version of Gyre";
    if (head->head_bytes != GYRE_RECORD_HEAD_BYTES ||
        head->record_bytes != sizeof(struct gyre_trace_event) || head->records == 0 ||
        head->records & (head->records - 1))
        return "has a head that cannot be";
    return gyre_record_rank_fault(head);
}

static bool event_is_whole(const struct gyre_record_head *head,
                           const struct gyre_trace_event *event, uint64_t place)
{
    uint64_t number = event->number;
    bool names_peer = event->kind == GYRE_EVENT_SEND || event->kind == GYRE_EVENT_RECV;
    return number && (number & (head->records - 1)) == place && event->kind < GYRE_EVENT_KINDS &&
           event->way < GYRE_RECORD_WAYS && (!event->end || event->end >= event->begin) &&
           (!names_peer || event->peer < head->n);
}

static struct gyre_bar bar_of(const struct gyre_trace_event *event)
{
    return (struct gyre_bar){.begin = (int64_t)event->begin,
                             .end = (int64_t)event->end,
                             .number = event->number,
                             .sequence = event->sequence,
                             .signature = event->signature,
                             .size = event->size,
                             .comm = event->comm,
                             .peer = event->peer,
                             .slice = event->slice,
                             .round = event->round,
                             .way = event->way,
                             .lane = event->lane,
                             .kind = event->kind,
                             .open = event->end == 0};
}

/* Keeps the events of a file that has room for `places` of them. */
static const char *keep_events(struct gyre_timeline_rank *rank, const struct gyre_trace_event *ring,
                               uint64_t places)
{
    uint64_t newest = 0;
    uint32_t whole = 0;
    for (uint64_t i = 0; i < places; i++)
        whole += event_is_whole(&rank->head, &ring[i], i);
    rank->bar = calloc(whole ? whole : 1, sizeof *rank->bar);
    if (!rank->bar)
        return "found no memory";
    for (uint64_t i = 0; i < places && rank->bars < whole; i++) {
        const struct gyre_trace_event event = ring[i]; /* a living rank may write there */
        if (!event_is_whole(&rank->head, &event, i))
            continue;
        newest = event.number > newest ? event.number : newest;
        rank->bar[rank->bars++] = bar_of(&event);
    }
    rank->lost = newest > rank->bars ? newest - rank->bars : 0;
    return NULL;
}

static const char *take_map(const uint8_t *map, uint64_t bytes, struct gyre_timeline_rank *rank)
{
    memcpy(&rank->head, map, sizeof rank->head);
    gyre_record_clean_texts(&rank->head);
    const char *fault = trace_head_fault(&rank->head);
    if (fault)
        return fault;
    uint64_t places = (bytes - GYRE_RECORD_HEAD_BYTES) / sizeof(struct gyre_trace_event);
    rank->torn = places < rank->head.records;
    if (places > rank->head.records)
        places = rank->head.records;
    return keep_events(rank, (const void *)(map + GYRE_RECORD_HEAD_BYTES), places);
}

/* Reads a file. Returns what is wrong with it; NULL: nothing. */
static const char *read_trace(int fd, struct gyre_timeline_rank *rank)
{
    struct stat about;
    if (fstat(fd, &about))
        return strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "is no file";
    if (about.st_size < (off_t)GYRE_RECORD_HEAD_BYTES)
        return "is torn: it ends in its head";
    uint64_t bytes = (uint64_t)about.st_size;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return strerror(errno);
    const char *fault = take_map(map, bytes, rank);
    munmap(map, bytes);
    return fault;
}

/* -- a folder ---------------------------------------------------------------------------------- */

static int keep_rank(struct gyre_timeline *timeline, const struct gyre_timeline_rank *rank,
                     struct gyre_trouble *trouble)
{
    struct gyre_timeline_rank *more =
        timeline->count < GYRE_TIMELINE_RANKS
            ? realloc(timeline->of, (timeline->count + 1) * sizeof *more)
            : NULL;
    if (!more)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the traces of %u ranks",
                                timeline->count + 1);
    timeline->of = more;
    timeline->of[timeline->count++] = *rank;
    return 0;
}

static int read_traces(struct gyre_timeline *timeline, struct gyre_record_files *files,
                       struct gyre_trouble *trouble)
{
    int fd, status = 0;
    while (!status && (fd = gyre_record_files_next(files)) >= 0) {
        struct gyre_timeline_rank rank = {0};
        const char *fault = read_trace(fd, &rank);
        gyre_record_files_end(files, fault);
        status = fault ? 0 : keep_rank(timeline, &rank, trouble);
        if (fault || status)
            free(rank.bar);
    }
    timeline->refused = files->refused;
    memcpy(timeline->text, files->text, sizeof timeline->text);
    return status;
}

/* The job and the epoch that were started last win. */
static void drop_other_jobs(struct gyre_timeline *timeline)
{
    const struct gyre_timeline_rank *newest = &timeline->of[0];
    struct gyre_record_head kept;
    uint32_t left = 0;
    for (uint32_t i = 1; i < timeline->count; i++)
        if (timeline->of[i].head.opened.wall > newest->head.opened.wall)
            newest = &timeline->of[i];
    kept = newest->head;
    for (uint32_t i = 0; i < timeline->count; i++)
        if (!memcmp(timeline->of[i].head.job, kept.job, sizeof kept.job) &&
            timeline->of[i].head.epoch == kept.epoch) {
            timeline->of[left++] = timeline->of[i];
        } else {
            free(timeline->of[i].bar);
            timeline->others++;
        }
    timeline->count = left;
    timeline->n = kept.n;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct gyre_timeline_rank *x = a, *y = b;
    return x->head.rank < y->head.rank ? -1 : x->head.rank > y->head.rank;
}

/* Keeps the first file of each rank; the others are counted. */
static void drop_second_files(struct gyre_timeline *timeline)
{
    uint32_t left = 0;
    qsort(timeline->of, timeline->count, sizeof *timeline->of, compare_ranks);
    for (uint32_t i = 0; i < timeline->count; i++)
        if (left && timeline->of[left - 1].head.rank == timeline->of[i].head.rank) {
            free(timeline->of[i].bar);
            timeline->others++;
        } else {
            timeline->of[left++] = timeline->of[i];
        }
    timeline->count = left;
}

int gyre_timeline_read(struct gyre_timeline *timeline, const char *path,
                       struct gyre_trouble *trouble)
{
    struct gyre_record_files files = {
        .path = path, .ending = ".gyretrace", .word = "trace", .variable = "GYRE_TRACE"};
    *timeline = (struct gyre_timeline){0};
    int status = gyre_record_files_open(&files, trouble);
    if (status)
        return status;
    status = read_traces(timeline, &files, trouble);
    int found = gyre_record_files_close(&files, status ? NULL : trouble);
    status = status ? status : found;
    if (status)
        return status;
    drop_other_jobs(timeline);
    drop_second_files(timeline);
    return 0;
}

void gyre_timeline_free(struct gyre_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->count; i++) {
        free(timeline->of[i].bar);
        free(timeline->of[i].track);
    }
    free(timeline->of);
    *timeline = (struct gyre_timeline){0};
}
