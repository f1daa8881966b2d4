/* What gyre doctor says of processors, memory and limits, in every state that they can be in. */
#include "unit/cli/doctor/doctor_rig.h"

/* -- processors -------------------------------------------------------------------------------- */

static void test_cores(void **state)
{
    rig_put("sys/devices/system/cpu/online", "0-2,5\n");
    rig_expect(gyre_check_cores, OK, "4 to use, all that are online", NULL);
    rig.cpus = 2;
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_cores, NOTE, "2 to use: this process is bound to 2 of 4", "taskset");
    assert_true(rig_figure(finding, "online") == 4 && rig_figure(finding, "usable") == 2);
    rig.cpus = 4;
    rig_put("proc/self/cgroup", "0::/box\n");
    rig_put("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
    finding = rig_expect(gyre_check_cores, NOTE, "2 to use: the control group gives the time of 2",
                         "at most 2 ranks");
    assert_true(rig_figure(finding, "quota") == 2);
}

#define FREQUENCY "sys/devices/system/cpu/cpu0/cpufreq/"

static void test_frequency(void **state)
{
    rig_expect(gyre_check_frequency, ABSENT, "virtual machine", NULL);
    rig_put(FREQUENCY "cpuinfo_max_freq", "3500000\n");
    rig_put(FREQUENCY "scaling_max_freq", "3500000\n");
    rig_put(FREQUENCY "scaling_governor", "powersave\n");
    rig_put(FREQUENCY "scaling_driver", "intel_pstate\n");
    rig_expect(gyre_check_frequency, OK, "up to 3.5 GHz, governor powersave", NULL);
    rig_put(FREQUENCY "scaling_driver", "acpi-cpufreq\n");
    rig_expect(gyre_check_frequency, NOTE, "up to 3.5 GHz", "--governor performance");
    rig_put(FREQUENCY "scaling_governor", "performance\n");
    rig_put(FREQUENCY "scaling_max_freq", "1200000\n");
    rig_expect(gyre_check_frequency, NOTE, "limited to 1.2 of 3.5 GHz", "scaling_max_freq");
}

static void test_load(void **state)
{
    rig_expect(gyre_check_load, ABSENT, "no processor times", NULL);
    rig_put("proc/stat", "cpu  1000 0 0 9000 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n");
    rig_put("proc/loadavg", "3.50 1 1 2/300 900\n");
    rig.later = "cpu  3000 0 0 9000 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n";
    rig_expect(gyre_check_load, NOTE, "other processes took ", "top");
    rig.later = "cpu  3001 0 0 19000 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n";
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_load, OK, "of 2 cores are busy, load average 3.5", NULL);
    assert_true(rig_figure(finding, "average") == 3.5);
}

#define CLOCK "sys/devices/system/clocksource/clocksource0/"

static void test_clock(void **state)
{
    rig_put(CLOCK "current_clocksource", "tsc\n");
    rig_put(CLOCK "available_clocksource", "tsc hpet \n");
    rig_expect(gyre_check_clock, OK, "tsc, 20 ns a look", NULL);
    rig.clock_ns = 900;
    rig_expect(gyre_check_clock, NOTE, "tsc, 900 ns", "clocksource=");
    rig.clock_ns = 20;
    rig_put(CLOCK "current_clocksource", "hpet\n");
    rig_expect(gyre_check_clock, NOTE, "hpet", "of tsc hpet");
}

/* -- memory ------------------------------------------------------------------------------------ */

