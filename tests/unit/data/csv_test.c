/* CSV: what is right is read to the last bit, and everything else is refused with line and
 * column. */
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig/file_room.h"

#include "data/csv.h"
#include "rig/test.h"

static struct gyre_trouble trouble;

/* From memory exactly as long: a sanitizer sees one byte beyond. */
static int over(const char *text, size_t length, const struct gyre_csv_options *options,
                struct gyre_csv *csv)
{
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    trouble = (struct gyre_trouble){0};
    int status = gyre_csv_over(csv, "t.csv", copy, length, options, &trouble);
    free(copy);
    assert_int_equal(status, trouble.status);
    return status;
}

static struct gyre_csv accept(const char *text, struct gyre_csv_options options)
{
    struct gyre_csv csv;
    if (over(text, strlen(text), &options, &csv))
        fail_msg("%s: %s", text, trouble.text);
    return csv;
}

static void refuse(const char *text, struct gyre_csv_options options, const char *words)
{
    struct gyre_csv csv;
    int status = over(text, strlen(text), &options, &csv);
    gyre_csv_close(&csv);
    assert_int_equal(status, GYRE_INVALID);
    if (!strstr(trouble.text, words) || strncmp(trouble.text, "t.csv", 5) != 0)
        fail_msg("%s: \"%s\" is not in: %s", text, words, trouble.text);
}

static const struct gyre_csv_options plain, header = {.header = true},
                                            texts = {.label = "first", .texts = true};

/* -- reading ----------------------------------------------------------------------------------- */

static void expect_two_by_two(struct gyre_csv csv, bool labels)
{
    assert_int_equal(csv.rows, 2);
    assert_int_equal(csv.columns, 2);
    assert_true(csv.values[0] == 1.5 && csv.values[1] == -2 && csv.values[2] == 3 &&
                csv.values[3] == 4e-3);
    assert_int_equal(csv.labels != NULL, labels);
    assert_true(!labels || (csv.labels[0] == 7 && csv.labels[1] == 8));
    gyre_csv_close(&csv);
    gyre_csv_close(&csv);
}

static void tables_are_read(void **state)
{
    expect_two_by_two(accept("1.5,-2\n3,4e-3\n", plain), false);
    expect_two_by_two(accept("1.5,-2\n3,4e-3", plain), false);
    expect_two_by_two(accept("1.5,-2\r\n3,4e-3\r\n", plain), false);
    expect_two_by_two(accept(" 1.5\t, -2 \n3 ,4e-3", plain), false);
    expect_two_by_two(accept("\xef\xbb\xbf"
                             "1.5,-2\n3,4e-3",
                             plain),
                      false);
    struct gyre_csv_options options = {.separator = ';'};
    expect_two_by_two(accept("1.5;-2\n3;4e-3", options), false);
    options.separator = '\t';
    expect_two_by_two(accept("1.5\t-2\n3\t4e-3", options), false);
}

static void labels_are_taken_out(void **state)
{
    struct gyre_csv_options options = {.label = "first"};
    expect_two_by_two(accept("7,1.5,-2\n8,3,4e-3\n", options), true);
    options.label = "last";
    expect_two_by_two(accept("1.5,-2,7\n3,4e-3,8\n", options), true);
    options = (struct gyre_csv_options){.header = true, .label = "y"};
    expect_two_by_two(accept("a,y,b\n1.5,7,-2\n3,8,4e-3\n", options), true);
    options.label = "last";
    expect_two_by_two(accept("a,b,y\n1.5,-2,7\n3,4e-3,8\n", options), true);
}

static void names_are_kept(void **state)
{
    struct gyre_csv csv =
        accept("\"the \"\"label\"\"\", a b ,\"c,d\",\n0,1,2,3\n",
               (struct gyre_csv_options){.header = true, .label = "the \"label\""});
    assert_int_equal(csv.columns, 3);
    assert_string_equal(csv.label_name, "the \"label\"");
    assert_string_equal(csv.names[0], "a b");
    assert_string_equal(csv.names[1], "c,d");
    assert_string_equal(csv.names[2], "");
    assert_true(csv.labels[0] == 0 && csv.values[2] == 3);
    gyre_csv_close(&csv);
}

static void a_file_is_read(void **state)
{
    static const char text[] = "x,y\n1,2\n";
    struct gyre_csv csv;
    assert_int_equal(
        gyre_csv_open(&csv, file_room_make("t.csv", text, strlen(text)), &header, NULL), 0);
    assert_int_equal(csv.rows, 1);
    assert_true(csv.values[1] == 2);
    gyre_csv_close(&csv);
    assert_int_equal(gyre_csv_open(&csv, file_room_name("absent"), &header, NULL), -ENOENT);
    gyre_csv_close(&csv);
}

