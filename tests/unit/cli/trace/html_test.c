/* Which bars the page of a trace shows where there are more than it takes. The rest of the page is
 * tried by tests/program/cli/trace.c and, in a browser, by tests/program/cli/page.py. */
#include "rig/test.h"

#include "cli/show/page/page.h"
#include "cli/trace/html.h"
#include "cli/trace/reading/tracks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The frame around the data is left out. */
const char *gyre_page_put_until(FILE *out, const char *frame, const char *mark)
{
    (void)out, (void)mark;
    return frame;
}

#define FIRST 1000 /* nanoseconds: the first bar begins */
#define EACH  10   /* and how long each lasts */

/* One rank whose bars follow each other; as a page. */
static char *make_page(uint32_t bars)
{
    struct gyre_timeline_rank rank = {.bars = bars};
    struct gyre_timeline timeline = {.of = &rank, .count = 1, .n = 1, .begin = FIRST};
    char *page = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&page, &length);
    rank.bar = calloc(bars, sizeof *rank.bar);
    for (uint32_t i = 0; i < bars; i++)
        rank.bar[i] = (struct gyre_bar){.begin = FIRST + (int64_t)i * EACH,
                                        .end = FIRST + (int64_t)(i + 1) * EACH,
                                        .kind = GYRE_EVENT_SEND,
                                        .number = i};
    timeline.end = FIRST + (int64_t)bars * EACH;
    gyre_tracks_lay(&timeline, NULL);
    gyre_html_put(out, &timeline);
    fclose(out);
    free(rank.track);
    free(rank.bar);
    return page;
}

static void expect(uint32_t bars, uint32_t from, uint32_t left_out)
{
    char words[64];
    char *page = make_page(bars);
    snprintf(words, sizeof words, "\"from\":%u,\"leftOut\":%u,", from, left_out);
    const char *found = strstr(page, "\"from\":");
    assert_non_null(found);
    assert_int_equal(strncmp(found, words, strlen(words)), 0);
    free(page);
}

static void the_newest_bars_are_shown(void **state)
{
    const uint32_t most = GYRE_HTML_BARS_MOST;
    (void)state;
    expect(1, 0, 0);
    expect(most, 0, 0);
    expect(most + 1, EACH + 1, 1); /* behind the end of the first */
    expect(most + 700, 700 * EACH + 1, 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_bars_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
