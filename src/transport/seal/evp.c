/* AES-128-GCM by OpenSSL's EVP interface, on any CPU.
 *
 * Tested by tests/unit/transport/seal/seal_test.c. */
#include "transport/seal/inside.h"

#include <openssl/evp.h>

#define MOST ((size_t)1 << 30) /* of one call: lengths are of type int */

struct evp_state {
    EVP_CIPHER_CTX *context;
    bool reads;
};

static bool evp_init(void *memory, bool reads, const uint8_t key[GYRE_TRAFFIC_KEY_BYTES])
{
    struct evp_state *state = memory;
    state->reads = reads;
    state->context = EVP_CIPHER_CTX_new();
    return state->context &&
           EVP_CipherInit_ex(state->context, EVP_aes_128_gcm(), NULL, key, NULL, !reads) == 1;
}

static void evp_deinit(void *memory)
{
    EVP_CIPHER_CTX_free(((struct evp_state *)memory)->context);
}

static bool evp_begin(void *memory, const uint8_t nonce[GYRE_SEAL_NONCE_BYTES])
{
    return EVP_CipherInit_ex(((struct evp_state *)memory)->context, NULL, NULL, NULL, nonce, -1) ==
           1;
}

static bool evp_crypt(void *memory, const uint8_t *from, uint8_t *to, size_t length)
{
    struct evp_state *state = memory;
    bool ok = true;
    while (length > 0 && ok) {
        int part = length < MOST ? (int)length : (int)MOST, done;
        ok = EVP_CipherUpdate(state->context, to, &done, from, part) == 1;
        from += part;
        to = to ? to + part : NULL;
        length -= (size_t)part;
    }
    return ok;
}

static bool evp_add(void *memory, const uint8_t *bytes, size_t length)
{
    return evp_crypt(memory, bytes, NULL, length);
}

static bool evp_end(void *memory, uint8_t tag[GYRE_SEAL_TAG_BYTES])
{
    struct evp_state *state = memory;
    uint8_t nothing[GYRE_SEAL_TAG_BYTES];
    int none;
    if (state->reads &&
        EVP_CIPHER_CTX_ctrl(state->context, EVP_CTRL_AEAD_SET_TAG, GYRE_SEAL_TAG_BYTES, tag) != 1)
        return false;
    if (EVP_CipherFinal_ex(state->context, nothing, &none) != 1)
        return false;
    return state->reads || EVP_CIPHER_CTX_ctrl(state->context, EVP_CTRL_AEAD_GET_TAG,
                                               GYRE_SEAL_TAG_BYTES, tag) == 1;
}

const struct gyre_gcm gyre_gcm_evp = {.bytes = sizeof(struct evp_state),
                                      .init = evp_init,
                                      .deinit = evp_deinit,
                                      .begin = evp_begin,
                                      .add = evp_add,
                                      .crypt = evp_crypt,
                                      .end = evp_end};
