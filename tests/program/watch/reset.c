/* Connections of the watch that are reset, among real processes: the job goes on, whatever was to
 * be told is told, and a death is named as soon as ever.
 *
 * Dissolving an association, connect() to AF_UNSPEC, resets a TCP connection at both ends. */
#include "program/watch/rig.h"

#include "base/clock.h"
#include "rig/sanitized.h"
#include "rig/test.h"
#include "transport/net/socket.h"
#include "transport/net/talk.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEAD_MS   2000
#define ROUNDS    20
#define STRANGERS 100
#define FEW       8 /* that a listener's queue holds */
#define LIMIT_MS  5000

enum { PHASE_TIGHT = 4, PHASE_RESET, PHASE_BACK, GO_STRANGERS = 50, GO_RESET = 60, GO_END = 100 };

static struct rig two_nodes(void (*play)(struct rig_rank *me))
{
    return (struct rig){
        .n = 4, .node = {0, 0, 1, 1}, .dead_time_ms = DEAD_MS, .timeout_ms = 60000, .play = play};
}

static int control_to(const struct rig_rank *me, uint32_t peer)
{
    return me->joined->peer[peer].control;
}

/* Past libc: the thread sanitizer would take connect() for the birth of a descriptor that the watch
 * uses meanwhile. */
static void reset_both_ends(int fd)
{
    struct sockaddr any = {.sa_family = AF_UNSPEC};
    syscall(SYS_connect, fd, &any, sizeof any); /* the watch may have closed it by now */
}

/* Ends the connection here, without a segment to the other end. False: not permitted. */
static bool forget_connection(int fd)
{
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
        return false;
    reset_both_ends(fd);
    return true;
}

/* Waits until the link to the peer goes over another connection than `before` named. */
static void await_another(struct rig_rank *me, uint32_t peer, const char *before)
{
    char mine[GYRE_ADDRESS_TEXT], theirs[GYRE_ADDRESS_TEXT];
    do {
        rig_pause();
        gyre_socket_names(control_to(me, peer), mine, theirs);
    } while (theirs[0] == '?' || strcmp(mine, before) == 0 || strcmp(theirs, before) == 0);
}

static void reset_and_await(struct rig_rank *me, uint32_t peer)
{
    char mine[GYRE_ADDRESS_TEXT], theirs[GYRE_ADDRESS_TEXT];
    gyre_socket_names(control_to(me, peer), mine, theirs);
    reset_both_ends(control_to(me, peer));
    /* The dialler's port differs for each connection. */
    await_another(me, peer, me->rank > peer ? mine : theirs);
}

/* All ranks end well: no health failed, and all have said goodbye. */
static void expect_fine(struct rig *rig)
{
    for (uint32_t rank = 0; rank < rig->n; rank++) {
        assert_int_equal(rig_exit_code(rig, rank), 0);
        assert_int_equal(rig->board->seat[rank].value, 0);
    }
    rig_finish(rig);
}

static void note_health(struct rig_rank *me)
{
    me->board->seat[me->rank].value = atomic_load(&me->health.status);
}

/* -- a reset is no failure --------------------------------------------------------------------- */

static void play_resets(struct rig_rank *me)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (me->rank >= 2)
            reset_and_await(me, 0);
        else if (me->rank == 0 && i % 4 == 0)
            reset_and_await(me, 2 + (uint32_t)i / 4 % 2);
    }
    rig_tell(me, PHASE_RESET);
    rig_await_go(me, GO_END);
    note_health(me);
}

static void test_many_resets_fail_no_job(void **state)
{
    struct rig rig = two_nodes(play_resets);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++)
        rig_await_phase(&rig, rank, PHASE_RESET);
    atomic_store(&rig.board->go, GO_END);
    expect_fine(&rig);
}

/* Resets, and leaves at once. */
static void play_reset_at_the_end(struct rig_rank *me)
{
    if (me->rank >= 2)
        reset_both_ends(control_to(me, 0));
    note_health(me);
}

static void test_reset_before_the_goodbye_fails_no_job(void **state)
{
    for (int i = 0; i < 10; i++) {
        struct rig rig = two_nodes(play_reset_at_the_end);
        rig_start(&rig);
        expect_fine(&rig);
    }
}

