/* The watch notices death, spreads the first failure, and passes shared memory around inside a
 * node.
 *
 * One small thread per process (all signals blocked) runs a pure state machine for each group of
 * ranks that the process is in (transport/watch/detect/failure_detector.h). The watches form a
 * tree: rank → the lowest rank of its node → rank 0, over the channels that the join left
 * (transport/join/joined.h): the Unix sockets inside the node, rank 0's control connections between
 * nodes. The thread never touches a communicator. What it has learned stands in `struct
 * gyre_health`, which every waiting loop polls, and it rings the process's doorbell so that
 * sleepers look.
 *
 * Failures are:
 *   - A peer of this node died. Its pidfd tells, not its socket, which a forked child may keep.
 *   - A peer is silent for the dead time: no beat arrived. A stopped process sends none, a
 *     computing one does. A watcher whose own tick came late grants that time to every peer.
 *   - Two ranks called different operations under one sequence; or all ranks wait, in operations of
 *     different sequences, and none moves; or a rank refused a call in which others wait, and does
 *     not make it again; or a rank waits longer than its limit for ranks that have not joined.
 *   - The launcher's pipe ended. To a rank of another launcher, the rank that tells it is lost. */
#ifndef GYRE_TRANSPORT_WATCH_WATCH_H
#define GYRE_TRANSPORT_WATCH_WATCH_H

#include "base/status.h"
#include "device/device.h"
#include "transport/job/job.h"
#include "transport/join/joined.h"
#include "transport/members/members.h"
#include "transport/seal/seal.h"
#include "transport/watch/activity.h"

#include <stdatomic.h>

/* The state of the job. Every loop that waits reads it; the watch writes it once. */
struct gyre_health {
    _Atomic int status; /* 0: all is well; otherwise `failure` never changes again */
    /* The first failure of the job, with the same words on every rank. */
    struct gyre_trouble failure;
    uint32_t failed_rank; /* the rank that failed; UINT32_MAX: none in particular */
    uint64_t failed_at;   /* when this rank learned of it, CLOCK_REALTIME in nanoseconds */
    /* Rank 0 has left before this rank. Nobody tells of failures on other nodes any more. Only a
     * link to a rank there does. */
    _Atomic bool rootless;
};

/* The process's doorbell: a word on which sleepers wait by futex (shared), and an eventfd for
 * sleepers in epoll. */
struct gyre_bell {
    _Atomic uint32_t *word;
    int eventfd;
};

struct gyre_watch_options {
    const struct gyre_job *job;
    struct gyre_joined *joined; /* borrowed, with its unix_fd, pidfd and control, until stop() */
    const struct gyre_members *members; /* borrowed; for members that ask how this one stands */
    int dead_time_ms;                   /* 0: silence never counts as death */
    /* Of an operation: then all ranks fail, and missing ranks are named. */
    int timeout_ms;
    struct gyre_activity *activity; /* the process's first */
    struct gyre_health *health;
    struct gyre_bell bell;
    /* Of messages over `control`: to ranks of other machines, and to those of this one. */
    enum gyre_seal_mode security[2];
    int cuda_device;                    /* maps CUDA memory of peers; -1: such memory is refused */
    struct gyre_copy_queue *copy_queue; /* halted while peers' memory is unmapped; may be NULL */
    struct gyre_bell mender; /* is rung when there are news of a data connection (renew.h) */
};

struct gyre_watch;

int gyre_watch_start(const struct gyre_watch_options *options, struct gyre_watch **watch,
                     struct gyre_trouble *trouble);

/* Says in all later beats that this rank has nothing more to do and waits for its peers. Returns
 * the end of this wait: 1.5 times the dead time from now. */
uint64_t gyre_watch_part(struct gyre_watch *watch);

/* Says goodbye, waits until all ranks have said goodbye or one has failed, and ends the watch; the
 * process's last one ends the thread.
 * The wait ends at the time that part() returned, or else after the dead time. After a goodbye the
 * end of its sender is no failure. In a forked child the call only frees memory. NULL allowed. */
void gyre_watch_stop(struct gyre_watch *watch);

/* Gives the listener away. From now on nobody makes a connection to this watch, or is waited for to
 * make one. -1: there is none. */
int gyre_watch_take_listener(struct gyre_watch *watch);

/* Tells the job of a failure seen or decided here. The first failure known to the tree wins.
 * Without `echo`, health->status is set and the failure has been sent to the peers before this call
 * returns. With `echo` the failure may be the consequence of another one, as a lost connection is.
 * Such a failure is held back: up to 200 ms for the cause to arrive; a mismatch until the watches
 * have told what both ranks called, at most for little more than half of the dead time. Any thread;
 * does not block. */
