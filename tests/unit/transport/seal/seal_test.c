/* AES-128-GCM by each way of computing it: NIST's vectors, and the same bits as libcrypto for
 * random lengths, pieces and alignments, in both modes. */
#include "transport/seal/inside.h" /* for each way: the CPU chooses one */

#include "base/rng.h"
#include "rig/test.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (3 * 8192 + 100)
#define TRIALS   3000

static const struct gyre_gcm *ways[2];

static int ways_here(void)
{
    ways[0] = &gyre_gcm_evp;
    ways[1] = gyre_gcm_vaes();
    return ways[1] ? 2 : 1;
}

/* -- NIST: the test vectors of the paper that SP 800-38D refers to ----------------------------- */

struct vector {
    const char *key, *nonce, *data, *text, *cipher, *tag;
};

static const struct vector vectors[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "58e2fccefa7e3061367f1d57a4e7455a"},
    {"00000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78",
     "ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
     "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"}};

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t length = strlen(hex) / 2;
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return length;
}

static void one_vector(const struct gyre_gcm *gcm, const struct vector *vector, bool reads)
{
    _Alignas(64) uint8_t state[8192] = {0};
    uint8_t key[16], nonce[12], data[64], text[64], cipher[64], tag[16], out[64], own[16];
    assert_in_range(gcm->bytes, 1, sizeof state);
    from_hex(vector->key, key);
    from_hex(vector->nonce, nonce);
    size_t added = from_hex(vector->data, data), length = from_hex(vector->text, text);
    from_hex(vector->cipher, cipher);
    from_hex(vector->tag, tag);
    memcpy(own, tag, sizeof own);
    assert_true(gcm->init(state, reads, key) && gcm->begin(state, nonce));
    assert_true(added == 0 || gcm->add(state, data, added));
    assert_true(length == 0 || gcm->crypt(state, reads ? cipher : text, out, length));
    assert_true(gcm->end(state, own));
    assert_memory_equal(out, reads ? text : cipher, length);
    assert_memory_equal(own, tag, sizeof tag);
    gcm->deinit(state);
}

static void nist_vectors(void **state)
{
    for (int way = 0; way < ways_here(); way++)
        for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
            one_vector(ways[way], &vectors[i], false);
            one_vector(ways[way], &vectors[i], true);
        }
}

/* -- as libcrypto ------------------------------------------------------------------------------ */

struct frame {
    uint8_t key[16], header[32], tag[16];
    uint8_t text[TEXT_MAX], out[TEXT_MAX];
    size_t length;
    uint64_t number;
};

/* The same frame by one call for each part. */
static void by_libcrypto(struct frame *frame, bool encrypt)
{
    uint8_t nonce[12] = {0};
    int length;
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(frame->number >> (56 - 8 * i));
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    assert_int_equal(EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), NULL, frame->key, nonce), 1);
    assert_int_equal(EVP_EncryptUpdate(context, NULL, &length, frame->header, 32), 1);
    memcpy(frame->out, frame->text, frame->length);
    if (frame->length > 0)
        assert_int_equal(EVP_EncryptUpdate(context, encrypt ? frame->out : NULL, &length,
                                           frame->text, (int)frame->length),
                         1);
    assert_int_equal(EVP_EncryptFinal_ex(context, frame->tag, &length), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, frame->tag), 1);
    EVP_CIPHER_CTX_free(context);
}

static void random_frame(struct gyre_rng *rng, struct frame *frame)
{
    static const size_t most[] = {1, 17, 64, 520, 1100, TEXT_MAX};
    frame->length = gyre_rng_next(rng) % most[gyre_rng_next(rng) % 6];
    frame->number = gyre_rng_next(rng) % GYRE_SEAL_NUMBERS;
    for (size_t i = 0; i < 16; i++)
        frame->key[i] = (uint8_t)gyre_rng_next(rng);
    for (size_t i = 0; i < 32; i++)
        frame->header[i] = (uint8_t)gyre_rng_next(rng);
    for (size_t i = 0; i < frame->length; i++)
        frame->text[i] = (uint8_t)gyre_rng_next(rng);
}

/* Takes the payload in random pieces, in place or beside it, at random alignments. */
static void in_pieces(struct gyre_rng *rng, struct gyre_seal *seal, uint8_t *bytes, size_t length)
{
    static uint8_t beside[TEXT_MAX + 64];
    bool in_place = gyre_rng_next(rng) % 2;
    uint8_t *to = in_place ? bytes : beside + gyre_rng_next(rng) % 64;
    for (size_t at = 0, part; at < length; at += part) {
        size_t left = length - at;
        part = 1 + gyre_rng_next(rng) % (gyre_rng_next(rng) % 2 ? left : left < 40 ? left : 40);
        gyre_seal_take(seal, bytes + at, to + at, part);
    }
    memmove(bytes, to, length);
}

