/* Messages over Unix sockets, with descriptors beside their bytes. */
#ifndef GYRE_TRANSPORT_NET_DESCRIPTORS_H
#define GYRE_TRANSPORT_NET_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

#define GYRE_DESCRIPTORS_MAX 2

/* Sends fd[0 … count-1] with the first byte; flags as sendmsg() takes them. Returns how many bytes
 * the socket took, or -errno. */
ssize_t gyre_descriptors_send(int socket, const void *bytes, size_t length, const int *fd,
                              int count, int flags);

/* Receives at most `length` bytes and `count` descriptors, which are close-on-exec; fd[i] is -1
 * where fewer came, and where this process has too many open files. Returns how many bytes came, or
 * -errno; -EMSGSIZE where more of either came than there was room for: none is left open then. */
ssize_t gyre_descriptors_receive(int socket, void *bytes, size_t length, int *fd, int count,
                                 int flags);

/* Closes those that are no -1, and sets them to -1. */
void gyre_descriptors_close(int *fd, int count);

#endif
