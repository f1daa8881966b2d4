/* EXCHANGEs (up to 4 KiB) whose streams run their turns by themselves, with real processes over the
 * stand-in for CUDA. Their memory is the program's own, which no peer maps.
 *
 *     host     call ─▶ call ─▶ lines of all ─▶ stands still ────────────────────────────▶ goes on
 *     stream                                   payload ─▶ words ─▶ folds ─▶ passes, twice
 */
#include "program/cuda/alone/alone_rig.h"
#include "collectives/comm/communicator.h"
#include "rig/test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (4096u * 4) /* bytes of a buffer */
#define ROUNDS  40          /* more than there are lines */
#define LONG    1000u       /* elements, which no line has room for */

struct bench {
    CUstream stream[2];
    float *memory, *other; /* the device's */
    float *host, *sums, *want;
};

static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    CUdeviceptr memory = 0, other = 0;
    bench->host = calloc(1, LONGEST);
    bench->sums = calloc(1, LONGEST);
    bench->want = calloc(1, LONGEST);
    int bad = alone_streams(comm, bench->stream) || alone_failed(cuMemAlloc(&memory, LONGEST)) ||
              alone_failed(cuMemAlloc(&other, LONGEST));
    bench->memory = (float *)(uintptr_t)memory;
    bench->other = (float *)(uintptr_t)other;
    return bad;
}

static void free_bench(const struct bench *bench)
{
    free(bench->host);
    free(bench->sums);
    free(bench->want);
}

static int copy(void *to, const void *from, CUstream stream)
{
    return alone_failed(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, LONGEST, stream));
}

static int fetch(struct bench *bench, float *to, CUstream stream)
{
    return copy(to, bench->other, stream) || alone_failed(cuStreamSynchronize(stream));
}

/* Sums of these depend on the order in which they are made. */
static float value(int rank, int round, uint64_t i)
{
    return (float)(rank + 1) / (float)(round % 7 + 3) + (float)(i % 11) * 1e-3f;
}

static void fill(const struct bench *bench, int rank, int round)
{
    for (uint64_t i = 0; i < LONGEST / 4; i++)
        bench->host[i] = value(rank, round, i);
}

/* 8 bytes have room in a line. */
static uint64_t count_of(int round)
{
    return round % 2 ? LONG : 2;
}

static int sum_on(struct gyre_comm *comm, const struct bench *bench, uint64_t count, int stream)
{
    return gyre_all_reduce_on(comm, bench->memory, bench->other, count, GYRE_F32, GYRE_SUM,
                              bench->stream[stream]);
}

static int check_bits(struct gyre_comm *comm, const float *is, const float *want, uint64_t count,
                      const char *what)
{
    return rig_check(!memcmp(is, want, count * 4), comm, what);
}

/* Finds by the host, on the host's memory, what the sum of a round is. */
static int expect_sum(struct gyre_comm *comm, const struct bench *bench, int round)
{
    fill(bench, gyre_rank(comm), round);
    return rig_check(
        gyre_all_reduce(comm, bench->host, bench->want, count_of(round), GYRE_F32, GYRE_SUM) == 0,
        comm, "a sum by the host");
}

/* The first call on a stream locks the words. */
static int lock_words(struct gyre_comm *comm, const struct bench *bench)
{
    return rig_check(sum_on(comm, bench, 2, 0) == 0, comm, "the first sum") ||
           alone_failed(cuStreamSynchronize(bench->stream[0])) ||
           rig_check(gyre_barrier(comm) == 0, comm, "all have locked");
}

/* -- the host stands still --------------------------------------------------------------------- */

/* A sum, its copy to all others' memory by a broadcast, and the sum of that on another stream,
 * joined by an event. */
static int call_three(struct gyre_comm *comm, const struct bench *bench, uint64_t count,
                      CUevent event)
{
    return rig_check(sum_on(comm, bench, count, 0) == 0, comm, "a sum") ||
           rig_check(gyre_broadcast_on(comm, bench->other, bench->memory, count, GYRE_F32, 1,
                                       bench->stream[0]) == 0,
                     comm, "a broadcast") ||
           alone_failed(cuEventRecord(event, bench->stream[0])) ||
           alone_failed(cuStreamWaitEvent(bench->stream[1], event, 0)) ||
           rig_check(sum_on(comm, bench, count, 1) == 0, comm, "a sum on another stream");
}

