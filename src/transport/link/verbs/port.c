/* Which device, port and GID a wire uses.
 *
 * Every GID of every port that is up is a candidate. The best one wins, in this order:
 *
 *     the address at which the peers reach this process      so both ends take the same network
 *     RoCE v2 over IPv4, over IPv6, InfiniBand, RoCE v2 link-local, RoCE v1
 *
 * Several ranks of a node are spread over the ports that are as good (rail.c): then the search is
 * repeated for this rank's port. Two variables leave fewer candidates. GYRE_RDMA_DEVICE is NAME or
 * NAME:PORT; of several with commas between, local rank i takes number i, and of several with +
 * between all of them. GYRE_RDMA_GID is an index. Where no candidate is left, the last obstacle is
 * told, which is the nearest miss. Only a test write tells whether a peer can be reached (meet.c).
 * Tested by tests/unit/transport/link/verbs/verbs_test.c. */
#include "transport/link/verbs/wire.h"

#include "base/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIDS_MOST 1024

struct search {
    char device[64];           /* "": any */
    int64_t number, gid_index; /* 0, -1: any */
    uint8_t address[16];       /* as a GID; zeros: unknown */
    int local_rank, local_size;
    struct gyre_verbs_rail rail[GYRE_VERBS_PORTS]; /* ports seen */
    int rails, best_rail;
    int best;
    struct gyre_verbs_port *port;
    struct ibv_context *context; /* of the best */
    char miss[256];
};

static bool is_zero(const uint8_t gid[16])
{
    static const uint8_t zero[16];
    return memcmp(gid, zero, 16) == 0;
}

void gyre_verbs_gid_name(const uint8_t gid[16], char name[GYRE_VERBS_NAME_MAX])
{
    if (gyre_verbs_gid_is_ipv4(gid))
        inet_ntop(AF_INET, gid + 12, name, GYRE_VERBS_NAME_MAX);
    else
        inet_ntop(AF_INET6, gid, name, GYRE_VERBS_NAME_MAX);
}

/* A loopback address tells nothing: every device of this machine is reached there. */
static void as_gid(const struct sockaddr_storage *address, uint8_t gid[16])
{
    memset(gid, 0, 16);
    if (address && address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        if (ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
            return;
        gid[10] = gid[11] = 0xff;
        memcpy(gid + 12, &in->sin_addr, 4);
    } else if (address && address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        if (!IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr))
            memcpy(gid, &in6->sin6_addr, 16);
    }
}

/* -- what was asked for ------------------------------------------------------------------------ */

/* A part of a longer text. */
struct text {
    const char *at;
    size_t length;
};

/* The text up to the separator. */
static struct text text_before(struct text list, char separator)
{
    const char *end = memchr(list.at, separator, list.length);
    return (struct text){list.at, end ? (size_t)(end - list.at) : list.length};
}

static uint32_t count_entries(struct text list, char separator)
{
    uint32_t count = 1;
    for (size_t i = 0; i < list.length; i++)
        count += list.at[i] == separator;
    return count;
}

static struct text entry_of(struct text list, char separator, uint32_t number)
{
    struct text entry = text_before(list, separator);
    for (; number; number--) {
        list.length -= entry.length + 1;
        list.at += entry.length + 1;
        entry = text_before(list, separator);
    }
    return entry;
}

/* This rank's entry of GYRE_RDMA_DEVICE; of no length: the variable is not set. */
static struct text wish_of(const struct gyre_wire_options *options)
{
    const char *device = getenv("GYRE_RDMA_DEVICE");
    struct text list = {device ? device : "", device ? strlen(device) : 0};
    uint32_t index = options->local_rank < 0 ? 0 : (uint32_t)options->local_rank;
    return entry_of(list, ',', index % count_entries(list, ','));
}

uint32_t gyre_verbs_port_count(const struct gyre_wire_options *options)
{
    return count_entries(wish_of(options), '+');
}

