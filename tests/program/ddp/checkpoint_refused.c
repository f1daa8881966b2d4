/* gyre/checkpoint.h where it cannot do what is asked: every rank gets the same status and the same
 * story, nothing is changed, and the next call works. Damaged generations are passed over, and a
 * death in the middle of a save loses that save only. */
#include "program/ddp/checkpoint_run.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* -- a disk on which a process dies ------------------------------------------------------------ */

static int syncs_left = -1; /* of this process; at 0 it dies */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    if (syncs_left == 0)
        raise(SIGKILL);
    syncs_left -= syncs_left > 0;
    return __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return __real_rename(from, to);
}

ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    return __real_write(fd, bytes, count);
}

/* -- what is refused --------------------------------------------------------------------------- */

static const char *folder(void)
{
    return file_room_name("run");
}

/* The same story on all ranks. */
static int refused(struct gyre_comm *comm, int status, int wanted, const char *words)
{
    char mine[600] = "", first[600];
    snprintf(mine, sizeof mine, "%s", gyre_error(NULL));
    memcpy(first, mine, sizeof first);
    int failed = rig_check(status == wanted, comm, gyre_status_name(status)) ||
                 rig_check(strstr(mine, words) != NULL, comm, mine) ||
                 rig_check(gyre_broadcast(comm, first, first, sizeof first, GYRE_U8, 0) == 0, comm,
                           "the communicator is spent") ||
                 rig_check(!strcmp(first, mine), comm, mine);
    return failed;
}

static int load_is_refused(struct run *run, struct gyre_comm *comm, int wanted, const char *words)
{
    uint64_t step = 77;
    int status = gyre_checkpoint_load(run->checkpoint, folder(), &step);
    return refused(comm, status, wanted, words) || rig_check(step == 77, comm, "the step");
}

static int save_is_refused(struct run *run, struct gyre_comm *comm, const char *where, int wanted,
                           const char *words)
{
    return refused(comm, gyre_checkpoint_save(run->checkpoint, where, run->step), wanted, words);
}

/* A run of two steps, saved. */
static int save_run(struct gyre_comm *comm, const char *text)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct run run;
    int failed = run_open(&run, comm, &kind, 1) ||
                 gyre_checkpoint_add_text(run.checkpoint, "data", text) || run_steps(&run, 2) ||
                 run_save(&run, comm, folder());
    run_close(&run);
    return failed;
}

/* Loads of a run of another kind, or that `change` has changed, are refused; its values and its
 * place are what they were. */
static int other_run(struct gyre_comm *comm, struct run_kind kind,
                     int (*change)(struct run *run, struct gyre_comm *comm), int wanted,
                     const char *words)
{
    float before[RUN_VALUES] = {0}, after[RUN_VALUES] = {0};
    uint64_t cursor;
    struct run run;
    bool small = kind.hidden == 8;
    int failed = run_open(&run, comm, &kind, 1) || run_step(&run);
    if (!failed && small)
        run_values(&run, before);
    failed = failed || (change && change(&run, comm)) || load_is_refused(&run, comm, wanted, words);
    if (!failed && small)
        run_values(&run, after);
    if (!failed)
        gyre_sampler_position(run.sampler, NULL, &cursor);
    failed = failed || rig_check(!memcmp(before, after, sizeof before), comm, "values changed") ||
             rig_check(cursor == RUN_ROWS, comm, "the sampler moved");
    run_close(&run);
    return failed;
}

static int add_missing(struct run *run, struct gyre_comm *comm)
{
    static double best;
    return gyre_checkpoint_add_f64(run->checkpoint, "best", &best);
}

static int add_other_text(struct run *run, struct gyre_comm *comm)
{
    return gyre_checkpoint_add_text(run->checkpoint, "data", "beer");
}

static int add_on_one_rank(struct run *run, struct gyre_comm *comm)
{
    static int64_t number;
    return gyre_rank(comm) == 1 ? gyre_checkpoint_add_i64(run->checkpoint, "extra", &number) : 0;
}

static int add_twice(struct run *run, struct gyre_comm *comm)
{
    static int64_t number;
    return gyre_checkpoint_add_i64(run->checkpoint, "sampler.epoch", &number);
}

