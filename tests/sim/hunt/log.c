/* Events and verdicts of the run. */
#include "sim/hunt/inside.h"

#include <stdarg.h>
#include <string.h>

struct hunt hunt;

uint64_t hunt_hash(const void *bytes, uint64_t length)
{
    const uint8_t *at = bytes;
    uint64_t hash = length, word;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; length; at++, length--)
        hash = (hash ^ *at) * 0x9e3779b97f4a7c15u;
    return gyre_mix64(hash);
}

void hunt_note(const char *what, uint32_t rank, uint64_t a, uint64_t b)
{
    uint64_t now = gyre_now_ns();
    uint64_t event[4] = {now, rank, a, b};
    hunt.hash =
        gyre_mix64(hunt.hash ^ hunt_hash(event, sizeof event) ^ hunt_hash(what, strlen(what)));
    if (hunt.log)
        fprintf(hunt.log, "%12.3f µs  rank %u  %s %lld %lld\n", (double)(now - HUNT_START) / 1e3,
                rank, what, (long long)a, (long long)b);
}

void hunt_wrong(const char *format, ...)
{
    struct hunt_outcome *outcome = hunt.outcome;
    va_list arguments;
    if (outcome->wrong)
        return;
    outcome->wrong = true;
    va_start(arguments, format);
    vsnprintf(outcome->text, sizeof outcome->text, format, arguments);
    va_end(arguments);
    if (hunt.log)
        fprintf(hunt.log, "WRONG: %s\n", outcome->text);
}
