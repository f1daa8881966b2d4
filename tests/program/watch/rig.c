/* The stage of watch.c: see rig.h. */
#include "program/watch/rig.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY = 1 };

int rig_slow(void)
{
    const char *text = getenv("GYRE_TEST_SLOW");
    int factor = text != NULL ? atoi(text) : 1;

    return factor < 1 ? 1 : factor;
}

void rig_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
}

/* -- sockets ----------------------------------------------------------------------------------- */

/* A listener on loopback, at a port of its own. */
static int listen_near(struct sockaddr_storage *address)
{
    struct sockaddr_in near = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof *address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(listener, (void *)&near, sizeof near), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (void *)address, &size), 0);
    return listener;
}

/* Two ends of a TCP connection on loopback: what a control connection is. */
static void tcp_pair(int out[2])
{
    struct sockaddr_storage address;
    int listener = listen_near(&address);

    out[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(out[0], (void *)&address, sizeof(struct sockaddr_in)), 0);
    out[1] = accept(listener, NULL, NULL);
    assert_true(out[1] >= 0);
    close(listener);
}

static void make_pair(struct rig *rig, uint32_t a, uint32_t b)
{
    int ends[2] = {-1, -1};

    if (rig->node[a] == rig->node[b])
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    else if (a == 0)
        tcp_pair(ends);
    rig->pair[a][b] = ends[0];
    rig->pair[b][a] = ends[1];
}

static void make_pairs(struct rig *rig)
{
    memset(rig->pair, -1, sizeof rig->pair);
    for (uint32_t a = 0; a < rig->n; a++)
        rig->listener[a] = listen_near(&rig->address[a]);
    for (uint32_t a = 0; a < rig->n; a++)
        for (uint32_t b = a + 1; b < rig->n; b++)
            make_pair(rig, a, b);
}

/* Closes every socket that is not this rank's own; rank n (the parent) keeps none. */
static void close_others(struct rig *rig, uint32_t rank)
{
    for (uint32_t a = 0; a < rig->n; a++)
        if (a != rank)
            close(rig->listener[a]);
    for (uint32_t a = 0; a < rig->n; a++)
        for (uint32_t b = 0; b < rig->n; b++)
            if (a != rank && rig->pair[a][b] >= 0)
                close(rig->pair[a][b]);
}

/* -- a rank ------------------------------------------------------------------------------------ */

static void fill_peer(struct rig *rig, struct gyre_joined *joined, uint32_t peer)
{
    bool near = rig->node[peer] == rig->node[joined->rank];
    struct gyre_peer *to = &joined->peer[peer];

    to->unix_fd = near ? rig->pair[joined->rank][peer] : -1;
    to->control = near ? -1 : rig->pair[joined->rank][peer];
    to->pidfd = near ? (int)syscall(SYS_pidfd_open, rig->board->pid[peer], 0) : -1;
    for (int i = 0; i < GYRE_TCP_CONNECTIONS_MAX; i++)
        to->tcp[i] = -1;
}

static struct gyre_joined *make_joined(struct rig *rig, uint32_t rank)
{
    struct gyre_joined *joined = calloc(1, sizeof *joined);

    joined->rank = rank;
    joined->n = rig->n;
    joined->listener = rig->listener[rank];
    joined->member = calloc(rig->n, sizeof *joined->member);
    joined->peer = calloc(rig->n, sizeof *joined->peer);
    for (uint32_t peer = 0; peer < rig->n; peer++) {
        joined->member[peer].node = rig->node[peer];
        joined->member[peer].pid = rig->board->pid[peer];
        joined->member[peer].address = rig->address[peer];
        snprintf(joined->member[peer].host, sizeof joined->member[peer].host, "host%u",
                 rig->node[peer]);
        if (peer != rank)
            fill_peer(rig, joined, peer);
    }
    return joined;
}

static void free_joined(struct gyre_joined *joined)
{
    free(joined->member);
    free(joined->peer);
    free(joined);
}

void rig_tell(struct rig_rank *me, int phase)
{
    atomic_store(&me->board->seat[me->rank].phase, phase);
}

void rig_await_go(struct rig_rank *me, int go)
{
    while (atomic_load(&me->board->go) < go)
        rig_pause();
}

int rig_await_health(struct rig_rank *me)
{
    struct rig_seat *seat = &me->board->seat[me->rank];
    int status;

    while ((status = atomic_load_explicit(&me->health.status, memory_order_acquire)) == 0)
        rig_pause();
    seat->failed_at = gyre_now_ns();
    seat->failed_rank = me->health.failed_rank;
    memcpy(seat->text, me->health.failure.text, sizeof seat->text);
    atomic_store(&seat->status, status);
    return status;
}

