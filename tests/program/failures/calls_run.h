/* One run of a scene in which one call fails, and what came of it. */
#ifndef GYRE_TESTS_PROGRAM_FAILURES_CALLS_RUN_H
#define GYRE_TESTS_PROGRAM_FAILURES_CALLS_RUN_H

#include "stand_in/failing_calls.h"

#include <stdbool.h>

#define CALLS_WORDS   12
#define CALLS_RANKS   3
#define CALLS_RESULTS 200
#define CALLS_FOLDER  "@" /* at the beginning of a word: the folder of the run */

struct calls_scene {
    const char *name, *transport;
    int ranks;                      /* of calls_work(); 0: the tool with these words */
    int lost;                       /* the last of them, whom the others go on without */
    int new_ones;                   /* the last of them, who come to the job of the others */
    const char *setting[2];         /* a variable of every process and its value */
    const char *words[CALLS_WORDS]; /* ended by NULL */
    bool far; /* the tool starts others of its kind, of which the one on host b is victim 1 */
    char right[CALLS_RANKS][CALLS_RESULTS]; /* standard output if nothing fails; calls_count() */
};

struct calls_case {
    enum failing_call call;
    int n, error, sticky, victim;
    const char *everywhere; /* words that every process tells; NULL: any sentence */
};

enum calls_verdict { CALLS_NEVER_CALLED, CALLS_ALL_RIGHT, CALLS_ALL_TOLD, CALLS_BAD };

extern bool calls_shows_all; /* prints what every run said, not only the bad ones */

/* Makes a folder and its files; not 0, and told, where libc cannot be stood in front of. */
int calls_prepare(void);

/* Runs the scene with nothing failing, for the number of calls of each kind, and notes its results
 * as the right ones. Ends the test where it goes wrong. */
void calls_count(struct calls_scene *scene, int victim, int count[FAILING_KINDS]);

/* A bad one is told on standard output with all that was said. */
enum calls_verdict calls_try(const struct calls_scene *scene, const struct calls_case *fault);

const char *calls_word(enum failing_call call);
uint64_t calls_now_ms(void);

#endif
