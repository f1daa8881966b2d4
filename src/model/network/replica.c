/* See replica.h. Tested by tests/unit/model/network/network_test.c and
 * tests/program/train/parity.c. */
#include "model/network/replica.h"

#include "base/size.h"
#include "ddp/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64 /* bytes: values begin at whole lines of the cache */

/* -- memory ------------------------------------------------------------------------------------ */

static size_t buffer_bytes(const struct gyre_running_buffer *buffer)
{
    return buffer->count * (buffer->whole ? sizeof(int64_t) : sizeof(float));
}

static int allocate_values(struct gyre_replica *r)
{
    size_t bytes = LINE;
    for (int p = 0; p < r->parameters; p++)
        bytes += gyre_round_up(r->parameter[p]->count * sizeof(float), LINE);
    r->values = aligned_alloc(LINE, bytes);
    r->host_item = calloc((size_t)r->parameters + (size_t)r->buffers + 1, sizeof *r->host_item);
    r->unseen = calloc((size_t)r->parameters + 1, sizeof *r->unseen);
    return r->values && r->host_item && r->unseen ? 0 : -ENOMEM;
}

static int allocate_running(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    size_t bytes = 0;
    for (int b = 0; b < r->buffers; b++)
        bytes += gyre_round_up(buffer_bytes(r->buffer[b]), LINE);
    return gyre_running_init(&r->running, gyre_model_processor(r->model), bytes, trouble);
}

static void lay_out_parameters(struct gyre_replica *r)
{
    float *at = r->values;
    for (int p = 0; p < r->parameters; p++) {
        struct gyre_parameter *from = r->parameter[p];
        r->host_item[p] = (struct gyre_ddp_parameter){from->name, GYRE_F32, from->dims, {0}, at};
        for (int d = 0; d < from->dims; d++)
            r->host_item[p].shape[d] = from->shape[d];
        from->value = at;
        at += gyre_round_up(from->count, LINE / sizeof(float));
    }
}

static void lay_out_buffers(struct gyre_replica *r)
{
    uint8_t *at = r->running.host;
    for (int b = 0; b < r->buffers; b++) {
        struct gyre_running_buffer *from = r->buffer[b];
        r->host_item[r->parameters + b] = (struct gyre_ddp_parameter){
            from->name, from->whole ? GYRE_I64 : GYRE_F32, from->dims, {from->count}, at};
        from->value = at;
        at += gyre_round_up(buffer_bytes(from), LINE);
    }
}

int gyre_replica_init(struct gyre_replica *r, struct gyre_model *model,
                      const struct gyre_optimizer_settings *settings, struct gyre_trouble *trouble)
{
    *r = (struct gyre_replica){.model = model, .settings = *settings};
    gyre_scaler_init(&r->scaler, gyre_model_precision(model) == GYRE_PRECISION_F16);
    r->parameters = gyre_model_parameters(model, &r->parameter);
    r->buffers = gyre_model_buffers(model, &r->buffer);
    int status = allocate_values(r);
    if (status)
        return gyre_trouble_set(trouble, status, "no memory for the values of a network");
    lay_out_parameters(r);
    status = gyre_on_device_init(&r->device, model, r->host_item, trouble);
    if (!status)
        status = allocate_running(r, trouble);
    if (status)
        return status;
    lay_out_buffers(r);
    return gyre_loss_meter_init(&r->meter, gyre_model_processor(model), gyre_model_batch(model),
                                gyre_model_outputs(model), trouble);
}

void gyre_whole_states_free(struct gyre_whole_states *states)
{
    free(states->whole[0]);
    free(states->whole[1]);
    free(states->room);
    *states = (struct gyre_whole_states){0};
}

