/* CUDA memory that no peer maps, as a program's own allocator gives it: operations inside a node go
 * by way of windows on the device, and no byte of them by way of the host. The stand-in for CUDA
 * counts bytes. */
#include "program/cuda/alone/alone_rig.h"
#include "device/device.h"
#include "rig/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 150001u /* elements of a block */

enum way { RUN, START, ON, WAYS };
enum place { APART, MAPPED, HOST }; /* of a rank's buffers; APART: a device's, which no peer maps */

struct bench {
    CUdeviceptr apart; /* INPUT, and behind it OUTPUT */
    void *memory[3][2];
    CUstream stream;
    int32_t *host;
    uint64_t bytes; /* of a buffer */
};

static int set_up(struct gyre_comm *comm, struct bench *bench, bool proven)
{
    CUcontext context;
    void *first;
    bench->bytes = (uint64_t)COUNT * 4 * (uint64_t)gyre_size(comm);
    bench->host = calloc(1, bench->bytes);
    if (proven && gyre_alloc_device(comm, 2 * bench->bytes, &first))
        return rig_check(false, comm, "gyre_alloc_device");
    if (cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) || cuCtxPushCurrent(context) ||
        cuMemAlloc(&bench->apart, 2 * bench->bytes) ||
        cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING))
        return rig_check(false, comm, "memory and a stream");
    for (int i = 0; i < 2; i++) {
        bench->memory[APART][i] = (char *)(uintptr_t)bench->apart + i * bench->bytes;
        bench->memory[MAPPED][i] = proven ? (char *)first + i * bench->bytes : NULL;
        bench->memory[HOST][i] = calloc(1, bench->bytes);
    }
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory");
}

static int tear_down(struct gyre_comm *comm, struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        free(bench->memory[HOST][i]);
    free(bench->host);
    int bad = gyre_finalize(comm) != 0;
    return bad + (cuMemFree(bench->apart) != CUDA_SUCCESS);
}

static int carry(const struct bench *bench, void *to, const void *from)
{
    return cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bench->bytes,
                         bench->stream) ||
           cuStreamSynchronize(bench->stream);
}

/* Element i of a rank's block b. */
static int32_t value(int rank, int b, uint64_t i)
{
    return (int32_t)(rank * 1000 + b * 100 + (int)(i % 89));
}

static int sum(struct gyre_comm *comm, const struct bench *bench, enum way way, const void *input,
               void *output)
{
    struct gyre_work *work = NULL;
    if (way == ON)
        return gyre_all_reduce_on(comm, input, output, COUNT, GYRE_I32, GYRE_SUM, bench->stream) ||
               cuStreamSynchronize(bench->stream) ||
               alone_await_end(comm); /* before, the rank makes no window */
    if (way == RUN)
        return gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM);
    return gyre_all_reduce_start(comm, input, output, COUNT, GYRE_I32, GYRE_SUM, &work) ||
           gyre_work_wait(work, -1);
}

/* One sum; *moved: bytes over the host. */
static int try_sum(struct gyre_comm *comm, const struct bench *bench, enum way way,
                   enum place place, bool in_place, uint64_t *moved)
{
    int n = gyre_size(comm);
    void *input = bench->memory[place][0], *output = bench->memory[place][!in_place];
    for (uint64_t i = 0; i < COUNT; i++)
        bench->host[i] = value(gyre_rank(comm), 0, i);
    if (carry(bench, input, bench->host))
        return rig_check(false, comm, "a copy");
    uint64_t before = fakecuda_host_bytes();
    if (rig_check(sum(comm, bench, way, input, output) == 0, comm, "a sum"))
        return 1;
    *moved = fakecuda_host_bytes() - before;
    if (carry(bench, bench->host, output))
        return rig_check(false, comm, "a copy");
    for (uint64_t i = 0; i < COUNT; i++)
        if (bench->host[i] != n * value(0, 0, i) + 500 * n * (n - 1))
            return rig_check(false, comm, "a sum's elements");
    return 0;
}

/* All ranks have memory apart, or every second has mapped memory. */
static int stay_on_devices(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, true);
    (void)rig;
    for (int i = 0; i < 4 * WAYS && !bad; i++) {
        uint64_t moved = 1;
        enum place place = i / WAYS % 2 && gyre_rank(comm) % 2 ? MAPPED : APART;
        bad = try_sum(comm, &bench, (enum way)(i % WAYS), place, i / WAYS / 2, &moved) ||
              rig_check(moved == 0, comm, "bytes of a sum went over the host");
    }
    return tear_down(comm, &bench) || bad;
}