/* What the three give, by the host. */
static int expect_three(struct gyre_comm *comm, const struct bench *bench, int round)
{
    const uint64_t count = count_of(round);
    return expect_sum(comm, bench, round) ||
           gyre_broadcast(comm, bench->want, bench->sums, count, GYRE_F32, 1) ||
           gyre_all_reduce(comm, bench->sums, bench->want, count, GYRE_F32, GYRE_SUM);
}

static int stand_still(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUevent event;
    int n = gyre_size(comm);
    int bad =
        set_up(comm, &bench) || lock_words(comm, &bench) || alone_failed(cuEventCreate(&event, 2));
    for (int round = 0; round < 4 && !bad; round++) {
        bad = expect_three(comm, &bench, round) || gyre_barrier(comm);
        fakecuda_hold(true);
        bad = bad || copy(bench.memory, bench.host, bench.stream[0]) ||
              call_three(comm, &bench, count_of(round), event) ||
              rig_check(alone_are_all(comm, ALONE_BEGUN), comm, "some stream needs the host");
        if (!bad)
            alone_await_all(comm, ALONE_RESOLVED);
        gyre_domain_enter(comm->domain);
        uint32_t ends = atomic_load(&comm->engine->ends), orders = comm->engine->orders;
        atomic_fetch_add(&rig->shared->ready, 1);
        rig_until(&rig->shared->ready, (2 * round + 1) * n);
        fakecuda_hold(false);
        bad = bad || fetch(&bench, bench.sums, bench.stream[1]) ||
              rig_check(orders == 3 && ends == atomic_load(&comm->engine->ends), comm,
                        "the host did something meanwhile");
        atomic_fetch_add(&rig->shared->ready, 1);
        rig_until(&rig->shared->ready, (2 * round + 2) * n);
        gyre_domain_leave(comm->domain);
        bad = bad || check_bits(comm, bench.sums, bench.want, count_of(round), "the three") ||
              gyre_barrier(comm);
    }
    free_bench(&bench);
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

/* A sum is two kernels, the copy and the fold, and two batches of words; no copy engine. */
static int count_calls(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    int kernels = fakecuda_calls("cudaLaunchKernel"), words = fakecuda_calls("cuStreamBatchMemOp");
    int copies = fakecuda_calls("cuMemcpyAsync"), marks = fakecuda_calls("cuEventRecord");
    bad = bad || sum_on(comm, &bench, 2, 0) || alone_failed(cuStreamSynchronize(bench.stream[0])) ||
          gyre_barrier(comm) ||
          rig_check(fakecuda_calls("cudaLaunchKernel") == kernels + 2, comm, "kernels") ||
          rig_check(fakecuda_calls("cuStreamBatchMemOp") == words + 2, comm, "batches of words") ||
          rig_check(fakecuda_calls("cuMemcpyAsync") == copies, comm, "copies") ||
          rig_check(fakecuda_calls("cuEventRecord") == marks, comm, "posts of the host");
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void a_sum_is_four_calls(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "auto", .body = count_calls}, 60),
                     0);
}

/* -- every verb -------------------------------------------------------------------------------- */

enum verb { ALL_REDUCE, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, VERBS };

