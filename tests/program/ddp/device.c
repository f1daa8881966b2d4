/* A DDP engine whose values are a CUDA device's beside one in host memory, over real processes and
 * the stand-in for CUDA: the same gradients, written on a stream that is late, come to the same
 * gradients, values, norms and votes, to the last bit.
 *
 *     the host's     ready(p) after the gradient of p is written
 *     the device's   ready(p) after its copy is posted to the stream
 *
 * 1 to 3 ranks, with each option that changes what is done with gradients; numbers are such that
 * sums are exact in any order. In haste two other orders of streams, not three, three steps, not
 * five, and half of the options but for 2 ranks in the order of the streams. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <gyre/ddp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 5, MOST = 9000 };

static const uint64_t lengths[PARAMETERS] = {300, 7, 9000, 1, 4100};
static const char *const names[PARAMETERS] = {"a", "b", "c", "d", "e"};

struct trial {
    const char *name;
    struct gyre_ddp_options options;
    double clip;
    bool accumulates, starves, forgets, spoils; /* a rank: no samples, no gradient, NaN */
};

struct bench {
    CUstream stream;
    float *value[2][PARAMETERS]; /* the host's; the device's */
    struct gyre_ddp *ddp[2];
    float *from[PARAMETERS]; /* the host's: of copies that are under way */
    float *home;
};

static int failed(CUresult error)
{
    if (error)
        fprintf(stderr, "CUDA error %d\n", (int)error);
    return error != 0;
}

/* -- memory ------------------------------------------------------------------------------------ */

static int put(const struct bench *b, void *to, const void *from, size_t bytes)
{
    return bytes && failed(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                         bytes, b->stream));
}

static const float *home(const struct bench *b, int side, const float *from, uint64_t count)
{
    if (!side)
        return from;
    if (put(b, b->home, from, count * sizeof *from) || failed(cuStreamSynchronize(b->stream)))
        exit(1);
    return b->home;
}

/* The caller's stream is made before anything waits for peers. */
static int open_bench(struct gyre_comm *comm, struct bench *b)
{
    CUcontext context;
    void *memory;
    *b = (struct bench){.home = malloc(MOST * sizeof(float))};
    for (int p = 0; p < PARAMETERS; p++) {
        b->from[p] = malloc(MOST * sizeof(float));
        b->value[0][p] = calloc(lengths[p], sizeof(float));
        if (gyre_alloc_device(comm, lengths[p] * sizeof(float), &memory))
            return rig_check(false, comm, "memory");
        b->value[1][p] = memory;
    }
    return rig_check(!gyre_barrier(comm), comm, "all have memory") ||
           failed(cuDevicePrimaryCtxRetain(&context, gyre_device(comm))) ||
           failed(cuCtxPushCurrent(context)) ||
           failed(cuStreamCreate(&b->stream, CU_STREAM_NON_BLOCKING));
}

static void close_bench(struct gyre_comm *comm, struct bench *b)
{
    for (int p = 0; p < PARAMETERS; p++) {
        free(b->value[0][p]);
        free(b->from[p]);
        gyre_free(comm, b->value[1][p]);
    }
    free(b->home);
}

/* Each rank's own: rank 0's reach all. */
static int make_engines(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    for (int side = 0; side < 2; side++) {
        struct gyre_ddp_options options = trial->options;
        struct gyre_ddp_parameter parameter[PARAMETERS];
        options.size = sizeof options;
        options.first_bucket = 2048;
        options.bucket_cap = 16384;
        options.stream = side ? b->stream : NULL;
        for (int p = 0; p < PARAMETERS; p++) {
            for (uint64_t i = 0; i < lengths[p]; i++)
                b->from[p][i] = (float)(gyre_rank(comm) * 100 + (int)(i % 50));
            if (!side)
                memcpy(b->value[0][p], b->from[p], lengths[p] * sizeof(float));
            else if (put(b, b->value[1][p], b->from[p], lengths[p] * sizeof(float)))
                return 1;
            parameter[p] =
                (struct gyre_ddp_parameter){names[p], GYRE_F32, 1, {lengths[p]}, b->value[side][p]};
        }
        if (failed(cuStreamSynchronize(b->stream)) ||
            rig_check(!gyre_ddp_create(&b->ddp[side], comm, parameter, PARAMETERS, &options), comm,
                      "create"))
            return 1;
    }
    return 0;
}

