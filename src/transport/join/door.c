/* Doors, pages and packets: what two processes of one machine need to hand each other memory.
 *
 *     door     an abstract Unix socket (no file, gone with the process) named by 128 random bits
 *     page     a sealed memfd of one page whose last 32 bytes only the session's key foretells
 *     packet   one message of known size, with two descriptors or without
 *
 * The kernel says who opened the other end; another user is not talked to. Descriptors that come
 * unasked are closed.
 *
 * Tested by tests/program/job/join.c. */
#include "transport/join/inside.h"

#include "base/hex.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CODE = GYRE_DIGEST_BYTES, PAGE = 4096, BACKLOG = 4096 };

/* -- names and pages --------------------------------------------------------------------------- */

static socklen_t door_address(const uint8_t name[16], struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    char *text = address->sun_path + 1; /* a zero before it: the abstract name space */
    memcpy(text, "gyre-", 5);
    gyre_hex_write(name, 16, text + 5);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text));
}

static int page_content(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, uint8_t content[CODE])
{
    const struct gyre_piece pieces[] = {{"page", 4},
                                        {&rank, sizeof rank}}; /* one machine: one byte order */
    return gyre_hmac_sha256(key, pieces, 2, content);
}

int gyre_page_make(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank)
{
    uint8_t content[CODE];
    int fd = memfd_create("gyre-join", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (page_content(key, rank, content) || ftruncate(fd, PAGE) ||
        pwrite(fd, content, CODE, PAGE - CODE) != CODE ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        int status = errno ? -errno : -EIO;
        close(fd);
        return status;
    }
    return fd;
}

uint32_t gyre_page_try(const uint8_t key[GYRE_KEY_BYTES], uint32_t rank, int fd)
{
    uint8_t content[CODE];
    struct stat info;
    if (page_content(key, rank, content))
        return EIO;
    if (fd < 0 || fstat(fd, &info) || info.st_size != PAGE)
        return EBADF;
    if ((fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
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

union rights {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
};

int gyre_packet_send(int socket_fd, const uint8_t *bytes, size_t length, const int fd[2])
{
    union rights rights = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd) {
        message.msg_control = rights.bytes;
        message.msg_controllen = sizeof rights.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(head), fd, 2 * sizeof(int));
    }
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length ? 0
                                                                                        : -errno;
}

static void take_rights(struct msghdr *message, int fd[2])
{
    fd[0] = fd[1] = -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count =
            (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); /* at most 2: that is the room given */
        memcpy(fd, CMSG_DATA(head), count * sizeof(int));
    }
}

void gyre_close_both(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    fd[0] = fd[1] = -1;
}

/* 0 with exactly `length` bytes; GYRE_AGAIN; -ECONNRESET for the end or anything of another size.
 */
int gyre_packet_receive(int socket_fd, uint8_t *bytes, size_t length, int fd[2])
{
    union rights rights;
    struct iovec iov = {bytes, length};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};
    fd[0] = fd[1] = -1;
    ssize_t n = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GYRE_AGAIN;
    if (n >= 0)
        take_rights(&message, fd);
    if (n == (ssize_t)length && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    gyre_close_both(fd);
    return -ECONNRESET;
}
