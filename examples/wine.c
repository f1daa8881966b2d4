/* A classifier for 178 wines: a perceptron of 13 - 64 - 3, Adam, batches of 32 on every rank.
 *
 *     gyre run -n 2 build/examples/wine
 *     gyre run -n 2 --devices 0,1 build/examples/wine                 on GPUs
 *     sbatch --nodes=2 examples/train.sbatch build/examples/wine      under Slurm
 *
 * The data set is built in, split and scaled as scikit-learn does it. The sampler gives each row to
 * one rank, once in an epoch, in a new order in each; GYRE_TAIL_ONCE repeats none, so ranks may get
 * unequal numbers of rows, which is nothing that a program has to care for. */
#include "ranks.h"

#include <gyre/model.h>
#include <gyre/sampler.h>

#define BATCH    32
#define EPOCHS   100
#define FEATURES 13

static int train_epoch(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp,
                       struct gyre_samples *data, struct gyre_sampler *sampler, double *loss,
                       uint64_t *here)
{
    float x[BATCH * FEATURES];
    int64_t label[BATCH];
    uint64_t index[BATCH], count, rows = 0;
    for (*loss = 0, *here = 0; gyre_sampler_left(sampler) > 0; *here += count) {
        const uint64_t span = BATCH * (uint64_t)gyre_size(comm);
        if (gyre_sampler_next(sampler, span, index, BATCH, &count) ||
            gyre_samples_take(data, index, count, x, label) ||
            gyre_network_learn_classes(net, x, count, label) || gyre_ddp_wait(ddp) ||
            gyre_network_update(net, 1e-3))
            return -1;
        *loss += gyre_ddp_result(ddp)->sum[GYRE_NETWORK_LOSS];
        rows += gyre_ddp_result(ddp)->samples;
    }
    *loss /= (double)rows;
    return 0;
}

static int train(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp,
                 struct gyre_samples *data)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    struct gyre_sampler *sampler;
    uint64_t here = 0;
    double loss;
    options.samples = gyre_samples_count(data);
    options.rank = gyre_rank(comm);
    options.world = gyre_size(comm);
    options.tail = GYRE_TAIL_ONCE;
    int status = gyre_sampler_create(&sampler, &options);
    for (uint64_t epoch = 0; !status && epoch < EPOCHS; epoch++) {
        status = gyre_sampler_begin(sampler, epoch, 0);
        if (!status)
            status = train_epoch(comm, net, ddp, data, sampler, &loss, &here);
        if (!status && gyre_rank(comm) == 0 && epoch % 10 == 9)
            printf("epoch %3d  loss %.4f\n", (int)epoch + 1, loss);
    }
    gyre_sampler_destroy(sampler);
    return status ? status : print_ranks(comm, "rows of an epoch", here);
}

/* Each rank looks at every n-th row of the test set; the counts are summed. */
static int test(struct gyre_comm *comm, struct gyre_network *net, struct gyre_samples *data,
                double *accuracy)
{
    struct gyre_network_score score = {0};
    float x[FEATURES];
    int64_t label;
    for (uint64_t row = (uint64_t)gyre_rank(comm); row < gyre_samples_count(data);
         row += (uint64_t)gyre_size(comm))
        if (gyre_samples_take(data, &row, 1, x, &label) ||
            gyre_network_score_classes(net, x, 1, &label, &score))
            return -1;
    uint64_t sums[] = {score.right, score.samples};
    int status = gyre_all_reduce(comm, sums, sums, 2, GYRE_U64, GYRE_SUM);
    *accuracy = (double)sums[0] / (double)sums[1];
    return status;
}

int main(void)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_samples *training = NULL, *testing = NULL;
    struct gyre_network *net = NULL;
    struct gyre_comm *comm;
    struct gyre_ddp *ddp;
    double accuracy = 0;
    options.method = GYRE_NETWORK_ADAM;
    options.batch = BATCH;

    int failed = gyre_init(&comm, NULL);
    options.device = failed ? -1 : gyre_device(comm); /* -1: the CPU */
    failed = failed || gyre_samples_open(&training, "wine") ||
             gyre_samples_open(&testing, "wine:test") ||
             gyre_network_perceptron(&net, (const uint64_t[]){FEATURES, 64, 3}, 3, &options) ||
             gyre_network_join(net, comm, NULL, &ddp) || train(comm, net, ddp, training) ||
             test(comm, net, testing, &accuracy);
    if (failed) {
        fprintf(stderr, "wine: %s\n", gyre_error(NULL));
        gyre_abort(comm, "training failed"); /* ends it on all ranks */
    } else if (gyre_rank(comm) == 0)
        printf("%.1f %% of the test set are right\n", 100 * accuracy);
    gyre_network_destroy(net);
    gyre_samples_close(testing);
    gyre_samples_close(training);
    return gyre_finalize(comm) || failed || accuracy < 0.9;
}
