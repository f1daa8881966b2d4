/* What TCP between nodes rests on: the poller, the congestion control, the kernel's buffers. Tested
 * by tests/unit/cli/doctor/network_test.c. */
#include "cli/doctor/checks/checks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_LITTLE (INT64_C(1) << 20)

static const char *uring_remedy(const struct gyre_doctor_machine *machine, int status)
{
    if (gyre_doctor_read_number(machine, "/proc/sys/kernel/io_uring_disabled", 0))
        return "sysctl kernel.io_uring_disabled=0";
    if (status == -EPERM || status == -ENOSYS)
        return "allow io_uring_setup, io_uring_enter and io_uring_register in the container's "
               "seccomp profile; kernels below 5.7 have none";
    return "raise `ulimit -l` and `ulimit -n`";
}

void gyre_check_io_uring(const struct gyre_doctor_machine *machine,
                         struct gyre_doctor_report *report)
{
    struct gyre_trouble trouble = {0};
    const char *wanted = getenv("GYRE_TCP_POLLER");
    if (wanted && !strcmp(wanted, "epoll")) {
        gyre_doctor_find(report, "io_uring", GYRE_DOCTOR_OK,
                         "not asked for: GYRE_TCP_POLLER is epoll");
        return;
    }
    int status = machine->io_uring(&trouble);
    if (!status) {
        gyre_doctor_find(report, "io_uring", GYRE_DOCTOR_OK, "TCP is served by it");
    } else if (status == GYRE_UNSUPPORTED) {
        gyre_doctor_find(report, "io_uring", GYRE_DOCTOR_ABSENT, "%s; epoll serves TCP",
                         trouble.text);
    } else {
        gyre_doctor_find(report, "io_uring", GYRE_DOCTOR_NOTE, "%s; epoll serves TCP",
                         trouble.text);
        gyre_doctor_advise(report, "TCP with many peers is slower so: %s",
                           uring_remedy(machine, status));
    }
}

/* The last of three numbers, the most that a buffer grows to. */
static int64_t most_of(const struct gyre_doctor_machine *machine, const char *path)
{
    char text[128];
    long long least, usual, most;
    gyre_doctor_read(machine, path, text, sizeof text);
    return sscanf(text, "%lld %lld %lld", &least, &usual, &most) == 3 ? most : -1;
}

void gyre_check_tcp(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    char control[32], in_text[32], out_text[32];
    int64_t in = most_of(machine, "/proc/sys/net/ipv4/tcp_rmem"),
            out = most_of(machine, "/proc/sys/net/ipv4/tcp_wmem");
    gyre_doctor_read(machine, "/proc/sys/net/ipv4/tcp_congestion_control", control, sizeof control);
    if (in < 0 || out < 0) {
        gyre_doctor_find(report, "tcp", GYRE_DOCTOR_ABSENT, "the system does not tell its buffers");
        return;
    }
    gyre_doctor_find(report, "tcp", GYRE_DOCTOR_OK,
                     "congestion control %s, buffers up to %s in and %s out",
                     *control ? control : "unknown", gyre_doctor_bytes((uint64_t)in, in_text),
                     gyre_doctor_bytes((uint64_t)out, out_text));
    if (in < BUFFER_LITTLE || out < BUFFER_LITTLE) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report,
                           "fast networks want more: sysctl net.ipv4.tcp_rmem=\"4096 131072 "
                           "33554432\" net.ipv4.tcp_wmem=\"4096 65536 33554432\"");
    }
    gyre_doctor_figure(report, "receive_bytes", (double)in);
    gyre_doctor_figure(report, "send_bytes", (double)out);
}
