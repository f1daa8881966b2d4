/* Checkpoints on a disk that fails and in a process that dies: every call that changes the folder
 * is counted on its way (the linker sends them through here), and a save is cut at each of them in
 * turn. Whatever was cut, a whole generation opens, no older one is lost, and the next save clears
 * up. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig/checkpoint_rig.h"

#include "checkpoint/inside.h"
#include "rig/test.h"

#define NEVER   (1 << 30)
#define CRASHED 42

static struct gyre_trouble trouble;
static char folder[256];

/* -- the disk ---------------------------------------------------------------------------------- */

static enum { CRASH, FAIL } at_the_end;
static int calls_left = NEVER; /* until it crashes or fails */
static int64_t room_left = -1; /* bytes until the disk is full; -1: it never is */
static bool cannot_exchange;
static char asked[256]; /* the calls, one letter each */

/* Whether this call is the one that does not happen. */
static bool cut(char letter)
{
    size_t length = strlen(asked);
    if (length < sizeof asked - 1 && letter)
        memcpy(asked + length, (char[]){letter, '\0'}, 2);
    if (calls_left == NEVER || calls_left-- > 0)
        return false;
    if (at_the_end == CRASH)
        _exit(CRASHED);
    calls_left = NEVER;
    errno = EIO;
    return true;
}

ssize_t __real_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);

/* Cut in the middle: half of it is written. */
ssize_t __wrap_write(int fd, const void *data, size_t length)
{
    if (calls_left == 0)
        length = (size_t)__real_write(fd, data, length / 2);
    if (cut(0))
        return -1;
    if (room_left >= 0 && (int64_t)length > room_left)
        length = (size_t)room_left;
    room_left -= room_left < 0 ? 0 : (int64_t)length;
    errno = ENOSPC;
    return length ? __real_write(fd, data, length) : -1;
}

/* The machine stays up, so the disk need not move. */
int __wrap_fsync(int fd)
{
    struct stat about;
    fstat(fd, &about);
    return cut(S_ISDIR(about.st_mode) ? 'd' : 's') ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
    return cut('r') ? -1 : __real_rename(from, to);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    errno = EINVAL;
    if (cannot_exchange)
        return -1;
    return cut('x') ? -1 : __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return cut('m') ? -1 : __real_mkdir(path, mode);
}

int __wrap_unlinkat(int fd, const char *path, int flags)
{
    return cut('u') ? -1 : __real_unlinkat(fd, path, flags);
}

int __wrap_rmdir(const char *path)
{
    return cut('f') ? -1 : __real_rmdir(path);
}

/* -- what is looked for ------------------------------------------------------------------------ */

static void another_folder(void)
{
    static int number;
    snprintf(folder, sizeof folder, "%s/%d", file_room, number++);
}

static int fresh(void **state)
{
    (void)state;
    trouble = (struct gyre_trouble){0};
    another_folder();
    calls_left = NEVER;
    room_left = -1;
    cannot_exchange = false;
    setenv("GYRE_LOG", "error", 1);
    return 0;
}

static void save(uint64_t step, uint64_t seed)
{
    trouble = (struct gyre_trouble){0};
    if (rig_save_seed(folder, step, seed, 2, &trouble))
        fail_msg("%s", trouble.text);
}

/* A generation opens and holds what its own text says; the seed. */
static uint64_t opened_seed(int cut_at)
{
    struct gyre_generation *checkpoint;
    trouble = (struct gyre_trouble){0};
    if (gyre_generation_newest(&checkpoint, folder, NULL, &trouble))
        fail_msg("cut at %d: %s", cut_at, trouble.text);
    uint64_t seed = strtoull(gyre_generation_text(checkpoint, "seed"), NULL, 10);
    assert_true(rig_holds(checkpoint, seed));
    gyre_generation_close(checkpoint);
    return seed;
}

static bool is_whole(uint64_t step)
{
    struct gyre_generation *checkpoint;
    int status = gyre_generation_open(&checkpoint, folder, step, NULL);
    gyre_generation_close(checkpoint);
    return status == 0;
}

/* -- a save that is cut ------------------------------------------------------------------------ */

/* Before it there are the steps of `before`; it saves `step` with seed 1000. Step 10 or 20 must be
 * whole after every cut, whichever `stays` is; 0: there was none. */
struct scene {
    const char *name;
    uint64_t before[3], step, stays;
    int damaged; /* this one of them, if not 0 */
    bool cannot_exchange;
};

static const struct scene scenes[] = {
    {"the first", {0}, 10, 0, 0, false},
    {"the second", {10}, 20, 10, 0, false},
    {"the third, one is removed", {10, 20}, 30, 20, 0, false},
    {"a step that is there", {10, 20}, 20, 10, 0, false},
    {"the only step", {10}, 10, 10, 0, false},
    {"a step that is damaged", {10, 20}, 20, 10, 20, false},
    {"the last is damaged", {10, 20}, 30, 10, 20, false},
    {"a step that is there, without exchange", {10, 20}, 20, 10, 0, true},
};

static void set(const struct scene *scene)
{
    char path[GYRE_GENERATION_PATH_MAX];
    another_folder();
    calls_left = NEVER;
    for (int i = 0; scene->before[i]; i++)
        save(scene->before[i], scene->before[i]);
    if (scene->damaged) {
        gyre_generation_path(path, folder, (uint64_t)scene->damaged, "model.safetensors", NULL);
        assert_int_equal(truncate(path, 5), 0);
    }
    cannot_exchange = scene->cannot_exchange;
}

