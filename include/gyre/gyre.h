/* Gyre: collective communication without NCCL and without MPI.
 *
 * Five lines are a whole program:
 *
 *     struct gyre_comm *comm;
 *     if (gyre_init(&comm, NULL)) { fputs(gyre_error(NULL), stderr); return 1; }
 *     gyre_all_reduce(comm, data, data, count, GYRE_F32, GYRE_SUM);
 *     gyre_finalize(comm);
 *
 * Start it with `gyre run -n 4 ./prog`, `mpirun`, `srun` or `torchrun`: the rank is found in the
 * environment.
 *
 * Return values. Every call that can fail returns an int: GYRE_OK (0), a negative status (an errno
 * value negated or one of enum gyre_status), or, where the call says so, the one positive value
 * GYRE_AGAIN. After a failed collective the communicator is spent: every later call returns the
 * same status at once, gyre_error() tells the story, and gyre_finalize() releases it. No call ever
 * exits the process or prints to standard output.
 *
 * Refused calls. A call that returns GYRE_INVALID has started nothing: correct it and call again.
 * But where only one rank got it wrong the others wait for it, in the call or in gyre_finalize():
 * if no call takes its place for half of the dead time, all ranks end with GYRE_MISMATCH and a
 * story that says which rank refused what.
 *
 * Calls. The comment of a call says what it does and then, a line for each, what else it promises:
 *
 *     In place:  which overlap of input and output is allowed
 *     Blocks:    until when
 *     Ownership: of what it is given and of what it gives
 *     Returns:   where it is not just GYRE_OK or a failure
 *     Errors:    which failures to expect
 *     Threads:   "any thread" or "one thread", see below
 *     Otherwise: the call whose promises hold for the rest
 *
 * Threads. "any thread": may be called by several threads at once, on one communicator as on
 * several; calls on one begin in the order of their arrival. Operations are matched between ranks
 * by the order of their start, so that order must be the same on every rank: threads that call them
 * on one communicator have to agree on it, as by a lock around each start. Messages need no such
 * order where each thread has a peer or a tag of its own. "one thread": no other call on that
 * communicator may overlap. The call that ends a communicator is its last.
 *
 * All ranks that wait, each for another, are told so: GYRE_MISMATCH. But where several threads of a
 * rank call, one may compute what another rank waits for. There a wait in vain ends with the limit
 * of an operation, and is warned of after 10 s.
 *
 * Fork. A child made by fork() holds no communicator: every call on one returns GYRE_FORKED there.
 */
#ifndef GYRE_GYRE_H
#define GYRE_GYRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- version ----------------------------------------------------------------------------------- */

#define GYRE_VERSION_MAJOR 0
#define GYRE_VERSION_MINOR 1
#define GYRE_VERSION_PATCH 0

#if defined(__GNUC__)
#define GYRE_API __attribute__((visibility("default")))
#else
#define GYRE_API
#endif

/* The version of the library in use as major * 10000 + minor * 100 + patch.
 *   Threads:   any thread, before init too. */
GYRE_API int gyre_version(void);

/* -- status ------------------------------------------------------------------------------------ */

enum gyre_status {
    GYRE_OK = 0,
    GYRE_AGAIN = 1,            /* not finished yet; from test, timed wait or non-blocking calls */
    GYRE_PEER_LOST = -1001,    /* a rank died, stopped answering or cannot be reached any more */
    GYRE_MISMATCH = -1002,     /* ranks differ in operation, count, type, reduction or root */
    GYRE_TIMED_OUT = -1003,    /* a time limit passed; the error names who had not joined */
    GYRE_ABORTED = -1004,      /* gyre_abort() was called here or on another rank */
    GYRE_REFUSED = -1005,      /* joining refused: wrong key, job, rank, world, epoch or version */
    GYRE_INVALID = -1006,      /* unusable argument or environment value; the error names it */
    GYRE_CORRUPT = -1007,      /* bytes arrived that are not what the peer sent */
    GYRE_FORKED = -1008,       /* the communicator belongs to the parent process */
    GYRE_UNSUPPORTED = -1009,  /* not built in, or not possible here; the error says which */
    GYRE_LAUNCHER_GONE = -1010 /* the launcher of this job ended */
};

/* The name of a status, "GYRE_PEER_LOST" or the text of an errno.
 *   Ownership: static storage.
 *   Threads:   any thread. */
GYRE_API const char *gyre_status_name(int status);

/* -- types and reductions ---------------------------------------------------------------------- */

enum gyre_type {
    GYRE_F32 = 0,
    GYRE_F64 = 1,
    GYRE_F16 = 2,  /* IEEE binary16 */
    GYRE_BF16 = 3, /* upper half of a binary32 */
    GYRE_I32 = 4,
    GYRE_I64 = 5,
    GYRE_U8 = 6,
    GYRE_I8 = 7,
    GYRE_U32 = 8,
    GYRE_U64 = 9,
    GYRE_I16 = 10,
    GYRE_U16 = 11,
    GYRE_F8E4M3 = 12, /* OCP 8-bit float: no infinity, largest 448 */
    GYRE_F8E5M2 = 13  /* OCP 8-bit float: the upper half of a binary16 */
};

/* Integers wrap; an integer average is the wrapped sum divided by n, truncated toward zero; min and
 * max return NaN where an input is NaN; f16, bf16 and the 8-bit floats are accumulated in f32 and
 * rounded once, to nearest even. What then is too large becomes infinity, and in f8e4m3, which has
 * none, NaN. AND, OR and XOR work on bits and are for integers only.
 *
 * Values from GYRE_OP_FIRST_HANDLE on are handles of the caller's own reductions, which
 * gyre_op_scaled() and gyre_op_user() write. Every call that takes an enum gyre_op takes a handle,
 * of its own communicator. */
enum gyre_op {
    GYRE_SUM = 0,
    GYRE_AVG = 1,
    GYRE_MIN = 2,
    GYRE_MAX = 3,
    GYRE_PROD = 4,
    GYRE_AND = 5,
    GYRE_OR = 6,
    GYRE_XOR = 7,
    GYRE_OP_FIRST_HANDLE = 64,
    GYRE_OP_LAST_HANDLE = 0x7fffffff /* so that the type has room for all handles, in C++ too */
};

/* Bytes of one element, 0 for an unknown type.
 *   Threads:   any thread. */
GYRE_API size_t gyre_type_size(enum gyre_type type);

/* -- communicators ----------------------------------------------------------------------------- */

struct gyre_comm; /* a group of ranks; opaque */
struct gyre_work; /* an operation that was started; opaque, and no address */

