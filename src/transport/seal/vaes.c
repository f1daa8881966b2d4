/* AES-128-GCM on x86-64 by VAES, VPCLMULQDQ and AVX-512.
 *
 * GHASH is a polynomial in H over GF(2^128), evaluated at blocks b of 16 bytes:
 *
 *     b[0] H^n ^ b[1] H^(n-1) ^ … ^ b[n-1] H
 *
 * Products are reduced only after a sum of many. A long input is taken 32 blocks at a time, four
 * side by side in a vector; each of the four lanes keeps a sum of its own, multiplied by H^32 at
 * every step, and the last step brings the lanes to their powers:
 *
 *     near   H^32 H^31 H^30 H^29 │ … │ H^4 H^3 H^2 H^1      the last step, and short inputs
 *     far    H^32 H^32 H^32 H^32 │ … │ H^4 H^4 H^4 H^4      all steps before
 *
 * The unit that multiplies 64 bits sets the pace (2 cycles for four blocks on Zen 4). A product of
 * 128 bits takes three such multiplications, by Karatsuba's rule, with sums of halves that are kept
 * for the powers. The middle is put right once in 32 blocks:
 *
 *     low = a0 b0    high = a1 b1    middle = (a0 ^ a1) (b0 ^ b1) ^ low ^ high
 *
 * Encryption has units of its own. While a step is encrypted, a vector is hashed after each round:
 * of the step before, or, to decrypt, of the same step.
 *
 * GCM numbers the bits of a block from the other end than the CPU. Blocks are reversed byte by
 * byte; the powers are kept times x, which makes up for the bit that a product of reversed factors
 * lacks. Reduction multiplies by x^63 + x^62 + x^57, the polynomial's low half.
 *
 * Nothing here branches on, or reads at, a place that depends on secrets.
 *
 * Tested by tests/unit/transport/seal/seal_test.c. */
#include "transport/seal/inside.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#define WIDE                                                                                       \
    __attribute__((target("avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,aes,pclmul,ssse3,sse4.1")))

enum { BLOCK = 16, LANES = 4, VECTORS = 8, STEP = VECTORS * LANES, ROUNDS = 10 };

struct powers {
    __m512i whole[VECTORS];
    __m512i halves[VECTORS]; /* the sum of a power's halves, in both halves */
};

struct vaes_state {
    struct powers near, far;
    __m128i round_key[ROUNDS + 1];
    __m128i sum;                            /* of the blocks so far, reversed */
    __m128i mask;                           /* the encrypted first counter, which hides the sum */
    uint8_t key_stream[BLOCK], part[BLOCK]; /* of a block that is not complete */
    uint8_t nonce[BLOCK];
    uint64_t added, crypted; /* bytes */
    uint32_t counter;        /* of the next block of text */
    uint32_t have;           /* bytes of `part` */
    bool reads;
};

/* -- GHASH ------------------------------------------------------------------------------------- */

struct product {
    __m512i low, middle, high; /* middle: still with low and high */
};

WIDE static __m512i reverse(__m512i blocks)
{
    const __m128i bytes = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(bytes));
}

WIDE static __m128i reverse_one(__m128i block)
{
    return _mm512_castsi512_si128(reverse(_mm512_castsi128_si512(block)));
}

WIDE static __m512i xor3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

/* In both halves of each block the sum of its halves. */
WIDE static __m512i add_halves(__m512i blocks)
{
    return _mm512_xor_si512(blocks, _mm512_shuffle_epi32(blocks, _MM_PERM_BADC));
}

WIDE static void add_product(struct product *sum, __m512i a, __m512i b, __m512i halves_of_b)
{
    sum->low = _mm512_xor_si512(sum->low, _mm512_clmulepi64_epi128(a, b, 0x00));
    sum->high = _mm512_xor_si512(sum->high, _mm512_clmulepi64_epi128(a, b, 0x11));
    sum->middle =
        _mm512_xor_si512(sum->middle, _mm512_clmulepi64_epi128(add_halves(a), halves_of_b, 0x00));
}

