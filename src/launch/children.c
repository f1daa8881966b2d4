/* The crew: one loop, five phases.
 *
 *     RUNS ──exit code──▶ DOUBTS ──0.2 s──▶ LAST WORDS ──1 s──▶ ENDS ──5 s──▶ KILLED
 *       ├──────killed by a signal──────────▲                   ▲   └──second Ctrl-C──▲
 *       └──────told to end, program not found, launcher gone───┘
 *
 * Invariants: the verdict is set once, by the first failure, and what follows from it (ranks that
 * lost a peer, ranks we ended) changes neither the report nor the exit code. Whatever happens, the
 * time from the first failure to the end is bounded by the deadlines above plus the writing of
 * output.
 *
 * Every descriptor has a fixed place in the poll table; a place that is not of interest now holds
 * -1:
 *
 *     [signals][exec][out][err] [pidfd, out, err of child 0] [… of child 1] … [ear 0] [ear 1] … */
#include "launch/children_inside.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOT_SIGNALS, SLOT_EXEC, SLOT_OUT, SLOT_ERR, SLOT_CHILDREN, SLOTS_PER_CHILD = 3 };

static const int heeded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};

/* --- set-up ----------------------------------------------------------------------------------- */

/* What the caller had ignored (nohup, a shell's background job) stays ignored. */
static int open_signals(struct gyre_crew *crew)
{
    struct sigaction action;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof heeded / sizeof *heeded; i++)
        if (!sigaction(heeded[i], NULL, &action) && action.sa_handler != SIG_IGN)
            sigaddset(&set, heeded[i]);
    sigprocmask(SIG_BLOCK, &set, &crew->old_mask);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int gyre_crew_create(struct gyre_crew *crew, int children, int ears, struct gyre_trouble *trouble)
{
    size_t slots = SLOT_CHILDREN + (size_t)children * SLOTS_PER_CHILD + (size_t)ears;
    *crew = (struct gyre_crew){.children = children, .ears = ears, .verdict = {.child = -1}};
    crew->signal_fd = open_signals(crew);
    int status = gyre_group_create(&crew->group, trouble);
    if (status)
        return status;
    crew->child = calloc((size_t)children, sizeof *crew->child);
    crew->ear = calloc((size_t)ears + 1, sizeof *crew->ear);
    crew->poll = calloc(slots, sizeof *crew->poll);
    if (gyre_sink_init(&crew->out, STDOUT_FILENO) || gyre_sink_init(&crew->err, STDERR_FILENO) ||
        !crew->child || !crew->ear || !crew->poll)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to watch %d processes", children);
    for (int i = 0; i < ears; i++)
        crew->ear[i].fd = -1;
    return 0;
}

void gyre_crew_destroy(struct gyre_crew *crew)
{
    gyre_group_destroy(&crew->group);
    for (int i = 0; crew->child && i < crew->children; i++)
        gyre_child_destroy(&crew->child[i]);
    for (int i = 0; crew->ear && i < crew->ears; i++)
        gyre_ear_close(&crew->ear[i]);
    free(crew->child);
    free(crew->ear);
    free(crew->poll);
    gyre_sink_deinit(&crew->out);
    gyre_sink_deinit(&crew->err);
    if (crew->signal_fd >= 0)
        close(crew->signal_fd);
    sigprocmask(SIG_SETMASK, &crew->old_mask, NULL);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Signals that end nothing by themselves: a rank does with them what it likes. */
static bool is_passed_on(int number)
{
    return number == SIGTSTP || number == SIGCONT || number == SIGUSR1 || number == SIGUSR2;
}

static void heed(struct gyre_crew *crew, int number)
{
    char text[96];
    if (is_passed_on(number)) {
        gyre_crew_signal(crew, number);
    } else if (number == SIGKILL || (number == SIGINT && crew->phase == GYRE_CREW_ENDS)) {
        gyre_crew_kill(crew);
    } else if (crew->phase <= GYRE_CREW_LAST_WORDS) {
        snprintf(text, sizeof text, "ended by signal %d (SIG%s)", number, sigabbrev_np(number));
        gyre_crew_decide(crew, 128 + number, text, NULL);
        gyre_crew_end(crew, number);
        crew->hurried = true;
    }
}

static void read_signals(struct gyre_crew *crew)
{
    struct signalfd_siginfo info;
    while (read(crew->signal_fd, &info, sizeof info) == sizeof info) {
        heed(crew, (int)info.ssi_signo);
        if (info.ssi_signo == SIGTSTP)
            raise(SIGSTOP); /* Ctrl-Z stops us too; the SIGCONT that wakes us is passed on above */
    }
}

/* Each child that could not start its program tells the same; the first one's word is enough. */
static void read_exec_errors(struct gyre_crew *crew)
{
    int error;
    char text[sizeof crew->verdict.text];
    if (read(crew->group.exec_read, &error, sizeof error) != sizeof error || crew->verdict.code)
        return;
    snprintf(text, sizeof text, "cannot start '%.300s' on %s: %s%s", crew->program,
             gyre_host_name(), strerror(error),
             error == ENOENT && !strchr(crew->program, '/') ? " in PATH" : "");
    gyre_crew_decide(crew, error == ENOENT ? 127 : 126, text, NULL);
    gyre_crew_end(crew, SIGTERM);
}

static void read_tap(struct gyre_tap *tap)
{
    if (tap->fd >= 0 && gyre_sink_has_room(tap->sink))
        gyre_tap_read(tap);
}

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&poll_fd, 1, 0) == 1;
}

