/* Handles of started work with real processes: a spent one is told as such, whatever was started
 * since, and as many may be out as the caller likes. Any of several is waited for, or all, also for
 * a limited time; and each tells why it failed. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

#define MANY 100

/* -- spent handles ----------------------------------------------------------------------------- */

static int is_spent(struct gyre_comm *comm, struct gyre_work *work)
{
    return rig_check(gyre_work_test(work) == GYRE_INVALID && gyre_work_wait(work, -1) < 0 &&
                         strstr(gyre_error(NULL), "spent"),
                     comm, "a spent handle");
}

static int all_are_spent(struct gyre_comm *comm, struct gyre_work *const *work, int count)
{
    int bad = 0;
    for (int i = 0; i < count && !bad; i++)
        bad |= is_spent(comm, work[i]);
    return bad;
}

/* Whatever was waited for before, the operation that was started last is not touched. */
static int waited_twice(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), bad = 0;
    struct gyre_work *work[3 * MANY];
    (void)rig;
    for (int i = 0; i < 3 * MANY && !bad; i++) {
        int32_t one = 1;
        bad |= gyre_all_reduce_start(comm, &one, &one, 1, GYRE_I32, GYRE_SUM, &work[i]);
        bad |= all_are_spent(comm, work, i);
        bad |= rig_check(!bad && !gyre_work_wait(work[i], -1) && one == n, comm, "the last");
    }
    bad |= all_are_spent(comm, work, bad ? 0 : 3 * MANY);
    bad |= rig_check(gyre_work_wait(NULL, 0) == GYRE_INVALID, comm, "NULL");
    return gyre_finalize(comm) || bad;
}

/* Messages have handles of the same kind. */
static int message_waited_twice(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t here = rank, got;
    (void)rig;
    for (int i = 0; i < MANY && !bad; i++) {
        struct gyre_work *sent, *came;
        got = -1;
        bad |= gyre_send_start(comm, &here, 1, GYRE_I32, (rank + 1) % n, &sent);
        bad |= gyre_recv_start(comm, &got, 1, GYRE_I32, (rank + n - 1) % n, &came);
        bad |= rig_check(!bad && !gyre_work_wait(sent, -1), comm, "sent");
        bad |= is_spent(comm, sent);
        bad |= rig_check(!gyre_work_wait(came, -1) && got == (rank + n - 1) % n, comm, "came");
        bad |= is_spent(comm, came) || is_spent(comm, sent);
    }
    return gyre_finalize(comm) || bad;
}

/* A handle does not outlive its communicator, and means nothing to the next one. */
static int of_a_part_that_ended(struct gyre_comm *comm, struct rig *rig)
{
    int32_t one = 1, n = gyre_size(comm), bad = 0;
    struct gyre_work *old, *work;
    (void)rig;
    for (int i = 0; i < 5 && !bad; i++) {
        struct gyre_comm *part;
        bad |= rig_check(!gyre_split(comm, 0, 0, &part), comm, "split");
        bad |= gyre_all_reduce_start(part, &one, &one, 1, GYRE_I32, GYRE_MAX, &old);
        bad |= rig_check(!gyre_finalize(part), comm, "the part's end");
        bad |= is_spent(comm, old);
        bad |= rig_check(!gyre_split(comm, 0, 0, &part), comm, "split again");
        bad |= gyre_all_reduce_start(part, &one, &one, 1, GYRE_I32, GYRE_SUM, &work);
        bad |= is_spent(comm, old);
        bad |= rig_check(!gyre_work_wait(work, -1) && one == n, comm, "the other part's");
        bad |= gyre_finalize(part);
        one = 1;
    }
    return gyre_finalize(comm) || bad;
}

static void spent_handles_are_told(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, waited_twice), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = waited_twice}, 20), 0);
    assert_int_equal(rig_run_everywhere(2, message_waited_twice), 0);
    assert_int_equal(rig_run_everywhere(2, of_a_part_that_ended), 0);
}

/* -- many at once ------------------------------------------------------------------------------ */

#define COUNT 2000

struct hundred {
    struct gyre_work *work[MANY];
    int32_t data[MANY][COUNT];
};

/* Every one of another shape, so that plans are many, too. */
static uint64_t length(int i)
{
    return (uint64_t)(COUNT - i * 17);
}

static int start_all(struct gyre_comm *comm, struct hundred *all)
{
    int bad = 0;
    for (int i = 0; i < MANY && !bad; i++) {
        for (uint64_t k = 0; k < length(i); k++)
            all->data[i][k] = gyre_rank(comm) + i + (int32_t)k;
        bad |= gyre_all_reduce_start(comm, all->data[i], all->data[i], length(i), GYRE_I32,
                                     GYRE_SUM, &all->work[i]);
    }
    return rig_check(!bad, comm, "a hundred starts");
}

static int wait_all(struct gyre_comm *comm, struct hundred *all)
{
    int n = gyre_size(comm), bad = 0;
    for (int i = MANY; i-- > 0 && !bad;) {
        bad |= rig_check(!gyre_work_wait(all->work[i], -1), comm, "wait");
        for (uint64_t k = 0; k < length(i); k++)
            bad |= all->data[i][k] != n * (n - 1) / 2 + n * (i + (int32_t)k);
    }
    return rig_check(!bad, comm, "a hundred sums");
}

