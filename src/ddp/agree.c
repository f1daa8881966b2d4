/* Compares the ranks. Every rank writes its arguments as lines of text, which agreement.h compares.
 * Values are compared by a sum over all parameters first, and by sums of each where those differ.
 * Tested by tests/program/ddp/ddp.c. */
#include "base/crc.h"
#include "base/types.h"
#include "ddp/agreement.h"
#include "ddp/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define ODD_TOLD 16     /* ranks that a message names */
#define SUMMED   32768u /* bytes of a device's at once */

/* -- arguments --------------------------------------------------------------------------------- */

static void put_item(struct gyre_lines *lines, const char *what, const struct gyre_ddp_item *item)
{
    gyre_lines_put(lines, "%s '%.200s' of %s [", what, item->name, gyre_type_name(item->type));
    for (int d = 0; d < item->dimensions; d++)
        gyre_lines_put(lines, "%s%llu", d ? ", " : "", (unsigned long long)item->shape[d]);
    gyre_lines_put(lines, "]\n");
}

static void put_options(struct gyre_lines *lines, const struct gyre_ddp_options *o)
{
    gyre_lines_put(lines, "first_bucket %llu and bucket_cap %llu\n",
                   (unsigned long long)o->first_bucket, (unsigned long long)o->bucket_cap);
    gyre_lines_put(
        lines, "mean %d, wire %d, no_feedback %d, strict %d, sharded %d, norm %d, unscaled %d, ",
        (int)o->mean, (int)o->wire, o->no_feedback, o->strict, o->sharded, o->norm, o->unscaled);
    gyre_lines_put(lines, "look %d, compare_every %d\n", (int)o->look, o->compare_every);
}

static void put_hook(struct gyre_lines *lines, const struct gyre_ddp_hook *hook)
{
    if (hook->encode)
        gyre_lines_put(lines, "hook '%.200s' of %s, reduction %d, elements %s\n", hook->name,
                       gyre_type_name(hook->type), (int)hook->op,
                       hook->length ? "by a function" : "as many");
}

static struct gyre_lines describe_engine(const struct gyre_ddp *ddp)
{
    struct gyre_lines lines = {0};
    gyre_lines_put(&lines, "values on %s\n", ddp->place.on ? "a CUDA device" : "the host");
    put_options(&lines, &ddp->options);
    put_hook(&lines, &ddp->hook);
    for (uint32_t i = 0; i < ddp->items; i++)
        put_item(&lines, "parameter", &ddp->item[i]);
    for (uint32_t i = 0; i < ddp->buffers; i++)
        put_item(&lines, "buffer", &ddp->buffer[i]);
    return lines;
}

int gyre_ddp_agree_on(struct gyre_ddp *ddp, int mine, struct gyre_trouble *trouble)
{
    struct gyre_trouble told = {0};
    int culprit;
    if (mine)
        gyre_trouble_set(&told, mine, "%s",
                         gyre_thread_trouble()->status == mine ? gyre_thread_trouble()->text
                                                               : gyre_status_name(mine));
    int status = gyre_agree(ddp->comm, mine, &told, &culprit);
    if (!status || culprit < 0)
        return status;
    return gyre_trouble_set(
        trouble, status, "rank %d %s: %s", culprit,
        status == GYRE_INVALID ? "refuses its arguments" : "cannot make an engine", told.text);
}

int gyre_ddp_agree(struct gyre_ddp *ddp, int refused, struct gyre_trouble *trouble)
{
    int status = gyre_ddp_agree_on(ddp, refused, trouble);
    if (status)
        return status;
    struct gyre_lines lines = describe_engine(ddp);
    status = gyre_agree_on_lines(ddp->comm, &lines, trouble);
    if (status == GYRE_MISMATCH)
        gyre_trouble_wrap(trouble, "gyre_ddp_create: ranks were given different models");
    free(lines.text);
    return status;
}

/* -- values ------------------------------------------------------------------------------------ */

