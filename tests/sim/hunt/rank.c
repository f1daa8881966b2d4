/* A rank: a coroutine that runs a program over gyre/gyre.h, and the domain under it.
 *
 *   world steps rank r ─▶ its coroutine goes on … ─▶ gyre_domain_idle() ─▶ the conductor
 *
 * A rank that ends, by gyre_finalize() or by a crash, is never run again. */
#include "rig/sanitized.h"
#include "sim/hunt/inside.h"

#include "transport/link/driver.h"

#include <stdlib.h>
#include <string.h>

#define STACK     (256 * 1024)
#define LAST_CALL (300 * GYRE_MS)

static uint8_t stacks[HUNT_RANKS][STACK] __attribute__((aligned(64)));

/* -- turns ------------------------------------------------------------------------------------- */

/* A coroutine begins by setcontext() and goes on by longjmp(), which leaves the signal mask alone:
 * swapcontext() asks the kernel twice a turn, half of the time of a seed. But the address sanitizer
 * knows a stack that is left only by swapcontext(). */
#ifdef SANITIZED

static ucontext_t conductor;

static void go_on(struct gyre_domain *rank)
{
    swapcontext(&conductor, &rank->context);
}

static void hand_back(struct gyre_domain *rank)
{
    swapcontext(&rank->context, &conductor);
}

#else

static jmp_buf conductor;

static void go_on(struct gyre_domain *rank)
{
    if (_setjmp(conductor))
        return;
    if (rank->begun)
        _longjmp(rank->turn, 1);
    rank->begun = true;
    setcontext(&rank->context);
}

static void hand_back(struct gyre_domain *rank)
{
    if (!_setjmp(rank->turn))
        _longjmp(conductor, 1);
}

#endif

void hunt_rank_run(struct gyre_domain *rank)
{
    if (rank->life != HUNT_LIVES)
        return;
    hunt.here = rank;
    go_on(rank);
    hunt.here = NULL;
}

static void wake_at(struct gyre_domain *rank, uint64_t at)
{
    gyre_sim_world_wake(hunt.world, rank->rank, at - HUNT_START);
}

void hunt_rank_sleep(struct gyre_domain *rank, uint64_t ns)
{
    uint64_t until = gyre_now_ns() + ns;
    while (gyre_now_ns() < until) {
        wake_at(rank, until);
        hand_back(rank);
    }
}

void hunt_rank_crash(struct gyre_domain *rank)
{
    if (rank->life != HUNT_LIVES)
        return;
    rank->life = HUNT_DEAD_NOW;
    hunt_note("crashes", rank->rank, 0, 0);
    struct gyre_domain *here = hunt.here;
    hunt.here = NULL;
    gyre_sim_world_kill(hunt.world, rank->rank);
    hunt_watch_end(rank);
    hunt.here = here;
}

void hunt_rank_exit(struct gyre_domain *rank)
{
    hunt_rank_crash(rank);
    hand_back(rank);
    abort(); /* the dead do not go on */
}

/* -- the life of a rank ------------------------------------------------------------------------ */

static void live(struct gyre_domain *rank)
{
    int status = gyre_init(&rank->comm, NULL);
    if (status) {
        hunt_wrong("rank %u: gyre_init() returns %d", rank->rank, status);
        hunt_rank_exit(rank);
    }
    hunt_program(rank);
    status = gyre_finalize(rank->comm);
    hunt_note("ends", rank->rank, (uint64_t)(int64_t)status, 0);
    if (status != atomic_load(&rank->health.status) && !hunt_memory_failed(rank->rank))
        hunt_wrong("rank %u: gyre_finalize() returns %d, but the job's status is %d", rank->rank,
                   status, (int)atomic_load(&rank->health.status));
    hunt.here = NULL;
    rank->life = HUNT_ENDED;
    hunt_watch_end(rank);
    hunt.here = rank;
    hand_back(rank);
    abort();
}

static void start_here(void)
{
    live(hunt.here);
}

void hunt_rank_open(uint32_t r)
{
    struct gyre_domain *rank = &hunt.rank[r];
    memset(rank, 0, sizeof *rank);
    rank->rank = r;
    rank->joined = (struct gyre_joined){.rank = r, .n = hunt.is->n, .member = hunt.member};
    getcontext(&rank->context);
    rank->context.uc_stack.ss_sp = stacks[r];
    rank->context.uc_stack.ss_size = STACK;
    makecontext(&rank->context, start_here, 0);
    wake_at(rank, HUNT_START + gyre_rng_below(&hunt.rng, 4 * hunt.is->latency_ns));
}

/* -- what the collectives ask of a domain ------------------------------------------------------ */

uint64_t gyre_now_ns(void)
{
    return hunt.world ? HUNT_START + gyre_sim_world_now(hunt.world) : HUNT_START;
}

int gyre_domain_prepare(const struct gyre_domain_options *options, struct gyre_domain **domain,
                        struct gyre_trouble *trouble)
{
    (void)options, (void)trouble;
    *domain = hunt.here;
    return 0;
}

