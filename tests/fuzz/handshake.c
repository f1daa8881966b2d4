/* Random and nearly valid bytes against everything that parses what a stranger or a peer sent while
 * joining: both handshake machines, refusals, facts, stories, introductions and packed addresses.
 *
 * Built with -fsanitize=fuzzer this is a libFuzzer target; as a test it runs a fixed number of
 * seeded cases (or the files named on its command line), so a failure is repeated by its seed
 * alone. What is checked beside memory safety: without the key nothing is ever proven and nothing
 * is ever answered, and no text leaves a parser unterminated. */
#include "base/rng.h"
#include "transport/join/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES 20000

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_handshake: %s\n", what);
    abort();
}

static struct gyre_claim claim(void)
{
    return (struct gyre_claim){.version_low = 1, .version_high = 1, .world = 4, .purpose = 1};
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
        check(status != 0, "something was proven without the key");
        check(!gyre_handshake_output(&shake, &out), "something was answered without the key");
        data += n;
        size -= n;
    }
}

static void check_text(const char *text, size_t size)
{
    check(memchr(text, '\0', size) != NULL, "a text has no end");
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
    gyre_configuration_difference("A=1 B", guest.configuration, difference, sizeof difference);
    check_text(difference, sizeof difference);
    gyre_address_get(&in, &address);
    gyre_address_format(&address, text);
    check_text(text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
static size_t make_case(struct gyre_rng *rng, uint8_t *data, size_t most)
{
    static const uint8_t magic[] = {'G', 'Y', 'R', 'E', 13, 10, 26, 1};
    size_t size = gyre_rng_below(rng, most);
    for (size_t i = 0; i < size; i++)
        data[i] = gyre_rng_below(rng, 4) ? (uint8_t)gyre_rng_next(rng) : 0;
    if (size >= sizeof magic && gyre_rng_below(rng, 2))
        memcpy(data, magic, sizeof magic);
    return size;
}

static int replay(const char *path)
{
    static uint8_t data[65536];
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    static uint8_t data[6000];
    int status = 0;
    for (int i = 1; i < argc; i++)
        status |= replay(argv[i]);
    for (uint64_t seed = 0; argc < 2 && seed < CASES; seed++) {
        struct gyre_rng rng;
        gyre_rng_seed(&rng, seed);
        LLVMFuzzerTestOneInput(data, make_case(&rng, data, seed % 8 ? 400 : sizeof data));
    }
    return status;
}

#endif
