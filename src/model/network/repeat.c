/* See repeat.h. Tested by tests/unit/model/network/late_test.c,
 * tests/unit/model/network/repeat_test.c and tests/program/cuda/train.sh. */
#include "model/network/repeat.h"

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

static void forget_place(struct gyre_repeat *r, int place)
{
    struct gyre_repeat_step *kept = &r->kept[place];
    for (int i = 0; i < GYRE_REPEAT_PARTS; i++)
        r->on->table->graph_free(r->on, kept->part[i]);
    *kept = (struct gyre_repeat_step){0};
}

void gyre_repeat_forget(struct gyre_repeat *r)
{
    for (int i = 0; r->on && i < GYRE_REPEAT_PLACES; i++)
        forget_place(r, i);
    r->way = GYRE_REPEAT_NOT;
    r->open = false;
    r->alike = 0;
}

/* Launches make the rest of this step and all that follow. Graphs are freed by the next begin. */
static void end_graphs(struct gyre_repeat *r, const struct gyre_trouble *why)
{
    gyre_log(GYRE_LOG_WARN, "steps are made without CUDA graphs: %s", why->text);
    r->way = GYRE_REPEAT_NOT;
    r->ends = true;
}

/* -- parts of a step --------------------------------------------------------------------------- */

static void record_part(struct gyre_repeat *r)
{
    struct gyre_trouble why = {0};
    r->open = !r->on->table->record(r->on, &why);
    if (!r->open)
        end_graphs(r, &why);
}

static void replace_part(struct gyre_repeat *r)
{
    const struct gyre_processor_graph *graph = r->kept[r->place].part[r->part];
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
    struct gyre_processor_graph **graph = &r->kept[r->place].part[r->part];
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

/* -- a step ------------------------------------------------------------------------------------ */

static void choose_way(struct gyre_repeat *r)
{
    const struct gyre_repeat_step *kept = &r->kept[r->place];
    if (kept->graphs && kept->samples == r->samples) {
        r->way = GYRE_REPEAT_REPLACES;
    } else if (r->alike >= WARM) {
        forget_place(r, r->place);
        r->way = GYRE_REPEAT_RECORDS;
    }
}

void gyre_repeat_begin(struct gyre_repeat *r, uint64_t samples, int place)
{
    if (r->ends) {
        gyre_repeat_forget(r);
        r->on = NULL;
        r->ends = false;
    }
    r->steps++;
    r->alike = samples == r->samples ? r->alike + 1 : 0;
    r->samples = samples;
    r->place = place;
    r->part = 0;
    r->open = false;
    r->way = GYRE_REPEAT_NOT;
    if (r->on)
        choose_way(r);
    gyre_repeat_resume(r);
}

/* Makes ready what a step has recorded. Where its parts are all too short, further ones would be,
 * too. */
static void keep_step(struct gyre_repeat *r)
{
    struct gyre_repeat_step *kept = &r->kept[r->place];
    struct gyre_trouble why = {0};
    bool some = false;
    int status = 0;
    for (int i = 0; !status && i < GYRE_REPEAT_PARTS; i++) {
        if (kept->part[i])
            status = r->on->table->prepare_graph(r->on, kept->part[i], &why);
        some = some || kept->part[i];
    }
    if (status)
        end_graphs(r, &why);
    r->ends = r->ends || !some;
    kept->graphs = !r->ends;
    kept->samples = r->samples;
}

int gyre_repeat_end(struct gyre_repeat *r, struct gyre_trouble *trouble)
{
    int status = gyre_repeat_pause(r, trouble);
    if (r->way == GYRE_REPEAT_RECORDS)
        keep_step(r);
    r->repeated += r->way == GYRE_REPEAT_REPLACES;
    r->way = GYRE_REPEAT_NOT;
    return status;
}
