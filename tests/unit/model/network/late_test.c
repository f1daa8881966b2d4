/* Steps whose end the host learns one step late (model/network/late.h), over the stand-in for CUDA:
 * a step of one rank is posted to its end while the device does nothing, so the host waits for
 * nothing in it; and the replica goes the way of one whose steps end at once, also where steps are
 * graphs (model/processor/repeat.h). */
#include "model/network/late.h"
#include "model/learning/init.h"
#include "model/network/update.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 5, INPUTS = 8, CLASSES = 3, NOT_A_NUMBER = 9 };

static struct gyre_comm *comm;
static struct gyre_trouble trouble;
static const float *there; /* rows of the next steps; NULL: the host brings them */

static void good(int status)
{
    if (status)
        fail_msg("%s: %s %s", gyre_status_name(status), trouble.text, gyre_error(NULL));
}

static int enter(void **state)
{
    const int device = 0;
    return gyre_init_in_process(&comm, 1, &device, NULL);
}

static int leave(void **state)
{
    return gyre_finalize(comm);
}

/* Halves, a norm and Adam: what depends most on how steps before have ended. */
static void open_replica(struct gyre_replica *r, bool late)
{
    const struct gyre_optimizer_settings adam = gyre_optimizer_defaults(GYRE_ADAM);
    const struct gyre_model_settings settings = {
        .batch = BATCH, .kind = GYRE_MEMORY_CUDA, .precision = GYRE_PRECISION_F16};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_model *model;
    options.norm = options.unscaled = 1;
    options.look = GYRE_DDP_LOOK_ALL;
    good(gyre_mlp_create(&model, (size_t[]){INPUTS, 6, CLASSES}, 3, &settings, &trouble));
    good(gyre_replica_init(r, model, &adam, &trouble));
    r->late.wanted = r->late.repeats = late;
    gyre_init_parameters(r->parameter, r->parameters, 1);
    good(gyre_replica_join(r, comm, &options));
    assert_int_equal(gyre_late_on(r), late);
}

/* Step 5 has fewer samples than the others. */
static uint64_t samples_of(int step)
{
    return step == 5 ? BATCH - 2 : BATCH;
}

static double rate_of(int step)
{
    return 0.01 / (step + 1);
}

/* In steps 2 and 7 inputs are so large that halves overflow. */
static void run_passes(struct gyre_replica *r, int step)
{
    static const int64_t labels[BATCH] = {0, 1, 2, 1, 0};
    float x[BATCH * INPUTS];
    for (int i = 0; i < BATCH * INPUTS; i++)
        x[i] = (float)((i * 7 + step * 5) % 11 - 5) / (step % 5 == 2 ? 1e-4f : 4.0f);
    x[0] = step == NOT_A_NUMBER ? NAN : x[0];
    const uint64_t samples = samples_of(step);
    good(gyre_ddp_begin(r->ddp, samples));
    gyre_replica_bind(r);
    gyre_replica_clear_loss(r);
    good(gyre_replica_forward(r, there ? there : x, samples, true,
                              (struct gyre_wanted){.labels = labels}, &trouble));
    good(gyre_replica_backward(r, false, true, &trouble));
    good(gyre_ddp_wait(r->ddp));
}

/* Batch `part` of the three of a step. */
static void run_part(struct gyre_replica *r, int step, int part)
{
    static const int64_t labels[BATCH] = {2, 0, 1, 1, 0};
    const bool adds = part > 0, last = part == 2;
    float x[BATCH * INPUTS];
    for (int i = 0; i < BATCH * INPUTS; i++)
        x[i] = (float)((i * 5 + step * 7 + part * 3) % 11 - 5) / 4.0f;
    good(gyre_ddp_no_sync(r->ddp, !last));
    gyre_late_begin(r, NULL, BATCH);
    good(gyre_ddp_begin(r->ddp, BATCH));
    gyre_replica_bind(r);
    if (!adds)
        gyre_replica_clear_loss(r);
    good(gyre_replica_forward(r, x, BATCH, true, (struct gyre_wanted){.labels = labels}, &trouble));
    good(gyre_replica_backward(r, adds, true, &trouble));
    if (!last)
        good(gyre_late_end_batch(r, &trouble));
    good(gyre_ddp_wait(r->ddp));
}

