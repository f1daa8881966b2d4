/* Reads and writes little-endian fields in bounded bytes.
 *
 * A cursor that would leave its bytes turns bad, moves no further and yields zeros. A parser reads
 * all its fields and asks once at the end. So no length from a peer is ever trusted on the way. */
#ifndef GYRE_TRANSPORT_NET_CURSOR_H
#define GYRE_TRANSPORT_NET_CURSOR_H

#include "base/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct gyre_cursor {
    uint8_t *at, *end;
    bool bad;
};

/* No bytes may be NULL. */
static inline struct gyre_cursor gyre_cursor_over(void *bytes, size_t length)
{
    return (struct gyre_cursor){.at = bytes, .end = length ? (uint8_t *)bytes + length : bytes};
}

/* The next `length` bytes; NULL: fewer are left. */
static inline uint8_t *gyre_cursor_skip(struct gyre_cursor *cursor, size_t length)
{
    uint8_t *at = cursor->at;
    if (cursor->bad || (size_t)(cursor->end - at) < length) {
        cursor->bad = true;
        return NULL;
    }
    if (length)
        cursor->at += length;
    return at;
}

static inline void gyre_put_bytes(struct gyre_cursor *cursor, const void *bytes, size_t length)
{
    uint8_t *at = gyre_cursor_skip(cursor, length);
    if (at && length)
        memcpy(at, bytes, length);
}

static inline void gyre_get_bytes(struct gyre_cursor *cursor, void *bytes, size_t length)
{
    const uint8_t *at = gyre_cursor_skip(cursor, length);
    if (at && length)
        memcpy(bytes, at, length);
    else
        memset(bytes, 0, length);
}

static inline void gyre_put_u64(struct gyre_cursor *cursor, uint64_t value, unsigned bytes)
{
    uint8_t field[8];
    for (unsigned i = 0; i < bytes; i++)
        field[i] = (uint8_t)(value >> (8 * i));
    gyre_put_bytes(cursor, field, bytes);
}

static inline uint64_t gyre_get_u64(struct gyre_cursor *cursor, unsigned bytes)
{
    uint8_t field[8];
    uint64_t value = 0;
    gyre_get_bytes(cursor, field, bytes);
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)field[i] << (8 * i);
    return value;
}

/* Writes a string of at most size - 1 bytes, behind its length (2 bytes). */
static inline void gyre_put_text(struct gyre_cursor *cursor, const char *text, size_t size)
{
    size_t length = strnlen(text, size - 1);
    gyre_put_u64(cursor, length, 2);
    gyre_put_bytes(cursor, text, length);
}

/* Reads a string, made printable with its lines. `text` always ends with a zero. */
static inline void gyre_get_text(struct gyre_cursor *cursor, char *text, size_t size)
{
    size_t length = (size_t)gyre_get_u64(cursor, 2);
    if (length >= size)
        cursor->bad = true;
    if (cursor->bad)
        length = 0;
    gyre_get_bytes(cursor, text, length);
    text[length] = '\0';
    gyre_printable_lines(text);
}

#endif
