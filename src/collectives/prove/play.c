/* Plays rounds. One round of all ranks is a list of turns, one per step. Turns are taken in their
 * order, again and again, until none is left; a RECV passes until its SEND has been taken. So a
 * seeded shuffle of the list is one legal interleaving:
 *
 *     rank 0   SEND ──────┐            turns, shuffled   RECV@1 (passes)  SEND@0  COPY@0  RECV@1
 *              COPY       │
 *     rank 1   RECV ◀─────┘
 *
 * Turns are listed rank by rank, so a RECV looks for its SEND among its peer's turns only. A second
 * list has the order in which turns are taken.
 *
 * A SEND copies its data in its turn. So a write of the same round that should not be there shows
 * in the numbers under some seed. */
#include "collectives/prove/play.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct gyre_play_turn {
    uint32_t rank, step;
    bool taken;
    bool delivered; /* SEND: its data has been received */
    int64_t *data;  /* SEND, once taken */
};

/* -- set up and take down ---------------------------------------------------------------------- */

static int64_t plain_input(uint32_t rank, uint64_t element)
{
    return (int64_t)(rank + 1) * 100 + (int64_t)(element % 100);
}

static int64_t input_of(const struct gyre_play *play, uint32_t rank, uint64_t element)
{
    return (play->options.input ? play->options.input : plain_input)(rank, element);
}

static int64_t *fresh_buffer(uint64_t count)
{
    int64_t *buffer = malloc((count + 1) * sizeof *buffer);
    for (uint64_t i = 0; buffer != NULL && i < count; i++)
        buffer[i] = GYRE_PLAY_UNDEFINED;
    return buffer;
}

/* The number of elements of the whole buffer, from its first byte to its last block's end. */
static uint64_t elements_of(const struct gyre_slice *s, enum gyre_buffer buffer)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < gyre_slice_blocks(s, buffer); i++) {
        struct gyre_span span = gyre_slice_block(s, buffer, i);
        end = span.at + span.bytes > end ? span.at + span.bytes : end;
    }
    return end / s->element;
}

/* Makes the buffers of a rank that works in place: the outer one is allocated, and reaches at least
 * to the end of the inner one. */
static void alias(struct gyre_player *player)
{
    int64_t shift = gyre_slice_shift(&player->slice) / (int64_t)player->slice.element;
    enum gyre_buffer outer = shift < 0 ? GYRE_INPUT : GYRE_OUTPUT;
    enum gyre_buffer inner = shift < 0 ? GYRE_OUTPUT : GYRE_INPUT;
    uint64_t gap = (uint64_t)(shift < 0 ? -shift : shift), end = player->count[inner] + gap;
    uint64_t most = end > player->count[outer] ? end : player->count[outer];
    player->memory[outer] = player->buffer[outer] = fresh_buffer(most);
    if (player->memory[outer] != NULL)
        player->buffer[inner] = player->buffer[outer] + gap;
}

static void fill_input(const struct gyre_play *play, struct gyre_player *player)
{
    const struct gyre_slice *s = &player->slice;
    for (uint32_t i = 0; i < gyre_slice_blocks(s, GYRE_INPUT); i++) {
        struct gyre_span span = gyre_slice_block(s, GYRE_INPUT, i);
        uint64_t end = (span.at + span.bytes) / s->element;
        for (uint64_t e = span.at / s->element; e < end; e++)
            player->buffer[GYRE_INPUT][e] = input_of(play, s->rank, e);
    }
}

static int init_buffers(const struct gyre_play *play, struct gyre_player *player)
{
    const struct gyre_slice *s = &player->slice;
    bool both = gyre_slice_blocks(s, GYRE_INPUT) > 0 && gyre_slice_blocks(s, GYRE_OUTPUT) > 0;
    player->count[GYRE_INPUT] = elements_of(s, GYRE_INPUT);
    player->count[GYRE_OUTPUT] = elements_of(s, GYRE_OUTPUT);
    if (s->in_place && both)
        alias(player);
    for (int i = GYRE_INPUT; i <= GYRE_SCRATCH; i++)
        if (player->buffer[i] == NULL)
            player->buffer[i] = player->memory[i] = fresh_buffer(player->count[i]);
    if (!player->buffer[GYRE_INPUT] || !player->buffer[GYRE_OUTPUT] ||
        !player->buffer[GYRE_SCRATCH])
        return -ENOMEM;
    fill_input(play, player);
    return 0;
}

static bool works_in_place(enum gyre_play_in_place who, uint32_t rank)
{
    return who == GYRE_PLAY_EVERYBODY || (who == GYRE_PLAY_ODD_RANKS && rank % 2 == 1);
}

static int init_player(struct gyre_play *play, const struct gyre_slice *slice, uint32_t rank)
{
    struct gyre_player *player = &play->player[rank];
    player->slice = play->options.of_rank != NULL ? play->options.of_rank[rank] : *slice;
    player->slice.rank = rank;
    player->slice.in_place = works_in_place(play->options.in_place, rank);
    struct gyre_extent extent = play->algorithm->extent(&player->slice);

    play->rounds = extent.rounds;
    play->turns += extent.step_max; /* room for the longest round */
    player->count[GYRE_SCRATCH] = extent.scratch_bytes / slice->element;
    int status = gyre_round_init(&player->round, &extent);
    return status ? status : init_buffers(play, player);
}

