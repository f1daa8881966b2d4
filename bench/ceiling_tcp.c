/* What bare sockets carry, without any protocol of ours.
 *
 *     ring (all-reduce):    0 ─▶ 1 ─▶ 2 ─▶ 0     each rank sends and receives at once
 *     chain (broadcast):    0 ─▶ 1 ─▶ 2          the first only sends, the last only receives
 *
 * Over a link of the ring an all-reduce must carry busbw * t bytes, over a link of the chain a
 * broadcast the same, so the bytes per second of one link are the ceiling of busbw. The loop below
 * is the plainest there is: non-blocking send and recv on every stream in turn, without sleeping;
 * the kernel does the rest. The best of 1, 2 and as many streams as the library uses counts. */
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS_MAX 8
#define CHUNK       (UINT64_C(1) << 20)
#define TOTAL       (UINT64_C(256) << 20) /* bytes over each link, per measurement */
#define REPEATS     3
#define SPARE       (UINT64_C(64) << 10)

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

struct stream {
    uint64_t sent, received; /* of its share */
};

/* True while something moves or may still move. */
static bool push(int fd, const char *buffer, uint64_t share, uint64_t *done)
{
    if (fd < 0 || *done >= share) {
        return false;
    }
    uint64_t length = share - *done < CHUNK ? share - *done : CHUNK;
    ssize_t moved = send(fd, buffer, length, MSG_NOSIGNAL);
    if (moved > 0) {
        *done += (uint64_t)moved;
    }
    return moved > 0 || errno == EAGAIN || errno == EINTR;
}

static bool pull(int fd, char *buffer, uint64_t share, uint64_t *done)
{
    if (fd < 0 || *done >= share) {
        return false;
    }
    uint64_t length = share - *done < CHUNK ? share - *done : CHUNK;
    ssize_t moved = recv(fd, buffer, length, 0);
    if (moved > 0) {
        *done += (uint64_t)moved;
    }
    return moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Bytes per second of a link, over the slowest rank. */
static double carry(struct ring *ring, uint64_t total)
{
    struct stream streams[STREAMS_MAX] = {{0, 0}};
    uint64_t share = total / (uint64_t)ring->streams;
    bench_together(ring->bench);
    double start = bench_now_us();
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < ring->streams; i++) {
            busy |= push(ring->to[i], ring->buffer, share, &streams[i].sent);
            busy |= pull(ring->from[i], ring->buffer + CHUNK, share, &streams[i].received);
        }
    }
    double took = bench_agree(ring->bench, bench_now_us() - start, GYRE_MAX);
    return (double)(share * (uint64_t)ring->streams) / took * 1e6;
}

static double fastest(struct ring *ring, int *streams)
{
    double best = 0;
    const char *ours = getenv("GYRE_TCP_CONNECTIONS");
    int used = ours && atoi(ours) > 0 && atoi(ours) <= STREAMS_MAX ? atoi(ours) : 4;
    const int counts[] = {1, 2, (int)bench_from_root(ring->bench, used)};
    for (int i = 0; i < 3; i++) {
        ring->streams = counts[i];
        carry(ring, TOTAL / 16);
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            double rate = carry(ring, TOTAL);
            if (rate > best) {
                best = rate;
                *streams = counts[i];
            }
        }
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
    ring.buffer = bench_memory(bench, 2 * CHUNK + SPARE);
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
