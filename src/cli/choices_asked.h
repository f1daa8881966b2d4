/* What `gyre show choices` was asked, shared by its two files. */
#ifndef GYRE_CLI_CHOICES_ASKED_H
#define GYRE_CLI_CHOICES_ASKED_H

#include "cli/flags.h"
#include "collectives/choose.h"
#include "collectives/preference.h"

enum { RANKS, NODES, OP, TRANSPORT, TYPE, TYPE_BYTES, FROM, TO, JSON, HELP, FLAGS };

extern const struct gyre_flag gyre_choices_flags[FLAGS];

struct gyre_choices_asked {
    const char *word[FLAGS]; /* what was given */
    struct gyre_preference preference;
    struct gyre_layout *layout; /* owned */
    struct gyre_question question;
    uint64_t from, to; /* bytes of a block */
};

/* Finds what the words and the environment mean. 0, or GYRE_INVALID or -ENOMEM and the story; the
 * layout is to be destroyed in any case. */
int gyre_choices_settle(struct gyre_choices_asked *asked, struct gyre_trouble *trouble);

#endif
