/* Data connections that are reset under a job: it goes on, every sum is right, and a death behind a
 * reset is named as ever.
 *
 * The kernel is told to reset them, which it does at both ends and without a loss of what had come,
 * as a firewall's reset does. A rank finds its connections among its descriptors. In haste a rank
 * that computes is reset 4 times, not 10, and one that leaves 8 times, not 20. */
#include "rig/comm_rig.h"
#include "link/resets.h"
#include "rig/haste.h"
#include "rig/test.h"

#include "base/rng.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SUMS     40
#define BREAKS   30    /* by one rank */
#define PAUSE_US 50000 /* between two of them, at most */
#define FDS      60    /* descriptors of a rank, at least */

static atomic_int breaks;

/* Whether the descriptor is a connection, and not one to or at the place where the ranks met, which
 * the watch has. */
static bool is_data(int fd)
{
    struct sockaddr_in here, there;
    socklen_t here_length = sizeof here, there_length = sizeof there;
    const uint16_t root = (uint16_t)atoi(getenv("MASTER_PORT"));
    return !getsockname(fd, (struct sockaddr *)&here, &here_length) &&
           !getpeername(fd, (struct sockaddr *)&there, &there_length) &&
           here.sin_family == AF_INET && ntohs(here.sin_port) != root &&
           ntohs(there.sin_port) != root;
}

static int reset_all(void)
{
    int count = 0;
    for (int fd = 3; fd < FDS; fd++)
        count += is_data(fd) && reset_connection(fd);
    return count;
}

/* Resets data connections of this process as they come to its hand, in whatever state they are. */
static void *break_connections(void *argument)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, (uint64_t)(uintptr_t)argument);
    while (breaks < BREAKS) {
        int fd = 3 + (int)gyre_rng_below(&rng, FDS);
        if (!is_data(fd) || !reset_connection(fd))
            continue;
        breaks++;
        usleep((useconds_t)gyre_rng_below(&rng, PAUSE_US));
    }
    return NULL;
}

/* -- sums -------------------------------------------------------------------------------------- */

/* One sum, checked: 0, 1 for a wrong element, or the call's status. */
static int sum_once(struct gyre_comm *comm, int32_t *data, int count, int turn)
{
    int rank = gyre_rank(comm), n = gyre_size(comm), bad = 0;
    for (int i = 0; i < count; i++)
        data[i] = rank + i % 7 + turn;
    int status = gyre_all_reduce(comm, data, data, (uint64_t)count, GYRE_I32, GYRE_SUM);
    for (int i = 0; !status && i < count; i++)
        bad |= data[i] != n * (n - 1) / 2 + n * (i % 7 + turn);
    return status ? status : bad;
}

/* Sums of all lengths until every rank has broken its share of connections. */
static int sum_through_resets(struct gyre_comm *comm, struct rig *rig)
{
    static const int counts[] = {1, 300, 5000, 40000, 100000, 1000000};
    static int32_t data[1000000];
    const int rank = gyre_rank(comm);
    int status = 0;
    pthread_t breaker;
    pthread_create(&breaker, NULL, break_connections, (void *)(uintptr_t)(rank + 1));
    for (int32_t turn = 0, left = 1; !status && left; turn++) {
        uint64_t since = rig_now();
        status = sum_once(comm, data, counts[turn % 6], turn);
        left = breaks < BREAKS || turn < SUMS;
        if (!status)
            status = gyre_all_reduce(comm, &left, &left, 1, GYRE_I32, GYRE_MAX);
        if (status < 0)
            rig_note(rig, comm, status, since);
        rig->shared->place[rank] = (uintptr_t)turn + 1;
    }
    breaks += BREAKS;
    pthread_join(breaker, NULL);
    return status > 0 ? 3 : gyre_finalize(comm);
}

static void tell_errors(const struct rig *rig)
{
    for (int rank = 0; rank < rig->n; rank++)
        if (rig->shared->status[rank])
            print_message("rank %d: %s\n", rank, rig->shared->error[rank]);
}

static void expect_no_failure(struct rig *rig)
{
    rig_start(rig);
    int bad = rig_wait(rig, 60, 0);
    tell_errors(rig);
    assert_int_equal(bad, 0);
    munmap(rig->shared, sizeof *rig->shared);
}

