/* Everything at once, for as long as wanted: three jobs that live throughout (shared memory, TCP,
 * simulated nodes) call every collective, started, in groups and on parts, and send messages, each
 * byte looked at; beside them jobs are killed and started again.
 *
 *     soak [--seconds N] [--dead-ms N] [--seed S]
 *
 * It lasts for 4 seconds unless it is told otherwise, in haste for 2.
 * --dead-ms gives the long-lived jobs another dead time than the default. Skips nothing. Resident
 * memory and descriptors of the long-lived ranks, taken after a third of the time and at the end,
 * must be the same but for a slack: no descriptor, and 2 MiB of pages that are touched late. A run
 * of less than a minute touches pages of the stages late, 16 MiB, and takes lanes, each with a
 * descriptor, that its first third did not need. */
#include "collectives/engine/flight.h"
#include "nemesis/hunt.h"
#include "nemesis/room.h"
#include "nemesis/turns.h"
#include "rig/haste.h"
#include "rig/sanitized.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* -- a long life ------------------------------------------------------------------------------- */

/* Rank 0's clock decides for all, every 50 turns: 0 go on, 1 warm, 2 the end. A season lasts for 50
 * turns at least: the first of them make what a rank keeps, however late they come. */
static int season(struct gyre_comm *comm, const struct life *life, uint64_t turn, int before)
{
    int32_t now = before;
    if (gyre_rank(comm) == 0 && turn > 0)
        now += rig_now() >= (before == 0 ? life->warm_at : life->until);
    return gyre_broadcast(comm, &now, &now, 1, GYRE_I32, 0) ? -1 : now;
}

static int live(struct gyre_comm *comm, struct rig *rig)
{
    struct life *life = rig->argument;
    struct stage stage = {0};
    struct gyre_rng rng;
    int rank = gyre_rank(comm), bad = 0, now = 0;
    gyre_rng_seed(&rng, life->seed);
    bad = turns_stage(comm, &stage);
    for (uint64_t turn = 0; !bad && now >= 0; turn++) {
        if (turn % 50 == 0) {
            int next = season(comm, life, turn, now);
            if (next > 0 && now == 0)
                life->warm[rank] = own_size();
            now = next;
            if (now == 2)
                break;
        }
        bad = turns_take(comm, &stage, &rng);
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

static bool is_flat(const struct rig *rig, const char *name, uint64_t seconds)
{
    const long more_kb = slack_kb(seconds), more_descriptors = seconds < 60 ? GYRE_LANE_POOL : 0;
    const struct life *life = rig->argument;
    bool flat = true;
    printf("%s: %llu calls;", name, (unsigned long long)life->calls);
    for (int rank = 0; rank < rig->n; rank++) {
        const struct size *a = &life->warm[rank], *b = &life->end[rank];
        printf(" rank %d: %ld to %ld KiB, %ld to %ld descriptors;", rank, a->resident_kb,
               b->resident_kb, a->descriptors, b->descriptors);
        flat = flat && b->resident_kb <= a->resident_kb + more_kb &&
               b->descriptors <= a->descriptors + more_descriptors;
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
    uint64_t seconds = tally_option(argc, argv, "--seconds", in_haste() ? 2 : 4);
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
        bad += !is_flat(&rig[i], name[i], seconds);
    return bad || status;
}
