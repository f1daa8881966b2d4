/* Writes what records say now in Prometheus's text form, for a collector of text files:
 *
 *     # HELP gyre_calls_total Operations that the rank has called.
 *     # TYPE gyre_calls_total counter
 *     gyre_calls_total{job="…",rank="0",host="…"} 1024
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/metrics.h"

struct metric {
    const char *name, *type, *help;
    double (*value)(const struct gyre_trails *trails, const struct gyre_trail *trail);
};

static double calls_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    const struct gyre_call_record *last = gyre_trail_last(trail);
    (void)trails;
    return last ? (double)last->number : 0;
}

/* How long the oldest call that has not ended has waited. */
static double pending_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    const struct gyre_call_record *pending = gyre_trail_pending(trail);
    uint64_t called = pending ? gyre_trail_time(trail, pending->called) : trails->at;
    return called < trails->at ? (double)(trails->at - called) / 1e9 : 0;
}

static double ran_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    (void)trails;
    return (double)trail->head.thread_now.ran_ns / 1e9;
}

static double delayed_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    (void)trails;
    return (double)trail->head.thread_now.delayed_ns / 1e9;
}

static double stopped_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    (void)trails;
    return trail->stopped;
}

static double failed_of(const struct gyre_trails *trails, const struct gyre_trail *trail)
{
    (void)trails;
    return trail->head.state == GYRE_RECORD_FAILED;
}

static const struct metric metric[] = {
    {"gyre_calls_total", "counter", "Operations that the rank has called.", calls_of},
    {"gyre_pending_seconds", "gauge", "Age of the oldest operation that has not ended.",
     pending_of},
    {"gyre_ran_seconds_total", "counter", "Time of the joining thread on a core.", ran_of},
    {"gyre_delayed_seconds_total", "counter", "Time of the joining thread ready without a core.",
     delayed_of},
    {"gyre_stopped", "gauge", "Whether the process is stopped.", stopped_of},
    {"gyre_failed", "gauge", "Whether the job has failed for the rank.", failed_of},
};

/* Writes a label's value. */
static void put_label(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
}

static void put_sample(FILE *out, const struct metric *metric_of, const struct gyre_trails *trails,
                       const struct gyre_trail *trail)
{
    fprintf(out, "%s{job=\"", metric_of->name);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", trail->head.job[i]);
    fputs("\",name=\"", out);
    put_label(out, trail->head.name);
    fprintf(out, "\",rank=\"%u\",host=\"", trail->head.rank);
    put_label(out, trail->head.host);
    fprintf(out, "\"} %.15g\n", metric_of->value(trails, trail));
}

void gyre_metrics_put(FILE *out, const struct gyre_trails *trails)
{
    for (size_t m = 0; m < sizeof metric / sizeof *metric; m++) {
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric[m].name, metric[m].help, metric[m].name,
                metric[m].type);
        for (uint32_t i = 0; i < trails->count; i++)
            put_sample(out, &metric[m], trails, &trails->of[i]);
    }
}