/* A call, on a stream or, where that is NULL, blocking. */
static int call(struct gyre_comm *comm, enum verb verb, const void *in, void *out, uint64_t count,
                enum gyre_type type, CUstream s)
{
    const enum gyre_op op = type == GYRE_BF16 ? GYRE_AVG : GYRE_SUM;
    const int root = (int)verb % gyre_size(comm);
    switch (verb) {
    case ALL_REDUCE:
        return s ? gyre_all_reduce_on(comm, in, out, count, type, op, s)
                 : gyre_all_reduce(comm, in, out, count, type, op);
    case REDUCE:
        return s ? gyre_reduce_on(comm, in, out, count, type, op, root, s)
                 : gyre_reduce(comm, in, out, count, type, op, root);
    case ALL_GATHER:
        return s ? gyre_all_gather_on(comm, in, out, count, type, s)
                 : gyre_all_gather(comm, in, out, count, type);
    case REDUCE_SCATTER:
        return s ? gyre_reduce_scatter_on(comm, in, out, count, type, op, s)
                 : gyre_reduce_scatter(comm, in, out, count, type, op);
    case ALL_TO_ALL:
        return s ? gyre_all_to_all_on(comm, in, out, count, type, s)
                 : gyre_all_to_all(comm, in, out, count, type);
    case GATHER:
        return s ? gyre_gather_on(comm, in, out, count, type, root, s)
                 : gyre_gather(comm, in, out, count, type, root);
    default:
        return s ? gyre_scatter_on(comm, in, out, count, type, root, s)
                 : gyre_scatter(comm, in, out, count, type, root);
    }
}

/* Compares all of OUTPUT, of which a verb leaves some as it was. */
static int one_verb(struct gyre_comm *comm, struct bench *bench, int round, enum gyre_type type)
{
    const enum verb verb = (enum verb)(round % VERBS);
    const uint64_t count = round < VERBS ? 3 : 4000 / 4 / (uint64_t)gyre_size(comm);
    CUstream stream = bench->stream[round % 2];
    fill(bench, gyre_rank(comm), round);
    memset(bench->want, 85, LONGEST);
    int bad = copy(bench->memory, bench->host, stream) || copy(bench->other, bench->want, stream) ||
              rig_check(call(comm, verb, bench->host, bench->want, count, type, NULL) == 0, comm,
                        "a verb by the host") ||
              rig_check(call(comm, verb, bench->memory, bench->other, count, type, stream) == 0,
                        comm, "a verb on a stream") ||
              rig_check(alone_are_all(comm, ALONE_BEGUN), comm, "a verb needs the host") ||
              fetch(bench, bench->sums, stream) ||
              check_bits(comm, bench->sums, bench->want, LONGEST / 4, "other bits on a stream");
    return bad ? rig_check(false, comm, "a verb") : 0;
}

static int all_verbs(struct gyre_comm *comm, struct rig *rig)
{
    static const enum gyre_type types[] = {GYRE_F32, GYRE_BF16, GYRE_F16};
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    for (int t = 0; t < 3; t++)
        for (int round = 0; round < 2 * VERBS && !bad; round++)
            bad = one_verb(comm, &bench, round, types[t]);
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void every_verb_has_the_hosts_bits(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++)
        assert_int_equal(rig_run(&(struct rig){.n = n, .transport = "auto", .body = all_verbs}, 60),
                         0);
}

/* A sum in place reads INPUT before OUTPUT takes its place. */
static int sum_in_place(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    for (int round = 0; round < 4 && !bad; round++)
        bad = expect_sum(comm, &bench, round) || copy(bench.other, bench.host, bench.stream[0]) ||
              gyre_all_reduce_on(comm, bench.other, bench.other, count_of(round), GYRE_F32,
                                 GYRE_SUM, bench.stream[0]) ||
              fetch(&bench, bench.sums, bench.stream[0]) ||
              check_bits(comm, bench.sums, bench.want, count_of(round), "a sum in place");
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void ranks_may_run_in_place(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "auto", .body = sum_in_place}, 60),
                     0);
}

/* -- everybody as he likes --------------------------------------------------------------------- */

/* Each rank of each round by itself: alone on a stream, blocking, from and to the host's memory, or
 * on a stream and the host's memory. A copy to the host stands behind an operation that is not
 * over. */
