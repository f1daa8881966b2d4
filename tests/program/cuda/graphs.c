/* Operations that were captured into CUDA graphs, with real processes over the stand-in for CUDA.
 *
 *     begin capture ─▶ all_reduce ─▶ broadcast ─▶ all_reduce ─▶ end capture ─▶ launch, launch, …
 *
 * In haste two rounds of launches, not four, and short operations of each count for one or two
 * numbers of ranks. */
#include "rig/comm_rig.h"
#include "collectives/comm/communicator.h"
#include "rig/haste.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT    20011u
#define LAUNCHES 5

struct bench {
    uint64_t count; /* of the elements that operations have */
    CUstream stream, beside;
    float *memory, *other; /* the device's */
    float *host, *want;
};

static int failed(CUresult error)
{
    if (error)
        fprintf(stderr, "CUDA error %d\n", (int)error);
    return error != 0;
}

static int copy(void *to, const void *from, CUstream stream)
{
    return failed(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, COUNT * 4, stream));
}

static int sum_on(struct gyre_comm *comm, const struct bench *bench, CUstream stream)
{
    return gyre_all_reduce_on(comm, bench->memory, bench->other, bench->count, GYRE_F32, GYRE_SUM,
                              stream);
}

/* Makes streams in the device's context, and the first operation on one, which locks what graphs
 * need. */
static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    CUcontext context;
    bench->count = COUNT;
    bench->host = calloc(COUNT, 4);
    bench->want = calloc(COUNT, 4);
    if (gyre_alloc_device(comm, COUNT * 4, (void **)&bench->memory) ||
        gyre_alloc_device(comm, COUNT * 4, (void **)&bench->other))
        return rig_check(false, comm, "memory");
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory") ||
           failed(cuDevicePrimaryCtxRetain(&context, gyre_device(comm))) ||
           failed(cuCtxPushCurrent(context)) ||
           failed(cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING)) ||
           failed(cuStreamCreate(&bench->beside, CU_STREAM_NON_BLOCKING)) ||
           rig_check(sum_on(comm, bench, bench->beside) == 0, comm, "the first sum") ||
           failed(cuStreamSynchronize(bench->beside)) ||
           rig_check(gyre_barrier(comm) == 0, comm, "all have locked");
}

static void free_bench(const struct bench *bench)
{
    free(bench->host);
    free(bench->want);
}

/* A sum, its copy to all others' memory by a broadcast, and the sum of that. */
static int call_three(struct gyre_comm *comm, const struct bench *bench, CUstream stream)
{
    return rig_check(sum_on(comm, bench, stream) == 0, comm, "a sum") ||
           rig_check(gyre_broadcast_on(comm, bench->other, bench->memory, bench->count, GYRE_F32, 1,
                                       stream) == 0,
                     comm, "a broadcast") ||
           rig_check(sum_on(comm, bench, stream) == 0, comm, "a second sum");
}

