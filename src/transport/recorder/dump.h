/* Records written to files. */
#ifndef GYRE_TRANSPORT_RECORDER_DUMP_H
#define GYRE_TRANSPORT_RECORDER_DUMP_H

#include "transport/recorder/book.h"

/* Writes all records behind a head, which may be a peer's, to "FOLDER/JOB-rank-N.gyrerec", FOLDER
 * as in GYRE_DUMP. `absent`: only where there is no such file. Without GYRE_DUMP nothing is
 * written. */
void gyre_recorder_dump(const struct gyre_record_head *head, bool absent);

void gyre_recorder_ignore_signal(const struct gyre_recorder *recorder);

/* With GYRE_DUMP, SIGUSR2 dumps this rank's records, unless the program has a handler of its
 * own. */
void gyre_recorder_dump_on_signal(struct gyre_recorder *recorder);

#endif
