/* PUSHes whose streams run their turns by themselves, with real processes over the stand-in for
 * CUDA.
 *
 *     host     call ─▶ call ─▶ lines of all, tables ─▶ stands still ──────────────────────▶ goes on
 *     stream                                           arrives ─▶ folds ─▶ passes, twice
 *
 * A rank's host stands still while this thread has the domain: neither a call nor the helper does
 * anything then. */
#include "program/cuda/alone/alone_rig.h"
#include "collectives/comm/communicator.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT  30011u
#define ROUNDS 40 /* more than there are lines */

struct bench {
    CUstream stream[2];
    int32_t *memory, *other; /* the device's */
    int32_t *host;
};

static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    bench->host = malloc(COUNT * 4);
    if (gyre_alloc_device(comm, COUNT * 4, (void **)&bench->memory) ||
        gyre_alloc_device(comm, COUNT * 4, (void **)&bench->other))
        return rig_check(false, comm, "memory");
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory") ||
           alone_streams(comm, bench->stream);
}

static int copy(void *to, const void *from, CUstream stream)
{
    return alone_failed(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, COUNT * 4, stream));
}

static int32_t value(int rank, int round, uint64_t i)
{
    return (int32_t)(rank + 1 + round + (int)(i % 5));
}

static void fill(struct bench *bench, int rank, int round)
{
    for (uint64_t i = 0; i < COUNT; i++)
        bench->host[i] = value(rank, round, i);
}

static int check_sums(struct gyre_comm *comm, const int32_t *sums, int round, int32_t factor)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        int32_t sum = 0;
        for (int rank = 0; rank < gyre_size(comm); rank++)
            sum += value(rank, round, i) * factor;
        if (sums[i] != sum) {
            fprintf(stderr, "rank %d, round %d: element %llu is %d and not %d\n", gyre_rank(comm),
                    round, (unsigned long long)i, sums[i], sum);
            return 1;
        }
    }
    return 0;
}

static int sum_on(struct gyre_comm *comm, const struct bench *bench, int stream)
{
    return gyre_all_reduce_on(comm, bench->memory, bench->other, COUNT, GYRE_I32, GYRE_SUM,
                              bench->stream[stream]);
}

/* -- the host stands still --------------------------------------------------------------------- */

/* A sum, its copy to all others' memory by a broadcast, and the sum of that on another stream,
 * joined by an event. */
static int call_three(struct gyre_comm *comm, const struct bench *bench, CUevent event)
{
    return rig_check(sum_on(comm, bench, 0) == 0, comm, "a sum") ||
           rig_check(gyre_broadcast_on(comm, bench->other, bench->memory, COUNT, GYRE_I32, 1,
                                       bench->stream[0]) == 0,
                     comm, "a broadcast") ||
           alone_failed(cuEventRecord(event, bench->stream[0])) ||
           alone_failed(cuStreamWaitEvent(bench->stream[1], event, 0)) ||
           rig_check(sum_on(comm, bench, 1) == 0, comm, "a sum on another stream");
}

static int stand_still(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUevent event;
    int bad = set_up(comm, &bench) || alone_failed(cuEventCreate(&event, 2)), n = gyre_size(comm);
    for (int round = 0; round < 3 && !bad; round++) {
        fakecuda_hold(true);
        fill(&bench, gyre_rank(comm), round);
        bad = copy(bench.memory, bench.host, bench.stream[0]) || call_three(comm, &bench, event) ||
              rig_check(alone_are_all(comm, ALONE_BEGUN), comm, "some stream needs the host");
        if (!bad)
            alone_await_all(comm, ALONE_RESOLVED);
        gyre_domain_enter(comm->domain);
        uint32_t ends = atomic_load(&comm->engine->ends), orders = comm->engine->orders;
        atomic_fetch_add(&rig->shared->ready, 1);
        rig_until(&rig->shared->ready, (2 * round + 1) * n);
        fakecuda_hold(false);
        bad = bad || copy(bench.host, bench.other, bench.stream[1]) ||
              alone_failed(cuStreamSynchronize(bench.stream[1])) ||
              rig_check(orders == 3 && ends == atomic_load(&comm->engine->ends), comm,
                        "the host did something meanwhile");
        atomic_fetch_add(&rig->shared->ready, 1);
        rig_until(&rig->shared->ready, (2 * round + 2) * n);
        gyre_domain_leave(comm->domain);
        bad = bad || check_sums(comm, bench.host, round, n) || gyre_barrier(comm);
    }
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void slow_down_rank_1(const struct rig *rig, int rank)
{
    (void)rig;
    if (rank == 1)
        setenv("FAKECUDA_DELAY", "10000", 1);
}

static void streams_need_no_host(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++)
        assert_int_equal(rig_run(&(struct rig){.n = n,
                                               .transport = "auto",
                                               .before = slow_down_rank_1,
                                               .body = stand_still},
                                 60),
                         0);
}

