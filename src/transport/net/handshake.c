/* The handshake: M1, M2, M3 as one transcript that both sides write.
 *
 * Both sides hold the same 256 bytes. Each writes its own part and receives the other's:
 *
 *     0          128          224      256
 *     │ M1 hello │ M2 answer  │ M3     │
 *     └ client ──┴── server ──┴ client ┘
 *
 * A code covers a label and everything before the code. So no message can stand for another, be
 * reflected to its sender or be moved to another conversation: the answer covers the fresh nonce of
 * the hello, the proof covers both nonces.
 *
 * The server's output is empty until M1's code was right. Received bytes never pass the end of the
 * message that is due, so the bytes behind the handshake (records, payload) stay in the socket.
 * Codes are compared in constant time. */
#include "transport/net/handshake.h"

#include "transport/net/cursor.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <stdio.h>

static const uint8_t magic[8] = {'G', 'Y', 'R', 'E', 0x0d, 0x0a, 0x1a, 0x01};

enum {
    CODE = GYRE_DIGEST_BYTES,
    ANSWER_AT = GYRE_HELLO_BYTES,
    PROOF_AT = ANSWER_AT + GYRE_ANSWER_BYTES
};

/* Writes the code of transcript [0, at) under `label` to transcript [at, at + 32). */
static int sign(const struct gyre_handshake *shake, const char *label, size_t at,
                uint8_t code[CODE])
{
    const struct gyre_piece pieces[] = {{label, strlen(label)}, {shake->transcript, at}};
    return gyre_hmac_sha256(shake->key, pieces, 2, code);
}

static bool signed_right(const struct gyre_handshake *shake, const char *label, size_t at)
{
    uint8_t code[CODE];
    return !sign(shake, label, at, code) && gyre_secret_equal(code, shake->transcript + at, CODE);
}

static int write_hello(struct gyre_handshake *shake)
{
    const struct gyre_claim *mine = &shake->mine;
    struct gyre_cursor out = gyre_cursor_over(shake->transcript, GYRE_HELLO_BYTES);
    gyre_put_bytes(&out, magic, sizeof magic);
    gyre_put_u64(&out, mine->version_low, 2);
    gyre_put_u64(&out, mine->version_high, 2);
    gyre_put_bytes(&out, mine->job, sizeof mine->job);
    gyre_put_u64(&out, mine->epoch, 4);
    gyre_put_u64(&out, mine->rank, 4);
    gyre_put_u64(&out, mine->world, 4);
    gyre_put_u64(&out, mine->purpose, 2);
    gyre_put_u64(&out, mine->stripe, 2);
    gyre_put_u64(&out, mine->features, 4);
    gyre_put_u64(&out, mine->configuration, 8);
    gyre_put_bytes(&out, mine->key_id, sizeof mine->key_id);
    gyre_put_bytes(&out, shake->nonce, GYRE_NONCE_BYTES);
    return sign(shake, "c1", GYRE_HELLO_BYTES - CODE, out.at);
}

static void read_hello(struct gyre_handshake *shake)
{
    struct gyre_claim *theirs = &shake->theirs;
    struct gyre_cursor in = gyre_cursor_over(shake->transcript, GYRE_HELLO_BYTES);
    gyre_cursor_skip(&in, sizeof magic);
    theirs->version_low = (uint16_t)gyre_get_u64(&in, 2);
    theirs->version_high = (uint16_t)gyre_get_u64(&in, 2);
    gyre_get_bytes(&in, theirs->job, sizeof theirs->job);
    theirs->epoch = (uint32_t)gyre_get_u64(&in, 4);
    theirs->rank = (uint32_t)gyre_get_u64(&in, 4);
    theirs->world = (uint32_t)gyre_get_u64(&in, 4);
    theirs->purpose = (uint16_t)gyre_get_u64(&in, 2);
    theirs->stripe = (uint16_t)gyre_get_u64(&in, 2);
    theirs->features = (uint32_t)gyre_get_u64(&in, 4);
    theirs->configuration = gyre_get_u64(&in, 8);
    gyre_get_bytes(&in, theirs->key_id, sizeof theirs->key_id);
    shake->claimed = true;
}

