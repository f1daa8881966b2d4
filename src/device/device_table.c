/* The devices that are built in: one line each. */
#include "device/device.h"

extern const struct gyre_device gyre_device_cpu;
extern const struct gyre_device *const gyre_device_cuda; /* NULL where it is not built in */

const struct gyre_device *gyre_device_of(enum gyre_memory_kind kind)
{
    switch (kind) {
    case GYRE_MEMORY_HOST:
        return &gyre_device_cpu;
    case GYRE_MEMORY_CUDA:
        return gyre_device_cuda;
    default:
        return NULL;
    }
}
