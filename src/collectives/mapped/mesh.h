/* The mesh: ranks of a communicator that all share memory, and the operations that run on it.
 *
 * Operations on a mesh run strictly in order, one turn each. Both forms are one wait for the peers'
 * entry lines and then arithmetic; a PUSH ends with a second wait, for the peers' writes. */
#ifndef GYRE_COLLECTIVES_MAPPED_MESH_H
#define GYRE_COLLECTIVES_MAPPED_MESH_H

#include "base/rng.h"
#include "collectives/mapped/board.h"
#include "collectives/engine/engine.h"

/* The one operation that is under way, if any. */
struct gyre_turn {
    struct gyre_operation *op; /* NULL: none */
    bool announced;
    uint32_t resolved;                /* ranks whose lines were read */
    uint64_t staged, pushed, drained; /* of this rank, in slices */
    uint32_t move;                    /* of slice `pushed`, under way */
    uint64_t done;                    /* bytes of that move */
    uint32_t output_region;           /* own one announced; 0: inbox, or nobody writes */
    uint32_t open;                    /* ranks, of those resolved, whose OUTPUT can be mapped */
    bool spread;                      /* all can, and the plan has more of it then: senders copy */
    uint64_t devices;                 /* ranks whose buffers a device can map, as bits */
    uint64_t ticket;                  /* of the last work that it was given */
    bool staging;                     /* in place, and peers must not read INPUT where it stands */
    uint64_t seen_pushed;             /* slices that every peer has pushed, as far as was read */
    const uint8_t *input[GYRE_PEERS_MAPPED_MAX]; /* a rank's INPUT, or NULL: its stage */
    uint8_t *output[GYRE_PEERS_MAPPED_MAX];      /* its OUTPUT, or NULL: its inbox */
};

struct gyre_mesh {
    struct gyre_domain *domain;
    uint32_t rank, n;
    const uint32_t *world; /* the domain's number of a rank; NULL: its own */
    uint64_t turn;         /* the last one begun */
    uint64_t safe;         /* every peer has finished this turn */
    struct gyre_board *mine;
    const struct gyre_board *board[GYRE_PEERS_MAPPED_MAX];
    struct gyre_inbox *inbox[GYRE_PEERS_MAPPED_MAX];
    struct gyre_turn current;
    uint32_t board_id, inbox_id;
};

static inline uint32_t gyre_mesh_world(const struct gyre_mesh *mesh, uint32_t rank)
{
    return mesh->world ? mesh->world[rank] : rank;
}

/* Which ranks it joins. `world` is borrowed. */
struct gyre_mesh_options {
    uint32_t rank, n;
    const uint32_t *world; /* n; NULL: the domain's ranks */
};

/* Shares this rank's board and inbox. GYRE_UNSUPPORTED: peers cannot map them. */
int gyre_mesh_create(struct gyre_domain *domain, const struct gyre_mesh_options *options,
                     struct gyre_mesh **mesh, struct gyre_trouble *trouble);

/* Finds the peers' boards and inboxes: their region ids, two a rank; NULL: as this rank's own.
 * Blocks until every rank has created its mesh, or the job fails. */
int gyre_mesh_meet(struct gyre_mesh *mesh, const uint32_t *ids, struct gyre_trouble *trouble);

/* No peer looks at this rank's board any more: its memory is given back now, not by the domain. */
void gyre_mesh_withdraw(struct gyre_mesh *mesh);
void gyre_mesh_destroy(struct gyre_mesh *mesh); /* NULL allowed */

/* Runs the mesh's turns. True if anything moved. */
bool gyre_mapped_poll(struct gyre_engine *engine);

/* Could a device run this PUSH here, if every rank's can? Binds it for that. */
bool gyre_push_suits_device(struct gyre_engine *engine, struct gyre_plan *plan, const void *input,
                            const void *output);

/* The job failed: takes the regions of the current turn away from writers that are not known to be
 * dead. */
void gyre_mapped_drop(struct gyre_engine *engine);

/* The shortest way for a blocking EXCHANGE on an idle engine: no operation, no queue. Returns 0
 * when done, GYRE_AGAIN when a peer's line is not there after `spins` looks: then continue with
 * gyre_exchange_finish(). Negative: fault. */
int gyre_exchange_begin(struct gyre_engine *engine, const struct gyre_plan *plan, const void *input,
                        struct gyre_op_name name);
int gyre_exchange_finish(struct gyre_engine *engine, const struct gyre_plan *plan,
                         const void *input, void *output, struct gyre_op_name name, uint32_t spins);

/* Goes on with it as an operation of the engine's, which others may drive. NULL: no room. */
struct gyre_operation *gyre_exchange_adopt(struct gyre_engine *engine, struct gyre_plan *plan,
                                           const void *input, void *output, bool begun);

/* What an idle waiter asks before it sleeps: would begin (or, once begun, finish) get on now? */
bool gyre_exchange_ready(struct gyre_engine *engine, const struct gyre_plan *plan,
                         struct gyre_op_name name, bool begun);

#endif
