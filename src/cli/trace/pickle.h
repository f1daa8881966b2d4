/* Values of Python as a pickle of protocol 2, which every Python reads. */
#ifndef GYRE_CLI_TRACE_PICKLE_H
#define GYRE_CLI_TRACE_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A container's content is written between its beginning and its end; a dictionary's is keys and
 * values in turn. */
void gyre_pickle_begin(FILE *out);
void gyre_pickle_end(FILE *out);

void gyre_pickle_begin_dict(FILE *out);
void gyre_pickle_end_dict(FILE *out);
void gyre_pickle_begin_list(FILE *out);
void gyre_pickle_end_list(FILE *out);
void gyre_pickle_begin_tuple(FILE *out);
void gyre_pickle_end_tuple(FILE *out);

void gyre_pickle_text(FILE *out, const char *text); /* of ASCII: other bytes become '?' */
void gyre_pickle_number(FILE *out, int64_t number);
void gyre_pickle_bool(FILE *out, bool value);
void gyre_pickle_none(FILE *out);

#endif