static int capture(struct gyre_comm *comm, const struct bench *bench, CUgraphExec *executable,
                   int (*call)(struct gyre_comm *, const struct bench *, CUstream))
{
    CUgraph graph = NULL;
    int bad = failed(cuStreamBeginCapture(bench->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) ||
              call(comm, bench, bench->stream);
    bad = failed(cuStreamEndCapture(bench->stream, &graph)) || bad;
    return bad || failed(cuGraphInstantiate(executable, graph, 0)) || failed(cuGraphDestroy(graph));
}

static int fill(struct gyre_comm *comm, const struct bench *bench, int round)
{
    for (uint64_t i = 0; i < COUNT; i++)
        bench->host[i] = (float)(gyre_rank(comm) + 1) / (float)(round + 3) + (float)(i % 7);
    return copy(bench->memory, bench->host, bench->stream) ||
           failed(cuStreamSynchronize(bench->stream));
}

/* Launches one behind the other, compared with as many calls outside of the graph. */
static int compare(struct gyre_comm *comm, const struct bench *bench, CUgraphExec executable,
                   int round)
{
    int bad = fill(comm, bench, round);
    for (int i = 0; i < LAUNCHES && !bad; i++)
        bad = failed(cuGraphLaunch(executable, bench->stream));
    bad = bad || copy(bench->host, bench->other, bench->stream) ||
          failed(cuStreamSynchronize(bench->stream));
    if (!bad)
        memcpy(bench->want, bench->host, COUNT * 4);
    bad = bad || rig_check(gyre_barrier(comm) == 0, comm, "all have launched") ||
          fill(comm, bench, round);
    for (int i = 0; i < LAUNCHES && !bad; i++)
        bad = call_three(comm, bench, bench->stream);
    return bad || copy(bench->host, bench->other, bench->stream) ||
           failed(cuStreamSynchronize(bench->stream)) ||
           rig_check(!memcmp(bench->host, bench->want, COUNT * 4), comm, "other bits in a graph");
}

/* What launch_often() works with: memory of gyre_alloc_device(), or some that no peer maps, on all
 * ranks or on every second. */
struct launching {
    uint64_t count;
    bool apart, some;
};

/* Exchanges the bench's memory for the program's own, that no peer maps, and makes a call outside
 * of a capture. */
static int move_apart(struct gyre_comm *comm, struct bench *bench, CUdeviceptr *own)
{
    if (failed(cuMemAlloc(own, 2 * sizeof(float) * COUNT)))
        return 1;
    bench->memory = (float *)(uintptr_t)*own;
    bench->other = bench->memory + COUNT;
    return rig_check(sum_on(comm, bench, bench->stream) == 0, comm, "a sum before the capture") ||
           failed(cuStreamSynchronize(bench->stream));
}

static int launch_often(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUdeviceptr own = 0;
    CUgraphExec executable = NULL;
    const struct launching *with = rig->argument;
    int bad = set_up(comm, &bench);
    bench.count = with->count;
    if (with->apart && !bad && (!with->some || gyre_rank(comm) % 2))
        bad = move_apart(comm, &bench, &own);
    else if (with->apart && !bad)
        bad = sum_on(comm, &bench, bench.stream) || failed(cuStreamSynchronize(bench.stream));
    bad = bad || gyre_barrier(comm) || capture(comm, &bench, &executable, call_three);
    for (int round = 0; round < (in_haste() ? 2 : 4) && !bad; round++)
        bad = compare(comm, &bench, executable, round) ||
              rig_check(gyre_barrier(comm) == 0, comm, "a round");
    bad = bad || failed(cuGraphExecDestroy(executable));
    free_bench(&bench);
    bad = gyre_finalize(comm) || bad;
    return (own && failed(cuMemFree(own))) || bad;
}

static void slow_down_rank_1(const struct rig *rig, int rank)
{
    (void)rig;
    if (rank == 1)
        setenv("FAKECUDA_DELAY", "300", 1);
}

static void compare_with_calls(struct launching with, int least, int most)
{
    for (int n = least; n <= most; n++)
        assert_int_equal(rig_run(&(struct rig){.n = n,
                                               .transport = "auto",
                                               .before = slow_down_rank_1,
                                               .body = launch_often,
                                               .argument = &with},
                                 60),
                         0);
}

static void launches_have_the_same_bits(void **state)
{
    (void)state;
    compare_with_calls((struct launching){.count = COUNT}, 2, 4);
}

/* What calls do as an EXCHANGE. */
static void short_launches_have_the_same_bits(void **state)
{
    (void)state;
    compare_with_calls((struct launching){.count = 2}, in_haste() ? 4 : 2, 4);
    compare_with_calls((struct launching){.count = 1001}, 2, in_haste() ? 3 : 4);
}

/* By way of windows. */
static void other_memory_has_the_same_bits(void **state)
{
    const int most = in_haste() ? 3 : 4;
    (void)state;
    compare_with_calls((struct launching){.count = COUNT, .apart = true}, 2, most);
    compare_with_calls((struct launching){.count = COUNT, .apart = true, .some = true}, 2, most);
    compare_with_calls((struct launching){.count = 2, .apart = true}, 2, most);
}

/* -- what is refused --------------------------------------------------------------------------- */

static int refused(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   CUstream stream, const char *word)
{
    int status = gyre_all_reduce_on(comm, input, output, count, GYRE_F32, GYRE_SUM, stream);
    bool told = strstr(gyre_error(comm), word) && strstr(gyre_error(comm), "graph");
    return rig_check(status == GYRE_UNSUPPORTED && told, comm, word);
}

/* No memory is left for a window. */
static int refuse_without_window(struct gyre_comm *comm, void *own, CUstream stream)
{
    fakecuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    int bad = refused(comm, own, own, COUNT, stream, "no window");
    fakecuda_fail("cuMemCreate", 0, CUDA_SUCCESS);
    return bad;
}

static int refuse(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUdeviceptr plain;
    CUgraph graph;
    (void)rig;
    if (set_up(comm, &bench) || failed(cuMemAlloc(&plain, COUNT * 4)))
        return 1;
    void *own = (void *)(uintptr_t)plain;
    int bad = failed(cuStreamBeginCapture(bench.stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) ||
              refused(comm, bench.host, bench.want, COUNT, bench.stream, "gyre_alloc_device()") ||
              refused(comm, own, bench.host, COUNT, bench.stream, "gyre_alloc_device()") ||
              refuse_without_window(comm, own, bench.stream);
    for (uint32_t i = 0; i < GYRE_CAPTURED_MAX && !bad; i++)
        bad = rig_check(sum_on(comm, &bench, bench.stream) == 0, comm, "one of the most");
    bad = bad || refused(comm, bench.memory, bench.other, COUNT, bench.stream, "the most") ||
          failed(cuStreamEndCapture(bench.stream, &graph)) || failed(cuGraphDestroy(graph)) ||
          rig_check(gyre_barrier(comm) == 0, comm, "all go on");
    free_bench(&bench);
    return gyre_finalize(comm) || failed(cuMemFree(plain)) || bad;
}

static void what_cannot_be_captured_is_refused(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "auto", .body = refuse}, 60), 0);
}