int gyre_play_init(struct gyre_play *play, const struct gyre_algorithm *algorithm,
                   const struct gyre_slice *slice, const struct gyre_play_options *options)
{
    *play = (struct gyre_play){.algorithm = algorithm, .n = slice->n};
    if (options != NULL)
        play->options = *options;
    gyre_rng_seed(&play->rng, play->options.seed);
    play->player = calloc(play->n, sizeof *play->player);
    int status = play->player != NULL ? 0 : -ENOMEM;
    for (uint32_t rank = 0; status == 0 && rank < play->n; rank++)
        status = init_player(play, slice, rank);
    if (status == 0) {
        play->turn = calloc(play->turns + 1, sizeof *play->turn);
        play->order = calloc(play->turns + 1, sizeof *play->order);
        status = play->turn != NULL && play->order != NULL ? 0 : -ENOMEM;
    }
    play->turns = 0;
    return status;
}

static void deinit_player(struct gyre_player *player)
{
    gyre_round_deinit(&player->round);
    for (int i = GYRE_INPUT; i <= GYRE_SCRATCH; i++)
        free(player->memory[i]);
}

static void end_turns(struct gyre_play *play)
{
    for (size_t i = 0; i < play->turns; i++)
        free(play->turn[i].data);
    play->turns = 0;
}

void gyre_play_deinit(struct gyre_play *play)
{
    if (play->turn != NULL)
        end_turns(play);
    for (uint32_t rank = 0; play->player != NULL && rank < play->n; rank++)
        deinit_player(&play->player[rank]);
    free(play->player);
    free(play->turn);
    free(play->order);
    *play = (struct gyre_play){0};
}

/* -- what it should come to -------------------------------------------------------------------- */

/* The element of `from`'s INPUT that becomes element i of this block of OUTPUT. */
static uint64_t element_in(const struct gyre_play *play, uint32_t from, uint32_t rank, uint64_t i)
{
    const struct gyre_slice *s = &play->player[from].slice;
    return (gyre_verb_scatters(s->verb) ? gyre_slice_in_block(s, rank).at / s->element : 0) + i;
}

int64_t gyre_play_expected(const struct gyre_play *play, uint32_t rank, uint32_t block, uint64_t i)
{
    const struct gyre_slice *s = &play->player[rank].slice;
    int64_t total = 0;
    if (!gyre_verb_reduces(s->verb)) {
        uint32_t from = gyre_verb_gathers(s->verb) ? block : s->root;
        return input_of(play, from, element_in(play, from, rank, i));
    }
    for (uint32_t from = 0; from < play->n; from++)
        total += input_of(play, from, element_in(play, from, rank, i));
    return play->options.average ? total / play->n : total;
}

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

int gyre_play_check(const struct gyre_play *play, struct gyre_trouble *trouble)
{
    int status = 0;
    for (uint32_t rank = 0; rank < play->n; rank++) {
        uint32_t blocks = gyre_slice_blocks(&play->player[rank].slice, GYRE_OUTPUT);
        for (uint32_t block = 0; status == 0 && block < blocks; block++)
            status = compare_block(play, rank, block, trouble);
    }
    return status;
}

/* -- one step ---------------------------------------------------------------------------------- */

static const struct gyre_step *step_of(const struct gyre_play *play,
                                       const struct gyre_play_turn *turn)
{
    return &play->player[turn->rank].round.step[turn->step];
}

static int64_t *cells(const struct gyre_player *player, struct gyre_place place)
{
    return player->buffer[place.buffer] + place.offset / player->slice.element;
}

static bool place_fits(const struct gyre_player *player, struct gyre_place place, uint64_t length)
{
    uint64_t limit = player->count[place.buffer] * player->slice.element;
    return place.offset <= limit && length <= limit - place.offset;
}

static bool step_fits(const struct gyre_player *player, const struct gyre_step *step)
{
    bool all = place_fits(player, step->at, step->length);
    for (uint32_t i = 0; i < step->sources; i++)
        all &= place_fits(player, player->round.source[step->first + i], step->length);
    return all;
}

#define AT_ONCE 256 /* elements; a sum may land on one of its sources, so it is computed apart */

static void add_terms(int64_t *total, const int64_t *term, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        total[i] = total[i] == GYRE_PLAY_UNDEFINED || term[i] == GYRE_PLAY_UNDEFINED
                       ? GYRE_PLAY_UNDEFINED
                       : total[i] + term[i];
}

static void divide(int64_t *total, uint32_t n, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (total[i] != GYRE_PLAY_UNDEFINED)
            total[i] /= n;
}

