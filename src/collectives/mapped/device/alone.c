/* The books of turns that streams run. Tested by tests/program/cuda/alone/push.c. */
#include "collectives/mapped/device/alone.h"

#include "collectives/mapped/device/words.h"
#include "collectives/mapped/turn.h"

bool gyre_alone_may(struct gyre_mesh *mesh, uint64_t turn)
{
    return mesh->words_locked && gyre_turn_is_free(mesh, turn) && gyre_words_are_free(mesh, turn);
}

void gyre_alone_begin(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    gyre_stream_wait_expect(&op->stream_wait);
    op->alone = true;
    mesh->ahead++;
    mesh->posted[op->turn % GYRE_BOARD_SLOTS] = op->stream_wait;
}

void gyre_alone_record_half(const struct gyre_mesh *mesh, const struct gyre_trouble *trouble)
{
    const uint32_t own = gyre_mesh_world(mesh, mesh->rank);
    struct gyre_trouble told = *trouble;
    gyre_trouble_wrap(&told, "rank %u", own);
    gyre_fault_record(mesh->fault, told.status, own, false, &told);
}

bool gyre_alone_look(struct gyre_operation *op)
{
    const uint64_t before = op->steps;
    op->steps = gyre_stream_wait_steps(&op->stream_wait);
    return op->steps != before;
}