/* Blocking calls and a group go on while the handles of what has ended lie about. */
static int at_once(struct gyre_comm *comm, struct rig *rig)
{
    struct hundred *all = calloc(2, sizeof *all);
    int32_t one[3], n = gyre_size(comm), bad = 0;
    (void)rig;
    for (int round = 0; round < 3 && !bad; round++) {
        bad |= start_all(comm, &all[0]) || start_all(comm, &all[1]);
        bad |= rig_check(!gyre_barrier(comm), comm, "barrier");
        bad |= gyre_group_start(comm);
        for (int i = 0; i < 3; i++) {
            one[i] = 1;
            bad |= gyre_all_reduce(comm, &one[i], &one[i], 1, GYRE_I32, GYRE_SUM);
        }
        bad |= rig_check(!bad && !gyre_group_end(comm) && one[2] == n, comm, "group");
        bad |= wait_all(comm, &all[1]) || wait_all(comm, &all[0]);
    }
    free(all);
    return gyre_finalize(comm) || bad;
}

/* Packed small ones, and longer ones that go alone. */
static int in_a_group(struct gyre_comm *comm, struct rig *rig)
{
    struct hundred *all = calloc(1, sizeof *all);
    struct gyre_work *small[MANY];
    int32_t one[MANY], n = gyre_size(comm), bad = gyre_group_start(comm);
    (void)rig;
    bad |= start_all(comm, all);
    for (int i = 0; i < MANY; i++) {
        one[i] = 1;
        bad |= rig_check(
            !gyre_all_reduce_start(comm, &one[i], &one[i], 1, GYRE_I32, GYRE_SUM, &small[i]), comm,
            "a hundred calls");
    }
    bad |= rig_check(!bad && !gyre_group_end(comm), comm, "end");
    bad |= wait_all(comm, all);
    for (int i = 0; i < MANY && !bad; i++)
        bad |= rig_check(!gyre_work_wait(small[i], -1) && one[i] == n, comm, "of a pack");
    free(all);
    return gyre_finalize(comm) || bad;
}

static void a_hundred_handles_at_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, at_once), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = at_once}, 20), 0);
    assert_int_equal(rig_run_everywhere(3, in_a_group), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = in_a_group}, 20), 0);
}

/* -- any, all, and for a limited time ---------------------------------------------------------- */

#define SEVERAL 12

/* Rank 0 receives from all others, in the order in which it lets them send. */
static int any_of_several(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), which = 7, bad = 0;
    int32_t got[RIG_RANKS_MAX] = {0}, word = 1;
    struct gyre_work *work[RIG_RANKS_MAX] = {NULL};
    (void)rig;
    for (int peer = 1; rank == 0 && peer < n; peer++)
        bad |= gyre_recv_start(comm, &got[peer], 1, GYRE_I32, peer, &work[peer]);
    if (rank == 0) {
        bad |= rig_check(gyre_wait_any(work, n, &which, 0) == GYRE_AGAIN && which == -1, comm,
                         "none yet");
        bad |= rig_check(gyre_wait_all(work, n, 5) == GYRE_AGAIN && work[1] && work[n - 1], comm,
                         "none for a while");
    }
    for (int peer = n - 1; rank == 0 && peer > 0 && !bad; peer--) {
        bad |= gyre_send(comm, &word, 1, GYRE_I32, peer);
        bad |= rig_check(!gyre_wait_any(work, n, &which, -1) && which == peer && !work[peer] &&
                             got[peer] == peer,
                         comm, "the one that was asked");
    }
    if (rank == 0)
        bad |= rig_check(!gyre_wait_any(work, n, &which, -1) && which == -1, comm, "no more");
    else
        bad |= gyre_recv(comm, &word, 1, GYRE_I32, 0) || gyre_send(comm, &rank, 1, GYRE_I32, 0);
    return gyre_finalize(comm) || bad;
}

/* Operations and messages, of a communicator and of its part, all in one table. */
static int all_of_several(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t sum[SEVERAL], got[SEVERAL], out[SEVERAL];
    struct gyre_work *work[2 * SEVERAL + 3 * SEVERAL] = {NULL};
    struct gyre_comm *part;
    (void)rig;
    bad |= gyre_split(comm, 0, 0, &part);
    for (int i = 0; i < SEVERAL && !bad; i++) {
        sum[i] = out[i] = rank + i;
        bad |= gyre_all_reduce_start(i % 2 ? comm : part, &sum[i], &sum[i], 1, GYRE_I32, GYRE_SUM,
                                     &work[5 * i]);
        bad |= gyre_send_start(part, &out[i], 1, GYRE_I32, (rank + 1) % n, &work[5 * i + 1]);
        bad |= gyre_recv_start(part, &got[i], 1, GYRE_I32, (rank + n - 1) % n, &work[5 * i + 3]);
    }
    bad |= rig_check(!bad && !gyre_wait_all(work, 5 * SEVERAL, -1), comm, "all");
    for (int i = 0; i < SEVERAL && !bad; i++)
        bad |= rig_check(sum[i] == n * (n - 1) / 2 + n * i && got[i] == (rank + n - 1) % n + i &&
                             !work[5 * i] && !work[5 * i + 3],
                         comm, "each");
    bad |= rig_check(!gyre_wait_all(work, 5 * SEVERAL, -1), comm, "all NULL");
    return gyre_finalize(comm) || bad;
}

