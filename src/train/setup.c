/* Before the first step: what was asked for becomes data, model, engine and books, and all ranks
 * agree that it is the same. What one rank cannot do ends all, with its story. Tested by
 * tests/program/train/train.c. */
#include "train/inside.h"

#include "base/size.h"
#include "model/learning/init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MOST    256
#define PREFETCH_BYTES (UINT64_C(64) << 20) /* of a data set that may not be in memory */
#define PREFETCH_AHEAD 2
#define BATCH          32u /* of a rank, where nothing is asked for */

static int no_memory_to_set_up(struct gyre_train *t)
{
    return gyre_trouble_set(t->trouble, -ENOMEM, "rank %d: no memory for the training", t->rank);
}

/* -- data -------------------------------------------------------------------------------------- */

static int open_datasets(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    bool targets = o->loss == GYRE_SQUARED_ERROR;
    struct gyre_dataset_options train = {o->data, o->labels, targets};
    struct gyre_dataset_options test = {o->test, o->test_labels, targets};
    int status = gyre_dataset_open(&t->data, &train, t->trouble);
    if (!status && o->test)
        status = gyre_dataset_open(&t->test, &test, t->trouble);
    if (status == -ENOENT && o->mnist)
        gyre_trouble_wrap(t->trouble,
                          "--preset mnist reads MNIST's four files here, or where --data "
                          "and --test say");
    if (status || !o->test)
        return status;
    if (t->test.features != t->data.features || t->test.width != t->data.width)
        return gyre_trouble_set(
            t->trouble, GYRE_INVALID, "%s has samples of %llu numbers, %s of %llu", o->test,
            (unsigned long long)t->test.features, o->data, (unsigned long long)t->data.features);
    if (t->test.classes > t->data.classes)
        t->data.classes = t->test.classes;
    return 0;
}

/* Every rank must train on the same samples: a hash of them is compared. */
static int compare_data(struct gyre_train *t)
{
    uint64_t mine = gyre_dataset_hash(&t->data) + gyre_dataset_hash(&t->test);
    uint64_t *all = calloc((size_t)t->n, sizeof *all);
    int status = all ? gyre_all_gather(t->comm, &mine, all, 1, GYRE_U64) : no_memory_to_set_up(t);
    for (int rank = 1; !status && rank < t->n; rank++)
        if (all[rank] != all[0])
            status = gyre_trouble_set(t->trouble, GYRE_MISMATCH,
                                      "rank %d has other data in %s than rank 0 (hash %016llx, "
                                      "not %016llx): all ranks need the same files",
                                      rank, t->options->data, (unsigned long long)all[rank],
                                      (unsigned long long)all[0]);
    free(all);
    return status;
}

/* -- sampler ----------------------------------------------------------------------------------- */

static int refuse_size(struct gyre_train *t, const char *option, int64_t size, uint64_t most)
{
    return gyre_trouble_set(t->trouble, GYRE_INVALID,
                            "%s %lld is larger than %s, which has %llu samples: at most %llu",
                            option, (long long)size, t->options->data,
                            (unsigned long long)t->data.samples, (unsigned long long)most);
}

static int check_batch_sizes(struct gyre_train *t, uint64_t parts)
{
    const struct gyre_train_options *o = t->options;
    uint64_t n = (uint64_t)t->n, most = gyre_round_up(t->data.samples, n);
    uint64_t asked = (uint64_t)o->global_batch / parts;
    if ((uint64_t)o->global_batch % parts)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "--global-batch %lld is no multiple of --accumulate %lld",
                                (long long)o->global_batch, (long long)o->accumulate);
    if (o->tail != GYRE_TAIL_ONCE && asked % n)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "--global-batch %lld does not divide by %d ranks; with --tail once "
                                "it need not",
                                (long long)o->global_batch, t->n);
    if (t->data.samples < n)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "%d ranks are more than the %llu samples of %s", t->n,
                                (unsigned long long)t->data.samples, o->data);
    if (asked > most)
        return refuse_size(t, "--global-batch", o->global_batch, t->data.samples * parts);
    if (!o->global_batch && (uint64_t)o->batch > t->data.samples)
        return refuse_size(t, "--batch", o->batch, t->data.samples);
    return 0;
}