WIDE static __m512i fold_down(__m512i low, __m512i next)
{
    const __m512i by = _mm512_set1_epi64((long long)0xc200000000000000);
    return xor3(next, _mm512_shuffle_epi32(low, _MM_PERM_BADC),
                _mm512_clmulepi64_epi128(by, low, 0x00));
}

WIDE static __m512i reduce(const struct product *sum)
{
    __m512i middle = xor3(sum->middle, sum->low, sum->high);
    return fold_down(fold_down(sum->low, middle), sum->high);
}

WIDE static __m128i add_lanes(__m512i lanes)
{
    __m256i two =
        _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

WIDE static __m128i multiply_powers(__m128i a, __m128i b)
{
    struct product sum = {0};
    __m512i factor = _mm512_zextsi128_si512(b);
    add_product(&sum, _mm512_zextsi128_si512(a), factor, add_halves(factor));
    return _mm512_castsi512_si128(reduce(&sum));
}

/* A step of hashing. Its vectors are taken one by one. */
struct hashing {
    const uint8_t *at;
    const struct powers *power;
    __m512i lanes; /* of the steps before */
    struct product sum;
};

WIDE static inline __attribute__((always_inline)) void hash_vector(struct hashing *step, int i)
{
    __m512i blocks = reverse(_mm512_loadu_si512(step->at + i * LANES * BLOCK));
    if (i == 0)
        blocks = _mm512_xor_si512(blocks, step->lanes);
    add_product(&step->sum, blocks, step->power->whole[i], step->power->halves[i]);
}

WIDE static __m512i hash_step(__m512i lanes, const uint8_t *at, const struct powers *power)
{
    struct hashing step = {.at = at, .power = power, .lanes = lanes};
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        hash_vector(&step, i);
    return reduce(&step.sum);
}

/* Up to STEP - 1 blocks. Those that fill no vector come first, in its last lanes. */
WIDE static __m128i hash_few(const struct vaes_state *state, __m128i before, const uint8_t *at,
                             size_t blocks)
{
    struct product sum = {0};
    const size_t first = (blocks - 1) % LANES + 1;
    const struct powers *power = &state->near;
    size_t i = VECTORS - (blocks + LANES - 1) / LANES;
    const __mmask8 lanes = (__mmask8)(0xff << 2 * (LANES - first));
    const __mmask8 lane = (__mmask8)(3 << 2 * (LANES - first));
    __m512i vector = reverse(_mm512_maskz_expandloadu_epi64(lanes, at));
    vector = _mm512_xor_si512(vector, _mm512_maskz_mov_epi64(lane, _mm512_broadcast_i32x4(before)));
    add_product(&sum, vector, power->whole[i], power->halves[i]);
    for (at += first * BLOCK; ++i < VECTORS; at += LANES * BLOCK)
        add_product(&sum, reverse(_mm512_loadu_si512(at)), power->whole[i], power->halves[i]);
    return add_lanes(reduce(&sum));
}

WIDE static __m128i hash_blocks(const struct vaes_state *state, __m128i sum, const uint8_t *at,
                                size_t blocks)
{
    if (blocks >= STEP) {
        __m512i lanes = _mm512_zextsi128_si512(sum);
        for (; blocks >= 2 * STEP; blocks -= STEP, at += STEP * BLOCK)
            lanes = hash_step(lanes, at, &state->far);
        sum = add_lanes(hash_step(lanes, at, &state->near));
        blocks -= STEP;
        at += STEP * BLOCK;
    }
    return blocks > 0 ? hash_few(state, sum, at, blocks) : sum;
}

/* Hashes `part`, filled with zeros. */
WIDE static void close_part(struct vaes_state *state)
{
    if (state->have == 0)
        return;
    memset(state->part + state->have, 0, BLOCK - state->have);
    state->sum = hash_few(state, state->sum, state->part, 1);
    state->have = 0;
}

/* -- AES --------------------------------------------------------------------------------------- */

WIDE static __m128i next_key(__m128i key, __m128i assist)
{
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, _mm_shuffle_epi32(assist, 0xff));
}

