/* What the benches say must be true: the columns to the byte, and a check that notices. */
#include "ceiling/passes.h"
#include "harness/pattern.h"
#include "output/report.h"
#include "output/report_json.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 257

/* The report asks the library for its version; these tests link no library. */
int gyre_version(void)
{
    return 100;
}

/* -- columns ----------------------------------------------------------------------------------- */

static void expect_number(double value, int width, const char *text)
{
    char seen[16];
    bench_report_number(value, width, seen);
    assert_string_equal(seen, text);
}

static void test_numbers_fit_their_columns(void **state)
{
    expect_number(0, 7, "   0.00");
    expect_number(7.054, 7, "   7.05");
    expect_number(9999.99, 7, "9999.99");
    expect_number(12345.6, 7, "12345.6");
    expect_number(123456.7, 7, " 123457");
    expect_number(1234567, 7, "1234567");
    expect_number(12345678, 7, "1.2e+07");
    expect_number(999.994, 6, "999.99");
    expect_number(1234.56, 6, "1234.6");
    expect_number(12345.6, 6, " 12346");
    expect_number(1234567, 6, " 1e+06");
}

static void test_calls_are_summed_up(void **state)
{
    double times[100], scratch[100];
    struct bench_calls calls;
    for (int i = 0; i < 100; i++) {
        times[i] = (i * 37) % 100 + 1;
    }
    bench_calls_measure(&calls, times, 100, scratch);
    assert_true(calls.min == 1 && calls.max == 100);
    assert_true(calls.p50 == 51 && calls.p95 == 95 && calls.p99 == 99);
    assert_true(calls.mean == 50.5);
    assert_true(calls.deviation > 28.86 && calls.deviation < 28.87);
    assert_true(calls.times == times && times[1] == 38);
}

/* Standard output of `print`, in a buffer of the callee. */
static const char *printed_by(void (*print)(struct bench_report *), struct bench_report *report)
{
    static char text[4096];
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO);
    assert_true(file && saved >= 0);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    print(report);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void print_table(struct bench_report *report)
{
    struct bench_row row = {.bytes = 1024,
                            .count = 256,
                            .type = "float",
                            .op = "sum",
                            .root = -1,
                            .out_of_place = {true, 7.05, 0, 0.15, 0.25, 0, {.count = 0}},
                            .in_place = {true, 6.98, 0, 0.15, 0.26, 0, {.count = 0}}};
    bench_report_columns(report);
    bench_report_row(report, &row);
    row.in_place.wrong = -1;
    bench_report_row(report, &row);
    bench_report_close(report, NULL);
}

static void test_table_is_nccl_tests_table(void **state)
{
    struct bench_report report = {.speaks = true, .program = "all_reduce_perf"};
    unsetenv("NCCL_TESTS_MIN_BW");
    assert_string_equal(
        printed_by(print_table, &report),
        "#\n"
        "#                                                              out-of-place"
        "                       in-place          \n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong \n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
        "     (us)  (GB/s)  (GB/s)         \n"
        "        1024           256     float     sum      -1     7.05    0.15    0.25       0"
        "     6.98    0.15    0.26       0\n"
        "        1024           256     float     sum      -1     7.05    0.15    0.25       0"
        "     6.98    0.15    0.26    N/A\n"
        "# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth    : 0.255 \n"
        "#\n"
        "# Collective test concluded: all_reduce_perf\n"
        "#\n"
        "\n");
}

static void print_failed(struct bench_report *report)
{
    report->out_of_bounds = 3;
    assert_false(bench_report_close(report, "rank 1 is gone"));
}

static void test_failures_are_told(void **state)
{
    struct bench_report report = {.speaks = true, .program = "x"};
    const char *text = printed_by(print_failed, &report);
    assert_non_null(strstr(text, "# Out of bounds values : 3 FAILED\n"));
    assert_non_null(strstr(text, "#\n# error: rank 1 is gone\n"));
}

static void print_nothing(struct bench_report *report)
{
    report->bus_sum = 10;
    report->timings = 10;
    setenv("NCCL_TESTS_MIN_BW", "1.1", 1);
    assert_true(bench_report_close(report, NULL));
    setenv("NCCL_TESTS_MIN_BW", "1.2", 1);
    assert_false(bench_report_close(report, NULL));
    unsetenv("NCCL_TESTS_MIN_BW");
}

static void test_least_bandwidth(void **state)
{
    struct bench_report report = {.speaks = true, .program = "x"};
    const char *text = printed_by(print_nothing, &report);
    assert_non_null(strstr(text, "# Avg bus bandwidth    : 1 OK\n"));
    assert_non_null(strstr(text, "# Avg bus bandwidth    : 1 FAILED\n"));
}