/* -- a step ------------------------------------------------------------------------------------ */

static float gradient_of(int rank, int step, int p, uint64_t i)
{
    const uint64_t mixed = (i * 2654435761u + (uint64_t)(rank * 977 + step * 131 + p * 17)) % 4096;
    return ((float)mixed - 2048) / 64;
}

/* Writes one gradient, or adds to it, and says so. */
static int write_gradient(struct gyre_comm *comm, struct bench *b, int side, int p, int step,
                          const struct trial *trial)
{
    float *gradient = gyre_ddp_gradient(b->ddp[side], p);
    float *from = b->from[p];
    const bool adds = gyre_ddp_adds(b->ddp[side]);
    if (adds)
        memcpy(from, home(b, side, gradient, lengths[p]), lengths[p] * sizeof(float));
    for (uint64_t i = 0; i < lengths[p]; i++)
        from[i] = (adds ? from[i] : 0) + gradient_of(gyre_rank(comm), step, p, i);
    if (trial->spoils && step == 2 && gyre_rank(comm) == gyre_size(comm) - 1 && p == 2)
        from[lengths[p] - 1] = NAN;
    if (!side)
        memcpy(gradient, from, lengths[p] * sizeof(float));
    else if (put(b, gradient, from, lengths[p] * sizeof(float)))
        return 1;
    return rig_check(!gyre_ddp_ready(b->ddp[side], p), comm, "ready");
}

static int write_gradients(struct gyre_comm *comm, struct bench *b, int side, int step,
                           const struct trial *trial)
{
    const bool starves = trial->starves && step == 1 && gyre_rank(comm) == 0;
    int bad =
        rig_check(!gyre_ddp_begin(b->ddp[side], starves ? 0 : 3 + (uint64_t)step), comm, "begin");
    gyre_ddp_add(b->ddp[side], 0, gyre_rank(comm) + 0.1 * step);
    for (int p = PARAMETERS - 1; !bad && !starves && p >= 0; p--)
        if (!trial->forgets || p != 1 || gyre_rank(comm))
            bad = write_gradient(comm, b, side, p, step, trial);
    return bad;
}

/* value -= gradient / 8, of this rank's pieces, on the host. */
static int update(struct gyre_comm *comm, struct bench *b, int side)
{
    struct gyre_ddp_piece piece;
    for (int k = 0; gyre_ddp_piece(b->ddp[side], k, &piece) == 0; k++) {
        float *from = b->from[piece.parameter];
        memcpy(from, home(b, side, piece.value, piece.count), piece.count * sizeof(float));
        const float *gradient = home(b, side, piece.gradient, piece.count);
        for (uint64_t i = 0; i < piece.count; i++)
            from[i] -= gradient[i] / 8;
        if (!side)
            memcpy(piece.value, from, piece.count * sizeof(float));
        else if (put(b, piece.value, from, piece.count * sizeof(float)))
            return 1;
    }
    return rig_check(!gyre_ddp_gather(b->ddp[side]), comm, "gather");
}

static int run_step(struct gyre_comm *comm, struct bench *b, int side, int step,
                    const struct trial *trial)
{
    struct gyre_ddp *ddp = b->ddp[side];
    if (trial->accumulates &&
        (gyre_ddp_no_sync(ddp, 1) || write_gradients(comm, b, side, step + 100, trial) ||
         gyre_ddp_wait(ddp) || gyre_ddp_no_sync(ddp, 0)))
        return rig_check(false, comm, "a part of a step");
    int bad =
        write_gradients(comm, b, side, step, trial) || rig_check(!gyre_ddp_wait(ddp), comm, "wait");
    if (!bad && trial->clip > 0)
        bad = rig_check(!gyre_ddp_clip(ddp, trial->clip), comm, "clip");
    if (!bad && !gyre_ddp_result(ddp)->nonfinite)
        bad = update(comm, b, side);
    return bad || rig_check(!gyre_ddp_compare(ddp), comm, "compare");
}

