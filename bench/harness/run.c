/* One run of a bench:
 *
 *     flags ─▶ --ranks? start them and wait
 *           ─▶ gyre_init ─▶ buffers ─▶ header ─▶ for each type, operation or root: warm up, rows
 *           ─▶ share of the ceiling ─▶ footer
 *
 * With -g a process has several ranks, and all from "buffers" on is done by a thread for each.
 *
 * Every rank walks the same loops, so the ranks stay together by the collectives that they measure;
 * what they must agree on (times, counts of calls, wrong elements) goes through gyre as well. Rank
 * 0 alone prints. */
#include "harness/run.h"

#include "ceiling/ceiling.h"
#include "harness/buffers.h"
#include "harness/local.h"
#include "harness/measure.h"
#include "harness/pattern.h"
#include "harness/together.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUSY_LOAD 0.5

/* -- set-up ------------------------------------------------------------------------------------ */

/* The rules' word for what is measured; NULL: none, or an all-reduce, as the bench's own sums
 * are. */
static const char *operation_of(const struct bench_verb *verb)
{
    static const char *const operations[] = {"broadcast",  "reduce", "all_gather", "reduce_scatter",
                                             "all_to_all", "gather", "scatter"};
    const char *name = verb ? verb->name + strlen("gyre_") : "";
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        size_t length = strlen(operations[i]);
        const char *rest = name + length;
        if (!strncmp(name, operations[i], length) && (!*rest || !strcmp(rest, "_v"))) {
            return operations[i];
        }
    }
    return NULL;
}

/* A name alone would be for every operation, and the bench itself sums too. */
static void choose_algorithm(const char *name, const struct bench_verb *verb)
{
    const char *operation = operation_of(verb);
    char rule[256];
    if (!operation || strpbrk(name, ":;")) {
        setenv("GYRE_ALGO", name, 1);
        return;
    }
    snprintf(rule, sizeof rule, "%s:%s", operation, name);
    setenv("GYRE_ALGO", rule, 1);
}

static bool has_root(const struct bench_options *options, int n, bool speaks)
{
    if (options->root >= n && speaks) {
        fprintf(stderr, "gyre bench: -r %d: expected a rank from 0 to %d, or -1\n", options->root,
                n - 1);
    }
    return options->root < n;
}

/* The world is the environment's, or of this process alone. One communicator, or with -g all of
 * this process. */
static int open_world(const struct bench_options *flags, const struct bench_verb *verb, bool alone,
                      struct gyre_comm **comms)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    int ranks = alone ? 0 : flags->in_process;
    options.transport = flags->transport;
    if (alone) {
        options.rank = 0;
        options.world = 1;
    }
    if (flags->algorithm) {
        choose_algorithm(flags->algorithm, verb);
    }
    int status =
        ranks ? gyre_init_in_process(comms, ranks, NULL, &options) : gyre_init(comms, &options);
    if (status) {
        fprintf(stderr, "%s: %s\n", ranks ? "gyre_init_in_process" : "gyre_init", gyre_error(NULL));
    }
    return status ? bench_exit_code(status) : 0;
}

static int join(struct bench *bench, struct gyre_comm **comms)
{
    int code = bench_device_choose(bench);
    return code ? code : open_world(&bench->options, bench->verb, false, comms);
}

static int take_place(struct bench *bench, struct gyre_comm *comm)
{
    bench->comm = comm;
    bench->rank = gyre_rank(bench->comm);
    bench->n = gyre_size(bench->comm);
    bench->report.speaks = bench->rank == 0;
    bool is_rank = has_root(&bench->options, bench->n, bench->rank == 0);
    return is_rank ? 0 : bench_leave_with(bench, BENCH_EXIT_USAGE);
}

/* Asked for: then no two ranks share memory. */
static bool over_sockets(const struct bench *bench)
{
    const char *asked =
        bench->options.transport ? bench->options.transport : getenv("GYRE_TRANSPORT");
    return asked && strcmp(asked, "tcp") == 0;
}

static uint64_t *numbers(struct bench *bench)
{
    return bench_memory(bench, (size_t)bench->n * sizeof(uint64_t));
}

