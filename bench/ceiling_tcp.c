/* What bare sockets carry, without any protocol of ours.
 *
 *     ring (all-reduce):    0 ─▶ 1 ─▶ 2 ─▶ 0     each rank sends and receives at once
 *     chain (broadcast):    0 ─▶ 1 ─▶ 2          the first only sends, the last only receives
 *
 * Over a link of the ring an all-reduce must carry busbw * t bytes, over a link of the chain a
 * broadcast the same, so the bytes per second of one link are the ceiling of busbw. The loop below
 * is the plainest there is: non-blocking send and recv on every stream in turn, and poll when
 * nothing has moved for a while; the kernel does the rest. The best of 1, 2 and as many streams as
 * the library uses counts. */
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS_MAX 8
#define CHUNK       (UINT64_C(1) << 20)
#define TOTAL       (UINT64_C(128) << 20) /* bytes over each link, per measurement */
#define REPEATS     3
#define IDLE_TURNS  64 /* then sleep: ranks may outnumber cores */

struct ring {
    struct bench *bench;
    int streams;
    int to[STREAMS_MAX], from[STREAMS_MAX]; /* -1: none */
    char *buffer;                           /* CHUNK bytes to send, CHUNK to receive into */
};

/* -- connecting ----------------------------------------------------------------------------- */

static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                    listen(fd, STREAMS_MAX) != 0 ||
                    getsockname(fd, (struct sockaddr *)&address, &length) != 0)) {
        close(fd);
        fd = -1;
    }
    *port = fd >= 0 ? ntohs(address.sin_port) : 0;
    return fd;
}

static bool one_host(const struct bench *bench)
{
    for (int rank = 1; rank < bench->n; rank++) {
        if (strcmp(bench->place[rank].host, bench->place[0].host) != 0) {
            return false;
        }
    }
    return true;
}

static bool find_host(const struct bench *bench, int rank, struct sockaddr_in *address)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    if (one_host(bench)) {
        address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    if (getaddrinfo(bench->place[rank].host, NULL, &hints, &found) != 0) {
        return false;
    }
    address->sin_addr = ((struct sockaddr_in *)found->ai_addr)->sin_addr;
    freeaddrinfo(found);
    return true;
}

