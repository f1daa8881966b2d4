/* gyre plan: what its words mean. A link is "100G:5us": bits per second in powers of ten, and the
 * time from a send to its arrival. Tested by tests/program/cli/plan.sh. */
#include "cli/plan/inside.h"

#include "base/env.h"
#include "collectives/schedule/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MOST      (1 << 20)
#define BITS_MOST       1e14
#define LATENCY_MOST_NS 1000000000
#define SIZE_MOST       (UINT64_C(1) << 40)
#define MODEL_MOST      100000
#define SIMULATED_MOST  4096
#define SIMULATED_BYTES (UINT64_C(1) << 30)

const struct gyre_flag gyre_plan_flags[FLAGS] = {
    [NODES] = {"nodes", 0, "COUNT", "how many machines (2)"},
    [RANKS] = {"ranks", 'n', "COUNT", "ranks of each machine (1)"},
    [LINK] = {"link", 'l', "SPEED:TIME", "of each machine: 100G:5us, or tuned (25G:15us)"},
    [SLOW] = {"slow", 0, "NODE:SPEED", "one machine has a slower link: 3:10G"},
    [SIZE] = {"size", 's', "SIZE", "bytes of the data, or of each block (64M)"},
    [OP] = {"op", 'o', "OPERATION", "all_reduce, broadcast, all_gather, ... (all_reduce)"},
    [TYPE_BYTES] = {"type-bytes", 0, "BYTES", "size of an element (4)"},
    [MODEL] = {"model", 'm', "LAYERSxWIDTH", "the gradients of such a perceptron: 8x1024"},
    [COMPUTE] = {"compute", 0, "TIME", "with --model: of a backward pass: 20ms (0)"},
    [BUCKET] = {"bucket", 0, "SIZE", "with --model: gradients that travel together (25M)"},
    [SIMULATE] = {"simulate", 0, NULL, "up to 4096 ranks: the engine itself, in virtual time"},
    [JSON] = {"json", 0, NULL, "print JSON instead of a table"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

/* A number and the factor of its unit, up to `end`. */
struct measure_unit {
    const char *word;
    double factor;
};

static const struct measure_unit speeds[] = {
    {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"", 1}};
static const struct measure_unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/* Reads the whole text. False: it is no number with such a unit between `least` and `most`. */
static bool read_measure(const char *text, const struct measure_unit *unit, size_t units,
                         double least, double most, uint64_t *out)
{
    char *end;
    double number = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
    for (size_t i = 0; number >= 0 && i < units; i++)
        if (strcmp(end, unit[i].word) == 0 && number * unit[i].factor >= least &&
            number * unit[i].factor <= most) {
            *out = (uint64_t)(number * unit[i].factor + 0.5);
            return true;
        }
    return false;
}

static bool read_speed(const char *text, uint64_t *bits)
{
    return read_measure(text, speeds, sizeof speeds / sizeof *speeds, 1000, BITS_MOST, bits);
}

static bool read_latency(const char *text, uint64_t *ns)
{
    return read_measure(text, times, sizeof times / sizeof *times, 0, 1e15, ns);
}

/* Cuts "a:b" in two. */
static bool cut_pair(const char *text, char *first, size_t room, const char **second)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= room)
        return false;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = '\0';
    *second = colon + 1;
    return true;
}

static int settle_preference(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    return gyre_preference_read(&a->preference, trouble);
}

static bool is_tuned(const struct gyre_plan_asked *a)
{
    return a->word[LINK] != NULL && strcmp(a->word[LINK], "tuned") == 0;
}

/* The link that was measured. */
static int settle_tuned_link(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    const struct gyre_price *network = &a->preference.tuning.link[GYRE_LINK_NETWORK];
    const char *file = getenv("GYRE_TUNE_FILE");
    if (file == NULL || *file == '\0')
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--link tuned: GYRE_TUNE_FILE names no file; `gyre tune` between "
                                "machines writes one");
    a->link.latency_ns = network->latency_ns;
    a->link.bits_per_second = (uint64_t)(8192e12 / (double)network->kib_ps);
    return 0;
}

