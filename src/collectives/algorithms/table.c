/* The table of algorithms. An algorithm is a file beside this one, a name in the list below and a
 * file in meson.build. The checker, the tests, `gyre show` and the selector walk this table. So a
 * name added here is proved, printed and offered without any other edit. */
#include "collectives/algorithms/table.h"

#include <string.h>

#define ALGORITHMS(line)                                                                           \
    line(ring) line(direct) line(tree) line(doubling) line(halving_doubling) line(knomial)         \
        line(double_tree) line(two_level) line(chain) line(bruck)

#define DECLARE(name) extern const struct gyre_algorithm gyre_algorithm_##name;
#define ENTRY(name)   &gyre_algorithm_##name,

ALGORITHMS(DECLARE)

const struct gyre_algorithm *const gyre_algorithms[] = {ALGORITHMS(ENTRY) NULL};

const struct gyre_algorithm *gyre_algorithm_find(const char *name)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        if (strcmp((*it)->name, name) == 0)
            return *it;
    return NULL;
}

bool gyre_algorithm_builds(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice)
{
    return (unsigned)slice->verb < GYRE_VERBS && (algorithm->verbs >> slice->verb & 1) != 0 &&
           (!algorithm->suits || algorithm->suits(slice));
}