/* Whether it was cut at all; the status of the save that failed. */
static bool save_cut_at(const struct scene *scene, int at, int *status)
{
    calls_left = at;
    if (at_the_end == FAIL) {
        *status = rig_save_seed(folder, scene->step, 1000, 2, NULL);
        bool was_cut = calls_left == NEVER;
        calls_left = NEVER;
        return was_cut;
    }
    pid_t child = fork();
    if (child == 0)
        _exit(rig_save_seed(folder, scene->step, 1000, 2, NULL) ? 1 : 0);
    calls_left = NEVER;
    assert_int_equal(waitpid(child, status, 0), child);
    assert_true(WIFEXITED(*status) &&
                (WEXITSTATUS(*status) == 0 || WEXITSTATUS(*status) == CRASHED));
    return WEXITSTATUS(*status) == CRASHED;
}

static void check_after_cut(const struct scene *scene, int at)
{
    uint64_t stays = scene->stays, seed;
    if (stays && !is_whole(stays))
        fail_msg("%s, cut at %d: step %" PRIu64 " is lost", scene->name, at, stays);
    if (stays) {
        seed = opened_seed(at);
        if (seed != 1000 && seed != 10 && seed != 20)
            fail_msg("%s, cut at %d: seed %" PRIu64, scene->name, at, seed);
    }
    calls_left = NEVER;
    save(90, 90);
    save(91, 91);
    assert_int_equal(opened_seed(at), 91);
    if (rig_count(folder) != 2)
        fail_msg("%s, cut at %d: %d entries in the folder", scene->name, at, rig_count(folder));
}

static void cut_everywhere(const struct scene *scene)
{
    int at = 0, status;
    for (bool was_cut = true; was_cut; at++) {
        set(scene);
        was_cut = save_cut_at(scene, at, &status);
        if (!was_cut)
            assert_int_equal(opened_seed(at), 1000);
        check_after_cut(scene, at);
    }
    assert_in_range(at, 20, 60);
}

static void a_crash_anywhere_leaves_what_opens(void **state)
{
    at_the_end = CRASH;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        cut_everywhere(&scenes[i]);
}

static void a_failure_anywhere_leaves_what_opens(void **state)
{
    at_the_end = FAIL;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        cut_everywhere(&scenes[i]);
    const struct scene put_back = {"the only step, without exchange", {10}, 10, 10, 0, true};
    cut_everywhere(&put_back);
}

/* A failed save leaves nothing beside, as soon as it returns. */
static void a_failure_clears_up(void **state)
{
    at_the_end = FAIL;
    int status = -1;
    for (int at = 1; status; at++) { /* 0: DIR itself */
        set(&scenes[1]);
        save_cut_at(&scenes[1], at, &status);
        if (status != 0 && status != -EIO)
            fail_msg("cut at %d: status %d", at, status);
        assert_int_equal(rig_count(folder), is_whole(20) ? 2 : 1);
    }
}

/* -- order ------------------------------------------------------------------------------------- */

/* Only in this order a power cut at any point leaves what opens: m folder, s file, r name, d folder
 * of the name; then u and f, what is removed. x changes two names. */
static void the_disk_is_asked_in_order(void **state)
{
    asked[0] = '\0';
    save(10, 10);
    assert_string_equal(asked, "md"
                               "m"
                               "srd"
                               "srd"
                               "srd"
                               "rd");
    save(20, 20);
    asked[0] = '\0';
    save(30, 30);
    assert_string_equal(asked, "m"
                               "m"
                               "srd"
                               "srd"
                               "srd"
                               "rd"
                               "ruuuf");
    asked[0] = '\0';
    save(30, 31);
    assert_string_equal(asked, "m"
                               "m"
                               "srd"
                               "srd"
                               "srd"
                               "rxd"
                               "uuuf");
    asked[0] = '\0';
    cannot_exchange = true;
    save(30, 32);
    assert_string_equal(asked, "m"
                               "m"
                               "srd"
                               "srd"
                               "srd"
                               "rrrd"
                               "uuuf");
    assert_int_equal(opened_seed(0), 32);
}

/* -- a full disk ------------------------------------------------------------------------------- */

static void a_full_disk_is_told_and_leaves_the_old(void **state)
{
    static const char *const files[] = {
        "/model.safetensors: ", "/training.safetensors: ", "/manifest.json: "};
    int full = 0, named[3] = {0};
    save(10, 10);
    for (int64_t room = 0;; room += 7) {
        room_left = room;
        trouble = (struct gyre_trouble){0};
        int status = rig_save_seed(folder, 20, 20, 2, &trouble);
        room_left = -1;
        if (!status)
            break;
        full++;
        assert_int_equal(status, -ENOSPC);
        assert_non_null(strstr(trouble.text, "the checkpoint of step 20, 112 bytes of tensors, is "
                                             "not saved: "));
        assert_non_null(strstr(trouble.text, " bytes are free: "));
        assert_non_null(strstr(trouble.text, "cannot write to it: No space left on device"));
        for (int i = 0; i < 3; i++)
            named[i] += strstr(trouble.text, files[i]) != NULL;
        assert_int_equal(rig_count(folder), 1);
        assert_int_equal(opened_seed(0), 10);
    }
    assert_true(named[0] > 10 && named[1] > 10 && named[2] > 10);
    assert_int_equal(named[0] + named[1] + named[2], full);
    assert_int_equal(opened_seed(0), 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {
        TEST(a_crash_anywhere_leaves_what_opens),
        TEST(a_failure_anywhere_leaves_what_opens),
        TEST(a_failure_clears_up),
        TEST(the_disk_is_asked_in_order),
        TEST(a_full_disk_is_told_and_leaves_the_old),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
