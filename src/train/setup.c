/* Before the first step: what was asked for becomes data, model, engine and books, and all ranks
 * agree that it is the same. What one rank cannot do ends all, with its story. Tested by
 * tests/program/train/train.c. */
#include "train/inside.h"

#include "base/env.h"
#include "base/size.h"
#include "model/learning/init.h"
#include "model/network/file.h"
#include "train/early.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFETCH_BYTES (UINT64_C(64) << 20) /* of a data set that may not be in memory */
#define EVALUATED      256                  /* samples of a rank at a time, without steps */
#define BATCH          32u                  /* of a rank, where nothing is asked for */

static int no_memory_to_set_up(struct gyre_train *t)
{
    return gyre_trouble_set(t->trouble, -ENOMEM, "rank %d: no memory for the training", t->rank);
}

/* -- data -------------------------------------------------------------------------------------- */

/* Whoever evaluates need not know the loss that the checkpoint was trained with. */
static bool wants_targets(const struct gyre_train *t)
{
    const char *loss = t->options->evaluate ? gyre_trained_text(&t->init, "loss") : NULL;
    return loss ? strcmp(loss, gyre_loss_names[GYRE_SQUARED_ERROR]) == 0
                : t->options->loss == GYRE_SQUARED_ERROR;
}

/* The classes of the weights to begin with keep their numbers. */
static const struct gyre_classes *known_classes(const struct gyre_train *t)
{
    return t->init.classes.count || (t->init.model && t->options->evaluate) ? &t->init.classes
                                                                            : NULL;
}

static const char *label_column(const struct gyre_train *t)
{
    const char *asked = t->options->label_column;
    return asked || !t->options->evaluate ? asked : gyre_trained_text(&t->init, "label column");
}

static int open_datasets(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    bool targets = wants_targets(t);
    struct gyre_dataset_options how = {.source = o->data,
                                       .labels = o->labels,
                                       .label_column = label_column(t),
                                       .classes = known_classes(t),
                                       .targets = targets,
                                       .wide = true};
    int status = gyre_dataset_open(&t->data, &how, t->trouble);
    if (!status && o->validation > 0)
        status = gyre_dataset_split(&t->data, &t->validation, o->validation, (uint32_t)o->seed,
                                    t->trouble)
                     ? gyre_trouble_wrap(t->trouble, "--validation")
                     : 0;
    how.source = o->test;
    how.labels = o->test_labels;
    how.classes = &t->data.names;
    if (!status && o->test)
        status = gyre_dataset_open(&t->test, &how, t->trouble);
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
        return gyre_train_refuse_ranks(o, t->n, t->data.samples, t->trouble);
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
    if (o->evaluate) {
        t->room = EVALUATED;
        t->span = t->room * (uint64_t)t->n;
        return 0;
    }
    uint64_t n = (uint64_t)t->n, parts = (uint64_t)o->accumulate;
    uint64_t most = gyre_round_up(t->data.samples, n),
             batch = o->batch ? (uint64_t)o->batch : BATCH;
    int status = check_batch_sizes(t, parts);
    if (status)
        return status;
    t->span = o->global_batch ? (uint64_t)o->global_batch / parts : batch * n;
    t->span = t->span < most ? t->span : most;
    if (o->global_batch && o->elastic) /* as many as a rank may have when others are lost */
        n = (uint64_t)o->elastic < n ? (uint64_t)o->elastic : n;
    t->room = o->shares ? t->span : (t->span + n - 1) / n;
    if (o->elastic && !o->global_batch) /* with fewer ranks the share of a small set is larger */
        t->room = batch < t->data.samples ? batch : t->data.samples;
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

/* Anew where batches may be larger than before. */
static void make_feed(struct gyre_train *t)
{
    gyre_feed_deinit(&t->feed);
    gyre_feed_init(&t->feed, gyre_model_processor(t->replica.model), t->room, t->data.features);
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
    if (!t->resident.on || t->resident.batch < t->room) {
        gyre_resident_deinit(&t->resident);
        status = gyre_resident_init(&t->resident, gyre_model_processor(t->replica.model), &t->data,
                                    t->room, t->trouble);
    }
    if (!status && !gyre_resident_has(&t->resident))
        make_feed(t);
    bool slow = t->data.samples * t->data.features > PREFETCH_BYTES || gyre_feed_has(&t->feed);
    if (!status)
        status = gyre_loader_create(&t->loader, &t->data, t->sampler, t->span, t->room,
                                    slow ? GYRE_TRAIN_AHEAD : 0, t->trouble);
    if (!status && gyre_resident_has(&t->resident))
        gyre_loader_leave_rows(t->loader);
    return status;
}

/* -- model ------------------------------------------------------------------------------------- */

static int place_values(struct gyre_train *t, struct gyre_model *model)
{
    struct gyre_replica *r = &t->replica;
    struct gyre_optimizer_settings settings = gyre_train_optimizer_settings(t->options);
    int status = gyre_replica_init(r, model, &settings, t->trouble);
    if (status)
        return status;
    r->looks = r->late.wanted = r->late.repeats = true;
    if (t->init.model)
        return gyre_replica_take(r, t->init.model, t->init.path, t->trouble);
    if (!t->rank) /* the engine gives them to all */
        gyre_init_parameters(r->parameter, r->parameters, (uint64_t)t->options->seed);
    gyre_init_buffers(r->buffer, r->buffers);
    return 0;
}

/* What was asked for, else what the weights say, else one hidden layer. */
static int settle_architecture(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    struct gyre_architecture *a = &t->architecture;
    if (!o->layers && o->model == GYRE_MLP && t->init.model)
        return gyre_architecture_of(a, &t->init, t->trouble);
    gyre_architecture_default(a, &t->data);
    a->kind = (enum gyre_model_kind)o->model;
    if (o->layers || a->kind == GYRE_CONVNET)
        snprintf(a->layers, sizeof a->layers, "%s", o->layers ? o->layers : "");
    return 0;
}

void gyre_train_load(const struct gyre_train_options *options)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (options->device && cuda)
        (void)cuda->probe(NULL);
}

