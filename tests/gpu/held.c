/* Streams that operations hold, under load: what a driver could make of the holds. Each experiment
 * is a process of its own with two ranks on one device, so that one that hangs is ended and leaves
 * the others alone. Rank 1 runs in a second thread and comes late to each operation.
 *
 *     rank 0   all_reduce_on ─▶ load behind the hold ─────────────▶ synchronise
 *     rank 1                      … until enough is posted ─▶ all_reduce_on
 *
 *     launches   5,000 kernels behind one hold: more than a driver's queue of launches takes
 *     copies     64 held streams, each with a copy to the host and one from it behind its hold
 *     memory     gyre_alloc_device() and gyre_free() while the stream is held
 *     latency    8 bytes on a stream, both ranks in turn: time for each, and of the host's calls
 *
 * Prints a line for each. Exits with 1 if one failed or hung. tests/gpu/run has it run on real
 * devices, and over the stand-in. */
#include "base/clock.h"
#include "collectives/kernels/reduce.h"

#include <cuda.h>
#include <gyre/gyre.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT    1024u
#define LAUNCHES 5000
#define EARLY    900 /* launches, fewer than the shortest queue of a driver takes */
#define STREAMS  64
#define ROUNDS   1000
#define SECONDS  20 /* that an experiment may take */

struct pair {
    struct gyre_comm *comm[2];
    int32_t *memory[2]; /* the device's */
    CUstream stream[STREAMS], other[STREAMS];
    int32_t *host;      /* page-locked */
    _Atomic int go;     /* rank 1 may call */
    _Atomic int posted; /* by rank 0, behind the hold */
    int calls, rank_1;  /* operations of rank 1; what its thread came to */
};

static int failed(const char *what, int status)
{
    if (status)
        printf("failed: %s: %d %s\n", what, status, gyre_error(NULL));
    return status != 0;
}

/* -- two ranks --------------------------------------------------------------------------------- */

static int use_device(int device)
{
    CUcontext context;
    return failed("a context", (int)cuDevicePrimaryCtxRetain(&context, device)) ||
           failed("its context", (int)cuCtxPushCurrent(context));
}

static int sit_down(struct pair *pair)
{
    static const int devices[] = {0, 0};
    if (failed("two ranks", gyre_init_in_process(pair->comm, 2, devices, NULL)) || use_device(0))
        return 1;
    for (int i = 0; i < 2; i++)
        if (failed("memory", gyre_alloc_device(pair->comm[i], COUNT * STREAMS * sizeof(int32_t),
                                               (void **)&pair->memory[i])))
            return 1;
    for (int s = 0; s < STREAMS; s++)
        if (failed("a stream", (int)cuStreamCreate(&pair->stream[s], CU_STREAM_NON_BLOCKING)) ||
            failed("a stream", (int)cuStreamCreate(&pair->other[s], CU_STREAM_NON_BLOCKING)))
            return 1;
    const size_t bytes = 2 * COUNT * STREAMS * sizeof(int32_t);
    pair->host = aligned_alloc(4096, bytes);
    return !pair->host ||
           failed("locked memory", (int)cuMemHostRegister(pair->host, bytes,
                                                          CU_MEMHOSTREGISTER_PORTABLE |
                                                              CU_MEMHOSTREGISTER_DEVICEMAP));
}

static int stand_up(struct pair *pair)
{
    for (int s = 0; s < STREAMS; s++)
        if (failed("rank 0's stream", (int)cuStreamSynchronize(pair->stream[s])) ||
            failed("rank 1's stream", (int)cuStreamSynchronize(pair->other[s])))
            return 1;
    int status = gyre_finalize(pair->comm[0]);
    return failed("the end", status) | failed("the end", gyre_finalize(pair->comm[1]));
}

static int32_t *part(struct pair *pair, int rank, int call)
{
    return pair->memory[rank] + (size_t)call * COUNT;
}

static int sum(struct pair *pair, int rank, int call)
{
    int32_t *memory = part(pair, rank, call);
    return gyre_all_reduce_on(pair->comm[rank], memory, memory, COUNT, GYRE_I32, GYRE_SUM,
                              rank ? pair->other[call] : pair->stream[call]);
}

static void *come_late(void *argument)
{
    struct pair *pair = argument;
    pair->rank_1 = use_device(0);
    while (!atomic_load(&pair->go))
        sched_yield();
    for (int call = 0; call < pair->calls && !pair->rank_1; call++)
        pair->rank_1 = failed("rank 1's call", sum(pair, 1, call));
    return NULL;
}

/* Rank 0's calls, then its load, while rank 1 waits for `go`. */
static int with_late_rank(struct pair *pair, int calls, int (*load)(struct pair *))
{
    pthread_t thread;
    int bad = sit_down(pair);
    pair->calls = calls;
    if (bad || pthread_create(&thread, NULL, come_late, pair))
        return 1;
    for (int call = 0; call < calls && !bad; call++)
        bad = failed("rank 0's call", sum(pair, 0, call));
    bad = bad || load(pair);
    atomic_store(&pair->go, 1);
    pthread_join(thread, NULL);
    return bad || pair->rank_1 || stand_up(pair);
}

