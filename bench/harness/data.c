/* What the ranks give and receive in one call, and whether it arrived.
 *
 * An operation says (verb->lay) how many elements a rank gives and receives, and for each stretch
 * of its output which rank's elements belong there, or that all ranks' are reduced:
 *
 *     all_gather, 3 ranks, on every rank        reduce_scatter, on rank 1
 *       input    [ mine ]                         input    [ b0 | b1 | b2 ]
 *       output   [ 0's | 1's | 2's ]              output   [ all ranks' b1 reduced ]
 *
 * In place the shorter of the two is a part of the longer, and the longer is bench->output. All
 * else follows: what to rewrite and to read between timed calls, and what to expect behind one. */
#include "harness/data.h"

#include "harness/buffers.h"
#include "harness/pattern.h"
#include "harness/together.h"

#include <string.h>

#define GARBAGE 0xa5

/* -- a call ------------------------------------------------------------------------------------ */

/* Where a size holds n blocks each is a multiple of 16 bytes, as in nccl-tests. */
static uint64_t count_for(const struct bench *bench, uint64_t bytes, uint64_t element)
{
    switch (bench->verb->size) {
    case BENCH_SIZE_BLOCK:
        return bytes / element;
    case BENCH_SIZE_ALL:
        return bytes / element / (uint64_t)bench->n / (16 / element) * (16 / element);
    default:
        return 0;
    }
}

uint64_t bench_call_bytes(const struct bench *bench, const struct bench_call *call)
{
    uint64_t blocks = bench->verb->size == BENCH_SIZE_ALL ? (uint64_t)call->n : 1;
    return call->count * blocks * gyre_type_size(call->type);
}

void bench_call_lay(struct bench *bench, const struct bench_call *call, struct bench_lay *lay)
{
    *lay = (struct bench_lay){.stretch = bench->stretch};
    if (bench->verb->lay) {
        bench->verb->lay(call, lay);
    }
}

void bench_call_aim(struct bench *bench, struct bench_call *call, uint64_t bytes, bool in_place)
{
    struct bench_lay lay;
    uint64_t element = gyre_type_size(call->type);
    call->n = bench->n;
    call->rank = bench->rank;
    call->send = bench->send;
    call->recv = bench->recv;
    call->count = count_for(bench, bytes, element);
    if (bench->verb->share) {
        bench->verb->share(call);
    }
    bench_call_lay(bench, call, &lay);
    char *longer = bench->output;
    call->input = in_place ? longer + lay.input_at * element : bench->input;
    call->output = in_place ? longer + lay.output_at * element : longer;
}

void bench_call_make(struct bench *bench, const struct bench_call *call)
{
    int status = bench->verb->call(bench->comm, call);
    if (__builtin_expect(status, 0)) {
        bench_must(bench, status, bench->verb->name);
    }
}

static volatile uint64_t sink; /* what was read has been used */

/* Any bits will do that make no subnormal number in any type. */
void bench_call_refresh(struct bench *bench, const struct bench_call *call, int turn)
{
    struct bench_lay lay;
    uint64_t sum = 0, element = gyre_type_size(call->type);
    bench_call_lay(bench, call, &lay);
    const uint64_t *output = call->output;
    for (uint64_t i = 0; i < lay.output * element / sizeof sum; i++) {
        sum += output[i];
    }
    sink = sum;
    memset((void *)call->input, 0x38 + (turn & 7), lay.input * element);
}

/* -- check ------------------------------------------------------------------------------------- */

/* Who gives what it gave in the call before, if that is planted: a rank whose data somebody needs.
 */
static bool is_stale(const struct bench *bench, const struct bench_call *call)
{
    int giver = bench->verb->rooted && !bench->verb->reduces ? call->root : 0;
    return bench->options.plant == BENCH_PLANT_STALE && bench->rank == giver;
}

static void fill(struct bench *bench, const struct bench_call *call, const struct bench_lay *lay,
                 struct bench_pattern pattern)
{
    pattern.iteration -= is_stale(bench, call);
    size_t element = gyre_type_size(call->type);
    memset(bench_seen(bench, call->output), GARBAGE, lay->output * element);
    bench_push(bench, call->output, lay->output * element);
    bench_pattern_fill(&pattern, bench->rank, bench_seen(bench, call->input), lay->input);
    bench_push(bench, call->input, lay->input * element);
}

static bool is_spoiled(const struct bench *bench, const struct bench_call *call)
{
    int taker = bench->verb->rooted ? call->root : bench->n - 1;
    return bench->options.plant == BENCH_PLANT_ELEMENT && bench->rank == taker;
}

static uint64_t count_wrong(struct bench *bench, const struct bench_call *call,
                            const struct bench_lay *lay, struct bench_pattern pattern)
{
    uint64_t wrong = 0, element = gyre_type_size(call->type);
    bool spoil = is_spoiled(bench, call);
    bench_pull(bench, call->output, lay->output * element);
    for (int i = 0; i < lay->stretches; i++) {
        const struct bench_stretch *stretch = &lay->stretch[i];
        char *data = (char *)bench_seen(bench, call->output) + stretch->at * element;
        pattern.reduce = stretch->source == BENCH_ALL_RANKS;
        pattern.source = stretch->source;
        pattern.first = stretch->first;
        if (spoil && stretch->count > 0) {
            bench_pattern_spoil(&pattern, data, stretch->count / 2);
            spoil = false;
        }
        wrong += bench_pattern_count_wrong(&pattern, data, stretch->count);
    }
    return wrong;
}

/* Wrong elements on this rank. */
static uint64_t check_once(struct bench *bench, const struct bench_call *call)
{
    struct bench_lay lay;
    struct bench_pattern pattern = {.type = call->type,
                                    .reduce = bench->verb->reduces,
                                    .op = call->reduction,
                                    .n = bench->n,
                                    .iteration = ++bench->iteration};
    if (bench->verb->check) {
        return bench->verb->check(bench);
    }
    bench_call_lay(bench, call, &lay);
    fill(bench, call, &lay, pattern);
    bench_together(bench);
    bench_call_make(bench, call);
    return count_wrong(bench, call, &lay, pattern);
}

int64_t bench_call_check(struct bench *bench, const struct bench_call *call, int *ranks_wrong)
{
    int64_t found[2] = {0, 0}; /* elements, ranks */
    for (int i = 0; i < bench->options.checks && found[0] == 0; i++) {
        uint64_t wrong = check_once(bench, call);
        found[0] = (int64_t)wrong;
        found[1] = wrong > 0;
        bench_sum(bench, found, 2, GYRE_I64);
    }
    *ranks_wrong = (int)found[1];
    return bench->options.checks ? found[0] : -1;
}