static int sum_somehow(struct gyre_comm *comm, struct bench *bench, int round)
{
    const int way = (gyre_rank(comm) * 7 + round * 5 + round / 4) % 6;
    const uint64_t count = count_of(round);
    CUstream stream = bench->stream[round % 2];
    if (expect_sum(comm, bench, round) || copy(bench->memory, bench->host, stream))
        return 1;
    int status;
    switch (way) {
    case 0:
        status = alone_failed(cuStreamSynchronize(stream)) ||
                 gyre_all_reduce(comm, bench->memory, bench->other, count, GYRE_F32, GYRE_SUM);
        break;
    case 1:
        status = gyre_all_reduce(comm, bench->host, bench->sums, count, GYRE_F32, GYRE_SUM);
        break;
    case 2:
        status =
            gyre_all_reduce_on(comm, bench->host, bench->sums, count, GYRE_F32, GYRE_SUM, stream);
        break;
    default:
        status = sum_on(comm, bench, count, round % 2);
    }
    return rig_check(status == 0, comm, "a sum") ||
           (way != 1 && way != 2 && copy(bench->sums, bench->other, stream)) ||
           alone_failed(cuStreamSynchronize(stream)) ||
           check_bits(comm, bench->sums, bench->want, count, "a sum of ranks that choose");
}

static int mix(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    for (int round = 0; round < ROUNDS && !bad; round++)
        bad = sum_somehow(comm, &bench, round);
    free_bench(&bench);
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

/* Writes the rounds' INPUTs one behind the other. */
static int lay_out(struct gyre_comm *comm, struct bench *bench, float *rounds, CUdeviceptr inputs)
{
    for (int round = 0; round < ROUNDS; round++) {
        fill(bench, gyre_rank(comm), round);
        memcpy(rounds + round * LONG, bench->host, LONG * 4);
    }
    return alone_failed(cuMemcpyAsync(inputs, (CUdeviceptr)(uintptr_t)rounds, ROUNDS * LONG * 4,
                                      bench->stream[0])) ||
           alone_failed(cuStreamSynchronize(bench->stream[0]));
}

/* Rank 0 gives its INPUT, for which it needs nobody; or all sum. */
static int call_round(struct gyre_comm *comm, bool sums, float *input, float *output, CUstream s)
{
    return sums ? gyre_all_reduce_on(comm, input, output, LONG, GYRE_F32, GYRE_SUM, s)
                : gyre_broadcast_on(comm, input, output, LONG, GYRE_F32, 0, s);
}

/* More operations than there are lines stand on a stream, each with data of its own; the others
 * come when rank 0 has called all. Lines, payloads and words are used again only when nobody needs
 * them. */
static int run_ahead(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUdeviceptr inputs, outputs;
    const uint64_t bytes = ROUNDS * LONG * 4;
    const bool sums = rig->argument != NULL;
    float *rounds = malloc(bytes);
    int bad = set_up(comm, &bench) || lock_words(comm, &bench) ||
              alone_failed(cuMemAlloc(&inputs, bytes)) ||
              alone_failed(cuMemAlloc(&outputs, bytes)) || lay_out(comm, &bench, rounds, inputs);
    if (gyre_rank(comm))
        rig_until(&rig->shared->flag, 1);
    for (uint64_t round = 0; round < ROUNDS && !bad; round++)
        bad = call_round(comm, sums, (float *)(uintptr_t)inputs + round * LONG,
                         (float *)(uintptr_t)outputs + round * LONG, bench.stream[0]);
    atomic_store(&rig->shared->flag, 1);
    bad = bad ||
          alone_failed(
              cuMemcpyAsync((CUdeviceptr)(uintptr_t)rounds, outputs, bytes, bench.stream[0])) ||
          alone_failed(cuStreamSynchronize(bench.stream[0]));
    for (int round = 0; round < ROUNDS && !bad; round++) {
        fill(&bench, sums ? gyre_rank(comm) : 0, round);
        bad = (sums && gyre_all_reduce(comm, bench.host, bench.want, LONG, GYRE_F32, GYRE_SUM)) ||
              check_bits(comm, rounds + round * LONG, sums ? bench.want : bench.host, LONG,
                         "one of many");
    }
    free(rounds);
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void lines_are_not_written_too_soon(void **state)
{
    struct rig rig = {.n = 3, .transport = "auto", .body = run_ahead};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
    rig.argument = &rig; /* sums */
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* A part whose ranks are in another order. */
static int sum_in_parts(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_comm *part;
    (void)rig;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    for (int round = 0; round < 3 && !bad; round++)
        bad = gyre_split(comm, 0, -gyre_rank(comm), &part) || expect_sum(part, &bench, round) ||
              copy(bench.memory, bench.host, bench.stream[0]) ||
              rig_check(sum_on(part, &bench, count_of(round), 0) == 0, part, "a sum of a part") ||
              rig_check(alone_are_all(part, ALONE_BEGUN), part, "some stream needs the host") ||
              gyre_finalize(part) || fetch(&bench, bench.sums, bench.stream[0]) ||
              check_bits(comm, bench.sums, bench.want, count_of(round), "a part");
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void parts_have_payloads_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "auto", .body = sum_in_parts}, 60),
                     0);
}

