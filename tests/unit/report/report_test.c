/* The files of a report, read back: JSON lines, CSV, and disks that are full. */
#include "unit/report/report_rig.h"

#include <locale.h>
#include <signal.h>
#include <sys/resource.h>

/* -- JSON -------------------------------------------------------------------------------------- */

/* A flat object: strict enough that what passes is JSON. */
struct object {
    int members;
    struct member {
        char key[32], word[32]; /* of a string; "null" */
        bool is_null;
        double number;
    } member[16];
};

static const char *parse_string(const char *at, char *out)
{
    assert_int_equal(*at, '"');
    size_t length = strcspn(++at, "\"\\");
    assert_int_equal(at[length], '"');
    assert_true(length < 32);
    memcpy(out, at, length);
    out[length] = '\0';
    return at + length + 1;
}

static const char *parse_value(const char *at, struct member *member)
{
    char *end;
    if (*at == '"')
        return parse_string(at, member->word);
    if (strncmp(at, "null", 4) == 0) {
        member->is_null = true;
        return at + 4;
    }
    assert_true(*at == '-' || (*at >= '0' && *at <= '9')); /* strtod would take nan and inf */
    member->number = strtod(at, &end);
    assert_ptr_not_equal(end, at);
    return end;
}

/* One line; returns where the next begins. */
static const char *parse_object(const char *at, struct object *object)
{
    memset(object, 0, sizeof *object);
    assert_int_equal(*at, '{');
    do {
        struct member *member = &object->member[object->members++];
        assert_in_range(object->members, 1, 16);
        at = parse_string(at + 1, member->key);
        assert_int_equal(*at, ':');
        at = parse_value(at + 1, member);
    } while (*at == ',');
    assert_memory_equal(at, "}\n", 2);
    return at + 2;
}

static const struct member *member(const struct object *object, const char *key)
{
    for (int i = 0; i < object->members; i++)
        if (strcmp(object->member[i].key, key) == 0)
            return &object->member[i];
    fail_msg("no \"%s\"", key);
    return NULL;
}

static void assert_number(const struct object *object, const char *key, double value)
{
    assert_false(member(object, key)->is_null);
    assert_memory_equal(&member(object, key)->number, &value, sizeof value);
}

static void assert_nothing(const struct object *object, const char *key)
{
    assert_true(member(object, key)->is_null);
}

static void check_json(const char *at)
{
    struct object object;
    at = parse_object(at, &object);
    assert_string_equal(member(&object, "kind")->word, "step");
    assert_number(&object, "time", 1700000000.5);
    assert_number(&object, "step", 1);
    assert_number(&object, "loss", 1 / 3.0);
    assert_number(&object, "accuracy", 0.1);
    assert_number(&object, "learning_rate", 0.1 + 0.2);
    assert_number(&object, "gradient_norm", 1e-300);
    assert_number(&object, "loss_scale", 65536);
    assert_number(&object, "exposed_seconds", 0.006);
    assert_number(&object, "reduced_bytes", 123456789012);
    at = parse_object(at, &object);
    assert_nothing(&object, "loss");
    assert_nothing(&object, "learning_rate");
    assert_nothing(&object, "accuracy");
    assert_nothing(&object, "gradient_norm");
    assert_nothing(&object, "loss_scale");
    at = parse_object(at, &object);
    assert_string_equal(member(&object, "kind")->word, "epoch");
    assert_number(&object, "test_accuracy", 0.81);
    assert_number(&object, "validation_loss", 0.25);
    assert_number(&object, "validation_accuracy", 0.75);
    assert_number(&object, "samples_per_second", 12345.6);
    at = parse_object(at, &object);
    assert_nothing(&object, "accuracy");
    assert_nothing(&object, "test_loss");
    assert_nothing(&object, "validation_loss");
    assert_nothing(&object, "exposed_share");
    assert_int_equal(*at, '\0');
}

