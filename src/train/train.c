/* Training, from the first epoch to the last.
 *
 * All ranks run the same loop and decide alike. A file that one rank cannot read, or a signal to
 * one rank, becomes everybody's by gyre_train_agree() or by the votes that travel with the
 * gradients. Tested by tests/program/train/train.c. */
#include "train/inside.h"

#include "base/clock.h"

/* -- epochs ------------------------------------------------------------------------------------ */

static int prepare_save(struct gyre_train *t)
{
    if (t->rank || !t->options->save)
        return 0;
    int status = gyre_generation_prepare(t->options->save, t->step, t->trouble);
    return status ? gyre_trouble_wrap(t->trouble, "--save") : 0;
}

static int save_if_due(struct gyre_train *t, bool ended)
{
    const struct gyre_train_options *o = t->options;
    uint64_t epochs = t->epoch + 1;
    bool is_best = gyre_train_keeps_best(t) && (uint64_t)t->best.step == t->step;
    bool last = epochs == (uint64_t)o->epochs || gyre_train_lost_patience(t, epochs);
    bool due = ended && (epochs % (uint64_t)o->save_every == 0 || last || is_best);
    if (!o->save || !(due || t->stop))
        return 0;
    return gyre_train_save(t);
}

/* What follows an epoch, on every set that is not trained on; at least the buffers are equal. */
static int evaluate_others(struct gyre_train *t, struct gyre_loss *validation,
                           struct gyre_loss *test)
{
    bool any = t->options->test || t->validation.samples;
    int status = any ? 0 : gyre_train_share_buffers(t);
    if (!status && t->validation.samples)
        status = gyre_train_evaluate(t, &t->validation, validation);
    if (!status && !t->stop && t->options->test)
        status = gyre_train_evaluate(t, &t->test, test);
    return status;
}

/* An epoch that is stopped in its evaluation has not ended: who resumes it evaluates anew. */
static int end_epoch(struct gyre_train *t)
{
    struct gyre_loss validation = {0}, test = {0};
    int status = evaluate_others(t, &validation, &test);
    if (status || t->stop)
        return status;
    gyre_train_tell_epoch(t, &validation, &test);
    status = gyre_train_tell_digest(t);
    t->tally = (struct gyre_train_tally){0};
    return status;
}

/* Learns how the last steps have ended, also where a later one has failed, whose story stays. */
static int settle_behind(struct gyre_train *t, int status)
{
    struct gyre_trouble story = *t->trouble;
    int settled = gyre_train_settle(t);
    if (status < 0)
        *t->trouble = story;
    return status < 0 ? status : settled;
}

/* To the end of the epoch, or until processes wait to join. */
static int run_epoch(struct gyre_train *t)
{
    int status = gyre_loader_begin(t->loader, t->epoch, t->cursor, t->trouble);
    gyre_feed_forget(&t->feed);
    while (!status && !t->stop && !t->waiting && !t->leaving)
        status = gyre_train_step(t);
    bool ended = status == GYRE_AGAIN;
    status = settle_behind(t, status);
    if (!status && !ended && !t->stop)
        return 0; /* somebody waits */
    if (status >= 0)
        status = gyre_train_compare_weights(t);
    if (!status)
        status = ended ? end_epoch(t) : gyre_train_share_buffers(t);
    if (ended)
        t->cursor = t->data.samples;
    if (!status)
        status = save_if_due(t, ended);
    if (ended && !status) {
        t->epoch++;
        t->cursor = 0;
    }
    return status;
}

static int tell_unwritten(struct gyre_train *t)
{
    const struct gyre_trouble *trouble = &t->report_trouble;
    if (!trouble->status)
        return 0;
    return gyre_trouble_set(t->trouble, trouble->status, "trained to the end, but %s",
                            trouble->text);
}

/* Resumed behind the last step of an epoch, which may have been stopped in its evaluation. */
static int enter_next_epoch(struct gyre_train *t)
{
    int status = 0;
    if (t->tally.steps) {
        status = end_epoch(t);
        if (status || t->stop)
            return status;
        status = save_if_due(t, true);
    }
    t->epoch++;
    t->cursor = 0;
    return status;
}

static int go_on_after_loss(struct gyre_train *t)
{
    int status;
    do {
        status = gyre_train_regroup(t);
        if (status || t->n >= t->options->elastic)
            return status;
        status = gyre_train_wait_for_ranks(t);
    } while (status == GYRE_PEER_LOST);
    return status;
}

