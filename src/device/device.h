/* One kind of device: its memory and its queues.
 *
 * A device knows addresses and bytes; it knows no rank, no link and no algorithm. Work (copies and
 * folds) is posted to a queue and is reported by its token once finished. The CPU's queue finishes
 * work before post returns, a CUDA stream finishes later. So the engine runs the same code over
 * both, and a new device is one file and one line in table.c.
 *
 * Arithmetic lives above, in collectives/kernels. A `gyre_fold` is a function for one kind of
 * device; the device decides only where and when the fold runs. */
#ifndef GYRE_DEVICE_DEVICE_H
#define GYRE_DEVICE_DEVICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gyre_memory_kind { GYRE_MEMORY_HOST, GYRE_MEMORY_CUDA, GYRE_MEMORY_KINDS };

/* Posts that a queue holds until they are reported; more get -EAGAIN. */
#define GYRE_DEVICE_POSTS 256u

/* A range of memory that can be shared with other processes. Only the device that exported the
 * memory understands `fd`. */
struct gyre_region {
    void *base;
    uint64_t length;
    enum gyre_memory_kind kind;
    int device;  /* index on this machine; 0 for the host */
    int fd;      /* descriptor for peers (memfd, dma-buf); -1: the memory cannot be shared */
    bool copied; /* adopted, and reached by copies only: kernels must not use its addresses */
};

#define GYRE_FOLD_DESTINATIONS 64
#define GYRE_FOLD_SOURCES      64

/* A fold: destination[d][i] = source[0][i] op source[1][i] op … for every d, in that order, in the
 * accumulator's type, rounded once. Unless `divisor` is 0 the result is divided before rounding. A
 * destination equals one source or overlaps none. Any alignment. */
struct gyre_fold_task {
    void *const *destination;
    const void *const *source;
    uint32_t destinations, sources;
    uint64_t count;      /* elements */
    uint32_t divisor;    /* of an average; 0: none */
    bool stream;         /* the result is larger than the cache: stored around it */
    const void *context; /* of a user's own fold; NULL otherwise */

    /* Of a device's fold whose addresses are not known when it is put on a stream: its table, in
     * pinned memory of GYRE_FOLD_TABLE bytes. Without `fills` the addresses are not looked at, and
     * the kernel takes from the table all but the numbers of sources and destinations, which are
     * then the most. With `fills` the table is written and nothing is launched; a count of 0 makes
     * the kernel do nothing. */
    void *table;
    bool fills;
};

#define GYRE_FOLD_TABLE 2048

typedef void (*gyre_fold)(const struct gyre_fold_task *task, void *native_queue);

enum gyre_share {
    GYRE_SHARE_OPEN,  /* peers may map it for reading and writing */
    GYRE_SHARE_SEALED /* peers may map it for reading only; the kernel enforces this */
};

/* The identity of a device, on any machine and under any number that a process gives it. */
struct gyre_device_identity {
    uint8_t uuid[16];
    char name[64];
    uint64_t memory_bytes;
    int multiprocessors; /* 0 for the host */
};

/* What a device can do beside holding memory. */
struct gyre_device_abilities {
    int driver, toolkit; /* versions of CUDA, 12040 for 12.4: of the driver, and of this build */
    int major, minor;    /* compute capability */
    bool words;          /* streams wait for words of the host's, as hold() needs */
    bool rdma;           /* a card may read and write its regions, as dma_buf() needs */
};

/* A word of host memory for which a stream waits. Sources of kernels include this header too, and
 * C++ has no _Atomic. */
#ifdef __cplusplus
typedef uint64_t gyre_device_word;
#else
typedef _Atomic uint64_t gyre_device_word;
#endif

/* What a stream does with a word: it writes the value, or waits until the word is at least that. */
struct gyre_stream_word {
    gyre_device_word *word;
    uint64_t value;
    bool writes;
};

struct gyre_device_queue; /* of one device; opaque */
struct gyre_device_graph; /* the same */

struct gyre_device {
    const char *name;
    enum gyre_memory_kind kind;

    /* Returns the number of usable devices; 0 with the reason in *trouble. Never blocks for long,
     * never creates a context. */
    int (*probe)(struct gyre_trouble *trouble);

    /* Fills in the identity: zeros and "cpu" for the host. Any thread; makes no context. */
    int (*identify)(int device, struct gyre_device_identity *identity,
                    struct gyre_trouble *trouble);

    /* Any thread; makes no context. NULL for the host. */
    int (*able)(int device, struct gyre_device_abilities *abilities, struct gyre_trouble *trouble);

    /* Whether two devices can read and write each other's memory directly; a device reaches itself.
     * Any thread; makes no context. */
    bool (*reaches)(int device, int other);

    /* Whether the device's regions are shared as descriptors of the memory itself. False: as
     * handles, if the system allows handles, which only alloc() finds out. Any thread; makes no
     * context. */
    bool (*exports)(int device);

    /* Returns the device whose context is current in the calling thread; -1: none, or CUDA is not
     * loaded in this process. 0 for the host. Makes no context. */
    int (*current)(void);

