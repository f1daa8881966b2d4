/* What a rank does whose calls of libc fail: a scene, from a name. */
#ifndef GYRE_TESTS_PROGRAM_FAILURES_CALLS_WORK_H
#define GYRE_TESTS_PROGRAM_FAILURES_CALLS_WORK_H

enum calls_end {
    CALLS_RIGHT = 0,
    CALLS_TOLD = 1,        /* a call failed and gave a sentence, which is on standard error */
    CALLS_SILENT = 2,      /* a call failed without one */
    CALLS_DESCRIPTORS = 3, /* some were left open */
    CALLS_UNKNOWN = 4,     /* no such scene */
    CALLS_UNSTEADY = 5,    /* a failed communicator returned another status */
};

/* Plays the scene in this process, a rank if the environment says so. Its calls fail between the
 * scene's beginning and end, as the book in FAILING_CALLS has it. Standard output gets a digest of
 * all results. Returns an end. */
int calls_work(const char *name, const char *folder);

#endif
