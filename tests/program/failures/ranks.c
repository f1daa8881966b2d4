/* Failures with real processes: whatever a rank does, every other rank's call ends in time with an
 * error that names it, and nobody writes into a survivor's memory afterwards. In haste one writer
 * is stopped in the middle, not three. */
#include "rig/beside.h"
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEAD_MS  1500 /* where a rank is stopped; more than a busy machine keeps from the watches */
#define ALIVE_MS 40000 /* where none is: only what the test is about ends a call */
#define WAIT_S   60

/* -- a rank disappears ------------------------------------------------------------------------- */

struct loss {
    size_t count;
    int victim;
};

/* All-reduces for ever; notes how it ended. */
static int reduce_for_ever(struct gyre_comm *comm, struct rig *rig)
{
    const struct loss *loss = rig->argument;
    float *data;
    int status = gyre_alloc(comm, loss->count * 4, (void **)&data);
    for (int i = 0; !status; i++) {
        uint64_t since = rig_now();
        if (i == 20)
            rig->shared->ready++;
        status = gyre_all_reduce(comm, data, data, loss->count, GYRE_F32, GYRE_MAX);
        if (status)
            rig_note(rig, comm, status, since);
    }
    return gyre_finalize(comm) == status ? 0 : 1;
}

static void lose(const char *transport, int per_node, size_t count, int signal_number)
{
    struct loss loss = {count, 1};
    struct rig rig = {.n = 3,
                      .transport = transport,
                      .per_node = per_node,
                      .dead_ms = DEAD_MS,
                      .body = reduce_for_ever,
                      .argument = &loss};
    rig_lose_rank_1(&rig, signal_number);
}

static void killed_rank_is_named(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 2000000; count *= 1000) {
        lose("shm", 0, count, SIGKILL);
        lose("tcp", 0, count, SIGKILL);
        lose("auto", 2, count, SIGKILL);
    }
}

static void stopped_rank_is_named(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 2000000; count *= 1000000) {
        lose("shm", 0, count, SIGSTOP);
        lose("tcp", 0, count, SIGSTOP);
        lose("auto", 2, count, SIGSTOP);
    }
}

/* The killed rank leaves a child that holds copies of all its sockets. */
static int fork_then_reduce(struct gyre_comm *comm, struct rig *rig)
{
    const struct loss *loss = rig->argument;
    if (gyre_rank(comm) == loss->victim && fork() == 0) {
        rig_until(&rig->shared->flag, 1);
        _exit(0);
    }
    return reduce_for_ever(comm, rig);
}

static void child_that_outlives_its_rank(void **state)
{
    struct loss loss = {1000, 2};
    struct rig rig = {.n = 3, .dead_ms = ALIVE_MS, .body = fork_then_reduce, .argument = &loss};
    (void)state;
    rig_start(&rig);
    rig_until(&rig.shared->ready, 3);
    kill(rig.pid[2], SIGKILL);
    int bad = rig_wait(&rig, WAIT_S, 1u << 2);
    rig.shared->flag = 1;
    assert_int_equal(bad, 0);
    assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
    munmap(rig.shared, sizeof(*rig.shared));
}

/* -- late writers ------------------------------------------------------------------------------ */

#define PUSHED (16u << 20) /* elements */

/* Rank 1 is stopped while it pushes. Survivors refill their buffers after the error, rank 1 goes
 * on, and the buffers keep what the survivors wrote. */
static int refill_after_failure(struct gyre_comm *comm, struct rig *rig)
{
    const size_t count = PUSHED;
    uint32_t *data;
    int status = gyre_alloc(comm, count * 4, (void **)&data), bad = 0;
    for (size_t i = 0; !status && i < count; i++)
        data[i] = 1;
    rig->shared->place[gyre_rank(comm)] = (uintptr_t)data;
    rig->shared->ready++;
    rig_until(&rig->shared->ready, 3);
    if (!status)
        status = gyre_all_reduce(comm, data, data, count, GYRE_I32, GYRE_SUM);
    if (!status && !(status = gyre_barrier(comm)))
        return gyre_finalize(comm); /* it was stopped too late */
    if (gyre_rank(comm) == 1)
        return 0;
    rig_note(rig, comm, status, rig_now());
    for (size_t i = 0; i < count; i++)
        data[i] = 0xabcd0000u + (uint32_t)i;
    rig->shared->ready++;
    rig_until(&rig->shared->flag, 1); /* the stopped rank was continued and has ended */
    for (size_t i = 0; i < count; i++)
        bad += data[i] != 0xabcd0000u + (uint32_t)i;
    gyre_finalize(comm);
    return bad != 0;
}

