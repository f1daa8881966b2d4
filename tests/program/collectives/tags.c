/* Messages with tags and from any rank, with real processes: rows that do not wait for each other,
 * the order of receives, who sent what, and what is told when the ends disagree or never meet. */
#include "rig/beside.h"
#include "rig/comm_rig.h"

#include "rig/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEAD_MS 1000
#define LONG    30000 /* elements of a message that waits for its receive */

static void fill(int32_t *data, uint64_t count, int rank, int number)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = rank * 1000003 + number * 101 + (int32_t)i;
}

static bool holds(const int32_t *data, uint64_t count, int rank, int number)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i] != rank * 1000003 + number * 101 + (int32_t)i)
            return false;
    return true;
}

/* -- tags -------------------------------------------------------------------------------------- */

#define TAGS 24
#define ROW  5 /* messages of each tag */

static uint64_t length_of(int tag, int turn)
{
    return (tag + turn) % 3 == 0 ? LONG : (uint64_t)(tag * 31 + turn);
}

struct traffic {
    int32_t out[TAGS][ROW][LONG], in[TAGS][ROW][LONG];
    struct gyre_work *work[2 * TAGS * ROW];
};

/* Sends row by row and receives the rows from behind, so every message but those of the last tag
 * waits for others. */
static int rows_crosswise(struct gyre_comm *comm, struct rig *rig)
{
    struct traffic *t = calloc(1, sizeof *t);
    int n = gyre_size(comm), rank = gyre_rank(comm), right = (rank + 1) % n, bad = 0, started = 0;
    int left = (rank + n - 1) % n;
    (void)rig;
    for (int tag = 0; tag < TAGS && !bad; tag++)
        for (int turn = 0; turn < ROW; turn++) {
            fill(t->out[tag][turn], length_of(tag, turn), rank, tag * ROW + turn);
            bad |= gyre_send_tag_start(comm, t->out[tag][turn], length_of(tag, turn), GYRE_I32,
                                       right, tag * 1000003, &t->work[started++]);
        }
    for (int tag = TAGS; tag-- > 0 && !bad;)
        for (int turn = 0; turn < ROW; turn++)
            bad |=
                rig_check(!gyre_recv_tag(comm, t->in[tag][turn], length_of(tag, turn), GYRE_I32,
                                         left, tag * 1000003) &&
                              holds(t->in[tag][turn], length_of(tag, turn), left, tag * ROW + turn),
                          comm, "a row");
    bad |= rig_check(!bad && !gyre_wait_all(t->work, started, -1), comm, "all sent");
    free(t);
    return gyre_finalize(comm) || bad;
}

/* More receives than a link posts for messages, before the one whose message comes first. */
#define BEFORE 300

static int behind_many(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), right = (rank + 1) % n, bad = 0;
    int left = (rank + n - 1) % n;
    int32_t word = rank, got = -1, *in = calloc(BEFORE, sizeof *in);
    struct gyre_work **work = calloc(BEFORE, sizeof *work);
    (void)rig;
    for (int i = 0; i < BEFORE && !bad; i++)
        bad |= gyre_recv_tag_start(comm, &in[i], 1, GYRE_I32, left, 100 + i, &work[i]);
    bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, right, 7);
    bad |= rig_check(!bad && !gyre_recv_tag(comm, &got, 1, GYRE_I32, left, 7) && got == left, comm,
                     "behind many");
    for (int i = BEFORE; i-- > 0 && !bad;) {
        word = i;
        bad |= rig_check(!gyre_send_tag(comm, &word, 1, GYRE_I32, right, 100 + i), comm, "send");
    }
    bad |= rig_check(!bad && !gyre_wait_all(work, BEFORE, -1), comm, "all came");
    for (int i = 0; i < BEFORE && !bad; i++)
        bad |= rig_check(in[i] == i, comm, "in its place");
    free(work);
    free(in);
    return gyre_finalize(comm) || bad;
}

static void tags_do_not_wait_for_each_other(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, rows_crosswise), 0);
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = rows_crosswise}, 20), 0);
    assert_int_equal(rig_run_everywhere(2, behind_many), 0);
}

/* -- from any rank ----------------------------------------------------------------------------- */

#define EACH 40

/* Message `turn` of a rank: short and long ones, of many lengths. */
static uint64_t length_from(int rank, int turn)
{
    return turn % 5 == 4 ? (uint64_t)(LONG - rank * 100 - turn) : (uint64_t)(turn * 7 + rank);
}

static int send_all(struct gyre_comm *comm, int tag)
{
    int rank = gyre_rank(comm), bad = 0;
    int32_t *out = malloc(LONG * sizeof *out);
    for (int turn = 0; turn < EACH && !bad; turn++) {
        fill(out, length_from(rank, turn), rank, turn);
        bad |= rig_check(!gyre_send_tag(comm, out, length_from(rank, turn), GYRE_I32, 0, tag), comm,
                         "send");
    }
    free(out);
    return bad;
}

