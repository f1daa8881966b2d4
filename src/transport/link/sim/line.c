/* Bytes between two simulated ranks: two ways, each a ring of bytes with a ring of arrivals beside
 * it.
 *
 *     write ─▶ [ arrived │ under way ········ ]        chunk: (due, length) (due, length) …
 *     read  ◀────┘              ▲                             │
 *                               └── becomes `arrived` ◀── ARRIVE event at `due`
 *
 * The time of arrival is decided when bytes are written: after the bytes before them, at the link's
 * rate, its latency and jitter, rounded up where deliveries coalesce. Deliveries are cut where they
 * are split. Bytes never overtake each other. The end of a way is a chunk without bytes, and keeps
 * its place, too. A way holds at most the window; a writer that found the window full is woken one
 * latency after the reader made room.
 * Tested by tests/unit/transport/link/sim/world_test.c. */
#include "transport/link/sim/inside.h"

#include "base/crc.h"
#include "base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES  4096u
#define FIRST_CHUNKS 8u

static void way_init(struct gyre_sim_way *way, const struct gyre_sim_link *link,
                     struct gyre_sim_end *writer, struct gyre_sim_end *reader)
{
    *way = (struct gyre_sim_way){
        .link = *link, .writer = writer, .reader = reader, .corrupt_at = UINT64_MAX};
    writer->out = way;
    reader->in = way;
}

void gyre_sim_line_init(struct gyre_sim_line *line, struct gyre_sim_world *world, uint32_t low,
                        uint32_t high)
{
    line->key = (uint64_t)low << 32 | high;
    line->end[0] = (struct gyre_sim_end){.world = world, .rank = low};
    line->end[1] = (struct gyre_sim_end){.world = world, .rank = high};
    way_init(&line->way[0], &world->options.link, &line->end[0], &line->end[1]);
    way_init(&line->way[1], &world->options.link, &line->end[1], &line->end[0]);
}

static void forget_bytes(struct gyre_sim_way *way)
{
    free(way->bytes);
    free(way->chunk);
    way->bytes = NULL;
    way->chunk = NULL;
    way->capacity = way->start = way->length = way->arrived = 0;
    way->chunk_capacity = way->first_chunk = way->chunks = 0;
}

void gyre_sim_line_release(struct gyre_sim_line *line)
{
    forget_bytes(&line->way[0]);
    forget_bytes(&line->way[1]);
}

/* -- rings ------------------------------------------------------------------------------------- */

/* The place of byte `at` of the ring; *run: the number of bytes, of `most`, in one piece there. */
static uint8_t *ring_at(const struct gyre_sim_way *way, uint32_t at, uint32_t most, uint32_t *run)
{
    uint32_t place = (way->start + at) % way->capacity;
    *run = way->capacity - place < most ? way->capacity - place : most;
    return way->bytes + place;
}

static void sim_ring_put(struct gyre_sim_way *way, const uint8_t *bytes, uint32_t length)
{
    uint32_t run;
    for (uint32_t done = 0; done < length; done += run) {
        uint8_t *to = ring_at(way, way->length, length - done, &run);
        memcpy(to, bytes + done, run);
        way->length += run;
    }
}

static void sim_ring_take(struct gyre_sim_way *way, uint8_t *out, uint32_t length)
{
    uint32_t run;
    for (uint32_t done = 0; done < length; done += run) {
        const uint8_t *from = ring_at(way, 0, length - done, &run);
        memcpy(out + done, from, run);
        way->start = (way->start + run) % way->capacity;
        way->length -= run;
        way->arrived -= run;
    }
}

static bool grow_bytes(struct gyre_sim_way *way, uint32_t needed)
{
    uint32_t capacity = way->capacity ? way->capacity : FIRST_BYTES;
    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity == way->capacity) {
        return true;
    }
    uint8_t *bytes = malloc(capacity);
    if (!bytes) {
        return false;
    }
    struct gyre_sim_way old = *way;
    uint32_t run;
    for (uint32_t done = 0; done < old.length; done += run) {
        const uint8_t *from = ring_at(&old, done, old.length - done, &run);
        memcpy(bytes + done, from, run);
    }
    free(old.bytes);
    way->bytes = bytes;
    way->capacity = capacity;
    way->start = 0;
    return true;
}

static bool add_chunk(struct gyre_sim_way *way, uint64_t due, uint32_t length)
{
    if (way->chunks == way->chunk_capacity) {
        uint32_t capacity = way->chunk_capacity ? 2 * way->chunk_capacity : FIRST_CHUNKS;
        struct gyre_sim_chunk *chunk = malloc(capacity * sizeof *chunk);
        if (!chunk) {
            return false;
        }
        for (uint32_t i = 0; i < way->chunks; i++) {
            chunk[i] = way->chunk[(way->first_chunk + i) % way->chunk_capacity];
        }
        free(way->chunk);
        way->chunk = chunk;
        way->chunk_capacity = capacity;
        way->first_chunk = 0;
    }
    way->chunk[(way->first_chunk + way->chunks++) % way->chunk_capacity] =
        (struct gyre_sim_chunk){.due = due, .length = length};
    return true;
}

