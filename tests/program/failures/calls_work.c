/* The scenes. A rank that fails tells where, ends its communicator as a careful program does, and
 * counts its descriptors. */
#include "program/failures/calls_work.h"

#include "data/dataset.h"
#include "program/failures/calls_scene.h"
#include "program/failures/calls_ways.h"

#include <gyre/checkpoint.h>
#include <gyre/ddp.h>
#include <gyre/model.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEPS 4 /* of the engine that regroups */

/* -- what is played ---------------------------------------------------------------------------- */

static int play_init(const char *folder)
{
    (void)folder;
    scene_arm(true);
    return scene_begin() || scene_failed(gyre_barrier(scene.comm), "gyre_barrier") ? -1 : 0;
}

static bool one_block_calls(void)
{
    return scene_wrote(gyre_all_reduce(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32,
                                       GYRE_SUM),
                       "all_reduce", SCENE_COUNT) &&
           scene_wrote(
               gyre_broadcast(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32, 1),
               "broadcast", SCENE_COUNT) &&
           scene_wrote(gyre_reduce(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32,
                                   GYRE_SUM, 0),
                       "reduce", gyre_rank(scene.comm) ? 0 : SCENE_COUNT) &&
           scene_wrote(gyre_all_reduce(scene.comm, scene.input, scene.output, SCENE_LARGE, GYRE_F32,
                                       GYRE_SUM),
                       "large all_reduce", SCENE_LARGE) &&
           scene_wrote(gyre_barrier(scene.comm), "barrier", 0);
}

static bool block_calls(void)
{
    static const uint64_t counts[2] = {SCENE_COUNT, 70};
    uint64_t n = (uint64_t)gyre_size(scene.comm);
    return scene_wrote(
               gyre_all_gather(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32),
               "all_gather", n * SCENE_COUNT) &&
           scene_wrote(
               gyre_all_gather_v(scene.comm, scene.input, scene.output, counts, NULL, GYRE_F32),
               "all_gather_v", SCENE_COUNT + 70) &&
           scene_wrote(gyre_reduce_scatter(scene.comm, scene.input, scene.output, SCENE_COUNT,
                                           GYRE_F32, GYRE_SUM),
                       "reduce_scatter", SCENE_COUNT) &&
           scene_wrote(
               gyre_all_to_all(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32),
               "all_to_all", n * SCENE_COUNT) &&
           scene_wrote(gyre_all_to_all_v(scene.comm, scene.input, counts, NULL, scene.output,
                                         (const uint64_t[]){counts[gyre_rank(scene.comm)],
                                                            counts[gyre_rank(scene.comm)]},
                                         NULL, GYRE_F32),
                       "all_to_all_v", 2 * counts[gyre_rank(scene.comm)]) &&
           scene_wrote(gyre_gather(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32, 0),
                       "gather", gyre_rank(scene.comm) ? 0 : n * SCENE_COUNT) &&
           scene_wrote(
               gyre_scatter(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32, 1),
               "scatter", SCENE_COUNT);
}

static bool message_calls(void)
{
    int peer = 1 - gyre_rank(scene.comm);
    struct gyre_work *work;
    return !scene_failed(
               gyre_send_start(scene.comm, scene.input, SCENE_LARGE, GYRE_F32, peer, &work),
               "send_start") &&
           scene_wrote(gyre_recv(scene.comm, scene.output, SCENE_LARGE, GYRE_F32, peer), "recv",
                       SCENE_LARGE) &&
           !scene_failed(gyre_work_wait(work, -1), "wait") &&
           !scene_failed(gyre_group_start(scene.comm), "group_start") &&
           !scene_failed(gyre_send(scene.comm, scene.input, SCENE_COUNT, GYRE_F32, peer),
                         "send in a group") &&
           !scene_failed(gyre_recv(scene.comm, scene.output, SCENE_COUNT, GYRE_F32, peer),
                         "recv in a group") &&
           !scene_failed(gyre_all_reduce(scene.comm, scene.input, scene.output + SCENE_COUNT, 5,
                                         GYRE_F32, GYRE_SUM),
                         "all_reduce in a group") &&
           scene_wrote(gyre_group_end(scene.comm), "group_end", SCENE_COUNT + 5);
}

