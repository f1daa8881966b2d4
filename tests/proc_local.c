/* Several ranks in one process, with threads and from one thread, on host memory and on the stand-in
 * for CUDA; alone, and as 3 + 1 ranks of two processes.
 *
 *      plan       "3 1"    ranks of process 0, of process 1 …
 *      memory     0, 1: what peers map      2: the rank's own      (host or device, all alike)
 *
 * tests/gpu/run has the first group run on real devices, as GYRE_DEVICES lists them. */
#include "collectives_rig.h"
#include "collectives/comm.h"
#include "device/device.h"
#include "fakecuda/fakecuda.h"
#include "haste.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MOST      (20001u * 8 * 9 + 4096)
#define MOST_HERE 20001u
#define RANKS     16

enum { CALLS = 90 };

struct plan {
    int ranks[4];       /* of each process */
    bool cuda, apart;   /* on devices; whose memory is not mapped everywhere */
    int devices[RANKS]; /* of the ranks of each process */
};

/* What a rank works with. */
struct seat {
    struct gyre_comm *comm;
    struct stage stage;
    struct gyre_device_queue *queue;
    uint64_t most;
    int bad;
};

struct table {
    int count;
    struct gyre_comm *comm[RANKS];
    struct seat seat[RANKS];
};

/* -- memory ------------------------------------------------------------------------------------ */

static _Thread_local struct gyre_device_queue *queue_here;

static int carry(void *to, const void *from, uint64_t bytes)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    uint64_t done = 0;
    int status = cuda->copy(queue_here, to, from, bytes, 1);
    while (status == 0 && done != 1) {
        if (cuda->query(queue_here, &done, 1) < 0)
            return 1;
        sched_yield(); /* to who makes the copy: the stand-in's devices are threads */
    }
    return status < 0;
}

/* Have all peers of the node mapped it? */
static bool is_mapped(struct gyre_comm *comm, const void *memory)
{
    uint64_t offset;
    return gyre_size(comm) == 1 ||
           gyre_domain_locate(comm->domain, GYRE_MEMORY_CUDA, memory, MOST, &offset) != 0;
}

static int furnish(struct seat *seat, struct gyre_comm *comm, const struct plan *plan)
{
    static struct gyre_region alone[RANKS];
    struct stage *stage = &seat->stage;
    seat->comm = comm;
    seat->most = plan->cuda ? in_haste() ? 128 : 5000 : in_haste() ? 5000 : MOST_HERE;
    for (int i = 0; i < 3; i++)
        stage->memory[i] = malloc(MOST);
    if (!plan->cuda)
        return rig_check(!gyre_alloc(comm, MOST, (void **)&stage->memory[0]) &&
                             !gyre_alloc(comm, MOST, (void **)&stage->memory[1]),
                         comm, "memory");
    struct gyre_region *own = &alone[gyre_rank(comm)];
    const struct gyre_device *device = gyre_device_of(GYRE_MEMORY_CUDA);
    stage->carry = carry;
    int bad = device->queue_create(gyre_device(comm), &seat->queue, NULL) ||
              device->alloc(gyre_device(comm), MOST, GYRE_SHARE_OPEN, own, NULL);
    stage->away[2] = own->base;
    return rig_check(!bad && !gyre_alloc_device(comm, MOST, (void **)&stage->away[0]) &&
                         !gyre_alloc_device(comm, MOST, (void **)&stage->away[1]) &&
                         is_mapped(comm, stage->away[0]) == !plan->apart,
                     comm, "memory");
}

/* The stand-in's devices are the plan's; of others, those of the list. */
static void list_devices(const struct plan *plan, int devices[RANKS])
{
    const char *list = getenv("GYRE_DEVICES");
    for (int i = 0; i < RANKS; i++) {
        devices[i] = !plan->cuda ? -1 : fakecuda_stands_in() ? plan->devices[i] : 0;
        if (plan->cuda && !fakecuda_stands_in() && list && *list) {
            char *end;
            devices[i] = (int)strtol(list, &end, 10);
            list = *end == ',' ? end + 1 : end;
        }
    }
}

