/* Some thirty ways to spoil one step of a schedule. A change that spoils nothing is not counted, so
 * each says where it does: a COPY may well run a round later, and the order of two summands matters
 * only to those who promised one. */
#include "unit/collectives/prove/check_spoil.h"

#include <string.h>

const struct gyre_algorithm *spoil_real;

static bool is_message(const struct gyre_step *step)
{
    return step->kind == GYRE_SEND || step->kind == GYRE_RECV;
}

bool spoil_drop(const struct gyre_slice *s, uint64_t index, struct gyre_round *round, uint32_t at)
{
    if (!is_message(&round->step[at]) && round->step[at].length == 0)
        return false;
    round->steps--;
    memmove(&round->step[at], &round->step[at + 1], (round->steps - at) * sizeof *round->step);
    return true;
}

static bool twice(const struct gyre_slice *s, uint64_t index, struct gyre_round *round, uint32_t at)
{
    if (!is_message(&round->step[at]) && round->step[at].length == 0)
        return false;
    round->step[round->steps++] = round->step[at];
    return true;
}

static bool shift_place(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                        uint32_t at)
{
    round->step[at].at.offset += s->element;
    return round->step[at].length > 0;
}

static bool shift_back(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    round->step[at].at.offset -= s->element;
    return round->step[at].length > 0;
}

static bool shift_byte(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    round->step[at].at.offset++;
    return true;
}

static bool shorten(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                    uint32_t at)
{
    if (round->step[at].length == 0)
        return false;
    round->step[at].length -= s->element;
    return true;
}

static bool shorten_byte(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    if (round->step[at].length == 0)
        return false;
    round->step[at].length--;
    return true;
}

/* A longer COPY of a segment copies the start of the next one, which is right. */
static bool lengthen(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                     uint32_t at)
{
    round->step[at].length += s->element;
    return round->step[at].kind != GYRE_COPY;
}

static bool wrong_length(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    round->step[at].length = UINT64_MAX - UINT64_MAX % s->element;
    return true;
}

static bool next_peer(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                      uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    step->peer = (step->peer + 1) % s->n;
    if (step->peer == s->rank)
        step->peer = (step->peer + 1) % s->n;
    return is_message(step) && s->n > 2;
}

static bool own_peer(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                     uint32_t at)
{
    round->step[at].peer = s->rank;
    return is_message(&round->step[at]);
}

static bool no_peer(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                    uint32_t at)
{
    round->step[at].peer = s->n;
    return is_message(&round->step[at]);
}

static bool turn_message(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    step->kind = step->kind == GYRE_SEND ? GYRE_RECV : GYRE_SEND;
    return is_message(&round->step[at]);
}

/* A broadcast's root may send from either once it has copied, so only the first round counts. */
static bool send_output(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                        uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    bool spoils = step->kind == GYRE_SEND && step->at.buffer == GYRE_INPUT && index == 0;
    step->at.buffer = GYRE_OUTPUT;
    return spoils && step->length > 0;
}

static bool send_input(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    bool spoils = step->kind == GYRE_SEND && step->at.buffer == GYRE_OUTPUT;
    step->at.buffer = GYRE_INPUT;
    return spoils && step->length > 0;
}

static bool write_input(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                        uint32_t at)
{
    round->step[at].at.buffer = GYRE_INPUT;
    return round->step[at].kind != GYRE_SEND;
}

static bool write_scratch(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                          uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    bool spoils = step->kind != GYRE_SEND && step->at.buffer == GYRE_OUTPUT && step->length > 0;
    step->at.buffer = GYRE_SCRATCH;
    return spoils;
}

static bool write_output(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    bool spoils = step->kind == GYRE_RECV && step->at.buffer == GYRE_SCRATCH && step->length > 0;
    step->at.buffer = GYRE_OUTPUT;
    return spoils;
}

static bool no_buffer(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                      uint32_t at)
{
    round->step[at].at.buffer = (enum gyre_buffer)3;
    return true;
}

/* What arrives lands on what is being sent from, or in place would. */
static bool alias(const struct gyre_slice *s, uint64_t index, struct gyre_round *round, uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    for (uint32_t i = 0; i < round->steps && step->kind == GYRE_RECV && step->length > 0; i++) {
        const struct gyre_place *from = &round->step[i].at;
        int64_t shift = from->buffer == GYRE_INPUT ? gyre_slice_shift(s) : 0;
        if (round->step[i].kind == GYRE_SEND && round->step[i].length == step->length &&
            (int64_t)from->offset + shift >= 0) {
            step->at.buffer = GYRE_OUTPUT;
            step->at.offset = (uint64_t)((int64_t)from->offset + shift);
            return true;
        }
    }
    return false;
}

static bool turn_final(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    round->step[at].flags ^= GYRE_STEP_FINAL;
    return round->step[at].kind != GYRE_REDUCE || round->step[at].length > 0;
}

static bool drop_source(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                        uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources == 0)
        return false;
    step->sources--;
    return step->length > 0;
}

static bool drop_first_source(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                              uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources == 0)
        return false;
    step->first++;
    step->sources--;
    return step->length > 0;
}

