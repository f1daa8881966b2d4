/* Training, from the first epoch to the last.
 *
 * All ranks run the same loop and decide alike: what one rank finds out by itself (a file that it
 * cannot read, a signal) becomes everybody's by gyre_train_agree() or by the votes that travel with
 * the gradients. */
#include "train/inside.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stop_asked;

void gyre_train_stop(void)
{
    stop_asked = 1;
}

bool gyre_train_stop_asked(void)
{
    return stop_asked != 0;
}

/* -- agreement --------------------------------------------------------------------------------- */

struct run_end {
    int64_t status;
    char text[GYRE_TROUBLE_MAX];
};

int gyre_train_agree(struct gyre_train *t, int status)
{
    int32_t mine = status, *all = calloc((size_t)t->n, sizeof *all);
    struct run_end run_end = {.status = status};
    int told = all ? gyre_all_gather(t->comm, &mine, all, 1, GYRE_I32) : -ENOMEM, first = -1;
    for (int rank = t->n - 1; !told && rank >= 0; rank--)
        first = all[rank] ? rank : first;
    free(all);
    if (told || first < 0)
        return told ? gyre_trouble_set(t->trouble, told, "%s", gyre_error(t->comm)) : 0;
    snprintf(run_end.text, sizeof run_end.text, "%s", t->trouble->text);
    told = gyre_broadcast(t->comm, &run_end, &run_end, sizeof run_end, GYRE_U8, first);
    *t->trouble = (struct gyre_trouble){0};
    if (told)
        return gyre_trouble_set(t->trouble, told, "%s", gyre_error(t->comm));
    t->common = true;
    return gyre_trouble_set(
        t->trouble, (int)run_end.status, "%s%.900s",
        first && t->n > 1 && !strstr(run_end.text, "rank ") ? "on another rank: " : "",
        run_end.text);
}

/* -- telling ----------------------------------------------------------------------------------- */

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * GYRE_SECOND + (uint64_t)now.tv_nsec;
}

static int open_report(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    struct gyre_report_options options = {.metrics = o->metrics,
                                          .csv = o->csv,
                                          .tensorboard = o->tensorboard,
                                          .svg = o->svg,
                                          .title = o->data,
                                          .append = t->step > 0,
                                          .epochs = (uint64_t)o->epochs,
                                          .steps_per_epoch = t->steps_per_epoch,
                                          .wall_ns = wall_ns(),
                                          .terminal = t->terminal ? fileno(t->terminal) : -1,
                                          .quiet = o->quiet};
    return t->rank ? 0 : gyre_report_open(&t->report, &options, gyre_now_ns(), t->trouble);
}

static bool counts_right(const struct gyre_train *t)
{
    return t->data.label != NULL;
}

/* Training for days is worth more than a line of its metrics: it goes on, and fails at its end. */
static void note_unwritten(struct gyre_train *t, int status, const struct gyre_trouble *trouble)
{
    if (!status)
        return;
    gyre_report_note(t->report, "warning: %s; training goes on without it", trouble->text);
    gyre_trouble_set(&t->report_trouble, status, "%s", trouble->text);
}

void gyre_train_tell_step(struct gyre_train *t, const struct gyre_ddp_result *r, uint64_t since_ns)
{
    uint64_t now = gyre_now_ns();
    struct gyre_trouble trouble = {0};
    if (!t->report)
        return;
    double samples = (double)r->samples;
    struct gyre_step_record record = {
        .step = t->step,
        .epoch = t->epoch + 1,
        .samples = r->samples,
        .loss = r->sum[GYRE_TRAIN_LOSS_SUM] / samples,
        .accuracy = counts_right(t) ? r->sum[GYRE_TRAIN_RIGHT_SUM] / samples : -1,
        .learning_rate = gyre_rate_at(&t->rate, t->step - 1),
        .gradient_norm = t->options->clip > 0 ? t->norm : -1,
        .loss_scale = t->scaler.enabled ? (double)gyre_scaler_scale(&t->scaler) : 0,
        .seconds = (double)(now - since_ns) / 1e9,
        .exposed_seconds = (double)r->waited_ns / 1e9,
        .reduced_bytes = r->reduced_bytes};
    note_unwritten(t, gyre_report_step(t->report, &record, now, &trouble), &trouble);
}

static void tell_epoch(struct gyre_train *t, const struct gyre_loss *test)
{
    const struct gyre_train_tally *sum = &t->tally;
    struct gyre_trouble trouble = {0};
    if (!t->report)
        return;
    struct gyre_epoch_record record = {
        .epoch = t->epoch + 1,
        .steps = sum->steps,
        .loss = sum->loss / sum->samples,
        .accuracy = counts_right(t) ? sum->right / sum->samples : -1,
        .tested = test->samples > 0,
        .test_loss = test->samples ? test->sum / (double)test->samples : 0,
        .test_accuracy =
            test->samples && counts_right(t) ? (double)test->right / (double)test->samples : -1,
        .seconds = sum->seconds,
        .samples_per_second = sum->seconds > 0 ? sum->samples / sum->seconds : 0,
        .exposed_share = sum->seconds > 0 ? sum->exposed / sum->seconds : -1};
    note_unwritten(t, gyre_report_epoch(t->report, &record, gyre_now_ns(), &trouble), &trouble);
}

/* Also where progress is not asked for: it would go on as another run in silence. */
static void tell_changes(struct gyre_train *t)
{
    for (int i = 0; t->report && i < t->resumed.changes; i++)
        gyre_report_note(t->report, "%s", t->resumed.change[i]);
}

/* Of all ranks, and of each, but where --shares say that. */
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

/* What stands above everything: who trains what, how large a step is. */
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

/* Stopped in its evaluation, it has not ended: whoever resumes evaluates anew. */
static int end_epoch(struct gyre_train *t)
{
    struct gyre_loss test = {0};
    int status = t->options->test ? gyre_train_evaluate(t, &test) : gyre_train_share_buffers(t);
    if (status || t->stop)
        return status;
    tell_epoch(t, &test);
    status = gyre_train_tell_digest(t);
    t->outcome->loss = t->tally.loss / t->tally.samples;
    t->outcome->accuracy = counts_right(t) ? t->tally.right / t->tally.samples : -1;
    t->outcome->test_accuracy =
        test.samples && counts_right(t) ? (double)test.right / (double)test.samples : -1;
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
        status = gyre_train_agree(&t, open_report(&t));
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
