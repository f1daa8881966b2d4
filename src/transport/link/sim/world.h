/* The simulated world: virtual time, n ranks, and connections between them, in one process and one
 * thread.
 *
 * The world stands where sockets and clocks stand otherwise. gyre_driver_sim (sim.c) carries
 * streams over its connections, so the code above runs unchanged with 2 or 100,000 ranks, at any
 * speed of links and with faults, and the same seed gives the same run. A test's loop is
 *
 *     for (rank = 0; rank < n; rank++) gyre_sim_world_wake(world, rank, 0);
 *     while ((rank = gyre_sim_world_step(world)) >= 0)
 *         … let that rank poll its wire and its engine, at gyre_sim_world_now(world) …
 *
 * Connections exist once a side has attached; ranks without any cost a few bytes. Nothing here is
 * thread-safe. */
#ifndef GYRE_TRANSPORT_LINK_SIM_WORLD_H
#define GYRE_TRANSPORT_LINK_SIM_WORLD_H

#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct gyre_driver;

/* The driver. It is not in the table of drivers, because the opener of its wires has made the
 * world. */
extern const struct gyre_driver gyre_driver_sim;

struct gyre_sim_world;

/* The properties of one direction of a connection. */
struct gyre_sim_link {
    uint64_t latency_ns;
    uint64_t jitter_ns;        /* added to each delivery: 0 to this much; order is kept */
    uint64_t bytes_per_second; /* 0: no limit */
    uint32_t piece_bytes;      /* a delivery has 1 to this many bytes; 0: as written */
    uint64_t coalesce_ns;      /* deliveries happen at multiples of this time; 0: at any time */
};

struct gyre_sim_options {
    uint64_t seed;
    uint32_t n;
    struct gyre_sim_link link; /* of every direction, unless set otherwise */
    uint32_t posts;            /* sends, and as many receives, on a pipe; 0: 64 */
    uint32_t window_bytes;     /* written and not yet read, per direction; 0: 256 KiB */
    uint32_t eager_bytes;      /* a longer message waits for a grant; 0: GYRE_EAGER_MAX */
    /* All that a rank sends shares one way out, and all that it gets one way in, of the speed of
     * `link` unless set otherwise; the speeds of links say nothing. */
    bool shared_ways;
};

/* Makes a world. 0, GYRE_INVALID (n = 0) or -ENOMEM. destroy() comes after the wires were closed;
 * NULL allowed. */
int gyre_sim_world_create(const struct gyre_sim_options *options, struct gyre_sim_world **world);
void gyre_sim_world_destroy(struct gyre_sim_world *world);

/* -- time -------------------------------------------------------------------------------------- */

uint64_t gyre_sim_world_now(const struct gyre_sim_world *world); /* nanoseconds since 0 */

/* Goes on to the next event that a rank notices, and returns that rank, which should poll. -1:
 * nothing will happen any more, unless a rank posts or is woken. Events of dead ranks are skipped;
 * events of paused ranks wait for resume(). */
int64_t gyre_sim_world_step(struct gyre_sim_world *world);

/* The time of the next event for step(), UINT64_MAX: none. */
uint64_t gyre_sim_world_next(const struct gyre_sim_world *world);

/* Makes step() return `rank` at time `at`, or now if `at` has passed: a rank's own deadline, or its
 * start. */
void gyre_sim_world_wake(struct gyre_sim_world *world, uint32_t rank, uint64_t at);

/* A hash of the run: every event's time, place, length and bytes. */
uint64_t gyre_sim_world_trace(const struct gyre_sim_world *world);
uint64_t gyre_sim_world_events(const struct gyre_sim_world *world);
uint64_t gyre_sim_world_bytes(const struct gyre_sim_world *world); /* delivered in all */

/* -- faults ------------------------------------------------------------------------------------ */

void gyre_sim_world_set_link(struct gyre_sim_world *world, uint32_t from, uint32_t to,
                             const struct gyre_sim_link *link);

/* The speed of a rank's ways, where they are shared. */
void gyre_sim_world_set_ways(struct gyre_sim_world *world, uint32_t rank,
                             uint64_t bytes_per_second);

/* Kills the rank, as SIGKILL does: bytes written still arrive, then the connections end. step()
 * does not return the rank again. */
void gyre_sim_world_kill(struct gyre_sim_world *world, uint32_t rank);
bool gyre_sim_world_dead(const struct gyre_sim_world *world, uint32_t rank);

/* Pauses the rank, as SIGSTOP does: step() does not return it, its connections stay. */
void gyre_sim_world_pause(struct gyre_sim_world *world, uint32_t rank);
void gyre_sim_world_resume(struct gyre_sim_world *world, uint32_t rank);

/* Blocks bytes from `from` to `to` until unblocked. The bytes are kept, as by a network that loses
 * all packets and sends them again. */
void gyre_sim_world_block(struct gyre_sim_world *world, uint32_t from, uint32_t to, bool blocked);

/* Flips one bit of the next byte written from `from` to `to`, after `skip_bytes` more. */
void gyre_sim_world_corrupt(struct gyre_sim_world *world, uint32_t from, uint32_t to,
                            uint64_t skip_bytes);

/* Bits that were flipped so. */
uint32_t gyre_sim_world_corrupted(struct gyre_sim_world *world, uint32_t from, uint32_t to);

/* Breaks the connection at once at both ends, blocked or not; bytes under way are lost. */
void gyre_sim_world_reset(struct gyre_sim_world *world, uint32_t a, uint32_t b);

/* -- for sim.c ------------------------------------------------------------------------- */

struct gyre_sim_end; /* one end of a connection */

/* Opens `rank`'s end of its connection to `peer`. 0, -ENOMEM, or GYRE_INVALID: the end is open
 * already. */
int gyre_sim_end_open(struct gyre_sim_world *world, uint32_t rank, uint32_t peer, void *context,
                      struct gyre_sim_end **end);
void gyre_sim_end_close(struct gyre_sim_end *end);

/* Write and read as non-blocking sockets do: bytes taken or given, 0: none now. step() returns the
 * rank when some can move. */
size_t gyre_sim_end_write(struct gyre_sim_end *end, const struct iovec *iov, int count);
size_t gyre_sim_end_read(struct gyre_sim_end *end, const struct iovec *iov, int count);

/* Whether bytes that this end has written have not arrived. */
bool gyre_sim_end_is_carried(const struct gyre_sim_end *end);

/* Whether everything was read, and the peer's end is closed or dead. */
bool gyre_sim_end_over(const struct gyre_sim_end *end);

/* The marked ends of a rank, in the order of their marks. step() marks an end that has bytes to
 * read, room to write or an end to notice; the driver marks an end that got a post. take() returns
 * the end's context, NULL: none is marked. All ends of a rank are one driver's. */
void gyre_sim_end_mark(struct gyre_sim_end *end);
bool gyre_sim_world_has_marked(const struct gyre_sim_world *world, uint32_t rank);
void *gyre_sim_world_take_marked(struct gyre_sim_world *world, uint32_t rank);

uint32_t gyre_sim_world_posts(const struct gyre_sim_world *world);
uint32_t gyre_sim_world_eager(const struct gyre_sim_world *world);
uint32_t gyre_sim_world_size(const struct gyre_sim_world *world);

#endif
