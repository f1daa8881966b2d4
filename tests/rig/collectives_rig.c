/* What every byte must be, computed from (giver, block, byte) alone.
 *
 * Verbs that move are given bytes of a hash, whatever the type; verbs that reduce are given small
 * numbers. A buffer is laid between guards, filled with a colour, asked for, and compared. */
#include "rig/collectives_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD  64u
#define COLOUR 0xa5

struct layout {
    uint64_t element;
    uint64_t count[RIG_RANKS_MAX], at[RIG_RANKS_MAX]; /* elements of blocks in the longer buffer */
    uint64_t end;                                     /* of the longer buffer, in elements */
    uint64_t one;                                     /* elements of this rank's single block */
};

static bool has_root(enum verb verb)
{
    return verb == REDUCE || verb == GATHER || verb == SCATTER || verb == BROADCAST;
}

static bool reduces(enum verb verb)
{
    return verb == REDUCE || verb == REDUCE_SCATTER || verb == ALL_REDUCE;
}

static bool many_in(enum verb verb)
{
    return verb == REDUCE_SCATTER || verb == ALL_TO_ALL || verb == SCATTER;
}

static bool many_out(enum verb verb)
{
    return verb == ALL_GATHER || verb == ALL_GATHER_V || verb == ALL_TO_ALL || verb == GATHER;
}

enum gyre_type type_of(enum verb verb, int turn)
{
    static const enum gyre_type numbers[] = {GYRE_I32, GYRE_F64, GYRE_U8, GYRE_F32};
    static const enum gyre_type bytes[] = {GYRE_I32, GYRE_F64, GYRE_U8, GYRE_BF16, GYRE_F8E4M3};
    return reduces(verb) ? numbers[turn % 4] : bytes[turn % 5];
}

enum gyre_op op_of(enum verb verb, int turn)
{
    static const enum gyre_op ops[] = {GYRE_SUM, GYRE_AVG, GYRE_MAX, GYRE_PROD};
    return reduces(verb) ? ops[turn % 4] : GYRE_SUM;
}

/* -- values ------------------------------------------------------------------------------------ */

static uint8_t moved_byte(int giver, int block, uint64_t byte)
{
    uint64_t x = (byte + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)(giver * 131 + block * 17 + 3) << 32;
    return (uint8_t)(x >> 40 ^ x >> 33);
}

/* One and two: no product is too large. Of period 3, so a rank taken twice for another shows where
 * that pairs ranks, halves or quarters. */
static double number(int giver, int block, uint64_t i)
{
    return ((uint64_t)giver + (uint64_t)block + i) % 3 == 0 ? 2 : 1;
}

static void put(uint8_t *at, enum gyre_type type, double v)
{
    float single = (float)v;
    int32_t whole = (int32_t)v;
    uint8_t byte = (uint8_t)whole;
    const void *from = type == GYRE_F64   ? (const void *)&v
                       : type == GYRE_F32 ? (const void *)&single
                       : type == GYRE_I32 ? (const void *)&whole
                                          : (const void *)&byte;
    memcpy(at, from, gyre_type_size(type));
}

/* Of giver's block: what the giver has there. */
static void give(uint8_t *at, const struct question *ask, int giver, int block, uint64_t count)
{
    uint64_t element = gyre_type_size(ask->type);
    if (reduces(ask->verb))
        for (uint64_t i = 0; i < count; i++)
            put(at + i * element, ask->type, number(giver, block, i));
    else
        for (uint64_t i = 0; i < count * element; i++)
            at[i] = moved_byte(giver, block, i);
}

static double reduced(const struct question *ask, int n, int block, uint64_t i)
{
    double sum = 0, product = 1, most = 0;
    for (int r = 0; r < n; r++) {
        double v = number(r, block, i);
        sum += v;
        product *= v;
        most = v > most ? v : most;
    }
    bool integer = ask->type == GYRE_I32 || ask->type == GYRE_U8;
    switch (ask->op) {
    case GYRE_AVG:
        return ask->type == GYRE_F32 ? (double)((float)sum / (float)n)
               : integer             ? (double)(int)(sum / n)
                                     : sum / n;
    case GYRE_MAX:
        return most;
    case GYRE_PROD:
        return product;
    default:
        return sum;
    }
}

