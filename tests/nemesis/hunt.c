/* A job of two to four ranks reduces messages of drawn sizes, every element checked, until some of
 * its ranks are killed or stopped at a drawn moment.
 *
 *     rank 0 ──all_reduce─all_reduce─all_re✂ GYRE_PEER_LOST, "rank 2 …"   within the limit
 *     rank 1 ──all_reduce─all_reduce─all_re✂ GYRE_PEER_LOST, "rank 2 …"
 *     rank 2 ──all_reduce─all_reduce─al☠
 *
 * Each survivor must end with GYRE_PEER_LOST, name a rank that was hurt first of all ranks in its
 * story, and have had no wrong sum. A stop shorter than the dead time must not be noticed. */
#include "nemesis/hunt.h"

#include "nemesis/room.h"
#include "rig/comm_rig.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define COUNT_MOST 300000
#define DEAD_MS    1500 /* of jobs whose rank is stopped; more than a busy machine keeps from it */
#define HANG_S     30

enum harm { KILL_ONE, KILL_SEVERAL, KILL_ROOT, STOP_LONG, STOP_SHORT, HARMS };

struct plan {
    uint64_t seed;
    enum harm harm;
    uint64_t victims; /* bits */
    int turns;        /* that every rank has begun before the harm */
    uint64_t pause_ns;
};

static const struct way {
    const char *name, *transport;
    int n, per_node;
} way_of[] = {{"2 over shm", "shm", 2, 0}, {"4 over shm", "shm", 4, 0}, {"3 over tcp", "tcp", 3, 0},
              {"4 over tcp", "tcp", 4, 0}, {"2+2", "auto", 4, 2},       {"3+1", "auto", 4, 3}};

/* -- the job ----------------------------------------------------------------------------------- */

/* At most 2²⁰, so that no sum overflows. */
static int32_t given(uint64_t turn, int rank, uint64_t i)
{
    return (int32_t)((uint32_t)(i + turn * 77 + 1) * 2654435761u >> 12) / (rank + 1);
}

static uint64_t count_of(uint64_t seed, uint64_t turn)
{
    uint64_t drawn = gyre_mix64(seed ^ turn << 20), most = 1;
    for (uint64_t kind = drawn % 6; kind > 0; kind--)
        most *= 12;
    return 1 + (drawn >> 8) % (most < COUNT_MOST ? most : COUNT_MOST);
}

static bool is_sum(const int32_t *data, uint64_t turn, uint64_t count, int n)
{
    for (uint64_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (int rank = 0; rank < n; rank++)
            sum += given(turn, rank, i);
        if (data[i] != sum)
            return false;
    }
    return true;
}

static int reduce_on(struct gyre_comm *comm, struct rig *rig)
{
    const struct plan *plan = rig->argument;
    int rank = gyre_rank(comm), n = gyre_size(comm), status;
    int32_t *data;
    if (gyre_alloc(comm, COUNT_MOST * sizeof *data, (void **)&data))
        return 2;
    for (uint64_t turn = 0;; turn++) {
        uint64_t count = count_of(plan->seed, turn);
        for (uint64_t i = 0; i < count; i++)
            data[i] = given(turn, rank, i);
        rig->shared->place[rank] = turn;
        status = gyre_all_reduce(comm, data, data, count, GYRE_I32, GYRE_SUM);
        if (status)
            break;
        if (rig_check(is_sum(data, turn, count, n), comm, "a wrong sum"))
            return 3;
    }
    rig_note(rig, comm, status, 0); /* when it was told, not how long the call took */
    gyre_finalize(comm);
    return 0;
}

/* -- the harm ---------------------------------------------------------------------------------- */

static struct plan draw_plan(const struct hunt *hunt, uint64_t number, const struct way **way)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, gyre_mix64(hunt->seed) + number);
    *way = &way_of[gyre_rng_below(&rng, sizeof way_of / sizeof *way_of)];
    uint64_t n = (uint64_t)(*way)->n, kind = gyre_rng_below(&rng, 32);
    struct plan plan = {.seed = gyre_rng_next(&rng),
                        .harm = kind < 16   ? KILL_ONE
                                : kind < 24 ? KILL_SEVERAL
                                : kind < 29 ? KILL_ROOT
                                : kind < 30 ? STOP_LONG
                                            : STOP_SHORT,
                        .turns = (int)gyre_rng_below(&rng, 30),
                        .pause_ns = gyre_rng_below(&rng, 5000000)};
    plan.victims = UINT64_C(1) << (plan.harm == KILL_ROOT ? 0 : gyre_rng_below(&rng, n));
    for (uint64_t i = 0; plan.harm == KILL_SEVERAL && i + 2 < n; i++)
        plan.victims |= UINT64_C(1) << gyre_rng_below(&rng, n);
    return plan;
}

