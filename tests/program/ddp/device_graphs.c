/* Steps of gyre/model.h's networks on a CUDA device as graphs, over real processes and the stand-in
 * for CUDA: a program that knows nothing of graphs has the values, sums, norms and culprits of
 * single launches after each step, bit for bit (GYRE_GRAPHS=0 has these). Graphs make the steps
 * that are like the ones before, launches all others: first ones, short ones, and those with rows
 * at an address that has not been seen before. */
#include "rig/comm_rig.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <gyre/model.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 6, INPUTS = 64, CLASSES = 5, STEPS = 12 };
enum {
    SHORT = 5,
    EMPTY = 6,
    BETWEEN = 7,
    TWICE = 8,
    LARGE = 9,
    NONE = 10,
    NOT_A_NUMBER = 11
}; /* steps */
enum { ROW_FLOATS = BATCH * INPUTS };

struct trial {
    const char *name;
    bool convnet;
    enum { ON_HOST, THERE, IN_TURNS, WANDERING } rows;
    enum gyre_type precision;
    struct gyre_ddp_options options;
    double clip;
    int parts;   /* of a step; the last ones have one */
    int repeats; /* steps of rank 0 that are graphs */
    int graphs;  /* of each, of one rank */
};

static const struct trial trials[] = {
    {.name = "perceptron", .repeats = 6, .graphs = 1},
    {.name = "rows on the device", .rows = THERE, .repeats = 6, .graphs = 1},
    {.name = "rows at two places", .rows = IN_TURNS, .repeats = 5, .graphs = 1},
    {.name = "rows at new places", .rows = WANDERING},
    {.name = "sharded",
     .options = {.sharded = 1, .wire = GYRE_DDP_WIRE_BF16},
     .repeats = 6,
     .graphs = 1},
    {.name = "f16, clipped",
     .precision = GYRE_F16,
     .options = {.norm = 1},
     .clip = 0.1,
     .repeats = 6,
     .graphs = 1},
    {.name = "unscaled, of ranks, all looked at",
     .options =
         {.unscaled = 1, .norm = 1, .look = GYRE_DDP_LOOK_ALL, .mean = GYRE_DDP_MEAN_OF_RANKS},
     .clip = 0.1,
     .repeats = 6,
     .graphs = 1},
    {.name = "three parts",
     .parts = 3,
     .options = {.wire = GYRE_DDP_WIRE_F16},
     .repeats = 4,
     .graphs = 3},
    {.name = "convnet", .convnet = true, .repeats = 6, .graphs = 1},
};

/* The same network twice: graphs, and single launches. */
struct bench {
    struct gyre_network *network[2];
    struct gyre_ddp *ddp[2];
    CUstream stream;
    float *there; /* rows of STEPS steps */
    int repeats;  /* steps that had graphs */
    int posted;   /* graphs of the last one */
};

static int make_networks(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = trial->options;
    int status = 0;
    engine.size = sizeof engine;
    engine.bucket_cap = engine.first_bucket = 512;
    options.batch = BATCH;
    options.method = GYRE_NETWORK_ADAM;
    options.precision = trial->precision;
    options.device = gyre_device(comm);
    for (int side = 0; !status && side < 2; side++) {
        setenv("GYRE_GRAPHS", side ? "0" : "1", 1);
        status = trial->convnet
                     ? gyre_network_convnet(&b->network[side], 1, 8, 8, CLASSES, &options)
                     : gyre_network_perceptron(
                           &b->network[side], (const uint64_t[]){INPUTS, 40, CLASSES}, 3, &options);
        if (!status)
            status = gyre_network_join(b->network[side], comm, &engine, &b->ddp[side]);
    }
    b->repeats = 0;
    return rig_check(!status, comm, gyre_error(NULL));
}

