/* What follows the proof in a join, from a peer that has the key and sends anything: rosters,
 * reports, plans, introductions, stories, refusals, the texts of rank 0, and the conversation that
 * carries them. The first byte of an input says which, the second the number of ranks.
 *
 * What is checked beside memory safety: texts end; a record that was taken is the one that its
 * fields make again; a plan's nodes are numbered without gaps; the conversation takes no record
 * that was changed on the way, and no other bytes at all. */
#include "fuzz/fuzz.h"

#include "transport/join/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS_MOST  40u
#define BYTES_MOST  (RANKS_MOST * 512u)
#define TALK_LIMIT  700u
#define NONCE_BYTES GYRE_NONCE_BYTES

static void check_text(const char *text, size_t size)
{
    REQUIRE(memchr(text, '\0', size) != NULL);
}

/* -- records of many ranks --------------------------------------------------------------------- */

static bool same_identity(const struct gyre_rank_identity *a, const struct gyre_rank_identity *b)
{
    return !strcmp(a->host, b->host) && a->pid == b->pid && a->uid == b->uid &&
           a->simulated == b->simulated && !memcmp(a->space, b->space, sizeof a->space) &&
           !memcmp(a->door, b->door, sizeof a->door) &&
           !memcmp(a->device, b->device, sizeof a->device) && gyre_identity_one_machine(a, b) &&
           !memcmp(&a->outward, &b->outward, sizeof a->outward);
}

static void read_roster(const struct gyre_record *record, uint32_t n)
{
    static struct gyre_rank_identity ranks[RANKS_MOST], again[RANKS_MOST];
    static uint8_t bytes[BYTES_MOST];
    uint8_t nonce[NONCE_BYTES], other[NONCE_BYTES];
    REQUIRE(gyre_roster_bytes(n) <= sizeof bytes);
    if (gyre_roster_decode(record, n, nonce, ranks))
        return;
    REQUIRE(record->length == gyre_roster_bytes(n));
    gyre_roster_encode(nonce, ranks, n, bytes);
    struct gyre_record second = {GYRE_JOIN_ROSTER, bytes, gyre_roster_bytes(n)};
    REQUIRE(!gyre_roster_decode(&second, n, other, again));
    REQUIRE(!memcmp(nonce, other, sizeof nonce));
    for (uint32_t rank = 0; rank < n; rank++) {
        char text[256];
        check_text(ranks[rank].host, sizeof ranks[rank].host);
        REQUIRE(same_identity(&ranks[rank], &again[rank]));
        gyre_identity_difference(&ranks[0], &ranks[rank], text, sizeof text);
        check_text(text, sizeof text);
    }
}

static void read_report(const struct gyre_record *record, uint32_t rank)
{
    static uint8_t bytes[BYTES_MOST];
    struct gyre_join_report report, again;
    if (gyre_join_report_decode(record, rank, &report))
        return;
    check_text(report.why, sizeof report.why);
    REQUIRE(!rank || report.shares + (rank + 7) / 8 == record->payload + record->length);
    size_t length = gyre_join_report_encode(&report, rank, bytes);
    REQUIRE(length <= gyre_join_report_bytes(rank));
    struct gyre_record second = {GYRE_JOIN_REPORT, bytes, length};
    REQUIRE(!gyre_join_report_decode(&second, rank, &again));
    REQUIRE(!strcmp(report.why, again.why));
    REQUIRE(!memcmp(&report.address, &again.address, sizeof again.address));
}

static void read_plan(const struct gyre_record *record, uint32_t n)
{
    static struct gyre_member ranks[RANKS_MOST], again[RANKS_MOST];
    static uint8_t bytes[BYTES_MOST];
    if (gyre_plan_decode(record, n, ranks))
        return;
    REQUIRE(record->length == gyre_plan_bytes(n));
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        REQUIRE(ranks[rank].node <= nodes);
        nodes += ranks[rank].node == nodes;
    }
    gyre_plan_encode(ranks, n, bytes);
    struct gyre_record second = {GYRE_JOIN_PLAN, bytes, gyre_plan_bytes(n)};
    REQUIRE(!gyre_plan_decode(&second, n, again));
    for (uint32_t rank = 0; rank < n; rank++)
        REQUIRE(ranks[rank].node == again[rank].node);
}

