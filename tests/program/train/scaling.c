/* gyre train --scaling: real runs on one number of ranks after another, and the table of them. */
#include "rig/train_rig.h"
#include "rig/test.h"
#include "rig/xml.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the table --------------------------------------------------------------------------------- */

struct row {
    int ranks;
    double batch, seconds, rate, speed_up, efficiency, exposed, loss, accuracy;
};

/* Reads a line of the table, in which numbers have commas. */
static bool read_row(const char *line, struct row *row)
{
    char plain[512];
    size_t length = 0;
    for (; *line && *line != '\n' && length < sizeof plain - 1; line++)
        if (*line != ',')
            plain[length++] = *line;
    plain[length] = 0;
    return sscanf(plain, "%d %lf %lf %lf %lf %lf %% %lf %% %lf %lf %%", &row->ranks, &row->batch,
                  &row->seconds, &row->rate, &row->speed_up, &row->efficiency, &row->exposed,
                  &row->loss, &row->accuracy) == 9;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    assert_non_null(end);
    return end + 1;
}

/* Reads the rows behind title, rule and heads; returns their number. */
static int read_rows(const char *text, struct row row[8])
{
    int rows = 0;
    for (int i = 0; i < 3; i++)
        text = next_line(text);
    for (; *text; text = next_line(text), rows++)
        if (rows == 8 || !read_row(text, &row[rows]))
            fail_msg("no row of the table: %s", text);
    return rows;
}

static void run(int code, const char *const *words)
{
    rig_run(&rig, NULL, words);
    if (rig.code != code)
        fail_msg("exit code %d, not %d:\n%s%s", rig.code, code, rig.out_text, rig.err_text);
}

#define MADE_UP "--data", "random:4000,64,4", "--tail", "once"

/* Samples per second and seconds are rounded where they are printed. */
static void expect_samples(const struct row *row, double samples)
{
    assert_true((row->rate - 1) * (row->seconds - 0.0006) <= samples);
    assert_true((row->rate + 1) * (row->seconds + 0.0006) >= samples);
}

static void rows_follow_from_their_figures(void **state)
{
    struct row row[8];
    (void)state;
    run(0, (const char *[]){"train", "--scaling", "1,2,3", MADE_UP, "--epochs", "3", "--batch",
                            "50", NULL});
    assert_int_equal(read_rows(rig.out_text, row), 3);
    expect_told("\nweak scaling: each rank has the same batch; epochs 2 to 3 count, ");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(row[i].ranks, i + 1);
        assert_true(row[i].batch == 50 * (i + 1));
        expect_samples(&row[i], 2 * 4000);
        assert_true(fabs(row[i].speed_up - row[i].rate / row[0].rate) < 0.006);
        assert_true(fabs(row[i].efficiency - 100 * row[i].rate / row[0].rate / (i + 1)) < 0.06);
        assert_true(row[i].exposed >= 0 && row[i].exposed <= 100);
        assert_true(row[i].accuracy > 0 && row[i].accuracy <= 100);
    }
    assert_true(rig_has(rig.err_text, "gyre train: run 3 of 3: 3 ranks\n"));
    rig_end(&rig);
}

static void a_batch_of_all_ranks_stays_the_same(void **state)
{
    struct row row[8];
    (void)state;
    run(0, (const char *[]){"train", "--scaling=2,4", MADE_UP, "--epochs", "1", "--global-batch",
                            "80", "--quiet", NULL});
    assert_int_equal(read_rows(rig.out_text, row), 2);
    expect_told("\nstrong scaling: all ranks together have the same batch; the only epoch counts");
    assert_true(row[0].ranks == 2 && row[1].ranks == 4);
    assert_true(row[0].batch == 80 && row[1].batch == 80);
    assert_true(row[0].speed_up == 1 && row[0].efficiency == 100);
    assert_true(fabs(row[1].efficiency - 50 * row[1].rate / row[0].rate) < 0.06);
    expect_samples(&row[1], 4000);
    assert_false(rig_has(rig.err_text, "run 1 of 2"));
    rig_end(&rig);
}

/* The run of two ranks is the training that --ranks 2 starts. */
static void a_run_is_the_training_itself(void **state)
{
    static struct metrics m;
    struct row row[8];
    (void)state;
    clean();
    run(0, (const char *[]){"train", "--scaling", "2", "--preset", "wine", "--epochs", "4", NULL});
    assert_int_equal(read_rows(rig.out_text, row), 1);
    expect_told("  test loss  test accuracy\n");
    rig_end(&rig);
    expect_success((const char *[]){"train", "--ranks", "2", "--preset", "wine", "--epochs", "4",
                                    "--quiet", "--metrics", in_folder("m"), NULL});
    read_metrics(in_folder("m"), &m);
    assert_true(fabs(100 * m.tested[3] - row[0].accuracy) < 0.006);
    char *text = read_text(in_folder("m"));
    const char *last = strstr(text, "\"kind\":\"epoch\"");
    for (int i = 0; i < 3; i++)
        last = strstr(last + 1, "\"kind\":\"epoch\"");
    assert_true(fabs(read_number(last, "test_loss") - row[0].loss) < 0.00006);
    free(text);
}

