/* Writes JSON. One function moves bytes; the others call it. Strings in memory
 * are escaped as little as the format of safetensors escapes them: quotes, backslashes and control
 * characters. Strings on a stream also have DEL and the C1 controls escaped. Tested by
 * tests/unit/data/safetensors/write_test.c. */
#include "data/files/json_out.h"

#include "base/printable.h"

#include <inttypes.h>
#include <string.h>

static void put_json_bytes(struct gyre_json_out *out, const char *bytes, size_t length)
{
    if (out->to)
        memcpy(out->to + out->used, bytes, length);
    else if (out->stream)
        fwrite(bytes, 1, length, out->stream);
    out->used += length;
}

void gyre_json_put_text(struct gyre_json_out *out, const char *text)
{
    put_json_bytes(out, text, strlen(text));
}

/* Whether the character at `text` must be escaped: on a stream, which may be a terminal, every
 * control; in a file only those that JSON demands. */
static bool needs_escape(const struct gyre_json_out *out, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    return *at < ' ' || (out->stream && gyre_is_control(at));
}

void gyre_json_put_string(struct gyre_json_out *out, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    gyre_json_put_text(out, "\"");
    for (; *text; text++) {
        const char *found = strchr(plain, *text);
        char escape[8];
        if (found) {
            put_json_bytes(out, "\\", 1);
            put_json_bytes(out, names + (found - plain), 1);
        } else if (needs_escape(out, text)) {
            text += *text == '\xc2'; /* C1: the second byte is the code */
            snprintf(escape, sizeof escape, "\\u%04x", (uint8_t)*text);
            gyre_json_put_text(out, escape);
        } else {
            put_json_bytes(out, text, 1);
        }
    }
    gyre_json_put_text(out, "\"");
}

void gyre_json_put_whole(struct gyre_json_out *out, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    gyre_json_put_text(out, text);
}
