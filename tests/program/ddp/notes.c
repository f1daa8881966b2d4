/* What the ranks of a DDP engine tell each other: it arrives as it was given, to the last bit, in
 * whatever gradients travel and whatever they hold, and costs no operation where a bucket is an
 * all-reduce. Exhaustive in what a note may travel in; 1 to 5 ranks, and numbers from a seed. In
 * haste the first thing travels between 1 to 5 ranks and others between 2 or 3; of those, every
 * third between nodes; operations are counted over shared memory or TCP in turn. */
#include <gyre/ddp.h>

#include "base/rng.h"
#include "base/types.h"
#include "collectives/comm/communicator.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS 3
#define BYTES      8192 /* of each: what is behind them is another page */
#define STEPS      5

/* -- a model ----------------------------------------------------------------------------------- */

struct trial {
    enum gyre_type type[PARAMETERS];
    struct gyre_ddp_options options;
};

static uint64_t elements(const struct trial *trial, int p)
{
    return BYTES / gyre_type_size(trial->type[p]);
}

static struct gyre_ddp *make(struct gyre_comm *comm, const struct trial *trial)
{
    static double values[PARAMETERS][BYTES / sizeof(double)];
    static const char *const names[PARAMETERS] = {"a", "b", "c"};
    struct gyre_ddp_parameter parameter[PARAMETERS];
    struct gyre_ddp *ddp = NULL;
    for (int p = 0; p < PARAMETERS; p++)
        parameter[p] = (struct gyre_ddp_parameter){
            names[p], trial->type[p], 1, {elements(trial, p)}, values[p]};
    rig_check(!gyre_ddp_create(&ddp, comm, parameter, PARAMETERS, &trial->options), comm, "create");
    return ddp;
}

/* Large ones, that would swallow whatever they were added to. */
static int write_gradients(struct gyre_ddp *ddp, const struct trial *trial)
{
    int status = 0;
    for (int p = PARAMETERS - 1; p >= 0 && !status; p--) {
        void *gradient = gyre_ddp_gradient(ddp, p);
        for (uint64_t i = 0; i < elements(trial, p); i++)
            if (trial->type[p] == GYRE_F64)
                ((double *)gradient)[i] = 0x1p100;
            else
                ((float *)gradient)[i] = 0x1p100f;
        status = gyre_ddp_ready(ddp, p);
    }
    return status;
}

/* All were equal, so all are: no note was written among them. */
static bool gradients_are_clean(struct gyre_ddp *ddp, const struct trial *trial)
{
    for (int p = 0; p < PARAMETERS; p++) {
        size_t size = gyre_type_size(trial->type[p]);
        const char *gradient = gyre_ddp_gradient(ddp, p);
        if (!trial->options.sharded && memcmp(gradient, gradient + size, BYTES - size) != 0)
            return false;
    }
    return true;
}

/* -- what ranks say ---------------------------------------------------------------------------- */

struct words {
    uint64_t samples;
    double sum[GYRE_DDP_SUMS];
    bool stop, skip;
};

/* Any 53 bits, of any sign, and sizes far from each other: the order of adding them shows. */
static double some_number(uint64_t seed)
{
    double whole = (double)(int64_t)gyre_mix64(seed);
    return ldexp(whole, (int)(gyre_mix64(seed + 1) % 40) - 80);
}

static struct words words_of(int rank, int step)
{
    uint64_t seed = (uint64_t)(rank * 1000 + step) * 100;
    struct words w = {.samples = 1 + (gyre_mix64(seed) >> 24),
                      .stop = gyre_mix64(seed + 1) % 2,
                      .skip = gyre_mix64(seed + 2) % 2};
    if (step == 3 && rank % 2)
        w.samples = 0;
    for (int k = 0; k < GYRE_DDP_SUMS; k++)
        w.sum[k] = some_number(seed + 10 + 2 * (uint64_t)k);
    return w;
}

static int say(struct gyre_ddp *ddp, const struct words *w, const struct trial *trial)
{
    int status = gyre_ddp_begin(ddp, w->samples);
    for (int k = 0; k < GYRE_DDP_SUMS && !status; k++)
        status = gyre_ddp_add(ddp, k, w->sum[k]);
    if (!status && w->stop)
        status = gyre_ddp_ask_stop(ddp);
    if (!status && w->skip)
        status = gyre_ddp_ask_skip(ddp);
    if (!status && w->samples)
        status = write_gradients(ddp, trial);
    return status ? status : gyre_ddp_wait(ddp);
}

