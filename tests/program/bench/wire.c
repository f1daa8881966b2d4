/* The wire with a delay, bench/parts/wire.c, between two network namespaces of this process: frames
 * pass both ways, in order and never before the delay; one that is lost is counted and told. Skips
 * where namespaces or TAP interfaces cannot be made. */
#include "base/clock.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUR_FRAMES     0x88b5 /* an EtherType for experiments */
#define FRAMES         300
#define DELAY_NS       (20 * GYRE_MS)
#define STREAM         60000u /* frames of 48 MiB */
#define STREAM_AT_ONCE 2000u
#define SENT_MOST      10050u /* more than the wire's queue has places */
#define MOST_BYTES     1514

static int space[2]; /* namespaces */
static char tool[4096], told[4096];

struct wire {
    pid_t pid;
    int said[2], told[2]; /* pipes */
    int end[2];           /* packet sockets at its interfaces */
};

/* -- the rig ----------------------------------------------------------------------------------- */

/* This program is <build>/tests/program_bench_wire. */
static void find_tool(void)
{
    ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 32);
    tool[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++)
        *strrchr(tool, '/') = '\0';
    strcat(tool, "/bench/wire");
}

/* The kernel shall send no frames of its own in the namespace that was entered. */
static void silence(void)
{
    static const char *const names[] = {"all", "default"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", names[i]);
        FILE *file = fopen(path, "we");
        if (file) {
            fputs("1", file);
            fclose(file);
        }
    }
}

static bool spaces_can_be_made(void)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        if (unshare(CLONE_NEWNET))
            return false;
        space[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        silence();
    }
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    close(home);
    return access("/dev/net/tun", R_OK | W_OK) == 0;
}

static pid_t start(const char *const *words, const int said[2], const int errors[2])
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(said[1], STDOUT_FILENO);
        dup2(errors[1], STDERR_FILENO);
        execv(tool, (char *const *)(const void *)words);
        _exit(127);
    }
    close(said[1]);
    close(errors[1]);
    return pid;
}

static void start_wire(struct wire *wire, const char *delay, const char *const end[2])
{
    const char *const words[] = {"wire", delay, end[0], end[1], NULL};
    assert_int_equal(pipe2(wire->said, O_CLOEXEC), 0);
    assert_int_equal(pipe2(wire->told, O_CLOEXEC), 0);
    wire->pid = start(words, wire->said, wire->told);
}

/* Takes all that the wire still says, and returns its exit code. */
static int end_of(struct wire *wire)
{
    size_t length = 0;
    int status;
    for (ssize_t got = 1; got > 0; length += got > 0 ? (size_t)got : 0)
        got = read(wire->told[0], told + length, sizeof told - 1 - length);
    told[length] = '\0';
    assert_int_equal(waitpid(wire->pid, &status, 0), wire->pid);
    close(wire->said[0]);
    close(wire->told[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_told(const char *text)
{
    if (!strstr(told, text))
        fail_msg("\"%s\" is not in:\n%s", text, told);
}

/* A socket for frames of our own at veth0 of a namespace, in which this process then is. */
static int open_end(int i)
{
    const struct timeval patience = {30, 0};
    assert_int_equal(setns(space[i], CLONE_NEWNET), 0);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(OUR_FRAMES));
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(OUR_FRAMES),
                             .sll_ifindex = (int)if_nametoindex("veth0")};
    assert_true(fd >= 0 && at.sll_ifindex > 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &(int){64 << 20}, sizeof(int)), 0);
    return fd;
}

/* Makes a wire between both namespaces, and waits until it says that it is ready. */
static void lay(struct wire *wire, const char *delay)
{
    char words[2][64], ready[16] = "";
    for (int i = 0; i < 2; i++)
        snprintf(words[i], sizeof words[i], "/proc/%d/fd/%d:veth0", (int)getpid(), space[i]);
    start_wire(wire, delay, (const char *const[]){words[0], words[1]});
    if (read(wire->said[0], ready, sizeof ready - 1) <= 0) {
        end_of(wire);
        fail_msg("the wire is not ready: %s", told);
    }
    assert_string_equal(ready, "ready\n");
    for (int i = 0; i < 2; i++)
        wire->end[i] = open_end(i);
}

/* Ends the wire, and returns its exit code. */
static int take_up(struct wire *wire)
{
    for (int i = 0; i < 2; i++)
        close(wire->end[i]);
    kill(wire->pid, SIGTERM);
    return end_of(wire);
}

static size_t length_of(uint32_t number)
{
    return 64 + number * 37 % (MOST_BYTES - 64);
}

static void make_frame(unsigned char *frame, uint32_t number)
{
    memset(frame, (int)(number & 255), MOST_BYTES);
    memset(frame, 0xff, 6); /* to all */
    frame[6] = 2;           /* an address that nobody was given */
    frame[12] = OUR_FRAMES >> 8;
    frame[13] = OUR_FRAMES & 255;
    memcpy(frame + 14, &number, sizeof number);
}

static void send_frame(int fd, uint32_t number)
{
    unsigned char frame[MOST_BYTES];
    make_frame(frame, number);
    ssize_t sent = send(fd, frame, length_of(number), 0);
    if (sent != (ssize_t)length_of(number) && errno != ENOBUFS)
        fail_msg("frame %u: %s", number, strerror(errno));
}

/* Receives a frame, whole and as it was sent, and returns its number. What this end sends comes to
 * the socket, too. */
