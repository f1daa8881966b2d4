/* Conversations: the bytes of a socket become handshake messages and records, and back.
 *
 *     socket ─▶ handshake (M1, M2, M3) ─▶ record header ─▶ payload, code ─▶ the owner
 *
 * Each recv() asks for exactly the bytes that the current message lacks. A record costs two calls,
 * and in return the socket can be passed on at any record's end. The record number is part of the
 * code, so a repeated, dropped or reordered record is noticed. A length beyond the limit ends the
 * conversation before any memory is allocated for the record.
 *
 * Tested by tests/unit/transport/net/talk_test.c and tests/program/job/join_refused.c. */
#include "transport/net/talk.h"

#include "base/clock.h"
#include "transport/net/cursor.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CODE = GYRE_DIGEST_BYTES, HEADER = GYRE_RECORD_HEADER, DRAIN_MS = 10 };

void gyre_talk_open(struct gyre_talk *talk, int fd)
{
    talk->fd = fd;
    talk->limit = GYRE_RECORD_SMALL;
    talk->said = talk->heard = 0;
    talk->in = talk->out = NULL;
    talk->in_have = talk->in_size = 0;
    talk->out_sent = talk->out_have = talk->out_size = 0;
}

int gyre_talk_take(struct gyre_talk *talk)
{
    int fd = talk->fd;
    free(talk->in);
    free(talk->out);
    gyre_handshake_wipe(&talk->shake);
    gyre_talk_open(talk, -1);
    return fd;
}

void gyre_talk_close(struct gyre_talk *talk)
{
    int fd = gyre_talk_take(talk);
    if (fd >= 0)
        close(fd);
}

static int derive_traffic_key(const uint8_t key[GYRE_KEY_BYTES], const char *purpose,
                              uint8_t out[GYRE_TRAFFIC_KEY_BYTES])
{
    return gyre_hkdf_sha256((struct gyre_piece){key, GYRE_KEY_BYTES}, (struct gyre_piece){0},
                            (struct gyre_piece){purpose, strlen(purpose)}, out,
                            GYRE_TRAFFIC_KEY_BYTES);
}

int gyre_talk_keys(const struct gyre_talk *talk, const char *purpose,
                   struct gyre_traffic_keys *keys)
{
    if (talk->shake.state != GYRE_HANDSHAKE_PROVEN)
        return -EPERM;
    int status = derive_traffic_key(talk->shake.key_out, purpose, keys->out);
    return status ? status : derive_traffic_key(talk->shake.key_in, purpose, keys->in);
}

/* -- bytes ------------------------------------------------------------------------------------- */

