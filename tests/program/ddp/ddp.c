/* The DDP engine with real ranks: a model whose gradients are small whole numbers, so that every
 * sum is exact and the mean is known. */
#include <gyre/ddp.h>

#include "rig/comm_rig.h"
#include "program/ddp/model.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- gradients --------------------------------------------------------------------------------- */

/* The gradient of one sample's loss. */
static double slope(int p, uint64_t i, uint64_t sample)
{
    return (double)((i * 7 + (uint64_t)p * 3 + sample * 5) % 11) - 5;
}

static uint64_t samples_of(int rank, int step)
{
    return (uint64_t)((rank + step) % 4); /* somebody has none in nearly every step */
}

static double sum_of(int p, uint64_t i, int rank, int step)
{
    double sum = 0;
    for (uint64_t s = 0; s < samples_of(rank, step); s++)
        sum += slope(p, i, s + 100 * (uint64_t)rank + (uint64_t)step);
    return sum;
}

static double expected_mean(int p, uint64_t i, int n, int step, enum gyre_ddp_mean mean)
{
    double sum = 0, samples = 0, active = 0;
    for (int rank = 0; rank < n; rank++) {
        double own = (double)samples_of(rank, step);
        sum += mean == GYRE_DDP_MEAN_OF_RANKS && own ? sum_of(p, i, rank, step) / own
                                                     : sum_of(p, i, rank, step);
        samples += own;
        active += own > 0;
    }
    return sum / (mean == GYRE_DDP_MEAN_OF_RANKS ? active : samples);
}

/* -- a pass ------------------------------------------------------------------------------------ */

struct trial {
    struct gyre_ddp_options options;
    int shuffled; /* gradients are ready in another order than assumed */
    int parts;    /* micro steps; 0: one */
    double exact; /* how far a mean may be off, relative to 5 */
};

static int write_gradients(struct gyre_ddp *ddp, const struct model *m, int rank, int step,
                           const struct trial *trial)
{
    int status = 0;
    for (int k = PARAMETERS - 1; k >= 0 && !status; k--) {
        int p = trial->shuffled ? (k * 3 + 1) % PARAMETERS : k;
        void *gradient = gyre_ddp_gradient(ddp, p);
        enum gyre_type type = m->parameter[p].type;
        for (uint64_t i = 0; i < elements(p); i++)
            set(gradient, type, i,
                sum_of(p, i, rank, step) + (gyre_ddp_adds(ddp) ? get(gradient, type, i) : 0));
        status = gyre_ddp_ready(ddp, p);
    }
    return status;
}

/* All parts of a step but the last stay on the rank; each is the whole batch, so the mean is the
 * same. */
static int pass(struct gyre_ddp *ddp, const struct model *m, int rank, int step,
                const struct trial *trial)
{
    int parts = trial->parts ? trial->parts : 1, status = 0;
    for (int part = 0; part < parts && !status; part++) {
        status = gyre_ddp_no_sync(ddp, part + 1 < parts);
        if (!status)
            status = gyre_ddp_begin(ddp, samples_of(rank, step));
        if (!status && samples_of(rank, step))
            status = write_gradients(ddp, m, rank, step, trial);
        if (!status)
            status = gyre_ddp_add(ddp, 0, rank + 0.25);
        if (!status)
            status = gyre_ddp_wait(ddp);
    }
    return status;
}

static int update(struct gyre_ddp *ddp, const struct model *m)
{
    struct gyre_ddp_piece piece;
    for (int k = 0; gyre_ddp_piece(ddp, k, &piece) == 0; k++) {
        enum gyre_type type = m->parameter[piece.parameter].type;
        for (uint64_t i = 0; i < piece.count; i++)
            set(piece.value, type, i,
                get(piece.value, type, i) - 0.5 * get(piece.gradient, type, i));
    }
    uint64_t waited = gyre_ddp_result(ddp)->waited_ns;
    bool gathers = gyre_ddp_value(ddp, 0) != m->parameter[0].value;
    int status = gyre_ddp_gather(ddp);
    if (!status && gathers && gyre_ddp_result(ddp)->waited_ns <= waited)
        return -1; /* it counts as waiting */
    return status;
}

