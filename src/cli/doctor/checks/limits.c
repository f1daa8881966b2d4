/* Limits of a process: locked memory, which network cards need, and descriptors, of which each peer
 * takes some. Tested by tests/unit/cli/doctor/machine_test.c. */
#include "cli/doctor/checks/checks.h"

#include <dirent.h>

#define LOCKED_ENOUGH (UINT64_C(64) << 20)
#define PER_PEER      3   /* descriptors: a socket, a pidfd and a control connection */
#define SPARE         128 /* descriptors of everything else */
#define PEERS_ENOUGH  64

static bool has_rdma(const struct gyre_doctor_machine *machine)
{
    char path[512];
    struct dirent *entry = NULL;
    snprintf(path, sizeof path, "%s/sys/class/infiniband", machine->root);
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)) && entry->d_name[0] == '.')
        ;
    if (folder)
        closedir(folder);
    return entry;
}

void gyre_check_memlock(const struct gyre_doctor_machine *machine,
                        struct gyre_doctor_report *report)
{
    char text[32];
    uint64_t bytes = machine->lockable();
    bool enough = bytes >= LOCKED_ENOUGH, matters = has_rdma(machine);
    gyre_doctor_find(report, "memlock",
                     enough    ? GYRE_DOCTOR_OK
                     : matters ? GYRE_DOCTOR_PROBLEM
                               : GYRE_DOCTOR_OK,
                     "a process may lock %s%s",
                     bytes == GYRE_NO_LIMIT ? "all memory" : gyre_doctor_bytes(bytes, text),
                     enough || matters ? "" : "; only RDMA needs more");
    if (!enough && matters)
        gyre_doctor_advise(report,
                           "RDMA needs more: ulimit -l unlimited (memlock in "
                           "/etc/security/limits.conf, LimitMEMLOCK=infinity for slurmd and sshd)");
    if (bytes != GYRE_NO_LIMIT)
        gyre_doctor_figure(report, "bytes", (double)bytes);
}

void gyre_check_descriptors(const struct gyre_doctor_machine *machine,
                            struct gyre_doctor_report *report)
{
    char soft_text[32] = "no limit", hard_text[32] = "no limit";
    uint64_t soft = machine->limit(RLIMIT_NOFILE, false),
             hard = machine->limit(RLIMIT_NOFILE, true);
    uint64_t peers = hard == GYRE_NO_LIMIT ? hard : hard > SPARE ? (hard - SPARE) / PER_PEER : 0;
    if (soft != GYRE_NO_LIMIT)
        snprintf(soft_text, sizeof soft_text, "%llu", (unsigned long long)soft);
    if (hard != GYRE_NO_LIMIT)
        snprintf(hard_text, sizeof hard_text, "%llu", (unsigned long long)hard);
    gyre_doctor_find(report, "descriptors", GYRE_DOCTOR_OK, "%s, which a rank may raise to %s",
                     soft_text, hard_text);
    if (peers < PEERS_ENOUGH) {
        gyre_doctor_worsen(report, peers ? GYRE_DOCTOR_NOTE : GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report,
                           "that is enough for %llu ranks: raise it (ulimit -n 65536, nofile "
                           "in /etc/security/limits.conf)",
                           (unsigned long long)peers);
    }
    gyre_doctor_figure(report, "soft", soft == GYRE_NO_LIMIT ? -1 : (double)soft);
    gyre_doctor_figure(report, "hard", hard == GYRE_NO_LIMIT ? -1 : (double)hard);
}