static int loads_of_others(struct gyre_comm *comm, struct rig *rig)
{
    const struct run_kind kind = RUN_KIND_INIT;
    struct run_kind wider = kind, sgd = kind, other = kind;
    wider.hidden = 16;
    sgd.method = GYRE_NETWORK_SGD;
    other.seed = 7;
    int failed =
        save_run(comm, "wine") ||
        other_run(comm, wider, NULL, GYRE_INVALID,
                  "another model: tensor \"0.weight\" of model.safetensors: the checkpoint of step "
                  "2 has F32 [8,13], expected is F32 [16,13]") ||
        other_run(
            comm, sgd, NULL, GYRE_INVALID,
            "the checkpoint of step 2 was saved with optimizer \"adam\", here it is \"sgd\"") ||
        other_run(comm, other, NULL, GYRE_INVALID,
                  "sampler \"sampler\": the seed is 0 in the checkpoint, 7 here") ||
        other_run(comm, kind, add_missing, GYRE_INVALID,
                  "has no tensor \"best\" in training.safetensors; expected is F64 []") ||
        other_run(comm, kind, add_other_text, GYRE_INVALID,
                  "was saved with data \"wine\", here it is \"beer\"") ||
        other_run(comm, kind, add_on_one_rank, GYRE_MISMATCH,
                  "rank 1 has \"extra\" of I64 [] in the training where rank 0 has nothing") ||
        other_run(comm, kind, add_twice, GYRE_INVALID,
                  "two tensors of the checkpoint are named \"sampler.epoch\"");
    return gyre_finalize(comm) || failed;
}

static int at_a_wrong_time(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct gyre_network *alone = NULL;
    struct run run;
    int failed = save_run(comm, "wine") || run_open(&run, comm, &kind, 1) ||
                 gyre_network_learn_classes(run.net, NULL, 0, NULL) ||
                 load_is_refused(&run, comm, GYRE_INVALID, "within a step") ||
                 save_is_refused(&run, comm, folder(), GYRE_INVALID, "within a step") ||
                 gyre_ddp_wait(run.ddp) || run_load(&run, comm, folder());
    run_close(&run);
    failed = failed || run_open(&run, comm, &kind, 1) ||
             gyre_network_perceptron(&alone, (const uint64_t[]){2, 2}, 2, NULL);
    gyre_checkpoint_destroy(run.checkpoint);
    failed = failed || gyre_checkpoint_create(&run.checkpoint, comm, NULL) ||
             gyre_checkpoint_add_network(run.checkpoint, alone) ||
             save_is_refused(&run, comm, folder(), GYRE_INVALID,
                             "the network has no engine: gyre_network_join() comes first");
    run_close(&run);
    gyre_network_destroy(alone);
    return gyre_finalize(comm) || failed;
}

static int on_one_rank_alone(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct gyre_ddp *outside = NULL;
    struct gyre_comm *part = NULL;
    struct run run;
    float value = 1;
    const struct gyre_ddp_parameter parameter = {"w", GYRE_F32, 0, {0}, &value};
    int failed = run_open(&run, comm, &kind, 1) || gyre_split(comm, gyre_rank(comm), 0, &part) ||
                 gyre_ddp_create(&outside, part, &parameter, 1, NULL) ||
                 (gyre_rank(comm) == 1 && gyre_checkpoint_add_ddp(run.checkpoint, outside)) ||
                 save_is_refused(&run, comm, folder(), GYRE_INVALID,
                                 "rank 1: the engine has another communicator");
    gyre_ddp_destroy(outside);
    run_close(&run);
    if (part)
        gyre_finalize(part);
    return gyre_finalize(comm) || failed;
}

static int saves_of_no_use(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    const struct gyre_ddp_parameter *p;
    struct run run;
    uint64_t step = 0;
    int failed = save_run(comm, "wine") || run_open(&run, comm, &kind, 1) || run_step(&run) ||
                 save_is_refused(&run, comm, folder(), GYRE_INVALID, "holds step 2 already") ||
                 save_is_refused(&run, comm, "/proc/none/here", -ENOENT, "/proc/none/here") ||
                 run_steps(&run, 3);
    if (!failed && gyre_network_parameters(run.net, &p) > 0)
        ((float *)p[0].value)[3] = NAN;
    failed = failed ||
             save_is_refused(&run, comm, folder(), GYRE_INVALID,
                             "'0.weight' holds a NaN or an infinity") ||
             run_told(gyre_checkpoint_load(run.checkpoint, folder(), &step), "load") ||
             rig_check(step == 2, comm, "what was saved before");
    run_close(&run);
    return gyre_finalize(comm) || failed;
}

