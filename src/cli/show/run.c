/* gyre show --run: a schedule played on numbers, with every buffer after every round. The player
 * moves them, and knows from the inputs alone what the end should be. Tested by
 * tests/program/cli/show.c. */
#include "cli/show/question.h"

#include <inttypes.h>

static int compare_block(const struct gyre_play *play, uint32_t rank, uint32_t block,
                         struct gyre_trouble *trouble)
{
    const struct gyre_player *player = &play->player[rank];
    struct gyre_span span = gyre_slice_block(&player->slice, GYRE_OUTPUT, block);
    uint64_t first = span.at / player->slice.element;
    for (uint64_t i = 0; i < span.bytes / player->slice.element; i++) {
        int64_t got = player->buffer[GYRE_OUTPUT][first + i];
        int64_t expected = gyre_play_expected(play, rank, block, i);
        if (got != expected)
            return gyre_trouble_set(trouble, GYRE_CORRUPT,
                                    "rank %u ends with %" PRId64 " in element %" PRIu64
                                    ", not %" PRId64 ": a defect of the algorithm",
                                    rank, got, first + i, expected);
    }
    return 0;
}

static int compare_results(const struct gyre_play *play, struct gyre_trouble *trouble)
{
    int status = 0;
    for (uint32_t rank = 0; rank < play->n; rank++) {
        uint32_t blocks = gyre_slice_blocks(&play->player[rank].slice, GYRE_OUTPUT);
        for (uint32_t block = 0; status == 0 && block < blocks; block++)
            status = compare_block(play, rank, block, trouble);
    }
    return status;
}

static int play_rounds(const struct gyre_show_question *q, struct gyre_play *play,
                       struct gyre_trouble *trouble)
{
    int status = 0;
    gyre_print_title(stdout, q->algorithm, &q->slice);
    puts("\ninput");
    gyre_print_inputs(stdout, play, q->ranks);
    while (status == 0 && play->round < play->rounds) {
        status = gyre_play_round(play, trouble);
        printf("\nafter round %" PRIu64 "\n", play->round - 1);
        gyre_print_buffers(stdout, play, q->ranks);
    }
    if (status == 0)
        status = compare_results(play, trouble);
    if (status == 0)
        printf("\n%s\n", gyre_verb_facts[q->slice.verb].ending);
    return status;
}

int gyre_show_run(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_play play;
    struct gyre_play_options options = {.in_place = q->word[IN_PLACE] ? GYRE_PLAY_EVERYBODY
                                                                      : GYRE_PLAY_NOBODY};
    int status = gyre_play_init(&play, q->algorithm, &q->slice, &options);
    if (status == 0)
        status = play_rounds(q, &play, trouble);
    gyre_play_deinit(&play);
    return status;
}
