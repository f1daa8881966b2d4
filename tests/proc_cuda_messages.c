/* Messages of CUDA memory between real processes, over the stand-in: which way they take, told by
 * the copies that each end posts, and that they are right; how much of one is on its way over a wire
 * at a time; a sender that is killed, and one that frees its memory, while the receiver's device
 * copies from it; a device that is lost meanwhile. tests/gpu/run has the first group run on real
 * devices, as GYRE_DEVICES lists them; copies are not counted there. */
#include "comm_rig.h"
#include "fakecuda/fakecuda.h"

#include "collectives/comm.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { LENGTH = (3 << 20) + 77, SKEW = 3, SECONDS = 60 };
enum { PIECE = 1 << 20, CARTS = 4 }; /* of what goes over a wire */
enum { LONG = (5 << 20) + 77, LONGEST = 9 * PIECE };

enum kind {
    MAPPED,
    ALONE,
    SHARED,
    OWN,
    KINDS
}; /* by gyre_alloc_device(); of this process; by
                                                    gyre_alloc(); by malloc() */

static const struct gyre_device *cuda;
static uint64_t room = LENGTH; /* of each memory */

/* -- memory ------------------------------------------------------------------------------------ */

struct bench {
    struct gyre_device_queue *queue;
    struct gyre_region alone;
    uint8_t *memory[KINDS], *host;
};

static int carry(const struct bench *bench, void *to, const void *from, uint64_t bytes)
{
    static uint64_t last;
    uint64_t done = 0, token = ++last;
    int status = cuda->copy(bench->queue, to, from, bytes, token);
    while (status == 0 && done != token) {
        if (cuda->query(bench->queue, &done, 1) < 0)
            return 1;
        sched_yield();
    }
    return status < 0;
}

static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    void *mapped, *shared;
    *bench = (struct bench){.host = malloc(room + SKEW)};
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    int bad = cuda->queue_create(gyre_device(comm), &bench->queue, NULL) ||
              cuda->alloc(gyre_device(comm), room + SKEW, GYRE_SHARE_OPEN, &bench->alone, NULL) ||
              gyre_alloc_device(comm, room + SKEW, &mapped) ||
              gyre_alloc(comm, room + SKEW, &shared);
    if (rig_check(!bad, comm, "memory"))
        return 1;
    bench->memory[MAPPED] = mapped;
    bench->memory[ALONE] = bench->alone.base;
    bench->memory[SHARED] = shared;
    bench->memory[OWN] = malloc(room + SKEW);
    return 0;
}

static int tear_down(struct gyre_comm *comm, struct bench *bench, int expected, int bad)
{
    free(bench->host);
    free(bench->memory[OWN]);
    bad += rig_check(gyre_finalize(comm) == expected, NULL, "gyre_finalize");
    cuda->queue_destroy(bench->queue);
    cuda->free(&bench->alone);
    struct fakecuda_alive left = fakecuda_alive();
    if (left.ranges || left.handles || left.streams || left.events)
        fprintf(stderr, "left: %d ranges, %d handles, %d streams, %d events\n", left.ranges,
                left.handles, left.streams, left.events);
    return bad + left.ranges + left.handles + left.streams + left.events;
}

/* No piece is like another. */
static uint8_t byte_of(uint64_t i, unsigned seed)
{
    return (uint8_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 56 ^ seed * 29);
}

static int put(const struct bench *bench, uint8_t *to, uint64_t bytes, unsigned seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        bench->host[i] = byte_of(i, seed);
    return carry(bench, to, bench->host, bytes);
}

static int check(struct gyre_comm *comm, const struct bench *bench, const uint8_t *from,
                 uint64_t bytes, unsigned seed)
{
    uint64_t i = 0;
    if (carry(bench, bench->host, from, bytes))
        return rig_check(false, comm, "the device is alive");
    while (i < bytes && bench->host[i] == byte_of(i, seed))
        i++;
    return rig_check(i == bytes, comm, "the bytes");
}

