/* The DDP engine with real ranks: a model whose gradients are small whole numbers, so that every sum
 * is exact and the mean is known. */
#include <gyre/ddp.h>

#include "comm_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

/* -- the model --------------------------------------------------------------------------------- */

#define PARAMETERS 7
#define MOST       20000

static const uint64_t shapes[PARAMETERS][2] = {{100, 50}, {1, 50}, {3, 7},   {20000, 1},
                                               {1, 1},    {64, 3}, {1000, 2}};
static const char *const names[PARAMETERS] = {"0.weight", "0.bias", "odd",        "large",
                                              "single",   "double", "last.weight"};

struct model {
    struct gyre_ddp_parameter parameter[PARAMETERS];
    double value[PARAMETERS][MOST]; /* of either type */
};

static uint64_t elements(int p)
{
    return shapes[p][0] * shapes[p][1];
}

static void set(void *at, enum gyre_type type, uint64_t i, double v)
{
    if (type == GYRE_F64)
        ((double *)at)[i] = v;
    else
        ((float *)at)[i] = (float)v;
}

static double get(const void *at, enum gyre_type type, uint64_t i)
{
    return type == GYRE_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* Every rank starts from values of its own: rank 0's must win. */
static struct model *model_new(int rank)
{
    struct model *m = calloc(1, sizeof *m);
    for (int p = 0; p < PARAMETERS; p++) {
        enum gyre_type type = p == 5 ? GYRE_F64 : GYRE_F32;
        m->parameter[p] = (struct gyre_ddp_parameter){.name = names[p],
                                                      .type = type,
                                                      .dimensions = 2,
                                                      .shape = {shapes[p][0], shapes[p][1]},
                                                      .value = m->value[p]};
        for (uint64_t i = 0; i < elements(p); i++)
            set(m->value[p], type, i, (double)(i % 100) + 1000 * rank);
    }
    return m;
}

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
    return gyre_ddp_gather(ddp);
}

/* -- checks ------------------------------------------------------------------------------------ */

