/* The higher rank of a pair at a Unix socket whose backlog is full: it tries again as long as the
 * phase lasts, then TCP serves. One that hangs up is called again, because it may be ending. The
 * lower rank waits for a peer that has proven the key, and hangs up on one that sends anything else
 * than it should. On a large machine a rank answers when it has met one above. Pairs that meet are
 * tested by tests/program/job/join.c. */
#include "unit/transport/join/join_rig.h"

#include "base/rng.h"
#include "transport/net/descriptors.h"

#include <sys/socket.h>
#include <sys/stat.h>

enum { CALLERS = 16 };

struct pair_rig {
    struct join_rig base;
    int door, caller[CALLERS], callers;
};

/* The lower rank's socket, to which others have connected until it takes no more. */
static void open_pair(struct pair_rig *rig)
{
    struct gyre_rank_identity *lower;
    join_rig_open(&rig->base, 1, 2);
    lower = &rig->base.join.identity[0];
    rig->callers = 0;
    assert_int_equal(gyre_random_bytes(lower->door, sizeof lower->door), 0);
    rig->door = gyre_door_open(lower->door);
    assert_true(rig->door >= 0);
    assert_int_equal(listen(rig->door, 0), 0);
    while (rig->callers < CALLERS &&
           (rig->caller[rig->callers] = gyre_door_connect(lower->door)) >= 0)
        rig->callers++;
    assert_true(rig->callers < CALLERS);
    assert_int_equal(gyre_pairing_open(&rig->base.join, &rig->base.join.identity[1]), 0);
    assert_int_equal(gyre_pairing_start(&rig->base.join), 0);
}

static void empty_door(struct pair_rig *rig)
{
    for (int i = 0; i < rig->callers; i++) {
        int fd = gyre_door_answer(rig->door);
        assert_true(fd >= 0);
        close(fd);
        close(rig->caller[i]);
    }
    rig->callers = 0;
}

static void close_pair(struct pair_rig *rig)
{
    empty_door(rig);
    close(rig->door);
    gyre_pairing_close(&rig->base.join);
    join_rig_close(&rig->base);
}

static void a_full_backlog_is_waited_for(void **state)
{
    struct pair_rig rig;
    uint8_t hello[512];
    (void)state;
    open_pair(&rig);
    assert_true(gyre_pairing_busy(&rig.base.join));
    assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
    assert_true(gyre_pairing_busy(&rig.base.join));
    empty_door(&rig);
    assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
    int fd = gyre_door_answer(rig.door);
    assert_true(fd >= 0);
    assert_true(recv(fd, hello, sizeof hello, MSG_DONTWAIT) > 8);
    assert_memory_equal(hello, "GYREpair", 8);
    close(fd);
    close_pair(&rig);
}

static void a_backlog_that_stays_full_leaves_the_pair_to_tcp(void **state)
{
    struct pair_rig rig;
    (void)state;
    open_pair(&rig);
    rig.base.join.now += 11 * GYRE_SECOND;
    assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
    assert_false(gyre_pairing_busy(&rig.base.join));
    assert_non_null(strstr(gyre_pairing_why(&rig.base.join), "Unix socket"));
    close_pair(&rig);
}

static void serve_next(struct join_rig *rig)
{
    struct gyre_io_slot *io_slot = NULL;
    for (int tries = 0; tries < 200 && !io_slot; tries++)
        io_slot = gyre_join_wait(&rig->join);
    assert_non_null(io_slot);
    assert_int_equal(gyre_pairing_ready(&rig->join, io_slot), 0);
}

/* The higher rank has called: hangs up, and lets it see that. */
static void hang_up(struct pair_rig *rig)
{
    int fd = gyre_door_answer(rig->door);
    assert_true(fd >= 0);
    close(fd);
    serve_next(&rig->base);
    assert_int_equal(gyre_pairing_tick(&rig->base.join), 0);
}

static void one_that_hangs_up_and_closes_its_door_is_lost(void **state)
{
    struct pair_rig rig;
    (void)state;
    open_pair(&rig);
    empty_door(&rig);
    assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
    hang_up(&rig);
    assert_true(gyre_pairing_busy(&rig.base.join));
    close(rig.door);
    rig.base.join.now += GYRE_SECOND / 2;
    assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
    assert_int_equal(rig.base.join.loss.status, GYRE_PEER_LOST);
    assert_non_null(strstr(rig.base.join.loss.text, "has closed its Unix socket"));
    assert_string_equal(gyre_pairing_why(&rig.base.join), "");
    rig.door = -1;
    close_pair(&rig);
}

