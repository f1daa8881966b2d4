/* What bare sockets carry between nodes, without any protocol of ours.
 *
 *     ring (all-reduce)   node 0 ─▶ node 1 ─▶ node 2 ─▶ node 0   each sends and receives
 *     chain (broadcast)   node 0 ─▶ node 1 ─▶ node 2             the first sends, the last receives
 *     pair (gather)       node 0 ─▶ node 1                       one of many, the others wait
 *
 * A node is what shares memory; with --transport tcp each rank is one. Within a node bytes may move
 * in memory, so only what must leave it counts: of N nodes an all-reduce must send 2 (N-1)/N of the
 * size out of each, a broadcast must bring the size into each; every bench states its own. With R
 * bytes per second out of each node
 *
 *     t >= leaves * size / R     =>     busbw <= R * bus factor / leaves
 *
 * R is the best of one rank per node and all ranks per node sending to their counterparts, with 1,
 * 2 and as many streams as the library uses. The loop is the plainest there is: non-blocking send
 * and recv on every stream in turn, and poll when nothing has moved for a while; the kernel does
 * the rest. The bytes come from the bench's own input and go to its output, as much of them as the
 * largest row has: from the cache where the operation finds them there, else from memory. */
#include "ceiling/sockets.h"

#include "harness/data.h"
#include "harness/together.h"

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
#define TOTAL       (UINT64_C(64) << 20) /* bytes over each link, per measurement, at most */
#define ROUNDS      4096                 /* through the span at most: calls cost more than bytes */
#define REPEATS     3
#define IDLE_TURNS  64 /* then sleep: ranks may outnumber cores */

struct socket_ring {
    struct bench *bench;
    enum bench_wires wires;
    int per_node; /* ranks that take part */
    int streams;
    int to[STREAMS_MAX], from[STREAMS_MAX]; /* -1: none */
    uint64_t span;  /* of INPUT is sent and of OUTPUT received into, over and over */
    uint64_t total; /* bytes over each link, per measurement */
};

/* -- connecting -------------------------------------------------------------------------------- */

static bool one_host(const struct bench *bench)
{
    for (int rank = 1; rank < bench->n; rank++) {
        if (strcmp(bench->place[rank].host, bench->place[0].host) != 0) {
            return false;
        }
    }
    return true;
}

/* Within one machine without pacing, as the library has it: said before the connection is made. */
static int new_socket(const struct bench *bench)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && one_host(bench)) {
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    }
    return fd;
}

static int listen_anywhere(const struct bench *bench, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;
    int fd = new_socket(bench);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                    listen(fd, STREAMS_MAX) != 0 ||
                    getsockname(fd, (struct sockaddr *)&address, &length) != 0)) {
        close(fd);
        fd = -1;
    }
    *port = fd >= 0 ? ntohs(address.sin_port) : 0;
    return fd;
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
    int fd = find_host(bench, rank, &address) ? new_socket(bench) : -1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* -- who sends to whom ------------------------------------------------------------------------- */

static int members(const struct bench *bench, int node)
{
    int count = 0;
    for (int rank = 0; rank < bench->n; rank++) {
        count += bench->place[rank].node == node;
    }
    return count;
}

/* Nodes are numbered 0, 1, … without gaps. */
static int count_nodes(const struct bench *bench)
{
    int last = 0;
    for (int rank = 0; rank < bench->n; rank++) {
        last = bench->place[rank].node > last ? bench->place[rank].node : last;
    }
    return last + 1;
}

static int index_in_node(const struct bench *bench, int rank)
{
    int index = 0;
    for (int lower = 0; lower < rank; lower++) {
        index += bench->place[lower].node == bench->place[rank].node;
    }
    return index;
}

/* The rank that `rank` sends to: its counterpart in the next node; -1 if it sends nothing. */
static int receiver_of(const struct socket_ring *ring, int rank)
{
    const struct bench *bench = ring->bench;
    int nodes = count_nodes(bench), next = (bench->place[rank].node + 1) % nodes;
    int index = index_in_node(bench, rank);
    if (index >= ring->per_node || (next == 0 && ring->wires != BENCH_WIRES_RING) ||
        (next != 1 && ring->wires == BENCH_WIRES_PAIR)) {
        return -1;
    }
    for (int other = 0; other < bench->n; other++) {
        if (bench->place[other].node == next && index_in_node(bench, other) == index) {
            return other;
        }
    }
    return -1;
}

static bool receives(const struct socket_ring *ring, int rank)
{
    for (int other = 0; other < ring->bench->n; other++) {
        if (receiver_of(ring, other) == rank) {
            return true;
        }
    }
    return false;
}

/* A connection stands as soon as the listener's queue has it, so nobody waits for a rank that is
 * itself still connecting. Everyone has connected before anybody accepts. */
static bool connect_ring(struct socket_ring *ring, int listener, const uint16_t *ports)
{
    struct bench *bench = ring->bench;
    int to = receiver_of(ring, bench->rank);
    bool ok = true;
    for (int i = 0; i < STREAMS_MAX && to >= 0 && ok; i++) {
        ring->to[i] = connect_to(bench, to, ports[to]);
        ok = ring->to[i] >= 0;
    }
    if (bench_agree(bench, ok, GYRE_MIN) == 0) {
        return false;
    }
    for (int i = 0; i < STREAMS_MAX && receives(ring, bench->rank); i++) {
        ring->from[i] = accept(listener, NULL, NULL);
        ok = ok && ring->from[i] >= 0;
    }
    for (int i = 0; i < STREAMS_MAX; i++) {
        prepare(ring->to[i]);
        prepare(ring->from[i]);
    }
    return bench_agree(bench, ok, GYRE_MIN) != 0;
}

