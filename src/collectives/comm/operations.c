/* Runs operations whose arguments have been checked (arguments.c): plan, start, drive.
 *
 * A blocking call owns the domain while it runs and drives everything itself. Its shortest way, for
 * up to 4 KiB on mapped memory with nothing else in flight, is two calls into
 * collectives/mapped/exchange.c without an operation in between.
 *
 * Tested by tests/program/collectives/collectives.c. */
#include "collectives/comm/operations.h"

#include "collectives/comm/arguments.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/results.h"
#include "collectives/mapped/device/exchange_stream.h"
#include "collectives/mapped/device/push.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"
#include "collectives/mapped/exchange.h"
#include "collectives/staging/pinned.h"

#include <string.h>

/* -- starting ---------------------------------------------------------------------------------- */

/* How a plan runs, for the records. */
static uint16_t way_of(struct gyre_recorder *recorder, const struct gyre_plan *plan)
{
    static const uint16_t way[] = {[GYRE_FORM_EXCHANGE] = GYRE_BY_EXCHANGE,
                                   [GYRE_FORM_PUSH] = GYRE_BY_PUSH,
                                   [GYRE_FORM_BLOCKS] = GYRE_BY_BLOCKS};
    return plan->form == GYRE_FORM_STEPS ? gyre_recorder_way(recorder, plan->algorithm->name)
                                         : way[plan->form];
}

static struct gyre_record_place note_operation(struct gyre_comm *comm, const struct gyre_plan *plan,
                                               uint64_t sequence, uint64_t fingerprint)
{
    struct gyre_recorder *recorder = comm->activity->recorder;
    const struct gyre_record_call call = {sequence, plan->signature, plan->shape.count, comm->name,
                                          way_of(recorder, plan)};
    gyre_activity_enter(comm->activity, comm->name, sequence, fingerprint, plan->signature,
                        plan->shape.count);
    if (comm->progress->activities > 1)
        gyre_comm_focus(comm);
    return gyre_record_call(recorder, &call);
}

int gyre_comm_drive(struct gyre_comm *comm, struct gyre_operation *op)
{
    return gyre_progress_await(comm->progress, &op->status);
}

/* Waits for the calls of other threads that came before and found no room. */
static int await_turn(struct gyre_comm *comm, uint32_t number)
{
    int status = 0;
    uint32_t turn;
    while (!status && (turn = atomic_load(&comm->turn)) != number) {
        struct gyre_wait wait = {.word = &comm->turn, .old = turn, .deadline = UINT64_MAX};
        status = gyre_progress_wait(comm->progress, &wait);
    }
    return status;
}

/* Waits for room in the engine and among the plans: handles give back what has ended, or an
 * operation in flight has to end first. */
static int await_operation_room(struct gyre_comm *comm)
{
    struct gyre_engine *engine = comm->engine;
    int status = 0;
    while (!status && !gyre_engine_has_room(engine)) {
        bool awaited = gyre_results_collect(comm);
        struct gyre_wait wait = {
            .word = &engine->ends, .old = atomic_load(&engine->ends), .deadline = UINT64_MAX};
        if (!engine->orders && !awaited)
            break;
        if (!gyre_engine_has_room(engine))
            status = gyre_progress_wait(comm->progress, &wait);
    }
    return status;
}

/* Whether a call that finds no room waits to start. */
static bool has_queue(const struct gyre_comm *comm)
{
    return comm->queued != atomic_load_explicit(&comm->turn, memory_order_relaxed);
}

int gyre_comm_await_room(struct gyre_comm *comm)
{
    if (!has_queue(comm) && gyre_engine_has_room(comm->engine))
        return 0;
    uint32_t number = comm->queued++;
    int status = await_turn(comm, number);
    if (!status)
        status = await_operation_room(comm);
    atomic_store(&comm->turn, number + 1);
    return status;
}

static int find_plan(struct gyre_comm *comm, const struct gyre_shape *shape,
                     struct gyre_plan **plan)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0; /* of an earlier call */
    int status = gyre_comm_await_room(comm);
    if (!status)
        status = gyre_engine_plan(comm->engine, shape, plan, trouble);
    return gyre_comm_refused(comm, status);
}