static void one_that_hangs_up_for_long_shares_no_memory(void **state)
{
    struct pair_rig rig;
    int calls = 0;
    (void)state;
    open_pair(&rig);
    empty_door(&rig);
    while (gyre_pairing_busy(&rig.base.join)) {
        assert_int_equal(gyre_pairing_tick(&rig.base.join), 0);
        int fd = gyre_door_answer(rig.door);
        calls += fd >= 0;
        if (fd >= 0)
            close(fd);
        struct gyre_io_slot *io_slot = gyre_join_wait(&rig.base.join); /* at most a tick */
        if (io_slot)
            assert_int_equal(gyre_pairing_ready(&rig.base.join, io_slot), 0);
    }
    assert_true(calls > 1);
    assert_int_equal(rig.base.join.loss.status, 0);
    assert_non_null(strstr(gyre_pairing_why(&rig.base.join), "it hung up on the Unix socket"));
    close_pair(&rig);
}

/* The higher rank has hundreds of others to meet, and answers after longer than a stranger may
 * take. */
static void a_proven_peer_is_waited_for(void **state)
{
    struct join_rig lower, higher;
    (void)state;
    join_rig_open(&lower, 0, 2);
    join_rig_open(&higher, 1, 2);
    assert_int_equal(gyre_pairing_open(&lower.join, &lower.join.identity[0]), 0);
    assert_int_equal(gyre_pairing_start(&lower.join), 0);
    higher.join.identity[0] = lower.join.identity[0];
    assert_int_equal(gyre_pairing_open(&higher.join, &higher.join.identity[1]), 0);
    assert_int_equal(gyre_pairing_start(&higher.join), 0);
    serve_next(&lower); /* the connection */
    serve_next(&lower); /* U1 */
    lower.join.now += GYRE_JOIN_SILENCE + GYRE_SECOND;
    assert_int_equal(gyre_pairing_tick(&lower.join), 0);
    serve_next(&higher); /* U2 */
    serve_next(&lower);  /* U3 */
    assert_true(lower.join.joined->peer[1].unix_fd >= 0);
    gyre_pairing_close(&higher.join);
    gyre_pairing_close(&lower.join);
    join_rig_close(&higher);
    join_rig_close(&lower);
}

/* -- what is no message ---------------------------------------------------------------------- */

enum { FIELDS = 48, U1 = FIELDS + GYRE_DIGEST_BYTES, U2 = 64, U3 = 36 };

struct hostile_rig {
    struct join_rig lower; /* rank 0 of 2 */
    int fd;                /* of who calls it */
    uint8_t said[U1 + U2 + U3 + 1];
};

static void sign(struct hostile_rig *rig, const char *label, size_t length)
{
    const struct gyre_piece pieces[] = {{label, 2}, {rig->said, length}};
    assert_int_equal(
        gyre_hmac_sha256(rig->lower.join.joined->session_key, pieces, 2, rig->said + length), 0);
}

static void write_u1(struct hostile_rig *rig, uint32_t from, uint32_t to)
{
    struct gyre_cursor out = gyre_cursor_over(rig->said, FIELDS);
    gyre_put_bytes(&out, "GYREpair", 8);
    gyre_put_u64(&out, from, 4);
    gyre_put_u64(&out, to, 4);
    memset(out.at, 5, GYRE_NONCE_BYTES);
    sign(rig, "u1", FIELDS);
}

/* Sends a packet, which the lower rank reads. */
static void say(struct hostile_rig *rig, const uint8_t *packet, size_t length)
{
    assert_int_equal(send(rig->fd, packet, length, MSG_NOSIGNAL), length);
    serve_next(&rig->lower);
}

static void call_lower(struct hostile_rig *rig)
{
    rig->fd = gyre_door_connect(rig->lower.join.identity[0].door);
    assert_true(rig->fd >= 0);
    serve_next(&rig->lower);
}

static void hear_the_end(struct hostile_rig *rig)
{
    uint8_t answer[U1];
    assert_int_equal(recv(rig->fd, answer, sizeof answer, MSG_DONTWAIT), 0);
    assert_true(rig->lower.join.joined->peer[1].unix_fd < 0);
    close(rig->fd);
}

/* Sends U1 as it is written, which is refused. */
static void say_wrong_u1(struct hostile_rig *rig, size_t length)
{
    call_lower(rig);
    say(rig, rig->said, length);
    hear_the_end(rig);
}

