/* How CUDA memory goes between two ranks of a node: what the cuda_ipc driver goes by, and what
 * `gyre doctor` prints. */
#ifndef GYRE_TRANSPORT_LINK_CUDA_IPC_H
#define GYRE_TRANSPORT_LINK_CUDA_IPC_H

#include "base/status.h"

#include <stdbool.h>

enum gyre_cuda_way {
    GYRE_CUDA_EXPORTED, /* both map it: a descriptor of exportable memory is passed */
    GYRE_CUDA_CLASSIC,  /* both map it: a classic IPC handle is */
    GYRE_CUDA_COPIED,   /* messages are copied from device to device, all else by way of the host */
    GYRE_CUDA_HOST      /* everything goes by way of the host's memory */
};

/* 0: there are devices for the driver to serve; else why it is absent. Makes no context. */
int gyre_cuda_ipc_probe(struct gyre_trouble *trouble);

/* The way between a rank on `device` and a rank on `other`, as this process numbers them; `here`: both
 * ranks are in one process. It is what the devices say; whether copies are right is tried when memory is
 * shared (transport/memory/proof.h). Makes no context. */
enum gyre_cuda_way gyre_cuda_ipc_way(int device, int other, bool here);

const char *gyre_cuda_ipc_words(enum gyre_cuda_way way);

#endif
