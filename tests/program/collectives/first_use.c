/* Jobs of more ranks than link at once: links are made at their first use, over shared memory in a
 * large node and over TCP between nodes.
 *
 * Small jobs whose limit is lower take every operation, messages from anyone, parts of the world,
 * and deaths; jobs of 96 and 256 ranks show that descriptors stay few. In haste both have 66, every
 * algorithm takes one transport, and all but the last have 18 ranks and the lower limit. Operations
 * over TCP have the fewest ranks and the most, and both ends begin once with each poller.
 * program/collectives/many_ranks takes every operation on nodes that are not large. 1,024 ranks by
 * hand: bench/README.md. */
#include "rig/collectives_rig.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM            (1024u * 1024) /* of all memories each */
#define DESCRIPTORS_MAX 64

static void meet_two(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_LINKS_AT_ONCE", "2", 1);
}

/* -- every operation --------------------------------------------------------------------------- */

static int make_memory(struct gyre_comm *comm, struct stage *stage)
{
    stage->memory[2] = malloc(ROOM);
    stage->memory[3] = malloc(ROOM);
    return gyre_alloc(comm, ROOM, (void **)&stage->memory[0]) ||
           gyre_alloc(comm, ROOM, (void **)&stage->memory[1]);
}

static int every_verb(struct gyre_comm *comm, const struct stage *stage)
{
    static const uint64_t counts[] = {0, 1, 63, 5000};
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    for (int turn = 0; turn < 4 * VERBS && !bad; turn++) {
        enum verb verb = (enum verb)(turn % VERBS);
        int kind = (turn + rank) % 2 * 2;
        uint64_t count = counts[turn / VERBS];
        struct question ask = {.verb = verb,
                               .type = type_of(verb, turn),
                               .op = op_of(verb, turn),
                               .root = turn % n,
                               .count = verb == ALL_GATHER_V ? count % 50 : count,
                               .started = turn % 2,
                               .input = kind,
                               .output = kind + 1};
        bad = ask_and_check(comm, stage, &ask);
    }
    return bad;
}

/* Each sends to its neighbour, long ones and short ones, before anybody receives. */
static int around(struct gyre_comm *comm, uint64_t count)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), from = (rank + n - 1) % n;
    int32_t *out = malloc(count * 4), *in = malloc(count * 4);
    for (uint64_t i = 0; i < count; i++)
        out[i] = rank * 1000 + (int)i % 999;
    int bad = gyre_group_start(comm) || gyre_send(comm, out, count, GYRE_I32, (rank + 1) % n) ||
              gyre_recv(comm, in, count, GYRE_I32, from) || gyre_group_end(comm);
    for (uint64_t i = 0; i < count && !bad; i++)
        bad = in[i] != from * 1000 + (int)i % 999;
    free(out);
    free(in);
    return rig_check(!bad, comm, "around");
}

/* Rank 0 hears everyone, who comes first: it has made no link to them. */
static int from_anyone(struct gyre_comm *comm)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t word = rank, sum = 0;
    if (rank)
        return rig_check(!gyre_send_tag(comm, &word, 1, GYRE_I32, 0, 5), comm, "a word");
    for (int i = 1; i < n && !bad; i++) {
        bad = gyre_recv_any(comm, &word, 1, GYRE_I32, GYRE_ANY_SOURCE, 5, NULL);
        sum += word;
    }
    return rig_check(!bad && sum == n * (n - 1) / 2, comm, "words from anyone");
}

/* Two parts, their ranks in the opposite order. */
static int parts(struct gyre_comm *comm)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad;
    int32_t sum = rank, expected = 0;
    struct gyre_comm *part;
    for (int r = rank % 2; r < n; r += 2)
        expected += r;
    bad = gyre_split(comm, rank % 2, -rank, &part) ||
          gyre_all_reduce(part, &sum, &sum, 1, GYRE_I32, GYRE_SUM) || sum != expected ||
          gyre_finalize(part);
    return rig_check(!bad, comm, "parts of the world");
}

static int everything(struct gyre_comm *comm, struct rig *rig)
{
    struct stage stage = {.carry = NULL};
    int bad = make_memory(comm, &stage) || every_verb(comm, &stage) || around(comm, 3) ||
              around(comm, 100000) || from_anyone(comm) || parts(comm) || gyre_barrier(comm);
    (void)rig;
    free(stage.memory[2]);
    free(stage.memory[3]);
    return gyre_finalize(comm) || bad;
}

