/* Node lists: what they stand for, and that no list, however wrong or large, does harm. */
#include "transport/job/job.h"
#include "base/rng.h"
#include "rig/test.h"

#include <stdio.h>
#include <string.h>

struct names {
    char text[4096];
    size_t length, count;
};

static int append(const char *name, void *context)
{
    struct names *names = context;
    int added = snprintf(names->text + names->length, sizeof names->text - names->length, "%s%s",
                         names->count ? " " : "", name);
    names->length += (size_t)added;
    names->count++;
    return names->length < sizeof names->text ? 0 : GYRE_INVALID;
}

static int count(const char *name, void *context)
{
    *(size_t *)context += strlen(name) > 0;
    return 0;
}

static int stop_at_third(const char *name, void *context)
{
    size_t *calls = context;
    return ++*calls == 3 ? -42 : 0;
}

static void test_lists(void **state)
{
    static const char *const lists[][2] = {
        {"gnode[10,20,25,37]", "gnode10 gnode20 gnode25 gnode37"},
        {"a[01-03,07]b,c", "a01b a02b a03b a07b c"},
        {"gnode[10,20-22]x,b", "gnode10x gnode20x gnode21x gnode22x b"},
        {"localhost", "localhost"},
        {"n[8-11]", "n8 n9 n10 n11"},
        {"n[098-101]", "n098 n099 n100 n101"},
        {"[1-2]", "1 2"},
        {"rack[1-2]n[08-09],login", "rack1n08 rack1n09 rack2n08 rack2n09 login"},
        {"a[1-2][1-2][0]", "a110 a120 a210 a220"},
        {"a,a", "a a"},
        {"x[999999999]", "x999999999"},
        {"gpu-1.cluster.example,g_2", "gpu-1.cluster.example g_2"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct names names = {.length = 0};
        struct gyre_trouble trouble = {0};
        assert_int_equal(gyre_node_list_expand(lists[i][0], append, &names, &trouble), 0);
        assert_string_equal(names.text, lists[i][1]);
    }
}

static void refuse(const char *list, const char *told)
{
    size_t calls = 0;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_node_list_expand(list, count, &calls, &trouble), GYRE_INVALID);
    assert_int_equal(calls, 0);
    if (!strstr(trouble.text, told)) {
        fail_msg("\"%s\" is not in \"%s\"", told, trouble.text);
    }
}

static void test_malformed_lists_are_refused(void **state)
{
    refuse("", "character 1: a name is empty");
    refuse(",a", "character 1: a name is empty");
    refuse("a,", "character 3: a name is empty");
    refuse("a,,b", "character 3: a name is empty");
    refuse("a[", "character 3: expected a number");
    refuse("a[1", "character 4: expected , - or ]");
    refuse("a[]", "character 3: expected a number");
    refuse("a[1,]", "character 5: expected a number");
    refuse("a[1-]", "character 5: expected a number");
    refuse("a[-1]", "character 3: expected a number");
    refuse("a[3-1]", "character 3: the range runs backwards");
    refuse("a[1[2]]", "character 4: expected , - or ]");
    refuse("a[1]]", "character 5: this character");
    refuse("a]", "character 2: this character");
    refuse("a b", "character 2: this character");
    refuse("a[x]", "character 3: expected a number");
    refuse("b,a[1 ]", "character 6: expected , - or ]");
}

static void test_absurd_lists_are_bounded(void **state)
{
    refuse("a[0-999999999]", "more than 65536 names");
    refuse("a[0-9999999999]", "at most 9 digits");
    refuse("a[0-65536]", "more than 65536 names");
    refuse("a[0-999][0-999]", "more than 65536 names");
    refuse("a[0-65535],b", "more than 65536 names");
    refuse("a[1][1][1][1][1][1][1][1][1]", "8 brackets");
    refuse("a[0-99999][0-99999][0-99999][0-99999]", "more than 65536 names");
    size_t names = 0;
    assert_int_equal(gyre_node_list_expand("a[0-65535]", count, &names, NULL), 0);
    assert_int_equal(names, 65536);
}

static void test_long_names(void **state)
{
    char list[300];
    size_t names = 0;
    memset(list, 'a', 255);
    list[255] = '\0';
    assert_int_equal(gyre_node_list_expand(list, count, &names, NULL), 0);
    assert_int_equal(names, 1);
    strcpy(list + 254, "[08-12]");
    assert_int_equal(gyre_node_list_expand(list, count, &names, NULL), GYRE_INVALID);
    strcpy(list + 253, "[08-12]");
    assert_int_equal(gyre_node_list_expand(list, count, &names, NULL), 0);
    memset(list, 'a', 256);
    list[256] = '\0';
    assert_int_equal(gyre_node_list_expand(list, count, &names, NULL), GYRE_INVALID);
}

static void test_a_status_ends_it(void **state)
{
    size_t calls = 0;
    assert_int_equal(gyre_node_list_expand("a[1-9],b", stop_at_third, &calls, NULL), -42);
    assert_int_equal(calls, 3);
}

/* Any text gives names or a refusal; the sanitizers watch the reads. */
static void test_random_lists(void **state)
{
    static const char letters[] = "[[[]]],,,---0123456789abx";
    struct gyre_rng rng;
    size_t accepted = 0;
    gyre_rng_seed(&rng, 20260801);
    for (int round = 0; round < 20000; round++) {
        char list[16];
        size_t names = 0, length = gyre_rng_below(&rng, sizeof list);
        for (size_t i = 0; i < length; i++) {
            list[i] = letters[gyre_rng_below(&rng, sizeof letters - 1)];
        }
        list[length] = '\0';
        int status = gyre_node_list_expand(list, count, &names, NULL);
        assert_true(status == 0 ? names > 0 && names <= 65536 : names == 0);
        accepted += status == 0;
    }
    assert_true(accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_malformed_lists_are_refused),
        cmocka_unit_test(test_absurd_lists_are_bounded),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_a_status_ends_it),
        cmocka_unit_test(test_random_lists),
    };
    return cmocka_run_group_tests_name("job_slurm", tests, NULL, NULL);
}
