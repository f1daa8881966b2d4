/* Every reduction kernel against the scalar reference (which unit/collectives/kernels/reduce_test
 * holds against results worked out by hand), and how fast each of them is.
 *
 * For each set of variants that this CPU can run, and each type and reduction: trials of
 * reduce_trial.c over small and large counts, every pair of misalignments, every number of sources
 * and destinations, in place or not, and in a caller's strange floating-point modes. In haste a
 * third of the trials of each count, a fifth of the pairs (which has every single misalignment).
 *
 * `kernel/reduce --device cuda` does the same, but for the modes, with the folds and the memory of
 * a device; then come counts around its grids, sums of multiples, and casts.
 *
 * `kernel/reduce --bench` times the calls instead, `kernel/reduce --device cuda --bench` the
 * device's. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce_cuda.h"
#include "rig/haste.h"
#include "kernel/reduce_device.h"
#include "rig/test.h"

#include <stdio.h>
#include <string.h>

/* How many processors the device may have, and the most packs of 16 bytes that a grid folds at once
 * on each: 4 blocks of 256 threads with 4 packs (collectives/kernels/reduce_cuda.cu). */
#ifndef PROCESSORS
#define PROCESSORS                                                                                 \
    {                                                                                              \
        108, 132, 148                                                                              \
    }
#define PROCESSORS_MOST 148
#endif
#define PACKS_PER_PROCESSOR UINT64_C(4096)
#define GRID_SPAN_BYTES     (3 * PROCESSORS_MOST * PACKS_PER_PROCESSOR * 16)

static struct gyre_reduce_table reference;
static bool on_device;

static void run_variant(const struct trial *trial, gyre_fold fold)
{
    if (on_device)
        run_trial_on_device(trial, fold);
    else
        run_trial(arena_of_variant, trial, fold);
}

static void check_trial(const struct trial *trial, const struct gyre_reduce_table *table)
{
    fill_arena(trial);
    run_trial(arena_of_reference, trial, reference.fold[trial->type][trial->op]);
    run_variant(trial, table->fold[trial->type][trial->op]);
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

/* Calls `check` for every supported variant but the reference itself, or for the device's. */
static void for_each_variant(void (*check)(const struct gyre_reduce_table *table, int type, int op))
{
    if (on_device) {
        for_each_fold(reduce_device_table(), check);
        return;
    }
    for (int v = 1; gyre_reduce_variants[v].name; v++) {
        if (!gyre_reduce_variants[v].supported())
            continue; /* counted by test_no_set_is_left_out() */
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

/* -- devices ----------------------------------------------------------------------------------- */

/* Counts just below and above what one step of a grid folds, and several steps with a rest. Folds
 * whose threads hold fewer packs at once only take more steps. */
static void check_grids(const struct gyre_reduce_table *table, int type, int op)
{
    static const uint64_t processors[] = PROCESSORS;
    uint64_t lanes = 16 / gyre_type_size((enum gyre_type)type);
    for (size_t p = 0; p < sizeof processors / sizeof processors[0]; p++) {
        uint64_t grid = processors[p] * PACKS_PER_PROCESSOR * lanes;
        const uint64_t counts[] = {grid - 1, grid + 1, 2 * grid + 5 * lanes + 1};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct trial trial = {.type = type, .op = op, .count = counts[i], .seed = counts[i]};
            trial.sources = 2 + (i & 1);
            trial.destinations = 1 + (i & 1);
            trial.in_place = (int)i - 1;
            for (int s = 0; s < SPANS; s++)
                trial.shift[s] = i == 0 ? 0 : 16 / (unsigned)lanes % 16;
            check_trial(&trial, table);
        }
    }
}

/* A misaligned task of a whole grid: all of its elements are edges. */
static void check_large_misaligned(const struct gyre_reduce_table *table, int type, int op)
{
    struct trial trial = {.type = type, .op = op, .sources = 2, .destinations = 1, .in_place = -1};
    trial.count = PACKS_PER_PROCESSOR + 77;
    for (unsigned shift = 0; shift < 2; shift++) {
        trial.seed = shift;
        trial.shift[1] = shift ? 1 : 8;
        check_trial(&trial, table);
    }
}

/* Two folds on a trial: the host's and the device's. */
static void check_pair(const struct trial *trial, gyre_fold host, gyre_fold device,
                       const char *what)
{
    fill_arena(trial);
    run_trial(arena_of_reference, trial, host);
    run_variant(trial, device);
    compare_arenas(trial, what);
}

static void check_scale(struct trial *trial)
{
    enum gyre_type type = (enum gyre_type)trial->type;
    draw_numbers(trial);
    check_pair(trial, gyre_scale(type), gyre_scale_cuda(type), "cuda's multiples of");
}

/* One source and one destination, as gyre_op_scaled() has them; then any number of either. */
static void test_scales(void **state)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 300);
    assert_null(gyre_scale_cuda((enum gyre_type)GYRE_TYPE_COUNT));
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (uint64_t count = 0; count < 2000; count += 1 + count / 8)
            for (int repeat = 0; repeat < (in_haste() ? 4 : 16); repeat++) {
                struct trial trial = random_trial(&rng, type, GYRE_SUM, count);
                if (repeat % 2)
                    trial.sources = trial.destinations = 1;
                trial.in_place = trial.in_place > 0 ? 0 : trial.in_place;
                check_scale(&trial);
            }
}