static void every_operation_is_right(void **state)
{
    (void)state;
    for (int n = 3; n <= 9; n += 3) {
        struct rig rig = {.n = n, .transport = "shm", .before = meet_two, .body = everything};
        assert_int_equal(rig_run(&rig, 120), 0);
    }
}

static void every_operation_over_tcp_is_right(void **state)
{
    static const char *const connections[] = {"1", "3"}, *const renewal[] = {"auto", "always"},
                             *const security[] = {"none", "encrypt"};
    (void)state;
    for (int i = 0; i < 4; i += in_haste() ? 3 : 1) {
        struct rig rig = {.n = 3 + 2 * i,
                          .transport = "tcp",
                          .poller = i % 2 ? "epoll" : NULL,
                          .before = meet_two,
                          .body = everything};
        setenv("GYRE_TCP_CONNECTIONS", connections[i / 2], 1);
        setenv("GYRE_TCP_RENEW", renewal[i % 2], 1);
        setenv("GYRE_TCP_SECURITY", security[i % 2], 1);
        assert_int_equal(rig_run(&rig, 120), 0);
    }
    unsetenv("GYRE_TCP_CONNECTIONS");
    unsetenv("GYRE_TCP_RENEW");
    unsetenv("GYRE_TCP_SECURITY");
}

/* -- both ends at once ------------------------------------------------------------------------- */

/* How many connections this rank has to listeners of others, or others to its own, but the watch's
 * to rank 0. */
static int data_connections(void)
{
    const uint16_t root = (uint16_t)atoi(getenv("MASTER_PORT"));
    int count = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in here, there;
        socklen_t here_length = sizeof here, there_length = sizeof there;
        if (!getsockname(fd, (struct sockaddr *)&here, &here_length) &&
            !getpeername(fd, (struct sockaddr *)&there, &there_length))
            count += here.sin_family == AF_INET && ntohs(here.sin_port) != root &&
                     ntohs(there.sin_port) != root;
    }
    return count;
}

/* Waits until an attempt that came second has ended. */
static void await_connections(int expected)
{
    const uint64_t limit = rig_now() + 60 * UINT64_C(1000000000) * (uint64_t)rig_slow();
    int count;
    while ((count = data_connections()) != expected) {
        usleep(1000);
        if (rig_now() > limit)
            fail_msg("%d connections instead of %d", count, expected);
    }
}

/* Each two ranks begin their link at one moment, each by a send and a receive. */
static int all_at_once(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm);
    int32_t out[16], in[16];
    int bad = data_connections() != 0; /* nobody has begun a link */
    rig->shared->ready++;
    rig_until(&rig->shared->ready, n);
    bad = bad || gyre_group_start(comm);
    for (int peer = 0; peer < n && !bad; peer++) {
        out[peer] = rank * 100 + peer;
        if (peer != rank)
            bad = gyre_send(comm, &out[peer], 1, GYRE_I32, peer) ||
                  gyre_recv(comm, &in[peer], 1, GYRE_I32, peer);
    }
    bad = bad || gyre_group_end(comm);
    for (int peer = 0; peer < n && !bad; peer++)
        bad = peer != rank && in[peer] != peer * 100 + rank;
    bad = rig_check(!bad, comm, "words to and from everybody") || gyre_barrier(comm);
    if (!bad)
        await_connections(n - 1);
    rig->shared->flag++; /* nobody leaves while another one counts */
    rig_until(&rig->shared->flag, n);
    return gyre_finalize(comm) || bad;
}

static void both_ends_may_begin(void **state)
{
    (void)state;
    for (int i = 0; i < (in_haste() ? 2 : 4); i++) {
        struct rig rig = {.n = 9,
                          .transport = "tcp",
                          .poller = i % 2 ? "epoll" : NULL,
                          .before = meet_two,
                          .body = all_at_once};
        assert_int_equal(rig_run(&rig, 120), 0);
    }
}

static void large_nodes_work_together(void **state)
{
    struct rig rig = {.n = 8, .per_node = 4, .before = meet_two, .body = everything};
    (void)state;
    assert_int_equal(rig_run(&rig, 120), 0);
}

/* One node of three and one of two, dealt in turn: one is large, the other is not. */
static void a_large_node_and_a_small_one_work_together(void **state)
{
    struct rig rig = {.n = 5, .dealt = 2, .before = meet_two, .body = everything};
    (void)state;
    assert_int_equal(rig_run(&rig, 120), 0);
}

/* -- few descriptors --------------------------------------------------------------------------- */

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -1;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2; /* without ".", ".." and the folder's own */
}

