/* Ranks of `gyre train --elastic` are killed under `gyre run --elastic --restarts`, and come back.
 *
 * The weights in the end are, bit for bit, those of a run in which the same ranks left and came by
 * plan at the same steps. What has happened is read from the run's own lines: who was lost, how
 * many ranks went on, and from which step. The planned run does so again, by gyre_shrink(), where
 * nobody is lost, and processes that wait to be taken in. Sums are the fold over ranks in both
 * (GYRE_REPRODUCIBLE), so transports do not matter. */
#include "base/port.h"
#include "rig/train_rig.h"
#include "rig/test.h"
#include "train/inside.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 4, EVENTS_MOST = 24, NEWCOMERS_MOST = 16 };

static int ranks = 4; /* at the start */

#define BATCH      "10"
#define OPTIMIZER  "adam"
#define MANY_TIMES "100000000" /* more epochs than anybody waits for */

/* -- what has happened ------------------------------------------------------------------------- */

struct event {
    uint64_t step;
    int n;         /* ranks that go on */
    unsigned lost; /* those that do not, a bit each; 0: ranks come */
};

struct plan {
    struct event event[EVENTS_MOST];
    int events, newcomers;
    uint64_t last; /* step */
};

/* Reads "lost rank 1 on a (pid 7), rank 3 on b (pid 9); 2 ranks go on from step 30, …". */
static void read_event(const char *line, const char *went, struct event *event)
{
    assert_int_equal(sscanf(strchr(went, 'f'), "from step %" SCNu64, &event->step), 1);
    const char *end = strchr(line, ';');
    assert_non_null(end);
    event->n = atoi(end + 2);
    const char *gone = strstr(line, "lost "), *left = strstr(line, "let go ");
    for (const char *at = gone ? gone : left; at && at < end; at++)
        if (!strncmp(at, "rank ", 5))
            event->lost |= 1u << atoi(at + 5);
}

/* Where one was lost while the others regrouped, both are named by their numbers of then. All ranks
 * are alike, so another one leaves as well. */
static void complete_lost(struct event *event, int before)
{
    for (int rank = before - 1; rank > 0; rank--)
        if (event->lost && __builtin_popcount(event->lost) < before - event->n)
            event->lost |= 1u << rank;
}

/* The lines of several machines come in any order. */
static void sort_events(struct plan *plan)
{
    for (int i = 1; i < plan->events; i++)
        for (int k = i; k > 0 && plan->event[k].step < plan->event[k - 1].step; k--) {
            const struct event later = plan->event[k - 1];
            plan->event[k - 1] = plan->event[k];
            plan->event[k] = later;
        }
}

static void read_plan(char *text, struct plan *plan)
{
    int n = ranks;
    memset(plan, 0, sizeof *plan);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const char *went = strstr(line, " on from step ");
        const char *stopped = strstr(line, "stopped by a signal after step ");
        if (stopped)
            plan->last = strtoull(stopped + strlen("stopped by a signal after step "), NULL, 10);
        if (!went)
            continue;
        assert_in_range(plan->events, 0, EVENTS_MOST - 1);
        read_event(line, went, &plan->event[plan->events++]);
    }
    sort_events(plan);
    for (struct event *event = plan->event; event < plan->event + plan->events; event++) {
        complete_lost(event, n);
        plan->newcomers += event->n > n ? event->n - n : 0;
        print_message("  step %" PRIu64 ": %d ranks\n", event->step, event->n);
        n = event->n;
    }
    assert_in_range(plan->newcomers, 1, NEWCOMERS_MOST);
    assert_true(plan->last >= plan->event[plan->events - 1].step);
}

/* -- the planned run --------------------------------------------------------------------------- */

struct shared {
    _Atomic int started; /* newcomers that may come */
    _Atomic int next;    /* the event behind the one at which they come */
    _Atomic int over;
};

struct actor {
    struct gyre_train t;
    const struct plan *plan;
    struct shared *shared;
    int event; /* the next */
};