static int write_answer(struct gyre_handshake *shake)
{
    const struct gyre_claim *mine = &shake->mine;
    struct gyre_cursor out = gyre_cursor_over(shake->transcript + ANSWER_AT, GYRE_ANSWER_BYTES);
    gyre_put_bytes(&out, magic, sizeof magic);
    gyre_put_u64(&out, mine->version_low, 2);
    gyre_put_u64(&out, mine->version_high, 2);
    gyre_put_u64(&out, mine->epoch, 4);
    gyre_put_u64(&out, mine->rank, 4);
    gyre_put_u64(&out, mine->world, 4);
    gyre_put_u64(&out, mine->features, 4);
    gyre_put_u64(&out, 0, 4);
    gyre_put_bytes(&out, shake->nonce, GYRE_NONCE_BYTES);
    return sign(shake, "s", PROOF_AT - CODE, out.at);
}

static void read_answer(struct gyre_handshake *shake)
{
    struct gyre_claim *theirs = &shake->theirs;
    struct gyre_cursor in = gyre_cursor_over(shake->transcript + ANSWER_AT, GYRE_ANSWER_BYTES);
    gyre_cursor_skip(&in, sizeof magic);
    theirs->version_low = (uint16_t)gyre_get_u64(&in, 2);
    theirs->version_high = (uint16_t)gyre_get_u64(&in, 2);
    theirs->epoch = (uint32_t)gyre_get_u64(&in, 4);
    theirs->rank = (uint32_t)gyre_get_u64(&in, 4);
    theirs->world = (uint32_t)gyre_get_u64(&in, 4);
    theirs->features = (uint32_t)gyre_get_u64(&in, 4);
    shake->claimed = true;
}

/* Derives the keys of the two directions. Both nonces, C then S, are the salt. */
static int derive_keys(struct gyre_handshake *shake)
{
    static const struct gyre_piece direction[2] = {{"gyre client to server", 21},
                                                   {"gyre server to client", 21}};
    bool server = shake->side == GYRE_HANDSHAKE_SERVER;
    uint8_t nonces[2 * GYRE_NONCE_BYTES];
    struct gyre_piece secret = {shake->key, GYRE_KEY_BYTES}, salt = {nonces, sizeof nonces};

    memcpy(nonces, shake->transcript + GYRE_HELLO_BYTES - CODE - GYRE_NONCE_BYTES,
           GYRE_NONCE_BYTES);
    memcpy(nonces + GYRE_NONCE_BYTES, shake->transcript + PROOF_AT - CODE - GYRE_NONCE_BYTES,
           GYRE_NONCE_BYTES);
    int status = gyre_hkdf_sha256(secret, salt, direction[server], shake->key_out, GYRE_KEY_BYTES);
    return status
               ? status
               : gyre_hkdf_sha256(secret, salt, direction[!server], shake->key_in, GYRE_KEY_BYTES);
}

static void expect(struct gyre_handshake *shake, size_t at, size_t bytes)
{
    shake->input = at;
    shake->have = 0;
    shake->want = bytes;
}

int gyre_handshake_start(struct gyre_handshake *shake, enum gyre_handshake_side side,
                         const struct gyre_claim *mine, const uint8_t key[GYRE_KEY_BYTES],
                         const uint8_t nonce[GYRE_NONCE_BYTES])
{
    memset(shake, 0, sizeof *shake);
    shake->side = side;
    shake->mine = *mine;
    memcpy(shake->key, key, GYRE_KEY_BYTES);
    memcpy(shake->nonce, nonce, GYRE_NONCE_BYTES);
    if (side == GYRE_HANDSHAKE_SERVER) {
        shake->sent = shake->ready = ANSWER_AT;
        expect(shake, 0, GYRE_HELLO_BYTES);
        return 0;
    }
    shake->ready = GYRE_HELLO_BYTES;
    expect(shake, ANSWER_AT, GYRE_ANSWER_BYTES);
    return write_hello(shake);
}

