/* A list of devices, as GYRE_DEVICES has it: numbers with commas between, 2,4,7. */
#ifndef GYRE_DEVICE_LIST_H
#define GYRE_DEVICE_LIST_H

#include <stdbool.h>

struct gyre_device_list {
    int count;
    int wanted; /* the device at the place that was asked for; -1: the list is shorter */
};

/* False: the text is anything but such a list. */
bool gyre_device_list_read(const char *text, int place, struct gyre_device_list *list);

#endif
