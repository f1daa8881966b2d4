/* Writes the page of `gyre trace --html`: the frame (timeline.html) with style, data and script in
 * their places. A bar is ten numbers; times are nanoseconds, each beginning since the bar before.
 *
 *     begin, length, wait, kind, peer or label, size, number, slice, round, message
 *
 * Tested by tests/unit/cli/trace/html_test.c, tests/program/cli/trace.c, and in a browser by
 * tests/program/cli/page.py. */
#include "cli/trace/html.h"

#include "cli/show/page/page.h"
#include "cli/trace/reading/clocks.h"
#include "cli/trace/summary.h"
#include "cli/trace/reading/tracks.h"

#include <timeline_text.h> /* made by the build */

#include <inttypes.h>
#include <string.h>

#define LABELS_MOST 256u /* texts of calls that are told apart; further calls have the last */

struct timeline_page {
    FILE *out;
    const struct gyre_timeline *timeline;
    const struct gyre_bar *label[LABELS_MOST]; /* a call that has the text */
    uint32_t labels;
    int64_t from; /* bars that end before are left out */
    uint64_t left_out;
};

/* -- which bars -------------------------------------------------------------------------------- */

/* How many bars end at that time or later. */
static uint64_t count_bars(const struct gyre_timeline *timeline, int64_t from)
{
    uint64_t count = 0;
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++)
            count += timeline->of[r].bar[i].end >= from;
    return count;
}

/* Finds the first time from which at most GYRE_HTML_BARS_MOST bars end. */
static void choose_from(struct timeline_page *page)
{
    const struct gyre_timeline *timeline = page->timeline;
    int64_t low = timeline->begin, high = timeline->end + 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (count_bars(timeline, middle) <= GYRE_HTML_BARS_MOST)
            high = middle;
        else
            low = middle + 1;
    }
    page->from = low;
    page->left_out = count_bars(timeline, INT64_MIN) - count_bars(timeline, low);
}

/* -- bars -------------------------------------------------------------------------------------- */

static uint32_t label_of(struct timeline_page *page, const struct gyre_bar *bar)
{
    for (uint32_t i = 0; i < page->labels; i++)
        if (page->label[i]->signature == bar->signature && page->label[i]->size == bar->size &&
            page->label[i]->comm == bar->comm)
            return i;
    if (page->labels < LABELS_MOST)
        page->label[page->labels++] = bar;
    return page->labels - 1;
}

/* The number of a message, alike at both ends: where its send lies among all bars; 0: only one end
 * is known. */
static uint64_t message_of(const struct timeline_page *page, const struct gyre_bar *bar)
{
    const struct gyre_bar *send = bar->kind == GYRE_EVENT_SEND ? bar : bar->other;
    return gyre_bar_is_message(bar) && bar->other
               ? send->number * page->timeline->count + send->rank
               : 0;
}

/* Writes a bar. Returns where it begins. */
static int64_t put_page_bar(struct timeline_page *page, const struct gyre_bar *bar, int64_t before)
{
    uint32_t who = bar->kind == GYRE_EVENT_CALL ? label_of(page, bar) : bar->peer;
    fprintf(page->out,
            "%" PRId64 ",%" PRId64 ",%" PRId64 ",%u,%u,%" PRIu64 ",%" PRIu64 ",%u,%u,%" PRIu64,
            bar->begin - before, bar->open ? -1 - (bar->end - bar->begin) : bar->end - bar->begin,
            bar->moves_at - bar->begin, bar->kind,
            gyre_bar_is_message(bar) || who != UINT32_MAX ? who : 0, bar->size, bar->sequence,
            bar->slice, bar->round, message_of(page, bar));
    return bar->begin;
}

static void put_tracks(struct timeline_page *page, const struct gyre_timeline_rank *rank)
{
    uint32_t i = 0;
    for (uint32_t t = 0; t < rank->tracks; t++) {
        char name[64];
        int64_t before = page->timeline->begin;
        const char *comma = "";
        gyre_track_name(name, sizeof name, &rank->track[t]);
        fprintf(page->out, "%s{\"name\":", t ? ",\n" : "");
        gyre_timeline_put_text(page->out, name);
        fputs(",\"bars\":[", page->out);
        for (; i < rank->bars && rank->bar[i].track == t; i++)
            if (rank->bar[i].end >= page->from) {
                fputs(comma, page->out);
                before = put_page_bar(page, &rank->bar[i], before);
                comma = ",";
            }
        fputs("]}", page->out);
    }
}

/* Writes a host's name. A file may say anything, but nothing may end the page's data. */
static void put_host(FILE *out, const char *host)
{
    char name[sizeof((struct gyre_record_head *)0)->host];
    snprintf(name, sizeof name, "%s", host);
    for (char *at = name; (at = strchr(at, '<'));)
        *at = '?';
    gyre_timeline_put_text(out, name);
}

static void put_page_rank(struct timeline_page *page, const struct gyre_timeline_rank *rank)
{
    struct gyre_rank_sums sums;
    gyre_rank_sum(rank, &sums);
    fprintf(page->out, "{\"rank\":%u,\"host\":", rank->head.rank);
    put_host(page->out, rank->head.host);
    fprintf(page->out,
            ",\"torn\":%s,\"lost\":%" PRIu64 ",\"calls\":%u,\"sent\":%" PRIu64
            ",\"called\":%" PRId64 ",\"wire\":%" PRId64 ",\"fold\":%" PRId64 ",\"wait\":%" PRId64
            ",\"tracks\":[",
            rank->torn ? "true" : "false", rank->lost, sums.called, sums.bytes, sums.calls,
            sums.wire, sums.fold, sums.wait);
    put_tracks(page, rank);
    fputs("]}", page->out);
}

/* -- the whole --------------------------------------------------------------------------------- */

static void put_page_data(struct timeline_page *page)
{
    const struct gyre_timeline *timeline = page->timeline;
    char text[200];
    gyre_clocks_text(timeline, text, sizeof text);
    fprintf(page->out,
            "{\"n\":%u,\"begin\":%" PRId64 ",\"span\":%" PRId64 ",\"from\":%" PRId64
            ",\"leftOut\":%" PRIu64 ",\"clocks\":",
            timeline->n, timeline->begin, timeline->end - timeline->begin,
            page->from - timeline->begin, page->left_out);
    gyre_timeline_put_text(page->out, text);
    fputs(",\"ranks\":[", page->out);
    for (uint32_t r = 0; r < timeline->count; r++) {
        fputs(r ? ",\n" : "\n", page->out);
        put_page_rank(page, &timeline->of[r]);
    }
    fputs("],\"labels\":[", page->out);
    for (uint32_t i = 0; i < page->labels; i++) {
        gyre_bar_text(text, sizeof text, page->label[i]);
        fputs(i ? "," : "", page->out);
        gyre_timeline_put_text(page->out, text);
    }
    fputs("]}", page->out);
}

void gyre_html_put(FILE *out, const struct gyre_timeline *timeline)
{
    struct timeline_page page = {.out = out, .timeline = timeline};
    choose_from(&page);
    const char *frame = gyre_page_put_until(out, gyre_page_html, "@STYLE@");
    fputs(gyre_page_css, out);
    frame = gyre_page_put_until(out, frame, "@DATA@");
    put_page_data(&page);
    frame = gyre_page_put_until(out, frame, "@SCRIPT@");
    fputs(gyre_page_js, out);
    fputs(frame, out);
}
