/* Flags of one command, from a table. `--log-dir x`, `--log-dir=x`, `--log_dir x`, `-n 4` and `-n4`
 * all read alike. */
#ifndef GYRE_CLI_FLAGS_H
#define GYRE_CLI_FLAGS_H

#include "base/status.h"

struct gyre_flag {
    const char *name;  /* without the dashes, words joined by '-' */
    char letter;       /* short form, 0 for none */
    const char *value; /* what follows it, for messages: "COUNT"; NULL: nothing does */
    const char *help;  /* NULL: not listed; TRANSPORTS in it stands for the words for drivers */
};

struct gyre_flags {
    char **argv; /* NULL-terminated; moved past what was read */
    const struct gyre_flag *flag;
    int count;
    const char *value; /* of the flag just read */
};

enum { GYRE_FLAGS_END = -1 };

/* The index of the next flag; GYRE_FLAGS_END at the first word that is none, or behind "--";
 * GYRE_INVALID and the story. */
int gyre_flags_next(struct gyre_flags *flags, struct gyre_trouble *trouble);

/* Reads all flags, up to where gyre_flags_next() ends. word[i] becomes the value of flag i, "yes"
 * where nothing follows the flag. 0, or GYRE_INVALID and the story. */
int gyre_flags_read(struct gyre_flags *flags, const char **word, struct gyre_trouble *trouble);

/* The same for a command that takes flags only: any other word is refused. */
int gyre_flags_read_only(struct gyre_flags *flags, const char **word, struct gyre_trouble *trouble);

/* The same for a command that takes one other word, with flags before and behind it. *other stays
 * as it is where there is none; `expected`, as "one file", is for the refusal of a second. */
int gyre_flags_read_around(struct gyre_flags *flags, const char **word, const char **other,
                           const char *expected, struct gyre_trouble *trouble);

/* One line per listed flag, aligned. */
void gyre_flags_print(const struct gyre_flag *flag, int count);

#endif
