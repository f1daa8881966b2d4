/* Where a host mirror's bytes are, and which of them a slice needs.
 *
 *     parcels       0     1     2     3     4     5
 *     asked                           ▲               copies in are posted up to here, a few ahead
 *     ready               ▲                           and have come up to here: they may be read
 *     given         in any order, as lanes end; the operation ends when the last copy has
 *
 * A parcel is a slice. Those of a PUSH are short, for its stage, so several make one, of about a
 * MiB; an EXCHANGE is one in all.
 *
 * Tested by tests/program/cuda/collectives.c. */
#include "collectives/staging/host_mirror.h"

#include "base/size.h"
#include "collectives/staging/pinned.h"
#include "collectives/staging/stream_wait.h"

#include <errno.h>
#include <stdlib.h>

#define AHEAD        16u /* parcels asked for beyond those that have come */
#define PARCEL_BYTES (UINT64_C(1) << 20)
#define PAGE         4096u

#define BLOCKS_APART 64u /* with places of their own, that a stream copies */

struct gyre_host_mirror {
    struct gyre_host_mirror *next;
    struct gyre_fold_queue *fold_queue;
    struct gyre_pinned pinned;
    bool used;

    const struct gyre_plan *plan;
    uint32_t n, rank;
    const uint8_t *input; /* the caller's, on the device; NULL: the host's, or nothing */
    uint8_t *output;
    uint8_t *host_input, *host_output; /* their places in the mirror */
    uint64_t parcels, each;            /* parcels of `each` slices */
    uint64_t asked, ready, given;
    uint64_t ticket[AHEAD]; /* of parcels asked for */
    uint64_t last;          /* of what was given back */

    bool on_stream; /* the copies stand on the caller's stream */
    bool by_kernel; /* a kernel makes each copy */
    struct gyre_stream_wait way;
};

/* -- storage ----------------------------------------------------------------------------------- */

/* A stream may read and write its mirror after the operation. */
static bool is_idle(const struct gyre_host_mirror *mirror)
{
    return !mirror->used && gyre_stream_wait_passed(&mirror->way);
}

static void free_mirror(struct gyre_host_mirror *mirror)
{
    gyre_pinned_drop(mirror->fold_queue, &mirror->pinned, is_idle(mirror));
    free(mirror);
}

static struct gyre_host_mirror *new_mirror(struct gyre_fold_queue *fold_queue, uint64_t bytes)
{
    struct gyre_host_mirror *mirror = calloc(1, sizeof(*mirror));
    if (!mirror)
        return NULL;
    mirror->fold_queue = fold_queue;
    if (gyre_pinned_make(fold_queue, bytes, &mirror->pinned)) {
        free(mirror);
        return NULL;
    }
    return mirror;
}

/* Finds the first idle mirror that is large enough. An idle one that is too small makes room for a
 * larger one. */
static struct gyre_host_mirror *find_mirror(struct gyre_mirror_pool *pool, uint64_t bytes)
{
    for (struct gyre_host_mirror *it = pool->first; it; it = it->next)
        if (is_idle(it) && it->pinned.bytes >= bytes) {
            gyre_pinned_lock(pool->fold_queue, &it->pinned);
            return it;
        }
    for (struct gyre_host_mirror **at = &pool->first; *at; at = &(*at)->next)
        if (is_idle(*at)) {
            struct gyre_host_mirror *small = *at;
            *at = small->next;
            free_mirror(small);
            break;
        }
    struct gyre_host_mirror *fresh = new_mirror(pool->fold_queue, bytes);
    if (fresh) {
        fresh->next = pool->first;
        pool->first = fresh;
    }
    return fresh;
}

void gyre_mirror_release(struct gyre_host_mirror *mirror)
{
    if (mirror)
        mirror->used = false;
}

void gyre_mirror_pool_deinit(struct gyre_mirror_pool *pool)
{
    gyre_late_deinit(&pool->tables, pool->fold_queue);
    while (pool->first) {
        struct gyre_host_mirror *first = pool->first;
        pool->first = first->next;
        free_mirror(first);
    }
}

