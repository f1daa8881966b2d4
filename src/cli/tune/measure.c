/* gyre tune, as a rank: all-reduces whose algorithm is known, because GYRE_ALGO names one for each
 * size, are timed in turns, and prices fitted to the times (collectives/choose/fit.h).
 *
 *     size       8       24            72         136, 1536, 3072  4096             …
 *     rules  direct:-16; doubling:-48; ring:-104; direct:-3584;    doubling:-4128;  …
 *
 * with one slice and one lane.
 *
 * On shared memory direct is one pass over mapped memory, and the others go over the rings; with
 * two ranks they too become one pass, so the rings stay unpriced. Tested by
 * tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

#include "base/machine/load.h"
#include "collectives/choose/limits.h"
#include "collectives/schedule/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS        11
#define BLOCKS_LEAST  3
#define BLOCK_NS_MOST 2e7 /* about, of one block */
#define TRIAL_NS_MOST 1e9 /* about, of all its blocks, where each is a single call */

/* Adds a rule for each run of sizes with one algorithm, up to the middle before the next. */
static void write_rules(char *rules, size_t size)
{
    size_t length = 0;
    for (const struct gyre_tune_trial *trial = gyre_tune_trial; trial->algorithm; trial++) {
        const struct gyre_tune_trial *next = trial + 1;
        if (!next->algorithm)
            snprintf(rules + length, size - length, "%s", trial->algorithm);
        else if (strcmp(trial->algorithm, next->algorithm))
            length += (size_t)snprintf(rules + length, size - length, "%s:-%llu;", trial->algorithm,
                                       (unsigned long long)(trial->bytes + next->bytes) / 2);
    }
}

static void settle_environment(void)
{
    char rules[512] = "";
    write_rules(rules, sizeof rules);
    setenv("GYRE_ALGO", rules, 1);
    setenv("GYRE_SLICE", "64M", 1);
    setenv("GYRE_LANES", "1", 1);
    unsetenv("GYRE_REPRODUCIBLE");
    unsetenv("GYRE_TUNE_FILE");
}

/* -- who is where ------------------------------------------------------------------------------ */

/* Do all ranks have this rank's host name? */
static int one_machine(struct gyre_tune_scene *scene, bool *same)
{
    char host[256] = "";
    int64_t hash[2] = {0, 0};
    gethostname(host, sizeof host - 1);
    for (const char *c = host; *c; c++)
        hash[0] = (hash[0] * 31 + (unsigned char)*c) & 0xffffffff;
    hash[1] = -hash[0];
    int status = gyre_all_reduce(scene->comm, hash, hash, 2, GYRE_I64, GYRE_MAX);
    *same = hash[0] == -hash[1];
    return status;
}

static int lay_out_scene(struct gyre_tune_scene *scene, struct gyre_trouble *trouble)
{
    uint32_t *node = calloc(scene->n, sizeof *node);
    bool same;
    int status = node ? one_machine(scene, &same) : -ENOMEM;
    if (!status) {
        node[gyre_rank(scene->comm)] = (uint32_t)gyre_node(scene->comm);
        status = gyre_all_reduce(scene->comm, node, node, scene->n, GYRE_I32, GYRE_SUM);
        scene->far = same ? GYRE_LINK_LOOPBACK : GYRE_LINK_NETWORK;
    }
    if (!status && gyre_nodes(scene->comm) > 1)
        status = gyre_layout_create(node, scene->n, &scene->layout, trouble);
    scene->mapped = !scene->layout && scene->n <= GYRE_PEERS_MAPPED_MAX;
    if (!status)
        gyre_tune_list(scene);
    free(node);
    return status;
}

/* -- times ------------------------------------------------------------------------------------- */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t trial_bytes(const struct gyre_tune_scene *scene, int trial)
{
    return scene->trial[trial]->bytes;
}

/* How many calls a block has, where a call is short. On mapped memory there are more, until the way
 * to store is found. */