/* A meeting place of the caller's own, by which the ranks of a communicator find each other:
 * whatever keeps short values under names, such as etcd, Redis or another library's store. Rank 0
 * sets one value, of less than 256 bytes; the others get it. Whoever can read or write the value is
 * trusted (docs/security.md), unless the ranks have a key by gyre_options or the environment.
 * Set `size`, `set` and `get`. gyre_init() calls these functions in its own thread, and nobody
 * calls them after it, but for gyre_grow() and then gyre_finalize(), which do so in theirs. */
struct gyre_store {
    size_t size;   /* sizeof(struct gyre_store) */
    void *context; /* what each function gets first */

    /* Keeps a value under `key`, in place of what was there. 0, or negative. */
    int (*set)(void *context, const char *key, const void *value, size_t bytes);

    /* Waits, at most timeout_ms (0: not at all), until there is a value under `key`, and writes it
     * to `value`. *bytes is the room there, and then the value's bytes. 0; GYRE_AGAIN: there is
     * nothing yet; or negative. */
    int (*get)(void *context, const char *key, void *value, size_t *bytes, int timeout_ms);

    /* Removes the value, when all ranks have met: then the name may be used again. 0, or negative.
     * NULL: the value stays, and each name is used once. */
    int (*remove)(void *context, const char *key);
};

/* What gyre_init() may be told instead of the environment. Zero the struct (or use
 * GYRE_OPTIONS_INIT), set `size`, and set only what you need: a field left 0 / NULL / -1 as noted
 * is taken from the environment. Strings are copied. */
struct gyre_options {
    size_t size;           /* sizeof(struct gyre_options): lets it grow without breaking you */
    int rank;              /* this process, 0 … world-1; -1: environment */
    int world;             /* number of ranks; 0: environment */
    int local_rank;        /* place among the launcher's ranks on this machine; -1: environment */
    const char *root;      /* "host:port" of rank 0, or "file:///folder", a store that all ranks
                              reach; NULL: GYRE_ROOT, MASTER_ADDR, Slurm, … */
    const char *job;       /* one name for all ranks, unlike other jobs'; NULL: environment */
    const void *key;       /* 32 secret bytes of the job; NULL: GYRE_KEY_FD, GYRE_KEY_FILE, … */
    const char *transport; /* "shm", "tcp", "verbs", "auto"; NULL: GYRE_TRANSPORT, else auto */
    int join_timeout_ms;   /* how long to wait for all ranks; 0: GYRE_JOIN_TIMEOUT, else 300,000 */
    int timeout_ms;        /* limit of one operation; 0: GYRE_TIMEOUT, else 1,800,000 */
    int dead_time_ms;      /* silence that counts as death; 0: GYRE_DEAD_TIME, else 10,000 */

    /* CUDA devices of this machine's ranks, "2,4,7": local rank i takes entry i. NULL:
     * GYRE_DEVICES, else the device that is current to the calling thread, else, where the program
     * has loaded CUDA, local rank modulo devices. Init makes no context. */
    const char *devices;

    /* Where ranks meet, in place of `root`; NULL: none. `job` is then the name of this group of
     * ranks in the store. */
    const struct gyre_store *store;
};

#define GYRE_OPTIONS_INIT                                                                          \
    {                                                                                              \
        sizeof(struct gyre_options), -1, 0, -1, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL        \
    }

/* Joins the job and writes the communicator of all its ranks to *comm. `options` may be NULL. A
 * process has one such communicator at a time, and beside it any number of those whose ranks meet
 * in a store (options.store, or a folder as options.root): each of these is a group of its own,
 * with its own ranks, and fails, is aborted and ends for itself.
 *
 * A process that `gyre run --elastic --restarts` has started in place of a lost rank joins the job
 * that runs, as by gyre_join(), unless the options name another job: gyre_newcomer() tells.
 *   Blocks:    until every rank has joined, at most the join timeout; missing ranks are named on
 *              standard error meanwhile.
 *   Ownership: on success the caller owns *comm and ends it by gyre_finalize(); on failure *comm is
 *              NULL, nothing is held, and gyre_error(NULL) tells why.
 *   Errors:    GYRE_INVALID, GYRE_REFUSED, GYRE_TIMED_OUT, GYRE_PEER_LOST, GYRE_UNSUPPORTED,
 *              -errno.
 *   Threads:   one thread. */
GYRE_API int gyre_init(struct gyre_comm **comm, const struct gyre_options *options);

/* Joins the job with a process that has several ranks, such as one for each of its GPUs: writes
 * `count` communicators, 1 … 64, to comms[0 …]. Under a launcher each process calls this, with a
 * count of its own, and options.rank and options.world (or the environment) number processes: ranks
 * of a process follow each other and those of lower processes. Alone, the world is `count`.
 *
 * comms[i] uses CUDA device devices[i], which must be there; -1: none, host memory only; several
 * may name one device. `devices` NULL: as with gyre_init(), by the place of the rank on its
 * machine, except that the current device does not count: with a count of all that are visible,
 * each has one.
 *
 * Ranks of one process are ranks like others: each is used by a thread of its own, or one thread
 * uses several. What that thread starts (gyre_*_start(), gyre_*_on()) proceeds by itself, and
 * groups that it has opened on several of these ranks are run together, by the last
 * gyre_group_end(): so no rank waits for one that has not been called yet. Calls that wait for all
 * ranks by themselves, gyre_split() and blocking operations outside a group, need a thread each,
 * also beside gyre_group_end().
 *   Blocks:    as gyre_init(), for all processes.
 *   Ownership: the caller owns all of them and ends each by gyre_finalize(); on failure all are
 *              NULL, nothing is held, and gyre_error(NULL) tells why.
 *   Errors:    as gyre_init(); what is wrong on one process, such as a device that it has not,
 *              fails all with its story. A failure or gyre_abort() of one rank is all ranks'.
 *   Threads:   one thread. */
GYRE_API int gyre_init_in_process(struct gyre_comm **comms, int count, const int *devices,
                                  const struct gyre_options *options);

/* Makes communicators of the parts of `comm`: every rank of it calls this, those of equal color
 * become one, ranked by key and, where keys are equal, by their rank in `comm`. With a negative
 * color a rank takes part and gets none: *part is NULL. Parts are independent of `comm` and of each
 * other: all may be in use at once, also by several threads, and ranks of a part that share a node
 * use its memory. At most 4,095 live in a process. Whatever fails ends `comm` and all its parts
 * alike; gyre_split_apart() makes parts that outlive each other's failures.
 *   Blocks:    until every rank of `comm` has called it.
 *   Ownership: the caller ends *part by gyre_finalize(), in which all its ranks take part; or
 *              gyre_finalize() of the communicator from gyre_init() ends whatever is left.
 *   Errors:    GYRE_INVALID, -ENOMEM (no rank has got one), and as gyre_all_reduce().
 *   Threads:   one thread, and not while another splits or ends a communicator of the job. */
