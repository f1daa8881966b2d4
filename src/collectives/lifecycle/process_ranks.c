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
 * The key of the ranks' job comes from the session of the processes' job, which then ends.
 *
 * One thread may hold all of the process's communicators. The helper of each rank drives what the
 * thread starts. A call that must wait for other ranks waits for the last of them: a group
 * (collectives/group/together.c), and the end.
 *
 * Tested by tests/program/collectives/local.c and local_wrong.c. */
#include "collectives/lifecycle/process_ranks.h"

#include "base/machine/thread.h"

#include "collectives/comm/arguments.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
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

/* -- threads ----------------------------------------------------------------------------------- */

enum { GATE_SHUT, GATE_OPEN, GATE_CLOSED };

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int state;
};

struct task {
    struct gate *gate;
    struct gyre_comm *comm;
    void (*work)(struct task *task);
    struct gyre_trouble trouble;
    int status;
    pthread_t thread;
};

static void set_gate(struct gate *gate, int state)
{
    pthread_mutex_lock(&gate->lock);
    gate->state = state;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static bool pass_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->state == GATE_SHUT)
        pthread_cond_wait(&gate->changed, &gate->lock);
    bool open = gate->state == GATE_OPEN;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

static void *task_main(void *argument)
{
    struct task *task = argument;
    if (pass_gate(task->gate))
        task->work(task);
    return NULL;
}

/* Runs all tasks at once, each in a thread; runs none where threads cannot be made. */
static int run_all(struct task *task, int count, void (*work)(struct task *task))
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, GATE_SHUT};
    int made = 0, status = 0;
    for (; made < count && !status; made += !status) {
        task[made].gate = &gate;
        task[made].work = work;
        status = gyre_thread_start(&task[made].thread, task_main, &task[made]);
    }
    set_gate(&gate, status ? GATE_CLOSED : GATE_OPEN);
    while (made > 0)
        pthread_join(task[--made].thread, NULL);
    return status;
}

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

static int make_ranks(struct muster *muster)
{
    struct gyre_domain_options options = {.user = muster->options, .job = &muster->job};
    int status = make_job(muster);
    for (int i = 0; i < muster->count && !status; i++) {
        muster->job.rank = muster->first + i;
        muster->job.local_rank = muster->place + i;
        options.device = muster->devices ? &muster->devices[i] : NULL;
        status = gyre_world_create(&options, &muster->ranks->rank[i], muster->trouble);
        if (!status && muster->count > 1)
            muster->ranks->rank[i]->progress->ranks = muster->ranks;
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

static void meet_ranks(struct task *task)
{
    task->status = gyre_world_meet(task->comm, "gyre_init_in_process", &task->trouble);
    if (!task->status)
        gyre_progress_open_device(task->comm->progress);
}

static int meet_all(struct muster *muster)
{
    struct task *task = calloc((size_t)muster->count, sizeof *task);
    if (!task)
        return gyre_trouble_set(muster->trouble, -ENOMEM, "gyre_init_in_process: no memory");
    for (int i = 0; i < muster->count; i++)
        task[i].comm = muster->ranks->rank[i];
    int status = run_all(task, muster->count, meet_ranks);
    if (status)
        gyre_trouble_set(muster->trouble, status,
                         "gyre_init_in_process: no thread for each rank: %s",
                         gyre_status_name(status));
    for (int i = 0; i < muster->count && !status; i++)
        if ((status = task[i].status))
            gyre_trouble_set(muster->trouble, status, "%s", task[i].trouble.text);
    free(task);
    return status;
}

static struct gyre_process_ranks *create_ranks(int count)
{
    struct gyre_process_ranks *ranks =
        calloc(1, sizeof(*ranks) + (size_t)count * sizeof(struct gyre_comm *));
    if (ranks) {
        ranks->count = count;
        pthread_mutex_init(&ranks->lock, NULL);
    }
    return ranks;
}

static void free_list(struct gyre_process_ranks *ranks)
{
    pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}

static void end_one_rank(struct task *task)
{
    task->status = gyre_world_end(task->comm, &task->trouble);
}

/* Ends all ranks. Where threads cannot be made, a rank waits for its peers in vain, but not for
 * ever. */
static int end_all_ranks(struct gyre_process_ranks *ranks, struct gyre_trouble *trouble)
{
    int count = ranks->count, status = 0;
    struct task task[GYRE_PROCESS_RANKS_MAX] = {{.status = 0}};
    for (int i = 0; i < count; i++)
        task[i].comm = ranks->rank[i];
    bool one_by_one = run_all(task, count, end_one_rank) != 0;
    for (int i = 0; i < count; i++) {
        if (one_by_one)
            end_one_rank(&task[i]);
        if (!status && task[i].trouble.status)
            *trouble = task[i].trouble;
        status = status ? status : task[i].status;
    }
    free_list(ranks);
    return status;
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
    muster->ranks = create_ranks(muster->count);
    if (muster->ranks)
        make_ranks(muster);
    else
        gyre_trouble_set(muster->trouble, -ENOMEM, "gyre_init_in_process: no memory");
    status = agree_in_muster(muster);
    if (!status)
        status = meet_all(muster);
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
    return last ? end_all_ranks(ranks, trouble) : status;
}