/* -- checks ------------------------------------------------------------------------------------ */

static int check_means(struct gyre_ddp *ddp, const struct model *m, int n, int step,
                       const struct trial *trial)
{
    struct gyre_ddp_piece piece;
    uint64_t seen = 0;
    double factor = gyre_ddp_result(ddp)->factor;
    for (int k = 0; gyre_ddp_piece(ddp, k, &piece) == 0; k++)
        for (uint64_t i = 0; i < piece.count; i++, seen++) {
            double got = factor * get(piece.gradient, m->parameter[piece.parameter].type, i);
            double want =
                expected_mean(piece.parameter, piece.first + i, n, step, trial->options.mean);
            if (!(fabs(got - want) <= 5 * trial->exact)) {
                fprintf(stderr, "step %d: %s[%llu] is %.9g, not %.9g\n", step,
                        names[piece.parameter], (unsigned long long)(piece.first + i), got, want);
                return 1;
            }
        }
    uint64_t all = 0;
    for (int p = 0; p < PARAMETERS; p++)
        all += elements(p);
    return trial->options.sharded ? seen > all : seen != all;
}

static int check_values(struct gyre_comm *comm, struct gyre_ddp *ddp, const struct model *m)
{
    for (int p = 0; p < PARAMETERS; p++) {
        size_t bytes = elements(p) * gyre_type_size(m->parameter[p].type);
        void *first = malloc(bytes), *mine = gyre_ddp_value(ddp, p);
        int status = gyre_broadcast(comm, mine, first, bytes, GYRE_U8, 0);
        int differ = memcmp(first, mine, bytes) != 0;
        free(first);
        if (rig_check(!status && !differ, comm, names[p]))
            return 1;
    }
    return 0;
}

/* Half of every mean so far has been taken off the first values. */
static int check_sum_of_updates(struct gyre_ddp *ddp, const struct model *m, int n, int steps,
                                const struct trial *trial)
{
    for (int p = 0; p < PARAMETERS; p++) {
        uint64_t i = elements(p) / 2;
        double want = (double)(i % 100), got = get(gyre_ddp_value(ddp, p), m->parameter[p].type, i);
        for (int step = 0; step < steps; step++) {
            double mean = expected_mean(p, i, n, step, trial->options.mean);
            want -= isnan(mean) ? 0 : 0.5 * mean; /* nobody had samples */
        }
        if (!(fabs(got - want) <= 1e-4 + 5 * steps * trial->exact)) {
            fprintf(stderr, "after %d steps: %s[%llu] is %.9g, not %.9g\n", steps, names[p],
                    (unsigned long long)i, got, want);
            return 1;
        }
    }
    return 0;
}

static int check_result(struct gyre_ddp *ddp, int n, int step, const struct trial *trial)
{
    const struct gyre_ddp_result *r = gyre_ddp_result(ddp);
    int parts = trial->parts ? trial->parts : 1;
    uint64_t samples = 0;
    double sum = 0;
    for (int rank = 0; rank < n; rank++) {
        samples += samples_of(rank, step) * (uint64_t)parts;
        sum += parts * (rank + 0.25);
    }
    return r->samples != samples || r->sum[0] != sum || r->stop || r->skip || r->nonfinite ||
           r->culprit != -1 || r->number != (uint64_t)step + 1;
}