static void print_shares(struct bench_report *report)
{
    assert_true(bench_report_share(report, "in-place", 99.96));
    assert_true(bench_report_share(report, "in-place", 104.9));
    assert_true(bench_report_share(report, "in-place", 149.9));
    assert_false(bench_report_share(report, "in-place", 150.1));
}

static void test_more_than_everything_is_a_failure(void **state)
{
    struct bench_report report = {.speaks = true, .program = "x"};
    assert_string_equal(printed_by(print_shares, &report),
                        "# Share in-place       : 100.0 % of the ceiling\n"
                        "# Share in-place       : 104.9 % of the ceiling, all of it within the "
                        "noise\n"
                        "# Share in-place       : 149.9 % of the ceiling: WARNING, the machine has "
                        "changed its speed; run again\n"
                        "# Share in-place       : 150.1 % of the ceiling FAILED: no machine does "
                        "more than it can\n");
}

static void test_json_grammar(void **state)
{
    char text[256] = "";
    struct bench_json json = {.file = fmemopen(text, sizeof text, "w")};
    bench_json_open(&json, NULL, '{');
    bench_json_text(&json, "a", "x\"\\\n");
    bench_json_open(&json, "b", '[');
    bench_json_int(&json, NULL, -7);
    bench_json_double(&json, NULL, 0.5);
    bench_json_open(&json, NULL, '{');
    bench_json_close(&json);
    bench_json_close(&json);
    bench_json_bool(&json, "c", true);
    bench_json_text(&json, "d", NULL);
    bench_json_close(&json);
    fclose(json.file);
    assert_string_equal(
        text, "{\"a\":\"x\\\"\\\\\\u000a\",\"b\":[-7,0.500000,{}],\"c\":\"true\",\"d\":null}");
}

