/* Reads the rules of GYRE_ALGO, and finds the one that fits an operation.
 *
 * A rule has at most three words, which are told apart by what they are: the first may name an
 * operation, one must name an algorithm, the last may be a range.
 *
 * Tested by tests/unit/collectives/choose/choose_test.c. */
#include "collectives/choose/preference.h"

#include "collectives/algorithms/table.h"
#include "base/env.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALGORITHMS_MAX 32
#define ALL_VERBS      ((1u << GYRE_VERBS) - 1)

struct parser {
    const char *name;
    const char *algorithm[ALGORITHMS_MAX + 1]; /* names, then "auto" */
    int algorithms;                            /* with "auto" */
    struct gyre_trouble *trouble;
};

static void list_algorithms(struct parser *p)
{
    while (gyre_algorithms[p->algorithms] && p->algorithms < ALGORITHMS_MAX) {
        p->algorithm[p->algorithms] = gyre_algorithms[p->algorithms]->name;
        p->algorithms++;
    }
    p->algorithm[p->algorithms++] = "auto";
}

#define UNEQUAL "all_gather_v"

static int find_verb(const char *word)
{
    if (strcmp(word, UNEQUAL) == 0)
        return GYRE_VERB_ALL_GATHER;
    for (int verb = 0; verb < GYRE_VERBS; verb++)
        if (strcmp(word, gyre_verb_word[verb]) == 0)
            return verb;
    return -1;
}

static bool is_range(const char *word)
{
    return strchr(word, '-') && (isdigit((unsigned char)*word) || *word == '-');
}

/* -- one rule ---------------------------------------------------------------------------------- */

static int read_range(const struct parser *p, const char *word, struct gyre_rule *rule)
{
    char from[32];
    const char *to = strchr(word, '-') + 1;
    int status = 0;
    snprintf(from, sizeof from, "%.*s", (int)(to - word - 1), word);
    if (*from)
        status = gyre_parse_size(p->name, from, &rule->from, p->trouble);
    if (!status && *to)
        status = gyre_parse_size(p->name, to, &rule->to, p->trouble);
    if (!status && rule->from >= rule->to)
        return gyre_trouble_set(p->trouble, GYRE_INVALID,
                                "%s: the range \"%s\" is empty; write it as 64K-1M, 1M- or -64K",
                                p->name, word);
    return status;
}

/* Refuses a word that is neither an operation nor an algorithm. The nearest right word may be of
 * either kind. */
static int unknown_word(const struct parser *p, const char *word)
{
    const char *words[ALGORITHMS_MAX + 1 + GYRE_VERBS + 1];
    int index, count = 0;
    if (strcmp(word, "barrier") == 0)
        return gyre_trouble_set(p->trouble, GYRE_INVALID,
                                "%s: a barrier is an all_reduce of 1 byte and follows its rules",
                                p->name);
    if (strcmp(word, "all_to_all_v") == 0)
        return gyre_trouble_set(p->trouble, GYRE_INVALID,
                                "%s: all_to_all_v has one way only, a message to every rank",
                                p->name);
    for (; count < p->algorithms; count++)
        words[count] = p->algorithm[count];
    for (int verb = 0; verb < GYRE_VERBS; verb++)
        words[count++] = gyre_verb_word[verb];
    words[count++] = UNEQUAL;
    return gyre_parse_word(p->name, word, words, count, &index, p->trouble);
}

static int refuse_form(const struct parser *p, const char *word)
{
    return gyre_trouble_set(p->trouble, GYRE_INVALID,
                            "%s: \"%s\" is out of place; a rule is OPERATION:ALGORITHM:RANGE, such "
                            "as all_reduce:ring:1M-, and rules are separated by ';'",
                            p->name, word);
}

static int read_algorithm(const struct parser *p, const char *word, struct gyre_rule *rule)
{
    for (int i = 0; i < p->algorithms; i++)
        if (strcmp(word, p->algorithm[i]) == 0) {
            rule->algorithm = i + 1 < p->algorithms ? gyre_algorithms[i] : NULL;
            return 0;
        }
    return find_verb(word) >= 0 || is_range(word) || !*word ? refuse_form(p, word)
                                                            : unknown_word(p, word);
}

static bool builds(const struct gyre_rule *rule, int verb)
{
    static const uint64_t at[] = {0, 1}, count[] = {1, 1};
    struct gyre_slice slice = {.verb = (enum gyre_verb)verb, .n = 2, .element = 1, .count = 1};
    if (!rule->unequal)
        return rule->algorithm->verbs & rule->verbs;
    slice.out = (struct gyre_blocks){at, count};
    return gyre_algorithm_builds(rule->algorithm, &slice);
}

static int read_rule(const struct parser *p, char *text, struct gyre_rule *rule)
{
    char *rest = text, *word = strsep(&rest, ":");
    int verb = find_verb(word);
    *rule = (struct gyre_rule){.verbs = ALL_VERBS, .to = UINT64_MAX};
    const char *operation = word;
    if (verb >= 0 && rest) {
        rule->verbs = 1u << verb;
        rule->unequal = strcmp(word, UNEQUAL) == 0;
        word = strsep(&rest, ":");
    }
    int status = read_algorithm(p, word, rule);
    if (!status && rest) {
        word = strsep(&rest, ":");
        status = is_range(word) ? read_range(p, word, rule) : refuse_form(p, word);
    }
    if (!status && rest)
        status = refuse_form(p, rest);
    if (!status && verb >= 0 && rule->algorithm && !builds(rule, verb))
        status = gyre_trouble_set(p->trouble, GYRE_INVALID, "%s: algorithm \"%s\" has no %s",
                                  p->name, rule->algorithm->name, operation);
    return status;
}

