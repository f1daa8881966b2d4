/* See repeat.h. Tested by tests/unit/model/network/late_test.c and tests/program/cuda/train.sh. */
#include "model/network/repeat.h"

#include "base/env.h"
#include "base/log.h"

#include <inttypes.h>

#define WARM 2 /* steps, in which products and their memory are made */

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
        gyre_log(GYRE_LOG_INFO, "%" PRIu64 " of %" PRIu64 " steps were graphs", r->repeated,
                 r->steps);
    gyre_repeat_forget(r);
    *r = (struct gyre_repeat){0};
}

void gyre_repeat_forget(struct gyre_repeat *r)
{
    for (int i = 0; r->on && i < GYRE_REPEAT_PLACES; i++) {
        r->on->table->graph_free(r->on, r->kept[i].graph);
        r->kept[i].graph = NULL;
    }
    r->way = GYRE_REPEAT_NOT;
    r->alike = 0;
}

/* Steps are made by their launches from here on. */
static void end_graphs(struct gyre_repeat *r, const struct gyre_trouble *why)
{
    gyre_log(GYRE_LOG_WARN, "steps are made without CUDA graphs: %s", why->text);
    gyre_repeat_forget(r);
    r->on = NULL;
}

/* -- a step ------------------------------------------------------------------------------------ */

static void begin_recording(struct gyre_repeat *r)
{
    struct gyre_trouble why = {0};
    r->on->table->graph_free(r->on, r->kept[r->place].graph);
    r->kept[r->place].graph = NULL;
    if (r->on->table->record(r->on, &why))
        end_graphs(r, &why);
    else
        r->way = GYRE_REPEAT_RECORDS;
}

void gyre_repeat_begin(struct gyre_repeat *r, uint64_t samples, int place)
{
    const bool kept = r->kept[place].graph && r->kept[place].samples == samples;
    r->steps++;
    r->alike = samples == r->samples ? r->alike + 1 : 0;
    r->samples = samples;
    r->place = place;
    r->way = GYRE_REPEAT_NOT;
    if (!r->on)
        return;
    if (kept) {
        r->on->table->replace(r->on, r->kept[place].graph);
        r->way = GYRE_REPEAT_REPLACES;
    } else if (r->alike >= WARM) {
        begin_recording(r);
    }
}

static void keep_step(struct gyre_repeat *r)
{
    struct gyre_trouble why = {0};
    int status = r->on->table->keep(r->on, &r->kept[r->place].graph, &why);
    if (!status)
        status = r->on->table->prepare_graph(r->on, r->kept[r->place].graph, &why);
    if (status)
        end_graphs(r, &why);
    else
        r->kept[r->place].samples = r->samples;
}

int gyre_repeat_end(struct gyre_repeat *r, struct gyre_trouble *trouble)
{
    const int way = (int)r->way;
    r->way = GYRE_REPEAT_NOT;
    if (way == GYRE_REPEAT_RECORDS)
        keep_step(r);
    r->repeated += way == GYRE_REPEAT_REPLACES;
    return way == GYRE_REPEAT_REPLACES ? r->on->table->repeat(r->on, trouble) : 0;
}
