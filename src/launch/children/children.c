/* All children: one loop, five phases.
 *
 *     RUNS ──exit code──▶ DOUBTS ──0.2 s──▶ LAST WORDS ──1 s──▶ ENDS ──5 s──▶ KILLED
 *       ├──────killed by a signal──────────▲                   ▲   └──second Ctrl-C──▲
 *       └──────told to end, program not found, launcher gone───┘
 *
 *     all have ended ──▶ the launchers agree whether to start again ──▶ report ──▶ PAUSES
 *
 * Invariants: the first failure decides the report and the exit code. Its consequences (ranks that
 * lost a peer, ranks that the launcher ended) change neither. The time from the first failure to
 * the end is bounded by the deadlines above plus the writing of output.
 *
 * Every descriptor has a fixed place in the poll table. A place holds -1 while it is not watched:
 *
 *     [signals][exec][out][err] [pidfd, out, err of child 0] [… of child 1] … [line 0] [line 1] …
 *
 * Tested by tests/program/launch/launch.c. */
#include "launch/children/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/open_files.h"
#include "base/machine/starved.h"
#include "transport/recorder/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOT_SIGNALS, SLOT_EXEC, SLOT_OUT, SLOT_ERR, SLOT_CHILDREN, SLOTS_PER_CHILD = 3 };

/* pidfd, both outputs, their logs, the input. Spare: standard streams, pipes, inherited ones. */
enum { OPEN_FILES_PER_CHILD = 6, OPEN_FILES_SPARE = 64 };
enum { REST_READS = 64 };

static const int heeded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};

/* --- set-up ----------------------------------------------------------------------------------- */

/* Signals that the caller ignored (nohup, a background job of a shell) stay ignored, but for a
 * SIGHUP that has a meaning of its own. */
static int open_signals(struct gyre_children *all)
{
    struct sigaction action;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof heeded / sizeof *heeded; i++)
        if (!sigaction(heeded[i], NULL, &action) &&
            (action.sa_handler != SIG_IGN || (all->rereads && heeded[i] == SIGHUP)))
            sigaddset(&set, heeded[i]);
    if (all->rereads && !sigaction(SIGHUP, NULL, &action) && action.sa_handler == SIG_IGN)
        signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, &all->old_mask);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int gyre_children_create(struct gyre_children *all, const struct gyre_children_wish *wish,
                         struct gyre_trouble *trouble)
{
    const int room = wish->room, launcher_lines = wish->launcher_lines;
    size_t slots = SLOT_CHILDREN + (size_t)room * SLOTS_PER_CHILD + (size_t)launcher_lines;
    *all = (struct gyre_children){.children = wish->children,
                                  .room = room,
                                  .launcher_lines = launcher_lines,
                                  .rereads = wish->rereads,
                                  .leaves = wish->leaves,
                                  .first_failure = {.child = -1},
                                  .starved = gyre_starved_count("")};
    gyre_open_files_allow(OPEN_FILES_PER_CHILD * (rlim_t)room + (rlim_t)launcher_lines +
                              OPEN_FILES_SPARE,
                          &all->group.files);
    all->signal_fd = open_signals(all);
    int status = gyre_process_group_create(&all->group, trouble);
    if (status)
        return status;
    all->child = calloc((size_t)room, sizeof *all->child);
    all->launcher_line = calloc((size_t)launcher_lines + 1, sizeof *all->launcher_line);
    all->poll = calloc(slots, sizeof *all->poll);
    if (gyre_sink_init(&all->out, STDOUT_FILENO) || gyre_sink_init(&all->err, STDERR_FILENO) ||
        !all->child || !all->launcher_line || !all->poll)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to watch %d processes", room);
    for (int i = 0; i < launcher_lines; i++)
        all->launcher_line[i].fd = -1;
    return 0;
}

