/* Writes messages of Protocol Buffers. A field is a key, its number and how it is written, and a
 * value: a number in pieces of seven bits, the lowest first, or bytes behind their length.
 *
 *     08 96 01              field 1, a number: 150
 *     12 01 61              field 2, one byte: "a"
 *
 * Tested by tests/unit/cli/trace/chakra_test.c. */
#include "cli/trace/protobuf.h"

#include <string.h>

#define NUMBER_MOST 10 /* bytes */

enum { AS_NUMBER = 0, AS_BYTES = 2 };

static size_t write_number(uint8_t bytes[NUMBER_MOST], uint64_t number)
{
    size_t length = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[length++] = (uint8_t)(number | 0x80);
    bytes[length++] = (uint8_t)number;
    return length;
}

static void add_bytes(struct gyre_message_bytes *message, uint32_t field, const void *bytes,
                      size_t length)
{
    uint8_t head[2 * NUMBER_MOST];
    size_t at = write_number(head, (uint64_t)field << 3 | AS_BYTES);
    at += write_number(head + at, length);
    if (message->length + at + length > sizeof message->bytes)
        return;
    memcpy(message->bytes + message->length, head, at);
    memcpy(message->bytes + message->length + at, bytes, length);
    message->length += at + length;
}

void gyre_protobuf_number(struct gyre_message_bytes *message, uint32_t field, uint64_t number)
{
    if (message->length + 2 * NUMBER_MOST > sizeof message->bytes)
        return;
    message->length +=
        write_number(message->bytes + message->length, (uint64_t)field << 3 | AS_NUMBER);
    message->length += write_number(message->bytes + message->length, number);
}

void gyre_protobuf_text(struct gyre_message_bytes *message, uint32_t field, const char *text)
{
    add_bytes(message, field, text, strlen(text));
}

void gyre_protobuf_part(struct gyre_message_bytes *message, uint32_t field,
                        const struct gyre_message_bytes *part)
{
    add_bytes(message, field, part->bytes, part->length);
}

void gyre_protobuf_put(FILE *out, const struct gyre_message_bytes *message)
{
    uint8_t head[NUMBER_MOST];
    fwrite(head, 1, write_number(head, message->length), out);
    fwrite(message->bytes, 1, message->length, out);
}