/* Trains on from where all ranks stand, unless `status` tells of a failure. */
static int run_epochs(struct gyre_train *t, int status)
{
    while (!status && !t->stop && !t->gone && t->epoch < (uint64_t)t->options->epochs &&
           !gyre_train_lost_patience(t, t->epoch)) {
        status = run_epoch(t);
        if (!status && t->leaving && !t->stop)
            status = gyre_train_part(t);
        if (!status && t->waiting && !t->stop && !t->gone)
            status = gyre_train_take_in(t);
        if (status == GYRE_PEER_LOST && t->options->elastic)
            status = go_on_after_loss(t);
    }
    t->outcome->impatient =
        t->epoch < (uint64_t)t->options->epochs && gyre_train_lost_patience(t, t->epoch);
    t->outcome->epochs = t->epoch;
    t->outcome->steps = t->step;
    t->outcome->best = t->best;
    t->outcome->stopped = t->stop;
    t->outcome->left = t->gone;
    return status || t->gone ? status : gyre_train_agree(t, tell_unwritten(t));
}

/* -- the whole --------------------------------------------------------------------------------- */

static int train_all(struct gyre_train *t)
{
    int status = gyre_train_agree(t, prepare_save(t));
    if (!status)
        status = gyre_train_agree(t, gyre_train_open_report(t));
    if (status)
        return status;
    gyre_train_tell_start(t);
    t->outcome->resumed = t->step;
    if (t->cursor >= t->data.samples && t->step)
        status = enter_next_epoch(t);
    if (!status)
        status = gyre_train_let_wait(t);
    return run_epochs(t, status == GYRE_PEER_LOST && t->options->elastic ? 0 : status);
}

static int evaluate_set(struct gyre_train *t, const struct gyre_dataset *set, const char *part,
                        struct gyre_train_figure *figure)
{
    struct gyre_loss loss;
    int status = gyre_train_evaluate(t, set, &loss);
    double samples = (double)loss.samples;
    *figure =
        (struct gyre_train_figure){.of = set->source,
                                   .part = part,
                                   .samples = loss.samples,
                                   .loss = loss.sum / samples,
                                   .accuracy = set->label ? (double)loss.right / samples : -1};
    return status;
}

static int evaluate_all(struct gyre_train *t)
{
    bool cut = t->validation.samples > 0;
    struct gyre_train_figure figure[3];
    int status = evaluate_set(t, &t->data, cut ? " (training)" : "", &figure[0]), figures = 1;
    if (!status && cut && !t->stop)
        status = evaluate_set(t, &t->validation, " (validation)", &figure[figures++]);
    if (!status && t->options->test && !t->stop)
        status = evaluate_set(t, &t->test, "", &figure[figures++]);
    t->outcome->stopped = t->stop;
    if (!status && !t->stop && t->terminal)
        gyre_train_tell_figures(t, figure, figures);
    return status;
}

/* A process that joins has its report when it becomes rank 0. The others may wait for more. */
static int train_joined(struct gyre_train *t)
{
    t->outcome->resumed = t->step;
    int status = t->n < t->options->elastic ? gyre_train_wait_for_ranks(t) : 0;
    if (status == GYRE_PEER_LOST)
        status = go_on_after_loss(t);
    return run_epochs(t, status);
}

int gyre_train(struct gyre_comm **comm, const struct gyre_train_options *options, FILE *terminal,
               struct gyre_train_outcome *outcome, struct gyre_trouble *trouble)
{
    struct gyre_train t = {.owned = comm,
                           .comm = *comm,
                           .rank = gyre_rank(*comm),
                           .n = gyre_size(*comm),
                           .options = options,
                           .trouble = trouble,
                           .terminal = gyre_rank(*comm) ? NULL : terminal,
                           .any_terminal = terminal,
                           .outcome = outcome};
    uint64_t begun = gyre_now_ns();
    *outcome = (struct gyre_train_outcome){.loss = -1, .accuracy = -1, .test_accuracy = -1};
    const bool joins = !*comm;
    int status = joins ? gyre_train_come(&t) : gyre_train_open(&t);
    if (!status) {
        status = joins ? train_joined(&t) : options->evaluate ? evaluate_all(&t) : train_all(&t);
        if (status && !t.common && t.comm)
            gyre_abort(t.comm, trouble->text); /* others may wait for this rank within a step */
    }
    int closed = gyre_report_close(t.report, trouble);
    gyre_train_close(&t);
    outcome->seconds = (double)(gyre_now_ns() - begun) / 1e9;
    return status ? status : closed;
}
