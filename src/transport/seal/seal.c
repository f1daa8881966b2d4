/* Numbers, nonces and the choice of code: what is the same however AES-128-GCM is computed.
 *
 * A failure of libcrypto is remembered. The frame then has a tag of zeros, which its reader refuses
 * as any wrong tag, and spent() tells the owner. */
#include "transport/seal/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64u /* of the cache, at which the state begins */

struct gyre_seal {
    const struct gyre_gcm *gcm;
    uint64_t number;
    bool encrypts, failed;
    void *state; /* behind this struct */
};

_Static_assert(sizeof(struct gyre_seal) <= LINE, "the state lies behind");

static const struct gyre_gcm *choose_gcm(void)
{
    const struct gyre_gcm *fast = gyre_gcm_vaes();
    return fast ? fast : &gyre_gcm_evp;
}

int gyre_seal_create_with(const struct gyre_gcm *gcm, enum gyre_seal_mode mode, bool reads,
                          const uint8_t key[GYRE_TRAFFIC_KEY_BYTES], struct gyre_seal **out)
{
    const size_t bytes = (LINE + gcm->bytes + LINE - 1) / LINE * LINE;
    struct gyre_seal *seal = aligned_alloc(LINE, bytes);
    if (!seal)
        return -ENOMEM;
    memset(seal, 0, bytes);
    seal->gcm = gcm;
    seal->encrypts = mode == GYRE_SEAL_ENCRYPT;
    seal->state = (uint8_t *)seal + LINE;
    if (!gcm->init(seal->state, reads, key)) {
        gyre_seal_destroy(seal);
        return -EIO;
    }
    *out = seal;
    return 0;
}

int gyre_seal_create(enum gyre_seal_mode mode, bool reads,
                     const uint8_t key[GYRE_TRAFFIC_KEY_BYTES], struct gyre_seal **seal)
{
    return gyre_seal_create_with(choose_gcm(), mode, reads, key, seal);
}

const char *gyre_seal_word(enum gyre_seal_mode mode)
{
    static const char *const words[] = {"summed", "authenticated", "encrypted"};
    return words[mode];
}

void gyre_seal_destroy(struct gyre_seal *seal)
{
    if (!seal)
        return;
    seal->gcm->deinit(seal->state);
    gyre_wipe(seal->state, seal->gcm->bytes);
    free(seal);
}

bool gyre_seal_encrypts(const struct gyre_seal *seal)
{
    return seal->encrypts;
}

uint64_t gyre_seal_number(const struct gyre_seal *seal)
{
    return seal->number;
}

bool gyre_seal_spent(const struct gyre_seal *seal)
{
    return seal->failed || seal->number >= GYRE_SEAL_NUMBERS - GYRE_SEAL_SPARE;
}

void gyre_seal_begin(struct gyre_seal *seal, const void *header, size_t length)
{
    uint8_t nonce[GYRE_SEAL_NONCE_BYTES] = {0};
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(seal->number >> (56 - 8 * i));
    seal->failed |=
        !seal->gcm->begin(seal->state, nonce) || !seal->gcm->add(seal->state, header, length);
}

void gyre_seal_take(struct gyre_seal *seal, const void *from, void *to, size_t length)
{
    if (length == 0)
        return;
    if (seal->encrypts) {
        seal->failed |= !seal->gcm->crypt(seal->state, from, to, length);
        return;
    }
    if (to && to != from)
        from = memcpy(to, from, length); /* the tag covers the bytes that are kept */
    seal->failed |= !seal->gcm->add(seal->state, from, length);
}

void gyre_seal_tag(struct gyre_seal *seal, uint8_t tag[GYRE_SEAL_TAG_BYTES])
{
    seal->failed |= !seal->gcm->end(seal->state, tag);
    if (seal->failed)
        memset(tag, 0, GYRE_SEAL_TAG_BYTES);
    seal->number++;
}

bool gyre_seal_matches(struct gyre_seal *seal, const uint8_t tag[GYRE_SEAL_TAG_BYTES])
{
    uint8_t copy[GYRE_SEAL_TAG_BYTES];
    memcpy(copy, tag, sizeof copy);
    seal->number++;
    return seal->gcm->end(seal->state, copy) && !seal->failed;
}

void gyre_seal_return_to(struct gyre_seal *seal, uint64_t number)
{
    seal->number = number;
}
