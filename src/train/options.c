/* The table of what a training run is told. Tested by tests/program/train/options.c. */
#include "train/options.h"

#include "base/env.h"
#include "model/learning/learning_rate.h"
#include "model/learning/loss.h"
#include "model/learning/optimizer.h"
#include "model/nets/model.h"

#include <errno.h>
#include <gyre/ddp.h>
#include <gyre/sampler.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_MOST 96

enum kind { TEXT, WHOLE, REAL, BYTES, WORD, SWITCH };

struct option {
    const char *name, *value, *help;
    enum kind kind;
    size_t at;
    double least, most;
    const char *const *words;
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

/* %s in a help text stands for the words and the default, the first of them. */
/* clang-format off */
static const struct option table[] = {
    {"data", "FILE", "samples: safetensors with x and y, IDX images, CSV, or wine", TEXT, AT(data)},
    {"labels", "FILE", "labels of IDX images (the file beside them)", TEXT, AT(labels)},
    {"test", "FILE", "samples to evaluate on after every epoch, each once", TEXT, AT(test)},
    {"test-labels", "FILE", "their labels, of IDX images", TEXT, AT(test_labels)},
    {"model", "NAME", "%s", WORD, AT(model), .words = gyre_model_names},
    {"layers", "SIZES", "of an mlp, from features to classes: 13,64,3", TEXT, AT(layers)},
    {"init", "FILE", "weights to start from, safetensors", TEXT, AT(init)},
    {"loss", "NAME", "%s", WORD, AT(loss), .words = gyre_loss_names},
    {"precision", "TYPE", "of products: %s; weights stay f32",
     WORD, AT(precision), .words = gyre_precision_names},
    {"sync-batch-norm", NULL, "normalise by the batch of all ranks", SWITCH, AT(sync_bn)},

    {"optimizer", "NAME", "%s", WORD, AT(optimizer), .words = gyre_optimizer_names},
    {"lr", "RATE", "learning rate (0.01)", REAL, AT(lr), 0, 1e6},
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
    {"data-digest", NULL, "prove after each epoch who saw which samples", SWITCH, AT(data_digest)},

    {"save", "DIR", "checkpoints", TEXT, AT(save)},
    {"save-every", "EPOCHS", "(1)", WHOLE, AT(save_every), 1, 1e9},
    {"keep", "COUNT", "generations of checkpoints (2)", WHOLE, AT(keep), 1, 1e6},
    {"resume", NULL, "go on from the newest checkpoint in --save, if there is one",
     SWITCH, AT(resume)},
    {"metrics", "FILE", "a line of JSON per step and per epoch", TEXT, AT(metrics)},
    {"csv", "FILE", "the same as a table", TEXT, AT(csv)},
    {"tensorboard", "DIR", "the same as an event file", TEXT, AT(tensorboard)},
    {"svg", "FILE", "a picture of the loss", TEXT, AT(svg)},
    {"quiet", NULL, "no progress", SWITCH, AT(quiet)},
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
        *(const char **)at = text;
        return 0;
    case WHOLE:
        return gyre_parse_int(dashed, text, (int64_t)option->least, (int64_t)option->most,
                              (int64_t *)at, trouble);
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
    static const char *const names[] = {"wine", "mnist"};
    static const char *const lines[2][10][2] = {
        {{"data", "wine"},
         {"test", "wine:test"},
         {"layers", "13,64,3"},
         {"optimizer", "adam"},
         {"lr", "1e-3"},
         {"batch", "32"},
         {"epochs", "100"}},
        {{"data", "train-images-idx3-ubyte.gz"},
         {"test", "t10k-images-idx3-ubyte.gz"},
         {"model", "convnet"},
         {"optimizer", "sgd"},
         {"lr", "0.01"},
         {"momentum", "0.9"},
         {"batch", "100"},
         {"epochs", "2"}},
    };
    int index, status = gyre_parse_word("--preset", preset, names, 2, &index, trouble);
    if (!status)
        options->mnist = index == 1;
    for (int i = 0; !status && i < 10 && lines[index][i][0]; i++)
        status = gyre_train_option_set(options, lines[index][i][0], lines[index][i][1], trouble);
    return status;
}

static char *trim_blanks(char *text)
{
    size_t length;
    text += strspn(text, " \t\r");
    for (length = strlen(text); length && strchr(" \t\r", text[length - 1]); length--)
        continue;
    text[length] = 0;
    return text;
}

static int set_line(struct gyre_train_options *options, char *line, struct gyre_trouble *trouble)
{
    line[strcspn(line, "#")] = 0;
    char *equals = strchr(line, '='), *name;
    if (equals)
        *equals = 0;
    name = trim_blanks(line);
    if (!*name && !equals)
        return 0;
    if (equals && strcmp(name, "preset") == 0)
        return gyre_train_option_preset(options, trim_blanks(equals + 1), trouble);
    if (!equals && strpbrk(name, ": \t"))
        return gyre_trouble_set(trouble, GYRE_INVALID, "'%s': a line is `name = value`", name);
    if (strcmp(name, "ranks") == 0 || strcmp(name, "devices") == 0 || strcmp(name, "backend") == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is no option of the training but a flag: gyre train --%s", name,
                                name);
    return gyre_train_option_set(options, name, equals ? trim_blanks(equals + 1) : NULL, trouble);
}

static int read_whole_file(const char *path, char **text, struct gyre_trouble *trouble)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "re");
    size_t length = 0;
    *text = file ? malloc(MOST + 1) : NULL;
    if (*text)
        length = fread(*text, 1, MOST, file);
    int status = !file || ferror(file) ? -errno : !*text ? -ENOMEM : 0;
    if (status)
        gyre_trouble_set(trouble, status, "--config %s: %s", path, strerror(-status));
    else if (length == MOST)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "--config %s: is longer than 1 MiB", path);
    else
        (*text)[length] = 0;
    if (file)
        fclose(file);
    return status;
}

int gyre_train_option_file(struct gyre_train_options *options, const char *path, char **storage,
                           struct gyre_trouble *trouble)
{
    int status = read_whole_file(path, storage, trouble), number = 1;
    for (char *line = *storage, *next; !status && line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        status = set_line(options, line, trouble);
    }
    if (status && number > 1)
        gyre_trouble_wrap(trouble, "%s, line %d", path, number - 1);
    return status;
}

/* -- together ---------------------------------------------------------------------------------- */

int gyre_train_options_check(const struct gyre_train_options *o, struct gyre_trouble *trouble)
{
    const char *why = NULL;
    if (!o->data)
        why = "nothing to train on: --data FILE, or --preset wine";
    else if (o->model == GYRE_MLP && !o->layers)
        why = "an mlp needs --layers, from features to classes: --layers 13,64,3";
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
    else if (o->shares && o->tail != GYRE_TAIL_ONCE)
        why = "--shares needs --tail once: no sample is repeated or dropped then";
    else if ((o->resume || o->save_every > 1) && !o->save)
        why = "--resume and --save-every need --save DIR";
    else if (o->sharded && o->mean)
        why = "--sharded has the mean over samples only";
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
