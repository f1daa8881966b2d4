/* One device that a wire uses: a port, a protection domain, and a queue of completions that all
 * peers share.
 *
 * The device's limits are read before they are met. The queue of completions has a place for every
 * completion of all pipes together. Where the first device has no such queue, or no queue pair of
 * so many requests, the window is halved until it fits. A further device that does not fit, or
 * cannot be opened, is left out: the wire serves without it, and each pair learns why when it
 * meets.
 * Tested by tests/unit/transport/link/verbs/verbs_test.c. */
#include "transport/link/verbs/wire.h"

#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define WINDOW_LEAST 8

uint32_t gyre_verbs_receives(const struct gyre_verbs_wire *wire, bool first)
{
    return (first ? wire->window + GYRE_VERBS_ACKS : 0) + GYRE_VERBS_PLACES + GYRE_VERBS_RENEW;
}

/* -- limits ------------------------------------------------------------------------------------ */

static bool is_first_card(const struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card)
{
    return card == wire->card;
}

/* Queue pairs of each pipe on a card. */
static uint32_t queues_on(const struct gyre_verbs_wire *wire)
{
    return wire->queues / wire->cards;
}

static uint64_t completions_wanted(const struct gyre_verbs_wire *wire,
                                   const struct gyre_verbs_card *card)
{
    uint32_t others = queues_on(wire) - is_first_card(wire, card);
    uint64_t each = others * (gyre_verbs_receives(wire, false) + GYRE_VERBS_SENDS);
    if (is_first_card(wire, card))
        each += gyre_verbs_receives(wire, true) + GYRE_VERBS_SENDS;
    return wire->most * each;
}

static bool is_enough(const struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card,
                      const struct ibv_device_attr *limits)
{
    uint32_t requests = limits->max_qp_wr < 0 ? 0 : (uint32_t)limits->max_qp_wr;
    return completions_wanted(wire, card) <= (uint64_t)limits->max_cqe &&
           gyre_verbs_receives(wire, is_first_card(wire, card)) <= requests &&
           GYRE_VERBS_SENDS <= requests;
}

static bool has_queues(const struct gyre_verbs_wire *wire, const struct ibv_device_attr *limits)
{
    return (uint64_t)wire->most * queues_on(wire) <= (uint64_t)limits->max_qp;
}

static int fit_window(struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card,
                      struct gyre_trouble *trouble)
{
    struct ibv_device_attr limits;
    uint32_t before = wire->window;
    int status = ibv_query_device(card->context, &limits);
    if (status)
        return gyre_trouble_set(trouble, -status, "%s does not tell its limits: %s", card->name,
                                strerror(status));
    while (is_first_card(wire, card) && !is_enough(wire, card, &limits) &&
           wire->window > WINDOW_LEAST)
        wire->window /= 2;
    if (!is_enough(wire, card, &limits) || !has_queues(wire, &limits))
        return gyre_trouble_set(trouble, -ENOSPC,
                                "%s has %d completions to a queue, %d requests to a queue pair and "
                                "%d queue pairs: too few for %u peers",
                                card->name, limits.max_cqe, limits.max_qp_wr, limits.max_qp,
                                wire->most);
    if (wire->window < before)
        gyre_log(GYRE_LOG_WARN,
                 "verbs: %u records on their way to a peer instead of %u: %s has %d completions to "
                 "a queue and %d requests to a queue pair",
                 wire->window, before, card->name, limits.max_cqe, limits.max_qp_wr);
    return 0;
}

/* -- open and close ---------------------------------------------------------------------------- */

static int open_completions(struct gyre_verbs_wire *wire, struct gyre_verbs_card *card,
                            struct gyre_trouble *trouble)
{
    int status = fit_window(wire, card, trouble);
    if (status)
        return status;
    uint64_t count = completions_wanted(wire, card);
    card->channel = ibv_create_comp_channel(card->context);
    if (card->channel)
        card->completions = ibv_create_cq(card->context, (int)count, NULL, card->channel, 0);
    if (!card->completions)
        return gyre_trouble_set(trouble, -errno, "%s gives no queue of %u completions: %s",
                                card->name, (uint32_t)count, strerror(errno));
    return 0;
}

/* Called before memory is registered: then a child of the application does not disturb memory that
 * the device reads and writes. Newer kernels see to that by themselves. */
static void prepare_forks(void)
{
    static bool done;
    if (!done && ibv_fork_init())
        gyre_log(GYRE_LOG_INFO, "verbs: something else has registered memory already, so a fork "
                                "is safe only where the kernel makes it so");
    done = true;
}

int gyre_verbs_card_open(struct gyre_verbs_wire *wire, uint32_t number,
                         const struct gyre_wire_options *options, struct gyre_trouble *trouble)
{
    struct gyre_verbs_card *card = &wire->card[number];
    struct gyre_verbs_port port = {.device = ""};
    char gid[GYRE_VERBS_NAME_MAX];
    int status = gyre_verbs_port_choose(options, number, &card->context, &port, trouble);
    if (status)
        return status;
    prepare_forks();
    card->port = port;
    gyre_verbs_gid_name(port.gid, gid);
    snprintf(card->name, sizeof card->name, "%.40s:%u", port.device, port.number);
    gyre_log(GYRE_LOG_INFO, "verbs: port %u of %s, GID %d (%s), MTU %d", port.number, port.device,
             port.gid_index, gid, 128 << port.mtu);
    card->domain = ibv_alloc_pd(card->context);
    if (!card->domain)
        return gyre_trouble_set(trouble, -errno, "%s gives no protection domain: %s", card->name,
                                strerror(errno));
    return open_completions(wire, card, trouble);
}

void gyre_verbs_card_close(struct gyre_verbs_card *card)
{
    if (card->completions) {
        ibv_ack_cq_events(card->completions, card->events);
        ibv_destroy_cq(card->completions);
    }
    if (card->channel)
        ibv_destroy_comp_channel(card->channel);
    if (card->domain)
        ibv_dealloc_pd(card->domain);
    if (card->context)
        ibv_close_device(card->context);
    card->completions = NULL;
    card->channel = NULL;
    card->domain = NULL;
    card->context = NULL;
}

/* -- the port, and sleep ----------------------------------------------------------------------- */

int gyre_verbs_port_state(const struct gyre_verbs_card *card, const char **words)
{
    struct ibv_port_attr port = {.state = IBV_PORT_NOP};
    if (ibv_query_port(card->context, card->port.number, &port)) {
        *words = "not to be asked";
        return -ENODEV;
    }
    *words = ibv_port_state_str(port.state);
    return port.state == IBV_PORT_ACTIVE ? 0 : -ENETDOWN;
}

/* Events of the channel tell only that the queue is worth a look. */
static void clear_events(struct gyre_verbs_card *card)
{
    struct ibv_cq *queue;
    void *nothing;
    while (!ibv_get_cq_event(card->channel, &queue, &nothing))
        card->events++;
    if (card->events) {
        ibv_ack_cq_events(card->completions, card->events);
        card->events = 0;
    }
}

int gyre_verbs_card_arm(struct gyre_verbs_card *card)
{
    clear_events(card);
    return ibv_req_notify_cq(card->completions, 0);
}