/* The keys of one connection: each direction's is its writer and its reader. */
static struct gyre_traffic_keys keys_of(uint32_t rank, uint32_t peer)
{
    struct gyre_traffic_keys keys = {{0}, {0}};
    keys.out[0] = keys.in[1] = (uint8_t)(1 + rank);
    keys.out[1] = keys.in[0] = (uint8_t)(1 + peer);
    return keys;
}

/* Every rank attaches every other, as after a join, but for those whose links are made later. */
int gyre_domain_meet(struct gyre_domain *domain, const char *configuration,
                     struct gyre_trouble *trouble)
{
    struct gyre_wire_options wire_options = {
        .rank = domain->rank, .n = hunt.is->n, .peers = HUNT_RANKS, .world = hunt.world};
    struct gyre_wire *wire;
    (void)configuration;
    int index, status = gyre_links_create(HUNT_RANKS, &domain->links);
    if (status)
        return status;
    if ((status = gyre_driver_sim.open(&wire_options, &wire, trouble)))
        return status;
    if ((index = gyre_links_add_wire(domain->links, &gyre_driver_sim, wire)) < 0)
        return index;
    hunt_links_plan(domain);
    gyre_links_connect_on_demand(domain->links, index, &domain->on_demand);
    for (uint32_t peer = 0; peer < hunt.is->n && !status; peer++) {
        const struct gyre_traffic_keys keys = keys_of(domain->rank, peer);
        struct gyre_channel channel = {.peer = peer, .security = hunt.is->security, .keys = &keys};
        if (peer != domain->rank && !domain->far[peer].far)
            status = gyre_links_attach(domain->links, index, &channel, trouble);
    }
    return status;
}

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

/* Whether goodbyes are missing after the links have moved all that they can. */
static bool still_parts(struct gyre_domain *domain)
{
    struct gyre_completion ignored[16];
    do {
        if (atomic_load(&domain->health.status) || gyre_links_bye(domain->links) != GYRE_AGAIN)
            return false;
        hunt_links_ask(domain);
    } while (gyre_links_poll(domain->links, gyre_now_ns(), ignored, 16));
    return !atomic_load(&domain->health.status) && gyre_links_bye(domain->links) == GYRE_AGAIN;
}

static bool awaits_any(const struct gyre_domain *domain)
{
    const struct gyre_failure_detector *detector = domain->watch.detector;
    bool awaits = false;
    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++)
        awaits |= gyre_detector_awaits(detector, i);
    return awaits;
}

/* As the real one: a peer whose connection is being made shall hear of the failure. */
static void last_call(struct gyre_domain *domain)
{
    const uint64_t until = gyre_now_ns() + LAST_CALL;
    while (atomic_load(&domain->health.status) && awaits_any(domain) && gyre_now_ns() < until) {
        wake_at(domain, gyre_now_ns() + GYRE_MS);
        hand_back(domain);
    }
}

/* As the real one: goodbyes on the links, then on the watch, at most 1.5 dead times each. */
int gyre_domain_close(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    uint64_t until = gyre_now_ns() + HUNT_DEAD * 3 / 2;
    domain->watch.parting = true;
    while (still_parts(domain) && gyre_now_ns() < until) {
        wake_at(domain, until);
        hand_back(domain);
    }
    domain->links_ended = true;
    hunt_watch_leave(domain);
    while (!atomic_load(&domain->health.status) &&
           !gyre_detector_all_left(domain->watch.detector) && gyre_now_ns() < until) {
        wake_at(domain, until);
        hand_back(domain);
    }
    until = gyre_now_ns() + HUNT_DEAD * 3 / 2;
    while (gyre_detector_all_left(domain->watch.detector) &&
           !gyre_detector_may_end(domain->watch.detector) && gyre_now_ns() < until) {
        wake_at(domain, until);
        hand_back(domain);
    }
    last_call(domain);
    int status = atomic_load(&domain->health.status);
    if (status && trouble)
        *trouble = domain->health.failure;
    gyre_links_destroy(domain->links);
    domain->links = NULL;
    return status;
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
    return &domain->watch;
}

/* Real sleepers look again every 50 ms. */
static void nap(struct gyre_domain *domain)
{
    uint64_t now = gyre_now_ns();
    if (domain->nap_until <= now) {
        domain->nap_until = now + 50 * GYRE_MS;
        wake_at(domain, domain->nap_until);
    }
}

/* A turn of waiting. The first one only looks again; then nothing moves here until the world says
 * so, or the caller's time is up. */
int gyre_domain_idle(struct gyre_domain *domain, struct gyre_idle *idle, uint64_t deadline)
{
    if (!atomic_load(&domain->health.status) && idle->turns++) {
        hunt_links_ask(domain);
        if (deadline != UINT64_MAX)
            wake_at(domain, deadline);
        nap(domain);
        hand_back(domain);
    }
    return atomic_load(&domain->health.status);
}
