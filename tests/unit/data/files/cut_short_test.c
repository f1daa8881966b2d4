/* A mapped file that is cut shorter: the process that reads on still ends by SIGBUS, and has named
 * the file, whichever thread read. */
#include "rig/file_room.h"
#include "rig/test.h"

#include "base/machine/thread.h"
#include "data/files/cut_short.h"
#include "data/files/file.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

static char page[4096];

static void *read_last(void *argument)
{
    const struct gyre_file *file = argument;
    return *(const volatile uint8_t *)(file->data + file->length - 1) ? argument : NULL;
}

/* In the child: many files are mapped and unmapped, then one is mapped, cut and read. */
static void read_what_was_cut(bool by_thread)
{
    struct gyre_file other, file;
    struct gyre_trouble trouble = {0};
    const struct rlimit no_core = {0, 0};
    pthread_t thread;
    setrlimit(RLIMIT_CORE, &no_core);
    gyre_cut_short_tell();
    file_room_make("other", page, sizeof page);
    for (int i = 0; i < 100; i++) {
        gyre_file_map(file_room_name("other"), &other, &trouble);
        gyre_file_unmap(&other);
    }
    gyre_file_map(file_room_make("data", page, sizeof page), &file, &trouble);
    if (truncate(file_room_name("data"), 0))
        _exit(1);
    if (by_thread && !gyre_thread_start(&thread, read_last, &file))
        pthread_join(thread, NULL);
    else
        read_last(&file);
    _exit(2);
}

static void expect_the_name(bool by_thread)
{
    char text[2048];
    int end[2], status;
    size_t length = 0;
    ssize_t got;
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(end[1], STDERR_FILENO);
        read_what_was_cut(by_thread);
    }
    close(end[1]);
    while ((got = read(end[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(end[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    if (!strstr(text, "/data was cut shorter while this process read it"))
        fail_msg("%s", text);
}

static void the_file_is_named(void **state)
{
    expect_the_name(false);
    expect_the_name(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_file_is_named)};
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