#define EXPAND(i, constant)                                                                        \
    key[i] = next_key(key[(i)-1], _mm_aeskeygenassist_si128(key[(i)-1], constant))

WIDE static void expand_key(__m128i key[ROUNDS + 1])
{
    EXPAND(1, 0x01);
    EXPAND(2, 0x02);
    EXPAND(3, 0x04);
    EXPAND(4, 0x08);
    EXPAND(5, 0x10);
    EXPAND(6, 0x20);
    EXPAND(7, 0x40);
    EXPAND(8, 0x80);
    EXPAND(9, 0x1b);
    EXPAND(10, 0x36);
}

WIDE static __m128i encrypt_block(const struct vaes_state *state, __m128i block)
{
    block = _mm_xor_si128(block, state->round_key[0]);
    for (int i = 1; i < ROUNDS; i++)
        block = _mm_aesenc_si128(block, state->round_key[i]);
    return _mm_aesenclast_si128(block, state->round_key[ROUNDS]);
}

WIDE static __m128i counter_block(const struct vaes_state *state, uint32_t counter)
{
    __m128i block = _mm_loadu_si128((const void *)state->nonce);
    return _mm_insert_epi32(block, (int)__builtin_bswap32(counter), 3);
}

/* Makes the key stream of so many vectors and adds `from`. Hashes a step between the rounds; NULL:
 * nothing is hashed. */
WIDE static inline __attribute__((always_inline)) void crypt_vectors(struct vaes_state *state,
                                                                     const uint8_t *from,
                                                                     uint8_t *to, int vectors,
                                                                     struct hashing *beside)
{
    const __m512i lane = _mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m512i step =
        _mm512_set_epi32(LANES, 0, 0, 0, LANES, 0, 0, 0, LANES, 0, 0, 0, LANES, 0, 0, 0);
    __m512i block[VECTORS], key = _mm512_broadcast_i32x4(state->round_key[0]);
    __m128i native =
        _mm_insert_epi32(_mm_loadu_si128((const void *)state->nonce), (int)state->counter, 3);
    __m512i counter = _mm512_add_epi32(_mm512_broadcast_i32x4(native), lane);
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++, counter = _mm512_add_epi32(counter, step))
        block[i] = _mm512_xor_si512(_mm512_shuffle_epi8(counter, bytes), key);
#pragma GCC unroll 9
    for (int r = 1; r < ROUNDS; r++) {
        key = _mm512_broadcast_i32x4(state->round_key[r]);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++)
            block[i] = _mm512_aesenc_epi128(block[i], key);
        if (beside && r <= VECTORS)
            hash_vector(beside, r - 1);
    }
    key = _mm512_broadcast_i32x4(state->round_key[ROUNDS]);
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i++) {
        __m512i stream = _mm512_aesenclast_epi128(block[i], key);
        __m512i text = _mm512_loadu_si512(from + i * LANES * BLOCK);
        _mm512_storeu_si512(to + i * LANES * BLOCK, _mm512_xor_si512(stream, text));
    }
    state->counter += (uint32_t)vectors * LANES;
}

/* Whole blocks that are no step. */
WIDE static void crypt_blocks(struct vaes_state *state, const uint8_t *from, uint8_t *to,
                              size_t blocks)
{
    for (; blocks >= LANES; blocks -= LANES, from += LANES * BLOCK, to += LANES * BLOCK)
        crypt_vectors(state, from, to, 1, NULL);
    for (; blocks > 0; blocks--, from += BLOCK, to += BLOCK) {
        __m128i stream = encrypt_block(state, counter_block(state, state->counter++));
        __m128i text = _mm_loadu_si128((const void *)from);
        _mm_storeu_si128((void *)to, _mm_xor_si128(text, stream));
    }
}

