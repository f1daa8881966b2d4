/* CRC-32C, in software and by the CPU's instruction.
 *
 * The sum is the remainder of the message, read as a polynomial over GF(2) with its bits reflected,
 * modulo P. Two facts give everything here:
 *
 *   crc(A B) = crc(A) * x^(8 |B|) mod P  xor  crc(B)     parts can be summed apart and joined
 *   x^(2^(k+1)) = (x^(2^k))^2                            so any power takes at most 64 squarings
 *
 * The CPU's instruction takes 3 cycles but starts every cycle; one stream of it reaches a third of
 * what the CPU can do. Long inputs are therefore read as three parts of equal length at once and
 * joined by two multiplications:
 *
 *     |<---- part ---->|<---- part ---->|<---- part ---->|
 *      a ─▶             b ─▶             c ─▶               (a * x^(8 part) + b) * x^(8 part) + c
 *
 * Parts are powers of two, so one constant per size is enough.
 *
 * Where the CPU multiplies four pairs at once (VPCLMULQDQ), long inputs are *folded* instead: 16
 * bytes that stand D bits before others may be replaced by their product with x^D modulo P, added
 * to those. Sixteen such remainders march through the input side by side, 256 bytes a step, and
 * what is left of them is a message of 256 bytes with the same sum:
 *
 *     | 16 bytes: lo hi | ··· 240 bytes ··· | next 16 |      next ^= lo * x^(D+32) ^ hi * x^(D-32)
 *
 * Folding and the instruction leave each other's execution units idle. So of what is longer still a
 * fourth part is folded in the loop that sums the three; it is six times as long. Where the CPU
 * multiplies two pairs at once (the same on 256 bits), folding alone is no faster than three
 * streams; there the fourth part is twice as long, and nothing is folded alone:
 *
 *     |<-- part -->|<-- part -->|<-- part -->|<---- 2 or 6 parts ---->|
 *      a ─▶         b ─▶         c ─▶         remainders ═▶
 *
 * Which code runs is decided before main(). */
#include "base/crc.h"

#include <string.h>

#define P UINT32_C(0x82f63b78) /* reflected: bit 31 is x^0 */

static uint32_t times_x(uint32_t a)
{
    return (a >> 1) ^ (a & 1 ? P : 0);
}

/* -- software: eight bytes by eight tables ----------------------------------------------------- */

static uint32_t table[8][256]; /* table[k][byte]: byte followed by k zero bytes */

static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = times_x(sum);
        table[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 255];
}