static void end_child(struct gyre_crew *crew, int index)
{
    struct gyre_child *child = &crew->child[index];
    while (readable(child->err.fd) && gyre_sink_has_room(child->err.sink))
        gyre_tap_read(&child->err);
    gyre_crew_hear_report(crew, index);
    read_exec_errors(crew);
    gyre_child_reap(child);
    crew->alive--;
    gyre_crew_judge(crew, index);
}

static void listen_to(struct gyre_crew *crew, struct gyre_ear *ear)
{
    char text[sizeof ear->name + 32];
    struct gyre_heard heard;
    gyre_ear_read(ear);
    while ((heard = gyre_ear_next(ear)).word != GYRE_WORD_NONE) {
        if (heard.word == GYRE_WORD_SIGNAL) {
            heed(crew, heard.number);
        } else if (heard.word == GYRE_WORD_FAILED) {
            gyre_crew_decide(crew, heard.number, heard.text, ear);
        } else {
            snprintf(text, sizeof text, "%s has gone", ear->name);
            gyre_crew_decide(crew, 1, text, NULL);
            gyre_crew_end(crew, SIGTERM);
        }
    }
}

static void write_sink(struct gyre_crew *crew, struct gyre_sink *sink)
{
    if (gyre_sink_write(sink) && crew->phase <= GYRE_CREW_LAST_WORDS) {
        gyre_crew_decide(crew, 128 + SIGPIPE, "nobody reads the output any more", NULL);
        gyre_crew_end(crew, SIGTERM);
    }
}