/* Joins, with the memory of all ranks here. */
static int sit_down(struct table *table, const struct plan *plan, int process)
{
    int devices[RANKS];
    list_devices(plan, devices);
    *table = (struct table){.count = plan->ranks[process]};
    if (gyre_init_local(table->comm, table->count, devices, NULL)) {
        fprintf(stderr, "process %d: %s\n", process, gyre_error(NULL));
        return 1;
    }
    for (int i = 0; i < table->count; i++)
        if (furnish(&table->seat[i], table->comm[i], plan))
            return 1;
    return 0;
}

static int stand_up(struct table *table)
{
    int bad = 0;
    for (int i = 0; i < table->count; i++)
        bad |= rig_check(!gyre_finalize(table->comm[i]), NULL, "gyre_finalize");
    return bad;
}

/* -- every verb -------------------------------------------------------------------------------- */

static struct question make_question(int verb, uint64_t count, int way, int n)
{
    static const int memory[][2] = {{0, 1}, {2, 2}, {0, 2}};
    const int *kind = memory[way % 3];
    bool in_place = way == 1 || way == 3;
    return (struct question){.verb = (enum verb)verb,
                             .type = type_of((enum verb)verb, way + (int)(count % 7)),
                             .op = op_of((enum verb)verb, way),
                             .root = (way + (int)count) % n,
                             .count = count,
                             .in_place = in_place,
                             .input = kind[0],
                             .output = kind[0] == kind[1] && !in_place ? 0 : kind[1],
                             .skew = (unsigned)way % 3};
}

static const uint64_t counts[] = {0, 1, 7, 128, 1025, 5000, MOST_HERE};

enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

static void *ask_all(void *argument)
{
    struct seat *seat = argument;
    int n = gyre_size(seat->comm);
    queue_here = seat->queue;
    for (int c = 0; c < COUNTS && counts[c] <= seat->most; c++)
        for (int verb = 0; verb < VERBS; verb++)
            for (int way = 0; way < 4 && !seat->bad; way++) {
                struct question ask = make_question(verb, counts[c], way, n);
                ask.started = way == 2;
                seat->bad = ask_and_check(seat->comm, &seat->stage, &ask);
            }
    seat->bad = seat->bad || gyre_barrier(seat->comm);
    return NULL;
}

static int with_threads(struct table *table)
{
    pthread_t thread[RANKS];
    int bad = 0;
    for (int i = 0; i < table->count; i++)
        pthread_create(&thread[i], NULL, ask_all, &table->seat[i]);
    for (int i = 0; i < table->count; i++) {
        pthread_join(thread[i], NULL);
        bad |= table->seat[i].bad;
    }
    return bad;
}

/* All ranks are asked before any is waited for: by handles, or in groups on all of them. */
static int ask_from_one(struct table *table, const struct question *ask)
{
    struct answer *answer[RANKS];
    int bad = 0;
    for (int i = 0; i < table->count && !ask->started; i++)
        bad |= gyre_group_start(table->comm[i]);
    for (int i = 0; i < table->count; i++) {
        queue_here = table->seat[i].queue;
        answer[i] = ask_begin(table->comm[i], &table->seat[i].stage, ask);
        bad |= !answer[i];
    }
    for (int i = 0; i < table->count && !ask->started; i++)
        bad |= rig_check(!gyre_group_end(table->comm[i]), table->comm[i], "gyre_group_end");
    for (int i = 0; i < table->count && !bad; i++) {
        queue_here = table->seat[i].queue;
        bad |= ask_end(table->comm[i], &table->seat[i].stage, ask, answer[i]);
    }
    return bad;
}

static int from_one_thread(struct table *table)
{
    int n = gyre_size(table->comm[0]), bad = 0;
    uint64_t most = table->seat[0].most;
    for (int c = 0; c < COUNTS && counts[c] <= most; c += 1 + in_haste())
        for (int verb = 0; verb < VERBS; verb++)
            for (int way = 0; way < 4 && !bad; way++) {
                struct question ask = make_question(verb, counts[c], way, n);
                ask.started = way % 2;
                bad = ask_from_one(table, &ask);
            }
    return bad;
}

static int everything(struct rig *rig, int process)
{
    static struct table table;
    return sit_down(&table, rig->argument, process) || with_threads(&table) ||
           from_one_thread(&table) || stand_up(&table);
}