static bool heard(const struct gyre_ddp_result *r, int n, int step)
{
    uint64_t samples = 0;
    double sum[GYRE_DDP_SUMS] = {0};
    int stop = 0, skip = 0;
    for (int rank = 0; rank < n; rank++) {
        struct words w = words_of(rank, step);
        samples += w.samples;
        stop += w.stop;
        skip += w.skip;
        for (int k = 0; k < GYRE_DDP_SUMS; k++)
            sum[k] += w.sum[k];
    }
    return r->samples == samples && r->stop == stop && r->skip == skip && !r->nonfinite &&
           memcmp(r->sum, sum, sizeof sum) == 0;
}

static int tell_each_other(struct gyre_comm *comm, struct rig *rig)
{
    const struct trial *trial = rig->argument;
    struct gyre_ddp *ddp = make(comm, trial);
    int bad = ddp == NULL;
    for (int step = 0; step < STEPS && !bad; step++) {
        struct words mine = words_of(gyre_rank(comm), step);
        bad = rig_check(!say(ddp, &mine, trial), comm, "step") ||
              rig_check(heard(gyre_ddp_result(ddp), gyre_size(comm), step), comm, "heard") ||
              rig_check(gradients_are_clean(ddp, trial), comm, "gradients");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

/* -- hooks ------------------------------------------------------------------------------------- */

/* The mean of ranks of the wire's own: no note survives it. */
static void to_mean(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                    void *context)
{
    (void)context;
    memcpy(wire, gradient, parcel->count * sizeof *gradient);
}

static void from_mean(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                      void *context)
{
    (void)context;
    memcpy(gradient, wire, parcel->count * sizeof *gradient);
}

static const struct gyre_ddp_hook mean = {
    .name = "mean", .type = GYRE_F32, .op = GYRE_AVG, .encode = to_mean, .decode = from_mean};

/* One pattern, in elements of every type. */
static void to_pattern(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                       void *element)
{
    (void)gradient;
    memset(wire, 1, parcel->count * (uintptr_t)element);
}

static void from_pattern(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                         void *element)
{
    for (uint64_t i = 0; i < parcel->count; i++)
        gradient[i] = ((const uint8_t *)wire)[i * (uintptr_t)element];
}

#define PATTERN(ID, type_name, kind, element, ...)                                                 \
    {.name = "pattern of " #type_name,                                                             \
     .type = GYRE_##ID,                                                                            \
     .encode = to_pattern,                                                                         \
     .decode = from_pattern,                                                                       \
     .context = (void *)sizeof(element)},

static const struct gyre_ddp_hook pattern[] = {GYRE_TYPES(PATTERN)};

/* -- everywhere -------------------------------------------------------------------------------- */

#define TRIAL(last, ...)                                                                           \
    {                                                                                              \
        {last, GYRE_F64, GYRE_F32},                                                                \
        {                                                                                          \
            .size = sizeof(struct gyre_ddp_options), .first_bucket = 1, .bucket_cap = 1,           \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

#define TRIAL_OF_TYPE(ID, ...) TRIAL(GYRE_F32, .hook = &pattern[GYRE_##ID]),

/* The bucket of the first parameter is the last. */
static const struct trial trials[] = {
    TRIAL(GYRE_F32, .mean = GYRE_DDP_MEAN_OF_SAMPLES),
    TRIAL(GYRE_F64, .mean = GYRE_DDP_MEAN_OF_RANKS),
    TRIAL(GYRE_F32, .wire = GYRE_DDP_WIRE_BF16),
    TRIAL(GYRE_F32, .wire = GYRE_DDP_WIRE_F16, .mean = GYRE_DDP_MEAN_OF_RANKS),
    TRIAL(GYRE_F64, .wire = GYRE_DDP_WIRE_BF16, .no_feedback = 1),
    TRIAL(GYRE_F32, .sharded = 1),
    TRIAL(GYRE_F32, .sharded = 1, .wire = GYRE_DDP_WIRE_BF16),
    TRIAL(GYRE_F64, .sharded = 1, .norm = 1),
    TRIAL(GYRE_F32, .hook = &mean),
    TRIAL(GYRE_F32, .hook = &pattern[GYRE_I8], .sharded = 1),
    TRIAL(GYRE_F32, .hook = &pattern[GYRE_U8], .no_feedback = 1),
    GYRE_TYPES(TRIAL_OF_TYPE)};

static void words_arrive_as_they_were_given(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++)
        for (int n = 1; n <= 5; n++) {
            if (in_haste() && t > 0 && n != 2 + (int)(t % 2))
                continue;
            struct rig rig = {.n = n, .body = tell_each_other, .argument = (void *)&trials[t]};
            rig.transport = n % 2 ? "shm" : "tcp";
            if (rig_run(&rig, 30))
                fail_msg("trial %zu, %d ranks", t, n);
        }
}

static void nodes_add_up_alike(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t += in_haste() ? 3 : 1) {
        struct rig rig = {
            .n = 4, .per_node = 2, .body = tell_each_other, .argument = (void *)&trials[t]};
        if (rig_run(&rig, 30))
            fail_msg("trial %zu, nodes of two", t);
    }
}

/* Without a parameter there is no bucket to ride in. */
static int tell_without_gradients(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_ddp *ddp;
    (void)rig;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, NULL, 0, NULL), comm, "create");
    if (bad)
        return bad;
    bad = gyre_ddp_begin(ddp, 2) || gyre_ddp_add(ddp, 3, 0.5) || gyre_ddp_wait(ddp) ||
          rig_check(gyre_ddp_result(ddp)->samples == 2 * (uint64_t)gyre_size(comm) &&
                        gyre_ddp_result(ddp)->sum[3] == 0.5 * gyre_size(comm),
                    comm, "heard");
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void a_model_of_nothing_has_words_too(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, tell_without_gradients), 0);
}

