/* Bytes as hexadecimal digits, two for each byte. */
#ifndef GYRE_BASE_HEX_H
#define GYRE_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes 2 · length lower-case digits and a 0. */
void gyre_hex_write(const uint8_t *bytes, size_t length, char *text);

/* Reads 2 · length digits. False if one of them is no digit. */
bool gyre_hex_read(const char *text, uint8_t *bytes, size_t length);

#endif