void gyre_handshake_wipe(struct gyre_handshake *shake)
{
    gyre_wipe(shake->key, sizeof shake->key);
    gyre_wipe(shake->key_out, sizeof shake->key_out);
    gyre_wipe(shake->key_in, sizeof shake->key_in);
}

size_t gyre_handshake_room(struct gyre_handshake *shake, uint8_t **where)
{
    *where = shake->transcript + shake->input + shake->have;
    return shake->state == GYRE_HANDSHAKE_OPEN ? shake->want - shake->have : 0;
}

static int fail_handshake(struct gyre_handshake *shake, int status)
{
    shake->state = GYRE_HANDSHAKE_FAILED;
    shake->sent = shake->ready;
    gyre_handshake_wipe(shake);
    return status;
}

static int proven(struct gyre_handshake *shake)
{
    int status = derive_keys(shake);
    if (status)
        return fail_handshake(shake, status);
    shake->state = GYRE_HANDSHAKE_PROVEN;
    return 0;
}

static int took_hello(struct gyre_handshake *shake)
{
    read_hello(shake);
    if (!signed_right(shake, "c1", GYRE_HELLO_BYTES - CODE))
        return fail_handshake(shake, GYRE_REFUSED);
    int status = write_answer(shake);
    if (status)
        return fail_handshake(shake, status);
    shake->ready = PROOF_AT;
    expect(shake, PROOF_AT, GYRE_PROOF_BYTES);
    return GYRE_AGAIN;
}

static int took_answer(struct gyre_handshake *shake)
{
    if (!signed_right(shake, "s", PROOF_AT - CODE))
        return fail_handshake(shake, GYRE_REFUSED);
    read_answer(shake);
    int status = sign(shake, "c2", PROOF_AT, shake->transcript + PROOF_AT);
    if (status)
        return fail_handshake(shake, status);
    shake->sent = PROOF_AT;
    shake->ready = PROOF_AT + GYRE_PROOF_BYTES;
    return proven(shake);
}

static int took_proof(struct gyre_handshake *shake)
{
    return signed_right(shake, "c2", PROOF_AT) ? proven(shake)
                                               : fail_handshake(shake, GYRE_REFUSED);
}

/* Whether the bytes so far fit. M1 and M2 begin with the magic, so a stranger's first wrong byte is
 * enough. */
static bool magic_so_far(const struct gyre_handshake *shake)
{
    size_t length = shake->have < sizeof magic ? shake->have : sizeof magic;
    return shake->input == PROOF_AT || !memcmp(shake->transcript + shake->input, magic, length);
}

int gyre_handshake_took(struct gyre_handshake *shake, size_t bytes)
{
    if (shake->state != GYRE_HANDSHAKE_OPEN || bytes > shake->want - shake->have)
        return fail_handshake(shake, GYRE_CORRUPT);
    shake->have += bytes;
    if (!magic_so_far(shake))
        return fail_handshake(shake, GYRE_CORRUPT);
    if (shake->have < shake->want)
        return GYRE_AGAIN;
    if (shake->input == 0)
        return took_hello(shake);
    return shake->input == ANSWER_AT ? took_answer(shake) : took_proof(shake);
}

size_t gyre_handshake_output(const struct gyre_handshake *shake, const uint8_t **bytes)
{
    *bytes = shake->transcript + shake->sent;
    return shake->ready - shake->sent;
}

void gyre_handshake_sent(struct gyre_handshake *shake, size_t bytes)
{
    shake->sent += bytes;
}

bool gyre_handshake_reached(const struct gyre_handshake *shake, uint32_t rank)
{
    return shake->state == GYRE_HANDSHAKE_PROVEN && shake->side == GYRE_HANDSHAKE_CLIENT &&
           shake->theirs.rank == rank;
}

