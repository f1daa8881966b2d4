/* Steps of two ranks as graphs in parts (model/processor/repeat.h), over real processes and the
 * stand-in for CUDA: one to each of three buckets, two behind the reductions, of which the first is
 * the engine's. The values are those
 * of single launches, bit for bit, and what goes wrong while a graph is made ends the graphs of
 * that rank alone. Batch norm over both ranks ends parts, too, and what follows depends on the
 * samples of both. A single rank's: late_test.c. */
#include "model/network/late.h"
#include "model/learning/init.h"
#include "model/network/update.h"
#include "rig/comm_rig.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 6, INPUTS = 40, HIDDEN = 30, CLASSES = 3, PARTS = 4 };

enum { RECORDED = 3, REPEATED = 7, SHORT = 8, EMPTY = 10 }; /* steps */

static struct gyre_trouble trouble;
static enum gyre_precision precision = GYRE_PRECISION_F16; /* of products */
static bool sharded; /* and compared with steps that end at once */
static bool images;  /* and batch norm; in two steps rank 1 alone has fewer samples */

/* 1, told, unless it is fine. */
static int bad(bool fine, struct gyre_comm *comm, const char *what)
{
    if (!fine && trouble.text[0])
        fprintf(stderr, "rank %d: %s\n", gyre_rank(comm), trouble.text);
    return rig_check(fine, comm, what);
}

/* Halves, on the wire too, a norm and Adam: what depends most on how steps before have ended. The
 * last layer is a bucket, as are the first one's bias and its weight. */
static int open_replica(struct gyre_comm *comm, struct gyre_replica *r, bool repeats)
{
    const struct gyre_optimizer_settings adam = gyre_optimizer_defaults(GYRE_ADAM);
    const struct gyre_model_settings settings = {.batch = BATCH,
                                                 .kind = GYRE_MEMORY_CUDA,
                                                 .precision = precision,
                                                 .device = gyre_device(comm)};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_model *model;
    options.norm = options.unscaled = 1;
    options.sharded = sharded;
    options.look = GYRE_DDP_LOOK_NONE;
    options.wire = GYRE_DDP_WIRE_F16;
    options.first_bucket = options.bucket_cap = HIDDEN * sizeof(float);
    int status = images ? gyre_convnet_create(&model, (struct gyre_volume){1, 4, 4}, CLASSES,
                                              &settings, &trouble)
                        : gyre_mlp_create(&model, (size_t[]){INPUTS, HIDDEN, CLASSES}, 3, &settings,
                                          &trouble);
    if (!status)
        status = gyre_replica_init(r, model, &adam, &trouble);
    if (status)
        return bad(false, comm, "a replica");
    if (images)
        gyre_model_sync_batches(model);
    r->looks = true;
    r->late.wanted = repeats || !sharded;
    r->late.repeats = repeats;
    gyre_init_parameters(r->parameter, r->parameters, (uint64_t)gyre_rank(comm));
    return bad(!gyre_replica_join(r, comm, &options) && gyre_late_on(r) == r->late.wanted, comm,
               "it has joined");
}

/* Uneven: rank 1 has fewer, fewer still in one step, and none in another. */
static uint64_t samples_of(const struct gyre_comm *comm, int step)
{
    const uint64_t less = gyre_rank(comm) ? 1 : 0;
    if (less && images && (step == RECORDED || step == REPEATED))
        return 2;
    return step == SHORT ? 3 - less : step == EMPTY && less ? 0 : BATCH - less;
}

/* In step 6 inputs are so large that halves overflow. */
static int run_passes(struct gyre_comm *comm, struct gyre_replica *r, int step)
{
    static const int64_t labels[BATCH] = {0, 1, 2, 1, 0, 2};
    const uint64_t samples = samples_of(comm, step);
    float x[BATCH * INPUTS];
    struct gyre_loss loss = {0};
    for (int i = 0; i < BATCH * INPUTS; i++)
        x[i] = (float)((i * 7 + step * 5 + gyre_rank(comm)) % 11 - 5) / (step == 6 ? 1e-4f : 4.0f);
    gyre_replica_clear_loss(r);
    int status =
        gyre_replica_forward(r, x, samples, true, (struct gyre_wanted){.labels = labels}, &trouble);
    if (!status)
        status = gyre_replica_backward(r, false, true, &trouble);
    return status ? status : gyre_replica_take_loss(r, &loss, &trouble);
}

/* What may wait for all work of the device, and would be called while a bucket is reduced. */
static int waiting_calls(void)
{
    return fakecuda_calls("cuStreamCreateWithPriority") +
           fakecuda_calls("cuGraphInstantiateWithFlags") + fakecuda_calls("cuGraphUpload") +
           fakecuda_calls("cuGraphExecDestroy");
}

static int update_now(struct gyre_replica *r, double rate)
{
    int status = gyre_ddp_clip(r->ddp, 0.5 * (double)gyre_scaler_scale(&r->scaler));
    return status ? status : gyre_replica_update(r, rate, &trouble);
}

