/* Writes safetensors: sorts, lays out, writes the header twice with the same functions (once to
 * count its bytes, once to fill them), and gives header and tensors to gyre_file_replace() in
 * place. */
#include "data/safetensors/inside.h"

#include "base/bytes.h"
#include "base/printable.h"
#include "base/size.h"
#include "data/files/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    const char *path;
    const struct gyre_stored_tensor **tensor; /* in the order of the file */
    uint64_t *bytes;                          /* of each */
    uint64_t count;
    const struct gyre_stored_text *text;
    uint64_t texts;
    struct gyre_trouble *trouble;
};

static int refuse_plan(const struct plan *plan, const char *name, const char *what)
{
    char text[GYRE_STORED_SHOWN];
    return gyre_trouble_set(plan->trouble, GYRE_INVALID, "%s: tensor \"%s\": %s", plan->path,
                            gyre_printable(text, sizeof text, name), what);
}

/* -- the header -------------------------------------------------------------------------------- */

static void put_tensor_entry(struct gyre_json_out *out, const struct gyre_stored_tensor *tensor,
                             uint64_t begin, uint64_t end)
{
    gyre_json_put_string(out, tensor->name);
    gyre_json_put_text(out, ":{\"dtype\":\"");
    gyre_json_put_text(out, gyre_stored_type_name(tensor->type));
    gyre_json_put_text(out, "\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->dims; i++) {
        gyre_json_put_text(out, i ? "," : "");
        gyre_json_put_whole(out, tensor->shape[i]);
    }
    gyre_json_put_text(out, "],\"data_offsets\":[");
    gyre_json_put_whole(out, begin);
    gyre_json_put_text(out, ",");
    gyre_json_put_whole(out, end);
    gyre_json_put_text(out, "]}");
}

static void put_texts(struct gyre_json_out *out, const struct plan *plan)
{
    gyre_json_put_text(out, "\"__metadata__\":{");
    for (uint64_t i = 0; i < plan->texts; i++) {
        gyre_json_put_text(out, i ? "," : "");
        gyre_json_put_string(out, plan->text[i].key);
        gyre_json_put_text(out, ":");
        gyre_json_put_string(out, plan->text[i].value);
    }
    gyre_json_put_text(out, "}");
}

static void put_header(struct gyre_json_out *out, const struct plan *plan)
{
    uint64_t at = 0;
    gyre_json_put_text(out, "{");
    if (plan->texts)
        put_texts(out, plan);
    for (uint64_t i = 0; i < plan->count; i++) {
        gyre_json_put_text(out, i || plan->texts ? "," : "");
        put_tensor_entry(out, plan->tensor[i], at, at + plan->bytes[i]);
        at += plan->bytes[i];
    }
    gyre_json_put_text(out, "}");
    while (out->used % 8)
        gyre_json_put_text(out, " ");
}

/* -- checks ------------------------------------------------------------------------------------ */

