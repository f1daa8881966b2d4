/* What long lists of samples are told apart by: the first 8 bytes of the SHA-256 of a list as
 * little-endian 64-bit numbers. */
#ifndef GYRE_TESTS_UNIT_SAMPLER_ORDER_DIGEST_H
#define GYRE_TESTS_UNIT_SAMPLER_ORDER_DIGEST_H

#include "base/bytes.h"
#include "rig/test.h"

#include <openssl/evp.h>
#include <stdlib.h>

static inline uint64_t order_digest(const uint64_t *list, uint64_t length)
{
    uint8_t digest[32], *bytes = malloc(8 * length + 1);
    for (uint64_t i = 0; i < length; i++)
        gyre_put64(bytes + 8 * i, list[i]);
    assert_int_equal(EVP_Digest(bytes, 8 * length, digest, NULL, EVP_sha256(), NULL), 1);
    free(bytes);
    return __builtin_bswap64(gyre_get64(digest)); /* as it is printed */
}

#endif