static void pass_deadline(struct gyre_crew *crew)
{
    if (!crew->deadline_ns || gyre_now_ns() < crew->deadline_ns)
        return;
    if (crew->phase == GYRE_CREW_DOUBTS) {
        gyre_crew_announce(crew, NULL);
        gyre_crew_enter(crew, GYRE_CREW_LAST_WORDS, GYRE_CREW_LAST_WORDS_MS);
    } else if (crew->phase == GYRE_CREW_LAST_WORDS) {
        gyre_crew_end(crew, SIGTERM);
    } else {
        gyre_crew_kill(crew);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static struct pollfd interest(int fd, short events, bool wanted)
{
    return (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

static nfds_t aim(struct gyre_crew *crew)
{
    struct pollfd *slot = crew->poll + SLOT_CHILDREN;
    crew->poll[SLOT_SIGNALS] = interest(crew->signal_fd, POLLIN, true);
    crew->poll[SLOT_EXEC] = interest(crew->group.exec_read, POLLIN, true);
    crew->poll[SLOT_OUT] = interest(crew->out.fd, POLLOUT, gyre_sink_pending(&crew->out));
    crew->poll[SLOT_ERR] = interest(crew->err.fd, POLLOUT, gyre_sink_pending(&crew->err));
    for (int i = 0; i < crew->children; i++) {
        const struct gyre_child *child = &crew->child[i];
        *slot++ = interest(child->pidfd, POLLIN, true);
        *slot++ = interest(child->out.fd, POLLIN, gyre_sink_has_room(&crew->out));
        *slot++ = interest(child->err.fd, POLLIN, gyre_sink_has_room(&crew->err));
    }
    for (int i = 0; i < crew->ears; i++)
        *slot++ = interest(crew->ear[i].fd, POLLIN, true);
    return (nfds_t)(slot - crew->poll);
}

static void wait_for_events(struct gyre_crew *crew)
{
    struct timespec limit = {0}, *timeout = NULL;
    nfds_t slots = aim(crew);
    if (crew->deadline_ns) {
        uint64_t now = gyre_now_ns(), left = crew->deadline_ns > now ? crew->deadline_ns - now : 0;
        limit = (struct timespec){(time_t)(left / GYRE_SECOND), (long)(left % GYRE_SECOND)};
        timeout = &limit;
    }
    if (ppoll(crew->poll, slots, timeout, NULL) < 0)
        for (nfds_t i = 0; i < slots; i++)
            crew->poll[i].revents = 0;
}

/* Children that a signal ended are seen before those that merely exited: within one turn the latter
 * are the echo. */
static void end_children(struct gyre_crew *crew, bool signalled)
{
    for (int i = 0; i < crew->children; i++) {
        siginfo_t info = {0};
        if (crew->child[i].pidfd < 0 || !crew->poll[SLOT_CHILDREN + i * SLOTS_PER_CHILD].revents)
            continue;
        waitid(P_PID, (id_t)crew->child[i].pid, &info, WEXITED | WNOWAIT);
        if (!signalled || info.si_code != CLD_EXITED)
            end_child(crew, i);
    }
}

static void handle_children(struct gyre_crew *crew)
{
    for (int i = 0; i < crew->children; i++) {
        const struct pollfd *slot = crew->poll + SLOT_CHILDREN + i * SLOTS_PER_CHILD;
        if (slot[1].revents)
            read_tap(&crew->child[i].out);
        if (slot[2].revents)
            read_tap(&crew->child[i].err);
        gyre_crew_hear_report(crew, i);
    }
    end_children(crew, true);
    end_children(crew, false);
}

static void turn(struct gyre_crew *crew)
{
    wait_for_events(crew);
    if (crew->poll[SLOT_SIGNALS].revents)
        read_signals(crew);
    if (crew->poll[SLOT_EXEC].revents)
        read_exec_errors(crew);
    handle_children(crew);
    for (int i = 0; i < crew->ears; i++)
        if (crew->poll[SLOT_CHILDREN + crew->children * SLOTS_PER_CHILD + i].revents)
            listen_to(crew, &crew->ear[i]);
    write_sink(crew, &crew->out);
    write_sink(crew, &crew->err);
    pass_deadline(crew);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Output that is already in the pipe. A process that left the group may hold it open for ever: it
 * is not waited for. */
static void drain(struct gyre_crew *crew, struct gyre_tap *tap)
{
    while (readable(tap->fd) && crew->phase != GYRE_CREW_KILLED) {
        if (gyre_sink_has_room(tap->sink))
            gyre_tap_read(tap);
        else
            turn(crew);
    }
    gyre_tap_finish(tap);
}

static void flush(struct gyre_crew *crew)
{
    while ((gyre_sink_pending(&crew->out) || gyre_sink_pending(&crew->err)) &&
           crew->phase != GYRE_CREW_KILLED)
        turn(crew);
}

/* All children have ended. A reader may take its time for what they wrote, but not when we were
 * told to end. */
static void finish(struct gyre_crew *crew)
{
    gyre_group_destroy(&crew->group); /* what the ranks left running */
    gyre_crew_enter(crew, crew->hurried ? GYRE_CREW_ENDS : GYRE_CREW_RUNS,
                    crew->hurried ? GYRE_CREW_TERM_MS : 0);
    gyre_crew_announce(crew, NULL);
    for (int i = 0; i < crew->ears; i++)
        gyre_ear_say(&crew->ear[i], "done");
    for (int i = 0; i < crew->children; i++)
        drain(crew, &crew->child[i].err);
    if (crew->verdict.code && !crew->tells_early)
        gyre_crew_report(crew);
    for (int i = 0; i < crew->children; i++)
        drain(crew, &crew->child[i].out);
    flush(crew);
}

int gyre_crew_watch(struct gyre_crew *crew)
{
    for (int i = 0; i < crew->children; i++)
        crew->alive += crew->child[i].pidfd >= 0;
    while (crew->alive)
        turn(crew);
    finish(crew);
    return crew->verdict.code;
}