static void step_late(struct gyre_replica *r, int step)
{
    gyre_late_begin(r, there, samples_of(step));
    run_passes(r, step);
    good(gyre_late_update(r, rate_of(step), 0.5, &trouble));
}

/* The same at once. */
static void step_now(struct gyre_replica *r, int step, struct gyre_late_step *wanted)
{
    const double scale = (double)gyre_scaler_scale(&r->scaler);
    run_passes(r, step);
    *wanted = (struct gyre_late_step){.norm = gyre_ddp_result(r->ddp)->norm / scale,
                                      .finite = !gyre_ddp_result(r->ddp)->nonfinite};
    good(gyre_replica_take_loss(r, &wanted->loss, &trouble));
    good(gyre_ddp_clip(r->ddp, 0.5 * scale));
    good(gyre_replica_update(r, rate_of(step), &trouble));
}

static void same_values(struct gyre_replica *a, struct gyre_replica *b)
{
    good(gyre_replica_values_home(a, &trouble));
    good(gyre_replica_values_home(b, &trouble));
    for (int p = 0; p < a->parameters; p++)
        assert_memory_equal(a->host_item[p].value, b->host_item[p].value,
                            a->parameter[p]->count * sizeof(float));
}

static void same_end(const struct gyre_late_step *found, const struct gyre_late_step *wanted)
{
    assert_int_equal(found->finite, wanted->finite);
    assert_memory_equal(&found->loss.sum, &wanted->loss.sum, sizeof found->loss.sum);
    assert_int_equal(found->loss.right, wanted->loss.right);
    if (wanted->finite)
        assert_memory_equal(&found->norm, &wanted->norm, sizeof found->norm);
    else
        assert_true(found->bad >= 0);
}

/* -- tests ------------------------------------------------------------------------------------- */

/* Losses, norms, loss scales and values of both are the same bits, over a step that is left out. */
static void test_as_at_once(void **state)
{
    enum { STEPS = 12 };
    struct gyre_replica late, now;
    struct gyre_late_step found, wanted[STEPS];
    int left_out = 0;
    open_replica(&late, true);
    open_replica(&now, false);
    for (int step = 0; step < STEPS; step++) {
        step_now(&now, step, &wanted[step]);
        step_late(&late, step);
        left_out += !wanted[step].finite;
        if (step == 0)
            continue;
        assert_int_equal(gyre_late_open(&late), 2);
        good(gyre_late_settle(&late, &found, &trouble));
        same_end(&found, &wanted[step - 1]);
    }
    good(gyre_late_settle(&late, &found, &trouble));
    same_end(&found, &wanted[STEPS - 1]);
    assert_int_equal(gyre_late_settle(&late, &found, &trouble), GYRE_AGAIN);
    assert_int_equal(left_out, 2);
    assert_int_equal(late.late.repeat.repeated, 7); /* all from step 4 on but the short one */
    assert_memory_equal(&late.scaler, &now.scaler, sizeof now.scaler);
    assert_int_equal(late.optimizer->steps, now.optimizer->steps);
    same_values(&late, &now);
    gyre_replica_deinit(&late);
    gyre_replica_deinit(&now);
}

/* -- steps that are graphs --------------------------------------------------------------------- */

/* What the host asks of the driver in a step. */
struct asked {
    int launches, graphs, copies;
};

static struct asked asked_since(const struct asked *before)
{
    return (struct asked){fakecuda_calls("cudaLaunchKernel") - before->launches,
                          fakecuda_calls("cuGraphLaunch") - before->graphs,
                          fakecuda_calls("cuMemcpyAsync") - before->copies};
}

static struct asked ask_step(struct gyre_replica *r, int step)
{
    static const struct asked nothing;
    struct gyre_late_step found;
    const struct asked before = asked_since(&nothing);
    step_late(r, step);
    const struct asked asked = asked_since(&before);
    good(gyre_late_settle(r, &found, &trouble));
    return asked;
}

/* A step of some dozens of launches, then one of a graph and three copies: rows, what is told, and
 * what the step came to. Rows that are on the device are no copy. */
