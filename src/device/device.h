/* Memory and queues of one kind of device.
 *
 * A device knows addresses and bytes; it knows no rank, no link and no algorithm. Work (copies and
 * reductions) is posted to a queue and completes by token: the CPU's queue has finished when post()
 * returns, a CUDA stream later. So the engine runs the same code over both, and a new device is one
 * file and one line in table.c.
 *
 * Arithmetic lives above, in collectives/kernels: a `gyre_fold` is a function of the same kind as
 * the device that is given to post(), and the device only decides where and when it runs. */
#ifndef GYRE_DEVICE_DEVICE_H
#define GYRE_DEVICE_DEVICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gyre_memory_kind { GYRE_MEMORY_HOST, GYRE_MEMORY_CUDA, GYRE_MEMORY_KINDS };

#define GYRE_DEVICE_POSTS 256u /* that a queue holds until they are reported; more get -EAGAIN */

/* A span of memory that other processes may be given. `fd` means something to the device that
 * exported it. */
struct gyre_region {
    void *base;
    uint64_t length;
    enum gyre_memory_kind kind;
    int device;  /* index on this machine; 0 for the host */
    int fd;      /* descriptor to pass along (memfd, dma-buf), -1 if it cannot be shared */
    bool copied; /* adopted, and only copies reach it: no kernel may be given its addresses */
};

#define GYRE_FOLD_DESTINATIONS 64
#define GYRE_FOLD_SOURCES      64

/* destination[d][i] = source[0][i] op source[1][i] op … for every d, folded in that order in the
 * accumulator's type and rounded once; divided by `divisor` before rounding unless it is 0. A
 * destination may be equal to one source, or must not overlap any. Any alignment. */
struct gyre_fold_task {
    void *const *destination;
    const void *const *source;
    uint32_t destinations, sources;
    uint64_t count;      /* elements */
    uint32_t divisor;    /* of an average; 0: none */
    bool stream;         /* the result is larger than the cache: store around it */
    const void *context; /* of a fold that the user wrote; NULL otherwise */
};

typedef void (*gyre_fold)(const struct gyre_fold_task *task, void *native_queue);

enum gyre_share {
    GYRE_SHARE_OPEN,  /* peers may map it for reading and writing */
    GYRE_SHARE_SEALED /* peers may map it for reading only, enforced by the kernel */
};

/* Which device it is, on whatever machine and by whatever number a process knows it. */
struct gyre_device_identity {
    uint8_t uuid[16];
    char name[64];
    uint64_t memory_bytes;
};

/* A word of the host's that a stream waits for. Kernels' sources see this header too, and C++ knows
 * no _Atomic. */
#ifdef __cplusplus
typedef uint64_t gyre_device_word;
#else
typedef _Atomic uint64_t gyre_device_word;
#endif

struct gyre_device_queue; /* of one device; opaque */

struct gyre_device {
    const char *name;
    enum gyre_memory_kind kind;

    /* Number of usable devices, 0 with the reason in *trouble. Never blocks for long, never creates
     * a context. */
    int (*probe)(struct gyre_trouble *trouble);

    /* Says which device it is: zeros and "cpu" for the host. Any thread; makes no context. */
    int (*identify)(int device, struct gyre_device_identity *identity,
                    struct gyre_trouble *trouble);

    /* Whether the devices can read and write each other's memory directly; a device reaches itself.
     * Any thread; makes no context. */
    bool (*reaches)(int device, int other);

    /* Whether the device's regions can be passed to other processes in the first way that there is;
     * false: in the second, if the system allows that, which only alloc() finds out. Any thread;
     * makes no context. */
    bool (*exports)(int device);

    /* The device whose context is current to the calling thread; -1 if none is, or if nobody in
     * this process has loaded CUDA. 0 for the host. Makes no context. */
    int (*current)(void);

    /* Zeroed, page-aligned memory that export() can share. The caller owns *region until free().
     * May block. -ENOMEM names the limit that was met. */
    int (*alloc)(int device, uint64_t length, enum gyre_share share, struct gyre_region *region,
                 struct gyre_trouble *trouble);
    void (*free)(struct gyre_region *region); /* empty region allowed */

    /* Maps a region whose descriptor came from a peer; checks size and seals first. The caller
     * keeps `fd`. */
    int (*import)(int device, int fd, uint64_t length, enum gyre_share share,
                  struct gyre_region *region, struct gyre_trouble *trouble);
    void (*unimport)(struct gyre_region *region);

    /* The same of a region of this process, for another of its queues or devices. Until unimport()
     * it is not freed. Where the device cannot map it, the region is `copied`: copy() reads and
     * writes it, with GYRE_UNSUPPORTED where the driver refuses. NULL for the host, whose memory is
     * imported everywhere. */
    int (*adopt)(int device, void *base, uint64_t length, struct gyre_region *region,
                 struct gyre_trouble *trouble);

    /* Replaces the region's memory at the same address by fresh memory of equal content that no
     * peer has mapped, so that a writer of the old memory cannot be seen any more. The old
     * descriptor is closed. */
    int (*detach)(struct gyre_region *region, struct gyre_trouble *trouble);

