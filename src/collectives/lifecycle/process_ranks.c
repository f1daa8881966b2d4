/* Several ranks in one process: gyre_init_in_process().
 *
 * Each rank is what it would be in a process of its own: a domain with its watch, its links, its
 * device and its queue. So the layers above and below do not tell such ranks from others. The
 * exception is memory of a device: a rank of this process maps it by its handle and not by a
 * descriptor (transport/watch/share.c).
 *
 *     processes      process 0 (3 devices)      process 1 (1 device)
 *                      │ joined as a job of processes, which tells counts, then the port │
 *     ranks          0  1  2                    3
 *                      └──┴──┴── joined as a job of ranks, a thread for each ──┘
 *
 * A fault of one process before the ranks join is told to all processes, so that all fail with it.
 * All threads are made by then: those that join and end the ranks, and the helpers.
 * The key of the ranks' job comes from the session of the processes' job, which then ends.
 *
 * One thread may hold all of the process's communicators. The helper of each rank drives what the
 * thread starts. A call that must wait for other ranks waits for the last of them: a group
 * (collectives/group/together.c), and the end.
 *
 * Tested by tests/program/collectives/local.c and local_wrong.c. */
#include "collectives/lifecycle/process_ranks.h"

#include "collectives/comm/arguments.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/team.h"
#include "collectives/lifecycle/world.h"
#include "transport/net/crypto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process's message to all processes. */
struct process_word {
    int32_t status, count;
    uint32_t port; /* of process 0: the meeting place of all ranks */
    char host[64];
    char text[GYRE_TROUBLE_MAX]; /* why, where the status is not 0 */
};

struct muster {
    const struct gyre_options *options;
    const int *devices;
    int count, first, world, place; /* ranks here; before; in all; before on this node */
    struct gyre_comm *processes;
    struct process_word *word;
    struct gyre_job job; /* of each rank, without its number */
    struct gyre_process_ranks *ranks;
    struct gyre_trouble *trouble;
};

/* -- processes --------------------------------------------------------------------------------- */

static uint32_t process_number(const struct muster *muster)
{
    return muster->processes->rank;
}

/* Sends every process's word to every process. The first failure is that of all. */
static int exchange_words(struct muster *muster, struct process_word *mine)
{
    struct gyre_trouble *trouble = muster->trouble;
    const struct gyre_member *member = gyre_domain_joined(muster->processes->domain)->member;
    uint32_t n = muster->processes->n;
    mine->status = trouble->status;
    snprintf(mine->text, sizeof mine->text, "%s", trouble->text);
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_GATHER, .type = GYRE_U8, .count = sizeof *mine},
        .input = {.address = mine, .bytes = sizeof *mine},
        .output = {.address = muster->word, .bytes = n * sizeof *mine}};
    int status = gyre_comm_check(muster->processes, "gyre_init_in_process");
    if (!status)
        status = gyre_comm_enter_and_run(muster->processes, &request);
    if (status)
        return gyre_trouble_set(trouble, status, "%s",
                                gyre_progress_story(muster->processes->progress));
    for (uint32_t i = 0; i < n && n > 1; i++)
        if (muster->word[i].status) {
            *trouble = (struct gyre_trouble){0};
            return gyre_trouble_set(trouble, muster->word[i].status,
                                    "process %u of %u (%.63s, pid %d): %.900s", i, n,
                                    member[i].host, member[i].pid, muster->word[i].text);
        }
    return trouble->status;
}

static int check_count(const struct muster *muster)
{
    if (muster->count >= 1 && muster->count <= GYRE_PROCESS_RANKS_MAX)
        return 0;
    return gyre_trouble_set(muster->trouble, GYRE_INVALID,
                            "gyre_init_in_process: a process of %d ranks: 1 to %d are possible",
                            muster->count, GYRE_PROCESS_RANKS_MAX);
}