static void end_networks(struct bench *b)
{
    for (int side = 0; side < 2; side++)
        gyre_network_destroy(b->network[side]);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* Fewer in one step; in another rank 1 has none, in a third no rank. */
static uint64_t rows_in(struct gyre_comm *comm, int step)
{
    if (step == NONE || (step == EMPTY && gyre_rank(comm) == 1))
        return 0;
    return step == SHORT ? BATCH - 2 : BATCH;
}

static int parts_in(const struct trial *trial, int step)
{
    return trial->parts && step <= TWICE ? trial->parts : 1;
}

/* In one step inputs are so large that halves overflow, in the last one is no number. */
static void fill_rows(struct gyre_comm *comm, int step, int part, float *x, int64_t *label)
{
    const int seed = gyre_rank(comm) * 11 + step * 5 + part * 3;
    for (int i = 0; i < ROW_FLOATS; i++)
        x[i] = ((float)((i * 37 + seed) % 23) / 8 - 1) * (step == LARGE ? 1e5f : 1);
    for (int i = 0; i < BATCH; i++)
        label[i] = (i + seed) % CLASSES;
    if (step == NOT_A_NUMBER && gyre_rank(comm) == gyre_size(comm) - 1)
        x[3] = NAN;
}

static const float *place_rows(const struct bench *b, const struct trial *trial, int step,
                               const float *x)
{
    const int place = trial->rows == IN_TURNS ? step % 2 : trial->rows == WANDERING ? step : 0;
    float *there = b->there + place * ROW_FLOATS;
    if (trial->rows == ON_HOST)
        return x;
    if (cuMemcpyAsync((CUdeviceptr)(uintptr_t)there, (CUdeviceptr)(uintptr_t)x,
                      ROW_FLOATS * sizeof *x, b->stream) ||
        cuStreamSynchronize(b->stream))
        exit(1);
    return there;
}

/* -- a step ------------------------------------------------------------------------------------ */

static int learn_part(struct gyre_comm *comm, struct bench *b, const struct trial *trial, int step,
                      int part)
{
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    const uint64_t count = rows_in(comm, step);
    int status = 0, parts = parts_in(trial, step);
    fill_rows(comm, step, part, x, label);
    const float *rows = place_rows(b, trial, step, x);
    for (int side = 0; !status && side < 2; side++) {
        const int graphs = fakecuda_calls("cuGraphLaunch");
        status = gyre_ddp_no_sync(b->ddp[side], part + 1 < parts);
        if (!status)
            status = gyre_network_learn_classes(b->network[side], rows, count, label);
        b->posted += fakecuda_calls("cuGraphLaunch") - graphs;
        if (!status && step == TWICE &&
            gyre_network_learn_classes(b->network[side], rows, count, label) != GYRE_INVALID)
            return rig_check(false, comm, "a step within a step");
        if (!status)
            status = gyre_ddp_wait(b->ddp[side]);
        if (side && graphs != fakecuda_calls("cuGraphLaunch"))
            return rig_check(false, comm, "a graph where none is wanted");
    }
    return rig_check(!status, comm, gyre_error(NULL));
}

/* What the program is told, when gyre_ddp_wait() has returned. */
static int same_results(struct gyre_comm *comm, const struct bench *b)
{
    const struct gyre_ddp_result *a = gyre_ddp_result(b->ddp[0]), *z = gyre_ddp_result(b->ddp[1]);
    const char *name[2] = {a->culprit_name ? a->culprit_name : "",
                           z->culprit_name ? z->culprit_name : ""};
    return rig_check(a->samples == z->samples && !memcmp(a->sum, z->sum, sizeof a->sum) &&
                         !memcmp(&a->norm, &z->norm, sizeof a->norm) &&
                         !memcmp(&a->factor, &z->factor, sizeof a->factor) &&
                         a->nonfinite == z->nonfinite && a->culprit == z->culprit &&
                         !strcmp(name[0], name[1]),
                     comm, "the results of single launches");
}

/* The looks are not forgotten: a gradient is named, and not the loss. */
static int names_parameter(struct gyre_comm *comm, const struct bench *b)
{
    const struct gyre_ddp_result *result = gyre_ddp_result(b->ddp[0]);
    return rig_check(result->culprit == gyre_size(comm) - 1 && strchr(result->culprit_name, '.'),
                     comm, "a gradient that is no number");
}

static int update(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    int status = 0;
    for (int side = 0; !status && side < 2; side++) {
        const double scale = gyre_network_loss_scale(b->network[side]);
        if (trial->clip > 0)
            status = gyre_ddp_clip(b->ddp[side], trial->clip * scale);
        if (!status)
            status = gyre_network_update(b->network[side], 0.01);
    }
    return rig_check(!status, comm, gyre_error(NULL));
}

static int same_values(struct gyre_comm *comm, struct bench *b, int step)
{
    const struct gyre_ddp_parameter *list[2];
    const int count = gyre_network_parameters(b->network[0], &list[0]);
    if (gyre_network_parameters(b->network[1], &list[1]) != count || !count)
        return rig_check(false, comm, gyre_error(NULL));
    for (int p = 0; p < count; p++) {
        size_t bytes = sizeof(float);
        for (int d = 0; d < list[0][p].dimensions; d++)
            bytes *= list[0][p].shape[d];
        if (memcmp(list[0][p].value, list[1][p].value, bytes)) {
            fprintf(stderr, "rank %d, step %d: other values of '%s' than launches make\n",
                    gyre_rank(comm), step, list[0][p].name);
            return 1;
        }
    }
    return 0;
}

/* Between two steps: both are evaluated, and both get the values that one has saved. */
static int go_between(struct gyre_comm *comm, struct bench *b)
{
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    struct gyre_network_score score[2] = {{0}};
    const float *outputs;
    char path[64];
    int status = 0;
    snprintf(path, sizeof path, "/tmp/gyre-device-graphs-%d", (int)getpid());
    fill_rows(comm, 0, 0, x, label);
    for (int side = 0; !status && side < 2; side++) {
        status = gyre_network_predict(b->network[side], x, BATCH - 1, &outputs);
        if (!status)
            status = gyre_network_score_classes(b->network[side], x, BATCH, label, &score[side]);
        if (!status && side == 0)
            status = gyre_network_save(b->network[side], path);
        if (!status)
            status = gyre_network_load(b->network[side], path);
    }
    unlink(path);
    return rig_check(!status && score[0].samples == BATCH &&
                         !memcmp(&score[0], &score[1], sizeof *score),
                     comm, "both are evaluated alike");
}

static int make_step(struct gyre_comm *comm, struct bench *b, const struct trial *trial, int step)
{
    int bad = step == BETWEEN && go_between(comm, b);
    b->posted = 0;
    for (int part = 0; !bad && part < parts_in(trial, step); part++)
        bad = learn_part(comm, b, trial, step, part);
    b->repeats += b->posted > 0;
    bad = bad || same_results(comm, b) || (step == NOT_A_NUMBER && names_parameter(comm, b));
    return bad || update(comm, b, trial) || same_values(comm, b, step);
}

/* -- trials ------------------------------------------------------------------------------------ */

static int run_trial(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    const int recorded = fakecuda_calls("cuStreamBeginCapture");
    const int repeats = trial->repeats - (trial->repeats && gyre_rank(comm) == 1);
    int bad = make_networks(comm, b, trial);
    for (int step = 0; !bad && step < STEPS; step++) {
        bad = make_step(comm, b, trial, step);
        if (!bad && b->posted && gyre_size(comm) == 1)
            bad = rig_check(b->posted == trial->graphs, comm, "graphs of a step");
    }
    bad = bad || rig_check(b->repeats == repeats, comm, "steps that are graphs") ||
          rig_check((trial->repeats != 0) == (recorded != fakecuda_calls("cuStreamBeginCapture")),
                    comm, "steps are recorded where they repeat");
    if (bad)
        fprintf(stderr, "rank %d: %s: %d steps were graphs\n", gyre_rank(comm), trial->name,
                b->repeats);
    end_networks(b);
    return bad;
}

/* A strict engine fails where a graph is under way, and makes its memory anew for the ranks of a
 * communicator, here the same ones. */
static int go_on(struct gyre_comm *comm, struct bench *b)
{
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    int bad = 0;
    fill_rows(comm, 0, 0, x, label);
    for (int side = 0; !bad && side < 2; side++)
        bad = rig_check(!gyre_ddp_begin(b->ddp[side], BATCH) && gyre_ddp_wait(b->ddp[side]) < 0 &&
                            gyre_network_learn_classes(b->network[side], x, BATCH, label) < 0,
                        comm, "a strict engine has failed") ||
              rig_check(!gyre_ddp_regroup(b->ddp[side], comm, NULL), comm, gyre_error(NULL));
    return bad;
}

/* Graphs of the memory before are not used. */
static int memory_moves(struct gyre_comm *comm, struct bench *b)
{
    static const struct trial trial = {
        .name = "memory moves", .options = {.strict = 1, .norm = 1, .wire = GYRE_DDP_WIRE_BF16}};
    int bad = make_networks(comm, b, &trial);
    for (int step = 0; !bad && step < STEPS; step++) {
        bad = step == BETWEEN && go_on(comm, b);
        bad = bad || make_step(comm, b, &trial, step);
    }
    bad =
        bad || rig_check(b->repeats == 4 - gyre_rank(comm), comm, "graphs of memory that is left");
    end_networks(b);
    return bad;
}

/* What the host asks of the driver in a step, with graphs and without. */
static int count_launches(struct gyre_comm *comm, struct bench *b)
{
    static const struct trial trial = {.name = "launches"};
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    int launches[2] = {0}, graphs = 0, bad = make_networks(comm, b, &trial);
    for (int step = 0; !bad && step < SHORT; step++)
        bad = make_step(comm, b, &trial, step);
    fill_rows(comm, 0, 0, x, label);
    for (int side = 0; !bad && side < 2; side++) {
        const int before = fakecuda_calls("cudaLaunchKernel");
        graphs = side ? graphs : fakecuda_calls("cuGraphLaunch");
        bad = rig_check(!gyre_network_learn_classes(b->network[side], x, BATCH, label) &&
                            !gyre_ddp_wait(b->ddp[side]) &&
                            !gyre_network_update(b->network[side], 0.01),
                        comm, gyre_error(NULL));
        launches[side] = fakecuda_calls("cudaLaunchKernel") - before;
    }
    graphs = fakecuda_calls("cuGraphLaunch") - graphs;
    if (!bad && gyre_rank(comm) == 0)
        printf("launches of a step of %d: %d, then %d and graphs: %d\n", gyre_size(comm),
               launches[1], launches[0], graphs);
    fflush(stdout); /* ranks exit without it */
    bad = bad || rig_check(graphs >= gyre_size(comm) && launches[0] < launches[1] / 2 + 1, comm,
                           "launches are left out");
    end_networks(b);
    return bad;
}

/* A graph that cannot be posted: learning says so. */
static int graph_fails(struct gyre_comm *comm, struct bench *b)
{
    static const struct trial trial = {.name = "a graph fails"};
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    int bad = make_networks(comm, b, &trial);
    for (int step = 0; !bad && step < SHORT; step++)
        bad = make_step(comm, b, &trial, step);
    fill_rows(comm, 0, 0, x, label);
    fakecuda_fail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED);
    bad = bad || rig_check(gyre_network_learn_classes(b->network[0], x, BATCH, label) < 0 &&
                               strstr(gyre_error(NULL), "cuGraphLaunch on CUDA device"),
                           comm, "no sentence of the graph");
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    end_networks(b);
    return bad;
}