/* A rank's batch is at most its share of the set, as a last batch would be. */
static int find_span(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    uint64_t n = (uint64_t)t->n, parts = (uint64_t)o->accumulate;
    uint64_t most = gyre_round_up(t->data.samples, n),
             batch = o->batch ? (uint64_t)o->batch : BATCH;
    int status = check_batch_sizes(t, parts);
    if (status)
        return status;
    t->span = o->global_batch ? (uint64_t)o->global_batch / parts : batch * n;
    t->span = t->span < most ? t->span : most;
    t->room = o->shares ? t->span : (t->span + n - 1) / n;
    return 0;
}

/* In the user's words: what a sampler can refuse by now are the shares. */
static int refuse_order(struct gyre_train *t, int status)
{
    static const char call[] = "gyre_sampler_create: ";
    const char *story = gyre_error(NULL);
    if (!t->options->shares || strncmp(story, call, sizeof call - 1))
        return gyre_trouble_set(t->trouble, status, "%s", story);
    return gyre_trouble_set(t->trouble, status, "--shares %s: %s", t->options->shares,
                            story + sizeof call - 1);
}

static int make_sampler(struct gyre_train *t)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    options.samples = t->data.samples;
    options.seed = (uint64_t)t->options->seed;
    options.rank = t->rank;
    options.world = t->n;
    options.shuffle = !t->options->no_shuffle;
    options.tail = (enum gyre_tail)t->options->tail;
    options.shares = t->shares.weight;
    options.step = t->shares.weight ? t->span : 0;
    int status = gyre_sampler_create(&t->sampler, &options);
    if (status)
        return refuse_order(t, status);
    uint64_t part = t->span * (uint64_t)t->options->accumulate;
    t->steps_per_epoch = (gyre_sampler_left(t->sampler) + part - 1) / part;
    bool slow = t->data.samples * t->data.features > PREFETCH_BYTES;
    return gyre_loader_create(&t->loader, &t->data, t->sampler, t->span, t->room,
                              slow ? PREFETCH_AHEAD : 0, t->trouble);
}

/* -- model ------------------------------------------------------------------------------------- */

static int make_mlp(struct gyre_train *t, const struct gyre_model_settings *settings,
                    struct gyre_model **model)
{
    size_t widths[LAYERS_MOST];
    int count;
    uint64_t wanted = t->data.label ? t->data.classes : t->data.width;
    int status =
        gyre_mlp_parse("--layers", t->options->layers, widths, LAYERS_MOST, &count, t->trouble);
    if (status)
        return status;
    if (widths[0] != t->data.features)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "--layers %s begins with %zu; samples of %s have %llu numbers",
                                t->options->layers, widths[0], t->options->data,
                                (unsigned long long)t->data.features);
    if (t->data.label ? widths[count - 1] < wanted : widths[count - 1] != wanted)
        return gyre_trouble_set(t->trouble, GYRE_INVALID, "--layers %s ends in %zu; %s has %llu %s",
                                t->options->layers, widths[count - 1], t->options->data,
                                (unsigned long long)wanted,
                                t->data.label ? "classes" : "targets for a sample");
    return gyre_mlp_create(model, widths, count, settings, t->trouble);
}

static int make_convnet(struct gyre_train *t, const struct gyre_model_settings *settings,
                        struct gyre_model **model)
{
    const uint64_t *shape = t->data.shape;
    if (t->data.dims < 2 || t->data.dims > 3)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "--model convnet needs images; samples of %s have %u dimensions",
                                t->options->data, t->data.dims);
    struct gyre_volume image = {.channels = t->data.dims == 3 ? shape[0] : 1,
                                .height = shape[t->data.dims - 2],
                                .width = shape[t->data.dims - 1]};
    return gyre_convnet_create(model, image, t->data.classes, settings, t->trouble);
}

