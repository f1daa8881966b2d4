/* Several ranks in one process, with threads and from one thread, on host memory and on the
 * stand-in for CUDA; alone, and as 3 + 1 ranks of two processes.
 *
 * tests/gpu/run has the first group run on real devices, as GYRE_DEVICES lists them. In haste
 * half of the counts, and one of the groups with a device. */
#include "rig/collectives_rig.h"
#include "rig/local_rig.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 90 };

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
           /* once for each memory of the two, and in the first call, which has them tried again */
           REFUSED "," REFUSED "," REFUSED "," REFUSED "," REFUSED "," REFUSED, 1);
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
        /* Waiting for the others, one is open: a test of a handle says so, an end is one too
         * many. */
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
        bad =
            rig_check(!gyre_init_in_process(comm, count, told ? given : NULL, NULL), NULL, "list");
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
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failed + cmocka_run_group_tests(others, NULL, NULL) : failed;
}
