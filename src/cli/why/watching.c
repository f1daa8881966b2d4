/* gyre top: the records of two moments compared. Tested by tests/program/cli/why.c. */
#include "cli/why/watching.h"

#include "base/clock.h"
#include "cli/why/pace.h"
#include "cli/why/read.h"
#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* What a rank did since the table before. */
struct doings {
    uint64_t calls, bytes, waited;
    double bus; /* bytes that each rank must send at least */
    bool more;  /* the ring has lost some */
};

/* What each rank must send at least, in bytes of the operation: as the benches count. */
static double bus_factor(const struct gyre_call_record *record, uint32_t n)
{
    double others = n - 1.0;
    switch (record->signature & 255) {
    case GYRE_SIGNATURE_ALL_REDUCE:
        return 2 * others / n;
    case GYRE_SIGNATURE_ALL_GATHER:
    case GYRE_SIGNATURE_REDUCE_SCATTER:
    case GYRE_SIGNATURE_ALL_TO_ALL:
    case GYRE_SIGNATURE_GATHER:
    case GYRE_SIGNATURE_SCATTER:
        return others;
    default:
        return 1;
    }
}

static struct doings count_doings(const struct gyre_trail *trail, uint64_t from, uint64_t until)
{
    struct doings doings = {.more = true};
    for (uint32_t i = trail->records; i-- > 0;) {
        const struct gyre_call_record *record = &trail->record[i];
        uint64_t called = gyre_trail_time(trail, record->called);
        uint64_t ended = record->ended ? gyre_trail_time(trail, record->ended) : until;
        if (called < from) {
            doings.more = false;
            doings.waited += ended > from ? ended - from : 0;
            break;
        }
        doings.calls++;
        doings.bytes += gyre_trail_bytes(record);
        doings.waited += ended > called ? ended - called : 0;
        doings.bus += (double)gyre_trail_bytes(record) * bus_factor(record, trail->head.n);
    }
    doings.more &= trail->records == trail->head.records;
    return doings;
}

static void print_table(const struct gyre_trails *trails, uint64_t from, uint64_t until)
{
    struct gyre_finding pace = {.rank = GYRE_TRAIL_NONE};
    double seconds = (double)(until - from) / 1e9;
    printf("%6s %10s %10s %10s %8s  %s\n", "rank", "calls/s", "MB/s", "bus MB/s", "in calls",
           "last call");
    for (uint32_t i = 0; i < trails->count; i++) {
        char call[160] = "none";
        const struct gyre_trail *trail = &trails->of[i];
        const struct gyre_call_record *last = gyre_trail_last(trail);
        struct doings doings = count_doings(trail, from, until);
        double share = 100 * (double)doings.waited / (double)(until - from);
        if (last)
            gyre_trail_text(call, sizeof call, last);
        printf("%6u %s%9.0f %10.2f %10.2f %7.0f%%  %s%s\n", trail->head.rank,
               doings.more ? ">" : " ", (double)doings.calls / seconds,
               (double)doings.bytes / seconds / 1e6, doings.bus / seconds / 1e6,
               share < 100 ? share : 100, call, trail->stopped ? " (stopped)" : "");
    }
    if (gyre_diagnose_pace(trails, &pace) && pace.rank != GYRE_TRAIL_NONE)
        printf("slowest: rank %u, %.1f us late of %.1f us from call to call\n", pace.rank,
               pace.late_ns / 1e3, pace.period_ns / 1e3);
    fflush(stdout);
}

void gyre_top_run(struct gyre_trails *trails, const char *job, uint64_t times)
{
    uint64_t from = gyre_wall_clock_ns();
    for (uint64_t i = 0; !times || i < times; i++) {
        struct timespec second = {1, 0};
        struct gyre_trouble gone = {0};
        nanosleep(&second, NULL);
        gyre_trails_free(trails);
        if (gyre_trails_read(trails, job, &gone))
            return;
        uint64_t until = gyre_wall_clock_ns();
        print_table(trails, from, until);
        from = until;
    }
}
