/* Joins under fire: a stranger keeps hundreds of connections to rank 0 busy with nothing, rubbish
 * and pieces of valid messages, while honest ranks arrive. They must all join, and none of the
 * stranger's connections may hear a single byte unless its M1 was right. */
#include "program/job/join_rig.h"

#include "base/rng.h"
#include "transport/join/inside.h"
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

enum { CONNECTIONS = 500, HELD = 200 };

struct attack {
    size_t (*write)(const struct attack *attack, int index, uint8_t bytes[256]); /* what to send */
    bool relentless; /* goes on connecting until it is killed */
    const struct gyre_job *job;
};

static size_t nothing(const struct attack *attack, int index, uint8_t bytes[256])
{
    (void)attack, (void)index, (void)bytes;
    return 0;
}

static size_t one_byte(const struct attack *attack, int index, uint8_t bytes[256])
{
    (void)attack;
    bytes[0] = index % 2 ? 'G' : 'H'; /* right and wrong */
    return 1;
}

static size_t rubbish(const struct attack *attack, int index, uint8_t bytes[256])
{
    struct gyre_rng rng;
    (void)attack;
    gyre_rng_seed(&rng, (uint64_t)index);
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)gyre_rng_next(&rng);
    if (index % 2)
        memcpy(bytes, "GYRE\r\n\x1a\x01", 8);
    return 1 + gyre_rng_below(&rng, 256);
}

/* A hello with the right key, cut after each number of bytes; whole ones never go on to M3. */
static size_t cut_hello(const struct attack *attack, int index, uint8_t bytes[256])
{
    static const uint8_t nonce[32] = {9};
    struct gyre_handshake shake;
    const uint8_t *out;
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .rank = 1,
                               .world = 4,
                               .purpose = GYRE_PURPOSE_JOIN,
                               .configuration = 7};
    memcpy(claim.job, attack->job->id, 16);
    gyre_handshake_start(&shake, GYRE_HANDSHAKE_CLIENT, &claim, attack->job->key, nonce);
    size_t length = gyre_handshake_output(&shake, &out);
    memcpy(bytes, out, length);
    return (size_t)index % (length + 1);
}

static int connect_once(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_patiently(uint16_t port) /* until rank 0 listens */
{
    int fd;
    while ((fd = connect_once(port)) < 0)
        poll(NULL, 0, 5);
    return fd;
}

/* Whether the other side has said anything at all on this connection. */
static bool was_answered(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) > 0;
}

/* Exits with 1 if a connection without a whole valid hello was answered. */
static void attack_in_child(const struct attack *attack, uint16_t port, int ready)
{
    static int held[HELD];
    static bool whole[HELD];
    uint8_t bytes[256];
    memset(held, -1, sizeof held);
    for (int i = 0; i < CONNECTIONS || attack->relentless; i++) {
        int slot = i % HELD, fd = connect_once(port);
        if (held[slot] >= 0) {
            if (!whole[slot] && was_answered(held[slot]))
                _exit(1);
            close(held[slot]);
        }
        held[slot] = fd;
        size_t length = attack->write(attack, i, bytes);
        whole[slot] = attack->write == cut_hello && length == GYRE_HELLO_BYTES;
        if (fd >= 0 && length)
            (void)send(fd, bytes, length, MSG_NOSIGNAL);
        if (i == CONNECTIONS - 1)
            (void)!write(ready, "", 1);
    }
    for (int i = 0; i < HELD; i++)
        if (!whole[i] && held[i] >= 0 && was_answered(held[i]))
            _exit(1);
    pause();
}

static pid_t start_attack(const struct attack *attack, uint16_t port)
{
    int ready[2];
    char byte;
    assert_false(pipe(ready));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(300); /* a test that failed leaves no attacker behind */
        attack_in_child(attack, port, ready[1]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void join_under(struct attack attack)
{
    struct rig rig;
    rig_setup(&rig, 4);
    for (int i = 0; i < 4; i++)
        rig.rank[i].options.join_timeout_ms = 30000;
    attack.job = &rig.rank[0].job;
    rig.rank[0].capture = true;
    rig.rank[0].options.join_timeout_ms = 30000;
    rig_start(&rig, 0);
    close(connect_patiently(rig.port));
    pid_t attacker = start_attack(&attack, rig.port);
    for (int i = 1; i < 4; i++)
        rig_start(&rig, i);
    rig_wait(&rig);
    int status;
    kill(attacker, SIGKILL);
    waitpid(attacker, &status, 0);
    assert_true(WIFSIGNALED(status)); /* it did not exit with a complaint */
    for (int i = 0; i < 4; i++)
        if (rig.result[i].status || rig.result[i].wrong)
            fail_msg("rank %d: %d: %s", i, rig.result[i].status, rig.result[i].text);
    rig_teardown(&rig);
}

static void silence_is_outlived(void **state)
{
    (void)state;
    join_under((struct attack){.write = nothing});
    join_under((struct attack){.write = one_byte});
}

static void rubbish_is_outlived(void **state)
{
    (void)state;
    join_under((struct attack){.write = rubbish});
}

static void hellos_cut_anywhere_are_outlived(void **state)
{
    (void)state;
    join_under((struct attack){.write = cut_hello});
}

static void a_flood_is_outlived(void **state)
{
    (void)state;
    join_under((struct attack){.write = nothing, .relentless = true});
    join_under((struct attack){.write = rubbish, .relentless = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_outlived),
        cmocka_unit_test(rubbish_is_outlived),
        cmocka_unit_test(hellos_cut_anywhere_are_outlived),
        cmocka_unit_test(a_flood_is_outlived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
