/* Predictions, one sample a line:
 *
 *     sample,class,label,probability          a CSV; with --probabilities also one column for each
 *     0,setosa,setosa,0.9987                  class, p(setosa) and so on
 *
 *     sample,output,target                    where the model gives numbers
 *
 * JSON has the same names. Tested by tests/program/train/predict.c. */
#include "cli/predict/inside.h"

#include "base/printable.h"
#include "data/files/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* -- CSV --------------------------------------------------------------------------------------- */

/* A field, in quotes where a reader would take it for two. A terminal gets it printable. */
static void put_field(FILE *to, const char *before, const char *text)
{
    char shown[GYRE_CLASS_NAME + 8];
    if (isatty(fileno(to)))
        text = gyre_printable(shown, sizeof shown, text);
    fputs(before, to);
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        fputc(*text, to);
        if (*text == '"')
            fputc('"', to);
    }
    fputc('"', to);
}

/* "output", or "output0", "output1" and so on where there are several. */
static void put_heads(FILE *to, const char *what, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        count > 1 ? fprintf(to, ",%s%" PRIu64, what, i) : fprintf(to, ",%s", what);
}

static void begin_csv(const struct gyre_prediction_rows *rows)
{
    const struct gyre_predictor *p = rows->predictor;
    char name[GYRE_CLASS_NAME], head[GYRE_CLASS_NAME + 8];
    fputs("sample", rows->to);
    if (!p->classes) {
        put_heads(rows->to, "output", p->outputs);
        put_heads(rows->to, "target", p->data.width);
        fputc('\n', rows->to);
        return;
    }
    fputs(p->data.label ? ",class,label,probability" : ",class,probability", rows->to);
    for (uint64_t c = 0; rows->probabilities && c < p->outputs; c++) {
        snprintf(head, sizeof head, "p(%s)", gyre_class_name(p, c, name));
        put_field(rows->to, ",", head);
    }
    fputc('\n', rows->to);
}

static void put_reals(FILE *to, const char *before, const float *real, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        fprintf(to, "%s%.9g", i ? "," : before, (double)real[i]);
}

