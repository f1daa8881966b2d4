/* GYRE_PORT_RANGE: the ports at which ranks may listen. */
#ifndef GYRE_TRANSPORT_NET_PORTS_H
#define GYRE_TRANSPORT_NET_PORTS_H

#include "base/status.h"

#include <stdint.h>

/* Writes the first and the last port; 0 and 0 where the variable is not set. GYRE_INVALID and the
 * story where it holds no range. */
int gyre_ports_read(uint16_t *low, uint16_t *high, struct gyre_trouble *trouble);

#endif
