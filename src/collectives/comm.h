/* The communicator's inside, for comm.c, calls.c, operations.c and helper.c only. Its outside
 * is gyre/gyre.h. */
#ifndef GYRE_COLLECTIVES_COMM_H
#define GYRE_COLLECTIVES_COMM_H

#include "collectives/engine.h"
#include "collectives/mesh.h"

#include <pthread.h>

struct gyre_work {
    struct gyre_comm *comm;
    struct gyre_operation *op; /* NULL: it had ended when it was started */
    int status;                /* of an operation without `op` */
    bool used;
};

/* A thread that drives started work while nobody is inside a call. Made by the first start. */
struct gyre_helper {
    pthread_t thread;
    bool made;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;             /* under lock */
    _Atomic bool asleep;   /* it waits for work */
    _Atomic uint32_t work; /* operations started and not seen to end */
};

struct gyre_registered {
    void *memory;
    size_t bytes;
};

#define GYRE_REGISTERED_MAX 256

struct gyre_comm {
    struct gyre_domain *domain;
    struct gyre_engine *engine;
    struct gyre_mesh *mesh;
    struct gyre_layout *layout; /* NULL: all on one node */
    struct gyre_preference preference;
    uint32_t rank, n;
    _Atomic int failed; /* status of every call from now on */
    bool fault_told;
    uint64_t moves;              /* polls of the engine that moved something */
    struct gyre_trouble trouble; /* of a world of 1; otherwise the domain's health */
    struct gyre_helper helper;
    struct gyre_work work[GYRE_OPS_MAX];
    uint8_t barrier_in, barrier_out;
    pthread_mutex_t registered_lock;
    struct gyre_registered registered[GYRE_REGISTERED_MAX];
    uint32_t registereds;
};

/* This thread's last failure without a communicator, and its last GYRE_INVALID. */
struct gyre_trouble *gyre_thread_trouble(void);

/* Notes why a call is not possible as this thread's trouble. Returns GYRE_INVALID. */
int gyre_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs an operation to its end, or starts it and hands out the handle. Arguments are checked. */
int gyre_comm_run(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                  void *output);
int gyre_comm_begin(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                    void *output, struct gyre_work **work);

int gyre_helper_poke(struct gyre_comm *comm); /* work was started; makes the thread on first use */
void gyre_helper_stop(struct gyre_comm *comm);

/* Drives the engine one turn; owner. Returns 0, or the job's failure, which then is the
 * communicator's. */
int gyre_comm_turn(struct gyre_comm *comm, struct gyre_idle *idle, uint64_t deadline);

#endif