/* What a block of somebody's OUTPUT must hold. */
static void expect(uint8_t *at, const struct question *ask, int n, int rank, int block,
                   uint64_t count)
{
    uint64_t element = gyre_type_size(ask->type);
    if (ask->verb == ALL_TO_ALL)
        give(at, ask, block, rank, count);
    else if (ask->verb == SCATTER || ask->verb == BROADCAST)
        give(at, ask, ask->root, ask->verb == SCATTER ? rank : 0, count);
    else if (many_out(ask->verb))
        give(at, ask, block, 0, count);
    else
        for (uint64_t i = 0; i < count; i++)
            put(at + i * element, ask->type,
                reduced(ask, n, ask->verb == REDUCE_SCATTER ? rank : 0, i));
}

/* -- buffers ----------------------------------------------------------------------------------- */

/* Unequal blocks: some empty, with holes between them, not in the order of ranks. */
static struct layout lay(const struct question *ask, int n, int rank)
{
    struct layout layout = {.element = gyre_type_size(ask->type), .one = ask->count};
    bool v = ask->verb == ALL_GATHER_V;
    for (int r = 0; r < n; r++) {
        int block = v ? (r + 1) % n : r;
        layout.count[block] =
            v ? (ask->count * (uint64_t)(block + 1) / 3) * (block != 1) : ask->count;
        layout.at[block] = layout.end;
        layout.end += layout.count[block] + (v ? (unsigned)r % 2 * 3 : 0);
    }
    if (v)
        layout.one = layout.count[rank];
    return layout;
}

struct buffers {
    uint8_t *input, *output; /* NULL where this rank has none */
    uint64_t input_bytes, output_bytes;
};

static void colour(uint8_t *at, uint64_t bytes)
{
    memset(at - GUARD, COLOUR, bytes + 2 * GUARD);
}

static struct buffers place(const struct stage *stage, const struct question *ask,
                            const struct layout *layout, int rank)
{
    bool root = !has_root(ask->verb) || rank == ask->root;
    uint64_t one = layout->one * layout->element, all = layout->end * layout->element;
    uint64_t skew = GUARD + ask->skew * layout->element;
    struct buffers b = {.input_bytes = many_in(ask->verb) ? all : one,
                        .output_bytes = many_out(ask->verb) ? all : one};
    b.input = stage->memory[ask->input] + skew;
    b.output = stage->memory[ask->output] + skew;
    colour(b.input, b.input_bytes);
    colour(b.output, b.output_bytes);
    if (ask->in_place && root && many_in(ask->verb) && !many_out(ask->verb))
        b.output = b.input + layout->at[rank] * layout->element;
    else if (ask->in_place && root && many_out(ask->verb) && !many_in(ask->verb))
        b.input = b.output + layout->at[rank] * layout->element;
    else if (ask->in_place && root)
        b.input = b.output;
    if ((ask->verb == SCATTER || ask->verb == BROADCAST) && !root)
        b.input = NULL;
    if ((ask->verb == GATHER || ask->verb == REDUCE) && !root)
        b.output = NULL;
    return b;
}

static void fill(const struct buffers *b, const struct question *ask, const struct layout *layout,
                 int n, int rank)
{
    for (int block = 0; b->input && many_in(ask->verb) && block < n; block++)
        give(b->input + layout->at[block] * layout->element, ask, rank, block,
             layout->count[block]);
    if (b->input && !many_in(ask->verb))
        give(b->input, ask, rank, 0, layout->one);
}

/* -- asking ------------------------------------------------------------------------------------ */

static int call(struct gyre_comm *comm, const struct question *a, const struct buffers *b,
                const struct layout *layout)
{
    switch (a->verb) {
    case REDUCE:
        return gyre_reduce(comm, b->input, b->output, a->count, a->type, a->op, a->root);
    case ALL_GATHER:
        return gyre_all_gather(comm, b->input, b->output, a->count, a->type);
    case ALL_GATHER_V:
        return gyre_all_gather_v(comm, b->input, b->output, layout->count, layout->at, a->type);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter(comm, b->input, b->output, a->count, a->type, a->op);
    case ALL_TO_ALL:
        return gyre_all_to_all(comm, b->input, b->output, a->count, a->type);
    case GATHER:
        return gyre_gather(comm, b->input, b->output, a->count, a->type, a->root);
    case SCATTER:
        return gyre_scatter(comm, b->input, b->output, a->count, a->type, a->root);
    case ALL_REDUCE:
        return gyre_all_reduce(comm, b->input, b->output, a->count, a->type, a->op);
    case BROADCAST:
        return gyre_broadcast(comm, b->input, b->output, a->count, a->type, a->root);
    case VERBS:
        break;
    }
    return 1;
}