struct heard {
    int turn[RIG_RANKS_MAX]; /* of the next message, by rank */
};

static int hear(struct gyre_comm *comm, struct heard *heard, const struct gyre_received *received,
                const int32_t *in)
{
    int source = received->source;
    if (source < 0 || source >= gyre_size(comm))
        return rig_check(false, comm, "a source");
    int turn = heard->turn[source]++;
    return rig_check(received->count == length_from(source, turn) && received->tag == 5 &&
                         holds(in, received->count, source, turn),
                     comm, "the next of that rank");
}

/* Rank 0 receives what all others send, in calls that wait and in started ones. */
static int receive_all(struct gyre_comm *comm)
{
    struct heard heard = {0};
    int32_t *in = malloc(2 * LONG * sizeof *in);
    int left = (gyre_size(comm) - 1) * EACH, bad = 0;
    for (; left > 1 && !bad; left -= 2) {
        struct gyre_received one = {-1, -1, 0}, two = {-1, -1, 0};
        struct gyre_work *work;
        bad |=
            gyre_recv_any_start(comm, in + LONG, LONG, GYRE_I32, GYRE_ANY_SOURCE, 5, &two, &work);
        bad |= rig_check(two.source == -1, comm, "not before the wait");
        bad |= gyre_work_wait(work, -1) || hear(comm, &heard, &two, in + LONG);
        bad |= gyre_recv_any(comm, in, LONG, GYRE_I32, GYRE_ANY_SOURCE, 5, &one);
        bad |= bad || hear(comm, &heard, &one, in);
    }
    free(in);
    return rig_check(!bad && left == 0, comm, "all of all");
}

static int one_hears_all(struct gyre_comm *comm, struct rig *rig)
{
    int bad = gyre_rank(comm) == 0 ? receive_all(comm) : send_all(comm, 5);
    (void)rig;
    return gyre_finalize(comm) || bad;
}

static void one_rank_hears_all(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, one_hears_all), 0);
    assert_int_equal(rig_run_everywhere(5, one_hears_all), 0);
}

static void meet_two(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_LINKS_AT_ONCE", "2", 1);
}

/* Nobody has a link before the first message, which comes from ranks that the receiver has not
 * called. */
static void strangers_of_a_large_node_are_heard(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(
            &(struct rig){.n = 5, .transport = "shm", .before = meet_two, .body = one_hears_all},
            60),
        0);
}

/* -- in a part, to itself ---------------------------------------------------------------------- */

static int of_itself(struct gyre_comm *comm)
{
    int32_t one = 1, two = 2, got = 0;
    struct gyre_received from = {-1, -1, 0};
    int rank = gyre_rank(comm), bad = 0;
    bad |= rig_check(gyre_recv_any(comm, &got, 1, GYRE_I32, rank, 3, &from) == GYRE_INVALID, comm,
                     "nothing sent");
    bad |= gyre_send_tag(comm, &one, 1, GYRE_I32, rank, 2);
    bad |= gyre_send_tag(comm, &two, 1, GYRE_I32, rank, 3);
    bad |= rig_check(!gyre_recv_any(comm, &got, 1, GYRE_I32, rank, 3, &from) && got == 2, comm,
                     "by its tag");
    bad |= rig_check(from.source == rank && from.tag == 3 && from.count == 1, comm, "from itself");
    bad |= rig_check(!gyre_recv_any(comm, &got, 1, GYRE_I32, GYRE_ANY_SOURCE, 2, &from) &&
                         got == 1 && from.source == rank,
                     comm, "from any, itself");
    bad |= rig_check(gyre_recv_tag(comm, &got, 1, GYRE_I32, rank, 2) == GYRE_INVALID, comm,
                     "nothing left");
    bad |= rig_check(gyre_send_tag(comm, &one, 1, GYRE_I32, rank, -1) == GYRE_INVALID, comm, "tag");
    bad |= rig_check(gyre_recv(comm, &one, 1, GYRE_I32, GYRE_ANY_SOURCE) == GYRE_INVALID &&
                         strstr(gyre_error(NULL), "gyre_recv_any"),
                     comm, "any rank by gyre_recv");
    return bad;
}

static int in_parts(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = of_itself(comm);
    struct gyre_comm *part = NULL;
    (void)rig;
    bad |= rig_check(!gyre_split(comm, 0, n - rank, &part), comm, "split");
    bad |= bad || of_itself(part);
    bad |= gyre_rank(part) == 0 ? receive_all(part) : send_all(part, 5);
    bad |= rig_check(!gyre_finalize(part), comm, "end");
    return gyre_finalize(comm) || bad;
}