static int play_calls(const char *folder)
{
    (void)folder;
    if (scene_begin())
        return -1;
    scene_arm(true);
    return one_block_calls() && block_calls() && message_calls() ? 0 : -1;
}

static int play_memory(const char *folder)
{
    struct gyre_comm *part = NULL;
    void *memory = NULL;
    (void)folder;
    if (scene_begin())
        return -1;
    scene_arm(true);
    if (scene_failed(gyre_alloc(scene.comm, SCENE_LARGE * 4, &memory), "gyre_alloc"))
        return -1;
    memcpy(memory, scene.input, SCENE_LARGE * 4);
    if (!scene_wrote(
            gyre_all_reduce(scene.comm, memory, scene.output, SCENE_LARGE, GYRE_F32, GYRE_SUM),
            "all_reduce", SCENE_LARGE) ||
        scene_failed(gyre_register(scene.comm, scene.input, SCENE_LARGE * 4), "gyre_register") ||
        !scene_wrote(
            gyre_all_reduce(scene.comm, scene.input, scene.output, SCENE_LARGE, GYRE_F32, GYRE_MAX),
            "all_reduce", SCENE_LARGE) ||
        scene_failed(gyre_unregister(scene.comm, scene.input), "gyre_unregister") ||
        scene_failed(gyre_split(scene.comm, 0, -gyre_rank(scene.comm), &part), "gyre_split"))
        return -1;
    int status = gyre_all_gather(part, scene.input, scene.output, SCENE_COUNT, GYRE_F32);
    if (status < 0) {
        dprintf(2, "all_gather of a part: %s: %s\n", gyre_status_name(status), gyre_error(part));
        gyre_finalize(part);
        return -1;
    }
    scene_take(scene.output, 2 * SCENE_COUNT * 4);
    return scene_failed(gyre_finalize(part), "gyre_finalize of a part") ||
                   scene_failed(gyre_free(scene.comm, memory), "gyre_free")
               ? -1
               : 0;
}

/* A part sums once. Its failure is told as the communicator's is. */
static int use_part(struct gyre_comm *part)
{
    struct gyre_comm *whole = scene.comm;
    scene.comm = part;
    bool fine = scene_wrote(
        gyre_all_reduce(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32, GYRE_SUM),
        "all_reduce of a part", SCENE_COUNT);
    scene.comm = NULL;
    fine = !scene_failed(gyre_finalize(part), "gyre_finalize of a part") && fine;
    scene.comm = whole;
    return fine ? 0 : -1;
}

static int play_apart(const char *folder)
{
    struct gyre_comm *part = NULL;
    (void)folder;
    if (scene_begin())
        return -1;
    scene_arm(true);
    return scene_failed(gyre_split_apart(scene.comm, 0, -gyre_rank(scene.comm), &part),
                        "gyre_split_apart")
               ? -1
               : use_part(part);
}

static void take_values(struct gyre_network *net)
{
    const struct gyre_ddp_parameter *list = NULL;
    int count = gyre_network_parameters(net, &list);
    for (int i = 0; i < count; i++)
        scene_take(list[i].value,
                   list[i].shape[0] * (list[i].dimensions > 1 ? list[i].shape[1] : 1) * 4);
}

static int train(struct gyre_network *net, struct gyre_ddp *ddp, int steps)
{
    int64_t label[16];
    for (int i = 0; i < 16; i++)
        label[i] = (i + gyre_rank(scene.comm)) % 3;
    for (int i = 0; i < steps; i++)
        if (scene_failed(gyre_network_learn_classes(net, scene.input, 16, label), "learn") ||
            scene_failed(gyre_ddp_wait(ddp), "gyre_ddp_wait") ||
            scene_failed(gyre_network_update(net, 0.05), "update"))
            return -1;
    return 0;
}

