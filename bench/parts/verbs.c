/* The verbs driver beside verbs alone, on one machine: two processes, a device each.
 *
 *     one way       DEPTH messages (writes) under way                      MB/s
 *     both ways     the same from each end at once                         MB/s in each direction
 *     there and     one message at a time: the driver; bare writes that are waited for by their
 *     back          immediate; bare writes whose end is polled in memory   µs, half of a round
 *
 * Each size goes in rounds, the driver and verbs alone in turn, so that what else the machine does
 * meets both: medians, and the median of the rounds' own ratios. "asked" is how many requests the
 * driver makes for each that shall tell when it is done. */
#include "parts/verbs_bare.h"

#include "base/clock.h"
#include "transport/link/table.h"
#include "transport/link/verbs/peer.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES  (4u << 20)
#define LEAST_CALLS BARE_TELLS_EVERY /* of a rate */
#define ROUNDS_MOST 99
#define TAKE        64
#define TURNS_MOST  1000
#define DEPTH_MOST  (GYRE_PIPE_POSTS / 2)
#define PATIENCE_NS (1 * GYRE_MS)

enum figure { OURS, IMMEDIATE, POLLED, FIGURES };

struct verbs_bench {
    int rank, control; /* a socket to the other */
    uint32_t depth, rounds;
    uint64_t most;      /* bytes that one stream moves */
    const char *tables; /* letters: one way, both ways, there and back */
    struct gyre_wire *wire;
    struct gyre_pipe *pipe;
    struct bare *bare;
    uint8_t *memory; /* sent from; received into */
    uint64_t sequence[2];
    double sample[FIGURES][ROUNDS_MOST];
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench/verbs: %s failed\n", what);
    exit(3);
}

static void meet(const struct verbs_bench *bench)
{
    char word = 0;
    must(write(bench->control, &word, 1) == 1 && read(bench->control, &word, 1) == 1,
         "the other process");
}

/* -- the driver -------------------------------------------------------------------------------- */

