/* The DDP engine's buckets with real ranks: they travel while gradients are still being written, in
 * their order and in no other; rank 0's order cuts them anew, once; and the cost model says how
 * large they are. What no call tells is read from the engine's books. */
#include <gyre/ddp.h>

#include "rig/comm_rig.h"
#include "ddp/inside.h"
#include "rig/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS  5
#define LIMIT_NS    (20000000000ull * (uint64_t)rig_slow())
#define CAP_LEAST   65536u
#define ELEMENTS    8192u /* of a small parameter: 32 KiB */
#define SMALL_COUNT 40

/* -- a model ----------------------------------------------------------------------------------- */

static const char *const names[PARAMETERS] = {"a", "b", "c", "d", "e"};
static const uint64_t sizes[PARAMETERS] = {4096, 6000, 100, 20000, 9000};

static struct gyre_ddp *make(struct gyre_comm *comm, uint64_t bucket)
{
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp_parameter parameter[PARAMETERS];
    struct gyre_ddp *ddp = NULL;
    static float values[PARAMETERS][20000];
    for (int p = 0; p < PARAMETERS; p++)
        parameter[p] = (struct gyre_ddp_parameter){names[p], GYRE_F32, 1, {sizes[p]}, values[p]};
    options.first_bucket = options.bucket_cap = bucket;
    rig_check(!gyre_ddp_create(&ddp, comm, parameter, PARAMETERS, &options), comm, "create");
    return ddp;
}

static int write_and_say(struct gyre_ddp *ddp, int p, int rank)
{
    float *gradient = gyre_ddp_gradient(ddp, p);
    for (uint64_t i = 0; i < sizes[p]; i++)
        gradient[i] = (float)(rank + 1);
    return gyre_ddp_ready(ddp, p);
}

/* Nothing is called meanwhile: only what runs beside this thread can change the gradient. So it
 * reads what another thread writes, which the thread sanitizer is not to be told. */
__attribute__((no_sanitize("thread"))) static bool becomes_the_sum(struct gyre_ddp *ddp, int p,
                                                                   int n)
{
    const volatile float *gradient = gyre_ddp_gradient(ddp, p);
    uint64_t since = rig_now();
    for (;; sched_yield()) {
        float first = gradient[0], last = gradient[sizes[p] - 1];
        if (first == (float)(n * (n + 1) / 2) && last == first)
            return true;
        if (rig_now() - since > LIMIT_NS)
            return false;
    }
}

/* -- during the backward pass ------------------------------------------------------------------ */

/* A bucket for each parameter; the last of them is left to the wait. */
static int reduce_behind_ready(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    struct gyre_ddp *ddp = make(comm, 1);
    (void)rig;
    if (!ddp)
        return 1;
    for (int step = 0; step < 3 && !bad; step++) {
        bad |= gyre_ddp_begin(ddp, 1);
        for (int p = PARAMETERS - 1; p > 0 && !bad; p--) {
            bad |= write_and_say(ddp, p, rank);
            bad |= rig_check(becomes_the_sum(ddp, p, n), comm, names[p]) ||
                   rig_check(ddp->launched == (uint32_t)(PARAMETERS - p), comm, "launched");
        }
        bad |= write_and_say(ddp, 0, rank);
        bad |= rig_check(*(float *)gyre_ddp_gradient(ddp, 0) == (float)(rank + 1), comm,
                         "the last one waits") ||
               rig_check(!gyre_ddp_wait(ddp), comm, "wait");
        for (int p = 0; p < PARAMETERS; p++)
            bad |=
                rig_check(*(float *)gyre_ddp_gradient(ddp, p) == (float)(n + 1) / 2, comm, "mean");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void buckets_travel_during_backward(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, reduce_behind_ready), 0);
}

/* What is ready before its turn stays where it is until all before it are ready. */
static int keep_order(struct gyre_comm *comm, struct rig *rig)
{
    static const int order[] = {2, 3, 0, 4, 1};
    static const uint32_t launched[] = {0, 0, 0, 3, 4};
    int rank = gyre_rank(comm), bad = 0;
    struct gyre_ddp *ddp = make(comm, 1);
    (void)rig;
    if (!ddp)
        return 1;
    for (int step = 0; step < 2 && !bad; step++) { /* the first one as was assumed */
        bad |= gyre_ddp_begin(ddp, 1);
        for (int k = 0; k < PARAMETERS; k++) {
            bad |= write_and_say(ddp, step ? order[k] : PARAMETERS - 1 - k, rank);
            if (step)
                bad |= rig_check(ddp->launched == launched[k], comm, "launched in order");
        }
        bad |= rig_check(!gyre_ddp_wait(ddp), comm, "wait");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void buckets_keep_their_order(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "shm", .body = keep_order}, 30), 0);
}

/* -- cut anew ---------------------------------------------------------------------------------- */

