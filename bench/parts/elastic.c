/* What does a step of an elastic training cost above a plain one, while nobody comes or goes?
 *
 *     build/gyre run -n 2 build/bench/elastic [PRESET [STRETCHES [STEPS]]]
 *
 *     stretch 1: plain │ elastic     stretch 2: elastic │ plain     …      medians
 *
 * One set of processes takes the trainer's own steps in turns: with what an elastic step adds (it
 * asks who waits and who is to leave, tells it in its sums, and keeps the running means), and
 * without. The place where newcomers wait is open all the time. A stretch is STEPS steps, 100
 * unless told otherwise; its two halves follow each other, in turns the one and the other first, so
 * whatever else the machine does meets both alike. What counts is the ratio of the two halves, and
 * of these the median over all stretches, 101 unless told otherwise. A time is rank 0's. */
#include "base/clock.h"
#include "train/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRETCHES_MOST = 10001, WARM_UP = 50 };
enum { PLAIN, ELASTIC, KINDS };

struct elastic_bench {
    struct gyre_train t;
    struct gyre_train_options options;
    long stretches, steps;
    double us[KINDS][STRETCHES_MOST], ratio[STRETCHES_MOST];
};

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, long count)
{
    qsort(value, (size_t)count, sizeof *value, compare_numbers);
    return value[count / 2];
}

static int take_step(struct gyre_train *t)
{
    int status = gyre_train_step(t);
    if (status != GYRE_AGAIN)
        return status;
    t->epoch++;
    t->cursor = 0;
    return gyre_loader_begin(t->loader, t->epoch, 0, t->trouble);
}

static int take_steps(struct elastic_bench *bench, int kind, long steps, double *us)
{
    struct gyre_train *t = &bench->t;
    bench->options.elastic = kind == ELASTIC;
    int status = gyre_barrier(t->comm);
    const uint64_t begun = gyre_now_ns();
    for (long i = 0; !status && i < steps; i++)
        status = take_step(t);
    *us = (double)(gyre_now_ns() - begun) / 1e3 / (double)steps;
    bench->options.elastic = 1;
    return status;
}

static int measure(struct elastic_bench *bench)
{
    double ignored;
    int status = take_steps(bench, ELASTIC, WARM_UP, &ignored);
    for (long i = 0; !status && i < bench->stretches; i++) {
        for (int half = 0; !status && half < KINDS; half++) {
            const int kind = half ^ (int)(i & 1);
            status = take_steps(bench, kind, bench->steps, &bench->us[kind][i]);
        }
        bench->ratio[i] = bench->us[ELASTIC][i] / bench->us[PLAIN][i];
    }
    return status;
}

static void print_line(const char *what, const double us[KINDS])
{
    printf("%-17s %9.2f %11.2f  %+6.2f %%\n", what, us[PLAIN], us[ELASTIC],
           100 * (us[ELASTIC] / us[PLAIN] - 1));
}

/* On a busy machine the fast tenth of the stretches says more than their middle. */
static void print_result(struct elastic_bench *bench, const char *preset)
{
    const long n = bench->stretches;
    double middle[KINDS], fast[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        middle[kind] = median(bench->us[kind], n);
        fast[kind] = bench->us[kind][n / 10];
    }
    const double ratio = median(bench->ratio, n);
    printf("%-11s %d rank%s  plain us  elastic us     above\n", preset, bench->t.n,
           bench->t.n == 1 ? " " : "s");
    print_line("median", middle);
    print_line("fast tenth", fast);
    printf("median of ratios %32s%+.2f %%, half of them %+.2f to %+.2f %%\n", "", 100 * (ratio - 1),
           100 * (bench->ratio[n / 4] - 1), 100 * (bench->ratio[3 * n / 4] - 1));
}

static int open_training(struct elastic_bench *bench, const char *preset, struct gyre_comm **comm,
                         struct gyre_trouble *trouble)
{
    struct gyre_train *t = &bench->t;
    gyre_train_options_init(&bench->options);
    int status = gyre_train_option_preset(&bench->options, preset, trouble);
    if (!status)
        status = gyre_train_option_set(&bench->options, "elastic", "1", trouble);
    bench->options.test = NULL;
    if (status || (status = gyre_init(comm, NULL)))
        return status;
    t->comm = *comm;
    t->rank = gyre_rank(*comm);
    t->n = gyre_size(*comm);
    status = gyre_train_open(t);
    if (!status)
        status = gyre_train_let_wait(t);
    return status ? status : gyre_loader_begin(t->loader, 0, 0, trouble);
}

/* A number of the command line, from 1; `fallback` where there is none. */
static long read_count(char **argv, int argc, int at, long fallback)
{
    long value = argc > at ? strtol(argv[at], NULL, 10) : fallback;
    if (value >= 1 && value <= STRETCHES_MOST)
        return value;
    fprintf(stderr, "%s is no number from 1 to %d\n", argv[at], STRETCHES_MOST);
    exit(2);
}

int main(int argc, char **argv)
{
    static struct elastic_bench bench;
    struct gyre_train_outcome outcome = {0};
    struct gyre_trouble trouble = {0};
    struct gyre_comm *comm = NULL;
    const char *preset = argc > 1 ? argv[1] : "digits";
    bench.stretches = read_count(argv, argc, 2, 101);
    bench.steps = read_count(argv, argc, 3, 100);
    bench.t = (struct gyre_train){
        .owned = &comm, .options = &bench.options, .trouble = &trouble, .outcome = &outcome};
    int status = open_training(&bench, preset, &comm, &trouble);
    if (!status)
        status = measure(&bench);
    if (status < 0)
        fprintf(stderr, "elastic: %s%s\n", trouble.text, *trouble.text ? "" : gyre_error(comm));
    else if (bench.t.rank == 0)
        print_result(&bench, preset);
    gyre_train_close(&bench.t);
    return gyre_finalize(comm) || status < 0 ? 3 : 0;
}
