/* Send and receive, of gyre/gyre.h: checks, and one message of collectives/messages/point_to_point.h each.
 *
 * A blocking send ends when its buffer may be written again, which may be before the other end has
 * called. To the own rank it goes on from a copy; a receive from the own rank must find its message
 * there, for nobody else could send it. */
#include "collectives/calls/call.h"
#include "collectives/comm/comm.h"

#include "base/size.h"

static int check_terms(const struct gyre_comm *comm, const char *call,
                       const struct gyre_message_terms *terms, int peer)
{
    uint64_t element = gyre_type_size(terms->type), bytes;
    if (peer < 0 || peer >= (int)comm->n)
        return gyre_refuse("%s: peer %d is not a rank of 0 … %u", call, peer, comm->n - 1);
    if (!element)
        return gyre_refuse("%s: type %d is unknown", call, (int)terms->type);
    if (!gyre_mul_u64(terms->count, element, &bytes) || bytes > INT64_MAX)
        return gyre_refuse("%s: %llu elements of %llu bytes are more than memory can hold", call,
                           (unsigned long long)terms->count, (unsigned long long)element);
    if (bytes && !terms->data)
        return gyre_refuse("%s: the buffer is NULL, with %llu elements", call,
                           (unsigned long long)terms->count);
    return bytes ? gyre_call_admit(comm, call, terms->data) : 0;
}

static int check_message_call(struct gyre_comm *comm, const char *call,
                              const struct gyre_message_terms *terms, int peer)
{
    int status = gyre_comm_check(comm, call);
    return status ? status : gyre_message_refused(comm, check_terms(comm, call, terms, peer));
}

static bool message_over(void *context)
{
    const struct gyre_message *message = context;
    return atomic_load_explicit(&message->status, memory_order_acquire) != GYRE_AGAIN;
}

/* Why gyre_p2p_start() has made none. */
static int not_started(void)
{
    return gyre_thread_trouble()->status;
}

/* Nobody else can bring it: the caller would wait for ever. */
static int own_message(struct gyre_comm *comm, struct gyre_message *message)
{
    if (message->send)
        return gyre_p2p_detach_own(comm, message);
    gyre_p2p_withdraw_own(comm, message);
    return gyre_refuse("gyre_recv: rank %u has sent nothing to itself that it could receive",
                       comm->rank);
}

int gyre_message_end(struct gyre_comm *comm, struct gyre_message *message)
{
    struct gyre_wait wait = {message_over, message, UINT64_MAX, {0}};
    if (message->peer == comm->rank && message->status == GYRE_AGAIN)
        return own_message(comm, message);
    if (message->status == GYRE_AGAIN)
        gyre_progress_wait(comm->progress, &wait);
    int status = message->status;
    gyre_p2p_release(comm, message);
    return status;
}

static int run_started(struct gyre_comm *comm, struct gyre_message *message)
{
    if (!message)
        return not_started();
    if (comm->group.depth)
        return gyre_group_add_message(comm, message);
    gyre_domain_ring(comm->domain); /* it may be out, and over, already */
    gyre_p2p_look(comm, gyre_comm_looks(comm));
    return gyre_message_end(comm, message);
}

static int run_message(struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    gyre_domain_enter(comm->domain);
    struct gyre_message *message = NULL;
    bool now = gyre_p2p_run_now(comm, terms);
    if (now && !comm->group.depth)
        gyre_domain_ring(comm->domain);
    if (!now)
        message = gyre_p2p_start(comm, terms);
    int status = now ? 0 : run_started(comm, message);
    gyre_domain_leave(comm->domain);
    return now || message ? status : gyre_message_refused(comm, status);
}

int gyre_message_await(struct gyre_started *started, uint64_t deadline)
{
    struct gyre_comm *comm = started->comm;
    struct gyre_message *message = started->message;
    struct gyre_wait wait = {message_over, message, deadline, {0}};
    gyre_domain_enter(comm->domain);
    bool own = message->peer == comm->rank && message->status == GYRE_AGAIN;
    gyre_p2p_focus(comm);
    if (!own && comm->n > 1)
        gyre_progress_wait(comm->progress, &wait);
    int status = message->status;
    if (own && deadline == UINT64_MAX)
        status =
            gyre_refuse("gyre_work_wait: rank %u waits for itself: it has not called the other "
                        "end of this message",
                        comm->rank);
    else if (status != GYRE_AGAIN) {
        gyre_work_free(started);
        gyre_p2p_release(comm, message);
    }
    gyre_domain_leave(comm->domain);
    return status;
}

static int begin_message(struct gyre_comm *comm, const struct gyre_message_terms *terms,
                         struct gyre_work **out)
{
    struct gyre_started *started;
    int status = gyre_work_new(comm, &started);
    if (status)
        return gyre_message_refused(comm, status);
    gyre_domain_enter(comm->domain);
    struct gyre_message *message = started->message = gyre_p2p_start(comm, terms);
    if (message && comm->n > 1 && gyre_progress_poll(comm->progress))
        gyre_domain_ring(comm->domain);
    bool more = message && message->status == GYRE_AGAIN && message->peer != comm->rank;
    gyre_domain_leave(comm->domain);
    if (more)
        gyre_helper_poke(comm->progress);
    if (message)
        *out = started->handle;
    else
        gyre_work_free(started);
    return message ? 0 : gyre_message_refused(comm, not_started());
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_message_terms terms_of(bool send, const void *data, uint64_t count,
                                          enum gyre_type type, int peer)
{
    return (struct gyre_message_terms){(uint32_t)peer, send, (void *)(uintptr_t)data, count, type};
}

static int start_message(struct gyre_comm *comm, const char *call,
                         const struct gyre_message_terms *terms, int peer, struct gyre_work **work)
{
    if (!work)
        return gyre_message_refused(comm,
                                    gyre_refuse("%s: the place for the handle is NULL", call));
    *work = NULL;
    int status = check_message_call(comm, call, terms, peer);
    return status ? status : begin_message(comm, terms, work);
}

int gyre_send(struct gyre_comm *comm, const void *data, uint64_t count, enum gyre_type type,
              int peer)
{
    struct gyre_message_terms terms = terms_of(true, data, count, type, peer);
    int status = check_message_call(comm, "gyre_send", &terms, peer);
    return status ? status : run_message(comm, &terms);
}

int gyre_recv(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type, int peer)
{
    struct gyre_message_terms terms = terms_of(false, data, count, type, peer);
    int status = check_message_call(comm, "gyre_recv", &terms, peer);
    return status ? status : run_message(comm, &terms);
}

int gyre_send_start(struct gyre_comm *comm, const void *data, uint64_t count, enum gyre_type type,
                    int peer, struct gyre_work **work)
{
    struct gyre_message_terms terms = terms_of(true, data, count, type, peer);
    return start_message(comm, "gyre_send_start", &terms, peer, work);
}

int gyre_recv_start(struct gyre_comm *comm, void *data, uint64_t count, enum gyre_type type,
                    int peer, struct gyre_work **work)
{
    struct gyre_message_terms terms = terms_of(false, data, count, type, peer);
    return start_message(comm, "gyre_recv_start", &terms, peer, work);
}