static void numbers_are_rounded_correctly(void **state)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = {
        {"0", 0},
        {"-0.0", -0.0},
        {"+5", 5},
        {".5", .5},
        {"5.", 5},
        {"007", 7},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"0.1", 0x1.999999999999ap-4},
        {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
        {"4.9e-324", 0x1p-1074},
        {"1e-400", 0},
        {"9007199254740993", 9007199254740992},
        {"0.500000000000000166533453693773481063544750213623046875", 0x1.0000000000002p-1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct gyre_csv csv = accept(numbers[i].text, plain);
        assert_memory_equal(csv.values, &numbers[i].value, sizeof(double));
        gyre_csv_close(&csv);
    }
}

/* A locale whose point is a comma, compiled into the test's folder; false where that cannot be. */
static bool set_comma_locale(void)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"\"\n"
                                 "grouping -1\nEND LC_NUMERIC\n";
    char command[256];
    file_room_make("source", source, strlen(source));
    snprintf(command, sizeof command, "cd %s && localedef -c -i source ./comma >log 2>&1",
             file_room);
    int warned = system(command); /* of the categories that the source lacks */
    (void)warned;
    setenv("LOCPATH", file_room, 1);
    return setlocale(LC_NUMERIC, "comma") && *localeconv()->decimal_point == ',';
}

