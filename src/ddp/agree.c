/* Agreement. What every rank was given is written as lines of text, and a hash of them compared.
 * Only where hashes differ do texts travel:
 *
 *     all    hash, refused?          ──all_gather──▶ equal and nobody refused: done
 *     0      its lines               ──broadcast──▶  each finds its first line that differs
 *     all    that line, or nothing   ──all_gather──▶ the lowest rank's is everybody's story
 *
 * Values are compared the same way: a sum over all parameters first, sums of each where they
 * differ. Tested by tests/program/ddp/ddp.c. */
#include "base/crc.h"
#include "base/types.h"
#include "ddp/inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 400

/* -- lines ------------------------------------------------------------------------------------- */

struct lines {
    char *text;
    size_t length, room;
    bool lost; /* no memory */
};

__attribute__((format(printf, 2, 3))) static void append_line(struct lines *lines,
                                                              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (lines->lost || wanted < 0)
        return;
    if (lines->length + (size_t)wanted + 1 > lines->room) {
        size_t room = (lines->length + (size_t)wanted + 1) * 2;
        char *text = realloc(lines->text, room);
        lines->lost = !text;
        if (!text)
            return;
        lines->text = text;
        lines->room = room;
    }
    va_start(arguments, format);
    vsnprintf(lines->text + lines->length, (size_t)wanted + 1, format, arguments);
    va_end(arguments);
    lines->length += (size_t)wanted;
}

static void put_item(struct lines *lines, const char *what, const struct gyre_ddp_item *item)
{
    append_line(lines, "%s '%.200s' of %s [", what, item->name, gyre_type_name(item->type));
    for (int d = 0; d < item->dimensions; d++)
        append_line(lines, "%s%llu", d ? ", " : "", (unsigned long long)item->shape[d]);
    append_line(lines, "]\n");
}

static void put_options(struct lines *lines, const struct gyre_ddp_options *o)
{
    append_line(lines, "first_bucket %llu and bucket_cap %llu\n",
                (unsigned long long)o->first_bucket, (unsigned long long)o->bucket_cap);
    append_line(
        lines, "mean %d, wire %d, no_feedback %d, strict %d, sharded %d, norm %d, unscaled %d, ",
        (int)o->mean, (int)o->wire, o->no_feedback, o->strict, o->sharded, o->norm, o->unscaled);
    append_line(lines, "look %d, compare_every %d\n", (int)o->look, o->compare_every);
}

static void put_hook(struct lines *lines, const struct gyre_ddp_hook *hook)
{
    if (hook->encode)
        append_line(lines, "hook '%.200s' of %s, reduction %d, elements %s\n", hook->name,
                    gyre_type_name(hook->type), (int)hook->op,
                    hook->length ? "by a function" : "as many");
}

