/* What is asked of the head of a dump or trace that was read from a file. */
#ifndef GYRE_TRANSPORT_RECORDER_HEAD_H
#define GYRE_TRANSPORT_RECORDER_HEAD_H

#include "transport/recorder/record.h"

/* Ends the texts of a head, whatever they hold, and makes them printable. */
void gyre_record_clean_texts(struct gyre_record_head *head);

/* What is wrong with the rank that a head tells; NULL: nothing. */
const char *gyre_record_rank_fault(const struct gyre_record_head *head);

#endif
