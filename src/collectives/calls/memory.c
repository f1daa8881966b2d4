/* The calls for memory: memory that peers can map, and memory that links may pin. Tested by
 * tests/program/collectives/memory.c. */
#include "base/log.h"
#include "collectives/comm/arguments.h"

/* Allocates memory. Memory that peers cannot map is good for all operations too: these go through
 * staging. */
static int alloc_memory(struct gyre_comm *comm, const char *call, enum gyre_memory_kind kind,
                        size_t bytes, void **memory)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    uint32_t id;
    void *base;
    int status = gyre_comm_check(comm, call);
    if (status)
        return status;
    *trouble = (struct gyre_trouble){0};
    if (!memory || !bytes)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: %s", call,
                                memory ? "0 bytes were asked for"
                                       : "the place for the address is NULL");
    status = gyre_domain_share(comm->domain, kind, bytes, GYRE_SHARE_OPEN, &base, &id, trouble);
    if (status && (status != GYRE_UNSUPPORTED || !base))
        return status;
    if (status)
        gyre_log(GYRE_LOG_INFO, "%s: %zu bytes stay with this rank: %s", call, bytes,
                 trouble->text);
    gyre_domain_give(comm->domain, base);
    *memory = base;
    return 0;
}

int gyre_alloc(struct gyre_comm *comm, size_t bytes, void **memory)
{
    return alloc_memory(comm, "gyre_alloc", GYRE_MEMORY_HOST, bytes, memory);
}

int gyre_alloc_device(struct gyre_comm *comm, size_t bytes, void **memory)
{
    return alloc_memory(comm, "gyre_alloc_device", GYRE_MEMORY_CUDA, bytes, memory);
}

int gyre_free(struct gyre_comm *comm, void *memory)
{
    if (!memory)
        return 0;
    if (!comm)
        return gyre_refuse("gyre_free: the communicator is NULL (memory %p)", memory);
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    if (gyre_domain_unshare(comm->domain, memory))
        return gyre_refuse("gyre_free: %p is not from gyre_alloc() or gyre_alloc_device()", memory);
    return 0;
}

static struct gyre_registered *find_registered(struct gyre_comm *comm, const void *memory)
{
    for (uint32_t i = 0; i < comm->registered_count; i++)
        if (comm->registered[i].memory == memory)
            return &comm->registered[i];
    return NULL;
}

int gyre_register(struct gyre_comm *comm, void *memory, size_t bytes)
{
    int status = gyre_comm_check(comm, "gyre_register");
    if (status)
        return status;
    if (!memory || !bytes)
        return gyre_refuse("gyre_register: memory %p of %zu bytes cannot be registered", memory,
                           bytes);
    pthread_mutex_lock(&comm->registered_lock);
    bool known = find_registered(comm, memory) != NULL,
         full = comm->registered_count == GYRE_REGISTERED_MAX;
    if (!known && !full)
        status = gyre_domain_lend(comm->domain, memory, bytes);
    if (!known && !full && !status)
        comm->registered[comm->registered_count++] = (struct gyre_registered){memory, bytes};
    pthread_mutex_unlock(&comm->registered_lock);
    if (status)
        return gyre_trouble_set(gyre_thread_trouble(), status, "gyre_register: no memory");
    if (known)
        return gyre_refuse("gyre_register: %p (%zu bytes) is registered already", memory, bytes);
    return full ? gyre_refuse("gyre_register: no room to register %p (%zu bytes); %d spans are "
                              "registered",
                              memory, bytes, GYRE_REGISTERED_MAX)
                : 0;
}

int gyre_unregister(struct gyre_comm *comm, void *memory)
{
    if (!comm)
        return gyre_refuse("gyre_unregister: the communicator is NULL (memory %p)", memory);
    pthread_mutex_lock(&comm->registered_lock);
    struct gyre_registered *found = find_registered(comm, memory);
    if (found) {
        gyre_domain_withdraw(comm->domain, found->memory, found->bytes);
        *found = comm->registered[--comm->registered_count];
    }
    pthread_mutex_unlock(&comm->registered_lock);
    return found ? 0 : gyre_refuse("gyre_unregister: %p is not registered", memory);
}
