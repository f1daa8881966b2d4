/* The watch notices death, spreads the first failure, and passes shared memory around inside a
 * node.
 *
 * One small thread per process (all signals blocked) runs a pure state machine
 * (transport/watch/detect/failure_detector.h). The watches form a tree: rank → the lowest rank of
 * its node → rank 0, over the channels that the join left (transport/join/joined.h): the Unix
 * sockets inside the node, rank 0's control connections between nodes. The thread never touches a
 * communicator: what it has learned stands in `struct gyre_health`, which every waiting loop polls,
 * and it rings the process's doorbell so that sleepers look.
 *
 * What it watches
 *   - a peer of this node died: its pidfd says so (not the socket, which a forked child may keep);
 *   - a peer is silent for the dead time: no heartbeat arrived (a stopped process sends none, a
 *     computing one does); a watcher whose own tick came late grants that lateness to everybody;
 *   - two ranks called different operations under the same sequence; or all ranks wait, in
 *     operations of different sequence, and none moves; or a rank refused a call in which others
 *     wait, and does not make it again; or a rank waits longer than its limit for ranks that have
 *     not joined;
 *   - the launcher's pipe ended. */
#ifndef GYRE_TRANSPORT_WATCH_WATCH_H
#define GYRE_TRANSPORT_WATCH_WATCH_H

#include "base/status.h"
#include "device/device.h"
#include "transport/job/job.h"
#include "transport/join/joined.h"
#include "transport/watch/activity.h"

#include <stdatomic.h>

/* Read by every loop that waits; written once, by the watch. */
struct gyre_health {
    _Atomic int status;          /* 0: all is well; otherwise `failure` never changes again */
    struct gyre_trouble failure; /* the first failure of the job, as every rank is told it */
    uint32_t failed_rank;        /* whose failure it is; UINT32_MAX: nobody's in particular */
};

/* The process's doorbell: a word that sleepers wait on by futex (shared), and an eventfd for those
 * in epoll. */
struct gyre_bell {
    _Atomic uint32_t *word;
    int eventfd;
};

struct gyre_watch_options {
    const struct gyre_job *job;
    struct gyre_joined *joined; /* borrowed, with its unix_fd, pidfd and control, until stop() */
    int dead_time_ms;           /* 0: nobody is ever declared dead by silence */
    int timeout_ms;             /* of an operation: beyond it all fail, naming who is missing */
    struct gyre_activity *activity; /* the process's first */
    struct gyre_health *health;
    struct gyre_bell bell;
    int cuda_device; /* that CUDA memory of peers is mapped on; -1: such memory is refused */
    struct gyre_copy_queue
        *copy_queue; /* halted while peers' memory is unmapped; NULL: nothing copies it */
};

struct gyre_watch;

int gyre_watch_start(const struct gyre_watch_options *options, struct gyre_watch **watch,
                     struct gyre_trouble *trouble);

/* This rank has nothing more to do and waits for its peers, which its beats say from now on.
 * Returns until when it shall wait: for the dead time. */
uint64_t gyre_watch_part(struct gyre_watch *watch);

/* Says goodbye, waits (until part() said, else at most the dead time) until all ranks have said it
 * or one has failed, and joins the thread. After a goodbye its sender's exit is no failure. In a
 * forked child it only frees. NULL allowed. */
void gyre_watch_stop(struct gyre_watch *watch);

/* Tells the job of a failure seen or decided here. The first one known to the tree wins;
 * health->status is set before this returns, and the peers have been sent it. With `echo` the
 * failure may be the echo of another (a lost connection) and is held back up to 200 ms for the
 * cause to arrive; a mismatch, until the watches have told what both ranks called, or for little
 * more than half of the dead time. health is set after at most that. Any thread; does not block. */
void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text);

/* From now on, or no longer, beats tell of this communicator too. Any thread; ignore() returns when
 * the activity is not read any more. `watch` may be NULL. */
void gyre_watch_attend(struct gyre_watch *watch, struct gyre_activity *activity);
void gyre_watch_ignore(struct gyre_watch *watch, struct gyre_activity *activity);

/* A call was refused here that would have had that number, and nothing was started: if peers wait
 * in it, and none follows for half of the dead time, they are told why. `why` NULL: what was
 * refused last has this number now. Any thread; `watch` may be NULL. */
void gyre_watch_refuse(struct gyre_watch *watch, struct gyre_activity *activity, uint64_t sequence,
                       const char *why);

/* Offers a region to the peers of this node under `id` (unique in this process) and waits until
 * each has mapped it or said that it cannot. 0: all have. GYRE_UNSUPPORTED: some cannot; nobody
 * keeps it. A region of a device is mapped by each peer's device of that kind. Any thread. */
int gyre_watch_share(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                     enum gyre_share share, struct gyre_trouble *trouble);

/* Whether some peer that has agreed to a region of a device cannot map it, but copies it: that peer
 * is in this process, and no kernel of its device may be given the region. Any thread. */
bool gyre_watch_copied(struct gyre_watch *watch, uint32_t id);

/* Has each peer of this node try (transport/memory/proof.h) a region of CUDA memory that
 * gyre_proof_begin() has filled, and waits until all have answered; nobody keeps it. agreed[rank],
 * of all ranks: that peer did. 0: all have that are there; GYRE_CORRUPT: what some peer copied was
 * wrong; GYRE_UNSUPPORTED: some peer cannot map it. Any thread. */
int gyre_watch_try(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                   bool *agreed, struct gyre_trouble *trouble);

/* Has the peers let go of a region. Of host memory it does not wait, since pages live as long as
 * anybody maps them; of CUDA memory it does, as share(), because a classic IPC handle must be
 * closed before its memory is freed. Any thread. */
void gyre_watch_unshare(struct gyre_watch *watch, uint32_t id);

/* Lets go of all CUDA memory of peers, and takes no more. Before a goodbye, because who has said it
 * is not asked any more, and its owners free that memory. Any thread. */
void gyre_watch_let_go(struct gyre_watch *watch);

/* A region of length 0 with an eventfd for `fd` is a doorbell: what peers write to when this
 * process sleeps on descriptors. peer_bell() is the one that `peer` gave, -1 if none; the watch
 * keeps it. Any thread. */
int gyre_watch_peer_bell(struct gyre_watch *watch, uint32_t peer);

/* This process's view of a region that `peer` shares, NULL while (or if) there is none; at least
 * `length` bytes long and of that kind. Lock-free; the view stays mapped until the peer unshares it
 * or the watch stops. Any thread. */
void *gyre_watch_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length);

/* All views of this process, for whoever looks them up often. They live as long as the watch. */
const struct gyre_views *gyre_watch_views(const struct gyre_watch *watch);

/* True once the peer's process is known to have ended (pidfd), so that it cannot write any more.
 * Any thread. */
bool gyre_watch_peer_ended(struct gyre_watch *watch, uint32_t peer);

#endif
