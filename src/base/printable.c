/* Walks a text character by character. A character that a terminal would obey, or a byte that
 * begins no character, is written over with '?', one for each byte. So no text grows. */
#include "base/printable.h"

#include <string.h>

size_t gyre_utf8_length(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at, least = 0x80, most = 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first > 0xf4 || length > (size_t)(end - at))
        return 0;
    if (first == 0xe0)
        least = 0xa0;
    else if (first == 0xed)
        most = 0x9f;
    else if (first == 0xf0)
        least = 0x90;
    else if (first == 0xf4)
        most = 0x8f;
    for (size_t i = 1; i < length; i++, least = 0x80, most = 0xbf)
        if (at[i] < least || at[i] > most)
            return 0;
    return length;
}

bool gyre_is_control(const uint8_t *at)
{
    return *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
}

static void replace_controls(uint8_t *at, const uint8_t *end, const char *kept)
{
    while (at < end) {
        size_t length = gyre_utf8_length(at, end), bytes = length ? length : 1;
        if (!length || (gyre_is_control(at) && !strchr(kept, *at)))
            memset(at, '?', bytes);
        at += bytes;
    }
}

char *gyre_printable_line(char *text)
{
    replace_controls((uint8_t *)text, (uint8_t *)text + strlen(text), "");
    return text;
}

char *gyre_printable_lines(char *text)
{
    replace_controls((uint8_t *)text, (uint8_t *)text + strlen(text), "\n\t");
    return text;
}

char *gyre_printable(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size), used = length < size ? length : size - 4;
    while (length == size && used && ((uint8_t)from[used] & 0xc0) == 0x80)
        used--; /* the cut is not within a character */
    memcpy(to, from, used);
    strcpy(to + used, length < size ? "" : "...");
    return gyre_printable_line(to);
}