/* An engine that has failed refuses a step that would be a graph. What is predicted then is
 * launched. */
static int learning_fails(struct gyre_comm *comm, struct bench *b)
{
    static const struct trial trial = {.name = "learning fails", .options = {.strict = 1}};
    float x[ROW_FLOATS], kept[BATCH * CLASSES];
    int64_t label[BATCH];
    const float *outputs;
    int bad = make_networks(comm, b, &trial);
    for (int step = 0; !bad && step < SHORT; step++)
        bad = make_step(comm, b, &trial, step);
    for (int side = 0; !bad && side < 2; side++) {
        fill_rows(comm, 0, 0, x, label);
        bad = rig_check(!gyre_ddp_begin(b->ddp[side], BATCH) && gyre_ddp_wait(b->ddp[side]) < 0 &&
                            gyre_network_learn_classes(b->network[side], x, BATCH, label) < 0,
                        comm, "a strict engine has failed");
        fill_rows(comm, 1, 0, x, label);
        bad = bad || rig_check(!gyre_network_predict(b->network[side], x, BATCH, &outputs), comm,
                               gyre_error(NULL));
        if (!bad && side == 0)
            memcpy(kept, outputs, sizeof kept);
    }
    bad = bad || rig_check(!memcmp(kept, outputs, sizeof kept), comm, "the same predictions");
    end_networks(b);
    return bad;
}

