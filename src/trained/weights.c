/* Weights by the name that a user gives them. Tested by tests/program/train/evaluate.c. */
#include "trained/trained.h"

#include <string.h>

const char *gyre_trained_text(const struct gyre_trained *trained, const char *key)
{
    return trained->checkpoint ? gyre_generation_text(trained->checkpoint, key) : NULL;
}

static int take_column_numbers(const struct gyre_trained *trained, const char *name, double *to,
                               struct gyre_trouble *trouble)
{
    const uint64_t shape[] = {trained->scale.columns};
    const struct gyre_stored_tensor want = {
        .name = name, .type = GYRE_STORED_F64, .dims = 1, .shape = shape};
    const void *data;
    int status =
        gyre_generation_find(trained->checkpoint, GYRE_GENERATION_TRAINING, &want, &data, trouble);
    if (!status)
        memcpy(to, data, shape[0] * sizeof *to);
    return status;
}

static int read_scale(struct gyre_trained *trained, struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *mean =
        trained->checkpoint ? gyre_safetensors_find(gyre_generation_file(trained->checkpoint,
                                                                         GYRE_GENERATION_TRAINING),
                                                    GYRE_TRAINED_MEAN)
                            : NULL;
    if (!mean || mean->dims != 1)
        return 0;
    int status = gyre_scale_init(&trained->scale, mean->shape[0], trouble);
    if (!status)
        status = take_column_numbers(trained, GYRE_TRAINED_MEAN, trained->scale.mean, trouble);
    return status ? status
                  : take_column_numbers(trained, GYRE_TRAINED_DEVIATION, trained->scale.deviation,
                                        trouble);
}

int gyre_trained_open(struct gyre_trained *trained, const char *path, struct gyre_trouble *trouble)
{
    *trained = (struct gyre_trained){.path = path};
    int status = gyre_generation_named(&trained->checkpoint, path, trouble);
    if (!status && !trained->checkpoint)
        status = gyre_safetensors_open(&trained->own, path, trouble);
    const char *classes = gyre_trained_text(trained, "classes");
    if (!status && classes)
        status = gyre_classes_read(&trained->classes, classes, trouble);
    if (!status)
        status = read_scale(trained, trouble);
    trained->model = trained->checkpoint
                         ? gyre_generation_file(trained->checkpoint, GYRE_GENERATION_MODEL)
                         : trained->own;
    return status;
}

void gyre_trained_close(struct gyre_trained *trained)
{
    gyre_classes_deinit(&trained->classes);
    gyre_scale_deinit(&trained->scale);
    gyre_generation_close(trained->checkpoint);
    gyre_safetensors_close(trained->own);
    *trained = (struct gyre_trained){0};
}
