/* What follows from a survey: hosts that are lost, versions and settings that differ, clocks, and
 * each way between two hosts. Tested by tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/survey.h"

#include "transport/net/handshake.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FOLDED_FROM 7    /* hosts; ways that are fine become one finding */
#define CLOCK_MS    1000 /* further apart is told */
#define LONG_US     1000 /* there and back, from which on slow starts are told */

static bool is_here(const struct gyre_survey *survey, int i)
{
    return !*survey->host[i].lost;
}

/* The first host that takes part; -1: none does. */
static int first_here(const struct gyre_survey *survey)
{
    for (int i = 0; i < survey->n; i++)
        if (is_here(survey, i))
            return i;
    return -1;
}

static void judge_lost(const struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    for (int i = 0; i < survey->n; i++) {
        if (is_here(survey, i))
            continue;
        gyre_doctor_find(report, "host", GYRE_DOCTOR_PROBLEM, "%s", survey->host[i].lost);
        gyre_doctor_name_subject(report, "%s", survey->host[i].name);
        if (*survey->host[i].advice)
            gyre_doctor_advise(report, "%s", survey->host[i].advice);
    }
}

/* -- what must be equal ------------------------------------------------------------------------ */

static void judge_versions(const struct gyre_survey *survey, int first,
                           struct gyre_doctor_report *report)
{
    const char *version = survey->host[first].version;
    bool differ = false;
    for (int i = first; i < survey->n; i++)
        differ |= is_here(survey, i) && strcmp(survey->host[i].version, version);
    gyre_doctor_find(report, "versions", differ ? GYRE_DOCTOR_PROBLEM : GYRE_DOCTOR_OK,
                     differ ? "hosts have different versions of gyre" : "gyre %s everywhere",
                     version);
    for (int i = first; differ && i < survey->n; i++)
        if (is_here(survey, i))
            gyre_doctor_detail(report, "%s has %s", survey->host[i].name, survey->host[i].version);
    if (differ)
        gyre_doctor_advise(report, "install one build on all of them");
}

static void judge_settings(const struct gyre_survey *survey, int first,
                           struct gyre_doctor_report *report)
{
    char differences[512];
    gyre_doctor_find(report, "same_settings", GYRE_DOCTOR_OK,
                     "settings that must be the same are the same");
    for (int i = first; i < survey->n; i++) {
        if (!is_here(survey, i) || !strcmp(survey->host[i].settings, survey->host[first].settings))
            continue;
        gyre_configuration_difference(
            (const char *const[]){survey->host[first].settings, survey->host[i].settings},
            (const char *const[]){survey->host[first].name, survey->host[i].name}, differences,
            sizeof differences);
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_rephrase(report, "settings that must be the same differ");
        gyre_doctor_detail(report, "%s", differences);
    }
    if (gyre_doctor_last_state(report) == GYRE_DOCTOR_PROBLEM)
        gyre_doctor_advise(report, "set them alike on all hosts; a job would be refused");
}

static const char *key_words(const struct gyre_survey_host *host)
{
    return !*host->key_from                      ? "one that cannot be used"
           : !strcmp(host->key_from, "none")     ? "none yet"
           : !strcmp(host->key_from, "unwanted") ? "none, by GYRE_AUTH"
                                                 : host->key;
}

/* Over ssh `gyre run` brings a key of its own. Ranks of a job have proven theirs before they came
 * so far. */
static void judge_keys(const struct gyre_survey *survey, int first,
                       struct gyre_doctor_report *report)
{
    bool differ = false;
    const char *key = key_words(&survey->host[first]);
    for (int i = first; i < survey->n; i++)
        differ |= is_here(survey, i) && strcmp(key_words(&survey->host[i]), key);
    if (!differ) {
        gyre_doctor_find(report, "keys", GYRE_DOCTOR_OK, "the same everywhere: %s", key);
        return;
    }
    gyre_doctor_find(report, "keys", GYRE_DOCTOR_NOTE, "hosts have different keys");
    for (int i = first; i < survey->n; i++)
        if (is_here(survey, i))
            gyre_doctor_detail(report, "%s has %s", survey->host[i].name,
                               key_words(&survey->host[i]));
    gyre_doctor_advise(report, "`gyre run --hosts` sends one of its own; any other launcher needs "
                               "the same key file on all hosts (GYRE_KEY_FILE)");
}

/* -- clocks ------------------------------------------------------------------------------------ */

static bool is_good(const struct gyre_survey_way *way)
{
    return way->tried && !*way->failed && !way->probe.error && !way->probe.lost;
}

/* How far a host's clock is ahead of the first one's; either way between them tells. */
static bool compare_clock(const struct gyre_survey *survey, int first, int i, double *ahead_ms,
                          double *doubt_ms)
{
    const struct gyre_survey_way *there = &survey->way[first * survey->n + i],
                                 *back = &survey->way[i * survey->n + first];
    const struct gyre_survey_way *way = is_good(there) ? there : back;
    if (!is_good(way))
        return false;
    *ahead_ms = way == there ? way->probe.ahead_ms : -way->probe.ahead_ms;
    *doubt_ms = way->probe.doubt_ms;
    return true;
}

