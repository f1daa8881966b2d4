/* Prints records as lines of JSON: version 1. Times are the wall clock's, in nanoseconds.
 *
 *     {"version":1,"record":"rank","rank":0,"n":2,"job":"…","host":"…","process":…}
 *     {"record":"call","rank":0,"id":1,"communicator":0,"number":1,"call":"all_reduce f32 sum, …",
 *      "bytes":…,"way":"ring","called":…,"begun":…,"ended":…,"waits_on":1}
 *
 * Keys that do not apply are left out. Tested by tests/program/cli/why.c. */
#include "cli/why/lines.h"

#include "cli/why/words.h"

#include <inttypes.h>

static const char *job_state_word(uint32_t state)
{
    return state == GYRE_RECORD_FAILED ? "failed" : state == GYRE_RECORD_LEFT ? "left" : "runs";
}

static void put_rank_line(FILE *out, const struct gyre_record_head *head)
{
    fprintf(out, "{\"version\":1,\"record\":\"rank\",\"rank\":%u,\"n\":%u,\"job\":\"", head->rank,
            head->n);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", head->job[i]);
    fputs("\",\"host\":", out);
    gyre_why_put_string(out, head->host);
    fputs(",\"program\":", out);
    gyre_why_put_string(out, head->program);
    fprintf(out, ",\"process\":%u,\"state\":\"%s\",\"ran_ns\":%" PRIu64 ",\"delayed_ns\":%" PRIu64,
            head->pid, job_state_word(head->state), head->thread_now.ran_ns,
            head->thread_now.delayed_ns);
    if (head->story[0]) {
        fputs(",\"story\":", out);
        gyre_why_put_string(out, head->story);
    }
    fputs("}\n", out);
}

static void put_call_line(FILE *out, const struct gyre_trail *trail,
                          const struct gyre_call_record *record)
{
    char call[160];
    uint64_t called = gyre_trail_time(trail, record->called);
    gyre_trail_text(call, sizeof call, record);
    fprintf(out, "{\"record\":\"call\",\"rank\":%u,\"id\":%" PRIu64, trail->head.rank,
            (uint64_t)record->number);
    if (record->comm != GYRE_RECORD_MESSAGES)
        fprintf(out, ",\"communicator\":%u", record->comm);
    fprintf(out, ",\"number\":%" PRIu64 ",\"call\":", record->sequence);
    gyre_why_put_string(out, call);
    fprintf(out, ",\"bytes\":%" PRIu64 ",\"way\":", gyre_trail_bytes(record));
    gyre_why_put_string(out, trail->head.way[record->way]);
    fprintf(out, ",\"called\":%" PRIu64, called);
    if (record->begun)
        fprintf(out, ",\"begun\":%" PRIu64,
                gyre_trail_time(trail, record->called + ((uint64_t)(record->begun - 1) << 6)));
    if (record->ended)
        fprintf(out, ",\"ended\":%" PRIu64, gyre_trail_time(trail, record->ended));
    if (record->waits_on != GYRE_RECORD_NOBODY)
        fprintf(out, ",\"waits_on\":%u", record->waits_on);
    fputs("}\n", out);
}

void gyre_dump_lines(FILE *out, const struct gyre_trails *trails)
{
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_trail *trail = &trails->of[i];
        put_rank_line(out, &trail->head);
        for (uint32_t r = 0; r < trail->records; r++)
            put_call_line(out, trail, &trail->record[r]);
    }
}