static int sums(struct gyre_comm *comm, struct rig *rig)
{
    static int64_t data[3000];
    int64_t n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    (void)rig;
    for (uint64_t count = 1; count <= 3000 && !bad; count = count == 1 ? 3000 : 3001) {
        for (uint64_t i = 0; i < count; i++)
            data[i] = rank + (int64_t)i;
        bad = gyre_all_reduce(comm, data, data, count, GYRE_I64, GYRE_SUM);
        for (uint64_t i = 0; i < count && !bad; i++)
            bad = data[i] != n * (n - 1) / 2 + n * (int64_t)i;
    }
    bad = rig_check(!bad, comm, "sum");
    if (rank && open_descriptors() > DESCRIPTORS_MAX)
        bad = rig_check(false, comm, "descriptors");
    return gyre_finalize(comm) || bad;
}

static void ring_tree_doubling_and_knomial_are_right(void **state)
{
    static const char *const algorithms[] = {"ring", "tree", "doubling", "knomial"};
    (void)state;
    for (int i = 0; i < 8; i++) {
        const bool few = in_haste() && i < 7;
        if (in_haste() && i % 2 != i / 2 % 2)
            continue;
        struct rig rig = {.n = few          ? 18
                               : in_haste() ? 66
                                            : 96,
                          .transport = i % 2 ? "tcp" : "shm",
                          .algorithm = algorithms[i / 2],
                          .before = few ? meet_two : NULL,
                          .body = sums};
        assert_int_equal(rig_run(&rig, 180), 0);
    }
}

static void many_ranks_are_right(void **state)
{
    struct rig rig = {.n = in_haste() ? 66 : 256, .body = sums};
    (void)state;
    assert_int_equal(rig_run(&rig, 300), 0);
}

/* -- deaths ------------------------------------------------------------------------------------ */

static int sum_until_loss(struct gyre_comm *comm, struct rig *rig)
{
    int64_t word = 1;
    int status = 0, rank = gyre_rank(comm);
    rig->shared->ready++;
    while (!status)
        status = gyre_all_reduce(comm, &word, &word, 1, GYRE_I64, GYRE_MAX);
    rig_note(rig, comm, status, rig_now());
    (void)rank;
    struct gyre_comm *smaller = NULL;
    int bad = gyre_shrink(comm, &smaller);
    if (!bad) {
        word = 1;
        bad = gyre_all_reduce(smaller, &word, &word, 1, GYRE_I64, GYRE_SUM) || word != rig->n - 1 ||
              gyre_finalize(smaller);
    }
    return rig_check(!bad, smaller, "going on without it");
}

/* All others tell who died, and go on without it. The dead time is longer than the test waits, so
 * only the end of the process can tell. */
static void lose(int n, const char *transport, int per_node, int victim)
{
    struct rig rig = {.n = n,
                      .transport = transport,
                      .per_node = per_node,
                      .dead_ms = 600000,
                      .before = meet_two,
                      .body = sum_until_loss};
    char name[16];
    rig_start(&rig);
    rig_until(&rig.shared->ready, n);
    kill(rig.pid[victim], SIGKILL);
    assert_int_equal(rig_wait(&rig, 60, UINT64_C(1) << victim), 0);
    snprintf(name, sizeof name, "rank %d", victim);
    for (int rank = 0; rank < n; rank++)
        if (rank != victim) {
            assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
            if (!strstr(rig.shared->error[rank], name))
                fail_msg("rank %d does not name %s: %s", rank, name, rig.shared->error[rank]);
        }
    munmap(rig.shared, sizeof *rig.shared);
}

static void a_death_is_told_and_the_others_go_on(void **state)
{
    (void)state;
    lose(5, NULL, 0, 3);
    lose(5, NULL, 0, 0); /* the rank that all others have met */
    lose(6, NULL, 3, 3); /* the lowest of the other node */
    lose(6, NULL, 3, 5);
    lose(5, "tcp", 0, 0);
    lose(5, "tcp", 0, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_right),
        cmocka_unit_test(every_operation_over_tcp_is_right),
        cmocka_unit_test(both_ends_may_begin),
        cmocka_unit_test(large_nodes_work_together),
        cmocka_unit_test(a_large_node_and_a_small_one_work_together),
        cmocka_unit_test(ring_tree_doubling_and_knomial_are_right),
        cmocka_unit_test(many_ranks_are_right),
        cmocka_unit_test(a_death_is_told_and_the_others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
