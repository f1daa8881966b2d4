/* How many elements: none, more than 2^32, and buffers that begin at any byte.
 *
 * The large one is u8 with 2^32 + 2^26 + 5 elements, in place, on memory that both ranks map; with
 * 2^32 + 5 no slice would begin beyond 2^32, and an offset cut to 32 bits would not show. Its
 * buffers are 8.7 GB; where that is not free the test says so and skips. Filling and checking must
 * not take longer than the operation, so only marks are written and looked at: one byte every
 * 4,097, the last one, and those around every power of two from 2^8, where a count or an offset
 * that was cut would show. In haste there is no large one. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/sanitized.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- beyond 2^32 ------------------------------------------------------------------------------- */

#define HUGE_COUNT ((UINT64_C(1) << 32) + (UINT64_C(1) << 26) + 5)
#define STRIDE     4097u

static uint8_t mark(int rank, uint64_t i)
{
    return (uint8_t)(i * 2654435761u >> 13) + (uint8_t)(rank * 91 + 1);
}

/* Calls `visit` for every marked place; the first one that it refuses, else HUGE_COUNT. */
static uint64_t each_mark(bool (*visit)(uint8_t *data, uint64_t i, int rank), uint8_t *data,
                          int rank)
{
    for (uint64_t i = 0; i < HUGE_COUNT; i += STRIDE)
        if (!visit(data, i, rank))
            return i;
    for (int power = 8; power <= 32; power++)
        for (uint64_t i = (UINT64_C(1) << power) - 3; i < (UINT64_C(1) << power) + 4; i++)
            if (!visit(data, i, rank))
                return i;
    return visit(data, HUGE_COUNT - 1, rank) ? HUGE_COUNT : HUGE_COUNT - 1;
}

static bool put_mark(uint8_t *data, uint64_t i, int rank)
{
    data[i] = mark(rank, i);
    return true;
}

static bool is_sum(uint8_t *data, uint64_t i, int rank)
{
    (void)rank;
    return data[i] == (uint8_t)(mark(0, i) + mark(1, i));
}

static int huge(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm);
    void *memory;
    uint64_t bad;
    (void)rig;
    if (gyre_alloc(comm, HUGE_COUNT + 1, &memory)) {
        fprintf(stderr, "rank %d: %s\n", rank, gyre_error(comm));
        return 2;
    }
    uint8_t *data = memory;
    data[HUGE_COUNT] = 0xA5;
    each_mark(put_mark, data, rank);
    if (gyre_all_reduce(comm, data, data, HUGE_COUNT, GYRE_U8, GYRE_SUM)) {
        fprintf(stderr, "rank %d: %s\n", rank, gyre_error(comm));
        return 3;
    }
    if (data[HUGE_COUNT] != 0xA5)
        return 5; /* one byte too far */
    if ((bad = each_mark(is_sum, data, rank)) != HUGE_COUNT) {
        fprintf(stderr, "rank %d: element %llu is %d, expected %d\n", rank, (unsigned long long)bad,
                data[bad], (uint8_t)(mark(0, bad) + mark(1, bad)));
        return 4;
    }
    return gyre_finalize(comm);
}

static uint64_t free_bytes(void)
{
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %lld kB", &kib);
    if (file)
        fclose(file);
    return (uint64_t)kib << 10;
}

static bool skipped;

static void more_than_4_gib(void **state)
{
    (void)state;
#ifdef SANITIZED
    print_message("skipped: sanitizers make minutes of so many elements\n");
    skip();
#endif
    if (in_haste()) {
        print_message("skipped: more than 2^32 elements want --all\n");
        skip();
    }
    skipped = free_bytes() < 2 * HUGE_COUNT + (UINT64_C(1) << 30);
    if (skipped) {
        print_message("skipped: %.1f GB of memory are free, more than 2^32 elements want 9.8\n",
                      (double)free_bytes() / 1e9);
        skip();
    }
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = huge}, 180), 0);
}

/* -- any byte ---------------------------------------------------------------------------------- */

#ifdef SANITIZED /* 20 times slower */
#define LARGE_STRIDE 31
#else
#define LARGE_STRIDE 9
#endif
#define ROOM (70000u * 8 + 128)

struct skewed {
    uint8_t *in, *out;
    size_t bytes;
};

static uint8_t byte_of(int rank, size_t i)
{
    return (uint8_t)(i * 13 + (size_t)rank * 5);
}

