/* Lists the TCP connections of ranks. The descriptors of their processes name sockets, and the
 * kernel tells of each socket how much was acknowledged, and how long something was under way
 * (sock_diag(7)). Two ends of one connection have each other's addresses.
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ESTABLISHED 1 /* as in the kernel's net/tcp_states.h */
#define ANSWER_MOST (64 * 1024)

/* -- who holds which socket -------------------------------------------------------------------- */

struct holder {
    uint64_t inode;
    uint32_t trail;
};

struct holders {
    struct holder *of; /* by inode */
    uint32_t count;
};

static bool add_holder(struct holders *holders, uint64_t inode, uint32_t trail)
{
    uint32_t count = holders->count;
    if ((count & (count - 1)) == 0) {
        struct holder *more = realloc(holders->of, (count ? 2 * count : 1) * sizeof *more);
        if (!more)
            return false;
        holders->of = more;
    }
    holders->of[holders->count++] = (struct holder){inode, trail};
    return true;
}

static bool hold_sockets(struct holders *holders, uint32_t pid, uint32_t trail)
{
    char path[64], link[64];
    const struct dirent *entry;
    unsigned long long inode;
    bool ok = true;
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    DIR *folder = opendir(path);
    while (folder && ok && (entry = readdir(folder))) {
        ssize_t got = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
        link[got > 0 ? got : 0] = '\0';
        if (sscanf(link, "socket:[%llu]", &inode) == 1)
            ok = add_holder(holders, inode, trail);
    }
    if (folder)
        closedir(folder);
    return ok;
}

static int by_inode(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static bool find_holders(const struct gyre_trails *trails, struct holders *holders)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < trails->count; i++)
        ok = !trails->of[i].living || hold_sockets(holders, trails->of[i].head.pid, i);
    if (holders->count)
        qsort(holders->of, holders->count, sizeof *holders->of, by_inode);
    return ok && holders->count;
}

/* -- what the kernel tells --------------------------------------------------------------------- */

static void put_address(uint8_t end[18], int family, const uint32_t address[4], uint16_t port)
{
    memset(end, 0, 16);
    if (family == AF_INET) {
        end[10] = end[11] = 0xff;
        memcpy(end + 12, address, 4);
    } else {
        memcpy(end, address, 16);
    }
    memcpy(end + 16, &port, 2);
}

/* Takes the kernel's counts of a connection from the attributes behind its description. */
static void take_counts(const struct nlmsghdr *message, struct gyre_connection_end *wire)
{
    struct tcp_info info = {0};
    size_t at = NLMSG_LENGTH(sizeof(struct inet_diag_msg));
    while (at + sizeof(struct nlattr) <= message->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const char *)message + at);
        size_t length = attribute->nla_len;
        if (length < NLA_HDRLEN || at + length > message->nlmsg_len)
            return;
        length -= NLA_HDRLEN;
        if (attribute->nla_type == INET_DIAG_INFO)
            memcpy(&info, (const char *)attribute + NLA_HDRLEN,
                   length < sizeof info ? length : sizeof info);
        at += NLA_ALIGN(attribute->nla_len);
    }
    wire->bytes = info.tcpi_bytes_acked;
    wire->busy_us = info.tcpi_busy_time - info.tcpi_rwnd_limited;
}

static bool keep_connection(struct gyre_connections *wires, const struct gyre_connection_end *wire)
{
    uint32_t count = wires->count;
    if ((count & (count - 1)) == 0) {
        struct gyre_connection_end *more =
            realloc(wires->of, (count ? 2 * count : 1) * sizeof *more);
        if (!more)
            return false;
        wires->of = more;
    }
    wires->of[wires->count++] = *wire;
    return true;
}

static bool take_socket(const struct nlmsghdr *message, const struct holders *holders,
                        struct gyre_connections *wires)
{
    const struct inet_diag_msg *is = NLMSG_DATA(message);
    struct gyre_connection_end wire = {.to = GYRE_TRAIL_NONE};
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *is))
        return true;
    const struct holder wanted = {is->idiag_inode, 0};
    const struct holder *holder =
        bsearch(&wanted, holders->of, holders->count, sizeof wanted, by_inode);
    if (!holder)
        return true;
    wire.inode = is->idiag_inode;
    wire.from = holder->trail;
    put_address(wire.here, is->idiag_family, is->id.idiag_src, is->id.idiag_sport);
    put_address(wire.there, is->idiag_family, is->id.idiag_dst, is->id.idiag_dport);
    take_counts(message, &wire);
    return keep_connection(wires, &wire);
}

static bool ask_kernel(int fd, int family)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } ask = {{.nlmsg_len = sizeof ask,
              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
              .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             {.sdiag_family = (uint8_t)family,
              .sdiag_protocol = IPPROTO_TCP,
              .idiag_ext = 1 << (INET_DIAG_INFO - 1),
              .idiag_states = 1 << ESTABLISHED}};
    return send(fd, &ask, sizeof ask, 0) == (ssize_t)sizeof ask;
}

/* Reads one answer. Returns 1 where more follow, 0 at the end, -1 where the kernel refuses. */
static int take_answer(const void *answer, size_t length, const struct holders *holders,
                       struct gyre_connections *wires)
{
    const struct nlmsghdr *message = answer;
    for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 0;
        if (message->nlmsg_type == NLMSG_ERROR || !take_socket(message, holders, wires))
            return -1;
    }
    return 1;
}

static bool list_family(int fd, int family, const struct holders *holders,
                        struct gyre_connections *wires)
{
    char *answer = malloc(ANSWER_MOST);
    int more = answer && ask_kernel(fd, family) ? 1 : -1;
    while (more > 0) {
        ssize_t got = recv(fd, answer, ANSWER_MOST, 0);
        more = got > 0 ? take_answer(answer, (size_t)got, holders, wires) : -1;
    }
    free(answer);
    return more == 0;
}

/* -- both ends --------------------------------------------------------------------------------- */

static int by_here(const void *a, const void *b)
{
    return memcmp(((const struct gyre_connection_end *)a)->here,
                  ((const struct gyre_connection_end *)b)->here,
                  sizeof((struct gyre_connection_end *)0)->here +
                      sizeof((struct gyre_connection_end *)0)->there);
}

static int by_end_inode(const void *a, const void *b)
{
    const struct gyre_connection_end *x = a, *y = b;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void find_far_ends(struct gyre_connections *wires)
{
    qsort(wires->of, wires->count, sizeof *wires->of, by_here);
    for (uint32_t i = 0; i < wires->count; i++) {
        struct gyre_connection_end turned = wires->of[i];
        memcpy(turned.here, wires->of[i].there, sizeof turned.here);
        memcpy(turned.there, wires->of[i].here, sizeof turned.there);
        const struct gyre_connection_end *far =
            bsearch(&turned, wires->of, wires->count, sizeof turned, by_here);
        if (far)
            wires->of[i].to = far->from;
    }
    qsort(wires->of, wires->count, sizeof *wires->of, by_end_inode);
}

bool gyre_connections_list(const struct gyre_trails *trails, struct gyre_connections *wires)
{
    struct holders holders = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    *wires = (struct gyre_connections){0};
    bool ok = fd >= 0 && find_holders(trails, &holders);
    ok = ok && list_family(fd, AF_INET, &holders, wires);
    ok = ok && list_family(fd, AF_INET6, &holders, wires) && wires->count;
    if (ok)
        find_far_ends(wires);
    if (fd >= 0)
        close(fd);
    free(holders.of);
    return ok;
}

void gyre_connections_free(struct gyre_connections *wires)
{
    free(wires->of);
    *wires = (struct gyre_connections){0};
}
