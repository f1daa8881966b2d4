/* Addresses: one type (sockaddr_storage) for both families, zero where nothing is known.
 *
 * The address that peers are given is the first that there is of these:
 *
 *     GYRE_INTERFACE names one            choose()
 *     the rendezvous went over one        getsockname(): the route to the root, proven by use
 *     rank 0 that nobody has reached yet  outward(): the one that the kernel's routes prefer
 *
 * choose() takes names, single addresses and CIDR blocks, because interface names differ between
 * the machines of one job while its network does not. Link-local and tunnel addresses are never
 * chosen by default. */
#include "transport/net/address.h"

#include "base/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sockaddr_in *v4(const struct sockaddr_storage *address)
{
    return (struct sockaddr_in *)(uintptr_t)address;
}

static struct sockaddr_in6 *v6(const struct sockaddr_storage *address)
{
    return (struct sockaddr_in6 *)(uintptr_t)address;
}

/* The bits of the address alone: 4 bytes, 16 bytes, or none. */
static const uint8_t *bits_of(const struct sockaddr_storage *address, size_t *bytes)
{
    *bytes = address->ss_family == AF_INET ? 4 : address->ss_family == AF_INET6 ? 16 : 0;
    return address->ss_family == AF_INET ? (const uint8_t *)&v4(address)->sin_addr
                                         : v6(address)->sin6_addr.s6_addr;
}

socklen_t gyre_address_length(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

uint16_t gyre_address_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? v4(address)->sin_port : v6(address)->sin6_port);
}

void gyre_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        v4(address)->sin_port = htons(port);
    else
        v6(address)->sin6_port = htons(port);
}

void gyre_address_format(const struct sockaddr_storage *address, char text[GYRE_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";
    size_t bytes;
    const uint8_t *bits = bits_of(address, &bytes);
    if (!bytes) {
        snprintf(text, GYRE_ADDRESS_TEXT, "(no address)");
        return;
    }
    inet_ntop(address->ss_family, bits, host, sizeof host);
    if (bytes == 16 && v6(address)->sin6_scope_id &&
        if_indextoname(v6(address)->sin6_scope_id, scope + 1))
        scope[0] = '%';
    snprintf(text, GYRE_ADDRESS_TEXT, bytes == 16 ? "[%s%s]:%u" : "%s%s:%u", host, scope,
             gyre_address_port(address));
}

bool gyre_address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(v4(address)->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(address)->sin6_addr);
}

bool gyre_address_is_any(const struct sockaddr_storage *address)
{
    static const uint8_t zeros[16];
    size_t bytes;
    const uint8_t *bits = bits_of(address, &bytes);
    return !memcmp(bits, zeros, bytes);
}

bool gyre_address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    size_t bytes_a, bytes_b;
    const uint8_t *bits_a = bits_of(a, &bytes_a), *bits_b = bits_of(b, &bytes_b);
    return bytes_a == bytes_b && !memcmp(bits_a, bits_b, bytes_a);
}

void gyre_address_take_scope(struct sockaddr_storage *to, const struct sockaddr_storage *own)
{
    bool local = to->ss_family == AF_INET6 && own->ss_family == AF_INET6 &&
                 IN6_IS_ADDR_LINKLOCAL(&v6(to)->sin6_addr);
    if (local)
        v6(to)->sin6_scope_id = ((const struct sockaddr_in6 *)own)->sin6_scope_id;
}

void gyre_address_normalise(struct sockaddr_storage *address)
{
    struct sockaddr_in plain = {.sin_family = AF_INET};
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6(address)->sin6_addr))
        return;
    plain.sin_port = v6(address)->sin6_port;
    memcpy(&plain.sin_addr, v6(address)->sin6_addr.s6_addr + 12, 4);
    memset(address, 0, sizeof *address);
    memcpy(address, &plain, sizeof plain);
}

void gyre_address_put(struct gyre_cursor *cursor, const struct sockaddr_storage *address)
{
    uint8_t field[16] = {0};
    size_t bytes;
    const uint8_t *bits = bits_of(address, &bytes);
    memcpy(field, bits, bytes);
    gyre_put_u64(cursor, bytes == 4 ? 4 : bytes == 16 ? 6 : 0, 2);
    gyre_put_u64(cursor, bytes ? gyre_address_port(address) : 0, 2);
    gyre_put_u64(cursor, bytes == 16 ? v6(address)->sin6_scope_id : 0, 4);
    gyre_put_bytes(cursor, field, sizeof field);
}

