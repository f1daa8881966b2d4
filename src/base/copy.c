/* Copies in steps where memcpy() of all bytes would be slow. */
#include "base/copy.h"

#include <string.h>

/* Copies in steps of a length that the compiler does not know. The compiler would turn memcpy() of
 * a known length into `rep movsb`. */
static __attribute__((noinline)) void copy_long(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    bool steps = bytes <= GYRE_COPY_SOON || gyre_copy_is_slow(to, from, bytes);
    uint64_t step = steps ? GYRE_COPY_STEP : bytes;

    for (uint64_t left = bytes; left > 0; left -= step) {
        step = step < left ? step : left;
        memcpy(to, from, step);
        to += step;
        from += step;
    }
}

void gyre_copy(void *to, const void *from, uint64_t bytes)
{
    if (bytes > GYRE_COPY_STEP)
        copy_long(to, from, bytes);
    else if (bytes > 0)
        memcpy(to, from, bytes);
}
