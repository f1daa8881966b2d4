/* Somebody on the path between two machines. Two ranks run in two network namespaces. All that one
 * sends to the other goes through a proxy in this process's namespace, which takes it for its own,
 * connects to where it was meant for, and passes the bytes on: flipped, dropped, repeated, in
 * another order. Each rank is told. Skipped where namespaces are not permitted.
 *
 *     rank 0 ── way ── port0 [ proxy ] port1 ── way ── rank 1 */
#include "rig/beside.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEET  29500 /* of the control connection; data connections have a port of the range */
#define PORTS 6     /* from MEET on */
#define COUNT 100000
#define CHUNK 16384

static const char set_up[] =
    "exec 2>/dev/null; mount -t tmpfs tmpfs /run && mkdir /run/netns &&"
    "ip link set lo up && ip route add local default dev lo table 100 && for i in 0 1; do"
    "  ip netns add rank$i && ip link add port$i type veth peer name way netns rank$i &&"
    "  ip address add 10.78.$i.1/24 dev port$i && ip link set port$i up &&"
    "  ip rule add iif port$i lookup 100 && ip -n rank$i link set lo up &&"
    "  ip -n rank$i address add 10.78.$i.2/24 dev way && ip -n rank$i link set way up &&"
    "  ip -n rank$i route add default via 10.78.$i.1 || exit 1; done";

/* -- the proxy --------------------------------------------------------------------------------- */

enum act { PASS, FLIP, DROP, REPEAT, SWAP };

/* What the proxy does to the connections of one sort, in both directions, and what it sees. */
struct plan {
    enum act act;
    bool control;
    long after; /* bytes of a direction that pass as they are */
};

struct seen {
    _Atomic bool done;   /* the act */
    _Atomic long values; /* inputs of the all-reduce that could be read on the way */
};

struct way {
    int from, to;
    bool control;
    struct way *back; /* the other direction, whose thread does not close */
};

static struct plan plan;
static struct seen *seen;

static bool put(int fd, const char *bytes, ssize_t length)
{
    for (ssize_t sent; length > 0; bytes += sent, length -= sent)
        if ((sent = send(fd, bytes, (size_t)length, MSG_NOSIGNAL)) < 0)
            return false;
    return true;
}

/* Fills the chunk, so that what follows in the stream is there to be swapped. */
static ssize_t fill(int fd, char *bytes, ssize_t length)
{
    ssize_t have = 0, got = 1;
    while (have < length && (got = recv(fd, bytes + have, (size_t)(length - have), 0)) > 0)
        have += got;
    return have;
}

static bool pass_on(const struct way *way, char *bytes, ssize_t length, enum act act)
{
    ssize_t half = length / 2;
    if (act == FLIP)
        bytes[half] ^= 4;
    if (act == DROP)
        return put(way->to, bytes, half) && put(way->to, bytes + half + 1, length - half - 1);
    if (act == REPEAT)
        return put(way->to, bytes, length) && put(way->to, bytes, length);
    if (act == SWAP)
        return put(way->to, bytes + half, length - half) && put(way->to, bytes, half);
    return put(way->to, bytes, length);
}

static void count_values(const char *bytes, ssize_t length)
{
    static const float values[4] = {1.25f, 1.25f, 1.25f, 1.25f};
    seen->values += memmem(bytes, (size_t)length, values, sizeof values) != NULL;
}

static void *carry(void *argument)
{
    const struct way *way = argument;
    char bytes[CHUNK];
    long passed = 0;
    for (ssize_t got; (got = recv(way->from, bytes, sizeof bytes, 0)) > 0; passed += got) {
        enum act act = PASS;
        if (plan.act && way->control == plan.control && passed >= plan.after && !seen->done) {
            if (!plan.control)
                got += fill(way->from, bytes + got, CHUNK - got);
            act = plan.act;
            seen->done = true;
        }
        count_values(bytes, got);
        if (!pass_on(way, bytes, got, act))
            break;
    }
    shutdown(way->to, SHUT_WR);
    return NULL;
}

