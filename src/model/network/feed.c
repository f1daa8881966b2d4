/* See feed.h. Tested by tests/unit/model/network/feed_test.c and tests/program/cuda/train.sh. */
#include "model/network/feed.h"

#include "base/log.h"

#include <inttypes.h>

static bool make_places(struct gyre_feed *f, uint64_t bytes, struct gyre_trouble *trouble)
{
    for (int i = 0; i < 2; i++)
        f->rows[i] = gyre_processor_alloc(f->carrier, bytes, trouble, "rows on their way");
    return f->rows[0] && f->rows[1];
}

void gyre_feed_init(struct gyre_feed *f, struct gyre_processor *on, uint64_t batch,
                    uint64_t features)
{
    const uint64_t bytes = batch * features * sizeof(float);
    struct gyre_trouble trouble = {0};
    *f = (struct gyre_feed){.on = on, .features = features};
    if (on->table->memory == GYRE_MEMORY_HOST)
        return;
    if (!gyre_processor_open_carrier(&f->carrier, on, bytes, &trouble) &&
        make_places(f, bytes, &trouble))
        return;
    gyre_log(GYRE_LOG_INFO, "batches of %" PRIu64 " MiB are not brought ahead: %s", bytes >> 20,
             trouble.text);
    gyre_feed_deinit(f);
}

void gyre_feed_deinit(struct gyre_feed *f)
{
    if (f->taken)
        gyre_log(GYRE_LOG_INFO, "%" PRIu64 " of %" PRIu64 " batches were brought ahead", f->met,
                 f->taken);
    for (int i = 0; f->carrier && i < 2; i++)
        f->carrier->table->free(f->carrier, f->rows[i]);
    gyre_processor_close(f->carrier);
    *f = (struct gyre_feed){0};
}

int gyre_feed_bring(struct gyre_feed *f, const struct gyre_feed_batch *batch,
                    struct gyre_trouble *trouble)
{
    int status = f->carrier->table->put(f->carrier, f->rows[!f->turn], batch->x,
                                        batch->samples * f->features * sizeof(float), trouble);
    f->ahead = *batch;
    if (status)
        gyre_feed_forget(f);
    return status;
}

void gyre_feed_forget(struct gyre_feed *f)
{
    f->ahead.x = NULL;
}

static bool is_ahead(const struct gyre_feed *f, const struct gyre_feed_batch *batch)
{
    return f->ahead.x && f->ahead.epoch == batch->epoch && f->ahead.cursor == batch->cursor &&
           f->ahead.samples == batch->samples;
}

/* The passes begin when the rows have come. What is brought from now on waits for all work that is
 * posted by now: that of the batch before. */
int gyre_feed_take(struct gyre_feed *f, const struct gyre_feed_batch *batch, const float **rows,
                   struct gyre_trouble *trouble)
{
    struct gyre_processor *on = f->on, *carrier = f->carrier;
    const bool met = is_ahead(f, batch);
    int status = met ? 0 : gyre_feed_bring(f, batch, trouble);
    if (!status)
        status = on->table->after(on, carrier->table->stream(carrier), trouble);
    if (!status)
        status = carrier->table->after(carrier, on->table->stream(on), trouble);
    gyre_feed_forget(f);
    f->taken++;
    f->met += met;
    f->turn = !f->turn;
    *rows = f->rows[f->turn];
    return status;
}
