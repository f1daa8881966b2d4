/* SHA-256 in its three uses, through OpenSSL 3's EVP interface.
 *
 *     sha256:  digest of public things (a job's name)
 *     hmac:    proof that the sender holds the key, without telling the key
 *     hkdf:    one secret in, as many unrelated secrets out as there are purposes
 *
 * Every function has the same shape: make the context, feed it, finish, free. A failure at any
 * point leaves zeros in the output. Each call fetches the algorithm anew. A handshake makes a dozen
 * calls, so a few microseconds do not count, and a cached handle would be a global with a
 * lifetime. */
#include "transport/net/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <errno.h>
#include <string.h>

static int keep_if_good(bool ok, void *out, size_t length)
{
    if (!ok) {
        gyre_wipe(out, length);
    }
    return ok ? 0 : -EIO;
}

static bool digest_pieces(EVP_MD_CTX *context, const struct gyre_piece *pieces, size_t count)
{
    bool ok = EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; ok && i < count; i++) {
        ok = EVP_DigestUpdate(context, pieces[i].data, pieces[i].length) == 1;
    }
    return ok;
}

int gyre_sha256(const struct gyre_piece *pieces, size_t count, uint8_t digest[GYRE_DIGEST_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context && digest_pieces(context, pieces, count) &&
              EVP_DigestFinal_ex(context, digest, NULL) == 1;
    EVP_MD_CTX_free(context);
    return keep_if_good(ok, digest, GYRE_DIGEST_BYTES);
}

static EVP_MAC_CTX *hmac_context(const uint8_t *key)
{
    char name[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac ? EVP_MAC_CTX_new(mac) : NULL;
    EVP_MAC_free(mac);
    if (context && EVP_MAC_init(context, key, GYRE_KEY_BYTES, parameters) != 1) {
        EVP_MAC_CTX_free(context);
        context = NULL;
    }
    return context;
}

int gyre_hmac_sha256(const uint8_t key[GYRE_KEY_BYTES], const struct gyre_piece *pieces,
                     size_t count, uint8_t code[GYRE_DIGEST_BYTES])
{
    EVP_MAC_CTX *context = hmac_context(key);
    size_t written = 0;
    bool ok = context != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        ok = EVP_MAC_update(context, pieces[i].data, pieces[i].length) == 1;
    }
    ok = ok && EVP_MAC_final(context, code, &written, GYRE_DIGEST_BYTES) == 1 &&
         written == GYRE_DIGEST_BYTES;
    EVP_MAC_CTX_free(context);
    return keep_if_good(ok, code, GYRE_DIGEST_BYTES);
}

static EVP_KDF_CTX *hkdf_context(void)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    EVP_KDF_free(kdf);
    return context;
}

/* Makes a parameter. OpenSSL reads parameters and never writes them; their type merely lacks the
 * const. */
static OSSL_PARAM octets(const char *name, struct gyre_piece piece)
{
    static char nothing;
    return OSSL_PARAM_construct_octet_string(name, piece.data ? (void *)piece.data : &nothing,
                                             piece.length);
}

int gyre_hkdf_sha256(struct gyre_piece secret, struct gyre_piece salt, struct gyre_piece info,
                     void *out, size_t out_length)
{
    char name[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name, 0),
        octets(OSSL_KDF_PARAM_KEY, secret),
        octets(OSSL_KDF_PARAM_SALT, salt),
        octets(OSSL_KDF_PARAM_INFO, info),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF_CTX *context = hkdf_context();
    bool ok = context && EVP_KDF_derive(context, out, out_length, parameters) == 1;
    EVP_KDF_CTX_free(context);
    return keep_if_good(ok, out, out_length);
}

bool gyre_secret_equal(const void *a, const void *b, size_t length)
{
    return CRYPTO_memcmp(a, b, length) == 0;
}

void gyre_wipe(void *secret, size_t length)
{
    if (length > 0) {
        OPENSSL_cleanse(secret, length);
    }
}
