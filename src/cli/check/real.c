/* gyre show FILE --run, as one rank: two communicators of all ranks, one whose operations go by the
 * listed schedule and one by a known algorithm. Each runs in turns on the same inputs.
 *
 *     numbers   the listed count, against what the player (prove/play.h) says they must be
 *     bits      every size, OUTPUT of the one against OUTPUT of the other
 *     time      the lower quartile of blocks of calls that take turns
 *
 * A larger size is the same schedule with every element standing for many. Tested by
 * tests/program/cli/own.sh. */
#include "cli/check/listed.h"

#include "collectives/algorithms/table.h"
#include "collectives/comm/planned.h"
#include "collectives/prove/play.h"
#include "collectives/prove/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS      9
#define NUMBERS_MAX 16 /* of a rank that are printed */

enum { MINE, KNOWN, SIDES };

static const uint64_t larger_bytes[] = {UINT64_C(64) << 10, UINT64_C(1) << 20};

struct side {
    const struct gyre_algorithm *algorithm;
    struct gyre_comm *comm;
    uint8_t *output;
    double block_ns[BLOCKS], took_ns;
};

struct own_run {
    struct gyre_comm *comm;
    struct gyre_listed *listed;
    struct gyre_shape shape; /* of the size at hand */
    uint32_t rank;
    uint8_t *input;
    uint64_t in_bytes, out_bytes;
    struct side side[SIDES];
};

/* -- the numbers ------------------------------------------------------------------------------- */

static enum gyre_type type_of(uint32_t element)
{
    return element == 1 ? GYRE_U8 : element == 2 ? GYRE_U16 : element == 4 ? GYRE_U32 : GYRE_U64;
}

/* Little-endian, as every machine that Gyre builds for is. */
static uint64_t element_at(const uint8_t *buffer, uint32_t element, uint64_t i)
{
    uint64_t number = 0;
    memcpy(&number, buffer + i * element, element);
    return number;
}

static uint64_t wrapped(int64_t number, uint32_t element)
{
    return element == 8 ? (uint64_t)number : (uint64_t)number & ((UINT64_C(1) << 8 * element) - 1);
}

static void fill_own_input(const struct own_run *stage)
{
    uint32_t element = stage->listed->slice.element;
    for (uint64_t i = 0; i < stage->in_bytes / element; i++) {
        uint64_t number = (stage->rank + 1) * UINT64_C(100) + i % 100;
        memcpy(stage->input + i * element, &number, element);
    }
}

/* How many elements of this rank's OUTPUT are not what they must be. */
static int64_t count_wrong(const struct own_run *stage, const struct gyre_play *play)
{
    const struct gyre_slice *slice = &play->player[stage->rank].slice;
    int64_t wrong = 0;
    for (uint32_t block = 0; block < gyre_slice_blocks(slice, GYRE_OUTPUT); block++) {
        struct gyre_span span = gyre_slice_block(slice, GYRE_OUTPUT, block);
        for (uint64_t i = 0; i < span.bytes / slice->element; i++)
            wrong += element_at(stage->side[MINE].output + span.at, slice->element, i) !=
                     wrapped(gyre_play_expected(play, stage->rank, block, i), slice->element);
    }
    return wrong;
}

static int compare_with_play(const struct own_run *stage, int64_t *wrong)
{
    struct gyre_play play;
    int status = gyre_play_init(&play, stage->side[MINE].algorithm, &stage->listed->slice, NULL);
    if (status == 0)
        *wrong = count_wrong(stage, &play);
    gyre_play_deinit(&play);
    return status;
}

/* -- printing, by rank 0 ----------------------------------------------------------------------- */

static void print_outputs(const struct own_run *stage, const uint64_t *row, uint64_t numbers)
{
    uint64_t shown = numbers < NUMBERS_MAX ? numbers : NUMBERS_MAX;
    for (uint32_t rank = 0; rank < stage->listed->slice.n; rank++, row += 1 + NUMBERS_MAX) {
        printf("rank %-3u", rank);
        for (uint64_t i = 0; i < shown && *row != 0; i++)
            printf(" %6" PRIu64, row[1 + i]);
        puts(*row == 0 ? "      -" : numbers > shown ? " ..." : "");
    }
}

