/* The calls of CUDA's driver, contexts, and the meaning of CUDA's errors.
 *
 * The program starts without CUDA. The runtime is linked into it (libcudart_static) and asked for
 * each call of the driver by name. The question fails where there is no driver: then there are 0
 * devices, and the reason is kept.
 *
 * The runtime's own notion of a current device is not used. Restoring it (cudaSetDevice(0)) would
 * make a context on device 0 that no code wanted. Contexts are pushed and popped instead:
 *
 *     the caller's context ─▶ enter: push ours ─▶ calls, kernels ─▶ leave: pop ─▶ the caller's
 *
 * The context is the primary one, which the runtime, PyTorch and all others share. So addresses,
 * streams and events are common, and the runtime, too, works in the context that is current. Tested
 * by tests/unit/device/cuda/cuda_test.c. */
#include "device/cuda/inside.h"

#include "base/log.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICES       64
#define PREPARED_MOST 4     /* functions that load kernels; those of a fifth load again */
#define ABI_VERSION   12000 /* of CUDA: the forms of the calls; any later driver has them */

struct device_state {
    _Atomic(CUcontext) context; /* NULL: never entered */
    uint64_t granularity;
    CUstream fills;
    void (*prepared[PREPARED_MOST])(void); /* what loaded kernels there */
};

const struct gyre_cuda_calls *gyre_cuda;

static struct gyre_cuda_calls calls;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct gyre_trouble no_devices; /* why there are none; status 0: there are some */
static int device_count;
static struct device_state states[DEVICES];

/* -- finding the driver ------------------------------------------------------------------------ */

/* Present where the program itself is linked with the driver, or with a stand-in. */
extern __typeof__(cuInit) cuInit __attribute__((weak));

bool gyre_device_cuda_present(void)
{
    static atomic_bool seen; /* the driver is never unloaded */
    if (!atomic_load(&seen) && (cuInit || dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)))
        atomic_store(&seen, true);
    return atomic_load(&seen);
}

static cudaError_t find_symbol(const char *name, void **function)
{
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, function, ABI_VERSION, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#endif
    return error ? error : *function ? cudaSuccess : cudaErrorNotSupported;
}

static int find_calls(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
#define line(name) {#name, offsetof(struct gyre_cuda_calls, name)},
        GYRE_CUDA_CALLS(line)
#undef line
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        cudaError_t error =
            find_symbol(wanted[i].name, (void **)((char *)&calls + wanted[i].offset));
        if (error)
            return gyre_trouble_set(&no_devices, GYRE_UNSUPPORTED,
                                    "the CUDA driver's %s was not found (error %d); install a "
                                    "driver for CUDA %d.%d or later",
                                    wanted[i].name, (int)error, CUDART_VERSION / 1000,
                                    CUDART_VERSION % 1000 / 10);
    }
    return 0;
}

static int count_devices(void)
{
    CUresult error = calls.cuInit(0);
    if (error == CUDA_ERROR_NO_DEVICE)
        return gyre_trouble_set(&no_devices, -ENODEV,
                                "the CUDA driver sees no device; see nvidia-smi, "
                                "CUDA_VISIBLE_DEVICES and what the container was given");
    if (!error)
        error = calls.cuDeviceGetCount(&device_count);
    if (device_count > DEVICES)
        device_count = DEVICES;
    return gyre_cuda_failed(error, -1, &no_devices, "starting the CUDA driver");
}

static void look_for_cuda(void)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0)
        gyre_trouble_set(&no_devices, GYRE_UNSUPPORTED, "this machine has no CUDA driver");
    else if (find_calls() == 0 && count_devices() == 0)
        gyre_cuda = &calls;
    if (no_devices.status) {
        device_count = 0;
        gyre_log(GYRE_LOG_INFO, "no CUDA memory: %s; host memory is served", no_devices.text);
    }
}

int gyre_cuda_load(struct gyre_trouble *trouble)
{
    pthread_once(&looked, look_for_cuda);
    if (no_devices.status)
        gyre_trouble_set(trouble, no_devices.status, "%s", no_devices.text);
    return device_count;
}

/* -- errors ------------------------------------------------------------------------------------ */

static const char *error_name(CUresult error)
{
    const char *name = NULL;
    if (calls.cuGetErrorName)
        calls.cuGetErrorName(error, &name);
    return name ? name : "an unknown error";
}

static int status_of(CUresult error)
{
    switch ((int)error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        return -ENODEV;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return GYRE_INVALID;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
        return -EEXIST;
    case CUDA_ERROR_NOT_PERMITTED:
        return -EPERM;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return GYRE_UNSUPPORTED;
    }
    return -EIO;
}

static const char *advice_for(CUresult error)
{
    switch ((int)error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "use less of the device's memory; nvidia-smi shows who has it";
    case CUDA_ERROR_NOT_INITIALIZED:
        return "CUDA cannot be used after fork(): start processes before the first use, or exec";
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return "an address or stream is not one of this device";
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
        return "what is locked stays locked, and is used as it is";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return "another stream is being captured into a CUDA graph: start operations outside it";
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
        return "the driver or the container does not allow it";
    }
    return "the device may be lost to this process: end the job, see nvidia-smi and the kernel's "
           "log, and run it under compute-sanitizer";
}

