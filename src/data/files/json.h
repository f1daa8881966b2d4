/* The JSON (RFC 8259) that Gyre needs to read: a cursor that takes one thing after another and
 * refuses at the first wrong byte.
 *
 * Nothing is allocated and no function calls itself, so a hostile text costs no more than its
 * length. A function that fails sets trouble to "NAME: INSIDE: byte N of its JSON: …", or to "NAME:
 * INSIDE: line N, column M: …", and returns the status. Every function first skips white space. */
#ifndef GYRE_DATA_FILES_JSON_H
#define GYRE_DATA_FILES_JSON_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GYRE_JSON_INSIDE_MAX 112
#define GYRE_JSON_DEEPEST    64 /* brackets open at once in a skipped value */

struct gyre_json {
    const char *name;                  /* of the file, for texts */
    char inside[GYRE_JSON_INSIDE_MAX]; /* the part of the file, with ": ", for texts; or empty */
    const uint8_t *begin, *at, *end;
    bool fresh;   /* a bracket was opened, and nothing in it taken yet */
    bool by_line; /* texts name line and column, for a file that people write */
    struct gyre_trouble *trouble;
};

struct gyre_json gyre_json_over(const char *name, const void *text, uint64_t length,
                                struct gyre_trouble *trouble);

int gyre_json_open(struct gyre_json *json, char bracket); /* '{' or '[' */
/* Whether another member follows before the closing '}' or ']', which is taken. */
int gyre_json_more(struct gyre_json *json, char closing, bool *more);

/* Takes a string, decoded, with a NUL behind it: never longer than its text. A string that holds
 * NUL itself is refused. */
int gyre_json_string(struct gyre_json *json, char *to);
int gyre_json_key(struct gyre_json *json, char *to);          /* a string and its ':' */
int gyre_json_whole(struct gyre_json *json, uint64_t *value); /* digits only */
int gyre_json_skip(struct gyre_json *json);                   /* any value */
int gyre_json_end(struct gyre_json *json);                    /* nothing may follow */
/* Returns GYRE_INVALID with a text that says where the cursor is. */
int gyre_json_refuse(const struct gyre_json *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether a text can stand in a string. */
bool gyre_json_is_utf8(const char *text);

#endif
