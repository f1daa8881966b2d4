/* Checkpoints of a training run. Rank 0 writes and reads; the others get what they need from it, so
 * no file system need be shared.
 *
 * The optimiser's state is stored as whole tensors named by parameter, so a run goes on with any
 * number of ranks, sharded or not: state.c. Tested by tests/program/train/resume.c. */
#include "train/inside.h"

#include "model/network/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACE_STEP,
    PLACE_EPOCH,
    PLACE_CURSOR,
    PLACE_UPDATES,
    PLACE_TALLY_STEPS,
    PLACE_GROWTH,
    PLACES
};
enum { REAL_LOSS, REAL_RIGHT, REAL_SAMPLES, REAL_SCALE, REALS };

static const char *const place_names[PLACES] = {
    "step", "epoch", "cursor", "optimizer.step", "epoch.steps", "scaler._growth_tracker"};
static const char wire_scale_name[] = "wire.scale"; /* only with halves on the wire */
static const char *const real_names[REALS] = {"epoch.loss", "epoch.right", "epoch.samples",
                                              "scaler.scale"};

static int no_memory_to_save(struct gyre_train *t)
{
    return gyre_trouble_set(t->trouble, -ENOMEM, "rank %d: no memory for a checkpoint", t->rank);
}

/* -- lists of tensors -------------------------------------------------------------------------- */

/* Tensors, and the shapes and names that they point to. */
struct roll {
    struct gyre_stored_tensor *tensor;
    uint64_t (*shape)[4];
    char (*name)[128];
    uint64_t count;
};

static int roll_make(struct gyre_train *t, struct roll *roll, int most)
{
    size_t room = (size_t)most + 1;
    *roll = (struct roll){.tensor = calloc(room, sizeof *roll->tensor),
                          .shape = calloc(room, sizeof *roll->shape),
                          .name = calloc(room, sizeof *roll->name)};
    return roll->tensor && roll->shape && roll->name ? 0 : no_memory_to_save(t);
}

static void roll_free(struct roll *roll)
{
    free(roll->tensor);
    free(roll->shape);
    free(roll->name);
}

static void roll_parameter(struct roll *roll, const char *before,
                           const struct gyre_parameter *parameter, const float *data)
{
    uint64_t k = roll->count++;
    snprintf(roll->name[k], sizeof roll->name[k], "%s%s", before, parameter->name);
    for (int d = 0; d < parameter->dims; d++)
        roll->shape[k][d] = parameter->shape[d];
    roll->tensor[k] = (struct gyre_stored_tensor){.name = roll->name[k],
                                                  .type = GYRE_STORED_F32,
                                                  .dims = (uint32_t)parameter->dims,
                                                  .shape = roll->shape[k],
                                                  .data = data};
}

/* What PyTorch's state_dict has. */
static int roll_model(struct gyre_train *t, struct roll *roll)
{
    int tensors = t->replica.parameters + t->replica.buffers;
    int status = roll_make(t, roll, tensors);
    if (status)
        return status;
    gyre_replica_list(&t->replica, roll->tensor);
    roll->count = (uint64_t)tensors;
    return 0;
}

/* -- saving ------------------------------------------------------------------------------------ */

static void take_places(const struct gyre_train *t, int64_t *place, double *real)
{
    place[PLACE_STEP] = (int64_t)t->step;
    place[PLACE_EPOCH] = (int64_t)t->epoch;
    place[PLACE_CURSOR] = (int64_t)t->cursor;
    place[PLACE_UPDATES] = t->replica.optimizer->steps;
    place[PLACE_TALLY_STEPS] = (int64_t)t->tally.steps;
    place[PLACE_GROWTH] = t->scaler.growth_tracker;
    real[REAL_LOSS] = t->tally.loss;
    real[REAL_RIGHT] = t->tally.right;
    real[REAL_SAMPLES] = t->tally.samples;
    real[REAL_SCALE] = (double)t->scaler.scale;
}

