/* Messages of CUDA memory between real processes, over the stand-in: which way they take, told by
 * the copies that each end posts, and that they are right; how much of one is on its way at a time.
 * tests/gpu/run has the first group run on real devices, as GYRE_DEVICES lists them; copies are not
 * counted there. */
#include "program/cuda/messages_rig.h"

#include "collectives/comm/communicator.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>

/* -- every way --------------------------------------------------------------------------------- */

static const uint64_t lengths[] = {0, 100, 16384, 16385, 300001, LENGTH};

enum { SIZES = sizeof(lengths) / sizeof(*lengths) };

/* Whether a message from memory of this process goes by a window: inside a node, where devices
 * reach each other's memory. */
static bool by_window(const struct rig *rig, enum kind from, uint64_t bytes)
{
    const bool near = rig->before == messages_two_devices || rig->before == messages_classic;
    return near && from == ALONE && bytes > 65536;
}

/* How many copies each end has to post: the receiver one between devices, some where the host's
 * memory takes part; the sender of mapped memory none, and one to a window. */
static int count_copies(const struct rig *rig, enum kind from, enum kind to, uint64_t bytes,
                        int copies, bool sends)
{
    bool direct = bytes > 16384, none = !bytes, window = by_window(rig, from, bytes);
    int trips = (int)((bytes + (1 << 20) - 1) >> 20);
    int sender = window ? 1 : none || from > ALONE || (from == MAPPED && direct) ? 0 : trips;
    from = window ? MAPPED : from;
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

static int one_message(struct gyre_comm *comm, const struct rig *rig, const struct bench *bench,
                       enum kind from, enum kind to, uint64_t bytes)
{
    int rank = gyre_rank(comm);
    bool sends = rank == 0;
    uint8_t *memory = bench->memory[sends ? from : to] + SKEW;
    unsigned seed = (unsigned)(from * KINDS + to);
    if (bytes &&
        (sends ? messages_put(bench, memory, bytes, seed) : messages_put(bench, memory, bytes, 99)))
        return 1;
    int before = fakecuda_calls("cuMemcpyAsync");
    int status = sends ? gyre_send(comm, memory, bytes, GYRE_U8, 1)
                       : gyre_recv(comm, memory, bytes, GYRE_U8, 0);
    int copies = fakecuda_calls("cuMemcpyAsync") - before;
    int bad = rig_check(status == 0, comm, sends ? "gyre_send" : "gyre_recv");
    bad += count_copies(rig, from, to, bytes, copies, sends);
    return bad || sends || !bytes ? bad : messages_check(comm, bench, memory, bytes, seed);
}

static int every_way(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = messages_set_up(comm, &bench);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier"); /* trials make copies, too */
    for (int way = 0; way < KINDS * KINDS && !bad; way++)
        for (int size = 0; size < SIZES && !bad; size++)
            bad = one_message(comm, rig, &bench, (enum kind)(way / KINDS), (enum kind)(way % KINDS),
                              lengths[size]);
    return messages_tear_down(comm, &bench, 0, bad);
}

/* -- in pieces ------------------------------------------------------------------------------- */

static int pieces_of(uint64_t bytes)
{
    return (int)((bytes + PIECE - 1) / PIECE);
}

/* A device's end posts a copy for each piece, or one by a window; the host's none, but from one. */
static int copies_of(const struct rig *rig, const enum kind way[2], bool sends, uint64_t bytes)
{
    if (by_window(rig, way[0], bytes))
        return sends || way[1] <= ALONE ? 1 : pieces_of(bytes);
    return way[!sends] <= ALONE ? pieces_of(bytes) : 0;
}

static int one_in_pieces(struct gyre_comm *comm, const struct rig *rig, const struct bench *bench,
                         const enum kind way[2], uint64_t bytes, unsigned seed)
{
    bool sends = gyre_rank(comm) == 0;
    uint8_t *memory = bench->memory[way[!sends]] + SKEW;
    if (bytes && messages_put(bench, memory, bytes, sends ? seed : 99))
        return 1;
    int before = fakecuda_calls("cuMemcpyAsync");
    int status = sends ? gyre_send(comm, memory, bytes, GYRE_U8, 1)
                       : gyre_recv(comm, memory, bytes, GYRE_U8, 0);
    int copies = fakecuda_calls("cuMemcpyAsync") - before;
    int bad = rig_check(status == 0, comm, sends ? "gyre_send" : "gyre_recv");
    bad += rig_check(copies == copies_of(rig, way, sends, bytes) || !fakecuda_stands_in(), comm,
                     "a copy of each piece");
    return bad || sends || !bytes ? bad : messages_check(comm, bench, memory, bytes, seed);
}

static int in_pieces(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t wire[] = {0, 1, 70000, PIECE - 1, PIECE, PIECE + 1, 4 * PIECE, LONG};
    static const enum kind ways[][2] = {{ALONE, ALONE}, {ALONE, OWN}, {OWN, ALONE}, {OWN, SHARED}};
    struct bench bench;
    messages_room = LONG;
    int bad = messages_set_up(comm, &bench);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier"); /* trials make copies, too */
    for (int way = 0; way < 4 && !bad; way++)
        for (unsigned i = 0; i < sizeof(wire) / sizeof(*wire) && !bad; i++)
            bad = one_in_pieces(comm, rig, &bench, ways[way], wire[i], (unsigned)way * 8 + i);
    return messages_tear_down(comm, &bench, 0, bad);
}

/* Both ends cut alike, though only rank 0 knows a device. */
static int to_the_host(struct gyre_comm *comm, struct rig *rig)
{
    static uint8_t bytes[LONG];
    struct bench bench = {0};
    int bad = 0;
    (void)rig;
    messages_room = LONG;
    if (gyre_rank(comm) == 0) {
        bad += messages_set_up(comm, &bench) || messages_put(&bench, bench.memory[ALONE], LONG, 4);
        bad += gyre_send(comm, bench.memory[ALONE], LONG, GYRE_U8, 1);
        bad += gyre_recv(comm, bench.memory[MAPPED], LONG, GYRE_U8, 1);
        bad += messages_check(comm, &bench, bench.memory[MAPPED], LONG, 4);
        return messages_tear_down(comm, &bench, 0, rig_check(!bad, comm, "there and back"));
    }
    bad += gyre_recv(comm, bytes, LONG, GYRE_U8, 0);
    bad += gyre_send(comm, bytes, LONG, GYRE_U8, 0);
    return rig_check(!bad, comm, "there and back") + (gyre_finalize(comm) != 0);
}

/* One end is cut, and the other in another way, or not. */
static int unlike(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    const uint64_t *received = rig->argument;
    messages_room = LONG;
    int bad = messages_set_up(comm, &bench);
    uint8_t *memory = bench.memory[ALONE];
    int status = gyre_rank(comm) == 0 ? gyre_send(comm, memory, LONG, GYRE_U8, 1)
                                      : gyre_recv(comm, memory, *received, GYRE_U8, 0);
    bad += rig_check(status == GYRE_MISMATCH, comm, "ends that differ");
    return messages_tear_down(comm, &bench, status, bad);
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

/* Nobody receives: four pieces are asked for. The receiver's device stands still: as many have come
 * over, and the next are in the sender's host memory, of which there is no more. */
static int few_at_a_time(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_work *work = NULL;
    messages_room = LONGEST;
    int bad = messages_set_up(comm, &bench), sends = gyre_rank(comm) == 0;
    uint8_t *memory = bench.memory[ALONE];
    bad += messages_put(&bench, memory, LONGEST, sends ? 5 : 6);
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
        bad += messages_check(comm, &bench, memory, LONGEST, 5);
    return messages_tear_down(comm, &bench, 0, bad);
}

/* Many long ones at once, of either direction: staged messages are used again, and more than are
 * kept. */
static int crowd(struct gyre_comm *comm, struct rig *rig)
{
    enum { MESSAGES = 10, EACH = PIECE + 4096, APART = 2 << 20 };
    struct gyre_work *work[2][MESSAGES];
    struct bench bench;
    int bad = 0, peer = !gyre_rank(comm);
    (void)rig;
    messages_room = MESSAGES * APART;
    bad += messages_set_up(comm, &bench);
    uint8_t *from = bench.memory[MAPPED], *to = bench.memory[ALONE];
    for (int turn = 0; turn < 2 && !bad; turn++) {
        for (unsigned i = 0; i < MESSAGES; i++)
            bad += messages_put(&bench, from + i * APART, EACH, i + (unsigned)turn);
        for (unsigned i = 0; i < MESSAGES && !bad; i++) {
            bad += gyre_send_start(comm, from + i * APART, EACH, GYRE_U8, peer, &work[0][i]);
            bad += gyre_recv_start(comm, to + i * APART, EACH, GYRE_U8, peer, &work[1][i]);
        }
        for (unsigned i = 0; i < MESSAGES && !bad; i++)
            bad += gyre_work_wait(work[1][MESSAGES - 1 - i], -1) || gyre_work_wait(work[0][i], -1);
        for (unsigned i = 0; i < MESSAGES && !bad; i++)
            bad += messages_check(comm, &bench, to + i * APART, EACH, i + (unsigned)turn);
    }
    return messages_tear_down(comm, &bench, 0, rig_check(!bad, comm, "many messages"));
}

/* Blocks of unequal lengths to everybody, and back the other way round, at once. */
static int many_at_once(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int rank = gyre_rank(comm), n = gyre_size(comm), bad = messages_set_up(comm, &bench);
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
            bad += out[peer] && messages_put(&bench, input + out_at[peer], out[peer],
                                             (unsigned)(rank * 4 + peer));
        bad +=
            rig_check(gyre_all_to_all_v(comm, input, out, out_at, output, in, in_at, GYRE_U8) == 0,
                      comm, "gyre_all_to_all_v");
        for (int peer = 0; peer < n && !bad; peer++)
            bad += messages_check(comm, &bench, output + in_at[peer], in[peer],
                                  (unsigned)(peer * 4 + rank));
    }
    return messages_tear_down(comm, &bench, 0,
                              bad + rig_check(gyre_barrier(comm) == 0, comm, "a barrier"));
}

/* -- jobs -------------------------------------------------------------------------------------- */

static void no_device_in_rank_1(const struct rig *rig, int rank)
{
    messages_nodes(rig, rank);
    if (rank == 1)
        setenv("FAKECUDA_DEVICES", "none", 1);
}

static void messages_take_the_shortest_way(void **state)
{
    (void)state;
    messages_run_both(2, every_way);
}

static void pieces_are_carried(void **state)
{
    (void)state;
    messages_run_both(2, in_pieces);
    messages_run_both(2, crowd);
    messages_run_by_wire(2, messages_nodes, in_pieces);
    messages_run_by_wire(2, messages_nodes, crowd);
    messages_run_by_wire(3, messages_nodes, many_at_once);
}

static void unlike_ends_are_told(void **state)
{
    static const uint64_t received[] = {LONG - PIECE, PIECE, 100};
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct rig rig = {.n = 2,
                          .transport = i % 2 ? "tcp" : "shm",
                          .before = i % 2 ? messages_nodes : messages_two_devices,
                          .body = unlike,
                          .argument = (void *)(uintptr_t)&received[i / 2]};
        assert_int_equal(rig_run(&rig, SECONDS), 0);
    }
}

