/* The mesh: ranks of a communicator that all share memory.
 *
 * Operations on a mesh run strictly in order, one turn each. Both forms wait once for the peers'
 * entry lines and then compute. A PUSH ends with a second wait, for the peers' writes. */
#ifndef GYRE_COLLECTIVES_MAPPED_MESH_H
#define GYRE_COLLECTIVES_MAPPED_MESH_H

#include "collectives/mapped/board.h"
#include "collectives/staging/host_mirror.h"
#include "transport/domain/domain.h"

/* The operation under way, if any, and how far this rank is with it. Lines of later ones may have
 * been written: those whose streams go on by themselves. */
struct gyre_turn {
    struct gyre_operation *op;        /* NULL: none */
    uint32_t resolved;                /* ranks whose lines were read */
    uint64_t staged, pushed, drained; /* of this rank, in slices */
    uint32_t move;                    /* of slice `pushed`, under way */
    uint64_t done;                    /* bytes of that move */
    uint32_t open;                    /* ranks, of those resolved, whose OUTPUT this rank can map */
    /* All can be mapped, and the plan has moves for that: senders copy. */
    bool spread;
    uint64_t devices;     /* ranks whose buffers a device can map, as bits */
    uint64_t ticket;      /* of the last work given to the device */
    bool staging;         /* in place, and peers must not read INPUT in its own place */
    uint64_t seen_pushed; /* slices that every peer has pushed, as far as known */
    const uint8_t *input[GYRE_PEERS_MAPPED_MAX]; /* a rank's INPUT, or NULL: its stage */
    uint8_t *output[GYRE_PEERS_MAPPED_MAX];      /* its OUTPUT, or NULL: its inbox */
};

struct gyre_mesh {
    struct gyre_domain *domain;
    uint32_t rank, n;
    const uint32_t *world; /* the domain's number of a rank; NULL: its own */
    uint64_t turn;         /* the last one begun */
    uint64_t at;           /* the one under way, whose lines are read */
    uint64_t safe;         /* the last turn that every peer has finished */
    struct gyre_board *mine;
    const struct gyre_board *board[GYRE_PEERS_MAPPED_MAX];
    struct gyre_inbox *inbox[GYRE_PEERS_MAPPED_MAX];
    struct gyre_turn current;
    struct gyre_fault *fault;         /* where this mesh records one; whoever runs turns reads it */
    struct gyre_mirror_pool *mirrors; /* host mirrors of operations that have to leave a device */
    struct gyre_push_window *windows; /* all that were made (device/window.h) */
    uint64_t window_bytes;            /* of the longest that an operation has had use for */
    bool no_windows;                  /* some peer could not map one */
    uint32_t board_id, inbox_id;

    /* Streams that write and await words of inboxes (device/words.h). */
    bool all_devices; /* every rank has a device */
    bool words_locked, words_refused;
    uint32_t ahead; /* operations in flight whose lines are written ahead */
    uint32_t inbox_of[GYRE_PEERS_MAPPED_MAX];       /* region ids */
    struct gyre_region view[GYRE_PEERS_MAPPED_MAX]; /* peers' inboxes, where this mesh keeps them */
    struct gyre_stream_wait posted[GYRE_BOARD_SLOTS]; /* the last such stream of a turn % 16 */

    struct gyre_captured *captured; /* operations in graphs (device/push_stream.h); NULL: none */
    uint32_t captured_count;
    bool captured_stopped;
};

/* Gives the mesh the fault that it records and the pool of its host mirrors. Both are borrowed. */
static inline void gyre_mesh_attach(struct gyre_mesh *mesh, struct gyre_fault *fault,
                                    struct gyre_mirror_pool *mirrors)
{
    mesh->fault = fault;
    mesh->mirrors = mirrors;
}

static inline uint32_t gyre_mesh_world(const struct gyre_mesh *mesh, uint32_t rank)
{
    return mesh->world ? mesh->world[rank] : rank;
}

/* The ranks that a mesh joins. `world` is borrowed. */
struct gyre_mesh_options {
    uint32_t rank, n;
    const uint32_t *world; /* n; NULL: the domain's ranks */
};

/* Shares this rank's board and inbox. GYRE_UNSUPPORTED: peers cannot map them. After a failure,
 * too, *mesh may be one to destroy. */
int gyre_mesh_create(struct gyre_domain *domain, const struct gyre_mesh_options *options,
                     struct gyre_mesh **mesh, struct gyre_trouble *trouble);

/* Finds the peers' boards and inboxes by their region ids, two a rank; NULL: the ids are this
 * rank's own. Blocks until every rank has created its mesh, or the job fails. */
int gyre_mesh_meet(struct gyre_mesh *mesh, const uint32_t *ids, struct gyre_trouble *trouble);

/* Frees the memory of this rank's board and inbox now, not with the domain. Only where no peer
 * looks there: peers unmap what is withdrawn. */
void gyre_mesh_withdraw(struct gyre_mesh *mesh);
void gyre_mesh_destroy(struct gyre_mesh *mesh); /* NULL allowed */

#endif