static int block_calls(const struct gyre_tune_scene *scene, uint64_t bytes)
{
    int most = scene->mapped ? 24 : 8;
    return bytes > 65536 ? most : bytes > 8192 ? 40 : 200;
}

static int call_once(const struct gyre_tune_scene *scene, uint64_t bytes)
{
    return gyre_all_reduce(scene->comm, scene->input, scene->output, bytes / 4, GYRE_F32, GYRE_SUM);
}

/* How many calls before a block are not timed. Inside a machine they bring buffers back into the
 * caches, which other trials have emptied; over sockets one call does. */
static int warm_calls(const struct gyre_tune_scene *scene, int calls)
{
    if (scene->mapped)
        return calls;
    return scene->far == GYRE_LINK_LOOPBACK;
}

static int time_block(struct gyre_tune_scene *scene, uint64_t bytes, int calls, double *ns)
{
    int status = 0;
    for (int i = warm_calls(scene, calls); !status && i > 0; i--)
        status = call_once(scene, bytes);
    if (!status)
        status = gyre_barrier(scene->comm);
    double begun = now_ns();
    for (int i = 0; !status && i < calls; i++)
        status = call_once(scene, bytes);
    *ns = (now_ns() - begun) / calls;
    return status;
}

/* How a trial is timed. */
struct repeats {
    int calls; /* of a block */
    int blocks;
};

static struct repeats repeats_of(const struct gyre_tune_scene *scene, int trial, double call_ns)
{
    struct repeats repeat = {.calls = block_calls(scene, trial_bytes(scene, trial)),
                             .blocks = BLOCKS};
    if (repeat.calls * call_ns > BLOCK_NS_MOST)
        repeat.calls = 1 + (int)(BLOCK_NS_MOST / call_ns);
    double block_ns = call_ns * (1 + warm_calls(scene, 1));
    if (BLOCKS * block_ns > TRIAL_NS_MOST)
        repeat.blocks = (int)(TRIAL_NS_MOST / block_ns);
    if (repeat.blocks < BLOCKS_LEAST)
        repeat.blocks = BLOCKS_LEAST;
    return repeat;
}

/* A few calls warm up and say how many make a block: on a loaded machine, where ranks wait for
 * cores, or a slow network, fewer. All ranks settle on the same numbers. */
static int settle_repeats(struct gyre_tune_scene *scene,
                          struct repeats repeat[GYRE_TUNE_TRIALS_MAX])
{
    double took_ns[GYRE_TUNE_TRIALS_MAX];
    int status = 0;
    for (int t = 0; !status && t < scene->trials; t++)
        status = time_block(scene, trial_bytes(scene, t),
                            1 + block_calls(scene, trial_bytes(scene, t)) / 20, &took_ns[t]);
    if (!status)
        status = gyre_all_reduce(scene->comm, took_ns, took_ns, (uint64_t)scene->trials, GYRE_F64,
                                 GYRE_MAX);
    for (int t = 0; !status && t < scene->trials; t++)
        repeat[t] = repeats_of(scene, t, took_ns[t]);
    return status;
}

/* The lower quartile of blocks that take turns, so that a busy moment meets all trials and counts
 * little; then the mean over ranks. */
static int time_all(struct gyre_tune_scene *scene)
{
    double block[GYRE_TUNE_TRIALS_MAX][BLOCKS];
    struct repeats repeat[GYRE_TUNE_TRIALS_MAX];
    int status = settle_repeats(scene, repeat);
    for (int b = 0; !status && b < BLOCKS; b++)
        for (int t = 0; !status && t < scene->trials; t++)
            if (b < repeat[t].blocks)
                status = time_block(scene, trial_bytes(scene, t), repeat[t].calls, &block[t][b]);
    for (int t = 0; !status && t < scene->trials; t++) {
        qsort(block[t], (size_t)repeat[t].blocks, sizeof **block, by_time);
        scene->took_ns[t] = block[t][repeat[t].blocks / 4];
    }
    return status ? status
                  : gyre_all_reduce(scene->comm, scene->took_ns, scene->took_ns,
                                    (uint64_t)scene->trials, GYRE_F64, GYRE_AVG);
}

