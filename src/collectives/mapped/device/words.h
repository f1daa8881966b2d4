/* Words of inboxes, by which ranks or their streams tell each other how far they are in a turn that
 * devices run.
 *
 *     inbox of rank 0   arrived[1][turn % 16]   pushed[1][turn % 16]   by rank 1, or its stream
 *                       arrived[2][turn % 16]   pushed[2][turn % 16]   by rank 2, or its stream
 *
 * A rank has a word for each peer in each inbox, so whoever waits looks at its own inbox alone, and
 * can release its own stream. The value is the turn. A word of a slot is written for turn + 16 only
 * when the stream of `turn`, if there was one, has passed: until then the stream may write.
 *
 * Streams need the words locked (gyre_device.pin). The mesh then keeps the peers' inboxes mapped,
 * whatever the peers withdraw, as long as a stream may write there.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_WORDS_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_WORDS_H

#include "collectives/mapped/mesh.h"

#define GYRE_WORDS_POSTED_MAX (2 * GYRE_PEERS_MAPPED_MAX + 2) /* in one post to a stream */
#define GYRE_WORDS_OF_ALL     UINT64_MAX                      /* ranks, as bits */

/* Locks the words, in a quiet moment; false: they are not locked now. */
bool gyre_words_lock(struct gyre_mesh *mesh);

/* Unlocks the words and gives up the peers' inboxes. Streams that may still use them are waited
 * for, but not for ever: then the memory lives as long as the process. */
void gyre_words_drop(struct gyre_mesh *mesh);

/* Whether the words of this turn may be written by this rank. */
static inline bool gyre_words_are_free(const struct gyre_mesh *mesh, uint64_t turn)
{
    return gyre_stream_wait_passed(&mesh->posted[turn % GYRE_BOARD_SLOTS]);
}

/* Writes the word of this rank in each peer's inbox. */
void gyre_words_tell(struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn);

/* Whether that rank, or its stream, has written its word of the turn. */
bool gyre_words_came(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint32_t rank,
                     uint64_t turn);

/* The first rank, by its number in the domain, that has not written its word of the turn; all have:
 * GYRE_RECORD_NOBODY. */
uint32_t gyre_words_wait_on(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn);

static inline bool gyre_words_come(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                                   uint64_t turn)
{
    return gyre_words_wait_on(mesh, word, turn) == GYRE_RECORD_NOBODY;
}

/* Write, in this rank's inbox, a word of the turn that has not come, or all of them, in their
 * writers' stead: a stream of this rank waits for them. */
void gyre_words_stand_in(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint32_t rank,
                         uint64_t turn);
void gyre_words_fill(struct gyre_mesh *mesh, uint64_t turn);

/* Describe what a stream writes into each peer's inbox, and for what words of `ranks` the stream
 * waits in this rank's own. Return the number of words. */
uint32_t gyre_words_to_tell(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn,
                            struct gyre_stream_word *list);
uint32_t gyre_words_to_await(const struct gyre_mesh *mesh, enum gyre_inbox_word word, uint64_t turn,
                             uint64_t ranks, struct gyre_stream_word *list);

/* The same four for an operation of a graph, by its number. Nobody overtakes: a peer writes a word
 * again only when the owner has set back what it wrote before. */
uint32_t gyre_words_to_tell_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                                     uint32_t number, struct gyre_stream_word *list);
uint32_t gyre_words_to_await_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                                      uint32_t number, struct gyre_stream_word *list);
bool gyre_words_come_captured(const struct gyre_mesh *mesh, enum gyre_inbox_word word,
                              uint32_t number);
void gyre_words_fill_captured(struct gyre_mesh *mesh, uint32_t number);

#endif