/* -- everybody as he likes --------------------------------------------------------------------- */

/* Each rank of each round by itself: on a stream, blocking, from and to the host's memory, or on a
 * stream and the host's memory. A copy to the host stands behind an operation that is not over. */
static int sum_somehow(struct gyre_comm *comm, struct bench *bench, int round, int32_t *sums)
{
    int way = (gyre_rank(comm) * 7 + round * 5 + round / 4) % 6;
    CUstream stream = bench->stream[round % 2];
    fill(bench, gyre_rank(comm), round);
    if (copy(bench->memory, bench->host, stream))
        return 1;
    int status;
    switch (way) {
    case 0:
        status = alone_failed(cuStreamSynchronize(stream)) ||
                 gyre_all_reduce(comm, bench->memory, bench->other, COUNT, GYRE_I32, GYRE_SUM);
        break;
    case 1:
        status = gyre_all_reduce(comm, bench->host, sums, COUNT, GYRE_I32, GYRE_SUM);
        break;
    case 2:
        status = gyre_all_reduce_on(comm, bench->host, sums, COUNT, GYRE_I32, GYRE_SUM, stream);
        break;
    default:
        status = sum_on(comm, bench, round % 2);
    }
    if (rig_check(status == 0, comm, "a sum") ||
        (way != 1 && way != 2 && copy(sums, bench->other, stream)) ||
        alone_failed(cuStreamSynchronize(stream)))
        return 1;
    return check_sums(comm, sums, round, 1);
}

static int mix(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int32_t *sums = malloc(COUNT * 4);
    int bad = set_up(comm, &bench);
    (void)rig;
    for (int round = 0; round < ROUNDS && !bad; round++)
        bad = sum_somehow(comm, &bench, round, sums);
    free(sums);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void every_rank_chooses(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++)
        assert_int_equal(rig_run(&(struct rig){.n = n, .transport = "auto", .body = mix}, 60), 0);
}

/* Rank 1 cannot lock the words. */
static void a_rank_without_words_is_served(void **state)
{
    struct rig rig = {.n = 3, .transport = "auto", .before = alone_refuse_to_lock, .body = mix};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* Rank 0 calls more often than there are lines before the others have come: some broadcasts, which
 * need nobody, and then sums. */
static int run_ahead(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    int32_t word = 7;
    fill(&bench, gyre_rank(comm), 0);
    bad = bad || copy(bench.memory, bench.host, bench.stream[0]);
    if (gyre_rank(comm))
        rig_until(&rig->shared->flag, 1);
    for (int round = 0; round < 10 && !bad; round++)
        bad = gyre_broadcast(comm, &word, &word, 1, GYRE_I32, 0);
    for (int round = 0; round < ROUNDS && !bad; round++)
        bad = sum_on(comm, &bench, 0);
    atomic_store(&rig->shared->flag, 1);
    bad = bad || copy(bench.host, bench.other, bench.stream[0]) ||
          alone_failed(cuStreamSynchronize(bench.stream[0])) || check_sums(comm, bench.host, 0, 1);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void lines_are_not_written_too_soon(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "auto", .body = run_ahead}, 60), 0);
}

/* -- ends -------------------------------------------------------------------------------------- */

/* A part's inboxes are unlocked at its end, and those of the whole stay. */
static int end_parts(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_comm *part;
    int bad = set_up(comm, &bench) || sum_on(comm, &bench, 0) ||
              alone_failed(cuStreamSynchronize(bench.stream[0])) || gyre_barrier(comm);
    int locked = fakecuda_alive().locked;
    (void)rig;
    for (int round = 0; round < 3 && !bad; round++) {
        bad = gyre_split(comm, 0, -gyre_rank(comm), &part);
        fill(&bench, gyre_rank(comm), round);
        bad = bad || copy(bench.memory, bench.host, bench.stream[0]) ||
              rig_check(sum_on(part, &bench, 0) == 0, part, "a sum of a part") ||
              rig_check(alone_are_all(part, ALONE_BEGUN), part, "some stream needs the host") ||
              rig_check(fakecuda_alive().locked == locked + gyre_size(part), part, "words") ||
              gyre_finalize(part) || copy(bench.host, bench.other, bench.stream[0]) ||
              alone_failed(cuStreamSynchronize(bench.stream[0])) ||
              check_sums(comm, bench.host, round, 1) ||
              rig_check(fakecuda_alive().locked == locked, comm, "words stay locked");
    }
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void words_are_unlocked_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "auto", .body = end_parts}, 60), 0);
}

