/* Tensors and numbers of the caller's. Rank 0 writes those that are equal on all ranks; of the
 * others it gathers every rank's, one after the other:
 *
 *     GYRE_CHECKPOINT_MODEL, _TRAINING   [ shape ]           rank 0's ──broadcast──▶ all
 *     GYRE_CHECKPOINT_RANKS              [ ranks, shape ]    ◀──gather──  ──scatter──▶
 *
 * Tested by tests/program/ddp/checkpoint.c. */
#include "base/types.h"
#include "checkpoint/run/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct bound_tensor {
    struct gyre_ddp_parameter as; /* its name is owned */
    uint64_t bytes;               /* of one rank */
    uint8_t *gathered;            /* rank 0, while a pass saves each rank's own */
};

struct bound_tensors {
    struct gyre_bound bound;
    enum gyre_checkpoint_place place;
    struct bound_tensor *tensor;
    int tensors;
};

static const enum gyre_stored_type stored_types[GYRE_TYPE_COUNT] = {
    [GYRE_F32] = GYRE_STORED_F32,        [GYRE_F64] = GYRE_STORED_F64,
    [GYRE_F16] = GYRE_STORED_F16,        [GYRE_BF16] = GYRE_STORED_BF16,
    [GYRE_I32] = GYRE_STORED_I32,        [GYRE_I64] = GYRE_STORED_I64,
    [GYRE_U8] = GYRE_STORED_U8,          [GYRE_I8] = GYRE_STORED_I8,
    [GYRE_U32] = GYRE_STORED_U32,        [GYRE_U64] = GYRE_STORED_U64,
    [GYRE_I16] = GYRE_STORED_I16,        [GYRE_U16] = GYRE_STORED_U16,
    [GYRE_F8E4M3] = GYRE_STORED_F8_E4M3, [GYRE_F8E5M2] = GYRE_STORED_F8_E5M2};

/* -- listed ------------------------------------------------------------------------------------ */

static int list_alike(struct bound_tensors *b, struct gyre_run_pass *pass)
{
    const enum gyre_generation_part part =
        b->place == GYRE_CHECKPOINT_MODEL ? GYRE_GENERATION_MODEL : GYRE_GENERATION_TRAINING;
    for (int i = 0; i < b->tensors; i++) {
        const struct gyre_ddp_parameter *as = &b->tensor[i].as;
        const struct gyre_run_form form = {part, stored_types[as->type], (uint32_t)as->dimensions,
                                           as->shape};
        gyre_run_items_add(&pass->items, form, as->value, "%s", as->name);
    }
    return 0;
}

static int list_each_rank(struct bound_tensors *b, struct gyre_run_pass *pass)
{
    bool gathers = !pass->loading && gyre_rank(b->bound.comm) == 0;
    for (int i = 0; i < b->tensors; i++) {
        const struct gyre_ddp_parameter *as = &b->tensor[i].as;
        uint64_t shape[GYRE_DDP_DIMENSIONS + 1] = {pass->world};
        memcpy(shape + 1, as->shape, sizeof as->shape);
        b->tensor[i].gathered = gathers ? malloc(b->tensor[i].bytes * pass->world + 1) : NULL;
        if (gathers && !b->tensor[i].gathered)
            return gyre_trouble_set(&pass->trouble, -ENOMEM, "no memory for '%.200s' of all ranks",
                                    as->name);
        const struct gyre_run_form form = {GYRE_GENERATION_TRAINING, stored_types[as->type],
                                           (uint32_t)as->dimensions + 1, shape};
        gyre_run_items_add(&pass->items, form, b->tensor[i].gathered, "%s", as->name);
    }
    return 0;
}

static int list_tensors(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_tensors *b = (struct bound_tensors *)bound;
    return b->place == GYRE_CHECKPOINT_RANKS ? list_each_rank(b, pass) : list_alike(b, pass);
}

/* -- moved ------------------------------------------------------------------------------------- */

static int collect_tensors(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_tensors *b = (struct bound_tensors *)bound;
    int status = 0;
    for (int i = 0; !status && b->place == GYRE_CHECKPOINT_RANKS && i < b->tensors; i++)
        status = gyre_gather(bound->comm, b->tensor[i].as.value, b->tensor[i].gathered,
                             b->tensor[i].bytes, GYRE_U8, 0);
    return status;
}

static int give_tensors(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_tensors *b = (struct bound_tensors *)bound;
    bool ranks = b->place == GYRE_CHECKPOINT_RANKS;
    int status = 0;
    if (ranks && b->tensors && pass->world != (uint64_t)gyre_size(bound->comm))
        bound->lost = b->tensor[0].as.name;
    for (int i = 0; !status && !bound->lost && i < b->tensors; i++) {
        void *value = b->tensor[i].as.value;
        uint64_t bytes = b->tensor[i].bytes;
        status = ranks
                     ? gyre_scatter(bound->comm, pass->items.item[bound->first + (uint64_t)i].found,
                                    value, bytes, GYRE_U8, 0)
                     : gyre_broadcast(bound->comm, value, value, bytes, GYRE_U8, 0);
    }
    return status;
}

