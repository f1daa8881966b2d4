/* The secret of jobs: where ranks that start here find it, and whether they may trust it. Nothing
 * is made, and no secret is shown: keys are told by their ids. Tested by
 * tests/unit/cli/doctor/job_test.c. */
#include "cli/doctor/checks/checks.h"

#include "base/bytes.h"
#include "transport/job/job.h"

static void tell_key(const struct gyre_key_place *place, struct gyre_doctor_report *report)
{
    char id[2 * sizeof place->key_id + 1];
    gyre_hex_write(place->key_id, sizeof place->key_id, id);
    switch (place->origin) {
    case GYRE_KEY_UNWANTED:
        gyre_doctor_find(report, "key", GYRE_DOCTOR_NOTE,
                         "GYRE_AUTH is none: whoever reaches a port of a job can join it");
        gyre_doctor_advise(report, "unset GYRE_AUTH, but on a network of your own");
        return;
    case GYRE_KEY_TO_MAKE:
        gyre_doctor_find(report, "key", GYRE_DOCTOR_OK,
                         "none yet; the first job of several ranks makes %s", place->path);
        return;
    case GYRE_KEY_VARIABLE:
        gyre_doctor_find(report, "key", GYRE_DOCTOR_NOTE,
                         "from GYRE_KEY, which process lists show; id %s", id);
        gyre_doctor_advise(report, "write it into a file of mode 0600 and name that in "
                                   "GYRE_KEY_FILE");
        return;
    case GYRE_KEY_LAUNCHED:
        gyre_doctor_find(report, "key", GYRE_DOCTOR_OK, "from the launcher, id %s", id);
        return;
    case GYRE_KEY_FILE:
        gyre_doctor_find(report, "key", GYRE_DOCTOR_OK,
                         "from %s, readable for its owner only, id %s", place->path, id);
        return;
    }
}

void gyre_check_key(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    struct gyre_key_place place;
    struct gyre_trouble trouble = {0};
    (void)machine;
    if (gyre_job_find_key(&place, &trouble))
        gyre_doctor_find(report, "key", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
    else
        tell_key(&place, report);
}