/* A bucket for each: bucket k holds order[k], and lies behind bucket k - 1. */
static int check_buckets(struct gyre_comm *comm, struct gyre_ddp *ddp, const int *order,
                         const char *when)
{
    bool right = ddp->cut.buckets == PARAMETERS;
    const char *before = NULL;
    for (int k = 0; k < PARAMETERS && right; k++) {
        const char *at = gyre_ddp_gradient(ddp, order[k]);
        uint64_t bytes = 0;
        int count = 0;
        right = gyre_ddp_bucket(ddp, k, &bytes, &count) == 0 && count == 1 &&
                bytes == (sizes[order[k]] + 15) / 16 * 64 &&
                ddp->cut.bucket_of[order[k]] == (uint32_t)k && (!before || at > before);
        before = at;
    }
    return rig_check(right, comm, when);
}

/* Rank 0 has no data in the first step, and others another order in the second. */
static int cut_anew(struct gyre_comm *comm, struct rig *rig)
{
    static const int assumed[] = {4, 3, 2, 1, 0}, seen[] = {1, 4, 0, 3, 2},
                     other[] = {0, 1, 2, 3, 4};
    int rank = gyre_rank(comm);
    struct gyre_ddp *ddp = make(comm, 1);
    (void)rig;
    if (!ddp)
        return 1;
    int bad = check_buckets(comm, ddp, assumed, "the reverse of the forward pass at first");
    for (int step = 0; step < 3 && !bad; step++) {
        bool idle = step == 0 && rank == 0;
        bad |= gyre_ddp_begin(ddp, !idle);
        for (int k = 0; k < PARAMETERS && !idle; k++)
            bad |= write_and_say(ddp, step == 1 && rank == 0 ? seen[k] : other[k], rank);
        bad |= rig_check(!gyre_ddp_wait(ddp), comm, "wait");
        bad |= check_buckets(comm, ddp, step ? seen : assumed,
                             step == 0   ? "as assumed until rank 0 has data"
                             : step == 1 ? "rank 0's order after its first step"
                                         : "that order for good");
    }
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void rank_0s_order_cuts_anew_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, cut_anew), 0);
}

/* -- how large --------------------------------------------------------------------------------- */

static uint64_t cost(struct gyre_comm *comm, uint64_t bytes)
{
    uint64_t ns = 0;
    rig_check(!gyre_all_reduce_cost(comm, bytes / 4, GYRE_F32, &ns), comm, "cost");
    return ns;
}

/* Its bytes take at most an eighth more time each than those of 64 MiB. */
static bool at_nearly_full_speed(struct gyre_comm *comm, uint64_t bytes)
{
    const uint64_t most = UINT64_C(64) << 20, whole = cost(comm, most);
    return cost(comm, bytes) * (most / bytes) <= whole + whole / 8;
}

static bool worth_hiding(struct gyre_comm *comm, uint64_t bytes)
{
    return cost(comm, bytes) >= 100000; /* ns */
}

/* As many small parameters as reach each limit, whose bytes they divide. */
static bool cut_at_limits(const struct gyre_ddp *ddp)
{
    uint64_t left = (uint64_t)SMALL_COUNT * ELEMENTS * 4, bytes;
    for (int k = 0, count; gyre_ddp_bucket(ddp, k, &bytes, &count) == 0; k++, left -= bytes) {
        uint64_t limit = k ? ddp->limits.cap_bytes : ddp->limits.first_bytes;
        if (bytes != (left < limit ? left : limit))
            return false;
    }
    return left == 0;
}

static int ask_the_cost_model(struct gyre_comm *comm, struct rig *rig)
{
    (void)rig;
    static float values[ELEMENTS];
    static char name[SMALL_COUNT][8];
    struct gyre_ddp_parameter parameter[SMALL_COUNT];
    struct gyre_ddp *ddp;
    for (int p = 0; p < SMALL_COUNT; p++) {
        snprintf(name[p], sizeof name[p], "%d", p);
        parameter[p] = (struct gyre_ddp_parameter){name[p], GYRE_F32, 1, {ELEMENTS}, values};
    }
    if (rig_check(!gyre_ddp_create(&ddp, comm, parameter, SMALL_COUNT, NULL), comm, "create"))
        return 1;
    uint64_t cap = ddp->limits.cap_bytes, first = ddp->limits.first_bytes;
    int bad =
        rig_check(at_nearly_full_speed(comm, cap), comm, "the cap is large enough") ||
        rig_check(cap == CAP_LEAST || !at_nearly_full_speed(comm, cap / 2), comm,
                  "and no larger") ||
        rig_check(first == cap || worth_hiding(comm, first), comm, "the first is worth it") ||
        rig_check(first == CAP_LEAST || !worth_hiding(comm, first / 2), comm, "and no larger") ||
        rig_check(first <= cap && cut_at_limits(ddp), comm, "cut at these limits");
    gyre_ddp_destroy(ddp);
    return bad ? 1 : gyre_finalize(comm);
}

static void the_cost_model_says_how_large(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, ask_the_cost_model), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_travel_during_backward),
        cmocka_unit_test(buckets_keep_their_order),
        cmocka_unit_test(rank_0s_order_cuts_anew_once),
        cmocka_unit_test(the_cost_model_says_how_large),
    };
    return cmocka_run_group_tests_name("ddp, buckets", tests, NULL, NULL);
}
