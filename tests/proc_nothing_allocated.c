/* After the first call of a shape nothing is allocated until its completion, on any rank.
 *
 * The linker sends every call of malloc and its kin from this program and from the (static) library
 * through the counters below; all threads of a rank are counted. A shape is warmed up by one
 * blocking call on gyre_alloc() memory; then every other way to ask for it is counted: other
 * memory, in place, started.
 *
 *      warm up ── counting ─▶ all memories × in place or not × blocking, started, tested ─▶ 0 */
#include "comm_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* -- the counters ------------------------------------------------------------------------------ */

static _Atomic int counting, counted;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t items, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);

static void count(const char *name, size_t bytes, const void *caller)
{
    if (!counting)
        return;
    if (counted++ < 4)
        dprintf(2, "%s of %zu bytes, called at %p (count is at %p)\n", name, bytes, caller,
                (void *)(uintptr_t)count);
}

void *__wrap_malloc(size_t bytes)
{
    count("malloc", bytes, __builtin_return_address(0));
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t items, size_t bytes)
{
    count("calloc", items * bytes, __builtin_return_address(0));
    return __real_calloc(items, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    count("realloc", bytes, __builtin_return_address(0));
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    count("aligned_alloc", bytes, __builtin_return_address(0));
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    count("posix_memalign", bytes, __builtin_return_address(0));
    return __real_posix_memalign(memory, alignment, bytes);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count("mmap", bytes, __builtin_return_address(0));
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}

/* What mmap() is called where offsets have 64 bits by -D_FILE_OFFSET_BITS. */
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count("mmap64", bytes, __builtin_return_address(0));
    return __real_mmap64(at, bytes, protection, flags, fd, offset);
}

/* The counters see every one of them: else the tests below would prove nothing. */
static void counters_count(void **state)
{
    void *volatile memory, *aligned = NULL;
    (void)state;
    counting = 1;
    memory = malloc(10);
    memory = realloc(memory, 20);
    free(memory);
    memory = calloc(2, 5);
    free(memory);
    memory = aligned_alloc(64, 64);
    free(memory);
    assert_int_equal(posix_memalign(&aligned, 64, 64), 0);
    free(aligned);
    memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(memory, 4096);
    counting = 0;
    assert_int_equal(atomic_exchange(&counted, 0), 6);
}

/* -- what a rank does -------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* 20 times slower */
#define MOST   (1u << 20)
#define ROUNDS 1
#else
#define MOST   (8u << 20)
#define ROUNDS 3
#endif

enum operation { ALL_REDUCE, BROADCAST, BARRIER };

enum way { BLOCKING, WAITED, TESTED };

struct shape {
    enum operation operation;
    uint64_t bytes;
};

static int block(struct gyre_comm *comm, const struct shape *shape, const void *in, void *out)
{
    uint64_t elements = shape->bytes / 4;
    switch (shape->operation) {
    case ALL_REDUCE:
        return gyre_all_reduce(comm, in, out, elements, GYRE_I32, GYRE_SUM);
    case BROADCAST:
        return gyre_broadcast(comm, in, out, elements, GYRE_I32, 1);
    case BARRIER:
        return gyre_barrier(comm);
    }
    return 1;
}

static int start(struct gyre_comm *comm, const struct shape *shape, const void *in, void *out,
                 struct gyre_work **work)
{
    uint64_t elements = shape->bytes / 4;
    switch (shape->operation) {
    case ALL_REDUCE:
        return gyre_all_reduce_start(comm, in, out, elements, GYRE_I32, GYRE_SUM, work);
    case BROADCAST:
        return gyre_broadcast_start(comm, in, out, elements, GYRE_I32, 1, work);
    case BARRIER:
        return gyre_barrier_start(comm, work);
    }
    return 1;
}

static int call(struct gyre_comm *comm, const struct shape *shape, enum way way, const void *in,
                void *out)
{
    struct gyre_work *work;
    int status;
    if (way == BLOCKING)
        return block(comm, shape, in, out);
    if ((status = start(comm, shape, in, out, &work)))
        return status;
    if (way == WAITED)
        return gyre_work_wait(work, -1);
    while ((status = gyre_work_test(work)) == GYRE_AGAIN)
        continue;
    return status;
}

static int every_way(struct gyre_comm *comm, const struct shape *shape, char *memory[4])
{
    int status = 0;
    for (int kind = 0; kind < 4; kind++)
        for (enum way way = BLOCKING; way <= TESTED; way++)
            for (int round = 0; round < ROUNDS && !status; round++)
                status = call(comm, shape, way, memory[kind & 2], memory[(kind & 2) + (kind & 1)]);
    return status;
}

static const struct shape shapes[] = {
    {BARRIER, 0},          {ALL_REDUCE, 8},    {BROADCAST, 8},    {ALL_REDUCE, 64 << 10},
    {BROADCAST, 64 << 10}, {ALL_REDUCE, MOST}, {BROADCAST, MOST},
};

static int look(struct gyre_comm *comm, char *memory[4])
{
    for (unsigned s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        int status = call(comm, &shapes[s], BLOCKING, memory[0], memory[1]);
        counting = 1;
        if (!status)
            status = every_way(comm, &shapes[s], memory);
        counting = 0;
        if (status || counted) {
            fprintf(stderr, "rank %d: operation %d of %llu bytes: status %d, %d allocations\n",
                    gyre_rank(comm), (int)shapes[s].operation, (unsigned long long)shapes[s].bytes,
                    status, counted);
            return 1;
        }
    }
    return 0;
}

static int body(struct gyre_comm *comm, struct rig *rig)
{
    char *memory[4] = {NULL, NULL, malloc(MOST), malloc(MOST)};
    (void)rig;
    if (gyre_alloc(comm, MOST, (void **)&memory[0]) || gyre_alloc(comm, MOST, (void **)&memory[1]))
        return 2;
    memset(memory[0], 0, MOST);
    memset(memory[2], 0, MOST);
    int bad = look(comm, memory);
    bad |= gyre_barrier(comm) != 0;
    free(memory[2]);
    free(memory[3]);
    return gyre_finalize(comm) || bad;
}

/* -- over every transport ---------------------------------------------------------------------- */

static void over(struct rig rig)
{
    rig.body = body;
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void shm_allocates_nothing(void **state)
{
    (void)state;
    over((struct rig){.n = 2, .transport = "shm"});
    over((struct rig){.n = 3, .transport = "shm"});
    over((struct rig){.n = 3, .transport = "shm", .algorithm = "ring"});
}

static void tcp_over_epoll_allocates_nothing(void **state)
{
    (void)state;
    over((struct rig){.n = 3, .transport = "tcp", .poller = "epoll"});
}

static void tcp_over_io_uring_allocates_nothing(void **state)
{
    (void)state;
    over((struct rig){.n = 3, .transport = "tcp", .poller = "io_uring"});
}

static void mixed_nodes_allocate_nothing(void **state)
{
    (void)state;
    over((struct rig){.n = 4, .transport = "auto", .per_node = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_count),
        cmocka_unit_test(shm_allocates_nothing),
        cmocka_unit_test(tcp_over_epoll_allocates_nothing),
        cmocka_unit_test(tcp_over_io_uring_allocates_nothing),
        cmocka_unit_test(mixed_nodes_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
