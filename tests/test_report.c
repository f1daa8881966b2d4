/* The files of a report, read back: JSON lines, CSV, TensorBoard events, and disks that are full. */
#include "base/bytes.h"
#include "base/crc.h"
#include "report_rig.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

/* One step with everything, one with nothing, an epoch tested and one not. */
static void report_four(struct gyre_report *report)
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
    untested.tested = false;
    untested.accuracy = untested.exposed_share = -1;
    assert_int_equal(gyre_report_step(report, &full, BEGAN_NS + GYRE_SECOND / 2, NULL), 0);
    assert_int_equal(gyre_report_step(report, &bare, BEGAN_NS + GYRE_SECOND, NULL), 0);
    assert_int_equal(gyre_report_epoch(report, &tested, BEGAN_NS + 2 * GYRE_SECOND, NULL), 0);
    assert_int_equal(gyre_report_epoch(report, &untested, BEGAN_NS + 3 * GYRE_SECOND, NULL), 0);
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
    assert_number(&object, "samples_per_second", 12345.6);
    at = parse_object(at, &object);
    assert_nothing(&object, "accuracy");
    assert_nothing(&object, "test_loss");
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
                        "samples_per_second,exposed_share\n"
                        "1700000002.000000,1,10,0.43209999999999998,0.87649999999999995,0.5,"
                        "0.81000000000000005,62,12345.6,0.12\n"
                        "1700000003.000000,2,10,0.43209999999999998,,,,62,12345.6,\n");
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

/* -- events ------------------------------------------------------------------------------------ */

/* TensorFlow's way back, so that the mask is not merely made twice. */
static uint32_t unmasked(uint32_t sum)
{
    sum -= UINT32_C(0xa282ead8);
    return sum >> 17 | sum << 15;
}

struct event {
    double wall;
    uint64_t step;
    char version[32];
    int values;
    struct {
        char tag[40];
        float number;
    } value[16];
};

static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    int shift = 0;
    for (;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void take_text(const uint8_t **at, char *out, size_t room)
{
    uint64_t length = varint(at);
    assert_true(length < room);
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
}

static void decode_value(const uint8_t **at, struct event *event)
{
    const uint8_t *end;
    uint64_t length;
    int i = event->values++;
    assert_int_equal(varint(at), 1 << 3 | 2);
    length = varint(at);
    end = *at + length;
    assert_int_equal(varint(at), 1 << 3 | 2);
    take_text(at, event->value[i].tag, sizeof event->value[i].tag);
    assert_int_equal(varint(at), 2 << 3 | 5);
    uint32_t bits = gyre_get32(*at);
    memcpy(&event->value[i].number, &bits, 4);
    *at += 4;
    assert_ptr_equal(*at, end);
}

static void decode_event(const uint8_t *at, size_t length, struct event *event)
{
    const uint8_t *end = at + length;
    memset(event, 0, sizeof *event);
    while (at < end) {
        uint64_t key = varint(&at);
        if (key == (1 << 3 | 1)) {
            uint64_t bits = gyre_get64(at);
            memcpy(&event->wall, &bits, 8);
            at += 8;
        } else if (key == 2 << 3) {
            event->step = varint(&at);
        } else if (key == (3 << 3 | 2)) {
            take_text(&at, event->version, sizeof event->version);
        } else {
            assert_int_equal(key, 5 << 3 | 2);
            uint64_t summary = varint(&at);
            const uint8_t *stop = at + summary;
            while (at < stop)
                decode_value(&at, event);
            assert_ptr_equal(at, stop);
        }
    }
    assert_ptr_equal(at, end);
}

static const uint8_t *decode_record(const uint8_t *at, struct event *event)
{
    uint64_t length = gyre_get64(at);
    assert_int_equal(unmasked(gyre_get32(at + 8)), gyre_crc32c(0, at, 8));
    assert_int_equal(unmasked(gyre_get32(at + 12 + length)), gyre_crc32c(0, at + 12, length));
    decode_event(at + 12, length, event);
    return at + 16 + length;
}

static void find_event_file(const char *where, char *path, size_t room)
{
    char start[64];
    DIR *dir = opendir(where);
    assert_non_null(dir);
    struct dirent *entry;
    do {
        entry = readdir(dir);
        assert_non_null(entry);
    } while (entry->d_name[0] == '.');
    snprintf(start, sizeof start, "events.out.tfevents.1700000000.");
    assert_memory_equal(entry->d_name, start, strlen(start));
    snprintf(path, room, "%s/%s", where, entry->d_name);
    closedir(dir);
}

static void tensorboard_finds_events(void **state)
{
    struct gyre_report_options options = to_files();
    struct event event;
    char path[512];
    size_t length;
    (void)state;
    options.tensorboard = inside("boards/first/");
    struct gyre_report *report = opened(&options);
    report_four(report);
    find_event_file(inside("boards/first"), path, sizeof path);
    char *bytes = contents(path, &length);
    const uint8_t *at = (const uint8_t *)bytes;
    at = decode_record(at, &event);
    assert_string_equal(event.version, "brain.Event:2");
    assert_true(event.wall == 1700000000.0);
    at = decode_record(at, &event);
    assert_int_equal(event.step, 1);
    assert_true(event.wall == 1700000000.5);
    assert_int_equal(event.values, 8);
    assert_string_equal(event.value[0].tag, "train/loss");
    assert_true(event.value[0].number == (float)(1 / 3.0));
    at = decode_record(at, &event);
    assert_int_equal(event.values, 5); /* accuracy, norm and scale are absent */
    assert_true(isnan(event.value[0].number));
    assert_string_equal(event.value[1].tag, "train/learning_rate");
    at = decode_record(at, &event);
    assert_int_equal(event.values, 7);
    assert_string_equal(event.value[2].tag, "epoch/test_loss");
    assert_true(event.value[2].number == 0.5f);
    at = decode_record(at, &event);
    assert_int_equal(event.values, 3);
    assert_ptr_equal(at, bytes + length);
    free(bytes);
    assert_int_equal(gyre_report_close(report, NULL), 0);
}

/* TensorFlow's own first record, but for the time: bytes that were not made by this house. */
static void the_first_record_is_tensorflows(void **state)
{
    static const uint8_t frame[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22};
    struct gyre_report_options options = to_files();
    char path[512];
    (void)state;
    options.tensorboard = inside("boards/second");
    assert_int_equal(gyre_report_close(opened(&options), NULL), 0);
    find_event_file(options.tensorboard, path, sizeof path);
    char *bytes = contents(path, NULL);
    assert_memory_equal(bytes, frame, sizeof frame);
    assert_memory_equal(bytes + 12 + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    free(bytes);
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
        cmocka_unit_test(tensorboard_finds_events),
        cmocka_unit_test(the_first_record_is_tensorflows),
        cmocka_unit_test(a_full_disk_is_told_once_by_name),
        cmocka_unit_test(a_curve_that_finds_no_room_is_told_at_the_end),
        cmocka_unit_test(no_half_line_stays_where_the_disk_ends),
        cmocka_unit_test(paths_that_cannot_be_opened_change_nothing),
        cmocka_unit_test(one_file_takes_one_report),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
