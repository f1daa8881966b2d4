/* Parts that are groups of their own (gyre_split_apart()): a death ends the parts that the dead
 * rank was in, an abort ends one part, and the others go on, whatever has become of the
 * communicator that they were split from. On one node, on nodes of two, and on a node for each
 * rank. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SUMS = 200, LONG = 70000 };

static bool sums(struct gyre_comm *comm)
{
    int32_t value = 1;
    return gyre_all_reduce(comm, &value, &value, 1, GYRE_I32, GYRE_SUM) == 0 &&
           value == gyre_size(comm);
}

/* Sums memory of the part's own. */
static bool sums_long(struct gyre_comm *comm)
{
    int32_t *data;
    bool fine = gyre_alloc(comm, LONG * sizeof *data, (void **)&data) == 0;
    for (int i = 0; fine && i < LONG; i++)
        data[i] = i + gyre_rank(comm);
    fine = fine && gyre_all_reduce(comm, data, data, LONG, GYRE_I32, GYRE_SUM) == 0;
    const int n = gyre_size(comm), ranks = n * (n - 1) / 2;
    for (int i = 0; fine && i < LONG; i++)
        fine = data[i] == n * i + ranks;
    return fine && gyre_free(comm, data) == 0;
}

static void run_everywhere(int n, int (*body)(struct gyre_comm *, struct rig *), int victim)
{
    for (int per_node = 0; per_node <= 2; per_node++) {
        struct rig rig = {.n = n, .per_node = per_node, .body = body, .argument = &victim};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 60, victim < 0 ? 0 : UINT64_C(1) << victim), 0);
    }
}

/* -- parts ------------------------------------------------------------------------------------- */

/* Ranks 0, 2 and 4 are a part in falling order, 1 is alone, 3 is in none. */
static int be_apart(struct gyre_comm *comm, struct rig *rig)
{
    const int rank = gyre_rank(comm), color = rank == 3 ? -1 : rank == 1 ? 1 : 0;
    const int size[] = {3, 1, 3, 0, 3}, place[] = {2, 0, 1, 0, 0};
    struct gyre_comm *part, *again, *below;
    (void)rig;
    int bad = rig_check(!gyre_split_apart(comm, color, -rank, &part), comm, "split apart");
    if (bad || color < 0)
        return bad || part || !sums(comm) || gyre_finalize(comm);
    bad +=
        rig_check(gyre_size(part) == size[rank] && gyre_rank(part) == place[rank], part, "place");
    bad += rig_check(sums(part) && sums_long(part), part, "a part sums");
    bad +=
        rig_check(!gyre_split_apart(part, 0, 0, &again) && sums(again), part, "a part of a part");
    bad += rig_check(!gyre_split(part, 0, 0, &below) && sums_long(below), part, "split a part");
    bad += rig_check(sums(comm), comm, "the whole sums");
    bad += gyre_finalize(below) || gyre_finalize(comm); /* parts outlive the whole */
    bad += rig_check(sums(part) && sums(again), part, "after the end of the whole");
    return bad + (gyre_finalize(again) != 0) + (gyre_finalize(part) != 0);
}

static void parts_are_groups(void **state)
{
    (void)state;
    run_everywhere(5, be_apart, -1);
}

/* -- a death ----------------------------------------------------------------------------------- */

/* In the part of the dead rank: it is lost there, too, and the other one goes on alone. */
static int go_on_alone(struct gyre_comm *part, int dead)
{
    struct gyre_lost_rank lost;
    struct gyre_comm *alone = NULL;
    int count = 0;
    while (sums(part)) /* until the watch tells */
        ;
    int bad = rig_check(gyre_failure(part, &lost, 1, &count) == GYRE_PEER_LOST && count == 1 &&
                            lost.rank == dead % 2 && strstr(gyre_error(part), "rank"),
                        part, "the part has lost a rank");
    bad += rig_check(!gyre_shrink(part, &alone) && sums(alone), part, "a part shrinks");
    return bad + (gyre_finalize(alone) != 0) + (gyre_finalize(part) != GYRE_PEER_LOST);
}

static int go_on_together(struct gyre_comm *part)
{
    int count = 1, bad = 0;
    for (int i = 0; i < SUMS; i++)
        bad += !bad && rig_check(sums(part), part, "a part without the dead rank sums");
    bad += rig_check(sums_long(part), part, "it shares memory");
    bad += rig_check(!gyre_failure(part, NULL, 0, &count) && !count, part, "it has lost nobody");
    return bad + (gyre_finalize(part) != 0);
}

static int lose_a_rank(struct gyre_comm *comm, struct rig *rig)
{
    const int rank = gyre_rank(comm), dead = *(int *)rig->argument;
    struct gyre_comm *part;
    int bad = rig_check(!gyre_split_apart(comm, rank / 2, 0, &part), comm, "split apart");
    bad += rig_check(!bad && sums(part) && sums(comm), comm, "before the death");
    if (bad)
        return bad;
    rig->shared->ready++;
    if (rank == dead) {
        rig_until(&rig->shared->ready, 4);
        raise(SIGKILL);
    }
    while (sums(comm))
        ;
    bad += rig_check(gyre_failure(comm, NULL, 0, NULL) == GYRE_PEER_LOST, comm, "the whole fails");
    bad += rank / 2 == dead / 2 ? go_on_alone(part, dead) : go_on_together(part);
    return bad + (gyre_finalize(comm) != GYRE_PEER_LOST);
}

