/* The coordinator's side of the lines. All agents are asked before the first is heard, so they work
 * at the same time.
 *
 * Ways are tried in rounds, as in a tournament: in each round a host meets one other, so that no
 * host is busy with two. In the first half of a round one dials, in the second the other.
 *
 *     round 0   5-0  1-4  2-3        the last stands still, the others go round
 *     round 1   5-1  2-0  3-4
 *
 * Tested by tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/survey.h"

#include "base/clock.h"
#include "base/rng.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* An agent may get no core for half a minute. */
#define HELLO_NS (60 * GYRE_SECOND) /* for all hosts; ssh's own patience among it */
#define CHECK_NS (90 * GYRE_SECOND) /* for all hosts */
#define TRY_NS   (120 * GYRE_SECOND)

typedef void take_fact(const char *name, const char *value, void *context);

int gyre_survey_init(struct gyre_survey *survey, int n)
{
    *survey = (struct gyre_survey){.n = n};
    survey->host = calloc((size_t)n, sizeof *survey->host);
    survey->way = calloc((size_t)(n * n), sizeof *survey->way);
    for (int i = 0; survey->host && i < n; i++)
        gyre_doctor_line_open(&survey->host[i].line, -1, -1);
    return survey->host && survey->way ? 0 : -ENOMEM;
}

void gyre_survey_deinit(struct gyre_survey *survey)
{
    for (int i = 0; survey->host && i < survey->n; i++) {
        if (survey->host[i].line.out >= 0)
            gyre_doctor_say(&survey->host[i].line, "bye");
        gyre_doctor_line_close(&survey->host[i].line);
    }
    free(survey->host);
    free(survey->way);
    *survey = (struct gyre_survey){0};
}

void gyre_survey_lose(struct gyre_survey_host *host, const char *advice, const char *format, ...)
{
    va_list arguments;
    if (*host->lost)
        return;
    va_start(arguments, format);
    vsnprintf(host->lost, sizeof host->lost, format, arguments);
    va_end(arguments);
    snprintf(host->advice, sizeof host->advice, "%s", advice);
}

/* -- answers ----------------------------------------------------------------------------------- */

static void lose_silent(struct gyre_survey_host *host, int status)
{
    host->ended = status != GYRE_TIMED_OUT;
    if (!host->ended)
        gyre_survey_lose(host, "is the machine overloaded, or stopped?",
                         "its agent does not answer any more");
    else
        gyre_survey_lose(host, "", "its agent has ended");
}

/* 0: done; GYRE_INVALID: it failed, and *text says how; other: the agent is lost. */
static int hear_facts(struct gyre_survey_host *host, uint64_t deadline, take_fact *take,
                      void *context, char text[GYRE_DOCTOR_LINE_MAX])
{
    int status;
    while (!(status = gyre_doctor_hear(&host->line, text, deadline))) {
        char name[32];
        int at = 0;
        if (!strcmp(text, "done"))
            return 0;
        if (!strncmp(text, "failed ", 7)) {
            memmove(text, text + 7, strlen(text + 7) + 1);
            return GYRE_INVALID;
        }
        if (sscanf(text, "fact %31s %n", name, &at) == 1 && at)
            take(name, text + at, context);
    }
    lose_silent(host, status);
    return status;
}