static int read_some(struct gyre_talk *talk, uint8_t *where, size_t length, size_t *got)
{
    ssize_t n;
    do
        n = recv(talk->fd, where, length, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return GYRE_AGAIN;
    if (n <= 0)
        return -ECONNRESET;
    *got = (size_t)n;
    return 0;
}

static int write_some(struct gyre_talk *talk, const uint8_t *bytes, size_t length, size_t *put)
{
    ssize_t n;
    do
        n = send(talk->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    *put = n > 0 ? (size_t)n : 0;
    if (n < 0 && errno != EAGAIN)
        return -ECONNRESET;
    return n < 0 ? GYRE_AGAIN : 0;
}

int gyre_talk_flush(struct gyre_talk *talk)
{
    const uint8_t *bytes;
    size_t length, put;
    int status = 0;
    while (!status && (length = gyre_handshake_output(&talk->shake, &bytes)) > 0) {
        status = write_some(talk, bytes, length, &put);
        gyre_handshake_sent(&talk->shake, put);
    }
    while (!status && talk->out_sent < talk->out_have) {
        status =
            write_some(talk, talk->out + talk->out_sent, talk->out_have - talk->out_sent, &put);
        talk->out_sent += put;
    }
    if (talk->out_sent == talk->out_have)
        talk->out_sent = talk->out_have = 0;
    return status;
}

bool gyre_talk_pending(const struct gyre_talk *talk)
{
    const uint8_t *bytes;
    return talk->out_sent < talk->out_have || gyre_handshake_output(&talk->shake, &bytes) > 0;
}

void gyre_talk_drain(struct gyre_talk *talk, uint64_t until)
{
    struct pollfd wait = {.fd = talk->fd, .events = POLLOUT};
    while (gyre_talk_pending(talk) && gyre_talk_flush(talk) == GYRE_AGAIN && gyre_now_ns() < until)
        poll(&wait, 1, DRAIN_MS);
}

static int make_buffer_room(uint8_t **buffer, size_t *size, size_t need)
{
    if (need <= *size)
        return 0;
    size_t larger = need + need / 2 + 256;
    uint8_t *grown = realloc(*buffer, larger);
    if (!grown)
        return -ENOMEM;
    *buffer = grown;
    *size = larger;
    return 0;
}

/* -- records ----------------------------------------------------------------------------------- */

static int seal(const uint8_t *key, uint64_t number, const uint8_t *record, size_t length,
                uint8_t code[CODE])
{
    uint8_t count[8];
    struct gyre_cursor cursor = gyre_cursor_over(count, sizeof count);
    gyre_put_u64(&cursor, number, 8);
    const struct gyre_piece pieces[] = {{count, sizeof count}, {record, length}};
    return gyre_hmac_sha256(key, pieces, 2, code);
}

int gyre_talk_say(struct gyre_talk *talk, uint16_t kind, const void *payload, size_t length)
{
    if (talk->shake.state != GYRE_HANDSHAKE_PROVEN)
        return -EPERM;
    size_t whole = HEADER + length + CODE;
    int status = make_buffer_room(&talk->out, &talk->out_size, talk->out_have + whole);
    if (status)
        return status;
    uint8_t *record = talk->out + talk->out_have;
    struct gyre_cursor cursor = gyre_cursor_over(record, whole);
    gyre_put_u64(&cursor, length, 4);
    gyre_put_u64(&cursor, kind, 2);
    gyre_put_u64(&cursor, 0, 2);
    gyre_put_bytes(&cursor, payload, length);
    status = seal(talk->shake.key_out, talk->said, record, HEADER + length, cursor.at);
    if (status)
        return status;
    talk->said++;
    talk->out_have += whole;
    status = gyre_talk_flush(talk);
    return status == GYRE_AGAIN ? 0 : status;
}

/* The length of the record being received, as far as it is known. */
static int record_length(const struct gyre_talk *talk, size_t *whole)
{
    *whole = HEADER;
    if (talk->in_have < HEADER)
        return 0;
    struct gyre_cursor cursor = gyre_cursor_over(talk->in, HEADER);
    size_t length = (size_t)gyre_get_u64(&cursor, 4);
    *whole = HEADER + length + CODE;
    return length > talk->limit ? GYRE_CORRUPT : 0;
}

static int open_record(struct gyre_talk *talk, size_t whole, struct gyre_record *record)
{
    uint8_t code[CODE];
    int status = seal(talk->shake.key_in, talk->heard, talk->in, whole - CODE, code);
    if (status)
        return status;
    if (!gyre_secret_equal(code, talk->in + whole - CODE, CODE))
        return GYRE_CORRUPT;
    struct gyre_cursor cursor = gyre_cursor_over(talk->in + 4, 2);
    record->kind = (uint16_t)gyre_get_u64(&cursor, 2);
    record->payload = talk->in + HEADER;
    record->length = whole - CODE - HEADER;
    talk->heard++;
    talk->in_have = 0;
    return record->kind ? 0 : GYRE_CORRUPT;
}

static int read_record(struct gyre_talk *talk, struct gyre_record *record)
{
    for (;;) {
        size_t whole, got;
        int status = record_length(talk, &whole);
        if (!status && talk->in_have >= HEADER && talk->in_have == whole)
            return open_record(talk, whole, record);
        if (!status)
            status = make_buffer_room(&talk->in, &talk->in_size, whole);
        if (!status)
            status = read_some(talk, talk->in + talk->in_have, whole - talk->in_have, &got);
        if (status)
            return status;
        talk->in_have += got;
    }
}

static int read_handshake(struct gyre_talk *talk, struct gyre_record *record)
{
    int status = GYRE_AGAIN;
    while (status == GYRE_AGAIN) {
        uint8_t *where;
        size_t got, room = gyre_handshake_room(&talk->shake, &where);
        status = read_some(talk, where, room, &got);
        if (status)
            return status;
        status = gyre_handshake_took(&talk->shake, got);
        (void)gyre_talk_flush(talk);
    }
    *record = (struct gyre_record){0};
    return status;
}

int gyre_talk_step(struct gyre_talk *talk, struct gyre_record *record)
{
    (void)gyre_talk_flush(talk); /* a failure shows when reading, behind the peer's last record */
    if (talk->shake.state == GYRE_HANDSHAKE_PROVEN)
        return read_record(talk, record);
    int status = read_handshake(talk, record);
    (void)gyre_talk_flush(talk);
    return status;
}
