/* The simulated world: time, determinism, link models, faults; and worlds of many ranks. */
#include "transport/link/driver.h"
#include "transport/link/sim/world.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER 12345

struct rank {
    struct gyre_wire *wire;
    struct gyre_pipe *left, *right;
    int status; /* of the last completion */
    int done;
};

static struct gyre_sim_world *world_of(uint32_t n, uint64_t seed, struct gyre_sim_link link)
{
    struct gyre_sim_world *world;
    struct gyre_sim_options options = {.seed = seed, .n = n, .link = link, .posts = 8};
    assert_int_equal(gyre_sim_world_create(&options, &world), 0);
    return world;
}

static struct gyre_wire *wire_of(struct gyre_sim_world *world, uint32_t rank)
{
    struct gyre_wire *wire;
    struct gyre_wire_options options = {
        .rank = rank, .n = gyre_sim_world_size(world), .world = world};
    assert_int_equal(gyre_driver_sim.open(&options, &wire, NULL), 0);
    return wire;
}

static struct gyre_pipe *pipe_to(struct gyre_wire *wire, uint32_t peer)
{
    struct gyre_pipe *pipe;
    struct gyre_channel channel = {.peer = peer};
    assert_int_equal(gyre_driver_sim.attach(wire, &channel, &pipe, NULL), 0);
    return pipe;
}

/* Ranks 0 and 1 and a pipe between them. */
struct duo {
    struct gyre_sim_world *world;
    struct rank rank[2];
};

static struct duo duo_of(struct gyre_sim_link link)
{
    struct duo duo = {.world = world_of(2, 1, link)};
    for (uint32_t i = 0; i < 2; i++) {
        duo.rank[i].wire = wire_of(duo.world, i);
        duo.rank[i].right = pipe_to(duo.rank[i].wire, !i);
        duo.rank[i].status = NEVER;
    }
    return duo;
}

static void duo_end(struct duo *duo)
{
    gyre_driver_sim.close(duo->rank[0].wire);
    gyre_driver_sim.close(duo->rank[1].wire);
    gyre_sim_world_destroy(duo->world);
}

static void poll_rank(struct gyre_sim_world *world, struct rank *rank)
{
    struct gyre_completion done[8];
    int count = gyre_driver_sim.poll(rank->wire, gyre_sim_world_now(world), done, 8);
    for (int i = 0; i < count; i++) {
        rank->status = done[i].status;
        rank->done++;
    }
}

static void run_duo(struct duo *duo)
{
    int64_t rank;
    while ((rank = gyre_sim_world_step(duo->world)) >= 0) {
        poll_rank(duo->world, &duo->rank[rank]);
    }
}

static const struct gyre_match match = {.sequence = 1};

static void one_message(struct duo *duo, const void *data, void *out, uint64_t length)
{
    assert_int_equal(gyre_driver_sim.recv(duo->rank[1].right, &match, out, length, 1), 0);
    assert_int_equal(gyre_driver_sim.send(duo->rank[0].right, &match, data, length, 2), 0);
}

/* -- time -------------------------------------------------------------------------------------- */

static void latency_is_kept(void **state)
{
    struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 5000});
    uint32_t data = 7, out = 0;
    one_message(&duo, &data, &out, 4);
    run_duo(&duo);
    assert_int_equal(out, 7);
    assert_int_equal(gyre_sim_world_now(duo.world), 5000);
    assert_int_equal(gyre_sim_world_next(duo.world), UINT64_MAX);
    duo_end(&duo);
}

static void bandwidth_is_kept(void **state)
{
    enum { LENGTH = 10000000 };
    struct duo duo =
        duo_of((struct gyre_sim_link){.latency_ns = 1000, .bytes_per_second = 1000000000});
    uint8_t *data = calloc(1, LENGTH), *out = malloc(LENGTH);
    one_message(&duo, data, out, LENGTH);
    run_duo(&duo);
    assert_int_equal(duo.rank[1].status, 0);
    assert_in_range(gyre_sim_world_now(duo.world), 10000000, 10300000); /* 10 ms + windows */
    free(data);
    free(out);
    duo_end(&duo);
}

/* Ends of the connections of three ranks: end[a][b] is a's end of its connection to b. */
struct trio {
    struct gyre_sim_world *world;
    struct gyre_sim_end *end[3][3];
};

