/* Several communicators with real processes: who is in which, operations on many at once, from
 * several threads, and a failure in one of them, which ends all with one story. In haste parts come
 * and go 30 times, not 100. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEAD_MS 1000

/* The sum of 1 … n in every element, over few and many elements. */
static int sum_over(struct gyre_comm *comm, int32_t *data, uint64_t count)
{
    int n = gyre_size(comm), bad = 0;
    for (uint64_t i = 0; i < count; i++)
        data[i] = gyre_rank(comm) + 1;
    if (gyre_all_reduce(comm, data, data, count, GYRE_I32, GYRE_SUM))
        return rig_check(false, comm, "all_reduce");
    for (uint64_t i = 0; i < count; i++)
        bad |= data[i] != n * (n + 1) / 2;
    return rig_check(!bad, comm, "sum");
}

/* -- who is in which --------------------------------------------------------------------------- */

/* Odd and even ranks, each in reverse order; rank 0 in none. */
static int reversed(struct gyre_comm *world, struct rig *rig)
{
    static int32_t data[100000];
    struct gyre_comm *part = world;
    int rank = gyre_rank(world), n = gyre_size(world), bad = 0;
    (void)rig;
    for (int round = 0; round < 12 && !bad; round++) {
        bad |= rig_check(!gyre_split(world, rank ? rank % 2 : -1, -rank, &part), world, "split");
        bad |= rig_check((part == NULL) == (rank == 0), world, "who gets one");
        if (bad || !part)
            continue;
        int size = rank % 2 ? n / 2 : (n - 1) / 2;
        bad |= rig_check(gyre_size(part) == size, world, "size");
        bad |= rig_check(gyre_rank(part) == (n - 1 - rank) / 2, world, "rank");
        bad |= rig_check(gyre_local_rank(part) < gyre_local_size(part), world, "local rank");
        for (uint64_t count = 1; count <= 100000 && !bad; count *= 100)
            bad |= sum_over(part, data, count);
        bad |= rig_check(!gyre_finalize(part), world, "finalize of a part");
    }
    bad |= sum_over(world, data, 5);
    return gyre_finalize(world) || bad;
}

static void parts_are_ranked_by_key(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(5, reversed), 0);
}

/* The watch's states are older than the calls: what they still tell of a part that has ended must
 * not be held against another one that has its place, as the end of the world would. */
static int come_and_go(struct gyre_comm *world, struct rig *rig)
{
    struct gyre_comm *part;
    int32_t data[4];
    int bad = 0;
    (void)rig;
    for (int round = 0; round < (in_haste() ? 30 : 100) && !bad; round++) {
        bad |= rig_check(!gyre_split(world, 0, 0, &part), world, "split");
        for (int call = 0; call < round % 3 && !bad; call++)
            bad |= round % 2 ? sum_over(part, data, 4)
                             : rig_check(!gyre_broadcast(part, data, data, 3, GYRE_I32, 0), part,
                                         "broadcast");
        bad = bad || rig_check(!gyre_finalize(part), world, "finalize of a part");
    }
    bad = bad || rig_check(!gyre_split(world, gyre_rank(world), 0, &part), world, "one each");
    return rig_check(!gyre_finalize(world), NULL, "finalize") || bad;
}

static void parts_come_and_go(void **state)
{
    (void)state;
    for (int job = 0; job < 10; job++)
        assert_int_equal(
            rig_run(&(struct rig){.n = 3, .dead_ms = DEAD_MS, .body = come_and_go}, 20), 0);
}

/* A message that nobody received in one part must not reach a receive in the part after it. */
static int lose_a_message(struct gyre_comm *world, struct rig *rig)
{
    struct gyre_comm *part;
    int32_t word = 0;
    int bad = 0;
    (void)rig;
    for (int32_t round = 0; round < 2 && !bad; round++) {
        bad |= rig_check(!gyre_split(world, 0, 0, &part), world, "split");
        if (!bad && gyre_rank(world) == 0)
            bad |= rig_check(!gyre_send(part, &round, 1, GYRE_I32, 1), part, "send");
        if (!bad && gyre_rank(world) == 1 && round == 1)
            bad |= rig_check(!gyre_recv(part, &word, 1, GYRE_I32, 0) && word == 1, part, "recv");
        bad = bad || rig_check(!gyre_finalize(part), world, "finalize of a part");
    }
    return rig_check(!gyre_finalize(world), NULL, "finalize") || bad;
}

