/* The communicator: what gyre/gyre.h promises, apart from its making and end (world.c) and the
 * operations (operations.c): who this rank is, memory, and how a failure or a refusal is told. */
#include "collectives/comm/comm.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gyre_version(void)
{
    return GYRE_VERSION_MAJOR * 10000 + GYRE_VERSION_MINOR * 100 + GYRE_VERSION_PATCH;
}

/* -- failure ----------------------------------------------------------------------------------- */

int gyre_abort(struct gyre_comm *comm, const char *reason)
{
    char text[512];
    if (!comm)
        return gyre_trouble_set(gyre_thread_trouble(), GYRE_INVALID,
                                "gyre_abort: the communicator is NULL");
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    uint32_t rank = gyre_domain_joined(comm->domain)->rank;
    snprintf(text, sizeof(text), "rank %u called gyre_abort()%s%.400s", rank, reason ? ": " : "",
             reason ? reason : "");
    if (gyre_domain_watch(comm->domain)) {
        gyre_watch_report(gyre_domain_watch(comm->domain), GYRE_ABORTED, rank, false, text);
        return 0;
    }
    gyre_trouble_set(&comm->progress->trouble, GYRE_ABORTED, "%s", text);
    int fine = 0;
    atomic_compare_exchange_strong(&comm->progress->failed, &fine, GYRE_ABORTED);
    return 0;
}

/* Somebody may wait for what this rank calls. */
static bool counted_on(const struct gyre_comm *comm)
{
    return comm && !gyre_domain_forked(comm->domain) && comm->n > 1 &&
           !atomic_load_explicit(&comm->progress->failed, memory_order_relaxed);
}

int gyre_comm_refused(struct gyre_comm *comm, int status)
{
    if (!status || !counted_on(comm))
        return status;
    gyre_watch_refuse(gyre_domain_watch(comm->domain), comm->activity, comm->engine->sequence + 1,
                      gyre_thread_trouble()->text);
    comm->group.refused = comm->group.depth > 0;
    return status;
}

void gyre_comm_refused_in_group(struct gyre_comm *comm)
{
    if (comm->group.refused)
        gyre_watch_refuse(gyre_domain_watch(comm->domain), comm->activity,
                          comm->engine->sequence + 1, NULL);
    comm->group.refused = false;
}

int gyre_message_refused(struct gyre_comm *comm, int status)
{
    if (!status || !counted_on(comm))
        return status;
    gyre_domain_enter(comm->domain);
    gyre_p2p_refuse(comm, gyre_thread_trouble()->text);
    gyre_domain_leave(comm->domain);
    return status;
}

const char *gyre_error(const struct gyre_comm *comm)
{
    if (!comm)
        return gyre_thread_trouble()->text;
    struct gyre_health *health = gyre_domain_health(comm->domain);
    if (atomic_load_explicit(&health->status, memory_order_acquire))
        return health->failure.text;
    if (comm->progress->trouble.status)
        return comm->progress->trouble.text;
    return gyre_thread_trouble()->text;
}

/* -- who --------------------------------------------------------------------------------------- */

int gyre_rank(const struct gyre_comm *comm)
{
    return comm ? (int)comm->rank : -1;
}

int gyre_size(const struct gyre_comm *comm)
{
    return comm ? (int)comm->n : -1;
}

int gyre_local_rank(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.local_rank : -1;
}

int gyre_local_size(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.local_size : -1;
}

int gyre_node(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.node : -1;
}

int gyre_nodes(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.nodes : -1;
}

int gyre_device(const struct gyre_comm *comm)
{
    return comm ? gyre_domain_cuda(comm->domain) : -1;
}

int gyre_link_name(const struct gyre_comm *comm, int rank, char *text, size_t room)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    if (!comm || !text || !room || rank < 0 || rank >= (int)comm->n)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_link_name: rank %d: expected a communicator, one of its %d "
                                "ranks and room for the text",
                                rank, gyre_size(comm));
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    gyre_link_describe(gyre_domain_links(comm->domain), gyre_comm_world(comm, (uint32_t)rank), text,
                       room);
    return 0;
}

/* -- memory ------------------------------------------------------------------------------------ */

static int usable(struct gyre_comm *comm, const char *call)
{
    if (!comm)
        return gyre_trouble_set(gyre_thread_trouble(), GYRE_INVALID, "%s: the communicator is NULL",
                                call);
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    return atomic_load(&comm->progress->failed);
}

static int invalid(const char *format, const char *call, const void *memory, size_t bytes)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    return gyre_trouble_set(trouble, GYRE_INVALID, format, call, memory, bytes);
}

/* Memory that peers cannot map is memory all the same: operations go through staging. */
static int alloc_memory(struct gyre_comm *comm, const char *call, enum gyre_memory_kind kind,
                        size_t bytes, void **memory)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    uint32_t id;
    void *base;
    int status = usable(comm, call);
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
        return invalid("%s: the communicator is NULL (memory %p, %zu)", "gyre_free", memory, 0);
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    if (gyre_domain_unshare(comm->domain, memory))
        return invalid("%s: %p is not from gyre_alloc() or gyre_alloc_device()%.0zu", "gyre_free",
                       memory, 0);
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
    int status = usable(comm, "gyre_register");
    if (status)
        return status;
    if (!memory || !bytes)
        return invalid("%s: memory %p of %zu bytes cannot be registered", "gyre_register", memory,
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
        return invalid("%s: %p (%zu bytes) is registered already", "gyre_register", memory, bytes);
    return full ? invalid("%s: no room to register %p (%zu bytes); 256 spans are registered",
                          "gyre_register", memory, bytes)
                : 0;
}

int gyre_unregister(struct gyre_comm *comm, void *memory)
{
    if (!comm)
        return invalid("%s: the communicator is NULL (memory %p, %zu)", "gyre_unregister", memory,
                       0);
    pthread_mutex_lock(&comm->registered_lock);
    struct gyre_registered *found = find_registered(comm, memory);
    if (found) {
        gyre_domain_withdraw(comm->domain, found->memory, found->bytes);
        *found = comm->registered[--comm->registered_count];
    }
    pthread_mutex_unlock(&comm->registered_lock);
    return found ? 0 : invalid("%s: %p is not registered%.0zu", "gyre_unregister", memory, 0);
}

void gyre_comm_unregister_all(struct gyre_comm *comm)
{
    pthread_mutex_lock(&comm->registered_lock);
    for (uint32_t i = 0; i < comm->registered_count; i++)
        gyre_domain_withdraw(comm->domain, comm->registered[i].memory, comm->registered[i].bytes);
    comm->registered_count = 0;
    pthread_mutex_unlock(&comm->registered_lock);
}
