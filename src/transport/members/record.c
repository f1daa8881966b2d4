/* The records by which members agree, as bytes. Tested by
 * tests/unit/transport/members/record_test.c. */
#include "transport/members/record.h"

#include "transport/net/cursor.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <stdlib.h>

enum { FIXED = 4 + 4 + 4 + 1 };

size_t gyre_statement_bytes(uint32_t n)
{
    return FIXED + (size_t)n;
}

size_t gyre_statement_encode(const struct gyre_statement *statement, uint32_t n, uint8_t *out)
{
    struct gyre_cursor cursor = gyre_cursor_over(out, gyre_statement_bytes(n));
    gyre_put_u64(&cursor, statement->epoch, 4);
    gyre_put_u64(&cursor, statement->seen, 4);
    gyre_put_u64(&cursor, statement->coordinator, 4);
    gyre_put_u64(&cursor, statement->leaving, 1);
    gyre_put_bytes(&cursor, statement->standing, n);
    return (size_t)(cursor.at - out);
}

/* A coordinator that is no seat counts as none. */
int gyre_statement_decode(const struct gyre_record *record, uint32_t n,
                          struct gyre_statement *statement)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    statement->epoch = (uint32_t)gyre_get_u64(&in, 4);
    statement->seen = (uint32_t)gyre_get_u64(&in, 4);
    statement->coordinator = (uint32_t)gyre_get_u64(&in, 4);
    statement->leaving = gyre_get_u64(&in, 1) != 0;
    statement->standing = gyre_cursor_skip(&in, n);
    if (in.bad || in.at != in.end || statement->seen < statement->epoch)
        return GYRE_CORRUPT;
    for (uint32_t seat = 0; seat < n; seat++)
        if (statement->standing[seat] >= GYRE_STANDINGS)
            return GYRE_CORRUPT;
    if (statement->coordinator >= n)
        statement->coordinator = UINT32_MAX;
    return 0;
}

int gyre_statement_say(struct gyre_talk *talk, enum gyre_member_record kind,
                       const struct gyre_statement *statement, uint32_t n)
{
    uint8_t *payload = malloc(gyre_statement_bytes(n));
    if (!payload)
        return -ENOMEM;
    int status =
        gyre_talk_say(talk, (uint16_t)kind, payload, gyre_statement_encode(statement, n, payload));
    free(payload);
    return status;
}

void gyre_seat_put(struct gyre_cursor *cursor, const struct gyre_seat *seat)
{
    gyre_address_put(cursor, &seat->address);
    gyre_put_u64(cursor, (uint32_t)seat->pid, 4);
    gyre_put_bytes(cursor, seat->host, sizeof seat->host);
}

void gyre_seat_get(struct gyre_cursor *cursor, struct gyre_seat *seat)
{
    *seat = (struct gyre_seat){0};
    gyre_address_get(cursor, &seat->address);
    seat->pid = (int32_t)gyre_get_u64(cursor, 4);
    gyre_get_bytes(cursor, seat->host, sizeof seat->host);
    seat->host[sizeof seat->host - 1] = '\0';
}

int gyre_seats_say(struct gyre_talk *talk, const struct gyre_seat *at, uint32_t first,
                   uint32_t count)
{
    const size_t length = 8 + (size_t)count * GYRE_SEAT_BYTES;
    uint8_t *payload = malloc(length);
    if (!payload)
        return -ENOMEM;
    struct gyre_cursor cursor = gyre_cursor_over(payload, length);
    gyre_put_u64(&cursor, first, 4);
    gyre_put_u64(&cursor, count, 4);
    for (uint32_t seat = first; seat < first + count; seat++)
        gyre_seat_put(&cursor, &at[seat]);
    int status = gyre_talk_say(talk, GYRE_MEMBER_SEATS, payload, length);
    free(payload);
    return status;
}

int gyre_seats_read(const struct gyre_record *record, uint32_t least, uint32_t n,
                    struct gyre_seat *at)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    const uint32_t first = (uint32_t)gyre_get_u64(&in, 4), count = (uint32_t)gyre_get_u64(&in, 4);
    if (in.bad || first < least || first > n || count > n - first ||
        record->length != 8 + (size_t)count * GYRE_SEAT_BYTES)
        return GYRE_CORRUPT;
    for (uint32_t seat = first; seat < first + count; seat++)
        gyre_seat_get(&in, &at[seat]);
    return 0;
}

struct gyre_statement gyre_members_statement(const struct gyre_members *members)
{
    return (struct gyre_statement){.epoch = members->epoch,
                                   .seen = members->seen,
                                   .coordinator = UINT32_MAX,
                                   .standing = members->standing};
}