/* -- text -------------------------------------------------------------------------------------- */

/* Many steps. The lanes of the sum stay apart until the last. Returns the bytes. */
WIDE static size_t crypt_steps(struct vaes_state *state, const uint8_t *from, uint8_t *to,
                               size_t length)
{
    const size_t bytes = STEP * BLOCK, steps = length / bytes;
    __m512i lanes = _mm512_zextsi128_si512(state->sum);
    for (size_t i = 0; i < steps; i++, from += bytes, to += bytes) {
        const bool last = state->reads && i + 1 == steps;
        struct hashing step = {.at = state->reads ? from : to - bytes,
                               .power = last ? &state->near : &state->far,
                               .lanes = lanes};
        if (state->reads || i > 0) {
            crypt_vectors(state, from, to, VECTORS, &step);
            lanes = reduce(&step.sum);
        } else {
            crypt_vectors(state, from, to, VECTORS, NULL);
        }
    }
    if (!state->reads && steps > 0)
        lanes = hash_step(lanes, to - bytes, &state->near);
    if (steps > 0)
        state->sum = add_lanes(lanes);
    return steps * bytes;
}

WIDE static void crypt_whole(struct vaes_state *state, const uint8_t *from, uint8_t *to,
                             size_t length)
{
    size_t done = crypt_steps(state, from, to, length), blocks = (length - done) / BLOCK;
    if (blocks == 0)
        return;
    if (state->reads)
        state->sum = hash_few(state, state->sum, from + done, blocks);
    crypt_blocks(state, from + done, to + done, blocks);
    if (!state->reads)
        state->sum = hash_few(state, state->sum, to + done, blocks);
}

/* Goes on with a block that is not complete, and returns the bytes taken. */
WIDE static size_t crypt_part(struct vaes_state *state, const uint8_t *from, uint8_t *to,
                              size_t length)
{
    size_t taken = 0;
    if (state->have == 0 && length > 0) {
        __m128i stream = encrypt_block(state, counter_block(state, state->counter++));
        _mm_storeu_si128((void *)state->key_stream, stream);
    }
    for (; state->have < BLOCK && taken < length; taken++, state->have++) {
        uint8_t read = from[taken];
        to[taken] = read ^ state->key_stream[state->have];
        state->part[state->have] = state->reads ? read : to[taken];
    }
    if (state->have == BLOCK)
        close_part(state);
    return taken;
}

WIDE static bool vaes_crypt(void *memory, const uint8_t *from, uint8_t *to, size_t length)
{
    struct vaes_state *state = memory;
    if (state->crypted == 0)
        close_part(state); /* of the additional data */
    state->crypted += length;
    size_t taken = state->have > 0 ? crypt_part(state, from, to, length) : 0;
    size_t whole = (length - taken) / BLOCK * BLOCK;
    crypt_whole(state, from + taken, to + taken, whole);
    taken += whole;
    crypt_part(state, from + taken, to + taken, length - taken);
    return true;
}

/* -- a frame ----------------------------------------------------------------------------------- */

WIDE static bool vaes_add(void *memory, const uint8_t *bytes, size_t length)
{
    struct vaes_state *state = memory;
    state->added += length;
    if (state->have > 0) {
        size_t part = BLOCK - state->have < length ? BLOCK - state->have : length;
        memcpy(state->part + state->have, bytes, part);
        state->have += (uint32_t)part;
        bytes += part;
        length -= part;
        if (state->have < BLOCK)
            return true;
        close_part(state);
    }
    state->sum = hash_blocks(state, state->sum, bytes, length / BLOCK);
    memcpy(state->part, bytes + length / BLOCK * BLOCK, length % BLOCK);
    state->have = (uint32_t)(length % BLOCK);
    return true;
}