static void refused_everywhere(int (*body)(struct gyre_comm *, struct rig *))
{
    char command[300];
    for (int n = 2; n <= 3; n++) {
        snprintf(command, sizeof command, "rm -rf %s/*", file_room);
        assert_int_equal(system(command), 0);
        assert_int_equal(rig_run(&(struct rig){.n = n, .body = body}, 60), 0);
    }
}

static void a_checkpoint_of_others_is_refused(void **state)
{
    refused_everywhere(loads_of_others);
}

static void a_wrong_time_is_refused(void **state)
{
    refused_everywhere(at_a_wrong_time);
}

static void one_rank_refuses_for_all(void **state)
{
    refused_everywhere(on_one_rank_alone);
}

static void a_save_of_no_use_is_refused(void **state)
{
    refused_everywhere(saves_of_no_use);
}

/* -- what is not whole ------------------------------------------------------------------------- */

static int flip_byte(const char *path)
{
    char byte = 0;
    int fd = open(path, O_RDWR);
    int failed = fd < 0 || pread(fd, &byte, 1, 700) != 1;
    byte ^= 16;
    failed = failed || pwrite(fd, &byte, 1, 700) != 1;
    return close(fd) || failed;
}

/* Rank 0 damages the newest, the one before is loaded; then all, and each is told. */
static int damaged(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct run run;
    char older[300];
    snprintf(older, sizeof older, "%s", file_room_name("run/step-00000002/model.safetensors"));
    int failed = run_open(&run, comm, &kind, 1) ||
                 load_is_refused(&run, comm, -ENOENT, "no checkpoint is there") ||
                 run_steps(&run, 2) || run_save(&run, comm, folder()) || run_steps(&run, 2) ||
                 run_save(&run, comm, folder());
    if (!failed && gyre_rank(comm) == 0)
        failed = flip_byte(file_room_name("run/step-00000004/training.safetensors"));
    failed = failed || run_load(&run, comm, folder()) ||
             rig_check(run.step == 2, comm, "another step than that before the damaged one");
    if (!failed && gyre_rank(comm) == 0)
        failed = flip_byte(older);
    failed = failed || load_is_refused(&run, comm, GYRE_INVALID, "none of its 2 checkpoints");
    run_close(&run);
    return gyre_finalize(comm) || failed;
}

static void a_damaged_generation_is_passed_over(void **state)
{
    refused_everywhere(damaged);
}

/* Rank 0 dies at the k-th sync of its second save. */
static int dies_while_saving(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    struct run run;
    int failed = run_open(&run, comm, &kind, 1) || run_steps(&run, 2) ||
                 run_save(&run, comm, folder()) || run_steps(&run, 2);
    if (gyre_rank(comm) == 0)
        syncs_left = *(int *)rig->argument;
    int status = gyre_checkpoint_save(run.checkpoint, folder(), run.step);
    bool survived = gyre_rank(comm) == 0; /* the k-th sync never came */
    if (survived)
        rig->shared->flag = 1;
    failed = failed || (status && rig_check(status == GYRE_PEER_LOST, comm, gyre_error(NULL)));
    syncs_left = -1;
    run_close(&run);
    gyre_finalize(comm);
    return failed;
}

/* Loads what is there, and has the bits of a run of as many steps. */
static int loads_a_whole_one(struct gyre_comm *comm, struct rig *rig)
{
    struct run_kind kind = RUN_KIND_INIT;
    float loaded[RUN_VALUES], trained[RUN_VALUES];
    struct run run, again;
    int failed = run_open(&run, comm, &kind, 5) || run_load(&run, comm, folder()) ||
                 rig_check(run.step == 2 || run.step == 4, comm, "a step that was never saved") ||
                 run_open(&again, comm, &kind, 1) || run_steps(&again, (int)run.step);
    if (!failed) {
        run_values(&run, loaded);
        run_values(&again, trained);
    }
    failed = failed || rig_check(!memcmp(loaded, trained, sizeof loaded), comm, "other bits");
    run_close(&run);
    run_close(&again);
    return gyre_finalize(comm) || failed;
}

