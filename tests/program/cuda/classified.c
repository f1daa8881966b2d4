/* How often a call asks the driver whose memory a buffer is: at most once a buffer, whatever memory
 * and whichever way the call takes. The stand-in for CUDA counts. */
#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES (3u << 20)

enum place { MAPPED, APART, HOST, PLACES }; /* of buffers; APART: a device's, which no peer maps */

struct bench {
    struct gyre_region alone;
    void *memory[2][PLACES]; /* inputs, outputs */
    CUstream stream;
    int asked; /* questions to the driver before the call */
};

static int set_up(struct gyre_comm *comm, struct bench *bench)
{
    CUcontext context;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (cuda->alloc(gyre_device(comm), 2 * BYTES, GYRE_SHARE_OPEN, &bench->alone, NULL) ||
        cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) || cuCtxPushCurrent(context) ||
        cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING))
        return rig_check(false, comm, "memory and a stream");
    for (int i = 0; i < 2; i++) {
        bench->memory[i][APART] = (char *)bench->alone.base + i * BYTES;
        bench->memory[i][HOST] = calloc(1, BYTES);
        if (gyre_alloc_device(comm, BYTES, &bench->memory[i][MAPPED]))
            return rig_check(false, comm, "gyre_alloc_device");
    }
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory");
}

static int tear_down(struct gyre_comm *comm, struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        free(bench->memory[i][HOST]);
    int status = gyre_finalize(comm);
    gyre_device_of(GYRE_MEMORY_CUDA)->free(&bench->alone);
    return status;
}

static void begin_count(struct bench *bench)
{
    bench->asked = fakecuda_calls("cuPointerGetAttributes");
}

/* At least one: a process with a device asks about host memory, too. */
static int end_count(struct gyre_comm *comm, const struct bench *bench, int buffers,
                     const char *what)
{
    int asked = fakecuda_calls("cuPointerGetAttributes") - bench->asked;
    if (asked >= 1 && asked <= buffers)
        return 0;
    fprintf(stderr, "%s: %d questions about %d buffers\n", what, asked, buffers);
    return rig_check(false, comm, "the driver was asked too often, or never");
}

/* -- operations -------------------------------------------------------------------------------- */

enum way { RUN, START, ON, GROUP, WAYS };

static int sum(struct gyre_comm *comm, const struct bench *bench, enum way way, enum place in,
               enum place out, uint64_t count)
{
    struct gyre_work *work = NULL;
    void *input = bench->memory[0][in], *output = bench->memory[1][out];
    switch (way) {
    case RUN:
        return gyre_all_reduce(comm, input, output, count, GYRE_I32, GYRE_SUM);
    case START:
        return gyre_all_reduce_start(comm, input, output, count, GYRE_I32, GYRE_SUM, &work) ||
               gyre_work_wait(work, -1);
    case ON:
        return gyre_all_reduce_on(comm, input, output, count, GYRE_I32, GYRE_SUM, bench->stream) ||
               cuStreamSynchronize(bench->stream);
    default:
        return gyre_group_start(comm) ||
               gyre_all_reduce(comm, input, output, count, GYRE_I32, GYRE_SUM) ||
               gyre_group_end(comm);
    }
}

static int count_sums(struct gyre_comm *comm, struct bench *bench)
{
    static const uint64_t counts[] = {2, 200, 200000};
    char what[64];
    for (int i = 0; i < 3 * WAYS * PLACES * PLACES; i++) {
        enum way way = (enum way)(i % WAYS);
        enum place in = (enum place)(i / WAYS % PLACES),
                   out = (enum place)(i / WAYS / PLACES % PLACES);
        uint64_t count = counts[i / WAYS / PLACES / PLACES];
        snprintf(what, sizeof what, "way %d, from %d to %d, %d elements", way, in, out, (int)count);
        for (int turn = 0; turn < 2; turn++) { /* the second finds the plan of the first */
            begin_count(bench);
            if (rig_check(sum(comm, bench, way, in, out, count) == 0, comm, what) ||
                end_count(comm, bench, 2, what))
                return 1;
        }
    }
    return 0;
}

/* A broadcast has one buffer on each rank, of which only the root's is read. */
static int count_roots(struct gyre_comm *comm, struct bench *bench)
{
    for (int i = 0; i < 2 * PLACES; i++) {
        void *input = bench->memory[0][i % PLACES], *output = bench->memory[1][i % PLACES];
        int buffers = gyre_rank(comm) ? 1 : 2;
        begin_count(bench);
        if (rig_check(gyre_broadcast(comm, input, output, i < PLACES ? 9 : 90000, GYRE_I32, 0) == 0,
                      comm, "a broadcast") ||
            end_count(comm, bench, buffers, "a broadcast"))
            return 1;
    }
    return 0;
}

/* -- messages ---------------------------------------------------------------------------------- */

static int pass(struct gyre_comm *comm, const struct bench *bench, enum place place,
                uint64_t length, bool start)
{
    struct gyre_work *work = NULL;
    int n = gyre_size(comm), rank = gyre_rank(comm);
    void *memory = bench->memory[0][place];
    if (rank == n - 1)
        return start ? gyre_recv_start(comm, memory, length, GYRE_U8, 0, &work) ||
                           gyre_work_wait(work, -1)
                     : gyre_recv(comm, memory, length, GYRE_U8, 0);
    return start ? gyre_send_start(comm, memory, length, GYRE_U8, n - 1, &work) ||
                       gyre_work_wait(work, -1)
                 : gyre_send(comm, memory, length, GYRE_U8, n - 1);
}

static int count_messages(struct gyre_comm *comm, struct bench *bench)
{
    static const uint64_t lengths[] = {100, 30000, BYTES};
    int n = gyre_size(comm), rank = gyre_rank(comm);
    for (int i = 0; i < 6 * PLACES && (rank == 0 || rank == n - 1); i++) {
        begin_count(bench);
        if (rig_check(pass(comm, bench, (enum place)((i + rank) % PLACES), lengths[i / PLACES % 3],
                           i / PLACES / 3) == 0,
                      comm, "a message") ||
            end_count(comm, bench, 1, "a message"))
            return 1;
    }
    return 0;
}

static int count_blocks(struct gyre_comm *comm, struct bench *bench)
{
    uint64_t counts[8];
    for (int i = 0; i < gyre_size(comm); i++)
        counts[i] = 40000;
    for (int i = 0; i < PLACES * PLACES; i++) {
        begin_count(bench);
        if (rig_check(gyre_all_to_all_v(comm, bench->memory[0][i % PLACES], counts, NULL,
                                        bench->memory[1][i / PLACES], counts, NULL, GYRE_I32) == 0,
                      comm, "an all_to_all_v") ||
            end_count(comm, bench, 2, "an all_to_all_v"))
            return 1;
    }
    return 0;
}

static int count_all(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    (void)rig;
    int bad = set_up(comm, &bench) || count_sums(comm, &bench) || count_roots(comm, &bench) ||
              count_messages(comm, &bench) || count_blocks(comm, &bench) ||
              rig_check(gyre_barrier(comm) == 0, comm, "the end");
    return tear_down(comm, &bench) || bad;
}

static void a_buffer_is_asked_about_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, count_all), 0);
    assert_int_equal(rig_run_everywhere(3, count_all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_buffer_is_asked_about_once)};
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
