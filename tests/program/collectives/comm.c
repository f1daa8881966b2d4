/* The public API with real processes: every operation, type and reduction, over every transport,
 * with few and many elements, in place and out of place, blocking and started. In haste each count
 * meets a third of the pairs of type and reduction, in turn. */
#include "base/rng.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 8
#define MOST  400003 /* elements */

/* Small integers that every type holds exactly, also their sums and products over 8 ranks: 1 or 2,
 * by chance, so no rank looks like another, nor one part of a buffer like the next. Ranks 6 and 7
 * have the opposite of 1 and 0: six twos at most are multiplied. Drawn once, before there are
 * ranks. */
static uint8_t drawn[RANKS][MOST];

static void draw_values(void)
{
    for (uint64_t rank = 0; rank < RANKS; rank++)
        for (uint64_t i = 0; i < MOST; i++)
            drawn[rank][i] = rank < 6 ? (uint8_t)(1 + (gyre_mix64(rank << 40 | i) >> 63))
                                      : (uint8_t)(3 - drawn[7 - rank][i]);
}

static double value(int rank, uint64_t i)
{
    return drawn[rank][i];
}

static void store(void *at, enum gyre_type type, uint64_t i, double v)
{
    uint16_t half = v == 0   ? 0
                    : v == 1 ? 0x3c00
                             : 0x4000,
             bf = v == 0   ? 0
                  : v == 1 ? 0x3f80
                           : 0x4000,
             e4m3 = v == 0   ? 0
                    : v == 1 ? 0x38
                             : 0x40;
    switch (type) {
    case GYRE_F32:
        ((float *)at)[i] = (float)v;
        break;
    case GYRE_F64:
        ((double *)at)[i] = v;
        break;
    case GYRE_F16:
        ((uint16_t *)at)[i] = half;
        break;
    case GYRE_BF16:
        ((uint16_t *)at)[i] = bf;
        break;
    case GYRE_I32:
    case GYRE_U32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    case GYRE_I64:
    case GYRE_U64:
        ((int64_t *)at)[i] = (int64_t)v;
        break;
    case GYRE_I16:
    case GYRE_U16:
        ((int16_t *)at)[i] = (int16_t)v;
        break;
    case GYRE_I8:
    case GYRE_U8:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    case GYRE_F8E4M3:
        ((uint8_t *)at)[i] = (uint8_t)e4m3;
        break;
    case GYRE_F8E5M2:
        ((uint8_t *)at)[i] = (uint8_t)(half >> 8);
        break;
    }
}

#define COPY_EACH(word)                                                                            \
    for (uint64_t i = 0; i < count; i++)                                                           \
    ((word *)at)[i] = *(const word *)of[from[i]]

/* Stores value(rank, i) for all i. Each of the values is turned into the type once. */
static void fill(void *at, enum gyre_type type, uint64_t count, int rank)
{
    _Alignas(8) char of[3][8];
    const uint8_t *from = drawn[rank];
    for (int v = 0; v < 3; v++)
        store(of[v], type, 0, v);
    switch (gyre_type_size(type)) {
    case 1:
        COPY_EACH(uint8_t);
        break;
    case 2:
        COPY_EACH(uint16_t);
        break;
    case 4:
        COPY_EACH(uint32_t);
        break;
    default:
        COPY_EACH(uint64_t);
    }
}

static double half_value(uint16_t h)
{
    int exponent = (h >> 10 & 31) - 15;
    double fraction = 1 + (h & 1023) / 1024.0;
    if (!(h & 0x7fff))
        return 0;
    for (; exponent > 0; exponent--)
        fraction *= 2;
    for (; exponent < 0; exponent++)
        fraction /= 2;
    return fraction;
}

static double e4m3_value(uint8_t e)
{
    double fraction = e & 0x78 ? 8 + (e & 7) : 2 * (e & 7);
    for (int exponent = e >> 3 & 15; exponent < 10; exponent++)
        fraction /= 2;
    return (e >> 3 & 15) > 10 ? fraction * (1 << ((e >> 3 & 15) - 10)) : fraction;
}

