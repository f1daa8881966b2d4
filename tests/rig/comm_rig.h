/* Real ranks for tests: forked processes that join one job over loopback, run a body and report by
 * exit code. */
#ifndef GYRE_TESTS_RIG_COMM_RIG_H
#define GYRE_TESTS_RIG_COMM_RIG_H

#include <gyre/gyre.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RIG_RANKS_MAX 256

struct rig {
    int n;
    const char *transport;   /* "auto", "shm", "tcp" */
    const char *poller;      /* "epoll", "io_uring", NULL */
    const char *algorithm;   /* NULL: select */
    int per_node;            /* ranks per simulated node; 0: one node */
    int dealt;               /* instead: over so many simulated nodes in turn */
    int dead_ms, timeout_ms; /* 0: the defaults */
    void (*before)(const struct rig *rig, int rank); /* in the rank, before it joins; NULL */
    /* What a rank does; 0 is success. `shared` is memory that all ranks and the test see, zeroed.
     */
    int (*body)(struct gyre_comm *comm, struct rig *rig);
    int (*process)(struct rig *rig, int rank); /* instead: it joins by itself; NULL */
    void *argument;
    struct rig_shared *shared;
    pid_t pid[RIG_RANKS_MAX];
    int port_keeper; /* keeps rank 0's port for this job, from rig_start() to rig_wait() */
};

struct rig_shared {
    _Atomic int ready;                 /* counted by bodies that want the test to know */
    _Atomic int flag;                  /* set by the test or a body */
    _Atomic int status[RIG_RANKS_MAX]; /* what the failing call returned */
    _Atomic uint64_t took_ns[RIG_RANKS_MAX];
    _Atomic uintptr_t place[RIG_RANKS_MAX]; /* of memory that the test looks at */
    char error[RIG_RANKS_MAX][1024];        /* gyre_error() of each */
};

/* Starts the ranks. */
void rig_start(struct rig *rig);

/* Waits for all, at most `seconds` × GYRE_TEST_SLOW, and no less than 90, for a starved process may
 * stand still for half a minute. Then kills what is left. Returns how many did not exit with 0, not
 * counting ranks that were killed or stopped on purpose (bit set in `excused`, of the first 64). */
int rig_wait(struct rig *rig, int seconds, uint64_t excused);

int rig_run(struct rig *rig, int seconds); /* both */

/* Waits until each rank's place has come to that number. False: some rank has ended instead, or the
 * time, × GYRE_TEST_SLOW, is over; it is no less than 90 seconds. */
bool rig_reach(const struct rig *rig, uint64_t number, int seconds);

/* Notes a failed call: status, text and time in the shared page. That of gyre_init() is noted
 * anyway. */
void rig_note(struct rig *rig, struct gyre_comm *comm, int status, uint64_t since_ns);

void rig_until(_Atomic int *word, int value); /* waits for *word >= value */
uint64_t rig_now(void);
int rig_slow(void); /* GYRE_TEST_SLOW */

int rig_places(void); /* ranks that GYRE_DEVICES has an entry for */

/* Stops a rank and waits until it stands. */
void rig_stop(struct rig *rig, int rank);

/* Starts three ranks whose bodies give their place, are ready, and have rank 1 write words into
 * rank 0's memory. Rank 1 is stopped when the word at `half`, counted from the place, is not
 * `before` any more, and goes on when the two others have failed and are ready once more; `flag`
 * tells them that it has ended. False: it had written the word at `last`, too, and nobody
 * failed. */
bool rig_outlive_a_writer(struct rig *rig, size_t half, size_t last, uint32_t before);

/* In a body: 1, told on standard error with the communicator's story, unless it is fine. */
int rig_check(bool fine, struct gyre_comm *comm, const char *what);

/* Runs the body over shared memory, over tcp, and on nodes of two: how many ranks failed. */
int rig_run_everywhere(int n, int (*body)(struct gyre_comm *, struct rig *));

/* All ranks fail with the status and a story that has the word. */
void rig_expect_story(int n, const char *transport, int (*body)(struct gyre_comm *, struct rig *),
                      int status, const char *word);

/* All ranks fail with GYRE_MISMATCH and a story that has the word, or that has fingerprints only,
 * which are all that a link knows: on a busy machine the watches may be too late to say more. */
void rig_expect_mismatch(int n, const char *transport,
                         int (*body)(struct gyre_comm *, struct rig *), const char *word);

/* Starts three ranks, sends rank 1 a signal when all are ready: the others fail and name it. For
 * SIGKILL the dead time is longer than the test waits, so only the end of the process can tell. */
void rig_lose_rank_1(struct rig *rig, int signal_number);

#endif
