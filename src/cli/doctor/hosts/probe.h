/* The way from one host to another, tried over TCP as a job would use it: does a connection come
 * about, do small and large messages pass, how long do they take, how far apart are the clocks? */
#ifndef GYRE_CLI_DOCTOR_HOSTS_PROBE_H
#define GYRE_CLI_DOCTOR_HOSTS_PROBE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define GYRE_PROBE_TOKEN      16 /* letters by which a listener knows whom it expects */
#define GYRE_PROBE_CONNECT_MS 4000

struct gyre_probe {
    int error;  /* of connecting, an errno; 0: connected */
    bool lost;  /* the connection ended, or nobody answered on it */
    bool stuck; /* small messages pass, a large one does not */
    int segment_bytes;
    double round_trip_us;      /* the median */
    double ahead_ms, doubt_ms; /* the other clock, and by how much this may be wrong */
    double gbit_s;
};

/* Connects within GYRE_PROBE_CONNECT_MS, from `source` where it is given. A descriptor, or
 * -errno. */
int gyre_probe_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source);

/* Tries the way to a listener that calls gyre_probe_serve(). A way that drops packets is known
 * after some seconds; a listener that takes all and says nothing is waited for, a minute in all. */
void gyre_probe_try(const struct sockaddr_storage *to, const struct sockaddr_storage *source,
                    const char token[GYRE_PROBE_TOKEN], struct gyre_probe *probe);

/* Serves one connection to its end and closes it. The end is also a word from the descriptor
 * `heed`, or 40 s in which nothing was said. */
void gyre_probe_serve(int fd, const char token[GYRE_PROBE_TOKEN], int heed);

/* What a failure to connect means, and what to do: sentences without an end. */
void gyre_probe_explain(int error, const char *address, char *found, char *advice, size_t size);

#endif
