/* Making folders: those above, those that are there, and what stands in the way. */
#include "base/disk/folder.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static mode_t mode_of(const char *name)
{
    struct stat about;
    assert_int_equal(stat(file_room_name(name), &about), 0);
    assert_true(S_ISDIR(about.st_mode));
    return about.st_mode & 07777;
}

static void what_is_missing_is_made_with_the_mode(void **state)
{
    assert_int_equal(gyre_folder_make(file_room_name("a"), 0755, NULL), 0);
    assert_int_equal(gyre_folder_make(file_room_name("a//b/c/"), 0700, NULL), 0);
    assert_int_equal(mode_of("a"), 0755);
    assert_int_equal(mode_of("a/b"), 0700);
    assert_int_equal(mode_of("a/b/c"), 0700);
    assert_int_equal(gyre_folder_make(file_room_name("a/b"), 0755, NULL), 0);
    assert_int_equal(mode_of("a/b"), 0700);
    assert_int_equal(gyre_folder_make("/", 0755, NULL), 0);
    assert_int_equal(chdir(file_room), 0);
    assert_int_equal(gyre_folder_make("relative/d", 0700, NULL), 0);
    assert_int_equal(mode_of("relative/d"), 0700);
}

static void expect_failure(const char *path, int status, const char *named)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_folder_make(path, 0700, &trouble), status);
    assert_int_equal(trouble.status, status);
    assert_non_null(strstr(trouble.text, named));
}

static void what_stands_in_the_way_is_named(void **state)
{
    static char long_path[2 * PATH_MAX];
    memset(long_path, 'x', sizeof long_path - 1);
    assert_int_equal(close(creat(file_room_name("file"), 0600)), 0);
    expect_failure(file_room_name("file"), -ENOTDIR, "/file': Not a directory");
    expect_failure(file_room_name("file/below/that"), -ENOTDIR, "/file/below': Not a directory");
    assert_int_equal(symlink("nowhere", file_room_name("dangling")), 0);
    expect_failure(file_room_name("dangling"), -ENOENT, "/dangling': No such file");
    expect_failure("", -ENOENT, "'': No such file");
    expect_failure(long_path, -ENAMETOOLONG, "xxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_missing_is_made_with_the_mode, file_room_open,
                                        file_room_close),
        cmocka_unit_test_setup_teardown(what_stands_in_the_way_is_named, file_room_open,
                                        file_room_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