GYRE_API int gyre_split(struct gyre_comm *comm, int color, int key, struct gyre_comm **part);

/* As gyre_split(), but each part is a group of its own, as if its ranks had met in a store: it has
 * connections, shared memory and a key of its own, and fails, is aborted, shrinks and ends for
 * itself. A rank that dies ends the parts that it is in; gyre_failure() of each part tells of its
 * own ranks. A part lives on when `comm` has failed or is finalized. It costs what gyre_init()
 * costs: milliseconds, and descriptors for each peer, where gyre_split() costs none. Memory from
 * gyre_alloc() is shared with the ranks of the communicator that it was called with, so allocate
 * with the part what the part works on.
 *   Blocks:    until every rank of `comm` has called it and those of the part have joined; a rank
 *              that dies or stops meanwhile ends the wait, at most 5 s after the dead time.
 *   Ownership: the caller ends *part by gyre_finalize(), before or after `comm`; on failure *part
 *              is NULL, and nothing is held.
 *   Errors:    as gyre_init() and gyre_all_reduce(). What is wrong on one rank before it joins is
 *              every rank's error. A part that cannot join fails for itself; `comm` goes on.
 *              GYRE_INVALID for ranks of gyre_init_in_process().
 *   Threads:   one thread, and not while another splits or ends a communicator of the job. */
GYRE_API int gyre_split_apart(struct gyre_comm *comm, int color, int key, struct gyre_comm **part);

/* Waits for all started work of this rank and for its peers to need nothing more from it, says
 * goodbye and frees the communicator and all memory still held from gyre_alloc() and
 * gyre_alloc_device(); parts made by gyre_split() are freed with it. Of a part: every rank of it
 * calls this, and only the part is freed. Of several from gyre_init_in_process(): the call for the
 * last of them does all that for all of them, and the others return at once. NULL is allowed.
 *   Blocks:    until its own work is over, and then at most 1.5 times the dead time for peers.
 *   Returns:   GYRE_OK, or the first failure of the communicator; it is freed in either case. Ranks
 *              that part after different operations are told so here: GYRE_MISMATCH, and
 *              gyre_error(NULL) has the story. A rank that dies or stops before it has called this
 *              is GYRE_PEER_LOST here on all others. Whoever computes for longer is not waited for;
 *              if it refused a call that others made, they and it are told even so.
 *   Threads:   one thread. */
GYRE_API int gyre_finalize(struct gyre_comm *comm);

/* This process's place in the communicator. Of a part: its own ranks and nodes.
 *   Blocks:    never.
 *   Returns:   -1 for NULL.
 *   Threads:   any thread. */
GYRE_API int gyre_rank(const struct gyre_comm *comm);
GYRE_API int gyre_size(const struct gyre_comm *comm);
GYRE_API int gyre_local_rank(const struct gyre_comm *comm); /* place among the ranks of this node */
GYRE_API int gyre_local_size(const struct gyre_comm *comm); /* ranks on this node */
GYRE_API int gyre_node(const struct gyre_comm *comm);       /* this node's number, by lowest rank */
GYRE_API int gyre_nodes(const struct gyre_comm *comm);
GYRE_API int gyre_device(const struct gyre_comm *comm); /* the CUDA device in use; -1: none */

/* Writes to `text` how messages reach a rank, as driver/what serves it: "shm/ring",
 * "cuda_ipc/exported" (a rank with a device, to one of its node), "tcp/io_uring", "tcp/epoll",
 * "verbs/mlx5_0"; "none" for this rank itself. For logs: what is chosen may change. At most `room`
 * bytes are written, the end with them.
 *   Blocks:    never.
 *   Errors:    GYRE_INVALID.
 *   Threads:   any thread. */
GYRE_API int gyre_link_name(const struct gyre_comm *comm, int rank, char *text, size_t room);

/* Ends every pending and later operation on every rank with GYRE_ABORTED and `reason` (may be NULL;
 * copied).
 *   Blocks:    never.
 *   Returns:   GYRE_OK, also when the communicator had failed already.
 *   Threads:   any thread. */
GYRE_API int gyre_abort(struct gyre_comm *comm, const char *reason);

/* -- going on after a loss --------------------------------------------------------------------- */

enum gyre_lost_reason {
    GYRE_LOST_UNKNOWN = 0, /* named by the failure; gyre_shrink() finds out more */
    GYRE_LOST_ENDED = 1,   /* its process has ended */
    GYRE_LOST_SILENT = 2,  /* it does not answer: stopped, or its host or network is down */
    GYRE_LOST_LEFT = 3     /* it left by gyre_shrink(comm, NULL) */
};

struct gyre_lost_rank {
    int rank; /* of the communicator */
    enum gyre_lost_reason reason;
    uint64_t since_ns; /* when this process learned of it, in nanoseconds since 1970 */
    int pid;
    char host[64];
};

/* Says which ranks are gone, as far as this rank knows: writes at most `room` of them to losses[],
 * lowest rank first, and how many there are to *count (may be NULL). After gyre_shrink() they are
 * those on which all that go on have agreed.
 *   Blocks:    never.
 *   Returns:   GYRE_OK while nothing has failed; the communicator's failure, with which every call
 *              on it returns; GYRE_INVALID.
 *   Threads:   any thread, but not beside gyre_shrink(). */
GYRE_API int gyre_failure(struct gyre_comm *comm, struct gyre_lost_rank *losses, int room,
                          int *count);

/* Makes a communicator of the ranks that are left, after a failure or because some want to leave.
 * Every living rank calls this, on the communicator of gyre_init(), gyre_join(), gyre_grow() or an
 * earlier gyre_shrink().
 * All agree who is gone, whatever else dies meanwhile; ranks keep their order and are numbered
 * anew. A rank that gives NULL for `smaller` leaves, and the others go on without it.
 *
 * Memory from gyre_alloc() goes over to the smaller communicator, at its address. Parts made by
 * gyre_split() do not: split again. `comm` is over: gyre_error(), gyre_failure() and
 * gyre_finalize() are all that is left to call on it, the last at any time.
 *
 * A rank that the others took for lost and that comes back is told so here, and cannot touch their
 * memory or connections. Where ranks are silent, more must call than are silent, or as many with
 * the lowest rank among them. Ranks that have ended or left do not count, but those that an earlier
 * gyre_shrink() left out as silent do: so a network that falls apart never leaves two jobs.
 *   Blocks:    until every living rank has called it, at most for the limit of one operation
 *              (options.timeout_ms); dead ranks are found out at once, silent ones within the dead
 *              time.
 *   Ownership: the caller ends *smaller by gyre_finalize(), and `comm` too.
 *   Errors:    GYRE_PEER_LOST (the others have gone on without this rank, or too many are silent),
 *              GYRE_TIMED_OUT (a rank that lives has not called), GYRE_MISMATCH (nothing had
 *              failed, and a rank called something else), GYRE_INVALID, -ENOMEM, -errno. Then
 *              *smaller is NULL.
 *   Threads:   one thread. */
