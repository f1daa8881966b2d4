/* Checks the form of a round: each step alone, each message against its other end, and the steps of
 * a rank against each other.
 *
 * Against each other, INPUT and OUTPUT count as one buffer, laid over each other as in place: the
 * worse of the two cases. Steps share no byte that one of them writes, with two exceptions that are
 * harmless in place too. A REDUCE or COPY may land exactly on its own source. A COPY from INPUT to
 * the same place of OUTPUT does nothing in place, so other steps may read that INPUT meanwhile.
 *
 * Tested by tests/unit/collectives/prove/check_rules_test.c. */
#include "collectives/prove/check_inside.h"

#include "base/size.h"

/* -- form: each step alone --------------------------------------------------------------------- */

/* The block that holds byte `at`, or any other where none does. */
static uint32_t block_near(const struct gyre_slice *s, enum gyre_buffer buffer, uint64_t at)
{
    uint32_t blocks = gyre_slice_blocks(s, buffer), i = 0;
    uint64_t stride = s->stride * s->element;
    if (stride > 0 && !s->in.count && !s->out.count)
        return at / stride < blocks ? (uint32_t)(at / stride) : 0;
    for (; i + 1 < blocks; i++) {
        struct gyre_span span = gyre_slice_block(s, buffer, i);
        if (at >= span.at && at - span.at < span.bytes)
            break;
    }
    return i;
}

/* Whether the range lies inside blocks. A range may cross from one block into the next where they
 * touch. */
static bool inside_blocks(const struct gyre_slice *s, enum gyre_buffer buffer, uint64_t at,
                          uint64_t end)
{
    while (at < end) {
        struct gyre_span span = gyre_slice_block(s, buffer, block_near(s, buffer, at));
        if (at < span.at || at - span.at >= span.bytes)
            return false;
        at = span.at + span.bytes;
    }
    return true;
}

static bool inside(const struct gyre_actor *a, struct gyre_place place, uint64_t length)
{
    uint64_t end;
    if (!gyre_add_u64(place.offset, length, &end) || place.offset % a->slice.element != 0)
        return false;
    if (place.buffer == GYRE_SCRATCH)
        return end <= a->extent.scratch_bytes;
    return inside_blocks(&a->slice, place.buffer, place.offset, end);
}

static bool sources_fit(const struct gyre_step *step)
{
    switch (step->kind) {
    case GYRE_REDUCE:
        return step->sources >= 1;
    case GYRE_COPY:
        return step->sources == 1;
    default:
        return step->sources == 0;
    }
}

static int check_place(const struct gyre_checker *c, struct gyre_actor *a,
                       const struct gyre_step *step, struct gyre_place place)
{
    if ((unsigned)place.buffer > GYRE_SCRATCH)
        return gyre_check_fail_step(c, a, step, "there is no buffer %u", (unsigned)place.buffer);
    if (place.buffer != GYRE_SCRATCH && gyre_slice_blocks(&a->slice, place.buffer) == 0)
        return gyre_check_fail_step(c, a, step, "only the root has an %s here",
                                    gyre_buffer_name[place.buffer]);
    if (!inside(a, place, step->length))
        return gyre_check_fail_step(c, a, step, "%s + %llu is out of bounds or cuts an element",
                                    gyre_buffer_name[place.buffer],
                                    (unsigned long long)place.offset);
    if (place.buffer == GYRE_SCRATCH && place.offset + step->length > a->scratch_used)
        a->scratch_used = place.offset + step->length;
    return 0;
}

static int check_step(const struct gyre_checker *c, struct gyre_actor *a,
                      const struct gyre_step *step)
{
    bool message = step->kind == GYRE_SEND || step->kind == GYRE_RECV;
    uint32_t allowed = step->kind == GYRE_REDUCE ? GYRE_STEP_FINAL : 0;
    if ((unsigned)step->kind > GYRE_COPY || (unsigned)step->at.buffer > GYRE_SCRATCH)
        return gyre_check_fail_rank(c, a->slice.rank, "round %llu: no such step or buffer (%u, %u)",
                                    (unsigned long long)c->index, (unsigned)step->kind,
                                    (unsigned)step->at.buffer);
    if (step->kind != GYRE_SEND && step->at.buffer == GYRE_INPUT)
        return gyre_check_fail_step(c, a, step, "INPUT is never written");
    if ((step->flags & ~allowed) != 0 || !sources_fit(step))
        return gyre_check_fail_step(c, a, step,
                                    "flags %#x and %u sources do not fit this kind of step",
                                    step->flags, step->sources);
    if (message && (step->peer >= c->n || step->peer == a->slice.rank))
        return gyre_check_fail_step(c, a, step, "its peer is rank %u", step->peer);
    if (step->length % a->slice.element != 0)
        return gyre_check_fail_step(c, a, step, "it does not move whole elements");
    int status = check_place(c, a, step, step->at);
    for (uint32_t i = 0; status == 0 && i < step->sources; i++)
        status = check_place(c, a, step, a->round.source[step->first + i]);
    return status;
}