static void lost_messages_stay_lost(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, lose_a_message), 0);
}

/* Rows, columns and the world, all with something in flight, round by round; the world's end frees
 * the rest. */
static int grid(struct gyre_comm *world, struct rig *rig)
{
    struct gyre_comm *comm[4] = {world};
    struct gyre_work *work[4];
    int32_t data[4][300];
    int rank = gyre_rank(world), bad = 0;
    (void)rig;
    bad |= rig_check(!gyre_split(world, rank / 2, rank, &comm[1]), world, "rows");
    bad |= rig_check(!gyre_split(world, rank % 2, rank, &comm[2]), world, "columns");
    bad |= rig_check(!bad && !gyre_split(comm[1], 0, -rank, &comm[3]), world, "part of a part");
    for (int round = 0; round < 30 && !bad; round++) {
        int count = round % 2 ? 1 : 300;
        for (int c = 0; c < 4; c++) {
            for (int i = 0; i < count; i++)
                data[c][i] = gyre_rank(comm[c]) + 1;
            bad |= rig_check(!gyre_all_reduce_start(comm[c], data[c], data[c], (uint64_t)count,
                                                    GYRE_I32, GYRE_SUM, &work[c]),
                             comm[c], "start");
        }
        bad |=
            rig_check(!gyre_barrier(comm[round % 4]), world, "barrier while others are in flight");
        for (int c = 3; c >= 0 && !bad; c--) {
            int n = gyre_size(comm[c]);
            bad |= rig_check(!gyre_work_wait(work[c], -1), comm[c], "wait");
            bad |= rig_check(data[c][count - 1] == n * (n + 1) / 2, comm[c], "started sum");
        }
    }
    return gyre_finalize(world) || bad;
}

static void many_in_flight_at_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(4, grid), 0);
}

/* -- threads ----------------------------------------------------------------------------------- */

struct runner {
    struct gyre_comm *comm;
    int bad;
};

static void *reduce_many(void *argument)
{
    struct runner *runner = argument;
    int32_t *data = calloc(20000, sizeof *data);
    for (int round = 0; round < 300 && !runner->bad; round++)
        runner->bad |= sum_over(runner->comm, data, round % 3 ? 1 : 20000);
    free(data);
    return NULL;
}

/* Each thread waits in its own communicator; on two ranks their calls come in any order. */
static int threads(struct gyre_comm *world, struct rig *rig)
{
    struct runner runner[3] = {{.comm = world}};
    pthread_t thread[3];
    int bad = 0;
    (void)rig;
    for (int i = 1; i < 3; i++)
        bad |=
            rig_check(!gyre_split(world, 0, i * gyre_rank(world), &runner[i].comm), world, "split");
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, reduce_many, &runner[(i + gyre_rank(world)) % 3]);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++)
        bad |= runner[i].bad;
    return gyre_finalize(world) || bad;
}

static void threads_on_different_communicators(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, threads), 0);
}

/* -- failures in a part ------------------------------------------------------------------------ */

enum trouble { OTHER_COUNT, SKIPPED, DIES, ABORTS };

static int one_goes_wrong(struct gyre_comm *comm, struct gyre_comm *part, enum trouble trouble)
{
    float data[2] = {1, 1};
    switch (trouble) {
    case OTHER_COUNT:
        return gyre_all_reduce(part, data, data, 2, GYRE_F32, GYRE_SUM);
    case SKIPPED:
        return gyre_barrier(comm);
    case DIES:
        raise(SIGKILL);
        return 0;
    case ABORTS:
        gyre_abort(part, "enough");
        return gyre_barrier(part);
    }
    return 0;
}