static int train(struct gyre_comm *comm, struct rig *rig)
{
    const struct trial *trial = rig->argument;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    struct model *m = model_new(rank);
    int64_t counter[2] = {rank + 40, rank + 50};
    struct gyre_ddp_parameter buffer = {"counter", GYRE_I64, 1, {2}, counter};
    struct gyre_ddp_options options = trial->options;
    struct gyre_ddp *ddp;
    options.buffers = (struct gyre_ddp_buffers){&buffer, 1};
    bad = rig_check(!gyre_ddp_create(&ddp, comm, m->parameter, PARAMETERS, &options), comm,
                    "create") ||
          rig_check(counter[0] == 40 && counter[1] == 50, comm, "buffers are rank 0's");
    if (!bad)
        bad = check_values(comm, ddp, m) ||
              rig_check(get(gyre_ddp_value(ddp, 0), GYRE_F32, 7) == 7, comm, "rank 0's values");
    for (int step = 0; step < 6 && !bad; step++) {
        bad = rig_check(!pass(ddp, m, rank, step, trial), comm, "step") ||
              rig_check(!check_result(ddp, n, step, trial), comm, "result") ||
              check_values(comm, ddp, m);
        if (!bad && gyre_ddp_result(ddp)->samples) /* a world of one has none now and then */
            bad = rig_check(!check_means(ddp, m, n, step, trial), comm, "means") ||
                  rig_check(!update(ddp, m), comm, "update") || check_values(comm, ddp, m);
        if (!bad && !trial->options.unscaled)
            bad = rig_check(!check_sum_of_updates(ddp, m, n, step + 1, trial), comm, "updates");
    }
    gyre_ddp_destroy(ddp);
    free(m);
    return bad ? bad : gyre_finalize(comm);
}

static void expect_trained(const struct trial *trial)
{
    struct rig rig = {.n = 3, .body = train, .argument = (void *)trial};
    rig.transport = "shm";
    assert_int_equal(rig_run(&rig, 60), 0);
    rig.transport = "tcp";
    assert_int_equal(rig_run(&rig, 60), 0);
    rig = (struct rig){.n = 4, .per_node = 2, .body = train, .argument = (void *)trial};
    assert_int_equal(rig_run(&rig, 60), 0);
    rig = (struct rig){.n = 1, .transport = "shm", .body = train, .argument = (void *)trial};
    assert_int_equal(rig_run(&rig, 60), 0);
}

#define EXACT 1e-7

static void the_mean_is_over_all_samples(void **state)
{
    (void)state;
    expect_trained(&(struct trial){.options = OPTIONS(0), .exact = EXACT});
}

static void buckets_of_any_size_give_the_same(void **state)
{
    (void)state;
    expect_trained(
        &(struct trial){.options = OPTIONS(.first_bucket = 1, .bucket_cap = 1), .exact = EXACT});
    expect_trained(&(struct trial){.options = OPTIONS(.bucket_cap = 30000), .exact = EXACT});
}

static void another_order_is_learned(void **state)
{
    (void)state;
    expect_trained(
        &(struct trial){.options = OPTIONS(.bucket_cap = 10000), .shuffled = 1, .exact = EXACT});
    expect_trained(&(struct trial){
        .options = OPTIONS(.bucket_cap = 10000, .sharded = 1), .shuffled = 1, .exact = EXACT});
}

static void the_mean_of_ranks_is_torchs(void **state)
{
    (void)state;
    expect_trained(
        &(struct trial){.options = OPTIONS(.mean = GYRE_DDP_MEAN_OF_RANKS), .exact = 3 * EXACT});
}

static void parts_of_a_step_add_up(void **state)
{
    (void)state;
    expect_trained(&(struct trial){.options = OPTIONS(0), .parts = 3, .exact = EXACT});
}

static void sums_may_stay_sums(void **state)
{
    (void)state;
    expect_trained(&(struct trial){.options = OPTIONS(.unscaled = 1), .exact = EXACT});
}

static void shards_are_updated_apart(void **state)
{
    (void)state;
    expect_trained(&(struct trial){.options = OPTIONS(.sharded = 1), .exact = EXACT});
    expect_trained(&(struct trial){
        .options = OPTIONS(.sharded = 1, .first_bucket = 1, .bucket_cap = 1), .exact = EXACT});
}

