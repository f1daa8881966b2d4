/* A nemesis of links: jobs of two or three machines, network namespaces joined by a bridge, call
 * operations of every kind while the network between them is hurt.
 *
 *     links [--jobs N] [--seed S] [--job I]
 *
 *     short cut    packets of a machine, or between two, are dropped both ways or one way for less
 *                  than half of the dead time: it must cost nothing
 *     long cut     they are dropped for ever: every rank must fail with GYRE_PEER_LOST and name a
 *                  rank behind the cut; errors later than the dead time + 1 s are counted
 *     slow         the way out of a machine takes 4 to 64 Mbit/s, with a queue of up to half of the
 *                  dead time: it must cost nothing
 *     short queue  the same with a queue of 20 to 64 KB, which drops packets: it must cost nothing
 *     resets       all TCP connections of a machine are reset, the watch's and those of data, 1 to
 *                  20 times: it must cost nothing
 *
 * A gyre_finalize() that alone fails after all calls have succeeded is counted and told.
 *
 * Runs N jobs (default 4); --job runs one job of the seed. Skipped where network namespaces, `nft`,
 * `tc` or `ss` are missing. */
#include "nemesis/room.h"
#include "nemesis/turns.h"
#include "nemesis/machines.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEAD_MS  4000
#define LATE_MS  1000 /* beyond the dead time */
#define HANG_S   120
#define MACHINES 3

enum fault { SHORT_CUT, LONG_CUT, SLOW, SHORT_QUEUE, RESETS, FAULTS };
enum way_cut { BOTH, OUT, IN };

static const char *const fault_name[] = {"short cut", "long cut", "slow link", "short queue",
                                         "resets"};
static const char *const way_name[] = {"both ways", "out", "in"};

static const struct shape {
    const char *name, *transport;
    int n, per_machine, machines;
} shape_of[] = {{"1+1", "tcp", 2, 1, 2},
                {"1+1+1", "tcp", 3, 1, 3},
                {"2+2", "auto", 4, 2, 2},
                {"2+1", "auto", 3, 2, 2}};

struct plan {
    uint64_t seed, turns; /* turns that every rank has begun before the fault */
    const struct shape *shape;
    enum fault fault;
    enum way_cut way;
    int machine, other;         /* other -1: all others */
    uint64_t cut_ns, lasted_ns; /* drawn, measured */
    unsigned rate_kbit, queue_bytes;
    uint64_t resets, pause_ns;
};

struct count {
    int jobs, faults[FAULTS], bad;
    int late;     /* errors */
    int ends;     /* ranks whose gyre_finalize() failed after all their calls had succeeded */
    int too_long; /* short cuts that a busy machine healed too late to count */
};

static struct tally told = {.what = "from a long cut to a rank's error"};

/* -- the job ----------------------------------------------------------------------------------- */

static int machine_of(const struct rig *rig, int rank)
{
    const struct plan *plan = rig->argument;
    return rank / plan->shape->per_machine;
}

/* A call that fails is told with its buffers. Of a job that must fail the story alone counts. */
static void enter(const struct rig *rig, int rank)
{
    const struct plan *plan = rig->argument;
    machines_enter(machine_of(rig, rank));
    if (plan->fault == LONG_CUT)
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
}

/* Turns until rank 0 has seen the flag, of which it tells the others before each turn. */
static int take_turns(struct gyre_comm *comm, struct rig *rig)
{
    const struct plan *plan = rig->argument;
    struct stage stage = {0};
    struct gyre_rng rng;
    int32_t ends = 0;
    int rank = gyre_rank(comm), bad = turns_stage(comm, &stage), status = 0;
    gyre_rng_seed(&rng, plan->seed);
    for (uint64_t turn = 1; !bad && !status; turn++) {
        rig->shared->place[rank] = turn;
        ends = rig->shared->flag;
        status = gyre_broadcast(comm, &ends, &ends, 1, GYRE_I32, 0);
        if (ends || status)
            break;
        bad = turns_take(comm, &stage, &rng);
    }
    if (bad)
        status = gyre_barrier(comm); /* 0: the turn failed by its bytes, not by the job's end */
    if (status)
        rig_note(rig, comm, status, 0);
    bool wrong = bad && !status;
    if (gyre_finalize(comm) && !status)
        snprintf(rig->shared->error[rank], sizeof rig->shared->error[rank], "at its end: %s",
                 gyre_error(NULL));
    return wrong ? 3 : 0;
}

/* -- the fault --------------------------------------------------------------------------------- */