static void judge_clock(const struct gyre_survey *survey, int first, int i, double ahead_ms,
                        double doubt_ms, struct gyre_doctor_report *report)
{
    if (fabs(ahead_ms) - doubt_ms <= CLOCK_MS)
        return;
    gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
    gyre_doctor_detail(report, "%s is %.3f s %s %s, give or take %.3f ms", survey->host[i].name,
                       fabs(ahead_ms) / 1e3, ahead_ms > 0 ? "ahead of" : "behind",
                       survey->host[first].name, doubt_ms);
}

static void judge_clocks(const struct gyre_survey *survey, int first,
                         struct gyre_doctor_report *report)
{
    double most_ms = -1, most_doubt_ms = 0, ahead_ms, doubt_ms;
    gyre_doctor_find(report, "clocks", GYRE_DOCTOR_OK, "none could be compared");
    for (int i = first + 1; i < survey->n; i++) {
        if (!compare_clock(survey, first, i, &ahead_ms, &doubt_ms))
            continue;
        most_doubt_ms = fabs(ahead_ms) > most_ms ? doubt_ms : most_doubt_ms;
        most_ms = fmax(most_ms, fabs(ahead_ms));
        judge_clock(survey, first, i, ahead_ms, doubt_ms, report);
    }
    if (most_ms < 0)
        return;
    gyre_doctor_rephrase(report, "at most %.3f ms from %s's, give or take %.3f ms", most_ms,
                         survey->host[first].name, most_doubt_ms);
    if (gyre_doctor_last_state(report) == GYRE_DOCTOR_NOTE)
        gyre_doctor_advise(report,
                           "times in logs and of files mislead; jobs do not mind. chrony or "
                           "ntpd sets clocks");
    gyre_doctor_figure(report, "most_ms", most_ms);
    gyre_doctor_figure(report, "doubt_ms", most_doubt_ms);
}

/* -- ways -------------------------------------------------------------------------------------- */

/* What a job would use between two hosts, as far as both know before they have met. */
static const char *transport_of(const struct gyre_survey_host *a, const struct gyre_survey_host *b)
{
    const char *asked = strstr(a->settings, "GYRE_TRANSPORT=");
    bool tcp = asked && !strncmp(asked, "GYRE_TRANSPORT=tcp", 18);
    if (!tcp && *a->machine && !strcmp(a->machine, b->machine))
        return "one machine: a job shares memory";
    return !tcp && *a->verbs && *b->verbs ? "a job tries RDMA, then TCP" : "a job takes TCP";
}

/* Debian's /etc/hosts has a machine's own name at 127.0.1.1, and such a file may have been copied.
 */
static bool is_led_astray(const struct gyre_survey *survey, int from, int to)
{
    const char *root = survey->host[from].root;
    return survey->by_name && to == 0 && (!strncmp(root, "127.", 4) || !strcmp(root, "::1")) &&
           strcmp(survey->host[from].machine, survey->host[0].machine);
}

static void judge_astray(const struct gyre_survey *survey, int from,
                         struct gyre_doctor_report *report)
{
    gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM,
                     "%s knows the name %s as %s, which is %s itself", survey->host[from].name,
                     survey->host[0].name, survey->host[from].root, survey->host[from].name);
    gyre_doctor_advise(report, "give it the right address in /etc/hosts there, or give "
                               "--master-addr to `gyre run`");
}

/* Why a way was not tried, where the dialler knows the listener's name. */
static const char *why_untried(const struct gyre_survey *survey, int from, int to)
{
    const struct gyre_survey_host *host = &survey->host[*survey->host[from].port ? to : from];
    const struct gyre_survey_way *way = &survey->way[from * survey->n + to];
    return *way->failed ? way->failed : !*host->port ? host->failed : "no address of it is known";
}

static void judge_untried(const struct gyre_survey *survey, int from, int to,
                          struct gyre_doctor_report *report)
{
    const struct gyre_survey_host *host = &survey->host[from];
    if (survey->by_name && to == 0 && !*host->root && *survey->host[0].port) {
        gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM, "%s does not know the name %s: %s",
                         host->name, survey->host[0].name, host->failed);
        gyre_doctor_advise(report,
                           "`gyre run --hosts` tells all ranks that name of the first host: "
                           "add it to DNS or /etc/hosts there, or give --master-addr");
    } else {
        gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM, "not tried: %s",
                         why_untried(survey, from, to));
    }
}

static void judge_unconnected(const struct gyre_survey *survey, const struct gyre_survey_way *way,
                              int to, struct gyre_doctor_report *report)
{
    char found[512], advice[512];
    gyre_probe_explain(way->probe.error, way->address, found, advice, sizeof found);
    gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM, "%s", found);
    if (*advice)
        gyre_doctor_advise(report, "%s", advice);
    if (way->probe.error == ECONNREFUSED || way->probe.error == ETIMEDOUT)
        gyre_doctor_advise(report,
                           "ranks of a job listen at any port, or at those of "
                           "GYRE_PORT_RANGE: open them on %s",
                           survey->host[to].name);
}

