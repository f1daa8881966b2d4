/* CUDA regions between real processes, over the stand-in: shared and seen through each rank's own
 * device, freed while others have them open, refused, and what a killed rank leaves behind. All of
 * it with exportable memory and with share_classic IPC handles. tests/gpu/run has the first group
 * run on real devices, as GYRE_DEVICES lists them, with exportable memory. */
#include "program/cuda/share_rig.h"
#include "rig/test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INSIDE = 1000 };

/* What ranks tell each other beside the communicator. */
struct stage {
    _Atomic uint32_t id[RANKS]; /* of each rank's region */
    _Atomic int closed, freed;  /* share_classic handles, and their memory, by all ranks */
    _Atomic int early;          /* freed while one was open */
};

static struct stage *stage;

/* The stand-in's, on its way through here. */
CUresult __real_cuIpcCloseMemHandle(CUdeviceptr base);
CUresult __wrap_cuIpcCloseMemHandle(CUdeviceptr base);

/* Takes its time, so that who does not wait for it is ahead. */
CUresult __wrap_cuIpcCloseMemHandle(CUdeviceptr base)
{
    usleep(20000);
    CUresult status = __real_cuIpcCloseMemHandle(base);
    stage->closed++;
    return status;
}

/* Where a region is open at all peers, each memory that goes has so many closed before it. */
static void count_free(void)
{
    if (stage->closed < (RANKS - 1) * ++stage->freed)
        stage->early++;
}

#define watch_free(name)                                                                           \
    __attribute__((weak)) CUresult __real_##name(CUdeviceptr base);                                \
    CUresult __wrap_##name(CUdeviceptr base);                                                      \
    CUresult __wrap_##name(CUdeviceptr base)                                                       \
    {                                                                                              \
        count_free();                                                                              \
        return __real_##name(base);                                                                \
    }
