/* Processes join a communicator that lives. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include "collectives/comm/communicator.h"
#include "transport/domain/domain.h"
#include "transport/job/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 20000

/* What a test asks of its processes: ranks below `members` begin the job, the others come new. */
struct plan {
    int members;
    int goal;            /* all end when so many sum, with the process that came last */
    bool keeps;          /* nobody is lost, so members keep their ranks */
    int dies_in_grow;    /* a rank that ends where it would call gyre_grow(), once somebody waits */
    int ends_in_grow;    /* the same, by gyre_finalize(); 0: none does */
    const char *setting; /* NAME=VALUE that only newcomers have */
    int join_timeout_ms; /* of newcomers; 0: the default */
    int most;            /* newcomers that members take in at once */
};

static const struct plan *plan_of(const struct rig *rig)
{
    return rig->argument;
}

static int wrong(struct gyre_comm *comm, const char *what)
{
    return rig_check(false, comm, what);
}

/* Sums in memory of gyre_alloc(): each rank gives its own bit, so the result says who took part;
 * the last number says whether the last process is there. 0, or the failure. */
static int sum_ranks(struct gyre_comm *comm, int64_t *data, bool is_last, int64_t *last)
{
    const int64_t all = (INT64_C(1) << gyre_size(comm)) - 1;
    for (int i = 0; i < COUNT; i++)
        data[i] = INT64_C(1) << gyre_rank(comm);
    data[COUNT - 1] = is_last;
    int status = gyre_all_reduce(comm, data, data, COUNT, GYRE_I64, GYRE_SUM);
    *last = data[COUNT - 1];
    for (int i = 0; i < COUNT - 1 && !status; i++)
        if (data[i] != all)
            return -EIO;
    return status;
}

/* One step: grows, and goes on after a loss. *comm may be another afterwards. Whoever is taken in
 * was seen to wait before. */
static int grow_or_go_on(struct gyre_comm **comm, struct rig *rig, int status)
{
    const struct plan *plan = plan_of(rig);
    struct gyre_comm *next = NULL;
    const int waiting = status ? 0 : gyre_waiting(*comm);
    if (waiting)
        rig->shared->ready = waiting;
    if (!status && gyre_rank(*comm) == plan->dies_in_grow && rig->shared->ready)
        raise(SIGKILL);
    if (!status && plan->ends_in_grow && gyre_rank(*comm) == plan->ends_in_grow &&
        rig->shared->ready && !rig->shared->status[plan->ends_in_grow]) {
        rig->shared->status[plan->ends_in_grow] = 1; /* not who has the rank later */
        gyre_finalize(*comm);
        *comm = NULL;
        return 0;
    }
    const uint64_t since = rig_now();
    if (!status)
        status = gyre_grow(*comm, waiting, &next);
    if (next && gyre_rank(*comm) < plan->members)
        rig->shared->took_ns[gyre_rank(*comm)] = rig_now() - since;
    if (status == GYRE_PEER_LOST || (status == GYRE_MISMATCH && plan->ends_in_grow))
        status = gyre_shrink(*comm, &next);
    if (status || !next)
        return status;
    gyre_finalize(*comm);
    *comm = next;
    return 0;
}

/* Whether all ranks name the job's key alike to a stranger, newcomers too. */
static bool has_one_key(struct gyre_comm *comm)
{
    uint64_t name, least = 0, most = 1;
    memcpy(&name, gyre_domain_job(comm->domain)->key_id, sizeof name);
    return !gyre_all_reduce(comm, &name, &least, 1, GYRE_U64, GYRE_MIN) &&
           !gyre_all_reduce(comm, &name, &most, 1, GYRE_U64, GYRE_MAX) && least == most;
}

