/* `gyre run --hosts-file`: hosts that come and go while a job runs. A stand-in for ssh runs what it
 * is told on this machine. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rig rig;
static char hosts[128];

static int prepare(void **state)
{
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/ssh", rig_folder());
    snprintf(hosts, sizeof hosts, "%s/hosts", rig_folder());
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs("#!/bin/sh\nexec sh -c \"$2\"\n", file);
    setenv("GYRE_SSH", path, 1);
    return fclose(file) || chmod(path, 0700);
}

static void write_hosts(const char *text)
{
    FILE *file = fopen(hosts, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void change_hosts(const char *text)
{
    write_hosts(text);
    rig_signal(&rig, SIGHUP);
}

/* Says when it comes, and ends well by SIGUSR1. */
#define COMES                                                                                      \
    "trap 'exit 0' USR1; echo come ${GYRE_JOINING-first} $RANK of $GYRE_ELASTIC $GYRE_ROOT_HOSTS;"
#define STAYS "while :; do sleep 1 & wait; done"
/* Reads the byte by which it is asked to leave, so there is one such rank on a host. */
#define LEAVES                                                                                     \
    "head -c1 /proc/self/fd/$GYRE_LAUNCHER_FD | grep -q l && echo asked $RANK; exit ${CODE-0}"

static void end_well(void)
{
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_file_names_hosts_and_ranks(void **state)
{
    (void)state;
    write_hosts("# two racks\na:2\nme@b slots=1\n\nc # as many as -n says\nn[1-2]:1\n");
    rig_run(&rig, NULL, WORDS("--hosts-file", hosts, "-n", "2", SHELL("echo $RANK/$WORLD_SIZE")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[4] 4/7"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[6] 6/7"), 1);
    rig_end(&rig);
    rig_run(&rig, NULL,
            WORDS("--hostfile", hosts, "--elastic", "1:3", SHELL("echo $RANK/$WORLD_SIZE")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[2] 2/3"), 1);
    rig_end(&rig);
}

static void a_wrong_file_is_refused(void **state)
{
    char line[256];
    (void)state;
    write_hosts("a:2\nb:many\n");
    rig_run(&rig, NULL, WORDS("--hosts-file", hosts, "true"));
    snprintf(line, sizeof line, "%s:2: the line is \"b:many\": expected a whole number", hosts);
    rig_expect(&rig, 2, line);
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("--hosts-file", "/nowhere/hosts", "true"));
    rig_expect(&rig, 1, "/nowhere/hosts: cannot open it");
    rig_end(&rig);
    write_hosts("a:1\n");
    rig_run(&rig, NULL, WORDS("--hosts-file", hosts, "--hosts", "a:1", "true"));
    rig_expect(&rig, 2, "exclude each other");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("--hosts-file", hosts, "-n", "1,2", "true"));
    rig_expect(&rig, 2, "exclude each other");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("--hosts-file", hosts, "--elastic", "2:4", "true"));
    rig_expect(&rig, 2, "does not fit the job's 1 rank");
    rig_end(&rig);
}

/* Up to MAX: the last host gets fewer ranks than it has, one behind it none. */
static void new_hosts_come(void **state)
{
    (void)state;
    write_hosts("a:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1:3", SHELL(COMES STAYS)));
    rig_wait_for(&rig, "[0] come first 0 of 1:3");
    change_hosts("a:1\nb:1\nc:4\nd:1\n");
    rig_wait_for(&rig, "gyre run: ssh to b is started: 1 rank joins; 2 ranks");
    rig_wait_for(&rig, "gyre run: ssh to c is started: 1 rank joins; 3 ranks");
    rig_wait_for(&rig, "gyre run: host d waits: the job has all the 3 ranks of --elastic");
    rig_wait_for(&rig, "[1] come 1 1 of 1:3 a\n");
    rig_wait_for(&rig, "[2] come 1 2 of 1:3 a,b\n");
    end_well();
}

/* Its ranks are no loss. Then it comes back, to its old place. */
static void a_host_goes_and_comes_back(void **state)
{
    (void)state;
    write_hosts("a:1\nb:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1:2", "--restarts", "1",
                          SHELL(COMES "[ $RANK = 1 ] && { " LEAVES "; };" STAYS)));
    rig_wait_for(&rig, "[0] come first");
    rig_wait_for(&rig, "[1] come first");
    change_hosts("a:1\n");
    rig_wait_for(&rig, "gyre run: host b goes: its ranks are asked to leave; 1 rank stays");
    rig_wait_for(&rig, "[1] asked 1");
    rig_wait_for(&rig, "gyre run: ssh to b is over, its ranks have left; 1 rank goes on");
    change_hosts("a:1\nb:1\n");
    rig_wait_for(&rig, "gyre run: ssh to b is started: 1 rank joins; 2 ranks");
    rig_wait_for(&rig, "[1] come 1 1");
    assert_false(rig_has(rig.err_text, "restart"));
    assert_false(rig_has(rig.err_text, "lost"));
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* A rank that fails while it leaves has left. */
static void ranks_may_leave_badly(void **state)
{
    (void)state;
    write_hosts("a:1\nb:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1", "--restarts", "1",
                          SHELL(COMES "CODE=3; [ $RANK = 1 ] && { " LEAVES "; };" STAYS)));
    rig_wait_for(&rig, "[0] come first");
    rig_wait_for(&rig, "[1] come first");
    change_hosts("a:1\n");
    rig_wait_for(&rig, "gyre run: ssh to b is over, its ranks have left; 1 rank goes on");
    assert_false(rig_has(rig.err_text, "restart"));
    end_well();
}

/* A rank waits for its restart, and the last one that runs is on a host that has to go: with it the
 * job is over, and nobody waits any more. */
