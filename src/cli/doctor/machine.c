/* This machine's answers. Tested by tests/program/cli/doctor.c. */
#include "cli/doctor/machine.h"

#include "base/clock.h"
#include "base/machine/locked.h"
#include "device/device.h"
#include "model/kernels/dense.h"
#include "transport/link/table.h"
#include "transport/link/tcp/uring.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WATCH_MS    300
#define CLOCK_LOOKS 2000

/* -- files ------------------------------------------------------------------------------------- */

bool gyre_doctor_read(const struct gyre_doctor_machine *machine, const char *path, char *text,
                      size_t size)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", machine->root, path);
    FILE *file = fopen(full, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = 0;
    if (length && text[length - 1] == '\n')
        text[length - 1] = 0;
    if (file)
        fclose(file);
    return file;
}

long long gyre_doctor_read_number(const struct gyre_doctor_machine *machine, const char *path,
                                  long long absent)
{
    char text[64], *end;
    if (!gyre_doctor_read(machine, path, text, sizeof text))
        return absent;
    long long value = strtoll(text, &end, 10);
    return end == text ? absent : value;
}

const char *gyre_doctor_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024; unit++)
        value /= 1024;
    if (bytes == GYRE_NO_LIMIT)
        snprintf(text, 32, "no limit");
    else
        snprintf(text, 32, value < 10 && value != (int)value ? "%.1f %s" : "%.0f %s", value,
                 units[unit]);
    return text;
}

/* -- calls ------------------------------------------------------------------------------------- */

static int count_cpus_allowed(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static uint64_t read_rlimit(int resource, bool hard)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit))
        return GYRE_NO_LIMIT;
    rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? GYRE_NO_LIMIT : value;
}

static bool read_space(const char *path, struct gyre_doctor_space *space)
{
    struct statvfs system;
    if (statvfs(path, &system))
        return false;
    *space = (struct gyre_doctor_space){.bytes = (uint64_t)system.f_blocks * system.f_frsize,
                                        .free = (uint64_t)system.f_bavail * system.f_frsize,
                                        .writable = access(path, W_OK) == 0};
    return true;
}

/* A sealed region, and a descriptor of this process: peers of a node pass each other both. */
static int share_memory(struct gyre_trouble *trouble)
{
    struct gyre_region region;
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno, "pidfd_open: %s", strerror(errno));
    close(fd);
    const struct gyre_device *host = gyre_device_of(GYRE_MEMORY_HOST);
    int status = host->alloc(0, 4096, GYRE_SHARE_SEALED, &region, trouble);
    if (!status)
        host->free(&region);
    return status;
}

static int open_verbs(char *name, size_t size, struct gyre_trouble *trouble)
{
    const struct gyre_wire_options options = {.n = 2, .local_size = 1, .peers = 1};
    struct gyre_wire *wire = NULL;
    int status = gyre_driver_verbs.open(&options, &wire, trouble);
    if (status)
        return status;
    gyre_driver_verbs.describe(wire, name, size);
    gyre_driver_verbs.close(wire);
    return 0;
}

static int name_blas(char *name, size_t size, struct gyre_trouble *trouble)
{
    struct gyre_dense *dense = NULL;
    int status = gyre_dense_create(&dense, trouble);
    if (!status)
        snprintf(name, size, "%s", gyre_dense_name(dense));
    gyre_dense_destroy(dense);
    return status;
}

static int find_outward(struct sockaddr_storage *address)
{
    return gyre_address_outward(AF_UNSPEC, address);
}

/* As a rank listens: at any address. */
static bool port_is_free(uint16_t port)
{
    struct sockaddr_storage any = {.ss_family = AF_INET};
    gyre_address_set_port(&any, port);
    int fd = gyre_socket_listen(&any, 0, 0, 1);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool has_program(const char *name)
{
    const char *path = getenv("PATH");
    char full[1024];
    while (path && *path) {
        size_t length = strcspn(path, ":");
        snprintf(full, sizeof full, "%.*s/%s", (int)length, path, name);
        if (access(full, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static double time_clock(void)
{
    uint64_t begun = gyre_now_ns(), now = begun;
    for (int i = 0; i < CLOCK_LOOKS; i++)
        now = gyre_now_ns();
    return (double)(now - begun) / CLOCK_LOOKS;
}

static void watch_for_a_while(void)
{
    struct timespec time = {.tv_nsec = WATCH_MS * 1000000L};
    nanosleep(&time, NULL);
}

const struct gyre_doctor_machine gyre_doctor_this_machine = {
    .root = "",
    .cpus_allowed = count_cpus_allowed,
    .limit = read_rlimit,
    .lockable = gyre_lockable_bytes,
    .space = read_space,
    .share_memory = share_memory,
    .io_uring = gyre_tcp_uring_try,
    .verbs = open_verbs,
    .blas = name_blas,
    .outward = find_outward,
    .port_is_free = port_is_free,
    .has_program = has_program,
    .clock_ns = time_clock,
    .pause = watch_for_a_while,
};