static void judge_lossy(const struct gyre_survey *survey, const struct gyre_survey_way *way, int to,
                        struct gyre_doctor_report *report)
{
    if (way->probe.stuck) {
        gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM,
                         "small messages pass to %s, large ones do not (segments of %d bytes)",
                         way->address, way->probe.segment_bytes);
        gyre_doctor_advise(report,
                           "something on the way takes smaller packets and does not say so: "
                           "compare the MTU of all interfaces (ip link), let ICMP through, "
                           "or set sysctl net.ipv4.tcp_mtu_probing=1");
    } else {
        gyre_doctor_find(report, "way", GYRE_DOCTOR_PROBLEM,
                         "%s takes the connection and then says nothing", way->address);
        gyre_doctor_advise(report,
                           "something between the hosts answers in place of %s: a proxy, or "
                           "an address that two machines have",
                           survey->host[to].name);
    }
}

static bool is_fine(const struct gyre_survey_way *way)
{
    return is_good(way) && !way->probe.stuck;
}

static void judge_way(const struct gyre_survey *survey, int from, int to,
                      struct gyre_doctor_report *report)
{
    const struct gyre_survey_way *way = &survey->way[from * survey->n + to];
    if (is_led_astray(survey, from, to)) {
        judge_astray(survey, from, report);
    } else if (is_fine(way)) {
        gyre_doctor_find(report, "way", GYRE_DOCTOR_OK,
                         "%s: %.0f us there and back, %.3g Gbit/s; %s", way->address,
                         way->probe.round_trip_us, way->probe.gbit_s,
                         transport_of(&survey->host[from], &survey->host[to]));
        gyre_doctor_figure(report, "round_trip_us", way->probe.round_trip_us);
        gyre_doctor_figure(report, "gbit_s", way->probe.gbit_s);
    } else if (!way->tried || *way->failed) {
        judge_untried(survey, from, to, report);
    } else if (way->probe.error) {
        judge_unconnected(survey, way, to, report);
    } else {
        judge_lossy(survey, way, to, report);
    }
    gyre_doctor_name_subject(report, "%s → %s", survey->host[from].name, survey->host[to].name);
}

/* One finding of all ways that are fine. */
static void fold_ways(const struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    double least_us = INFINITY, most_us = 0, least_gbit = INFINITY, most_gbit = 0;
    int count = 0;
    for (int i = 0; i < survey->n * survey->n; i++) {
        const struct gyre_survey_way *way = &survey->way[i];
        if (!is_fine(way))
            continue;
        count++;
        least_us = fmin(least_us, way->probe.round_trip_us);
        most_us = fmax(most_us, way->probe.round_trip_us);
        least_gbit = fmin(least_gbit, way->probe.gbit_s);
        most_gbit = fmax(most_gbit, way->probe.gbit_s);
    }
    gyre_doctor_find(report, "ways", GYRE_DOCTOR_OK,
                     "%d are fine: %.0f to %.0f us there and back, %.3g to %.3g Gbit/s", count,
                     count ? least_us : 0, most_us, count ? least_gbit : 0, most_gbit);
    gyre_doctor_figure(report, "fine", count);
}

static void judge_ways(const struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    bool folds = survey->n >= FOLDED_FROM;
    for (int from = 0; from < survey->n; from++)
        for (int to = 0; to < survey->n; to++) {
            const struct gyre_survey_way *way = &survey->way[from * survey->n + to];
            if (from == to || !is_here(survey, from) || !is_here(survey, to) ||
                (folds && is_fine(way)))
                continue;
            judge_way(survey, from, to, report);
        }
    if (folds)
        fold_ways(survey, report);
}

/* A note where the longest of the ways on which a sender begins slowly again after a pause is long
 * (docs/notes/tcp.md). */
static void judge_pauses(const struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    double most_us = 0;
    int slow = 0;
    for (int i = 0; i < survey->n * survey->n; i++) {
        const struct gyre_survey_way *way = &survey->way[i];
        if (!is_fine(way) || !*survey->host[i / survey->n].slow_start ||
            way->probe.round_trip_us <= most_us)
            continue;
        most_us = way->probe.round_trip_us;
        slow = i / survey->n;
    }
    if (most_us < LONG_US)
        return;
    gyre_doctor_find(report, "pauses", GYRE_DOCTOR_NOTE,
                     "after 0.2 s without a message %s begins slowly again (%s): over %.1f ms "
                     "there and back 1 MiB takes up to twice as long",
                     survey->host[slow].name, survey->host[slow].slow_start, most_us / 1000);
    gyre_doctor_advise(report, "on all hosts: sysctl net.ipv4.tcp_slow_start_after_idle=0, or BBR");
}

void gyre_survey_judge(const struct gyre_survey *survey, struct gyre_doctor_report *report)
{
    int first = first_here(survey);
    judge_lost(survey, report);
    if (first < 0)
        return;
    judge_versions(survey, first, report);
    judge_settings(survey, first, report);
    judge_keys(survey, first, report);
    judge_clocks(survey, first, report);
    judge_ways(survey, report);
    judge_pauses(survey, report);
}