/* bf16 keeps 8 bits of each rank's sum and of the whole; f16 keeps 11. */
static void halves_on_the_wire_are_near(void **state)
{
    (void)state;
    expect_trained(
        &(struct trial){.options = OPTIONS(.wire = GYRE_DDP_WIRE_BF16), .exact = 1.0 / 64});
    expect_trained(&(struct trial){.options = OPTIONS(.wire = GYRE_DDP_WIRE_F16, .no_feedback = 1),
                                   .exact = 1.0 / 512});
    expect_trained(&(struct trial){
        .options = OPTIONS(.wire = GYRE_DDP_WIRE_BF16, .sharded = 1, .bucket_cap = 9000),
        .exact = 1.0 / 64});
}

/* -- hooks of the caller's --------------------------------------------------------------------- */

/* Whole numbers of 64ths: what is summed as integers is the same in any order. */
static void to_cents(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                     void *context)
{
    int32_t *cents = wire;
    for (uint64_t i = 0; i < parcel->count; i++)
        cents[i] = (int32_t)lrint((double)gradient[i] * *(const double *)context);
}

static void from_cents(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                       void *context)
{
    const int32_t *cents = wire;
    for (uint64_t i = 0; i < parcel->count; i++)
        gradient[i] = (float)(cents[i] / *(const double *)context);
}

static double hundred = 64;
static const struct gyre_ddp_hook in_cents = {.name = "cents",
                                              .type = GYRE_I32,
                                              .encode = to_cents,
                                              .decode = from_cents,
                                              .context = &hundred};

/* Bytes are enough for these gradients. */
static void to_bytes(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                     void *context)
{
    int8_t *byte = wire;
    (void)context;
    for (uint64_t i = 0; i < parcel->count; i++)
        byte[i] = (int8_t)gradient[i];
}

static void from_bytes(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                       void *context)
{
    const int8_t *byte = wire;
    (void)context;
    for (uint64_t i = 0; i < parcel->count; i++)
        gradient[i] = byte[i];
}

static const struct gyre_ddp_hook in_bytes = {
    .name = "bytes", .type = GYRE_I8, .encode = to_bytes, .decode = from_bytes};

static void hooks_carry_gradients(void **state)
{
    const struct gyre_ddp_hook *const hooks[] = {&in_cents, &in_bytes};
    (void)state;
    for (int h = 0; h < 2; h++) {
        expect_trained(&(struct trial){.options = OPTIONS(.hook = hooks[h]), .exact = EXACT});
        expect_trained(&(struct trial){.options = OPTIONS(.hook = hooks[h], .sharded = 1,
                                                          .bucket_cap = 9000, .no_feedback = 1),
                                       .shuffled = 1,
                                       .exact = EXACT});
    }
}

/* -- feedback ---------------------------------------------------------------------------------- */

/* A gradient of 1 + 1/512 is 1 in bf16 for ever; with feedback the sum over steps is right. */
static int add_up(struct gyre_comm *comm, struct rig *rig)
{
    float value = 0, sum = 0;
    struct gyre_ddp_parameter one = {
        .name = "w", .type = GYRE_F32, .dimensions = 0, .value = &value};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp *ddp;
    int bad;
    options.wire = GYRE_DDP_WIRE_BF16;
    options.no_feedback = rig->argument != NULL;
    bad = rig_check(!gyre_ddp_create(&ddp, comm, &one, 1, &options), comm, "create");
    for (int step = 0; step < 256 && !bad; step++) {
        bad |= rig_check(!gyre_ddp_begin(ddp, 1), comm, "begin");
        *(float *)gyre_ddp_gradient(ddp, 0) = 1 + 1.0f / 512;
        bad |= rig_check(!gyre_ddp_ready(ddp, 0) && !gyre_ddp_wait(ddp), comm, "wait");
        sum += *(float *)gyre_ddp_gradient(ddp, 0);
    }
    gyre_ddp_destroy(ddp);
    bool right = options.no_feedback ? sum < 256.1f : fabsf(sum - 256.5f) < 0.02f;
    return bad || rig_check(right, comm, "sum over steps") ? 1 : gyre_finalize(comm);
}

