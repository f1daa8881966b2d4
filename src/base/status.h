/* Status codes and the story behind them.
 *
 * A function that can fail returns 0 or a negative status (see gyre/gyre.h) and, where it takes a
 * `struct gyre_trouble`, writes the first failure's full sentence there: what failed, which value,
 * which rank and host, what to do. Later failures on the same record are dropped: the user reads
 * the cause, not an echo. */
#ifndef GYRE_BASE_STATUS_H
#define GYRE_BASE_STATUS_H

#include <gyre/gyre.h>

#include <stdbool.h>

#define GYRE_TROUBLE_MAX 1024

struct gyre_trouble {
    int status; /* 0 while nothing has failed */
    bool ended; /* told by a communicator that has ended, so of no other's */
    char text[GYRE_TROUBLE_MAX];
};

/* Records the first failure (format as printf; truncated to fit) and returns `status`. `trouble`
 * may be NULL. */
int gyre_trouble_set(struct gyre_trouble *trouble, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts `format…` and ": " before the recorded text; nothing if none is recorded. Returns
 * trouble->status. */
int gyre_trouble_wrap(struct gyre_trouble *trouble, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* This thread's last failure of a call without a communicator, and its last GYRE_INVALID:
 * gyre_error(NULL) returns the text. */
struct gyre_trouble *gyre_thread_trouble(void);

/* Replaces the text of gyre_thread_trouble() and returns GYRE_INVALID. */
int gyre_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checks the `size` of a public struct of options: GYRE_INVALID where it is another than this
 * library knows, told in place of what `trouble` told. */
int gyre_check_size(const char *options, size_t size, size_t known, struct gyre_trouble *trouble);

#endif