/* Rank 1 folds the middle third and writes it to the others. */
static void late_writes_are_not_seen(void **state)
{
    struct rig rig = {
        .n = 3, .algorithm = "direct", .dead_ms = DEAD_MS, .body = refill_after_failure};
    const int wanted = in_haste() ? 1 : 3;
    int inside = 0;
    (void)state;
    for (int tries = 0; tries < 40 && inside < wanted; tries++)
        inside += rig_outlive_a_writer(&rig, PUSHED / 2, PUSHED / 3 * 2 - 64, 1);
    assert_int_equal(inside, wanted);
}

/* -- ranks that disagree ----------------------------------------------------------------------- */

struct call {
    int verb; /* 0 all_reduce, 1 broadcast, 2 barrier, 3 nothing */
    uint64_t count;
    enum gyre_type type;
    enum gyre_op op;
    int root;
};

static int call_it(struct gyre_comm *comm, const struct call *call, void *data)
{
    if (call->verb == 0)
        return gyre_all_reduce(comm, data, data, call->count, call->type, call->op);
    if (call->verb == 1)
        return gyre_broadcast(comm, data, data, call->count, call->type, call->root);
    return call->verb == 2 ? gyre_barrier(comm) : 0;
}

static int disagree(struct gyre_comm *comm, struct rig *rig)
{
    const struct call *calls = rig->argument;
    static double data[100000];
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n); /* whoever still joins would be told there */
    uint64_t since = rig_now();
    int status = call_it(comm, &calls[gyre_rank(comm) == 1], data);
    for (int i = 0; !status && i < 3;
         i++) { /* a root may have got away with it; the next one tells */
        struct call next = {.verb = 0, .count = 1, .type = GYRE_F64};
        status = call_it(comm, &next, data);
    }
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status == 0;
}

/* Every rank is told what each of two called. */
static void run_disagreement(struct rig rig)
{
    rig.n = 3;
    rig.dead_ms = rig.dead_ms ? rig.dead_ms : ALIVE_MS;
    rig_start(&rig);
    int bad = rig_wait(&rig, WAIT_S, 0);
    for (int rank = 0; rank < 3; rank++)
        if (rig.shared->status[rank] != GYRE_MISMATCH || bad ||
            !strstr(rig.shared->error[rank], "rank 1"))
            fail_msg("%s: rank %d ended with %s: %s", rig.transport, rank,
                     gyre_status_name(rig.shared->status[rank]), rig.shared->error[rank]);
    munmap(rig.shared, sizeof(*rig.shared));
}

static void disagree_once(const char *transport, struct call one, struct call other)
{
    struct call calls[2] = {one, other};
    run_disagreement((struct rig){.transport = transport, .body = disagree, .argument = calls});
}

static void disagreeing_ranks_are_told(void **state)
{
    const struct call sum = {.verb = 0, .count = 1000, .type = GYRE_F32},
                      small = {.verb = 0, .count = 2};
    struct call other;
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        const char *transport = tcp ? "tcp" : "shm";
        other = sum, other.count = 1001;
        disagree_once(transport, sum, other);
        other = sum, other.count = 50000;
        disagree_once(transport, sum, other);
        other = sum, other.type = GYRE_I32;
        disagree_once(transport, sum, other);
        other = sum, other.op = GYRE_MAX;
        disagree_once(transport, sum, other);
        other = small, other.op = GYRE_PROD;
        disagree_once(transport, small, other);
        disagree_once(transport, sum, (struct call){.verb = 2});
        disagree_once(transport, sum, (struct call){.verb = 1, .count = 1000});
        disagree_once(transport, (struct call){.verb = 1, .count = 1000, .root = 0},
                      (struct call){.verb = 1, .count = 1000, .root = 2});
        disagree_once(transport, (struct call){.verb = 1, .count = 1},
                      (struct call){.verb = 1, .count = 1, .root = 1});
        disagree_once(transport, (struct call){.verb = 1, .count = 4000},
                      (struct call){.verb = 1, .count = 4000, .root = 1});
    }
}

/* Each of two roots had nobody to wait for, and nothing comes after: the goodbyes tell. */
static int two_roots(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm);
    float x = 0;
    int status = gyre_broadcast(comm, &x, &x, 1, GYRE_F32, rank == 1 ? 1 : 0);
    if (status)
        return 2;
    rig->shared->status[rank] = gyre_finalize(comm);
    snprintf(rig->shared->error[rank], sizeof rig->shared->error[rank], "%s", gyre_error(NULL));
    return 0;
}

static void two_roots_at_the_end_are_told(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct rig rig = {
            .n = 2, .transport = tcp ? "tcp" : "shm", .dead_ms = ALIVE_MS, .body = two_roots};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, WAIT_S, 0), 0);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(rig.shared->status[rank], GYRE_MISMATCH);
            assert_non_null(strstr(rig.shared->error[rank], "broadcast f32 from rank 1"));
        }
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

