/* The prices of links and folds: the numbers that the model (cost.h) computes with.
 *
 * Prices are whole numbers, so that every machine computes the same. The built-in ones were
 * measured as bench/README.md tells; `gyre tune` measures others and writes them to a file:
 *
 *     # any comment                       the first other line: the format and its version
 *     gyre-tuning 1
 *     loopback.latency_ns 1000            a value for each key that was measured; the others keep
 *     loopback.kib_ps 340000              the built-in value
 *     values 2                            how many there are: a file cut short is noticed */
#ifndef GYRE_COLLECTIVES_CHOOSE_TUNING_H
#define GYRE_COLLECTIVES_CHOOSE_TUNING_H

#include "base/status.h"

#include <stdint.h>

/* How a message reaches a peer. */
enum gyre_link_kind {
    GYRE_LINK_NETWORK,  /* tcp to another machine */
    GYRE_LINK_LOOPBACK, /* tcp inside one machine */
    GYRE_LINK_SHM,      /* the rings of a node */
    GYRE_LINK_MAPPED,   /* no message: one pass over the buffers of all */
    GYRE_LINK_KINDS
};

extern const char *const gyre_link_kind_name[]; /* "network", "loopback", "shm", "mapped" */

struct gyre_price {
    uint64_t latency_ns; /* of a round: from the first send to the arrival of the last byte */
    uint64_t message_ns; /* of each message that a rank sends or receives in a round */
    /* The price of a round with long messages, which wait for a grant; on mapped memory that of a
     * round in which ranks tell where their buffers are. */
    uint64_t grant_ns;
    uint64_t kib_ps; /* of each KiB that a rank sends and receives at once */
};

struct gyre_tuning {
    struct gyre_price link[GYRE_LINK_KINDS];
    /* Of the network: added to kib_ps where several ranks of other machines send to one at once.
     * Their streams end at different times, and ways idle meanwhile. */
    uint64_t incast_kib_ps;
    /* Of the network: so many bytes that a way has not carried in a pause pass at once behind it,
     * as a shaper's bucket lets them. */
    uint64_t burst_bytes;
    /* Prices of mapped memory that are added to kib_ps: for what travels in the entry lines, and
     * for what of the buffers of all ranks together is beyond so many KiB. */
    uint64_t line_kib_ps;
    uint64_t shared_kib_ps, own_cache_kib;    /* not in the caches that cores have of their own */
    uint64_t memory_kib_ps, shared_cache_kib; /* in no cache */
    uint64_t fold_kib_ps; /* of each KiB that a fold or a copy reads or writes */
    uint64_t crowd;       /* messages in a round above this number cost twice */
    /* A window of the cache: where the buffers of a machine's ranks together are longer, what a
     * core moves beyond it for messages and folds costs so much more. */
    uint64_t window_kib, spill_percent;
};

extern const struct gyre_tuning gyre_tuning_built_in;

/* Reads a tuning file over the built-in values. Messages call the file by its path. GYRE_INVALID
 * names the line and the mistake; -errno: the file cannot be read. *tuning and *kinds (the kinds of
 * link that the file prices, as bits; may be NULL) are written on success only. */
int gyre_tuning_read(const char *path, struct gyre_tuning *tuning, uint32_t *kinds,
                     struct gyre_trouble *trouble);

/* Reads the text of a tuning file. The text is not changed. */
int gyre_tuning_parse(const char *name, const char *text, struct gyre_tuning *tuning,
                      uint32_t *kinds, struct gyre_trouble *trouble);

/* Writes the values of the kinds in `measured` (bits 1 << kind) and those without a kind, with the
 * format's first and last line. Returns the length that the text needs, as snprintf does. */
int gyre_tuning_format(char *text, size_t size, const struct gyre_tuning *tuning,
                       uint32_t measured);

/* Copies the values of these kinds (bits 1 << kind). */
void gyre_tuning_take(struct gyre_tuning *tuning, const struct gyre_tuning *from, uint32_t kinds);

/* A hash of the values, from whatever file. */
uint64_t gyre_tuning_hash(const struct gyre_tuning *tuning);

#endif
