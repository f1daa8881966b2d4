/* The two ways to have an agent on each host:
 *
 *     --hosts a,b    the coordinator is here; it starts agents over ssh, whose pipes are the lines
 *     --job          ranks of any launcher are agents; they meet rank 0, the coordinator, over TCP
 *
 * With --hosts what is said does not depend on the network that is looked at. Tested by
 * tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/hosts.h"

#include "cli/doctor/hosts/meet.h"
#include "cli/doctor/hosts/ssh.h"
#include "cli/doctor/hosts/survey.h"

#include <signal.h>

static void survey_hosts(struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    gyre_survey_check_hosts(survey, report);
    gyre_survey_try_ways(survey);
    gyre_survey_judge(survey, report);
}

int gyre_doctor_visit(const char *list, struct gyre_doctor_report *report,
                      struct gyre_trouble *trouble)
{
    struct gyre_survey survey = {0};
    signal(SIGPIPE, SIG_IGN);
    int status = gyre_ssh_start(list, &survey, trouble);
    if (!status) {
        gyre_survey_greet(&survey);
        gyre_ssh_tell_ends(&survey);
        survey_hosts(&survey, report);
    }
    gyre_survey_deinit(&survey);
    gyre_ssh_end();
    return status;
}

int gyre_doctor_attend(int wait_ms, bool *speaks, struct gyre_doctor_report *report,
                       struct gyre_trouble *trouble)
{
    struct gyre_survey survey = {0};
    signal(SIGPIPE, SIG_IGN);
    int status = gyre_meet_ranks(wait_ms, speaks, &survey, trouble);
    if (!status && *speaks) {
        gyre_survey_greet(&survey);
        gyre_meet_thin_out(&survey);
        survey_hosts(&survey, report);
    }
    gyre_survey_deinit(&survey);
    return status;
}