static void to_itself_and_in_parts(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = in_parts}, 20), 0);
    assert_int_equal(rig_run_everywhere(3, in_parts), 0);
}

/* -- the order of receives --------------------------------------------------------------------- */

/* Rank 0 has called all receives before any message is sent. */
static int in_order_of_calls(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm), bad = 0;
    int32_t got[4] = {0}, word;
    struct gyre_received from[4];
    struct gyre_work *work[4];
    (void)rig;
    if (rank == 0) {
        bad |= gyre_recv_any_start(comm, &got[0], 1, GYRE_I32, 1, 4, &from[0], &work[0]);
        bad |=
            gyre_recv_any_start(comm, &got[1], 1, GYRE_I32, GYRE_ANY_SOURCE, 4, &from[1], &work[1]);
        bad |= gyre_recv_tag_start(comm, &got[2], 1, GYRE_I32, 2, 4, &work[2]);
        bad |= gyre_recv_tag_start(comm, &got[3], 1, GYRE_I32, 1, 6, &work[3]);
    }
    bad |= rig_check(!gyre_barrier(comm), comm, "all are called");
    for (int i = 0; rank == 2 && i < 2; i++) {
        word = 20 + i;
        bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, 0, 4);
    }
    if (rank == 0) { /* of rank 2 alone; the first of all still waits for rank 1 */
        bad |= rig_check(!gyre_wait_all(work + 1, 2, -1) && got[1] == 20 && got[2] == 21 &&
                             from[1].source == 2,
                         comm, "the second and the third");
        bad |= rig_check(gyre_work_test(work[0]) == GYRE_AGAIN, comm, "the first");
    }
    bad |= rig_check(!gyre_barrier(comm), comm, "rank 2 is heard");
    if (rank == 1) {
        word = 11;
        bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, 0, 6);
        word = 10;
        bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, 0, 4);
    }
    if (rank == 0)
        bad |= rig_check(!gyre_work_wait(work[3], -1) && !gyre_work_wait(work[0], -1) &&
                             got[3] == 11 && got[0] == 10 && from[0].source == 1,
                         comm, "rank 1's");
    return gyre_finalize(comm) || bad;
}

static void receives_keep_their_order(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, in_order_of_calls), 0);
}

/* -- threads ----------------------------------------------------------------------------------- */

#define THREADS 5
#define TURNS   150

struct talker {
    struct gyre_comm *comm;
    int tag;
    _Atomic int *bad;
};

/* Sends and receives with blocking calls, under a tag of its own. */
static void *talk(void *argument)
{
    const struct talker *talker = argument;
    struct gyre_comm *comm = talker->comm;
    int n = gyre_size(comm), rank = gyre_rank(comm);
    int right = (rank + 1) % n, left = (rank + n - 1) % n;
    for (int turn = 0; turn < TURNS && !*talker->bad; turn++) {
        int32_t out = rank * 1000 + turn, in = -1;
        struct gyre_received from = {-1, -1, 0};
        int status = gyre_send_tag(comm, &out, 1, GYRE_I32, right, talker->tag);
        if (!status && turn % 2)
            status = gyre_recv_tag(comm, &in, 1, GYRE_I32, left, talker->tag);
        else if (!status)
            status = gyre_recv_any(comm, &in, 1, GYRE_I32, GYRE_ANY_SOURCE, talker->tag, &from);
        *talker->bad |= rig_check(!status && in == left * 1000 + turn, comm, "of its tag");
    }
    return NULL;
}

static int many_talk(struct gyre_comm *comm, struct rig *rig)
{
    pthread_t thread[THREADS];
    struct talker talker[THREADS];
    _Atomic int bad = 0;
    (void)rig;
    for (int i = 0; i < THREADS; i++) {
        talker[i] = (struct talker){comm, 10 + i, &bad};
        pthread_create(&thread[i], NULL, talk, &talker[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return gyre_finalize(comm) || bad;
}

static void threads_talk_at_once(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, many_talk), 0);
}

/* -- long waits -------------------------------------------------------------------------------- */

struct service {
    struct gyre_comm *comm;
    int status, sum, count;
};

/* Adds what comes, until a 0 does. */
static void *serve(void *argument)
{
    struct service *service = argument;
    int32_t word = 1;
    while (word && !service->status) {
        service->status =
            gyre_recv_any(service->comm, &word, 1, GYRE_I32, GYRE_ANY_SOURCE, 9, NULL);
        service->sum += word;
        service->count++;
    }
    return NULL;
}

/* On every rank one thread waits for messages, while the other computes for longer than the dead
 * time: no rank may be taken for one that waits in vain. */
static int serve_and_compute(struct gyre_comm *comm, struct rig *rig)
{
    struct service service = {.comm = comm};
    pthread_t thread;
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    pthread_create(&thread, NULL, serve, &service);
    usleep((useconds_t)(5 * rig->dead_ms / 2) * 1000);
    for (int32_t word = rank + 1; word >= 0 && !bad; word = word ? 0 : -1)
        bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, (rank + 1) % n, 9);
    pthread_join(thread, NULL);
    bad |= rig_check(!service.status && service.count == 2 && service.sum == (rank + n - 1) % n + 1,
                     comm, "the service");
    return gyre_finalize(comm) || bad;
}

