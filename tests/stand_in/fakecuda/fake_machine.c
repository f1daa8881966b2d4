/* Which devices there are and what they are like, and host memory that is locked for them.
 *
 * A device's UUID is made of its number and a salt, so two processes see the same devices, as on
 * one machine, unless the salts differ. Locked memory is a list of spans: the driver's copies do
 * not need it, but what a device is to reach by itself (a word that a stream waits for) must lie in
 * one, and be mapped until it is unlocked. */
#include "fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOCKED = 1024 };

static struct {
    char *base; /* NULL: free */
    uint64_t length;
} locked[LOCKED];

/* -- devices ----------------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        *count = fake_settings.devices;
    return fake_end(status);
}

bool fake_known(int device)
{
    return device >= 0 && device < fake_settings.devices;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !fake_known(ordinal))
        status = CUDA_ERROR_INVALID_DEVICE;
    if (!status)
        *device = ordinal;
    return fake_end(status);
}

static int attribute_of(CUdevice_attribute attribute)
{
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 2;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return 0;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        return fake_settings.export;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        return fake_settings.rdma;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        return fake_settings.words;
    }
    return -1;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !fake_known(device))
        status = CUDA_ERROR_INVALID_DEVICE;
    if (!status && attribute_of(attribute) < 0)
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status)
        *value = attribute_of(attribute);
    return fake_end(status);
}

/* Begins a question about `device`. */
static CUresult ask(const char *function, CUdevice device)
{
    CUresult status = fake_begin(function, FAKE_DRIVER);
    return !status && !fake_known(device) ? CUDA_ERROR_INVALID_DEVICE : status;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult status = ask(__func__, device);
    if (!status)
        snprintf(name, (size_t)length, "CUDA stand-in");
    return fake_end(status);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult status = ask(__func__, device);
    uint64_t words[2] = {fake_settings.salt ^ UINT64_C(0x66616b6563756461), (uint64_t)device + 1};
    if (!status)
        memcpy(uuid->bytes, words, sizeof uuid->bytes);
    return fake_end(status);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult status = ask(__func__, device);
    if (!status)
        *bytes = fake_settings.memory;
    return fake_end(status);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other)
{
    CUresult status = ask(__func__, device);
    if (!status && !fake_known(other))
        status = CUDA_ERROR_INVALID_DEVICE;
    if (!status)
        *can = device != other && fake_settings.peers; /* "peer": of itself none is */
    return fake_end(status);
}

/* -- locked host memory ------------------------------------------------------------------------ */

static int place_of(const char *at, uint64_t length)
{
    for (int i = 0; i < LOCKED; i++)
        if (locked[i].base && at < locked[i].base + locked[i].length &&
            locked[i].base < at + length)
            return i;
    return -1;
}

bool fake_locked(uint64_t address, uint64_t length)
{
    const char *at = (const char *)(uintptr_t)address;
    int place = place_of(at, length);
    return place >= 0 && at >= locked[place].base &&
           at + length <= locked[place].base + locked[place].length;
}

static CUresult lock_span(char *memory, uint64_t length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!length || (uint64_t)(uintptr_t)memory % page || length % page ||
        msync(memory, length, MS_ASYNC) != 0) /* refused where anything is not mapped */
        return CUDA_ERROR_INVALID_VALUE;
    if (place_of(memory, length) >= 0)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    for (int i = 0; i < LOCKED; i++)
        if (!locked[i].base) {
            locked[i].base = memory;
            locked[i].length = length;
            fake_counts.locked++;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostRegister(void *memory, size_t length, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP))
        status = CUDA_ERROR_INVALID_VALUE; /* it would be of one device, or of none */
    if (!status)
        fake_synchronise(__func__);
    return fake_end(status ? status : lock_span(memory, length));
}

CUresult cuMemHostUnregister(void *memory)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    int place = place_of(memory, 1);
    if (!status && place >= 0 && !fake_awaited(memory, locked[place].length))
        fake_synchronise(__func__);
    if (!status && (place < 0 || locked[place].base != memory))
        status = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (!status && msync(memory, locked[place].length, MS_ASYNC) != 0) {
        fprintf(stderr, "fakecuda: locked memory was unmapped before it was unlocked\n");
        abort();
    }
    if (!status) {
        locked[place].base = NULL;
        fake_counts.locked--;
    }
    return fake_end(status);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && !fake_locked((uint64_t)(uintptr_t)memory, 1))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status)
        *address = (CUdeviceptr)(uintptr_t)memory + fake_settings.shift;
    return fake_end(status);
}
