/* gyre show choices: what its words and the environment mean, as gyre_init() would see it. Tested
 * by tests/program/cli/choices.sh. */
#include "cli/show/choices_asked.h"

#include "base/env.h"
#include "base/types.h"
#include "collectives/schedule/layout.h"
#include "collectives/plan/shape.h"
#include "transport/link/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MOST (UINT64_C(1) << 40)

const struct gyre_flag gyre_choices_flags[FLAGS] = {
    [RANKS] = {"ranks", 'n', "COUNT", "how many ranks (8)"},
    [NODES] = {"nodes", 0, "LAYOUT", "on how many machines: 4+2, 2x4 (one)"},
    [OP] = {"op", 'o', "OPERATION", "all_reduce, all_gather_v, barrier, ... (all_reduce)"},
    [TRANSPORT] = {"transport", 't', "NAME", "TRANSPORTS (GYRE_TRANSPORT)"},
    [TYPE] = {"type", 0, "TYPE", "of the elements: f32, f64, f16, ... (f32)"},
    [TYPE_BYTES] = {"type-bytes", 0, "BYTES", "size of an element, without a type (4)"},
    [FROM] = {"from", 'b', "SIZE", "smallest size of a block (8)"},
    [TO] = {"to", 'e', "SIZE", "largest size (256M)"},
    [JSON] = {"json", 0, NULL, "print JSON instead of a table"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

static int read_choice_number(const struct gyre_choices_asked *a, int flag, int64_t least,
                              int64_t most, uint32_t *out, struct gyre_trouble *trouble)
{
    char name[32];
    int64_t number = *out;
    snprintf(name, sizeof name, "--%s", gyre_choices_flags[flag].name);
    int status =
        a->word[flag] ? gyre_parse_int(name, a->word[flag], least, most, &number, trouble) : 0;
    *out = (uint32_t)number;
    return status;
}

/* Over TCP every rank is a node of its own, as join sees it. */
static int lay_out_ranks(struct gyre_choices_asked *a, bool tcp, struct gyre_trouble *trouble)
{
    struct gyre_slice *whole = &a->question.whole;
    char each[32];
    uint32_t n = 8;
    int status = read_choice_number(a, RANKS, 2, 1 << 20, &n, trouble);
    if (!status && a->word[NODES])
        status = gyre_layout_read("--nodes", a->word[NODES], &a->layout, &whole->n, trouble);
    if (status)
        return status;
    bool several = a->layout && a->layout->nodes > 1;
    if (a->word[RANKS] && a->word[NODES] && n != whole->n)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--ranks %u and --nodes %s differ", n,
                                a->word[NODES]);
    if (!a->word[NODES])
        whole->n = n;
    snprintf(each, sizeof each, "%ux1", whole->n);
    if (tcp) {
        gyre_layout_destroy(a->layout);
        a->layout = NULL;
        status = gyre_layout_read("--ranks", each, &a->layout, &whole->n, trouble);
    }
    a->question.link_kinds.near = GYRE_LINK_SHM;
    a->question.link_kinds.far = several ? GYRE_LINK_NETWORK : GYRE_LINK_LOOPBACK;
    a->question.mapped = !several && !tcp && whole->n <= GYRE_PEERS_MAPPED_MAX;
    whole->layout = several || tcp ? a->layout : NULL;
    return status;
}

/* Whether it is summed in a wider type decides who may sum, as its size does. */
static int read_type(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    const char *words[GYRE_TYPE_COUNT];
    int index;
    for (uint32_t type = 0; type < GYRE_TYPE_COUNT; type++)
        words[type] = gyre_type_name(type);
    int status = gyre_parse_word("--type", a->word[TYPE], words, GYRE_TYPE_COUNT, &index, trouble);
    if (status)
        return status;
    const struct gyre_shape shape = {.type = (enum gyre_type)index, .op = GYRE_SUM};
    uint32_t bytes = (uint32_t)gyre_type_size(shape.type);
    if (a->word[TYPE_BYTES] && bytes != a->question.whole.element)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--type %s and --type-bytes %s differ",
                                a->word[TYPE], a->word[TYPE_BYTES]);
    a->question.whole.element = bytes;
    a->question.whole.rounds_partials = gyre_shape_rounds_partials(&shape);
    return 0;
}

