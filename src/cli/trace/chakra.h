/* A timeline as an execution trace of Chakra, for simulators such as ASTRA-sim. */
#ifndef GYRE_CLI_TRACE_CHAKRA_H
#define GYRE_CLI_TRACE_CHAKRA_H

#include "cli/trace/reading/calls.h"

#include <stdio.h>

/* Writes the trace of one rank, by its place in the timeline. */
void gyre_chakra_put(FILE *out, const struct gyre_calls *calls, uint32_t place);

#endif
