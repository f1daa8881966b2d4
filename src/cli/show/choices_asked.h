/* What `gyre show choices` was asked, shared by its two files. */
#ifndef GYRE_CLI_SHOW_CHOICES_ASKED_H
#define GYRE_CLI_SHOW_CHOICES_ASKED_H

#include "cli/flags.h"
#include "collectives/choose/choose.h"
#include "collectives/choose/preference.h"

enum { RANKS, NODES, OP, TRANSPORT, TYPE, TYPE_BYTES, FROM, TO, JSON, HELP, FLAGS };

/* What the operation is to the chooser: a verb, all_gather_v, one without a choice, or a
 * barrier. */
enum gyre_choices_kind { PLAIN, UNEQUAL, ONE_WAY, BARRIER };

extern const struct gyre_flag gyre_choices_flags[FLAGS];

struct gyre_choices_asked {
    const char *word[FLAGS]; /* what was given */
    struct gyre_preference preference;
    const char *operation;
    enum gyre_choices_kind kind;
    struct gyre_layout *layout; /* owned */
    uint64_t *blocks;           /* owned; UNEQUAL: places, then counts */
    struct gyre_question question;
    uint64_t from, to; /* bytes of a block */
};

/* Finds what the words and the environment mean. 0, or GYRE_INVALID or -ENOMEM and the story; what
 * is owned is to be freed in any case. */
int gyre_choices_settle(struct gyre_choices_asked *asked, struct gyre_trouble *trouble);

#endif