/* Blocks: each rank's go to all, and are all read. */
static int gather_and_exchange(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, true), n = gyre_size(comm), rank = gyre_rank(comm);
    (void)rig;
    for (int exchange = 0; exchange < 2 && !bad; exchange++) {
        void *const *memory = bench.memory[APART];
        for (uint64_t i = 0; i < (uint64_t)n * COUNT; i++)
            bench.host[i] = value(rank, (int)(i / COUNT), i % COUNT);
        bad = carry(&bench, memory[0], bench.host);
        uint64_t before = fakecuda_host_bytes();
        bad |= rig_check(
            (exchange ? gyre_all_to_all(comm, memory[0], memory[1], COUNT, GYRE_I32)
                      : gyre_all_gather(comm, memory[0], memory[1], COUNT, GYRE_I32)) == 0 &&
                fakecuda_host_bytes() == before,
            comm, "blocks, or bytes of them over the host");
        bad |= carry(&bench, bench.host, memory[1]);
        for (uint64_t i = 0; i < (uint64_t)n * COUNT && !bad; i++)
            bad =
                rig_check(bench.host[i] == value((int)(i / COUNT), exchange ? rank : 0, i % COUNT),
                          comm, "elements of a block");
    }
    return tear_down(comm, &bench) || bad;
}

/* Whether a message of a whole buffer has come. */
static int look_at_message(struct gyre_comm *comm, const struct bench *bench, enum place place,
                           const int32_t *output, int first)
{
    const int32_t *came = place == HOST ? output : bench->host;
    int bad = place == HOST ? 0 : carry(bench, bench->host, output);
    for (uint64_t i = 0; i < bench->bytes / 4 && !bad; i++)
        bad = rig_check(came[i] == value(first, 0, i), comm, "elements of a message");
    return bad;
}

/* Each rank sends to the next, twice at once, from memory that no peer maps. The receiver's device
 * reads windows: to reach such memory, or mapped memory, no byte crosses to the host. */
static int pass_around(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    struct gyre_work *work[4];
    int bad = set_up(comm, &bench, true), n = gyre_size(comm), rank = gyre_rank(comm);
    const int to = (rank + 1) % n, from = (rank + n - 1) % n;
    (void)rig;
    for (int i = 0; i < 6 && !bad; i++) {
        const enum place place = (enum place)(i % 3);
        const uint64_t count = bench.bytes / 4, before = fakecuda_host_bytes();
        int32_t *input = bench.memory[APART][0];
        int32_t *const output[] = {bench.memory[place][1], bench.memory[MAPPED][0]};
        for (uint64_t k = 0; k < count; k++)
            bench.host[k] = value(rank + i, 0, k);
        bad = carry(&bench, input, bench.host) || rig_check(!gyre_barrier(comm), comm, "a turn");
        for (int k = 0; k < 2 && !bad; k++)
            bad = gyre_recv_start(comm, output[k], count, GYRE_I32, from, &work[2 * k]) ||
                  gyre_send_start(comm, input, count, GYRE_I32, to, &work[2 * k + 1]);
        bad = rig_check(!bad && !gyre_wait_all(work, 4, -1), comm, "messages");
        bad |= rig_check(fakecuda_host_bytes() - before == bench.bytes * (place == HOST ? 2 : 1),
                         comm, "bytes of messages over the host");
        bad |= look_at_message(comm, &bench, place, output[0], from + i) ||
               look_at_message(comm, &bench, MAPPED, output[1], from + i);
    }
    return tear_down(comm, &bench) || bad;
}

/* Rank 1 has its buffers on the host, so all leave the device; windows are left for mirrors. */
static int leave(struct gyre_comm *comm, bool proven)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, proven);
    for (int i = 0; i < 2 * WAYS && !bad; i++) {
        uint64_t moved;
        bad = try_sum(comm, &bench, (enum way)(i % WAYS), gyre_rank(comm) == 1 ? HOST : APART,
                      i / WAYS, &moved);
    }
    return tear_down(comm, &bench) || bad;
}

static int leave_devices(struct gyre_comm *comm, struct rig *rig)
{
    (void)rig;
    return leave(comm, true);
}

static int leave_untried(struct gyre_comm *comm, struct rig *rig)
{
    (void)rig;
    return leave(comm, false);
}

/* The first operation on a device's memory, whichever it is, has the ranks try copies between their
 * devices, which move less over the host than a mirror would. */
static int try_first(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    const enum way first = *(const enum way *)rig->argument;
    int bad = set_up(comm, &bench, false);
    for (int i = 0; i < 2 * WAYS && !bad; i++) {
        uint64_t moved = 1;
        bad = try_sum(comm, &bench, (enum way)((first + i) % WAYS), APART, i >= WAYS, &moved) ||
              rig_check(moved < (i ? 1 : COUNT * 4), comm, "bytes of a sum went over the host");
    }
    return tear_down(comm, &bench) || bad;
}

