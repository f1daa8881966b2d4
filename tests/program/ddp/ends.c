/* How a step of the DDP engine ends: clipped by the norm of all ranks' gradient, told to be of no
 * use for a NaN, the scale of the next one's wire, and told to be the last once every rank is out
 * of data. */
#include <gyre/ddp.h>

#include "rig/comm_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS 3
#define MOST       1000

/* -- a model ----------------------------------------------------------------------------------- */

static const char *const names[PARAMETERS] = {"a", "b", "c"};
static const uint64_t sizes[PARAMETERS] = {350, 33, MOST};
static const enum gyre_type types[PARAMETERS] = {GYRE_F32, GYRE_F64, GYRE_F32};

static struct gyre_ddp *make(struct gyre_comm *comm, const struct gyre_ddp_options *options)
{
    static double values[PARAMETERS][MOST];
    struct gyre_ddp_parameter parameter[PARAMETERS];
    struct gyre_ddp *ddp = NULL;
    for (int p = 0; p < PARAMETERS; p++)
        parameter[p] = (struct gyre_ddp_parameter){names[p], types[p], 1, {sizes[p]}, values[p]};
    rig_check(!gyre_ddp_create(&ddp, comm, parameter, PARAMETERS, options), comm, "create");
    return ddp;
}

/* The gradient of a sample's loss; whole numbers, so every sum is exact. */
static double slope(int p, uint64_t i, uint64_t sample)
{
    return (double)((i * 7 + (uint64_t)p * 3 + sample * 5) % 11) - 5;
}

static double get(const void *at, enum gyre_type type, uint64_t i)
{
    return type == GYRE_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* Samples first … first + count - 1 of all. */
static int learn(struct gyre_ddp *ddp, uint64_t first, uint64_t count)
{
    int status = gyre_ddp_begin(ddp, count);
    for (int p = PARAMETERS - 1; p >= 0 && count && !status; p--) {
        void *gradient = gyre_ddp_gradient(ddp, p);
        for (uint64_t i = 0; i < sizes[p]; i++) {
            double sum = 0;
            for (uint64_t s = first; s < first + count; s++)
                sum += slope(p, i, s);
            if (types[p] == GYRE_F64)
                ((double *)gradient)[i] = sum;
            else
                ((float *)gradient)[i] = (float)sum;
        }
        status = gyre_ddp_ready(ddp, p);
    }
    return status ? status : gyre_ddp_wait(ddp);
}

static double mean_slope(int p, uint64_t i, uint64_t samples)
{
    double sum = 0;
    for (uint64_t s = 0; s < samples; s++)
        sum += slope(p, i, s);
    return sum / (double)samples;
}

static double norm_of(uint64_t samples)
{
    double squares = 0;
    for (int p = 0; p < PARAMETERS; p++)
        for (uint64_t i = 0; i < sizes[p]; i++)
            squares += pow(mean_slope(p, i, samples), 2);
    return sqrt(squares);
}

/* What an update would take: this rank's pieces times the step's factor. */
static bool updates_by(struct gyre_ddp *ddp, uint64_t samples, double factor)
{
    struct gyre_ddp_piece piece;
    for (int k = 0; gyre_ddp_piece(ddp, k, &piece) == 0; k++)
        for (uint64_t i = 0; i < piece.count; i++) {
            double want = factor * mean_slope(piece.parameter, piece.first + i, samples);
            double got =
                gyre_ddp_result(ddp)->factor * get(piece.gradient, types[piece.parameter], i);
            if (!(fabs(got - want) <= 1e-6 * factor))
                return false;
        }
    return true;
}

/* -- clipped ----------------------------------------------------------------------------------- */

/* Rank r has r + 1 samples; the norm that is there is above the first two. */
static int clip(struct gyre_comm *comm, struct rig *rig)
{
    static const double most[] = {0.25, 3, 1e9};
    const struct gyre_ddp_options *options = rig->argument;
    uint64_t rank = (uint64_t)gyre_rank(comm), n = (uint64_t)gyre_size(comm);
    uint64_t first = rank * (rank + 1) / 2, samples = n * (n + 1) / 2;
    struct gyre_ddp *ddp = make(comm, options);
    int bad = ddp == NULL;
    for (int step = 0; step < 3 && !bad; step++) {
        double norm = norm_of(samples), factor = fmin(1, most[step] / (norm + 1e-6));
        bad = rig_check(!learn(ddp, first, rank + 1), comm, "step") ||
              rig_check(fabs(gyre_ddp_result(ddp)->norm - norm) <= 1e-6 * norm, comm, "norm") ||
              rig_check(updates_by(ddp, samples, 1), comm, "before") ||
              rig_check(!gyre_ddp_clip(ddp, most[step]), comm, "clip") ||
              rig_check(updates_by(ddp, samples, factor), comm, "clipped") ||
              rig_check(!options->unscaled || fabs(gyre_ddp_result(ddp)->factor * (double)samples -
                                                   factor) <= 1e-12 * factor,
                        comm, "to the last digit") ||
              rig_check(gyre_ddp_clip(ddp, 1) == GYRE_INVALID, comm, "once for a step");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void gradients_are_clipped_together(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
        options.norm = 1;
        options.sharded = k % 2;
        options.unscaled = k / 2;
        options.bucket_cap = options.first_bucket = 1000;
        for (int n = 1; n <= 3; n++) {
            struct rig rig = {.n = n, .transport = "shm", .body = clip, .argument = &options};
            assert_int_equal(rig_run(&rig, 30), 0);
        }
    }
}

/* Too large only together: nobody updates, and clipping makes no numbers of it. */
static int overflow(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    options.norm = 1;
    struct gyre_ddp *ddp = make(comm, &options);
    (void)rig;
    int bad = ddp == NULL;
    if (!bad) {
        bad |= rig_check(gyre_ddp_clip(ddp, 1) == GYRE_INVALID, comm, "before the first step");
        bad |= gyre_ddp_begin(ddp, 1);
        for (int p = 0; p < PARAMETERS; p++)
            memset(gyre_ddp_gradient(ddp, p), 0, sizes[p] * gyre_type_size(types[p]));
        *(float *)gyre_ddp_gradient(ddp, 0) = 3e38f;
        for (int p = PARAMETERS - 1; p >= 0; p--)
            bad |= gyre_ddp_ready(ddp, p);
        bad |= rig_check(gyre_ddp_clip(ddp, 1) == GYRE_INVALID, comm, "within a step");
        bad |= rig_check(!gyre_ddp_wait(ddp) && gyre_ddp_result(ddp)->nonfinite, comm, "nonfinite");
        bad |= rig_check(gyre_ddp_clip(ddp, 0) == GYRE_INVALID, comm, "no norm") ||
               rig_check(!gyre_ddp_clip(ddp, 1), comm, "clip") ||
               rig_check(isinf(*(float *)gyre_ddp_gradient(ddp, 0)), comm, "left as it is");
    }
    gyre_ddp_destroy(ddp);
    ddp = make(comm, NULL);
    bad |= !ddp || learn(ddp, 0, 1) ||
           rig_check(gyre_ddp_clip(ddp, 1) == GYRE_INVALID && strstr(gyre_error(comm), "norm"),
                     comm, "no norm was asked for");
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void what_cannot_be_clipped_is_left(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = overflow}, 30), 0);
}