static int make_network(struct gyre_network **net, struct gyre_ddp **ddp)
{
    static const uint64_t widths[] = {4, 24, 3};
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    options.batch = 16;
    options.method = GYRE_NETWORK_ADAM;
    return scene_failed(gyre_network_perceptron(net, widths, 3, &options), "perceptron") ||
                   scene_failed(gyre_network_join(*net, scene.comm, NULL, ddp), "join")
               ? -1
               : 0;
}

static int play_ddp(const char *folder)
{
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp;
    (void)folder;
    if (scene_begin())
        return -1;
    scene_arm(true);
    int status = make_network(&net, &ddp) || train(net, ddp, 3) ||
                         scene_failed(gyre_ddp_compare(ddp), "gyre_ddp_compare")
                     ? -1
                     : 0;
    if (!status)
        take_values(net);
    gyre_network_destroy(net);
    return status;
}

static int save_and_load(struct gyre_network *net, struct gyre_ddp *ddp, const char *folder)
{
    struct gyre_checkpoint *checkpoint = NULL;
    uint64_t step = 0;
    int status =
        scene_failed(gyre_checkpoint_create(&checkpoint, scene.comm, NULL), "checkpoint_create") ||
                scene_failed(gyre_checkpoint_add_network(checkpoint, net), "add_network") ||
                scene_failed(gyre_checkpoint_save(checkpoint, folder, 1), "save") ||
                train(net, ddp, 1) ||
                scene_failed(gyre_checkpoint_load(checkpoint, folder, &step), "load")
            ? -1
            : 0;
    gyre_checkpoint_destroy(checkpoint);
    scene_take(&step, sizeof step);
    return status;
}

static int play_checkpoint(const char *folder)
{
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp;
    if (scene_begin())
        return -1;
    int status = make_network(&net, &ddp) || train(net, ddp, 1);
    scene_arm(true);
    if (!status)
        status = save_and_load(net, ddp, folder);
    if (!status)
        take_values(net);
    gyre_network_destroy(net);
    return status;
}

/* -- going on without a rank ------------------------------------------------------------------- */

/* The last rank ends without a goodbye. */
static void end_last_rank(void)
{
    if (gyre_rank(scene.comm) == gyre_size(scene.comm) - 1)
        _exit(0);
}

/* Makes the communicator of those that are left. */
static int shrink(struct gyre_comm **smaller)
{
    int status = gyre_shrink(scene.comm, smaller);
    if (!status)
        return 0;
    scene.silent |= !*gyre_error(NULL);
    dprintf(2, "gyre_shrink: %s: %s\n", gyre_status_name(status), gyre_error(NULL));
    return -1;
}

static int play_shrink(const char *folder)
{
    struct gyre_comm *smaller = NULL;
    void *memory = NULL;
    (void)folder;
    if (scene_begin() ||
        scene_failed(gyre_alloc(scene.comm, SCENE_COUNT * 4, &memory), "gyre_alloc"))
        return -1;
    while (scene_greatest(scene.input) == 0)
        end_last_rank();
    scene_arm(true);
    if (shrink(&smaller))
        return -1;
    gyre_finalize(scene.comm);
    scene.comm = smaller;
    memcpy(memory, scene.input, SCENE_COUNT * 4);
    return scene_wrote(scene_greatest(memory), "all_reduce of those left", SCENE_COUNT) &&
                   !scene_failed(gyre_free(scene.comm, memory), "gyre_free")
               ? 0
               : -1;
}

/* Whole numbers, the same of every rank: so is their mean, however many are left. */
static int step_engine(struct gyre_ddp *ddp, double *weight)
{
    int status = gyre_ddp_begin(ddp, 1);
    double *gradient = status ? NULL : gyre_ddp_gradient(ddp, 0);
    for (int i = 0; i < SCENE_COUNT && gradient; i++)
        gradient[i] = i % 100;
    if (!status)
        status = gyre_ddp_ready(ddp, 0);
    if (!status)
        status = gyre_ddp_wait(ddp);
    gradient = status ? NULL : gyre_ddp_gradient(ddp, 0);
    for (int i = 0; i < SCENE_COUNT && gradient; i++)
        weight[i] -= gradient[i];
    return status;
}

