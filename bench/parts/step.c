/* How much of a training step is communication, and how much of that is hidden?
 *
 *     build/bench/step --layers 784,500,10 --batch 100 --ranks 2
 *
 *     round 1: T1 │ on │ off │ bare     round 2: T1 │ on │ off │ bare     …      medians
 *
 *     T1     a step of rank 0 by itself, on its own communicator; the others sleep in a barrier
 *     on     a step of all ranks
 *     off    the same without communication: all ranks compute, nothing travels
 *     bare   all-reduce of the same buckets, one started behind the other, without computing;
 *            every rank rewrites its own before, as a step does
 *     skew   of on: how long a rank waits, in the mean, until the slowest has computed as well
 *
 * One set of processes does all of it in turns, so that whatever else the machine does meets all
 * alike: only figures of one run may be compared. A time is that of the slowest rank. What follows
 * from it:
 *
 *     scaling = n T1 / on      bound = n T1 / (off + bare)      share = scaling / bound
 *     exposed = on - off       hidden = 1 - exposed / bare
 *
 * The bound hides nothing: a step that hides communication behind the backward pass may be above
 * it. It knows no skew either, for with communication off nobody waits: where ranks take turns at
 * being slow, as on a shared machine, the slowest of every step counts in on, in off that of the
 * stretch. */
#include "harness/local.h"
#include "output/machine.h"
#include "parts/step_net.h"

#include "base/clock.h"
#include "base/env.h"
#include "transport/link/words.h"

#include <errno.h>
#include <getopt.h>
#include <gyre/gyre.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MOST    999
#define STEPS_MOST     1000000
#define STRETCH        0.25 /* seconds of what is timed at once */
#define STEPS_LEAST    4
#define WARM_UP        3
#define BUCKETS_MOST   1024
#define EXIT_NONFINITE 1
#define EXIT_USAGE     2
#define EXIT_LIBRARY   3

enum { ALONE, ON, OFF, BARE, SKEW, KINDS };
static const char *const kind_text[KINDS] = {
    "T1    one rank by itself", "on    all ranks", "off   all ranks, communication off",
    "bare  all-reduce of the buckets", "skew  waiting for the slowest rank"};

struct options {
    struct step_settings settings;
    const char *layers, *transport, *csv;
    int64_t ranks, rounds, steps, batch; /* steps of a stretch; 0: as many as it takes */
};

struct bucket {
    void *data;
    uint64_t bytes;
    struct gyre_work *work;
};

struct step_bench {
    struct options options;
    struct gyre_comm *comm, *own; /* own: of this rank by itself */
    int rank, n;
    struct step_net net, alone; /* alone: rank 0's */
    struct bucket bucket[BUCKETS_MOST];
    int buckets, steps, rounds;
    double load;
    double *waited;                  /* the ranks' last stretch, seconds by step */
    double peak[2];                  /* MiB of a rank: least, greatest */
    double time[KINDS][ROUNDS_MOST]; /* us a step */
    struct gyre_trouble trouble;
};

/* -- flags ------------------------------------------------------------------------------------- */

