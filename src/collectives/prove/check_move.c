/* Moves the values of a round. Reading yields loose stretches counted from 0. A REDUCE lays the
 * stretches of its sources side by side and sums from cut to cut:
 *
 *     source 0   [ {0}, element 0 …                  )
 *     source 1   [ {1}, 0 …    )[ {1,3}, 8 …         )
 *     sum        [ {0,1}, 0 …  )[ {0,1,3}, 8 …       )
 *
 * The steps of a rank's round are known to be apart, so their order does not matter. A peer may
 * have made its own writes of this round already: what the peer sends is not among them.
 *
 * Tested by tests/unit/collectives/prove/check_rules_test.c. */
#include "collectives/prove/check_inside.h"

/* -- move: values ------------------------------------------------------------------------------ */

static int loosen(struct gyre_checker *c, uint64_t start, uint64_t end, uint64_t origin,
                  uint32_t value)
{
    return gyre_stretches_append(&c->loose, (struct gyre_stretch){start, end, origin, value});
}

/* Whether the stretch of OUTPUT holds what INPUT holds in the same memory. */
static bool holds_own_input(const struct gyre_stretch *stretch, const struct gyre_actor *a)
{
    return stretch->value == a->slice.rank &&
           (int64_t)stretch->origin + a->shift == (int64_t)stretch->start;
}

static int read_input(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step,
                      uint64_t start, uint64_t end)
{
    int64_t low = (int64_t)start + a->shift, high = (int64_t)end + a->shift;
    size_t i = gyre_stretches_find(&a->output, low < 0 ? 0 : (uint64_t)low);
    for (; a->aliased && i < a->output.count && (int64_t)a->output.stretch[i].start < high; i++)
        if (!holds_own_input(&a->output.stretch[i], a))
            return gyre_check_fail_step(
                c, a, step, "in place, INPUT + %llu has been overwritten before",
                (unsigned long long)((int64_t)a->output.stretch[i].start - a->shift));
    return loosen(c, 0, end - start, start, a->slice.rank);
}

static int read_written(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step,
                        struct gyre_place place)
{
    const struct gyre_stretches *stretches = place.buffer == GYRE_OUTPUT ? &a->output : &a->scratch;
    uint64_t at = place.offset, end = at + step->length;
    for (size_t i = gyre_stretches_find(stretches, at); at < end; i++) {
        const struct gyre_stretch *stretch = &stretches->stretch[i];
        if (i == stretches->count || stretch->start > at)
            return gyre_check_fail_step(c, a, step, "%s + %llu is read before it is written",
                                        gyre_buffer_name[place.buffer], (unsigned long long)at);
        uint64_t until = stretch->end < end ? stretch->end : end;
        int status = loosen(c, at - place.offset, until - place.offset,
                            stretch->origin + (at - stretch->start), stretch->value);
        if (status != 0)
            return status;
        at = until;
    }
    return 0;
}

/* Appends the stretches of `place` to c->loose, counted from 0. */
static int read_place(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step,
                      struct gyre_place place)
{
    if (step->length == 0)
        return 0;
    if (place.buffer == GYRE_INPUT)
        return read_input(c, a, step, place.offset, place.offset + step->length);
    return read_written(c, a, step, place);
}

/* Writes stretches that are counted from 0 to the place of the step. */
static int write_stretches(struct gyre_actor *a, const struct gyre_step *step,
                           const struct gyre_stretches *from)
{
    struct gyre_stretches *to = step->at.buffer == GYRE_OUTPUT ? &a->output : &a->scratch;
    int status = 0;
    for (size_t i = 0; status == 0 && i < from->count; i++) {
        struct gyre_stretch stretch = from->stretch[i];
        stretch.start += step->at.offset;
        stretch.end += step->at.offset;
        status = gyre_stretches_write(to, stretch);
    }
    return status;
}

static int move_recv(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step)
{
    uint32_t count;
    struct gyre_actor *peer = &c->actor[step->peer];
    const struct gyre_step *send = gyre_check_find(peer, GYRE_SEND, a->slice.rank, &count);
    int status = read_place(c, peer, send, send->at);
    return status != 0 ? status : write_stretches(a, step, &c->loose);
}

static int move_copy(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step)
{
    int status = read_place(c, a, step, a->round.source[step->first]);
    return status != 0 ? status : write_stretches(a, step, &c->loose);
}

static int fail_fold(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step,
                     int why, uint32_t culprit)
{
    switch (why) {
    case GYRE_VALUE_TWICE:
        return gyre_check_fail_step(c, a, step, "rank %u would be in the sum twice", culprit);
    case GYRE_VALUE_CLOSED:
        return gyre_check_fail_step(c, a, step, "source %u is marked FINAL already", culprit);
    case GYRE_VALUE_PARTIAL:
        return gyre_check_fail_step(c, a, step, "it is marked FINAL, but rank %u is not in it",
                                    culprit);
    default:
        return why;
    }
}

/* Sums from *at to the next cut of any source. Moves *at and the cursors behind the sum. */
static int fold_stretch(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step,
                        uint64_t *at)
{
    const struct gyre_stretch *all = c->loose.stretch;
    struct gyre_stretch sum = {*at, step->length, 0, 0};
    uint32_t culprit = 0;
    for (uint32_t i = 0; i < step->sources; i++) {
        const struct gyre_stretch *stretch = &all[c->cursor[i]];
        uint64_t origin = stretch->origin + (*at - stretch->start);
        if (i > 0 && origin != sum.origin)
            return gyre_check_fail_step(c, a, step,
                                        "source %u is another element (byte %llu, not %llu)", i,
                                        (unsigned long long)origin, (unsigned long long)sum.origin);
        sum.origin = origin;
        sum.end = stretch->end < sum.end ? stretch->end : sum.end;
        c->term[i] = stretch->value;
    }
    int why = gyre_value_fold(&c->book, c->term, step->sources, step->flags & GYRE_STEP_FINAL,
                              &sum.value, &culprit);
    if (why != 0)
        return fail_fold(c, a, step, why, culprit);
    for (uint32_t i = 0; i < step->sources; i++)
        c->cursor[i] += all[c->cursor[i]].end == sum.end;
    *at = sum.end;
    return gyre_stretches_append(&c->sum, sum);
}

static int move_reduce(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step)
{
    int status = 0;
    c->sum.count = 0;
    for (uint32_t i = 0; status == 0 && i < step->sources; i++) {
        c->cursor[i] = c->loose.count;
        status = read_place(c, a, step, a->round.source[step->first + i]);
    }
    for (uint64_t at = 0; status == 0 && at < step->length;)
        status = fold_stretch(c, a, step, &at);
    return status != 0 ? status : write_stretches(a, step, &c->sum);
}

static int move_step(struct gyre_checker *c, struct gyre_actor *a, const struct gyre_step *step)
{
    c->loose.count = 0;
    switch (step->kind) {
    case GYRE_RECV:
        return move_recv(c, a, step);
    case GYRE_REDUCE:
        return move_reduce(c, a, step);
    case GYRE_COPY:
        return move_copy(c, a, step);
    default:
        return 0;
    }
}

int gyre_check_move(struct gyre_checker *c, struct gyre_actor *a)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < a->round.steps; i++)
        status = move_step(c, a, &a->round.step[i]);
    return status;
}
