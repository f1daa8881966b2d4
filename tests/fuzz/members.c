/* Statements of members against their decoder and against the agreement of one member. The input is
 * a script of one-byte orders with arguments: time passes, members are dialed, call, answer, hang
 * up, refuse, send views, or send raw bytes.
 *
 * What is checked beside memory safety: what is decoded can be encoded to the same bytes; an
 * outcome never changes again, nor the view that came with it; epochs grow; a view that this member
 * writes has those in it that have called, and itself. */
#include "fuzz/fuzz.h"

#include "transport/members/record.h"

#include <string.h>

enum { SEATS = 6 };

struct play {
    const uint8_t *at, *end;
    struct gyre_membership *agreement;
    uint64_t now;
    uint32_t seat, epoch;
    bool leaving;
    enum gyre_membership_outcome outcome;
    uint8_t view[SEATS]; /* as it was when the outcome came */
    bool called[SEATS];  /* to take part, and has not hung up since */
};

static uint8_t next(struct play *play)
{
    return play->at < play->end ? *play->at++ : 0;
}

static uint32_t some_seat(struct play *play)
{
    return (play->seat + 1 + next(play) % (SEATS - 1)) % SEATS;
}

/* -- statements -------------------------------------------------------------------------------- */

/* Bytes of a statement, mostly of a right one. */
static size_t some_bytes(struct play *play, uint8_t bytes[64])
{
    uint8_t pick = next(play), standing[SEATS];
    struct gyre_statement said = {.epoch = 1 + next(play) % 4,
                                  .coordinator = next(play) % (SEATS + 1),
                                  .leaving = pick % 8 == 1,
                                  .standing = standing};
    said.seen = said.epoch + next(play) % 3;
    for (int seat = 0; seat < SEATS; seat++)
        standing[seat] = next(play) % 4 ? GYRE_STANDS : next(play) % GYRE_STANDINGS;
    size_t length = gyre_statement_encode(&said, SEATS, bytes);
    if (pick % 16 == 15)
        bytes[next(play) % length] = next(play);
    return pick == 255 ? next(play) % 64 : length;
}

/* Decodes from memory of exactly that size: a sanitizer sees one byte beyond. The caller frees it.
 */
static uint8_t *hear(struct play *play, struct gyre_statement *heard)
{
    uint8_t bytes[64] = {0}, again[64];
    size_t length = some_bytes(play, bytes);
    uint8_t *exact = malloc(length ? length : 1);
    if (!exact)
        return NULL;
    memcpy(exact, bytes, length);
    const struct gyre_record record = {.payload = exact, .length = length};
    if (gyre_statement_decode(&record, SEATS, heard)) {
        free(exact);
        return NULL;
    }
    REQUIRE(length == gyre_statement_bytes(SEATS) && heard->seen >= heard->epoch);
    REQUIRE(gyre_statement_encode(heard, SEATS, again) == length);
    REQUIRE(!memcmp(again, exact, 8) && !memcmp(again + 13, exact + 13, SEATS));
    return exact;
}

static void tell(struct play *play, uint8_t order)
{
    struct gyre_statement heard;
    uint32_t from = some_seat(play);
    uint8_t *bytes = hear(play, &heard);
    if (!bytes)
        return;
    if (order % 3 == 0) {
        gyre_membership_called(play->agreement, play->now, from, &heard);
        play->called[from] = !heard.leaving;
    } else if (order % 3 == 1) {
        gyre_membership_answered(play->agreement, play->now, from, &heard);
    } else {
        gyre_membership_view_came(play->agreement, play->now, from, &heard);
    }
    free(bytes);
}

/* -- what the agreement says ------------------------------------------------------------------- */

static void check_view(struct play *play, const struct gyre_statement *is)
{
    REQUIRE(is->epoch == is->seen);
    if (play->outcome != GYRE_MEMBERSHIP_DECIDED)
        return;
    REQUIRE(!play->leaving && is->standing[play->seat] == GYRE_STANDS);
    for (uint32_t seat = 0; seat < SEATS; seat++)
        REQUIRE(seat == play->seat || is->standing[seat] != GYRE_STANDS || play->called[seat]);
}

static void check_agreement(struct play *play)
{
    const struct gyre_statement is = gyre_membership_statement(play->agreement);
    const enum gyre_membership_outcome outcome = gyre_membership_outcome(play->agreement);
    REQUIRE(is.epoch >= play->epoch && is.seen >= is.epoch && is.coordinator < SEATS);
    REQUIRE(gyre_membership_target(play->agreement) <= SEATS);
    play->epoch = is.epoch;
    if (play->outcome != GYRE_MEMBERSHIP_OPEN) {
        REQUIRE(outcome == play->outcome && !memcmp(play->view, is.standing, SEATS));
        return;
    }
    play->outcome = outcome;
    memcpy(play->view, is.standing, SEATS);
    if (outcome == GYRE_MEMBERSHIP_DECIDED || (outcome == GYRE_MEMBERSHIP_TOLD && !play->leaving))
        check_view(play, &is);
}

static void obey(struct play *play)
{
    uint8_t order = next(play);
    uint32_t seat = some_seat(play);
    switch (order % 8) {
    case 0:
    case 1:
    case 2:
        tell(play, order);
        break;
    case 3:
        if (gyre_membership_looks_for(play->agreement, seat))
            gyre_membership_looks(play->agreement, play->now, seat);
        break;
    case 4:
        play->now += (uint64_t)next(play) * 5000000;
        break;
    case 5:
        gyre_membership_refused(play->agreement, play->now, seat);
        break;
    case 6:
        gyre_membership_hung_up(play->agreement, play->now, seat);
        play->called[seat] = false;
        break;
    default:
        if (order == 7)
            gyre_membership_cut_off(play->agreement, seat);
        else
            gyre_membership_hears(play->agreement, play->now, seat);
    }
    gyre_membership_tick(play->agreement, play->now);
    check_agreement(play);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t standing[SEATS];
    static const bool suspected[SEATS] = {[1] = true};
    if (size < 1)
        return 0;
    struct play play = {.at = data + 1,
                        .end = data + size,
                        .now = 1000000000,
                        .seat = data[0] % SEATS,
                        .leaving = data[0] & 128};
    const struct gyre_membership_options options = {.n = SEATS,
                                                    .seat = play.seat,
                                                    .epoch = 1,
                                                    .seen = 1,
                                                    .standing = standing,
                                                    .suspected = suspected,
                                                    .leaving = play.leaving,
                                                    .dead_ns = 1000000000,
                                                    .suspect_ns = 250000000,
                                                    .limit_ns = UINT64_C(20000000000)};
    REQUIRE(!gyre_membership_create(&options, play.now, &play.agreement));
    while (play.at < play.end)
        obey(&play);
    gyre_membership_destroy(play.agreement);
    return 0;
}

#ifndef GYRE_LIBFUZZER

static size_t make_case(uint64_t seed, uint8_t *data)
{
    return fuzz_random_bytes(seed, 1, 601, data);
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 20000, make_case);
}

#endif
