/* Operations in the order of streams, with real processes over the stand-in for CUDA, whose streams
 * run in an order that a seed decides and whose work may be late.
 *
 *      stream   put x ─▶ double ─▶ all_reduce ─▶ double ─▶ all_reduce ─▶ … ─▶ get
 *
 * Nothing waits on the host between the first and the last of these. */
#include "rig/comm_rig.h"
#include "collectives/kernels/reduce.h"
#include "device/device.h"
#include "program/cuda/stream_capture.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT  70001u
#define ROUNDS 5
#define LONG   (3u << 20) /* of a message */

struct bench {
    int device;
    CUstream stream[2];
    int32_t *memory, *other; /* the device's */
    int32_t *host;
};

static int failed(CUresult error)
{
    if (error)
        fprintf(stderr, "CUDA error %d\n", (int)error);
    return error != 0;
}

/* The streams are the caller's: made in the device's context, which stays current. Nobody queues
 * work that waits for peers before they have their memory: their devices are tried in turns. */
static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    CUcontext context;
    bench->device = gyre_device(comm);
    bench->host = malloc(COUNT * 4);
    if (gyre_alloc_device(comm, COUNT * 4, (void **)&bench->memory) ||
        gyre_alloc_device(comm, COUNT * 4, (void **)&bench->other))
        return rig_check(false, comm, "memory");
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory") ||
           failed(cuDevicePrimaryCtxRetain(&context, bench->device)) ||
           failed(cuCtxPushCurrent(context)) ||
           failed(cuStreamCreate(&bench->stream[0], CU_STREAM_NON_BLOCKING)) ||
           failed(cuStreamCreate(&bench->stream[1], CU_STREAM_NON_BLOCKING));
}

static int copy(void *to, const void *from, CUstream stream)
{
    return failed(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, COUNT * 4, stream));
}

/* memory[i] += memory[i], by a kernel on the stream. */
static void twice(int32_t *memory, uint64_t count, CUstream stream)
{
    void *to = memory;
    const void *from[] = {memory, memory};
    struct gyre_fold_task task = {
        .destination = &to, .destinations = 1, .source = from, .sources = 2, .count = count};
    gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_I32][GYRE_SUM](&task, stream);
}

static uint64_t counts[] = {100, COUNT};

static int32_t value(int rank, uint64_t i)
{
    return (int32_t)(rank + 1 + (int)(i % 5));
}

static int check(struct gyre_comm *comm, const struct bench *bench, uint64_t count, int32_t factor)
{
    for (uint64_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (int rank = 0; rank < gyre_size(comm); rank++)
            sum += value(rank, i);
        if (bench->host[i] != sum * factor) {
            fprintf(stderr, "rank %d of %d: element %llu of %llu is %d and not %d\n",
                    gyre_rank(comm), gyre_size(comm), (unsigned long long)i,
                    (unsigned long long)count, bench->host[i], sum * factor);
            return 1;
        }
    }
    return 0;
}

/* Round after round: doubled, summed into the other memory, and back by a broadcast; on two streams
 * in turn, joined by an event as a program would. */
static int chain(struct gyre_comm *comm, struct bench *bench, uint64_t count)
{
    CUevent event;
    int32_t factor = 1;
    for (uint64_t i = 0; i < count; i++)
        bench->host[i] = value(gyre_rank(comm), i);
    if (copy(bench->memory, bench->host, bench->stream[0]) || failed(cuEventCreate(&event, 2)))
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        CUstream stream = bench->stream[round % 2];
        twice(bench->memory, count, stream);
        int status = round == 0 ? gyre_all_reduce_on(comm, bench->memory, bench->other, count,
                                                     GYRE_I32, GYRE_SUM, stream)
                                : gyre_all_reduce_on(comm, bench->memory, bench->other, count,
                                                     GYRE_I32, GYRE_MAX, stream);
        if (!status)
            status = gyre_broadcast_on(comm, bench->other, bench->memory, count, GYRE_I32,
                                       round % gyre_size(comm), stream);
        if (rig_check(status == 0, comm, "a call on a stream") ||
            failed(cuEventRecord(event, stream)) ||
            failed(cuStreamWaitEvent(bench->stream[(round + 1) % 2], event, 0)))
            return 1;
        factor *= 2;
    }
    if (copy(bench->host, bench->memory, bench->stream[ROUNDS % 2]) ||
        failed(cuStreamSynchronize(bench->stream[ROUNDS % 2])) || failed(cuEventDestroy(event)))
        return 1;
    return rig_check(gyre_barrier(comm) == 0, comm, "what came later") ||
           check(comm, bench, count, factor);
}