/* Nodes from a report's bits must be numbered as a plan is. */
static void assign_nodes(const struct gyre_record *record, uint32_t n)
{
    static uint8_t share[RANKS_MOST * RANKS_MOST], bytes[BYTES_MOST];
    static struct gyre_member ranks[RANKS_MOST];
    uint32_t node[RANKS_MOST], last = 0;
    memset(share, 0, sizeof share);
    for (uint32_t a = 0, bit = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++, bit++)
            share[a * n + b] = share[b * n + a] =
                bit / 8 < record->length && record->payload[bit / 8] >> bit % 8 & 1;
    uint32_t nodes = gyre_nodes_assign(n, share, node);
    memset(ranks, 0, sizeof ranks);
    for (uint32_t rank = 0; rank < n; rank++) {
        ranks[rank].node = node[rank];
        last = node[rank] > last ? node[rank] : last;
        for (uint32_t lower = 0; lower < rank; lower++)
            REQUIRE(node[lower] != node[rank] || share[rank * n + lower]);
    }
    REQUIRE(last + 1 == nodes);
    gyre_plan_encode(ranks, n, bytes);
    struct gyre_record plan = {GYRE_JOIN_PLAN, bytes, gyre_plan_bytes(n)};
    REQUIRE(!gyre_plan_decode(&plan, n, ranks));
}

/* -- records of one rank ----------------------------------------------------------------------- */

static void read_introduction(const struct gyre_record *record, uint32_t n)
{
    static struct gyre_guest guest;
    struct gyre_talk talk = {.fd = -1};
    char differ[64];
    (void)n;
    (void)gyre_guest_read(&talk, record, &guest);
    check_text(guest.identity.host, sizeof guest.identity.host);
    check_text(guest.configuration, sizeof guest.configuration);
    REQUIRE(!strchr(guest.identity.host, ' '));
    gyre_configuration_difference((const char *const[]){"A=1 B", guest.configuration},
                                  (const char *const[]){"a", "b"}, differ, sizeof differ);
    check_text(differ, sizeof differ);
}

static void read_texts(const struct gyre_record *record, uint32_t n)
{
    struct gyre_story story, again;
    struct gyre_refusal refusal;
    uint8_t bytes[GYRE_STORY_BYTES];
    (void)n;
    if (!gyre_story_decode(record, &story)) {
        struct gyre_record second = {GYRE_JOIN_FAILURE, bytes, gyre_story_encode(&story, bytes)};
        REQUIRE(story.status < 0 && !gyre_story_decode(&second, &again));
        REQUIRE(story.status == again.status && !strcmp(story.text, again.text));
    }
    check_text(story.text, sizeof story.text);
    (void)gyre_refusal_decode(record->payload, record->length, &refusal);
    check_text(refusal.text, sizeof refusal.text);
}

/* -- the conversation -------------------------------------------------------------------------- */

/* Both sides of a handshake that has gone well. */
static struct gyre_handshake proven[2];

static void pass_on(struct gyre_handshake *from, struct gyre_handshake *to)
{
    const uint8_t *out;
    uint8_t *in;
    size_t length;
    while ((length = gyre_handshake_output(from, &out)) > 0) {
        size_t room = gyre_handshake_room(to, &in);
        length = length < room ? length : room;
        memcpy(in, out, length);
        gyre_handshake_sent(from, length);
        REQUIRE(gyre_handshake_took(to, length) >= 0);
    }
}

static void prove_once(void)
{
    static const uint8_t key[GYRE_KEY_BYTES] = {7}, nonce[2][NONCE_BYTES] = {{8}, {9}};
    const struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                                     .version_high = GYRE_PROTOCOL_HIGH,
                                     .world = 4,
                                     .purpose = 1};
    if (proven[0].state == GYRE_HANDSHAKE_PROVEN)
        return;
    for (int side = 0; side < 2; side++)
        REQUIRE(!gyre_handshake_start(&proven[side], (enum gyre_handshake_side)side, &claim, key,
                                      nonce[side]));
    for (int turn = 0; turn < 3; turn++)
        pass_on(&proven[turn % 2], &proven[!(turn % 2)]);
    REQUIRE(proven[0].state == GYRE_HANDSHAKE_PROVEN && proven[1].state == GYRE_HANDSHAKE_PROVEN);
}

