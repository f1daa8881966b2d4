/* A process's communicators, made and ended.
 *
 *   gyre_init ─▶ domain (job, peers, watch, links) ─▶ mesh, where all ranks share memory ─▶ engine
 *
 * A world of 1 has a domain without peers and no engine: its operations are copies. local.c makes
 * several of them in one process. */
#include "collectives/comm/comm.h"

#include "base/env.h"
#include "base/log.h"
#include "collectives/schedule/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- init -------------------------------------------------------------------------------------- */

static int read_settings(struct gyre_progress_engine *progress, struct gyre_trouble *trouble)
{
    struct gyre_engine_options *options = &progress->settings;
    int64_t lanes = 0;
    int status = gyre_log_check(trouble);
    if (!status)
        status = gyre_reduce_check(trouble);
    if (!status)
        status = gyre_preference_read(&progress->preference, trouble);
    if (!status)
        status = gyre_env_size("GYRE_SLICE", &options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_refuse_zero("GYRE_SLICE", options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_int("GYRE_LANES", 1, GYRE_LANES_MAX, &lanes, trouble);
    options->lanes = (uint32_t)lanes;
    options->preference = &progress->preference;
    return status;
}

/* What a program was compiled with may end before the newest fields, which then are as if unset. */
int gyre_options_take(const struct gyre_options *given, struct gyre_options *options,
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

static void take_node_place(struct gyre_comm *comm)
{
    const struct gyre_layout *layout = comm->layout;
    uint32_t node = layout->node[comm->rank], first = layout->start[node];
    comm->node_place = (struct gyre_node_place){.local_rank = layout->place[comm->rank] - first,
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
    take_node_place(comm);
    if (comm->layout->nodes == 1) {
        gyre_layout_destroy(comm->layout);
        comm->layout = NULL;
    }
    return 0;
}

static int open_mesh(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    struct gyre_mesh_options options = {comm->rank, comm->n, NULL};
    if (comm->node_place.nodes > 1 || comm->n == 1 || comm->n > GYRE_PEERS_MAPPED_MAX)
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
    struct gyre_engine_options options = comm->progress->settings;
    options.rank = comm->rank;
    options.n = comm->n;
    options.comm = (uint16_t)comm->id;
    options.world = comm->world;
    options.links = comm->progress->links;
    options.mesh = comm->mesh;
    options.scratch_domain = comm->mesh ? NULL : comm->domain;
    options.fold_queue = comm->progress->fold_queue.device ? &comm->progress->fold_queue : NULL;
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
    gyre_progress_init(comm->progress, comm->domain);
    gyre_progress_add(comm->progress, comm);
    int status = gyre_comm_lay_out(comm, trouble);
    if (!status)
        status = open_mesh(comm, trouble);
    return status ? status : gyre_comm_open_engine(comm, trouble);
}

void gyre_comm_free(struct gyre_comm *comm)
{
    gyre_work_deinit(comm);
    gyre_engine_destroy(comm->engine);
    gyre_p2p_destroy(comm);
    gyre_group_deinit(&comm->group);
    free(comm->v_plan);
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

int gyre_world_free(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    struct gyre_progress_engine *progress = world->progress;
    gyre_fold_queue_deinit(&progress->fold_queue); /* its work may read what peers share */
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id] && progress->comm[id]->engine)
            gyre_engine_part(progress->comm[id]->engine);
    int status = gyre_domain_close(world->domain, trouble);
    for (uint32_t id = 1; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id])
            gyre_comm_free(progress->comm[id]);
    gyre_comm_free(world);
    free(progress);
    return status;
}

static struct gyre_comm *new_world(void)
{
    struct gyre_comm *comm = calloc(1, sizeof(*comm));
    struct gyre_progress_engine *progress = calloc(1, sizeof(*progress));
    if (!comm || !progress) {
        free(comm);
        free(progress);
        return NULL;
    }
    comm->progress = progress;
    pthread_mutex_init(&comm->registered_lock, NULL);
    return comm;
}

int gyre_world_create(const struct gyre_domain_options *options, struct gyre_comm **out,
                      struct gyre_trouble *trouble)
{
    struct gyre_comm *comm = new_world();
    if (!comm)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a communicator");
    int status = read_settings(comm->progress, trouble);
    if (!status)
        status = gyre_domain_prepare(options, &comm->domain, trouble);
    if (status)
        gyre_world_free(comm, NULL);
    else
        *out = comm;
    return status;
}

int gyre_world_meet(struct gyre_comm *comm, const char *made_by, struct gyre_trouble *trouble)
{
    char configuration[GYRE_PREFERENCE_TEXT + 120];
    const struct gyre_progress_engine *progress = comm->progress;
    snprintf(configuration, sizeof(configuration), "%s GYRE_SLICE=%llu GYRE_LANES=%u made_by=%s",
             progress->preference.text, (unsigned long long)progress->settings.slice_bytes,
             progress->settings.lanes, made_by);
    int status = gyre_domain_meet(comm->domain, configuration, trouble);
    return status ? status : open_world(comm, trouble);
}

int gyre_init(struct gyre_comm **out, const struct gyre_options *options)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    struct gyre_options taken;
    struct gyre_domain_options domain = {.user = &taken};
    struct gyre_comm *comm = NULL;
    *trouble = (struct gyre_trouble){0};
    if (!out)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_init: the place for the communicator is NULL");
    *out = NULL;
    int status = gyre_options_take(options, &taken, trouble);
    if (!status)
        status = gyre_world_create(&domain, &comm, trouble);
    if (!status && (status = gyre_world_meet(comm, "gyre_init", trouble)))
        gyre_world_free(comm, NULL);
    if (status)
        return gyre_trouble_set(trouble, status, "gyre_init: %s", gyre_status_name(status));
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
    gyre_progress_wait(comm->progress, &wait);
    gyre_domain_leave(comm->domain);
}

static bool all_idle(void *context)
{
    const struct gyre_progress_engine *progress = context;
    return __atomic_load_n(&progress->busy_count, __ATOMIC_RELAXED) == 0;
}

static void finish_all(struct gyre_comm *world)
{
    struct gyre_wait wait = {all_idle, world->progress, UINT64_MAX, {0}};
    gyre_domain_enter(world->domain);
    gyre_progress_wait(world->progress, &wait);
    gyre_domain_leave(world->domain);
}

int gyre_world_status(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    const struct gyre_health *health = gyre_domain_health(world->domain);
    int failed = atomic_load(&world->progress->failed), status = atomic_load(&health->status);
    if (status)
        *trouble = health->failure;
    return failed ? failed : status;
}

int gyre_world_end(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    finish_all(world);
    gyre_helper_stop(world->progress);
    int failed = atomic_load(&world->progress->failed);
    int status = gyre_world_free(world, trouble);
    return failed ? failed : status;
}

int gyre_finalize(struct gyre_comm *comm)
{
    if (!comm)
        return 0;
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    struct gyre_trouble *trouble = gyre_thread_trouble();
    int open = gyre_group_left_open(comm);
    int ended = comm->id                ? gyre_comm_end(comm)
                : comm->progress->local ? gyre_local_leave(comm, trouble)
                                        : gyre_world_end(comm, trouble);
    return ended ? ended : open;
}
