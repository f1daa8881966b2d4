/* The number of ranks on each node, and the node and local rank of each rank.
 *
 * Ranks are counted node by node without gaps, whatever the nodes' sizes:
 *
 *     node     0            1
 *     size     4            2
 *     rank     0  1  2  3   4  5
 *     local    0  1  2  3   0  1 */
#ifndef GYRE_LAUNCH_SEATING_H
#define GYRE_LAUNCH_SEATING_H

#include "base/status.h"

#define GYRE_NODES_MAX          1024
#define GYRE_RANKS_PER_NODE_MAX 4096
#define GYRE_HOST_MAX           128

struct gyre_seating {
    int nodes;
    int size[GYRE_NODES_MAX]; /* ranks of each node */
};

struct gyre_rank_seat {
    int rank, node, local_rank, local_size;
};

struct gyre_hosts { /* --hosts: entry i is node i of the seating beside it */
    char name[GYRE_NODES_MAX][GYRE_HOST_MAX];
};

/* Pure functions. A parser writes its results only on success. Otherwise the parser returns
 * GYRE_INVALID with a sentence that names `flag` and the text. */

/* "4" or "4,2": sizes separated by commas. "auto" and "cpu" stand for `cores`. */
int gyre_seating_parse_sizes(const char *flag, const char *text, int cores,
                             struct gyre_seating *seating, struct gyre_trouble *trouble);
/* "2x3" (two nodes of three) or "4+2". */
int gyre_seating_parse_nodes(const char *flag, const char *text, struct gyre_seating *seating,
                             struct gyre_trouble *trouble);
/* "a:4,b:2", "me@a:4,[fe80::1]:2". "g[01-04,07]:8" is a list as Slurm writes it, of five hosts with
 * 8 ranks each. A host without a number starts `cores` ranks, this machine's count. -ENOMEM, too.
 */
int gyre_seating_parse_hosts(const char *flag, const char *text, int cores,
                             struct gyre_hosts *hosts, struct gyre_seating *seating,
                             struct gyre_trouble *trouble);

/* Takes ranks away from the last nodes, and nodes without ranks, until `most` ranks are left. 0: it
 * takes none. */
void gyre_seating_cut(struct gyre_seating *seating, int most);

int gyre_seating_world(const struct gyre_seating *seating);
int gyre_seating_first_rank(const struct gyre_seating *seating, int node);
struct gyre_rank_seat gyre_seating_seat(const struct gyre_seating *seating, int rank);

#endif
