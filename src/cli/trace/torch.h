/* A timeline as torch's flight recorder dumps it, for the analyser that comes with torch. */
#ifndef GYRE_CLI_TRACE_TORCH_H
#define GYRE_CLI_TRACE_TORCH_H

#include "cli/trace/reading/calls.h"

#include <stdio.h>

/* Writes the dump of one rank, by its place in the timeline: its calls on communicators. */
void gyre_torch_put(FILE *out, const struct gyre_calls *calls, uint32_t place);

#endif
