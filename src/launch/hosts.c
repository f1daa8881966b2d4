/* Other machines, through ssh.
 *
 *     here                                          on host b
 *     gyre run --hosts a:4,b:2 ./prog
 *        └─ ssh b 'cd … && exec gyre run --node 1 …'
 *             stdin ─── key, then "signal 15" ────▶ gyre run --node 1 ─▶ ranks 4, 5
 *             stdout, stderr ◀── "[4] …" ────────── and "gyre run: rank 4 on b failed first …",
 *                                                   which is kept for the last line
 *
 * Nothing secret is in an argument or an environment variable, which other users of either machine
 * can list. When this launcher dies, its ssh dies too; the far launcher's standard input ends, and
 * that launcher ends its ranks. On this machine itself a shell takes the place of ssh.
 *
 * Tested by tests/program/launch/hosts.c. */
#include "launch/hosts.h"
#include "launch/start.h"

#include "base/bytes.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Settings that a user gives once, on this machine. Variables GYRE_* are carried, too, except those
 * of one job, of one process or of this machine's files. */
static const char *const carried[] = {"LD_LIBRARY_PATH", "OMP_NUM_THREADS",  "OPENBLAS_NUM_THREADS",
                                      "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"};
static const char *const private[] = {
    "GYRE_KEY",      "GYRE_KEY_FD",         "GYRE_KEY_FILE", "GYRE_LAUNCHER_FD", "GYRE_RECORD_FD",
    "GYRE_JOB",      "GYRE_SIMULATED_NODE", "GYRE_ROOT",     "GYRE_SSH",         "GYRE_EPOCH",
    "GYRE_TERMINAL", "GYRE_ELASTIC",        "GYRE_JOINING",  "GYRE_ROOT_HOSTS"};

static bool named(const char *variable, const char *const *names, size_t count)
{
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && !strncmp(variable, names[i], length))
            return true;
    return false;
}

static bool travels(const char *variable)
{
    if (!strncmp(variable, "GYRE_", 5))
        return !named(variable, private, sizeof private / sizeof *private);
    return named(variable, carried, sizeof carried / sizeof *carried);
}

void gyre_host_put_word(FILE *out, const char *word)
{
    fputs(" '", out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

void gyre_host_put_tool(FILE *out)
{
    char path[PATH_MAX];
    if (getcwd(path, sizeof path)) {
        fputs("cd", out);
        gyre_host_put_word(out, path);
        fputs(" && ", out);
    }
    fputs("exec env", out);
    for (char **variable = environ; *variable; variable++)
        if (travels(*variable))
            gyre_host_put_word(out, *variable);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    /* env would take a path with '=' for one more variable. */
    fputs(" /bin/sh -c 'exec \"$0\" \"$@\"'", out);
    gyre_host_put_word(out, length > 0 ? path : "gyre");
}

static void put_sizes(FILE *out, const struct gyre_seating *seating)
{
    for (int i = 0; i < seating->nodes; i++)
        fprintf(out, "%s%d", i ? "," : " --nproc-per-node ", seating->size[i]);
}

/* The command line of the launcher on the other host. The caller frees the text; NULL without
 * memory. */
static char *far_command(const struct gyre_children *all, const struct gyre_launch_options *options,
                         const struct gyre_launch_job *job, int node, bool joins)
{
    char hosts[GYRE_HOSTS_TEXT];
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    gyre_host_put_tool(out);
    fprintf(out, " run --node %d --master-port %d --master-addr", node, job->master_port);
    gyre_host_put_word(out, job->master_addr);
    fputs(" --job", out);
    gyre_host_put_word(out, job->id);
    put_sizes(out, &job->seating);
    fprintf(out, " --epoch %d --restarts %d --restart-pause %dms", job->epoch,
            gyre_launch_returns(job) ? job->restarts.most : job->restarts.most - job->restarts.used,
            options->restart_pause_ms);
    if (job->elastic_least)
        fprintf(out, " --elastic %d:%d", job->elastic_least, gyre_launch_elastic_most(job));
    fputs(job->changes ? " --changes" : "", out);
    if (joins) {
        gyre_children_list_hosts(all, hosts);
        fputs(" --joining --root-hosts", out);
        gyre_host_put_word(out, hosts);
    }
    fputs(options->bind ? " --bind" : "", out);
    fputs(options->prefix ? "" : " --no-prefix", out);
    if (options->log_dir) {
        fputs(" --log-dir", out);
        gyre_host_put_word(out, options->log_dir);
    }
    fputs(" --", out);
    for (char *const *word = options->program; *word; word++)
        gyre_host_put_word(out, *word);
    return fclose(out) ? (free(text), NULL) : text;
}

bool gyre_host_is_here(const char *host)
{
    return !strcmp(host, "localhost") || !strcmp(host, gyre_host_name());
}

/* GYRE_SSH may hold options: "ssh -p 2222". ssh cannot ask the user for a password, because its
 * standard input carries the key. */
static int split_ssh(struct gyre_host_words *words, int *count, struct gyre_trouble *trouble)
{
    const char *given = getenv("GYRE_SSH");
    const char *ssh = given && *given ? given : "ssh -T -o BatchMode=yes";
    if (strlen(ssh) >= sizeof words->ssh)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_SSH has %zu characters, at most %zu are allowed: put options "
                                "into ssh's own file, or name a script",
                                strlen(ssh), sizeof words->ssh - 1);
    strcpy(words->ssh, ssh);
    for (char *word = strtok(words->ssh, " "); word; word = strtok(NULL, " ")) {
        if (*count == GYRE_SSH_WORDS_MAX)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "GYRE_SSH has more than %d words: put options into ssh's own "
                                    "file, or name a script",
                                    GYRE_SSH_WORDS_MAX);
        words->argv[(*count)++] = word;
    }
    return *count ? 0 : gyre_trouble_set(trouble, GYRE_INVALID, "GYRE_SSH has blanks only");
}

