/* RDMA: the ports of all devices, as the kernel tells them, and what a rank that starts here would
 * open. Whether two machines reach each other only a test write tells. Tested by
 * tests/unit/cli/doctor/network_test.c. */
#include "cli/doctor/checks/checks.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/class/infiniband"

struct rdma_count {
    int devices, ports, active;
};

/* "4: ACTIVE" is "ACTIVE". */
static const char *state_word(const char *state)
{
    const char *colon = strstr(state, ": ");
    return colon ? colon + 2 : state;
}

static void read_port(const struct gyre_doctor_machine *machine, const char *device,
                      const char *port, struct rdma_count *count, struct gyre_doctor_report *report)
{
    char path[640], state[64], layer[64], rate[64];
    snprintf(path, sizeof path, DEVICES "/%.200s/ports/%.200s/state", device, port);
    gyre_doctor_read(machine, path, state, sizeof state);
    snprintf(path, sizeof path, DEVICES "/%.200s/ports/%.200s/link_layer", device, port);
    gyre_doctor_read(machine, path, layer, sizeof layer);
    snprintf(path, sizeof path, DEVICES "/%.200s/ports/%.200s/rate", device, port);
    gyre_doctor_read(machine, path, rate, sizeof rate);
    count->ports++;
    count->active += !strcmp(state_word(state), "ACTIVE");
    gyre_doctor_detail(report, "%s:%s  %s  %s  %s", device, port,
                       *state ? state_word(state) : "of unknown state", layer, rate);
}

/* The names of a folder, sorted; the caller frees them. */
static int list_names(const struct gyre_doctor_machine *machine, const char *path,
                      struct dirent ***names)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", machine->root, path);
    int count = scandir(full, names, NULL, versionsort);
    return count < 0 ? 0 : count;
}

static void read_rdma_device(const struct gyre_doctor_machine *machine, const char *device,
                             struct rdma_count *count, struct gyre_doctor_report *report)
{
    char path[512];
    struct dirent **ports = NULL;
    snprintf(path, sizeof path, DEVICES "/%.200s/ports", device);
    int found = list_names(machine, path, &ports);
    count->devices++;
    for (int i = 0; i < found; i++) {
        if (ports[i]->d_name[0] != '.')
            read_port(machine, device, ports[i]->d_name, count, report);
        free(ports[i]);
    }
    free(ports);
}

static struct rdma_count read_rdma_devices(const struct gyre_doctor_machine *machine,
                                           struct gyre_doctor_report *report)
{
    struct rdma_count count = {0};
    struct dirent **devices = NULL;
    int found = list_names(machine, DEVICES, &devices);
    for (int i = 0; i < found; i++) {
        if (devices[i]->d_name[0] != '.')
            read_rdma_device(machine, devices[i]->d_name, &count, report);
        free(devices[i]);
    }
    free(devices);
    return count;
}

/* What cannot be had is a problem for those who asked for it. */
static void judge_rdma(const struct gyre_doctor_machine *machine, const struct rdma_count *count,
                       struct gyre_doctor_report *report)
{
    struct gyre_trouble trouble = {0};
    char name[128];
    const char *asked = getenv("GYRE_TRANSPORT");
    bool must = asked && !strcmp(asked, "verbs");
    if (!machine->verbs(name, sizeof name, &trouble)) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_OK);
        gyre_doctor_detail(report, "a rank that starts here takes %s", name);
        return;
    }
    if (must || count->devices)
        gyre_doctor_detail(report, "a rank that starts here has none: %s", trouble.text);
    if (must) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report,
                           "GYRE_TRANSPORT is verbs, so a job on several machines will fail: "
                           "mend this, or leave the choice to auto");
    } else if (count->devices) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report, "TCP serves between nodes; docs/rdma.md has what RDMA needs");
    }
}

void gyre_check_rdma(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    gyre_doctor_find(report, "rdma", GYRE_DOCTOR_ABSENT, "no device");
    struct rdma_count count = read_rdma_devices(machine, report);
    judge_rdma(machine, &count, report);
    if (count.devices)
        gyre_doctor_rephrase(report, "%d device%s, %d of %d ports active", count.devices,
                             count.devices == 1 ? "" : "s", count.active, count.ports);
    gyre_doctor_figure(report, "devices", count.devices);
    gyre_doctor_figure(report, "ports", count.ports);
    gyre_doctor_figure(report, "active", count.active);
}
