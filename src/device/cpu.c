/* Host memory as a device.
 *
 * A region is a memfd: a file without a name whose descriptor is passed to the peers that may map
 * it. Nothing is left behind when a process dies, and no tmpfs limit applies. The size can never
 * change again (F_SEAL_SHRINK, F_SEAL_GROW), so no peer can turn another one's access into a
 * SIGBUS. A SEALED region also takes no writable mapping once its owner has one
 * (F_SEAL_FUTURE_WRITE), so peers can only read it. F_SEAL_SEAL closes the list.
 *
 *     owner                    kernel                  peer
 *     memfd, mmap, seals ────▶ pages ◀──────────────── fstat, seals?, mmap
 *
 * Detaching takes the pages away from a peer that may still be writing. A fresh memfd is filled
 * with the same content and moved over the old address. The peer goes on writing into pages that no
 * process reads:
 *
 *     before    owner's address ──▶ old pages ◀── peer
 *     after     owner's address ──▶ new pages     old pages ◀── peer
 *
 * Large regions ask for huge pages, at addresses where huge pages fit. The CPU's queue is always
 * empty, because work is done when it is posted. Copies are memcpy(), except where memcpy() is slow
 * (base/copy.h). On the build machine memcpy() was measured against non-temporal stores and `rep
 * movsb` from 64 KiB to 256 MiB and lost to neither at any size. */
#include "base/copy.h"
#include "base/disk/regular.h"
#include "base/size.h"
#include "device/device.h"
#include "device/memory_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

#define HUGE_PAGE        (UINT64_C(2) << 20)
#define RESERVED_AT_ONCE (UINT64_C(1) << 20) /* regions up to here get their pages at once */
#define SEALS_OF_SIZE    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static char only_queue; /* the address of every queue; its content is not used */

/* -- memory ------------------------------------------------------------------------------------ */

static uint64_t mapped_length(uint64_t length)
{
    return gyre_round_up(length, (uint64_t)sysconf(_SC_PAGESIZE));
}

static struct gyre_region no_region(void)
{
    return (struct gyre_region){.kind = GYRE_MEMORY_HOST, .fd = -1};
}

