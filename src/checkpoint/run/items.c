/* Items: tensors of a generation by name, type and shape. They are listed anew in every pass,
 * because an engine may have moved its values since. Tested by
 * tests/program/ddp/checkpoint.c. */
#include "checkpoint/run/inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- listing ----------------------------------------------------------------------------------- */

static bool make_room(struct gyre_run_items *items)
{
    if (items->count < items->room)
        return true;
    uint64_t room = items->room ? 2 * items->room : 32;
    struct gyre_run_item *item = realloc(items->item, room * sizeof *item);
    if (!item)
        return false;
    items->item = item;
    items->room = room;
    return true;
}

void gyre_run_items_add(struct gyre_run_items *items, struct gyre_run_form form, void *data,
                        const char *name, ...)
{
    va_list arguments;
    if (items->lost || !make_room(items)) {
        items->lost = true;
        return;
    }
    struct gyre_run_item *item = &items->item[items->count];
    *item = (struct gyre_run_item){
        .part = form.part, .type = form.type, .dims = form.dims, .data = data};
    for (uint32_t d = 0; d < form.dims; d++)
        item->shape[d] = form.shape[d];
    va_start(arguments, name);
    items->lost = vasprintf(&item->name, name, arguments) < 0;
    va_end(arguments);
    items->count += !items->lost;
}

void gyre_run_items_free(struct gyre_run_items *items)
{
    for (uint64_t i = 0; i < items->count; i++)
        free(items->item[i].name);
    free(items->item);
    *items = (struct gyre_run_items){0};
}

/* -- checked ----------------------------------------------------------------------------------- */

static int no_memory_for_items(struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for the list of a checkpoint");
}

static int names_in_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int gyre_run_items_check(const struct gyre_run_items *items, struct gyre_trouble *trouble)
{
    char **name = items->lost ? NULL : calloc(items->count + 1, sizeof *name);
    int status = 0;
    if (!name)
        return no_memory_for_items(trouble);
    for (uint64_t i = 0; i < items->count; i++)
        name[i] = items->item[i].name;
    qsort(name, items->count, sizeof *name, names_in_order);
    for (uint64_t i = 1; !status && i < items->count; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            status =
                gyre_trouble_set(trouble, GYRE_INVALID,
                                 "two tensors of the checkpoint are named \"%.200s\"", name[i]);
    free(name);
    return status;
}

/* -- and the disk ------------------------------------------------------------------------------ */

static struct gyre_stored_tensor tensor_of_item(const struct gyre_run_item *item)
{
    return (struct gyre_stored_tensor){.name = item->name,
                                       .type = item->type,
                                       .dims = item->dims,
                                       .shape = item->shape,
                                       .data = item->data};
}

int gyre_run_items_of(const struct gyre_run_items *items, enum gyre_generation_part part,
                      struct gyre_stored_list *list, struct gyre_trouble *trouble)
{
    struct gyre_stored_tensor *tensor = calloc(items->count + 1, sizeof *tensor);
    *list = (struct gyre_stored_list){.tensor = tensor};
    if (!tensor)
        return no_memory_for_items(trouble);
    for (uint64_t i = 0; i < items->count; i++)
        if (items->item[i].part == part)
            tensor[list->count++] = tensor_of_item(&items->item[i]);
    return 0;
}

static int find_stored_item(struct gyre_run_item *item, const struct gyre_generation *generation,
                            struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor want = tensor_of_item(item);
    if (item->optional &&
        !gyre_safetensors_find(gyre_generation_file(generation, item->part), item->name))
        return 0;
    int status = gyre_generation_find(generation, item->part, &want, &item->found, trouble);
    return status ? status
                  : gyre_stored_size(item->type, item->shape, item->dims, NULL, &item->bytes);
}

int gyre_run_items_find(struct gyre_run_items *items, const struct gyre_generation *generation,
                        struct gyre_trouble *trouble)
{
    struct gyre_stored_list model;
    int status = gyre_run_items_of(items, GYRE_GENERATION_MODEL, &model, trouble);
    if (!status)
        status = gyre_generation_expect_model(generation, &model, trouble);
    for (uint64_t i = 0; !status && i < items->count; i++)
        status = find_stored_item(&items->item[i], generation, trouble);
    free((void *)(uintptr_t)model.tensor);
    return status;
}
