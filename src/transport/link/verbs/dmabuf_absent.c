/* Stands in where libibverbs knows no dma-bufs: memory is registered by its addresses only. */
#include "transport/link/verbs/wire.h"

#include <errno.h>
#include <stddef.h>

struct ibv_mr *gyre_verbs_register_dmabuf(struct ibv_pd *domain, int fd, const void *base,
                                          uint64_t length, int access)
{
    errno = EOPNOTSUPP;
    return NULL;
}
