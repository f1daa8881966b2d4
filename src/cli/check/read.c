/* Reads a schedule, in the form that `gyre show --json` prints:
 *
 *     {"operation":"all_reduce","algorithm":"mine","n":2,"count":1,"element_bytes":4,"ranks":[
 *      {"rank":0,"rounds":[
 *       [{"kind":"SEND","buffer":"INPUT","offset":0,"length":4,"peer":1}, …],
 *       …]},
 *      …]}
 *
 * Keys come in any order. What may be left out: algorithm, root (0), element_bytes (4), counts,
 * in_place, and of a rank sent_bytes and scratch_bytes, which are promises that the checker holds.
 * A key that is unknown, stands twice or lacks is refused, with line and column. What the steps do
 * is the checker's matter.
 *
 * Tested by tests/program/cli/check.c. */
#include "cli/check/listed.h"

#include "base/env.h"
#include "data/files/json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX (UINT64_C(1) << 40)

struct listing {
    struct gyre_listed *to;
    struct gyre_json json;
    char *word; /* room for the longest string of the text */
    const uint8_t *mark;
    uint64_t counts;
    size_t count_room, at_room;
};

/* A key of an object, and what reads its value. */
struct list_key {
    const char *name;
    bool needed;
    int (*read)(struct listing *r);
};

/* -- words and numbers ------------------------------------------------------------------------- */

/* Remembers where the next value begins, for a refusal of it. */
static void mark(struct listing *r)
{
    r->mark = r->json.at;
    while (r->mark < r->json.end && *r->mark != '\0' && strchr(" \t\n\r", *r->mark) != NULL)
        r->mark++;
}

/* Refuses the value at the mark. */
#define REFUSE(r, ...) ((r)->json.at = (r)->mark, gyre_json_refuse(&(r)->json, __VA_ARGS__))

static int list_number(struct listing *r, uint64_t most, uint64_t *number)
{
    mark(r);
    int status = gyre_json_whole(&r->json, number);
    if (status == 0 && *number > most)
        return REFUSE(r, "%" PRIu64 " is more than %" PRIu64, *number, most);
    return status;
}

static int list_u32(struct listing *r, uint64_t most, uint32_t *number)
{
    uint64_t wide = 0;
    int status = list_number(r, most, &wide);
    *number = (uint32_t)wide;
    return status;
}

/* Reads one of `count` words; *index becomes its place. */
static int list_word(struct listing *r, const char *what, const char *const *words, int count,
                     int *index)
{
    mark(r);
    int status = gyre_json_string(&r->json, r->word);
    if (status != 0)
        return status;
    for (*index = 0; *index < count; ++*index)
        if (strcmp(r->word, words[*index]) == 0)
            return 0;
    const char *near = gyre_nearest_word(r->word, words, count);
    return REFUSE(r, "%s \"%.40s\"%s%s%s", what, r->word,
                  near ? "; did you mean \"" : " is unknown", near ? near : "", near ? "\"?" : "");
}

static int list_bool(struct listing *r, bool *yes)
{
    mark(r);
    int status = gyre_json_skip(&r->json);
    size_t length = (size_t)(r->json.at - r->mark);
    *yes = length == 4 && memcmp(r->mark, "true", 4) == 0;
    if (status == 0 && !*yes && !(length == 5 && memcmp(r->mark, "false", 5) == 0))
        return REFUSE(r, "true or false is expected");
    return status;
}

/* -- objects ----------------------------------------------------------------------------------- */

static int find_member(struct listing *r, const struct list_key *keys, int count, const char *what)
{
    const char *names[16];
    for (int i = 0; i < count; i++) {
        names[i] = keys[i].name;
        if (strcmp(r->word, names[i]) == 0)
            return i;
    }
    const char *near = gyre_nearest_word(r->word, names, count);
    return REFUSE(r, "%s has no \"%.40s\"%s%s%s", what, r->word, near ? "; did you mean \"" : "",
                  near ? near : "", near ? "\"?" : "");
}

static int list_member(struct listing *r, const struct list_key *keys, int count, const char *what,
                       uint32_t *seen)
{
    mark(r);
    int status = gyre_json_key(&r->json, r->word);
    int index = status == 0 ? find_member(r, keys, count, what) : status;
    if (index < 0)
        return index;
    if (*seen >> index & 1)
        return REFUSE(r, "%s has \"%s\" twice", what, keys[index].name);
    *seen |= 1u << index;
    return keys[index].read(r);
}

