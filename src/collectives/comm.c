/* The communicator: what gyre/gyre.h promises, apart from the operations themselves (operations.c).
 *
 *   gyre_init ─▶ domain (job, peers, watch, links) ─▶ mesh, where all ranks share memory ─▶ engine
 *
 * A world of 1 has a domain without peers and no engine: its operations are copies. */
#include "collectives/comm.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "collectives/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gyre_version(void)
{
    return GYRE_VERSION_MAJOR * 10000 + GYRE_VERSION_MINOR * 100 + GYRE_VERSION_PATCH;
}

/* -- init -------------------------------------------------------------------------------------- */

static int read_settings(struct gyre_hub *hub, struct gyre_trouble *trouble)
{
    struct gyre_engine_options *options = &hub->settings;
    int64_t lanes = 0;
    int status = gyre_log_check(trouble);
    if (!status)
        status = gyre_reduce_check(trouble);
    if (!status)
        status = gyre_preference_read(&hub->preference, trouble);
    if (!status)
        status = gyre_env_size("GYRE_SLICE", &options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_refuse_zero("GYRE_SLICE", options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_int("GYRE_LANES", 1, GYRE_LANES_MAX, &lanes, trouble);
    options->lanes = (uint32_t)lanes;
    options->preference = &hub->preference;
    return status;
}

/* What a program was compiled with may end before the newest fields, which then are as if unset. */
static int take_options(const struct gyre_options *given, struct gyre_options *options,
                        struct gyre_trouble *trouble)
{
    const size_t first = offsetof(struct gyre_options, devices);
    *options = (struct gyre_options)GYRE_OPTIONS_INIT;
    if (!given)
        return 0;
    if (given->size != first && given->size != sizeof(*options))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_options.size is %zu, this library knows %zu and %zu: set it "
                                "to sizeof(struct gyre_options)",
                                given->size, first, sizeof(*options));
    memcpy(options, given, given->size);
    return 0;
}

static void take_seat(struct gyre_comm *comm)
{
    const struct gyre_layout *layout = comm->layout;
    uint32_t node = layout->node[comm->rank], first = layout->start[node];
    comm->seat = (struct gyre_node_place){.local_rank = layout->place[comm->rank] - first,
                                          .local_size = layout->start[node + 1] - first,
                                          .node = node,
                                          .nodes = layout->nodes};
}

int gyre_comm_lay_out(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = gyre_domain_joined(comm->domain);
    uint32_t *node = malloc(comm->n * sizeof(*node));
    if (!node)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the layout of %u ranks", comm->n);
    for (uint32_t rank = 0; rank < comm->n; rank++)
        node[rank] = joined->member[gyre_comm_world(comm, rank)].node;
    int status = gyre_layout_create(node, comm->n, &comm->layout, trouble);
    free(node);
    if (status)
        return status;
    take_seat(comm);
    if (comm->layout->nodes == 1) {
        gyre_layout_destroy(comm->layout);
        comm->layout = NULL;
    }
    return 0;
}

static int open_mesh(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    struct gyre_mesh_options options = {comm->rank, comm->n, NULL};
    if (comm->seat.nodes > 1 || comm->n == 1 || comm->n > GYRE_PEERS_MAPPED_MAX)
        return 0;
    int status = gyre_mesh_create(comm->domain, &options, &comm->mesh, trouble);
    return status ? status : gyre_mesh_meet(comm->mesh, NULL, trouble);
}

/* What the roster says is the same on every rank, as whatever selection uses must be. */
static bool one_machine(const struct gyre_comm *comm)
{
    const struct gyre_member *member = gyre_domain_joined(comm->domain)->member;
    const char *first = member[gyre_comm_world(comm, 0)].host;
    for (uint32_t rank = 1; rank < comm->n; rank++)
        if (strcmp(member[gyre_comm_world(comm, rank)].host, first) != 0)
            return false;
    return true;
}

int gyre_comm_open_engine(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    struct gyre_engine_options options = comm->hub->settings;
    options.rank = comm->rank;
    options.n = comm->n;
    options.comm = (uint16_t)comm->id;
    options.world = comm->world;
    options.links = comm->hub->links;
    options.mesh = comm->mesh;
    options.keeper = comm->mesh ? NULL : comm->domain;
    options.carrier = comm->hub->carrier.device ? &comm->hub->carrier : NULL;
    options.layout = comm->layout;
    options.near = GYRE_LINK_SHM;
    options.far = one_machine(comm) ? GYRE_LINK_LOOPBACK : GYRE_LINK_NETWORK;
    int status = gyre_work_init(comm, trouble);
    return status || comm->n == 1 ? status : gyre_engine_create(&options, &comm->engine, trouble);
}

static int open_world(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = gyre_domain_joined(comm->domain);
    comm->rank = joined->rank;
    comm->n = joined->n;
    comm->activity = gyre_domain_activity(comm->domain);
    gyre_hub_init(comm->hub, comm->domain);
    gyre_hub_add(comm->hub, comm);
    int status = gyre_comm_lay_out(comm, trouble);
    if (!status)
        status = open_mesh(comm, trouble);
    return status ? status : gyre_comm_open_engine(comm, trouble);
}

void gyre_comm_free(struct gyre_comm *comm)
{
    gyre_work_deinit(comm);
    gyre_engine_destroy(comm->engine);
    gyre_pairs_destroy(comm);
    gyre_group_deinit(&comm->group);
    free(comm->vector_plan);
    gyre_layout_destroy(comm->layout);
    gyre_mesh_destroy(comm->mesh);
    pthread_mutex_destroy(&comm->registered_lock);
    if (comm->id) {
        free(comm->activity);
        free(comm->world);
        free(comm->above);
    }
    free(comm);
}

/* Returns what became of the job up to the last goodbye. */
static int world_free(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    struct gyre_hub *hub = world->hub;
    gyre_carrier_deinit(&hub->carrier); /* its work may read what peers share */
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (hub->comm[id] && hub->comm[id]->engine)
            gyre_engine_part(hub->comm[id]->engine);
    int status = gyre_domain_close(world->domain, trouble);
    for (uint32_t id = 1; id < GYRE_COMM_IDS; id++)
        if (hub->comm[id])
            gyre_comm_free(hub->comm[id]);
    gyre_comm_free(world);
    free(hub);
    return status;
}

int gyre_init(struct gyre_comm **out, const struct gyre_options *options)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    char configuration[GYRE_PREFERENCE_TEXT + 80];
    struct gyre_options taken;
    *trouble = (struct gyre_trouble){0};
    if (!out)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_init: the place for the communicator is NULL");
    *out = NULL;
    int status = take_options(options, &taken, trouble);
    if (status)
        return status;
    struct gyre_comm *comm = calloc(1, sizeof(*comm));
    struct gyre_hub *hub = calloc(1, sizeof(*hub));
    if (!comm || !hub) {
        free(comm);
        free(hub);
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a communicator");
    }
    comm->hub = hub;
    pthread_mutex_init(&comm->registered_lock, NULL);
    status = read_settings(hub, trouble);
    snprintf(configuration, sizeof(configuration), "%s GYRE_SLICE=%llu GYRE_LANES=%u",
             hub->preference.text, (unsigned long long)hub->settings.slice_bytes,
             hub->settings.lanes);
    struct gyre_domain_options domain = {&taken, configuration};
    if (!status)
        status = gyre_domain_open(&domain, &comm->domain, trouble);
    if (!status)
        status = open_world(comm, trouble);
    if (status) {
        gyre_trouble_set(trouble, status, "gyre_init: %s", gyre_status_name(status));
        world_free(comm, NULL);
        return status;
    }
    *out = comm;
    return 0;
}

