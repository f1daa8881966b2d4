/* TCP connections that are reset under a job that sums: it goes on, and every sum is right.
 *
 * Dissolving an association, connect() to AF_UNSPEC, resets a TCP connection at both ends. A rank
 * finds its connections among its descriptors. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT 100000
#define SUMS  40

static bool is_connected(int fd, uint16_t *mine, uint16_t *theirs)
{
    struct sockaddr_in here, there;
    socklen_t here_length = sizeof here, there_length = sizeof there;
    if (getsockname(fd, (struct sockaddr *)&here, &here_length) ||
        getpeername(fd, (struct sockaddr *)&there, &there_length) || here.sin_family != AF_INET)
        return false;
    *mine = ntohs(here.sin_port);
    *theirs = ntohs(there.sin_port);
    return true;
}

/* Resets the connection that this rank made to where the ranks met: the watch's. Past libc: the
 * thread sanitizer would take connect() for the birth of a descriptor. */
static bool reset_control(void)
{
    uint16_t mine, theirs, root = (uint16_t)atoi(getenv("MASTER_PORT"));
    struct sockaddr any = {.sa_family = AF_UNSPEC};
    for (int fd = 3; fd < 1024; fd++)
        if (is_connected(fd, &mine, &theirs) && theirs == root)
            return syscall(SYS_connect, fd, &any, sizeof any) == 0;
    return false;
}

/* Sums; ranks of the second node lose their watch's connection in the middle. */
static int sum_on(struct gyre_comm *comm, struct rig *rig)
{
    static float data[COUNT];
    int rank = gyre_rank(comm), n = gyre_size(comm);
    for (int turn = 0; turn < SUMS; turn++) {
        uint64_t since = rig_now();
        if (turn == SUMS / 4 + rank && rank >= 2 &&
            rig_check(reset_control(), comm, "no control connection"))
            return 1;
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(rank + i % 7 + turn);
        int status = gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
        if (status) {
            rig_note(rig, comm, status, since);
            break;
        }
        for (int i = 0; i < COUNT; i++)
            if (data[i] != (float)(n * (n - 1) / 2 + n * (i % 7 + turn)))
                return 1;
        rig->shared->ready += rank == 0;
    }
    return gyre_finalize(comm);
}

static void a_reset_of_the_watch_costs_no_job(void **state)
{
    static const char *const how[] = {"none", "auth", "encrypt"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct rig rig = {.n = 4, .transport = "tcp", .per_node = 2, .body = sum_on};
        setenv("GYRE_TCP_SECURITY", how[i], 1);
        rig_start(&rig);
        int bad = rig_wait(&rig, 60, 0);
        for (int rank = 0; rank < rig.n; rank++)
            if (rig.shared->status[rank])
                print_message("rank %d: %s\n", rank, rig.shared->error[rank]);
        assert_int_equal(bad, 0);
        assert_int_equal(rig.shared->ready, SUMS);
        munmap(rig.shared, sizeof *rig.shared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reset_of_the_watch_costs_no_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
