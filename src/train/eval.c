/* Evaluation: every sample of a set once, whatever the number of ranks, so that the figure does not
 * depend on it. It may take longer than an epoch, so ranks vote after every batch whether one of
 * them was asked to stop, or failed; all have as many batches, some of them empty. Tested by
 * tests/program/train/eval.c. */
#include "train/inside.h"

int gyre_train_share_buffers(struct gyre_train *t)
{
    int status = gyre_running_bring_home(&t->replica.running, t->trouble);
    for (int i = 0; !status && i < t->replica.buffers; i++) {
        void *value = t->replica.host_item[t->replica.parameters + i].value;
        status = gyre_broadcast(t->comm, value, value, t->replica.buffer[i]->count,
                                t->replica.buffer[i]->whole ? GYRE_I64 : GYRE_F32, 0);
    }
    gyre_running_written(&t->replica.running);
    return gyre_train_explain(t, status);
}

/* Where a device computes, the next batch comes while one is evaluated. */
static int evaluate_batch(struct gyre_train *t, const struct gyre_dataset *set,
                          struct gyre_loader *loader, const struct gyre_batch *batch)
{
    const struct gyre_feed_batch rows = gyre_train_fed(batch);
    const float *x = batch->x;
    int status = 0;
    if (!batch->samples)
        return 0;
    if (gyre_feed_has(&t->viewed))
        status = gyre_feed_take(&t->viewed, &rows, &x, t->trouble);
    if (!status)
        status = gyre_replica_forward(&t->replica, x, batch->samples, false,
                                      gyre_train_wanted(set, batch), t->trouble);
    return status ? status : gyre_train_bring_next(t, &t->viewed, loader);
}

enum { GO_ON, END, STOP, FAILED };

/* The greatest of all ranks': where one ends all do. */
static int vote_on(struct gyre_train *t, int status, int32_t *of_all)
{
    *of_all = status < 0 ? FAILED : status ? END : gyre_train_stop_asked() ? STOP : GO_ON;
    int told = gyre_all_reduce(t->comm, of_all, of_all, 1, GYRE_I32, GYRE_MAX);
    return gyre_train_explain(t, told);
}

static int evaluate_own(struct gyre_train *t, const struct gyre_dataset *set,
                        struct gyre_loader *loader, struct gyre_loss *loss)
{
    int status = gyre_loader_begin(loader, 0, 0, t->trouble), told = 0;
    int32_t of_all = GO_ON;
    struct gyre_batch batch;
    gyre_feed_forget(&t->viewed);
    gyre_replica_clear_loss(&t->replica);
    while (!told && of_all == GO_ON) {
        if (!status)
            status = gyre_loader_next(loader, &batch, t->trouble);
        if (!status)
            status = evaluate_batch(t, set, loader, &batch);
        told = vote_on(t, status, &of_all);
    }
    t->stop |= of_all == STOP;
    if (!told && status >= 0) {
        int taken = gyre_replica_take_loss(&t->replica, loss, t->trouble);
        status = taken ? taken : status;
    }
    return status < 0 ? status : told;
}

/* Of one batch there is none to bring. Once made it serves all sets. */
static bool comes_ahead(struct gyre_train *t, const struct gyre_dataset *set)
{
    struct gyre_processor *on = gyre_model_processor(t->replica.model);
    if (!t->viewed.on && set->samples > t->room * (uint64_t)t->n)
        gyre_feed_init(&t->viewed, on, t->room, set->features);
    return gyre_feed_has(&t->viewed);
}

static int open_shares(struct gyre_train *t, const struct gyre_dataset *set,
                       struct gyre_sampler **sampler, struct gyre_loader **loader)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    options.samples = set->samples;
    options.rank = t->rank;
    options.world = t->n;
    options.shuffle = 0;
    options.tail = GYRE_TAIL_ONCE;
    int status = gyre_sampler_create(sampler, &options);
    if (status)
        return gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL));
    return gyre_loader_create(loader, set, *sampler, t->room * (uint64_t)t->n, t->room,
                              comes_ahead(t, set) ? GYRE_TRAIN_AHEAD : 0, t->trouble);
}

int gyre_train_evaluate(struct gyre_train *t, const struct gyre_dataset *set,
                        struct gyre_loss *loss)
{
    struct gyre_sampler *sampler = NULL;
    struct gyre_loader *loader = NULL;
    *loss = (struct gyre_loss){0};
    int status = gyre_train_share_buffers(t);
    if (!status)
        status = gyre_train_agree(t, open_shares(t, set, &sampler, &loader));
    if (!status)
        status = gyre_train_agree(t, evaluate_own(t, set, loader, loss));
    gyre_loader_destroy(loader);
    gyre_sampler_destroy(sampler);
    double sums[] = {loss->sum, (double)loss->samples, (double)loss->right};
    if (!status)
        status = gyre_all_reduce(t->comm, sums, sums, 3, GYRE_F64, GYRE_SUM);
    *loss = (struct gyre_loss){sums[0], (uint64_t)sums[1], (uint64_t)sums[2]};
    return gyre_train_explain(t, status);
}