static double load(const void *at, enum gyre_type type, uint64_t i)
{
    uint32_t bits;
    float single;
    switch (type) {
    case GYRE_F32:
        return ((const float *)at)[i];
    case GYRE_F64:
        return ((const double *)at)[i];
    case GYRE_F16:
        return half_value(((const uint16_t *)at)[i]);
    case GYRE_BF16:
        bits = (uint32_t)((const uint16_t *)at)[i] << 16;
        memcpy(&single, &bits, 4);
        return single;
    case GYRE_I32:
    case GYRE_U32:
        return ((const int32_t *)at)[i];
    case GYRE_I64:
    case GYRE_U64:
        return (double)((const int64_t *)at)[i];
    case GYRE_I16:
    case GYRE_U16:
        return ((const int16_t *)at)[i];
    case GYRE_I8:
    case GYRE_U8:
        return ((const uint8_t *)at)[i];
    case GYRE_F8E4M3:
        return e4m3_value(((const uint8_t *)at)[i]);
    case GYRE_F8E5M2:
        return half_value((uint16_t)(((const uint8_t *)at)[i] << 8));
    }
    return -1;
}

static bool is_integer(enum gyre_type type)
{
    return type >= GYRE_I32 && type < GYRE_F8E4M3;
}

static double expected(int n, uint64_t i, enum gyre_type type, enum gyre_op op)
{
    double sum = 0, product = 1, least = 9, most = 0;
    int every = 3, any = 0, odd = 0;
    for (int r = 0; r < n; r++) {
        double v = value(r, i);
        sum += v;
        product *= v;
        least = v < least ? v : least;
        most = v > most ? v : most;
        every &= (int)v, any |= (int)v, odd ^= (int)v;
    }
    switch (op) {
    case GYRE_SUM:
        return sum;
    case GYRE_AVG:
        return is_integer(type) ? (double)(int)(sum / n) : sum / n;
    case GYRE_MIN:
        return least;
    case GYRE_MAX:
        return most;
    case GYRE_PROD:
        return product;
    case GYRE_AND:
        return every;
    case GYRE_OR:
        return any;
    case GYRE_XOR:
        return odd;
    default:
        return -1;
    }
}

static int wrong(const char *what, struct gyre_comm *comm, enum gyre_type type, enum gyre_op op,
                 uint64_t count, uint64_t i, double got, double want)
{
    fprintf(stderr, "rank %d: %s type %d op %d count %llu: element %llu is %g, expected %g\n",
            gyre_rank(comm), what, (int)type, (int)op, (unsigned long long)count,
            (unsigned long long)i, got, want);
    return 1;
}

static bool close_enough(double got, double want, enum gyre_type type)
{
    double error = got > want ? got - want : want - got;
    double part = type == GYRE_BF16     ? 0.02
                  : type == GYRE_F16    ? 0.003
                  : type == GYRE_F8E4M3 ? 0.2
                  : type == GYRE_F8E5M2 ? 0.4
                                        : 1e-6;
    return error <= part * want;
}

static int try_all_reduce(struct gyre_comm *comm, char *in, char *out, uint64_t count,
                          enum gyre_type type, enum gyre_op op, int way)
{
    int n = gyre_size(comm), status;
    struct gyre_work *work;
    fill(in, type, count, gyre_rank(comm));
    if (way == 0) {
        status = gyre_all_reduce(comm, in, out, count, type, op);
    } else {
        status = gyre_all_reduce_start(comm, in, out, count, type, op, &work);
        if (!status)
            status = gyre_work_wait(work, -1);
    }
    if (status) {
        fprintf(stderr, "rank %d: %s\n", gyre_rank(comm), gyre_error(comm));
        return 1;
    }
    for (uint64_t i = 0; i < count; i += 1 + count / 5000) {
        double got = load(out, type, i), want = expected(n, i, type, op);
        if (!close_enough(got, want, type))
            return wrong("all_reduce", comm, type, op, count, i, got, want);
    }
    return 0;
}

static int try_broadcast(struct gyre_comm *comm, char *in, char *out, uint64_t count,
                         enum gyre_type type, int root)
{
    bool mine = gyre_rank(comm) == root;
    if (mine)
        fill(in, type, count, root);
    else
        memset(in, 0, count * gyre_type_size(type));
    int status = gyre_broadcast(comm, mine ? in : NULL, out, count, type, root);
    if (status) {
        fprintf(stderr, "rank %d: %s\n", gyre_rank(comm), gyre_error(comm));
        return 1;
    }
    for (uint64_t i = 0; i < count; i++)
        if (load(out, type, i) != value(root, i))
            return wrong("broadcast", comm, type, GYRE_SUM, count, i, load(out, type, i),
                         value(root, i));
    return 0;
}