enum gyre_refusal_code gyre_handshake_judge(const struct gyre_handshake *shake)
{
    const struct gyre_claim *mine = &shake->mine, *theirs = &shake->theirs;
    if (theirs->version_low > mine->version_high || theirs->version_high < mine->version_low)
        return GYRE_REFUSAL_VERSION;
    if (theirs->purpose != mine->purpose)
        return GYRE_REFUSAL_PURPOSE;
    if (theirs->epoch != mine->epoch)
        return GYRE_REFUSAL_EPOCH;
    if (theirs->world != mine->world)
        return GYRE_REFUSAL_WORLD;
    if (theirs->rank >= mine->world || theirs->rank == mine->rank)
        return GYRE_REFUSAL_RANK;
    return theirs->configuration == mine->configuration ? GYRE_REFUSAL_NONE
                                                        : GYRE_REFUSAL_CONFIGURATION;
}

int gyre_refusal_encode(const struct gyre_handshake *shake, const struct gyre_refusal *refusal,
                        uint8_t out[GYRE_REFUSAL_BYTES])
{
    if (shake->state != GYRE_HANDSHAKE_PROVEN)
        return -EPERM;
    struct gyre_cursor cursor = gyre_cursor_over(out, GYRE_REFUSAL_BYTES);
    gyre_put_u64(&cursor, refusal->code, 4);
    gyre_put_text(&cursor, refusal->text, sizeof refusal->text);
    return (int)(cursor.at - out);
}

int gyre_refusal_decode(const uint8_t *bytes, size_t length, struct gyre_refusal *refusal)
{
    struct gyre_cursor in = gyre_cursor_over((void *)(uintptr_t)bytes, length);
    refusal->code = (uint32_t)gyre_get_u64(&in, 4);
    gyre_get_text(&in, refusal->text, sizeof refusal->text);
    return in.bad || in.at != in.end ? GYRE_CORRUPT : 0;
}

/* -- configurations ---------------------------------------------------------------------------- */

static const char blanks[] = " \t\n";

struct word { /* NAME=VALUE inside a text */
    const char *at;
    size_t name, length;
};

static bool next_word(const char **text, struct word *word)
{
    *text += strspn(*text, blanks);
    word->at = *text;
    word->length = strcspn(*text, blanks);
    const char *equals = memchr(word->at, '=', word->length);
    word->name = equals ? (size_t)(equals - word->at) : word->length;
    *text += word->length;
    return word->length > 0;
}

static bool find_name(const char *text, const struct word *name, struct word *found)
{
    while (next_word(&text, found))
        if (found->name == name->name && !memcmp(found->at, name->at, name->name))
            return true;
    return false;
}

/* Who has which value is said with the first word; the others keep that order. */
static void append_word(char *out, size_t size, const char *const who[2], const struct word *one,
                        const struct word *two)
{
    size_t used = strlen(out);
    bool first = !used;
    const struct word *side[2] = {one, two}, *name = one ? one : two;
    snprintf(out + used, size - used, "%s%.*s is", used ? "; " : "", (int)name->name, name->at);
    for (int i = 0; i < 2; i++) {
        static const struct word unset = {"unset", 0, 5};
        const struct word *word = side[i] ? side[i] : &unset;
        size_t skip = side[i] ? word->name + (word->name < word->length) : 0;
        used = strlen(out);
        snprintf(out + used, size - used, "%s %.*s%s%s", i ? " and" : "",
                 (int)(word->length - skip), word->at + skip, first ? " on " : "",
                 first ? who[i] : "");
    }
}

void gyre_configuration_difference(const char *const text[2], const char *const who[2], char *out,
                                   size_t size)
{
    struct word word, other;
    out[0] = '\0';
    for (const char *rest = text[0]; next_word(&rest, &word);)
        if (!find_name(text[1], &word, &other))
            append_word(out, size, who, &word, NULL);
        else if (other.length != word.length || memcmp(other.at, word.at, word.length))
            append_word(out, size, who, &word, &other);
    for (const char *rest = text[1]; next_word(&rest, &word);)
        if (!find_name(text[0], &word, &other))
            append_word(out, size, who, NULL, &word);
    if (!out[0])
        snprintf(out, size, "their hashes differ, their texts do not");
}