/* Seals a record of the input's bytes; returns the length of what the socket gets. */
static size_t sealed_record(const struct gyre_record *record, size_t payload, uint8_t *out,
                            size_t most)
{
    int pair[2];
    struct gyre_talk talk = {.shake = proven[0]};
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    gyre_talk_open(&talk, pair[0]);
    REQUIRE(!gyre_talk_say(&talk, GYRE_JOIN_ROSTER, record->payload, payload));
    ssize_t length = read(pair[1], out, most);
    gyre_talk_close(&talk);
    close(pair[1]);
    REQUIRE(length > 0);
    return (size_t)length;
}

/* Reads the bytes as a talk does; the number of records that it took. */
static int taken_of(const uint8_t *bytes, size_t length, int *status)
{
    int pair[2], taken = 0;
    struct gyre_talk talk = {.shake = proven[1]};
    struct gyre_record record;
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    gyre_talk_open(&talk, pair[0]);
    talk.limit = TALK_LIMIT;
    REQUIRE(write(pair[1], bytes, length) == (ssize_t)length);
    shutdown(pair[1], SHUT_WR);
    while (!(*status = gyre_talk_step(&talk, &record)))
        taken += record.kind != 0;
    REQUIRE(talk.in_size <= 2 * (TALK_LIMIT + GYRE_RECORD_HEADER + GYRE_DIGEST_BYTES));
    gyre_talk_close(&talk);
    close(pair[1]);
    return taken;
}

/* An even `n`: the bytes as they are. An odd one: a record of them, with the bits of one byte
 * changed. */
static void converse(const struct gyre_record *record, uint32_t n)
{
    static uint8_t sealed[2 * TALK_LIMIT];
    int status;
    size_t payload = record->length < TALK_LIMIT ? record->length : TALK_LIMIT;
    prove_once();
    if (n % 2 == 0) {
        REQUIRE(taken_of(record->payload, payload, &status) == 0 && status < 0);
        return;
    }
    size_t length = sealed_record(record, payload, sealed, sizeof sealed);
    uint8_t change = payload ? record->payload[payload - 1] : 0;
    sealed[payload > 1 ? (record->payload[0] * 256u + record->payload[1]) % length : 0] ^= change;
    REQUIRE(taken_of(sealed, length, &status) == !change && status < 0);
}

static void (*const reader[])(const struct gyre_record *record, uint32_t n) = {
    read_roster, read_report, read_plan, assign_nodes, read_introduction, read_texts, converse};

enum { READERS = sizeof reader / sizeof *reader };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint32_t n = 1 + data[1] % RANKS_MOST;
    uint8_t *copy = malloc(size - 2 ? size - 2 : 1); /* a sanitizer sees one byte beyond */
    if (!copy)
        return 0;
    memcpy(copy, data + 2, size - 2);
    struct gyre_record record = {GYRE_JOIN_INTRODUCTION, copy, size - 2};
    reader[data[0] % READERS](&record, n);
    free(copy);
    return 0;
}

#ifndef GYRE_LIBFUZZER

/* As long as the record of that many ranks, or nearly; where nodes stand, numbers that are mostly
 * right. The rest is random. */
static size_t make_case(uint64_t seed, uint8_t *data)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    uint32_t kind = (uint32_t)(seed % READERS), n = 1 + (uint32_t)gyre_rng_below(&rng, RANKS_MOST);
    size_t length = kind == 0   ? gyre_roster_bytes(n)
                    : kind == 1 ? GYRE_ADDRESS_BYTES + 2 + (n + 7) / 8
                    : kind == 2 ? gyre_plan_bytes(n)
                                : gyre_rng_below(&rng, 900);
    for (size_t i = 0; i < length; i++)
        data[2 + i] = gyre_rng_below(&rng, 2) ? (uint8_t)gyre_rng_next(&rng) : 0;
    if (kind == 1)
        memset(data + 2 + GYRE_ADDRESS_BYTES, 0, 2);
    for (uint32_t rank = 0, nodes = 0; kind == 2 && rank < n; rank++) {
        uint8_t node = (uint8_t)(gyre_rng_below(&rng, nodes + 1) + !gyre_rng_below(&rng, 64));
        memcpy(data + 2 + gyre_plan_bytes(rank), (uint8_t[4]){node}, 4);
        nodes += node == nodes;
    }
    data[0] = (uint8_t)kind;
    data[1] = (uint8_t)(n - 1);
    length += 2 + !gyre_rng_below(&rng, 8);
    return length - (gyre_rng_below(&rng, 8) ? 0 : gyre_rng_below(&rng, length));
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 20000, make_case);
}

#endif
