/* Saving a network and going on from the file, on any number of ranks.
 *
 *     gyre run -n 4 build/examples/save_and_load net.safetensors
 *     gyre run -n 4 --devices 0,1,2,3 build/examples/save_and_load net.safetensors      on GPUs
 *     gyre inspect net.safetensors
 *     python3 -c 'import safetensors.torch as s; print(s.load_file("net.safetensors"))'
 *
 * One rank writes, for all have the same values. One rank has to read: gyre_network_join() gives
 * rank 0's values to all. The file is put in its place whole, so a crash leaves the old one. What a
 * long training needs beside the values (the optimiser's state, the place in the epoch, several
 * generations) is what checkpoints are for: resume.c. */
#include "ranks.h"

#include <gyre/model.h>

#define ROWS 64

static const uint64_t widths[] = {2, 16, 2};

/* Is a point above the curve? The same points on every rank, each rank learns every n-th. */
static void make_row(int i, float *x, int64_t *label)
{
    x[0] = (float)(i % 8) / 4 - 1;
    x[1] = (float)(i / 8) / 4 - 1;
    *label = x[1] > x[0] * x[0] - 0.5f;
}

static int rows_of(const struct gyre_comm *comm)
{
    return (ROWS - gyre_rank(comm) + gyre_size(comm) - 1) / gyre_size(comm);
}

static int train(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp, int steps)
{
    float x[ROWS][2];
    int64_t label[ROWS];
    uint64_t count = 0;
    for (int i = gyre_rank(comm); i < ROWS; i += gyre_size(comm), count++)
        make_row(i, x[count], &label[count]);
    for (int step = 0; step < steps; step++)
        if (gyre_network_learn_classes(net, x[0], count, label) || gyre_ddp_wait(ddp) ||
            gyre_network_update(net, 0.05))
            return -1;
    return 0;
}

/* Over all points, on every rank. */
static int score(struct gyre_network *net, struct gyre_network_score *score)
{
    float x[ROWS][2];
    int64_t label[ROWS];
    for (int i = 0; i < ROWS; i++)
        make_row(i, x[i], &label[i]);
    *score = (struct gyre_network_score){0};
    return gyre_network_score_classes(net, x[0], ROWS, label, score);
}

/* A network with a file's values (NULL: new ones) on all ranks, trained for a while. */
static int run(struct gyre_comm *comm, const char *load, const char *save,
               struct gyre_network_score *before, struct gyre_network_score *after)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_network *net;
    struct gyre_ddp *ddp;
    options.batch = ROWS;
    options.method = GYRE_NETWORK_ADAM;
    options.file = gyre_rank(comm) == 0 ? load : NULL;
    options.device = gyre_device(comm);       /* -1: the CPU */
    options.seed = (uint64_t)gyre_rank(comm); /* unequal, to show that rank 0's values reach all */

    int failed = gyre_network_perceptron(&net, widths, 3, &options) ||
                 gyre_network_join(net, comm, NULL, &ddp) || score(net, before) ||
                 train(comm, net, ddp, 50) || score(net, after) ||
                 (save && gyre_rank(comm) == 0 && gyre_network_save(net, save));
    gyre_network_destroy(net);
    return failed;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "net.safetensors";
    struct gyre_network_score start, saved, loaded, end;
    struct gyre_comm *comm;

    int failed = gyre_init(&comm, NULL) || run(comm, NULL, path, &start, &saved) ||
                 run(comm, path, NULL, &loaded, &end);
    if (failed) {
        fprintf(stderr, "save_and_load: %s\n", gyre_error(NULL));
        gyre_abort(comm, "training failed"); /* ends it on all ranks */
    } else if (gyre_rank(comm) == 0) {
        printf("                 loss  right of %d\n", ROWS);
        printf("at the start  %.6f  %5d\n", start.loss / ROWS, (int)start.right);
        printf("saved         %.6f  %5d\n", saved.loss / ROWS, (int)saved.right);
        printf("loaded        %.6f  %5d\n", loaded.loss / ROWS, (int)loaded.right);
        printf("at the end    %.6f  %5d\n", end.loss / ROWS, (int)end.right);
    }
    failed = failed || print_ranks(comm, "rows of a step", (uint64_t)rows_of(comm));
    failed = failed || saved.loss != loaded.loss || !(end.loss < start.loss);
    return gyre_finalize(comm) || failed;
}
