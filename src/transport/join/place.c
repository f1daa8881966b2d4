/* The place where rank 0 is found: an address that all know, or a small file.
 *
 *     address   host:port, and the next ports where the launcher's own server may sit on the first;
 *               rank 0 takes the first free one, the others try all and believe who has the key
 *     held      the process of rank 0 listens there already, and has told the others
 *     file      rank 0 takes any port and writes "host port" to a 0600 file: temp, then rename, so
 *               that a reader sees all of it or nothing
 *
 * Rank 0 binds only the addresses that the host's name has here. It binds all addresses in two
 * cases: none of the name's addresses is this machine's (a forwarded or virtual address), or a name
 * other than "localhost" leads to loopback, where no other machine could arrive. Debian's
 * /etc/hosts does the latter with a machine's own name.
 *
 * Tested by tests/program/job/join.c. */
#include "transport/join/place.h"

#include "base/clock.h"
#include "base/disk/regular.h"
#include "base/log.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESSES = 4, BACKLOG = 4096 };

static void close_listeners(struct gyre_rendezvous *place)
{
    while (place->listeners)
        close(place->listener[--place->listeners]);
}

static void add_any(struct sockaddr_storage *address, int *count)
{
    memset(address, 0, 2 * sizeof *address);
    address[0].ss_family = AF_INET6; /* dual-stack where there is IPv6 */
    address[1].ss_family = AF_INET;
    *count = 2;
}

static bool means_loopback(const char *host)
{
    return !strncmp(host, "localhost", 9) || !strncmp(host, "127.", 4) || !strcmp(host, "::1") ||
           !strcmp(host, "[::1]");
}

/* Listens on every one of the addresses at `port`. 0, -EADDRINUSE (nothing is kept), or the last
 * error. */
static int listen_all(struct gyre_rendezvous *place, struct sockaddr_storage *address, int count,
                      uint16_t port)
{
    int last = -EADDRNOTAVAIL;
    for (int i = 0; i < count; i++) {
        if (i && gyre_address_is_any(&address[i]) && place->listeners)
            break; /* the dual-stack listener serves IPv4 as well */
        gyre_address_set_port(&address[i], port);
        int fd = gyre_socket_listen(&address[i], 0, 0, BACKLOG);
        if (fd >= 0) {
            place->listener[place->listeners++] = fd;
            continue;
        }
        last = fd;
        if (fd == -EADDRINUSE)
            close_listeners(place);
        if (fd == -EADDRINUSE)
            return fd;
    }
    return place->listeners ? 0 : last;
}

static int listen_ports(const struct gyre_job *job, struct gyre_rendezvous *place,
                        struct sockaddr_storage *address, int count)
{
    int status = -EADDRINUSE;
    for (int i = 0;
         i < job->root_port_tries && status == -EADDRINUSE && job->root_port + i <= 65535; i++) {
        status = listen_all(place, address, count, (uint16_t)(job->root_port + i));
        if (!status)
            gyre_log(GYRE_LOG_DEBUG, "rank 0 listens at %s:%d", job->root_host, job->root_port + i);
    }
    return status;
}

static void pause_ms(int ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000L};
    nanosleep(&time, NULL);
}

/* Listens, with one second of patience: the last job's rank 0, or a rank that met itself there, may
 * hold the port for a moment. */
static int listen_patiently(const struct gyre_job *job, struct gyre_rendezvous *place,
                            struct sockaddr_storage *address, int count)
{
    uint64_t until = gyre_now_ns() + GYRE_SECOND;
    int status = listen_ports(job, place, address, count);
    while (status == -EADDRINUSE && gyre_now_ns() < until) {
        pause_ms(10);
        status = listen_ports(job, place, address, count);
    }
    return status;
}

static int open_address(const struct gyre_job *job, struct gyre_rendezvous *place,
                        struct gyre_trouble *trouble)
{
    struct sockaddr_storage address[ADDRESSES];
    int count = gyre_address_resolve(job->root_host, job->root_port, address, ADDRESSES, trouble);
    if (count < 0)
        return count;
    bool all = gyre_address_is_loopback(&address[0]) && !means_loopback(job->root_host);
    if (all)
        add_any(address, &count);
    int status = listen_patiently(job, place, address, count);
    if (status == -EADDRNOTAVAIL && !all) {
        add_any(address, &count);
        status = listen_patiently(job, place, address, count);
    }
    if (!status)
        return 0;
    return gyre_trouble_set(
        trouble, status,
        "rank 0 cannot listen at %s, port %u%s: %s; choose another port (MASTER_PORT or GYRE_ROOT) "
        "or end the program that holds it",
        job->root_host, job->root_port, job->root_port_tries > 1 ? " and the next 16" : "",
        strerror(-status));
}

/* -- file -------------------------------------------------------------------------------------- */

/* The address in the file: GYRE_INTERFACE's, else loopback where all ranks are on this machine,
 * else that of the default route. */
static int file_address(const struct gyre_rendezvous_wish *wish, struct sockaddr_storage *address,
                        struct gyre_trouble *trouble)
{
    const struct gyre_job *job = wish->job;
    bool here = job->local_world == job->world;
    memset(address, 0, sizeof *address);
    if (wish->interface)
        return gyre_address_choose(wish->interface, AF_UNSPEC, address, trouble);
    if (!here && !gyre_address_outward(AF_UNSPEC, address))
        return 0;
    return gyre_address_resolve("127.0.0.1", 0, address, 1, trouble) < 0 ? -EIO : 0;
}