static void live(struct rig *rig, uint32_t rank)
{
    struct gyre_job job = {.rank = (int)rank,
                           .world = (int)rig->n,
                           .epoch = 1,
                           .launcher_fd = rank < rig->launched ? rig->launcher_pipe[0] : -1};
    struct rig_rank me = {.rig = rig, .rank = rank, .board = rig->board};
    struct gyre_trouble trouble = {0};

    close_others(rig, rank);
    if (rig->launched)
        close(rig->launcher_pipe[1]);
    rig_await_go(&me, 1);
    me.joined = make_joined(rig, rank);
    struct gyre_watch_options options = {
        .job = &job,
        .joined = me.joined,
        .dead_time_ms = rig->dead_time_ms,
        .timeout_ms = rig->timeout_ms,
        .activity = &rig->board->activity[rank],
        .health = &me.health,
        .bell = {.word = &rig->board->bell[rank], .eventfd = -1},
    };
    if (gyre_watch_start(&options, &me.watch, &trouble) != 0) {
        fprintf(stderr, "rank %u: %s\n", rank, trouble.text);
        _exit(100);
    }
    rig_tell(&me, READY);
    rig_await_go(&me, 2);
    rig->play(&me);
    gyre_watch_stop(me.watch);
    free_joined(me.joined);
}

/* -- the parent -------------------------------------------------------------------------------- */

static void spawn(struct rig *rig, uint32_t rank)
{
    pid_t parent = getpid(), pid = fork();

    assert_true(pid >= 0);
    if (pid > 0) {
        rig->board->pid[rank] = pid;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(101);
    live(rig, rank);
    exit(0); /* not _exit(): sanitizers look for leaks at the end */
}

void rig_start(struct rig *rig)
{
    rig->board =
        mmap(NULL, sizeof *rig->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(rig->board != MAP_FAILED);
    if (rig->launched)
        assert_int_equal(pipe(rig->launcher_pipe), 0);
    make_pairs(rig);
    for (uint32_t rank = 0; rank < rig->n; rank++)
        spawn(rig, rank);
    close_others(rig, rig->n);
    if (rig->launched)
        close(rig->launcher_pipe[0]);
    atomic_store(&rig->board->go, 1);
    for (uint32_t rank = 0; rank < rig->n; rank++)
        rig_await_phase(rig, rank, READY);
    atomic_store(&rig->board->go, 2);
}

void rig_kill(struct rig *rig, uint32_t rank, int signal)
{
    siginfo_t stopped;
    assert_int_equal(kill(rig->board->pid[rank], signal), 0);
    if (signal == SIGSTOP) /* no thread of it runs on for a moment */
        assert_int_equal(waitid(P_PID, (id_t)rig->board->pid[rank], &stopped, WSTOPPED), 0);
}

void rig_end_launcher(struct rig *rig)
{
    close(rig->launcher_pipe[1]);
    rig->launcher_pipe[1] = -1;
}

int rig_exit_code(struct rig *rig, uint32_t rank)
{
    int status;

    while (waitpid(rig->board->pid[rank], &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    rig->board->pid[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void rig_finish(struct rig *rig)
{
    for (uint32_t rank = 0; rank < rig->n; rank++) {
        if (rig->board->pid[rank] == 0)
            continue;
        rig_kill(rig, rank, SIGKILL);
        rig_exit_code(rig, rank);
    }
    if (rig->launched && rig->launcher_pipe[1] >= 0)
        rig_end_launcher(rig);
    munmap(rig->board, sizeof *rig->board);
}

static void await(struct rig *rig, const _Atomic int *word, int least, uint32_t rank,
                  const char *what)
{
    uint64_t limit = gyre_now_ns() + RIG_AWAIT_S * (uint64_t)rig_slow() * GYRE_SECOND;

    while (least != 0 ? atomic_load(word) < least : atomic_load(word) == 0) {
        if (gyre_now_ns() > limit) {
            for (uint32_t i = 0; i < rig->n; i++)
                if (rig->board->pid[i] != 0)
                    kill(rig->board->pid[i], SIGKILL);
            fail_msg("rank %u: no %s within %d s", rank, what, RIG_AWAIT_S * rig_slow());
        }
        rig_pause();
    }
}

void rig_await_phase(struct rig *rig, uint32_t rank, int phase)
{
    await(rig, &rig->board->seat[rank].phase, phase, rank, "next phase");
}

void rig_await_failure(struct rig *rig, uint32_t rank)
{
    await(rig, &rig->board->seat[rank].status, 0, rank, "failure");
}
