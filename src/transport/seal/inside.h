/* The inside of a seal: what seal.c asks of AES-128-GCM. Two files answer:
 *
 *     evp.c     OpenSSL's, everywhere
 *     vaes.c    x86-64 with AES and carry-less multiplication over 512 bits
 *
 * Both give the same bits. */
#ifndef GYRE_TRANSPORT_SEAL_INSIDE_H
#define GYRE_TRANSPORT_SEAL_INSIDE_H

#include "transport/seal/seal.h"

#define GYRE_SEAL_NONCE_BYTES 12

/* The entries return false where they fail. A frame's additional data comes before its text. */
struct gyre_gcm {
    size_t bytes; /* of the state, which begins on a line of the cache and is zeroed */
    bool (*init)(void *state, bool reads, const uint8_t key[GYRE_TRAFFIC_KEY_BYTES]);
    void (*deinit)(void *state); /* also of zeros */
    bool (*begin)(void *state, const uint8_t nonce[GYRE_SEAL_NONCE_BYTES]);
    bool (*add)(void *state, const uint8_t *bytes, size_t length); /* additional data */
    bool (*crypt)(void *state, const uint8_t *from, uint8_t *to, size_t length);

    /* Writes the tag, or, where the state reads, compares. */
    bool (*end)(void *state, uint8_t tag[GYRE_SEAL_TAG_BYTES]);
};

extern const struct gyre_gcm gyre_gcm_evp;

/* NULL: this CPU lacks an instruction. */
const struct gyre_gcm *gyre_gcm_vaes(void);

/* gyre_seal_create() with that code instead of the fastest. */
int gyre_seal_create_with(const struct gyre_gcm *gcm, enum gyre_seal_mode mode, bool reads,
                          const uint8_t key[GYRE_TRAFFIC_KEY_BYTES], struct gyre_seal **seal);

#endif
