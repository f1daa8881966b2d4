/* Makes the file of a trace. Tested by tests/unit/transport/recorder/trace_test.c. */
#include "transport/recorder/trace.h"

#include "base/disk/folder.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATH_ROOM 1024

/* Writes the path of a rank's trace; false: none is wanted. Epochs of a job have files of their
 * own. */
static bool trace_path(const struct gyre_record_head *head, char path[PATH_ROOM])
{
    const char *folder = getenv("GYRE_TRACE");
    char job[9], epoch[24] = "";
    if (!folder || !*folder)
        return false;
    for (int i = 0; i < 4; i++)
        snprintf(job + 2 * i, 3, "%02x", head->job[i]);
    if (head->epoch)
        snprintf(epoch, sizeof epoch, "-epoch-%u", head->epoch);
    int length =
        snprintf(path, PATH_ROOM, "%s/%s%s-rank-%u.gyretrace", folder, job, epoch, head->rank);
    return length > 0 && length < PATH_ROOM;
}

/* The largest number of places, a power of two, whose events fit. */
static uint64_t places_in(uint64_t bytes)
{
    uint64_t places = 1;
    while (2 * places * sizeof(struct gyre_trace_event) <= bytes)
        places *= 2;
    return places;
}

/* Maps a new file whose blocks the disk has, so that no write behind the map can fail. Its pages
 * are made writable here: else the first event of each would wait for the file system, some 6 us
 * (ext4). Linux before 5.14 refuses that wish. A file of that name may be mapped by another
 * process, so it is taken away, never cut. NULL: errno says why. */
static void *map_trace_file(const char *path, uint64_t bytes)
{
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    int fault = posix_fallocate(fd, 0, (off_t)bytes);
    void *map = fault ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fault = fault ? fault : errno;
    close(fd);
    if (map != MAP_FAILED) {
        madvise(map, bytes, MADV_POPULATE_WRITE);
        return map;
    }
    unlink(path);
    errno = fault;
    return NULL;
}

static void fill_trace_head(struct gyre_trace *trace, const struct gyre_record_head *head)
{
    memcpy(trace->head, head, sizeof *head);
    memset(trace->head->magic, 0, sizeof trace->head->magic);
    trace->head->version = GYRE_TRACE_VERSION;
    trace->head->record_bytes = sizeof(struct gyre_trace_event);
    trace->head->records = (uint32_t)(trace->mask + 1);
    memcpy(trace->head->magic, GYRE_TRACE_MAGIC, sizeof trace->head->magic);
}

struct gyre_trace *gyre_trace_create(const struct gyre_record_head *head, uint64_t bytes)
{
    char path[PATH_ROOM];
    if (!trace_path(head, path))
        return NULL;
    struct gyre_trouble trouble = {0};
    if (gyre_folder_make(getenv("GYRE_TRACE"), 0777, &trouble)) {
        gyre_log(GYRE_LOG_WARN, "rank %u writes no trace: GYRE_TRACE: %s", head->rank,
                 trouble.text);
        return NULL;
    }
    struct gyre_trace *trace = calloc(1, sizeof *trace);
    uint64_t places = places_in(bytes);
    uint64_t whole = GYRE_RECORD_HEAD_BYTES + places * sizeof(struct gyre_trace_event);
    void *map = trace ? map_trace_file(path, whole) : NULL;
    if (!map) {
        gyre_log(GYRE_LOG_WARN,
                 "rank %u writes no trace, for it cannot make %s of %llu bytes: %s; GYRE_TRACE has "
                 "to name a folder that has room",
                 head->rank, path, (unsigned long long)whole, strerror(errno));
        free(trace);
        return NULL;
    }
    *trace = (struct gyre_trace){
        .head = map,
        .ring = (struct gyre_trace_event *)((uint8_t *)map + GYRE_RECORD_HEAD_BYTES),
        .mask = places - 1,
        .bytes = whole};
    fill_trace_head(trace, head);
    return trace;
}

void gyre_trace_destroy(struct gyre_trace *trace)
{
    if (!trace)
        return;
    munmap(trace->head, trace->bytes);
    free(trace);
}

/* The watch's thread copies what it has written itself; `beat` is odd meanwhile, as in the rank's
 * own head. */
void gyre_trace_copy_beat(struct gyre_trace *trace, const struct gyre_record_head *head)
{
    if (!trace)
        return;
    const size_t from = offsetof(struct gyre_record_head, state);
    const size_t to = offsetof(struct gyre_record_head, comm);
    atomic_fetch_add_explicit(&trace->head->beat, 1, memory_order_acq_rel);
    memcpy((uint8_t *)trace->head + from, (const uint8_t *)head + from, to - from);
    atomic_fetch_add_explicit(&trace->head->beat, 1, memory_order_release);
}

void gyre_trace_copy_tables(struct gyre_trace *trace, const struct gyre_record_head *head)
{
    const size_t from = offsetof(struct gyre_record_head, comm);
    if (trace)
        memcpy((uint8_t *)trace->head + from, (const uint8_t *)head + from, sizeof *head - from);
}