static struct trio trio_of_shared_ways(void)
{
    struct trio trio = {0};
    const struct gyre_sim_options options = {
        .n = 3, .link = {.latency_ns = 5000, .bytes_per_second = 1000000000}, .shared_ways = true};
    assert_int_equal(gyre_sim_world_create(&options, &trio.world), 0);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t b = 0; b < 3; b++)
            if (a != b)
                assert_int_equal(gyre_sim_end_open(trio.world, a, b, &trio, &trio.end[a][b]), 0);
    return trio;
}

static void trio_end(struct trio *trio)
{
    for (uint32_t i = 0; i < 9; i++)
        if (trio->end[i / 3][i % 3])
            gyre_sim_end_close(trio->end[i / 3][i % 3]);
    gyre_sim_world_destroy(trio->world);
}

static void write_thousand(struct trio *trio, uint32_t from, uint32_t to)
{
    static char bytes[1000];
    const struct iovec part = {bytes, sizeof bytes};
    assert_int_equal(gyre_sim_end_write(trio->end[from][to], &part, 1), sizeof bytes);
}

/* When the thousand bytes are there, next after what has been waited for. */
static uint64_t thousand_arrive(struct trio *trio, uint32_t from, uint32_t to)
{
    char bytes[1000];
    const struct iovec part = {bytes, sizeof bytes};
    while (gyre_sim_end_read(trio->end[to][from], &part, 1) == 0)
        assert_true(gyre_sim_world_step(trio->world) >= 0);
    return gyre_sim_world_now(trio->world);
}

static void ways_out_are_shared(void **state)
{
    (void)state;
    struct trio trio = trio_of_shared_ways();
    write_thousand(&trio, 0, 1);
    write_thousand(&trio, 0, 2);
    assert_int_equal(thousand_arrive(&trio, 0, 1), 6000);
    assert_int_equal(thousand_arrive(&trio, 0, 2), 7000);
    trio_end(&trio);
}

static void ways_in_are_shared_in_the_order_of_arrival(void **state)
{
    (void)state;
    struct trio trio = trio_of_shared_ways();
    gyre_sim_world_set_ways(trio.world, 2, 250000000);
    write_thousand(&trio, 2, 0); /* leaves after 4 us */
    write_thousand(&trio, 1, 0);
    write_thousand(&trio, 1, 0);
    assert_int_equal(thousand_arrive(&trio, 1, 0), 6000);
    assert_int_equal(thousand_arrive(&trio, 1, 0), 7000);
    assert_int_equal(thousand_arrive(&trio, 2, 0), 9000);
    write_thousand(&trio, 1, 0);
    write_thousand(&trio, 2, 0);
    gyre_sim_world_set_ways(trio.world, 0, 125000000); /* a thousand take 8 us to come in */
    assert_int_equal(thousand_arrive(&trio, 1, 0), 17000);
    assert_int_equal(thousand_arrive(&trio, 2, 0), 25000);
    trio_end(&trio);
}

static void a_wake_comes_at_its_time(void **state)
{
    struct gyre_sim_world *world = world_of(3, 1, (struct gyre_sim_link){0});
    gyre_sim_world_wake(world, 2, 300);
    gyre_sim_world_wake(world, 1, 100);
    gyre_sim_world_wake(world, 1, 100);
    gyre_sim_world_wake(world, 0, 300);
    assert_int_equal(gyre_sim_world_step(world), 1);
    assert_int_equal(gyre_sim_world_now(world), 100);
    assert_int_equal(gyre_sim_world_step(world), 2);
    assert_int_equal(gyre_sim_world_step(world), 0);
    assert_int_equal(gyre_sim_world_now(world), 300);
    assert_int_equal(gyre_sim_world_step(world), -1);
    gyre_sim_world_wake(world, 0, 5); /* the past is now */
    assert_int_equal(gyre_sim_world_step(world), 0);
    assert_int_equal(gyre_sim_world_now(world), 300);
    gyre_sim_world_destroy(world);
}

/* -- many ranks -------------------------------------------------------------------------------- */

struct ring {
    struct gyre_sim_world *world;
    struct rank *rank;
    uint32_t n, *token, finished;
};

static void ring_post(struct ring *ring, uint32_t i)
{
    struct rank *rank = &ring->rank[i];
    assert_int_equal(gyre_driver_sim.recv(rank->left, &match, &ring->token[i], 4, 1), 0);
}

