/* Jobs over a network that is down for a while. Two ranks run in two network namespaces, with a
 * bridge between them whose port is closed and opened again. An outage shorter than the dead time
 * is no failure. A longer one is reported when the dead time is over. A queue full of data is no
 * outage. Skipped where namespaces are not permitted. */
#include "nemesis/machines.h"
#include "rig/beside.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

#define DEAD_MS 10000
#define SECOND  1000000000ull
#define COUNT   1000000

/* The bridge forwards nothing: no rank's machine sees anything else than silence. */
static void set_link(bool up)
{
    assert_true(machines_run("bridge link set dev port1 state %d", up ? 3 : 0));
}

/* The interface of rank 1 itself goes down, as where a cable is pulled. */
static void set_interface(bool up)
{
    assert_true(machines_run("ip -n rank1 link set way %s", up ? "up" : "down"));
}

/* Sleeps for as long as the network is to stay as it is. */
static void keep(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void enter_namespace(const struct rig *rig, int rank)
{
    (void)rig;
    machines_enter(rank);
}

static bool all_are(const float *data, int count, float value)
{
    for (int i = 0; i < count; i++)
        if (data[i] != value)
            return false;
    return true;
}

/* Sums COUNT elements, or as many as the rig's argument says, until rank 0 has seen the flag, which
 * travels as its summand. `ready` counts the sums of rank 0. */
static int sum_until_told(struct gyre_comm *comm, struct rig *rig)
{
    static float data[COUNT];
    const int *given = rig->argument;
    int rank = gyre_rank(comm), status = 0, count = given ? *given : COUNT;
    for (float sum = 3; sum == 3;) {
        uint64_t since = rig_now();
        float mine = rank ? 2.0f : rig->shared->flag ? 9.0f : 1.0f;
        for (int i = 0; i < count; i++)
            data[i] = mine;
        status = gyre_all_reduce(comm, data, data, (uint64_t)count, GYRE_F32, GYRE_SUM);
        if (status) {
            rig_note(rig, comm, status, since);
            break;
        }
        sum = data[0];
        if (rig_check((sum == 3 || sum == 11) && all_are(data, count, sum), comm, "a wrong sum"))
            return 1;
        rig->shared->ready += rank == 0;
        usleep(10000); /* the network is what is tried, not how fast they sum */
    }
    return gyre_finalize(comm) == status ? 0 : 1;
}

static struct rig start_job(void)
{
    struct rig rig = {.n = 2,
                      .transport = "tcp",
                      .dead_ms = DEAD_MS / rig_slow(),
                      .before = enter_namespace,
                      .body = sum_until_told};
    rig_start(&rig);
    rig_until(&rig.shared->ready, 20);
    return rig;
}

static void expect_no_failure(const struct rig *rig)
{
    for (int rank = 0; rank < 2; rank++)
        if (rig->shared->status[rank])
            print_message("rank %d: %s\n", rank, rig->shared->error[rank]);
    assert_int_equal(rig->shared->status[0] | rig->shared->status[1], 0);
}

/* The job sums on, and ends well. */
static void end_job(struct rig *rig)
{
    int until = rig->shared->ready + 20;
    while (rig->shared->ready < until && !rig->shared->status[0] && !rig->shared->status[1])
        usleep(100);
    rig->shared->flag = 1;
    int bad = rig_wait(rig, 60, 0);
    expect_no_failure(rig);
    assert_int_equal(bad, 0);
    munmap(rig->shared, sizeof *rig->shared);
}

/* The kernel's pauses between retransmissions are bounded from Linux 6.15 on. Before, the last
 * attempt within 10 s comes after 6.2 s. */
static bool has_bounded_pauses(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), value = 1000;
    int status = setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &value, sizeof value);
    close(fd);
    return status == 0;
}

static void an_outage_within_the_dead_time_is_outlived(void **state)
{
    (void)state;
    if (!has_bounded_pauses()) {
        print_message("skipped: this kernel has no TCP_RTO_MAX_MS\n");
        skip();
    }
    struct rig rig = start_job();
    set_link(false);
    keep(8.5);
    set_link(true);
    end_job(&rig);
}

