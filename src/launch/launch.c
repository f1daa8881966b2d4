/* A launch, from its options to its exit code. A job has one of four shapes:
 *
 *     one machine       launcher ─▶ ranks                         key and job name made here, root
 *                                                                 on loopback
 *
 *     --nnodes 2        launcher ─▶ ranks ┐ the launchers         key of the user's own
 *                       launcher ─▶ ranks ┘ meet first            (GYRE_KEY_FILE), sizes and the
 *                                                                 job's name learned at the meeting
 *
 *     --hosts a:4,b:2   launcher ┬▶ ssh a ─▶ launcher ─▶ ranks    key made here, sent through ssh's
 *                                └▶ ssh b ─▶ launcher ─▶ ranks    standard input
 *
 *     --join            launcher ─▶ ranks                         key of the user's own: the ranks
 *                                                                 join a job that runs
 *
 * An elastic job with a name of its own (--job) takes such callers. So it has the user's own key in
 * every shape.
 *
 * The key is in this process only while children are being started, and is then wiped. Where lost
 * ranks are started again it is kept until the job has ended.
 *
 * With --hosts-file an elastic job's hosts may come and go (changes.c).
 *
 * With --restarts all of it is done again after a failure, from the meeting on, with another key,
 * another port unless one is given, and the next epoch. An elastic job starts single ranks again,
 * and begins anew only where all are lost. */
#include "launch/launch.h"

#include "base/bytes.h"
#include "base/port.h"
#include "base/rng.h"
#include "launch/meet.h"
#include "launch/start.h"
#include "transport/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int random_id(struct gyre_launch_job *job)
{
    uint8_t bytes[16];
    int status = gyre_random_bytes(bytes, sizeof bytes);
    gyre_hex_write(bytes, sizeof bytes, job->id);
    return status;
}

static void choose_address(const struct gyre_launch_options *options, struct gyre_launch_job *job)
{
    const char *host = options->hosts ? job->hosts.name[0] : "127.0.0.1";
    const char *at = strchr(host, '@');
    snprintf(job->master_addr, sizeof job->master_addr, "%s",
             options->master_addr ? options->master_addr
             : at                 ? at + 1
                                  : host);
}

/* Returns the descriptor that keeps the port for rank 0, or a negative number: a given port is the
 * user's, and one of another machine cannot be kept from here. */
static int choose_port(const struct gyre_launch_options *options, struct gyre_launch_job *job)
{
    uint16_t port = 0;
    int keeper = -1;
    if (options->master_port)
        job->master_port = options->master_port;
    else if (options->hosts)
        job->master_port = gyre_port_draw();
    else {
        keeper = gyre_port_reserve(&port);
        job->master_port = port;
    }
    return keeper;
}

/* Reads the key from a launcher above: 64 hexadecimal digits and a newline, before any other
 * line. */
static int read_sent_key(struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    char text[2 * GYRE_KEY_BYTES + 1];
    size_t length = 0;
    ssize_t count = 1;
    while (length < sizeof text && (count > 0 || errno == EINTR))
        if ((count = read(STDIN_FILENO, text + length, sizeof text - length)) > 0)
            length += (size_t)count;
        else if (count == 0)
            break;
    bool valid = length == sizeof text && text[sizeof text - 1] == '\n' &&
                 gyre_hex_read(text, job->key, GYRE_KEY_BYTES);
    explicit_bzero(text, sizeof text);
    job->has_key = valid;
    if (!valid)
        return gyre_trouble_set(
            trouble, GYRE_REFUSED,
            "--node expects the job's key on standard input, as `gyre run --hosts` sends it; "
            "got %zu bytes that are not a key",
            length);
    return 0;
}

static int make_key(const struct gyre_launch_options *options, struct gyre_launch_job *job,
                    struct gyre_trouble *trouble)
{
    if (options->controlled)
        return read_sent_key(job, trouble);
    if (options->joining || (job->seating.nodes > 1 && !options->simulate && !options->hosts))
        return 0; /* a key made here would be unknown to the other launchers */
    int status = options->takes_callers ? gyre_job_user_key(job->key, trouble)
                                        : gyre_random_bytes(job->key, sizeof job->key);
    job->has_key = !status;
    return status ? gyre_trouble_set(trouble, status, "cannot make a key: %s", strerror(-status))
                  : 0;
}

static bool meets(const struct gyre_launch_options *options)
{
    return options->seating.nodes > 1 && !options->simulate && !options->hosts &&
           !options->controlled;
}

static int start_children(struct gyre_children *all, const struct gyre_launch_options *options,
                          struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    all->program = options->program[0];
    all->remote = options->hosts;
    all->node = options->controlled ? 0 : options->node;
    all->leads = !options->node;
    snprintf(all->here, sizeof all->here, "%s", job->here);
    snprintf(all->hosts, sizeof all->hosts, "%s", options->root_hosts ? options->root_hosts : "");
    all->elastic = (struct gyre_elastic){.least = job->elastic_least,
                                         .ranks = gyre_seating_world(&job->seating),
                                         .returns = gyre_launch_returns(job)};
    if (!options->controlled) /* the launcher above starts the job again */
        all->restarts = job->restarts;
    all->restarts.first_pause_ms = options->restart_pause_ms;
    all->restarts.pause_ms = gyre_restart_pause_ms(options->restart_pause_ms, job->restarts.used);
    all->tells_early = options->controlled;
    if (options->controlled) {
        all->launcher_line[0].fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        all->launcher_line[0].mute = true;
        snprintf(all->launcher_line[0].name, sizeof all->launcher_line[0].name,
                 "the launcher above");
    }
    int status = make_key(options, job, trouble);
    if (!status)
        status = options->hosts ? gyre_hosts_start(all, options, job, trouble)
                                : gyre_ranks_start(all, options, job, trouble);
    if (!gyre_launch_returns(job))
        explicit_bzero(job->key, sizeof job->key);
    return status;
}