static struct plan draw_plan(uint64_t seed, uint64_t number)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, gyre_mix64(seed) + number);
    struct plan plan = {.seed = gyre_rng_next(&rng),
                        .turns = 1 + gyre_rng_below(&rng, 20),
                        .shape =
                            &shape_of[gyre_rng_below(&rng, sizeof shape_of / sizeof *shape_of)],
                        .fault = (enum fault)gyre_rng_below(&rng, FAULTS),
                        .way = (enum way_cut)gyre_rng_below(&rng, 3),
                        .other = -1,
                        .cut_ns = gyre_rng_below(&rng, DEAD_MS * UINT64_C(400000)),
                        .rate_kbit = 4000u << gyre_rng_below(&rng, 5),
                        .resets = 1 + gyre_rng_below(&rng, 20),
                        .pause_ns = gyre_rng_below(&rng, 100000000)};
    uint64_t machines = (uint64_t)plan.shape->machines;
    unsigned most = plan.rate_kbit / 8 * DEAD_MS / 2; /* bytes in half of the dead time */
    plan.machine = (int)gyre_rng_below(&rng, machines);
    plan.queue_bytes = 20000 + (unsigned)gyre_rng_below(&rng, 44000);
    if (plan.fault == SLOW)
        plan.queue_bytes = 200000 + (unsigned)gyre_rng_below(&rng, most - 200000);
    bool pair = machines == 3 && gyre_rng_below(&rng, 2);
    if (pair) /* between machines other than 0 no beats go, so a long cut always has machine 0 */
        plan.other = plan.fault == LONG_CUT && plan.machine ? 0 : (plan.machine + 1) % 3;
    return plan;
}

static bool drop(int from, int to)
{
    return to < 0 ? machines_run("nft add rule netdev cut from%d drop", from)
                  : machines_run("nft add rule netdev cut from%d ip daddr 10.77.0.%d drop", from,
                                 to + 1);
}

static bool cut(const struct plan *plan)
{
    bool done = plan->way == IN || drop(plan->machine, plan->other);
    for (int i = 0; i < plan->shape->machines && plan->way != OUT; i++)
        if (i != plan->machine && (plan->other < 0 || plan->other == i))
            done = drop(i, plan->machine) && done;
    return done;
}

static bool slow_down(const struct plan *plan)
{
    return machines_run("tc -n rank%d qdisc add dev way root tbf rate %ukbit burst 16kb limit %u",
                        plan->machine, plan->rate_kbit, plan->queue_bytes);
}

static void reset_connections(const struct plan *plan)
{
    for (uint64_t i = 0; i < plan->resets; i++) {
        if (!machines_run("ip netns exec rank%d ss -tK dst 10.77.0.0/24 >/dev/null 2>&1",
                          plan->machine))
            fprintf(stderr, "cannot reset connections\n");
        tally_pause(plan->pause_ns);
    }
}

static void heal(const struct plan *plan)
{
    bool done = plan->fault > LONG_CUT
                    ? machines_run("tc -n rank%d qdisc del dev way root", plan->machine)
                    : machines_run("nft flush table netdev cut");
    if (!done)
        fprintf(stderr, "cannot heal the network\n");
}

static bool can_be_hurt(void)
{
    for (int i = 0; i < MACHINES; i++)
        if (!machines_run("(nft add table netdev cut && nft add chain netdev cut from%d "
                          "'{ type filter hook ingress device port%d priority 0; }') 2>/dev/null",
                          i, i))
            return false;
    return machines_run("(tc -n rank0 qdisc add dev way root tbf rate 1mbit burst 16kb limit 20000 "
                        "&& tc -n rank0 qdisc del dev way root && command -v ss) >/dev/null 2>&1");
}

/* Returns when a long cut began; 0: the job was lost before, or has outlived the fault. */
static uint64_t hurt(const struct rig *rig, struct plan *plan)
{
    if (!rig_reach(rig, plan->turns, HANG_S))
        return 0;
    uint64_t when = rig_now();
    if (plan->fault == RESETS)
        reset_connections(plan);
    else if (!(plan->fault > LONG_CUT ? slow_down(plan) : cut(plan)))
        fprintf(stderr, "cannot hurt the network\n");
    if (plan->fault == LONG_CUT)
        return when;
    if (plan->fault == SHORT_CUT)
        tally_pause(plan->cut_ns);
    else
        rig_reach(rig, rig->shared->place[0] + 3, HANG_S);
    if (plan->fault != RESETS)
        heal(plan);
    plan->lasted_ns = rig_now() - when;
    rig_reach(rig, rig->shared->place[0] + 5, HANG_S);
    rig->shared->flag = 1;
    return 0;
}

/* -- what the ranks say ------------------------------------------------------------------------ */

/* A cut counts as short if it was, by the clock: a busy machine may take seconds to heal it. */
static bool goes_on(const struct rig *rig, const struct plan *plan, struct count *count)
{
    bool fine = true;
    for (int rank = 0; rank < rig->n; rank++) {
        if (*rig->shared->error[rank])
            fprintf(stderr, "rank %d: %s\n", rank, rig->shared->error[rank]);
        count->ends += *rig->shared->error[rank] && !rig->shared->status[rank];
        fine = fine && !rig->shared->status[rank];
    }
    bool counts = plan->fault != SHORT_CUT ||
                  plan->lasted_ns < DEAD_MS * UINT64_C(500000) * (uint64_t)rig_slow();
    count->too_long += !counts;
    return fine || !counts;
}