/* A token goes round: each rank passes it on when it has come. */
static void ring_pass(struct ring *ring, uint32_t i)
{
    struct rank *rank = &ring->rank[i];
    int before = rank->done;
    poll_rank(ring->world, rank);
    if (before == 0 && rank->done > 0 && rank->status == 0) {
        ring->finished++;
        ring->token[i]++;
        if (i > 0) {
            assert_int_equal(gyre_driver_sim.send(rank->right, &match, &ring->token[i], 4, 2), 0);
        }
    }
}

static struct ring ring_of(uint32_t n, uint64_t seed, struct gyre_sim_link link)
{
    struct ring ring = {.world = world_of(n, seed, link), .n = n};
    ring.rank = calloc(n, sizeof *ring.rank);
    ring.token = calloc(n, sizeof *ring.token);
    for (uint32_t i = 0; i < n; i++) {
        ring.rank[i].wire = wire_of(ring.world, i);
        ring.rank[i].left = pipe_to(ring.rank[i].wire, (i + n - 1) % n);
        ring.rank[i].right = pipe_to(ring.rank[i].wire, (i + 1) % n);
        ring_post(&ring, i);
    }
    return ring;
}

static uint64_t ring_run(struct ring *ring)
{
    int64_t rank;
    static const uint32_t first = 0;
    assert_int_equal(gyre_driver_sim.send(ring->rank[0].right, &match, &first, 4, 2), 0);
    ring->rank[0].done = -1; /* its own send comes first */
    while ((rank = gyre_sim_world_step(ring->world)) >= 0) {
        ring_pass(ring, (uint32_t)rank);
    }
    uint64_t trace = gyre_sim_world_trace(ring->world);
    for (uint32_t i = 0; i < ring->n; i++) {
        gyre_driver_sim.close(ring->rank[i].wire);
    }
    gyre_sim_world_destroy(ring->world);
    free(ring->rank);
    return trace;
}

static uint64_t trace_of(uint64_t seed)
{
    struct gyre_sim_link link = {
        .latency_ns = 1000, .jitter_ns = 900, .bytes_per_second = 100000000, .piece_bytes = 9};
    struct ring ring = ring_of(16, seed, link);
    uint64_t trace = ring_run(&ring);
    assert_int_equal(ring.token[0], 16);
    free(ring.token);
    return trace;
}

static void the_same_seed_is_the_same_run(void **state)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        assert_true(trace_of(seed) == trace_of(seed));
        assert_true(trace_of(seed) != trace_of(seed + 1));
    }
}

static void a_ring_of_a_thousand(void **state)
{
    struct ring ring = ring_of(1000, 3, (struct gyre_sim_link){.latency_ns = 1000});
    ring_run(&ring);
    assert_int_equal(ring.finished, 1000);
    assert_int_equal(ring.token[0], 1000);
    free(ring.token);
}

/* What is not used costs nothing: two ranks of a hundred thousand. */
static void a_world_of_a_hundred_thousand(void **state)
{
    struct gyre_sim_world *world = world_of(100000, 1, (struct gyre_sim_link){.latency_ns = 1000});
    struct rank end[2] = {{.wire = wire_of(world, 7)}, {.wire = wire_of(world, 99999)}};
    uint32_t data = 5, out = 0;
    end[0].right = pipe_to(end[0].wire, 99999);
    end[1].right = pipe_to(end[1].wire, 7);
    assert_int_equal(gyre_driver_sim.recv(end[1].right, &match, &out, 4, 1), 0);
    assert_int_equal(gyre_driver_sim.send(end[0].right, &match, &data, 4, 2), 0);
    int64_t rank;
    while ((rank = gyre_sim_world_step(world)) >= 0) {
        poll_rank(world, &end[rank == 99999]);
    }
    assert_int_equal(out, 5);
    gyre_driver_sim.close(end[0].wire);
    gyre_driver_sim.close(end[1].wire);
    gyre_sim_world_destroy(world);
}

/* -- link models ------------------------------------------------------------------------------- */

static void every_link_model_carries_every_byte(void **state)
{
    static const struct gyre_sim_link links[] = {
        {0},
        {.latency_ns = 100, .jitter_ns = 100000},
        {.latency_ns = 100, .piece_bytes = 1},
        {.latency_ns = 100, .piece_bytes = 77, .jitter_ns = 1000, .bytes_per_second = 10000000},
        {.latency_ns = 100, .coalesce_ns = 50000, .bytes_per_second = 1000000000},
        {.bytes_per_second = 1000}};
    enum { LENGTH = 40000 };
    static uint8_t data[LENGTH], out[LENGTH];
    for (size_t l = 0; l < sizeof links / sizeof *links; l++) {
        struct duo duo = duo_of(links[l]);
        for (size_t i = 0; i < LENGTH; i++) {
            data[i] = (uint8_t)(i * 31 >> 3);
            out[i] = 0;
        }
        one_message(&duo, data, out, LENGTH);
        run_duo(&duo);
        assert_int_equal(duo.rank[1].status, 0);
        assert_memory_equal(data, out, LENGTH);
        if (links[l].coalesce_ns) {
            assert_int_equal(gyre_sim_world_now(duo.world) % links[l].coalesce_ns, 0);
        }
        duo_end(&duo);
    }
}

