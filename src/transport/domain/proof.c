/* Has copies between the devices of a node tried, before this rank shares its first CUDA memory, or
 * lets the program's streams wait for peers.
 *
 * The watches of all ranks do it together (transport/watch/trial.c), and the result stays here for
 * later shares. Ranks that all have one device have nothing to try. A peer that could not try at
 * all (it had no memory left, say) is asked again when the program allocates. Wrong bytes are
 * remembered, and keep all memory of this rank to itself: operations and messages then go by way of
 * the host. What was right the process remembers of the devices, for its other domains: those may
 * begin while streams wait for peers.
 *
 * Tested by tests/program/cuda/unshared.c. */
#include "transport/domain/inside.h"

#include "base/log.h"

#include <string.h>

#define UUID_BYTES sizeof(((struct gyre_member *)0)->device)
#define KNOWN_MOST 256u

/* Two devices of which the process knows that the second copies rightly from and to memory of the
 * first. */
struct pair {
    uint8_t device[2][UUID_BYTES];
    bool here; /* the second is of a rank of this process, which maps memory in another way */
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair known[KNOWN_MOST];
static uint32_t known_count;

static struct pair pair_with(const struct gyre_domain *domain, uint32_t peer)
{
    const struct gyre_joined *joined = domain->joined;
    struct pair pair = {.here = gyre_job_here(&domain->job, peer)};
    memcpy(pair.device[0], joined->member[joined->rank].device, UUID_BYTES);
    memcpy(pair.device[1], joined->member[peer].device, UUID_BYTES);
    return pair;
}

static bool is_known_pair(const struct pair *pair)
{
    bool found = false;
    for (uint32_t i = 0; i < known_count && !found; i++)
        found = known[i].here == pair->here &&
                !memcmp(known[i].device, pair->device, sizeof(pair->device));
    return found;
}

/* Goes through the devices of the node that are not this rank's and of which nothing is known yet.
 * True: there are some. `learn`: they are known from now on, as far as there is room. */
static bool look_at_others(const struct gyre_domain *domain, bool learn)
{
    bool any = false;
    pthread_mutex_lock(&known_lock);
    for (uint32_t peer = 0; peer < domain->joined->n; peer++) {
        if (!gyre_domain_mapped(domain, peer) || !gyre_domain_has_cuda(domain, peer))
            continue;
        const struct pair pair = pair_with(domain, peer);
        if (!memcmp(pair.device[0], pair.device[1], UUID_BYTES) || is_known_pair(&pair))
            continue;
        any = true;
        if (learn && known_count < KNOWN_MOST)
            known[known_count++] = pair;
    }
    pthread_mutex_unlock(&known_lock);
    return any;
}

static bool has_others(const struct gyre_domain *domain)
{
    return look_at_others(domain, false);
}

/* Whether every rank of the node has a device. */
static bool whole_node_has_devices(const struct gyre_domain *domain)
{
    bool all = true;
    for (uint32_t peer = 0; peer < domain->joined->n; peer++)
        all &= !gyre_domain_mapped(domain, peer) || gyre_domain_has_cuda(domain, peer);
    return all;
}

static void find_out(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_domain_proof *proof = &domain->proof;
    int status = gyre_watch_try(domain->watch, trouble);
    proof->tried = true;
    proof->right = status == 0;
    if (proof->right)
        look_at_others(domain, true);
    if (status == GYRE_CORRUPT)
        gyre_trouble_set(&proof->wrong, GYRE_UNSUPPORTED, "%s", trouble->text);
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

bool gyre_domain_try_copies(struct gyre_domain *domain)
{
    struct gyre_domain_proof *proof = &domain->proof;
    struct gyre_trouble why = {0};
    if (domain->cuda_device < 0 || !gyre_domain_shares(domain))
        return false;
    pthread_mutex_lock(&proof->lock);
    if (!proof->tried && !has_others(domain))
        proof->tried = proof->right = true;
    bool right = proof->right, due = !proof->tried && whole_node_has_devices(domain);
    pthread_mutex_unlock(&proof->lock);
    if (due && !(right = gyre_domain_prove(domain, &why) == 0))
        gyre_log(GYRE_LOG_INFO, "CUDA memory that peers do not map goes by way of the host: %s",
                 why.text);
    return right;
}
