/* A small model and its optimizer whose every number follows from a seed, saved and looked for. */
#ifndef GYRE_TESTS_RIG_CHECKPOINT_RIG_H
#define GYRE_TESTS_RIG_CHECKPOINT_RIG_H

#include "rig/file_room.h"

#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

struct rig_state {
    float weight[6], bias[2], m[6], v[6];
    int64_t counter, step, cursor;
    double scale;
};

static inline struct rig_state rig_state_of(uint64_t seed)
{
    struct rig_state state;
    memset(&state, 0, sizeof state);
    for (int i = 0; i < 6; i++) {
        state.weight[i] = (float)seed + 0.1f * (float)i;
        state.m[i] = 1e-30f * state.weight[i];
        state.v[i] = -state.weight[i];
    }
    state.bias[0] = (float)seed;
    state.bias[1] = -0.0f;
    state.counter = (int64_t)(seed << 40);
    state.step = (int64_t)seed;
    state.cursor = -(int64_t)seed;
    state.scale = 65536.5 + (double)seed;
    return state;
}

enum { RIG_MODEL = 3, RIG_TRAINING = 5 };

struct rig_lists {
    struct gyre_stored_tensor model[RIG_MODEL], training[RIG_TRAINING];
};

static inline struct rig_lists rig_lists_of(const struct rig_state *state)
{
    static const uint64_t matrix[] = {2, 3}, vector[] = {2};
    return (struct rig_lists){
        .model = {{"0.weight", GYRE_STORED_F32, 2, matrix, state->weight, 0},
                  {"0.bias", GYRE_STORED_F32, 1, vector, state->bias, 0},
                  {"1.num_batches_tracked", GYRE_STORED_I64, 0, matrix, &state->counter, 0}},
        .training = {{"optimizer.m.0.weight", GYRE_STORED_F32, 2, matrix, state->m, 0},
                     {"optimizer.v.0.weight", GYRE_STORED_F32, 2, matrix, state->v, 0},
                     gyre_generation_whole("step", &state->step),
                     gyre_generation_whole("sampler.cursor", &state->cursor),
                     gyre_generation_real("scaler.scale", &state->scale)},
    };
}

/* The seed is the text "seed" too, so the generation itself tells what it should hold. */
static inline int rig_save_seed(const char *folder, uint64_t step, uint64_t seed, uint64_t keep,
                                struct gyre_trouble *trouble)
{
    char text[24];
    struct rig_state state = rig_state_of(seed);
    struct rig_lists lists = rig_lists_of(&state);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    const struct gyre_stored_text texts[] = {{"seed", text}, {"run \"é\"\n", ""}};
    const struct gyre_generation_content content = {
        .step = step,
        .world = 4,
        .part = {{lists.model, RIG_MODEL}, {lists.training, RIG_TRAINING}},
        .text = texts,
        .texts = 2};
    return gyre_generation_save(folder, &content, keep, trouble);
}

static inline int rig_save(const char *folder, uint64_t step, struct gyre_trouble *trouble)
{
    return rig_save_seed(folder, step, step, GYRE_GENERATION_KEEP, trouble);
}

static inline bool rig_part_holds(const struct gyre_generation *checkpoint,
                                  enum gyre_generation_part part,
                                  const struct gyre_stored_tensor *tensor, int count)
{
    for (int i = 0; i < count; i++) {
        const void *data;
        uint64_t bytes;
        gyre_stored_size(tensor[i].type, tensor[i].shape, tensor[i].dims, NULL, &bytes);
        if (gyre_generation_find(checkpoint, part, &tensor[i], &data, NULL) ||
            memcmp(data, tensor[i].data, bytes) != 0)
            return false;
    }
    return true;
}

/* Every tensor has the bits that the seed makes. */
static inline bool rig_holds(const struct gyre_generation *checkpoint, uint64_t seed)
{
    struct rig_state state = rig_state_of(seed);
    struct rig_lists lists = rig_lists_of(&state);
    return rig_part_holds(checkpoint, GYRE_GENERATION_MODEL, lists.model, RIG_MODEL) &&
           rig_part_holds(checkpoint, GYRE_GENERATION_TRAINING, lists.training, RIG_TRAINING);
}

static inline int rig_count(const char *folder)
{
    DIR *entries = opendir(folder);
    int count = entries ? -2 : 0; /* "." and ".." */
    while (entries && readdir(entries))
        count++;
    if (entries)
        closedir(entries);
    return count;
}

#endif
