/* The calls that make, end and ask a communicator: its ranks, its links, its failure.
 * Tested by tests/program/collectives/comm.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/progress.h"
#include "collectives/group/group.h"
#include "collectives/lifecycle/apart.h"
#include "collectives/lifecycle/grow.h"
#include "collectives/lifecycle/growing.h"
#include "collectives/lifecycle/process_ranks.h"
#include "collectives/lifecycle/shrink.h"
#include "collectives/lifecycle/split.h"
#include "collectives/lifecycle/world.h"

#include <stdio.h>
#include <string.h>

int gyre_version(void)
{
    return GYRE_VERSION_MAJOR * 10000 + GYRE_VERSION_MINOR * 100 + GYRE_VERSION_PATCH;
}

/* -- its beginning and end --------------------------------------------------------------------- */

/* Copies the options. A program's struct may end before the newest fields, which then count as
 * unset. */
static int take_init_options(const struct gyre_options *given, struct gyre_options *options,
                             struct gyre_trouble *trouble)
{
    *options = (struct gyre_options)GYRE_OPTIONS_INIT;
    if (!given)
        return 0;
    if (given->size != offsetof(struct gyre_options, devices) &&
        given->size != offsetof(struct gyre_options, store) &&
        gyre_check_size("gyre_options", given->size, sizeof(*options), trouble))
        return GYRE_INVALID;
    memcpy(options, given, given->size);
    return 0;
}

static int init_world(const struct gyre_options *options, struct gyre_comm **comm,
                      struct gyre_trouble *trouble)
{
    struct gyre_domain_options domain = {.user = options};
    bool joins;
    int status = gyre_world_joins(options, &joins, trouble);
    if (!status && joins)
        return gyre_world_join(options, comm, trouble);
    if (!status)
        status = gyre_world_create(&domain, comm, trouble);
    if (status)
        return status;
    if ((status = gyre_world_meet(*comm, "gyre_init", trouble)))
        gyre_world_free(*comm, NULL);
    return status;
}

/* Checks the arguments of gyre_init() or gyre_join(), and makes the communicator by `make`. */
static int begin_with(const char *call, const struct gyre_options *given, struct gyre_comm **out,
                      int (*make)(const struct gyre_options *, struct gyre_comm **,
                                  struct gyre_trouble *))
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    struct gyre_options taken;
    struct gyre_comm *comm = NULL;
    *trouble = (struct gyre_trouble){0};
    if (!out)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: the place for the communicator is NULL",
                                call);
    *out = NULL;
    int status = take_init_options(given, &taken, trouble);
    if (!status)
        status = make(&taken, &comm, trouble);
    if (status)
        return gyre_trouble_set(trouble, status, "%s: %s", call, gyre_status_name(status));
    gyre_activity_note_thread(gyre_domain_activity(comm->domain));
    *out = comm;
    return 0;
}

int gyre_init(struct gyre_comm **out, const struct gyre_options *options)
{
    return begin_with("gyre_init", options, out, init_world);
}

int gyre_join(struct gyre_comm **out, const struct gyre_options *options)
{
    return begin_with("gyre_join", options, out, gyre_world_join);
}

int gyre_init_in_process(struct gyre_comm **comms, int count, const int *devices,
                         const struct gyre_options *options)
{
    struct gyre_trouble story = {0}, *trouble = gyre_thread_trouble();
    struct gyre_options taken;
    *trouble = (struct gyre_trouble){0};
    if (!comms)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_init_in_process: the place for the communicators is NULL");
    for (int i = 0; i < count; i++)
        comms[i] = NULL;
    int status = take_init_options(options, &taken, &story);
    if (!status)
        status = gyre_process_ranks_init(comms, count, devices, &taken, &story);
    if (status)
        gyre_trouble_set(&story, status, "gyre_init_in_process: %s", gyre_status_name(status));
    *trouble = story;
    return status;
}

static int refuse_split(struct gyre_comm *comm, const char *call, const char *why)
{
    gyre_domain_enter(comm->domain);
    int status = gyre_comm_refused(comm, gyre_refuse("%s: %s", call, why));
    gyre_domain_leave(comm->domain);
    return status;
}