static void run(const struct plan *plan, const char *transport, bool nodes,
                int (*process)(struct rig *, int))
{
    struct rig rig = {.transport = transport,
                      .per_node = nodes,
                      .process = process,
                      .argument = (void *)(uintptr_t)plan};
    while (rig.n < 4 && plan->ranks[rig.n])
        rig.n++;
    assert_int_equal(rig_run(&rig, 100), 0);
}

static void host_memory_is_right(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n *= 2)
        run(&(struct plan){.ranks = {n}}, "auto", false, everything);
}

static void processes_are_right(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, everything);
    run(&(struct plan){.ranks = {1, 2, 1}}, "auto", true, everything);
    run(&(struct plan){.ranks = {2, 1}}, "tcp", false, everything);
}

static void devices_are_right(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    run(&(struct plan){{3, 1}, true, false, {1, 0, 1}}, "auto", false, everything);
    if (in_haste())
        return;
    run(&(struct plan){{4}, true, false, {0, 1, 1, 0}}, "auto", false, everything);
    run(&(struct plan){{8}, true, false, {0}}, "auto", false, everything);
    if (!fakecuda_stands_in())
        return;
    setenv("FAKECUDA_EXPORT", "0", 1);
    run(&(struct plan){{4}, true, false, {1, 1, 1, 1}}, "auto", false, everything);
    run(&(struct plan){{2, 2}, true, true, {0, 1}}, "auto", false, everything);
    unsetenv("FAKECUDA_EXPORT");
    setenv("FAKECUDA_PEERS", "0", 1);
    run(&(struct plan){{2, 2}, true, true, {0, 1}}, "auto", false, everything);
    unsetenv("FAKECUDA_PEERS");
}

/* -- devices that do not reach each other ------------------------------------------------------ */

#define REFUSED "cuMemcpyPeerAsync:1:CUDA_ERROR_NOT_SUPPORTED"

static bool copied; /* the driver copies between them, and rightly */

/* Rank 1 sends what lies on its device into rank 0's device's memory, then into the host's. */
static int send_apart(struct rig *rig, int process)
{
    static struct table table;
    static uint8_t sent[MOST], came[MOST];
    struct gyre_work *work[2];
    int bad = sit_down(&table, rig->argument, process);
    for (int host = 0; host < 2 && !bad; host++) {
        uint8_t *from = table.seat[1].stage.away[0];
        uint8_t *to = host ? came : table.seat[0].stage.away[1];
        int before = fakecuda_calls("cuMemcpyPeerAsync");
        for (unsigned i = 0; i < MOST; i++)
            sent[i] = (uint8_t)(i * 7 + i / 251 + (unsigned)host);
        queue_here = table.seat[1].queue;
        bad |= carry(from, sent, MOST);
        bad |= gyre_send_start(table.comm[1], from, MOST, GYRE_U8, 0, &work[1]) ||
               gyre_recv_start(table.comm[0], to, MOST, GYRE_U8, 1, &work[0]);
        bad = bad || gyre_work_wait(work[0], -1) || gyre_work_wait(work[1], -1);
        bad |= rig_check((fakecuda_calls("cuMemcpyPeerAsync") > before) == (copied && !host),
                         table.comm[0], "who copies");
        queue_here = table.seat[0].queue;
        bad |= !host && carry(came, to, MOST);
        bad |= rig_check(!memcmp(came, sent, MOST), table.comm[0], "the message");
    }
    return bad || stand_up(&table);
}

static void devices_apart_are_copied_between(void **state)
{
    static const struct plan plan = {{2}, true, true, {0, 1}};
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("FAKECUDA_PEERS", "0", 1);
    copied = true;
    run(&plan, "auto", false, send_apart);
    run(&plan, "auto", false, everything);
    copied = false; /* what was wrong when it was tried is not used */
    setenv("FAKECUDA_WRONG", "1", 1);
    run(&plan, "auto", false, send_apart);
    setenv("FAKECUDA_WRONG", "2", 1);
    run(&plan, "auto", false, send_apart);
    unsetenv("FAKECUDA_WRONG");
    setenv("FAKECUDA_FAIL",
           REFUSED "," REFUSED "," REFUSED "," REFUSED, /* once for each memory of the two */
           1);
    run(&plan, "auto", false, send_apart);
    unsetenv("FAKECUDA_FAIL");
    unsetenv("FAKECUDA_PEERS");
}