/* All bytes around [out, out + bytes) are as they were: 128 in all, by all skews. */
static bool untouched(const uint8_t *room, const struct skewed *at)
{
    for (size_t i = 0; i < at->bytes + 128; i++) {
        bool inside = room + i >= at->out && room + i < at->out + at->bytes;
        if (!inside && room[i] != 0x77)
            return false;
    }
    return true;
}

/* Wrapping sums of i64 over bytes that are no addresses of i64. */
static bool sums_right(const struct skewed *at, int n)
{
    for (size_t i = 0; i < at->bytes; i += 8) {
        uint64_t want = 0, got;
        for (int rank = 0; rank < n; rank++) {
            uint64_t part = 0;
            for (int b = 7; b >= 0; b--)
                part = part << 8 | byte_of(rank, i + (size_t)b);
            want += part;
        }
        memcpy(&got, at->out + i, 8);
        if (got != want)
            return false;
    }
    return true;
}

static int try_skew(struct gyre_comm *comm, uint8_t *room[2], size_t skew, uint64_t count)
{
    int rank = gyre_rank(comm), n = gyre_size(comm);
    size_t other = (skew * 7 + (size_t)rank * 11) % 64; /* another one on each rank */
    struct skewed at = {room[0] + skew, room[1] + other, count * 8};
    memset(room[1], 0x77, at.bytes + 128);
    for (size_t i = 0; i < at.bytes; i++)
        at.in[i] = byte_of(rank, i);
    if (gyre_all_reduce(comm, at.in, at.out, count, GYRE_I64, GYRE_SUM))
        return 2;
    if (!sums_right(&at, n) || !untouched(room[1], &at))
        return 3;
    memset(room[1], 0x77, at.bytes + 128);
    if (gyre_broadcast(comm, rank == 1 ? at.in : NULL, at.out, count, GYRE_I64, 1))
        return 4;
    for (size_t i = 0; i < at.bytes; i++)
        if (at.out[i] != byte_of(1, i))
            return 5;
    return untouched(room[1], &at) ? 0 : 6;
}

static int skew_all(struct gyre_comm *comm, uint8_t *room[2])
{
    static const uint64_t counts[] = {0, 1, 9, 513, 3000, 70000};
    for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t skew = 1; skew<64; skew += counts[c]> 1000 ? 9 : 1) {
            int bad = try_skew(comm, room, skew, counts[c]);
            if (bad) {
                fprintf(stderr, "rank %d: %llu elements, skew %zu: check %d; %s\n", gyre_rank(comm),
                        (unsigned long long)counts[c], skew, bad, gyre_error(comm));
                return 1;
            }
        }
    return 0;
}

static int unaligned(struct gyre_comm *comm, struct rig *rig)
{
    uint8_t *plain[2] = {malloc(ROOM), malloc(ROOM)};
    void *shared[2];
    (void)rig;
    if (gyre_alloc(comm, ROOM, &shared[0]) || gyre_alloc(comm, ROOM, &shared[1]))
        return 2;
    uint8_t *mapped[2] = {shared[0], shared[1]};
    int bad = skew_all(comm, mapped) || skew_all(comm, plain);
    free(plain[0]);
    free(plain[1]);
    return gyre_finalize(comm) || bad;
}

static void any_byte(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = unaligned}, 60), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "shm", .body = unaligned}, 60), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "tcp", .body = unaligned}, 60), 0);
}

/* -- none -------------------------------------------------------------------------------------- */

/* No elements, no buffers: it is matched like any other operation, and does nothing. */
static int nothing(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work;
    int32_t one = 1, sum = 0;
    (void)rig;
    for (int turn = 0; turn < 100; turn++) {
        if (gyre_all_reduce(comm, NULL, NULL, 0, GYRE_F32, GYRE_SUM) ||
            gyre_broadcast(comm, NULL, NULL, 0, GYRE_U8, turn % gyre_size(comm)) ||
            gyre_all_reduce_start(comm, NULL, NULL, 0, GYRE_F64, GYRE_AVG, &work) ||
            gyre_work_wait(work, -1))
            return 2;
        if (gyre_all_reduce(comm, &one, &sum, 1, GYRE_I32, GYRE_SUM) || sum != gyre_size(comm))
            return 3;
    }
    return gyre_finalize(comm);
}

static void no_elements(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "shm", .body = nothing}, 30), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "tcp", .body = nothing}, 30), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_elements),
        cmocka_unit_test(any_byte),
        cmocka_unit_test(more_than_4_gib),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || !skipped ? failed : 77;
}