/* -- layout ------------------------------------------------------------------------------------ */

/* Places INPUT and OUTPUT to each other as the caller's are. */
static void lay_out_mirror(struct gyre_host_mirror *mirror, bool in_place, uint64_t in_bytes)
{
    intptr_t apart = (intptr_t)gyre_shape_distance(&mirror->plan->shape, mirror->rank);
    if (!in_place)
        apart = (intptr_t)gyre_round_up(in_bytes, PAGE);
    mirror->host_input = mirror->pinned.memory + (apart < 0 ? -apart : 0);
    mirror->host_output = mirror->host_input + apart;
}

/* Slices of a parcel. */
static uint64_t each_of(const struct gyre_plan *plan, uint64_t longest)
{
    if (plan->form != GYRE_FORM_PUSH)
        return plan->form == GYRE_FORM_STEPS ? 1 : plan->slices;
    uint64_t bytes = longest / plan->slices;
    return bytes && bytes < PARCEL_BYTES ? PARCEL_BYTES / bytes : 1;
}

static void begin_mirror(struct gyre_host_mirror *mirror, const struct gyre_mirror_pool *pool,
                         const struct gyre_plan *plan)
{
    mirror->used = true;
    mirror->plan = plan;
    mirror->n = pool->n;
    mirror->rank = pool->rank;
    mirror->each = each_of(plan, plan->input_bytes > plan->output_bytes ? plan->input_bytes
                                                                        : plan->output_bytes);
    mirror->parcels = (plan->slices + mirror->each - 1) / mirror->each;
    mirror->asked = mirror->ready = mirror->given = mirror->last = 0;
    mirror->on_stream = mirror->by_kernel = false;
    mirror->way = (struct gyre_stream_wait){0};
}

int gyre_mirror_make(struct gyre_mirror_pool *pool, const struct gyre_plan *plan,
                     const struct gyre_request *request, struct gyre_host_mirror **out,
                     struct gyre_trouble *trouble)
{
    const struct gyre_shape *shape = &plan->shape;
    const void *input = request->input.address;
    void *output = request->output.address;
    struct gyre_fold_queue *fold_queue = pool->fold_queue;
    *out = NULL;
    if (!fold_queue)
        return 0;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, pool->n, pool->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, pool->n, pool->rank);
    bool in = in_bytes && request->input.kind != GYRE_MEMORY_HOST;
    bool back = out_bytes && request->output.kind != GYRE_MEMORY_HOST;
    if (!in && !back)
        return 0;
    int status = gyre_fold_queue_open(fold_queue, trouble);
    if (status)
        return status;
    uint64_t bytes = gyre_round_up(in_bytes, PAGE) + out_bytes;
    struct gyre_host_mirror *mirror = find_mirror(pool, bytes);
    if (!mirror)
        return gyre_trouble_set(trouble, -ENOMEM,
                                "no memory for %llu bytes of host memory beside %s memory",
                                (unsigned long long)bytes, fold_queue->device->name);
    begin_mirror(mirror, pool, plan);
    mirror->input = in ? input : NULL;
    mirror->output = back ? output : NULL;
    if (!in) /* it is where the operation reads it */
        mirror->asked = mirror->ready = mirror->parcels;
    lay_out_mirror(mirror, gyre_shape_in_place(shape, pool->rank, input, output), in_bytes);
    *out = mirror;
    return 0;
}

void gyre_mirror_use(struct gyre_operation *op, struct gyre_host_mirror *mirror)
{
    op->mirror = mirror;
    if (!mirror)
        return;
    if (mirror->input)
        op->input = mirror->host_input;
    if (mirror->output)
        op->output = mirror->host_output;
}