/* A started receive of any rank harms nobody while all compute. */
static int compute_meanwhile(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t got = 0, word = rank;
    struct gyre_work *work;
    bad |= gyre_recv_any_start(comm, &got, 1, GYRE_I32, GYRE_ANY_SOURCE, 9, NULL, &work);
    usleep((useconds_t)(5 * rig->dead_ms / 2) * 1000);
    bad |= rig_check(gyre_work_wait(work, 10) == GYRE_AGAIN, comm, "nothing has come");
    bad |= rig_check(!gyre_barrier(comm), comm, "the communicator is whole");
    bad |= gyre_send_tag(comm, &word, 1, GYRE_I32, (rank + 1) % n, 9);
    bad |= rig_check(!gyre_work_wait(work, -1) && got == (rank + n - 1) % n, comm, "then it came");
    return gyre_finalize(comm) || bad;
}

static void long_waits_are_no_failure(void **state)
{
    (void)state;
    static int (*const body[])(struct gyre_comm *, struct rig *) = {serve_and_compute,
                                                                    compute_meanwhile};
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_run(&(struct rig){.n = 3,
                                               .transport = i / 2 ? "tcp" : "shm",
                                               .dead_ms = DEAD_MS,
                                               .body = body[i % 2]},
                                 60),
                         0);
}

/* -- ends that do not meet --------------------------------------------------------------------- */

enum trouble { TOO_LONG, OTHER_TYPE, OTHER_COUNT, ALL_LEFT, ALL_WAIT };

static int disagree(struct gyre_comm *comm, struct rig *rig)
{
    static float data[50000];
    enum trouble trouble = *(enum trouble *)rig->argument;
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (rank == 0 && trouble == OTHER_COUNT)
        status = gyre_recv_tag(comm, data, 9, GYRE_F32, 1, 4);
    else if (rank == 0 || trouble == ALL_WAIT)
        status = gyre_recv_any(comm, data, 100, GYRE_F32, GYRE_ANY_SOURCE, 4, NULL);
    else if (rank == 1 && trouble == OTHER_COUNT)
        status = gyre_send_tag(comm, data, 10, GYRE_F32, 0, 4);
    else if (rank == 1 && trouble != ALL_LEFT)
        status = gyre_send_tag(comm, data, 50000, trouble == TOO_LONG ? GYRE_F32 : GYRE_I32, 0, 4);
    if (!status && trouble != ALL_LEFT)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    int end = gyre_finalize(comm);
    return trouble != ALL_LEFT && end != status;
}

static void expect_story(enum trouble trouble, const char *one, const char *two, int told)
{
    static const char *const transport[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 3,
                          .transport = transport[i],
                          .dead_ms = DEAD_MS,
                          .body = disagree,
                          .argument = &trouble};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 30, 0), 0);
        for (int rank = 0; rank < told; rank++)
            if (rig.shared->status[rank] != GYRE_MISMATCH ||
                !strstr(rig.shared->error[rank], one) || !strstr(rig.shared->error[rank], two))
                fail_msg("%s, rank %d: %d, \"%s\" does not tell \"%s\" and \"%s\"", transport[i],
                         rank, rig.shared->status[rank], rig.shared->error[rank], one, two);
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

static void both_ends_are_named(void **state)
{
    (void)state;
    expect_story(TOO_LONG, "rank 1 sends 50000 elements of f32 with tag 4",
                 "rank 0 takes at most 100 of f32", 3);
    expect_story(OTHER_TYPE, "rank 1 sends 50000 elements of i32 with tag 4",
                 "rank 0 takes at most 100 of f32", 3);
    expect_story(OTHER_COUNT, "message 1 with tag 4", "rank 0 expects 9 elements of f32", 3);
    expect_story(ALL_LEFT, "has left by gyre_finalize()", "rank 0", 1);
    expect_story(ALL_WAIT, "waits in recv f32 from any rank with tag 4, at most 100 elements",
                 "all ranks wait", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_do_not_wait_for_each_other),
        cmocka_unit_test(one_rank_hears_all),
        cmocka_unit_test(strangers_of_a_large_node_are_heard),
        cmocka_unit_test(to_itself_and_in_parts),
        cmocka_unit_test(receives_keep_their_order),
        cmocka_unit_test(threads_talk_at_once),
        cmocka_unit_test(long_waits_are_no_failure),
        cmocka_unit_test(both_ends_are_named),
    };
    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