static void prepare(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int connect_to(const struct bench *bench, int rank, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = find_host(bench, rank, &address) ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The connection stands as soon as the listener's queue has it, so nobody waits for a rank that is
 * itself still connecting. */
static bool connect_ring(struct ring *ring, int listener, const uint16_t *ports, bool closed)
{
    struct bench *bench = ring->bench;
    int next = (bench->rank + 1) % bench->n;
    bool sends = closed || next != 0, receives = closed || bench->rank != 0, ok = true;
    for (int i = 0; i < STREAMS_MAX && sends && ok; i++) {
        ring->to[i] = connect_to(bench, next, ports[next]);
        ok = ring->to[i] >= 0;
    }
    /* Everyone has connected, or nobody accepts. */
    if (bench_agree(bench, ok, GYRE_MIN) == 0) {
        return false;
    }
    for (int i = 0; i < STREAMS_MAX && receives; i++) {
        ring->from[i] = accept(listener, NULL, NULL);
        ok = ok && ring->from[i] >= 0;
    }
    for (int i = 0; i < STREAMS_MAX; i++) {
        prepare(ring->to[i]);
        prepare(ring->from[i]);
    }
    return bench_agree(bench, ok, GYRE_MIN) != 0;
}

/* -- carrying ------------------------------------------------------------------------------- */

struct lane { /* one direction of one stream */
    int fd;
    short event; /* POLLOUT: sends; POLLIN: receives */
    uint64_t left;
};

/* Moves what goes without waiting; true if anything did. A broken stream counts as done. */
static bool move(struct lane *lane, char *buffer)
{
    size_t length = lane->left < CHUNK ? lane->left : CHUNK;
    ssize_t moved = lane->event == POLLOUT ? send(lane->fd, buffer, length, MSG_NOSIGNAL)
                                           : recv(lane->fd, buffer + CHUNK, length, 0);
    bool later = moved < 0 && (errno == EAGAIN || errno == EINTR);
    lane->left = moved > 0 ? lane->left - (uint64_t)moved : later ? lane->left : 0;
    return moved > 0;
}

static void wait_for_any(const struct lane *lanes, int count)
{
    struct pollfd fds[2 * STREAMS_MAX];
    nfds_t open = 0;
    for (int i = 0; i < count; i++) {
        if (lanes[i].left > 0) {
            fds[open++] = (struct pollfd){.fd = lanes[i].fd, .events = lanes[i].event};
        }
    }
    poll(fds, open, 10);
}

static void carry_all(struct lane *lanes, int count, char *buffer)
{
    int idle = 0;
    for (bool left = true; left;) {
        bool moved = false;
        left = false;
        for (int i = 0; i < count; i++) {
            moved |= lanes[i].left > 0 && move(&lanes[i], buffer);
            left |= lanes[i].left > 0;
        }
        idle = moved ? 0 : idle + 1;
        if (left && idle > IDLE_TURNS) {
            wait_for_any(lanes, count);
        }
    }
}

/* Bytes per second of a link, over the slowest rank. */
static double carry(struct ring *ring, uint64_t total)
{
    struct lane lanes[2 * STREAMS_MAX];
    uint64_t share = total / (uint64_t)ring->streams;
    int count = 0;
    for (int i = 0; i < ring->streams; i++) {
        if (ring->to[i] >= 0) {
            lanes[count++] = (struct lane){ring->to[i], POLLOUT, share};
        }
        if (ring->from[i] >= 0) {
            lanes[count++] = (struct lane){ring->from[i], POLLIN, share};
        }
    }
    bench_together(ring->bench);
    double start = bench_now_us();
    carry_all(lanes, count, ring->buffer);
    double took = bench_agree(ring->bench, bench_now_us() - start, GYRE_MAX);
    return (double)(share * (uint64_t)ring->streams) / took * 1e6;
}

static void try_streams(struct ring *ring, int streams, double *best, int *best_streams)
{
    ring->streams = streams;
    carry(ring, TOTAL / 16);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double rate = carry(ring, TOTAL);
        if (rate > *best) {
            *best = rate;
            *best_streams = streams;
        }
    }
}

static double fastest(struct ring *ring, int *streams)
{
    double best = 0;
    const char *set = getenv("GYRE_TCP_CONNECTIONS");
    int given = set ? atoi(set) : 1;
    int used = (int)bench_from_root(ring->bench, given < 1 || given > STREAMS_MAX ? 1 : given);
    try_streams(ring, 1, &best, streams);
    try_streams(ring, 2, &best, streams);
    if (used > 2) {
        try_streams(ring, used, &best, streams);
    }
    return best;
}

double bench_ceiling_tcp(struct bench *bench, bool closed, int *streams)
{
    struct ring ring = {.bench = bench};
    double rate = 0;
    uint16_t own = 0;
    memset(ring.to, -1, sizeof ring.to);
    memset(ring.from, -1, sizeof ring.from);
    int listener = listen_anywhere(&own);
    uint16_t *ports = bench_memory(bench, (size_t)bench->n * sizeof *ports);
    ports[bench->rank] = own;
    bench_sum(bench, ports, (uint64_t)bench->n * sizeof *ports, GYRE_U8);
    ring.buffer = bench_memory(bench, 2 * CHUNK);
    if (connect_ring(&ring, listener, ports, closed)) {
        rate = fastest(&ring, streams);
    }
    for (int i = 0; i < STREAMS_MAX; i++) {
        close(ring.to[i]);
        close(ring.from[i]);
    }
    close(listener);
    free(ports);
    free(ring.buffer);
    return rate;
}
