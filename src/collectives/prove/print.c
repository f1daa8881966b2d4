/* Prints schedules. The table and the JSON walk the same rounds; only the beginning and end of a
 * rank and the look of a step differ:
 *
 *     rank 0: sends 32 bytes
 *       round 0   RECV    SCRATCH [ 0,  4)  <- rank 4
 *                 SEND    INPUT   [16, 20)  -> rank 1
 *       round 1   REDUCE  OUTPUT  [12, 16)  =  SCRATCH [ 0,  4) + INPUT [12, 16)
 *
 * All byte ranges of a table are as wide as the largest offset that can occur in it. So columns
 * hold from the first line to the last. */
#include "collectives/prove/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SOURCES_PER_LINE 3

struct printer {
    FILE *out;
    const struct gyre_algorithm *algorithm;
    struct gyre_slice slice;
    struct gyre_extent extent;
    struct gyre_round round;
    uint64_t index;
    int digits;       /* of a byte offset */
    int round_digits; /* of a round's index */
};

/* -- walking ----------------------------------------------------------------------------------- */

static int digits_of(uint64_t number)
{
    return snprintf(NULL, 0, "%" PRIu64, number);
}

static int begin_rank(struct printer *p, uint32_t rank)
{
    p->slice.rank = rank;
    p->extent = p->algorithm->extent(&p->slice);
    return gyre_round_init(&p->round, &p->extent);
}

static void build_printed_round(struct printer *p)
{
    gyre_round_clear(&p->round);
    p->algorithm->round(&p->slice, p->index, &p->round);
}

static int print_ranks(struct printer *p, struct gyre_print_ranks ranks,
                       void (*print_rank)(struct printer *, bool first))
{
    int status = 0;
    for (uint32_t rank = ranks.from; status == 0 && rank < ranks.to; rank++) {
        status = begin_rank(p, rank);
        if (status == 0)
            print_rank(p, rank == ranks.from);
        gyre_round_deinit(&p->round);
    }
    return status;
}

/* -- the table --------------------------------------------------------------------------------- */

static void print_place(struct printer *p, struct gyre_place place, uint64_t length, int width)
{
    fprintf(p->out, "%-*s [%*" PRIu64 ", %*" PRIu64 ")", width, gyre_buffer_name[place.buffer],
            p->digits, place.offset, p->digits, place.offset + length);
}

/* Prints the sources of a step. Those of a REDUCE over many ranks go on below the first source. */
static void print_sources(struct printer *p, const struct gyre_step *step)
{
    int indent = 2 + 6 + p->round_digits + 3 + 8 + 7 + 3 + 2 * p->digits + 2 + 2;
    for (uint32_t i = 0; i < step->sources; i++) {
        if (i > 0 && i % SOURCES_PER_LINE == 0)
            fprintf(p->out, "\n%*s+  ", indent, "");
        else
            fputs(i == 0 ? "=  " : " + ", p->out);
        print_place(p, p->round.source[step->first + i], step->length, 7);
    }
    if (step->flags & GYRE_STEP_FINAL)
        fputs("  final", p->out);
}

static void print_step(struct printer *p, const struct gyre_step *step)
{
    fprintf(p->out, "%-8s", gyre_step_kind_name[step->kind]);
    print_place(p, step->at, step->length, 7);
    fputs("  ", p->out);
    if (step->kind == GYRE_SEND)
        fprintf(p->out, "-> rank %u", step->peer);
    else if (step->kind == GYRE_RECV)
        fprintf(p->out, "<- rank %u", step->peer);
    else
        print_sources(p, step);
    fputc('\n', p->out);
}

static void print_table_rank(struct printer *p, bool first)
{
    (void)first;
    fprintf(p->out, "\nrank %u: sends %" PRIu64 " bytes, scratch %" PRIu64 " bytes\n",
            p->slice.rank, p->algorithm->sent_bytes(&p->slice), p->extent.scratch_bytes);
    for (p->index = 0; p->index < p->extent.rounds; p->index++) {
        build_printed_round(p);
        for (uint32_t i = 0; i < p->round.steps; i++) {
            if (i == 0)
                fprintf(p->out, "  round %*" PRIu64 "   ", p->round_digits, p->index);
            else
                fprintf(p->out, "  %*s", 6 + p->round_digits + 3, "");
            print_step(p, &p->round.step[i]);
        }
    }
}

/* The offset behind the buffer's last byte. */
static uint64_t end_of(const struct gyre_slice *s, enum gyre_buffer buffer)
{
    uint32_t blocks = gyre_slice_blocks(s, buffer);
    uint64_t end = 0;
    bool table = s->in.count || s->out.count;
    for (uint32_t i = table || blocks == 0 ? 0 : blocks - 1; i < blocks; i++) {
        struct gyre_span span = gyre_slice_block(s, buffer, i);
        end = span.at + span.bytes > end ? span.at + span.bytes : end;
    }
    return end;
}

