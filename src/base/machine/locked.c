/* The limit of locked memory. A process with CAP_IPC_LOCK, as root's, has none. Tested by
 * tests/unit/base/machine/cpu_test.c. */
#include "base/machine/locked.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t gyre_lockable_bytes(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct rlimit limit;
    if (!syscall(SYS_capget, &header, data) &&
        data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK))
        return UINT64_MAX;
    return getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                                : limit.rlim_cur;
}
