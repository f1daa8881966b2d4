/* The table of drivers, best first. */
#ifndef GYRE_TRANSPORT_LINK_TABLE_H
#define GYRE_TRANSPORT_LINK_TABLE_H

#include "transport/link/driver.h"

extern const struct gyre_driver *const gyre_drivers[]; /* ends with NULL */

#endif