static const enum gyre_type casts[][2] = {
    {GYRE_F32, GYRE_BF16}, {GYRE_BF16, GYRE_F32}, {GYRE_F32, GYRE_F16}, {GYRE_F16, GYRE_F32}};

static void check_cast(struct trial *trial, const enum gyre_type cast[2])
{
    trial->casts = true;
    trial->type = cast[0];
    trial->into = cast[1];
    trial->in_place = -1;
    check_pair(trial, gyre_cast(cast[0], cast[1]), gyre_cast_cuda(cast[0], cast[1]),
               "cuda's cast of");
}

/* So that as many elements of either type lie in front of a multiple of 16. */
static void align_cast(struct trial *trial, const enum gyre_type cast[2], unsigned head)
{
    for (int s = 0; s < SPANS; s++) {
        unsigned size = (unsigned)gyre_type_size(cast[s >= SOURCES_MOST]);
        trial->shift[s] = (16 - head * size % 16) % 16;
    }
}

/* Averages, since they have a divisor, or none. Of four trials one has packs behind some elements.
 * */
static void test_casts(void **state)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 400);
    assert_null(gyre_cast(GYRE_F32, GYRE_F64));
    assert_null(gyre_cast_cuda(GYRE_F32, GYRE_F64));
    for (size_t c = 0; c < sizeof casts / sizeof casts[0]; c++)
        for (uint64_t count = 0; count < COUNT_MOST; count += 1 + count / 8)
            for (unsigned repeat = 0; repeat < (in_haste() ? 8 : 32); repeat++) {
                struct trial trial = random_trial(&rng, casts[c][0], GYRE_AVG, count);
                if (repeat % 4 == 0)
                    align_cast(&trial, casts[c], (repeat / 4 + (unsigned)count) % 8);
                check_cast(&trial, casts[c]);
            }
}

/* Around the counts at which a grid begins anew: packs of the wider type are twice as many. */
static void test_grids_of_casts(void **state)
{
    static const uint64_t processors[] = PROCESSORS;
    for (size_t c = 0; c < sizeof casts / sizeof casts[0]; c++)
        for (size_t p = 0; p < sizeof processors / sizeof processors[0]; p++) {
            uint64_t grid = processors[p] * PACKS_PER_PROCESSOR * 8;
            const uint64_t counts[] = {grid - 1, grid + 9};
            for (size_t i = 0; i < 2; i++) {
                struct trial trial = {.op = GYRE_SUM, .count = counts[i], .seed = counts[i]};
                trial.sources = 1 + (uint32_t)i;
                trial.destinations = 2 - (uint32_t)i;
                align_cast(&trial, casts[c], (unsigned)i * 3);
                check_cast(&trial, casts[c]);
            }
        }
}

static void test_grids(void **state)
{
    for_each_variant(check_grids);
    for_each_variant(check_large_misaligned);
}

static int check_device(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_counts), cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_misaligned),   cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_grids),        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_casts),        cmocka_unit_test(test_grids_of_casts),
    };
    struct gyre_trouble trouble = {0};
    if (!reduce_arenas_create(GRID_SPAN_BYTES))
        return 1;
    on_device = reduce_device_open(name, &trouble);
    int failed = on_device ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
    if (!on_device)
        printf("skipped: %s\n", trouble.text);
    reduce_device_close();
    reduce_arenas_destroy();
    return failed;
}

/* Counts the sets that the tests before could not run. */
static void test_no_set_is_left_out(void **state)
{
    int missing = 0;
    (void)state;
    for (int v = 1; gyre_reduce_variants[v].name; v++)
        if (!gyre_reduce_variants[v].supported()) {
            print_message("skipped: this CPU has no %s\n", gyre_reduce_variants[v].name);
            missing++;
        }
    if (missing)
        skip();
}

/* -- all --------------------------------------------------------------------------------------- */

int main(int count, char **arguments)
{
    reference = table_up_to(0);
    if (count > 1 && strcmp(arguments[1], "--bench") == 0)
        return reduce_bench();
    if (count > 3 && strcmp(arguments[1], "--device") == 0 && strcmp(arguments[3], "--bench") == 0)
        return reduce_bench_device();
    if (count > 2 && strcmp(arguments[1], "--device") == 0)
        return check_device(arguments[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_counts), cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_misaligned),   cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_strange_mode), cmocka_unit_test(test_no_set_is_left_out),
    };
    if (!reduce_arenas_create(COUNT_MOST * 8))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    reduce_arenas_destroy();
    return failed;
}