/* Rank 0 gets the first numbers of all, each behind a word that says whether the rank has any. */
static int show_numbers(const struct own_run *stage)
{
    const uint32_t n = stage->listed->slice.n, element = stage->listed->slice.element;
    uint64_t own[1 + NUMBERS_MAX] = {0}, numbers = stage->out_bytes / element;
    uint64_t *all = calloc((size_t)n * (1 + NUMBERS_MAX), sizeof *all);
    struct gyre_slice slice = stage->listed->slice;
    slice.rank = stage->rank;
    own[0] = gyre_slice_blocks(&slice, GYRE_OUTPUT) > 0;
    for (uint64_t i = 0; i < numbers && i < NUMBERS_MAX; i++)
        own[1 + i] = element_at(stage->side[MINE].output, element, i);
    int status =
        all != NULL ? gyre_gather(stage->comm, own, all, 1 + NUMBERS_MAX, GYRE_U64, 0) : -ENOMEM;
    if (status == 0 && stage->rank == 0)
        print_outputs(stage, all, numbers);
    free(all);
    return status;
}

static void print_times(const struct own_run *stage)
{
    uint64_t bytes = stage->shape.count * stage->listed->slice.element;
    if (stage->rank != 0)
        return;
    printf("%10" PRIu64, bytes);
    for (int i = 0; i < SIDES; i++)
        printf("%14.1f", stage->side[i].took_ns / 1e3);
    puts("");
    fflush(stdout);
}

/* -- running ----------------------------------------------------------------------------------- */

static double clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_block_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int time_calls(struct own_run *stage, struct side *side, int calls, double *ns)
{
    int status = gyre_barrier(stage->comm);
    double begun = clock_ns();
    for (int i = 0; status == 0 && i < calls; i++)
        status = gyre_comm_run_planned(side->comm, &stage->shape, stage->input, side->output);
    *ns = (clock_ns() - begun) / calls;
    return status;
}

static int time_sides(struct own_run *stage)
{
    int calls = stage->shape.count * stage->listed->slice.element > 65536 ? 3 : 20, status = 0;
    double took[SIDES];
    for (int block = 0; status == 0 && block < BLOCKS; block++)
        for (int i = 0; status == 0 && i < SIDES; i++)
            status = time_calls(stage, &stage->side[i], block == 0 ? 1 : calls,
                                &stage->side[i].block_ns[block]);
    for (int i = 0; i < SIDES; i++) {
        qsort(stage->side[i].block_ns, BLOCKS, sizeof(double), by_block_time);
        took[i] = stage->side[i].block_ns[BLOCKS / 4];
    }
    if (status == 0)
        status = gyre_all_reduce(stage->comm, took, took, SIDES, GYRE_F64, GYRE_MAX);
    for (int i = 0; i < SIDES; i++)
        stage->side[i].took_ns = took[i];
    return status;
}

/* Room for n blocks of the size, whatever the verb needs. */
static int make_buffers_of(struct own_run *stage, uint64_t scale)
{
    struct gyre_slice slice = stage->listed->slice;
    uint64_t block = slice.count * slice.element * scale;
    slice.rank = stage->rank;
    stage->listed->scale = scale;
    stage->shape.count = slice.count * scale;
    stage->in_bytes = block * gyre_slice_blocks(&slice, GYRE_INPUT);
    stage->out_bytes = block * gyre_slice_blocks(&slice, GYRE_OUTPUT);
    free(stage->input);
    stage->input = malloc(stage->in_bytes + 1);
    int status = stage->input != NULL ? 0 : -ENOMEM;
    for (int i = 0; i < SIDES; i++) {
        free(stage->side[i].output);
        stage->side[i].output = calloc(1, stage->out_bytes + 1);
        status = stage->side[i].output != NULL ? status : -ENOMEM;
    }
    if (status == 0)
        fill_own_input(stage);
    return status;
}

/* Ends alike on all ranks: what one finds wrong is everybody's. */
static int judge_outputs(struct own_run *stage, int64_t wrong, struct gyre_trouble *trouble)
{
    int status = gyre_all_reduce(stage->comm, &wrong, &wrong, 1, GYRE_I64, GYRE_SUM);
    if (status == 0 && wrong != 0)
        return gyre_trouble_set(trouble, GYRE_CORRUPT,
                                "%" PRId64 " elements of %" PRIu64 " on %u ranks are wrong", wrong,
                                stage->shape.count, stage->listed->slice.n);
    return status;
}