static int check_means(struct gyre_ddp *ddp, const struct model *m, int n, int step,
                       const struct trial *trial)
{
    struct gyre_ddp_piece piece;
    uint64_t seen = 0;
    double factor = gyre_ddp_step(ddp)->factor;
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
    const struct gyre_ddp_result *r = gyre_ddp_step(ddp);
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
        if (!bad && gyre_ddp_step(ddp)->samples) /* a world of one has none now and then */
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

#define OPTIONS(...)                                                                               \
    {                                                                                              \
        .size = sizeof(struct gyre_ddp_options), __VA_ARGS__                                       \
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

/* -- what ranks tell each other ---------------------------------------------------------------- */

/* Steps in which one rank asks, or has a NaN: all hear the same. Then nobody has data. */
static int votes(struct gyre_comm *comm, struct rig *rig)
{
    static float values[3][4];
    int rank = gyre_rank(comm), bad = 0;
    struct gyre_ddp_parameter p[3];
    struct gyre_ddp_options options = OPTIONS(.norm = 1, .sharded = rig->argument != NULL);
    struct gyre_ddp *ddp;
    for (int i = 0; i < 3; i++)
        p[i] = (struct gyre_ddp_parameter){i == 0   ? "a"
                                           : i == 1 ? "b"
                                                    : "c",
                                           GYRE_F32,
                                           1,
                                           {4},
                                           values[i]};
    bad = rig_check(!gyre_ddp_create(&ddp, comm, p, 3, &options), comm, "create");
    for (int step = 0; step < 6 && !bad; step++) {
        bad |= gyre_ddp_begin(ddp, step < 5);
        for (int i = 2; i >= 0 && step < 5; i--) {
            float *g = gyre_ddp_gradient(ddp, i);
            for (int k = 0; k < 4; k++)
                g[k] = 2;
            if (step == 2 && rank == 1 && i == 1)
                g[3] = NAN;
            if (step == 4 && i == 2)
                g[0] = 3e38f; /* finite on every rank, not in the sum */
            bad |= gyre_ddp_ready(ddp, i);
        }
        if (step == 0 && rank == 2)
            bad |= gyre_ddp_ask_stop(ddp);
        if (step == 1 && rank == 0)
            bad |= gyre_ddp_ask_skip(ddp);
        if (step == 3 && rank == 2)
            bad |= gyre_ddp_add(ddp, 4, INFINITY);
        bad |= gyre_ddp_wait(ddp);
        const struct gyre_ddp_result *r = gyre_ddp_step(ddp);
        const char *who = r->culprit_name ? r->culprit_name : "-";
        bad |= rig_check(r->stop == (step == 0) && r->skip == (step == 1), comm, "votes");
        if (step < 2)
            bad |= rig_check(!r->nonfinite && fabs(r->norm - sqrt(12 * 4)) < 1e-9, comm, "norm");
        if (step == 2)
            bad |= rig_check(r->nonfinite == 1 && r->culprit == 1 && !strcmp(who, "b"), comm, who);
        if (step == 3)
            bad |=
                rig_check(r->nonfinite == 1 && r->culprit == 2 && !strcmp(who, "sum 4"), comm, who);
        if (step == 4)
            bad |= rig_check(r->nonfinite == 3 && r->culprit == -1, comm, "sum too large");
        bad |= rig_check(r->samples == (step < 5 ? 3 : 0), comm, "samples");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void all_ranks_hear_what_one_says(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, votes), 0);
    assert_int_equal(
        rig_run(&(struct rig){.n = 3, .transport = "shm", .body = votes, .argument = "sharded"},
                30),
        0);
}

/* -- failures of all --------------------------------------------------------------------------- */

/* What a rank does otherwise than the others, and what all must be told. */
struct fault {
    const char *kind;
    int status;
    const char *story[2];
};

static void note_own(struct rig *rig, struct gyre_comm *comm, int status)
{
    rig->shared->status[gyre_rank(comm)] = status;
    snprintf(rig->shared->error[gyre_rank(comm)], sizeof rig->shared->error[0], "%s",
             gyre_error(comm));
}

static int differ_at_creation(struct gyre_comm *comm, struct rig *rig)
{
    const struct fault *fault = rig->argument;
    bool odd = gyre_rank(comm) == 2;
    struct model *m = model_new(0);
    struct gyre_ddp_options options = OPTIONS(0);
    struct gyre_ddp *ddp;
    int count = PARAMETERS;
    if (odd && !strcmp(fault->kind, "shape"))
        m->parameter[6].shape[1] = 3;
    if (odd && !strcmp(fault->kind, "name"))
        m->parameter[1].name = "0.bais";
    if (odd && !strcmp(fault->kind, "type"))
        m->parameter[0].type = GYRE_F64;
    if (odd && !strcmp(fault->kind, "fewer"))
        count--;
    if (odd && !strcmp(fault->kind, "options"))
        options.bucket_cap = 12345;
    if (odd && !strcmp(fault->kind, "twice"))
        m->parameter[1].name = "0.weight";
    if (odd && !strcmp(fault->kind, "half"))
        m->parameter[3].type = GYRE_F16;
    if (odd && !strcmp(fault->kind, "size"))
        options.size--;
    note_own(rig, comm, gyre_ddp_create(&ddp, comm, m->parameter, count, &options));
    bool none = ddp == NULL;
    free(m);
    /* the communicator is unharmed */
    return none ? gyre_finalize(comm) : 1;
}

static void expect_fault(const struct fault *fault, int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = 3, .transport = "shm", .body = body, .argument = (void *)fault};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    for (int rank = 0; rank < 3; rank++)
        if (rig.shared->status[rank] != fault->status ||
            !strstr(rig.shared->error[rank], fault->story[0]) ||
            !strstr(rig.shared->error[rank], fault->story[1]))
            fail_msg("%s: rank %d: status %d, \"%s\" does not tell \"%s\" and \"%s\"", fault->kind,
                     rank, rig.shared->status[rank], rig.shared->error[rank], fault->story[0],
                     fault->story[1]);
    munmap(rig.shared, sizeof *rig.shared);
}

static void different_models_are_refused(void **state)
{
    static const struct fault faults[] = {
        {"shape",
         GYRE_MISMATCH,
         {"rank 2 has parameter 'last.weight' of f32 [1000, 3]", "[1000, 2]"}},
        {"name", GYRE_MISMATCH, {"rank 2 has parameter '0.bais'", "rank 0 has parameter '0.bias'"}},
        {"type", GYRE_MISMATCH, {"rank 2 has parameter '0.weight' of f64", "0.weight' of f32"}},
        {"fewer", GYRE_MISMATCH, {"rank 2 has nothing", "'last.weight'"}},
        {"options",
         GYRE_MISMATCH,
         {"rank 2 has first_bucket 0 and bucket_cap 12345", "bucket_cap 0"}},
        {"twice", GYRE_INVALID, {"rank 2 refuses", "two parameters are named '0.weight'"}},
        {"half", GYRE_INVALID, {"rank 2 refuses", "'large' has type 2"}},
        {"size", GYRE_INVALID, {"rank 2 refuses", "gyre_ddp_options.size"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        expect_fault(&faults[i], differ_at_creation);
}

static int go_wrong(struct gyre_comm *comm, struct rig *rig)
{
    const struct fault *fault = rig->argument;
    bool divergence = strncmp(fault->kind, "divergence", 10) == 0;
    bool odd = gyre_rank(comm) == (strcmp(fault->kind, "divergence of 0") != 0);
    struct model *m = model_new(0);
    struct gyre_ddp_options options = OPTIONS(.strict = !divergence, .compare_every = 2);
    struct gyre_ddp *ddp;
    int bad =
        rig_check(!gyre_ddp_create(&ddp, comm, m->parameter, PARAMETERS, &options), comm, "create");
    int status = 0;
    for (int step = 0; step < 4 && !status && !bad; step++) {
        if (odd && divergence && step == 1)
            ((float *)gyre_ddp_value(ddp, 3))[17] += 1e-6f;
        status = gyre_ddp_begin(ddp, 1);
        for (int p = PARAMETERS - 1; p >= 0 && !status; p--) {
            if (odd && !divergence && step == 1 && p == 3)
                continue;
            memset(gyre_ddp_gradient(ddp, p), 0,
                   elements(p) * gyre_type_size(m->parameter[p].type));
            status = gyre_ddp_ready(ddp, p);
        }
        if (!status)
            status = gyre_ddp_wait(ddp);
    }
    note_own(rig, comm, status);
    bad |= rig_check(gyre_ddp_begin(ddp, 1) == status, comm, "a failed engine stays so");
    gyre_ddp_destroy(ddp);
    free(m);
    return bad ? 1 : gyre_finalize(comm);
}

static void divergence_names_rank_and_parameter(void **state)
{
    static const struct fault fault = {
        "divergence", GYRE_CORRUPT, {"after step 2 rank 1 holds other values of 'large'", "ranks"}};
    static const struct fault of_rank_0 = {
        "divergence of 0",
        GYRE_CORRUPT,
        {"after step 2 rank 0 holds other values", "the other ranks"}};
    (void)state;
    expect_fault(&fault, go_wrong);
    expect_fault(&of_rank_0, go_wrong);
}

static void a_strict_engine_wants_every_gradient(void **state)
{
    static const struct fault fault = {
        "unused", GYRE_INVALID, {"step 2: 'large' got no gradient on rank 1", "strict"}};
    (void)state;
    expect_fault(&fault, go_wrong);
}

/* -- misuse ------------------------------------------------------------------------------------ */

static int misuse(struct gyre_comm *comm, struct rig *rig)
{
    float v[4] = {0};
    struct gyre_ddp_parameter one = {"w", GYRE_F32, 1, {4}, v};
    struct gyre_ddp *ddp;
    uint64_t bytes;
    int count;
    (void)rig;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, &one, 1, NULL), comm, "create");
    if (bad)
        return bad;
    bad |= rig_check(gyre_ddp_ready(ddp, 0) == GYRE_INVALID, comm, "ready before begin");
    bad |= rig_check(gyre_ddp_wait(ddp) == GYRE_INVALID, comm, "wait before begin");
    bad |= rig_check(gyre_ddp_add(ddp, 0, 1) == GYRE_INVALID, comm, "add before begin");
    bad |= rig_check(gyre_ddp_begin(ddp, 1) == 0, comm, "begin");
    bad |= rig_check(gyre_ddp_begin(ddp, 1) == GYRE_INVALID, comm, "begin twice");
    bad |= rig_check(gyre_ddp_no_sync(ddp, 1) == GYRE_INVALID, comm, "no_sync within");
    bad |= rig_check(gyre_ddp_ready(ddp, 1) == GYRE_INVALID, comm, "unknown parameter");
    bad |= rig_check(gyre_ddp_ready(ddp, -1) == GYRE_INVALID, comm, "negative parameter");
    bad |= rig_check(gyre_ddp_add(ddp, GYRE_DDP_SUMS, 1) == GYRE_INVALID, comm, "unknown sum");
    bad |= rig_check(gyre_ddp_ready(ddp, 0) == 0, comm, "ready");
    bad |= rig_check(gyre_ddp_ready(ddp, 0) == GYRE_INVALID && strstr(gyre_error(comm), "'w'"),
                     comm, "ready twice");
    bad |= rig_check(gyre_ddp_wait(ddp) == 0, comm, "no harm done");
    bad |= rig_check(gyre_ddp_gradient(ddp, 1) == NULL && gyre_ddp_value(ddp, -1) == NULL, comm,
                     "NULL");
    bad |= rig_check(gyre_ddp_bucket(ddp, 0, &bytes, &count) == 0 && bytes == 64 && count == 1 &&
                         gyre_ddp_bucket(ddp, 1, &bytes, &count) == GYRE_AGAIN,
                     comm, "buckets");
    gyre_ddp_destroy(ddp);
    gyre_ddp_destroy(NULL);
    bad |= rig_check(gyre_ddp_create(NULL, comm, &one, 1, NULL) == GYRE_INVALID &&
                         gyre_ddp_create(&ddp, NULL, &one, 1, NULL) == GYRE_INVALID &&
                         gyre_ddp_begin(NULL, 1) == GYRE_INVALID,
                     comm, "NULL is refused");
    return bad ? 1 : gyre_finalize(comm);
}

static void misuse_is_refused_and_harmless(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = misuse}, 30), 0);
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
        cmocka_unit_test(feedback_loses_nothing),
        cmocka_unit_test(all_ranks_hear_what_one_says),
        cmocka_unit_test(different_models_are_refused),
        cmocka_unit_test(divergence_names_rank_and_parameter),
        cmocka_unit_test(a_strict_engine_wants_every_gradient),
        cmocka_unit_test(misuse_is_refused_and_harmless),
    };
    return cmocka_run_group_tests_name("ddp", tests, NULL, NULL);
}
