/* What a trained model makes of samples: probabilities of classes, or numbers, batch after batch.
 * One rank does it, without a communicator. */
#ifndef GYRE_TRAINED_PREDICT_H
#define GYRE_TRAINED_PREDICT_H

#include "model/network/replica.h"
#include "trained/trained.h"

struct gyre_predict_options {
    const char *trained;                      /* as gyre_trained_open() takes it */
    const char *data, *labels, *label_column; /* NULL: the usual ones */
    bool targets; /* of a file of weights alone: it gives numbers, not classes */
};

struct gyre_predictor {
    struct gyre_trained trained;
    struct gyre_architecture architecture;
    struct gyre_dataset data; /* with labels, targets, or neither */
    bool classes;             /* outputs are probabilities */
    size_t outputs;
    uint64_t next; /* sample */
    struct gyre_replica replica;
    uint64_t *index;
    float *x, *output;
    void *y;
};

struct gyre_predicted {
    uint64_t first, samples;
    const float *output;  /* samples x outputs */
    const int64_t *label; /* of these samples; NULL: none are known */
    const float *target;  /* the same */
};

/* GYRE_INVALID where model and data do not fit. Deinit takes every state, also zeros. */
int gyre_predictor_init(struct gyre_predictor *predictor,
                        const struct gyre_predict_options *options, struct gyre_trouble *trouble);
void gyre_predictor_deinit(struct gyre_predictor *predictor);

/* The next batch, valid until the next call. GYRE_AGAIN behind the last. */
int gyre_predictor_next(struct gyre_predictor *predictor, struct gyre_predicted *batch,
                        struct gyre_trouble *trouble);

#define GYRE_CLASS_NAME 64

/* Writes the name of a class, to be shown; returns it. */
const char *gyre_class_name(const struct gyre_predictor *predictor, uint64_t class,
                            char text[GYRE_CLASS_NAME]);

/* The first of the greatest outputs. */
uint64_t gyre_predicted_class(const float *output, size_t outputs);

#endif