static int widest_offset(const struct gyre_algorithm *algorithm, struct gyre_slice slice,
                         struct gyre_print_ranks ranks)
{
    uint64_t largest = 0;
    for (slice.rank = ranks.from; slice.rank < ranks.to; slice.rank++) {
        uint64_t scratch = algorithm->extent(&slice).scratch_bytes;
        uint64_t input = end_of(&slice, GYRE_INPUT), output = end_of(&slice, GYRE_OUTPUT);
        largest = scratch > largest ? scratch : largest;
        largest = input > largest ? input : largest;
        largest = output > largest ? output : largest;
    }
    return digits_of(largest);
}

static void print_size(FILE *out, const struct gyre_slice *s)
{
    const struct gyre_blocks *table = s->in.count ? &s->in : &s->out;
    bool blocks = gyre_verb_has_blocks(s->verb);
    if (table->count) {
        fputs("blocks of", out);
        for (uint32_t i = 0; i < s->n; i++)
            fprintf(out, "%s %" PRIu64, i == 0 ? "" : ",", table->count[i]);
    } else {
        fprintf(out, "%s%" PRIu64, blocks ? "blocks of " : "", s->count);
    }
    fprintf(out, " element%s of %u byte%s", !table->count && s->count == 1 ? "" : "s", s->element,
            s->element == 1 ? "" : "s");
}

void gyre_print_title(FILE *out, const struct gyre_algorithm *algorithm,
                      const struct gyre_slice *slice)
{
    fprintf(out, "%s by %s: %u rank%s", gyre_verb_word[slice->verb], algorithm->name, slice->n,
            slice->n == 1 ? "" : "s");
    fputs(", ", out);
    print_size(out, slice);
    if (slice->in_place)
        fputs(" in place", out);
    if (gyre_verb_has_root(slice->verb))
        fprintf(out, ", root %u", slice->root);
    if (slice->layout && slice->layout->nodes > 1)
        fprintf(out, ", on %u nodes", slice->layout->nodes);
    fprintf(out, "\n%s\n", algorithm->summary);
}

