/* Messages from rank to rank with real processes: every size, any number pending, to itself, beside
 * collectives and in parts; and what is told when the two ends disagree or never meet. */
#include "rig/comm_rig.h"

#include "base/rng.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEAD_MS 1000

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

/* -- all sizes --------------------------------------------------------------------------------- */

#define MOST 1500000

static int around(struct gyre_comm *comm, struct rig *rig)
{
    int32_t *out = malloc(MOST * 4), *in = malloc(MOST * 4);
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0, number = 0;
    int right = (rank + 1) % n, left = (rank + n - 1) % n;
    (void)rig;
    for (uint64_t count = 0; count <= MOST && !bad; count = count * 5 + 1, number++) {
        struct gyre_work *sent, *received;
        fill(out, count, rank, number);
        bad |= rig_check(!gyre_send_start(comm, out, count, GYRE_I32, right, &sent), comm, "start");
        bad |= rig_check(!gyre_recv(comm, in, count, GYRE_I32, left), comm, "recv");
        bad |= rig_check(holds(in, count, left, number), comm, "what came");
        bad |= rig_check(!gyre_work_wait(sent, -1), comm, "sent");
        bad |= rig_check(gyre_work_wait(sent, -1) == GYRE_INVALID, comm, "waited twice");
        bad |=
            rig_check(!gyre_recv_start(comm, in, count, GYRE_I32, left, &received), comm, "start");
        bad |= rig_check(!gyre_send(comm, out, count, GYRE_I32, right), comm, "send");
        bad |= rig_check(!gyre_work_wait(received, -1), comm, "received");
        bad |= rig_check(holds(in, count, left, number), comm, "what came again");
    }
    free(out);
    free(in);
    return gyre_finalize(comm) || bad;
}

static void every_size(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, around), 0);
}

/* -- any number -------------------------------------------------------------------------------- */

#define PENDING 700
#define LENGTH  1300

/* Long and short ones to every rank, itself too; collectives go on while nobody receives. */
static int flood(struct gyre_comm *comm, struct rig *rig)
{
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    int32_t *out = malloc(PENDING * LENGTH * 40), *in = malloc(LENGTH * 40), one = 1;
    struct gyre_work **work = calloc((size_t)(n * PENDING), sizeof *work);
    (void)rig;
    for (int i = 0; i < PENDING; i++) {
        uint64_t count = i % 7 ? (uint64_t)i : LENGTH * 10;
        fill(out + i * LENGTH * 10, count, rank, i);
        for (int peer = 0; peer < n && !bad; peer++)
            bad |= rig_check(!gyre_send_start(comm, out + i * LENGTH * 10, count, GYRE_I32, peer,
                                              &work[peer * PENDING + i]),
                             comm, "start");
        if (i % 50 == 0)
            bad |= rig_check(!gyre_all_reduce(comm, &one, &one, 1, GYRE_I32, GYRE_MAX), comm,
                             "a collective between");
    }
    bad |= rig_check(!gyre_barrier(comm), comm, "barrier while all are pending");
    for (int i = 0; i < PENDING; i++)
        for (int peer = n - 1; peer >= 0 && !bad; peer--) {
            uint64_t count = i % 7 ? (uint64_t)i : LENGTH * 10;
            bad |= rig_check(!gyre_recv(comm, in, count, GYRE_I32, peer), comm, "recv");
            bad |= rig_check(holds(in, count, peer, i), comm, "what came");
        }
    for (int i = 0; i < n * PENDING && !bad; i++)
        bad |= rig_check(!gyre_work_wait(work[i], -1), comm, "sent");
    free(work);
    free(out);
    free(in);
    return gyre_finalize(comm) || bad;
}

static void any_number_pending(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(3, flood), 0);
}

/* -- short and long, in turns ------------------------------------------------------------------ */

#define TURNS 1500

struct ring {
    struct gyre_comm *comm;
    int32_t *out, *in;
    uint64_t sent, received; /* counts of the two messages */
    int turn, left, right;
};

static int send_right(const struct ring *ring)
{
    return gyre_send(ring->comm, ring->out, ring->sent, GYRE_I32, ring->right);
}

static int recv_left(const struct ring *ring)
{
    return gyre_recv(ring->comm, ring->in, ring->received, GYRE_I32, ring->left);
}