int gyre_mirror_leave_device(struct gyre_mirror_pool *pool, struct gyre_operation *op,
                             struct gyre_trouble *trouble)
{
    struct gyre_host_mirror *mirror;
    const struct gyre_request request = {
        .input = {(void *)(uintptr_t)op->input, op->plan->input_bytes, GYRE_MEMORY_CUDA, true},
        .output = {op->output, op->plan->output_bytes, GYRE_MEMORY_CUDA, true}};
    int status = gyre_mirror_make(pool, op->plan, &request, &mirror, trouble);
    if (status)
        return status;
    mirror->by_kernel = mirror->pinned.locked;
    op->direct = false;
    gyre_mirror_use(op, mirror);
    return 0;
}

/* -- copies ------------------------------------------------------------------------------------ */

/* All slices of a parcel as one slice. */
static struct gyre_slice slice_of_mirror(const struct gyre_host_mirror *mirror, uint64_t index)
{
    const struct gyre_plan *plan = mirror->plan;
    struct gyre_slice slice = gyre_plan_slice(plan, mirror->n, mirror->rank, index * mirror->each);
    uint64_t left = plan->shape.count - slice.first;
    uint64_t most = mirror->each * plan->slice_count;
    slice.count = index + 1 == mirror->parcels || left < most ? left : most;
    return slice;
}

/* Copies that a parcel takes. Where one parcel is all of the operation its blocks stand close
 * together, unless their places were given. */
static uint32_t pieces_of(const struct gyre_host_mirror *mirror, const struct gyre_slice *slice,
                          enum gyre_buffer buffer)
{
    bool apart = buffer == GYRE_OUTPUT && mirror->plan->blocks.count;
    uint32_t blocks = gyre_slice_blocks(slice, buffer);
    return blocks && mirror->parcels == 1 && !apart ? 1 : blocks;
}

static struct gyre_span piece_of(const struct gyre_host_mirror *mirror,
                                 const struct gyre_slice *slice, enum gyre_buffer buffer,
                                 uint32_t i)
{
    struct gyre_span span = gyre_slice_block(slice, buffer, i);
    if (pieces_of(mirror, slice, buffer) < gyre_slice_blocks(slice, buffer))
        span.bytes *= gyre_slice_blocks(slice, buffer);
    return span;
}

/* Posts a copy. Those of an operation that has left the device may come behind a copy of the
 * program's, which waits on its engine for that very operation: a kernel needs no engine. */
static uint64_t post_one_copy(const struct gyre_host_mirror *mirror, void *to, const void *from,
                              uint64_t bytes)
{
    struct gyre_fold_queue *fold_queue = mirror->fold_queue;
    const struct gyre_fold_task task = {
        .destination = &to, .destinations = 1, .source = &from, .sources = 1, .count = bytes};
    if (!mirror->by_kernel)
        return gyre_fold_queue_copy(fold_queue, to, from, bytes);
    return gyre_fold_queue_fold(fold_queue, gyre_fold_queue_copier(fold_queue), &task);
}

/* Posts the parcel's copies of one buffer and returns the last one's ticket. More blocks than a
 * queue has room for are short: they are waited for. */
static uint64_t post_mirror_copy(const struct gyre_host_mirror *mirror, uint64_t index,
                                 enum gyre_buffer buffer)
{
    const struct gyre_slice slice = slice_of_mirror(mirror, index);
    uint64_t base = slice.first * slice.element, ticket = 0;
    uint32_t pieces = pieces_of(mirror, &slice, buffer);
    for (uint32_t i = 0; i < pieces; i++) {
        struct gyre_span span = piece_of(mirror, &slice, buffer, i);
        uint64_t at = base + span.at;
        ticket =
            buffer == GYRE_INPUT
                ? post_one_copy(mirror, mirror->host_input + at, mirror->input + at, span.bytes)
                : post_one_copy(mirror, mirror->output + at, mirror->host_output + at, span.bytes);
    }
    return ticket;
}

/* -- on the caller's stream -------------------------------------------------------------------- */

/* All slices as one. */
static struct gyre_slice whole_mirror(const struct gyre_host_mirror *mirror)
{
    struct gyre_slice slice = gyre_plan_slice(mirror->plan, mirror->n, mirror->rank, 0);
    slice.count = mirror->plan->shape.count;
    return slice;
}

