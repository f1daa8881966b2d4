/* Checks and copies the arguments of gyre_ddp_create(). Tested by tests/program/ddp/ddp.c. */
#include "base/size.h"
#include "ddp/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMPARE    100 /* steps between two comparisons of values */
#define ITEMS_MOST 1000000

/* -- what is refused --------------------------------------------------------------------------- */

static int check_hook(const struct gyre_ddp_options *options)
{
    const struct gyre_ddp_hook *hook = options->hook;
    if (!hook->name || !*hook->name)
        return gyre_refuse("gyre_ddp_create: the hook has no name");
    if (!hook->encode || !hook->decode)
        return gyre_refuse("gyre_ddp_create: hook '%s' has no function to %s", hook->name,
                           hook->encode ? "decode" : "encode");
    if (!gyre_type_size(hook->type))
        return gyre_refuse("gyre_ddp_create: hook '%s' has type %d, which is unknown", hook->name,
                           (int)hook->type);
    if (options->wire != GYRE_DDP_WIRE_AS_IS)
        return gyre_refuse("gyre_ddp_create: hook '%s' and wire %d; gradients travel in one way",
                           hook->name, (int)options->wire);
    if (options->sharded && hook->length)
        return gyre_refuse("gyre_ddp_create: hook '%s' shortens; a sharded engine, of which each "
                           "rank gets a part, wants an element for each gradient",
                           hook->name);
    return 0;
}

static int check_ddp_options(const struct gyre_ddp_options *options)
{
    if (gyre_check_size("gyre_ddp_options", options->size, sizeof *options, gyre_thread_trouble()))
        return GYRE_INVALID;
    if ((unsigned)options->mean > GYRE_DDP_MEAN_OF_RANKS)
        return gyre_refuse("gyre_ddp_create: mean %d is unknown", (int)options->mean);
    if ((unsigned)options->wire > GYRE_DDP_WIRE_F16)
        return gyre_refuse("gyre_ddp_create: wire %d is unknown", (int)options->wire);
    if ((unsigned)options->look > GYRE_DDP_LOOK_NONE)
        return gyre_refuse("gyre_ddp_create: look %d is unknown", (int)options->look);
    if (options->hook) {
        int status = check_hook(options);
        if (status)
            return status;
    }
    if (options->buffers.count < 0 || (options->buffers.count && !options->buffers.buffer))
        return gyre_refuse("gyre_ddp_create: %d buffers at %p", options->buffers.count,
                           (const void *)options->buffers.buffer);
    return 0;
}

static int count_elements(const struct gyre_ddp_parameter *p, uint64_t *elements)
{
    uint64_t bytes;
    *elements = 1;
    for (int d = 0; d < p->dimensions; d++)
        if (!gyre_mul_u64(*elements, p->shape[d], elements))
            return gyre_refuse("gyre_ddp_create: '%s' has more elements than memory can hold",
                               p->name);
    if (!gyre_mul_u64(*elements, gyre_type_size(p->type), &bytes))
        return gyre_refuse("gyre_ddp_create: '%s' has more bytes than memory can hold", p->name);
    return 0;
}

static int check_item(const struct gyre_ddp_parameter *p, int index, bool trained)
{
    if (!p->name || !*p->name)
        return gyre_refuse("gyre_ddp_create: %s %d has no name", trained ? "parameter" : "buffer",
                           index);
    if (trained ? p->type != GYRE_F32 && p->type != GYRE_F64 : !gyre_type_size(p->type))
        return gyre_refuse("gyre_ddp_create: '%s' has type %d; %s", p->name, (int)p->type,
                           trained ? "parameters are GYRE_F32 or GYRE_F64" : "it is unknown");
    if (p->dimensions < 0 || p->dimensions > GYRE_DDP_DIMENSIONS)
        return gyre_refuse("gyre_ddp_create: '%s' has %d dimensions, 0 … %d are possible", p->name,
                           p->dimensions, GYRE_DDP_DIMENSIONS);
    if (!p->value)
        return gyre_refuse("gyre_ddp_create: '%s' has no value (NULL)", p->name);
    return 0;
}

/* Takes the caller's hook, or that of a half-precision wire. */
static int take_hook(struct gyre_ddp *ddp)
{
    const struct gyre_ddp_hook *hook = ddp->options.hook;
    if (ddp->options.wire != GYRE_DDP_WIRE_AS_IS)
        hook = &gyre_ddp_halves[ddp->options.wire];
    ddp->options.hook = NULL; /* the caller's, which may be gone later */
    if (!hook)
        return 0;
    ddp->hook = *hook;
    ddp->hook.name = strdup(hook->name);
    return ddp->hook.name ? 0 : -ENOMEM;
}

/* -- items ------------------------------------------------------------------------------------- */

void gyre_ddp_free_items(struct gyre_ddp_item *item, uint32_t items)
{
    for (uint32_t i = 0; item && i < items; i++)
        free(item[i].name);
    free(item);
}

static int copy_items(const struct gyre_ddp_parameter *from, int count, bool trained,
                      struct gyre_ddp_item **into)
{
    struct gyre_ddp_item *item = calloc(count ? (size_t)count : 1, sizeof *item);
    int status = item ? 0 : -ENOMEM;
    *into = item;
    for (int i = 0; !status && i < count; i++) {
        status = check_item(&from[i], i, trained);
        if (!status)
            status = count_elements(&from[i], &item[i].elements);
        if (status)
            return status;
        item[i].name = strdup(from[i].name);
        item[i].type = from[i].type;
        item[i].dimensions = from[i].dimensions;
        memcpy(item[i].shape, from[i].shape, sizeof item[i].shape);
        item[i].value = from[i].value;
        status = item[i].name ? 0 : -ENOMEM;
    }
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_unique(const struct gyre_ddp *ddp)
{
    const char **name = malloc((ddp->items ? ddp->items : 1) * sizeof *name);
    int status = name ? 0 : -ENOMEM;
    for (uint32_t i = 0; name && i < ddp->items; i++)
        name[i] = ddp->item[i].name;
    if (name && ddp->items)
        qsort(name, ddp->items, sizeof *name, compare_names);
    for (uint32_t i = 1; !status && i < ddp->items; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            status = gyre_refuse("gyre_ddp_create: two parameters are named '%s'", name[i]);
    free(name);
    return status;
}

int gyre_ddp_take_arguments(struct gyre_ddp *ddp, const struct gyre_ddp_parameter *parameter,
                            int parameters, const struct gyre_ddp_options *options)
{
    int status = options ? check_ddp_options(options) : 0;
    if (status)
        return status;
    ddp->options = options ? *options : (struct gyre_ddp_options)GYRE_DDP_OPTIONS_INIT;
    if (!ddp->options.compare_every)
        ddp->options.compare_every = COMPARE;
    if (parameters < 0 || parameters > ITEMS_MOST || (parameters && !parameter))
        return gyre_refuse("gyre_ddp_create: %d parameters at %p", parameters,
                           (const void *)parameter);
    ddp->items = (uint32_t)parameters;
    status = take_hook(ddp);
    if (!status)
        status = copy_items(parameter, parameters, true, &ddp->item);
    if (!status)
        status = copy_items(ddp->options.buffers.buffer, ddp->options.buffers.count, false,
                            &ddp->buffer);
    ddp->buffers = ddp->buffer ? (uint32_t)ddp->options.buffers.count : 0;
    return status ? status : check_unique(ddp);
}