static int make_model(struct gyre_train *t, struct gyre_model **model)
{
    struct gyre_model_settings settings = {t->room > 256 || !t->options->test ? t->room : 256,
                                           (enum gyre_precision)t->options->precision};
    return t->options->model == GYRE_CONVNET ? make_convnet(t, &settings, model)
                                             : make_mlp(t, &settings, model);
}

static int place_values(struct gyre_train *t, struct gyre_model *model)
{
    struct gyre_replica *r = &t->replica;
    if (gyre_replica_init(r, model))
        return no_memory_to_set_up(t);
    r->looks = true;
    if (!t->rank) /* the engine gives them to all */
        gyre_init_parameters(r->parameter, r->parameters, (uint64_t)t->options->seed);
    gyre_init_buffers(r->buffer, r->buffers);
    return t->options->init ? gyre_train_load_init(t) : 0;
}

static int make_replica(struct gyre_train *t)
{
    struct gyre_model *model;
    int status = make_model(t, &model);
    return status ? status : place_values(t, model);
}

/* -- engine ------------------------------------------------------------------------------------ */

static int make_engine(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    options.bucket_cap = o->bucket_cap;
    options.mean = (enum gyre_ddp_mean)o->mean;
    options.wire = (enum gyre_ddp_wire)o->wire;
    options.sharded = o->sharded;
    options.norm = o->clip > 0 || o->precision == GYRE_PRECISION_F16;
    options.unscaled = 1;
    options.look = GYRE_DDP_LOOK_NONE; /* the replica asks */
    options.compare_every = (int)o->compare_every;
    int status = gyre_replica_join(&t->replica, t->comm, &options);
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(t->comm)) : 0;
}

/* -- the rest ---------------------------------------------------------------------------------- */

static int make_rate(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    t->rate = (struct gyre_rate_settings){.kind = (enum gyre_rate_kind)o->schedule,
                                          .rate = o->lr,
                                          .warmup = (uint64_t)o->warmup,
                                          .every = (uint64_t)o->step_size * t->steps_per_epoch,
                                          .gamma = o->gamma,
                                          .total = (uint64_t)o->epochs * t->steps_per_epoch,
                                          .least = o->least_lr};
    return gyre_rate_check(&t->rate, t->trouble);
}

static int make_own(struct gyre_train *t)
{
    int status = open_datasets(t);
    gyre_scaler_init(&t->scaler, t->options->precision == GYRE_PRECISION_F16);
    if (!status)
        status = gyre_train_read_shares(t);
    if (!status)
        status = find_span(t);
    if (!status)
        status = make_replica(t);
    if (!status && t->options->data_digest) {
        t->digest.seen = calloc(t->data.samples, 1);
        status = t->digest.seen ? 0 : no_memory_to_set_up(t);
    }
    return status;
}

/* Who takes which samples, and at which rate they are learnt from. */
static int make_order(struct gyre_train *t)
{
    int status = make_sampler(t);
    if (!status)
        status = make_rate(t);
    return status ? status : gyre_train_note_before(t);
}

int gyre_train_open(struct gyre_train *t)
{
    int status = gyre_train_agree(t, make_own(t));
    if (!status)
        status = compare_data(t);
    if (!status && t->options->resume)
        status = gyre_train_resume(t);
    if (!status)
        status = make_engine(t);
    if (!status)
        status = gyre_train_restore_feedback(t);
    if (!status)
        status = gyre_train_settle_shares(t);
    if (!status)
        status = gyre_train_agree(t, make_order(t));
    if (!status && t->options->sync_bn && t->n > 1)
        gyre_model_sync_batches(t->replica.model);
    return status;
}

void gyre_train_close(struct gyre_train *t)
{
    gyre_replica_deinit(&t->replica);
    gyre_loader_destroy(t->loader);
    gyre_sampler_destroy(t->sampler);
    gyre_train_free_shares(t);
    free(t->digest.seen);
    free(t->resumed.full[0]);
    free(t->resumed.full[1]);
    free(t->resumed.feedback);
    gyre_dataset_close(&t->data);
    gyre_dataset_close(&t->test);
}
