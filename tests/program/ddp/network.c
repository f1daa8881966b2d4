/* gyre/model.h with real ranks: however a batch is spread over them, and whether the engine is
 * sharded or not, the network ends where one rank alone with all rows takes it. */
#include <gyre/model.h>

#include "rig/comm_rig.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>

#define ROWS     60
#define FEATURES 13
#define STEPS    8
#define VALUES   (FEATURES * 16 + 16 + 16 * 3 + 3)

/* Ranks get unequal numbers of rows, and in every other step the last one of several gets none. */
static int owner(int row, int step, int n)
{
    return row * row % (n > 1 && step % 2 ? n - 1 : n);
}

static int take_rows(struct gyre_samples *data, int step, int rank, int n, float *x, int64_t *label,
                     uint64_t *count)
{
    uint64_t index[ROWS];
    *count = 0;
    for (int row = 0; row < ROWS; row++)
        if (owner(row, step, n) == rank)
            index[(*count)++] = (uint64_t)row;
    return gyre_samples_take(data, index, *count, x, label);
}

static int train(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp,
                 struct gyre_samples *data)
{
    float x[ROWS * FEATURES];
    int64_t label[ROWS];
    uint64_t count;
    int status = 0;
    for (int step = 0; !status && step < STEPS; step++) {
        status = take_rows(data, step, gyre_rank(comm), gyre_size(comm), x, label, &count);
        if (!status)
            status = gyre_network_learn_classes(net, x, count, label);
        if (!status)
            status = gyre_ddp_wait(ddp);
        if (!status)
            status = gyre_network_update(net, 0.05);
    }
    return status;
}

static void copy_values(struct gyre_network *net, float *values)
{
    const struct gyre_ddp_parameter *p;
    int count = gyre_network_parameters(net, &p);
    for (int i = 0; i < count; i++) {
        size_t elements = p[i].shape[0] * (p[i].dimensions > 1 ? p[i].shape[1] : 1);
        memcpy(values, p[i].value, elements * sizeof *values);
        values += elements;
    }
}

/* A whole training; ranks begin with values of their own, so rank 0's must win. */
static int run(struct gyre_comm *comm, int seed, int sharded, float *values)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options engine = GYRE_DDP_OPTIONS_INIT;
    struct gyre_network *net = NULL;
    struct gyre_samples *data;
    struct gyre_ddp *ddp;
    options.batch = ROWS;
    options.momentum = 0.9;
    options.seed = (uint64_t)seed;
    engine.sharded = sharded;
    engine.unscaled = sharded;
    int status = gyre_samples_open(&data, "wine");
    if (!status)
        status = gyre_network_perceptron(&net, (const uint64_t[]){FEATURES, 16, 3}, 3, &options);
    if (!status)
        status = gyre_network_join(net, comm, &engine, &ddp);
    if (!status)
        status = train(comm, net, ddp, data);
    if (!status)
        copy_values(net, values);
    gyre_network_destroy(net);
    gyre_samples_close(data);
    return status;
}

static int are_near(const float *a, const float *b)
{
    for (int i = 0; i < VALUES; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f))
            return 0;
    return 1;
}

static int ends_where_one_rank_does(struct gyre_comm *comm, struct rig *rig)
{
    float one[VALUES], all[VALUES], sharded[VALUES];
    struct gyre_comm *alone;
    if (rig_check(gyre_split(comm, gyre_rank(comm), 0, &alone) == 0, comm, "split") ||
        rig_check(run(alone, 0, 0, one) == 0, alone, "alone"))
        return 1;
    int failed = rig_check(run(comm, gyre_rank(comm), 0, all) == 0, comm, "all") ||
                 rig_check(run(comm, gyre_rank(comm), 1, sharded) == 0, comm, "sharded") ||
                 rig_check(are_near(one, all), comm, "all end elsewhere than one") ||
                 rig_check(are_near(one, sharded), comm, "shards end elsewhere than one");
    if (failed)
        return 1;
    int ended = gyre_finalize(alone);
    return gyre_finalize(comm) || ended; /* who leaves without it fails those still on their way */
}

/* The first difference is the story of every rank, also where the communicator has none. */
static int tells_unequal_networks(struct gyre_comm *comm, struct rig *rig)
{
    const uint64_t widths[] = {FEATURES, 16 + (uint64_t)gyre_rank(comm), 3};
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp;
    int status = gyre_network_perceptron(&net, widths, 3, NULL);
    if (!status)
        status = gyre_network_join(net, comm, NULL, &ddp);
    int failed = rig_check(status == GYRE_MISMATCH, comm, gyre_status_name(status)) ||
                 rig_check(strstr(gyre_error(NULL), "rank 1 has parameter '0.weight'") != NULL,
                           comm, gyre_error(NULL));
    gyre_network_destroy(net);
    return gyre_finalize(comm) || failed;
}

static void unequal_networks(void **state)
{
    assert_int_equal(rig_run_everywhere(2, tells_unequal_networks), 0);
}

static void two_ranks(void **state)
{
    assert_int_equal(rig_run_everywhere(2, ends_where_one_rank_does), 0);
}

static void three_ranks(void **state)
{
    assert_int_equal(rig_run_everywhere(3, ends_where_one_rank_does), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks),
        cmocka_unit_test(unequal_networks),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
