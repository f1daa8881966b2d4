#include "program/cuda/alone/alone_rig.h"

#include "collectives/comm/communicator.h"

#include "rig/test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int alone_await_end(struct gyre_comm *comm)
{
    int status;
    uint32_t orders;
    do {
        sched_yield();
        gyre_domain_enter(comm->domain);
        orders = comm->engine->orders;
        status = comm->engine->failed;
        gyre_domain_leave(comm->domain);
    } while (orders);
    return status;
}

void alone_refuse_to_lock(const struct rig *rig, int rank)
{
    (void)rig;
    if (rank == 1)
        setenv("FAKECUDA_FAIL", "cuMemHostRegister:3:CUDA_ERROR_OUT_OF_MEMORY", 1);
}

void alone_lose_rank_1(int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = 2, .transport = "auto", .body = body};
    rig_start(&rig);
    rig_until(&rig.shared->ready, 2);
    kill(rig.pid[1], SIGKILL);
    assert_int_equal(rig_wait(&rig, 30, 2), 0);
    assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
    assert_non_null(strstr(rig.shared->error[0], "rank 1"));
}