/* What disturbed any of the ranks meanwhile, told alike on all. */
static int gather_load(struct gyre_tune_scene *scene, const struct gyre_load *own,
                       struct gyre_measured *measured)
{
    struct gyre_load *load = calloc(scene->n, sizeof *load);
    int status = load ? gyre_all_gather(scene->comm, own, load, sizeof *own, GYRE_U8) : -ENOMEM;
    if (!status)
        gyre_load_tell(load, (int)scene->n, measured->load, sizeof measured->load);
    free(load);
    return status;
}

static int time_under_watch(struct gyre_tune_scene *scene, struct gyre_measured *measured)
{
    static struct gyre_load_look before, after;
    struct gyre_load own;
    gyre_load_look("", &before);
    int status = time_all(scene);
    gyre_load_look("", &after);
    gyre_load_between("", &before, &after, &own);
    return status ? status : gather_load(scene, &own, measured);
}

/* Memory that nobody has written is one page of a virtual machine's host, however long it is, and
 * in the nearest cache. */
static void write_ones(float *memory, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / sizeof *memory; i++)
        memory[i] = 1;
}

static int get_buffers(struct gyre_tune_scene *scene)
{
    void *memory;
    const uint64_t largest = trial_bytes(scene, scene->trials - 1);
    int status = gyre_alloc(scene->comm, 2 * largest, &memory);
    scene->input = memory;
    scene->output = scene->input + largest;
    if (!status)
        write_ones(memory, 2 * largest);
    return status;
}

static int measure_scene(struct gyre_tune_scene *scene, struct gyre_measured *measured,
                         struct gyre_trouble *trouble)
{
    int status = lay_out_scene(scene, trouble);
    if (!status)
        status = get_buffers(scene);
    if (!status)
        status = time_under_watch(scene, measured);
    if (!status)
        status = gyre_tune_price(scene, measured);
    return status;
}

/* Says on all ranks whether rank 0 could write the file. */
static int agree_on_file(const struct gyre_tune_scene *scene, const char *path, bool *writable,
                         struct gyre_trouble *trouble)
{
    int refused = gyre_rank(scene->comm) ? 0 : gyre_tune_check(path, trouble);
    int32_t fine = !refused;
    int status = gyre_all_reduce(scene->comm, &fine, &fine, 1, GYRE_I32, GYRE_MIN);
    *writable = fine;
    if (status && !refused)
        gyre_trouble_set(trouble, status, "%s: %s", gyre_status_name(status),
                         gyre_error(scene->comm));
    return refused ? refused : status;
}

int gyre_tune_measure(const char *path, struct gyre_measured *measured, int *rank,
                      struct gyre_trouble *trouble)
{
    struct gyre_tune_scene scene = {0};
    bool writable = false;
    settle_environment();
    int status = gyre_init(&scene.comm, NULL);
    if (status)
        return gyre_trouble_set(trouble, status, "%s", gyre_error(NULL));
    scene.n = (uint32_t)gyre_size(scene.comm);
    *rank = gyre_rank(scene.comm);
    *measured = (struct gyre_measured){.ranks = (int)scene.n, .nodes = gyre_nodes(scene.comm)};
    if (scene.n < 2)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "one rank alone has no links: start more with -n, as in `gyre "
                                  "tune -n 4`, or under a launcher");
    if (!status)
        status = agree_on_file(&scene, path, &writable, trouble);
    if (!status && writable && (status = measure_scene(&scene, measured, trouble)))
        gyre_trouble_set(trouble, status, "%s: %s", gyre_status_name(status),
                         gyre_error(scene.comm));
    gyre_layout_destroy(scene.layout);
    int end = gyre_finalize(scene.comm);
    return status ? status : end;
}