static int start(struct gyre_comm *comm, const struct question *a, const struct buffers *b,
                 const struct layout *layout, struct gyre_work **work)
{
    switch (a->verb) {
    case REDUCE:
        return gyre_reduce_start(comm, b->input, b->output, a->count, a->type, a->op, a->root,
                                 work);
    case ALL_GATHER:
        return gyre_all_gather_start(comm, b->input, b->output, a->count, a->type, work);
    case ALL_GATHER_V:
        return gyre_all_gather_v_start(comm, b->input, b->output, layout->count, layout->at,
                                       a->type, work);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter_start(comm, b->input, b->output, a->count, a->type, a->op, work);
    case ALL_TO_ALL:
        return gyre_all_to_all_start(comm, b->input, b->output, a->count, a->type, work);
    case GATHER:
        return gyre_gather_start(comm, b->input, b->output, a->count, a->type, a->root, work);
    case SCATTER:
        return gyre_scatter_start(comm, b->input, b->output, a->count, a->type, a->root, work);
    case ALL_REDUCE:
        return gyre_all_reduce_start(comm, b->input, b->output, a->count, a->type, a->op, work);
    case BROADCAST:
        return gyre_broadcast_start(comm, b->input, b->output, a->count, a->type, a->root, work);
    case VERBS:
        break;
    }
    return 1;
}

/* -- looking ----------------------------------------------------------------------------------- */

static int complain(struct gyre_comm *comm, const struct question *ask, const char *what,
                    uint64_t byte)
{
    static const char *const names[] = {"reduce",         "all_gather", "all_gather_v",
                                        "reduce_scatter", "all_to_all", "gather",
                                        "scatter",        "all_reduce", "broadcast"};
    fprintf(stderr,
            "%s rank %d of %d: type %d op %d count %llu root %d %s memory %d %d%s: %s, byte %lld\n",
            names[ask->verb], gyre_rank(comm), gyre_size(comm), (int)ask->type, (int)ask->op,
            (unsigned long long)ask->count, ask->root, ask->in_place ? "in place" : "apart",
            ask->input, ask->output, ask->started ? " started" : "", what, (long long)byte);
    return 1;
}

/* The OUTPUT as it must be, guards and holes included. */
static uint8_t *model_of(const struct question *ask, const struct buffers *b,
                         const struct layout *layout, int n, int rank)
{
    uint8_t *model = malloc(b->output_bytes + 2 * GUARD), *at = model + GUARD;
    memset(model, COLOUR, b->output_bytes + 2 * GUARD);
    for (int block = 0; many_out(ask->verb) && block < n; block++)
        expect(at + layout->at[block] * layout->element, ask, n, rank, block, layout->count[block]);
    if (!many_out(ask->verb))
        expect(at, ask, n, rank, rank, layout->one);
    return model;
}

/* Where the output stands inside the input its neighbours are no guards. */
static int look_at_output(struct gyre_comm *comm, const struct question *ask,
                          const struct buffers *b, const struct layout *layout)
{
    int rank = gyre_rank(comm), n = gyre_size(comm), bad = 0;
    uint8_t *model = model_of(ask, b, layout, n, rank);
    bool inside = ask->in_place && many_in(ask->verb) && !many_out(ask->verb);
    uint64_t guard = inside ? 0 : GUARD;
    for (uint64_t i = GUARD - guard; i < b->output_bytes + GUARD + guard && !bad; i++)
        if (b->output[(int64_t)i - GUARD] != model[i])
            bad = complain(comm, ask, "the output is wrong", i - GUARD);
    free(model);
    return bad;
}

static int look_at_input(struct gyre_comm *comm, const struct question *ask,
                         const struct buffers *b, const struct layout *layout)
{
    int rank = gyre_rank(comm), bad = 0;
    struct buffers copy = *b;
    copy.input = malloc(b->input_bytes + 1);
    memcpy(copy.input, b->input, b->input_bytes);
    fill(&copy, ask, layout, gyre_size(comm), rank);
    if (memcmp(copy.input, b->input, b->input_bytes))
        bad = complain(comm, ask, "the input was changed", 0);
    free(copy.input);
    return bad;
}

/* -- devices ----------------------------------------------------------------------------------- */