static int many_in_order(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && !bad; c++)
        bad = chain(comm, &bench, counts[c]);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

/* The default streams, by their names. */
static int defaults_in_order(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    bench.stream[0] = CU_STREAM_LEGACY;
    bench.stream[1] = CU_STREAM_PER_THREAD;
    bad = bad || chain(comm, &bench, 100) || chain(comm, &bench, COUNT);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void default_streams_have_names(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .transport = "auto", .body = defaults_in_order}, 60), 0);
}

/* Buffers of the host's: as they are when the stream has come there, on both ways. */
static int on_host_memory(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int32_t *sums = malloc(COUNT * 4);
    int bad = set_up(comm, &bench);
    CUstream stream = bench.stream[0];
    (void)rig;
    for (uint64_t count = 100; count <= COUNT && !bad; count += COUNT - 100) {
        for (uint64_t i = 0; i < COUNT; i++)
            sums[i] = value(gyre_rank(comm), i);
        bad = copy(bench.memory, sums, stream) || copy(bench.host, bench.memory, stream) ||
              gyre_all_reduce_on(comm, bench.host, sums, count, GYRE_I32, GYRE_SUM, stream) ||
              gyre_all_reduce_on(comm, sums, bench.other, count, GYRE_I32, GYRE_MAX, stream) ||
              copy(bench.host, bench.other, stream) || failed(cuStreamSynchronize(stream)) ||
              check(comm, &bench, count, 1);
    }
    free(sums);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void host_memory_is_in_order(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, on_host_memory), 0);
}

static void order_is_kept(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(1, many_in_order), 0);
    assert_int_equal(rig_run_everywhere(2, many_in_order), 0);
    assert_int_equal(rig_run_everywhere(4, many_in_order), 0);
    if (rig_places() >= 8) /* as tests/gpu/run has them */
        assert_int_equal(rig_run_everywhere(8, many_in_order), 0);
}

/* -- every verb -------------------------------------------------------------------------------- */

enum verb { REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, VERBS };

#define BLOCK 1000u /* elements, of each rank */

static int call(struct gyre_comm *comm, const struct bench *bench, enum verb verb, int root)
{
    void *in = bench->memory, *out = bench->other;
    CUstream stream = bench->stream[verb % 2];
    switch (verb) {
    case REDUCE:
        return gyre_reduce_on(comm, in, out, BLOCK, GYRE_I32, GYRE_SUM, root, stream);
    case ALL_GATHER:
        return gyre_all_gather_on(comm, in, out, BLOCK, GYRE_I32, stream);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter_on(comm, in, out, BLOCK, GYRE_I32, GYRE_SUM, stream);
    case ALL_TO_ALL:
        return gyre_all_to_all_on(comm, in, out, BLOCK, GYRE_I32, stream);
    case GATHER:
        return gyre_gather_on(comm, in, out, BLOCK, GYRE_I32, root, stream);
    default:
        return gyre_scatter_on(comm, in, out, BLOCK, GYRE_I32, root, stream);
    }
}

/* Element i of block b of this rank's OUTPUT. */
static int32_t expected(struct gyre_comm *comm, enum verb verb, int root, int b, uint64_t i)
{
    int32_t sum = 0;
    uint64_t mine = (uint64_t)gyre_rank(comm) * BLOCK;
    for (int rank = 0; rank < gyre_size(comm); rank++)
        sum += value(rank, verb == REDUCE ? i : mine + i);
    return verb == REDUCE || verb == REDUCE_SCATTER ? sum
           : verb == SCATTER                        ? value(root, mine + i)
           : verb == ALL_TO_ALL                     ? value(b, mine + i)
                                                    : value(b, i);
}

