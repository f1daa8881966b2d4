/* The table of what a training run is told. What the options do is tested by
 * tests/program/train/options.c. */
#include "train/options.h"

#include "base/env.h"
#include "ddp/agreement.h"
#include "model/learning/learning_rate.h"
#include "model/learning/loss.h"
#include "model/learning/optimizer.h"
#include "model/nets/model.h"

#include <errno.h>
#include <gyre/ddp.h>
#include <gyre/sampler.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_MOST 96

enum kind { TEXT, WHOLE, REAL, BYTES, WORD, SWITCH };

/* What must hold of an option's values on the ranks. A row that says nothing is compared. */
enum ranks {
    SAME,  /* equal on all ranks */
    GIVEN, /* given on all ranks or on none: a path, which may differ */
    OWN    /* may differ: rank 0's counts, or what the path leads to is compared */
};

struct option {
    const char *name, *value, *help;
    enum kind kind;
    size_t at;
    double least, most;
    const char *const *words; /* of a WHOLE: one, which stands for 0 */
    enum ranks ranks;
    bool may_be_none; /* "none" takes back what a preset or a file said */
};

#define AT(field) offsetof(struct gyre_train_options, field)

static const char *const means[] = {
    [GYRE_DDP_MEAN_OF_SAMPLES] = "samples", [GYRE_DDP_MEAN_OF_RANKS] = "torch", NULL};
static const char *const tails[] = {
    [GYRE_TAIL_REPEAT] = "repeat", [GYRE_TAIL_DROP] = "drop", [GYRE_TAIL_ONCE] = "once", NULL};
static const char *const wires[] = {[GYRE_DDP_WIRE_AS_IS] = "f32",
                                    [GYRE_DDP_WIRE_BF16] = "bf16",
                                    [GYRE_DDP_WIRE_F16] = "f16",
                                    NULL};

static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const keeps[] = {"best", NULL};