static int update_step(struct gyre_replica *r, double rate)
{
    struct gyre_late_step end;
    if (!gyre_late_on(r))
        return update_now(r, rate);
    int status = gyre_late_update(r, rate, 0.5, &trouble);
    return status ? status : gyre_late_settle(r, &end, &trouble);
}

static int make_step(struct gyre_comm *comm, struct gyre_replica *r, int step)
{
    int status = gyre_ddp_begin(r->ddp, samples_of(comm, step));
    gyre_replica_bind(r);
    const int before = waiting_calls();
    if (!status && (samples_of(comm, step) || images))
        status = run_passes(comm, r, step);
    const int meanwhile = waiting_calls() - before;
    if (!status)
        status = gyre_ddp_wait(r->ddp);
    if (!status)
        status = update_step(r, 0.01 / (step + 1));
    if (!status && step > 0 && meanwhile)
        status = bad(false, comm, "a call that waits for the device within the passes");
    return status;
}

static int step_once(struct gyre_comm *comm, struct gyre_replica *r, int step)
{
    gyre_late_begin(r, NULL, samples_of(comm, step));
    return make_step(comm, r, step);
}

static int same_values(struct gyre_comm *comm, struct gyre_replica *a, struct gyre_replica *b)
{
    bool same = !gyre_replica_values_home(a, &trouble) && !gyre_replica_values_home(b, &trouble);
    for (int p = 0; same && p < a->parameters; p++)
        same = !memcmp(a->host_item[p].value, b->host_item[p].value,
                       a->parameter[p]->count * sizeof(float));
    return bad(same, comm, "the values of single launches");
}

/* Steps of both replicas, one without graphs. */
static int make_steps(struct gyre_comm *comm, struct gyre_replica *r, struct gyre_replica *plain,
                      int first, int end)
{
    int failed = 0;
    for (int step = first; !failed && step < end; step++)
        failed = bad(!step_once(comm, plain, step) && !step_once(comm, r, step), comm, "a step") ||
                 same_values(comm, r, plain);
    return failed;
}

static int open_both(struct gyre_comm *comm, struct gyre_replica *r, struct gyre_replica *plain)
{
    return open_replica(comm, r, true) || open_replica(comm, plain, false);
}

static void close_both(struct gyre_replica *r, struct gyre_replica *plain)
{
    gyre_replica_deinit(r);
    gyre_replica_deinit(plain);
}

/* -- bits and launches ------------------------------------------------------------------------- */

struct asked {
    int launches, graphs;
};

static struct asked ask_step(struct gyre_comm *comm, struct gyre_replica *r, int step, int *failed)
{
    const struct asked before = {fakecuda_calls("cudaLaunchKernel"),
                                 fakecuda_calls("cuGraphLaunch")};
    *failed = *failed || bad(!step_once(comm, r, step), comm, "a step");
    return (struct asked){fakecuda_calls("cudaLaunchKernel") - before.launches,
                          fakecuda_calls("cuGraphLaunch") - before.graphs};
}

/* All steps from the fifth on but the short one and, on rank 1, that without samples. Products of
 * f32 are one launch, so the last bucket's part stays launches. */
static int has_the_bits(struct gyre_comm *comm, struct rig *rig)
{
    enum { STEPS = 14 };
    struct gyre_replica r, plain;
    const uint64_t wanted = STEPS - 4 - 1 - (gyre_rank(comm) == 1);
    precision = rig->argument ? GYRE_PRECISION_F32 : GYRE_PRECISION_F16;
    const int each = rig->argument ? PARTS - 1 : PARTS;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, STEPS);
    const struct gyre_repeat *repeat = &r.late.repeat;
    failed = failed || bad(repeat->repeated == wanted, comm, "steps that were graphs") ||
             bad(repeat->posted == (uint64_t)each * wanted, comm, "graphs of each") ||
             bad(plain.late.repeat.posted == 0, comm, "none where none are wanted");
    const struct asked single = ask_step(comm, &plain, 0, &failed),
                       graphs = ask_step(comm, &r, 0, &failed);
    failed = failed ||
             bad(single.graphs == 0 && graphs.graphs == each + 1, comm, "graphs posted") ||
             bad(single.launches - graphs.launches > 20, comm, "launches left out");
    if (!failed && gyre_rank(comm) == 0)
        printf("launches of a step of 2 ranks: %d, then %d and %d graphs\n", single.launches,
               graphs.launches, graphs.graphs);
    fflush(stdout); /* ranks exit without it */
    close_both(&r, &plain);
    return gyre_finalize(comm) || failed;
}

static void run_two(int (*body)(struct gyre_comm *, struct rig *), void *argument)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = body, .argument = argument};
    assert_int_equal(rig_run(&rig, 120), 0);
}

static void test_has_the_bits(void **state)
{
    run_two(has_the_bits, NULL);
}

static void test_a_short_part_stays_launches(void **state)
{
    run_two(has_the_bits, &precision);
}

/* Each rank updates its part, by a norm that both have gathered. */
static int has_the_bits_of_parts(struct gyre_comm *comm, struct rig *rig)
{
    sharded = true;
    return has_the_bits(comm, rig);
}