/* -- every way --------------------------------------------------------------------------------- */

static const uint64_t lengths[] = {0, 100, 16384, 16385, 300001, LENGTH};

enum { SIZES = sizeof(lengths) / sizeof(*lengths) };

/* How many copies each end has to post: the receiver one between devices, some where the host's
 * memory takes part; the sender of mapped memory none. */
static int count_copies(struct gyre_comm *comm, enum kind from, enum kind to, uint64_t bytes,
                        int copies, bool sends)
{
    bool direct = bytes > 16384, none = !bytes;
    int trips = (int)((bytes + (1 << 20) - 1) >> 20);
    int sender = none || from > ALONE || (from == MAPPED && direct) ? 0 : trips;
    int receiver = none                            ? 0
                   : to <= ALONE && !direct        ? 1
                   : to <= ALONE && from == MAPPED ? 1
                   : to <= ALONE                   ? trips
                   : from == MAPPED && direct      ? trips
                                                   : 0;
    int expected = sends ? sender : receiver;
    if (!fakecuda_stands_in())
        return 0;
    if (copies != expected)
        fprintf(stderr, "%d to %d, %d bytes, %s: %d copies, not %d\n", from, to, (int)bytes,
                sends ? "sender" : "receiver", copies, expected);
    return copies != expected;
}

static int one_message(struct gyre_comm *comm, const struct bench *bench, enum kind from,
                       enum kind to, uint64_t bytes)
{
    int rank = gyre_rank(comm);
    bool sends = rank == 0;
    uint8_t *memory = bench->memory[sends ? from : to] + SKEW;
    unsigned seed = (unsigned)(from * KINDS + to);
    if (bytes && (sends ? put(bench, memory, bytes, seed) : put(bench, memory, bytes, 99)))
        return 1;
    int before = fakecuda_calls("cuMemcpyAsync");
    int status = sends ? gyre_send(comm, memory, bytes, GYRE_U8, 1)
                       : gyre_recv(comm, memory, bytes, GYRE_U8, 0);
    int copies = fakecuda_calls("cuMemcpyAsync") - before;
    int bad = rig_check(status == 0, comm, sends ? "gyre_send" : "gyre_recv");
    bad += count_copies(comm, from, to, bytes, copies, sends);
    return bad || sends || !bytes ? bad : check(comm, bench, memory, bytes, seed);
}

static int every_way(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier"); /* trials make copies, too */
    for (int way = 0; way < KINDS * KINDS && !bad; way++)
        for (int size = 0; size < SIZES && !bad; size++)
            bad = one_message(comm, &bench, (enum kind)(way / KINDS), (enum kind)(way % KINDS),
                              lengths[size]);
    return tear_down(comm, &bench, 0, bad);
}

/* -- over a wire ------------------------------------------------------------------------------- */

static int pieces_of(uint64_t bytes)
{
    return (int)((bytes + PIECE - 1) / PIECE);
}

/* A device's end posts a copy for each piece, the host's none. */
static int one_by_wire(struct gyre_comm *comm, const struct bench *bench, enum kind kind,
                       uint64_t bytes, unsigned seed)
{
    bool sends = gyre_rank(comm) == 0;
    uint8_t *memory = bench->memory[kind] + SKEW;
    if (bytes && put(bench, memory, bytes, sends ? seed : 99))
        return 1;
    int before = fakecuda_calls("cuMemcpyAsync");
    int status = sends ? gyre_send(comm, memory, bytes, GYRE_U8, 1)
                       : gyre_recv(comm, memory, bytes, GYRE_U8, 0);
    int copies = fakecuda_calls("cuMemcpyAsync") - before;
    int bad = rig_check(status == 0, comm, sends ? "gyre_send" : "gyre_recv");
    bad += rig_check(copies == (kind <= ALONE ? pieces_of(bytes) : 0) || !fakecuda_stands_in(),
                     comm, "a copy of each piece");
    return bad || sends || !bytes ? bad : check(comm, bench, memory, bytes, seed);
}