static void disconnect(struct socket_ring *ring)
{
    for (int i = 0; i < STREAMS_MAX; i++) {
        close(ring->to[i]);
        close(ring->from[i]);
        ring->to[i] = ring->from[i] = -1;
    }
}

/* -- carrying ---------------------------------------------------------------------------------- */

struct lane { /* one direction of one stream */
    int fd;
    short event; /* POLLOUT: sends; POLLIN: receives */
    uint64_t left, at;
};

/* Moves what goes without waiting; true if anything did. A broken stream counts as done. */
static bool move(struct lane *lane, const struct socket_ring *ring)
{
    uint64_t ahead = ring->span - lane->at, most = ahead < CHUNK ? ahead : CHUNK;
    size_t length = lane->left < most ? lane->left : most;
    ssize_t moved =
        lane->event == POLLOUT
            ? send(lane->fd, ring->bench->device.mirror[0] + lane->at, length, MSG_NOSIGNAL)
            : recv(lane->fd, ring->bench->device.mirror[1] + lane->at, length, 0);
    if (moved > 0) {
        lane->left -= (uint64_t)moved;
        lane->at = (lane->at + (uint64_t)moved) % ring->span;
    } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
        lane->left = 0;
    }
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

static void carry_all(struct lane *lanes, int count, const struct socket_ring *ring)
{
    int idle = 0;
    for (bool left = true; left;) {
        bool moved = false;
        left = false;
        for (int i = 0; i < count; i++) {
            moved |= lanes[i].left > 0 && move(&lanes[i], ring);
            left |= lanes[i].left > 0;
        }
        idle = moved ? 0 : idle + 1;
        if (left && idle > IDLE_TURNS) {
            wait_for_any(lanes, count);
        }
    }
}

/* Bytes per second of a link, over the slowest rank. */
static double carry(struct socket_ring *ring, uint64_t total)
{
    struct lane lanes[2 * STREAMS_MAX];
    uint64_t share = total / (uint64_t)ring->streams;
    int count = 0;
    for (int i = 0; i < ring->streams; i++) {
        if (ring->to[i] >= 0) {
            lanes[count++] = (struct lane){ring->to[i], POLLOUT, share, 0};
        }
        if (ring->from[i] >= 0) {
            lanes[count++] = (struct lane){ring->from[i], POLLIN, share, 0};
        }
    }
    bench_together(ring->bench);
    double start = bench_now_us();
    carry_all(lanes, count, ring);
    double took = bench_agree(ring->bench, bench_now_us() - start, GYRE_MAX);
    return (double)(share * (uint64_t)ring->streams) / took * 1e6;
}

static void try_streams(struct socket_ring *ring, int streams, struct bench_sockets *best)
{
    ring->streams = streams;
    carry(ring, ring->total / 16);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double rate = ring->per_node * carry(ring, ring->total / (uint64_t)ring->per_node);
        if (rate > best->node_rate) {
            *best = (struct bench_sockets){streams, ring->per_node, rate};
        }
    }
}

static void try_ranks(struct socket_ring *ring, int per_node, int listener, const uint16_t *ports,
                      struct bench_sockets *best)
{
    const char *set = getenv("GYRE_TCP_CONNECTIONS");
    int given = set ? atoi(set) : 1;
    int used = (int)bench_from_root(ring->bench, given < 1 || given > STREAMS_MAX ? 1 : given);
    ring->per_node = per_node;
    if (connect_ring(ring, listener, ports)) {
        try_streams(ring, 1, best);
        try_streams(ring, 2, best);
        if (used > 2) {
            try_streams(ring, used, best);
        }
    }
    disconnect(ring);
}

static int fewest_members(const struct bench *bench)
{
    int fewest = bench->n;
    for (int node = 0; node < count_nodes(bench); node++) {
        fewest = members(bench, node) < fewest ? members(bench, node) : fewest;
    }
    return fewest;
}

void bench_ceiling_tcp(struct bench *bench, struct bench_sockets *best)
{
    struct socket_ring ring = {.bench = bench, .wires = bench->verb->wires};
    uint16_t own = 0;
    memset(ring.to, -1, sizeof ring.to);
    memset(ring.from, -1, sizeof ring.from);
    int listener = listen_anywhere(ring.bench, &own), all = fewest_members(bench);
    uint16_t *ports = bench_memory(bench, (size_t)bench->n * sizeof *ports);
    ports[bench->rank] = own;
    bench_sum(bench, ports, (uint64_t)bench->n * sizeof *ports, GYRE_U8);
    ring.span = bench->largest < TOTAL ? bench->largest : TOTAL;
    ring.total = ring.span < TOTAL / ROUNDS ? ring.span * ROUNDS : TOTAL;
    try_ranks(&ring, 1, listener, ports, best);
    if (all > 1) {
        try_ranks(&ring, all, listener, ports, best);
    }
    close(listener);
    free(ports);
}

double bench_ceiling_tcp_bus(const struct bench *bench, const struct bench_sockets *best)
{
    const struct bench_verb *verb = bench->verb;
    return best->node_rate * verb->bus_factor(bench->n) /
           verb->leaves(bench->n, count_nodes(bench));
}