/* Connects to where the accepted connection was meant for, and carries both ways. */
static void join_ends(int fd)
{
    struct sockaddr_in meant;
    socklen_t length = sizeof meant;
    struct way *way = calloc(2, sizeof *way);
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    if (!way || getsockname(fd, (struct sockaddr *)&meant, &length) ||
        connect(to, (struct sockaddr *)&meant, length)) {
        close(fd);
        close(to);
        free(way);
        return;
    }
    bool control = ntohs(meant.sin_port) == MEET;
    way[0] = (struct way){.from = fd, .to = to, .control = control};
    way[1] = (struct way){.from = to, .to = fd, .control = control};
    for (int i = 0; i < 2; i++)
        if (!pthread_create(&thread, NULL, carry, &way[i]))
            pthread_detach(thread);
}

static int listen_at(int port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof one) ||
        bind(fd, (struct sockaddr *)&any, sizeof any) || listen(fd, 16))
        _exit(77);
    return fd;
}

static void *serve(void *argument)
{
    int listener = *(int *)argument;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;)
        join_ends(fd);
    return NULL;
}

static pid_t start_proxy(void)
{
    int ready[2], status = pipe(ready);
    fflush(NULL);
    pid_t pid = status ? -1 : fork();
    if (pid == 0) {
        static int listener[PORTS];
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < PORTS; i++) {
            listener[i] = listen_at(MEET + i);
            if (pthread_create(&thread, NULL, serve, &listener[i]))
                _exit(77);
        }
        if (write(ready[1], "", 1) == 1)
            for (;;)
                pause();
        _exit(77);
    }
    char byte;
    close(ready[1]);
    assert_true(pid > 0 && read(ready[0], &byte, 1) == 1); /* it listens */
    close(ready[0]);
    return pid;
}

/* -- the job ----------------------------------------------------------------------------------- */

static const char *security;

static void enter_namespace(const struct rig *rig, int rank)
{
    char path[64], value[32];
    (void)rig;
    snprintf(path, sizeof path, "/run/netns/rank%d", rank);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        abort();
    close(fd);
    snprintf(value, sizeof value, "%d-%d", MEET + 1, MEET + PORTS - 1);
    setenv("GYRE_PORT_RANGE", value, 1);
    setenv("GYRE_TCP_SECURITY", security, 1);
    setenv("GYRE_JOIN_TIMEOUT", "6s", 1);
    setenv("MASTER_ADDR", "10.78.0.2", 1);
    setenv("MASTER_PORT", "29500", 1);
}

/* What stands at place i beside the rank's own number: no two neighbours of 4 elements are alike,
 * so that the order of bytes matters. */
static float part_of(int i)
{
    return (float)(i / 4 % 61);
}

/* Sums until a call fails, or the test has seen enough. The flag travels as rank 0's summand. */
static int sum(struct gyre_comm *comm, struct rig *rig)
{
    static float data[COUNT];
    int rank = gyre_rank(comm), status = 0;
    for (float total = 2.5f; total == 2.5f && !status;) {
        uint64_t since = rig_now();
        float mine = !rank && rig->shared->flag ? 9 : 1.25f;
        for (int i = 0; i < COUNT; i++)
            data[i] = mine + part_of(i);
        status = gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
        total = data[0];
        for (int i = 0; i < COUNT && !status; i++)
            if (data[i] != total + 2 * part_of(i) || (total != 2.5f && total != 10.25f))
                return 1;
        if (status)
            rig_note(rig, comm, status, since);
        rig->shared->ready += rank == 0;
    }
    gyre_finalize(comm);
    return 0;
}