/* So do ranks of one process that one thread holds: no call waits for another's. */
static int sum_in_one_process(void)
{
    enum { RANKS = 2 };
    struct gyre_comm *comm[RANKS];
    struct bench bench[RANKS] = {{0}};
    int bad = gyre_init_in_process(comm, RANKS, NULL, NULL) != 0;
    for (int r = 0; r < RANKS && !bad; r++) {
        CUcontext context;
        bench[r].bytes = COUNT * 4;
        bad = cuDevicePrimaryCtxRetain(&context, gyre_device(comm[r])) ||
              cuCtxPushCurrent(context) || cuMemAlloc(&bench[r].apart, COUNT * 4) ||
              cuStreamCreate(&bench[r].stream, CU_STREAM_NON_BLOCKING);
    }
    for (int r = 0; r < RANKS && !bad; r++) {
        void *memory = (void *)(uintptr_t)bench[r].apart;
        bad =
            gyre_all_reduce_on(comm[r], memory, memory, COUNT, GYRE_I32, GYRE_SUM, bench[r].stream);
    }
    for (int r = 0; r < RANKS && !bad; r++)
        bad = cuStreamSynchronize(bench[r].stream);
    for (int r = 0; r < RANKS && !bad; r++)
        bad = gyre_finalize(comm[r]);
    return bad;
}

/* Rank 1's stream waits for its program, and a copy behind the wait stands on an engine, so its
 * device can try nothing. */
static int hold_a_stream(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    static _Atomic uint64_t word[512] __attribute__((aligned(4096)));
    const bool holds = gyre_rank(comm) == 1;
    uint64_t moved;
    int bad = set_up(comm, &bench, false);
    if (holds && !bad)
        bad = cuMemHostRegister((void *)word, sizeof(word),
                                CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) ||
              cuStreamWaitValue64(bench.stream, (CUdeviceptr)(uintptr_t)word, 1,
                                  CU_STREAM_WAIT_VALUE_GEQ) ||
              cuMemcpyAsync(bench.apart, bench.apart + 8, 8, bench.stream);
    (void)rig;
    for (uint64_t i = 0; i < COUNT; i++)
        ((int32_t *)bench.memory[HOST][0])[i] = value(gyre_rank(comm), 0, i);
    bad = bad || rig_check(gyre_barrier(comm) == 0, comm, "a stream is held");
    if (holds)
        bad = bad ||
              rig_check(sum(comm, &bench, RUN, bench.memory[HOST][0], bench.memory[HOST][1]) == 0,
                        comm, "a sum of the host's memory");
    else
        bad = bad || try_sum(comm, &bench, RUN, APART, false, &moved);
    word[0] = 1;
    return tear_down(comm, &bench) || bad;
}

/* Rank 1 is stopped, and killed when rank 0 waits for its trial. */
static int lose_a_rank(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    const enum way way = *(const enum way *)rig->argument;
    int bad = set_up(comm, &bench, false);
    rig->shared->ready++;
    rig_until(&rig->shared->flag, 1);
    rig->shared->ready++;
    int status = bad ? 0 : sum(comm, &bench, way, bench.memory[APART][0], bench.memory[APART][1]);
    rig_note(rig, comm, status ? gyre_barrier(comm) : 0, rig_now());
    gyre_finalize(comm);
    return bad;
}

/* -- one behind the other ---------------------------------------------------------------------- */

/* Sums of two lengths stand on a stream, each of what the one before has left, and none waits for
 * the host. */
static int queue_sums(struct gyre_comm *comm, const struct bench *bench, uint64_t *moved)
{
    void *const *memory = bench->memory[APART];
    const uint64_t n = (uint64_t)gyre_size(comm), before = fakecuda_host_bytes();
    for (int i = 0; i < 4; i++)
        if (gyre_all_reduce_on(comm, memory[i % 2], memory[1 - i % 2], i % 2 ? 2 * COUNT : COUNT,
                               GYRE_I32, GYRE_SUM, bench->stream))
            return rig_check(false, comm, "a queued sum");
    if (cuStreamSynchronize(bench->stream) || alone_await_end(comm))
        return rig_check(false, comm, "the end of queued sums");
    *moved = fakecuda_host_bytes() - before;
    if (carry(bench, bench->host, memory[0]))
        return rig_check(false, comm, "a copy");
    for (uint64_t i = 0; i < COUNT; i++)
        if (bench->host[i] != (int32_t)(n * n * n * n))
            return rig_check(false, comm, "the elements of queued sums");
    return 0;
}

