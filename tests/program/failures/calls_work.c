/* The scenes. A rank that fails tells where, ends its communicator as a careful program does, and
 * counts its descriptors. */
#include "program/failures/calls_work.h"

#include "data/dataset.h"
#include "stand_in/failing_calls.h"

#include <gyre/checkpoint.h>
#include <gyre/ddp.h>
#include <gyre/model.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define COUNT 3000 /* floats of a block: more than a short message */
#define LARGE 200000
#define STEPS 4 /* of the engine that regroups */

static struct failing_book *book;
static struct gyre_comm *comm;
static uint64_t digest = 14695981039346656037u;
static float *input, *output;
static bool silent;

static void arm(bool on)
{
    if (book)
        book->armed = on;
}

static void take(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ ((const unsigned char *)at)[i]) * 1099511628211u;
}

/* True, and told, if the call failed. `%` of the text is nothing special. */
static bool failed(int status, const char *step)
{
    if (status >= 0)
        return false;
    const char *text = gyre_error(comm);
    if (!*text && comm)
        text = gyre_error(NULL);
    silent = !*text;
    dprintf(2, "%s: %s: %s\n", step, gyre_status_name(status), text);
    return true;
}

static bool wrote(int status, const char *step, uint64_t floats)
{
    if (!failed(status, step))
        take(output, floats * sizeof *output);
    return status >= 0;
}

static int begin(void)
{
    return failed(gyre_init(&comm, NULL), "gyre_init") ? -1 : 0;
}

/* -- what is played ---------------------------------------------------------------------------- */

static int play_init(const char *folder)
{
    (void)folder;
    arm(true);
    return begin() || failed(gyre_barrier(comm), "gyre_barrier") ? -1 : 0;
}

static bool one_block_calls(void)
{
    return wrote(gyre_all_reduce(comm, input, output, COUNT, GYRE_F32, GYRE_SUM), "all_reduce",
                 COUNT) &&
           wrote(gyre_broadcast(comm, input, output, COUNT, GYRE_F32, 1), "broadcast", COUNT) &&
           wrote(gyre_reduce(comm, input, output, COUNT, GYRE_F32, GYRE_SUM, 0), "reduce",
                 gyre_rank(comm) ? 0 : COUNT) &&
           wrote(gyre_all_reduce(comm, input, output, LARGE, GYRE_F32, GYRE_SUM),
                 "large all_reduce", LARGE) &&
           wrote(gyre_barrier(comm), "barrier", 0);
}

static bool block_calls(void)
{
    static const uint64_t counts[2] = {COUNT, 70};
    uint64_t n = (uint64_t)gyre_size(comm);
    return wrote(gyre_all_gather(comm, input, output, COUNT, GYRE_F32), "all_gather", n * COUNT) &&
           wrote(gyre_all_gather_v(comm, input, output, counts, NULL, GYRE_F32), "all_gather_v",
                 COUNT + 70) &&
           wrote(gyre_reduce_scatter(comm, input, output, COUNT, GYRE_F32, GYRE_SUM),
                 "reduce_scatter", COUNT) &&
           wrote(gyre_all_to_all(comm, input, output, COUNT, GYRE_F32), "all_to_all", n * COUNT) &&
           wrote(gyre_all_to_all_v(
                     comm, input, counts, NULL, output,
                     (const uint64_t[]){counts[gyre_rank(comm)], counts[gyre_rank(comm)]}, NULL,
                     GYRE_F32),
                 "all_to_all_v", 2 * counts[gyre_rank(comm)]) &&
           wrote(gyre_gather(comm, input, output, COUNT, GYRE_F32, 0), "gather",
                 gyre_rank(comm) ? 0 : n * COUNT) &&
           wrote(gyre_scatter(comm, input, output, COUNT, GYRE_F32, 1), "scatter", COUNT);
}

static bool message_calls(void)
{
    int peer = 1 - gyre_rank(comm);
    struct gyre_work *work;
    return !failed(gyre_send_start(comm, input, LARGE, GYRE_F32, peer, &work), "send_start") &&
           wrote(gyre_recv(comm, output, LARGE, GYRE_F32, peer), "recv", LARGE) &&
           !failed(gyre_work_wait(work, -1), "wait") &&
           !failed(gyre_group_start(comm), "group_start") &&
           !failed(gyre_send(comm, input, COUNT, GYRE_F32, peer), "send in a group") &&
           !failed(gyre_recv(comm, output, COUNT, GYRE_F32, peer), "recv in a group") &&
           !failed(gyre_all_reduce(comm, input, output + COUNT, 5, GYRE_F32, GYRE_SUM),
                   "all_reduce in a group") &&
           wrote(gyre_group_end(comm), "group_end", COUNT + 5);
}

static int play_calls(const char *folder)
{
    (void)folder;
    if (begin())
        return -1;
    arm(true);
    return one_block_calls() && block_calls() && message_calls() ? 0 : -1;
}

