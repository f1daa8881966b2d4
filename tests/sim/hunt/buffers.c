/* Numbers of the hunt's calls. Element i of a rank's input is a small integer, exact in every type
 * and so is every sum; it depends on the call, the rank and i modulo a prime. So what has to come
 * out is a table of that many elements. */
#include "sim/hunt/buffers.h"

#include "base/small_floats.h"

#include <string.h>

#define PERIOD 251
#define GUARD  64
#define BLANK  0xe7

struct table {
    uint8_t element[PERIOD][8];
};

void hunt_place(struct hunt_place *place, uint32_t number, uint32_t rank)
{
    const struct hunt_op *op = &hunt.is->op[number];
    *place = (struct hunt_place){.op = op, .number = number};
    for (uint32_t r = 0; r < hunt.is->n; r++) {
        if (op->part && r % 2 != rank % 2)
            continue;
        if (r == rank)
            place->me = place->n;
        place->member[place->n++] = r;
    }
    place->root = op->root % place->n;
}

/* -- numbers ----------------------------------------------------------------------------------- */

static int number_of(uint64_t phase)
{
    return (int)(gyre_mix64(phase % PERIOD + 1) % 13);
}

static uint64_t phase_of(const struct hunt_place *place, uint32_t member)
{
    return 31 * place->member[member] + 17 * place->number;
}

static int fold(const struct hunt_place *place, uint64_t i)
{
    int result = number_of(i + phase_of(place, 0));
    for (uint32_t m = 1; m < place->n; m++) {
        int next = number_of(i + phase_of(place, m));
        if (place->op->op == GYRE_SUM)
            result += next;
        else if ((place->op->op == GYRE_MIN) == (next < result))
            result = next;
    }
    return result;
}

static void encode(enum gyre_type type, int value, uint8_t to[8])
{
    float f32 = (float)value;
    double f64 = value;
    uint16_t half = type == GYRE_F16 ? gyre_f16_of_f32(f32) : gyre_bf16_of_f32(f32);
    int64_t integer = value;
    const void *from = type == GYRE_F32                        ? (const void *)&f32
                       : type == GYRE_F64                      ? (const void *)&f64
                       : type == GYRE_F16 || type == GYRE_BF16 ? (const void *)&half
                                                               : (const void *)&integer;
    memcpy(to, from, gyre_type_size(type)); /* little endian */
}

/* What a member sends; HUNT_NOBODY: the fold over all. */
static void make_table(const struct hunt_place *place, uint32_t member, struct table *table)
{
    for (uint64_t i = 0; i < PERIOD; i++)
        encode(place->op->type,
               member == HUNT_NOBODY ? fold(place, i) : number_of(i + phase_of(place, member)),
               table->element[i]);
}

static void put(const struct hunt_place *place, uint32_t member, uint8_t *to, uint64_t count)
{
    size_t size = gyre_type_size(place->op->type);
    struct table table;
    make_table(place, member, &table);
    for (uint64_t i = 0; i < count; i++)
        memcpy(to + i * size, table.element[i % PERIOD], size);
}

/* -- buffers ----------------------------------------------------------------------------------- */

uint64_t hunt_sent(const struct hunt_place *place, uint32_t from, uint32_t to)
{
    return place->op->count * ((from * 3 + to) % 4) / 3;
}

/* Elements in each buffer of this rank. */
static void measure(const struct hunt_place *place, struct hunt_result *result, uint64_t length[2])
{
    uint64_t count = place->op->count, all = count * place->n, end = 0;
    bool root = place->me == place->root;
    uint64_t in[HUNT_CALLS] = {
        [HUNT_ALL_REDUCE] = count, [HUNT_BROADCAST] = root ? count : 0, [HUNT_REDUCE] = count,
        [HUNT_ALL_GATHER] = count, [HUNT_REDUCE_SCATTER] = all,         [HUNT_ALL_TO_ALL] = all,
        [HUNT_GATHER] = count,     [HUNT_SCATTER] = root ? all : 0,     [HUNT_RING] = count};
    uint64_t out[HUNT_CALLS] = {[HUNT_ALL_REDUCE] = count,
                                [HUNT_BROADCAST] = count,
                                [HUNT_REDUCE] = root ? count : 0,
                                [HUNT_ALL_GATHER] = all,
                                [HUNT_REDUCE_SCATTER] = count,
                                [HUNT_ALL_TO_ALL] = all,
                                [HUNT_GATHER] = root ? all : 0,
                                [HUNT_SCATTER] = count,
                                [HUNT_RING] = count};
    for (uint32_t m = 0; m < place->n; m++) {
        bool gathers = place->op->call == HUNT_ALL_GATHER_V;
        result->counts[m] = gathers ? count * (m % 3) / 2 : hunt_sent(place, m, place->me);
        result->at[m] = end;
        end += result->counts[m] + (gathers ? m % 2 : 0);
        in[HUNT_ALL_TO_ALL_V] += hunt_sent(place, place->me, m);
    }
    in[HUNT_ALL_GATHER_V] = result->counts[place->me];
    out[HUNT_ALL_GATHER_V] = out[HUNT_ALL_TO_ALL_V] = end;
    length[0] = in[place->op->call];
    length[1] = out[place->op->call];
}

