/* The domain: one rank's transport. A domain joins the job, and owns the links
 * (transport/link/links.h), the watch, the shared regions, the doorbell, and the ownership of
 * progress.
 *
 * A process has one domain, or one for each of its ranks, and one for each further group that it is
 * in. "Owner" in a comment is the thread that holds the domain (gyre_domain_enter); only the owner
 * makes a call of the owner. */
#ifndef GYRE_TRANSPORT_DOMAIN_DOMAIN_H
#define GYRE_TRANSPORT_DOMAIN_DOMAIN_H

#include "base/status.h"
#include "device/device.h"
#include "transport/join/company.h"
#include "transport/watch/watch.h"

struct gyre_domain;
struct gyre_links;

struct gyre_domain_options {
    const struct gyre_options *user; /* of gyre_init(), may be NULL */
    /* Of one of several ranks in this process; NULL: the job is discovered. */
    const struct gyre_job *job;
    const int *device; /* the CUDA device, -1: none; NULL: the domain chooses one */

    bool newcomer; /* this process asks a job that runs, and `job` is NULL */

    /* Of an epoch that follows another: the domain of that one, whose settings and members it
     * takes, and this rank's company, borrowed until meet() returns. NULL: a first epoch. */
    const struct gyre_domain *after;
    struct gyre_company *company;

    /* The domain whose ranks, all of which have come to meet, make this group of their own; its
     * settings are taken. NULL: none. */
    const struct gyre_domain *beside;
};

/* Discovers the job and settles the device, without peers. On failure nothing is held, and *trouble
 * tells why. A process may have one domain, or those of several ranks of one job. */
int gyre_domain_prepare(const struct gyre_domain_options *options, struct gyre_domain **domain,
                        struct gyre_trouble *trouble);

/* Joins the job: meets the peers, starts the watch and attaches every link. Blocks at most for the
 * join timeout. `configuration` is settings of the layers above, as text, alike on all ranks. Close
 * the domain where this fails, too. */
int gyre_domain_meet(struct gyre_domain *domain, const char *configuration,
                     struct gyre_trouble *trouble);

/* Waits until the ranks of a job that runs take this process in (transport/members/newcomer.h);
 * then meet() joins their epoch. `configuration` as with meet(). */
int gyre_domain_ask(struct gyre_domain *domain, const char *configuration,
                    struct gyre_trouble *trouble);

/* Writes this rank's records, and those of the rank that failed where they can be read, into the
 * folder of GYRE_DUMP. Does nothing where that is not set. */
void gyre_domain_dump(struct gyre_domain *domain);

/* The job, discovered or given. */
const struct gyre_job *gyre_domain_job(const struct gyre_domain *domain);

/* Tells, before meet(), where rank 0 of a given job is. `fd` is rank 0's listener there, borrowed
 * until meet() returns. */
void gyre_domain_set_root(struct gyre_domain *domain, const char *host, uint16_t port, int fd);

/* Makes a socket that listens, in the allowed ports, where the peers of this domain reach its rank
 * 0, which calls this; *host and *port say where. Negative: none, and *trouble tells why. */
int gyre_domain_listen(const struct gyre_domain *domain, char host[64], uint16_t *port,
                       struct gyre_trouble *trouble);

/* -- the next epoch ---------------------------------------------------------------------------- */

/* Has this rank's members agree on who goes on (transport/members/gather.h), and fills *company and
 * *job for a domain of the next epoch. A rank that leaves gets no company: company->n is 0. The
 * domain's listener is not the watch's any more. Its job has failed, or all ranks call this. */
int gyre_domain_gather(struct gyre_domain *domain, const char *made_by, bool leave,
                       struct gyre_company *company, struct gyre_job *job,
                       struct gyre_trouble *trouble);

/* Around a gather() in a thread of its own, by the thread that has made and has awaited that one.
 * Between them losses are those that the watch knows. Behind them a further gathering has its whole
 * time again. */
void gyre_domain_begin_gathering(struct gyre_domain *domain);
void gyre_domain_end_gathering(struct gyre_domain *domain);

/* Has the watch of this domain listen no more: its members gather by another domain of theirs. */
void gyre_domain_leave_listener(struct gyre_domain *domain);

/* -- newcomers; calls of rank 0 ---------------------------------------------------------------- */

/* Has newcomers come to the place that options and environment name, from the next open_room() on.
 * Every rank. */
int gyre_domain_open_at(struct gyre_domain *domain, const struct gyre_options *options,
                        struct gyre_trouble *trouble);

/* Opens the place where newcomers wait, unless it is open. `configuration` as with the meet() that
 * joins them. */
int gyre_domain_open_room(struct gyre_domain *domain, const char *configuration,
                          struct gyre_trouble *trouble);

/* How many wait there. */
uint32_t gyre_domain_waiting(struct gyre_domain *domain);