/* Comes as far as U2, whose two descriptors are closed. */
static void hear_u2(struct hostile_rig *rig)
{
    int fd[2];
    write_u1(rig, 1, 0);
    call_lower(rig);
    say(rig, rig->said, U1);
    assert_int_equal(gyre_packet_receive(rig->fd, rig->said + U1, U2, fd), 0);
    gyre_descriptors_close(fd, 2);
}

static void open_hostile(struct hostile_rig *rig)
{
    join_rig_open(&rig->lower, 0, 2);
    assert_int_equal(gyre_pairing_open(&rig->lower.join, &rig->lower.join.identity[0]), 0);
    assert_int_equal(gyre_pairing_start(&rig->lower.join), 0);
}

static void close_hostile(struct hostile_rig *rig)
{
    gyre_pairing_close(&rig->lower.join);
    join_rig_close(&rig->lower);
}

static void each_changed_bit_is_hung_up_on(void **state)
{
    static struct hostile_rig rig;
    (void)state;
    open_hostile(&rig);
    for (size_t bit = 0; bit < 8 * U1; bit++) {
        write_u1(&rig, 1, 0);
        rig.said[bit / 8] ^= (uint8_t)(1u << bit % 8);
        say_wrong_u1(&rig, U1);
    }
    for (size_t bit = 0; bit < 8 * U3; bit++) {
        hear_u2(&rig);
        memset(rig.said + U1 + U2, 0, 4);
        sign(&rig, "u3", U1 + U2 + 4);
        rig.said[U1 + U2 + bit / 8] ^= (uint8_t)(1u << bit % 8);
        say(&rig, rig.said + U1 + U2, U3);
        hear_the_end(&rig);
    }
    close_hostile(&rig);
}

static void packets_of_other_sizes_are_hung_up_on(void **state)
{
    static struct hostile_rig rig;
    (void)state;
    open_hostile(&rig);
    hear_u2(&rig); /* a right one came to this place before */
    close(rig.fd);
    serve_next(&rig.lower);
    for (size_t length = 0; length <= U1 + 1; length++) {
        write_u1(&rig, 1, 0);
        if (length != U1)
            say_wrong_u1(&rig, length);
    }
    for (size_t length = 0; length <= U3 + 1; length++) {
        hear_u2(&rig);
        sign(&rig, "u3", U1 + U2 + 4);
        say(&rig, rig.said + U1 + U2, length == U3 ? 0 : length);
        hear_the_end(&rig);
    }
    close_hostile(&rig);
}

/* Who has the key may still be wrong about who meets whom. The ranks' own codes are right. */
static void ranks_that_do_not_meet_are_hung_up_on(void **state)
{
    static const uint32_t wrong[][2] = {{0, 0}, {1, 1}, {0, 1}, {2, 0}, {UINT32_MAX, 0}};
    static struct hostile_rig rig;
    (void)state;
    open_hostile(&rig);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_u1(&rig, wrong[i][0], wrong[i][1]);
        say_wrong_u1(&rig, U1);
    }
    write_u1(&rig, 1, 0);
    memcpy(rig.said, "GYREpear", 8);
    sign(&rig, "u1", FIELDS);
    say_wrong_u1(&rig, U1);
    hear_u2(&rig); /* a right one is answered all the same */
    close(rig.fd);
    close_hostile(&rig);
}

/* -- a large machine --------------------------------------------------------------------------- */

enum { TRIO = 18, ROOT = 0, MIDDLE = 1, LAST = 17 }; /* the last is below the middle */

/* Three ranks of a large machine of 18; rank 0's Unix socket is known to those above it. */
static void open_trio(struct join_rig rig[TRIO])
{
    static const uint32_t ranks[] = {ROOT, MIDDLE, LAST};
    for (int i = 0; i < 3; i++) {
        join_rig_open(&rig[ranks[i]], ranks[i], TRIO);
        rig[ranks[i]].options.links_at_once = 4;
        rig[ranks[i]].join.phase = GYRE_PHASE_PAIR;
        for (int k = 0; k < i; k++)
            rig[ranks[i]].join.identity[ranks[k]] = rig[ranks[k]].join.identity[ranks[k]];
        struct gyre_joining *join = &rig[ranks[i]].join;
        assert_int_equal(gyre_pairing_open(join, &join->identity[ranks[i]]), 0);
    }
}