/* Sums and grows until the goal is reached, whatever happens on the way. */
static int take_part(struct gyre_comm *comm, struct rig *rig, int me, uint64_t since)
{
    const struct plan *plan = plan_of(rig);
    int64_t last = 0;
    void *memory;
    if (gyre_newcomer(comm) != (me >= plan->members))
        return wrong(comm, "gyre_newcomer() does not know who came late");
    if (gyre_alloc(comm, COUNT * sizeof(int64_t), &memory))
        return wrong(comm, "no memory");
    for (;;) {
        int status = sum_ranks(comm, memory, me == rig->n - 1, &last);
        if (me >= plan->members && !rig->shared->took_ns[me])
            rig->shared->took_ns[me] = rig_now() - since;
        rig->shared->place[me]++;
        if (!status && gyre_size(comm) == plan->goal && last)
            break;
        status = grow_or_go_on(&comm, rig, status);
        if (!comm)
            return 0;
        if (status) {
            fprintf(stderr, "process %d: %s: %s\n", me, gyre_status_name(status), gyre_error(NULL));
            return 1;
        }
    }
    if (plan->keeps && (me < plan->members) != (gyre_rank(comm) < plan->members))
        return wrong(NULL, "a newcomer has a member's rank");
    if (!has_one_key(comm))
        return wrong(comm, "ranks name the key differently");
    if (gyre_free(comm, memory))
        return wrong(comm, "the memory did not come along");
    return gyre_finalize(comm);
}

/* -- processes --------------------------------------------------------------------------------- */

static void set_world(int members)
{
    char text[16];
    snprintf(text, sizeof text, "%d", members);
    setenv("WORLD_SIZE", text, 1);
    setenv("LOCAL_WORLD_SIZE", text, 1);
}

/* The other way in: the launcher says that the job runs. */
static int init_as_started_again(struct gyre_comm **comm, const struct gyre_options *options)
{
    setenv("GYRE_JOINING", "1", 1);
    return gyre_init(comm, options);
}

/* A newcomer knows of no rank, and begins when the test says so. */
static int join_job(struct rig *rig, int me, struct gyre_comm **comm, uint64_t *since)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    const struct plan *plan = plan_of(rig);
    static const char *const ranks[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    for (int i = 0; i < 4; i++)
        unsetenv(ranks[i]);
    if (plan->setting)
        putenv((char *)(uintptr_t)plan->setting);
    options.join_timeout_ms = plan->join_timeout_ms * rig_slow();
    rig_until(&rig->shared->flag, me - plan->members + 1);
    *since = rig_now();
    int status = me % 2 ? gyre_join(comm, &options) : init_as_started_again(comm, &options);
    rig->shared->status[me] = status;
    snprintf(rig->shared->error[me], sizeof rig->shared->error[me], "%s", gyre_error(NULL));
    return status;
}

static int live(struct rig *rig, int me)
{
    const struct plan *plan = plan_of(rig);
    struct gyre_comm *comm = NULL;
    uint64_t since = 0;
    int status;
    if (me < plan->members) {
        set_world(plan->members);
        status = gyre_init(&comm, NULL);
    } else {
        status = join_job(rig, me, &comm, &since);
    }
    if (status) {
        fprintf(stderr, "process %d: %s\n", me, gyre_error(NULL));
        return 100;
    }
    return take_part(comm, rig, me, since);
}

static void reach_all(const struct rig *rig, uint64_t number)
{
    const struct plan *plan = plan_of(rig);
    for (int rank = 0; rank < plan->members; rank++)
        while (rig->shared->place[rank] < number)
            usleep(100);
}

static void expect_all_well(struct rig *rig, uint64_t excused)
{
    assert_int_equal(rig_wait(rig, 60, excused), 0);
    munmap(rig->shared, sizeof *rig->shared);
}

/* -- all is well ------------------------------------------------------------------------------- */

static void come(int members, int new_ones, const char *transport, int per_node)
{
    struct plan plan = {
        .members = members, .goal = members + new_ones, .keeps = true, .dies_in_grow = -1};
    struct rig rig = {.n = plan.goal,
                      .transport = transport,
                      .per_node = per_node,
                      .process = live,
                      .argument = &plan};
    print_message("%s, %d members and %d newcomers, %d a node\n", transport, members, new_ones,
                  per_node);
    rig_start(&rig);
    reach_all(&rig, 3);
    rig.shared->flag = new_ones;
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    print_message("  summed %.1f ms after gyre_join() was called; rank 0 was %.1f ms in the "
                  "gyre_grow() that took the last in\n",
                  (double)rig.shared->took_ns[members] / 1e6, (double)rig.shared->took_ns[0] / 1e6);
    munmap(rig.shared, sizeof *rig.shared);
}