static void feedback_loses_nothing(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = add_up}, 30), 0);
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .transport = "shm", .body = add_up, .argument = "none"}, 30),
        0);
}

/* Every other gradient, in turns: half as many elements. Who is left out waits for the next
 * step. */
static uint64_t turns_length(uint64_t gradients, void *context)
{
    (void)context;
    return (gradients + 1) / 2;
}

static void to_turns(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                     void *context)
{
    float *turn = wire;
    (void)context;
    memset(turn, 0, turns_length(parcel->count, NULL) * sizeof *turn);
    for (uint64_t i = parcel->step % 2; i < parcel->count; i += 2)
        turn[i / 2] = gradient[i];
}

static void from_turns(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                       void *context)
{
    const float *turn = wire;
    (void)context;
    for (uint64_t i = 0; i < parcel->count; i++)
        gradient[i] = i % 2 == parcel->step % 2 ? turn[i / 2] : 0;
}

#define TURNS 9001 /* more than a piece */

/* The first step travels as it is, and the last of 21 takes every gradient with an odd number. */
static int take_turns(struct gyre_comm *comm, struct rig *rig)
{
    static float value[TURNS], sum[TURNS];
    const struct gyre_ddp_parameter p = {"w", GYRE_F32, 1, {TURNS}, value};
    const struct gyre_ddp_hook hook = {"turns",    GYRE_F32,     GYRE_SUM, to_turns,
                                       from_turns, turns_length, NULL};
    struct gyre_ddp_options options = OPTIONS(.hook = &hook);
    struct gyre_ddp *ddp;
    (void)rig;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, &p, 1, &options), comm, "create");
    for (int step = 0; step < 21 && !bad; step++) {
        bad = gyre_ddp_begin(ddp, 1);
        for (int i = 0; i < TURNS; i++)
            ((float *)gyre_ddp_gradient(ddp, 0))[i] = (float)(i + gyre_rank(comm));
        bad = bad || gyre_ddp_ready(ddp, 0) || gyre_ddp_wait(ddp);
        uint64_t bytes = gyre_ddp_result(ddp)->reduced_bytes;
        uint64_t expected = step ? 4 * turns_length(TURNS, NULL) : (TURNS + 15) / 16 * 64;
        bad = bad || rig_check(bytes == expected, comm, "bytes on the way");
        for (int i = 0; i < TURNS; i++)
            sum[i] += ((float *)gyre_ddp_gradient(ddp, 0))[i];
    }
    for (int i = 0; i < TURNS && !bad; i++) {
        float mean = (float)(i + 1), steps = i % 2 ? 21 : 20;
        bad = rig_check(fabsf(sum[i] - steps * mean) <= 0.01f * mean, comm, "sum over steps");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void what_a_hook_leaves_out_comes_later(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, take_turns), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_over_all_samples),
        cmocka_unit_test(buckets_of_any_size_give_the_same),
        cmocka_unit_test(another_order_is_learned),
        cmocka_unit_test(the_mean_of_ranks_is_torchs),
        cmocka_unit_test(parts_of_a_step_add_up),
        cmocka_unit_test(sums_may_stay_sums),
        cmocka_unit_test(shards_are_updated_apart),
        cmocka_unit_test(halves_on_the_wire_are_near),
        cmocka_unit_test(hooks_carry_gradients),
        cmocka_unit_test(feedback_loses_nothing),
        cmocka_unit_test(what_a_hook_leaves_out_comes_later),
    };
    return cmocka_run_group_tests_name("ddp", tests, NULL, NULL);
}