static void open_driver(struct verbs_bench *bench, int fd)
{
    static struct gyre_memory_lookup lookup;
    struct gyre_trouble trouble = {0};
    struct gyre_wire_options options = {
        .rank = (uint32_t)bench->rank, .n = 2, .epoch = 1, .peers = 1, .lookup = &lookup};
    struct gyre_channel channel = {.peer = 1 - (uint32_t)bench->rank, .fd = {fd}, .fds = 1};
    bench->memory = mmap(NULL, 2 * (size_t)MOST_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(bench->memory != MAP_FAILED, "mmap");
    memset(bench->memory, 1, 2 * (size_t)MOST_BYTES);
    struct gyre_region region = {
        .base = bench->memory, .length = 2 * (uint64_t)MOST_BYTES, .fd = -1};
    must(!gyre_lookup_init(&lookup, 1) && gyre_lookup_add(&lookup, &region), "a table of memory");
    if (gyre_driver_verbs.open(&options, &bench->wire, &trouble) ||
        gyre_driver_verbs.attach(bench->wire, &channel, &bench->pipe, &trouble)) {
        fprintf(stderr, "bench/verbs: %s\n", trouble.text);
        exit(5);
    }
}

static void post(struct verbs_bench *bench, bool send, uint64_t bytes)
{
    struct gyre_match match = {.comm = 1, .sequence = bench->sequence[send]++};
    uint8_t *received = bench->memory + MOST_BYTES;
    int status = send ? gyre_driver_verbs.send(bench->pipe, &match, bench->memory, bytes, 1)
                      : gyre_driver_verbs.recv(bench->pipe, &match, received, bytes, 0);
    must(!status, "a post");
}

/* Adds what has completed to done[send]; returns whether anything had. */
static bool look(struct verbs_bench *bench, uint32_t done[2])
{
    struct gyre_completion completion[TAKE];
    struct gyre_trouble trouble = {0};
    int count = gyre_driver_verbs.poll(bench->wire, gyre_now_ns(), completion, TAKE);
    must(!gyre_driver_verbs.state(bench->pipe, &trouble), trouble.text);
    bench_turn(count > 0);
    for (int i = 0; i < count; i++)
        done[completion[i].token]++;
    return count > 0;
}

/* As in a call of the library, who has found nothing for so long sleeps: the receiving end of
 * perftest and of bare writes sleeps all the time, and devices made of software want the
 * processor. */
static void rest(struct verbs_bench *bench, uint64_t since)
{
    struct gyre_alarm alarm;
    if (gyre_now_ns() - since < PATIENCE_NS || gyre_driver_verbs.arm(bench->wire, &alarm))
        return;
    struct pollfd set = {alarm.fd, POLLIN, 0};
    poll(&set, 1, 50);
}

static void stream(struct verbs_bench *bench, bool sends, bool receives, uint64_t bytes,
                   uint32_t count)
{
    uint32_t posted[2] = {0, 0}, done[2] = {0, 0},
             wanted[2] = {receives ? count : 0, sends ? count : 0};
    uint64_t since = gyre_now_ns();
    while (done[0] < wanted[0] || done[1] < wanted[1]) {
        for (int send = 0; send < 2; send++)
            for (; posted[send] < wanted[send] && posted[send] - done[send] < bench->depth;
                 posted[send]++)
                post(bench, send, bytes);
        if (look(bench, done))
            since = gyre_now_ns();
        else
            rest(bench, since);
    }
}

static void ping_pong(struct verbs_bench *bench, uint64_t bytes, uint32_t count, uint64_t *turns)
{
    uint32_t done[2] = {0, 0};
    bool first = bench->rank == 0;
    for (uint32_t i = 0; i < count; i++) {
        post(bench, false, bytes);
        if (first)
            post(bench, true, bytes);
        while (done[0] <= i)
            look(bench, done);
        if (!first)
            post(bench, true, bytes);
        turns[i] = gyre_now_ns();
    }
    while (done[1] < count)
        look(bench, done);
}

/* -- samples ----------------------------------------------------------------------------------- */

/* Of the driver, of bare writes, and of perftest (compare_verbs) the same; bare_stream() wants
 * whole answers. */
static uint32_t calls(uint64_t total, uint64_t bytes)
{
    uint64_t count = total / bytes / BARE_TELLS_EVERY * BARE_TELLS_EVERY;
    return (uint32_t)(count > LEAST_CALLS ? count : LEAST_CALLS);
}

/* MB/s in each direction: until both ends have all. */
static double rate(struct verbs_bench *bench, bool both, bool bare, uint64_t bytes)
{
    uint32_t count = calls(bench->most, bytes);
    meet(bench);
    uint64_t start = gyre_now_ns();
    if (!bare)
        stream(bench, both || bench->rank == 0, both || bench->rank == 1, bytes, count);
    else if (both || bench->rank == 0)
        bare_stream(bench->bare, (uint32_t)bytes, bench->depth, count);
    meet(bench);
    return (double)bytes * count * 1e3 / (double)(gyre_now_ns() - start);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The median of single turns. */
static double lateness(struct verbs_bench *bench, enum figure figure, uint64_t bytes)
{
    static uint64_t turns[TURNS_MOST];
    static double each[TURNS_MOST];
    uint32_t count = bytes > 16384 ? TURNS_MOST / 10 : TURNS_MOST;
    if (count > bench->most / 512)
        count = (uint32_t)(bench->most / 512);
    meet(bench);
    if (figure == OURS)
        ping_pong(bench, bytes, count, turns);
    else
        bare_ping_pong(bench->bare, bench->rank == 0, figure == POLLED, (uint32_t)bytes, count,
                       turns);
    for (uint32_t i = 1; i < count; i++)
        each[i - 1] = (double)(turns[i] - turns[i - 1]) / 2e3;
    qsort(each, count - 1, sizeof *each, ascending);
    return each[count / 2];
}

static double median(const double *samples, uint32_t count)
{
    double sorted[ROUNDS_MOST];
    memcpy(sorted, samples, count * sizeof *samples);
    qsort(sorted, count, sizeof *sorted, ascending);
    return sorted[count / 2];
}

static double median_ratio(const struct verbs_bench *bench, enum figure to)
{
    double ratio[ROUNDS_MOST];
    for (uint32_t i = 0; i < bench->rounds; i++)
        ratio[i] = bench->sample[OURS][i] / bench->sample[to][i];
    return median(ratio, bench->rounds);
}

static double extreme(const struct verbs_bench *bench, enum figure figure, bool most)
{
    double best = bench->sample[figure][0];
    for (uint32_t i = 1; i < bench->rounds; i++)
        best = most ? fmax(best, bench->sample[figure][i]) : fmin(best, bench->sample[figure][i]);
    return best;
}

static double best_ratio(const struct verbs_bench *bench, enum figure to, bool most)
{
    return extreme(bench, OURS, most) / extreme(bench, to, most);
}

/* -- tables ------------------------------------------------------------------------------------ */

static struct gyre_verbs_queue *inside(const struct verbs_bench *bench)
{
    return ((struct gyre_verbs_pipe *)bench->pipe)->queue;
}

static void row_of_rates(struct verbs_bench *bench, bool both, uint64_t bytes)
{
    uint32_t sends = inside(bench)->sends, signals = inside(bench)->signals;
    for (uint32_t i = 0; i < bench->rounds; i++) {
        bench->sample[OURS][i] = rate(bench, both, false, bytes);
        bench->sample[IMMEDIATE][i] = rate(bench, both, true, bytes);
    }
    sends = inside(bench)->sends - sends;
    signals = inside(bench)->signals - signals;
    if (bench->rank == 0)
        printf("%12llu  %10.1f  %10.1f  %6.2f  %6.2f  %8.1f\n", (unsigned long long)bytes,
               median(bench->sample[IMMEDIATE], bench->rounds),
               median(bench->sample[OURS], bench->rounds), median_ratio(bench, IMMEDIATE),
               best_ratio(bench, IMMEDIATE, true), sends / fmax(signals, 1));
}

static void table_of_rates(struct verbs_bench *bench, bool both)
{
    if (bench->rank == 0)
        printf("\n%s, %u under way (MB/s%s)\n%12s  %10s  %10s  %6s  %6s  %8s\n",
               both ? "both ways" : "one way", bench->depth, both ? " in each direction" : "",
               "size (B)", "bare", "Gyre", "ratio", "best", "asked");
    for (uint64_t bytes = 65536; bytes <= MOST_BYTES; bytes *= 4)
        row_of_rates(bench, both, bytes);
}

static void row_of_times(struct verbs_bench *bench, uint64_t bytes)
{
    for (uint32_t i = 0; i < bench->rounds; i++)
        for (enum figure figure = OURS; figure < FIGURES; figure++)
            bench->sample[figure][i] = lateness(bench, figure, bytes);
    if (bench->rank == 0)
        printf("%12llu  %10.1f  %10.1f  %10.1f  %6.2f  %6.2f\n", (unsigned long long)bytes,
               median(bench->sample[POLLED], bench->rounds),
               median(bench->sample[IMMEDIATE], bench->rounds),
               median(bench->sample[OURS], bench->rounds), median_ratio(bench, POLLED),
               median_ratio(bench, IMMEDIATE));
}

static void table_of_times(struct verbs_bench *bench)
{
    static const uint64_t sizes[] = {8, 64, 4064, 4096, 16352, 16384, 65536, 262144};
    if (bench->rank == 0)
        printf("\nthere and back (us, half a round; ratios to each of the bare)\n"
               "%12s  %10s  %10s  %10s  %6s  %6s\n",
               "size (B)", "polled", "immediate", "Gyre", "/pol.", "/imm.");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        row_of_times(bench, sizes[i]);
}

/* -- two processes ----------------------------------------------------------------------------- */

static void connect_over_loopback(int fd[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(!bind(listener, (struct sockaddr *)&address, length) && !listen(listener, 1) &&
             !getsockname(listener, (struct sockaddr *)&address, &length) &&
             !connect(fd[0], (struct sockaddr *)&address, length),
         "a connection over loopback");
    fd[1] = accept(listener, NULL, NULL);
    must(fd[1] >= 0, "accept");
    close(listener);
}

static void run(struct verbs_bench *bench, const char *device, int fd)
{
    setenv("GYRE_RDMA_DEVICE", device, 1);
    open_driver(bench, fd);
    bench->bare = bare_open(bench->control, MOST_BYTES);
    if (strchr(bench->tables, 'o'))
        table_of_rates(bench, false);
    if (strchr(bench->tables, 'b'))
        table_of_rates(bench, true);
    if (strchr(bench->tables, 't'))
        table_of_times(bench);
    meet(bench);
    bare_close(bench->bare);
    gyre_driver_verbs.close(bench->wire);
}

int main(int argc, char **argv)
{
    struct verbs_bench bench = {.rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 9,
                                .depth = argc > 2 ? (uint32_t)atoi(argv[2]) : 64,
                                .most = argc > 3 ? strtoull(argv[3], NULL, 10) : 8u << 20,
                                .tables = argc > 4 ? argv[4] : "obt"};
    int fd[2], control[2];
    if (argc > 5 || bench.rounds < 1 || bench.rounds > ROUNDS_MOST ||
        bench.depth < BARE_TELLS_EVERY || bench.depth > DEPTH_MOST || bench.most < 65536) {
        fprintf(stderr,
                "usage: bench/verbs [ROUNDS [DEPTH [BYTES [TABLES]]]]\n"
                "ROUNDS: 1 to %u; DEPTH, messages under way: %u to %u; BYTES of a figure: 64 "
                "KiB at least\n"
                "TABLES: o(ne way), b(oth ways), t(here and back); all: obt\n",
                ROUNDS_MOST, BARE_TELLS_EVERY, DEPTH_MOST);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    connect_over_loopback(fd);
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), "socketpair");
    pid_t other = fork();
    must(other >= 0, "fork");
    bench.rank = other == 0;
    bench.control = control[bench.rank];
    close(control[1 - bench.rank]);
    close(fd[1 - bench.rank]);
    run(&bench, bench.rank ? "rxe1" : "rxe0", fd[bench.rank]);
    int status = 0;
    return other && (waitpid(other, &status, 0) < 0 || status) ? 3 : 0;
}
