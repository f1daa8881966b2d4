/* Connections of links that broke: this rank has them made anew, and goes on over them.
 *
 *      links ─ broken() ─▶ watch ─ dials, is visited ─▶ news ─▶ part(), renew() ─▶ links
 *
 * A driver moves bytes and the watch makes connections; the domain, which knows both, carries what
 * one says to the other. Whoever owns the domain and waits asks the links. News of the watch come
 * at any time, also while the program computes and nobody drives: then the mender (mender.c) acts
 * on them.
 *
 * Connections that are made at their first use go the same way: to the links they are broken from
 * the beginning.
 *
 * Tested by tests/program/failures/reset_data.c and tests/program/failures/first_use.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/link/driver.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"
#include "transport/watch/renew.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gyre_domain_ask_anew(struct gyre_domain *domain)
{
    struct gyre_break lost;
    if (atomic_load_explicit(&domain->health.rootless, memory_order_relaxed))
        gyre_links_look_by_links(domain->links);
    while (gyre_links_broken(domain->links, &lost)) {
        const struct gyre_renewal_wish wish = {.rank = lost.peer,
                                               .index = (uint32_t)lost.index,
                                               .number = lost.number,
                                               .fruitless = lost.fruitless,
                                               .received = lost.received,
                                               .first = lost.first};
        if (gyre_watch_renew(domain->watch, &wish))
            gyre_log(GYRE_LOG_WARN, "no memory to make a connection to rank %u anew", lost.peer);
    }
}

/* Goes on over a connection that both ends have agreed on. */
static void go_on_over(struct gyre_domain *domain, const struct gyre_renewal *news, int fd)
{
    gyre_socket_tune(fd, (int)domain->settings.dead_time_ms);
    gyre_socket_hold(fd, (int)domain->settings.dead_time_ms);
    if (gyre_link_renew(domain->links, news->rank, (int)news->index, fd, news->number,
                        news->received))
        gyre_socket_drop(fd);
}

/* Answers a peer that has made a connection anew. */
static void grant(struct gyre_domain *domain, struct gyre_renewal *news)
{
    uint64_t received;
    int status =
        gyre_link_part(domain->links, news->rank, (int)news->index, news->number, &received);
    if (status) {
        gyre_talk_close(&news->talk);
        return;
    }
    int fd = gyre_renewal_grant(news, received);
    if (fd < 0)
        return;
    gyre_watch_renew_drop(domain->watch, news->rank, news->index);
    go_on_over(domain, news, fd);
}

static const char *advice_on(int error)
{
    return error == EMFILE || error == ENFILE
               ? "raise ulimit -n"
               : "is there a firewall (GYRE_PORT_RANGE), another network (GYRE_INTERFACE)?";
}

/* Tells the job that a first connection cannot be made. */
static void tell_unreached(struct gyre_domain *domain, const struct gyre_renewal *news)
{
    const struct gyre_joined *joined = domain->joined;
    char to[GYRE_ADDRESS_TEXT], own[GYRE_ADDRESS_TEXT], text[GYRE_TROUBLE_MAX];
    gyre_address_format(&joined->member[news->rank].address, to);
    gyre_address_format(&joined->member[joined->rank].address, own);
    snprintf(text, sizeof text,
             "rank %u on %s cannot be reached at %s by rank %u on %s (%s) for twice the dead time: "
             "%s; %s",
             news->rank, joined->member[news->rank].host, to, joined->rank,
             joined->member[joined->rank].host, own,
             news->error ? strerror(news->error) : "it makes no connection",
             advice_on(news->error));
    gyre_watch_report(domain->watch, GYRE_PEER_LOST, news->rank, true, text);
}

static void act_on_news(struct gyre_domain *domain, struct gyre_renewal *news)
{
    uint64_t received;
    switch (news->kind) {
    case GYRE_RENEWAL_MADE:
        go_on_over(domain, news, gyre_talk_take(&news->talk));
        break;
    case GYRE_RENEWAL_ASKED:
        grant(domain, news);
        break;
    case GYRE_RENEWAL_TOLD:
        (void)gyre_link_part(domain->links, news->rank, (int)news->index, news->number + 1,
                             &received);
        break;
    case GYRE_RENEWAL_GONE:
        if (gyre_link_gone(domain->links, news->rank, (int)news->index, news->told))
            gyre_watch_renew_drop(domain->watch, news->rank, news->index);
        break;
    case GYRE_RENEWAL_FAILED:
        tell_unreached(domain, news);
        break;
    }
}

bool gyre_domain_mend(struct gyre_domain *domain)
{
    struct gyre_renewal news;
    while (gyre_watch_take_renewal(domain->watch, &news))
        act_on_news(domain, &news);
    gyre_domain_ask_anew(domain);
    return gyre_links_mend(domain->links);
}
