/* The machine as the checks ask it: files below a root, and what only a call can tell. Tests bring
 * a folder and answers of their own, so that every state of a machine can be had anywhere. */
#ifndef GYRE_CLI_DOCTOR_MACHINE_H
#define GYRE_CLI_DOCTOR_MACHINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define GYRE_NO_LIMIT UINT64_MAX

struct gyre_doctor_space { /* of a file system */
    uint64_t bytes, free;
    bool writable;
};

struct gyre_doctor_machine {
    const char *root; /* "": this machine's files */
    int (*cpus_allowed)(void);
    uint64_t (*limit)(int resource, bool hard); /* of RLIMIT_*; GYRE_NO_LIMIT */
    uint64_t (*lockable)(void);                 /* bytes of memory; GYRE_NO_LIMIT */
    bool (*space)(const char *path, struct gyre_doctor_space *space);
    int (*share_memory)(struct gyre_trouble *trouble); /* tries what ranks of one machine do */
    int (*io_uring)(struct gyre_trouble *trouble);
    int (*verbs)(char *name, size_t size, struct gyre_trouble *trouble); /* the wire of a rank */
    int (*blas)(char *name, size_t size, struct gyre_trouble *trouble);
    int (*outward)(struct sockaddr_storage *address); /* towards other machines; 0 or -errno */
    bool (*port_is_free)(uint16_t port);
    bool (*has_program)(const char *name); /* in PATH */
    double (*clock_ns)(void);              /* what one look at the clock takes */
    void (*pause)(void);                   /* while the load is watched */
};

extern const struct gyre_doctor_machine gyre_doctor_this_machine;

/* Reads the beginning of a file of the machine, without the newline at its end. False, and "":
 * there is none. */
bool gyre_doctor_read(const struct gyre_doctor_machine *machine, const char *path, char *text,
                      size_t size);

/* The number that a file begins with; `absent` where there is none. */
long long gyre_doctor_read_number(const struct gyre_doctor_machine *machine, const char *path,
                                  long long absent);

/* "8 MiB", "1.5 GiB", "no limit". Returns `text`. */
const char *gyre_doctor_bytes(uint64_t bytes, char text[32]);

#endif