/* Both memories that the question uses, there or back. */
static int carry(const struct stage *stage, const struct question *ask, const struct buffers *b,
                 bool back)
{
    uint64_t bytes = b->input_bytes > b->output_bytes ? b->input_bytes : b->output_bytes;
    const int used[] = {ask->input, ask->output};
    bytes += 2 * GUARD + ask->skew * gyre_type_size(ask->type);
    for (int i = 0; i < 2; i++) {
        uint8_t *here = stage->memory[used[i]], *away = stage->away[used[i]];
        if (away && stage->carry(back ? here : away, back ? away : here, bytes))
            return -1;
    }
    return 0;
}

/* The same place in the device's memory, if it has one. */
static uint8_t *away_of(const struct stage *stage, const struct question *ask, uint8_t *at,
                        uint64_t bytes)
{
    const int used[] = {ask->input, ask->output};
    for (int i = 0; at && i < 2; i++) {
        uint8_t *here = stage->memory[used[i]];
        uint64_t most = 2 * GUARD + ask->skew * gyre_type_size(ask->type) + bytes;
        if (stage->away[used[i]] && at >= here && at < here + most)
            return stage->away[used[i]] + (at - here);
    }
    return at;
}

struct answer {
    struct layout layout;
    struct buffers buffers;
    struct gyre_work *work; /* NULL: not started */
};

struct answer *ask_begin(struct gyre_comm *comm, const struct stage *stage,
                         const struct question *ask)
{
    struct answer *answer = calloc(1, sizeof(*answer));
    answer->layout = lay(ask, gyre_size(comm), gyre_rank(comm));
    answer->buffers = place(stage, ask, &answer->layout, gyre_rank(comm));
    const struct buffers *b = &answer->buffers;
    struct buffers there = *b;
    uint64_t bytes = b->input_bytes > b->output_bytes ? b->input_bytes : b->output_bytes;
    fill(b, ask, &answer->layout, gyre_size(comm), gyre_rank(comm));
    there.input = away_of(stage, ask, b->input, bytes);
    there.output = away_of(stage, ask, b->output, bytes);
    int status = carry(stage, ask, b, false);
    if (!status)
        status = ask->started ? start(comm, ask, &there, &answer->layout, &answer->work)
                              : call(comm, ask, &there, &answer->layout);
    if (!status)
        return answer;
    complain(comm, ask, gyre_error(comm), 0);
    free(answer);
    return NULL;
}

static int look(struct gyre_comm *comm, const struct question *ask, const struct answer *answer)
{
    const struct buffers *b = &answer->buffers;
    if (b->output && look_at_output(comm, ask, b, &answer->layout))
        return 1;
    return b->input && !ask->in_place && look_at_input(comm, ask, b, &answer->layout);
}

int ask_end(struct gyre_comm *comm, const struct stage *stage, const struct question *ask,
            struct answer *answer)
{
    int status = answer->work ? gyre_work_wait(answer->work, -1) : 0;
    int bad = status || carry(stage, ask, &answer->buffers, true)
                  ? complain(comm, ask, gyre_error(comm), 0)
                  : look(comm, ask, answer);
    free(answer);
    return bad;
}

int ask_and_check(struct gyre_comm *comm, const struct stage *stage, const struct question *ask)
{
    struct answer *answer = ask_begin(comm, stage, ask);
    return answer ? ask_end(comm, stage, ask, answer) : 1;
}

static struct stage part_of(const struct stage *stage, uint64_t at)
{
    struct stage part = *stage;
    for (int i = 0; i < 4; i++) {
        part.memory[i] = stage->memory[i] ? stage->memory[i] + at : NULL;
        part.away[i] = stage->away[i] ? stage->away[i] + at : NULL;
    }
    return part;
}

int ask_in_group(struct gyre_comm *comm, const struct stage *stage, const struct question *ask,
                 int asks, uint64_t room)
{
    struct answer **answer = calloc((size_t)asks, sizeof(struct answer *));
    int bad = rig_check(!gyre_group_start(comm), comm, "gyre_group_start");
    for (int i = 0; i < asks; i++) {
        struct stage part = part_of(stage, (uint64_t)i * room);
        answer[i] = ask_begin(comm, &part, &ask[i]);
        bad |= !answer[i];
    }
    bad |= rig_check(!gyre_group_end(comm), comm, "gyre_group_end");
    for (int k = 0; k < asks && !bad; k++) {
        int i = k % 2 ? asks - 1 - k / 2 : k / 2;
        struct stage part = part_of(stage, (uint64_t)i * room);
        bad = ask_end(comm, &part, &ask[i], answer[i]);
    }
    free(answer);
    return bad;
}
