/* The watch among real processes: they are killed, stopped, revived and lied to, and every survivor
 * must name the right rank. In haste two ranks compute where four do,
 * and for less long. */
#include "program/watch/rig.h"

#include "base/clock.h"
#include "rig/beside.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEAD_MS  1500 /* where a rank is stopped */
#define ALIVE_MS 5000 /* where none is: more than a busy machine keeps from the watches */
#define LATE_MS  (2 * RIG_AWAIT_S * 1000) /* where one is killed: beyond what the test waits */

enum { PHASE_DONE = 10, GO_END = 100 };

static struct rig one_node(uint32_t n, void (*play)(struct rig_rank *me))
{
    return (struct rig){.n = n, .dead_time_ms = ALIVE_MS, .timeout_ms = 60000, .play = play};
}

static struct rig two_nodes(void (*play)(struct rig_rank *me))
{
    struct rig rig = one_node(4, play);

    rig.node[2] = rig.node[3] = 1;
    return rig;
}

static void assert_tells(struct rig *rig, uint32_t rank, int status, uint32_t culprit,
                         const char *part)
{
    const struct rig_seat *seat = &rig->board->seat[rank];

    rig_await_failure(rig, rank);
    if (seat->status != status || seat->failed_rank != culprit || strstr(seat->text, part) == NULL)
        fail_msg("rank %u says %d, rank %u, \"%s\"; expected %d, rank %u, \"…%s…\"", rank,
                 seat->status, seat->failed_rank, seat->text, status, culprit, part);
}

/* Everybody but `gone` fails and names it; where rank 0 lives, with one story. */
static void assert_all_blame(struct rig *rig, uint32_t gone)
{
    const struct rig_seat *seat = rig->board->seat;
    char name[32];

    snprintf(name, sizeof name, "rank %u (host%u, pid ", gone, rig->node[gone]);
    for (uint32_t rank = 0; rank < rig->n; rank++) {
        if (rank == gone)
            continue;
        assert_tells(rig, rank, GYRE_PEER_LOST, gone, name);
        if (gone != 0)
            assert_string_equal(seat[rank].text, seat[0].text);
    }
}

static void play_until_failure(struct rig_rank *me)
{
    rig_await_health(me);
}

/* -- death ------------------------------------------------------------------------------------- */

static void test_killed_rank_is_named(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct rig rig = one_node(4, play_until_failure);
        rig.dead_time_ms = LATE_MS;
        rig_start(&rig);
        rig_kill(&rig, victim, SIGKILL);
        assert_all_blame(&rig, victim);
        rig_finish(&rig);
    }
}

static void test_killed_rank_is_named_across_nodes(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct rig rig = two_nodes(play_until_failure);
        rig.dead_time_ms = LATE_MS;
        rig_start(&rig);
        rig_kill(&rig, victim, SIGKILL);
        assert_all_blame(&rig, victim);
        rig_finish(&rig);
    }
}

static void test_stopped_rank_is_named(void **state)
{
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct rig rig = one_node(3, play_until_failure);
        rig.dead_time_ms = DEAD_MS;
        rig_start(&rig);
        rig_kill(&rig, victim, SIGSTOP);
        assert_all_blame(&rig, victim);
        rig_finish(&rig);
    }
}

static void test_stopped_rank_is_named_across_nodes(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct rig rig = two_nodes(play_until_failure);
        rig.dead_time_ms = DEAD_MS;
        rig_start(&rig);
        rig_kill(&rig, victim, SIGSTOP);
        assert_all_blame(&rig, victim);
        rig_finish(&rig);
    }
}

static void test_revived_rank_learns_that_it_was_evicted(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim += 3) {
        struct rig rig = two_nodes(play_until_failure);
        rig.dead_time_ms = DEAD_MS;
        rig_start(&rig);
        rig_kill(&rig, victim, SIGSTOP);
        assert_all_blame(&rig, victim);
        rig_kill(&rig, victim, SIGCONT);
        assert_tells(&rig, victim, GYRE_PEER_LOST, victim, "silent");
        rig_finish(&rig);
    }
}

/* Leaves a child behind that holds a copy of every descriptor, then waits to be killed. */
static void play_with_child(struct rig_rank *me)
{
    if (me->rank == 1 && fork() == 0) {
        rig_tell(me, PHASE_DONE);
        while (atomic_load(&me->board->go) < GO_END)
            rig_pause();
        _exit(0);
    }
    rig_await_health(me);
}

