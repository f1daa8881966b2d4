/* gyre/checkpoint.h with real ranks: a training that is saved and loaded ends with the bits of one
 * in one go, for networks of every kind and for a model of the caller's own. Another number of
 * ranks goes on from the same weights. */
#include "program/ddp/checkpoint_run.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include "checkpoint/run/run.h"

#include <math.h>
#include <stdlib.h>

#define WHOLE 9 /* steps, beyond the end of an epoch */
#define SAVED 4

/* -- networks ---------------------------------------------------------------------------------- */

static int train_whole(struct gyre_comm *comm, const struct run_kind *kind, float *saved,
                       float *values)
{
    struct run run;
    int failed = run_open(&run, comm, kind, 1) || run_steps(&run, SAVED);
    if (!failed)
        run_values(&run, saved);
    failed = failed || run_steps(&run, WHOLE - SAVED);
    if (!failed)
        run_values(&run, values);
    run_close(&run);
    return failed;
}

static int save_part(struct gyre_comm *comm, const struct run_kind *kind, const char *folder)
{
    struct run run;
    int failed = run_open(&run, comm, kind, 1) || run_steps(&run, SAVED) ||
                 run_save(&run, comm, folder) || run_step(&run); /* which must leave no trace */
    run_close(&run);
    return failed;
}

static int load_rest(struct gyre_comm *comm, const struct run_kind *kind, const char *folder,
                     float *loaded, float *values)
{
    struct run run;
    int failed = run_open(&run, comm, kind, 2) || run_load(&run, comm, folder);
    failed = failed || rig_check(run.step == SAVED, comm, "the step") ||
             rig_check(gyre_checkpoint_world(run.checkpoint) > 0, comm, "the world");
    if (!failed)
        run_values(&run, loaded);
    failed = failed || run_steps(&run, WHOLE - SAVED);
    if (!failed)
        run_values(&run, values);
    run_close(&run);
    return failed;
}

static int are_near(const float *a, const float *b)
{
    for (int i = 0; i < RUN_VALUES; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f))
            return 0;
    return 1;
}

/* What other ranks lost on the way is nobody's. */
static int has_no_feedback(struct run *run)
{
    const float *feedback = gyre_ddp_feedback(run->ddp, 0);
    for (int i = 0; feedback && i < RUN_FEATURES * 8; i++)
        if (feedback[i] != 0)
            return 0;
    return 1;
}

static int fewer_load(struct gyre_comm *part, const struct run_kind *kind, const char *folder)
{
    struct run run;
    int failed = run_open(&run, part, kind, 3) || run_load(&run, part, folder) ||
                 rig_check(has_no_feedback(&run), part, "took the feedback of other ranks");
    run_close(&run);
    return failed;
}

/* All but the last rank. */
static int go_on_with_fewer(struct gyre_comm *comm, const struct run_kind *kind, const char *folder,
                            const float *saved, const float *whole)
{
    const int last = gyre_rank(comm) == gyre_size(comm) - 1;
    float loaded[RUN_VALUES], values[RUN_VALUES];
    struct gyre_comm *part;
    int failed = rig_check(gyre_split(comm, last ? -1 : 0, 0, &part) == 0, comm, "split");
    if (failed || last)
        return failed;
    failed =
        fewer_load(part, kind, folder) || load_rest(part, kind, folder, loaded, values) ||
        rig_check(!memcmp(loaded, saved, sizeof loaded), part, "fewer ranks load other bits") ||
        rig_check(kind->precision != GYRE_F32 || kind->wire || are_near(values, whole), part,
                  "fewer ranks end elsewhere");
    return gyre_finalize(part) || failed;
}

static int goes_on(struct gyre_comm *comm, struct rig *rig)
{
    const struct run_kind *kind = rig->argument;
    float saved[RUN_VALUES], whole[RUN_VALUES], loaded[RUN_VALUES], parts[RUN_VALUES];
    const char *folder = file_room_name("run");
    int failed = train_whole(comm, kind, saved, whole) || save_part(comm, kind, folder) ||
                 load_rest(comm, kind, folder, loaded, parts) ||
                 rig_check(!memcmp(loaded, saved, sizeof loaded), comm, "loaded other bits") ||
                 rig_check(!memcmp(parts, whole, sizeof parts), comm, "ended with other bits") ||
                 (gyre_size(comm) > 1 && go_on_with_fewer(comm, kind, folder, saved, whole));
    return gyre_finalize(comm) || failed;
}

