/* Pages that a peer passes: its own is taken, and what could shrink under a mapping is not. */
#include "rig/file_room.h"
#include "rig/test.h"

#include "transport/join/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint8_t key[GYRE_KEY_BYTES] = {1, 2, 3};

static void a_page_of_the_session_is_taken(void **state)
{
    static const uint8_t other[GYRE_KEY_BYTES] = {3, 2, 1};
    int fd = gyre_page_make(key, 7, GYRE_PAGE_BYTES);
    assert_true(fd >= 0);
    assert_int_equal(gyre_page_try(key, 7, GYRE_PAGE_BYTES, fd), 0);
    assert_int_equal(gyre_page_try(key, 8, GYRE_PAGE_BYTES, fd), EBADMSG);
    assert_int_equal(gyre_page_try(other, 7, GYRE_PAGE_BYTES, fd), EBADMSG);
    assert_int_equal(gyre_page_try(key, 7, GYRE_PAGE_BYTES, -1), EBADF);
    close(fd);
}

static void a_page_of_another_length_is_refused(void **state)
{
    int fd = gyre_page_make(key, 7, 10 * GYRE_PAGE_BYTES);
    assert_int_equal(gyre_page_try(key, 7, 10 * GYRE_PAGE_BYTES, fd), 0);
    assert_int_equal(gyre_page_try(key, 7, GYRE_PAGE_BYTES, fd), EBADF);
    close(fd);
}

/* Without the look at the limit the signal would end this process. */
static void a_page_beyond_the_limit_of_files_is_refused(void **state)
{
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 2 * GYRE_PAGE_BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(gyre_page_make(key, 7, 3 * GYRE_PAGE_BYTES), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* The content is right in both; a regular file has no seals at all, and its F_GET_SEALS fails. */
static void a_page_that_could_shrink_is_refused(void **state)
{
    char content[4096];
    int page = gyre_page_make(key, 7, GYRE_PAGE_BYTES), bare = memfd_create("bare", MFD_CLOEXEC);
    assert_int_equal(pread(page, content, sizeof content, 0), sizeof content);
    int file = open(file_room_make("page", content, sizeof content), O_RDWR | O_CLOEXEC);
    assert_int_equal(write(bare, content, sizeof content), sizeof content);
    assert_int_equal(gyre_page_try(key, 7, GYRE_PAGE_BYTES, file), EPERM);
    assert_int_equal(gyre_page_try(key, 7, GYRE_PAGE_BYTES, bare), EPERM);
    close(file);
    close(bare);
    close(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_the_session_is_taken),
        cmocka_unit_test(a_page_of_another_length_is_refused),
        cmocka_unit_test(a_page_beyond_the_limit_of_files_is_refused),
        cmocka_unit_test(a_page_that_could_shrink_is_refused),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