/* -- compared ---------------------------------------------------------------------------------- */

static int differs(struct gyre_comm *comm, const char *trial, int step, const char *what, int p)
{
    fprintf(stderr, "%s, rank %d of %d, step %d: other %s of '%s' than on the host\n", trial,
            gyre_rank(comm), gyre_size(comm), step, what, p < 0 ? "all" : names[p]);
    return 1;
}

static int compare_span(struct gyre_comm *comm, struct bench *b, const float *host,
                        const float *device, uint64_t count, const char *trial, int step,
                        const char *what, int p)
{
    const float *at = home(b, 1, device, count);
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(&host[i], &at[i], sizeof *at) && !(isnan(host[i]) && isnan(at[i])))
            return differs(comm, trial, step, what, p);
    return 0;
}

static int compare_results(struct gyre_comm *comm, struct bench *b, const char *trial, int step)
{
    const struct gyre_ddp_result *host = gyre_ddp_result(b->ddp[0]),
                                 *cuda = gyre_ddp_result(b->ddp[1]);
    const bool names_alike =
        !host->culprit_name ? !cuda->culprit_name
                            : cuda->culprit_name && !strcmp(host->culprit_name, cuda->culprit_name);
    if (host->number != cuda->number || host->samples != cuda->samples ||
        host->nonfinite != cuda->nonfinite || host->culprit != cuda->culprit || !names_alike ||
        host->sum[0] != cuda->sum[0] || host->factor != cuda->factor ||
        host->reduced_bytes != cuda->reduced_bytes || host->buckets != cuda->buckets)
        return differs(comm, trial, step, "results", -1);
    if (host->norm != cuda->norm && !(isnan(host->norm) && isnan(cuda->norm)))
        return differs(comm, trial, step, "norm", -1);
    return 0;
}

static int compare_engines(struct gyre_comm *comm, struct bench *b, const char *trial, int step)
{
    struct gyre_ddp_piece piece[2];
    int bad = compare_results(comm, b, trial, step);
    for (int k = 0; !bad && gyre_ddp_piece(b->ddp[0], k, &piece[0]) == 0; k++)
        bad = gyre_ddp_piece(b->ddp[1], k, &piece[1]) ||
              compare_span(comm, b, piece[0].gradient, piece[1].gradient, piece[0].count, trial,
                           step, "gradient", piece[0].parameter);
    for (int p = 0; !bad && p < PARAMETERS; p++) {
        const float *feedback = gyre_ddp_feedback(b->ddp[0], p);
        bad = compare_span(comm, b, gyre_ddp_value(b->ddp[0], p), gyre_ddp_value(b->ddp[1], p),
                           lengths[p], trial, step, "values", p);
        if (!bad && feedback)
            bad = compare_span(comm, b, feedback, gyre_ddp_feedback(b->ddp[1], p), lengths[p],
                               trial, step, "feedback", p);
    }
    return bad || gyre_ddp_wire_scale(b->ddp[0]) != gyre_ddp_wire_scale(b->ddp[1]);
}

/* -- trials ------------------------------------------------------------------------------------ */

