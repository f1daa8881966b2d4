/* Lines on standard error. */
#include "base/log.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child process writes to standard error while it runs `body` with GYRE_LOG=`level`. */
static void capture(const char *level, void (*body)(void), char *text, size_t room)
{
    int end[2];
    size_t length = 0;
    ssize_t got;
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("GYRE_LOG", level, 1);
        dup2(end[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(end[1]);
    while (length + 1 < room && (got = read(end[0], text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(end[0]);
    waitpid(child, NULL, 0);
}

static void say_each_level(void)
{
    gyre_log(GYRE_LOG_ERROR, "an error");
    gyre_log_identity(3, 3);
    errno = EBUSY;
    gyre_log(GYRE_LOG_WARN, "a warning %d", 7);
    if (errno != EBUSY)
        gyre_log(GYRE_LOG_ERROR, "errno changed");
    gyre_log_identity(0, 7);
    gyre_log(GYRE_LOG_INFO, "a fact\n");
    gyre_log(GYRE_LOG_DEBUG, "a detail");
}

static void say_escapes(void)
{
    gyre_log(GYRE_LOG_ERROR, "tensor \x1b[2J\xc2\x9b"
                             "2J\nmore");
}

static void test_a_line_is_printable(void **state)
{
    char text[512];
    capture("warn", say_escapes, text, sizeof text);
    assert_non_null(strstr(text, "]: tensor ?[2J??2J\nmore\n"));
}

static void test_log_levels(void **state)
{
    char text[4096], wanted[4096];
    char host[256] = {0}; /* not from the log: it reads its level when it is first used */
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    capture("warn", say_each_level, text, sizeof text);
    snprintf(wanted, sizeof wanted, "gyre[%s]: an error\ngyre[rank 3 @ %s]: a warning 7\n", host,
             host);
    assert_string_equal(text, wanted);
    capture("info", say_each_level, text, sizeof text);
    assert_non_null(strstr(text, "gyre[ranks 0-7 @ "));
    assert_non_null(strstr(text, "]: a fact\n"));
    assert_null(strstr(text, "\n\n"));
    assert_null(strstr(text, "a detail"));
    capture("loud", say_each_level, text, sizeof text);
    assert_non_null(strstr(text, "GYRE_LOG is \"loud\": expected error, warn, info or debug"));
    assert_null(strstr(text, "a fact"));
    assert_string_equal(gyre_host_name(), host);
}

static void say_too_much(void)
{
    static char text[10000];
    memset(text, 'x', sizeof text - 1);
    gyre_log(GYRE_LOG_ERROR, "%s", text);
}

static void test_log_cuts_long_lines(void **state)
{
    char text[8192];
    capture("warn", say_too_much, text, sizeof text);
    size_t length = strlen(text);
    assert_in_range(length, 1024, 4096);
    assert_string_equal(text + length - 5, "x...\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_printable),
        cmocka_unit_test(test_log_levels),
        cmocka_unit_test(test_log_cuts_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
