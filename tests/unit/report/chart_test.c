/* The curves of a report: series of any length in 800 bins, and a drawing that XML readers take. */
#include "report/inside.h"
#include "rig/xml.h"
#include "unit/report/report_rig.h"

#include <math.h>

/* -- series ------------------------------------------------------------------------------------ */

static void check_series(uint64_t points, double slope)
{
    struct gyre_report_series *series = calloc(1, sizeof *series);
    uint64_t found = 0;
    for (uint64_t i = 1; i <= points; i++)
        gyre_report_series_add(series, (double)i, (double)i * slope);
    assert_true(series->bins <= GYRE_REPORT_BINS);
    assert_true(series->bins >= (points < 400 ? points : 400));
    for (uint32_t i = 0; i < series->bins; i++) {
        const struct gyre_report_bin *bin = &series->bin[i];
        double first = (double)found + 1, last = (double)(found + bin->points);
        assert_true(bin->low == fmin(slope * first, slope * last));
        assert_true(bin->high == fmax(slope * first, slope * last));
        assert_true(fabs(bin->x - (first + last) / 2) < 1e-6 * last);
        assert_true(fabs(bin->y - slope * bin->x) < 1e-5 * last);
        assert_true(bin->points == series->width || i == series->bins - 1);
        found += bin->points;
    }
    assert_int_equal(found, points);
    free(series);
}

static void a_series_keeps_every_point_in_order(void **state)
{
    static const uint64_t lengths[] = {0, 1, 799, 800, 801, 1599, 1600, 1601, 3333, 100000};
    (void)state;
    for (int i = 0; i < 10; i++)
        check_series(lengths[i], 3), check_series(lengths[i], -3);
}

/* -- scales ------------------------------------------------------------------------------------ */

/* 1, 2 or 5 times a power of ten, and nothing beside it. */
static void assert_round(double value)
{
    double power = pow(10, floor(log10(value * 1.000001))), first = value / power;
    assert_true(fabs(first - 1) < 1e-6 || fabs(first - 2) < 1e-6 || fabs(first - 5) < 1e-6);
}

static void check_ticks(const struct gyre_report_scale *scale, double low, double high)
{
    double tick[GYRE_REPORT_TICKS], slack = 1e-6 * (high - low);
    int ticks = gyre_report_scale_ticks(scale, tick);
    assert_in_range(ticks, 3, 13);
    assert_true(tick[0] >= scale->low - (scale->log ? scale->low * 1e-3 : slack));
    assert_true(scale->low <= low + slack && scale->high >= high - slack);
    for (int i = 1; i < ticks; i++) {
        if (scale->log)
            assert_round(tick[i]);
        else
            assert_round(tick[i] - tick[i - 1]);
        assert_true(tick[i] > tick[i - 1] && tick[i] <= scale->high + slack);
    }
}

static void scales_hold_their_values_between_round_ticks(void **state)
{
    (void)state;
    for (double low = -3.7; low < 4; low += 0.83)
        for (double span = 1.1e-6; span < 1e9; span *= 3.3) {
            struct gyre_report_scale linear = gyre_report_scale_linear(low, low + span, 6);
            struct gyre_report_scale log =
                gyre_report_scale_logarithmic(pow(10, low), pow(10, low + 1.6 + log1p(span)));
            check_ticks(&linear, low, low + span);
            check_ticks(&log, pow(10, low), pow(10, low + 1.6 + log1p(span)));
        }
}

/* -- words ------------------------------------------------------------------------------------- */

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

/* -- drawings ---------------------------------------------------------------------------------- */

static char *drawn(const char *title, uint64_t epochs, uint64_t steps, double (*loss)(double))
{
    struct gyre_report_options options = to_files();
    uint64_t now = BEGAN_NS, step = 1;
    options.svg = inside("run.svg");
    options.title = title;
    options.epochs = epochs;
    options.steps_per_epoch = steps;
    struct gyre_report *report = opened(&options);
    for (uint64_t e = 1; e <= epochs; e++) {
        for (uint64_t i = 0; i < steps; i++, step++) {
            struct gyre_step_record record = step_at(step);
            record.epoch = e;
            record.loss = loss((double)step);
            assert_int_equal(gyre_report_step(report, &record, now += GYRE_MS, NULL), 0);
        }
        struct gyre_epoch_record record = epoch_at(e);
        record.steps = steps;
        record.loss = record.test_loss = loss((double)step);
        assert_int_equal(gyre_report_epoch(report, &record, now, NULL), 0);
    }
    assert_int_equal(gyre_report_close(report, NULL), 0);
    return contents(options.svg, NULL);
}

static double falling(double x)
{
    return 2.3 * exp(-x / 2000) + 0.3;
}

static double steep(double x)
{
    return exp(-x / 1000);
}

static double lost(double x)
{
    (void)x;
    return NAN;
}

static double huge(double x)
{
    return ((int)x % 2 ? -1 : 1) * 1e308;
}

static double still(double x)
{
    (void)x;
    return 0;
}

static void long_runs_stay_small(void **state)
{
    (void)state;
    char *text = drawn("long", 5, 4000, falling);
    xml_check(text);
    assert_null(strstr(text, "<script"));
    const char *line =
        strstr(text, "class=\"line step\" d=\"M6"); /* the legend's begins elsewhere */
    assert_non_null(line);
    char *end = strchr(strstr(line, "d=\"") + 3, '"');
    *end = '\0';
    assert_in_range(count(line, "L"), 399, 799);
    *end = '"';
    assert_int_equal(count(text, "<circle"), 11); /* five epochs twice, and the legend */
    assert_non_null(strstr(text, ">5 epochs, 20,000 steps, 0:20<"));
    assert_non_null(strstr(text, ">epoch<"));
    assert_non_null(strstr(text, "prefers-color-scheme: dark"));
    free(text);
}