void gyre_replica_deinit(struct gyre_replica *r)
{
    gyre_repeat_deinit(&r->late.repeat);
    gyre_optimizer_destroy(r->optimizer);
    gyre_whole_states_free(&r->resumed);
    gyre_loss_meter_deinit(&r->meter);
    if (r->late.terms)
        r->device.on->table->free(r->device.on, r->late.terms);
    if (r->late.news)
        r->device.on->table->free(r->device.on, r->late.news);
    free(r->piece);
    free(r->stretch);
    gyre_ddp_destroy(r->ddp);
    gyre_on_device_deinit(&r->device);
    gyre_running_deinit(&r->running);
    gyre_model_destroy(r->model);
    free(r->host_item);
    free(r->unseen);
    free(r->values);
    *r = (struct gyre_replica){0};
}

/* -- the engine -------------------------------------------------------------------------------- */

void gyre_replica_bind(struct gyre_replica *r)
{
    r->comm = r->ddp ? gyre_ddp_comm(r->ddp) : r->comm;
    for (int p = 0; r->ddp && p < r->parameters; p++) {
        r->parameter[p]->value = gyre_ddp_value(r->ddp, p);
        r->parameter[p]->gradient = gyre_ddp_gradient(r->ddp, p);
        if (!r->device.on)
            r->host_item[p].value = r->parameter[p]->value;
    }
    for (int b = 0; b < r->buffers; b++)
        r->buffer[b]->value =
            gyre_running_place(&r->running, r->host_item[r->parameters + b].value);
    gyre_on_device_bind(&r->device);
}

static struct gyre_step_terms *make_terms(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    struct gyre_step_terms *terms = gyre_processor_told(r->device.on, sizeof *terms);
    return terms ? terms
                 : gyre_processor_alloc(r->device.on, sizeof *terms, trouble, "a step's terms");
}

/* Losses read their scale on the device, as graphs want it, also where steps end at once. */
static int expect_late(struct gyre_replica *r)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    if (!(r->late.wanted || r->late.repeats) || !r->device.on || r->late.news)
        return 0;
    r->late.news = gyre_processor_alloc(r->device.on, sizeof *r->late.news, trouble, "a verdict");
    if (!r->late.news)
        return -ENOMEM;
    r->meter.scale = &r->late.news->verdict.scale;
    if (r->late.wanted && !(r->late.terms = make_terms(r, trouble)))
        return -ENOMEM;
    return r->late.repeats ? gyre_repeat_init(&r->late.repeat, r->device.on, trouble) : 0;
}

/* The engine of values on the device, which it works in from here on. */
static int join_on_device(struct gyre_replica *r, struct gyre_ddp_options *options)
{
    struct gyre_ddp_parameter *there = calloc((size_t)r->parameters + 1, sizeof *there);
    struct gyre_processor *on = r->device.on;
    gyre_replica_bind(r);
    int status = there ? gyre_replica_values_written(r, gyre_thread_trouble()) : -ENOMEM;
    for (int p = 0; !status && p < r->parameters; p++) {
        there[p] = r->host_item[p];
        there[p].value = r->parameter[p]->value;
    }
    options->stream = on->table->stream(on);
    if (!status)
        status = gyre_ddp_create(&r->ddp, r->comm, there, r->parameters, options);
    r->device.joined = !status;
    free(there);
    if (!status)
        status = gyre_ddp_set_owner(r->ddp, on, r->late.repeats, gyre_thread_trouble());
    if (!status && r->late.terms)
        gyre_ddp_leave_found(r->ddp);
    return status;
}

static int join_on_host(struct gyre_replica *r, const struct gyre_ddp_options *options)
{
    int status = gyre_ddp_create(&r->ddp, r->comm, r->host_item, r->parameters, options);
    if (status || !options->sharded)
        return status;
    free(r->values); /* the engine has its own */
    r->values = NULL;
    return 0;
}