static int settle_link(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    const char *text = a->word[LINK] != NULL ? a->word[LINK] : "25G:15us", *time;
    char speed[32];
    if (is_tuned(a))
        return settle_tuned_link(a, trouble);
    if (!cut_pair(text, speed, sizeof speed, &time) ||
        !read_speed(speed, &a->link.bits_per_second) || !read_latency(time, &a->link.latency_ns) ||
        a->link.latency_ns > LATENCY_MOST_NS)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--link is \"%s\": expected bits per second and a latency of at "
                                "most 1s, as in 100G:5us, or tuned",
                                text);
    return 0;
}

static uint64_t kib_ps_of(uint64_t bits_per_second)
{
    uint64_t ps = (uint64_t)(8192e12 / (double)bits_per_second + 0.5);
    return ps == 0 ? 1 : ps;
}

static int settle_slow(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    char node[32];
    const char *speed;
    int64_t number;
    if (a->word[SLOW] == NULL)
        return 0;
    if (!cut_pair(a->word[SLOW], node, sizeof node, &speed) ||
        !read_speed(speed, &a->slow_bits_per_second))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--slow is \"%s\": expected a node and its bits per second, as in "
                                "3:10G",
                                a->word[SLOW]);
    int status = gyre_parse_int("--slow", node, 0, a->nodes - 1, &number, trouble);
    if (status == 0)
        a->question.link_kinds.slow_node = (uint32_t)number;
    if (status == 0 && a->slow_bits_per_second >= a->link.bits_per_second)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--slow is \"%s\", which is not slower than --link", a->word[SLOW]);
    return status;
}

static int settle_count(const struct gyre_plan_asked *a, int flag, int64_t least, int64_t most,
                        int64_t usual, uint64_t *out, struct gyre_trouble *trouble)
{
    char name[32];
    int64_t number = usual;
    snprintf(name, sizeof name, "--%s", gyre_plan_flags[flag].name);
    int status = a->word[flag] == NULL
                     ? 0
                     : gyre_parse_int(name, a->word[flag], least, most, &number, trouble);
    *out = (uint64_t)number;
    return status;
}

static int settle_cluster(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    char layout[32];
    uint64_t nodes, ranks;
    int status = settle_count(a, NODES, 2, RANKS_MOST, 2, &nodes, trouble);
    if (status == 0)
        status = settle_count(a, RANKS, 1, RANKS_MOST, 1, &ranks, trouble);
    if (status != 0)
        return status;
    if (nodes * ranks > RANKS_MOST)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--nodes %" PRIu64 " --ranks %" PRIu64 ": at most %d ranks", nodes,
                                ranks, RANKS_MOST);
    a->nodes = (uint32_t)nodes;
    a->ranks = (uint32_t)ranks;
    snprintf(layout, sizeof layout, "%" PRIu64 "x%" PRIu64, nodes, ranks);
    status = gyre_layout_read("--nodes", layout, &a->layout, &a->question.whole.n, trouble);
    a->question.whole.layout = a->layout;
    return status;
}

static int settle_operation(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    char name[32];
    int index = GYRE_VERB_ALL_REDUCE;
    snprintf(name, sizeof name, "%s", a->word[OP] != NULL ? a->word[OP] : "all_reduce");
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    int status = gyre_parse_word("--op", name, gyre_verb_word, GYRE_VERBS, &index, trouble);
    a->question.whole.verb = (enum gyre_verb)index;
    return status;
}

static int settle_data(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    struct gyre_slice *whole = &a->question.whole;
    uint64_t element;
    a->bytes = UINT64_C(64) << 20;
    int status = settle_count(a, TYPE_BYTES, 1, 1 << 20, 4, &element, trouble);
    if (status == 0 && a->word[SIZE] != NULL)
        status = gyre_parse_size("--size", a->word[SIZE], &a->bytes, trouble);
    if (status != 0)
        return status;
    whole->element = (uint32_t)element;
    whole->count = whole->stride = a->bytes / element;
    if (a->bytes > SIZE_MOST || whole->count == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--size %s: expected an element to 1024G",
                                a->word[SIZE]);
    return 0;
}

