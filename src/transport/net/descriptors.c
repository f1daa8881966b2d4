/* Descriptors beside bytes. The kernel puts what was sent into the room of the receiver and closes
 * what has no room: so the room is exactly as large as what is expected. Where the receiver may not
 * open another descriptor the kernel closes the rest, too, and leaves part of the room empty. */
#include "transport/net/descriptors.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union room {
    char bytes[CMSG_SPACE(GYRE_DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

ssize_t gyre_descriptors_send(int socket, const void *bytes, size_t length, const int *fd,
                              int count, int flags)
{
    union room room = {0};
    struct iovec part = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = room.bytes;
        message.msg_controllen = CMSG_LEN((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        *rights = (struct cmsghdr){message.msg_controllen, SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(rights), fd, (size_t)count * sizeof(int));
    }
    ssize_t sent = TEMP_FAILURE_RETRY(sendmsg(socket, &message, flags | MSG_NOSIGNAL));
    return sent < 0 ? -errno : sent;
}

ssize_t gyre_descriptors_receive(int socket, void *bytes, size_t length, int *fd, int count,
                                 int flags)
{
    union room room = {0};
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = CMSG_LEN((size_t)count * sizeof(int))};
    memset(fd, -1, (size_t)count * sizeof(int));
    ssize_t got = TEMP_FAILURE_RETRY(recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC));
    if (got < 0)
        return -errno;
    const struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    size_t bytes_came = 0;
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
        bytes_came = rights->cmsg_len - CMSG_LEN(0);
    if (bytes_came)
        memcpy(fd, CMSG_DATA(rights), bytes_came);
    bool no_room = bytes_came == (size_t)count * sizeof(int);
    if (!(message.msg_flags & MSG_TRUNC) && !(message.msg_flags & MSG_CTRUNC && no_room))
        return got;
    gyre_descriptors_close(fd, count);
    return -EMSGSIZE;
}

void gyre_descriptors_close(int *fd, int count)
{
    for (int i = 0; i < count; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}