static int write_file(const struct gyre_job *job, struct gyre_rendezvous *place,
                      const struct sockaddr_storage *address)
{
    char text[GYRE_ADDRESS_TEXT + 8], temporary[560];
    gyre_address_format(address, text);
    *strrchr(text, ':') = ' ';
    size_t length = strlen(text);
    text[length++] = '\n';

    snprintf(temporary, sizeof temporary, "%s.%d", job->root_file, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written =
        fd >= 0 && write(fd, text, length) == (ssize_t)length && !rename(temporary, job->root_file);
    int status = written ? 0 : -errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(temporary);
    if (written)
        snprintf(place->file, sizeof place->file, "%s", job->root_file);
    return status;
}

static int open_file(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
                     struct gyre_trouble *trouble)
{
    struct sockaddr_storage address;
    int status = file_address(wish, &address, trouble);
    if (status)
        return status;
    int fd = gyre_socket_listen(&address, wish->port_low, wish->port_high, BACKLOG);
    if (fd < 0)
        return gyre_trouble_set(trouble, fd,
                                "rank 0 cannot listen at a port of %u-%u (GYRE_PORT_RANGE): %s",
                                wish->port_low, wish->port_high, strerror(-fd));
    place->listener[place->listeners++] = fd;
    status = write_file(wish->job, place, &address);
    if (status)
        return gyre_trouble_set(trouble, status, "rank 0 cannot write its address to %s: %s",
                                wish->job->root_file, strerror(-status));
    return 0;
}

/* Uses the listener that the process holds; the listener stays its owner's. */
static int open_held(const struct gyre_job *job, struct gyre_rendezvous *place,
                     struct gyre_trouble *trouble)
{
    int fd = fcntl(job->root_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno, "the listener of rank 0: %s", strerror(errno));
    place->listener[place->listeners++] = fd;
    return 0;
}

int gyre_rendezvous_open(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
                         struct gyre_trouble *trouble)
{
    enum gyre_root_kind kind = wish->job->root_kind;
    int status = kind == GYRE_ROOT_FILE   ? open_file(wish, place, trouble)
                 : kind == GYRE_ROOT_HELD ? open_held(wish->job, place, trouble)
                                          : open_address(wish->job, place, trouble);
    if (status)
        gyre_rendezvous_close(place);
    return status;
}

void gyre_rendezvous_close(struct gyre_rendezvous *place)
{
    close_listeners(place);
    if (place->file[0])
        unlink(place->file);
    place->file[0] = '\0';
}

/* -- for those who look for it ----------------------------------------------------------------- */

/* Checks the owner of the file. Another user's file would lead elsewhere; the handshake would
 * notice, but only as "closed without a word". */
static int check_root_file(const struct stat *info, const char *path, struct gyre_trouble *trouble)
{
    if (info->st_uid == geteuid() && !(info->st_mode & 022))
        return 0;
    return gyre_trouble_set(trouble, GYRE_REFUSED,
                            "%s belongs to user %u with mode %03o, so its address is not "
                            "believed: it must be yours and writable by nobody else",
                            path, info->st_uid, info->st_mode & 0777);
}

static int read_root_file(const char *path, char *text, size_t size, struct gyre_trouble *trouble)
{
    struct stat info;
    int fd = gyre_regular_open(path, O_NOFOLLOW, &info);
    if (fd == -ENOENT)
        return gyre_trouble_set(trouble, -EAGAIN, "rank 0 has not written %s yet", path);
    if (fd < 0)
        return gyre_regular_refuse(path, fd, trouble);
    int status = check_root_file(&info, path, trouble);
    ssize_t length = status ? 0 : TEMP_FAILURE_RETRY(read(fd, text, size - 1));
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return status;
}

static int find_by_file(const struct gyre_job *job, struct sockaddr_storage *out, int max,
                        struct gyre_trouble *trouble)
{
    char text[320], *end;
    const char *path = job->root_file;
    int status = read_root_file(path, text, sizeof text, trouble);
    if (status)
        return status;
    char *blank = strchr(text, ' ');
    unsigned long port = blank ? strtoul(blank + 1, &end, 10) : 0;
    if (!port || port > 65535 || *end != '\n')
        return gyre_trouble_set(trouble, -EAGAIN, "%s does not hold \"host port\"; remove it",
                                path);
    *blank = '\0';
    return gyre_address_resolve(text, (uint16_t)port, out, max, trouble);
}

int gyre_rendezvous_find(const struct gyre_job *job, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble)
{
    struct sockaddr_storage address[ADDRESSES];
    if (job->root_kind == GYRE_ROOT_FILE)
        return find_by_file(job, out, max, trouble);
    int count = gyre_address_resolve(job->root_host, job->root_port, address, ADDRESSES, trouble),
        found = 0;
    for (int try = 0; try < job->root_port_tries && job->root_port + try <= 65535; try++)
        for (int i = 0; i < count && found < max; i++) {
            out[found] = address[i];
            gyre_address_set_port(&out[found++], (uint16_t)(job->root_port + try));
        }
    return count < 0 ? count : found;
}