static void json_reads_back_bit_for_bit(void **state)
{
    struct gyre_report_options options = to_files();
    (void)state;
    options.metrics = inside("run.jsonl");
    struct gyre_report *report = opened(&options);
    report_four(report);
    char *text = contents(inside("run.jsonl"), NULL); /* before close: every line is out */
    check_json(text);
    free(text);
    assert_int_equal(gyre_report_close(report, NULL), 0);
}

static void numbers_know_no_language(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8",
                                         "pl_PL.UTF-8"};
    struct gyre_report_options options = to_files();
    int i = 0;
    (void)state;
    while (i < 4 && !setlocale(LC_ALL, commas[i]))
        i++;
    if (i == 4)
        skip(); /* no locale with a decimal comma is installed */
    options.metrics = inside("comma.jsonl");
    struct gyre_report *report = opened(&options);
    report_four(report);
    assert_int_equal(gyre_report_close(report, NULL), 0);
    setlocale(LC_ALL, "C");
    char *text = contents(inside("comma.jsonl"), NULL);
    check_json(text);
    free(text);
}

/* -- CSV --------------------------------------------------------------------------------------- */

static void csv_has_steps_and_epochs_apart(void **state)
{
    struct gyre_report_options options = to_files();
    (void)state;
    options.csv = inside("my.run.csv");
    struct gyre_report *report = opened(&options);
    report_four(report);
    assert_int_equal(gyre_report_close(report, NULL), 0);
    char *steps = contents(inside("my.run.csv"), NULL);
    assert_string_equal(
        steps, "time,step,epoch,samples,loss,accuracy,learning_rate,gradient_norm,loss_scale,"
               "seconds,exposed_seconds,reduced_bytes\n"
               "1700000000.500000,1,1,640,0.33333333333333331,0.10000000000000001,0."
               "30000000000000004,1e-300,"
               "65536,0.050000000000000003,0.0060000000000000001,123456789012\n"
               "1700000001.000000,2,1,640,nan,,inf,,,0.050000000000000003,"
               "0.0060000000000000001,123456789012\n");
    char *epochs = contents(inside("my.run-epochs.csv"), NULL);
    assert_string_equal(epochs,
                        "time,epoch,steps,loss,accuracy,test_loss,test_accuracy,seconds,"
                        "samples_per_second,exposed_share,validation_loss,validation_accuracy\n"
                        "1700000002.000000,1,10,0.43209999999999998,0.87649999999999995,0.5,"
                        "0.81000000000000005,62,12345.6,0.12,0.25,0.75\n"
                        "1700000003.000000,2,10,0.43209999999999998,,,,62,12345.6,,,\n");
    free(steps);
    free(epochs);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static char *csv_after_one_step(const char *path, bool append)
{
    struct gyre_report_options options = to_files();
    struct gyre_step_record record = step_at(3);
    options.csv = path;
    options.append = append;
    struct gyre_report *report = opened(&options);
    assert_int_equal(gyre_report_step(report, &record, BEGAN_NS, NULL), 0);
    assert_int_equal(gyre_report_close(report, NULL), 0);
    return contents(path, NULL);
}

/* A run that was killed while it wrote may have left half a line. */
static void a_resumed_run_adds_and_ends_a_torn_line(void **state)
{
    const char *path = inside("resumed.csv");
    (void)state;
    write_file(path, "time,step\n1,1\n2,");
    char *text = csv_after_one_step(path, true);
    assert_memory_equal(text, "time,step\n1,1\n2,\n1700000000.000000,3,", 36);
    free(text);
    text = csv_after_one_step(path, true);
    assert_null(strstr(text, "\n\n"));
    assert_int_equal(strncmp(text, "time,step\n", 10), 0);
    free(text);
    text = csv_after_one_step(path, false);
    assert_int_equal(strncmp(text, "time,step,epoch", 15), 0);
    assert_null(strstr(text, "2,\n"));
    free(text);
}

/* -- files that cannot be written -------------------------------------------------------------- */

static void a_full_disk_is_told_once_by_name(void **state)
{
    struct gyre_report_options options = to_files();
    struct gyre_step_record record = step_at(7);
    struct gyre_trouble trouble = {0}, second = {0};
    (void)state;
    options.metrics = "/dev/full";
    options.csv = inside("beside.csv");
    struct gyre_report *report = opened(&options);
    assert_int_equal(gyre_report_step(report, &record, BEGAN_NS, &trouble), -ENOSPC);
    assert_string_equal(trouble.text, "writing /dev/full at step 7: No space left on device, "
                                      "so nothing after that is in it");
    assert_int_equal(gyre_report_step(report, &record, BEGAN_NS, &second), 0);
    assert_int_equal(second.status, 0);
    assert_int_equal(gyre_report_close(report, &second), 0);
    char *text = contents(options.csv, NULL); /* which was written on */
    assert_non_null(strstr(strstr(text, ",7,1,640,"), "\n1700000000.000000,7,1,"));
    free(text);
}

static void a_curve_that_finds_no_room_is_told_at_the_end(void **state)
{
    struct gyre_report_options options = to_files();
    struct gyre_trouble trouble = {0};
    (void)state;
    options.svg = "/dev/full";
    assert_int_equal(gyre_report_close(opened(&options), &trouble), -ENOSPC);
    assert_non_null(strstr(trouble.text, "/dev/full at the end"));
}

/* The kernel takes a part of the line: a reader must not find it. */
static void no_half_line_stays_where_the_disk_ends(void **state)
{
    struct gyre_report_options options = to_files();
    struct rlimit before, small = {700, RLIM_INFINITY};
    struct gyre_step_record record = step_at(1);
    struct gyre_trouble trouble = {0};
    struct object object;
    (void)state;
    options.metrics = inside("limited.jsonl");
    struct gyre_report *report = opened(&options);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = 0;
    for (; record.step <= 20 && !status; record.step++)
        status = gyre_report_step(report, &record, BEGAN_NS, &trouble);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, -EFBIG);
    assert_int_equal(gyre_report_close(report, NULL), 0);
    char *text = contents(options.metrics, NULL);
    int lines = 0;
    for (const char *at = text; *at; lines++)
        at = parse_object(at, &object);
    assert_int_equal(lines, (int)record.step - 2);
    free(text);
}

