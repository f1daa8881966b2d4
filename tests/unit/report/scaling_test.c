/* The scaling of a training: figures of its runs from their lines, one table in two forms, and a
 * drawing that XML readers take. */
#include "report/scaling.h"
#include "rig/xml.h"
#include "unit/report/report_rig.h"

static struct gyre_scaling table;

static void begin(const char *title)
{
    memset(&table, 0, sizeof table);
    snprintf(table.title, sizeof table.title, "%s", title);
    snprintf(table.rule, sizeof table.rule, "epochs 2 & 3 count");
}

/* A run of so many samples in so many seconds. */
static void add_run(int ranks, double samples, double seconds, double exposed)
{
    table.run[table.runs++] = (struct gyre_scaling_run){.ranks = ranks,
                                                        .epochs = 3,
                                                        .batch = 32u * (unsigned)ranks,
                                                        .samples = samples,
                                                        .seconds = seconds,
                                                        .exposed = exposed,
                                                        .loss = 0.5,
                                                        .accuracy = 0.875};
}

static char *put(void (*how)(FILE *, const struct gyre_scaling *))
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    how(file, &table);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void put_text(FILE *to, const struct gyre_scaling *scaling)
{
    gyre_scaling_put_head(to, scaling);
    for (int i = 0; i < scaling->runs; i++)
        gyre_scaling_put_row(to, scaling, i);
}

/* -- figures ----------------------------------------------------------------------------------- */

/* Reports three epochs of 10 steps of 640 samples, in 8, 4 and 2 seconds, and returns the lines. */
static char *write_lines(bool tested, double accuracy)
{
    struct gyre_report_options options = to_files();
    struct gyre_step_record step = step_at(1);
    options.metrics = inside("run.jsonl");
    struct gyre_report *report = opened(&options);
    for (uint64_t e = 1; e <= 3; e++) {
        struct gyre_epoch_record epoch = epoch_at(e);
        epoch.tested = tested;
        epoch.accuracy = accuracy;
        epoch.test_accuracy = accuracy / 2;
        epoch.loss = (double)e;
        epoch.seconds = (double)(16 >> e);
        epoch.samples_per_second = 6400 / epoch.seconds;
        assert_int_equal(gyre_report_step(report, &step, BEGAN_NS + e, NULL), 0);
        assert_int_equal(gyre_report_epoch(report, &epoch, BEGAN_NS + e, NULL), 0);
        step.samples = 1;
    }
    assert_int_equal(gyre_report_close(report, NULL), 0);
    return contents(options.metrics, NULL);
}

/* Takes the first `most` lines. */
static struct gyre_scaling_run take(char *text, int most)
{
    struct gyre_scaling_run run = {.ranks = 2};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && most; line = strtok_r(NULL, "\n", &rest))
        gyre_scaling_take(&run, line), most--;
    free(text);
    return run;
}

static void the_first_epoch_does_not_count(void **state)
{
    (void)state;
    struct gyre_scaling_run run = take(write_lines(false, 0.9), -1);
    assert_int_equal(run.epochs, 3);
    assert_int_equal(run.batch, 640); /* of the first step */
    assert_true(run.seconds == 6 && run.samples == 12800);
    assert_true(fabs(run.exposed - 0.12 * 6) < 1e-12);
    assert_true(run.loss == 3 && run.accuracy == 0.9);
    assert_true(fabs(gyre_scaling_rate(&run) - 12800 / 6.0) < 1e-9);
    assert_true(fabs(gyre_scaling_exposed(&run) - 0.12) < 1e-12);
    run = take(write_lines(false, 0.9), 2);
    assert_int_equal(run.epochs, 1);
    assert_true(run.seconds == 8 && run.samples == 6400);
}

static void a_test_set_decides_what_was_learnt(void **state)
{
    (void)state;
    struct gyre_scaling_run run = take(write_lines(true, 0.9), -1);
    assert_true(run.loss == 0.5 && run.accuracy == 0.45);
    run = take(write_lines(false, -1), -1);
    assert_true(run.loss == 3 && run.accuracy == -1);
}

static void torn_lines_are_no_records(void **state)
{
    struct gyre_epoch_record epoch;
    struct gyre_step_record step;
    char *text = write_lines(true, 0.9), *second = strchr(text, '\n') + 1;
    (void)state;
    *strchr(second, '\n') = 0;
    assert_true(gyre_report_read_epoch(second, &epoch));
    assert_true(epoch.tested && epoch.steps == 10 && epoch.exposed_share == 0.12);
    assert_false(gyre_report_read_step(second, &step));
    assert_false(gyre_report_read_epoch(text, &epoch));
    assert_false(gyre_report_read_epoch("", &epoch));
    *strchr(second, '}') = 0;
    assert_false(gyre_report_read_epoch(second, &epoch));
    free(text);
}