/* The device that the communicator will have: of who joins a training that runs. */
static int expected_device(int devices)
{
    const char *text = getenv("GYRE_DEVICES");
    struct gyre_device_list list;
    int64_t local = 0;
    (void)gyre_env_int("LOCAL_RANK", 0, INT32_MAX, &local, NULL);
    if (text && gyre_device_list_read(text, (int)local, &list) && list.wanted >= 0)
        return list.wanted;
    return (int)(local % devices);
}

/* The rank's CUDA device is the communicator's, where gradients are reduced. */
static int settle_device(struct gyre_train *t, struct gyre_model_settings *settings)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (!t->options->device)
        return 0;
    int own = t->comm ? gyre_device(t->comm) : -1;
    int count = own < 0 && cuda ? cuda->probe(t->trouble) : 0;
    if (own < 0 && cuda && !count)
        return t->trouble->status ? t->trouble->status : GYRE_UNSUPPORTED;
    settings->kind = GYRE_MEMORY_CUDA;
    settings->device = own >= 0 ? own : count ? expected_device(count) : 0;
    return 0;
}

static int make_replica(struct gyre_train *t)
{
    bool tests = t->options->test || t->options->validation > 0;
    bool evaluates = tests && t->room < EVALUATED;
    struct gyre_model_settings settings = {evaluates ? EVALUATED : t->room,
                                           (enum gyre_precision)t->options->precision};
    struct gyre_model *model;
    int status = settle_architecture(t);
    if (!status)
        status = settle_device(t, &settings);
    if (!status)
        status = gyre_architecture_make(&t->architecture, &t->data, &settings, &model, t->trouble);
    return status ? status : place_values(t, model);
}

/* -- engine ------------------------------------------------------------------------------------ */

int gyre_train_make_engine(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    options.bucket_cap = o->bucket_cap;
    options.mean = (enum gyre_ddp_mean)o->mean;
    options.wire = (enum gyre_ddp_wire)o->wire;
    options.sharded = o->sharded;
    options.norm = o->clip > 0;
    options.unscaled = 1;
    options.look = GYRE_DDP_LOOK_NONE; /* the replica asks */
    options.compare_every = (int)o->compare_every;
    int status = gyre_replica_join(&t->replica, t->comm, &options);
    return gyre_train_explain(t, status);
}

