/* Writes records as lines: JSON and CSV from one list of fields. Reads its own JSON again.
 *
 * Doubles have 17 digits, so a reader gets the same bits back. JSON has no word for NaN and
 * infinity: both are null there, as are absent values. CSV says nan and inf, and an absent value is
 * empty. Tested by tests/unit/report/report_test.c. */
#include "report/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(record, field) offsetof(struct gyre_##record##_record, field)

const struct gyre_report_field gyre_report_step_field[GYRE_STEP_FIELDS] = {
    {"step", NULL, AT(step, step), true, 0, NAN},
    {"epoch", NULL, AT(step, epoch), true, 0, NAN},
    {"samples", NULL, AT(step, samples), true, 0, NAN},
    {"loss", "train/loss", AT(step, loss), false, 0, NAN},
    {"accuracy", "train/accuracy", AT(step, accuracy), false, 0, -1},
    {"learning_rate", "train/learning_rate", AT(step, learning_rate), false, 0, NAN},
    {"gradient_norm", "train/gradient_norm", AT(step, gradient_norm), false, 0, -1},
    {"loss_scale", "train/loss_scale", AT(step, loss_scale), false, 0, 0},
    {"seconds", "time/step_seconds", AT(step, seconds), false, 0, NAN},
    {"exposed_seconds", "time/exposed_seconds", AT(step, exposed_seconds), false, 0, NAN},
    {"reduced_bytes", "time/reduced_bytes", AT(step, reduced_bytes), true, 0, NAN},
};

const struct gyre_report_field gyre_report_epoch_field[GYRE_EPOCH_FIELDS] = {
    {"epoch", NULL, AT(epoch, epoch), true, 0, NAN},
    {"steps", NULL, AT(epoch, steps), true, 0, NAN},
    {"loss", "epoch/train_loss", AT(epoch, loss), false, 0, NAN},
    {"accuracy", "epoch/train_accuracy", AT(epoch, accuracy), false, 0, -1},
    {"test_loss", "epoch/test_loss", AT(epoch, test_loss), false, AT(epoch, tested), NAN},
    {"test_accuracy", "epoch/test_accuracy", AT(epoch, test_accuracy), false, AT(epoch, tested),
     -1},
    {"seconds", "epoch/seconds", AT(epoch, seconds), false, 0, NAN},
    {"samples_per_second", "epoch/samples_per_second", AT(epoch, samples_per_second), false, 0,
     NAN},
    {"exposed_share", "epoch/exposed_share", AT(epoch, exposed_share), false, 0, -1},
    {"validation_loss", "epoch/validation_loss", AT(epoch, validation_loss), false,
     AT(epoch, validated), NAN},
    {"validation_accuracy", "epoch/validation_accuracy", AT(epoch, validation_accuracy), false,
     AT(epoch, validated), -1},
};

static uint64_t whole_at(const struct gyre_report_field *field, const void *record)
{
    uint64_t whole;
    memcpy(&whole, (const char *)record + field->offset, sizeof whole);
    return whole;
}

bool gyre_report_value(const struct gyre_report_field *field, const void *record, double *value)
{
    bool given = !field->given || *((const bool *)record + field->given);
    if (field->whole)
        *value = (double)whole_at(field, record);
    else
        memcpy(value, (const char *)record + field->offset, sizeof *value);
    return given && *value != field->absent;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void add_json(struct gyre_report_text *line, const struct gyre_report_field *field,
                     const void *record)
{
    double value;
    bool there = gyre_report_value(field, record, &value);
    if (field->whole)
        gyre_report_add(line, ",\"%s\":%" PRIu64, field->name, whole_at(field, record));
    else if (there && isfinite(value))
        gyre_report_add(line, ",\"%s\":%.17g", field->name, value);
    else
        gyre_report_add(line, ",\"%s\":null", field->name);
}

static void json(struct gyre_report_sink *to, const char *kind,
                 const struct gyre_report_field *field, int fields, const void *record, double wall)
{
    struct gyre_report_text line = {0};
    gyre_report_add(&line, "{\"kind\":\"%s\",\"time\":%.6f", kind, wall);
    for (int i = 0; i < fields; i++)
        add_json(&line, &field[i], record);
    gyre_report_add(&line, "}\n");
    gyre_report_sink_write(to, line.bytes, line.length);
}

void gyre_report_json_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                           double wall)
{
    json(to, "step", gyre_report_step_field, GYRE_STEP_FIELDS, record, wall);
}

void gyre_report_json_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                            double wall)
{
    json(to, "epoch", gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record, wall);
}

/* -- JSON, read -------------------------------------------------------------------------------- */

/* What is null is absent; false: the line has no such field. */
static bool read_json_field(const char *line, const struct gyre_report_field *field, void *record)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", field->name);
    const char *at = strstr(line, key);
    if (!at)
        return false;
    at += strlen(key);
    uint64_t whole = strtoull(at, NULL, 10);
    double real = strncmp(at, "null", 4) == 0 ? field->absent : strtod(at, NULL);
    memcpy((char *)record + field->offset, field->whole ? (void *)&whole : (void *)&real, 8);
    return true;
}

static bool read_json(const char *line, const char *kind, const struct gyre_report_field *field,
                      int fields, void *record)
{
    char head[32];
    bool whole = strchr(line, '}') != NULL;
    snprintf(head, sizeof head, "{\"kind\":\"%s\",", kind);
    if (strncmp(line, head, strlen(head)) != 0)
        return false;
    for (int i = 0; whole && i < fields; i++)
        whole = read_json_field(line, &field[i], record);
    return whole;
}

bool gyre_report_read_step(const char *line, struct gyre_step_record *record)
{
    return read_json(line, "step", gyre_report_step_field, GYRE_STEP_FIELDS, record);
}

bool gyre_report_read_epoch(const char *line, struct gyre_epoch_record *record)
{
    if (!read_json(line, "epoch", gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record))
        return false;
    record->tested = strstr(line, "\"test_loss\":null") == NULL;
    return true;
}

/* -- CSV --------------------------------------------------------------------------------------- */

static void head(struct gyre_report_sink *to, const struct gyre_report_field *field, int fields)
{
    struct gyre_report_text line = {0};
    if (to->length_bytes > 0)
        return; /* an earlier run wrote the head */
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
                    const void *record)
{
    double value;
    bool there = gyre_report_value(field, record, &value);
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
                const void *record, double wall)
{
    struct gyre_report_text line = {0};
    gyre_report_add(&line, "%.6f", wall);
    for (int i = 0; i < fields; i++)
        add_csv(&line, &field[i], record);
    gyre_report_add(&line, "\n");
    gyre_report_sink_write(to, line.bytes, line.length);
}

void gyre_report_csv_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                          double wall)
{
    csv(to, gyre_report_step_field, GYRE_STEP_FIELDS, record, wall);
}

void gyre_report_csv_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                           double wall)
{
    csv(to, gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record, wall);
}
