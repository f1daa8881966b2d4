/* Parsing of seatings.
 *
 * Every form that a user may write becomes a list of node sizes. The rest of the launcher sees only
 * the list, so "4 ranks here", "2x2 simulated on one machine" and "a:4,b:2 over ssh" are one case:
 *
 *     4        →  [4]            2x2  →  [2, 2]         a:4,b:2  →  [4, 2] and the names [a, b]
 *     4,2      →  [4, 2]         4+2  →  [4, 2]        g[1-2]:4 →  [4, 4] and the names [g1, g2]
 *
 * Invariants: 1 ≤ nodes ≤ GYRE_NODES_MAX, 1 ≤ size ≤ GYRE_RANKS_PER_NODE_MAX; ranks are counted
 * node by node.
 *
 * Tested by tests/unit/launch/launch_test.c. */
#include "launch/seating.h"

#include "base/env.h"
#include "transport/job/job.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts the next piece off *rest, up to one of `separator`; false when nothing is left or the piece
 * is too long. */
static bool next_piece(const char **rest, char separator, char *piece, size_t capacity)
{
    if (!*rest)
        return false;
    const char *end = strchr(*rest, separator);
    size_t length = end ? (size_t)(end - *rest) : strlen(*rest);
    if (length >= capacity)
        /* A piece this long is no number or name, and its parser refuses the rest of it. */
        length = capacity - 1;
    memcpy(piece, *rest, length);
    piece[length] = 0;
    *rest = end ? end + 1 : NULL;
    return true;
}

/* `text` is a part of `whole`, the flag's value as the user wrote it, which the messages show. */
static int parse_size(const char *flag, const char *whole, const char *text, int64_t most,
                      int *size, struct gyre_trouble *trouble)
{
    int64_t value;
    bool part = strcmp(text, whole) != 0;
    int status = gyre_parse_int(flag, text, 1, most, &value, part ? NULL : trouble);
    if (status && part)
        gyre_trouble_set(trouble, status,
                         "%s is \"%s\": expected a whole number from 1 to %d, not \"%s\"", flag,
                         whole, (int)most, text);
    if (!status)
        *size = (int)value;
    return status;
}

static int append_node(const char *flag, struct gyre_seating *seating, int size,
                       struct gyre_trouble *trouble)
{
    if (seating->nodes == GYRE_NODES_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s names more than %d nodes", flag,
                                GYRE_NODES_MAX);
    seating->size[seating->nodes++] = size;
    return 0;
}

int gyre_seating_parse_sizes(const char *flag, const char *text, int cores,
                             struct gyre_seating *seating, struct gyre_trouble *trouble)
{
    struct gyre_seating found = {0};
    char piece[32];
    for (const char *rest = text; next_piece(&rest, ',', piece, sizeof piece);) {
        int size = cores;
        bool counted = !strcmp(piece, "auto") || !strcmp(piece, "cpu");
        int status =
            counted ? 0 : parse_size(flag, text, piece, GYRE_RANKS_PER_NODE_MAX, &size, trouble);
        if (status || (status = append_node(flag, &found, size, trouble)))
            return status;
    }
    *seating = found;
    return 0;
}

/* "NODESxRANKS" with text cut at `x`. */
static int parse_product(const char *flag, const char *text, const char *x,
                         struct gyre_seating *found, struct gyre_trouble *trouble)
{
    char left[32];
    int nodes = 0, size = 0, status = 0;
    snprintf(left, sizeof left, "%.*s", (int)(x - text), text);
    if ((status = parse_size(flag, text, left, GYRE_NODES_MAX, &nodes, trouble)) ||
        (status = parse_size(flag, text, x + 1, GYRE_RANKS_PER_NODE_MAX, &size, trouble)))
        return status;
    while (found->nodes < nodes)
        found->size[found->nodes++] = size;
    return 0;
}

static int parse_sum(const char *flag, const char *text, struct gyre_seating *found,
                     struct gyre_trouble *trouble)
{
    char piece[32];
    for (const char *rest = text; next_piece(&rest, '+', piece, sizeof piece);) {
        int size = 0;
        int status = parse_size(flag, text, piece, GYRE_RANKS_PER_NODE_MAX, &size, trouble);
        if (status || (status = append_node(flag, found, size, trouble)))
            return status;
    }
    return 0;
}