/* -- groups of one thread ---------------------------------------------------------------------- */

/* More calls than a group has in flight, with handles between them and a ring of messages. */
static int fill_group(struct gyre_comm *comm, int32_t *sums, int32_t *large, int32_t *came,
                      struct gyre_work *work[2])
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    came[1] = rank;
    bad |= gyre_send(comm, &came[1], 1, GYRE_I32, (rank + 1) % n);
    bad |= gyre_recv(comm, &came[0], 1, GYRE_I32, (rank + n - 1) % n);
    for (int i = 0; i < CALLS && !bad; i++) {
        sums[i] = rank + i;
        bad |= gyre_all_reduce(comm, &sums[i], &sums[i], 1, GYRE_I32, i % 3 ? GYRE_SUM : GYRE_MAX);
        large[i * 2000] = i;
        bad |= gyre_broadcast(comm, &large[i * 2000], &large[i * 2000], 2000, GYRE_I32, i % n);
    }
    bad |= gyre_all_reduce_start(comm, &came[2], &came[2], 1, GYRE_I32, GYRE_SUM, &work[0]);
    bad |= gyre_barrier_start(comm, &work[1]);
    return rig_check(!bad, comm, "a call of the group");
}

static int look_at_group(struct gyre_comm *comm, const int32_t *sums, const int32_t *large,
                         const int32_t *came)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    for (int i = 0; i < CALLS; i++) {
        int wanted = i % 3 ? n * (n - 1) / 2 + n * i : n - 1 + i;
        bad |= sums[i] != wanted || large[i * 2000] != i;
    }
    bad |= came[0] != (rank + n - 1) % n || came[2] != n;
    return rig_check(!bad, comm, "what came of the group");
}

static int group_of_one_thread(struct rig *rig, int process)
{
    static int32_t sums[RANKS][CALLS], large[RANKS][CALLS * 2000], came[RANKS][3];
    static struct table table;
    struct gyre_work *work[RANKS][2];
    int bad = sit_down(&table, rig->argument, process);
    for (int round = 0; round < 3 && !bad; round++) {
        for (int i = 0; i < table.count; i++)
            bad |= gyre_group_start(table.comm[i]);
        for (int i = 0; i < table.count && !bad; i++) {
            came[i][2] = 1;
            bad |= fill_group(table.comm[i], sums[i], large[i], came[i], work[i]);
        }
        /* Waiting for the others, one is open: a test of a handle says so, an end is one too many. */
        for (int i = 0; i < table.count && !bad; i++) {
            bool last = i + 1 == table.count;
            bad |= rig_check(!gyre_group_end(table.comm[i]), table.comm[i], "gyre_group_end");
            bad |= !last && gyre_work_test(work[i][0]) != GYRE_INVALID;
            bad |= !last && gyre_group_end(table.comm[i]) != GYRE_INVALID;
        }
        for (int i = 0; i < table.count && !bad; i++)
            bad |= gyre_work_wait(work[i][0], -1) || gyre_work_wait(work[i][1], -1) ||
                   look_at_group(table.comm[i], sums[i], large[i], came[i]);
    }
    return bad || stand_up(&table);
}

/* A thread that has one rank only waits for nobody's group but its own. */
static void *group_of_mine(void *argument)
{
    struct seat *seat = argument;
    struct gyre_comm *part;
    int32_t one = 1, sum = 0;
    seat->bad = gyre_split(seat->comm, 0, 0, &part) || gyre_group_start(seat->comm) ||
                gyre_all_reduce(seat->comm, &one, &sum, 1, GYRE_I32, GYRE_SUM) ||
                gyre_group_start(part) || gyre_broadcast(part, &one, &one, 1, GYRE_I32, 0) ||
                gyre_group_end(part) || gyre_group_end(seat->comm) ||
                sum != gyre_size(seat->comm) || gyre_finalize(part);
    return NULL;
}

static int groups_of_threads(struct rig *rig, int process)
{
    static struct table table;
    pthread_t thread[RANKS];
    int bad = sit_down(&table, rig->argument, process);
    for (int i = 0; i < table.count && !bad; i++)
        pthread_create(&thread[i], NULL, group_of_mine, &table.seat[i]);
    for (int i = 0; i < table.count && !bad; i++) {
        pthread_join(thread[i], NULL);
        bad |= rig_check(!table.seat[i].bad, table.comm[i], "a group of a thread");
    }
    return bad || stand_up(&table);
}

