/* Makes and ends the communicator of a whole job.
 *
 *   gyre_init ─▶ domain (job, peers, watch, links) ─▶ mesh, where all ranks share memory ─▶ engine
 *
 * A world of 1 has a domain without peers and no engine: its operations are copies.
 *
 * Tested by tests/unit/collectives/comm/world_of_one_test.c and
 * tests/program/collectives/comm.c. */
#include "collectives/lifecycle/world.h"

#include "base/env.h"
#include "base/log.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/setup.h"
#include "knobs/strangers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- init -------------------------------------------------------------------------------------- */

static int read_engine_settings(struct gyre_progress_engine *progress, struct gyre_trouble *trouble)
{
    struct gyre_engine_options *options = &progress->settings;
    int64_t lanes = 0;
    int status = gyre_log_check(trouble);
    if (!status)
        status = gyre_reduce_check(trouble);
    if (!status)
        status = gyre_preference_read(&progress->preference, trouble);
    if (!status)
        status = gyre_env_size("GYRE_SLICE", &options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_refuse_zero("GYRE_SLICE", options->slice_bytes, trouble);
    if (!status)
        status = gyre_env_int("GYRE_LANES", 1, GYRE_LANES_MAX, &lanes, trouble);
    options->lanes = (uint32_t)lanes;
    options->preference = &progress->preference;
    return status;
}

static int open_mesh(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    struct gyre_mesh_options options = {comm->rank, comm->n, NULL};
    if (comm->node_place.nodes > 1 || comm->n > GYRE_PEERS_MAPPED_MAX ||
        !gyre_domain_shares(comm->domain))
        return 0;
    int status = gyre_mesh_create(comm->domain, &options, &comm->mesh, trouble);
    return status ? status : gyre_mesh_meet(comm->mesh, NULL, trouble);
}

static int open_world(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = gyre_domain_joined(comm->domain);
    comm->rank = joined->rank;
    comm->n = joined->n;
    comm->activity = gyre_domain_activity(comm->domain);
    gyre_progress_init(comm->progress, comm->domain);
    gyre_helper_prepare(comm->progress);
    gyre_progress_add(comm->progress, comm);
    int status = gyre_comm_lay_out(comm, trouble);
    if (!status)
        status = open_mesh(comm, trouble);
    return status ? status : gyre_comm_open_engine(comm, trouble);
}

int gyre_world_free(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    struct gyre_progress_engine *progress = world->progress;
    gyre_helper_stop(progress); /* where the world never came to be, its memory is left */
    gyre_fold_queue_deinit(&progress->fold_queue); /* its work may read peers' memory */
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id] && progress->comm[id]->engine)
            gyre_engine_part(progress->comm[id]->engine);
    int status = gyre_domain_close(world->domain, trouble);
    for (uint32_t id = 1; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id])
            gyre_comm_free(progress->comm[id]);
    gyre_comm_free(world);
    free(progress);
    return status;
}

static struct gyre_comm *new_world(void)
{
    struct gyre_comm *comm = calloc(1, sizeof(*comm));
    struct gyre_progress_engine *progress = calloc(1, sizeof(*progress));
    if (!comm || !progress) {
        free(comm);
        free(progress);
        return NULL;
    }
    comm->progress = progress;
    pthread_mutex_init(&comm->registered_lock, NULL);
    return comm;
}

/* Once per job: `gyre run` has told its ranks' variables before it started them. */
static void tell_strangers(const struct gyre_job *job)
{
    const char *stranger;
    while (!job->rank && job->launcher_fd < 0 && (stranger = gyre_stranger_next()))
        gyre_log(GYRE_LOG_WARN, "%s", stranger);
}

int gyre_world_create(const struct gyre_domain_options *options, struct gyre_comm **out,
                      struct gyre_trouble *trouble)
{
    struct gyre_comm *comm = new_world();
    if (!comm)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a communicator");
    int status = read_engine_settings(comm->progress, trouble);
    if (!status)
        status = gyre_domain_prepare(options, &comm->domain, trouble);
    if (status) {
        gyre_world_free(comm, NULL);
        return status;
    }
    if (!options->after && !options->newcomer)
        tell_strangers(gyre_domain_job(comm->domain));
    *out = comm;
    return 0;
}

/* A rank that fails alone ends the job: the others would wait for it. */
static void tell_peers(struct gyre_domain *domain, int status, const struct gyre_trouble *trouble)
{
    char text[sizeof trouble->text];
    struct gyre_watch *watch = gyre_domain_watch(domain);
    if (!watch)
        return;
    uint32_t rank = gyre_domain_joined(domain)->rank;
    snprintf(text, sizeof text, "rank %u cannot start: %.400s", rank, trouble->text);
    gyre_watch_report(watch, status, rank, false, text);
}

void gyre_world_configuration(const struct gyre_comm *comm, const char *made_by,
                              char text[GYRE_WORLD_CONFIGURATION])
{
    char slice[24] = "chosen", lanes[16] = "chosen";
    const struct gyre_progress_engine *progress = comm->progress;
    if (progress->settings.slice_bytes)
        snprintf(slice, sizeof slice, "%llu", (unsigned long long)progress->settings.slice_bytes);
    if (progress->settings.lanes)
        snprintf(lanes, sizeof lanes, "%u", progress->settings.lanes);
    snprintf(text, GYRE_WORLD_CONFIGURATION, "%s GYRE_SLICE=%s GYRE_LANES=%s call=%s",
             progress->preference.text, slice, lanes, made_by);
}

int gyre_world_meet(struct gyre_comm *comm, const char *made_by, struct gyre_trouble *trouble)
{
    char configuration[GYRE_WORLD_CONFIGURATION];
    gyre_world_configuration(comm, made_by, configuration);
    int status = gyre_domain_meet(comm->domain, configuration, trouble);
    status = status ? status : open_world(comm, trouble);
    if (status)
        tell_peers(comm->domain, status, trouble);
    return status;
}

/* -- end --------------------------------------------------------------------------------------- */

static void finish_all(struct gyre_comm *world)
{
    const uint32_t *busy = &world->progress->busy_count;
    int status = 0;
    gyre_domain_enter(world->domain);
    while (*busy && !status) {
        struct gyre_wait wait = {.word = busy, .old = *busy, .deadline = UINT64_MAX};
        status = gyre_progress_wait(world->progress, &wait);
    }
    gyre_domain_leave(world->domain);
}

int gyre_world_run(struct gyre_comm *world, const struct gyre_request *request,
                   struct gyre_trouble *trouble)
{
    int status = gyre_comm_enter_and_run(world, request);
    return status ? gyre_trouble_set(trouble, status, "%s", gyre_progress_story(world->progress))
                  : 0;
}

int gyre_world_status(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    const struct gyre_health *health = gyre_domain_health(world->domain);
    if (atomic_load(&health->status))
        *trouble = health->failure;
    return gyre_progress_failure(world->progress);
}

int gyre_world_end(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    finish_all(world);
    gyre_helper_stop(world->progress);
    const bool superseded = world->progress->superseded;
    int failed = atomic_load(&world->progress->failed);
    int status = gyre_world_free(world, trouble);
    return superseded ? 0 : failed ? failed : status;
}