static int by_wire(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t wire[] = {0, 1, 70000, PIECE - 1, PIECE, PIECE + 1, 4 * PIECE, LONG};
    static const enum kind ways[][2] = {{ALONE, ALONE}, {ALONE, OWN}, {OWN, ALONE}, {OWN, SHARED}};
    struct bench bench;
    room = LONG;
    int bad = set_up(comm, &bench), rank = gyre_rank(comm);
    (void)rig;
    for (int way = 0; way < 4 && !bad; way++)
        for (unsigned i = 0; i < sizeof(wire) / sizeof(*wire) && !bad; i++)
            bad = one_by_wire(comm, &bench, ways[way][rank], wire[i], (unsigned)way * 8 + i);
    return tear_down(comm, &bench, 0, bad);
}

/* Both ends cut alike, though only rank 0 knows a device. */
static int to_the_host(struct gyre_comm *comm, struct rig *rig)
{
    static uint8_t bytes[LONG];
    struct bench bench = {0};
    int bad = 0;
    (void)rig;
    room = LONG;
    if (gyre_rank(comm) == 0) {
        bad += set_up(comm, &bench) || put(&bench, bench.memory[ALONE], LONG, 4);
        bad += gyre_send(comm, bench.memory[ALONE], LONG, GYRE_U8, 1);
        bad += gyre_recv(comm, bench.memory[MAPPED], LONG, GYRE_U8, 1);
        bad += check(comm, &bench, bench.memory[MAPPED], LONG, 4);
        return tear_down(comm, &bench, 0, rig_check(!bad, comm, "there and back"));
    }
    bad += gyre_recv(comm, bytes, LONG, GYRE_U8, 0);
    bad += gyre_send(comm, bytes, LONG, GYRE_U8, 0);
    return rig_check(!bad, comm, "there and back") + (gyre_finalize(comm) != 0);
}

/* Both ends are cut, and differ in a length. */
static int unlike(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    room = LONG;
    int bad = set_up(comm, &bench);
    uint8_t *memory = bench.memory[ALONE];
    int status = gyre_rank(comm) == 0 ? gyre_send(comm, memory, LONG, GYRE_U8, 1)
                                      : gyre_recv(comm, memory, LONG - PIECE, GYRE_U8, 0);
    bad += rig_check(status == GYRE_MISMATCH, comm, "ends that differ");
    return tear_down(comm, &bench, status, bad);
}

/* Asks the handle until the device has been given so many copies, and for a while longer. */
static int drive_to(struct gyre_comm *comm, struct gyre_work *work, int copies)
{
    uint64_t limit = rig_now() + UINT64_C(20000000000);
    while (fakecuda_calls("cuMemcpyAsync") < copies && rig_now() < limit)
        if (rig_check(gyre_work_test(work) == GYRE_AGAIN, comm, "it cannot have arrived"))
            return 1;
    limit = rig_now() + 50000000; /* for what must not happen */
    while (rig_now() < limit)
        if (rig_check(gyre_work_test(work) == GYRE_AGAIN, comm, "it cannot have arrived"))
            return 1;
    return rig_check(fakecuda_calls("cuMemcpyAsync") == copies, comm, "so many copies");
}

/* Nobody receives: four pieces are asked for. The receiver's device stands still: as many have crossed
 * the wire, and the next are in the sender's host memory, of which there is no more. */
