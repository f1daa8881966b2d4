/* gyre show --run: a schedule played on numbers, with every buffer after every round. The player
 * moves them, and knows from the inputs alone what the end should be. Tested by
 * tests/program/cli/show.c. */
#include "cli/show/question.h"

#include <inttypes.h>

/* What a schedule does, exchange by exchange. A rank sums between exchanges in rounds of their own:
 * the number that articles count is that of the exchanges. */
struct story {
    uint64_t exchanges, sums; /* all; those before a sum */
    bool sums_first;          /* nothing is summed after an exchange that was not summed */
    bool parts;               /* no message is as long as the slice */
};

static bool has_step(const struct gyre_play *play, enum gyre_step_kind kind)
{
    for (uint32_t rank = 0; rank < play->n; rank++)
        for (uint32_t i = 0; i < play->player[rank].round.steps; i++)
            if (play->player[rank].round.step[i].kind == kind)
                return true;
    return false;
}

static bool sends_parts(const struct gyre_play *play, uint64_t bytes)
{
    for (uint32_t rank = 0; rank < play->n; rank++)
        for (uint32_t i = 0; i < play->player[rank].round.steps; i++)
            if (play->player[rank].round.step[i].kind == GYRE_SEND &&
                play->player[rank].round.step[i].length >= bytes)
                return false;
    return true;
}

static void tell_round(struct story *story, const struct gyre_play *play, uint64_t bytes)
{
    if (has_step(play, GYRE_REDUCE) && story->exchanges > story->sums) {
        story->sums++;
        story->sums_first &= story->sums == story->exchanges;
    }
    story->exchanges += has_step(play, GYRE_SEND);
    story->parts &= sends_parts(play, bytes);
}

/* Plays all rounds, and prints nothing. */
static int tell_story(const struct gyre_show_question *q, const struct gyre_play_options *options,
                      struct story *story, struct gyre_trouble *trouble)
{
    struct gyre_play play;
    int status = gyre_play_init(&play, q->algorithm, &q->slice, options);
    *story = (struct story){.sums_first = true, .parts = true};
    while (status == 0 && play.round < play.rounds) {
        status = gyre_play_round(&play, trouble);
        tell_round(story, &play, q->slice.count * q->slice.element);
    }
    gyre_play_deinit(&play);
    return status;
}

/* An all-reduce that sums first and then passes the sums on has two halves with names. */
static void print_half(const struct story *story, uint64_t exchange)
{
    uint64_t sums = story->sums, rest = story->exchanges - sums;
    if (exchange <= sums)
        printf(": %s, step %" PRIu64 " of %" PRIu64, story->parts ? "reduce-scatter" : "reduce",
               exchange, sums);
    else
        printf(": %s, step %" PRIu64 " of %" PRIu64, story->parts ? "all-gather" : "broadcast",
               exchange - sums, rest);
}

static void print_round(const struct gyre_show_question *q, const struct gyre_play *play,
                        const struct story *story, uint64_t *exchanges)
{
    bool halves = q->slice.verb == GYRE_VERB_ALL_REDUCE && story->sums_first && story->sums &&
                  story->sums < story->exchanges;
    printf("\nafter round %" PRIu64, play->round - 1);
    if (!has_step(play, GYRE_SEND)) {
        puts(", no messages");
        return;
    }
    printf(", exchange %" PRIu64 " of %" PRIu64, ++*exchanges, story->exchanges);
    if (halves)
        print_half(story, *exchanges);
    puts("");
}

static int play_rounds(const struct gyre_show_question *q, struct gyre_play *play,
                       const struct story *story, struct gyre_trouble *trouble)
{
    int status = 0;
    uint64_t exchanges = 0;
    gyre_print_title(stdout, q->algorithm, &q->slice);
    puts("\ninput");
    gyre_print_inputs(stdout, play, q->ranks);
    while (status == 0 && play->round < play->rounds) {
        status = gyre_play_round(play, trouble);
        print_round(q, play, story, &exchanges);
        gyre_print_buffers(stdout, play, q->ranks);
    }
    if (status == 0)
        status = gyre_play_check(play, trouble);
    if (status == 0)
        printf("\n%s\n", gyre_verb_facts[q->slice.verb].ending);
    return status;
}

int gyre_show_run(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_play play;
    struct gyre_play_options options = {.in_place = q->word[IN_PLACE] ? GYRE_PLAY_EVERYBODY
                                                                      : GYRE_PLAY_NOBODY};
    struct story story;
    int status = tell_story(q, &options, &story, trouble);
    if (status != 0)
        return status;
    status = gyre_play_init(&play, q->algorithm, &q->slice, &options);
    if (status == 0)
        status = play_rounds(q, &play, &story, trouble);
    gyre_play_deinit(&play);
    return status;
}
