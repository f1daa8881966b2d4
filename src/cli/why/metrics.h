/* The ranks of a job as text for Prometheus. */
#ifndef GYRE_CLI_WHY_METRICS_H
#define GYRE_CLI_WHY_METRICS_H

#include "cli/why/trail.h"

void gyre_metrics_put(FILE *out, const struct gyre_trails *trails);

#endif
