/* A stand-in for the part of CUDA that Gyre calls, so that machines without a GPU execute every
 * host line and every kernel. It never ships in the library: tests link it in front.
 *
 * Streams are asynchronous: each device has a thread that takes work which is ready, from streams
 * in an order that a seed decides. Device memory is a memfd that is mapped twice: where the
 * application sees it, it may not be touched; the stand-in uses the other mapping. While a kernel
 * runs, its device's memory is open, since kernels are given plain addresses.
 *
 *     application's address ──▶ PROT_NONE ─┐
 *                                          ├─▶ pages of the memfd ◀── other processes (import, IPC)
 *     stand-in's address ─────▶ read, write┘
 *
 * The environment, read at the first call (of each process):
 *
 *     FAKECUDA_DEVICES=2         how many there are; 0 and "none" (no driver) are allowed; 1
 *     FAKECUDA_SEED=7            the order between streams; 1
 *     FAKECUDA_DELAY=200         microseconds that a piece of work may wait at most; 0
 *     FAKECUDA_MEMORY=1048576    bytes of each device; 1 GiB
 *     FAKECUDA_EXPORT=0          devices cannot export memory: classic IPC handles must serve
 *     FAKECUDA_PEERS=0           devices do not reach each other, nor map each other's memory;
 *                                copies that name both devices are made all the same
 *     FAKECUDA_WRONG=1           what a device copies from another's memory comes out wrong,
 *                                without an error; 2: what it copies to such memory; 3: both; 0
 *     FAKECUDA_WORDS=0           streams cannot wait for words of the host's
 *     FAKECUDA_RDMA=0            cards cannot reach device memory
 *     FAKECUDA_DRIVER=12040      the driver's version; that of the headers
 *     FAKECUDA_DEPTH=1024        pieces of work that a stream takes; who posts one more waits, in
 *                                the driver, where no other thread posts to that device; 1024
 *     FAKECUDA_ENGINES=0         copies are made in any order; 1: one engine makes all copies of a
 *                                direction, in the order of their posts, on whatever streams; 1
 *     FAKECUDA_WAITS=0           making a stream, unmapping and closing a handle do not wait for
 *                                all that the device has to do, nor copies of host memory that is
 *                                not locked for themselves; 1
 *     FAKECUDA_CHANNELS=1        streams of one priority share a queue of the hardware: one that
 *                                waits for a word or an event keeps up what is posted to the
 *                                others later; 0
 *     FAKECUDA_CUBLAS=1          cuBLAS is there (fake_cublas.c); 0
 *     FAKECUDA_CUBLASLT=1        cuBLASLt too (fake_cublaslt.c); 2: its ReLU takes NaN for 0; 3: it
 *                                proposes no algorithm; 0
 *     FAKECUDA_UUID_SALT=3       UUIDs are of another machine than with other salts; 0
 *     FAKECUDA_FAIL=cuMemMap:2:CUDA_ERROR_NOT_PERMITTED,kernel:1:CUDA_ERROR_ILLEGAL_ADDRESS
 *                                the 2nd call of that name from now fails with that error. "copy",
 *                                "set" and "kernel" are work on a stream: the device is then lost
 *                                to this process, and all calls say so
 *
 * Where the real thing is lax or silent the stand-in is strict: without a current context nothing
 * works (no stray context can appear), the default stream is refused unless it is named
 * (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD), after fork() all is refused. */
#ifndef GYRE_TESTS_STAND_IN_FAKECUDA_FAKECUDA_H
#define GYRE_TESTS_STAND_IN_FAKECUDA_FAKECUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* False where CUDA itself is linked in place of the stand-in (tests/gpu/fakecuda_absent.c), and
 * then nothing here does anything: tests leave out what has to be planted, held or counted. False
 * also with GYRE_TESTS_STAND_IN_FAKECUDA_FAKECUDA_HIDDEN=1: so what runs on a GPU is tried without
 * one. */
bool fakecuda_stands_in(void);

/* What is alive in this process. */
struct fakecuda_alive {
    int contexts; /* primary contexts that were ever retained, one per device */
    int handles;  /* of exportable memory, not released */
    int ranges;   /* reserved or allocated addresses */
    int streams;
    int events;
    int locked;     /* spans of host memory */
    uint64_t bytes; /* of device memory that this process made */
};

struct fakecuda_alive fakecuda_alive(void);

/* The nth call of `name` from now on fails with `error`. Several may be planted; 0 forgets all of
 * `name`, NULL all. */
void fakecuda_fail(const char *name, int nth, CUresult error);
int fakecuda_calls(const char *name); /* how often it was called */

/* Bytes that this process's devices have copied from and to the host's memory. */
uint64_t fakecuda_host_bytes(void);

/* Calls of `name` (cuStreamWaitEvent, cuEventRecord, cuEventQuery, cuStreamSynchronize …) succeed
 * and do, or wait for, nothing: a planted fault. */
void fakecuda_skip(const char *name, bool skip);

/* Threads that are inside a call which a driver may delay: for room, or for the device's work. */
int fakecuda_blocked(void);

void fakecuda_seed(uint64_t seed);
void fakecuda_hold(bool hold);        /* devices take no work until it is false again */
void fakecuda_wait(void);             /* until all streams are empty */
void fakecuda_heal(void);             /* lost devices serve again */
void fakecuda_export(bool supported); /* as FAKECUDA_EXPORT */
void fakecuda_peers(bool reach);      /* as FAKECUDA_PEERS */
void fakecuda_words(bool supported);  /* as FAKECUDA_WORDS */
void fakecuda_one_channel(bool one);  /* as FAKECUDA_CHANNELS */
void fakecuda_shift(uint64_t bytes);  /* devices see locked host memory that much further on */

/* The stream is being captured into a graph, or is not any more; it takes no work meanwhile but
 * kernels, which would be the graph's and are not run. cuStreamBeginCapture() keeps what is
 * captured, of that stream alone, and graphs replay it. */
void fakecuda_capture(CUstream stream, bool capture);
bool fakecuda_spoiled(CUstream stream); /* a call that a capture does not bear came meanwhile */

/* -- kernels ----------------------------------------------------------------------------------- */

/* Says how long each argument of a kernel is, before its first launch; at most 8 arguments, kept
 * for ever. A kernel that is not registered cannot be launched. */
void fake_kernel_register(const void *function, const size_t *argument_bytes, int arguments);

/* Runs a kernel on the device's thread, its arguments as they were at the launch. What a program
 * links may define it, to give kernels a grid; those that it does not know, and all where it is not
 * defined, are a void (*)(void **arguments) and called once. */
void fake_kernel_run(const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes);

#ifdef __cplusplus
}
#endif

#endif
