/* The cuda_ipc driver: links between ranks of a node, of a rank that has a CUDA device.
 *
 *     rank 0, device 0                                            rank 1, device 1
 *     gyre_alloc_device()  ── handle, by the watches' checked socket ──▶  mapped once, kept as a view
 *     send                 ── ring: POINT region, offset ──▶  recv: one copy, by device 1
 *                          ◀── ring: TAKEN
 *
 * It is a mapped link. What goes in its rings, in which order and under which names is shm's, entry
 * by entry: a receiver does not know where the sender's message lies, so memory of both kinds has
 * to come by one stream, and the stream is the same whichever of the two drivers each end has. What
 * this one adds is the copy queue (transport/memory/copy_queue.h): long posts may be memory that
 * the CPU cannot touch, and are copied by the device, out of the peer's own memory where that is
 * shared.
 *
 * Handles never pass here: the watch sends them, maps what comes, keeps each view until its owner
 * takes the memory back, and lets nobody copy from it meanwhile (transport/watch/import.c). So a
 * rank that dies leaves what was mapped to those who mapped it, and what is freed under a copy
 * waits for the copy.
 *
 * Which way two devices' memory goes depends on what they are:
 *
 *     they reach each other, memory can be exported     its descriptor is passed
 *     they reach each other, it cannot                  a classic IPC handle is
 *     they do not, ranks of one process                 the driver copies between them, staging it
 *     they do not, two processes                        the host's memory: none can name the other's
 *
 * On a machine without a device, or of a build without CUDA, open() says that it is absent, and
 * shm, the next in the table, serves. */
#include "transport/link/cuda_ipc.h"

#include "transport/link/shm.h"
#include "transport/memory/copy_queue.h"
#include "transport/stream/stream.h"

/* -- ways -------------------------------------------------------------------------------------- */

int gyre_cuda_ipc_probe(struct gyre_trouble *trouble)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    struct gyre_trouble why = {0};
    if (!cuda)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "this build of Gyre has no CUDA (no nvcc was found when it was "
                                "configured)");
    return cuda->probe(&why) ? 0 : gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s", why.text);
}

enum gyre_cuda_way gyre_cuda_ipc_way(int device, int other, bool here)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    bool exported = cuda && cuda->exports(device) && cuda->exports(other);
    if (cuda && cuda->reaches(device, other) && cuda->reaches(other, device))
        return exported ? GYRE_CUDA_EXPORTED : GYRE_CUDA_CLASSIC;
    return here && exported ? GYRE_CUDA_COPIED : GYRE_CUDA_HOST;
}

const char *gyre_cuda_ipc_words(enum gyre_cuda_way way)
{
    switch (way) {
    case GYRE_CUDA_EXPORTED:
        return "direct: kernels and copies on memory that both map, passed as exported memory";
    case GYRE_CUDA_CLASSIC:
        return "direct: kernels and copies on memory that both map, passed as classic IPC handles";
    case GYRE_CUDA_COPIED:
        return "staged by the driver: messages are copied from device to device";
    case GYRE_CUDA_HOST:
        break;
    }
    return "staged through host memory: the devices have no peer access";
}

/* -- the contract ------------------------------------------------------------------------------ */

static int open_wire(const struct gyre_wire_options *options, struct gyre_wire **out,
                     struct gyre_trouble *trouble)
{
    if (!options->lookup || !options->lookup->copy_queue)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "this rank has no CUDA device");
    return gyre_shm_open(options, out, trouble);
}

static const char *cuda_ipc_serves(const struct gyre_wire *wire)
{
    return gyre_copy_queue_exports(gyre_shm_lookup(wire)->copy_queue) ? "exported" : "classic";
}

static bool carries(struct gyre_pipe *pipe, const void *memory, uint64_t length, bool send)
{
    const struct gyre_stream *stream = gyre_shm_stream(pipe);
    return stream && gyre_stream_carries(stream, memory, length, send);
}

const struct gyre_driver gyre_driver_cuda_ipc = {
    .name = "cuda_ipc",
    .open = open_wire,
    .serves = cuda_ipc_serves,
    .carries = carries, /* of the device's memory; the limits tell of the host's */
    GYRE_SHM_ENTRIES,
};