GYRE_API int gyre_shrink(struct gyre_comm *comm, struct gyre_comm **smaller);

/* -- processes that come new ------------------------------------------------------------------- */

/* Joins a job that runs: asks its ranks to take this process in, and writes the communicator of
 * all, which their gyre_grow() has made, to *comm. This process is one of its last ranks. The job
 * is found where gyre_init() would have met it, by `options` or the environment, and wants the same
 * key; options.rank and options.world, or their variables, need not be there. What the ranks have
 * computed so far is theirs to hand over, as by gyre_broadcast().
 *   Blocks:    until the ranks call gyre_grow(), at most for the join timeout; where it asks again,
 *              for that time anew.
 *   Ownership: as gyre_init().
 *   Errors:    GYRE_TIMED_OUT (no such job was found, or it took nobody in), GYRE_REFUSED (another
 *              key, or a setting that must be equal on all ranks is not), GYRE_PEER_LOST (the job
 *              has ended meanwhile), and as gyre_init(). A rank that is lost on the way is no
 *              error: this process asks again.
 *   Threads:   one thread. */
GYRE_API int gyre_join(struct gyre_comm **comm, const struct gyre_options *options);

/* Has newcomers find `comm` at the place that `options` and the environment name: root, store, job
 * and key, the same that the newcomers give to gyre_join(). Every rank calls this before
 * gyre_grow(), because any of them may be rank 0 later; rank 0 opens the place in its next
 * gyre_grow(). Without this call it is the place where the job has met, which parts made by
 * gyre_split_apart() have not. Newcomers need the key that belongs to the place; `comm` keeps its
 * own. `comm` is as for gyre_grow(), and what gyre_grow() and gyre_shrink() make of it has the same
 * place.
 *   Blocks:    never on other ranks.
 *   Errors:    GYRE_INVALID, GYRE_REFUSED, -errno: the place stays what it was.
 *   Threads:   one thread. */
GYRE_API int gyre_open(struct gyre_comm *comm, const struct gyre_options *options);

/* Whether this process came to a job that ran, by gyre_join(), or by gyre_init() where `gyre run`
 * has started it in place of a lost rank (GYRE_JOINING). Then the others have to tell it how far
 * they are. So a program needs one way in: gyre_init(), and this question. It is answered alike for
 * the communicators that gyre_shrink() and gyre_grow() make, and for parts of gyre_split().
 *   Blocks:    never.
 *   Returns:   1 or 0.
 *   Threads:   any thread. */
GYRE_API int gyre_newcomer(const struct gyre_comm *comm);

/* Whether the launcher wants this process to leave the job: `gyre run`, where the host has gone
 * from its --hosts-file. A program looks at the end of a step, and tells the others, as by a sum
 * that travels anyway; then all call gyre_shrink(), with NULL the ranks that leave, which then end.
 * Without that the ranks of the host are ended some minutes later, and are lost.
 *   Blocks:    never.
 *   Returns:   1 or 0; once 1, always.
 *   Threads:   any thread. */
GYRE_API int gyre_leaving(const struct gyre_comm *comm);

/* How many processes wait in gyre_join() or are being taken in, on rank 0: a hint, which a program
 * may look at before all ranks call gyre_grow(). Elsewhere, and before the first gyre_grow(), 0.
 *   Blocks:    never.
 *   Threads:   one thread. */
GYRE_API int gyre_waiting(const struct gyre_comm *comm);

/* Takes processes in that wait in gyre_join(), at most `most` of them (rank 0's counts) and 64 at
 * once, in the order in which they asked. Every rank of `comm` calls this, at a point that all
 * reach; `comm` is the communicator of gyre_init(), gyre_join(), gyre_shrink() or gyre_grow().
 *
 * Where nobody waits this is a broadcast of half a KiB, and *larger is NULL: go on with `comm`.
 * Where somebody does, the first call begins to take it in, and *larger is NULL: newcomers join in
 * the background, beside `comm`. Call again, as after the next step: once all have joined *larger
 * is a communicator in which all ranks have their numbers and the newcomers those behind. Memory
 * from gyre_alloc() goes over to it, at its address; parts made by gyre_split() do not. `comm` is
 * over then: gyre_error(), gyre_failure() and gyre_finalize() are all that is left to call on it.
 *
 * The first call opens the place where the job has met again, on rank 0, so processes that come
 * earlier wait for it. If rank 0 leaves or is lost, the next rank 0 opens it. A folder or a store
 * tells where that is; an address (MASTER_ADDR) does not, so newcomers also look on the hosts of
 * GYRE_ROOT_HOSTS, at its port. A store's functions are called by this call, too, and by
 * gyre_finalize(). A job that began with one rank looks for its place in its first gyre_grow(), by
 * the options and variables that gyre_join() would look at. gyre_open() names another place. A job
 * takes in at most 1,024 processes in its life.
 *   Blocks:    until every rank has called it. It never waits for a newcomer to join. Newcomers
 *              that have joined wait for the next call, at most for the limit of an operation.
 *   Ownership: the caller ends *larger by gyre_finalize(), and `comm` too.
 *   Errors:    GYRE_PEER_LOST: a rank or a newcomer was lost; `comm` has failed with it, and
 *              gyre_shrink() goes on. GYRE_UNSUPPORTED and -errno: there is no place where
 *              newcomers wait; nothing has failed. GYRE_INVALID, and as gyre_broadcast(). Then
 *              *larger is NULL.
 *   Threads:   one thread. */
GYRE_API int gyre_grow(struct gyre_comm *comm, int most, struct gyre_comm **larger);

/* The full story of the communicator's first failure: what, which value, which rank and host, what
 * to do. "" if none. With NULL: why this thread's last gyre_init() or gyre_finalize() (or other
 * call without a communicator) failed.
 *   Ownership: the text stays valid until gyre_finalize(), or until this thread's next failing call
 *              for NULL.
 *   Threads:   any thread. */