/* Counts ranks: those of a process follow those of the processes before it. */
static int count_ranks(struct muster *muster)
{
    const struct gyre_joined *joined = gyre_domain_joined(muster->processes->domain);
    struct process_word mine = {.count = muster->count};
    check_count(muster);
    int status = exchange_words(muster, &mine);
    for (uint32_t i = 0; !status && i < joined->n; i++) {
        int count = muster->word[i].count;
        bool before = i < joined->rank;
        muster->world += count;
        muster->first += before ? count : 0;
        muster->place += before && joined->member[i].node == joined->node ? count : 0;
    }
    return status;
}

static int no_thread(struct gyre_trouble *trouble, int status)
{
    return gyre_trouble_set(trouble, status,
                            "gyre_init_in_process: no thread for each rank: %s (see ulimit -u, "
                            "ulimit -v)",
                            gyre_status_name(status));
}

/* -- the ranks' job ---------------------------------------------------------------------------- */

static int derive_from_session(const struct muster *muster, const char *purpose, uint8_t *out,
                               size_t length)
{
    const uint8_t *session = gyre_domain_joined(muster->processes->domain)->session_key;
    struct gyre_piece salt = {"gyre_init_local", 15}, info = {purpose, strlen(purpose)};
    int status =
        gyre_hkdf_sha256((struct gyre_piece){session, GYRE_KEY_BYTES}, salt, info, out, length);
    return status ? gyre_trouble_set(
                        muster->trouble, status,
                        "gyre_init_in_process: libcrypto cannot derive_from_session a key")
                  : 0;
}

static int make_job(struct muster *muster)
{
    struct gyre_job *job = &muster->job;
    *job = *gyre_domain_job(muster->processes->domain);
    job->world = muster->world;
    job->local_world = -1;
    job->root_kind = GYRE_ROOT_HELD;
    job->root_port_tries = 1;
    job->root_fd = -1;
    job->first_here = muster->first;
    job->ranks_here = muster->count;
    int status = derive_from_session(muster, "id", job->id, sizeof job->id);
    if (!status)
        status = derive_from_session(muster, "key", job->key, sizeof job->key);
    return status ? status : derive_from_session(muster, "key id", job->key_id, sizeof job->key_id);
}

/* A rank whose helper cannot be made could keep the others waiting for what it has started. */
static int make_helper(const struct muster *muster, struct gyre_comm *rank)
{
    if (muster->count == 1)
        return 0;
    rank->progress->ranks = muster->ranks;
    const int status = gyre_helper_start(rank->progress);
    return status ? no_thread(muster->trouble, status) : 0;
}

static int make_ranks(struct muster *muster)
{
    struct gyre_domain_options options = {.user = muster->options, .job = &muster->job};
    int status = make_job(muster);
    for (int i = 0; i < muster->count && !status; i++) {
        muster->job.rank = muster->first + i;
        muster->job.local_rank = muster->place + i;
        options.device = muster->devices ? &muster->devices[i] : NULL;
        status = gyre_world_create(&options, &muster->ranks->rank[i], muster->trouble);
        if (!status)
            status = make_helper(muster, muster->ranks->rank[i]);
    }
    return status;
}

/* Agrees whether every process has its ranks, or none goes on; then tells all where rank 0 is. */
static int agree_in_muster(struct muster *muster)
{
    struct process_word mine = {.count = muster->count};
    uint16_t port = 0;
    int fd = -1;
    if (process_number(muster) == 0 && !muster->trouble->status)
        fd = gyre_domain_listen(muster->processes->domain, mine.host, &port, muster->trouble);
    mine.port = port;
    int status = exchange_words(muster, &mine);
    for (int i = 0; i < muster->count && !status; i++)
        gyre_domain_set_root(muster->ranks->rank[i]->domain, muster->word[0].host,
                             (uint16_t)muster->word[0].port, fd);
    muster->job.root_fd = fd;
    return status;
}

/* -- joining ----------------------------------------------------------------------------------- */