static void resets_cost_no_job(void **state)
{
    static const char *const how[] = {"none", "auth", "encrypt"}, *const who[] = {"io_uring",
                                                                                  "epoll"};
    for (int i = 0; i < 6; i++) {
        struct rig rig = {.n = 4,
                          .transport = "tcp",
                          .poller = who[i / 3],
                          .per_node = 2,
                          .body = sum_through_resets};
        setenv("GYRE_TCP_SECURITY", how[i % 3], 1);
        setenv("GYRE_TCP_CONNECTIONS", i % 2 ? "1" : "3", 1);
        expect_no_failure(&rig);
    }
    unsetenv("GYRE_TCP_SECURITY");
    unsetenv("GYRE_TCP_CONNECTIONS");
}

/* -- a rank that computes ---------------------------------------------------------------------- */

/* Has the kernel take no more than a little of what comes. */
static void read_little(void)
{
    int little = 1;
    for (int fd = 3; fd < FDS; fd++)
        if (is_data(fd))
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
}

/* Rank 0 sends and goes on without a call. What it has sent is lost with the connection, and comes
 * all the same. */
static int send_and_compute(struct gyre_comm *comm, struct rig *rig)
{
    static uint8_t data[60000];
    int status = 0, bad = 0;
    if (gyre_rank(comm) == 0) {
        memset(data, 77, sizeof data);
        rig_until(&rig->shared->ready, 1);
        status = gyre_send(comm, data, sizeof data, GYRE_U8, 1);
        rig->shared->flag = 1;
        rig_until(&rig->shared->ready, 2);
    } else {
        read_little();
        rig->shared->ready = 1;
        rig_until(&rig->shared->flag, 1);
        bad = reset_all() == 0;
        status = gyre_recv(comm, data, sizeof data, GYRE_U8, 0);
        for (size_t i = 0; i < sizeof data; i++)
            bad |= data[i] != 77;
        rig->shared->ready = 2;
    }
    return status || bad ? 3 : gyre_finalize(comm);
}

static void a_rank_that_computes_sends_again(void **state)
{
    for (int i = 0; i < (in_haste() ? 4 : 10); i++) {
        struct rig rig = {.n = 2,
                          .transport = "tcp",
                          .poller = i % 2 ? "epoll" : "io_uring",
                          .per_node = 1,
                          .body = send_and_compute};
        expect_no_failure(&rig);
    }
}

/* -- ends -------------------------------------------------------------------------------------- */

static int leave_through_resets(struct gyre_comm *comm, struct rig *rig)
{
    static int32_t data[1000];
    int bad = sum_once(comm, data, 1000, 1);
    if (gyre_rank(comm) % 2)
        reset_all();
    return bad ? 3 : gyre_finalize(comm);
}

static void a_goodbye_outlives_a_reset(void **state)
{
    for (int i = 0; i < (in_haste() ? 8 : 20); i++) {
        struct rig rig = {.n = 4,
                          .transport = "tcp",
                          .poller = i % 2 ? "epoll" : "io_uring",
                          .per_node = 2,
                          .body = leave_through_resets};
        expect_no_failure(&rig);
    }
}

static void a_death_behind_resets_is_named(void **state)
{
    for (int victim = 0; victim < 4; victim++) {
        char name[16];
        struct rig rig = {.n = 4, .transport = "tcp", .per_node = 2, .body = sum_through_resets};
        snprintf(name, sizeof name, "rank %d", victim);
        rig_start(&rig);
        assert_true(rig_reach(&rig, 3, 60));
        kill(rig.pid[victim], SIGKILL);
        rig_wait(&rig, 60, UINT64_C(1) << victim);
        for (int rank = 0; rank < rig.n; rank++) {
            if (rank == victim)
                continue;
            assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
            assert_int_equal(strncmp(rig.shared->error[rank], name, strlen(name)), 0);
        }
        munmap(rig.shared, sizeof *rig.shared);
    }
}

int main(void)
{
    if (!reset_permitted()) {
        puts("skipped: the kernel resets no connection for this process (CAP_NET_ADMIN)");
        return 77;
    }
    setenv("GYRE_TCP_RENEW", "always", 1); /* these nodes have one address */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resets_cost_no_job),
        cmocka_unit_test(a_rank_that_computes_sends_again),
        cmocka_unit_test(a_goodbye_outlives_a_reset),
        cmocka_unit_test(a_death_behind_resets_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