/* Whether the first rank in the story is behind the cut, as its teller sees it. Where one way is
 * open, the other side's word arrives too, and names either end. */
static bool names_an_end(const struct rig *rig, const struct plan *plan, int rank)
{
    unsigned named = 64;
    const char *first = strstr(rig->shared->error[rank], "rank ");
    if (!first || sscanf(first, "rank %u", &named) != 1 || (int)named >= rig->n)
        return false;
    int machine = machine_of(rig, (int)named);
    if (plan->other >= 0)
        return machine == plan->machine || machine == plan->other;
    return plan->way != BOTH ||
           (machine == plan->machine) != (machine_of(rig, rank) == plan->machine);
}

static bool is_told(const struct rig *rig, const struct plan *plan, uint64_t when,
                    struct count *count)
{
    bool fine = when != 0;
    for (int rank = 0; rank < rig->n && when; rank++) {
        double ms = ((double)rig->shared->took_ns[rank] - (double)when) / 1e6;
        bool right = rig->shared->status[rank] == GYRE_PEER_LOST && names_an_end(rig, plan, rank) &&
                     ms > DEAD_MS / 2.0 * rig_slow();
        if (!right)
            fprintf(stderr, "rank %d, after %.0f ms: status %d: %s\n", rank, ms,
                    rig->shared->status[rank], rig->shared->error[rank]);
        bool late = ms > (DEAD_MS + LATE_MS) * rig_slow();
        if (late)
            fprintf(stderr, "late: %s, cut %s, machine %d and %d: rank %d after %.0f ms\n",
                    plan->shape->name, way_name[plan->way], plan->machine, plan->other, rank, ms);
        count->late += late;
        tally_add(&told, ms);
        fine = fine && right;
    }
    return fine;
}

static void tell_failed(const struct plan *plan, uint64_t seed, uint64_t number)
{
    fprintf(stderr,
            "FAILED: --seed %llu --job %llu: %s, %s after %d turns, machine %d and %d, %s, %.0f "
            "ms, %u kbit/s, queue of %u bytes, %d resets\n",
            (unsigned long long)seed, (unsigned long long)number, plan->shape->name,
            fault_name[plan->fault], (int)plan->turns, plan->machine, plan->other,
            way_name[plan->way], (double)plan->cut_ns / 1e6, plan->rate_kbit, plan->queue_bytes,
            (int)plan->resets);
}

static void run_job(uint64_t seed, uint64_t number, bool private, struct count *count)
{
    struct plan plan = draw_plan(seed, number);
    struct rig rig = {.n = plan.shape->n,
                      .transport = plan.shape->transport,
                      .per_node = plan.shape->per_machine > 1 ? plan.shape->per_machine : 0,
                      .dead_ms = DEAD_MS,
                      .before = enter,
                      .body = take_turns,
                      .argument = &plan};
    rig_start(&rig);
    uint64_t when = hurt(&rig, &plan);
    bool fine = rig_wait(&rig, HANG_S, 0) == 0;
    if (plan.fault == LONG_CUT)
        heal(&plan);
    fine = (plan.fault == LONG_CUT ? is_told(&rig, &plan, when, count)
                                   : goes_on(&rig, &plan, count)) &&
           fine;
    fine = (!private || room_leftovers() == 0) && fine;
    munmap(rig.shared, sizeof *rig.shared);
    count->jobs++;
    count->faults[plan.fault]++;
    count->bad += !fine;
    if (!fine)
        tell_failed(&plan, seed, number);
}

int main(int argc, char **argv)
{
    struct count count = {0};
    uint64_t seed = tally_seed(argc, argv), jobs = tally_option(argc, argv, "--jobs", 4);
    uint64_t one = tally_option(argc, argv, "--job", UINT64_MAX);
    bool private = room_enter();
    if (!machines_make(MACHINES) || !can_be_hurt()) {
        printf("skipped: no network namespaces, nft ingress hooks, tbf queues or ss here\n");
        return 77;
    }
    if (one != UINT64_MAX)
        run_job(seed, one, private, &count);
    for (uint64_t i = 0; one == UINT64_MAX && i < jobs; i++)
        run_job(seed, i, private, &count);
    printf("%d jobs (", count.jobs);
    for (int fault = 0; fault < FAULTS; fault++)
        printf("%s%d %s", fault ? ", " : "", count.faults[fault], fault_name[fault]);
    printf(
        "): %d broke a promise; %d errors came later than the dead time + %d ms; %d ranks failed "
        "at their end alone; %d cuts became too long\n",
        count.bad, count.late, LATE_MS, count.ends, count.too_long);
    tally_print(&told);
    return count.bad != 0;
}