static void test_forked_child_does_not_hide_a_death(void **state)
{
    struct rig rig = one_node(3, play_with_child);
    rig.dead_time_ms = LATE_MS;
    rig_start(&rig);
    rig_await_phase(&rig, 1, PHASE_DONE);
    rig_kill(&rig, 1, SIGKILL);
    assert_all_blame(&rig, 1);
    atomic_store(&rig.board->go, GO_END);
    rig_finish(&rig);
}

static void play_ended_peer(struct rig_rank *me)
{
    struct rig_seat *seat = &me->board->seat[me->rank];

    rig_await_health(me);
    while (!gyre_watch_peer_ended(me->watch, 1))
        rig_pause();
    seat->value = gyre_watch_peer_ended(me->watch, 2 - me->rank);
    rig_tell(me, PHASE_DONE);
    rig_await_go(me, GO_END); /* the other survivor has not looked yet, perhaps */
}

static void test_ended_peer_is_told_from_a_stopped_one(void **state)
{
    struct rig rig = one_node(3, play_ended_peer);
    rig.dead_time_ms = DEAD_MS;
    rig_start(&rig);
    rig_kill(&rig, 1, SIGSTOP);
    rig_await_failure(&rig, 0);
    assert_int_equal(rig.board->seat[0].phase, 1); /* it is not known to have ended */
    rig_kill(&rig, 1, SIGKILL);
    for (uint32_t rank = 0; rank < 3; rank += 2) {
        rig_await_phase(&rig, rank, PHASE_DONE);
        assert_int_equal(rig.board->seat[rank].value, 0);
    }
    rig_finish(&rig);
}

/* -- no false alarm ---------------------------------------------------------------------------- */

static void play_busy(struct rig_rank *me)
{
    uint64_t end = gyre_now_ns() + (in_haste() ? 5 : 8) * DEAD_MS / 4 * GYRE_MS;
    volatile double x = 1;

    while (gyre_now_ns() < end)
        for (int i = 0; i < 100000; i++)
            x = x * 1.0000001;
    me->board->seat[me->rank].value = atomic_load(&me->health.status);
    rig_tell(me, PHASE_DONE);
}

static void test_computing_is_no_death(void **state)
{
    struct rig rig = one_node(in_haste() ? 2 : 4, play_busy);
    rig.dead_time_ms = DEAD_MS;
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++) {
        rig_await_phase(&rig, rank, PHASE_DONE);
        assert_int_equal(rig.board->seat[rank].value, 0);
    }
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    rig_finish(&rig);
}

static void play_two_steps(struct rig_rank *me)
{
    while (atomic_load(&me->board->go) < GO_END && atomic_load(&me->health.status) == 0)
        rig_pause();
    me->board->seat[me->rank].value = atomic_load(&me->health.status);
    rig_tell(me, PHASE_DONE);
}

/* As Ctrl-Z does, or a suspended machine: all stop, for longer than the dead time, and go on. */
static void test_job_that_is_stopped_as_a_whole_goes_on(void **state)
{
    struct rig rig = one_node(4, play_two_steps);
    rig.dead_time_ms = DEAD_MS;
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        rig_kill(&rig, rank, SIGSTOP);
    uint64_t until = gyre_now_ns() + 3 * DEAD_MS * GYRE_MS;
    while (gyre_now_ns() < until)
        rig_pause();
    for (uint32_t rank = 0; rank < rig.n; rank++)
        rig_kill(&rig, rank, SIGCONT);
    until = gyre_now_ns() + DEAD_MS * GYRE_MS;
    while (gyre_now_ns() < until)
        rig_pause();
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < rig.n; rank++) {
        rig_await_phase(&rig, rank, PHASE_DONE);
        assert_int_equal(rig.board->seat[rank].value, 0);
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    }
    rig_finish(&rig);
}

/* -- goodbye ----------------------------------------------------------------------------------- */

/* Leaves when its turn comes; the health after stop() would show a wrong accusation. */
static void play_leave_in_turn(struct rig_rank *me)
{
    rig_await_go(me, GO_END - (int)me->rank);
    gyre_watch_stop(me->watch);
    me->watch = NULL;
    me->board->seat[me->rank].value = atomic_load(&me->health.status);
    rig_tell(me, PHASE_DONE);
}

static void test_orderly_end_is_no_failure(void **state)
{
    struct rig rig = two_nodes(play_leave_in_turn);
    rig_start(&rig);
    for (int go = GO_END - 3; go <= GO_END; go++)
        atomic_store(&rig.board->go, go);
    for (uint32_t rank = 0; rank < rig.n; rank++) {
        rig_await_phase(&rig, rank, PHASE_DONE);
        assert_int_equal(rig.board->seat[rank].value, 0);
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    }
    rig_finish(&rig);
}

