/* The contract of device/device.h as one suite, for any device. Buffers are looked at through its
 * queue only, since the host may not touch what is not its own. */
#ifndef GYRE_TESTS_RIG_DEVICE_SUITE_H
#define GYRE_TESTS_RIG_DEVICE_SUITE_H

#include "device/device.h"

/* `doubling` is a fold of the device's own: destination[0][i] = 2 * source[0][i], of int32. Returns
 * what cmocka does. */
int device_suite_run(const char *name, const struct gyre_device *device, gyre_fold doubling);

/* Waits until `token` is reported, after a post that returned `status`; nothing else may be. */
void device_suite_finish(const struct gyre_device *device, struct gyre_device_queue *queue,
                         int status, uint64_t token);

#endif