void gyre_children_destroy(struct gyre_children *all)
{
    gyre_process_group_destroy(&all->group);
    for (int i = 0; all->child && i < all->children; i++)
        gyre_child_destroy(&all->child[i]);
    for (int i = 0; all->launcher_line && i < all->launcher_lines; i++)
        gyre_launcher_line_close(&all->launcher_line[i]);
    free(all->child);
    free(all->launcher_line);
    free(all->poll);
    gyre_sink_deinit(&all->out);
    gyre_sink_deinit(&all->err);
    if (all->signal_fd >= 0)
        close(all->signal_fd);
    sigprocmask(SIG_SETMASK, &all->old_mask, NULL);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Signals that do not end the launcher; each rank decides what they mean. */
static bool is_passed_on(int number)
{
    return number == SIGTSTP || number == SIGCONT || number == SIGUSR1 || number == SIGUSR2;
}

static void heed_signal(struct gyre_children *all, int number)
{
    char text[96];
    if (is_passed_on(number)) {
        gyre_children_signal(all, number);
        return;
    }
    if (number == SIGHUP && all->rereads) {
        all->reread = all->changed = true;
        return;
    }
    if (number == SIGHUP && all->leaves && all->elastic.least) {
        gyre_change_leave(all);
        return;
    }
    all->for_good = true;
    if (number == SIGKILL || (number == SIGINT && all->phase == GYRE_CHILDREN_ENDS)) {
        gyre_children_kill(all);
    } else if (all->phase <= GYRE_CHILDREN_LAST_WORDS || all->phase == GYRE_CHILDREN_PAUSES) {
        snprintf(text, sizeof text, "ended by signal %d (SIG%s)", number, sigabbrev_np(number));
        gyre_children_decide(all, 128 + number, text, NULL);
        gyre_children_end(all, number);
        all->hurried = true;
    }
}

static void read_signals(struct gyre_children *all)
{
    struct signalfd_siginfo info;
    while (read(all->signal_fd, &info, sizeof info) == sizeof info) {
        heed_signal(all, (int)info.ssi_signo);
        if (info.ssi_signo == SIGTSTP)
            /* Ctrl-Z stops the launcher, too; the SIGCONT that wakes it is passed on above. */
            raise(SIGSTOP);
    }
}

/* What to do where a program cannot be started. A program without '/' is looked for in PATH. */
static void advise_start(const char *program, int error, char *text, size_t room)
{
    bool plain = !strchr(program, '/');
    struct stat file;
    if (plain && error == ENOENT && access(program, F_OK) == 0)
        snprintf(text, room, " in PATH; did you mean './%.300s'?", program);
    else if (plain && error == ENOENT)
        snprintf(text, room, " in PATH");
    else if (error == EACCES && stat(program, &file) == 0 && S_ISDIR(file.st_mode))
        snprintf(text, room, "; it is a folder");
    else if (error == EACCES && access(program, R_OK) == 0)
        snprintf(text, room,
                 "; make it executable (chmod +x), or name what runs it: python3 %.300s", program);
}

/* Each child that could not start its program tells the same; the first one's word is enough. Where
 * ranks have been started before, one that cannot be is a loss. */
static void read_exec_errors(struct gyre_children *all)
{
    int error;
    char text[sizeof all->first_failure.text];
    if (read(all->group.exec_read, &error, sizeof error) != sizeof error ||
        all->first_failure.code || all->elastic.came)
        return;
    snprintf(text, sizeof text, "cannot start '%.300s' on %s: %s", all->program, gyre_host_name(),
             strerror(error));
    advise_start(all->program, error, text + strlen(text), sizeof text - strlen(text));
    gyre_children_decide(all, error == ENOENT ? 127 : 126, text, NULL);
    gyre_children_end(all, SIGTERM);
}

static void read_tap(struct gyre_line_tap *tap)
{
    if (tap->fd >= 0 && gyre_sink_has_room(tap->sink))
        gyre_line_tap_read(tap);
}

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&poll_fd, 1, 0) == 1;
}

static void end_child(struct gyre_children *all, int index)
{
    struct gyre_child *child = &all->child[index];
    while (readable(child->err.fd) && gyre_sink_has_room(child->err.sink)) {
        gyre_line_tap_read(&child->err);
        gyre_children_hear_report(all, index);
    }
    read_exec_errors(all);
    gyre_child_reap(child);
    if (child->status && child->records >= 0 && all->phase <= GYRE_CHILDREN_LAST_WORDS)
        gyre_record_place_keep(child->records,
                               WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0);
    all->alive--;
    gyre_children_judge(all, index);
}

