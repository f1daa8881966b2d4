/* gyre doctor: a check-up before a job: of this machine, as a rank that starts here would find it;
 * or of several hosts and the ways between them.
 *
 *     checks/    each asks the machine about one thing ─▶ findings
 *     hosts/     has other hosts checked, and tries the ways ─▶ findings
 *     report.c   keeps them ─▶ print.c for people, json.c for programs
 *
 * Nothing is changed, and no context is made on any device unless --try asks for it. Exit code 0:
 * no problem; 1: a problem was found; 2: wrong words. Tested by tests/program/cli/doctor.c. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/doctor/checks/all.h"
#include "cli/doctor/hosts/agent.h"
#include "cli/doctor/hosts/hosts.h"
#include "cli/flags.h"

#include "base/env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { HOSTS, JOB, WAIT, JSON, TRY, AGENT, HELP, FLAGS };

static const struct gyre_flag doctor_flags[FLAGS] = {
    [HOSTS] = {"hosts", 0, "LIST",
               "look at these hosts over ssh, and at the ways between them: a,b"},
    [JOB] = {"job", 0, NULL, "be one rank of a job that looks at the hosts of all of them"},
    [WAIT] = {"wait", 0, "TIME", "with --job: how long ranks are waited for (20s)"},
    [JSON] = {"json", 0, NULL, "print one JSON document"},
    [TRY] = {"try", 0, NULL,
             "let two processes share memory of each pair of CUDA devices; takes seconds"},
    [AGENT] = {"agent", 0, NULL, NULL},
    [HELP] = {"help", 'h', NULL, "this page"}};

/* Columns of the terminal; 0: standard output is none. */
static int terminal_width(void)
{
    struct winsize size = {0};
    if (!isatty(STDOUT_FILENO))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static int tell(const struct gyre_doctor_report *report, bool json)
{
    struct gyre_doctor_title title;
    const char *plain = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool colours =
        isatty(STDOUT_FILENO) && !(plain && *plain) && !(terminal && !strcmp(terminal, "dumb"));
    gyre_doctor_title_fill(&title);
    if (json)
        gyre_doctor_print_json(report, &title, stdout);
    else
        gyre_doctor_print(report, &title, stdout, colours, terminal_width());
    return gyre_doctor_count(report, GYRE_DOCTOR_PROBLEM) > 0 || report->cut;
}

static void print_doctor_help(void)
{
    puts("usage: gyre doctor [FLAGS]\n\n"
         "Looks at this machine as a rank that starts here would find it: cores, memory and "
         "limits,\n"
         "the network, RDMA and CUDA devices, the key, settings; or at several hosts, and at the\n"
         "ways between them: firewalls, keys, versions, clocks, round trips, bandwidth. Says what\n"
         "to do about problems. Ends with 0 if there is no problem, with 1 if there is one.\n");
    gyre_flags_print(doctor_flags, FLAGS);
    puts("\nexamples: gyre doctor\n"
         "          gyre doctor --hosts a,b,c\n"
         "          srun -N 4 --ntasks-per-node=1 gyre doctor --job");
}

/* A rank that does not reach the others has found a problem; only wrong words are wrong use. */
static int fail_to_look(int status, const struct gyre_trouble *trouble)
{
    gyre_cli_fail("doctor", status, trouble);
    return status == GYRE_INVALID ? 2 : 1;
}

/* *speaks: this process tells what was found. */
static int look(const char *const given[FLAGS], bool *speaks, struct gyre_doctor_report *report,
                struct gyre_trouble *trouble)
{
    int64_t wait_ms = 20000;
    *speaks = true;
    if (given[HOSTS] && given[JOB])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--hosts and --job exclude each other; give one");
    int status = given[WAIT] ? gyre_parse_duration_ms("--wait", given[WAIT], &wait_ms, trouble) : 0;
    if (status)
        return status;
    if (given[HOSTS])
        return gyre_doctor_visit(given[HOSTS], report, trouble);
    if (given[JOB])
        return gyre_doctor_attend((int)wait_ms, speaks, report, trouble);
    gyre_check_this_machine(given[TRY], report);
    return 0;
}

int gyre_cli_doctor(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = doctor_flags, .count = FLAGS};
    struct gyre_doctor_report report = {0};
    struct gyre_trouble trouble = {0};
    const char *given[FLAGS] = {NULL};
    bool speaks;
    int status = gyre_flags_read_only(&flags, given, &trouble);
    if (status)
        return gyre_cli_fail("doctor", status, &trouble);
    if (given[HELP])
        return print_doctor_help(), 0;
    if (given[AGENT])
        return gyre_doctor_serve(STDIN_FILENO, STDOUT_FILENO);
    status = look(given, &speaks, &report, &trouble);
    int code = status ? fail_to_look(status, &trouble) : speaks ? tell(&report, given[JSON]) : 0;
    gyre_doctor_report_deinit(&report);
    return code;
}