static int create_memfd(void)
{
    int fd = memfd_create("gyre", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("gyre", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

/* Makes a file of `length` bytes; a small one gets all its pages. */
static int create_file(uint64_t length, struct gyre_trouble *trouble)
{
    int fd = create_memfd();
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno, "memfd_create: %s%s", strerror(errno),
                                errno == EMFILE ? "; raise `ulimit -n`" : "");
    int error = ftruncate(fd, (off_t)length) ? errno : 0;
    if (!error && length <= RESERVED_AT_ONCE)
        do
            error = posix_fallocate(fd, 0, (off_t)length);
        while (error == EINTR); /* by a signal of the program's */
    if (error) {
        close(fd);
        return gyre_trouble_set(trouble, -error, "sizing a memfd to %llu bytes: %s",
                                (unsigned long long)length, strerror(error));
    }
    return fd;
}

static int mmap_failed(uint64_t length, struct gyre_trouble *trouble)
{
    int error = errno;
    struct rlimit space = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &space);
    bool limited = error == ENOMEM && space.rlim_cur != RLIM_INFINITY;
    return gyre_trouble_set(trouble, -error, "mmap of %llu bytes of shared memory: %s%s",
                            (unsigned long long)length, strerror(error),
                            limited ? "; raise `ulimit -v`" : "");
}

/* Reserves `length` bytes of addresses, on a huge page's boundary if the region can hold one.
 * MAP_FAILED as mmap(). */
static void *reserve_addresses(uint64_t length)
{
    uint64_t slack = length >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *at =
        mmap(NULL, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || !slack)
        return at;
    char *aligned = (char *)gyre_round_up((uint64_t)(uintptr_t)at, HUGE_PAGE);
    if (aligned > at)
        munmap(at, (size_t)(aligned - at));
    if (aligned < at + slack)
        munmap(aligned + length, (size_t)(at + slack - aligned));
    return aligned;
}

/* Maps all of `fd`; MAP_FAILED as mmap(). */
static void *map_file(int fd, uint64_t length, int protection)
{
    void *at = reserve_addresses(length);
    if (at == MAP_FAILED)
        return at;
    if (mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(at, length);
        errno = error;
        return MAP_FAILED;
    }
    if (length >= HUGE_PAGE)
        madvise(at, length, MADV_HUGEPAGE); /* only a wish: kernels without huge pages refuse it */
    return at;
}

static int seals_of(enum gyre_share share)
{
    return SEALS_OF_SIZE | (share == GYRE_SHARE_SEALED ? F_SEAL_FUTURE_WRITE : 0);
}

/* Maps and seals `fd`, in this order: the owner's mapping must be the last writable one. */
static int fill_region(struct gyre_region *region, int fd, enum gyre_share share,
                       struct gyre_trouble *trouble)
{
    uint64_t length = mapped_length(region->length);
    region->base = map_file(fd, length, PROT_READ | PROT_WRITE);
    if (region->base == MAP_FAILED)
        return mmap_failed(length, trouble);
    if (fcntl(fd, F_ADD_SEALS, seals_of(share)) != 0) {
        int status =
            gyre_trouble_set(trouble, -errno, "sealing shared memory: %s", strerror(errno));
        munmap(region->base, length);
        return status;
    }
    region->fd = fd;
    return 0;
}

static int cpu_alloc(int device, uint64_t length, enum gyre_share share, struct gyre_region *region,
                     struct gyre_trouble *trouble)
{
    struct gyre_region fresh = no_region();
    fresh.length = length;
    *region = no_region();
    if (length == 0 || length > INT64_MAX - 2 * HUGE_PAGE)
        return gyre_trouble_set(trouble, length ? -ENOMEM : GYRE_INVALID,
                                "cannot allocate %llu bytes of shared memory",
                                (unsigned long long)length);
    int status = gyre_memory_limit_check(length, trouble);
    if (status)
        return status;
    int fd = create_file(mapped_length(length), trouble);
    if (fd < 0)
        return fd;
    status = fill_region(&fresh, fd, share, trouble);
    if (status)
        close(fd);
    else
        *region = fresh;
    return status;
}

int gyre_cpu_adopt(int fd, uint64_t length, enum gyre_share share, struct gyre_region *region,
                   struct gyre_trouble *trouble)
{
    struct stat file;
    struct gyre_region adopted = no_region();
    adopted.length = length;
    *region = no_region();
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || fcntl(fd, F_GET_SEALS) < 0 ||
        (uint64_t)file.st_size != mapped_length(length))
        return gyre_trouble_set(trouble, GYRE_INVALID, "it is no memory of %llu bytes",
                                (unsigned long long)length);
    int status = fill_region(&adopted, fd, share, trouble);
    if (!status)
        *region = adopted;
    return status;
}

static void cpu_unimport(struct gyre_region *region)
{
    if (region->base)
        munmap(region->base, mapped_length(region->length));
    *region = no_region();
}

static void cpu_free(struct gyre_region *region)
{
    if (region->base && region->fd >= 0)
        close(region->fd);
    cpu_unimport(region);
}

/* -- a peer's memory --------------------------------------------------------------------------- */

static int check_file_size(int fd, uint64_t length, struct gyre_trouble *trouble)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return gyre_trouble_set(trouble, -errno, "descriptor %d of a peer's memory: %s", fd,
                                strerror(errno));
    if (length == 0 || length > INT64_MAX - 2 * HUGE_PAGE || !S_ISREG(file.st_mode) ||
        (uint64_t)file.st_size != mapped_length(length))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a peer's memory has %lld bytes where %llu were announced",
                                (long long)file.st_size, (unsigned long long)length);
    return 0;
}

static int check_seals(int fd, enum gyre_share share, struct gyre_trouble *trouble)
{
    int wanted = seals_of(share), found = fcntl(fd, F_GET_SEALS);
    if (found >= 0 && (found & wanted) == wanted)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "a peer's memory has seals %#x where %#x are needed: "
                            "it could change under our hands",
                            found < 0 ? 0U : (unsigned)found, (unsigned)wanted);
}

static int cpu_import(int device, int fd, uint64_t length, enum gyre_share share,
                      struct gyre_region *region, struct gyre_trouble *trouble)
{
    *region = no_region();
    int status = check_file_size(fd, length, trouble);
    if (!status)
        status = check_seals(fd, share, trouble);
    if (status)
        return status;
    int protection = share == GYRE_SHARE_SEALED ? PROT_READ : PROT_READ | PROT_WRITE;
    void *base = map_file(fd, mapped_length(length), protection);
    if (base == MAP_FAILED)
        return mmap_failed(length, trouble);
    region->base = base;
    region->length = length;
    return 0;
}

/* -- detaching --------------------------------------------------------------------------------- */