/* -- two ranks of one process ------------------------------------------------------------------ */

/* One thread calls for both ranks, and no call waits for the other rank's. */
static int both_in_one(struct rig *rig, int process)
{
    const int devices[] = {0, 1};
    struct gyre_comm *comm[2];
    struct bench bench[2];
    (void)rig, (void)process;
    if (gyre_init_in_process(comm, 2, devices, NULL))
        return rig_check(false, NULL, "gyre_init_in_process");
    int bad = set_up(comm[0], &bench[0]) || set_up(comm[1], &bench[1]);
    for (int round = 0; round < ROUNDS && !bad; round++) {
        const uint64_t count = count_of(round);
        for (int rank = 0; rank < 2 && !bad; rank++) {
            fill(&bench[rank], rank, round);
            bad = copy(bench[rank].memory, bench[rank].host, bench[rank].stream[0]) ||
                  rig_check(sum_on(comm[rank], &bench[rank], count, 0) == 0, comm[rank], "a sum") ||
                  rig_check(alone_are_all(comm[rank], ALONE_BEGUN), comm[rank], "alone");
        }
        for (uint64_t i = 0; i < count; i++)
            bench[0].want[i] = bench[0].host[i] + bench[1].host[i];
        for (int rank = 0; rank < 2 && !bad; rank++)
            bad = fetch(&bench[rank], bench[rank].sums, bench[rank].stream[0]) ||
                  check_bits(comm[rank], bench[rank].sums, bench[0].want, count, "two in one");
    }
    free_bench(&bench[0]);
    free_bench(&bench[1]);
    return gyre_finalize(comm[0]) || gyre_finalize(comm[1]) || bad;
}

static void ranks_of_one_process_need_no_host(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 1, .transport = "auto", .process = both_in_one}, 60), 0);
}

/* -- failure ----------------------------------------------------------------------------------- */

/* Rank 1's data never come: rank 0's stream waits for them, and passes when rank 1 is killed. */
static int wait_for_data(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    bool first = gyre_rank(comm) == 0;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    fakecuda_hold(!first);
    bad = bad || rig_check(sum_on(comm, &bench, 2, 0) == 0, comm, "the call");
    if (!bad)
        alone_await_all(comm, first ? ALONE_ARRIVED : ALONE_RESOLVED);
    atomic_fetch_add(&rig->shared->ready, 1);
    if (!first)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    bad = bad || alone_failed(cuStreamSynchronize(bench.stream[0]));
    rig_note(rig, comm, sum_on(comm, &bench, 2, 0), rig_now());
    free_bench(&bench);
    gyre_finalize(comm);
    return bad;
}

static void a_killed_rank_releases_streams(void **state)
{
    (void)state;
    alone_lose_rank_1(wait_for_data);
}

/* Rank 0's stream comes only when rank 1 has ended and the communicator is gone: it passes, and
 * reads and writes memory that is still there. */
static int come_too_late(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    fakecuda_hold(true);
    bad = bad || rig_check(sum_on(comm, &bench, LONG, 0) == 0, comm, "the call");
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
    free_bench(&bench);
    return bad;
}

static void a_late_stream_passes(void **state)
{
    (void)state;
    alone_lose_rank_1(come_too_late);
}

