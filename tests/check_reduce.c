/* Every reduction kernel against the scalar reference (which test_reduce holds against results
 * worked out by hand), and how fast each of them is.
 *
 * For each set of variants that this CPU can run, and each type and reduction: trials of
 * reduce_trial.c over small and large counts, every pair of misalignments, every number of sources
 * and destinations, in place or not, and in a caller's strange floating-point modes. In haste a
 * third of the trials of each count, a fifth of the pairs (which has every single misalignment).
 *
 * `check_reduce --bench` times the same calls instead. */
#include "collectives/kernels/float_mode.h"
#include "haste.h"
#include "reduce_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct gyre_reduce_table reference;

static void check_trial(const struct trial *trial, const struct gyre_reduce_table *table)
{
    fill_arena(trial);
    run_trial(arena_of_reference, trial, reference.fold[trial->type][trial->op]);
    run_trial(arena_of_variant, trial, table->fold[trial->type][trial->op]);
    compare_arenas(trial, table->variant[trial->type][trial->op]);
}

/* Calls `check` for every reduction of every type. */
static void for_each_fold(const struct gyre_reduce_table *table,
                          void (*check)(const struct gyre_reduce_table *table, int type, int op))
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            if (gyre_op_suits((enum gyre_type)type, (enum gyre_op)op))
                check(table, type, op);
}

/* Calls `check` for every supported variant but the reference itself. */
static void for_each_variant(void (*check)(const struct gyre_reduce_table *table, int type, int op))
{
    for (int v = 1; gyre_reduce_variants[v].name; v++) {
        if (!gyre_reduce_variants[v].supported()) {
            print_message("skipped: this CPU has no %s\n", gyre_reduce_variants[v].name);
            continue;
        }
        struct gyre_reduce_table table = table_up_to(v);
        for_each_fold(&table, check);
    }
}

/* -- checks of the variants -------------------------------------------------------------------- */

static void check_small_counts(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, (uint64_t)(type * 10 + op));
    for (uint64_t count = 0; count <= 67; count++) {
        for (int repeat = 0; repeat < (in_haste() ? 2 : 6); repeat++) {
            struct trial trial = random_trial(&rng, type, op, count);
            check_trial(&trial, table);
        }
    }
}

static void check_powers_of_two(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, (uint64_t)(100 + type * 10 + op));
    for (uint64_t power = 128; power < COUNT_MOST; power *= 2) {
        for (int repeat = 0; repeat < (in_haste() ? 3 : 6); repeat++) {
            struct trial trial = random_trial(&rng, type, op, power - 1 + (uint64_t)repeat % 3);
            check_trial(&trial, table);
        }
    }
}

/* Every pair of misalignments, of the sources and of the destinations; 150 is two vectors of bytes
 * and more, and several times four columns of the other types. */
static void check_misaligned(const struct gyre_reduce_table *table, int type, int op)
{
    for (unsigned pair = 0; pair < 256; pair += in_haste() ? 5 : 1) {
        struct trial trial = {.type = type, .op = op, .count = 150, .sources = 3};
        trial.destinations = 2;
        trial.in_place = -1;
        trial.stream = pair & 1;
        trial.seed = pair;
        for (int s = 0; s < SPANS; s++)
            trial.shift[s] = s < SOURCES_MOST ? pair / 16 : pair % 16;
        check_trial(&trial, table);
    }
}

/* Every number of sources with some number of destinations, and the other way round. */
static void check_every_shape(const struct gyre_reduce_table *table, int type, int op)
{
    for (unsigned shape = 0; shape < SOURCES_MOST + DESTINATIONS_MOST; shape++) {
        struct trial trial = {.type = type, .op = op, .count = 293, .seed = shape};
        trial.sources = shape < SOURCES_MOST ? 1 + shape : 2;
        trial.destinations = 1 + shape % DESTINATIONS_MOST;
        trial.in_place = -1;
        check_trial(&trial, table);
        trial.in_place = (int)(trial.seed % trial.sources);
        check_trial(&trial, table);
    }
}

static void test_small_counts(void **state)
{
    for_each_variant(check_small_counts);
}

static void test_powers_of_two(void **state)
{
    for_each_variant(check_powers_of_two);
}

static void test_misaligned(void **state)
{
    for_each_variant(check_misaligned);
}

static void test_every_shape(void **state)
{
    for_each_variant(check_every_shape);
}

/* -- the caller's floating-point modes --------------------------------------------------------- */

/* Upwards, and denormals flushed to zero. */
static gyre_float_mode strange_mode(void)
{
#if defined(__x86_64__)
    return GYRE_FLOAT_MODE_DEFAULT | 0x8000 | 0x4000 | 0x0040;
#elif defined(__aarch64__)
    return 1U << 22 | 1U << 24 | 1U << 19;
#else
    return GYRE_FLOAT_MODE_DEFAULT;
#endif
}

static void check_strange_mode(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_float_mode usual = gyre_float_mode_read();
    gyre_rng_seed(&rng, (uint64_t)(200 + type * 10 + op));
    for (int repeat = 0; repeat < 40; repeat++) {
        struct trial trial = random_trial(&rng, type, op, 1 + (uint64_t)repeat * 11);
        fill_arena(&trial);
        run_trial(arena_of_reference, &trial, reference.fold[type][op]);
        gyre_float_mode_write(strange_mode());
        gyre_float_mode strange = gyre_float_mode_read(); /* not every CPU has every bit */
        run_trial(arena_of_variant, &trial, table->fold[type][op]);
        gyre_float_mode after = gyre_float_mode_read();
        gyre_float_mode_write(usual);
        assert_int_equal(after & ~GYRE_FLOAT_MODE_STICKY, strange & ~GYRE_FLOAT_MODE_STICKY);
        compare_arenas(&trial, table->variant[type][op]);
    }
}

static void test_strange_mode(void **state)
{
    for_each_variant(check_strange_mode);
    for_each_fold(&reference, check_strange_mode);
}

/* -- all --------------------------------------------------------------------------------------- */

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "--bench") == 0)
        return reduce_bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_counts), cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_misaligned),   cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_strange_mode),
    };
    reference = table_up_to(0);
    if (!reduce_arenas_create(COUNT_MOST * 8))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    reduce_arenas_destroy();
    return failed;
}
