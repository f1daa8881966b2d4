/* The rig's inside. */
#include "rig/comm_rig.h"
#include "base/port.h"
#include "rig/test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOST_S    90  /* until every survivor of a lost rank has ended */
#define LEAST_S   90  /* a starved process may stand still for half a minute */
#define IN_VAIN_S 150 /* for a word that does not come */

uint64_t rig_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int rig_slow(void)
{
    const char *slow = getenv("GYRE_TEST_SLOW");
    return slow && atoi(slow) > 0 ? atoi(slow) : 1;
}

/* Sleeps for an eighth of the time since then, between 0.1 and 4 ms: whoever waits for long wakes
 * seldom, and is late by little. */
static void sleep_since(uint64_t since_ns)
{
    uint64_t ns = (rig_now() - since_ns) / 8;
    ns = ns < 100000 ? 100000 : ns > 4000000 ? 4000000 : ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Leaves the core to the ranks that are waited for. */
void rig_until(_Atomic int *word, int value)
{
    const uint64_t since = rig_now();
    uint64_t limit = since + IN_VAIN_S * 1000000000ull * (uint64_t)rig_slow();
    for (int turn = 0; *word < value; turn++) {
        if (turn < 20)
            sched_yield();
        else
            sleep_since(since);
        if (rig_now() > limit) {
            fprintf(stderr, "waited in vain for %d, have %d\n", value, *word);
            abort();
        }
    }
}

static void note_failure(struct rig *rig, int rank, int status, uint64_t since_ns,
                         const char *story)
{
    rig->shared->took_ns[rank] = rig_now() - since_ns;
    snprintf(rig->shared->error[rank], sizeof(rig->shared->error[rank]), "%s", story);
    rig->shared->status[rank] = status;
}

void rig_note(struct rig *rig, struct gyre_comm *comm, int status, uint64_t since_ns)
{
    note_failure(rig, gyre_rank(comm), status, since_ns, gyre_error(comm));
}

static void put(const char *name, long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%ld", value);
    setenv(name, text, 1);
}

static void set_environment(const struct rig *rig, int rank, int port)
{
    static int jobs;
    char job[64];
    snprintf(job, sizeof(job), "rig-%d-%d", (int)getppid(), jobs);
    put("RANK", rank);
    put("WORLD_SIZE", rig->n);
    put("LOCAL_RANK", rank);
    put("LOCAL_WORLD_SIZE", rig->n);
    put("MASTER_PORT", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    setenv("GYRE_JOB", job, 1);
    setenv("GYRE_TRANSPORT", rig->transport ? rig->transport : "auto", 1);
    if (rig->poller)
        setenv("GYRE_TCP_POLLER", rig->poller, 1);
    if (rig->algorithm)
        setenv("GYRE_ALGO", rig->algorithm, 1);
    if (rig->per_node)
        put("GYRE_SIMULATED_NODE", rank / rig->per_node);
    if (rig->dealt)
        put("GYRE_SIMULATED_NODE", rank % rig->dealt);
}

/* A rank that crashes is to end, whatever locks it held. cmocka would have it leave by exit(). */
static void crash_plainly(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        signal(numbers[i], SIG_DFL);
}

static int be_rank(struct rig *rig, int rank, int port)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *comm;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    crash_plainly();
    set_environment(rig, rank, port);
    if (rig->before)
        rig->before(rig, rank);
    if (rig->process)
        return rig->process(rig, rank);
    options.dead_time_ms = rig->dead_ms * rig_slow();
    options.timeout_ms = rig->timeout_ms * rig_slow();
    uint64_t began = rig_now();
    int status = gyre_init(&comm, &options);
    if (status) {
        note_failure(rig, rank, status, began, gyre_error(NULL));
        fprintf(stderr, "rank %d: %s\n", rank, gyre_error(NULL));
        return 100;
    }
    return rig->body(comm, rig);
}

void rig_start(struct rig *rig)
{
    uint16_t port;
    rig->port_keeper = gyre_port_reserve(&port);
    if (rig->port_keeper < 0)
        abort();
    rig->shared =
        mmap(NULL, sizeof(*rig->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    for (int rank = 0; rank < rig->n; rank++) {
        rig->pid[rank] = fork();
        if (rig->pid[rank] == 0) {
            close(rig->port_keeper);
            int code = be_rank(rig, rank, port);
            fflush(NULL);
            _exit(code);
        }
    }
}

/* The child's end, or -1 when `limit` passes first. */
static int wait_one(pid_t pid, uint64_t limit)
{
    int status, fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {fd, POLLIN, 0};
    uint64_t now = rig_now();
    int left_ms = now < limit ? (int)((limit - now) / 1000000) : 0;
    int came = poll(&ended, 1, left_ms);
    close(fd);
    if (came <= 0)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return came <= 0 ? -1 : status;
}

static bool is_excused(uint64_t excused, int rank)
{
    return rank < 64 && excused >> rank & 1;
}

static int patient(int seconds)
{
    return seconds < LEAST_S ? LEAST_S : seconds;
}

static uint64_t limit_after(int seconds)
{
    return rig_now() + (uint64_t)seconds * 1000000000 * (uint64_t)rig_slow();
}

int rig_wait(struct rig *rig, int seconds, uint64_t excused)
{
    seconds = patient(seconds);
    uint64_t limit = limit_after(seconds);
    int bad = 0;
    for (int rank = 0; rank < rig->n; rank++) {
        if (is_excused(excused, rank))
            continue;
        int status = wait_one(rig->pid[rank], limit);
        if (status)
            fprintf(stderr, "rank %d of %d: %s %d\n", rank, rig->n,
                    status < 0            ? "hung"
                    : WIFSIGNALED(status) ? "signal"
                                          : "exit",
                    status < 0            ? seconds
                    : WIFSIGNALED(status) ? WTERMSIG(status)
                                          : WEXITSTATUS(status));
        bad += status != 0;
    }
    for (int rank = 0; rank < rig->n; rank++)
        if (is_excused(excused, rank)) {
            kill(rig->pid[rank], SIGKILL);
            waitpid(rig->pid[rank], NULL, 0);
        }
    close(rig->port_keeper);
    return bad;
}

bool rig_reach(const struct rig *rig, uint64_t number, int seconds)
{
    const uint64_t since = rig_now();
    uint64_t limit = limit_after(patient(seconds));
    for (int rank = 0; rank < rig->n; rank++)
        while (rig->shared->place[rank] < number) {
            siginfo_t ended = {0};
            waitid(P_PID, (id_t)rig->pid[rank], &ended, WEXITED | WNOHANG | WNOWAIT);
            if (ended.si_pid || rig_now() > limit)
                return false;
            sleep_since(since);
        }
    return true;
}

int rig_run(struct rig *rig, int seconds)
{
    rig_start(rig);
    int bad = rig_wait(rig, seconds, 0);
    munmap(rig->shared, sizeof(*rig->shared));
    return bad;
}

int rig_check(bool fine, struct gyre_comm *comm, const char *what)
{
    if (!fine)
        fprintf(stderr, "rank %d of %d: %s: %s\n", gyre_rank(comm), gyre_size(comm), what,
                gyre_error(comm));
    return !fine;
}

void rig_stop(struct rig *rig, int rank)
{
    int status = 0;
    kill(rig->pid[rank], SIGSTOP);
    assert_int_equal(waitpid(rig->pid[rank], &status, WUNTRACED), rig->pid[rank]);
    assert_true(WIFSTOPPED(status));
}

/* Is that word of rank 0's memory what it was? No, if the memory has gone: the operation is
 * over. */
static bool is_still(const struct rig *rig, size_t word, uint32_t before)
{
    uint32_t value = 0;
    struct iovec here = {&value, sizeof(value)};
    struct iovec there = {(void *)(rig->shared->place[0] + word * sizeof(value)), sizeof(value)};
    if (process_vm_readv(rig->pid[0], &here, 1, &there, 1, 0) == (ssize_t)sizeof(value))
        return value == before;
    if (errno != EFAULT && errno != ESRCH)
        fail_msg("cannot look at rank 0's memory: %s", strerror(errno));
    return false;
}

/* Stops a rank; false if it has ended, which it is waited for later. */
static bool can_stop(pid_t pid)
{
    siginfo_t info = {0};
    kill(pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
    return info.si_code == CLD_STOPPED;
}

bool rig_outlive_a_writer(struct rig *rig, size_t half, size_t last, uint32_t before)
{
    uint64_t limit = rig_now() + LOST_S * 1000000000ull * (uint64_t)rig_slow();
    rig_start(rig);
    rig_until(&rig->shared->ready, 3);
    while (is_still(rig, half, before))
        assert_true(rig_now() < limit);
    bool inside = can_stop(rig->pid[1]) && is_still(rig, last, before);
    if (inside)
        rig_until(&rig->shared->ready, 5);
    kill(rig->pid[1], SIGCONT);
    if (inside)
        waitpid(rig->pid[1], NULL, 0);
    rig->shared->flag = 1;
    assert_int_equal(rig_wait(rig, LOST_S, inside ? 1u << 1 : 0), 0);
    munmap(rig->shared, sizeof(*rig->shared));
    return inside;
}

int rig_run_everywhere(int n, int (*body)(struct gyre_comm *, struct rig *))
{
    int bad = rig_run(&(struct rig){.n = n, .transport = "shm", .body = body}, 60);
    bad += rig_run(&(struct rig){.n = n, .transport = "tcp", .body = body}, 60);
    return bad + rig_run(&(struct rig){.n = n, .per_node = 2, .body = body}, 60);
}

static void expect(int n, const char *transport, int (*body)(struct gyre_comm *, struct rig *),
                   int status, const char *word, const char *or_word)
{
    struct rig rig = {.n = n, .transport = transport, .body = body}; /* the dead time as it is */
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 20, 0), 0);
    for (int rank = 0; rank < n; rank++)
        if (rig.shared->status[rank] != status ||
            (!strstr(rig.shared->error[rank], word) && !strstr(rig.shared->error[rank], or_word)))
            fail_msg("rank %d: status %d, \"%s\" does not tell \"%s\"", rank,
                     rig.shared->status[rank], rig.shared->error[rank], word);
    munmap(rig.shared, sizeof(*rig.shared));
}

void rig_expect_story(int n, const char *transport, int (*body)(struct gyre_comm *, struct rig *),
                      int status, const char *word)
{
    expect(n, transport, body, status, word, word);
}

void rig_expect_mismatch(int n, const char *transport,
                         int (*body)(struct gyre_comm *, struct rig *), const char *word)
{
    expect(n, transport, body, GYRE_MISMATCH, word, ": fingerprint ");
}

void rig_lose_rank_1(struct rig *rig, int signal_number)
{
    if (signal_number == SIGKILL)
        rig->dead_ms = 2 * LOST_S * 1000;
    rig_start(rig);
    rig_until(&rig->shared->ready, 3);
    kill(rig->pid[1], signal_number);
    assert_int_equal(rig_wait(rig, LOST_S, 1u << 1), 0);
    for (int rank = 0; rank < 3; rank += 2) {
        assert_int_equal(rig->shared->status[rank], GYRE_PEER_LOST);
        if (!strstr(rig->shared->error[rank], "rank 1"))
            fail_msg("rank %d does not name rank 1: %s", rank, rig->shared->error[rank]);
    }
    munmap(rig->shared, sizeof(*rig->shared));
}

int rig_places(void)
{
    const char *list = getenv("GYRE_DEVICES");
    int places = list && *list;
    for (; list && *list; list++)
        places += *list == ',';
    return places;
}