/* %s in a help text stands for the words and the default, the first of them. */
/* clang-format off */
static const struct option table[] = {
    {"data", "FILE", "samples: safetensors, CSV, IDX images, CIFAR-10, or wine, digits",
     TEXT, AT(data), .ranks = OWN},
    {"labels", "FILE", "labels of IDX images (the file beside them)",
     TEXT, AT(labels), .ranks = OWN},
    {"label-column", "NAME", "of a CSV: the column of the class, or first (last)",
     TEXT, AT(label_column)},
    {"test", "FILE", "samples to evaluate on after every epoch, each once; or none",
     TEXT, AT(test), .ranks = GIVEN, .may_be_none = true},
    {"test-labels", "FILE", "their labels, of IDX images", TEXT, AT(test_labels), .ranks = OWN},
    {"validation", "SHARE", "of the data, kept out of the training and evaluated after every epoch",
     REAL, AT(validation), 0, 0.9},
    {"scale", NULL, "standardise the features of a CSV by those that are trained on",
     SWITCH, AT(scale)},
    {"model", "NAME", "%s", WORD, AT(model), .words = gyre_model_names},
    {"layers", "SIZES", "of an mlp: 13,64,3 (one hidden layer of 64)", TEXT, AT(layers)},
    {"init", "FILE", "weights to start from: safetensors, or a checkpoint",
     TEXT, AT(init), .ranks = GIVEN},
    {"evaluate", NULL, "train nothing; say what --init, or --resume, makes of the data",
     SWITCH, AT(evaluate)},
    {"loss", "NAME", "%s", WORD, AT(loss), .words = gyre_loss_names},
    {"device", "NAME", "what computes: %s",
     WORD, AT(device), .words = devices},
    {"precision", "TYPE", "of products: %s; weights stay f32",
     WORD, AT(precision), .words = gyre_precision_names},
    {"sync-batch-norm", NULL, "normalise by the batch of all ranks", SWITCH, AT(sync_bn)},

    {"optimizer", "NAME", "%s", WORD, AT(optimizer), .words = gyre_optimizer_names},
    {"lr", "RATE", "learning rate (0.01)", REAL, AT(lr), 0, 1e6},
    {"scale-lr", NULL, "times the ranks, whose --batches make steps so many times as large",
     SWITCH, AT(scale_lr)},
    {"momentum", "NUMBER", "of sgd (0)", REAL, AT(momentum), 0, 1},
    {"nesterov", NULL, "Nesterov's momentum", SWITCH, AT(nesterov)},
    {"weight-decay", "NUMBER", "(0; adamw 0.01)", REAL, AT(weight_decay), 0, 1e6},
    {"beta1", "NUMBER", "of adam (0.9)", REAL, AT(beta1), 0, 1},
    {"beta2", "NUMBER", "of adam (0.999)", REAL, AT(beta2), 0, 1},
    {"eps", "NUMBER", "of adam (1e-8)", REAL, AT(eps), 0, 1},
    {"clip", "NORM", "scale gradients down to this norm", REAL, AT(clip), 0, 1e30},
    {"schedule", "NAME", "of the learning rate: %s", WORD, AT(schedule), .words = gyre_rate_names},
    {"warmup", "STEPS", "the learning rate rises from 0 over so many steps",
     WHOLE, AT(warmup), 0, 1e15},
    {"step-size", "EPOCHS", "schedule step: times gamma every so many epochs (30)",
     WHOLE, AT(step_size), 1, 1e9},
    {"gamma", "NUMBER", "schedule step (0.1)", REAL, AT(gamma), 0, 1},
    {"least-lr", "RATE", "schedule cosine: where it ends (0)", REAL, AT(least_lr), 0, 1e6},
    {"epochs", "COUNT", "(10)", WHOLE, AT(epochs), 0, 1e9},
    {"patience", "EPOCHS", "stop after so many epochs that were not better than the best before",
     WHOLE, AT(patience), 1, 1e9},
    {"batch", "COUNT", "samples of each rank in a step (32, or all)", WHOLE, AT(batch), 1, 1e9},
    {"global-batch", "COUNT", "samples of all ranks in a step, instead",
     WHOLE, AT(global_batch), 1, 1e12},
    {"accumulate", "COUNT", "parts of a step, of so many samples each (1)",
     WHOLE, AT(accumulate), 1, 1e6},
    {"seed", "NUMBER", "of weights and order (0)", WHOLE, AT(seed), 0, 4294967295.0},

    {"mean", "OVER", "gradient: mean over all samples, or torch's of ranks (samples)",
     WORD, AT(mean), .words = means},
    {"tail", "NAME", "last samples: repeat some, drop, or give each out once (repeat)",
     WORD, AT(tail), .words = tails},
    {"shares", "LIST", "samples of ranks in proportion, 4,2; or measured", TEXT, AT(shares)},
    {"no-shuffle", NULL, "samples in the order of the file", SWITCH, AT(no_shuffle)},
    {"wire", "TYPE", "of gradients between ranks: %s", WORD, AT(wire), .words = wires},
    {"sharded", NULL, "each rank holds a part of the optimiser's state", SWITCH, AT(sharded)},
    {"bucket", "BYTES", "gradients that travel together (by the cost model)",
     BYTES, AT(bucket_cap)},
    {"compare-every", "STEPS", "compare the weights of all ranks (100)",
     WHOLE, AT(compare_every), 1, 1e9},
    {"elastic", "RANKS", "after a loss go on with the ranks that are left, if there are so many",
     WHOLE, AT(elastic), 1, 1e6},
    {"data-digest", NULL, "prove after each epoch who saw which samples", SWITCH, AT(data_digest)},

    {"save", "DIR", "checkpoints", TEXT, AT(save), .ranks = GIVEN},
    {"save-every", "EPOCHS", "(1)", WHOLE, AT(save_every), 1, 1e9},
    {"keep", "COUNT", "the newest generations of checkpoints (2); best: 2, and the best epoch's",
     WHOLE, AT(keep), 1, 1e6, .words = keeps},
    {"resume", NULL, "go on from the newest checkpoint in --save, if there is one",
     SWITCH, AT(resume)},
    {"metrics", "FILE", "a line of JSON per step and per epoch", TEXT, AT(metrics), .ranks = OWN},
    {"csv", "FILE", "the same as a table", TEXT, AT(csv), .ranks = OWN},
    {"tensorboard", "DIR", "the same as an event file", TEXT, AT(tensorboard), .ranks = OWN},
    {"svg", "FILE", "a picture of the loss", TEXT, AT(svg), .ranks = OWN},
    {"quiet", NULL, "no progress", SWITCH, AT(quiet), .ranks = OWN},
};
/* clang-format on */

enum { OPTIONS = sizeof table / sizeof *table };

static const struct option *find_option(const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static int count_words(const char *const *words)
{
    int count = 0;
    while (words[count])
        count++;
    return count;
}

/* The help of entry i, with its words. */
static const char *help_of(int i)
{
    static char text[OPTIONS][HELP_MOST];
    char words[64];
    const char *help = table[i].help, *place = strstr(help, "%s");
    if (!place)
        return help;
    gyre_list_words(table[i].words, count_words(table[i].words), words, sizeof words);
    snprintf(text[i], sizeof text[i], "%.*s%s (%s)%s", (int)(place - help), help, words,
             table[i].words[0], place + 2);
    return text[i];
}

/* -- one value --------------------------------------------------------------------------------- */

static int parse_real(const struct option *option, const char *text, double *value,
                      struct gyre_trouble *trouble)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || *value < option->least || *value > option->most)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--%s %s: a number from %g to %g is expected", option->name, text,
                                option->least, option->most);
    return 0;
}

