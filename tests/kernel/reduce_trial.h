/* A trial of kernel/reduce: one task with everything about it drawn from a seed, and two arenas to
 * run it on. */
#ifndef GYRE_TESTS_KERNEL_REDUCE_TRIAL_H
#define GYRE_TESTS_KERNEL_REDUCE_TRIAL_H

#include "base/rng.h"
#include "collectives/kernels/reduce.h"

#define SOURCES_MOST      GYRE_FOLD_SOURCES
#define DESTINATIONS_MOST 5
#define SPANS             (SOURCES_MOST + DESTINATIONS_MOST)
#define COUNT_MOST        8193

struct trial {
    int type, op;
    uint64_t count;
    uint32_t sources, destinations, divisor;
    bool casts; /* destinations are of the type `into`, not of `type` */
    int into;
    int in_place; /* the source that destination 0 is, or -1 */
    bool stream;
    unsigned shift[SPANS]; /* bytes from alignment */
    uint64_t seed;
    uint64_t number[SOURCES_MOST]; /* begins with an element to multiply each source by */
};

extern char *arena_of_reference, *arena_of_variant;
bool reduce_arenas_create(size_t span_bytes);
size_t reduce_arena_bytes(void);
void reduce_arenas_destroy(void);

void draw_numbers(struct trial *trial); /* from its seed */
struct trial random_trial(struct gyre_rng *rng, int type, int op, uint64_t count);
void fill_arena(const struct trial *trial);
void run_trial(char *arena, const struct trial *trial, gyre_fold fold);

/* The same in other hands: `run` is given the task, whose addresses are in `arena`. */
typedef void (*run_fold)(const struct gyre_fold_task *task, gyre_fold fold);
void run_trial_by(run_fold run, char *arena, const struct trial *trial, gyre_fold fold);

/* Where an arena has the trial's spans, with their guards. */
void for_each_span(const struct trial *trial, void (*call)(size_t at, size_t bytes));
void compare_arenas(const struct trial *trial, const char *variant); /* fails the test */

bool is_nan_pattern(int type, uint64_t bits);

/* The table as it stands once variant `v` has been put over all slower ones. */
struct gyre_reduce_table table_up_to(int v);

/* kernel/reduce --bench */
int reduce_bench(void);

#endif
