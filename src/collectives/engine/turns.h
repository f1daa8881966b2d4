/* Turns of an engine's operations on memory that all ranks share. */
#ifndef GYRE_COLLECTIVES_ENGINE_TURNS_H
#define GYRE_COLLECTIVES_ENGINE_TURNS_H

#include "collectives/engine/flight.h"

/* Moves turns as far as they get. True if anything moved. */
bool gyre_turns_run(struct gyre_engine *engine);

/* Writes into the record of the first operation that has begun on whom it waits. */
void gyre_turns_note_waits(const struct gyre_engine *engine);

#endif
