/* Included first into every file of a coverage build: a forked child that ends by _exit() must
 * still leave its counts. */
#ifndef GYRE_CI_COVERAGE_H
#define GYRE_CI_COVERAGE_H

#include <unistd.h>

void __gcov_dump(void);

static inline __attribute__((noreturn)) void gyre_ci_exit(int code)
{
    __gcov_dump();
    _exit(code);
}

#define _exit gyre_ci_exit

/* As under a sanitizer, more than the program itself takes memory, files and descriptors. */
#define SANITIZED

#endif
