/* Tuning files: what is written is read again, and everything else is refused with the line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/algorithms/table.h"
#include "collectives/choose/fit.h"
#include "collectives/choose/tuning.h"
#include "rig/file_room.h"
#include "rig/test.h"

static uint32_t kinds; /* of the last text that was read */

static int parse(const char *text, struct gyre_tuning *tuning, struct gyre_trouble *trouble)
{
    *trouble = (struct gyre_trouble){0};
    return gyre_tuning_parse("here", text, tuning, &kinds, trouble);
}

/* Every value of its own. */
static struct gyre_tuning sample(void)
{
    struct gyre_tuning tuning;
    uint64_t next = 3;
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++, next += 4)
        tuning.link[kind] = (struct gyre_price){next, next + 1, next + 2, next + 3};
    tuning.incast_kib_ps = next++;
    tuning.burst_bytes = next++;
    tuning.line_kib_ps = next++;
    tuning.shared_kib_ps = next++;
    tuning.own_cache_kib = next++;
    tuning.memory_kib_ps = next++;
    tuning.shared_cache_kib = next++;
    tuning.fold_kib_ps = next++;
    tuning.crowd = next++;
    tuning.window_kib = next++;
    tuning.spill_percent = next++;
    return tuning;
}

static void what_is_written_is_read(void **state)
{
    struct gyre_tuning written = sample(), read;
    struct gyre_trouble trouble;
    char text[2048] = "# a comment\n\n";
    gyre_tuning_format(text + strlen(text), sizeof text - strlen(text), &written, ~0u);
    assert_int_equal(parse(text, &read, &trouble), 0);
    assert_memory_equal(&read, &written, sizeof read);
    assert_int_equal(gyre_tuning_hash(&read), gyre_tuning_hash(&written));
}

/* Kinds that were not measured are not written, and keep the built-in prices. */
static void what_is_missing_keeps_its_value(void **state)
{
    struct gyre_tuning written = sample(), read;
    struct gyre_trouble trouble;
    char text[2048];
    gyre_tuning_format(text, sizeof text, &written, 1u << GYRE_LINK_SHM);
    assert_null(strstr(text, "loopback"));
    assert_int_equal(parse(text, &read, &trouble), 0);
    assert_int_equal(kinds, 1u << GYRE_LINK_SHM);
    assert_memory_equal(&read.link[GYRE_LINK_SHM], &written.link[GYRE_LINK_SHM],
                        sizeof(struct gyre_price));
    assert_memory_equal(&read.link[GYRE_LINK_LOOPBACK],
                        &gyre_tuning_built_in.link[GYRE_LINK_LOOPBACK], sizeof(struct gyre_price));
    assert_int_not_equal(gyre_tuning_hash(&read), gyre_tuning_hash(&gyre_tuning_built_in));
}

static uint32_t differences(const struct gyre_tuning *a, const struct gyre_tuning *b)
{
    const uint64_t *x = (const uint64_t *)(const void *)a, *y = (const uint64_t *)(const void *)b;
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        count += x[i] != y[i];
    return count;
}

/* What is taken of the kinds is all of them but the plain values, and nothing else. */
static void values_are_taken_by_their_kinds(void **state)
{
    struct gyre_tuning from = sample(), to = gyre_tuning_built_in;
    const uint32_t all = sizeof to / sizeof(uint64_t);
    gyre_tuning_take(&to, &from, 0);
    assert_memory_equal(&to, &gyre_tuning_built_in, sizeof to);
    gyre_tuning_take(&to, &from, 1u << GYRE_LINK_MAPPED);
    assert_int_equal(differences(&to, &gyre_tuning_built_in), 9);
    assert_int_equal(to.shared_cache_kib, from.shared_cache_kib);
    gyre_tuning_take(&to, &from, (1u << GYRE_LINK_KINDS) - 1);
    assert_int_equal(differences(&to, &from), 4);
    assert_int_equal(differences(&to, &gyre_tuning_built_in), all - 4);
    assert_int_equal(to.fold_kib_ps, gyre_tuning_built_in.fold_kib_ps);
}

/* Each value counts in the hash, and where it stands. */
static void one_value_changes_the_hash(void **state)
{
    struct gyre_tuning base = sample();
    uint64_t *value = (uint64_t *)(void *)&base, before = gyre_tuning_hash(&base);
    for (size_t i = 0; i < sizeof base / sizeof *value; i++) {
        value[i] ^= 1;
        assert_int_not_equal(gyre_tuning_hash(&base), before);
        value[i] ^= 1;
    }
    uint64_t first = value[0];
    value[0] = value[1];
    value[1] = first;
    assert_int_not_equal(gyre_tuning_hash(&base), before);
}

