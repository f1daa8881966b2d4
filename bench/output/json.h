/* Writing JSON as it comes: no tree, no memory. The caller keeps the order; commas and quotes are
 * done here. */
#ifndef GYRE_BENCH_OUTPUT_JSON_H
#define GYRE_BENCH_OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_JSON_DEPTH 16

struct bench_json {
    FILE *file; /* NULL: every call is ignored */
    int depth;
    bool filled[BENCH_JSON_DEPTH]; /* something stands at this depth: a comma comes first */
    char closing[BENCH_JSON_DEPTH];
};

/* `key` is NULL inside a list. */
void bench_json_open(struct bench_json *json, const char *key, char bracket); /* '{' or '[' */
void bench_json_close(struct bench_json *json);
void bench_json_text(struct bench_json *json, const char *key, const char *text); /* NULL: null */
void bench_json_bool(struct bench_json *json, const char *key, bool value); /* "true" or "false" */
void bench_json_int(struct bench_json *json, const char *key, int64_t value);
void bench_json_double(struct bench_json *json, const char *key, double value);

#endif