static int play_memory(const char *folder)
{
    struct gyre_comm *part = NULL;
    void *memory = NULL;
    (void)folder;
    if (begin())
        return -1;
    arm(true);
    if (failed(gyre_alloc(comm, LARGE * 4, &memory), "gyre_alloc"))
        return -1;
    memcpy(memory, input, LARGE * 4);
    if (!wrote(gyre_all_reduce(comm, memory, output, LARGE, GYRE_F32, GYRE_SUM), "all_reduce",
               LARGE) ||
        failed(gyre_register(comm, input, LARGE * 4), "gyre_register") ||
        !wrote(gyre_all_reduce(comm, input, output, LARGE, GYRE_F32, GYRE_MAX), "all_reduce",
               LARGE) ||
        failed(gyre_unregister(comm, input), "gyre_unregister") ||
        failed(gyre_split(comm, 0, -gyre_rank(comm), &part), "gyre_split"))
        return -1;
    int status = gyre_all_gather(part, input, output, COUNT, GYRE_F32);
    if (status < 0) {
        dprintf(2, "all_gather of a part: %s: %s\n", gyre_status_name(status), gyre_error(part));
        gyre_finalize(part);
        return -1;
    }
    take(output, 2 * COUNT * 4);
    return failed(gyre_finalize(part), "gyre_finalize of a part") ||
                   failed(gyre_free(comm, memory), "gyre_free")
               ? -1
               : 0;
}

/* A part sums once. Its failure is told as the communicator's is. */
static int use_part(struct gyre_comm *part)
{
    struct gyre_comm *whole = comm;
    comm = part;
    bool fine = wrote(gyre_all_reduce(comm, input, output, COUNT, GYRE_F32, GYRE_SUM),
                      "all_reduce of a part", COUNT);
    comm = NULL;
    fine = !failed(gyre_finalize(part), "gyre_finalize of a part") && fine;
    comm = whole;
    return fine ? 0 : -1;
}

static int play_apart(const char *folder)
{
    struct gyre_comm *part = NULL;
    (void)folder;
    if (begin())
        return -1;
    arm(true);
    return failed(gyre_split_apart(comm, 0, -gyre_rank(comm), &part), "gyre_split_apart")
               ? -1
               : use_part(part);
}

static void take_values(struct gyre_network *net)
{
    const struct gyre_ddp_parameter *list = NULL;
    int count = gyre_network_parameters(net, &list);
    for (int i = 0; i < count; i++)
        take(list[i].value, list[i].shape[0] * (list[i].dimensions > 1 ? list[i].shape[1] : 1) * 4);
}

static int train(struct gyre_network *net, struct gyre_ddp *ddp, int steps)
{
    int64_t label[16];
    for (int i = 0; i < 16; i++)
        label[i] = (i + gyre_rank(comm)) % 3;
    for (int i = 0; i < steps; i++)
        if (failed(gyre_network_learn_classes(net, input, 16, label), "learn") ||
            failed(gyre_ddp_wait(ddp), "gyre_ddp_wait") ||
            failed(gyre_network_update(net, 0.05), "update"))
            return -1;
    return 0;
}

static int make_network(struct gyre_network **net, struct gyre_ddp **ddp)
{
    static const uint64_t widths[] = {4, 24, 3};
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    options.batch = 16;
    options.method = GYRE_NETWORK_ADAM;
    return failed(gyre_network_perceptron(net, widths, 3, &options), "perceptron") ||
                   failed(gyre_network_join(*net, comm, NULL, ddp), "join")
               ? -1
               : 0;
}

static int play_ddp(const char *folder)
{
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp;
    (void)folder;
    if (begin())
        return -1;
    arm(true);
    int status = make_network(&net, &ddp) || train(net, ddp, 3) ||
                         failed(gyre_ddp_compare(ddp), "gyre_ddp_compare")
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
    int status = failed(gyre_checkpoint_create(&checkpoint, comm, NULL), "checkpoint_create") ||
                         failed(gyre_checkpoint_add_network(checkpoint, net), "add_network") ||
                         failed(gyre_checkpoint_save(checkpoint, folder, 1), "save") ||
                         train(net, ddp, 1) ||
                         failed(gyre_checkpoint_load(checkpoint, folder, &step), "load")
                     ? -1
                     : 0;
    gyre_checkpoint_destroy(checkpoint);
    take(&step, sizeof step);
    return status;
}

static int play_checkpoint(const char *folder)
{
    struct gyre_network *net = NULL;
    struct gyre_ddp *ddp;
    if (begin())
        return -1;
    int status = make_network(&net, &ddp) || train(net, ddp, 1);
    arm(true);
    if (!status)
        status = save_and_load(net, ddp, folder);
    if (!status)
        take_values(net);
    gyre_network_destroy(net);
    return status;
}

/* -- going on without a rank ------------------------------------------------------------------- */

/* The greatest of equal blocks is the same, however many ranks are left. */
static int greatest(const float *from)
{
    return gyre_all_reduce(comm, from, output, COUNT, GYRE_F32, GYRE_MAX);
}

