/* Reads the records of a job's ranks.
 *
 * A file is believed only as far as it is whole: the head says which version and how long, and a
 * record whose number is not the one of its place was being written. What is refused is counted,
 * and the rest is used.
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/trail.h"

#include "base/types.h"
#include "transport/recorder/head.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- one file ---------------------------------------------------------------------------------- */

static bool read_at(int fd, void *to, size_t length, size_t at)
{
    char *next = to;
    while (length) {
        ssize_t got = pread(fd, next, length, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        at += (size_t)got;
        length -= (size_t)got;
    }
    return true;
}

/* Reads a head that nobody was just writing. A head that stays half-written is taken as it is: its
 * writer was killed there. */
static bool read_head(int fd, struct gyre_record_head *head)
{
    for (int i = 0; i < 100; i++) {
        uint32_t before = 0;
        if (!read_at(fd, head, sizeof *head, 0))
            return false;
        before = atomic_load(&head->beat);
        if (!(before & 1))
            break;
    }
    gyre_record_clean_texts(head);
    return true;
}

/* What is wrong with a head; NULL: nothing. */
static const char *head_fault(const struct gyre_record_head *head)
{
    if (memcmp(head->magic, GYRE_RECORD_MAGIC, sizeof head->magic))
        return "is no dump of Gyre's records";
    if (head->version != GYRE_RECORD_VERSION)
        return "is of another version of Gyre";
    if (head->head_bytes != GYRE_RECORD_HEAD_BYTES || !gyre_record_number_fits(head->records) ||
        head->record_bytes != sizeof(struct gyre_call_record))
        return "has a head that cannot be";
    return gyre_record_rank_fault(head);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = atomic_load(&((const struct gyre_call_record *)a)->number);
    uint64_t y = atomic_load(&((const struct gyre_call_record *)b)->number);
    return x < y ? -1 : x > y;
}

/* Keeps the records that are whole. */
static void sort_records(struct gyre_trail *trail)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < trail->head.records; i++) {
        uint64_t number = atomic_load(&trail->record[i].number);
        if (number && number % trail->head.records == i)
            memmove(&trail->record[kept++], &trail->record[i], sizeof *trail->record);
    }
    trail->records = kept;
    qsort(trail->record, kept, sizeof *trail->record, by_number);
    for (uint32_t i = 0; i < kept; i++)
        if (trail->record[i].way >= GYRE_RECORD_WAYS)
            trail->record[i].way = 0;
}

const char *gyre_trail_open(int fd, struct gyre_trail *trail)
{
    if (!read_head(fd, &trail->head))
        return "is torn: it ends in its head";
    const char *fault = head_fault(&trail->head);
    if (fault)
        return fault;
    const size_t ring = trail->head.records * sizeof *trail->record;
    trail->record = calloc(trail->head.records, sizeof *trail->record);
    if (!trail->record)
        return "found no memory";
    if (!read_at(fd, trail->record, ring, GYRE_RECORD_HEAD_BYTES)) {
        free(trail->record);
        trail->record = NULL;
        return "is torn: it ends in its records";
    }
    sort_records(trail);
    return NULL;
}

const struct gyre_trail *gyre_trail_of(const struct gyre_trails *trails, uint32_t rank)
{
    for (uint32_t i = 0; i < trails->count; i++)
        if (trails->of[i].head.rank == rank)
            return &trails->of[i];
    return NULL;
}

const struct gyre_call_record *gyre_trail_call(const struct gyre_trail *trail, uint32_t comm,
                                               uint64_t sequence)
{
    for (uint32_t i = trail->records; i-- > 0;)
        if (trail->record[i].comm == comm && trail->record[i].sequence == sequence)
            return &trail->record[i];
    return NULL;
}

const struct gyre_call_record *gyre_trail_pending(const struct gyre_trail *trail)
{
    for (uint32_t i = 0; i < trail->records; i++)
        if (!trail->record[i].ended)
            return &trail->record[i];
    return NULL;
}

const struct gyre_call_record *gyre_trail_last(const struct gyre_trail *trail)
{
    return trail->records ? &trail->record[trail->records - 1] : NULL;
}

/* -- one record -------------------------------------------------------------------------------- */

uint64_t gyre_trail_time(const struct gyre_trail *trail, uint64_t ticks)
{
    const struct gyre_record_clocks *from = &trail->head.opened, *to = &trail->head.now;
    double per_tick = 1;
    if (to->ticks > from->ticks && to->monotonic > from->monotonic)
        per_tick = (double)(to->monotonic - from->monotonic) / (double)(to->ticks - from->ticks);
    return to->wall + (uint64_t)(int64_t)((double)(int64_t)(ticks - to->ticks) * per_tick);
}

uint64_t gyre_trail_bytes(const struct gyre_call_record *record)
{
    uint32_t verb = record->signature & 255, type = record->signature >> 8 & 255;
    if (verb == GYRE_SIGNATURE_BARRIER)
        return 0;
    return record->count * (type < GYRE_TYPE_COUNT ? gyre_type_size(type) : 1);
}

void gyre_trail_text(char *out, size_t room, const struct gyre_call_record *record)
{
    gyre_signature_text(out, room, record->signature, record->count);
}