static int regroup(struct gyre_ddp *ddp, double *weight)
{
    struct gyre_comm *smaller = NULL;
    if (shrink(&smaller))
        return -1;
    int status = gyre_ddp_regroup(ddp, smaller, NULL);
    gyre_finalize(scene.comm);
    scene.comm = smaller;
    if (scene_failed(status, "gyre_ddp_regroup"))
        return -1;
    while (gyre_ddp_result(ddp)->number < STEPS)
        if (scene_failed(step_engine(ddp, weight), "a step of those left"))
            return -1;
    return 0;
}

static int play_regroup(const char *folder)
{
    static double weight[SCENE_COUNT];
    const struct gyre_ddp_parameter parameter = {"weight", GYRE_F64, 1, {SCENE_COUNT}, weight};
    struct gyre_ddp *ddp = NULL;
    (void)folder;
    if (scene_begin() ||
        scene_failed(gyre_ddp_create(&ddp, scene.comm, &parameter, 1, NULL), "gyre_ddp_create"))
        return -1;
    while (step_engine(ddp, weight) == 0)
        end_last_rank();
    scene_arm(true);
    int status = regroup(ddp, weight);
    if (!status)
        scene_take(weight, sizeof weight);
    gyre_ddp_destroy(ddp);
    return status;
}

/* -- data -------------------------------------------------------------------------------------- */

static int open_data(const char *folder, const char *name)
{
    char path[600], labels[600];
    struct gyre_trouble trouble = {0};
    struct gyre_dataset set = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(labels, sizeof labels, "%s/labels", folder);
    struct gyre_dataset_options options = {.source = path,
                                           .labels = strcmp(name, "images") ? NULL : labels};
    int status = gyre_dataset_open(&set, &options, &trouble);
    if (status < 0) {
        scene.silent |= !trouble.text[0];
        dprintf(2, "%s: %s\n", name, trouble.text);
    } else {
        scene_take(set.label, set.samples * sizeof *set.label);
        scene_take(&set.features, sizeof set.features);
    }
    gyre_dataset_close(&set);
    return status < 0 ? -1 : 0;
}

static int play_data(const char *folder)
{
    scene_arm(true);
    return open_data(folder, "table.csv") || open_data(folder, "images") ? -1 : 0;
}

/* -- playing ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*play)(const char *folder);
} scenes[] = {
    {"init", play_init},
    {"calls", play_calls},
    {"memory", play_memory},
    {"ddp", play_ddp},
    {"checkpoint", play_checkpoint},
    {"data", play_data},
    {"shrink", play_shrink},
    {"regroup", play_regroup},
    {"apart", play_apart},
    {"first_use", calls_play_first_use},
    {"folder", calls_play_folder},
    {"store", calls_play_store},
    {"in_process", calls_play_in_process},
    {"grow", calls_play_grow},
};

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Whether a communicator that has failed says so again, at once. */
static bool is_steady(void)
{
    const int failure = scene.comm ? gyre_failure(scene.comm, NULL, 0, NULL) : 0;
    const int again = failure ? gyre_barrier(scene.comm) : 0;
    if (again != failure)
        dprintf(2, "first %s, then %s\n", gyre_status_name(failure), gyre_status_name(again));
    return again == failure;
}

static int play(int (*run)(const char *folder), const char *folder)
{
    int before = open_descriptors();
    int status = run(folder);
    const bool steady = is_steady();
    struct gyre_comm *ended = scene.comm;
    scene.comm = NULL;
    if (ended && scene_failed(gyre_finalize(ended), "gyre_finalize"))
        status = -1;
    scene_arm(false);
    int after = open_descriptors();
    if (after != before) {
        dprintf(2, "%d descriptors before, %d after\n", before - 3, after - 3);
        return CALLS_DESCRIPTORS;
    }
    if (!steady)
        return CALLS_UNSTEADY;
    printf("%016llx\n", (unsigned long long)scene.digest);
    return !status ? CALLS_RIGHT : scene.silent ? CALLS_SILENT : CALLS_TOLD;
}

int calls_work(const char *name, const char *folder)
{
    scene_open();
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(scenes[i].name, name))
            return play(scenes[i].play, folder);
    return CALLS_UNKNOWN;
}
