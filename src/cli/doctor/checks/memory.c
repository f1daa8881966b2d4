/* Memory: what the machine has left, and what the control groups leave of it. Tested by
 * tests/unit/cli/doctor/machine_test.c. */
#include "cli/doctor/checks/checks.h"

#include "base/machine/cgroup.h"

#include <stdlib.h>
#include <string.h>

#define TOO_LITTLE (UINT64_C(256) << 20)
#define V1         "/sys/fs/cgroup/memory/memory."

struct group_limit {
    uint64_t limit, left; /* of the group that leaves least */
};

static uint64_t read_group_bytes(const char *path)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file) {
        (void)!fgets(text, sizeof text, file);
        fclose(file);
    }
    return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : GYRE_NO_LIMIT;
}

static void take_group(struct group_limit *least, uint64_t limit, uint64_t used)
{
    uint64_t left = used == GYRE_NO_LIMIT || used > limit ? 0 : limit - used;
    if (limit != GYRE_NO_LIMIT && left < least->left)
        *least = (struct group_limit){limit, left};
}

static void visit_groups(const struct gyre_doctor_machine *machine, struct group_limit *least)
{
    char most[1024], current[1024];
    for (int level = 0;
         gyre_cgroup_path(machine->root, "memory.max", level, most, sizeof most) &&
         gyre_cgroup_path(machine->root, "memory.current", level, current, sizeof current);
         level++)
        take_group(least, read_group_bytes(most), read_group_bytes(current));
}

static void visit_v1(const struct gyre_doctor_machine *machine, struct group_limit *least)
{
    long long limit = gyre_doctor_read_number(machine, V1 "limit_in_bytes", 0),
              used = gyre_doctor_read_number(machine, V1 "usage_in_bytes", 0);
    if (limit > 0)
        take_group(least, (uint64_t)limit, (uint64_t)used);
}

/* A line of /proc/meminfo, in bytes. */
static uint64_t info(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

static void judge_memory(uint64_t total, uint64_t left, struct gyre_doctor_report *report)
{
    if (left < TOO_LITTLE) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report, "ranks may be killed for lack of memory: end other programs, or "
                                   "raise the limit (docker --memory, sbatch --mem)");
    } else if (left < total / 10) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report,
                           "less than a tenth is free: see who holds it (top, sorted by M)");
    }
}

void gyre_check_memory(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    char text[4096], have[32], free[32], allowed[32], rest[32];
    struct group_limit group = {GYRE_NO_LIMIT, GYRE_NO_LIMIT};
    gyre_doctor_read(machine, "/proc/meminfo", text, sizeof text);
    uint64_t total = info(text, "MemTotal:"), left = info(text, "MemAvailable:");
    visit_groups(machine, &group);
    visit_v1(machine, &group);
    if (!total) {
        gyre_doctor_find(report, "memory", GYRE_DOCTOR_ABSENT, "the system does not tell");
        return;
    }
    gyre_doctor_find(report, "memory", GYRE_DOCTOR_OK, "%s, of which %s are free%s%s%s%s%s",
                     gyre_doctor_bytes(total, have), gyre_doctor_bytes(left, free),
                     group.limit < total ? "; the control group allows " : "",
                     group.limit < total ? gyre_doctor_bytes(group.limit, allowed) : "",
                     group.limit < total ? " and has " : "",
                     group.limit < total ? gyre_doctor_bytes(group.left, rest) : "",
                     group.limit < total ? " left" : "");
    judge_memory(group.limit < total ? group.limit : total, group.left < left ? group.left : left,
                 report);
    gyre_doctor_figure(report, "total_bytes", (double)total);
    gyre_doctor_figure(report, "free_bytes", (double)left);
    if (group.limit < total)
        gyre_doctor_figure(report, "group_left_bytes", (double)group.left);
}
