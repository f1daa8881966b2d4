/* Steps that repeat on a device: a few are made by their launches, the next is recorded too, and
 * those that follow are posts of what was recorded:
 *
 *     steps 1 … 3     launches
 *     step 4          launches, and once more into graphs
 *     step 5 …        labels, places and terms in one copy ─▶ the graph
 *     a short one     launches; the next whole step is the graph again
 *
 * A step is one recorded part, or several. A part ends where the host has to act behind its
 * launches: where a bucket is handed over to its reduction, where batch norm sums over ranks, and
 * at the end of backward.
 *
 *     one rank        begin ── forward, loss, backward, update ── end
 *     several ranks   begin ── forward … ── pause   resume ── … ── pause   resume ── update ── end
 *                                             └ bucket 0        └ the last bucket, notes
 *
 * A step whose loss or norm the host waits for ends behind backward, and its update is a launch.
 * The engine has its passes behind the reductions recorded beside these, on its own stream.
 *
 * A step of several batches has a begin and an end for each. The first writes gradients, those
 * between add to them, and the last updates as well, so each of these kinds is recorded apart.
 *
 * A part of one launch or two stays launches. A graph has the addresses of its rows, so there is
 * one of each part for each of two places of rows, if these come again. What goes wrong while one
 * is made ends graphs, not the training. Graphs are made ready and freed by the begin of a later
 * batch, when no reduction holds a stream, as other ranks of the process may. */
#ifndef GYRE_MODEL_PROCESSOR_REPEAT_H
#define GYRE_MODEL_PROCESSOR_REPEAT_H

#include "model/processor/processor.h"

#define GYRE_REPEAT_PLACES 2
#define GYRE_REPEAT_PARTS  32 /* parts behind them are launches */

/* Which batches of its step a batch is. */
enum gyre_repeat_kind {
    GYRE_REPEAT_ALL,
    GYRE_REPEAT_FIRST,
    GYRE_REPEAT_BETWEEN,
    GYRE_REPEAT_LAST,
    GYRE_REPEAT_KINDS
};

struct gyre_repeat_batch {
    enum gyre_repeat_kind kind;
    uint64_t samples; /* or what else launches depend on */
    const void *rows; /* where they lie on the device */
    bool quiet;       /* no stream is held: the device may be waited for */
};

/* Where rows lie. */
struct gyre_repeat_place {
    const void *rows;
    uint64_t begun; /* the last batch that had its rows there, counted from 1; 0: none */
};

struct gyre_repeat_kept {
    struct gyre_processor_graph *part[GYRE_REPEAT_PARTS]; /* NULL: launches */
    bool graphs;                                          /* some part is one, and all are ready */
    uint64_t samples;
    double all_samples; /* of all ranks */
};

struct gyre_repeat {
    struct gyre_processor *on; /* NULL: no graphs are made */
    struct {
        struct gyre_repeat_kept kept[GYRE_REPEAT_PLACES];
        uint64_t samples;   /* of most batches */
        double all_samples; /* of all ranks; 0: no part knows them */
        int alike;          /* batches with as many, up to now, less those with other numbers */
    } of[GYRE_REPEAT_KINDS];
    struct gyre_repeat_place place[GYRE_REPEAT_PLACES];
    uint64_t begun;                 /* batches */
    struct gyre_repeat_batch batch; /* that is under way */
    int at;                         /* the place of its rows */
    int part;                       /* of it */
    bool open;                      /* the part is being recorded, or its launches are left out */
    bool ends;                      /* the next batch ends graphs */
    bool whole;                     /* all batches of this step were graphs, up to now */
    struct gyre_repeat_kept *fresh; /* recorded, and not ready yet; NULL: none */
    enum { GYRE_REPEAT_NOT, GYRE_REPEAT_RECORDS, GYRE_REPEAT_REPLACES } way; /* that it goes */
    uint64_t repeated, posted, steps; /* steps that were graphs; graphs; all steps */
};

/* GYRE_INVALID: GYRE_GRAPHS is neither 0 nor 1, and the sentence says so. Deinit takes every state,
 * comes before the processor's end, and tells the log how many steps were graphs. */
int gyre_repeat_init(struct gyre_repeat *repeat, struct gyre_processor *on,
                     struct gyre_trouble *trouble);
void gyre_repeat_deinit(struct gyre_repeat *repeat);

/* Begins a batch and its first part, before its first launch. Graphs that are ready serve at any
 * time; it takes a quiet moment to record, to make ready and to free. End comes behind the last
 * launch: the batch is posted. Between them nothing may wait for its launches but where it is
 * paused. Without a begin end does nothing. */
void gyre_repeat_begin(struct gyre_repeat *repeat, const struct gyre_repeat_batch *batch);
int gyre_repeat_end(struct gyre_repeat *repeat, struct gyre_trouble *trouble);

/* Pause ends a part: all launches up to here are posted. Those behind it are no part's until
 * resume begins the next; in the middle of a part resume does nothing. Neither does anything
 * outside of steps. */
int gyre_repeat_pause(struct gyre_repeat *repeat, struct gyre_trouble *trouble);
void gyre_repeat_resume(struct gyre_repeat *repeat);

/* While it is paused: what follows depends on the samples of all ranks. Launches make the rest of a
 * batch whose graphs have another number, and no graph is made of one whose number is new. */
void gyre_repeat_expect(struct gyre_repeat *repeat, double all_samples);

/* Gives up the batch that is under way, if one is, which has failed: launches that were left out
 * are lost. Graphs of others stay. Waits for nothing. */
void gyre_repeat_give_up(struct gyre_repeat *repeat);

/* The same, and forgets all graphs: before memory changes that steps use. No stream is held
 * meanwhile. */
void gyre_repeat_forget(struct gyre_repeat *repeat);

#endif
