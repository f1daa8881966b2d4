/* From words to launch options: every word alone, then the sense they make together.
 *
 *     -n 4                                   [4] here
 *     -n 4 --nnodes 2 --node-rank 1          [?, 4], node 1 here; ? is asked of the other launcher
 *     -n 4,2 --nnodes 2 --node-rank 1        [4, 2], node 1 here
 *     --simulate-nodes 4+2                   [4, 2], all here
 *     --hosts a:4,b:2                        [4, 2], none here: over ssh
 *     --hosts-file FILE                      the same, from a file
 *     --node 1 -n 4,2 (written by --hosts)   [4, 2], node 1 here, key on standard input
 *
 * Tested by tests/program/launch/launch.c. */
#include "cli/run_flags.h"

#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "launch/cores.h"
#include "launch/hosts_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MOST    (1 << 20)
#define RESTARTS_MOST 10000
#define EPOCHS_MOST   65535
#define PAUSE_MOST_MS 3600000
#define LEAVE_MS      300000
#define LEAVE_MOST_MS 86400000

static int number(const struct gyre_run_words *words, int flag, int64_t least, int64_t most,
                  int *out, struct gyre_trouble *trouble)
{
    char name[32];
    int64_t value;
    if (!words->of[flag])
        return 0;
    snprintf(name, sizeof name, "--%s", gyre_run_flags[flag].name);
    int status = gyre_parse_int(name, words->of[flag], least, most, &value, trouble);
    if (!status)
        *out = (int)value;
    return status;
}

static int refuse_both(const struct gyre_run_words *words, int a, int b,
                       struct gyre_trouble *trouble)
{
    if (!words->of[a] || !words->of[b])
        return 0;
    return gyre_trouble_set(
        trouble, GYRE_INVALID, "--%s '%s' and --%s '%s' exclude each other; give one",
        gyre_run_flags[a].name, words->of[a], gyre_run_flags[b].name, words->of[b]);
}

/* Sizes of one node, of each of --nnodes, or of all nodes for the launcher of one of them. */
static int settle_sizes(const struct gyre_run_words *words, const struct gyre_seating *given,
                        int nnodes, struct gyre_launch_options *options,
                        struct gyre_trouble *trouble)
{
    int nodes = words->of[NODE] ? given->nodes : nnodes;
    if (given->nodes != 1 && given->nodes != nodes)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--nproc-per-node '%s' names %d nodes, but --nnodes says %d",
                                words->of[NPROC], given->nodes, nnodes);
    if (options->node >= nodes)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--node-rank is %d; expected 0 to %d with --nnodes %d",
                                options->node, nodes - 1, nodes);
    options->seating = *given;
    options->seating.nodes = nodes;
    if (given->nodes == 1 && nodes > 1) {
        options->seating.size[0] = 0;
        options->seating.size[options->node] = given->size[0];
    }
    return 0;
}

static int check_total(const struct gyre_run_words *words, const struct gyre_seating *given,
                       const struct gyre_seating *seating, struct gyre_trouble *trouble)
{
    if (!words->of[NPROC] || gyre_seating_world(given) == gyre_seating_world(seating))
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "-n %s and --simulate-nodes %s differ: the nodes have %d ranks",
                            words->of[NPROC], words->of[SIMULATE], gyre_seating_world(seating));
}

/* The first hosts of a file have the ranks of a job that may have fewer than all. */
static int settle_hosts_file(const struct gyre_run_words *words, const struct gyre_seating *given,
                             struct gyre_hosts *hosts, struct gyre_launch_options *options,
                             struct gyre_trouble *trouble)
{
    int64_t limit_ms = LEAVE_MS;
    options->hosts_file = words->of[words->of[HOSTS_FILE] ? HOSTS_FILE : HOSTFILE];
    options->hosts_each = given->size[0];
    options->hosts = hosts;
    int status = 0;
    if (given->nodes > 1)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--nproc-per-node '%s' and --hosts-file '%s' exclude each other; "
                                  "write each host's ranks behind it, or give one number for all",
                                  words->of[NPROC], options->hosts_file);
    if (!status && words->of[LEAVE_WITHIN])
        status =
            gyre_parse_duration_ms("--leave-within", words->of[LEAVE_WITHIN], &limit_ms, trouble);
    if (!status && limit_ms > LEAVE_MOST_MS)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--leave-within is \"%s\": expected at most a day",
                                  words->of[LEAVE_WITHIN]);
    options->leave_limit_ms = (int)limit_ms;
    if (!status)
        status = gyre_hosts_file_read(options->hosts_file, options->hosts_each, hosts,
                                      &options->seating, trouble);
    gyre_seating_cut(&options->seating, options->elastic_most);
    return status;
}