static int as_launches(struct gyre_comm *comm, struct rig *rig)
{
    struct bench b = {.stream = NULL};
    CUcontext context;
    void *memory;
    int bad = rig_check(!gyre_alloc_device(comm, STEPS * ROW_FLOATS * sizeof(float), &memory), comm,
                        "memory") ||
              rig_check(!gyre_barrier(comm), comm, "all have memory") ||
              cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) || cuCtxPushCurrent(context) ||
              cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING);
    b.there = memory;
    for (size_t i = 0; !bad && i < sizeof trials / sizeof *trials; i++)
        bad = run_trial(comm, &b, &trials[i]);
    bad = bad || count_launches(comm, &b);
    bad = bad || memory_moves(comm, &b) ||
          (gyre_size(comm) == 1 && (graph_fails(comm, &b) || learning_fails(comm, &b)));
    gyre_free(comm, memory);
    return gyre_finalize(comm) || bad;
}

static void test_one_rank(void **state)
{
    struct rig rig = {.n = 1, .transport = "auto", .body = as_launches};
    assert_int_equal(rig_run(&rig, 120), 0);
}

static void test_two_ranks(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = as_launches};
    assert_int_equal(rig_run(&rig, 120), 0);
}

/* -- ranks of one process ---------------------------------------------------------------------- */

