/* Writes JSON: pieces put one behind the other, to memory or to a stream.
 *
 * The caller puts brackets and commas, so it decides where lines end. Without memory and stream the
 * bytes are only counted: the same function, called twice, first tells how much memory is needed
 * and then fills it. */
#ifndef GYRE_DATA_FILES_JSON_OUT_H
#define GYRE_DATA_FILES_JSON_OUT_H

#include <stdint.h>
#include <stdio.h>

struct gyre_json_out {
    char *to;
    FILE *stream; /* where `to` is NULL */
    uint64_t used;
};

void gyre_json_put_text(struct gyre_json_out *out, const char *text);   /* as it is */
void gyre_json_put_string(struct gyre_json_out *out, const char *text); /* in quotes, escaped */
void gyre_json_put_whole(struct gyre_json_out *out, uint64_t value);

#endif
