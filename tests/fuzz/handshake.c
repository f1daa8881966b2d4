/* Random and nearly valid bytes against everything that parses what a stranger or a peer sent while
 * joining: both handshake machines, refusals, facts, stories, introductions, packed addresses, and
 * the records of connections that are made anew.
 *
 * What is checked beside memory safety: without the key nothing is ever proven and nothing is ever
 * answered, and no text leaves a parser unterminated. */
#include "fuzz/fuzz.h"

#include "transport/join/inside.h"
#include "transport/watch/renew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_claim claim(void)
{
    return (struct gyre_claim){.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .world = 4,
                               .purpose = 1};
}

/* The bytes are not signed with the key, so the machine must stay closed whatever they are. */
static void fuzz_side(enum gyre_handshake_side side, const uint8_t *data, size_t size)
{
    static const uint8_t key[32] = {7}, nonce[32] = {8};
    struct gyre_handshake shake;
    struct gyre_claim mine = claim();
    const uint8_t *out;
    uint8_t *where;
    size_t room;
    gyre_handshake_start(&shake, side, &mine, key, nonce);
    gyre_handshake_sent(&shake, gyre_handshake_output(&shake, &out));
    while (size && (room = gyre_handshake_room(&shake, &where)) > 0) {
        size_t n = 1 + data[0] % room;
        n = n < size ? n : size;
        memcpy(where, data, n);
        int status = gyre_handshake_took(&shake, n);
        REQUIRE(status != 0);                          /* nothing is proven without the key */
        REQUIRE(!gyre_handshake_output(&shake, &out)); /* nor answered */
        data += n;
        size -= n;
    }
}

static void check_text(const char *text, size_t size)
{
    REQUIRE(memchr(text, '\0', size) != NULL);
}

static void fuzz_parsers(uint8_t *data, size_t size)
{
    static struct gyre_guest guest;
    struct gyre_refusal refusal;
    struct gyre_story story;
    struct gyre_talk talk = {.fd = -1};
    struct sockaddr_storage address;
    struct gyre_record record = {GYRE_JOIN_INTRODUCTION, data, size};
    struct gyre_cursor in = gyre_cursor_over(data, size);
    char text[GYRE_ADDRESS_TEXT], difference[64];

    gyre_refusal_decode(data, size, &refusal);
    check_text(refusal.text, sizeof refusal.text);
    gyre_story_decode(&record, &story);
    check_text(story.text, sizeof story.text);
    gyre_guest_read(&talk, &record, &guest);
    check_text(guest.identity.host, sizeof guest.identity.host);
    check_text(guest.configuration, sizeof guest.configuration);
    gyre_configuration_difference((const char *const[]){"A=1 B", guest.configuration},
                                  (const char *const[]){"a", "b"}, difference, sizeof difference);
    check_text(difference, sizeof difference);
    for (uint16_t kind = 0; kind <= GYRE_WATCH_GONE + 1; kind++) {
        const struct gyre_record answer = {kind, data, size};
        uint32_t number;
        uint64_t received;
        bool known =
            kind == GYRE_WATCH_RENEW ? size == 12 : kind == GYRE_WATCH_RENEWED && size == 8;
        REQUIRE(gyre_renewal_read(&answer, &number, &received) == known);
    }
    gyre_address_get(&in, &address);
    gyre_address_format(&address, text);
    check_text(text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* exactly as long: a sanitizer sees one byte beyond */
    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    fuzz_side(GYRE_HANDSHAKE_SERVER, data, size);
    fuzz_side(GYRE_HANDSHAKE_CLIENT, data, size);
    fuzz_parsers(copy, size);
    free(copy);
    return 0;
}

#ifndef GYRE_LIBFUZZER

/* Half of the cases begin like the real thing, so that the parsers' later parts are reached. */
static size_t make_case(uint64_t seed, uint8_t *data)
{
    static const uint8_t magic[] = {'G', 'Y', 'R', 'E', 13, 10, 26, 1};
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    size_t size = gyre_rng_below(&rng, seed % 8 == 0 ? 6000 : seed % 8 == 1 ? 16 : 400);
    for (size_t i = 0; i < size; i++)
        data[i] = gyre_rng_below(&rng, 4) ? (uint8_t)gyre_rng_next(&rng) : 0;
    if (size >= sizeof magic && gyre_rng_below(&rng, 2))
        memcpy(data, magic, sizeof magic);
    return size;
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 20000, make_case);
}

#endif
