/* Agents as ranks of a job. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_MEET_H
#define GYRE_CLI_DOCTOR_HOSTS_MEET_H

#include "base/status.h"
#include "cli/doctor/hosts/survey.h"

/* Finds this process's place in the job. On rank 0 *speaks is true, and the survey has a line to
 * each rank's agent; ranks that have not come within wait_ms are lost. On others *speaks is false,
 * and the call returns when the survey is over: 0, or why rank 0 was not reached. */
int gyre_meet_ranks(int wait_ms, bool *speaks, struct gyre_survey *survey,
                    struct gyre_trouble *trouble);

/* After the greeting: of the ranks of one machine the lowest stays. */
void gyre_meet_thin_out(struct gyre_survey *survey);

#endif
