/* The seal of one direction of one connection: AES-128-GCM (NIST SP 800-38D) over numbered frames.
 *
 *     AUTH      header and payload are additional data: nothing is encrypted (GMAC)
 *     ENCRYPT   the header is additional data, the payload is encrypted
 *
 *     begin(header) ─▶ take(pieces of the payload) ─▶ tag(), or matches() at the reader
 *
 * The nonce is the frame's number in its direction: 4 zero bytes, then 8 bytes, big endian. tag()
 * and matches() go on to the next number, so both ends count alike, and a frame that was altered,
 * repeated, dropped or moved matches no tag. A number never comes twice under one key: the owner
 * ends the connection once the seal is spent().
 *
 * One thread for each seal. Nothing is allocated after create(). */
#ifndef GYRE_TRANSPORT_SEAL_SEAL_H
#define GYRE_TRANSPORT_SEAL_SEAL_H

#include "transport/net/crypto.h"

#define GYRE_SEAL_TAG_BYTES 16
#define GYRE_SEAL_NUMBERS   (UINT64_C(1) << 48) /* frames under one key, at most */
#define GYRE_SEAL_SPARE     UINT64_C(4096)      /* numbers that are left when a seal is spent */

enum gyre_seal_mode { GYRE_SEAL_NONE, GYRE_SEAL_AUTH, GYRE_SEAL_ENCRYPT };

struct gyre_seal;

/* "summed", "authenticated", "encrypted": what is so protected. */
const char *gyre_seal_word(enum gyre_seal_mode mode);

/* Makes the seal of the end that writes frames, or `reads` them; `key` is copied. 0, -ENOMEM, or
 * -EIO: libcrypto has no AES-128-GCM. */
int gyre_seal_create(enum gyre_seal_mode mode, bool reads,
                     const uint8_t key[GYRE_TRAFFIC_KEY_BYTES], struct gyre_seal **seal);

/* Wipes the key. NULL allowed. */
void gyre_seal_destroy(struct gyre_seal *seal);

bool gyre_seal_encrypts(const struct gyre_seal *seal);

/* The number of the next frame. */
uint64_t gyre_seal_number(const struct gyre_seal *seal);

/* Whether the connection has to end: few numbers are left, or libcrypto has failed. */
bool gyre_seal_spent(const struct gyre_seal *seal);

/* Begins the next frame. A frame that was begun and not ended is forgotten. */
void gyre_seal_begin(struct gyre_seal *seal, const void *header, size_t length);

/* Takes a piece of the payload, of any length, from `from` to `to`, which may be equal. ENCRYPT:
 * the writer encrypts, the reader decrypts. AUTH copies; with NULL for `to` the bytes stay where
 * they are. */
void gyre_seal_take(struct gyre_seal *seal, const void *from, void *to, size_t length);

/* End the frame: tag() at the writer, matches() at the reader. matches() compares in constant time,
 * and is false after any failure. */
void gyre_seal_tag(struct gyre_seal *seal, uint8_t tag[GYRE_SEAL_TAG_BYTES]);
bool gyre_seal_matches(struct gyre_seal *seal, const uint8_t tag[GYRE_SEAL_TAG_BYTES]);

/* Gives a number back, and those behind it: no byte of their frames was written or believed. */
void gyre_seal_return_to(struct gyre_seal *seal, uint64_t number);

#endif
