/* Writes TensorBoard's event file.
 *
 *     record:  length u64 │ masked CRC-32C of these 8 bytes u32 │ event │ masked CRC-32C of it u32
 *     event:   1: wall time (double)   2: step (varint)
 *              3: "brain.Event:2" (the first event)   or   5: summary
 *     summary: 1: value, repeated      value: 1: tag (string)   2: value (float)
 *
 * One record is one write, so a TensorBoard that reads along meets whole records. */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/disk/folder.h"
#include "base/log.h"
#include "report/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* -- protobuf ---------------------------------------------------------------------------------- */

enum { WIRE_VARINT, WIRE_DOUBLE, WIRE_BYTES, WIRE_FLOAT = 5 };
enum { EVENT_MAX = 2048, VALUE_MAX = 96 };

/* A message in the making. Its length is bounded: eleven values of at most VALUE_MAX bytes. */
struct message {
    size_t length;
    uint8_t bytes[EVENT_MAX];
};

static void put_varint(struct message *message, uint64_t value)
{
    for (; value > 127; value >>= 7)
        message->bytes[message->length++] = (uint8_t)(value | 128);
    message->bytes[message->length++] = (uint8_t)value;
}

static void put_field_key(struct message *message, unsigned field, unsigned wire)
{
    put_varint(message, field << 3 | wire);
}

static void put_bytes(struct message *message, unsigned field, const void *bytes, size_t length)
{
    put_field_key(message, field, WIRE_BYTES);
    put_varint(message, length);
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

static void put_double(struct message *message, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field_key(message, field, WIRE_DOUBLE);
    gyre_put64(message->bytes + message->length, bits);
    message->length += sizeof bits;
}

static void put_float(struct message *message, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field_key(message, field, WIRE_FLOAT);
    gyre_put32(message->bytes + message->length, bits);
    message->length += sizeof bits;
}

static void put_value(struct message *summary, const char *tag, double number)
{
    struct message value = {0};
    put_bytes(&value, 1, tag, strlen(tag));
    put_float(&value, 2, (float)number);
    put_bytes(summary, 1, value.bytes, value.length);
}

/* -- records ----------------------------------------------------------------------------------- */

/* A checksum as TensorFlow masks it: a sum over bytes that hold sums of their own would be weak. */
static uint32_t masked_sum(const void *bytes, size_t length)
{
    uint32_t sum = gyre_crc32c(0, bytes, length);
    return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

static void write_record(struct gyre_report_sink *to, const struct message *event)
{
    uint8_t record[EVENT_MAX + 16];
    gyre_put64(record, event->length);
    gyre_put32(record + 8, masked_sum(record, 8));
    memcpy(record + 12, event->bytes, event->length);
    gyre_put32(record + 12 + event->length, masked_sum(event->bytes, event->length));
    gyre_report_sink_write(to, record, event->length + 16);
}

void gyre_report_events_begin(struct gyre_report_sink *to, double wall)
{
    static const char version[] = "brain.Event:2";
    struct message event = {0};
    put_double(&event, 1, wall);
    put_bytes(&event, 3, version, sizeof version - 1);
    write_record(to, &event);
}

static void write_values(struct gyre_report_sink *to, const struct gyre_report_field *field,
                         int fields, const void *record, uint64_t step, double wall)
{
    struct message event = {0}, summary = {0};
    for (int i = 0; i < fields; i++) {
        double value;
        if (field[i].tag && gyre_report_value(&field[i], record, &value))
            put_value(&summary, field[i].tag, value);
    }
    put_double(&event, 1, wall);
    put_field_key(&event, 2, WIRE_VARINT);
    put_varint(&event, step);
    put_bytes(&event, 5, summary.bytes, summary.length);
    write_record(to, &event);
}

_Static_assert(GYRE_STEP_FIELDS *VALUE_MAX + 64 < EVENT_MAX, "a step fits into an event");
_Static_assert(GYRE_EPOCH_FIELDS *VALUE_MAX + 64 < EVENT_MAX, "an epoch fits into an event");

void gyre_report_events_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                             double wall)
{
    write_values(to, gyre_report_step_field, GYRE_STEP_FIELDS, record, record->step, wall);
}

void gyre_report_events_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                              double wall)
{
    write_values(to, gyre_report_epoch_field, GYRE_EPOCH_FIELDS, record, record->epoch, wall);
}

/* -- the file ---------------------------------------------------------------------------------- */

int gyre_report_events_open(struct gyre_report_sink *sink, const char *folder, double wall,
                            struct gyre_trouble *trouble)
{
    char path[PATH_MAX];
    int status = gyre_folder_make(folder, 0777, trouble);
    if (status) {
        gyre_trouble_wrap(trouble, "TensorBoard's files");
        return status;
    }
    int length = snprintf(path, sizeof path, "%s/events.out.tfevents.%" PRIu64 ".%s.%d", folder,
                          (uint64_t)wall, gyre_host_name(), (int)getpid());
    if (length >= (int)sizeof path)
        return gyre_trouble_set(trouble, -ENAMETOOLONG,
                                "TensorBoard's folder %.80s…: too long a path", folder);
    return gyre_report_sink_open(sink, path, trouble);
}
