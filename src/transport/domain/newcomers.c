/* Processes that join a job that runs, at both ends.
 *
 *     rank 0     open_room ─▶ they wait (transport/members/waiting_room.h) ─▶ invite ─▶ gather
 *     newcomer   ask ─▶ its members, its company ─▶ meet
 *
 * The room goes from epoch to epoch with its rank. Where that leaves the job or is lost, the next
 * rank 0 opens another at the same place, and those who waited find it there.
 *
 * Tested by tests/program/failures/grow.c. */
#include "transport/domain/inside.h"

#include "base/log.h"
#include "transport/members/newcomer.h"

#include <stdlib.h>
#include <unistd.h>

/* -- rank 0 ------------------------------------------------------------------------------------ */

static int check_meeting_place(const struct gyre_job *met, struct gyre_trouble *trouble)
{
    if (met->world > 1 && met->root_kind != GYRE_ROOT_HELD)
        return 0;
    return gyre_trouble_set(
        trouble, GYRE_UNSUPPORTED,
        "the ranks of this communicator did not meet at a place where newcomers "
        "find them: the job began with one rank, or gyre_split_apart() made the "
        "communicator");
}

int gyre_domain_open_room(struct gyre_domain *domain, const char *configuration,
                          struct gyre_trouble *trouble)
{
    char text[GYRE_DOMAIN_CONFIGURATION];
    struct gyre_join_options how;
    const struct gyre_members *members = domain->members;
    int status = domain->room ? 0 : check_meeting_place(&members->met, trouble);
    if (status || domain->room)
        return status;
    gyre_domain_join_options(domain, configuration, text, &how);
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