static void newcomers_sum_with_members(void **state)
{
    come(2, 1, "shm", 0);
    come(2, 1, "tcp", 0);
    come(4, 1, "shm", 0);
    come(4, 1, "tcp", 0);
    come(3, 2, "auto", 2);
    come(2, 3, "auto", 0);
}

/* -- losses ------------------------------------------------------------------------------------ */

/* Ranks are killed, and as many processes come new. */
static void replace(int members, const char *transport, uint64_t victims)
{
    const int new_ones = __builtin_popcountll(victims);
    struct plan plan = {.members = members, .goal = members, .dies_in_grow = -1};
    struct rig rig = {
        .n = members + new_ones, .transport = transport, .process = live, .argument = &plan};
    rig_start(&rig);
    reach_all(&rig, 3);
    for (int rank = 0; rank < members; rank++)
        if (victims >> rank & 1)
            kill(rig.pid[rank], SIGKILL);
    rig.shared->flag = new_ones;
    expect_all_well(&rig, victims);
}

static void a_killed_rank_is_replaced(void **state)
{
    replace(3, "shm", 0x4);
    replace(3, "tcp", 0x2);
    replace(3, "auto", 0x1); /* rank 0: the next one opens the place */
    replace(2, "auto", 0x2); /* one rank is left */
    replace(2, "tcp", 0x1);
}

/* A member ends where the others take a newcomer in; another newcomer comes for it. */
static void a_member_dies_in_grow(void **state)
{
    static const char *const transports[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct plan plan = {.members = 3, .goal = 3, .dies_in_grow = 2};
        struct rig rig = {.n = 4, .transport = transports[i], .process = live, .argument = &plan};
        rig_start(&rig);
        reach_all(&rig, 3);
        rig.shared->flag = 1;
        expect_all_well(&rig, 0x4);
    }
}

/* Waits until somebody waits, and kills some microseconds later. */
static void kill_in_the_middle(struct rig *rig, int victim, unsigned after_us)
{
    while (!rig->shared->ready)
        sched_yield();
    usleep(after_us);
    kill(rig->pid[victim], SIGKILL);
}

/* Of three members and a newcomer one is killed while they join; a second newcomer takes its place,
 * and all that live are a job of four, whoever had gone through before. */
static void one_dies_on_the_way(void **state)
{
    for (unsigned i = 0; i < 8; i++) {
        const int victim = i % 2 ? 3 : (int)(i / 2 % 3);
        struct plan plan = {.members = 3, .goal = 4, .dies_in_grow = -1};
        struct rig rig = {
            .n = 5, .transport = i / 2 % 2 ? "tcp" : "shm", .process = live, .argument = &plan};
        rig_start(&rig);
        reach_all(&rig, 3);
        rig.shared->flag = 1;
        kill_in_the_middle(&rig, victim, 500 * (i / 2));
        rig.shared->flag = 2;
        expect_all_well(&rig, UINT64_C(1) << victim);
    }
}

/* -- calls that differ ------------------------------------------------------------------------- */

/* Some grow and rank 1 shrinks. */
static int grow_or_shrink(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *next = NULL;
    int status = 0;
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n); /* whoever is still joining would fail there */
    while (!status && !next)
        status = gyre_rank(comm) == 1 ? gyre_shrink(comm, &next) : gyre_grow(comm, 1, &next);
    int bad = rig_check(status == GYRE_MISMATCH && !next, comm, "the calls differ");
    return bad + (gyre_finalize(comm) != GYRE_MISMATCH);
}

static void ranks_that_grow_and_shrink_are_told(void **state)
{
    assert_int_equal(rig_run_everywhere(3, grow_or_shrink), 0);
}

/* Somebody waits. Rank 2 ends where the others grow: they are told, shrink, and take it in then. */
static void a_rank_ends_instead_of_growing(void **state)
{
    static const char *const transports[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct plan plan = {.members = 3, .goal = 3, .dies_in_grow = -1, .ends_in_grow = 2};
        struct rig rig = {.n = 4, .transport = transports[i], .process = live, .argument = &plan};
        rig_start(&rig);
        reach_all(&rig, 3);
        rig.shared->flag = 1;
        expect_all_well(&rig, 0);
    }
}

/* -- newcomers that stay outside --------------------------------------------------------------- */

