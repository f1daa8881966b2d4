/* One connection, four trials.
 *
 *     dialler                              listener
 *       │ ── token ───────────────────────▶ │   a stranger is dropped
 *       │ ── 'p' ─────────────────────────▶ │   50 times: round trip, and the clock there
 *       │ ◀─ its time ────────────────────  │
 *       │ ── 'l', 64 KiB ─────────────────▶ │   segments as large as the interfaces allow
 *       │ ◀─ 'l' ─────────────────────────  │
 *       │ ── 'b', length, that many bytes ▶ │   a quarter of a second, by what 64 KiB took
 *       │ ◀─ how long that took ──────────  │
 *
 * The clock there is compared with the middle of the quickest round trip; half of that trip is the
 * doubt.
 *
 * Two things can keep an answer away. The network drops what was sent: then the kernel there does
 * not acknowledge it, which takes no process, and 4 s of that are enough. Or the process there gets
 * no core: its kernel has acknowledged all, and the wait is as long as a process may stand still.
 * Either side that gives up resets the connection, so the other need not wait for itself.
 *
 * Tested by tests/program/cli/doctor_ways.sh. */
#include "cli/doctor/hosts/probe.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define ROUND_TRIPS  50
#define LARGE        (64u << 10)
#define BULK_LEAST   (UINT64_C(256) << 10)
#define BULK_MOST    (UINT64_C(512) << 20)
#define BULK_SECONDS 0.25
#define PIECE        (256u << 10)

/* Waits are counted in looks, not by the clock, which goes on while this process stands still. */
#define LOOK_MS       100
#define LOOKS(ms)     ((ms) / LOOK_MS)
#define ARRIVE_LOOKS  LOOKS(4000)  /* without an acknowledgement of what was sent */
#define DIALLER_LOOKS LOOKS(60000) /* without a word, in all */
/* Fewer, or a stranger who says nothing would keep a dialler waiting for too long. */
#define LISTENER_LOOKS LOOKS(40000)

struct probe_end { /* of a connection */
    int fd;
    int heed; /* what it says ends the connection; -1: nothing */
    uint32_t quiet, looks;
    uint32_t unheard; /* looks in a row at which the same bytes were not acknowledged */
    int queued;       /* bytes that are not acknowledged */
};

static uint8_t piece[PIECE];

/* Counts a look at which nothing could be moved. GYRE_TIMED_OUT: what was sent does not arrive;
 * GYRE_PEER_LOST: nobody has said anything for long. */
static int count_look(struct probe_end *end)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    int queued = 0;
    (void)getsockopt(end->fd, IPPROTO_TCP, TCP_INFO, &info, &length);
    (void)ioctl(end->fd, SIOCOUTQ, &queued);
    end->unheard = info.tcpi_unacked && queued == end->queued ? end->unheard + 1 : 0;
    end->queued = queued;
    end->quiet++;
    return end->unheard >= ARRIVE_LOOKS ? GYRE_TIMED_OUT
           : end->quiet >= end->looks   ? GYRE_PEER_LOST
                                        : 0;
}

/* Waits until bytes can be moved. */
static int await_ready(struct probe_end *end, short direction)
{
    int status = 0;
    while (!status) {
        struct pollfd wait[2] = {{.fd = end->fd, .events = direction},
                                 {.fd = end->heed, .events = POLLIN}};
        int ready = poll(wait, 2, LOOK_MS);
        if (wait[0].revents)
            return 0;
        status = ready == 0 ? count_look(end) : wait[1].revents ? GYRE_PEER_LOST : 0;
    }
    return status;
}

static int move(struct probe_end *end, short direction, void *bytes, size_t length)
{
    char *at = bytes;
    int status = 0;
    while (length && !(status = await_ready(end, direction))) {
        ssize_t count = direction == POLLIN
                            ? recv(end->fd, at, length, MSG_DONTWAIT)
                            : send(end->fd, at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
            return GYRE_PEER_LOST;
        at += count > 0 ? count : 0;
        length -= (size_t)(count > 0 ? count : 0);
    }
    return status;
}

static int send_to(struct probe_end *end, void *bytes, size_t length)
{
    return move(end, POLLOUT, bytes, length);
}

static int receive_from(struct probe_end *end, void *bytes, size_t length)
{
    return move(end, POLLIN, bytes, length);
}

/* -- the listener ------------------------------------------------------------------------------ */

static int serve_round_trip(struct probe_end *end)
{
    uint8_t time[8];
    gyre_put64(time, gyre_wall_clock_ns());
    return send_to(end, time, sizeof time);
}

static int swallow(struct probe_end *end, uint64_t length)
{
    int status = 0;
    while (length && !status) {
        size_t now = length < PIECE ? (size_t)length : PIECE;
        status = receive_from(end, piece, now);
        length -= now;
    }
    return status;
}

static int serve_large(struct probe_end *end)
{
    int status = swallow(end, LARGE);
    return status ? status : send_to(end, (char[]){'l'}, 1);
}

static int serve_bulk(struct probe_end *end)
{
    uint8_t number[8];
    int status = receive_from(end, number, sizeof number);
    uint64_t begun = gyre_now_ns(), length = gyre_get64(number);
    if (!status)
        status = swallow(end, length < BULK_MOST ? length : BULK_MOST);
    gyre_put64(number, gyre_now_ns() - begun);
    return status ? status : send_to(end, number, sizeof number);
}

void gyre_probe_serve(int fd, const char token[GYRE_PROBE_TOKEN], int heed)
{
    struct probe_end end = {.fd = fd, .heed = heed, .looks = LISTENER_LOOKS};
    char word[GYRE_PROBE_TOKEN], what;
    gyre_socket_tune(fd, 0);
    int status = receive_from(&end, word, sizeof word);
    if (!status && memcmp(word, token, sizeof word))
        status = GYRE_REFUSED;
    while (!status && !(status = receive_from(&end, &what, 1)))
        status = what == 'p'   ? serve_round_trip(&end)
                 : what == 'l' ? serve_large(&end)
                 : what == 'b' ? serve_bulk(&end)
                               : GYRE_CORRUPT;
    gyre_socket_drop(fd);
}

/* -- the dialler ------------------------------------------------------------------------------- */

int gyre_probe_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source)
{
    int fd = gyre_socket_connect(to, source);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    if (fd < 0)
        return fd;
    int status =
        poll(&wait, 1, GYRE_PROBE_CONNECT_MS) == 1 ? gyre_socket_connected(fd) : -ETIMEDOUT;
    if (!status)
        return fd;
    gyre_socket_drop(fd);
    return status;
}

