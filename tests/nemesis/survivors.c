/* A nemesis of jobs that go on: random SIGKILLs, of several ranks, of rank 0, in the middle of
 * gyre_shrink() too.
 *
 *     survivors [--kills N] [--seed S] [--job I]
 *
 * Kills at least N ranks (default 12), in as many jobs as that takes. Each rank sums, over and
 * over, a bit of its own: a sum says who took part. Every survivor must be in every sum, and at the
 * end they alone. */
#include "nemesis/room.h"
#include "nemesis/tally.h"
#include "rig/comm_rig.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 16, COUNT_MOST = 40000, HANG_S = 60 };

struct victim {
    int rank;
    uint64_t pause_ns; /* after the victim before, or after all ranks have begun */
};

struct plan {
    uint64_t seed;
    int n, victims;
    const char *transport;
    int per_node;
    struct victim victim[RANKS_MOST];
    uint64_t survivors; /* bits */
};

/* The last recovery of each rank: when its call failed, when it had a smaller communicator, when it
 * had the next sum. */
struct recovery {
    _Atomic uint64_t failed, shrunk, summed;
    _Atomic int epochs;
};

static struct recovery *recovery; /* RANKS_MOST, shared */

static struct tally total = {.what = "from SIGKILL to the next sum of a survivor"},
                    seen = {.what = "  until its call failed"},
                    shrunk = {.what = "  until it had the smaller communicator"},
                    summed = {.what = "  until that sum"};

/* -- a rank ------------------------------------------------------------------------------------ */

/* Sums this rank's bit, and whether it has been told to end. *who: the ranks in the sum. */
static int sum(struct gyre_comm *comm, const struct rig *rig, int64_t *data, uint64_t turn, int me,
               int64_t *who, bool *over)
{
    const struct plan *plan = rig->argument;
    uint64_t count = 2 + gyre_mix64(plan->seed + turn) % (turn % 4 ? 64 : COUNT_MOST - 2);
    for (uint64_t i = 0; i < count; i++)
        data[i] = INT64_C(1) << me;
    data[0] = rig->shared->flag;
    int status = gyre_all_reduce(comm, data, data, count, GYRE_I64, GYRE_SUM);
    *who = data[1];
    *over = data[0] != 0;
    for (uint64_t i = 1; i < count && !status; i++)
        if (data[i] != *who)
            return -EIO;
    return status;
}

/* Goes on with a smaller communicator, from the turn that all have ended. */
static int recover(struct gyre_comm **comm, int64_t *turn, int me)
{
    struct gyre_comm *smaller;
    recovery[me].failed = rig_now();
    int status = gyre_shrink(*comm, &smaller);
    if (status) {
        fprintf(stderr, "member %d: %s\n", me, gyre_error(NULL));
        return -ECHILD;
    }
    recovery[me].shrunk = rig_now();
    recovery[me].epochs++;
    gyre_finalize(*comm);
    *comm = smaller;
    status = gyre_all_reduce(smaller, turn, turn, 1, GYRE_I64, GYRE_MIN);
    recovery[me].summed = rig_now();
    return status;
}

static int survive(struct gyre_comm *comm, struct rig *rig)
{
    const struct plan *plan = rig->argument;
    int64_t turn = 0, who = 0;
    void *memory;
    bool over = false;
    int me = gyre_rank(comm), status = gyre_alloc(comm, COUNT_MOST * sizeof(int64_t), &memory);
    while (!status && !over) {
        status = sum(comm, rig, memory, (uint64_t)turn, me, &who, &over);
        while (status == GYRE_PEER_LOST)
            if ((status = recover(&comm, &turn, me)) == 0)
                status = sum(comm, rig, memory, (uint64_t)turn, me, &who, &over);
        if (!status && ((uint64_t)who & plan->survivors) != plan->survivors)
            return rig_check(false, comm, "a survivor is missing in a sum");
        rig->shared->place[me] = (uintptr_t)who;
        turn++;
    }
    if (rig_check(!status, comm, "a sum failed"))
        return 1;
    return rig_check((uint64_t)who == plan->survivors, comm, "others are in the last sum") ||
           gyre_finalize(comm);
}

/* -- a job ------------------------------------------------------------------------------------- */

static struct plan draw_plan(uint64_t seed, uint64_t number)
{
    static const struct {
        const char *transport;
        int per_node;
    } shape[] = {{"shm", 0}, {"tcp", 0}, {"auto", 2}, {"auto", 3}, {"auto", 0}};
    struct gyre_rng rng;
    struct plan plan = {.seed = seed + number};
    gyre_rng_seed(&rng, gyre_mix64(seed + number));
    uint64_t form = gyre_rng_below(&rng, 5);
    plan.n = 2 + (int)gyre_rng_below(&rng, gyre_rng_below(&rng, 4) ? 5 : RANKS_MOST - 1);
    plan.transport = shape[form].transport;
    plan.per_node = shape[form].per_node;
    plan.survivors = (UINT64_C(1) << plan.n) - 1;
    int wanted = gyre_rng_below(&rng, 3) ? 1 : 1 + (int)gyre_rng_below(&rng, (uint64_t)plan.n - 1);
    while (plan.victims < wanted) {
        int rank = gyre_rng_below(&rng, 4) ? (int)gyre_rng_below(&rng, (uint64_t)plan.n) : 0;
        if (!(plan.survivors >> rank & 1))
            continue;
        plan.survivors &= ~(UINT64_C(1) << rank);
        plan.victim[plan.victims++] =
            (struct victim){rank, gyre_rng_below(&rng, 3) ? gyre_rng_below(&rng, 15000000) : 0};
    }
    return plan;
}

