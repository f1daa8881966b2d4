/* Three ways, because no one of them is the fastest everywhere: memcpy reads the lines that it is
 * about to overwrite, non-temporal stores do not but go past the caches, and rep movsb leaves the
 * choice to the processor. Elsewhere than on x86-64 there is memcpy alone. */
#include "copies.h"

#include <string.h>

static void copy_plain(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#if defined(__x86_64__)
#include <emmintrin.h>

/* Whole lines past the caches; what is left over, and unaligned targets, plainly. */
static void copy_past_caches(void *to, const void *from, size_t bytes)
{
    size_t lines = (size_t)to % 64 == 0 ? bytes / 64 : 0;
    __m128i *target = to;
    const __m128i *source = from;
    for (size_t i = 0; i < 4 * lines; i++) {
        _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    _mm_sfence();
    memcpy((char *)to + 64 * lines, (const char *)from + 64 * lines, bytes - 64 * lines);
}

static void copy_by_string(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#endif

const struct bench_copy bench_copies[] = {
    {"memcpy", copy_plain},
#if defined(__x86_64__)
    {"non-temporal", copy_past_caches},
    {"rep movsb", copy_by_string},
#endif
    {NULL, NULL},
};