static uint32_t sum_by_table(uint32_t crc, const unsigned char *at, size_t length)
{
    for (; length >= 8; at += 8, length -= 8) {
        uint32_t low =
            crc ^ (at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
              table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    for (; length > 0; at++, length--)
        crc = (crc >> 8) ^ table[0][(crc ^ *at) & 255];
    return crc;
}

/* -- x86-64: crc32 and carry-less multiplication ----------------------------------------------- */

static uint32_t (*sum)(uint32_t crc, const unsigned char *at, size_t length) = sum_by_table;

#if defined(__x86_64__)
#include <immintrin.h>

#define LEAST_PART_LOG2 6
#define MOST_PART_LOG2  15
#define LEAST_PARTS     ((size_t)3 << LEAST_PART_LOG2)
#define TARGET          __attribute__((target("sse4.2,pclmul")))

/* x^(8 * 2^k - 33): the carry-less product has one bit less than 64, and the crc32 instruction that
 * reduces it multiplies by x^32. Filled by choose_ways(). */
static uint32_t shift[MOST_PART_LOG2 + 1];

TARGET static uint64_t shift_sum(uint64_t crc, int part_log2)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
                                           _mm_cvtsi32_si128((int)shift[part_log2]), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

TARGET static uint64_t crc_add_word(uint64_t crc, const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return _mm_crc32_u64(crc, word);
}

TARGET static uint64_t add_four_words(uint64_t crc, const unsigned char *at)
{
    crc = crc_add_word(crc, at);
    crc = crc_add_word(crc, at + 8);
    crc = crc_add_word(crc, at + 16);
    return crc_add_word(crc, at + 24);
}

TARGET static uint64_t sum_three_parts(uint64_t a, const unsigned char *at, int part_log2)
{
    size_t part = (size_t)1 << part_log2;
    uint64_t b = 0, c = 0;
    for (const unsigned char *end = at + part; at < end; at += 32) {
        a = add_four_words(a, at);
        b = add_four_words(b, at + part);
        c = add_four_words(c, at + 2 * part);
    }
    return shift_sum(shift_sum(a, part_log2) ^ b, part_log2) ^ c;
}

TARGET static uint32_t sum_by_instruction(uint32_t crc, const unsigned char *at, size_t length)
{
    uint64_t running = crc;
    for (int k = MOST_PART_LOG2; length >= LEAST_PARTS && k >= LEAST_PART_LOG2; k--)
        for (size_t step = (size_t)3 << k; length >= step; at += step, length -= step)
            running = sum_three_parts(running, at, k);
    for (; length >= 8; at += 8, length -= 8)
        running = crc_add_word(running, at);
    for (; length > 0; at++, length--)
        running = _mm_crc32_u8((uint32_t)running, *at);
    return (uint32_t)running;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1, b = times_x(b))
        if (a & UINT32_C(0x80000000))
            product ^= b;
    return product;
}

/* x^e for 2^32 > e by square and multiply. */
static uint32_t power_of_x(uint32_t exponent)
{
    uint32_t result = UINT32_C(1) << 31, square = UINT32_C(1) << 30;
    for (; exponent; exponent >>= 1, square = multiply(square, square))
        if (exponent & 1)
            result = multiply(result, square);
    return result;
}

/* Multipliers that carry 16 bytes over so many; with a zero below: products of 64 and 33 bits are
 * aligned. */
struct carry {
    uint64_t lo, hi;
};

static struct carry carry_over(uint32_t bytes)
{
    return (struct carry){(uint64_t)power_of_x(8 * bytes + 32) << 1,
                          (uint64_t)power_of_x(8 * bytes - 32) << 1};
}

/* -- x86-64: three streams beside folding over 256 bits ---------------------------------------- */

#define BESIDE_BYTES           64u
#define LEAST_BESIDE_PART_LOG2 9 /* below, joining costs more than the fourth part wins */
#define MOST_BESIDE_PART_LOG2  (MOST_PART_LOG2 - 1)
#define LEAST_BESIDE           ((size_t)5 << LEAST_BESIDE_PART_LOG2)
#define BESIDE                 __attribute__((target("avx2,vpclmulqdq,sse4.2,pclmul")))

static struct carry beside_carry;

BESIDE static __m256i fold_two(__m256i remainders, __m256i by, const unsigned char *next)
{
    __m256i lo = _mm256_clmulepi64_epi128(remainders, by, 0x00);
    __m256i hi = _mm256_clmulepi64_epi128(remainders, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(lo, hi), _mm256_loadu_si256((const void *)next));
}

BESIDE static uint64_t sum_four_parts(uint64_t a, const unsigned char *at, int part_log2)
{
    size_t part = (size_t)1 << part_log2;
    const unsigned char *end = at + part, *fourth = at + 3 * part;
    unsigned char left[BESIDE_BYTES];
    uint64_t b = 0, c = 0;
    __m256i d = _mm256_setzero_si256(), e = _mm256_setzero_si256();
    __m256i by = _mm256_broadcastsi128_si256(
        _mm_set_epi64x((long long)beside_carry.hi, (long long)beside_carry.lo));
    for (; at < end; at += BESIDE_BYTES / 2, fourth += BESIDE_BYTES) {
        d = fold_two(d, by, fourth);
        e = fold_two(e, by, fourth + 32);
        a = add_four_words(a, at);
        b = add_four_words(b, at + part);
        c = add_four_words(c, at + 2 * part);
    }
    _mm256_storeu_si256((void *)left, d);
    _mm256_storeu_si256((void *)(left + 32), e);
    uint64_t three = shift_sum(shift_sum(a, part_log2) ^ b, part_log2) ^ c;
    return shift_sum(three, part_log2 + 1) ^ add_four_words(add_four_words(0, left), left + 32);
}

static uint32_t sum_beside_folding(uint32_t crc, const unsigned char *at, size_t length)
{
    if (length < LEAST_BESIDE)
        return sum_by_instruction(crc, at, length);
    uint64_t running = crc;
    for (int k = MOST_BESIDE_PART_LOG2; k >= LEAST_BESIDE_PART_LOG2; k--)
        for (size_t step = (size_t)5 << k; length >= step; at += step, length -= step)
            running = sum_four_parts(running, at, k);
    return sum_by_instruction((uint32_t)running, at, length);
}

/* -- x86-64: folding over 512 bits, alone and beside three streams ----------------------------- */

#define FOLD_BYTES           256u
#define FOLD_LEAST           1024u /* below, three streams are as fast */
#define WIDE_BYTES           192u
#define LEAST_WIDE_PART_LOG2 9 /* below, joining costs more than the streams win */
#define MOST_WIDE_PART_LOG2  (MOST_PART_LOG2 - 2)
#define WIDE                 __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

static struct carry fold_carry, wide_carry;

WIDE static __m512i all_four(struct carry carry)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)carry.hi, (long long)carry.lo));
}