static void clean_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s/*", file_room);
    assert_int_equal(system(command), 0);
}

static void with_ranks(int n, const char *transport, int per_node, struct run_kind kind)
{
    struct rig rig = {
        .n = n, .transport = transport, .per_node = per_node, .body = goes_on, .argument = &kind};
    clean_folder();
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void a_network_goes_on_bit_for_bit(void **state)
{
    struct run_kind kind = RUN_KIND_INIT;
    (void)state;
    with_ranks(1, "auto", 0, kind);
    with_ranks(2, "auto", 0, kind);
    with_ranks(3, "auto", 0, kind);
    with_ranks(3, "tcp", 2, kind);
}

static void an_optimiser_of_every_kind_goes_on(void **state)
{
    struct run_kind kind = RUN_KIND_INIT;
    (void)state;
    kind.method = GYRE_NETWORK_SGD;
    with_ranks(2, "auto", 0, kind);
    kind.method = GYRE_NETWORK_ADAMW;
    kind.sharded = 1;
    with_ranks(2, "auto", 0, kind);
    with_ranks(3, "auto", 0, kind);
}

static void halves_go_on(void **state)
{
    struct run_kind kind = RUN_KIND_INIT;
    (void)state;
    kind.precision = GYRE_F16;
    with_ranks(2, "auto", 0, kind);
    kind.precision = GYRE_BF16;
    kind.wire = GYRE_DDP_WIRE_BF16;
    with_ranks(3, "auto", 0, kind);
    kind.wire = GYRE_DDP_WIRE_F16;
    kind.sharded = 1;
    with_ranks(2, "auto", 0, kind);
}

/* -- at other moments -------------------------------------------------------------------------- */

/* The same objects, taken back: what the optimiser had of later steps is gone. */
static int goes_back(struct gyre_comm *comm, struct rig *rig)
{
    const struct run_kind *kind = rig->argument;
    float whole[RUN_VALUES], again[RUN_VALUES];
    const char *folder = file_room_name("run");
    struct run run;
    int failed = run_open(&run, comm, kind, 1) || run_steps(&run, SAVED) ||
                 run_save(&run, comm, folder) || run_steps(&run, WHOLE - SAVED);
    if (!failed)
        run_values(&run, whole);
    failed = failed || gyre_network_learn_classes(run.net, NULL, 0, NULL) ||
             gyre_ddp_wait(run.ddp) || run_load(&run, comm, folder) ||
             rig_check(gyre_network_update(run.net, 1) == GYRE_INVALID, comm,
                       "a step from before the load was applied") ||
             run_steps(&run, WHOLE - SAVED);
    if (!failed)
        run_values(&run, again);
    failed = failed || rig_check(!memcmp(whole, again, sizeof whole), comm, "went elsewhere");
    run_close(&run);
    return gyre_finalize(comm) || failed;
}

static void a_run_goes_back(void **state)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct rig rig = {.n = 2, .body = goes_back, .argument = &kind};
    (void)state;
    for (kind.sharded = 0; kind.sharded < 2; kind.sharded++) {
        clean_folder();
        assert_int_equal(rig_run(&rig, 60), 0);
    }
}

static int same_files(const char *a, const char *b)
{
    static char one[1 << 16], two[1 << 16];
    char path[600];
    snprintf(path, sizeof path, "%s", file_room_name(a));
    size_t length = file_room_read(path, one, sizeof one);
    return length && length == file_room_read(file_room_name(b), two, sizeof two) &&
           !memcmp(one, two, length);
}

/* Saved again before a step has made the optimiser, and before the first step of all. */
static int saves_what_it_loaded(struct gyre_comm *comm, struct rig *rig)
{
    const struct run_kind *kind = rig->argument;
    char first[256], second[256];
    struct run run;
    snprintf(first, sizeof first, "%s", file_room_name("first"));
    snprintf(second, sizeof second, "%s", file_room_name("second"));
    int failed = run_open(&run, comm, kind, 1) || run_save(&run, comm, first) ||
                 run_steps(&run, SAVED) || run_save(&run, comm, first);
    run_close(&run);
    failed = failed || run_open(&run, comm, kind, 2) || run_load(&run, comm, first) ||
             run_save(&run, comm, second) ||
             (gyre_rank(comm) == 0 &&
              rig_check(same_files("first/step-00000004/training.safetensors",
                                   "second/step-00000004/training.safetensors") &&
                            same_files("first/step-00000004/manifest.json",
                                       "second/step-00000004/manifest.json"),
                        comm, "another checkpoint"));
    run_close(&run);
    return gyre_finalize(comm) || failed;
}

