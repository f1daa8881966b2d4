/* Sockets with a troublesome network between them: a thread that forwards what it reads, one byte
 * at a time or with one bit flipped.
 *
 *     hub ═══ end[0] ─▶ relay thread ─▶ end[1] ═══ leaf
 */
#include "link/suite.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct gyre_link_relay {
    struct gyre_link_relay *next;
    pthread_t thread;
    int end[2];
    bool split;
    int64_t flip_at; /* counts down on the way from the hub */
};

static void flip(struct gyre_link_relay *relay, unsigned char *bytes, ssize_t length)
{
    if (relay->flip_at >= 0 && relay->flip_at < length) {
        bytes[relay->flip_at] ^= 0x10;
    }
    relay->flip_at = relay->flip_at >= length ? relay->flip_at - length : -1;
}

static bool forward(struct gyre_link_relay *relay, int from)
{
    unsigned char bytes[4096];
    ssize_t length = recv(relay->end[from], bytes, relay->split ? 1 : sizeof bytes, 0);
    if (length <= 0) {
        shutdown(relay->end[!from], SHUT_WR);
        return false;
    }
    if (from == 0) {
        flip(relay, bytes, length);
    }
    for (ssize_t done = 0; done < length;) {
        ssize_t sent = send(relay->end[!from], bytes + done, (size_t)(length - done), MSG_NOSIGNAL);
        if (sent < 0) {
            shutdown(relay->end[from], SHUT_RD);
            return false;
        }
        done += sent;
    }
    return true;
}

static void *relay_main(void *argument)
{
    struct gyre_link_relay *relay = argument;
    struct pollfd wait[2] = {{.fd = relay->end[0], .events = POLLIN},
                             {.fd = relay->end[1], .events = POLLIN}};
    while (wait[0].fd >= 0 || wait[1].fd >= 0) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR) {
            break;
        }
        for (int side = 0; side < 2; side++) {
            if (wait[side].revents && !forward(relay, side)) {
                wait[side].fd = -1;
            }
        }
    }
    return NULL;
}

static int start(struct gyre_link_net *net, const struct gyre_link_wish *wish, int64_t flip_at,
                 int progress, int leaf)
{
    struct gyre_link_relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        return -ENOMEM;
    }
    *relay = (struct gyre_link_relay){
        .next = net->relay, .end = {progress, leaf}, .split = wish->split, .flip_at = flip_at};
    int status = -pthread_create(&relay->thread, NULL, relay_main, relay);
    if (status) {
        free(relay);
        return status;
    }
    net->relay = relay;
    return 0;
}

int gyre_link_sockets(const struct gyre_link_wish *wish, struct gyre_link_net *net, int leaf,
                      int fd[2])
{
    int far[2];
    int64_t flip_at = leaf == 0 ? wish->flip_at : -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
        return -errno;
    }
    if (!wish->split && flip_at < 0) {
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, far)) {
        return -errno;
    }
    int status = start(net, wish, flip_at, fd[1], far[0]);
    fd[1] = far[1];
    return status;
}

void gyre_link_relays_stop(struct gyre_link_net *net)
{
    while (net->relay) {
        struct gyre_link_relay *relay = net->relay;
        net->relay = relay->next;
        shutdown(relay->end[0], SHUT_RDWR);
        shutdown(relay->end[1], SHUT_RDWR);
        pthread_join(relay->thread, NULL);
        close(relay->end[0]);
        close(relay->end[1]);
        free(relay);
    }
}
