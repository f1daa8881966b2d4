/* What the page plays: the steps of every rank in every round, and what each step leaves in the
 * place that it writes. The checker says whose data are there (`holds`), the player which numbers.
 *
 *     {"kind":"REDUCE","buffer":"SCRATCH","offset":0,"length":16,"final":false,
 *      "sources":[["SCRATCH",0],["INPUT",16]],
 *      "holds":[[0,16,7]],              bytes 0 … 15 are value 7: values[7] has its ranks
 *      "numbers":[300,302,304,306]}     null: not written yet
 *
 * Tested by tests/program/cli/show.c, and in a browser by tests/program/cli/page.py. */
#include "cli/show/page/inside.h"

#include "collectives/prove/play.h"
#include "collectives/prove/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct writer {
    FILE *out;
    const struct gyre_algorithm *algorithm;
    const struct gyre_slice *slice;
    struct gyre_slice *of_rank;
    struct gyre_checker *proof;
    struct gyre_play play;
    bool numbers;
};

/* -- one step ---------------------------------------------------------------------------------- */

static void put_played(FILE *out, int64_t number)
{
    if (number == GYRE_PLAY_UNDEFINED)
        fputs("null", out);
    else
        fprintf(out, "%" PRId64, number);
}

static void put_numbers(const struct writer *w, uint32_t rank, enum gyre_buffer buffer,
                        uint64_t first, uint64_t count)
{
    const int64_t *number = w->play.player[rank].buffer[buffer] + first;
    fputs(",\"numbers\":[", w->out);
    for (uint64_t i = 0; i < count; i++) {
        fputs(i > 0 ? "," : "", w->out);
        put_played(w->out, number[i]);
    }
    fputc(']', w->out);
}

/* Writes the stretches between `start` and `end`. */
static void put_holds(const struct writer *w, uint32_t rank, const struct gyre_step *step)
{
    const struct gyre_stretches *all = gyre_proving_holds(w->proof, rank, step->at.buffer);
    uint64_t start = step->at.offset, end = start + step->length;
    const char *comma = "";
    fputs(",\"holds\":[", w->out);
    for (size_t i = gyre_stretches_find(all, start); i < all->count; i++) {
        const struct gyre_stretch *s = &all->stretch[i];
        if (s->start >= end)
            break;
        fprintf(w->out, "%s[%" PRIu64 ",%" PRIu64 ",%u]", comma,
                s->start > start ? s->start : start, s->end < end ? s->end : end, s->value);
        comma = ",";
    }
    fputc(']', w->out);
}

static void put_sources(const struct writer *w, const struct gyre_round *round,
                        const struct gyre_step *step)
{
    fputs(",\"sources\":[", w->out);
    for (uint32_t i = 0; i < step->sources; i++) {
        const struct gyre_place *place = &round->source[step->first + i];
        fprintf(w->out, "%s[\"%s\",%" PRIu64 "]", i > 0 ? "," : "", gyre_buffer_name[place->buffer],
                place->offset);
    }
    fputc(']', w->out);
}

/* `done`: the round was proved and played, so there is something to say of what it wrote. */
static void put_step(const struct writer *w, uint32_t rank, const struct gyre_round *round,
                     const struct gyre_step *step, bool done)
{
    bool message = step->kind == GYRE_SEND || step->kind == GYRE_RECV;
    fprintf(w->out, "{\"kind\":\"%s\",\"buffer\":\"%s\",\"offset\":%" PRIu64 ",\"length\":%" PRIu64,
            gyre_step_kind_name[step->kind], gyre_buffer_name[step->at.buffer], step->at.offset,
            step->length);
    if (message)
        fprintf(w->out, ",\"peer\":%u", step->peer);
    else
        put_sources(w, round, step);
    if (step->kind == GYRE_REDUCE)
        fprintf(w->out, ",\"final\":%s", step->flags & GYRE_STEP_FINAL ? "true" : "false");
    if (step->kind != GYRE_SEND && done) {
        put_holds(w, rank, step);
        if (w->numbers)
            put_numbers(w, rank, step->at.buffer, step->at.offset / w->slice->element,
                        step->length / w->slice->element);
    }
    fputc('}', w->out);
}