struct plant {
    const char *call;
    int nth;
};

/* Rank 1's driver refuses a call. Rank 0's call may find the job failed. */
static int refuse_call(struct gyre_comm *comm, struct rig *rig)
{
    const struct plant *plant = rig->argument;
    struct bench bench;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    if (gyre_rank(comm) == 0)
        rig->shared->flag = 1; /* its barrier is over */
    rig_until(&rig->shared->flag, 1);
    if (gyre_rank(comm) == 1)
        fakecuda_fail(plant->call, plant->nth, CUDA_ERROR_OUT_OF_MEMORY);
    int status = bad ? 0 : sum_on(comm, &bench, 2, 0);
    bad = bad || rig_check(status != 0 || gyre_rank(comm) == 0, comm, "the call") ||
          (status && rig_check(strstr(gyre_error(comm), "caller's stream") != NULL, comm, "told"));
    bad = bad || alone_failed(cuStreamSynchronize(bench.stream[0]));
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    free_bench(&bench);
    gyre_finalize(comm);
    return bad;
}

/* Behind the payload the stream cannot do without the rest: that is the end of the job. */
static void half_an_operation_ends_the_job(void **state)
{
    static struct plant plants[] = {
        {"cuStreamBatchMemOp", 1}, {"cudaLaunchKernel", 2}, {"cuStreamBatchMemOp", 2}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = {.n = 2, .transport = "auto", .body = refuse_call, .argument = &plants[i]};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 30, 0), 0);
        for (int rank = 0; rank < 2; rank++) {
            assert_true(rig.shared->status[rank] < 0);
            assert_non_null(strstr(rig.shared->error[rank], "caller's stream"));
        }
    }
}

/* Before, the host runs the operation, for which the other rank waits, and the job goes on. */
static void a_stream_that_takes_nothing_is_left(void **state)
{
    static struct plant plant = {"cudaLaunchKernel", 1};
    struct rig rig = {.n = 2, .transport = "auto", .body = refuse_call, .argument = &plant};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(rig.shared->status[rank], 0);
}

/* Rank 1 calls another operation, as short, or one that is longer. */
static int differ(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    const uint64_t other = (uint64_t)(uintptr_t)rig->argument;
    int bad = set_up(comm, &bench) || lock_words(comm, &bench);
    bad = bad || sum_on(comm, &bench, gyre_rank(comm) ? other : 2, 0) ||
          alone_failed(cuStreamSynchronize(bench.stream[0])) ||
          rig_check(alone_await_end(comm) != 0, comm, "nobody has noticed");
    int status = gyre_barrier(comm);
    rig_note(rig, comm, status, rig_now());
    free_bench(&bench);
    gyre_finalize(comm);
    return bad;
}

static void a_different_call_is_noticed(void **state)
{
    (void)state;
    for (uintptr_t other = 3; other <= 2048; other += 2045) {
        struct rig rig = {.n = 2, .transport = "auto", .body = differ, .argument = (void *)other};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 30, 0), 0);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(rig.shared->status[rank], GYRE_MISMATCH);
            assert_non_null(strstr(rig.shared->error[rank], "all_reduce"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_need_no_host),
        cmocka_unit_test(a_sum_is_four_calls),
        cmocka_unit_test(every_verb_has_the_hosts_bits),
        cmocka_unit_test(ranks_may_run_in_place),
        cmocka_unit_test(every_rank_chooses),
        cmocka_unit_test(a_rank_without_words_is_served),
        cmocka_unit_test(lines_are_not_written_too_soon),
        cmocka_unit_test(parts_have_payloads_of_their_own),
        cmocka_unit_test(ranks_of_one_process_need_no_host),
        cmocka_unit_test(a_killed_rank_releases_streams),
        cmocka_unit_test(a_late_stream_passes),
        cmocka_unit_test(half_an_operation_ends_the_job),
        cmocka_unit_test(a_stream_that_takes_nothing_is_left),
        cmocka_unit_test(a_different_call_is_noticed),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1,0", 0);
    setenv("FAKECUDA_DELAY", "100", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
