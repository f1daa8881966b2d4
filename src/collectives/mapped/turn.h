/* Turns on shared memory: when a line may be written again, whether a peer's line has come, and how
 * bytes are folded or copied. */
#ifndef GYRE_COLLECTIVES_MAPPED_TURN_H
#define GYRE_COLLECTIVES_MAPPED_TURN_H

#include "collectives/mapped/mesh.h"

static inline struct gyre_line *gyre_own_line(struct gyre_mesh *mesh, uint64_t turn)
{
    return &mesh->mine->line[turn % GYRE_BOARD_SLOTS];
}

static inline const struct gyre_line *gyre_peer_line(const struct gyre_mesh *mesh, uint32_t rank,
                                                     uint64_t turn)
{
    return &mesh->board[rank]->line[turn % GYRE_BOARD_SLOTS];
}

/* Looks at a peer's line of the turn under way, whose payload a stream brings. Returns what
 * gyre_line_state() does. */
int gyre_line_of_stream(const struct gyre_mesh *mesh, uint32_t rank, uint64_t fingerprint);

/* Looks at a peer's line of the turn under way. 0: the line has come, and is of the same operation;
 * GYRE_AGAIN: not yet; GYRE_MISMATCH. */
static inline int gyre_line_state(const struct gyre_mesh *mesh, uint32_t rank, uint64_t fingerprint)
{
    const struct gyre_line *line = gyre_peer_line(mesh, rank, mesh->at);
    const uint64_t stamp = atomic_load_explicit(&line->stamp, memory_order_acquire);
    if (stamp == mesh->at)
        return line->fingerprint == fingerprint ? 0 : GYRE_MISMATCH;
    return stamp == (mesh->at | GYRE_STAMP_OF_STREAM) ? gyre_line_of_stream(mesh, rank, fingerprint)
                                                      : GYRE_AGAIN;
}

/* Whether the line of `turn` may be written: looks whether a peer still needs the turn that used
 * the line before. */
bool gyre_turn_look(struct gyre_mesh *mesh, uint64_t turn);

static inline bool gyre_turn_is_free(struct gyre_mesh *mesh, uint64_t turn)
{
    return turn <= mesh->safe + GYRE_BOARD_SLOTS || gyre_turn_look(mesh, turn);
}

/* Tells peers that this rank needs nothing of a turn any more, nor of any before. A peer that waits
 * for a free line is woken every eighth turn, which is often enough. */
static inline void gyre_turn_end(struct gyre_mesh *mesh, uint64_t turn)
{
    atomic_store_explicit(&mesh->mine->finished, turn, memory_order_release);
    if (turn % (GYRE_BOARD_SLOTS / 2) == 0)
        gyre_domain_ring(mesh->domain);
}

/* The first rank, by its number in the domain, that has not come to a turn; all have:
 * GYRE_RECORD_NOBODY. */
uint32_t gyre_turn_waits_on(const struct gyre_mesh *mesh, uint64_t turn);

/* Records that a peer is in another operation. */
void gyre_turn_mismatch(const struct gyre_mesh *mesh, uint32_t rank, uint64_t sequence);

/* Whether a destination is one of the sources. */
bool gyre_turn_overwrites(void *const *to, uint32_t destinations, const void *const *from,
                          uint32_t sources);

/* Writes the fold of all sources to every destination; a fold of one source is a copy, bit by bit.
 * `stream`: stores go around the cache. */
void gyre_turn_fold(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                    const void *const *from, uint32_t sources, uint64_t bytes, bool stream);
void gyre_turn_copy(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                    const void *from, uint64_t bytes, bool stream);

/* The number of bytes of `length` that a block has; an unequal block may end before the part
 * does. */
uint64_t gyre_part_unequal(const struct gyre_plan *plan, uint64_t slice, uint32_t block,
                           uint64_t offset, uint64_t length);

static inline uint64_t gyre_part_bytes(const struct gyre_plan *plan, uint64_t slice, uint32_t block,
                                       uint64_t offset, uint64_t length)
{
    return plan->blocks.count ? gyre_part_unequal(plan, slice, block, offset, length) : length;
}

#endif
