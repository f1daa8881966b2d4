/* What gyre doctor says of TCP, addresses, ports and RDMA, in every state that they can be in. */
#include "unit/cli/doctor/doctor_rig.h"

#include <stdlib.h>

static void test_io_uring(void **state)
{
    rig_expect(gyre_check_io_uring, OK, "TCP is served by it", NULL);
    rig_refuse(&rig.uring, -EPERM, "io_uring is refused with EPERM (why)");
    rig_expect(gyre_check_io_uring, NOTE, "io_uring is refused with EPERM (why); epoll serves TCP",
               "seccomp profile");
    rig_put("proc/sys/kernel/io_uring_disabled", "2\n");
    rig_expect(gyre_check_io_uring, NOTE, "epoll serves TCP", "sysctl kernel.io_uring_disabled=0");
    rig_put("proc/sys/kernel/io_uring_disabled", "0\n");
    rig_refuse(&rig.uring, -ENOMEM, "io_uring is refused with ENOMEM (why)");
    rig_expect(gyre_check_io_uring, NOTE, "ENOMEM", "ulimit -l");
    rig_refuse(&rig.uring, GYRE_UNSUPPORTED, "io_uring is not built in");
    rig_expect(gyre_check_io_uring, ABSENT, "not built in; epoll serves TCP", NULL);
    setenv("GYRE_TCP_POLLER", "epoll", 1);
    rig_expect(gyre_check_io_uring, OK, "not asked for", NULL);
}

static void test_tcp(void **state)
{
    rig_expect(gyre_check_tcp, ABSENT, "does not tell its buffers", NULL);
    rig_put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
    rig_put("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
    rig_put("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
    rig_expect(gyre_check_tcp, OK,
               "congestion control cubic, buffers up to 32 MiB in and 4 MiB out", NULL);
    rig_put("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t262144\n");
    rig_expect(gyre_check_tcp, NOTE, "256 KiB out", "net.ipv4.tcp_wmem=");
}

static void test_address(void **state)
{
    rig_expect(gyre_check_address, OK, "192.0.2.5 towards other machines", NULL);
    rig.has_network = false;
    rig_expect(gyre_check_address, NOTE, "none but loopback", "bring a network up");
    setenv("GYRE_INTERFACE", "127.0.0.1", 1);
    rig_expect(gyre_check_address, OK, "peers are told 127.0.0.1 (GYRE_INTERFACE is 127.0.0.1)",
               NULL);
    setenv("GYRE_INTERFACE", "nosuch0", 1);
    rig_expect(gyre_check_address, PROBLEM, "nosuch0", "or unset it");
}

static void test_ports(void **state)
{
    rig_expect(gyre_check_ports, OK, "any (GYRE_PORT_RANGE is not set)", NULL);
    setenv("GYRE_PORT_RANGE", "29600-29609", 1);
    rig.first_free = 29600;
    rig.last_free = 29609;
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_ports, OK, "10 of 10 are free", NULL);
    assert_true(rig_figure(finding, "free") == 10);
    rig.last_free = 29603;
    rig_expect(gyre_check_ports, NOTE, "4 of 10 are free", "so 5 for a rank on each core");
    rig.last_free = 0;
    rig_expect(gyre_check_ports, PROBLEM, "0 of 10 are free", "ss -ltnp");
    setenv("GYRE_PORT_RANGE", "29609", 1);
    rig_expect(gyre_check_ports, PROBLEM, "expected two ports", NULL);
}

static void test_ports_of_the_kernel(void **state)
{
    setenv("GYRE_PORT_RANGE", "32000-33000", 1);
    rig.last_free = 65535;
    rig_put("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_ports, OK, "1001 of 1001 are free", NULL);
    assert_int_equal(finding->details, 1);
    rig_has_words(finding->detail[0], "hands out 32768-60999 by itself");
    setenv("GYRE_PORT_RANGE", "32000-32767", 1);
    assert_int_equal(rig_check(gyre_check_ports)->details, 0);
    setenv("GYRE_PORT_RANGE", "61000-61100", 1);
    assert_int_equal(rig_check(gyre_check_ports)->details, 0);
}

/* -- RDMA -------------------------------------------------------------------------------------- */

static void port(const char *device, const char *state)
{
    char name[128];
    snprintf(name, sizeof name, "sys/class/infiniband/%s/ports/1/state", device);
    rig_put(name, state);
    snprintf(name, sizeof name, "sys/class/infiniband/%s/ports/1/link_layer", device);
    rig_put(name, "Ethernet\n");
    snprintf(name, sizeof name, "sys/class/infiniband/%s/ports/1/rate", device);
    rig_put(name, "100 Gb/sec (4X EDR)\n");
}

static void test_rdma(void **state)
{
    port("mlx5_0", "4: ACTIVE\n");
    port("mlx5_1", "1: DOWN\n");
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_rdma, OK, "2 devices, 1 of 2 ports active", NULL);
    assert_int_equal(finding->details, 3);
    assert_string_equal(finding->detail[0], "mlx5_0:1  ACTIVE  Ethernet  100 Gb/sec (4X EDR)");
    assert_string_equal(finding->detail[1], "mlx5_1:1  DOWN  Ethernet  100 Gb/sec (4X EDR)");
    assert_string_equal(finding->detail[2], "a rank that starts here takes verbs/mlx5_0:1");
    assert_true(rig_figure(finding, "active") == 1);
}

static void test_rdma_of_no_use(void **state)
{
    port("mlx5_0", "1: DOWN\n");
    rig_refuse(&rig.verbs, GYRE_UNSUPPORTED, "no port is up");
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_rdma, NOTE, "1 device, 0 of 1 ports active", "TCP serves");
    assert_string_equal(finding->detail[1], "a rank that starts here has none: no port is up");
    setenv("GYRE_TRANSPORT", "verbs", 1);
    rig_expect(gyre_check_rdma, PROBLEM, "1 device", "GYRE_TRANSPORT is verbs");
}

static void test_no_rdma(void **state)
{
    rig_refuse(&rig.verbs, GYRE_UNSUPPORTED, "there is no RDMA device");
    assert_int_equal(rig_expect(gyre_check_rdma, ABSENT, "no device", NULL)->details, 0);
    setenv("GYRE_TRANSPORT", "verbs", 1);
    rig_expect(gyre_check_rdma, PROBLEM, "no device", "GYRE_TRANSPORT is verbs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_io_uring), RIG_TEST(test_tcp),
        RIG_TEST(test_address),  RIG_TEST(test_ports),
        RIG_TEST(test_rdma),     RIG_TEST(test_ports_of_the_kernel),
        RIG_TEST(test_no_rdma),  RIG_TEST(test_rdma_of_no_use),
    };
    return cmocka_run_group_tests_name("doctor's network", tests, file_room_open, file_room_close);
}
