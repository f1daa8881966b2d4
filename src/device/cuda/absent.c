/* A build without the CUDA toolkit: there is no CUDA device. */
#include "device/device.h"

extern const struct gyre_device *const gyre_device_cuda;

const struct gyre_device *const gyre_device_cuda = NULL;

bool gyre_device_cuda_present(void)
{
    return false;
}
