/* After the first call of a shape nothing is allocated until its completion, on any rank; nor in a
 * step of training, once buckets are cut for good.
 *
 * The linker sends every call of malloc and its kin from this program and from the (static) library
 * through the counters below; all threads of a rank are counted. A shape is warmed up by one
 * blocking call on gyre_alloc() memory; then every other way to ask for it is counted: other
 * memory, in place, started.
 *
 *      warm up ── counting ─▶ all memories × in place or not × blocking, started, tested ─▶ 0
 *
 * In haste each once, not three times, and 1 MiB at most, not 8. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <gyre/ddp.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

#define MOST (8u << 20)

static uint64_t most(void)
{
    return in_haste() ? 1u << 20 : MOST;
}

enum operation {
    ALL_REDUCE,
    BROADCAST,
    BARRIER,
    REDUCE,
    ALL_GATHER,
    ALL_GATHER_V,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER
};

enum way { BLOCKING, WAITED, TESTED };

struct shape {
    enum operation operation;
    uint64_t bytes;
};

/* The buffers of one call; bytes of the shape are those of the longer one. */
struct buffers {
    const char *in;
    char *out;
    uint64_t elements; /* of a block */
    uint64_t counts[4];
};

/* Where both are the same memory, the single block stands at its place among the n. */
static struct buffers buffers_of(struct gyre_comm *comm, const struct shape *shape, const char *in,
                                 char *out)
{
    enum operation what = shape->operation;
    bool gathers = what == ALL_GATHER || what == ALL_GATHER_V || what == GATHER;
    bool scatters = what == REDUCE_SCATTER || what == SCATTER;
    bool same = in == out;
    uint64_t n = (uint64_t)gyre_size(comm), rank = (uint64_t)gyre_rank(comm);
    struct buffers b = {in, out, shape->bytes / 4, {0}};
    if (gathers || scatters || what == ALL_TO_ALL)
        b.elements /= n;
    for (uint64_t r = 0; r < n; r++)
        b.counts[r] = b.elements;
    if (same && gathers)
        b.in = out + rank * b.elements * 4;
    if (same && scatters)
        b.out = out + rank * b.elements * 4;
    return b;
}

static int block(struct gyre_comm *comm, const struct shape *shape, const struct buffers *b)
{
    switch (shape->operation) {
    case ALL_REDUCE:
        return gyre_all_reduce(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM);
    case BROADCAST:
        return gyre_broadcast(comm, b->in, b->out, b->elements, GYRE_I32, 1);
    case BARRIER:
        return gyre_barrier(comm);
    case REDUCE:
        return gyre_reduce(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM, 1);
    case ALL_GATHER:
        return gyre_all_gather(comm, b->in, b->out, b->elements, GYRE_I32);
    case ALL_GATHER_V:
        return gyre_all_gather_v(comm, b->in, b->out, b->counts, NULL, GYRE_I32);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM);
    case ALL_TO_ALL:
        return gyre_all_to_all(comm, b->in, b->out, b->elements, GYRE_I32);
    case GATHER:
        return gyre_gather(comm, b->in, b->out, b->elements, GYRE_I32, 1);
    case SCATTER:
        return gyre_scatter(comm, b->in, b->out, b->elements, GYRE_I32, 1);
    }
    return 1;
}

static int start(struct gyre_comm *comm, const struct shape *shape, const struct buffers *b,
                 struct gyre_work **work)
{
    switch (shape->operation) {
    case ALL_REDUCE:
        return gyre_all_reduce_start(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM, work);
    case BROADCAST:
        return gyre_broadcast_start(comm, b->in, b->out, b->elements, GYRE_I32, 1, work);
    case BARRIER:
        return gyre_barrier_start(comm, work);
    case REDUCE:
        return gyre_reduce_start(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM, 1, work);
    case ALL_GATHER:
        return gyre_all_gather_start(comm, b->in, b->out, b->elements, GYRE_I32, work);
    case ALL_GATHER_V:
        return gyre_all_gather_v_start(comm, b->in, b->out, b->counts, NULL, GYRE_I32, work);
    case REDUCE_SCATTER:
        return gyre_reduce_scatter_start(comm, b->in, b->out, b->elements, GYRE_I32, GYRE_SUM,
                                         work);
    case ALL_TO_ALL:
        return gyre_all_to_all_start(comm, b->in, b->out, b->elements, GYRE_I32, work);
    case GATHER:
        return gyre_gather_start(comm, b->in, b->out, b->elements, GYRE_I32, 1, work);
    case SCATTER:
        return gyre_scatter_start(comm, b->in, b->out, b->elements, GYRE_I32, 1, work);
    }
    return 1;
}

