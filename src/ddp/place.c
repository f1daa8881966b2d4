/* The place of gradients and values: the host's memory, or, where the caller's values are a CUDA
 * device's, that device. There the engine has two queues beside the caller's stream:
 *
 *     the caller's stream    backward ─── ready(9) ─── ready(8) ───▶
 *     passes                              └▶ look      └▶ look, encode
 *     the road                                            └▶ bucket 0: gyre_all_reduce_on() ─▶
 *
 * One rank has nothing to reduce: its passes are on the caller's stream where that has an owner
 * (engine.h).
 *
 * A stream is held until its reduction has ended. No pass stands behind one, so looks do not wait
 * for reductions, and few launches fill the queue of a stream that is held. The host waits in
 * gyre_ddp_wait() only: for the caller's stream, and then for what is not reduced by then.
 *
 * On the host everything has ended when a call returns. Tested by tests/program/ddp/device.c. */
#include "collectives/staging/stream_wait.h"
#include "ddp/inside.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* -- opened and closed ------------------------------------------------------------------------- */

/* Whether the CPU cannot touch the memory. CUDA is not loaded for this question. */
static bool is_device_memory(const void *memory)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    return cuda && gyre_device_cuda_present() && cuda->classify(memory) != GYRE_MEMORY_HOST;
}

static int check_device_item(const struct gyre_ddp *ddp, const struct gyre_ddp_item *item)
{
    const int device = gyre_device(ddp->comm);
    struct gyre_trouble told = {0};
    if (!is_device_memory(item->value))
        return gyre_refuse("gyre_ddp_create: the value of '%s' is host memory, and that of '%s' is "
                           "a CUDA device's: all must be one's",
                           item->name, ddp->item->name);
    if (device < 0)
        return gyre_refuse("gyre_ddp_create: the value of '%s' is CUDA memory, and the "
                           "communicator has no device: name it by gyre_options.devices, "
                           "GYRE_DEVICES or `gyre run --devices`",
                           item->name);
    if (gyre_device_of(GYRE_MEMORY_CUDA)->admit(device, item->value, &told))
        return gyre_refuse("gyre_ddp_create: the value of '%s' is not the communicator's CUDA "
                           "device %d's: %s",
                           item->name, device, told.text);
    if (item->type != GYRE_F32)
        return gyre_refuse("gyre_ddp_create: '%s' is f64; on a device parameters are f32",
                           item->name);
    return 0;
}

static int check_host_items(const struct gyre_ddp *ddp)
{
    for (uint32_t i = 0; i < ddp->items; i++)
        if (is_device_memory(ddp->item[i].value))
            return gyre_refuse("gyre_ddp_create: the value of '%s' is a CUDA device's, and that of "
                               "'%s' is host memory: all must be one's",
                               ddp->item[i].name, ddp->item->name);
    if (ddp->options.stream)
        return gyre_refuse("gyre_ddp_create: a stream is given, and values are the host's");
    return 0;
}

static int check_device_items(const struct gyre_ddp *ddp)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < ddp->items; i++)
        status = check_device_item(ddp, &ddp->item[i]);
    if (!status && ddp->hook.encode && ddp->options.wire == GYRE_DDP_WIRE_AS_IS)
        status = gyre_refuse("gyre_ddp_create: hook '%s' works in host memory, and values are a "
                             "CUDA device's",
                             ddp->hook.name);
    return status;
}

static int make_block(struct gyre_ddp_place *place, struct gyre_trouble *told)
{
    static const struct gyre_ddp_block empty = {.bad = GYRE_BAD_NONE};
    struct gyre_processor *on = place->on;
    place->block = gyre_processor_alloc(on, 2 * sizeof empty, told, "the engine");
    int status =
        place->block ? on->table->put(on, place->block + 1, &empty, sizeof empty, told) : -ENOMEM;
    return gyre_ddp_told(status, told);
}

static int open_device(struct gyre_ddp *ddp, int index)
{
    struct gyre_ddp_place *place = &ddp->place;
    struct gyre_trouble told = {0};
    place->device = gyre_device_of(GYRE_MEMORY_CUDA);
    int status = gyre_processor_open_beside(&place->beside, GYRE_MEMORY_CUDA, index, &told);
    place->on = place->beside;
    if (!status)
        status = place->device->queue_create(index, &place->road, &told);
    if (!status)
        status = place->on->table->after(place->on, ddp->options.stream, &told);
    if (status)
        return gyre_ddp_told(status, &told);
    place->road_stream = place->device->native(place->road);
    place->passes = place->on->table->stream(place->on);
    return make_block(place, &told);
}

int gyre_ddp_open_place(struct gyre_ddp *ddp)
{
    if (!ddp->items || !is_device_memory(ddp->item->value))
        return check_host_items(ddp);
    int status = check_device_items(ddp);
    return status ? status : open_device(ddp, gyre_device(ddp->comm));
}

void gyre_ddp_close_place(struct gyre_ddp *ddp)
{
    if (ddp->place.road)
        ddp->place.device->queue_destroy(ddp->place.road);
    gyre_repeat_forget(&ddp->place.repeat);
    gyre_processor_close(ddp->place.beside);
    ddp->place = (struct gyre_ddp_place){0};
}