/* Whether this process came as a newcomer, in whatever epoch. */
bool gyre_domain_is_newcomer(const struct gyre_domain *domain);

/* Whether the launcher of this process wants it to leave the job. */
bool gyre_domain_is_to_leave(struct gyre_domain *domain);

/* Has `most` of those that wait come along in the next gather(), and returns how many do. */
uint32_t gyre_domain_invite(struct gyre_domain *domain, uint32_t most);

/* Hangs up on those that were invited and did not come along: they ask again. */
void gyre_domain_disinvite(struct gyre_domain *domain);

/* Hands this domain's listener and the memory that the program holds on to the domain of the next
 * epoch, which has met. The memory is shared with that domain's peers; where it cannot be it is
 * handed on all the same, and operations on it are staged. */
void gyre_domain_bequeath(struct gyre_domain *domain, struct gyre_domain *next);

/* A rank of this domain that is gone. */
enum gyre_domain_fate {
    GYRE_FATE_LIVES,
    GYRE_FATE_ENDED,
    GYRE_FATE_SILENT,
    GYRE_FATE_LEFT,
    GYRE_FATE_LOST /* not known yet which of these */
};
struct gyre_domain_loss {
    enum gyre_domain_fate fate;
    uint64_t since_ns; /* CLOCK_REALTIME, when this rank learned of it; 0: it lives */
};

/* Whether a rank of this domain is one of the view that the last gather() has agreed on. */
bool gyre_domain_stands_next(const struct gyre_domain *domain, uint32_t rank);

/* How a rank is, as far as this rank knows: after gather(), what all that go on have agreed on. */
struct gyre_domain_loss gyre_domain_loss_of(const struct gyre_domain *domain, uint32_t rank);

/* Flushes the links, says goodbye, and frees everything. Blocks at most 1.5 times the dead time.
 * Returns the job's failure, which may be the loss of a rank that has not said goodbye. Both may be
 * NULL. */
int gyre_domain_close(struct gyre_domain *domain, struct gyre_trouble *trouble);

const struct gyre_joined *gyre_domain_joined(const struct gyre_domain *domain);
struct gyre_links *gyre_domain_links(struct gyre_domain *domain);
struct gyre_health *gyre_domain_health(struct gyre_domain *domain);
struct gyre_watch *gyre_domain_watch(struct gyre_domain *domain); /* NULL in a world of 1 */
struct gyre_activity *gyre_domain_activity(struct gyre_domain *domain);
bool gyre_domain_forked(const struct gyre_domain *domain); /* this process is a fork's child */
bool gyre_domain_oversubscribed(const struct gyre_domain *domain); /* ranks outnumber cores here */
bool gyre_domain_mapped(const struct gyre_domain *domain,
                        uint32_t peer); /* same node: regions can be mapped */
/* Whether ranks of this node map each other's regions. In a large node they do not. */
bool gyre_domain_shares(const struct gyre_domain *domain);
bool gyre_domain_peer_ended(struct gyre_domain *domain, uint32_t peer);

/* Makes the queue by which a device copies messages, which the first such message would make: that
 * may wait for all of the device's work. has_copy_queue: there is nothing to make. */
void gyre_domain_open_copy_queue(struct gyre_domain *domain);
bool gyre_domain_has_copy_queue(const struct gyre_domain *domain);

/* Whether a device copies messages. No peer rings when a copy has ended, so the caller looks again
 * soon. */
bool gyre_domain_is_copying(const struct gyre_domain *domain);

/* Ownership of progress. enter() waits (briefly: the helper gives way at once) until this thread
 * owns the domain; leave() gives it back. Any thread; not recursive. */
void gyre_domain_enter(struct gyre_domain *domain);
bool gyre_domain_try_enter(struct gyre_domain *domain);
void gyre_domain_leave(struct gyre_domain *domain);
bool gyre_domain_wanted(const struct gyre_domain *domain); /* a thread waits in enter() */

/* Waiting for the progress of another thread, the owner:
 *
 *     uint32_t seen = gyre_domain_stand_aside(domain);
 *     bool owner = false;
 *     while (!owner && !over)
 *         owner = gyre_domain_stand_by(domain, &seen, deadline);
 *     gyre_domain_stand_down(domain, owner);
 *
 * stand_aside() gives ownership up. stand_by() waits until tell_standing() or for some
 * milliseconds; true: this thread is the owner, because there was none, or the deadline has passed,
 * or the job has failed. stand_down() makes this thread the owner in any case. */
uint32_t gyre_domain_stand_aside(struct gyre_domain *domain);
bool gyre_domain_stand_by(struct gyre_domain *domain, uint32_t *seen, uint64_t deadline);
void gyre_domain_stand_down(struct gyre_domain *domain, bool owner);

/* Has the threads that stand by look, because an operation has ended. */
void gyre_domain_tell_standing(struct gyre_domain *domain);

