/* examples/resume.c as a user runs it. Stopped, killed and resumed it ends with the bits of a run
 * in one go, which are those of `gyre train` with the same settings. Damaged checkpoints are
 * passed over, those of another network refused. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WORDS_MOST 8

/* -- running it -------------------------------------------------------------------------------- */

static const char *example(void)
{
    static char path[620];
    snprintf(path, sizeof path, "%s", rig_tool());
    strcpy(strrchr(path, '/') + 1, "examples/resume");
    return path;
}

/* What it printed last. */
struct ended {
    char how[16];
    int step;
    double loss;
    unsigned long long weights;
};

static void start(const char *ranks, const char *folder, const char *const more[WORDS_MOST])
{
    const char *words[8 + WORDS_MOST] = {"run", "-n", ranks, "--no-prefix", example(), folder};
    for (int i = 0; more && more[i]; i++)
        words[6 + i] = more[i];
    rig_start(&rig, words);
}

static struct ended end(void)
{
    struct ended ended = {.step = -1};
    rig_wait_end(&rig);
    const char *line = rig_last_line(rig.out_text);
    if (rig.code || sscanf(line, "%15s after step %d, loss %lf, weights %llx", ended.how,
                           &ended.step, &ended.loss, &ended.weights) != 4)
        fail_msg("exit code %d, \"%s\", %s", rig.code, line, rig.err_text);
    return ended;
}

static struct ended run(const char *ranks, const char *folder, const char *const more[WORDS_MOST])
{
    start(ranks, folder, more);
    struct ended ended = end();
    rig_end(&rig);
    return ended;
}

static void expect_end(struct ended ended, unsigned long long weights)
{
    assert_string_equal(ended.how, "ended");
    assert_int_equal(ended.step, 180);
    if (ended.weights != weights)
        fail_msg("weights %016llx, in one go %016llx", ended.weights, weights);
}

#define MORE(...)                                                                                  \
    (const char *const[WORDS_MOST])                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* -- stopped ----------------------------------------------------------------------------------- */

static void copy_folder(const char *from, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "cp -r %s %s", from, to);
    assert_int_equal(system(command), 0);
}

static void a_stop_leaves_no_trace(void **state)
{
    static const char *const precision[] = {NULL, "--bf16"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        clean();
        const struct ended whole = run("2", in_folder("whole"), MORE(precision[i]));
        const struct ended part = run("2", in_folder("parts"), MORE("--stop", "40", precision[i]));
        assert_string_equal(part.how, "stopped");
        assert_int_equal(part.step, 40);
        copy_folder(in_folder("parts"), in_folder("fewer"));
        copy_folder(in_folder("parts"), in_folder("more"));
        expect_end(run("2", in_folder("parts"), MORE(precision[i])), whole.weights);
        const struct ended other[] = {run("1", in_folder("fewer"), MORE(precision[i])),
                                      run("3", in_folder("more"), MORE(precision[i]))};
        for (int k = 0; k < 2; k++) /* the same samples, summed in another order */
            if (other[k].step != 180 || !(fabs(other[k].loss - whole.loss) < 2e-3))
                fail_msg("step %d, loss %g; in one go %g", other[k].step, other[k].loss,
                         whole.loss);
    }
}

/* An empty folder of checkpoints, in which a run is waited for. */
static void make_folder(const char *folder)
{
    char command[1300];
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", folder, folder);
    assert_int_equal(system(command), 0);
}

/* Reports of entries that come into the folder from now on. */
static int watch_entries(const char *folder)
{
    int watch = inotify_init1(IN_CLOEXEC);
    assert_true(watch >= 0 && inotify_add_watch(watch, folder, IN_CREATE | IN_MOVED_TO) >= 0);
    return watch;
}

static bool tells_of(const char *events, ssize_t length, const char *name)
{
    const struct inotify_event *event;
    for (const char *at = events; at < events + length; at += sizeof *event + event->len) {
        event = (const struct inotify_event *)at;
        if (event->len && !strcmp(event->name, name))
            return true;
    }
    return false;
}

/* Until an entry of this name has come. The report stays where the entry itself is soon removed,
 * as old checkpoints are. Ends too when every process of the run has ended. */
static void wait_for_entry(int watch, const char *name)
{
    char events[4096] __attribute__((aligned(8)));
    struct pollfd fds[] = {{.fd = watch, .events = POLLIN}, {.fd = rig.life, .events = POLLIN}};
    ssize_t length = 0;
    while (!tells_of(events, length, name)) {
        assert_true(poll(fds, 2, -1) > 0);
        if (!fds[0].revents)
            break;
        length = read(watch, events, sizeof events);
        assert_true(length > 0);
    }
    close(watch);
}

/* Wherever the signal comes, it is told behind a whole step. A run that has ended before it comes
 * tells nothing, and another is begun. */