static void take_host_fact(const char *name, const char *value, void *context)
{
    struct gyre_survey_host *host = context;
    const struct {
        const char *name;
        char *to;
        size_t size;
    } facts[] = {{"version", host->version, sizeof host->version},
                 {"host", host->host, sizeof host->host},
                 {"system", host->system, sizeof host->system},
                 {"machine", host->machine, sizeof host->machine},
                 {"key_from", host->key_from, sizeof host->key_from},
                 {"key", host->key, sizeof host->key},
                 {"address", host->address, sizeof host->address},
                 {"settings", host->settings, sizeof host->settings},
                 {"verbs", host->verbs, sizeof host->verbs},
                 {"slow_start", host->slow_start, sizeof host->slow_start},
                 {"port", host->port, sizeof host->port}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (!strcmp(name, facts[i].name))
            snprintf(facts[i].to, facts[i].size, "%s", value);
}

static void take_root_fact(const char *name, const char *value, void *context)
{
    struct gyre_survey_host *host = context;
    if (!strcmp(name, "address"))
        snprintf(host->root, sizeof host->root, "%s", value);
}

static void take_way_fact(const char *name, const char *value, void *context)
{
    struct gyre_probe *probe = context;
    const struct {
        const char *name;
        double *to;
    } facts[] = {{"round_trip_us", &probe->round_trip_us},
                 {"ahead_ms", &probe->ahead_ms},
                 {"doubt_ms", &probe->doubt_ms},
                 {"gbit_s", &probe->gbit_s}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (!strcmp(name, facts[i].name))
            *facts[i].to = strtod(value, NULL);
    if (!strcmp(name, "error"))
        probe->error = atoi(value);
    else if (!strcmp(name, "lost"))
        probe->lost = atoi(value);
    else if (!strcmp(name, "stuck"))
        probe->stuck = atoi(value);
    else if (!strcmp(name, "segment"))
        probe->segment_bytes = atoi(value);
}

/* -- hosts ------------------------------------------------------------------------------------- */

static void ask(struct gyre_survey *survey, const char *text)
{
    for (int i = 0; i < survey->n; i++) {
        struct gyre_survey_host *host = &survey->host[i];
        if (!*host->lost && !gyre_doctor_say(&host->line, "%s", text))
            lose_silent(host, GYRE_PEER_LOST);
    }
}

/* A host that fails in what it is asked for is not left out. */
static void hear_hosts(struct gyre_survey *survey, uint64_t patience, take_fact *take)
{
    char text[GYRE_DOCTOR_LINE_MAX];
    const uint64_t deadline = gyre_now_ns() + patience;
    for (int i = 0; i < survey->n; i++) {
        struct gyre_survey_host *host = &survey->host[i];
        if (!*host->lost && hear_facts(host, deadline, take, host, text) == GYRE_INVALID)
            snprintf(host->failed, sizeof host->failed, "%.500s", text);
    }
}

void gyre_survey_greet(struct gyre_survey *survey)
{
    ask(survey, "hello");
    hear_hosts(survey, HELLO_NS, take_host_fact);
}

static enum gyre_doctor_state state_named(const char *word)
{
    for (int state = 0; state <= GYRE_DOCTOR_ABSENT; state++)
        if (!strcmp(word, gyre_doctor_state_word((enum gyre_doctor_state)state)))
            return (enum gyre_doctor_state)state;
    return GYRE_DOCTOR_NOTE;
}

/* Names of checks live as long as the report; those of an agent of another version, too. */
static const char *check_named(const char *word)
{
    static char names[64][32];
    int i = 0;
    for (; i < 63 && *names[i]; i++)
        if (!strcmp(names[i], word))
            return names[i];
    snprintf(names[i], sizeof names[i], "%s", word);
    return names[i];
}

struct check_counts {
    int fine, notes, problems;
};

/* Takes a line of an agent's findings; those that are fine are only counted. Returns whether the
 * lines that follow belong to a finding that is told. */
static bool take_finding(struct gyre_survey_host *host, const char *text, bool told,
                         struct check_counts *counts, struct gyre_doctor_report *report)
{
    char check[32], word[16];
    if (sscanf(text, "finding %31s %15s", check, word) == 2) {
        enum gyre_doctor_state state = state_named(word);
        counts->fine += state == GYRE_DOCTOR_OK || state == GYRE_DOCTOR_ABSENT;
        counts->notes += state == GYRE_DOCTOR_NOTE;
        counts->problems += state == GYRE_DOCTOR_PROBLEM;
        told = state == GYRE_DOCTOR_NOTE || state == GYRE_DOCTOR_PROBLEM;
        if (told) {
            gyre_doctor_find(report, check_named(check), state, "%s", "");
            gyre_doctor_name_subject(report, "%s: %s", host->name, check);
        }
    } else if (told && !strncmp(text, "found ", 6))
        gyre_doctor_rephrase(report, "%s", text + 6);
    else if (told && !strncmp(text, "advice ", 7))
        gyre_doctor_advise(report, "%s", text + 7);
    else if (told && !strncmp(text, "detail ", 7))
        gyre_doctor_detail(report, "%s", text + 7);
    return told;
}

static void hear_findings(struct gyre_survey_host *host, uint64_t deadline,
                          struct gyre_doctor_report *report)
{
    char text[GYRE_DOCTOR_LINE_MAX];
    struct gyre_doctor_report told = {0};
    struct check_counts counts = {0};
    bool inside = false;
    int status;
    while (!(status = gyre_doctor_hear(&host->line, text, deadline)) && strcmp(text, "done"))
        inside = take_finding(host, text, inside, &counts, &told);
    if (status)
        lose_silent(host, status);
    else
        gyre_doctor_find(report, "host", GYRE_DOCTOR_OK,
                         "gyre %s, %s; %d checks fine, %d note%s, %d problem%s", host->version,
                         host->system, counts.fine, counts.notes, counts.notes == 1 ? "" : "s",
                         counts.problems, counts.problems == 1 ? "" : "s");
    if (!status)
        gyre_doctor_name_subject(report, "%s", host->name);
    gyre_doctor_report_append(report, &told);
}

void gyre_survey_check_hosts(struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    const uint64_t deadline = gyre_now_ns() + CHECK_NS;
    ask(survey, "check");
    for (int i = 0; i < survey->n; i++)
        if (!*survey->host[i].lost)
            hear_findings(&survey->host[i], deadline, report);
}

/* -- ways -------------------------------------------------------------------------------------- */

static bool takes_part(const struct gyre_survey *survey, int i)
{
    return i < survey->n && !*survey->host[i].lost && *survey->host[i].port;
}

/* The first host is found by its name, as `gyre run --hosts` tells it to all; others by the address
 * that they know of themselves. */
static const char *known_address(const struct gyre_survey *survey, int from, int to)
{
    return survey->by_name && to == 0 ? survey->host[from].root : survey->host[to].address;
}

static void start_try(struct gyre_survey *survey, int from, int to, const char *token)
{
    struct gyre_survey_way *way = &survey->way[from * survey->n + to];
    const char *address = known_address(survey, from, to);
    if (!*address)
        return;
    way->tried = gyre_doctor_say(&survey->host[from].line, "try %s %s %s", address,
                                 survey->host[to].port, token);
    snprintf(way->address, sizeof way->address, strchr(address, ':') ? "[%s]:%s" : "%s:%s", address,
             survey->host[to].port);
}

static void end_try(struct gyre_survey *survey, int from, int to)
{
    char text[GYRE_DOCTOR_LINE_MAX];
    struct gyre_survey_way *way = &survey->way[from * survey->n + to];
    if (!way->tried)
        return;
    int status =
        hear_facts(&survey->host[from], gyre_now_ns() + TRY_NS, take_way_fact, &way->probe, text);
    if (status == GYRE_INVALID)
        snprintf(way->failed, sizeof way->failed, "%.500s", text);
    else if (status)
        way->tried = false;
}

/* Whom `i` meets in a round of `m` hosts, which is even. */
static int rival(int i, int round, int m)
{
    if (i == m - 1)
        return round;
    int other = (2 * round - i + 2 * (m - 1)) % (m - 1);
    return other == i ? m - 1 : other;
}

static void play_half_round(struct gyre_survey *survey, int round, bool lower_dials,
                            const char *token)
{
    int m = survey->n + survey->n % 2;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < m; i++) {
            int other = rival(i, round, m);
            if ((i < other) != lower_dials || !takes_part(survey, i) || !takes_part(survey, other))
                continue;
            if (pass == 0)
                start_try(survey, i, other, token);
            else
                end_try(survey, i, other);
        }
}

static void ask_for_root(struct gyre_survey *survey)
{
    char text[160];
    const char *name = survey->host[0].name, *at = strrchr(name, '@');
    if (!survey->by_name)
        return;
    snprintf(text, sizeof text, "resolve %s", at ? at + 1 : name);
    ask(survey, text);
    hear_hosts(survey, TRY_NS, take_root_fact);
}

void gyre_survey_try_ways(struct gyre_survey *survey)
{
    char token[GYRE_PROBE_TOKEN + 1], text[64];
    uint64_t draw = 0;
    int rounds = survey->n + survey->n % 2 - 1;
    (void)gyre_random_bytes(&draw, sizeof draw);
    snprintf(token, sizeof token, "%016llx", (unsigned long long)draw);
    snprintf(text, sizeof text, "listen %s", token);
    ask(survey, text);
    hear_hosts(survey, TRY_NS, take_host_fact);
    ask_for_root(survey);
    for (int round = 0; round < rounds; round++) {
        play_half_round(survey, round, true, token);
        play_half_round(survey, round, false, token);
    }
}