/* The window of the first round may be too short, for want of a quiet moment. */
static int queue_rounds(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, false);
    (void)rig;
    for (int round = 0; round < 4 && !bad; round++) {
        uint64_t moved = 1;
        for (uint64_t i = 0; i < 2 * COUNT; i++)
            bench.host[i] = 1;
        bad = carry(&bench, bench.memory[APART][0], bench.host) ||
              carry(&bench, bench.memory[APART][1], bench.host) ||
              rig_check(gyre_barrier(comm) == 0, comm, "a round") ||
              queue_sums(comm, &bench, &moved) ||
              rig_check(!round || moved == 0, comm, "bytes of queued sums went over the host");
    }
    return tear_down(comm, &bench) || bad;
}

/* A part's windows are given up with it, and the world has its own. */
static int split_and_end(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    struct gyre_comm *part;
    int bad = set_up(comm, &bench, true);
    (void)rig;
    uint64_t moved = 0, before = fakecuda_alive().bytes;
    for (int i = 0; i < 3 && !bad; i++)
        bad = rig_check(gyre_split(comm, 0, 0, &part) == 0, comm, "gyre_split") ||
              try_sum(part, &bench, (enum way)i, APART, false, &moved) ||
              rig_check(gyre_finalize(part) == 0 && moved == 0 && fakecuda_alive().bytes == before,
                        comm, "a window is left of a part");
    return tear_down(comm, &bench) || bad;
}

static void run(int n, int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = "auto", .body = body};
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void nothing_goes_over_the_host(void **state)
{
    (void)state;
    run(2, stay_on_devices);
    run(3, stay_on_devices);
    run(3, gather_and_exchange);
}

static void messages_go_from_windows(void **state)
{
    (void)state;
    run(2, pass_around);
    run(3, pass_around);
}

static void host_memory_makes_all_leave(void **state)
{
    (void)state;
    run(2, leave_devices);
    run(3, leave_devices);
}

static void a_first_operation_tries_the_devices(void **state)
{
    static const char *const devices[] = {"0,1,0,1", "0,0,0,0", "0,1,1,1"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        setenv("GYRE_DEVICES", devices[i], 1);
        for (int first = 0; first < WAYS; first++) {
            enum way way = (enum way)first;
            struct rig rig = {
                .n = 2 + first % 2, .transport = "auto", .body = try_first, .argument = &way};
            assert_int_equal(rig_run(&rig, 60), 0);
        }
    }
    setenv("GYRE_DEVICES", "0,1,0,1", 1);
}

static void ranks_of_one_thread_try_them(void **state)
{
    int ended = 0;
    (void)state;
    const pid_t child = fork();
    if (child == 0)
        _exit(sum_in_one_process());
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

static void other_memory_takes_part_in_the_first(void **state)
{
    (void)state;
    run(2, leave_untried);
    run(3, leave_untried);
}

static void a_held_stream_costs_the_dead_time(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .dead_ms = 2000, .body = hold_a_stream};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void a_rank_lost_in_the_trial_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < WAYS; i++) {
        int ended;
        enum way way = (enum way)i;
        struct rig rig = {
            .n = 2, .transport = "auto", .dead_ms = 20000, .body = lose_a_rank, .argument = &way};
        rig_start(&rig);
        rig_until(&rig.shared->ready, 2);
        kill(rig.pid[1], SIGSTOP);
        assert_int_equal(waitpid(rig.pid[1], &ended, WUNTRACED), rig.pid[1]);
        rig.shared->flag = 1;
        rig_until(&rig.shared->ready, 3);
        kill(rig.pid[1], SIGKILL);
        assert_int_equal(rig_wait(&rig, 60, 1u << 1), 0);
        assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
        assert_non_null(strstr(rig.shared->error[0], "rank 1"));
    }
}

static void queued_operations_share_a_window(void **state)
{
    (void)state;
    run(2, queue_rounds);
    run(3, queue_rounds);
}

static void a_part_leaves_no_window(void **state)
{
    (void)state;
    run(2, split_and_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_over_the_host),
        cmocka_unit_test(messages_go_from_windows),
        cmocka_unit_test(host_memory_makes_all_leave),
        cmocka_unit_test(a_first_operation_tries_the_devices),
        cmocka_unit_test(ranks_of_one_thread_try_them),
        cmocka_unit_test(other_memory_takes_part_in_the_first),
        cmocka_unit_test(a_held_stream_costs_the_dead_time),
        cmocka_unit_test(a_rank_lost_in_the_trial_is_named),
        cmocka_unit_test(queued_operations_share_a_window),
        cmocka_unit_test(a_part_leaves_no_window),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 1);
    setenv("FAKECUDA_DELAY", "300", 1); /* what is not waited for comes late */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