static void the_last_rank_may_be_one_that_leaves(void **state)
{
    char pid[128];
    (void)state;
    snprintf(pid, sizeof pid, "%s/pid", rig_folder());
    write_hosts("a:1\nb:1\nc:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1", "--restarts", "1",
                          "--restart-pause", "1h",
                          SHELL(COMES "[ $RANK = 0 ] && { echo $$ >$0; " STAYS "; };"
                                      "[ $RANK = 2 ] && exit 3; trap '' USR1;"
                                      "head -c1 /proc/self/fd/$GYRE_LAUNCHER_FD >&2;"
                                      "echo asked; while kill -0 $(cat $0); do sleep 0.05; done"),
                          pid));
    rig_wait_for(&rig, "[0] come first");
    rig_wait_for(&rig, "[1] come first");
    rig_wait_for(&rig, "exit code 3; restart 1 of 1");
    change_hosts("a:1\nc:1\n");
    rig_wait_for(&rig, "[1] asked");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.err_text, "gyre run: ssh to b is over, its ranks have left\n"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void ranks_that_stay_too_long_are_ended(void **state)
{
    (void)state;
    write_hosts("a:1\nb:2\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1", "--leave-within", "0",
                          SHELL(COMES STAYS)));
    for (int rank = 0; rank < 3; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] come first", rank);
        rig_wait_for(&rig, line);
    }
    change_hosts("a:1\n");
    rig_wait_for(&rig, "gyre run: ssh to b: its ranks have not left in time, and are ended");
    rig_wait_for(&rig, "gyre run: ssh to b is over, its ranks have left; 1 rank goes on");
    end_well();
}

static void a_host_that_is_needed_stays(void **state)
{
    (void)state;
    write_hosts("a:1\nb:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "2", SHELL(COMES STAYS)));
    rig_wait_for(&rig, "[0] come first");
    rig_wait_for(&rig, "[1] come first");
    change_hosts("a:1\n");
    rig_wait_for(&rig, "gyre run: host b stays: without it 1 rank would be left, and --elastic "
                       "needs 2");
    end_well();
}

static void a_file_that_becomes_wrong_changes_nothing(void **state)
{
    (void)state;
    write_hosts("a:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1:2", SHELL(COMES STAYS)));
    rig_wait_for(&rig, "[0] come first");
    change_hosts("b:1\na:0\n");
    rig_wait_for(&rig, "hosts:2: the line is \"a:0\"");
    rig_wait_for(&rig, "; the job goes on with the hosts that it has");
    change_hosts("a:1\nb:1\n");
    rig_wait_for(&rig, "[1] come 1 1");
    end_well();
}

/* A host that cannot be reached is a loss, and is tried again on the next SIGHUP. */
static void a_lost_host_is_tried_again(void **state)
{
    char path[128];
    (void)state;
    snprintf(path, sizeof path, "%s/ssh", rig_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\n[ $1 = b ] && mkdir %s/tried 2>/dev/null && exit 255\n"
            "exec sh -c \"$2\"\n",
            rig_folder());
    assert_int_equal(fclose(file), 0);
    write_hosts("a:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, "--elastic", "1:3", SHELL(COMES STAYS)));
    rig_wait_for(&rig, "[0] come first");
    change_hosts("a:1\nb:2\n");
    rig_wait_for(&rig, "go on without 2 ranks behind ssh to b: exit code 255");
    rig_signal(&rig, SIGHUP);
    rig_wait_for(&rig, "[1] come 1 1");
    rig_wait_for(&rig, "[2] come 1 2");
    end_well();
}

/* Another start of the whole job takes the file as it is then. */
static void a_restart_reads_the_file_again(void **state)
{
    (void)state;
    write_hosts("a:1\n");
    rig_run(&rig, NULL,
            WORDS("--hosts-file", hosts, "--restarts", "1", "--restart-pause", "0",
                  SHELL("[ $GYRE_EPOCH = 1 ] && { echo $RANK of $WORLD_SIZE; exit 0; };"
                        "printf 'c:1\\nd:2\\n' >$0; exit 3"),
                  hosts));
    rig_expect(&rig, 0, "gyre run: restart 1 of 1: rank 0 on ");
    for (int rank = 0; rank < 3; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] %d of 3", rank, rank);
        assert_int_equal(rig_count_lines(rig.out_text, line), 1);
    }
    rig_end(&rig);
}

/* Without --elastic nothing can come or go. */
static void a_plain_job_ends_by_sighup(void **state)
{
    (void)state;
    write_hosts("a:1\n");
    rig_start(&rig, WORDS("--hosts-file", hosts, SHELL(COMES STAYS)));
    rig_wait_for(&rig, "[0] come first");
    rig_signal(&rig, SIGHUP);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGHUP, "ended by signal 1");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_names_hosts_and_ranks),
        cmocka_unit_test(a_wrong_file_is_refused),
        cmocka_unit_test(new_hosts_come),
        cmocka_unit_test(a_host_goes_and_comes_back),
        cmocka_unit_test(ranks_may_leave_badly),
        cmocka_unit_test(the_last_rank_may_be_one_that_leaves),
        cmocka_unit_test(ranks_that_stay_too_long_are_ended),
        cmocka_unit_test(a_host_that_is_needed_stays),
        cmocka_unit_test(a_file_that_becomes_wrong_changes_nothing),
        cmocka_unit_test(a_lost_host_is_tried_again),
        cmocka_unit_test(a_restart_reads_the_file_again),
        cmocka_unit_test(a_plain_job_ends_by_sighup),
    };
    return cmocka_run_group_tests_name("gyre run --hosts-file", tests, prepare, NULL);
}