/* -- the rest ---------------------------------------------------------------------------------- */

static int make_rate(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    t->rate = (struct gyre_learning_rate){.size = sizeof t->rate,
                                          .kind = (enum gyre_rate_kind)o->schedule,
                                          .rate = gyre_train_lr(t),
                                          .warmup = (uint64_t)o->warmup,
                                          .every = (uint64_t)o->step_size * t->steps_per_epoch,
                                          .gamma = o->gamma,
                                          .total = (uint64_t)o->epochs * t->steps_per_epoch,
                                          .least = o->least_lr};
    return gyre_rate_check(&t->rate, t->trouble);
}

int gyre_train_make_own(struct gyre_train *t)
{
    const struct gyre_train_options *o = t->options;
    const char *init = !o->init && o->evaluate ? o->save : o->init;
    int status = init ? gyre_trained_open(&t->init, init, t->trouble) : 0;
    if (!status)
        status = open_datasets(t);
    if (!status) {
        t->data_hash = gyre_dataset_hash(&t->data);
        status = gyre_train_find_scale(t);
    }
    if (!status)
        status = gyre_train_read_shares(t);
    if (!status)
        status = find_span(t);
    if (!status)
        status = make_replica(t);
    if (!status && t->data.names.count) {
        t->class_names = gyre_classes_text(&t->data.names);
        status = t->class_names ? 0 : no_memory_to_set_up(t);
    }
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

int gyre_train_deal(struct gyre_train *t)
{
    gyre_loader_destroy(t->loader);
    gyre_sampler_destroy(t->sampler);
    t->loader = NULL;
    t->sampler = NULL;
    gyre_feed_deinit(&t->viewed);                /* its batches may be larger from here on */
    gyre_repeat_forget(&t->replica.late.repeat); /* rows may lie elsewhere */
    int status = find_span(t);
    return status ? status : make_order(t);
}

/* After a loss the optimiser's state must not be on one rank only. */
int gyre_train_prepare_elastic(struct gyre_train *t)
{
    if (!t->options->elastic)
        return 0;
    int status = gyre_train_keep_running(t);
    return status || t->replica.optimizer ? status
                                          : gyre_replica_make_optimizer(&t->replica, t->trouble);
}

/* What a training has more than an evaluation. */
static int prepare_steps(struct gyre_train *t)
{
    int status = gyre_train_settle_shares(t);
    if (!status)
        status = gyre_train_agree(t, make_order(t));
    if (!status)
        status = gyre_train_agree(t, gyre_train_prepare_elastic(t));
    if (!status && t->options->sync_bn && t->n > 1)
        gyre_model_sync_batches(t->replica.model);
    return status;
}

static int open_checkpoint(struct gyre_train *t)
{
    int status = gyre_train_agree(t, gyre_train_list_checkpoint(t));
    return status || !t->options->resume ? status : gyre_train_resume(t);
}

int gyre_train_open(struct gyre_train *t)
{
    bool trains = !t->options->evaluate;
    int status = gyre_train_compare_options(t);
    if (!status)
        status = gyre_train_agree(t, gyre_train_make_own(t));
    if (!status)
        status = gyre_train_compare_data(t);
    if (!status)
        status = gyre_train_make_engine(t);
    if (!status && trains)
        status = open_checkpoint(t);
    if (!status)
        status = gyre_train_agree(t, gyre_train_apply_scale(t));
    return status || !trains ? status : prepare_steps(t);
}

void gyre_train_close(struct gyre_train *t)
{
    gyre_trained_close(&t->init);
    gyre_checkpoint_destroy(t->checkpoint);
    gyre_resident_deinit(&t->resident);
    gyre_feed_deinit(&t->feed);
    gyre_feed_deinit(&t->viewed);
    gyre_replica_deinit(&t->replica);
    gyre_loader_destroy(t->loader);
    gyre_sampler_destroy(t->sampler);
    gyre_train_free_shares(t);
    free(t->digest.seen);
    free(t->class_names);
    gyre_finalize(t->former);
    free(t->data_lines);
    gyre_scale_deinit(&t->scale);
    gyre_dataset_close(&t->validation);
    gyre_dataset_close(&t->data);
    gyre_dataset_close(&t->test);
}