static void hear_loss(struct gyre_children *all, struct gyre_launcher_line *teller,
                      const struct gyre_heard *heard)
{
    struct gyre_lost_ranks loss = {.node = heard->node,
                                   .ranks = heard->ranks,
                                   .code = heard->number,
                                   .text = heard->text,
                                   .missed = heard->ranks == 0};
    if (heard->node == teller->node)
        teller->lost += heard->ranks;
    if (all->elastic.least)
        gyre_children_lose(all, &loss, teller);
}

static void hear_return(struct gyre_children *all, struct gyre_launcher_line *teller,
                        const struct gyre_heard *heard)
{
    struct gyre_lost_ranks back = {.node = heard->node, .ranks = heard->ranks, .text = heard->text};
    if (heard->node == teller->node) {
        teller->lost -= heard->ranks;
        teller->awaited -= teller->awaited > 0;
    }
    if (all->elastic.least)
        gyre_children_regain(all, &back, teller);
}

static bool is_of_lost_ranks(enum gyre_word word)
{
    return word == GYRE_WORD_RESTART || word == GYRE_WORD_FORGET || word == GYRE_WORD_WELL ||
           word == GYRE_WORD_CLOSING;
}

static void listen_to_launcher(struct gyre_children *all, struct gyre_launcher_line *launcher_line)
{
    char text[sizeof launcher_line->name + 32];
    struct gyre_heard heard;
    gyre_launcher_line_read(launcher_line);
    while ((heard = gyre_launcher_line_next(launcher_line)).word != GYRE_WORD_NONE) {
        if (heard.word == GYRE_WORD_SIGNAL) {
            heed_signal(all, heard.number);
        } else if (heard.word == GYRE_WORD_FAILED) {
            gyre_children_decide(all, heard.number, heard.text, launcher_line);
        } else if (heard.word == GYRE_WORD_LOST) {
            hear_loss(all, launcher_line, &heard);
        } else if (heard.word == GYRE_WORD_BACK) {
            hear_return(all, launcher_line, &heard);
        } else if (heard.word == GYRE_WORD_LEAVE) {
            gyre_change_leave(all);
        } else if (is_of_lost_ranks(heard.word)) {
            gyre_again_hear(all, &heard);
        } else if (heard.word == GYRE_WORD_GONE && all->phase != GYRE_CHILDREN_PAUSES) {
            if (gyre_children_lose_launcher(all, launcher_line))
                continue;
            snprintf(text, sizeof text, "%s has gone", launcher_line->name);
            gyre_children_decide(all, 1, text, NULL);
            if (all->alive)
                gyre_children_end(all, SIGTERM);
        } else {
            gyre_restart_hear(all, launcher_line, heard.word);
        }
    }
}

static void write_sink(struct gyre_children *all, struct gyre_sink *sink)
{
    char text[96];
    int status = gyre_sink_write(sink);
    if (!status || all->phase > GYRE_CHILDREN_LAST_WORDS)
        return;
    if (status == -EPIPE)
        snprintf(text, sizeof text, "nobody reads the output any more");
    else
        snprintf(text, sizeof text, "cannot write the output: %s", strerror(-status));
    all->for_good = true;
    gyre_children_decide(all, status == -EPIPE ? 128 + SIGPIPE : 1, text, NULL);
    gyre_children_end(all, SIGTERM);
}

static void pass_deadline(struct gyre_children *all)
{
    if (!all->deadline_ns || gyre_now_ns() < all->deadline_ns)
        return;
    if (all->phase == GYRE_CHILDREN_DOUBTS) {
        gyre_children_announce(all, NULL);
        gyre_children_enter(all, GYRE_CHILDREN_LAST_WORDS, GYRE_CHILDREN_LAST_WORDS_MS);
    } else if (all->phase == GYRE_CHILDREN_LAST_WORDS) {
        gyre_children_end(all, SIGTERM);
    } else if (all->phase == GYRE_CHILDREN_PAUSES) {
        gyre_children_enter(all, GYRE_CHILDREN_RUNS, 0);
    } else {
        gyre_children_kill(all);
    }
}

/* --- the loop --------------------------------------------------------------------------------- */

static struct pollfd poll_entry(int fd, short events, bool wanted)
{
    return (struct pollfd){.fd = wanted ? fd : -1, .events = events};
}

