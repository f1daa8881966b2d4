/* Makes communicators of parts of a communicator.
 *
 *   rank      0    1    2    3        every rank tells every rank, over the parent
 *   color     7    7    9   -1
 *   key       5    1    0    0
 *             ╰────╳────╯
 *   child     1    0    0   none      ranks of a color by key, then by the parent's rank
 *
 * There are three agreements, each an all-reduce on the parent: every rank's color and key; the ids
 * that are in use anywhere, of which the lowest free one is taken (colors have no rank in common,
 * so one id serves all of them); and, for ranks that share a node, the region ids of each rank's
 * board. An id is in use on a rank until that rank has left the child's last operation, so no
 * message of an old child can meet a new child's. That last operation goes by messages: it ends
 * when no rank looks at a board any more.
 *
 * The watch's states are older than operations: some still tell of the old child when the new one,
 * under the same id, is in use. So operations are not counted from 1 again but go on from the
 * furthest that any rank of the child has been under its id. Then a late state is only behind.
 *
 * Tested by tests/program/collectives/split.c and, where a rank is lost, by
 * tests/program/failures/split.c. */
#include "collectives/lifecycle/split.h"

#include "base/log.h"
#include "collectives/comm/arguments.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/colors.h"
#include "collectives/lifecycle/setup.h"
#include "collectives/messages/point_to_point.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct asset { /* a rank's part of the child; summed, like choices */
    int64_t board, inbox, reached;
};

struct ballot {
    struct gyre_comm *parent;
    struct gyre_color *color;     /* n */
    uint8_t *used;                /* GYRE_COMM_IDS */
    struct asset *asset;          /* n, and one whose `board` counts the ranks that failed */
    struct gyre_trouble *trouble; /* of this rank */
};

/* -- agreements -------------------------------------------------------------------------------- */

static int ballot_open(struct ballot *ballot, struct gyre_comm *parent)
{
    ballot->parent = parent;
    ballot->trouble = gyre_thread_trouble();
    ballot->color = calloc(parent->n, sizeof(*ballot->color));
    ballot->used = calloc(GYRE_COMM_IDS, 1);
    ballot->asset = calloc((size_t)parent->n + 1, sizeof(*ballot->asset));
    *ballot->trouble = (struct gyre_trouble){0};
    if (ballot->color && ballot->used && ballot->asset)
        return 0;
    return gyre_trouble_set(ballot->trouble, -ENOMEM, "gyre_split: no memory for %u ranks",
                            parent->n);
}

static void ballot_close(struct ballot *ballot)
{
    free(ballot->color);
    free(ballot->used);
    free(ballot->asset);
}

/* The lowest free id; 0: none. Id 0 is the world's. */
static uint32_t free_id(const struct ballot *ballot)
{
    for (uint32_t id = 1; id < GYRE_COMM_IDS; id++)
        if (!ballot->used[id])
            return id;
    return 0;
}

/* Agrees on all choices, and on the id of the new communicators. */
static int vote_on_parts(struct ballot *ballot, int color, int key, uint32_t *id)
{
    struct gyre_comm *parent = ballot->parent;
    for (uint32_t i = 0; i < GYRE_COMM_IDS; i++)
        ballot->used[i] = parent->progress->comm[i] || parent->progress->retired[i];
    int status = gyre_colors_tell(parent, color, key, ballot->color);
    if (!status)
        status = gyre_colors_reduce(parent, ballot->used, GYRE_COMM_IDS, GYRE_U8, GYRE_MAX);
    if (status)
        return status;
    *id = free_id(ballot);
    return *id ? 0
               : gyre_refuse("gyre_split: all %u communicators are in use; gyre_finalize() some",
                             GYRE_COMM_IDS);
}

/* -- a child ----------------------------------------------------------------------------------- */

/* Lists the ranks of this rank's color in the child's order; sets the child's n and rank. */
static int gather_members(const struct ballot *ballot, struct gyre_comm *child)
{
    struct gyre_comm *parent = ballot->parent;
    child->above = calloc(parent->n, sizeof(*child->above));
    if (!child->above || !(child->n = gyre_colors_list(parent, ballot->color, child->above)))
        return -ENOMEM;
    child->world = calloc(child->n, sizeof(*child->world));
    for (uint32_t rank = 0; child->world && rank < child->n; rank++) {
        child->world[rank] = gyre_comm_world(parent, child->above[rank]);
        if (child->above[rank] == parent->rank)
            child->rank = rank;
    }
    return child->world ? 0 : -ENOMEM;
}