static int few_at_a_time(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work = NULL;
    room = LONGEST;
    int bad = set_up(comm, &bench), sends = gyre_rank(comm) == 0;
    uint8_t *memory = bench.memory[ALONE];
    bad += put(&bench, memory, LONGEST, sends ? 5 : 6);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    int before = fakecuda_calls("cuMemcpyAsync");
    if (sends) {
        bad += rig_check(!gyre_send_start(comm, memory, LONGEST, GYRE_U8, 1, &work), comm, "start");
        bad += drive_to(comm, work, before + CARTS);
        rig->shared->flag = 1;
        bad += drive_to(comm, work, before + 2 * CARTS);
        rig->shared->flag = 2;
    } else {
        rig_until(&rig->shared->flag, 1);
        fakecuda_hold(true);
        bad += rig_check(!gyre_recv_start(comm, memory, LONGEST, GYRE_U8, 0, &work), comm, "start");
        bad += drive_to(comm, work, before + CARTS);
        rig_until(&rig->shared->flag, 2);
        fakecuda_hold(false);
    }
    bad += rig_check(gyre_work_wait(work, -1) == 0, comm, "the message arrives");
    bad += rig_check(fakecuda_alive().locked == 1, comm, "one span of locked memory");
    if (!sends)
        bad += check(comm, &bench, memory, LONGEST, 5);
    return tear_down(comm, &bench, 0, bad);
}

/* Many long ones at once, of either direction: hauls are used again, and more than are kept. */
static int crowd(struct gyre_comm *comm, struct rig *rig)
{
    enum { MESSAGES = 10, EACH = PIECE + 4096, APART = 2 << 20 };
    struct gyre_work *work[2][MESSAGES];
    struct bench bench;
    int bad = 0, peer = !gyre_rank(comm);
    (void)rig;
    room = MESSAGES * APART;
    bad += set_up(comm, &bench);
    uint8_t *from = bench.memory[MAPPED], *to = bench.memory[ALONE];
    for (int turn = 0; turn < 2 && !bad; turn++) {
        for (unsigned i = 0; i < MESSAGES; i++)
            bad += put(&bench, from + i * APART, EACH, i + (unsigned)turn);
        for (unsigned i = 0; i < MESSAGES && !bad; i++) {
            bad += gyre_send_start(comm, from + i * APART, EACH, GYRE_U8, peer, &work[0][i]);
            bad += gyre_recv_start(comm, to + i * APART, EACH, GYRE_U8, peer, &work[1][i]);
        }
        for (unsigned i = 0; i < MESSAGES && !bad; i++)
            bad += gyre_work_wait(work[1][MESSAGES - 1 - i], -1) || gyre_work_wait(work[0][i], -1);
        for (unsigned i = 0; i < MESSAGES && !bad; i++)
            bad += check(comm, &bench, to + i * APART, EACH, i + (unsigned)turn);
    }
    return tear_down(comm, &bench, 0, rig_check(!bad, comm, "many messages"));
}

/* Blocks of unequal lengths to everybody, and back the other way round, at once. */
static int many_at_once(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int rank = gyre_rank(comm), n = gyre_size(comm), bad = set_up(comm, &bench);
    uint64_t out[4], in[4], out_at[4], in_at[4], sent = 0, got = 0;
    (void)rig;
    for (int peer = 0; peer < n; peer++) {
        out[peer] = 20000 + 70001 * (uint64_t)((rank + peer) % 3);
        in[peer] = 20000 + 70001 * (uint64_t)((rank + peer) % 3);
        out_at[peer] = sent;
        in_at[peer] = got;
        sent += out[peer];
        got += in[peer];
    }
    for (int turn = 0; turn < 6 && !bad; turn++) {
        int kind = turn % 2 ? MAPPED : (rank + turn) % KINDS;
        uint8_t *input = bench.memory[kind];
        uint8_t *output = bench.memory[(kind + 1 + turn % 3) % KINDS];
        for (int peer = 0; peer < n; peer++)
            bad += out[peer] &&
                   put(&bench, input + out_at[peer], out[peer], (unsigned)(rank * 4 + peer));
        bad +=
            rig_check(gyre_all_to_all_v(comm, input, out, out_at, output, in, in_at, GYRE_U8) == 0,
                      comm, "gyre_all_to_all_v");
        for (int peer = 0; peer < n && !bad; peer++)
            bad += check(comm, &bench, output + in_at[peer], in[peer], (unsigned)(peer * 4 + rank));
    }
    return tear_down(comm, &bench, 0, bad + rig_check(gyre_barrier(comm) == 0, comm, "a barrier"));
}

