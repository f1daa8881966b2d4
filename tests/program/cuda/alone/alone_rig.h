/* What tests of operations share whose streams run their turns by themselves. */
#ifndef GYRE_TESTS_PROGRAM_CUDA_ALONE_ALONE_RIG_H
#define GYRE_TESTS_PROGRAM_CUDA_ALONE_ALONE_RIG_H

#include "rig/comm_rig.h"
#include "stand_in/fakecuda/fakecuda.h"

/* 1, told on standard error, where a call of CUDA's has failed. */
int alone_failed(CUresult error);

/* Makes two streams in the device's context, which stays current. */
int alone_streams(struct gyre_comm *comm, CUstream stream[2]);

/* How far an operation is: its stream will run the turn; the lines of all are read; the stream has
 * come with its data. */
enum alone_looked { ALONE_BEGUN, ALONE_RESOLVED, ALONE_ARRIVED };

/* Whether all operations in flight are so far. */
bool alone_are_all(struct gyre_comm *comm, enum alone_looked looked);
void alone_await_all(struct gyre_comm *comm, enum alone_looked looked);

/* Waits for the end of all operations, without a call that would meet another rank's. Returns the
 * communicator's failure; 0: none. */
int alone_await_end(struct gyre_comm *comm);

/* Of a rig: rank 1 cannot lock the words. */
void alone_refuse_to_lock(const struct rig *rig, int rank);

/* Runs the body on two ranks, kills rank 1 when both are ready, and expects rank 0 to tell of
 * that. */
void alone_lose_rank_1(int (*body)(struct gyre_comm *, struct rig *));

#endif