static void *learn_for_long(void *comm)
{
    enum { LONG = 60 };
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = {
        .size = sizeof engine, .first_bucket = 512, .bucket_cap = 512, .norm = 1};
    struct gyre_network *network = NULL;
    struct gyre_ddp *ddp;
    float x[ROW_FLOATS];
    int64_t label[BATCH];
    options.batch = BATCH;
    options.device = gyre_device(comm);
    int status =
        gyre_network_perceptron(&network, (const uint64_t[]){INPUTS, 40, CLASSES}, 3, &options);
    if (!status)
        status = gyre_network_join(network, comm, &engine, &ddp);
    for (int step = 0; !status && step < LONG; step++) {
        fill_rows(comm, step % 5, 0, x, label);
        status = gyre_network_learn_classes(network, x, BATCH, label);
        if (!status)
            status = gyre_ddp_wait(ddp);
        if (!status)
            status = gyre_network_update(network, 0.01);
    }
    if (!status)
        status = gyre_ddp_compare(ddp);
    int bad = rig_check(!status, comm, gyre_error(NULL));
    gyre_network_destroy(network);
    return bad ? comm : NULL;
}

/* One may hold a stream for a step to which the other, which makes graphs ready, has yet to come.
 * They share a device. */
static int in_one_process(struct rig *rig, int rank)
{
    const int device[2] = {0, 0};
    struct gyre_comm *comm[2];
    pthread_t thread[2];
    void *failed[2];
    if (gyre_init_in_process(comm, 2, device, NULL))
        return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, learn_for_long, comm[i]))
            exit(1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], &failed[i]);
    return failed[0] || failed[1] || !fakecuda_calls("cuGraphLaunch");
}

static void test_one_process(void **state)
{
    struct rig rig = {.n = 1, .process = in_one_process};
    assert_int_equal(rig_run(&rig, 120), 0);
}

int main(void)
{
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "1,0", 0);
    setenv("GYRE_BLAS", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
