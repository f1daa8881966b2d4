/* The devices that are built in: one line each. Tested by tests/unit/device/cuda/cuda_test.c. */
#include "device/device.h"

#include <stdio.h>

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

void gyre_device_uuid_text(const uint8_t uuid[16], char text[GYRE_DEVICE_UUID_TEXT])
{
    int used = snprintf(text, GYRE_DEVICE_UUID_TEXT, "GPU");
    for (int i = 0; i < 16; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        used += snprintf(text + used, (size_t)(GYRE_DEVICE_UUID_TEXT - used), "%s%02x",
                         dash ? "-" : "", uuid[i]);
    }
}