static void what_is_loaded_is_saved_again(void **state)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct rig rig = {.n = 2, .body = saves_what_it_loaded, .argument = &kind};
    (void)state;
    kind.precision = GYRE_F16; /* good steps are counted */
    clean_folder();
    assert_int_equal(rig_run(&rig, 60), 0);
    kind.sharded = 1;
    kind.wire = GYRE_DDP_WIRE_BF16;
    clean_folder();
    assert_int_equal(rig_run(&rig, 60), 0);
}

/* -- a model of the caller's own --------------------------------------------------------------- */

struct own {
    double curve[2], offset; /* trained */
    double momentum[3];      /* of the caller's optimiser */
    uint64_t random[2];      /* of each rank */
    int64_t steps;
    double best;
    struct gyre_ddp *ddp;
    struct gyre_checkpoint *checkpoint;
};

static int own_open(struct own *own, struct gyre_comm *comm)
{
    const struct gyre_ddp_parameter parameter[] = {{"curve", GYRE_F64, 1, {2}, own->curve},
                                                   {"offset", GYRE_F64, 0, {0}, &own->offset}};
    const struct gyre_ddp_parameter momentum = {"momentum", GYRE_F64, 1, {3}, own->momentum};
    const struct gyre_ddp_parameter random = {"random", GYRE_U64, 1, {2}, own->random};
    *own = (struct own){.best = 1e9, .random = {7 + (uint64_t)gyre_rank(comm), 1}};
    int status = gyre_ddp_create(&own->ddp, comm, parameter, 2, NULL);
    if (!status)
        status = gyre_checkpoint_create(&own->checkpoint, comm, NULL);
    struct gyre_checkpoint *c = own->checkpoint;
    if (!status)
        status = gyre_checkpoint_add_ddp(c, own->ddp);
    if (!status)
        status = gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_TRAINING, &momentum, 1);
    if (!status)
        status = gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_RANKS, &random, 1);
    if (!status)
        status = gyre_checkpoint_add_i64(c, "steps", &own->steps);
    if (!status)
        status = gyre_checkpoint_add_f64(c, "best", &own->best);
    if (!status)
        status = gyre_checkpoint_add_text(c, "data", "made up, 1");
    return run_told(status, "own model");
}

static void own_close(struct own *own)
{
    gyre_checkpoint_destroy(own->checkpoint);
    gyre_ddp_destroy(own->ddp);
}

static int own_step(struct own *own)
{
    int status = gyre_ddp_begin(own->ddp, 1);
    double *curve = gyre_ddp_gradient(own->ddp, 0), *offset = gyre_ddp_gradient(own->ddp, 1);
    own->random[0] = own->random[0] * 6364136223846793005u + 1442695040888963407u;
    double t = (double)(own->random[0] >> 32) * 0x1p-32;
    double error = own->curve[0] * t + own->curve[1] * t * t + own->offset - sin(t);
    curve[0] = 2 * error * t;
    curve[1] = 2 * error * t * t;
    *offset = 2 * error;
    own->best = error * error < own->best ? error * error : own->best; /* of this rank: rank 0's */
    if (!status)
        status = gyre_ddp_ready(own->ddp, 1);
    if (!status)
        status = gyre_ddp_ready(own->ddp, 0);
    if (!status)
        status = gyre_ddp_wait(own->ddp);
    const double *gradient[3] = {gyre_ddp_gradient(own->ddp, 0), NULL,
                                 gyre_ddp_gradient(own->ddp, 1)};
    gradient[1] = gradient[0] + 1;
    for (int i = 0; !status && i < 3; i++) {
        own->momentum[i] = 0.9 * own->momentum[i] + *gradient[i];
        *(i < 2 ? &own->curve[i] : &own->offset) -= 0.05 * own->momentum[i];
    }
    own->steps++;
    return run_told(status, "own step");
}

static int own_steps(struct own *own, int steps)
{
    int status = 0;
    while (!status && steps-- > 0)
        status = own_step(own);
    return status;
}

/* What was trained, up to the optimiser's momentum. */
static int same_training(const struct own *a, const struct own *b)
{
    return !memcmp(a, b, offsetof(struct own, random)) && a->steps == b->steps;
}

