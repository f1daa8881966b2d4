/* See repeat.h. Tested by tests/unit/model/network/late_test.c,
 * tests/unit/model/network/repeat_test.c and tests/program/cuda/train.sh. */
#include "model/processor/repeat.h"

#include "base/env.h"
#include "base/log.h"

#include <inttypes.h>

#define WARM  2 /* steps, in which products and their memory are made */
#define LEAST 3 /* launches of a graph */

int gyre_repeat_init(struct gyre_repeat *r, struct gyre_processor *on, struct gyre_trouble *trouble)
{
    int64_t wanted = 1;
    *r = (struct gyre_repeat){0};
    int status = gyre_env_int("GYRE_GRAPHS", 0, 1, &wanted, trouble);
    if (!status && wanted && on->table->record)
        r->on = on;
    return status;
}

void gyre_repeat_deinit(struct gyre_repeat *r)
{
    if (r->steps)
        gyre_log(GYRE_LOG_INFO, "%" PRIu64 " of %" PRIu64 " steps were graphs, %" PRIu64 " in all",
                 r->repeated, r->steps, r->posted);
    gyre_repeat_forget(r);
    *r = (struct gyre_repeat){0};
}

/* The graphs of batches like the one that is under way. */
static struct gyre_repeat_kept *current(struct gyre_repeat *r)
{
    return &r->of[r->batch.kind].kept[r->at];
}

static void drop(struct gyre_repeat *r, struct gyre_repeat_kept *kept)
{
    for (int i = 0; i < GYRE_REPEAT_PARTS; i++)
        r->on->table->graph_free(r->on, kept->part[i]);
    *kept = (struct gyre_repeat_kept){0};
}

void gyre_repeat_give_up(struct gyre_repeat *r)
{
    if (r->open)
        r->on->table->graph_free(r->on, NULL); /* and records or leaves out nothing from here on */
    r->way = GYRE_REPEAT_NOT;
    r->open = false;
}

void gyre_repeat_forget(struct gyre_repeat *r)
{
    gyre_repeat_give_up(r);
    r->fresh = NULL;
    for (int kind = 0; kind < GYRE_REPEAT_KINDS; kind++) {
        for (int place = 0; r->on && place < GYRE_REPEAT_PLACES; place++)
            drop(r, &r->of[kind].kept[place]);
        r->of[kind].alike = 0;
    }
}

/* Launches make the rest of this step and all that follow. Graphs are freed by the next begin. */
static void end_graphs(struct gyre_repeat *r, const struct gyre_trouble *why)
{
    gyre_log(GYRE_LOG_WARN, "steps are made without CUDA graphs: %s", why->text);
    r->way = GYRE_REPEAT_NOT;
    r->ends = true;
}

/* -- parts of a batch -------------------------------------------------------------------------- */

static void record_part(struct gyre_repeat *r)
{
    struct gyre_trouble why = {0};
    r->open = !r->on->table->record(r->on, &why);
    if (!r->open)
        end_graphs(r, &why);
}

static void replace_part(struct gyre_repeat *r)
{
    const struct gyre_processor_graph *graph = current(r)->part[r->part];
    if (graph)
        r->on->table->replace(r->on, graph);
    r->open = graph != NULL;
}

void gyre_repeat_resume(struct gyre_repeat *r)
{
    if (r->open || r->part >= GYRE_REPEAT_PARTS)
        return;
    if (r->way == GYRE_REPEAT_RECORDS)
        record_part(r);
    else if (r->way == GYRE_REPEAT_REPLACES)
        replace_part(r);
}

static void keep_part(struct gyre_repeat *r)
{
    const struct gyre_processor_table *table = r->on->table;
    struct gyre_processor_graph **graph = &current(r)->part[r->part];
    struct gyre_trouble why = {0};
    if (table->keep(r->on, graph, &why)) {
        end_graphs(r, &why);
    } else if (table->graph_launches(*graph) < LEAST) {
        table->graph_free(r->on, *graph);
        *graph = NULL;
    }
}

static int post_part(struct gyre_repeat *r, struct gyre_trouble *trouble)
{
    int status = r->on->table->repeat(r->on, trouble);
    r->posted += !status;
    return status;
}

int gyre_repeat_pause(struct gyre_repeat *r, struct gyre_trouble *trouble)
{
    const bool open = r->open;
    int status = 0;
    r->open = false;
    if (open && r->way == GYRE_REPEAT_RECORDS)
        keep_part(r);
    else if (open)
        status = post_part(r, trouble);
    r->part++;
    return status;
}

void gyre_repeat_expect(struct gyre_repeat *r, double all_samples)
{
    double *before = &r->of[r->batch.kind].all_samples, *kept = &current(r)->all_samples;
    if (*before != all_samples)
        r->of[r->batch.kind].alike = 0;
    if (r->way == GYRE_REPEAT_RECORDS)
        *kept = *before;
    if (*kept != all_samples) {
        r->way = GYRE_REPEAT_NOT;
        r->whole = false;
    }
    *before = all_samples;
}

