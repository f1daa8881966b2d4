/* A training on the wine data set that is saved and loaded: a network, its engine, a sampler and a
 * checkpoint that has them on its list. Every call returns 0, or tells what failed. */
#ifndef GYRE_TESTS_PROGRAM_DDP_CHECKPOINT_RUN_H
#define GYRE_TESTS_PROGRAM_DDP_CHECKPOINT_RUN_H

#include "rig/comm_rig.h"

#include <gyre/checkpoint.h>
#include <stdio.h>
#include <string.h>

#define RUN_ROWS     24 /* of all ranks in a step; an epoch has six steps, the last of 22 rows */
#define RUN_FEATURES 13
#define RUN_VALUES   (RUN_FEATURES * 8 + 8 + 8 * 3 + 3)

struct run_kind {
    enum gyre_network_method method;
    enum gyre_type precision;
    enum gyre_ddp_wire wire;
    int sharded;
    uint64_t hidden, seed; /* seed: of the sampler */
};

#define RUN_KIND_INIT                                                                              \
    {                                                                                              \
        GYRE_NETWORK_ADAM, GYRE_F32, GYRE_DDP_WIRE_AS_IS, 0, 8, 0                                  \
    }

struct run {
    struct gyre_samples *data;
    struct gyre_sampler *sampler;
    struct gyre_network *net;
    struct gyre_ddp *ddp;
    struct gyre_checkpoint *checkpoint;
    struct gyre_learning_rate rate;
    uint64_t step;
};

static inline int run_told(int status, const char *what)
{
    if (status)
        fprintf(stderr, "%s: %s: %s\n", what, gyre_status_name(status), gyre_error(NULL));
    return status;
}

static inline int run_open_sampler(struct run *run, struct gyre_comm *comm,
                                   const struct run_kind *kind)
{
    struct gyre_sampler_options order = GYRE_SAMPLER_OPTIONS_INIT;
    order.samples = gyre_samples_count(run->data);
    order.seed = kind->seed;
    order.rank = gyre_rank(comm);
    order.world = gyre_size(comm);
    order.tail = GYRE_TAIL_ONCE;
    return run_told(gyre_sampler_create(&run->sampler, &order), "sampler");
}

/* Weights begin as `seed` and the rank make them, so rank 0's must win, or the checkpoint's. */
static inline int run_open_network(struct run *run, struct gyre_comm *comm,
                                   const struct run_kind *kind, uint64_t seed)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = GYRE_DDP_OPTIONS_INIT;
    const uint64_t widths[] = {RUN_FEATURES, kind->hidden, 3};
    options.batch = RUN_ROWS;
    options.method = kind->method;
    options.momentum = kind->method == GYRE_NETWORK_SGD ? 0.9 : 0;
    options.precision = kind->precision;
    options.seed = seed + 100 * (uint64_t)gyre_rank(comm);
    engine.sharded = kind->sharded;
    engine.wire = kind->wire;
    int status = run_told(gyre_network_perceptron(&run->net, widths, 3, &options), "network");
    return status ? status
                  : run_told(gyre_network_join(run->net, comm, &engine, &run->ddp), "join");
}

static inline int run_open(struct run *run, struct gyre_comm *comm, const struct run_kind *kind,
                           uint64_t seed)
{
    *run = (struct run){.rate = GYRE_LEARNING_RATE_INIT};
    run->rate.kind = GYRE_RATE_COSINE;
    run->rate.warmup = 2;
    run->rate.total = 20;
    int status = run_told(gyre_samples_open(&run->data, "wine"), "samples");
    if (!status)
        status = run_open_sampler(run, comm, kind);
    if (!status)
        status = run_open_network(run, comm, kind, seed);
    if (!status)
        status = run_told(gyre_checkpoint_create(&run->checkpoint, comm, NULL), "checkpoint");
    if (!status)
        status = run_told(gyre_checkpoint_add_network(run->checkpoint, run->net), "add_network");
    return status ? status
                  : run_told(gyre_checkpoint_add_sampler(run->checkpoint, "sampler", run->sampler),
                             "add_sampler");
}

static inline void run_close(struct run *run)
{
    gyre_checkpoint_destroy(run->checkpoint);
    gyre_network_destroy(run->net);
    gyre_sampler_destroy(run->sampler);
    gyre_samples_close(run->data);
}

static inline int run_step(struct run *run)
{
    float x[RUN_ROWS * RUN_FEATURES];
    int64_t label[RUN_ROWS];
    uint64_t index[RUN_ROWS], count = 0, epoch;
    gyre_sampler_position(run->sampler, &epoch, NULL);
    int status =
        gyre_sampler_left(run->sampler) ? 0 : gyre_sampler_begin(run->sampler, epoch + 1, 0);
    if (!status)
        status = gyre_sampler_next(run->sampler, RUN_ROWS, index, RUN_ROWS, &count);
    if (!status)
        status = gyre_samples_take(run->data, index, count, x, label);
    if (!status)
        status = gyre_network_learn_classes(run->net, x, count, label);
    if (!status)
        status = gyre_ddp_wait(run->ddp);
    if (!status)
        status = gyre_network_update(run->net, gyre_learning_rate_at(&run->rate, run->step));
    run->step++;
    return run_told(status, "step");
}

static inline int run_steps(struct run *run, int steps)
{
    int status = 0;
    while (!status && steps-- > 0)
        status = run_step(run);
    return status;
}

static inline void run_values(struct run *run, float values[RUN_VALUES])
{
    const struct gyre_ddp_parameter *p;
    int count = gyre_network_parameters(run->net, &p);
    for (int i = 0; i < count; i++) {
        size_t elements = p[i].shape[0] * (p[i].dimensions > 1 ? p[i].shape[1] : 1);
        memcpy(values, p[i].value, elements * sizeof *values);
        values += elements;
    }
}

/* The folder counts on rank 0 only. */
static inline int run_save(struct run *run, struct gyre_comm *comm, const char *folder)
{
    return run_told(gyre_checkpoint_save(run->checkpoint,
                                         gyre_rank(comm) ? "/no/such/folder" : folder, run->step),
                    "save");
}

static inline int run_load(struct run *run, struct gyre_comm *comm, const char *folder)
{
    return run_told(gyre_checkpoint_load(run->checkpoint,
                                         gyre_rank(comm) ? "/no/such/folder" : folder, &run->step),
                    "load");
}

#endif