static int own_with_fewer(struct gyre_comm *comm, const char *folder, const struct own *saved)
{
    const int last = gyre_rank(comm) == gyre_size(comm) - 1;
    struct gyre_comm *part;
    struct own own;
    uint64_t step = 0;
    int failed = rig_check(gyre_split(comm, last ? -1 : 0, 0, &part) == 0, comm, "split");
    if (failed || last)
        return failed;
    failed = own_open(&own, part) || gyre_checkpoint_load(own.checkpoint, folder, &step) ||
             rig_check(same_training(&own, saved), part, "fewer ranks load otherwise") ||
             rig_check(own.random[0] == 7 + (uint64_t)gyre_rank(part), part,
                       "what is each rank's own was given to others") ||
             rig_check(gyre_checkpoint_world(own.checkpoint) == gyre_size(comm), part, "world");
    own_close(&own);
    return gyre_finalize(part) || failed;
}

static int own_goes_on(struct gyre_comm *comm, struct rig *rig)
{
    struct own whole, saved, parts;
    const char *folder = file_room_name("own");
    uint64_t step = 0;
    int failed = own_open(&whole, comm) || own_steps(&whole, WHOLE);
    failed = failed || own_open(&saved, comm) || own_steps(&saved, SAVED) ||
             run_told(gyre_checkpoint_save(saved.checkpoint, folder, SAVED), "save");
    failed = failed || own_open(&parts, comm) ||
             run_told(gyre_checkpoint_load(parts.checkpoint, folder, &step), "load") ||
             rig_check(step == SAVED && same_training(&parts, &saved), comm, "loaded otherwise") ||
             own_steps(&parts, WHOLE - SAVED) ||
             rig_check(same_training(&parts, &whole), comm, "ended otherwise") ||
             rig_check(parts.random[0] == whole.random[0], comm, "other random numbers") ||
             rig_check(gyre_rank(comm) || parts.best == whole.best, comm, "another best") ||
             (gyre_size(comm) > 1 && own_with_fewer(comm, folder, &saved));
    own_close(&whole);
    own_close(&saved);
    own_close(&parts);
    return gyre_finalize(comm) || failed;
}

static void an_own_model_goes_on(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        clean_folder();
        assert_int_equal(rig_run(&(struct rig){.n = n, .body = own_goes_on}, 60), 0);
    }
}

/* -- older generations ------------------------------------------------------------------------- */

/* A number that a program of today adds, and one that its checkpoints always had. */
static int loads_an_older_one(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_checkpoint *old = NULL, *now = NULL;
    double late = gyre_rank(comm) ? 0 : 5;
    int64_t saved = 7, loaded = 0;
    uint64_t step;
    int failed = gyre_checkpoint_create(&old, comm, NULL) ||
                 gyre_checkpoint_add_i64(old, "number", &saved) ||
                 run_told(gyre_checkpoint_save(old, file_room_name("old"), 1), "save") ||
                 gyre_checkpoint_create(&now, comm, NULL) ||
                 gyre_checkpoint_add_i64(now, "number", &loaded) ||
                 gyre_checkpoint_add_f64(now, "late", &late) ||
                 rig_check(gyre_checkpoint_load(now, file_room_name("old"), &step) == GYRE_INVALID,
                           comm, "loaded without what was not allowed to be missing");
    gyre_run_allow_missing(now);
    failed = failed || run_told(gyre_checkpoint_load(now, file_room_name("old"), &step), "load") ||
             rig_check(loaded == 7, comm, "the number") ||
             rig_check(late == 5, comm, "what is missing is not rank 0's");
    gyre_checkpoint_destroy(old);
    gyre_checkpoint_destroy(now);
    return gyre_finalize(comm) || failed;
}

static void what_may_be_missing_stays(void **state)
{
    (void)state;
    clean_folder();
    assert_int_equal(rig_run(&(struct rig){.n = 2, .body = loads_an_older_one}, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_goes_on_bit_for_bit),
        cmocka_unit_test(an_optimiser_of_every_kind_goes_on),
        cmocka_unit_test(halves_go_on),
        cmocka_unit_test(a_run_goes_back),
        cmocka_unit_test(what_is_loaded_is_saved_again),
        cmocka_unit_test(an_own_model_goes_on),
        cmocka_unit_test(what_may_be_missing_stays),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, file_room_open, file_room_close);
}