/* The last rank ends without a goodbye. */
static void end_last_rank(void)
{
    if (gyre_rank(comm) == gyre_size(comm) - 1)
        _exit(0);
}

/* Makes the communicator of those that are left. */
static int shrink(struct gyre_comm **smaller)
{
    int status = gyre_shrink(comm, smaller);
    if (!status)
        return 0;
    silent = !*gyre_error(NULL);
    dprintf(2, "gyre_shrink: %s: %s\n", gyre_status_name(status), gyre_error(NULL));
    return -1;
}

static int play_shrink(const char *folder)
{
    struct gyre_comm *smaller = NULL;
    void *memory = NULL;
    (void)folder;
    if (begin() || failed(gyre_alloc(comm, COUNT * 4, &memory), "gyre_alloc"))
        return -1;
    while (greatest(input) == 0)
        end_last_rank();
    arm(true);
    if (shrink(&smaller))
        return -1;
    gyre_finalize(comm);
    comm = smaller;
    memcpy(memory, input, COUNT * 4);
    return wrote(greatest(memory), "all_reduce of those left", COUNT) &&
                   !failed(gyre_free(comm, memory), "gyre_free")
               ? 0
               : -1;
}

/* Whole numbers, the same of every rank: so is their mean, however many are left. */
static int step_engine(struct gyre_ddp *ddp, double *weight)
{
    int status = gyre_ddp_begin(ddp, 1);
    double *gradient = status ? NULL : gyre_ddp_gradient(ddp, 0);
    for (int i = 0; i < COUNT && gradient; i++)
        gradient[i] = i % 100;
    if (!status)
        status = gyre_ddp_ready(ddp, 0);
    if (!status)
        status = gyre_ddp_wait(ddp);
    gradient = status ? NULL : gyre_ddp_gradient(ddp, 0);
    for (int i = 0; i < COUNT && gradient; i++)
        weight[i] -= gradient[i];
    return status;
}

static int regroup(struct gyre_ddp *ddp, double *weight)
{
    struct gyre_comm *smaller = NULL;
    if (shrink(&smaller))
        return -1;
    int status = gyre_ddp_regroup(ddp, smaller, NULL);
    gyre_finalize(comm);
    comm = smaller;
    if (failed(status, "gyre_ddp_regroup"))
        return -1;
    while (gyre_ddp_result(ddp)->number < STEPS)
        if (failed(step_engine(ddp, weight), "a step of those left"))
            return -1;
    return 0;
}

static int play_regroup(const char *folder)
{
    static double weight[COUNT];
    const struct gyre_ddp_parameter parameter = {"weight", GYRE_F64, 1, {COUNT}, weight};
    struct gyre_ddp *ddp = NULL;
    (void)folder;
    if (begin() || failed(gyre_ddp_create(&ddp, comm, &parameter, 1, NULL), "gyre_ddp_create"))
        return -1;
    while (step_engine(ddp, weight) == 0)
        end_last_rank();
    arm(true);
    int status = regroup(ddp, weight);
    if (!status)
        take(weight, sizeof weight);
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
        silent = !trouble.text[0];
        dprintf(2, "%s: %s\n", name, trouble.text);
    } else {
        take(set.label, set.samples * sizeof *set.label);
        take(&set.features, sizeof set.features);
    }
    gyre_dataset_close(&set);
    return status < 0 ? -1 : 0;
}

static int play_data(const char *folder)
{
    arm(true);
    return open_data(folder, "table.csv") || open_data(folder, "images") ? -1 : 0;
}

/* -- playing ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*play)(const char *folder);
} scenes[] = {
    {"init", play_init},     {"calls", play_calls},           {"memory", play_memory},
    {"ddp", play_ddp},       {"checkpoint", play_checkpoint}, {"data", play_data},
    {"shrink", play_shrink}, {"regroup", play_regroup},       {"apart", play_apart},
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

static int play(int (*scene)(const char *folder), const char *folder)
{
    int before = open_descriptors();
    int status = scene(folder);
    struct gyre_comm *ended = comm;
    comm = NULL;
    if (ended && failed(gyre_finalize(ended), "gyre_finalize"))
        status = -1;
    arm(false);
    int after = open_descriptors();
    if (after != before) {
        dprintf(2, "%d descriptors before, %d after\n", before - 3, after - 3);
        return CALLS_DESCRIPTORS;
    }
    printf("%016llx\n", (unsigned long long)digest);
    return !status ? CALLS_RIGHT : silent ? CALLS_SILENT : CALLS_TOLD;
}

int calls_work(const char *scene, const char *folder)
{
    book = failing_book_open(getenv("FAILING_CALLS"));
    input = malloc(LARGE * sizeof *input);
    output = calloc(LARGE, sizeof *output);
    for (int i = 0; i < LARGE; i++)
        input[i] = (float)(i % 100);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(scenes[i].name, scene))
            return play(scenes[i].play, folder);
    return CALLS_UNKNOWN;
}
