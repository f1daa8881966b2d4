/* What `gyre why` says, in words and in JSON. */
#ifndef GYRE_CLI_WHY_WORDS_H
#define GYRE_CLI_WHY_WORDS_H

#include "cli/why/diagnose.h"

void gyre_why_print(const struct gyre_trails *trails, const struct gyre_finding *finding);
void gyre_why_print_json(const struct gyre_trails *trails, const struct gyre_finding *finding);

/* Writes a length of time: "3.2 s", "410 us". */
void gyre_why_span(char *out, size_t room, double ns);

/* Writes a text as a string of JSON. */
void gyre_why_put_string(FILE *out, const char *text);

#endif
