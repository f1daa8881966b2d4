/* Links between nodes that are made at their first use, and what may go wrong with that: the peer
 * has died, answers nobody, or has left; strangers come to its door. Every rank is told, and
 * nothing hangs. tests/program/collectives/first_use.c has the jobs in which all goes well. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include "base/rng.h"
#include "transport/net/handshake.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_DEAD_MS  600000 /* longer than a test waits: only the end of a process tells */
#define SHORT_DEAD_MS 1000
#define FDS           256
#define STRANGERS     40

static void link_at_first_use(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_LINKS_AT_ONCE", "1", 1);
}

/* All ranks but the excused ones fail with that status and tell of that rank. */
static void expect_told(struct rig *rig, uint64_t excused, int status, const char *name)
{
    assert_int_equal(rig_wait(rig, 60, excused), 0);
    for (int rank = 0; rank < rig->n; rank++) {
        if (excused >> rank & 1)
            continue;
        assert_int_equal(rig->shared->status[rank], status);
        if (!strstr(rig->shared->error[rank], name))
            fail_msg("rank %d does not tell of %s: %s", rank, name, rig->shared->error[rank]);
    }
    munmap(rig->shared, sizeof *rig->shared);
}

/* -- deaths before the first connection -------------------------------------------------------- */

/* Nobody has a link to the victim, and nobody calls for one. Each waits for another rank. */
static int wait_for_others(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), victim = rig->n - 1;
    int32_t word;
    rig->shared->ready++;
    if (rank == victim)
        rig_until(&rig->shared->flag, 1);
    else
        rig_note(rig, comm, gyre_recv(comm, &word, 1, GYRE_I32, (rank + 1) % victim), rig_now());
    gyre_finalize(comm);
    return 0;
}

static void a_death_without_a_link_is_told(void **state)
{
    (void)state;
    for (int per_node = 1; per_node < 3; per_node++) {
        struct rig rig = {.n = 4,
                          .per_node = per_node,
                          .dead_ms = LONG_DEAD_MS,
                          .before = link_at_first_use,
                          .body = wait_for_others};
        rig_start(&rig);
        rig_until(&rig.shared->ready, 4);
        kill(rig.pid[3], SIGKILL);
        expect_told(&rig, 1u << 3, GYRE_PEER_LOST, "rank 3");
    }
}

/* All begin a link to a rank that stands still. */
static int call_the_victim(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), victim = *(int *)rig->argument;
    static char data[100000];
    rig->shared->ready++;
    rig_until(&rig->shared->flag, 1);
    if (rank == victim)
        return 3; /* it is killed before */
    rig->shared->place[rank] = 1;
    rig_note(rig, comm, gyre_send(comm, data, sizeof data, GYRE_I8, victim), rig_now());
    gyre_finalize(comm);
    return 0;
}

static void a_death_under_a_first_connection_is_told(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim += 2) {
        char name[16];
        struct rig rig = {.n = 3,
                          .transport = "tcp",
                          .dead_ms = LONG_DEAD_MS,
                          .before = link_at_first_use,
                          .body = call_the_victim,
                          .argument = &victim};
        snprintf(name, sizeof name, "rank %d", victim);
        rig_start(&rig);
        rig_until(&rig.shared->ready, 3);
        rig_stop(&rig, victim);
        rig.shared->flag = 1;
        for (int rank = 0; rank < 3; rank++)
            while (rank != victim && rig.shared->place[rank] < 1)
                usleep(1000);
        kill(rig.pid[victim], SIGKILL);
        expect_told(&rig, UINT64_C(1) << victim, GYRE_PEER_LOST, name);
    }
}

/* -- a way that is closed ---------------------------------------------------------------------- */

/* Has nobody come to this process's door any more. */
static void close_door(void)
{
    for (int fd = 3; fd < FDS; fd++) {
        int listens = 0;
        socklen_t length = sizeof listens;
        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && listens)
            shutdown(fd, SHUT_RDWR);
    }
}

static int call_past_a_closed_door(struct gyre_comm *comm, struct rig *rig)
{
    int64_t word = 1;
    if (gyre_rank(comm) == 0)
        close_door();
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n);
    rig_note(rig, comm, gyre_all_reduce(comm, &word, &word, 1, GYRE_I64, GYRE_SUM), rig_now());
    gyre_finalize(comm);
    return 0;
}

/* The story says that the rank cannot be reached, or, where this machine was too busy for beats,
 * that it was silent. */