static int call(struct gyre_comm *comm, const struct shape *shape, enum way way, const char *in,
                char *out)
{
    const struct buffers b = buffers_of(comm, shape, in, out);
    struct gyre_work *work;
    int status;
    if (way == BLOCKING)
        return block(comm, shape, &b);
    if ((status = start(comm, shape, &b, &work)))
        return status;
    if (way == WAITED)
        return gyre_work_wait(work, -1);
    while ((status = gyre_work_test(work)) == GYRE_AGAIN)
        continue;
    return status;
}

static int every_way(struct gyre_comm *comm, const struct shape *shape, char *memory[4])
{
    const int rounds = in_haste() ? 1 : 3;
    int status = 0;
    for (int kind = 0; kind < 4; kind++)
        for (enum way way = BLOCKING; way <= TESTED; way++)
            for (int round = 0; round < rounds && !status; round++)
                status = call(comm, shape, way, memory[kind & 2], memory[(kind & 2) + (kind & 1)]);
    return status;
}

static const struct shape shapes[] = {
    {BARRIER, 0},
    {ALL_REDUCE, 8},
    {BROADCAST, 8},
    {ALL_REDUCE, 64 << 10},
    {BROADCAST, 64 << 10},
    {ALL_REDUCE, MOST},
    {BROADCAST, MOST},
    {REDUCE, 8},
    {REDUCE, 1 << 20},
    {ALL_GATHER, 64},
    {ALL_GATHER, 1 << 20},
    {ALL_GATHER_V, 64},
    {ALL_GATHER_V, 1 << 20},
    {REDUCE_SCATTER, 64},
    {REDUCE_SCATTER, 1 << 20},
    {ALL_TO_ALL, 64},
    {ALL_TO_ALL, 1 << 20},
    {GATHER, 64},
    {GATHER, 1 << 20},
    {SCATTER, 64},
    {SCATTER, 1 << 20},
};

static int look(struct gyre_comm *comm, char *memory[4])
{
    for (unsigned s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        struct shape shape = shapes[s];
        if (shape.bytes > most())
            shape.bytes = most();
        int status = call(comm, &shape, BLOCKING, memory[0], memory[1]);
        counting = 1;
        if (!status)
            status = every_way(comm, &shape, memory);
        counting = 0;
        if (status || counted) {
            fprintf(stderr, "rank %d: operation %d of %llu bytes: status %d, %d allocations\n",
                    gyre_rank(comm), (int)shape.operation, (unsigned long long)shape.bytes, status,
                    counted);
            return 1;
        }
    }
    return 0;
}

/* More than may be in flight; and how many are, if nobody ends one meanwhile. */
#define HUNDRED 100
#define FLIGHT  60

struct turns { /* of ranks that start one after the other; NULL: as they come */
    struct rig *rig;
    int place;
};

static int hundred(struct gyre_comm *comm, char *memory[4], const struct turns *turns)
{
    const struct shape shape = {ALL_REDUCE, 4000};
    const struct buffers b = buffers_of(comm, &shape, memory[0], memory[1]);
    struct gyre_work *work[HUNDRED];
    int status = 0;
    if (turns)
        rig_until(&turns->rig->shared->ready, turns->place);
    for (int i = 0; i < HUNDRED && !status; i++) {
        if (turns && i == FLIGHT)
            turns->rig->shared->ready++;
        status = start(comm, &shape, &b, &work[i]);
    }
    for (int i = 0; i < HUNDRED && !status; i++)
        status = gyre_work_wait(work[i], -1);
    return status;
}

/* Tables grow while a rank has as much in flight as may be, as all but the last to start have; they
 * stay. */
static int look_at_hundreds(struct gyre_comm *comm, char *memory[4], struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm);
    int status = hundred(comm, memory, &(struct turns){rig, rank});
    if (!status)
        status = hundred(comm, memory, &(struct turns){rig, 2 * n - 1 - rank});
    counting = 1;
    if (!status)
        status = hundred(comm, memory, NULL);
    counting = 0;
    if (status || counted)
        fprintf(stderr, "rank %d: a hundred at once: status %d, %d allocations\n", rank, status,
                counted);
    return status || counted;
}