static void test_memory(void **state)
{
    rig_expect(gyre_check_memory, ABSENT, "does not tell", NULL);
    rig_put("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
    rig_expect(gyre_check_memory, OK, "16 GiB, of which 8 GiB are free", NULL);
    rig_put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1048576 kB\n");
    rig_expect(gyre_check_memory, NOTE, "1 GiB are free", "less than a tenth");
    rig_put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 102400 kB\n");
    rig_expect(gyre_check_memory, PROBLEM, "100 MiB are free", "killed for lack of memory");
}

/* The group that leaves least decides, whichever level and version it is of. */
static void test_memory_of_groups(void **state)
{
    rig_put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
    rig_put("proc/self/cgroup", "0::/job/step\n");
    rig_put("sys/fs/cgroup/job/step/memory.max", "max\n");
    rig_put("sys/fs/cgroup/job/step/memory.current", "5\n");
    rig_put("sys/fs/cgroup/memory.max", "6442450944\n");
    rig_put("sys/fs/cgroup/memory.current", "1073741824\n");
    rig_put("sys/fs/cgroup/job/memory.max", "4294967296\n");
    rig_put("sys/fs/cgroup/job/memory.current", "1073741824\n");
    const struct gyre_doctor_finding *finding = rig_expect(
        gyre_check_memory, OK, "the control group allows 4 GiB and has 3 GiB left", NULL);
    assert_true(rig_figure(finding, "group_left_bytes") == 3.0 * (1 << 30));
    rig_put("sys/fs/cgroup/job/memory.current", "4294967000\n");
    rig_expect(gyre_check_memory, PROBLEM, "has 296 B left", "sbatch --mem");
    rig_put("sys/fs/cgroup/job/memory.max", "max\n");
    rig_put("sys/fs/cgroup/memory.max", "max\n");
    rig_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    rig_put("sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
    rig_expect(gyre_check_memory, OK, "8 GiB are free", NULL);
    rig_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    rig_expect(gyre_check_memory, OK, "allows 2 GiB", NULL);
}

static void test_memlock(void **state)
{
    rig_expect(gyre_check_memlock, OK, "may lock all memory", NULL);
    rig.lockable = 8 << 20;
    rig_expect(gyre_check_memlock, OK, "8 MiB; only RDMA needs more", NULL);
    rig_put("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_memlock, PROBLEM, "may lock 8 MiB", "ulimit -l unlimited");
    assert_true(rig_figure(finding, "bytes") == 8 << 20);
    rig.lockable = 64 << 20;
    rig_expect(gyre_check_memlock, OK, "may lock 64 MiB", NULL);
}

static void test_descriptors(void **state)
{
    rig_expect(gyre_check_descriptors, OK, "1024, which a rank may raise to 65536", NULL);
    rig.hard = 256;
    rig_expect(gyre_check_descriptors, NOTE, "raise to 256", "enough for 42 ranks");
    rig.hard = 128;
    rig_expect(gyre_check_descriptors, PROBLEM, "raise to 128", "enough for 0 ranks");
    rig.soft = rig.hard = GYRE_NO_LIMIT;
    rig_expect(gyre_check_descriptors, OK, "no limit, which a rank may raise to no limit", NULL);
}

/* -- sharing ----------------------------------------------------------------------------------- */

static void test_shared_memory(void **state)
{
    rig_expect(gyre_check_sharing, OK, "sealed memfds and pidfds can be made", NULL);
    rig_refuse(&rig.sharing, -EPERM, "memfd_create: Operation not permitted");
    rig_expect(gyre_check_sharing, PROBLEM, "memfd_create: Operation not", "seccomp profile");
}

static void test_dev_shm(void **state)
{
    rig_expect(gyre_check_dev_shm, OK, "1 GiB, 1 GiB free; Gyre does not use it", NULL);
    rig.shm.free = 8 << 20;
    rig_expect(gyre_check_dev_shm, NOTE, "8 MiB free", "--shm-size");
    rig.shm.writable = false;
    rig_expect(gyre_check_dev_shm, NOTE, "not writable for this user", "chmod 1777");
    rig.has_shm = false;
    rig_expect(gyre_check_dev_shm, ABSENT, "there is no /dev/shm", NULL);
}

#define HUGE "sys/kernel/mm/transparent_hugepage/shmem_enabled"

static void test_huge_pages(void **state)
{
    rig_expect(gyre_check_huge_pages, ABSENT, "the kernel has none", NULL);
    rig_put(HUGE, "always within_size [advise] never deny force\n");
    const struct gyre_doctor_finding *finding =
        rig_expect(gyre_check_huge_pages, OK, "for shared memory: advise", NULL);
    assert_null(strstr(finding->found, "would"));
    rig_put(HUGE, "always within_size advise [never] deny force\n");
    rig_expect(gyre_check_huge_pages, OK, "never; `advise` in", NULL);
}

static void test_bytes_are_told_shortly(void **state)
{
    char text[32];
    assert_string_equal(gyre_doctor_bytes(0, text), "0 B");
    assert_string_equal(gyre_doctor_bytes(1023, text), "1023 B");
    assert_string_equal(gyre_doctor_bytes(1536, text), "1.5 KiB");
    assert_string_equal(gyre_doctor_bytes(UINT64_C(24) << 30, text), "24 GiB");
    assert_string_equal(gyre_doctor_bytes(GYRE_NO_LIMIT, text), "no limit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_cores),   RIG_TEST(test_frequency),   RIG_TEST(test_load),
        RIG_TEST(test_clock),   RIG_TEST(test_memory),      RIG_TEST(test_memory_of_groups),
        RIG_TEST(test_memlock), RIG_TEST(test_descriptors), RIG_TEST(test_shared_memory),
        RIG_TEST(test_dev_shm), RIG_TEST(test_huge_pages),  RIG_TEST(test_bytes_are_told_shortly),
    };
    return cmocka_run_group_tests_name("doctor's machine", tests, file_room_open, file_room_close);
}
