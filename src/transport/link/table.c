/* The drivers that are built in.
 *
 * Tested by tests/unit/transport/link/words_test.c. */
#include "transport/link/table.h"

#define ENTRY(name) &gyre_driver_##name,

const struct gyre_driver *const gyre_drivers[] = {GYRE_DRIVERS(ENTRY) NULL};
