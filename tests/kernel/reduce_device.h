/* Trials of kernel/reduce in the memory of a device, posted to a queue of it. */
#ifndef GYRE_TESTS_KERNEL_REDUCE_DEVICE_H
#define GYRE_TESTS_KERNEL_REDUCE_DEVICE_H

#include "kernel/reduce_trial.h"

/* Opens device 0 and an arena in its memory, for arenas that exist. Where there is none: false, and
 * the reason in *trouble. */
bool reduce_device_open(const char *name, struct gyre_trouble *trouble);
void reduce_device_close(void);

const struct gyre_reduce_table *reduce_device_table(void);

/* `kernel/reduce --device cuda --bench`. */
int reduce_bench_device(void);

/* As run_trial() on arena_of_variant, by way of the device's arena. */
void run_trial_on_device(const struct trial *trial, gyre_fold fold);

#endif