/* -- all rounds -------------------------------------------------------------------------------- */

static void put_round(const struct writer *w, bool done)
{
    fputc('[', w->out);
    for (uint32_t rank = 0; rank < w->slice->n; rank++) {
        const struct gyre_round *round = gyre_proving_steps(w->proof, rank);
        fputs(rank > 0 ? ",[" : "[", w->out);
        for (uint32_t i = 0; i < round->steps; i++) {
            fputs(i > 0 ? "," : "", w->out);
            put_step(w, rank, round, &round->step[i], done);
        }
        fputc(']', w->out);
    }
    fputc(']', w->out);
}

/* A round with a defect is written as far as it was built, and is the last. */
static int put_rounds(struct writer *w, struct gyre_trouble *defect)
{
    uint64_t rounds = gyre_proving_rounds(w->proof);
    int status = 0;
    fputs(",\n\"rounds\":[", w->out);
    for (uint64_t i = 0; status == 0 && i < rounds; i++) {
        status = gyre_proving_round(w->proof);
        if (status == 0 && w->numbers)
            status = gyre_play_round(&w->play, defect);
        fputs(i > 0 ? ",\n" : "\n", w->out);
        put_round(w, status == 0);
    }
    fputc(']', w->out);
    return status != 0 ? status : gyre_proving_end(w->proof);
}

static void put_who_is_in(const struct writer *w)
{
    const struct gyre_value_book *book = gyre_proving_values(w->proof);
    fputs(",\n\"values\":[", w->out);
    for (size_t i = 0; i < book->values; i++) {
        const struct gyre_value *value = &book->value[i];
        fputs(i > 0 ? ",[" : "[", w->out);
        for (uint32_t k = 0; k < value->ranges; k++) {
            const struct gyre_rank_range *range = &book->range[value->first + k];
            fprintf(w->out, "%s[%u,%u]", k > 0 ? "," : "", range->from, range->to);
        }
        fputc(']', w->out);
    }
    fputc(']', w->out);
}