/* 0 if a communicator may be split by a call of this name. */
static int check_split(struct gyre_comm *comm, const char *call, struct gyre_comm **out)
{
    int status = gyre_comm_check(comm, call);
    if (status)
        return status;
    if (!out)
        return refuse_split(comm, call, "the place for the communicator is NULL");
    return gyre_comm_in_group(comm)
               ? refuse_split(comm, call,
                              "a group is open on the communicator; gyre_group_end() it")
               : 0;
}

int gyre_split(struct gyre_comm *comm, int color, int key, struct gyre_comm **out)
{
    if (out)
        *out = NULL;
    int status = check_split(comm, "gyre_split", out);
    return status ? status : gyre_comm_split(comm, color, key, out);
}

int gyre_split_apart(struct gyre_comm *comm, int color, int key, struct gyre_comm **out)
{
    struct gyre_trouble story = {0}, *trouble = gyre_thread_trouble();
    if (out)
        *out = NULL;
    int status = check_split(comm, "gyre_split_apart", out);
    if (!status && comm->progress->ranks)
        status = refuse_split(comm, "gyre_split_apart",
                              "the communicator is from gyre_init_in_process(); gyre_split() it");
    if (status)
        return status;
    status = gyre_comm_split_apart(comm, color, key, out, &story);
    if (status)
        gyre_trouble_set(&story, status, "gyre_split_apart: %s", gyre_status_name(status));
    *trouble = story;
    return status;
}

/* Newcomers that join meanwhile are told that the job has ended, by rank 0 as where they wait; by
 * another rank that it is lost, and they ask again. */
static void drop_newcomers(struct gyre_comm *comm)
{
    gyre_growing_drop(comm, comm->rank ? GYRE_PEER_LOST : GYRE_ABORTED,
                      "the job has ended before it took this process in");
}

int gyre_finalize(struct gyre_comm *comm)
{
    if (!comm)
        return 0;
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    struct gyre_trouble *trouble = gyre_thread_trouble();
    int open = gyre_group_left_open(comm);
    if (!comm->id)
        drop_newcomers(comm);
    int ended = comm->id                ? gyre_comm_end(comm)
                : comm->progress->ranks ? gyre_process_ranks_leave(comm, trouble)
                                        : gyre_world_end(comm, trouble);
    trouble->ended = ended != 0;
    return ended ? ended : open;
}

/* -- failure ----------------------------------------------------------------------------------- */

int gyre_abort(struct gyre_comm *comm, const char *reason)
{
    char text[512];
    if (!comm)
        return gyre_trouble_set(gyre_thread_trouble(), GYRE_INVALID,
                                "gyre_abort: the communicator is NULL");
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    uint32_t rank = gyre_domain_joined(comm->domain)->rank;
    snprintf(text, sizeof(text), "rank %u called gyre_abort()%s%.400s", rank, reason ? ": " : "",
             reason ? reason : "");
    if (gyre_domain_watch(comm->domain)) {
        gyre_watch_report(gyre_domain_watch(comm->domain), GYRE_ABORTED, rank, false, text);
        return 0;
    }
    gyre_trouble_set(&comm->progress->trouble, GYRE_ABORTED, "%s", text);
    int fine = 0;
    atomic_compare_exchange_strong(&comm->progress->failed, &fine, GYRE_ABORTED);
    return 0;
}

int gyre_failure(struct gyre_comm *comm, struct gyre_lost_rank *losses, int room, int *count)
{
    int found;
    if (!comm || room < 0 || (room && !losses))
        return gyre_trouble_set(gyre_thread_trouble(), GYRE_INVALID,
                                "gyre_failure: expected a communicator and, for %d losses, an "
                                "array",
                                room);
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    return gyre_comm_losses(comm, losses, room, count ? count : &found);
}

/* Refuses a communicator that no other can follow. */
static int check_epoch(struct gyre_comm *comm, const char *call)
{
    if (!comm || gyre_domain_forked(comm->domain))
        return gyre_comm_check(comm, call);
    if (comm->id)
        return gyre_refuse("%s: the communicator is a part, made by gyre_split(): call it on the "
                           "one from gyre_init(), and split what it makes",
                           call);
    if (comm->progress->ranks)
        return gyre_refuse(
            "%s: the communicator is from gyre_init_in_process(), whose ranks cannot "
            "go on without each other",
            call);
    if (atomic_load(&comm->group.holder))
        return gyre_refuse("%s: a group is open on the communicator; gyre_group_end() it", call);
    return comm->progress->superseded
               ? gyre_refuse("%s: gyre_shrink() or gyre_grow() has made another communicator of "
                             "this one before; use that",
                             call)
               : 0;
}

