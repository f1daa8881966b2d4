/* A model in training, as bench/step needs it: the parts of `gyre train` without its files. Data
 * are random and in memory; every step takes the same batch. */
#ifndef GYRE_BENCH_PARTS_STEP_NET_H
#define GYRE_BENCH_PARTS_STEP_NET_H

#include "model/network/update.h"

#define STEP_WIDTHS_MOST 64

struct step_settings {
    size_t width[STEP_WIDTHS_MOST];
    int widths;
    size_t batch; /* of one rank */
    enum gyre_optimizer_kind optimizer;
    uint64_t bucket; /* bytes that close a bucket; 0: the engine's choice */
    bool plant;      /* a fault on purpose, by GYRE_BENCH_PLANT=nan: a number of the data is NaN */
};

struct step_net {
    struct gyre_comm *comm;
    const struct step_settings *settings;
    struct gyre_replica replica;
    uint64_t weights;
    float *x;
    int64_t *labels;
    bool finite; /* so far, all losses of this rank and all sums */
    struct gyre_trouble trouble;
};

/* Collective over `comm`. A negative status with net->trouble set; close takes every half-built
 * state. */
int step_net_open(struct step_net *net, struct gyre_comm *comm,
                  const struct step_settings *settings);
void step_net_close(struct step_net *net);

/* Steps with communication; collective. waited[i]: seconds that step i's gyre_ddp_wait() took; may
 * be NULL. */
int step_net_run(struct step_net *net, int steps, double *waited);

/* The same work, the update included, but nothing travels and, at a rate of 0, no value changes. A
 * step with communication ends it, and takes no part in what *seconds says. Collective. */
int step_net_run_silent(struct step_net *net, int steps, double *seconds);

#endif