/* Reads an object of these keys; *seen gets a bit for each that was there. */
static int list_object(struct listing *r, const struct list_key *keys, int count, const char *what,
                       uint32_t *seen)
{
    bool more = false;
    *seen = 0;
    mark(r);
    const uint8_t *begin = r->mark;
    int status = gyre_json_open(&r->json, '{');
    while (status == 0 && (status = gyre_json_more(&r->json, '}', &more)) == 0 && more)
        status = list_member(r, keys, count, what, seen);
    r->mark = begin;
    for (int i = 0; status == 0 && i < count; i++)
        if (keys[i].needed && !(*seen >> i & 1))
            return REFUSE(r, "%s lacks \"%s\"", what, keys[i].name);
    return status;
}

static int list_array(struct listing *r, int (*read)(struct listing *r))
{
    bool more = false;
    int status = gyre_json_open(&r->json, '[');
    while (status == 0 && (status = gyre_json_more(&r->json, ']', &more)) == 0 && more)
        status = read(r);
    return status;
}

/* -- steps ------------------------------------------------------------------------------------- */

static struct gyre_step *last_step(struct listing *r)
{
    return &r->to->step[r->to->steps - 1];
}

static struct gyre_place *last_source(struct listing *r)
{
    return &r->to->source[r->to->sources - 1];
}

static int list_buffer(struct listing *r, struct gyre_place *place)
{
    int index = 0, status = list_word(r, "buffer", gyre_buffer_name, GYRE_SCRATCH + 1, &index);
    place->buffer = (enum gyre_buffer)index;
    return status;
}

static int source_buffer(struct listing *r)
{
    return list_buffer(r, last_source(r));
}

static int source_offset(struct listing *r)
{
    return list_number(r, COUNT_MAX, &last_source(r)->offset);
}

static int list_source(struct listing *r)
{
    static const struct list_key keys[] = {{"buffer", true, source_buffer},
                                           {"offset", true, source_offset}};
    struct gyre_listed *to = r->to;
    uint32_t seen;
    if (gyre_listed_grow((void **)&to->source, &to->source_room, to->sources, sizeof *to->source))
        return -ENOMEM;
    to->source[to->sources++] = (struct gyre_place){0};
    last_step(r)->sources++;
    return list_object(r, keys, 2, "a source", &seen);
}

static int step_kind(struct listing *r)
{
    int index = 0, status = list_word(r, "kind", gyre_step_kind_name, GYRE_COPY + 1, &index);
    last_step(r)->kind = (enum gyre_step_kind)index;
    return status;
}

static int step_buffer(struct listing *r)
{
    return list_buffer(r, &last_step(r)->at);
}

static int step_offset(struct listing *r)
{
    return list_number(r, COUNT_MAX, &last_step(r)->at.offset);
}

static int step_length(struct listing *r)
{
    return list_number(r, COUNT_MAX, &last_step(r)->length);
}

static int step_peer(struct listing *r)
{
    return list_u32(r, UINT32_MAX, &last_step(r)->peer);
}

static int step_final(struct listing *r)
{
    bool final = false;
    int status = list_bool(r, &final);
    last_step(r)->flags = final ? GYRE_STEP_FINAL : 0;
    return status;
}

static int step_sources(struct listing *r)
{
    return list_array(r, list_source);
}

enum { KIND, BUFFER, OFFSET, LENGTH, PEER, FINAL, SOURCES, STEP_KEYS };

/* A message has a peer and no sources; a REDUCE has sources, a COPY one. */
static int check_kind(struct listing *r, uint32_t seen)
{
    const struct gyre_step *step = last_step(r);
    const char *kind = gyre_step_kind_name[step->kind];
    bool message = step->kind == GYRE_SEND || step->kind == GYRE_RECV;
    if (message != (seen >> PEER & 1))
        return REFUSE(r, message ? "this %s lacks \"peer\"" : "a %s has no \"peer\"", kind);
    if (message ? seen >> SOURCES & 1 : step->sources == 0)
        return REFUSE(r, message ? "a %s has no \"sources\"" : "this %s lacks \"sources\"", kind);
    if (step->kind == GYRE_COPY && step->sources != 1)
        return REFUSE(r, "a COPY has one source, not %u", step->sources);
    if (step->kind != GYRE_REDUCE && seen >> FINAL & 1)
        return REFUSE(r, "a %s has no \"final\"", kind);
    return 0;
}

