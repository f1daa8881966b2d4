/* Ranks are lost, and those that are left go on with a smaller communicator. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20000

/* What a test asks of the ranks, and what they found. */
struct plan {
    uint64_t victims;  /* killed at once, when all have begun */
    bool one_by_one;   /* victims are killed in order, each after a shrink */
    int dead_ms;
};

static const struct plan *plan_of(const struct rig *rig)
{
    return rig->argument;
}

/* -- sums -------------------------------------------------------------------------------------- */

/* Sums over the communicator, in memory of gyre_alloc(): each member gives its own bit, so the
 * result says who took part. 0, or the failure. */
static int sum_bits(struct gyre_comm *comm, int64_t *data, int me, int64_t *who)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = INT64_C(1) << me;
    int status = gyre_all_reduce(comm, data, data, COUNT, GYRE_I64, GYRE_SUM);
    *who = data[0];
    for (int i = 0; i < COUNT && !status; i++)
        if (data[i] != *who)
            return -EIO;
    return status;
}

/* Sums until a rank is lost. */
static int sum_until_loss(struct gyre_comm *comm, struct rig *rig, int64_t *data, int me)
{
    int64_t who = 0;
    int status = 0;
    while (!status) {
        status = sum_bits(comm, data, me, &who);
        rig->shared->place[me]++;
    }
    return status;
}

/* Checks that the losses of the communicator are these, by rank. */
static bool lost_are(struct gyre_comm *comm, uint64_t ranks, enum gyre_lost_reason reason)
{
    struct gyre_lost_rank lost[RIG_RANKS_MAX];
    uint64_t found = 0;
    int count = 0;
    if (gyre_failure(comm, lost, RIG_RANKS_MAX, &count) != GYRE_PEER_LOST)
        return false;
    for (int i = 0; i < count; i++) {
        found |= UINT64_C(1) << lost[i].rank;
        if (lost[i].reason != reason || lost[i].since_ns == 0 || lost[i].pid <= 0 ||
            !lost[i].host[0])
            return false;
    }
    return found == ranks;
}

static int wrong(struct gyre_comm *comm, const char *what)
{
    return rig_check(false, comm, what);
}

/* Shrinks, and sums with those that are left, over and over. */
static int go_on(struct gyre_comm *comm, struct rig *rig, uint64_t victims, int rounds)
{
    void *memory;
    struct gyre_comm *smaller;
    int64_t who;
    int me = gyre_rank(comm);
    if (gyre_alloc(comm, COUNT * sizeof(int64_t), &memory))
        return wrong(comm, "no memory");
    int64_t *data = memory;
    for (int round = 0; round < rounds; round++) {
        int status = sum_until_loss(comm, rig, data, me);
        if (status != GYRE_PEER_LOST)
            return wrong(comm, "another failure");
        uint64_t since = rig_now();
        status = gyre_shrink(comm, &smaller);
        if (status) {
            fprintf(stderr, "rank %d: shrink: %s\n", me, gyre_error(NULL));
            return 1;
        }
        status = sum_bits(smaller, data, me, &who);
        rig->shared->took_ns[me] = rig_now() - since;
        if (status)
            return wrong(smaller, "the smaller one failed");
        if (rounds == 1 && !lost_are(comm, victims, GYRE_LOST_ENDED))
            return wrong(comm, "gyre_failure() tells other losses");
        gyre_finalize(comm);
        comm = smaller;
    }
    uint64_t all = (UINT64_C(1) << rig->n) - 1;
    if ((uint64_t)who != (all & ~victims))
        return wrong(comm, "others took part");
    if (gyre_size(comm) != __builtin_popcountll(all & ~victims) ||
        gyre_rank(comm) != __builtin_popcountll(~victims & ((UINT64_C(1) << me) - 1)))
        return wrong(comm, "ranks are not in order");
    if (gyre_free(comm, memory))
        return wrong(comm, "the memory did not come along");
    return gyre_finalize(comm);
}

static int lose_at_once(struct gyre_comm *comm, struct rig *rig)
{
    return go_on(comm, rig, plan_of(rig)->victims, 1);
}

static int lose_in_turn(struct gyre_comm *comm, struct rig *rig)
{
    uint64_t victims = plan_of(rig)->victims;
    return go_on(comm, rig, victims, __builtin_popcountll(victims));
}

/* -- kills ------------------------------------------------------------------------------------- */

static void kill_all(const struct rig *rig, uint64_t victims)
{
    for (int rank = 0; rank < rig->n; rank++)
        if (victims >> rank & 1)
            kill(rig->pid[rank], SIGKILL);
}

/* Waits until each of these has summed so often. */
static void reach(const struct rig *rig, uint64_t ranks, uint64_t number)
{
    for (int rank = 0; rank < rig->n; rank++)
        while (ranks >> rank & 1 && rig->shared->place[rank] < number)
            usleep(100);
}

static void expect_all_well(struct rig *rig, uint64_t victims)
{
    uint64_t slowest = 0;
    int bad = rig_wait(rig, 60, victims);
    for (int rank = 0; rank < rig->n; rank++)
        if (!(victims >> rank & 1) && rig->shared->took_ns[rank] > slowest)
            slowest = rig->shared->took_ns[rank];
    print_message("  shrunk and summed within %.1f ms\n", (double)slowest / 1e6);
    assert_int_equal(bad, 0);
    munmap(rig->shared, sizeof *rig->shared);
}

static void lose(int n, const char *transport, int per_node, uint64_t victims)
{
    struct plan plan = {.victims = victims};
    struct rig rig = {.n = n,
                      .transport = transport,
                      .per_node = per_node,
                      .body = lose_at_once,
                      .argument = &plan};
    print_message("%s, %d ranks, %d a node, lost %#llx\n", transport, n, per_node,
                  (unsigned long long)victims);
    rig_start(&rig);
    reach(&rig, (UINT64_C(1) << n) - 1, 3);
    kill_all(&rig, victims);
    expect_all_well(&rig, victims);
}

static void one_rank_is_lost(void **state)
{
    for (int victim = 0; victim < 4; victim++) {
        lose(4, "shm", 0, UINT64_C(1) << victim);
        lose(4, "tcp", 0, UINT64_C(1) << victim);
        lose(4, "auto", 2, UINT64_C(1) << victim);
    }
}

static void several_are_lost(void **state)
{
    lose(5, "auto", 0, 0x13);
    lose(5, "tcp", 0, 0x0b);
    lose(6, "auto", 2, 0x07); /* one whole node, and rank 0 */
    lose(3, "tcp", 0, 0x03);  /* one rank is left */
}

static void one_after_the_other(void **state)
{
    struct plan plan = {.victims = 0x17};
    struct rig rig = {
        .n = 5, .transport = "auto", .per_node = 2, .body = lose_in_turn, .argument = &plan};
    uint64_t left = 0x1f;
    rig_start(&rig);
    for (int rank = 0; rank < rig.n; rank++) {
        if (!(plan.victims >> rank & 1))
            continue;
        uint64_t at = rig.shared->place[4];
        for (int other = 0; other < rig.n; other++)
            if (left >> other & 1 && rig.shared->place[other] > at)
                at = rig.shared->place[other];
        left &= ~(UINT64_C(1) << rank);
        reach(&rig, left | UINT64_C(1) << rank, at + 3);
        kill(rig.pid[rank], SIGKILL);
    }
    expect_all_well(&rig, plan.victims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_lost),
        cmocka_unit_test(several_are_lost),
        cmocka_unit_test(one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