/* -- files ------------------------------------------------------------------------------------- */

/* The cells of a line of the table as a line of Markdown. */
static const char *as_markdown(const char *line)
{
    static char text[1024];
    size_t length = (size_t)sprintf(text, "| ");
    for (line += strspn(line, " "); *line && *line != '\n'; line++) {
        if (strncmp(line, "  ", 2) != 0) {
            text[length++] = *line;
        } else {
            line += strspn(line, " ") - 1;
            length += (size_t)sprintf(text + length, " | ");
        }
    }
    sprintf(text + length, " |\n");
    return text;
}

static void files_have_what_the_terminal_has(void **state)
{
    static char before[8192];
    (void)state;
    clean();
    memset(before, 'x', sizeof before - 1);
    write_lines(in_folder("s.md"), before);
    run(0, (const char *[]){"train", "--scaling", "1,2", "--preset", "wine", "--epochs", "2",
                            "--markdown", in_folder("s.md"), "--svg", in_folder("s.svg"), NULL});
    char *markdown = read_text(in_folder("s.md")), *svg = read_text(in_folder("s.svg"));
    assert_int_equal(strncmp(markdown, "**Scaling of wine on ", 21), 0);
    expect_told("; epoch 2 counts, the first warms up\n");
    const char *line = next_line(next_line(rig.out_text));
    for (int i = 0; i < 3; i++, line = next_line(line))
        if (!rig_has(markdown, as_markdown(line)))
            fail_msg("\"%s\" is not in: %s", as_markdown(line), markdown);
    assert_false(rig_has(markdown, "xxx"));
    xml_check(svg);
    assert_true(rig_has(svg, ">Scaling of wine on "));
    assert_true(rig_has(svg, "class=\"line ideal\""));
    free(markdown);
    free(svg);
    rig_end(&rig);
}

/* -- runs that fail ---------------------------------------------------------------------------- */

static void the_run_that_fails_is_named_and_is_the_last(void **state)
{
    struct row row[8];
    (void)state;
    clean();
    write_lines(in_folder("s.md"), "before");
    run(2, (const char *[]){"train", "--scaling", "1,2,3", MADE_UP, "--tail", "repeat",
                            "--global-batch", "33", "--epochs", "1", "--markdown",
                            in_folder("s.md"), NULL});
    assert_int_equal(read_rows(rig.out_text, row), 1);
    assert_true(rig_has(rig.err_text, "--global-batch 33 does not divide by 2 ranks"));
    assert_true(rig_has(rig.err_text, "run 2 of 3"));
    assert_false(rig_has(rig.err_text, "run 3 of 3"));
    assert_true(rig_has(rig_last_line(rig.err_text),
                        "gyre train: the run of 2 ranks failed with exit code 2; what it said is "
                        "above"));
    rig_end(&rig);
    char *kept = read_text(in_folder("s.md"));
    assert_string_equal(kept, "before");
    free(kept);
}

static void a_signal_ends_the_run_and_those_behind_it(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char expected[80];
        rig_start(&rig, (const char *[]){"train", "--scaling", "2,3", "--preset", "wine",
                                         "--epochs", "1000000000", NULL});
        rig_wait_for(&rig, "run 1 of 2: 2 ranks\n");
        rig_signal(&rig, numbers[i]);
        rig_wait_end(&rig);
        snprintf(expected, sizeof expected, "gyre train: the run of 2 ranks was stopped by SIG%s",
                 sigabbrev_np(numbers[i]));
        rig_expect(&rig, 1, expected);
        assert_false(rig_has(rig.err_text, "run 2 of 2"));
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* Whatever ends the tool itself, no rank stays behind. The second epoch of the ranks has begun when
 * the first is told. */
static void no_run_outlives_the_tool(void **state)
{
    (void)state;
    rig_start(&rig, (const char *[]){"train", "--scaling", "2", "--data", "random:40000,64,4",
                                     "--data-digest", "--epochs", "1000000000", NULL});
    rig_wait_for(&rig, "digest: epoch 1: ");
    rig_signal(&rig, SIGKILL);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 128 + SIGKILL);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* -- what is refused, and what is warned of ---------------------------------------------------- */

#define REFUSED(option) option " does not go with --scaling: "

struct refusal {
    const char *words[10]; /* behind "train --preset wine" */
    const char *says;
};

static const struct refusal refusals[] = {
    {{"--scaling", "1,2", "--ranks", "2"}, REFUSED("--ranks") "--scaling says how many"},
    {{"--scaling", "1,2", "--save", "d"}, REFUSED("--save")},
    {{"--scaling", "1,2", "--save", "d", "--resume"}, REFUSED("--resume")},
    {{"--scaling", "1,2", "--resume"}, REFUSED("--resume")},
    {{"--scaling", "1,2", "--evaluate"}, REFUSED("--evaluate")},
    {{"--scaling", "1,2", "--metrics", "m"}, REFUSED("--metrics")},
    {{"--scaling", "1,2", "--csv", "m"}, REFUSED("--csv")},
    {{"--scaling", "1,2", "--tensorboard", "m"}, REFUSED("--tensorboard")},
    {{"--scaling", "1,2", "--epochs", "0"}, REFUSED("--epochs 0")},
    {{"--scaling", "1,2", "--svg", "m", "--markdown", "m"}, REFUSED("--markdown")},
    {{"--scaling", "2,1"}, "--scaling 2,1: at most 32 numbers of ranks are expected, each greater"},
    {{"--scaling", "2,2"}, "each greater than the one before, such as 1,2,4"},
    {{"--scaling", "1,two"}, "--scaling is \"two\": expected a whole number from 1 to 4096"},
    {{"--scaling", ""}, "--scaling is \"\": expected a whole number"},
    {{"--scaling", "1,200"}, "--scaling 1,200: 200 ranks are more than the 142 samples of wine"},
    {{"--scaling", "1", "--batch", "nil"}, "--batch"},
    {{"--markdown", "m"}, "--markdown is the table of --scaling 1,2,4, which is not given"},
};

static void refuse(int code, const char *const *words, const char *says)
{
    run(code, words);
    if (!rig_has(rig.err_text, says) || *rig.out_text || rig_has(rig.err_text, "run 1 of"))
        fail_msg("\"%s\" is not all of: %s%s", says, rig.err_text, rig.out_text);
    rig_end(&rig);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const char *words[14] = {"train", "--preset", "wine"};
        memcpy(words + 3, refusals[i].words, sizeof refusals[i].words);
        refuse(2, words, refusals[i].says);
    }
}

