/* gyre show env: every knob with its value, where the value came from, and what it means; behind
 * them the prices that choosing uses, if they come from a file. A value that cannot be used is told
 * on standard error and makes the exit code 2, as it would make gyre_init() fail; so does a set of
 * kernels that there is none of, where sums would take the fastest and warn. Tested by
 * tests/program/cli/knobs.sh. */
#include "cli/show/parts.h"

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "cli/show/knob_check.h"

#include "collectives/choose/preference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON, HELP, FLAGS };

static const struct gyre_flag show_env_flags[FLAGS] = {
    [JSON] = {"json", 0, NULL, "print JSON instead of a table"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

struct row {
    const struct gyre_knob *knob;
    const char *value, *origin;
};

static struct row row_of(const struct gyre_knob *knob)
{
    const char *text = getenv(knob->name);
    if (!text || !*text)
        return (struct row){knob, knob->fallback, "default"};
    return (struct row){knob, knob->kind == GYRE_KNOB_SECRET ? "(set)" : text, "environment"};
}

static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

static void print_env_json(void)
{
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++) {
        struct row row = row_of(knob);
        printf("%s{\"name\":\"%s\",\"value\":", knob == gyre_knobs ? "[" : ",\n ", knob->name);
        print_json_text(row.value);
        printf(",\"origin\":\"%s\",\"same\":%s,\"meaning\":", row.origin,
               knob->same ? "true" : "false");
        print_json_text(knob->meaning);
        putchar('}');
    }
    puts("]");
}

static void print_env_table(void)
{
    printf("%-22s %-24s %-12s %s\n", "knob", "value", "origin", "meaning (* equal on all ranks)");
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++) {
        struct row row = row_of(knob);
        printf("%-22s %-24s %-12s %s%s\n", knob->name, row.value, row.origin, knob->meaning,
               knob->same ? " *" : "");
    }
}

/* The prices behind GYRE_TUNE_FILE, in the file's own words. */
static void print_prices(const struct gyre_preference *preference)
{
    char text[4096];
    const char *file = getenv("GYRE_TUNE_FILE");
    if (!file || !*file)
        return;
    gyre_tuning_format(text, sizeof text, &preference->tuning, ~0u);
    printf("\nprices (from the file %s where it has them, otherwise built in)\n", file);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        if (strncmp(line, "gyre-tuning ", 12) && strncmp(line, "values ", 7))
            printf("  %s\n", line);
}

/* All that is wrong, each once: what the knobs' kinds cannot tell of is asked first. */
static int check_all(struct gyre_preference *preference)
{
    struct gyre_trouble first = {0};
    int status = gyre_preference_read(preference, &first);
    int code = status ? gyre_cli_fail("show env", status, &first) : 0;
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++) {
        struct gyre_trouble trouble = {0};
        const char *text = getenv(knob->name);
        status = text && *text ? gyre_knob_check(knob, text, &trouble) : 0;
        if (status && strcmp(trouble.text, first.text) != 0)
            code = gyre_cli_fail("show env", status, &trouble);
    }
    return code;
}

int gyre_cli_show_env(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = show_env_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    const char *given[FLAGS] = {NULL};
    int status = gyre_flags_read_only(&flags, given, &trouble);
    if (status)
        return gyre_cli_fail("show env", status, &trouble);
    if (given[HELP]) {
        puts("usage: gyre show env [FLAGS]\n");
        gyre_flags_print(show_env_flags, FLAGS);
        return 0;
    }
    struct gyre_preference preference;
    given[JSON] ? print_env_json() : print_env_table();
    int code = check_all(&preference);
    if (code == 0 && !given[JSON])
        print_prices(&preference);
    return code;
}
