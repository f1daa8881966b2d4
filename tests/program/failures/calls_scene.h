/* What scenes share: the rank that plays one, and words for what fails. */
#ifndef GYRE_TESTS_PROGRAM_FAILURES_CALLS_SCENE_H
#define GYRE_TESTS_PROGRAM_FAILURES_CALLS_SCENE_H

#include <gyre/gyre.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCENE_COUNT 3000 /* floats of a block: more than a short message */
#define SCENE_LARGE 200000

struct scene {
    struct gyre_comm *comm;
    float *input, *output; /* SCENE_LARGE of each; the input is the same on every rank */
    uint64_t digest;       /* of all results */
    bool silent;           /* a call failed without a sentence */
};

extern struct scene scene;

/* Opens the book of the environment and makes the blocks. */
void scene_open(void);

void scene_arm(bool on); /* calls fail while it is on */
void scene_take(const void *at, size_t bytes);

/* True, and told, if the call failed. `%` of the text is nothing special. */
bool scene_failed(int status, const char *step);

/* False, and told, if the call failed; else takes the output. */
bool scene_wrote(int status, const char *step, uint64_t floats);

int scene_begin(void); /* gyre_init(); 0 or -1 */

/* The greatest of equal blocks is the same, however many ranks there are. */
int scene_greatest(const float *from);

#endif
