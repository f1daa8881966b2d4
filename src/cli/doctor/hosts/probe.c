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
 * doubt. Tested by tests/program/cli/doctor_ways.sh. */
#include "cli/doctor/hosts/probe.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUND_TRIPS  50
#define LARGE        (64u << 10)
#define BULK_LEAST   (UINT64_C(256) << 10)
#define BULK_MOST    (UINT64_C(512) << 20)
#define BULK_SECONDS 0.25
#define PIECE        (256u << 10)
#define ANSWER       (4 * GYRE_SECOND) /* for a small message, and for 64 KiB */
#define BULK_ANSWER  (10 * GYRE_SECOND)

static uint8_t piece[PIECE];

static int send_to(int fd, void *bytes, size_t length, uint64_t patience)
{
    return gyre_socket_move(fd, POLLOUT, bytes, length, gyre_now_ns() + patience);
}

static int receive_from(int fd, void *bytes, size_t length, uint64_t patience)
{
    return gyre_socket_move(fd, POLLIN, bytes, length, gyre_now_ns() + patience);
}

/* -- the listener ------------------------------------------------------------------------------ */

static int serve_round_trip(int fd)
{
    uint8_t time[8];
    gyre_put64(time, gyre_wall_clock_ns());
    return send_to(fd, time, sizeof time, ANSWER);
}

static int swallow(int fd, uint64_t length, uint64_t patience)
{
    uint64_t deadline = gyre_now_ns() + patience;
    int status = 0;
    while (length && !status) {
        size_t now = length < PIECE ? (size_t)length : PIECE;
        status = gyre_socket_move(fd, POLLIN, piece, now, deadline);
        length -= now;
    }
    return status;
}

/* More patient than the dialler, who is to tell a message that got stuck from an end. */
static int serve_large(int fd)
{
    int status = swallow(fd, LARGE, 2 * ANSWER);
    return status ? status : send_to(fd, (char[]){'l'}, 1, ANSWER);
}

static int serve_bulk(int fd)
{
    uint8_t number[8];
    int status = receive_from(fd, number, sizeof number, ANSWER);
    uint64_t begun = gyre_now_ns(), length = gyre_get64(number);
    if (!status)
        status = swallow(fd, length < BULK_MOST ? length : BULK_MOST, BULK_ANSWER);
    gyre_put64(number, gyre_now_ns() - begun);
    return status ? status : send_to(fd, number, sizeof number, ANSWER);
}

void gyre_probe_serve(int fd, const char token[GYRE_PROBE_TOKEN])
{
    char word[GYRE_PROBE_TOKEN], what;
    gyre_socket_tune(fd, 0);
    int status = receive_from(fd, word, sizeof word, ANSWER);
    if (!status && memcmp(word, token, sizeof word))
        status = GYRE_REFUSED;
    while (!status && !receive_from(fd, &what, 1, BULK_ANSWER))
        status = what == 'p'   ? serve_round_trip(fd)
                 : what == 'l' ? serve_large(fd)
                 : what == 'b' ? serve_bulk(fd)
                               : GYRE_CORRUPT;
    close(fd);
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

static int try_round_trips(int fd, struct gyre_probe *probe)
{
    double took_us[ROUND_TRIPS], least_us = 0;
    int status = 0;
    for (int i = 0; i < ROUND_TRIPS && !status; i++) {
        uint8_t time[8];
        uint64_t wall = gyre_wall_clock_ns(), begun = gyre_now_ns();
        status = send_to(fd, (char[]){'p'}, 1, ANSWER);
        if (!status)
            status = receive_from(fd, time, sizeof time, ANSWER);
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

static int try_large(int fd, double *seconds)
{
    char what = 'l';
    uint64_t begun = gyre_now_ns();
    int status = send_to(fd, &what, 1, ANSWER);
    if (!status)
        status = send_to(fd, piece, LARGE, ANSWER);
    if (!status)
        status = receive_from(fd, &what, 1, ANSWER);
    *seconds = (double)(gyre_now_ns() - begun) / 1e9;
    return status;
}

/* As much as passes in a quarter of a second at the pace of the large message. */
static int try_bulk(int fd, double large_seconds, struct gyre_probe *probe)
{
    char what = 'b';
    uint8_t number[8];
    double wanted = LARGE / large_seconds * BULK_SECONDS;
    uint64_t length = wanted > (double)BULK_MOST ? BULK_MOST : (uint64_t)wanted;
    length = length < BULK_LEAST ? BULK_LEAST : length;
    gyre_put64(number, length);
    int status = send_to(fd, &what, 1, ANSWER);
    if (!status)
        status = send_to(fd, number, sizeof number, ANSWER);
    for (uint64_t at = 0; at < length && !status; at += PIECE)
        status =
            send_to(fd, piece, length - at < PIECE ? (size_t)(length - at) : PIECE, BULK_ANSWER);
    if (!status)
        status = receive_from(fd, number, sizeof number, BULK_ANSWER);
    uint64_t took_ns = gyre_get64(number);
    if (!status && took_ns)
        probe->gbit_s = (double)length * 8 / (double)took_ns;
    return status;
}

static void try_connected(int fd, const char token[GYRE_PROBE_TOKEN], struct gyre_probe *probe)
{
    char word[GYRE_PROBE_TOKEN];
    double seconds = 0;
    socklen_t length = sizeof probe->segment_bytes;
    memcpy(word, token, sizeof word);
    gyre_socket_tune(fd, 0);
    int status = send_to(fd, word, sizeof word, ANSWER);
    if (!status)
        status = try_round_trips(fd, probe);
    (void)getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &probe->segment_bytes, &length);
    probe->lost = status;
    if (status)
        return;
    status = try_large(fd, &seconds);
    probe->stuck = status == GYRE_TIMED_OUT;
    if (!status)
        status = try_bulk(fd, seconds, probe);
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
