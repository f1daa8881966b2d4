/* Every algorithm of the house: one file beside this one, one line below. The checker, the tests,
 * `gyre show` and the selector walk this table, so a new line is proved, printed and offered
 * without any other edit. */
#include "collectives/schedule/schedule.h"

#define ALGORITHMS(line)                                                                           \
    line(ring) line(direct) line(tree) line(doubling) line(halving_doubling) line(knomial)         \
        line(double_tree) line(two_level) line(chain) line(bruck)

#define DECLARE(name) extern const struct gyre_algorithm gyre_algorithm_##name;
#define ENTRY(name)   &gyre_algorithm_##name,

ALGORITHMS(DECLARE)

const struct gyre_algorithm *const gyre_algorithms[] = {ALGORITHMS(ENTRY) NULL};
