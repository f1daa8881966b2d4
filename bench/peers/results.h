/* What bench/compare measured, read back: one line per peer, size and round. */
#ifndef GYRE_BENCH_PEERS_RESULTS_H
#define GYRE_BENCH_PEERS_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum field { /* of one line, per direction */
             FIELD_TIME,
             FIELD_P50,
             FIELD_P99,
             FIELD_PROCESSOR, /* microseconds of all ranks, per call */
             FIELDS
};

struct result_line {
    int section, op, peer; /* indices of names */
    int ranks, round;
    uint64_t bytes;
    double wrong;
    double value[2][FIELDS]; /* out of place, in place; 0: no such half */
};

#define NAMES_MAX 32
#define SIZES_MAX 64

struct names {
    char name[NAMES_MAX][32];
    int count;
};

struct results {
    struct result_line *line;
    size_t count, room;
    struct names sections, ops, peers; /* in the order in which they come */
};

struct group { /* one table and one panel */
    int section, op, ranks;
    uint64_t size[SIZES_MAX];
    int sizes;
    int peer[NAMES_MAX]; /* who takes part: ours first */
    int peers, ours;
};

/* False if it cannot be read; ends the program with 2 if a line is not as it should be. */
bool results_read(struct results *results, const char *path);

/* The i-th group in the order in which they come; false behind the last. */
bool results_group(const struct results *results, int i, struct group *group);

/* Median over the rounds; 0 where there is none. */
double results_median(const struct results *results, const struct group *group, int peer,
                      uint64_t bytes, bool in_place, enum field field);

int ascending(const void *a, const void *b); /* of doubles, for qsort */

/* busbw / algbw. */
double op_bus_factor(const char *op, int n);

/* "4 KiB" */
void write_size(uint64_t bytes, char text[16]);

#endif