/* -- forms ------------------------------------------------------------------------------------- */

static void rows_are_against_the_first(void **state)
{
    (void)state;
    begin("Scaling of x");
    add_run(2, 1000, 2, 0);
    add_run(4, 1000, 1.25, 0.5);
    table.run[1].accuracy = -1;
    char *text = put(put_text);
    assert_string_equal(
        text,
        "Scaling of x\nepochs 2 & 3 count\n"
        "ranks    batch    seconds     samples/s  speed-up  efficiency   exposed      loss  "
        "accuracy\n"
        "    2       64      2.000           500      1.00     100.0 %     0.0 %    0.5000   "
        "87.50 %\n"
        "    4      128      1.250           800      1.60      80.0 %    40.0 %    0.5000         "
        "-\n");
    free(text);
}

static void markdown_has_the_same_cells(void **state)
{
    (void)state;
    begin("Scaling of a_b*|");
    add_run(1, 10000, 2, 0);
    add_run(2, 10000, 1, 0.25);
    table.tested = true;
    snprintf(table.note[table.notes++], sizeof table.note[0], "the [first]");
    snprintf(table.note[table.notes++], sizeof table.note[0], "the second");
    char *text = put(gyre_scaling_put_markdown);
    assert_string_equal(text,
                        "**Scaling of a\\_b\\*\\|**\n\nepochs 2 & 3 count\n\n"
                        "| ranks | batch | seconds | samples/s | speed-up | efficiency | exposed | "
                        "test loss | test "
                        "accuracy |\n"
                        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
                        "| 1 | 32 | 2.000 | 5,000 | 1.00 | 100.0 % | 0.0 % | 0.5000 | 87.50 % |\n"
                        "| 2 | 64 | 1.000 | 10,000 | 2.00 | 100.0 % | 25.0 % | 0.5000 | 87.50 % |\n"
                        "\n* the \\[first\\]\n* the second\n");
    free(text);
}

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

static void a_drawing_has_every_run_and_the_ideal(void **state)
{
    (void)state;
    begin("<x> & y");
    for (int i = 0; i < 4; i++)
        add_run(1 << i, 8000, 8.0 / (1 << i), 0.1);
    table.loaded = true;
    char *text = put(gyre_scaling_put_svg);
    xml_check(text);
    assert_int_equal(count(text, "<circle"), 4 + 4 + 1);              /* and the key's */
    assert_int_equal(count(text, "class=\"in-test\" x="), 4 + 1 + 1); /* and the end's name */
    assert_int_equal(count(text, "&#60;x&#62; &#38; y"), 2);
    assert_non_null(strstr(text, ">epochs 2 &#38; 3 count; under load<"));
    assert_non_null(strstr(text, ">speed-up 8.0000<"));
    assert_non_null(strstr(text, ">exposed 10.00 %<"));
    assert_non_null(strstr(text, "prefers-color-scheme: dark"));
    /* a perfect speed-up lies on the ideal */
    const char *ideal =
        strstr(text, "class=\"line ideal\" d=\"M7") + strlen("class=\"line ideal\"");
    const char *measured =
        strstr(text, "class=\"line train\" d=\"M7") + strlen("class=\"line train\"");
    size_t length = strcspn(ideal, "/");
    assert_true(length > 30);
    assert_memory_equal(ideal, measured, length);
    free(text);
}

static void any_figures_make_a_drawing(void **state)
{
    static const double seconds[] = {1, 1e-9, 0, 1e9};
    (void)state;
    for (int runs = 1; runs <= 12; runs++)
        for (int i = 0; i < 4; i++) {
            begin("any");
            for (int r = 0; r < runs; r++)
                add_run(1 << r, 100, seconds[(r + i) % 4], seconds[i]);
            char *text = put(gyre_scaling_put_svg);
            assert_in_range(xml_check(text), 20, 300);
            assert_null(strstr(text, "nan"));
            assert_null(strstr(text, "inf"));
            free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_epoch_does_not_count),
        cmocka_unit_test(a_test_set_decides_what_was_learnt),
        cmocka_unit_test(torn_lines_are_no_records),
        cmocka_unit_test(rows_are_against_the_first),
        cmocka_unit_test(markdown_has_the_same_cells),
        cmocka_unit_test(a_drawing_has_every_run_and_the_ideal),
        cmocka_unit_test(any_figures_make_a_drawing),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