static int parse_whole(const struct option *option, const char *dashed, const char *text,
                       int64_t *value, struct gyre_trouble *trouble)
{
    const char *word = option->words ? option->words[0] : NULL;
    if (word && strcmp(text, word) == 0) {
        *value = 0;
        return 0;
    }
    int status =
        gyre_parse_int(dashed, text, (int64_t)option->least, (int64_t)option->most, value, trouble);
    size_t used = strlen(trouble->text);
    if (status && word)
        snprintf(trouble->text + used, sizeof trouble->text - used, ", or %s", word);
    return status;
}

static int parse_switch(const struct option *option, const char *text, bool *value,
                        struct gyre_trouble *trouble)
{
    static const char *const words[] = {"yes", "no"};
    int index = 0,
        status = text ? gyre_parse_word(option->name, text, words, 2, &index, trouble) : 0;
    *value = index == 0;
    return status;
}

static int store(const struct option *option, char *at, const char *text,
                 struct gyre_trouble *trouble)
{
    char dashed[64];
    snprintf(dashed, sizeof dashed, "--%s", option->name);
    switch (option->kind) {
    case TEXT:
        *(const char **)at = option->may_be_none && strcmp(text, "none") == 0 ? NULL : text;
        return 0;
    case WHOLE:
        return parse_whole(option, dashed, text, (int64_t *)at, trouble);
    case REAL:
        return parse_real(option, text, (double *)at, trouble);
    case BYTES:
        return gyre_parse_size(dashed, text, (uint64_t *)at, trouble);
    case WORD:
        return gyre_parse_word(dashed, text, option->words, count_words(option->words), (int *)at,
                               trouble);
    case SWITCH:
        return parse_switch(option, text, (bool *)at, trouble);
    }
    return GYRE_INVALID;
}

int gyre_train_option_set(struct gyre_train_options *options, const char *name, const char *value,
                          struct gyre_trouble *trouble)
{
    const struct option *option = find_option(name);
    const char *names[OPTIONS], *help[OPTIONS], *near;
    if (option && (value || option->kind == SWITCH))
        return store(option, (char *)options + option->at, value, trouble);
    if (option)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--%s needs a value: %s", name,
                                option->value);
    for (int i = 0; i < OPTIONS; i++) {
        names[i] = table[i].name;
        help[i] = help_of(i);
    }
    near = gyre_nearest_name(name, names, help, OPTIONS);
    return gyre_trouble_set(trouble, GYRE_INVALID, "unknown option '--%s'%s%s%s", name,
                            near ? "; did you mean '--" : "; `gyre train --help` lists them",
                            near ? near : "", near ? "'?" : "");
}

/* -- many -------------------------------------------------------------------------------------- */

void gyre_train_options_init(struct gyre_train_options *options)
{
    *options = (struct gyre_train_options){.lr = 0.01,
                                           .weight_decay = -1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .eps = 1e-8,
                                           .step_size = 30,
                                           .gamma = 0.1,
                                           .epochs = 10,
                                           .accumulate = 1,
                                           .save_every = 1,
                                           .keep = 2};
}

int gyre_train_option_preset(struct gyre_train_options *options, const char *preset,
                             struct gyre_trouble *trouble)
{
    enum { PRESETS = 3 };
    static const char *const names[PRESETS] = {"wine", "digits", "mnist"};
    static const char *const lines[PRESETS][10][2] = {
        {{"data", "wine"},
         {"test", "wine:test"},
         {"layers", "13,64,3"},
         {"optimizer", "adam"},
         {"lr", "1e-3"},
         {"batch", "32"},
         {"epochs", "100"}},
        {{"data", "digits"},
         {"test", "digits:test"},
         {"model", "convnet"},
         {"optimizer", "sgd"},
         {"lr", "0.05"},
         {"momentum", "0.9"},
         {"batch", "32"},
         {"epochs", "10"}},
        {{"data", "mnist"},
         {"test", "mnist:test"},
         {"model", "convnet"},
         {"optimizer", "sgd"},
         {"lr", "0.01"},
         {"momentum", "0.9"},
         {"batch", "100"},
         {"epochs", "2"}},
    };
    int index, status = gyre_parse_word("--preset", preset, names, PRESETS, &index, trouble);
    for (int i = 0; !status && i < 10 && lines[index][i][0]; i++)
        status = gyre_train_option_set(options, lines[index][i][0], lines[index][i][1], trouble);
    return status;
}

/* -- what ranks compare ------------------------------------------------------------------------ */

/* The shortest text that is this number again. */
static void put_real(struct gyre_lines *to, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    gyre_lines_put(to, "%s", text);
}

