/* In place of the stand-in, where tests are linked to CUDA itself: nothing can be planted or
 * counted, but for contexts, which tests want to be few. */
#include "stand_in/fakecuda/fakecuda.h"

bool fakecuda_stands_in(void)
{
    return false;
}

struct fakecuda_alive fakecuda_alive(void)
{
    int devices = 0;
    struct fakecuda_alive alive = {0};
    cuDeviceGetCount(&devices); /* 0 before cuInit() */
    for (int device = 0; device < devices; device++) {
        unsigned flags;
        int active = 0;
        cuDevicePrimaryCtxGetState(device, &flags, &active);
        alive.contexts += active;
    }
    return alive;
}

void fakecuda_fail(const char *name, int nth, CUresult error)
{
    (void)name;
    (void)nth;
    (void)error;
}

int fakecuda_calls(const char *name)
{
    (void)name;
    return 0;
}

void fakecuda_hold(bool hold)
{
    (void)hold;
}

void fakecuda_heal(void)
{
}

uint64_t fakecuda_host_bytes(void)
{
    return 0;
}

int fakecuda_blocked(void)
{
    return 0;
}

bool fakecuda_spoiled(CUstream stream)
{
    (void)stream;
    return false;
}
