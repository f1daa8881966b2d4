/* The domain of a simulated rank; see comm_sim.h.
 *
 *   world steps rank r ─▶ its thread polls, calls on … ─▶ gyre_domain_idle() ─▶ the world again
 *
 * The baton is two semaphores. A failure that a rank reports is every rank's at once, as after a
 * perfect watch. A rank that has ended polls its links until all have: peers may still read. */
#include "sim/comm_sim.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collectives/comm/progress.h"
#include "transport/link/driver.h"
#include "transport/link/sim/world.h"

struct gyre_domain {
    struct gyre_links *links;
    struct gyre_joined joined;
    struct gyre_health health;
    struct gyre_activity activity;
    struct comm_sim *sim;
    pthread_t thread;
    sem_t turn;
};

static struct {
    struct gyre_sim_world *world;
    struct gyre_member member[COMM_SIM_RANKS];
    struct gyre_domain domain[COMM_SIM_RANKS];
    sem_t back;
    uint32_t n, ended;
} all;

static _Thread_local struct gyre_domain *here;

/* -- the baton --------------------------------------------------------------------------------- */

static void hand_back(struct gyre_domain *domain)
{
    sem_post(&all.back);
    sem_wait(&domain->turn);
}

static void let_run(uint32_t rank)
{
    sem_post(&all.domain[rank].turn);
    sem_wait(&all.back);
}

/* -- what the collectives ask of a domain ------------------------------------------------------ */

uint64_t gyre_now_ns(void)
{
    return gyre_sim_world_now(all.world);
}

int gyre_domain_prepare(const struct gyre_domain_options *options, struct gyre_domain **domain,
                        struct gyre_trouble *trouble)
{
    (void)options, (void)trouble;
    *domain = here;
    return 0;
}

int gyre_domain_meet(struct gyre_domain *domain, const char *configuration,
                     struct gyre_trouble *trouble)
{
    struct gyre_wire_options wire_options = {
        .rank = here->joined.rank, .n = all.n, .peers = COMM_SIM_RANKS, .world = all.world};
    struct gyre_wire *wire;
    (void)domain, (void)configuration;
    int status = gyre_links_create(COMM_SIM_RANKS, &here->links);
    if (!status)
        status = gyre_driver_sim.open(&wire_options, &wire, trouble);
    if (!status)
        gyre_links_attach_lazily(here->links,
                                 gyre_links_add_wire(here->links, &gyre_driver_sim, wire));
    return status;
}

/* A job whose launcher has looked at the environment: no rank says what stands in the test's. */
const struct gyre_job *gyre_domain_job(const struct gyre_domain *domain)
{
    static const struct gyre_job job = {.launcher_fd = 0};
    (void)domain;
    return &job;
}

int gyre_domain_listen(const struct gyre_domain *domain, char host[64], uint16_t *port,
                       struct gyre_trouble *trouble)
{
    (void)domain, (void)host, (void)port;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "a simulated rank listens nowhere");
}

void gyre_domain_set_root(struct gyre_domain *domain, const char *host, uint16_t port, int fd)
{
    (void)domain, (void)host, (void)port, (void)fd;
}

int gyre_domain_close(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    (void)trouble;
    struct gyre_completion done[64];
    all.ended++;
    while (all.ended < all.n) {
        while (gyre_links_poll(domain->links, gyre_now_ns(), done, 64) > 0)
            continue;
        hand_back(domain);
    }
    gyre_links_destroy(domain->links);
    return 0;
}

const struct gyre_joined *gyre_domain_joined(const struct gyre_domain *domain)
{
    return &domain->joined;
}

struct gyre_links *gyre_domain_links(struct gyre_domain *domain)
{
    return domain->links;
}

struct gyre_health *gyre_domain_health(struct gyre_domain *domain)
{
    return &domain->health;
}

struct gyre_activity *gyre_domain_activity(struct gyre_domain *domain)
{
    return &domain->activity;
}

void gyre_domain_dump(struct gyre_domain *domain)
{
    (void)domain; /* no rank of a simulation keeps records */
}

struct gyre_watch *gyre_domain_watch(struct gyre_domain *domain)
{
    (void)domain;
    return NULL;
}

/* A turn of waiting. The first one only looks again, as the real one does; then nothing moves here
 * until the world says so. */
