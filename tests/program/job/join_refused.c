/* Joins that must fail, or must not be disturbed: wrong ranks, wrong keys, deaths, foreign
 * programs. Every failure has to be told to every rank, with the words that a user needs. */
#include "program/job/join_rig.h"

#include "base/clock.h"
#include "transport/join/inside.h"
#include "rig/beside.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_failed(const struct rig *rig, int index, int status, const char *words)
{
    const struct rig_result *result = &rig->result[index];
    if (!result->returned || result->status != status || !strstr(result->text, words))
        fail_msg("rank %d: returned %d, status %d (wanted %d), text \"%s\" (wanted \"%s\")", index,
                 result->returned, result->status, status, result->text, words);
}

static void assert_fine(const struct rig *rig, int index)
{
    const struct rig_result *result = &rig->result[index];
    if (!result->returned || result->status || result->wrong)
        fail_msg("rank %d: status %d, %d wrong channels: %s", index, result->status, result->wrong,
                 result->text);
}

static void set_timeout(struct rig *rig, int ms)
{
    for (int i = 0; i < RIG_RANKS; i++)
        rig->rank[i].options.join_timeout_ms = ms;
}

/* -- ranks that do not fit --------------------------------------------------------------------- */

static void missing_ranks_are_named(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 5);
    set_timeout(&rig, 8000);
    rig.rank[0].capture = true;
    rig_start(&rig, 0);
    rig_start(&rig, 3);
    assert_true(rig_log_says(&rig, 0, "waiting for rank 1-2, 4 of 5"));
    rig_wait(&rig);
    assert_failed(&rig, 0, GYRE_TIMED_OUT, "rank 1-2, 4 missing");
    assert_failed(&rig, 3, GYRE_TIMED_OUT, "rank 1-2, 4 "); /* by rank 0, or by its own clock */
    rig_teardown(&rig);
}

static void a_missing_root_is_named(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 3);
    set_timeout(&rig, 300);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_failed(&rig, 1, GYRE_TIMED_OUT, "is rank 0 running there?");
    rig_teardown(&rig);
}

/* Nobody listens any more where a job has begun. */
static void a_rank_too_many_is_told_so(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    rig.rank[2] = rig.rank[1];
    rig.rank[2].options.join_timeout_ms = 300;
    rig_start(&rig, 0);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_fine(&rig, 0);
    rig_start(&rig, 2);
    rig_wait(&rig);
    assert_failed(&rig, 2, GYRE_TIMED_OUT, "is this a rank too many?");
    rig_teardown(&rig);
}

static void a_second_process_of_one_rank_is_refused(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 3);
    rig.rank[3] = rig.rank[1];
    rig.rank[0].capture = true;
    rig_start(&rig, 0);
    rig_start(&rig, 1);
    rig_start(&rig, 3);
    int refused = rig_first_to_end(&rig), joined = 4 - refused;
    assert_true(rig_log_says(&rig, 0, "rank 1 is here already"));
    rig_start(&rig, 2);
    rig_wait(&rig);
    assert_failed(&rig, refused, GYRE_REFUSED, "rank 1 is here already: rank 1 on ");
    assert_fine(&rig, joined);
    assert_fine(&rig, 0);
    assert_fine(&rig, 2);
    rig_teardown(&rig);
}

static void a_second_rank_0_finds_the_port_taken(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    rig.rank[2] = rig.rank[0];
    rig_start(&rig, 0);
    rig_start(&rig, 2);
    int refused = rig_first_to_end(&rig);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_failed(&rig, refused, -EADDRINUSE, "choose another port");
    assert_fine(&rig, 2 - refused);
    assert_fine(&rig, 1);
    rig_teardown(&rig);
}

static void another_world_ends_the_join_everywhere(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 4);
    rig.rank[2].job.world = 5;
    rig_run(&rig);
    for (int i = 0; i < 4; i++)
        assert_failed(&rig, i, GYRE_REFUSED, "in a world of 5 ranks, rank 0 in a world of 4");
    rig_teardown(&rig);
}

