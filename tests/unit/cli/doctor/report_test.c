/* How a report looks on a terminal, in a pipe and as JSON, to the byte. */
#include "cli/doctor/report.h"
#include "rig/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct gyre_doctor_title title = {"0.1.0", "a", "Linux 6.1, x86_64"};

static struct gyre_doctor_report make_report(void)
{
    struct gyre_doctor_report report = {0};
    gyre_doctor_find(&report, "cores", GYRE_DOCTOR_OK, "%d to use", 4);
    gyre_doctor_figure(&report, "usable", 4);
    gyre_doctor_find(&report, "ports", GYRE_DOCTOR_OK, "was good");
    gyre_doctor_rephrase(&report, "of \"ten\", none is free");
    gyre_doctor_worsen(&report, GYRE_DOCTOR_PROBLEM);
    gyre_doctor_worsen(&report, GYRE_DOCTOR_NOTE);
    gyre_doctor_advise(&report, "end what holds them");
    gyre_doctor_advise(&report, "or choose others");
    gyre_doctor_detail(&report, "a line below");
    gyre_doctor_figure(&report, "free", 0);
    gyre_doctor_figure(&report, "mean", NAN);
    gyre_doctor_find(&report, "rdma", GYRE_DOCTOR_ABSENT, "no device");
    gyre_doctor_find(&report, "way", GYRE_DOCTOR_NOTE, "slow");
    gyre_doctor_name_subject(&report, "a → b");
    return report;
}

static char *printed(bool json, bool colours, int width)
{
    struct gyre_doctor_report report = make_report();
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (json)
        gyre_doctor_print_json(&report, &title, out);
    else
        gyre_doctor_print(&report, &title, out, colours, width);
    fclose(out);
    gyre_doctor_report_deinit(&report);
    return text;
}

static void expect_printed(bool json, bool colours, int width, const char *expected)
{
    char *text = printed(json, colours, width);
    assert_string_equal(text, expected);
    free(text);
}

static void test_in_a_pipe(void **state)
{
    expect_printed(false, false, 0,
                   "gyre 0.1.0 on a, Linux 6.1, x86_64\n\n"
                   "cores       ok        4 to use\n"
                   "ports       problem   of \"ten\", none is free\n"
                   "                        a line below\n"
                   "                      → end what holds them; or choose others\n"
                   "rdma        not here  no device\n"
                   "a → b       note      slow\n"
                   "\n1 problem: ports\n");
}

static void test_on_a_terminal(void **state)
{
    char *text = printed(false, true, 0);
    assert_non_null(strstr(text, "cores       \033[32mok\033[0m        4 to use\n"));
    assert_non_null(strstr(text, "ports       \033[1;31mproblem\033[0m   of"));
    assert_non_null(strstr(text, "rdma        \033[2mnot here\033[0m  no device\n"));
    assert_non_null(strstr(text, "a → b       \033[33mnote\033[0m      slow\n"));
    free(text);
}

/* 24 columns stand before advice; below 30 for text lines run over. */
static void test_lines_are_wrapped(void **state)
{
    char *text = printed(false, false, 24 + 30);
    assert_non_null(strstr(text, "                      → end what holds them; or choose\n"
                                 "                        others\n"));
    free(text);
    text = printed(false, false, 24 + 29);
    assert_non_null(strstr(text, "→ end what holds them; or choose others\n"));
    free(text);
}

static void test_json(void **state)
{
    expect_printed(
        true, false, 0,
        "{\"gyre\":\"0.1.0\",\"host\":\"a\",\"system\":\"Linux 6.1, x86_64\",\"problems\":1,"
        "\"notes\":1,\"findings\":[\n"
        " {\"check\":\"cores\",\"state\":\"ok\",\"found\":\"4 to use\",\"advice\":null,"
        "\"details\":[],\"figures\":{\"usable\":4}},\n"
        " {\"check\":\"ports\",\"state\":\"problem\",\"found\":\"of \\\"ten\\\", none is free\","
        "\"advice\":\"end what holds them; or choose others\",\"details\":[\"a line below\"],"
        "\"figures\":{\"free\":0,\"mean\":null}},\n"
        " {\"check\":\"rdma\",\"state\":\"absent\",\"found\":\"no device\",\"advice\":null,"
        "\"details\":[],\"figures\":{}},\n"
        " {\"check\":\"way\",\"subject\":\"a → b\",\"state\":\"note\",\"found\":\"slow\","
        "\"advice\":null,\"details\":[],\"figures\":{}}]}\n");
}

static void test_nothing_wrong(void **state)
{
    struct gyre_doctor_report report = {0};
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    gyre_doctor_find(&report, "cores", GYRE_DOCTOR_OK, "4 to use");
    gyre_doctor_print(&report, &title, out, false, 0);
    fclose(out);
    gyre_doctor_report_deinit(&report);
    assert_non_null(strstr(text, "\nno problem; 0 notes\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_a_pipe),         cmocka_unit_test(test_on_a_terminal),
        cmocka_unit_test(test_lines_are_wrapped), cmocka_unit_test(test_json),
        cmocka_unit_test(test_nothing_wrong),
    };
    return cmocka_run_group_tests_name("doctor's report", tests, NULL, NULL);
}
