/* Results of started work. Tested by tests/program/collectives/handles.c and packs.c. */
#include "collectives/comm/results.h"

#include "collectives/comm/pack_memory.h"
#include "collectives/comm/progress.h"
#include "collectives/messages/message.h"

#include <stdlib.h>

/* Takes an operation that has ended out of the engine. The handle keeps its status. */
static void leave_engine(struct gyre_started *started)
{
    struct gyre_comm *comm = started->comm;
    started->status = started->op->status;
    if (started->pack && !started->status)
        gyre_pack_take_out(&comm->progress->fold_queue, &started->share);
    if (started->pack)
        gyre_pack_leave(started->pack, comm->engine, started->op);
    else
        gyre_engine_release(comm->engine, started->op);
    started->pack = NULL;
    started->op = NULL;
}

int gyre_results_status(const struct gyre_started *started)
{
    return started->message ? atomic_load(&started->message->status)
           : started->op    ? atomic_load(&started->op->status)
                            : started->status;
}

bool gyre_results_collect(struct gyre_comm *comm)
{
    const struct gyre_work_table *work = &comm->work;
    bool awaited = false;
    for (uint32_t place = 0; place < work->places; place++) {
        struct gyre_started *started = gyre_work_at(work, place);
        if (!started->handle || !started->op || started->op->status == GYRE_AGAIN)
            continue;
        if (started->awaited)
            awaited = true;
        else
            leave_engine(started);
    }
    return awaited;
}

int gyre_results_take(struct gyre_started *started)
{
    if (started->op && started->op->status == GYRE_AGAIN)
        return GYRE_AGAIN;
    if (started->op)
        leave_engine(started);
    int status = started->status;
    free(started->buffer);
    gyre_work_free(&started->comm->work, started);
    return status;
}