/* Nothing is reduced beside the passes of one rank. */
void gyre_ddp_choose_passes(struct gyre_ddp *ddp)
{
    struct gyre_ddp_place *place = &ddp->place;
    if (!place->owner)
        return;
    place->on = ddp->n == 1 ? place->owner : place->beside;
    place->passes = place->on->table->stream(place->on);
}

int gyre_ddp_told(int status, const struct gyre_trouble *told)
{
    if (status < 0 && told->status)
        *gyre_thread_trouble() = *told;
    return status;
}

/* -- memory ------------------------------------------------------------------------------------ */

int gyre_ddp_alloc(const struct gyre_ddp *ddp, uint64_t bytes, void **memory)
{
    return ddp->place.on ? gyre_alloc_device(ddp->comm, bytes, memory)
                         : gyre_alloc(ddp->comm, bytes, memory);
}

void gyre_ddp_copy(struct gyre_ddp *ddp, void *to, const void *from, uint64_t bytes)
{
    struct gyre_processor *on = ddp->place.on;
    ddp->place.passing = true;
    if (on)
        on->table->copy(on, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void gyre_ddp_zero(struct gyre_ddp *ddp, void *to, uint64_t bytes)
{
    struct gyre_processor *on = ddp->place.on;
    ddp->place.passing = true;
    if (on)
        on->table->zero(on, to, bytes);
    else
        memset(to, 0, bytes);
}

int gyre_ddp_bring_home(struct gyre_ddp *ddp, void *host, const void *from, uint64_t bytes)
{
    struct gyre_processor *on = ddp->place.on;
    struct gyre_trouble told = {0};
    if (!on && host != from)
        memcpy(host, from, bytes);
    int status = gyre_ddp_meet_stream(ddp);
    if (on && !status)
        status = on->table->get(on, host, from, bytes, &told);
    return gyre_ddp_told(status, &told);
}

int gyre_ddp_bring_there(struct gyre_ddp *ddp, void *to, const void *host, uint64_t bytes)
{
    struct gyre_processor *on = ddp->place.on;
    struct gyre_trouble told = {0};
    if (!on && to != host)
        memcpy(to, host, bytes);
    int status = gyre_ddp_meet_stream(ddp);
    if (on && !status)
        status = on->table->put(on, to, host, bytes, &told);
    gyre_ddp_told(status, &told);
    return status ? status : gyre_ddp_await_passes(ddp);
}

/* -- order ------------------------------------------------------------------------------------- */

int gyre_ddp_meet_stream(struct gyre_ddp *ddp)
{
    struct gyre_processor *on = ddp->place.on;
    struct gyre_trouble told = {0};
    ddp->place.passing = true;
    return on && on != ddp->place.owner
               ? gyre_ddp_told(on->table->after(on, ddp->options.stream, &told), &told)
               : 0;
}

int gyre_ddp_await_passes(struct gyre_ddp *ddp)
{
    struct gyre_processor *on = ddp->place.on;
    struct gyre_trouble told = {0};
    int status = on && ddp->place.passing ? on->table->wait(on, &told) : 0;
    ddp->place.passing = false;
    return gyre_ddp_told(status, &told);
}

int gyre_ddp_await_stream(struct gyre_ddp *ddp)
{
    int status = gyre_ddp_meet_stream(ddp);
    return status ? status : gyre_ddp_await_passes(ddp);
}

int gyre_ddp_meet_passes(struct gyre_ddp *ddp)
{
    struct gyre_trouble told = {0};
    ddp->place.reducing = true;
    return gyre_ddp_told(ddp->place.device->after(ddp->place.road, ddp->place.passes, &told),
                         &told);
}

int gyre_ddp_await_road(struct gyre_ddp *ddp)
{
    struct gyre_ddp_place *place = &ddp->place;
    uint64_t found = 0;
    if (!place->road || !place->reducing)
        return 0;
    place->reducing = false;
    int count = 0, status = place->device->mark(place->road, 1);
    while (!status && count == 0) {
        count = place->device->query(place->road, &found, 1);
        if (!count)
            sched_yield();
    }
    status = status ? status : count < 0 ? count : 0;
    if (status) {
        struct gyre_trouble told = {0};
        gyre_trouble_set(&told, status,
                         "CUDA device %d has failed while gradients were reduced: "
                         "the log says how",
                         gyre_device(ddp->comm));
        gyre_ddp_told(status, &told);
    }
    return status;
}

bool gyre_ddp_quiet_begin(void)
{
    return gyre_quiet_begin();
}

void gyre_ddp_quiet_end(void)
{
    gyre_quiet_end();
}

/* -- what a step looks for --------------------------------------------------------------------- */

int gyre_ddp_clear_block(struct gyre_ddp *ddp)
{
    struct gyre_ddp_block *block = ddp->place.block;
    ddp->place.looked = false;
    int status = ddp->place.leaves ? gyre_ddp_meet_stream(ddp) : 0; /* who may read it still */
    if (!status && ddp->place.on)
        gyre_ddp_copy(ddp, block, block + 1, sizeof *block);
    return status;
}

int gyre_ddp_take_block(struct gyre_ddp *ddp, int32_t *bad, double *squares)
{
    struct gyre_ddp_block found;
    if (!ddp->place.on)
        return 0;
    int status = gyre_ddp_bring_home(ddp, &found, ddp->place.block, sizeof found);
    if (!status && bad && *bad == GYRE_BAD_NONE)
        *bad = found.bad;
    if (!status && squares)
        *squares = found.squares;
    return status;
}
