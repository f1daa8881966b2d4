/* The engine's beginning and end: what gyre/ddp.h promises of construction, and the small queries.
 * A step is in step.c. */
#include "base/size.h"
#include "ddp/inside.h"
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAP_LEAST  (64u * 1024)
#define CAP_MOST   (64u * 1024 * 1024)
#define WORTH_NS   100000u /* what hides less costs more: the helper must be woken for it */
#define UNIT       16u     /* elements: blocks of a sharded bucket begin at whole lines */
#define COMPARE    100     /* steps */
#define ITEMS_MOST 1000000

/* -- arguments --------------------------------------------------------------------------------- */

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
    if (options->size != sizeof *options)
        return gyre_refuse("gyre_ddp_options.size is %zu, this library knows %zu: set it to "
                           "sizeof(struct gyre_ddp_options)",
                           options->size, sizeof *options);
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

/* Memory that the CPU cannot touch; nobody loads CUDA for this. */
static bool is_device_memory(const void *memory)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    return cuda && gyre_device_cuda_present() && cuda->classify(memory) != GYRE_MEMORY_HOST;
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
    if (is_device_memory(p->value))
        return gyre_refuse(
            "gyre_ddp_create: the value of '%s' is at %p, CUDA memory, and the engine "
            "works in the host's: give it a copy there, or reduce gradients on the "
            "device by gyre_all_reduce_on()",
            p->name, p->value);
    return 0;
}

/* Halves are a hook, too. */
static int take_hook(struct gyre_ddp *ddp)
{
    const struct gyre_ddp_hook *hook = ddp->options.hook;
    if (ddp->options.wire != GYRE_DDP_WIRE_AS_IS)
        hook = &gyre_ddp_halves[ddp->options.wire];
    ddp->options.hook = NULL; /* the caller's */
    if (!hook)
        return 0;
    ddp->hook = *hook;
    ddp->hook.name = strdup(hook->name);
    return ddp->hook.name ? 0 : -ENOMEM;
}

/* -- items ------------------------------------------------------------------------------------- */

static void free_items(struct gyre_ddp_item *item, uint32_t items)
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

static int take_arguments(struct gyre_ddp *ddp, const struct gyre_ddp_parameter *parameter,
                          int parameters, const struct gyre_ddp_options *options,
                          struct gyre_ddp_item **buffer)
{
    int status = options ? check_ddp_options(options) : 0;
    if (status)
        return status;
    ddp->options = options ? *options : (struct gyre_ddp_options)GYRE_DDP_OPTIONS_INIT;
    if (parameters < 0 || parameters > ITEMS_MOST || (parameters && !parameter))
        return gyre_refuse("gyre_ddp_create: %d parameters at %p", parameters,
                           (const void *)parameter);
    ddp->items = (uint32_t)parameters;
    status = take_hook(ddp);
    if (!status)
        status = copy_items(parameter, parameters, true, &ddp->item);
    if (!status)
        status = copy_items(ddp->options.buffers.buffer, ddp->options.buffers.count, false, buffer);
    return status ? status : check_unique(ddp);
}

/* -- how large a bucket ------------------------------------------------------------------------ */

/* The smallest bucket whose bytes travel nearly as fast as those of a very large one: by the cost
 * model, so the same on all ranks and without a probe. */
static int default_cap(struct gyre_ddp *ddp)
{
    uint64_t whole, part, bytes = CAP_LEAST;
    int status = gyre_all_reduce_cost(ddp->comm, CAP_MOST / 4, GYRE_F32, &whole);
    for (; !status && bytes < CAP_MOST; bytes *= 2) {
        status = gyre_all_reduce_cost(ddp->comm, bytes / 4, GYRE_F32, &part);
        if (part * (CAP_MOST / bytes) <= whole + whole / 8)
            break;
    }
    ddp->limits.cap_bytes = bytes;
    return status;
}

/* The smallest bucket that is worth hiding. */
static int default_first(struct gyre_ddp *ddp)
{
    uint64_t cost, bytes = CAP_LEAST;
    int status = 0;
    for (; !status && bytes < ddp->limits.cap_bytes; bytes *= 2) {
        status = gyre_all_reduce_cost(ddp->comm, bytes / 4, GYRE_F32, &cost);
        if (cost >= WORTH_NS)
            break;
    }
    ddp->limits.first_bytes = bytes;
    return status;
}

static int find_limits(struct gyre_ddp *ddp)
{
    int status = 0;
    ddp->limits =
        (struct gyre_cut_limits){.first_bytes = ddp->options.first_bucket,
                                 .cap_bytes = ddp->options.bucket_cap,
                                 .unit = UNIT * (ddp->options.sharded ? (uint64_t)ddp->n : 1)};
    if (!ddp->limits.cap_bytes)
        status = default_cap(ddp);
    if (!status && !ddp->limits.first_bytes)
        status = default_first(ddp);
    if (!ddp->options.compare_every)
        ddp->options.compare_every = COMPARE;
    return status;
}

/* As if gradients became ready in the reverse order of the forward pass, which they mostly do. */
static int cut_first(struct gyre_ddp *ddp)
{
    uint32_t *order = malloc((ddp->items ? ddp->items : 1) * sizeof *order);
    int status = order && ddp->size ? 0 : -ENOMEM;
    for (uint32_t i = 0; !status && i < ddp->items; i++) {
        order[i] = ddp->items - 1 - i;
        ddp->size[i] = (struct gyre_cut_item){ddp->item[i].elements, ddp->item[i].type};
    }
    if (!status)
        status = gyre_cut_make(&ddp->cut, ddp->size, ddp->items, order, &ddp->limits,
                               gyre_thread_trouble());
    free(order);
    return status;
}