static int body(struct gyre_comm *comm, struct rig *rig)
{
    char *memory[4] = {NULL, NULL, malloc(most()), malloc(most())};
    if (gyre_alloc(comm, most(), (void **)&memory[0]) ||
        gyre_alloc(comm, most(), (void **)&memory[1]))
        return 2;
    memset(memory[0], 0, most());
    memset(memory[2], 0, most());
    int bad = look(comm, memory) || look_at_hundreds(comm, memory, rig);
    bad |= gyre_barrier(comm) != 0;
    free(memory[2]);
    free(memory[3]);
    return gyre_finalize(comm) || bad;
}

/* -- steps of training ------------------------------------------------------------------------- */

#define PARAMETERS 2
#define ELEMENTS   5000
#define WARM       10 /* steps; in the first of them buckets are cut anew */
#define STEPS      40

static void as_it_is(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                     void *context)
{
    (void)context;
    memcpy(wire, gradient, parcel->count * sizeof *gradient);
}

static void back(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                 void *context)
{
    (void)context;
    memcpy(gradient, wire, parcel->count * sizeof *gradient);
}

static int step(struct gyre_ddp *ddp)
{
    int status = gyre_ddp_begin(ddp, 1);
    for (int p = PARAMETERS - 1; p >= 0 && !status; p--)
        status = gyre_ddp_ready(ddp, p);
    if (!status)
        status = gyre_ddp_wait(ddp);
    return status ? status : gyre_ddp_gather(ddp);
}

static int train(struct gyre_comm *comm, const struct gyre_ddp_options *options, bool counts,
                 const char *what)
{
    static float value[PARAMETERS][ELEMENTS];
    const struct gyre_ddp_parameter parameter[PARAMETERS] = {
        {"a", GYRE_F32, 1, {ELEMENTS}, value[0]}, {"b", GYRE_F32, 1, {ELEMENTS}, value[1]}};
    struct gyre_ddp *ddp;
    int status = gyre_ddp_create(&ddp, comm, parameter, PARAMETERS, options);
    for (int i = 0; i < STEPS && !status; i++) {
        counting = counts && i >= WARM;
        status = step(ddp);
    }
    counting = 0;
    if (status || counted)
        fprintf(stderr, "rank %d: steps with %s: status %d, %d allocations\n", gyre_rank(comm),
                what, status, counted);
    gyre_ddp_destroy(ddp);
    return status || counted;
}

/* Values are compared every few steps, in all of them. */
static int train_every_way(struct gyre_comm *comm, bool counts)
{
    const struct gyre_ddp_hook hook = {
        .name = "mean", .type = GYRE_F32, .op = GYRE_AVG, .encode = as_it_is, .decode = back};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    options.first_bucket = options.bucket_cap = 1;
    options.compare_every = 7;
    int bad = train(comm, &options, counts, "gradients as they are");
    options.hook = &hook;
    bad |= train(comm, &options, counts, "a hook, and notes beside it");
    options.hook = NULL;
    options.wire = GYRE_DDP_WIRE_BF16;
    bad |= train(comm, &options, counts, "gradients as bf16");
    options.sharded = 1;
    bad |= train(comm, &options, counts, "parts for each rank");
    options.norm = 1;
    return train(comm, &options, counts, "parts for each rank, and a norm") || bad;
}

/* How much of a step is in flight at once is chance: all lanes are there before anything counts. */
static int training(struct gyre_comm *comm, struct rig *rig)
{
    static char buffers[2][4000];
    char *memory[4] = {buffers[0], buffers[1]};
    int n = gyre_size(comm), rank = gyre_rank(comm);
    int bad = train_every_way(comm, false) || hundred(comm, memory, &(struct turns){rig, rank}) ||
              hundred(comm, memory, &(struct turns){rig, 2 * n - 1 - rank}) ||
              train_every_way(comm, true);
    return gyre_finalize(comm) || bad;
}

/* -- over every transport ---------------------------------------------------------------------- */

static void over(struct rig rig)
{
    rig.body = body;
    assert_int_equal(rig_run(&rig, 60), 0);
    rig.body = training;
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void shm_allocates_nothing(void **state)
{
    (void)state;
    over((struct rig){.n = 2, .transport = "shm"});
    over((struct rig){.n = 3, .transport = "shm"});
    over((struct rig){.n = 3, .transport = "shm", .algorithm = "all_reduce:ring"});
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