/* `stream`: has the operation in its order, NULL: none has. `alone`: that runs it. */
static int start_plan(struct gyre_comm *comm, struct gyre_plan *plan,
                      const struct gyre_request *request, void *stream, bool alone,
                      struct gyre_operation **op)
{
    struct gyre_host_mirror *mirror = NULL;
    struct gyre_push_window *window = NULL;
    bool direct = alone || (comm->mesh && gyre_push_suits_device(comm->mesh, plan, request));
    int status;
    if (comm->mesh && !direct)
        window = gyre_window_take(comm->mesh, plan, request, stream);
    if (direct || window)
        status = gyre_fold_queue_open(&comm->progress->fold_queue, gyre_thread_trouble());
    else
        status =
            gyre_mirror_make(&comm->engine->mirrors, plan, request, &mirror, gyre_thread_trouble());
    if (status) {
        gyre_window_release(window);
        return gyre_comm_refused(comm, status);
    }
    *op = gyre_engine_start(comm->engine, plan, request->input.address, request->output.address);
    if (!*op) {
        gyre_mirror_release(mirror);
        gyre_window_release(window);
        return gyre_comm_refused(comm,
                                 gyre_refuse("%u operations are held by a group", GYRE_OPS_MAX));
    }
    (*op)->direct = direct || window;
    gyre_mirror_use(*op, mirror);
    gyre_window_use(*op, window);
    (*op)->record = note_operation(comm, plan, (*op)->sequence, (*op)->fingerprint);
    gyre_progress_drive(comm);
    return 0;
}

int gyre_comm_start_plan(struct gyre_comm *comm, struct gyre_plan *plan,
                         const struct gyre_request *request, struct gyre_operation **op)
{
    return start_plan(comm, plan, request, NULL, false, op);
}

int gyre_comm_start(struct gyre_comm *comm, const struct gyre_request *request,
                    struct gyre_operation **op)
{
    struct gyre_plan *plan;
    int status = find_plan(comm, &request->shape, &plan);
    return status ? status : gyre_comm_start_plan(comm, plan, request, op);
}

struct exchange {
    struct gyre_progress_engine *progress;
    struct gyre_mesh *mesh;
    struct gyre_plan *plan;
    struct gyre_op_name name;
    struct gyre_record_place record;
    bool begun;
};

/* Reads messages that peers may send for later receives, before this thread sleeps. */
static bool exchange_came(const struct exchange *exchange)
{
    bool moved = gyre_progress_poll(exchange->progress);
    return moved ||
           gyre_exchange_ready(exchange->mesh, exchange->plan, exchange->name, exchange->begun);
}

static int await_exchange(const struct exchange *exchange, struct gyre_idle *idle)
{
    int status = gyre_progress_idle_turn(exchange->progress, idle, UINT64_MAX);
    if (status != GYRE_IDLE_ASLEEP)
        return status;
    if (exchange->begun)
        gyre_record_waits(exchange->record,
                          gyre_turn_waits_on(exchange->mesh, exchange->mesh->turn));
    gyre_domain_sleep(exchange->progress->domain, exchange_came(exchange));
    return 0;
}

/* Turns the exchange into an ordinary operation: another thread wants in, and will drive. False:
 * the engine has no room for one. */
static bool go_the_long_way(struct gyre_comm *comm, const struct exchange *exchange,
                            const void *input, void *output, int *status)
{
    struct gyre_operation *op;
    if (!gyre_domain_wanted(comm->domain))
        return false;
    op = gyre_engine_adopt(comm->engine, exchange->plan, input, output, exchange->begun);
    if (!op)
        return false;
    op->record = exchange->record;
    gyre_progress_drive(comm);
    *status = gyre_comm_drive(comm, op);
    gyre_engine_release(comm->engine, op);
    return true;
}

/* Runs an operation the shortest way. The caller owns the domain, and nothing is in flight. */
static int run_shortest(struct gyre_comm *comm, struct gyre_plan *plan, const void *input,
                        void *output)
{
    struct gyre_engine *engine = comm->engine;
    const uint64_t sequence = ++engine->sequence;
    struct exchange exchange = {comm->progress,
                                comm->mesh,
                                plan,
                                {sequence, gyre_engine_fingerprint(engine, plan, sequence)},
                                {0},
                                false};
    struct gyre_idle idle = {0};
    uint32_t looks = gyre_comm_looks(comm);
    int status = 0;
    exchange.begun = gyre_exchange_begin(comm->mesh, plan, input, exchange.name) == 0;
    /* The books are kept while the line travels. */
    exchange.record = note_operation(comm, plan, sequence, exchange.name.fingerprint);
    while (!exchange.begun && !status) {
        if (go_the_long_way(comm, &exchange, input, output, &status))
            return status;
        status = await_exchange(&exchange, &idle);
        exchange.begun = gyre_exchange_begin(comm->mesh, plan, input, exchange.name) == 0;
    }
    idle = (struct gyre_idle){.turns = GYRE_LOOKS}; /* the first looks were in the loop above */
    while (!status && gyre_exchange_finish(comm->mesh, plan, input, output, exchange.name, looks)) {
        if (go_the_long_way(comm, &exchange, input, output, &status))
            return status;
        gyre_progress_tell_fault(comm);
        status = await_exchange(&exchange, &idle);
    }
    gyre_engine_remember(engine, exchange.name.fingerprint);
    gyre_record_ended(exchange.record, status);
    if (status)
        gyre_progress_fail(comm->progress, status);
    else
        gyre_progress_note_finished(comm);
    return status;
}