/* Waits until every survivor has summed with exactly these ranks. */
static bool reach_sum(const struct rig *rig, uint64_t ranks, uint64_t survivors)
{
    uint64_t limit = rig_now() + HANG_S * UINT64_C(1000000000) * (uint64_t)rig_slow();
    for (int rank = 0; rank < rig->n; rank++)
        while (survivors >> rank & 1 && rig->shared->place[rank] != ranks) {
            siginfo_t ended = {0};
            waitid(P_PID, (id_t)rig->pid[rank], &ended, WEXITED | WNOHANG | WNOWAIT);
            if (ended.si_pid || rig_now() > limit)
                return false;
            tally_pause(100000);
        }
    return true;
}

/* Returns when the last victim was killed. */
static uint64_t kill_victims(const struct rig *rig, const struct plan *plan)
{
    uint64_t when = 0;
    for (int i = 0; i < plan->victims; i++) {
        tally_pause(plan->victim[i].pause_ns);
        when = rig_now();
        kill(rig->pid[plan->victim[i].rank], SIGKILL);
    }
    return when;
}

static void count_times(const struct plan *plan, uint64_t killed)
{
    for (int rank = 0; rank < plan->n && plan->victims == 1; rank++) {
        const struct recovery *r = &recovery[rank];
        if (!(plan->survivors >> rank & 1) || r->epochs != 1)
            continue;
        tally_add(&total, (double)(r->summed - killed) / 1e6);
        tally_add(&seen, r->failed > killed ? (double)(r->failed - killed) / 1e6 : 0);
        tally_add(&shrunk, (double)(r->shrunk - r->failed) / 1e6);
        tally_add(&summed, (double)(r->summed - r->shrunk) / 1e6);
    }
}

static void tell_failed_job(const struct rig *rig, const struct plan *plan, uint64_t seed,
                            uint64_t number)
{
    fprintf(stderr, "FAILED: --seed %llu --job %llu: %d ranks, %s, %d a node, killed:",
            (unsigned long long)seed, (unsigned long long)number, plan->n, plan->transport,
            plan->per_node);
    for (int i = 0; i < plan->victims; i++)
        fprintf(stderr, " %d after %.1f ms", plan->victim[i].rank,
                (double)plan->victim[i].pause_ns / 1e6);
    fprintf(stderr, "; last sums:");
    for (int rank = 0; rank < plan->n; rank++)
        fprintf(stderr, " %#llx", (unsigned long long)rig->shared->place[rank]);
    fputc('\n', stderr);
}

/* Returns whether the job kept every promise. */
static bool run_job(uint64_t seed, uint64_t number, bool private, int *kills)
{
    struct plan plan = draw_plan(seed, number);
    struct rig rig = {.n = plan.n,
                      .transport = plan.transport,
                      .per_node = plan.per_node,
                      .dead_ms = 20000, /* longer than any of these waits: only ends count */
                      .body = survive,
                      .argument = &plan};
    uint64_t all = (UINT64_C(1) << plan.n) - 1, killed = 0;
    memset(recovery, 0, RANKS_MOST * sizeof *recovery);
    rig_start(&rig);
    bool fine = reach_sum(&rig, all, all);
    if (fine)
        killed = kill_victims(&rig, &plan);
    fine = fine && reach_sum(&rig, plan.survivors, plan.survivors);
    rig.shared->flag = 1;
    fine = rig_wait(&rig, fine ? HANG_S : 1, all & ~plan.survivors) == 0 && fine;
    fine = (!private || room_leftovers() == 0) && fine;
    if (fine)
        count_times(&plan, killed);
    else
        tell_failed_job(&rig, &plan, seed, number);
    munmap(rig.shared, sizeof *rig.shared);
    *kills += plan.victims;
    return fine;
}

int main(int argc, char **argv)
{
    uint64_t seed = tally_seed(argc, argv), kills = tally_option(argc, argv, "--kills", 12);
    uint64_t one = tally_option(argc, argv, "--job", UINT64_MAX);
    int killed = 0, jobs = 0, bad = 0;
    bool private = room_enter();
    recovery = mmap(NULL, RANKS_MOST * sizeof *recovery, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (one != UINT64_MAX)
        bad += !run_job(seed, one, private, &killed);
    for (uint64_t i = 0; one == UINT64_MAX && (uint64_t)killed < kills; i++, jobs++)
        bad += !run_job(seed, i, private, &killed);
    printf("%d kills in %d jobs that go on: %d broke a promise\n", killed, jobs, bad);
    tally_print(&total);
    tally_print(&seen);
    tally_print(&shrunk);
    tally_print(&summed);
    return bad != 0;
}
