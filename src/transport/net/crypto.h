/* The five cryptographic functions of the transport: digest, code, derivation, comparison, wiping.
 *
 * They are thin over OpenSSL 3's libcrypto. No function blocks, keeps state between calls or owns
 * memory; any thread may call. The digests fail only where libcrypto fails (no memory, a provider
 * that refuses SHA-256). They then return -EIO and leave zeros in the output, which equal no honest
 * peer's code. */
#ifndef GYRE_TRANSPORT_NET_CRYPTO_H
#define GYRE_TRANSPORT_NET_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_DIGEST_BYTES 32
#define GYRE_KEY_BYTES    32

#define GYRE_TRAFFIC_KEY_BYTES 16

/* The keys of one connection, one for each direction. */
struct gyre_traffic_keys {
    uint8_t out[GYRE_TRAFFIC_KEY_BYTES], in[GYRE_TRAFFIC_KEY_BYTES];
};

/* One piece of a message. Digests run over the pieces as if they lay one behind the other. */
struct gyre_piece {
    const void *data;
    size_t length;
};

int gyre_sha256(const struct gyre_piece *pieces, size_t count, uint8_t digest[GYRE_DIGEST_BYTES]);

int gyre_hmac_sha256(const uint8_t key[GYRE_KEY_BYTES], const struct gyre_piece *pieces,
                     size_t count, uint8_t code[GYRE_DIGEST_BYTES]);

/* Derives a secret: RFC 5869, extract and expand. An empty salt is { NULL, 0 }; `info` says what
 * the result is for. At most 8,160 bytes. */
int gyre_hkdf_sha256(struct gyre_piece secret, struct gyre_piece salt, struct gyre_piece info,
                     void *out, size_t out_length);

/* Whether the bytes are equal. The time taken depends on the length alone. */
bool gyre_secret_equal(const void *a, const void *b, size_t length);

/* Writes zeros that the compiler may not leave out. NULL with 0 bytes is allowed. */
void gyre_wipe(void *secret, size_t length);

#endif
