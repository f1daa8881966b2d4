/* What the ranks of a DDP engine find out from each other: votes and NaNs, models that differ,
 * values that went apart, and calls that are wrong. A failure of one is a failure of all. */
#include <gyre/ddp.h>

#include "rig/comm_rig.h"
#include "program/ddp/model.h"
#include "rig/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
        const struct gyre_ddp_result *r = gyre_ddp_result(ddp);
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
    int n; /* ranks; 0: 3 */
};

static void note_own(struct rig *rig, struct gyre_comm *comm, int status)
{
    rig->shared->status[gyre_rank(comm)] = status;
    snprintf(rig->shared->error[gyre_rank(comm)], sizeof rig->shared->error[0], "%s",
             gyre_error(comm));
}

static void encode_nothing(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                           void *context)
{
    (void)parcel, (void)gradient, (void)wire, (void)context;
}

static void decode_nothing(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                           void *context)
{
    (void)parcel, (void)gradient, (void)wire, (void)context;
}

static uint64_t one_too_many(uint64_t gradients, void *context)
{
    (void)context;
    return gradients + 1;
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
    struct gyre_ddp_hook hook = {
        .name = "mine", .type = GYRE_F32, .encode = encode_nothing, .decode = decode_nothing};
    if (!strncmp(fault->kind, "hook", 4))
        options.hook = &hook;
    if (odd && !strcmp(fault->kind, "hook's type"))
        hook.type = GYRE_F64;
    if (odd && !strcmp(fault->kind, "hook of one"))
        options.hook = NULL;
    if (odd && !strcmp(fault->kind, "hook and wire"))
        options.wire = GYRE_DDP_WIRE_BF16;
    if (odd && !strcmp(fault->kind, "hook one way"))
        hook.decode = NULL;
    if (!strcmp(fault->kind, "hook that grows") || !strcmp(fault->kind, "hook in parts"))
        hook.length = one_too_many;
    if (odd && !strcmp(fault->kind, "hook in parts"))
        options.sharded = 1;
    note_own(rig, comm, gyre_ddp_create(&ddp, comm, m->parameter, count, &options));
    bool none = ddp == NULL;
    free(m);
    /* the communicator is unharmed */
    return none ? gyre_finalize(comm) : 1;
}

static void expect_fault(const struct fault *fault, int (*body)(struct gyre_comm *, struct rig *))
{
    int n = fault->n ? fault->n : 3;
    struct rig rig = {.n = n, .transport = "shm", .body = body, .argument = (void *)fault};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    for (int rank = 0; rank < n; rank++)
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
        {"hook's type", GYRE_MISMATCH, {"rank 2 has hook 'mine' of f64", "'mine' of f32"}},
        {"hook of one", GYRE_MISMATCH, {"rank 2 has parameter", "where rank 0 has hook 'mine'"}},
        {"hook and wire", GYRE_INVALID, {"rank 2 refuses", "hook 'mine' and wire 1"}},
        {"hook one way", GYRE_INVALID, {"rank 2 refuses", "no function to decode"}},
        {"hook that grows", GYRE_INVALID, {"hook 'mine' makes", "at most as many"}},
        {"hook in parts", GYRE_INVALID, {"rank 2 refuses", "hook 'mine' shortens"}},
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

/* Ranks 1 and 3 change a value before the second comparison. */
static int compare_by_call(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), status = 0;
    struct model *m = model_new(0);
    struct gyre_ddp *ddp;
    int bad =
        rig_check(!gyre_ddp_create(&ddp, comm, m->parameter, PARAMETERS, NULL), comm, "create");
    bad |= rig_check(gyre_ddp_compare(ddp) == 0, comm, "equal values");
    if (rank % 2)
        ((float *)gyre_ddp_value(ddp, 3))[17] += 1e-6f * (float)rank;
    status = gyre_ddp_compare(ddp);
    note_own(rig, comm, status);
    bad |= rig_check(gyre_ddp_begin(ddp, 1) == status, comm, "a failed engine stays so");
    gyre_ddp_destroy(ddp);
    free(m);
    return bad ? 1 : gyre_finalize(comm);
}