/* Rank 1 waits for a root that is none; the others are twenty operations further when they notice,
 * beyond what their states tell of the past. */
static int part(struct gyre_comm *comm, struct rig *rig)
{
    bool apart = gyre_rank(comm) == 1;
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n); /* whoever still joins would be told there */
    uint64_t since = rig_now();
    float data[2] = {0};
    int status = 0;
    for (int i = 0; !status && i < 20; i++)
        status = gyre_broadcast(comm, data, data, 2, GYRE_F32, apart ? 2 : 0);
    if (!status)
        status = gyre_all_reduce(comm, data, data, 2, GYRE_F32, GYRE_SUM);
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status == 0;
}

static void parted_ranks_are_told(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++)
        run_disagreement(
            (struct rig){.transport = tcp ? "tcp" : "shm", .dead_ms = 5000, .body = part});
}

/* Everybody else has nothing left to do but to say goodbye. A rank is stopped before the others
 * begin to wait for its goodbye: they wait little longer than the dead time. */
static int part_from_a_victim(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm);
    float x = 1;
    int status = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
    rig->shared->ready++;
    while (rank == 1)
        pause();
    rig_until(&rig->shared->flag, 1);
    rig->shared->status[rank] = gyre_finalize(comm);
    snprintf(rig->shared->error[rank], sizeof rig->shared->error[rank], "%s", gyre_error(NULL));
    return status;
}

static void a_rank_lost_before_its_goodbye_is_told(void **state)
{
    static const struct {
        const char *transport;
        int per_node, number;
    } runs[] = {{"shm", 0, SIGKILL},
                {"tcp", 0, SIGKILL},
                {"auto", 2, SIGKILL},
                {"shm", 0, SIGSTOP},
                {"tcp", 0, SIGSTOP}};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct rig rig = {.n = 3,
                          .transport = runs[i].transport,
                          .per_node = runs[i].per_node,
                          .dead_ms = runs[i].number == SIGSTOP ? 5000 : ALIVE_MS,
                          .body = part_from_a_victim};
        rig_start(&rig);
        rig_until(&rig.shared->ready, 3);
        if (runs[i].number == SIGSTOP)
            rig_stop(&rig, 1);
        rig.shared->flag = 1;
        kill(rig.pid[1], runs[i].number);
        assert_int_equal(rig_wait(&rig, WAIT_S, 1u << 1), 0);
        for (int rank = 0; rank < 3; rank += 2) {
            assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
            assert_non_null(strstr(rig.shared->error[rank], "rank 1 "));
        }
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

/* -- a rank that skips, one that never comes --------------------------------------------------- */

static int skip_one(struct gyre_comm *comm, struct rig *rig)
{
    float x = 1;
    uint64_t since = rig_now();
    bool skips = gyre_rank(comm) == 1;
    int status = 0;
    if (skips) { /* computes; its heart beats */
        rig_until(&rig->shared->ready, 2);
    } else {
        status = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
        rig_note(rig, comm, status, since);
        rig->shared->ready++;
    }
    gyre_finalize(comm);
    return !skips && status != GYRE_TIMED_OUT;
}

static int leave_early(struct gyre_comm *comm, struct rig *rig)
{
    float x = 1;
    uint64_t since = rig_now();
    int status = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
    if (!status && gyre_rank(comm) == *(const int *)rig->argument)
        return gyre_finalize(comm) != GYRE_MISMATCH;
    if (!status)
        status = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status != GYRE_MISMATCH;
}

static void who_leaves_early_is_named(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++)
        for (int leaver = 0; leaver < 3; leaver += 2) {
            char name[16];
            struct rig rig = {.n = 3,
                              .transport = tcp ? "tcp" : "shm",
                              .dead_ms = ALIVE_MS,
                              .body = leave_early,
                              .argument = &leaver};
            snprintf(name, sizeof name, "rank %d", leaver);
            rig_start(&rig);
            assert_int_equal(rig_wait(&rig, WAIT_S, 0), 0);
            for (int rank = 0; rank < 3; rank++)
                if (rank != leaver && (!strstr(rig.shared->error[rank], name) ||
                                       !strstr(rig.shared->error[rank], "has left")))
                    fail_msg("%s: rank %d tells: %s", rig.transport, rank, rig.shared->error[rank]);
            munmap(rig.shared, sizeof(*rig.shared));
        }
}

static void operation_time_limit_names_who_is_missing(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct rig rig = {.n = 3,
                          .transport = tcp ? "tcp" : "shm",
                          .dead_ms = ALIVE_MS,
                          .timeout_ms = 700,
                          .body = skip_one};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, WAIT_S, 0), 0);
        for (int rank = 0; rank < 3; rank += 2)
            if (!strstr(rig.shared->error[rank], "rank 1"))
                fail_msg("%s: rank %d tells: %s", rig.transport, rank, rig.shared->error[rank]);
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

