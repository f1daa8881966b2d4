/* gyre doctor: what this machine has, as a rank that starts here would find it. It makes no context
 * on any device and changes nothing, unless it is told to try. Tested by
 * tests/program/cuda/doctor.c. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/doctor/try.h"
#include "cli/flags.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRY, HELP, FLAGS };

static const struct gyre_flag doctor_flags[FLAGS] = {
    [TRY] = {"try", 0, NULL,
             "let two processes share memory of each pair of devices; takes seconds"},
    [HELP] = {"help", 'h', NULL, "this page"}};

/* "reaches 1, 3": devices whose memory it reads and writes directly. */
static void print_reach(const struct gyre_device *cuda, int device, int count)
{
    const char *before = "  reaches ";
    for (int other = 0; other < count; other++)
        if (other != device && cuda->reaches(device, other)) {
            printf("%s%d", before, other);
            before = ", ";
        }
    puts(*before == ',' ? "" : count > 1 ? "  reaches no other" : "");
}

static void print_device(const struct gyre_device *cuda, int device, int count)
{
    char uuid[GYRE_DEVICE_UUID_TEXT];
    struct gyre_device_identity identity;
    struct gyre_trouble trouble = {0};
    if (cuda->identify(device, &identity, &trouble)) {
        printf("  %d  %s\n", device, trouble.text);
        return;
    }
    gyre_device_uuid_text(identity.uuid, uuid);
    printf("  %d  %s  %s  %llu MiB", device, identity.name, uuid,
           (unsigned long long)(identity.memory_bytes >> 20));
    print_reach(cuda, device, count);
}

/* How messages and operations of device memory go between a rank on `device` and a rank on `other`.
 * `here`: both ranks are in one process. The devices say what they can do; whether copies between
 * them are right is tried when memory is shared (transport/memory/proof.h). */
static const char *way_of_pair(const struct gyre_device *cuda, int device, int other, bool here)
{
    bool exported = cuda->exports(device) && cuda->exports(other);
    if (cuda->reaches(device, other) && cuda->reaches(other, device))
        return exported ? "direct: kernels and copies on memory that both map, passed as exported "
                          "memory"
                        : "direct: kernels and copies on memory that both map, passed as classic "
                          "IPC handles";
    return here && exported ? "staged by the driver: messages are copied from device to device"
                            : "staged through host memory: the devices have no peer access";
}

static void print_pair(const struct gyre_device *cuda, int device, int other)
{
    const char *apart = way_of_pair(cuda, device, other, false);
    const char *here = way_of_pair(cuda, device, other, true);
    printf("  %d, %d  %s\n", device, other, apart);
    if (strcmp(here, apart))
        printf("        in one process %s\n", here);
}

static void print_pairs(const struct gyre_device *cuda, int count)
{
    puts("Between two ranks of one node (cuda_ipc), on devices");
    for (int device = 0; device < count; device++)
        for (int other = device; other < count; other++)
            print_pair(cuda, device, other);
    puts("in gyre_alloc_device() memory; other device memory is staged. Before two devices copy\n"
         "from each other ranks try it once, as --try does, and stage where bytes were wrong. "
         "Ranks\n"
         "of different users, containers or machines map no memory: theirs goes over the network "
         "by\n"
         "way of the host. Where the system refuses to share memory, ranks stage it, and\n"
         "GYRE_LOG=info tells why.");
}

/* Returns how many devices there are. */
static int print_cuda(void)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gyre_trouble trouble = {0};
    int count = cuda ? cuda->probe(&trouble) : 0;
    if (count <= 0) {
        printf("CUDA devices: none: %s\n",
               cuda ? trouble.text
                    : "this build of Gyre has no CUDA (no nvcc was found when it was configured)");
        puts("Links inside a node: cuda_ipc is absent, shm serves host memory");
        return 0;
    }
    printf("CUDA devices: %d (CUDA_VISIBLE_DEVICES is %s)\n", count, visible ? visible : "not set");
    for (int device = 0; device < count; device++)
        print_device(cuda, device, count);
    print_pairs(cuda, count);
    return count;
}

/* CUDA is of no use to the children of a process that has touched it: a child prints, and others
 * try. */
static void print_and_try(void)
{
    char words[700];
    int ended = 0, count = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int devices = print_cuda();
        fflush(stdout);
        _exit(devices);
    }
    if (child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended))
        count = WEXITSTATUS(ended);
    if (count)
        puts("Tried between two processes, from memory of the first device to the second");
    for (int device = 0; device < count; device++)
        for (int other = 0; other < count; other++) {
            bool right = gyre_doctor_try(device, other, words, sizeof(words));
            printf("  %d, %d  %s: %s\n", device, other, right ? "direct" : "staged", words);
        }
}

static void print_usage(void)
{
    puts("usage: gyre doctor [--try]\n\nPrints the CUDA devices that a rank would see here, whose "
         "memory "
         "each reaches\ndirectly, and how device memory goes between ranks on any two of them. "
         "Without one it\nsays why.\n");
    gyre_flags_print(doctor_flags, FLAGS);
}

int gyre_cli_doctor(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = doctor_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    bool tries = false;
    int index;
    while ((index = gyre_flags_next(&flags, &trouble)) == TRY)
        tries = true;
    if (index == HELP) {
        print_usage();
        return 0;
    }
    if (index == GYRE_FLAGS_END && *flags.argv)
        index = gyre_trouble_set(&trouble, GYRE_INVALID, "unexpected word '%s'", *flags.argv);
    if (index == GYRE_INVALID)
        return gyre_cli_fail("doctor", GYRE_INVALID, &trouble);
    if (tries)
        print_and_try();
    else
        print_cuda();
    return 0;
}