watch_free(cuMemFree_v2)  /* its name, by the toolkit's headers, */
    watch_free(cuMemFree) /* and by the stand-in's */

    /* -- ranks
     * ------------------------------------------------------------------------------------- */

    static void run(share_readying before, share_playing body)
{
    struct rig rig = {.n = RANKS, .transport = "shm", .before = before, .body = body};
    memset(stage, 0, sizeof(*stage));
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

static void run_both(share_playing body)
{
    run(share_two_devices, body);
    if (fakecuda_stands_in())
        run(share_classic, body);
}

static void *view_of(struct gyre_comm *comm, int rank, enum gyre_memory_kind kind)
{
    return gyre_domain_view(comm->domain, (uint32_t)rank, stage->id[rank], kind, 0, LENGTH);
}

/* Memory with the rank's number in front, whose id all ranks know when this returns. */
static int show_memory(struct gyre_comm *comm, void **memory)
{
    int rank = gyre_rank(comm), bad = 0;
    bad += rig_check(gyre_alloc_device(comm, LENGTH, memory) == 0, comm, "gyre_alloc_device");
    if (bad)
        return bad;
    bad += rig_check(share_read(comm, *memory, LENGTH - 4) == 0, comm, "fresh memory is zeroed");
    bad += rig_check(share_write(comm, *memory, 0, 100 + rank) == 0, comm, "writing own memory");
    stage->id[rank] = share_id(comm, GYRE_MEMORY_CUDA, *memory);
    bad += rig_check(stage->id[rank] != 0, comm, "the region is shared");
    return bad + rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
}

/* -- shared and seen --------------------------------------------------------------------------- */

static int look_at_peers(struct gyre_comm *comm)
{
    int rank = gyre_rank(comm), bad = 0;
    for (int peer = 0; peer < RANKS; peer++) {
        if (peer == rank)
            continue;
        char *view = view_of(comm, peer, GYRE_MEMORY_CUDA);
        if (rig_check(view != NULL, comm, "a view of the peer's region"))
            return bad + 1;
        bad += rig_check(share_read(comm, view, 0) == 100 + peer, comm, "the peer's bytes");
        bad += rig_check(share_write(comm, view, PART * (uint64_t)(rank + 1), 7 + rank) == 0, comm,
                         "writing the peer's memory");
        bad += rig_check(!view_of(comm, peer, GYRE_MEMORY_HOST), comm, "no view of host memory");
        bad += rig_check(!gyre_domain_view(comm->domain, (uint32_t)peer, stage->id[peer],
                                           GYRE_MEMORY_CUDA, 1, LENGTH),
                         comm, "no view beyond the end");
    }
    return bad;
}

static int find_what_peers_wrote(struct gyre_comm *comm, const void *memory)
{
    int bad = 0;
    for (int peer = 0; peer < RANKS; peer++)
        if (peer != gyre_rank(comm))
            bad += rig_check(share_read(comm, memory, PART * (uint64_t)(peer + 1)) == 7 + peer,
                             comm, "what the peer wrote");
    return bad;
}

static int share_and_look(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    (void)rig;
    int bad = show_memory(comm, &memory);
    if (bad)
        return bad;
    bad += look_at_peers(comm);
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    bad += find_what_peers_wrote(comm, memory);
    bad += rig_check(fakecuda_alive().contexts == 1, comm, "one context, on the own device");
    bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    for (int peer = 0; peer < RANKS; peer++)
        bad += rig_check(!view_of(comm, peer, GYRE_MEMORY_CUDA), comm, "views go with the region");
    return share_end(comm, bad);
}

static void regions_are_seen_by_peers(void **state)
{
    (void)state;
    run_both(share_and_look);
}

/* -- two kinds in one table -------------------------------------------------------------------- */

static int mix_kinds(struct gyre_comm *comm, struct rig *rig)
{
    void *host, *device;
    uint64_t offset = 0;
    struct gyre_memory_lookup *lookup = &comm->domain->lookup;
    (void)rig;
    int bad = show_memory(comm, &device);
    bad += rig_check(gyre_alloc(comm, LENGTH, &host) == 0, comm, "gyre_alloc");
    if (bad)
        return bad;
    uint32_t of_host = share_id(comm, GYRE_MEMORY_HOST, host);
    bad += rig_check(of_host && of_host != stage->id[gyre_rank(comm)], comm, "ids differ");
    bad += rig_check(!share_id(comm, GYRE_MEMORY_CUDA, host), comm, "host memory is not CUDA's");
    bad +=
        rig_check(!share_id(comm, GYRE_MEMORY_HOST, device), comm, "CUDA memory is not the host's");
    bad += rig_check(gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, (char *)device + INSIDE,
                                        LENGTH - INSIDE, &offset) == stage->id[gyre_rank(comm)] &&
                         offset == INSIDE,
                     comm, "a span inside");
    bad += rig_check(!gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, (char *)device + INSIDE,
                                         LENGTH, &offset),
                     comm, "no span beyond the end");
    bad += rig_check(gyre_lookup_locate(lookup, GYRE_MEMORY_HOST, host, PART, true, &offset) ==
                             of_host &&
                         !gyre_lookup_locate(lookup, GYRE_MEMORY_HOST, device, PART, true, &offset),
                     comm, "links see host memory only");
    uint32_t peer = (uint32_t)(gyre_rank(comm) + 1) % RANKS;
    bad += rig_check(!gyre_lookup_view(lookup, peer, stage->id[peer], GYRE_MEMORY_HOST, 0, PART),
                     comm, "links see no CUDA view");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    return share_end(comm, bad);
}

static void kinds_are_kept_apart(void **state)
{
    (void)state;
    run_both(mix_kinds);
}

/* -- the end of a region ----------------------------------------------------------------------- */

/* Rank 0 frees memory that everybody has open; the others leave theirs to the end. */
static int free_under_peers(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    (void)rig;
    int bad = show_memory(comm, &memory);
    if (gyre_rank(comm) == 0) {
        bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
        bad += rig_check(gyre_free(comm, memory) == GYRE_INVALID, comm, "once only");
    }
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    return share_end(comm, bad);
}

static void memory_is_freed_under_peers(void **state)
{
    (void)state;
    run_both(free_under_peers);
    assert_int_equal(stage->early, 0);
    if (fakecuda_stands_in()) /* each has tried a region before */
        assert_int_equal(stage->freed, 2 * RANKS);
}

/* After detach() the owner's bytes stay, and no peer can change them; share_classic memory
 * refuses. */
static int detach_from_peers(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    (void)rig;
    bool exported = !getenv("FAKECUDA_EXPORT");
    int bad = show_memory(comm, &memory);
    if (gyre_rank(comm) == 0) {
        int status = gyre_domain_detach(comm->domain, stage->id[0]);
        bad += rig_check((status == 0) == exported, comm, "detaching");
        bad += rig_check(!share_id(comm, GYRE_MEMORY_CUDA, memory), comm, "it is shared no more");
    }
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (gyre_rank(comm) == 1)
        bad += rig_check(share_write(comm, view_of(comm, 0, GYRE_MEMORY_CUDA), 0, 666) == 0, comm,
                         "a late write");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    if (gyre_rank(comm) == 0)
        bad += rig_check(share_read(comm, memory, 0) == (exported ? 100 : 666), comm,
                         "what the owner sees");
    return share_end(comm, bad);
}