int gyre_shrink(struct gyre_comm *comm, struct gyre_comm **smaller)
{
    struct gyre_trouble story = {0}, *trouble = gyre_thread_trouble();
    if (smaller)
        *smaller = NULL;
    int status = check_epoch(comm, "gyre_shrink");
    if (status)
        return status;
    status = gyre_world_shrink(comm, !smaller, smaller, &story);
    if (status)
        gyre_trouble_set(&story, status, "gyre_shrink: %s", gyre_status_name(status));
    *trouble = story;
    return status;
}

int gyre_grow(struct gyre_comm *comm, int most, struct gyre_comm **larger)
{
    struct gyre_trouble story = {0}, *trouble = gyre_thread_trouble();
    if (larger)
        *larger = NULL;
    int status = check_epoch(comm, "gyre_grow");
    if (!status && (!larger || most < 0))
        status = gyre_refuse("gyre_grow: at most %d newcomers, %s: expected 0 or more, and a place "
                             "for the communicator",
                             most, larger ? "with one" : "without a place for the communicator");
    if (status)
        return status;
    status = gyre_world_grow(comm, (uint32_t)most, larger, &story);
    if (status)
        gyre_trouble_set(&story, status, "gyre_grow: %s", gyre_status_name(status));
    *trouble = story;
    return status;
}

int gyre_open(struct gyre_comm *comm, const struct gyre_options *options)
{
    struct gyre_trouble story = {0}, *trouble = gyre_thread_trouble();
    struct gyre_options taken;
    int status = check_epoch(comm, "gyre_open");
    if (status)
        return status;
    status = take_init_options(options, &taken, &story);
    if (!status)
        status = gyre_domain_open_at(comm->domain, &taken, &story);
    if (status)
        gyre_trouble_set(&story, status, "gyre_open: %s", gyre_status_name(status));
    *trouble = story;
    return status;
}

int gyre_waiting(const struct gyre_comm *comm)
{
    if (!comm || gyre_domain_forked(comm->domain))
        return 0;
    const uint32_t joining = comm->rank ? 0 : gyre_growing_newcomers(comm);
    return (int)(gyre_domain_waiting(comm->domain) + joining);
}

int gyre_leaving(const struct gyre_comm *comm)
{
    return comm ? gyre_domain_is_to_leave(comm->domain) : 0;
}

int gyre_newcomer(const struct gyre_comm *comm)
{
    return comm ? gyre_domain_is_newcomer(comm->domain) : 0;
}

const char *gyre_error(const struct gyre_comm *comm)
{
    return comm ? gyre_progress_story(comm->progress) : gyre_thread_trouble()->text;
}

/* -- who --------------------------------------------------------------------------------------- */

int gyre_rank(const struct gyre_comm *comm)
{
    return comm ? (int)comm->rank : -1;
}

int gyre_size(const struct gyre_comm *comm)
{
    return comm ? (int)comm->n : -1;
}

int gyre_local_rank(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.local_rank : -1;
}

int gyre_local_size(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.local_size : -1;
}

int gyre_node(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.node : -1;
}

int gyre_nodes(const struct gyre_comm *comm)
{
    return comm ? (int)comm->node_place.nodes : -1;
}

int gyre_device(const struct gyre_comm *comm)
{
    return comm ? gyre_domain_cuda(comm->domain) : -1;
}

int gyre_link_name(const struct gyre_comm *comm, int rank, char *text, size_t room)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    if (!comm || !text || !room || rank < 0 || rank >= (int)comm->n)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "gyre_link_name: rank %d: expected a communicator, one of its %d "
                                "ranks and room for the text",
                                rank, gyre_size(comm));
    if (gyre_domain_forked(comm->domain))
        return GYRE_FORKED;
    if ((uint32_t)rank == comm->rank)
        snprintf(text, room, "none");
    else
        gyre_link_describe(gyre_domain_links(comm->domain), gyre_comm_world(comm, (uint32_t)rank),
                           text, room);
    return 0;
}
