/* The conformance suite over RDMA: hub and leaves on this machine's own device, which reaches
 * itself as it does others. Skipped where there is none.
 *
 * Three times: with messages through the rings; with messages in memory that the device may write;
 * and so that a queue pair of each net breaks, at some poll, now the hub's, now a leaf's, while the
 * pipe has to go on by its socket and hold all that the suite asks for. Of the nets of the third,
 * and of the second, every other one has two queue pairs to a pipe.
 *
 * With --start [PEERS] it times instead what a process spends before its first message, with up to
 * so many peers (1024). */
#include "link/suite.h"

#include "base/clock.h"
#include "rig/tcp_pair.h"
#include "link/verbs_breaker.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE       4096u
#define HEAP_BYTES (100u << 20) /* more than any case uses at a time */

extern char __data_start, _end; /* of this program's variables */
static uintptr_t heap;

/* The heap stays where it is and as large as it is. */
static bool keep_heap(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    void *most = malloc(HEAP_BYTES);
    if (!most)
        return false;
    memset(most, 1, HEAP_BYTES);
    heap = (uintptr_t)most;
    free(most);
    return true;
}

static struct gyre_memory_lookup lookup;
static struct gyre_memory_lookup *seen; /* in the run that is under way; NULL: nothing is */

static bool add_region(uintptr_t begin, uintptr_t end)
{
    struct gyre_region region = {.base = (void *)(begin / PAGE * PAGE), .fd = -1};
    region.length = (end + PAGE - 1) / PAGE * PAGE - (uintptr_t)region.base;
    return gyre_lookup_add(&lookup, &region);
}

/* Two regions hold whatever a case uses. */
static bool see_all(void)
{
    return keep_heap() && !gyre_lookup_init(&lookup, 1) &&
           add_region((uintptr_t)&__data_start, (uintptr_t)&_end) &&
           add_region(heap, heap + HEAP_BYTES);
}

static bool failover; /* in the run that is under way */

struct end { /* of a pipe: attaching waits for the other one */
    struct gyre_wire *wire;
    struct gyre_channel channel;
    struct gyre_pipe **pipe;
    struct gyre_trouble trouble;
    int status;
};

static int open_wire(uint32_t rank, uint32_t n, struct gyre_wire **wire,
                     struct gyre_trouble *trouble)
{
    struct gyre_wire_options options = {
        .rank = rank, .n = n, .epoch = 3, .peers = n - 1, .lookup = seen, .failover = failover};
    return gyre_driver_verbs.open(&options, wire, trouble);
}

static void *attach(void *context)
{
    struct end *end = context;
    end->status = gyre_driver_verbs.attach(end->wire, &end->channel, end->pipe, &end->trouble);
    return NULL;
}

static int join_leaf(struct gyre_link_net *net, int leaf, struct gyre_trouble *trouble)
{
    int fd[2];
    pthread_t thread;
    if (!tcp_pair_sockets(TCP_PAIR_INET, fd))
        return gyre_trouble_set(trouble, -EADDRNOTAVAIL, "no connected sockets on this machine");
    struct end progress = {.wire = net->wire[0],
                           .channel = {.peer = (uint32_t)leaf + 1, .fd = {fd[0]}, .fds = 1},
                           .pipe = &net->outward[leaf]};
    struct end outer = {.wire = net->wire[leaf + 1],
                        .channel = {.peer = 0, .fd = {fd[1]}, .fds = 1},
                        .pipe = &net->inward[leaf]};
    if (pthread_create(&thread, NULL, attach, &outer))
        return gyre_trouble_set(trouble, -EAGAIN, "no thread");
    attach(&progress);
    pthread_join(thread, NULL);
    const struct end *bad = progress.status ? &progress : &outer;
    return bad->status ? gyre_trouble_set(trouble, bad->status, "%s", bad->trouble.text) : 0;
}

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    int status = 0;
    uint32_t n = 1 + (uint32_t)wish->leaves;
    for (uint32_t rank = 0; !status && rank < n; rank++)
        status = open_wire(rank, n, &net->wire[rank], trouble);
    for (int leaf = 0; !status && leaf < wish->leaves; leaf++)
        status = join_leaf(net, leaf, trouble);
    return status;
}

