/* Making a mesh: everybody shares a board that only it can write and an outbox that all can, and
 * finds the others'. */
#include "collectives/mesh.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Regions of a communicator are shared in the same order by all, so a peer's ids are this rank's
 * own. */
static int find_peer(struct gyre_mesh *mesh, uint32_t peer, struct gyre_trouble *trouble)
{
    const struct timespec pause = {0, 20000};
    struct gyre_health *health = gyre_domain_health(mesh->domain);
    for (;;) {
        mesh->board[peer] =
            gyre_domain_view(mesh->domain, peer, mesh->board_id, 0, sizeof(struct gyre_board));
        mesh->outbox[peer] =
            gyre_domain_view(mesh->domain, peer, mesh->outbox_id, 0, sizeof(struct gyre_outbox));
        if (mesh->board[peer] && mesh->outbox[peer])
            return 0;
        int status = atomic_load(&health->status);
        if (status)
            return gyre_trouble_set(trouble, status, "%s", health->failure.text);
        nanosleep(&pause, NULL);
    }
}

int gyre_mesh_create(struct gyre_domain *domain, struct gyre_mesh **out,
                     struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = gyre_domain_joined(domain);
    struct gyre_mesh *mesh = calloc(1, sizeof(*mesh));
    void *board, *outbox;
    if (!mesh)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a mesh");
    mesh->domain = domain;
    mesh->rank = joined->rank;
    mesh->n = joined->n;
    int status = gyre_domain_share(domain, sizeof(struct gyre_board), GYRE_SHARE_SEALED, &board,
                                   &mesh->board_id, trouble);
    if (!status)
        status = gyre_domain_share(domain, sizeof(struct gyre_outbox), GYRE_SHARE_OPEN, &outbox,
                                   &mesh->outbox_id, trouble);
    if (!status) {
        mesh->mine = board;
        mesh->board[mesh->rank] = board;
        mesh->outbox[mesh->rank] = outbox;
    }
    for (uint32_t peer = 0; !status && peer < mesh->n; peer++)
        if (peer != mesh->rank)
            status = find_peer(mesh, peer, trouble);
    if (status) {
        free(mesh);
        return status;
    }
    *out = mesh;
    return 0;
}

void gyre_mesh_destroy(struct gyre_mesh *mesh)
{
    free(mesh); /* its shared memory is the domain's */
}