    /* Allocates zeroed, page-aligned memory that can be shared. The caller owns *region until
     * free(). May block. -ENOMEM names the limit that was met. */
    int (*alloc)(int device, uint64_t length, enum gyre_share share, struct gyre_region *region,
                 struct gyre_trouble *trouble);
    void (*free)(struct gyre_region *region); /* also an empty region */

    /* Maps a region whose descriptor came from a peer; first checks size and seals. The caller
     * keeps `fd`. */
    int (*import)(int device, int fd, uint64_t length, enum gyre_share share,
                  struct gyre_region *region, struct gyre_trouble *trouble);
    void (*unimport)(struct gyre_region *region);

    /* Imports a region of this process, for another of its queues or devices. The owner must not
     * free the region before unimport(). Where the device cannot map it, the region is `copied`:
     * copy() reads and writes it, or returns GYRE_UNSUPPORTED where the driver refuses. NULL for
     * the host, whose memory is imported everywhere. */
    int (*adopt)(int device, void *base, uint64_t length, struct gyre_region *region,
                 struct gyre_trouble *trouble);

    /* Replaces the region's memory, at the same address, by fresh memory of equal content that no
     * peer has mapped. Later writes of a peer then go to the old memory. The old descriptor is
     * closed. */
    int (*detach)(struct gyre_region *region, struct gyre_trouble *trouble);

    /* Page-locks whole pages of host memory, this process's own or a peer's that it maps. Copies
     * from and to locked memory are quick and leave the processor alone, and every device of the
     * process reads and writes it at the same address. May block. -EEXIST: some of the memory is
     * locked already, by whomever. Memory that could not be locked still works in copies, slowly;
     * kernels and hold() need locked memory. Memory is unpinned in the pieces in which it was
     * pinned, after the last work that uses it, and before it is unmapped or detached. The host has
     * nothing to do. */
    int (*pin)(int device, void *memory, uint64_t length, struct gyre_trouble *trouble);
    void (*unpin)(int device, void *memory);

    /* Returns a descriptor by which another device of the machine (an RDMA card) reads and writes
     * memory of this one: a dma-buf of whole pages, which the caller closes. GYRE_UNSUPPORTED:
     * there is none. NULL for the host, whose memory has addresses. */
    int (*dma_buf)(int device, const void *base, uint64_t length, struct gyre_trouble *trouble);

    /* Makes the writes of other devices to this one's memory visible to all work posted from now
     * on. GYRE_UNSUPPORTED: the driver cannot tell when they are. Takes microseconds. NULL for the
     * host. */
    int (*flush)(int device, struct gyre_trouble *trouble);

    /* The kind of memory at `address`. Any thread, does not block. */
    enum gyre_memory_kind (*classify)(const void *address);

    /* Whether the device's queues can read and write this memory, which is not the host's.
     * GYRE_INVALID names the owner. NULL for the host. */
    int (*admit)(int device, const void *address, struct gyre_trouble *trouble);

    /* Finds the kind of memory, and returns what admit() does where it is not the host's: both by
     * one question to the driver, or by two where the memory is another device's. NULL for the
     * host. */
    int (*recognise)(int device, const void *address, enum gyre_memory_kind *kind,
                     struct gyre_trouble *trouble);

    /* Runs load() on the device, in the first call for that function. Making kernels ready there
     * may wait for all work of the device; after prepare() no call may. NULL for the host. */
    int (*prepare)(int device, void (*load)(void), struct gyre_trouble *trouble);

    int (*queue_create)(int device, struct gyre_device_queue **queue, struct gyre_trouble *trouble);

    /* Makes a queue for marks behind the caller's streams: what this queue waits for delays no
     * other queue. NULL for the host. */
    int (*waiter_create)(int device, struct gyre_device_queue **queue,
                         struct gyre_trouble *trouble);
    void (*queue_destroy)(struct gyre_device_queue *queue);

    /* The queue as the device's own library knows it, a CUstream: for work that others put behind
     * the queue's, or make it wait for. NULL for the host. */
    void *(*native)(struct gyre_device_queue *queue);

    /* Post work behind the work on the queue. 1: finished already, the token is not used; 0:
     * query() will report the token; negative: nothing was posted. Buffers are borrowed until the
     * work has finished. */
    int (*copy)(struct gyre_device_queue *queue, void *to, const void *from, uint64_t length,
                uint64_t token);
    int (*reduce)(struct gyre_device_queue *queue, gyre_fold fold,
                  const struct gyre_fold_task *task, uint64_t token);

    /* Calls post() with the native queue, in the device's context, for kernels of any kind. Nothing
     * is reported, and the queue's posts are not used up; what fails when it runs is told by
     * query(). NULL for the host. */
    int (*launch)(struct gyre_device_queue *queue,
                  void (*post)(void *native_queue, const void *context), const void *context);

