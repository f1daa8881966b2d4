/* Regular files: what is none is refused without waiting, and what is read is private. */
#include "base/disk/regular.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *written(const char *name, const char *content)
{
    FILE *file = fopen(file_room_name(name), "we");
    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
    return file_room_name(name);
}

static int read_file(const char *path, uint64_t most, char **content, uint64_t *length,
                     const char *told)
{
    struct gyre_trouble trouble = {0};
    int status = gyre_regular_read(path, most, content, length, &trouble);
    assert_int_equal(status, trouble.status);
    assert_non_null(strstr(trouble.text, told));
    return status;
}

static void a_file_is_read_with_a_zero_behind(void **state)
{
    char *content;
    uint64_t length;
    assert_int_equal(read_file(written("plain", "12345"), 5, &content, &length, ""), 0);
    assert_int_equal(length, 5);
    assert_string_equal(content, "12345");
    free(content);
    assert_int_equal(read_file(written("empty", ""), 0, &content, &length, ""), 0);
    assert_int_equal(length, 0);
    assert_string_equal(content, "");
    free(content);
}

static void a_file_too_long_or_missing_is_refused(void **state)
{
    char *content;
    uint64_t length;
    assert_int_equal(read_file(written("long", "123456"), 5, &content, &length,
                               "has 6 bytes, at most 5 are allowed"),
                     GYRE_INVALID);
    assert_null(content);
    assert_int_equal(
        read_file(file_room_name("missing"), 5, &content, &length, "cannot open it: No such"),
        -ENOENT);
}

/* A plain open of the FIFO would wait until the test's time is over. */
static void what_is_no_regular_file_is_refused(void **state)
{
    struct stat about;
    char *content;
    uint64_t length;
    assert_int_equal(mkfifo(file_room_name("fifo"), 0600), 0);
    assert_int_equal(gyre_regular_open(file_room_name("fifo"), 0, &about), GYRE_INVALID);
    assert_int_equal(
        read_file(file_room_name("fifo"), 5, &content, &length, "is not a regular file"),
        GYRE_INVALID);
    assert_int_equal(gyre_regular_open("/dev/null", 0, &about), GYRE_INVALID);
    assert_int_equal(gyre_regular_open(file_room, 0, &about), GYRE_INVALID);
    char target[128];
    strcpy(target, written("target", "x"));
    assert_int_equal(symlink(target, file_room_name("link")), 0);
    assert_int_equal(gyre_regular_open(file_room_name("link"), O_NOFOLLOW, &about), -ELOOP);
    int fd = gyre_regular_open(file_room_name("link"), 0, &about);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(about.st_size, 1);
    close(fd);
}

/* The first write(2) takes a part, the next none. */
static void what_does_not_fit_is_told(void **state)
{
    struct rlimit limit, low;
    int fd = open(written("short", ""), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    low = (struct rlimit){.rlim_cur = 10, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    bool fits = gyre_regular_write(fd, "12345678", 8), whole = gyre_regular_write(fd, "123", 3);
    const int error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(fits);
    assert_false(whole);
    assert_int_equal(error, EFBIG);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 10);
    close(fd);
}

static void seals_are_all_or_none(void **state)
{
    int sealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int plain = open(written("unsealed", "x"), O_RDWR | O_CLOEXEC);
    assert_true(sealed >= 0 && plain >= 0);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_true(gyre_has_seals(sealed, F_SEAL_SHRINK));
    assert_false(gyre_has_seals(sealed, F_SEAL_SHRINK | F_SEAL_GROW));
    assert_false(gyre_has_seals(plain, F_SEAL_SHRINK));
    assert_false(gyre_has_seals(-1, F_SEAL_SHRINK));
    close(sealed);
    close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_with_a_zero_behind),
        cmocka_unit_test(a_file_too_long_or_missing_is_refused),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(seals_are_all_or_none),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
