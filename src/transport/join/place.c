/* The place where rank 0 is found: an address that all know, a small file, or a value in a store.
 *
 *     address   host:port, and the next ports where the launcher's own server may sit on the first;
 *               rank 0 takes the first free one, the others try all and believe who has the key
 *     held      the process of rank 0 listens there already, and has told the others
 *     file      rank 0 takes any port and writes "host port" to a 0600 file: temp, then rename, so
 *               that a reader sees all of it or nothing
 *     store     the same text, as the value of a name in a store of the program's
 *
 * The text ends with a key where rank 0 has drawn one for the job: "host port key".
 *
 * Rank 0 binds only the addresses that the host's name has here. It binds all addresses in two
 * cases: none of the name's addresses is this machine's (a forwarded or virtual address), or a name
 * other than "localhost" leads to loopback, where no other machine could arrive. Debian's
 * /etc/hosts does the latter with a machine's own name.
 *
 * In a job that runs rank 0 may be on another machine than at first. It listens there at the same
 * port, and newcomers are told the hosts where it may be.
 *
 * Tested by tests/program/job/join.c. */
#include "transport/join/place.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/disk/regular.h"
#include "base/log.h"
#include "transport/net/crypto.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESSES = 4, BACKLOG = 4096, PLACE_TEXT = 320, STORE_WAIT_MS = 500 };

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

/* Looks the job's address up. The name of a machine that has gone may be unknown: another machine
 * listens at all its addresses. */
static int resolve_own(const struct gyre_rendezvous_wish *wish, struct sockaddr_storage *address,
                       struct gyre_trouble *trouble)
{
    struct gyre_trouble ignored = {0};
    int count = gyre_address_resolve(wish->job->root_host, wish->job->root_port, address, ADDRESSES,
                                     wish->moved ? &ignored : trouble);
    if (count < 0 && wish->moved)
        add_any(address, &count);
    return count;
}