    /* Page-locks whole pages of host memory, this process's or a peer's that it maps, so that
     * copies from and to it are quick and leave the processor alone, and so that every device of
     * the process reads and writes it at the same address. May block. -EEXIST: some of it is locked
     * already, by whomever. What is refused still works, slowly, in copies; kernels and hold() need
     * it. Memory is unpinned, in the pieces in which it was pinned and when no work uses it any
     * more, before it is unmapped or detached. Nothing to do for the host. */
    int (*pin)(int device, void *memory, uint64_t length, struct gyre_trouble *trouble);
    void (*unpin)(int device, void *memory);

    /* A descriptor by which another device of the machine (an RDMA card) reads and writes memory of
     * this one: a dma-buf of whole pages, which the caller closes. GYRE_UNSUPPORTED: there is none.
     * NULL for the host, whose memory has addresses. */
    int (*dma_buf)(int device, const void *base, uint64_t length, struct gyre_trouble *trouble);

    /* What other devices have written into this one's memory is there for all work posted from now
     * on. GYRE_UNSUPPORTED: nobody can tell when it is. Takes microseconds. NULL for the host. */
    int (*flush)(int device, struct gyre_trouble *trouble);

    /* Whose memory is at `address`? Any thread, does not block. */
    enum gyre_memory_kind (*classify)(const void *address);

    /* Can the device's queues read and write this memory, which is not the host's? GYRE_INVALID
     * tells whose it is. NULL for the host. */
    int (*admit)(int device, const void *address, struct gyre_trouble *trouble);

    /* Runs load() on the device, by the first call for it: what it makes ready there (kernels) may
     * wait for all of its work, and later nothing may. NULL for the host. */
    int (*prepare)(int device, void (*load)(void), struct gyre_trouble *trouble);

    int (*queue_create)(int device, struct gyre_device_queue **queue, struct gyre_trouble *trouble);

    /* The same, for marks behind the caller's streams: what it waits for keeps up no other queue.
     * NULL for the host. */
    int (*waiter_create)(int device, struct gyre_device_queue **queue,
                         struct gyre_trouble *trouble);
    void (*queue_destroy)(struct gyre_device_queue *queue);

    /* Post work behind what is on the queue. Returns 1 when it is finished already (the token is
     * not used), 0 when query() will report the token, negative on failure (nothing was posted).
     * Buffers are borrowed until then. */
    int (*copy)(struct gyre_device_queue *queue, void *to, const void *from, uint64_t length,
                uint64_t token);
    int (*reduce)(struct gyre_device_queue *queue, gyre_fold fold,
                  const struct gyre_fold_task *task, uint64_t token);

    /* Posts nothing but the token: it is reported when all that was posted before has finished, and
     * what after() made the queue wait for. Returns as copy() does. */
    int (*mark)(struct gyre_device_queue *queue, uint64_t token);

    /* Makes the queue wait for what is on the caller's own stream now (NULL: nothing). Does not
     * block. GYRE_INVALID for a stream of another device, GYRE_UNSUPPORTED for one that is being
     * captured into a graph, and where hold() would be; the host has no streams. */
    int (*after)(struct gyre_device_queue *queue, void *foreign, struct gyre_trouble *trouble);

    /* The other way round: what is put on the caller's stream from now on waits until *word, which
     * lies in pinned memory and only grows, is at least `value`. A store of the host's releases it;
     * whoever holds a stream must release it, also when the operation fails, before the memory is
     * unpinned. Does not block; refuses what after() does. */
    int (*hold)(struct gyre_device_queue *queue, void *foreign, const gyre_device_word *word,
                uint64_t value, struct gyre_trouble *trouble);

    /* Puts a fold on the caller's stream itself, which may be one that is being captured. Does not
     * block, and nothing is reported; buffers are borrowed until the stream has come past it.
     * GYRE_INVALID for a stream of another device. NULL for the host. */
    int (*fold_on)(struct gyre_device_queue *queue, void *foreign, gyre_fold fold,
                   const struct gyre_fold_task *task, struct gyre_trouble *trouble);

    /* Writes finished tokens, at most `max`; returns how many, or a negative status after which the
     * queue is dead. */
    int (*query)(struct gyre_device_queue *queue, uint64_t *token, int max);
};

/* "GPU-0a1b…": a device's UUID as nvidia-smi prints it. */
#define GYRE_DEVICE_UUID_TEXT 41
void gyre_device_uuid_text(const uint8_t uuid[16], char text[GYRE_DEVICE_UUID_TEXT]);

/* The device of a memory kind, NULL if it is not built in. */
const struct gyre_device *gyre_device_of(enum gyre_memory_kind kind);

/* Whether CUDA's driver is loaded in this process already, by whomever. If it is not, no address
 * can be CUDA memory, and nothing need be paid for finding that out. Any thread; loads nothing. */
bool gyre_device_cuda_present(void);

#endif