/* Newcomers come until there are as many ranks as the event says. */
static int let_come(struct actor *actor, const struct event *event)
{
    struct gyre_train *t = &actor->t;
    int status = 0;
    if (!t->rank) {
        actor->shared->next = actor->event + 1;
        actor->shared->started += event->n - t->n;
    }
    while (!status && t->n < event->n)
        status = gyre_train_take_in(t);
    return status;
}

/* GYRE_AGAIN: this rank has left. */
static int act(struct actor *actor)
{
    struct gyre_train *t = &actor->t;
    const struct event *event = &actor->plan->event[actor->event];
    int status = 0;
    if (!event->lost)
        status = let_come(actor, event);
    else if (event->lost >> t->rank & 1)
        return gyre_shrink(t->comm, NULL) ? -1 : GYRE_AGAIN;
    else
        status = gyre_train_regroup(t);
    actor->event++;
    if (!status && t->n != event->n)
        return gyre_trouble_set(t->trouble, GYRE_INVALID, "%d ranks, planned are %d", t->n,
                                event->n);
    return status ? status : gyre_loader_begin(t->loader, t->epoch, t->cursor, t->trouble);
}

static int next_step(struct gyre_train *t)
{
    int status = gyre_train_step(t);
    if (status != GYRE_AGAIN)
        return status;
    t->tally = (struct gyre_train_tally){0};
    t->epoch++;
    t->cursor = 0;
    return gyre_loader_begin(t->loader, t->epoch, 0, t->trouble);
}

static int play(struct actor *actor)
{
    struct gyre_train *t = &actor->t;
    const struct plan *plan = actor->plan;
    int status = gyre_loader_begin(t->loader, t->epoch, t->cursor, t->trouble);
    while (!status && t->step < plan->last) {
        while (!status && actor->event < plan->events && plan->event[actor->event].step == t->step)
            status = act(actor);
        if (!status)
            status = next_step(t);
    }
    if (status)
        return status;
    actor->shared->over = 1;
    return gyre_train_save(t);
}