static void other_settings_are_shown_word_by_word(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 3);
    rig.rank[1].options.configuration = 8;
    rig.rank[1].options.configuration_text = "GYRE_ALGO=tree GYRE_LANES=4 GYRE_EXTRA=1";
    rig.rank[0].capture = true;
    set_timeout(&rig, 8000);
    rig_start(&rig, 0);
    rig_start(&rig, 2);
    assert_true(rig_log_says(&rig, 0, "waiting for rank 1 of 3"));
    rig_start(&rig, 1);
    rig_wait(&rig);
    for (int i = 0; i < 3; i++) {
        assert_failed(&rig, i, GYRE_REFUSED, "GYRE_ALGO is ring on rank 0 (host ");
        assert_failed(&rig, i, GYRE_REFUSED, ") and tree on rank 1 (host ");
        assert_failed(&rig, i, GYRE_REFUSED, "GYRE_EXTRA is unset and 1; give all ranks the same");
        assert_null(strstr(rig.result[i].text, "GYRE_LANES"));
    }
    rig_teardown(&rig);
}

static void a_former_epoch_does_not_disturb(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    rig.rank[2] = rig.rank[1];
    rig.rank[0].job.epoch = rig.rank[1].job.epoch = 4;
    rig.rank[2].job.epoch = 3;
    rig_start(&rig, 0);
    rig_start(&rig, 2);
    assert_int_equal(rig_first_to_end(&rig), 2);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_failed(&rig, 2, GYRE_REFUSED, "epoch (restart) 3, the job is in epoch 4");
    assert_fine(&rig, 0);
    assert_fine(&rig, 1);
    rig_teardown(&rig);
}

/* All that a rank which has ended has said. */
static void read_log(const struct rig *rig, int rank, char *text, size_t room)
{
    size_t have = 0;
    ssize_t got;
    while ((got = read(rig->rank[rank].log, text + have, room - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = 0;
}

static void another_key_is_met_with_silence(void **state)
{
    struct rig rig;
    char log[8192];
    (void)state;
    rig_setup(&rig, 2);
    set_timeout(&rig, 6000);
    rig.rank[0].capture = true;
    memset(rig.rank[1].job.key, 0x66, 32);
    memset(rig.rank[1].job.key_id, 0xb2, 8);
    rig_run(&rig);
    read_log(&rig, 0, log, sizeof log);
    const char *told =
        strstr(log, "of another key (its key id b2b2b2b2b2b2b2b2, mine a1a1a1a1a1a1a1a1)");
    assert_non_null(told);
    assert_null(strstr(told + 1, "of another key")); /* however often it came */
    assert_failed(&rig, 0, GYRE_TIMED_OUT, "rank 1 missing");
    assert_failed(
        &rig, 1, GYRE_REFUSED,
        "closed without a word: another key (mine b2b2b2b2b2b2b2b2), another job, or not Gyre");
    rig_teardown(&rig);
}

/* Ten seconds prove that a key is wrong; the join timeout is for who comes late. */
static void another_key_does_not_wait_for_the_timeout(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    set_timeout(&rig, 100000);
    rig.rank[2] = rig.rank[1];
    memset(rig.rank[2].job.key, 0x66, 32);
    rig_start(&rig, 0);
    rig_start(&rig, 2);
    assert_int_equal(rig_first_to_end(&rig), 2);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_failed(&rig, 2, GYRE_REFUSED, "waiting longer is of no use");
    assert_fine(&rig, 0);
    assert_fine(&rig, 1);
    rig_teardown(&rig);
}

static void too_short_a_time_is_told(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    set_timeout(&rig, 0);
    rig_start(&rig, 1);
    rig_wait(&rig);
    assert_failed(&rig, 1, GYRE_TIMED_OUT, "there was no time to look");
    rig_teardown(&rig);
}

static void a_node_that_cannot_share_is_unsupported(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 3);
    for (int i = 0; i < 3; i++) {
        rig.rank[i].options.nodes = GYRE_NODES_SHARE_ALL;
        rig.rank[i].job.simulated_node = i / 2;
    }
    rig_run(&rig);
    for (int i = 0; i < 3; i++)
        assert_failed(&rig, i, GYRE_UNSUPPORTED, "different simulated nodes");
    rig_teardown(&rig);
}

/* -- a guest made by hand: what a newer build would say ---------------------------------------- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 2000; i++) { /* until rank 0 listens */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (!connect(fd, (struct sockaddr *)&address, sizeof address))
            return fd;
        close(fd);
        poll(NULL, 0, 5);
    }
    fail_msg("nobody listens at port %u", port);
    return -1;
}