/* Joins all ranks at once, or ends them. The first failure is that of all. */
static int work_on_all(struct gyre_process_ranks *ranks, bool meet, struct gyre_trouble *trouble)
{
    struct gyre_team_task task[GYRE_PROCESS_RANKS_MAX] = {{.status = 0}};
    for (int i = 0; i < ranks->count; i++)
        task[i].comm = ranks->rank[i];
    if (meet)
        gyre_team_meet(ranks->team, task);
    else
        gyre_team_part(ranks->team, task);
    for (int i = 0; i < ranks->count; i++)
        if (task[i].status) {
            *trouble = task[i].trouble;
            return task[i].status;
        }
    return 0;
}

/* Makes room for the ranks, and the threads that join and end them. */
static int create_ranks(struct muster *muster)
{
    const size_t room = (size_t)muster->count * sizeof(struct gyre_comm *);
    struct gyre_process_ranks *ranks = calloc(1, sizeof *ranks + room);
    if (!ranks)
        return gyre_trouble_set(muster->trouble, -ENOMEM, "gyre_init_in_process: no memory");
    ranks->count = muster->count;
    pthread_mutex_init(&ranks->lock, NULL);
    muster->ranks = ranks;
    const int status = gyre_team_make(&ranks->team, ranks->count);
    return status ? no_thread(muster->trouble, status) : 0;
}

static void free_list(struct gyre_process_ranks *ranks)
{
    gyre_team_end(ranks->team);
    pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}

static void free_ranks(struct gyre_process_ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++)
        if (ranks->rank[i])
            gyre_world_free(ranks->rank[i], NULL);
    free_list(ranks);
}

/* -- the call ---------------------------------------------------------------------------------- */

/* Joins the processes, and makes room for their words. */
static int open_processes(struct muster *muster)
{
    const int none = -1;
    struct gyre_domain_options options = {.user = muster->options, .device = &none};
    int status = gyre_world_create(&options, &muster->processes, muster->trouble);
    if (!status)
        status = gyre_world_meet(muster->processes, "gyre_init_in_process", muster->trouble);
    if (!status && !(muster->word = calloc(muster->processes->n, sizeof *muster->word)))
        status = gyre_trouble_set(muster->trouble, -ENOMEM, "gyre_init_in_process: no memory");
    return status;
}

static int open_ranks(struct muster *muster)
{
    int status = count_ranks(muster);
    if (status)
        return status;
    if (!create_ranks(muster))
        make_ranks(muster);
    status = agree_in_muster(muster);
    if (!status)
        status = work_on_all(muster->ranks, true, muster->trouble);
    if (muster->job.root_fd >= 0)
        close(muster->job.root_fd);
    return status;
}

static void close_muster(struct muster *muster, int status)
{
    if (status && muster->ranks)
        free_ranks(muster->ranks);
    if (muster->processes && status)
        gyre_world_free(muster->processes, NULL);
    else if (muster->processes)
        gyre_world_end(muster->processes, NULL);
    gyre_wipe(&muster->job, sizeof muster->job);
    free(muster->word);
}

/* Gives the ranks to the caller. A single rank is as gyre_init() makes it. */
static void hand_ranks_over(struct muster *muster, struct gyre_comm **comms)
{
    memcpy(comms, muster->ranks->rank, (size_t)muster->count * sizeof *comms);
    if (muster->count == 1)
        free_list(muster->ranks);
}

int gyre_process_ranks_init(struct gyre_comm **comms, int count, const int *devices,
                            const struct gyre_options *options, struct gyre_trouble *trouble)
{
    struct muster muster = {.options = options,
                            .devices = devices,
                            .count = count,
                            .job.root_fd = -1,
                            .trouble = trouble};
    int status = open_processes(&muster);
    if (!status)
        status = open_ranks(&muster);
    if (!status)
        hand_ranks_over(&muster, comms);
    close_muster(&muster, status);
    return status;
}

/* -- the end ----------------------------------------------------------------------------------- */

int gyre_process_ranks_leave(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    struct gyre_process_ranks *ranks = world->progress->ranks;
    int status = gyre_world_status(world, trouble);
    pthread_mutex_lock(&ranks->lock);
    bool last = ++ranks->left == ranks->count;
    pthread_mutex_unlock(&ranks->lock);
    if (last) {
        status = work_on_all(ranks, false, trouble);
        free_list(ranks);
    }
    return status;
}