static int read_device(struct search *search, struct text entry, struct gyre_trouble *trouble)
{
    char number[8];
    struct text name = text_before(entry, ':');
    size_t left = entry.length - name.length;
    if (!name.length || name.length >= sizeof search->device || left > sizeof number)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_RDMA_DEVICE is \"%s\": expected a device, or device:port, "
                                "such as mlx5_0:1; with + between, several that a rank uses; with "
                                "commas between, those of each rank",
                                getenv("GYRE_RDMA_DEVICE"));
    memcpy(search->device, name.at, name.length);
    if (!left)
        return 0;
    snprintf(number, sizeof number, "%.*s", (int)left - 1, name.at + name.length + 1);
    return gyre_parse_int("GYRE_RDMA_DEVICE's port", number, 1, 255, &search->number, trouble);
}

static int read_wishes(struct search *search, const struct gyre_wire_options *options,
                       uint32_t number, struct gyre_trouble *trouble)
{
    const char *device = getenv("GYRE_RDMA_DEVICE");
    struct text wish = wish_of(options);
    search->gid_index = -1;
    int status = 0;
    if (device && *device)
        status = read_device(search, entry_of(wish, '+', number), trouble);
    if (status)
        return status;
    return gyre_env_int("GYRE_RDMA_GID", 0, GIDS_MOST - 1, &search->gid_index, trouble);
}

/* -- candidates -------------------------------------------------------------------------------- */

static int rank_gid(const struct ibv_gid_entry *entry)
{
    const uint8_t *raw = entry->gid.raw;
    bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
    switch (entry->gid_type) {
    case IBV_GID_TYPE_ROCE_V2:
        return gyre_verbs_gid_is_ipv4(raw) ? 5 : link_local ? 2 : 4;
    case IBV_GID_TYPE_IB:
        return 3;
    default:
        return 1;
    }
}

/* The port's place among those seen, with its best GID. Ports beyond the last place share it. */
static int note_rail(struct search *search, struct ibv_context *context, uint8_t number,
                     const struct ibv_port_attr *port, const struct ibv_gid_entry *entry, int worth)
{
    const char *device = ibv_get_device_name(context->device);
    int at = search->rails - 1;
    if (at < 0 || strcmp(search->rail[at].device, device) || search->rail[at].number != number) {
        at = search->rails < GYRE_VERBS_PORTS ? search->rails++ : GYRE_VERBS_PORTS - 1;
        search->rail[at] = (struct gyre_verbs_rail){
            .number = number, .rate = (uint32_t)port->active_speed << 8 | port->active_width};
        snprintf(search->rail[at].device, sizeof search->rail[at].device, "%s", device);
    }
    struct gyre_verbs_rail *rail = &search->rail[at];
    if (worth > rail->worth) {
        rail->worth = worth;
        memcpy(rail->gid, entry->gid.raw, sizeof rail->gid);
    }
    return at;
}

static void take_port(struct search *search, struct ibv_context *context, uint8_t number,
                      const struct ibv_port_attr *port, const struct ibv_gid_entry *entry)
{
    int worth = rank_gid(entry);
    int rail = note_rail(search, context, number, port, entry, worth);
    if (!is_zero(search->address) && !memcmp(entry->gid.raw, search->address, 16))
        worth += 100;
    if (worth <= search->best)
        return;
    search->best = worth;
    search->best_rail = rail;
    search->context = context;
    *search->port = (struct gyre_verbs_port){.number = number,
                                             .gid_index = (int)entry->gid_index,
                                             .network = (uint8_t)entry->gid_type,
                                             .lid = port->lid,
                                             .mtu = port->active_mtu};
    memcpy(search->port->gid, entry->gid.raw, 16);
    snprintf(search->port->device, sizeof search->port->device, "%s",
             ibv_get_device_name(context->device));
}

static void look_at_gids(struct search *search, struct ibv_context *context, uint8_t number,
                         const struct ibv_port_attr *port)
{
    const char *device = ibv_get_device_name(context->device);
    bool any = false;
    for (int i = 0; i < port->gid_tbl_len && i < GIDS_MOST; i++) {
        struct ibv_gid_entry entry;
        if ((search->gid_index >= 0 && search->gid_index != i) ||
            ibv_query_gid_ex(context, number, (uint32_t)i, &entry, 0) || is_zero(entry.gid.raw))
            continue;
        any = true;
        take_port(search, context, number, port, &entry);
    }
    if (any)
        return;
    if (search->gid_index >= 0)
        snprintf(search->miss, sizeof search->miss,
                 "GYRE_RDMA_GID=%d, but port %u of %s has no GID there (show_gids, or "
                 "/sys/class/infiniband/%s/ports/%u/gids, lists them)",
                 (int)search->gid_index, number, device, device, number);
    else
        snprintf(search->miss, sizeof search->miss, "port %u of %s has no GID", number, device);
}