static void get_tables(struct bench *bench)
{
    bench->stretch = bench_memory(bench, (size_t)bench->n * sizeof *bench->stretch);
    bench->send = (struct bench_blocks){numbers(bench), numbers(bench)};
    bench->recv = (struct bench_blocks){numbers(bench), numbers(bench)};
}

static void free_tables(struct bench *bench)
{
    void *const tables[] = {bench->place,   bench->stretch,    bench->send.count,
                            bench->send.at, bench->recv.count, bench->recv.at};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        free(tables[i]);
    }
}

static void gather_places(struct bench *bench)
{
    size_t bytes = (size_t)bench->n * sizeof *bench->place;
    bench->place = bench_memory(bench, bytes);
    bench_machine_place(gyre_local_rank(bench->comm), &bench->place[bench->rank]);
    if (bench->device.is) {
        bench_machine_device(bench->device.index, bench->device.name, &bench->place[bench->rank]);
    }
    bench->place[bench->rank].node = over_sockets(bench) ? bench->rank : gyre_node(bench->comm);
    bench_sum(bench, bench->place, bytes, GYRE_U8);
}

static const char *or_auto(const char *text)
{
    return text && text[0] ? text : "auto";
}

/* What drives the links that are not shared memory, as rank 0 has them: "epoll", "none". */
static void name_poller(const struct bench *bench, char *text, size_t room)
{
    char link[64];
    snprintf(text, room, "none");
    for (int rank = 0; rank < bench->n; rank++) {
        bool known = gyre_link_name(bench->comm, rank, link, sizeof link) == GYRE_OK;
        if (known && strcmp(link, "none") != 0 && strncmp(link, "shm/", 4) != 0) {
            snprintf(text, room, "%s", strncmp(link, "tcp/", 4) == 0 ? link + 4 : link);
        }
    }
}

static void report_header(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    struct bench_report *report = &bench->report;
    double load = bench_machine_load();
    const char *reproducible = getenv("GYRE_REPRODUCIBLE");
    int version = gyre_version(), nodes = gyre_nodes(bench->comm);
    char poller[64];
    name_poller(bench, poller, sizeof poller);
    bench_report_settings(report, options);
    bench_report_places(report, bench->place, bench->n);
    bench_report_remark(report,
                        "gyre %d.%d.%d: %d rank%s on %d node%s, transport %s, algorithm %s%s",
                        version / 10000, version / 100 % 100, version % 100, bench->n,
                        bench->n == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
                        or_auto(options->transport ? options->transport : getenv("GYRE_TRANSPORT")),
                        or_auto(getenv("GYRE_ALGO")),
                        reproducible && strcmp(reproducible, "1") == 0 ? ", reproducible" : "");
    bench_report_remark(report, "poller %s, memory %s%s, %s", poller, options->cuda ? "cuda, " : "",
                        options->registered     ? "registered"
                        : options->plain_memory ? "malloc"
                                                : "gyre",
                        options->fresh
                            ? "fresh: above 4 KiB inputs are rewritten and outputs read between "
                              "calls"
                            : "hot: the same buffers in every call, back to back");
    bench_report_remark(report, "load average %.2f on %d cores%s", load, bench_machine_cores(),
                        load > BUSY_LOAD ? ": WARNING, the machine is not idle" : "");
    bench_report_columns(report);
}

/* -- rows -------------------------------------------------------------------------------------- */

static void keep_best(struct bench *bench, const struct bench_row *row)
{
    const double bus[2] = {row->out_of_place.bus_bw, row->in_place.bus_bw};
    for (int i = 0; i < 2; i++) {
        if (bus[i] > bench->best_bus[i]) {
            bench->best_bus[i] = bus[i];
        }
    }
}

/* The size of the next row; false behind the last. */
static bool advance(const struct bench *bench, uint64_t *bytes)
{
    return bench->verb->size != BENCH_SIZE_NONE && bench_next_size(&bench->options, bytes);
}

static uint64_t count_chosen(const bool *chosen, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += chosen[i];
    }
    return sum;
}

static uint64_t count_reductions(const struct bench_options *options)
{
    uint64_t pairs = 0;
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        for (int op = 0; op < BENCH_OPS; op++) {
            pairs += options->types[type] && options->ops[op] &&
                     bench_op_suits((enum gyre_type)type, (enum gyre_op)op);
        }
    }
    return pairs;
}

