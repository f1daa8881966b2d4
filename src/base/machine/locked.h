/* How much memory this process may lock. Memory that a network card reads and writes is locked. */
#ifndef GYRE_BASE_MACHINE_LOCKED_H
#define GYRE_BASE_MACHINE_LOCKED_H

#include <stdint.h>

/* Bytes; UINT64_MAX: no limit. */
uint64_t gyre_lockable_bytes(void);

#endif