/* -- on the way -------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How long bytes take at a speed; 0: no limit. */
static uint64_t transfer_ns(uint32_t length, uint64_t bytes_per_second)
{
    return bytes_per_second
               ? (length * UINT64_C(1000000000) + bytes_per_second - 1) / bytes_per_second
               : 0;
}

/* When the last byte has left by a shared way out, and would be there if the way in is free. */
static uint64_t shared_due(const struct gyre_sim_way *way, uint32_t length)
{
    struct gyre_sim_world *world = way->writer->world;
    struct gyre_sim_rank *from = &world->rank[way->writer->rank];
    from->out_until =
        later(from->out_until, world->now) + transfer_ns(length, from->bytes_per_second);
    return from->out_until + way->link.latency_ns;
}

/* Takes the reader's shared way in, in the order in which bytes reach it: later, if it is busy. */
static void come_in(const struct gyre_sim_way *way, struct gyre_sim_chunk *chunk)
{
    struct gyre_sim_rank *to = &way->writer->world->rank[way->reader->rank];
    chunk->due = later(chunk->due, to->in_until + transfer_ns(chunk->length, to->bytes_per_second));
    chunk->comes_in = true;
    to->in_until = chunk->due;
}

static uint64_t own_due(struct gyre_sim_way *way, uint32_t length)
{
    const struct gyre_sim_link *link = &way->link;
    way->busy_until = later(way->busy_until, way->writer->world->now) +
                      transfer_ns(length, link->bytes_per_second);
    return way->busy_until + link->latency_ns;
}

static uint64_t due_time(struct gyre_sim_way *way, uint32_t length)
{
    struct gyre_sim_world *world = way->writer->world;
    const struct gyre_sim_link *link = &way->link;
    uint64_t due = world->options.shared_ways ? shared_due(way, length) : own_due(way, length);
    if (link->jitter_ns) {
        due += gyre_rng_below(&world->rng, link->jitter_ns + 1);
    }
    if (link->coalesce_ns) {
        due = (due + link->coalesce_ns - 1) / link->coalesce_ns * link->coalesce_ns;
    }
    way->last_due = due > way->last_due ? due : way->last_due;
    return way->last_due;
}

void gyre_sim_way_schedule(struct gyre_sim_way *way)
{
    struct gyre_sim_world *world = way->writer->world;
    if (way->scheduled || way->blocked || way->chunks == 0) {
        return;
    }
    uint64_t due = way->chunk[way->first_chunk].due;
    way->scheduled = true;
    gyre_sim_schedule(world, &(struct gyre_sim_event){.time = due > world->now ? due : world->now,
                                                      .kind = GYRE_SIM_ARRIVE,
                                                      .way = way,
                                                      .rank = way->reader->rank});
}

static void trace_chunk(struct gyre_sim_way *way, uint32_t length)
{
    struct gyre_sim_world *world = way->writer->world;
    uint32_t crc = 0, run;
    for (uint32_t done = 0; done < length; done += run) {
        const uint8_t *from = ring_at(way, way->arrived + done, length - done, &run);
        crc = gyre_crc32c(crc, from, run);
    }
    world->trace = gyre_mix64(world->trace ^ ((uint64_t)length << 32 | crc));
    world->delivered += length;
}

/* One chunk arrives where deliveries are split, else all chunks that are due. */
void gyre_sim_way_arrive(struct gyre_sim_way *way)
{
    uint64_t now = way->writer->world->now;
    way->scheduled = false;
    while (!way->blocked && way->chunks > 0 && way->chunk[way->first_chunk].due <= now) {
        struct gyre_sim_chunk *chunk = &way->chunk[way->first_chunk];
        uint32_t length = chunk->length;
        if (way->writer->world->options.shared_ways && !chunk->comes_in) {
            come_in(way, chunk);
            continue;
        }
        way->first_chunk = (way->first_chunk + 1) % way->chunk_capacity;
        way->chunks--;
        way->over = length == 0;
        trace_chunk(way, length);
        way->arrived += length;
        if (way->link.piece_bytes) {
            break;
        }
    }
    gyre_sim_way_schedule(way);
    if (way->reader->open) {
        gyre_sim_end_mark(way->reader);
    }
}

void gyre_sim_way_close(struct gyre_sim_way *way, bool at_once)
{
    struct gyre_sim_world *world = way->writer->world;
    if (at_once) {
        way->chunks = 0;
        way->scheduled = false; /* the event will find nothing */
        way->arrived = way->length = 0;
        way->blocked = false; /* nothing of the peer has to come through */
        way->last_due = way->busy_until = world->now;
    } else if (way->closed) {
        return;
    }
    way->closed = true;
    if (!add_chunk(way, at_once ? world->now : due_time(way, 0), 0)) {
        world->out_of_memory = true;
    }
    gyre_sim_way_schedule(way);
}