/* Sets the largest size too. */
static uint64_t count_rows(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    const struct bench_verb *verb = bench->verb;
    uint64_t sizes = 1, roots = verb->rooted && options->root < 0 ? (uint64_t)bench->n : 1;
    bench->largest = verb->size == BENCH_SIZE_NONE ? 0 : options->min_bytes;
    while (advance(bench, &bench->largest)) {
        sizes++;
    }
    return sizes * roots *
           (verb->reduces ? count_reductions(options)
                          : count_chosen(options->types, GYRE_TYPE_COUNT));
}

/* Looks how fast the machine is, in the middle and behind the last row. */
static void row_is_done(struct bench *bench)
{
    bench->rows_done++;
    if (bench->rows_done == bench->rows || bench->rows_done == bench->rows / 2) {
        bench_ceiling_sample(bench);
    }
}

static void run_sizes(struct bench *bench, const struct bench_call *call)
{
    uint64_t bytes = bench->verb->size == BENCH_SIZE_NONE ? 0 : bench->options.min_bytes;
    bench_warm_up(bench, call);
    do {
        struct bench_row row;
        bench_measure_row(bench, call, bytes, &row);
        bench_report_row(&bench->report, &row);
        if (bytes == bench->largest) {
            keep_best(bench, &row);
        }
        bench_row_release(&row);
        row_is_done(bench);
    } while (advance(bench, &bytes));
}

static void run_roots(struct bench *bench, struct bench_call call)
{
    const struct bench_options *options = &bench->options;
    bool each = bench->verb->rooted && options->root < 0;
    int first = each || !bench->verb->rooted ? 0 : options->root;
    for (call.root = first; call.root <= (each ? bench->n - 1 : first); call.root++) {
        run_sizes(bench, &call);
    }
}

/* With the scalar of this rank. */
static void run_scaled(struct bench *bench, struct bench_call call)
{
    uint64_t scalar;
    bench_pattern_scalar(call.type, bench->rank, &scalar);
    bench_must(bench, gyre_op_scaled(bench->comm, &scalar, call.type, &call.op), "gyre_op_scaled");
    run_roots(bench, call);
    bench_must(bench, gyre_op_free(bench->comm, call.op), "gyre_op_free");
}

static void run_ops(struct bench *bench, struct bench_call call)
{
    for (int op = 0; op < BENCH_OPS; op++) {
        call.op = call.reduction = (enum gyre_op)op;
        if (!bench->options.ops[op] || !bench_op_suits(call.type, call.op)) {
            continue;
        }
        if (call.op == BENCH_MULSUM) {
            run_scaled(bench, call);
        } else {
            run_roots(bench, call);
        }
    }
}

static void run_types(struct bench *bench)
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        struct bench_call call = {.type = (enum gyre_type)type};
        if (bench->options.types[type]) {
            if (bench->verb->reduces) {
                run_ops(bench, call);
            } else {
                run_roots(bench, call);
            }
        }
    }
}

/* -- main -------------------------------------------------------------------------------------- */

/* What every rank would refuse is refused once: a world of 1 reads the same settings and meets
 * nobody. */
static int try_settings(const struct bench_options *options, const struct bench_verb *verb)
{
    struct gyre_comm *alone;
    int each = options->in_process ? options->in_process : 1;
    if (!has_root(options, options->ranks * each, true)) {
        return BENCH_EXIT_USAGE;
    }
    int code = open_world(options, verb, true, &alone);
    if (code == 0) {
        gyre_finalize(alone);
    }
    return code;
}

static int start_ranks(const struct bench *bench, int argc, char **argv)
{
    const struct bench_options *options = &bench->options;
    const char *rank = getenv("RANK");
    if (rank) {
        fprintf(stderr,
                "--ranks %d: this is rank %s of a launcher already; leave one of the two out\n",
                options->ranks, rank);
        return BENCH_EXIT_USAGE;
    }
    int code = try_settings(options, bench->verb);
    return code ? code : bench_run_locally(options->ranks, options->in_process == 0, argc, argv);
}

