/* Memory that a wire's devices read and write past the rings.
 *
 *     memory                  registered                              where that is refused
 *     gyre_alloc(), scratch   by its addresses                        messages take the rings
 *     gyre_register()         by its addresses                        messages take the rings
 *     a CUDA device's, by     by its dma-buf, or by its addresses     messages are staged in host
 *     gyre_alloc_device()     where the kernel knows the device       memory
 *     or gyre_register()      (peer memory)
 *
 * Only memory whose life the library knows is registered, a region at a time, when a message first
 * lies in it: of other memory the library could not know that a registration is stale. A
 * registration is given up at the first look after its region has gone, or when the wire closes.
 *
 * A device's memory is not used where links may go on over TCP (GYRE_RDMA_FAILOVER): a socket
 * cannot read it. */
#include "transport/link/verbs/wire.h"

#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <unistd.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING)

/* -- what has gone ----------------------------------------------------------------------------- */

static void unregister(struct gyre_verbs_memory *memory)
{
    for (int i = 0; i < GYRE_VERBS_QUEUES; i++) {
        if (memory->registration[i])
            ibv_dereg_mr(memory->registration[i]);
        memory->registration[i] = NULL;
    }
}

static void release(struct gyre_verbs_memory *memory)
{
    unregister(memory);
    *memory = (struct gyre_verbs_memory){.id = 0};
}

static void release_what_is_gone(struct gyre_verbs_wire *wire)
{
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        if (wire->memory[i].id && !gyre_lookup_lives(wire->lookup, wire->memory[i].id))
            release(&wire->memory[i]);
}

void gyre_verbs_memory_tidy(struct gyre_verbs_wire *wire)
{
    if (!wire->lookup || gyre_lookup_gone(wire->lookup) == wire->gone)
        return;
    wire->gone = gyre_lookup_gone(wire->lookup);
    release_what_is_gone(wire);
}

void gyre_verbs_memory_close(struct gyre_verbs_wire *wire)
{
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        release(&wire->memory[i]);
}

static struct gyre_verbs_memory *free_memory_place(struct gyre_verbs_wire *wire)
{
    uint32_t i = 0;
    gyre_verbs_memory_tidy(wire);
    while (i < GYRE_VERBS_REGIONS && wire->memory[i].id)
        i++;
    return i < GYRE_VERBS_REGIONS ? &wire->memory[i] : NULL;
}

/* -- registering ------------------------------------------------------------------------------- */

/* `fd`: the dma-buf; negative: none. */
static struct ibv_mr *register_with(const struct gyre_verbs_card *card,
                                    const struct gyre_verbs_memory *memory, int fd)
{
    struct ibv_mr *made = NULL;
    if (fd >= 0)
        made = gyre_verbs_register_dmabuf(card->domain, fd, memory->base, memory->length, ACCESS);
    return made ? made : ibv_reg_mr(card->domain, memory->base, memory->length, ACCESS);
}

/* Registers with each card that is not left out, or with none: then *card is the one that
 * refused. */
static bool register_with_all(const struct gyre_verbs_wire *wire, struct gyre_verbs_memory *memory,
                              int fd, const struct gyre_verbs_card **card)
{
    for (uint32_t i = 0; i < wire->cards; i++) {
        *card = &wire->card[i];
        if ((*card)->context && !(memory->registration[i] = register_with(*card, memory, fd))) {
            int reason = errno;
            unregister(memory);
            errno = reason;
            return false;
        }
    }
    return true;
}

static void register_host(struct gyre_verbs_wire *wire, struct gyre_verbs_memory *memory)
{
    const struct gyre_verbs_card *card = NULL;
    char hint[160];
    if (register_with_all(wire, memory, -1, &card))
        return;
    const char *reason = strerror(errno);
    if (!wire->refused_memory)
        gyre_log(
            GYRE_LOG_WARN,
            "verbs: %s does not register %llu KiB of memory (%s), so messages in it are copied "
            "on their way: %s",
            card->name, (unsigned long long)memory->length / 1024, reason,
            gyre_verbs_memory_hint(hint));
    wire->refused_memory = true;
}

static void refuse_on_device(struct gyre_verbs_wire *wire, const struct gyre_verbs_memory *memory,
                             const char *who, const char *reason)
{
    if (!wire->refused_on_device)
        gyre_log(
            GYRE_LOG_WARN,
            "verbs: %s: %llu KiB of a device's memory cannot be written and read by RDMA (%s), "
            "so messages go through the host's",
            who, (unsigned long long)memory->length / 1024, reason);
    wire->refused_on_device = true;
}

/* By the dma-buf where there is one. The device must see what a card writes there. */
static void register_on_device(struct gyre_verbs_wire *wire, struct gyre_verbs_memory *memory)
{
    const struct gyre_verbs_card *card = NULL;
    struct gyre_trouble trouble = {0};
    if (gyre_lookup_flush(wire->lookup, &trouble)) {
        refuse_on_device(wire, memory, wire->name, trouble.text);
        return;
    }
    int fd = gyre_lookup_dma_buf(wire->lookup, memory->base, memory->length, &trouble);
    if (!register_with_all(wire, memory, fd, &card))
        refuse_on_device(wire, memory, card->name, fd < 0 ? trouble.text : strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* -- looking up -------------------------------------------------------------------------------- */

static bool sees_on_device(const struct gyre_verbs_wire *wire)
{
    return wire->copy_queue && !wire->failover;
}

static struct gyre_verbs_memory *known_place(struct gyre_verbs_wire *wire, uint32_t id)
{
    if (wire->recent && wire->recent->id == id)
        return wire->recent;
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        if (wire->memory[i].id == id)
            return &wire->memory[i];
    return NULL;
}

static struct gyre_verbs_memory *new_place(struct gyre_verbs_wire *wire,
                                           struct gyre_verbs_memory *found)
{
    struct gyre_verbs_memory *place = free_memory_place(wire);
    if (!place)
        return NULL;
    if (found->on_device)
        register_on_device(wire, found);
    else
        register_host(wire, found);
    if (found->registration[0])
        gyre_log(GYRE_LOG_INFO, "verbs: %llu KiB at %p are read and written in place by %s",
                 (unsigned long long)found->length / 1024, found->base, wire->name);
    *place = *found;
    return place;
}

const struct gyre_verbs_memory *gyre_verbs_memory_of(struct gyre_verbs_wire *wire,
                                                     const void *memory, uint64_t length)
{
    struct gyre_verbs_memory found = {.id = 0};
    if (wire->lookup)
        found.id = gyre_lookup_hold(wire->lookup, GYRE_MEMORY_HOST, memory, length, &found.base,
                                    &found.length);
    if (!found.id && sees_on_device(wire)) {
        found.id = gyre_lookup_hold(wire->lookup, GYRE_MEMORY_CUDA, memory, length, &found.base,
                                    &found.length);
        found.on_device = found.id;
    }
    struct gyre_verbs_memory *place = found.id ? known_place(wire, found.id) : NULL;
    if (!place && found.id)
        place = new_place(wire, &found);
    wire->recent = place ? place : wire->recent;
    return place && place->registration[0] ? place : NULL;
}

const struct ibv_mr *gyre_verbs_memory_by(const struct gyre_verbs_wire *wire,
                                          const struct gyre_verbs_memory *memory, uint32_t queue)
{
    return memory->registration[queue % wire->cards];
}