/* Rank 1 makes the call that rank 0 captures outside of a capture. */
static int capture_so_many(struct gyre_comm *comm, struct rig *rig, uint64_t count)
{
    struct bench bench;
    CUgraphExec executable;
    int bad = set_up(comm, &bench);
    bench.count = count;
    bad = bad || (gyre_rank(comm) ? call_three(comm, &bench, bench.stream)
                                  : capture(comm, &bench, &executable, call_three));
    int status = gyre_barrier(comm);
    rig_note(rig, comm, status, rig_now());
    free_bench(&bench);
    gyre_finalize(comm);
    return 0;
}

static int capture_alone(struct gyre_comm *comm, struct rig *rig)
{
    return capture_so_many(comm, rig, COUNT);
}

static int capture_short_alone(struct gyre_comm *comm, struct rig *rig)
{
    return capture_so_many(comm, rig, 2);
}

static void a_lonely_capture_is_noticed(void **state)
{
    (void)state;
    rig_expect_story(2, "auto", capture_alone, GYRE_MISMATCH, "graph");
    rig_expect_story(2, "auto", capture_short_alone, GYRE_MISMATCH, "operations");
}

/* Rank 1's driver refuses the operation, when rank 0 has it in its graph. */
static int capture_half(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUgraph graph = NULL;
    int bad = set_up(comm, &bench) ||
              failed(cuStreamBeginCapture(bench.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (gyre_rank(comm) == 1) {
        rig_until(&rig->shared->flag, 1);
        fakecuda_fail("cuStreamBatchMemOp", 2, CUDA_ERROR_OUT_OF_MEMORY);
    }
    int status = bad ? 0 : sum_on(comm, &bench, bench.stream);
    rig->shared->flag = 1;
    bad = bad || rig_check((status != 0) == gyre_rank(comm), comm, "the call");
    bad = failed(cuStreamEndCapture(bench.stream, &graph)) || bad;
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    free_bench(&bench);
    gyre_finalize(comm);
    return bad || failed(cuGraphDestroy(graph));
}

static void half_a_capture_ends_the_job(void **state)
{
    (void)state;
    struct rig rig = {.n = 2, .transport = "auto", .body = capture_half};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(rig.shared->status[rank] < 0);
        assert_non_null(strstr(rig.shared->error[rank], "cuStreamBatchMemOp"));
    }
}

/* -- ends -------------------------------------------------------------------------------------- */

/* Whether the device's memory is still what it was. */
static int check_still(struct gyre_comm *comm, const struct bench *bench, CUgraphExec executable)
{
    for (int i = 0; i < 2; i++)
        if (failed(cuGraphLaunch(executable, bench->stream)))
            return 1;
    memset(bench->host, 0, COUNT * 4);
    if (copy(bench->host, bench->other, bench->stream) ||
        failed(cuStreamSynchronize(bench->stream)))
        return 1;
    return rig_check(!memcmp(bench->host, bench->want, COUNT * 4), comm, "a launch has folded");
}

/* Rank 0 launches, makes no call, and is released by the failure; later launches pass, too. */
static int lose_rank_1(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    CUdeviceptr own;
    CUgraphExec executable = NULL;
    if (set_up(comm, &bench) || (rig->argument && move_apart(comm, &bench, &own)) ||
        gyre_barrier(comm))
        return 1;
    memset(bench.want, 85, COUNT * 4);
    int bad = copy(bench.other, bench.want, bench.stream) ||
              failed(cuStreamSynchronize(bench.stream)) ||
              capture(comm, &bench, &executable, sum_on) ||
              rig_check(gyre_barrier(comm) == 0, comm, "all have captured");
    atomic_fetch_add(&rig->shared->ready, 1);
    if (gyre_rank(comm) == 1)
        rig_until(&rig->shared->flag, 1); /* for ever: it is killed */
    bad = bad || check_still(comm, &bench, executable);
    rig_note(rig, comm, sum_on(comm, &bench, bench.stream), rig_now());
    gyre_finalize(comm);
    bad = bad || failed(cuGraphLaunch(executable, bench.stream)) ||
          failed(cuStreamSynchronize(bench.stream));
    free_bench(&bench);
    return bad;
}

static void a_killed_rank_releases_launches(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        struct rig rig = {
            .n = 2, .transport = "auto", .body = lose_rank_1, .argument = apart ? &rig : NULL};
        rig_start(&rig);
        rig_until(&rig.shared->ready, 2);
        kill(rig.pid[1], SIGKILL);
        assert_int_equal(rig_wait(&rig, 30, 2), 0);
        assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
        assert_non_null(strstr(rig.shared->error[0], "rank 1"));
    }
}

