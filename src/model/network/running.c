/* See running.h. Tested by tests/program/ddp/device_network.c and tests/program/cuda/train.sh. */
#include "model/network/running.h"

#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64 /* bytes: figures begin at whole lines of the cache */

static bool lies_apart(const struct gyre_running *r)
{
    return r->there != r->host;
}

int gyre_running_init(struct gyre_running *r, struct gyre_processor *on, size_t bytes,
                      struct gyre_trouble *trouble)
{
    *r = (struct gyre_running){.on = on, .bytes = gyre_round_up(bytes, LINE)};
    r->host = aligned_alloc(LINE, r->bytes + LINE);
    if (!r->host)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for running figures: %zu bytes",
                                bytes);
    memset(r->host, 0, r->bytes + LINE);
    r->there = on->table->memory == GYRE_MEMORY_HOST || !bytes
                   ? r->host
                   : gyre_processor_alloc(on, r->bytes, trouble, "running figures");
    r->newest = lies_apart(r) ? GYRE_RUNNING_HOST : GYRE_RUNNING_ALIKE;
    return r->there ? 0 : -ENOMEM;
}

void gyre_running_deinit(struct gyre_running *r)
{
    if (r->on) {
        r->on->table->free(r->on, r->kept);
        if (lies_apart(r))
            r->on->table->free(r->on, r->there);
    }
    free(r->host);
    *r = (struct gyre_running){0};
}

/* -- both copies ------------------------------------------------------------------------------- */

int gyre_running_bring_there(struct gyre_running *r, struct gyre_trouble *trouble)
{
    if (r->newest != GYRE_RUNNING_HOST)
        return 0;
    int status = r->on->table->put(r->on, r->there, r->host, r->bytes, trouble);
    if (!status)
        r->newest = GYRE_RUNNING_ALIKE;
    return status;
}

int gyre_running_bring_home(struct gyre_running *r, struct gyre_trouble *trouble)
{
    if (r->newest != GYRE_RUNNING_THERE)
        return 0;
    int status = r->on->table->get(r->on, r->host, r->there, r->bytes, trouble);
    if (!status)
        r->newest = GYRE_RUNNING_ALIKE;
    return status;
}

void gyre_running_changed(struct gyre_running *r)
{
    if (lies_apart(r))
        r->newest = GYRE_RUNNING_THERE;
}

void gyre_running_written(struct gyre_running *r)
{
    if (lies_apart(r))
        r->newest = GYRE_RUNNING_HOST;
}

/* -- kept -------------------------------------------------------------------------------------- */

int gyre_running_keep(struct gyre_running *r, struct gyre_trouble *trouble)
{
    if (!r->kept)
        r->kept = gyre_processor_alloc(r->on, r->bytes, trouble, "running figures of a good step");
    int status = r->kept ? gyre_running_bring_there(r, trouble) : -ENOMEM;
    if (!status)
        r->on->table->copy(r->on, r->kept, r->there, r->bytes);
    return status;
}

void gyre_running_restore(struct gyre_running *r)
{
    if (!r->kept)
        return;
    r->on->table->copy(r->on, r->there, r->kept, r->bytes);
    gyre_running_changed(r);
}
