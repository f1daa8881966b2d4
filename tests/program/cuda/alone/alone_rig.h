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

#endif
