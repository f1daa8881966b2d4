/* gyre doctor: what this machine has, as a rank that starts here would find it. It makes no context
 * on any device and changes nothing. */
#include "cli/commands.h"
#include "cli/flags.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const struct gyre_flag doctor_flags[] = {{"help", 'h', NULL, "this page"}};

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

static void print_cuda(void)
{
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gyre_trouble trouble = {0};
    int count = cuda ? cuda->probe(&trouble) : 0;
    if (!count) {
        printf("CUDA devices: none: %s\n",
               cuda ? trouble.text
                    : "this build of Gyre has no CUDA (no nvcc was found when it was configured)");
        return;
    }
    printf("CUDA devices: %d (CUDA_VISIBLE_DEVICES is %s)\n", count, visible ? visible : "not set");
    for (int device = 0; device < count; device++)
        print_device(cuda, device, count);
}

int gyre_cli_doctor(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = doctor_flags, .count = 1};
    struct gyre_trouble trouble = {0};
    int index = gyre_flags_next(&flags, &trouble);
    if (index == 0) {
        puts("usage: gyre doctor\n\nPrints the CUDA devices that a rank would see here, and whose "
             "memory each reaches\ndirectly. Without one it says why.\n");
        gyre_flags_print(doctor_flags, 1);
        return 0;
    }
    if (index == GYRE_FLAGS_END && *flags.argv)
        index = gyre_trouble_set(&trouble, GYRE_INVALID, "unexpected word '%s'", *flags.argv);
    if (index == GYRE_INVALID)
        return gyre_cli_fail("doctor", GYRE_INVALID, &trouble);
    print_cuda();
    return 0;
}