static nfds_t aim(struct gyre_children *all)
{
    struct pollfd *slot = all->poll + SLOT_CHILDREN;
    all->poll[SLOT_SIGNALS] = poll_entry(all->signal_fd, POLLIN, true);
    all->poll[SLOT_EXEC] = poll_entry(all->group.exec_read, POLLIN, true);
    all->poll[SLOT_OUT] = poll_entry(all->out.fd, POLLOUT, gyre_sink_pending(&all->out));
    all->poll[SLOT_ERR] = poll_entry(all->err.fd, POLLOUT, gyre_sink_pending(&all->err));
    for (int i = 0; i < all->children; i++) {
        const struct gyre_child *child = &all->child[i];
        *slot++ = poll_entry(child->pidfd, POLLIN, true);
        *slot++ = poll_entry(child->out.fd, POLLIN, gyre_sink_has_room(&all->out));
        *slot++ = poll_entry(child->err.fd, POLLIN, gyre_sink_has_room(&all->err));
    }
    for (int i = 0; i < all->launcher_lines; i++)
        *slot++ = poll_entry(all->launcher_line[i].fd, POLLIN, true);
    return (nfds_t)(slot - all->poll);
}

/* When something is to be done, also if nothing happens; 0: nothing is. */
static uint64_t next_deadline_ns(const struct gyre_children *all)
{
    uint64_t again = gyre_again_next_ns(all), hurry = gyre_change_next_ns(all);
    if (all->deadline_ns)
        return all->deadline_ns;
    return !again || (hurry && hurry < again) ? hurry : again;
}

static void wait_for_events(struct gyre_children *all)
{
    struct timespec limit = {0}, *timeout = NULL;
    nfds_t slots = aim(all);
    uint64_t deadline = next_deadline_ns(all);
    if (deadline) {
        uint64_t now = gyre_now_ns(), left = deadline > now ? deadline - now : 0;
        limit = (struct timespec){(time_t)(left / GYRE_SECOND), (long)(left % GYRE_SECOND)};
        timeout = &limit;
    }
    if (ppoll(all->poll, slots, timeout, NULL) < 0)
        for (nfds_t i = 0; i < slots; i++)
            all->poll[i].revents = 0;
}

/* Visits children that a signal ended before children that exited: children that both ended within
 * one turn of the loop are likely to be a death and its consequences. */
static void end_children(struct gyre_children *all, bool signalled)
{
    for (int i = 0; i < all->children; i++) {
        siginfo_t info = {0};
        if (all->child[i].pidfd < 0 || !all->poll[SLOT_CHILDREN + i * SLOTS_PER_CHILD].revents)
            continue;
        waitid(P_PID, (id_t)all->child[i].pid, &info, WEXITED | WNOWAIT);
        if (!signalled || info.si_code != CLD_EXITED)
            end_child(all, i);
    }
}

static void handle_children(struct gyre_children *all)
{
    for (int i = 0; i < all->children; i++) {
        const struct pollfd *slot = all->poll + SLOT_CHILDREN + i * SLOTS_PER_CHILD;
        if (slot[1].revents)
            read_tap(&all->child[i].out);
        if (slot[2].revents)
            read_tap(&all->child[i].err);
        gyre_children_hear_report(all, i);
    }
    end_children(all, true);
    end_children(all, false);
}

