/* Networks that a CUDA device computes beside networks of the CPU, over real processes and the
 * stand-in for CUDA: with Gyre's own products both have the same values after each step, to the
 * last bit, and what they save is what the other loads. Rows may be the host's or the device's. */
#include "model/kernels/dense.h"
#include "rig/comm_rig.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <gyre/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 6, INPUTS = 64, CLASSES = 5, STEPS = 6 };

struct trial {
    const char *name;
    bool convnet, by_device; /* rows are the device's */
    enum gyre_type precision;
    struct gyre_ddp_options options;
    double clip;
};

static const struct trial trials[] = {
    {.name = "perceptron"},
    {.name = "perceptron, rows on the device", .by_device = true},
    {.name = "perceptron, sharded", .options = {.sharded = 1, .wire = GYRE_DDP_WIRE_BF16}},
    {.name = "perceptron, f16", .precision = GYRE_F16, .options = {.norm = 1}, .clip = 0.1},
    {.name = "convnet", .convnet = true, .by_device = true},
    {.name = "convnet, bf16", .convnet = true, .precision = GYRE_BF16},
};

struct bench {
    struct gyre_network *network[2]; /* the CPU's; the device's */
    struct gyre_ddp *ddp[2];
    CUstream stream;
    float *there; /* rows */
};

static int make_networks(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = trial->options;
    int status = 0;
    engine.size = sizeof engine;
    engine.bucket_cap = engine.first_bucket = 4096;
    options.batch = BATCH;
    options.method = GYRE_NETWORK_ADAM;
    options.precision = trial->precision;
    for (int side = 0; !status && side < 2; side++) {
        options.device = side ? gyre_device(comm) : -1;
        options.seed = (uint64_t)gyre_rank(comm); /* rank 0's values reach all */
        status = trial->convnet
                     ? gyre_network_convnet(&b->network[side], 1, 8, 8, CLASSES, &options)
                     : gyre_network_perceptron(
                           &b->network[side], (const uint64_t[]){INPUTS, 40, CLASSES}, 3, &options);
        if (!status)
            status = gyre_network_join(b->network[side], comm, &engine, &b->ddp[side]);
    }
    return rig_check(!status, comm, gyre_error(NULL));
}

static uint64_t rows_of(struct gyre_comm *comm, int step, float *x, int64_t *label)
{
    const uint64_t count = step == 2 && gyre_rank(comm) == 1 ? 0 : BATCH - (uint64_t)(step % 2);
    for (uint64_t i = 0; i < count * INPUTS; i++)
        x[i] = (float)((i * 37 + (uint64_t)(gyre_rank(comm) * 11 + step * 5)) % 23) / 8 - 1;
    for (uint64_t i = 0; i < count; i++)
        label[i] = (int64_t)((i + (uint64_t)(gyre_rank(comm) + step)) % CLASSES);
    return count;
}

static const float *rows_there(const struct bench *b, const float *x, uint64_t count)
{
    if (cuMemcpyAsync((CUdeviceptr)(uintptr_t)b->there, (CUdeviceptr)(uintptr_t)x,
                      (count * INPUTS + 1) * sizeof *x, b->stream) ||
        cuStreamSynchronize(b->stream))
        exit(1);
    return b->there;
}

static int learn(struct gyre_comm *comm, struct bench *b, int step, const struct trial *trial)
{
    static float x[BATCH * INPUTS + 1];
    int64_t label[BATCH];
    const uint64_t count = rows_of(comm, step, x, label);
    int status = 0;
    for (int side = 0; !status && side < 2; side++) {
        const float *rows = side && trial->by_device ? rows_there(b, x, count) : x;
        status = gyre_network_learn_classes(b->network[side], rows, count, label);
        if (!status)
            status = gyre_ddp_wait(b->ddp[side]);
        if (!status && trial->clip > 0)
            status = gyre_ddp_clip(b->ddp[side],
                                   trial->clip * gyre_network_loss_scale(b->network[side]));
        if (!status)
            status = gyre_network_update(b->network[side], 0.01);
        if (!status)
            status = gyre_ddp_compare(b->ddp[side]);
    }
    return rig_check(!status, comm, gyre_error(NULL));
}

static int same_values(struct gyre_comm *comm, struct bench *b, const char *what, int step)
{
    const struct gyre_ddp_parameter *list[2];
    int count = gyre_network_parameters(b->network[0], &list[0]);
    if (gyre_network_parameters(b->network[1], &list[1]) != count)
        return rig_check(false, comm, gyre_error(NULL));
    for (int p = 0; p < count; p++) {
        size_t bytes = sizeof(float);
        for (int d = 0; d < list[0][p].dimensions; d++)
            bytes *= list[0][p].shape[d];
        if (memcmp(list[0][p].value, list[1][p].value, bytes)) {
            fprintf(stderr, "%s, rank %d, step %d: other values of '%s' than the CPU's\n", what,
                    gyre_rank(comm), step, list[0][p].name);
            return 1;
        }
    }
    return 0;
}

static int same_predictions(struct gyre_comm *comm, struct bench *b, const char *what)
{
    static float x[BATCH * INPUTS + 1];
    int64_t label[BATCH];
    const float *outputs[2];
    const uint64_t count = rows_of(comm, 0, x, label);
    for (int side = 0; side < 2; side++)
        if (gyre_network_predict(b->network[side], x, count, &outputs[side]))
            return rig_check(false, comm, gyre_error(NULL));
    return rig_check(!memcmp(outputs[0], outputs[1], count * CLASSES * sizeof(float)), comm, what);
}