static void axes_have_round_numbers(void **state)
{
    (void)state;
    char *text = drawn("linear", 1, 1000, falling);
    assert_non_null(strstr(text, ">loss<"));
    assert_non_null(strstr(text, ">0.5<"));
    assert_non_null(strstr(text, ">2.5<"));
    assert_non_null(strstr(text, ">1,000<"));
    assert_non_null(strstr(text, ">step<"));
    free(text);
    text = drawn("steep", 1, 5000, steep);
    assert_non_null(strstr(text, ">loss, logarithmic<"));
    assert_non_null(strstr(text, ">0.01<"));
    assert_non_null(strstr(text, ">0.2<"));
    free(text);
}

static void any_numbers_make_a_drawing(void **state)
{
    double (*const losses[])(double) = {falling, steep, lost, huge, still};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (uint64_t steps = 0; steps < 4; steps++)
            for (uint64_t epochs = 0; epochs < 4; epochs++) {
                char *text = drawn("any", epochs, steps, losses[i]);
                assert_in_range(xml_check(text), 5, 200);
                if (losses[i] != lost && epochs * steps > 0)
                    assert_in_range(count(text, "text-anchor=\"end\""), 6, 25); /* ticks upward */
                assert_null(strstr(text, "nan"));
                assert_null(strstr(text, "inf"));
                free(text);
            }
    char *text = drawn("lost", 1, 3, lost);
    assert_non_null(strstr(text, "3 steps without a finite loss"));
    assert_non_null(strstr(text, "no finite loss was reported"));
    free(text);
}

/* The validation has the place of the test, under its own name. */
static void a_validation_is_drawn(void **state)
{
    struct gyre_report_options options = to_files();
    struct gyre_epoch_record record = epoch_at(1);
    struct gyre_step_record step = step_at(1);
    (void)state;
    record.validated = true;
    record.validation_loss = 0.25;
    record.validation_accuracy = 0.5;
    options.svg = inside("validated.svg");
    struct gyre_report *report = opened(&options);
    assert_int_equal(gyre_report_step(report, &step, BEGAN_NS, NULL), 0);
    assert_int_equal(gyre_report_epoch(report, &record, BEGAN_NS, NULL), 0);
    assert_int_equal(gyre_report_close(report, NULL), 0);
    char *text = contents(options.svg, NULL);
    xml_check(text);
    assert_non_null(strstr(text, ">validation 0.2500<"));
    assert_non_null(strstr(text, ">validation 50.00 %<"));
    assert_null(strstr(text, ">test"));
    free(text);
}

static void any_title_is_text(void **state)
{
    static const char title[] = "<b> & \"Öl\" \x01 \xff \xc3 \xed\xa0\x80 \xf0\x9f\x8c\x80 end";
    (void)state;
    char *text = drawn(title, 1, 5, falling);
    xml_check(text);
    assert_int_equal(count(text, "&#60;b&#62; &#38; \"Öl\" ? ? ? ??? \xf0\x9f\x8c\x80 end"), 2);
    free(text);
}

/* Where the two names of the ends stand: the y of each. */
static void ends(double train, double test, double y[2])
{
    struct gyre_report_series *of = calloc(2, sizeof *of);
    struct gyre_report_panel panel = {.unit = 1, .y = {.low = 0, .high = 1, .from = 400, .to = 0}};
    char *text = NULL;
    size_t length;
    gyre_report_series_add(&of[0], 1, train);
    gyre_report_series_add(&of[1], 1, test);
    panel.to = open_memstream(&text, &length);
    gyre_report_panel_ends(&panel, &of[0], &of[1], (const char *const[]){"train", "test"});
    fclose(panel.to);
    const char *at = text;
    for (int i = 0; i < 2; i++) {
        assert_non_null(at = strstr(at, " y=\""));
        y[i] = strtod(at += strlen(" y=\""), NULL);
    }
    free(text);
    free(of);
}

/* Names stand at their ends, 4 lower. Where they would cover each other they are moved apart, by as
 * much each, and the upper end has the upper name. */
static void names_of_ends_do_not_cover_each_other(void **state)
{
    static const struct {
        double train, test, y[2];
    } cases[] = {{0.75, 0.25, {104, 304}},
                 {0.50, 0.50, {211.5, 196.5}},
                 {0.51, 0.49, {192.5 + 4, 207.5 + 4}},
                 {0.48, 0.50, {211.5 + 4, 196.5 + 4}},
                 {0.50, 0.4625, {204, 219}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double y[2];
        ends(cases[i].train, cases[i].test, y);
        for (int k = 0; k < 2; k++)
            assert_true(fabs(y[k] - cases[i].y[k]) < 0.06);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_series_keeps_every_point_in_order),
        cmocka_unit_test(scales_hold_their_values_between_round_ticks),
        cmocka_unit_test(long_runs_stay_small),
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(any_numbers_make_a_drawing),
        cmocka_unit_test(a_validation_is_drawn),
        cmocka_unit_test(any_title_is_text),
        cmocka_unit_test(names_of_ends_do_not_cover_each_other),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
