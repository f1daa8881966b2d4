/* One line per operation, and what follows from it: which elements a rank gives and receives.
 *
 *     BLOCK  [ own ]      BLOCKS  [ rank 0's | rank 1's | … ]      ROOT_…: rank 0 alone has it
 *
 * A size holds n blocks of a multiple of 16 bytes where one side has BLOCKS. Uneven blocks are
 * those of ../all_gather_v.c and ../all_to_all_v.c. */
#include "mpi_ops.h"

#include <string.h>

/* -- operations -------------------------------------------------------------------------------- */

static const void *source(const struct peer_bench *bench, bool here)
{
    return bench->in_place && here ? MPI_IN_PLACE : bench->input;
}

static void all_reduce(const struct peer_bench *bench)
{
    MPI_Allreduce(source(bench, true), bench->output, bench->count, MPI_FLOAT, MPI_SUM, WORLD);
}

static void broadcast(const struct peer_bench *bench)
{
    if (!bench->in_place && bench->rank == 0) {
        memcpy(bench->output, bench->input, bench->bytes);
    }
    MPI_Bcast(bench->output, bench->count, MPI_FLOAT, 0, WORLD);
}

static void reduce(const struct peer_bench *bench)
{
    MPI_Reduce(source(bench, bench->rank == 0), bench->output, bench->count, MPI_FLOAT, MPI_SUM, 0,
               WORLD);
}

static void all_gather(const struct peer_bench *bench)
{
    MPI_Allgather(source(bench, true), bench->count, MPI_FLOAT, bench->output, bench->count,
                  MPI_FLOAT, WORLD);
}

static void all_gather_v(const struct peer_bench *bench)
{
    MPI_Allgatherv(source(bench, true), bench->gives, MPI_FLOAT, bench->output, bench->table[2],
                   bench->table[3], MPI_FLOAT, WORLD);
}

static void reduce_scatter(const struct peer_bench *bench)
{
    MPI_Reduce_scatter_block(source(bench, true), bench->output, bench->count, MPI_FLOAT, MPI_SUM,
                             WORLD);
}

static void all_to_all(const struct peer_bench *bench)
{
    MPI_Alltoall(source(bench, true), bench->count, MPI_FLOAT, bench->output, bench->count,
                 MPI_FLOAT, WORLD);
}

static void all_to_all_v(const struct peer_bench *bench)
{
    MPI_Alltoallv(bench->input, bench->table[0], bench->table[1], MPI_FLOAT, bench->output,
                  bench->table[2], bench->table[3], MPI_FLOAT, WORLD);
}

static void gather(const struct peer_bench *bench)
{
    MPI_Gather(source(bench, bench->rank == 0), bench->count, MPI_FLOAT, bench->output,
               bench->count, MPI_FLOAT, 0, WORLD);
}

static void scatter(const struct peer_bench *bench)
{
    bool stays = bench->in_place && bench->rank == 0;
    MPI_Scatter(bench->input, bench->count, MPI_FLOAT, stays ? MPI_IN_PLACE : bench->output,
                bench->count, MPI_FLOAT, 0, WORLD);
}

static void barrier(const struct peer_bench *bench)
{
    (void)bench;
    MPI_Barrier(WORLD);
}

static void sendrecv(const struct peer_bench *bench)
{
    int next = (bench->rank + 1) % bench->n, before = (bench->rank + bench->n - 1) % bench->n;
    MPI_Sendrecv(bench->input, bench->count, MPI_FLOAT, next, 0, bench->output, bench->count,
                 MPI_FLOAT, before, 0, WORLD, MPI_STATUS_IGNORE);
}

static const struct op ops[] = {
    {"all_reduce", BLOCK, BLOCK, false, true, false, all_reduce},
    {"broadcast", ROOT_BLOCK, BLOCK, true, false, false, broadcast},
    {"reduce", BLOCK, ROOT_BLOCK, true, true, false, reduce},
    {"all_gather", BLOCK, BLOCKS, false, false, false, all_gather},
    {"all_gather_v", UNEVEN, BLOCKS, false, false, false, all_gather_v},
    {"reduce_scatter", BLOCKS, BLOCK, false, true, false, reduce_scatter},
    {"all_to_all", BLOCKS, BLOCKS, false, false, false, all_to_all},
    {"all_to_all_v", BLOCKS, BLOCKS, false, false, true, all_to_all_v},
    {"gather", BLOCK, ROOT_BLOCKS, true, false, false, gather},
    {"scatter", ROOT_BLOCKS, BLOCK, true, false, false, scatter},
    {"barrier", NOTHING, NOTHING, false, false, true, barrier},
    {"sendrecv", BLOCK, BLOCK, false, false, true, sendrecv},
};