static void test_json_tells_no_secret(void **state)
{
    char text[2048] = "", *argv[] = {(char[]){"all_reduce"}, NULL};
    struct bench_json json = {.file = fmemopen(text, sizeof text, "w")};
    clearenv();
    setenv("API_TOKEN", "secret-1", 1);
    setenv("GYRE_KEY", "secret-2", 1);
    setenv("GYRE_KEY_OLD", "secret-3", 1);
    setenv("SLURM_JOB_ACCOUNT", "secret-4", 1);
    setenv("RANKLE", "secret-5", 1);
    setenv("GYRE_TRANSPORT", "tcp", 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    setenv("OPENBLAS_CORETYPE", "Zen", 1);
    setenv("SLURM_JOB_ID", "77", 1);
    bench_json_opening(&json, 1, argv);
    fclose(json.file);
    assert_null(strstr(text, "secret"));
    assert_non_null(strstr(text, "\"env\":[\"GYRE_TRANSPORT=tcp\",\"OMP_NUM_THREADS=2\","
                                 "\"OPENBLAS_CORETYPE=Zen\",\"SLURM_JOB_ID=77\"]"));
}

/* -- data -------------------------------------------------------------------------------------- */

/* The inputs of `n` ranks, reduced plainly in doubles; independent of the bench's own expectation.
 */
static double reduced(enum gyre_op op, double *values, int n)
{
    for (int rank = 1; op == BENCH_MULSUM && rank < n; rank += 2) {
        values[rank] *= 2;
    }
    double result = values[0];
    for (int rank = 1; rank < n; rank++) {
        double value = values[rank];
        result = op == GYRE_MIN    ? (value < result ? value : result)
                 : op == GYRE_MAX  ? (value > result ? value : result)
                 : op == GYRE_PROD ? result * value
                                   : result + value;
    }
    return op == GYRE_AVG ? result / n : result;
}

static bool combines_bits(int op)
{
    return op == GYRE_AND || op == GYRE_OR || op == GYRE_XOR;
}

static void fill_result(struct bench_pattern pattern, double *result)
{
    double inputs[16][COUNT], column[16];
    for (int rank = 0; rank < pattern.n; rank++) {
        bench_pattern_fill(&pattern, rank, inputs[rank], COUNT);
    }
    for (int i = 0; i < COUNT; i++) {
        for (int rank = 0; rank < pattern.n; rank++) {
            column[rank] = inputs[rank][i];
        }
        result[i] = reduced(pattern.op, column, pattern.n);
    }
}

static void test_right_results_are_right(void **state)
{
    double result[COUNT];
    for (int op = GYRE_SUM; op <= (int)BENCH_MULSUM; op++) {
        for (int n = 1; n <= 16 && !combines_bits(op); n++) {
            struct bench_pattern pattern = {GYRE_F64, true, (enum gyre_op)op, 0, n, 5};
            fill_result(pattern, result);
            assert_int_equal(bench_pattern_count_wrong(&pattern, result, COUNT), 0);
        }
    }
}

static void test_last_iterations_results_are_wrong(void **state)
{
    double result[COUNT];
    for (int op = GYRE_SUM; op <= (int)BENCH_MULSUM; op++) {
        for (int n = 1; n <= 16 && !combines_bits(op); n++) {
            struct bench_pattern pattern = {GYRE_F64, true, (enum gyre_op)op, 0, n, 5};
            fill_result(pattern, result);
            pattern.iteration++;
            assert_int_equal(bench_pattern_count_wrong(&pattern, result, COUNT), COUNT);
        }
    }
}

static void test_one_spoiled_element_is_found(void **state)
{
    uint64_t data[COUNT];
    for (int type = GYRE_F32; type <= GYRE_F8E5M2; type++) {
        struct bench_pattern pattern = {(enum gyre_type)type, false, GYRE_SUM, 2, 3, 9};
        for (uint64_t index = 0; index < COUNT; index++) {
            bench_pattern_fill(&pattern, 2, data, COUNT);
            assert_int_equal(bench_pattern_count_wrong(&pattern, data, COUNT), 0);
            bench_pattern_spoil(&pattern, data, index);
            assert_int_equal(bench_pattern_count_wrong(&pattern, data, COUNT), 1);
        }
    }
}

static void test_a_shift_by_one_element_is_found(void **state)
{
    int32_t data[COUNT + 1];
    struct bench_pattern pattern = {GYRE_I32, false, GYRE_SUM, 0, 2, 1};
    bench_pattern_fill(&pattern, 0, data, COUNT + 1);
    assert_true(bench_pattern_count_wrong(&pattern, data + 1, COUNT) > COUNT / 2);
}

static void test_nan_is_wrong(void **state)
{
    float data[COUNT];
    struct bench_pattern pattern = {GYRE_F32, false, GYRE_SUM, 0, 2, 1};
    memset(data, 0xff, sizeof data);
    assert_int_equal(bench_pattern_count_wrong(&pattern, data, COUNT), COUNT);
}

/* -- passes ------------------------------------------------------------------------------------ */

#define FLOATS 96 /* three lots of 128 bytes, and one float that stays */

static bool passes_right(const struct bench_pass *pass, const float *to, const float *from, int i)
{
    bool copied = to[i] == from[i], updated = to[i] == 1001, untouched = to[i] == 1000;
    bool summed = to[i] == from[i % (FLOATS / 2)] + from[i % (FLOATS / 2) + FLOATS / 2];
    switch (pass->kind) {
    case BENCH_READS:
        return untouched;
    case BENCH_WRITES:
        return memcmp(&to[i], "8888", 4) == 0;
    default:
        return pass->in_place ? updated : strstr(pass->name, "sums") ? summed : copied;
    }
}

/* A pass that did less than all would make the ceiling too high. */
static void test_passes_touch_every_byte(void **state)
{
    for (const struct bench_pass *pass = bench_passes; pass->name; pass++) {
        _Alignas(64) float from[FLOATS], to[FLOATS + 1];
        for (int i = 0; i <= FLOATS; i++) {
            to[i] = 1000;
            from[i % FLOATS] = (float)(i + 1);
        }
        pass->run(to, from, FLOATS * sizeof(float));
        for (int i = 0; i < FLOATS; i++) {
            if (!passes_right(pass, to, from, i)) {
                fail_msg("%s: element %d is %g", pass->name, i, (double)to[i]);
            }
        }
        assert_true(to[FLOATS] == 1000);
    }
}

/* -- flags ------------------------------------------------------------------------------------- */

static int read_flags(struct bench_options *options, const char *line)
{
    static char text[256];
    char *words[32] = {"bench"}, *word;
    int count = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text; (word = strtok_r(rest, " ", &rest)) && count < 31;) {
        words[count++] = word;
    }
    extern int optind;
    optind = 0;
    return bench_options_read(count, words, true, options);
}