static int list_step(struct listing *r)
{
    static const struct list_key keys[STEP_KEYS] = {
        [KIND] = {"kind", true, step_kind},          [BUFFER] = {"buffer", true, step_buffer},
        [OFFSET] = {"offset", true, step_offset},    [LENGTH] = {"length", true, step_length},
        [PEER] = {"peer", false, step_peer},         [FINAL] = {"final", false, step_final},
        [SOURCES] = {"sources", false, step_sources}};
    struct gyre_listed *to = r->to;
    uint32_t seen;
    if (gyre_listed_grow((void **)&to->step, &to->step_room, to->steps, sizeof *to->step) ||
        to->sources > UINT32_MAX)
        return -ENOMEM;
    to->step[to->steps++] = (struct gyre_step){.first = (uint32_t)to->sources};
    int status = list_object(r, keys, STEP_KEYS, "a step", &seen);
    return status != 0 ? status : check_kind(r, seen);
}

/* -- ranks ------------------------------------------------------------------------------------- */

static struct gyre_listed_rank *last_rank(struct listing *r)
{
    return &r->to->rank[r->to->ranks - 1];
}

static int list_round(struct listing *r)
{
    struct gyre_listed *to = r->to;
    if (gyre_listed_grow((void **)&to->round_start, &to->round_room, to->rounds,
                         sizeof *to->round_start))
        return -ENOMEM;
    to->round_start[to->rounds++] = to->steps;
    last_rank(r)->rounds++;
    return list_array(r, list_step);
}

static int rank_number(struct listing *r)
{
    uint64_t number = 0;
    int status = list_number(r, GYRE_LISTED_RANKS_MAX - 1, &number);
    if (status == 0 && number != r->to->ranks - 1)
        return REFUSE(r, "rank %" PRIu64 " where rank %zu is expected: all ranks, in their order",
                      number, r->to->ranks - 1);
    return status;
}

static int rank_sent(struct listing *r)
{
    last_rank(r)->promises_sent = true;
    return list_number(r, UINT64_MAX, &last_rank(r)->sent_bytes);
}

static int rank_scratch(struct listing *r)
{
    last_rank(r)->promises_scratch = true;
    return list_number(r, COUNT_MAX, &last_rank(r)->scratch_bytes);
}

static int rank_rounds(struct listing *r)
{
    last_rank(r)->first_round = r->to->rounds;
    return list_array(r, list_round);
}

static int list_rank(struct listing *r)
{
    static const struct list_key keys[] = {{"rank", true, rank_number},
                                           {"sent_bytes", false, rank_sent},
                                           {"scratch_bytes", false, rank_scratch},
                                           {"rounds", true, rank_rounds}};
    struct gyre_listed *to = r->to;
    uint32_t seen;
    if (gyre_listed_grow((void **)&to->rank, &to->rank_room, to->ranks, sizeof *to->rank))
        return -ENOMEM;
    to->rank[to->ranks++] = (struct gyre_listed_rank){0};
    return list_object(r, keys, 4, "a rank", &seen);
}

/* -- the schedule ------------------------------------------------------------------------------ */

static int list_operation(struct listing *r)
{
    int index = 0, status = list_word(r, "operation", gyre_verb_word, GYRE_VERBS, &index);
    r->to->slice.verb = (enum gyre_verb)index;
    return status;
}

static int list_name(struct listing *r)
{
    mark(r);
    int status = gyre_json_string(&r->json, r->word);
    size_t length = status == 0 ? strlen(r->word) : 0;
    if (status != 0)
        return status;
    for (const char *c = r->word; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("_-. ", *c) == NULL)
            length = 0;
    if (length == 0 || length > GYRE_LISTED_NAME_MAX)
        return REFUSE(r, "a name of 1 to %d letters, digits, '_', '-', '.' is expected",
                      GYRE_LISTED_NAME_MAX);
    memcpy(r->to->name, r->word, length + 1);
    return 0;
}