/* What an option holds that nobody gave lies below its bounds. */
static bool is_given(const struct option *option, const char *at)
{
    switch (option->kind) {
    case TEXT:
        return *(const char *const *)at != NULL;
    case WHOLE:
        return (double)*(const int64_t *)at >= option->least;
    case REAL:
        return *(const double *)at >= option->least;
    case BYTES:
        return *(const uint64_t *)at > 0;
    default:
        return true;
    }
}

static void put_option(struct gyre_lines *to, const struct option *option, const char *at)
{
    if (option->kind == WHOLE && option->words && !is_given(option, at))
        gyre_lines_put(to, "%s", option->words[0]);
    else if (!is_given(option, at) || option->ranks == GIVEN)
        gyre_lines_put(to, is_given(option, at) ? "given" : "not given");
    else if (option->kind == TEXT)
        gyre_lines_put(to, "%s", *(const char *const *)at);
    else if (option->kind == WHOLE)
        gyre_lines_put(to, "%" PRId64, *(const int64_t *)at);
    else if (option->kind == REAL)
        put_real(to, *(const double *)at);
    else if (option->kind == BYTES)
        gyre_lines_put(to, "%" PRIu64, *(const uint64_t *)at);
    else if (option->kind == WORD)
        gyre_lines_put(to, "%s", option->words[*(const int *)at]);
    else
        gyre_lines_put(to, *(const bool *)at ? "yes" : "no");
}

void gyre_train_options_put(const struct gyre_train_options *options, struct gyre_lines *to)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (table[i].ranks == OWN)
            continue;
        gyre_lines_put(to, "--%s\t", table[i].name);
        put_option(to, &table[i], (const char *)options + table[i].at);
        gyre_lines_put(to, "\n");
    }
}

/* -- together ---------------------------------------------------------------------------------- */

static const char *why_not_elastic(const struct gyre_train_options *o)
{
    if (o->sharded)
        return "--elastic goes on with what each rank has; --sharded leaves each a part";
    if (o->shares)
        return "--elastic deals samples to any number of ranks; --shares is for one";
    if (o->global_batch && o->tail != GYRE_TAIL_ONCE)
        return "--elastic with --global-batch needs --tail once: any number of ranks divides it "
               "then";
    return o->data_digest ? "--data-digest cannot prove what a lost rank saw: leave out --elastic"
                          : NULL;
}

int gyre_train_options_check(const struct gyre_train_options *o, struct gyre_trouble *trouble)
{
    const char *why = NULL;
    if (!o->data)
        why = "nothing to train on: --data FILE, or --preset wine";
    else if (o->model == GYRE_CONVNET && o->layers)
        why = "--layers is of an mlp; a convnet has its own";
    else if (o->model == GYRE_CONVNET && o->loss == GYRE_SQUARED_ERROR)
        why = "--model convnet has classes: --loss cross-entropy";
    else if (o->nesterov && (o->optimizer != GYRE_SGD || o->momentum <= 0))
        why = "--nesterov needs --optimizer sgd and a --momentum above 0";
    else if (o->momentum > 0 && o->optimizer != GYRE_SGD)
        why = "--momentum is of --optimizer sgd; adam has --beta1";
    else if (o->beta1 >= 1 || o->beta2 >= 1)
        why = "--beta1 and --beta2 are below 1";
    else if (o->scale_lr && o->global_batch)
        why = "--scale-lr is for steps that grow with the ranks; --global-batch is as large on any "
              "number of them";
    else if (o->shares && o->tail != GYRE_TAIL_ONCE)
        why = "--shares needs --tail once: no sample is repeated or dropped then";
    else if ((o->resume || o->save_every > 1 || !o->keep) && !o->save)
        why = "--resume, --save-every and --keep best need --save DIR";
    else if (o->evaluate && !o->init && !o->resume)
        why = "--evaluate needs weights: --init F, or --resume with --save DIR";
    else if (o->evaluate && o->scale)
        why = "--scale is of a training; --evaluate does with its data what the training did";
    else if (o->sharded && o->mean)
        why = "--sharded has the mean over samples only";
    else if (o->elastic)
        why = why_not_elastic(o);
    return why ? gyre_trouble_set(trouble, GYRE_INVALID, "%s", why) : 0;
}

const char *gyre_train_option_at(int i, const char **value, const char **help)
{
    if (i >= OPTIONS)
        return NULL;
    *value = table[i].value;
    *help = help_of(i);
    return table[i].name;
}

struct gyre_optimizer_settings gyre_train_optimizer_settings(const struct gyre_train_options *o)
{
    struct gyre_optimizer_settings settings =
        gyre_optimizer_defaults((enum gyre_optimizer_kind)o->optimizer);
    if (o->weight_decay >= 0)
        settings.weight_decay = o->weight_decay;
    settings.momentum = o->momentum;
    settings.nesterov = o->nesterov;
    settings.beta1 = o->beta1;
    settings.beta2 = o->beta2;
    settings.epsilon = o->eps;
    return settings;
}