static int run_size(struct own_run *stage, uint64_t scale, struct gyre_trouble *trouble)
{
    int64_t wrong = 0;
    int status = make_buffers_of(stage, scale);
    if (status == 0)
        status = time_sides(stage);
    if (status == 0 && scale == 1)
        status = compare_with_play(stage, &wrong);
    if (status == 0)
        wrong += memcmp(stage->side[MINE].output, stage->side[KNOWN].output, stage->out_bytes) != 0;
    return status == 0 ? judge_outputs(stage, wrong, trouble) : status;
}

static int run_sizes(struct own_run *stage, struct gyre_trouble *trouble)
{
    uint64_t bytes = stage->listed->slice.count * stage->listed->slice.element, last = 1;
    int status = run_size(stage, 1, trouble);
    if (status == 0)
        status = show_numbers(stage);
    if (status == 0 && stage->rank == 0)
        printf("\nevery number is right: %s\n\n%10s%14s%11s us\n",
               gyre_verb_facts[stage->shape.verb].ending, "bytes", "yours us",
               stage->side[KNOWN].algorithm->name);
    if (status == 0)
        print_times(stage);
    for (size_t i = 0; status == 0 && i < sizeof larger_bytes / sizeof *larger_bytes; i++)
        if (bytes > 0 && larger_bytes[i] / bytes > last) {
            last = larger_bytes[i] / bytes;
            status = run_size(stage, last, trouble);
            if (status == 0)
                print_times(stage);
        }
    return status;
}

/* -- the job ----------------------------------------------------------------------------------- */

/* The ring, or the first algorithm that builds the operation. */
static const struct gyre_algorithm *known_algorithm(const struct gyre_slice *slice)
{
    const struct gyre_algorithm *ring = gyre_algorithm_find("ring");
    if (ring != NULL && gyre_algorithm_builds(ring, slice))
        return ring;
    for (int i = 0; gyre_algorithms[i] != NULL; i++)
        if (gyre_algorithm_builds(gyre_algorithms[i], slice))
            return gyre_algorithms[i];
    return NULL;
}

static int open_sides(struct own_run *stage)
{
    int status = 0;
    for (int i = 0; status == 0 && i < SIDES; i++) {
        status = gyre_split(stage->comm, 0, (int)stage->rank, &stage->side[i].comm);
        if (status == 0)
            gyre_comm_plan_by(stage->side[i].comm, stage->side[i].algorithm);
    }
    return status;
}

static void close_stage(struct own_run *stage)
{
    free(stage->input);
    for (int i = 0; i < SIDES; i++)
        free(stage->side[i].output);
}

int gyre_listed_run(struct gyre_listed *listed, struct gyre_trouble *trouble)
{
    const struct gyre_slice *slice = &listed->slice;
    struct own_run stage = {.listed = listed,
                            .shape = {.verb = slice->verb,
                                      .type = type_of(slice->element),
                                      .op = GYRE_SUM,
                                      .root = slice->root},
                            .side = {[MINE].algorithm = gyre_listed_algorithm(listed),
                                     [KNOWN].algorithm = known_algorithm(slice)}};
    int status = gyre_init(&stage.comm, NULL);
    if (status != 0)
        return gyre_trouble_set(trouble, status, "%s", gyre_error(NULL));
    stage.rank = (uint32_t)gyre_rank(stage.comm);
    if ((uint32_t)gyre_size(stage.comm) != slice->n)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "a schedule of %u ranks in a job of %d",
                                  slice->n, gyre_size(stage.comm));
    if (status == 0)
        status = open_sides(&stage);
    if (status == 0)
        status = run_sizes(&stage, trouble);
    if (status != 0 && trouble->text[0] == '\0')
        gyre_trouble_set(trouble, status, "%s: %s", gyre_status_name(status),
                         gyre_error(stage.comm));
    int end = gyre_finalize(stage.comm);
    close_stage(&stage);
    return status != 0 ? status : end;
}
