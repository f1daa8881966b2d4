/* The handshake without a socket: two state machines whose outputs are each other's inputs. */
#include "transport/net/handshake.h"
#include "rig/test.h"

#include <gyre/gyre.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct pair {
    struct gyre_handshake client, server;
};

static struct gyre_claim claim_of(uint32_t rank)
{
    struct gyre_claim claim = {.version_low = 1,
                               .version_high = 3,
                               .epoch = 2,
                               .rank = rank,
                               .world = 8,
                               .purpose = GYRE_PURPOSE_DATA,
                               .stripe = 5,
                               .features = 0x80000001,
                               .configuration = 0x1122334455667788};
    memset(claim.job, 0x1d, sizeof claim.job);
    memset(claim.key_id, 0xa1, sizeof claim.key_id);
    return claim;
}

static void start(struct pair *pair, uint8_t client_key, uint8_t server_key)
{
    struct gyre_claim client = claim_of(3), server = claim_of(0);
    uint8_t key[32], nonce[32];
    memset(key, client_key, sizeof key);
    memset(nonce, 0xc0, sizeof nonce);
    assert_false(gyre_handshake_start(&pair->client, GYRE_HANDSHAKE_CLIENT, &client, key, nonce));
    memset(key, server_key, sizeof key);
    memset(nonce, 0x50, sizeof nonce);
    assert_false(gyre_handshake_start(&pair->server, GYRE_HANDSHAKE_SERVER, &server, key, nonce));
}

/* Feeds `length` bytes, `step` at a time, as far as the state machine wants them. */
static int feed(struct gyre_handshake *shake, const uint8_t *bytes, size_t length, size_t step)
{
    int status = GYRE_AGAIN;
    while (length && status == GYRE_AGAIN) {
        uint8_t *where;
        size_t room = gyre_handshake_room(shake, &where);
        size_t n = step < length ? step : length;
        n = n < room ? n : room;
        if (!n)
            break;
        memcpy(where, bytes, n);
        status = gyre_handshake_took(shake, n);
        bytes += n;
        length -= n;
    }
    return status;
}

static int pass(struct gyre_handshake *from, struct gyre_handshake *to, size_t step)
{
    const uint8_t *bytes;
    size_t length = gyre_handshake_output(from, &bytes);
    int status = feed(to, bytes, length, step);
    gyre_handshake_sent(from, length);
    return status;
}

static size_t left_to_send(const struct gyre_handshake *shake)
{
    const uint8_t *bytes;
    return gyre_handshake_output(shake, &bytes);
}

static void sizes_are_as_promised(void **state)
{
    struct pair pair;
    (void)state;
    start(&pair, 1, 1);
    assert_int_equal(left_to_send(&pair.client), 128);
    assert_int_equal(left_to_send(&pair.server), 0);
    assert_int_equal(pass(&pair.client, &pair.server, 128), GYRE_AGAIN);
    assert_int_equal(left_to_send(&pair.server), 96);
    assert_int_equal(pass(&pair.server, &pair.client, 96), 0);
    assert_int_equal(left_to_send(&pair.client), 32);
    assert_int_equal(pass(&pair.client, &pair.server, 32), 0);
    assert_int_equal(left_to_send(&pair.server), 0);
}

/* A client that has the proof knows which rank it has reached. */
static void the_client_knows_whom_it_has_reached(void **state)
{
    struct pair pair;
    (void)state;
    start(&pair, 1, 1);
    assert_int_equal(pass(&pair.client, &pair.server, 128), GYRE_AGAIN);
    assert_false(gyre_handshake_reached(&pair.client, 0));
    assert_int_equal(pass(&pair.server, &pair.client, 96), 0);
    assert_true(gyre_handshake_reached(&pair.client, 0));
    assert_false(gyre_handshake_reached(&pair.client, 3));
}

/* Keys of the two directions, as HKDF of RFC 5869 makes them of the nonces, C before S. Computed
 * with another program. */