int gyre_domain_idle(struct gyre_domain *domain, struct gyre_idle *idle, uint64_t deadline)
{
    (void)deadline;
    if (idle->turns++)
        hand_back(domain);
    return atomic_load(&domain->health.status);
}

/* -- a perfect watch --------------------------------------------------------------------------- */

void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text)
{
    (void)watch;
    (void)echo;
    for (uint32_t r = 0; r < all.n; r++) {
        struct gyre_health *health = &all.domain[r].health;
        if (atomic_load(&health->status))
            continue;
        gyre_trouble_set(&health->failure, status, "%s", text);
        health->failed_rank = rank;
        atomic_store(&health->status, status);
        gyre_sim_world_wake(all.world, r, 0);
    }
}

void gyre_watch_attend(struct gyre_watch *watch, struct gyre_activity *activity)
{
    (void)watch;
    (void)activity;
}

void gyre_watch_ignore(struct gyre_watch *watch, struct gyre_activity *activity)
{
    (void)watch;
    (void)activity;
}

void gyre_watch_refuse(struct gyre_watch *watch, struct gyre_activity *activity, uint64_t sequence,
                       const char *why)
{
    (void)watch;
    (void)activity;
    (void)sequence;
    (void)why;
}

/* -- running ----------------------------------------------------------------------------------- */

void comm_sim_check(bool fine, struct gyre_comm *comm, const char *what)
{
    if (fine)
        return;
    const struct comm_sim *sim = here->sim;
    fprintf(stderr, "n %u, %u a node, seed %llu: rank %u: %s: %s\n", sim->n, sim->per_node,
            (unsigned long long)sim->seed, here->joined.rank, what, comm ? gyre_error(comm) : "");
    _Exit(1);
}

static void *rank_main(void *argument)
{
    struct gyre_comm *comm;
    here = argument;
    sem_wait(&here->turn);
    comm_sim_check(gyre_init(&comm, NULL) == 0, NULL, "gyre_init");
    here->sim->body(comm, here->sim);
    int status = gyre_finalize(comm);
    comm_sim_check(status == atomic_load(&here->health.status), NULL, "gyre_finalize");
    sem_post(&all.back);
    return NULL;
}

/* One thread of all runs at a time: the turn passes fastest on one core. */
static void stay_on_one_core(void)
{
    cpu_set_t one;
    int core = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(core < 0 ? 0 : core, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void open_world(struct comm_sim *sim)
{
    stay_on_one_core();
    struct gyre_sim_options options = sim_rough(sim->n, sim->seed, sim->piece_bytes);
    memset(&all, 0, sizeof(all));
    all.n = sim->n;
    sem_init(&all.back, 0, 0);
    if (gyre_sim_world_create(&options, &all.world))
        abort();
    for (uint32_t r = 0; r < sim->n; r++)
        all.member[r].node = r / sim->per_node;
}

static void start_rank(struct comm_sim *sim, uint32_t r)
{
    struct gyre_domain *domain = &all.domain[r];
    pthread_attr_t attr;
    domain->sim = sim;
    domain->joined = (struct gyre_joined){.rank = r, .n = sim->n, .member = all.member};
    sem_init(&domain->turn, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1024 * 1024);
    if (pthread_create(&domain->thread, &attr, rank_main, domain))
        abort();
    pthread_attr_destroy(&attr);
    gyre_sim_world_wake(all.world, r, (r + sim->seed) % 7 * 1000);
}

void comm_sim_run(struct comm_sim *sim)
{
    sim->entered = 0;
    open_world(sim);
    for (uint32_t r = 0; r < sim->n; r++)
        start_rank(sim, r);
    int64_t last = 0;
    while (all.ended < all.n) {
        last = gyre_sim_world_step(all.world);
        if (last < 0) {
            fprintf(stderr, "n %u, %u a node, seed %llu: %u ranks wait for what will never come\n",
                    sim->n, sim->per_node, (unsigned long long)sim->seed, all.n - all.ended);
            _Exit(1);
        }
        let_run((uint32_t)last);
    }
    for (uint32_t r = 0; r < sim->n; r++) {
        if (r != (uint32_t)last) /* that one ended last, and waits for nobody */
            let_run(r);
        pthread_join(all.domain[r].thread, NULL);
        sem_destroy(&all.domain[r].turn);
    }
    gyre_sim_world_destroy(all.world);
    sem_destroy(&all.back);
}