GYRE_API const char *gyre_error(const struct gyre_comm *comm);

/* -- memory ------------------------------------------------------------------------------------ */

/* Memory that the ranks of this node can map, page-aligned and zeroed, so that collectives on it
 * copy nothing in between. Any other memory works too, through staging. Writes the address to
 * *memory on success. Not collective.
 *   Blocks:    until the node's peers have mapped it (a fraction of a millisecond; they need not
 *              call anything).
 *   Ownership: free it by gyre_free(), or leave it to gyre_finalize().
 *   Errors:    GYRE_INVALID (0 bytes), -ENOMEM with the limit named, the communicator's failure.
 *   Threads:   any thread. */
GYRE_API int gyre_alloc(struct gyre_comm *comm, size_t bytes, void **memory);

/* Memory of this rank's CUDA device (struct gyre_options says which), for the ranks of this node to
 * map on theirs. The host may not touch it. The first call has the devices of all ranks try copies
 * of each other's memory; and each maps what it is given, behind what it has queued. So let all
 * ranks allocate before any queues an operation on a stream that waits for others, with
 * gyre_barrier() between.
 *   Errors:    GYRE_UNSUPPORTED (there is no device; the error says why), GYRE_INVALID (0 bytes),
 *              -ENOMEM, GYRE_TIMED_OUT (another rank's device has work queued that does not end),
 *              the communicator's failure.
 *   Otherwise: as gyre_alloc(). */
GYRE_API int gyre_alloc_device(struct gyre_comm *comm, size_t bytes, void **memory);

/* Frees memory from gyre_alloc() or gyre_alloc_device(); NULL is allowed. No operation on it may be
 * pending. What peers have mapped on their devices they let go first.
 *   Threads:   any thread. */
GYRE_API int gyre_free(struct gyre_comm *comm, void *memory);

/* Tells the library that [memory, memory + bytes) stays allocated until gyre_unregister(), or the
 * communicator's end, so that links which pin memory can keep doing so. It never changes a result.
 * At most 256 spans of a communicator. A link over RDMA sends from and receives into such memory
 * without a copy, as it does with gyre_alloc()'s; the pages are locked when the first long message
 * lies in the span, and given up soon after gyre_unregister(). It may be a CUDA device's.
 *   Ownership: the caller still owns the memory; no operation on it may be pending at unregister.
 *   Errors:    GYRE_INVALID (NULL, 0 bytes, registered already or, for unregister, not registered).
 *   Threads:   any thread. */
GYRE_API int gyre_register(struct gyre_comm *comm, void *memory, size_t bytes);
GYRE_API int gyre_unregister(struct gyre_comm *comm, void *memory);

/* -- collectives ------------------------------------------------------------------------------- */

/* The operations, and the forms of each. A blocking call and a _start may be collected by a group
 * (gyre_group_start()); the last column says whether a group sends small calls of one kind as one.
 *
 *                           blocking  _start  _on  packed
 *     gyre_all_reduce           ×        ×     ×      ×
 *     gyre_broadcast            ×        ×     ×      ×
 *     gyre_reduce               ×        ×     ×      ×
 *     gyre_all_gather           ×        ×     ×      ×
 *     gyre_all_gather_v         ×        ×     –      –
 *     gyre_reduce_scatter       ×        ×     ×      ×
 *     gyre_all_to_all           ×        ×     ×      ×
 *     gyre_all_to_all_v         ×        ×     –      –
 *     gyre_gather               ×        ×     ×      ×
 *     gyre_scatter              ×        ×     ×      ×
 *     gyre_barrier              ×        ×     –      ×
 *     gyre_send, gyre_recv      ×        ×     –      –
 *     gyre_send_tag, _recv_tag  ×        ×     –      –
 *     gyre_recv_any             ×        ×     –      – */

/* output[i] = op over all ranks' input[i], bitwise the same on every rank. count may be 0 and may
 * exceed 2^32; any alignment.
 *   In place:  `input == output`; other overlap is GYRE_INVALID.
 *   Blocks:    until this rank's output is complete and its input may be written again.
 *   Ownership: the caller owns both buffers; they are borrowed until the call returns, or until the
 *              work is waited for.
 *   Errors:    GYRE_INVALID (nothing was started, the communicator is unharmed), GYRE_MISMATCH,
 *              GYRE_PEER_LOST, GYRE_TIMED_OUT, GYRE_ABORTED, GYRE_CORRUPT.
 *   Threads:   any thread. */
GYRE_API int gyre_all_reduce(struct gyre_comm *comm, const void *input, void *output,
                             uint64_t count, enum gyre_type type, enum gyre_op op);

/* output = the root's input, on every rank. `input` is read on the root only and may be NULL
 * elsewhere.
 *   In place:  `input == output`, on the root.
 *   Blocks:    a root may return before its leaves have joined.
 *   Otherwise: as gyre_all_reduce(). */
GYRE_API int gyre_broadcast(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                            enum gyre_type type, int root);

/* output = op over all ranks' input, on the root. `output` is not touched elsewhere and may be NULL
 * there.
 *   In place:  `input == output`, on the root.
 *   Blocks:    a rank that is not the root may return before the root has joined.
 *   Otherwise: as gyre_all_reduce(). */
GYRE_API int gyre_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                         enum gyre_type type, enum gyre_op op, int root);

/* -- collectives with a block per rank --------------------------------------------------------- */

/* `count` is the elements of ONE block; a buffer of n blocks holds gyre_size() × count elements,
 * rank 0's block first. A buffer that only the root has may be NULL elsewhere and is not touched.
 *   In place:  `input == output + rank × count`, or `output == input + rank × count`: the single
 *              block at its place among the n. Other overlap is GYRE_INVALID.
 *   Otherwise: as gyre_all_reduce(). */

/* output (n blocks) = every rank's input (one block). */
GYRE_API int gyre_all_gather(struct gyre_comm *comm, const void *input, void *output,
                             uint64_t count, enum gyre_type type);

/* An all-gather of blocks of unequal length: rank r gives counts[r] elements, which every rank
 * finds from element at[r] of its output on. `at` NULL: one block after the other. Blocks must not
 * overlap; elements between them are not touched. Both arrays have one entry per rank and hold the
 * same on every rank (else GYRE_MISMATCH).
 *   In place:  `input == output + at[rank]`.
 *   Ownership: both arrays may be reused as soon as the call (or _start) returns. */
GYRE_API int gyre_all_gather_v(struct gyre_comm *comm, const void *input, void *output,
                               const uint64_t *counts, const uint64_t *at, enum gyre_type type);