/* One number of ranks is for the hosts that come without their own. */
static int settle_hosts(const struct gyre_run_words *words, const struct gyre_seating *given,
                        struct gyre_hosts *hosts, struct gyre_launch_options *options,
                        struct gyre_trouble *trouble)
{
    struct gyre_seating *seating = &options->seating;
    int without = 0;
    int status = gyre_seating_parse_hosts("--hosts", words->of[HOSTS], 0, hosts, seating, trouble);
    for (int i = 0; i < seating->nodes && !status; i++)
        if (!seating->size[i]) {
            seating->size[i] = given->size[0];
            without++;
        }
    options->hosts = hosts;
    if (status || !words->of[NPROC] || (without && given->nodes == 1))
        return status;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "--nproc-per-node '%s' and --hosts '%s' exclude each other; write each "
                            "host's ranks behind it as in a:4,b:2, or one number for all",
                            words->of[NPROC], words->of[HOSTS]);
}

/* torchrun's MIN:MAX has no number of nodes that begin. */
static int settle_nnodes(const struct gyre_run_words *words, int *nnodes,
                         struct gyre_trouble *trouble)
{
    const char *text = words->of[NNODES];
    if (!text || !strchr(text, ':'))
        return number(words, NNODES, 1, GYRE_NODES_MAX, nnodes, trouble);
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "--nnodes is \"%s\": expected the number of nodes that begin; others come "
        "later by --join, to a job with --elastic MIN:MAX (ranks) and --job "
        "NAME",
        text);
}

static int settle_seating(const struct gyre_run_words *words, struct gyre_hosts *hosts,
                          struct gyre_launch_options *options, struct gyre_trouble *trouble)
{
    static struct gyre_seating given = {1, {1}};
    static struct gyre_cores cores;
    int nnodes = 1, status = 0;
    const int file = words->of[HOSTS_FILE] ? HOSTS_FILE : HOSTFILE;
    const int hosts_by = words->of[file] ? file : HOSTS;
    gyre_cores_find(&cores);
    if (words->of[NPROC])
        status = gyre_seating_parse_sizes("--nproc-per-node", words->of[NPROC], cores.count, &given,
                                          trouble);
    if (status || (status = settle_nnodes(words, &nnodes, trouble)) ||
        (status = refuse_both(words, SIMULATE, hosts_by, trouble)) ||
        (status = refuse_both(words, HOSTS_FILE, HOSTFILE, trouble)) ||
        (status = refuse_both(words, file, HOSTS, trouble)) ||
        (status = nnodes > 1 ? refuse_both(words, NNODES, words->of[hosts_by] ? hosts_by : SIMULATE,
                                           trouble)
                             : 0))
        return status;
    if (words->of[file])
        return settle_hosts_file(words, &given, hosts, options, trouble);
    if (words->of[HOSTS])
        return settle_hosts(words, &given, hosts, options, trouble);
    if (!words->of[SIMULATE])
        return settle_sizes(words, &given, nnodes, options, trouble);
    options->simulate = true;
    status = gyre_seating_parse_nodes("--simulate-nodes", words->of[SIMULATE], &options->seating,
                                      trouble);
    return status ? status : check_total(words, &given, &options->seating, trouble);
}

/* By mistake rather than on purpose: every rank would do the whole work, in a job of its own. */
static int refuse_nested(const struct gyre_run_words *words, struct gyre_trouble *trouble)
{
    char launcher[32];
    int around = words->of[NODE] || words->of[NESTED] ? 0 : gyre_cli_job_around(launcher);
    if (!around || strcmp(launcher, "gyre run") != 0)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "this is a rank of another `gyre run` already, of %d rank%s, and each "
                            "of them would start a job of its own: leave one `gyre run` out; "
                            "--nested starts such jobs",
                            around, around > 1 ? "s" : "");
}

static int settle_restarts(const struct gyre_run_words *words, struct gyre_launch_options *options,
                           struct gyre_trouble *trouble)
{
    int64_t pause_ms = 1000;
    int status = refuse_both(words, RESTARTS, MAX_RESTARTS, trouble);
    options->epoch = -1;
    if (status ||
        (status = number(words, RESTARTS, 0, RESTARTS_MOST, &options->restarts, trouble)) ||
        (status = number(words, MAX_RESTARTS, 0, RESTARTS_MOST, &options->restarts, trouble)) ||
        (status = number(words, EPOCH, 0, EPOCHS_MOST, &options->epoch, trouble)))
        return status;
    if (words->of[PAUSE])
        status = gyre_parse_duration_ms("--restart-pause", words->of[PAUSE], &pause_ms, trouble);
    if (!status && pause_ms > PAUSE_MOST_MS)
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--restart-pause is \"%s\": expected at most an hour",
                                  words->of[PAUSE]);
    options->restart_pause_ms = (int)pause_ms;
    return status;
}

/* "2" or "2:4". */
static int settle_elastic(const struct gyre_run_words *words, struct gyre_launch_options *options,
                          struct gyre_trouble *trouble)
{
    const char *text = words->of[ELASTIC], *colon = text ? strchr(text, ':') : NULL;
    char least[16];
    int64_t numbers[2] = {0};
    if (!text)
        return 0;
    snprintf(least, sizeof least, "%.*s", colon ? (int)(colon - text) : 15, text);
    if (gyre_parse_int("MIN", least, 1, RANKS_MOST, &numbers[0], NULL) ||
        (colon && gyre_parse_int("MAX", colon + 1, 1, RANKS_MOST, &numbers[1], NULL)))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--elastic is \"%s\": expected MIN or MIN:MAX, such as 2:4", text);
    options->elastic_least = (int)numbers[0];
    options->elastic_most = (int)numbers[1];
    return 0;
}

