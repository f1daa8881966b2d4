/* A training that may be stopped at any moment, and goes on where it was.
 *
 *     gyre run -n 2 build/examples/resume run1              180 steps, saved every 25
 *     gyre run -n 2 build/examples/resume run1 --stop 40    stops after step 40, as on a signal
 *     gyre run -n 2 build/examples/resume run1              goes on: the same weights, bit for bit
 *     gyre run -n 3 build/examples/resume run1              nearly the same, for sums are rounded
 *                                                           in another order
 *
 * --every N saves every N steps, --bf16 multiplies in half precision, --hidden N is the width of
 * the hidden layer. The learning rate needs no place in the checkpoint: it follows from the
 * step. */
#include <gyre/checkpoint.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 13
#define ROWS     48 /* of all ranks in a step: three steps are an epoch */
#define STEPS    180

struct training {
    const char *folder;
    uint64_t stop, every, hidden;
    enum gyre_type precision;
    struct gyre_samples *data;
    struct gyre_sampler *sampler;
    struct gyre_network *net;
    struct gyre_ddp *ddp;
    struct gyre_checkpoint *checkpoint;
    struct gyre_learning_rate rate;
    uint64_t step;
    double loss; /* a running mean over steps */
};

static volatile sig_atomic_t asked; /* to stop, by a signal to any rank */

static void ask(int number)
{
    asked = number;
}

static int make_sampler(struct training *t, struct gyre_comm *comm)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    options.samples = gyre_samples_count(t->data);
    options.rank = gyre_rank(comm);
    options.world = gyre_size(comm);
    options.tail = GYRE_TAIL_ONCE;
    return gyre_sampler_create(&t->sampler, &options);
}

static int make_network(struct training *t, struct gyre_comm *comm)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    const uint64_t widths[] = {FEATURES, t->hidden, 3};
    options.method = GYRE_NETWORK_ADAM;
    options.batch = ROWS;
    options.precision = t->precision;
    t->rate = (struct gyre_learning_rate)GYRE_LEARNING_RATE_INIT;
    t->rate.kind = GYRE_RATE_COSINE;
    t->rate.warmup = 10;
    t->rate.total = STEPS;
    return gyre_network_perceptron(&t->net, widths, 3, &options) ||
           gyre_network_join(t->net, comm, NULL, &t->ddp);
}

/* What the training consists of, and then what was saved of it; -ENOENT: nothing was. */
static int resume(struct training *t, struct gyre_comm *comm)
{
    if (gyre_checkpoint_create(&t->checkpoint, comm, NULL) ||
        gyre_checkpoint_add_network(t->checkpoint, t->net) ||
        gyre_checkpoint_add_sampler(t->checkpoint, "sampler", t->sampler) ||
        gyre_checkpoint_add_f64(t->checkpoint, "loss", &t->loss))
        return -1;
    int status = gyre_checkpoint_load(t->checkpoint, t->folder, &t->step);
    if (!status && gyre_rank(comm) == 0)
        printf("goes on after step %d, which %d ranks saved\n", (int)t->step,
               gyre_checkpoint_world(t->checkpoint));
    return status == -ENOENT ? 0 : status;
}

static int make_step(struct training *t)
{
    float x[ROWS * FEATURES];
    int64_t label[ROWS];
    uint64_t index[ROWS], count, epoch;
    gyre_sampler_position(t->sampler, &epoch, NULL);
    if ((gyre_sampler_left(t->sampler) == 0 && gyre_sampler_begin(t->sampler, epoch + 1, 0)) ||
        gyre_sampler_next(t->sampler, ROWS, index, ROWS, &count) ||
        gyre_samples_take(t->data, index, count, x, label) ||
        gyre_network_learn_classes(t->net, x, count, label) ||
        (asked && gyre_ddp_ask_stop(t->ddp)) || gyre_ddp_wait(t->ddp) ||
        gyre_network_update(t->net, gyre_learning_rate_at(&t->rate, t->step)))
        return -1;
    const struct gyre_ddp_result *result = gyre_ddp_result(t->ddp);
    double loss = result->sum[GYRE_NETWORK_LOSS] / (double)result->samples;
    t->loss = t->step++ ? 0.9 * t->loss + 0.1 * loss : loss;
    return 0;
}

/* All ranks save and stop behind the same step: the wish to stop travels with the gradients. */
static int train(struct training *t, int *stopped)
{
    for (*stopped = 0; !*stopped && t->step < STEPS;) {
        if (make_step(t))
            return -1;
        *stopped = gyre_ddp_result(t->ddp)->stop > 0 || t->step == t->stop;
        if ((*stopped || t->step % t->every == 0 || t->step == STEPS) &&
            gyre_checkpoint_save(t->checkpoint, t->folder, t->step))
            return -1;
    }
    return 0;
}

/* Equal only if all weights are, to the last bit. */
static uint64_t hash_weights(struct gyre_network *net)
{
    const struct gyre_ddp_parameter *p;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = gyre_network_parameters(net, &p) - 1; i >= 0; i--) {
        uint64_t bytes = sizeof(float) * p[i].shape[0] * (p[i].dimensions > 1 ? p[i].shape[1] : 1);
        for (uint64_t k = 0; k < bytes; k++)
            hash = (hash ^ ((const unsigned char *)p[i].value)[k]) * 0x100000001b3u;
    }
    return hash;
}

static void read_words(struct training *t, int words, char **word)
{
    *t = (struct training){.folder = words > 1 ? word[1] : "run1", .every = 25, .hidden = 64};
    for (int i = 2; i < words; i++) {
        const char *value = i + 1 < words ? word[i + 1] : "0";
        if (!strcmp(word[i], "--bf16"))
            t->precision = GYRE_BF16;
        else if (!strcmp(word[i], "--stop"))
            t->stop = strtoull(value, NULL, 10);
        else if (!strcmp(word[i], "--every"))
            t->every = strtoull(value, NULL, 10);
        else if (!strcmp(word[i], "--hidden"))
            t->hidden = strtoull(value, NULL, 10);
    }
    t->every = t->every ? t->every : STEPS;
}

int main(int words, char **word)
{
    struct gyre_comm *comm;
    struct training t;
    int stopped;
    read_words(&t, words, word);
    signal(SIGTERM, ask);
    signal(SIGINT, ask);
    signal(SIGUSR1, ask);

    int failed = gyre_init(&comm, NULL) || gyre_samples_open(&t.data, "wine") ||
                 make_sampler(&t, comm) || make_network(&t, comm) || resume(&t, comm) ||
                 train(&t, &stopped);
    if (failed) {
        if (gyre_rank(comm) <= 0) /* the story is the same on all ranks */
            fprintf(stderr, "resume: %s\n", gyre_error(NULL));
        gyre_abort(comm, gyre_error(NULL)); /* ends it on all ranks */
    } else if (gyre_rank(comm) == 0)
        printf("%s after step %d, loss %.6f, weights %016llx\n", stopped ? "stopped" : "ended",
               (int)t.step, t.loss, (unsigned long long)hash_weights(t.net));
    gyre_checkpoint_destroy(t.checkpoint);
    gyre_network_destroy(t.net);
    gyre_sampler_destroy(t.sampler);
    gyre_samples_close(t.data);
    return gyre_finalize(comm) || failed;
}