static void keys_are_those_of_the_vector(void **state)
{
    static const uint8_t to_server[32] = {0x27, 0x35, 0xf6, 0x8d, 0x85, 0x96, 0x0b, 0x41,
                                          0xfb, 0xe3, 0xdc, 0x85, 0x62, 0x44, 0x6d, 0xbe,
                                          0xef, 0xfd, 0x05, 0x03, 0x1b, 0xe7, 0x0d, 0x8f,
                                          0x4b, 0xae, 0x66, 0x0b, 0x34, 0x9b, 0xf0, 0xfa};
    static const uint8_t to_client[32] = {0xfa, 0x08, 0xc5, 0x10, 0x16, 0xa9, 0xa8, 0x5a,
                                          0x35, 0xeb, 0xf9, 0x29, 0x57, 0x97, 0xf6, 0x10,
                                          0x9c, 0x6e, 0xd0, 0x5a, 0x7f, 0x21, 0x06, 0xcc,
                                          0x27, 0x28, 0xea, 0x1d, 0x6d, 0x4c, 0xaf, 0xcd};
    struct pair pair;
    (void)state;
    start(&pair, 1, 1);
    assert_int_equal(pass(&pair.client, &pair.server, 128), GYRE_AGAIN);
    assert_int_equal(pass(&pair.server, &pair.client, 96), 0);
    assert_memory_equal(pair.client.key_out, to_server, sizeof to_server);
    assert_memory_equal(pair.client.key_in, to_client, sizeof to_client);
}

/* M1 at the places that transport/net/handshake.h gives: other programs and later versions read it
 * there. */
