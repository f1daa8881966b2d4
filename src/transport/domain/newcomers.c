/* Processes that join a job that runs, at both ends.
 *
 *     rank 0     open_room ─▶ they wait (transport/members/waiting_room.h) ─▶ invite ─▶ gather
 *     newcomer   ask ─▶ its members, its company ─▶ meet
 *
 * The room goes from epoch to epoch with its rank. Where that leaves the job or is lost, the next
 * rank 0 opens another at the same place, and those who waited find it there.
 *
 * Tested by tests/program/failures/grow.c and grow_places.c. */
#include "transport/domain/inside.h"

#include "base/log.h"
#include "transport/members/newcomer.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

/* -- rank 0 ------------------------------------------------------------------------------------ */

/* Finds the place that options and environment name, as a newcomer with them does. */
static int find_newcomers_place(struct gyre_members *members, const struct gyre_options *options,
                                struct gyre_trouble *trouble)
{
    struct gyre_job met;
    int status = gyre_job_discover_running(options, &met, trouble);
    if (!status)
        members->met = met;
    gyre_wipe(&met, sizeof met);
    return status;
}

/* A job that began with one rank has met nowhere: it looks now. */
static int settle_place(struct gyre_members *members, struct gyre_trouble *trouble)
{
    struct gyre_trouble why = {0};
    if (members->met.root_kind == GYRE_ROOT_HELD)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "the ranks of this communicator did not meet at a place where "
                                "newcomers find them: name one by gyre_open()");
    if (members->met.world > 1 || !find_newcomers_place(members, members->options, &why))
        return 0;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "the job began with one rank, and there is no place where newcomers "
                            "find it: %.300s",
                            why.text);
}

static bool meets_on_loopback(const struct gyre_job *met)
{
    struct sockaddr_storage address;
    return met->root_kind == GYRE_ROOT_ADDRESS &&
           gyre_address_resolve(met->root_host, 0, &address, 1, NULL) > 0 &&
           gyre_address_is_loopback(&address);
}

static int choose_own_address(const struct gyre_job *met, const char *interface,
                              struct sockaddr_storage *address, struct gyre_trouble *trouble)
{
    memset(address, 0, sizeof *address);
    if (interface)
        return gyre_address_choose(interface, AF_UNSPEC, address, trouble);
    if (!meets_on_loopback(met) && !gyre_address_outward(AF_UNSPEC, address))
        return 0;
    return gyre_address_resolve("127.0.0.1", 0, address, 1, trouble) < 0 ? -EIO : 0;
}

/* Has a rank that began alone listen, where members and newcomers find each other. */
static int make_reachable(struct gyre_domain *domain, const struct gyre_join_options *how,
                          struct gyre_trouble *trouble)
{
    struct gyre_joined *joined = domain->joined;
    struct gyre_members *members = domain->members;
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (joined->n > 1 || joined->listener >= 0)
        return 0;
    int status = choose_own_address(&members->met, how->interface, &address, trouble);
    if (status)
        return status;
    int fd = gyre_socket_listen(&address, how->port_low, how->port_high, BACKLOG);
    if (fd < 0)
        return gyre_trouble_set(trouble, fd,
                                "cannot listen for newcomers at a port of %u-%u "
                                "(GYRE_PORT_RANGE): %s",
                                how->port_low, how->port_high, strerror(-fd));
    getsockname(fd, (struct sockaddr *)&address, &length);
    joined->listener = fd;
    joined->member[0].address = members->at[members->seat].address = address;
    return 0;
}

int gyre_domain_open_at(struct gyre_domain *domain, const struct gyre_options *options,
                        struct gyre_trouble *trouble)
{
    int status = find_newcomers_place(domain->members, options, trouble);
    if (!status)
        gyre_domain_end_room(domain, false);
    return status;
}

int gyre_domain_open_room(struct gyre_domain *domain, const char *configuration,
                          struct gyre_trouble *trouble)
{
    char text[GYRE_DOMAIN_CONFIGURATION];
    struct gyre_join_options how;
    const struct gyre_members *members = domain->members;
    gyre_domain_join_options(domain, configuration, text, &how);
    int status = domain->room ? 0 : settle_place(domain->members, trouble);
    if (!status)
        status = make_reachable(domain, &how, trouble);
    if (status || domain->room)
        return status;
    const struct gyre_waiting_room_options options = {.job = &members->met,
                                                      .interface = how.interface,
                                                      .port_low = how.port_low,
                                                      .port_high = how.port_high,
                                                      .configuration = text,
                                                      .address =
                                                          members->at[members->seat].address};
    return gyre_waiting_room_open(&options, &domain->room, trouble);
}

uint32_t gyre_domain_waiting(struct gyre_domain *domain)
{
    return gyre_waiting_room_count(domain->room, domain->joined->n);
}

uint32_t gyre_domain_invite(struct gyre_domain *domain, uint32_t most)
{
    const struct gyre_members *members = domain->members;
    const uint32_t seats = members->n - gyre_members_next_seat(members->standing, members->n);
    most = most < GYRE_NEWCOMERS_AT_ONCE ? most : GYRE_NEWCOMERS_AT_ONCE;
    most = most < seats ? most : seats;
    if (!most || !gyre_domain_waiting(domain))
        return 0;
    domain->newcomer = calloc(most, sizeof *domain->newcomer);
    if (domain->newcomer)
        domain->newcomers = gyre_waiting_room_take(domain->room, most, domain->newcomer);
    return domain->newcomers;
}

void gyre_domain_disinvite(struct gyre_domain *domain)
{
    for (uint32_t i = 0; i < domain->newcomers; i++)
        gyre_talk_close(&domain->newcomer[i].talk);
    free(domain->newcomer);
    domain->newcomer = NULL;
    domain->newcomers = 0;
}

void gyre_domain_end_room(struct gyre_domain *domain, bool over)
{
    gyre_domain_disinvite(domain);
    gyre_waiting_room_close(domain->room, over);
    domain->room = NULL;
}

/* -- a newcomer -------------------------------------------------------------------------------- */

bool gyre_domain_is_newcomer(const struct gyre_domain *domain)
{
    const struct gyre_members *members = domain->members;
    return members && members->seat >= members->founders;
}

void gyre_domain_end_asking(struct gyre_domain *domain)
{
    struct gyre_company *company = &domain->own_company;
    gyre_company_close(company);
    if (company->listener >= 0)
        close(company->listener); /* the join keeps one of its own */
    company->listener = -1;
}

int gyre_domain_ask(struct gyre_domain *domain, const char *configuration,
                    struct gyre_trouble *trouble)
{
    char text[GYRE_DOMAIN_CONFIGURATION];
    struct gyre_join_options options;
    struct gyre_job *job = &domain->job;
    gyre_domain_join_options(domain, configuration, text, &options);
    int status = gyre_newcomer_ask(job, &options, &domain->members, &domain->own_company, trouble);
    if (status)
        return status;
    domain->company = &domain->own_company;
    gyre_domain_describe_job(domain, domain->company, job);
    domain->names_log = !job->group;
    if (domain->names_log)
        gyre_log_identity(job->rank, job->rank);
    return 0;
}
