/* How ranks of this machine share memory: sealed memfds, passed along Unix sockets. They lie on no
 * file system, so the size of /dev/shm does not limit them; other programs of a job do use it.
 * Tested by tests/unit/cli/doctor/machine_test.c. */
#include "cli/doctor/checks/checks.h"

#include <string.h>

#define SHM_LITTLE (UINT64_C(64) << 20)

void gyre_check_sharing(const struct gyre_doctor_machine *machine,
                        struct gyre_doctor_report *report)
{
    struct gyre_trouble trouble = {0};
    if (!machine->share_memory(&trouble)) {
        gyre_doctor_find(report, "shared_memory", GYRE_DOCTOR_OK,
                         "sealed memfds and pidfds can be made, as ranks of one machine need them");
        return;
    }
    gyre_doctor_find(report, "shared_memory", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
    gyre_doctor_advise(report, "ranks of this machine will use TCP: allow memfd_create and "
                               "pidfd_open in the container's seccomp profile");
}

void gyre_check_dev_shm(const struct gyre_doctor_machine *machine,
                        struct gyre_doctor_report *report)
{
    char path[512], have[32], left[32];
    struct gyre_doctor_space space;
    snprintf(path, sizeof path, "%s/dev/shm", machine->root);
    if (!machine->space(path, &space)) {
        gyre_doctor_find(report, "dev_shm", GYRE_DOCTOR_ABSENT,
                         "there is no /dev/shm; Gyre does not use it");
        return;
    }
    gyre_doctor_find(report, "dev_shm", GYRE_DOCTOR_OK, "%s, %s free%s; Gyre does not use it",
                     gyre_doctor_bytes(space.bytes, have), gyre_doctor_bytes(space.free, left),
                     space.writable ? "" : ", not writable for this user");
    if (!space.writable || space.free < SHM_LITTLE) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report, "MPI and PyTorch's loaders do: %s",
                           space.writable ? "docker --shm-size=1g makes it larger"
                                          : "chmod 1777 /dev/shm");
    }
    gyre_doctor_figure(report, "bytes", (double)space.bytes);
    gyre_doctor_figure(report, "free_bytes", (double)space.free);
}

/* The word in brackets of "always [never] advise". */
static void find_chosen(char *text)
{
    char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close)
        return;
    *close = 0;
    memmove(text, open + 1, strlen(open + 1) + 1);
}

void gyre_check_huge_pages(const struct gyre_doctor_machine *machine,
                           struct gyre_doctor_report *report)
{
    char word[128];
    if (!gyre_doctor_read(machine, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", word,
                          sizeof word)) {
        gyre_doctor_find(report, "huge_pages", GYRE_DOCTOR_ABSENT,
                         "the kernel has none for shared memory");
        return;
    }
    find_chosen(word);
    bool never = !strcmp(word, "never") || !strcmp(word, "deny");
    gyre_doctor_find(report, "huge_pages", GYRE_DOCTOR_OK, "for shared memory: %s%s", word,
                     never
                         ? "; `advise` in /sys/kernel/mm/transparent_hugepage/shmem_enabled would "
                           "let regions of 2 MiB and more have some"
                         : "");
}