/* A launcher in each pod of an indexed Job of Kubernetes: the pod's number is the node's. */
static int settle_node(const struct gyre_run_words *words, struct gyre_launch_options *options,
                       struct gyre_trouble *trouble)
{
    int64_t node = 0;
    int status = number(words, NODE_RANK, 0, GYRE_NODES_MAX - 1, &options->node, trouble);
    if (status || !words->of[NNODES] || words->of[NODE_RANK])
        return status;
    status = gyre_env_int("JOB_COMPLETION_INDEX", 0, GYRE_NODES_MAX - 1, &node, trouble);
    options->node = (int)node;
    return status;
}

/* torchrun's "host:port", in place of --master-addr and --master-port. */
static int settle_endpoint(const struct gyre_run_words *words, struct gyre_launch_options *options,
                           struct gyre_trouble *trouble)
{
    static const char *const backends[] = {"c10d", "static"};
    static char host[GYRE_HOST_MAX];
    int ignored;
    const char *text = words->of[RDZV_ENDPOINT], *colon = text ? strrchr(text, ':') : NULL;
    int64_t port = 0;
    options->master_addr = words->of[ADDR];
    int status = refuse_both(words, RDZV_ENDPOINT, ADDR, trouble);
    if (!status && words->of[RDZV_BACKEND])
        status = gyre_parse_word("--rdzv-backend", words->of[RDZV_BACKEND], backends, 2, &ignored,
                                 trouble);
    if (status || !text || (status = refuse_both(words, RDZV_ENDPOINT, PORT, trouble)))
        return status;
    if (!colon || colon == text || colon - text >= GYRE_HOST_MAX ||
        gyre_parse_int("PORT", colon + 1, 1, 65535, &port, NULL))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--rdzv-endpoint is \"%s\": expected HOST:PORT", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    options->master_addr = host;
    options->master_port = (int)port;
    return 0;
}

/* By hand, beside the launchers of a job that have met: nobody tells the ranks where it is. */
static int settle_join(const struct gyre_run_words *words, struct gyre_launch_options *options,
                       struct gyre_trouble *trouble)
{
    options->joining = words->of[JOINING] || words->of[JOIN];
    if (!words->of[JOIN])
        return 0;
    if (options->hosts || options->simulate || options->seating.nodes > 1)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--join starts ranks on this machine; leave out --hosts, "
                                "--hosts-file, --nnodes and --simulate-nodes");
    if (!options->job || !options->master_addr)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--join wants --job and --master-addr, as the job that runs was "
                                "given them");
    options->master_port = options->master_port ? options->master_port : 29500;
    if (!options->root_hosts)
        options->root_hosts = getenv("GYRE_ROOT_HOSTS");
    return 0;
}

/* A job that others may join: they know its name, its port and the user's own key. */
static void settle_callers(struct gyre_launch_options *options)
{
    options->takes_callers =
        options->elastic_least && options->job && !options->joining && !options->controlled;
    if (options->takes_callers && !options->master_port)
        options->master_port = 29500;
}

int gyre_run_settle(const struct gyre_run_words *words, struct gyre_hosts *hosts,
                    struct gyre_launch_options *options, struct gyre_trouble *trouble)
{
    int status = refuse_nested(words, trouble);
    if (!status)
        status = settle_node(words, options, trouble);
    if (status || (status = number(words, NODE, 0, GYRE_NODES_MAX - 1, &options->node, trouble)) ||
        (status = number(words, PORT, 0, 65535, &options->master_port, trouble)) ||
        (status = gyre_cli_backend(words->of[BACKEND], trouble)) ||
        (status = gyre_cli_devices(words->of[DEVICES], trouble)) ||
        (status = settle_restarts(words, options, trouble)) ||
        (status = settle_elastic(words, options, trouble)) ||
        (status = settle_endpoint(words, options, trouble)))
        return status;
    options->controlled = words->of[NODE];
    options->changes = words->of[CHANGES];
    options->root_hosts = words->of[ROOT_HOSTS];
    options->log_dir = words->of[LOG_DIR];
    options->job = words->of[JOB] ? words->of[JOB] : words->of[RDZV_ID];
    options->bind = words->of[BIND];
    options->prefix = !words->of[NO_PREFIX];
    if (!*options->program)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "no program given; usage: gyre run [FLAGS] PROGRAM [WORDS]");
    status = settle_seating(words, hosts, options, trouble);
    if (!status && options->seating.nodes > 1 && !options->hosts && !words->of[SIMULATE] &&
        !options->master_port)
        options->master_port = 29500;
    if (!status)
        status = settle_join(words, options, trouble);
    settle_callers(options);
    return status;
}