static int begin(struct actor *actor, bool comes)
{
    struct gyre_train *t = &actor->t;
    int status;
    if (comes) {
        status = gyre_train_come(t);
        actor->event = actor->shared->next;
        while (!status && t->n < actor->plan->event[actor->event - 1].n) /* others come, too */
            status = gyre_train_take_in(t);
        return status;
    }
    status = gyre_init(&t->comm, NULL);
    *t->owned = t->comm;
    t->rank = gyre_rank(t->comm);
    t->n = gyre_size(t->comm);
    if (!status)
        status = gyre_train_open(t);
    return status ? status : gyre_train_let_wait(t);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* What a launcher would set. Returns whether the process comes new. */
static bool set_place(int index, int port)
{
    set_number("RANK", index % ranks);
    set_number("LOCAL_RANK", index % ranks);
    set_number("WORLD_SIZE", ranks);
    set_number("LOCAL_WORLD_SIZE", ranks);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("GYRE_JOB", "planned", 1);
    setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    if (index >= ranks)
        setenv("GYRE_JOINING", "1", 1);
    return index >= ranks;
}

static bool waits_for_its_time(const struct shared *shared, int newcomer)
{
    while (shared->started <= newcomer && !shared->over)
        sched_yield();
    return shared->started > newcomer;
}

static int be_actor(int index, int port, const struct plan *plan, struct shared *shared)
{
    static struct actor actor;
    static struct gyre_train_options options;
    struct gyre_train_outcome outcome = {0};
    struct gyre_trouble trouble = {0};
    struct gyre_comm *comm = NULL;
    bool comes = set_place(index, port);
    if (comes && !waits_for_its_time(shared, index - ranks))
        return 0;
    gyre_train_options_init(&options);
    gyre_train_option_preset(&options, "wine", &trouble);
    gyre_train_option_set(&options, "optimizer", OPTIMIZER, &trouble);
    gyre_train_option_set(&options, "batch", BATCH, &trouble);
    gyre_train_option_set(&options, "epochs", MANY_TIMES, &trouble);
    gyre_train_option_set(&options, "tail", "once", &trouble);
    gyre_train_option_set(&options, "elastic", "1", &trouble);
    options.test = NULL;
    options.save = in_folder("planned");
    actor = (struct actor){
        .t = {.owned = &comm, .options = &options, .trouble = &trouble, .outcome = &outcome},
        .plan = plan,
        .shared = shared};
    int status = begin(&actor, comes);
    if (!status)
        status = play(&actor);
    if (status < 0)
        fprintf(stderr, "planned process %d: %s\n", index, trouble.text);
    gyre_train_close(&actor.t);
    int ended = gyre_finalize(comm);
    return status == GYRE_AGAIN ? 0 : status || ended;
}

static void run_planned(const struct plan *plan)
{
    uint16_t port = 0;
    int keeper = gyre_port_reserve(&port), status, processes = ranks + plan->newcomers;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[RANKS_MOST + NEWCOMERS_MOST];
    assert_true(keeper >= 0 && shared != MAP_FAILED);
    for (int i = 0; i < processes; i++)
        if ((pid[i] = fork()) == 0)
            _exit(be_actor(i, port, plan, shared));
    for (int i = 0, failed = 0; i < processes; i++) {
        assert_int_equal(wait(&status) > 0, 1);
        failed |= status != 0;
        for (int k = 0; failed && k < processes; k++)
            kill(pid[k], SIGKILL);
        if (failed && i + 1 == processes)
            fail_msg("a planned process has failed");
    }
    close(keeper);
    munmap(shared, sizeof *shared);
}

/* -- the run with losses ----------------------------------------------------------------------- */

/* Waits for a line that was not waited for before. */
static void wait_for_ranks(const char *line)
{
    rig_wait_for(&rig, line);
    *strchr(strstr(rig.out_text, line), 'r') = 'R';
}

static void kill_at_once(int one, int other)
{
    char command[512];
    snprintf(command, sizeof command,
             "v=; for p in $(cat /proc/%d/task/*/children); do tr '\\0' '\\n' </proc/$p/environ "
             "2>/dev/null | grep -qx -e RANK=%d -e RANK=%d && v=\"$v $p\"; done; kill -9 $v",
             (int)rig.pid, one, other);
    assert_int_equal(system(command), 0);
}

/* A rank that is no rank 0, then rank 0, then two at once. */
static void kill_and_wait(void)
{
    rig_signal_rank(&rig, 3, SIGKILL);
    wait_for_ranks("4 ranks go on from step");
    rig_signal_rank(&rig, 0, SIGKILL);
    wait_for_ranks("4 ranks go on from step");
    kill_at_once(0, 2);
    wait_for_ranks("4 ranks go on from step");
}

/* Waits for the first lines of the metrics, or for the end of the run. */
static void wait_for_steps(const char *metrics)
{
    FILE *file = NULL;
    siginfo_t ended = {0};
    while (!ended.si_pid && (!file || fseek(file, 0, SEEK_END) || ftell(file) < 1000)) {
        if (!file)
            file = fopen(metrics, "r");
        usleep(1000);
        waitid(P_PID, (id_t)rig.pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    if (file)
        fclose(file);
    assert_int_equal(ended.si_pid, 0);
}

/* Starts four ranks, and waits for their first steps. */
static void start_training(const char *layout, const char *nodes, const char *preset,
                           const char *optimizer)
{
    char saved[512], metrics[512];
    clean();
    snprintf(saved, sizeof saved, "%s", in_folder("run"));
    snprintf(metrics, sizeof metrics, "%s", in_folder("run.jsonl"));
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    rig_start(&rig, WORDS(layout, nodes, "--elastic", "2:4", "--restarts", "4", "--restart-pause",
                          "0", rig_tool(), "train", "--preset", preset, "--elastic", "2",
                          "--epochs", MANY_TIMES, "--batch", BATCH, "--optimizer", optimizer,
                          "--tail", "once", "--test", "none", "--save", saved, "--save-every",
                          MANY_TIMES, "--quiet", "--metrics", metrics));
    wait_for_steps(metrics);
}

static void stop_training(void)
{
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 128 + SIGTERM);
    rig_wait_lifeless(&rig);
}

static void compare_with_planned(void)
{
    char saved[1024];
    struct plan plan;
    read_plan(rig.out_text, &plan);
    rig_end(&rig);
    run_planned(&plan);
    snprintf(saved, sizeof saved, "%s", saved_model(in_folder("run")));
    compare_files(saved, saved_model(in_folder("planned")));
}

static void come_back(const char *layout, const char *nodes)
{
    start_training(layout, nodes, "wine", OPTIMIZER);
    kill_and_wait();
    stop_training();
    compare_with_planned();
}

static void killed_ranks_come_back_over_shared_memory(void **state)
{
    (void)state;
    come_back("-n", "4");
}

static void killed_ranks_come_back_over_tcp(void **state)
{
    (void)state;
    come_back("--simulate-nodes", "2+2");
}

/* A stand-in for ssh, which runs on this machine what it is told. */
static void stand_in_for_ssh(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("ssh"));
    write_lines(path, "#!/bin/sh\nexec sh -c \"$2\"\n");
    assert_int_equal(chmod(path, 0700), 0);
    setenv("GYRE_SSH", path, 1);
}

static void change_hosts(const char *hosts, const char *lines)
{
    write_lines(hosts, lines);
    rig_signal(&rig, SIGHUP);
}

/* Another machine comes, that of rank 0 goes, and a third comes: nobody is lost. */
static void hosts_come_and_go(void **state)
{
    char saved[512], metrics[512], hosts[512];
    (void)state;
    clean();
    stand_in_for_ssh();
    snprintf(saved, sizeof saved, "%s", in_folder("run"));
    snprintf(metrics, sizeof metrics, "%s", in_folder("run.jsonl"));
    snprintf(hosts, sizeof hosts, "%s", in_folder("hosts"));
    write_lines(hosts, "a:2\n");
    ranks = 2;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    rig_start(&rig, WORDS("--hosts-file", hosts, "--master-addr", "127.0.0.1", "--elastic", "1:4",
                          rig_tool(), "train", "--preset", "wine", "--elastic", "1", "--epochs",
                          MANY_TIMES, "--batch", BATCH, "--optimizer", OPTIMIZER, "--tail", "once",
                          "--test", "none", "--save", saved, "--save-every", MANY_TIMES, "--quiet",
                          "--metrics", metrics));
    wait_for_steps(metrics);
    change_hosts(hosts, "a:2\nb:2\n");
    wait_for_ranks("4 ranks go on from step");
    change_hosts(hosts, "b:2\n");
    rig_wait_for(&rig, "gyre run: ssh to a is over, its ranks have left; 2 ranks go on");
    wait_for_ranks("2 ranks go on from step");
    change_hosts(hosts, "b:2\nc:2\n");
    wait_for_ranks("4 ranks go on from step");
    stop_training();
    assert_false(rig_has(rig.out_text, "lost") || rig_has(rig.err_text, "lost"));
    compare_with_planned();
    ranks = 4;
}

/* Running means, too, are handed over; the digests are compared by all. */
static void a_model_with_running_means_is_handed_over(void **state)
{
    (void)state;
    start_training("-n", "3", "digits", "sgd");
    rig_signal_rank(&rig, 1, SIGKILL);
    wait_for_ranks("3 ranks go on from step");
    stop_training();
    assert_true(rig_has(rig.out_text, "taken in rank 2 on "));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_come_back_over_shared_memory),
        cmocka_unit_test(killed_ranks_come_back_over_tcp),
        cmocka_unit_test(hosts_come_and_go),
        cmocka_unit_test(a_model_with_running_means_is_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