/* In step k the last rank's sums from k on are no numbers; behind the last sum all are numbers. */
static int tell_bad_sums(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_ddp *ddp;
    int last = gyre_size(comm) - 1;
    (void)rig;
    int bad = rig_check(!gyre_ddp_create(&ddp, comm, NULL, 0, NULL), comm, "create");
    if (bad)
        return bad;
    for (int k = 0; k <= GYRE_DDP_SUMS && !bad; k++) {
        char name[] = "sum 0";
        name[4] = (char)('0' + k);
        bad = gyre_ddp_begin(ddp, 1);
        for (int s = 0; s < GYRE_DDP_SUMS; s++)
            bad |= gyre_ddp_add(ddp, s, s >= k && gyre_rank(comm) == last ? NAN : 1);
        bad |= gyre_ddp_wait(ddp);
        const struct gyre_ddp_result *r = gyre_ddp_result(ddp);
        bool told = r->nonfinite == 1 && r->culprit == last && !strcmp(r->culprit_name, name);
        bad |= rig_check(k < GYRE_DDP_SUMS ? told : !r->nonfinite, comm, name);
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void the_first_bad_sum_is_named(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, tell_bad_sums), 0);
}

/* -- what it costs ----------------------------------------------------------------------------- */

static bool is_apart(const struct gyre_ddp_options *options)
{
    const struct gyre_ddp_hook *hook = options->hook;
    bool no_byte = hook && (hook->type == GYRE_F8E4M3 || hook->type == GYRE_F8E5M2);
    return options->sharded || no_byte || (hook && hook->op != GYRE_SUM);
}

/* Operations of a step, behind the first, after which buckets are cut anew: one for each bucket,
 * and where notes cannot ride one more, with a norm or without. */
static int count_operations(struct gyre_comm *comm, struct rig *rig)
{
    const struct trial *trial = rig->argument;
    struct gyre_ddp *ddp = make(comm, trial);
    int bad = ddp == NULL;
    for (int step = 0; step < STEPS && !bad; step++) {
        uint64_t before = comm->engine->sequence;
        struct words mine = words_of(gyre_rank(comm), step);
        bad = rig_check(!say(ddp, &mine, trial), comm, "step");
        uint64_t took = comm->engine->sequence - before;
        uint64_t buckets = (uint64_t)gyre_ddp_result(ddp)->buckets;
        bad = bad || rig_check(buckets == PARAMETERS, comm, "a bucket for each") ||
              rig_check(!step || took == buckets + is_apart(&trial->options), comm,
                        "operations of a step");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void notes_cost_no_operation(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof trials / sizeof *trials; t++)
        for (int tcp = 0; tcp <= 1; tcp++) {
            if (in_haste() && tcp != (int)(t % 2))
                continue;
            struct rig rig = {.n = 3, .body = count_operations, .argument = (void *)&trials[t]};
            rig.transport = tcp ? "tcp" : "shm";
            if (rig_run(&rig, 30))
                fail_msg("trial %zu over %s", t, rig.transport);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_arrive_as_they_were_given),
        cmocka_unit_test(nodes_add_up_alike),
        cmocka_unit_test(a_model_of_nothing_has_words_too),
        cmocka_unit_test(the_first_bad_sum_is_named),
        cmocka_unit_test(notes_cost_no_operation),
    };
    return cmocka_run_group_tests_name("ddp, notes", tests, NULL, NULL);
}