void gyre_address_get(struct gyre_cursor *cursor, struct sockaddr_storage *address)
{
    uint8_t field[16];
    uint64_t version = gyre_get_u64(cursor, 2), port = gyre_get_u64(cursor, 2),
             scope = gyre_get_u64(cursor, 4);
    gyre_get_bytes(cursor, field, sizeof field);
    memset(address, 0, sizeof *address);
    if (version != 4 && version != 6)
        return;
    address->ss_family = version == 4 ? AF_INET : AF_INET6;
    gyre_address_set_port(address, (uint16_t)port);
    if (version == 4) {
        memcpy(&v4(address)->sin_addr, field, 4);
    } else {
        memcpy(&v6(address)->sin6_addr, field, 16);
        v6(address)->sin6_scope_id = (uint32_t)scope;
    }
}

/* -- names ------------------------------------------------------------------------------------- */

static int keep_addresses(const struct addrinfo *list, struct sockaddr_storage *out, int max)
{
    int kept = 0;
    for (; list && kept < max; list = list->ai_next) {
        if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
            continue;
        struct sockaddr_storage one = {0};
        memcpy(&one, list->ai_addr, list->ai_addrlen);
        int i = 0;
        while (i < kept && !gyre_address_same_host(&out[i], &one))
            i++;
        if (i == kept)
            out[kept++] = one;
    }
    return kept;
}

static int resolve_trouble(int error, const char *host, struct gyre_trouble *trouble)
{
    if (error == EAI_AGAIN)
        return gyre_trouble_set(trouble, -EAGAIN,
                                "the name service does not answer for host \"%s\"", host);
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "host \"%s\" has no address (%s); give a name that this machine can resolve, or a number",
        host, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
}

int gyre_address_resolve(const char *host, uint16_t port, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char name[256], service[8];
    size_t length = strlen(host);
    bool brackets = length > 2 && host[0] == '[' && host[length - 1] == ']';

    snprintf(name, sizeof name, "%.*s", (int)length - 2 * brackets, host + brackets);
    snprintf(service, sizeof service, "%u", port);
    int error = getaddrinfo(name, service, &hints, &list);
    if (error)
        return resolve_trouble(error, name, trouble);
    int kept = keep_addresses(list, out, max);
    freeaddrinfo(list);
    return kept ? kept : resolve_trouble(EAI_NONAME, name, trouble);
}

/* -- this machine's own ------------------------------------------------------------------------ */

static bool usable(const struct ifaddrs *own)
{
    return own->ifa_addr && own->ifa_flags & IFF_UP &&
           (own->ifa_addr->sa_family == AF_INET || own->ifa_addr->sa_family == AF_INET6);
}

static struct sockaddr_storage address_of(const struct ifaddrs *own)
{
    struct sockaddr_storage address = {0};
    memcpy(&address, own->ifa_addr,
           own->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                               : sizeof(struct sockaddr_in6));
    gyre_address_set_port(&address, 0);
    return address;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    if (memcmp(a, b, bits / 8))
        return false;
    unsigned rest = bits % 8;
    return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

/* Whether `item`, an address or a block ("192.0.2.0/24"), holds `address`. */
static bool block_holds(const char *item, const struct sockaddr_storage *address)
{
    char text[INET6_ADDRSTRLEN + 4];
    uint8_t block[16];
    size_t bytes;
    const uint8_t *bits = bits_of(address, &bytes);
    unsigned prefix = (unsigned)bytes * 8;

    snprintf(text, sizeof text, "%s", item);
    char *slash = strchr(text, '/'), *end;
    if (slash) {
        *slash = '\0';
        unsigned long given = strtoul(slash + 1, &end, 10);
        if (end == slash + 1 || *end || given > prefix)
            return false;
        prefix = (unsigned)given;
    }
    return inet_pton(address->ss_family, text, block) == 1 && same_prefix(block, bits, prefix);
}

static bool item_names(const char *item, const struct ifaddrs *own,
                       const struct sockaddr_storage *address)
{
    bool local = address->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(address)->sin6_addr);
    return (!strcmp(item, own->ifa_name) && !local) || block_holds(item, address);
}

static bool find_item(const char *item, int family, const struct ifaddrs *list,
                      struct sockaddr_storage *out)
{
    bool found = false;
    for (; list; list = list->ifa_next) {
        if (!usable(list))
            continue;
        struct sockaddr_storage address = address_of(list);
        bool better = !found || (out->ss_family != family && address.ss_family == family);
        if (better && item_names(item, list, &address)) {
            *out = address;
            found = true;
        }
    }
    return found;
}

#define NAMES_MAX 64