int gyre_replica_join(struct gyre_replica *r, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options)
{
    struct gyre_ddp_options all = *options;
    all.buffers = (struct gyre_ddp_buffers){r->host_item + r->parameters, r->buffers};
    all.norm |= r->scaler.enabled;
    r->comm = comm;
    r->sharded = options->sharded;
    int status = gyre_running_bring_home(&r->running, gyre_thread_trouble());
    if (!status)
        status = expect_late(r);
    if (!status)
        status = r->device.on ? join_on_device(r, &all) : join_on_host(r, &all);
    gyre_running_written(&r->running);
    if (!status)
        gyre_replica_bind(r);
    return status;
}

int gyre_replica_regroup(struct gyre_replica *r, struct gyre_comm *comm)
{
    r->comm = comm;
    gyre_repeat_forget(&r->late.repeat);
    int status = gyre_running_bring_home(&r->running, gyre_thread_trouble());
    if (!status)
        status = gyre_ddp_regroup(r->ddp, comm, NULL);
    gyre_running_written(&r->running);
    if (!status)
        gyre_replica_bind(r);
    return status;
}

int gyre_replica_values_home(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    return gyre_on_device_values_home(&r->device, trouble);
}

int gyre_replica_values_written(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    return gyre_on_device_values_there(&r->device, trouble);
}

static int place_of_parameter(const struct gyre_replica *r, const struct gyre_parameter *parameter)
{
    int i = r->parameters - 1;
    while (r->parameter[i] != parameter)
        i--;
    return i;
}

/* The engine's passes are on a stream of their own where there are several ranks. What is handed
 * over to them ends a part of a step that repeats. Looks, which are the replica's to ask for, wait
 * until then: a gradient that is ready stays what it is until its bucket starts. */
static bool hands_over(const struct gyre_replica *r)
{
    return r->device.on && r->ddp && gyre_size(r->comm) > 1;
}

static int look_at_unseen(struct gyre_replica *r)
{
    int status = 0;
    for (int k = 0; !status && k < r->unseen_count; k++)
        status = gyre_ddp_look_at(r->ddp, r->unseen[k]);
    r->unseen_count = 0;
    return status;
}

/* All launches of backward up to here are posted, then looks behind them. */
static int hand_gradients_over(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    int status = gyre_repeat_pause(&r->late.repeat, trouble);
    return status ? status : look_at_unseen(r);
}

static int tell_ready(struct gyre_replica *r, const struct gyre_parameter *parameter,
                      struct gyre_trouble *trouble)
{
    const int i = place_of_parameter(r, parameter);
    const bool two = hands_over(r), posts = two && gyre_ddp_posts(r->ddp, i);
    int status = 0;
    if ((r->looks && !parameter->bounded) || gyre_ddp_wants_look(r->ddp, i))
        r->unseen[r->unseen_count++] = i;
    if (posts)
        status = hand_gradients_over(r, trouble);
    else if (!two)
        status = look_at_unseen(r);
    if (!status)
        status = gyre_ddp_ready(r->ddp, i);
    if (!status && posts)
        gyre_repeat_resume(&r->late.repeat);
    return status;
}

/* -- passes ------------------------------------------------------------------------------------ */

/* The sums stay there, and the host waits for their samples alone. What follows has that number in
 * its launches. */
static int sum_on_device(struct gyre_replica *r, const struct gyre_pass_event *event,
                         struct gyre_trouble *trouble)
{
    const struct gyre_processor_table *table = r->device.on->table;
    double samples;
    int status = gyre_repeat_pause(&r->late.repeat, trouble);
    if (!status)
        status = gyre_all_reduce_on(r->comm, event->sum, event->sum, event->count, GYRE_F64,
                                    GYRE_SUM, table->stream(r->device.on));
    if (!status)
        status = gyre_model_learn_samples(r->model, &samples);
    if (status)
        return status;
    gyre_repeat_expect(&r->late.repeat, samples);
    gyre_repeat_resume(&r->late.repeat);
    return 0;
}

static int sum_over_ranks(struct gyre_replica *r, const struct gyre_pass_event *event,
                          struct gyre_trouble *trouble)
{
    return r->device.on
               ? sum_on_device(r, event, trouble)
               : gyre_all_reduce(r->comm, event->sum, event->sum, event->count, GYRE_F64, GYRE_SUM);
}

