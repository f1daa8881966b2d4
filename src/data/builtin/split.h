/* The cut of a built-in data set into training and test rows. */
#ifndef GYRE_DATA_BUILTIN_SPLIT_H
#define GYRE_DATA_BUILTIN_SPLIT_H

#include <stdint.h>

/* Of a set's rows, how many are for the test: a fifth, rounded up. */
#define GYRE_SPLIT_TEST(rows) (((rows) + 4) / 5)

/* Orders the rows as scikit-learn's train_test_split(test_size=0.2, random_state=seed) does. The
 * test's rows come first, then those for training. `row` has room for `rows`. */
void gyre_split_rows(uint32_t rows, uint32_t seed, uint32_t *row);

#endif
