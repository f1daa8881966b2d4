/* Every variable of Gyre's own that something in src/ reads: one table for `gyre show env` and for
 * telling of names that nothing reads. A test compares it with the sources and with
 * docs/environment.md. */
#ifndef GYRE_KNOBS_KNOBS_H
#define GYRE_KNOBS_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

enum gyre_knob_kind {
    GYRE_KNOB_TEXT,
    GYRE_KNOB_SECRET, /* is never printed */
    GYRE_KNOB_WORD,   /* one of `words` */
    GYRE_KNOB_NUMBER, /* from `least` to `most` */
    GYRE_KNOB_SIZE,
    GYRE_KNOB_TIME,
    GYRE_KNOB_TRANSPORT, /* how ranks reach each other */
    GYRE_KNOB_KERNELS    /* a set of kernels that was built for this kind of machine */
};

struct gyre_knob {
    const char *name;
    const char *fallback; /* what holds without it, for people */
    const char *meaning;  /* one line */
    enum gyre_knob_kind kind;
    bool same;         /* must be equal on all ranks */
    const char *words; /* "payload header" */
    int64_t least, most;
};

extern const struct gyre_knob gyre_knobs[]; /* ends with a NULL name */

/* The knob that is nearest to a misspelt name; NULL for the name of a knob, and for a name that is
 * near to none. */
const char *gyre_knob_meant(const char *variable);

#endif