/* A table that is wrong harms no handle. */
static int wrong_tables(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), which = 3, bad = 0;
    int32_t word = rank, got = -1;
    struct gyre_work *work[3] = {NULL}, *spent;
    (void)rig;
    bad |= gyre_recv_start(comm, &got, 1, GYRE_I32, (rank + n - 1) % n, &work[0]);
    bad |= gyre_barrier_start(comm, &spent) || gyre_work_wait(spent, -1);
    work[1] = work[0];
    bad |= rig_check(gyre_wait_any(work, 3, &which, -1) == GYRE_INVALID && which == -1 && work[0],
                     comm, "twice");
    work[1] = spent;
    bad |=
        rig_check(gyre_wait_all(work, 3, -1) == GYRE_INVALID && strstr(gyre_error(NULL), "spent"),
                  comm, "spent");
    bad |= rig_check(gyre_wait_all(NULL, 3, -1) == GYRE_INVALID, comm, "no table");
    bad |= rig_check(gyre_wait_any(work, 3, NULL, -1) == GYRE_INVALID, comm, "no place");
    work[1] = NULL;
    bad |= gyre_send(comm, &word, 1, GYRE_I32, (rank + 1) % n);
    bad |= rig_check(!gyre_wait_all(work, 3, -1) && got == (rank + n - 1) % n, comm, "then right");
    return gyre_finalize(comm) || bad;
}

/* What never comes is given up for a while again and again, and the communicator stays whole. */
static int waits_for_a_while(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0, which;
    int32_t word = rank, got = -1, one;
    struct gyre_work *work, *copy;
    (void)rig;
    bad |= gyre_recv_start(comm, &got, 1, GYRE_I32, (rank + n - 1) % n, &work);
    for (int i = 0; i < 30 && !bad; i++) {
        copy = work;
        bad |= rig_check(gyre_work_wait(work, 1) == GYRE_AGAIN, comm, "a wait");
        bad |= rig_check(gyre_wait_any(&copy, 1, &which, 1) == GYRE_AGAIN && copy == work, comm,
                         "a wait for any");
        bad |= rig_check(gyre_wait_all(&copy, 1, 1) == GYRE_AGAIN && copy == work, comm,
                         "a wait for all");
        bad |= rig_check(gyre_work_status(work) == GYRE_AGAIN && !*gyre_work_error(work), comm,
                         "its status");
        one = 1;
        bad |= rig_check(!gyre_all_reduce(comm, &one, &one, 1, GYRE_I32, GYRE_SUM) && one == n,
                         comm, "a sum between");
    }
    bad |= gyre_send(comm, &word, 1, GYRE_I32, (rank + 1) % n);
    bad |= rig_check(!gyre_work_wait(work, -1) && got == (rank + n - 1) % n, comm, "in the end");
    return gyre_finalize(comm) || bad;
}

static void any_and_all(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, any_of_several), 0);
    assert_int_equal(rig_run_everywhere(3, all_of_several), 0);
    assert_int_equal(rig_run_everywhere(2, wrong_tables), 0);
    assert_int_equal(rig_run_everywhere(3, waits_for_a_while), 0);
}

/* -- what failed ------------------------------------------------------------------------------- */

/* Every rank has work under way when rank 1 gives up: each handle tells it. */
static int each_tells(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), n = gyre_size(comm), bad = 0, which = 5;
    int32_t got[2] = {0};
    struct gyre_work *work[2];
    (void)rig;
    for (int i = 0; i < 2; i++)
        bad |= gyre_recv_start(comm, &got[i], 1, GYRE_I32, (rank + 1) % n, &work[i]);
    gyre_barrier(comm); /* all have begun; rank 1 may have given up already */
    if (rank == 1)
        gyre_abort(comm, "enough of it");
    while (gyre_work_status(work[0]) == GYRE_AGAIN)
        gyre_work_wait(work[1], 1);
    for (int i = 0; i < 1; i++)
        bad |= rig_check(gyre_work_status(work[i]) == GYRE_ABORTED &&
                             strstr(gyre_work_error(work[i]), "enough of it"),
                         comm, "a handle's story");
    bad |= rig_check(gyre_wait_any(work, 1, &which, -1) == GYRE_ABORTED && which == 0 && !work[0],
                     comm, "any");
    bad |= rig_check(strstr(gyre_work_error(work[0]), "NULL"), comm, "the story of none");
    return gyre_finalize(comm) != GYRE_ABORTED || bad;
}

static void handles_tell_their_errors(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, each_tells), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spent_handles_are_told),
        cmocka_unit_test(a_hundred_handles_at_once),
        cmocka_unit_test(any_and_all),
        cmocka_unit_test(handles_tell_their_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