static enum gyre_share share_of(int fd)
{
    return gyre_has_seals(fd, F_SEAL_FUTURE_WRITE) ? GYRE_SHARE_SEALED : GYRE_SHARE_OPEN;
}

/* Copies the content of `fd` from `from` to `to`. Parts that were never written stay without
 * pages. */
static void copy_content(int fd, char *to, const char *from, uint64_t length)
{
    off_t at = 0, end = 0;
    while ((uint64_t)end < length) {
        at = lseek(fd, end, SEEK_DATA);
        if (at < 0 && errno == ENXIO)
            return; /* a hole up to the end */
        end = at < 0 ? -1 : lseek(fd, at, SEEK_HOLE);
        if (end < 0) { /* the kernel cannot tell: copies everything */
            at = 0;
            end = (off_t)length;
        }
        memcpy(to + at, from + at, (size_t)(end - at));
    }
}

static int cpu_detach(struct gyre_region *region, struct gyre_trouble *trouble)
{
    struct gyre_region fresh;
    uint64_t length = mapped_length(region->length);
    int status = cpu_alloc(region->device, region->length, share_of(region->fd), &fresh, trouble);
    if (status) {
        gyre_trouble_wrap(trouble, "replacing memory that a lost peer may still write");
        return status;
    }
    copy_content(region->fd, fresh.base, region->base, length);
    if (mremap(fresh.base, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, region->base) ==
        MAP_FAILED) {
        status = gyre_trouble_set(trouble, -errno, "moving fresh memory to %p: %s", region->base,
                                  strerror(errno));
        cpu_free(&fresh);
        return status;
    }
    close(region->fd);
    region->fd = fresh.fd;
    return 0;
}

/* -- queue ------------------------------------------------------------------------------------- */

static int cpu_probe(struct gyre_trouble *trouble)
{
    return 1;
}

static int cpu_identify(int device, struct gyre_device_identity *identity,
                        struct gyre_trouble *trouble)
{
    *identity = (struct gyre_device_identity){.name = "cpu"};
    return 0;
}

static bool cpu_exports(int device)
{
    return device == 0;
}

static bool cpu_reaches(int device, int other)
{
    return true;
}

static int cpu_current(void)
{
    return 0;
}

static int cpu_pin(int device, void *memory, uint64_t length, struct gyre_trouble *trouble)
{
    return 0;
}

static void cpu_unpin(int device, void *memory)
{
}

static enum gyre_memory_kind cpu_classify(const void *address)
{
    return GYRE_MEMORY_HOST;
}

static int cpu_queue_create(int device, struct gyre_device_queue **queue,
                            struct gyre_trouble *trouble)
{
    *queue = (struct gyre_device_queue *)&only_queue;
    return 0;
}

static void cpu_queue_destroy(struct gyre_device_queue *queue)
{
}

static int cpu_copy(struct gyre_device_queue *queue, void *to, const void *from, uint64_t length,
                    uint64_t token)
{
    gyre_copy(to, from, length);
    return 1;
}

static int cpu_reduce(struct gyre_device_queue *queue, gyre_fold fold,
                      const struct gyre_fold_task *task, uint64_t token)
{
    fold(task, NULL);
    return 1;
}

static int cpu_mark(struct gyre_device_queue *queue, uint64_t token)
{
    return 1;
}

static int cpu_after(struct gyre_device_queue *queue, void *foreign, struct gyre_trouble *trouble)
{
    if (!foreign)
        return 0;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "a stream was given with host memory, which knows none");
}

static int cpu_hold(struct gyre_device_queue *queue, void *foreign, const gyre_device_word *word,
                    uint64_t value, struct gyre_trouble *trouble)
{
    return cpu_after(queue, foreign, trouble);
}

static int cpu_query(struct gyre_device_queue *queue, uint64_t *token, int max)
{
    return 0;
}

extern const struct gyre_device gyre_device_cpu;

const struct gyre_device gyre_device_cpu = {
    .name = "cpu",
    .kind = GYRE_MEMORY_HOST,
    .probe = cpu_probe,
    .identify = cpu_identify,
    .reaches = cpu_reaches,
    .exports = cpu_exports,
    .current = cpu_current,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .import = cpu_import,
    .unimport = cpu_unimport,
    .detach = cpu_detach,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .classify = cpu_classify,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .copy = cpu_copy,
    .reduce = cpu_reduce,
    .mark = cpu_mark,
    .after = cpu_after,
    .hold = cpu_hold,
    .query = cpu_query,
};