static void a_death_ends_its_own_part(void **state)
{
    (void)state;
    run_everywhere(4, lose_a_rank, 3);
    run_everywhere(4, lose_a_rank, 0); /* which leads the watch of the whole */
}

/* -- an abort ---------------------------------------------------------------------------------- */

static int abort_a_part(struct gyre_comm *comm, struct rig *rig)
{
    const int rank = gyre_rank(comm);
    struct gyre_comm *part;
    int bad = rig_check(!gyre_split_apart(comm, rank / 2, 0, &part), comm, "split apart");
    if (bad)
        return bad;
    rig->shared->ready++;
    if (rank == 0) {
        rig_until(&rig->shared->ready, 4);
        gyre_abort(part, "only this part");
    }
    while (rank < 2 && sums(part)) /* until rank 1 has heard of it */
        ;
    bad += rank < 2 && rig_check(strstr(gyre_error(part), "only this part"), part, "the story");
    bad += rank > 1 && rig_check(sums(part), part, "the other part goes on");
    bad += rig_check(sums(comm), comm, "the whole goes on");
    bad += gyre_finalize(part) != (rank < 2 ? GYRE_ABORTED : 0);
    return bad + (gyre_finalize(comm) != 0);
}

static void an_abort_ends_one_part(void **state)
{
    (void)state;
    run_everywhere(4, abort_a_part, -1);
}

/* Rank 0 sums one number where rank 1 sums two. */
static int differ_in_a_part(struct gyre_comm *comm, struct rig *rig)
{
    const int rank = gyre_rank(comm);
    int32_t value[2] = {1, 1};
    struct gyre_comm *part;
    (void)rig;
    int bad = rig_check(!gyre_split_apart(comm, rank / 2, 0, &part), comm, "split apart");
    if (bad)
        return bad;
    int status =
        rank > 1 ? 0 : gyre_all_reduce(part, value, value, rank ? 2 : 1, GYRE_I32, GYRE_SUM);
    bad += rig_check(status == (rank < 2 ? GYRE_MISMATCH : 0), part, "the part differs");
    bad += rank > 1 && rig_check(sums(part), part, "the other part goes on");
    bad += rig_check(sums(comm), comm, "the whole goes on");
    bad += gyre_finalize(part) != (rank < 2 ? GYRE_MISMATCH : 0);
    return bad + (gyre_finalize(comm) != 0);
}

static void a_mismatch_ends_one_part(void **state)
{
    (void)state;
    run_everywhere(4, differ_in_a_part, -1);
}

/* -- what is wrong ----------------------------------------------------------------------------- */

/* One rank may open nothing more: all are told, none has got a part, and the whole goes on, whose
 * links are there. */
static int lack_descriptors(struct gyre_comm *comm, struct rig *rig)
{
    struct rlimit usual, none;
    struct gyre_comm *part = NULL;
    (void)rig;
    int bad = rig_check(sums(comm), comm, "the whole has its links");
    getrlimit(RLIMIT_NOFILE, &usual);
    none = usual;
    none.rlim_cur = 3;
    if (gyre_rank(comm) == 0)
        setrlimit(RLIMIT_NOFILE, &none);
    int status = gyre_split_apart(comm, 0, 0, &part);
    setrlimit(RLIMIT_NOFILE, &usual);
    bad += rig_check(status < 0 && !part && strstr(gyre_error(NULL), "rank 0 ("), comm,
                     "all are told");
    bad += rig_check(sums(comm), comm, "the whole goes on");
    bad +=
        rig_check(!gyre_split_apart(comm, 0, 0, &part) && sums(part), comm, "the next one is made");
    return bad + (gyre_finalize(part) != 0) + (gyre_finalize(comm) != 0);
}

static void what_one_rank_lacks_all_are_told(void **state)
{
    (void)state;
    run_everywhere(3, lack_descriptors, -1);
}

static int die_before_the_call(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *part = comm;
    if (gyre_rank(comm) == *(int *)rig->argument) {
        rig_until(&rig->shared->ready, 2); /* the others have joined */
        raise(SIGKILL);
    }
    rig->shared->ready++;
    int status = gyre_split_apart(comm, 0, 0, &part);
    int bad = rig_check(status == GYRE_PEER_LOST && !part, comm, "the loss is told");
    return bad + (gyre_finalize(comm) != GYRE_PEER_LOST);
}

static void who_dies_before_the_call_is_told(void **state)
{
    (void)state;
    run_everywhere(3, die_before_the_call, 1);
}

static int refuse(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *part = comm;
    (void)rig;
    int bad = gyre_split_apart(NULL, 0, 0, &part) != GYRE_INVALID || part;
    bad += gyre_split_apart(comm, 0, 0, NULL) != GYRE_INVALID;
    bad += rig_check(strstr(gyre_error(NULL), "gyre_split_apart: the place"), comm, "no place");
    gyre_group_start(comm);
    bad += gyre_split_apart(comm, 0, 0, &part) != GYRE_INVALID;
    bad += rig_check(strstr(gyre_error(NULL), "a group is open"), comm, "in a group");
    gyre_group_end(comm);
    return bad + !sums(comm) + (gyre_finalize(comm) != 0);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .body = refuse}, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_groups),
        cmocka_unit_test(a_death_ends_its_own_part),
        cmocka_unit_test(an_abort_ends_one_part),
        cmocka_unit_test(a_mismatch_ends_one_part),
        cmocka_unit_test(what_one_rank_lacks_all_are_told),
        cmocka_unit_test(who_dies_before_the_call_is_told),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