static int one_verb(struct gyre_comm *comm, const struct bench *bench, enum verb verb)
{
    int n = gyre_size(comm), root = verb % n;
    bool alone = verb == REDUCE || verb == REDUCE_SCATTER || verb == SCATTER;
    int blocks = (verb == REDUCE || verb == GATHER) && gyre_rank(comm) != root ? 0 : alone ? 1 : n;
    CUstream stream = bench->stream[verb % 2];
    for (uint64_t i = 0; i < BLOCK * (uint64_t)n; i++)
        bench->host[i] = value(gyre_rank(comm), i);
    if (copy(bench->memory, bench->host, stream) ||
        rig_check(call(comm, bench, verb, root) == 0, comm, "a call on a stream") ||
        copy(bench->host, bench->other, stream) || failed(cuStreamSynchronize(stream)))
        return 1;
    for (int b = 0; b < blocks; b++)
        for (uint64_t i = 0; i < BLOCK; i++)
            if (bench->host[b * (uint64_t)BLOCK + i] != expected(comm, verb, root, b, i))
                return rig_check(false, comm, "what a verb on a stream gives");
    return 0;
}

static int all_verbs(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    for (int verb = 0; verb < 2 * VERBS && !bad; verb++)
        bad = one_verb(comm, &bench, (enum verb)(verb % VERBS));
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void every_verb_keeps_order(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(1, all_verbs), 0);
    assert_int_equal(rig_run_everywhere(3, all_verbs), 0);
}

/* More folds than one table holds stand on the stream, too: the host posts nothing. */
static int exchange_widely(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench) || one_verb(comm, &bench, ALL_TO_ALL) ||
              rig_check(gyre_barrier(comm) == 0, comm, "all have come");
    int before = fakecuda_calls("cuEventRecord");
    bad = bad || one_verb(comm, &bench, ALL_TO_ALL) ||
          rig_check(fakecuda_calls("cuEventRecord") == before, comm, "the host posted a fold");
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void list_ten(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_DEVICES", "0,1,0,1,0,1,0,1,0,1", 1);
}

static void a_wide_exchange_stands_on_the_stream(void **state)
{
    struct rig rig = {.n = 10, .transport = "auto", .before = list_ten, .body = exchange_widely};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* -- what is refused --------------------------------------------------------------------------- */

/* Of another device, where there is one. */
static int foreign_stream(struct gyre_comm *comm, const struct bench *bench)
{
    CUcontext context;
    CUstream foreign;
    if (gyre_device_of(GYRE_MEMORY_CUDA)->probe(NULL) < 2)
        return 0;
    return failed(cuDevicePrimaryCtxRetain(&context, !bench->device)) ||
           failed(cuCtxPushCurrent(context)) || failed(cuStreamCreate(&foreign, 1)) ||
           rig_check(gyre_all_reduce_on(comm, bench->memory, bench->other, 4, GYRE_I32, GYRE_SUM,
                                        foreign) == GYRE_INVALID &&
                         strstr(gyre_error(comm), "device"),
                     comm, "another device's stream was accepted") ||
           failed(cuCtxPopCurrent(&context));
}

static int refusals(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    (void)rig;
    bad = bad || rig_check(gyre_all_reduce_on(comm, bench.memory, bench.other, 4, GYRE_I32,
                                              GYRE_SUM, NULL) == GYRE_INVALID &&
                               strstr(gyre_error(comm), "cudaStreamLegacy"),
                           comm, "no stream was accepted");
    capture_begin(bench.stream[0]);
    bad = bad || rig_check(gyre_all_reduce_on(comm, bench.memory, bench.other, 4, GYRE_I32,
                                              GYRE_SUM, bench.stream[0]) == GYRE_UNSUPPORTED &&
                               strstr(gyre_error(comm), "graph"),
                           comm, "a captured stream was accepted");
    capture_end(bench.stream[0]);
    bad = bad || foreign_stream(comm, &bench) || chain(comm, &bench, 100);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void what_cannot_be_is_refused(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = refusals};
    (void)state;
    assert_int_equal(rig_run(&rig, 30), 0);
}

/* -- failure ----------------------------------------------------------------------------------- */

/* The other rank never comes: the stream is released, and the failure is told by the next call. */
static int left_alone(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    if (set_up(comm, &bench))
        return 1;
    atomic_fetch_add(&rig->shared->ready, 1);
    if (gyre_rank(comm) == 1)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    int status = gyre_all_reduce_on(comm, bench.memory, bench.other, COUNT, GYRE_I32, GYRE_SUM,
                                    bench.stream[0]);
    if (rig_check(status == 0, comm, "the call") || failed(cuStreamSynchronize(bench.stream[0])))
        return 1;
    status = gyre_all_reduce_on(comm, bench.memory, bench.other, COUNT, GYRE_I32, GYRE_SUM,
                                bench.stream[0]);
    rig_note(rig, comm, status, rig_now());
    free(bench.host);
    gyre_finalize(comm);
    return 0;
}

static void a_lost_rank_releases_the_stream(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = left_alone};
    (void)state;
    rig_start(&rig);
    rig_until(&rig.shared->ready, 2);
    kill(rig.pid[1], SIGKILL);
    assert_int_equal(rig_wait(&rig, 30, 2), 0);
    assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
    assert_non_null(strstr(rig.shared->error[0], "rank 1"));
}

