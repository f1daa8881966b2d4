/* Pages that a peer passes: its own is taken, and what could shrink under a mapping is not. */
#include "rig/file_room.h"
#include "rig/test.h"

#include "transport/join/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint8_t key[GYRE_KEY_BYTES] = {1, 2, 3};

static void a_page_of_the_session_is_taken(void **state)
{
    static const uint8_t other[GYRE_KEY_BYTES] = {3, 2, 1};
    int fd = gyre_page_make(key, 7);
    assert_true(fd >= 0);
    assert_int_equal(gyre_page_try(key, 7, fd), 0);
    assert_int_equal(gyre_page_try(key, 8, fd), EBADMSG);
    assert_int_equal(gyre_page_try(other, 7, fd), EBADMSG);
    assert_int_equal(gyre_page_try(key, 7, -1), EBADF);
    close(fd);
}

/* The content is right in both; a regular file has no seals at all, and its F_GET_SEALS fails. */
static void a_page_that_could_shrink_is_refused(void **state)
{
    char content[4096];
    int page = gyre_page_make(key, 7), bare = memfd_create("bare", MFD_CLOEXEC);
    assert_int_equal(pread(page, content, sizeof content, 0), sizeof content);
    int file = open(file_room_make("page", content, sizeof content), O_RDWR | O_CLOEXEC);
    assert_int_equal(write(bare, content, sizeof content), sizeof content);
    assert_int_equal(gyre_page_try(key, 7, file), EPERM);
    assert_int_equal(gyre_page_try(key, 7, bare), EPERM);
    close(file);
    close(bare);
    close(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_the_session_is_taken),
        cmocka_unit_test(a_page_that_could_shrink_is_refused),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
