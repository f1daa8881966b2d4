/* Several ways, because no one of them is the fastest everywhere.
 *
 *     memcpy         out[i] = in[i]     reads the lines that it is about to overwrite
 *     rep movsb      out[i] = in[i]     leaves that choice to the processor
 *     non-temporal   out[i] = in[i]     does not, but goes past the caches
 *     sums           out[i] = out[h + i] = in[i] + in[h + i], h half the length: more streams than
 *                    a copy has, as in the all-reduce of two ranks; plain and non-temporal
 *     update         out[i] += 1        writes the lines that it has read, so no line is fetched
 *                                       only to be overwritten
 *     read           sum += in[i]       for what an operation reads more than it writes
 *     memset, non-temporal, rep stosb   for what it writes more than it reads
 *
 * The loops are the compiler's to vectorise, also for AVX2 where the processor has it. Elsewhere
 * than on x86-64 the plain ones remain. */
#include "ceiling/passes.h"

#include <stdint.h>
#include <string.h>

#define FILLING 0x38

static inline __attribute__((always_inline)) void add_halves(float *to, const float *from,
                                                             size_t half)
{
    float *restrict low = to, *restrict high = to + half;
    for (size_t i = 0; i < half; i++) {
        low[i] = high[i] = from[i] + from[half + i];
    }
}

static inline __attribute__((always_inline)) void add_one(float *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        data[i] += 1;
    }
}

static inline __attribute__((always_inline)) uint64_t add_up(const uint64_t *from, size_t count)
{
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < count; i += 8) {
        for (int lane = 0; lane < 8; lane++) {
            sum[lane] += from[i + (size_t)lane];
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static void copy_plain(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#if defined(__x86_64__)
#include <emmintrin.h>

static void copy_past_caches(void *to, const void *from, size_t bytes)
{
    __m128i *target = to;
    const __m128i *source = from;
    for (size_t i = 0; i < bytes / 16; i++) {
        _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    _mm_sfence();
}

static void sum_past_caches(void *to, const void *from, size_t bytes)
{
    size_t half = bytes / 8; /* floats */
    float *target = to;
    const float *source = from;
    for (size_t i = 0; i < half; i += 4) {
        __m128 sum = _mm_add_ps(_mm_loadu_ps(source + i), _mm_loadu_ps(source + half + i));
        _mm_stream_ps(target + i, sum);
        _mm_stream_ps(target + half + i, sum);
    }
    _mm_sfence();
}

static void write_past_caches(void *to, const void *from, size_t bytes)
{
    __m128i *target = to;
    for (size_t i = 0; i < bytes / 16; i++) {
        _mm_stream_si128(target + i, _mm_set1_epi8(FILLING));
    }
    _mm_sfence();
}

static void write_by_string(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(FILLING) : "memory");
}

static void copy_by_string(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static __attribute__((target("avx2"))) void add_halves_avx2(float *to, const float *from,
                                                            size_t half)
{
    add_halves(to, from, half);
}

static __attribute__((target("avx2"))) void add_one_avx2(float *data, size_t count)
{
    add_one(data, count);
}

static __attribute__((target("avx2"))) uint64_t add_up_avx2(const uint64_t *from, size_t count)
{
    return add_up(from, count);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define add_halves_avx2 add_halves
#define add_one_avx2    add_one
#define add_up_avx2     add_up

static bool has_avx2(void)
{
    return false;
}
#endif

static void sum_plain(void *to, const void *from, size_t bytes)
{
    if (has_avx2()) {
        add_halves_avx2(to, from, bytes / 8);
    } else {
        add_halves(to, from, bytes / 8);
    }
}

static void update(void *to, const void *from, size_t bytes)
{
    if (has_avx2()) {
        add_one_avx2(to, bytes / 4);
    } else {
        add_one(to, bytes / 4);
    }
}

static volatile uint64_t sink; /* what was read has been used */

static void read_all(void *to, const void *from, size_t bytes)
{
    sink = has_avx2() ? add_up_avx2(from, bytes / 8) : add_up(from, bytes / 8);
}

static void write_plain(void *to, const void *from, size_t bytes)
{
    memset(to, FILLING, bytes);
}

const struct bench_pass bench_passes[] = {
    {"memcpy", BENCH_COPIES, false, copy_plain},
    {"sums", BENCH_COPIES, false, sum_plain},
    {"update", BENCH_COPIES, true, update},
    {"sum", BENCH_READS, false, read_all},
    {"memset", BENCH_WRITES, false, write_plain},
#if defined(__x86_64__)
    {"non-temporal copy", BENCH_COPIES, false, copy_past_caches},
    {"non-temporal sums", BENCH_COPIES, false, sum_past_caches},
    {"rep movsb", BENCH_COPIES, false, copy_by_string},
    {"non-temporal stores", BENCH_WRITES, false, write_past_caches},
    {"rep stosb", BENCH_WRITES, false, write_by_string},
#endif
    {NULL, BENCH_COPIES, false, NULL},
};