/* Rank 3 leaves, waits its dead time in vain, and ends; the others go on undisturbed. */
static void test_early_leaver_disturbs_nobody(void **state)
{
    struct rig rig = two_nodes(play_leave_in_turn);
    rig.dead_time_ms = DEAD_MS;
    rig_start(&rig);
    atomic_store(&rig.board->go, GO_END - 3);
    assert_int_equal(rig_exit_code(&rig, 3), 0);
    assert_int_equal(rig.board->seat[3].value, 0);
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++) {
        rig_await_phase(&rig, rank, PHASE_DONE);
        assert_int_equal(rig.board->seat[rank].value, 0);
    }
    rig_finish(&rig);
}

/* Rank 0 begins to part when it is told to, and says goodbye when it is told that. */
static void play_part_late(struct rig_rank *me)
{
    if (me->rank == 0) {
        rig_await_go(me, GO_END - 1);
        gyre_watch_part(me->watch);
        rig_tell(me, PHASE_DONE);
        rig_await_go(me, GO_END);
        gyre_watch_stop(me->watch);
        me->watch = NULL;
        me->board->seat[0].value = atomic_load(&me->health.status);
        rig_tell(me, PHASE_DONE + 1);
    } else {
        rig_await_health(me);
    }
}

/* Rank 0 does not run for longer than it would wait for goodbyes. Rank 1, which has stopped before
 * its own, is told all the same. */
static void test_parting_rank_that_did_not_run_tells_who_is_silent(void **state)
{
    struct rig rig = one_node(2, play_part_late);
    rig.dead_time_ms = DEAD_MS;
    rig_start(&rig);
    atomic_store(&rig.board->go, GO_END - 1);
    rig_await_phase(&rig, 0, PHASE_DONE);
    rig_kill(&rig, 1, SIGSTOP);
    rig_kill(&rig, 0, SIGSTOP);
    uint64_t until = gyre_now_ns() + 2 * DEAD_MS * GYRE_MS;
    while (gyre_now_ns() < until)
        rig_pause();
    atomic_store(&rig.board->go, GO_END);
    rig_kill(&rig, 0, SIGCONT);
    rig_await_phase(&rig, 0, PHASE_DONE + 1);
    assert_int_equal(rig.board->seat[0].value, GYRE_PEER_LOST);
    rig_finish(&rig);
}

/* -- reports ----------------------------------------------------------------------------------- */

static void play_abort(struct rig_rank *me)
{
    if (me->rank == 3) {
        gyre_watch_report(me->watch, GYRE_ABORTED, 3, false, "rank 3 aborted: loss is NaN");
        _exit(atomic_load(&me->health.status) == GYRE_ABORTED ? 3 : 4);
    }
    rig_await_health(me);
}

static void test_report_is_told_although_its_author_ends_at_once(void **state)
{
    struct rig rig = two_nodes(play_abort);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_tells(&rig, rank, GYRE_ABORTED, 3, "rank 3 aborted: loss is NaN");
    assert_int_equal(rig_exit_code(&rig, 3), 3);
    rig_finish(&rig);
}

static void play_echo(struct rig_rank *me)
{
    if (me->rank == 0) {
        gyre_watch_report(me->watch, GYRE_PEER_LOST, 1, true, "rank 0 lost a connection to rank 1");
        me->board->seat[0].value = atomic_load(&me->health.status);
        rig_tell(me, PHASE_DONE);
    }
    rig_await_health(me);
}

static void test_echo_alone_counts_after_its_time(void **state)
{
    struct rig rig = one_node(2, play_echo);
    rig_start(&rig);
    rig_await_phase(&rig, 0, PHASE_DONE);
    assert_int_equal(rig.board->seat[0].value, 0);
    assert_tells(&rig, 0, GYRE_PEER_LOST, 1, "rank 0 lost a connection");
    assert_tells(&rig, 1, GYRE_PEER_LOST, 1, "rank 0 lost a connection");
    rig_finish(&rig);
}