static int list_n(struct listing *r)
{
    int status = list_u32(r, GYRE_LISTED_RANKS_MAX, &r->to->slice.n);
    return status == 0 && r->to->slice.n == 0 ? REFUSE(r, "a schedule has ranks") : status;
}

static int list_root(struct listing *r)
{
    return list_u32(r, GYRE_LISTED_RANKS_MAX - 1, &r->to->slice.root);
}

static int list_count(struct listing *r)
{
    int status = list_number(r, COUNT_MAX, &r->to->slice.count);
    r->to->slice.stride = r->to->slice.count;
    return status;
}

static int list_element(struct listing *r)
{
    int status = list_u32(r, 1 << 20, &r->to->slice.element);
    return status == 0 && r->to->slice.element == 0 ? REFUSE(r, "an element has bytes") : status;
}

static int list_block(struct listing *r)
{
    struct gyre_listed *to = r->to;
    if (gyre_listed_grow((void **)&to->count, &r->count_room, r->counts, sizeof *to->count) ||
        gyre_listed_grow((void **)&to->at, &r->at_room, r->counts, sizeof *to->at))
        return -ENOMEM;
    uint64_t i = r->counts++;
    to->at[i] = i == 0 ? 0 : to->at[i - 1] + to->count[i - 1];
    return list_number(r, COUNT_MAX / GYRE_LISTED_RANKS_MAX, &to->count[i]);
}

static int list_counts(struct listing *r)
{
    return list_array(r, list_block);
}

static int list_in_place(struct listing *r)
{
    return list_bool(r, &r->to->slice.in_place);
}

static int list_all_ranks(struct listing *r)
{
    return list_array(r, list_rank);
}

/* Looks at keys that depend on each other. */
static int check_whole(struct listing *r)
{
    struct gyre_slice *s = &r->to->slice;
    const char *verb = gyre_verb_word[s->verb];
    bool takes = gyre_verb_nests(s->verb) != 0 && !gyre_verb_reduces(s->verb);
    if (r->to->ranks != s->n)
        return REFUSE(r, "\"n\" is %u, but \"ranks\" has %zu: all ranks are needed", s->n,
                      r->to->ranks);
    if (s->root >= s->n || (s->root != 0 && !gyre_verb_has_root(s->verb)))
        return REFUSE(r, "\"root\" is %u: %s of %u ranks has no such root", s->root, verb, s->n);
    if (s->in_place && s->verb != GYRE_VERB_ALL_TO_ALL)
        return REFUSE(r, "\"in_place\" is for all_to_all; others are proved for both");
    if (r->to->count != NULL && (!takes || r->counts != s->n))
        return REFUSE(r, "\"counts\" has a number for each of n ranks of an all_gather, gather or "
                         "scatter");
    if (r->to->count != NULL)
        *(gyre_verb_scatters(s->verb) ? &s->in : &s->out) =
            (struct gyre_blocks){r->to->at, r->to->count};
    return 0;
}

static int list_schedule(struct listing *r)
{
    static const struct list_key keys[] = {{"operation", true, list_operation},
                                           {"algorithm", false, list_name},
                                           {"n", true, list_n},
                                           {"root", false, list_root},
                                           {"count", true, list_count},
                                           {"element_bytes", false, list_element},
                                           {"counts", false, list_counts},
                                           {"in_place", false, list_in_place},
                                           {"ranks", true, list_all_ranks}};
    uint32_t seen;
    int status = list_object(r, keys, sizeof keys / sizeof *keys, "a schedule", &seen);
    if (status == 0)
        status = check_whole(r);
    return status != 0 ? status : gyre_json_end(&r->json);
}

int gyre_listed_read(struct gyre_listed *listed, const char *name, const void *text,
                     uint64_t length, struct gyre_trouble *trouble)
{
    *listed = (struct gyre_listed){.name = "listed", .slice = {.element = 4}};
    struct listing r = {.to = listed, .json = gyre_json_over(name, text, length, trouble)};
    r.json.by_line = true;
    r.word = malloc(length + 1);
    int status = r.word != NULL ? list_schedule(&r) : -ENOMEM;
    free(r.word);
    if (status == -ENOMEM)
        gyre_trouble_set(trouble, status, "%s: no memory for its steps", name);
    return status;
}
