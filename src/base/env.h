/* Values from the environment and from command lines, checked.
 *
 * An unusable value is GYRE_INVALID with one sentence: the variable, the value, the expectation
 * and, for words, the nearest right one. Nothing falls back to a default in silence. */
#ifndef GYRE_BASE_ENV_H
#define GYRE_BASE_ENV_H

#include "base/status.h"

#include <stdint.h>

/* Writes "a, b or c" into `list`. */
void gyre_list_words(const char *const *words, int count, char *list, size_t room);

/* Each writes *out only on success. Messages call the value `name` ("GYRE_TIMEOUT", "--ranks").
 * parse_*: `text` is the value. env_*: the value is getenv(name); unset or empty leaves *out alone
 * and returns 0. */
int gyre_parse_int(const char *name, const char *text, int64_t least, int64_t most, int64_t *out,
                   struct gyre_trouble *trouble);
int gyre_parse_size(const char *name, const char *text, uint64_t *out,
                    struct gyre_trouble *trouble); /* 8, 64K, 1.5G */
int gyre_parse_duration_ms(const char *name, const char *text, int64_t *out,
                           struct gyre_trouble *trouble); /* 10 (seconds), 250ms, 5s, 30min, 2h */
int gyre_parse_word(const char *name, const char *text, const char *const *words, int count,
                    int *index, struct gyre_trouble *trouble);

int gyre_env_int(const char *name, int64_t least, int64_t most, int64_t *out,
                 struct gyre_trouble *trouble);
int gyre_env_size(const char *name, uint64_t *out, struct gyre_trouble *trouble);
int gyre_env_duration_ms(const char *name, int64_t *out, struct gyre_trouble *trouble);
int gyre_env_word(const char *name, const char *const *words, int count, int *index,
                  struct gyre_trouble *trouble);

/* Finds the name that `typed` may mean: a name that begins with `typed` ("nproc" for
 * "nproc-per-node"), a name with which `typed` begins ("batch-size" for "batch"), the nearest word,
 * or a name whose help has these words ("learning-rate"). help[i] may be NULL. NULL: there is
 * none. */
const char *gyre_nearest_name(const char *typed, const char *const *names, const char *const *help,
                              int count);

/* Refuses a 0: GYRE_INVALID where the variable is set and `value`, read from it, is 0. */
int gyre_env_refuse_zero(const char *name, uint64_t value, struct gyre_trouble *trouble);

/* Finds the word nearest to `text` (edit distance at most 3 and less than half its length); NULL:
 * none is near. */
const char *gyre_nearest_word(const char *text, const char *const *words, int count);

#endif