static int ascending_us(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int try_round_trips(struct probe_end *end, struct gyre_probe *probe)
{
    double took_us[ROUND_TRIPS], least_us = 0;
    int status = 0;
    for (int i = 0; i < ROUND_TRIPS && !status; i++) {
        uint8_t time[8];
        uint64_t wall = gyre_wall_clock_ns(), begun = gyre_now_ns();
        status = send_to(end, (char[]){'p'}, 1);
        if (!status)
            status = receive_from(end, time, sizeof time);
        took_us[i] = (double)(gyre_now_ns() - begun) / 1e3;
        if (status || (i && took_us[i] >= least_us))
            continue;
        least_us = took_us[i];
        probe->ahead_ms = (double)(int64_t)(gyre_get64(time) - wall) / 1e6 - least_us / 2e3;
        probe->doubt_ms = least_us / 2e3;
    }
    if (status)
        return status;
    qsort(took_us, ROUND_TRIPS, sizeof *took_us, ascending_us);
    probe->round_trip_us = took_us[ROUND_TRIPS / 2];
    return 0;
}

static int try_large(struct probe_end *end, double *seconds)
{
    char what = 'l';
    uint64_t begun = gyre_now_ns();
    int status = send_to(end, &what, 1);
    if (!status)
        status = send_to(end, piece, LARGE);
    if (!status)
        status = receive_from(end, &what, 1);
    *seconds = (double)(gyre_now_ns() - begun) / 1e9;
    return status;
}

/* As much as passes in a quarter of a second at the pace of the large message. */
static int try_bulk(struct probe_end *end, double large_seconds, struct gyre_probe *probe)
{
    char what = 'b';
    uint8_t number[8];
    double wanted = LARGE / large_seconds * BULK_SECONDS;
    uint64_t length = wanted > (double)BULK_MOST ? BULK_MOST : (uint64_t)wanted;
    length = length < BULK_LEAST ? BULK_LEAST : length;
    gyre_put64(number, length);
    int status = send_to(end, &what, 1);
    if (!status)
        status = send_to(end, number, sizeof number);
    for (uint64_t at = 0; at < length && !status; at += PIECE)
        status = send_to(end, piece, length - at < PIECE ? (size_t)(length - at) : PIECE);
    if (!status)
        status = receive_from(end, number, sizeof number);
    uint64_t took_ns = gyre_get64(number);
    if (!status && took_ns)
        probe->gbit_s = (double)length * 8 / (double)took_ns;
    return status;
}

static void try_connected(int fd, const char token[GYRE_PROBE_TOKEN], struct gyre_probe *probe)
{
    struct probe_end end = {.fd = fd, .heed = -1, .looks = DIALLER_LOOKS};
    char word[GYRE_PROBE_TOKEN];
    double seconds = 0;
    socklen_t length = sizeof probe->segment_bytes;
    memcpy(word, token, sizeof word);
    gyre_socket_tune(fd, 0);
    int status = send_to(&end, word, sizeof word);
    if (!status)
        status = try_round_trips(&end, probe);
    (void)getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &probe->segment_bytes, &length);
    probe->lost = status;
    if (status)
        return;
    status = try_large(&end, &seconds);
    probe->stuck = status == GYRE_TIMED_OUT;
    if (!status)
        status = try_bulk(&end, seconds, probe);
    probe->lost = status && !probe->stuck;
}

void gyre_probe_try(const struct sockaddr_storage *to, const struct sockaddr_storage *source,
                    const char token[GYRE_PROBE_TOKEN], struct gyre_probe *probe)
{
    *probe = (struct gyre_probe){0};
    int fd = gyre_probe_connect(to, source);
    if (fd < 0) {
        probe->error = -fd;
        return;
    }
    try_connected(fd, token, probe);
    gyre_socket_drop(fd);
}

/* -- words ------------------------------------------------------------------------------------- */

void gyre_probe_explain(int error, const char *address, char *found, char *advice, size_t size)
{
    *advice = 0;
    if (error == ECONNREFUSED) {
        snprintf(found, size, "%s refuses the connection", address);
        snprintf(advice, size, "a firewall there rejects it, or the address is another machine's");
    } else if (error == ETIMEDOUT) {
        snprintf(found, size, "%s does not answer within %d s", address,
                 GYRE_PROBE_CONNECT_MS / 1000);
        snprintf(advice, size,
                 "a firewall on the way drops the packets, or the network does not lead there");
    } else if (error == EHOSTUNREACH || error == ENETUNREACH) {
        snprintf(found, size, "there is no route to %s", address);
        snprintf(
            advice, size,
            "see `ip route get` for that address; a firewall that answers \"prohibited\" looks "
            "the same");
    } else {
        snprintf(found, size, "%s cannot be connected to: %s", address, strerror(error));
    }
}
