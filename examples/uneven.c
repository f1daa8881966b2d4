/* Nodes of unequal size, and ranks of unequal strength: nothing has to be divided evenly.
 *
 *     gyre run --simulate-nodes 4+2 build/examples/uneven     two nodes played on this machine
 *     gyre run --hosts a:4,b:2 build/examples/uneven          two real ones
 *     gyre run --hosts a:4,b:2 --devices 0,1,2,3 build/examples/uneven      and their GPUs
 *
 * Rank, local rank, node and device come from whatever started the program. Here the ranks of the
 * last node are taken to be half as fast, so they get half as many of each step's 192 rows. The
 * mean is over rows and not over ranks: shares change who works, and never what is learnt. */
#include "ranks.h"

#include <gyre/model.h>
#include <gyre/sampler.h>

#define ROWS   1000
#define STEP   192 /* rows of all ranks together */
#define EPOCHS 10

/* y = 2 a - 3 b + 1 */
static void make_rows(const uint64_t *index, uint64_t count, float (*x)[2], float *target)
{
    for (uint64_t i = 0; i < count; i++) {
        x[i][0] = (float)(index[i] % 31) / 15 - 1;
        x[i][1] = (float)(index[i] % 17) / 8 - 1;
        target[i] = 2 * x[i][0] - 3 * x[i][1] + 1;
    }
}

/* A weight for each rank, the same list on all: every rank tells the others its own. */
static int share_out(struct gyre_comm *comm, double *shares)
{
    double mine = gyre_nodes(comm) > 1 && gyre_node(comm) == gyre_nodes(comm) - 1 ? 0.5 : 1;
    return gyre_all_gather(comm, &mine, shares, 1, GYRE_F64);
}

static int make_sampler(struct gyre_comm *comm, struct gyre_sampler **sampler)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    double *shares = calloc((size_t)gyre_size(comm), sizeof *shares);
    int status = shares ? share_out(comm, shares) : -1;
    options.samples = ROWS;
    options.rank = gyre_rank(comm);
    options.world = gyre_size(comm);
    options.tail = GYRE_TAIL_ONCE;
    options.shares = shares;
    options.step = STEP;
    if (!status)
        status = gyre_sampler_create(sampler, &options);
    free(shares);
    return status;
}

/* One epoch; *seen: rows of all ranks. A rank that is out of rows learns from none until all
 * are. */
static int train_epoch(struct gyre_network *net, struct gyre_ddp *ddp, struct gyre_sampler *sampler,
                       uint64_t *seen, uint64_t *here, double *loss)
{
    static float x[STEP][2], target[STEP];
    static uint64_t index[STEP];
    const struct gyre_ddp_result *step = gyre_ddp_result(ddp);
    uint64_t count;
    for (*seen = *here = 0, *loss = 0;; *here += count) {
        if (gyre_sampler_next(sampler, STEP, index, STEP, &count))
            return -1;
        make_rows(index, count, x, target);
        if (gyre_network_learn_targets(net, x[0], count, target) || gyre_ddp_wait(ddp))
            return -1;
        if (step->done)
            return 0;
        if (gyre_network_update(net, 0.1))
            return -1;
        *seen += step->samples;
        *loss += step->sum[GYRE_NETWORK_LOSS] / ROWS;
    }
}

static int train(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp,
                 struct gyre_sampler *sampler, uint64_t *seen, double *loss)
{
    uint64_t here = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        if (gyre_sampler_begin(sampler, epoch, 0) ||
            train_epoch(net, ddp, sampler, seen, &here, loss))
            return -1;
        if (gyre_rank(comm) == 0)
            printf("epoch %2d  %d rows  loss %.9f\n", (int)epoch + 1, (int)*seen, *loss);
    }
    return print_ranks(comm, "rows of an epoch", here);
}

int main(void)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_sampler *sampler = NULL;
    struct gyre_network *net = NULL;
    struct gyre_comm *comm;
    struct gyre_ddp *ddp;
    uint64_t seen = 0;
    double loss = 0;
    options.batch = STEP;

    int failed = gyre_init(&comm, NULL) || make_sampler(comm, &sampler);
    options.device = failed ? -1 : gyre_device(comm); /* -1: the CPU */
    failed = failed || gyre_network_perceptron(&net, (const uint64_t[]){2, 1}, 2, &options) ||
             gyre_network_join(net, comm, NULL, &ddp) ||
             train(comm, net, ddp, sampler, &seen, &loss);
    if (failed) {
        fprintf(stderr, "uneven: %s\n", gyre_error(NULL));
        gyre_abort(comm, "training failed"); /* ends it on all ranks */
    }
    gyre_network_destroy(net);
    gyre_sampler_destroy(sampler);
    return gyre_finalize(comm) || failed || seen != ROWS || loss > 0.05;
}