static int everything(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t counts[] = {0, 1, 3, 10, 500, 513, 1024, 1025, 5000, 70001, MOST};
    const uint64_t most = MOST * 8 + 64;
    void *shared[2];
    char *plain[2] = {malloc(most), malloc(most)};
    int bad = 0;
    (void)rig;
    if (gyre_alloc(comm, most, &shared[0]) || gyre_alloc(comm, most, &shared[1]))
        return 2;
    for (int c = 0; c < 11 && !bad; c++)
        for (int type = 0; type <= GYRE_F8E5M2 && !bad; type++)
            for (int op = 0; op <= (is_integer(type) ? GYRE_XOR : GYRE_PROD) && !bad; op++) {
                int turn = c + type + op +
                           gyre_rank(comm) * (c % 2); /* ranks mix kinds of memory and in-place */
                size_t skew = (size_t)(c % 3) * gyre_type_size(type);
                char *in = (turn % 2 ? plain[0] : (char *)shared[0]) + skew;
                char *out = turn % 3 == 0 ? in : (turn % 5 ? (char *)shared[1] : plain[1]) + skew;
                if ((counts[c] > 5000 || in_haste()) && (c + type + op) % 3)
                    continue;
                bad = try_all_reduce(comm, in, out, counts[c], type, op, (c + op) % 2) ||
                      (op == 0 &&
                       try_broadcast(comm, in, out, counts[c], type, (c + type) % gyre_size(comm)));
            }
    bad |= gyre_barrier(comm) != 0;
    free(plain[0]);
    free(plain[1]);
    return gyre_finalize(comm) || bad;
}

static void run(struct rig rig)
{
    rig.body = everything;
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void shm_is_right(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        run((struct rig){.n = n, .transport = "auto"});
    run((struct rig){.n = 8, .transport = "shm"});
}

static void algorithms_over_shm_are_right(void **state)
{
    (void)state;
    run((struct rig){.n = 3, .transport = "shm", .algorithm = "ring"});
}

static void tcp_is_right(void **state)
{
    (void)state;
    run((struct rig){.n = 2, .transport = "tcp", .poller = "epoll"});
    run((struct rig){.n = 3, .transport = "tcp", .poller = "io_uring"});
    run((struct rig){.n = 4, .transport = "tcp", .poller = "epoll", .algorithm = "ring"});
}

static void mixed_nodes_are_right(void **state)
{
    (void)state;
    run((struct rig){.n = 4, .transport = "auto", .per_node = 2});
}

/* -- links ------------------------------------------------------------------------------------- */

static bool is_named(const struct gyre_comm *comm, int peer, const char *name)
{
    char text[32];
    if (gyre_link_name(comm, peer, text, sizeof text))
        return false;
    if (strcmp(text, name))
        fprintf(stderr, "rank %d is reached by %s, expected %s\n", peer, text, name);
    return !strcmp(text, name);
}

/* `argument` is what serves between nodes. */
static int name_links(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *part;
    char text[4];
    int rank = gyre_rank(comm), n = gyre_size(comm), node = rank / 2, bad = 0;
    for (int peer = 0; peer < n; peer++)
        bad |= !is_named(comm, peer,
                         peer == rank                        ? "none"
                         : rig->per_node && peer / 2 == node ? "shm/ring"
                                                             : rig->argument);
    bad |= gyre_split(comm, node, -rank, &part) || !is_named(part, rank % 2 ? 0 : 1, "none") ||
           !is_named(part, rank % 2, rig->per_node ? "shm/ring" : rig->argument);
    bad |= gyre_link_name(comm, n, text, sizeof text) != GYRE_INVALID ||
           gyre_link_name(comm, 0, text, 0) != GYRE_INVALID ||
           gyre_link_name(NULL, 0, text, sizeof text) != GYRE_INVALID;
    bad |= gyre_link_name(comm, n - 1 - rank, text, sizeof text) || strlen(text) > 3;
    return rig_check(!bad, comm, "names of links") | (gyre_finalize(comm) != 0);
}

static void links_are_named(void **state)
{
    (void)state;
    struct rig rig = {.n = 4, .body = name_links, .poller = "epoll", .argument = "shm/ring"};
    assert_int_equal(rig_run(&rig, 30), 0);
    rig.argument = "tcp/epoll";
    rig.transport = "tcp";
    assert_int_equal(rig_run(&rig, 30), 0);
    rig.transport = "auto";
    rig.per_node = 2;
    assert_int_equal(rig_run(&rig, 30), 0);
}

/* -- started work ------------------------------------------------------------------------------ */

#define FLIGHT 50

static int many_in_flight(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work[FLIGHT];
    int32_t *data = malloc(FLIGHT * 4096 * sizeof(*data));
    int bad = 0;
    (void)rig;
    for (int w = 0; w < FLIGHT; w++) {
        uint64_t count = w % 3 ? 4096 : 7;
        for (uint64_t i = 0; i < count; i++)
            data[w * 4096 + i] = gyre_rank(comm) + w;
        if (gyre_all_reduce_start(comm, data + w * 4096, data + w * 4096, count, GYRE_I32, GYRE_SUM,
                                  &work[w]))
            return 3;
    }
    for (int w = FLIGHT - 1; w >= 0; w--) { /* waited for in another order */
        bad |= w % 2 ? gyre_work_wait(work[w], -1) : 0;
        while (w % 2 == 0) {
            int status = gyre_work_test(work[w]);
            if (status != GYRE_AGAIN) {
                bad |= status;
                break;
            }
        }
        int n = gyre_size(comm);
        bad |= data[w * 4096] != n * (n - 1) / 2 + n * w;
    }
    free(data);
    return gyre_finalize(comm) || bad;
}

static void many_operations_in_flight(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "shm", .body = many_in_flight}, 30),
                     0);
    assert_int_equal(rig_run(&(struct rig){.n = 3, .transport = "tcp", .body = many_in_flight}, 30),
                     0);
}