/* -- ranks ------------------------------------------------------------------------------------- */

static void two_devices(const struct rig *rig, int rank)
{
    (void)rig;
    (void)rank;
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("FAKECUDA_DELAY", "100", 1);
    if (fakecuda_stands_in())
        setenv("GYRE_DEVICES", "0,1,1", 1);
}

static void classic(const struct rig *rig, int rank)
{
    two_devices(rig, rank);
    setenv("FAKECUDA_EXPORT", "0", 1);
}

/* So nothing has been copied between devices when the first message is. */
static void one_device(const struct rig *rig, int rank)
{
    two_devices(rig, rank);
    setenv("GYRE_DEVICES", "0,0", 1);
}

/* Each plays a node: what one device allocates no other maps. */
static void nodes(const struct rig *rig, int rank)
{
    two_devices(rig, rank);
    if (fakecuda_stands_in())
        setenv("GYRE_DEVICES", "0,1,0", 1);
}

static void no_device_in_rank_1(const struct rig *rig, int rank)
{
    nodes(rig, rank);
    if (rank == 1)
        setenv("FAKECUDA_DEVICES", "none", 1);
}

typedef void (*readying)(const struct rig *, int);
static const readying modes[] = {two_devices, classic};

static void run_both(int n, int (*body)(struct gyre_comm *, struct rig *))
{
    for (int i = 0; i < 1 + fakecuda_stands_in(); i++) {
        struct rig rig = {.n = n, .transport = "shm", .before = modes[i], .body = body};
        assert_int_equal(rig_run(&rig, SECONDS), 0);
    }
}

static void messages_take_the_shortest_way(void **state)
{
    (void)state;
    run_both(2, every_way);
}

static void run_by_wire(int n, readying before, int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = "tcp", .before = before, .body = body};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

static void wires_carry_pieces(void **state)
{
    (void)state;
    run_by_wire(2, nodes, by_wire);
    run_by_wire(2, nodes, crowd);
    run_by_wire(3, nodes, many_at_once);
}

static void unlike_ends_are_told(void **state)
{
    (void)state;
    run_by_wire(2, nodes, unlike);
}

static void staging_is_bounded(void **state)
{
    (void)state;
    run_by_wire(2, nodes, few_at_a_time);
}

static void one_end_has_no_device(void **state)
{
    (void)state;
    run_by_wire(2, no_device_in_rank_1, to_the_host);
}

static void blocks_of_all_ranks_at_once(void **state)
{
    (void)state;
    run_both(3, many_at_once);
}

/* Devices that do not reach each other map nothing: the same bytes, by the host. */
static void apart(const struct rig *rig, int rank)
{
    const readying *before = rig->argument;
    (*before)(rig, rank);
    setenv("FAKECUDA_PEERS", "0", 1);
}

static int staged(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    uint64_t offset;
    int bad = set_up(comm, &bench);
    (void)rig;
    bad += rig_check(
        !gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, bench.memory[MAPPED], LENGTH, &offset),
        comm, "a region that the other device cannot map");
    bench.memory[ALONE] = bench.memory[MAPPED]; /* which it is, then */
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    for (int size = 0; size < SIZES && !bad; size++)
        bad = one_message(comm, &bench, ALONE, ALONE, lengths[size]);
    return tear_down(comm, &bench, 0, bad);
}

static void devices_apart_are_staged(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 2,
                          .transport = "shm",
                          .before = apart,
                          .body = staged,
                          .argument = (void *)(uintptr_t)&modes[i]};
        assert_int_equal(rig_run(&rig, SECONDS), 0);
    }
}

