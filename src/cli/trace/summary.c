/* Adds up a timeline, rank by rank. Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/summary.h"

#include "cli/trace/reading/clocks.h"

#include <inttypes.h>

static void add_message(const struct gyre_bar *bar, struct gyre_rank_sums *sums)
{
    sums->wait += bar->moves_at - bar->begin;
    sums->wire += bar->end - bar->moves_at;
    if (bar->kind == GYRE_EVENT_SEND) {
        sums->messages++;
        sums->bytes += bar->size;
    }
}

void gyre_rank_sum(const struct gyre_timeline_rank *rank, struct gyre_rank_sums *sums)
{
    *sums = (struct gyre_rank_sums){0};
    for (uint32_t i = 0; i < rank->bars; i++) {
        const struct gyre_bar *bar = &rank->bar[i];
        if (gyre_bar_is_message(bar)) {
            add_message(bar, sums);
        } else if (bar->kind == GYRE_EVENT_CALL) {
            sums->called++;
            sums->calls += bar->end - bar->begin;
        } else {
            sums->fold += bar->end - bar->begin;
        }
    }
}

static void print_sums(FILE *out, const struct gyre_timeline_rank *rank)
{
    struct gyre_rank_sums sums;
    gyre_rank_sum(rank, &sums);
    fprintf(out, "  %4u %9u %9" PRIu64 " %11.3f %10.3f %9.3f %9.3f %9.3f  %s%s", rank->head.rank,
            sums.called, sums.messages, (double)sums.bytes / 1e6, (double)sums.calls / 1e6,
            (double)sums.wire / 1e6, (double)sums.fold / 1e6, (double)sums.wait / 1e6,
            rank->head.host, rank->torn ? ", torn" : "");
    if (rank->lost)
        fprintf(out, ", %" PRIu64 " older events written over", rank->lost);
    fputc('\n', out);
}

void gyre_summary_print(FILE *out, const struct gyre_timeline *timeline)
{
    char clocks[200];
    gyre_clocks_text(timeline, clocks, sizeof clocks);
    fprintf(out, "ranks: %u of %u have traces here, over %.3f ms\nclocks: %s\n", timeline->count,
            timeline->n, (double)(timeline->end - timeline->begin) / 1e6, clocks);
    fprintf(out, "  %4s %9s %9s %11s %10s %9s %9s %9s  host\n", "rank", "calls", "sends", "MB sent",
            "ms called", "ms wire", "ms fold", "ms wait");
    for (uint32_t r = 0; r < timeline->count; r++)
        print_sums(out, &timeline->of[r]);
}
