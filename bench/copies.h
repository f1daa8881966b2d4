/* Ways to copy memory, from which the ceiling takes the fastest. */
#ifndef GYRE_BENCH_COPIES_H
#define GYRE_BENCH_COPIES_H

#include <stddef.h>

struct bench_copy {
    const char *name;
    void (*copy)(void *to, const void *from, size_t bytes);
};

extern const struct bench_copy bench_copies[]; /* ended by a NULL name */

#endif