/* -- NaN --------------------------------------------------------------------------------------- */

#define LARGE 20000 /* above what is looked at unless asked for */

/* Rank 1 has it in the last element of a large parameter. */
static int have_a_nan(struct gyre_comm *comm, struct rig *rig)
{
    static float value[LARGE];
    const struct gyre_ddp_options *options = rig->argument;
    const struct gyre_ddp_parameter parameter = {"large", GYRE_F32, 1, {LARGE}, value};
    bool told = options != NULL;
    struct gyre_ddp *ddp;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, &parameter, 1, options), comm, "create");
    if (!bad) {
        bad |= gyre_ddp_begin(ddp, 1);
        memset(gyre_ddp_gradient(ddp, 0), 0, sizeof value);
        if (gyre_rank(comm) == 1)
            ((float *)gyre_ddp_gradient(ddp, 0))[LARGE - 1] = NAN;
        bad |= gyre_ddp_ready(ddp, 0) || gyre_ddp_wait(ddp);
        const struct gyre_ddp_result *r = gyre_ddp_result(ddp);
        bad |= rig_check(r->nonfinite == told && r->culprit == (told ? 1 : -1) &&
                             (!told || !strcmp(r->culprit_name, "large")),
                         comm, "the one who had it");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void a_nan_is_named_where_it_is_looked_for(void **state)
{
    struct gyre_ddp_options all = GYRE_DDP_OPTIONS_INIT;
    struct rig rig = {.n = 2, .transport = "shm", .body = have_a_nan};
    (void)state;
    assert_int_equal(rig_run(&rig, 30), 0);
    all.look = GYRE_DDP_LOOK_ALL;
    rig.argument = &all;
    assert_int_equal(rig_run(&rig, 30), 0);
}

/* Ranks 1 and 2 have one each, rank 1 in "c", which is ready before "a": the lowest rank is named,
 * with what it saw first. */
static int have_several(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_ddp *ddp = make(comm, NULL);
    int rank = gyre_rank(comm), bad = ddp == NULL;
    (void)rig;
    if (!bad) {
        bad |= gyre_ddp_begin(ddp, 1);
        for (int p = 0; p < PARAMETERS; p++)
            memset(gyre_ddp_gradient(ddp, p), 0, sizes[p] * gyre_type_size(types[p]));
        if (rank == 1)
            *(float *)gyre_ddp_gradient(ddp, 2) = NAN;
        if (rank)
            *(float *)gyre_ddp_gradient(ddp, 0) = NAN;
        for (int p = PARAMETERS - 1; p >= 0; p--)
            bad |= gyre_ddp_ready(ddp, p);
        bad |= gyre_ddp_wait(ddp);
        const struct gyre_ddp_result *r = gyre_ddp_result(ddp);
        bad |= rig_check(r->nonfinite == 2 && r->culprit == 1 && !strcmp(r->culprit_name, "c"),
                         comm, "the first of several");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void the_first_of_several_is_named(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, have_several), 0);
}

/* -- the scale of the wire --------------------------------------------------------------------- */

/* Two steps of these samples, of a sum that f16 cannot hold and a mean that it can. The first step
 * travels as it is; each later one as the power of two below the mean of the step before. */
static int scale_the_wire(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t samples[] = {6, 16, 50, 6};
    static const double scale[] = {0x1p-4, 0x1p-5, 0x1p-7, 0x1p-4};
    static float value[64];
    const struct gyre_ddp_parameter parameter = {"w", GYRE_F32, 1, {64}, value};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp *ddp;
    (void)rig;
    options.wire = GYRE_DDP_WIRE_F16;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, &parameter, 1, &options), comm, "create");
    bad = bad || rig_check(gyre_ddp_wire_scale(ddp) == 0, comm, "no scale before the first step");
    for (int step = 0; step < 4 && !bad; step++) {
        bad = gyre_ddp_begin(ddp, samples[step]);
        for (int i = 0; i < 64; i++)
            ((float *)gyre_ddp_gradient(ddp, 0))[i] = 65536;
        bad = bad || gyre_ddp_ready(ddp, 0) || gyre_ddp_wait(ddp) ||
              rig_check(*(float *)gyre_ddp_gradient(ddp, 0) == 65536 / (float)samples[step], comm,
                        "the mean") ||
              rig_check(gyre_ddp_wire_scale(ddp) == scale[step], comm, "the scale");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void the_wire_is_scaled_to_the_mean(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, scale_the_wire), 0);
}

