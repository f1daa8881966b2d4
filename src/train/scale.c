/* Standardised samples: (x - mean) / deviation of each feature. Which means are taken:
 *
 *     --init, --evaluate   those of the weights, where they have some
 *     --resume             those of the checkpoint, which rank 0 gives to all
 *     --scale              of the samples that are trained on; every rank reads them all, so every
 *                          rank finds the same bits, however many there are
 *
 * Tested by tests/program/train/scale.c. */
#include "train/inside.h"

#include <string.h>

static int find_own_scale(struct gyre_train *t)
{
    int status = gyre_dataset_fit(&t->data, &t->scale, t->trouble);
    return status ? gyre_trouble_wrap(t->trouble, "--scale") : 0;
}

int gyre_train_find_scale(struct gyre_train *t)
{
    const struct gyre_scale *known = &t->init.scale;
    if (!known->columns)
        return t->options->scale ? find_own_scale(t) : 0;
    int status = gyre_scale_init(&t->scale, known->columns, t->trouble);
    if (!status)
        memcpy(t->scale.mean, known->mean, 2 * known->columns * sizeof *known->mean);
    return status;
}

int gyre_train_list_scale(struct gyre_train *t)
{
    const struct gyre_ddp_parameter tensor[] = {
        {.name = GYRE_TRAINED_MEAN,
         .type = GYRE_F64,
         .dimensions = 1,
         .shape = {t->scale.columns},
         .value = t->scale.mean},
        {.name = GYRE_TRAINED_DEVIATION,
         .type = GYRE_F64,
         .dimensions = 1,
         .shape = {t->scale.columns},
         .value = t->scale.deviation},
    };
    int status = t->scale.columns ? gyre_checkpoint_add_tensors(t->checkpoint,
                                                                GYRE_CHECKPOINT_TRAINING, tensor, 2)
                                  : 0;
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL)) : 0;
}

static bool checkpoint_has_scale(const struct gyre_train *t)
{
    const struct gyre_generation *generation = gyre_run_generation(t->checkpoint);
    return generation &&
           gyre_safetensors_find(gyre_generation_file(generation, GYRE_GENERATION_TRAINING),
                                 GYRE_TRAINED_MEAN);
}

int gyre_train_expect_scale(struct gyre_train *t)
{
    uint64_t has = checkpoint_has_scale(t);
    int status = gyre_broadcast(t->comm, &has, &has, 1, GYRE_U64, 0);
    if (status)
        return gyre_train_explain(t, status);
    if (!has && t->scale.columns)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "%s: was saved without --scale, and this run has it: that would be "
                                "another run; --init takes only weights, for a new one",
                                t->options->save);
    if (!has || t->scale.columns)
        return 0;
    status = gyre_scale_init(&t->scale, t->data.features, t->trouble);
    return status ? status : gyre_train_list_scale(t);
}

int gyre_train_apply_scale(struct gyre_train *t)
{
    int status = gyre_dataset_scale(&t->data, &t->scale, t->trouble);
    if (!status && t->options->test)
        status = gyre_dataset_scale(&t->test, &t->scale, t->trouble);
    return status ? gyre_trouble_wrap(t->trouble, "--scale") : 0;
}
