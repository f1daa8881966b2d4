/* A request for an operation: its shape, and this rank's buffers. */
#ifndef GYRE_COLLECTIVES_COMM_REQUEST_H
#define GYRE_COLLECTIVES_COMM_REQUEST_H

#include "collectives/plan/shape.h"

struct gyre_request_buffer {
    void *address;              /* an input is only read */
    uint64_t bytes;             /* 0: this rank has none */
    enum gyre_memory_kind kind; /* HOST where it has none */
};

struct gyre_request {
    struct gyre_shape shape;
    struct gyre_request_buffer input, output;
};

#endif
