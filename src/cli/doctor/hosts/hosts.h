/* A check-up of several hosts and the ways between them. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_HOSTS_H
#define GYRE_CLI_DOCTOR_HOSTS_HOSTS_H

#include "base/status.h"
#include "cli/doctor/report.h"

/* The hosts of a list such as "a,b:4,me@c", each reached as `gyre run --hosts` reaches it, by ssh.
 * What is found goes into the report. GYRE_INVALID and the story for a list that cannot be read. */
int gyre_doctor_visit(const char *list, struct gyre_doctor_report *report,
                      struct gyre_trouble *trouble);

/* As one rank of a job, by whatever launcher: each rank's host is looked at. Ranks find rank 0
 * where a job would, and have `wait_ms` for that. Rank 0 alone gets the report, *speaks is true
 * there. 0; or a negative status and the story: the job cannot be found, or this rank did not reach
 * rank 0. */
int gyre_doctor_attend(int wait_ms, bool *speaks, struct gyre_doctor_report *report,
                       struct gyre_trouble *trouble);

#endif