static void one_direction_can_be_slow(void **state)
{
    struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 10});
    struct gyre_sim_link slow = {.latency_ns = 1000000};
    uint32_t data = 1, out;
    gyre_sim_world_set_link(duo.world, 0, 1, &slow);
    one_message(&duo, &data, &out, 4);
    run_duo(&duo);
    assert_int_equal(gyre_sim_world_now(duo.world), 1000000);
    duo_end(&duo);
}

/* -- faults ------------------------------------------------------------------------------------ */

static void a_killed_rank_is_noticed_after_its_last_words(void **state)
{
    struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 1000});
    uint32_t data = 9, out = 0, never;
    struct gyre_match second = {.sequence = 2};
    one_message(&duo, &data, &out, 4);
    assert_int_equal(gyre_driver_sim.recv(duo.rank[1].right, &second, &never, 4, 3), 0);
    poll_rank(duo.world, &duo.rank[0]); /* it is written */
    gyre_sim_world_kill(duo.world, 0);
    assert_true(gyre_sim_world_dead(duo.world, 0));
    int64_t rank;
    while ((rank = gyre_sim_world_step(duo.world)) >= 0) {
        assert_int_equal(rank, 1);
        poll_rank(duo.world, &duo.rank[1]);
    }
    assert_int_equal(out, 9);
    assert_int_equal(duo.rank[1].done, 2);
    assert_int_equal(duo.rank[1].status, GYRE_PEER_LOST);
    assert_int_equal(gyre_driver_sim.state(duo.rank[1].right, NULL), GYRE_PEER_LOST);
    duo_end(&duo);
}

static void who_attaches_to_the_dead_is_told(void **state)
{
    struct gyre_sim_world *world = world_of(2, 1, (struct gyre_sim_link){.latency_ns = 10});
    struct rank rank = {.wire = wire_of(world, 0)};
    gyre_sim_world_kill(world, 1);
    rank.right = pipe_to(rank.wire, 1);
    while (gyre_sim_world_step(world) >= 0) {
        poll_rank(world, &rank);
    }
    assert_int_equal(gyre_driver_sim.state(rank.right, NULL), GYRE_PEER_LOST);
    gyre_driver_sim.close(rank.wire);
    gyre_sim_world_destroy(world);
}

/* A pipe whose line is yet to be made. */
static struct gyre_pipe *unmade_pipe_to(struct gyre_wire *wire, uint32_t peer)
{
    struct gyre_pipe *pipe;
    struct gyre_channel channel = {.peer = peer, .fd = {-1}, .fds = 1};
    assert_int_equal(gyre_driver_sim.attach(wire, &channel, &pipe, NULL), 0);
    return pipe;
}

static struct duo unmade_duo(void)
{
    struct duo duo = {.world = world_of(2, 1, (struct gyre_sim_link){.latency_ns = 10})};
    for (uint32_t i = 0; i < 2; i++) {
        duo.rank[i].wire = wire_of(duo.world, i);
        duo.rank[i].right = unmade_pipe_to(duo.rank[i].wire, !i);
        duo.rank[i].status = NEVER;
    }
    return duo;
}

static void what_was_posted_before_there_was_a_line_goes_over_it(void **state)
{
    struct duo duo = unmade_duo();
    struct gyre_break lost;
    uint32_t data = 9, out = 0;
    uint64_t received = 1;
    one_message(&duo, &data, &out, 4);
    run_duo(&duo);
    assert_int_equal(duo.rank[1].done, 0);
    assert_true(gyre_driver_sim.broken(duo.rank[0].wire, &lost));
    assert_true(lost.first && lost.peer == 1);
    assert_false(gyre_driver_sim.broken(duo.rank[0].wire, &lost)); /* told once */
    assert_int_equal(gyre_driver_sim.part(duo.rank[0].right, 0, 1, &received), 0);
    assert_int_equal(received, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gyre_driver_sim.renew(duo.rank[i].right, 0, -1, 1, 0), 0);
    run_duo(&duo);
    assert_int_equal(out, 9);
    assert_int_equal(gyre_driver_sim.part(duo.rank[0].right, 0, 2, &received), GYRE_INVALID);
    assert_int_equal(gyre_driver_sim.renew(duo.rank[0].right, 0, -1, 2, 0), GYRE_INVALID);
    assert_false(gyre_driver_sim.gone(duo.rank[0].right, 0, true));
    duo_end(&duo);
}

