/* Calls that one rank gets wrong, with real processes: it is refused there, and every rank is told
 * within the dead time, by GYRE_MISMATCH and a story that says who refused what, whether the others
 * wait for it, have got away with their call, or it is late to its own end. Whoever calls again
 * loses nothing.
 *
 * A machine that keeps a rank from running for a second or more makes another story true: the rank
 * has not called again, is silent, or others have left without it. So a job that ended otherwise
 * than it should, and after long enough for that, is played again with a longer dead time.
 *
 * In haste ends after a refusal are played once for each call, not three times, and a rank is late
 * in each manner over one transport. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N 3

/* The dead time of each attempt. The last is longer than a starved process may stand still. */
static const int dead_ms[] = {2000, 10000, 40000};

#define ATTEMPTS (sizeof(dead_ms) / sizeof(*dead_ms))

enum manner {
    AS_THEY_ARE, /* the culprit ends */
    BUSY,        /* it computes until the others have ended */
    AGAIN,       /* it calls again; here and below no rank is told of anything */
    LATE,        /* it calls again, and is late to the next call */
    ALL_LATE,    /* all are refused alike, and the culprit is late to the next call */
    ALONE        /* the culprit comes to its end when the others have gone */
};

/* A call of all ranks that `bad` gets wrong. */
struct wrong {
    int (*call)(struct gyre_comm *comm, bool bad);
    const char *story;
    int culprit;
    enum manner manner;
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
    bool right;
};

#define AT_ONCE 4

static int late_after_all(struct gyre_comm *comm, struct rig *rig);
static int end_alone(struct gyre_comm *comm, struct rig *rig);

static void start_trial(struct trial *trial, size_t attempt)
{
    const enum manner manner = trial->wrong.manner;
    trial->rig.n = trial->rig.n ? trial->rig.n : N;
    trial->rig.dead_ms = dead_ms[attempt];
    trial->rig.body = manner == ALONE ? end_alone : manner >= LATE ? late_after_all : go_wrong;
    trial->rig.argument = &trial->wrong;
    rig_start(&trial->rig);
}

static int took_ms(const struct rig *rig, int rank)
{
    return (int)(rig->shared->took_ns[rank] / 1000000) / rig_slow();
}

/* Whether the rank ended in time: who is not to blame is told within the dead time, and at its end
 * waits for half a dead time longer. */
static bool in_time(const struct trial *trial, int rank)
{
    const int dead = trial->rig.dead_ms, took = took_ms(&trial->rig, rank);
    if (rank == trial->wrong.culprit)
        return true;
    if (trial->wrong.manner == ALONE)
        return took >= dead && took < 2 * dead;
    return took < dead;
}

/* Whether a rank that stood still may be the cause of what the ranks tell. A rank that has noted
 * nothing has crashed. */
static bool may_have_starved(const struct rig *rig)
{
    bool long_enough = false;
    for (int rank = 0; rank < rig->n; rank++) {
        if (!rig->shared->took_ns[rank])
            return false;
        long_enough |= took_ms(rig, rank) >= rig->dead_ms / 2 ||
                       strstr(rig->shared->error[rank], "has been silent for the dead time");
    }
    return long_enough;
}

static void end_trial(struct trial *trial, size_t attempt)
{
    const struct wrong *wrong = &trial->wrong;
    const struct rig *rig = &trial->rig;
    const int expected = wrong->manner >= AGAIN ? GYRE_OK : GYRE_MISMATCH;
    int bad = rig_wait(&trial->rig, 4 * rig->dead_ms / 1000, 0);
    trial->right = true;
    for (int rank = 0; rank < rig->n; rank++) {
        const char *story = rig->shared->error[rank];
        if (!bad && in_time(trial, rank) && rig->shared->status[rank] == expected &&
            (!expected || strstr(story, wrong->story)))
            continue;
        trial->right = false;
        if (attempt + 1 == ATTEMPTS || !may_have_starved(rig))
            fail_msg("%s, nodes of %d: rank %d ended with %s after %d ms and tells \"%s\", not "
                     "\"%s\"",
                     rig->transport, rig->per_node, rank,
                     gyre_status_name(rig->shared->status[rank]), took_ms(rig, rank), story,
                     expected ? wrong->story : "");
    }
    munmap(rig->shared, sizeof(*rig->shared));
}

