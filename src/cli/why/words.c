/* Tells a finding. Tested by tests/program/cli/why.c. */
#include "cli/why/words.h"

#include "base/clock.h"
#include "base/printable.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define RANKS_TOLD 64

void gyre_why_span(char *out, size_t room, double ns)
{
    if (ns >= 1e9)
        snprintf(out, room, "%.1f s", ns / 1e9);
    else if (ns >= 1e6)
        snprintf(out, room, "%.1f ms", ns / 1e6);
    else
        snprintf(out, room, "%.1f us", ns / 1e3);
}

void gyre_why_put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *at = text; *at; at++)
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
            fprintf(out, "\\u%04x", (unsigned char)*at);
        else
            fputc(*at, out);
    fputc('"', out);
}

static void comm_words(char *out, size_t room, uint32_t comm)
{
    if (comm == GYRE_RECORD_MESSAGES)
        snprintf(out, room, "the messages");
    else if (comm == 0)
        snprintf(out, room, "the world");
    else
        snprintf(out, room, "communicator %u", comm);
}

/* -- what happened ----------------------------------------------------------------------------- */

static void tell_since(const struct gyre_trails *trails, const struct gyre_finding *finding)
{
    char clock[32] = "?", span[32];
    time_t seconds = (time_t)(finding->since / GYRE_SECOND);
    struct tm local;
    if (!finding->since)
        return;
    if (localtime_r(&seconds, &local))
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    double waited = (double)(int64_t)(trails->at - finding->since);
    gyre_why_span(span, sizeof span, waited > 0 ? waited : 0);
    printf("since: %s, %s before the newest record\n", clock, span);
}

static void tell_where(const struct gyre_finding *finding)
{
    char call[160], comm[40];
    if (!finding->wanted)
        return;
    gyre_trail_text(call, sizeof call, finding->wanted);
    comm_words(comm, sizeof comm, finding->comm);
    printf("call: number %" PRIu64 " of %s, %s; %u rank%s wait%s in it\n", finding->sequence, comm,
           call, finding->waiting, finding->waiting == 1 ? "" : "s",
           finding->waiting == 1 ? "s" : "");
    if (finding->made) {
        gyre_trail_text(call, sizeof call, finding->made);
        printf("instead: rank %u called %s\n", finding->rank, call);
    }
}

static void tell_what(const struct gyre_finding *finding)
{
    static const char *const what[GYRE_WHY_KINDS] = {
        [GYRE_WHY_KILLED] = "its process has ended",
        [GYRE_WHY_STOPPED] = "its process exists and does not run",
        [GYRE_WHY_COUNT] = "it made the call with another count than the others",
        [GYRE_WHY_ORDER] = "it made another call than the others: a call is swapped or left out",
        [GYRE_WHY_MISMATCH] = "ranks called different operations, and the records of one of them "
                              "are missing",
        [GYRE_WHY_MISSING] = "it has not made the call that the others wait in",
        [GYRE_WHY_CORE] = "it comes late to the calls, and waits for a core",
        [GYRE_WHY_LATE] = "it comes late to the calls: it computes longer than the others",
        [GYRE_WHY_LINK] = "all come in time, and wait for what its link carries",
        [GYRE_WHY_FAILED] = "the job has failed",
    };
    if (finding->kind == GYRE_WHY_NOTHING) {
        puts("nothing is wrong that the records show");
        return;
    }
    if (finding->rank == GYRE_TRAIL_NONE)
        printf("%s: %s\n", gyre_why_word(finding->kind), what[finding->kind]);
    else
        printf("%s: rank %u: %s\n", gyre_why_word(finding->kind), finding->rank,
               what[finding->kind]);
}

static void tell_slow_link(const struct gyre_slow_link *link)
{
    char peer[40] = "another machine";
    if (link->peer != GYRE_TRAIL_NONE)
        snprintf(peer, sizeof peer, "rank %u", link->peer);
    printf("link: %s rank %u: bytes under way for %.0f %% of a second, at %.2f MB/s; most %s %s\n",
           link->receives ? "to" : "from", link->rank, 100 * link->busy, link->rate / 1e6,
           link->receives ? "from" : "to", peer);
}

static void tell_pace(const struct gyre_finding *finding)
{
    char late[32], period[32];
    if (finding->calls == 0)
        return;
    gyre_why_span(late, sizeof late,
                  finding->kind == GYRE_WHY_LINK ? finding->running_ns : finding->late_ns);
    gyre_why_span(period, sizeof period, finding->period_ns);
    if (finding->kind == GYRE_WHY_LINK && finding->link.busy > 0)
        tell_slow_link(&finding->link);
    if (finding->kind == GYRE_WHY_LINK)
        printf("pace: %u calls compared: each ends %s after the last rank has come, of %s from "
               "call to call\n",
               finding->calls, late, period);
    else
        printf("pace: %u calls compared: rank %u comes last, by %s of %s from call to call; "
               "without a core for %.0f %% of its time\n",
               finding->calls, finding->rank, late, period, 100 * finding->delayed);
}