/* The number of steps in which INPUT arrives: one block can be cut anywhere. */
static uint32_t steps_of_mirror(const struct gyre_host_mirror *mirror)
{
    const struct gyre_slice slice = whole_mirror(mirror);
    if (!mirror->input || gyre_slice_blocks(&slice, GYRE_INPUT) != 1)
        return 1;
    return mirror->parcels < GYRE_MIRROR_STEPS ? (uint32_t)mirror->parcels : GYRE_MIRROR_STEPS;
}

/* Parcels of a step. */
static uint64_t parcels_of_step(const struct gyre_host_mirror *mirror)
{
    uint32_t steps = steps_of_mirror(mirror);
    return (mirror->parcels + steps - 1) / steps;
}

static int write_arrived(const struct gyre_host_mirror *mirror, void *stream, uint64_t value,
                         struct gyre_trouble *trouble)
{
    const struct gyre_stream_word word = {mirror->way.arrived, value, true};
    return gyre_fold_queue_words_on(mirror->fold_queue, stream, &word, 1, trouble);
}

/* Copies INPUT in steps; the last one is told by the words that follow. */
static int post_steps(const struct gyre_host_mirror *mirror, void *stream,
                      struct gyre_trouble *trouble)
{
    const struct gyre_slice all = whole_mirror(mirror);
    struct gyre_span span = gyre_slice_block(&all, GYRE_INPUT, 0);
    uint64_t each = parcels_of_step(mirror) * mirror->each * mirror->plan->slice_count;
    uint64_t bytes = each * mirror->plan->element, at = 0, value = mirror->way.before;
    int status = 0;
    while (!status && at < span.bytes) {
        uint64_t left = span.bytes - at;
        if (at)
            status = write_arrived(mirror, stream, ++value, trouble);
        if (!status)
            status = gyre_fold_queue_copy_on(
                mirror->fold_queue, stream, mirror->host_input + span.at + at,
                mirror->input + span.at + at, left < bytes ? left : bytes, trouble);
        at += bytes;
    }
    return status;
}

/* Copies all of a buffer, block by block where blocks have places of their own. */
static int post_whole(const struct gyre_host_mirror *mirror, void *stream, enum gyre_buffer buffer,
                      struct gyre_trouble *trouble)
{
    const struct gyre_slice all = whole_mirror(mirror);
    bool apart = buffer == GYRE_OUTPUT && mirror->plan->blocks.count;
    uint32_t blocks = gyre_slice_blocks(&all, buffer), pieces = blocks && !apart ? 1 : blocks;
    int status = 0;
    for (uint32_t i = 0; i < pieces && !status; i++) {
        struct gyre_span span = gyre_slice_block(&all, buffer, i);
        span.bytes *= pieces < blocks ? blocks : 1;
        void *to = buffer == GYRE_INPUT ? mirror->host_input + span.at : mirror->output + span.at;
        const void *from =
            buffer == GYRE_INPUT ? mirror->input + span.at : mirror->host_output + span.at;
        if (span.bytes)
            status =
                gyre_fold_queue_copy_on(mirror->fold_queue, stream, to, from, span.bytes, trouble);
    }
    return status;
}

static int post_input(const struct gyre_host_mirror *mirror, void *stream,
                      struct gyre_trouble *trouble)
{
    if (!mirror->input)
        return 0;
    return steps_of_mirror(mirror) > 1 ? post_steps(mirror, stream, trouble)
                                       : post_whole(mirror, stream, GYRE_INPUT, trouble);
}

/* Blocks with places of their own are short where they are many: each is a copy on the stream. */
static bool suits_stream(const struct gyre_host_mirror *mirror)
{
    const struct gyre_slice all = whole_mirror(mirror);
    bool apart = mirror->output && mirror->plan->blocks.count;
    return mirror->pinned.locked && !(apart && gyre_slice_blocks(&all, GYRE_OUTPUT) > BLOCKS_APART);
}

