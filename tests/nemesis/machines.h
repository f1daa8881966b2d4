/* Machines for tests: network namespaces with a bridge between them.
 *
 *     namespace rank0: way (10.77.0.1) ── port0 ┐
 *     namespace rank1: way (10.77.0.2) ── port1 ┼ bridge `between`, in the test's own namespace
 *     namespace rank2: way (10.77.0.3) ── port2 ┘ */
#ifndef GYRE_TESTS_NEMESIS_MACHINES_H
#define GYRE_TESTS_NEMESIS_MACHINES_H

#include <stdbool.h>

/* Moves the process into namespaces of its own and makes so many machines. False: not permitted
 * here, or `ip` is missing. */
bool machines_make(int machines);

/* Runs a shell command, written as for printf(). True: its exit code is 0. */
__attribute__((format(printf, 1, 2))) bool machines_run(const char *format, ...);

/* Moves the process to a machine, and has it meet its job at machine 0. */
void machines_enter(int machine);

#endif
