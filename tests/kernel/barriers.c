/* Barriers of kernels on the stand-in for CUDA, whose threads are fibers: a block's round ends
 * before its next begins, and a thread that waits alone is told. */
#include "rig/test.h"
#include "stand_in/fakecuda/fake_kernel.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NEIGHBOURS = 300, ROUNDS = 3 };

static unsigned turn;
static int seen[ROUNDS][NEIGHBOURS];

static void turn_to(unsigned thread)
{
    turn = thread;
}

/* Each round reads what the neighbour wrote in the round before. */
static void pass_on(const void *context)
{
    const unsigned own = turn;
    for (int round = 0; round < ROUNDS; round++) {
        seen[round][own] = round ? seen[round - 1][(own + 1) % NEIGHBOURS] : (int)own;
        fake_fibers_meet();
        assert_int_equal(turn, own);
    }
}

static void wait_alone(const void *context)
{
    if (turn == 2)
        fake_fibers_meet();
}

static void test_barriers(void **state)
{
    int status;
    for (int again = 0; again < 2; again++) {
        memset(seen, 0, sizeof seen);
        fake_fibers_run(NEIGHBOURS, turn_to, pass_on, NULL);
        for (int i = 0; i < NEIGHBOURS; i++)
            assert_int_equal(seen[ROUNDS - 1][i], (i + ROUNDS - 1) % NEIGHBOURS);
    }
    pid_t child = fork();
    if (!child) {
        fake_fibers_run(4, turn_to, wait_alone, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_barriers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