static int next_record(struct gyre_talk *talk, struct gyre_record *record)
{
    int status;
    struct pollfd wait = {.fd = talk->fd, .events = POLLIN};
    while ((status = gyre_talk_step(talk, record)) == GYRE_AGAIN && poll(&wait, 1, 90000) == 1) {
    }
    return status;
}

static void another_version_is_told_why(void **state)
{
    struct rig rig;
    struct gyre_talk talk;
    struct gyre_record record;
    struct gyre_refusal refusal;
    struct gyre_rank_identity identity;
    uint8_t nonce[32] = {5}, payload[512];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    (void)state;
    rig_setup(&rig, 2);
    const struct gyre_job *job = &rig.rank[1].job;
    struct gyre_claim claim = {.version_low = 9,
                               .version_high = 12,
                               .rank = 1,
                               .world = 2,
                               .purpose = GYRE_PURPOSE_JOIN,
                               .configuration = 7};
    memcpy(claim.job, job->id, 16);
    memcpy(claim.key_id, job->key_id, 8);
    rig_start(&rig, 0);
    gyre_talk_open(&talk, connect_to(rig.port));
    assert_false(gyre_handshake_start(&talk.shake, GYRE_HANDSHAKE_CLIENT, &claim, job->key, nonce));
    assert_int_equal(next_record(&talk, &record), 0);
    assert_false(gyre_identity_gather(job, &identity));
    gyre_identity_put(&out, &identity);
    gyre_put_text(&out, "GYRE_ALGO=ring", 15);
    assert_false(gyre_talk_say(&talk, GYRE_JOIN_INTRODUCTION, payload, (size_t)(out.at - payload)));
    assert_int_equal(next_record(&talk, &record), 0);
    assert_int_equal(record.kind, GYRE_JOIN_REFUSAL);
    assert_false(gyre_refusal_decode(record.payload, record.length, &refusal));
    assert_int_equal(refusal.code, GYRE_REFUSAL_VERSION);
    assert_non_null(strstr(refusal.text, "versions 9 to 12"));
    gyre_talk_close(&talk);
    rig_wait(&rig);
    assert_failed(&rig, 0, GYRE_REFUSED, "use one build of Gyre");
    rig_teardown(&rig);
}

/* -- deaths ------------------------------------------------------------------------------------ */

/* Ranks 0 … n-2 have logged in, the last has not started. */
static void start_all_but_last(struct rig *rig, int n, enum gyre_join_nodes nodes)
{
    char words[64];
    rig_setup(rig, n);
    set_timeout(rig, 8000);
    for (int i = 0; i < n; i++) {
        rig->rank[i].options.dead_time_ms = 400;
        rig->rank[i].options.nodes = nodes;
    }
    rig->rank[0].capture = true;
    for (int i = 0; i < n - 1; i++)
        rig_start(rig, i);
    snprintf(words, sizeof words, "waiting for rank %d of %d", n - 1, n);
    assert_true(rig_log_says(rig, 0, words));
}

static void a_death_while_gathering_is_told_to_all(void **state)
{
    struct rig rig;
    (void)state;
    start_all_but_last(&rig, 4, GYRE_NODES_SHARE);
    kill(rig.rank[1].pid, SIGKILL);
    rig_wait(&rig);
    assert_failed(&rig, 0, GYRE_PEER_LOST, "rank 1 on ");
    assert_failed(&rig, 2, GYRE_PEER_LOST, "rank 1 on ");
    rig_teardown(&rig);
}

static void the_death_of_rank_0_is_told_to_all(void **state)
{
    struct rig rig;
    (void)state;
    start_all_but_last(&rig, 4, GYRE_NODES_SHARE);
    kill(rig.rank[0].pid, SIGKILL);
    rig_wait(&rig);
    assert_failed(&rig, 1, GYRE_PEER_LOST, "rank 0");
    assert_failed(&rig, 2, GYRE_PEER_LOST, "rank 0");
    rig_teardown(&rig);
}

