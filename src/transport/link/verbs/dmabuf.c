/* Registers a device's memory by its dma-buf, which libibverbs can since rdma-core 34.
 * Tested by tests/unit/transport/link/verbs/on_device_test.c. */
#include "transport/link/verbs/wire.h"

#include <infiniband/verbs.h>

struct ibv_mr *gyre_verbs_register_dmabuf(struct ibv_pd *domain, int fd, const void *base,
                                          uint64_t length, int access)
{
    return ibv_reg_dmabuf_mr(domain, 0, length, (uintptr_t)base, fd, access);
}