static void kill_leaf(struct gyre_link_net *net)
{
    gyre_driver_verbs.detach(net->inward[0]);
    net->inward[0] = NULL;
}

/* -- breaking ---------------------------------------------------------------------------------- */

/* With one queue pair to a pipe and with two, in turn. */
static int connect_in_turn(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                           struct gyre_trouble *trouble)
{
    static int turn;
    setenv("GYRE_RDMA_QUEUES", ++turn % 2 ? "1" : "2", 1);
    return connect_net(wish, net, trouble);
}

static int connect_breaking(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                            struct gyre_trouble *trouble)
{
    verbs_breaker_light();
    return connect_in_turn(wish, net, trouble);
}

static int breaking_suite(void)
{
    struct gyre_driver driver = gyre_driver_verbs;
    const struct gyre_link_bench breaking = {
        .driver = &driver, .connect = connect_breaking, .kill = kill_leaf};
    driver.poll = verbs_breaker_poll;
    driver.arm = verbs_breaker_arm;
    failover = true;
    int bad = gyre_link_suite("verbs that breaks", &breaking);
    printf("%u queue pairs were broken\n", verbs_breaker_broken());
    return bad || verbs_breaker_broken() < 10;
}

/* Once with messages through the rings, and once with those in memory that the device may write. */
static int watched_suites(void)
{
    struct gyre_driver driver = gyre_driver_verbs;
    struct gyre_link_bench bench = {.driver = &driver, .connect = connect_net, .kill = kill_leaf};
    driver.poll = verbs_watcher_poll;
    int bad = gyre_link_suite("verbs", &bench);
    seen = see_all() ? &lookup : NULL;
    bench.connect = connect_in_turn;
    bad |= gyre_link_suite("verbs in place", &bench) != 0;
    printf("%llu records were seen in memory\n", (unsigned long long)verbs_watcher_seen());
    return bad || verbs_watcher_seen() < 100;
}

/* -- what a start costs ------------------------------------------------------------------------ */

static double ms_since(uint64_t since)
{
    return (double)(gyre_now_ns() - since) / 1e6;
}

/* Opens a wire for so many peers and meets some of them: what docs/rdma.md computes with, and the
 * time of a start with all of them. */
static int measure_start(uint32_t peers, int met)
{
    struct gyre_link_net net = {.leaves = met};
    struct gyre_trouble trouble = {0};
    uint64_t since = gyre_now_ns();
    int status = open_wire(0, peers + 1, &net.wire[0], &trouble);
    double opened = ms_since(since), joined = 0;
    for (int leaf = 0; !status && leaf < met; leaf++) {
        status = open_wire((uint32_t)leaf + 1, 2, &net.wire[leaf + 1], &trouble);
        since = gyre_now_ns();
        status = status ? status : join_leaf(&net, leaf, &trouble);
        joined += ms_since(since);
    }
    printf("%5u peers: opened in %8.2f ms, each met in %6.2f ms, so a start takes %8.2f s%s%s\n",
           peers, opened, joined / met, (opened + peers * joined / met) / 1e3, status ? ": " : "",
           trouble.text);
    for (int i = 0; i <= met; i++)
        gyre_driver_verbs.close(net.wire[i]);
    return status != 0;
}

static int measure_starts(uint32_t most)
{
    int bad = 0;
    for (uint32_t peers = GYRE_LINK_LEAVES; peers <= most; peers *= 4)
        bad |= measure_start(peers, GYRE_LINK_LEAVES);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--start"))
        return measure_starts(argc > 2 ? (uint32_t)atoi(argv[2]) : 1024);
    struct gyre_trouble trouble = {0};
    struct gyre_wire *wire;
    if (open_wire(0, 2, &wire, &trouble)) {
        printf("skipped: no RDMA here: %s\n", trouble.text);
        return 77;
    }
    gyre_driver_verbs.close(wire);
    int bad = watched_suites();
    return breaking_suite() || bad;
}