static struct rig start_job(const char *how, struct plan what, pid_t *proxy)
{
    struct rig rig = {.n = 2,
                      .transport = "tcp",
                      .per_node = 1,
                      .dead_ms = 5000,
                      .before = enter_namespace,
                      .body = sum};
    security = how;
    plan = what;
    *seen = (struct seen){0};
    *proxy = start_proxy();
    rig_start(&rig);
    return rig;
}

static void end_proxy(pid_t proxy)
{
    kill(proxy, SIGKILL);
    assert_int_equal(waitpid(proxy, NULL, 0), proxy);
}

static void expect_corrupt(const char *how, struct plan what)
{
    pid_t proxy;
    struct rig rig = start_job(how, what, &proxy);
    const char *told =
        strcmp(how, "none") == 0 ? "not what the peer sent" : "altered, repeated or dropped";
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    end_proxy(proxy);
    assert_true(seen->done);
    for (int rank = 0; rank < 2; rank++) {
        if (rig.shared->status[rank] != GYRE_CORRUPT || !strstr(rig.shared->error[rank], told))
            fail_msg("%s, act %d on %s, rank %d: %d, %s", how, what.act,
                     what.control ? "control" : "data", rank, rig.shared->status[rank],
                     rig.shared->error[rank]);
    }
    munmap(rig.shared, sizeof *rig.shared);
}

/* Sums find damage; who changes data on purpose can make them right. */
static void altered_data_is_told(void **state)
{
    (void)state;
    expect_corrupt("none", (struct plan){FLIP, false, 1000000});
    for (enum act act = FLIP; act <= SWAP; act++) {
        expect_corrupt("auth", (struct plan){act, false, 1000000});
        expect_corrupt("encrypt", (struct plan){act, false, 1000000});
    }
}

/* Beats and stories of the watch. */
static void altered_control_is_told(void **state)
{
    (void)state;
    for (enum act act = FLIP; act <= REPEAT; act++)
        expect_corrupt("auth", (struct plan){act, true, 3000});
}

/* The proofs of the handshake are of all that was said. A rank that is refused tries again, or the
 * ranks give up when the time to join is over. */
static void altered_handshake_is_refused(void **state)
{
    (void)state;
    for (long after = 0; after < 3; after++) {
        pid_t proxy;
        uint64_t since = rig_now();
        struct rig rig = start_job("auth", (struct plan){FLIP, true, after}, &proxy);
        rig.shared->flag = 1;
        int bad = rig_wait(&rig, 60, 0);
        assert_true(bad == 0 || bad == 2);
        assert_true(rig_now() - since < 50 * 1000000000ull * (uint64_t)rig_slow()); /* no hang */
        assert_true(seen->done);
        end_proxy(proxy);
        munmap(rig.shared, sizeof *rig.shared);
    }
}

static void only_encryption_hides_values(void **state)
{
    static const char *const how[] = {"none", "auth", "encrypt"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        pid_t proxy;
        struct rig rig = start_job(how[i], (struct plan){PASS, false, 0}, &proxy);
        rig_until(&rig.shared->ready, 10);
        rig.shared->flag = 1;
        assert_int_equal(rig_wait(&rig, 60, 0), 0);
        assert_int_equal(rig.shared->status[0] | rig.shared->status[1], 0);
        end_proxy(proxy);
        assert_true((seen->values > 0) == (i < 2));
        munmap(rig.shared, sizeof *rig.shared);
    }
}

static int make_machines(void **state)
{
    (void)state;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool made = seen != MAP_FAILED && unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 &&
                system("mount --make-rprivate / 2>/dev/null") == 0 && system(set_up) == 0;
    return made ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(altered_handshake_is_refused),
        cmocka_unit_test(only_encryption_hides_values),
        cmocka_unit_test(altered_data_is_told),
        cmocka_unit_test(altered_control_is_told),
    };
    if (make_machines(NULL)) {
        printf("skipped: no network namespaces with routes of their own can be made here\n");
        return 77;
    }
    return run_beside(tests, sizeof tests / sizeof *tests, make_machines);
}