static void tell_advice(const struct gyre_finding *finding)
{
    static const char *const advice[GYRE_WHY_KINDS] = {
        [GYRE_WHY_KILLED] = "look at the last output of that rank and at its machine's kernel log: "
                            "out of memory, a crash, a signal",
        [GYRE_WHY_STOPPED] = "let it go on (kill -CONT) or end it; look whether a debugger holds "
                             "it or its machine swaps",
        [GYRE_WHY_COUNT] = "compare the counts that the ranks compute: often a last batch that is "
                           "shorter on one rank",
        [GYRE_WHY_ORDER] = "make every rank call the same operations in the same order; look for "
                           "an `if` on the rank around a call",
        [GYRE_WHY_MISMATCH] = "read the story, which names both: every rank must call the same "
                              "operations in the same order",
        [GYRE_WHY_MISSING] = "look what that rank does instead, with a debugger or gyre top: it "
                             "computes, reads a file, or has left the call out",
        [GYRE_WHY_CORE] = "give the rank a core of its own: look what else runs there (top), and "
                          "at the limits of its cgroup",
        [GYRE_WHY_LATE] = "look at the rank's share of data and at its machine's clock speed",
        [GYRE_WHY_LINK] = "measure the link of that rank (bench/link), its cable and its rate",
        [GYRE_WHY_FAILED] = "read the story",
    };
    if (advice[finding->kind])
        printf("do: %s\n", advice[finding->kind]);
}

/* -- where everybody is ------------------------------------------------------------------------ */

static void tell_rank(const struct gyre_trails *trails, uint32_t rank)
{
    const struct gyre_trail *trail = gyre_trail_of(trails, rank);
    char call[160], comm[40], host[64];
    if (!trail) {
        printf("  rank %u: no records%s\n", rank,
               trails->living ? ": it has ended, or is on another machine" : "");
        return;
    }
    const struct gyre_call_record *at = gyre_trail_pending(trail);
    const bool waits = at != NULL;
    at = waits ? at : gyre_trail_last(trail);
    gyre_printable(host, sizeof host, trail->head.host);
    printf("  rank %u, %s, process %u%s: ", rank, host, trail->head.pid,
           trail->stopped ? ", stopped" : "");
    if (!at) {
        puts("has called nothing");
        return;
    }
    gyre_trail_text(call, sizeof call, at);
    comm_words(comm, sizeof comm, at->comm);
    printf("%s number %" PRIu64 " of %s, %s", waits ? "waits in" : "has ended", at->sequence, comm,
           call);
    if (waits && at->waits_on != GYRE_RECORD_NOBODY)
        printf(", for rank %u", at->waits_on);
    puts("");
}

void gyre_why_print(const struct gyre_trails *trails, const struct gyre_finding *finding)
{
    char story[GYRE_RECORD_STORY];
    tell_what(finding);
    tell_where(finding);
    tell_since(trails, finding);
    tell_pace(finding);
    if (finding->story)
        printf("story: %s\n", gyre_printable(story, sizeof story, finding->story));
    tell_advice(finding);
    printf("ranks: %u of %u have records here\n", trails->count, trails->n);
    for (uint32_t rank = 0; rank < trails->n && rank < RANKS_TOLD; rank++)
        tell_rank(trails, rank);
    if (trails->n > RANKS_TOLD)
        printf("  and %u more; --json tells all\n", trails->n - RANKS_TOLD);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void put_call(const char *key, const struct gyre_call_record *call)
{
    char text[160];
    if (!call)
        return;
    gyre_trail_text(text, sizeof text, call);
    printf(",\"%s\":", key);
    gyre_why_put_string(stdout, text);
}

static void put_rank(const struct gyre_trail *trail)
{
    const struct gyre_call_record *pending = gyre_trail_pending(trail);
    const struct gyre_call_record *at = pending ? pending : gyre_trail_last(trail);
    printf("{\"rank\":%u,\"host\":", trail->head.rank);
    gyre_why_put_string(stdout, trail->head.host);
    printf(",\"process\":%u,\"waits\":%s,\"stopped\":%s", trail->head.pid,
           pending ? "true" : "false", trail->stopped ? "true" : "false");
    if (at)
        printf(",\"communicator\":%u,\"number\":%" PRIu64, at->comm, at->sequence);
    if (pending && pending->waits_on != GYRE_RECORD_NOBODY)
        printf(",\"waits_on\":%u", pending->waits_on);
    put_call("call", at);
    fputs("}", stdout);
}

void gyre_why_print_json(const struct gyre_trails *trails, const struct gyre_finding *finding)
{
    printf("{\"version\":1,\"kind\":\"%s\"", gyre_why_word(finding->kind));
    if (finding->rank != GYRE_TRAIL_NONE)
        printf(",\"rank\":%u", finding->rank);
    if (finding->wanted)
        printf(",\"communicator\":%u,\"number\":%" PRIu64 ",\"waiting\":%u", finding->comm,
               finding->sequence, finding->waiting);
    put_call("call", finding->wanted);
    put_call("instead", finding->made);
    if (finding->since)
        printf(",\"since_ns\":%" PRIu64, finding->since);
    if (finding->calls)
        printf(",\"compared\":%u,\"late_ns\":%.0f,\"running_ns\":%.0f,\"period_ns\":%.0f,"
               "\"without_core\":%.3f",
               finding->calls, finding->late_ns, finding->running_ns, finding->period_ns,
               finding->delayed);
    if (finding->link.busy > 0)
        printf(",\"link\":{\"way\":\"%s\",\"busy\":%.3f,\"bytes_a_second\":%.0f}",
               finding->link.receives ? "to" : "from", finding->link.busy, finding->link.rate);
    if (finding->story) {
        fputs(",\"story\":", stdout);
        gyre_why_put_string(stdout, finding->story);
    }
    printf(",\"torn\":%u,\"other_jobs\":%u,\"n\":%u,\"ranks\":[", trails->torn, trails->others,
           trails->n);
    for (uint32_t i = 0; i < trails->count; i++) {
        fputs(i ? ",\n " : "\n ", stdout);
        put_rank(&trails->of[i]);
    }
    puts("]}");
}
