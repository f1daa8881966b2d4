/* The machine of rank 0 goes, and processes join the job all the same.
 *
 * A job's place is an address of its first machine. The next rank 0 listens on its own machine, at
 * the same port, and the launcher tells newcomers on which hosts there are ranks. Machines are
 * network namespaces here, so an address of one is not another's; the launcher is outside of them.
 */
#include "nemesis/machines.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MACHINES = 3 };

#define FOREVER "100000000" /* epochs */

static struct rig rig;
static char hosts[128];

/* Enters the machine whose address it is given. A machine that has gone does not answer. */
static void stand_in_for_ssh(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ssh", rig_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\nhere=%s\n[ -e $here/gone-$1 ] && exec sleep 1000\necho $$ >$here/pid-$1\n"
            "exec nsenter --net=/run/netns/rank$((${1##*.} - 1)) sh -c \"$2\"\n",
            rig_folder());
    assert_int_equal(fclose(file) | chmod(path, 0700), 0);
    setenv("GYRE_SSH", path, 1);
}

static void write_hosts(const char *text)
{
    snprintf(hosts, sizeof hosts, "%s/hosts", rig_folder());
    FILE *file = fopen(hosts, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Waits for a line that was not waited for before. */
static void wait_for_next(const char *line)
{
    rig_wait_for(&rig, line);
    memset(strstr(rig.out_text, line), 'X', strlen(line));
}

/* Waits for the first line of the metrics, or for the end of the run. */
static void wait_for_a_step(const char *metrics)
{
    siginfo_t ended = {0};
    struct stat file = {0};
    while (!ended.si_pid && (stat(metrics, &file) || !file.st_size)) {
        usleep(1000);
        waitid(P_PID, (id_t)rig.pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    assert_int_equal(ended.si_pid, 0);
}

/* Ends the launcher on a machine, and with it its ranks. */
static void end_machine(const char *host)
{
    assert_true(machines_run("touch %s/gone-%s; kill -9 $(cat %s/pid-%s)", rig_folder(), host,
                             rig_folder(), host));
}

static void kill_rank(const char *host, int rank)
{
    assert_true(machines_run("for p in $(cat /proc/$(cat %s/pid-%s)/task/*/children); do"
                             " tr '\\0' '\\n' </proc/$p/environ 2>/dev/null | grep -qx RANK=%d &&"
                             " kill -9 $p && exit; done; exit 1",
                             rig_folder(), host, rank));
}

static void newcomers_find_the_next_rank_0(void **state)
{
    char metrics[128];
    (void)state;
    snprintf(metrics, sizeof metrics, "%s/run.jsonl", rig_folder());
    stand_in_for_ssh();
    write_hosts("10.77.0.1:1\n10.77.0.2:2\n");
    setenv("GYRE_DEAD_TIME", "100", 1); /* nobody is silent here before it has been left out */
    rig_start(&rig,
              WORDS("--hosts-file", hosts, "--elastic", "1:4", "--restarts", "2", "--restart-pause",
                    "0", rig_tool(), "train", "--preset", "wine", "--elastic", "1", "--epochs",
                    FOREVER, "--test", "none", "--quiet", "--metrics", metrics));
    wait_for_a_step(metrics);
    end_machine("10.77.0.1");
    wait_for_next("2 ranks go on from step");
    assert_true(machines_run("ip -n rank0 link set way down"));
    kill_rank("10.77.0.2", 2); /* its launcher is told by a word where the others are */
    wait_for_next("1 rank goes on from step");
    wait_for_next("2 ranks go on from step");
    write_hosts("10.77.0.2:2\n10.77.0.3:1\n"); /* and a new launcher by its words */
    rig_signal(&rig, SIGHUP);
    wait_for_next("3 ranks go on from step");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

int main(void)
{
    if (!machines_make(MACHINES) || !machines_run("command -v nsenter >/dev/null")) {
        puts("skipped: no network namespaces or no nsenter here");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(newcomers_find_the_next_rank_0)};
    return cmocka_run_group_tests_name("a job whose rank 0 has moved", tests, NULL, NULL);
}