static int settle_model(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    char end;
    a->bucket_bytes = UINT64_C(25) << 20;
    if (a->word[MODEL] == NULL && (a->word[COMPUTE] != NULL || a->word[BUCKET] != NULL))
        return gyre_trouble_set(trouble, GYRE_INVALID, "--%s belongs to --model",
                                a->word[COMPUTE] != NULL ? "compute" : "bucket");
    if (a->word[MODEL] == NULL)
        return 0;
    if (sscanf(a->word[MODEL], "%5" SCNu64 "x%5" SCNu64 "%c", &a->layers, &a->width, &end) != 2 ||
        a->layers < 1 || a->width < 1 || a->layers > MODEL_MOST)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--model is \"%s\": expected layers and their width, as in 8x1024",
                                a->word[MODEL]);
    if (a->word[SIZE] != NULL || a->word[OP] != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--model says what is reduced: leave --%s out",
                                a->word[SIZE] != NULL ? "size" : "op");
    if (a->word[COMPUTE] != NULL && !read_latency(a->word[COMPUTE], &a->compute_ns))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--compute is \"%s\": expected a time, as in 20ms",
                                a->word[COMPUTE]);
    int status = a->word[BUCKET] == NULL
                     ? 0
                     : gyre_parse_size("--bucket", a->word[BUCKET], &a->bucket_bytes, trouble);
    if (status == 0 && a->bucket_bytes < 4)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--bucket %s: expected at least 4 bytes",
                                a->word[BUCKET]);
    return status;
}

/* The network is as asked, the rest as measured or built in. A grant is one more message. */
static int settle_prices(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    struct gyre_price *network = &a->preference.tuning.link[GYRE_LINK_NETWORK];
    (void)trouble;
    if (!is_tuned(a)) {
        network->latency_ns = network->grant_ns = a->link.latency_ns;
        network->kib_ps = kib_ps_of(a->link.bits_per_second);
        a->preference.tuning.incast_kib_ps = a->preference.tuning.burst_bytes = 0;
    }
    a->question.link_kinds.tuning = &a->preference.tuning;
    a->question.link_kinds.near = GYRE_LINK_SHM;
    a->question.link_kinds.far = GYRE_LINK_NETWORK;
    a->question.link_kinds.slow_kib_ps =
        a->slow_bits_per_second == 0 ? 0 : kib_ps_of(a->slow_bits_per_second);
    a->question.in_order = a->preference.reproducible;
    return 0;
}

/* All ranks are simulated here, their data too, and each is a machine of its own. */
static int settle_simulation(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    const struct gyre_slice *whole = &a->question.whole;
    const uint64_t blocks = gyre_verb_has_blocks(whole->verb) ? whole->n : 1;
    if (a->word[SIMULATE] == NULL)
        return 0;
    if (a->layers != 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--simulate runs an operation, not --model: give the --size of a "
                                "bucket");
    if (a->ranks != 1)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--simulate with --ranks %u: the simulator knows no machine that "
                                "ranks share; leave --ranks out",
                                a->ranks);
    if (whole->n > SIMULATED_MOST || a->bytes > SIMULATED_BYTES / whole->n / blocks)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--simulate with %u ranks of %" PRIu64 " bytes: at most %d ranks, "
                                "and 1G of data of all together",
                                whole->n, a->bytes * blocks, SIMULATED_MOST);
    if (whole->element > 8 || (whole->element & (whole->element - 1)) != 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--simulate with --type-bytes %u: expected 1, 2, 4 or 8",
                                whole->element);
    return 0;
}

int gyre_plan_settle(struct gyre_plan_asked *a, struct gyre_trouble *trouble)
{
    static int (*const steps[])(struct gyre_plan_asked *, struct gyre_trouble *) = {
        settle_preference, settle_cluster, settle_link,   settle_slow,      settle_operation,
        settle_data,       settle_model,   settle_prices, settle_simulation};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](a, trouble);
    return status;
}

void gyre_plan_forget(struct gyre_plan_asked *a)
{
    gyre_layout_destroy(a->layout);
}