static void groups_end_together(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {4}}, "auto", false, group_of_one_thread);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, group_of_one_thread);
    run(&(struct plan){.ranks = {2, 2}}, "auto", true, group_of_one_thread);
    run(&(struct plan){.ranks = {3}}, "auto", false, groups_of_threads);
}

/* -- streams ----------------------------------------------------------------------------------- */

/* One thread puts an operation on a stream of every rank and waits for the streams. */
static int streams_of_one_thread(struct rig *rig, int process)
{
    static struct table table;
    CUstream stream[RANKS];
    CUcontext context;
    int bad = sit_down(&table, rig->argument, process), sum = 0;
    int32_t seen[5000];
    for (int i = 0; i < table.count && !bad; i++) {
        struct stage *stage = &table.seat[i].stage;
        queue_here = table.seat[i].queue;
        for (int k = 0; k < 5000; k++)
            ((int32_t *)stage->memory[0])[k] = i + 1;
        sum += i + 1;
        bad |= carry(stage->away[0], stage->memory[0], 20000) ||
               cuDevicePrimaryCtxRetain(&context, gyre_device(table.comm[i])) ||
               cuCtxPushCurrent(context) || cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING);
    }
    for (int i = 0; i < table.count && !bad; i++)
        bad |= rig_check(!gyre_all_reduce_on(table.comm[i], table.seat[i].stage.away[0],
                                             table.seat[i].stage.away[1], 5000, GYRE_I32, GYRE_SUM,
                                             stream[i]),
                         table.comm[i], "gyre_all_reduce_on");
    for (int i = 0; i < table.count && !bad; i++) {
        bad |= cuStreamSynchronize(stream[i]) != CUDA_SUCCESS;
        queue_here = table.seat[i].queue;
        bad |=
            carry(seen, table.seat[i].stage.away[1], 20000) || seen[0] != sum || seen[4999] != sum;
    }
    return rig_check(!bad, table.comm[0], "streams") || stand_up(&table);
}

static void streams_are_in_order(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    run(&(struct plan){{4}, true, false, {0, 1, 0, 1}}, "auto", false, streams_of_one_thread);
}

/* -- devices ----------------------------------------------------------------------------------- */

static int devices_of_list(struct rig *rig, int process)
{
    static const int given[] = {1, -1, 0}, listed[] = {1, 0, 1, 0};
    struct gyre_comm *comm[3];
    int bad = 0, sum = 1;
    (void)rig;
    setenv("GYRE_DEVICES", "1,0,1,0", 1);
    for (int told = 0; told < 2 && !bad; told++) {
        int count = told ? 3 : process ? 1 : 3;
        bad = rig_check(!gyre_init_local(comm, count, told ? given : NULL, NULL), NULL, "list");
        for (int i = 0; i < count && !bad; i++)
            bad |= gyre_device(comm[i]) != (told ? given[i] : listed[gyre_rank(comm[i])]);
        struct gyre_work *work[3];
        int32_t sums[3] = {sum, sum, sum};
        for (int i = 0; i < count && !bad; i++)
            bad |=
                gyre_all_reduce_start(comm[i], &sums[i], &sums[i], 1, GYRE_I32, GYRE_SUM, &work[i]);
        for (int i = 0; i < count && !bad; i++)
            bad |= gyre_work_wait(work[i], -1) || sums[i] != gyre_size(comm[i]);
        for (int i = 0; i < count; i++)
            bad |= gyre_finalize(comm[i]) != 0;
    }
    return rig_check(!bad, NULL, "devices");
}

static void devices_are_as_told(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, devices_of_list);
}

/* -- what is wrong ----------------------------------------------------------------------------- */

struct wrong {
    int count[2], device[2]; /* of process 0 and 1 */
    const char *list;        /* GYRE_DEVICES */
    int status;
    const char *story[2]; /* all of these */
    bool other_call;      /* process 1 calls gyre_init() */
};

