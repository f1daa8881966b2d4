/* What a round may look like: each step alone, each message against its other end, and the steps of
 * a rank against each other.
 *
 * For the last, INPUT and OUTPUT count as one buffer, the worse of the two cases. Steps share no
 * byte that one of them writes, with two exceptions that are harmless in place too: a REDUCE or
 * COPY may land exactly on its own source, and a COPY from INPUT to the same place of OUTPUT does
 * nothing in place, so others may read that INPUT meanwhile. */
#include "collectives/check_parts.h"

#include "base/size.h"

/* -- form: each step alone --------------------------------------------------------------------- */

static bool inside(const struct gyre_checker *c, const struct gyre_actor *a,
                   struct gyre_place place, uint64_t length)
{
    uint64_t end, limit = place.buffer == GYRE_SCRATCH ? a->extent.scratch_bytes : c->bytes;
    return gyre_add_u64(place.offset, length, &end) && end <= limit &&
           place.offset % a->slice.element == 0;
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
    if (!inside(c, a, place, step->length))
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
    uint64_t length = a->round.step[step].length;
    return (struct gyre_access){step,  place.buffer, place.offset, place.offset + length,
                                write, false};
}

static uint32_t list_accesses(const struct gyre_actor *a, struct gyre_access *to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->round.steps; i++) {
        const struct gyre_step *step = &a->round.step[i];
        const struct gyre_place *source = a->round.source + step->first;
        struct gyre_access *at = &to[count++];
        *at = access_of(a, i, step->at, step->kind != GYRE_SEND);
        at->idle = step->kind == GYRE_COPY && step->at.buffer == GYRE_OUTPUT &&
                   source->buffer == GYRE_INPUT && source->offset == step->at.offset;
        for (uint32_t j = 0; j < step->sources; j++)
            to[count++] = access_of(a, i, source[j], false);
    }
    return count;
}

/* May `write` and `other` stand in one round, whether INPUT and OUTPUT are one buffer or two? */
static bool apart(const struct gyre_access *write, const struct gyre_access *other)
{
    bool scratch = write->buffer == GYRE_SCRATCH, other_scratch = other->buffer == GYRE_SCRATCH;
    if (scratch != other_scratch || write->end <= other->start || other->end <= write->start ||
        write->start == write->end || other->start == other->end)
        return true;
    if (write->step == other->step) /* elementwise onto its own source */
        return write->start == other->start;
    return write->idle && !other->write && other->buffer == GYRE_INPUT;
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
