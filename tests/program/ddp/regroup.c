/* Ranks are killed while they train. Those that are left regroup, and end with the very weights
 * that follow from who took part in which step. */
#include <gyre/ddp.h>

#include "rig/comm_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A victim that is still alive after LAST steps waits for its end there. */
enum { WEIGHTS = 5000, BIASES = 3, STEPS = 400, LAST = 390 };

struct plan {
    uint64_t victims;
    bool shuffled; /* the last parameter is ready first, and then first */
};

/* What a rank trains, and who took part: `from[k]` is the first step of the members in mask[k]. */
struct training {
    int me;
    double weight[WEIGHTS], bias[BIASES];
    struct gyre_ddp *ddp;
    struct gyre_comm *comm;
    uint64_t from[8], mask[8];
    int spans;
};

/* Whole numbers, so that sums are exact in any order. */
static double slope(uint64_t i, int member, uint64_t step)
{
    return (double)((i * 7 + (uint64_t)member * 13 + step * 5) % 23) - 11;
}

static uint64_t samples_of(int member, uint64_t step)
{
    return 1 + ((uint64_t)member + step) % 3;
}

/* -- what the weights must be ------------------------------------------------------------------ */

static double mean_slope(uint64_t i, uint64_t mask, uint64_t step)
{
    double sum = 0, samples = 0;
    for (int member = 0; member < 8; member++) {
        if (!(mask >> member & 1))
            continue;
        sum += slope(i, member, step);
        samples += (double)samples_of(member, step);
    }
    return sum * (1 / samples);
}

static double expected(const struct training *t, uint64_t i)
{
    double value = (double)i;
    int span = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        while (span + 1 < t->spans && step >= t->from[span + 1])
            span++;
        value -= 0.125 * mean_slope(i, t->mask[span], step);
    }
    return value;
}

/* -- a rank ------------------------------------------------------------------------------------ */

static int make_engine(struct training *t)
{
    const struct gyre_ddp_parameter parameter[] = {{"weight", GYRE_F64, 1, {WEIGHTS}, t->weight},
                                                   {"bias", GYRE_F64, 1, {BIASES}, t->bias}};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    options.compare_every = 50;
    for (uint64_t i = 0; i < WEIGHTS; i++)
        t->weight[i] = (double)i;
    for (uint64_t i = 0; i < BIASES; i++)
        t->bias[i] = (double)(WEIGHTS + i);
    return gyre_ddp_create(&t->ddp, t->comm, parameter, 2, &options);
}

static int write_gradient(struct training *t, int parameter, uint64_t step)
{
    double *gradient = gyre_ddp_gradient(t->ddp, parameter);
    uint64_t first = parameter ? WEIGHTS : 0, count = parameter ? BIASES : WEIGHTS;
    for (uint64_t i = 0; i < count; i++)
        gradient[i] = slope(first + i, t->me, step);
    return gyre_ddp_ready(t->ddp, parameter);
}

static void apply(struct training *t)
{
    const double *weight = gyre_ddp_gradient(t->ddp, 0), *bias = gyre_ddp_gradient(t->ddp, 1);
    for (uint64_t i = 0; i < WEIGHTS; i++)
        t->weight[i] -= 0.125 * weight[i];
    for (uint64_t i = 0; i < BIASES; i++)
        t->bias[i] -= 0.125 * bias[i];
}

static int run_step(struct training *t, uint64_t step, bool shuffled)
{
    int status = gyre_ddp_begin(t->ddp, samples_of(t->me, step));
    for (int k = 0; k < 2 && !status; k++)
        status = write_gradient(t, shuffled ? k : 1 - k, step);
    if (!status)
        status = gyre_ddp_wait(t->ddp);
    if (!status)
        apply(t);
    return status;
}

/* Notes who takes part from the next step on. */
static int note_members(struct training *t, uint64_t step)
{
    uint64_t mask = UINT64_C(1) << t->me;
    int status = gyre_all_reduce(t->comm, &mask, &mask, 1, GYRE_U64, GYRE_OR);
    t->from[t->spans] = step;
    t->mask[t->spans++] = mask;
    return status;
}

static int go_on(struct training *t)
{
    struct gyre_comm *smaller;
    int from;
    int status = gyre_shrink(t->comm, &smaller);
    if (status)
        return status;
    status = gyre_ddp_regroup(t->ddp, smaller, &from);
    gyre_finalize(t->comm);
    t->comm = smaller;
    return status ? status : note_members(t, gyre_ddp_result(t->ddp)->number + 1);
}

