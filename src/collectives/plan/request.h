/* A request for an operation: its shape, and this rank's buffers. A buffer's kind is asked for once
 * a call, because the question goes to a device's driver. */
#ifndef GYRE_COLLECTIVES_PLAN_REQUEST_H
#define GYRE_COLLECTIVES_PLAN_REQUEST_H

#include "collectives/plan/shape.h"
#include "device/device.h"

struct gyre_request_buffer {
    void *address;              /* an input is only read */
    uint64_t bytes;             /* 0: this rank has none */
    enum gyre_memory_kind kind; /* HOST where it has none */
    bool known;                 /* the kind has been asked for */
};

struct gyre_request {
    struct gyre_shape shape;
    struct gyre_request_buffer input, output;
};

static inline bool gyre_request_on_device(const struct gyre_request_buffer *buffer)
{
    return buffer->bytes && buffer->kind != GYRE_MEMORY_HOST;
}

#endif