static struct lines describe_buffers(const struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer,
                                     uint32_t buffers)
{
    struct lines lines = {0};
    put_options(&lines, &ddp->options);
    put_hook(&lines, &ddp->hook);
    for (uint32_t i = 0; i < ddp->items; i++)
        put_item(&lines, "parameter", &ddp->item[i]);
    for (uint32_t i = 0; i < buffers; i++)
        put_item(&lines, "buffer", &buffer[i]);
    return lines;
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* -- the first difference ---------------------------------------------------------------------- */

struct card { /* what every rank shows first */
    uint64_t hash, length;
    int64_t refused; /* a status */
    char why[232];
};

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* Says what stands first in `mine` that rank 0 has otherwise; "" where nothing does. */
static void find_difference(const struct gyre_ddp *ddp, const char *mine, const char *first,
                            char *into)
{
    memset(into, 0, LINE_MAX_BYTES);
    while (*mine || *first) {
        int a = (int)line_length(mine), b = (int)line_length(first);
        if (a != b || memcmp(mine, first, (size_t)a) != 0) {
            snprintf(into, LINE_MAX_BYTES, "rank %d has %.*s%s where rank 0 has %.*s%s", ddp->rank,
                     a < 150 ? a : 150, mine, a ? "" : "nothing", b < 150 ? b : 150, first,
                     b ? "" : "nothing");
            return;
        }
        mine += a + (mine[a] == '\n');
        first += b + (first[b] == '\n');
    }
}

static int tell_difference(struct gyre_ddp *ddp, const struct lines *lines, uint64_t first_length,
                           struct gyre_trouble *trouble)
{
    uint64_t room = first_length > lines->length ? first_length : lines->length;
    char *first = calloc(1, room + 1), *all = calloc((size_t)ddp->n, LINE_MAX_BYTES);
    char mine[LINE_MAX_BYTES];
    int status = first && all ? 0 : -ENOMEM, differ = 0, lowest = -1;
    if (first)
        memcpy(first, lines->text, lines->length);
    if (!status)
        status = gyre_broadcast(ddp->comm, first, first, first_length, GYRE_U8, 0);
    if (!status) {
        first[first_length] = 0;
        find_difference(ddp, lines->text, first, mine);
        status = gyre_all_gather(ddp->comm, mine, all, LINE_MAX_BYTES, GYRE_U8);
    }
    for (int rank = 0; !status && rank < ddp->n; rank++)
        if (all[(size_t)rank * LINE_MAX_BYTES]) {
            lowest = lowest < 0 ? rank : lowest;
            differ++;
        }
    if (!status)
        status = gyre_trouble_set(
            trouble, GYRE_MISMATCH,
            "gyre_ddp_create: ranks were given different models: %s (%d of %d ranks differ from "
            "rank 0)",
            lowest < 0 ? "their hashes differ" : all + (size_t)lowest * LINE_MAX_BYTES, differ,
            ddp->n);
    free(first);
    free(all);
    return status;
}

int gyre_ddp_agree(struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer, uint32_t buffers,
                   int refused, struct gyre_trouble *trouble)
{
    struct lines lines = refused ? (struct lines){0} : describe_buffers(ddp, buffer, buffers);
    struct card mine = {.refused = refused      ? refused
                                   : lines.lost ? -ENOMEM
                                                : 0,
                        .hash = hash_of(lines.text, lines.length),
                        .length = lines.length};
    struct card *all = calloc((size_t)ddp->n, sizeof *all);
    int status = all ? 0 : -ENOMEM, differ = 0;
    if (refused)
        snprintf(mine.why, sizeof mine.why, "%s",
                 refused == GYRE_INVALID ? gyre_thread_trouble()->text : gyre_status_name(refused));
    if (!status)
        status = gyre_all_gather(ddp->comm, &mine, all, sizeof mine, GYRE_U8);
    for (int rank = 0; !status && rank < ddp->n; rank++) {
        if (all[rank].refused)
            status = gyre_trouble_set(trouble, (int)all[rank].refused,
                                      "rank %d refuses its arguments: %s", rank, all[rank].why);
        differ += all[rank].hash != all[0].hash || all[rank].length != all[0].length;
    }
    if (!status && differ)
        status = tell_difference(ddp, &lines, all[0].length, trouble);
    free(lines.text);
    free(all);
    return status;
}

/* -- values ------------------------------------------------------------------------------------ */

static uint32_t item_sum(struct gyre_ddp *ddp, uint32_t i)
{
    const struct gyre_ddp_item *item = &ddp->item[i];
    return gyre_crc32c(0, gyre_ddp_value(ddp, (int)i), item->elements * gyre_type_size(item->type));
}

/* The rank that is alone with what it has; where there is none, or only two ranks, the first that
 * differs from rank 0. -1: all equal. */
static int odd_one(const uint32_t *sum, int n)
{
    int differ = 0, last = -1;
    for (int rank = 1; rank < n; rank++)
        if (sum[rank] != sum[0]) {
            last = last < 0 ? rank : last;
            differ++;
        }
    return differ > 1 && differ == n - 1 && sum[1] == sum[n - 1] ? 0 : last;
}

static int name_odd_one(struct gyre_ddp *ddp, struct gyre_trouble *trouble)
{
    for (uint32_t i = 0; i < ddp->items; i++) {
        uint32_t mine = item_sum(ddp, i);
        int status = gyre_all_gather(ddp->comm, &mine, ddp->sums, 1, GYRE_U32);
        int odd = status ? -1 : odd_one(ddp->sums, ddp->n);
        if (status)
            return status;
        if (odd >= 0)
            return gyre_trouble_set(
                trouble, GYRE_CORRUPT,
                "after step %llu rank %d holds other values of '%s' than %s: it was changed on "
                "one rank only, or its memory is damaged",
                (unsigned long long)ddp->steps, odd, ddp->item[i].name,
                odd && ddp->n == 2 ? "rank 0" : "the other ranks");
    }
    return 0;
}

int gyre_ddp_compare(struct gyre_ddp *ddp, struct gyre_trouble *trouble)
{
    uint32_t mine = 0;
    for (uint32_t i = 0; i < ddp->items; i++) {
        uint32_t item = item_sum(ddp, i);
        mine = gyre_crc32c(mine, &item, sizeof item);
    }
    int status = gyre_all_gather(ddp->comm, &mine, ddp->sums, 1, GYRE_U32);
    if (!status && odd_one(ddp->sums, ddp->n) >= 0)
        status = name_odd_one(ddp, trouble);
    return status;
}
