/* What the files of the stand-in share: one lock, the devices, and how every call begins and ends.
 *
 *     CUresult cuThing(...)
 *     {
 *         CUresult status = fake_begin(__func__, FAKE_CONTEXT);   takes the lock, always
 *         if (!status)
 *             status = thing(...);
 *         return fake_end(status);                                gives it back
 *     }
 */
#ifndef GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_PARTS_H
#define GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_PARTS_H

#include "fakecuda.h"

#include <pthread.h>

enum { FAKE_DEVICES = 8, FAKE_GRANULARITY = 2 << 20 };

/* What a call needs before it may do anything. */
enum fake_need {
    FAKE_NOTHING, /* works in any state */
    FAKE_DRIVER,  /* after cuInit(), not after fork() */
    FAKE_CONTEXT  /* moreover a current context whose device is not lost */
};

/* A device, and its only context. */
struct CUctx_st {
    int device;
    bool retained;            /* once true, the device's thread runs */
    CUresult lost;            /* 0, or what all calls return from now on */
    uint64_t used;            /* bytes */
    uint64_t dice;            /* state of the random numbers */
    struct CUstream_st *full; /* a thread waits for room there, in the driver; all others wait */
    struct CUstream_st *streams;
    pthread_cond_t work;
    bool open;    /* its kernels may use plain addresses */
    long vain_ns; /* how long it has looked in vain for a word of the host */
};

struct fake_settings {
    int devices; /* -1: no driver */
    uint64_t memory, seed;
    unsigned delay_us;
    bool export, peers, one_channel, words, rdma;
    int driver; /* its version, 13000 for 13.0 */
    bool engines, waits;
    unsigned wrong, depth;
    uint64_t salt, shift;
};

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_done; /* some work has ended */
extern struct CUctx_st fake_device[FAKE_DEVICES];
extern struct fake_settings fake_settings;
extern struct fakecuda_alive fake_counts;
extern bool fake_held;

CUresult fake_begin(const char *function, enum fake_need need);
CUresult fake_end(CUresult status);

/* An unsafe call of a thread that is not relaxed: it spoils whatever is being captured, if anything
 * is. With the lock held, as the rest. */
bool fake_spoils(void);

/* The rest with the lock held, unless it says otherwise. */
struct CUctx_st *fake_current(void);
bool fake_known(int device);
bool fake_locked(uint64_t address, uint64_t length); /* host memory that devices reach */
bool fake_skips(const char *name);
CUresult fake_planned(const char *name); /* counts a call; the error planted for it */
uint64_t fake_roll(struct CUctx_st *device, uint64_t below);
void fake_error(cudaError_t error); /* what cudaGetLastError() tells this thread; no lock */

/* Where the stand-in finds an application's bytes. */
struct fake_place {
    void *at;
    struct memory *memory; /* NULL: it is the host's, and lies where the application says */
};

/* Keeps the place while work of the device is under way; CUDA_ERROR_ILLEGAL_ADDRESS if it faults
 * there. To leave tells whether the application has freed it meanwhile, which is as bad. */
CUresult fake_visit(int device, uint64_t address, uint64_t length, struct fake_place *place);
CUresult fake_leave(const struct fake_place *place);
void fake_clear(const struct fake_place *place, uint64_t length); /* no lock */
bool fake_is_device_memory(uint64_t address);
bool fake_is_foreign(const struct fake_place *place, int device); /* another device's memory */
/* Kernels of the device may use plain addresses until it has nothing to do. */
void fake_open_memory(struct CUctx_st *device);
void fake_close_memory(struct CUctx_st *device);

/* A call that waits for everything that was put on the current device before it, as a driver may.
 * If that does not end, the process does, with a message. */
void fake_synchronise(const char *name);

/* The same of a call that a driver may delay for ever, and which says nothing. */
void fake_linger(void);

/* Whether a stream waits, or will, for a word there. */
bool fake_awaited(const void *memory, uint64_t length);

/* A call of cuBLASLt, where FAKECUDA_CUBLASLT says that it is there; NULL. No lock. */
void *fake_cublaslt_symbol(const char *name);

void fake_start_device(struct CUctx_st *device);
bool fake_idle(const struct CUctx_st *device);
CUresult fake_launch(CUstream stream, const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes);

#endif
