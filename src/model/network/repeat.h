/* Steps of one rank that repeat on a device: a few are made by their launches, the next is recorded
 * too, and those that follow are one launch of that graph:
 *
 *     steps 1 … 3     launches
 *     step 4          launches, and once more into a graph
 *     step 5 …        labels, places and terms in one copy ─▶ the graph
 *     a short one     launches; the next whole step is the graph again
 *
 * A graph has the addresses of its rows, so there is one for each place where rows may lie. What
 * goes wrong while one is made ends graphs, not the training. */
#ifndef GYRE_MODEL_NETWORK_REPEAT_H
#define GYRE_MODEL_NETWORK_REPEAT_H

#include "model/nets/model.h"

#define GYRE_REPEAT_PLACES 2

struct gyre_repeat {
    struct gyre_processor *on; /* NULL: no graphs are made */
    struct {
        struct gyre_processor_graph *graph; /* NULL: none yet */
        uint64_t samples;
    } kept[GYRE_REPEAT_PLACES];
    uint64_t samples; /* of the step before */
    int alike;        /* steps with as many, one after the other, up to now */
    int place;        /* of the rows of the step that is under way */
    enum { GYRE_REPEAT_NOT, GYRE_REPEAT_RECORDS, GYRE_REPEAT_REPLACES } way; /* that it goes */
    uint64_t repeated, steps;
};

/* GYRE_INVALID: GYRE_GRAPHS is neither 0 nor 1, and the sentence says so. Deinit takes every state,
 * comes before the processor's end, and tells the log how many steps were graphs. */
int gyre_repeat_init(struct gyre_repeat *repeat, struct gyre_processor *on,
                     struct gyre_trouble *trouble);
void gyre_repeat_deinit(struct gyre_repeat *repeat);

/* Begins a step, before its first launch. End comes behind the last: the step is posted. Between
 * them nothing may wait for its launches. */
void gyre_repeat_begin(struct gyre_repeat *repeat, uint64_t samples, int place);
int gyre_repeat_end(struct gyre_repeat *repeat, struct gyre_trouble *trouble);

/* Gives up the step that is under way, if one is, and forgets all graphs: before memory changes
 * that steps use, and where a step has failed. */
void gyre_repeat_forget(struct gyre_repeat *repeat);

#endif
