/* A nemesis of strangers: without the key they connect to every port on which a job listens, and
 * send nothing, rubbish, pieces of a handshake under another key, or a byte now and then.
 *
 *     strangers [--connections N] [--seed S]
 *
 *     ranks 0 and 1 wait for rank 2       half of the connections
 *     rank 2 comes, and all ranks join    connections until they have
 *     all ranks reduce, in steps          the rest, between steps without strangers
 *
 * N is 3,000 unless told otherwise. No stranger is answered a byte, the job joins, each sum has its
 * right bits, and no rank keeps a descriptor or more than 1 MiB. The time of a step beside the
 * strangers is printed; they run at the lowest priority, as if on a machine of their own. Skipped
 * where no network of its own can be made, in which all that listens is the job's. */
#include "nemesis/room.h"
#include "nemesis/tally.h"
#include "rig/comm_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 4096, PORTS = 16, HELD = 64, HELLO = 128, QUIET_STEPS = 200 };

#define GROWTH_KB 1024
#define LIMIT_S   120

/* What the ranks and the strangers see of each other. */
struct life {
    _Atomic int attacked, stop;
    /* Of rank 0: without strangers, and beside them; on the clock, and of the processor. */
    _Atomic uint64_t steps[2], ns[2], work_ns[2];
};

/* -- the job ----------------------------------------------------------------------------------- */

static void wait_to_join(const struct rig *rig, int rank)
{
    setenv("GYRE_JOIN_TIMEOUT", "1h", 1);
    setenv("GYRE_LOG", "error", 1); /* rank 0 would name the first strangers, and what it lacks */
    while (rank == RANKS - 1 && !rig->shared->flag)
        tally_pause(1000000);
}

/* Whole and small, so that the sum has the same bits in any order. */
static float given(uint64_t step, int rank, int i)
{
    return (float)((step * 13 + (uint64_t)i * 7 + (uint64_t)rank * 31) % 1000);
}

static bool is_sum(const float *data, uint64_t step)
{
    for (int i = 1; i < COUNT; i++) {
        float sum = 0;
        for (int rank = 0; rank < RANKS; rank++)
            sum += given(step, rank, i);
        if (memcmp(&data[i], &sum, sizeof sum) != 0)
            return false;
    }
    return true;
}

static uint64_t work_so_far(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Steps until rank 0 is told to stop, which it says in the first element. */
static int reduce(struct gyre_comm *comm, struct rig *rig)
{
    static float data[COUNT];
    struct life *life = rig->argument;
    int rank = gyre_rank(comm), bad = 0;
    rig->shared->ready++;
    for (uint64_t step = 0; !bad; step++) {
        int attacked = life->attacked;
        for (int i = 1; i < COUNT; i++)
            data[i] = given(step, rank, i);
        data[0] = rank == 0 && life->stop;
        uint64_t begun = rig_now(), work = work_so_far();
        int status = gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
        if (rank == 0) {
            life->ns[attacked] += rig_now() - begun;
            life->work_ns[attacked] += work_so_far() - work;
            life->steps[attacked]++;
        }
        bad = rig_check(!status && is_sum(data, step), comm, "a step beside strangers");
        if (data[0] != 0)
            break;
    }
    return gyre_finalize(comm) || bad;
}

/* -- how large a rank is ----------------------------------------------------------------------- */

struct size {
    long resident_kb, descriptors;
};

static struct size size_of(pid_t pid)
{
    struct size size = {0};
    char path[64];
    long total = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ld %ld", &total, &size.resident_kb) == 2)
        size.resident_kb *= sysconf(_SC_PAGESIZE) / 1024;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *open = opendir(path);
    while (open && readdir(open))
        size.descriptors++;
    if (open)
        closedir(open);
    return size;
}

static void measure(const struct rig *rig, int ranks, struct size *size)
{
    for (int rank = 0; rank < ranks; rank++)
        size[rank] = size_of(rig->pid[rank]);
}

/* A rank notices within 5 s that a stranger has gone. A few descriptors more are the ranks' own,
 * which may still be about to meet. */
static bool has_shrunk(const struct rig *rig, int ranks, const struct size *before)
{
    uint64_t limit = rig_now() + LIMIT_S * UINT64_C(1000000000);
    for (int rank = 0; rank < ranks; rank++)
        while (size_of(rig->pid[rank]).descriptors > before[rank].descriptors + RANKS) {
            if (rig_now() > limit)
                return false;
            tally_pause(1000000);
        }
    return true;
}

static bool is_flat(const struct rig *rig, int ranks, const struct size *before, const char *when)
{
    struct size after[RANKS];
    bool flat = has_shrunk(rig, ranks, before);
    measure(rig, ranks, after);
    printf("%s:", when);
    for (int rank = 0; rank < ranks; rank++) {
        const struct size *a = &before[rank], *b = &after[rank];
        printf(" rank %d: %+ld KiB, %+ld descriptors;", rank, b->resident_kb - a->resident_kb,
               b->descriptors - a->descriptors);
        flat = flat && b->resident_kb <= a->resident_kb + GROWTH_KB;
    }
    printf(" %s\n", flat ? "flat" : "NOT FLAT");
    return flat;
}

/* -- the strangers ----------------------------------------------------------------------------- */

struct strangers {
    struct gyre_rng rng;
    uint16_t port[PORTS]; /* on which the job has listened */
    int ports;
    int fd[HELD]; /* the connections that are open, -1: none */
    bool slow[HELD];
    uint64_t made, refused, answered; /* bytes */
};

static void add_port(struct strangers *all, unsigned port)
{
    for (int i = 0; i < all->ports; i++)
        if (all->port[i] == port)
            return;
    if (all->ports < PORTS)
        all->port[all->ports++] = (uint16_t)port;
}

/* Finds the ports that listen, and those of the data connections: nothing else is in the room. */
static void find_ports(struct strangers *all, bool connected)
{
    static const char *const path[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[512];
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path[i], "r");
        unsigned port, state;
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &port, &state) == 2 &&
                (state == 0x0a || (connected && state == 0x01)))
                add_port(all, port);
        if (file)
            fclose(file);
    }
}

