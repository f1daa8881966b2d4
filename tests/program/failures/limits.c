/* A limit of the machine ends a run with a sentence that names the limit, and no process is left:
 * `gyre train` of two ranks in a shell that has lowered one. Limits of one rank are a fourth in
 * haste. */
#include "rig/haste.h"
#include "rig/launch_rig.h"
#include "rig/sanitized.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct rig rig;

/* Runs the tool's words under the limit, as a shell's; the shell is a rank of another run. */
static void run_under(const char *limit, const char *words)
{
    static char script[9000];
    snprintf(script, sizeof script, "%s; exec env -i PATH=\"$PATH\" %s %s", limit, rig_tool(),
             words);
    rig_run(&rig, NULL, WORDS("-n", "1", SHELL(script)));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void expect_under(const char *limit, const char *words, const char *told)
{
#ifdef SANITIZED
    print_message("skipped: a sanitizer needs more than the limit allows\n");
    skip();
#endif
    run_under(limit, words);
    if (!rig.code || !rig_has(rig.err_text, told))
        fail_msg("%s: exit code %d, \"%s\" is not in: %s", limit, rig.code, told, rig.err_text);
}

#define TRAIN "train --preset wine --ranks 2 --epochs 1 --quiet"

static void descriptors(void **state)
{
    (void)state;
    expect_under("ulimit -n 12", TRAIN, "Too many open files (see ulimit -n");
}

/* Runs two ranks, of which one is under `ulimit OPTION VALUE`. What it runs into is told, by whom
 * and when it may be; GYRE_LOG keeps back a warning that tells of descriptors beforehand. */
static void limit_one_rank(const char *transport, int rank, const char *option, int value)
{
    static char script[9000];
    char limit[32];
    snprintf(script, sizeof script,
             "exec env -i PATH=\"$PATH\" GYRE_LOG=error GYRE_TRANSPORT=%s %s run -n 2 sh -c '"
             "[ $RANK = %d ] && ulimit %s %d; exec %s train --preset wine --epochs 1 --quiet'",
             transport, rig_tool(), rank, option, value, rig_tool());
    snprintf(limit, sizeof limit, "ulimit %s", option);
    rig_run(&rig, NULL, WORDS("-n", "1", SHELL(script)));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    if (rig.code && !rig_has(rig.err_text, limit))
        fail_msg("%s, ulimit %s %d of rank %d: %s", transport, option, value, rank, rig.err_text);
}

/* All limits of one rank from `least` on, `step` apart: in haste four times as far. */
static void limit_each_rank(const char *option, int least, int most, int step)
{
#ifdef SANITIZED
    print_message("skipped: a sanitizer needs more than the limit allows\n");
    skip();
#endif
    step = in_haste() ? 4 * step : step;
    for (int rank = 0; rank < 2; rank++)
        for (int value = least; value < most; value += step) {
            limit_one_rank("shm", rank, option, value);
            limit_one_rank("tcp", rank, option, value);
        }
}

/* Wherever the descriptors of one rank end, beginning with the first file that it opens. */
static void descriptors_of_one_rank(void **state)
{
    (void)state;
    limit_each_rank("-n", 6, 22, 1);
}

/* From what loads the program to what is enough. */
static void address_space_of_one_rank(void **state)
{
    (void)state;
    limit_each_rank("-v", 26000, 38000, 1000);
}

static void sizes_of_files(void **state)
{
    (void)state;
    expect_under("ulimit -f 0", TRAIN, "File too large (see ulimit -n, -u, -f)");
    expect_under("ulimit -f 16", TRAIN, "raise `ulimit -f`");
}

static void address_space(void **state)
{
    (void)state;
    expect_under("ulimit -v 26000", TRAIN, "ulimit -v");
}

/* Where no memory may be locked, a training goes on without. */
static void locked_memory(void **state)
{
    (void)state;
    run_under("ulimit -l 0", TRAIN);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

/* Runs the tool in a control group with 64 MiB, below or beside the test's own, which is removed at
 * the end. 77: none can be made here. */
#define IN_GROUP                                                                                   \
    "tried() {"                                                                                    \
    "  group=$1/gyre-limits-$$;"                                                                   \
    "  [ \"$1\" ] && mkdir $group || return 1;"                                                    \
    "  [ -e $group/$2 ] && echo 64M >$group/$2 && return;"                                         \
    "  rmdir $group; return 1; };"                                                                 \
    "own() { sed -n \"s,^[0-9]*:$1:,/sys/fs/cgroup/$1,p\" /proc/self/cgroup; };"                   \
    "{ tried \"$(own memory)\" memory.limit_in_bytes || tried \"$(own '')\" memory.max ||"         \
    "  tried \"$(dirname \"$(own '')\")\" memory.max; } 2>/dev/null || exit 77;"                   \
    "sh -c 'echo $$ >$1/cgroup.procs && shift && exec \"$@\"' - "                                  \
    "$group env -i PATH=\"$PATH\" %s %s;"                                                          \
    "code=$?; rmdir $group; exit $code"

/* Runs the tool in the group. Skips the test where there is none. */
static void run_in_group(const char *words)
{
    static char script[9000];
#ifdef SANITIZED
    print_message("skipped: a sanitizer needs more than the limit allows\n");
    skip();
#endif
    snprintf(script, sizeof script, IN_GROUP, rig_tool(), words);
    rig_run(&rig, NULL, WORDS("-n", "1", SHELL(script)));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    if (rig.code == 77) {
        print_message("skipped: no control group with a limit of memory can be made here\n");
        skip();
    }
}

/* The kernel kills the rank, which cannot say a word: its launcher does. */
static void memory_of_a_group(void **state)
{
    (void)state;
    run_in_group("run -n 2 sh -c '[ $RANK = 0 ] || exec tail /dev/zero; exec sleep 1000'");
    assert_int_equal(rig.code, 128 + SIGKILL);
    if (!rig_has(rig.err_text, "because memory is short (64.0 MiB of /sys/fs/cgroup"))
        fail_msg("the limit is not named: %s", rig.err_text);
}

static void full_disk_under_the_output(void **state)
{
    (void)state;
    expect_under("true", "run -n 2 echo hello >/dev/full",
                 "cannot write the output: No space left on device");
}

/* Nothing of Gyre lies in /dev/shm or /tmp: where both are full, a training ends well. Where the
 * tool itself lies in /tmp, that folder stays as it is. */
static void full_folders_in_memory(void **state)
{
    static char script[9000];
    (void)state;
    snprintf(script, sizeof script,
             "unshare -m true || exit 77; exec unshare -m sh -c '"
             "for at in /dev/shm%s; do"
             "  mount -t tmpfs -o size=4k full $at 2>&3 || exit 77;"
             "  ! cat /dev/zero >$at/fill 2>&3 || exit 78; done;"
             "exec env -i PATH=\"$PATH\" %s %s' 3>/dev/null",
             strncmp(rig_tool(), "/tmp/", 5) == 0 ? "" : " /tmp", rig_tool(), TRAIN);
    rig_run(&rig, NULL, WORDS("-n", "1", SHELL(script)));
    rig_wait_lifeless(&rig);
    int code = rig.code;
    rig_end(&rig);
    if (code == 77) {
        print_message("skipped: no file system can be mounted here\n");
        skip();
    }
    if (code)
        fail_msg("exit code %d: %s", code, rig.err_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors),
        cmocka_unit_test(descriptors_of_one_rank),
        cmocka_unit_test(sizes_of_files),
        cmocka_unit_test(address_space),
        cmocka_unit_test(address_space_of_one_rank),
        cmocka_unit_test(locked_memory),
        cmocka_unit_test(memory_of_a_group),
        cmocka_unit_test(full_disk_under_the_output),
        cmocka_unit_test(full_folders_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
