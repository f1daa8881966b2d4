/* The operations, once their arguments are known to be right (calls.c): plan, start, drive.
 *
 * A blocking call owns the domain while it runs and drives everything itself. Its shortest way, for
 * up to 4 KiB on mapped memory and nothing else in flight, is two calls into mapped.c without an
 * operation in between. */
#include "collectives/comm.h"

#include "base/clock.h"

#include <string.h>

#define EXCHANGE_SPINS 64u

/* -- driving ----------------------------------------------------------------------------------- */

/* As gyre_engine_poll(), and tells the watch whether anything moves at all. */
static bool poll_engine(struct gyre_comm *comm)
{
    bool moved = gyre_engine_poll(comm->engine, gyre_now_ns());
    comm->moves += moved;
    gyre_activity_move(gyre_domain_activity(comm->domain),
                       comm->moves + gyre_links_moved(gyre_domain_links(comm->domain)));
    return moved;
}

static bool something_came(void *context)
{
    return poll_engine(context);
}

static void comm_fail(struct gyre_comm *comm, int status)
{
    atomic_store_explicit(&comm->failed, status, memory_order_release);
    gyre_links_detach_all(gyre_domain_links(comm->domain));
    gyre_engine_fail(comm->engine, status);
}

static void tell_fault(struct gyre_comm *comm)
{
    const struct gyre_fault *fault = &comm->engine->fault;
    if (!fault->status || comm->fault_told)
        return;
    comm->fault_told = true;
    gyre_watch_report(gyre_domain_watch(comm->domain), fault->status, fault->peer, fault->echo,
                      fault->trouble.text);
}

static void note_finished(struct gyre_comm *comm)
{
    const struct gyre_engine *engine = comm->engine;
    uint64_t finished = engine->orders ? engine->order[0]->sequence - 1 : engine->sequence;
    gyre_activity_finish(gyre_domain_activity(comm->domain), finished);
}

static void note_started(struct gyre_comm *comm, const struct gyre_plan *plan, uint64_t sequence,
                         uint64_t fingerprint)
{
    gyre_activity_enter(gyre_domain_activity(comm->domain), comm->engine->comm, sequence,
                        fingerprint, plan->signature, plan->shape.count);
}

/* Nothing came: waits a turn, and lets the watch know that somebody looks. */
static int idle_turn(struct gyre_comm *comm, struct gyre_idle *idle, bool (*ready)(void *context),
                     void *context, uint64_t deadline)
{
    gyre_activity_look(gyre_domain_activity(comm->domain));
    return gyre_domain_idle(comm->domain, idle, ready, context, deadline);
}

/* The job's failure is looked for before anything is read or written, 256 KiB at most at a time. */
int gyre_comm_turn(struct gyre_comm *comm, struct gyre_idle *idle, uint64_t deadline)
{
    int status =
        atomic_load_explicit(&gyre_domain_health(comm->domain)->status, memory_order_acquire);
    if (!status && poll_engine(comm)) {
        *idle = (struct gyre_idle){0};
        gyre_domain_ring(comm->domain);
        note_finished(comm);
        return 0;
    }
    tell_fault(comm);
    if (!status)
        status = idle_turn(comm, idle, something_came, comm, deadline);
    if (status && !comm->engine->failed)
        comm_fail(comm, status);
    return status;
}

static int drive(struct gyre_comm *comm, struct gyre_operation *op)
{
    struct gyre_idle idle = {0};
    while (op->status == GYRE_AGAIN && !gyre_comm_turn(comm, &idle, UINT64_MAX))
        continue;
    return op->status;
}

/* -- starting ---------------------------------------------------------------------------------- */

/* Room for one more: waits for the oldest if need be. */
static int make_room(struct gyre_comm *comm)
{
    struct gyre_idle idle = {0};
    int status = 0;
    while (!status && comm->engine->orders == GYRE_OPS_MAX)
        status = gyre_comm_turn(comm, &idle, UINT64_MAX);
    return status;
}

static int find_plan(struct gyre_comm *comm, const struct gyre_shape *shape,
                     struct gyre_plan **plan)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0; /* of an earlier call */
    return gyre_engine_plan(comm->engine, shape, plan, trouble);
}

static int start(struct gyre_comm *comm, struct gyre_plan *plan, const void *input, void *output,
                 struct gyre_operation **op)
{
    int status = make_room(comm);
    if (status)
        return status;
    *op = gyre_engine_start(comm->engine, plan, input, output);
    if (!*op)
        return gyre_refuse(
            "%u operations have ended without gyre_work_test() or gyre_work_wait() on "
            "them",
            GYRE_OPS_MAX);
    note_started(comm, plan, (*op)->sequence, (*op)->fingerprint);
    return 0;
}

struct exchange {
    struct gyre_engine *engine;
    const struct gyre_plan *plan;
    uint64_t sequence;
    bool begun;
};

static bool exchange_came(void *context)
{
    const struct exchange *exchange = context;
    return gyre_exchange_ready(exchange->engine, exchange->plan, exchange->sequence,
                               exchange->begun);
}