static const struct trial trials[] = {
    {.name = "mean of samples"},
    {.name = "norm, clipped", .options = {.norm = 1}, .clip = 0.5},
    {.name = "unscaled, clipped", .options = {.norm = 1, .unscaled = 1}, .clip = 0.5},
    {.name = "mean of ranks", .options = {.mean = GYRE_DDP_MEAN_OF_RANKS}, .starves = true},
    {.name = "as bf16", .options = {.wire = GYRE_DDP_WIRE_BF16}, .starves = true},
    {.name = "as f16", .options = {.wire = GYRE_DDP_WIRE_F16, .no_feedback = 1}},
    {.name = "sharded", .options = {.sharded = 1}, .starves = true},
    {.name = "sharded, norm", .options = {.sharded = 1, .norm = 1, .unscaled = 1}, .clip = 0.5},
    {.name = "sharded, as bf16", .options = {.sharded = 1, .wire = GYRE_DDP_WIRE_BF16}},
    {.name = "in two parts", .accumulates = true, .starves = true},
    {.name = "one unused", .forgets = true},
    {.name = "one not a number",
     .options = {.look = GYRE_DDP_LOOK_ALL, .compare_every = -1},
     .spoils = true},
};

static int run_trial(struct gyre_comm *comm, struct bench *b, const struct trial *trial)
{
    int bad = make_engines(comm, b, trial);
    for (int step = 0; !bad && step < (in_haste() ? 3 : 5); step++) {
        for (int side = 0; !bad && side < 2; side++)
            bad = run_step(comm, b, side, step, trial);
        bad = bad || compare_engines(comm, b, trial->name, step);
    }
    for (int side = 0; side < 2; side++)
        gyre_ddp_destroy(b->ddp[side]);
    return bad;
}

/* In haste the even trials or the odd ones, where the rig's argument says which. */
static int as_on_the_host(struct gyre_comm *comm, struct rig *rig)
{
    struct bench b;
    int bad = open_bench(comm, &b);
    const size_t *part = rig->argument;
    for (size_t i = 0; !bad && i < sizeof trials / sizeof *trials; i++)
        if (!in_haste() || !part || i % 2 == *part)
            bad = run_trial(comm, &b, &trials[i]);
    close_bench(comm, &b);
    return gyre_finalize(comm) || bad;
}

static void test_as_on_the_host(void **state)
{
    for (int n = 1; n <= 3; n++) {
        size_t part = (size_t)n / 2;
        struct rig rig = {.n = n, .transport = "auto", .body = as_on_the_host};
        rig.argument = n == 2 ? NULL : &part;
        assert_int_equal(rig_run(&rig, 120), 0);
    }
}

/* In other orders of streams, with short launch queues, and with one queue of the hardware for all
 * streams: nothing hangs, and nothing is reduced before it is written. */
static void test_in_any_order(void **state)
{
    if (!fakecuda_stands_in())
        skip();
    setenv("FAKECUDA_DEPTH", "24", 1);
    for (int seed = 2; seed <= (in_haste() ? 3 : 4); seed++) {
        size_t part = (size_t)seed % 2;
        struct rig rig = {.n = 2, .transport = "auto", .body = as_on_the_host, .argument = &part};
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("FAKECUDA_SEED", text, 1);
        setenv("FAKECUDA_CHANNELS", seed % 2 ? "1" : "0", 1);
        assert_int_equal(rig_run(&rig, 120), 0);
    }
    unsetenv("FAKECUDA_DEPTH");
    unsetenv("FAKECUDA_SEED");
    unsetenv("FAKECUDA_CHANNELS");
}

/* -- ended ------------------------------------------------------------------------------------- */

/* Copies of gradients, which take 100 us each, are under way when the engine ends. */
static int read_while_it_ends(struct gyre_comm *comm, struct rig *rig)
{
    enum { COPIES = 500 };
    const struct trial plain = {.name = "ended", .options = {.unscaled = 1}};
    struct bench b;
    int bad = open_bench(comm, &b) || make_engines(comm, &b, &plain) ||
              write_gradients(comm, &b, 1, 0, &plain) ||
              rig_check(!gyre_ddp_wait(b.ddp[1]), comm, "wait");
    const float *gradient = bad ? NULL : gyre_ddp_gradient(b.ddp[1], 2);
    for (int i = 0; !bad && i < COPIES; i++)
        bad = put(&b, b.value[1][2], gradient, lengths[2] * sizeof(float));
    for (int side = 0; side < 2; side++)
        gyre_ddp_destroy(b.ddp[side]);
    const float *last = bad ? NULL : home(&b, 1, b.value[1][2], lengths[2]);
    for (uint64_t i = 0; !bad && i < lengths[2]; i++)
        bad = rig_check(last[i] == gradient_of(0, 0, 2, i), comm, "a gradient's last copy");
    close_bench(comm, &b);
    return gyre_finalize(comm) || bad;
}