static void test_lost_launcher_is_told(void **state)
{
    struct rig rig = two_nodes(play_until_failure);
    rig.launched = rig.n;
    rig_start(&rig);
    rig_end_launcher(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_tells(&rig, rank, GYRE_LAUNCHER_GONE, UINT32_MAX, "lost its launcher");
    rig_finish(&rig);
}

/* The ranks of another launcher go on without the ranks of this one. */
static void test_another_launcher_is_a_lost_rank(void **state)
{
    struct rig rig = two_nodes(play_until_failure);
    rig.launched = 1;
    rig_start(&rig);
    rig_end_launcher(&rig);
    assert_tells(&rig, 0, GYRE_LAUNCHER_GONE, UINT32_MAX, "lost its launcher");
    for (uint32_t rank = 1; rank < rig.n; rank++)
        assert_tells(&rig, rank, GYRE_PEER_LOST, 0, "lost its launcher");
    rig_finish(&rig);
}

/* -- operations -------------------------------------------------------------------------------- */

static void play_operation(struct rig_rank *me)
{
    uint64_t count = me->rank == 2 ? 999 : 1000;
    uint64_t what = gyre_signature_pack(GYRE_SIGNATURE_ALL_REDUCE, GYRE_F32, GYRE_SUM, 0);

    gyre_activity_enter(&me->board->activity[me->rank], 0, 7, count, what, count);
    rig_await_health(me);
}

static void test_different_operations_are_a_mismatch(void **state)
{
    struct rig rig = two_nodes(play_operation);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++) {
        assert_tells(&rig, rank, GYRE_MISMATCH, UINT32_MAX, "all_reduce f32 sum, 1000 elements");
        assert_tells(&rig, rank, GYRE_MISMATCH, UINT32_MAX,
                     "rank 2 called all_reduce f32 sum, 999");
    }
    rig_finish(&rig);
}

static void play_skip(struct rig_rank *me)
{
    uint64_t what = gyre_signature_pack(GYRE_SIGNATURE_BARRIER, GYRE_F32, GYRE_SUM, 0);

    if (me->rank != 3)
        gyre_activity_enter(&me->board->activity[me->rank], 0, 1, 5, what, 0);
    rig_await_health(me);
}

static void test_operation_that_a_rank_does_not_join_times_out(void **state)
{
    struct rig rig = two_nodes(play_skip);
    rig.timeout_ms = 300;
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_tells(&rig, rank, GYRE_TIMED_OUT, 3, "rank 3 has not joined");
    rig_finish(&rig);
}

/* Rank 1 waits in operation 1, the others in operation 20; rank 3 looks while it is told to. */
static void play_parted(struct rig_rank *me)
{
    uint64_t what = gyre_signature_pack(GYRE_SIGNATURE_BARRIER, GYRE_F32, GYRE_SUM, 0);
    struct gyre_activity *activity = &me->board->activity[me->rank];
    bool looks = me->rank != 3 || me->board->seat[3].value == 0;

    gyre_activity_finish(activity, me->rank == 1 ? 0 : 19);
    gyre_activity_enter(activity, 0, me->rank == 1 ? 1 : 20, 5, what, 0);
    while (looks && atomic_load(&me->health.status) == 0) {
        gyre_activity_look(activity);
        rig_pause();
    }
    rig_await_health(me);
}

static void test_parted_ranks_that_stand_still_are_a_mismatch(void **state)
{
    struct rig rig = two_nodes(play_parted);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_tells(&rig, rank, GYRE_MISMATCH, UINT32_MAX,
                     "rank 1 waits in operation 1 (barrier), which rank 0 has left; rank 0 waits "
                     "in operation 20 (barrier)");
    rig_finish(&rig);
}

static void play_parted_and_absent(struct rig_rank *me)
{
    me->board->seat[3].value = 1;
    play_parted(me);
}

/* A rank whose thread is kept from running may have what the others wait for: no mismatch, but the
 * time limit of whichever operation is found waiting first. */
static void test_nobody_stands_still_while_a_thread_is_kept_from_running(void **state)
{
    struct rig rig = two_nodes(play_parted_and_absent);
    rig.timeout_ms = 2000;
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        rig_await_failure(&rig, rank);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_int_equal(rig.board->seat[rank].status, GYRE_TIMED_OUT);
    rig_finish(&rig);
}

/* All but rank 3 wait in operation 2; that one refused two calls and never mends the second. */
static void play_refusal(struct rig_rank *me)
{
    uint64_t what = gyre_signature_pack(GYRE_SIGNATURE_BARRIER, GYRE_F32, GYRE_SUM, 0);
    struct gyre_activity *activity = &me->board->activity[me->rank];

    if (me->rank == 3)
        gyre_watch_refuse(me->watch, activity, 1, "gyre_reduce: the first");
    gyre_activity_enter(activity, 0, 1, 5, what, 0);
    gyre_activity_finish(activity, 1);
    if (me->rank == 3)
        gyre_watch_refuse(me->watch, activity, 2, "gyre_reduce: the second");
    else
        gyre_activity_enter(activity, 0, 2, 5, what, 0);
    rig_await_health(me);
}

