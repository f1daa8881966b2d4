/* Doors, pages and packets: the means by which two processes of one machine share memory.
 *
 *     door     an abstract Unix socket (no file, gone with the process) named by 128 random bits
 *     page     a sealed memfd whose first page ends with 32 bytes that only the session's key
 *              foretells
 *     packet   one message of known size, with two descriptors or without
 *
 * The kernel tells the user at the other end; a connection of another user is closed. Unasked
 * descriptors are closed.
 *
 * Pages are tested by tests/unit/transport/join/door_test.c, all of it by
 * tests/program/job/join.c. */
#include "transport/join/inside.h"

#include "base/bytes.h"
#include "base/disk/regular.h"
#include "transport/net/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CODE = GYRE_DIGEST_BYTES, PAGE = GYRE_PAGE_BYTES, BACKLOG = 4096 };

/* -- names and pages --------------------------------------------------------------------------- */

static socklen_t door_address(const uint8_t name[16], struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    char *text = address->sun_path + 1; /* a zero comes first: the abstract name space */
    memcpy(text, "gyre-", 5);
    gyre_hex_write(name, 16, text + 5);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text));
}

static int page_content(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint8_t content[CODE])
{
    const struct gyre_piece pieces[] = {{"page", 4},
                                        {&rank, sizeof rank}}; /* one machine has one byte order */
    return gyre_hmac_sha256(key, pieces, 2, content);
}

/* Whether a file may be so long. Beyond its limit ftruncate() would end the process. */
static bool may_have_length(uint64_t length)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           length <= limit.rlim_cur;
}

int gyre_page_make(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint64_t length)
{
    uint8_t content[CODE];
    if (!may_have_length(length))
        return -EFBIG;
    int fd = memfd_create("gyre-join", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (page_content(key, rank, content) || ftruncate(fd, (off_t)length) ||
        TEMP_FAILURE_RETRY(pwrite(fd, content, CODE, PAGE - CODE)) != CODE ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        int status = errno ? -errno : -EIO;
        close(fd);
        return status;
    }
    return fd;
}

uint32_t gyre_page_try(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint64_t length, int fd)
{
    uint8_t content[CODE];
    struct stat info;
    if (page_content(key, rank, content))
        return EIO;
    if (fd < 0 || fstat(fd, &info) || (uint64_t)info.st_size != length)
        return EBADF;
    if (!gyre_has_seals(fd, F_SEAL_SHRINK))
        return EPERM;
    uint8_t *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (view == MAP_FAILED)
        return (uint32_t)errno;
    uint32_t mismatch = memcmp(view + PAGE - CODE, content, CODE) ? EBADMSG : 0;
    munmap(view, PAGE);
    return mismatch;
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid();
}

int gyre_door_open(const uint8_t name[16])
{
    struct sockaddr_un address;
    socklen_t length = door_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, length) && !listen(fd, BACKLOG))
        return fd;
    int status = -errno;
    if (fd >= 0)
        close(fd);
    return status;
}

int gyre_door_connect(const uint8_t name[16])
{
    struct sockaddr_un address;
    socklen_t length = door_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = connect(fd, (struct sockaddr *)&address, length) ? errno
                : same_user(fd)                                  ? 0
                                                                 : EPERM;
    if (!error)
        return fd;
    close(fd);
    return -error;
}

int gyre_door_answer(int door)
{
    int fd = accept4(door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (same_user(fd))
        return fd;
    close(fd);
    return -EPERM;
}

/* -- packets ----------------------------------------------------------------------------------- */

int gyre_packet_send(int socket_fd, const uint8_t *bytes, size_t length, const int fd[2])
{
    ssize_t sent = gyre_descriptors_send(socket_fd, bytes, length, fd, fd ? 2 : 0, MSG_DONTWAIT);
    return sent == (ssize_t)length ? 0 : sent < 0 ? (int)sent : -EIO;
}

/* Receives a packet. 0: exactly `length` bytes; GYRE_AGAIN; -ECONNRESET: the end, or a packet of
 * another size. */
int gyre_packet_receive(int socket_fd, uint8_t *bytes, size_t length, int fd[2])
{
    ssize_t got = gyre_descriptors_receive(socket_fd, bytes, length, fd, 2, MSG_DONTWAIT);
    if (got == (ssize_t)length)
        return 0;
    gyre_descriptors_close(fd, 2);
    return got == -EAGAIN || got == -EINTR ? GYRE_AGAIN : -ECONNRESET;
}
