/* Published vectors, and the properties the handshake leans on: pieces do not matter, lengths and
 * purposes do. */
#include "transport/net/crypto.h"
#include "rig/test.h"

#include <stdio.h>
#include <string.h>

static struct gyre_piece text(const char *string)
{
    return (struct gyre_piece){string, strlen(string)};
}

static void assert_hex(const uint8_t *bytes, size_t length, const char *hex)
{
    char seen[2 * 96 + 1] = "";
    assert_true(length <= 96);
    for (size_t i = 0; i < length; i++) {
        snprintf(seen + 2 * i, 3, "%02x", bytes[i]);
    }
    assert_string_equal(seen, hex);
}

static void test_sha256_vectors(void **state)
{
    uint8_t digest[32];
    assert_int_equal(gyre_sha256(NULL, 0, digest), 0);
    assert_hex(digest, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    struct gyre_piece abc = text("abc");
    assert_int_equal(gyre_sha256(&abc, 1, digest), 0);
    assert_hex(digest, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void test_sha256_pieces_are_one_message(void **state)
{
    uint8_t whole[32], cut[32];
    struct gyre_piece one = text("the quick brown fox");
    struct gyre_piece three[] = {text("the quick"), {NULL, 0}, text(" brown fox")};
    assert_int_equal(gyre_sha256(&one, 1, whole), 0);
    assert_int_equal(gyre_sha256(three, 3, cut), 0);
    assert_memory_equal(whole, cut, 32);
}

/* RFC 4231 has no 32-byte key; HMAC pads a shorter key with zeros, so its vectors serve as they
 * are. */
static void test_hmac_vectors(void **state)
{
    uint8_t key[32] = {0}, code[32];
    memset(key, 0x0b, 20);
    struct gyre_piece hi[] = {text("Hi "), text("There")};
    assert_int_equal(gyre_hmac_sha256(key, hi, 2, code), 0);
    assert_hex(code, 32, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    memset(key, 0, sizeof key);
    memcpy(key, "Jefe", 4);
    struct gyre_piece what = text("what do ya want for nothing?");
    assert_int_equal(gyre_hmac_sha256(key, &what, 1, code), 0);
    assert_hex(code, 32, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void test_hmac_depends_on_all_of_the_key(void **state)
{
    uint8_t key[32] = {0}, first[32], second[32];
    struct gyre_piece message = text("m");
    assert_int_equal(gyre_hmac_sha256(key, &message, 1, first), 0);
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] ^= 1;
        assert_int_equal(gyre_hmac_sha256(key, &message, 1, second), 0);
        assert_memory_not_equal(first, second, 32);
        key[i] ^= 1;
    }
}

static void test_hkdf_vectors(void **state)
{
    uint8_t secret[22], salt[13], info[10], out[42];
    memset(secret, 0x0b, sizeof secret);
    for (size_t i = 0; i < sizeof salt; i++) {
        salt[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof info; i++) {
        info[i] = (uint8_t)(0xf0 + i);
    }
    struct gyre_piece none = {NULL, 0}, ikm = {secret, sizeof secret};
    assert_int_equal(gyre_hkdf_sha256(ikm, (struct gyre_piece){salt, sizeof salt},
                                      (struct gyre_piece){info, sizeof info}, out, sizeof out),
                     0);
    assert_hex(out, 42,
               "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
               "34007208d5b887185865");
    assert_int_equal(gyre_hkdf_sha256(ikm, none, none, out, sizeof out), 0);
    assert_hex(out, 42,
               "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
               "9d201395faa4b61a96c8");
}

static void test_hkdf_purposes_are_unrelated(void **state)
{
    uint8_t key[32] = {7}, send[32], receive[32];
    struct gyre_piece ikm = {key, sizeof key}, salt = {NULL, 0};
    assert_int_equal(gyre_hkdf_sha256(ikm, salt, text("tx"), send, 32), 0);
    assert_int_equal(gyre_hkdf_sha256(ikm, salt, text("rx"), receive, 32), 0);
    assert_memory_not_equal(send, receive, 32);
}

static void test_failure_leaves_zeros(void **state)
{
    static uint8_t out[255 * 32 + 1];
    static const uint8_t zeros[sizeof out];
    struct gyre_piece none = {NULL, 0};
    memset(out, 0xaa, sizeof out);
    assert_true(gyre_hkdf_sha256(text("secret"), none, none, out, sizeof out) < 0);
    assert_memory_equal(out, zeros, sizeof out);
}

static void test_equal_sees_every_bit(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0};
    assert_true(gyre_secret_equal(a, b, 32));
    for (int bit = 0; bit < 256; bit++) {
        b[bit / 8] = (uint8_t)(1 << bit % 8);
        assert_false(gyre_secret_equal(a, b, 32));
        b[bit / 8] = 0;
    }
    assert_true(gyre_secret_equal(a, b, 0));
}

static void test_wipe(void **state)
{
    uint8_t secret[40], expected[40];
    memset(secret, 0x5a, sizeof secret);
    memset(expected, 0x5a, sizeof expected);
    memset(expected + 4, 0, 32);
    gyre_wipe(secret + 4, 32);
    gyre_wipe(NULL, 0);
    assert_memory_equal(secret, expected, sizeof secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_vectors),
        cmocka_unit_test(test_sha256_pieces_are_one_message),
        cmocka_unit_test(test_hmac_vectors),
        cmocka_unit_test(test_hmac_depends_on_all_of_the_key),
        cmocka_unit_test(test_hkdf_vectors),
        cmocka_unit_test(test_hkdf_purposes_are_unrelated),
        cmocka_unit_test(test_failure_leaves_zeros),
        cmocka_unit_test(test_equal_sees_every_bit),
        cmocka_unit_test(test_wipe),
    };
    return cmocka_run_group_tests_name("crypto", tests, NULL, NULL);
}
