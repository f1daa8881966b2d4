/* Ranks as forked children. A child joins, tries every channel it was given, writes down what
 * happened and exits; the test reads that from shared memory. A child that has not ended after a
 * minute is killed and fails the test. */
#include "program/job/join_rig.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/port.h"
#include "transport/net/address.h"
#include "rig/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t started;

void rig_setup(struct rig *rig, int n)
{
    memset(rig, 0, sizeof *rig);
    rig->n = n;
    rig->port_keeper = gyre_port_reserve(&rig->port);
    assert_true(rig->port_keeper >= 0);
    size_t bytes = RIG_RANKS * sizeof *rig->result;
    rig->result = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(rig->result, MAP_FAILED);
    for (int i = 0; i < n; i++) {
        struct rig_rank *rank = &rig->rank[i];
        rank->job = (struct gyre_job){.rank = i,
                                      .world = n,
                                      .local_rank = -1,
                                      .local_world = -1,
                                      .node_rank = -1,
                                      .authenticated = true,
                                      .root_kind = GYRE_ROOT_ADDRESS,
                                      .root_port = rig->port,
                                      .root_port_tries = 1,
                                      .launcher_fd = -1,
                                      .simulated_node = -1};
        memset(rank->job.id, 0x1d, sizeof rank->job.id);
        memset(rank->job.key, 0x4b, sizeof rank->job.key);
        memset(rank->job.key_id, 0xa1, sizeof rank->job.key_id);
        strcpy(rank->job.root_host, "127.0.0.1");
        strcpy(rank->job.source, "options");
        rank->options =
            (struct gyre_join_options){.nodes = GYRE_NODES_SHARE,
                                       .join_timeout_ms = 10000,
                                       .dead_time_ms = 5000,
                                       .connections = 2,
                                       .configuration = 7,
                                       .configuration_text = "GYRE_ALGO=ring GYRE_LANES=4"};
        rank->talk = true;
        rank->log = -1;
    }
}

/* -- what a joined child does ------------------------------------------------------------------ */

struct word {
    uint32_t from, to, channel;
};

static bool say(int fd, struct word word)
{
    return send(fd, &word, sizeof word, MSG_NOSIGNAL) == sizeof word;
}

static bool hears(int fd, struct word expected)
{
    struct word word;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t have = 0;
    while (have < sizeof word && poll(&wait, 1, 90000) == 1) {
        ssize_t n = recv(fd, (char *)&word + have, sizeof word - have, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return have == sizeof word && !memcmp(&word, &expected, sizeof word);
}

/* Every channel carries who, to whom and which one it is, so crossed or swapped channels show. */
static int channels_of(const struct gyre_peer *peer, int fd[GYRE_TCP_CONNECTIONS_MAX + 2])
{
    int count = 0;
    fd[count++] = peer->unix_fd;
    fd[count++] = peer->control;
    for (int i = 0; i < peer->tcps; i++)
        fd[count++] = peer->tcp[i];
    return count;
}

static int try_channels(const struct gyre_joined *joined)
{
    int wrong = 0, fd[GYRE_TCP_CONNECTIONS_MAX + 2];
    for (int hear = 0; hear < 2; hear++)
        for (uint32_t p = 0; p < joined->n; p++) {
            int count = channels_of(&joined->peer[p], fd);
            for (uint32_t c = 0; (int)c < count; c++)
                if (fd[c] >= 0)
                    wrong += hear ? !hears(fd[c], (struct word){p, joined->rank, c})
                                  : !say(fd[c], (struct word){joined->rank, p, c});
        }
    return wrong;
}

static void write_down(struct rig_result *result, const struct gyre_joined *joined)
{
    result->nodes = joined->nodes;
    result->node = joined->node;
    result->local_rank = joined->local_rank;
    result->local_size = joined->local_size;
    result->has_file = joined->node_file >= 0;
    memcpy(result->session_key, joined->session_key, sizeof result->session_key);
    for (uint32_t p = 0; p < joined->n && p < RIG_RANKS; p++) {
        result->node_of[p] = joined->member[p].node;
        result->tcps[p] = joined->peer[p].tcps;
        result->connected[p] = joined->peer[p].tcp[0] >= 0;
        result->port_of[p] = gyre_address_port(&joined->member[p].address);
        result->shares[p] = joined->peer[p].unix_fd >= 0 && joined->peer[p].pidfd >= 0;
    }
}

static void child(const struct rig *rig, int index)
{
    const struct rig_rank *rank = &rig->rank[index];
    struct rig_result *result = &rig->result[index];
    struct gyre_trouble trouble = {0};
    struct gyre_joined *joined = NULL;
    struct gyre_job job = rank->job;
    gyre_log_identity(rank->job.rank, rank->job.rank);
    if (rank->before)
        rank->before(rank);
    result->status = gyre_join_ranks(&job, &rank->options, &joined, &trouble);
    result->ms = (double)(gyre_now_ns() - started) / 1e6;
    snprintf(result->text, sizeof result->text, "%s", trouble.text);
    if (joined) {
        write_down(result, joined);
        result->wrong = rank->talk ? try_channels(joined) : 0;
    }
    gyre_joined_destroy(joined);
    result->returned = true;
}

void rig_start(struct rig *rig, int index)
{
    struct rig_rank *rank = &rig->rank[index];
    int log[2] = {-1, -1};
    if (!started)
        started = gyre_now_ns();
    if (rank->capture)
        assert_false(pipe(log));
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(300);
        if (rank->capture)
            dup2(log[1], STDERR_FILENO);
        child(rig, index);
        exit(0); /* not _exit: leak checkers look now */
    }
    if (rank->capture)
        close(log[1]);
    rank->log = log[0];
    rank->pid = pid;
}

bool rig_log_says(struct rig *rig, int index, const char *words)
{
    char text[8192] = "";
    size_t have = 0;
    struct pollfd wait = {.fd = rig->rank[index].log, .events = POLLIN};
    while (!strstr(text, words) && have < sizeof text - 1 && poll(&wait, 1, 90000) == 1) {
        ssize_t n = read(wait.fd, text + have, sizeof text - 1 - have);
        if (n <= 0)
            break;
        have += (size_t)n;
        text[have] = '\0';
    }
    if (!strstr(text, words))
        print_message("rank %d said only: %s\n", index, text);
    return strstr(text, words) != NULL;
}

static void check_end(int index, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return; /* the test's own doing */
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("rank %d ended with wait status 0x%x", index, (unsigned)status);
}

int rig_first_to_end(struct rig *rig)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < RIG_RANKS; i++)
        if (rig->rank[i].pid == pid) {
            rig->rank[i].pid = 0;
            check_end(i, status);
            return i;
        }
    fail_msg("no child ended");
    return -1;
}

void rig_wait(struct rig *rig)
{
    for (int i = 0; i < RIG_RANKS; i++) {
        int status;
        if (rig->rank[i].pid <= 0)
            continue;
        assert_int_equal(waitpid(rig->rank[i].pid, &status, 0), rig->rank[i].pid);
        rig->rank[i].pid = 0;
        check_end(i, status);
    }
    started = 0;
}

void rig_run(struct rig *rig)
{
    started = gyre_now_ns();
    for (int i = 0; i < rig->n; i++)
        rig_start(rig, i);
    rig_wait(rig);
}

void rig_teardown(struct rig *rig)
{
    for (int i = 0; i < RIG_RANKS; i++)
        if (rig->rank[i].log > 0)
            close(rig->rank[i].log);
    close(rig->port_keeper);
    munmap(rig->result, RIG_RANKS * sizeof *rig->result);
}