static void a_death_costs_one_save(void **state)
{
    char command[300];
    int survived = 0, syncs = 0;
    for (; !survived && syncs < 40; syncs++) {
        struct rig rig = {.n = 2, .body = dies_while_saving, .argument = &syncs, .dead_ms = 2000};
        snprintf(command, sizeof command, "rm -rf %s/*", file_room);
        assert_int_equal(system(command), 0);
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 60, 1), 0);
        survived = rig.shared->flag;
        assert_int_equal(rig_run(&(struct rig){.n = 2, .body = loads_a_whole_one}, 60), 0);
    }
    assert_in_range(syncs, 5, 39);
}

/* -- arguments --------------------------------------------------------------------------------- */

static int refuses(struct gyre_comm *comm, int status, const char *words)
{
    return rig_check(status == GYRE_INVALID, comm, words) ||
           rig_check(strstr(gyre_error(NULL), words) != NULL, comm, gyre_error(NULL));
}

static int wrong_arguments(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_checkpoint_options options = GYRE_CHECKPOINT_OPTIONS_INIT;
    struct gyre_checkpoint *c = NULL;
    struct gyre_ddp_parameter tensor = {"t", (enum gyre_type)99, 1, {1}, &options};
    uint64_t step;
    options.keep = 0;
    int failed = refuses(comm, gyre_checkpoint_create(&c, comm, &options), "keep is 0");
    options.keep = 2;
    options.size++;
    failed = failed || refuses(comm, gyre_checkpoint_create(&c, comm, &options), "size") ||
             refuses(comm, gyre_checkpoint_create(&c, NULL, NULL), "NULL") || c ||
             gyre_checkpoint_create(&c, comm, NULL) ||
             refuses(comm, gyre_checkpoint_add_network(c, NULL), "the network is NULL") ||
             refuses(comm, gyre_checkpoint_add_ddp(c, NULL), "the engine is NULL") ||
             refuses(comm, gyre_checkpoint_add_sampler(c, "s", NULL), "the sampler is NULL") ||
             refuses(comm, gyre_checkpoint_add_i64(c, "n", NULL), "the address of tensor 0") ||
             refuses(comm, gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_RANKS, &tensor, 1),
                     "'t' has type 99");
    tensor.type = GYRE_F32;
    tensor.dimensions = 9;
    failed =
        failed ||
        refuses(comm, gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_RANKS, &tensor, 1),
                "'t' has 9 dimensions") ||
        gyre_checkpoint_add_text(c, "key", "value") ||
        refuses(comm, gyre_checkpoint_add_text(c, "key", "other"), "on the list already") ||
        refuses(comm, gyre_checkpoint_save(c, NULL, 1), "the folder is NULL") ||
        refuses(comm, gyre_checkpoint_load(c, "x", NULL), "place of the step") ||
        refuses(comm, gyre_checkpoint_load(NULL, "x", &step), "the checkpoint is NULL") ||
        rig_check(gyre_checkpoint_world(c) == 0 && gyre_checkpoint_world(NULL) == 0, comm, "world");
    gyre_checkpoint_destroy(c);
    gyre_checkpoint_destroy(NULL);
    return gyre_finalize(comm) || failed;
}

static void wrong_arguments_are_refused(void **state)
{
    assert_int_equal(rig_run(&(struct rig){.n = 1, .body = wrong_arguments}, 60), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_of_others_is_refused),
        cmocka_unit_test(a_wrong_time_is_refused),
        cmocka_unit_test(one_rank_refuses_for_all),
        cmocka_unit_test(a_save_of_no_use_is_refused),
        cmocka_unit_test(a_damaged_generation_is_passed_over),
        cmocka_unit_test(a_death_costs_one_save),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("checkpoint, refused", tests, file_room_open,
                                       file_room_close);
}
