/* The verbs driver with several queue pairs to a peer, one of which is slow now and then, or
 * breaks: whatever was accepted comes, once, as it was sent. Two wires in this process, on the
 * stand-in for the library.
 *
 * Chance, from seeds (a third of them under sanitizers), decides on sizes, on when slow devices go
 * on and on when one breaks. */
#include "rig/haste.h"
#include "unit/transport/link/verbs/verbs_ends.h"

#include "base/rng.h"
#include "rig/test.h"

#include <string.h>

/* -- chance ------------------------------------------------------------------------------------ */

static uint64_t length_of(uint64_t seed, int end, uint32_t number)
{
    static const uint64_t some[] = {8,     200,  4096,         5000,     4096,
                                    20000, PART, 2 * PART + 5, 3 * PART, MOST};
    uint64_t chance = gyre_mix64(seed << 20 | (uint64_t)end << 19 | number);
    uint64_t length = some[chance % COUNT(some)];
    return length == 4096 ? length : length - chance / 64 % 5; /* headers that do not travel, too */
}

static bool is_over(const struct ends *ends, uint32_t number)
{
    return ends->sent[0][number] != NEVER && ends->sent[1][number] != NEVER &&
           ends->got[0][number] != NEVER && ends->got[1][number] != NEVER;
}

struct play {
    struct ends *ends;
    uint64_t seed, chance;
    uint32_t posted, over; /* messages, each both ways; the posted ones that have ended */
};

/* Here the sends go first, there the receives. */
static void post_both(struct play *play)
{
    bool receives = play->chance >> 16 & 1;
    for (int k = 0; k < 2; k++, receives = !receives)
        for (int end = 0; end < 2; end++)
            if (receives)
                ends_recv(play->ends, end, play->posted, length_of(play->seed, !end, play->posted));
            else
                ends_send(play->ends, end, play->posted, length_of(play->seed, end, play->posted));
    play->posted++;
}

static void check_what_is_over(struct play *play)
{
    const struct ends *ends = play->ends;
    for (; play->over < play->posted && is_over(ends, play->over); play->over++)
        for (int end = 0; end < 2; end++) {
            uint32_t number = play->over;
            if (ends->got[end][number] || ends->sent[end][number])
                fail_msg("seed %llu, message %u: %d, %d (%s)", (unsigned long long)play->seed,
                         number, ends->sent[end][number], ends->got[end][number],
                         ends_inside(ends, end)->end.trouble.text);
            ends_brought(end, number, length_of(play->seed, !end, number));
        }
}

static void one_turn(struct play *play)
{
    play->chance = gyre_mix64(play->chance);
    fake_verbs.slow[play->chance >> 8 & 3] = play->chance & 1;
    if (play->posted < MESSAGES && play->posted - play->over < PLACES)
        post_both(play);
    ends_look(play->ends);
    fake_verbs_hurry((int)(play->chance >> 20 & 7));
    check_what_is_over(play);
}

/* Both directions at once, devices that are slow now and then; `breaks`: one dies at some point,
 * and TCP goes on. */
static void play_all(const char *device, const char *queues, uint64_t seed, bool breaks)
{
    ends_devices();
    struct play play = {
        .ends = ends_new(device, device, queues, breaks), .seed = seed, .chance = gyre_mix64(seed)};
    uint32_t doom = breaks ? (uint32_t)(play.chance >> 8) % (MESSAGES / 2) : MESSAGES;
    for (int turn = 0; turn < TURNS_MOST && play.over < MESSAGES; turn++) {
        if (play.over >= doom)
            fake_verbs.dead[seed % ends_inside(play.ends, 0)->ways] = true;
        one_turn(&play);
    }
    if (play.over != MESSAGES)
        fail_msg("seed %llu: %u of %u messages", (unsigned long long)seed, play.over, MESSAGES);
    assert_int_equal(ends_inside(play.ends, 0)->fallback.state,
                     breaks ? GYRE_VERBS_ON_FALLBACK : GYRE_VERBS_DIRECT);
    ends_free(play.ends);
}

static void all_comes_over_uneven_devices(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (in_haste() ? 2 : 6); seed++) {
        play_all("a+b", "1", seed, false);
        play_all("a+b+c", "1", seed + 100, false);
        play_all("a", "2", seed + 200, false);
    }
}

static void all_comes_though_a_device_breaks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (in_haste() ? 4 : 12); seed++) {
        play_all("a+b", "1", seed, true);
        play_all("a+b+c", "1", seed + 100, true);
    }
    play_all("a", "1", 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_comes_over_uneven_devices),
        cmocka_unit_test(all_comes_though_a_device_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