/* Outages of 12.5 s in all: they do not add up to the dead time. */
static void a_flapping_network_is_outlived(void **state)
{
    (void)state;
    struct rig rig = start_job();
    for (int i = 0; i < 5; i++) {
        set_interface(false);
        keep(2.5);
        set_interface(true);
        keep(2);
    }
    end_job(&rig);
}

/* By the watch: the kernel alone would say so at twice the dead time, in other words. A beat may
 * have been on its way for a fortieth of the dead time when the network went down. */
static void a_longer_outage_is_told_at_the_dead_time(void **state)
{
    (void)state;
    struct rig rig = start_job();
    set_link(false);
    uint64_t cut = rig_now();
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    double seconds = (double)(rig_now() - cut) / 1e9;
    set_link(true);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
        assert_non_null(strstr(rig.shared->error[rank], "has been silent for the dead time"));
    }
    print_message("told after %.2f s\n", seconds);
    assert_true(seconds > DEAD_MS / 1000.0 - 0.5);
    munmap(rig.shared, sizeof *rig.shared);
}

/* Packets of up to 1300 bytes pass, so the watch hears its beats. Larger ones do not, and no error
 * comes back. */
static void a_path_without_large_packets_is_told(void **state)
{
    (void)state;
    assert_true(machines_run("for i in 0 1; do ip -n rank$i link set way gso_max_segs 1 && "
                             "ip link set port$i mtu 1300 || exit 1; done"));
    struct rig rig = {.n = 2,
                      .transport = "tcp",
                      .dead_ms = 2000,
                      .before = enter_namespace,
                      .body = sum_until_told};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 60, 0), 0);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
    if (!strstr(rig.shared->error[0], "large packets (MTU)"))
        fail_msg("%s", rig.shared->error[0]);
    munmap(rig.shared, sizeof *rig.shared);
}

/* Makes the way out of both machines slow, with a queue that sends priorities first. */
static bool make_slow(void)
{
    return machines_run("for i in 0 1; do tc -n rank$i qdisc add dev way root handle 1: "
                        "tbf rate 1mbit burst 64kb limit 4mb && "
                        "tc -n rank$i qdisc add dev way parent 1:1 handle 2: pfifo_fast || exit 1; "
                        "done 2>/dev/null");
}

/* Puts 266 KB into the queue of rank 0's machine, which takes 1.6 s to send them. */
static void fill_queue(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    static const char bytes[1400];
    pid_t sender = fork();
    if (sender == 0) {
        machines_enter(0);
        inet_pton(AF_INET, "10.77.0.2", &to.sin_addr);
        int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 1 << 20, sent = 0;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
        while (sent < 190 && sendto(fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&to,
                                    sizeof to) == sizeof bytes)
            sent++;
        _exit(sent == 190 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(sender, &status, 0), sender);
    assert_int_equal(status, 0);
}

/* The dead time is shorter than the queue is long. Beats must not wait in it. The data of the job
 * do, and all ranks wait meanwhile: no mismatch. */
static void a_queue_full_of_data_delays_no_beat(void **state)
{
    (void)state;
    if (!make_slow()) {
        print_message("skipped: tc cannot make a slow link with priorities here\n");
        skip();
    }
    int count = 1;
    struct rig rig = {.n = 2,
                      .transport = "tcp",
                      .dead_ms = 1000,
                      .before = enter_namespace,
                      .body = sum_until_told,
                      .argument = &count};
    rig_start(&rig);
    rig_until(&rig.shared->ready, 20);
    fill_queue();
    end_job(&rig);
    assert_true(machines_run("for i in 0 1; do tc -n rank$i qdisc del dev way root; done"));
}

static int make_machines(void **state)
{
    (void)state;
    return machines_make(2) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_within_the_dead_time_is_outlived),
        cmocka_unit_test(a_flapping_network_is_outlived),
        cmocka_unit_test(a_longer_outage_is_told_at_the_dead_time),
        cmocka_unit_test(a_queue_full_of_data_delays_no_beat),
        cmocka_unit_test(a_path_without_large_packets_is_told),
    };
    if (!machines_make(2)) {
        printf("skipped: no network namespaces with a bridge can be made here\n");
        return 77;
    }
    return run_beside(tests, sizeof tests / sizeof *tests, make_machines);
}
