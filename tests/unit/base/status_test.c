/* Names of statuses, and the record of a first failure. */
#include "base/status.h"
#include "rig/test.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

static void test_status_names(void **state)
{
    assert_string_equal(gyre_status_name(GYRE_OK), "GYRE_OK");
    assert_string_equal(gyre_status_name(GYRE_AGAIN), "GYRE_AGAIN");
    assert_string_equal(gyre_status_name(GYRE_PEER_LOST), "GYRE_PEER_LOST");
    assert_string_equal(gyre_status_name(GYRE_LAUNCHER_GONE), "GYRE_LAUNCHER_GONE");
    assert_string_equal(gyre_status_name(-ENOMEM), "Cannot allocate memory");
    assert_string_equal(gyre_status_name(-999), "unknown status");
    assert_string_equal(gyre_status_name(INT_MIN), "unknown status");
    for (int status = GYRE_LAUNCHER_GONE; status <= GYRE_PEER_LOST; status++)
        assert_memory_equal(gyre_status_name(status), "GYRE_", 5);
}

static void test_first_trouble_wins(void **state)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_trouble_wrap(&trouble, "too early"), 0);
    assert_string_equal(trouble.text, "");
    assert_int_equal(gyre_trouble_set(&trouble, -EPIPE, "rank %d died", 3), -EPIPE);
    assert_int_equal(gyre_trouble_set(&trouble, GYRE_TIMED_OUT, "the echo"), GYRE_TIMED_OUT);
    assert_int_equal(gyre_trouble_wrap(&trouble, "all_reduce %d", 7), -EPIPE);
    assert_int_equal(trouble.status, -EPIPE);
    assert_string_equal(trouble.text, "all_reduce 7: rank 3 died");
    assert_int_equal(gyre_trouble_set(NULL, GYRE_INVALID, "nobody listens"), GYRE_INVALID);
    assert_int_equal(gyre_trouble_wrap(NULL, "nobody listens"), 0);
}

static void test_long_trouble_is_marked(void **state)
{
    struct gyre_trouble trouble = {0};
    char text[GYRE_TROUBLE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gyre_trouble_set(&trouble, GYRE_INVALID, "%s", text); /* fits exactly */
    assert_string_equal(trouble.text, text);
    gyre_trouble_wrap(&trouble, "front");
    assert_int_equal(strlen(trouble.text), GYRE_TROUBLE_MAX - 1);
    assert_memory_equal(trouble.text, "front: xxx", 10);
    assert_string_equal(trouble.text + GYRE_TROUBLE_MAX - 5, "x...");
    memset(&trouble, 0, sizeof trouble);
    gyre_trouble_set(&trouble, GYRE_INVALID, "%sy", text);
    assert_string_equal(trouble.text + GYRE_TROUBLE_MAX - 5, "x...");
}

/* Names in it come from files and peers. */
static void test_trouble_is_printable(void **state)
{
    struct gyre_trouble trouble = {0};
    gyre_trouble_set(&trouble, GYRE_INVALID,
                     "tensor \x1b[2J\xc2\x9b"
                     "2J\x7f\xff: Öl\nmore");
    assert_string_equal(trouble.text, "tensor ?[2J??2J??: Öl\nmore");
    gyre_trouble_wrap(&trouble, "\x1b]0;title\a");
    assert_memory_equal(trouble.text, "?]0;title?: tensor ?", 20);
    gyre_refuse("'%s' is no type", "\x1b[2J");
    assert_string_equal(gyre_thread_trouble()->text, "'?[2J' is no type");
}

/* Once, and where the text has room for it. */
static void test_the_limit_of_descriptors_is_named(void **state)
{
    struct gyre_trouble trouble = {0};
    gyre_trouble_set(&trouble, -EMFILE, "eventfd: %s", strerror(EMFILE));
    assert_string_equal(trouble.text, "eventfd: Too many open files; raise `ulimit -n`");
    trouble = (struct gyre_trouble){0};
    gyre_trouble_set(&trouble, -EMFILE, "the limit is \"ulimit -n\"");
    assert_string_equal(trouble.text, "the limit is \"ulimit -n\"");
    trouble = (struct gyre_trouble){0};
    gyre_trouble_set(&trouble, -EMFILE, "%*d", GYRE_TROUBLE_MAX, 1);
    assert_int_equal(strlen(trouble.text), GYRE_TROUBLE_MAX - 1);
}

/* Where there is one. */
static void test_the_limit_of_address_space_is_named(void **state)
{
    struct gyre_trouble trouble = {0};
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 50;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    gyre_trouble_set(&trouble, -ENOMEM, "no memory");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_string_equal(trouble.text, "no memory; `ulimit -v` allows 1099511627776 KiB");
    if (before.rlim_cur != RLIM_INFINITY)
        return;
    trouble = (struct gyre_trouble){0};
    gyre_trouble_set(&trouble, -ENOMEM, "no memory");
    assert_string_equal(trouble.text, "no memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_first_trouble_wins),
        cmocka_unit_test(test_long_trouble_is_marked),
        cmocka_unit_test(test_trouble_is_printable),
        cmocka_unit_test(test_the_limit_of_descriptors_is_named),
        cmocka_unit_test(test_the_limit_of_address_space_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