static int refused(struct rig *rig, int process)
{
    const struct wrong *wrong = rig->argument;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *comm[128];
    int devices[128];
    memset(comm, 0xff, sizeof(comm));
    for (int i = 0; i < 128; i++)
        devices[i] = wrong->device[process];
    if (wrong->list)
        setenv("GYRE_DEVICES", wrong->list, 1);
    options.join_timeout_ms = 20000 * rig_slow();
    int status =
        process && wrong->other_call
            ? gyre_init(comm, &options)
            : gyre_init_local(comm, wrong->count[process], wrong->list ? NULL : devices, &options);
    bool told =
        strstr(gyre_error(NULL), wrong->story[0]) && strstr(gyre_error(NULL), wrong->story[1]);
    bool fine = status == wrong->status && told && (wrong->count[process] < 1 || !comm[0]);
    if (!fine)
        fprintf(stderr, "process %d: %d, \"%s\" (expected \"%s\" and \"%s\")\n", process, status,
                gyre_error(NULL), wrong->story[0], wrong->story[1]);
    return !fine;
}

static void expect_wrong(int processes, const struct wrong *wrong)
{
    struct rig rig = {.n = processes, .process = refused, .argument = (void *)(uintptr_t)wrong};
    assert_int_equal(rig_run(&rig, 30), 0);
}

static void wrong_devices_are_told(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    expect_wrong(
        1, &(struct wrong){
               {2}, {9}, NULL, GYRE_INVALID, {"rank 0", "is given CUDA device 9: 2 are visible"}});
    expect_wrong(1,
                 &(struct wrong){{1}, {-2}, NULL, GYRE_INVALID, {"device -2", "-1 is no device"}});
    expect_wrong(
        2, &(struct wrong){{3, 1}, {0, 5}, NULL, GYRE_INVALID, {"process 1 of 2", "rank 3 on "}});
    expect_wrong(2, &(struct wrong){
                        {3, 2}, {0, 0}, "0,1,0,1", GYRE_INVALID, {"process 1 of 2", "rank 4 on "}});
    setenv("FAKECUDA_DEVICES", "none", 1);
    expect_wrong(1, &(struct wrong){{2},
                                    {0},
                                    NULL,
                                    GYRE_UNSUPPORTED,
                                    {"is given CUDA device 0: 0 are visible", "-1 is no device"}});
    setenv("FAKECUDA_DEVICES", "2", 1);
}

static void wrong_counts_are_told(void **state)
{
    (void)state;
    expect_wrong(1, &(struct wrong){{0}, {-1}, NULL, GYRE_INVALID, {"0 ranks", "1 to 64"}});
    expect_wrong(1, &(struct wrong){{65}, {-1}, NULL, GYRE_INVALID, {"65 ranks", "1 to 64"}});
    expect_wrong(
        2, &(struct wrong){{2, -1}, {-1, -1}, NULL, GYRE_INVALID, {"process 1 of 2", "-1 ranks"}});
    expect_wrong(2, &(struct wrong){{2, 1},
                                    {-1, -1},
                                    NULL,
                                    GYRE_REFUSED,
                                    {"made_by: gyre_init_local here", "gyre_init there"},
                                    true});
}

static int wrong_pointers(struct rig *rig, int process)
{
    struct gyre_comm *first[2] = {NULL}, *second[2];
    struct gyre_options short_options = {.size = 3};
    int bad = 0;
    (void)rig, (void)process;
    bad |= gyre_init_local(NULL, 2, NULL, NULL) != GYRE_INVALID;
    bad |= gyre_init_local(first, 2, NULL, &short_options) != GYRE_INVALID;
    bad |= gyre_init_local(first, 2, NULL, NULL) != 0;
    bad |= gyre_init_local(second, 2, NULL, NULL) != GYRE_INVALID;
    bad |= !strstr(gyre_error(NULL), "has a communicator already") || second[0] || second[1];
    bad |= gyre_init(second, NULL) != GYRE_INVALID;
    pid_t child = fork();
    if (child == 0)
        _exit(gyre_barrier(first[0]) == GYRE_FORKED && gyre_finalize(first[1]) == GYRE_FORKED ? 0
                                                                                              : 1);
    int ended;
    bad |= waitpid(child, &ended, 0) != child || ended;
    bad |= gyre_finalize(first[0]) != 0;
    bad |= gyre_init(second, NULL) != GYRE_INVALID; /* until the last has gone */
    bad |= gyre_finalize(first[1]) != 0;
    bad |= gyre_init_local(first, 1, NULL, NULL) != 0 || gyre_finalize(first[0]) != 0;
    return rig_check(!bad, NULL, "wrong pointers");
}

