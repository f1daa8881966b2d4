/* Calls that one rank gets wrong, with real processes: it is refused there, and every rank is told
 * within the dead time, by GYRE_MISMATCH and a story that says who refused what, whether the others
 * wait for it, have got away with their call, or it is late to its own end. Whoever calls again
 * loses nothing. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEAD_MS 2000
#define N       3

enum { AS_THEY_ARE, BUSY, AGAIN };

/* A call of all ranks that `bad` gets wrong. */
struct wrong {
    int (*call)(struct gyre_comm *comm, bool bad);
    const char *story;
    int culprit;
    int manner; /* the culprit's next act: ends; computes until the others end; calls again */
};

static float from[64], to[64];

static int wrong_root(struct gyre_comm *comm, bool bad)
{
    return gyre_broadcast(comm, from, to, 8, GYRE_F32, bad ? 7 : 0);
}

static int overlap(struct gyre_comm *comm, bool bad)
{
    return gyre_all_reduce(comm, from, bad ? from + 1 : to, 8, GYRE_F32, GYRE_SUM);
}

static int overlap_of_gather(struct gyre_comm *comm, bool bad)
{
    return gyre_gather(comm, from, bad ? from + 1 : to, 8, GYRE_F32, 0);
}

static int overlap_of_reduce(struct gyre_comm *comm, bool bad)
{
    return gyre_reduce(comm, from, bad ? from + 1 : to, 8, GYRE_F32, GYRE_SUM, 1);
}

static int no_counts(struct gyre_comm *comm, bool bad)
{
    static const uint64_t counts[N] = {2, 2, 2};
    return gyre_all_to_all_v(comm, from, bad ? NULL : counts, NULL, to, counts, NULL, GYRE_F32);
}

static int too_many(struct gyre_comm *comm, bool bad)
{
    struct gyre_work *work;
    int status =
        gyre_all_reduce_start(comm, from, to, bad ? UINT64_MAX / 2 : 8, GYRE_F32, GYRE_SUM, &work);
    return status ? status : gyre_work_wait(work, -1);
}

/* The call behind the one that is refused is the same, so only their number differs. They go alone:
 * of calls that go as one one less is another operation, which is told at once. */
static int in_group(struct gyre_comm *comm, bool bad)
{
    static const uint64_t one[N] = {1, 1, 1};
    int status = gyre_group_start(comm);
    if (status)
        return status;
    status = gyre_broadcast(comm, from, to, 1, GYRE_F32, 0);
    int refused =
        gyre_all_gather_v(comm, from, to + 1, one, NULL, bad ? (enum gyre_type)99 : GYRE_F32);
    if (!status)
        status = gyre_all_gather_v(comm, from, to + 40, one, NULL, GYRE_F32);
    int ended = gyre_group_end(comm);
    return status ? status : ended ? ended : refused;
}

static int message(struct gyre_comm *comm, bool bad)
{
    if (gyre_rank(comm) == 0)
        return gyre_recv(comm, to, 8, GYRE_F32, 1);
    return gyre_rank(comm) == 1 ? gyre_send(comm, from, 8, GYRE_F32, bad ? N : 0) : 0;
}

static int started_message(struct gyre_comm *comm, bool bad)
{
    struct gyre_work *work;
    int status = 0;
    if (gyre_rank(comm) == 0)
        status = gyre_recv_start(comm, to, 8, GYRE_F32, 1, &work);
    if (gyre_rank(comm) == 1)
        status = gyre_send_start(comm, from, 8, GYRE_F32, 0, bad ? NULL : &work);
    return status || gyre_rank(comm) == 2 ? status : gyre_work_wait(work, -1);
}

static int split(struct gyre_comm *comm, bool bad)
{
    struct gyre_comm *part;
    return gyre_split(comm, 0, 0, bad ? NULL : &part);
}

/* In a part of which rank 2 is none. */
static int in_part(struct gyre_comm *comm, bool bad)
{
    static struct gyre_comm *part;
    int status = part ? 0 : gyre_split(comm, gyre_rank(comm) < 2, 0, &part);
    return status ? status : gyre_scatter(part, from, bad ? from + 1 : to, 8, GYRE_F32, 1);
}

static void note(struct rig *rig, int rank, int status, uint64_t since, const char *story)
{
    rig->shared->took_ns[rank] = rig_now() - since;
    rig->shared->status[rank] = status;
    snprintf(rig->shared->error[rank], sizeof(rig->shared->error[rank]), "%s", story);
}