int gyre_comm_copy(struct gyre_comm *comm, void *to, const void *from, uint64_t bytes,
                   bool on_device)
{
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    if (!on_device) {
        memmove(to, from, bytes);
        return 0;
    }
    int status = gyre_fold_queue_copy_now(fold_queue, to, from, bytes, true);
    return status ? gyre_trouble_set(gyre_thread_trouble(), status, "%s", fold_queue->trouble.text)
                  : 0;
}

/* Whether the CPU can touch both buffers. */
static bool is_at_home(const struct gyre_request *request)
{
    return request->input.kind == GYRE_MEMORY_HOST && request->output.kind == GYRE_MEMORY_HOST;
}

/* Runs an operation of one rank alone: there is one block, and every verb copies it. */
static int run_alone(struct gyre_comm *comm, const struct gyre_request *request)
{
    const struct gyre_request_buffer *input = &request->input;
    uint8_t *to = (uint8_t *)request->output.address + gyre_shape_displacement(&request->shape, 0);
    return input->bytes && input->address != to
               ? gyre_comm_copy(comm, to, input->address, input->bytes, !is_at_home(request))
               : 0;
}

/* Whether the CPU can touch a buffer, which has not been measured. False for memory of a device
 * that the call's checks would refuse: those ask again. */
static bool find_at_home(struct gyre_fold_queue *fold_queue, struct gyre_request_buffer *buffer)
{
    buffer->known = !gyre_fold_queue_recognise(fold_queue, buffer->address, &buffer->kind, NULL);
    return buffer->known && buffer->kind == GYRE_MEMORY_HOST;
}

bool gyre_comm_run_again(struct gyre_comm *comm, struct gyre_request *request, int *status)
{
    const struct gyre_shape *shape = &request->shape;
    const void *input = request->input.address;
    void *output = request->output.address;
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    if (!comm->mesh || shape->count > GYRE_EXCHANGE_MAX) /* bytes: no exchange has more elements */
        return false;
    struct gyre_plan *plan = comm->engine->recent;
    bool again = plan && plan->form == GYRE_FORM_EXCHANGE && comm->progress->busy_count == 0 &&
                 !has_queue(comm) && gyre_shape_same(&plan->shape, shape, comm->n) &&
                 gyre_plan_takes(plan, input, output) &&
                 (!plan->input_bytes || find_at_home(fold_queue, &request->input)) &&
                 (!plan->output_bytes || find_at_home(fold_queue, &request->output));
    if (again)
        *status = run_shortest(comm, plan, input, output);
    return again;
}

int gyre_comm_run(struct gyre_comm *comm, const struct gyre_request *request)
{
    if (comm->n == 1)
        return run_alone(comm, request);
    struct gyre_plan *plan;
    struct gyre_operation *op;
    int status = find_plan(comm, &request->shape, &plan);
    if (!status && plan->form == GYRE_FORM_EXCHANGE && comm->progress->busy_count == 0 &&
        is_at_home(request)) {
        status = run_shortest(comm, plan, request->input.address, request->output.address);
    } else if (!status && !(status = gyre_comm_start_plan(comm, plan, request, &op))) {
        status = gyre_comm_drive(comm, op);
        gyre_engine_release(comm->engine, op);
    }
    return status;
}

int gyre_comm_enter_and_run(struct gyre_comm *comm, const struct gyre_request *request)
{
    gyre_domain_enter(comm->domain);
    int status = gyre_comm_run(comm, request);
    gyre_domain_leave(comm->domain);
    return status;
}

