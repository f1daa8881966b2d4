/* The report of a run: what its steps and epochs came to. Only rank 0 has one. Tested by
 * tests/program/train/told.c. */
#include "train/inside.h"

#include "base/clock.h"
#include "report/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

int gyre_train_open_report(struct gyre_train *t)
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
                                          .wall_ns = gyre_wall_clock_ns(),
                                          .terminal = t->terminal ? fileno(t->terminal) : -1,
                                          .warnings = STDERR_FILENO,
                                          .quiet = o->quiet};
    return t->rank ? 0 : gyre_report_open(&t->report, &options, gyre_now_ns(), t->trouble);
}

/* -- before the first step --------------------------------------------------------------------- */

/* Told with --quiet too: a run must not become another run in silence. */
static void tell_changes(struct gyre_train *t)
{
    for (int i = 0; t->report && i < t->changes.count; i++)
        gyre_report_note(t->report, "%s", t->changes.line[i]);
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

static void tell_classes(const struct gyre_train *t)
{
    const struct gyre_classes *names = &t->data.names;
    struct gyre_report_text text = {0};
    uint64_t told = 0;
    for (; told < names->count && text.length < 80; told++)
        gyre_report_add(&text, "%s%.40s", told ? ", " : "", names->name[told]);
    if (names->count)
        gyre_report_note(t->report, "%" PRIu64 " classes: %s%s", names->count, text.bytes,
                         told < names->count ? ", …" : "");
}

static void tell_scale(const struct gyre_train *t)
{
    uint64_t columns = t->scale.columns;
    if (columns)
        gyre_report_note(t->report,
                         "standardised: %" PRIu64
                         " feature%s, by mean and deviation in the samples "
                         "that are trained on",
                         columns, columns == 1 ? "" : "s");
}

/* The learning rate, where it is scaled, or where that may help. */
static void tell_rate(const struct gyre_train *t)
{
    if (t->options->scale_lr)
        gyre_report_note(t->report, "the learning rate is %.9g, %.9g for each of %d rank%s",
                         gyre_train_lr(t), t->options->lr, t->n, t->n > 1 ? "s" : "");
    else if (!t->step && t->n > 1 && !t->options->global_batch)
        gyre_report_note(t->report,
                         "hint: %d ranks make steps %d times as large as one; a learning rate up "
                         "to %d times as high (--scale-lr), with --warmup, may suit them",
                         t->n, t->n, t->n);
}

void gyre_train_tell_start(struct gyre_train *t)
{
    uint64_t weights = 0;
    char step[128], name[sizeof t->architecture.layers + 16], held[48] = "";
    tell_changes(t);
    if (!t->report || t->options->quiet)
        return;
    for (int i = 0; i < t->replica.parameters; i++)
        weights += t->replica.parameter[i]->count;
    if (t->validation.samples)
        snprintf(held, sizeof held, " and %llu for validation",
                 (unsigned long long)t->validation.samples);
    gyre_report_note(t->report, "%s: %llu weights; %llu samples%s; %d rank%s on %d node%s; %s",
                     gyre_architecture_name(&t->architecture, name, sizeof name),
                     (unsigned long long)weights, (unsigned long long)t->data.samples, held, t->n,
                     t->n > 1 ? "s" : "", gyre_nodes(t->comm), gyre_nodes(t->comm) > 1 ? "s" : "",
                     gyre_model_products(t->replica.model));
    tell_classes(t);
    tell_scale(t);
    describe_step(t, step);
    gyre_report_note(t->report,
                     "a step is %s; an epoch is %" PRIu64 " step%s; a gradient is the mean over %s",
                     step, t->steps_per_epoch, t->steps_per_epoch == 1 ? "" : "s",
                     t->options->mean ? "the means of the ranks" : "them all");
    gyre_train_tell_shares(t);
    if (t->step && gyre_run_lost(t->checkpoint, 0))
        gyre_report_note(t->report,
                         "the checkpoint has not what --wire rounded off on %d rank%s: "
                         "that begins at zero",
                         t->n, t->n > 1 ? "s" : "");
    if (t->step)
        gyre_report_note(t->report, "goes on after step %llu, sample %llu of epoch %llu",
                         (unsigned long long)t->step, (unsigned long long)t->cursor,
                         (unsigned long long)t->epoch + 1);
    tell_rate(t);
}

/* -- steps and epochs -------------------------------------------------------------------------- */

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

void gyre_train_tell_step(struct gyre_train *t, const struct gyre_train_done *done)
{
    const struct gyre_ddp_result *r = &done->result;
    uint64_t now = gyre_now_ns();
    struct gyre_trouble trouble = {0};
    if (!t->report)
        return;
    double samples = (double)r->samples;
    struct gyre_step_record record = {
        .step = done->step,
        .epoch = done->epoch + 1,
        .samples = r->samples,
        .loss = r->sum[GYRE_TRAIN_LOSS_SUM] / samples,
        .accuracy = counts_right(t) ? r->sum[GYRE_TRAIN_RIGHT_SUM] / samples : -1,
        .learning_rate = gyre_learning_rate_at(&t->rate, done->step - 1),
        .gradient_norm = t->options->clip > 0 ? t->norm : -1,
        .loss_scale = t->replica.scaler.enabled ? (double)gyre_scaler_scale(&t->replica.scaler) : 0,
        .seconds = (double)(now - done->since_ns) / 1e9,
        .exposed_seconds = (double)r->waited_ns / 1e9,
        .reduced_bytes = r->reduced_bytes};
    note_unwritten(t, gyre_report_step(t->report, &record, now, &trouble), &trouble);
}

static double mean_loss(const struct gyre_loss *loss)
{
    return loss->samples ? loss->sum / (double)loss->samples : 0;
}

static double accuracy_of(const struct gyre_train *t, const struct gyre_loss *loss)
{
    return loss->samples && counts_right(t) ? (double)loss->right / (double)loss->samples : -1;
}

void gyre_train_tell_epoch(struct gyre_train *t, const struct gyre_loss *validation,
                           const struct gyre_loss *test)
{
    const struct gyre_train_tally *sum = &t->tally;
    struct gyre_trouble trouble = {0};
    struct gyre_epoch_record record = {
        .epoch = t->epoch + 1,
        .steps = sum->steps,
        .loss = sum->loss / sum->samples,
        .accuracy = counts_right(t) ? sum->right / sum->samples : -1,
        .tested = test->samples > 0,
        .test_loss = mean_loss(test),
        .test_accuracy = accuracy_of(t, test),
        .validated = validation->samples > 0,
        .validation_loss = mean_loss(validation),
        .validation_accuracy = accuracy_of(t, validation),
        .seconds = sum->seconds,
        .samples_per_second = sum->seconds > 0 ? sum->samples / sum->seconds : 0,
        .exposed_share = sum->seconds > 0 ? sum->exposed / sum->seconds : -1};
    gyre_train_note_best(t, &record);
    t->outcome->loss = record.loss;
    t->outcome->accuracy = record.accuracy;
    t->outcome->test_accuracy = record.test_accuracy;
    if (t->report)
        note_unwritten(t, gyre_report_epoch(t->report, &record, gyre_now_ns(), &trouble), &trouble);
}

/* -- evaluation -------------------------------------------------------------------------------- */

static int name_length(const struct gyre_train_figure *figure)
{
    return (int)(strlen(figure->of) + strlen(figure->part));
}

void gyre_train_tell_figures(const struct gyre_train *t, const struct gyre_train_figure *figure,
                             int figures)
{
    const struct gyre_trained *w = &t->init;
    char name[sizeof t->architecture.layers + 16];
    int width = 4;
    fprintf(t->terminal, "%s of %s", gyre_architecture_name(&t->architecture, name, sizeof name),
            w->path);
    if (w->checkpoint)
        fprintf(t->terminal, ", step %" PRIu64, gyre_generation_step(w->checkpoint));
    fprintf(t->terminal, "; %d rank%s\n", t->n, t->n > 1 ? "s" : "");
    for (int i = 0; i < figures; i++)
        width = name_length(&figure[i]) > width ? name_length(&figure[i]) : width;
    fprintf(t->terminal, "%-*s  %12s  %10s  %10s\n", width, "data", "samples", "loss", "accuracy");
    for (int i = 0; i < figures; i++) {
        fprintf(t->terminal, "%s%-*s  %12" PRIu64 "  %10.4g", figure[i].of,
                width - (int)strlen(figure[i].of), figure[i].part, figure[i].samples,
                figure[i].loss);
        if (figure[i].accuracy >= 0)
            fprintf(t->terminal, "  %8.2f %%", 100 * figure[i].accuracy);
        fputc('\n', t->terminal);
    }
}
