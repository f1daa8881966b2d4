#include "program/cuda/alone/alone_rig.h"

#include "collectives/comm/communicator.h"

#include <sched.h>
#include <stdio.h>

int alone_failed(CUresult error)
{
    if (error)
        fprintf(stderr, "CUDA error %d\n", (int)error);
    return error != 0;
}

int alone_streams(struct gyre_comm *comm, CUstream stream[2])
{
    CUcontext context;
    return alone_failed(cuDevicePrimaryCtxRetain(&context, gyre_device(comm))) ||
           alone_failed(cuCtxPushCurrent(context)) ||
           alone_failed(cuStreamCreate(&stream[0], CU_STREAM_NON_BLOCKING)) ||
           alone_failed(cuStreamCreate(&stream[1], CU_STREAM_NON_BLOCKING));
}

bool alone_are_all(struct gyre_comm *comm, enum alone_looked looked)
{
    bool all = true;
    gyre_domain_enter(comm->domain);
    for (uint32_t i = 0; i < comm->engine->orders; i++) {
        const struct gyre_operation *op = comm->engine->order[i];
        all &= op->alone && (looked == ALONE_BEGUN || op->resolved) &&
               (looked < ALONE_ARRIVED || gyre_stream_wait_steps(&op->stream_wait));
    }
    gyre_domain_leave(comm->domain);
    return all;
}

void alone_await_all(struct gyre_comm *comm, enum alone_looked looked)
{
    while (!alone_are_all(comm, looked))
        sched_yield();
}
