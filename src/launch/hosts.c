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
#include "launch/start.h"

#include "base/hex.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Settings a user gives once, here. Of GYRE_* all but what belongs to one job, one process or this
 * machine's files. */
static const char *const carried[] = {"LD_LIBRARY_PATH", "OMP_NUM_THREADS",  "OPENBLAS_NUM_THREADS",
                                      "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"};
static const char *const private[] = {"GYRE_KEY",         "GYRE_KEY_FD", "GYRE_KEY_FILE",
                                      "GYRE_LAUNCHER_FD", "GYRE_JOB",    "GYRE_SIMULATED_NODE",
                                      "GYRE_ROOT",        "GYRE_SSH",    "GYRE_EPOCH"};

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

/* One word for a POSIX shell, whatever it holds. */
static void put_quoted(FILE *out, const char *word)
{
    fputs(" '", out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

static void put_place(FILE *out)
{
    char path[PATH_MAX];
    if (getcwd(path, sizeof path)) {
        fputs("cd", out);
        put_quoted(out, path);
        fputs(" && ", out);
    }
    fputs("exec env", out);
    for (char **variable = environ; *variable; variable++)
        if (travels(*variable))
            put_quoted(out, *variable);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    put_quoted(out, length > 0 ? path : "gyre");
}

static void put_sizes(FILE *out, const struct gyre_seating *seating)
{
    for (int i = 0; i < seating->nodes; i++)
        fprintf(out, "%s%d", i ? "," : " --nproc-per-node ", seating->size[i]);
}

/* The far launcher's command line; the caller frees it. NULL without memory. */
static char *far_command(const struct gyre_launch_options *options,
                         const struct gyre_launch_job *job, int node)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    put_place(out);
    fprintf(out, " run --node %d --master-port %d --master-addr", node, job->master_port);
    put_quoted(out, job->master_addr);
    fputs(" --job", out);
    put_quoted(out, job->id);
    put_sizes(out, &job->seating);
    fputs(options->bind ? " --bind" : "", out);
    fputs(options->prefix ? "" : " --no-prefix", out);
    if (options->log_dir) {
        fputs(" --log-dir", out);
        put_quoted(out, options->log_dir);
    }
    fputs(" --", out);
    for (char *const *word = options->program; *word; word++)
        put_quoted(out, *word);
    return fclose(out) ? (free(text), NULL) : text;
}

static bool host_is_here(const char *host)
{
    return !strcmp(host, "localhost") || !strcmp(host, gyre_host_name());
}

#define SSH_WORDS_MAX 16

/* GYRE_SSH may hold options: "ssh -p 2222". No prompt can be answered, since ssh's input carries
 * the key. */
static void build_ssh(char *words, char *host, char *command, char *argv[SSH_WORDS_MAX + 3])
{
    int count = 0;
    for (char *word = strtok(words, " "); word && count < SSH_WORDS_MAX; word = strtok(NULL, " "))
        argv[count++] = word;
    argv[count++] = host;
    argv[count++] = command;
    argv[count] = NULL;
}

static int send_key(const struct gyre_child *child, const uint8_t *key)
{
    char text[2 * GYRE_KEY_BYTES + 2];
    gyre_hex_write(key, GYRE_KEY_BYTES, text);
    text[2 * GYRE_KEY_BYTES] = '\n';
    ssize_t count = write(child->input, text, 2 * GYRE_KEY_BYTES + 1);
    explicit_bzero(text, sizeof text);
    return count < 0 && errno != EPIPE
               ? -errno
               : 0; /* a host that has gone already shows as an ended child */
}

static int start_host(struct gyre_children *all, int node, char *host, char *command,
                      const uint8_t *key, struct gyre_trouble *trouble)
{
    struct gyre_child *child = &all->child[node];
    struct gyre_variables none = {0};
    char *here[] = {"/bin/sh", "-c", command, NULL}, *there[SSH_WORDS_MAX + 3], words[512];
    const char *ssh = getenv("GYRE_SSH");
    snprintf(words, sizeof words, "%s", ssh && *ssh ? ssh : "ssh -T -o BatchMode=yes");
    build_ssh(words, host, command, there);
    struct gyre_spawn spawn = {.program = host_is_here(host) ? here : there,
                               .variables = &none,
                               .input = GYRE_INPUT_PIPE,
                               .out = &all->out,
                               .err = &all->err,
                               .out_log = -1,
                               .err_log = -1};
    snprintf(child->name, sizeof child->name, "%s %s",
             host_is_here(host) ? "the launcher on" : "ssh to", host);
    int status = gyre_child_spawn(child, &all->group, &spawn, trouble);
    child->err.aside = GYRE_REPORT_PREFIX;
    return status ? status : send_key(child, key);
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

int gyre_hosts_start(struct gyre_children *all, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    static char host[GYRE_HOST_MAX];
    int status = check_root(job, trouble);
    for (int node = 0; node < job->seating.nodes && !status; node++) {
        char *command = far_command(options, job, node);
        snprintf(host, sizeof host, "%s", options->hosts->name[node]);
        status = command ? start_host(all, node, host, command, job->key, trouble)
                         : gyre_trouble_set(trouble, -ENOMEM, "no memory for a command line");
        free(command);
    }
    return status;
}
