/* Calls that keep all ranks of a bench together, clocks, and ends of the program. */
#ifndef GYRE_BENCH_HARNESS_TOGETHER_H
#define GYRE_BENCH_HARNESS_TOGETHER_H

#include "harness/bench.h"

/* The exit code of a program that ends with this status. */
int bench_exit_code(int status);

/* Ends the program with the story if `status` is a failure. */
void bench_must(struct bench *bench, int status, const char *what);
double bench_now_us(void);
double bench_processor_us(void); /* of all threads of this process */
double bench_agree(struct bench *bench, double value, enum gyre_op op); /* collective */
double bench_from_root(struct bench *bench, double value);              /* rank 0's; collective */
void bench_sum(struct bench *bench, void *data, uint64_t count,
               enum gyre_type type);                   /* collective */
void bench_together(struct bench *bench);              /* barrier */
void *bench_memory(struct bench *bench, size_t bytes); /* zeroed; never NULL */

#endif
