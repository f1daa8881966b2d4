/* gyre show --run: a schedule played on numbers, with every buffer after every round. The player
 * moves them; what the end should be is computed here from the inputs alone. */
#include "cli/show_question.h"

#include <inttypes.h>

static bool everyone(uint32_t rank)
{
    (void)rank;
    return true;
}

/* The inputs as they are before the first round; a broadcast's result is the root's. */
static void add_inputs(const struct gyre_play *play, int64_t *total)
{
    const struct gyre_slice *s = &play->player[0].slice;
    for (uint32_t rank = 0; rank < s->n; rank++)
        for (uint64_t i = 0; i < s->count; i++)
            if (s->verb == GYRE_VERB_ALL_REDUCE || rank == s->root)
                total[i] += play->player[rank].buffer[GYRE_INPUT][i];
}

static int compare(const struct gyre_play *play, const int64_t *total, struct gyre_trouble *trouble)
{
    for (uint32_t rank = 0; rank < play->n; rank++)
        for (uint64_t i = 0; i < play->player[rank].count[GYRE_OUTPUT]; i++)
            if (play->player[rank].buffer[GYRE_OUTPUT][i] != total[i])
                return gyre_trouble_set(trouble, GYRE_CORRUPT,
                                        "rank %u ends with %" PRId64 " in element %" PRIu64
                                        ", not %" PRId64 ": a defect of the algorithm",
                                        rank, play->player[rank].buffer[GYRE_OUTPUT][i], i,
                                        total[i]);
    return 0;
}

static int play_rounds(const struct gyre_show_question *q, struct gyre_play *play,
                       struct gyre_trouble *trouble)
{
    int64_t total[GYRE_SHOW_RUN_MAX] = {0};
    int status = 0;
    add_inputs(play, total);
    gyre_print_title(stdout, q->algorithm, &q->slice);
    puts("\ninput");
    gyre_print_inputs(stdout, play, q->ranks);
    while (status == 0 && play->round < play->rounds) {
        status = gyre_play_round(play, trouble);
        printf("\nafter round %" PRIu64 "\n", play->round - 1);
        gyre_print_buffers(stdout, play, q->ranks);
    }
    if (status == 0)
        status = compare(play, total, trouble);
    if (status == 0)
        puts(q->slice.verb == GYRE_VERB_ALL_REDUCE ? "\nevery rank holds the sums"
                                                   : "\nevery rank holds the root's data");
    return status;
}

int gyre_show_run(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_play play;
    struct gyre_play_options options = {.in_place = q->word[IN_PLACE] != NULL ? everyone : NULL};
    int status = gyre_play_init(&play, q->algorithm, &q->slice, &options);
    if (status == 0)
        status = play_rounds(q, &play, trouble);
    gyre_play_deinit(&play);
    return status;
}
