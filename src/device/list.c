/* Lists of devices. Tested by tests/program/cuda/devices.c. */
#include "device/device.h"

#include <stdlib.h>

#define DIGITS_MOST 4

bool gyre_device_list_read(const char *text, int place, struct gyre_device_list *list)
{
    *list = (struct gyre_device_list){0, -1};
    for (;; text++) {
        char *end;
        long device = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || end - text > DIGITS_MOST)
            return false;
        if (list->count++ == place)
            list->wanted = (int)device;
        text = end;
        if (!*text)
            return true;
        if (*text != ',')
            return false;
    }
}