static void a_signal_stops_all_ranks(void **state)
{
    struct ended part;
    (void)state;
    clean();
    const struct ended whole = run("2", in_folder("whole"), NULL);
    do {
        make_folder(in_folder("parts"));
        int watch = watch_entries(in_folder("parts"));
        start("2", in_folder("parts"), MORE("--every", "1"));
        wait_for_entry(watch, "step-00000003");
        rig_signal(&rig, SIGUSR1);
        part = end();
        rig_end(&rig);
    } while (!strcmp(part.how, "ended"));
    assert_string_equal(part.how, "stopped");
    assert_in_range(part.step, 3, 179);
    expect_end(run("2", in_folder("parts"), NULL), whole.weights);
}

/* The bits of the tool: the same network, order, schedule and optimiser, by the same functions. */
static void it_has_the_weights_of_the_tool(void **state)
{
    static const struct {
        const char *own, *tools[2];
    } precision[] = {{NULL, {"--precision", "f32"}}, {"--bf16", {"--precision", "bf16"}}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char own[600];
        clean();
        run("2", in_folder("own"), MORE(precision[i].own));
        snprintf(own, sizeof own, "%s", saved_model(in_folder("own")));
        const char *words[] = {"train",
                               "--data",
                               "wine",
                               "--layers",
                               "13,64,3",
                               "--optimizer",
                               "adam",
                               "--lr",
                               "1e-2",
                               "--schedule",
                               "cosine",
                               "--warmup",
                               "10",
                               "--global-batch",
                               "48",
                               "--tail",
                               "once",
                               "--epochs",
                               "60",
                               "--ranks",
                               "2",
                               "--quiet",
                               "--save-every",
                               "60",
                               "--save",
                               in_folder("tools"),
                               precision[i].tools[0],
                               precision[i].tools[1],
                               NULL};
        expect_success(words);
        compare_files(own, saved_model(in_folder("tools")));
    }
}

/* -- killed ------------------------------------------------------------------------------------ */

static bool kill_rank_0(void)
{
    char command[400];
    snprintf(command, sizeof command,
             "for p in $(cat /proc/%d/task/*/children); do tr '\\0' '\\n' </proc/$p/environ | "
             "grep -qx RANK=0 && kill -KILL $p && exit 0; done; exit 1",
             (int)rig.pid);
    return system(command) == 0;
}

/* Goes on from the checkpoints of `folder` until this one comes, and then loses rank 0. False: the
 * run had ended before the kill came. */
static bool go_on_and_die(const char *folder, const char *entry)
{
    int watch = watch_entries(folder);
    start("2", folder, MORE("--every", "1"));
    wait_for_entry(watch, entry);
    bool killed = kill_rank_0();
    rig_wait_end(&rig);
    bool died = rig.code != 0;
    assert_true(killed || !died);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    return died;
}

/* It saves behind every step, so it spends its time in saving. */
static void a_death_in_a_save_leaves_no_trace(void **state)
{
    static const char *const at[] = {"step-00000004", "step-00000030", "step-00000061"};
    char command[700];
    (void)state;
    clean();
    const struct ended whole = run("2", in_folder("whole"), NULL);
    do {
        make_folder(in_folder("parts"));
        for (int i = 0; i < 3 && go_on_and_die(in_folder("parts"), at[i]); i++)
            ;
    } while (!rig.code);
    expect_end(run("2", in_folder("parts"), NULL), whole.weights);
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep part)\"", in_folder("parts"));
    assert_int_equal(system(command), 0); /* what the deaths left is gone */
}

/* -- what it cannot use ------------------------------------------------------------------------ */

static void damage(const char *path)
{
    char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 900) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, 900) == 1);
    assert_int_equal(close(fd), 0);
}

static void a_damaged_generation_is_passed_over(void **state)
{
    (void)state;
    clean();
    const struct ended whole = run("2", in_folder("whole"), NULL);
    run("2", in_folder("parts"), MORE("--stop", "60"));
    damage(saved_model(in_folder("parts")));
    start("2", in_folder("parts"), NULL);
    struct ended rest = end();
    assert_true(rig_has(rig.err_text, "passed over the checkpoint of step 60: "));
    assert_true(rig_has(rig.err_text, "model.safetensors: is damaged"));
    assert_true(rig_has(rig.out_text, "goes on after step 50, which 2 ranks saved"));
    rig_end(&rig);
    expect_end(rest, whole.weights);
}

static void a_checkpoint_of_another_network_is_refused(void **state)
{
    (void)state;
    clean();
    run("2", in_folder("run"), MORE("--stop", "5"));
    start("2", in_folder("run"), MORE("--hidden", "32"));
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 1);
    assert_int_equal(
        rig_count_lines(rig.err_text,
                        "resume: another model: tensor \"0.weight\" of model.safetensors: the "
                        "checkpoint of step 5 has F32 [64,13], expected is F32 [32,13]"),
        1);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_leaves_no_trace),
        cmocka_unit_test(a_signal_stops_all_ranks),
        cmocka_unit_test(it_has_the_weights_of_the_tool),
        cmocka_unit_test(a_death_in_a_save_leaves_no_trace),
        cmocka_unit_test(a_damaged_generation_is_passed_over),
        cmocka_unit_test(a_checkpoint_of_another_network_is_refused),
    };
    return cmocka_run_group_tests_name("examples/resume", tests, NULL, NULL);
}