/* Takes a REDUCE, or a COPY, which is a REDUCE of one source. */
static void take_reduce(const struct gyre_play *play, const struct gyre_player *player,
                        const struct gyre_step *step)
{
    uint64_t count = step->length / player->slice.element;
    for (uint64_t at = 0; at < count; at += AT_ONCE) {
        int64_t total[AT_ONCE] = {0};
        uint64_t some = count - at < AT_ONCE ? count - at : AT_ONCE;
        for (uint32_t i = 0; i < step->sources; i++)
            add_terms(total, cells(player, player->round.source[step->first + i]) + at, some);
        if (play->options.average && (step->flags & GYRE_STEP_FINAL) != 0)
            divide(total, play->n, some);
        memcpy(cells(player, step->at) + at, total, some * sizeof *total);
    }
}

static int take_send(const struct gyre_player *player, const struct gyre_step *step,
                     struct gyre_play_turn *turn)
{
    size_t bytes = step->length / player->slice.element * sizeof *turn->data;
    turn->data = malloc(bytes + 1);
    if (turn->data == NULL)
        return -ENOMEM;
    memcpy(turn->data, cells(player, step->at), bytes);
    return 0;
}

/* The taken SEND of this length from the RECV's peer to its rank; NULL: none yet. */
static struct gyre_play_turn *find_send(const struct gyre_play *play, uint32_t rank,
                                        const struct gyre_step *recv)
{
    if (recv->peer >= play->n)
        return NULL;
    const struct gyre_player *peer = &play->player[recv->peer];
    for (uint32_t i = 0; i < peer->round.steps; i++) {
        struct gyre_play_turn *turn = &play->turn[peer->first + i];
        const struct gyre_step *step = &peer->round.step[i];
        if (turn->data != NULL && !turn->delivered && step->peer == rank &&
            step->length == recv->length)
            return turn;
    }
    return NULL;
}

/* Takes the turn, or leaves a RECV without its SEND for later. */
static int play_turn(struct gyre_play *play, struct gyre_play_turn *turn)
{
    const struct gyre_player *player = &play->player[turn->rank];
    const struct gyre_step *step = step_of(play, turn);
    struct gyre_play_turn *send = NULL;
    int status = 0;
    switch (step->kind) {
    case GYRE_SEND:
        status = take_send(player, step, turn);
        break;
    case GYRE_RECV:
        send = find_send(play, turn->rank, step);
        if (send == NULL)
            return 0;
        send->delivered = true;
        memcpy(cells(player, step->at), send->data,
               step->length / player->slice.element * sizeof *send->data);
        break;
    default:
        take_reduce(play, player, step);
    }
    turn->taken = true;
    return status;
}

/* -- one round --------------------------------------------------------------------------------- */

static int list_turns_of(struct gyre_play *play, struct gyre_player *player,
                         struct gyre_trouble *trouble)
{
    struct gyre_round *round = &player->round;
    gyre_round_clear(round);
    play->algorithm->round(&player->slice, play->round, round);
    player->first = play->turns;
    for (uint32_t i = 0; i < round->steps; i++) {
        if (!step_fits(player, &round->step[i]))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "rank %u, round %llu, step %u: %s leaves its buffer",
                                    player->slice.rank, (unsigned long long)play->round, i,
                                    gyre_step_kind_name[round->step[i].kind]);
        play->order[play->turns] = play->turns;
        play->turn[play->turns++] = (struct gyre_play_turn){.rank = player->slice.rank, .step = i};
    }
    return 0;
}

static void shuffle_turns(struct gyre_play *play)
{
    for (size_t i = play->turns; play->options.seed != 0 && i > 1; i--) {
        size_t j = gyre_rng_below(&play->rng, i);
        size_t moved = play->order[i - 1];
        play->order[i - 1] = play->order[j];
        play->order[j] = moved;
    }
}

/* Takes the turns that can be taken; *taken becomes their number. */
static int take_turns(struct gyre_play *play, size_t *taken)
{
    int status = 0;
    *taken = 0;
    for (size_t i = 0; status == 0 && i < play->turns; i++) {
        struct gyre_play_turn *turn = &play->turn[play->order[i]];
        if (turn->taken)
            continue;
        status = play_turn(play, turn);
        *taken += turn->taken;
    }
    return status;
}

static int find_leftover(const struct gyre_play *play, struct gyre_trouble *trouble)
{
    for (size_t i = 0; i < play->turns; i++) {
        const struct gyre_play_turn *turn = &play->turn[i];
        const struct gyre_step *step = step_of(play, turn);
        if (!turn->taken || (turn->data != NULL && !turn->delivered))
            return gyre_trouble_set(
                trouble, GYRE_INVALID,
                "rank %u, round %llu, step %u: this %s finds nothing at rank %u", turn->rank,
                (unsigned long long)play->round, turn->step, gyre_step_kind_name[step->kind],
                step->peer);
    }
    return 0;
}

int gyre_play_round(struct gyre_play *play, struct gyre_trouble *trouble)
{
    int status = 0;
    size_t taken = 1;
    for (uint32_t rank = 0; status == 0 && rank < play->n; rank++)
        status = list_turns_of(play, &play->player[rank], trouble);
    shuffle_turns(play);
    while (status == 0 && taken > 0)
        status = take_turns(play, &taken);
    if (status == 0)
        status = find_leftover(play, trouble);
    end_turns(play);
    play->round++;
    return status;
}