static void one_end_has_no_device(void **state)
{
    (void)state;
    messages_run_by_wire(2, no_device_in_rank_1, to_the_host);
}

static void blocks_of_all_ranks_at_once(void **state)
{
    (void)state;
    messages_run_both(3, many_at_once);
}

/* Devices that do not reach each other map nothing: the same bytes, by the host. */
static void apart(const struct rig *rig, int rank)
{
    const messages_readying *before = rig->argument;
    (*before)(rig, rank);
    setenv("FAKECUDA_PEERS", "0", 1);
}

static int staged(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    uint64_t offset;
    int bad = messages_set_up(comm, &bench);
    bad += rig_check(
        !gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, bench.memory[MAPPED], LENGTH, &offset),
        comm, "a region that the other device cannot map");
    bench.memory[ALONE] = bench.memory[MAPPED]; /* which it is, then */
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    for (int size = 0; size < SIZES && !bad; size++)
        bad = one_message(comm, rig, &bench, ALONE, ALONE, lengths[size]);
    return messages_tear_down(comm, &bench, 0, bad);
}

static void run_apart(int (*body)(struct gyre_comm *, struct rig *))
{
    static const messages_readying modes[] = {messages_two_devices, messages_classic};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 2,
                          .transport = "shm",
                          .before = apart,
                          .body = body,
                          .argument = (void *)(uintptr_t)&modes[i]};
        assert_int_equal(rig_run(&rig, SECONDS), 0);
    }
}

static void devices_apart_are_staged(void **state)
{
    (void)state;
    run_apart(staged);
}

static void staging_is_bounded(void **state)
{
    (void)state;
    run_apart(few_at_a_time);
    messages_run_by_wire(2, messages_nodes, few_at_a_time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_take_the_shortest_way),
        cmocka_unit_test(pieces_are_carried),
        cmocka_unit_test(blocks_of_all_ranks_at_once),
        cmocka_unit_test(unlike_ends_are_told),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(staging_is_bounded),
        cmocka_unit_test(one_end_has_no_device),
        cmocka_unit_test(devices_apart_are_staged),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(planted, NULL, NULL) : failed;
}