/* What cannot be used shall not take the place of what can. */
static int refuse_nonfinite(struct gyre_train *t)
{
    for (int i = 0; i < t->replica.parameters; i++)
        if (!gyre_ops()->is_finite(t->replica.parameter[i]->value, t->replica.parameter[i]->count))
            return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                    "step %llu: '%s' holds a NaN or an infinity and is not saved; "
                                    "what %s held before is there still: lower --lr, or set --clip",
                                    (unsigned long long)t->step, t->replica.parameter[i]->name,
                                    t->options->save);
    return 0;
}

static void roll_feedback(const struct gyre_train *t, struct roll *roll, const float *all)
{
    for (int i = 0; i < t->replica.parameters; i++) {
        uint64_t k = roll->count++;
        snprintf(roll->name[k], sizeof roll->name[k], "wire.feedback.%s",
                 t->replica.parameter[i]->name);
        roll->shape[k][0] = (uint64_t)t->n;
        roll->shape[k][1] = t->replica.parameter[i]->count;
        roll->tensor[k] = (struct gyre_stored_tensor){.name = roll->name[k],
                                                      .type = GYRE_STORED_F32,
                                                      .dims = 2,
                                                      .shape = roll->shape[k],
                                                      .data = all};
        all = all ? all + (uint64_t)t->n * t->replica.parameter[i]->count : NULL;
    }
}

static int write_generation(struct gyre_train *t, float *const *full, const float *feedback)
{
    const double scale = gyre_ddp_wire_scale(t->replica.ddp);
    int64_t place[PLACES];
    double real[REALS];
    struct roll model = {0}, training = {0};
    take_places(t, place, real);
    int status = refuse_nonfinite(t);
    if (!status)
        status = roll_model(t, &model);
    if (!status)
        status = roll_make(t, &training, 3 * t->replica.parameters + PLACES + REALS + 1);
    for (int s = 0; !status && s < t->replica.optimizer->states; s++) {
        char before[64];
        const float *data = full[s];
        snprintf(before, sizeof before, "optimizer.%s.", t->replica.optimizer->state_name[s]);
        for (int i = 0; i < t->replica.parameters; data += t->replica.parameter[i++]->count)
            roll_parameter(&training, before, t->replica.parameter[i], data);
    }
    for (int i = 0; !status && i < PLACES; i++)
        training.tensor[training.count++] = gyre_checkpoint_whole(place_names[i], &place[i]);
    for (int i = 0; !status && i < REALS; i++)
        training.tensor[training.count++] = gyre_checkpoint_real(real_names[i], &real[i]);
    if (!status && feedback) {
        training.tensor[training.count++] = gyre_checkpoint_real(wire_scale_name, &scale);
        roll_feedback(t, &training, feedback);
    }
    struct gyre_run_settings words;
    gyre_train_take_settings(t, &words);
    struct gyre_checkpoint_content content = {
        .step = t->step,
        .world = (uint64_t)t->n,
        .text = words.text,
        .texts = words.count,
        .part = {{model.tensor, model.count}, {training.tensor, training.count}}};
    if (!status)
        status = gyre_checkpoint_save(t->options->save, &content, (uint64_t)t->options->keep,
                                      t->trouble);
    roll_free(&model);
    roll_free(&training);
    return status;
}

int gyre_train_save(struct gyre_train *t)
{
    float *full[2] = {NULL, NULL}, *feedback = NULL;
    int status = t->replica.optimizer ? 0 : gyre_train_make_optimizer(t);
    if (!status)
        status = gyre_train_collect_states(t, full);
    if (!status)
        status = gyre_train_collect_feedback(t, &feedback);
    if (!status)
        status = gyre_train_agree(t, t->rank ? 0 : write_generation(t, full, feedback));
    free(full[0]);
    free(full[1]);
    free(feedback);
    return status;
}

/* -- reading ----------------------------------------------------------------------------------- */