static void the_locale_does_not_matter(void **state)
{
    if (!set_comma_locale()) {
        print_message("localedef is missing\n");
        skip();
    }
    assert_true(strtod("1.5", NULL) == 1);
    expect_two_by_two(accept("1.5,-2\n3,4e-3\n", plain), false);
    setlocale(LC_NUMERIC, "C");
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void what_is_no_number_is_refused(void **state)
{
    static const char *const bad[] = {
        "",  "x", "1x", "x1",  "0x10", "inf", "nan",  "-nan", "NA",    "--1", "+-1", "1-", "1.2.3",
        ".", "-", "e5", ".e5", "1e",   "1e+", "1e5.", "1 2",  "\"1\"", "1'0", "1_0", "#",  "\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "1,2,3\n4,%s,6\n", bad[i]);
        refuse(text, plain, "t.csv, line 2, column 2: \"");
        refuse(text, plain, "is not a number");
    }
}

static void what_is_too_large_is_refused(void **state)
{
    char text[500];
    refuse("1\n2\n1e999\n", plain, "line 3, column 1: \"1e999\" is too large");
    refuse("-1e999", plain, "too large");
    memset(text, '1', 400);
    text[400] = '\0';
    refuse(text, plain, "...\" is too large");
    strcpy(text + 300, "");
    struct gyre_csv csv = accept(text, plain);
    gyre_csv_close(&csv);
    memset(text, '0', 401);
    text[401] = '\0';
    refuse(text, plain, "more than 400 characters");
}

static void rows_of_other_lengths_are_refused(void **state)
{
    refuse("1,2\n3,4\n5\n", plain, "t.csv, line 3: 1 fields, where the first line has 2");
    refuse("1,2\n3,4,5\n", plain, "line 2: 3 fields");
    refuse("1,2\n3,4,\n", plain, "line 2: 3 fields");
    refuse("1,2\n\n3,4\n", plain, "line 2: 1 fields");
    refuse("1,2\n3,4\n\n", plain, "line 3: 1 fields");
    refuse("a,b,c\n3,4\n", header, "line 2: 2 fields");
    refuse("1\n\n", plain, "line 2, column 1: \"\" is not a number");
    refuse("1;2\n", plain, "column 1: \"1;2\" is not a number");
}

static void tables_without_rows_are_refused(void **state)
{
    refuse("", plain, "t.csv: is empty");
    refuse("\xef\xbb\xbf", plain, "is empty");
    refuse("a,b\n", header, "there are no rows");
}

static void wrong_headers_and_labels_are_refused(void **state)
{
    struct gyre_csv_options options = {.label = "y"};
    refuse("1,2\n", options, "line 1: no column is \"y\", for the file has no header");
    options.header = true;
    refuse("a,b\n1,2\n", options, "line 1: no column is \"y\"");
    refuse("y,Y,y\n1,2,3\n", options, "several columns are \"y\"");
    refuse("a,b\n1,2\n", plain, "line 1, column 1: \"a\" is not a number");
}

/* Numbers read alike however they are written; any other text stays what it is. */
static void labels_may_be_texts(void **state)
{
    struct gyre_csv csv = accept("7.0,1\n 007,2\n\"a \"\"b\"\"\",3\nx y ,4\n-2.50,5\n", texts);
    static const char *const labels[] = {"7", "7", "a \"b\"", "x y", "-2.5"};
    (void)state;
    assert_null(csv.labels);
    assert_int_equal(csv.rows, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(csv.label_texts[i], labels[i]);
        assert_true(csv.values[i] == i + 1);
    }
    gyre_csv_close(&csv);
    refuse("a,1\n,2\n", texts, "line 2, column 1: \"\" is no label");
    refuse("a,1\n\"\",2\n", texts, "line 2, column 1: \"\"\"\" is no label");
    refuse("a,1\nb,c\n", texts,
           "line 2, column 2: \"c\" is not a number; if that column is the label, --label-column");
}

/* Names, or the numbers of the columns beside a name. */
static void headers_are_found(void **state)
{
    static const struct {
        const char *text;
        bool header;
    } files[] = {
        {"a,b,c\n1,2,3\n", true},         {"\"1st\",b\n1,2\n", true},
        {"0,1,2,class\n4,5,6,x\n", true}, {"0,1,class\n4,5,x\n", false},
        {"0,2,1,x\n4,5,6,y\n", false},    {"0,1,2,3\n4,5,6,7\n", false},
        {"x,1.5\ny,2\n", false},          {"1.5,x\n2,y\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct gyre_csv_options options = {.find_header = true, .label = "last", .texts = true};
        if (strncmp(files[i].text, "x,", 2) == 0)
            options.label = "first";
        struct gyre_csv csv = accept(files[i].text, options);
        if (csv.rows != (files[i].header ? 1 : 2) || (csv.names != NULL) != files[i].header)
            fail_msg("%s: %d rows", files[i].text, (int)csv.rows);
        gyre_csv_close(&csv);
    }
}

/* A field of any length and content is told in a few printable bytes. */
static void fields_in_texts_are_harmless(void **state)
{
    char text[300];
    memset(text, 'z', sizeof text);
    memcpy(text, "\x1b[2J", 4);
    text[299] = '\0';
    refuse(text, plain, "\"?[2Jzzz");
    assert_true(strlen(trouble.text) < 120);
    for (const char *at = trouble.text; *at; at++)
        assert_true((unsigned char)*at >= ' ');
}

/* A field from a file does not reach a terminal as it is. */
static void fields_in_texts_have_no_controls(void **state)
{
    refuse("\x1b[2J\n", plain, "\"?[2J\" is not");
    refuse("\xc2\x9b"
           "2J\x7f\n",
           plain, "\"??2J?\" is not");
}

/* Reading asks for a locale between the open of the file and the first pass: there this test writes
 * other rows to the file, in place. A reader of the live file would see them, in some pass. */
static const char *rewritten;

locale_t newlocale(int mask, const char *name, locale_t base)
{
    static const char other[] = "9,9,9\n9,9,9\n";
    FILE *file = rewritten ? fopen(rewritten, "r+e") : NULL;
    if (file) {
        fwrite(other, 1, sizeof other - 1, file);
        fclose(file);
        rewritten = NULL;
    }
    locale_t (*real)(int, const char *, locale_t) =
        (locale_t(*)(int, const char *, locale_t))dlsym(RTLD_NEXT, "newlocale");
    return real(mask, name, base);
}

static void a_file_that_changes_is_read_as_it_was(void **state)
{
    struct gyre_csv csv;
    trouble = (struct gyre_trouble){0};
    rewritten = file_room_make("live.csv", "1,2\n3,4\n5,6\n", 12);
    assert_int_equal(gyre_csv_open(&csv, rewritten, &plain, &trouble), 0);
    assert_null(rewritten); /* it was */
    assert_int_equal(csv.rows, 3);
    assert_int_equal(csv.columns, 2);
    for (int i = 0; i < 6; i++)
        assert_true(csv.values[i] == i + 1);
    gyre_csv_close(&csv);
}

/* Bytes of NUL end nothing. */
static void nul_is_no_end(void **state)
{
    struct gyre_csv csv;
    assert_int_equal(over("1,2\0,3\n", 7, &plain, &csv), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "column 2: \"2?\" is not a number"));
    assert_int_equal(over("1\n\0", 3, &plain, &csv), GYRE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_read),
        cmocka_unit_test(labels_are_taken_out),
        cmocka_unit_test(names_are_kept),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(numbers_are_rounded_correctly),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(rows_of_other_lengths_are_refused),
        cmocka_unit_test(tables_without_rows_are_refused),
        cmocka_unit_test(wrong_headers_and_labels_are_refused),
        cmocka_unit_test(labels_may_be_texts),
        cmocka_unit_test(headers_are_found),
        cmocka_unit_test(fields_in_texts_are_harmless),
        cmocka_unit_test(fields_in_texts_have_no_controls),
        cmocka_unit_test(a_file_that_changes_is_read_as_it_was),
        cmocka_unit_test(nul_is_no_end),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