/* -- all rules --------------------------------------------------------------------------------- */

static int read_only(const struct parser *p, const char *word, struct gyre_rules *rules)
{
    int index;
    int status = gyre_parse_word(p->name, word, p->algorithm, p->algorithms, &index, p->trouble);
    if (!status && index + 1 < p->algorithms)
        rules->only = gyre_algorithms[index];
    return status;
}

/* Removes blanks at the ends and around ';'. False: there are other blanks. */
static bool trim(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const char *word = from + strspn(from, " \t\n");
        bool between = to == text || to[-1] == ';' || *word == ';' || !*word;
        if (word > from && !between)
            return false;
        from = word;
        if (!*from)
            break;
        *to++ = *from;
    }
    *to = '\0';
    return true;
}

int gyre_rules_parse(const char *name, const char *text, struct gyre_rules *rules,
                     struct gyre_trouble *trouble)
{
    struct parser p = {.name = name, .trouble = trouble};
    char copy[GYRE_RULES_TEXT], *rest = copy;
    int status = 0;
    *rules = (struct gyre_rules){0};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy || !trim(copy))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is longer than %d bytes or has blanks inside a rule: expected "
                                "rules such as all_reduce:ring:1M-; direct:-64K",
                                name, GYRE_RULES_TEXT - 1);
    list_algorithms(&p);
    if (!strpbrk(copy, ":;"))
        return read_only(&p, copy, rules);
    while (!status && rest && *rest) {
        if (rules->rules == GYRE_RULES_MAX)
            return gyre_trouble_set(trouble, GYRE_INVALID, "%s has more than %d rules", name,
                                    GYRE_RULES_MAX);
        status = read_rule(&p, strsep(&rest, ";"), &rules->rule[rules->rules++]);
    }
    return status;
}

static bool offers(const struct gyre_algorithm *algorithm, const struct gyre_slice *whole,
                   bool in_order)
{
    return gyre_algorithm_builds(algorithm, whole) &&
           (!in_order || algorithm->rank_order || !gyre_verb_reduces(whole->verb));
}

static bool rule_fits(const struct gyre_rule *rule, const struct gyre_slice *whole, uint64_t bytes)
{
    return rule->verbs >> whole->verb & 1 && (!rule->unequal || whole->out.count) &&
           bytes >= rule->from && (bytes < rule->to || rule->to == UINT64_MAX);
}

const struct gyre_algorithm *gyre_rules_find(const struct gyre_rules *rules,
                                             const struct gyre_slice *whole, bool in_order)
{
    if (rules->only)
        return rules->only;
    for (uint32_t i = 0; i < rules->rules; i++) {
        const struct gyre_algorithm *algorithm = rules->rule[i].algorithm;
        if (rule_fits(&rules->rule[i], whole, whole->count * whole->element) &&
            (!algorithm || offers(algorithm, whole, in_order)))
            return algorithm;
    }
    return NULL;
}

/* -- the environment --------------------------------------------------------------------------- */

static bool breaks_order(const struct gyre_algorithm *algorithm, uint32_t verbs)
{
    for (int verb = 0; algorithm && !algorithm->rank_order && verb < GYRE_VERBS; verb++)
        if (verbs & algorithm->verbs & 1u << verb && gyre_verb_reduces((enum gyre_verb)verb))
            return true;
    return false;
}

static int check_order(const struct gyre_rules *rules, struct gyre_trouble *trouble)
{
    const struct gyre_algorithm *bad = breaks_order(rules->only, ALL_VERBS) ? rules->only : NULL;
    for (uint32_t i = 0; !bad && i < rules->rules; i++)
        if (breaks_order(rules->rule[i].algorithm, rules->rule[i].verbs))
            bad = rules->rule[i].algorithm;
    return bad ? gyre_trouble_set(trouble, GYRE_INVALID,
                                  "GYRE_ALGO names \"%s\", which does not sum in the order of "
                                  "ranks, but GYRE_REPRODUCIBLE is 1: name another for sums "
                                  "(direct), or unset one of the two",
                                  bad->name)
               : 0;
}

static const char *value_of(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Rules as one word. */
static void copy_without_blanks(char to[GYRE_RULES_TEXT], const char *rules)
{
    size_t length = 0;
    for (; *rules && length < GYRE_RULES_TEXT - 1; rules++)
        if (!isspace((unsigned char)*rules))
            to[length++] = *rules;
    to[length] = 0;
}

int gyre_preference_read(struct gyre_preference *preference, struct gyre_trouble *trouble)
{
    const char *rules = value_of("GYRE_ALGO"), *file = value_of("GYRE_TUNE_FILE");
    int64_t reproducible = 0;
    char hash[24] = "built-in", word[GYRE_RULES_TEXT];
    *preference = (struct gyre_preference){.tuning = gyre_tuning_built_in};
    int status = gyre_rules_parse("GYRE_ALGO", rules ? rules : "auto", &preference->rules, trouble);
    if (!status)
        status = gyre_env_int("GYRE_REPRODUCIBLE", 0, 1, &reproducible, trouble);
    if (!status && reproducible)
        status = check_order(&preference->rules, trouble);
    if (!status && file)
        status = gyre_tuning_read(file, &preference->tuning, NULL, trouble);
    if (file)
        snprintf(hash, sizeof hash, "%016" PRIx64, gyre_tuning_hash(&preference->tuning));
    preference->reproducible = reproducible;
    copy_without_blanks(word, rules ? rules : "auto");
    snprintf(preference->text, sizeof preference->text,
             "GYRE_ALGO=%s GYRE_REPRODUCIBLE=%d GYRE_TUNE_FILE=%s", word, (int)reproducible, hash);
    return status;
}