static int open_address(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
                        struct gyre_trouble *trouble)
{
    const struct gyre_job *job = wish->job;
    struct sockaddr_storage address[ADDRESSES];
    int count = resolve_own(wish, address, trouble);
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

/* -- file or store ----------------------------------------------------------------------------- */

/* The address to write: GYRE_INTERFACE's, else loopback where all ranks are on this machine,
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

/* Writes the address as "host port", with the key behind it where that lies in the place. */
static void describe_place(const struct gyre_job *job, const struct sockaddr_storage *address,
                           char text[PLACE_TEXT])
{
    char host[GYRE_ADDRESS_TEXT], key[2 * sizeof job->key + 1] = "";
    gyre_address_format(address, host);
    *strrchr(host, ':') = ' ';
    if (job->key_in_place)
        gyre_hex_write(job->key, sizeof job->key, key);
    snprintf(text, PLACE_TEXT, "%s%s%s\n", host, *key ? " " : "", key);
    gyre_wipe(key, sizeof key);
}

static int write_file(const struct gyre_job *job, const char *text)
{
    char temporary[560];
    const size_t length = strlen(text);
    snprintf(temporary, sizeof temporary, "%s.%d", job->root_file, (int)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool written =
        fd >= 0 && gyre_regular_write(fd, text, length) && !rename(temporary, job->root_file);
    int status = written ? 0 : -errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(temporary);
    return status;
}

static int write_place(const struct gyre_job *job, const struct sockaddr_storage *address,
                       struct gyre_trouble *trouble)
{
    char text[PLACE_TEXT];
    const bool file = job->root_kind == GYRE_ROOT_FILE;
    describe_place(job, address, text);
    int status = file ? write_file(job, text)
                      : job->store.set(job->store.context, job->root_file, text, strlen(text));
    gyre_wipe(text, sizeof text);
    if (!status)
        return 0;
    if (file)
        return gyre_trouble_set(trouble, status, "rank 0 cannot write its address to %s: %s",
                                job->root_file, gyre_status_name(status));
    return gyre_trouble_set(trouble, status < 0 ? status : GYRE_INVALID,
                            "rank 0 cannot leave its address in the store as \"%s\": its set() "
                            "returned %d (%s)",
                            job->root_file, status, gyre_status_name(status));
}

static int open_written(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
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
    status = write_place(wish->job, &address, trouble);
    place->written = status ? NULL : wish->job;
    return status;
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
    int status = kind == GYRE_ROOT_ADDRESS ? open_address(wish, place, trouble)
                 : kind == GYRE_ROOT_HELD  ? open_held(wish->job, place, trouble)
                                           : open_written(wish, place, trouble);
    if (status)
        gyre_rendezvous_close(place);
    return status;
}

void gyre_rendezvous_close(struct gyre_rendezvous *place)
{
    const struct gyre_job *job = place->written;
    close_listeners(place);
    if (job && job->root_kind == GYRE_ROOT_FILE)
        unlink(job->root_file);
    else if (job && job->store.remove)
        (void)job->store.remove(job->store.context, job->root_file);
    place->written = NULL;
}

/* -- for those who look for it ----------------------------------------------------------------- */

/* Checks the owner of the file. Another user's file would lead elsewhere; the handshake would
 * notice, but only as "closed without a word". A key is believed that nobody else can read. */
static int check_root_file(const struct stat *info, const struct gyre_job *job,
                           struct gyre_trouble *trouble)
{
    const mode_t forbidden = job->key_in_place ? 077 : 022;
    if (info->st_uid == geteuid() && !(info->st_mode & forbidden))
        return 0;
    return gyre_trouble_set(trouble, GYRE_REFUSED,
                            "%s belongs to user %u with mode %03o, so its address is not "
                            "believed: it must be yours and %s by nobody else",
                            job->root_file, info->st_uid, info->st_mode & 0777,
                            job->key_in_place ? "readable" : "writable");
}

static int read_file(const struct gyre_job *job, char *text, size_t size,
                     struct gyre_trouble *trouble)
{
    struct stat info;
    const char *path = job->root_file;
    int fd = gyre_regular_open(path, O_NOFOLLOW, &info);
    if (fd == -ENOENT)
        return gyre_trouble_set(trouble, -EAGAIN, "rank 0 has not written %s yet", path);
    if (fd < 0)
        return gyre_regular_refuse(path, fd, trouble);
    int status = check_root_file(&info, job, trouble);
    ssize_t length = status ? 0 : TEMP_FAILURE_RETRY(read(fd, text, size - 1));
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return status;
}

/* Waits a moment for the value: the search goes on in between. */
static int read_from_store(const struct gyre_job *job, char *text, size_t size,
                           struct gyre_trouble *trouble)
{
    size_t length = size - 1;
    int status = job->store.get(job->store.context, job->root_file, text, &length, STORE_WAIT_MS);
    if (status == GYRE_AGAIN)
        return gyre_trouble_set(trouble, -EAGAIN, "rank 0 has not left \"%s\" in the store yet",
                                job->root_file);
    if (status)
        return gyre_trouble_set(trouble, status < 0 ? status : GYRE_INVALID,
                                "the store does not give \"%s\": its get() returned %d (%s)",
                                job->root_file, status, gyre_status_name(status));
    if (length > size - 1)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the store has %zu bytes as \"%s\": an address has fewer than %zu",
                                length, job->root_file, size);
    text[length] = '\0';
    return 0;
}

/* Reads " PORT\n", or " PORT KEY\n" where the key is expected. 0: it is neither. */
static uint16_t read_port_and_key(struct gyre_job *job, const char *text)
{
    uint8_t key[sizeof job->key];
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    bool right = port > 0 && port <= 65535;
    if (job->key_in_place) {
        right = right && strlen(end) == 2 * sizeof key + 2 && *end == ' ' &&
                gyre_hex_read(end + 1, key, sizeof key) && !gyre_job_adopt_key(job, key);
        end += right ? 2 * sizeof key + 1 : 0;
    }
    gyre_wipe(key, sizeof key);
    return right && *end == '\n' ? (uint16_t)port : 0;
}

static int find_written(struct gyre_job *job, struct sockaddr_storage *out, int max,
                        struct gyre_trouble *trouble)
{
    char text[PLACE_TEXT];
    const bool file = job->root_kind == GYRE_ROOT_FILE;
    int status = file ? read_file(job, text, sizeof text, trouble)
                      : read_from_store(job, text, sizeof text, trouble);
    char *blank = status ? NULL : strchr(text, ' ');
    uint16_t port = blank ? read_port_and_key(job, blank + 1) : 0;
    if (!status && !port)
        status = gyre_trouble_set(trouble, -EAGAIN, "%s does not hold \"host port%s\"; remove it",
                                  job->root_file, job->key_in_place ? " key" : "");
    if (!status) {
        *blank = '\0';
        status = gyre_address_resolve(text, port, out, max, trouble);
    }
    gyre_wipe(text, sizeof text);
    return status;
}

/* The places of one host, which may be on several ports. */
static int find_at_host(const struct gyre_job *job, const char *host, struct sockaddr_storage *out,
                        int max, struct gyre_trouble *trouble)
{
    struct sockaddr_storage address[ADDRESSES];
    int count = gyre_address_resolve(host, job->root_port, address, ADDRESSES, trouble), found = 0;
    for (int try = 0; try < job->root_port_tries && job->root_port + try <= 65535; try++)
        for (int i = 0; i < count && found < max; i++) {
            out[found] = address[i];
            gyre_address_set_port(&out[found++], (uint16_t)(job->root_port + try));
        }
    return count < 0 ? count : found;
}

/* Adds the places of the further hosts to those that were found, if any was. A name that nobody
 * knows is passed over. */
static int add_further_hosts(const struct gyre_job *job, struct sockaddr_storage *out, int found,
                             int max)
{
    char list[sizeof job->root_hosts], *rest = list;
    snprintf(list, sizeof list, "%s", job->root_hosts);
    for (char *host; (host = strsep(&rest, ","));) {
        struct gyre_trouble ignored = {0};
        const int before = found < 0 ? 0 : found;
        int more = *host ? find_at_host(job, host, out + before, max - before, &ignored) : 0;
        found = more > 0 ? before + more : found;
    }
    return found;
}

int gyre_rendezvous_find(struct gyre_job *job, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble)
{
    if (job->root_kind == GYRE_ROOT_FILE || job->root_kind == GYRE_ROOT_STORE)
        return find_written(job, out, max, trouble);
    int found = find_at_host(job, job->root_host, out, max, trouble);
    return job->root_hosts[0] ? add_further_hosts(job, out, found, max) : found;
}