/* A driver's unmapping may not wait for the device. */
static void test_gradients_are_read_to_the_end(void **state)
{
    struct rig rig = {.n = 1, .transport = "auto", .body = read_while_it_ends};
    if (!fakecuda_stands_in())
        skip();
    setenv("FAKECUDA_WAITS", "0", 1);
    assert_int_equal(rig_run(&rig, 120), 0);
    unsetenv("FAKECUDA_WAITS");
}

/* -- refused ----------------------------------------------------------------------------------- */

static void encode(const struct gyre_ddp_parcel *parcel, const float *gradient, void *wire,
                   void *context)
{
}

static void decode(const struct gyre_ddp_parcel *parcel, const void *wire, float *gradient,
                   void *context)
{
}

/* Creates an engine of two values. True if that is refused with these words. */
static bool refuses(struct gyre_comm *comm, void *first, void *second, enum gyre_type type,
                    const struct gyre_ddp_options *options, const char *words)
{
    const struct gyre_ddp_parameter parameter[] = {{"first", GYRE_F32, 1, {4}, first},
                                                   {"second", type, 1, {4}, second}};
    struct gyre_ddp *ddp;
    int status = gyre_ddp_create(&ddp, comm, parameter, 2, options);
    const char *told = gyre_error(NULL);
    if (!status || !strstr(told, words))
        fprintf(stderr, "rank %d: status %d, \"%s\"; expected \"%s\"\n", gyre_rank(comm), status,
                told, words);
    gyre_ddp_destroy(ddp);
    return status && strstr(told, words);
}

static int refused(struct gyre_comm *comm, struct rig *rig)
{
    const struct gyre_ddp_hook hook = {
        .name = "own", .type = GYRE_F32, .op = GYRE_SUM, .encode = encode, .decode = decode};
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    static double host[8];
    void *memory;
    const bool there = gyre_rank(comm) == 1;
    int bad = rig_check(!gyre_alloc_device(comm, 64, &memory), comm, "memory");
    bad = bad || !refuses(comm, memory, host, GYRE_F32, NULL, "all must be one's") ||
          !refuses(comm, host, memory, GYRE_F32, NULL, "all must be one's") ||
          !refuses(comm, memory, (char *)memory + 32, GYRE_F64, NULL,
                   "'second' is f64; on a device parameters are f32") ||
          !refuses(comm, there ? memory : host, there ? (char *)memory + 16 : (char *)(host + 4),
                   GYRE_F32, NULL, "rank 1 has values on a CUDA device where rank 0 has values on");
    options.hook = &hook;
    bad = bad || !refuses(comm, memory, (char *)memory + 16, GYRE_F32, &options,
                          "hook 'own' works in host memory");
    options.hook = NULL;
    options.stream = CU_STREAM_LEGACY;
    bad = bad || !refuses(comm, host, host + 4, GYRE_F32, &options,
                          "a stream is given, and values are the host's");
    gyre_free(comm, memory);
    return gyre_finalize(comm) || bad;
}

static void test_refused(void **state)
{
    struct rig rig = {.n = 2, .transport = "auto", .body = refused};
    assert_int_equal(rig_run(&rig, 60), 0);
}

int main(void)
{
    setenv("GYRE_DEVICES", "0,0,0", 0);
    setenv("FAKECUDA_DELAY", "30", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_on_the_host),
        cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_gradients_are_read_to_the_end),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