/* Each loads what the other has saved; the values were changed in between. */
static int exchange(struct gyre_comm *comm, struct bench *b, const char *what)
{
    char path[2][64];
    int bad = 0;
    for (int side = 0; side < 2; side++) {
        snprintf(path[side], sizeof path[side], "/tmp/gyre-device-network-%d-%d", (int)getpid(),
                 side);
        bad = bad || gyre_network_save(b->network[side], path[side]);
    }
    bad = bad || learn(comm, b, STEPS, &trials[0]);
    for (int side = 0; side < 2; side++) {
        bad = bad || gyre_network_load(b->network[side], path[!side]);
        unlink(path[!side]);
    }
    return rig_check(!bad, comm, gyre_error(NULL)) || same_values(comm, b, what, STEPS) ||
           same_predictions(comm, b, what);
}

static int run_trial(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    int bad = make_networks(comm, b, trial) || same_values(comm, b, trial->name, -1);
    for (int step = 0; !bad && step < STEPS; step++)
        bad = learn(comm, b, step, trial) || same_values(comm, b, trial->name, step);
    bad = bad || same_predictions(comm, b, trial->name) || exchange(comm, b, trial->name);
    for (int side = 0; side < 2; side++)
        gyre_network_destroy(b->network[side]);
    return bad;
}

/* -- what travels ------------------------------------------------------------------------------ */

/* Copies of a step behind the first ones, whose rows are the device's already. */
static int copies_of_a_step(struct gyre_comm *comm, struct bench *b, bool convnet)
{
    const struct trial trial = {.name = "copies", .convnet = convnet, .by_device = true};
    int copies = 0;
    int bad = make_networks(comm, b, &trial);
    for (int step = 0; !bad && step < 3; step++) {
        copies = fakecuda_calls("cuMemcpyAsync");
        bad = learn(comm, b, step, &trial);
        copies = fakecuda_calls("cuMemcpyAsync") - copies;
    }
    for (int side = 0; side < 2; side++)
        gyre_network_destroy(b->network[side]);
    return bad ? -1 : copies;
}

/* Running figures stay where they are: batch norm copies nothing that a perceptron does not. */
static int figures_stay(struct gyre_comm *comm, struct bench *b)
{
    const int least = copies_of_a_step(comm, b, false), found = copies_of_a_step(comm, b, true);
    if (least < 0 || found < 0 || found == least)
        return least < 0 || found < 0;
    fprintf(stderr, "a step of a convnet makes %d copies, of a perceptron %d\n", found, least);
    return 1;
}

static int as_the_cpu(struct gyre_comm *comm, struct rig *rig)
{
    struct bench b = {.stream = NULL};
    CUcontext context;
    void *memory;
    int bad = rig_check(!gyre_alloc_device(comm, (BATCH * INPUTS + 1) * sizeof(float), &memory),
                        comm, "memory") ||
              rig_check(!gyre_barrier(comm), comm, "all have memory") ||
              cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) || cuCtxPushCurrent(context) ||
              cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING);
    b.there = memory;
    for (size_t i = 0; !bad && i < sizeof trials / sizeof *trials; i++)
        bad = run_trial(comm, &b, &trials[i]);
    if (!bad && fakecuda_stands_in() && gyre_size(comm) == 1)
        bad = figures_stay(comm, &b);
    gyre_free(comm, memory);
    bad = bad || (fakecuda_stands_in() &&
                  rig_check(fakecuda_alive().contexts == 1, comm, "no stray on another device"));
    return gyre_finalize(comm) || bad;
}

/* One rank on the second device; then one on each, in turns. */
static void test_as_the_cpu(void **state)
{
    struct gyre_dense *dense = NULL;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_dense_create(&dense, &trouble), 0);
    const bool fused = !strstr(gyre_dense_name(dense), "scalar");
    gyre_dense_destroy(dense);
    if (!fused)
        skip(); /* this CPU's products round otherwise than a device's */
    for (int n = 1; n <= 2; n++) {
        struct rig rig = {.n = n, .transport = "auto", .body = as_the_cpu};
        assert_int_equal(rig_run(&rig, 120), 0);
    }
}

/* -- refused ----------------------------------------------------------------------------------- */

static int refused(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = GYRE_DDP_OPTIONS_INIT;
    struct gyre_network *network;
    struct gyre_ddp *ddp;
    options.device = 0;
    int bad = gyre_network_perceptron(&network, (const uint64_t[]){4, 2}, 2, &options);
    engine.stream = &engine;
    bad = bad || gyre_network_join(network, comm, &engine, &ddp) != GYRE_INVALID ||
          !strstr(gyre_error(NULL), "a stream, but the network computes on its own");
    bad = bad || gyre_network_join(network, comm, NULL, &ddp) != GYRE_INVALID ||
          !strstr(gyre_error(NULL), rig->argument);
    if (bad)
        fprintf(stderr, "rank %d: \"%s\"\n", gyre_rank(comm), gyre_error(NULL));
    gyre_network_destroy(network);
    return gyre_finalize(comm) || bad;
}

/* A rank by itself, which is given that device, or none. */
static int join_alone(struct rig *rig, int rank)
{
    const int device = rig->per_node;
    struct gyre_comm *comm;
    return gyre_init_in_process(&comm, 1, &device, NULL) || refused(comm, rig);
}

static void run_refused(int device, char *words)
{
    struct rig rig = {.n = 1, .process = join_alone, .argument = words, .per_node = device};
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void test_refused(void **state)
{
    if (!fakecuda_stands_in())
        skip();
    run_refused(-1, "the value of '0.weight' is CUDA memory, and the communicator has no device");
    run_refused(1, "the value of '0.weight' is not the communicator's CUDA device 1's");
}

int main(void)
{
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "1,0", 0);
    setenv("GYRE_BLAS", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_cpu),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