/* A rank 0 made by hand: it has proved who it is, and is gone before it is told anything. */
static void the_death_of_rank_0_at_once_is_told(void **state)
{
    struct rig rig;
    struct gyre_talk talk;
    struct gyre_record record;
    const struct linger reset = {.l_onoff = 1};
    uint8_t nonce[32] = {5};
    (void)state;
    rig_setup(&rig, 2);
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve("127.0.0.1", rig.port, &address, 1, NULL), 1);
    int listener = gyre_socket_listen(&address, 0, 0, 4);
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    assert_true(listener >= 0);
    rig_start(&rig, 1);
    assert_int_equal(poll(&wait, 1, 90000), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
    close(listener);
    const struct gyre_job *job = &rig.rank[1].job;
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .rank = 0,
                               .world = 2,
                               .purpose = GYRE_PURPOSE_JOIN};
    memcpy(claim.job, job->id, 16);
    memcpy(claim.key_id, job->key_id, 8);
    gyre_talk_open(&talk, fd);
    assert_false(gyre_handshake_start(&talk.shake, GYRE_HANDSHAKE_SERVER, &claim, job->key, nonce));
    assert_int_equal(next_record(&talk, &record), 0);
    gyre_talk_close(&talk);
    rig_wait(&rig);
    assert_failed(&rig, 1, GYRE_PEER_LOST, "rank 0 went away");
    rig_teardown(&rig);
}

static void assert_rank_1_is_named(const struct rig *rig)
{
    assert_failed(rig, 0, GYRE_PEER_LOST, "rank 1 on ");
    assert_failed(rig, 2, GYRE_PEER_LOST, "rank 1 on ");
    assert_failed(rig, 3, GYRE_PEER_LOST, "rank 1 on ");
}

/* Stopped before the last rank comes: the roster finds it silent. */
static void a_stopped_rank_is_named(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct rig rig;
        start_all_but_last(&rig, 4, tcp ? GYRE_NODES_APART : GYRE_NODES_SHARE);
        pid_t stopped = rig.rank[1].pid;
        kill(stopped, SIGSTOP);
        rig_start(&rig, 3);
        rig.rank[1].pid = 0;
        rig_wait(&rig);
        assert_rank_1_is_named(&rig);
        kill(stopped, SIGCONT);
        rig.rank[1].pid = stopped;
        rig_wait(&rig);
        assert_int_equal(rig.result[1].status, GYRE_PEER_LOST);
        rig_teardown(&rig);
    }
}

/* Stopped, so that its answer to the roster never comes, and killed around the time of the roster.
 */
static void a_death_while_connecting_is_told_to_all(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct rig rig;
        start_all_but_last(&rig, 4, tcp ? GYRE_NODES_APART : GYRE_NODES_SHARE);
        kill(rig.rank[1].pid, SIGSTOP);
        rig_start(&rig, 3);
        kill(rig.rank[1].pid, SIGKILL);
        rig_wait(&rig);
        assert_rank_1_is_named(&rig);
        rig_teardown(&rig);
    }
}

/* -- foreign programs -------------------------------------------------------------------------- */

static void serve_as_foreigner(int listener, bool speaks)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    for (;;) {
        struct sockaddr_storage from;
        poll(&wait, 1, -1);
        int fd = gyre_socket_accept(listener, &from);
        if (fd >= 0 && speaks && write(fd, answer, sizeof answer - 1) > 0)
            close(fd);
    }
}

/* A child that owns the port: it accepts and says nothing, or answers like a web server. */
static pid_t start_foreigner(uint16_t port, bool speaks)
{
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve("127.0.0.1", port, &address, 1, NULL), 1);
    int listener = gyre_socket_listen(&address, 0, 0, 64);
    assert_true(listener >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(300);
        serve_as_foreigner(listener, speaks);
    }
    close(listener);
    return pid;
}

static void end_foreigner(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void the_next_port_serves(bool speaks)
{
    struct rig rig;
    rig_setup(&rig, 3);
    pid_t foreigner = start_foreigner(rig.port, speaks);
    for (int i = 0; i < 3; i++)
        rig.rank[i].job.root_port_tries = 17;
    rig_run(&rig);
    end_foreigner(foreigner);
    for (int i = 0; i < 3; i++)
        assert_fine(&rig, i);
    rig_teardown(&rig);
}

static void a_foreign_listener_is_passed_by(void **state)
{
    (void)state;
    the_next_port_serves(false);
    the_next_port_serves(true);
}

static void a_foreign_listener_is_recognised(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 2);
    set_timeout(&rig, 6000);
    pid_t foreigner = start_foreigner(rig.port, true);
    rig_run(&rig);
    end_foreigner(foreigner);
    assert_failed(&rig, 0, -EADDRINUSE, "choose another port");
    assert_failed(&rig, 1, GYRE_TIMED_OUT, "held by a program that is not Gyre");
    rig_teardown(&rig);
}