/* One rank dies before it calls. So no other can have begun to write, and memory stays as it is:
 * to replace it the whole device would be waited for, while programs may use it again. */
static int never_begun(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    if (set_up(comm, &bench))
        return 1;
    atomic_fetch_add(&rig->shared->ready, 1);
    if (gyre_rank(comm) == 1)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    int before = fakecuda_calls("cuCtxSynchronize");
    int status = gyre_all_reduce_on(comm, bench.memory, bench.other, COUNT, GYRE_I32, GYRE_SUM,
                                    bench.stream[0]);
    int32_t word = 0;
    int peer = 2 - gyre_rank(comm);
    for (int k = 0; k < 50 && !status; k++) /* the operation moves as far as it gets */
        status = gyre_rank(comm) ? gyre_send(comm, &word, 1, GYRE_I32, peer)
                                 : gyre_recv(comm, &word, 1, GYRE_I32, peer);
    atomic_fetch_add(&rig->shared->ready, 1);
    int bad =
        rig_check(status == 0, comm, "the call") || failed(cuStreamSynchronize(bench.stream[0]));
    while (!gyre_barrier(comm))
        continue;
    bad += rig_check(fakecuda_calls("cuCtxSynchronize") == before, comm,
                     "memory was replaced that nobody could write");
    free(bench.host);
    gyre_finalize(comm);
    return bad;
}

static void memory_stays_where_nobody_could_write(void **state)
{
    struct rig rig = {.n = 3, .transport = "auto", .body = never_begun};
    (void)state;
    rig_start(&rig);
    rig_until(&rig.shared->ready, 5);
    kill(rig.pid[1], SIGKILL);
    assert_int_equal(rig_wait(&rig, 30, 2), 0);
}

/* -- what may wait for a device
 * ------------------------------------------------------------------ */

/* While operation 2 holds the stream, since the other rank has not called it, 3 and 4 want more
 * host memory than there is, a first kernel, and a communicator's is given up; and a long message
 * wants host memory for its pieces: none of it may wait for the stream. */
static int call_on_and_on(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_comm *part;
    struct gyre_region region;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (set_up(comm, &bench) || gyre_split(comm, 0, 0, &part) ||
        cuda->alloc(bench.device, COUNT * 4 + LONG, GYRE_SHARE_OPEN, &region, NULL))
        return 1;
    CUstream stream = bench.stream[0];
    struct gyre_work *work = NULL;
    uint8_t *message = (uint8_t *)region.base + COUNT * 4;
    int bad = gyre_all_reduce_on(comm, region.base, region.base, 100, GYRE_I32, GYRE_SUM, stream) ||
              gyre_all_reduce_on(part, region.base, region.base, 100, GYRE_I32, GYRE_SUM, stream) ||
              failed(cuStreamSynchronize(stream)) || gyre_barrier(comm);
    if (gyre_rank(comm) == 1)
        rig_until(&rig->shared->flag, 1);
    bad = bad ||
          gyre_all_reduce_on(comm, region.base, region.base, 200, GYRE_I32, GYRE_SUM, stream) ||
          gyre_all_reduce_on(comm, region.base, region.base, COUNT, GYRE_I32, GYRE_SUM, stream) ||
          gyre_all_reduce_on(comm, bench.memory, bench.memory, COUNT, GYRE_F16, GYRE_MIN, stream) ||
          gyre_all_reduce_on(part, region.base, region.base, COUNT, GYRE_I32, GYRE_SUM,
                             bench.stream[1]) ||
          (gyre_rank(comm) == 0 ? gyre_send_start(comm, message, LONG, GYRE_U8, 1, &work)
                                : gyre_recv_start(comm, message, LONG, GYRE_U8, 0, &work));
    atomic_store(&rig->shared->flag, 1);
    bad = bad || gyre_work_wait(work, -1) || failed(cuStreamSynchronize(stream)) ||
          failed(cuStreamSynchronize(bench.stream[1])) || gyre_finalize(part) || gyre_barrier(comm);
    cuda->free(&region);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void nothing_waits_for_a_held_stream(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .transport = "auto", .body = call_on_and_on}, 60), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "tcp", .body = call_on_and_on}, 60),
                     0);
}