/* output (one block) = op over all ranks' block `rank` of input (n blocks). */
GYRE_API int gyre_reduce_scatter(struct gyre_comm *comm, const void *input, void *output,
                                 uint64_t count, enum gyre_type type, enum gyre_op op);

/* Block r of output = block `rank` of rank r's input; both hold n blocks.
 *   In place:  `input == output`, and costs a copy of the data. */
GYRE_API int gyre_all_to_all(struct gyre_comm *comm, const void *input, void *output,
                             uint64_t count, enum gyre_type type);

/* As gyre_all_to_all(), with blocks of unequal length: send_counts[i] elements go to rank i, from
 * element send_at[i] of `input` on; recv_counts[i] come from rank i to element recv_at[i] of
 * `output`. A table of places may be NULL: blocks are behind each other, in the order of ranks.
 * What rank i sends to rank j must be what rank j expects from it: else GYRE_MISMATCH tells both
 * numbers. Blocks of `output` must not overlap; elements between them are not touched.
 *   In place:  `input == output`, and costs a copy of the input.
 *   Ownership: tables are read before the call returns.
 *   Otherwise: as gyre_all_reduce(). */
GYRE_API int gyre_all_to_all_v(struct gyre_comm *comm, const void *input,
                               const uint64_t *send_counts, const uint64_t *send_at, void *output,
                               const uint64_t *recv_counts, const uint64_t *recv_at,
                               enum gyre_type type);

/* The root's output (n blocks) = every rank's input (one block). */
GYRE_API int gyre_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                         enum gyre_type type, int root);

/* output (one block) = block `rank` of the root's input (n blocks). */
GYRE_API int gyre_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, int root);

/* -- barrier and cost -------------------------------------------------------------------------- */

/* Returns when every rank has called it.
 *   Errors:    as gyre_all_reduce().
 *   Threads:   any thread. */
GYRE_API int gyre_barrier(struct gyre_comm *comm);

/* Writes the time that the cost model expects of an all-reduce (sum) of this size. The model takes
 * the built-in prices or those of `gyre tune`; nothing is measured. Every rank gets the same
 * number; one rank alone gets 0.
 *   Blocks:    never; computes for some microseconds.
 *   Errors:    GYRE_INVALID, -ENOMEM.
 *   Threads:   one thread. */
GYRE_API int gyre_all_reduce_cost(const struct gyre_comm *comm, uint64_t count, enum gyre_type type,
                                  uint64_t *nanoseconds);

/* -- collectives, started ---------------------------------------------------------------------- */

/* Start the same operations without waiting. A helper thread drives started work while nobody is
 * inside a Gyre call.
 *   Blocks:    no; but at most 64 operations are in flight, and a further start first waits until
 *              one of them has ended. Ended ones whose handles were not waited for do not count.
 *   Ownership: on success *work is a handle that the caller must give to gyre_work_wait() (or see
 *              finished by gyre_work_test()), which frees it; buffers stay borrowed until then. On
 *              failure *work is NULL. A communicator has at most 1,048,576 handles at a time, those
 *              of messages among them.
 *   Threads:   any thread. */
GYRE_API int gyre_all_reduce_start(struct gyre_comm *comm, const void *input, void *output,
                                   uint64_t count, enum gyre_type type, enum gyre_op op,
                                   struct gyre_work **work);
GYRE_API int gyre_broadcast_start(struct gyre_comm *comm, const void *input, void *output,
                                  uint64_t count, enum gyre_type type, int root,
                                  struct gyre_work **work);
GYRE_API int gyre_reduce_start(struct gyre_comm *comm, const void *input, void *output,
                               uint64_t count, enum gyre_type type, enum gyre_op op, int root,
                               struct gyre_work **work);
GYRE_API int gyre_all_gather_start(struct gyre_comm *comm, const void *input, void *output,
                                   uint64_t count, enum gyre_type type, struct gyre_work **work);
GYRE_API int gyre_all_gather_v_start(struct gyre_comm *comm, const void *input, void *output,
                                     const uint64_t *counts, const uint64_t *at,
                                     enum gyre_type type, struct gyre_work **work);
GYRE_API int gyre_reduce_scatter_start(struct gyre_comm *comm, const void *input, void *output,
                                       uint64_t count, enum gyre_type type, enum gyre_op op,
                                       struct gyre_work **work);
GYRE_API int gyre_all_to_all_start(struct gyre_comm *comm, const void *input, void *output,
                                   uint64_t count, enum gyre_type type, struct gyre_work **work);
GYRE_API int gyre_all_to_all_v_start(struct gyre_comm *comm, const void *input,
                                     const uint64_t *send_counts, const uint64_t *send_at,
                                     void *output, const uint64_t *recv_counts,
                                     const uint64_t *recv_at, enum gyre_type type,
                                     struct gyre_work **work);
GYRE_API int gyre_gather_start(struct gyre_comm *comm, const void *input, void *output,
                               uint64_t count, enum gyre_type type, int root,
                               struct gyre_work **work);
GYRE_API int gyre_scatter_start(struct gyre_comm *comm, const void *input, void *output,
                                uint64_t count, enum gyre_type type, int root,
                                struct gyre_work **work);
GYRE_API int gyre_barrier_start(struct gyre_comm *comm, struct gyre_work **work);

/* -- collectives, in a CUDA stream's order ----------------------------------------------------- */

/* The same operations in the order of a CUDA stream: each begins when what is on the stream now has
 * finished, and what is put on the stream later begins when it has. So nobody waits on the host,
 * and work before, between and behind them needs no synchronisation. Buffers may be device or host
 * memory. `stream` is a cudaStream_t of this process's device, and not NULL: the default stream is
 * cudaStreamLegacy or cudaStreamPerThread. Ranks may choose streams as they like; what must be
 * alike is the order of the calls.
 *   Blocks:    as the calls that start; for a communicator of one rank, until the stream is there.
 *   Ownership: there is no handle. Buffers are borrowed until the stream has come past it. The
 *              communicator may end before: gyre_finalize() waits for the operation, not for the
 *              stream, which goes on by itself.
 *   Graphs:    on a stream that is being captured into a CUDA graph the operation becomes a part of
 *              the graph, on all ranks. Each launch runs it, as often on every rank. This can be
 *              done with both buffers in device memory, on one node, behind a first call on a
 *              stream outside of a capture, and 64 times with a communicator. Memory that is not
 *              of gyre_alloc_device() needs a moment in which no stream waits, and takes as much
 *              of the device again, for as long as the process lives. Synchronise launches before
 *              gyre_finalize(); what is launched behind it does nothing.
 *   Errors:    of the call: GYRE_INVALID (no device, a stream of another device, a group is open),
 *              GYRE_UNSUPPORTED (the stream is being captured and the operation cannot be, or the
 *              device's streams cannot wait for the host). What fails later releases the stream,
 *              whose output is then worthless, and is the communicator's failure: later calls
 *              return it, gyre_error() tells it.
 *   Threads:   any thread. */