/* -- abort, fork, runaway root ----------------------------------------------------------------- */

static int abort_it(struct gyre_comm *comm, struct rig *rig)
{
    float x = 1;
    uint64_t since = rig_now();
    int status = gyre_barrier(comm); /* of which rank 2 may be the first to know the end */
    if (gyre_rank(comm) == 2)
        gyre_abort(comm, "the disk is full");
    if (!status)
        status = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
    for (int i = 0; i < 1000 && !status; i++)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    gyre_finalize(comm);
    return status != GYRE_ABORTED;
}

static void abort_ends_everybody(void **state)
{
    struct rig rig = {.n = 3, .dead_ms = ALIVE_MS, .body = abort_it};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, WAIT_S, 0), 0);
    for (int rank = 0; rank < 3; rank++)
        assert_non_null(strstr(rig.shared->error[rank], "disk is full"));
    munmap(rig.shared, sizeof(*rig.shared));
}

static int fork_and_use(struct gyre_comm *comm, struct rig *rig)
{
    float x = 1;
    int status;
    (void)rig;
    pid_t child = fork();
    if (child == 0)
        _exit(gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM) == GYRE_FORKED &&
                      gyre_finalize(comm) == GYRE_FORKED
                  ? 0
                  : 1);
    waitpid(child, &status, 0);
    int bad = gyre_all_reduce(comm, &x, &x, 1, GYRE_F32, GYRE_SUM);
    return status || bad || x != (float)gyre_size(comm) || gyre_finalize(comm);
}

static void forked_child_cannot_use_it(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .body = fork_and_use}, 20), 0);
}

#define THE_LAST UINT32_MAX

/* Broadcasts until the test has had enough, in which a leaf is stopped now and then: the root waits
 * for it, and every value is right. */
static int broadcast_many(struct gyre_comm *comm, struct rig *rig)
{
    for (uint32_t i = 0;; i++) {
        uint32_t right = i % (1u << 24) * 7, value = 0;
        if (gyre_rank(comm) == 0) {
            value = rig->shared->ready ? THE_LAST : right;
            rig->shared->flag = (int)i;
        }
        if (gyre_broadcast(comm, &value, &value, 1, GYRE_I32, 0))
            return 1;
        if (value == THE_LAST)
            return gyre_finalize(comm);
        if (value != right)
            return 1;
    }
}

static bool sleeps(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *behind = strrchr(text, ')');
    return behind && behind[2] == 'S';
}

/* Until rank 0 gets no further: a root that does not wait for its leaf would overrun it now. */
static void until_root_waits(const struct rig *rig)
{
    uint64_t limit = rig_now() + 60 * 1000000000ull * (uint64_t)rig_slow();
    for (int seen = -1, looks = 0; looks < 100;) {
        int now = rig->shared->flag;
        assert_true(rig_now() < limit);
        looks = now == seen ? looks + sleeps(rig->pid[0]) : 0;
        seen = now;
        usleep(500);
    }
}

/* `apart`: so many broadcasts between two stops. */
static void stop_a_leaf(const char *transport, int n, int apart)
{
    struct rig rig = {.n = n, .transport = transport, .dead_ms = 20000, .body = broadcast_many};
    rig_start(&rig);
    for (int stop = 0; stop < 5; stop++) {
        int leaf = 1 + stop % (n - 1);
        rig_until(&rig.shared->flag, rig.shared->flag + apart);
        rig_stop(&rig, leaf);
        until_root_waits(&rig);
        kill(rig.pid[leaf], SIGCONT);
    }
    rig.shared->ready = 1;
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    munmap(rig.shared, sizeof(*rig.shared));
}

static void root_does_not_overrun_a_stopped_leaf(void **state)
{
    (void)state;
    stop_a_leaf("shm", 2, 15000);
    stop_a_leaf("shm", 3, 15000);
    stop_a_leaf("tcp", 3, 5000); /* more than a leaf's store takes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_rank_is_named),
        cmocka_unit_test(stopped_rank_is_named),
        cmocka_unit_test(child_that_outlives_its_rank),
        cmocka_unit_test(late_writes_are_not_seen),
        cmocka_unit_test(disagreeing_ranks_are_told),
        cmocka_unit_test(two_roots_at_the_end_are_told),
        cmocka_unit_test(a_rank_lost_before_its_goodbye_is_told),
        cmocka_unit_test(parted_ranks_are_told),
        cmocka_unit_test(who_leaves_early_is_named),
        cmocka_unit_test(operation_time_limit_names_who_is_missing),
        cmocka_unit_test(abort_ends_everybody),
        cmocka_unit_test(forked_child_cannot_use_it),
        cmocka_unit_test(root_does_not_overrun_a_stopped_leaf),
    };
    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