/* Whether threads stand by, or want in. */
bool gyre_domain_attended(const struct gyre_domain *domain);

/* Wakes peers of this node that sleep. Called after every write for which peers may wait. Owner;
 * cheap if all are awake. */
void gyre_domain_ring(struct gyre_domain *domain);

/* How long this thread has waited. Zero before the first turn and after each progress. */
struct gyre_idle {
    uint32_t turns;
    uint64_t since; /* beginning of the wait, 0: not read yet */
    bool long_wait;
    bool aside; /* no thread is in a call: the program computes, so sleep soon */
};

/* Takes one turn of waiting without progress, which spins or yields. Returns 0; negative: the job's
 * failure (gyre_health); GYRE_IDLE_ASLEEP: peers have been told that this rank sleeps, so the
 * caller looks once more, and calls sleep(). Owner. */
#define GYRE_IDLE_ASLEEP 1
int gyre_domain_idle(struct gyre_domain *domain, struct gyre_idle *idle, uint64_t deadline);

/* Sleeps until a peer rings, or the links wake the thread, or for at most 50 ms or until the
 * deadline; not at all if the last look `found` something. Owner, after GYRE_IDLE_ASLEEP. */
void gyre_domain_sleep(struct gyre_domain *domain, bool found);

/* -- shared memory ----------------------------------------------------------------------------- */

/* The CUDA device of this process, on which its CUDA regions lie and peers' are mapped; -1: there
 * is no CUDA memory here. Chosen at open, before any context exists. */
int gyre_domain_cuda(const struct gyre_domain *domain);

/* Whether that rank has a CUDA device; the answer is the same on every rank. */
bool gyre_domain_has_cuda(const struct gyre_domain *domain, uint32_t rank);

/* Allocates memory of this process that every peer of the node maps; *base and *id on success. CUDA
 * memory lies on gyre_domain_cuda(). GYRE_UNSUPPORTED with *base set: peers could not map the
 * memory, *id is 0 and the memory can be used all the same; with *base NULL: there is no memory of
 * that kind. Any thread; blocks until peers answered. */
int gyre_domain_share(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                      enum gyre_share share, void **base, uint32_t *id,
                      struct gyre_trouble *trouble);
int gyre_domain_unshare(struct gyre_domain *domain,
                        void *base); /* GYRE_INVALID: not from share() or keep() */

/* Says that the memory is the library's own: it is shared with nobody else and goes to no other
 * epoch, so its descriptor is closed. Any thread. */
void gyre_domain_settle(struct gyre_domain *domain, const void *base);

/* Whether this rank's device and the node's others copy each other's bytes rightly, or there are no
 * others. The first call on a node whose ranks all have devices has all of them try, and blocks
 * until they have, whatever their programs compute. Later calls ask nobody: by then a stream may
 * wait for a peer. Any thread. */
bool gyre_domain_try_copies(struct gyre_domain *domain);

/* Lets go of memory from share() that work of a device may still use: it lives as long as the
 * process. Any thread. */
void gyre_domain_forsake(struct gyre_domain *domain, void *base);

/* Says that the memory is in the program's hands: it goes on to the next epoch. Any thread. */
void gyre_domain_give(struct gyre_domain *domain, const void *base);

/* Allocates host memory of this process that no peer maps, but into which links to other nodes can
 * write; NULL: no memory. Freed by unshare(). Any thread. */
void *gyre_domain_keep(struct gyre_domain *domain, uint64_t length);

/* Returns the id of the region of that kind that all peers of the node have mapped and that holds
 * [memory, memory + length), and the span's *offset in the region; 0: none. Empty spans are in no
 * region. Owner. */
uint32_t gyre_domain_locate(struct gyre_domain *domain, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, uint64_t *offset);

/* Lends memory of the program, of any kind, that stays in place until it is withdrawn: links to
 * other nodes may pin it. -ENOMEM. Any thread. */
int gyre_domain_lend(struct gyre_domain *domain, void *memory, uint64_t length);
void gyre_domain_withdraw(struct gyre_domain *domain, const void *memory, uint64_t length);

/* Replaces a region's memory by fresh memory of the same content at the same address, which no peer
 * can write. The region is no longer shared. Negative: memory of classic IPC handles, which cannot
 * be replaced. Owner; after a failure only. */
int gyre_domain_detach(struct gyre_domain *domain, uint32_t id);

/* Returns the local address of [offset, offset + length) in region `id` of `peer`; NULL: there is
 * no such view of that kind. Any thread, does not block. */
void *gyre_domain_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length);

/* Takes the view of a peer's host region out of the domain: the caller unimports the region, and
 * nobody else does, also where the peer withdraws it. False: there is none. Any thread. */
bool gyre_domain_take_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                           struct gyre_region *region);

#endif