/* Members go on until the newcomer has been told; then the job ends. */
static int outlast(struct rig *rig, int me)
{
    const struct plan *plan = plan_of(rig);
    struct gyre_comm *comm, *larger;
    uint64_t since;
    int32_t over = 0;
    if (me >= plan->members)
        return join_job(rig, me, &comm, &since) ? 0 : 1;
    set_world(plan->members);
    if (gyre_init(&comm, NULL))
        return wrong(NULL, "gyre_init() failed");
    while (!over) {
        if (gyre_grow(comm, plan->most, &larger) || larger)
            return wrong(NULL, "gyre_grow() took somebody in, or failed");
        if (me == 0) {
            rig->shared->ready = gyre_waiting(comm);
            usleep(10000); /* leaves the cores to others, for it may take ten seconds */
        }
        over = rig->shared->status[plan->members] != 0 || (plan->goal && rig->shared->ready);
        if (gyre_broadcast(comm, &over, &over, 1, GYRE_I32, 0))
            return wrong(comm, "a member has failed");
        rig->shared->place[me]++;
    }
    return gyre_finalize(comm);
}

static void stay_outside(struct plan *plan, int status, const char *word)
{
    plan->members = 2;
    plan->dies_in_grow = -1;
    struct rig rig = {.n = 3, .transport = "auto", .process = outlast, .argument = plan};
    rig_start(&rig);
    reach_all(&rig, 2);
    rig.shared->flag = 1;
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    print_message("  %s\n", rig.shared->error[2]);
    assert_int_equal(rig.shared->status[2], status);
    assert_non_null(strstr(rig.shared->error[2], word));
    munmap(rig.shared, sizeof *rig.shared);
}

static void newcomers_are_told_why_they_stay_outside(void **state)
{
    struct plan other = {.setting = "GYRE_LANES=3"}, late = {.join_timeout_ms = 1500};
    struct plan ends = {.goal = 1}; /* once somebody waits */
    stay_outside(&other, GYRE_REFUSED, "GYRE_LANES is chosen on the job and 3 on the newcomer");
    stay_outside(&late, GYRE_TIMED_OUT, "the job of 2 ranks has not taken this process in");
    stay_outside(&ends, GYRE_PEER_LOST, "the job has ended");
}

/* Another key: the newcomer gives up after ten seconds. */
static void a_stranger_is_not_answered(void **state)
{
    struct plan stranger = {.setting = "GYRE_KEY=ff112233445566778899aabbccddeeff"
                                       "00112233445566778899aabbccddeeff"};
    stay_outside(&stranger, GYRE_REFUSED, "closed without a word");
}

/* A process that would be a rank too many is told how it could come. */
static int come_late(struct rig *rig, int me)
{
    struct gyre_comm *comm;
    if (me < 2)
        return outlast(rig, me);
    set_world(2);
    setenv("RANK", "1", 1);
    setenv("LOCAL_RANK", "1", 1);
    rig_until(&rig->shared->flag, 1);
    int status = gyre_init(&comm, NULL);
    snprintf(rig->shared->error[me], sizeof rig->shared->error[me], "%s", gyre_error(NULL));
    rig->shared->status[me] = status;
    return status ? 0 : 1;
}

static void a_rank_that_comes_late_is_told(void **state)
{
    struct plan plan = {.members = 2, .dies_in_grow = -1};
    struct rig rig = {.n = 3, .transport = "auto", .process = come_late, .argument = &plan};
    rig_start(&rig);
    reach_all(&rig, 2);
    rig.shared->flag = 1;
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    assert_int_equal(rig.shared->status[2], GYRE_REFUSED);
    assert_non_null(strstr(rig.shared->error[2], "as a newcomer"));
    munmap(rig.shared, sizeof *rig.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newcomers_sum_with_members),
        cmocka_unit_test(a_killed_rank_is_replaced),
        cmocka_unit_test(a_member_dies_in_grow),
        cmocka_unit_test(one_dies_on_the_way),
        cmocka_unit_test(ranks_that_grow_and_shrink_are_told),
        cmocka_unit_test(a_rank_ends_instead_of_growing),
        cmocka_unit_test(newcomers_are_told_why_they_stay_outside),
        cmocka_unit_test(a_stranger_is_not_answered),
        cmocka_unit_test(a_rank_that_comes_late_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