/* The peer has told that it left, or refuses. */
static void posts_end_without_a_line(void **state)
{
    struct gyre_match second = {.sequence = 2};
    struct gyre_alarm alarm;
    uint32_t out;
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct duo duo = unmade_duo();
        struct gyre_pipe *pipe = duo.rank[0].right;
        assert_int_equal(gyre_driver_sim.recv(pipe, &match, &out, 4, 1), 0);
        assert_int_equal(gyre_driver_sim.cancel(pipe, 1), 0);
        assert_int_equal(gyre_driver_sim.arm(duo.rank[0].wire, &alarm), GYRE_AGAIN);
        poll_rank(duo.world, &duo.rank[0]);
        assert_int_equal(duo.rank[0].status, -ECANCELED);
        assert_int_equal(gyre_driver_sim.arm(duo.rank[0].wire, &alarm), 0);
        assert_int_equal(gyre_driver_sim.recv(pipe, &second, &out, 4, 2), 0);
        assert_true(gyre_driver_sim.gone(pipe, 0, told));
        poll_rank(duo.world, &duo.rank[0]);
        assert_int_equal(duo.rank[0].status, GYRE_PEER_LOST);
        assert_int_equal(gyre_driver_sim.state(pipe, NULL), told ? GYRE_MISMATCH : GYRE_PEER_LOST);
        gyre_driver_sim.detach(pipe);
        duo_end(&duo);
    }
}

static void a_line_that_broke_before_both_had_it_is_told(void **state)
{
    struct duo duo = unmade_duo();
    assert_int_equal(gyre_driver_sim.renew(duo.rank[0].right, 0, -1, 1, 0), 0);
    gyre_sim_world_reset(duo.world, 0, 1);
    gyre_driver_sim.renew(duo.rank[1].right, 0, -1, 1, 0);
    run_duo(&duo);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gyre_driver_sim.state(duo.rank[i].right, NULL), GYRE_PEER_LOST);
    duo_end(&duo);
}

static void a_paused_rank_is_not_stepped_and_loses_nothing(void **state)
{
    struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 1000});
    uint32_t data = 9, out = 0;
    one_message(&duo, &data, &out, 4);
    gyre_sim_world_pause(duo.world, 1);
    run_duo(&duo);
    assert_int_equal(out, 0);
    assert_int_equal(duo.rank[1].done, 0);
    gyre_sim_world_resume(duo.world, 1);
    run_duo(&duo);
    assert_int_equal(out, 9);
    duo_end(&duo);
}

/* Whether the rank's count of what moves grows while time passes and nobody polls. */
static bool moves(struct duo *duo, int rank)
{
    uint64_t before = gyre_driver_sim.moved(duo->rank[rank].wire);
    gyre_sim_world_wake(duo->world, 0, gyre_sim_world_now(duo->world) + 5);
    assert_int_equal(gyre_sim_world_step(duo->world), 0);
    return gyre_driver_sim.moved(duo->rank[rank].wire) != before;
}

static void a_blocked_way_keeps_what_it_has(void **state)
{
    struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 1000});
    uint32_t data = 9, out = 0;
    one_message(&duo, &data, &out, 4);
    poll_rank(duo.world, &duo.rank[0]);
    gyre_sim_world_block(duo.world, 0, 1, true); /* with a delivery due already */
    run_duo(&duo);
    assert_int_equal(out, 0);
    assert_int_equal(duo.rank[0].done, 1); /* it is on its way */
    assert_int_equal(moves(&duo, 0), 1);
    assert_int_equal(moves(&duo, 1), 0);
    gyre_sim_world_block(duo.world, 0, 1, false);
    run_duo(&duo);
    assert_int_equal(out, 9);
    assert_int_equal(moves(&duo, 0), 0);
    duo_end(&duo);
}