/* -- done -------------------------------------------------------------------------------------- */

/* Ranks with 5, 3 and 0 batches: all leave their loops behind the sixth step, and no sooner. */
static int run_out(struct gyre_comm *comm, struct rig *rig)
{
    static const int batches[] = {5, 3, 0};
    int rank = gyre_rank(comm), steps = 0, bad = 0;
    struct gyre_ddp *ddp = make(comm, NULL);
    (void)rig;
    if (!ddp)
        return 1;
    const struct gyre_ddp_result *step = gyre_ddp_result(ddp);
    for (; steps < 9 && !bad; steps++) {
        uint64_t here = steps < batches[rank] ? 2 : 0, all = steps < 3 ? 4 : steps < 5 ? 2 : 0;
        bad = rig_check(!learn(ddp, rank ? 2 : 0, here), comm, "step") ||
              rig_check(step->samples == all && step->done == (all == 0), comm, "done");
        if (bad || step->done)
            break;
        bad = rig_check(updates_by(ddp, all, 1), comm, "the mean over who had samples");
    }
    for (int p = 0; p < PARAMETERS && !bad; p++)
        bad = rig_check(get(gyre_ddp_gradient(ddp, p), types[p], sizes[p] - 1) == 0, comm, "zeros");
    bad |= rig_check(steps == 5, comm, "all at once");
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void all_ranks_are_done_at_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, run_out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_clipped_together),
        cmocka_unit_test(what_cannot_be_clipped_is_left),
        cmocka_unit_test(a_nan_is_named_where_it_is_looked_for),
        cmocka_unit_test(the_first_of_several_is_named),
        cmocka_unit_test(the_wire_is_scaled_to_the_mean),
        cmocka_unit_test(all_ranks_are_done_at_once),
    };
    return cmocka_run_group_tests_name("ddp, how a step ends", tests, NULL, NULL);
}
