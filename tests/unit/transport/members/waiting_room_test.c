/* The waiting room in a process with one descriptor to spare: strangers that came before a newcomer
 * make room for it, one after the other. Newcomers that are taken in are tested by
 * tests/program/failures/grow.c. */
#include "rig/test.h"

#include "base/clock.h"
#include "base/rng.h"
#include "transport/members/waiting_room.h"
#include "transport/net/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

/* Each stranger may take 5 s, so without a place for the last all take longer than a test. */
enum { STRANGERS = 100, PATIENCE_MS = 120000 };
enum { OF_THE_ROOM = 3 }; /* descriptors: its wake, its listener, a guest */

struct room_rig {
    struct gyre_job job;
    struct sockaddr_storage address;
    struct gyre_waiting_room *room;
    int stranger[STRANGERS];
    struct gyre_talk newcomer;
};

static int connect_one(const struct room_rig *rig)
{
    int fd = gyre_socket_connect(&rig->address, NULL);
    struct pollfd connected = {.fd = fd, .events = POLLOUT};
    assert_true(fd >= 0);
    assert_int_equal(poll(&connected, 1, PATIENCE_MS), 1);
    assert_int_equal(gyre_socket_connected(fd), 0);
    return fd;
}

/* Strangers, and behind them a newcomer, wait at the listener before there is a room. */
static void queue_guests(struct room_rig *rig)
{
    const struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                                     .version_high = GYRE_PROTOCOL_HIGH,
                                     .purpose = GYRE_PURPOSE_NEWCOMER};
    uint8_t nonce[GYRE_NONCE_BYTES];
    for (int i = 0; i < STRANGERS; i++)
        rig->stranger[i] = connect_one(rig);
    assert_int_equal(gyre_random_bytes(nonce, sizeof nonce), 0);
    assert_int_equal(gyre_handshake_start(&rig->newcomer.shake, GYRE_HANDSHAKE_CLIENT, &claim,
                                          rig->job.key, nonce),
                     0);
    gyre_talk_open(&rig->newcomer, connect_one(rig));
}

/* Opens the room under a limit that leaves one descriptor for all guests. */
static void open_tight_room(struct room_rig *rig)
{
    const struct gyre_waiting_room_options options = {
        .job = &rig->job, .configuration = "", .address = rig->address};
    struct gyre_trouble trouble = {0};
    struct rlimit limit;
    int next = dup(STDERR_FILENO);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next + OF_THE_ROOM;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (gyre_waiting_room_open(&options, &rig->room, &trouble))
        fail_msg("%s", trouble.text);
}

/* What the room says first, behind the proof. */
static uint16_t hear_room(struct gyre_talk *talk)
{
    const uint64_t until = gyre_now_ns() + PATIENCE_MS * GYRE_MS;
    struct gyre_record record = {0};
    int status = GYRE_AGAIN;
    while (status == GYRE_AGAIN && gyre_now_ns() < until) {
        struct pollfd wait = {.fd = talk->fd, .events = POLLIN};
        poll(&wait, 1, 1000);
        do
            status = gyre_talk_step(talk, &record);
        while (!status && !record.kind);
    }
    assert_int_equal(status, 0);
    return record.kind;
}

static void without_descriptors_strangers_make_room(void **state)
{
    static struct room_rig rig;
    (void)state;
    memset(rig.job.key, 0x4b, sizeof rig.job.key);
    rig.job.root_kind = GYRE_ROOT_HELD;
    assert_int_equal(gyre_address_resolve("127.0.0.1", 0, &rig.address, 1, NULL), 1);
    rig.job.root_fd = gyre_socket_listen(&rig.address, 0, 0, 2 * STRANGERS);
    assert_true(rig.job.root_fd >= 0);
    queue_guests(&rig);
    open_tight_room(&rig);
    assert_int_equal(hear_room(&rig.newcomer), GYRE_NEWCOMER_PLACE);
    gyre_waiting_room_close(rig.room, true);
    gyre_talk_close(&rig.newcomer);
    for (int i = 0; i < STRANGERS; i++)
        close(rig.stranger[i]);
    close(rig.job.root_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_descriptors_strangers_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
