/* The report of a run: what its steps and epochs came to. Only rank 0 has one. Tested by
 * tests/program/train/told.c. */
#include "train/inside.h"

#include "base/clock.h"

#include <time.h>

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * GYRE_SECOND + (uint64_t)now.tv_nsec;
}

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

void gyre_train_tell_epoch(struct gyre_train *t, const struct gyre_loss *test)
{
    const struct gyre_train_tally *sum = &t->tally;
    struct gyre_trouble trouble = {0};
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
    t->outcome->loss = record.loss;
    t->outcome->accuracy = record.accuracy;
    t->outcome->test_accuracy = record.test_accuracy;
    if (t->report)
        note_unwritten(t, gyre_report_epoch(t->report, &record, gyre_now_ns(), &trouble), &trouble);
}
