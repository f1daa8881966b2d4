/* Each scene ends with operations of all ranks, by the links that it has made. */
#include "program/failures/calls_ways.h"
#include "program/failures/calls_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_US 1000 /* between looks at what another process does */

/* Every rank sends to every other, and one number of all comes back. */
static int use_all_links(void)
{
    const uint64_t n = (uint64_t)gyre_size(scene.comm);
    return scene_wrote(
               gyre_all_to_all(scene.comm, scene.input, scene.output, SCENE_COUNT, GYRE_F32),
               "all_to_all", n * SCENE_COUNT) &&
                   scene_wrote(scene_greatest(scene.input), "all_reduce", SCENE_COUNT)
               ? 0
               : -1;
}

int calls_play_first_use(const char *folder)
{
    (void)folder;
    if (scene_begin())
        return -1;
    scene_arm(true);
    return use_all_links();
}

/* -- groups that meet in a store --------------------------------------------------------------- */

static int join_group(const char *root, const struct gyre_store *store)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.root = root;
    options.store = store;
    options.job = getenv("GYRE_JOB");
    scene_arm(true);
    return scene_failed(gyre_init(&scene.comm, &options), "gyre_init") ? -1 : use_all_links();
}

int calls_play_folder(const char *folder)
{
    char root[300];
    snprintf(root, sizeof root, "file://%s/room", folder);
    return join_group(root, NULL);
}

/* A value is a file, whose name is the key without its slashes. */
static void name_value(char *path, size_t room, const char *folder, const char *key,
                       const char *end)
{
    const int length = snprintf(path, room, "%s/room-", folder);
    snprintf(path + length, room - (size_t)length, "%s%s", key, end);
    for (char *at = path + length; *at; at++)
        if (*at == '/')
            *at = '_';
}

/* The calls of the store's own functions do not fail: a store that fails is another test's. */
static int set_value(void *folder, const char *key, const void *value, size_t bytes)
{
    char path[400], part[400];
    scene_arm(false);
    name_value(part, sizeof part, folder, key, ".part");
    name_value(path, sizeof path, folder, key, "");
    const int fd = open(part, O_CREAT | O_WRONLY | O_CLOEXEC | O_TRUNC, 0600);
    bool kept = fd >= 0 && write(fd, value, bytes) == (ssize_t)bytes;
    if (fd >= 0)
        close(fd);
    kept = kept && !rename(part, path);
    scene_arm(true);
    return kept ? 0 : -EIO;
}

static int read_value(const char *path, void *value, size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, value, *bytes);
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return GYRE_AGAIN;
    *bytes = (size_t)length;
    return 0;
}

static int get_value(void *folder, const char *key, void *value, size_t *bytes, int timeout_ms)
{
    char path[400];
    int status = GYRE_AGAIN;
    scene_arm(false);
    name_value(path, sizeof path, folder, key, "");
    for (int waited_us = 0; status && waited_us <= timeout_ms * 1000; waited_us += PAUSE_US) {
        status = read_value(path, value, bytes);
        if (status)
            usleep(PAUSE_US);
    }
    scene_arm(true);
    return status;
}

static int remove_value(void *folder, const char *key)
{
    char path[400];
    name_value(path, sizeof path, folder, key, "");
    return unlink(path) && errno != ENOENT ? -errno : 0;
}

int calls_play_store(const char *folder)
{
    const struct gyre_store store = {sizeof store, (void *)(uintptr_t)folder, set_value, get_value,
                                     remove_value};
    return join_group(NULL, &store);
}

/* -- ranks of one process ---------------------------------------------------------------------- */

enum { HERE = 2 };

static int sum_of_each(struct gyre_comm *const rank[HERE])
{
    struct gyre_work *work[HERE];
    int status = 0, started = 0;
    for (; started < HERE && !status; started++) {
        scene.comm = rank[started];
        if (scene_failed(gyre_all_reduce_start(scene.comm, scene.input,
                                               scene.output + started * SCENE_COUNT, SCENE_COUNT,
                                               GYRE_F32, GYRE_SUM, &work[started]),
                         "all_reduce_start"))
            return -1;
    }
    for (int i = 0; i < HERE; i++) {
        scene.comm = rank[i];
        status |= scene_failed(gyre_work_wait(work[i], -1), "wait");
    }
    if (!status)
        scene_take(scene.output, sizeof(float) * HERE * SCENE_COUNT);
    return status ? -1 : 0;
}