static void wrong_calls_are_told(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {2}}, "auto", false, wrong_pointers);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void *wait_in_vain(void *argument)
{
    struct seat *seat = argument;
    while ((seat->bad = gyre_barrier(seat->comm)) == 0)
        continue;
    return NULL;
}

/* Rank 1 aborts; every other rank of both processes waits. */
static int one_aborts(struct rig *rig, int process)
{
    static struct table table;
    pthread_t thread[RANKS];
    int bad = sit_down(&table, rig->argument, process);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n);
    for (int i = 0; i < table.count && !bad; i++)
        if (gyre_rank(table.comm[i]) != 1)
            pthread_create(&thread[i], NULL, wait_in_vain, &table.seat[i]);
    for (int i = 0; i < table.count && !bad; i++)
        if (gyre_rank(table.comm[i]) == 1)
            bad |= gyre_abort(table.comm[i], "enough");
    for (int i = 0; i < table.count && !bad; i++) {
        if (gyre_rank(table.comm[i]) != 1)
            pthread_join(thread[i], NULL);
        else
            wait_in_vain(&table.seat[i]);
        bad |= rig_check(table.seat[i].bad == GYRE_ABORTED &&
                             strstr(gyre_error(table.comm[i]), "rank 1 called gyre_abort()"),
                         table.comm[i], "aborted");
    }
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_finalize(table.comm[i]) != GYRE_ABORTED;
    return bad;
}

static void one_abort_is_all(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {4}}, "auto", false, one_aborts);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, one_aborts);
    run(&(struct plan){.ranks = {2, 2}}, "auto", true, one_aborts);
}

/* Process 1 is killed while the three ranks of process 0 wait. */
static int lose_process_1(struct rig *rig, int process)
{
    static struct table table;
    pthread_t thread[RANKS];
    int bad = sit_down(&table, rig->argument, process);
    for (int i = 0; i < table.count && !process && !bad; i++)
        pthread_create(&thread[i], NULL, wait_in_vain, &table.seat[i]);
    if (process) {
        rig_until(&rig->shared->ready, 1);
        raise(SIGKILL);
    }
    rig->shared->ready = 1;
    for (int i = 0; i < table.count && !bad; i++) {
        pthread_join(thread[i], NULL);
        bad |= rig_check(table.seat[i].bad == GYRE_PEER_LOST &&
                             strstr(gyre_error(table.comm[i]), "rank 3"),
                         table.comm[i], "lost");
    }
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_finalize(table.comm[i]) != GYRE_PEER_LOST;
    return bad;
}

static void a_process_may_die(void **state)
{
    const struct plan plan = {.ranks = {3, 1}};
    struct rig rig = {.n = 2, .process = lose_process_1, .argument = (void *)(uintptr_t)&plan};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 20, 1u << 1), 0);
}

/* A group left open on one rank is told, and is the job's failure. */
static int leave_group_open(struct rig *rig, int process)
{
    static struct table table;
    int32_t value = 0;
    int bad = sit_down(&table, rig->argument, process);
    bad = bad || gyre_group_start(table.comm[0]) ||
          gyre_all_reduce(table.comm[0], &value, &value, 1, GYRE_I32, GYRE_SUM);
    bad = bad || gyre_finalize(table.comm[0]) != GYRE_INVALID;
    bad = bad || gyre_finalize(table.comm[1]) != GYRE_INVALID;
    return bad;
}

static void an_open_group_is_told(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {2}}, "auto", false, leave_group_open);
}

