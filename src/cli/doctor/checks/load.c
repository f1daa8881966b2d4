/* What else the machine does, and what a look at the clock takes: both decide what measured times
 * are worth. Tested by tests/unit/cli/doctor/machine_test.c. */
#include "cli/doctor/checks/checks.h"

#include "base/machine/load.h"

#include <string.h>

void gyre_check_load(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    static struct gyre_load_look before, after;
    struct gyre_load load;
    char text[512];
    gyre_load_look(machine->root, &before);
    machine->pause();
    gyre_load_look(machine->root, &after);
    gyre_load_between(machine->root, &before, &after, &load);
    if (load.cores <= 0) {
        gyre_doctor_find(report, "load", GYRE_DOCTOR_ABSENT, "the system tells no processor times");
        return;
    }
    if (gyre_load_tell(&load, 1, text, sizeof text)) {
        gyre_doctor_find(report, "load", GYRE_DOCTOR_NOTE, "%s", text);
        gyre_doctor_advise(report, "ranks will wait for cores, and what is measured now misleads: "
                                   "see who computes (top), and wait");
    } else {
        gyre_doctor_find(report, "load", GYRE_DOCTOR_OK,
                         "%.1f of %.0f cores are busy, load average %.1f",
                         gyre_load_of_others(&load, 1, 0), load.cores, load.average);
    }
    gyre_doctor_figure(report, "busy_cores", gyre_load_of_others(&load, 1, 0));
    gyre_doctor_figure(report, "stolen_cores", load.stolen);
    gyre_doctor_figure(report, "average", load.average);
}

#define SLOW_LOOK_NS 500

/* A source that every core reads by itself takes some 20 ns; one outside the processor a
 * microsecond and more, in every small call. */
static bool is_quick(const char *source, double ns)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(source, slow[i]))
            return false;
    return ns < SLOW_LOOK_NS;
}

void gyre_check_clock(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    char source[64], others[128];
    double ns = machine->clock_ns();
    gyre_doctor_read(machine, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                     source, sizeof source);
    gyre_doctor_read(machine, "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                     others, sizeof others);
    bool quick = is_quick(source, ns);
    gyre_doctor_find(report, "clock", quick ? GYRE_DOCTOR_OK : GYRE_DOCTOR_NOTE,
                     "%s, %.0f ns a look", *source ? source : "of unknown source", ns);
    if (!quick)
        gyre_doctor_advise(
            report,
            "waiting ranks look at it: take a quicker source, of %s (clocksource= on "
            "the kernel's command line)",
            *others ? others : "those that the machine has");
    gyre_doctor_figure(report, "look_ns", ns);
}
