/* Where peers reach this machine: the address that they are told, and the ports at which ranks may
 * listen. Tested by tests/unit/cli/doctor/network_test.c. */
#include "cli/doctor/checks/checks.h"

#include "transport/net/address.h"
#include "transport/net/ports.h"

#include <stdlib.h>
#include <string.h>

static void find_chosen_address(const char *wish, struct gyre_doctor_report *report)
{
    struct sockaddr_storage address;
    struct gyre_trouble trouble = {0};
    char text[GYRE_ADDRESS_TEXT];
    if (gyre_address_choose(wish, AF_UNSPEC, &address, &trouble)) {
        gyre_doctor_find(report, "address", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
        gyre_doctor_advise(report, "name one of these in GYRE_INTERFACE, or unset it");
        return;
    }
    gyre_address_format(&address, text);
    *strrchr(text, ':') = 0;
    gyre_doctor_find(report, "address", GYRE_DOCTOR_OK, "peers are told %s (GYRE_INTERFACE is %s)",
                     text, wish);
}

void gyre_check_address(const struct gyre_doctor_machine *machine,
                        struct gyre_doctor_report *report)
{
    struct sockaddr_storage address;
    const char *wish = getenv("GYRE_INTERFACE");
    char text[GYRE_ADDRESS_TEXT];
    if (wish && *wish) {
        find_chosen_address(wish, report);
        return;
    }
    if (machine->outward(&address)) {
        gyre_doctor_find(report, "address", GYRE_DOCTOR_NOTE,
                         "there is none but loopback: only ranks of this machine can meet");
        gyre_doctor_advise(report, "for a job on several machines bring a network up (ip address)");
        return;
    }
    gyre_address_format(&address, text);
    *strrchr(text, ':') = 0;
    gyre_doctor_find(report, "address", GYRE_DOCTOR_OK,
                     "%s towards other machines; a job takes the route to rank 0", text);
}

/* Ports that the kernel gives to connections may be taken at any time. */
static void tell_overlap(const struct gyre_doctor_machine *machine, int low, int high,
                         struct gyre_doctor_report *report)
{
    char text[64];
    int first, last;
    gyre_doctor_read(machine, "/proc/sys/net/ipv4/ip_local_port_range", text, sizeof text);
    if (sscanf(text, "%d %d", &first, &last) == 2 && low <= last && first <= high)
        gyre_doctor_detail(
            report,
            "the kernel hands out %d-%d by itself, so some of the range may be taken "
            "at times",
            first, last);
}

static void judge_ports(int free, int wanted, struct gyre_doctor_report *report)
{
    if (free == 0) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_PROBLEM);
        gyre_doctor_advise(report, "end what holds them (ss -ltnp), or choose other ports");
    } else if (free < wanted) {
        gyre_doctor_worsen(report, GYRE_DOCTOR_NOTE);
        gyre_doctor_advise(report,
                           "a range needs a port for each rank of a machine and one for rank "
                           "0, so %d for a rank on each core",
                           wanted);
    }
}

void gyre_check_ports(const struct gyre_doctor_machine *machine, struct gyre_doctor_report *report)
{
    uint16_t low, high;
    struct gyre_trouble trouble = {0};
    int free = 0;
    if (gyre_ports_read(&low, &high, &trouble)) {
        gyre_doctor_find(report, "ports", GYRE_DOCTOR_PROBLEM, "%s", trouble.text);
        return;
    }
    if (!high) {
        gyre_doctor_find(
            report, "ports", GYRE_DOCTOR_OK,
            "any (GYRE_PORT_RANGE is not set): a firewall must let all of them through");
        return;
    }
    for (int port = low; port <= high; port++)
        free += machine->port_is_free((uint16_t)port);
    gyre_doctor_find(report, "ports", GYRE_DOCTOR_OK, "GYRE_PORT_RANGE=%d-%d: %d of %d are free",
                     low, high, free, high - low + 1);
    judge_ports(free, machine->cpus_allowed() + 1, report);
    tell_overlap(machine, low, high, report);
    gyre_doctor_figure(report, "free", free);
    gyre_doctor_figure(report, "range", high - low + 1);
}
