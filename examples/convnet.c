/* A small convolutional network that reads digits: MNIST's where its files are, else made-up ones.
 *
 *     gyre run -n 2 build/examples/convnet
 *     gyre run -n 2 build/examples/convnet train-images-idx3-ubyte.gz
 *
 * The labels are found beside the images by their usual name. Made-up digits are those of a clock
 * with seven bars, moved about and with noise. */
#include <gyre/model.h>
#include <gyre/sampler.h>

#include <stdio.h>
#include <string.h>

#define SIDE    28
#define PIXELS  (SIDE * SIDE)
#define BATCH   32
#define EPOCHS  2
#define MADE_UP 1280 /* digits */

/* -- digits ------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t z)
{
    z = (z + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 31)) * 0x94d049bb133111ebu >> 32;
}

static void bar(float *image, uint64_t x, uint64_t y, uint64_t width, uint64_t height)
{
    for (uint64_t row = y; row < y + height; row++)
        for (uint64_t column = x; column < x + width; column++)
            image[row * SIDE + column] = 1;
}

/* The same on every rank: all of it follows from the index. */
static void draw(uint64_t index, float *image, int64_t *label)
{
    static const unsigned char lit[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e,
                                          0x6b, 0x7b, 0x25, 0x7f, 0x6f};
    const uint64_t x = 4 + mix(index) % 10, y = 2 + mix(index ^ 1u << 20) % 6;
    *label = (int64_t)(mix(index ^ 1u << 21) % 10);
    for (uint64_t i = 0; i < PIXELS; i++)
        image[i] = (float)(mix(index * PIXELS + i) % 100) / 400;
    for (unsigned which = 0; which < 7; which++)
        if (lit[*label] >> which & 1) {
            if (which % 3 == 0) /* the three that lie: above, in the middle, below */
                bar(image, x, y + which / 3 * 8, 10, 2);
            else /* left and right, above and below */
                bar(image, x + (which % 3 == 2 ? 8 : 0), y + which / 3 * 8, 2, 10);
        }
}

static int take(const struct gyre_samples *files, const uint64_t *index, uint64_t count, float *x,
                int64_t *label)
{
    if (files)
        return gyre_samples_take(files, index, count, x, label);
    for (uint64_t i = 0; i < count; i++)
        draw(index[i], x + i * PIXELS, label + i);
    return 0;
}

/* -- training ---------------------------------------------------------------------------------- */

static int step(struct gyre_network *net, struct gyre_ddp *ddp, const struct gyre_samples *files,
                const uint64_t *index, uint64_t count)
{
    static float x[BATCH * PIXELS];
    int64_t label[BATCH];
    return take(files, index, count, x, label) ||
           gyre_network_learn_classes(net, x, count, label) || gyre_ddp_wait(ddp) ||
           gyre_network_update(net, 0.01);
}

static int train(struct gyre_comm *comm, struct gyre_network *net, struct gyre_ddp *ddp,
                 const struct gyre_samples *files, struct gyre_sampler *sampler, double *accuracy)
{
    const uint64_t n = (uint64_t)gyre_size(comm);
    uint64_t index[BATCH], count, steps = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        double right = 0, samples = 0;
        int status = gyre_sampler_begin(sampler, epoch, 0);
        while (!status && gyre_sampler_left(sampler) > 0) {
            status = gyre_sampler_next(sampler, BATCH * n, index, BATCH, &count) ||
                     step(net, ddp, files, index, count);
            const struct gyre_ddp_result *result = gyre_ddp_result(ddp);
            right += result->sum[GYRE_NETWORK_RIGHT];
            samples += (double)result->samples;
            if (!status && gyre_rank(comm) == 0 && steps++ % 10 == 0)
                printf("step %4d  loss %.4f\n", (int)steps,
                       result->sum[GYRE_NETWORK_LOSS] / (double)result->samples);
        }
        if (status)
            return -1;
        *accuracy = right / samples;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_sampler_options order = GYRE_SAMPLER_OPTIONS_INIT;
    struct gyre_samples *files = NULL;
    struct gyre_sampler *sampler = NULL;
    struct gyre_network *net = NULL;
    struct gyre_comm *comm;
    struct gyre_ddp *ddp;
    double accuracy = 0;
    options.batch = BATCH;
    options.momentum = 0.9;

    int failed = gyre_init(&comm, NULL) || (argc > 1 && gyre_samples_open(&files, argv[1]));
    order.samples = files ? gyre_samples_count(files) : MADE_UP;
    order.rank = gyre_rank(comm);
    order.world = gyre_size(comm);
    order.tail = GYRE_TAIL_ONCE;
    failed = failed || gyre_sampler_create(&sampler, &order) ||
             gyre_network_convnet(&net, 1, SIDE, SIDE, 10, &options) ||
             gyre_network_join(net, comm, NULL, &ddp) ||
             train(comm, net, ddp, files, sampler, &accuracy);
    if (failed) {
        fprintf(stderr, "convnet: %s\n", gyre_error(NULL));
        gyre_abort(comm, "training failed"); /* ends it on all ranks */
    } else if (gyre_rank(comm) == 0)
        printf("%.1f %% of the last epoch were right\n", 100 * accuracy);
    gyre_network_destroy(net);
    gyre_sampler_destroy(sampler);
    gyre_samples_close(files);
    return gyre_finalize(comm) || failed || accuracy < 0.8;
}
