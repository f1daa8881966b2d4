/* The bytes of a connection that the peer's kernel may not have: from them a connection that breaks
 * goes on over another.
 *
 *      0 ─────────── from ───────────────────── to ──▶ the stream's bytes, counted from its first
 *      acknowledged   │  in the ring, or lost   │
 *                     └──────── kept ───────────┘
 *
 * The kernel says how many of its bytes the peer has acknowledged, so nothing is kept that has
 * arrived, and no message of Gyre's own tells of arrivals. */
#ifndef GYRE_TRANSPORT_LINK_TCP_KEPT_H
#define GYRE_TRANSPORT_LINK_TCP_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct gyre_kept {
    uint8_t *ring; /* NULL: nothing is kept */
    size_t size;   /* of the ring now: the smallest that was enough, for the cache */
    size_t most;
    uint64_t from, to;
    uint64_t origin; /* the byte that lies, or would, at the ring's beginning */
};

/* Makes a ring of `first` bytes, which doubles so many times at most. Its pages cost memory when
 * they are first used. 0 or -ENOMEM. */
int gyre_kept_init(struct gyre_kept *kept, size_t first, int doublings);
void gyre_kept_deinit(struct gyre_kept *kept);

/* Takes the first `bytes` of the vectors behind all that is kept. The peer has acknowledged the
 * bytes up to `acknowledged`. Of more than the ring's most only the last bytes are kept. */
void gyre_kept_add(struct gyre_kept *kept, const struct iovec *iov, int count, size_t bytes,
                   uint64_t acknowledged);

/* Gives up the bytes before `acknowledged`. */
void gyre_kept_forget(struct gyre_kept *kept, uint64_t acknowledged);

/* Whether every byte from `at` on is kept, or none is missing because `at` is the end. */
bool gyre_kept_reaches(const struct gyre_kept *kept, uint64_t at);

/* Where the bytes from `at` on lie, which are kept: up to 2 vectors, and at most `max`. */
int gyre_kept_gather(const struct gyre_kept *kept, uint64_t at, struct iovec *iov, int max);

#endif