void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text);

/* Add a communicator to those of which beats tell, and remove it. When ignore() returns the
 * activity is not read any more. Any thread; `watch` may be NULL. */
void gyre_watch_attend(struct gyre_watch *watch, struct gyre_activity *activity);
void gyre_watch_ignore(struct gyre_watch *watch, struct gyre_activity *activity);

/* Records that a call with this number was refused here and started nothing. Peers that wait in the
 * operation are told the reason if this rank makes no such call for half of the dead time. `why`
 * NULL: the call that was refused last has this number now. Any thread; `watch` may be NULL. */
void gyre_watch_refuse(struct gyre_watch *watch, struct gyre_activity *activity, uint64_t sequence,
                       const char *why);

/* Ids of regions that every process shares while it joins. A job of which one rank cannot map such
 * a region does not start. */
#define GYRE_REGION_BELL   1u
#define GYRE_REGION_QUEUES 2u
#define GYRE_REGION_WAKER  3u
#define GYRE_REGION_TRIAL  4u
#define GYRE_REGION_RECORD 5u
#define GYRE_REGION_TRIALS 6u  /* no region: peers say that they have tried */
#define GYRE_REGION_FIRST  16u /* the lowest id of any other region */

/* Offers a region to the peers of this node under `id` (unique in this process) and waits until
 * each peer has mapped the region or said that it cannot. Each peer maps a device's region by its
 * own device of that kind. 0: all peers have the region. GYRE_UNSUPPORTED: some peer cannot map it;
 * then no peer keeps it, except where the id is below GYRE_REGION_FIRST. Any thread. */
int gyre_watch_share(struct gyre_watch *watch, uint32_t id, const struct gyre_region *region,
                     enum gyre_share share, struct gyre_trouble *trouble);

/* Whether some peer copies a device's region that it has agreed to but cannot map. Such a peer is a
 * rank of this process, and no kernel of its device may be given the region. Any thread. */
bool gyre_watch_copied(struct gyre_watch *watch, uint32_t id);

/* Has all ranks of this node that have a device try whether peers copy rightly from and to its
 * memory (transport/memory/proof.h), each in a thread of its watch, whatever the programs compute.
 * Waits until all have. 0: this rank's memory is copied rightly. GYRE_CORRUPT: some peer copied
 * wrong bytes, which the log tells. GYRE_UNSUPPORTED: some peer could not try. GYRE_TIMED_OUT: a
 * device did not get to it. Any thread. */
int gyre_watch_try(struct gyre_watch *watch, struct gyre_trouble *trouble);

/* Has the peers unmap a region. Waits for CUDA memory only, as long as share(): a classic IPC
 * handle must be closed before its memory is freed, while pages of host memory live as long as any
 * process maps them. Any thread. */
void gyre_watch_unshare(struct gyre_watch *watch, uint32_t id);

/* Unmaps all CUDA memory of peers and accepts no more. Called before a goodbye: peers do not ask
 * its sender to unmap, and free their memory. Any thread. */
void gyre_watch_let_go(struct gyre_watch *watch);

/* Returns the eventfd that wakes `peer` when it sleeps on descriptors, -1: none. The peer has
 * passed the eventfd as the `fd` of a region of length 0. The watch keeps it. Any thread. */
int gyre_watch_peer_bell(struct gyre_watch *watch, uint32_t peer);

/* Returns this process's view of a region that `peer` shares, of that kind and at least `length`
 * bytes long. NULL: there is none (yet). The view stays mapped until the peer unshares the region
 * or the watch stops. Lock-free; any thread. */
void *gyre_watch_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length);

/* Takes a view of host memory out of the watch's hands: the caller unimports it. False: there is
 * none. Any thread. */
bool gyre_watch_take_view(struct gyre_watch *watch, uint32_t peer, uint32_t id,
                          struct gyre_region *region);

/* All views of this process, for callers that look regions up often. They live as long as the
 * watch. */
const struct gyre_views *gyre_watch_views(const struct gyre_watch *watch);

/* Whether the peer's process is known to have ended (pidfd), so that it cannot write any more. Any
 * thread. */
bool gyre_watch_peer_ended(struct gyre_watch *watch, uint32_t peer);

/* When this rank learned of that, CLOCK_REALTIME in nanoseconds. Any thread. */
uint64_t gyre_watch_peer_ended_at(struct gyre_watch *watch, uint32_t peer);

#endif