static void a_late_write_is_not_seen(void **state)
{
    (void)state;
    run_both(detach_from_peers);
}

/* -- the end of a rank ------------------------------------------------------------------------- */

/* Rank 1 is killed while everybody has its memory open and it theirs. */
static int outlive(struct gyre_comm *comm, struct rig *rig)
{
    void *memory, *late;
    int status = 0, bad = show_memory(comm, &memory);
    rig->shared->ready++;
    while (!status && !bad)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, rig_now());
    void *view = view_of(comm, 1, GYRE_MEMORY_CUDA);
    bad += rig_check(view && share_read(comm, view, 0) == 101, comm, "what the dead rank left");
    bad += rig_check(share_read(comm, memory, 0) == 100 + gyre_rank(comm), comm, "own memory");
    bad += rig_check(gyre_alloc_device(comm, LENGTH, &late) == GYRE_PEER_LOST, comm, "no more");
    bad += rig_check(gyre_free(comm, memory) == 0, comm, "gyre_free");
    bad += rig_check(gyre_finalize(comm) == GYRE_PEER_LOST, NULL, "gyre_finalize");
    return bad + fakecuda_alive().ranges + fakecuda_alive().handles;
}

static void killed_rank(void **state)
{
    static const share_readying modes[] = {share_two_devices, share_classic};
    (void)state;
    for (int i = 0; i < 1 + fakecuda_stands_in(); i++) {
        struct rig rig = {.n = RANKS, .transport = "shm", .before = modes[i], .body = outlive};
        memset(stage, 0, sizeof(*stage));
        rig_lose_rank_1(&rig, SIGKILL);
    }
}

/* Rank 1 does not answer an offer, since it is stopped, and then it is killed. */
static int offer_to_a_stopped_rank(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    rig->shared->ready++;
    rig_until(&rig->shared->flag, 1); /* stopped */
    if (gyre_rank(comm) == 1)
        return 1;
    rig->shared->ready++;
    int status = gyre_alloc_device(comm, LENGTH, &memory);
    int bad = rig_check(status == 0 || status == GYRE_PEER_LOST, comm, "no answer");
    while (!status)
        status = gyre_barrier(comm);
    bad += rig_check(status == GYRE_PEER_LOST, comm, "the rank is lost");
    return bad + (gyre_finalize(comm) != GYRE_PEER_LOST);
}

static void rank_killed_while_it_is_asked(void **state)
{
    static const share_readying modes[] = {share_two_devices, share_classic};
    (void)state;
    for (int i = 0; i < 1 + fakecuda_stands_in(); i++) {
        int ended;
        struct rig rig = {.n = RANKS,
                          .transport = "shm",
                          .dead_ms = 20000,
                          .before = modes[i],
                          .body = offer_to_a_stopped_rank};
        rig_start(&rig);
        rig_until(&rig.shared->ready, RANKS);
        kill(rig.pid[1], SIGSTOP);
        assert_int_equal(waitpid(rig.pid[1], &ended, WUNTRACED), rig.pid[1]);
        rig.shared->flag = 1;
        rig_until(&rig.shared->ready, 2 * RANKS - 1);
        kill(rig.pid[1], SIGKILL);
        assert_int_equal(rig_wait(&rig, SECONDS, 1u << 1), 0);
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

/* A child has the parent's addresses and none of its CUDA. */
static int fork_and_ask(struct gyre_comm *comm, struct rig *rig)
{
    void *memory, *other;
    int status = 0;
    (void)rig;
    int bad = show_memory(comm, &memory);
    pid_t child = fork();
    if (child == 0)
        _exit(gyre_alloc_device(comm, LENGTH, &other) != GYRE_FORKED ||
              gyre_free(comm, memory) != GYRE_FORKED || gyre_finalize(comm) != GYRE_FORKED);
    waitpid(child, &status, 0);
    bad += rig_check(status == 0, comm, "the child");
    bad += rig_check(share_read(comm, memory, 0) == 100 + gyre_rank(comm), comm, "own memory");
    bad += rig_check(gyre_barrier(comm) == 0, comm, "a barrier");
    return share_end(comm, bad);
}

static void forked_child(void **state)
{
    (void)state;
    run_both(fork_and_ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_seen_by_peers),
        cmocka_unit_test(kinds_are_kept_apart),
        cmocka_unit_test(memory_is_freed_under_peers),
        cmocka_unit_test(a_late_write_is_not_seen),
        cmocka_unit_test(killed_rank),
        cmocka_unit_test(rank_killed_while_it_is_asked),
        cmocka_unit_test(forked_child),
    };
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