static void a_door_that_is_closed_is_told(void **state)
{
    struct rig rig = {.n = 3,
                      .transport = "tcp",
                      .dead_ms = SHORT_DEAD_MS,
                      .before = link_at_first_use,
                      .body = call_past_a_closed_door};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    for (int rank = 0; rank < rig.n; rank++) {
        const char *story = rig.shared->error[rank];
        assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
        if (!strstr(story, "cannot be reached") && !strstr(story, "silent"))
            fail_msg("rank %d says: %s", rank, story);
    }
    munmap(rig.shared, sizeof *rig.shared);
}

/* -- a standstill ------------------------------------------------------------------------------ */

/* Ranks 0 and 1 each wait for a message of the other. Connections that were made meanwhile, and the
 * threads that made them, are no motion. */
static int receive_at_both_ends(struct gyre_comm *comm, struct rig *rig)
{
    float data[10];
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    if (!status && rank < 2)
        status = gyre_recv(comm, data, 10, GYRE_F32, !rank);
    if (!status)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, rig_now());
    gyre_finalize(comm);
    return 0;
}

static void a_standstill_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = {.n = 3,
                          .transport = "tcp",
                          .dead_ms = SHORT_DEAD_MS,
                          .before = link_at_first_use,
                          .body = receive_at_both_ends};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 60, 0), 0);
        for (int rank = 0; rank < rig.n; rank++)
            if (rig.shared->status[rank] != GYRE_MISMATCH &&
                !strstr(rig.shared->error[rank], "silent")) /* as above */
                fail_msg("rank %d says: %s", rank, rig.shared->error[rank]);
        munmap(rig.shared, sizeof *rig.shared);
    }
}

/* -- a rank that has left ---------------------------------------------------------------------- */

/* Rank 1 leaves without a call. Rank 0 waits for it in an operation, over a link that is not
 * made. */
static int leave_or_wait(struct gyre_comm *comm, struct rig *rig)
{
    int64_t word = 1;
    if (gyre_rank(comm) == 0) {
        rig_until(&rig->shared->flag, 1);
        rig_note(rig, comm, gyre_all_reduce(comm, &word, &word, 1, GYRE_I64, GYRE_SUM), rig_now());
    } else {
        rig->shared->flag = 1;
    }
    gyre_finalize(comm);
    return 0;
}

static void a_rank_that_has_left_is_told(void **state)
{
    struct rig rig = {.n = 2,
                      .transport = "tcp",
                      .dead_ms = LONG_DEAD_MS,
                      .before = link_at_first_use,
                      .body = leave_or_wait};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    assert_int_equal(rig.shared->status[0], GYRE_MISMATCH);
    assert_non_null(strstr(rig.shared->error[0], "rank 1"));
    munmap(rig.shared, sizeof *rig.shared);
}

/* -- rank 0 leaves first ----------------------------------------------------------------------- */

/* Ends when the rank's process has ended. */
static void await_end(const struct rig *rig, int rank)
{
    siginfo_t end;
    assert_int_equal(waitid(P_PID, (id_t)rig->pid[rank], &end, WEXITED | WNOWAIT), 0);
}

/* Ranks 0 and 3 leave, and rank 1 where the test's argument says so. Rank 2 waits for a message of
 * anyone, and has no link to anyone. */
static int wait_for_anyone(struct gyre_comm *comm, struct rig *rig)
{
    int32_t word = 7;
    int rank = gyre_rank(comm), status = 0;
    if (rank == 1 && !rig->argument) {
        rig_until(&rig->shared->flag, 1);
        status = gyre_send(comm, &word, 1, GYRE_I32, 2);
    } else if (rank == 2) {
        rig->shared->ready++;
        status = gyre_recv_any(comm, &word, 1, GYRE_I32, GYRE_ANY_SOURCE, 0, NULL);
    }
    if (rank == 2 && !status)
        status = word == 7 ? 0 : 1;
    rig_note(rig, comm, status, rig_now());
    gyre_finalize(comm);
    return 0;
}

static struct rig rig_that_rank_0_leaves(void)
{
    struct rig rig = {.n = 4,
                      .transport = "tcp",
                      .dead_ms = SHORT_DEAD_MS,
                      .before = link_at_first_use,
                      .body = wait_for_anyone};
    return rig;
}

/* Starts the ranks. Rank 2 waits, and ranks 0 and 3 have ended, when this returns. */
static void start_and_await_leavers(struct rig *rig)
{
    rig_start(rig);
    rig_until(&rig->shared->ready, 1);
    await_end(rig, 0);
    await_end(rig, 3);
}