static void one_trial(struct gyre_rng *rng, const struct gyre_gcm *gcm, bool encrypt)
{
    static struct frame frame;
    static uint8_t room[TEXT_MAX + 64];
    struct gyre_seal *writer, *reader;
    enum gyre_seal_mode mode = encrypt ? GYRE_SEAL_ENCRYPT : GYRE_SEAL_AUTH;
    uint8_t *bytes = room + gyre_rng_next(rng) % 64, tag[16];
    random_frame(rng, &frame);
    by_libcrypto(&frame, encrypt);
    memcpy(bytes, frame.text, frame.length);
    assert_int_equal(gyre_seal_create_with(gcm, mode, false, frame.key, &writer), 0);
    assert_int_equal(gyre_seal_create_with(gcm, mode, true, frame.key, &reader), 0);
    gyre_seal_return_to(writer, frame.number);
    gyre_seal_return_to(reader, frame.number);
    gyre_seal_begin(writer, frame.header, 32);
    in_pieces(rng, writer, bytes, frame.length);
    gyre_seal_tag(writer, tag);
    assert_memory_equal(bytes, frame.out, frame.length);
    assert_memory_equal(tag, frame.tag, 16);
    gyre_seal_begin(reader, frame.header, 32);
    in_pieces(rng, reader, bytes, frame.length);
    assert_true(gyre_seal_matches(reader, tag));
    assert_memory_equal(bytes, frame.text, frame.length);
    gyre_seal_destroy(writer);
    gyre_seal_destroy(reader);
}

static void same_bits_as_libcrypto(void **state)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 1);
    for (int way = 0; way < ways_here(); way++)
        for (int i = 0; i < TRIALS; i++)
            one_trial(&rng, ways[way], i % 2);
}

/* -- numbers ----------------------------------------------------------------------------------- */

static bool passes(enum gyre_seal_mode mode, const struct gyre_gcm *gcm, uint64_t written,
                   uint64_t read, int flipped)
{
    static const uint8_t key[16] = {1, 2, 3};
    uint8_t header[32] = {9}, text[40] = {7}, tag[16];
    struct gyre_seal *writer, *reader;
    assert_int_equal(gyre_seal_create_with(gcm, mode, false, key, &writer), 0);
    assert_int_equal(gyre_seal_create_with(gcm, mode, true, key, &reader), 0);
    gyre_seal_return_to(writer, written);
    gyre_seal_return_to(reader, read);
    gyre_seal_begin(writer, header, 32);
    gyre_seal_take(writer, text, text, sizeof text);
    gyre_seal_tag(writer, tag);
    assert_int_equal(gyre_seal_number(writer), written + 1);
    uint8_t *at = flipped < 32   ? header + flipped
                  : flipped < 72 ? text + flipped - 32
                                 : tag + flipped - 72;
    if (flipped >= 0)
        *at ^= 0x10;
    gyre_seal_begin(reader, header, 32);
    gyre_seal_take(reader, text, text, sizeof text);
    bool right = gyre_seal_matches(reader, tag);
    gyre_seal_destroy(writer);
    gyre_seal_destroy(reader);
    return right;
}

static void another_number_or_byte_matches_nothing(void **state)
{
    for (int way = 0; way < ways_here(); way++)
        for (enum gyre_seal_mode mode = GYRE_SEAL_AUTH; mode <= GYRE_SEAL_ENCRYPT; mode++) {
            assert_true(passes(mode, ways[way], 5, 5, -1));
            assert_false(passes(mode, ways[way], 5, 6, -1));
            assert_false(passes(mode, ways[way], 5, 4, -1));
            assert_false(passes(mode, ways[way], 5, 5 + (UINT64_C(1) << 40), -1));
            for (int at = 0; at < 88; at++)
                assert_false(passes(mode, ways[way], 5, 5, at));
        }
}

static void numbers_end_before_they_repeat(void **state)
{
    static const uint8_t key[16] = {1};
    struct gyre_seal *seal;
    assert_int_equal(gyre_seal_create(GYRE_SEAL_AUTH, false, key, &seal), 0);
    assert_false(gyre_seal_spent(seal));
    gyre_seal_return_to(seal, GYRE_SEAL_NUMBERS - GYRE_SEAL_SPARE - 1);
    assert_false(gyre_seal_spent(seal));
    uint8_t tag[16];
    gyre_seal_begin(seal, key, sizeof key);
    gyre_seal_tag(seal, tag);
    assert_true(gyre_seal_spent(seal));
    gyre_seal_destroy(seal);
    gyre_seal_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nist_vectors),
        cmocka_unit_test(same_bits_as_libcrypto),
        cmocka_unit_test(another_number_or_byte_matches_nothing),
        cmocka_unit_test(numbers_end_before_they_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
