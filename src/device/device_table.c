/* The devices that are built in: one line each. */
#include "device/device.h"

extern const struct gyre_device gyre_device_cpu;

static const struct gyre_device *const devices[GYRE_MEMORY_KINDS] = {
    [GYRE_MEMORY_HOST] = &gyre_device_cpu,
};

const struct gyre_device *gyre_device_of(enum gyre_memory_kind kind)
{
    return (unsigned)kind < GYRE_MEMORY_KINDS ? devices[kind] : NULL;
}