static void close_trio(struct join_rig rig[TRIO])
{
    static const uint32_t ranks[] = {ROOT, MIDDLE, LAST};
    for (int i = 0; i < 3; i++) {
        gyre_pairing_close(&rig[ranks[i]].join);
        join_rig_close(&rig[ranks[i]]);
    }
}

static ino_t file_of(const struct join_rig *rig)
{
    struct stat info;
    assert_int_equal(fstat(rig->join.joined->node_file, &info), 0);
    return info.st_ino;
}

/* The middle has not met rank 0 when the last calls it. */
static void the_file_goes_down_the_tree(void **state)
{
    static struct join_rig rig[TRIO];
    (void)state;
    open_trio(rig);
    assert_int_equal(gyre_pairing_start(&rig[ROOT].join), 0);
    assert_int_equal(gyre_pairing_start(&rig[MIDDLE].join), 0);
    assert_int_equal(gyre_pairing_start(&rig[LAST].join), 0);
    serve_next(&rig[MIDDLE]); /* the connection of the last */
    serve_next(&rig[MIDDLE]); /* U1, which waits */
    assert_null(gyre_join_wait(&rig[LAST].join));
    serve_next(&rig[ROOT]);   /* the connection of the middle */
    serve_next(&rig[ROOT]);   /* U1 */
    serve_next(&rig[MIDDLE]); /* U2, with the file */
    assert_null(gyre_join_wait(&rig[LAST].join));
    serve_next(&rig[ROOT]);   /* U3 */
    serve_next(&rig[MIDDLE]); /* U4 */
    serve_next(&rig[LAST]);   /* U2, with the file */
    serve_next(&rig[MIDDLE]); /* U3 */
    serve_next(&rig[LAST]);   /* U4 */
    assert_false(gyre_pairing_busy(&rig[LAST].join));
    assert_true(rig[LAST].join.joined->peer[MIDDLE].unix_fd >= 0);
    assert_int_equal(file_of(&rig[LAST]), file_of(&rig[ROOT]));
    close_trio(rig);
}

/* The middle knows no Unix socket of rank 0, so it cannot belong to the node, and says so by a page
 * that is no file of a node. The last calls rank 0. */
static void one_without_the_file_is_climbed_past(void **state)
{
    static struct join_rig rig[TRIO];
    (void)state;
    open_trio(rig);
    memset(rig[MIDDLE].join.identity[ROOT].door, 0, 16);
    assert_int_equal(gyre_pairing_start(&rig[ROOT].join), 0);
    assert_int_equal(gyre_pairing_start(&rig[MIDDLE].join), 0);
    assert_false(gyre_pairing_busy(&rig[MIDDLE].join));
    assert_int_equal(gyre_pairing_start(&rig[LAST].join), 0);
    serve_next(&rig[MIDDLE]); /* the connection */
    serve_next(&rig[MIDDLE]); /* U1 */
    serve_next(&rig[LAST]);   /* U2 */
    serve_next(&rig[MIDDLE]); /* U3 */
    serve_next(&rig[LAST]);   /* U4 */
    assert_true(gyre_pairing_busy(&rig[LAST].join));
    assert_int_equal(gyre_pairing_tick(&rig[LAST].join), 0);
    serve_next(&rig[ROOT]); /* the connection */
    serve_next(&rig[ROOT]); /* U1 */
    serve_next(&rig[LAST]); /* U2, with the file */
    serve_next(&rig[ROOT]); /* U3 */
    serve_next(&rig[LAST]); /* U4 */
    assert_false(gyre_pairing_busy(&rig[LAST].join));
    assert_true(rig[LAST].join.joined->peer[MIDDLE].unix_fd < 0);
    assert_true(rig[LAST].join.joined->peer[ROOT].unix_fd >= 0);
    assert_string_equal(gyre_pairing_why(&rig[LAST].join), "");
    close_trio(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_backlog_is_waited_for),
        cmocka_unit_test(a_backlog_that_stays_full_leaves_the_pair_to_tcp),
        cmocka_unit_test(one_that_hangs_up_and_closes_its_door_is_lost),
        cmocka_unit_test(one_that_hangs_up_for_long_shares_no_memory),
        cmocka_unit_test(a_proven_peer_is_waited_for),
        cmocka_unit_test(each_changed_bit_is_hung_up_on),
        cmocka_unit_test(packets_of_other_sizes_are_hung_up_on),
        cmocka_unit_test(ranks_that_do_not_meet_are_hung_up_on),
        cmocka_unit_test(the_file_goes_down_the_tree),
        cmocka_unit_test(one_without_the_file_is_climbed_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
