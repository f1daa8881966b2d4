/* Training, from the first epoch to the last.
 *
 * All ranks run the same loop and decide alike. A file that one rank cannot read, or a signal to
 * one rank, becomes everybody's by gyre_train_agree() or by the votes that travel with the
 * gradients. Tested by tests/program/train/train.c. */
#include "train/inside.h"

#include <inttypes.h>

/* -- before the first step --------------------------------------------------------------------- */

/* Told with --quiet too: a run must not become another run in silence. */
static void tell_changes(struct gyre_train *t)
{
    for (int i = 0; t->report && i < t->resumed.changes; i++)
        gyre_report_note(t->report, "%s", t->resumed.change[i]);
}

/* The samples of a step, of all ranks and, unless --shares say those, of each. */
static void describe_step(const struct gyre_train *t, char text[128])
{
    uint64_t parts = (uint64_t)t->options->accumulate, n = (uint64_t)t->n;
    uint64_t least = t->span / n * parts, most = (t->span + n - 1) / n * parts;
    int used = snprintf(text, 128, "%" PRIu64 " samples", t->span * parts);
    if (t->n > 1)
        used += snprintf(text + used, 128 - (size_t)used, " of all ranks");
    if (t->n > 1 && !t->shares.weight && least == most)
        used += snprintf(text + used, 128 - (size_t)used, ", %" PRIu64 " of each", most);
    else if (t->n > 1 && !t->shares.weight)
        used += snprintf(text + used, 128 - (size_t)used, ", %" PRIu64 " or %" PRIu64 " of each",
                         least, most);
    if (parts > 1)
        snprintf(text + used, 128 - (size_t)used, " in %" PRIu64 " parts", parts);
}

/* The first lines of a run: who trains on what, how large a step is. */
static void tell_start(struct gyre_train *t)
{
    uint64_t weights = 0;
    char step[128];
    tell_changes(t);
    if (!t->report || t->options->quiet)
        return;
    for (int i = 0; i < t->replica.parameters; i++)
        weights += t->replica.parameter[i]->count;
    gyre_report_note(t->report, "%llu weights, %llu samples; %d rank%s on %d node%s; %s",
                     (unsigned long long)weights, (unsigned long long)t->data.samples, t->n,
                     t->n > 1 ? "s" : "", gyre_nodes(t->comm), gyre_nodes(t->comm) > 1 ? "s" : "",
                     gyre_model_products(t->replica.model));
    describe_step(t, step);
    gyre_report_note(t->report,
                     "a step is %s; an epoch is %" PRIu64 " step%s; a gradient is the mean over %s",
                     step, t->steps_per_epoch, t->steps_per_epoch == 1 ? "" : "s",
                     t->options->mean ? "the means of the ranks" : "them all");
    gyre_train_tell_shares(t);
    if (t->resumed.feedback_lost)
        gyre_report_note(t->report,
                         "the checkpoint has not what --wire rounded off on %d rank%s: "
                         "that begins at zero",
                         t->n, t->n > 1 ? "s" : "");
    if (t->step)
        gyre_report_note(t->report, "goes on behind step %llu, sample %llu of epoch %llu",
                         (unsigned long long)t->step, (unsigned long long)t->cursor,
                         (unsigned long long)t->epoch + 1);
    else if (t->n > 1 && !t->options->global_batch)
        gyre_report_note(
            t->report,
            "hint: %d ranks make steps %d times as large as one; a learning rate up to "
            "%d times as high, with --warmup, may suit them",
            t->n, t->n, t->n);
}

/* -- epochs ------------------------------------------------------------------------------------ */

static int prepare_save(struct gyre_train *t)
{
    if (t->rank || !t->options->save)
        return 0;
    int status = gyre_checkpoint_prepare(t->options->save, t->step, t->trouble);
    return status ? gyre_trouble_wrap(t->trouble, "--save") : 0;
}

static int save_if_due(struct gyre_train *t, bool ended)
{
    const struct gyre_train_options *o = t->options;
    bool due = ended && ((t->epoch + 1) % (uint64_t)o->save_every == 0 ||
                         t->epoch + 1 == (uint64_t)o->epochs);
    if (!o->save || !(due || t->stop))
        return 0;
    return gyre_train_save(t);
}

/* An epoch that is stopped in its evaluation has not ended: who resumes it evaluates anew. */
static int end_epoch(struct gyre_train *t)
{
    struct gyre_loss test = {0};
    int status = t->options->test ? gyre_train_evaluate(t, &test) : gyre_train_share_buffers(t);
    if (status || t->stop)
        return status;
    gyre_train_tell_epoch(t, &test);
    status = gyre_train_tell_digest(t);
    t->tally = (struct gyre_train_tally){0};
    t->outcome->epochs = t->epoch + 1;
    return status;
}

static int run_epoch(struct gyre_train *t)
{
    int status = gyre_loader_begin(t->loader, t->epoch, t->cursor, t->trouble);
    while (!status && !t->stop)
        status = gyre_train_step(t);
    bool ended = status == GYRE_AGAIN;
    if (status < 0)
        return status;
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

static int run_epochs(struct gyre_train *t)
{
    int status = 0;
    if (t->cursor >= t->data.samples && t->step) { /* resumed behind an epoch */
        status = t->tally.steps ? end_epoch(t) : 0;
        t->epoch++;
        t->cursor = 0;
    }
    while (!status && !t->stop && t->epoch < (uint64_t)t->options->epochs)
        status = run_epoch(t);
    t->outcome->steps = t->step;
    t->outcome->stopped = t->stop;
    return status ? status : gyre_train_agree(t, tell_unwritten(t));
}

int gyre_train(struct gyre_comm *comm, const struct gyre_train_options *options, FILE *terminal,
               struct gyre_train_outcome *outcome, struct gyre_trouble *trouble)
{
    struct gyre_train t = {.comm = comm,
                           .rank = gyre_rank(comm),
                           .n = gyre_size(comm),
                           .options = options,
                           .trouble = trouble,
                           .terminal = gyre_rank(comm) ? NULL : terminal,
                           .outcome = outcome};
    *outcome = (struct gyre_train_outcome){.loss = -1, .accuracy = -1, .test_accuracy = -1};
    int status = gyre_train_open(&t);
    if (!status)
        status = gyre_train_agree(&t, prepare_save(&t));
    if (!status)
        status = gyre_train_agree(&t, gyre_train_open_report(&t));
    if (!status) {
        tell_start(&t);
        status = run_epochs(&t);
        if (status && !t.common)
            gyre_abort(comm, trouble->text); /* others may wait for this rank within a step */
    }
    int closed = gyre_report_close(t.report, trouble);
    gyre_train_close(&t);
    return status ? status : closed;
}