/* The rest of a pass that came to `status`. */
static int finish_pass(struct gyre_replica *r, int status, bool tells, struct gyre_trouble *trouble)
{
    while (status == GYRE_AGAIN) {
        const struct gyre_pass_event *event = gyre_model_event(r->model);
        if (event->sum)
            status = sum_over_ranks(r, event, trouble);
        else
            status = tells ? tell_ready(r, event->ready, trouble) : 0;
        if (!status)
            status = gyre_model_continue(r->model);
    }
    return status;
}

/* What the device's verdict begins with: loss scale, and updates that were made. It is told where a
 * checkpoint or another rank has changed it. */
static int bring_verdict(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    struct gyre_late *late = &r->late;
    const int64_t applied = r->optimizer ? r->optimizer->steps : r->resumed_steps;
    const struct gyre_verdict now = {.applied = (uint64_t)applied,
                                     .scale = gyre_scaler_scale(&r->scaler),
                                     .good = r->scaler.growth_tracker,
                                     .bad = -1};
    const bool judged = late->known.applied == now.applied && late->known.good == now.good;
    if (!late->news || late->sent != late->settled ||
        (late->known.scale == now.scale && (judged || !late->terms)))
        return 0;
    late->known = now;
    return r->device.on->table->put(r->device.on, &late->news->verdict, &now, sizeof now, trouble);
}

/* The model's forward, with all that it needs where it computes. */
static int pass_forward(struct gyre_replica *r, const float *x, size_t samples, bool train,
                        const float **outputs, struct gyre_trouble *trouble)
{
    if (r->device.on)
        gyre_replica_bind(r); /* also without an engine */
    int status = gyre_on_device_begin(&r->device, &x, samples, trouble);
    if (!status)
        status = gyre_running_bring_there(&r->running, trouble);
    if (train)
        gyre_running_changed(&r->running);
    if (!status)
        status = gyre_model_forward(r->model, x, samples, train, outputs, trouble);
    return finish_pass(r, status, false, trouble);
}

int gyre_replica_forward(struct gyre_replica *r, const float *x, size_t samples, bool train,
                         struct gyre_wanted wanted, struct gyre_trouble *trouble)
{
    const float factor = gyre_scaler_scale(&r->scaler);
    float *gradient = gyre_model_output_gradient(r->model);
    const float *outputs;
    int status = bring_verdict(r, trouble);
    if (!status)
        status = pass_forward(r, x, samples, train, &outputs, trouble);
    if (status)
        return status;
    if (wanted.labels)
        return gyre_loss_cross_entropy(&r->meter, outputs, wanted.labels, samples, factor, gradient,
                                       trouble);
    return gyre_loss_squared_error(&r->meter, outputs, wanted.targets, samples, factor, gradient,
                                   trouble);
}

int gyre_replica_predict(struct gyre_replica *r, const float *x, size_t samples,
                         const float **outputs, struct gyre_trouble *trouble)
{
    int status = pass_forward(r, x, samples, false, outputs, trouble);
    return status ? status : gyre_on_device_outputs(&r->device, outputs, samples, trouble);
}

int gyre_replica_take_loss(struct gyre_replica *r, struct gyre_loss *loss,
                           struct gyre_trouble *trouble)
{
    return gyre_loss_meter_take(&r->meter, loss, trouble);
}

void gyre_replica_clear_loss(struct gyre_replica *r)
{
    gyre_loss_meter_clear(&r->meter);
}

int gyre_replica_backward(struct gyre_replica *r, bool adds, bool tells,
                          struct gyre_trouble *trouble)
{
    r->unseen_count = 0; /* of a step that was given up */
    int status = finish_pass(r, gyre_model_backward(r->model, adds, trouble), tells, trouble);
    return status || !hands_over(r) ? status : hand_gradients_over(r, trouble);
}