static int by_place(const void *a, const void *b)
{
    const struct gyre_stored_tensor *const *x = a, *const *y = b;
    if ((*x)->type != (*y)->type)
        return (*x)->type > (*y)->type ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

static int plans_by_name(const void *a, const void *b)
{
    const struct gyre_stored_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_tensors(struct plan *plan)
{
    uint64_t total = 0;
    qsort(plan->tensor, plan->count, sizeof *plan->tensor, plans_by_name);
    for (uint64_t i = 0; i < plan->count; i++) {
        const struct gyre_stored_tensor *tensor = plan->tensor[i];
        if (i && plans_by_name(&plan->tensor[i - 1], &plan->tensor[i]) == 0)
            return refuse_plan(plan, tensor->name, "is given twice");
        if (strcmp(tensor->name, "__metadata__") == 0)
            return refuse_plan(plan, tensor->name, "the format keeps this name for itself");
        if (!gyre_json_is_utf8(tensor->name))
            return refuse_plan(plan, tensor->name, "the name is not UTF-8");
        uint64_t bytes;
        if (gyre_stored_size(tensor->type, tensor->shape, tensor->dims, NULL, &bytes) ||
            !gyre_add_u64(total, bytes, &total))
            return refuse_plan(
                plan, tensor->name,
                "its type is unknown, or its shape makes no whole number of bytes, or "
                "more than 64 bits can count");
    }
    return 0;
}

static int check_texts(const struct plan *plan)
{
    char shown[GYRE_STORED_SHOWN];
    for (uint64_t i = 0; i < plan->texts; i++) {
        const struct gyre_stored_text *text = &plan->text[i];
        const char *what = NULL;
        if (!gyre_json_is_utf8(text->key) || !gyre_json_is_utf8(text->value))
            what = "is not UTF-8";
        for (uint64_t j = 0; j < i && !what; j++)
            what = strcmp(plan->text[j].key, text->key) ? NULL : "is given twice";
        if (what)
            return gyre_trouble_set(plan->trouble, GYRE_INVALID, "%s: text \"%s\": %s", plan->path,
                                    gyre_printable(shown, sizeof shown, text->key), what);
    }
    return 0;
}

/* -- writing ----------------------------------------------------------------------------------- */

static int write_plan(const struct plan *plan, struct iovec *part)
{
    struct gyre_json_out out = {0};
    put_header(&out, plan);
    if (out.used > GYRE_STORED_HEADER_MAX)
        return gyre_trouble_set(plan->trouble, GYRE_INVALID,
                                "%s: a header of %" PRIu64 " bytes, at most %d are allowed: use "
                                "fewer tensors or shorter names",
                                plan->path, out.used, GYRE_STORED_HEADER_MAX);
    uint8_t *header = malloc(8 + out.used);
    if (!header)
        return gyre_trouble_set(plan->trouble, -ENOMEM, "%s: out of memory", plan->path);
    gyre_put64(header, out.used);
    out = (struct gyre_json_out){.to = (char *)header + 8};
    put_header(&out, plan);
    part[0] = (struct iovec){header, 8 + out.used};
    for (uint64_t i = 0; i < plan->count; i++)
        part[1 + i] = (struct iovec){(void *)plan->tensor[i]->data, plan->bytes[i]};
    int status = gyre_file_replace(plan->path, part, 1 + plan->count, plan->trouble);
    free(header);
    return status;
}

static int sort_and_write(struct plan *plan, struct iovec *part)
{
    int status = check_tensors(plan);
    if (status || (status = check_texts(plan)))
        return status;
    qsort(plan->tensor, plan->count, sizeof *plan->tensor, by_place);
    for (uint64_t i = 0; i < plan->count; i++)
        gyre_stored_size(plan->tensor[i]->type, plan->tensor[i]->shape, plan->tensor[i]->dims, NULL,
                         &plan->bytes[i]);
    return write_plan(plan, part);
}

int gyre_safetensors_write(const char *path, const struct gyre_stored_tensor *tensors,
                           uint64_t count, const struct gyre_stored_text *texts,
                           uint64_t text_count, struct gyre_trouble *trouble)
{
    struct plan plan = {
        .path = path, .count = count, .text = texts, .texts = text_count, .trouble = trouble};
    plan.tensor = calloc(count + 1, sizeof *plan.tensor);
    plan.bytes = calloc(count + 1, sizeof *plan.bytes);
    struct iovec *part = calloc(count + 1, sizeof *part);
    int status = -ENOMEM;
    if (plan.tensor && plan.bytes && part) {
        for (uint64_t i = 0; i < count; i++)
            plan.tensor[i] = &tensors[i];
        status = sort_and_write(&plan, part);
    }
    free(part);
    free(plan.bytes);
    free(plan.tensor);
    return status == -ENOMEM ? gyre_trouble_set(trouble, status, "%s: out of memory", path)
                             : status;
}
