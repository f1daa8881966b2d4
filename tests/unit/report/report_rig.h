/* What the tests of reports share: records with telling numbers, files read whole. */
#ifndef GYRE_TESTS_UNIT_REPORT_REPORT_RIG_H
#define GYRE_TESTS_UNIT_REPORT_REPORT_RIG_H

#include "base/clock.h"
#include "rig/clean_room.h"
#include "report/report.h"
#include "rig/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEGAN_NS (5 * GYRE_SECOND)
#define WALL_NS  (UINT64_C(1700000000) * GYRE_SECOND)

static char folder[64];

static inline int folder_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gyre-report-XXXXXX");
    return clean_room_make(folder);
}

static inline int folder_remove(void **state)
{
    (void)state;
    return clean_room_remove(folder);
}

/* In the test's folder; a few can be in use at once. */
static inline const char *inside(const char *name)
{
    static char path[8][128];
    static unsigned next;
    char *one = path[next++ % 8];
    snprintf(one, sizeof path[0], "%s/%s", folder, name);
    return one;
}

/* Ends in '\0'; `length` may be NULL. */
static inline char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    size_t got = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    if (length)
        *length = got;
    return text;
}

static inline struct gyre_report_options to_files(void)
{
    return (struct gyre_report_options){
        .epochs = 2, .steps_per_epoch = 10, .wall_ns = WALL_NS, .terminal = -1, .warnings = -1};
}

/* Loss falls as 3 / step; what is optional is absent. */
static inline struct gyre_step_record step_at(uint64_t step)
{
    return (struct gyre_step_record){.step = step,
                                     .epoch = (step + 9) / 10,
                                     .samples = 640,
                                     .loss = 3.0 / (double)step,
                                     .accuracy = -1,
                                     .learning_rate = 0.001,
                                     .gradient_norm = -1,
                                     .seconds = 0.05,
                                     .exposed_seconds = 0.006,
                                     .reduced_bytes = 123456789012};
}

static inline struct gyre_epoch_record epoch_at(uint64_t epoch)
{
    return (struct gyre_epoch_record){.epoch = epoch,
                                      .steps = 10,
                                      .loss = 0.4321,
                                      .accuracy = 0.8765,
                                      .tested = true,
                                      .test_loss = 0.5,
                                      .test_accuracy = 0.81,
                                      .seconds = 62,
                                      .samples_per_second = 12345.6,
                                      .exposed_share = 0.12};
}

static inline struct gyre_report *opened(const struct gyre_report_options *options)
{
    struct gyre_report *report;
    struct gyre_trouble trouble = {0};
    if (gyre_report_open(&report, options, BEGAN_NS, &trouble) != 0)
        fail_msg("%s", trouble.text);
    return report;
}

/* One step with everything, one with nothing, an epoch tested and one not. */
static inline void report_four(struct gyre_report *report)
{
    struct gyre_step_record full = step_at(1), bare = step_at(2);
    struct gyre_epoch_record tested = epoch_at(1), untested = epoch_at(2);
    full.loss = 1 / 3.0;
    full.accuracy = 0.1;
    full.learning_rate = 0.1 + 0.2; /* 16 digits would say 0.3 */
    full.gradient_norm = 1e-300;
    full.loss_scale = 65536;
    bare.loss = NAN;
    bare.learning_rate = INFINITY;
    tested.validated = true;
    tested.validation_loss = 0.25;
    tested.validation_accuracy = 0.75;
    untested.tested = false;
    untested.accuracy = untested.exposed_share = -1;
    assert_int_equal(gyre_report_step(report, &full, BEGAN_NS + GYRE_SECOND / 2, NULL), 0);
    assert_int_equal(gyre_report_step(report, &bare, BEGAN_NS + GYRE_SECOND, NULL), 0);
    assert_int_equal(gyre_report_epoch(report, &tested, BEGAN_NS + 2 * GYRE_SECOND, NULL), 0);
    assert_int_equal(gyre_report_epoch(report, &untested, BEGAN_NS + 3 * GYRE_SECOND, NULL), 0);
}

#endif