static const struct option flags[] = {{"layers", required_argument, NULL, 'l'},
                                      {"batch", required_argument, NULL, 'b'},
                                      {"ranks", required_argument, NULL, 'r'},
                                      {"rounds", required_argument, NULL, 'n'},
                                      {"steps", required_argument, NULL, 's'},
                                      {"optimizer", required_argument, NULL, 'o'},
                                      {"bucket", required_argument, NULL, 'u'},
                                      {"transport", required_argument, NULL, 't'},
                                      {"devices", required_argument, NULL, 'd'},
                                      {"device", required_argument, NULL, 'D'},
                                      {"csv", required_argument, NULL, 'c'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static int usage(void)
{
    char words[128];
    printf("usage: step [FLAG]...\n\n"
           "  --layers WIDTHS    inputs, hidden widths and outputs (784,500,10)\n"
           "  --batch N          samples of a rank (100)\n"
           "  --optimizer NAME   sgd or adam (sgd)\n"
           "  --ranks N          start so many here; without it, be one of a launcher's\n"
           "  --transport NAME   %s (auto)\n"
           "  --devices LIST     CUDA devices: local rank i takes entry i; 2,4,7\n"
           "  --bucket BYTES     what closes a bucket, such as 1M (the engine's choice)\n"
           "  --rounds N         times that all is measured in turns (9)\n"
           "  --steps N          of a stretch (as many as take 0.25 s, 4 at least)\n"
           "  --csv FILE         every round\n",
           gyre_link_words_text(words, sizeof words));
    return 0;
}

static int read_flag(int flag, const char *text, struct options *o, struct gyre_trouble *trouble)
{
    static const char *const memory[] = {"cpu"};
    const char *wires[GYRE_LINK_WORDS_MOST];
    int index = 0, status;
    switch (flag) {
    case 'l':
        o->layers = text;
        return gyre_mlp_parse("--layers", text, o->settings.width, STEP_WIDTHS_MOST,
                              &o->settings.widths, trouble);
    case 'b':
        return gyre_parse_int("--batch", text, 1, 1 << 24, &o->batch, trouble);
    case 'r':
        return gyre_parse_int("--ranks", text, 1, 1024, &o->ranks, trouble);
    case 'n':
        return gyre_parse_int("--rounds", text, 1, ROUNDS_MOST, &o->rounds, trouble);
    case 's':
        return gyre_parse_int("--steps", text, 1, STEPS_MOST, &o->steps, trouble);
    case 'u':
        return gyre_parse_size("--bucket", text, &o->settings.bucket, trouble);
    case 'o':
        status = gyre_parse_word("--optimizer", text, gyre_optimizer_names, 2, &index, trouble);
        o->settings.optimizer = (enum gyre_optimizer_kind)index;
        return status;
    case 't':
        o->transport = text;
        return gyre_parse_word("--transport", text, wires, gyre_link_words(wires), &index, trouble);
    case 'D': /* not an abbreviation of --devices; the other benches take cuda, too */
        return gyre_parse_word("--device", text, memory, 1, &index, trouble);
    case 'd':
        return setenv("GYRE_DEVICES", text, 1); /* gyre_init() reads it, in each rank */
    default:
        o->csv = text;
        return 0;
    }
}

/* -1: go on. Otherwise the exit code. */
static int read_flags(int argc, char **argv, struct options *o)
{
    struct gyre_trouble trouble = {0};
    int flag, status = 0;
    *o = (struct options){.rounds = 9, .batch = 100};
    read_flag('l', "784,500,10", o, &trouble);
    while (!status && (flag = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        if (flag == 'h')
            return usage();
        if (flag == '?')
            return EXIT_USAGE;
        status = read_flag(flag, optarg, o, &trouble);
    }
    o->settings.batch = (size_t)o->batch;
    const char *plant = getenv("GYRE_BENCH_PLANT");
    o->settings.plant = plant != NULL;
    if (!status && plant && strcmp(plant, "nan") != 0)
        status =
            gyre_trouble_set(&trouble, GYRE_INVALID, "GYRE_BENCH_PLANT is '%s', not nan", plant);
    if (!status && optind < argc)
        status = gyre_trouble_set(&trouble, GYRE_INVALID, "unexpected word '%s'", argv[optind]);
    if (!status)
        return -1;
    fprintf(stderr, "step: %s\n", trouble.text);
    return EXIT_USAGE;
}

/* -- what ranks do together -------------------------------------------------------------------- */

/* A failure of one rank reaches the others through their next call; whoever sees one ends. */
static void must(const struct step_bench *bench, int status, const char *text)
{
    if (status >= 0)
        return;
    fprintf(stderr, "step: rank %d: %s\n", bench->rank, *text ? text : gyre_error(bench->comm));
    exit(EXIT_LIBRARY);
}

static double agree(struct step_bench *bench, double value, enum gyre_op op)
{
    must(bench, gyre_all_reduce(bench->comm, &value, &value, 1, GYRE_F64, op), "");
    return value;
}

static void together(struct step_bench *bench)
{
    must(bench, gyre_barrier(bench->comm), "");
}

static double seconds_since(uint64_t ns)
{
    return (double)(gyre_now_ns() - ns) / 1e9;
}

/* -- what is timed: seconds of a step ---------------------------------------------------------- */

static double time_alone(struct step_bench *bench)
{
    double seconds = 0;
    together(bench);
    if (!bench->rank) {
        uint64_t since = gyre_now_ns();
        must(bench, step_net_run(&bench->alone, bench->steps, NULL), bench->alone.trouble.text);
        seconds = seconds_since(since);
    }
    together(bench);
    return seconds / bench->steps;
}

static double time_on(struct step_bench *bench)
{
    together(bench);
    uint64_t since = gyre_now_ns();
    must(bench, step_net_run(&bench->net, bench->steps, bench->waited), bench->net.trouble.text);
    return seconds_since(since) / bench->steps;
}

/* Of the stretch with communication. Who waits least is who came last: the rest of a wait is
 * skew. */
static double find_skew(struct step_bench *bench)
{
    double sum = 0;
    for (int i = 0; i < bench->steps; i++)
        sum += bench->waited[i];
    must(bench,
         gyre_all_reduce(bench->comm, bench->waited, bench->waited, (uint64_t)bench->steps,
                         GYRE_F64, GYRE_MIN),
         "");
    for (int i = 0; i < bench->steps; i++)
        sum -= bench->waited[i];
    return agree(bench, sum, GYRE_AVG) / bench->steps;
}

static double time_off(struct step_bench *bench)
{
    double seconds;
    together(bench);
    must(bench, step_net_run_silent(&bench->net, bench->steps, &seconds), bench->net.trouble.text);
    return seconds / bench->steps;
}

static void reduce_buckets(struct step_bench *bench)
{
    for (int b = 0; b < bench->buckets; b++) {
        struct bucket *bucket = &bench->bucket[b];
        must(bench,
             gyre_all_reduce_start(bench->comm, bucket->data, bucket->data,
                                   bucket->bytes / sizeof(float), GYRE_F32, GYRE_SUM,
                                   &bucket->work),
             "");
    }
    for (int b = 0; b < bench->buckets; b++)
        must(bench, gyre_work_wait(bench->bucket[b].work, -1), "");
}

static double time_bare(struct step_bench *bench)
{
    double seconds = 0;
    for (int i = 0; i < bench->steps; i++) {
        for (int b = 0; b < bench->buckets; b++)
            memset(bench->bucket[b].data, 0x38, bench->bucket[b].bytes);
        together(bench);
        uint64_t since = gyre_now_ns();
        reduce_buckets(bench);
        seconds += seconds_since(since);
    }
    return seconds / bench->steps;
}

static double (*const time_kind[KINDS])(struct step_bench *bench) = {time_alone, time_on, time_off,
                                                                     time_bare, find_skew};

/* -- before and behind ------------------------------------------------------------------------- */

static void get_buckets(struct step_bench *bench)
{
    struct bucket *bucket = bench->bucket;
    while (bench->buckets < BUCKETS_MOST && gyre_ddp_bucket(bench->net.replica.ddp, bench->buckets,
                                                            &bucket->bytes, &(int){0}) == 0) {
        must(bench, gyre_alloc(bench->comm, bucket->bytes, &bucket->data), "");
        bench->buckets++;
        bucket++;
    }
}

/* As many steps as fill a stretch, from rank 0's clock. */
static int choose_steps(struct step_bench *bench)
{
    if (bench->options.steps)
        return (int)bench->options.steps;
    bench->steps = STEPS_LEAST;
    double steps = STRETCH / agree(bench, time_on(bench), GYRE_MAX);
    bench->steps = steps > 64 ? 64 : STEPS_LEAST; /* short ones: the first look was at too few */
    steps = STRETCH / agree(bench, time_on(bench), GYRE_MAX);
    return steps < STEPS_LEAST ? STEPS_LEAST : steps > STEPS_MOST ? STEPS_MOST : (int)steps;
}

/* The peak is read before rank 0 makes its second model and anybody the bare buckets. */
static void prepare(struct step_bench *bench)
{
    const struct step_settings *settings = &bench->options.settings;
    must(bench, step_net_open(&bench->net, bench->comm, settings), bench->net.trouble.text);
    must(bench, step_net_run(&bench->net, WARM_UP, NULL), bench->net.trouble.text);
    double peak = (double)bench_machine_peak_bytes() / (1 << 20);
    bench->peak[0] = agree(bench, peak, GYRE_MIN);
    bench->peak[1] = agree(bench, peak, GYRE_MAX);
    must(bench, gyre_split(bench->comm, bench->rank, 0, &bench->own), "");
    if (!bench->rank) {
        must(bench, step_net_open(&bench->alone, bench->own, settings), bench->alone.trouble.text);
        must(bench, step_net_run(&bench->alone, WARM_UP, NULL), bench->alone.trouble.text);
    }
    get_buckets(bench);
    bench->steps = choose_steps(bench);
    bench->waited = calloc((size_t)bench->steps, sizeof *bench->waited);
    must(bench, bench->waited ? 0 : -ENOMEM, "no memory");
}

static void measure(struct step_bench *bench)
{
    for (; bench->rounds < bench->options.rounds; bench->rounds++)
        for (int kind = 0; kind < KINDS; kind++) {
            double seconds = time_kind[kind](bench);
            bench->time[kind][bench->rounds] = 1e6 * agree(bench, seconds, GYRE_MAX);
        }
}

/* -- telling ----------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double tell_kind(struct step_bench *bench, int kind)
{
    double *time = bench->time[kind];
    qsort(time, (size_t)bench->rounds, sizeof *time, by_value);
    double median = (time[(bench->rounds - 1) / 2] + time[bench->rounds / 2]) / 2;
    printf("  %-34s %10.1f %10.1f %10.1f\n", kind_text[kind], median, time[0],
           time[bench->rounds - 1]);
    return median;
}

static void tell_head(const struct step_bench *bench)
{
    const struct options *o = &bench->options;
    printf("# %s, batch %lld of a rank, %s; %d rank%s on %d node%s, transport %s; %s\n", o->layers,
           (long long)o->batch, gyre_optimizer_names[o->settings.optimizer], bench->n,
           bench->n > 1 ? "s" : "", gyre_nodes(bench->comm), gyre_nodes(bench->comm) > 1 ? "s" : "",
           o->transport ? o->transport : "auto", gyre_model_products(bench->net.replica.model));
    printf("# %.2f MiB of gradients in %d bucket%s; %d rounds of %d steps; load average at the "
           "start %.2f\n",
           (double)bench->net.weights * sizeof(float) / (1 << 20), bench->buckets,
           bench->buckets == 1 ? "" : "s", bench->rounds, bench->steps, bench->load);
    printf("# %-34s %10s %10s %10s\n", "us a step", "median", "least", "greatest");
}

static void tell(struct step_bench *bench)
{
    double t[KINDS], n = bench->n;
    tell_head(bench);
    for (int kind = 0; kind < KINDS; kind++)
        t[kind] = tell_kind(bench, kind);
    double scaling = n * t[ALONE] / t[ON], bound = n * t[ALONE] / (t[OFF] + t[BARE]);
    printf("# scaling %.3f, bound %.3f of %d; share of the bound %.1f %%\n", scaling, bound,
           bench->n, 100 * scaling / bound);
    printf("# exposed %.1f us, hidden %.1f %%\n", t[ON] - t[OFF],
           100 * (1 - (t[ON] - t[OFF]) / t[BARE]));
    printf("# peak memory of a rank %.2f MiB at least, %.2f at most\n", bench->peak[0],
           bench->peak[1]);
}

/* Before tell(), which sorts. */
static int write_csv(const struct step_bench *bench)
{
    FILE *file = bench->options.csv ? fopen(bench->options.csv, "we") : NULL;
    if (!bench->options.csv)
        return 0;
    if (file)
        fprintf(file, "round,alone_us,on_us,off_us,bare_us,skew_us\n");
    for (int i = 0; file && i < bench->rounds; i++)
        fprintf(file, "%d,%.3f,%.3f,%.3f,%.3f,%.3f\n", i + 1, bench->time[ALONE][i],
                bench->time[ON][i], bench->time[OFF][i], bench->time[BARE][i],
                bench->time[SKEW][i]);
    if (file && !fclose(file))
        return 0;
    fprintf(stderr, "step: --csv %s: %m\n", bench->options.csv);
    return EXIT_NONFINITE;
}

static int end(struct step_bench *bench)
{
    bool finite = bench->net.finite && (bench->rank || bench->alone.finite);
    bool well = agree(bench, finite, GYRE_MIN) > 0;
    int code = bench->rank ? 0 : write_csv(bench);
    if (!bench->rank)
        tell(bench);
    if (!well && !bench->rank)
        fprintf(stderr,
                "step: a loss or a gradient is not finite: these are no times of training\n");
    free(bench->waited);
    step_net_close(&bench->alone);
    step_net_close(&bench->net);
    must(bench, gyre_finalize(bench->comm), "gyre_finalize failed");
    return well ? code : EXIT_NONFINITE;
}

int main(int argc, char **argv)
{
    static struct step_bench bench;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    int code = read_flags(argc, argv, &bench.options);
    if (code >= 0)
        return code;
    if (bench.options.ranks)
        return bench_run_locally((int)bench.options.ranks, true, argc, argv);
    options.transport = bench.options.transport;
    if (gyre_init(&bench.comm, &options)) {
        fprintf(stderr, "step: gyre_init: %s\n", gyre_error(NULL));
        return EXIT_LIBRARY;
    }
    bench.rank = gyre_rank(bench.comm);
    bench.n = gyre_size(bench.comm);
    bench.load = bench_machine_load();
    prepare(&bench);
    measure(&bench);
    return end(&bench);
}