static int in_a_group(const struct ring *ring, bool receive_first)
{
    int status = gyre_group_start(ring->comm);
    int first = receive_first ? recv_left(ring) : send_right(ring);
    int second = receive_first ? send_right(ring) : recv_left(ring);
    return status || first || second || gyre_group_end(ring->comm);
}

static int by_handle(const struct ring *ring)
{
    struct gyre_work *work;
    int status = gyre_recv_start(ring->comm, ring->in, ring->received, GYRE_I32, ring->left, &work);
    return status || send_right(ring) || gyre_work_wait(work, -1);
}

/* Each sends to the right by two blocks, and receives from the left. */
static int by_blocks(const struct ring *ring)
{
    int n = gyre_size(ring->comm);
    uint64_t out[16] = {0}, in[16] = {0}, at[16] = {0};
    out[ring->right] = ring->sent;
    in[ring->left] = ring->received;
    return n > 16 || gyre_all_to_all_v(ring->comm, ring->out, out, at, ring->in, in, at, GYRE_I32);
}

static uint64_t length_of(int turn, int rank)
{
    static const uint64_t length[] = {0, 1, 7, 100, 1000, 4096, 5000, 30000};
    return length[gyre_mix64((uint64_t)turn * 64 + (uint64_t)rank) % 8];
}

static int take_turn(const struct ring *ring)
{
    int32_t one = 1;
    switch (gyre_mix64((uint64_t)ring->turn) % 6) {
    case 0:
        return by_handle(ring);
    case 1:
        return by_blocks(ring);
    case 2:
        return in_a_group(ring, false) ||
               gyre_all_reduce(ring->comm, &one, &one, 1, GYRE_I32, GYRE_MAX);
    default:
        return in_a_group(ring, ring->turn % 2);
    }
}

static int take_turns(struct gyre_comm *comm, struct rig *rig)
{
    struct ring ring = {comm, malloc(120000), malloc(120000), 0, 0, 0, 0, 0};
    int n = gyre_size(comm), rank = gyre_rank(comm), bad = 0;
    (void)rig;
    ring.right = (rank + 1) % n;
    ring.left = (rank + n - 1) % n;
    for (ring.turn = 0; ring.turn < TURNS && !bad; ring.turn++) {
        ring.sent = length_of(ring.turn, rank);
        ring.received = length_of(ring.turn, ring.left);
        fill(ring.out, ring.sent, rank, ring.turn);
        bad |= rig_check(!take_turn(&ring), comm, "a turn");
        bad |= rig_check(holds(ring.in, ring.received, ring.left, ring.turn), comm, "what came");
    }
    free(ring.out);
    free(ring.in);
    return gyre_finalize(comm) || bad;
}

static void short_and_long_in_turns(void **state)
{
    (void)state;
    assert_int_equal(rig_run_everywhere(2, take_turns), 0);
    assert_int_equal(rig_run_everywhere(3, take_turns), 0);
}

/* -- to itself, and in parts ------------------------------------------------------------------- */

static int own(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_work *work;
    int32_t out[3] = {1, 2, 3}, in[3] = {0};
    int rank = gyre_rank(comm), bad = 0;
    (void)rig;
    bad |= rig_check(gyre_recv(comm, in, 3, GYRE_I32, rank) == GYRE_INVALID, comm, "nothing sent");
    bad |= rig_check(!gyre_send(comm, out, 3, GYRE_I32, rank), comm, "send to itself");
    out[0] = 7;
    bad |=
        rig_check(!gyre_send_start(comm, out, 3, GYRE_I32, rank, &work), comm, "start to itself");
    bad |= rig_check(gyre_work_wait(work, 0) == GYRE_AGAIN, comm, "not received yet");
    bad |= rig_check(gyre_work_wait(work, -1) == GYRE_INVALID, comm, "would wait for ever");
    bad |=
        rig_check(!gyre_recv(comm, in, 3, GYRE_I32, rank) && in[0] == 1, comm, "first of itself");
    bad |=
        rig_check(!gyre_recv(comm, in, 3, GYRE_I32, rank) && in[0] == 7, comm, "second of itself");
    bad |= rig_check(!gyre_work_wait(work, -1), comm, "sent to itself");
    bad |=
        rig_check(gyre_send(comm, out, 1, GYRE_I32, gyre_size(comm)) == GYRE_INVALID, comm, "peer");
    bad |= rig_check(gyre_send(comm, out, 1, (enum gyre_type)99, 0) == GYRE_INVALID, comm, "type");
    bad |= rig_check(gyre_send(comm, NULL, 1, GYRE_I32, 0) == GYRE_INVALID, comm, "NULL");
    bad |= rig_check(gyre_recv(comm, in, UINT64_MAX, GYRE_I32, 0) == GYRE_INVALID, comm, "count");
    return bad;
}

