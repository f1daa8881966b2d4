/* Messages of Protocol Buffers, written field by field. */
#ifndef GYRE_CLI_TRACE_PROTOBUF_H
#define GYRE_CLI_TRACE_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A message that is being written. Fields beyond its room are left out: whoever writes knows how
 * long the fields may become. */
struct gyre_message_bytes {
    size_t length;
    uint8_t bytes[1000];
};

void gyre_protobuf_number(struct gyre_message_bytes *message, uint32_t field, uint64_t number);
void gyre_protobuf_text(struct gyre_message_bytes *message, uint32_t field, const char *text);
void gyre_protobuf_part(struct gyre_message_bytes *message, uint32_t field,
                        const struct gyre_message_bytes *part);

/* Writes a message behind its length, as files of several messages have them. */
void gyre_protobuf_put(FILE *out, const struct gyre_message_bytes *message);

#endif