static void a_corrupted_byte_is_seen_wherever_it_is(void **state)
{
    static uint8_t data[100], out[100];
    for (uint64_t at = 4; at < 132; at += 7) {
        struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 1000});
        gyre_sim_world_corrupt(duo.world, 0, 1, at);
        one_message(&duo, data, out, 100);
        assert_int_equal(gyre_sim_world_corrupted(duo.world, 0, 1), 0);
        run_duo(&duo);
        assert_int_equal(gyre_sim_world_corrupted(duo.world, 0, 1), 1);
        assert_int_equal(gyre_sim_world_corrupted(duo.world, 1, 0), 0);
        assert_int_equal(duo.rank[1].status, GYRE_CORRUPT);
        assert_int_equal(gyre_driver_sim.state(duo.rank[1].right, NULL), GYRE_CORRUPT);
        assert_int_equal(gyre_driver_sim.state(duo.rank[0].right, NULL), GYRE_PEER_LOST);
        duo_end(&duo);
    }
}

/* On an open line, and on one of which a way is blocked. */
static void a_reset_loses_what_was_under_way(void **state)
{
    for (int blocked = 0; blocked < 2; blocked++) {
        struct duo duo = duo_of((struct gyre_sim_link){.latency_ns = 1000});
        uint32_t data = 9, out = 0;
        one_message(&duo, &data, &out, 4);
        poll_rank(duo.world, &duo.rank[0]);
        gyre_sim_world_block(duo.world, 0, 1, blocked);
        gyre_sim_world_reset(duo.world, 0, 1);
        run_duo(&duo);
        assert_int_equal(out, 0);
        assert_int_equal(gyre_driver_sim.state(duo.rank[0].right, NULL), GYRE_PEER_LOST);
        assert_int_equal(gyre_driver_sim.state(duo.rank[1].right, NULL), GYRE_PEER_LOST);
        duo_end(&duo);
    }
}

static void wrong_arguments_are_named(void **state)
{
    struct gyre_sim_world *world;
    struct gyre_trouble trouble = {0};
    struct gyre_sim_options none = {.n = 0};
    assert_int_equal(gyre_sim_world_create(&none, &world), GYRE_INVALID);
    world = world_of(2, 1, (struct gyre_sim_link){0});
    struct gyre_wire *wire;
    struct gyre_wire_options outside = {.rank = 2, .n = 2, .world = world},
                             homeless = {.rank = 0, .n = 2};
    assert_int_equal(gyre_driver_sim.open(&outside, &wire, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "rank 2"));
    assert_int_equal(gyre_driver_sim.open(&homeless, &wire, NULL), GYRE_INVALID);
    wire = wire_of(world, 0);
    struct gyre_pipe *pipe;
    struct gyre_channel channel = {.peer = 0};
    assert_int_equal(gyre_driver_sim.attach(wire, &channel, &pipe, NULL), GYRE_INVALID);
    pipe_to(wire, 1);
    channel.peer = 1;
    assert_int_equal(gyre_driver_sim.attach(wire, &channel, &pipe, NULL), GYRE_INVALID); /* twice */
    gyre_driver_sim.close(wire);
    gyre_driver_sim.close(NULL);
    gyre_sim_world_destroy(world);
    gyre_sim_world_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_is_kept),
        cmocka_unit_test(bandwidth_is_kept),
        cmocka_unit_test(ways_out_are_shared),
        cmocka_unit_test(ways_in_are_shared_in_the_order_of_arrival),
        cmocka_unit_test(a_wake_comes_at_its_time),
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(a_ring_of_a_thousand),
        cmocka_unit_test(a_world_of_a_hundred_thousand),
        cmocka_unit_test(every_link_model_carries_every_byte),
        cmocka_unit_test(one_direction_can_be_slow),
        cmocka_unit_test(a_killed_rank_is_noticed_after_its_last_words),
        cmocka_unit_test(who_attaches_to_the_dead_is_told),
        cmocka_unit_test(what_was_posted_before_there_was_a_line_goes_over_it),
        cmocka_unit_test(posts_end_without_a_line),
        cmocka_unit_test(a_line_that_broke_before_both_had_it_is_told),
        cmocka_unit_test(a_paused_rank_is_not_stepped_and_loses_nothing),
        cmocka_unit_test(a_blocked_way_keeps_what_it_has),
        cmocka_unit_test(a_corrupted_byte_is_seen_wherever_it_is),
        cmocka_unit_test(a_reset_loses_what_was_under_way),
        cmocka_unit_test(wrong_arguments_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