/* A graph that outlives its communicator's end passes, and does nothing. */
static int outlive(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    struct gyre_comm *part;
    CUdeviceptr own;
    CUgraphExec executable = NULL;
    int bad = set_up(comm, &bench) || (rig->argument && move_apart(comm, &bench, &own)) ||
              gyre_split(comm, 0, 0, &part) || sum_on(part, &bench, bench.stream) ||
              failed(cuStreamSynchronize(bench.stream)) || gyre_barrier(part) ||
              capture(part, &bench, &executable, sum_on) || fill(comm, &bench, 1) ||
              failed(cuGraphLaunch(executable, bench.stream)) ||
              failed(cuStreamSynchronize(bench.stream)) || gyre_finalize(part);
    memset(bench.want, 85, COUNT * 4);
    bad = bad || copy(bench.other, bench.want, bench.stream) ||
          failed(cuStreamSynchronize(bench.stream)) || check_still(comm, &bench, executable);
    free_bench(&bench);
    return gyre_finalize(comm) || bad;
}

static void a_graph_may_outlive_its_communicator(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++)
        assert_int_equal(rig_run(&(struct rig){.n = 2,
                                               .transport = "auto",
                                               .body = outlive,
                                               .argument = apart ? &apart : NULL},
                                 60),
                         0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_have_the_same_bits),
        cmocka_unit_test(short_launches_have_the_same_bits),
        cmocka_unit_test(other_memory_has_the_same_bits),
        cmocka_unit_test(what_cannot_be_captured_is_refused),
        cmocka_unit_test(a_lonely_capture_is_noticed),
        cmocka_unit_test(half_a_capture_ends_the_job),
        cmocka_unit_test(a_killed_rank_releases_launches),
        cmocka_unit_test(a_graph_may_outlive_its_communicator),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
