/* Records as lines: JSON and CSV from one list of fields.
 *
 * Doubles have 17 digits, so a reader gets the very bits back. JSON has no word for NaN and
 * infinity: they are null there, as what is absent; CSV says nan and inf, and absent is empty.
 * Tested by tests/unit/report/report_test.c. */
#include "report/inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define AT(record, field) offsetof(struct gyre_##record##_record, field)

const struct gyre_report_field gyre_report_step_field[GYRE_STEP_FIELDS] = {
    {"step", NULL, AT(step, step), true, false, NAN},
    {"epoch", NULL, AT(step, epoch), true, false, NAN},
    {"samples", NULL, AT(step, samples), true, false, NAN},
    {"loss", "train/loss", AT(step, loss), false, false, NAN},
    {"accuracy", "train/accuracy", AT(step, accuracy), false, false, -1},
    {"learning_rate", "train/learning_rate", AT(step, learning_rate), false, false, NAN},
    {"gradient_norm", "train/gradient_norm", AT(step, gradient_norm), false, false, -1},
    {"loss_scale", "train/loss_scale", AT(step, loss_scale), false, false, 0},
    {"seconds", "time/step_seconds", AT(step, seconds), false, false, NAN},
    {"exposed_seconds", "time/exposed_seconds", AT(step, exposed_seconds), false, false, NAN},
    {"reduced_bytes", "time/reduced_bytes", AT(step, reduced_bytes), true, false, NAN},
};

const struct gyre_report_field gyre_report_epoch_field[GYRE_EPOCH_FIELDS] = {
    {"epoch", NULL, AT(epoch, epoch), true, false, NAN},
    {"steps", NULL, AT(epoch, steps), true, false, NAN},
    {"loss", "epoch/train_loss", AT(epoch, loss), false, false, NAN},
    {"accuracy", "epoch/train_accuracy", AT(epoch, accuracy), false, false, -1},
    {"test_loss", "epoch/test_loss", AT(epoch, test_loss), false, true, NAN},
    {"test_accuracy", "epoch/test_accuracy", AT(epoch, test_accuracy), false, true, -1},
    {"seconds", "epoch/seconds", AT(epoch, seconds), false, false, NAN},
    {"samples_per_second", "epoch/samples_per_second", AT(epoch, samples_per_second), false, false,
     NAN},
    {"exposed_share", "epoch/exposed_share", AT(epoch, exposed_share), false, false, -1},
};

static uint64_t whole_at(const struct gyre_report_field *field, const void *record)
{
    uint64_t whole;
    memcpy(&whole, (const char *)record + field->offset, sizeof whole);
    return whole;
}

bool gyre_report_value(const struct gyre_report_field *field, const void *record, bool tested,
                       double *value)
{
    if (field->whole)
        *value = (double)whole_at(field, record);
    else
        memcpy(value, (const char *)record + field->offset, sizeof *value);
    return (tested || !field->of_test) && *value != field->absent;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void add_json(struct gyre_report_text *line, const struct gyre_report_field *field,
                     const void *record, bool tested)
{
    double value;
    bool there = gyre_report_value(field, record, tested, &value);
    if (field->whole)
        gyre_report_add(line, ",\"%s\":%" PRIu64, field->name, whole_at(field, record));
    else if (there && isfinite(value))
        gyre_report_add(line, ",\"%s\":%.17g", field->name, value);
    else
        gyre_report_add(line, ",\"%s\":null", field->name);
}

static void json(struct gyre_report_sink *to, const char *kind,
                 const struct gyre_report_field *field, int fields, const void *record, bool tested,
                 double wall)
{
    struct gyre_report_text line = {0};
    gyre_report_add(&line, "{\"kind\":\"%s\",\"time\":%.6f", kind, wall);
    for (int i = 0; i < fields; i++)
        add_json(&line, &field[i], record, tested);
    gyre_report_add(&line, "}\n");
    gyre_report_sink_write(to, line.bytes, line.length);
}

void gyre_report_json_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                           double wall)
{
    json(to, "step", gyre_report_step_field, GYRE_STEP_FIELDS, record, true, wall);
}

void gyre_report_json_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                            double wall)
{
    json(to, "epoch", gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record, record->tested, wall);
}

/* -- CSV --------------------------------------------------------------------------------------- */

static void head(struct gyre_report_sink *to, const struct gyre_report_field *field, int fields)
{
    struct gyre_report_text line = {0};
    if (to->length_bytes > 0)
        return; /* an earlier run wrote it */
    gyre_report_add(&line, "time");
    for (int i = 0; i < fields; i++)
        gyre_report_add(&line, ",%s", field[i].name);
    gyre_report_add(&line, "\n");
    gyre_report_sink_write(to, line.bytes, line.length);
}

void gyre_report_csv_heads(struct gyre_report_sink *steps, struct gyre_report_sink *epochs)
{
    head(steps, gyre_report_step_field, GYRE_STEP_FIELDS);
    head(epochs, gyre_report_epoch_field, GYRE_EPOCH_FIELDS);
}

static void add_csv(struct gyre_report_text *line, const struct gyre_report_field *field,
                    const void *record, bool tested)
{
    double value;
    bool there = gyre_report_value(field, record, tested, &value);
    if (field->whole)
        gyre_report_add(line, ",%" PRIu64, whole_at(field, record));
    else if (there && isnan(value))
        gyre_report_add(line, ",nan"); /* printf may say -nan */
    else if (there)
        gyre_report_add(line, ",%.17g", value);
    else
        gyre_report_add(line, ",");
}

static void csv(struct gyre_report_sink *to, const struct gyre_report_field *field, int fields,
                const void *record, bool tested, double wall)
{
    struct gyre_report_text line = {0};
    gyre_report_add(&line, "%.6f", wall);
    for (int i = 0; i < fields; i++)
        add_csv(&line, &field[i], record, tested);
    gyre_report_add(&line, "\n");
    gyre_report_sink_write(to, line.bytes, line.length);
}

void gyre_report_csv_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                          double wall)
{
    csv(to, gyre_report_step_field, GYRE_STEP_FIELDS, record, true, wall);
}

void gyre_report_csv_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                           double wall)
{
    csv(to, gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record, record->tested, wall);
}
