/* The memory of a large node: one file that every rank of the node maps, with a doorbell for each
 * rank and a queue from each rank to each other.
 *
 *     proof │ porch of place 0 │ porch of place 1 │ …      every rank writes
 *     row of place 0:   queue to 0 │ queue to 1 │ …        only its rank writes; others read
 *     row of place 1:   …
 *
 * The file is sparse: a queue takes pages when its first byte is written. So a link needs nothing
 * but arithmetic, and two ranks can begin one without a message. A rank that has begun a link says
 * so on its peer's *porch*, and the peer looks there. A porch also holds the peer's doorbell.
 *
 * A *place* is a rank's number within the node. */
#ifndef GYRE_TRANSPORT_MEMORY_NODE_MEMORY_H
#define GYRE_TRANSPORT_MEMORY_NODE_MEMORY_H

#include "base/status.h"
#include "device/device.h"

#include <stdatomic.h>

#define GYRE_QUEUE_BYTES (128u * 1024) /* from one rank to one peer of its node */
#define GYRE_NO_PLACE    UINT32_MAX    /* of a rank of another node */

struct gyre_node_memory {
    uint8_t *base;   /* NULL: nothing is mapped */
    uint32_t places; /* that the file has room for */
    uint32_t own;    /* this rank's place */
    uint32_t ranks;
    uint32_t *place; /* ranks: the place of each, or GYRE_NO_PLACE */
    uint32_t *rank;  /* places: the rank at each */
};

/* Bytes of the file for so many places. The first page is for whoever makes the file. */
uint64_t gyre_node_memory_bytes(uint32_t places);

/* Maps the file; the descriptor stays the caller's. seat: says who has which place, once for each
 * rank of the node. unmap: nothing where nothing is mapped. */
int gyre_node_memory_map(struct gyre_node_memory *memory, int fd, uint32_t places, uint32_t own,
                         uint32_t ranks, struct gyre_trouble *trouble);
void gyre_node_memory_seat(struct gyre_node_memory *memory, uint32_t place, uint32_t rank);
void gyre_node_memory_unmap(struct gyre_node_memory *memory);

/* The queue from one place to another. */
struct gyre_region gyre_node_memory_queue(const struct gyre_node_memory *memory, uint32_t from,
                                          uint32_t to);

/* A line of 64 bytes for the doorbell of a place. */
void *gyre_node_memory_bell(const struct gyre_node_memory *memory, uint32_t place);

/* call: says at a place that this rank has begun a link to it. calls: how many ranks have said so
 * here. has_called: whether the rank at that place has. */
void gyre_node_memory_call(const struct gyre_node_memory *memory, uint32_t place);
uint32_t gyre_node_memory_calls(const struct gyre_node_memory *memory);
bool gyre_node_memory_has_called(const struct gyre_node_memory *memory, uint32_t place);

#endif