static void test_launches_of_a_step(void **state)
{
    struct gyre_replica r;
    open_replica(&r, true);
    ask_step(&r, 0);
    const struct asked plain = ask_step(&r, 0), warm = ask_step(&r, 0), recorded = ask_step(&r, 0),
                       graph = ask_step(&r, 0), other = ask_step(&r, 5);
    assert_true(plain.launches > 20);
    assert_int_equal(plain.graphs, 0);
    assert_int_equal(plain.copies, 4);
    assert_int_equal(warm.launches, plain.launches);
    assert_int_equal(recorded.launches, 2 * plain.launches);
    assert_int_equal(recorded.copies, plain.copies);
    assert_int_equal(graph.launches, 0);
    assert_int_equal(graph.graphs, 1);
    assert_int_equal(graph.copies, 3);
    assert_true(other.launches > 20 && other.graphs == 0);
    there = r.device.x;
    assert_int_equal(ask_step(&r, 0).copies, 2);
    there = NULL;
    printf("launches of a step: %d, then a graph\n", plain.launches);
    gyre_replica_deinit(&r);
}

/* Epochs of two whole batches and a short one: the whole ones become graphs all the same. */
static void test_short_batches_between(void **state)
{
    struct gyre_replica r;
    open_replica(&r, true);
    for (int step = 0; step < 11; step++)
        ask_step(&r, step % 3 == 2 ? 5 : 0);
    assert_int_equal(r.late.repeat.repeated, 2);
    gyre_replica_deinit(&r);
}

/* The kinds of batches have graphs of their own, and the bits of launches. */
static void test_steps_of_several_batches(void **state)
{
    enum { STEPS = 8 };
    struct gyre_replica graphs, launches;
    struct gyre_late_step found[2];
    open_replica(&graphs, true);
    open_replica(&launches, true);
    launches.late.repeat.on = NULL;
    for (int step = 0; step < STEPS; step++) {
        for (int part = 0; part < 3; part++) {
            run_part(&graphs, step, part);
            run_part(&launches, step, part);
        }
        good(gyre_late_update(&graphs, rate_of(step), 0.5, &trouble));
        good(gyre_late_update(&launches, rate_of(step), 0.5, &trouble));
        good(gyre_late_settle(&graphs, &found[0], &trouble));
        good(gyre_late_settle(&launches, &found[1], &trouble));
        same_end(&found[0], &found[1]);
    }
    assert_int_equal(graphs.late.repeat.repeated, STEPS - 4);
    assert_int_equal(graphs.late.repeat.posted, 3 * (STEPS - 4));
    same_values(&graphs, &launches);
    gyre_replica_deinit(&graphs);
    gyre_replica_deinit(&launches);
}

/* What cannot be recorded is no failure of the step, and no graphs are made after it. */
static void test_recording_fails(void **state)
{
    enum { STEPS = 6 };
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuStreamBeginCapture",
                                        "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
                                        "cuGraphUpload"};
    struct gyre_replica late, now;
    struct gyre_late_step found;
    open_replica(&now, false);
    for (int step = 0; step < STEPS; step++)
        step_now(&now, step, &found);
    for (int i = 0; i < 5; i++) {
        open_replica(&late, true);
        fakecuda_fail(calls[i], 1, CUDA_ERROR_LAUNCH_FAILED);
        for (int step = 0; step < STEPS; step++)
            ask_step(&late, step);
        assert_int_equal(late.late.repeat.repeated, 0);
        assert_null(late.late.repeat.on);
        same_values(&late, &now);
        gyre_replica_deinit(&late);
    }
    gyre_replica_deinit(&now);
}

/* A graph that cannot be posted: the step is not made, and its end says so. */
static void test_a_graph_fails(void **state)
{
    struct gyre_replica r;
    open_replica(&r, true);
    for (int step = 0; step < 4; step++)
        ask_step(&r, 0);
    fakecuda_fail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED);
    gyre_late_begin(&r, NULL, BATCH);
    run_passes(&r, 0);
    trouble = (struct gyre_trouble){0};
    assert_true(gyre_late_update(&r, 0.01, 0.5, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "cuGraphLaunch on CUDA device 0"));
    trouble = (struct gyre_trouble){0};
    gyre_replica_deinit(&r);
}

