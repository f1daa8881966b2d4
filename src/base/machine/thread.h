/* Threads of Gyre's own.
 *
 * Their stacks have the default size. A smaller stack of a fixed size breaks programs with much
 * thread-local storage: the C library keeps each thread's copy of it on that thread's stack. Pages
 * of a stack that are never touched take no memory. */
#ifndef GYRE_BASE_MACHINE_THREAD_H
#define GYRE_BASE_MACHINE_THREAD_H

#include <pthread.h>

/* Starts a thread in which all signals are blocked but those of its own faults, such as SIGSEGV:
 * the others belong to the program's threads. 0, or -errno. */
int gyre_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