/* Groups of all ranks here, which their last gyre_group_end() runs. */
static int gather_to_each(struct gyre_comm *const rank[HERE])
{
    const size_t room = SCENE_LARGE / HERE;
    int status = 0;
    for (int i = 0; i < HERE && !status; i++) {
        scene.comm = rank[i];
        status =
            scene_failed(gyre_group_start(scene.comm), "group_start") ||
            scene_failed(gyre_all_gather(scene.comm, scene.input, scene.output + (size_t)i * room,
                                         SCENE_COUNT, GYRE_F32),
                         "all_gather in a group");
    }
    for (int i = 0; i < HERE && !status; i++) {
        scene.comm = rank[i];
        status = scene_failed(gyre_group_end(scene.comm), "group_end");
    }
    for (int i = 0; i < HERE && !status; i++)
        scene_take(scene.output + (size_t)i * room, sizeof(float) * SCENE_COUNT);
    return status ? -1 : 0;
}

int calls_play_in_process(const char *folder)
{
    struct gyre_comm *rank[HERE];
    (void)folder;
    scene_arm(true);
    if (scene_failed(gyre_init_in_process(rank, HERE, NULL, NULL), "gyre_init_in_process"))
        return -1;
    int status = sum_of_each(rank) || gather_to_each(rank) ? -1 : 0;
    scene.comm = NULL;
    for (int i = 0; i < HERE; i++)
        if (scene_failed(gyre_finalize(rank[i]), "gyre_finalize"))
            status = -1;
    return status;
}

/* -- newcomers --------------------------------------------------------------------------------- */

static void name_end(char *path, size_t room, const char *folder)
{
    snprintf(path, room, "%s/room-over", folder);
}

/* A newcomer that has failed leaves a file: the ranks wait for it no longer. */
static int come_new(const char *folder)
{
    char path[300];
    scene_arm(true);
    if (!scene_failed(gyre_join(&scene.comm, NULL), "gyre_join"))
        return scene_wrote(scene_greatest(scene.input), "all_reduce of a newcomer", SCENE_COUNT)
                   ? 0
                   : -1;
    scene_arm(false);
    name_end(path, sizeof path, folder);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Whether all ranks are to wait for the newcomer: what rank 0 sees is what all hear. Rank 0 looks
 * until there is something to see, or its newcomer is being taken in. */
static int hear_rank_0(const char *end, bool *over)
{
    int32_t ended = 0;
    while (gyre_rank(scene.comm) == 0 && !ended && !gyre_waiting(scene.comm)) {
        usleep(PAUSE_US);
        ended = access(end, F_OK) == 0;
    }
    int status = gyre_broadcast(scene.comm, &ended, &ended, 1, GYRE_I32, 0);
    *over = ended != 0;
    return status;
}

/* Grows until the newcomer is a rank, or has failed. */
static int take_in(const char *end, struct gyre_comm **larger)
{
    bool over = false;
    *larger = NULL;
    while (!over && !*larger) {
        if (scene_failed(gyre_grow(scene.comm, 1, larger), "gyre_grow") ||
            (!*larger && scene_failed(hear_rank_0(end, &over), "broadcast")))
            return -1;
    }
    if (over)
        dprintf(2, "the newcomer has failed\n");
    return over ? -1 : 0;
}

int calls_play_grow(const char *folder)
{
    char end[300];
    struct gyre_comm *larger;
    if (!getenv("RANK"))
        return come_new(folder);
    name_end(end, sizeof end, folder);
    if (scene_begin())
        return -1;
    scene_arm(true);
    if (take_in(end, &larger))
        return -1;
    gyre_finalize(scene.comm);
    scene.comm = larger;
    return scene_wrote(scene_greatest(scene.input), "all_reduce with the newcomer", SCENE_COUNT)
               ? 0
               : -1;
}