/* The first message that a device copies comes while the receiver's stream is held: the queue for
 * it is there. */
static int receive_while_held(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    if (set_up(comm, &bench))
        return 1;
    bool first = gyre_rank(comm) == 0;
    int bad = !first && gyre_send(comm, bench.other, COUNT, GYRE_I32, 0);
    bad |= gyre_all_reduce_on(comm, bench.memory, bench.memory, COUNT, GYRE_I32, GYRE_SUM,
                              bench.stream[0]);
    bad = bad || (first && gyre_recv(comm, bench.other, COUNT, GYRE_I32, 1)) ||
          failed(cuStreamSynchronize(bench.stream[0])) || gyre_barrier(comm);
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void use_one_device(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_DEVICES", "0,0", 1); /* no copies between devices are tried before */
}

static void messages_need_nothing_new(void **state)
{
    struct rig rig = {
        .n = 2, .transport = "auto", .before = use_one_device, .body = receive_while_held};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* -- naps -------------------------------------------------------------------------------------- */

/* The slack of the helper's timer, in ns; -1: there is no helper, or no asking. */
static long helper_slack(void)
{
    char path[64], name[32] = "";
    long slack = -1;
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    while ((entry = readdir(threads))) {
        snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        bool found = file && fscanf(file, "%31s", name) == 1 && !strcmp(name, "gyre-helper");
        if (file)
            fclose(file);
        snprintf(path, sizeof(path), "/proc/%.16s/timerslack_ns", entry->d_name);
        file = found ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%ld", &slack) != 1)
            slack = -1;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return slack;
}

static int nap(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench) || chain(comm, &bench, COUNT);
    free(bench.host);
    long slack = helper_slack();
    bad = bad || rig_check(slack == 1 || slack == -1, comm, "the helper's naps have slack");
    return gyre_finalize(comm) || bad;
}

static void the_helper_naps_as_long_as_it_says(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "auto", .body = nap}, 60), 0);
}

/* -- a driver that keeps its callers ----------------------------------------------------------- */

/* Tells the other rank when a thread of this one is kept inside the driver, or was. */
static void *tell_blocked(void *argument)
{
    struct rig *rig = argument;
    while (!fakecuda_blocked() && !atomic_load(&rig->shared->flag))
        sched_yield();
    atomic_store(&rig->shared->flag, 1);
    return NULL;
}

/* Rank 0 puts more on its stream, behind an operation that rank 1 has not called, than the driver
 * takes: its thread is kept, and so would be any that posted something. */
static int fill_queue(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_region alone;
    pthread_t teller;
    bool mapped = rig->argument, first = gyre_rank(comm) == 0;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (set_up(comm, &bench) || cuda->alloc(bench.device, COUNT * 4, GYRE_SHARE_OPEN, &alone, NULL))
        return 1;
    CUstream stream = bench.stream[0];
    int32_t *memory = mapped ? bench.memory : (int32_t *)alone.base;
    for (uint64_t i = 0; i < COUNT; i++)
        bench.host[i] = value(gyre_rank(comm), i);
    int bad = copy(memory, bench.host, stream) || gyre_barrier(comm);
    if (first)
        pthread_create(&teller, NULL, tell_blocked, rig);
    else
        rig_until(&rig->shared->flag, 1);
    bad = bad || gyre_all_reduce_on(comm, memory, memory, COUNT, GYRE_I32, GYRE_SUM, stream);
    for (int i = 0; i < 3000 && !bad && first; i++)
        bad = failed(cuMemsetD8Async((CUdeviceptr)(uintptr_t)bench.other, 1, 1, bench.stream[0]));
    bad = bad || copy(bench.host, memory, stream) || failed(cuStreamSynchronize(stream)) ||
          check(comm, &bench, COUNT, 1);
    if (first)
        pthread_join(teller, NULL);
    free(bench.host);
    bad = gyre_finalize(comm) || bad;
    cuda->free(&alone);
    return bad;
}

