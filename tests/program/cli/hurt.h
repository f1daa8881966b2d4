/* Jobs with a planted fault, and what `gyre why` is to say of them.
 *
 * The test's program is also the ranks: they make the same calls over and over, and one rank hurts
 * itself at a call. The ranks of a job that is to be slow compute a little between long calls. */
#ifndef GYRE_TESTS_PROGRAM_CLI_HURT_H
#define GYRE_TESTS_PROGRAM_CLI_HURT_H

#include "rig/launch_rig.h"

enum fault { KILLED, STOPPED, COUNT, ORDER, MISSING, CORE, LINK, FAULTS };

extern const char *const fault_word[FAULTS];

struct plant {
    enum fault fault;
    int ranks, victim, call; /* numbered from 1 */
    bool tcp;                /* the ranks reach each other over TCP, not over shared memory */
    bool alone;              /* each on a node of its own */
};

extern struct rig hurt_job, hurt_asked;
extern char hurt_folder[512]; /* of the dumps */

/* Becomes a rank, where the words of main() ask for one. -1: they do not. Else an exit code. */
int hurt_become_rank(int argc, char **argv);

/* Makes the folder, and finds this program. False: it cannot. */
bool hurt_prepare(void);

const char *hurt_program(void); /* the path of this program */

/* Starts a job with a fault planted in it, its folder emptied. */
void hurt_start(const struct plant *plant, const char *dead_time);

/* The process of the rank that hurts itself, as soon as it is about to. */
int hurt_victim(void);

void hurt_ask(const char *where); /* the answer is in `hurt_asked`, to be ended */
void hurt_end_living(void);

/* Plants a fault and asks why. `until_named`: a living job is asked until the answer is right. Else
 * the first answer stands that names anything. */
void hurt_plant(const struct plant *plant, bool until_named);

/* What the answer names. A slow rank is slow in all calls; it has no call of its own. */
bool hurt_names_rank(const struct plant *plant);
bool hurt_names_call(const struct plant *plant);
bool hurt_names_kind(const struct plant *plant);

#endif
