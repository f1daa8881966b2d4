/* TensorBoard's event file of a report, decoded: frames and their sums, protobuf fields, values. */
#include "base/bytes.h"
#include "base/crc.h"
#include "unit/report/report_rig.h"

#include <dirent.h>

/* -- decoding ---------------------------------------------------------------------------------- */

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
    assert_int_equal(event.values, 9);
    assert_string_equal(event.value[2].tag, "epoch/test_loss");
    assert_true(event.value[2].number == 0.5f);
    assert_string_equal(event.value[7].tag, "epoch/validation_loss");
    assert_true(event.value[7].number == 0.25f);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensorboard_finds_events),
        cmocka_unit_test(the_first_record_is_tensorflows),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