static void a_full_launch_queue_stops_nobody(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = fill_queue};
    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        rig.argument = mapped ? &rig : NULL;
        assert_int_equal(rig_run(&rig, 60), 0);
    }
    rig = (struct rig){.n = 2, .transport = "tcp", .body = fill_queue};
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* -- a slow peer ------------------------------------------------------------------------------- */

static void slow_down_rank_1(const struct rig *rig, int rank)
{
    (void)rig;
    if (rank == 1)
        setenv("FAKECUDA_DELAY", "30000", 1);
}

/* A stream that has folded its own part waits for those of slower devices. */
static int sum_beside_a_slow_one(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench);
    CUstream stream = bench.stream[0];
    (void)rig;
    for (int round = 0; round < ROUNDS && !bad; round++) {
        for (uint64_t i = 0; i < COUNT; i++)
            bench.host[i] = value(gyre_rank(comm), i);
        bad = copy(bench.memory, bench.host, stream) || failed(cuStreamSynchronize(stream)) ||
              failed(cuMemsetD8Async((CUdeviceptr)(uintptr_t)bench.other, 0, COUNT * 4, stream)) ||
              gyre_all_reduce_on(comm, bench.memory, bench.other, COUNT, GYRE_I32, GYRE_SUM,
                                 stream) ||
              copy(bench.host, bench.other, stream) || failed(cuStreamSynchronize(stream)) ||
              check(comm, &bench, COUNT, 1);
    }
    free(bench.host);
    return gyre_finalize(comm) || bad;
}

static void streams_wait_for_slow_peers(void **state)
{
    struct rig rig = {
        .n = 2, .transport = "auto", .before = slow_down_rank_1, .body = sum_beside_a_slow_one};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* -- memory that comes late -------------------------------------------------------------------- */

/* Rank 0 puts an operation and a copy behind it on its stream before rank 1 calls the operation. */
static int queue_first(struct gyre_comm *comm, struct rig *rig, void *memory)
{
    CUcontext context;
    CUstream stream;
    pthread_t teller;
    int32_t *host = malloc(COUNT * 4);
    int bad = failed(cuDevicePrimaryCtxRetain(&context, gyre_device(comm))) ||
              failed(cuCtxPushCurrent(context)) ||
              failed(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (bad)
        return bad;
    pthread_create(&teller, NULL, tell_blocked, rig);
    bad = gyre_all_reduce_on(comm, memory, memory, COUNT, GYRE_I32, GYRE_SUM, stream) ||
          copy(host, memory, stream) || failed(cuStreamSynchronize(stream));
    atomic_store(&rig->shared->flag, 1);
    pthread_join(teller, NULL);
    free(host);
    return bad;
}

/* Memory of both ranks. Rank 1 comes to the operation when rank 0's stream waits for it. */
static int begin_late(struct gyre_comm *comm, struct rig *rig, void **memory)
{
    int bad = rig_check(gyre_alloc_device(comm, COUNT * 4, memory) == 0, comm, "memory") ||
              rig_check(gyre_barrier(comm) == 0, comm, "all have memory");
    if (gyre_rank(comm) == 0)
        return bad || queue_first(comm, rig, *memory);
    rig_until(&rig->shared->flag, 1);
    atomic_fetch_add(&rig->shared->ready, 1);
    return bad;
}

/* Rank 0's device tries and maps what rank 1 shares: all have tried when rank 0 allocated. */
static int share_late(struct gyre_comm *comm, struct rig *rig)
{
    void *memory = NULL, *late = NULL;
    int bad = gyre_rank(comm) == 0 ? begin_late(comm, rig, &memory) : 0;
    if (gyre_rank(comm) == 1) {
        bad = rig_check(gyre_barrier(comm) == 0, comm, "rank 0 has memory");
        rig_until(&rig->shared->flag, 1);
        bad = bad || rig_check(gyre_alloc_device(comm, COUNT * 4, &late) == 0, comm, "late memory");
        bad = bad || rig_check(gyre_all_reduce(comm, late, late, COUNT, GYRE_I32, GYRE_SUM) == 0,
                               comm, "a sum of late memory");
    }
    return gyre_finalize(comm) || bad;
}

static void late_memory_is_served(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "auto", .body = share_late}, 60),
                     0);
}

