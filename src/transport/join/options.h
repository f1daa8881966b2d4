/* The options of a join. */
#ifndef GYRE_TRANSPORT_JOIN_OPTIONS_H
#define GYRE_TRANSPORT_JOIN_OPTIONS_H

#include "base/status.h"
#include "transport/join/company.h"

#include <stdbool.h>

#define GYRE_TCP_CONNECTIONS_MAX 8
#define GYRE_LINKS_AT_ONCE       64 /* unless options say otherwise */

/* The ranks of one machine that share memory and so are a node. */
enum gyre_join_nodes {
    GYRE_NODES_SHARE,     /* those that can */
    GYRE_NODES_SHARE_ALL, /* all ranks of the job, or the join fails */
    GYRE_NODES_APART      /* none: each rank is a node */
};

/* Which of a rank's links to other nodes need their connections from the join, in a job of more
 * ranks than connect at once. */
enum gyre_join_channels {
    GYRE_CHANNELS_NONE,     /* all can be made at their first use */
    GYRE_CHANNELS_PARTNERS, /* those to partners (joined.h), by a device, up to a number of ranks */
    GYRE_CHANNELS_ALL
};

/* So many times as many ranks connect at once where a rank needs channels for its device. */
#define GYRE_DEVICE_LINKS 8u

struct gyre_join_options {
    enum gyre_join_nodes nodes;
    int join_timeout_ms; /* until all ranks are there */
    int dead_time_ms;    /* as gyre_socket_tune() takes it; 0: no limit (debuggers) */
    int connections;     /* data connections per TCP peer, 1 … 8 */
    int links_at_once;   /* ranks of a machine that all meet each other, at most; 0: the usual */
    enum gyre_join_channels channels;
    const char *interface; /* GYRE_INTERFACE: names, addresses, CIDR; NULL: the route to the root */
    uint16_t port_low, port_high;   /* range for listeners; 0, 0: any */
    uint8_t device[16];             /* UUID of this rank's CUDA device; zeros: none */
    uint64_t configuration;         /* hash of every setting that must be equal on all ranks */
    const char *configuration_text; /* NAME=VALUE words; those that differ are printed */
    /* Ranks that have found each other: there is no rendezvous, and job->key is the members'. Its
     * conversations are taken. NULL: ranks meet at the job's root. */
    struct gyre_company *company;
};

/* How many ranks of a machine meet each other, at most. In a machine of more, a *large* one, they
 * meet along a tree, down which the file goes that is the memory of the whole node:
 *
 *      0 ─── 1                  0 ─── 1 ─── 17, 18 … 32
 *      │  ╳  │                  │ ╲
 *      2 ─── 3                  2    3 … 16
 */
uint32_t gyre_join_links_at_once(const struct gyre_join_options *options);

/* GYRE_INVALID with its trouble for options out of range. */
int gyre_join_options_check(const struct gyre_join_options *options, struct gyre_trouble *trouble);

#endif
