/* Writes Chrome's trace events: a process for each rank, a thread for each row of a lane, an arrow
 * from each send to its receive. What a message waits for its other end is a slice of its own.
 * Times are microseconds since the first bar.
 *
 *     {"ph":"X","pid":0,"tid":1,"ts":12.345,"dur":3.210,"cat":"wire","name":"send to 1",
 *      "args":{"bytes":4096,"number":7,"slice":0,"round":2,"way":"ring"}}
 *
 * Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/chrome.h"

#include "cli/trace/reading/clocks.h"
#include "cli/trace/reading/tracks.h"

#include <inttypes.h>

static void put_time(FILE *out, const char *key, int64_t ns)
{
    fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Writes the beginning of an event. */
static void put_event(FILE *out, const char *phase, uint32_t process, uint32_t thread)
{
    fprintf(out, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, process, thread);
}

static void put_name(FILE *out, const char *what, uint32_t process, uint32_t thread,
                     const char *name, uint32_t order)
{
    put_event(out, "M", process, thread);
    fprintf(out, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
    gyre_timeline_put_text(out, name);
    fputs("}}", out);
    put_event(out, "M", process, thread);
    fprintf(out, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%u}}", what, order);
}

static void put_names(FILE *out, const struct gyre_timeline_rank *rank)
{
    const struct gyre_record_head *head = &rank->head;
    char name[160];
    snprintf(name, sizeof name, "rank %u, %s, %s, process %u", head->rank, head->host,
             head->program, head->pid);
    put_name(out, "process", head->rank, 0, name, head->rank);
    for (uint32_t t = 0; t < rank->tracks; t++) {
        gyre_track_name(name, sizeof name, &rank->track[t]);
        put_name(out, "thread", head->rank, t, name, t);
    }
}

static void put_arguments(FILE *out, const struct gyre_timeline_rank *rank,
                          const struct gyre_bar *bar)
{
    fprintf(out, ",\"args\":{\"%s\":%" PRIu64 ",\"number\":%" PRIu64,
            bar->kind == GYRE_EVENT_CALL ? "elements" : "bytes", bar->size, bar->sequence);
    if (bar->comm && bar->comm != GYRE_RECORD_MESSAGES)
        fprintf(out, ",\"communicator\":%u", bar->comm);
    if (bar->kind != GYRE_EVENT_CALL)
        fprintf(out, ",\"slice\":%u,\"round\":%u", bar->slice, bar->round);
    fputs(",\"way\":", out);
    gyre_timeline_put_text(out, rank->head.way[bar->way]);
    fprintf(out, "%s}}", bar->open ? ",\"ended\":false" : "");
}

/* Writes a part of a bar. */
static void put_slice(FILE *out, const struct gyre_timeline *timeline, const struct gyre_bar *bar,
                      int64_t from, int64_t to, const char *kind)
{
    static const char *const kind_word[GYRE_EVENT_KINDS] = {"call", "wire", "wire", "fold", "copy"};
    const struct gyre_timeline_rank *rank = &timeline->of[bar->rank];
    char name[160];
    if (kind)
        snprintf(name, sizeof name, "wait for %u", bar->peer);
    else
        gyre_bar_text(name, sizeof name, bar);
    put_event(out, "X", rank->head.rank, bar->track);
    put_time(out, "ts", from - timeline->begin);
    put_time(out, "dur", to - from);
    fprintf(out, ",\"cat\":\"%s\",\"name\":", kind ? kind : kind_word[bar->kind]);
    gyre_timeline_put_text(out, name);
    put_arguments(out, rank, bar);
}

/* Writes one end of an arrow, inside the bar of that end. */
static void put_arrow_end(FILE *out, const struct gyre_timeline *timeline,
                          const struct gyre_bar *bar, uint64_t id)
{
    bool from = bar->kind == GYRE_EVENT_SEND;
    int64_t at = from ? bar->moves_at : bar->moves_at + (bar->end - bar->moves_at) / 2;
    put_event(out, from ? "s" : "f", timeline->of[bar->rank].head.rank, bar->track);
    put_time(out, "ts", at - timeline->begin);
    fprintf(out, ",\"id\":%" PRIu64 ",\"cat\":\"wire\",\"name\":\"message\"%s}", id,
            from ? "" : ",\"bp\":\"e\"");
}

static void put_bar(FILE *out, const struct gyre_timeline *timeline, const struct gyre_bar *bar,
                    uint64_t *arrows)
{
    if (bar->moves_at > bar->begin)
        put_slice(out, timeline, bar, bar->begin, bar->moves_at, "wait");
    if (bar->end > bar->moves_at || bar->moves_at == bar->begin)
        put_slice(out, timeline, bar, bar->moves_at, bar->end, NULL);
    if (bar->kind != GYRE_EVENT_SEND || !bar->other)
        return;
    ++*arrows;
    put_arrow_end(out, timeline, bar, *arrows);
    put_arrow_end(out, timeline, bar->other, *arrows);
}

void gyre_chrome_put(FILE *out, const struct gyre_timeline *timeline)
{
    char clocks[200];
    uint64_t arrows = 0;
    gyre_clocks_text(timeline, clocks, sizeof clocks);
    fprintf(out,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"begins\":\"%" PRId64 "\",\"clocks\":",
            timeline->begin);
    gyre_timeline_put_text(out, clocks);
    fputs("},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"trace\"}", out);
    for (uint32_t r = 0; r < timeline->count; r++)
        put_names(out, &timeline->of[r]);
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++)
            put_bar(out, timeline, &timeline->of[r].bar[i], &arrows);
    fputs("\n]}\n", out);
}