static void paths_that_cannot_be_opened_change_nothing(void **state)
{
    struct gyre_report_options options = to_files();
    struct gyre_trouble trouble = {0};
    struct gyre_report *report;
    (void)state;
    write_file(inside("kept.jsonl"), "kept\n");
    options.metrics = inside("kept.jsonl");
    options.csv = inside("nowhere/run.csv");
    assert_int_equal(gyre_report_open(&report, &options, BEGAN_NS, &trouble), -ENOENT);
    assert_null(report);
    assert_non_null(strstr(trouble.text, options.csv));
    char *text = contents(options.metrics, NULL);
    assert_string_equal(text, "kept\n");
    free(text);
    options.csv = NULL;
    options.tensorboard = inside("kept.jsonl/board");
    trouble.status = 0;
    assert_int_equal(gyre_report_open(&report, &options, BEGAN_NS, &trouble), -ENOTDIR);
    assert_non_null(strstr(trouble.text, "kept.jsonl"));
}

static void one_file_takes_one_report(void **state)
{
    struct gyre_report_options options = to_files();
    struct gyre_trouble trouble = {0};
    struct gyre_report *report;
    (void)state;
    options.metrics = inside("twin");
    options.svg = inside("./twin");
    assert_int_equal(gyre_report_open(&report, &options, BEGAN_NS, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "are one file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_reads_back_bit_for_bit),
        cmocka_unit_test(numbers_know_no_language),
        cmocka_unit_test(csv_has_steps_and_epochs_apart),
        cmocka_unit_test(a_resumed_run_adds_and_ends_a_torn_line),
        cmocka_unit_test(a_full_disk_is_told_once_by_name),
        cmocka_unit_test(a_curve_that_finds_no_room_is_told_at_the_end),
        cmocka_unit_test(no_half_line_stays_where_the_disk_ends),
        cmocka_unit_test(paths_that_cannot_be_opened_change_nothing),
        cmocka_unit_test(one_file_takes_one_report),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