    /* Graphs: launches that are repeated together, by one post. From record() to keep() each
     * launch() also goes into a graph. What cannot be recorded fails keep() alone, and the launches
     * have been posted all the same. keep() with a `graph` of NULL forgets them. prepare_graph()
     * comes once before the first repeat(). repeat() posts all of a graph behind the queue's work,
     * with the addresses and numbers that the launches had, and nothing is reported. A graph that
     * is freed is finished by the queues that have it. prepare_graph(), graph_free() and a queue's
     * first record() may wait for all work of the device, also for streams that are held. NULL for
     * the host. */
    int (*record)(struct gyre_device_queue *queue, struct gyre_trouble *trouble);
    int (*keep)(struct gyre_device_queue *queue, struct gyre_device_graph **graph,
                struct gyre_trouble *trouble);
    int (*prepare_graph)(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                         struct gyre_trouble *trouble);
    int (*repeat)(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                  struct gyre_trouble *trouble);
    void (*graph_free)(struct gyre_device_graph *graph);

    /* Posts the token alone. query() reports it when all work posted before has finished, and
     * everything for which after() made the queue wait. Returns as copy() does. */
    int (*mark)(struct gyre_device_queue *queue, uint64_t token);

    /* Makes the queue wait for the work that is on the caller's own stream now (NULL: no work).
     * Does not block. GYRE_INVALID: a stream of another device. GYRE_UNSUPPORTED: a stream that is
     * being captured into a graph, or a device without hold(); also the host, which has no
     * streams. */
    int (*after)(struct gyre_device_queue *queue, void *foreign, struct gyre_trouble *trouble);

    /* Holds the caller's stream: work put there from now on waits until *word, which lies in pinned
     * memory and only grows, is at least `value`. A store of the host's releases the stream. The
     * holder must release it before the memory is unpinned, also where the operation fails. Does
     * not block; refuses what after() refuses. */
    int (*hold)(struct gyre_device_queue *queue, void *foreign, const gyre_device_word *word,
                uint64_t value, struct gyre_trouble *trouble);

    /* Checks that operations can be put into the order of the caller's stream: GYRE_INVALID: a
     * stream of another device; GYRE_UNSUPPORTED: its device cannot wait for words. *captured tells
     * whether the stream is being captured into a graph. NULL for the host. */
    int (*check_stream)(struct gyre_device_queue *queue, void *foreign, bool *captured,
                        struct gyre_trouble *trouble);

    /* Puts a copy, or words in their order, on the caller's stream itself. Words lie in pinned
     * memory. A word is written when all that is before it on the stream can be seen. Host memory
     * of a copy is pinned, or the call waits for the copy. Nothing is reported. Checks nothing that
     * check_stream() does. NULL for the host. */
    int (*copy_on)(struct gyre_device_queue *queue, void *foreign, void *to, const void *from,
                   uint64_t length, struct gyre_trouble *trouble);
    int (*words_on)(struct gyre_device_queue *queue, void *foreign,
                    const struct gyre_stream_word *word, uint32_t words,
                    struct gyre_trouble *trouble);

    /* Puts a fold on the caller's stream itself, which may be one that is being captured. Does not
     * block, and nothing is reported. Buffers are borrowed until the stream has passed the fold.
     * GYRE_INVALID: a stream of another device. NULL for the host. */
    int (*fold_on)(struct gyre_device_queue *queue, void *foreign, gyre_fold fold,
                   const struct gyre_fold_task *task, struct gyre_trouble *trouble);

    /* Whether the device still serves this queue, with nothing posted, too: 0, or the status with
     * which the queue is dead. NULL for the host. */
    int (*serves)(struct gyre_device_queue *queue);

    /* Writes finished tokens, at most `max`, and returns their number; or a negative status, after
     * which the queue is dead. */
    int (*query)(struct gyre_device_queue *queue, uint64_t *token, int max);
};

/* Writes a device's UUID as nvidia-smi prints it: "GPU-0a1b…". */
#define GYRE_DEVICE_UUID_TEXT 41
void gyre_device_uuid_text(const uint8_t uuid[16], char text[GYRE_DEVICE_UUID_TEXT]);

/* The device of a memory kind; NULL: not built in. */
const struct gyre_device *gyre_device_of(enum gyre_memory_kind kind);

/* Makes a region of the host out of a file that another process has made for this one: a memfd of
 * `length` bytes without seals, which it maps and seals as alloc() does. The region has the
 * descriptor from then on. A status: the descriptor is the caller's. */
int gyre_cpu_adopt(int fd, uint64_t length, enum gyre_share share, struct gyre_region *region,
                   struct gyre_trouble *trouble);

/* Whether CUDA's driver is loaded in this process already, by whomever. If not, no address can be
 * CUDA memory, and the question costs nothing. Any thread; loads nothing. */
bool gyre_device_cuda_present(void);

/* A list of devices, as GYRE_DEVICES has it: numbers with commas between, 2,4,7 (list.c). */
struct gyre_device_list {
    int count;
    int wanted; /* the device at the place that was asked for; -1: the list is shorter */
};

/* False: the text is anything but such a list. */
bool gyre_device_list_read(const char *text, int place, struct gyre_device_list *list);

#endif
