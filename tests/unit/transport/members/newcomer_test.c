/* A process that asks a job whose room hangs up, whenever it has proven the key, as a room without
 * memory does. What a room says else is tested by tests/program/failures/grow.c. */
#include "rig/test.h"

#include "base/rng.h"
#include "transport/members/newcomer.h"
#include "transport/net/socket.h"
#include "transport/net/talk.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define JOIN_MS 300

struct mute_room {
    uint8_t key[GYRE_KEY_BYTES];
    int listener; /* shut down at the end */
};

/* Proves the key to a guest, and hangs up. */
static void see_off(const struct mute_room *room, int fd)
{
    const struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                                     .version_high = GYRE_PROTOCOL_HIGH,
                                     .purpose = GYRE_PURPOSE_NEWCOMER};
    struct gyre_talk talk;
    struct gyre_record record = {.kind = 1};
    uint8_t nonce[GYRE_NONCE_BYTES];
    int status = gyre_random_bytes(nonce, sizeof nonce);
    gyre_talk_open(&talk, fd);
    if (!status)
        status = gyre_handshake_start(&talk.shake, GYRE_HANDSHAKE_SERVER, &claim, room->key, nonce);
    while (!status || status == GYRE_AGAIN) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        poll(&wait, 1, -1);
        status = gyre_talk_step(&talk, &record);
        if (!status && !record.kind)
            break;
    }
    gyre_talk_close(&talk);
}

static void *hang_up_on_all(void *argument)
{
    const struct mute_room *room = argument;
    struct sockaddr_storage from;
    struct pollfd wait = {.fd = room->listener, .events = POLLIN};
    while (poll(&wait, 1, -1) == 1 && !(wait.revents & POLLHUP)) {
        int fd = gyre_socket_accept(room->listener, &from);
        if (fd >= 0)
            see_off(room, fd);
    }
    return NULL;
}

static void open_mute_room(struct mute_room *room, struct gyre_job *job)
{
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve("127.0.0.1", 0, &address, 1, NULL), 1);
    room->listener = gyre_socket_listen(&address, 0, 0, 8);
    assert_true(room->listener >= 0);
    memset(room->key, 0x4b, sizeof room->key);
    memcpy(job->key, room->key, sizeof job->key);
    job->root_kind = GYRE_ROOT_ADDRESS;
    strcpy(job->root_host, "127.0.0.1");
    job->root_port = gyre_address_port(&address);
    job->root_port_tries = 1;
}

static void a_room_that_hangs_up_is_told(void **state)
{
    static struct gyre_job job;
    const struct gyre_join_options options = {
        .join_timeout_ms = JOIN_MS, .connections = 1, .configuration_text = ""};
    struct mute_room room;
    struct gyre_members *members = NULL;
    struct gyre_company company;
    struct gyre_trouble trouble = {0};
    pthread_t thread;
    (void)state;
    open_mute_room(&room, &job);
    assert_int_equal(pthread_create(&thread, NULL, hang_up_on_all, &room), 0);
    int status = gyre_newcomer_ask(&job, &options, &members, &company, &trouble);
    shutdown(room.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(room.listener);
    print_message("%s\n", trouble.text);
    assert_int_equal(status, GYRE_TIMED_OUT);
    assert_non_null(strstr(trouble.text, "the job has hung up on this process"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_room_that_hangs_up_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
