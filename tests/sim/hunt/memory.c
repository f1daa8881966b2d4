/* The heap of a run: one arena, whose blocks know their owner. So a rank's allocation can be made
 * to fail, a rank that ends must have freed all, what a dead rank held goes with the arena, and
 * addresses are the same in every run. Freed memory is overwritten. The linker sends malloc() and
 * its kin here. */
#include "sim/hunt/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA   (UINT64_C(1) << 30)
#define CLASSES 31
#define OWNERS  (HUNT_RANKS + 1)
#define HEAD    64 /* before each block; blocks are aligned so */

struct block {
    struct block *next; /* of those that are free */
    uint64_t bytes;
    uint32_t class, owner;
};

static struct {
    uint8_t *start;
    uint64_t used;
    struct block *free[CLASSES];
    uint64_t held[OWNERS];
    uint64_t fails_in[OWNERS]; /* 0: never */
    bool failed[OWNERS];
} arena;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);

void hunt_memory_reset(void)
{
    if (!arena.start)
        arena.start = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena.used = 0;
    memset(arena.free, 0, sizeof arena.free);
    memset(arena.held, 0, sizeof arena.held);
    memset(arena.fails_in, 0, sizeof arena.fails_in);
    memset(arena.failed, 0, sizeof arena.failed);
}

void hunt_memory_fail(uint32_t rank, uint64_t skip)
{
    arena.fails_in[rank] = skip + 1;
}

bool hunt_memory_failed(uint32_t rank)
{
    return arena.failed[rank];
}

uint64_t hunt_memory_held(uint32_t rank)
{
    return arena.held[rank];
}

static bool inside(const void *memory)
{
    const uint8_t *at = memory;
    return arena.start && at >= arena.start && at < arena.start + ARENA;
}

static uint32_t owner_now(void)
{
    return hunt.here ? hunt.here->rank : HUNT_RANKS;
}

static struct block *take(uint32_t class)
{
    struct block *block = arena.free[class];
    if (block) {
        arena.free[class] = block->next;
        return block;
    }
    uint64_t bytes = HEAD + (UINT64_C(64) << class);
    if (arena.used + bytes > ARENA)
        return NULL;
    block = (struct block *)(arena.start + arena.used);
    arena.used += bytes;
    return block;
}

/* The simulated network has to have memory, and grows by powers of two inside calls of ranks; such
 * allocations, and those of realloc(), do not fail. */
static bool is_to_fail(uint32_t owner, uint64_t bytes)
{
    if (!arena.fails_in[owner] || (bytes & (bytes - 1)) == 0 || --arena.fails_in[owner])
        return false;
    arena.failed[owner] = true;
    hunt_note("an allocation fails", owner, 0, 0);
    return true;
}

static void *allocate(uint64_t bytes, uint32_t owner)
{
    uint32_t class = 0;
    while ((UINT64_C(64) << class) < bytes)
        class ++;
    struct block *block = class < CLASSES ? take(class) : NULL;
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    block->bytes = bytes;
    block->class = class;
    block->owner = owner;
    arena.held[owner] += bytes;
    return (uint8_t *)block + HEAD;
}

static void *allocate_or_fail(uint64_t bytes)
{
    uint32_t owner = owner_now();
    if (!is_to_fail(owner, bytes))
        return allocate(bytes, owner);
    errno = ENOMEM;
    return NULL;
}

void *hunt_allocate(uint64_t bytes)
{
    return allocate(bytes, HUNT_RANKS);
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return arena.start ? allocate_or_fail(bytes) : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    if (!arena.start)
        return __real_calloc(count, bytes);
    if (bytes && count > ARENA / bytes)
        return NULL;
    void *memory = allocate_or_fail(count * bytes);
    return memory ? memset(memory, 0, count * bytes) : NULL;
}

void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (!inside(memory)) {
        __real_free(memory);
        return;
    }
    struct block *block = (struct block *)((uint8_t *)memory - HEAD);
    if (block->owner == UINT32_MAX)
        hunt_wrong("a block of %llu bytes is freed twice", (unsigned long long)block->bytes);
    else
        arena.held[block->owner] -= block->bytes;
    memset(memory, 0xdd, block->bytes < 256 ? block->bytes : 256);
    block->owner = UINT32_MAX;
    block->next = arena.free[block->class];
    arena.free[block->class] = block;
}

void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    if (!arena.start || (memory && !inside(memory)))
        return __real_realloc(memory, bytes);
    void *fresh = allocate(bytes, owner_now());
    if (fresh && memory) {
        uint64_t had = ((struct block *)((uint8_t *)memory - HEAD))->bytes;
        memcpy(fresh, memory, had < bytes ? had : bytes);
        __wrap_free(memory);
    }
    return fresh;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return arena.start && alignment <= HEAD ? allocate_or_fail(bytes)
                                            : __real_aligned_alloc(alignment, bytes);
}