static void release_tensors(struct gyre_bound *bound)
{
    struct bound_tensors *b = (struct bound_tensors *)bound;
    for (int i = 0; i < b->tensors; i++) {
        free(b->tensor[i].gathered);
        b->tensor[i].gathered = NULL;
    }
}

static void destroy_tensors(struct gyre_bound *bound)
{
    struct bound_tensors *b = (struct bound_tensors *)bound;
    for (int i = 0; i < b->tensors; i++)
        free((char *)(uintptr_t)b->tensor[i].as.name);
    free(b->tensor);
}

/* -- added ------------------------------------------------------------------------------------- */

static int refuse_description(const struct gyre_ddp_parameter *tensor, int i)
{
    const char *call = "gyre_checkpoint_add_tensors";
    if (!tensor->name || !tensor->value)
        return gyre_refuse("%s: the %s of tensor %d is NULL", call,
                           tensor->name ? "address" : "name", i);
    if ((unsigned)tensor->type >= GYRE_TYPE_COUNT)
        return gyre_refuse("%s: '%.200s' has type %d, which is unknown", call, tensor->name,
                           (int)tensor->type);
    if (tensor->dimensions < 0 || tensor->dimensions > GYRE_DDP_DIMENSIONS)
        return gyre_refuse("%s: '%.200s' has %d dimensions: 0 to %d are expected", call,
                           tensor->name, tensor->dimensions, GYRE_DDP_DIMENSIONS);
    return 0;
}

static int copy_tensor(struct bound_tensor *into, const struct gyre_ddp_parameter *tensor, int i)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    int status = refuse_description(tensor, i);
    if (status)
        return status;
    trouble->status = 0;
    status = gyre_stored_size(stored_types[tensor->type], tensor->shape,
                              (uint32_t)tensor->dimensions, NULL, &into->bytes);
    if (status)
        return gyre_trouble_set(trouble, status, "'%.200s' has more bytes than 64 bits count",
                                tensor->name);
    into->as = *tensor;
    into->as.name = strdup(tensor->name);
    return into->as.name ? 0 : gyre_trouble_set(trouble, -ENOMEM, "no memory for a name");
}

/* Takes the tensors over, also where it fails. */
static int bind_tensors(struct gyre_checkpoint *c, enum gyre_checkpoint_place place,
                        struct bound_tensors *made)
{
    static const struct gyre_bound_kind kind = {.list = list_tensors,
                                                .collect = collect_tensors,
                                                .give = give_tensors,
                                                .release = release_tensors,
                                                .destroy = destroy_tensors};
    struct bound_tensors *b = gyre_run_bind(c, &kind, sizeof *b);
    if (!b) {
        destroy_tensors(&made->bound);
        return -ENOMEM;
    }
    b->place = place;
    b->tensor = made->tensor;
    b->tensors = made->tensors;
    return 0;
}

int gyre_checkpoint_add_tensors(struct gyre_checkpoint *c, enum gyre_checkpoint_place place,
                                const struct gyre_ddp_parameter *tensor, int tensors)
{
    struct bound_tensors made = {0};
    if (!c || (tensors > 0 && !tensor))
        return gyre_refuse("gyre_checkpoint_add_tensors: the %s NULL",
                           c ? "list of tensors is" : "checkpoint is");
    if (tensors < 0 || (unsigned)place > GYRE_CHECKPOINT_RANKS)
        return gyre_refuse("gyre_checkpoint_add_tensors: %d tensors for place %d", tensors,
                           (int)place);
    made.tensor = calloc((size_t)tensors + 1, sizeof *made.tensor);
    int status = made.tensor ? 0 : gyre_run_no_memory("gyre_checkpoint_add_tensors");
    for (; !status && made.tensors < tensors; made.tensors++)
        status = copy_tensor(&made.tensor[made.tensors], &tensor[made.tensors], made.tensors);
    if (status)
        destroy_tensors(&made.bound);
    return status ? status : bind_tensors(c, place, &made);
}

int gyre_checkpoint_add_i64(struct gyre_checkpoint *c, const char *name, int64_t *value)
{
    const struct gyre_ddp_parameter number = {.name = name, .type = GYRE_I64, .value = value};
    return gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_TRAINING, &number, 1);
}

int gyre_checkpoint_add_f64(struct gyre_checkpoint *c, const char *name, double *value)
{
    const struct gyre_ddp_parameter number = {.name = name, .type = GYRE_F64, .value = value};
    return gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_TRAINING, &number, 1);
}