/* Cut behind any byte but the last newline, it is no tuning any more. */
static void a_file_cut_short_is_noticed(void **state)
{
    struct gyre_tuning written = sample(), read;
    struct gyre_trouble trouble;
    char text[2048];
    int length = gyre_tuning_format(text, sizeof text, &written, ~0u);
    assert_true((size_t)length < sizeof text);
    for (int cut = 0; cut < length - 1; cut++) {
        char part[2048];
        memcpy(part, text, (size_t)cut);
        part[cut] = '\0';
        assert_int_equal(parse(part, &read, &trouble), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "here, line "));
    }
}

static void wrong_lines_are_told(void **state)
{
    static const char *const wrong[][2] = {
        {"", "here, line 0: no \"gyre-tuning 1\" in it"},
        {"crowd 3\nvalues 1\n", "line 1: \"crowd\" where \"gyre-tuning 1\" is expected"},
        {"gyre-tuning 2\n", "version \"2\" of the format is unknown"},
        {"gyre-tuning 1\n# x\ncrowed 3\n",
         "line 3: unknown key \"crowed\" (did you mean \"crowd\"?)"},
        {"gyre-tuning 1\nsomething_else 3\n", "unknown key \"something_else\""},
        {"gyre-tuning 1\ncrowd 0\n", "crowd is \"0\": expected a whole number from 1 to 1000000"},
        {"gyre-tuning 1\ncrowd -1\n", "crowd is \"-1\""},
        {"gyre-tuning 1\ncrowd 3x\n", "crowd is \"3x\""},
        {"gyre-tuning 1\nshm.kib_ps 99999999999999999999\n", "shm.kib_ps is \"9999"},
        {"gyre-tuning 1\ncrowd\n", "\"crowd\": expected a key and a number"},
        {"gyre-tuning 1\ncrowd 3 4\n", "\"crowd 3 4\": expected a key and a number"},
        {"gyre-tuning 1\ncrowd 3\ncrowd 3\n", "line 3: crowd is there twice"},
        {"gyre-tuning 1\ncrowd 3\n", "ends without \"values\""},
        {"gyre-tuning 1\ncrowd 3\nvalues 2\n", "values says 2, but 1 were read"},
        {"gyre-tuning 1\nvalues 0\ncrowd 3\n", "\"crowd\" behind the end"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gyre_tuning tuning = sample(), before = tuning;
        struct gyre_trouble trouble;
        assert_int_equal(parse(wrong[i][0], &tuning, &trouble), GYRE_INVALID);
        if (!strstr(trouble.text, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], trouble.text);
        assert_memory_equal(&tuning, &before, sizeof tuning);
    }
}

static void files_that_cannot_be_read_are_told(void **state)
{
    struct gyre_tuning tuning;
    struct gyre_trouble trouble = {0}, zero = {0}, fifo = {0};
    assert_true(gyre_tuning_read("/nowhere/at/all", &tuning, NULL, &trouble) < 0);
    assert_non_null(
        strstr(trouble.text, "tuning file /nowhere/at/all: cannot open it: No such file"));
    assert_int_equal(mkfifo(file_room_name("fifo"), 0600), 0);
    assert_int_equal(gyre_tuning_read(file_room_name("fifo"), &tuning, NULL, &fifo), GYRE_INVALID);
    assert_non_null(strstr(fifo.text, "fifo: is not a regular file"));
    assert_int_equal(gyre_tuning_read("/dev/zero", &tuning, NULL, &zero), GYRE_INVALID);
    assert_non_null(strstr(zero.text, "is not a regular file; `gyre tune` writes one"));
}

/* -- the fit ----------------------------------------------------------------------------------- */

/* What three algorithms would take at four sizes with these prices. */
static uint32_t take(struct gyre_trial *trial, uint32_t n, enum gyre_link_kind kind,
                     const struct gyre_tuning *truth)
{
    static const char *const names[] = {"doubling", "direct", "ring"};
    struct gyre_link_kinds link_kinds = {kind, kind, truth};
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    uint32_t trials = 0;
    for (int a = 0; a < 3; a++)
        for (uint64_t count = 2; count <= 1 << 16; count *= 32) {
            struct gyre_slice slice = {.n = n, .element = 4, .count = count, .small = 1};
            const struct gyre_algorithm *algorithm = gyre_algorithm_find(names[a]);
            assert_int_equal(
                gyre_cost_slice(algorithm, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &cost), 0);
            trial[trials++] =
                (struct gyre_trial){algorithm, slice, kind, kind, (double)cost.path / 1000};
        }
    gyre_walk_deinit(&walk);
    return trials;
}

static void take_one(struct gyre_trial *trial, uint32_t n, enum gyre_link_kind kind, uint64_t bytes,
                     const struct gyre_tuning *truth)
{
    struct gyre_link_kinds link_kinds = {kind, kind, truth};
    struct gyre_slice slice = {.n = n, .element = 4, .count = bytes / 4, .small = 4096};
    const struct gyre_algorithm *direct = gyre_algorithm_find("direct");
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    assert_int_equal(gyre_cost_slice(direct, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &cost),
                     0);
    *trial = (struct gyre_trial){direct, slice, kind, kind, (double)cost.path / 1000};
    gyre_walk_deinit(&walk);
}

static void assert_near(uint64_t found, uint64_t right)
{
    if (found > right + right / 10 || found < right - right / 10)
        fail_msg("%llu is not near %llu", (unsigned long long)found, (unsigned long long)right);
}

/* Prices that nobody was told come out of the times. */
static void prices_are_found_again(void **state)
{
    for (uint32_t n = 4; n <= 16; n *= 2) {
        struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
        struct gyre_price *right = &truth.link[GYRE_LINK_LOOPBACK];
        struct gyre_trial trial[16];
        uint32_t priced;
        *right = (struct gyre_price){30000, 2500, 11000, 900000};
        truth.fold_kib_ps = 150000;
        uint32_t trials = take(trial, n, GYRE_LINK_LOOPBACK, &truth);
        assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 1);
        assert_int_equal(priced, 1u << GYRE_LINK_LOOPBACK);
        assert_near(found.link[GYRE_LINK_LOOPBACK].latency_ns, right->latency_ns);
        assert_near(found.link[GYRE_LINK_LOOPBACK].message_ns, right->message_ns);
        assert_near(found.link[GYRE_LINK_LOOPBACK].grant_ns, right->grant_ns);
        assert_near(found.link[GYRE_LINK_LOOPBACK].kib_ps, right->kib_ps);
        assert_near(found.fold_kib_ps, truth.fold_kib_ps);
        assert_memory_equal(&found.link[GYRE_LINK_SHM], &gyre_tuning_built_in.link[GYRE_LINK_SHM],
                            sizeof(struct gyre_price));
    }
}

