/* The common part of making and ending any communicator. Tested by
 * tests/program/collectives/comm.c, nodes.c and split.c. */
#include "collectives/lifecycle/setup.h"

#include "collectives/comm/pack_memory.h"
#include "collectives/comm/progress.h"
#include "collectives/messages/point_to_point.h"
#include "collectives/schedule/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Whether all ranks are on one machine, by the roster, which is the same on every rank, as
 * selection needs. */
static bool on_one_machine(const struct gyre_comm *comm)
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
    options.far = on_one_machine(comm) ? GYRE_LINK_LOOPBACK : GYRE_LINK_NETWORK;
    int status = gyre_work_init(&comm->work, comm, trouble);
    return status || comm->n == 1 ? status : gyre_engine_create(&options, &comm->engine, trouble);
}

/* -- the end ----------------------------------------------------------------------------------- */

void gyre_comm_finish_work(struct gyre_comm *comm)
{
    struct gyre_wait wait = {.word = &comm->busy, .old = 1, .deadline = UINT64_MAX};
    gyre_domain_enter(comm->domain);
    gyre_comm_focus(comm);
    gyre_progress_wait(comm->progress, &wait);
    gyre_domain_leave(comm->domain);
}

void gyre_comm_unregister_all(struct gyre_comm *comm)
{
    pthread_mutex_lock(&comm->registered_lock);
    for (uint32_t i = 0; i < comm->registered_count; i++)
        gyre_domain_withdraw(comm->domain, comm->registered[i].memory, comm->registered[i].bytes);
    comm->registered_count = 0;
    pthread_mutex_unlock(&comm->registered_lock);
}

static void free_group(struct gyre_group *group)
{
    free(group->room);
    free(group->call);
    free(group->message);
    gyre_packs_free(group->pack);
}

void gyre_comm_free(struct gyre_comm *comm)
{
    gyre_work_deinit(&comm->work);
    gyre_engine_destroy(comm->engine);
    gyre_p2p_destroy(comm->p2p);
    free_group(&comm->group);
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
