/* Everything at once, for as long as wanted: three jobs that live throughout (shared memory, TCP,
 * simulated nodes) call every collective, started, in groups and on parts, and send messages, each
 * byte looked at; beside them jobs are killed and started again.
 *
 *     soak [--seconds N] [--dead-ms N] [--seed S]
 *
 * --dead-ms gives the long-lived jobs another dead time than the default. Skips nothing. Resident
 * memory and descriptors of the long-lived ranks, taken after a third of the time and at the end, must be the same but for a slack: no descriptor, and 2 MiB of pages that
 * are touched late. In less than a minute not all of the stages is touched: 16 MiB. */
#include "nemesis/hunt.h"
#include "nemesis/room.h"
#include "rig/collectives_rig.h"
#include "rig/sanitized.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (1u << 20)

struct size {
    long resident_kb, descriptors;
};

struct life {
    uint64_t seed, warm_at, until;
    _Atomic uint64_t calls; /* of rank 0 */
    struct size warm[RIG_RANKS_MAX], end[RIG_RANKS_MAX];
};

static struct size own_size(void)
{
    struct size size = {0};
    long total = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &size.resident_kb) != 2)
        abort();
    fclose(file);
    size.resident_kb *= sysconf(_SC_PAGESIZE) / 1024;
    DIR *open = opendir("/proc/self/fd");
    while (open && readdir(open))
        size.descriptors++;
    if (open)
        closedir(open);
    return size;
}

/* -- one turn of each kind --------------------------------------------------------------------- */

static struct question draw_question(struct gyre_rng *rng, int n, uint64_t most)
{
    enum verb verb = (enum verb)gyre_rng_below(rng, VERBS);
    int turn = (int)gyre_rng_below(rng, 1000);
    uint64_t scale = UINT64_C(1) << gyre_rng_below(rng, 17), count = gyre_rng_below(rng, scale + 1);
    return (struct question){.verb = verb,
                             .type = type_of(verb, turn),
                             .op = op_of(verb, turn),
                             .root = (int)gyre_rng_below(rng, (uint64_t)n),
                             .count = count < most ? count : most,
                             .in_place = gyre_rng_below(rng, 2),
                             .started = gyre_rng_below(rng, 2),
                             .input = 2 * (int)gyre_rng_below(rng, 2),
                             .output = 1 + 2 * (int)gyre_rng_below(rng, 2)};
}

static int ask_one(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    int n = gyre_size(comm);
    struct question ask = draw_question(rng, n, ROOM / 10 / (uint64_t)n);
    return ask_and_check(comm, stage, &ask);
}

static int ask_group(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    struct question ask[4];
    int n = gyre_size(comm);
    for (int i = 0; i < 4; i++)
        ask[i] = draw_question(rng, n, ROOM / 64 / (uint64_t)n);
    return ask_in_group(comm, stage, ask, 4, ROOM / 4);
}

/* A part of the odd and one of the even ranks, each asked once, and gone. */
static int ask_part(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    struct gyre_comm *part;
    struct gyre_rng own = *rng;
    gyre_rng_next(rng); /* parts of unequal size draw differently */
    if (gyre_split(comm, gyre_rank(comm) % 2, 0, &part))
        return rig_check(false, comm, "split");
    int bad = ask_one(part, stage, &own);
    return gyre_finalize(part) || bad;
}

static uint32_t said(int from, uint64_t turn, uint64_t i)
{
    return (uint32_t)(gyre_mix64(turn) + (uint64_t)from * 77 + i * 3);
}

/* Around the ring, received before it is sent. */
static int send_around(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    uint64_t turn = gyre_rng_next(rng), count = 1 + turn % (ROOM / 8);
    int rank = gyre_rank(comm), n = gyre_size(comm), left = (rank + n - 1) % n;
    uint32_t *in = (uint32_t *)(void *)stage->memory[0];
    uint32_t *out = (uint32_t *)(void *)stage->memory[2];
    struct gyre_work *work[2] = {0};
    for (uint64_t i = 0; i < count; i++)
        out[i] = said(rank, turn, i);
    if (gyre_recv_start(comm, in, count, GYRE_I32, left, &work[0]) ||
        gyre_send_start(comm, out, count, GYRE_I32, (rank + 1) % n, &work[1]) ||
        gyre_work_wait(work[0], -1) || gyre_work_wait(work[1], -1))
        return rig_check(false, comm, "a message");
    for (uint64_t i = 0; i < count; i++)
        if (in[i] != said(left, turn, i))
            return rig_check(false, comm, "a message's bytes");
    return 0;
}

static int turn_of(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng)
{
    switch (gyre_rng_below(rng, 10)) {
    case 0:
        return ask_group(comm, stage, rng);
    case 1:
        return ask_part(comm, stage, rng);
    case 2:
    case 3:
        return send_around(comm, stage, rng);
    case 4:
        return rig_check(!gyre_barrier(comm), comm, "barrier");
    default:
        return ask_one(comm, stage, rng);
    }
}

