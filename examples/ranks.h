/* The table of ranks that some of the examples print: where each runs, on which device, and what it
 * had to do. */
#ifndef GYRE_EXAMPLES_RANKS_H
#define GYRE_EXAMPLES_RANKS_H

#include <gyre/gyre.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct rank_line {
    char host[32];
    int32_t node, local_rank, local_size, device;
    uint64_t share;
};

/* Rank 0 prints a line for each rank; `what` is what `share` counts. Collective. */
static inline int print_ranks(struct gyre_comm *comm, const char *what, uint64_t share)
{
    struct rank_line own = {.node = gyre_node(comm),
                            .local_rank = gyre_local_rank(comm),
                            .local_size = gyre_local_size(comm),
                            .device = gyre_device(comm),
                            .share = share};
    struct rank_line *all = calloc((size_t)gyre_size(comm), sizeof *all);
    gethostname(own.host, sizeof own.host - 1);
    int status = all ? gyre_gather(comm, &own, all, sizeof own, GYRE_U8, 0) : -1;
    if (!status && gyre_rank(comm) == 0)
        printf("rank  host              node  local rank  device  %s\n", what);
    for (int rank = 0; !status && gyre_rank(comm) == 0 && rank < gyre_size(comm); rank++) {
        const struct rank_line *line = &all[rank];
        char device[16] = "cpu";
        if (line->device >= 0)
            snprintf(device, sizeof device, "cuda %d", line->device);
        printf("%4d  %-16.16s  %4d  %5d of %d  %6s  %*llu\n", rank, line->host, line->node,
               line->local_rank, line->local_size, device, 4, (unsigned long long)line->share);
    }
    free(all);
    return status;
}

#endif
