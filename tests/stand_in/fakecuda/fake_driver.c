/* Settings, planted faults and contexts, and the way every call begins.
 *
 * There is one context per device, the primary one; which is current is a stack of each thread, as
 * in the driver. Nothing here makes a context but cuDevicePrimaryCtxRetain(). */
#include "fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMES = 128, PLANS = 32, STACK = 16 };

struct named {
    char name[48];
    int calls;
    bool skipped;
};

struct plan {
    char name[48];
    int nth; /* 0: free */
    CUresult error;
};

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_done = PTHREAD_COND_INITIALIZER;
struct CUctx_st fake_device[FAKE_DEVICES];
struct fake_settings fake_settings;
struct fakecuda_alive fake_counts;
bool fake_held;

static struct named named[NAMES];
static struct plan plans[PLANS];
static bool settled;
static pid_t owner; /* who called cuInit() */
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

static const struct {
    CUresult error;
    const char *name;
} errors[] = {
#define error(name)                                                                                \
    {                                                                                              \
        name, #name                                                                                \
    }
    error(CUDA_SUCCESS),
    error(CUDA_ERROR_INVALID_VALUE),
    error(CUDA_ERROR_OUT_OF_MEMORY),
    error(CUDA_ERROR_NOT_INITIALIZED),
    error(CUDA_ERROR_NO_DEVICE),
    error(CUDA_ERROR_INVALID_DEVICE),
    error(CUDA_ERROR_INVALID_CONTEXT),
    error(CUDA_ERROR_MAP_FAILED),
    error(CUDA_ERROR_ECC_UNCORRECTABLE),
    error(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    error(CUDA_ERROR_OPERATING_SYSTEM),
    error(CUDA_ERROR_INVALID_HANDLE),
    error(CUDA_ERROR_NOT_FOUND),
    error(CUDA_ERROR_NOT_READY),
    error(CUDA_ERROR_ILLEGAL_ADDRESS),
    error(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    error(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    error(CUDA_ERROR_LAUNCH_FAILED),
    error(CUDA_ERROR_NOT_PERMITTED),
    error(CUDA_ERROR_NOT_SUPPORTED),
    error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    error(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    error(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
    error(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    error(CUDA_ERROR_UNKNOWN),
#undef error
};

/* -- settings and planted faults --------------------------------------------------------------- */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void plant(const char *name, int nth, CUresult error)
{
    for (int i = 0; i < PLANS; i++)
        if (!plans[i].nth) {
            snprintf(plans[i].name, sizeof plans[i].name, "%s", name);
            plans[i].nth = nth;
            plans[i].error = error;
            return;
        }
}

static CUresult error_named(const char *name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (!strcmp(errors[i].name, name))
            return errors[i].error;
    fprintf(stderr, "fakecuda: FAKECUDA_FAIL: no error is named %s\n", name);
    abort();
}

static void read_plans(const char *text)
{
    char name[48], error[64];
    int nth, used;
    while (text && sscanf(text, "%47[^:]:%d:%63[A-Z_]%n", name, &nth, error, &used) == 3) {
        plant(name, nth, error_named(error));
        text += used + (text[used] == ',');
    }
}

bool fakecuda_stands_in(void)
{
    return number_from("FAKECUDA_HIDDEN", 0) == 0;
}

static void seed_dice(uint64_t seed)
{
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake_device[i].dice = seed * 0x9e3779b97f4a7c15U + (uint64_t)i;
}

static void settle(void)
{
    const char *devices = getenv("FAKECUDA_DEVICES");
    if (settled)
        return;
    settled = true;
    fake_settings = (struct fake_settings){
        .devices =
            devices && !strcmp(devices, "none") ? -1 : (int)number_from("FAKECUDA_DEVICES", 1),
        .memory = number_from("FAKECUDA_MEMORY", UINT64_C(1) << 30),
        .seed = number_from("FAKECUDA_SEED", 1),
        .delay_us = (unsigned)number_from("FAKECUDA_DELAY", 0),
        .export = number_from("FAKECUDA_EXPORT", 1) != 0,
        .peers = number_from("FAKECUDA_PEERS", 1) != 0,
        .words = number_from("FAKECUDA_WORDS", 1) != 0,
        .rdma = number_from("FAKECUDA_RDMA", 1) != 0,
        .driver = (int)number_from("FAKECUDA_DRIVER", CUDART_VERSION),
        .wrong = (unsigned)number_from("FAKECUDA_WRONG", 0),
        .depth = (unsigned)number_from("FAKECUDA_DEPTH", 1024),
        .engines = number_from("FAKECUDA_ENGINES", 1) != 0,
        .waits = number_from("FAKECUDA_WAITS", 1) != 0,
        .one_channel = number_from("FAKECUDA_CHANNELS", 0) == 1,
        .salt = number_from("FAKECUDA_UUID_SALT", 0),
    };
    if (fake_settings.devices > FAKE_DEVICES)
        fake_settings.devices = FAKE_DEVICES;
    seed_dice(fake_settings.seed);
    read_plans(getenv("FAKECUDA_FAIL"));
}

/* What is known of a call; the toolkit's headers add "_v2" to some names. */
static struct named *entry_of(const char *name)
{
    static struct named nobody;
    int length = (int)strcspn(name, "_");
    for (int i = 0; i < NAMES; i++) {
        if (!named[i].name[0])
            snprintf(named[i].name, sizeof named[i].name, "%.*s", length, name);
        if (!strncmp(named[i].name, name, (size_t)length) && !named[i].name[length])
            return &named[i];
    }
    return &nobody;
}

CUresult fake_planned(const char *name)
{
    struct named *entry = entry_of(name);
    entry->calls++;
    for (int i = 0; i < PLANS; i++)
        if (plans[i].nth && !strcmp(plans[i].name, entry->name) && --plans[i].nth == 0)
            return plans[i].error;
    return CUDA_SUCCESS;
}

bool fake_skips(const char *name)
{
    return entry_of(name)->skipped;
}

uint64_t fake_roll(struct CUctx_st *device, uint64_t below)
{
    uint64_t x = device->dice += 0x9e3779b97f4a7c15U; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return (x ^ (x >> 31)) % below;
}

/* -- how a call begins and ends ---------------------------------------------------------------- */

struct CUctx_st *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

/* Calls that a capture in the global mode, which is what programs begin one in, does not bear from
 * any thread. */
static bool is_unsafe(const char *function)
{
    static const char *const unsafe[] = {
        "cuEventQuery",      "cuStreamQuery",       "cuMemAlloc",      "cuMemFree",
        "cuMemHostRegister", "cuMemHostUnregister", "cuCtxSynchronize"};
    size_t length = strcspn(function, "_");
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++)
        if (strlen(unsafe[i]) == length && !strncmp(unsafe[i], function, length))
            return true;
    return false;
}

CUresult fake_begin(const char *function, enum fake_need need)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    CUresult planned = fake_planned(function);
    if (planned || need == FAKE_NOTHING)
        return planned;
    if (owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (is_unsafe(function) && fake_spoils())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (need == FAKE_DRIVER)
        return CUDA_SUCCESS;
    return fake_current() ? fake_current()->lost : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_end(CUresult status)
{
    pthread_mutex_unlock(&fake_lock);
    return status;
}

/* -- the driver -------------------------------------------------------------------------------- */

CUresult cuInit(unsigned int flags)
{
    CUresult status = fake_begin(__func__, FAKE_NOTHING);
    if (!status && fake_settings.devices < 1)
        status = CUDA_ERROR_NO_DEVICE;
    if (!status && owner && owner != getpid())
        status = CUDA_ERROR_NOT_INITIALIZED;
    if (!status)
        owner = getpid();
    return fake_end(status);
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* -- contexts ---------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !fake_known(device))
        status = CUDA_ERROR_INVALID_DEVICE;
    if (!status) {
        *context = &fake_device[device];
        if (!fake_device[device].retained) {
            fake_device[device].device = device;
            fake_device[device].retained = true;
            fake_counts.contexts++;
            fake_start_device(&fake_device[device]);
        }
    }
    return fake_end(status);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && (!context || depth == STACK))
        status = CUDA_ERROR_INVALID_CONTEXT;
    if (!status)
        stack[depth++] = context;
    return fake_end(status);
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !depth)
        status = CUDA_ERROR_INVALID_CONTEXT;
    if (!status)
        *context = stack[--depth];
    return fake_end(status);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    *context = fake_current();
    return fake_end(status);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && !fake_current())
        status = CUDA_ERROR_INVALID_CONTEXT;
    if (!status)
        *device = fake_current()->device;
    return fake_end(status);
}

CUresult cuCtxSynchronize(void)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status) {
        struct CUctx_st *device = fake_current();
        while (!fake_idle(device) && !device->lost)
            pthread_cond_wait(&fake_done, &fake_lock);
        status = device->lost;
    }
    return fake_end(status);
}