/* Nobody is left to tell of a death on another node, so rank 2 looks itself. */
static void a_death_after_rank_0_has_left_is_told(void **state)
{
    struct rig rig = rig_that_rank_0_leaves();
    (void)state;
    start_and_await_leavers(&rig);
    kill(rig.pid[1], SIGKILL);
    assert_int_equal(rig_wait(&rig, 60, 1u << 1), 0);
    assert_int_equal(rig.shared->status[2], GYRE_PEER_LOST);
    assert_non_null(strstr(rig.shared->error[2], "rank"));
    munmap(rig.shared, sizeof *rig.shared);
}

/* All that could send have ended, and refuse. */
static void a_wait_for_nobody_is_told(void **state)
{
    struct rig rig = rig_that_rank_0_leaves();
    (void)state;
    rig.argument = &rig;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    assert_int_equal(rig.shared->status[2], GYRE_PEER_LOST);
    if (!strstr(rig.shared->error[2], "has ended, but rank 2 still needs it"))
        fail_msg("rank 2 says: %s", rig.shared->error[2]);
    munmap(rig.shared, sizeof *rig.shared);
}

/* The look finds that rank 3 has ended. It has left, which is no failure. */
static void whoever_leaves_early_may_do_so(void **state)
{
    struct rig rig = rig_that_rank_0_leaves();
    (void)state;
    start_and_await_leavers(&rig);
    rig.shared->flag = 1;
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    for (int rank = 0; rank < rig.n; rank++)
        if (rig.shared->status[rank])
            fail_msg("rank %d says: %s", rank, rig.shared->error[rank]);
    munmap(rig.shared, sizeof *rig.shared);
}

/* -- strangers --------------------------------------------------------------------------------- */

static uint16_t door_of_this_process(void)
{
    for (int fd = 3; fd < FDS; fd++) {
        int listens = 0;
        struct sockaddr_in here;
        socklen_t length = sizeof listens, here_length = sizeof here;
        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && listens &&
            !getsockname(fd, (struct sockaddr *)&here, &here_length) && here.sin_family == AF_INET)
            return ntohs(here.sin_port);
    }
    return 0;
}

/* Claims to be rank 1 that wants its link, under a key of its own; returns the connection. */
static int knock_with_wrong_key(uint16_t port)
{
    struct sockaddr_in door = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                                     .version_high = GYRE_PROTOCOL_HIGH,
                                     .rank = 1,
                                     .world = 4,
                                     .purpose = GYRE_PURPOSE_RENEW};
    static const uint8_t key[GYRE_KEY_BYTES] = {1}, nonce[GYRE_NONCE_BYTES] = {2};
    struct gyre_handshake shake;
    const uint8_t *hello;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&door, sizeof door) ||
        gyre_handshake_start(&shake, GYRE_HANDSHAKE_CLIENT, &claim, key, nonce)) {
        close(fd);
        return -1;
    }
    size_t length = gyre_handshake_output(&shake, &hello);
    (void)!send(fd, hello, length, MSG_NOSIGNAL);
    return fd;
}

static int sum_among_strangers(struct gyre_comm *comm, struct rig *rig)
{
    static int64_t data[3000];
    int64_t rank = gyre_rank(comm), n = gyre_size(comm);
    int bad = 0, stranger[STRANGERS];
    uint16_t door = door_of_this_process();
    char byte;
    for (int i = 0; i < STRANGERS; i++)
        stranger[i] = knock_with_wrong_key(door);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n);
    for (int i = 0; i < 3000; i++)
        data[i] = rank + i;
    bad = gyre_all_reduce(comm, data, data, 3000, GYRE_I64, GYRE_SUM);
    for (int i = 0; i < 3000 && !bad; i++)
        bad = data[i] != n * (n - 1) / 2 + n * i;
    for (int i = 0; i < STRANGERS; i++) {
        bad |= stranger[i] < 0 || recv(stranger[i], &byte, 1, 0) > 0; /* hung up on, unanswered */
        close(stranger[i]);
    }
    return gyre_finalize(comm) || rig_check(!bad, NULL, "a sum among strangers");
}

static void strangers_change_nothing(void **state)
{
    struct rig rig = {
        .n = 4, .transport = "tcp", .before = link_at_first_use, .body = sum_among_strangers};
    (void)state;
    assert_int_equal(rig_run(&rig, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_without_a_link_is_told),
        cmocka_unit_test(a_death_under_a_first_connection_is_told),
        cmocka_unit_test(a_door_that_is_closed_is_told),
        cmocka_unit_test(a_standstill_is_told),
        cmocka_unit_test(a_rank_that_has_left_is_told),
        cmocka_unit_test(a_death_after_rank_0_has_left_is_told),
        cmocka_unit_test(a_wait_for_nobody_is_told),
        cmocka_unit_test(whoever_leaves_early_may_do_so),
        cmocka_unit_test(strangers_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