int gyre_comm_begin(struct gyre_comm *comm, const struct gyre_request *request, void *buffer,
                    struct gyre_work **out)
{
    struct gyre_started *started;
    int status = gyre_work_new(&comm->work, &started);
    if (status)
        return gyre_comm_refused(comm, status);
    if (comm->n == 1) {
        started->status = run_alone(comm, request);
    } else {
        status = gyre_comm_start(comm, request, &started->op);
        if (!status && gyre_progress_poll(comm->progress))
            gyre_domain_ring(comm->domain);
    }
    started->buffer = status ? NULL : buffer;
    if (status)
        gyre_work_free(&comm->work, started);
    else
        *out = started->handle;
    return status;
}

/* -- streams ----------------------------------------------------------------------------------- */

/* Makes what could not be made any more while a stream is held, and has copies between the node's
 * devices tried. */
static void prepare_for_streams(struct gyre_comm *comm)
{
    gyre_domain_try_copies(comm->domain);
    gyre_pinned_open(&comm->progress->fold_queue);
    if (comm->mesh)
        gyre_words_lock(comm->mesh);
    if (gyre_domain_has_copy_queue(comm->domain) || !gyre_quiet_begin())
        return;
    gyre_domain_open_copy_queue(comm->domain);
    gyre_quiet_end();
}

static int admit_stream(struct gyre_comm *comm, void *stream, bool *captured)
{
    *captured = false;
    int status = gyre_fold_queue_check_stream(&comm->progress->fold_queue, stream, captured,
                                              gyre_thread_trouble());
    if (!status && !*captured)
        prepare_for_streams(comm);
    return status;
}

/* Finds the plan of an operation that a graph will run, or refuses the operation. What is short
 * enough for an EXCHANGE is a PUSH there: a graph's launches have no turns, and so no payloads. */
static int admit_to_graph(struct gyre_comm *comm, const struct gyre_request *request,
                          struct gyre_plan **plan)
{
    struct gyre_shape shape = request->shape;
    shape.in_graph = (*plan)->form == GYRE_FORM_EXCHANGE;
    int status = shape.in_graph ? find_plan(comm, &shape, plan) : 0;
    const char *bar = status ? NULL : gyre_push_bars_graph(comm->mesh, *plan, request);
    return bar ? gyre_trouble_set(gyre_thread_trouble(), GYRE_UNSUPPORTED,
                                  "the caller's stream is being captured into a CUDA graph, of "
                                  "which this operation is no part: %s",
                                  bar)
               : status;
}

/* Runs an operation of one rank alone in a stream's order: there is one block, and the stream
 * copies it. */
static int run_alone_on(struct gyre_comm *comm, const struct gyre_request *request, void *stream)
{
    const struct gyre_request_buffer *input = &request->input;
    uint8_t *to = (uint8_t *)request->output.address + gyre_shape_displacement(&request->shape, 0);
    bool captured;
    int status = admit_stream(comm, stream, &captured);
    return status || !input->bytes || input->address == to
               ? status
               : gyre_fold_queue_copy_on(&comm->progress->fold_queue, stream, to, input->address,
                                         input->bytes, gyre_thread_trouble());
}

/* Whether the stream will run the operation that is started now: a short one in shared memory. */
static bool goes_alone(struct gyre_comm *comm, const struct gyre_plan *plan,
                       const struct gyre_request *request)
{
    return comm->mesh && gyre_exchange_suits_stream(comm->mesh, plan, request,
                                                    gyre_engine_last_turn(comm->engine) + 1);
}

/* Starts an operation in a stream's order. */
static int begin_on(struct gyre_comm *comm, const struct gyre_request *request, void *stream)
{
    struct gyre_plan *plan;
    struct gyre_operation *op;
    bool captured = false;
    int status = find_plan(comm, &request->shape, &plan);
    if (!status)
        status = admit_stream(comm, stream, &captured);
    if (!status && captured)
        status = admit_to_graph(comm, request, &plan);
    if (!status)
        status = start_plan(comm, plan, request, captured ? NULL : stream,
                            goes_alone(comm, plan, request), &op);
    if (status)
        return status;
    comm->progress->graphs |= captured;
    status = gyre_engine_bind_stream(comm->engine, op, stream, captured, gyre_thread_trouble());
    if (status) { /* peers count on the operation: it runs to its end */
        gyre_comm_drive(comm, op);
        gyre_engine_release(comm->engine, op);
    }
    return status;
}

int gyre_comm_begin_on(struct gyre_comm *comm, const struct gyre_request *request, void *stream)
{
    if (comm->n == 1)
        return run_alone_on(comm, request, stream);
    int status = begin_on(comm, request, stream);
    if (!status && gyre_progress_poll(comm->progress))
        gyre_domain_ring(comm->domain);
    return status;
}
