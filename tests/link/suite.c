/* The suite as a table: all cases, under the name of the driver that is tested. */
#include "link/run.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>

#define CASES_MOST 64
#define KEPT       (32 << 20)

static int add_cases(struct CMUnitTest *tests, int count, const struct link_case *cases,
                     const struct gyre_link_bench *bench)
{
    static char names[CASES_MOST][96];
    for (; cases->run; cases++, count++) {
        assert(count < CASES_MOST);
        snprintf(names[count], sizeof names[count], "%s: %s", link_suite_name, cases->name);
        tests[count] = (struct CMUnitTest){
            .name = names[count], .test_func = cases->run, .initial_state = (void *)bench};
    }
    return count;
}

int gyre_link_suite(const char *name, const struct gyre_link_bench *bench)
{
    static struct CMUnitTest tests[CASES_MOST];
    mallopt(M_MMAP_THRESHOLD, KEPT); /* a case's pages are the next one's */
    mallopt(M_TRIM_THRESHOLD, 2 * KEPT);
    link_suite_name = name;
    int count = add_cases(tests, 0, link_messages, bench);
    count = add_cases(tests, count, link_now, bench);
    count = add_cases(tests, count, link_flow, bench);
    count = add_cases(tests, count, link_endings, bench);
    count = add_cases(tests, count, link_wires, bench);
    return _cmocka_run_group_tests(name, tests, (size_t)count, NULL, NULL);
}