int gyre_check_steps(struct gyre_checker *c, struct gyre_actor *a)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < a->round.steps; i++)
        status = check_step(c, a, &a->round.step[i]);
    return status;
}

/* -- match: SEND with RECV --------------------------------------------------------------------- */

const struct gyre_step *gyre_check_find(const struct gyre_actor *a, enum gyre_step_kind kind,
                                        uint32_t peer, uint32_t *count)
{
    const struct gyre_step *found = NULL;
    *count = 0;
    for (uint32_t i = 0; i < a->round.steps; i++) {
        const struct gyre_step *step = &a->round.step[i];
        if (step->kind == kind && step->peer == peer) {
            found = step;
            ++*count;
        }
    }
    return found;
}

static int check_message(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step)
{
    uint32_t count;
    enum gyre_step_kind wanted = step->kind == GYRE_SEND ? GYRE_RECV : GYRE_SEND;
    const struct gyre_step *other =
        gyre_check_find(&c->actor[step->peer], wanted, a->slice.rank, &count);
    if (count != 1)
        return gyre_check_fail_step(c, a, step, "rank %u has %u matching %s in this round, not one",
                                    step->peer, count, gyre_step_kind_name[wanted]);
    if (other->length != step->length)
        return gyre_check_fail_step(c, a, step, "the matching %s of rank %u is of %llu bytes",
                                    gyre_step_kind_name[wanted], step->peer,
                                    (unsigned long long)other->length);
    if (step->kind == GYRE_SEND)
        a->sent += step->length;
    return 0;
}

int gyre_check_messages(struct gyre_checker *c, struct gyre_actor *a)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < a->round.steps; i++) {
        const struct gyre_step *step = &a->round.step[i];
        if (step->kind == GYRE_SEND || step->kind == GYRE_RECV)
            status = check_message(c, a, step);
    }
    return status;
}

/* -- apart: the steps of a round against each other -------------------------------------------- */

static struct gyre_access access_of(const struct gyre_actor *a, uint32_t step,
                                    struct gyre_place place, bool write)
{
    bool input = place.buffer == GYRE_INPUT;
    int64_t start = (int64_t)place.offset + (input && a->aliased ? a->shift : 0);
    return (struct gyre_access){.step = step,
                                .buffer = input && a->aliased ? GYRE_OUTPUT : place.buffer,
                                .start = start,
                                .end = start + (int64_t)a->round.step[step].length,
                                .write = write,
                                .input = input};
}

static uint32_t list_accesses(const struct gyre_actor *a, struct gyre_access *to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->round.steps; i++) {
        const struct gyre_step *step = &a->round.step[i];
        struct gyre_access *at = &to[count++];
        *at = access_of(a, i, step->at, step->kind != GYRE_SEND);
        for (uint32_t j = 0; j < step->sources; j++)
            to[count++] = access_of(a, i, a->round.source[step->first + j], false);
        at->idle = step->kind == GYRE_COPY && at->buffer == GYRE_OUTPUT && at[1].input &&
                   at[1].buffer == GYRE_OUTPUT && at[1].start == at->start;
    }
    return count;
}

/* Whether `write` and `other` may stand in one round, be INPUT and OUTPUT one memory or two. */
static bool apart(const struct gyre_access *write, const struct gyre_access *other)
{
    if (write->buffer != other->buffer || write->end <= other->start ||
        other->end <= write->start || write->start == write->end || other->start == other->end)
        return true;
    if (write->step == other->step) /* elementwise onto its own source */
        return write->start == other->start;
    return write->idle && other->input;
}

int gyre_check_apart(struct gyre_checker *c, struct gyre_actor *a)
{
    uint32_t count = list_accesses(a, c->access);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; c->access[i].write && j < count; j++)
            if (i != j && !apart(&c->access[i], &c->access[j]))
                return gyre_check_fail_step(c, a, &a->round.step[c->access[i].step],
                                            "it writes what step %u %s in the same round",
                                            c->access[j].step,
                                            c->access[j].write ? "writes" : "reads");
    return 0;
}