/* Opens /dev/null in place of missing standard streams. A pipe would otherwise get the number of a
 * standard stream. */
static void open_standard_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

/* Names the job and says how often it was started before. */
static int begin_job(const struct gyre_launch_options *options, struct gyre_launch_job *job,
                     struct gyre_trouble *trouble)
{
    uint16_t epoch = 0;
    int status = options->epoch < 0 ? gyre_job_find_epoch(&epoch, trouble) : 0;
    *job = (struct gyre_launch_job){.seating = options->seating,
                                    .changes = options->hosts_file || options->changes,
                                    .epoch = options->epoch < 0 ? epoch : options->epoch,
                                    .restarts = {.most = options->restarts},
                                    .elastic_least = options->elastic_least,
                                    .elastic_most = options->elastic_most};
    if (options->hosts)
        job->hosts = *options->hosts;
    if (job->changes && job->elastic_least)
        job->elastic_most = gyre_launch_elastic_most(job);
    if (status || options->job) {
        snprintf(job->id, sizeof job->id, "%s", options->job ? options->job : "");
        return status;
    }
    status = random_id(job);
    return status
               ? gyre_trouble_set(trouble, status, "cannot make a job name: %s", strerror(-status))
               : 0;
}

/* MIN and MAX stand around the number of ranks, which is known once the launchers have met. */
static int check_elastic(const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    int world = gyre_seating_world(&job->seating), least = job->elastic_least;
    int most = gyre_launch_elastic_most(job);
    return !least || (least <= world && world <= most)
               ? 0
               : gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--elastic %d:%d does not fit the job's %d rank%s: expected "
                                  "MIN:MAX around their number",
                                  least, most, world, world == 1 ? "" : "s");
}

static void start_due_child(struct gyre_children *all, const struct gyre_launch_options *options,
                            const struct gyre_launch_job *job)
{
    struct gyre_trouble trouble = {0};
    int status = options->hosts ? gyre_host_start_again(all, all->due, options, job, &trouble)
                                : gyre_rank_start_again(all, all->due, options, job, &trouble);
    if (status)
        gyre_children_missed(all, all->due, trouble.text);
    else
        gyre_children_returned(all, all->due);
}

/* Watches the children, and starts those again that are due, and those that are new. Returns the
 * exit code. */
static int watch_children(struct gyre_children *all, const struct gyre_launch_options *options,
                          struct gyre_launch_job *job)
{
    int code;
    while ((code = gyre_children_watch(all)) >= GYRE_CHILDREN_DUE)
        if (code == GYRE_CHILDREN_DUE)
            start_due_child(all, options, job);
        else
            gyre_hosts_change(all, options, job);
    return code;
}

/* Hosts of a file may become as many as there can be nodes. */
static struct gyre_children_wish wish_for(const struct gyre_launch_options *options,
                                          const struct gyre_launch_job *job, int lines)
{
    const bool rereads = options->hosts_file && job->elastic_least;
    int count = options->hosts ? job->seating.nodes : gyre_ranks_here(options, &job->seating);
    return (struct gyre_children_wish){.children = count,
                                       .room = rereads ? GYRE_NODES_MAX : count,
                                       .launcher_lines = options->controlled ? 1 : lines,
                                       .rereads = rereads,
                                       .leaves = options->joining && !options->controlled};
}

/* From a meeting of the launchers to the end of all children. Returns the exit code, or a negative
 * status with its trouble. */
static int run_children(const struct gyre_launch_options *options, struct gyre_launch_job *job,
                        enum gyre_restart *restart, struct gyre_trouble *trouble)
{
    struct gyre_meeting meeting = {0};
    struct gyre_children all;
    int status = 0;
    if (meets(options))
        status = gyre_meeting_hold(&meeting, options->node, job, trouble);
    if (!status && !options->controlled)
        status = check_elastic(job, trouble);
    if (status) {
        gyre_meeting_end(&meeting);
        return status;
    }
    const struct gyre_children_wish wish = wish_for(options, job, meeting.launcher_lines);
    status = gyre_children_create(&all, &wish, trouble);
    if (!status)
        gyre_meeting_move(&meeting, &all);
    if (!status)
        status = start_children(&all, options, job, trouble);
    if (!status)
        status = watch_children(&all, options, job);
    *restart = all.restart;
    job->restarts.used =
        all.restarts.used > job->restarts.used ? all.restarts.used : job->restarts.used;
    gyre_children_destroy(&all);
    explicit_bzero(job->key, sizeof job->key);
    gyre_meeting_end(&meeting);
    return status;
}

static int start_once(const struct gyre_launch_options *options, struct gyre_launch_job *job,
                      enum gyre_restart *restart, struct gyre_trouble *trouble)
{
    choose_address(options, job);
    int keeper = choose_port(options, job);
    int status = run_children(options, job, restart, trouble);
    if (keeper >= 0)
        close(keeper);
    return status;
}

int gyre_launch(const struct gyre_launch_options *options, struct gyre_trouble *trouble)
{
    static struct gyre_launch_job job;
    enum gyre_restart restart = GYRE_RESTART_NO;
    open_standard_streams();
    int status = begin_job(options, &job, trouble);
    if (status)
        return status;
    for (;;) {
        status = start_once(options, &job, &restart, trouble);
        if (status < 0 || restart != GYRE_RESTART_YES)
            return status;
        job.restarts.used++;
        job.epoch++;
        gyre_hosts_renew(options, &job);
    }
}