static void test_refused_call_that_is_not_made_again_is_told(void **state)
{
    struct rig rig = two_nodes(play_refusal);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        assert_tells(&rig, rank, GYRE_MISMATCH, 3,
                     "rank 3 refused gyre_reduce: the second, and has not called it again for");
    rig_finish(&rig);
}

/* -- fork, and a world of one ------------------------------------------------------------------ */

static void play_fork(struct rig_rank *me)
{
    struct gyre_region region = {.kind = GYRE_MEMORY_HOST, .fd = -1};
    int status;
    pid_t child = me->rank == 1 ? fork() : 0;

    if (me->rank == 1 && child == 0) {
        gyre_watch_report(me->watch, GYRE_ABORTED, 1, false, "from the child");
        int shared = gyre_watch_share(me->watch, 1, &region, GYRE_SHARE_OPEN, NULL);
        gyre_watch_unshare(me->watch, 1);
        gyre_watch_stop(me->watch);
        _exit(shared == GYRE_FORKED && atomic_load(&me->health.status) == 0 ? 0 : 1);
    }
    if (me->rank == 1 && waitpid(child, &status, 0) == child)
        me->board->seat[1].value = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    rig_tell(me, PHASE_DONE);
    rig_await_go(me, GO_END);
    me->board->seat[0].value += atomic_load(&me->health.status);
}

static void test_forked_child_cannot_speak_for_its_parent(void **state)
{
    struct rig rig = one_node(2, play_fork);
    rig_start(&rig);
    rig_await_phase(&rig, 1, PHASE_DONE);
    assert_int_equal(rig.board->seat[1].value, 0);
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    assert_int_equal(rig.board->seat[0].value, 0);
    rig_finish(&rig);
}

static void play_alone(struct rig_rank *me)
{
    uint32_t before = atomic_load(&me->board->bell[0]);

    gyre_watch_report(me->watch, GYRE_ABORTED, 0, false, "enough");
    me->board->seat[0].value = atomic_load(&me->board->bell[0]) - before;
    rig_await_health(me);
}

static void test_world_of_one_reports_and_rings(void **state)
{
    struct rig rig = one_node(1, play_alone);
    rig_start(&rig);
    assert_tells(&rig, 0, GYRE_ABORTED, 0, "enough");
    assert_int_equal(rig_exit_code(&rig, 0), 0);
    assert_int_equal(rig.board->seat[0].value, 1);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_rank_is_named),
        cmocka_unit_test(test_killed_rank_is_named_across_nodes),
        cmocka_unit_test(test_stopped_rank_is_named),
        cmocka_unit_test(test_stopped_rank_is_named_across_nodes),
        cmocka_unit_test(test_revived_rank_learns_that_it_was_evicted),
        cmocka_unit_test(test_forked_child_does_not_hide_a_death),
        cmocka_unit_test(test_ended_peer_is_told_from_a_stopped_one),
        cmocka_unit_test(test_computing_is_no_death),
        cmocka_unit_test(test_job_that_is_stopped_as_a_whole_goes_on),
        cmocka_unit_test(test_orderly_end_is_no_failure),
        cmocka_unit_test(test_early_leaver_disturbs_nobody),
        cmocka_unit_test(test_parting_rank_that_did_not_run_tells_who_is_silent),
        cmocka_unit_test(test_report_is_told_although_its_author_ends_at_once),
        cmocka_unit_test(test_echo_alone_counts_after_its_time),
        cmocka_unit_test(test_lost_launcher_is_told),
        cmocka_unit_test(test_another_launcher_is_a_lost_rank),
        cmocka_unit_test(test_different_operations_are_a_mismatch),
        cmocka_unit_test(test_operation_that_a_rank_does_not_join_times_out),
        cmocka_unit_test(test_parted_ranks_that_stand_still_are_a_mismatch),
        cmocka_unit_test(test_nobody_stands_still_while_a_thread_is_kept_from_running),
        cmocka_unit_test(test_refused_call_that_is_not_made_again_is_told),
        cmocka_unit_test(test_forked_child_cannot_speak_for_its_parent),
        cmocka_unit_test(test_world_of_one_reports_and_rings),
    };

    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
