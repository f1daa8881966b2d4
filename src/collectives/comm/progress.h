/* The progress engine: the communicators of one domain, and their progress.
 *
 * The owner of the domain drives all communicators. Links are polled once a turn; a completion
 * finds its communicator by the upper 16 bits of its token (collectives/messages/token.h).
 *
 * All calls: owner (gyre_domain_enter). */
#ifndef GYRE_COLLECTIVES_COMM_PROGRESS_H
#define GYRE_COLLECTIVES_COMM_PROGRESS_H

#include "collectives/comm/communicator.h"
#include "collectives/staging/fold_queue.h"
#include "transport/link/links.h"

#include <stdatomic.h>

#define GYRE_COMM_ID_BITS 12u /* of matches and tokens; the watch puts the lowest rank above them */
#define GYRE_COMM_IDS     (1u << GYRE_COMM_ID_BITS)

struct gyre_process_ranks;

struct gyre_helper_thread;

/* What an engine has of the thread that drives started work while no thread is inside a call
 * (helper.c). The first start enlists it. */
struct gyre_helper {
    struct gyre_helper_thread *_Atomic thread; /* NULL: not enlisted */
    struct gyre_helper_thread *spare;          /* memory of a thread that this engine may start */
    struct gyre_progress_engine *next;         /* of the thread's */
    _Atomic uint32_t work;                     /* work was started and not seen to end */
    _Atomic bool leaving;                      /* the thread shall drive it no more */
};

struct gyre_progress_engine {
    struct gyre_domain *domain;
    struct gyre_process_ranks *ranks; /* of this process; NULL: only this one */
    struct gyre_links *links;         /* NULL in a world of 1 */
    _Atomic int failed;               /* status of every call on every communicator from now on */
    struct gyre_trouble trouble;      /* of a world of 1; otherwise the domain's health */
    bool fault_told;
    bool graphs;                  /* some have operations, whose launches nobody else watches */
    bool superseded;              /* ended by gyre_shrink(), which is no failure */
    struct gyre_growing *growing; /* the next epoch, which newcomers join; NULL: nobody does */
    bool helping;                 /* the helper drives: no thread of the application waits */
    uint64_t nap_ns;              /* of the next wait for a device */
    uint64_t moves;               /* turns in which something moved */
    uint64_t carried;             /* by the links, at the last look */
    uint32_t unasked;             /* turns since the last that polled the links */
    struct gyre_helper helper;
    struct gyre_fold_queue fold_queue;     /* of memory that the CPU cannot touch */
    uint32_t activities;                   /* number of activities of which the watch may hear */
    struct gyre_comm *comm[GYRE_COMM_IDS]; /* by id; 0 is the world */
    struct gyre_comm *busy[GYRE_COMM_IDS]; /* those with something in flight */
    uint32_t busy_count;
    /* Ids that must not be used again: messages may still be under way. */
    bool retired[GYRE_COMM_IDS];
    uint64_t reached[GYRE_COMM_IDS];     /* behind the last operation under that id on this rank */
    struct gyre_preference preference;   /* of the environment */
    struct gyre_engine_options settings; /* the settings that all engines share, and nothing else */
};

/* Sets up `progress`, zeroed memory; the domain outlives it. */
void gyre_progress_init(struct gyre_progress_engine *progress, struct gyre_domain *domain);

/* Makes the queue on the device before it is used, and locks what streams wait for. Where several
 * ranks of a process use a device, one may hold a stream there later, and the driver may have
 * whoever makes a stream wait for what that one holds. Where it fails, the first use of the device
 * tells why. */
void gyre_progress_open_device(struct gyre_progress_engine *progress);

/* Takes a communicator in; takes an idle one out, if it was in. */
void gyre_progress_add(struct gyre_progress_engine *progress, struct gyre_comm *comm);
void gyre_progress_remove(struct gyre_progress_engine *progress, struct gyre_comm *comm);

/* Drives this communicator until nothing of it is in flight. */
void gyre_progress_drive(struct gyre_comm *comm);

/* Makes the communicator's messages, comm->p2p, where it has none yet. -ENOMEM. */
int gyre_progress_add_messages(struct gyre_comm *comm, struct gyre_trouble *trouble);

/* Tells the watch how far the communicator's operations are over. */
static inline void gyre_progress_note_finished(struct gyre_comm *comm)
{
    const struct gyre_engine *engine = comm->engine;
    uint64_t finished = engine->orders ? engine->order[0]->sequence - 1 : engine->sequence;
    gyre_activity_finish(comm->activity, finished);
}

/* Moves everything that can move, on every communicator. True if anything did. */
bool gyre_progress_poll(struct gyre_progress_engine *progress);

/* Whether a failure may have to release launches of graphs, of which nothing is in flight here. */
static inline bool gyre_progress_guards(const struct gyre_progress_engine *progress)
{
    return progress->graphs && !atomic_load_explicit(&progress->failed, memory_order_relaxed);
}

/* Whether anything is in flight, on any communicator, or to be guarded. */
bool gyre_progress_pending(const struct gyre_progress_engine *progress);

/* The condition for which a thread waits: a word, which any thread may read, differs from `old`. Or
 * one of several, at the words of a chain. */
struct gyre_wait {
    const void *word; /* of 32 bits */
    uint32_t old;
    const struct gyre_wait *also; /* conditions of which one is enough, too; NULL: none */
    uint64_t deadline;
    struct gyre_idle idle;
};

/* Polls, or waits for a turn where nothing moved. Returns the job's failure, every communicator's
 * from then on; a poll moves 256 KiB at most, so a failure is seen soon. */
int gyre_progress_turn(struct gyre_progress_engine *progress, struct gyre_wait *wait);

/* Turns until the word is another: 0; GYRE_AGAIN at the deadline; or the job's failure. Gives way
 * to threads that want in, and owns the domain again when it returns. */
int gyre_progress_wait(struct gyre_progress_engine *progress, struct gyre_wait *wait);

/* Waits until a status is not GYRE_AGAIN, or the job has failed. Returns the status. */
int gyre_progress_await(struct gyre_progress_engine *progress, const _Atomic int *status);

/* Waits for a turn, for callers that look for themselves; returns as gyre_domain_idle(). */
int gyre_progress_idle_turn(struct gyre_progress_engine *progress, struct gyre_idle *idle,
                            uint64_t deadline);

/* The first failure, also one that no call has come upon yet; 0: none. */
int gyre_progress_failure(const struct gyre_progress_engine *progress);

/* The story of the first failure; without one, that of the thread's trouble. */
const char *gyre_progress_story(const struct gyre_progress_engine *progress);

/* Ends everything in flight with `status`, and every call from now on. */
void gyre_progress_fail(struct gyre_progress_engine *progress, int status);

/* Tells the job of a communicator's fault, if it has one; once. */
void gyre_progress_tell_fault(struct gyre_comm *comm);

#endif
