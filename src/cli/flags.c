/* Reading flags. A word is cut into name and value first, then looked up, so that every spelling
 * meets one table. Tested by tests/program/cli/cli.c. */
#include "cli/flags.h"

#include "base/env.h"
#include "transport/link/words.h"

#include <stdio.h>
#include <string.h>

#define FLAGS_MAX  96
#define TRANSPORTS "TRANSPORTS" /* in a help: the words for drivers */

/* Copies the flag's name with '_' as '-'; returns what follows '=' or NULL. */
static const char *cut_name(const char *word, char *name, size_t capacity)
{
    size_t length = strcspn(word, "=");
    snprintf(name, capacity, "%.*s", (int)length, word);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    return word[length] ? word + length + 1 : NULL;
}

static int find_long(const struct gyre_flags *flags, const char *name)
{
    for (int i = 0; i < flags->count; i++)
        if (!strcmp(flags->flag[i].name, name))
            return i;
    return -1;
}

static int find_short(const struct gyre_flags *flags, char letter)
{
    for (int i = 0; i < flags->count; i++)
        if (flags->flag[i].letter == letter)
            return i;
    return -1;
}

static int unknown_flag(const struct gyre_flags *flags, const char *word, const char *name,
                        struct gyre_trouble *trouble)
{
    const char *names[FLAGS_MAX], *help[FLAGS_MAX];
    for (int i = 0; i < flags->count && i < FLAGS_MAX; i++) {
        names[i] = flags->flag[i].name;
        help[i] = flags->flag[i].help;
    }
    const char *near = gyre_nearest_name(name, names, help, flags->count);
    if (near)
        return gyre_trouble_set(trouble, GYRE_INVALID, "unknown flag '%s'; did you mean '--%s'?",
                                word, near);
    return gyre_trouble_set(trouble, GYRE_INVALID, "unknown flag '%s'; --help lists the flags",
                            word);
}

static int take_value(struct gyre_flags *flags, int index, const char *attached,
                      struct gyre_trouble *trouble)
{
    const struct gyre_flag *flag = &flags->flag[index];
    if (!flag->value && attached)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--%s takes no value, but got '%s'",
                                flag->name, attached);
    if (flag->value && !attached && !(attached = *flags->argv++))
        return gyre_trouble_set(trouble, GYRE_INVALID, "--%s needs a value: --%s %s", flag->name,
                                flag->name, flag->value);
    flags->value = attached;
    return index;
}

int gyre_flags_next(struct gyre_flags *flags, struct gyre_trouble *trouble)
{
    char name[64] = "";
    const char *word = *flags->argv, *attached;
    int index;
    if (!word || word[0] != '-' || !word[1])
        return GYRE_FLAGS_END;
    flags->argv++;
    if (!strcmp(word, "--"))
        return GYRE_FLAGS_END;
    if (word[1] == '-') {
        attached = cut_name(word + 2, name, sizeof name);
        index = find_long(flags, name);
    } else {
        index = find_short(flags, word[1]);
        attached = word[2] ? word + 2 : NULL;
        snprintf(name, sizeof name, "%s", word + 1);
    }
    if (index < 0)
        return unknown_flag(flags, word, name, trouble);
    return take_value(flags, index, attached, trouble);
}

int gyre_flags_read(struct gyre_flags *flags, const char **word, struct gyre_trouble *trouble)
{
    int index;
    while ((index = gyre_flags_next(flags, trouble)) >= 0)
        word[index] = flags->value ? flags->value : "yes";
    return index == GYRE_FLAGS_END ? 0 : index;
}

int gyre_flags_read_only(struct gyre_flags *flags, const char **word, struct gyre_trouble *trouble)
{
    int status = gyre_flags_read(flags, word, trouble);
    return !status && *flags->argv
               ? gyre_trouble_set(trouble, GYRE_INVALID, "unexpected word '%s'", *flags->argv)
               : status;
}

int gyre_flags_read_around(struct gyre_flags *flags, const char **word, const char **other,
                           const char *expected, struct gyre_trouble *trouble)
{
    int status;
    do {
        if (*flags->argv && **flags->argv != '-' && !*other)
            *other = *flags->argv++;
        status = gyre_flags_next(flags, trouble);
        if (status >= 0)
            word[status] = flags->value ? flags->value : "yes";
    } while (status >= 0);
    if (status != GYRE_FLAGS_END)
        return status;
    if (*flags->argv)
        return gyre_trouble_set(trouble, GYRE_INVALID, "unexpected word '%s'; %s is expected",
                                *flags->argv, expected);
    return 0;
}

static void print_help(const char *help)
{
    char words[128];
    const char *mark = strstr(help, TRANSPORTS);
    if (mark)
        printf("%.*s%s%s\n", (int)(mark - help), help, gyre_link_words_text(words, sizeof words),
               mark + strlen(TRANSPORTS));
    else
        puts(help);
}

void gyre_flags_print(const struct gyre_flag *flag, int count)
{
    for (int i = 0; i < count; i++) {
        char text[64], letter[8] = "    ";
        if (!flag[i].help)
            continue;
        if (flag[i].letter)
            snprintf(letter, sizeof letter, "-%c, ", flag[i].letter);
        snprintf(text, sizeof text, "%s--%s %s", letter, flag[i].name,
                 flag[i].value ? flag[i].value : "");
        printf("  %-32s", text);
        print_help(flag[i].help);
    }
}