/* -- ends -------------------------------------------------------------------------------------- */

void gyre_sim_end_mark(struct gyre_sim_end *end)
{
    if (!end->marked) {
        end->marked = true;
        TAILQ_INSERT_TAIL(&end->world->rank[end->rank].marked, end, in_marked);
    }
}

void gyre_sim_end_unmark(struct gyre_sim_end *end)
{
    if (end->marked) {
        end->marked = false;
        TAILQ_REMOVE(&end->world->rank[end->rank].marked, end, in_marked);
    }
}

void gyre_sim_end_close(struct gyre_sim_end *end)
{
    gyre_sim_end_unmark(end);
    end->open = false;
    gyre_sim_way_close(end->out, false);
    end->in->length = end->in->arrived = 0;
    end->in->chunks = 0;
}

static uint32_t way_room(const struct gyre_sim_way *way)
{
    uint32_t window = way->writer->world->options.window_bytes;
    return way->length < window ? window - way->length : 0;
}

static void flip_bit(struct gyre_sim_way *way, uint32_t length)
{
    if (way->corrupt_at >= way->written && way->corrupt_at < way->written + length) {
        uint32_t run, at = way->length - length + (uint32_t)(way->corrupt_at - way->written);
        *ring_at(way, at, 1, &run) ^= (uint8_t)(1u << gyre_rng_below(&way->writer->world->rng, 8));
        way->corrupt_at = UINT64_MAX;
        way->flipped++;
    }
}

/* Cuts the last `length` bytes written into chunks. */
static bool send_off(struct gyre_sim_way *way, uint32_t length)
{
    struct gyre_rng *rng = &way->writer->world->rng;
    while (length > 0) {
        uint32_t part = length, most = way->link.piece_bytes;
        if (most) {
            part = 1 + (uint32_t)gyre_rng_below(rng, most < length ? most : length);
        }
        if (!add_chunk(way, due_time(way, part), part)) {
            return false;
        }
        length -= part;
    }
    return true;
}

static uint32_t sim_put_vectors(struct gyre_sim_way *way, const struct iovec *iov, int count,
                                uint32_t most)
{
    uint32_t done = 0;
    for (int i = 0; i < count && done < most; i++) {
        uint32_t part = iov[i].iov_len < most - done ? (uint32_t)iov[i].iov_len : most - done;
        sim_ring_put(way, iov[i].iov_base, part);
        done += part;
    }
    return done;
}

static uint32_t vector_bytes(const struct iovec *iov, int count, uint32_t most)
{
    uint32_t total = 0;
    for (int i = 0; i < count && total < most; i++) {
        total += iov[i].iov_len < most - total ? (uint32_t)iov[i].iov_len : most - total;
    }
    return total;
}

size_t gyre_sim_end_write(struct gyre_sim_end *end, const struct iovec *iov, int count)
{
    struct gyre_sim_way *way = end->out;
    struct gyre_sim_world *world = end->world;
    if (way->closed) {
        return 0;
    }
    uint32_t wanted = vector_bytes(iov, count, world->options.window_bytes);
    uint32_t length = way_room(way) < wanted ? way_room(way) : wanted;
    way->starved = length < wanted;
    if (length == 0) {
        return 0;
    }
    if (!grow_bytes(way, way->length + length)) {
        world->out_of_memory = true;
        return 0;
    }
    sim_put_vectors(way, iov, count, length);
    flip_bit(way, length);
    way->written += length;
    if (!send_off(way, length)) {
        world->out_of_memory = true;
    }
    gyre_sim_way_schedule(way);
    return length;
}

size_t gyre_sim_end_read(struct gyre_sim_end *end, const struct iovec *iov, int count)
{
    struct gyre_sim_way *way = end->in;
    struct gyre_sim_world *world = end->world;
    size_t done = 0;
    for (int i = 0; i < count && way->arrived > 0 && !world->rank[end->rank].dead; i++) {
        uint32_t part = iov[i].iov_len < way->arrived ? (uint32_t)iov[i].iov_len : way->arrived;
        sim_ring_take(way, iov[i].iov_base, part);
        done += part;
    }
    if (done > 0 && way->starved) {
        way->starved = false;
        gyre_sim_schedule(world, &(struct gyre_sim_event){.time = world->now + way->link.latency_ns,
                                                          .kind = GYRE_SIM_ROOM,
                                                          .way = way,
                                                          .rank = way->writer->rank});
    }
    return done;
}

bool gyre_sim_end_is_carried(const struct gyre_sim_end *end)
{
    return end->out->length > end->out->arrived;
}

bool gyre_sim_end_over(const struct gyre_sim_end *end)
{
    return end->in->over && end->in->arrived == 0;
}
