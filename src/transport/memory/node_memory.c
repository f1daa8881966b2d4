/* The memory of a large node: where everything lies in the file, and who may write it.
 *
 * All of the file is mapped at once, readable, and this rank's parts of it writable: a stray write
 * into another rank's row is a fault here and no damage there. Nothing but the addresses is taken
 * before a page is touched. Huge pages would take two megabytes for each queue, so none are wished,
 * and a core dump would read every hole, so it leaves all of this out.
 *
 * Tested by tests/unit/transport/memory/node_memory_test.c. */
#include "transport/memory/node_memory.h"

#include "base/size.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      4096u
#define WORD_BITS 64u

struct porch {
    alignas(64) uint8_t bell[64];
    alignas(64) _Atomic uint32_t calls;
    alignas(64) _Atomic uint64_t called[]; /* a bit for each place */
};

static uint64_t porch_bytes(uint32_t places)
{
    uint64_t words = (places + WORD_BITS - 1) / WORD_BITS;
    return gyre_round_up(sizeof(struct porch) + words * sizeof(uint64_t), 64);
}

static uint64_t row_bytes(uint32_t places)
{
    return (uint64_t)places * GYRE_QUEUE_BYTES;
}

/* The first row: behind the proof and all porches. */
static uint64_t rows_at(uint32_t places)
{
    return PAGE + gyre_round_up(places * porch_bytes(places), PAGE);
}

uint64_t gyre_node_memory_bytes(uint32_t places)
{
    return rows_at(places) + places * row_bytes(places);
}

static struct porch *porch_of(const struct gyre_node_memory *memory, uint32_t place)
{
    return (struct porch *)(memory->base + PAGE + place * porch_bytes(memory->places));
}

/* Opens this rank's parts for writing: the porches, and its own row. */
static int open_own_parts(const struct gyre_node_memory *memory)
{
    const uint32_t places = memory->places;
    const uint64_t row = row_bytes(places);
    const int both = PROT_READ | PROT_WRITE;
    if (mprotect(memory->base, rows_at(places), both) ||
        mprotect(memory->base + rows_at(places) + memory->own * row, row, both))
        return -errno;
    madvise(memory->base, gyre_node_memory_bytes(places), MADV_NOHUGEPAGE); /* wishes both */
    madvise(memory->base, gyre_node_memory_bytes(places), MADV_DONTDUMP);
    return 0;
}

static int map_failed(struct gyre_trouble *trouble, int status, uint32_t places)
{
    return gyre_trouble_set(trouble, status,
                            "mapping the memory of a node of %u ranks, %llu bytes of addresses: "
                            "%s%s",
                            places, (unsigned long long)gyre_node_memory_bytes(places),
                            gyre_status_name(status),
                            status == -ENOMEM ? "; raise `ulimit -v`" : "");
}

int gyre_node_memory_map(struct gyre_node_memory *memory, int fd, uint32_t places, uint32_t own,
                         uint32_t ranks, struct gyre_trouble *trouble)
{
    struct gyre_node_memory fresh = {.places = places, .own = own, .ranks = ranks};
    void *base = mmap(NULL, gyre_node_memory_bytes(places), PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return map_failed(trouble, -errno, places);
    fresh.base = base;
    fresh.place = malloc(ranks * sizeof *fresh.place);
    fresh.rank = malloc(places * sizeof *fresh.rank);
    int status = fresh.place && fresh.rank ? open_own_parts(&fresh) : -ENOMEM;
    if (status) {
        gyre_node_memory_unmap(&fresh);
        return map_failed(trouble, status, places);
    }
    memset(fresh.place, 0xff, ranks * sizeof *fresh.place);
    memset(fresh.rank, 0xff, places * sizeof *fresh.rank);
    *memory = fresh;
    return 0;
}

void gyre_node_memory_seat(struct gyre_node_memory *memory, uint32_t place, uint32_t rank)
{
    memory->place[rank] = place;
    memory->rank[place] = rank;
}

void gyre_node_memory_unmap(struct gyre_node_memory *memory)
{
    if (memory->base)
        munmap(memory->base, gyre_node_memory_bytes(memory->places));
    free(memory->place);
    free(memory->rank);
    *memory = (struct gyre_node_memory){0};
}

struct gyre_region gyre_node_memory_queue(const struct gyre_node_memory *memory, uint32_t from,
                                          uint32_t to)
{
    uint8_t *row = memory->base + rows_at(memory->places) + from * row_bytes(memory->places);
    return (struct gyre_region){.base = row + (uint64_t)to * GYRE_QUEUE_BYTES,
                                .length = GYRE_QUEUE_BYTES};
}

void *gyre_node_memory_bell(const struct gyre_node_memory *memory, uint32_t place)
{
    return porch_of(memory, place)->bell;
}

/* -- calls ------------------------------------------------------------------------------------- */

/* The bit comes before the count: who sees a new count finds the bit. */
void gyre_node_memory_call(const struct gyre_node_memory *memory, uint32_t place)
{
    struct porch *porch = porch_of(memory, place);
    const uint64_t bit = UINT64_C(1) << memory->own % WORD_BITS;
    atomic_fetch_or(&porch->called[memory->own / WORD_BITS], bit);
    atomic_fetch_add(&porch->calls, 1);
}

uint32_t gyre_node_memory_calls(const struct gyre_node_memory *memory)
{
    return atomic_load_explicit(&porch_of(memory, memory->own)->calls, memory_order_acquire);
}

bool gyre_node_memory_has_called(const struct gyre_node_memory *memory, uint32_t place)
{
    const struct porch *porch = porch_of(memory, memory->own);
    return atomic_load(&porch->called[place / WORD_BITS]) >> place % WORD_BITS & 1;
}