/* The child's number for the watch, unlike that of any other living group: groups of one id have no
 * rank in common. */
static uint32_t comm_number(const struct gyre_comm *child)
{
    uint32_t lowest = child->world[0];
    for (uint32_t rank = 1; rank < child->n; rank++)
        lowest = child->world[rank] < lowest ? child->world[rank] : lowest;
    return lowest << GYRE_COMM_ID_BITS | child->id;
}

/* Only where no member uses the child: peers unmap what is withdrawn. */
static void drop_mesh(struct gyre_comm *child)
{
    if (child->mesh)
        gyre_mesh_withdraw(child->mesh);
    gyre_mesh_destroy(child->mesh);
    child->mesh = NULL;
}

static int furnish(const struct ballot *ballot, struct gyre_comm *child)
{
    struct gyre_trouble unshared = {0};
    int status = gather_members(ballot, child);
    child->activity = calloc(1, sizeof(*child->activity));
    if (status || !child->activity)
        return gyre_trouble_set(ballot->trouble, -ENOMEM, "gyre_split: no memory for %u ranks",
                                child->n);
    child->name = comm_number(child);
    atomic_store(&child->activity->comm, child->name);
    child->activity->recorder = gyre_domain_activity(child->domain)->recorder;
    gyre_recorder_note_comm(child->activity->recorder, child->name, child->n, child->rank);
    status = gyre_comm_lay_out(child, ballot->trouble);
    struct gyre_mesh_options options = {child->rank, child->n, child->world};
    if (!status && child->n > 1 && child->n <= GYRE_PEERS_MAPPED_MAX &&
        child->node_place.nodes == 1 && gyre_domain_shares(child->domain) &&
        gyre_mesh_create(child->domain, &options, &child->mesh, &unshared))
        drop_mesh(child); /* operations go by messages */
    return status;
}

static struct gyre_comm *new_child(struct gyre_comm *parent, uint32_t id)
{
    struct gyre_comm *child = calloc(1, sizeof(*child));
    if (!child)
        return NULL;
    child->progress = parent->progress;
    child->domain = parent->domain;
    child->id = id;
    pthread_mutex_init(&child->registered_lock, NULL);
    return child;
}

/* Learns all boards of the child; without them all its operations go by messages. */
static int meet_members(const struct ballot *ballot, struct gyre_comm *child)
{
    uint32_t id[2 * GYRE_PEERS_MAPPED_MAX];
    bool all = child->mesh != NULL;
    for (uint32_t rank = 0; all && rank < child->n; rank++) {
        const struct asset *asset = &ballot->asset[child->above[rank]];
        id[2 * rank] = (uint32_t)asset->board;
        id[2 * rank + 1] = (uint32_t)asset->inbox;
        all = asset->board && asset->inbox;
    }
    if (!all)
        drop_mesh(child);
    return all ? gyre_mesh_meet(child->mesh, id, ballot->trouble) : 0;
}

/* Sets the number from which operations count on: the furthest that a rank of the child has been
 * under its id. */
static void count_on(const struct ballot *ballot, struct gyre_comm *child)
{
    int64_t reached = 0;
    for (uint32_t rank = 0; rank < child->n; rank++) {
        int64_t there = ballot->asset[child->above[rank]].reached;
        reached = there > reached ? there : reached;
    }
    if (child->engine)
        child->engine->sequence = (uint64_t)reached;
    atomic_store(&child->activity->sequence, (uint64_t)reached);
    gyre_activity_finish(child->activity, (uint64_t)reached);
}

/* Ends the job: peers may wait in the child, of which this rank's beats tell nothing. */
static void tell_members(const struct gyre_comm *child, const char *verb, int status)
{
    char text[200];
    struct gyre_watch *watch = gyre_domain_watch(child->domain);
    uint32_t rank = gyre_domain_joined(child->domain)->rank;
    if (!watch)
        return;
    snprintf(text, sizeof text, "rank %u cannot %s communicator %u with its other ranks: %s", rank,
             verb, child->id, gyre_status_name(status));
    gyre_watch_report(watch, status, rank, false, text);
}