static int go_wrong(struct gyre_comm *comm, struct rig *rig)
{
    const struct wrong *wrong = rig->argument;
    int rank = gyre_rank(comm), barrier = gyre_barrier(comm);
    bool bad = rank == wrong->culprit;
    uint64_t since = rig_now();
    int status = barrier ? barrier : wrong->call(comm, bad);
    if (bad && rig_check(status == GYRE_INVALID, comm, "it was not refused"))
        return 1;
    if (bad && wrong->manner == AGAIN)
        status = wrong->call(comm, false);
    if (bad && wrong->manner == BUSY)
        rig_until(&rig->shared->ready, rig->n - 1);
    if (status && status != GYRE_INVALID)
        note(rig, rank, status, since, gyre_error(comm));
    int ended = gyre_finalize(comm);
    if (!rig->shared->status[rank])
        note(rig, rank, ended, since, gyre_error(NULL));
    rig->shared->ready += !bad;
    return ended != rig->shared->status[rank];
}

/* One job that goes wrong. They wait more than they work, so some run beside each other. */
struct trial {
    struct rig rig;
    struct wrong wrong;
};

#define AT_ONCE 4

static void start_trial(struct trial *trial)
{
    trial->rig.n = trial->rig.n ? trial->rig.n : N;
    trial->rig.dead_ms = DEAD_MS;
    trial->rig.body = go_wrong;
    trial->rig.argument = &trial->wrong;
    rig_start(&trial->rig);
}

static void end_trial(struct trial *trial)
{
    const struct wrong *wrong = &trial->wrong;
    const struct rig *rig = &trial->rig;
    const int expected = wrong->manner == AGAIN ? GYRE_OK : GYRE_MISMATCH;
    int bad = rig_wait(&trial->rig, 20, 0);
    for (int rank = 0; rank < rig->n; rank++) {
        const char *story = rig->shared->error[rank];
        int took_ms = (int)(rig->shared->took_ns[rank] / 1000000);
        bool late = took_ms >= DEAD_MS * rig_slow() && !(rank == wrong->culprit);
        if (bad || late || rig->shared->status[rank] != expected ||
            (expected && !strstr(story, wrong->story)))
            fail_msg("%s, nodes of %d: rank %d ended with %s after %d ms and tells \"%s\", not "
                     "\"%s\"",
                     rig->transport, rig->per_node, rank,
                     gyre_status_name(rig->shared->status[rank]), took_ms, story, wrong->story);
    }
    munmap(rig->shared, sizeof(*rig->shared));
}

static void run_trials(struct trial *trial, size_t count)
{
    for (size_t i = 0; i < count + AT_ONCE; i++) {
        if (i >= AT_ONCE && i - AT_ONCE < count)
            end_trial(&trial[i - AT_ONCE]);
        if (i < count)
            start_trial(&trial[i]);
    }
}

static const struct wrong calls[] = {
    {wrong_root, "rank 1 refused gyre_broadcast: root 7 is not a rank of 0 … 2", 1, BUSY},
    {overlap, "rank 1 refused gyre_all_reduce: input and output overlap", 1, BUSY},
    {overlap_of_gather, "rank 0 refused gyre_gather: input and output overlap", 0, BUSY},
    {overlap_of_reduce, "rank 1 refused gyre_reduce: input and output overlap", 1, BUSY},
    {no_counts, "rank 2 refused gyre_all_to_all_v: the table of send counts is NULL", 2, BUSY},
    {too_many, "rank 2 refused gyre_all_reduce_start: 1 × 9223372036854775807 elem", 2, BUSY},
    {in_group, "rank 1 refused gyre_all_gather_v: type 99 is unknown", 1, BUSY},
    {message, "rank 1 refused gyre_send: peer 3 is not a rank of 0 … 2", 1, BUSY},
    {started_message, "rank 1 refused gyre_send_start: the place for the handle is NULL", 1, BUSY},
    {split, "rank 0 refused gyre_split: the place for the communicator is NULL", 0, BUSY},
    {in_part, "rank 1 refused gyre_scatter: input and output overlap", 1, BUSY},
};

#define CALLS      (sizeof(calls) / sizeof(*calls))
#define EVERYWHERE 4

/* Adds one job over shared memory and one over tcp. */
static size_t add_both(struct trial *trial, size_t count, const struct wrong *wrong)
{
    trial[count++] = (struct trial){{.transport = "shm"}, *wrong};
    trial[count++] = (struct trial){{.transport = "tcp"}, *wrong};
    return count;
}

static void ranks_that_wait_are_told(void **state)
{
    struct trial trial[CALLS + EVERYWHERE + 2] = {
        {{.transport = "auto", .per_node = 2}, calls[0]},
        {{.transport = "auto", .per_node = 1}, calls[1]},
    };
    size_t count = 2;
    (void)state;
    for (size_t i = 0; i < CALLS; i++) { /* the last ones by turns, to be done sooner */
        if (i < EVERYWHERE || i % 2)
            trial[count++] = (struct trial){{.transport = "tcp"}, calls[i]};
        if (i < EVERYWHERE || i % 2 == 0)
            trial[count++] = (struct trial){{.transport = "shm"}, calls[i]};
    }
    run_trials(trial, count);
}