static int read_model(struct gyre_train *t, struct gyre_checkpoint *checkpoint)
{
    struct roll model = {0};
    const void *data;
    int status = roll_model(t, &model);
    struct gyre_checkpoint_list list = {model.tensor, model.count};
    if (!status)
        status = gyre_checkpoint_expect_model(checkpoint, &list, t->trouble);
    for (uint64_t k = 0; !status && k < model.count; k++) {
        uint64_t bytes = 0;
        status = gyre_checkpoint_find(checkpoint, GYRE_CHECKPOINT_MODEL, &model.tensor[k], &data,
                                      t->trouble);
        if (!status)
            status = gyre_stored_size(model.tensor[k].type, model.tensor[k].shape,
                                      model.tensor[k].dims, NULL, &bytes);
        if (!status)
            memcpy((void *)(uintptr_t)model.tensor[k].data, data, bytes);
    }
    roll_free(&model);
    return status;
}

static int read_state(struct gyre_train *t, struct gyre_checkpoint *checkpoint, const char *name,
                      float *full)
{
    struct roll one = {0};
    const void *data;
    char before[64];
    int status = roll_make(t, &one, 1);
    snprintf(before, sizeof before, "optimizer.%s.", name);
    for (int i = 0; !status && i < t->replica.parameters;
         full += t->replica.parameter[i++]->count) {
        one.count = 0;
        roll_parameter(&one, before, t->replica.parameter[i], NULL);
        status = gyre_checkpoint_find(checkpoint, GYRE_CHECKPOINT_TRAINING, &one.tensor[0], &data,
                                      t->trouble);
        if (!status)
            memcpy(full, data, t->replica.parameter[i]->count * sizeof(float));
    }
    roll_free(&one);
    return status;
}

/* Of as many ranks; otherwise it begins at zero. */
static int read_feedback(struct gyre_train *t, struct gyre_checkpoint *checkpoint)
{
    const struct gyre_safetensors *file =
        gyre_checkpoint_file(checkpoint, GYRE_CHECKPOINT_TRAINING);
    uint64_t n = (uint64_t)t->n;
    struct roll all = {0};
    const void *data;
    if (!t->options->wire || gyre_checkpoint_world(checkpoint) != n ||
        !gyre_safetensors_find(file, wire_scale_name))
        return 0;
    int status = roll_make(t, &all, t->replica.parameters);
    float *to = t->resumed.feedback =
        malloc((gyre_train_elements(t, t->replica.parameters) * n + 1) * sizeof(float));
    if (!status && !to)
        status = no_memory_to_save(t);
    if (!status)
        roll_feedback(t, &all, NULL);
    for (int i = 0; !status && i < t->replica.parameters;
         to += n * t->replica.parameter[i++]->count) {
        status = gyre_checkpoint_find(checkpoint, GYRE_CHECKPOINT_TRAINING, &all.tensor[i], &data,
                                      t->trouble);
        if (!status)
            memcpy(to, data, n * t->replica.parameter[i]->count * sizeof(float));
    }
    roll_free(&all);
    if (!status)
        status = gyre_checkpoint_get_real(checkpoint, wire_scale_name, &t->resumed.wire_scale,
                                          t->trouble);
    return status;
}

/* The states of the optimiser that was asked for. */
static int state_names(const struct gyre_train_options *o, const char **names)
{
    const struct gyre_optimizer_settings settings = gyre_train_optimizer_settings(o);
    return gyre_optimizer_states(&settings, names);
}

static int read_numbers(struct gyre_train *t, struct gyre_checkpoint *checkpoint, int64_t *place,
                        double *real)
{
    int status = 0;
    for (int i = 0; !status && i < PLACES; i++)
        status = gyre_checkpoint_get_whole(checkpoint, place_names[i], &place[i], t->trouble);
    for (int i = 0; !status && i < REALS; i++)
        status = gyre_checkpoint_get_real(checkpoint, real_names[i], &real[i], t->trouble);
    if (!status && (place[PLACE_STEP] < 0 || place[PLACE_EPOCH] < 0 || place[PLACE_CURSOR] < 0 ||
                    (uint64_t)place[PLACE_CURSOR] > t->data.samples))
        status = gyre_trouble_set(
            t->trouble, GYRE_INVALID,
            "%s: stands at sample %lld of epoch %lld, but %s has %llu samples", t->options->save,
            (long long)place[PLACE_CURSOR], (long long)place[PLACE_EPOCH], t->options->data,
            (unsigned long long)t->data.samples);
    return status;
}