/* The shortest way. The caller owns the domain and nothing is in flight. */
static int run_exchange(struct gyre_comm *comm, const struct gyre_plan *plan, const void *input,
                        void *output)
{
    struct gyre_engine *engine = comm->engine;
    struct exchange exchange = {engine, plan, ++engine->sequence, false};
    struct gyre_idle idle = {0};
    int status = 0;
    exchange.begun = gyre_exchange_begin(engine, plan, input, exchange.sequence) == 0;
    /* The books are kept while the line travels. */
    note_started(comm, plan, exchange.sequence, gyre_op_fingerprint(plan, exchange.sequence));
    while (!exchange.begun && !status) {
        status = idle_turn(comm, &idle, exchange_came, &exchange, UINT64_MAX);
        exchange.begun = gyre_exchange_begin(engine, plan, input, exchange.sequence) == 0;
    }
    idle = (struct gyre_idle){.turns = EXCHANGE_SPINS}; /* the first looks were inside */
    while (!status &&
           gyre_exchange_finish(engine, plan, input, output, exchange.sequence, EXCHANGE_SPINS)) {
        tell_fault(comm);
        status = idle_turn(comm, &idle, exchange_came, &exchange, UINT64_MAX);
    }
    if (status)
        comm_fail(comm, status);
    else
        note_finished(comm);
    return status;
}

static int run_alone(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                     void *output)
{
    (void)comm;
    if (input != output && shape->count)
        memmove(output, input, shape->count * gyre_type_size(shape->type));
    return 0;
}

int gyre_comm_run(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                  void *output)
{
    if (comm->n == 1)
        return run_alone(comm, shape, input, output);
    gyre_domain_enter(comm->domain);
    struct gyre_plan *plan;
    struct gyre_operation *op;
    int status = find_plan(comm, shape, &plan);
    if (!status && plan->form == GYRE_FORM_EXCHANGE && gyre_engine_idle(comm->engine)) {
        status = run_exchange(comm, plan, input, output);
    } else if (!status && !(status = start(comm, plan, input, output, &op))) {
        status = drive(comm, op);
        gyre_engine_release(comm->engine, op);
    }
    gyre_domain_leave(comm->domain);
    return status;
}

static struct gyre_work *new_work(struct gyre_comm *comm)
{
    for (uint32_t i = 0; i < GYRE_OPS_MAX; i++)
        if (!comm->work[i].used) {
            comm->work[i] = (struct gyre_work){.comm = comm, .used = true};
            return &comm->work[i];
        }
    return NULL;
}

int gyre_comm_begin(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                    void *output, struct gyre_work **out)
{
    struct gyre_work *work = new_work(comm);
    if (!work)
        return gyre_refuse(
            "%u operations are started and not waited for: gyre_work_wait() for some first",
            GYRE_OPS_MAX);
    if (comm->n == 1) {
        work->status = run_alone(comm, shape, input, output);
        *out = work;
        return 0;
    }
    struct gyre_plan *plan;
    gyre_domain_enter(comm->domain);
    int status = find_plan(comm, shape, &plan);
    if (!status)
        status = start(comm, plan, input, output, &work->op);
    if (!status && poll_engine(comm))
        gyre_domain_ring(comm->domain);
    note_finished(comm);
    gyre_domain_leave(comm->domain);
    if (!status && work->op->status == GYRE_AGAIN)
        gyre_helper_poke(comm);
    work->used = status == 0;
    if (!status)
        *out = work;
    return status;
}

/* -- work -------------------------------------------------------------------------------------- */

/* Frees an ended handle; GYRE_AGAIN keeps it. */
static int settle(struct gyre_work *work)
{
    int status = work->op ? work->op->status : work->status;
    if (status == GYRE_AGAIN)
        return status;
    if (work->op)
        gyre_engine_release(work->comm->engine, work->op);
    work->used = false;
    return status;
}

static int check_handle(const struct gyre_work *work, const char *call)
{
    if (!work || !work->used)
        return gyre_refuse("%s: the handle is %s", call,
                           work ? "spent: it was waited for already" : "NULL");
    return gyre_domain_forked(work->comm->domain) ? GYRE_FORKED : 0;
}

static int await(struct gyre_work *work, uint64_t deadline)
{
    struct gyre_comm *comm = work->comm;
    struct gyre_idle idle = {0};
    if (comm->n == 1)
        return settle(work);
    gyre_domain_enter(comm->domain);
    while (work->op->status == GYRE_AGAIN) {
        int status = gyre_comm_turn(comm, &idle, deadline);
        if (status || (deadline != UINT64_MAX && gyre_now_ns() >= deadline))
            break;
    }
    int status = settle(work);
    gyre_domain_leave(comm->domain);
    return status;
}

int gyre_work_test(struct gyre_work *work)
{
    int status = check_handle(work, "gyre_work_test");
    return status ? status : await(work, 0);
}

int gyre_work_wait(struct gyre_work *work, int timeout_ms)
{
    int status = check_handle(work, "gyre_work_wait");
    if (status)
        return status;
    return await(work, timeout_ms < 0    ? UINT64_MAX
                       : timeout_ms == 0 ? 0
                                         : gyre_now_ns() + (uint64_t)timeout_ms * GYRE_MS);
}