int gyre_host_build_words(struct gyre_host_words *words, char *host, char *command,
                          struct gyre_trouble *trouble)
{
    int count = 0, status = 0;
    if (gyre_host_is_here(host)) {
        words->argv[count++] = (char *)"/bin/sh";
        words->argv[count++] = (char *)"-c";
    } else {
        status = split_ssh(words, &count, trouble);
        words->argv[count++] = host;
    }
    words->argv[count++] = command;
    words->argv[count] = NULL;
    return status;
}

static int send_key(const struct gyre_child *child, const uint8_t *key,
                    struct gyre_trouble *trouble)
{
    char text[2 * GYRE_KEY_BYTES + 2];
    gyre_hex_write(key, GYRE_KEY_BYTES, text);
    text[2 * GYRE_KEY_BYTES] = '\n';
    text[2 * GYRE_KEY_BYTES + 1] = 0;
    const int status = gyre_child_say(child, text);
    explicit_bzero(text, sizeof text);
    return status ? gyre_trouble_set(trouble, status, "cannot tell %s the job's key: %s",
                                     child->name, strerror(-status))
                  : 0;
}

static int start_host(struct gyre_children *all, int node, char *host, char *command,
                      const uint8_t *key, struct gyre_trouble *trouble)
{
    struct gyre_child *child = &all->child[node];
    struct gyre_variables none = {0};
    struct gyre_host_words words;
    int status = gyre_host_build_words(&words, host, command, trouble);
    if (status)
        return status;
    struct gyre_spawn spawn = {.program = words.argv,
                               .variables = &none,
                               .input = GYRE_INPUT_PIPE,
                               .out = &all->out,
                               .err = &all->err,
                               .shown = &all->shown,
                               .out_log = -1,
                               .err_log = -1};
    snprintf(child->name, sizeof child->name, "%s %s",
             gyre_host_is_here(host) ? "the launcher on" : "ssh to", host);
    status = gyre_child_spawn(child, &all->group, &spawn, trouble);
    if (!status && (status = gyre_line_tap_keep(&child->err, GYRE_REPORT_PREFIX)))
        gyre_trouble_set(trouble, status, "no memory for a host's reports");
    return status ? status : send_key(child, key, trouble);
}

static int check_root(const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    if (job->seating.nodes < 2 || strcmp(job->master_addr, "localhost"))
        return 0;
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "--hosts begins with 'localhost', which is another machine on each host; give this "
        "machine's name ('%s') or --master-addr",
        gyre_host_name());
}

/* How ranks on other hosts find this one: without the user that ssh takes. */
static void name_for_ranks(const char *host, char name[GYRE_CHILD_HOST_MAX])
{
    const char *at = strchr(host, '@');
    snprintf(name, GYRE_CHILD_HOST_MAX, "%s",
             gyre_host_is_here(host) ? gyre_host_name()
             : at                    ? at + 1
                                     : host);
}

static int start_launcher(struct gyre_children *all, int node,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, bool joins,
                          struct gyre_trouble *trouble)
{
    static char host[GYRE_HOST_MAX];
    char *command = far_command(all, options, job, node, joins);
    snprintf(host, sizeof host, "%s", job->hosts.name[node]);
    name_for_ranks(host, all->child[node].host);
    all->child[node].ranks = job->seating.size[node];
    int status = command ? start_host(all, node, host, command, job->key, trouble)
                         : gyre_trouble_set(trouble, -ENOMEM, "no memory for a command line");
    free(command);
    return status;
}

int gyre_hosts_start(struct gyre_children *all, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    int status = check_root(job, trouble);
    for (int node = 0; node < job->seating.nodes && !status; node++)
        status = start_launcher(all, node, options, job, false, trouble);
    return status;
}

int gyre_host_start_again(struct gyre_children *all, int index,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    return start_launcher(all, index, options, job, true, trouble);
}