/* -- end --------------------------------------------------------------------------------------- */

static bool is_idle(void *context)
{
    const struct gyre_comm *comm = context;
    return !__atomic_load_n(&comm->busy, __ATOMIC_RELAXED);
}

void gyre_comm_finish_work(struct gyre_comm *comm)
{
    struct gyre_wait wait = {is_idle, comm, UINT64_MAX, {0}};
    gyre_domain_enter(comm->domain);
    gyre_comm_focus(comm);
    gyre_hub_wait(comm->hub, &wait);
    gyre_domain_leave(comm->domain);
}

static bool all_idle(void *context)
{
    const struct gyre_hub *hub = context;
    return __atomic_load_n(&hub->busies, __ATOMIC_RELAXED) == 0;
}

static void finish_all(struct gyre_comm *world)
{
    struct gyre_wait wait = {all_idle, world->hub, UINT64_MAX, {0}};
    gyre_domain_enter(world->domain);
    gyre_hub_wait(world->hub, &wait);
    gyre_domain_leave(world->domain);
}

int gyre_finalize(struct gyre_comm *comm)
{
    if (!comm)
        return 0;
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    int open = gyre_group_left_open(comm);
    if (comm->id) {
        int ended = gyre_comm_end(comm);
        return ended ? ended : open;
    }
    finish_all(comm);
    gyre_helper_stop(comm->hub);
    int status = atomic_load(&comm->hub->failed);
    int health = world_free(comm, gyre_thread_trouble());
    status = status ? status : health;
    return status ? status : open;
}

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
    gyre_trouble_set(&comm->hub->trouble, GYRE_ABORTED, "%s", text);
    int fine = 0;
    atomic_compare_exchange_strong(&comm->hub->failed, &fine, GYRE_ABORTED);
    return 0;
}

const char *gyre_error(const struct gyre_comm *comm)
{
    if (!comm)
        return gyre_thread_trouble()->text;
    struct gyre_health *health = gyre_domain_health(comm->domain);
    if (atomic_load_explicit(&health->status, memory_order_acquire))
        return health->failure.text;
    if (comm->hub->trouble.status)
        return comm->hub->trouble.text;
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
    return comm ? (int)comm->seat.local_rank : -1;
}

int gyre_local_size(const struct gyre_comm *comm)
{
    return comm ? (int)comm->seat.local_size : -1;
}

int gyre_node(const struct gyre_comm *comm)
{
    return comm ? (int)comm->seat.node : -1;
}

int gyre_nodes(const struct gyre_comm *comm)
{
    return comm ? (int)comm->seat.nodes : -1;
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
    return atomic_load(&comm->hub->failed);
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
    for (uint32_t i = 0; i < comm->registereds; i++)
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
         full = comm->registereds == GYRE_REGISTERED_MAX;
    if (!known && !full)
        comm->registered[comm->registereds++] = (struct gyre_registered){memory, bytes};
    pthread_mutex_unlock(&comm->registered_lock);
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
    if (found)
        *found = comm->registered[--comm->registereds];
    pthread_mutex_unlock(&comm->registered_lock);
    return found ? 0 : invalid("%s: %p is not registered%.0zu", "gyre_unregister", memory, 0);
}
