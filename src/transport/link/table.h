/* The table of drivers, best first. A new driver adds its name to the list. */
#ifndef GYRE_TRANSPORT_LINK_TABLE_H
#define GYRE_TRANSPORT_LINK_TABLE_H

#include "transport/link/driver.h"

#define GYRE_DRIVERS(ROW) ROW(shm) ROW(verbs) ROW(tcp)

#define GYRE_DRIVER_DECLARED(name) extern const struct gyre_driver gyre_driver_##name;
GYRE_DRIVERS(GYRE_DRIVER_DECLARED)

extern const struct gyre_driver *const gyre_drivers[]; /* ends with NULL */

#endif