/* Memory of another rank's device is refused by each call, and the communicators are unharmed. */
static int give_anothers(struct rig *rig, int process)
{
    static struct table table;
    struct gyre_work *work[2];
    static const uint64_t one_each[2] = {1, 1};
    int bad = sit_down(&table, rig->argument, process);
    if (bad)
        return bad;
    struct gyre_comm *comm = table.comm[0];
    uint8_t *away = table.seat[1].stage.away[2], *own = table.seat[0].stage.away[2];
    bad |= gyre_all_reduce_start(comm, away, own, 4, GYRE_I32, GYRE_SUM, &work[0]) != GYRE_INVALID;
    bad |= !strstr(gyre_error(comm), "memory of CUDA device 1, which device 0");
    bad |= gyre_all_reduce_start(comm, own, away, 4, GYRE_I32, GYRE_SUM, &work[0]) != GYRE_INVALID;
    bad |= gyre_send_start(comm, away, 4, GYRE_I32, 1, &work[0]) != GYRE_INVALID;
    bad |= gyre_all_to_all_v(comm, away, one_each, NULL, own, one_each, NULL, GYRE_I32) !=
           GYRE_INVALID;
    bad = rig_check(!bad, comm, "another device's memory");
    for (int i = 0; i < 2; i++)
        bad |= gyre_all_reduce_start(table.comm[i], table.seat[i].stage.away[2],
                                     table.seat[i].stage.away[2], 4, GYRE_I32, GYRE_SUM, &work[i]);
    for (int i = 0; i < 2; i++)
        bad |= gyre_work_wait(work[i], -1);
    return bad || stand_up(&table);
}

static void anothers_memory_is_refused(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    run(&(struct plan){{2}, true, false, {0, 1}}, "auto", false, give_anothers);
}

/* -- ends -------------------------------------------------------------------------------------- */

/* A rank's work may be under way when it ends: the last to end waits for all of it. */
static int end_before_the_work(struct rig *rig, int process)
{
    static struct table table;
    static int32_t values[RANKS][3000];
    struct gyre_work *work[RANKS][2];
    int bad = sit_down(&table, rig->argument, process);
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_all_reduce_start(table.comm[i], values[i], values[i], 3000, GYRE_I32, GYRE_SUM,
                                     &work[i][0]) ||
               gyre_barrier_start(table.comm[i], &work[i][1]);
    for (int i = 1; i < table.count && !bad; i++)
        bad |= work[i][0] == work[0][0] || work[i][1] == work[0][1];
    bad = bad || gyre_work_wait(work[0][1], -1) || gyre_work_test(work[0][1]) != GYRE_INVALID ||
          stand_up(&table);
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_work_test(work[i][0]) != GYRE_INVALID;
    return bad;
}

/* One that is alone with a call is told by the end, which alone can know. */
static int end_with_one_more(struct rig *rig, int process)
{
    static struct table table;
    struct gyre_work *work;
    int32_t value = 1;
    setenv("GYRE_DEAD_TIME", "1s", 1);
    int bad = sit_down(&table, rig->argument, process), last = table.count - 1;
    bad = bad ||
          gyre_all_reduce_start(table.comm[last], &value, &value, 1, GYRE_I32, GYRE_SUM, &work);
    for (int i = 0; i < last && !bad; i++)
        bad |= rig_check(!gyre_finalize(table.comm[i]), NULL, "an end that is not the last");
    return bad || rig_check(gyre_finalize(table.comm[last]) == GYRE_MISMATCH &&
                                strstr(gyre_error(NULL), "has left by gyre_finalize()"),
                            NULL, "the last end");
}

static void ends_wait_and_tell(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {4}}, "auto", false, end_before_the_work);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, end_before_the_work);
    run(&(struct plan){.ranks = {2, 1}}, "tcp", false, end_before_the_work);
    run(&(struct plan){.ranks = {3}}, "auto", false, end_with_one_more);
    run(&(struct plan){.ranks = {3}}, "tcp", false, end_with_one_more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_right),
        cmocka_unit_test(streams_are_in_order),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(host_memory_is_right),
        cmocka_unit_test(processes_are_right),
        cmocka_unit_test(devices_apart_are_copied_between),
        cmocka_unit_test(groups_end_together),
        cmocka_unit_test(devices_are_as_told),
        cmocka_unit_test(wrong_devices_are_told),
        cmocka_unit_test(wrong_counts_are_told),
        cmocka_unit_test(wrong_calls_are_told),
        cmocka_unit_test(one_abort_is_all),
        cmocka_unit_test(a_process_may_die),
        cmocka_unit_test(an_open_group_is_told),
        cmocka_unit_test(anothers_memory_is_refused),
        cmocka_unit_test(ends_wait_and_tell),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(others, NULL, NULL) : failed;
}
