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
    uint64_t victims; /* killed at once, when all have begun */
    bool one_by_one;  /* victims are killed in order, each after a shrink */
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

/* Whether every two ranks of a machine meet: then the kernel itself tells each of them of the end
 * of another. On a machine of more ranks it tells those next to the other in the tree. */
static bool all_meet(struct gyre_comm *comm)
{
    const char *most = getenv("GYRE_LINKS_AT_ONCE");
    return !most || gyre_size(comm) <= atoi(most);
}

/* Until gyre_failure() tells that a process has ended, of whichever epoch the communicator is. */
static void await_an_end(struct gyre_comm *comm)
{
    struct gyre_lost_rank lost[RIG_RANKS_MAX];
    for (int count = 0;;) {
        gyre_failure(comm, lost, RIG_RANKS_MAX, &count);
        for (int i = 0; i < count; i++)
            if (lost[i].reason == GYRE_LOST_ENDED)
                return;
        usleep(100);
    }
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
        if (rounds > 1 && !strcmp(rig->transport, "shm") && all_meet(comm))
            await_an_end(comm);
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

/* By one call of the kernel: between two the others could shrink, with those that die next. */
static void kill_all(const struct rig *rig, uint64_t victims)
{
    pid_t group = 0;
    for (int rank = 0; rank < rig->n; rank++)
        if (victims >> rank & 1) {
            assert_int_equal(setpgid(rig->pid[rank], group), 0);
            group = group ? group : rig->pid[rank];
        }
    kill(-group, SIGKILL);
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

/* Each victim goes while all that are left sum in the epoch behind the one before. */
static void lose_each(struct rig *rig, uint64_t victims)
{
    uint64_t left = (UINT64_C(1) << rig->n) - 1;
    rig_start(rig);
    for (int rank = 0; rank < rig->n; rank++) {
        uint64_t at = 0;
        if (!(victims >> rank & 1))
            continue;
        for (int other = 0; other < rig->n; other++)
            if (left >> other & 1 && rig->shared->place[other] > at)
                at = rig->shared->place[other];
        left &= ~(UINT64_C(1) << rank);
        reach(rig, left | UINT64_C(1) << rank, at + 3);
        kill(rig->pid[rank], SIGKILL);
    }
    expect_all_well(rig, victims);
}

static void one_after_the_other(void **state)
{
    struct plan of_nodes = {.victims = 0x17}, of_one = {.victims = 0x5};
    struct rig nodes = {
        .n = 5, .transport = "auto", .per_node = 2, .body = lose_in_turn, .argument = &of_nodes};
    struct rig one = {.n = 4, .transport = "shm", .body = lose_in_turn, .argument = &of_one};
    lose_each(&nodes, of_nodes.victims);
    lose_each(&one, of_one.victims);
}

/* -- members that leave, or call something else ------------------------------------------------ */

/* Odd ranks leave, all others go on. */
static int leave_or_stay(struct gyre_comm *comm, struct rig *rig)
{
    static int64_t data[COUNT];
    struct gyre_comm *smaller = NULL;
    int64_t who;
    int me = gyre_rank(comm), stays = me % 2 == 0;
    int lost = -1;
    if (sum_bits(comm, data, me, &who))
        return wrong(comm, "the first sum failed");
    if (gyre_shrink(comm, stays ? &smaller : NULL))
        return wrong(NULL, "nobody was lost, and gyre_shrink() failed");
    if (stays && (sum_bits(smaller, data, me, &who) || who != 0x15))
        return wrong(smaller, "others took part");
    if (stays && (gyre_failure(comm, NULL, 0, &lost) != GYRE_ABORTED || lost != 2))
        return wrong(comm, "who left is not told");
    if (gyre_barrier(comm) != GYRE_ABORTED)
        return wrong(comm, "the old communicator still works");
    if (gyre_finalize(comm))
        return wrong(NULL, "the end of the old communicator is called a failure");
    return gyre_finalize(smaller);
}

static void ranks_may_leave(void **state)
{
    assert_int_equal(rig_run_everywhere(5, leave_or_stay), 0);
}

/* Rank 1 sums where the others shrink; or it ends. */
static int shrink_or_sum(struct gyre_comm *comm, struct rig *rig)
{
    static int64_t data[COUNT];
    struct gyre_comm *smaller = NULL;
    int64_t who;
    uint64_t since = rig_now();
    int me = gyre_rank(comm);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n); /* whoever is still joining would fail there */
    int status = me == 1 ? sum_bits(comm, data, me, &who) : gyre_shrink(comm, &smaller);
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status == GYRE_MISMATCH && !smaller ? 0 : 1;
}

static void a_rank_that_calls_something_else_is_told(void **state)
{
    assert_int_equal(rig_run_everywhere(3, shrink_or_sum), 0);
}

/* Nothing has failed. Rank 1 ends where the others shrink: all are told that the calls differ. */
static int shrink_or_finalize(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *smaller = NULL;
    uint64_t since = rig_now();
    int me = gyre_rank(comm);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n);
    if (me == 1)
        return gyre_finalize(comm) == GYRE_MISMATCH ? 0 : 1;
    int status = gyre_shrink(comm, &smaller);
    rig_note(rig, comm, status, since);
    int bad = rig_check(status == GYRE_MISMATCH && !smaller, comm, "the calls differ");
    bad += rig_check(gyre_error(comm)[0] != 0, comm, "a story");
    return bad + (gyre_finalize(comm) != GYRE_MISMATCH);
}