static void watch_turn(struct gyre_children *all)
{
    wait_for_events(all);
    if (all->poll[SLOT_SIGNALS].revents)
        read_signals(all);
    if (all->poll[SLOT_EXEC].revents)
        read_exec_errors(all);
    handle_children(all);
    for (int i = 0; i < all->launcher_lines; i++)
        if (all->poll[SLOT_CHILDREN + all->children * SLOTS_PER_CHILD + i].revents)
            listen_to_launcher(all, &all->launcher_line[i]);
    write_sink(all, &all->out);
    write_sink(all, &all->err);
    pass_deadline(all);
    gyre_change_hurry(all);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Takes the output that is already in the pipe. A process that left the group may hold the pipe
 * open for ever, and is not waited for. */
static void drain_output(struct gyre_children *all, struct gyre_line_tap *tap)
{
    while (readable(tap->fd) && all->phase != GYRE_CHILDREN_KILLED) {
        if (gyre_sink_has_room(tap->sink))
            gyre_line_tap_read(tap);
        else
            watch_turn(all);
    }
    gyre_line_tap_finish(tap);
}

static void flush_output(struct gyre_children *all)
{
    while ((gyre_sink_pending(&all->out) || gyre_sink_pending(&all->err)) &&
           all->phase != GYRE_CHILDREN_KILLED)
        watch_turn(all);
}

/* Runs when all children have ended. Readers of the output get as much time as they need unless a
 * signal asked for the end. */
static void finish_children(struct gyre_children *all)
{
    gyre_process_group_destroy(&all->group); /* ends processes that the ranks left running */
    gyre_children_enter(all, all->hurried ? GYRE_CHILDREN_ENDS : GYRE_CHILDREN_RUNS,
                        all->hurried ? GYRE_CHILDREN_TERM_MS : 0);
    gyre_children_announce(all, NULL);
    gyre_restart_ask(all);
    for (int i = 0; i < all->children; i++)
        drain_output(all, &all->child[i].err);
    while (gyre_restart_is_open(all))
        watch_turn(all);
    if (all->first_failure.code && !all->tells_early)
        gyre_children_report(all);
    for (int i = 0; i < all->children; i++)
        drain_output(all, &all->child[i].out);
    flush_output(all);
}

/* A signal may end the pause, and with it the job; so may another launcher. */
static void pause_before_start(struct gyre_children *all)
{
    if (all->restarts.pause_ms)
        gyre_children_enter(all, GYRE_CHILDREN_PAUSES, all->restarts.pause_ms);
    while (all->phase == GYRE_CHILDREN_PAUSES && !all->for_good)
        watch_turn(all);
    if (!all->for_good)
        return;
    gyre_restart_revoke(all);
    gyre_children_report(all);
    flush_output(all);
}

/* Takes what a child that has ended has left in the pipe. What it has started may live, and write
 * for ever. */
static void take_rest(struct gyre_line_tap *tap)
{
    for (int i = 0; i < REST_READS && readable(tap->fd); i++)
        read_tap(tap);
    gyre_line_tap_finish(tap);
}

void gyre_children_clear(struct gyre_children *all, int index)
{
    struct gyre_child *child = &all->child[index];
    if (!child->out.sink)
        return; /* it is new */
    take_rest(&child->err);
    take_rest(&child->out);
    gyre_child_clear(child);
}

void gyre_children_tell(struct gyre_children *all, const char *text)
{
    gyre_children_say(all, "", text, "");
}

void gyre_children_returned(struct gyre_children *all, int index)
{
    struct gyre_child *child = &all->child[index];
    char text[sizeof child->name + 64];
    struct gyre_lost_ranks back = {.node = all->node, .ranks = child->ranks, .text = text};
    snprintf(text, sizeof text, "%s is started again (restart %d of %d)", child->name,
             child->restart, all->restarts.most);
    all->alive++;
    all->elastic.came = true;
    child->lost = 0;
    gyre_children_regain(all, &back, NULL);
}

void gyre_children_missed(struct gyre_children *all, int index, const char *why)
{
    struct gyre_child *child = &all->child[index];
    char text[sizeof all->elastic.first];
    struct gyre_lost_ranks loss = {
        .node = all->node, .code = 1, .text = text, .missed = true, .child = child};
    snprintf(text, sizeof text, "%s, which cannot be started again: %s", child->name, why);
    gyre_children_lose(all, &loss, NULL);
}

/* Whether hosts are to be looked at, while any child is left. */
static bool is_to_change(const struct gyre_children *all)
{
    return all->changed && (all->alive || gyre_again_waits(all));
}

/* Whether the children have not all ended for good; false also where one is to be started. */
static bool goes_on(struct gyre_children *all)
{
    all->due = gyre_again_due(all);
    return all->due < 0 && !is_to_change(all) && (all->alive || gyre_again_waits(all));
}

int gyre_children_watch(struct gyre_children *all)
{
    for (int i = 0; i < all->children && !all->watched; i++)
        all->alive += all->child[i].pidfd >= 0;
    all->watched = true;
    while (goes_on(all))
        watch_turn(all);
    if (all->due >= 0) {
        gyre_children_clear(all, all->due);
        return GYRE_CHILDREN_DUE;
    }
    if (is_to_change(all)) {
        all->changed = false;
        return GYRE_CHILDREN_CHANGE;
    }
    finish_children(all);
    if (all->restart == GYRE_RESTART_YES)
        pause_before_start(all);
    return all->first_failure.code;
}
