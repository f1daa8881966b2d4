/* Who slows a job down that runs. */
#ifndef GYRE_CLI_WHY_PACE_H
#define GYRE_CLI_WHY_PACE_H

#include "cli/why/finding.h"

/* Compares the calls that all ranks have made: who comes last, and by how much. False: too few. */
bool gyre_diagnose_pace(const struct gyre_trails *trails, struct gyre_finding *finding);

#endif