/* -- values ------------------------------------------------------------------------------------ */

static int spread_from_root(struct gyre_comm *comm, const struct gyre_ddp_item *item,
                            uint32_t items)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < items; i++)
        status = gyre_broadcast(comm, item[i].value, item[i].value,
                                item[i].elements * gyre_type_size(item[i].type), GYRE_U8, 0);
    return status;
}

/* -- create and destroy ------------------------------------------------------------------------ */

static int allocate_items(struct gyre_ddp *ddp)
{
    size_t room = ddp->items ? ddp->items : 1;
    ddp->size = calloc(room, sizeof *ddp->size);
    ddp->ready = calloc(room, sizeof *ddp->ready);
    ddp->written = calloc(room, sizeof *ddp->written);
    ddp->named = calloc(room, sizeof *ddp->named);
    ddp->seen = calloc(room, sizeof *ddp->seen);
    ddp->note = calloc((size_t)ddp->n, sizeof *ddp->note);
    ddp->sums = calloc((size_t)ddp->n, sizeof *ddp->sums);
    bool good = ddp->size && ddp->ready && ddp->written && ddp->named && ddp->seen && ddp->note &&
                ddp->sums;
    return good ? 0 : -ENOMEM;
}

static int build(struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer, uint32_t buffers)
{
    int status = spread_from_root(ddp->comm, ddp->item, ddp->items);
    if (!status)
        status = spread_from_root(ddp->comm, buffer, buffers);
    if (!status)
        status = find_limits(ddp);
    if (!status)
        status = cut_first(ddp);
    return status ? status : gyre_ddp_allocate(ddp);
}

int gyre_ddp_create(struct gyre_ddp **into, struct gyre_comm *comm,
                    const struct gyre_ddp_parameter *parameter, int parameters,
                    const struct gyre_ddp_options *options)
{
    struct gyre_ddp_item *buffer = NULL;
    struct gyre_ddp *ddp = into && comm ? calloc(1, sizeof *ddp) : NULL;
    if (!into || !comm)
        return gyre_refuse("gyre_ddp_create: %s is NULL",
                           comm ? "the place for the engine" : "the communicator");
    *into = NULL;
    if (!ddp)
        return -ENOMEM;
    ddp->comm = comm;
    ddp->rank = gyre_rank(comm);
    ddp->n = gyre_size(comm);
    int refused = take_arguments(ddp, parameter, parameters, options, &buffer);
    if (!refused)
        refused = allocate_items(ddp);
    uint32_t buffers = refused ? 0 : (uint32_t)ddp->options.buffers.count;
    struct gyre_trouble told = {0};
    int status = gyre_ddp_agree(ddp, buffer, buffers, refused, &told);
    if (told.status)
        *gyre_thread_trouble() = told;
    if (!status)
        status = build(ddp, buffer, buffers);
    free_items(buffer, ddp->options.buffers.count > 0 ? (uint32_t)ddp->options.buffers.count : 0);
    if (status)
        gyre_ddp_destroy(ddp);
    else
        *into = ddp;
    return status;
}

void gyre_ddp_destroy(struct gyre_ddp *ddp)
{
    if (!ddp)
        return;
    for (uint32_t b = 0; ddp->work && b < ddp->cut.buckets; b++)
        if (ddp->work[b])
            gyre_work_wait(ddp->work[b], -1);
    gyre_ddp_release(ddp);
    gyre_cut_deinit(&ddp->cut);
    free_items(ddp->item, ddp->items);
    free(ddp->size);
    free(ddp->ready);
    free(ddp->written);
    free(ddp->named);
    free(ddp->seen);
    free(ddp->note);
    free((char *)(uintptr_t)ddp->hook.name);
    free(ddp->sums);
    free(ddp);
}

/* -- queries ----------------------------------------------------------------------------------- */

static bool known(const struct gyre_ddp *ddp, int parameter)
{
    return ddp && parameter >= 0 && (uint32_t)parameter < ddp->items;
}

void *gyre_ddp_gradient(struct gyre_ddp *ddp, int parameter)
{
    return known(ddp, parameter) ? ddp->gradients + ddp->cut.at[parameter] : NULL;
}

void *gyre_ddp_value(struct gyre_ddp *ddp, int parameter)
{
    if (!known(ddp, parameter))
        return NULL;
    return ddp->values ? ddp->values + ddp->cut.at[parameter] : ddp->item[parameter].value;
}

int gyre_ddp_adds(const struct gyre_ddp *ddp)
{
    return ddp && ddp->adds;
}

const struct gyre_ddp_result *gyre_ddp_result(const struct gyre_ddp *ddp)
{
    return ddp ? &ddp->result : NULL;
}

int gyre_ddp_bucket(const struct gyre_ddp *ddp, int index, uint64_t *bytes, int *parameters)
{
    if (!ddp || index < 0)
        return gyre_refuse("gyre_ddp_bucket: bucket %d", index);
    if ((uint32_t)index >= ddp->cut.buckets)
        return GYRE_AGAIN;
    const struct gyre_bucket *bucket = &ddp->cut.bucket[index];
    *bytes = bucket->elements * gyre_type_size(bucket->type);
    *parameters = (int)bucket->items;
    return 0;
}
