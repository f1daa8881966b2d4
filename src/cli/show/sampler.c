/* gyre show sampler: the samples of an epoch, a line per rank, as gyre/sampler.h gives them out.
 * Tested by tests/program/cli/show.c. */
#include "cli/show/parts.h"

#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"

#include <gyre/sampler.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX INT64_C(1000000000)
#define WORLD_MAX   4096

enum { SAMPLES, WORLD, SEED, EPOCH, CURSOR, DROP_LAST, NO_SHUFFLE, ONCE, SHARES, HELP, FLAGS };

static const struct gyre_flag show_sampler_flags[FLAGS] = {
    [SAMPLES] = {"samples", 'n', "COUNT", "how many there are (10)"},
    [WORLD] = {"world", 'w', "COUNT", "how many ranks (2)"},
    [SEED] = {"seed", 's', "NUMBER", "of the shuffle (0)"},
    [EPOCH] = {"epoch", 'e', "NUMBER", "which epoch (0)"},
    [CURSOR] = {"cursor", 'c', "COUNT", "how many of it are taken already, over all ranks (0)"},
    [DROP_LAST] = {"drop-last", 0, NULL, "leave out what does not divide by the ranks"},
    [NO_SHUFFLE] = {"no-shuffle", 0, NULL, "samples in their own order"},
    [ONCE] = {"once", 0, NULL, "each sample once: ranks may differ by one"},
    [SHARES] = {"shares", 0, "WEIGHTS", "each once, ranks in proportion: 4,2"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

struct sampler_asked {
    const char *word[FLAGS]; /* what was given */
    int64_t number[FLAGS];
    double share[WORLD_MAX];
    struct gyre_sampler_options options;
};

static int read_sampler_number(struct sampler_asked *a, int flag, int64_t least, int64_t most,
                               struct gyre_trouble *trouble)
{
    char name[32];
    if (!a->word[flag])
        return 0;
    snprintf(name, sizeof name, "--%s", show_sampler_flags[flag].name);
    return gyre_parse_int(name, a->word[flag], least, most, &a->number[flag], trouble);
}

/* The number of weights is the number of ranks, unless --world says so too. */
static int read_shares(struct sampler_asked *a, struct gyre_trouble *trouble)
{
    int64_t count = 0;
    char *end = NULL;
    for (const char *at = a->word[SHARES]; count < WORLD_MAX; at = end + 1) {
        a->share[count++] = strtod(at, &end);
        if (end == at || (*end && *end != ','))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "--shares is \"%s\": expected a weight per rank, as 4,2",
                                    a->word[SHARES]);
        if (!*end)
            break;
    }
    if (*end || (a->word[WORLD] && a->number[WORLD] != count))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--shares has %" PRId64 "%s weights for %" PRId64 " ranks", count,
                                *end ? " and more" : "", a->number[WORLD]);
    a->number[WORLD] = count;
    a->options.shares = a->share;
    return 0;
}

static int settle_question(struct sampler_asked *a, struct gyre_trouble *trouble)
{
    static const int64_t defaults[FLAGS] = {[SAMPLES] = 10, [WORLD] = 2};
    memcpy(a->number, defaults, sizeof defaults);
    a->options = (struct gyre_sampler_options)GYRE_SAMPLER_OPTIONS_INIT;
    int status = read_sampler_number(a, SAMPLES, 1, SAMPLES_MAX, trouble);
    if (!status)
        status = read_sampler_number(a, WORLD, 1, WORLD_MAX, trouble);
    for (int flag = SEED; !status && flag <= CURSOR; flag++)
        status = read_sampler_number(a, flag, 0, INT64_MAX, trouble);
    if (!status && a->word[DROP_LAST] && (a->word[ONCE] || a->word[SHARES]))
        status =
            gyre_trouble_set(trouble, GYRE_INVALID, "--drop-last and --%s contradict each other",
                             a->word[ONCE] ? "once" : "shares");
    if (!status && a->word[SHARES])
        status = read_shares(a, trouble);
    a->options.samples = (uint64_t)a->number[SAMPLES];
    a->options.world = (int)a->number[WORLD];
    a->options.seed = (uint64_t)a->number[SEED];
    a->options.shuffle = !a->word[NO_SHUFFLE];
    if (a->word[ONCE] || a->word[SHARES])
        a->options.tail = GYRE_TAIL_ONCE;
    else if (a->word[DROP_LAST])
        a->options.tail = GYRE_TAIL_DROP;
    return status;
}

static int print_rank(const struct sampler_asked *a, int rank, struct gyre_trouble *trouble)
{
    struct gyre_sampler *sampler;
    struct gyre_sampler_options options = a->options;
    uint64_t *indices = NULL, count = 0;
    options.rank = rank;
    int status = gyre_sampler_create(&sampler, &options);
    if (!status)
        status =
            gyre_sampler_begin(sampler, (uint64_t)a->number[EPOCH], (uint64_t)a->number[CURSOR]);
    uint64_t here = gyre_sampler_left_here(sampler);
    if (!status && here && !(indices = calloc(here, sizeof *indices)))
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for %" PRIu64 " samples", here);
    if (!status && here)
        status = gyre_sampler_next(sampler, UINT64_MAX, indices, here, &count);
    if (!status)
        printf("rank %d:", rank);
    for (uint64_t i = 0; i < count; i++)
        printf(" %" PRIu64, indices[i]);
    if (!status)
        putchar('\n');
    free(indices);
    gyre_sampler_destroy(sampler);
    return status ? gyre_trouble_set(trouble, status, "%s", gyre_error(NULL)) : 0;
}

int gyre_cli_show_sampler(char **argv)
{
    static struct sampler_asked a;
    struct gyre_flags flags = {.argv = argv, .flag = show_sampler_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    int status = gyre_flags_read_only(&flags, a.word, &trouble);
    if (!status && a.word[HELP]) {
        puts("usage: gyre show sampler [FLAGS]\n");
        gyre_flags_print(show_sampler_flags, FLAGS);
        puts("\nexample: gyre show sampler -n 142 --world 4 --epoch 3");
        return 0;
    }
    if (!status)
        status = settle_question(&a, &trouble);
    for (int rank = 0; !status && rank < a.options.world; rank++)
        status = print_rank(&a, rank, &trouble);
    return status ? gyre_cli_fail("show sampler", status, &trouble) : 0;
}