/* Between machines folds keep their price. What they take is not the network's; one that is wrong
 * by half moves the network's by little. */
static void folds_are_not_fitted_to_the_network(void **state)
{
    for (uint32_t n = 2; n <= 8; n *= 2) {
        struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
        struct gyre_price *right = &truth.link[GYRE_LINK_NETWORK];
        struct gyre_trial trial[16];
        uint32_t priced;
        *right = (struct gyre_price){30000, 2500, 30000, 9000000};
        truth.fold_kib_ps += truth.fold_kib_ps / 2;
        uint32_t trials = take(trial, n, GYRE_LINK_NETWORK, &truth);
        gyre_fit(trial, trials, &found, &priced);
        assert_int_equal(priced, 1u << GYRE_LINK_NETWORK);
        assert_int_equal(found.fold_kib_ps, gyre_tuning_built_in.fold_kib_ps);
        assert_near(found.link[GYRE_LINK_NETWORK].kib_ps, right->kib_ps);
    }
}

/* Of direct, which hears all ranks at once, and ring, which hears one. */
static void an_incast_is_found_again(void **state)
{
    for (uint32_t n = 4; n <= 8; n *= 2) {
        struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
        struct gyre_price *right = &truth.link[GYRE_LINK_NETWORK];
        struct gyre_trial trial[16];
        uint32_t priced;
        *right = (struct gyre_price){30000, 2500, 30000, 9000000};
        truth.incast_kib_ps = 3000000;
        uint32_t trials = take(trial, n, GYRE_LINK_NETWORK, &truth);
        assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 1);
        assert_near(found.incast_kib_ps, truth.incast_kib_ps);
        assert_near(found.link[GYRE_LINK_NETWORK].kib_ps, right->kib_ps);
        assert_int_equal(found.burst_bytes, 0);
    }
}

/* A shaper: what a pause saved hides the latency of the next round. */
static void a_burst_is_found_again(void **state)
{
    for (uint32_t n = 2; n <= 8; n *= 2) {
        struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
        struct gyre_price *right = &truth.link[GYRE_LINK_NETWORK];
        struct gyre_trial trial[16];
        uint32_t priced;
        *right = (struct gyre_price){30000, 2500, 30000, 9000000};
        truth.burst_bytes = 32768;
        uint32_t trials = take(trial, n, GYRE_LINK_NETWORK, &truth);
        assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 2);
        assert_near(found.link[GYRE_LINK_NETWORK].kib_ps, right->kib_ps);
        assert_in_range(found.burst_bytes, 4096, 1 << 20);
    }
}

