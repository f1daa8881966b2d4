/* gyre predict: what a trained model makes of data. A line for each sample goes to --out, and a
 * summary to standard output; without --out the lines go there, and the summary to standard error.
 * Tested by tests/program/train/predict.c. */
#include "cli/predict/inside.h"

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INIT, DATA, LABELS, LABEL_COLUMN, TARGETS, OUT, JSON, PROBABILITIES, HELP, FLAGS };

static const struct gyre_flag predict_flags[FLAGS] = {
    [INIT] = {"init", 0, "FILE", "the model: a folder of checkpoints, or safetensors"},
    [DATA] = {"data", 0, "FILE", "samples, as `gyre train` takes them; labels may be absent"},
    [LABELS] = {"labels", 0, "FILE", "labels of IDX images (the file beside them)"},
    [LABEL_COLUMN] = {"label-column", 0, "NAME", "of a CSV (the column that was trained with)"},
    [TARGETS] = {"targets", 0, NULL, "the safetensors give numbers, not classes"},
    [OUT] = {"out", 0, "FILE", "predictions go there (to standard output)"},
    [JSON] = {"json", 0, NULL, "predictions and figures as JSON, not as CSV"},
    [PROBABILITIES] = {"probabilities", 0, NULL, "of each class, for each sample"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

/* -- all samples ------------------------------------------------------------------------------- */

static void add_sample(const struct gyre_predictor *p, const struct gyre_predicted *batch,
                       uint64_t i, struct gyre_prediction_sum *sum)
{
    const float *output = batch->output + i * p->outputs;
    double squares = 0;
    if (p->classes) {
        uint64_t class = gyre_predicted_class(output, p->outputs);
        sum->taken[class]++;
        if (batch->label)
            gyre_confusion_add(&sum->confusion, (uint64_t)batch->label[i], class);
    }
    for (uint64_t k = 0; batch->target && k < p->data.width; k++) {
        double off = (double)output[k] - (double)batch->target[i * p->data.width + k];
        squares += off * off / (double)p->data.width;
    }
    sum->squares += squares;
}

static int predict_all(struct gyre_predictor *p, const struct gyre_prediction_rows *rows,
                       struct gyre_prediction_sum *sum, struct gyre_trouble *trouble)
{
    struct gyre_predicted batch;
    int status;
    gyre_rows_begin(rows);
    while (!(status = gyre_predictor_next(p, &batch, trouble))) {
        gyre_rows_put(rows, &batch);
        for (uint64_t i = 0; i < batch.samples; i++)
            add_sample(p, &batch, i, sum);
    }
    gyre_rows_end(rows, sum);
    return status == GYRE_AGAIN ? 0 : status;
}

static int make_sum(const struct gyre_predictor *p, struct gyre_prediction_sum *sum,
                    struct gyre_trouble *trouble)
{
    *sum = (struct gyre_prediction_sum){.taken = calloc(p->outputs, sizeof *sum->taken)};
    if (!sum->taken)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to count classes");
    return p->data.label ? gyre_confusion_init(&sum->confusion, p->outputs, trouble) : 0;
}

/* -- where they go ----------------------------------------------------------------------------- */

static int open_rows(FILE **to, const char *out, struct gyre_trouble *trouble)
{
    *to = out ? fopen(out, "we") : stdout;
    if (*to)
        return 0;
    return gyre_trouble_set(trouble, -errno, "--out %s: %s", out, strerror(errno));
}

/* What was not written is told, also where only the last flush finds it. */
static int close_rows(FILE *to, const char *out, struct gyre_trouble *trouble)
{
    int failed = fflush(to) || ferror(to) ? errno : 0;
    if (out && fclose(to) && !failed)
        failed = errno;
    if (!failed)
        return 0;
    return gyre_trouble_set(trouble, -failed, "writing %s: %s", out ? out : "standard output",
                            strerror(failed));
}

static int predict(const char *const value[FLAGS], struct gyre_trouble *trouble)
{
    const struct gyre_predict_options options = {.trained = value[INIT],
                                                 .data = value[DATA],
                                                 .labels = value[LABELS],
                                                 .label_column = value[LABEL_COLUMN],
                                                 .targets = value[TARGETS] != NULL};
    struct gyre_predictor p;
    struct gyre_prediction_sum sum = {0};
    struct gyre_prediction_rows rows = {
        .json = value[JSON], .probabilities = value[PROBABILITIES], .predictor = &p};
    int status = gyre_predictor_init(&p, &options, trouble);
    if (!status)
        status = make_sum(&p, &sum, trouble);
    if (!status)
        status = open_rows(&rows.to, value[OUT], trouble);
    if (!status) {
        status = predict_all(&p, &rows, &sum, trouble);
        int closed = close_rows(rows.to, value[OUT], trouble);
        status = status ? status : closed;
    }
    if (!status)
        gyre_prediction_print(value[OUT] ? stdout : stderr, &p, &sum);
    free(sum.taken);
    gyre_confusion_deinit(&sum.confusion);
    gyre_predictor_deinit(&p);
    return status;
}

static int print_predict_help(void)
{
    puts("usage: gyre predict --init DIR --data FILE [FLAGS]\n");
    gyre_flags_print(predict_flags, FLAGS);
    puts("\nexample: gyre predict --init run1 --data new.csv --out predictions.csv");
    return 0;
}

int gyre_cli_predict(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = predict_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    const char *value[FLAGS] = {NULL};
    int index;
    gyre_cli_tell_strangers("predict");
    while ((index = gyre_flags_next(&flags, &trouble)) >= 0)
        value[index] = flags.value ? flags.value : "yes";
    if (value[HELP] && !trouble.status)
        return print_predict_help();
    if (!trouble.status && *flags.argv)
        gyre_trouble_set(&trouble, GYRE_INVALID, "unexpected word '%s'", *flags.argv);
    if (!trouble.status && !value[INIT])
        gyre_trouble_set(&trouble, GYRE_INVALID,
                         "which model? --init names a folder of checkpoints, or safetensors");
    if (!trouble.status && !value[DATA])
        gyre_trouble_set(&trouble, GYRE_INVALID, "of what? --data names the samples");
    int status = trouble.status ? trouble.status : predict(value, &trouble);
    return status ? gyre_cli_fail("predict", status, &trouble) : 0;
}
