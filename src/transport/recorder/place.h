/* The memory of a rank's records. */
#ifndef GYRE_TRANSPORT_RECORDER_PLACE_H
#define GYRE_TRANSPORT_RECORDER_PLACE_H

#include "device/device.h"

/* Takes the launcher's file, or makes a region of the process's own. A status: no memory. */
int gyre_record_place_take(uint32_t records, struct gyre_region *region,
                           struct gyre_trouble *trouble);

/* A launcher's file for a rank that it starts; -1, and a word of why, where there can be none. */
int gyre_record_place_make(void);

/* Writes the records in a launcher's file as a dump, where a rank has died without one: it wrote
 * records, and has neither left nor failed. `number`: of the signal that has ended it, which the
 * dump tells then; 0: none. */
void gyre_record_place_keep(int fd, int number);

#endif