static void a_rank_that_finalizes_is_told(void **state)
{
    assert_int_equal(rig_run_everywhere(3, shrink_or_finalize), 0);
}

/* After a loss rank 1 ends by itself, and the others go on without it. */
static int shrink_or_end(struct gyre_comm *comm, struct rig *rig)
{
    static int64_t data[COUNT];
    struct gyre_comm *smaller = NULL;
    int64_t who;
    int me = gyre_rank(comm);
    if (sum_until_loss(comm, rig, data, me) != GYRE_PEER_LOST)
        return wrong(comm, "another failure");
    if (me == 1) {
        gyre_finalize(comm);
        return 0;
    }
    if (gyre_shrink(comm, &smaller))
        return wrong(NULL, "gyre_shrink() failed");
    if (sum_bits(smaller, data, me, &who) || who != 0x9)
        return wrong(smaller, "others took part");
    gyre_finalize(comm);
    return gyre_finalize(smaller);
}

static void a_rank_that_ends_is_not_waited_for(void **state)
{
    static const char *const transports[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 4, .transport = transports[i], .body = shrink_or_end};
        rig_start(&rig);
        reach(&rig, 0xf, 3);
        kill_all(&rig, 0x4);
        expect_all_well(&rig, 0x4);
    }
}

/* -- a rank that was only thought dead --------------------------------------------------------- */

/* The rank that was stopped learns that the others have gone on. */
static int outlive_a_stop(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *smaller;
    void *memory;
    int64_t who;
    int me = gyre_rank(comm);
    if (gyre_alloc(comm, COUNT * sizeof(int64_t), &memory))
        return wrong(comm, "no memory");
    if (sum_until_loss(comm, rig, memory, me) != GYRE_PEER_LOST)
        return wrong(comm, "another failure");
    int status = gyre_shrink(comm, &smaller);
    if (me == 1) {
        snprintf(rig->shared->error[me], sizeof rig->shared->error[me], "%s", gyre_error(NULL));
        gyre_finalize(comm);
        return status == GYRE_PEER_LOST ? 0 : 1;
    }
    if (status)
        return wrong(NULL, "gyre_shrink() failed");
    if (!lost_are(comm, 0x2, GYRE_LOST_SILENT))
        return wrong(comm, "gyre_failure() tells other losses");
    rig->shared->ready++;
    for (int32_t over = 0; !over;) { /* until the other rank has come back and has been told */
        over = rig->shared->flag;
        status = sum_bits(smaller, memory, me, &who);
        if (status || who != 0x5 || gyre_broadcast(smaller, &over, &over, 1, GYRE_I32, 0))
            return wrong(smaller, "others took part");
    }
    gyre_finalize(comm);
    return gyre_finalize(smaller);
}

static void who_was_thought_dead_is_fenced(void **state)
{
    static const char *const transports[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {
            .n = 3, .transport = transports[i], .dead_ms = 1000, .body = outlive_a_stop};
        rig_start(&rig);
        reach(&rig, 0x7, 3);
        rig_stop(&rig, 1);
        rig_until(&rig.shared->ready, 2);
        kill(rig.pid[1], SIGCONT);
        while (!rig.shared->error[1][0])
            usleep(1000);
        print_message("  %s\n", rig.shared->error[1]);
        rig.shared->flag = 1;
        assert_int_equal(rig_wait(&rig, 60, 0), 0);
        assert_non_null(strstr(rig.shared->error[1], "have gone on without rank 1"));
        munmap(rig.shared, sizeof *rig.shared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_lost),
        cmocka_unit_test(several_are_lost),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(ranks_may_leave),
        cmocka_unit_test(a_rank_that_calls_something_else_is_told),
        cmocka_unit_test(a_rank_that_finalizes_is_told),
        cmocka_unit_test(a_rank_that_ends_is_not_waited_for),
        cmocka_unit_test(who_was_thought_dead_is_fenced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
