/* What the files of failing_calls.so share. */
#ifndef GYRE_TESTS_STAND_IN_FAILING_INSIDE_H
#define GYRE_TESTS_STAND_IN_FAILING_INSIDE_H

#include "stand_in/failing_calls.h"

#define FAILING_HIDDEN __attribute__((visibility("hidden")))

/* The function of that name in the libraries behind this one. */
FAILING_HIDDEN void *failing_next(const char *name);

/* Is this call the one that fails? Then errno is set. */
FAILING_HIDDEN int failing_fails(enum failing_call call, const void *caller);

/* The function that a symbol names, in front of which `in_front_NAME` stands. */
#define STAND(type, name, call, failed, parameters, ...)                                           \
    type in_front_##name parameters __asm__(#name) __attribute__((visibility("default")));         \
    type in_front_##name parameters                                                                \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (!real)                                                                                 \
            *(void **)&real = failing_next(#name);                                                 \
        if (failing_fails(FAILING_##call, __builtin_return_address(0)))                            \
            return failed;                                                                         \
        return real(__VA_ARGS__);                                                                  \
    }

#endif
