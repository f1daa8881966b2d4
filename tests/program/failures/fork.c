/* An application that forks while operations are under way, as data loaders do: the child writes
 * over all of its private copies and lives on for some rounds, the parent's results stay right.
 * Over shared memory, over TCP, and between two nodes over the best there is, which in a guest with
 * RDMA devices is verbs: there the device reads and writes pages that a fork shares with the child.
 * Word `apart`: only that. In haste the rounds are fewer. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 16, HASTY = 6, FIRST = 2, SECOND = 4, LONG = 65541, SHORT = 3001 };

struct buffers {
    int32_t *shared; /* of gyre_alloc() */
    int32_t *own;
};

static void fill(struct gyre_comm *comm, const struct buffers *buffers, int round)
{
    for (int i = 0; i < LONG; i++)
        buffers->shared[i] = i * 3 + round + gyre_rank(comm);
    for (int i = 0; i < SHORT; i++)
        buffers->own[i] = i * 5 - round + gyre_rank(comm);
}

static int check(struct gyre_comm *comm, const struct buffers *buffers, int round)
{
    int n = gyre_size(comm), ranks = n * (n - 1) / 2, bad = 0;
    for (int i = 0; i < LONG; i++)
        bad |= buffers->shared[i] != n * (i * 3 + round) + ranks;
    for (int i = 0; i < SHORT; i++)
        bad |= buffers->own[i] != n * (i * 5 - round) + ranks;
    return bad;
}

/* What is private to it is its own; it ends when the parent lets go of the pipe. */
static void be_child(struct gyre_comm *comm, const struct buffers *buffers, const int line[2])
{
    char byte;
    close(line[1]);
    memset(buffers->own, 0x55, SHORT * sizeof *buffers->own);
    int status = gyre_barrier(comm);
    while (read(line[0], &byte, 1) > 0)
        ;
    _exit(status == GYRE_FORKED ? 0 : 1);
}

static pid_t fork_child(struct gyre_comm *comm, const struct buffers *buffers, int *let_go)
{
    int line[2];
    if (pipe(line))
        return -1;
    pid_t child = fork();
    if (child == 0)
        be_child(comm, buffers, line);
    close(line[0]);
    *let_go = line[1];
    return child;
}

static int end_child(pid_t child, int let_go)
{
    int status = 1;
    close(let_go);
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static int start(struct gyre_comm *comm, const struct buffers *buffers, struct gyre_work *work[2])
{
    return gyre_all_reduce_start(comm, buffers->shared, buffers->shared, LONG, GYRE_I32, GYRE_SUM,
                                 &work[0]) ||
           gyre_all_reduce_start(comm, buffers->own, buffers->own, SHORT, GYRE_I32, GYRE_SUM,
                                 &work[1]);
}

static int forks(struct gyre_comm *comm, struct rig *rig)
{
    struct buffers buffers = {.own = malloc(SHORT * sizeof *buffers.own)};
    struct gyre_work *work[2];
    pid_t child[2] = {-1, -1};
    int let_go[2], bad = gyre_alloc(comm, LONG * sizeof *buffers.shared, (void **)&buffers.shared);
    (void)rig;
    for (int round = 0; round < (in_haste() ? HASTY : ROUNDS) && !bad; round++) {
        fill(comm, &buffers, round);
        bad |= rig_check(!start(comm, &buffers, work), comm, "start");
        if (round == FIRST || round == SECOND)
            child[round == SECOND] = fork_child(comm, &buffers, &let_go[round == SECOND]);
        bad |= rig_check(!bad && !gyre_work_wait(work[0], -1), comm, "wait");
        bad |= rig_check(!bad && !gyre_work_wait(work[1], -1), comm, "wait");
        bad |= rig_check(!bad && !check(comm, &buffers, round), comm, "sums after a fork");
    }
    for (int i = 1; i >= 0; i--) /* the second one holds the first one's pipe too */
        bad |= rig_check(!bad && !end_child(child[i], let_go[i]), comm, "the child's end");
    free(buffers.own);
    return gyre_finalize(comm) || bad;
}

static void sums_stay_right_on_a_node(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = forks}, 40), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "tcp", .body = forks}, 40), 0);
}

static void sums_stay_right_apart(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .per_node = 1, .body = forks}, 40), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest apart[] = {cmocka_unit_test(sums_stay_right_apart)};
    const struct CMUnitTest all[] = {cmocka_unit_test(sums_stay_right_apart),
                                     cmocka_unit_test(sums_stay_right_on_a_node)};
    if (argc == 2 && !strcmp(argv[1], "apart"))
        return cmocka_run_group_tests(apart, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