/* -- while a copy is under way ----------------------------------------------------------------- */

/* Rank 0 receives from rank 1, and its device has begun to copy and gets no further. */
static int begin(struct gyre_comm *comm, struct rig *rig, struct bench *bench,
                 struct gyre_work **work)
{
    int rank = gyre_rank(comm), bad = set_up(comm, bench);
    uint8_t *memory = bench->memory[MAPPED];
    bad += put(bench, memory, LENGTH, 7);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (bad)
        return bad;
    if (rank == 1)
        return rig_check(gyre_send_start(comm, memory, LENGTH, GYRE_U8, 0, work) == 0, comm,
                         "gyre_send_start");
    if (rank != 0)
        return 0;
    int before = fakecuda_calls("cuMemcpyAsync");
    bad += put(bench, memory, LENGTH, 8);
    fakecuda_hold(true);
    bad += rig_check(gyre_recv_start(comm, memory, LENGTH, GYRE_U8, 1, work) == 0, comm,
                     "gyre_recv_start");
    while (!bad && fakecuda_calls("cuMemcpyAsync") == before + 1)
        bad = rig_check(gyre_work_test(*work) == GYRE_AGAIN, comm, "it cannot have arrived");
    rig->shared->ready++;
    return bad;
}

/* Lets the device go on when the watch knows of the failure. */
static _Atomic int let_go;

static void *release(void *argument)
{
    struct gyre_comm *comm = argument;
    while (!atomic_load(&gyre_domain_health(comm->domain)->status))
        sched_yield();
    for (int i = 0; i < 1000; i++) /* a call that waits for nothing would return */
        sched_yield();
    let_go = 1;
    fakecuda_hold(false);
    return NULL;
}

static int outlive(struct gyre_comm *comm, struct rig *rig)
{
    pthread_t thread;
    struct bench bench;
    struct gyre_work *work = NULL;
    int status, bad = begin(comm, rig, &bench, &work);
    if (gyre_rank(comm) == 1) {
        rig->shared->ready++;
        for (;;)
            sched_yield();
    }
    if (gyre_rank(comm) == 0) {
        pthread_create(&thread, NULL, release, comm);
        status = gyre_work_wait(work, -1);
        bad += rig_check(let_go == 1, comm, "the call ends when the copy is over");
        pthread_join(thread, NULL);
    } else {
        rig->shared->ready++;
        while (!(status = gyre_barrier(comm)))
            ;
    }
    rig_note(rig, comm, status, rig_now());
    bad += rig_check(gyre_free(comm, bench.memory[MAPPED]) == 0, comm, "gyre_free");
    uint8_t *alone = bench.memory[ALONE];
    bad += put(&bench, alone, LENGTH, 3) || check(comm, &bench, alone, LENGTH, 3);
    return tear_down(comm, &bench, GYRE_PEER_LOST, bad);
}

static void a_killed_sender(void **state)
{
    static const struct {
        const char *transport;
        readying before;
    } ways[] = {{"shm", two_devices}, {"shm", classic}, {"tcp", nodes}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = {.n = 3,
                          .transport = ways[i].transport,
                          .dead_ms = 5000,
                          .before = ways[i].before,
                          .body = outlive};
        rig_lose_rank_1(&rig, SIGKILL, 3);
    }
}

/* The sender lets go of what it still sends; what was begun is read to its end. */
static int free_under_a_copy(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work = NULL;
    struct gyre_domain *domain = comm->domain;
    int bad = begin(comm, rig, &bench, &work);
    if (gyre_rank(comm) == 1) {
        uint64_t offset;
        rig->shared->status[1] = (int)gyre_domain_locate(domain, GYRE_MEMORY_CUDA,
                                                         bench.memory[MAPPED], LENGTH, &offset);
        rig_until(&rig->shared->ready, 1);
        rig->shared->flag = 1;
        bad += rig_check(gyre_free(comm, bench.memory[MAPPED]) == 0, comm, "gyre_free");
    } else {
        rig_until(&rig->shared->flag, 1);
        uint64_t limit = rig_now() + 100000000; /* for what must not happen */
        while (rig_now() < limit)
            sched_yield();
        fakecuda_hold(false);
    }
    bad += rig_check(gyre_work_wait(work, -1) == 0, comm, "the message arrives");
    if (gyre_rank(comm) == 0)
        bad += check(comm, &bench, bench.memory[MAPPED], LENGTH, 7);
    return tear_down(comm, &bench, 0, bad + rig_check(gyre_barrier(comm) == 0, comm, "a barrier"));
}