/* Two ranks, of which one has nobody to wait for but at its end. */
static void lonely_root_is_told_at_its_end(void **state)
{
    struct wrong wrong = calls[0];
    (void)state;
    wrong.story =
        "rank 1 refused gyre_broadcast: root 7 is not a rank of 0 … 1, and has not called "
        "it again for 1.";
    struct trial trial[] = {{{.n = 2, .transport = "shm"}, wrong},
                            {{.n = 2, .transport = "tcp"}, wrong}};
    if (rig_slow() == 1)
        run_trials(trial, 2);
}

/* What a message that was refused has to do with one that somebody waits for is not known. */
static bool of_message(const struct wrong *wrong)
{
    return wrong->call == message || wrong->call == started_message;
}

#define TIMES 3

/* Whoever ends first, it is told. */
static void ends_after_a_refusal_are_told_to_all(void **state)
{
    static char story[CALLS][200];
    struct trial trial[2 * TIMES * CALLS];
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < TIMES * CALLS; i++) {
        struct wrong wrong = calls[i % CALLS];
        snprintf(story[i % CALLS], sizeof(*story), "refused%s", strstr(wrong.story, " gyre_"));
        wrong.story = of_message(&wrong) ? "rank 1" : story[i % CALLS];
        wrong.manner = AS_THEY_ARE;
        count = add_both(trial, count, &wrong);
    }
    run_trials(trial, count);
}

static void corrected_calls_cost_nothing(void **state)
{
    struct trial trial[2 * CALLS];
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        struct wrong wrong = calls[i];
        wrong.manner = AGAIN;
        if (wrong.call != in_group) /* what others wait in was the middle of it */
            count = add_both(trial, count, &wrong);
    }
    run_trials(trial, count);
}

/* All are refused alike, or one is and calls again; then that one computes for longer than a
 * refusal may stand, and the others wait for it. */
static int late_after_all(struct gyre_comm *comm, struct rig *rig)
{
    bool all = *(const bool *)rig->argument;
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    int refused = all || rank == 1 ? wrong_root(comm, true) : GYRE_INVALID;
    if (!all && !status)
        status = wrong_root(comm, false);
    uint64_t since = rig_now(), wait = DEAD_MS * 700000ull * (uint64_t)rig_slow();
    while (rank == 1 && rig_now() - since < wait)
        rig->shared->flag++;
    if (!status)
        status = overlap(comm, false);
    return gyre_finalize(comm) || status || refused != GYRE_INVALID;
}

static void late_rank_is_not_blamed_for_what_is_mended(void **state)
{
    static const bool all[4] = {false, false, true, true};
    struct rig rig[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        rig[i] = (struct rig){.n = 2,
                              .transport = i % 2 ? "tcp" : "shm",
                              .dead_ms = DEAD_MS,
                              .body = late_after_all,
                              .argument = (void *)(uintptr_t)&all[i]};
        rig_start(&rig[i]);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig_wait(&rig[i], 20, 0), 0);
        munmap(rig[i].shared, sizeof(*rig[i].shared));
    }
}

/* Rank 1 computes until rank 0 has ended: that waits for one dead time. */
static int end_alone(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    if (rank == 1)
        rig_until(&rig->shared->ready, 1);
    uint64_t since = rig_now();
    int ended = gyre_finalize(comm);
    note(rig, rank, ended, since, "");
    rig->shared->ready++;
    return status || ended;
}

static void end_waits_for_one_dead_time(void **state)
{
    struct rig rig[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig[i] = (struct rig){
            .n = 2, .transport = i ? "tcp" : "shm", .dead_ms = DEAD_MS / 2, .body = end_alone};
        rig_start(&rig[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_wait(&rig[i], 20, 0), 0);
        uint64_t ms = rig[i].shared->took_ns[0] / 1000000 / (uint64_t)rig_slow();
        assert_in_range(ms, DEAD_MS / 2 - 50, DEAD_MS * 9 / 10);
        munmap(rig[i].shared, sizeof(*rig[i].shared));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_wait_are_told),
        cmocka_unit_test(lonely_root_is_told_at_its_end),
        cmocka_unit_test(ends_after_a_refusal_are_told_to_all),
        cmocka_unit_test(corrected_calls_cost_nothing),
        cmocka_unit_test(late_rank_is_not_blamed_for_what_is_mended),
        cmocka_unit_test(end_waits_for_one_dead_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