int gyre_seating_parse_nodes(const char *flag, const char *text, struct gyre_seating *seating,
                             struct gyre_trouble *trouble)
{
    struct gyre_seating found = {0};
    const char *x = strchr(text, 'x');
    int status;
    if (!x && !strchr(text, '+'))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is '%s'; expected NODESxRANKS such as 2x2, or the nodes' sizes "
                                "joined by + such as 4+2",
                                flag, text);
    status =
        x ? parse_product(flag, text, x, &found, trouble) : parse_sum(flag, text, &found, trouble);
    if (!status)
        *seating = found;
    return status;
}

/* Hosts as they are found in `text`, which came with `flag`. */
struct host_list {
    const char *flag, *text;
    struct gyre_hosts *hosts;
    struct gyre_seating *found;
    int size; /* ranks of the hosts that come next */
    struct gyre_trouble *trouble;
};

/* A name that begins with a dash would be read as an option by ssh. */
static int append_host(struct host_list *list, const char *name)
{
    size_t length = strlen(name);
    if (!length || *name == '-' || name[strcspn(name, " \t'\"\\$`;&|<>()")])
        return gyre_trouble_set(list->trouble, GYRE_INVALID,
                                "%s has the host name '%s'; expected hosts and their ranks such as "
                                "a:4,b:2",
                                list->flag, name);
    if (length >= GYRE_HOST_MAX)
        return gyre_trouble_set(list->trouble, GYRE_INVALID,
                                "%s has a host of %zu characters, at most %d are allowed",
                                list->flag, length, GYRE_HOST_MAX - 1);
    int status = append_node(list->flag, list->found, list->size, list->trouble);
    if (!status)
        memcpy(list->hosts->name[list->found->nodes - 1], name, length + 1);
    return status;
}

/* Whether a name has brackets as Slurm writes them: node[01-04]. Those of an IPv6 address stand at
 * the beginning or behind '@', and hold colons. */
static bool is_node_list(const char *name)
{
    const char *bracket = strchr(name, '[');
    bool address = bracket && (bracket == name || bracket[-1] == '@') && strchr(bracket, ':');
    return bracket && !address;
}

static int append_node_list(struct host_list *list, const char *entry)
{
    char *names;
    int status = gyre_node_list_names(entry, &names, list->trouble);
    if (status)
        return gyre_trouble_wrap(list->trouble, "%s", list->flag);
    for (const char *name = names; !status && *name; name += strlen(name) + 1)
        status = append_host(list, name);
    free(names);
    return status;
}

/* Splits "host:4" into name and count. A colon inside brackets belongs to an IPv6 address. */
static int parse_host(struct host_list *list, char *entry, int cores)
{
    char *colon = strrchr(entry, ':'), *bracket = strrchr(entry, ']');
    list->size = cores;
    if (colon && (!bracket || colon > bracket)) {
        int status = parse_size(list->flag, list->text, colon + 1, GYRE_RANKS_PER_NODE_MAX,
                                &list->size, list->trouble);
        if (status)
            return status;
        *colon = 0;
    }
    return is_node_list(entry) ? append_node_list(list, entry) : append_host(list, entry);
}

int gyre_seating_parse_hosts(const char *flag, const char *text, int cores,
                             struct gyre_hosts *hosts, struct gyre_seating *seating,
                             struct gyre_trouble *trouble)
{
    struct gyre_seating found = {0};
    struct host_list list = {
        .flag = flag, .text = text, .hosts = hosts, .found = &found, .trouble = trouble};
    for (const char *at = text;; at++) {
        const char *end = gyre_node_list_end(at);
        char *entry = strndup(at, (size_t)(end - at));
        int status = entry ? parse_host(&list, entry, cores)
                           : gyre_trouble_set(trouble, -ENOMEM, "no memory for %s", flag);
        free(entry);
        if (status)
            return status;
        at = end;
        if (!*at)
            break;
    }
    *seating = found;
    return 0;
}

void gyre_seating_cut(struct gyre_seating *seating, int most)
{
    int ranks = 0, node = 0;
    for (; most && node < seating->nodes && ranks < most; ranks += seating->size[node++])
        if (seating->size[node] > most - ranks)
            seating->size[node] = most - ranks;
    seating->nodes = most ? node : seating->nodes;
}

int gyre_seating_world(const struct gyre_seating *seating)
{
    return gyre_seating_first_rank(seating, seating->nodes);
}

int gyre_seating_first_rank(const struct gyre_seating *seating, int node)
{
    int rank = 0;
    for (int i = 0; i < node; i++)
        rank += seating->size[i];
    return rank;
}

struct gyre_rank_seat gyre_seating_seat(const struct gyre_seating *seating, int rank)
{
    int node = 0, local = rank;
    while (local >= seating->size[node])
        local -= seating->size[node++];
    return (struct gyre_rank_seat){rank, node, local, seating->size[node]};
}