/* -- what tests ask and plant ------------------------------------------------------------------ */

struct fakecuda_alive fakecuda_alive(void)
{
    pthread_mutex_lock(&fake_lock);
    struct fakecuda_alive alive = fake_counts;
    for (int i = 0; i < FAKE_DEVICES; i++)
        alive.bytes += fake_device[i].used;
    pthread_mutex_unlock(&fake_lock);
    return alive;
}

void fakecuda_fail(const char *name, int nth, CUresult error)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    for (int i = 0; i < PLANS; i++)
        if (!nth && (!name || !strcmp(plans[i].name, name)))
            plans[i].nth = 0;
    if (nth)
        plant(name, nth, error);
    pthread_mutex_unlock(&fake_lock);
}

int fakecuda_calls(const char *name)
{
    pthread_mutex_lock(&fake_lock);
    int calls = entry_of(name)->calls;
    pthread_mutex_unlock(&fake_lock);
    return calls;
}

void fakecuda_skip(const char *name, bool skip)
{
    pthread_mutex_lock(&fake_lock);
    entry_of(name)->skipped = skip;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_seed(uint64_t seed)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    seed_dice(seed);
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_hold(bool hold)
{
    pthread_mutex_lock(&fake_lock);
    fake_held = hold;
    for (int i = 0; i < FAKE_DEVICES; i++)
        if (fake_device[i].retained)
            pthread_cond_signal(&fake_device[i].work);
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_wait(void)
{
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_DEVICES; i++)
        while (!fake_idle(&fake_device[i]))
            pthread_cond_wait(&fake_done, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_heal(void)
{
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake_device[i].lost = CUDA_SUCCESS;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_peers(bool reach)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    fake_settings.peers = reach;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_shift(uint64_t bytes)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    fake_settings.shift = bytes;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_one_channel(bool one)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    fake_settings.one_channel = one;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_export(bool supported)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    fake_settings.export = supported;
    pthread_mutex_unlock(&fake_lock);
}

void fakecuda_words(bool supported)
{
    pthread_mutex_lock(&fake_lock);
    settle();
    fake_settings.words = supported;
    pthread_mutex_unlock(&fake_lock);
}