static int own_in_parts(struct gyre_comm *comm, struct rig *rig)
{
    int bad = own(comm, rig), n = gyre_size(comm), rank = gyre_rank(comm);
    struct gyre_comm *part = NULL;
    for (int round = 0; round < 5 && !bad; round++) {
        int32_t got = 0, mine = rank * 10 + round;
        bad |= rig_check(!gyre_split(comm, 0, n - rank, &part), comm, "split");
        bad |= own(part, rig);
        bad |= rig_check(!gyre_send(part, &mine, 1, GYRE_I32, (n - rank) % n), part, "send");
        bad |= rig_check(!gyre_recv(part, &got, 1, GYRE_I32, (2 * n - 2 - rank) % n), part, "recv");
        bad |= rig_check(got == (rank + 1) % n * 10 + round, part, "from whom");
        bad |= rig_check(!gyre_finalize(part), comm, "end");
    }
    return gyre_finalize(comm) || bad;
}

static void to_itself_and_in_parts(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = own_in_parts}, 20), 0);
    assert_int_equal(rig_run_everywhere(3, own_in_parts), 0);
}

/* -- ends that do not meet --------------------------------------------------------------------- */

enum trouble { OTHER_COUNT, OTHER_TYPE, BOTH_RECEIVE, NEVER_SENT };

static int disagree(struct gyre_comm *comm, struct rig *rig)
{
    static float data[20000];
    enum trouble trouble = *(enum trouble *)rig->argument;
    int rank = gyre_rank(comm), status = gyre_barrier(comm);
    uint64_t since = rig_now();
    if (rank == 0 && trouble != BOTH_RECEIVE && trouble != NEVER_SENT)
        status = gyre_send(comm, data, 10, GYRE_F32, 1);
    else if (rank == 0 && trouble == BOTH_RECEIVE)
        status = gyre_recv(comm, data, 10, GYRE_F32, 1);
    else if (rank == 1)
        status = gyre_recv(comm, data, trouble == OTHER_COUNT ? 12 : 10,
                           trouble == OTHER_TYPE ? GYRE_I32 : GYRE_F32, 0);
    if (!status)
        status = gyre_barrier(comm);
    rig_note(rig, comm, status, since);
    int end = gyre_finalize(comm);
    if (end != status)
        fprintf(stderr, "rank %d: the call gave %d, the end %d\n", rank, status, end);
    return end != status;
}

static void expect_story(enum trouble trouble, const char *one, const char *two)
{
    static const char *const transport[] = {"shm", "tcp"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = {.n = 3,
                          .transport = transport[i],
                          .dead_ms = DEAD_MS,
                          .body = disagree,
                          .argument = &trouble};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 20, 0), 0);
        for (int rank = 0; rank < 3; rank++) {
            if (rig.shared->status[rank] != GYRE_MISMATCH ||
                !strstr(rig.shared->error[rank], one) || !strstr(rig.shared->error[rank], two))
                fail_msg("rank %d: \"%s\" does not tell \"%s\" and \"%s\"", rank,
                         rig.shared->error[rank], one, two);
        }
        munmap(rig.shared, sizeof(*rig.shared));
    }
}

static void both_ends_are_named(void **state)
{
    (void)state;
    expect_story(OTHER_COUNT, "rank 0 sends 10 elements of f32",
                 "rank 1 expects 12 elements of f32");
    expect_story(OTHER_TYPE, "rank 0 sends 10 elements of f32",
                 "rank 1 expects 10 elements of i32");
    expect_story(BOTH_RECEIVE, "rank 0 waits in recv f32 from rank 1, 10 elements",
                 "rank 1 waits in recv f32 from rank 0");
    expect_story(NEVER_SENT, "rank 1 waits in recv f32 from rank 0", "rank 0 waits in operation 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(any_number_pending),
        cmocka_unit_test(short_and_long_in_turns),
        cmocka_unit_test(to_itself_and_in_parts),
        cmocka_unit_test(both_ends_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
