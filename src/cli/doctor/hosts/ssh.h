/* Agents over ssh. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_SSH_H
#define GYRE_CLI_DOCTOR_HOSTS_SSH_H

#include "base/status.h"
#include "cli/doctor/hosts/survey.h"

/* Starts an agent on each host of the list; hosts of which one cannot be started are lost. */
int gyre_ssh_start(const char *list, struct gyre_survey *survey, struct gyre_trouble *trouble);

/* For hosts whose agent has ended: how its ssh ended, and its last words. */
void gyre_ssh_tell_ends(struct gyre_survey *survey);

/* Waits for all that were started; their lines are closed. */
void gyre_ssh_end(void);

#endif