/* Rank 0. *found: is there a checkpoint at all? */
static int read_generation(struct gyre_train *t, int64_t *place, double *real, bool *found)
{
    struct gyre_checkpoint *checkpoint;
    const char *names[2];
    int states = state_names(t->options, names);
    int status = gyre_checkpoint_open(&checkpoint, t->options->save, NULL, t->trouble);
    *found = status != -ENOENT;
    if (status == -ENOENT) {
        *t->trouble = (struct gyre_trouble){0};
        return 0;
    }
    if (!status)
        status = gyre_train_compare_settings(t, checkpoint);
    if (!status)
        status = read_numbers(t, checkpoint, place, real);
    if (!status)
        status = read_model(t, checkpoint);
    for (int s = 0; !status && s < states; s++)
        status = read_state(t, checkpoint, names[s], t->resumed.full[s]);
    if (!status)
        status = read_feedback(t, checkpoint);
    if (!status)
        status = gyre_train_resume_shares(t, gyre_checkpoint_text(checkpoint, "shares"));
    gyre_checkpoint_close(checkpoint);
    return status;
}

static void set_places(struct gyre_train *t, const int64_t *place, const double *real)
{
    t->step = (uint64_t)place[PLACE_STEP];
    t->epoch = (uint64_t)place[PLACE_EPOCH];
    t->cursor = (uint64_t)place[PLACE_CURSOR];
    t->resumed.given = true;
    t->resumed.steps = place[PLACE_UPDATES];
    t->tally.steps = (uint64_t)place[PLACE_TALLY_STEPS];
    t->tally.loss = real[REAL_LOSS];
    t->tally.right = real[REAL_RIGHT];
    t->tally.samples = real[REAL_SAMPLES];
    if (t->scaler.enabled) {
        t->scaler.scale = (float)real[REAL_SCALE];
        t->scaler.growth_tracker = (int32_t)place[PLACE_GROWTH];
    }
}

int gyre_train_resume(struct gyre_train *t)
{
    int64_t place[PLACES + 1] = {0};
    double real[REALS] = {0};
    const char *names[2];
    int states = state_names(t->options, names), status = 0;
    bool found = false;
    for (int s = 0; !status && !t->rank && s < states; s++) {
        t->resumed.full[s] =
            calloc(gyre_train_elements(t, t->replica.parameters) + 1, sizeof(float));
        status = t->resumed.full[s] ? 0 : no_memory_to_save(t);
    }
    if (!status && !t->rank)
        status = read_generation(t, place, real, &found);
    status = gyre_train_agree(t, status);
    place[PLACES] = found;
    if (!status)
        status = gyre_broadcast(t->comm, place, place, PLACES + 1, GYRE_I64, 0);
    if (!status)
        status = gyre_broadcast(t->comm, real, real, REALS, GYRE_F64, 0);
    if (!status && place[PLACES])
        set_places(t, place, real);
    return status;
}

/* -- weights to start from --------------------------------------------------------------------- */

static int take_tensor(struct gyre_train *t, const struct gyre_safetensors *file,
                       const struct gyre_stored_tensor *want)
{
    const struct gyre_stored_tensor *got = gyre_safetensors_find(file, want->name);
    const char *path = t->options->init;
    if (!got)
        return gyre_trouble_set(t->trouble, GYRE_INVALID, "%s: has no tensor '%s'", path,
                                want->name);
    bool same = got->type == want->type && got->dims == want->dims;
    for (uint32_t d = 0; same && d < want->dims; d++)
        same = got->shape[d] == want->shape[d];
    if (!same)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "%s: '%s' has another shape or type than the model's", path,
                                want->name);
    memcpy((void *)(uintptr_t)want->data, got->data, got->bytes);
    return 0;
}

int gyre_train_load_init(struct gyre_train *t)
{
    struct gyre_safetensors *file = NULL;
    struct roll model = {0};
    int status = gyre_safetensors_open(&file, t->options->init, t->trouble);
    if (!status)
        status = roll_model(t, &model);
    for (uint64_t k = 0; !status && k < model.count; k++)
        status = take_tensor(t, file, &model.tensor[k]);
    roll_free(&model);
    gyre_safetensors_close(file);
    return status;
}