static void the_minority_is_named(void **state)
{
    static const struct fault of_five = {
        "minority",
        GYRE_CORRUPT,
        {"after step 0 ranks 1, 3 hold other values of 'large' than the other ranks", "damaged"},
        5};
    static const struct fault half = {
        "half",
        GYRE_CORRUPT,
        {"after step 0 ranks 1, 3 hold other values of 'large' than rank 0: ", "damaged"},
        4};
    (void)state;
    expect_fault(&of_five, compare_by_call);
    expect_fault(&half, compare_by_call);
}

static void a_strict_engine_wants_every_gradient(void **state)
{
    static const struct fault fault = {
        "unused", GYRE_INVALID, {"step 2: 'large' got no gradient on rank 1", "strict"}};
    (void)state;
    expect_fault(&fault, go_wrong);
}

static int count_in(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Rank 1 never has two of its gradients. It tells of both, once; the others say nothing. */
static int leave_two_out(struct gyre_comm *comm, struct rig *rig)
{
    char told[8192] = "";
    bool odd = gyre_rank(comm) == 1;
    struct model *m = model_new(0);
    struct gyre_ddp *ddp;
    int log = memfd_create("log", 0), terminal = dup(2), status = 0;
    (void)rig;
    int bad =
        rig_check(!gyre_ddp_create(&ddp, comm, m->parameter, PARAMETERS, NULL), comm, "create");
    dup2(log, 2);
    for (int step = 0; step < 3 && !status && !bad; step++) {
        status = gyre_ddp_begin(ddp, 1);
        for (int p = PARAMETERS - 1; p >= 0 && !status; p--) {
            memset(gyre_ddp_gradient(ddp, p), 0,
                   elements(p) * gyre_type_size(m->parameter[p].type));
            if (!odd || (p != 1 && p != 3))
                status = gyre_ddp_ready(ddp, p);
        }
        if (!status)
            status = gyre_ddp_wait(ddp);
    }
    dup2(terminal, 2);
    bad |= pread(log, told, sizeof told - 1, 0) < 0;
    bad |= rig_check(!status, comm, "steps");
    bad |= rig_check(count_in(told, "step 1: '0.bias' got no gradient") == odd &&
                         count_in(told, "step 1: 'large' got no gradient") == odd &&
                         count_in(told, "no gradient") == 2 * odd,
                     comm, told);
    gyre_ddp_destroy(ddp);
    free(m);
    return bad ? 1 : gyre_finalize(comm);
}

static void every_unused_parameter_is_named_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = leave_two_out}, 30),
                     0);
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
    bad |= rig_check(gyre_ddp_compare(ddp) == GYRE_INVALID, comm, "compare within");
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
                         gyre_ddp_bucket(ddp, 1, &bytes, &count) == -ENOENT,
                     comm, "buckets");
    gyre_ddp_destroy(ddp);
    gyre_ddp_destroy(NULL);
    bad |= rig_check(gyre_ddp_create(NULL, comm, &one, 1, NULL) == GYRE_INVALID &&
                         gyre_ddp_create(&ddp, NULL, &one, 1, NULL) == GYRE_INVALID &&
                         gyre_ddp_begin(NULL, 1) == GYRE_INVALID &&
                         gyre_ddp_compare(NULL) == GYRE_INVALID,
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
        cmocka_unit_test(all_ranks_hear_what_one_says),
        cmocka_unit_test(different_models_are_refused),
        cmocka_unit_test(divergence_names_rank_and_parameter),
        cmocka_unit_test(the_minority_is_named),
        cmocka_unit_test(a_strict_engine_wants_every_gradient),
        cmocka_unit_test(every_unused_parameter_is_named_once),
        cmocka_unit_test(misuse_is_refused_and_harmless),
    };
    return cmocka_run_group_tests_name("ddp, together", tests, NULL, NULL);
}