/* Answers every hello as rank 2 of the job, which has the key and is not rank 0. */
static void serve_as_rank_2(int listener, const struct gyre_job *job)
{
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .rank = 2,
                               .world = 3,
                               .purpose = GYRE_PURPOSE_JOIN,
                               .configuration = 7};
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    memcpy(claim.job, job->id, 16);
    for (;;) {
        struct sockaddr_storage from;
        struct gyre_talk talk;
        struct gyre_record record;
        uint8_t nonce[32] = {7};
        poll(&wait, 1, -1);
        gyre_talk_open(&talk, gyre_socket_accept(listener, &from));
        gyre_handshake_start(&talk.shake, GYRE_HANDSHAKE_SERVER, &claim, job->key, nonce);
        while (next_record(&talk, &record) == 0)
            ;
        gyre_talk_close(&talk);
    }
}

static void another_rank_is_not_taken_for_rank_0(void **state)
{
    struct rig rig;
    struct sockaddr_storage address;
    (void)state;
    rig_setup(&rig, 3);
    set_timeout(&rig, 6000);
    assert_int_equal(gyre_address_resolve("127.0.0.1", rig.port, &address, 1, NULL), 1);
    int listener = gyre_socket_listen(&address, 0, 0, 64);
    assert_true(listener >= 0);
    pid_t server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        alarm(300);
        serve_as_rank_2(listener, &rig.rank[2].job);
    }
    close(listener);
    rig_start(&rig, 1);
    rig_wait(&rig);
    end_foreigner(server);
    assert_failed(&rig, 1, GYRE_TIMED_OUT, "did not find rank 0");
    rig_teardown(&rig);
}

static void two_jobs_share_a_range_of_ports(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 8);
    for (int i = 0; i < 8; i++) {
        struct gyre_job *job = &rig.rank[i].job;
        job->rank = i / 2;
        job->world = 4;
        job->root_port_tries = 17;
        memset(job->id, 0x20 + i % 2, sizeof job->id);
        memset(job->key, 0x30 + i % 2, sizeof job->key);
    }
    rig_run(&rig);
    for (int i = 0; i < 8; i++)
        assert_fine(&rig, i);
    for (int i = 2; i < 8; i++)
        assert_memory_equal(rig.result[i].session_key, rig.result[i % 2].session_key, 32);
    assert_memory_not_equal(rig.result[0].session_key, rig.result[1].session_key, 32);
    rig_teardown(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_missing_root_is_named),
        cmocka_unit_test(a_rank_too_many_is_told_so),
        cmocka_unit_test(a_second_process_of_one_rank_is_refused),
        cmocka_unit_test(a_second_rank_0_finds_the_port_taken),
        cmocka_unit_test(another_world_ends_the_join_everywhere),
        cmocka_unit_test(other_settings_are_shown_word_by_word),
        cmocka_unit_test(a_former_epoch_does_not_disturb),
        cmocka_unit_test(another_key_is_met_with_silence),
        cmocka_unit_test(another_key_does_not_wait_for_the_timeout),
        cmocka_unit_test(too_short_a_time_is_told),
        cmocka_unit_test(a_node_that_cannot_share_is_unsupported),
        cmocka_unit_test(another_version_is_told_why),
        cmocka_unit_test(a_death_while_gathering_is_told_to_all),
        cmocka_unit_test(the_death_of_rank_0_is_told_to_all),
        cmocka_unit_test(the_death_of_rank_0_at_once_is_told),
        cmocka_unit_test(a_stopped_rank_is_named),
        cmocka_unit_test(a_death_while_connecting_is_told_to_all),
        cmocka_unit_test(a_foreign_listener_is_passed_by),
        cmocka_unit_test(a_foreign_listener_is_recognised),
        cmocka_unit_test(another_rank_is_not_taken_for_rank_0),
        cmocka_unit_test(two_jobs_share_a_range_of_ports),
    };
    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
