/* What the tests of the CUDA device share: regions and queues that must come to be, streams of the
 * caller's, a fold, and processes of the test's own program (CUDA does not survive a fork). */
#ifndef GYRE_TESTS_UNIT_DEVICE_CUDA_CUDA_RIG_H
#define GYRE_TESTS_UNIT_DEVICE_CUDA_CUDA_RIG_H

#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <sys/types.h>

enum { CUDA_RIG_LENGTH = 3 << 20 }; /* of a region */

/* The device; also makes `cuda_rig_doubling` known. */
const struct gyre_device *cuda_rig_begin(void);

struct gyre_region cuda_rig_region(int device);
struct gyre_device_queue *cuda_rig_queue(int device);

/* Copies by a queue of its own, and waits. */
void cuda_rig_copy(int device, void *to, const void *from, uint64_t length);
void cuda_rig_expect_text(const struct gyre_region *region, const char *text);
void cuda_rig_expect_words(const struct gyre_trouble *trouble, const char *words);

/* Doubles one int of the region. */
void cuda_rig_doubling(const struct gyre_fold_task *task, void *native_queue);
int cuda_rig_reduce(struct gyre_device_queue *queue, struct gyre_region *region, uint64_t token);

/* A stream as the caller makes it, in the device's context, which is current until the end. */
CUstream cuda_rig_stream(int device);
void cuda_rig_end_stream(CUstream stream);

bool cuda_rig_same_alive(const struct fakecuda_alive *before);

/* Starts this program anew as `role`; `fds` become its descriptors from CUDA_RIG_FD on. */
enum { CUDA_RIG_FD = 10 };
pid_t cuda_rig_start(const char *role, const int *fds, int count);
int cuda_rig_end_of(pid_t child); /* its exit code, or 128 and the signal */

#endif