static int item_sum(struct gyre_ddp *ddp, uint32_t i, uint32_t *sum)
{
    const struct gyre_ddp_item *item = &ddp->item[i];
    const uint8_t *value = gyre_ddp_value(ddp, (int)i);
    const uint64_t bytes = item->elements * gyre_type_size(item->type);
    uint8_t room[SUMMED];
    int status = 0;
    *sum = ddp->place.on ? 0 : gyre_crc32c(0, value, bytes);
    for (uint64_t at = 0; ddp->place.on && !status && at < bytes; at += SUMMED) {
        const uint64_t count = bytes - at < SUMMED ? bytes - at : SUMMED;
        status = gyre_ddp_bring_home(ddp, room, value + at, count);
        *sum = gyre_crc32c(*sum, room, count);
    }
    return status;
}

/* The sum of more than half of the ranks; where there is none, rank 0's. */
static uint32_t usual_sum(const uint32_t *sum, int n)
{
    uint32_t usual = sum[0];
    int lead = 0, count = 0;
    for (int rank = 0; rank < n; rank++) {
        usual = lead ? usual : sum[rank];
        lead += sum[rank] == usual ? 1 : -1;
    }
    for (int rank = 0; rank < n; rank++)
        count += sum[rank] == usual;
    return 2 * count > n ? usual : sum[0];
}

static int count_odd(const uint32_t *sum, int n)
{
    uint32_t usual = usual_sum(sum, n);
    int odd = 0;
    for (int rank = 0; rank < n; rank++)
        odd += sum[rank] != usual;
    return odd;
}

/* "rank 3 holds", "ranks 1, 4 hold", the first few of them. */
static void list_odd(const uint32_t *sum, int n, int odd, char *text, size_t room)
{
    uint32_t usual = usual_sum(sum, n);
    size_t used = (size_t)snprintf(text, room, "rank%s", odd > 1 ? "s" : "");
    int told = 0;
    for (int rank = 0; rank < n && told < ODD_TOLD; rank++)
        if (sum[rank] != usual)
            used += (size_t)snprintf(text + used, room - used, "%s %d", told++ ? "," : "", rank);
    if (odd > told)
        used += (size_t)snprintf(text + used, room - used, " and %d more", odd - told);
    snprintf(text + used, room - used, " hold%s", odd > 1 ? "" : "s");
}

static int name_odd(struct gyre_ddp *ddp, struct gyre_trouble *trouble)
{
    char who[ODD_TOLD * 12 + 64];
    for (uint32_t i = 0; i < ddp->items; i++) {
        uint32_t mine;
        int status = item_sum(ddp, i, &mine);
        if (!status)
            status = gyre_all_gather(ddp->comm, &mine, ddp->sums, 1, GYRE_U32);
        int odd = status ? 0 : count_odd(ddp->sums, ddp->n);
        if (status)
            return status;
        if (!odd)
            continue;
        list_odd(ddp->sums, ddp->n, odd, who, sizeof who);
        return gyre_trouble_set(
            trouble, GYRE_CORRUPT,
            "after step %llu %s other values of '%s' than %s: something changed them there only, "
            "or memory is damaged there",
            (unsigned long long)ddp->steps, who, ddp->item[i].name,
            2 * odd < ddp->n ? "the other ranks" : "rank 0");
    }
    return 0;
}

int gyre_ddp_compare_values(struct gyre_ddp *ddp, struct gyre_trouble *trouble)
{
    uint32_t mine = 0, item;
    int status = gyre_ddp_await_stream(ddp);
    for (uint32_t i = 0; !status && i < ddp->items; i++) {
        status = item_sum(ddp, i, &item);
        mine = gyre_crc32c(mine, &item, sizeof item);
    }
    if (!status)
        status = gyre_all_gather(ddp->comm, &mine, ddp->sums, 1, GYRE_U32);
    if (!status && count_odd(ddp->sums, ddp->n))
        status = name_odd(ddp, trouble);
    return status;
}
