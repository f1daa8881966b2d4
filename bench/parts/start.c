/* How long from starting processes to the first all-reduce, and how much memory does a rank hold?
 *
 *     build/bench/start [RANKS] [ROUNDS]        4 ranks, 9 rounds unless told otherwise
 *
 * Each round starts the ranks as fresh processes (fork and exec), joins, reduces 1 KiB, and ends.
 * Time runs from before the first fork until every rank has its result. Memory is RssAnon +
 * RssShmem of the fullest rank after all-reduces of 8 B to 4 MiB in gyre_alloc() memory, less the
 * rank's own two buffers and the peers' buffers that it has mapped and touched.
 *
 * The floor is the same without gyre: processes that start and end at once. */
#include "base/clock.h"
#include "base/port.h"

#include <gyre/gyre.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUFFER     (4u << 20)
#define RANKS_MAX  64
#define ROUNDS_MAX 99

struct start_rank { /* what a rank tells the starter, through a pipe */
    int rank;
    int64_t done_ns, memory;
};

static int64_t status_bytes(const char *name)
{
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), "%lld", &kib);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* -- a rank ------------------------------------------------------------------------------------ */

static int fail(const char *what)
{
    fprintf(stderr, "start: %s: %s\n", what, gyre_error(NULL));
    return 3;
}

/* All sizes once; every page of both buffers is touched by its owner and by its peers. */
static int fill_up(struct gyre_comm *comm)
{
    void *input, *output;
    if (gyre_alloc(comm, BUFFER, &input) || gyre_alloc(comm, BUFFER, &output))
        return fail("gyre_alloc");
    memset(input, 1, BUFFER);
    memset(output, 1, BUFFER);
    for (uint64_t bytes = 8; bytes <= BUFFER; bytes *= 8)
        if (gyre_all_reduce(comm, input, output, bytes, GYRE_U8, GYRE_MAX))
            return fail("gyre_all_reduce");
    return gyre_all_reduce(comm, input, output, BUFFER, GYRE_U8, GYRE_MAX) ? fail("all-reduce") : 0;
}

static int be_rank(int tell, int measure)
{
    static float data[256];
    struct gyre_comm *comm;
    struct start_rank seat = {0};
    if (gyre_init(&comm, NULL))
        return fail("gyre_init");
    if (gyre_all_reduce(comm, data, data, 256, GYRE_F32, GYRE_SUM))
        return fail("gyre_all_reduce");
    seat.rank = gyre_rank(comm);
    seat.done_ns = (int64_t)gyre_now_ns();
    if (measure && fill_up(comm))
        return 3;
    /* Of 2 n buffers a rank touches its own whole and 1/n of each of the others. */
    int64_t n = gyre_size(comm), buffers = 2 * (int64_t)BUFFER + 2 * (n - 1) * (BUFFER / n);
    if (measure)
        seat.memory = status_bytes("RssAnon:") + status_bytes("RssShmem:") - buffers;
    if (write(tell, &seat, sizeof seat) != sizeof seat)
        return 3;
    return gyre_finalize(comm) ? 3 : 0;
}

/* -- the starter ------------------------------------------------------------------------------- */

static void put(const char *name, long value)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

/* A port that is kept for this round's ranks until the next round. */
static uint16_t free_port(void)
{
    static int keeper = -1;
    uint16_t port;
    if (keeper >= 0)
        close(keeper);
    keeper = gyre_port_reserve(&port);
    if (keeper < 0)
        exit(1);
    return port;
}

static void prepare(int ranks, int round)
{
    char job[64];
    snprintf(job, sizeof job, "start-%ld-%d", (long)getpid(), round);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("GYRE_JOB", job, 1);
    setenv("GYRE_KEY", "6d6561737572656d656e7473206e65656420612073656372657420746f6f2121", 1);
    put("MASTER_PORT", free_port());
    put("WORLD_SIZE", ranks);
    put("LOCAL_WORLD_SIZE", ranks);
}

static void start_rank(const char *program, const char *word, int rank, int tell)
{
    char fd[16];
    if (fork())
        return;
    snprintf(fd, sizeof fd, "%d", tell);
    put("RANK", rank);
    put("LOCAL_RANK", rank);
    execl(program, program, word, fd, (char *)NULL);
    _exit(127);
}

/* Starts the ranks; returns when all have ended. The latest `done` after the start, in ms; -1 if a
 * rank failed. */
static double run(int ranks, const char *word, int64_t *fullest)
{
    struct start_rank seat;
    int pipes[2], status, bad = 0;
    if (pipe(pipes))
        return -1;
    int64_t start = (int64_t)gyre_now_ns(), last = start;
    for (int rank = 0; rank < ranks; rank++)
        start_rank("/proc/self/exe", word, rank, pipes[1]);
    close(pipes[1]);
    while (read(pipes[0], &seat, sizeof seat) == sizeof seat) {
        last = seat.done_ns > last ? seat.done_ns : last;
        *fullest = seat.memory > *fullest ? seat.memory : *fullest;
    }
    close(pipes[0]);
    while (wait(&status) > 0)
        bad |= status;
    return bad ? -1 : (double)(last - start) / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double joined[ROUNDS_MAX], bare[ROUNDS_MAX];
    int64_t fullest = 0, none = 0;
    if (argc == 3 && argv[1][0] == '-')
        return argv[1][1] == 'b' ? 0 : be_rank(atoi(argv[2]), argv[1][1] == 'm');
    int ranks = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 9;
    if (ranks < 1 || ranks > RANKS_MAX || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: start [ranks, 1 to %d] [rounds, 1 to %d]\n", RANKS_MAX, ROUNDS_MAX);
        return 2;
    }
    for (int round = 0; round < rounds; round++) {
        int64_t start = (int64_t)gyre_now_ns();
        prepare(ranks, round);
        joined[round] = run(ranks, "-r", &none);
        if (joined[round] < 0)
            return 1;
        start = (int64_t)gyre_now_ns();
        run(ranks, "-b", &none);
        bare[round] = (double)((int64_t)gyre_now_ns() - start) / 1e6;
    }
    prepare(ranks, rounds);
    if (run(ranks, "-m", &fullest) < 0)
        return 1;
    qsort(joined, (size_t)rounds, sizeof *joined, by_value);
    qsort(bare, (size_t)rounds, sizeof *bare, by_value);
    printf("# %d ranks, %d rounds\n", ranks, rounds);
    printf("start to first all-reduce done : median %6.1f ms, best %6.1f, worst %6.1f\n",
           joined[rounds / 2], joined[0], joined[rounds - 1]);
    printf("the same processes without gyre: median %6.1f ms\n", bare[rounds / 2]);
    printf("memory beyond buffers          : %.1f MiB, fullest rank\n", (double)fullest / 1048576);
    return 0;
}
