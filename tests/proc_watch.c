/* The watch among real processes: they are killed, stopped, revived and lied to, and every survivor
 * must name the right rank in time. Time limits are those that the project promises, times
 * GYRE_TEST_SLOW. */
#include "watch_rig.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DEAD_MS   400
#define KILLED_MS 1000 /* a killed process of the same machine is known by then */
#define SILENT_MS                                                                                  \
    (DEAD_MS + 600) /* a stopped one: dead time, a beat, the verdict, and the scheduler */

enum { PHASE_DONE = 10 };

static void play_until_failure(struct rig_rank *me)
{
    rig_await_health(me);
}

static struct rig one_node(uint32_t n, void (*play)(struct rig_rank *me))
{
    return (struct rig){.n = n, .dead_time_ms = DEAD_MS, .timeout_ms = 60000, .play = play};
}

/* Everybody but `gone` fails within the limit, with the same story about `gone`. */
static void assert_all_blame(struct rig *rig, uint32_t gone, int status, int limit_ms)
{
    const struct rig_seat *teller = NULL;
    char name[32];

    snprintf(name, sizeof name, "rank %u (", gone);
    for (uint32_t rank = 0; rank < rig->n; rank++) {
        const struct rig_seat *seat = &rig->board->seat[rank];
        if (rank == gone)
            continue;
        rig_await_failure(rig, rank, limit_ms);
        assert_int_equal(seat->status, status);
        assert_int_equal(seat->failed_rank, gone);
        assert_non_null(strstr(seat->text, name));
        if (teller != NULL)
            assert_string_equal(seat->text, teller->text);
        teller = seat;
    }
}

static void test_killed_rank_is_named(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct rig rig = one_node(4, play_until_failure);
        rig_start(&rig);
        rig_kill(&rig, victim, SIGKILL);
        assert_all_blame(&rig, victim, GYRE_PEER_LOST, KILLED_MS);
        rig_finish(&rig);
    }
}

static void test_stopped_rank_is_named(void **state)
{
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct rig rig = one_node(3, play_until_failure);
        rig_start(&rig);
        rig_kill(&rig, victim, SIGSTOP);
        assert_all_blame(&rig, victim, GYRE_PEER_LOST, SILENT_MS);
        rig_finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_is_named),
        cmocka_unit_test(test_stopped_rank_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