/* Flags, and --ranks; -1 to go on, else the exit code. */
static int begin(int argc, char **argv, struct bench *bench)
{
    int asked = bench_options_read(argc, argv, bench->verb != NULL, &bench->options);
    if (asked) {
        return asked > 0 ? 0 : BENCH_EXIT_USAGE;
    }
    return bench->options.ranks > 0 ? start_ranks(bench, argc, argv) : -1;
}

/* What each rank needs for itself. */
static int furnish(int argc, char **argv, struct bench *bench, struct gyre_comm *comm)
{
    int code = take_place(bench, comm);
    if (code) {
        return code;
    }
    bool opened = bench_report_open(&bench->report, &bench->options, argc, argv);
    if (bench_agree(bench, opened, GYRE_MIN) == 0) {
        return bench_leave_with(bench, BENCH_EXIT_USAGE);
    }
    bench_buffers_get(bench);
    get_tables(bench);
    gather_places(bench);
    return -1;
}

int bench_enter(int argc, char **argv, struct bench *bench)
{
    struct gyre_comm *comm;
    int code = begin(argc, argv, bench);
    if (code >= 0) {
        return code;
    }
    if (bench->options.in_process) {
        fprintf(stderr, "gyre bench: -g: this bench has one rank in each process\n");
        return BENCH_EXIT_USAGE;
    }
    code = join(bench, &comm);
    return code ? code : furnish(argc, argv, bench, comm);
}

int bench_leave_with(struct bench *bench, int code)
{
    bench_together(bench); /* whoever waits for the ranks sees none end before rank 0 has spoken */
    free_tables(bench);
    bench_buffers_free(bench);
    int status = gyre_finalize(bench->comm);
    if (status) {
        fprintf(stderr, "rank %d: gyre_finalize: %s\n", bench->rank, gyre_status_name(status));
        return bench_exit_code(status);
    }
    return code;
}

int bench_leave(struct bench *bench, bool well)
{
    return bench_leave_with(bench, well ? 0 : BENCH_EXIT_WRONG);
}

/* -- one rank, or several ---------------------------------------------------------------------- */

struct rank_seat {
    struct bench bench;
    struct gyre_comm *comm;
    int argc, code;
    char **argv;
    pthread_t thread;
};

static void *run_rank(void *argument)
{
    struct rank_seat *seat = argument;
    struct bench *bench = &seat->bench;
    seat->code = furnish(seat->argc, seat->argv, bench, seat->comm);
    if (seat->code >= 0) {
        return NULL;
    }
    bench->rows = count_rows(bench);
    report_header(bench);
    bench_ceiling_sample(bench);
    run_types(bench);
    bench_ceiling_settle(bench);
    bool possible = bench_ceiling_report(bench);
    bool well = bench_report_close(&bench->report, NULL);
    seat->code = bench_leave(bench, well && possible);
    return NULL;
}

static int run_ranks(const struct bench *bench, struct gyre_comm **comms, int ranks, int argc,
                     char **argv)
{
    struct rank_seat *seat = calloc((size_t)ranks, sizeof *seat);
    int code = 0;
    for (int i = 0; seat && i < ranks; i++) {
        seat[i] = (struct rank_seat){.bench = *bench, .comm = comms[i], .argc = argc, .argv = argv};
        if (i > 0 && pthread_create(&seat[i].thread, NULL, run_rank, &seat[i])) {
            fprintf(stderr, "no thread for each of %d ranks\n", ranks);
            exit(BENCH_EXIT_WRONG);
        }
    }
    if (!seat) {
        return BENCH_EXIT_WRONG;
    }
    run_rank(&seat[0]);
    for (int i = 0; i < ranks; i++) {
        if (i > 0) {
            pthread_join(seat[i].thread, NULL);
        }
        code = code ? code : seat[i].code;
    }
    free(seat);
    return code;
}

int bench_main(int argc, char **argv, const struct bench_verb *verb)
{
    struct bench bench = {.verb = verb};
    struct gyre_comm *comms[BENCH_IN_PROCESS_MAX];
    int code = begin(argc, argv, &bench), ranks = bench.options.in_process;
    if (code >= 0) {
        return code;
    }
    code = join(&bench, comms);
    return code ? code : run_ranks(&bench, comms, ranks ? ranks : 1, argc, argv);
}