static void put_csv(const struct gyre_prediction_rows *rows, const struct gyre_predicted *batch,
                    uint64_t i)
{
    const struct gyre_predictor *p = rows->predictor;
    const float *output = batch->output + i * p->outputs;
    char name[GYRE_CLASS_NAME];
    fprintf(rows->to, "%" PRIu64, batch->first + i);
    if (p->classes) {
        uint64_t class = gyre_predicted_class(output, p->outputs);
        put_field(rows->to, ",", gyre_class_name(p, class, name));
        if (batch->label)
            put_field(rows->to, ",", gyre_class_name(p, (uint64_t)batch->label[i], name));
        put_reals(rows->to, ",", output + class, 1);
    }
    if (!p->classes || rows->probabilities)
        put_reals(rows->to, ",", output, p->outputs);
    if (batch->target)
        put_reals(rows->to, ",", batch->target + i * p->data.width, p->data.width);
    fputc('\n', rows->to);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void put_key(FILE *to, const char *before, const char *key)
{
    struct gyre_json_out out = {.stream = to};
    gyre_json_put_text(&out, before);
    gyre_json_put_string(&out, key);
    gyre_json_put_text(&out, ":");
}

static void put_string(FILE *to, const char *text)
{
    struct gyre_json_out out = {.stream = to};
    gyre_json_put_string(&out, text);
}

static void put_class(const struct gyre_prediction_rows *rows, uint64_t class)
{
    char name[GYRE_CLASS_NAME];
    put_string(rows->to, gyre_class_name(rows->predictor, class, name));
}

/* JSON has no word for a NaN or an infinity. */
static void put_json_real(FILE *to, double real)
{
    isfinite(real) ? fprintf(to, "%.9g", real) : fputs("null", to);
}

static void put_list(FILE *to, const char *key, const float *real, uint64_t count)
{
    put_key(to, ",", key);
    for (uint64_t i = 0; i < count; i++) {
        fputs(i ? "," : "[", to);
        put_json_real(to, (double)real[i]);
    }
    fputc(']', to);
}

static void begin_json(const struct gyre_prediction_rows *rows)
{
    const struct gyre_predictor *p = rows->predictor;
    char model[sizeof p->architecture.layers + 16];
    put_key(rows->to, "{", "weights");
    put_string(rows->to, p->trained.path);
    put_key(rows->to, ",\n ", "model");
    put_string(rows->to, gyre_architecture_name(&p->architecture, model, sizeof model));
    put_key(rows->to, ",\n ", "data");
    put_string(rows->to, p->data.source);
    put_key(rows->to, ",\n ", "samples");
    fprintf(rows->to, "%" PRIu64, p->data.samples);
    put_key(rows->to, ",\n ", "classes");
    for (uint64_t c = 0; p->classes && c < p->outputs; c++) {
        fputs(c ? "," : "[", rows->to);
        put_class(rows, c);
    }
    fputs(p->classes ? "]" : "null", rows->to);
    put_key(rows->to, ",\n ", "predictions");
    fputc('[', rows->to);
}

static void put_json(const struct gyre_prediction_rows *rows, const struct gyre_predicted *batch,
                     uint64_t i)
{
    const struct gyre_predictor *p = rows->predictor;
    const float *output = batch->output + i * p->outputs;
    uint64_t class = gyre_predicted_class(output, p->outputs);
    put_key(rows->to, batch->first + i ? ",\n  {" : "\n  {", "sample");
    fprintf(rows->to, "%" PRIu64, batch->first + i);
    if (p->classes) {
        put_key(rows->to, ",", "class");
        put_class(rows, class);
    }
    if (batch->label) {
        put_key(rows->to, ",", "label");
        put_class(rows, (uint64_t)batch->label[i]);
    }
    if (p->classes) {
        put_key(rows->to, ",", "probability");
        put_json_real(rows->to, (double)output[class]);
    }
    if (!p->classes || rows->probabilities)
        put_list(rows->to, p->classes ? "probabilities" : "output", output, p->outputs);
    if (batch->target)
        put_list(rows->to, "target", batch->target + i * p->data.width, p->data.width);
    fputc('}', rows->to);
}

static void put_shares(FILE *to, const char *key, const struct gyre_confusion *c,
                       double (*share)(const struct gyre_confusion *, uint64_t))
{
    put_key(to, ",\n ", key);
    for (uint64_t i = 0; i < c->classes; i++) {
        double value = share(c, i);
        fputs(i ? "," : "[", to);
        value < 0 ? fputs("null", to) : fprintf(to, "%.17g", value);
    }
    fputc(']', to);
}

static void put_confusion(FILE *to, const struct gyre_confusion *c)
{
    put_key(to, ",\n ", "accuracy");
    fprintf(to, "%.17g", (double)c->right / (double)c->samples);
    put_key(to, ",\n ", "confusion");
    for (uint64_t i = 0; i < c->classes * c->classes; i++)
        fprintf(to, "%s%" PRIu64, i % c->classes ? "," : i ? "],[" : "[[", c->count[i]);
    fputs("]]", to);
    put_shares(to, "precision", c, gyre_confusion_precision);
    put_shares(to, "recall", c, gyre_confusion_recall);
    put_shares(to, "f1", c, gyre_confusion_f1);
}

/* -- either ------------------------------------------------------------------------------------ */

void gyre_rows_begin(const struct gyre_prediction_rows *rows)
{
    rows->json ? begin_json(rows) : begin_csv(rows);
}

void gyre_rows_put(const struct gyre_prediction_rows *rows, const struct gyre_predicted *batch)
{
    for (uint64_t i = 0; i < batch->samples; i++)
        rows->json ? put_json(rows, batch, i) : put_csv(rows, batch, i);
}

void gyre_rows_end(const struct gyre_prediction_rows *rows, const struct gyre_prediction_sum *sum)
{
    const struct gyre_dataset *data = &rows->predictor->data;
    if (!rows->json)
        return;
    fputc(']', rows->to);
    if (data->label)
        put_confusion(rows->to, &sum->confusion);
    if (data->target) {
        put_key(rows->to, ",\n ", "mean_squared_error");
        fprintf(rows->to, "%.17g", sum->squares / (double)data->samples);
    }
    fputs("}\n", rows->to);
}