/* Ranks 1 to 3 are in the part; rank 2 goes wrong in it; rank 0 waits in the world. */
static int wrong_in_a_part(struct gyre_comm *comm, struct rig *rig)
{
    enum trouble trouble = *(enum trouble *)rig->argument;
    struct gyre_comm *part;
    int rank = gyre_rank(comm), bad = 0;
    float data[1] = {1};
    bad |= rig_check(!gyre_split(comm, rank ? 1 : -1, rank, &part), comm, "split");
    for (int i = 0; i < 5 && part && !gyre_barrier(part); i++)
        continue; /* rank 2 may leave the last one first, and go wrong */
    atomic_fetch_add(&rig->shared->ready, 1);
    if (rank == 2)
        rig_until(&rig->shared->ready, 4); /* rank 0, too, has split */
    uint64_t since = rig_now();
    int status = rank == 0   ? gyre_barrier(comm)
                 : rank == 2 ? one_goes_wrong(comm, part, trouble)
                             : gyre_all_reduce(part, data, data, 1, GYRE_F32, GYRE_SUM);
    rig_note(rig, comm, status, since);
    bad |= rig_check(gyre_barrier(comm) == status, comm, "the world's later calls");
    bad |= rig_check(!part || gyre_barrier(part) == status, comm, "the part's later calls");
    bad |= rig_check(!part || gyre_finalize(part) == status, comm, "the part's end");
    return gyre_finalize(comm) != status || bad;
}

static void expect_story(enum trouble trouble, const char *transport, int per_node, int status,
                         const char *word)
{
    struct rig rig = {.n = 4,
                      .transport = transport,
                      .per_node = per_node,
                      .dead_ms = DEAD_MS,
                      .body = wrong_in_a_part,
                      .argument = &trouble};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 20, trouble == DIES ? 1u << 2 : 0), 0);
    for (int rank = 0; rank < 4; rank++) {
        if (rank == 2 && trouble == DIES)
            continue;
        assert_int_equal(rig.shared->status[rank], status);
        if (!strstr(rig.shared->error[rank], word))
            fail_msg("rank %d: \"%s\" does not tell \"%s\"", rank, rig.shared->error[rank], word);
        if (trouble != DIES) /* its connections may break in many ways */
            assert_string_equal(rig.shared->error[rank], rig.shared->error[0]);
    }
    munmap(rig.shared, sizeof(*rig.shared));
}

static void expect_everywhere(enum trouble trouble, int status, const char *word)
{
    expect_story(trouble, "shm", 0, status, word);
    expect_story(trouble, "tcp", 0, status, word);
    expect_story(trouble, "auto", 2, status, word);
}

static void mismatch_in_a_part_is_named(void **state)
{
    (void)state;
    expect_everywhere(OTHER_COUNT, GYRE_MISMATCH, "rank 2");
}

static void skip_in_a_part_is_named(void **state)
{
    (void)state;
    expect_everywhere(SKIPPED, GYRE_MISMATCH, "communicator 1");
}

static void death_in_a_part_ends_the_world(void **state)
{
    (void)state;
    expect_everywhere(DIES, GYRE_PEER_LOST, "rank 2");
}

static void abort_of_a_part_ends_the_world(void **state)
{
    (void)state;
    expect_everywhere(ABORTS, GYRE_ABORTED, "rank 2 called gyre_abort(): enough");
}

/* -- alone ------------------------------------------------------------------------------------- */

static int alone(struct gyre_comm *world, struct rig *rig)
{
    struct gyre_comm *part, *none = world;
    int32_t data[4];
    int bad = 0;
    (void)rig;
    bad |= rig_check(gyre_split(world, 0, 0, NULL) == GYRE_INVALID, world, "no place");
    bad |= rig_check(gyre_split(NULL, 0, 0, &none) == GYRE_INVALID && !none, world, "no parent");
    bad |= rig_check(!gyre_split(world, gyre_rank(world), 0, &part), world, "one rank a part");
    bad |= rig_check(gyre_size(part) == 1 && gyre_rank(part) == 0, world, "alone in it");
    bad |= sum_over(part, data, 4);
    bad |= rig_check(!gyre_split(part, 3, 0, &none) && gyre_size(none) == 1, world, "split alone");
    bad |= rig_check(!gyre_split(part, -3, 0, &none) && !none, world, "split to nothing");
    bad |= rig_check(!gyre_finalize(part), world, "end alone");
    return gyre_finalize(world) || bad;
}

static void parts_of_one(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = alone}, 20), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 3, .body = alone}, 20), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_ranked_by_key),
        cmocka_unit_test(parts_come_and_go),
        cmocka_unit_test(lost_messages_stay_lost),
        cmocka_unit_test(many_in_flight_at_once),
        cmocka_unit_test(threads_on_different_communicators),
        cmocka_unit_test(mismatch_in_a_part_is_named),
        cmocka_unit_test(skip_in_a_part_is_named),
        cmocka_unit_test(death_in_a_part_ends_the_world),
        cmocka_unit_test(abort_of_a_part_ends_the_world),
        cmocka_unit_test(parts_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