static void hang_up(struct strangers *all, int slot, bool reset)
{
    struct linger at_once = {1, 0};
    char bytes[256];
    ssize_t got;
    if (all->fd[slot] < 0)
        return;
    while ((got = recv(all->fd[slot], bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        all->answered += (uint64_t)got;
    if (reset)
        setsockopt(all->fd[slot], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(all->fd[slot]);
    all->fd[slot] = -1;
}

/* Where nothing listens at a port, a socket that was given this port for its own end connects to
 * itself. */
static bool met_itself(int fd, const struct sockaddr_in *to)
{
    struct sockaddr_in own = {0};
    socklen_t length = sizeof own;
    return !getsockname(fd, (struct sockaddr *)&own, &length) && own.sin_port == to->sin_port &&
           own.sin_addr.s_addr == to->sin_addr.s_addr;
}

/* From one of 1,000 addresses, or from the address of the ranks. -1: refused, or not accepted in
 * a second. */
static int connect_from_somewhere(struct strangers *all)
{
    uint32_t drawn = (uint32_t)gyre_rng_below(&all->rng, 4000);
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + drawn % 1000 * 3)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval second = {1, 0};
    to.sin_port = htons(all->port[gyre_rng_below(&all->rng, (uint64_t)all->ports)]);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    if (drawn >= 1000)
        (void)bind(fd, (struct sockaddr *)&from, sizeof from);
    if (fd < 0 || (!connect(fd, (struct sockaddr *)&to, sizeof to) && !met_itself(fd, &to)))
        return fd;
    close(fd);
    return -1;
}

/* What a stranger says at once: nothing, rubbish, rubbish that begins well, a hello under a key of
 * its own, whole or in part, or its first byte. */
static size_t draw_words(struct strangers *all, uint64_t kind, uint8_t bytes[2 * HELLO])
{
    static const uint8_t magic[] = {'G', 'Y', 'R', 'E', 13, 10, 26, 1, 1, 0, 1, 0};
    for (int i = 0; i < 2 * HELLO; i++)
        bytes[i] = (uint8_t)gyre_rng_next(&all->rng);
    if (kind > 1)
        memcpy(bytes, magic, sizeof magic);
    switch (kind) {
    case 0:
        return 0;
    case 3:
        return HELLO;
    case 4:
        return gyre_rng_below(&all->rng, HELLO);
    case 5:
        return 1;
    default:
        return 1 + gyre_rng_below(&all->rng, 2 * HELLO);
    }
}

/* One more byte of one that is slow. */
static void nudge(struct strangers *all)
{
    uint64_t slot = gyre_rng_below(&all->rng, HELD);
    if (all->fd[slot] >= 0 && all->slow[slot])
        (void)send(all->fd[slot], "Y", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void come(struct strangers *all)
{
    uint8_t bytes[2 * HELLO];
    int slot = (int)((all->made + all->refused) % HELD);
    uint64_t kind = gyre_rng_below(&all->rng, 6);
    hang_up(all, slot, gyre_rng_below(&all->rng, 8) > 0);
    all->fd[slot] = connect_from_somewhere(all);
    if (all->fd[slot] < 0) {
        all->refused++;
        return;
    }
    all->made++;
    all->slow[slot] = kind == 5;
    size_t length = draw_words(all, kind, bytes);
    if (length > 0)
        (void)send(all->fd[slot], bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    nudge(all);
}

static void come_often(struct strangers *all, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        come(all);
}

static void go_away(struct strangers *all)
{
    for (int slot = 0; slot < HELD; slot++)
        hang_up(all, slot, true);
}

/* -- the three times --------------------------------------------------------------------------- */

static bool wait_for_listener(struct strangers *all)
{
    for (uint64_t limit = rig_now() + LIMIT_S * UINT64_C(1000000000); rig_now() < limit;) {
        find_ports(all, false);
        if (all->ports > 0)
            return true;
        tally_pause(1000000);
    }
    return false;
}

static bool attack_the_waiting(struct strangers *all, const struct rig *rig, uint64_t times)
{
    struct size before[RANKS];
    if (!wait_for_listener(all))
        return false;
    measure(rig, RANKS - 1, before);
    come_often(all, times);
    go_away(all);
    return is_flat(rig, RANKS - 1, before, "while rank 2 was waited for");
}

/* False: they have not joined in time. */
static bool attack_the_joining(struct strangers *all, struct rig *rig)
{
    uint64_t limit = rig_now() + LIMIT_S * UINT64_C(1000000000) * (uint64_t)rig_slow();
    rig->shared->flag = 1;
    while (rig->shared->ready < RANKS) {
        find_ports(all, false);
        come_often(all, 20);
        if (rig_now() > limit)
            return false;
    }
    go_away(all);
    return true;
}

static bool wait_for_steps(struct life *life, uint64_t steps)
{
    uint64_t limit = rig_now() + LIMIT_S * UINT64_C(1000000000) * (uint64_t)rig_slow();
    for (uint64_t until = life->steps[0] + steps; life->steps[0] < until;) {
        if (rig_now() > limit)
            return false;
        tally_pause(1000000);
    }
    return true;
}

static bool attack_the_running(struct strangers *all, const struct rig *rig, uint64_t times)
{
    struct life *life = rig->argument;
    struct size before[RANKS];
    if (!wait_for_steps(life, QUIET_STEPS))
        return false;
    uint64_t made = all->made;
    find_ports(all, true);
    measure(rig, RANKS, before);
    life->attacked = 1;
    come_often(all, times);
    go_away(all);
    life->attacked = 0;
    bool fine = is_flat(rig, RANKS, before, "while the job ran") && wait_for_steps(life, 2);
    printf("while the job ran: %llu of %llu connections were accepted\n",
           (unsigned long long)(all->made - made), (unsigned long long)times);
    return fine && wait_for_steps(life, QUIET_STEPS);
}

static void print_ratio(const char *what, const struct life *life, const _Atomic uint64_t ns[2])
{
    double quiet = (double)ns[0] / 1e3 / (double)(life->steps[0] + !life->steps[0]);
    double beside = (double)ns[1] / 1e3 / (double)(life->steps[1] + !life->steps[1]);
    printf("%s: %.0f us without strangers, %.0f us beside them, ratio %.3f\n", what, quiet, beside,
           beside / quiet);
}

static void print_all(const struct strangers *all, const struct life *life)
{
    printf("%llu connections accepted, %llu refused: %llu bytes answered\n",
           (unsigned long long)all->made, (unsigned long long)all->refused,
           (unsigned long long)all->answered);
    printf("%llu steps without strangers, %llu beside them\n", (unsigned long long)life->steps[0],
           (unsigned long long)life->steps[1]);
    print_ratio("a step", life, life->ns);
    print_ratio("its work, rank 0", life, life->work_ns);
}

static int run(uint64_t seed, uint64_t connections)
{
    static struct strangers all;
    struct life *life =
        mmap(NULL, sizeof *life, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rig rig = {.n = RANKS,
                      .transport = "tcp",
                      .per_node = 1,
                      .before = wait_to_join,
                      .body = reduce,
                      .argument = life};
    gyre_rng_seed(&all.rng, seed);
    memset(all.fd, -1, sizeof all.fd);
    rig_start(&rig);
    if (nice(19) < 0)
        fprintf(stderr, "the strangers run at the priority of the ranks\n");
    bool fine = attack_the_waiting(&all, &rig, connections / 2) && attack_the_joining(&all, &rig) &&
                attack_the_running(&all, &rig, connections - connections / 2);
    life->stop = 1;
    rig.shared->flag = 1;
    int bad = rig_wait(&rig, LIMIT_S, 0);
    print_all(&all, life);
    if (!fine || bad || all.answered)
        printf("FAILED: %d ranks did not end well\n", bad);
    return !fine || bad || all.answered;
}

int main(int argc, char **argv)
{
    uint64_t seed = tally_seed(argc, argv);
    uint64_t connections = tally_option(argc, argv, "--connections", 3000);
    if (!room_enter()) {
        printf("skipped: no network of its own can be made here\n");
        return 77;
    }
    return run(seed, connections);
}
