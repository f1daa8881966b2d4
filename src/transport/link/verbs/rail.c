/* Which of several ports a rank takes.
 *
 *     local rank   0    1    2    3            the ports that are as good as the best one, in the
 *     port         a    b    c    a            order of the system. Machines alike have the same
 *                                              order, so rank i meets rank i of another node
 *                                              on one rail.
 *
 * Two ports are as good if their GIDs are of the same kind in the same subnet, and their links of
 * the same width and speed. Ports of another subnet are left alone, because nothing tells whether
 * there is a way between the two; GYRE_RDMA_DEVICE can name them. A node's only rank keeps the best
 * port, at which its peers reach it. */
#include "transport/link/verbs/wire.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

bool gyre_verbs_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid, mapped, sizeof mapped) == 0;
}

/* The mask of the interface that has the address; all ones where there is none. */
static uint32_t mask_of(uint32_t address)
{
    struct ifaddrs *list = NULL;
    uint32_t mask = UINT32_MAX;
    if (getifaddrs(&list))
        return mask;
    for (const struct ifaddrs *it = list; it; it = it->ifa_next) {
        const struct sockaddr_in *own = (const struct sockaddr_in *)it->ifa_addr;
        if (own && own->sin_family == AF_INET && own->sin_addr.s_addr == address && it->ifa_netmask)
            mask = ((const struct sockaddr_in *)it->ifa_netmask)->sin_addr.s_addr;
    }
    freeifaddrs(list);
    return mask;
}

static bool same_subnet(const uint8_t a[16], const uint8_t b[16])
{
    uint32_t here, there;
    if (!gyre_verbs_gid_is_ipv4(a) || !gyre_verbs_gid_is_ipv4(b))
        return memcmp(a, b, 8) == 0 && gyre_verbs_gid_is_ipv4(a) == gyre_verbs_gid_is_ipv4(b);
    memcpy(&here, a + 12, 4);
    memcpy(&there, b + 12, 4);
    return ((here ^ there) & mask_of(here)) == 0;
}

static bool is_equal(const struct gyre_verbs_rail *a, const struct gyre_verbs_rail *b)
{
    return a->worth == b->worth && a->rate == b->rate && same_subnet(a->gid, b->gid);
}

int gyre_verbs_rail_pick(const struct gyre_verbs_rail *rail, int count, int best, int local_rank,
                         int local_size)
{
    int alike[GYRE_VERBS_PORTS], found = 0;
    for (int i = 0; i < count; i++)
        if (is_equal(&rail[best], &rail[i]))
            alike[found++] = i;
    return local_size > 1 && found > 1 && local_rank >= 0 ? alike[local_rank % found] : best;
}