/* -- the beginning ----------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct gyre_slice *s, enum gyre_buffer buffer)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < gyre_slice_blocks(s, buffer); i++) {
        struct gyre_span span = gyre_slice_block(s, buffer, i);
        end = span.at + span.bytes > end ? span.at + span.bytes : end;
    }
    return end;
}

static void put_buffer(const struct writer *w, const char *name, const struct gyre_slice *s,
                       enum gyre_buffer buffer)
{
    if (gyre_slice_blocks(s, buffer) == 0)
        fprintf(w->out, ",\"%s\":null", name);
    else
        fprintf(w->out, ",\"%s\":%" PRIu64, name, bytes_of(s, buffer));
}

static void put_ranks(const struct writer *w)
{
    fputs(",\n\"ranks\":[", w->out);
    for (uint32_t rank = 0; rank < w->slice->n; rank++) {
        const struct gyre_slice *s = &w->of_rank[rank];
        const struct gyre_layout *layout = s->layout;
        fprintf(w->out, "%s{\"node\":%u,\"sent\":%" PRIu64 ",\"scratch\":%" PRIu64,
                rank > 0 ? ",\n" : "", layout != NULL ? layout->node[rank] : 0,
                w->algorithm->sent_bytes(s), w->algorithm->extent(s).scratch_bytes);
        put_buffer(w, "input", s, GYRE_INPUT);
        put_buffer(w, "output", s, GYRE_OUTPUT);
        if (w->numbers)
            put_numbers(w, rank, GYRE_INPUT, 0, w->play.player[rank].count[GYRE_INPUT]);
        fputc('}', w->out);
    }
    fputc(']', w->out);
}

static void put_counts(const struct writer *w)
{
    const struct gyre_slice *s = w->slice;
    const uint64_t *count = s->in.count ? s->in.count : s->out.count;
    for (uint32_t i = 0; count && i < s->n; i++)
        fprintf(w->out, "%s%" PRIu64 "%s", i == 0 ? "\"counts\":[" : ",", count[i],
                i + 1 == s->n ? "]," : "");
}

static void put_head(const struct writer *w)
{
    const struct gyre_slice *s = w->slice;
    fprintf(w->out,
            "{\"operation\":\"%s\",\"algorithm\":\"%s\",\"summary\":\"%s\",\"ending\":\"%s\","
            "\"reduces\":%s,\"blocks\":%s,\"n\":%u,\"count\":%" PRIu64 ",\"element\":%u,",
            gyre_verb_word[s->verb], w->algorithm->name, w->algorithm->summary,
            gyre_verb_facts[s->verb].ending, gyre_verb_reduces(s->verb) ? "true" : "false",
            gyre_verb_has_blocks(s->verb) ? "true" : "false", s->n, s->count, s->element);
    put_counts(w);
    if (gyre_verb_has_root(s->verb))
        fprintf(w->out, "\"root\":%u", s->root);
    else
        fputs("\"root\":null", w->out);
}

/* The story has the words of a foreign schedule nowhere, but a quote would end the string. */
static void put_defect(const struct writer *w, const struct gyre_trouble *defect)
{
    fputs(",\n\"defect\":", w->out);
    if (defect->status == 0) {
        fputs("null", w->out);
        return;
    }
    fputc('"', w->out);
    for (const char *c = defect->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\' || *c == '<')
            fprintf(w->out, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            fputc(*c, w->out);
    fputc('"', w->out);
}

/* -- set up and take down ---------------------------------------------------------------------- */

static bool has_numbers(const struct gyre_algorithm *algorithm, const struct gyre_slice *s)
{
    return s->n <= GYRE_PAGE_NUMBERS_MAX && (bytes_of(s, GYRE_INPUT) + bytes_of(s, GYRE_OUTPUT) +
                                             algorithm->extent(s).scratch_bytes) /
                                                    s->element <=
                                                GYRE_PAGE_ELEMENTS_MAX;
}

static int begin(struct writer *w, struct gyre_trouble *defect)
{
    const struct gyre_slice *s = w->slice;
    struct gyre_play_options options = {.in_place =
                                            s->in_place ? GYRE_PLAY_EVERYBODY : GYRE_PLAY_NOBODY};
    w->of_rank = calloc(s->n, sizeof *w->of_rank);
    if (w->of_rank == NULL)
        return -ENOMEM;
    w->numbers = true;
    for (uint32_t rank = 0; rank < s->n; rank++) {
        w->of_rank[rank] = *s;
        w->of_rank[rank].rank = rank;
        w->numbers &= has_numbers(w->algorithm, &w->of_rank[rank]);
    }
    int status = w->numbers ? gyre_play_init(&w->play, w->algorithm, s, &options) : 0;
    return status != 0 ? status : gyre_proving_create(&w->proof, w->algorithm, w->of_rank, defect);
}

int gyre_page_put_schedule(FILE *out, const struct gyre_page_schedule *schedule,
                           struct gyre_trouble *trouble)
{
    struct writer w = {.out = out, .algorithm = schedule->algorithm, .slice = &schedule->slice};
    struct gyre_trouble defect = {0};
    int status = begin(&w, &defect);
    if (status == 0) {
        put_head(&w);
        put_ranks(&w);
        status = put_rounds(&w, &defect);
        put_who_is_in(&w);
        put_defect(&w, &defect);
        fputc('}', out);
    }
    gyre_proving_destroy(w.proof);
    gyre_play_deinit(&w.play);
    free(w.of_rank);
    if (status != 0 && status != -ENOMEM)
        status = gyre_trouble_set(trouble, GYRE_CORRUPT, "%s", defect.text);
    return status;
}