/* A step that is given up half-way leaves nothing behind: what follows is launched. */
static void test_a_step_is_given_up(void **state)
{
    struct gyre_replica r, other;
    struct gyre_late_step found;
    open_replica(&r, true);
    open_replica(&other, false);
    for (int step = 0; step < 5; step++) {
        ask_step(&r, 0);
        step_now(&other, 0, &found);
    }
    gyre_late_begin(&r, NULL, BATCH);
    run_passes(&r, 0);
    gyre_repeat_forget(&r.late.repeat);
    assert_true(ask_step(&r, 0).launches > 20);
    step_now(&other, 0, &found);
    same_values(&r, &other);
    gyre_replica_deinit(&r);
    gyre_replica_deinit(&other);
}

/* GYRE_GRAPHS=0: as if there were none. */
static void test_graphs_are_not_wanted(void **state)
{
    struct gyre_replica r;
    setenv("GYRE_GRAPHS", "0", 1);
    open_replica(&r, true);
    for (int step = 0; step < 6; step++)
        assert_int_equal(ask_step(&r, 0).graphs, 0);
    gyre_replica_deinit(&r);
    unsetenv("GYRE_GRAPHS");
}

/* -- the device -------------------------------------------------------------------------------- */

/* A device that does nothing: whoever waits for it does not come back. */
static void test_waits_for_nothing(void **state)
{
    struct gyre_replica r;
    struct gyre_late_step found;
    open_replica(&r, true);
    step_late(&r, 0);
    good(gyre_late_settle(&r, &found, &trouble));
    fakecuda_hold(true);
    step_late(&r, 1);
    fakecuda_hold(false);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(found.finite && found.norm > 0 && found.loss.sum > 0);
    gyre_replica_deinit(&r);
}

/* What a checkpoint has changed is the device's in the next step. */
static void test_loss_scale_is_brought(void **state)
{
    struct gyre_replica r;
    struct gyre_late_step before, found;
    open_replica(&r, true);
    step_late(&r, 0);
    good(gyre_late_settle(&r, &before, &trouble));
    r.scaler.scale = 1024;
    r.scaler.growth_tracker = r.scaler.growth_interval - 1;
    step_late(&r, 0);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(found.finite && gyre_scaler_scale(&r.scaler) == 2048);
    step_late(&r, 0);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(r.late.known.scale == 2048 && r.late.known.applied == 3);
    gyre_replica_deinit(&r);
}

/* Without a loss scale a step that is not finite is the last one that anything comes of. */
static void test_stuck(void **state)
{
    struct gyre_replica r;
    struct gyre_late_step found;
    open_replica(&r, true);
    r.scaler.enabled = false;
    step_late(&r, 0);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(found.finite && r.optimizer->steps == 1);
    step_late(&r, NOT_A_NUMBER);
    step_late(&r, 3);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(!found.finite && r.optimizer->steps == 1);
    good(gyre_late_settle(&r, &found, &trouble));
    assert_true(found.finite && r.optimizer->steps == 1);
    gyre_replica_deinit(&r);
}

/* A device that fails is told when the news are taken. */
static void test_device_fails(void **state)
{
    struct gyre_replica r;
    struct gyre_late_step found;
    open_replica(&r, true);
    step_late(&r, 0);
    good(gyre_late_settle(&r, &found, &trouble));
    fakecuda_hold(true);
    step_late(&r, 1);
    fakecuda_fail("copy", 1, CUDA_ERROR_LAUNCH_FAILED);
    fakecuda_hold(false);
    assert_true(gyre_late_settle(&r, &found, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "CUDA device 0 has failed"));
    gyre_replica_deinit(&r);
    fakecuda_heal();
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
}

int main(void)
{
    setenv("GYRE_BLAS", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_at_once, enter, leave),
        cmocka_unit_test_setup_teardown(test_launches_of_a_step, enter, leave),
        cmocka_unit_test_setup_teardown(test_short_batches_between, enter, leave),
        cmocka_unit_test_setup_teardown(test_steps_of_several_batches, enter, leave),
        cmocka_unit_test_setup_teardown(test_recording_fails, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_graph_fails, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_step_is_given_up, enter, leave),
        cmocka_unit_test_setup_teardown(test_graphs_are_not_wanted, enter, leave),
        cmocka_unit_test_setup_teardown(test_waits_for_nothing, enter, leave),
        cmocka_unit_test_setup_teardown(test_loss_scale_is_brought, enter, leave),
        cmocka_unit_test_setup_teardown(test_stuck, enter, leave),
        cmocka_unit_test_setup_teardown(test_device_fails, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
