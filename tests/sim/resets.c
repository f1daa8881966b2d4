/* Two streams over one connection that breaks at any moment, any number of times in a row: what was
 * under way is lost, and goes once more out of gyre_kept, as transport/link/tcp/socket.c does it.
 *
 *     stream ─ gather ─▶ kept ─▶ kernel ═══▶ the other kernel ─▶ target ─ stream
 *                                  │ lost with the connection │  read even behind a reset
 *
 * A model of what two kernels do stands for sockets: how much they take, what arrives, what has
 * been acknowledged and what the writer knows of that, and an end that writes on for a while into a
 * connection that is broken. Sockets, pollers and who dials are in
 * unit/transport/link/tcp/renew_test.c.
 *
 *     sim_resets [--seeds N] [--seed FIRST]
 *
 * Each seed draws the sizes of rings and queues, messages of up to four rings both ways without
 * keys, authenticated and encrypted, and when the connection breaks. Every message arrives with its
 * bytes, every kept byte is the stream's, and none is missing. 4,000 seeds, in haste 300. */
#include "rig/haste.h"
#include "rig/stream_pair.h"
#include "rig/test.h"

#include "transport/link/tcp/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 12 /* each way */
#define LONGEST  8000
#define LOG      0x40000 /* bytes of a stream, at most */
#define TURNS    400000

/* One direction. Positions are of the stream's bytes. */
struct way {
    struct gyre_stream *writer, *reader;
    struct gyre_kept kept;
    size_t queue, ask_at, ask_bytes; /* what a kernel takes; when it is asked */
    uint64_t sent;                   /* by this connection's kernel, at most kept.to */
    uint64_t arrived;                /* at the other kernel, which has acknowledged that much */
    uint64_t known;                  /* of that to the writer's kernel */
    uint64_t received;               /* by the reader */
    bool cut;                        /* the writer has not noticed the break */
    uint8_t log[LOG];                /* all that the stream has ever given */
};

struct play {
    struct gyre_rng rng;
    struct stream_pair pair;
    struct way way[2]; /* way[i] is written by end i */
    uint8_t out[2][MESSAGES][LONGEST];
    uint32_t length[2][MESSAGES];
    int done[2]; /* completions of each end */
    int resets;
};

static uint64_t below(struct play *play, uint64_t bound)
{
    return gyre_rng_below(&play->rng, bound);
}

static const uint8_t *message(int end, int i)
{
    static uint8_t data[LONGEST + 2 * MESSAGES];
    for (size_t at = 0; data[1] == 0 && at < sizeof data; at++)
        data[at] = (uint8_t)gyre_mix64(at);
    return data + end * MESSAGES + i;
}

/* -- out --------------------------------------------------------------------------------------- */

/* As socket.c: kept bytes before the stream's. */
static int gather(struct way *way, struct iovec *iov, int max)
{
    return way->sent < way->kept.to ? gyre_kept_gather(&way->kept, way->sent, iov, max)
                                    : gyre_stream_gather(way->writer, iov, max);
}

/* Notes, or compares, what goes out from position `sent` on. */
static void log_bytes(struct way *way, const struct iovec *iov, int count, size_t bytes)
{
    uint64_t at = way->sent, end = at + bytes;
    assert_true(end <= LOG);
    for (int i = 0; i < count && at < end; i++) {
        size_t part = iov[i].iov_len < end - at ? iov[i].iov_len : (size_t)(end - at);
        if (way->sent < way->kept.to)
            assert_memory_equal(way->log + at, iov[i].iov_base, part);
        else
            memcpy(way->log + at, iov[i].iov_base, part);
        at += part;
    }
}

static void arrive(struct play *play, struct way *way)
{
    if (!way->cut)
        way->arrived += below(play, way->sent - way->arrived + 1);
    if (!way->cut && below(play, 2))
        way->known += below(play, way->arrived - way->known + 1);
}

static void keep(struct play *play, struct way *way, const struct iovec *iov, int count,
                 size_t bytes)
{
    uint64_t arrived = 0;
    way->sent += bytes;
    arrive(play, way); /* some may arrive before the kernel is asked */
    if (way->kept.to - way->kept.from + bytes >= way->ask_at)
        arrived = way->known;
    gyre_kept_add(&way->kept, iov, count, bytes, arrived);
    if (arrived)
        way->ask_at = (size_t)(way->kept.to - way->kept.from) + way->ask_bytes;
    gyre_stream_wrote(way->writer, bytes);
}

static size_t sum_lengths(const struct iovec *iov, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += iov[i].iov_len;
    return total;
}

