/* The drivers that are built in. A new one adds its line here.
 *
 * Tested by tests/unit/transport/link/words_test.c. */
#include "transport/link/table.h"

const struct gyre_driver *const gyre_drivers[] = {
    &gyre_driver_shm,
    &gyre_driver_verbs,
    &gyre_driver_tcp,
    NULL,
};
