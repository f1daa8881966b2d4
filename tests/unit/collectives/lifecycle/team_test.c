/* Teams of one task to eight, round after round: each task is done once, and all at once, because
 * each waits until all have begun. */
#include "rig/test.h"

#include "collectives/lifecycle/team.h"

#include <sched.h>
#include <stdatomic.h>

enum { MOST = 8, ROUNDS = 50 };

struct round {
    int count;
    _Atomic int begun, done[MOST];
};

static void wait_for_all(void *context, int i)
{
    struct round *round = context;
    round->begun++;
    while (round->begun < round->count)
        sched_yield();
    round->done[i]++;
}

static void each_task_is_done_once_and_all_at_once(void **state)
{
    (void)state;
    for (int count = 1; count <= MOST; count++) {
        struct gyre_team *team;
        assert_int_equal(gyre_team_make(&team, count), 0);
        for (int i = 0; i < ROUNDS; i++) {
            struct round round = {.count = count};
            gyre_team_run(team, wait_for_all, &round);
            for (int task = 0; task < MOST; task++)
                assert_int_equal(round.done[task], task < count);
        }
        gyre_team_end(team);
    }
    gyre_team_end(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_is_done_once_and_all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
