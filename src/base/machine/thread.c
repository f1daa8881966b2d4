/* A thread inherits the signal mask of the one that creates it. */
#include "base/machine/thread.h"

#include <signal.h>
#include <stddef.h>

/* Where one of these is blocked, its fault ends the process past any handler of the program. */
static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};

int gyre_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = -pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
