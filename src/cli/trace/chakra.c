/* Writes execution traces of Chakra, whose schema is et_def.proto of MLCommons: for each rank a
 * file of messages, a head and then nodes.
 *
 *     compute ──▶ all_reduce ──▶ compute ──▶ all_gather ─┐
 *                                     └────▶ all_reduce ─┴▶ …
 *
 * A node is a call, or the time between calls in which the rank was in none: that is what it
 * computed. A node depends on the newest one that had ended when it began. Barriers and messages
 * are nodes, too; a receive from any rank is left out, because Chakra wants its sender.
 *
 * Tested by tests/unit/cli/trace/chakra_test.c. */
#include "cli/trace/chakra.h"

#include "base/types.h"
#include "cli/trace/protobuf.h"
#include "transport/stream/signature.h"

#define SCHEMA_VERSION "0.0.4"
#define LOOKED_BACK    64 /* calls, for the newest that had ended */

/* Fields of the schema, and its numbers of kinds. */
enum { HEAD_VERSION = 1 };
enum { NODE_ID = 1, NODE_NAME, NODE_TYPE, NODE_DATA_DEPS = 5, NODE_START, NODE_DURATION };
enum { NODE_ATTR = 10, ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_BOOL = 27 };
enum { ATTR_STRING = 29 };
enum { COMPUTES = 4, SENDS, RECEIVES, COLLECTIVE };

static void add_attribute(struct gyre_message_bytes *node, const char *name, uint32_t field,
                          uint64_t number)
{
    struct gyre_message_bytes attribute = {0};
    gyre_protobuf_text(&attribute, ATTR_NAME, name);
    gyre_protobuf_number(&attribute, field, number);
    gyre_protobuf_part(node, NODE_ATTR, &attribute);
}

static void add_group(struct gyre_message_bytes *node, uint32_t comm)
{
    struct gyre_message_bytes attribute = {0};
    char name[16];
    snprintf(name, sizeof name, "%u", comm);
    gyre_protobuf_text(&attribute, ATTR_NAME, "pg_name");
    gyre_protobuf_text(&attribute, ATTR_STRING, name);
    gyre_protobuf_part(node, NODE_ATTR, &attribute);
}

/* A node that is being written: its times in nanoseconds since the first bar. */
struct chakra_node {
    uint64_t id, after; /* after: the node it depends on; 0: none */
    const char *name;
    uint32_t type;
    int64_t begin, end;
};

