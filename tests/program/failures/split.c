/* A rank dies, aborts or does something else in the middle of gyre_split() or gyre_split_apart():
 * all others are told at once, and no part is made.
 *
 * Each call is some agreements, one after the other. The rank in question makes the first of these
 * by itself, as the call makes them, and then goes its own way. */
#include "collectives/comm/progress.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { RANKS = 4, DRAWN = 16 };
enum way { DIES, ABORTS, DIFFERS };

struct plan {
    enum way way;
    bool apart;
    int victim, agreements;
};

static const char reason[] = "it has had enough of splitting";

/* Tells of no part, of no id in use and of no bytes drawn. */
static int agree(struct gyre_comm *comm, const struct plan *plan, int number)
{
    static uint8_t used[GYRE_COMM_IDS];
    int64_t choices[2 * RANKS] = {0};
    if (number == 0) {
        choices[2 * gyre_rank(comm)] = -1;
        return gyre_all_reduce(comm, choices, choices, 2 * RANKS, GYRE_I64, GYRE_SUM);
    }
    return gyre_all_reduce(comm, used, used, plan->apart ? DRAWN : sizeof used, GYRE_U8, GYRE_MAX);
}

static int go_astray(struct gyre_comm *comm, const struct plan *plan)
{
    for (int i = 0; i < plan->agreements; i++)
        if (agree(comm, plan, i))
            return rig_check(false, comm, "an agreement");
    if (plan->way == DIES)
        raise(SIGKILL);
    if (plan->way == ABORTS)
        return gyre_abort(comm, reason) || gyre_finalize(comm) != GYRE_ABORTED;
    int bad = rig_check(gyre_barrier(comm) == GYRE_MISMATCH, comm, "a barrier amidst a split");
    return bad + (gyre_finalize(comm) != GYRE_MISMATCH);
}

static int split_in_vain(struct gyre_comm *comm, struct rig *rig)
{
    static const int statuses[] = {GYRE_PEER_LOST, GYRE_ABORTED, GYRE_MISMATCH};
    const struct plan *plan = rig->argument;
    const char *word = plan->way == ABORTS ? reason : "";
    struct gyre_comm *part = comm;
    char victim[16];
    rig->shared->ready++;
    rig_until(&rig->shared->ready, RANKS); /* whoever is still joining would fail there */
    if (gyre_rank(comm) == plan->victim)
        return go_astray(comm, plan);
    int status = plan->apart ? gyre_split_apart(comm, 0, 0, &part) : gyre_split(comm, 0, 0, &part);
    snprintf(victim, sizeof victim, "rank %d", plan->victim);
    int bad = rig_check(status == statuses[plan->way] && !part, comm, "the split fails");
    if (plan->way != DIFFERS) /* of which a link may know fingerprints only */
        bad += rig_check(strstr(gyre_error(comm), victim) && strstr(gyre_error(comm), word), comm,
                         "the rank and the reason");
    return bad + (gyre_finalize(comm) != status);
}

/* Only the end of the process can tell of a death: the dead time is longer than the test waits. */
static void split(struct plan plan)
{
    static const char *const transports[] = {"shm", "tcp", "auto"};
    for (int i = 0; i < 3; i++) {
        struct rig rig = {.n = RANKS,
                          .transport = transports[i],
                          .per_node = i == 2 ? 2 : 0,
                          .dead_ms = 300000,
                          .body = split_in_vain,
                          .argument = &plan};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 60, plan.way == DIES ? UINT64_C(1) << plan.victim : 0), 0);
        munmap(rig.shared, sizeof *rig.shared);
    }
}

static void split_everywhere(enum way way)
{
    for (int apart = 0; apart < 2; apart++)
        for (int agreements = 0; agreements < 3; agreements++)
            split((struct plan){way, apart, agreements % 2 ? 0 : 3, agreements});
}

static void a_death_is_told(void **state)
{
    (void)state;
    split_everywhere(DIES);
}

static void an_abort_is_told(void **state)
{
    (void)state;
    split_everywhere(ABORTS);
}

static void another_call_is_told(void **state)
{
    (void)state;
    split_everywhere(DIFFERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_told),
        cmocka_unit_test(an_abort_is_told),
        cmocka_unit_test(another_call_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
