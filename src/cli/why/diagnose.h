/* What the records of a job's ranks mean: one finding, the most serious first found. */
#ifndef GYRE_CLI_WHY_DIAGNOSE_H
#define GYRE_CLI_WHY_DIAGNOSE_H

#include "cli/why/finding.h"

/* The word of a kind: "killed". */
const char *gyre_why_word(enum gyre_why_kind kind);

void gyre_diagnose(const struct gyre_trails *trails, struct gyre_finding *finding);

#endif