/* Rank 3 sends rank 0 no beats, so nothing but rank 0 tells it that the connection is gone. */
static void play_forget(struct rig_rank *me)
{
    if (me->rank == 0) {
        char mine[GYRE_ADDRESS_TEXT], theirs[GYRE_ADDRESS_TEXT];
        gyre_socket_names(control_to(me, 3), mine, theirs);
        if (!forget_connection(control_to(me, 3)))
            _exit(77);
        await_another(me, 3, theirs);
    }
    rig_tell(me, PHASE_RESET);
    rig_await_go(me, GO_END);
    note_health(me);
}

static void test_an_end_that_has_not_noticed_is_told(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    bool permitted = setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == 0;
    close(fd);
    if (!permitted)
        skip();
    struct rig rig = two_nodes(play_forget);
    rig_start(&rig);
    rig_await_phase(&rig, 0, PHASE_RESET);
    atomic_store(&rig.board->go, GO_END);
    expect_fine(&rig);
}

/* -- what was to be told ----------------------------------------------------------------------- */

static void play_report(struct rig_rank *me)
{
    if (me->rank == 3) {
        reset_both_ends(control_to(me, 0));
        gyre_watch_report(me->watch, GYRE_ABORTED, 3, false, "rank 3 gave up");
    }
    rig_await_health(me);
}

static void test_a_report_outlives_a_reset(void **state)
{
    struct rig rig = two_nodes(play_report);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < rig.n; rank++) {
        rig_await_failure(&rig, rank);
        assert_int_equal(rig.board->seat[rank].status, GYRE_ABORTED);
        assert_string_equal(rig.board->seat[rank].text, "rank 3 gave up");
    }
    rig_finish(&rig);
}

static void play_reset_and_wait(struct rig_rank *me)
{
    if (me->rank == 2)
        reset_and_await(me, 0);
    rig_tell(me, PHASE_RESET);
    rig_await_health(me);
}

static void test_a_death_after_a_reset_is_named_at_once(void **state)
{
    for (uint32_t victim = 0; victim < 4; victim += 2) {
        struct rig rig = two_nodes(play_reset_and_wait);
        rig_start(&rig);
        rig_await_phase(&rig, 2, PHASE_RESET);
        uint64_t at = gyre_now_ns();
        rig_kill(&rig, victim, SIGKILL);
        for (uint32_t rank = 0; rank < rig.n; rank++) {
            if (rank == victim)
                continue;
            rig_await_failure(&rig, rank);
            assert_int_equal(rig.board->seat[rank].failed_rank, victim);
            assert_non_null(strstr(rig.board->seat[rank].text, "ended without a goodbye"));
            print_message("rank %u named rank %u after %.1f ms\n", rank, victim,
                          (double)(rig.board->seat[rank].failed_at - at) / GYRE_MS);
        }
        rig_finish(&rig);
    }
}

/* Rank 3 is stopped: its machine takes connections, and nobody answers. */
static void play_reset_of_stopped(struct rig_rank *me)
{
    rig_await_go(me, GO_END);
    if (me->rank == 0)
        reset_both_ends(control_to(me, 1));
    rig_await_health(me);
}

static void test_who_does_not_answer_is_lost_at_the_dead_time(void **state)
{
    struct rig rig = two_nodes(play_reset_of_stopped);
    rig.n = 2;
    rig.node[1] = 1;
    rig_start(&rig);
    rig_kill(&rig, 1, SIGSTOP);
    atomic_store(&rig.board->go, GO_END);
    rig_await_failure(&rig, 0);
    assert_int_equal(rig.board->seat[0].failed_rank, 1);
    rig_finish(&rig);
}

/* -- strangers --------------------------------------------------------------------------------- */

struct lie {
    uint32_t epoch, rank, world;
    uint16_t purpose;
    uint8_t key;
};

/* Dials rank 0's listener with this claim. Returns whether it was welcomed. */
static bool is_welcome(const struct rig_rank *me, const struct lie *lie)
{
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = lie->epoch,
                               .rank = lie->rank,
                               .world = lie->world,
                               .purpose = lie->purpose};
    const uint8_t key[GYRE_KEY_BYTES] = {lie->key}, nonce[GYRE_NONCE_BYTES] = {1};
    struct gyre_record record = {0};
    struct gyre_talk talk;
    int status = GYRE_AGAIN, fd = gyre_socket_connect(&me->joined->member[0].address, NULL);
    gyre_talk_open(&talk, fd);
    if (gyre_handshake_start(&talk.shake, GYRE_HANDSHAKE_CLIENT, &claim, key, nonce) != 0)
        return true;
    while ((status == GYRE_AGAIN || status == 0) && record.kind == 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        status = gyre_talk_step(&talk, &record);
        if (status == GYRE_AGAIN)
            poll(&ready, 1, 10);
    }
    gyre_talk_close(&talk);
    return status == 0;
}