WIDE static bool vaes_begin(void *memory, const uint8_t nonce[GYRE_SEAL_NONCE_BYTES])
{
    struct vaes_state *state = memory;
    memcpy(state->nonce, nonce, GYRE_SEAL_NONCE_BYTES);
    state->mask = encrypt_block(state, counter_block(state, 1));
    state->counter = 2;
    state->added = state->crypted = 0;
    state->have = 0;
    state->sum = _mm_setzero_si128();
    return true;
}

WIDE static bool vaes_end(void *memory, uint8_t tag[GYRE_SEAL_TAG_BYTES])
{
    struct vaes_state *state = memory;
    uint8_t lengths[BLOCK], own[BLOCK];
    for (int i = 0; i < 8; i++) {
        lengths[i] = (uint8_t)(8 * state->added >> (56 - 8 * i));
        lengths[8 + i] = (uint8_t)(8 * state->crypted >> (56 - 8 * i));
    }
    close_part(state);
    __m128i sum = hash_few(state, state->sum, lengths, 1);
    _mm_storeu_si128((void *)own, _mm_xor_si128(reverse_one(sum), state->mask));
    bool right = !state->reads || gyre_secret_equal(own, tag, BLOCK);
    if (!state->reads)
        memcpy(tag, own, BLOCK);
    gyre_wipe(own, sizeof own);
    return right;
}

/* -- keys -------------------------------------------------------------------------------------- */

/* H times x: a shift by one bit, and the polynomial where a bit goes out. */
WIDE static __m128i times_x_reversed(__m128i h)
{
    const __m128i polynomial = _mm_set_epi32((int)0xc2000000, 0, 0, 1);
    __m128i over = _mm_shuffle_epi32(_mm_srai_epi32(h, 31), 0xff);
    __m128i carry = _mm_slli_si128(_mm_srli_epi64(h, 63), 8);
    __m128i twice = _mm_or_si128(_mm_slli_epi64(h, 1), carry);
    return _mm_xor_si128(twice, _mm_and_si128(over, polynomial));
}

WIDE static bool vaes_init(void *memory, bool reads, const uint8_t key[GYRE_TRAFFIC_KEY_BYTES])
{
    struct vaes_state *state = memory;
    __m128i power[STEP + 1];
    state->reads = reads;
    state->round_key[0] = _mm_loadu_si128((const void *)key);
    expand_key(state->round_key);
    power[1] = times_x_reversed(reverse_one(encrypt_block(state, _mm_setzero_si128())));
    for (int i = 2; i <= STEP; i++)
        power[i] = multiply_powers(power[i - 1], power[1]);
    for (int i = 0; i < STEP; i++) {
        memcpy((uint8_t *)state->near.whole + i * BLOCK, &power[STEP - i], BLOCK);
        memcpy((uint8_t *)state->far.whole + i * BLOCK, &power[STEP - i / LANES * LANES], BLOCK);
    }
    for (int i = 0; i < VECTORS; i++) {
        state->near.halves[i] = add_halves(state->near.whole[i]);
        state->far.halves[i] = add_halves(state->far.whole[i]);
    }
    gyre_wipe(power, sizeof power);
    return true;
}

/* The owner wipes the state. */
static void vaes_deinit(void *memory)
{
    (void)memory;
}

static const struct gyre_gcm vaes = {.bytes = sizeof(struct vaes_state),
                                     .init = vaes_init,
                                     .deinit = vaes_deinit,
                                     .begin = vaes_begin,
                                     .add = vaes_add,
                                     .crypt = vaes_crypt,
                                     .end = vaes_end};

/* By its bit: clang 14 has no word for it. Asked once, because a virtual machine takes 20 to 70 µs
 * to answer. */
static bool has_vaes(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    unsigned a, b, c, d;
    if (!known)
        known = 1 + (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & bit_VAES));
    return known == 2;
}

const struct gyre_gcm *gyre_gcm_vaes(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq") &&
                   __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && has_vaes()
               ? &vaes
               : NULL;
}
#else
const struct gyre_gcm *gyre_gcm_vaes(void)
{
    return NULL;
}
#endif
