/* How a process that starts here would find its job: the launcher around it, the launchers that
 * could be used, and the settings of Gyre in the environment. Tested by
 * tests/unit/cli/doctor/job_test.c. */
#include "cli/doctor/checks/checks.h"

#include "cli/show/knob_check.h"
#include "collectives/choose/preference.h"
#include "knobs/strangers.h"
#include "transport/job/job.h"

#include <stdlib.h>
#include <string.h>

static void list_programs(const struct gyre_doctor_machine *machine, char *text, size_t size)
{
    static const char *const programs[] = {"srun", "mpirun", "mpiexec", "torchrun", "ssh"};
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && used < size; i++)
        if (machine->has_program(programs[i]))
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", programs[i]);
}

void gyre_check_launcher(const struct gyre_doctor_machine *machine,
                         struct gyre_doctor_report *report)
{
    struct gyre_job job;
    struct gyre_trouble trouble = {0};
    char programs[128];
    list_programs(machine, programs, sizeof programs);
    if (gyre_job_find_rank(NULL, &job, &trouble)) {
        gyre_doctor_find(report, "launcher", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
    } else if (!strcmp(job.source, "alone")) {
        gyre_doctor_find(report, "launcher", GYRE_DOCTOR_OK,
                         "none around this process; `gyre run` starts ranks");
    } else {
        gyre_doctor_find(report, "launcher", GYRE_DOCTOR_OK, "%s: rank %d of %d", job.source,
                         job.rank, job.world);
        gyre_doctor_figure(report, "rank", job.rank);
        gyre_doctor_figure(report, "world", job.world);
    }
    if (*programs)
        gyre_doctor_detail(report, "in PATH: %s", programs);
}

static void add_setting(struct gyre_doctor_report *report, const struct gyre_knob *knob,
                        const char *text, char first[])
{
    struct gyre_trouble trouble = {0};
    gyre_doctor_detail(report, "%s=%s", knob->name,
                       knob->kind == GYRE_KNOB_SECRET ? "(set)" : text);
    if (gyre_knob_check(knob, text, &trouble) && strcmp(trouble.text, first)) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report, "%s", trouble.text);
    }
}

static void add_strangers(struct gyre_doctor_report *report)
{
    const char *stranger;
    while ((stranger = gyre_stranger_next())) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report, "%s", stranger);
    }
}

/* What kinds of values cannot tell of, such as the rules of GYRE_ALGO, is read as a job reads it.
 */
void gyre_check_settings(const struct gyre_doctor_machine *machine,
                         struct gyre_doctor_report *report)
{
    struct gyre_trouble first = {0};
    struct gyre_preference preference;
    int set = 0;
    (void)machine;
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++)
        set += getenv(knob->name) && *getenv(knob->name);
    gyre_doctor_find(report, "settings", GYRE_DOCTOR_OK,
                     set ? "%d of Gyre's variables set" : "none of Gyre's variables is set", set);
    if (gyre_preference_read(&preference, &first)) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report, "%s", first.text);
    }
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++)
        if (getenv(knob->name) && *getenv(knob->name))
            add_setting(report, knob, getenv(knob->name), first.text);
    add_strangers(report);
    gyre_doctor_figure(report, "set", set);
}