/* The interface name nearest to an item of the list; NULL: none is near. */
static const char *nearest_name(const char *list, const struct ifaddrs *own)
{
    const char *names[NAMES_MAX], *near = NULL;
    char items[512], *rest = items, *item;
    int count = 0;
    for (; own && count < NAMES_MAX; own = own->ifa_next)
        if (usable(own))
            names[count++] = own->ifa_name;
    snprintf(items, sizeof items, "%s", list);
    while (!near && (item = strsep(&rest, ", ")))
        near = gyre_nearest_word(item, names, count);
    return near;
}

static int choose_trouble(const char *list, const struct ifaddrs *own, struct gyre_trouble *trouble)
{
    const char *near = nearest_name(list, own);
    char all[600] = "", text[GYRE_ADDRESS_TEXT];
    for (; own; own = own->ifa_next) {
        if (!usable(own))
            continue;
        struct sockaddr_storage address = address_of(own);
        size_t used = strlen(all);
        gyre_address_format(&address, text);
        *strrchr(text, ':') = '\0';
        snprintf(all + used, sizeof all - used, "%s%s %s", used ? ", " : "", own->ifa_name, text);
    }
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "GYRE_INTERFACE=%s: no such interface or address is up here%s%s%s; this machine has %s",
        list, near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", all);
}

/* Checks an item of the list, whether or not it is chosen in the end: the prefix of a block must
 * fit its address. */
static int check_prefix(const char *list, const char *item, struct gyre_trouble *trouble)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t block[16];
    const char *slash = strchr(item, '/');
    int64_t prefix;
    if (!slash)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)(slash - item), item);
    bool v6_block = inet_pton(AF_INET6, text, block) == 1;
    bool known = v6_block || inet_pton(AF_INET, text, block) == 1;
    int most = v6_block ? 128 : 32;
    if (known && !gyre_parse_int("prefix", slash + 1, 0, most, &prefix, NULL))
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "GYRE_INTERFACE=%s: %s: expected an address and a prefix of 0 to %d",
                            list, item, most);
}

int gyre_address_choose(const char *list, int family, struct sockaddr_storage *out,
                        struct gyre_trouble *trouble)
{
    struct ifaddrs *own = NULL;
    char items[512], *rest = items, *item;
    bool found = false;

    snprintf(items, sizeof items, "%s", list);
    while ((item = strsep(&rest, ", "))) {
        int status = check_prefix(list, item, trouble);
        if (status)
            return status;
    }
    if (getifaddrs(&own))
        return gyre_trouble_set(trouble, -errno, "cannot list this machine's addresses: %s",
                                strerror(errno));
    snprintf(items, sizeof items, "%s", list);
    rest = items;
    while (!found && (item = strsep(&rest, ", ")))
        found = *item && find_item(item, family, own, out);
    int status = found ? 0 : choose_trouble(list, own, trouble);
    freeifaddrs(own);
    return status;
}

/* Finds the source address that the route to a far address prefers. A datagram socket learns it by
 * "connecting", which sends nothing. */
static bool routed(int family, struct sockaddr_storage *out)
{
    struct sockaddr_storage far = {.ss_family = (sa_family_t)family};
    socklen_t length = sizeof *out;
    if (family == AF_INET)
        /* 198.51.100.1, an address for documentation */
        v4(&far)->sin_addr.s_addr = htonl(0xc6336401);
    else
        inet_pton(AF_INET6, "2001:db8::1", &v6(&far)->sin6_addr);
    gyre_address_set_port(&far, 9);
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool found = !connect(fd, (struct sockaddr *)&far, gyre_address_length(&far)) &&
                 !getsockname(fd, (struct sockaddr *)out, &length) &&
                 !gyre_address_is_loopback(out);
    close(fd);
    if (found)
        gyre_address_set_port(out, 0);
    return found;
}

static bool outward_candidate(const struct ifaddrs *own, int family)
{
    if (!usable(own) || own->ifa_flags & (IFF_LOOPBACK | IFF_POINTOPOINT))
        return false;
    struct sockaddr_storage address = address_of(own);
    bool local = address.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(&address)->sin6_addr);
    return !local && (family == AF_UNSPEC || address.ss_family == family);
}

static int first_outward(int family, struct sockaddr_storage *out)
{
    struct ifaddrs *list = NULL, *own;
    if (getifaddrs(&list))
        return -errno;
    for (own = list; own && !outward_candidate(own, family);)
        own = own->ifa_next;
    if (own)
        *out = address_of(own);
    freeifaddrs(list);
    return own ? 0 : -ENODEV;
}

int gyre_address_outward(int family, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (family != AF_INET6 && routed(AF_INET, out))
        return 0;
    if (family != AF_INET && routed(AF_INET6, out))
        return 0;
    return first_outward(family, out);
}
