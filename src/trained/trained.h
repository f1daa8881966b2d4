/* A trained model: its weights, and which model has them.
 *
 *     a file of tensors, or a checkpoint ─▶ weights ─▶ architecture ─▶ gyre_model */
#ifndef GYRE_TRAINED_TRAINED_H
#define GYRE_TRAINED_TRAINED_H

#include "checkpoint/checkpoint.h"
#include "data/dataset.h"
#include "model/nets/model.h"

/* -- weights.c --------------------------------------------------------------------------------- */

struct gyre_trained {
    const char *path;
    const struct gyre_safetensors *model; /* NULL: nothing is open */
    struct gyre_generation *checkpoint;   /* which has it, or NULL */
    struct gyre_safetensors *own;         /* else the file itself */
    struct gyre_classes classes;          /* names of its classes */
    struct gyre_scale scale;              /* which its samples are to be standardised by */
};

/* Tensors of a checkpoint's training, of a run that standardises its samples. */
#define GYRE_TRAINED_MEAN      "scale.mean"
#define GYRE_TRAINED_DEVIATION "scale.deviation"

/* Opens a safetensors file, or a checkpoint by any of its names. Close takes every state, also
 * zeros. */
int gyre_trained_open(struct gyre_trained *trained, const char *path, struct gyre_trouble *trouble);
void gyre_trained_close(struct gyre_trained *trained);

/* Returns a text of the checkpoint; NULL where there is none. */
const char *gyre_trained_text(const struct gyre_trained *trained, const char *key);

/* -- architecture.c ---------------------------------------------------------------------------- */

struct gyre_architecture {
    enum gyre_model_kind kind;
    const char *path;  /* of the weights that it was read from; NULL: it was asked for */
    char layers[2560]; /* of an mlp: "13,64,3" */
    uint64_t outputs;  /* of a convnet; 0: as many as the data have classes */
};

/* Reads it off names and shapes of the tensors. */
int gyre_architecture_of(struct gyre_architecture *architecture, const struct gyre_trained *trained,
                         struct gyre_trouble *trouble);

/* Sets an mlp with one hidden layer, between samples and labels of the set. */
void gyre_architecture_default(struct gyre_architecture *architecture,
                               const struct gyre_dataset *set);

/* Makes the model for samples of this set. Refuses one that does not fit them. */
int gyre_architecture_make(const struct gyre_architecture *architecture,
                           const struct gyre_dataset *set,
                           const struct gyre_model_settings *settings, struct gyre_model **model,
                           struct gyre_trouble *trouble);

/* Writes "mlp 13,64,3" or "convnet"; returns it. */
const char *gyre_architecture_name(const struct gyre_architecture *architecture, char *text,
                                   size_t room);

#endif