int gyre_print_table(FILE *out, const struct gyre_algorithm *algorithm,
                     const struct gyre_slice *slice, struct gyre_print_ranks ranks)
{
    struct printer p = {.out = out, .algorithm = algorithm, .slice = *slice};
    uint64_t rounds = algorithm->extent(slice).rounds;
    p.digits = widest_offset(algorithm, *slice, ranks);
    p.round_digits = digits_of(rounds > 0 ? rounds - 1 : 0);
    gyre_print_title(out, algorithm, slice);
    fprintf(out, "%" PRIu64 " round%s; ranges are [first byte, one behind the last)\n", rounds,
            rounds == 1 ? "" : "s");
    return print_ranks(&p, ranks, print_table_rank);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void print_json_place(struct printer *p, struct gyre_place place)
{
    fprintf(p->out, "\"buffer\":\"%s\",\"offset\":%" PRIu64, gyre_buffer_name[place.buffer],
            place.offset);
}

static void print_json_step(struct printer *p, const struct gyre_step *step)
{
    fprintf(p->out, "{\"kind\":\"%s\",", gyre_step_kind_name[step->kind]);
    print_json_place(p, step->at);
    fprintf(p->out, ",\"length\":%" PRIu64, step->length);
    if (step->kind == GYRE_SEND || step->kind == GYRE_RECV)
        fprintf(p->out, ",\"peer\":%u", step->peer);
    if (step->kind == GYRE_REDUCE)
        fprintf(p->out, ",\"final\":%s", step->flags & GYRE_STEP_FINAL ? "true" : "false");
    for (uint32_t i = 0; i < step->sources; i++) {
        fputs(i == 0 ? ",\"sources\":[{" : ",{", p->out);
        print_json_place(p, p->round.source[step->first + i]);
        fputs(i + 1 == step->sources ? "}]" : "}", p->out);
    }
    fputc('}', p->out);
}

static void print_json_rank(struct printer *p, bool first)
{
    fprintf(p->out,
            "%s\n {\"rank\":%u,\"sent_bytes\":%" PRIu64 ",\"scratch_bytes\":%" PRIu64
            ",\"rounds\":[",
            first ? "" : ",", p->slice.rank, p->algorithm->sent_bytes(&p->slice),
            p->extent.scratch_bytes);
    for (p->index = 0; p->index < p->extent.rounds; p->index++) {
        build_printed_round(p);
        fputs(p->index == 0 ? "\n  [" : ",\n  [", p->out);
        for (uint32_t i = 0; i < p->round.steps; i++) {
            fputs(i == 0 ? "" : ",", p->out);
            print_json_step(p, &p->round.step[i]);
        }
        fputc(']', p->out);
    }
    fputs("]}", p->out);
}

static void print_json_counts(FILE *out, const struct gyre_slice *s)
{
    const uint64_t *count = s->in.count ? s->in.count : s->out.count;
    for (uint32_t i = 0; count && i < s->n; i++)
        fprintf(out, "%s%" PRIu64 "%s", i == 0 ? "\"counts\":[" : ",", count[i],
                i + 1 == s->n ? "]," : "");
}

int gyre_print_json(FILE *out, const struct gyre_algorithm *algorithm,
                    const struct gyre_slice *slice, struct gyre_print_ranks ranks)
{
    struct printer p = {.out = out, .algorithm = algorithm, .slice = *slice};
    fprintf(out,
            "{\"operation\":\"%s\",\"algorithm\":\"%s\",\"n\":%u,\"root\":%u,\"count\":%" PRIu64
            ",\"element_bytes\":%u,",
            gyre_verb_word[slice->verb], algorithm->name, slice->n, slice->root, slice->count,
            slice->element);
    print_json_counts(out, slice);
    if (slice->in_place)
        fputs("\"in_place\":true,", out);
    fputs("\"ranks\":[", out);
    int status = print_ranks(&p, ranks, print_json_rank);
    fputs("]}\n", out);
    return status;
}

/* -- the buffers of a play --------------------------------------------------------------------- */

static int widest_in(const struct gyre_player *player, enum gyre_buffer buffer)
{
    int widest = 1;
    for (uint64_t i = 0; i < player->count[buffer]; i++) {
        int64_t number = player->buffer[buffer][i];
        int digits = snprintf(NULL, 0, "%" PRId64, number);
        if (number != GYRE_PLAY_UNDEFINED && digits > widest)
            widest = digits;
    }
    return widest;
}

static int widest_number(const struct gyre_play *play)
{
    int widest = 1;
    for (uint32_t rank = 0; rank < play->n; rank++)
        for (int buffer = GYRE_INPUT; buffer <= GYRE_SCRATCH; buffer++) {
            int digits = widest_in(&play->player[rank], (enum gyre_buffer)buffer);
            widest = digits > widest ? digits : widest;
        }
    return widest;
}

static bool begins_block(const struct gyre_slice *s, enum gyre_buffer buffer, uint64_t element)
{
    uint32_t blocks = buffer == GYRE_SCRATCH ? 0 : gyre_slice_blocks(s, buffer);
    for (uint32_t i = 1; i < blocks; i++)
        if (gyre_slice_block(s, buffer, i).at == element * s->element)
            return true;
    return false;
}

static void print_numbers(FILE *out, const struct gyre_player *player, enum gyre_buffer buffer,
                          int width)
{
    if (buffer != GYRE_SCRATCH && gyre_slice_blocks(&player->slice, buffer) == 0)
        fprintf(out, " %*s", width, "-");
    for (uint64_t i = 0; i < player->count[buffer]; i++) {
        int64_t number = player->buffer[buffer][i];
        if (i > 0 && begins_block(&player->slice, buffer, i))
            fputs(" |", out);
        if (number == GYRE_PLAY_UNDEFINED)
            fprintf(out, " %*s", width, ".");
        else
            fprintf(out, " %*" PRId64, width, number);
    }
}

static void print_rank_name(FILE *out, const struct gyre_play *play, uint32_t rank)
{
    fprintf(out, "  rank %-*u ", digits_of(play->n - 1), rank);
}

void gyre_print_inputs(FILE *out, const struct gyre_play *play, struct gyre_print_ranks ranks)
{
    int width = widest_number(play);
    for (uint32_t rank = ranks.from; rank < ranks.to; rank++) {
        print_rank_name(out, play, rank);
        print_numbers(out, &play->player[rank], GYRE_INPUT, width);
        fputc('\n', out);
    }
}

void gyre_print_buffers(FILE *out, const struct gyre_play *play, struct gyre_print_ranks ranks)
{
    int width = widest_number(play);
    for (uint32_t rank = ranks.from; rank < ranks.to; rank++) {
        const struct gyre_player *player = &play->player[rank];
        print_rank_name(out, play, rank);
        print_numbers(out, player, GYRE_OUTPUT, width);
        if (player->count[GYRE_SCRATCH] > 0) {
            fputs("   scratch", out);
            print_numbers(out, player, GYRE_SCRATCH, width);
        }
        fputc('\n', out);
    }
}