static void a_file_of_options_is_looked_at_too(void **state)
{
    (void)state;
    clean();
    write_lines(in_folder("c"), "preset = wine\nsave = d\n");
    refuse(2, (const char *[]){"train", "--config", in_folder("c"), "--scaling", "1", NULL},
           REFUSED("--save"));
    write_lines(in_folder("c"), "preset = wine\nscaling = 1,2\n");
    refuse(2, (const char *[]){"train", "--config", in_folder("c"), NULL},
           "scaling is no option of the training but a flag: gyre train --scaling");
}

static void a_place_that_cannot_be_written_is_told_before_the_first_run(void **state)
{
    (void)state;
    refuse(1,
           (const char *[]){"train", "--scaling", "1,2", "--preset", "wine", "--markdown",
                            "/nowhere/s.md", NULL},
           "opening /nowhere/s.md to write: No such file or directory; name a file");
    refuse(1,
           (const char *[]){"train", "--scaling", "1,2", "--preset", "wine", "--svg",
                            "/nowhere/s.svg", NULL},
           "opening /nowhere/s.svg to write: ");
}

static void ranks_of_a_job_start_no_others(void **state)
{
    (void)state;
    run(2, (const char *[]){"run", "-n", "2", rig_tool(), "train", "--scaling", "1,2", "--preset",
                            "wine", NULL});
    assert_true(rig_has(rig.err_text, "this is a rank of a job of 2 already (by gyre run)"));
    rig_end(&rig);
}

/* On one core, whatever the machine has. */
static void ranks_that_share_a_core_are_warned_of(void **state)
{
    static const char warning[] =
        "warning: runs of more than 1 rank share the 1 core of this machine";
    cpu_set_t before, one;
    int cpu = 0;
    (void)state;
    clean();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    run(0, (const char *[]){"train", "--scaling", "1,2", "--preset", "wine", "--epochs", "1",
                            "--markdown", in_folder("s.md"), NULL});
    assert_true(rig_has(rig.err_text, warning));
    char *markdown = read_text(in_folder("s.md"));
    assert_true(rig_has(markdown, "\n* runs of more than 1 rank share"));
    free(markdown);
    rig_end(&rig);
    run(0, (const char *[]){"train", "--scaling", "1", "--preset", "wine", "--epochs", "1", NULL});
    assert_false(rig_has(rig.err_text, warning));
    rig_end(&rig);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_from_their_figures),
        cmocka_unit_test(a_batch_of_all_ranks_stays_the_same),
        cmocka_unit_test(a_run_is_the_training_itself),
        cmocka_unit_test(files_have_what_the_terminal_has),
        cmocka_unit_test(the_run_that_fails_is_named_and_is_the_last),
        cmocka_unit_test(a_signal_ends_the_run_and_those_behind_it),
        cmocka_unit_test(no_run_outlives_the_tool),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(a_file_of_options_is_looked_at_too),
        cmocka_unit_test(a_place_that_cannot_be_written_is_told_before_the_first_run),
        cmocka_unit_test(ranks_of_a_job_start_no_others),
        cmocka_unit_test(ranks_that_share_a_core_are_warned_of),
    };
    return cmocka_run_group_tests_name("gyre train --scaling", tests, NULL, NULL);
}