/* Looks at a buffer that the library may be writing, which no program should do but this one. */
__attribute__((no_sanitize("thread"))) static bool has_come(const volatile int32_t *at,
                                                            int32_t value)
{
    return *at == value;
}

/* Nobody calls anything: the helper alone brings it to an end, seen in the buffer. */
static int left_alone(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work;
    int32_t in = 1, out = -1;
    (void)rig;
    if (gyre_all_reduce_start(comm, &in, &out, 1, GYRE_I32, GYRE_SUM, &work))
        return 3;
    uint64_t limit = rig_now() + 5000000000ull * (uint64_t)rig_slow();
    while (!has_come(&out, gyre_size(comm)) && rig_now() < limit)
        continue;
    bool came = has_come(&out, gyre_size(comm));
    return !came || gyre_work_wait(work, -1) || gyre_finalize(comm);
}

static void helper_drives_alone(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = left_alone}, 30), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "tcp", .body = left_alone}, 30), 0);
}

/* -- the cost model's word --------------------------------------------------------------------- */

static int costs_are_equal_and_grow(struct gyre_comm *comm, struct rig *rig)
{
    uint64_t cost[3], least[3], most[3], counts[3] = {1, 1 << 16, 1 << 24};
    (void)rig;
    for (int i = 0; i < 3; i++)
        if (gyre_all_reduce_cost(comm, counts[i], GYRE_F32, &cost[i]))
            return 2;
    if (gyre_all_reduce(comm, cost, least, 3, GYRE_U64, GYRE_MIN) ||
        gyre_all_reduce(comm, cost, most, 3, GYRE_U64, GYRE_MAX))
        return 3;
    if (memcmp(least, most, sizeof least) != 0)
        return 5;
    bool refused = gyre_all_reduce_cost(comm, 1, (enum gyre_type)99, cost) == GYRE_INVALID &&
                   gyre_all_reduce_cost(NULL, 1, GYRE_F32, cost) == GYRE_INVALID &&
                   gyre_all_reduce_cost(comm, 1, GYRE_F32, NULL) == GYRE_INVALID &&
                   gyre_all_reduce_cost(comm, UINT64_MAX, GYRE_F32, cost) == GYRE_INVALID;
    return least[0] && least[0] < least[1] && least[1] < least[2] && refused ? gyre_finalize(comm)
                                                                             : 4;
}

static void costs_are_predicted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(rig_run(&(struct rig){.n = 3,
                                               .transport = i ? "tcp" : "shm",
                                               .body = costs_are_equal_and_grow},
                                 30),
                         0);
}

/* -- arguments --------------------------------------------------------------------------------- */