/* -- a long life ------------------------------------------------------------------------------- */

/* Rank 0's clock decides for all, every 50 turns: 0 go on, 1 warm, 2 the end. */
static int season(struct gyre_comm *comm, const struct life *life, int before)
{
    int32_t now = before;
    if (gyre_rank(comm) == 0)
        now = rig_now() >= life->until ? 2 : rig_now() >= life->warm_at ? 1 : 0;
    return gyre_broadcast(comm, &now, &now, 1, GYRE_I32, 0) ? -1 : now;
}

static int live(struct gyre_comm *comm, struct rig *rig)
{
    struct life *life = rig->argument;
    struct stage stage = {0};
    struct gyre_rng rng;
    int rank = gyre_rank(comm), bad = 0, now = 0;
    gyre_rng_seed(&rng, life->seed);
    for (int i = 0; i < 4 && !bad; i++)
        bad = i < 2 ? gyre_alloc(comm, ROOM, (void **)&stage.memory[i])
                    : !(stage.memory[i] = calloc(1, ROOM));
    for (uint64_t turn = 0; !bad && now >= 0; turn++) {
        if (turn % 50 == 0) {
            int next = season(comm, life, now);
            if (next > 0 && now == 0)
                life->warm[rank] = own_size();
            now = next;
            if (now == 2)
                break;
        }
        bad = turn_of(comm, &stage, &rng);
        life->calls += rank == 0;
    }
    life->end[rank] = own_size();
    free(stage.memory[2]);
    free(stage.memory[3]);
    return gyre_finalize(comm) || bad || now != 2;
}

/* By how many KiB a rank may grow. A sanitizer keeps memory that was freed. */
static long slack_kb(uint64_t seconds)
{
#ifdef SANITIZED
    return 1L << 30;
#endif
    return seconds < 60 ? 16384 : 2048;
}

static bool is_flat(const struct rig *rig, const char *name, long slack_kb)
{
    const struct life *life = rig->argument;
    bool flat = true;
    printf("%s: %llu calls;", name, (unsigned long long)life->calls);
    for (int rank = 0; rank < rig->n; rank++) {
        const struct size *a = &life->warm[rank], *b = &life->end[rank];
        printf(" rank %d: %ld to %ld KiB, %ld to %ld descriptors;", rank, a->resident_kb,
               b->resident_kb, a->descriptors, b->descriptors);
        flat =
            flat && b->resident_kb <= a->resident_kb + slack_kb && b->descriptors == a->descriptors;
    }
    printf(" %s\n", flat ? "flat" : "NOT FLAT");
    return flat;
}

/* -- all of it --------------------------------------------------------------------------------- */

/* In a process, and so a room, of its own. */
static int hunt_until(uint64_t seed, uint64_t until)
{
    static struct tally killed = {.what = "from SIGKILL to a survivor's error"},
                        silent = {.what = "from SIGSTOP to a survivor's error"};
    struct hunt hunt = {.seed = seed, .killed = &killed, .silent = &silent};
    hunt.private = room_enter();
    for (uint64_t i = 0; rig_now() < until; i++)
        hunt_job(&hunt, i);
    hunt_print(&hunt);
    return hunt.bad != 0;
}

int main(int argc, char **argv)
{
    static const char *const name[] = {"3 over shm", "3 over tcp", "2+2"};
    struct rig rig[3] = {
        {.n = 3, .transport = "shm"}, {.n = 3, .transport = "tcp"}, {.n = 4, .per_node = 2}};
    struct life *life =
        mmap(NULL, 3 * sizeof *life, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = tally_seed(argc, argv), second = UINT64_C(1000000000);
    uint64_t seconds = tally_option(argc, argv, "--seconds", 6);
    uint64_t until = rig_now() + seconds * second;
    int dead_ms = (int)tally_option(argc, argv, "--dead-ms", 0);
    int bad = 0, status = 0;
    fflush(NULL);
    pid_t hunter = fork();
    if (hunter == 0)
        exit(hunt_until(seed, until));
    for (int i = 0; i < 3; i++) {
        life[i].seed = gyre_mix64(seed + (uint64_t)i);
        life[i].warm_at = until - seconds * second * 2 / 3;
        life[i].until = until;
        rig[i].body = live;
        rig[i].dead_ms = dead_ms;
        rig[i].argument = &life[i];
        rig_start(&rig[i]);
    }
    for (int i = 0; i < 3; i++)
        bad += rig_wait(&rig[i], (int)seconds + 60, 0);
    waitpid(hunter, &status, 0);
    for (int i = 0; i < 3; i++)
        bad += !is_flat(&rig[i], name[i], slack_kb(seconds));
    return bad || status;
}