static int read_sizes(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    uint32_t element = 4;
    a->from = 8;
    a->to = UINT64_C(256) << 20;
    int status = read_choice_number(a, TYPE_BYTES, 1, 1 << 20, &element, trouble);
    if (!status && a->word[FROM])
        status = gyre_parse_size("--from", a->word[FROM], &a->from, trouble);
    if (!status && a->word[TO])
        status = gyre_parse_size("--to", a->word[TO], &a->to, trouble);
    a->question.whole.element = element;
    if (!status && a->word[TYPE])
        status = read_type(a, trouble);
    if (!status && (a->from < 1 || a->to > SIZE_MOST || a->from > a->to))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "sizes from %llu to %llu: expected 1 to 1024G, the smaller first",
                                (unsigned long long)a->from, (unsigned long long)a->to);
    return status;
}

static int read_asked_transport(const struct gyre_choices_asked *a, bool *tcp,
                                struct gyre_trouble *trouble)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int index = 0, count = gyre_link_words(words);
    int status =
        a->word[TRANSPORT]
            ? gyre_parse_word("--transport", a->word[TRANSPORT], words, count, &index, trouble)
            : gyre_env_word("GYRE_TRANSPORT", words, count, &index, trouble);
    *tcp = gyre_link_word_sends(words[index]);
    return status;
}

/* Behind the verbs: what the chooser knows by another name, or not at all. */
static const struct {
    const char *word;
    enum gyre_verb verb;
    enum gyre_choices_kind kind;
} others[] = {{"all_gather_v", GYRE_VERB_ALL_GATHER, UNEQUAL},
              {"all_to_all_v", GYRE_VERB_ALL_TO_ALL, ONE_WAY},
              {"barrier", GYRE_VERB_ALL_REDUCE, BARRIER}};

#define OTHERS (int)(sizeof others / sizeof *others)

static int read_chosen_operation(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    const char *words[GYRE_VERBS + OTHERS];
    char name[32];
    int index = GYRE_VERB_ALL_REDUCE, status = 0;
    for (int i = 0; i < GYRE_VERBS + OTHERS; i++)
        words[i] = i < GYRE_VERBS ? gyre_verb_word[i] : others[i - GYRE_VERBS].word;
    snprintf(name, sizeof name, "%s", a->word[OP] ? a->word[OP] : "");
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (a->word[OP])
        status = gyre_parse_word("--op", name, words, GYRE_VERBS + OTHERS, &index, trouble);
    if (status)
        return status;
    a->operation = words[index];
    a->kind = index < GYRE_VERBS ? PLAIN : others[index - GYRE_VERBS].kind;
    a->question.whole.verb =
        index < GYRE_VERBS ? (enum gyre_verb)index : others[index - GYRE_VERBS].verb;
    return 0;
}

/* What is the same for every size; the rule that fits a size is found later. */
static int read_settings(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    int64_t lanes = 0;
    int status = gyre_preference_read(&a->preference, trouble);
    if (!status)
        status = gyre_env_size("GYRE_SLICE", &a->question.slice_bytes, trouble);
    if (!status)
        status = gyre_env_refuse_zero("GYRE_SLICE", a->question.slice_bytes, trouble);
    if (!status)
        status = gyre_env_int("GYRE_LANES", 1, 8, &lanes, trouble);
    a->question.lanes = (uint32_t)lanes;
    a->question.in_order = a->preference.reproducible;
    a->question.link_kinds.tuning = &a->preference.tuning;
    a->question.work_most = GYRE_CHOOSE_WORK;
    return status;
}

static int finish_question(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    struct gyre_slice *whole = &a->question.whole;
    if (a->kind == BARRIER)
        a->from = a->to = whole->element = 1;
    if (a->kind != UNEQUAL)
        return 0;
    a->blocks = calloc(2 * (size_t)whole->n, sizeof(*a->blocks));
    if (!a->blocks)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u blocks", whole->n);
    whole->out = (struct gyre_blocks){a->blocks, a->blocks + whole->n};
    return 0;
}

int gyre_choices_settle(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    bool tcp;
    int status = read_settings(a, trouble);
    if (!status)
        status = read_chosen_operation(a, trouble);
    if (!status)
        status = read_sizes(a, trouble);
    if (!status)
        status = read_asked_transport(a, &tcp, trouble);
    if (!status)
        status = lay_out_ranks(a, tcp, trouble);
    return status ? status : finish_question(a, trouble);
}