static void look_at_port(struct search *search, struct ibv_context *context, uint8_t number)
{
    const char *device = ibv_get_device_name(context->device);
    struct ibv_port_attr port;
    if (search->number && search->number != number)
        return;
    if (ibv_query_port(context, number, &port))
        snprintf(search->miss, sizeof search->miss, "port %u of %s cannot be asked: %s", number,
                 device, strerror(errno));
    else if (port.state != IBV_PORT_ACTIVE)
        snprintf(search->miss, sizeof search->miss, "port %u of %s is %s", number, device,
                 ibv_port_state_str(port.state));
    else
        look_at_gids(search, context, number, &port);
}

/* Leaves the device open if that has the best port so far. */
static void look_at_device(struct search *search, struct ibv_device *device)
{
    struct ibv_context *before = search->context, *context = ibv_open_device(device);
    struct ibv_device_attr limits;
    if (!context) {
        snprintf(search->miss, sizeof search->miss,
                 "%s cannot be opened: %s (is "
                 "/dev/infiniband/%s there and may be read and written?)",
                 ibv_get_device_name(device), strerror(errno), device->dev_name);
        return;
    }
    int ports = ibv_query_device(context, &limits) ? 0 : limits.phys_port_cnt;
    if (search->number > ports)
        snprintf(search->miss, sizeof search->miss, "%s has %d ports, not %d",
                 ibv_get_device_name(device), ports, (int)search->number);
    for (int number = 1; number <= ports; number++)
        look_at_port(search, context, (uint8_t)number);
    if (search->context == context && before)
        ibv_close_device(before);
    else if (search->context != context)
        ibv_close_device(context);
}

static void look_at_all(struct search *search, struct ibv_device **list, int count)
{
    bool found = false;
    for (int i = 0; i < count; i++) {
        const char *name = ibv_get_device_name(list[i]);
        if (search->device[0] && strcmp(search->device, name))
            continue;
        found = true;
        look_at_device(search, list[i]);
    }
    if (count && !found)
        snprintf(search->miss, sizeof search->miss,
                 "GYRE_RDMA_DEVICE=%s, but no RDMA device is called so (%s%s)", search->device,
                 ibv_get_device_name(list[0]), count > 1 ? " and others are here" : " is here");
}

/* A device that the user has named is not changed. */
static void change_rail(struct search *search, struct ibv_device **list, int count)
{
    if (!search->context || search->device[0])
        return;
    int pick = gyre_verbs_rail_pick(search->rail, search->rails, search->best_rail,
                                    search->local_rank, search->local_size);
    if (pick == search->best_rail)
        return;
    struct ibv_context *before = search->context;
    struct gyre_verbs_port best = *search->port;
    memcpy(search->device, search->rail[pick].device, sizeof search->device);
    search->number = search->rail[pick].number;
    search->context = NULL;
    search->best = search->rails = 0;
    look_at_all(search, list, count);
    if (search->context) {
        ibv_close_device(before);
        return;
    }
    search->context = before; /* the picked port has gone down meanwhile */
    *search->port = best;
}

int gyre_verbs_port_choose(const struct gyre_wire_options *options, uint32_t number,
                           struct ibv_context **context, struct gyre_verbs_port *port,
                           struct gyre_trouble *trouble)
{
    struct search search = {
        .port = port, .local_rank = options->local_rank, .local_size = options->local_size};
    int status = read_wishes(&search, options, number, trouble), count = 0;
    if (status)
        return status;
    as_gid(options->address, search.address);
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list || !count)
        snprintf(search.miss, sizeof search.miss, "this machine has no RDMA device%s",
                 list || errno == ENOSYS ? "" : " that may be seen");
    else
        look_at_all(&search, list, count);
    change_rail(&search, list, count);
    if (list)
        ibv_free_device_list(list);
    if (!search.context)
        return gyre_trouble_set(trouble, count || search.device[0] ? -ENODEV : GYRE_UNSUPPORTED,
                                "%s", search.miss);
    *context = search.context;
    return 0;
}
