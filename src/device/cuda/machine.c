/* The machine's devices, which of them reach each other, and host memory that devices may use.
 *
 * A process may number its devices as it likes (CUDA_VISIBLE_DEVICES). Two processes compare UUIDs
 * to find out whether they share a device. The questions here make no context, because a process
 * that only looks must not take hundreds of MiB of every device.
 *
 * Host memory is locked once for all devices of the process (PORTABLE) and mapped to them at the
 * host's address (DEVICEMAP and unified addressing). So a kernel and a copy get the same pointer as
 * memcpy(). Memory of a peer's memfd is locked in each process that maps it. Tested by
 * tests/unit/device/cuda/cuda_test.c. */
#include "device/cuda/inside.h"

#include "base/log.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* -- devices ----------------------------------------------------------------------------------- */

int gyre_cuda_identify(int device, struct gyre_device_identity *identity,
                       struct gyre_trouble *trouble)
{
    CUuuid uuid;
    CUdevice handle;
    size_t bytes = 0;
    *identity = (struct gyre_device_identity){0};
    int status = gyre_cuda_check_device(device, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuDeviceGet(&handle, device);
    if (!error)
        error = gyre_cuda->cuDeviceGetUuid(&uuid, handle);
    if (!error)
        error = gyre_cuda->cuDeviceGetName(identity->name, sizeof identity->name, handle);
    if (!error)
        error = gyre_cuda->cuDeviceTotalMem(&bytes, handle);
    if (!error)
        error = gyre_cuda->cuDeviceGetAttribute(&identity->multiprocessors,
                                                CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle);
    if (error)
        return gyre_cuda_failed(error, device, trouble,
                                "asking for UUID, name, memory and multiprocessors");
    memcpy(identity->uuid, uuid.bytes, sizeof identity->uuid);
    identity->memory_bytes = bytes;
    return 0;
}

static int ask_attribute(CUdevice handle, CUdevice_attribute attribute)
{
    int value = 0;
    return gyre_cuda->cuDeviceGetAttribute(&value, attribute, handle) ? 0 : value;
}

int gyre_cuda_able(int device, struct gyre_device_abilities *abilities,
                   struct gyre_trouble *trouble)
{
    CUdevice handle;
    *abilities = (struct gyre_device_abilities){.toolkit = CUDART_VERSION};
    int status = gyre_cuda_check_device(device, trouble);
    if (!status)
        status = gyre_cuda_failed(gyre_cuda->cuDeviceGet(&handle, device), device, trouble,
                                  "cuDeviceGet");
    if (status)
        return status;
    (void)cudaDriverGetVersion(&abilities->driver);
    abilities->major = ask_attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    abilities->minor = ask_attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    abilities->words = ask_attribute(handle, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
    abilities->rdma = gyre_cuda_rdma(device);
    return 0;
}

bool gyre_cuda_reaches(int device, int other)
{
    CUdevice one, two;
    int can = 0;
    if (gyre_cuda_check_device(device, NULL) || gyre_cuda_check_device(other, NULL))
        return false;
    if (device == other)
        return true;
    return !gyre_cuda->cuDeviceGet(&one, device) && !gyre_cuda->cuDeviceGet(&two, other) &&
           !gyre_cuda->cuDeviceCanAccessPeer(&can, one, two) && can;
}

/* The current device; a handle of the driver is the device's number. */
int gyre_cuda_current(void)
{
    CUdevice handle;
    if (!gyre_device_cuda_present() || !gyre_cuda_load(NULL) || gyre_cuda->cuCtxGetDevice(&handle))
        return -1;
    return handle;
}

/* -- host memory ------------------------------------------------------------------------------- */

/* Checks that the device sees the memory at the host's address, which kernels use. */
static int check_address(int device, void *memory, struct gyre_trouble *trouble)
{
    CUdeviceptr seen;
    CUresult error = gyre_cuda->cuMemHostGetDevicePointer(&seen, memory, 0);
    if (error)
        return gyre_cuda_failed(error, device, trouble, "cuMemHostGetDevicePointer");
    if (seen == (CUdeviceptr)(uintptr_t)memory)
        return 0;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "CUDA device %d sees locked host memory at another address than the "
                            "host: it stays unlocked",
                            device);
}

int gyre_cuda_pin(int device, void *memory, uint64_t length, struct gyre_trouble *trouble)
{
    int status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemHostRegister(
        memory, length, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    status = gyre_cuda_failed(error, device, trouble, "cuMemHostRegister of %llu bytes",
                              (unsigned long long)length);
    if (!status && (status = check_address(device, memory, trouble)))
        gyre_cuda->cuMemHostUnregister(memory);
    gyre_cuda_leave();
    return status;
}

void gyre_cuda_unpin(int device, void *memory)
{
    struct gyre_trouble trouble = {0};
    int status = gyre_cuda_enter(device, &trouble);
    if (!status) {
        status = gyre_cuda_failed(gyre_cuda->cuMemHostUnregister(memory), device, &trouble,
                                  "cuMemHostUnregister");
        gyre_cuda_leave();
    }
    if (status)
        gyre_log(GYRE_LOG_ERROR, "%s", trouble.text);
}

/* -- who owns an address ----------------------------------------------------------------------- */

/* Asks for the kind of memory at an address, and for the device that owns it; *owner stays as it is
 * where the driver does not know. Memory that CUDA moves between host and device (managed) counts
 * as host memory. */
static enum gyre_memory_kind look_up(const void *address, int *owner)
{
    unsigned type = 0, managed = 0;
    int device = *owner;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *found[] = {&type, &managed, &device};
    if (!gyre_cuda_load(NULL) ||
        gyre_cuda->cuPointerGetAttributes(3, wanted, found, (CUdeviceptr)(uintptr_t)address) ||
        type != CU_MEMORYTYPE_DEVICE || managed)
        return GYRE_MEMORY_HOST;
    *owner = device;
    return GYRE_MEMORY_CUDA;
}

enum gyre_memory_kind gyre_cuda_classify(const void *address)
{
    int owner = -1;
    return look_up(address, &owner);
}

/* Checks in the device's context that its queues reach another device's memory. Where the driver
 * does not know, the memory passes. */
static int check_access(int device, const void *address, int owner, struct gyre_trouble *trouble)
{
    unsigned access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    CUpointer_attribute whether = CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
    void *found[] = {&access};
    if (owner == device || gyre_cuda_enter(device, NULL))
        return 0;
    CUresult error =
        gyre_cuda->cuPointerGetAttributes(1, &whether, found, (CUdeviceptr)(uintptr_t)address);
    gyre_cuda_leave();
    if (error || access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%p is memory of CUDA device %d, which device %d, this rank's, cannot "
                            "access: give memory of the rank's own device",
                            address, owner, device);
}

int gyre_cuda_recognise(int device, const void *address, enum gyre_memory_kind *kind,
                        struct gyre_trouble *trouble)
{
    int owner = device;
    *kind = look_up(address, &owner);
    return check_access(device, address, owner, trouble);
}

int gyre_cuda_admit(int device, const void *address, struct gyre_trouble *trouble)
{
    enum gyre_memory_kind kind;
    return gyre_cuda_recognise(device, address, &kind, trouble);
}
