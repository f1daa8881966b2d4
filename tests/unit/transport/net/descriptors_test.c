/* Descriptors beside bytes: what was sent arrives, and what was not expected is refused without a
 * descriptor left open. */
#include "transport/net/descriptors.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct ends {
    int socket[2], pipe[2];
    int free; /* the lowest descriptor that is not open */
};

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void open_ends(struct ends *ends)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->socket), 0);
    assert_int_equal(pipe2(ends->pipe, O_CLOEXEC), 0);
    ends->free = lowest_free();
}

static void close_ends(struct ends *ends)
{
    assert_int_equal(lowest_free(), ends->free); /* nothing was left open */
    for (int i = 0; i < 2; i++) {
        close(ends->socket[i]);
        close(ends->pipe[i]);
    }
}

static void descriptors_arrive_with_their_bytes(void **state)
{
    for (int count = 0; count <= GYRE_DESCRIPTORS_MAX; count++) {
        struct ends ends;
        char bytes[8] = "", word = 0;
        int fd[2] = {7, 7};
        open_ends(&ends);
        assert_int_equal(gyre_descriptors_send(ends.socket[0], "hello", 5, ends.pipe, count, 0), 5);
        assert_int_equal(gyre_descriptors_receive(ends.socket[1], bytes, 5, fd, 2, 0), 5);
        assert_string_equal(bytes, "hello");
        for (int i = 0; i < 2; i++)
            assert_int_equal(fd[i] >= 0, i < count);
        for (int i = 0; i < count; i++)
            assert_int_equal(fcntl(fd[i], F_GETFD), FD_CLOEXEC);
        if (count == 2) {
            assert_int_equal(write(fd[1], "x", 1), 1);
            assert_int_equal(read(fd[0], &word, 1), 1);
            assert_int_equal(word, 'x');
        }
        gyre_descriptors_close(fd, 2);
        assert_true(fd[0] == -1 && fd[1] == -1);
        close_ends(&ends);
    }
}

static void more_than_expected_is_refused(void **state)
{
    struct ends ends;
    char bytes[8];
    int fd[2] = {7, 7};
    open_ends(&ends);
    assert_int_equal(gyre_descriptors_send(ends.socket[0], "hello", 5, ends.pipe, 2, 0), 5);
    assert_int_equal(gyre_descriptors_receive(ends.socket[1], bytes, 5, fd, 1, 0), -EMSGSIZE);
    assert_int_equal(fd[0], -1);
    assert_int_equal(gyre_descriptors_send(ends.socket[0], "hello", 5, ends.pipe, 1, 0), 5);
    assert_int_equal(gyre_descriptors_receive(ends.socket[1], bytes, 5, fd, 0, 0), -EMSGSIZE);
    assert_int_equal(gyre_descriptors_send(ends.socket[0], "hello", 5, ends.pipe, 2, 0), 5);
    assert_int_equal(gyre_descriptors_receive(ends.socket[1], bytes, 4, fd, 2, 0), -EMSGSIZE);
    assert_true(fd[0] == -1 && fd[1] == -1);
    close_ends(&ends);
}

/* Receives a message with two descriptors where only `most` more may be open. */
static void receive_with_room_for(int most)
{
    struct ends ends;
    struct rlimit before;
    char bytes[8] = "";
    int fd[2] = {7, 7};
    open_ends(&ends);
    assert_int_equal(gyre_descriptors_send(ends.socket[0], "hello", 5, ends.pipe, 2, 0), 5);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {(rlim_t)(ends.free + most), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    ssize_t got = gyre_descriptors_receive(ends.socket[1], bytes, 5, fd, 2, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(got, 5);
    assert_string_equal(bytes, "hello");
    for (int i = 0; i < 2; i++)
        assert_int_equal(fd[i] >= 0, i < most);
    gyre_descriptors_close(fd, 2);
    close_ends(&ends);
}

static void bytes_arrive_where_no_descriptor_is_free(void **state)
{
    receive_with_room_for(0);
    receive_with_room_for(1);
}

static void errors_are_returned(void **state)
{
    struct ends ends;
    char byte;
    int fd = 7, stream[2];
    open_ends(&ends);
    assert_int_equal(gyre_descriptors_receive(ends.socket[1], &byte, 1, &fd, 1, MSG_DONTWAIT),
                     -EAGAIN);
    assert_int_equal(fd, -1);
    shutdown(ends.socket[0], SHUT_WR);
    assert_int_equal(gyre_descriptors_receive(ends.socket[1], &byte, 1, &fd, 1, 0), 0);
    close_ends(&ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
    close(stream[1]);
    signal(SIGPIPE, SIG_DFL); /* a stream's end would send one */
    assert_int_equal(gyre_descriptors_send(stream[0], "x", 1, NULL, 0, 0), -EPIPE);
    close(stream[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_arrive_with_their_bytes),
        cmocka_unit_test(more_than_expected_is_refused),
        cmocka_unit_test(bytes_arrive_where_no_descriptor_is_free),
        cmocka_unit_test(errors_are_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
