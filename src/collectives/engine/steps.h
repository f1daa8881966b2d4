/* STEPS: rounds over message links, in lanes. */
#ifndef GYRE_COLLECTIVES_ENGINE_STEPS_H
#define GYRE_COLLECTIVES_ENGINE_STEPS_H

#include "collectives/engine/flight.h"

/* Gives the first `lanes` lanes, where idle, storage for the engine's extent. -ENOMEM. */
int gyre_steps_fit(struct gyre_engine *engine, uint32_t lanes);

/* Moves every lane as far as it gets. True if anything moved. */
bool gyre_steps_run(struct gyre_engine *engine);

/* Writes into the records of what is in lanes on whom it waits. */
void gyre_steps_note_waits(struct gyre_engine *engine);

/* Takes a completion whose token has the communicator's id in its upper 16 bits. */
void gyre_engine_complete(struct gyre_engine *engine, const struct gyre_completion *done);

/* Takes all lanes from their operations. */
void gyre_steps_drop(struct gyre_engine *engine);

/* Frees the storage of all lanes. */
void gyre_steps_deinit(struct gyre_engine *engine);

#endif