static void begin_node(struct gyre_message_bytes *bytes, const struct chakra_node *node)
{
    *bytes = (struct gyre_message_bytes){0};
    gyre_protobuf_number(bytes, NODE_ID, node->id);
    gyre_protobuf_text(bytes, NODE_NAME, node->name);
    gyre_protobuf_number(bytes, NODE_TYPE, node->type);
    if (node->after)
        gyre_protobuf_number(bytes, NODE_DATA_DEPS, node->after);
    gyre_protobuf_number(bytes, NODE_START, (uint64_t)(node->begin / 1000));
    gyre_protobuf_number(bytes, NODE_DURATION, (uint64_t)((node->end - node->begin) / 1000));
    add_attribute(bytes, "is_cpu_op", ATTR_BOOL, 0);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* The schema's number of a collective. */
static uint32_t collective_of(uint32_t verb)
{
    switch (verb) {
    case GYRE_SIGNATURE_REDUCE:
        return 1;
    case GYRE_SIGNATURE_ALL_GATHER:
    case GYRE_SIGNATURE_ALL_GATHER_V:
        return 2;
    case GYRE_SIGNATURE_GATHER:
        return 3;
    case GYRE_SIGNATURE_SCATTER:
        return 4;
    case GYRE_SIGNATURE_BROADCAST:
        return 5;
    case GYRE_SIGNATURE_ALL_TO_ALL:
    case GYRE_SIGNATURE_ALL_TO_ALL_V:
        return 6;
    case GYRE_SIGNATURE_REDUCE_SCATTER:
        return 7;
    case GYRE_SIGNATURE_BARRIER:
        return 9;
    default:
        return 0; /* all_reduce */
    }
}

static bool is_from_anyone(const struct gyre_bar *call)
{
    return (call->signature & 255) == GYRE_SIGNATURE_RECV &&
           call->signature >> 32 == GYRE_SIGNATURE_ANYONE;
}

static uint32_t type_of_node(const struct gyre_bar *call)
{
    const uint32_t verb = call->signature & 255;
    if (verb == GYRE_SIGNATURE_SEND)
        return SENDS;
    return verb == GYRE_SIGNATURE_RECV ? RECEIVES : COLLECTIVE;
}

static uint64_t call_bytes(const struct gyre_bar *call, uint64_t elements)
{
    const uint32_t type = call->signature >> 8 & 255;
    if ((call->signature & 255) == GYRE_SIGNATURE_BARRIER)
        return 0;
    return elements * (type < GYRE_TYPE_COUNT ? gyre_type_size(type) : 1);
}

static void add_collective(struct gyre_message_bytes *node, const struct gyre_bar *call, uint32_t n)
{
    const struct gyre_call_elements elements = gyre_calls_elements(call, n);
    add_attribute(node, "comm_type", ATTR_INT64, collective_of(call->signature & 255));
    add_attribute(node, "comm_size", ATTR_INT64, call_bytes(call, elements.input));
    add_group(node, call->comm);
}

static void add_ends(struct gyre_message_bytes *node, const struct gyre_bar *call, uint32_t rank)
{
    const uint32_t peer = (uint32_t)(call->signature >> 32);
    const bool sends = (call->signature & 255) == GYRE_SIGNATURE_SEND;
    add_attribute(node, "comm_src", ATTR_INT32, sends ? rank : peer);
    add_attribute(node, "comm_dst", ATTR_INT32, sends ? peer : rank);
    add_attribute(node, "comm_tag", ATTR_INT32, call->signature >> 16 & GYRE_SIGNATURE_TAG_MOST);
    add_attribute(node, "comm_size", ATTR_INT64, call_bytes(call, call->size));
}

static void put_call_node(FILE *out, const struct gyre_calls *calls, uint32_t place,
                          const struct gyre_bar *call, const struct chakra_node *node)
{
    struct gyre_message_bytes bytes;
    begin_node(&bytes, node);
    if (node->type == COLLECTIVE)
        add_collective(&bytes, call, gyre_calls_size(calls, call->comm));
    else
        add_ends(&bytes, call, calls->timeline->of[place].head.rank);
    gyre_protobuf_put(out, &bytes);
}

/* -- a rank ------------------------------------------------------------------------------------ */

/* The nodes of a rank as they come. */
struct chakra_rank {
    FILE *out;
    const struct gyre_calls *calls;
    uint32_t place;
    uint64_t id;       /* of the last node */
    int64_t ended;     /* when the last of all calls so far had ended */
    uint64_t ended_id; /* its node */
    struct {
        int64_t end;
        uint64_t id;
    } past[LOOKED_BACK];
    uint64_t put; /* calls */
};

/* The newest node that had ended at a time; 0: none is known. */
static uint64_t ended_before(const struct chakra_rank *rank, int64_t time)
{
    uint64_t id = 0;
    int64_t newest = INT64_MIN;
    for (uint32_t i = 0; i < LOOKED_BACK && i < rank->put; i++)
        if (rank->past[i].end <= time && rank->past[i].end >= newest) {
            newest = rank->past[i].end;
            id = rank->past[i].id;
        }
    return id;
}

static void put_computation(struct chakra_rank *rank, int64_t until)
{
    struct gyre_message_bytes bytes;
    const struct chakra_node node = {.id = ++rank->id,
                                     .after = rank->ended_id,
                                     .name = "compute",
                                     .type = COMPUTES,
                                     .begin = rank->ended,
                                     .end = until};
    begin_node(&bytes, &node);
    gyre_protobuf_put(rank->out, &bytes);
    rank->ended_id = node.id;
    rank->ended = until;
}

static void note_node_end(struct chakra_rank *rank, int64_t end)
{
    rank->past[rank->put % LOOKED_BACK].end = end;
    rank->past[rank->put++ % LOOKED_BACK].id = rank->id;
    if (end >= rank->ended) {
        rank->ended = end;
        rank->ended_id = rank->id;
    }
}

static void put_next(struct chakra_rank *rank, const struct gyre_bar *call)
{
    char name[160];
    const int64_t from = rank->calls->timeline->begin;
    struct chakra_node node = {.name = name,
                               .type = type_of_node(call),
                               .begin = call->begin - from,
                               .end = call->end - from};
    gyre_signature_text(name, sizeof name, call->signature, call->size);
    if (node.begin > rank->ended)
        put_computation(rank, node.begin);
    node.after = node.begin == rank->ended ? rank->ended_id : ended_before(rank, node.begin);
    node.id = ++rank->id;
    put_call_node(rank->out, rank->calls, rank->place, call, &node);
    note_node_end(rank, node.end);
}

void gyre_chakra_put(FILE *out, const struct gyre_calls *calls, uint32_t place)
{
    const struct gyre_rank_calls *list = &calls->of[place];
    struct chakra_rank rank = {.out = out, .calls = calls, .place = place};
    struct gyre_message_bytes head = {0};
    gyre_protobuf_text(&head, HEAD_VERSION, SCHEMA_VERSION);
    gyre_protobuf_put(out, &head);
    for (uint32_t i = 0; i < list->calls; i++)
        if (!is_from_anyone(list->call[i]))
            put_next(&rank, list->call[i]);
}