static int bad_arguments(struct gyre_comm *comm, struct rig *rig)
{
    float a[8] = {0}, b[8];
    struct gyre_work *work;
    void *memory;
    (void)rig;
    int good = gyre_all_reduce(NULL, a, b, 8, GYRE_F32, GYRE_SUM) == GYRE_INVALID &&
               gyre_all_reduce(comm, NULL, b, 8, GYRE_F32, GYRE_SUM) == GYRE_INVALID &&
               gyre_all_reduce(comm, a, NULL, 8, GYRE_F32, GYRE_SUM) == GYRE_INVALID &&
               gyre_all_reduce(comm, a, a + 1, 7, GYRE_F32, GYRE_SUM) == GYRE_INVALID &&
               gyre_all_reduce(comm, a, b, 8, (enum gyre_type)99, GYRE_SUM) == GYRE_INVALID &&
               gyre_all_reduce(comm, a, b, 8, GYRE_F32, (enum gyre_op)99) == GYRE_INVALID &&
               gyre_all_reduce(comm, a, b, UINT64_MAX / 2, GYRE_F32, GYRE_SUM) == GYRE_INVALID &&
               gyre_broadcast(comm, a, b, 8, GYRE_F32, 2) == GYRE_INVALID &&
               strstr(gyre_error(comm), "root 2") != NULL &&
               gyre_broadcast(comm, a, b, 8, GYRE_F32, -1) == GYRE_INVALID &&
               gyre_all_reduce_start(comm, a, b, 8, GYRE_F32, GYRE_SUM, NULL) == GYRE_INVALID &&
               gyre_work_test(NULL) == GYRE_INVALID &&
               gyre_alloc(comm, 0, &memory) == GYRE_INVALID && gyre_free(comm, a) == GYRE_INVALID &&
               gyre_free(comm, NULL) == 0 && gyre_register(comm, a, sizeof(a)) == 0 &&
               gyre_register(comm, a, sizeof(a)) == GYRE_INVALID && gyre_unregister(comm, a) == 0 &&
               gyre_unregister(comm, a) == GYRE_INVALID && gyre_init(&comm, NULL) == GYRE_INVALID;
    (void)work;
    return !good;
}

static int bad_arguments_do_no_harm(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_comm *kept = comm;
    int32_t one = 1, sum = 0;
    if (bad_arguments(comm, rig))
        return 4;
    if (gyre_all_reduce(kept, &one, &sum, 1, GYRE_I32, GYRE_SUM) || sum != gyre_size(kept))
        return 5;
    return gyre_finalize(kept);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .transport = "shm", .body = bad_arguments_do_no_harm}, 30),
        0);
}

/* The shape of the call before takes a shorter way, past the checks of words; buffers are looked
 * at. */
static int wrong_at_the_second_time(struct gyre_comm *comm, struct rig *rig)
{
    float a[16] = {0}, b[8] = {0};
    int rank = gyre_rank(comm), bad = 0;
    (void)rig;
    for (int i = 0; i < 3; i++) {
        float *own = a + 4 * rank;
        bad |= gyre_all_reduce(comm, a, b, 8, GYRE_F32, GYRE_SUM);
        bad |= gyre_all_reduce(comm, NULL, b, 8, GYRE_F32, GYRE_SUM) != GYRE_INVALID;
        bad |= gyre_all_reduce(comm, a, NULL, 8, GYRE_F32, GYRE_SUM) != GYRE_INVALID;
        bad |= gyre_all_reduce(comm, a, a + 7, 8, GYRE_F32, GYRE_SUM) != GYRE_INVALID;
        bad |= gyre_all_reduce(comm, a + 7, a, 8, GYRE_F32, GYRE_SUM) != GYRE_INVALID;
        bad |= gyre_all_reduce(comm, a, a + 8, 8, GYRE_F32, GYRE_SUM);
        bad |= gyre_all_reduce(comm, a, a, 8, GYRE_F32, GYRE_SUM);
        for (int again = 0; again < 2; again++)
            bad |= gyre_all_gather(comm, own, a, 4, GYRE_F32);
        bad |= gyre_all_gather(comm, a + 4 * (1 - rank), a, 4, GYRE_F32) != GYRE_INVALID;
        for (int again = 0; again < 2; again++)
            bad |= gyre_broadcast(comm, rank ? NULL : a, b, 8, GYRE_F32, 0);
        bad |= gyre_broadcast(comm, a, b, 8, GYRE_F32, -1) != GYRE_INVALID;
    }
    return rig_check(!bad, comm, "what passed, and what did not") || gyre_finalize(comm);
}

static void the_same_shape_is_checked_again(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .transport = "shm", .body = wrong_at_the_second_time}, 30),
        0);
}

int main(void)
{
    draw_values();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shm_is_right),        cmocka_unit_test(algorithms_over_shm_are_right),
        cmocka_unit_test(tcp_is_right),        cmocka_unit_test(mixed_nodes_are_right),
        cmocka_unit_test(links_are_named),     cmocka_unit_test(many_operations_in_flight),
        cmocka_unit_test(helper_drives_alone), cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(costs_are_predicted), cmocka_unit_test(the_same_shape_is_checked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