/* Rank 1, of rank 0's node, plays the strangers; rank 2's connection breaks meanwhile. */
static void play_strangers(struct rig_rank *me)
{
    static const struct lie lie[] = {
        {1, 2, 4, GYRE_PURPOSE_WATCH, 1}, /* another key */
        {2, 2, 4, GYRE_PURPOSE_WATCH, 0}, /* another epoch */
        {1, 2, 5, GYRE_PURPOSE_WATCH, 0}, /* another world */
        {1, 2, 4, GYRE_PURPOSE_DATA, 0},  /* a data connection */
        {1, 1, 4, GYRE_PURPOSE_WATCH, 0}, /* a rank of this node, which has no such link */
        {1, 0, 4, GYRE_PURPOSE_WATCH, 0}, /* rank 0 itself */
        {1, 9, 4, GYRE_PURPOSE_WATCH, 0}, /* nobody */
    };
    int silent[STRANGERS];
    for (uint32_t i = 0; me->rank == 1 && i < sizeof lie / sizeof *lie; i++)
        if (is_welcome(me, &lie[i]))
            me->board->seat[1].value = 100 + i;
    for (int i = 0; me->rank == 1 && i < STRANGERS; i++)
        silent[i] = gyre_socket_connect(&me->joined->member[0].address, NULL);
    rig_tell(me, PHASE_RESET);
    rig_await_go(me, GO_END);
    if (me->rank == 2)
        reset_and_await(me, 0);
    for (int i = 0; me->rank == 1 && i < STRANGERS; i++)
        close(silent[i]);
    me->board->seat[me->rank].value += atomic_load(&me->health.status);
}

static void test_strangers_are_hung_up_on(void **state)
{
    struct rig rig = two_nodes(play_strangers);
    rig_start(&rig);
    rig_await_phase(&rig, 1, PHASE_RESET);
    atomic_store(&rig.board->go, GO_END);
    expect_fine(&rig);
}

/* Leaves this process one descriptor, so that one visitor can be here. */
static void use_up_descriptors(void)
{
    struct rlimit limit;
    int next = dup(STDERR_FILENO);
    close(next);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)next + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Rank 0 has a descriptor for one visitor, and silent strangers come, of whom the first takes it.
 * Then the connection of rank 2 breaks. */
static void play_no_descriptor_left(struct rig_rank *me)
{
    int silent[FEW];
    if (me->rank == 0)
        use_up_descriptors();
    rig_tell(me, PHASE_TIGHT);
    rig_await_go(me, GO_STRANGERS);
    for (int i = 0; me->rank == 1 && i < FEW; i++)
        silent[i] = gyre_socket_connect(&me->joined->member[0].address, NULL);
    rig_tell(me, PHASE_RESET);
    rig_await_go(me, GO_RESET);
    if (me->rank == 2)
        reset_and_await(me, 0);
    rig_tell(me, PHASE_BACK);
    rig_await_go(me, GO_END);
    for (int i = 0; me->rank == 1 && i < FEW; i++)
        close(silent[i]);
    me->board->seat[me->rank].value += atomic_load(&me->health.status);
}

static void test_without_descriptors_strangers_make_room(void **state)
{
    struct rig rig = two_nodes(play_no_descriptor_left);
    rig_start(&rig);
    rig_await_phase(&rig, 0, PHASE_TIGHT);
    atomic_store(&rig.board->go, GO_STRANGERS);
    rig_await_phase(&rig, 1, PHASE_RESET);
    atomic_store(&rig.board->go, GO_RESET);
    rig_await_phase(&rig, 2, PHASE_BACK);
    atomic_store(&rig.board->go, GO_END);
    expect_fine(&rig);
}

int main(void)
{
#ifdef SANITIZED_THREADS
    puts("skipped: these ranks look at descriptors of the watch beside its thread");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_resets_fail_no_job),
        cmocka_unit_test(test_reset_before_the_goodbye_fails_no_job),
        cmocka_unit_test(test_an_end_that_has_not_noticed_is_told),
        cmocka_unit_test(test_a_report_outlives_a_reset),
        cmocka_unit_test(test_a_death_after_a_reset_is_named_at_once),
        cmocka_unit_test(test_who_does_not_answer_is_lost_at_the_dead_time),
        cmocka_unit_test(test_strangers_are_hung_up_on),
        cmocka_unit_test(test_without_descriptors_strangers_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