/* Rank 0's device cannot let go of memory that rank 1 frees before rank 1 has called the operation,
 * nor map any that comes behind. */
static int come_late(struct gyre_comm *comm, struct rig *rig)
{
    void *memory = NULL, *late;
    int bad = begin_late(comm, rig, &memory), status;
    if (gyre_rank(comm) == 0) {
        status = gyre_barrier(comm);
        bad += rig_check(status < 0, comm, "the job has failed");
    } else {
        bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
        status = gyre_alloc_device(comm, COUNT * 4, &late);
    }
    rig_note(rig, comm, status, rig_now());
    gyre_finalize(comm);
    return bad;
}

/* Rank 1 is told, or it is killed while it waits. Nobody hangs either way. */
static void late_memory_is_refused(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct rig rig = {.n = 2, .transport = "auto", .dead_ms = 2000, .body = come_late};
        rig_start(&rig);
        rig_until(&rig.shared->ready, 1);
        if (killed)
            kill(rig.pid[1], SIGKILL);
        assert_int_equal(rig_wait(&rig, 60, killed ? 2 : 0), 0);
        if (!killed && rig.shared->status[1] != GYRE_PEER_LOST) { /* a rank was starved */
            assert_int_equal(rig.shared->status[1], GYRE_TIMED_OUT);
            assert_non_null(strstr(rig.shared->error[1], "before any queues such work"));
        }
    }
}

/* -- its end ----------------------------------------------------------------------------------- */

/* Other streams have much to do, so this one comes to its wait late: not before the communicator
 * has ended. */
static int keep_busy(CUdeviceptr memory)
{
    CUstream other[6];
    int bad = 0;
    for (int i = 0; i < 6; i++)
        bad |= failed(cuStreamCreate(&other[i], CU_STREAM_NON_BLOCKING));
    for (int k = 0; k < 360 && !bad; k++)
        bad = failed(cuMemsetD8Async(memory, 1, 64, other[k % 6]));
    return bad;
}

static int end_early(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_comm *part = comm;
    CUdeviceptr memory;
    bool split = rig->argument;
    if (set_up(comm, &bench) || failed(cuMemAlloc(&memory, 2 << 20)) ||
        (split && gyre_split(comm, 0, 0, &part)) || keep_busy(memory))
        return 1;
    int bad = gyre_all_reduce_on(part, bench.memory, bench.other, 1000, GYRE_I32, GYRE_SUM,
                                 bench.stream[0]) ||
              gyre_finalize(part) || failed(cuStreamSynchronize(bench.stream[0]));
    free(bench.host);
    return (split && gyre_finalize(comm)) || bad;
}

static void a_stream_may_outlive_the_communicator(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = end_early};
    (void)state;
    for (int seed = 1; seed <= 6; seed++) {
        char text[8];
        snprintf(text, sizeof(text), "%d", seed);
        setenv("FAKECUDA_SEED", text, 1);
        rig.argument = seed % 2 ? &rig : NULL;
        assert_int_equal(rig_run(&rig, 30), 0);
    }
    unsetenv("FAKECUDA_SEED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(default_streams_have_names),
        cmocka_unit_test(host_memory_is_in_order),
        cmocka_unit_test(every_verb_keeps_order),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_lost_rank_releases_the_stream),
        cmocka_unit_test(nothing_waits_for_a_held_stream),
        cmocka_unit_test(a_stream_may_outlive_the_communicator),
    };
    const struct CMUnitTest strict[] = {
        cmocka_unit_test(a_full_launch_queue_stops_nobody),
        cmocka_unit_test(memory_stays_where_nobody_could_write),
        cmocka_unit_test(the_helper_naps_as_long_as_it_says),
        cmocka_unit_test(a_wide_exchange_stands_on_the_stream),
        cmocka_unit_test(messages_need_nothing_new),
        cmocka_unit_test(late_memory_is_served),
        cmocka_unit_test(late_memory_is_refused),
        cmocka_unit_test(streams_wait_for_slow_peers),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 0);
    setenv("FAKECUDA_DELAY", "300", 1);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    setenv("FAKECUDA_DELAY", "0", 1);
    return fakecuda_stands_in() ? failures + cmocka_run_group_tests(strict, NULL, NULL) : failures;
}
