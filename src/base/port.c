/* A port for a program that will listen there later.
 *
 * A port that is merely looked up may be another's before its program listens. A bound socket that
 * never listens keeps it: the kernel hands out no port that somebody has bound, and whoever draws
 * the same one finds it taken. SO_REUSEADDR is set only after bind(), so that two reservations
 * exclude each other, and then lets the listener in.
 *
 * Tested by tests/unit/base/port_test.c. */
#include "base/port.h"

#include "base/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define DRAWS 100

uint16_t gyre_port_draw(void)
{
    uint16_t random = 0;
    return gyre_random_bytes(&random, sizeof random) ? 29500 : (uint16_t)(20000 + random % 12000);
}

static int keep_port(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (!bind(fd, (struct sockaddr *)&address, sizeof address) &&
        !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
        return fd;
    int status = -errno;
    close(fd);
    return status;
}

int gyre_port_reserve(uint16_t *port)
{
    int fd = -EADDRINUSE;
    for (int i = 0; i < DRAWS && fd == -EADDRINUSE; i++)
        fd = keep_port(*port = gyre_port_draw());
    return fd;
}