GYRE_API int gyre_all_reduce_on(struct gyre_comm *comm, const void *input, void *output,
                                uint64_t count, enum gyre_type type, enum gyre_op op, void *stream);
GYRE_API int gyre_broadcast_on(struct gyre_comm *comm, const void *input, void *output,
                               uint64_t count, enum gyre_type type, int root, void *stream);
GYRE_API int gyre_reduce_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                            enum gyre_type type, enum gyre_op op, int root, void *stream);
GYRE_API int gyre_all_gather_on(struct gyre_comm *comm, const void *input, void *output,
                                uint64_t count, enum gyre_type type, void *stream);
GYRE_API int gyre_reduce_scatter_on(struct gyre_comm *comm, const void *input, void *output,
                                    uint64_t count, enum gyre_type type, enum gyre_op op,
                                    void *stream);
GYRE_API int gyre_all_to_all_on(struct gyre_comm *comm, const void *input, void *output,
                                uint64_t count, enum gyre_type type, void *stream);
GYRE_API int gyre_gather_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                            enum gyre_type type, int root, void *stream);
GYRE_API int gyre_scatter_on(struct gyre_comm *comm, const void *input, void *output,
                             uint64_t count, enum gyre_type type, int root, void *stream);

/* -- the caller's own reductions --------------------------------------------------------------- */

/* A reduction that multiplies this rank's input by its own scalar (one element of `type`, copied
 * now) and sums the products; for operations of that type. Each product is rounded to `type` before
 * it is summed; of floats of 16 and 8 bits the sum is rounded again. *op is a handle for this
 * communicator, at most 64 at a time. Ranks make theirs in the same order: an operation for which
 * they differ in kind or in place among the handles is GYRE_MISMATCH.
 *   Errors:    GYRE_INVALID.
 *   Threads:   any thread. */
GYRE_API int gyre_op_scaled(struct gyre_comm *comm, const void *scalar, enum gyre_type type,
                            enum gyre_op *op);

/* A reduction by a function of the caller's: into[i] = into[i] op from[i], for `count` elements of
 * `type`. It is called for pieces of the data, rank by rank: ((rank 0 op rank 1) op rank 2) …, on
 * whichever thread drives the operation, and must not call Gyre. It need not commute. Every rank
 * must give a function that does the same: two that differ cannot be told apart, and each rank has
 * the result of its own.
 *   Ownership: `context` must live as long as the handle, the handle until its operations have
 *              ended.
 *   Otherwise: as gyre_op_scaled(). */
typedef void (*gyre_user_fold)(void *into, const void *from, uint64_t count, enum gyre_type type,
                               void *context);
GYRE_API int gyre_op_user(struct gyre_comm *comm, gyre_user_fold fold, void *context,
                          enum gyre_op *op);

/* Frees a handle of a reduction. No operation with it may be pending.
 *   Errors:    GYRE_INVALID (it is not from this communicator).
 *   Threads:   any thread. */
GYRE_API int gyre_op_free(struct gyre_comm *comm, enum gyre_op op);

/* -- conversion of types ----------------------------------------------------------------------- */

/* to[i] = from[i], rounded once to nearest even, for `count` elements: from GYRE_F32 to GYRE_BF16
 * or GYRE_F16, or back. For what is GYRE_F32 and shall travel in half the bytes: convert it, reduce
 * that (halves are accumulated in f32), and convert the result back. Both buffers are the host's,
 * or both are this rank's device's; any alignment. It is no operation: no other rank takes part,
 * and groups take no notice of it.
 *   In place:  no overlap is allowed.
 *   Blocks:    until `to` is complete.
 *   Ownership: the caller owns both buffers; they are borrowed until the call returns, or until the
 *              stream has come past it.
 *   Errors:    GYRE_INVALID (one buffer is the host's and one a device's, other types), the
 *              communicator's failure, the device's.
 *   Threads:   any thread. */
GYRE_API int gyre_convert(struct gyre_comm *comm, const void *from, enum gyre_type from_type,
                          void *to, enum gyre_type to_type, uint64_t count);

/* Converts by a kernel on a CUDA stream, in the order of the stream, as the calls *_on() do. Both
 * buffers are the device's. `stream` is not NULL; the stream may be under capture into a graph.
 *   Blocks:    no.
 *   Otherwise: as gyre_convert(). */
GYRE_API int gyre_convert_on(struct gyre_comm *comm, const void *from, enum gyre_type from_type,
                             void *to, enum gyre_type to_type, uint64_t count, void *stream);

/* -- messages from rank to rank ---------------------------------------------------------------- */

/* Sends to, or receives from, one rank of the communicator, itself included. The n-th send to a
 * rank meets that rank's n-th receive from here; both ends must give the same type and count. Sends
 * and receives are apart from the order of the other operations. Any number of started ones may be
 * pending. A receive from itself needs its send to have been called or started before.
 *   Blocks:    gyre_send() until `data` may be written again, which may be before the other end has
 *              called; gyre_recv() until `data` is complete.
 *   Errors:    as gyre_all_reduce(); GYRE_MISMATCH tells what each end has called.
 *   Threads:   any thread. */
GYRE_API int gyre_send(struct gyre_comm *comm, const void *data, uint64_t count,
                       enum gyre_type type, int peer);
GYRE_API int gyre_recv(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                       int peer);
GYRE_API int gyre_send_start(struct gyre_comm *comm, const void *data, uint64_t count,
                             enum gyre_type type, int peer, struct gyre_work **work);
GYRE_API int gyre_recv_start(struct gyre_comm *comm, void *data, uint64_t count,
                             enum gyre_type type, int peer, struct gyre_work **work);

/* -- messages with tags, and from any rank ----------------------------------------------------- */

/* Messages of a tag, 0 … 2,147,483,647, are a row of their own: the n-th send of a tag to a rank
 * meets that rank's n-th receive of that tag from here, whatever is sent and received under other
 * tags. gyre_send() and gyre_recv() are tag 0. Each tag that was used with a rank costs 16 bytes
 * until the communicator ends.
 *
 * Of messages to one rank that it does not receive yet, short ones (up to 16 KiB, or 64 KiB over
 * TCP) leave until four of the longest, or more of shorter ones, lie there; of the others 96 wait
 * at its door. Those behind them leave when one of these was received, whatever their tag. So a
 * program that keeps hundreds of long messages under way must not wait for the last of them first.
 *   Otherwise: as gyre_send(), gyre_recv(). */