/* -- its begin --------------------------------------------------------------------------------- */

/* Makes ready what the batch before has recorded. Where its parts are all too short, further ones
 * would be, too. */
static void make_ready(struct gyre_repeat *r)
{
    struct gyre_repeat_kept *fresh = r->fresh;
    struct gyre_trouble why = {0};
    bool some = false;
    int status = 0;
    r->fresh = NULL;
    for (int i = 0; fresh && !status && i < GYRE_REPEAT_PARTS; i++) {
        if (fresh->part[i])
            status = r->on->table->prepare_graph(r->on, fresh->part[i], &why);
        some = some || fresh->part[i];
    }
    if (status)
        end_graphs(r, &why);
    r->ends = r->ends || (fresh && !some);
    if (fresh)
        fresh->graphs = !r->ends;
}

/* Finds the place of the rows, or gives them the one that was used longer ago, whose graphs are
 * dropped. False: neither is possible now. */
static bool settle_rows(struct gyre_repeat *r, const void *rows)
{
    int oldest = 0;
    for (int i = 0; i < GYRE_REPEAT_PLACES; i++) {
        if (r->place[i].begun && r->place[i].rows == rows) {
            r->at = i;
            return true;
        }
        if (r->place[i].begun < r->place[oldest].begun)
            oldest = i;
    }
    r->at = oldest;
    for (int kind = 0; r->batch.quiet && kind < GYRE_REPEAT_KINDS; kind++)
        drop(r, &r->of[kind].kept[oldest]);
    if (r->batch.quiet)
        r->place[oldest] = (struct gyre_repeat_place){.rows = rows};
    return r->batch.quiet;
}

/* Nothing is recorded of rows at a place that they may never have again. */
static void choose_way(struct gyre_repeat *r)
{
    if (!settle_rows(r, r->batch.rows))
        return;
    const struct gyre_repeat_kept *kept = current(r);
    const bool again = r->place[r->at].begun != 0;
    r->place[r->at].begun = ++r->begun;
    if (kept->graphs && kept->samples == r->batch.samples) {
        r->way = GYRE_REPEAT_REPLACES;
    } else if (again && r->batch.quiet && r->of[r->batch.kind].alike >= WARM &&
               r->of[r->batch.kind].samples == r->batch.samples) {
        drop(r, current(r));
        r->way = GYRE_REPEAT_RECORDS;
    }
}

static bool begins_step(const struct gyre_repeat *r)
{
    return r->batch.kind == GYRE_REPEAT_ALL || r->batch.kind == GYRE_REPEAT_FIRST;
}

static bool ends_step(const struct gyre_repeat *r)
{
    return r->batch.kind == GYRE_REPEAT_ALL || r->batch.kind == GYRE_REPEAT_LAST;
}

/* Each batch with another number takes one away, so short ones between do not keep graphs off. */
static void count_alike(struct gyre_repeat *r)
{
    uint64_t *most = &r->of[r->batch.kind].samples;
    int *alike = &r->of[r->batch.kind].alike;
    if (*most == r->batch.samples)
        *alike += *alike < WARM;
    else if (*alike)
        (*alike)--;
    else
        *most = r->batch.samples;
}

static void end_if_asked(struct gyre_repeat *r)
{
    if (!r->ends)
        return;
    gyre_repeat_forget(r);
    r->on = NULL;
    r->ends = false;
}

void gyre_repeat_begin(struct gyre_repeat *r, const struct gyre_repeat_batch *batch)
{
    if (batch->quiet) {
        make_ready(r);
        end_if_asked(r);
    }
    r->batch = *batch;
    r->steps += begins_step(r);
    r->part = 0;
    r->open = false;
    r->way = GYRE_REPEAT_NOT;
    count_alike(r);
    if (r->on && !r->ends)
        choose_way(r);
    r->whole = (r->whole || begins_step(r)) && r->way == GYRE_REPEAT_REPLACES;
    gyre_repeat_resume(r);
}

/* -- its end ----------------------------------------------------------------------------------- */

static void keep_batch(struct gyre_repeat *r)
{
    r->fresh = current(r);
    r->fresh->samples = r->batch.samples;
}

int gyre_repeat_end(struct gyre_repeat *r, struct gyre_trouble *trouble)
{
    int status = gyre_repeat_pause(r, trouble);
    if (r->way == GYRE_REPEAT_RECORDS)
        keep_batch(r);
    r->repeated += r->way == GYRE_REPEAT_REPLACES && r->whole && ends_step(r);
    r->whole = r->whole && !ends_step(r);
    r->way = GYRE_REPEAT_NOT;
    return status;
}
