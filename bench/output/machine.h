/* What a reader must know of the machine to believe a figure. */
#ifndef GYRE_BENCH_OUTPUT_MACHINE_H
#define GYRE_BENCH_OUTPUT_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_place { /* of one rank; plain bytes, so that it can travel in a collective */
    int32_t pid;
    int32_t device; /* the local rank, where it is the CPU */
    int32_t node;   /* whose ranks share memory */
    char host[64];
    char chip[96]; /* model, and of the CPU the list of cores */
};

void bench_machine_place(int local_rank, struct bench_place *place);

/* The rank's buffers are that device's: it stands in the place of the CPU. */
void bench_machine_device(int device, const char *name, struct bench_place *place);

/* Runnable tasks over the last minute; negative where the kernel does not tell. */
double bench_machine_load(void);

/* The most memory that this process has held so far, code and libraries included; 0: unknown. */
uint64_t bench_machine_peak_bytes(void);

/* The machine's, whatever this process is bound to. */
int bench_machine_cores(void);

#endif