static uint32_t receive_frame(int fd)
{
    unsigned char frame[MOST_BYTES + 1], right[MOST_BYTES];
    struct sockaddr_ll from = {.sll_pkttype = PACKET_OUTGOING};
    uint32_t number;
    ssize_t length = 0;
    while (from.sll_pkttype == PACKET_OUTGOING) {
        socklen_t room = sizeof from;
        length = recvfrom(fd, frame, sizeof frame, 0, (struct sockaddr *)&from, &room);
        if (length < 0)
            fail_msg("no frame came: %s", strerror(errno));
    }
    memcpy(&number, frame + 14, sizeof number);
    make_frame(right, number);
    assert_int_equal(length, length_of(number));
    assert_memory_equal(frame, right, (size_t)length);
    return number;
}

static void set_down(int i)
{
    struct ifreq request = {.ifr_name = "veth0"};
    assert_int_equal(setns(space[i], CLONE_NEWNET), 0);
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(ioctl(any, SIOCSIFFLAGS, &request), 0);
    close(any);
}

/* -- tests ------------------------------------------------------------------------------------- */

/* Both ways at once. A frame may come late, and never early. */
static void frames_come_in_order_and_not_early(void **state)
{
    static uint64_t sent_ns[2][FRAMES];
    struct wire wire;
    (void)state;
    lay(&wire, "20ms");
    for (uint32_t number = 0; number < FRAMES; number++)
        for (int i = 0; i < 2; i++) {
            sent_ns[i][number] = gyre_now_ns();
            send_frame(wire.end[i], number);
        }
    for (int i = 0; i < 2; i++)
        for (uint32_t number = 0; number < FRAMES; number++) {
            assert_int_equal(receive_frame(wire.end[!i]), number);
            if (gyre_now_ns() < sent_ns[i][number] + DELAY_NS)
                fail_msg("frame %u came too early", number);
        }
    assert_int_equal(take_up(&wire), 0);
    expect_told("frames passed on");
    assert_null(strstr(told, "lost"));
}

/* More than a way holds, though never at once, so frames begin again where the first ones lay. */
static void a_long_stream_comes_whole(void **state)
{
    struct wire wire;
    uint32_t sent = 0;
    (void)state;
    lay(&wire, "20ms");
    while (sent < STREAM_AT_ONCE)
        send_frame(wire.end[0], sent++);
    for (uint32_t came = 0; came < STREAM; came++) {
        assert_int_equal(receive_frame(wire.end[1]), came);
        if (sent < STREAM)
            send_frame(wire.end[0], sent++);
    }
    assert_int_equal(take_up(&wire), 0);
    expect_told(" 60000 frames passed on");
}

/* The frame is there before the signal, because the wire is stopped meanwhile. */
static void a_refused_frame_is_told(void **state)
{
    struct wire wire;
    int status;
    (void)state;
    lay(&wire, "0s");
    kill(wire.pid, SIGSTOP);
    assert_int_equal(waitpid(wire.pid, &status, WUNTRACED), wire.pid);
    set_down(1);
    send_frame(wire.end[0], 7);
    kill(wire.pid, SIGTERM);
    kill(wire.pid, SIGCONT);
    assert_int_equal(take_up(&wire), 1);
    expect_told("lost: 1 frames that /proc/");
    expect_told(":veth0 refused; the first: Input/output error");
}

/* A wire that gets no core does not read. What its interface's queue has no place for is told, and
 * all else arrives. The last frame is sent when the queue has places again. */
static void a_frame_without_place_is_told(void **state)
{
    struct wire wire;
    char lost[64];
    uint32_t came = 1, last;
    int status;
    (void)state;
    lay(&wire, "1us");
    kill(wire.pid, SIGSTOP);
    assert_int_equal(waitpid(wire.pid, &status, WUNTRACED), wire.pid);
    for (uint32_t number = 0; number < SENT_MOST; number++)
        send_frame(wire.end[0], number);
    kill(wire.pid, SIGCONT);
    last = receive_frame(wire.end[1]);
    send_frame(wire.end[0], SENT_MOST);
    for (; last < SENT_MOST; came++) {
        uint32_t number = receive_frame(wire.end[1]);
        assert_true(number > last);
        last = number;
    }
    assert_int_equal(take_up(&wire), 1);
    assert_true(came < SENT_MOST);
    snprintf(lost, sizeof lost, "lost: %u frames dropped at ", SENT_MOST + 1 - came);
    expect_told(lost);
}

static void expect_refusal(const char *delay, const char *one, const char *other, int code,
                           const char *text)
{
    struct wire wire;
    start_wire(&wire, delay, (const char *const[]){one, other});
    assert_int_equal(end_of(&wire), code);
    expect_told(text);
}

static void wrong_words_are_told(void **state)
{
    (void)state;
    expect_refusal("5", "a:b", "c:d", 2, "the delay is \"5\": expected 0s to 10s");
    expect_refusal("11s", "a:b", "c:d", 2, "the delay is \"11s\"");
    expect_refusal("1ms", "ab", "c:d", 2, "\"ab\": expected NAMESPACE:INTERFACE");
    expect_refusal("1ms", "a:b", "c:a-name-too-long-for-it", 2, "\"c:a-name-too-long-for-it\"");
    expect_refusal("1ms", "/nowhere/at/all:b", "c:d", 1,
                   "cannot enter namespace /nowhere/at/all: No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_in_order_and_not_early),
        cmocka_unit_test(a_long_stream_comes_whole),
        cmocka_unit_test(a_refused_frame_is_told),
        cmocka_unit_test(a_frame_without_place_is_told),
        cmocka_unit_test(wrong_words_are_told),
    };
    find_tool();
    if (!spaces_can_be_made()) {
        puts("skipped: no network namespaces with TAP interfaces can be made here");
        return 77;
    }
    return cmocka_run_group_tests_name("bench/wire", tests, NULL, NULL);
}
