/* The common part of both forms of operations on mapped memory: lines, and arithmetic.
 *
 *     line[turn % 16]   written when every peer has finished turn - 16, read when its stamp is turn
 *
 * Tested by tests/sim/mesh.c. */
#include "collectives/mapped/turn.h"

#include "base/copy.h"
#include "collectives/mapped/device/words.h"

/* -- lines ------------------------------------------------------------------------------------- */

bool gyre_turn_look(struct gyre_mesh *mesh, uint64_t turn)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        uint64_t finished =
            atomic_load_explicit(&mesh->board[rank]->finished, memory_order_acquire);
        least = finished < least && rank != mesh->rank ? finished : least;
    }
    mesh->safe = least;
    return turn <= mesh->safe + GYRE_BOARD_SLOTS;
}

int gyre_line_of_stream(const struct gyre_mesh *mesh, uint32_t rank, uint64_t fingerprint)
{
    if (gyre_peer_line(mesh, rank, mesh->at)->fingerprint != fingerprint)
        return GYRE_MISMATCH;
    return gyre_words_came(mesh, GYRE_WORD_ARRIVED, rank, mesh->at) ? 0 : GYRE_AGAIN;
}

uint32_t gyre_turn_waits_on(const struct gyre_mesh *mesh, uint64_t turn)
{
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        const struct gyre_line *line = gyre_peer_line(mesh, rank, turn);
        if (rank != mesh->rank && atomic_load_explicit(&line->stamp, memory_order_acquire) < turn)
            return gyre_mesh_world(mesh, rank);
    }
    return GYRE_RECORD_NOBODY;
}

void gyre_turn_mismatch(const struct gyre_mesh *mesh, uint32_t rank, uint64_t sequence)
{
    struct gyre_trouble trouble = {0};
    uint32_t peer = gyre_mesh_world(mesh, rank);
    gyre_trouble_set(&trouble, GYRE_MISMATCH,
                     "rank %u and rank %u called different operations as number %llu: compare "
                     "operation, count, type, "
                     "reduction and root on both, also of the operations before, and whether one "
                     "is captured into a graph",
                     gyre_mesh_world(mesh, mesh->rank), peer, (unsigned long long)sequence);
    gyre_fault_record(mesh->fault, GYRE_MISMATCH, peer, true, &trouble);
}

/* -- arithmetic -------------------------------------------------------------------------------- */

/* Copies one source to all destinations. gyre_copy() is best for a few bytes. For many its speed
 * may fall to a tenth where source and destination stand at different distances from a line, as
 * blocks of odd length do; and gyre_copy() reads the source anew for every destination. */
void gyre_turn_copy(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                    const void *from, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = &from,
                                  .sources = 1,
                                  .count = bytes,
                                  .stream = stream};
    if (bytes > GYRE_EXCHANGE_MAX)
        plan->copy(&task, NULL);
    for (uint32_t d = 0; bytes <= GYRE_EXCHANGE_MAX && d < destinations; d++)
        gyre_copy(to[d], from, bytes);
}

/* Copies one source bit by bit, and not onto itself. */
static void copy_out(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                     const void *from, uint64_t bytes, bool stream)
{
    void *apart[GYRE_PEERS_MAPPED_MAX];
    uint32_t count = 0;
    for (uint32_t d = 0; d < destinations; d++)
        if (to[d] != from)
            apart[count++] = to[d];
    if (count)
        gyre_turn_copy(plan, apart, count, from, bytes, stream);
}

/* Whether a destination is one of the sources. In place, and where a stage is the inbox, the lines
 * that are written have just been read. Stores around the cache would only throw such lines out. */
bool gyre_turn_overwrites(void *const *to, uint32_t destinations, const void *const *from,
                          uint32_t sources)
{
    for (uint32_t d = 0; d < destinations; d++)
        for (uint32_t s = 0; s < sources; s++)
            if (to[d] == from[s])
                return true;
    return false;
}

void gyre_turn_fold(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                    const void *const *from, uint32_t sources, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = from,
                                  .sources = sources,
                                  .count = gyre_plan_elements(plan, bytes),
                                  .context = plan->shape.context,
                                  .divisor = plan->divisor,
                                  .stream = stream &&
                                            !gyre_turn_overwrites(to, destinations, from, sources)};
    if (sources > 1 || plan->divisor)
        plan->fold(&task, NULL);
    else
        copy_out(plan, to, destinations, from[0], bytes, stream);
}

uint64_t gyre_part_unequal(const struct gyre_plan *plan, uint64_t slice, uint32_t block,
                           uint64_t offset, uint64_t length)
{
    uint64_t begin = slice * plan->slice_count * plan->element + offset;
    uint64_t end = plan->blocks.count[block] * plan->element;
    uint64_t left = end > begin ? end - begin : 0;
    return left < length ? left : length;
}