static void memory_freed_under_a_copy(void **state)
{
    (void)state;
    run_both(2, free_under_a_copy);
}

/* -- what fails -------------------------------------------------------------------------------- */

/* Freed before the receiver has asked for it. */
static int free_too_soon(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work;
    int status = 0, bad = set_up(comm, &bench);
    uint8_t *memory = bench.memory[MAPPED];
    if (gyre_rank(comm) == 1) {
        bad += rig_check(gyre_send_start(comm, memory, LENGTH, GYRE_U8, 0, &work) == 0, comm,
                         "gyre_send_start");
        bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
        rig->shared->ready++;
        status = gyre_work_wait(work, -1);
    } else {
        rig_until(&rig->shared->ready, 1);
        status = gyre_recv(comm, memory, LENGTH, GYRE_U8, 1);
    }
    rig_note(rig, comm, status, rig_now());
    bad += rig_check(status < 0 && strstr(gyre_error(comm), "freed") != NULL, comm, "the story");
    return tear_down(comm, &bench, status, bad);
}

static void memory_freed_too_soon(void **state)
{
    (void)state;
    run_both(2, free_too_soon);
}

/* Rank 0's device is lost when it is asked to copy, or while it does. What goes over a wire is longer
 * than what has room on it, so its sender is told as well. */
static int lose_device(struct gyre_comm *comm, const struct rig *rig, const char *name)
{
    struct bench bench;
    room = strcmp(rig->transport, "tcp") ? LENGTH : LONGEST;
    int bad = set_up(comm, &bench);
    uint8_t *memory = bench.memory[MAPPED];
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (gyre_rank(comm) == 0)
        fakecuda_fail(name, 1, CUDA_ERROR_LAUNCH_FAILED);
    int status = gyre_rank(comm) == 0 ? gyre_recv(comm, memory, room, GYRE_U8, 1)
                                      : gyre_send(comm, memory, room, GYRE_U8, 0);
    bad += rig_check(status < 0 && strcasestr(gyre_error(comm), "cuda device 0") != NULL, comm,
                     "the story of a lost device");
    gyre_finalize(comm);
    return bad;
}

static int lose_when_asked(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "cuMemcpyAsync");
}

static int lose_at_work(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "copy");
}

static int lose_queue(struct gyre_comm *comm, struct rig *rig)
{
    return lose_device(comm, rig, "cuStreamCreateWithPriority");
}

static void lost_devices(void **state)
{
    (void)state;
    run_both(2, lose_when_asked);
    run_both(2, lose_at_work);
    run_by_wire(2, nodes, lose_when_asked);
    run_by_wire(2, nodes, lose_at_work);
    struct rig rig = {.n = 2, .transport = "shm", .before = one_device, .body = lose_queue};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_take_the_shortest_way), cmocka_unit_test(wires_carry_pieces),
        cmocka_unit_test(blocks_of_all_ranks_at_once),    cmocka_unit_test(unlike_ends_are_told),
        cmocka_unit_test(memory_freed_too_soon),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(staging_is_bounded),        cmocka_unit_test(one_end_has_no_device),
        cmocka_unit_test(devices_apart_are_staged),  cmocka_unit_test(a_killed_sender),
        cmocka_unit_test(memory_freed_under_a_copy), cmocka_unit_test(lost_devices),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