static bool double_source(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                          uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources < 2)
        return false;
    round->source[step->first + 1] = round->source[step->first];
    return step->length > 0;
}

static bool add_source(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources == 0 || at + 1 < round->steps)
        return false;
    round->source[round->sources++] = round->source[step->first];
    step->sources++;
    return step->length > 0;
}

bool spoil_swap_sources(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                        uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources < 2 || !spoil_real->rank_order)
        return false;
    struct gyre_place first = round->source[step->first];
    round->source[step->first] = round->source[step->first + 1];
    round->source[step->first + 1] = first;
    return step->length > 0;
}

static bool shift_source(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    if (step->sources == 0)
        return false;
    round->source[step->first].offset += s->element;
    return step->length > 0;
}

static bool source_from_output(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                               uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    for (uint32_t i = 0; i < step->sources && step->length > 0; i++)
        if (round->source[step->first + i].buffer == GYRE_INPUT) {
            round->source[step->first + i].buffer = GYRE_OUTPUT;
            return true;
        }
    return false;
}

static bool source_from_input(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                              uint32_t at)
{
    struct gyre_step *step = &round->step[at];
    for (uint32_t i = 0; i < step->sources && step->length > 0; i++)
        if (round->source[step->first + i].buffer != GYRE_INPUT) {
            round->source[step->first + i].buffer = GYRE_INPUT;
            return true;
        }
    return false;
}

/* Changes to both ends of a message: the two agree, so only its content can give them away. */
static bool shorten_message(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                            uint32_t at)
{
    return is_message(&round->step[at]) && shorten(s, index, round, at);
}

static bool drop_message(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                         uint32_t at)
{
    return is_message(&round->step[at]) && round->step[at].length > 0 &&
           spoil_drop(s, index, round, at);
}

/* Moves: only a COPY may run earlier or later. */
static bool not_copy(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                     uint32_t at)
{
    return round->step[at].kind != GYRE_COPY &&
           (is_message(&round->step[at]) || round->step[at].length > 0);
}

static bool meet(struct gyre_place a, uint64_t a_length, struct gyre_place b, uint64_t b_length)
{
    return a.buffer == b.buffer && a.offset < b.offset + b_length && b.offset < a.offset + a_length;
}

/* Does one of two steps write what the other touches? */
static bool depend(const struct gyre_step *a, const struct gyre_place *a_source,
                   const struct gyre_step *b, const struct gyre_place *b_source)
{
    bool found =
        (a->kind != GYRE_SEND || b->kind != GYRE_SEND) && meet(a->at, a->length, b->at, b->length);
    for (uint32_t i = 0; a->kind != GYRE_SEND && i < b->sources; i++)
        found |= meet(a->at, a->length, b_source[b->first + i], b->length);
    for (uint32_t i = 0; b->kind != GYRE_SEND && i < a->sources; i++)
        found |= meet(b->at, b->length, a_source[a->first + i], a->length);
    return found;
}

/* A local step may be late where nothing in the next round needs it. */
static bool is_awaited(const struct gyre_slice *s, uint64_t index, struct gyre_round *round,
                       uint32_t at)
{
    struct gyre_step step[SPOIL_ROOM];
    struct gyre_place source[SPOIL_ROOM];
    struct gyre_round next = {step, source, 0, SPOIL_ROOM, 0, SPOIL_ROOM, false};
    bool awaited = is_message(&round->step[at]);
    if (index + 1 < spoil_real->extent(s).rounds)
        spoil_real->round(s, index + 1, &next);
    for (uint32_t i = 0; i < next.steps; i++)
        awaited |= depend(&round->step[at], round->source, &step[i], source);
    return awaited && not_copy(s, index, round, at);
}

const struct spoil_way spoil_ways[] = {
    {"drop", spoil_drop},
    {"twice", twice},
    {"shift place", shift_place},
    {"shift back", shift_back},
    {"shift by a byte", shift_byte},
    {"shorten", shorten},
    {"shorten by a byte", shorten_byte},
    {"lengthen", lengthen},
    {"length that wraps", wrong_length},
    {"next peer", next_peer},
    {"own rank as peer", own_peer},
    {"no such peer", no_peer},
    {"send for receive", turn_message},
    {"send from output", send_output},
    {"send from input", send_input},
    {"write to input", write_input},
    {"write to scratch", write_scratch},
    {"write to output", write_output},
    {"no such buffer", no_buffer},
    {"alias", alias},
    {"final", turn_final},
    {"drop a source", drop_source},
    {"drop the first source", drop_first_source},
    {"double a source", double_source},
    {"add a source", add_source},
    {"swap sources", spoil_swap_sources},
    {"shift a source", shift_source},
    {"source from output", source_from_output},
    {"source from input", source_from_input},
    {"shorten message", shorten_message, .both = true},
    {"drop message", drop_message, .both = true},
    {"delay", is_awaited, .move = 1},
    {"hurry", not_copy, .move = -1},
    {"swap rounds", is_awaited, .swap = true},
};

const size_t spoil_ways_count = sizeof spoil_ways / sizeof *spoil_ways;