static void the_hello_is_laid_out_as_written(void **state)
{
    static const uint8_t front[] = {'G', 'Y', 'R', 'E', 13, 10, 26, 1, 1, 0, 3, 0};
    static const uint8_t middle[] = {2,    0,    0,    0,    3,    0,    0,    0,   8, 0,
                                     0,    0,    2,    0,    5,    0,    1,    0,   0, 0x80,
                                     0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    struct pair pair;
    const uint8_t *hello;
    uint8_t code[32];
    (void)state;
    start(&pair, 1, 1);
    assert_int_equal(gyre_handshake_output(&pair.client, &hello), 128);
    assert_memory_equal(hello, front, sizeof front);
    assert_int_equal(hello[12], 0x1d);
    assert_int_equal(hello[27], 0x1d);
    assert_memory_equal(hello + 28, middle, sizeof middle);
    assert_int_equal(hello[56], 0xa1);
    assert_int_equal(hello[63], 0xa1);
    assert_int_equal(hello[64], 0xc0);
    assert_int_equal(hello[95], 0xc0);
    const struct gyre_piece pieces[] = {{"c1", 2}, {hello, 96}};
    assert_false(gyre_hmac_sha256(pair.client.key, pieces, 2, code));
    assert_memory_equal(hello + 96, code, 32);
}

static void both_know_each_other_however_bytes_are_split(void **state)
{
    (void)state;
    for (size_t step = 1; step <= 128; step++) {
        struct pair pair;
        start(&pair, 1, 1);
        assert_int_equal(pass(&pair.client, &pair.server, step), GYRE_AGAIN);
        assert_int_equal(pass(&pair.server, &pair.client, step), 0);
        assert_int_equal(pass(&pair.client, &pair.server, step), 0);
        assert_int_equal(pair.server.theirs.rank, 3);
        assert_int_equal(pair.server.theirs.stripe, 5);
        assert_int_equal(pair.client.theirs.rank, 0);
        assert_int_equal(pair.client.theirs.world, 8);
        assert_memory_equal(pair.client.key_out, pair.server.key_in, 32);
        assert_memory_equal(pair.client.key_in, pair.server.key_out, 32);
        assert_memory_not_equal(pair.client.key_in, pair.client.key_out, 32);
    }
}

static void nothing_is_answered_before_the_code_holds(void **state)
{
    struct pair pair;
    const uint8_t *hello;
    (void)state;
    start(&pair, 1, 1);
    gyre_handshake_output(&pair.client, &hello);
    for (size_t cut = 0; cut < 128; cut++) {
        struct pair fresh;
        start(&fresh, 1, 1);
        assert_int_equal(feed(&fresh.server, hello, cut, 7), GYRE_AGAIN);
        assert_int_equal(left_to_send(&fresh.server), 0);
        assert_int_equal(fresh.server.state, GYRE_HANDSHAKE_OPEN);
    }
}

/* One bit anywhere in any message, and the side that hears it hangs up. */
static void every_flipped_bit_is_noticed(void **state)
{
    static const int message_bytes[3] = {128, 96, 32};
    (void)state;
    for (int message = 0; message < 3; message++)
        for (int bit = 0; bit < 8 * message_bytes[message]; bit++) {
            struct pair pair;
            start(&pair, 1, 1);
            struct gyre_handshake *side[2] = {&pair.client, &pair.server};
            for (int i = 0; i < message; i++)
                assert_true(pass(side[i % 2], side[(i + 1) % 2], 128) >= 0);
            const uint8_t *bytes;
            uint8_t spoilt[128];
            size_t length = gyre_handshake_output(side[message % 2], &bytes);
            assert_int_equal(length, message_bytes[message]);
            memcpy(spoilt, bytes, length);
            spoilt[bit / 8] ^= (uint8_t)(1 << (bit % 8));
            struct gyre_handshake *hearer = side[(message + 1) % 2];
            int status = feed(hearer, spoilt, length, 128);
            assert_int_equal(status, message < 2 && bit < 64 ? GYRE_CORRUPT : GYRE_REFUSED);
            assert_int_equal(hearer->state, GYRE_HANDSHAKE_FAILED);
            assert_int_equal(left_to_send(hearer), 0);
        }
}

static void another_key_proves_nothing(void **state)
{
    static const uint8_t zeros[32];
    struct pair pair;
    (void)state;
    start(&pair, 1, 2);
    assert_int_equal(pass(&pair.client, &pair.server, 128), GYRE_REFUSED);
    assert_int_equal(left_to_send(&pair.server), 0);
    assert_true(pair.server.claimed); /* for the log */
    assert_int_equal(pair.server.theirs.key_id[0], 0xa1);
    assert_memory_equal(pair.server.key, zeros, 32); /* wiped */
}

static void a_hello_sent_back_is_no_answer(void **state)
{
    struct pair pair;
    const uint8_t *hello;
    uint8_t echo[128];
    (void)state;
    start(&pair, 1, 1);
    gyre_handshake_output(&pair.client, &hello);
    memcpy(echo, hello, sizeof echo);
    assert_int_equal(feed(&pair.client, echo, sizeof echo, 128), GYRE_REFUSED);
}

/* A recorded conversation, played again: the server's fresh nonce makes the old M3 worthless. */
static void a_replayed_proof_is_worthless(void **state)
{
    struct pair pair, again;
    uint8_t hello[128], proof[32], nonce[32];
    const uint8_t *bytes;
    struct gyre_claim mine = claim_of(0);
    (void)state;
    start(&pair, 1, 1);
    gyre_handshake_output(&pair.client, &bytes);
    memcpy(hello, bytes, sizeof hello);
    pass(&pair.client, &pair.server, 128);
    pass(&pair.server, &pair.client, 96);
    gyre_handshake_output(&pair.client, &bytes);
    memcpy(proof, bytes, sizeof proof);
    memset(nonce, 0x51, sizeof nonce);
    gyre_handshake_start(&again.server, GYRE_HANDSHAKE_SERVER, &mine, pair.client.key, nonce);
    assert_int_equal(feed(&again.server, hello, 128, 128), GYRE_AGAIN);
    assert_int_equal(feed(&again.server, proof, 32, 32), GYRE_REFUSED);
}

static void bytes_beyond_the_message_are_not_taken(void **state)
{
    struct pair pair;
    uint8_t *where;
    (void)state;
    start(&pair, 1, 1);
    assert_int_equal(gyre_handshake_room(&pair.server, &where), 128);
    assert_int_equal(gyre_handshake_took(&pair.server, 129), GYRE_CORRUPT);
    start(&pair, 1, 1);
    pass(&pair.client, &pair.server, 128);
    pass(&pair.server, &pair.client, 96);
    pass(&pair.client, &pair.server, 32);
    assert_int_equal(gyre_handshake_room(&pair.server, &where), 0);
    assert_int_equal(gyre_handshake_room(&pair.client, &where), 0);
}

static void the_first_reason_is_told(void **state)
{
    struct pair pair;
    (void)state;
    start(&pair, 1, 1);
    struct gyre_claim *theirs = &pair.server.theirs;
    *theirs = claim_of(3);
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_NONE);
    theirs->configuration++;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_CONFIGURATION);
    theirs->rank = 8;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_RANK);
    theirs->rank = 0;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_RANK);
    theirs->world = 9;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_WORLD);
    theirs->epoch = 3;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_EPOCH);
    theirs->purpose = GYRE_PURPOSE_JOIN;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_PURPOSE);
    theirs->version_low = theirs->version_high = 4;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_VERSION);
    theirs->version_low = theirs->version_high = 0;
    assert_int_equal(gyre_handshake_judge(&pair.server), GYRE_REFUSAL_VERSION);
}

