/* The calls that send and receive. Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/message_wait.h"
#include "collectives/comm/progress.h"
#include "collectives/group/collect.h"

static int run_started(struct gyre_comm *comm, struct gyre_message *message)
{
    if (!message)
        return gyre_thread_trouble()->status;
    if (gyre_comm_in_group(comm))
        return gyre_group_add_message(comm, message);
    gyre_domain_ring(comm->domain); /* the message may be out, and over, already */
    gyre_p2p_look(comm->p2p, gyre_comm_looks(comm));
    return gyre_message_end(comm, message);
}

static int run_message(struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    struct gyre_message *message = NULL;
    bool now = gyre_p2p_run_now(comm->p2p, terms);
    if (now && !gyre_comm_in_group(comm))
        gyre_domain_ring(comm->domain);
    if (!now)
        message = gyre_message_start(comm, terms);
    int status = now ? 0 : run_started(comm, message);
    return now || message ? status : gyre_message_refused(comm, status);
}

static int begin_message(struct gyre_comm *comm, const struct gyre_message_terms *terms,
                         struct gyre_work **out)
{
    struct gyre_started *started;
    int status = gyre_work_new(&comm->work, &started);
    if (status)
        return gyre_message_refused(comm, status);
    struct gyre_message *message = started->message = gyre_message_start(comm, terms);
    if (message && comm->n > 1 && gyre_progress_poll(comm->progress))
        gyre_domain_ring(comm->domain);
    if (message)
        *out = started->handle;
    else
        gyre_work_free(&comm->work, started);
    return message ? 0 : gyre_message_refused(comm, gyre_thread_trouble()->status);
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_message_terms send_terms(const void *data, uint64_t count, enum gyre_type type,
                                            int peer, int tag)
{
    return (struct gyre_message_terms){.peer = (uint32_t)peer,
                                       .send = true,
                                       .data = (void *)(uintptr_t)data,
                                       .count = count,
                                       .type = type,
                                       .tag = (uint32_t)tag};
}

static struct gyre_message_terms recv_terms(void *data, uint64_t count, enum gyre_type type,
                                            int peer, int tag)
{
    return (struct gyre_message_terms){
        .peer = (uint32_t)peer, .data = data, .count = count, .type = type, .tag = (uint32_t)tag};
}

/* A receive of whatever comes. A rank alone can only hear from itself. */
static struct gyre_message_terms any_terms(const struct gyre_comm *comm,
                                           struct gyre_message_terms terms,
                                           struct gyre_received *received)
{
    terms.any = true;
    terms.received = received;
    if (terms.peer == GYRE_MESSAGE_ANYONE && comm && comm->n == 1)
        terms.peer = 0;
    return terms;
}

static int call_message(struct gyre_comm *comm, const char *call, struct gyre_message_terms *terms,
                        int peer)
{
    int status = gyre_comm_check(comm, call);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = gyre_message_refused(comm, gyre_message_check(comm, call, terms, peer));
    if (!status)
        status = run_message(comm, terms);
    gyre_domain_leave(comm->domain);
    return status;
}

static int start_message(struct gyre_comm *comm, const char *call, struct gyre_message_terms *terms,
                         int peer, struct gyre_work **work)
{
    if (work)
        *work = NULL;
    int status = gyre_comm_check(comm, call);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = work ? gyre_message_check(comm, call, terms, peer)
                  : gyre_refuse("%s: the place for the handle is NULL", call);
    status = status ? gyre_message_refused(comm, status) : begin_message(comm, terms, work);
    gyre_helper_take_over(comm->progress);
    return status;
}

int gyre_send(struct gyre_comm *comm, const void *data, uint64_t count, enum gyre_type type,
              int peer)
{
    struct gyre_message_terms terms = send_terms(data, count, type, peer, 0);
    return call_message(comm, "gyre_send", &terms, peer);
}

int gyre_recv(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type, int peer)
{
    struct gyre_message_terms terms = recv_terms(data, count, type, peer, 0);
    return call_message(comm, "gyre_recv", &terms, peer);
}

int gyre_send_start(struct gyre_comm *comm, const void *data, uint64_t count, enum gyre_type type,
                    int peer, struct gyre_work **work)
{
    struct gyre_message_terms terms = send_terms(data, count, type, peer, 0);
    return start_message(comm, "gyre_send_start", &terms, peer, work);
}

int gyre_recv_start(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                    int peer, struct gyre_work **work)
{
    struct gyre_message_terms terms = recv_terms(data, count, type, peer, 0);
    return start_message(comm, "gyre_recv_start", &terms, peer, work);
}

int gyre_send_tag(struct gyre_comm *comm, const void *data, uint64_t count, enum gyre_type type,
                  int peer, int tag)
{
    struct gyre_message_terms terms = send_terms(data, count, type, peer, tag);
    return call_message(comm, "gyre_send_tag", &terms, peer);
}

int gyre_recv_tag(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type, int peer,
                  int tag)
{
    struct gyre_message_terms terms = recv_terms(data, count, type, peer, tag);
    return call_message(comm, "gyre_recv_tag", &terms, peer);
}

int gyre_send_tag_start(struct gyre_comm *comm, const void *data, uint64_t count,
                        enum gyre_type type, int peer, int tag, struct gyre_work **work)
{
    struct gyre_message_terms terms = send_terms(data, count, type, peer, tag);
    return start_message(comm, "gyre_send_tag_start", &terms, peer, work);
}

int gyre_recv_tag_start(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                        int peer, int tag, struct gyre_work **work)
{
    struct gyre_message_terms terms = recv_terms(data, count, type, peer, tag);
    return start_message(comm, "gyre_recv_tag_start", &terms, peer, work);
}

int gyre_recv_any(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                  int source, int tag, struct gyre_received *received)
{
    struct gyre_message_terms terms =
        any_terms(comm, recv_terms(data, count, type, source, tag), received);
    return call_message(comm, "gyre_recv_any", &terms, source);
}

int gyre_recv_any_start(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                        int source, int tag, struct gyre_received *received,
                        struct gyre_work **work)
{
    struct gyre_message_terms terms =
        any_terms(comm, recv_terms(data, count, type, source, tag), received);
    return start_message(comm, "gyre_recv_any_start", &terms, source, work);
}