/* -- experiments ------------------------------------------------------------------------------- */

/* memory[i] += memory[i]. */
static void launch(struct pair *pair)
{
    void *to = pair->memory[0];
    const void *from[] = {to, to};
    struct gyre_fold_task task = {
        .destination = &to, .destinations = 1, .source = from, .sources = 2, .count = COUNT};
    gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_I32][GYRE_SUM](&task, pair->stream[0]);
}

static int load_launches(struct pair *pair)
{
    for (int i = 0; i < LAUNCHES; i++) {
        launch(pair);
        atomic_store(&pair->posted, i + 1);
        if (i == EARLY)
            atomic_store(&pair->go, 1);
    }
    return 0;
}

static int load_copies(struct pair *pair)
{
    const size_t bytes = COUNT * sizeof(int32_t);
    int bad = 0;
    for (int s = 0; s < STREAMS && !bad; s++) {
        int32_t *there = part(pair, 0, s), *here = pair->host + 2 * (size_t)s * COUNT;
        bad = failed("a copy",
                     (int)cuMemcpyAsync((CUdeviceptr)(uintptr_t)here, (CUdeviceptr)(uintptr_t)there,
                                        bytes, pair->stream[s])) ||
              failed("a copy", (int)cuMemcpyAsync((CUdeviceptr)(uintptr_t)there,
                                                  (CUdeviceptr)(uintptr_t)(here + COUNT), bytes,
                                                  pair->stream[s]));
        atomic_store(&pair->posted, 2 * (s + 1));
    }
    return bad;
}

static int load_memory(struct pair *pair)
{
    int bad = 0;
    for (int i = 0; i < 8 && !bad; i++) {
        void *more;
        bad = failed("gyre_alloc_device", gyre_alloc_device(pair->comm[0], 4 << 20, &more)) ||
              failed("gyre_free", gyre_free(pair->comm[0], more));
        atomic_store(&pair->posted, i + 1);
    }
    return bad;
}

static int run_launches(struct pair *pair)
{
    return with_late_rank(pair, 1, load_launches);
}

static int run_copies(struct pair *pair)
{
    return with_late_rank(pair, STREAMS, load_copies);
}

static int run_memory(struct pair *pair)
{
    return with_late_rank(pair, 1, load_memory);
}

static int run_latency(struct pair *pair)
{
    uint64_t host = 0, begun = 0;
    int bad = sit_down(pair);
    for (int i = -ROUNDS / 10; i < ROUNDS && !bad; i++) {
        uint64_t since = gyre_now_ns();
        begun = i ? begun : since;
        for (int rank = 0; rank < 2 && !bad; rank++)
            bad = failed("a call", gyre_all_reduce_on(pair->comm[rank], pair->memory[rank],
                                                      pair->memory[rank], 2, GYRE_I32, GYRE_MAX,
                                                      rank ? pair->other[0] : pair->stream[0]));
        host += i < 0 ? 0 : gyre_now_ns() - since;
        bad = bad || failed("rank 0's stream", (int)cuStreamSynchronize(pair->stream[0])) ||
              failed("rank 1's stream", (int)cuStreamSynchronize(pair->other[0]));
        atomic_store(&pair->posted, i + 1);
    }
    if (!bad)
        printf("latency    8 B on a stream, 2 ranks: %.2f us each; the host's call %.2f us\n",
               (double)(gyre_now_ns() - begun) / 1e3 / ROUNDS, (double)host / 1e3 / 2 / ROUNDS);
    return bad || stand_up(pair);
}

/* -- each in a process of its own -------------------------------------------------------------- */

static struct pair *watched;

static void tell_hung(int signal_number)
{
    char line[128];
    int length =
        snprintf(line, sizeof line, "hung: %d posted, rank 1 %s\n", atomic_load(&watched->posted),
                 atomic_load(&watched->go) ? "was let go" : "was not let go yet");
    (void)!write(STDOUT_FILENO, line, (size_t)length);
    _exit(2);
}

static int run_apart(const char *name, int (*run)(struct pair *), int seconds)
{
    int status = 0;
    uint64_t since = gyre_now_ns();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        static struct pair pair;
        watched = &pair;
        signal(SIGALRM, tell_hung);
        alarm((unsigned)seconds);
        int bad = run(&pair);
        fflush(stdout);
        _exit(bad);
    }
    waitpid(child, &status, 0);
    bool good = WIFEXITED(status) && !WEXITSTATUS(status);
    printf("%-10s %s after %.1f ms\n", name, good ? "done" : "FAILED",
           (double)(gyre_now_ns() - since) / 1e6);
    return !good;
}

int main(int arguments, char **argument)
{
    const int seconds = arguments > 1 ? atoi(argument[1]) : SECONDS;
    int bad = run_apart("latency", run_latency, seconds);
    bad += run_apart("memory", run_memory, seconds);
    bad += run_apart("copies", run_copies, seconds);
    bad += run_apart("launches", run_launches, seconds);
    return bad != 0;
}
