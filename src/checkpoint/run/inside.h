/* A run's checkpoint inside, for the files of this room. A file calls only those below it.
 *
 *   run.c         the list, saved and loaded; its end
 *   network.c     a network ─▶ engine, running means, optimiser
 *   engine.c      values of an engine, and what it keeps of gradients that travel as another type
 *   running.c     running means
 *   optimizer.c   a replica's optimiser and loss scale
 *   position.c    a sampler's position
 *   tensors.c     the caller's tensors and numbers
 *   list.c        the list itself
 *   items.c       tensors of a generation, named, and found in what is on the disk
 */
#ifndef GYRE_CHECKPOINT_RUN_INSIDE_H
#define GYRE_CHECKPOINT_RUN_INSIDE_H

#include "base/status.h"
#include "checkpoint/checkpoint.h"

#include <gyre/checkpoint.h>
#include <stdbool.h>

/* -- tensors of a generation (items.c) --------------------------------------------------------- */

struct gyre_run_item {
    char *name;
    enum gyre_generation_part part;
    enum gyre_stored_type type;
    uint32_t dims;
    uint64_t shape[GYRE_DDP_DIMENSIONS + 1], bytes;
    void *data;        /* rank 0: what is written, or where what is read goes; NULL: see `found` */
    const void *found; /* rank 0, loading: the bytes in the generation */
    bool optional;     /* loading: a generation without it leaves what is there */
};

struct gyre_run_items {
    struct gyre_run_item *item;
    uint64_t count, room;
    bool lost; /* there was no memory */
};

/* A tensor's type, shape and place. */
struct gyre_run_form {
    enum gyre_generation_part part;
    enum gyre_stored_type type;
    uint32_t dims;
    const uint64_t *shape;
};

/* Appends an item; its name is as printf makes it. */
void gyre_run_items_add(struct gyre_run_items *items, struct gyre_run_form form, void *data,
                        const char *name, ...) __attribute__((format(printf, 4, 5)));
void gyre_run_items_free(struct gyre_run_items *items);

/* Refuses a name that stands twice. */
int gyre_run_items_check(const struct gyre_run_items *items, struct gyre_trouble *trouble);

/* The items of one file, to be freed. -ENOMEM told. */
int gyre_run_items_of(const struct gyre_run_items *items, enum gyre_generation_part part,
                      struct gyre_stored_list *list, struct gyre_trouble *trouble);

/* Finds every item in the generation, whose model has no others. */
int gyre_run_items_find(struct gyre_run_items *items, const struct gyre_generation *generation,
                        struct gyre_trouble *trouble);

/* -- what is on the list ----------------------------------------------------------------------- */

/* One save or load, under way. */
struct gyre_run_pass {
    bool loading;
    uint64_t step, world; /* of the generation; ranks that save it, or did */
    bool wired;           /* loading: it has what an engine kept of gradients */
    struct gyre_run_items items;
    struct gyre_generation *generation; /* rank 0, loading */
    struct gyre_trouble trouble;
};

/* An entry of the list. Its kind is the first member of what the kind's file makes. */
struct gyre_bound {
    const struct gyre_bound_kind *kind;
    struct gyre_comm *comm;
    uint64_t first;   /* of its items in this pass */
    bool optional;    /* its items are */
    const char *lost; /* loading: a tensor that the generation has not for these ranks; NULL */
    struct gyre_bound *next;
};

/* A pass goes through these in their order; NULL: nothing to do. `list` refuses what cannot be
 * saved or loaded now, makes memory for the pass and lists items. It is local, as `examine` and
 * `release` are. */
struct gyre_bound_kind {
    int (*list)(struct gyre_bound *bound, struct gyre_run_pass *pass);
    int (*examine)(struct gyre_bound *bound, struct gyre_run_pass *pass); /* rank 0: values */
    int (*collect)(struct gyre_bound *bound, struct gyre_run_pass *pass); /* saving; collective */
    int (*give)(struct gyre_bound *bound, struct gyre_run_pass *pass);    /* loading; collective */
    void (*release)(struct gyre_bound *bound);                            /* memory of the pass */
    void (*destroy)(struct gyre_bound *bound);
};

struct gyre_checkpoint {
    struct gyre_comm *comm;
    uint64_t keep;
    uint64_t spared;                 /* the step of a generation that stays, too; 0: none */
    struct gyre_bound *bound, **end; /* in the order in which they were added */
    struct gyre_stored_text *text;
    uint64_t texts;
    int world; /* of what was loaded last */
    struct gyre_run_pass pass;
};

/* Appends an entry of `bytes`, zeroed but for the head; NULL: no memory, told. Until the next call
 * the caller may take it off the list again. */
void *gyre_run_bind(struct gyre_checkpoint *checkpoint, const struct gyre_bound_kind *kind,
                    size_t bytes);

/* Tells gyre_error(NULL) that the call had no memory. Returns -ENOMEM. */
int gyre_run_no_memory(const char *call);

#endif