static void test_flags_of_nccl_tests(void **state)
{
    struct bench_options options;
    assert_int_equal(read_flags(&options, ""), 0);
    assert_int_equal(options.min_bytes, 32 << 20);
    assert_true(options.types[GYRE_F32] && !options.types[GYRE_F64] && options.ops[GYRE_SUM]);
    assert_int_equal(read_flags(&options, "-b 8 -e 1.5G -f2 -n 7 -w 0 -c 3 -o all -d half -r -1 "
                                          "-a 3 -I1 --ranks 4 --transport tcp --fresh --csv x"),
                     0);
    assert_int_equal(options.min_bytes, 8);
    assert_int_equal(options.max_bytes, UINT64_C(3) << 29);
    assert_int_equal(options.factor, 2);
    assert_int_equal(options.iterations, 7);
    assert_int_equal(options.checks, 3);
    assert_int_equal(options.root, -1);
    assert_int_equal(options.average, 3);
    assert_int_equal(options.ranks, 4);
    assert_true(options.ops[GYRE_PROD] && options.types[GYRE_F16] && !options.types[GYRE_F32]);
    assert_true(options.per_iteration && options.fresh);
    assert_string_equal(options.transport, "tcp");
    assert_int_equal(read_flags(&options, "--minbytes=64K --stepbytes 1M --datatype all"), 0);
    assert_int_equal(options.min_bytes, 65536);
    assert_true(options.types[GYRE_U8] && options.types[GYRE_F8E5M2]);
    assert_int_equal(read_flags(&options, "-o xor -d uint16"), 0);
    assert_true(options.ops[GYRE_XOR] && options.types[GYRE_U16]);
    assert_int_equal(read_flags(&options, "-o and -d all"), 0);
    assert_int_equal(read_flags(&options, "-o mulsum"), 0);
    assert_true(options.ops[BENCH_MULSUM] && !options.ops[GYRE_SUM]);
}

static void test_wrong_flags(void **state)
{
    static const char *const lines[] = {"-b x",
                                        "-b 8Q",
                                        "-b -8",
                                        "-b 0.3",
                                        "-b 2 -e 1",
                                        "-f 1",
                                        "-n 0",
                                        "-n 1x",
                                        "-a 4",
                                        "-o add",
                                        "-d fp8",
                                        "-I 2",
                                        "--ranks 0",
                                        "--transport x",
                                        "--memory heap",
                                        "--nosuch",
                                        "-Z",
                                        "-b",
                                        "word",
                                        "-b 0 -e 9 -f 2",
                                        "-b 1 -e 9 -i 0",
                                        "-o and",
                                        "-o or -d f8e4m3"};
    struct bench_options options;
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen("/dev/null", "w", stderr));
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int status = read_flags(&options, lines[i]);
        if (status != -1) {
            fail_msg("\"%s\" was taken", lines[i]);
        }
    }
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void test_wrong_words_have_a_nearest_one(void **state)
{
    static const char *const lines[][2] = {
        {"-o smu", "\"sum\"?"},          {"-d flaot", "\"float\"?"},
        {"--transport tpc", "\"tcp\"?"}, {"--memory gyer", "\"gyre\"?"},
        {"--fersh", "--fresh?"},         {"--dtatype half", "--datatype?"}};
    struct bench_options options;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char said[256] = "";
        int saved = dup(STDERR_FILENO);
        FILE *file = tmpfile();
        dup2(fileno(file), STDERR_FILENO);
        assert_int_equal(read_flags(&options, lines[i][0]), -1);
        fflush(stderr);
        dup2(saved, STDERR_FILENO);
        close(saved);
        rewind(file);
        said[fread(said, 1, sizeof said - 1, file)] = '\0';
        fclose(file);
        if (!strstr(said, lines[i][1])) {
            fail_msg("%s: \"%s\" is not in \"%s\"", lines[i][0], lines[i][1], said);
        }
    }
}

static void test_ranks_flag_is_known(void **state)
{
    bool follows;
    assert_true(bench_is_ranks_flag("--ranks", &follows) && follows);
    assert_true(bench_is_ranks_flag("--rank", &follows) && follows);
    assert_true(bench_is_ranks_flag("--ranks=4", &follows) && !follows);
    assert_false(bench_is_ranks_flag("--root", &follows));
    assert_false(bench_is_ranks_flag("-r", &follows));
    assert_false(bench_is_ranks_flag("--ranksx", &follows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_fit_their_columns),
        cmocka_unit_test(test_calls_are_summed_up),
        cmocka_unit_test(test_table_is_nccl_tests_table),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_least_bandwidth),
        cmocka_unit_test(test_more_than_everything_is_a_failure),
        cmocka_unit_test(test_json_grammar),
        cmocka_unit_test(test_json_tells_no_secret),
        cmocka_unit_test(test_right_results_are_right),
        cmocka_unit_test(test_last_iterations_results_are_wrong),
        cmocka_unit_test(test_one_spoiled_element_is_found),
        cmocka_unit_test(test_a_shift_by_one_element_is_found),
        cmocka_unit_test(test_nan_is_wrong),
        cmocka_unit_test(test_passes_touch_every_byte),
        cmocka_unit_test(test_flags_of_nccl_tests),
        cmocka_unit_test(test_wrong_flags),
        cmocka_unit_test(test_wrong_words_have_a_nearest_one),
        cmocka_unit_test(test_ranks_flag_is_known),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
