/* Tries copies between the devices of a node, before this rank shares its first CUDA memory.
 *
 * The trial (transport/memory/proof.h) uses a region of its own, and its result stays here for
 * later shares. Ranks that all have one device have nothing to try. A peer that could not try at
 * all (it had no memory left, say) is asked again the next time. Wrong bytes are remembered and
 * told once, and keep all memory of this rank to itself: operations and messages then go by way of
 * the host.
 *
 * Tested by tests/program/cuda/unshared.c. */
#include "transport/domain/inside.h"

#include "base/log.h"
#include "transport/memory/proof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether some rank of the node has a device that is not this rank's. */
static bool has_others(const struct gyre_domain *domain)
{
    const struct gyre_joined *joined = domain->joined;
    const uint8_t *own = joined->member[joined->rank].device;
    for (uint32_t peer = 0; peer < joined->n; peer++) {
        if (gyre_domain_mapped(domain, peer) && gyre_domain_has_cuda(domain, peer) &&
            memcmp(joined->member[peer].device, own, sizeof(joined->member[peer].device)))
            return true;
    }
    return false;
}

/* Reads the marks that the answering peers have left. */
static int read_marks(struct gyre_domain *domain, const struct gyre_region *region,
                      const bool *agreed, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    int status = 0;
    for (uint32_t peer = 0; !status && peer < joined->n; peer++) {
        if (!agreed[peer])
            continue;
        status = gyre_proof_end(domain->lookup.copy_queue, region,
                                (uint32_t)joined->member[peer].local_rank, trouble);
        if (status)
            gyre_trouble_wrap(trouble, "rank %u cannot write region %u", peer, GYRE_REGION_TRIAL);
    }
    return status;
}

static int try_with(struct gyre_domain *domain, const struct gyre_region *region,
                    struct gyre_trouble *trouble)
{
    bool *agreed = calloc(domain->joined->n, sizeof(*agreed));
    if (!agreed)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to try copies between devices");
    int status = gyre_proof_begin(domain->lookup.copy_queue, region, trouble);
    if (!status)
        status = gyre_watch_try(domain->watch, GYRE_REGION_TRIAL, region, agreed, trouble);
    if (!status)
        status = read_marks(domain, region, agreed, trouble);
    free(agreed);
    return status;
}

static int try_copies(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_region region;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    int status =
        cuda->alloc(domain->cuda_device, gyre_proof_bytes((uint32_t)domain->joined->local_size),
                    GYRE_SHARE_OPEN, &region, trouble);
    if (status)
        return status;
    status = try_with(domain, &region, trouble);
    cuda->free(&region);
    return status;
}

static void find_out(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_domain_proof *proof = &domain->proof;
    int status = try_copies(domain, trouble);
    proof->right = status == 0;
    if (status != GYRE_CORRUPT)
        return;
    gyre_trouble_set(&proof->wrong, GYRE_UNSUPPORTED, "%s", trouble->text);
    gyre_log(GYRE_LOG_WARN,
             "copies between GPU %d of %s and another are wrong, so CUDA memory of rank %u goes by "
             "way of the host: %s",
             domain->cuda_device, gyre_host_name(), domain->joined->rank, trouble->text);
}

int gyre_domain_prove(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_domain_proof *proof = &domain->proof;
    struct gyre_trouble found = {0};
    if (domain->cuda_device < 0 || !has_others(domain))
        return 0;
    pthread_mutex_lock(&proof->lock);
    if (!proof->right && !proof->wrong.status)
        find_out(domain, &found);
    else
        found = proof->wrong;
    pthread_mutex_unlock(&proof->lock);
    int status = found.status == GYRE_CORRUPT ? GYRE_UNSUPPORTED : found.status;
    return status ? gyre_trouble_set(trouble, status, "%s", found.text) : 0;
}

bool gyre_domain_copies_proven(struct gyre_domain *domain)
{
    struct gyre_domain_proof *proof = &domain->proof;
    if (domain->cuda_device < 0 || !gyre_domain_shares(domain))
        return false;
    pthread_mutex_lock(&proof->lock);
    bool right = proof->right;
    pthread_mutex_unlock(&proof->lock);
    return right || !has_others(domain);
}
