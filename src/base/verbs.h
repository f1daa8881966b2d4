/* The collective operations, one row each. Their numbers, words and facts are generated from these
 * rows wherever a room needs them.
 *
 * A row's place is the operation's number, which travels on the wire: a new row goes to the end. */
#ifndef GYRE_BASE_VERBS_H
#define GYRE_BASE_VERBS_H

/* ROW(ID, word, input, output, reduces, ending) for every operation:
 *   input, output  BLOCK   one block on every rank     BLOCKS   n blocks, one per rank
 *                  AT_ROOT one block, at the root      N_AT_ROOT n blocks, at the root
 *   reduces        whether the blocks of all ranks are folded into one
 *   ending         what holds when the operation is over
 *
 * In place the shorter buffer is the longer one's block `rank`; equal ones begin at one place. */
/* clang-format off */
#define GYRE_VERB_ROWS(ROW)                                                                        \
    ROW(ALL_REDUCE,     all_reduce,     BLOCK,     BLOCK,     true,  "every rank holds the sums")  \
    ROW(BROADCAST,      broadcast,      AT_ROOT,   BLOCK,     false,                               \
        "every rank holds the root's data")                                                        \
    ROW(REDUCE,         reduce,         BLOCK,     AT_ROOT,   true,  "the root holds the sums")    \
    ROW(ALL_GATHER,     all_gather,     BLOCK,     BLOCKS,    false,                               \
        "every rank holds the blocks of all")                                                      \
    ROW(REDUCE_SCATTER, reduce_scatter, BLOCKS,    BLOCK,     true,                                \
        "every rank holds the sums of its block")                                                  \
    ROW(ALL_TO_ALL,     all_to_all,     BLOCKS,    BLOCKS,    false,                               \
        "every rank holds what each had for it")                                                   \
    ROW(GATHER,         gather,         BLOCK,     N_AT_ROOT, false,                               \
        "the root holds the blocks of all")                                                        \
    ROW(SCATTER,        scatter,        N_AT_ROOT, BLOCK,     false,                               \
        "every rank holds its block of the root's data")
/* clang-format on */

#endif