static void write_some(struct play *play, struct way *way)
{
    struct iovec iov[4];
    int count = gather(way, iov, 4);
    size_t room = way->queue - (size_t)(way->sent - way->known), bytes = sum_lengths(iov, count);
    bytes = bytes < room ? bytes : room;
    if (bytes == 0)
        return;
    bytes -= below(play, 4) ? 0 : below(play, bytes);
    log_bytes(way, iov, count, bytes);
    if (way->sent < way->kept.to)
        way->sent += bytes;
    else
        keep(play, way, iov, count, bytes);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void read_some(struct way *way, uint64_t most)
{
    while (most > 0 && way->received < way->arrived) {
        uint64_t left = way->arrived - way->received;
        struct iovec to[2], from = {way->log + way->received, left < most ? left : most};
        int count = gyre_stream_target(way->reader, to);
        size_t moved = stream_copy(&from, 1, to, count, SIZE_MAX);
        assert_int_equal(gyre_stream_read(way->reader, moved), 0);
        way->received += moved;
        most -= moved;
    }
}

/* -- breaks ------------------------------------------------------------------------------------ */

/* The end reads what its kernel has acknowledged, and leaves the connection. */
static void part(struct play *play, int end)
{
    read_some(&play->way[!end], UINT64_MAX);
    play->way[end].sent = play->way[end].kept.to;
}

static void renew(struct way *way)
{
    assert_true(gyre_kept_reaches(&way->kept, way->received));
    gyre_kept_forget(&way->kept, way->received);
    way->sent = way->arrived = way->known = way->received;
    way->ask_at = way->ask_bytes;
    way->cut = false;
}

/* What had not arrived is lost, both ways. One end notices first; the other writes on meanwhile. */
static void reset(struct play *play)
{
    int first = (int)below(play, 2);
    play->way[0].cut = play->way[1].cut = true;
    part(play, first);
    for (uint64_t turns = below(play, 4); turns > 0; turns--)
        write_some(play, &play->way[!first]);
    part(play, !first);
    renew(&play->way[0]);
    renew(&play->way[1]);
    play->resets++;
}

/* -- a seed ------------------------------------------------------------------------------------ */

static void open_way(struct play *play, int end)
{
    struct way *way = &play->way[end];
    const size_t first = 64 + below(play, 600);
    const int doublings = (int)below(play, 4);
    const size_t most = first << doublings;
    *way = (struct way){.writer = play->pair.end[end], .reader = play->pair.end[!end]};
    way->queue = 64 + below(play, most - 63);
    way->ask_at = way->ask_bytes = 1 + below(play, most);
    assert_int_equal(gyre_kept_init(&way->kept, first, doublings), 0);
}

static void post_all(struct play *play, int end)
{
    for (int i = 0; i < MESSAGES; i++) {
        struct gyre_match match = {.comm = 1, .sequence = 1, .order = (uint16_t)(2 * i + end)};
        play->length[end][i] = (uint32_t)below(play, below(play, 3) ? 300 : LONGEST);
        assert_int_equal(gyre_stream_recv(play->pair.end[!end], &match, play->out[!end][i],
                                          play->length[end][i], 1),
                         0);
        assert_int_equal(
            gyre_stream_send(play->pair.end[end], &match, message(end, i), play->length[end][i], 2),
            0);
    }
}

static void fetch(struct play *play, int end)
{
    struct gyre_completion done[4];
    int count = gyre_stream_complete(play->pair.end[end], done, 4);
    for (int i = 0; i < count; i++)
        assert_int_equal(done[i].status, 0);
    play->done[end] += count;
}

static void turn(struct play *play, uint64_t rarity)
{
    struct way *way = &play->way[below(play, 2)];
    switch (below(play, 4)) {
    case 0:
        write_some(play, way);
        break;
    case 1:
        arrive(play, way);
        break;
    case 2:
        read_some(way, 1 + below(play, 2000));
        break;
    default:
        for (uint64_t times = below(play, rarity) ? 0 : 1 + below(play, 3); times > 0; times--)
            reset(play);
    }
    fetch(play, 0);
    fetch(play, 1);
}

static void check(struct play *play)
{
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < MESSAGES; i++)
            assert_memory_equal(play->out[!end][i], message(end, i), play->length[end][i]);
}

static int play_seed(uint64_t seed)
{
    static struct play play;
    static const struct gyre_stream_options options = {
        .epoch = 7, .posts = 2 * MESSAGES, .checksum = true, .eager = 1024};
    gyre_rng_seed(&play.rng, seed);
    play.done[0] = play.done[1] = play.resets = 0;
    play.pair = (struct stream_pair){0};
    assert_int_equal(stream_pair_open(&play.pair, options, (enum gyre_seal_mode)below(&play, 3)),
                     0);
    const uint64_t rarity = 2 + below(&play, 30);
    for (int end = 0; end < 2; end++)
        open_way(&play, end);
    for (int end = 0; end < 2; end++)
        post_all(&play, end);
    for (int turns = 0; play.done[0] < 2 * MESSAGES || play.done[1] < 2 * MESSAGES; turns++) {
        assert_true(turns < TURNS);
        turn(&play, rarity + (uint64_t)turns / 1000); /* so that it ends */
    }
    check(&play);
    for (int end = 0; end < 2; end++) {
        gyre_kept_deinit(&play.way[end].kept);
        gyre_stream_destroy(play.pair.end[end]);
    }
    return play.resets;
}

static uint64_t first = 1, seeds;

static void breaks_lose_no_byte(void **state)
{
    uint64_t resets = 0;
    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        print_message("seed %llu\r", (unsigned long long)seed);
        resets += (uint64_t)play_seed(seed);
    }
    print_message("%llu seeds, %llu resets\n", (unsigned long long)seeds,
                  (unsigned long long)resets);
    assert_true(resets > seeds);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(breaks_lose_no_byte)};
    seeds = in_haste() ? 300 : 4000;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--seeds"))
            seeds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            first = strtoull(argv[i + 1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