static int check_weights(const struct training *t)
{
    for (uint64_t i = 0; i < WEIGHTS + BIASES; i++) {
        double have = i < WEIGHTS ? t->weight[i] : t->bias[i - WEIGHTS];
        if (have == expected(t, i))
            continue;
        fprintf(stderr, "member %d: weight %d is %.17g, not %.17g\n", t->me, (int)i, have,
                expected(t, i));
        return 1;
    }
    return 0;
}

static int train(struct gyre_comm *comm, struct rig *rig)
{
    static struct training t;
    const struct plan *plan = rig->argument;
    t.me = gyre_rank(comm);
    t.comm = comm;
    int status = make_engine(&t);
    if (!status)
        status = note_members(&t, 1);
    while (!status && gyre_ddp_result(t.ddp)->number < STEPS) {
        while (plan->victims >> t.me & 1 && gyre_ddp_result(t.ddp)->number >= LAST)
            pause();
        status = run_step(&t, gyre_ddp_result(t.ddp)->number + 1, plan->shuffled);
        rig->shared->place[t.me]++;
        if (status == GYRE_PEER_LOST)
            status = go_on(&t);
    }
    if (rig_check(!status, t.comm, "training failed"))
        return 1;
    gyre_ddp_destroy(t.ddp);
    uint64_t left = ((UINT64_C(1) << rig->n) - 1) & ~plan->victims;
    if (rig_check(t.mask[t.spans - 1] == left, t.comm, "others took part at the end"))
        return 1;
    status = gyre_finalize(t.comm);
    return check_weights(&t) || status;
}

/* -- the tests --------------------------------------------------------------------------------- */

/* Kills the victims one after the other, each a few steps after the one before, or where all wait
 * for a victim. */
static void kill_in_turn(const struct rig *rig, uint64_t victims)
{
    uint64_t left = (UINT64_C(1) << rig->n) - 1, reached = 1;
    for (int rank = 0; rank < rig->n; rank++) {
        if (!(victims >> rank & 1))
            continue;
        for (int other = 0; other < rig->n; other++)
            while (left >> other & 1 && rig->shared->place[other] < reached)
                usleep(50);
        kill(rig->pid[rank], SIGKILL);
        left &= ~(UINT64_C(1) << rank);
        for (int other = 0; other < rig->n; other++)
            if (left >> other & 1 && rig->shared->place[other] + 20 > reached)
                reached = rig->shared->place[other] + 20;
        reached = reached < LAST ? reached : LAST;
    }
}

static void lose(int n, const char *transport, int per_node, struct plan plan)
{
    struct rig rig = {
        .n = n, .transport = transport, .per_node = per_node, .body = train, .argument = &plan};
    rig_start(&rig);
    kill_in_turn(&rig, plan.victims);
    assert_int_equal(rig_wait(&rig, 60, plan.victims), 0);
    munmap(rig.shared, sizeof *rig.shared);
}

static void those_left_end_with_the_right_weights(void **state)
{
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        lose(4, "shm", 0, (struct plan){0x2, shuffled});
        lose(4, "tcp", 0, (struct plan){0x1, shuffled});
        lose(5, "auto", 2, (struct plan){0x15, shuffled});
        lose(3, "auto", 0, (struct plan){0x6, shuffled});
    }
}

static int regroup_sharded(struct gyre_comm *comm, struct rig *rig)
{
    float value[64] = {0};
    const struct gyre_ddp_parameter parameter = {"weight", GYRE_F32, 1, {64}, value};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp *ddp;
    options.sharded = 1;
    if (rig_check(!gyre_ddp_create(&ddp, comm, &parameter, 1, &options), comm, "create"))
        return 1;
    int status = gyre_ddp_regroup(ddp, comm, NULL);
    bool told = strstr(gyre_error(NULL), "sharded") != NULL;
    gyre_ddp_destroy(ddp);
    return gyre_finalize(comm) || status != GYRE_INVALID || !told;
}

static void a_sharded_engine_is_refused(void **state)
{
    struct rig rig = {.n = 2, .transport = "shm", .body = regroup_sharded};
    assert_int_equal(rig_run(&rig, 30), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_left_end_with_the_right_weights),
        cmocka_unit_test(a_sharded_engine_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
