/* A port for a program that will listen there later. */
#ifndef GYRE_BASE_PORT_H
#define GYRE_BASE_PORT_H

#include <stdint.h>

/* Draws a port from 20000 to 31999: below the ephemeral range, from which the kernel gives none
 * away. */
uint16_t gyre_port_draw(void);

/* Reserves a free TCP port of this machine. While the returned descriptor is open, nobody takes
 * the port but a listener with SO_REUSEADDR, which each of Gyre's has. Returns -errno where there
 * is none. */
int gyre_port_reserve(uint16_t *port);

#endif