/* -- failure ----------------------------------------------------------------------------------- */

/* Rank 1 has called, so rank 0 has all it needs but its data: they never come. */
static int wait_for_data(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    if (set_up(comm, &bench))
        return 1;
    bool first = gyre_rank(comm) == 0;
    memset(bench.host, 85, COUNT * 4);
    int bad = copy(bench.other, bench.host, bench.stream[0]) ||
              alone_failed(cuStreamSynchronize(bench.stream[0]));
    fakecuda_hold(!first);
    bad = bad || rig_check(sum_on(comm, &bench, 0) == 0, comm, "the call");
    if (!bad)
        alone_await_all(comm, first ? ALONE_ARRIVED : ALONE_RESOLVED);
    atomic_fetch_add(&rig->shared->ready, 1);
    if (!first)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    bad = bad || alone_failed(cuStreamSynchronize(bench.stream[0]));
    memset(bench.host, 0, COUNT * 4);
    bad = bad || copy(bench.host, bench.other, bench.stream[0]) ||
          alone_failed(cuStreamSynchronize(bench.stream[0]));
    for (uint64_t i = 0; i < COUNT && !bad; i++)
        bad = rig_check(bench.host[i] == 0x55555555, comm, "the stream has folded");
    rig_note(rig, comm, sum_on(comm, &bench, 0), rig_now());
    free(bench.host);
    gyre_finalize(comm);
    return bad;
}

static void a_killed_rank_releases_streams(void **state)
{
    (void)state;
    alone_lose_rank_1(wait_for_data);
}

/* Rank 0's stream comes only when rank 1 has ended and the job has failed: it passes, does not
 * fold, and writes into memory that is still there. */
static int come_too_late(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    if (set_up(comm, &bench))
        return 1;
    fakecuda_hold(true);
    int bad = rig_check(sum_on(comm, &bench, 0) == 0, comm, "the call");
    if (!bad)
        alone_await_all(comm, ALONE_RESOLVED);
    atomic_fetch_add(&rig->shared->ready, 1);
    if (gyre_rank(comm) == 1)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    while (!bad && !gyre_barrier(comm))
        continue;
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    gyre_finalize(comm);
    fakecuda_hold(false);
    bad = bad || alone_failed(cuStreamSynchronize(bench.stream[0]));
    free(bench.host);
    return bad;
}

static void a_late_stream_passes(void **state)
{
    (void)state;
    alone_lose_rank_1(come_too_late);
}

/* Rank 1's stream takes the first half of an operation and not the rest. Rank 0's call may find the
 * job failed. */
static int lose_half(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench) || sum_on(comm, &bench, 0) ||
              alone_failed(cuStreamSynchronize(bench.stream[0])) || gyre_barrier(comm);
    if (gyre_rank(comm) == 0)
        rig->shared->flag = 1; /* its barrier is over */
    rig_until(&rig->shared->flag, 1);
    if (gyre_rank(comm) == 1)
        fakecuda_fail("cuStreamBatchMemOp", 2, CUDA_ERROR_OUT_OF_MEMORY);
    int status = bad ? 0 : sum_on(comm, &bench, 0);
    bad = bad || rig_check(status != 0 || gyre_rank(comm) == 0, comm, "the call");
    bad = bad || alone_failed(cuStreamSynchronize(bench.stream[0]));
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    free(bench.host);
    gyre_finalize(comm);
    return bad;
}

static void half_an_operation_ends_the_job(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = lose_half};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(rig.shared->status[rank] < 0);
        assert_non_null(strstr(rig.shared->error[rank], "cuStreamBatchMemOp"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_need_no_host),
        cmocka_unit_test(every_rank_chooses),
        cmocka_unit_test(a_rank_without_words_is_served),
        cmocka_unit_test(lines_are_not_written_too_soon),
        cmocka_unit_test(words_are_unlocked_at_the_end),
        cmocka_unit_test(a_killed_rank_releases_streams),
        cmocka_unit_test(a_late_stream_passes),
        cmocka_unit_test(half_an_operation_ends_the_job),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 0);
    setenv("FAKECUDA_DELAY", "100", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
