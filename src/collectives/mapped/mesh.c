/* Makes a mesh. Every rank shares a board that only its rank can write and an inbox that all can
 * write, and finds the others' boards and inboxes.
 *
 * The world's ranks share boards before anything else, so a peer's region ids equal this rank's
 * own. The ranks of a part of the world tell each other their ids.
 *
 * Tested by tests/program/collectives/split.c. */
#include "collectives/mapped/mesh.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static int find_peer(struct gyre_mesh *mesh, uint32_t rank, uint32_t board, uint32_t inbox,
                     struct gyre_trouble *trouble)
{
    const struct timespec pause = {0, 20000};
    struct gyre_health *health = gyre_domain_health(mesh->domain);
    uint32_t peer = gyre_mesh_world(mesh, rank);
    mesh->inbox_of[rank] = inbox;
    for (;;) {
        mesh->board[rank] = gyre_domain_view(mesh->domain, peer, board, GYRE_MEMORY_HOST, 0,
                                             sizeof(struct gyre_board));
        mesh->inbox[rank] = gyre_domain_view(mesh->domain, peer, inbox, GYRE_MEMORY_HOST, 0,
                                             sizeof(struct gyre_inbox));
        if (mesh->board[rank] && mesh->inbox[rank])
            return 0;
        int status = atomic_load(&health->status);
        if (status)
            return gyre_trouble_set(trouble, status, "%s", health->failure.text);
        nanosleep(&pause, NULL);
    }
}

int gyre_mesh_create(struct gyre_domain *domain, const struct gyre_mesh_options *options,
                     struct gyre_mesh **out, struct gyre_trouble *trouble)
{
    struct gyre_mesh *mesh = calloc(1, sizeof(*mesh));
    void *board = NULL, *inbox = NULL;
    if (!mesh)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a mesh");
    mesh->domain = domain;
    mesh->rank = options->rank;
    mesh->n = options->n;
    mesh->world = options->world;
    int status = gyre_domain_share(domain, GYRE_MEMORY_HOST, sizeof(struct gyre_board),
                                   GYRE_SHARE_SEALED, &board, &mesh->board_id, trouble);
    if (!status)
        status = gyre_domain_share(domain, GYRE_MEMORY_HOST, sizeof(struct gyre_inbox),
                                   GYRE_SHARE_OPEN, &inbox, &mesh->inbox_id, trouble);
    gyre_domain_settle(domain, board);
    gyre_domain_settle(domain, inbox);
    mesh->mine = board;
    mesh->board[mesh->rank] = board;
    mesh->inbox[mesh->rank] = inbox;
    *out = mesh;
    return status;
}

static bool all_have_devices(const struct gyre_mesh *mesh)
{
    bool all = true;
    for (uint32_t rank = 0; rank < mesh->n && all; rank++)
        all = gyre_domain_has_cuda(mesh->domain, gyre_mesh_world(mesh, rank));
    return all;
}

int gyre_mesh_meet(struct gyre_mesh *mesh, const uint32_t *ids, struct gyre_trouble *trouble)
{
    int status = 0;
    mesh->all_devices = all_have_devices(mesh);
    for (uint32_t rank = 0; !status && rank < mesh->n; rank++)
        if (rank != mesh->rank)
            status = find_peer(mesh, rank, ids ? ids[2 * rank] : mesh->board_id,
                               ids ? ids[2 * rank + 1] : mesh->inbox_id, trouble);
    return status;
}

void gyre_mesh_withdraw(struct gyre_mesh *mesh)
{
    if (mesh->mine)
        gyre_domain_unshare(mesh->domain, mesh->mine);
    if (mesh->inbox[mesh->rank])
        gyre_domain_unshare(mesh->domain, mesh->inbox[mesh->rank]);
}

void gyre_mesh_destroy(struct gyre_mesh *mesh)
{
    if (mesh)
        free(mesh->captured); /* tables live as long as graphs may be launched */
    free(mesh);               /* the domain frees its shared memory */
}