int gyre_cuda_failed(CUresult error, int device, struct gyre_trouble *trouble, const char *call,
                     ...)
{
    char what[128], where[32] = "";
    va_list arguments;
    if (error == CUDA_SUCCESS)
        return 0;
    va_start(arguments, call);
    vsnprintf(what, sizeof what, call, arguments);
    va_end(arguments);
    if (device >= 0)
        snprintf(where, sizeof where, " on CUDA device %d", device);
    return gyre_trouble_set(trouble, status_of(error), "%s%s: %s (%d); %s", what, where,
                            error_name(error), (int)error, advice_for(error));
}

/* -- contexts ---------------------------------------------------------------------------------- */

static int find_granularity(int device, struct gyre_trouble *trouble)
{
    size_t granularity = 0;
    CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUresult error = calls.cuMemGetAllocationGranularity(&granularity, &plain,
                                                         CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    states[device].granularity = granularity;
    return gyre_cuda_failed(error, device, trouble, "cuMemGetAllocationGranularity");
}

static int make_fill_stream(int device, CUcontext context, struct gyre_trouble *trouble)
{
    int least = 0, highest = 0;
    CUresult error = calls.cuCtxPushCurrent(context);
    if (error)
        return gyre_cuda_failed(error, device, trouble, "cuCtxPushCurrent");
    error = calls.cuCtxGetStreamPriorityRange(&least, &highest);
    if (!error && !states[device].fills)
        error = calls.cuStreamCreateWithPriority(&states[device].fills, CU_STREAM_NON_BLOCKING,
                                                 highest);
    calls.cuCtxPopCurrent(&context);
    return gyre_cuda_failed(error, device, trouble, "making a stream to fill memory");
}

CUstream gyre_cuda_fill_stream(int device)
{
    return states[device].fills;
}

static int make_context(int device, struct gyre_trouble *trouble)
{
    CUdevice handle;
    CUcontext context;
    CUresult error = calls.cuDeviceGet(&handle, device);
    if (error)
        return gyre_cuda_failed(error, device, trouble, "cuDeviceGet");
    int status = find_granularity(device, trouble);
    if (status)
        return status;
    error = calls.cuDevicePrimaryCtxRetain(&context, handle);
    if (error)
        return gyre_cuda_failed(error, device, trouble, "cuDevicePrimaryCtxRetain");
    status = make_fill_stream(device, context, trouble);
    if (!status)
        atomic_store(&states[device].context, context);
    return status;
}

static int find_context(int device, CUcontext *context, struct gyre_trouble *trouble)
{
    int status = 0;
    *context = atomic_load(&states[device].context);
    if (*context)
        return 0;
    pthread_mutex_lock(&making);
    if (!atomic_load(&states[device].context))
        status = make_context(device, trouble);
    pthread_mutex_unlock(&making);
    *context = atomic_load(&states[device].context);
    return status;
}

int gyre_cuda_context(int device, CUcontext *context)
{
    return find_context(device, context, NULL);
}

int gyre_cuda_check_device(int device, struct gyre_trouble *trouble)
{
    int devices = gyre_cuda_load(trouble);
    if (!devices)
        return no_devices.status;
    if (device >= 0 && device < devices)
        return 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "CUDA device %d does not exist: %d %s visible "
                            "(CUDA_VISIBLE_DEVICES is %s), counted from 0",
                            device, devices, devices == 1 ? "is" : "are",
                            visible ? visible : "not set");
}

int gyre_cuda_enter(int device, struct gyre_trouble *trouble)
{
    CUcontext context;
    int status = gyre_cuda_check_device(device, trouble);
    if (!status)
        status = find_context(device, &context, trouble);
    if (status)
        return status;
    status = gyre_cuda_failed(calls.cuCtxPushCurrent(context), device, trouble, "cuCtxPushCurrent");
    if (!status)
        gyre_cuda_relax();
    return status;
}

void gyre_cuda_leave(void)
{
    CUcontext context;
    gyre_cuda_unrelax();
    calls.cuCtxPopCurrent(&context);
}

static _Thread_local CUstreamCaptureMode mode; /* of the thread, while it is relaxed */
static _Thread_local int relaxed;

void gyre_cuda_relax(void)
{
    if (relaxed++)
        return;
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    calls.cuThreadExchangeStreamCaptureMode(&mode);
}

void gyre_cuda_unrelax(void)
{
    if (--relaxed == 0)
        calls.cuThreadExchangeStreamCaptureMode(&mode);
}

/* Where the function is noted that has loaded kernels on the device, or is to be. */
static void (**place_of_load(int device, void (*load)(void)))(void)
{
    int place = 0;
    while (place < PREPARED_MOST - 1 && states[device].prepared[place] &&
           states[device].prepared[place] != load)
        place++;
    return &states[device].prepared[place];
}

/* Loads kernels on a device. Like a launch, load() leaves its error to the runtime. */
int gyre_cuda_prepare(int device, void (*load)(void), struct gyre_trouble *trouble)
{
    int status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    pthread_mutex_lock(&making);
    void (**place)(void) = place_of_load(device, load);
    if (*place != load) {
        cudaGetLastError();
        load();
        status = gyre_cuda_failed((CUresult)cudaGetLastError(), device, trouble, "loading kernels");
        if (!status)
            *place = load;
    }
    pthread_mutex_unlock(&making);
    gyre_cuda_leave();
    return status;
}

uint64_t gyre_cuda_granularity(int device)
{
    return states[device].granularity;
}
