/* A proof in steps: what check.h does at once, one round after another, with what every buffer
 * holds in between. */
#ifndef GYRE_COLLECTIVES_PROVE_PROOF_H
#define GYRE_COLLECTIVES_PROVE_PROOF_H

#include "base/status.h"
#include "collectives/prove/provenance.h"
#include "collectives/schedule/schedule.h"

struct gyre_checker;

/* Whether there is such a slice, and the algorithm builds it. 0, or GYRE_INVALID with the
 * reason. */
int gyre_proving_question(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                          struct gyre_trouble *trouble);

/* Begins the proof of n ranks; of_rank[r] is rank r's own slice. `algorithm` and `trouble` are
 * kept. 0; GYRE_INVALID with the first defect; or -ENOMEM. *proof is for gyre_proving_destroy() in
 * any case. */
int gyre_proving_create(struct gyre_checker **proof, const struct gyre_algorithm *algorithm,
                        const struct gyre_slice *of_rank, struct gyre_trouble *trouble);
void gyre_proving_destroy(struct gyre_checker *proof); /* NULL allowed */

uint64_t gyre_proving_rounds(const struct gyre_checker *proof);

/* Proves the next round. 0; GYRE_INVALID with the defect, which ends the proof; or -ENOMEM. */
int gyre_proving_round(struct gyre_checker *proof);

/* Proves the end, behind the last round: every OUTPUT, and the promises. */
int gyre_proving_end(struct gyre_checker *proof);

/* The steps of a rank in the round proved last. */
const struct gyre_round *gyre_proving_steps(const struct gyre_checker *proof, uint32_t rank);

/* What a rank's OUTPUT or SCRATCH holds now, and the values that the stretches name. */
const struct gyre_stretches *gyre_proving_holds(const struct gyre_checker *proof, uint32_t rank,
                                                enum gyre_buffer buffer);
const struct gyre_value_book *gyre_proving_values(const struct gyre_checker *proof);

#endif