static void a_refusal_exists_only_after_the_proof(void **state)
{
    struct pair pair;
    struct gyre_refusal refusal = {.code = GYRE_REFUSAL_WORLD}, read;
    uint8_t bytes[GYRE_REFUSAL_BYTES];
    (void)state;
    memset(refusal.text, 'x', GYRE_REFUSAL_TEXT);
    start(&pair, 1, 1);
    assert_int_equal(gyre_refusal_encode(&pair.server, &refusal, bytes), -EPERM);
    pass(&pair.client, &pair.server, 128);
    assert_int_equal(gyre_refusal_encode(&pair.server, &refusal, bytes), -EPERM);
    pass(&pair.server, &pair.client, 96);
    pass(&pair.client, &pair.server, 32);
    int length = gyre_refusal_encode(&pair.server, &refusal, bytes);
    assert_int_equal(length, GYRE_REFUSAL_BYTES);
    assert_false(gyre_refusal_decode(bytes, (size_t)length, &read));
    assert_int_equal(read.code, GYRE_REFUSAL_WORLD);
    assert_string_equal(read.text, refusal.text);
    for (int cut = 0; cut < length; cut++)
        assert_int_equal(gyre_refusal_decode(bytes, (size_t)cut, &read), GYRE_CORRUPT);
}

static void differ(const char *one, const char *two, char *out, size_t size)
{
    gyre_configuration_difference((const char *const[]){one, two}, (const char *const[]){"x", "y"},
                                  out, size);
}

static void settings_are_compared_by_word(void **state)
{
    char out[200];
    (void)state;
    differ("A=1 B=2\nC=3", "C=3 B=20 D=4", out, sizeof out);
    assert_string_equal(out, "A is 1 on x and unset on y; B is 2 and 20; D is unset and 4");
    differ("A=1", "A=1", out, sizeof out);
    assert_string_equal(out, "their hashes differ, their texts do not");
    differ("AA=1 A=2", "A=2 AA=", out, sizeof out);
    assert_string_equal(out, "AA is 1 on x and  on y");
    differ("A=1 B=2 C=3", "", out, 20); /* truncated, never beyond */
    assert_int_equal(strlen(out), 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_as_promised),
        cmocka_unit_test(the_client_knows_whom_it_has_reached),
        cmocka_unit_test(keys_are_those_of_the_vector),
        cmocka_unit_test(the_hello_is_laid_out_as_written),
        cmocka_unit_test(both_know_each_other_however_bytes_are_split),
        cmocka_unit_test(nothing_is_answered_before_the_code_holds),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(another_key_proves_nothing),
        cmocka_unit_test(a_hello_sent_back_is_no_answer),
        cmocka_unit_test(a_replayed_proof_is_worthless),
        cmocka_unit_test(bytes_beyond_the_message_are_not_taken),
        cmocka_unit_test(the_first_reason_is_told),
        cmocka_unit_test(a_refusal_exists_only_after_the_proof),
        cmocka_unit_test(settings_are_compared_by_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