WIDE static __m512i fold_four(__m512i remainders, __m512i by, const unsigned char *next)
{
    __m512i lo = _mm512_clmulepi64_epi128(remainders, by, 0x00);
    __m512i hi = _mm512_clmulepi64_epi128(remainders, by, 0x11);
    return _mm512_xor_si512(_mm512_xor_si512(lo, hi), _mm512_loadu_si512(next));
}

WIDE static uint64_t sum_nine_parts(uint64_t a, const unsigned char *at, int part_log2)
{
    size_t part = (size_t)1 << part_log2;
    const unsigned char *end = at + part, *fourth = at + 3 * part;
    unsigned char left[WIDE_BYTES];
    uint64_t b = 0, c = 0;
    __m512i d = _mm512_setzero_si512(), e = d, f = d, by = all_four(wide_carry);
    for (; at < end; at += WIDE_BYTES / 6, fourth += WIDE_BYTES) {
        d = fold_four(d, by, fourth);
        e = fold_four(e, by, fourth + 64);
        f = fold_four(f, by, fourth + 128);
        a = add_four_words(a, at);
        b = add_four_words(b, at + part);
        c = add_four_words(c, at + 2 * part);
    }
    _mm512_storeu_si512(left, d);
    _mm512_storeu_si512(left + 64, e);
    _mm512_storeu_si512(left + 128, f);
    uint64_t three = shift_sum(shift_sum(a, part_log2) ^ b, part_log2) ^ c;
    return shift_sum(shift_sum(three, part_log2 + 1), part_log2 + 2) ^
           sum_by_instruction(0, left, WIDE_BYTES);
}

WIDE static uint32_t sum_by_folding_alone(uint32_t crc, const unsigned char *at, size_t length)
{
    if (length < FOLD_LEAST)
        return sum_by_instruction(crc, at, length);
    unsigned char left[FOLD_BYTES];
    __m512i by = all_four(fold_carry);
    __m512i a = _mm512_loadu_si512(at), b = _mm512_loadu_si512(at + 64),
            c = _mm512_loadu_si512(at + 128), d = _mm512_loadu_si512(at + 192);
    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (at += FOLD_BYTES, length -= FOLD_BYTES; length >= FOLD_BYTES; length -= FOLD_BYTES) {
        a = fold_four(a, by, at);
        b = fold_four(b, by, at + 64);
        c = fold_four(c, by, at + 128);
        d = fold_four(d, by, at + 192);
        at += FOLD_BYTES;
    }
    _mm512_storeu_si512(left, a);
    _mm512_storeu_si512(left + 64, b);
    _mm512_storeu_si512(left + 128, c);
    _mm512_storeu_si512(left + 192, d);
    return sum_by_instruction(sum_by_instruction(0, left, FOLD_BYTES), at, length);
}

WIDE static uint32_t sum_by_folding(uint32_t crc, const unsigned char *at, size_t length)
{
    uint64_t running = crc;
    for (int k = MOST_WIDE_PART_LOG2; k >= LEAST_WIDE_PART_LOG2; k--)
        for (size_t step = (size_t)9 << k; length >= step; at += step, length -= step)
            running = sum_nine_parts(running, at, k);
    return sum_by_folding_alone((uint32_t)running, at, length);
}

static void choose_instruction(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return;
    for (int k = LEAST_PART_LOG2; k <= MOST_PART_LOG2; k++)
        shift[k] = power_of_x((UINT32_C(8) << k) - 33);
    sum = sum_by_instruction;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("vpclmulqdq"))
        return;
    beside_carry = carry_over(BESIDE_BYTES);
    fold_carry = carry_over(FOLD_BYTES);
    wide_carry = carry_over(WIDE_BYTES);
    sum = __builtin_cpu_supports("avx512f") ? sum_by_folding : sum_beside_folding;
}
#else
static void choose_instruction(void)
{
}
#endif

__attribute__((constructor)) static void choose_ways(void)
{
    fill_tables();
    choose_instruction();
}

uint32_t gyre_crc32c(uint32_t crc, const void *bytes, size_t length)
{
    return ~sum(~crc, bytes, length);
}
