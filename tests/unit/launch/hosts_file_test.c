/* Files of hosts: what is read, and what each wrong line is told. */
#include "launch/hosts_file.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gyre_hosts hosts;
static struct gyre_seating seating;
static struct gyre_trouble trouble;
static char path[] = "/tmp/gyre-hosts-XXXXXX";

static int read_text(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    trouble = (struct gyre_trouble){0};
    return gyre_hosts_file_read(path, 3, &hosts, &seating, &trouble);
}

static void each_line_is_a_host(void **state)
{
    static const char text[] = "# the first rack\n"
                               "\n"
                               "a:4\n"
                               "  me@b slots=2   # as Open MPI writes it\r\n"
                               "[fe80::1]:1\n"
                               "c";
    (void)state;
    assert_int_equal(read_text(text, sizeof text - 1), 0);
    assert_int_equal(seating.nodes, 4);
    assert_string_equal(hosts.name[0], "a");
    assert_int_equal(seating.size[0], 4);
    assert_string_equal(hosts.name[1], "me@b");
    assert_int_equal(seating.size[1], 2);
    assert_string_equal(hosts.name[2], "[fe80::1]");
    assert_int_equal(seating.size[2], 1);
    assert_string_equal(hosts.name[3], "c");
    assert_int_equal(seating.size[3], 3);
}

static void expect_host(int node, const char *name, int size)
{
    assert_string_equal(hosts.name[node], name);
    assert_int_equal(seating.size[node], size);
}

static void a_line_may_hold_lists(void **state)
{
    static const char text[] = "rack[1-2]n[08-10],login:2\n"
                               "me@g[01,07]:8\n"
                               "h[1-2] slots=5\n";
    static const char *const racked[] = {"rack1n08", "rack1n09", "rack1n10",
                                         "rack2n08", "rack2n09", "rack2n10"};
    (void)state;
    assert_int_equal(read_text(text, sizeof text - 1), 0);
    assert_int_equal(seating.nodes, 11);
    for (int i = 0; i < 6; i++)
        expect_host(i, racked[i], 3);
    expect_host(6, "login", 2);
    expect_host(7, "me@g01", 8);
    expect_host(8, "me@g07", 8);
    expect_host(9, "h1", 5);
    expect_host(10, "h2", 5);
}

/* A list may be longer than a host's name. */
static void a_list_may_be_long(void **state)
{
    char text[4000] = "g[0";
    (void)state;
    for (int i = 2; i < 600; i += 2)
        sprintf(text + strlen(text), ",%d", i);
    strcat(text, "]:2");
    assert_int_equal(read_text(text, strlen(text)), 0);
    assert_int_equal(seating.nodes, 300);
    expect_host(299, "g598", 2);
}

static void expect_refused(const char *text, size_t length, const char *part)
{
    static struct gyre_seating before;
    before = seating;
    assert_int_equal(read_text(text, length), GYRE_INVALID);
    if (!strstr(trouble.text, part) || !strstr(trouble.text, path))
        fail_msg("\"%s\": %s", text, trouble.text);
    assert_memory_equal(&before, &seating, sizeof before);
}

static void wrong_lines_are_named(void **state)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"a:1\nb:0\n", ":2: the line is \"b:0\": expected a whole number from 1 to 4096, not"},
        {"a:x", ":1: the line is \"a:x\""},
        {"a:1\n\n-oProxyCommand=x", ":3: the line has the host name '-oProxyCommand=x'"},
        {"a;reboot", ":1: the line has the host name 'a;reboot'"},
        {"a slots=0", ":1: slots is \"0\""},
        {"a max_slots=3", ":1: \"max_slots=3\" stands behind the host"},
        {"a slots=3 b", ":1: \"b\" stands behind the host"},
        {"a,,b", ":1: the line has the host name ''"},
        {"a\ng[1-2\n", ":2: the line: node list \"g[1-2\" makes no sense at character 6"},
        {"g[1-2]\ng2:4\n", ":2: host 'g2' stands on line 1, too"},
        {"g[01-02],g01", ":1: host 'g01' stands on line 1, too"},
        {"-g[1-2]", ":1: the line has the host name '-g1'"},
        {"g[0-1024]", ":1: the line names more than 1024 nodes"},
        {"a:1\nb:1\na:2", ":3: host 'a' stands on line 1, too"},
        {"", " names no host"},
        {"# nobody\n\n", " names no host"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(wrong[i].text, strlen(wrong[i].text), wrong[i].part);
    expect_refused("a:1\nb\0c\n", 8, " has a zero byte");
}

static void a_long_name_is_not_cut(void **state)
{
    char text[GYRE_HOST_MAX + 2];
    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    expect_refused(text, strlen(text), ":1: ");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    trouble = (struct gyre_trouble){0};
    assert_true(gyre_hosts_file_read("/tmp/gyre-no-such-file", 1, &hosts, &seating, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "/tmp/gyre-no-such-file"));
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_hosts_file_read("/dev/null", 1, &hosts, &seating, &trouble),
                     GYRE_INVALID);
}

/* The hosts of a file may have more ranks than the job. */
static void a_seating_is_cut(void **state)
{
    static struct gyre_seating cut;
    (void)state;
    cut = (struct gyre_seating){3, {4, 2, 1}};
    gyre_seating_cut(&cut, 0);
    assert_int_equal(gyre_seating_world(&cut), 7);
    gyre_seating_cut(&cut, 5);
    assert_int_equal(cut.nodes, 2);
    assert_int_equal(cut.size[1], 1);
    gyre_seating_cut(&cut, 4);
    assert_int_equal(cut.nodes, 1);
    assert_int_equal(cut.size[0], 4);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_a_host),    cmocka_unit_test(a_line_may_hold_lists),
        cmocka_unit_test(a_list_may_be_long),     cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(a_long_name_is_not_cut), cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_seating_is_cut),
    };
    return cmocka_run_group_tests_name("files of hosts", tests, make_file, remove_file);
}
