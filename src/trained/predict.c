/* Prediction: a model made for the data at hand, and its forward pass over all of them. Tested by
 * tests/program/train/predict.c. */
#include "trained/predict.h"

#include "model/learning/loss.h"
#include "model/network/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256

/* -- made -------------------------------------------------------------------------------------- */

/* The numbers that a sample of a table has; 0: the model is for images. */
static uint64_t table_features(const struct gyre_architecture *a)
{
    return a->kind == GYRE_MLP ? strtoull(a->layers, NULL, 10) : 0;
}

static int open_samples(struct gyre_predictor *p, const struct gyre_predict_options *options,
                        struct gyre_trouble *trouble)
{
    const char *loss = gyre_trained_text(&p->trained, "loss");
    const char *column = options->label_column ? options->label_column
                                               : gyre_trained_text(&p->trained, "label column");
    bool targets = loss ? strcmp(loss, gyre_loss_names[GYRE_SQUARED_ERROR]) == 0 : options->targets;
    struct gyre_dataset_options how = {.source = options->data,
                                       .labels = options->labels,
                                       .label_column = column,
                                       .classes = &p->trained.classes,
                                       .targets = targets,
                                       .wide = true,
                                       .may_lack_y = true,
                                       .features = table_features(&p->architecture)};
    p->classes = !targets;
    int status = gyre_dataset_open(&p->data, &how, trouble);
    return status ? status : gyre_dataset_scale(&p->data, &p->trained.scale, trouble);
}

static int make_model(struct gyre_predictor *p, struct gyre_trouble *trouble)
{
    const struct gyre_model_settings settings = {.batch = BATCH};
    const struct gyre_optimizer_settings unused = gyre_optimizer_defaults(GYRE_SGD);
    struct gyre_model *model;
    int status = gyre_architecture_make(&p->architecture, &p->data, &settings, &model, trouble);
    if (status)
        return status;
    p->outputs = gyre_model_outputs(model);
    status = gyre_replica_init(&p->replica, model, &unused, trouble);
    if (status)
        return status;
    return gyre_replica_take(&p->replica, p->trained.model, p->trained.path, trouble);
}

static int allocate_batch(struct gyre_predictor *p, struct gyre_trouble *trouble)
{
    size_t wanted = p->data.width * sizeof(float) + sizeof(int64_t);
    p->index = calloc(BATCH, sizeof *p->index);
    p->x = calloc(BATCH, p->data.features * sizeof *p->x);
    p->y = calloc(BATCH, wanted);
    p->output = calloc(BATCH, p->outputs * sizeof *p->output);
    if (p->index && p->x && p->y && p->output)
        return 0;
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for %d samples of %s", BATCH,
                            p->data.source);
}

int gyre_predictor_init(struct gyre_predictor *p, const struct gyre_predict_options *options,
                        struct gyre_trouble *trouble)
{
    *p = (struct gyre_predictor){0};
    int status = gyre_trained_open(&p->trained, options->trained, trouble);
    if (!status)
        status = gyre_architecture_of(&p->architecture, &p->trained, trouble);
    if (!status)
        status = open_samples(p, options, trouble);
    if (!status)
        status = make_model(p, trouble);
    return status ? status : allocate_batch(p, trouble);
}

void gyre_predictor_deinit(struct gyre_predictor *p)
{
    gyre_replica_deinit(&p->replica);
    gyre_dataset_close(&p->data);
    gyre_trained_close(&p->trained);
    free(p->index);
    free(p->x);
    free(p->y);
    free(p->output);
    *p = (struct gyre_predictor){0};
}

/* -- batches ----------------------------------------------------------------------------------- */

static void softmax(float *to, const float *from, size_t count)
{
    double greatest = (double)from[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        greatest = fmax(greatest, (double)from[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)from[i] - greatest);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(exp((double)from[i] - greatest) / sum);
}

int gyre_predictor_next(struct gyre_predictor *p, struct gyre_predicted *batch,
                        struct gyre_trouble *trouble)
{
    uint64_t left = p->data.samples - p->next, samples = left < BATCH ? left : BATCH;
    const float *outputs;
    *batch = (struct gyre_predicted){.first = p->next, .samples = samples, .output = p->output};
    if (!samples)
        return GYRE_AGAIN;
    for (uint64_t i = 0; i < samples; i++)
        p->index[i] = p->next + i;
    gyre_dataset_gather(&p->data, p->index, samples, p->x, p->y);
    batch->label = p->data.label ? p->y : NULL;
    batch->target = p->data.target ? p->y : NULL;
    int status = gyre_replica_predict(&p->replica, p->x, samples, &outputs, trouble);
    for (uint64_t i = 0; !status && i < samples; i++) {
        const float *from = outputs + i * p->outputs;
        if (p->classes)
            softmax(p->output + i * p->outputs, from, p->outputs);
        else
            memcpy(p->output + i * p->outputs, from, p->outputs * sizeof *from);
    }
    p->next += samples;
    return status;
}

const char *gyre_class_name(const struct gyre_predictor *predictor, uint64_t class,
                            char text[GYRE_CLASS_NAME])
{
    const struct gyre_classes *names = &predictor->trained.classes;
    if (class < names->count)
        snprintf(text, GYRE_CLASS_NAME, "%s", names->name[class]);
    else
        snprintf(text, GYRE_CLASS_NAME, "%llu", (unsigned long long)class);
    return text;
}

uint64_t gyre_predicted_class(const float *output, size_t outputs)
{
    uint64_t greatest = 0;
    for (size_t i = 1; i < outputs; i++)
        if (output[i] > output[greatest])
            greatest = i;
    return greatest;
}
