/* Bytes: whole numbers in them, little endian at any alignment, as everything on a wire is encoded;
 * and their hexadecimal digits. */
#ifndef GYRE_BASE_BYTES_H
#define GYRE_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void gyre_put16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}

static inline void gyre_put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static inline void gyre_put64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static inline uint16_t gyre_get16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}

static inline uint32_t gyre_get32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static inline uint64_t gyre_get64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

/* Writes 2 · length lower-case digits and a 0. */
void gyre_hex_write(const uint8_t *bytes, size_t length, char *text);

/* Reads 2 · length digits. False if one of them is no digit. */
bool gyre_hex_read(const char *text, uint8_t *bytes, size_t length);

#endif