static bool can_be_in_place(const struct hunt_place *place, const uint64_t length[2])
{
    enum hunt_call call = place->op->call;
    return place->op->in_place && length[0] && length[1] && call != HUNT_ALL_TO_ALL_V &&
           call != HUNT_RING;
}

static void lay_in_place(const struct hunt_place *place, struct hunt_result *result, size_t size)
{
    uint64_t own = place->me * place->op->count * size;
    switch (place->op->call) {
    case HUNT_ALL_GATHER:
    case HUNT_GATHER:
        result->input = result->output + own;
        break;
    case HUNT_ALL_GATHER_V:
        result->input = result->output + result->at[place->me] * size;
        break;
    case HUNT_REDUCE_SCATTER:
    case HUNT_SCATTER:
        result->output = result->input + own;
        break;
    default:
        result->input = result->output;
    }
}

void hunt_make_buffers(const struct hunt_place *place, struct hunt_result *result)
{
    size_t size = gyre_type_size(place->op->type);
    uint64_t length[2];
    measure(place, result, length);
    for (int i = 0; i < 2; i++) {
        result->bytes[i] = length[i] * size + 2 * GUARD;
        result->memory[i] = hunt_allocate(result->bytes[i]);
        memset(result->memory[i], BLANK, result->bytes[i]);
    }
    result->input = length[0] ? result->memory[0] + GUARD : NULL;
    result->output = length[1] ? result->memory[1] + GUARD : NULL;
    if (can_be_in_place(place, length))
        lay_in_place(place, result, size);
    if (length[0])
        put(place, place->me, result->input, length[0]);
}

/* -- what has come out ------------------------------------------------------------------------- */

uint64_t hunt_hash_buffers(const struct hunt_result *result)
{
    return hunt_hash(result->memory[0], result->bytes[0]) ^
           gyre_mix64(hunt_hash(result->memory[1], result->bytes[1]));
}

static bool is_blank(const uint8_t *from, const uint8_t *to)
{
    for (; from < to; from++)
        if (*from != BLANK)
            return false;
    return true;
}

/* Compares `count` elements from element `at` of the output on with a member's from `first` on. */
static bool right_block(const struct hunt_place *place, const struct hunt_result *result,
                        uint32_t member, uint64_t at, uint64_t first, uint64_t count)
{
    size_t size = gyre_type_size(place->op->type);
    struct table table;
    if (!count)
        return true;
    make_table(place, member, &table);
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(result->output + (at + i) * size, table.element[(first + i) % PERIOD], size))
            return false;
    return true;
}

static uint64_t sent_before(const struct hunt_place *place, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t m = 0; m < to; m++)
        sum += hunt_sent(place, from, m);
    return sum;
}

static bool right_from(const struct hunt_place *place, const struct hunt_result *result,
                       uint32_t member)
{
    uint64_t count = place->op->count, mine = place->me * count;
    switch (place->op->call) {
    case HUNT_ALL_TO_ALL:
        return right_block(place, result, member, member * count, mine, count);
    case HUNT_ALL_GATHER_V:
        return right_block(place, result, member, result->at[member], 0, result->counts[member]);
    case HUNT_ALL_TO_ALL_V:
        return right_block(place, result, member, result->at[member],
                           sent_before(place, member, place->me), result->counts[member]);
    default:
        return right_block(place, result, member, member * count, 0, count);
    }
}

static bool right_output(const struct hunt_place *place, const struct hunt_result *result)
{
    uint64_t count = place->op->count;
    uint32_t before = (place->me + place->n - 1) % place->n;
    if (!result->output || place->op->call >= HUNT_BARRIER)
        return true;
    switch (place->op->call) {
    case HUNT_ALL_REDUCE:
    case HUNT_REDUCE:
        return right_block(place, result, HUNT_NOBODY, 0, 0, count);
    case HUNT_REDUCE_SCATTER:
        return right_block(place, result, HUNT_NOBODY, 0, place->me * count, count);
    case HUNT_BROADCAST:
        return right_block(place, result, place->root, 0, 0, count);
    case HUNT_SCATTER:
        return right_block(place, result, place->root, 0, place->me * count, count);
    case HUNT_RING:
        return right_block(place, result, before, 0, 0, count);
    default:
        for (uint32_t m = 0; m < place->n; m++)
            if (!right_from(place, result, m))
                return false;
        return true;
    }
}

void hunt_check_right(const struct hunt_place *place, const struct hunt_result *result,
                      uint32_t rank)
{
    for (int i = 0; i < 2; i++) {
        const uint8_t *start = result->memory[i], *end = start + result->bytes[i];
        if (!is_blank(start, start + GUARD) || !is_blank(end - GUARD, end))
            hunt_wrong("rank %u, call %u: written outside its buffers", rank, place->number);
    }
    if (result->ended && !result->failed && !right_output(place, result))
        hunt_wrong("rank %u, call %u has returned 0, and its output is wrong", rank, place->number);
}
