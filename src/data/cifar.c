/* Reads CIFAR-10's binary files. */
#include "data/cifar.h"

#include <inttypes.h>
#include <string.h>

int gyre_cifar_count(const char *name, uint64_t length, uint64_t *records,
                     struct gyre_trouble *trouble)
{
    uint64_t rest = length % GYRE_CIFAR_RECORD;
    *records = length / GYRE_CIFAR_RECORD;
    if (rest)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: record %" PRIu64 ", at byte %" PRIu64 ", has %" PRIu64
                                " bytes; CIFAR-10's have %d, a label and 3 x 32 x 32 pixels: the "
                                "file is cut short, or no CIFAR-10 file",
                                name, *records, length - rest, rest, GYRE_CIFAR_RECORD);
    if (!*records)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: is empty", name);
    return 0;
}

int gyre_cifar_take(const char *name, const uint8_t *bytes, uint64_t records, uint8_t *pixels,
                    int64_t *label, struct gyre_trouble *trouble)
{
    for (uint64_t i = 0; i < records; i++) {
        const uint8_t *record = bytes + i * GYRE_CIFAR_RECORD;
        if (record[0] >= GYRE_CIFAR_CLASSES)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: record %" PRIu64 ", at byte %" PRIu64
                                    ", has label %u; CIFAR-10 has classes 0 to 9",
                                    name, i, i * GYRE_CIFAR_RECORD, record[0]);
        label[i] = record[0];
        memcpy(pixels + i * GYRE_CIFAR_PIXELS, record + 1, GYRE_CIFAR_PIXELS);
    }
    return 0;
}
