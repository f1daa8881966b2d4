/* Agreement on a status and on lines of text. Only where ranks differ do texts travel:
 *
 *     0      hash and length         ──broadcast──▶   each compares its own
 *     all    other than rank 0's?    ──all_reduce──▶  nobody: done; r is the lowest
 *     0, r   host and lines          ──broadcast──▶   all tell the same lines apart
 *
 * Nothing is allocated before ranks know that they differ. Tested by
 * tests/program/ddp/together.c. */
#include "ddp/agreement.h"

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 400

/* -- a status ---------------------------------------------------------------------------------- */

/* The lowest rank that says yes; n: none does. */
static int find_lowest(struct gyre_comm *comm, bool yes, int *lowest)
{
    int32_t mine = yes ? gyre_rank(comm) : gyre_size(comm);
    int status = gyre_all_reduce(comm, &mine, &mine, 1, GYRE_I32, GYRE_MIN);
    *lowest = mine;
    return status;
}

int gyre_agree(struct gyre_comm *comm, int status, struct gyre_trouble *trouble, int *culprit)
{
    struct gyre_trouble told = *trouble;
    told.status = status;
    *culprit = -1;
    int lowest, failed = find_lowest(comm, status != 0, &lowest);
    if (!failed && lowest == gyre_size(comm))
        return 0;
    if (!failed)
        failed = gyre_broadcast(comm, &told, &told, sizeof told, GYRE_U8, lowest);
    trouble->status = 0;
    if (failed)
        return gyre_trouble_set(trouble, failed, "%s", gyre_error(comm));
    *culprit = lowest;
    return gyre_trouble_set(trouble, told.status, "%s", told.text);
}

/* -- lines ------------------------------------------------------------------------------------- */

static bool has_room(struct gyre_lines *lines, size_t more)
{
    size_t wanted = lines->length + more + 1;
    if (wanted > lines->room) {
        char *text = realloc(lines->text, wanted * 2);
        lines->lost |= !text;
        lines->text = text ? text : lines->text;
        lines->room = text ? wanted * 2 : lines->room;
    }
    return !lines->lost;
}

void gyre_lines_put(struct gyre_lines *lines, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (lines->lost || wanted < 0 || !has_room(lines, (size_t)wanted))
        return;
    va_start(arguments, format);
    vsnprintf(lines->text + lines->length, (size_t)wanted + 1, format, arguments);
    va_end(arguments);
    lines->length += (size_t)wanted;
}

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Whether this rank's lines are other than rank 0's. */
static int compare_with_first(struct gyre_comm *comm, const struct gyre_lines *lines, bool *differs)
{
    const uint64_t mine[2] = {hash_of(lines->text, lines->length), lines->length};
    uint64_t first[2] = {mine[0], mine[1]};
    int status = gyre_broadcast(comm, first, first, 2, GYRE_U64, 0);
    *differs = first[0] != mine[0] || first[1] != mine[1];
    return status;
}

static int no_memory_for_lines(struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -ENOMEM, "no memory to compare what ranks were given");
}

/* Gives the host and the lines of side->rank to all. */
static int share_side(struct gyre_comm *comm, const struct gyre_lines *lines,
                      struct gyre_lines_side *side, struct gyre_trouble *trouble)
{
    struct {
        uint64_t length;
        char host[sizeof side->host];
    } card = {.length = lines->length};
    int culprit;
    snprintf(card.host, sizeof card.host, "%.63s", gyre_host_name());
    int status = gyre_broadcast(comm, &card, &card, sizeof card, GYRE_U8, side->rank);
    if (status)
        return status;
    memcpy(side->host, card.host, sizeof side->host);
    side->text = calloc(1, card.length + 1);
    status = gyre_agree(comm, side->text ? 0 : no_memory_for_lines(trouble), trouble, &culprit);
    if (status)
        return status;
    if (gyre_rank(comm) == side->rank && lines->length)
        memcpy(side->text, lines->text, lines->length);
    return gyre_broadcast(comm, side->text, side->text, card.length, GYRE_U8, side->rank);
}

static int share_sides(struct gyre_comm *comm, const struct gyre_lines *lines, bool differs,
                       struct gyre_difference *difference, struct gyre_trouble *trouble)
{
    int32_t ranks = differs;
    int status = gyre_all_reduce(comm, &ranks, &ranks, 1, GYRE_I32, GYRE_SUM);
    for (int i = 0; !status && i < 2; i++)
        status = share_side(comm, lines, &difference->side[i], trouble);
    difference->ranks = ranks;
    if (status)
        gyre_difference_free(difference);
    return status;
}

int gyre_lines_compare(struct gyre_comm *comm, const struct gyre_lines *lines,
                       struct gyre_difference *difference, struct gyre_trouble *trouble)
{
    bool differs = false;
    int culprit, lowest;
    *difference = (struct gyre_difference){0};
    int status =
        gyre_agree(comm, lines->lost ? no_memory_for_lines(trouble) : 0, trouble, &culprit);
    if (!status)
        status = compare_with_first(comm, lines, &differs);
    if (!status)
        status = find_lowest(comm, differs, &lowest);
    if (status || lowest == gyre_size(comm))
        return status;
    difference->side[1].rank = lowest;
    return share_sides(comm, lines, differs, difference, trouble);
}

void gyre_difference_free(struct gyre_difference *difference)
{
    for (int i = 0; i < 2; i++)
        free(difference->side[i].text);
    *difference = (struct gyre_difference){0};
}

/* -- the first line that differs --------------------------------------------------------------- */

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* Writes what stands first in one side's lines that rank 0 has otherwise. */
static void tell_first_line(const struct gyre_difference *difference, char *into, size_t room)
{
    const struct gyre_lines_side *other = &difference->side[1];
    const char *mine = other->text, *first = difference->side[0].text;
    int a = (int)line_length(mine), b = (int)line_length(first);
    while ((*mine || *first) && a == b && memcmp(mine, first, (size_t)a) == 0) {
        mine += a + (mine[a] == '\n');
        first += b + (first[b] == '\n');
        a = (int)line_length(mine);
        b = (int)line_length(first);
    }
    snprintf(into, room, "rank %d has %.*s%s where rank 0 has %.*s%s", other->rank,
             a < 150 ? a : 150, mine, a ? "" : "nothing", b < 150 ? b : 150, first,
             b ? "" : "nothing");
}

int gyre_agree_on_lines(struct gyre_comm *comm, const struct gyre_lines *lines,
                        struct gyre_trouble *trouble)
{
    struct gyre_difference difference;
    char line[LINE_MAX_BYTES];
    int status = gyre_lines_compare(comm, lines, &difference, trouble);
    if (status || !difference.ranks)
        return status;
    tell_first_line(&difference, line, sizeof line);
    gyre_trouble_set(trouble, GYRE_MISMATCH, "%s (%d of %d ranks differ from rank 0)", line,
                     difference.ranks, gyre_size(comm));
    gyre_difference_free(&difference);
    return GYRE_MISMATCH;
}
