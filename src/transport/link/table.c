/* The drivers that are built in. A new one adds its line here. cuda_ipc uses shm's rings, where this rank
 * has a device. */
#include "transport/link/table.h"

const struct gyre_driver *const gyre_drivers[] = {
    &gyre_driver_cuda_ipc, &gyre_driver_shm, &gyre_driver_verbs, &gyre_driver_tcp, NULL,
};