static void test_sharded(void **state)
{
    run_two(has_the_bits_of_parts, NULL);
}

/* -- batch norm over both ranks ---------------------------------------------------------------- */

/* Rank 1 has fewer samples in the step that rank 0 would record, and in one that it repeats:
 * launches make what comes behind the first sum. The one that is recorded is the seventh. */
static int normalises_over_ranks(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_replica r, plain;
    images = true;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, EMPTY);
    const struct gyre_repeat *repeat = &r.late.repeat;
    failed = failed || bad(repeat->repeated == 1, comm, "steps that were graphs") ||
             bad(repeat->posted > PARTS, comm, "a part up to each sum");
    close_both(&r, &plain);
    return gyre_finalize(comm) || failed;
}

static void test_batch_norm_over_ranks(void **state)
{
    run_two(normalises_over_ranks, NULL);
}

/* -- what fails -------------------------------------------------------------------------------- */

/* The nth of these calls fails on rank 1. It goes on by launches, and rank 0 by graphs. */
static int outlives(struct gyre_comm *comm, const char *call, int nth)
{
    enum { STEPS = 7 };
    struct gyre_replica r, plain;
    const bool fails = gyre_rank(comm) == 1;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, RECORDED);
    if (fails)
        fakecuda_fail(call, nth, CUDA_ERROR_LAUNCH_FAILED);
    failed = failed || make_steps(comm, &r, &plain, RECORDED, STEPS);
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    if (!failed && fails)
        failed = bad(r.late.repeat.posted == 0 && !r.late.repeat.on, comm, call);
    else if (!failed)
        failed = bad(r.late.repeat.repeated > 0, comm, "graphs of the other rank");
    close_both(&r, &plain);
    return failed;
}

static int recording_fails(struct gyre_comm *comm, struct rig *rig)
{
    static const char *const calls[] = {"cuStreamBeginCapture", "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags", "cuGraphUpload"};
    static const int part[] = {2, 3, 1, 2};
    int failed = outlives(comm, "cuStreamCreateWithPriority", 1);
    for (int i = 0; !failed && i < 4; i++)
        failed = outlives(comm, calls[i], part[i]);
    return gyre_finalize(comm) || failed;
}

/* The engine's is the fourth of rank 1. It has launches from then on, and the replica graphs. */
static int engine_fails(struct gyre_comm *comm, struct rig *rig)
{
    enum { STEPS = 7 };
    struct gyre_replica r, plain;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, RECORDED);
    if (gyre_rank(comm) == 1)
        fakecuda_fail("cuStreamEndCapture", PARTS, CUDA_ERROR_LAUNCH_FAILED);
    failed = failed || make_steps(comm, &r, &plain, RECORDED, STEPS);
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    const struct asked asked = ask_step(comm, &r, 0, &failed);
    failed = failed || bad(asked.graphs == PARTS + (gyre_rank(comm) == 0), comm,
                           "graphs of the replica alone");
    close_both(&r, &plain);
    return gyre_finalize(comm) || failed;
}

static void test_recording_of_the_engine_fails(void **state)
{
    run_two(engine_fails, NULL);
}

static void test_recording_fails(void **state)
{
    run_two(recording_fails, NULL);
}

/* A graph that cannot be posted, on both ranks: the step is not made, and the sentence says so. */
static int graph_fails(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_replica r, plain;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, 5);
    fakecuda_fail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED);
    failed = failed || bad(step_once(comm, &r, 5) < 0, comm, "a step without its graph") ||
             bad(strstr(trouble.text, "cuGraphLaunch on CUDA device"), comm, "no sentence");
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    close_both(&r, &plain);
    return gyre_finalize(comm) || failed;
}

static void test_a_graph_fails(void **state)
{
    run_two(graph_fails, NULL);
}

/* One launch more than the part has. */
static int launches_are_counted(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_replica r, plain;
    int failed = open_both(comm, &r, &plain) || make_steps(comm, &r, &plain, 0, 5);
    gyre_late_begin(&r, NULL, samples_of(comm, 5));
    gyre_replica_clear_loss(&r);
    failed = failed || bad(make_step(comm, &r, 5) < 0, comm, "a launch too many") ||
             bad(strstr(trouble.text, "run it with GYRE_GRAPHS=0"), comm, "no sentence");
    close_both(&r, &plain);
    return gyre_finalize(comm) || failed;
}

static void test_launches_are_counted(void **state)
{
    run_two(launches_are_counted, NULL);
}

int main(void)
{
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "1,0", 0);
    setenv("GYRE_BLAS", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_has_the_bits),
        cmocka_unit_test(test_a_short_part_stays_launches),
        cmocka_unit_test(test_sharded),
        cmocka_unit_test(test_batch_norm_over_ranks),
        cmocka_unit_test(test_recording_fails),
        cmocka_unit_test(test_recording_of_the_engine_fails),
        cmocka_unit_test(test_a_graph_fails),
        cmocka_unit_test(test_launches_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
