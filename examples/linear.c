/* Data-parallel training in its smallest form: one linear layer learns ten numbers from made-up
 * rows.
 *
 *     gyre run -n 2 build/examples/linear
 *
 * Rank r takes rows r, r + n, r + 2 n, … of each step. What is printed is the mean over all rows of
 * all ranks, so it is the same with any number of ranks, but for rounding. */
#include <gyre/model.h>

#include <stdio.h>

#define INPUTS 10
#define BATCH  100 /* rows of a step, of all ranks */

/* Column i of a row, spread evenly over -1.7 … 1.7, the same on whatever rank it is made. */
static float made_up(uint64_t row, uint64_t i)
{
    uint64_t mix = (row * INPUTS + i + 1) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ (mix >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)(mix >> 40) / (1 << 24) * 3.4f - 1.7f;
}

/* A step, on this rank's rows; of each is wanted 1 x0 + 2 x1 + … + 10 x9. */
static int learn(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp, int step)
{
    float x[BATCH][INPUTS], target[BATCH] = {0};
    uint64_t count = 0;
    for (int row = gyre_rank(comm); row < BATCH; row += gyre_size(comm), count++)
        for (int i = 0; i < INPUTS; i++) {
            x[count][i] = made_up((uint64_t)(step * BATCH + row), (uint64_t)i);
            target[count] += (float)(i + 1) * x[count][i];
        }
    return gyre_network_learn_targets(net, x[0], count, target) || gyre_ddp_wait(ddp) ||
           gyre_network_update(net, 0.01);
}

int main(void)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp = NULL;
    struct gyre_comm *comm;
    double loss = 0;
    options.batch = BATCH;
    int failed = gyre_init(&comm, NULL) ||
                 gyre_network_perceptron(&net, (const uint64_t[]){INPUTS, 1}, 2, &options) ||
                 gyre_network_join(net, comm, NULL, &ddp);
    for (int step = 1; !failed && step <= 100; step++) {
        failed = learn(comm, net, ddp, step);
        loss = gyre_ddp_result(ddp)->sum[GYRE_NETWORK_LOSS] / (double)gyre_ddp_result(ddp)->samples;
        if (gyre_rank(comm) == 0 && step % 10 == 0)
            printf("step %3d  loss %.6f\n", step, loss);
    }
    if (failed) {
        fprintf(stderr, "linear: %s\n", gyre_error(NULL));
        gyre_abort(comm, "training failed"); /* ends it on all ranks */
    }
    gyre_network_destroy(net);
    return gyre_finalize(comm) || failed || loss > 20; /* it began at about 400 */
}