/* Moves those that did not come out right to the front, and returns how many. */
static size_t keep_wrong(struct trial *trial, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!trial[i].right)
            trial[kept++] = trial[i];
    return kept;
}

static void run_trials(struct trial *trial, size_t count)
{
    for (size_t attempt = 0; count > 0; attempt++) {
        for (size_t i = 0; i < count + AT_ONCE; i++) {
            if (i >= AT_ONCE && i - AT_ONCE < count)
                end_trial(&trial[i - AT_ONCE], attempt);
            if (i < count)
                start_trial(&trial[i], attempt);
        }
        count = keep_wrong(trial, count);
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
    trial[count++] = (struct trial){{.transport = "shm"}, *wrong, false};
    trial[count++] = (struct trial){{.transport = "tcp"}, *wrong, false};
    return count;
}

static void ranks_that_wait_are_told(void **state)
{
    struct trial trial[CALLS + EVERYWHERE + 2] = {
        {{.transport = "auto", .per_node = 2}, calls[0], false},
        {{.transport = "auto", .per_node = 1}, calls[1], false},
    };
    size_t count = 2;
    (void)state;
    for (size_t i = 0; i < CALLS; i++) { /* the last ones by turns, to be done sooner */
        if (i < EVERYWHERE || i % 2)
            trial[count++] = (struct trial){{.transport = "tcp"}, calls[i], false};
        if (i < EVERYWHERE || i % 2 == 0)
            trial[count++] = (struct trial){{.transport = "shm"}, calls[i], false};
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
        "it again for ";
    struct trial trial[] = {{{.n = 2, .transport = "shm"}, wrong, false},
                            {{.n = 2, .transport = "tcp"}, wrong, false}};
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
    for (size_t i = 0; i < (in_haste() ? 1 : TIMES) * CALLS; i++) {
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

/* Computes for longer than a refusal may stand, while the others wait. */
static int late_after_all(struct gyre_comm *comm, struct rig *rig)
{
    const struct wrong *wrong = rig->argument;
    bool all = wrong->manner == ALL_LATE;
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    int refused = all || rank == wrong->culprit ? wrong_root(comm, true) : GYRE_INVALID;
    uint64_t since = rig_now();
    if (!all && !status)
        status = wrong_root(comm, false);
    uint64_t wait = (uint64_t)rig->dead_ms * 700000ull * (uint64_t)rig_slow();
    while (rank == wrong->culprit && rig_now() - since < wait)
        rig->shared->flag++;
    if (!status)
        status = overlap(comm, false);
    note(rig, rank, status, since, gyre_error(comm));
    return gyre_finalize(comm) || status || refused != GYRE_INVALID;
}

static void late_rank_is_not_blamed_for_what_is_mended(void **state)
{
    struct trial trial[4];
    size_t count = 0;
    (void)state;
    for (enum manner manner = LATE; manner <= ALL_LATE; manner++)
        count = add_both(trial, count, &(struct wrong){.culprit = 1, .manner = manner});
    if (in_haste()) { /* the first over shared memory, the second over tcp */
        trial[1] = trial[3];
        count = 2;
    }
    for (size_t i = 0; i < count; i++)
        trial[i].rig.n = 2;
    run_trials(trial, count);
}

/* Rank 1 computes until rank 0 has ended: that waits for one and a half dead times. */
static int end_alone(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    if (rank == 1)
        rig_until(&rig->shared->ready, 1);
    uint64_t since = rig_now();
    int ended = gyre_finalize(comm);
    note(rig, rank, ended, since, gyre_error(NULL));
    rig->shared->ready++;
    return status || ended;
}

static void end_waits_for_more_than_one_dead_time(void **state)
{
    struct trial trial[2];
    size_t count = add_both(trial, 0, &(struct wrong){.culprit = 1, .manner = ALONE});
    (void)state;
    for (size_t i = 0; i < count; i++)
        trial[i].rig.n = 2;
    run_trials(trial, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_wait_are_told),
        cmocka_unit_test(lonely_root_is_told_at_its_end),
        cmocka_unit_test(ends_after_a_refusal_are_told_to_all),
        cmocka_unit_test(corrected_calls_cost_nothing),
        cmocka_unit_test(late_rank_is_not_blamed_for_what_is_mended),
        cmocka_unit_test(end_waits_for_more_than_one_dead_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
