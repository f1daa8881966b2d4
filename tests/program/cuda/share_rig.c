/* What cannot be done is told by the number that comes back; ranks say the rest. */
#include "program/cuda/share_rig.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

void share_two_devices(const struct rig *rig, int rank)
{
    (void)rig;
    (void)rank;
    setenv("FAKECUDA_DEVICES", "2", 1);
    if (fakecuda_stands_in())
        setenv("GYRE_DEVICES", "0,1,1", 1);
}

void share_classic(const struct rig *rig, int rank)
{
    share_two_devices(rig, rank);
    setenv("FAKECUDA_EXPORT", "0", 1);
}

int share_copy(struct gyre_comm *comm, void *to, const void *from, uint64_t length)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    struct gyre_device_queue *queue;
    uint64_t token;
    int status = cuda->queue_create(gyre_domain_cuda(comm->domain), &queue, NULL);
    if (status)
        return status;
    status = cuda->copy(queue, to, from, length, 5);
    for (int done = 0; !status && !done; status = done < 0 ? done : 0) {
        sched_yield();
        done = cuda->query(queue, &token, 1);
    }
    cuda->queue_destroy(queue);
    return status;
}

int share_write(struct gyre_comm *comm, void *base, uint64_t at, int value)
{
    return share_copy(comm, (char *)base + at, &value, sizeof(value));
}

int share_read(struct gyre_comm *comm, const void *base, uint64_t at)
{
    int value = -1;
    return share_copy(comm, &value, (const char *)base + at, sizeof(value)) ? -2 : value;
}

uint32_t share_id(struct gyre_comm *comm, enum gyre_memory_kind kind, void *memory)
{
    uint64_t offset;
    return gyre_domain_locate(comm->domain, kind, memory, PART, &offset);
}

int share_end(struct gyre_comm *comm, int bad)
{
    bad += gyre_finalize(comm) != 0;
    struct fakecuda_alive left = fakecuda_alive();
    if (left.ranges || left.handles || left.bytes || (left.streams - left.contexts) || left.events)
        fprintf(stderr, "left: %d ranges, %d handles, %d streams\n", left.ranges, left.handles,
                (left.streams - left.contexts));
    return bad + left.ranges + left.handles + (left.streams - left.contexts) + left.events +
           (left.bytes != 0);
}