static int open_child(const struct ballot *ballot, struct gyre_comm *child)
{
    int status = meet_members(ballot, child);
    if (!status)
        status = gyre_comm_open_engine(child, ballot->trouble);
    if (!status)
        count_on(ballot, child);
    else if (!atomic_load(&child->progress->failed))
        tell_members(child, "open", status);
    return status;
}

/* Agrees whether every rank has all its parts, so that all fail or none. */
static int complete(struct ballot *ballot, struct gyre_comm *child, int status)
{
    struct gyre_comm *parent = ballot->parent;
    struct asset *mine = &ballot->asset[parent->rank], *failed = &ballot->asset[parent->n];
    if (child)
        mine->reached = (int64_t)parent->progress->reached[child->id];
    if (child && child->mesh) {
        mine->board = child->mesh->board_id;
        mine->inbox = child->mesh->inbox_id;
    }
    failed->board = status != 0;
    int agreed = gyre_colors_reduce(parent, ballot->asset, 3 * ((uint64_t)parent->n + 1), GYRE_I64,
                                    GYRE_SUM);
    if (agreed)
        return agreed; /* others may have agreed */
    if (!failed->board)
        return child ? open_child(ballot, child) : 0;
    if (child)
        drop_mesh(child);
    return status ? status
                  : gyre_trouble_set(ballot->trouble, -ENOMEM,
                                     "gyre_split: another rank has no memory for the communicator");
}

static void enlist_part(struct gyre_comm *child)
{
    gyre_domain_enter(child->domain);
    gyre_progress_add(child->progress, child);
    gyre_domain_leave(child->domain);
}

static int split_by_ballot(struct ballot *ballot, int color, int key, struct gyre_comm **out)
{
    struct gyre_comm *child = NULL;
    uint32_t id;
    int status = vote_on_parts(ballot, color, key, &id);
    if (status)
        return status;
    if (color >= 0) {
        child = new_child(ballot->parent, id);
        status = child ? furnish(ballot, child)
                       : gyre_trouble_set(ballot->trouble, -ENOMEM, "gyre_split: no memory");
    }
    status = complete(ballot, child, status);
    if (status && child)
        gyre_comm_free(child);
    if (!status && child)
        enlist_part(child);
    *out = status ? NULL : child;
    return status;
}

int gyre_comm_split(struct gyre_comm *comm, int color, int key, struct gyre_comm **out)
{
    struct ballot ballot = {0};
    int status = ballot_open(&ballot, comm);
    gyre_domain_enter(comm->domain);
    gyre_comm_refused(comm, status);
    gyre_domain_leave(comm->domain);
    if (!status)
        status = split_by_ballot(&ballot, color, key, out);
    ballot_close(&ballot);
    return status;
}

/* -- its end ----------------------------------------------------------------------------------- */

/* Sums the messages that were sent and not received, over all ranks. When the sum is over, every
 * rank has left all operations before it. */
static int sum_lost(struct gyre_comm *child, int64_t *lost)
{
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I64, .count = 1, .barrier = true},
        .input.address = lost,
        .output.address = lost};
    if (child->n == 1)
        return 0;
    gyre_domain_enter(child->domain);
    child->engine->planning.mapped = false;
    int status = gyre_comm_run(child, &request);
    gyre_domain_leave(child->domain);
    return status;
}

int gyre_comm_end(struct gyre_comm *child)
{
    struct gyre_progress_engine *progress = child->progress;
    int64_t lost = 0;
    gyre_comm_finish_work(child);
    int status = atomic_load(&progress->failed);
    lost = gyre_p2p_balance(child->p2p);
    if (!status && (status = sum_lost(child, &lost)) && !atomic_load(&progress->failed))
        tell_members(child, "end", status);
    gyre_domain_enter(child->domain);
    gyre_p2p_withdraw(child->p2p);
    gyre_progress_remove(progress, child);
    gyre_domain_leave(child->domain);
    progress->retired[child->id] = status || lost;
    if (child->engine)
        progress->reached[child->id] = child->engine->sequence + 1;
    if (!status && lost)
        gyre_log(GYRE_LOG_WARN, "communicator %u ends with %lld messages that nobody received",
                 child->id, (long long)lost);
    if (child->engine)
        gyre_engine_drop_windows(child->engine, !status);
    if (!status)
        drop_mesh(child);
    gyre_comm_unregister_all(child);
    gyre_comm_free(child);
    return status;
}