int gyre_mirror_post_on(struct gyre_host_mirror *mirror, struct gyre_fold_queue *fold_queue,
                        void *stream, struct gyre_stream_wait *stream_wait,
                        struct gyre_trouble *trouble)
{
    bool copies = mirror && suits_stream(mirror);
    int status = gyre_stream_wait_take(stream_wait, copies ? steps_of_mirror(mirror) : 1, trouble);
    if (status)
        return status;
    const struct gyre_stream_word words[] = {{stream_wait->arrived, stream_wait->value, true},
                                             {stream_wait->word, stream_wait->value, false},
                                             {stream_wait->passed, stream_wait->value, true}};
    if (copies) {
        mirror->way = *stream_wait;
        mirror->on_stream = true;
        status = post_input(mirror, stream, trouble);
    }
    if (!status)
        status = gyre_fold_queue_words_on(fold_queue, stream, words, copies ? 2 : 3, trouble);
    if (!status)
        gyre_stream_wait_expect(stream_wait);
    if (!status && copies && mirror->output)
        status = post_whole(mirror, stream, GYRE_OUTPUT, trouble);
    if (!status && copies)
        status = gyre_fold_queue_words_on(fold_queue, stream, &words[2], 1, trouble);
    if (status && copies)
        mirror->on_stream = false;
    return status;
}

/* -- copies of the operation's own ------------------------------------------------------------- */

static bool mirror_has_room(const struct gyre_host_mirror *mirror)
{
    uint32_t wanted = mirror->n < GYRE_DEVICE_POSTS ? mirror->n : GYRE_DEVICE_POSTS;
    return gyre_fold_queue_room(mirror->fold_queue) >= wanted;
}

/* Learns from the stream what has come. */
static bool look_at_stream(struct gyre_host_mirror *mirror)
{
    uint64_t ready = mirror->ready;
    uint64_t come = gyre_stream_wait_steps(&mirror->way) * parcels_of_step(mirror);
    if (mirror->input)
        mirror->asked = mirror->ready = come < mirror->parcels ? come : mirror->parcels;
    return mirror->ready != ready;
}

bool gyre_mirror_run(struct gyre_host_mirror *mirror)
{
    uint64_t asked = mirror->asked, ready = mirror->ready;
    if (mirror->on_stream)
        return look_at_stream(mirror);
    while (mirror->asked < mirror->parcels && mirror->asked - mirror->ready < AHEAD &&
           mirror_has_room(mirror)) {
        mirror->ticket[mirror->asked % AHEAD] = post_mirror_copy(mirror, mirror->asked, GYRE_INPUT);
        mirror->asked++;
    }
    while (mirror->ready < mirror->asked &&
           gyre_fold_queue_done(mirror->fold_queue, mirror->ticket[mirror->ready % AHEAD]))
        mirror->ready++;
    return mirror->asked != asked || mirror->ready != ready;
}

bool gyre_mirror_ready(const struct gyre_host_mirror *mirror, uint64_t slice)
{
    return slice / mirror->each < mirror->ready;
}

static bool give(struct gyre_host_mirror *mirror, uint64_t parcel)
{
    bool copies = mirror->output && !mirror->on_stream;
    if (copies && !mirror_has_room(mirror))
        return false;
    if (copies)
        mirror->last = post_mirror_copy(mirror, parcel, GYRE_OUTPUT);
    mirror->given++;
    return true;
}

bool gyre_mirror_give(struct gyre_host_mirror *mirror, uint64_t slice)
{
    return give(mirror, slice);
}

bool gyre_mirror_give_before(struct gyre_host_mirror *mirror, uint64_t slices)
{
    uint64_t given = mirror->given;
    uint64_t whole = slices == mirror->plan->slices ? mirror->parcels : slices / mirror->each;
    while (mirror->given < whole && give(mirror, mirror->given))
        continue;
    return mirror->given != given;
}

bool gyre_mirror_given(const struct gyre_host_mirror *mirror)
{
    return mirror->given == mirror->parcels;
}

bool gyre_mirror_over(const struct gyre_host_mirror *mirror)
{
    return gyre_mirror_given(mirror) && gyre_fold_queue_done(mirror->fold_queue, mirror->last);
}