GYRE_API int gyre_send_tag(struct gyre_comm *comm, const void *data, uint64_t count,
                           enum gyre_type type, int peer, int tag);
GYRE_API int gyre_recv_tag(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                           int peer, int tag);
GYRE_API int gyre_send_tag_start(struct gyre_comm *comm, const void *data, uint64_t count,
                                 enum gyre_type type, int peer, int tag, struct gyre_work **work);
GYRE_API int gyre_recv_tag_start(struct gyre_comm *comm, void *data, uint64_t count,
                                 enum gyre_type type, int peer, int tag, struct gyre_work **work);

#define GYRE_ANY_SOURCE (-1)

/* A message that gyre_recv_any() has received. */
struct gyre_received {
    int source; /* the rank that sent it */
    int tag;
    uint64_t count; /* of elements */
};

/* Receives the first message of a tag that comes from `source`, or from any rank, this one
 * included: GYRE_ANY_SOURCE. It may be shorter than `count`, the elements for which `data` has
 * room; *received, which may be NULL, says what has come. Receives get messages in the order of
 * their calls: one that is called later, from a certain rank or any, never has a message of that
 * tag that an earlier one could have had. Where several ranks have sent, each has its turn.
 *   Ownership: `received` is borrowed like `data`, and written when the call returns, or the work
 *              is waited for.
 *   Errors:    GYRE_MISMATCH, on all ranks, if the message is longer or of another type, and if all
 *              ranks that could send have left by gyre_finalize(); GYRE_PEER_LOST if they have
 *              ended after rank 0 has left, which would know how they ended.
 *   Otherwise: as gyre_recv(). */
GYRE_API int gyre_recv_any(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                           int source, int tag, struct gyre_received *received);
GYRE_API int gyre_recv_any_start(struct gyre_comm *comm, void *data, uint64_t count,
                                 enum gyre_type type, int source, int tag,
                                 struct gyre_received *received, struct gyre_work **work);

/* -- groups of calls --------------------------------------------------------------------------- */

/* Calls between these two are started together by the last gyre_group_end(); until then they return
 * at once, and handles of started ones cannot be tested. So all ranks may send first, and small
 * calls of one operation go as one, in hardly more than the time of one: blocks of up to 4 KiB
 * (where not all ranks share memory, 8), of one root, and where they reduce of one type and
 * reduction; barriers, too, but not gyre_all_gather_v() and gyre_all_to_all_v(). All others are
 * under way side by side. Any number of calls; groups may be nested; ranks must collect the same
 * operations in the same order. A group is of the thread that opened it: calls of other threads are
 * not collected, and start at once. gyre_finalize() of a communicator with an open group returns
 * GYRE_INVALID, and if calls were collected the whole job fails with it.
 *   Blocks:    the last gyre_group_end() waits for all calls that are blocking by themselves.
 *   Ownership: buffers stay borrowed until the last gyre_group_end(), those of handles until their
 *              wait; tables of counts and places are copied by the call.
 *   Returns:   from the last gyre_group_end(), the first failure of any.
 *   Errors:    GYRE_INVALID (end: this thread has no group open; start: another thread has),
 *              -ENOMEM, those of the calls.
 *   Threads:   any thread. */
GYRE_API int gyre_group_start(struct gyre_comm *comm);
GYRE_API int gyre_group_end(struct gyre_comm *comm);

/* -- handles of started work ------------------------------------------------------------------- */

/* Whether started work has finished.
 *   Blocks:    never.
 *   Returns:   GYRE_AGAIN while unfinished; otherwise the operation's status, and the handle is
 *              freed.
 *   Errors:    GYRE_INVALID: the handle is NULL or spent, for it was waited for already or its
 *              communicator has ended; or its group is open, or another thread waits for it.
 *              Nothing else is harmed.
 *   Threads:   any thread. */
GYRE_API int gyre_work_test(struct gyre_work *work);

/* Waits for started work.
 *   Blocks:    at most timeout_ms (-1: until the operation's own limit; 0: as gyre_work_test).
 *   Returns:   GYRE_AGAIN if the time passed first: the work goes on and the handle stays valid.
 *              Otherwise the status, and the handle is freed.
 *   Errors:    as gyre_work_test().
 *   Threads:   any thread. */
GYRE_API int gyre_work_wait(struct gyre_work *work, int timeout_ms);

/* Waits until any of `count` handles has finished, of whatever calls and communicators of one
 * gyre_init(). Entries that are NULL are passed over. *which is the place of the one that has
 * finished; its handle is freed, and its entry becomes NULL. So a loop that calls this until *which
 * is -1 sees each once.
 *   Blocks:    as gyre_work_wait().
 *   Returns:   the status of works[*which]; GYRE_AGAIN, with *which -1, if the time passed first:
 *              all handles stay valid; GYRE_OK, with *which -1, if all entries are NULL.
 *   Errors:    GYRE_INVALID, with *which -1: a handle is spent or stands there twice, another
 *              thread waits for it, or its group is open; -ENOMEM. Nothing was waited for.
 *   Threads:   any thread. */
GYRE_API int gyre_wait_any(struct gyre_work **works, int count, int *which, int timeout_ms);

/* Waits until all of `count` handles have finished. The handle of each that has is freed, and its
 * entry becomes NULL; entries that are NULL are passed over.
 *   Returns:   GYRE_OK; the first failure of any; or GYRE_AGAIN if the time passed first: the
 *              entries that are not NULL are valid, and may be waited for again.
 *   Otherwise: as gyre_wait_any(). */
GYRE_API int gyre_wait_all(struct gyre_work **works, int count, int timeout_ms);

/* The status of started work, which stays valid and has to be waited for all the same.
 *   Blocks:    never.
 *   Returns:   GYRE_AGAIN while it is unfinished or its group is open; otherwise its status.
 *   Errors:    GYRE_INVALID: the handle is NULL or spent.
 *   Threads:   any thread. */
GYRE_API int gyre_work_status(const struct gyre_work *work);

/* Why started work has failed, as gyre_error() tells it of a communicator; "" while it is
 * unfinished, and where it has not failed. Of a handle that is NULL or spent: that it is.
 *   Ownership: the text stays valid until the handle is waited for, and of a communicator's failure
 *              until gyre_finalize().
 *   Threads:   any thread. */
GYRE_API const char *gyre_work_error(const struct gyre_work *work);

#ifdef __cplusplus
}
#endif

#endif
