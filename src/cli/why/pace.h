/* Who slows a job down that runs. */
#ifndef GYRE_CLI_WHY_PACE_H
#define GYRE_CLI_WHY_PACE_H

#include "cli/why/finding.h"

#define GYRE_PACE_SHARE 0.2 /* of the time from call to call, from which a part of it matters */

/* Compares the calls that all ranks have made: who comes last, and by how much. False: too few. */
bool gyre_diagnose_pace(const struct gyre_trails *trails, struct gyre_finding *finding);

#endif
