/* Names beside the table of knobs that are known too: those of tests, benches and their guests.
 * Tested by tests/unit/knobs/strangers_test.c. */
#include "knobs/strangers.h"

#include "knobs/knobs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_MOST 64

static const char *const others[] = {"GYRE_BENCH_PLANT", "GYRE_FUZZ_RUNS", "GYRE_SIM_RANKS",
                                     "GYRE_VM"};

static bool is_known_variable(const char *name)
{
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++)
        if (strcmp(knob->name, name) == 0)
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return strncmp(name, "GYRE_TEST_", 10) == 0;
}

const char *gyre_stranger_next(void)
{
    static char text[2 * NAME_MOST + 64];
    static int looked; /* variables that were looked at */
    for (int i = 0; environ && environ[i]; i++) {
        char name[NAME_MOST + 1];
        if (i < looked)
            continue;
        looked = i + 1;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(environ[i], "="), environ[i]);
        if (strncmp(name, "GYRE_", 5) != 0 || is_known_variable(name))
            continue;
        const char *near = gyre_knob_meant(name);
        snprintf(text, sizeof text, "nothing reads %s%s%s%s", name,
                 near ? " (did you mean \"" : "; `gyre show env` lists what is read",
                 near ? near : "", near ? "\"?)" : "");
        return text;
    }
    return NULL;
}
