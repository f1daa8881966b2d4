/* Cores that a job may use here, and how fast they may run. A mask of CPUs and a quota of a control
 * group are in force at once; threads are counted by the smaller one. Tested by
 * tests/unit/cli/doctor/machine_test.c. */
#include "cli/doctor/checks/checks.h"

#include "base/machine/cpu.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Of a list such as "0-3,8". */
static int count_listed(const char *list)
{
    int count = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last_one = first;
        if (end == list)
            return count;
        if (*end == '-')
            last_one = strtol(end + 1, &end, 10);
        count += (int)(last_one - first) + 1;
        list = end + (*end == ',');
    }
    return count;
}

void gyre_check_cores(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    char list[512];
    int allowed = machine->cpus_allowed(), quota = gyre_cpu_quota(machine->root);
    gyre_doctor_read(machine, "/sys/devices/system/cpu/online", list, sizeof list);
    int online = count_listed(list), usable = allowed < quota ? allowed : quota;
    online = online < allowed ? allowed : online;
    if (quota < allowed) {
        gyre_doctor_find(
            report, "cores", GYRE_DOCTOR_NOTE,
            "%d to use: the control group gives the time of %d, of %d that are allowed", usable,
            quota, allowed);
        gyre_doctor_advise(report,
                           "start at most %d ranks here, or raise the quota (docker --cpus, "
                           "cpu.max of the group)",
                           usable);
    } else if (allowed < online) {
        gyre_doctor_find(report, "cores", GYRE_DOCTOR_NOTE,
                         "%d to use: this process is bound to %d of %d", usable, allowed, online);
        gyre_doctor_advise(report, "what it starts is bound too; if that is not wanted, look at "
                                   "taskset, srun --cpus-per-task and the container's cpuset");
    } else {
        gyre_doctor_find(report, "cores", GYRE_DOCTOR_OK, "%d to use, all that are online", usable);
    }
    gyre_doctor_figure(report, "usable", usable);
    gyre_doctor_figure(report, "allowed", allowed);
    gyre_doctor_figure(report, "online", online);
    if (quota < INT_MAX)
        gyre_doctor_figure(report, "quota", quota);
}

#define FREQUENCY "/sys/devices/system/cpu/cpu0/cpufreq/"

/* The drivers of Intel and AMD choose frequencies well under "powersave"; others stay at the least.
 */
static bool saves_power(const char *driver, const char *governor)
{
    return !strcmp(governor, "powersave") && !strstr(driver, "pstate");
}

static void judge_frequency(double most, double limit, const char *governor, const char *driver,
                            struct gyre_doctor_report *report)
{
    if (limit > 0 && limit < 0.95 * most) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_rephrase(report, "limited to %.1f of %.1f GHz", limit, most);
        gyre_doctor_advise(report, "raise scaling_max_freq (cpupower frequency-set --max)");
    }
    if (saves_power(driver, governor)) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report, "this governor keeps cores slow: cpupower frequency-set "
                                   "--governor performance");
    }
}

void gyre_check_frequency(const struct gyre_doctor_machine *machine,
                          struct gyre_doctor_report *report)
{
    char governor[32], driver[32];
    double most = (double)gyre_doctor_read_number(machine, FREQUENCY "cpuinfo_max_freq", 0) / 1e6,
           limit = (double)gyre_doctor_read_number(machine, FREQUENCY "scaling_max_freq", 0) / 1e6;
    gyre_doctor_read(machine, FREQUENCY "scaling_governor", governor, sizeof governor);
    gyre_doctor_read(machine, FREQUENCY "scaling_driver", driver, sizeof driver);
    if (most <= 0) {
        gyre_doctor_find(report, "frequency", GYRE_DOCTOR_ABSENT,
                         "the system tells none, as in a virtual machine");
        return;
    }
    gyre_doctor_find(report, "frequency", GYRE_DOCTOR_OK, "up to %.1f GHz, governor %s", most,
                     *governor ? governor : "unknown");
    judge_frequency(most, limit, governor, driver, report);
    gyre_doctor_figure(report, "most_ghz", most);
    gyre_doctor_figure(report, "limit_ghz", limit);
}