static bool has_blocks(const struct op *op)
{
    return op->gives == BLOCKS || op->gets == BLOCKS || op->gives == ROOT_BLOCKS ||
           op->gets == ROOT_BLOCKS;
}

/* -- who has what ------------------------------------------------------------------------------ */

static int elements(const struct peer_bench *bench, enum shape shape)
{
    int root = bench->rank == 0, all = bench->count * bench->n;
    switch (shape) {
    case BLOCK:
        return bench->count;
    case BLOCKS:
        return all;
    case ROOT_BLOCK:
        return root * bench->count;
    case ROOT_BLOCKS:
        return root * all;
    case UNEVEN:
        return bench->table[2][bench->rank];
    default:
        return 0;
    }
}

/* As ../all_gather_v.c and ../all_to_all_v.c share the data out. */
static int uneven_start(const struct peer_bench *bench, int rank)
{
    return (int)((int64_t)bench->count * rank * (rank + 1) / (bench->n + 1));
}

static int uneven(const struct peer_bench *bench, int index)
{
    return uneven_start(bench, index % bench->n + 1) - uneven_start(bench, index % bench->n);
}

static void share(struct peer_bench *bench)
{
    bool to_all = bench->op->call == all_to_all_v;
    for (int peer = 0, at = 0; peer < bench->n; peer++) {
        int count = uneven(bench, to_all ? bench->rank + peer : peer);
        for (int way = 0; way < 2; way++) {
            bench->table[2 * way][peer] = count; /* what a pair exchanges is the same both ways */
            bench->table[2 * way + 1][peer] = at;
        }
        at += count;
    }
}

void op_aim(struct peer_bench *bench, uint64_t bytes, bool in_place)
{
    uint64_t count = bytes / sizeof(float), n = (uint64_t)bench->n;
    const struct op *op = bench->op;
    bench->in_place = in_place;
    bench->count = (int)(has_blocks(op) ? count / n / 4 * 4 : count);
    bench->bytes = sizeof(float) * (uint64_t)bench->count * (has_blocks(op) ? n : 1);
    share(bench);
    bench->gives = elements(bench, op->gives);
    bench->gets = elements(bench, op->gets);
    bench->output = bench->out_buffer;
    bench->input = in_place ? bench->output : bench->in_buffer;
    bool own_block = op->call == all_gather || op->call == gather;
    if (in_place && (own_block || op->gives == UNEVEN)) {
        bench->input += own_block ? bench->rank * bench->count : bench->table[3][bench->rank];
    }
    if (in_place && op->call == scatter) { /* the root's output is where its block lies already */
        bench->output += bench->rank * bench->count;
    }
}

/* -- what must arrive -------------------------------------------------------------------------- */

float op_value(const struct peer_bench *bench, int rank, int64_t index)
{
    return (float)((index * 7 + rank * 13 + bench->turn) % 1021);
}

static float sum(const struct peer_bench *bench, int64_t index)
{
    float total = 0; /* of small whole numbers: exact */
    for (int rank = 0; rank < bench->n; rank++) {
        total += op_value(bench, rank, index);
    }
    return total;
}

static float expected_uneven(const struct peer_bench *bench, int index)
{
    int from = bench->n - 1, first = 0;
    while (bench->table[3][from] > index) {
        from--;
    }
    for (int rank = 0; rank < bench->rank && bench->op->call == all_to_all_v; rank++) {
        first += uneven(bench, from + rank);
    }
    return op_value(bench, from, first + index - bench->table[3][from]);
}

float op_expected(const struct peer_bench *bench, int index)
{
    const struct op *op = bench->op;
    int64_t own =
        op->gives == BLOCKS || op->gives == ROOT_BLOCKS ? (int64_t)bench->rank * bench->count : 0;
    if (op->sums) {
        return sum(bench, own + index);
    }
    if (op->call == all_gather_v || op->call == all_to_all_v) {
        return expected_uneven(bench, index);
    }
    if (op->gets == BLOCKS || op->gets == ROOT_BLOCKS) {
        return op_value(bench, index / bench->count, own + index % bench->count);
    }
    int from = op->call == sendrecv ? (bench->rank + bench->n - 1) % bench->n : 0;
    return op_value(bench, from, own + index);
}

const struct op *op_find(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return &ops[i];
        }
    }
    return NULL;
}