static int send_all(const struct rig *rig, uint64_t victims, int number)
{
    int sent = 0;
    for (int rank = 0; rank < rig->n; rank++)
        if (victims >> rank & 1) {
            kill(rig->pid[rank], number);
            sent++;
        }
    return sent;
}

/* Stops a rank for a moment, after which the job must go on. */
static bool stop_shortly(struct hunt *hunt, struct rig *rig, const struct plan *plan)
{
    hunt->stops += send_all(rig, plan->victims, SIGSTOP);
    tally_pause(DEAD_MS * UINT64_C(1000000) / 8);
    send_all(rig, plan->victims, SIGCONT);
    uint64_t most = 0;
    for (int rank = 0; rank < rig->n; rank++)
        if (rig->shared->place[rank] > most)
            most = rig->shared->place[rank];
    return rig_reach(rig, most + 5, HANG_S);
}

/* Returns when the job was hurt for good; 0: it had ended before. */
static uint64_t hurt(struct hunt *hunt, struct rig *rig, const struct plan *plan)
{
    if (!rig_reach(rig, (uint64_t)plan->turns + 1, HANG_S))
        return 0;
    tally_pause(plan->pause_ns);
    if (plan->harm == STOP_SHORT && !stop_shortly(hunt, rig, plan))
        return 0;
    uint64_t when = rig_now();
    if (plan->harm == STOP_LONG)
        hunt->stops += send_all(rig, plan->victims, SIGSTOP);
    else
        hunt->kills += send_all(rig, plan->victims, SIGKILL);
    return when;
}

/* -- what the survivors say -------------------------------------------------------------------- */

/* Whether the first rank that the story names was hurt. */
static bool names_a_victim(const char *story, uint64_t victims)
{
    unsigned rank = 64;
    const char *first = strstr(story, "rank ");
    return first && sscanf(first, "rank %u", &rank) == 1 && rank < 64 && victims >> rank & 1;
}

static bool judge(struct hunt *hunt, const struct rig *rig, const struct plan *plan, uint64_t when)
{
    const char *story = NULL;
    bool fine = true, same = true;
    for (int rank = 0; rank < rig->n; rank++) {
        const char *told = rig->shared->error[rank];
        if (plan->victims >> rank & 1)
            continue;
        if (rig->shared->status[rank] != GYRE_PEER_LOST || !names_a_victim(told, plan->victims)) {
            fprintf(stderr, "rank %d: status %d: %s\n", rank, rig->shared->status[rank], told);
            fine = false;
        }
        same = same && (!story || strcmp(story, told) == 0);
        story = told;
        tally_add(plan->harm == STOP_LONG ? hunt->silent : hunt->killed,
                  ((double)rig->shared->took_ns[rank] - (double)when) / 1e6);
        hunt->errors++;
    }
    hunt->stories += !same;
    return fine;
}

void hunt_job(struct hunt *hunt, uint64_t number)
{
    static const char *const harm[] = {"one killed", "several killed", "rank 0 killed",
                                       "one stopped for long", "one stopped shortly, then killed"};
    const struct way *way;
    struct plan plan = draw_plan(hunt, number, &way);
    bool stops = plan.harm == STOP_LONG || plan.harm == STOP_SHORT;
    struct rig rig = {.n = way->n,
                      .transport = way->transport,
                      .per_node = way->per_node,
                      .dead_ms = stops ? DEAD_MS : 0,
                      .body = reduce_on,
                      .argument = &plan};
    rig_start(&rig);
    uint64_t when = hurt(hunt, &rig, &plan);
    bool fine = rig_wait(&rig, HANG_S, plan.victims) == 0;
    fine = fine && when && judge(hunt, &rig, &plan, when);
    fine = (!hunt->private || room_leftovers() == 0) && fine;
    munmap(rig.shared, sizeof *rig.shared);
    hunt->jobs++;
    hunt->bad += !fine;
    if (!fine)
        fprintf(stderr, "FAILED: --seed %llu --job %llu: %s, %s (ranks %#llx) after %d turns%s\n",
                (unsigned long long)hunt->seed, (unsigned long long)number, way->name,
                harm[plan.harm], (unsigned long long)plan.victims, plan.turns,
                when ? "" : "; the job ended or hung before");
}

void hunt_print(const struct hunt *hunt)
{
    printf("%d jobs, %d kills, %d stops: %d broke a promise; %d errors, several stories in %d "
           "jobs\n",
           hunt->jobs, hunt->kills, hunt->stops, hunt->bad, hunt->errors, hunt->stories);
    tally_print(hunt->killed);
    tally_print(hunt->silent);
    if (!hunt->private)
        printf("not looked for: what jobs leave behind, because no namespaces can be made here\n");
    fflush(stdout);
}
