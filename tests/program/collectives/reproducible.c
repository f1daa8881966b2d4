/* GYRE_REPRODUCIBLE=1 with real processes: whatever the transport, the placement and the cut, the
 * bits are those of the left fold over ranks 0 … n-1 in the accumulator's type, rounded once. The
 * fold is computed here, without the library's kernels, on values for which order matters. */
#include "rig/clean_room.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 300007, OFFSET = 3, RANKS = 5 };

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* -- sixteen bits, and eight, done slowly ------------------------------------------------------ */

static uint16_t f16_of(float x)
{
    int exponent;
    double a = fabs((double)x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    frexp(a, &exponent);
    exponent = a == 0 || exponent - 1 < -14 ? -14 : exponent - 1;
    uint32_t units = (uint32_t)rint(ldexp(a, 10 - exponent));
    uint32_t bits = ((uint32_t)(exponent + 14) << 10) + units;
    return sign | (uint16_t)(bits > 0x7c00 ? 0x7c00 : bits);
}

static float of_f16(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double a = exponent ? ldexp(1024 + (h & 1023), exponent - 25) : ldexp(h & 1023, -24);
    return (float)(h & 0x8000 ? -a : a);
}

static uint16_t bf16_of(float x)
{
    uint32_t bits = bits_of(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Eight bits with so many of them of mantissa, and the smallest normal exponent; above `most` comes
 * `beyond`, which is infinity or NaN. */
struct eight {
    int mantissa, least;
    uint8_t most, beyond;
};

static const struct eight e4m3 = {3, -6, 0x7e, 0x7f}, e5m2 = {2, -14, 0x7b, 0x7c};

static uint8_t eight_of(const struct eight *format, float x)
{
    int exponent;
    double a = fabs((double)x);
    frexp(a, &exponent);
    exponent = a == 0 || exponent - 1 < format->least ? format->least : exponent - 1;
    uint32_t units = (uint32_t)rint(ldexp(a, format->mantissa - exponent));
    uint32_t bits = ((uint32_t)(exponent - format->least) << format->mantissa) + units;
    return (signbit(x) ? 0x80 : 0) | (uint8_t)(bits > format->most ? format->beyond : bits);
}

static float of_eight(const struct eight *format, uint8_t byte)
{
    int exponent = (byte & 0x7f) >> format->mantissa, one = 1 << format->mantissa;
    int units = byte & (one - 1);
    double a = exponent ? ldexp(one + units, exponent - 1 + format->least - format->mantissa)
                        : ldexp(units, format->least - format->mantissa);
    return (float)(byte & 0x80 ? -a : a);
}

/* -- values ------------------------------------------------------------------------------------ */

/* Magnitudes from 2^-5 to 2^6 with full mantissas and both signs: sums depend on their order. */
static float value(int rank, uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 1) * 0xd1b54a32d192ed03u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    uint32_t exponent = 122 + (uint32_t)(x >> 40) % 12;
    return float_of((uint32_t)(x & 0x807fffff) | exponent << 23);
}

static uint32_t stored(enum gyre_type type, float x)
{
    switch (type) {
    case GYRE_F32:
        return bits_of(x);
    case GYRE_F16:
        return f16_of(x);
    case GYRE_BF16:
        return bf16_of(x);
    default:
        return eight_of(type == GYRE_F8E4M3 ? &e4m3 : &e5m2, x);
    }
}

static float loaded(enum gyre_type type, uint32_t bits)
{
    switch (type) {
    case GYRE_F32:
        return float_of(bits);
    case GYRE_F16:
        return of_f16((uint16_t)bits);
    case GYRE_BF16:
        return float_of(bits << 16);
    default:
        return of_eight(type == GYRE_F8E4M3 ? &e4m3 : &e5m2, (uint8_t)bits);
    }
}

/* The element's bits; `backwards` goes from the other end. */
static uint32_t folded(enum gyre_type type, enum gyre_op op, int n, uint64_t i, bool backwards)
{
    int first = backwards ? n - 1 : 0, step = backwards ? -1 : 1;
    float result = loaded(type, stored(type, value(first, i)));
    for (int k = 1; k < n; k++) {
        float next = loaded(type, stored(type, value(first + k * step, i)));
        result = op == GYRE_PROD ? result * next : result + next;
    }
    return stored(type, op == GYRE_AVG ? result / (float)n : result);
}

/* -- tables ------------------------------------------------------------------------------------ */

/* An element's bits depend on neither the count nor the transport: they are computed once for each
 * number of ranks, before the ranks are forked. By type and by reduction as the bodies walk
 * them. */
enum { TYPES = 5, OPS = 3 };
static const enum gyre_type types[TYPES] = {GYRE_F32, GYRE_F16, GYRE_BF16, GYRE_F8E4M3,
                                            GYRE_F8E5M2};
static const enum gyre_op ops[OPS] = {GYRE_SUM, GYRE_AVG, GYRE_PROD};
static uint32_t given[RANKS][TYPES][COUNT], wanted[TYPES][OPS][COUNT];

static void fill_tables(int n)
{
    for (int t = 0; t < TYPES; t++)
        for (uint64_t i = 0; i < COUNT; i++) {
            given[n - 1][t][i] = stored(types[t], value(n - 1, i));
            for (int o = 0; o < OPS; o++)
                wanted[t][o][i] = folded(types[t], ops[o], n, i, false);
        }
}

/* -- one job ----------------------------------------------------------------------------------- */

static uint32_t get(const void *buffer, size_t size, uint64_t i)
{
    return size == 4   ? ((const uint32_t *)buffer)[i]
           : size == 2 ? ((const uint16_t *)buffer)[i]
                       : ((const uint8_t *)buffer)[i];
}

static void put(void *buffer, size_t size, uint64_t i, uint32_t bits)
{
    if (size == 4)
        ((uint32_t *)buffer)[i] = bits;
    else if (size == 2)
        ((uint16_t *)buffer)[i] = (uint16_t)bits;
    else
        ((uint8_t *)buffer)[i] = (uint8_t)bits;
}

/* The output holds elements first … first + count - 1 of the fold. */
static int compare(const void *output, int t, int o, uint64_t first, uint64_t count)
{
    size_t size = gyre_type_size(types[t]);
    const uint32_t *want = wanted[t][o] + first;
    for (uint64_t i = 0; i < count; i++)
        if (get(output, size, i) != want[i]) {
            fprintf(stderr, "type %d op %d: element %llu of %llu is %#x, not %#x\n", types[t],
                    ops[o], (unsigned long long)i, (unsigned long long)count, get(output, size, i),
                    want[i]);
            return 1;
        }
    return 0;
}

static void fill(struct gyre_comm *comm, void *input, int t, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        put(input, gyre_type_size(types[t]), i, given[gyre_rank(comm)][t][i]);
}

static int sum(struct gyre_comm *comm, int t, int o, uint64_t count, void *memory, bool in_place)
{
    size_t size = gyre_type_size(types[t]);
    uint8_t *input = (uint8_t *)memory + OFFSET * size,
            *output = in_place ? input : input + (COUNT + 1) * size;
    fill(comm, input, t, count);
    int status = gyre_all_reduce(comm, input, output, count, types[t], ops[o]);
    return status ? status : compare(output, t, o, 0, count);
}

/* The other verbs that sum: the last rank gets it, and each its block. */
static int sum_in_parts(struct gyre_comm *comm, int t, uint64_t count, void *memory)
{
    size_t size = gyre_type_size(types[t]);
    uint64_t n = (uint64_t)gyre_size(comm), rank = (uint64_t)gyre_rank(comm), block = count / n;
    uint8_t *input = memory, *output = input + (COUNT + 1) * size;
    fill(comm, input, t, count);
    int status = gyre_reduce(comm, input, output, count, types[t], GYRE_SUM, (int)n - 1);
    if (!status && rank == n - 1)
        status = compare(output, t, 0, 0, count);
    if (!status)
        status = gyre_reduce_scatter(comm, input, output, block, types[t], GYRE_AVG);
    return status ? status : compare(output, t, 1, rank * block, block);
}

static int body(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t counts[] = {1, 1000, 20011, COUNT};
    size_t bytes = 4 * (2 * COUNT + 2 * OFFSET + 2);
    void *shared, *plain = malloc(bytes);
    int bad = plain == NULL || gyre_alloc(comm, bytes, &shared);
    for (int t = 0; !bad && t < TYPES; t++)
        for (int c = 0; !bad && c < 4; c++) {
            bool odd = (t + c) % 2;
            if (in_haste() && (t + c / 2 + gyre_size(comm)) % 2)
                continue;
            bad |= sum(comm, t, 0, counts[c], odd ? plain : shared, odd);
            bad |= sum(comm, t, 1 + c % 2, counts[c], odd ? shared : plain, !odd);
            bad |= sum_in_parts(comm, t, counts[c], odd ? plain : shared);
        }
    if (bad && *gyre_error(comm))
        fprintf(stderr, "%s\n", gyre_error(comm));
    free(plain);
    bad |= gyre_finalize(comm) != 0;
    return bad;
}

/* -- all of them ------------------------------------------------------------------------------- */

/* The layouts of 4: two pairs, and one beside three. */
static void one_and_three(const struct rig *rig, int rank)
{
    (void)rig;
    setenv("GYRE_SIMULATED_NODE", rank == 0 ? "0" : "1", 1);
}

struct place {
    const char *name, *transport;
    int per_node;
    void (*before)(const struct rig *rig, int rank);
    int least, most; /* ranks */
};

static const struct place places[] = {
    {"shm", "shm", 0, NULL, 2, 5},
    {"tcp", "tcp", 0, NULL, 2, 5},
    {"nodes of 2", "auto", 2, NULL, 3, 5},
    {"nodes of 1 and 3", "auto", 0, one_and_three, 4, 4},
};

static void run_in_slices(const struct place *place, int n, const char *slice)
{
    struct rig rig = {.n = n,
                      .transport = place->transport,
                      .per_node = place->per_node,
                      .before = place->before,
                      .body = body};
    setenv("GYRE_SLICE", slice, 1);
    if (rig_run(&rig, 60))
        fail_msg("%d ranks, %s, slices of %s", n, place->name, slice);
}

/* In haste one slice length for each place and number of ranks, and half of the counts of each
 * type; all come, in turn. */
static void bits_are_the_left_fold(void **state)
{
    static const char *const slices[] = {"64K", "256K", "1M", ""};
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    for (int n = 1; n <= RANKS; n++) {
        fill_tables(n);
        for (int p = 0; p < 4; p++)
            for (int s = 0; s < 4 && n >= places[p].least && n <= places[p].most; s++)
                if (!in_haste() || s == (n + p) % 4)
                    run_in_slices(&places[p], n, slices[s]);
    }
    unsetenv("GYRE_SLICE");
    unsetenv("GYRE_REPRODUCIBLE");
}

/* The values would show another order, and sums that were rounded on the way. */
static void the_values_tell_orders_apart(void **state)
{
    (void)state;
    for (int n = 3; n <= 5; n++)
        for (int t = 0; t < TYPES; t++) {
            enum gyre_type type = types[t];
            int backwards = 0, rounded = 0;
            for (uint64_t i = 0; i < 20011; i++) {
                uint32_t right = folded(type, GYRE_SUM, n, i, false);
                float sum = loaded(type, stored(type, value(0, i)));
                for (int rank = 1; rank < n; rank++)
                    sum = loaded(type,
                                 stored(type, sum + loaded(type, stored(type, value(rank, i)))));
                backwards += right != folded(type, GYRE_SUM, n, i, true);
                rounded += right != stored(type, sum);
            }
            assert_true(type != GYRE_F32 || backwards > 1000);
            assert_true(type == GYRE_F32 || rounded > 1000);
        }
}

/* Where partial sums would be rounded on their way, the chain is refused, and nothing is lost. */
static int along_a_chain(struct gyre_comm *comm, struct rig *rig)
{
    static uint32_t data[1000];
    int bad = 0;
    (void)rig;
    for (int t = 0; t < TYPES && !bad; t++)
        for (int o = 0; o < OPS && !bad; o++) {
            int status = gyre_all_reduce(comm, data, data, 1000, types[t], ops[o]);
            bad |= rig_check(status == (types[t] == GYRE_F32 ? GYRE_OK : GYRE_INVALID), comm,
                             gyre_error(NULL));
            bad |= rig_check(!status || strstr(gyre_error(NULL), "chain"), comm, "the story");
        }
    bad |= rig_check(!gyre_all_reduce(comm, data, data, 1000, GYRE_F8E4M3, GYRE_MAX), comm, "max");
    return gyre_finalize(comm) || bad;
}

static void chain_of_short_floats_is_refused(void **state)
{
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    struct rig rig = {.n = 3, .transport = "tcp", .algorithm = "chain", .body = along_a_chain};
    assert_int_equal(rig_run(&rig, 30), 0);
    unsetenv("GYRE_REPRODUCIBLE");
}

/* -- agreement --------------------------------------------------------------------------------- */

static char told[2][64];

static void only_rank_0(const struct rig *rig, int rank)
{
    (void)rig;
    int fd = open(told[rank], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    if (rank == 0)
        setenv("GYRE_REPRODUCIBLE", "1", 1);
}

static void only_rank_0_is_tuned(const struct rig *rig, int rank)
{
    only_rank_0(rig, rank);
    unsetenv("GYRE_REPRODUCIBLE");
    if (rank == 0)
        setenv("GYRE_TUNE_FILE", rig->argument, 1);
}

static int nobody(struct gyre_comm *comm, struct rig *rig)
{
    (void)rig;
    gyre_finalize(comm);
    return 0;
}

static void expect_refused(void (*before)(const struct rig *, int), char *argument,
                           const char *name)
{
    struct rig rig = {.n = 2, .body = nobody, .before = before, .argument = argument};
    assert_int_equal(rig_run(&rig, 30), 2);
    for (int rank = 0; rank < 2; rank++) {
        char text[2048] = "";
        FILE *file = fopen(told[rank], "r");
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        if (!strstr(text, name))
            fail_msg("rank %d says: %s", rank, text);
    }
}

/* Ranks that would choose differently do not join, and are told the name. */
static void settings_must_agree(void **state)
{
    char folder[] = "/tmp/gyre-settings-XXXXXX", file[64];
    (void)state;
    assert_int_equal(clean_room_make(folder), 0);
    for (int rank = 0; rank < 2; rank++)
        snprintf(told[rank], sizeof told[rank], "%s/told%d", folder, rank);
    snprintf(file, sizeof file, "%s/tuned", folder);
    FILE *tuned = fopen(file, "w");
    assert_non_null(tuned);
    assert_true(fprintf(tuned, "gyre-tuning 1\nshm.kib_ps 77\nvalues 1\n") > 0);
    fclose(tuned);
    expect_refused(only_rank_0, NULL, "GYRE_REPRODUCIBLE is 1 on rank 0");
    expect_refused(only_rank_0_is_tuned, file, "GYRE_TUNE_FILE");
    assert_int_equal(clean_room_remove(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_values_tell_orders_apart),
        cmocka_unit_test(bits_are_the_left_fold),
        cmocka_unit_test(chain_of_short_floats_is_refused),
        cmocka_unit_test(settings_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