/* Mapped memory: what lines cost, what PUSH tells, and two caches with a price beyond each. */
static void caches_are_found_again(void **state)
{
    static const uint64_t sizes[] = {64,     1536,   3072,    4160,     12288,   98304,
                                     262144, 786432, 3 << 20, 10 << 20, 32 << 20};
    struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
    const struct gyre_price *right = &truth.link[GYRE_LINK_MAPPED];
    struct gyre_trial trial[16];
    uint32_t priced, trials = 0;
    truth.link[GYRE_LINK_MAPPED] = (struct gyre_price){100, 50, 700, 17000};
    truth.line_kib_ps = 220000;
    truth.shared_kib_ps = 20000;
    truth.own_cache_kib = 2048;
    truth.memory_kib_ps = 90000;
    truth.shared_cache_kib = 32768;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        take_one(&trial[trials++], 2, GYRE_LINK_MAPPED, sizes[i], &truth);
    assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 1);
    assert_int_equal(priced, 1u << GYRE_LINK_MAPPED);
    assert_near(found.link[GYRE_LINK_MAPPED].latency_ns + found.link[GYRE_LINK_MAPPED].message_ns,
                right->latency_ns + right->message_ns);
    assert_near(found.link[GYRE_LINK_MAPPED].grant_ns, right->grant_ns);
    assert_near(found.link[GYRE_LINK_MAPPED].kib_ps, right->kib_ps);
    assert_near(found.line_kib_ps, truth.line_kib_ps);
    assert_near(found.shared_kib_ps, truth.shared_kib_ps);
    assert_int_equal(found.own_cache_kib, truth.own_cache_kib);
    assert_near(found.memory_kib_ps, truth.memory_kib_ps);
    assert_int_equal(found.shared_cache_kib, truth.shared_cache_kib);
}

/* Loopback: a cache, and what is beyond. Without long trials there is no telling, and no spill. */
static void a_spill_is_found_again(void **state)
{
    static const uint64_t sizes[] = {24, 4096, 32768, 262144, 2 << 20, 3 << 20, 10 << 20, 32 << 20};
    for (uint32_t n = 2; n <= 4; n += 2) {
        struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
        struct gyre_trial trial[8];
        uint32_t priced, trials = 0;
        truth.link[GYRE_LINK_LOOPBACK] = (struct gyre_price){2000, 6000, 11000, 160000};
        truth.window_kib = 12 << 10;
        truth.spill_percent = 60;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            take_one(&trial[trials++], n, GYRE_LINK_LOOPBACK, sizes[i], &truth);
        assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 1);
        assert_int_equal(found.window_kib, truth.window_kib);
        assert_int_equal(found.spill_percent, truth.spill_percent);
        gyre_fit(trial, 4, &found, &priced);
        assert_int_equal(found.spill_percent, 0);
    }
}

/* Two ranks cannot tell latency from message; their sum is found, and nothing goes below 0. */
static void what_cannot_be_told_apart_is_shared(void **state)
{
    struct gyre_tuning truth = gyre_tuning_built_in, found = gyre_tuning_built_in;
    struct gyre_price *right = &truth.link[GYRE_LINK_LOOPBACK],
                      *fit = &found.link[GYRE_LINK_LOOPBACK];
    struct gyre_trial trial[16];
    uint32_t priced;
    *right = (struct gyre_price){40000, 50000, 5000, 340000};
    uint32_t trials = take(trial, 2, GYRE_LINK_LOOPBACK, &truth);
    assert_in_range(gyre_fit(trial, trials, &found, &priced), 0, 2);
    assert_near(fit->latency_ns + fit->message_ns, 90000);
    for (uint32_t t = 0; t < trials; t++)
        trial[t].took_ns = 1; /* nonsense: faster than any byte */
    gyre_fit(trial, trials, &found, &priced);
    assert_in_range(fit->kib_ps, 1, 340000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_missing_keeps_its_value),
        cmocka_unit_test(values_are_taken_by_their_kinds),
        cmocka_unit_test(one_value_changes_the_hash),
        cmocka_unit_test(a_file_cut_short_is_noticed),
        cmocka_unit_test(wrong_lines_are_told),
        cmocka_unit_test(prices_are_found_again),
        cmocka_unit_test(folds_are_not_fitted_to_the_network),
        cmocka_unit_test(an_incast_is_found_again),
        cmocka_unit_test(a_burst_is_found_again),
        cmocka_unit_test(caches_are_found_again),
        cmocka_unit_test(a_spill_is_found_again),
        cmocka_unit_test(what_cannot_be_told_apart_is_shared),
        cmocka_unit_test(files_that_cannot_be_read_are_told),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
